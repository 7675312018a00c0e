//! Links that lose, reorder, duplicate, corrupt and go away.

use base::DropReason;
use sim::integrity::{Ending, Plan};
use sim::{LinkConfig, Loss, Reorder, Share, Way};

use crate::common::{Setup, at_secs, ms, or_panic, ordinary, secs};

#[test]
fn one_percent_of_loss() {
    let loss = Loss::Random(Share::percent(1));
    let mut t = Setup::on(LinkConfig { loss, ..ordinary() }).build();
    t.completes_by(at_secs(60));
    assert!(t.world.link_counters(t.link, Way::Forward).lost > 0);
}

#[test]
fn ten_percent_of_loss() {
    let loss = Loss::Random(Share::percent(10));
    for ipv6 in [false, true] {
        let mut setup = Setup::on(LinkConfig { loss, ..ordinary() });
        setup.ipv6 = ipv6;
        setup.build().completes_by(at_secs(300));
    }
}

#[test]
fn loss_in_bursts() {
    let loss = Loss::bursts(Share::percent(2), 10);
    Setup::on(LinkConfig { loss, ..ordinary() }).build().completes_by(at_secs(200));
}

#[test]
fn loss_without_sack_and_timestamps() {
    let loss = Loss::Random(Share::percent(3));
    let mut t = Setup::on(LinkConfig { loss, ..ordinary() })
        .hosts(|h| {
            h.params.tcp.sack = false;
            h.params.tcp.timestamps = false;
        })
        .build();
    t.completes_by(at_secs(300));
}

#[test]
fn reordering() {
    for by in [ms(1), ms(30)] {
        let reorder = Reorder { p: Share::percent(5), by };
        let mut t = Setup::on(LinkConfig { reorder, ..ordinary() }).build();
        t.completes_by(at_secs(60));
        assert!(t.world.link_counters(t.link, Way::Forward).reordered > 0);
    }
}

#[test]
fn every_frame_twice() {
    let link = LinkConfig { duplicate: Share::ALL, ..ordinary() };
    Setup::on(link).build().completes_by(at_secs(60));
}

#[test]
fn corruption_is_caught_by_checksums() {
    let link = LinkConfig { corrupt: Share::percent(3), ..ordinary() };
    for claimed in [false, true] {
        let setup = Setup::on(link).hosts(|h| {
            h.offloads.rx_ip_checksum = claimed;
            h.offloads.rx_tcp_checksum = claimed;
        });
        let mut t = setup.build();
        t.completes_by(at_secs(120));
        let drops = t.world.host(t.server).stack().drops();
        assert!(drops[DropReason::TcpChecksum as usize] > 0, "claimed: {claimed}");
        assert!(!t.world.host(t.server).checksum_trap());
    }
}

#[test]
fn link_goes_down_for_five_seconds() {
    let plan = Plan { up: 20 << 20, down: 1 << 20, ..Plan::default() };
    let mut t = Setup::on(ordinary()).plan(plan).build();
    let link = t.link;
    t.world.at(at_secs(1), move |w| w.set_up(link, false));
    or_panic(t.world.run_until(at_secs(5), |_| false));
    let before = t.received();
    or_panic(t.world.run_until(at_secs(6), |_| false));
    assert_eq!(t.received(), before, "nothing gets through");
    t.world.set_up(link, true);
    // The timer has backed off to a few seconds at most.
    t.completes_by(at_secs(30));
}

#[test]
fn partition_during_close() {
    for ending in [Ending::HalfClose, Ending::Close] {
        let plan = Plan { up: 100_000, down: 100_000, ending, ..Plan::default() };
        let mut t = Setup::on(ordinary()).plan(plan).build();
        let (ledger, link) = (std::rc::Rc::clone(&t.ledger), t.link);
        let what = "the last byte arrived";
        or_panic(t.world.expect_by(at_secs(5), what, |_| ledger.borrow().received() == 200_000));
        t.world.set_up(link, false);
        or_panic(t.world.run_for(secs(4)));
        t.world.set_up(link, true);
        t.completes_by(at_secs(120));
    }
}

#[test]
fn faults_in_one_direction_only() {
    let loss = Loss::Random(Share::percent(15));
    let mut setup = Setup::on(ordinary());
    setup.reverse = LinkConfig { loss, ..ordinary() };
    // Lost acknowledgements cost little: the next one covers them.
    let plan = Plan { up: 4 << 20, down: 0, ..Plan::default() };
    setup.plan(plan).build().completes_by(at_secs(30));
}
