//! Closed windows, small pools, small rings, small buffers.

use sim::integrity::Plan;
use sim::{LinkConfig, Loss, Share};
use tcp::ConnOptions;

use crate::common::{Setup, at_secs, ms, or_panic, ordinary, secs};

#[test]
fn a_reader_that_sleeps_closes_its_window_and_opens_it_again() {
    let plan = Plan { up: 2 << 20, down: 0, sleep: Some((300_000, secs(30))), ..Plan::default() };
    let options = ConnOptions { rcvbuf: Some(64 * 1024), ..ConnOptions::default() };
    let mut t = Setup::on(ordinary()).plan(Plan { options, ..plan }).build();
    or_panic(t.world.run_until(at_secs(20), |_| false));
    let during = t.received();
    assert!((300_000..1 << 20).contains(&during), "{during} bytes while it sleeps");
    t.completes_by(at_secs(45));
}

#[test]
fn a_slow_reader() {
    let plan = Plan {
        up: 300_000,
        down: 300_000,
        read_max: 2000,
        write_max: 3000,
        pause: Share::percent(20),
        pause_max: ms(20),
        ..Plan::default()
    };
    Setup::on(ordinary()).plan(plan).build().completes_by(at_secs(60));
}

#[test]
fn pools_of_64_buffers() {
    let plan = Plan { up: 300_000, down: 300_000, ..Plan::default() };
    Setup::on(ordinary()).hosts(|h| h.buffers = 64).plan(plan).build().completes_by(at_secs(120));
}

#[test]
fn pools_of_64_buffers_shared_by_ten_connections() {
    let plan = Plan { flows: 10, up: 50_000, down: 50_000, ..Plan::default() };
    Setup::on(ordinary()).hosts(|h| h.buffers = 64).plan(plan).build().completes_by(at_secs(300));
}

/// Data out of order must not take the last buffers: what fills their hole would never be taken.
#[test]
fn loss_with_pools_of_64_buffers() {
    let loss = Loss::Random(Share::percent(3));
    for seed in 1..6 {
        let plan = Plan { up: 2 << 20, down: 0, ..Plan::default() };
        let link = LinkConfig { loss, ..ordinary() };
        let mut setup = Setup::on(link).hosts(|h| h.buffers = 64).plan(plan);
        setup.client.buffers = 4096;
        setup.seed = seed;
        setup.build().completes_by(at_secs(200));
    }
}

#[test]
fn a_ring_of_two_descriptors() {
    let mut t = Setup::on(ordinary()).hosts(|h| h.tx_ring = 2).build();
    t.completes_by(at_secs(10));
    assert!(t.world.host(t.client).stack().counters().tx_refused > 0);
}

#[test]
fn small_socket_buffers() {
    let options = ConnOptions { rcvbuf: Some(4096), sndbuf: Some(4096), ..ConnOptions::default() };
    let plan = Plan { up: 200_000, down: 200_000, options, ..Plan::default() };
    Setup::on(ordinary()).plan(plan).build().completes_by(at_secs(60));
}

#[test]
fn flat_frames_and_all_offloads() {
    for all in [false, true] {
        let mut t = Setup::on(ordinary())
            .hosts(|h| {
                h.offloads = base::Offloads {
                    rx_ip_checksum: all,
                    rx_tcp_checksum: all,
                    rx_udp_checksum: all,
                    tx_ip_checksum: all,
                    tx_tcp_checksum: all,
                    tx_udp_checksum: all,
                    tso: all,
                    multi_segment: all,
                };
            })
            .build();
        t.completes_by(at_secs(5));
    }
}
