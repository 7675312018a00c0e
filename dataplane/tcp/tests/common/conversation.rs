//! One connection and a peer written by hand: each line of a test is a segment, with relative numbers
//! and only the fields that matter.

use std::collections::VecDeque;
use std::time::Duration;

use base::{Ecn, Instant, TcpFlags};
use tcp::{
    CloseReason, Connection, Disposition, Event, Opening, Plan, PlanKind, SegOptions, Segment,
    SeqNum, State, TcpInfo, TcpParams, UserTimeoutOption,
};

use super::{World, at_ms, connect, opening, segments_of};

/// A segment with what matters of it. Numbers are relative: 1 is the first byte of a stream.
#[derive(Clone, Debug, Default)]
pub struct Seg {
    flags: TcpFlags,
    seq: Option<i64>,
    ack: Option<i64>,
    len: Option<u32>,
    wnd: Option<u16>,
    psh: Option<bool>,
    sack: Option<Vec<(i64, i64)>>,
    ts: Option<(u32, u32)>,
    user_timeout: Option<u16>,
    no_ack: bool,
    segs: u16,
    kind: Option<PlanKind>,
    ecn: Option<Ecn>,
}

/// A segment with nothing but ACK.
pub fn seg() -> Seg {
    Seg { segs: 1, ..Seg::default() }
}

impl Seg {
    pub fn seq(mut self, seq: i64) -> Self {
        self.seq = Some(seq);
        self
    }
    pub fn ack(mut self, ack: i64) -> Self {
        self.ack = Some(ack);
        self
    }
    pub fn len(mut self, len: u32) -> Self {
        self.len = Some(len);
        self
    }
    /// The field as in the header.
    pub fn wnd(mut self, wnd: u16) -> Self {
        self.wnd = Some(wnd);
        self
    }
    pub fn fin(mut self) -> Self {
        self.flags |= TcpFlags::FIN;
        self
    }
    pub fn syn(mut self) -> Self {
        self.flags |= TcpFlags::SYN;
        self
    }
    pub fn rst(mut self) -> Self {
        self.flags |= TcpFlags::RST;
        self
    }
    pub fn psh(mut self, psh: bool) -> Self {
        self.psh = Some(psh);
        self
    }
    pub fn sack(mut self, blocks: &[(i64, i64)]) -> Self {
        self.sack = Some(blocks.to_vec());
        self
    }
    /// TSval, TSecr.
    pub fn ts(mut self, val: u32, ecr: u32) -> Self {
        self.ts = Some((val, ecr));
        self
    }
    /// The User Timeout Option as in the header; zero: none.
    pub fn user_timeout(mut self, field: u16) -> Self {
        self.user_timeout = Some(field);
        self
    }
    /// With ECE.
    pub fn ece(mut self) -> Self {
        self.flags |= TcpFlags::ECE;
        self
    }
    /// With CWR.
    pub fn cwr(mut self) -> Self {
        self.flags |= TcpFlags::CWR;
        self
    }
    /// What the IP header says of congestion.
    pub fn ecn(mut self, ecn: Ecn) -> Self {
        self.ecn = Some(ecn);
        self
    }
    /// Without the ACK flag.
    pub fn no_ack(mut self) -> Self {
        self.no_ack = true;
        self
    }
    /// A run merged by receive offload.
    pub fn segs(mut self, segs: u16) -> Self {
        self.segs = segs;
        self
    }
    pub fn kind(mut self, kind: PlanKind) -> Self {
        self.kind = Some(kind);
        self
    }
}

/// See the module.
pub struct Conversation {
    pub world: World,
    pub conn: Connection,
    pub now: Instant,
    iss: SeqNum,
    irs: SeqNum,
    /// Payload bytes kept and not read.
    stored: u32,
    peer_wnd: u16,
    peer_ack: i64,
    outbox: VecDeque<(Instant, PlanKind, Segment)>,
    events: VecDeque<Event>,
    /// Segments that the device takes per turn; `None`: all.
    pub device: Option<u32>,
    /// The peer's segments come after a stall of ours.
    pub arrival_unknown: bool,
    /// Subtracted from both timestamps in a trace: where our clock and the peer's begin.
    pub clocks: (u32, u32),
}

impl Conversation {
    /// Established at 0 ms: MSS 1460, our windows scaled by 10, the peer's by 7, SACK, no timestamps.
    /// The peer offers 65536 bytes.
    pub fn established() -> Self {
        Self::with(|_, _| {})
    }

    pub fn with(change: impl FnOnce(&mut Opening, &mut TcpParams)) -> Self {
        Self::from(7_000_000, 9_000_000, change)
    }

    pub fn from(iss: u32, irs: u32, change: impl FnOnce(&mut Opening, &mut TcpParams)) -> Self {
        let mut world = World::new(1);
        let mut opening = opening(iss, irs);
        change(&mut opening, &mut world.params);
        let now = at_ms(0);
        let conn = connect(&mut world, now, &opening);
        let mut conversation = Self {
            world,
            conn,
            now,
            iss: opening.iss,
            irs: opening.irs,
            stored: 0,
            peer_wnd: 512,
            peer_ack: 1,
            outbox: VecDeque::new(),
            events: VecDeque::new(),
            device: None,
            arrival_unknown: false,
            clocks: (0, 0),
        };
        // The segment that completed the handshake.
        let ts = opening.ts_recent.map(|val| (val, 0));
        let mut last = seg().seq(1).ack(1);
        last.ts = ts;
        conversation.peer_sends(now, last);
        conversation.expect_quiet();
        conversation
    }

    fn run_output(&mut self) {
        let mut budget = self.device.unwrap_or(u32::MAX);
        while let Some(plan) = self.conn.poll_transmit(&mut self.world.cx(self.now), budget.min(64))
        {
            let segs = plan.segs().min(budget);
            self.conn.on_transmitted(&mut self.world.cx(self.now), &plan, segs);
            self.note(&plan, segs);
            budget -= segs;
            assert!(self.outbox.len() < 10_000, "endless output");
            if budget == 0 {
                break;
            }
        }
        while let Some(event) = self.conn.poll_event() {
            self.events.push_back(event);
        }
    }

    fn note(&mut self, plan: &Plan, segs: u32) {
        for segment in segments_of(plan, segs, self.now) {
            self.outbox.push_back((self.now, plan.kind, segment));
        }
    }

    /// Let time pass, deadlines included.
    #[track_caller]
    pub fn advance(&mut self, at: Instant) {
        assert!(at >= self.now, "time goes forward");
        while let Some(deadline) = self.conn.next_deadline().filter(|&d| d <= at) {
            self.now = self.now.max(deadline);
            self.conn.on_deadline(&mut self.world.cx(self.now));
            self.run_output();
        }
        self.now = at;
    }

    /// The peer's segment as the engine sees it.
    fn build(&mut self, s: &Seg) -> Segment {
        let mut flags = s.flags;
        if !s.no_ack {
            flags |= TcpFlags::ACK;
        }
        if s.psh == Some(true) {
            flags |= TcpFlags::PSH;
        }
        self.peer_wnd = s.wnd.unwrap_or(self.peer_wnd);
        self.peer_ack = s.ack.unwrap_or(self.peer_ack);
        let len = s.len.unwrap_or(0);
        let ours = |rel: i64| self.iss.add(rel as u32);
        Segment {
            seq: self.irs.add(s.seq.expect("the peer's seq") as u32),
            ack: ours(self.peer_ack),
            flags,
            wnd: self.peer_wnd,
            len,
            seg_size: len / u32::from(s.segs),
            segs: s.segs,
            options: SegOptions {
                timestamps: s.ts,
                user_timeout: s.user_timeout.and_then(UserTimeoutOption::from_field),
                sack: s.sack.iter().flatten().map(|&(a, b)| (ours(a), ours(b))).collect(),
                ..SegOptions::default()
            },
            ecn: s.ecn.unwrap_or_default(),
            arrival: if self.arrival_unknown { Segment::ARRIVAL_UNKNOWN } else { self.now },
        }
    }

    #[track_caller]
    pub fn peer_sends(&mut self, at: Instant, s: Seg) -> Disposition {
        let disposition = self.peer_sends_in_burst(at, s);
        self.run_output();
        disposition
    }

    /// The same, with more of the burst to come before anything is sent.
    #[track_caller]
    pub fn peer_sends_in_burst(&mut self, at: Instant, s: Seg) -> Disposition {
        self.advance(at);
        let segment = self.build(&s);
        let disposition = self.conn.on_segments(&mut self.world.cx(self.now), &segment);
        if let Disposition::Keep(keep) = disposition {
            self.stored += keep.len;
            self.conn.set_receive_memory(2 * self.stored);
        }
        disposition
    }

    #[track_caller]
    pub fn app_sends(&mut self, at: Instant, len: u32) {
        self.app_sends_more(at, len, false);
    }

    #[track_caller]
    pub fn app_sends_more(&mut self, at: Instant, len: u32, more: bool) {
        self.advance(at);
        self.conn.send(&mut self.world.cx(self.now), len, more).expect("may send");
        self.run_output();
    }

    #[track_caller]
    pub fn app_reads(&mut self, at: Instant, len: u32) {
        self.advance(at);
        self.stored = self.stored.saturating_sub(len);
        self.conn.set_receive_memory(2 * self.stored);
        self.conn.consume(&mut self.world.cx(self.now), len);
        self.run_output();
    }

    /// Half close.
    #[track_caller]
    pub fn app_shuts_down(&mut self, at: Instant) {
        self.advance(at);
        self.conn.close(&mut self.world.cx(self.now), false);
        self.run_output();
    }

    #[track_caller]
    pub fn app_closes(&mut self, at: Instant) {
        self.advance(at);
        self.conn.close(&mut self.world.cx(self.now), true);
        self.run_output();
    }

    #[track_caller]
    pub fn app_aborts(&mut self, at: Instant) {
        self.advance(at);
        self.conn.abort(&mut self.world.cx(self.now));
        self.run_output();
    }

    /// The next segment that we send; only the fields named are compared, flags always (but PSH).
    #[track_caller]
    pub fn expect(&mut self, at: Instant, want: Seg) {
        if self.outbox.is_empty() {
            self.advance(at);
        }
        let Some((sent, kind, got)) = self.outbox.pop_front() else {
            panic!("expected {want:?} at {at:?}, nothing was sent ({:?})", self.conn.quiet());
        };
        let rel = |seq: SeqNum, base: SeqNum| i64::from(seq.distance_from(base));
        let (seq, ack) = (rel(got.seq, self.iss), rel(got.ack, self.irs));
        let what = format!("at {} us: seq {seq} ack {ack} {got:?}", us(sent));
        assert_eq!(us(sent), us(at), "time of {what}");
        let mut flags = want.flags;
        if !want.no_ack {
            flags |= TcpFlags::ACK;
        }
        assert_eq!(got.flags.without(TcpFlags::PSH), flags, "flags {what}");
        if let Some(psh) = want.psh {
            assert_eq!(got.flags.psh(), psh, "PSH {what}");
        }
        assert_eq!(seq, want.seq.unwrap_or(seq), "seq {what}");
        assert_eq!(ack, want.ack.unwrap_or(ack), "ack {what}");
        assert_eq!(got.len, want.len.unwrap_or(got.len), "len {what}");
        assert_eq!(got.wnd, want.wnd.unwrap_or(got.wnd), "wnd {what}");
        if let Some(blocks) = want.sack {
            let sack: Vec<_> = got
                .options
                .sack
                .iter()
                .map(|&(a, b)| (rel(a, self.irs), rel(b, self.irs)))
                .collect();
            assert_eq!(sack, blocks, "sack {what}");
        }
        if want.ts.is_some() {
            assert_eq!(got.options.timestamps, want.ts, "timestamps {what}");
        }
        if let Some(want) = want.user_timeout {
            let field = got.options.user_timeout.map_or(0, UserTimeoutOption::field);
            assert_eq!(field, want, "user timeout {what}");
        }
        if let Some(want) = want.kind {
            assert_eq!(kind, want, "kind {what}");
        }
        if let Some(want) = want.ecn {
            assert_eq!(got.ecn, want, "codepoint {what}");
        }
    }

    /// Nothing more was sent.
    #[track_caller]
    pub fn expect_quiet(&mut self) {
        if let Some((sent, kind, got)) = self.outbox.front() {
            let seq = got.seq.distance_from(self.iss);
            let ack = got.ack.distance_from(self.irs);
            panic!("not quiet: at {} us {kind:?} seq {seq} ack {ack} {got:?}", us(*sent));
        }
    }

    /// Nothing is sent until then.
    #[track_caller]
    pub fn expect_quiet_until(&mut self, at: Instant) {
        self.expect_quiet();
        self.advance(at);
        self.expect_quiet();
    }

    #[track_caller]
    pub fn expect_event(&mut self, want: Event) {
        while let Some(event) = self.events.pop_front() {
            if event == want {
                return;
            }
            let closing = matches!(want, Event::Closed { .. }) && event == Event::PeerClosed;
            assert!(
                closing || matches!(event, Event::Readable | Event::Writable),
                "{event:?} before {want:?}"
            );
        }
        panic!("no event {want:?} in {:?}", self.state());
    }

    #[track_caller]
    pub fn expect_closed(&mut self, reason: CloseReason, time_wait: bool) {
        self.expect_event(Event::Closed { reason, time_wait });
        assert_eq!(self.conn.close_reason(), Some(reason));
    }

    pub fn forget_output(&mut self) {
        self.outbox.clear();
    }

    pub fn outbox_len(&self) -> usize {
        self.outbox.len()
    }

    pub fn state(&self) -> State {
        self.conn.state()
    }

    pub fn info(&mut self) -> TcpInfo {
        let now = self.now;
        self.conn.info(&self.world.cx(now))
    }

    /// Everything that was sent since the last call, in relative numbers, as text.
    pub fn take_trace(&mut self) -> Vec<String> {
        let (iss, irs) = (self.iss, self.irs);
        let (ours, theirs) = self.clocks;
        let rel = |seq: SeqNum, base: SeqNum| seq.distance_from(base);
        self.outbox
            .drain(..)
            .map(|(at, kind, s)| {
                let sack: Vec<_> =
                    s.options.sack.iter().map(|&(a, b)| (rel(a, irs), rel(b, irs))).collect();
                format!(
                    "{} {kind:?} {} seq {} ack {} len {} wnd {} {sack:?} {:?}",
                    us(at),
                    s.flags,
                    rel(s.seq, iss),
                    rel(s.ack, irs),
                    s.len,
                    s.wnd,
                    s.options
                        .timestamps
                        .map(|(val, ecr)| (val.wrapping_sub(ours), ecr.wrapping_sub(theirs)))
                )
            })
            .collect()
    }

    /// A piece to be kept, in relative numbers.
    pub fn relative(&self, disposition: Disposition) -> String {
        match disposition {
            Disposition::Keep(k) => {
                let seq = k.seq.distance_from(self.irs);
                format!("keep {seq} skip {} len {} in order {}", k.skip, k.len, k.in_order)
            }
            other => format!("{other:?}"),
        }
    }
}

fn us(at: Instant) -> u64 {
    at.since(at_ms(0)).as_micros() as u64
}

/// A pause in milliseconds.
pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
