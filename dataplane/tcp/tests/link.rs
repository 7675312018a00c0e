//! Whole transfers over bad and good paths in virtual time, with oracles: RFC 9293 section 3.8.2,
//! RFC 5681 section 3.1, RFC 5681 section 4.3.

mod common;

use std::time::Duration;

use base::{Random, SeededRandom};
use common::link::{App, Link, Path, Setup};
use tcp::{TcpCounters, TcpParams};

fn app(total: u64) -> App {
    App { total, write_max: 1 << 20, read_max: u32::MAX, read_pause: Duration::ZERO }
}

/// Draw a world from a seed: worlds that differ strongly find more than one in which everything is a
/// little wrong.
fn world(seed: u64) -> Link {
    let mut r = SeededRandom::new(seed ^ 0x9e37);
    let pick = |r: &mut SeededRandom, of: &[u32]| of[r.below(of.len() as u32) as usize];
    let sack = r.below(3) != 0;
    let path = Path {
        delay: Duration::from_micros(u64::from(pick(&mut r, &[50, 200, 5000, 20_000, 100_000]))),
        jitter: Duration::from_micros(u64::from(pick(&mut r, &[0, 0, 50, 3000]))),
        // Without SACK, each loss of a retransmission costs a timeout, and Karn's rule keeps it backed
        // off: with a tenth lost, an hour is not enough now and then.
        loss: pick(&mut r, &[0, 10, 100, 500, 1000]).min(if sack { 1000 } else { 500 }),
        duplicate: pick(&mut r, &[0, 0, 100, 1000]),
        rate: u64::from(pick(&mut r, &[0, 0, 125_000, 12_500_000])),
        queue: u64::from(pick(&mut r, &[5_000, 60_000, 1_000_000])),
    };
    let one = |r: &mut SeededRandom| App {
        total: u64::from(pick(r, &[0, 1, 1000, 30_000, 200_000, 600_000])),
        write_max: pick(r, &[1 << 20, 1 << 20, 700, 5000]),
        read_max: pick(r, &[u32::MAX, u32::MAX, 3000, 100_000]),
        read_pause: Duration::from_micros(u64::from(pick(r, &[0, 0, 500, 20_000]))),
    };
    let apps = [one(&mut r), one(&mut r)];
    let mut params = TcpParams::default();
    if r.below(4) == 0 {
        params.rmem = [4096, 8192, 30_000];
    }
    if r.below(4) == 0 {
        params.congestion = tcp::params::CongestionAlgorithm::Reno;
    }
    params.dsack = r.below(4) != 0;
    let mut link = Link::new(Setup {
        seed,
        iss: [r.next_u64() as u32, pick(&mut r, &[0, u32::MAX - 20_000, (1 << 31) - 5000])],
        clocks: [77; 2],
        path,
        apps,
        sack,
        timestamps: r.below(3) != 0,
        mtu: pick(&mut r, &[1500, 1500, 576, 9000]) as u16,
        params,
    });
    link.merge = r.below(2) == 0;
    link.refuse = r.below(3) == 0;
    link.pressure = r.below(4) == 0;
    link.hints = r.below(4) == 0;
    for host in &mut link.hosts {
        host.device = pick(&mut r, &[1, 7, 64, 64]);
    }
    link
}

#[test]
fn any_world_delivers_everything_once_and_in_order() {
    // One seed can be replayed (SEED=17 TRACE=1 cargo nextest run any_world), or many tried (SEEDS=10000).
    let one = std::env::var("SEED").ok().and_then(|s| s.parse().ok());
    let count = std::env::var("SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(200);
    let seeds = one.map_or(0..count, |s: u64| s..s + 1);
    let mut sum = TcpCounters::default();
    for seed in seeds {
        println!("seed {seed}");
        let mut link = world(seed);
        link.trace = std::env::var("TRACE").is_ok();
        link.run(Duration::from_secs(3600));
        link.assert_finished();
        for host in &link.hosts {
            sum.add(&host.world.counters);
        }
    }
    if one.is_some() {
        return;
    }
    // A net with holes this large would catch nothing.
    for (name, count) in [
        ("fast recoveries with SACK", sum.sack_recovery),
        ("fast recoveries without", sum.reno_recovery),
        ("lost retransmissions", sum.lost_retransmit),
        ("timeouts", sum.timeouts),
        ("slow start retransmissions", sum.slow_start_retrans),
        ("reordering", sum.sack_reorder),
        ("duplicates reported", sum.dsack_recv),
        ("window probes", sum.win_probe),
        ("zero windows", sum.to_zero_window_adv),
        ("delayed acknowledgements", sum.delayed_acks),
        ("refusals of the device", sum.retrans_fail),
        ("data refused for memory", sum.rcv_q_drop + sum.ofo_drop),
        ("data out of order", sum.ofo_queue),
        ("predicted data", sum.hp_hits),
        ("predicted acknowledgements", sum.hp_acks),
    ] {
        println!("{name}: {count}");
        assert!(count > 10, "{name}: {count}");
    }
}

/// A bulk transfer from host 0 to host 1; returns how long the data took.
fn bulk(path: Path, total: u64, timestamps: bool) -> (Link, Duration) {
    let mut link = Link::new(Setup {
        seed: 1,
        iss: [1, 2],
        clocks: [77; 2],
        path,
        apps: [app(total), app(0)],
        sack: true,
        timestamps,
        mtu: 1500,
        params: TcpParams::default(),
    });
    let begun = link.now;
    link.run(Duration::from_secs(600));
    link.assert_finished();
    let took = link.now.since(begun);
    (link, took)
}

/// Share of the path's rate, percent, that the transfer got over its whole length.
fn share(total: u64, rate: u64, took: Duration) -> u64 {
    total * 100 * 1_000_000 / (rate * took.as_micros() as u64)
}

#[test]
fn windows_do_not_limit_a_fast_short_path() {
    // 5 Gbit/s at 200 us.
    let path =
        Path { rate: 625_000_000, queue: 500_000, ..Path::clean(Duration::from_micros(100)) };
    for timestamps in [true, false] {
        let (_, took) = bulk(path.clone(), 100_000_000, timestamps);
        let share = share(100_000_000, path.rate, took);
        println!("timestamps {timestamps}: {share} % of the path");
        assert!(share >= 85, "timestamps {timestamps}: {share} %");
    }
}

#[test]
fn windows_do_not_limit_a_long_path() {
    // 1 Gbit/s at 20 ms.
    let path =
        Path { rate: 125_000_000, queue: 2_500_000, ..Path::clean(Duration::from_millis(10)) };
    for timestamps in [true, false] {
        let (_, took) = bulk(path.clone(), 100_000_000, timestamps);
        let share = share(100_000_000, path.rate, took);
        println!("timestamps {timestamps}: {share} % of the path");
        assert!(share >= 75, "timestamps {timestamps}: {share} %");
    }
}

#[test]
fn one_lost_segment_costs_no_timeout() {
    let path = Path { loss: 5, ..Path::clean(Duration::from_millis(10)) };
    let (mut link, _) = bulk(path, 20_000_000, true);
    assert!(link.lost > 3, "{}", link.lost);
    let now = link.now;
    let sender = &mut link.hosts[0];
    assert!(sender.world.counters.sack_recovery > 0);
    assert!(sender.world.counters.timeouts <= 1, "{:?}", sender.conn.info(&sender.world.cx(now)));
}

#[test]
fn the_same_seed_gives_the_same_end() {
    let end = |seed| {
        let mut link = world(seed);
        link.run(Duration::from_secs(3600));
        (link.now, link.lost, link.states())
    };
    for seed in [3, 17, 40] {
        assert_eq!(end(seed), end(seed));
    }
}
