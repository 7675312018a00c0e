//! What the conversation and link tests share.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses another part")]

pub mod conversation;
pub mod link;

use std::time::Duration;

use base::{Instant, SeededRandom};
use tcp::{
    ConnOptions, Connection, Cx, Opening, PathParams, Plan, SegOptions, Segment, SeqNum,
    TcpCounters, TcpParams,
};

pub fn at_ms(ms: u64) -> Instant {
    // Not at the start of the clock: nothing may depend on that.
    Instant::from_millis(1_000_000 + ms)
}

pub fn at_us(us: u64) -> Instant {
    at_ms(0) + Duration::from_micros(us)
}

/// Everything of a worker that a connection needs.
pub struct World {
    pub params: TcpParams,
    pub random: SeededRandom,
    pub counters: TcpCounters,
    pub rcv_room: u32,
    pub can_store: bool,
}

impl World {
    pub fn new(seed: u64) -> Self {
        Self {
            params: TcpParams::default(),
            random: SeededRandom::new(seed),
            counters: TcpCounters::default(),
            rcv_room: 1 << 29,
            can_store: true,
        }
    }

    pub fn cx(&mut self, now: Instant) -> Cx<'_> {
        Cx {
            now,
            params: &self.params,
            random: &mut self.random,
            counters: &mut self.counters,
            rcv_room: self.rcv_room,
            can_store: self.can_store,
            buffers: tcp::BufferCost::UNKNOWN,
            memory_pressure: false,
        }
    }
}

/// An ordinary opening: MSS 1460, scale 7, SACK, timestamps.
pub fn opening(iss: u32, irs: u32) -> Opening {
    let iss = SeqNum::new(iss);
    let irs = SeqNum::new(irs);
    Opening {
        path: PathParams {
            mtu: 1500,
            ip_header: 20,
            gso_max: 65_160,
            iss: iss.get(),
            ts_offset: 77,
            txhash: 1,
        },
        options: ConnOptions::default(),
        iss,
        irs,
        snd_nxt: iss.add(1),
        snd_wnd: 65_535,
        snd_wl1: irs,
        snd_wl2: iss.add(1),
        snd_wscale: 7,
        rcv_wscale: 10,
        rcv_wnd: 65_535,
        window_scaling: true,
        sack: true,
        ts_recent: None,
        ecn: false,
        peer_mss: Some(1460),
        user_timeout: None,
        rtt: None,
        syn_retransmits: 0,
        active: false,
        close_requested: false,
    }
}

pub fn connect(world: &mut World, now: Instant, opening: &Opening) -> Connection {
    Connection::new(&mut world.cx(now), opening)
}

/// The segments that the network sees of the first `segs` of a plan.
pub fn segments_of(plan: &Plan, segs: u32, arrival: Instant) -> Vec<Segment> {
    let total = plan.segs();
    (0..segs.min(total))
        .map(|i| {
            let last = i + 1 == total;
            let offset = i * plan.seg_size;
            let len = plan.len.saturating_sub(offset).min(plan.seg_size.max(1)).min(plan.len);
            let mut flags = plan.flags;
            if !last {
                flags = flags.without(base::TcpFlags::FIN | base::TcpFlags::PSH);
            }
            if i > 0 {
                flags = flags.without(base::TcpFlags::CWR);
            }
            Segment {
                seq: plan.seq.add(offset),
                ack: plan.ack,
                flags,
                wnd: plan.wnd,
                len,
                seg_size: len,
                segs: 1,
                options: SegOptions {
                    timestamps: plan.options.timestamps,
                    user_timeout: plan.options.user_timeout,
                    sack: plan.options.sack.clone(),
                    ..SegOptions::default()
                },
                ecn: plan.ecn,
                arrival,
            }
        })
        .collect()
}
