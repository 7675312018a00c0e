//! Shift invariance: sequence numbers are positions, so the same conversation with other initial
//! numbers gives the same trace, wherever they wrap.

mod common;

use base::{Random, SeededRandom};
use common::at_us;
use common::conversation::{Conversation, seg};

/// One random conversation as text.
fn trace(seed: u64, iss: u32, irs: u32) -> Vec<String> {
    let mut r = SeededRandom::new(seed);
    let timestamps = r.below(2) == 0;
    let sack = r.below(3) > 0;
    let mut t = Conversation::from(iss, irs, |o, _| {
        o.sack = sack;
        o.ts_recent = timestamps.then_some(50);
    });
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
                    s = s.ts(tsval, 0);
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
fn the_initial_sequence_numbers_do_not_matter() {
    let mut longest = 0;
    for seed in 0..120 {
        let plain = trace(seed, 1_000_000, 2_000_000);
        longest = longest.max(plain.len());
        for (iss, irs) in [
            (u32::MAX, u32::MAX),
            (u32::MAX - 9000, 5),
            ((1 << 31) - 4000, (1 << 31) - 2),
            (0, u32::MAX - 20_000),
            (u32::MAX - 100_000, 1 << 31),
        ] {
            let shifted = trace(seed, iss, irs);
            for (i, (a, b)) in plain.iter().zip(&shifted).enumerate() {
                assert_eq!(a, b, "seed {seed}, line {i}, iss {iss}, irs {irs}");
            }
            assert_eq!(plain.len(), shifted.len(), "seed {seed}");
        }
    }
    assert!(longest > 300, "conversations are too quiet: {longest}");
}
