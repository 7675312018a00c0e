//! The synchronised states: ESTABLISHED to LAST-ACK.
//!
//! Four kinds of method, as in any sans-I/O machine:
//!
//! - *in, from the network or the clock*: [`Connection::on_segments`], [`Connection::on_deadline`],
//!   [`Connection::on_unreachable`];
//! - *in, from the application*: [`Connection::send`], [`Connection::consume`],
//!   [`Connection::close`], [`Connection::abort`];
//! - *out*: [`Connection::poll_transmit`] until `None`, each plan answered by
//!   [`Connection::on_transmitted`]; [`Connection::poll_event`] until `None`;
//! - *out, for the caller's bookkeeping*: [`Connection::next_deadline`], [`Connection::snd_una`],
//!   [`Connection::rcv_nxt`].
//!
//! Inputs change state and record intent. Nothing is sent from inside an input.

mod acked;
mod buffer;
mod deadline;
mod extras;
mod input;
mod output;
mod parts;
mod report;
#[cfg(test)]
mod tests;
mod text;
mod user;

use alloc::boxed::Box;
use core::time::Duration;

use base::{DropReason, Ecn, Instant, TcpFlags};

use crate::cc::CongestionControl;
use crate::ecn::{Earlier, EcnState};
use crate::mss::{advertised_mss, default_mss, send_mss};
use crate::params::CongestionAlgorithm;
use crate::recovery::Recovery;
use crate::recovery::prr::Prr;
use crate::recv::Assembler;
use crate::recv::ack::AckPace;
use crate::recv::autotune::Autotune;
use crate::recv::space::RecvSpace;
use crate::recv::window::Offer;
use crate::send::Quiet;
use crate::timers::{Timer, TimerTable};
use crate::window::initial_rcvbuf;
use crate::{
    CloseReason, ConnOptions, Cx, Estimator, Event, PathParams, Plan, PlanKind, SegOptions,
    Segment, SeqNum, State, StateEvent, TcpParams, UserTimeoutOption, WindowScale,
};
use parts::{EXTENSION_IDLE, Ext, Extension, Flags, Hot, Usage, Warm};

/// Payload bytes of a segment that the stack must store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Payload bytes to skip at the front of the segment (old ones).
    pub skip: u32,
    /// Payload bytes to store after that; at least one.
    pub len: u32,
    /// Sequence number of the first byte stored.
    pub seq: SeqNum,
    /// The bytes follow directly on what was in order; `rcv_nxt` has moved past them, and perhaps
    /// past bytes stored out of order earlier. Otherwise they wait.
    pub in_order: bool,
}

/// What became of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Taken; no payload to store.
    Done,
    /// Taken; this part of the payload must be stored. The ranges kept never overlap: the first
    /// bytes received win.
    Keep(Keep),
    /// Discarded (its acknowledgement may have been used all the same).
    Drop(DropReason),
}

/// Everything that a handshake hands over to the connection that it became.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The path as it was when the handshake began.
    pub path: PathParams,
    /// What the application asked for.
    pub options: ConnOptions,
    /// Our initial sequence number.
    pub iss: SeqNum,
    /// The peer's.
    pub irs: SeqNum,
    /// Next sequence number that we send: `iss + 1`.
    pub snd_nxt: SeqNum,
    /// Window of the segment that completed the handshake as it stood in its header, not yet scaled
    /// if that segment was a SYN.
    pub snd_wnd: u32,
    /// Sequence and acknowledgement number of that segment: SND.WL1, SND.WL2.
    pub snd_wl1: SeqNum,
    /// See `snd_wl1`.
    pub snd_wl2: SeqNum,
    /// Shift of the windows that the peer sends; at most 14.
    pub snd_wscale: u8,
    /// Shift of the windows that we send; at most 14.
    pub rcv_wscale: u8,
    /// Window that our SYN or SYN-ACK offered, bytes.
    pub rcv_wnd: u32,
    /// Whether window scaling is in force.
    pub window_scaling: bool,
    /// Whether SACK is in force.
    pub sack: bool,
    /// Whether timestamps are in force, and then TS.Recent.
    pub ts_recent: Option<u32>,
    /// Whether ECN is in force, RFC 3168.
    pub ecn: bool,
    /// MSS option of the peer; `None`: it sent none (536 for IPv4, 1220 for IPv6).
    pub peer_mss: Option<u16>,
    /// User timeout that the peer's SYN told, RFC 5482.
    pub user_timeout: Option<UserTimeoutOption>,
    /// Round trip of the handshake, if it can be measured (Karn).
    pub rtt: Option<Duration>,
    /// How often our SYN or SYN-ACK was retransmitted.
    pub syn_retransmits: u8,
    /// Opened by us.
    pub active: bool,
    /// The application closed while the handshake was still going on: FIN at once.
    pub close_requested: bool,
}

/// A connection in a synchronised state.
#[derive(Clone, Debug)]
pub struct Connection {
    hot: Hot,
    warm: Warm,
    ext: Ext,
    extras: Option<Box<extras::Extras>>,
}

/// Smallest segment size of the peer that we reckon with.
const RCV_MSS_MIN: u16 = 88;
/// Where the estimate of the peer's segment size starts at most.
const RCV_MSS_START: u16 = 536;
/// What an application asks for is payload; memory is twice as much, as on Linux.
const CHARGE: u32 = 2;

impl Connection {
    /// The connection that a handshake became: ESTABLISHED, with nothing sent but our SYN, which the
    /// segment that the caller hands in next acknowledges (or has acknowledged).
    pub fn new(cx: &mut Cx<'_>, opening: &Opening) -> Self {
        let params = cx.params;
        let Opening { path, options, .. } = opening;
        let advmss = advertised_mss(path, options);
        let peer_mss = opening.peer_mss.filter(|&mss| mss != 0);
        let rcv_nxt = opening.irs.add(1);

        let mut flags = Flags::default();
        flags.set(Flags::FIRST);
        flags.put(Flags::SACK, opening.sack);
        flags.put(Flags::TIMESTAMPS, opening.ts_recent.is_some());
        flags.put(Flags::OFFERED_ZERO, opening.rcv_wnd == 0);

        let mut rtt = Estimator::new();
        if let Some(sample) = opening.rtt {
            rtt.on_sample(sample, opening.snd_nxt, opening.snd_nxt, params.rto_min);
            rtt.on_min_rtt_sample(cx.now, sample, false);
        }
        let rto = rtt.rto(params);
        let scaling = |shift: u8| {
            if opening.window_scaling { WindowScale::clamped(shift) } else { WindowScale::ZERO }
        };
        // RFC 8257 section 3.6: a peer that does not echo marks is met as any other.
        let asked = options.congestion.unwrap_or(params.congestion);
        let algorithm =
            if asked.needs_ecn() && !opening.ecn { CongestionAlgorithm::Reno } else { asked };
        let hot = Hot {
            snd_una: opening.snd_nxt,
            snd_nxt: opening.snd_nxt,
            write_seq: opening.snd_nxt,
            snd_wnd: opening.snd_wnd,
            snd_wl1: opening.snd_wl1,
            max_window: opening.snd_wnd,
            snd_sml: opening.snd_nxt.sub(1),
            gso_max: path.gso_max.max(1),
            rcv_nxt,
            rcv_wup: rcv_nxt,
            rcv_adv: rcv_nxt.add(opening.rcv_wnd.min(1 << 30)),
            copied_seq: rcv_nxt,
            ts_recent: opening.ts_recent.unwrap_or(0),
            ts_recent_ms: cx.now.as_millis() as u32,
            ts_offset: path.ts_offset,
            rtt,
            rto,
            pace: AckPace::new(),
            timers: TimerTable::new(),
            snd_mss: 0,
            rcv_mss: 0,
            flags,
            state: State::Established,
            snd_wscale: scaling(opening.snd_wscale),
            rcv_wscale: scaling(opening.rcv_wscale),
            quiet: Quiet::Nothing,
            dup_acks_owed: 0,
            ecn: EcnState::new(opening.ecn, algorithm.needs_ecn()),
        };
        // RFC 6928: the larger initial window is not for a handshake that lost segments.
        let cwnd = if opening.syn_retransmits > 1 { 1 } else { params.initial_cwnd };
        let warm = Warm {
            bytes_sent: 0,
            bytes_retrans: 0,
            bytes_acked: 0,
            bytes_received: 0,
            last_rcv: cx.now,
            segs_in: 0,
            segs_out: 0,
            total_retrans: 0,
            rto_count: 0,
            space: RecvSpace::new(
                params,
                initial_rcvbuf(params, options),
                opening.rcv_wnd,
                u32::from(advmss),
                scaling(opening.rcv_wscale),
                options.window_clamp,
            ),
            saved_rcvq_space: 0,
            sndbuf: params.wmem[1],
            irs: opening.irs,
            peer_fin: opening.irs,
            txhash: path.txhash,
            invalid_ms: 0,
            user_timeout_ms: user::timeout_ms(params.user_timeout),
            saved_ssthresh: crate::cc::SSTHRESH_INFINITE,
            saved_cwnd: cwnd,
            mtu: path.mtu,
            ip_header: path.ip_header,
            advmss,
            peer_mss: peer_mss
                .unwrap_or(default_mss(path.ip_header))
                .min(options.mss.unwrap_or(u16::MAX)),
            rcv_mss_candidate: 0,
            algorithm,
            close_reason: None,
            probes_out: 0,
            persist_backoff: 0,
            keepalive_time_sec: None,
            keepalive_interval_sec: None,
            keepalive_probes: None,
            linger_sec: None,
            fin_timeout_sec: None,
        };
        let mut connection = Self { hot, warm, ext: None, extras: None };
        connection.set_mss(params);
        connection.hot.rcv_mss = RCV_MSS_START
            .min(advmss)
            .min(connection.hot.snd_mss)
            .min(u16::try_from(opening.rcv_wnd / 2).unwrap_or(u16::MAX))
            .max(RCV_MSS_MIN);
        connection.set_options(cx, options);
        connection.heed_user_timeout(params, opening.user_timeout);
        connection.size_send_buffer(params);
        cx.counters.curr_estab += 1;
        if opening.close_requested {
            connection.close(cx, false);
        }
        connection.settle(cx);
        connection
    }

    /// Payload bytes per segment follow from the path, the peer and our options.
    fn set_mss(&mut self, params: &TcpParams) {
        // RFC 6691: options come out of the segment size. The floor keeps a peer from making us send
        // headers only (CVE-2019-11479).
        self.hot.snd_mss = send_mss(
            params,
            self.warm.mtu,
            self.warm.ip_header,
            Some(self.warm.peer_mss),
            &ConnOptions::default(),
            self.hot.flags.has(Flags::TIMESTAMPS),
        );
    }

    /// The part that exists only while data flow.
    fn attach(&mut self, cx: &Cx<'_>) -> &mut Extension {
        let Self { hot, warm, ext, extras } = self;
        ext.get_or_insert_with(|| {
            let mut cc = CongestionControl::new(cx.params, warm.algorithm, warm.saved_cwnd);
            cc.restore_ssthresh(warm.saved_ssthresh);
            let window = hot.rcv_adv.bytes_since(hot.rcv_nxt);
            let mut recovery = Recovery::new(hot.snd_una, cx.params.reordering);
            recovery.log.rate.restore(extras.as_ref().and_then(|extras| extras.tally.rate));
            Box::new(Extension {
                recovery,
                cc,
                prr: Prr::default(),
                dsacked_segs: 0,
                assembler: Assembler::new(),
                autotune: Autotune::new(
                    cx.now,
                    hot.copied_seq,
                    cx.params.autotuning,
                    window.min(warm.space.rcv_ssthresh),
                    u32::from(warm.advmss),
                    warm.saved_rcvq_space,
                ),
                pruned: None,
                dsack: None,
                earlier: Earlier::new(),
                waiting_since: None,
                probed_since: None,
                last_sent: cx.now,
                tlp_end_seq: None,
                tlp_is_retrans: false,
                usage: Usage::new(cx.now, hot.snd_una),
                queue: buffer::Queue::new(hot.write_seq),
            })
        })
    }

    /// Give the extension back; what must survive is kept.
    fn detach(&mut self, params: &TcpParams) {
        if let Some(ext) = self.ext.take() {
            if let Some(extras) = &mut self.extras {
                extras.tally.rate = ext.recovery.log.rate.last();
            }
            self.warm.saved_rcvq_space = ext.autotune.space();
            self.warm.saved_ssthresh = ext.cc.ssthresh();
            // RFC 5681 section 4.1: after so long a pause the window starts again.
            self.warm.saved_cwnd = if params.slow_start_after_idle {
                params.initial_cwnd.min(ext.cc.cwnd())
            } else {
                ext.cc.cwnd()
            };
        }
    }

    /// Nothing is in flight, queued, out of order, unread or owed.
    fn is_quiescent(&self) -> bool {
        let hot = &self.hot;
        let ext_empty = self.ext.as_ref().is_none_or(|ext| {
            ext.recovery.log.is_empty()
                && ext.assembler.is_empty()
                && ext.dsack.is_none()
                && ext.earlier.is_empty()
        });
        ext_empty
            && !self.has_unsent()
            && hot.copied_seq == self.rcv_nxt()
            && !hot.flags.has(Flags::ACK_NOW)
            && !hot.flags.has(Flags::ACK_PENDING)
    }

    /// Data or a FIN wait to be sent for the first time.
    fn has_unsent(&self) -> bool {
        self.hot.snd_nxt.before(self.send_end())
    }

    /// The sequence number after everything that is queued, FIN included.
    fn send_end(&self) -> SeqNum {
        self.hot.write_seq.add(u32::from(self.hot.flags.has(Flags::FIN_QUEUED)))
    }

    fn packets_out(&self) -> u32 {
        self.ext.as_ref().map_or(0, |ext| ext.recovery.log.packets_out())
    }

    /// The window of the peer beyond `snd_nxt`.
    fn usable_window(&self) -> u32 {
        self.hot.snd_una.add(self.hot.snd_wnd).bytes_since(self.hot.snd_nxt)
    }

    /// Receive window still open: right edge ever offered minus `rcv_nxt`.
    fn receive_window(&self) -> u32 {
        self.hot.rcv_adv.bytes_since(self.hot.rcv_nxt)
    }

    /// The window to offer now.
    fn select_window(&self, cx: &Cx<'_>) -> u32 {
        let space = &self.warm.space;
        Offer {
            allowed: space.full_space(),
            free: space.free_space(),
            clamp: space.window_clamp.min(self.window_clamp()),
            ssthresh: space.rcv_ssthresh,
            rcv_mss: u32::from(self.hot.rcv_mss),
            wscale: self.hot.rcv_wscale.get(),
            current: self.receive_window(),
            room: cx.rcv_room,
        }
        .select()
    }

    /// The timeout without back-off.
    fn base_rto(&self, params: &TcpParams) -> Duration {
        self.hot.rtt.rto(params).get()
    }

    fn set_state(&mut self, cx: &mut Cx<'_>, state: State) {
        let counted = |s: State| matches!(s, State::Established | State::CloseWait);
        if counted(self.hot.state) && !counted(state) {
            cx.counters.curr_estab = cx.counters.curr_estab.saturating_sub(1);
        }
        self.hot.state = state;
    }

    /// Go where the table of RFC 9293 figure 5 says; an event that means nothing here changes nothing.
    fn transit(&mut self, cx: &mut Cx<'_>, event: StateEvent) {
        match self.hot.state.after(event) {
            Some(State::Closed) => self.finish(cx, CloseReason::Finished),
            Some(next) => {
                self.set_state(cx, next);
                match next {
                    State::TimeWait => self.hot.timers.stop_all(),
                    // Whatever it was for, from here on the slot limits the wait for the peer's FIN.
                    State::FinWait2 if self.hot.flags.has(Flags::DISCARD) => {
                        self.hot.timers.stop(Timer::Slow);
                    }
                    _ => {}
                }
            }
            None => {}
        }
    }

    /// The end. Nothing of the peer's matters any more.
    fn finish(&mut self, cx: &mut Cx<'_>, reason: CloseReason) {
        if self.hot.state == State::Closed {
            return;
        }
        if matches!(self.hot.state, State::Established | State::CloseWait) {
            cx.counters.estab_resets += 1;
        }
        self.set_state(cx, State::Closed);
        self.warm.close_reason = Some(reason);
        self.hot.timers.stop_all();
        self.hot.flags.clear(Flags::ACK_NOW);
        self.hot.flags.clear(Flags::ACK_PENDING);
        self.hot.flags.clear(Flags::PROBE_OWED);
        self.hot.flags.clear(Flags::LOSS_PROBE_OWED);
        self.hot.dup_acks_owed = 0;
    }

    /// The end by a reset of ours.
    fn reset(&mut self, cx: &mut Cx<'_>, reason: CloseReason) {
        self.finish(cx, reason);
        self.hot.flags.set(Flags::RST_OWED);
    }

    /// After every input: what follows from the state alone. No deadline may be missing while work
    /// is outstanding.
    fn settle(&mut self, cx: &mut Cx<'_>) {
        match self.hot.state {
            State::Closed => {
                if !self.hot.flags.has(Flags::RST_OWED) {
                    self.hot.flags.set(Flags::EV_CLOSED);
                }
                return;
            }
            State::TimeWait => {
                if !self.hot.flags.has(Flags::ACK_NOW) {
                    self.warm.close_reason.get_or_insert(CloseReason::Finished);
                    self.hot.timers.stop_all();
                    self.hot.flags.set(Flags::EV_CLOSED);
                }
                return;
            }
            _ => {}
        }
        self.settle_writable(cx.params);
        self.settle_persist(cx);
        self.settle_slow(cx);
        self.settle_idle(cx.now);
        self.note_limit(cx.now);
    }

    fn settle_idle(&mut self, now: Instant) {
        // Not stopped by traffic: when it expires, it looks at when that was.
        if self.ext.is_none() {
            self.hot.timers.stop(Timer::Idle);
        } else if !self.hot.timers.is_armed(Timer::Idle) && self.is_quiescent() {
            self.hot.timers.arm(Timer::Idle, now + EXTENSION_IDLE);
        }
    }

    /// What must hold between any two calls. Only about our own state; a peer cannot break it.
    fn check(&self) {
        let hot = &self.hot;
        debug_assert!(hot.snd_una.at_or_before(hot.snd_nxt), "snd_una beyond snd_nxt");
        debug_assert!(hot.snd_nxt.at_or_before(self.send_end()), "sent more than was queued");
        debug_assert!(hot.rcv_wup.at_or_before(hot.rcv_nxt), "acknowledged more than received");
        debug_assert!(
            hot.rcv_nxt.at_or_before(hot.rcv_adv.add(1)),
            "took more than was offered (a FIN may lie on the edge)"
        );
        debug_assert!(hot.copied_seq.at_or_before(hot.rcv_nxt), "consumed more than received");
        if let Some(ext) = &self.ext {
            ext.recovery.log.check(hot.snd_una, hot.snd_nxt);
            debug_assert!(
                hot.state == State::Closed
                    || hot.state == State::TimeWait
                    || ext.recovery.log.is_empty()
                    || hot.timers.is_armed(Timer::Retransmit),
                "data in flight without a timer"
            );
        } else {
            debug_assert_eq!(hot.snd_una, hot.snd_nxt, "in flight without a log");
        }
    }

    /// Whether [`Connection::poll_event`] may have something to say.
    pub fn has_event(&self) -> bool {
        self.hot.flags.has(Flags::EVENTS)
    }

    /// The next event for the application.
    pub fn poll_event(&mut self) -> Option<Event> {
        let flags = &mut self.hot.flags;
        if flags.take(Flags::EV_READABLE) {
            return Some(Event::Readable);
        }
        if flags.take(Flags::EV_PEER_CLOSED) {
            return Some(Event::PeerClosed);
        }
        if flags.take(Flags::EV_WRITABLE) {
            return Some(Event::Writable);
        }
        if flags.take(Flags::EV_CLOSED) && !flags.has(Flags::ENDED) {
            flags.set(Flags::ENDED);
            let reason = self.warm.close_reason.unwrap_or(CloseReason::Finished);
            return Some(Event::Closed { reason, time_wait: self.hot.state == State::TimeWait });
        }
        None
    }

    /// When to call [`Connection::on_deadline`].
    pub fn next_deadline(&self) -> Option<Instant> {
        self.hot.timers.next()
    }
}

/// The reset that answers a segment for which there is no connection, RFC 9293 section 3.5.2 and
/// RFC 9293 section 3.10.7.1;
/// `None` if the segment is itself a reset.
pub fn reset_for(seg: &Segment) -> Option<Plan> {
    if seg.flags.rst() {
        return None;
    }
    let (seq, ack, flags) = if seg.flags.ack() {
        (seg.ack, SeqNum::new(0), TcpFlags::RST)
    } else {
        (SeqNum::new(0), seg.end_seq(), TcpFlags::RST | TcpFlags::ACK)
    };
    Some(Plan {
        kind: PlanKind::Reset,
        seq,
        len: 0,
        seg_size: 0,
        flags,
        ack,
        wnd: 0,
        options: SegOptions::default(),
        ecn: Ecn::NotEct,
        txhash: 0,
    })
}
