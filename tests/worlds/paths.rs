//! Clean paths: rates, delays, sizes, families, many at once.

use base::{Instant, Rate};
use sim::integrity::{self, Ending, PORT, Plan};
use sim::{HostConfig, LinkConfig, Room, Way, World};

use config::Profile;

use crate::common::{Setup, address, at_secs, link, ms, or_panic, ordinary, secs};

#[test]
fn clean_path_both_families_and_profiles() {
    for ipv6 in [false, true] {
        for profile in [Profile::Linux, Profile::Millrace] {
            let mut setup = Setup::on(ordinary());
            setup.ipv6 = ipv6;
            setup.client = HostConfig::new("client", profile);
            setup.server = HostConfig::new("server", profile);
            setup.build().completes_by(at_secs(5));
        }
    }
}

#[test]
fn nothing_to_say_and_a_single_byte() {
    for (up, down) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        for ending in [Ending::HalfClose, Ending::Close] {
            let plan = Plan { up, down, ending, ..Plan::default() };
            Setup::on(ordinary()).plan(plan).build().completes_by(at_secs(2));
        }
    }
}

#[test]
fn no_delay_at_all() {
    let plan = Plan { up: 8 << 20, down: 8 << 20, ..Plan::default() };
    Setup::on(LinkConfig::default()).plan(plan).build().completes_by(at_secs(2));
}

/// Bytes that one direction delivers within `time`, as a share of what the link could, in percent.
fn utilisation(link: LinkConfig, time: core::time::Duration) -> u64 {
    let plan = Plan { up: u64::MAX >> 1, down: 0, ..Plan::default() };
    let mut t = Setup::on(link).plan(plan).build();
    or_panic(t.world.run_for(time));
    let ledger = t.ledger.borrow();
    assert!(ledger.violations.is_empty(), "{:?}", ledger.violations);
    let possible = link.rate.bytes_per_sec() * time.as_millis() as u64 / 1000;
    ledger.received() * 100 / possible
}

#[test]
fn fills_100_mbit_at_20_ms() {
    let share = utilisation(ordinary(), secs(5));
    assert!(share >= 70, "{share} %");
}

#[test]
fn fills_20_mbit_at_100_ms() {
    let share = utilisation(link(20, ms(50)), secs(10));
    assert!(share >= 70, "{share} %");
}

#[test]
fn fills_a_link_with_a_shallow_queue() {
    // A quarter of the bandwidth-delay product.
    let share = utilisation(LinkConfig { queue: Room::Bytes(62_500), ..ordinary() }, secs(8));
    assert!(share >= 60, "{share} %");
}

#[test]
fn small_and_large_packets() {
    for mtu in [1280, 1400, 1500, 4000, 9000] {
        let mut setup = Setup::on(ordinary()).hosts(|h| h.mtu = mtu);
        setup.ipv6 = mtu == 1280;
        let mut t = setup.build();
        t.completes_by(at_secs(5));
        assert_eq!(t.world.link_counters(t.link, Way::Forward).size, 0, "mtu {mtu}");
    }
}

#[test]
fn hosts_of_different_mtu() {
    let mut setup = Setup::on(ordinary());
    setup.client.mtu = 9000;
    setup.forward.mtu = 1500;
    setup.reverse.mtu = 1500;
    setup.build().completes_by(at_secs(5));
}

#[test]
fn twenty_connections_at_once() {
    let plan = Plan { flows: 20, up: 200_000, down: 200_000, ..Plan::default() };
    Setup::on(ordinary()).plan(plan).build().completes_by(at_secs(10));
}

#[test]
fn asymmetric_rates() {
    let mut setup = Setup::on(link(50, ms(5)));
    setup.reverse.rate = Rate::from_bits_per_sec(1_000_000);
    let plan = Plan { up: 10 << 20, down: 10_000, ..Plan::default() };
    setup.plan(plan).build().completes_by(at_secs(15));
}

#[test]
fn three_hosts_behind_a_switch() {
    let mut world = World::new(7);
    let plan = Plan { up: 500_000, down: 500_000, ..Plan::default() };
    let switch = world.add_switch();
    let mut ledgers = Vec::new();
    // The second host serves; the first and the third are its clients, one per family.
    let mut server = None;
    for (number, ipv6) in [(1, false), (3, true)] {
        let (client, app, ledger) = integrity::pair(address(2, ipv6, PORT), plan);
        let name = format!("client{number}");
        let client = world.add_host(HostConfig::new(&name, Profile::Linux), client);
        world.plug(client, switch, ordinary(), ordinary());
        if server.is_none() {
            let host = world.add_host(HostConfig::new("server", Profile::Linux), app);
            world.plug(host, switch, ordinary(), ordinary());
            server = Some(host);
        }
        ledgers.push(ledger);
    }
    let received = |ledger: &integrity::SharedLedger| {
        ledger.borrow().client.values().map(|a| a.received).sum::<u64>()
    };
    or_panic(world.expect_by(at_secs(20), "both clients have all", |_| {
        ledgers.iter().all(|l| received(l) == plan.down)
    }));
    for ledger in &ledgers {
        assert!(ledger.borrow().violations.is_empty(), "{:?}", ledger.borrow().violations);
    }
    or_panic(world.expect_quiet(secs(300)));
}

#[test]
fn one_seed_gives_one_trace_and_another_seed_another() {
    let run = |seed| {
        let mut setup = Setup::on(LinkConfig { jitter: ms(3), ..ordinary() });
        setup.seed = seed;
        let mut t = setup.build();
        t.completes_by(at_secs(10));
        t.world.trace_hash()
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

#[test]
fn a_stalled_host_catches_up() {
    let mut t = Setup::on(ordinary()).build();
    let server = t.server;
    t.world.at(Instant::from_millis(100), move |w| w.stall(server, Instant::from_millis(400)));
    t.completes_by(at_secs(5));
}
