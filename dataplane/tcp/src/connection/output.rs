//! Output has one owner. [`Connection::poll_transmit`] answers in order: is a reset owed; may a
//! retransmission go; may new data go; is a probe owed; is an acknowledgement due. Each "no" has a
//! name, [`Quiet`].
//!
//! The decision is pure, so that asking whether there is something to send costs no state. What a
//! transmission changes is changed when the device has taken it.

use core::time::Duration;

use arrayvec::ArrayVec;
use base::TcpFlags;

use super::parts::Extension;
use super::{Connection, Flags};
use crate::cc::Controller;
use crate::recovery::CaState;
use crate::recovery::log::{Marks, RECORDS_NEW_DATA_MAX, Record};
use crate::recovery::rate::Departure;
use crate::segment::SACK_BLOCKS_MAX;
use crate::send::{Deferral, Quiet, View};
use crate::timers::Timer;
use crate::timestamp::ts_val;
use crate::{Cx, Plan, PlanKind, SegOptions, SeqNum, State, TcpParams};

/// SACK blocks beside timestamps: 40 option bytes are no more.
const SACK_BLOCKS_WITH_TIMESTAMPS: usize = 3;

/// A transmission so short a time ago is part of the same one.
const RECENT: Duration = Duration::from_millis(1);

/// What to send.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    Reset,
    /// The front of a lost record, `len` payload bytes of it.
    Retransmit {
        record: Record,
        len: u32,
    },
    /// New data, a FIN, or both.
    Data {
        len: u32,
        mss: u32,
        fin: bool,
    },
    Probe,
    /// An acknowledgement in an earlier state of DCTCP's echo.
    EarlierAck {
        ack: SeqNum,
        marked: bool,
    },
    Ack,
}

impl Connection {
    /// What to send next, if anything: at most `segs_max` segments. `None`: nothing now.
    pub fn poll_transmit(&mut self, cx: &mut Cx<'_>, segs_max: u32) -> Option<Plan> {
        if segs_max == 0 {
            self.hot.quiet = Quiet::Device;
            return None;
        }
        if !self.may_have_plan() {
            // As after a plan that took all there was: nothing has changed since the last input.
            let closed = self.hot.state == State::Closed;
            let quiet = if closed { Quiet::Closed } else { Quiet::Nothing };
            self.hot.quiet = quiet;
            self.note_usage(cx, quiet);
            self.reconsider_send_buffer(cx.params);
            return None;
        }
        match self.decide(cx, segs_max) {
            Ok(action) => {
                self.hot.quiet = Quiet::Nothing;
                Some(self.plan(cx, action))
            }
            Err(quiet) => {
                self.hot.quiet = quiet;
                self.hot.flags.clear(Flags::LOSS_PROBE_OWED);
                self.note_usage(cx, quiet);
                self.reconsider_send_buffer(cx.params);
                self.settle(cx);
                None
            }
        }
    }

    /// Whether [`Connection::poll_transmit`] may have something to say: after an input the stack
    /// puts the connection on its ready list if so. Cheap, and never false in vain; true also when a
    /// closer look would find a reason to wait.
    pub fn may_have_plan(&self) -> bool {
        let hot = &self.hot;
        if hot.flags.has(Flags::WANTS_SEGMENT) {
            return true;
        }
        hot.state != State::Closed
            && (self.has_unsent()
                || hot.dup_acks_owed > 0
                || self.ext.as_ref().is_some_and(|ext| !ext.recovery.is_calm()))
    }

    /// Whether [`Connection::poll_transmit`] has something to say.
    pub fn wants_transmit(&self, cx: &Cx<'_>) -> bool {
        self.decide(cx, 1).is_ok()
    }

    fn decide(&self, cx: &Cx<'_>, segs_max: u32) -> Result<Action, Quiet> {
        let flags = self.hot.flags;
        if flags.has(Flags::RST_OWED) {
            return Ok(Action::Reset);
        }
        if self.hot.state == State::Closed {
            return Err(Quiet::Closed);
        }
        if let Some(&(ack, marked)) = self.ext.as_ref().and_then(|ext| ext.earlier.first()) {
            return Ok(Action::EarlierAck { ack, marked });
        }
        let quiet = match self.decide_data(cx, segs_max) {
            Ok(action) => return Ok(action),
            Err(quiet) => quiet,
        };
        if flags.has(Flags::PROBE_OWED) {
            return Ok(Action::Probe);
        }
        if self.is_ack_due(cx) { Ok(Action::Ack) } else { Err(quiet) }
    }

    /// Retransmissions first, then new data.
    pub(super) fn decide_data(&self, cx: &Cx<'_>, segs_max: u32) -> Result<Action, Quiet> {
        let Some(ext) = &self.ext else { return Err(Quiet::Nothing) };
        if self.hot.state == State::TimeWait {
            return Err(Quiet::Nothing);
        }
        // What most questions are about: nothing is lost and nothing waits.
        if ext.recovery.is_calm() && !self.has_unsent() {
            return Err(Quiet::Nothing);
        }
        let cwnd = ext.cc.cwnd();
        let probing = self.hot.flags.has(Flags::LOSS_PROBE_OWED);
        let room = cwnd.saturating_sub(ext.recovery.in_flight()).max(u32::from(probing));
        let whole = if probing { 1 } else { self.flight().burst(cx.params).min(segs_max) };
        // New data take at most half of the window at once, so that acknowledgements keep coming.
        let burst = whole.min((cwnd / 2).max(1));
        if ext.recovery.asks_with_new_data() {
            // RFC 5682 section 2.1, step 2b: retransmissions wait unless there is nothing to ask with.
            let asked = self.hot.snd_nxt.after(ext.recovery.high_seq());
            match self.decide_new_data(cx, room, burst, whole) {
                Ok(action) => return Ok(action),
                Err(quiet) if asked => return Err(quiet),
                Err(_) => {}
            }
        }
        if let Some(record) = ext.recovery.next_retransmission() {
            return self.decide_retransmission(record, room, whole);
        }
        self.decide_new_data(cx, room, burst, whole)
    }

    fn decide_retransmission(
        &self,
        record: Record,
        room: u32,
        burst: u32,
    ) -> Result<Action, Quiet> {
        let forced = self.ext.as_ref().is_some_and(|ext| ext.recovery.is_forced());
        let room = if forced { room.max(1) } else { room };
        if room == 0 {
            return Err(Quiet::Cwnd);
        }
        let size = u32::from(record.seg_size.max(1));
        let mut segs = room.min(burst).min((self.hot.gso_max / size).max(1));
        // RFC 9293 section 3.8.6: the peer should not have shrunk its window, but if it has, only the
        // first segment is sent beyond it.
        let edge = self.hot.snd_una.add(self.hot.snd_wnd);
        if record.end.after(edge) {
            let inside = edge.bytes_since(record.start) / size;
            if inside == 0 && record.start != self.hot.snd_una {
                return Err(Quiet::PeerWindow);
            }
            segs = segs.min(inside.max(1));
        }
        let len = segs.saturating_mul(size).min(record.data_len());
        Ok(Action::Retransmit { record, len })
    }

    /// New data as far as both windows allow. Segments that a duplicate acknowledgement reports are not in
    /// flight, so limited transmit (RFC 3042 section 2) follows by itself.
    /// `burst` segments leave in one piece at most, where `whole` would be a whole burst.
    fn decide_new_data(
        &self,
        cx: &Cx<'_>,
        room: u32,
        burst: u32,
        whole_burst: u32,
    ) -> Result<Action, Quiet> {
        if !self.has_unsent() {
            return Err(Quiet::Nothing);
        }
        let hot = &self.hot;
        let whole = hot.write_seq.bytes_since(hot.snd_nxt);
        // A record is sent as if it were all there is, and what follows pushes it.
        let until = |end: Option<SeqNum>| end.map_or(whole, |end| end.bytes_since(hot.snd_nxt));
        let queued = until(self.record_end()).min(until(self.push_inside()));
        let last = queued == whole;
        let usable = self.usable_window();
        let fin_queued = hot.flags.has(Flags::FIN_QUEUED);
        if whole == 0 {
            // A FIN alone; the congestion window does not hold it back, the peer's does.
            return if usable > 0 {
                Ok(Action::Data { len: 0, mss: u32::from(hot.snd_mss), fin: true })
            } else {
                Err(Quiet::PeerWindow)
            };
        }
        if self.ext.as_ref().is_some_and(|ext| ext.recovery.log.len() >= RECORDS_NEW_DATA_MAX) {
            return Err(Quiet::Log);
        }
        let mss = self.data_mss(cx.params);
        // What fits one segment needs no more of them.
        let burst =
            if queued <= mss { burst.min(1) } else { burst.min((hot.gso_max / mss).max(1)) };
        let view = View {
            queued,
            usable,
            max_window: hot.max_window,
            mss,
            cwnd_room: room,
            segs_max: burst,
            hold_partial: last
                && !fin_queued
                && (self.nagle_holds() || hot.flags.has(Flags::MORE) || self.is_corked()),
            forced: hot.flags.has(Flags::FORCE_PARTIAL) || hot.flags.has(Flags::LOSS_PROBE_OWED),
        };
        let len = view.len()?;
        if queued > mss
            && !view.forced
            && let Some(reason) = self.deferral(cx, whole, room, whole_burst, mss)
        {
            return Err(reason);
        }
        let fin = fin_queued && len == whole && usable > len;
        Ok(Action::Data { len, mss, fin })
    }

    /// Why new data wait for the next acknowledgement although something could leave, as on Linux: a burst has left
    /// within the last millisecond, so the flow is no trickle, and the head was sent so long ago that its
    /// acknowledgement is near and lets a larger burst go.
    fn deferral(&self, cx: &Cx<'_>, queued: u32, room: u32, burst: u32, mss: u32) -> Option<Quiet> {
        let ext = self.ext.as_ref()?;
        let head = ext.recovery.log.head()?;
        let age = cx.now.since(head.sent);
        let near = self.hot.rtt.srtt().is_some_and(|srtt| age >= srtt / 2);
        // Where something may be missing every acknowledgement counts.
        let orderly = ext.recovery.ca_state() == CaState::Open;
        if !near || !orderly || cx.now.since(ext.last_sent) >= RECENT {
            return None;
        }
        let room = room.saturating_mul(mss);
        Deferral {
            queued,
            usable: self.usable_window(),
            room,
            burst: burst.saturating_mul(mss),
            window: self.hot.snd_wnd.min(ext.cc.cwnd().saturating_mul(mss)),
            divisor: cx.params.tso_win_divisor,
            mss,
        }
        .reason()
    }

    /// RFC 9293 section 3.7.4 in Minshall's form: a partial segment waits only while another
    /// *partial* one is unacknowledged.
    fn nagle_holds(&self) -> bool {
        let hot = &self.hot;
        !hot.flags.has(Flags::NODELAY)
            && hot.snd_sml.after(hot.snd_una)
            && hot.snd_sml.at_or_before(hot.snd_nxt)
    }

    /// Payload per segment of new data: SACK blocks, if there are any to report, come out of it.
    fn data_mss(&self, params: &TcpParams) -> u32 {
        if self.reports_nothing() {
            return u32::from(self.hot.snd_mss).max(1);
        }
        let blocks = self.sack_blocks(params).len() as u32;
        let options = if blocks == 0 { 0 } else { 4 + 8 * blocks };
        u32::from(self.hot.snd_mss).saturating_sub(options).max(1)
    }

    /// Whether an acknowledgement must leave now although there is nothing to carry it.
    fn is_ack_due(&self, cx: &Cx<'_>) -> bool {
        let hot = &self.hot;
        if hot.flags.has(Flags::ACK_NOW) || hot.dup_acks_owed > 0 {
            return true;
        }
        if !hot.flags.has(Flags::ACK_PENDING) {
            return false;
        }
        // RFC 9293 section 3.8.6.3: at least every second full segment, but only as the reader keeps
        // pace, so that the acknowledgement can carry the window.
        let unacknowledged = hot.rcv_nxt.bytes_since(hot.rcv_wup);
        hot.pace.is_quick()
            || unacknowledged > u32::from(hot.rcv_mss)
                && self.select_window(cx) >= hot.rcv_adv.bytes_since(hot.rcv_wup)
    }

    fn plan(&self, cx: &Cx<'_>, action: Action) -> Plan {
        let hot = &self.hot;
        let new_data = matches!(action, Action::Data { len, .. } if len > 0);
        let mut plan = Plan {
            kind: PlanKind::Ack,
            seq: hot.snd_nxt,
            len: 0,
            seg_size: 0,
            flags: TcpFlags::ACK | hot.ecn.flags(new_data),
            ack: hot.rcv_nxt,
            wnd: self.window_field(cx),
            options: self.plan_options(cx),
            ecn: hot.ecn.codepoint(new_data),
            txhash: self.warm.txhash,
        };
        match action {
            Action::Reset => {
                plan.kind = PlanKind::Reset;
                plan.flags = TcpFlags::ACK | TcpFlags::RST;
                if hot.flags.has(Flags::RST_BARE) {
                    plan.flags = TcpFlags::RST;
                    plan.seq = hot.snd_una;
                    plan.ack = SeqNum::new(0);
                }
                plan.wnd = 0;
                plan.options.sack.clear();
            }
            Action::Retransmit { record, len } => {
                plan.kind = PlanKind::Retransmit;
                plan.seq = record.start;
                plan.len = len;
                plan.seg_size = u32::from(record.seg_size.max(1));
                // The segments were cut for headers without blocks.
                plan.options.sack.clear();
                if len == record.data_len() {
                    if record.marks.has(Marks::FIN) {
                        plan.flags |= TcpFlags::FIN;
                    }
                    if record.marks.has(Marks::PSH) || len > plan.seg_size {
                        plan.flags |= TcpFlags::PSH;
                    }
                }
            }
            Action::Data { len, mss, fin } => {
                plan.kind = PlanKind::Data;
                plan.len = len;
                plan.seg_size = mss;
                // The end of a burst is pushed, too: what follows it may wait for the acknowledgement.
                if len > mss || self.is_pushed(hot.snd_nxt.add(len)) && len > 0 {
                    plan.flags |= TcpFlags::PSH;
                }
                if fin {
                    plan.flags |= TcpFlags::FIN;
                }
            }
            Action::Probe => {
                plan.kind = PlanKind::Probe;
                // RFC 9293 section 3.8.4: a number that the peer must answer.
                plan.seq = hot.snd_una.sub(1);
            }
            Action::EarlierAck { ack, marked } => {
                plan.ack = ack;
                // The edge stays where it is: rounded once, as any other, it is not taken back.
                plan.wnd = hot.rcv_wscale.raw(hot.rcv_adv.bytes_since(ack));
                plan.options.sack.clear();
                plan.flags = TcpFlags::ACK;
                if marked {
                    plan.flags |= TcpFlags::ECE;
                }
            }
            Action::Ack if plan.options.sack.is_empty() => {
                plan.options.user_timeout = self.user_timeout_option(cx.params);
            }
            Action::Ack => {}
        }
        plan
    }

    fn window_field(&self, cx: &Cx<'_>) -> u16 {
        self.hot.rcv_wscale.raw(self.select_window(cx))
    }

    fn plan_options(&self, cx: &Cx<'_>) -> SegOptions {
        let hot = &self.hot;
        let timestamps = hot
            .flags
            .has(Flags::TIMESTAMPS)
            .then(|| (ts_val(cx.now, hot.ts_offset), hot.ts_recent));
        SegOptions { timestamps, sack: self.sack_blocks(cx.params), ..SegOptions::default() }
    }

    /// Whether there are no SACK blocks to report.
    fn reports_nothing(&self) -> bool {
        let empty = |ext: &Extension| ext.dsack.is_none() && ext.assembler.is_empty();
        self.ext.as_deref().is_none_or(empty)
    }

    /// RFC 2018 section 4 and RFC 2883 section 4: a duplicate first, then the most recent ranges.
    fn sack_blocks(&self, params: &TcpParams) -> ArrayVec<(SeqNum, SeqNum), SACK_BLOCKS_MAX> {
        let mut blocks = ArrayVec::new();
        if self.reports_nothing() {
            return blocks;
        }
        let Some(ext) = self.ext.as_ref().filter(|_| self.hot.flags.has(Flags::SACK)) else {
            return blocks;
        };
        let most = if self.hot.flags.has(Flags::TIMESTAMPS) {
            SACK_BLOCKS_WITH_TIMESTAMPS
        } else {
            SACK_BLOCKS_MAX
        };
        if let Some(duplicate) = ext.dsack.filter(|_| params.dsack) {
            blocks.push(duplicate);
        }
        let ranges = ext.assembler.sack_blocks(most - blocks.len());
        blocks.extend(ranges);
        blocks
    }

    /// The device took the first `segs` segments of `plan` (all, some or none). What it did not
    /// take is planned again later; nothing is lost.
    pub fn on_transmitted(&mut self, cx: &mut Cx<'_>, plan: &Plan, segs: u32) {
        self.check();
        let taken = segs.min(plan.segs());
        cx.counters.retrans_fail += u64::from(plan.segs() - taken);
        if taken > 0 {
            self.warm.segs_out = self.warm.segs_out.wrapping_add(taken);
            if plan.kind == PlanKind::Retransmit {
                cx.counters.retrans_segs += u64::from(taken);
            } else {
                cx.counters.out_segs += u64::from(taken);
            }
            self.on_acknowledged(cx, plan);
            match plan.kind {
                PlanKind::Data => self.on_data_sent(cx, plan, taken),
                PlanKind::Retransmit => self.on_resent(cx, plan, taken),
                PlanKind::Probe => self.on_probe_sent(cx),
                PlanKind::Reset => {
                    self.hot.flags.clear(Flags::RST_OWED);
                    cx.counters.out_rsts += 1;
                }
                PlanKind::Ack | PlanKind::Syn => {}
            }
        }
        self.settle(cx);
        self.check();
    }

    /// Every segment carries an acknowledgement and a window; both are promises now.
    fn on_acknowledged(&mut self, cx: &mut Cx<'_>, plan: &Plan) {
        if plan.kind == PlanKind::Reset {
            return;
        }
        let hot = &mut self.hot;
        let window = hot.rcv_wscale.bytes(plan.wnd);
        hot.rcv_wup = plan.ack;
        hot.rcv_adv = hot.rcv_adv.later(plan.ack.add(window));
        if plan.kind == PlanKind::Ack
            && let Some(ext) = &mut self.ext
            && !ext.earlier.is_empty()
        {
            // What it leaves owed follows at once.
            ext.earlier.remove(0);
            return;
        }
        let zero = window == 0;
        if zero != hot.flags.has(Flags::OFFERED_ZERO) {
            hot.flags.put(Flags::OFFERED_ZERO, zero);
            if zero {
                cx.counters.to_zero_window_adv += 1;
            } else {
                cx.counters.from_zero_window_adv += 1;
            }
        }
        let pending = hot.flags.take(Flags::ACK_NOW) | hot.flags.take(Flags::ACK_PENDING);
        hot.flags.clear(Flags::PUSHED);
        if plan.kind == PlanKind::Ack && plan.options.sack.is_empty() {
            hot.flags.clear(Flags::USER_TIMEOUT_OWED);
        }
        hot.timers.stop(Timer::DelayedAck);
        if pending {
            hot.pace.on_ack_sent();
        }
        hot.dup_acks_owed = hot.dup_acks_owed.saturating_sub(1);
        if let Some(ext) = &mut self.ext
            && plan.kind != PlanKind::Retransmit
        {
            ext.dsack = None;
        }
    }

    fn on_data_sent(&mut self, cx: &mut Cx<'_>, plan: &Plan, taken: u32) {
        let now = cx.now;
        let whole = taken >= plan.segs();
        let len = if whole { plan.len } else { taken.saturating_mul(plan.seg_size) };
        let fin = whole && plan.flags.fin();
        let end = plan.seq.add(len).add(u32::from(fin));
        let pushed = self.is_pushed(plan.seq.add(len));
        let Some(ext) = &mut self.ext else { return };
        ext.forget_pushes(end);
        let hot = &mut self.hot;
        debug_assert_eq!(plan.seq, hot.snd_nxt, "planned from somewhere else");
        if ext.recovery.log.is_empty() {
            ext.cc.on_transmit_start(cx, now.since(ext.last_sent));
            ext.waiting_since = None;
            ext.probed_since = None;
            hot.timers.arm(Timer::Retransmit, now + hot.rto.get());
        }
        let mut marks = Marks::default();
        if fin {
            marks = marks.with(Marks::FIN);
        }
        // A burst that ended because a window did may become one with what follows.
        if whole && len > 0 && pushed {
            marks = marks.with(Marks::PSH);
        }
        ext.recovery.log.push(Record {
            start: plan.seq,
            end,
            sent: now,
            departure: Departure::default(),
            seg_size: u16::try_from(plan.seg_size).unwrap_or(u16::MAX),
            marks,
        });
        ext.prr.on_sent(taken);
        ext.last_sent = now;
        hot.snd_nxt = end;
        if let Some(extras) = &mut self.extras {
            extras.tally.on_sent(now, if len > 0 { taken } else { 0 });
        }
        if plan.flags.intersects(TcpFlags::CWR) {
            hot.ecn.forget_cwr();
        }
        if len % plan.seg_size.max(1) != 0 {
            hot.snd_sml = plan.seq.add(len);
        }
        hot.flags.clear(Flags::FORCE_PARTIAL);
        hot.flags.clear(Flags::PROBE_OWED);
        if hot.flags.take(Flags::LOSS_PROBE_OWED) {
            ext.tlp_end_seq = Some(end);
        }
        hot.pace.on_data_sent(now);
        self.warm.bytes_sent += u64::from(len);
        if len > 0 {
            cx.counters.orig_data_sent += u64::from(taken);
        }
        let packets = ext.recovery.log.packets_out();
        ext.usage.on_sent(hot.snd_una, hot.snd_nxt, packets);
        self.arm_loss_probe(now, cx.params);
        self.forget_records();
    }

    /// A transmission has ended: was it the congestion window that ended it? One that is not used is
    /// not kept either, RFC 2861.
    fn note_usage(&mut self, cx: &Cx<'_>, quiet: Quiet) {
        let rto = self.hot.rto.get();
        let Some(ext) = &mut self.ext else { return };
        if quiet == Quiet::Cwnd {
            let packets = ext.recovery.log.packets_out();
            ext.usage.on_full(cx.now, self.hot.snd_una, self.hot.snd_nxt, packets);
        } else if let Some(used) = ext.usage.on_not_full(cx.now, rto)
            && cx.params.slow_start_after_idle
        {
            ext.cc.on_application_limited(used, cx.params.initial_cwnd);
        }
    }

    fn on_resent(&mut self, cx: &mut Cx<'_>, plan: &Plan, taken: u32) {
        let now = cx.now;
        let Some(ext) = &mut self.ext else { return };
        ext.recovery.on_retransmitted(plan.seq, taken, now);
        ext.prr.on_sent(taken);
        match ext.recovery.ca_state() {
            CaState::Loss => cx.counters.slow_start_retrans += u64::from(taken),
            // A tail loss probe, which has its own counter.
            CaState::Open | CaState::Cwr => {}
            _ => cx.counters.fast_retrans += u64::from(taken),
        }
        ext.last_sent = now;
        if let Some(extras) = &mut self.extras {
            extras.tally.on_sent(now, taken);
        }
        let len = plan.len.min(taken.saturating_mul(plan.seg_size));
        self.warm.bytes_sent += u64::from(len);
        self.warm.bytes_retrans += u64::from(len);
        self.warm.total_retrans = self.warm.total_retrans.wrapping_add(taken);
        if plan.seq == self.hot.snd_una {
            self.hot.flags.clear(Flags::RTO_UNSENT);
            self.arm_rto(now, now);
        }
    }

    fn on_probe_sent(&mut self, cx: &mut Cx<'_>) {
        self.hot.flags.clear(Flags::PROBE_OWED);
        if self.hot.flags.take(Flags::PROBE_KEEPALIVE) {
            cx.counters.keep_alive += 1;
        } else {
            cx.counters.win_probe += 1;
        }
    }
}
