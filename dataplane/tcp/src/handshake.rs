//! SYN-SENT and SYN-RECEIVED: a small record, so that a flood of SYNs costs little. RFC 9293
//! section 3.5.
//!
//! One record serves active, passive and simultaneous opens. Its output is one of two things: the
//! SYN (with ACK in SYN-RECEIVED), on the retransmission timer, or a bare acknowledgement that
//! answers something out of place, at a limited rate.

#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use core::time::Duration;

use base::{DropReason, Ecn, Instant, Random, TcpFlags};

use crate::ecn;
use crate::mss::{TIMESTAMP_OPTION, advertised_mss};
use crate::params::CongestionAlgorithm;
use crate::timestamp::{rtt_of_echo, ts_before, ts_val};
use crate::window::{WindowScale, initial_window};
use crate::{
    CloseReason, ConnOptions, Connection, Cx, Opening, PathParams, Plan, PlanKind, Rto, SegOptions,
    Segment, SeqNum, SeqRange, State, TcpParams, UserTimeoutOption, reset_for,
};

/// Pause before another attempt when the device refused our segment.
const REFUSED_PAUSE_MAX: Duration = Duration::from_millis(500);

/// What a segment does to a handshake.
#[derive(Debug)]
pub enum HandshakeInput {
    /// Taken; poll for output.
    Continue,
    /// Discarded without effect (a reply may be due: poll for output).
    Drop(DropReason),
    /// Discarded, and this reset is to be sent (and counted) by the caller; the handshake goes on.
    Reset(Plan, DropReason),
    /// The connection stands. The caller replaces the handshake by it and hands it the very same
    /// segment, which may carry data, a FIN, a window.
    Established(Box<Connection>),
    /// It is over.
    Closed(CloseReason),
}

/// What the checks decide; the parent builds what goes out.
#[derive(Debug)]
enum Step {
    Continue,
    Drop(DropReason),
    Reset(DropReason),
    Established(Opening),
    Closed(CloseReason),
}

/// Where a handshake is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    SynSent,
    SynReceived,
}

/// A half-open connection, opened actively, passively or simultaneously.
#[derive(Clone, Debug)]
pub struct Handshake {
    path: PathParams,
    options: ConnOptions,
    /// The peer's initial sequence number; nothing in SYN-SENT.
    irs: SeqNum,
    /// TS.Recent; zero until the peer has sent one.
    ts_recent: u32,
    rto: Rto,
    /// When the retransmission timer expires, if `armed`.
    deadline: Instant,
    /// First transmission of our SYN.
    begun: Instant,
    /// Last answer under the rate limit, if `answered`.
    answered_at: Instant,
    /// Window of our SYN; unscaled, so it fits.
    rcv_wnd: u16,
    peer_mss: Option<u16>,
    /// What the peer's SYN told.
    user_timeout: Option<UserTimeoutOption>,
    rcv_wscale: WindowScale,
    snd_wscale: WindowScale,
    /// SYNs and SYN-ACKs that the device took, and how many of them were retransmissions.
    copies: u8,
    retransmits: u8,
    phase: Phase,
    active: bool,
    /// These four: what we offer until the peer's SYN has come, then what is in force.
    window_scaling: bool,
    sack: bool,
    timestamps: bool,
    ecn: bool,
    armed: bool,
    answered: bool,
    /// The SYN (or SYN-ACK) is to be sent; `again` if it was before.
    syn_due: bool,
    again: bool,
    /// A bare acknowledgement is to be sent.
    ack_due: bool,
    /// The device did not take the last SYN: the timer is a pause, no timeout.
    refused: bool,
    /// A soft error of the network was reported.
    unreachable: bool,
    close_requested: bool,
    /// Over, to be reported at the next deadline.
    failed: Option<CloseReason>,
}

// The options of the application are in there until they are kept elsewhere once per listener.
const _: () = assert!(size_of::<Handshake>() - size_of::<ConnOptions>() <= 128);
const _: () = assert!(size_of::<Handshake>() <= 192);

impl Handshake {
    /// Active open: SYN-SENT. The SYN comes out of [`Handshake::poll_transmit`].
    pub fn connect(cx: &mut Cx<'_>, path: &PathParams, options: &ConnOptions) -> Self {
        cx.counters.active_opens += 1;
        Self::new(cx, path, options, Phase::SynSent)
    }

    /// Passive open: SYN-RECEIVED, from a SYN that a listener has checked. The SYN-ACK comes out of
    /// [`Handshake::poll_transmit`]. Payload of the SYN is not taken; the peer sends it again.
    pub fn accept(
        cx: &mut Cx<'_>,
        seg: &Segment,
        path: &PathParams,
        options: &ConnOptions,
    ) -> Self {
        let mut handshake = Self::new(cx, path, options, Phase::SynReceived);
        handshake.take_syn(seg);
        handshake.ecn = ecn::grants(cx.params, handshake.algorithm(cx.params), seg);
        // The peer's options are known, so the window can be made of what a segment really holds.
        handshake.rcv_wnd = handshake.first_window(cx);
        handshake
    }

    fn new(cx: &mut Cx<'_>, path: &PathParams, options: &ConnOptions, phase: Phase) -> Self {
        let params = cx.params;
        let mut path = *path;
        if !params.timestamp_offset {
            path.ts_offset = 0;
        }
        let mut handshake = Self {
            path,
            options: *options,
            irs: SeqNum::new(0),
            ts_recent: 0,
            rto: Rto::initial(params),
            deadline: Instant::FAR_FUTURE,
            begun: cx.now,
            answered_at: Instant::ZERO,
            rcv_wnd: 0,
            peer_mss: None,
            user_timeout: None,
            rcv_wscale: WindowScale::choose(params, options),
            snd_wscale: WindowScale::ZERO,
            copies: 0,
            retransmits: 0,
            phase,
            active: phase == Phase::SynSent,
            window_scaling: params.window_scaling,
            sack: params.sack,
            timestamps: params.timestamps,
            ecn: ecn::asks(params, options.congestion.unwrap_or(params.congestion)),
            armed: false,
            answered: false,
            syn_due: true,
            again: false,
            ack_due: false,
            refused: false,
            unreachable: false,
            close_requested: false,
            failed: None,
        };
        if phase == Phase::SynSent {
            handshake.rcv_wnd = handshake.first_window(cx);
        }
        handshake
    }

    fn algorithm(&self, params: &TcpParams) -> CongestionAlgorithm {
        self.options.congestion.unwrap_or(params.congestion)
    }

    /// Our first window; in SYN-SENT timestamps are only offered, so they take no room yet.
    fn first_window(&self, cx: &Cx<'_>) -> u16 {
        let mut mss = advertised_mss(&self.path, &self.options);
        if self.phase == Phase::SynReceived && self.timestamps {
            mss = mss.saturating_sub(TIMESTAMP_OPTION);
        }
        initial_window(cx.params, &self.options, mss, cx.rcv_room) as u16
    }

    /// SYN-SENT or SYN-RECEIVED.
    pub fn state(&self) -> State {
        match self.phase {
            Phase::SynSent => State::SynSent,
            Phase::SynReceived => State::SynReceived,
        }
    }

    /// A segment for this connection. `accept_room`: whether the listener could take another
    /// established connection (true for active opens); without it a final ACK is dropped
    /// ([`DropReason::ListenOverflow`]) or answered with a reset (`tcp_abort_on_overflow`).
    pub fn on_segment(
        &mut self,
        cx: &mut Cx<'_>,
        seg: &Segment,
        accept_room: bool,
    ) -> HandshakeInput {
        match self.step(cx, seg, accept_room) {
            Step::Continue => HandshakeInput::Continue,
            Step::Drop(reason) => HandshakeInput::Drop(reason),
            Step::Reset(reason) => match reset_for(seg) {
                Some(plan) => HandshakeInput::Reset(plan, reason),
                None => HandshakeInput::Drop(reason),
            },
            Step::Established(opening) => {
                HandshakeInput::Established(Box::new(Connection::new(cx, &opening)))
            }
            Step::Closed(reason) => HandshakeInput::Closed(reason),
        }
    }

    fn step(&mut self, cx: &mut Cx<'_>, seg: &Segment, accept_room: bool) -> Step {
        if let Some(reason) = self.failed {
            return Step::Closed(reason);
        }
        if seg.flags.syn() && seg.flags.intersects(TcpFlags::RST | TcpFlags::FIN) {
            return Step::Drop(DropReason::TcpFlags);
        }
        match self.phase {
            Phase::SynSent => self.on_syn_sent(cx, seg),
            Phase::SynReceived => self.on_syn_received(cx, seg, accept_room),
        }
    }

    /// RFC 9293 section 3.10.7.3.
    fn on_syn_sent(&mut self, cx: &mut Cx<'_>, seg: &Segment) -> Step {
        let flags = seg.flags;
        // First, the ACK bit. Only our SYN is out, so only one number is acceptable; anything else
        // belongs to an older connection, and a reset ends that one.
        if flags.ack() && seg.ack != self.snd_nxt() {
            return match flags.rst() {
                true => Step::Drop(DropReason::TcpRstIgnored),
                false => Step::Reset(DropReason::TcpAckUnsent),
            };
        }
        if flags.ack() && !flags.rst() && self.echo_is_foreign(cx.now, seg) {
            cx.counters.paws_active += 1;
            return Step::Reset(DropReason::TcpPaws);
        }
        // Second, the RST bit. RFC 5961 section 3.2: believed if it acknowledges our SYN.
        if flags.rst() {
            return match flags.ack() {
                true => self.fail(cx, CloseReason::Refused),
                false => Step::Drop(DropReason::TcpRstIgnored),
            };
        }
        // Fourth, the SYN bit; fifth, without it there is nothing to do.
        if !flags.syn() {
            return Step::Drop(DropReason::TcpIgnored);
        }
        self.take_syn(seg);
        if flags.ack() {
            self.ecn &= ecn::is_granted(flags);
            return Step::Established(self.opening(cx, seg));
        }
        self.ecn &= ecn::grants(cx.params, self.algorithm(cx.params), seg);
        // Simultaneous open: the SYN goes out once more, now with an acknowledgement.
        self.phase = Phase::SynReceived;
        self.owe_syn(false);
        self.armed = false;
        Step::Continue
    }

    /// RFC 9293 section 3.10.7.4, as far as it concerns SYN-RECEIVED, in its order.
    fn on_syn_received(&mut self, cx: &mut Cx<'_>, seg: &Segment, accept_room: bool) -> Step {
        let flags = seg.flags;
        if flags.syn() && seg.seq == self.irs {
            if !flags.ack() {
                // The peer's SYN once more: the SYN-ACK was lost or is late. The timer goes on as
                // it was, so repeating SYNs does not prolong our patience.
                if self.may_answer(cx) {
                    self.owe_syn(true);
                }
                return Step::Continue;
            }
            if self.active {
                if let Some(drop) = self.check_timestamp(cx, seg) {
                    return drop;
                }
                // RFC 9293 figure 8: the SYN-ACKs of a simultaneous open cross. This one begins one
                // before the window, but its SYN is not news.
                return self.on_ack(cx, seg, accept_room);
            }
        }
        if !flags.rst()
            && let Some(drop) = self.check_timestamp(cx, seg)
        {
            return drop;
        }
        // The RST bit; RFC 5961 section 3.2: only the exact number is believed, and what counts is the
        // number of the reset alone, whatever it carries.
        if flags.rst() {
            if seg.seq != self.rcv_nxt() {
                if !self.window().is_some_and(|window| window.contains(seg.seq)) {
                    return Step::Drop(DropReason::TcpRstIgnored);
                }
                self.owe_challenge(cx);
                return Step::Drop(DropReason::TcpRstChallenged);
            }
            cx.counters.embryonic_rsts += 1;
            let reason = if self.active { CloseReason::Refused } else { CloseReason::ResetByPeer };
            return self.fail(cx, reason);
        }
        // The sequence number.
        if !self.is_acceptable(seg) {
            self.owe_ack(cx);
            return Step::Drop(DropReason::TcpOutOfWindow);
        }
        // Fourth, the SYN bit: a passive open returns to LISTEN, where the peer's next SYN finds an
        // empty place; an active one challenges, RFC 5961 section 4.2.
        if flags.syn() {
            if !self.active {
                return self.fail(cx, CloseReason::ResetByPeer);
            }
            cx.counters.syn_challenge += 1;
            self.owe_challenge(cx);
            return Step::Drop(DropReason::TcpSynChallenged);
        }
        // Fifth, the ACK bit.
        if !flags.ack() {
            return Step::Drop(DropReason::TcpNoAck);
        }
        self.on_ack(cx, seg, accept_room)
    }

    /// The segment is in place and has an acknowledgement.
    fn on_ack(&mut self, cx: &mut Cx<'_>, seg: &Segment, accept_room: bool) -> Step {
        if seg.ack != self.snd_nxt() {
            return Step::Reset(DropReason::TcpAckUnsent);
        }
        if !accept_room {
            cx.counters.listen_overflows += 1;
            cx.counters.listen_drops += 1;
            if cx.params.abort_on_overflow {
                cx.counters.attempt_fails += 1;
                self.failed = Some(CloseReason::Resources);
                return Step::Reset(DropReason::ListenOverflow);
            }
            // The SYN-ACK stays armed; the peer's answer to it is the next chance.
            return Step::Drop(DropReason::ListenOverflow);
        }
        if !self.active {
            cx.counters.passive_opens += 1;
        }
        if let Some((ts_val, _)) = seg.options.timestamps
            && self.timestamps
            && !ts_before(ts_val, self.ts_recent)
            && !seg.flags.syn()
            && seg.seq.at_or_before(self.rcv_nxt())
        {
            self.ts_recent = ts_val;
        }
        Step::Established(self.opening(cx, seg))
    }

    /// What the peer's SYN says. What both sides offered is in force, RFC 7323 section 2.2 and RFC 2018
    /// section 2.
    fn take_syn(&mut self, seg: &Segment) {
        let options = &seg.options;
        self.irs = seg.seq;
        self.peer_mss = options.mss.filter(|&mss| mss != 0);
        self.user_timeout = options.user_timeout;
        self.sack &= options.sack_permitted;
        match options.window_scale {
            Some(shift) if self.window_scaling => self.snd_wscale = WindowScale::clamped(shift),
            _ => {
                self.window_scaling = false;
                self.rcv_wscale = WindowScale::ZERO;
            }
        }
        match options.timestamps {
            Some((ts_val, _)) if self.timestamps => self.ts_recent = ts_val,
            _ => self.timestamps = false,
        }
    }

    /// The timestamp echoed was not sent by us in this handshake: an old segment.
    fn echo_is_foreign(&self, now: Instant, seg: &Segment) -> bool {
        let Some((_, ts_ecr)) = seg.options.timestamps else { return false };
        let offset = self.path.ts_offset;
        self.timestamps
            && ts_ecr != 0
            && (ts_before(ts_ecr, ts_val(self.begun, offset))
                || ts_before(ts_val(now, offset), ts_ecr))
    }

    /// RFC 7323 sections 3.2 and 5.3.
    fn check_timestamp(&mut self, cx: &mut Cx<'_>, seg: &Segment) -> Option<Step> {
        if !self.timestamps {
            return None;
        }
        match seg.options.timestamps {
            // A peer that has begun anew may not use them; what continues a handshake does.
            None if seg.flags.syn() && !seg.flags.ack() => None,
            None => {
                cx.params.require_timestamps.then_some(Step::Drop(DropReason::TcpTimestampMissing))
            }
            Some((ts_val, _)) if ts_before(ts_val, self.ts_recent) => {
                cx.counters.paws_estab += 1;
                self.owe_ack(cx);
                Some(Step::Drop(DropReason::TcpPaws))
            }
            Some(_) => None,
        }
    }

    /// The four cases of RFC 9293 section 3.10.7.4, first step. What begins exactly at the next
    /// number passes even into a closed window, so that its acknowledgement counts.
    fn is_acceptable(&self, seg: &Segment) -> bool {
        let nxt = self.rcv_nxt();
        if seg.seq == nxt {
            return true;
        }
        let Some(window) = self.window() else { return false };
        let len = seg.seq_len();
        window.contains(seg.seq) || len > 0 && window.contains(seg.seq.add(len - 1))
    }

    /// What we offered.
    fn window(&self) -> Option<SeqRange> {
        SeqRange::with_len(self.rcv_nxt(), u32::from(self.rcv_wnd))
    }

    /// Everything that the connection needs to know; `seg` acknowledges our SYN.
    fn opening(&self, cx: &Cx<'_>, seg: &Segment) -> Opening {
        let wnd = if seg.flags.syn() { WindowScale::ZERO } else { self.snd_wscale };
        Opening {
            path: self.path,
            options: self.options,
            iss: self.iss(),
            irs: self.irs,
            snd_nxt: self.snd_nxt(),
            snd_wnd: wnd.bytes(seg.wnd),
            snd_wl1: seg.seq,
            snd_wl2: seg.ack,
            snd_wscale: self.snd_wscale.get(),
            rcv_wscale: self.rcv_wscale.get(),
            rcv_wnd: u32::from(self.rcv_wnd),
            window_scaling: self.window_scaling,
            sack: self.sack,
            ts_recent: self.timestamps.then_some(self.ts_recent),
            ecn: self.ecn,
            peer_mss: self.peer_mss,
            user_timeout: self.user_timeout,
            rtt: self.rtt(cx.now, seg).filter(|_| seg.arrival != Segment::ARRIVAL_UNKNOWN),
            syn_retransmits: self.retransmits,
            active: self.active,
            close_requested: self.close_requested,
        }
    }

    /// Karn: with one copy sent the answer belongs to it; with more, only an echoed timestamp tells
    /// to which.
    fn rtt(&self, now: Instant, seg: &Segment) -> Option<Duration> {
        if self.copies <= 1 {
            return Some(now.since(self.begun));
        }
        let (_, ts_ecr) = seg.options.timestamps.filter(|_| self.timestamps)?;
        if ts_ecr == 0 || self.echo_is_foreign(now, seg) {
            return None;
        }
        rtt_of_echo(now, self.path.ts_offset, ts_ecr)
    }

    /// A deadline may have passed. `Some` when the handshake has failed for good.
    pub fn on_deadline(&mut self, cx: &mut Cx<'_>) -> Option<CloseReason> {
        if self.failed.is_some() {
            return self.failed;
        }
        if !self.armed || cx.now < self.deadline {
            return None;
        }
        let params = cx.params;
        let (linear, limit) = match self.active {
            true => (
                params.syn_linear_timeouts,
                params
                    .syn_linear_timeouts
                    .saturating_add(self.options.syn_retries.unwrap_or(params.syn_retries)),
            ),
            false => (0, params.synack_retries),
        };
        let expired = self.gives_up_at(params).is_some_and(|at| cx.now >= at);
        if self.refused && !expired {
            self.refused = false;
            self.armed = false;
            self.syn_due = true;
            return None;
        }
        if self.rto.backoff() >= limit || expired {
            if self.active {
                cx.counters.abort_on_timeout += 1;
            }
            cx.counters.attempt_fails += 1;
            let reason =
                if self.unreachable { CloseReason::Unreachable } else { CloseReason::TimedOut };
            self.failed = Some(reason);
            return self.failed;
        }
        if self.active && self.rto.backoff() == 0 {
            cx.counters.timeouts += 1;
        }
        self.rto =
            if self.rto.backoff() < linear { self.rto.repeat() } else { self.rto.double(params) };
        // Perhaps the path that this hash selects is the reason.
        self.path.txhash = nonzero(cx.random);
        self.armed = false;
        self.owe_syn(true);
        None
    }

    /// RFC 5482: the user timeout bounds an active open too.
    fn gives_up_at(&self, params: &TcpParams) -> Option<Instant> {
        let timeout = params.user_timeout_or(self.options.user_timeout);
        timeout.filter(|_| self.active).map(|timeout| self.begun + timeout)
    }

    /// An ICMP error of the network for this connection's SYN: hard ones end SYN-SENT, all others
    /// are remembered for the reason that a timeout gives. RFC 5461 says what that costs.
    pub fn on_unreachable(&mut self, cx: &mut Cx<'_>, hard: bool) -> Option<CloseReason> {
        if hard && self.phase == Phase::SynSent && self.failed.is_none() {
            cx.counters.attempt_fails += 1;
            self.failed = Some(CloseReason::Unreachable);
            return self.failed;
        }
        self.unreachable = true;
        None
    }

    /// What to send now, until `None`.
    pub fn poll_transmit(&mut self, cx: &mut Cx<'_>) -> Option<Plan> {
        if self.failed.is_some() {
            return None;
        }
        if self.syn_due {
            self.syn_due = false;
            // A SYN-ACK says all that the acknowledgement would.
            self.ack_due &= self.phase == Phase::SynSent;
            if self.copies == 0 {
                self.begun = cx.now;
            }
            if !self.armed || self.refused {
                self.refused = false;
                self.arm(cx.params, cx.now + self.rto.get());
            }
            return Some(self.syn(cx));
        }
        if self.ack_due {
            self.ack_due = false;
            return Some(self.ack(cx));
        }
        None
    }

    fn syn(&self, cx: &Cx<'_>) -> Plan {
        let (flags, ack) = match self.phase {
            Phase::SynSent => (TcpFlags::SYN, SeqNum::new(0)),
            Phase::SynReceived => (TcpFlags::SYN | TcpFlags::ACK, self.rcv_nxt()),
        };
        let mut options = self.plan_options(cx.now);
        options.mss = Some(advertised_mss(&self.path, &self.options));
        options.window_scale = self.window_scaling.then(|| self.rcv_wscale.get());
        options.sack_permitted = self.sack;
        options.user_timeout = cx.params.advertised_user_timeout(self.options.user_timeout);
        let said = self.syn_ecn(cx.params);
        let flags = flags | said;
        let mut plan = self.plan(PlanKind::Syn, self.iss(), flags, ack, self.rcv_wnd, options);
        if said != TcpFlags::empty() && self.algorithm(cx.params).needs_ecn() {
            // RFC 8257 section 3.6: where DCTCP is at home, what is not capable is dropped first.
            plan.ecn = Ecn::Ect0;
        }
        plan
    }

    /// What our SYN says of ECN: RFC 3168 section 6.1.1. One that is repeated does not ask any more
    /// (RFC 3168 section 6.1.1.1), but takes what the answer to the first may still grant. A SYN-ACK is
    /// repeated as it was.
    fn syn_ecn(&self, params: &TcpParams) -> TcpFlags {
        match self.phase {
            _ if !self.ecn => TcpFlags::empty(),
            Phase::SynReceived => TcpFlags::ECE,
            Phase::SynSent if self.again && params.ecn_fallback => TcpFlags::empty(),
            Phase::SynSent => TcpFlags::ECE | TcpFlags::CWR,
        }
    }

    fn ack(&self, cx: &Cx<'_>) -> Plan {
        let wnd = self.rcv_wscale.raw(u32::from(self.rcv_wnd));
        let options = self.plan_options(cx.now);
        self.plan(PlanKind::Ack, self.snd_nxt(), TcpFlags::ACK, self.rcv_nxt(), wnd, options)
    }

    fn plan_options(&self, now: Instant) -> SegOptions {
        let ts_val = ts_val(now, self.path.ts_offset);
        SegOptions {
            timestamps: self.timestamps.then_some((ts_val, self.ts_recent)),
            ..SegOptions::default()
        }
    }

    fn plan(
        &self,
        kind: PlanKind,
        seq: SeqNum,
        flags: TcpFlags,
        ack: SeqNum,
        wnd: u16,
        options: SegOptions,
    ) -> Plan {
        let txhash = self.path.txhash;
        Plan { kind, seq, len: 0, seg_size: 0, flags, ack, wnd, options, ecn: Ecn::NotEct, txhash }
    }

    /// The plan was handed to the device (`sent`), or refused.
    pub fn on_transmitted(&mut self, cx: &mut Cx<'_>, plan: &Plan, sent: bool) {
        if plan.kind != PlanKind::Syn {
            match sent {
                true => cx.counters.out_segs += 1,
                false => self.ack_due = true,
            }
            return;
        }
        if !sent {
            // No timeout and no congestion: try again soon, and do not count it.
            cx.counters.retrans_fail += u64::from(self.again);
            self.refused = true;
            self.arm(cx.params, cx.now + self.rto.get().min(REFUSED_PAUSE_MAX));
            return;
        }
        self.copies = self.copies.saturating_add(1);
        if self.again {
            self.retransmits = self.retransmits.saturating_add(1);
            cx.counters.retrans_segs += 1;
            cx.counters.syn_retrans += 1;
        } else {
            cx.counters.out_segs += 1;
        }
    }

    /// When to call [`Handshake::on_deadline`].
    pub fn next_deadline(&self) -> Option<Instant> {
        if self.failed.is_some() {
            return Some(Instant::ZERO);
        }
        self.armed.then_some(self.deadline)
    }

    /// Change what the connection will be like. What the SYN says stays as it was said.
    pub fn set_options(&mut self, options: &ConnOptions) {
        let said = ConnOptions { mss: self.options.mss, rcvbuf: self.options.rcvbuf, ..*options };
        self.options = said;
    }

    /// The application closes before the handshake is complete: remembered, and done once it is.
    pub fn close(&mut self) {
        self.close_requested = true;
    }

    /// Give up; a reset to the peer if one is due: in SYN-RECEIVED, RFC 9293 section 3.10.5. The
    /// caller sends and counts it.
    pub fn abort(&mut self, cx: &mut Cx<'_>) -> Option<Plan> {
        if self.failed.is_some() {
            return None;
        }
        cx.counters.attempt_fails += 1;
        self.failed = Some(CloseReason::Aborted);
        (self.phase == Phase::SynReceived).then(|| {
            let flags = TcpFlags::RST | TcpFlags::ACK;
            let options = SegOptions::default();
            self.plan(PlanKind::Reset, self.snd_nxt(), flags, self.rcv_nxt(), 0, options)
        })
    }

    const fn iss(&self) -> SeqNum {
        SeqNum::new(self.path.iss)
    }

    const fn snd_nxt(&self) -> SeqNum {
        self.iss().add(1)
    }

    const fn rcv_nxt(&self) -> SeqNum {
        self.irs.add(1)
    }

    fn fail(&mut self, cx: &mut Cx<'_>, reason: CloseReason) -> Step {
        cx.counters.attempt_fails += 1;
        self.failed = Some(reason);
        Step::Closed(reason)
    }

    fn arm(&mut self, params: &TcpParams, deadline: Instant) {
        self.armed = true;
        self.deadline = self.gives_up_at(params).map_or(deadline, |at| deadline.min(at));
    }

    fn owe_syn(&mut self, again: bool) {
        self.syn_due = true;
        self.again = again && self.copies > 0;
    }

    /// An acknowledgement for a segment out of place.
    fn owe_ack(&mut self, cx: &mut Cx<'_>) {
        if self.may_answer(cx) {
            self.ack_due = true;
        } else {
            cx.counters.ack_skipped += 1;
        }
    }

    /// RFC 5961 section 7: a peer that really is there answers the challenge with the exact number.
    /// Limited per handshake, and over all connections of the worker.
    fn owe_challenge(&mut self, cx: &mut Cx<'_>) {
        let limit = cx.params.challenge_ack_limit;
        if self.may_answer(cx) && cx.counters.challenges.take(cx.now, limit, cx.random) {
            cx.counters.challenge_ack += 1;
            self.ack_due = true;
        } else {
            cx.counters.ack_skipped += 1;
        }
    }

    /// One answer per `tcp_invalid_ratelimit`, so that nobody makes us talk.
    fn may_answer(&mut self, cx: &Cx<'_>) -> bool {
        if self.answered && cx.now.since(self.answered_at) < cx.params.invalid_ratelimit {
            return false;
        }
        self.answered = true;
        self.answered_at = cx.now;
        true
    }
}

/// A transmit hash; zero means "none".
fn nonzero(random: &mut dyn Random) -> u32 {
    (random.next_u64() as u32).max(1)
}
