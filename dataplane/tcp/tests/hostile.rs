//! Whatever a peer sends: no panic, bounded answers, invariants hold (the engine checks its own in
//! debug builds), and the application still gets through.

mod common;

use std::time::Duration;

use base::{Ecn, Instant, Random, SeededRandom, TcpFlags};
use common::{World, at_ms, connect, opening};
use tcp::params::CongestionAlgorithm;
use tcp::{Connection, SegOptions, Segment, SeqNum};

/// A number that is likely to hurt: near something, or at the far side of it.
fn number(r: &mut SeededRandom, near: SeqNum) -> SeqNum {
    let offset = match r.below(6) {
        0 => r.next_u64() as u32,
        1 => 0,
        2 => r.below(5),
        3 => 0u32.wrapping_sub(r.below(5)),
        4 => (1 << 31) + r.below(3) - 1,
        _ => r.below(200_000).wrapping_sub(100_000),
    };
    near.add(offset)
}

fn length(r: &mut SeededRandom) -> u32 {
    match r.below(8) {
        0..3 => 0,
        3 => 1,
        4 => r.below(1 << 30),
        _ => r.below(70_000),
    }
}

fn draw(r: &mut SeededRandom, conn: &Connection, now: Instant) -> Segment {
    let mut flags = TcpFlags::ACK;
    if r.below(3) == 0 {
        // RST and SYN now and then only, or the conversation ends at once.
        flags = TcpFlags::from_bits(r.next_u64() as u16);
        if r.below(20) > 0 {
            flags = flags.without(TcpFlags::RST | TcpFlags::SYN);
        }
    }
    let len = length(r);
    let segs = 1 + r.below(64) as u16;
    let mut options = SegOptions::default();
    if r.below(2) == 0 {
        options.timestamps = Some((r.next_u64() as u32, r.next_u64() as u32));
    }
    for _ in 0..r.below(5) {
        let start = number(r, conn.snd_una());
        let end = number(r, start);
        options.sack.push((start, end));
    }
    let near_ack = if r.below(2) == 0 { conn.snd_una() } else { conn.write_seq() };
    Segment {
        seq: number(r, conn.rcv_nxt()),
        ack: number(r, near_ack),
        flags,
        wnd: if r.below(3) == 0 { r.below(4) as u16 } else { r.next_u64() as u16 },
        len,
        seg_size: len / u32::from(segs),
        segs,
        options,
        ecn: Ecn::from_bits(r.next_u64() as u8),
        arrival: now,
    }
}

#[test]
fn nonsense_never_panics_nor_makes_us_talk_without_end() {
    for seed in 0..400u64 {
        let mut r = SeededRandom::new(seed);
        let mut world = World::new(seed);
        let mut o = opening(r.next_u64() as u32, r.next_u64() as u32);
        o.snd_wscale = r.below(15) as u8;
        o.rcv_wscale = r.below(15) as u8;
        o.sack = r.below(2) == 0;
        o.ts_recent = (r.below(2) == 0).then(|| r.next_u64() as u32);
        o.peer_mss = [None, Some(0), Some(1), Some(1460), Some(u16::MAX)][r.below(5) as usize];
        o.rcv_wnd = r.below(65_536);
        o.ecn = r.below(3) > 0;
        world.params.congestion =
            CongestionAlgorithm::ALL[r.below(CongestionAlgorithm::ALL.len() as u32) as usize].1;
        let mut now = at_ms(0);
        let mut conn = connect(&mut world, now, &o);
        for _ in 0..400 {
            now += Duration::from_micros(u64::from(r.below(100_000)));
            world.can_store = r.below(10) > 0;
            world.rcv_room = r.below(1 << 20);
            let seg = draw(&mut r, &conn, now);
            let mut cx = world.cx(now);
            let _ = conn.on_segments(&mut cx, &seg);
            match r.below(8) {
                0 | 1 => {
                    let len = conn.send_room(&cx, u32::MAX).min(r.below(100_000));
                    let _ = conn.send(&mut cx, len, r.below(4) == 0);
                }
                2 => conn.consume(&mut cx, r.next_u64() as u32),
                3 if r.below(50) == 0 => conn.close(&mut cx, r.below(2) == 0),
                4 if r.below(10) == 0 => conn.on_path_hint(&mut cx, r.next_u64() as u16),
                5 => conn.on_unreachable(&mut cx),
                _ => {}
            }
            if conn.next_deadline().is_some_and(|at| at <= now) {
                conn.on_deadline(&mut cx);
            }
            let mut plans = 0;
            while let Some(plan) = conn.poll_transmit(&mut cx, 1 + r.below(64)) {
                let taken = if r.below(10) == 0 { 0 } else { plan.segs() };
                conn.on_transmitted(&mut cx, &plan, taken);
                plans += 1;
                assert!(plans < 2000, "seed {seed}: endless output, {plan:?}");
                if taken == 0 {
                    break;
                }
            }
            while conn.poll_event().is_some() {}
            let info = conn.info(&cx);
            assert!(info.rcv_ooo_bytes <= 1 << 30, "seed {seed}");
            assert!(conn.snd_mss() >= 36, "seed {seed}: {}", conn.snd_mss());
        }
    }
}

#[test]
fn a_shower_of_selective_acknowledgements_costs_bounded_memory() {
    // MSS at the floor, the largest windows, every second segment reported, newest first.
    let mut world = World::new(1);
    world.params.wmem = [4096, 4_194_304, 4_194_304];
    world.params.initial_cwnd = 1 << 20;
    let mut o = opening(1, 2);
    o.peer_mss = Some(1);
    o.snd_wscale = 14;
    o.snd_wnd = 0xffff << 14;
    let mut now = at_ms(0);
    let mut conn = connect(&mut world, now, &o);
    let base = conn.snd_una();
    let mut cx = world.cx(now);
    let room = conn.send_room(&cx, u32::MAX);
    conn.send(&mut cx, room, false).expect("open");
    while let Some(plan) = conn.poll_transmit(&mut cx, 1000) {
        let segs = plan.segs();
        conn.on_transmitted(&mut cx, &plan, segs);
    }
    let mss = conn.snd_mss();
    let sent = conn.info(&world.cx(now)).unacked;
    assert!(sent > 80_000, "{sent}");
    for i in (1..sent / 2).rev() {
        now += Duration::from_micros(1);
        let mut options = SegOptions::default();
        let start = base.add(2 * i * mss);
        options.sack.push((start, start.add(mss)));
        let seg = Segment {
            seq: conn.rcv_nxt(),
            ack: base,
            flags: TcpFlags::ACK,
            wnd: u16::MAX,
            len: 0,
            seg_size: 0,
            segs: 1,
            options,
            ecn: Ecn::NotEct,
            arrival: now,
        };
        let _ = conn.on_segments(&mut world.cx(now), &seg);
    }
    let info = conn.info(&world.cx(now));
    assert!(info.sacked > 100 && info.sacked <= sent / 2, "{info:?}");
    assert!(world.counters.sack_discard > 0, "the log's limit was met");
    // A log that cannot be split any more must not make a retransmission repeat for ever.
    for _ in 0..5 {
        now = conn.next_deadline().expect("data in flight");
        conn.on_deadline(&mut world.cx(now));
        let mut cx = world.cx(now);
        let mut plans = 0;
        while let Some(plan) = conn.poll_transmit(&mut cx, 64) {
            let segs = plan.segs();
            conn.on_transmitted(&mut cx, &plan, segs);
            plans += 1;
            assert!(plans < 10, "{plan:?}");
        }
        assert!(plans > 0);
    }
}
