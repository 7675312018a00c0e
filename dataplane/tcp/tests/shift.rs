//! Shift invariance: sequence numbers are positions, so the same conversation with other initial
//! numbers gives the same trace, wherever they wrap: RFC 9293
//! section 3.4.

mod common;

use std::time::Duration;

use base::{Random, SeededRandom};
use common::at_us;
use common::conversation::{Conversation, seg};
use common::link::{App, Link, Path, Setup};
use tcp::TcpParams;

/// Where numbers begin: sequence numbers and timestamps, ours and theirs.
#[derive(Clone, Copy, Debug, Default)]
struct Shift {
    iss: u32,
    irs: u32,
    our_clock: u32,
    their_clock: u32,
}

/// One random conversation as text.
fn trace(seed: u64, shift: Shift) -> Vec<String> {
    let mut r = SeededRandom::new(seed);
    let timestamps = r.below(2) == 0;
    let sack = r.below(3) > 0;
    let Shift { iss, irs, our_clock, their_clock } = shift;
    let mut t = Conversation::from(iss, irs, |o, _| {
        o.sack = sack;
        o.path.ts_offset = our_clock;
        o.ts_recent = timestamps.then_some(50u32.wrapping_add(their_clock));
    });
    t.clocks = (our_clock, their_clock);
    let mut lines = Vec::new();
    let mut now = 0;
    let (mut written, mut peer_next, mut tsval) = (1i64, 1i64, 50u32);
    for _ in 0..150 {
        now += u64::from(r.below(30_000));
        let at = at_us(now);
        match r.below(10) {
            0 | 1 => {
                let open = matches!(t.state(), tcp::State::Established | tcp::State::CloseWait);
                if open {
                    let len = 1 + r.below(9000);
                    t.app_sends(at, len);
                    written += i64::from(len);
                }
            }
            2 => t.app_reads(at, r.below(20_000)),
            3 if r.below(40) == 0 => t.app_shuts_down(at),
            _ => {
                let info = t.info();
                let una = info.bytes_acked as i64 + 1;
                let nxt = written - i64::from(info.notsent_bytes);
                let len = r.below(3) * r.below(1500);
                let jitter = i64::from(r.below(8) == 0) * (i64::from(r.below(6000)) - 3000);
                let seq = peer_next + jitter;
                let ack = match r.below(12) {
                    0 => una - i64::from(r.below(5000)),
                    1 => nxt + i64::from(r.below(3)),
                    2..6 => una + i64::from(r.below((nxt - una).max(0) as u32 + 1)),
                    _ => una,
                };
                let mut s = seg().seq(seq).ack(ack).len(len).wnd(r.below(600) as u16);
                if r.below(3) == 0 {
                    let start = una + i64::from(r.below(9000));
                    s = s.sack(&[(start, start + i64::from(r.below(5000)))]);
                }
                if r.below(100) == 0 {
                    s = s.fin();
                }
                if r.below(200) == 0 {
                    s = s.syn();
                }
                if r.below(200) == 0 {
                    s = s.rst();
                }
                if timestamps {
                    tsval += r.below(3);
                    // An echo of what we sent a while ago, or of nothing that we ever sent.
                    let sent = at - Duration::from_millis(r.below(400).into());
                    let echo = match r.below(10) {
                        0 => r.below(1000),
                        _ => sent.as_millis() as u32,
                    };
                    let jump = if r.below(30) == 0 { r.below(2000) } else { 1000 };
                    let val = (tsval + jump).wrapping_sub(1000).wrapping_add(their_clock);
                    s = s.ts(val, echo.wrapping_add(our_clock));
                }
                let d = t.peer_sends(at, s);
                lines.push(t.relative(d));
                if jitter == 0 {
                    peer_next += i64::from(len);
                }
            }
        }
        lines.extend(t.take_trace());
        lines.push(format!("{:?} {:?} {:?}", t.state(), t.conn.quiet(), t.info()));
    }
    lines
}

#[test]
fn where_numbers_begin_does_not_matter() {
    let mut longest = 0;
    for seed in 0..120 {
        let plain = trace(seed, Shift { iss: 1_000_000, irs: 2_000_000, ..Shift::default() });
        longest = longest.max(plain.len());
        for (iss, irs, our_clock, their_clock) in [
            (u32::MAX, u32::MAX, 0, 0),
            (u32::MAX - 9000, 5, 1 << 31, 12_345),
            ((1 << 31) - 4000, (1 << 31) - 2, 77, 1 << 31),
            (0, u32::MAX - 20_000, 0u32.wrapping_sub(1_002_001), u32::MAX - 60),
            (u32::MAX - 100_000, 1 << 31, (1u32 << 31).wrapping_sub(1_001_501), (1 << 31) - 70),
        ] {
            let shift = Shift { iss, irs, our_clock, their_clock };
            let shifted = trace(seed, shift);
            for (i, (a, b)) in plain.iter().zip(&shifted).enumerate() {
                assert_eq!(a, b, "seed {seed}, line {i}, {shift:?}");
            }
            assert_eq!(plain.len(), shifted.len(), "seed {seed}");
        }
    }
    assert!(longest > 300, "conversations are too quiet: {longest}");
}

/// A whole transfer both ways with loss, reordering and duplicates, as text.
fn transfer(seed: u64, iss: [u32; 2], clocks: [u32; 2]) -> Vec<String> {
    let mut r = SeededRandom::new(seed);
    let path = Path {
        delay: Duration::from_micros(300 + u64::from(r.below(20_000))),
        jitter: Duration::from_micros(r.below(3000).into()),
        loss: [0, 100, 300][r.below(3) as usize],
        duplicate: r.below(200),
        rate: [0, 1_250_000][r.below(2) as usize],
        queue: 60_000,
    };
    let app = |total: u32, read_max: u32| App {
        total: total.into(),
        write_max: 1 << 20,
        read_max,
        read_pause: Duration::from_micros(if read_max == u32::MAX { 0 } else { 700 }),
    };
    let slow = r.below(2) == 0;
    let apps = [app(150_000, u32::MAX), app(r.below(60_000), if slow { 4000 } else { u32::MAX })];
    let mut link = Link::new(Setup {
        seed,
        iss,
        clocks,
        path,
        apps,
        sack: r.below(4) > 0,
        timestamps: r.below(4) > 0,
        mtu: 1500,
        params: TcpParams::default(),
    });
    link.log = Some(Vec::new());
    link.merge = r.below(2) == 0;
    link.run(Duration::from_secs(3600));
    link.assert_finished();
    link.log.take().expect("a log")
}

#[test]
fn transfers_go_the_same_way_wherever_their_numbers_begin() {
    let (mut lines, mut longest) = (0, 0);
    for seed in 0..40 {
        let plain = transfer(seed, [5_000_000, 6_000_000], [0, 0]);
        lines += plain.len();
        longest = longest.max(plain.len());
        // Wraps in the middle of the data, at their last byte, in the FIN; clocks that wrap on the way.
        for (iss, clocks) in [
            ([u32::MAX - 70_000, u32::MAX - 20_000], [1 << 31, 99]),
            ([u32::MAX - 150_000, (1 << 31) - 20_000], [0u32.wrapping_sub(1_000_101), 7]),
            ([u32::MAX - 150_001, u32::MAX], [7, (1u32 << 31).wrapping_sub(1_000_201)]),
            ([(1 << 31) - 75_000, 0], [0u32.wrapping_sub(1_000_301); 2]),
        ] {
            let shifted = transfer(seed, iss, clocks);
            for (i, (a, b)) in plain.iter().zip(&shifted).enumerate() {
                assert_eq!(a, b, "seed {seed}, line {i}, {iss:?} {clocks:?}");
            }
            assert_eq!(plain.len(), shifted.len(), "seed {seed}");
        }
    }
    assert!(lines > 4000 && longest > 200, "{lines} {longest}");
}
