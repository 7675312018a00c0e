//! Header prediction against the RFC's order of steps, on random segments.

use alloc::collections::VecDeque;
use std::format;

use arrayvec::ArrayVec;
use base::{Ecn, Instant, Random, SeededRandom, TcpFlags};

use super::{Connection, Opening};
use crate::params::CongestionAlgorithm;
use crate::{ConnOptions, Cx, PathParams, SegOptions, Segment, SeqNum, TcpCounters, TcpParams};

const IRS: u32 = 5000;

fn opening(iss: u32, timestamps: bool) -> Opening {
    let iss = SeqNum::new(iss);
    Opening {
        path: PathParams {
            mtu: 1500,
            ip_header: 20,
            gso_max: 65_160,
            iss: iss.get(),
            ts_offset: 9,
            txhash: 3,
        },
        options: ConnOptions::default(),
        iss,
        irs: SeqNum::new(IRS),
        snd_nxt: iss.add(1),
        snd_wnd: 512 << 7,
        snd_wl1: SeqNum::new(IRS),
        snd_wl2: iss.add(1),
        snd_wscale: 7,
        rcv_wscale: 7,
        rcv_wnd: 65_535,
        window_scaling: true,
        sack: true,
        ts_recent: timestamps.then_some(1000),
        ecn: false,
        peer_mss: Some(1460),
        user_timeout: None,
        rtt: None,
        syn_retransmits: 0,
        active: false,
        close_requested: false,
    }
}

struct Bench {
    params: TcpParams,
    random: SeededRandom,
    counters: TcpCounters,
}

impl Bench {
    fn cx(&mut self, now: Instant) -> Cx<'_> {
        Cx {
            now,
            params: &self.params,
            random: &mut self.random,
            counters: &mut self.counters,
            rcv_room: 1 << 28,
            can_store: true,
            buffers: crate::BufferCost::UNKNOWN,
            memory_pressure: false,
        }
    }
}

/// A segment that is likely, but not certain, to be the next one.
fn draw(r: &mut SeededRandom, conn: &Connection, now: Instant, timestamps: bool) -> Segment {
    let hot = &conn.hot;
    let around = |r: &mut SeededRandom, seq: SeqNum, often: u32| {
        if r.below(10) < often { seq } else { seq.add(r.below(6000)).sub(3000) }
    };
    let len = if r.below(2) == 0 { 0 } else { 1 + r.below(3000) };
    let sent = hot.snd_nxt.bytes_since(hot.snd_una);
    let ack = if r.below(2) == 0 { hot.snd_una } else { hot.snd_una.add(r.below(sent + 1)) };
    let mut flags = TcpFlags::ACK;
    for (flag, one_in) in [
        (TcpFlags::PSH, 3),
        (TcpFlags::FIN, 300),
        (TcpFlags::SYN, 200),
        (TcpFlags::RST, 400),
        (TcpFlags::ECE, 15),
        (TcpFlags::CWR, 15),
    ] {
        if r.below(one_in) == 0 {
            flags |= flag;
        }
    }
    let mut sack = ArrayVec::new();
    if r.below(8) == 0 {
        let start = hot.snd_una.add(r.below(sent + 1));
        sack.push((start, start.add(r.below(3000))));
    }
    let ts = (hot.ts_recent.wrapping_add(r.below(3)).wrapping_sub(u32::from(r.below(9) == 0)), 0);
    Segment {
        seq: around(r, hot.rcv_nxt, 8),
        ack: around(r, ack, 9),
        flags,
        wnd: if r.below(8) == 0 { r.below(600) as u16 } else { 512 },
        len,
        seg_size: len,
        segs: 1,
        options: SegOptions {
            timestamps: (timestamps && r.below(30) > 0).then_some(ts),
            sack,
            ..SegOptions::default()
        },
        ecn: if r.below(3) == 0 { Ecn::Ce } else { Ecn::Ect0 },
        arrival: now,
    }
}

/// Everything that may differ between the two paths is a counter that says which one was taken.
fn without_path(counters: &TcpCounters) -> TcpCounters {
    TcpCounters { hp_hits: 0, hp_acks: 0, pure_acks: 0, ..counters.clone() }
}

#[test]
fn prediction_and_the_rfc_order_agree_on_random_segments() {
    let (mut hits, mut acks) = (0, 0);
    for seed in 0..300u64 {
        let mut r = SeededRandom::new(seed);
        let timestamps = r.below(2) == 0;
        let mut bench = Bench {
            params: TcpParams::default(),
            random: SeededRandom::new(seed),
            counters: TcpCounters::default(),
        };
        if seed % 3 == 0 {
            bench.params.congestion = CongestionAlgorithm::Dctcp;
        }
        let mut now = Instant::from_millis(5000);
        let mut opening = opening(r.next_u64() as u32, timestamps);
        opening.ecn = seed % 4 != 0;
        let mut conn = Connection::new(&mut bench.cx(now), &opening);
        for step in 0..60 {
            now += core::time::Duration::from_micros(u64::from(r.below(30_000)));
            let seg = draw(&mut r, &conn, now, timestamps);
            let before = bench.counters.clone();
            let mut twin = conn.clone();
            let predicted = conn.on_segments(&mut bench.cx(now), &seg);
            let predicted_counters = core::mem::replace(&mut bench.counters, before);
            let unpredicted = twin.on_segments_unpredicted(&mut bench.cx(now), &seg);
            let what = format!("seed {seed} step {step} {seg:?}");
            assert_eq!(predicted, unpredicted, "{what}");
            assert_eq!(without_path(&predicted_counters), without_path(&bench.counters), "{what}");
            assert_eq!(format!("{conn:?}"), format!("{twin:?}"), "{what}");
            bench.counters = predicted_counters;
            run_rest(&mut r, &mut bench, &mut conn, now);
        }
        hits += bench.counters.hp_hits;
        acks += bench.counters.hp_acks;
    }
    assert!(hits > 500 && acks > 300, "prediction was tried: {hits} {acks}");
}

/// What happens between segments: the application, output, deadlines.
fn run_rest(r: &mut SeededRandom, bench: &mut Bench, conn: &mut Connection, now: Instant) {
    let mut cx = bench.cx(now);
    if r.below(2) == 0 {
        let len = conn.send_room(&cx, u32::MAX).min(r.below(20_000));
        let _ = conn.send(&mut cx, len, false);
    }
    if r.below(3) > 0 {
        conn.consume(&mut cx, r.below(20_000));
    }
    if conn.next_deadline().is_some_and(|at| at <= now) {
        conn.on_deadline(&mut cx);
    }
    let mut plans = VecDeque::new();
    while let Some(plan) = conn.poll_transmit(&mut cx, 44) {
        let segs = plan.segs();
        conn.on_transmitted(&mut cx, &plan, segs);
        plans.push_back(plan);
        assert!(plans.len() < 1000, "endless output: {:?}", plans.back());
    }
}
