//! TIME-WAIT as a small record.

use core::time::Duration;

use base::{DropReason, Ecn, Instant, TcpFlags};

use crate::timestamp::{TS_RECENT_VALID, ts_before, ts_val};
use crate::{Cx, Plan, PlanKind, SegOptions, Segment, SeqNum};

/// How far beyond the old connection's numbers a new one begins: more than any unscaled window, so
/// that old segments fall outside.
const ISS_DISTANCE: u32 = 65_537;

/// What a segment does to a TIME-WAIT record.
#[derive(Debug)]
pub enum TimeWaitInput {
    /// Discard; the record stays (its expiry may have moved: see [`TimeWait::expires`]).
    Drop(DropReason),
    /// Discard and send (and count) this acknowledgement; the record stays.
    Ack(Plan, DropReason),
    /// A SYN that may open a new connection, RFC 9293 section 3.6.1 and RFC 6191 section 2: if a
    /// listener has room for it, the stack removes the record, counts `tw_recycled` and hands the
    /// segment to the listener, with this initial sequence number. Otherwise the record stays.
    NewConnection {
        /// To be used as ISS.
        iss: u32,
    },
    /// The record is ended (by a reset, unless `tcp_rfc1337`).
    Remove,
}

/// What a connection leaves to its record.
#[derive(Clone, Copy, Debug)]
pub struct TimeWaitSeed {
    /// Next sequence number that we would send.
    pub snd_nxt: SeqNum,
    /// Next one expected, after the peer's FIN.
    pub rcv_nxt: SeqNum,
    /// Window field of our acknowledgements, already scaled.
    pub rcv_wnd: u16,
    /// TS.Recent if timestamps are in force, and when it was taken.
    pub ts_recent: Option<(u32, Instant)>,
    /// Offset of our timestamp clock.
    pub ts_offset: u32,
    /// Transmit hash of our acknowledgements.
    pub txhash: u32,
}

/// What is left of a closed connection: at most 64 bytes.
#[derive(Clone, Debug)]
pub struct TimeWait {
    snd_nxt: SeqNum,
    rcv_nxt: SeqNum,
    ts_recent: u32,
    ts_offset: u32,
    txhash: u32,
    rcv_wnd: u16,
    /// Timestamps are in force.
    timestamps: bool,
    /// An acknowledgement was sent: see `acked_at`.
    acked: bool,
    ts_recent_at: Instant,
    /// When the last acknowledgement under the rate limit was sent.
    acked_at: Instant,
    expires: Instant,
}

const _: () = assert!(size_of::<TimeWait>() <= 64);

impl TimeWait {
    /// The record of a connection that has just closed; it lives for `params.time_wait`. Whoever
    /// keeps it counts `tw`.
    pub fn new(cx: &Cx<'_>, seed: TimeWaitSeed) -> Self {
        let TimeWaitSeed { snd_nxt, rcv_nxt, rcv_wnd, ts_recent, ts_offset, txhash } = seed;
        let (ts_recent, ts_recent_at, timestamps) = match ts_recent {
            Some((ts_recent, at)) => (ts_recent, at, true),
            None => (0, Instant::ZERO, false),
        };
        Self {
            snd_nxt,
            rcv_nxt,
            ts_recent,
            ts_offset,
            txhash,
            rcv_wnd,
            timestamps,
            acked: false,
            ts_recent_at,
            acked_at: Instant::ZERO,
            expires: cx.now + cx.params.time_wait,
        }
    }

    /// A segment for this record, RFC 9293 section 3.10.7.4 for TIME-WAIT.
    pub fn on_segment(&mut self, cx: &mut Cx<'_>, seg: &Segment) -> TimeWaitInput {
        let flags = seg.flags;
        if flags.syn() && flags.intersects(TcpFlags::RST | TcpFlags::FIN) {
            return TimeWaitInput::Drop(DropReason::TcpFlags);
        }
        if flags.rst() {
            return self.on_reset(cx, seg);
        }
        let paws = self.is_too_old(cx.now, seg);
        if flags.syn() && !flags.ack() && !paws && self.is_newer(seg) {
            return TimeWaitInput::NewConnection { iss: self.next_iss() };
        }
        if paws {
            cx.counters.paws_estab += 1;
            return self.ack_limited(cx, DropReason::TcpPaws);
        }
        if !flags.ack() {
            // An old duplicate SYN is answered: whoever really sent it will reset us, and the others
            // ignore it. Nothing else comes without ACK.
            return if flags.syn() {
                self.ack_limited(cx, DropReason::TimeWait)
            } else {
                TimeWaitInput::Drop(DropReason::TcpNoAck)
            };
        }
        let missing = self.timestamps && seg.options.timestamps.is_none();
        if missing && cx.params.require_timestamps {
            // RFC 7323 section 3.2: a segment without the negotiated option is dropped.
            return TimeWaitInput::Drop(DropReason::TcpTimestampMissing);
        }
        if let Some((ts_val, _)) = seg.options.timestamps
            && self.timestamps
            && seg.seq.at_or_before(self.rcv_nxt)
            // RFC 7323 section 5.3: not from a segment that is old altogether, or anybody could put
            // the peer's clock forward and keep its next connection out.
            && seg.end_seq().at_or_after(self.rcv_nxt)
            && !flags.syn()
        {
            self.ts_recent = ts_val;
            self.ts_recent_at = cx.now;
        }
        if flags.fin() && seg.end_seq() == self.rcv_nxt {
            // RFC 9293 section 3.10.7.4, eighth: the peer has not seen our acknowledgement of its
            // FIN; repeat it and restart the 2 MSL timeout.
            self.expires = cx.now + cx.params.time_wait;
            return TimeWaitInput::Ack(self.ack(cx.now), DropReason::TimeWait);
        }
        if seg.seq == self.rcv_nxt && seg.seq_len() == 0 {
            // An acceptable acknowledgement needs no answer; two ends in TIME-WAIT would otherwise
            // answer each other for ever.
            return TimeWaitInput::Drop(DropReason::TimeWait);
        }
        self.ack_limited(cx, DropReason::TimeWait)
    }

    /// RFC 5961 section 3.2: only the exact number counts. RFC 1337 section 3: even then an old duplicate may
    /// end the record too early, so a knob ignores all of them.
    fn on_reset(&mut self, cx: &mut Cx<'_>, seg: &Segment) -> TimeWaitInput {
        if seg.seq != self.rcv_nxt || cx.params.rfc1337 {
            return TimeWaitInput::Drop(DropReason::TcpRstIgnored);
        }
        cx.counters.tw_killed += 1;
        TimeWaitInput::Remove
    }

    /// PAWS, RFC 7323 section 5.3.
    fn is_too_old(&self, now: Instant, seg: &Segment) -> bool {
        let Some((ts_val, _)) = seg.options.timestamps else { return false };
        self.timestamps
            && ts_before(ts_val, self.ts_recent)
            && now.since(self.ts_recent_at) <= TS_RECENT_VALID
    }

    /// RFC 6191 section 2, in the order of Linux: beyond the old numbers, or with a newer timestamp.
    fn is_newer(&self, seg: &Segment) -> bool {
        let newer_ts = seg
            .options
            .timestamps
            .is_some_and(|(ts_val, _)| self.timestamps && ts_before(self.ts_recent, ts_val));
        seg.seq.after(self.rcv_nxt) || newer_ts
    }

    fn next_iss(&self) -> u32 {
        match self.snd_nxt.add(ISS_DISTANCE).get() {
            // Zero means "not chosen" to whoever takes it.
            0 => 1,
            iss => iss,
        }
    }

    fn ack_limited(&mut self, cx: &mut Cx<'_>, reason: DropReason) -> TimeWaitInput {
        if self.acked && cx.now.since(self.acked_at) < cx.params.invalid_ratelimit {
            cx.counters.ack_skipped += 1;
            return TimeWaitInput::Drop(reason);
        }
        self.acked = true;
        self.acked_at = cx.now;
        TimeWaitInput::Ack(self.ack(cx.now), reason)
    }

    fn ack(&self, now: Instant) -> Plan {
        Plan {
            kind: PlanKind::Ack,
            seq: self.snd_nxt,
            len: 0,
            seg_size: 0,
            flags: TcpFlags::ACK,
            ack: self.rcv_nxt,
            wnd: self.rcv_wnd,
            options: SegOptions {
                timestamps: self.timestamps.then(|| (ts_val(now, self.ts_offset), self.ts_recent)),
                ..SegOptions::default()
            },
            ecn: Ecn::NotEct,
            txhash: self.txhash,
        }
    }

    /// When the record may be forgotten.
    pub fn expires(&self) -> Instant {
        self.expires
    }

    /// Whether an outgoing connection may take over the address pair now (`tcp_tw_reuse`), and with
    /// which initial sequence number. Only timestamps tell old segments from new ones, and only if
    /// their clock has moved since (RFC 6191). The caller counts `tw_recycled`.
    pub fn reuse(&self, cx: &Cx<'_>, loopback: bool) -> Option<u32> {
        let allowed = match cx.params.tw_reuse {
            0 => false,
            2 => loopback,
            _ => true,
        };
        let waited = cx.now.since(self.ts_recent_at) >= cx.params.tw_reuse_delay.max(TS_TICK);
        (allowed && self.timestamps && waited).then(|| self.next_iss())
    }
}

/// One tick of the timestamp clock.
const TS_TICK: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SegOptions;
    use crate::testing::World;

    const SND_NXT: u32 = 5_000;
    const RCV_NXT: u32 = 9_000;

    fn seed() -> TimeWaitSeed {
        TimeWaitSeed {
            snd_nxt: SeqNum::new(SND_NXT),
            rcv_nxt: SeqNum::new(RCV_NXT),
            rcv_wnd: 500,
            ts_recent: Some((700, Instant::ZERO)),
            ts_offset: 100_000,
            txhash: 77,
        }
    }

    fn seg(flags: TcpFlags, seq: u32, len: u32, ts: Option<u32>) -> Segment {
        Segment {
            seq: SeqNum::new(seq),
            ack: SeqNum::new(SND_NXT),
            flags,
            wnd: 1000,
            len,
            seg_size: len,
            segs: 1,
            options: SegOptions { timestamps: ts.map(|t| (t, 0)), ..SegOptions::default() },
            ecn: Ecn::NotEct,
            arrival: Instant::ZERO,
        }
    }

    /// What became of it, in a word.
    fn word(input: &TimeWaitInput) -> &'static str {
        match input {
            TimeWaitInput::Drop(DropReason::TimeWait) => "ignore",
            TimeWaitInput::Drop(reason) => reason.name(),
            TimeWaitInput::Ack(..) => "ack",
            TimeWaitInput::NewConnection { .. } => "new",
            TimeWaitInput::Remove => "remove",
        }
    }

    /// RFC 6191 section 2, RFC 9293 section 3.6.1, RFC 1122 section 4.2.2.13.
    #[test]
    fn segments_and_what_they_do() {
        const A: TcpFlags = TcpFlags::ACK;
        const S: TcpFlags = TcpFlags::SYN;
        const F: TcpFlags = TcpFlags::FIN;
        const R: TcpFlags = TcpFlags::RST;
        let ts = |v: u32| Some(v);
        // Name, flags, sequence relative to rcv_nxt, length, TSval, rfc1337, result, restarts.
        for (name, flags, rel, len, tsval, rfc1337, expected, restarts) in [
            ("retransmitted FIN", F | A, -1, 0, ts(700), false, "ack", true),
            ("retransmitted FIN with its data", F | A, -101, 100, ts(701), false, "ack", true),
            ("FIN elsewhere", F | A, 10, 0, ts(701), false, "ack", false),
            ("acceptable ACK", A, 0, 0, ts(701), false, "ignore", false),
            ("ACK elsewhere", A, -5, 0, ts(701), false, "ack", false),
            ("data", A, 0, 10, ts(701), false, "ack", false),
            ("old data", A, -10, 10, ts(701), false, "ack", false),
            ("too old by timestamp", F | A, -1, 0, ts(699), false, "ack", false),
            ("timestamp missing", F | A, -1, 0, None, false, "tcp_ts_missing", false),
            ("neither ACK nor SYN", F, -1, 0, ts(701), false, "tcp_no_ack", false),
            ("RST, exact", R, 0, 0, None, false, "remove", false),
            ("RST+ACK, exact, old timestamp", R | A, 0, 0, ts(1), false, "remove", false),
            ("RST, exact, rfc1337", R, 0, 0, None, true, "tcp_rst_ignored", false),
            ("RST, one less", R, -1, 0, None, false, "tcp_rst_ignored", false),
            ("RST, one more", R, 1, 0, None, false, "tcp_rst_ignored", false),
            ("SYN beyond", S, 1, 0, None, false, "new", false),
            ("SYN beyond, old timestamp", S, 1, 0, ts(699), false, "ack", false),
            ("SYN at rcv_nxt, same timestamp", S, 0, 0, ts(700), false, "ack", false),
            ("SYN below, newer timestamp", S, -50, 0, ts(701), false, "new", false),
            ("SYN below, no timestamp", S, -50, 0, None, false, "ack", false),
            ("SYN+ACK beyond", S | A, 1, 0, ts(701), false, "ack", false),
            ("SYN+FIN", S | F, 1, 0, ts(701), false, "tcp_flags", false),
            ("SYN+RST", S | R, 0, 0, ts(701), false, "tcp_flags", false),
        ] {
            let mut w = World::new();
            w.params.rfc1337 = rfc1337;
            w.params.require_timestamps = true;
            let mut tw = TimeWait::new(&w.cx(), seed());
            let before = tw.expires();
            w.now = Instant::from_millis(10_000);
            let seq = RCV_NXT.wrapping_add_signed(rel);
            let got = tw.on_segment(&mut w.cx(), &seg(flags, seq, len, tsval));
            assert_eq!(word(&got), expected, "{name}");
            let moved = tw.expires() != before;
            assert_eq!(moved, restarts, "{name}");
            if moved {
                assert_eq!(tw.expires(), Instant::from_millis(70_000), "{name}");
            }
        }
    }

    #[test]
    fn the_acknowledgement_says_the_last_numbers() {
        let mut w = World::new();
        let mut tw = TimeWait::new(&w.cx(), seed());
        w.now = Instant::from_millis(42);
        let fin = seg(TcpFlags::FIN | TcpFlags::ACK, RCV_NXT - 1, 0, Some(710));
        let TimeWaitInput::Ack(plan, DropReason::TimeWait) = tw.on_segment(&mut w.cx(), &fin)
        else {
            panic!("no acknowledgement");
        };
        assert_eq!((plan.seq.get(), plan.ack.get(), plan.wnd), (SND_NXT, RCV_NXT, 500));
        assert_eq!((plan.flags, plan.kind, plan.txhash), (TcpFlags::ACK, PlanKind::Ack, 77));
        assert_eq!(plan.options.timestamps, Some((100_042, 710)));
    }

    #[test]
    fn only_a_segment_in_place_sets_the_timestamp() {
        for (seq, expected) in [(RCV_NXT, 710), (RCV_NXT + 1, 700)] {
            let mut w = World::new();
            let mut tw = TimeWait::new(&w.cx(), seed());
            match tw.on_segment(&mut w.cx(), &seg(TcpFlags::ACK, seq, 10, Some(710))) {
                TimeWaitInput::Ack(plan, _) => {
                    assert_eq!(plan.options.timestamps, Some((100_000, expected)));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn other_acknowledgements_are_rate_limited_but_those_of_a_fin_are_not() {
        let mut w = World::new();
        let mut tw = TimeWait::new(&w.cx(), seed());
        let data = seg(TcpFlags::ACK, RCV_NXT, 10, Some(701));
        let fin = seg(TcpFlags::ACK | TcpFlags::FIN, RCV_NXT - 1, 0, Some(701));
        for (at, segment, expected) in [
            (0, &data, "ack"),
            (499, &data, "ignore"),
            (499, &fin, "ack"),
            (500, &data, "ack"),
            (600, &data, "ignore"),
            (600, &fin, "ack"),
        ] {
            w.now = Instant::from_millis(at);
            let got = tw.on_segment(&mut w.cx(), segment);
            assert_eq!(word(&got), expected, "at {at} ms: {segment:?}");
        }
        assert_eq!(w.counters.ack_skipped, 2);
    }

    #[test]
    fn a_new_connection_begins_beyond_the_old_one_and_never_at_zero() {
        for (snd_nxt, iss) in
            [(SND_NXT, SND_NXT + 65_537), (u32::MAX, 65_536), (0u32.wrapping_sub(65_537), 1)]
        {
            let mut w = World::new();
            let seed = TimeWaitSeed { snd_nxt: SeqNum::new(snd_nxt), ..seed() };
            let mut tw = TimeWait::new(&w.cx(), seed);
            let syn = seg(TcpFlags::SYN, RCV_NXT + 1, 0, None);
            match tw.on_segment(&mut w.cx(), &syn) {
                TimeWaitInput::NewConnection { iss: got } => assert_eq!(got, iss),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn outgoing_reuse_needs_permission_timestamps_and_time() {
        for (name, knob, loopback, timestamps, age_ms, expected) in [
            ("off", 0, true, true, 5000, false),
            ("on", 1, false, true, 1000, true),
            ("on, too early", 1, false, true, 999, false),
            ("on, without timestamps", 1, false, false, 5000, false),
            ("loopback only, loopback", 2, true, true, 1000, true),
            ("loopback only, elsewhere", 2, false, true, 5000, false),
        ] {
            let mut w = World::new();
            w.params.tw_reuse = knob;
            let ts_recent = timestamps.then_some((1, Instant::from_millis(100)));
            let tw = TimeWait::new(&w.cx(), TimeWaitSeed { ts_recent, ..seed() });
            w.now = Instant::from_millis(100 + age_ms);
            let iss = expected.then_some(SND_NXT + 65_537);
            assert_eq!(tw.reuse(&w.cx(), loopback), iss, "{name}");
        }
    }

    #[test]
    fn a_timestamp_of_24_idle_days_refuses_nothing() {
        let mut w = World::new();
        w.params.time_wait = Duration::from_secs(30 * 24 * 3600);
        let mut tw = TimeWait::new(&w.cx(), seed());
        w.now = Instant::ZERO + TS_RECENT_VALID + Duration::from_secs(1);
        let fin = seg(TcpFlags::ACK | TcpFlags::FIN, RCV_NXT - 1, 0, Some(1));
        tw.on_segment(&mut w.cx(), &fin);
        assert_eq!(w.counters.paws_estab, 0);
    }
}
