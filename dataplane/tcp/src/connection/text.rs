//! Segment text and FIN: RFC 9293 section 3.10.7.4, seventh and eighth.
//!
//! What was received first wins, and one contiguous new piece is taken per segment. The rest of a
//! segment that overlaps several ranges is not acknowledged and comes again.

use base::{DropReason, TcpFlags};

use super::{Connection, Disposition, Flags, Keep, RCV_MSS_MIN};
use crate::ecn::Arrival;
use crate::recv::Inserted;
use crate::recv::ack::{QUICK_MAX, quick_budget};
use crate::recv::autotune::Echo;
use crate::recv::space::Arrived;
use crate::timers::Timer;
use crate::{CloseReason, Cx, Segment, SeqNum, SeqRange, StateEvent};

/// What is given up beyond a hole at once, as a share of the receive buffer.
const PRUNE_SHARE: u32 = 8;
/// Smallest payload with which a lower estimate of the peer's segment size is believed at once.
const RCV_MSS_PLAUSIBLE: u32 = 536;

/// Acknowledgements that leave at once after a mark, as on Linux.
const QUICK_AFTER_MARK: u8 = 2;

impl Connection {
    /// The text of an acceptable segment, and its FIN.
    pub(super) fn take_text(&mut self, cx: &mut Cx<'_>, seg: &Segment) -> Disposition {
        if seg.len == 0 && !seg.flags.fin() {
            return Disposition::Done;
        }
        if seg.flags.intersects(TcpFlags::CWR) && self.hot.ecn.is_on() {
            self.hot.ecn.on_cwr();
            // The window of the peer may be very small now.
            self.hot.flags.set(Flags::ACK_NOW);
        }
        let hot = &self.hot;
        let end = seg.end_seq();
        if end.at_or_before(hot.rcv_nxt) {
            self.note_duplicate(cx, seg.seq, end);
            self.hot.flags.set(Flags::ACK_NOW);
            return Disposition::Drop(DropReason::TcpOldData);
        }
        if hot.flags.has(Flags::FIN_TAKEN) {
            // RFC 9293: should not occur, since a FIN has been received. Ignore.
            return Disposition::Drop(DropReason::TcpIgnored);
        }
        let text_end = seg.seq.add(seg.len);
        let brings_text = seg.len > 0 && text_end.after(hot.rcv_nxt) && seg.seq.before(hot.rcv_adv);
        if (hot.flags.has(Flags::DISCARD) || self.refuses_text()) && brings_text {
            // Nobody will ever read this: RFC 9293 section 3.6.1, RFC 2525 section 2.17. Text that
            // was read before, or lies beyond the window, loses nothing.
            cx.counters.abort_on_data += 1;
            self.reset(cx, CloseReason::Aborted);
            // As if there were no connection, RFC 9293 section 3.5.2: with the number that the peer expects, which
            // need not be ours if our FIN was lost.
            self.hot.flags.set(Flags::RST_BARE);
            return Disposition::Drop(DropReason::DataAfterClose);
        }
        if seg.len > 0 && (!cx.can_store || self.warm.space.is_over() && !self.make_room(cx, seg)) {
            return self.refuse_for_memory(cx, seg);
        }
        self.take_fitting(cx, seg)
    }

    fn refuse_for_memory(&mut self, cx: &mut Cx<'_>, seg: &Segment) -> Disposition {
        self.hot.flags.set(Flags::ACK_NOW);
        self.hot.pace.enter_quick(QUICK_MAX, cx.params);
        if seg.seq.at_or_before(self.hot.rcv_nxt) {
            cx.counters.rcv_q_drop += 1;
            Disposition::Drop(DropReason::RcvMemory)
        } else {
            cx.counters.ofo_drop += 1;
            Disposition::Drop(DropReason::OfoLimit)
        }
    }

    /// More memory is held than may be. Whether this segment can be taken all the same, perhaps in the place
    /// of what lies further beyond a hole and will come again.
    fn make_room(&mut self, cx: &mut Cx<'_>, seg: &Segment) -> bool {
        cx.counters.prune_called += 1;
        let locked = self.hot.flags.has(Flags::RCVBUF_LOCKED);
        let advmss = u32::from(self.warm.advmss);
        let Self { ext, warm, .. } = self;
        let space = &mut warm.space;
        space.clamp(locked, cx.memory_pressure, cx.params.rmem[2], advmss);
        let mut pruned = false;
        while space.is_over() {
            let Some(ext) = ext.as_mut() else { break };
            // What is nearer to the hole is worth more.
            if ext.assembler.highest().is_none_or(|end| seg.end_seq().at_or_after(end)) {
                break;
            }
            let mut freed = 0;
            while freed <= space.rcvbuf / PRUNE_SHARE
                && let Some(range) = ext.assembler.drop_highest()
            {
                ext.pruned = Some(range.start());
                let memory = space.least_memory_of(range.len()).max(cx.buffers.bytes);
                freed = freed.saturating_add(memory);
            }
            space.rmem_alloc = space.rmem_alloc.saturating_sub(freed);
            pruned = true;
        }
        cx.counters.ofo_pruned += u64::from(pruned);
        let fits = !space.is_over();
        if !fits {
            cx.counters.rcv_pruned += 1;
        }
        fits
    }

    /// Everything beyond this was given up by the last call of [`Connection::on_segments`]. The caller forgets
    /// it before it stores anything.
    pub fn take_pruned(&mut self) -> Option<SeqNum> {
        self.ext.as_mut()?.pruned.take()
    }

    /// Cut the segment to the window and to a FIN already known, and take what is new.
    fn take_fitting(&mut self, cx: &mut Cx<'_>, seg: &Segment) -> Disposition {
        let fin_seq = seg.seq.add(seg.len);
        let mut fin = seg.flags.fin();
        let mut end = fin_seq.earlier(self.hot.rcv_adv);
        if self.hot.flags.has(Flags::FIN_AHEAD) {
            end = end.earlier(self.warm.peer_fin);
            fin = fin && fin_seq == self.warm.peer_fin;
        }
        // A FIN counts only with everything before it, and only if nothing is known beyond it.
        let beyond = self.ext.as_ref().and_then(|ext| ext.assembler.highest());
        fin = fin && end == fin_seq && beyond.is_none_or(|high| high.at_or_before(fin_seq.add(1)));
        let cut = fin_seq.bytes_since(end);
        if cut > 0 {
            self.hot.flags.set(Flags::ACK_NOW);
            cx.counters.beyond_window += 1;
        }
        let start = seg.seq.later(self.hot.rcv_nxt);
        let range_end = end.add(u32::from(fin));
        let Some(range) = SeqRange::new(seg.seq, range_end).filter(|_| start.before(range_end))
        else {
            if self.receive_window() == 0 {
                cx.counters.zero_window_drop += 1;
            }
            self.hot.flags.set(Flags::ACK_NOW);
            return Disposition::Drop(DropReason::TcpOutOfWindow);
        };
        if seg.seq.before(self.hot.rcv_nxt) {
            // Old and new in one: H104.
            self.note_duplicate(cx, seg.seq, self.hot.rcv_nxt);
            self.hot.flags.set(Flags::ACK_NOW);
        }
        if !fin && cut == 0 && seg.seq == self.hot.rcv_nxt && self.nothing_ahead() {
            return self.take_in_order(cx, seg);
        }
        let rcv_nxt = self.hot.rcv_nxt;
        let had_holes = !self.nothing_ahead();
        match self.attach(cx).assembler.insert(rcv_nxt, range) {
            Inserted::InOrder { keep, rcv_nxt } => {
                if had_holes {
                    self.hot.flags.set(Flags::ACK_NOW);
                }
                self.note_partial_duplicate(cx, range, keep, rcv_nxt);
                self.learn_fin(fin, fin_seq, keep);
                self.finish_in_order(cx, seg, keep, rcv_nxt)
            }
            Inserted::OutOfOrder { keep } => {
                let island = self
                    .ext
                    .as_ref()
                    .and_then(|ext| ext.assembler.sack_blocks(1).first().map(|&(_, right)| right));
                self.note_partial_duplicate(cx, range, keep, island.unwrap_or(keep.end()));
                self.learn_fin(fin, fin_seq, keep);
                self.finish_out_of_order(cx, seg, keep, range)
            }
            Inserted::Duplicate => {
                self.report_duplicate(cx, start, range_end);
                self.owe_duplicate_ack(seg);
                Disposition::Drop(DropReason::TcpOldData)
            }
            Inserted::Full => {
                cx.counters.ofo_drop += 1;
                self.owe_duplicate_ack(seg);
                Disposition::Drop(DropReason::OfoLimit)
            }
        }
    }

    /// RFC 2883 section 4.2: of a segment that is in part here already, the first such part is
    /// reported. `keep` is what was new, and `known_to` the end of what lies behind it without a hole.
    fn note_partial_duplicate(
        &mut self,
        cx: &mut Cx<'_>,
        range: SeqRange,
        keep: SeqRange,
        known_to: SeqNum,
    ) {
        if self.ext.as_ref().is_some_and(|ext| ext.dsack.is_some()) {
            // Its beginning was older still.
        } else if range.start().before(keep.start()) {
            self.report_duplicate(cx, range.start(), keep.start());
        } else if keep.end().before(range.end()) {
            self.report_duplicate(cx, keep.end(), range.end().earlier(known_to));
        }
    }

    fn report_duplicate(&mut self, cx: &mut Cx<'_>, start: SeqNum, end: SeqNum) {
        if self.hot.flags.has(Flags::SACK) && cx.params.dsack && start.before(end) {
            cx.counters.dsack_ofo_sent += 1;
            self.attach(cx).dsack = Some((start, end));
        }
    }

    fn nothing_ahead(&self) -> bool {
        self.ext.as_ref().is_none_or(|ext| ext.assembler.is_empty())
    }

    /// The common case: the next bytes, whole, nothing waiting beyond them.
    pub(super) fn take_in_order(&mut self, cx: &mut Cx<'_>, seg: &Segment) -> Disposition {
        let end = self.hot.rcv_nxt.add(seg.len);
        let Some(keep) = SeqRange::new(self.hot.rcv_nxt, end) else {
            return Disposition::Drop(DropReason::TcpOutOfWindow);
        };
        self.finish_in_order(cx, seg, keep, end)
    }

    /// The FIN of a segment was taken with it if the piece that was kept reaches it.
    fn learn_fin(&mut self, fin: bool, fin_seq: SeqNum, keep: SeqRange) {
        if fin && keep.end() == fin_seq.add(1) {
            self.warm.peer_fin = fin_seq;
            self.hot.flags.set(Flags::FIN_AHEAD);
        }
    }

    fn finish_in_order(
        &mut self,
        cx: &mut Cx<'_>,
        seg: &Segment,
        keep: SeqRange,
        rcv_nxt: SeqNum,
    ) -> Disposition {
        self.attach(cx);
        let before = self.hot.rcv_nxt;
        let moved = rcv_nxt.bytes_since(before);
        self.hot.rcv_nxt = rcv_nxt;
        let data = self.without_fin(keep);
        if seg.len > 0 {
            self.measure_segment(cx, seg);
            self.on_data_arrived(cx, seg, true);
            self.note_mark(cx, seg, before);
        }
        if data > 0 {
            self.warm.bytes_received += u64::from(moved);
            self.hot.flags.set(Flags::EV_READABLE);
        }
        let fin_reached =
            self.hot.flags.has(Flags::FIN_AHEAD) && rcv_nxt == self.warm.peer_fin.add(1);
        if fin_reached {
            self.take_fin(cx);
        }
        if data == 0 {
            return Disposition::Done;
        }
        let skip = keep.start().bytes_since(seg.seq);
        Disposition::Keep(Keep { skip, len: data, seq: keep.start(), in_order: true })
    }

    fn finish_out_of_order(
        &mut self,
        cx: &mut Cx<'_>,
        seg: &Segment,
        keep: SeqRange,
        range: SeqRange,
    ) -> Disposition {
        if let Some(tally) = self.tally() {
            tally.rcv_ooopack = tally.rcv_ooopack.wrapping_add(u32::from(seg.segs));
        }
        if seg.len > 0 {
            self.measure_segment(cx, seg);
            self.on_data_arrived(cx, seg, false);
            self.note_mark(cx, seg, self.hot.rcv_nxt);
        }
        cx.counters.ofo_queue += 1;
        if keep != range {
            cx.counters.ofo_merge += 1;
        }
        self.owe_duplicate_ack(seg);
        let data = self.without_fin(keep);
        if data == 0 {
            return Disposition::Done;
        }
        let skip = keep.start().bytes_since(seg.seq);
        Disposition::Keep(Keep { skip, len: data, seq: keep.start(), in_order: false })
    }

    /// Payload bytes of a piece, whose last sequence number may be the FIN.
    fn without_fin(&self, keep: SeqRange) -> u32 {
        let fin = self.hot.flags.has(Flags::FIN_AHEAD) && keep.end() == self.warm.peer_fin.add(1);
        keep.len() - u32::from(fin && !keep.is_empty())
    }

    /// RFC 5681 section 4.2: out of order is answered at once. A peer with SACK learns from one
    /// answer what a whole burst did; one without counts them.
    fn owe_duplicate_ack(&mut self, seg: &Segment) {
        self.hot.flags.set(Flags::ACK_NOW);
        if !self.hot.flags.has(Flags::SACK) {
            let segs = u8::try_from(seg.segs).unwrap_or(u8::MAX);
            self.hot.dup_acks_owed = self.hot.dup_acks_owed.saturating_add(segs);
        }
    }

    /// RFC 9293 section 3.10.7.4, eighth.
    fn take_fin(&mut self, cx: &mut Cx<'_>) {
        self.hot.flags.set(Flags::FIN_TAKEN);
        self.hot.flags.set(Flags::EV_PEER_CLOSED);
        self.hot.flags.set(Flags::ACK_NOW);
        self.transit(cx, StateEvent::Fin);
    }

    /// Estimate the peer's segment size, for delayed acknowledgements and silly windows.
    fn measure_segment(&mut self, cx: &Cx<'_>, seg: &Segment) {
        let len = if seg.segs > 1 { seg.seg_size } else { seg.len };
        let now = u32::from(self.hot.rcv_mss);
        let size = len.min(u32::from(self.warm.advmss)) as u16;
        if len >= now {
            if len != now && cx.params.autotuning.learns_ratio() {
                self.warm.space.learn_ratio(seg.len, cx.buffers.of_run(seg.len, len, seg.segs));
            }
            self.hot.rcv_mss = size;
        } else if len >= RCV_MSS_PLAUSIBLE
            || len >= u32::from(RCV_MSS_MIN) && !seg.flags.psh() && !seg.flags.fin()
        {
            // Two full-looking segments of one size in a row lower the estimate.
            if self.warm.rcv_mss_candidate == size {
                self.hot.rcv_mss = size;
            }
            self.warm.rcv_mss_candidate = size;
        }
        if seg.flags.psh() {
            self.hot.flags.set(Flags::PUSHED);
        }
    }

    /// Pace of acknowledgements, and the delayed one; what the window has earned.
    fn on_data_arrived(&mut self, cx: &mut Cx<'_>, seg: &Segment, in_order: bool) {
        let now = cx.now;
        if let Some(tally) = self.tally() {
            tally.last_data_recv = now;
        }
        let rto = self.hot.rto.get();
        let (window, rcv_mss) = (self.receive_window(), u32::from(self.hot.rcv_mss));
        self.hot.pace.on_data(cx.now, rto, || quick_budget(window, rcv_mss), cx.params);
        self.measure_round_trip(cx, seg, in_order);
        // Without SACK a duplicate acknowledgement must bear the same window, or it is none.
        if in_order || self.hot.flags.has(Flags::SACK) {
            let arrived = Arrived {
                len: seg.len,
                truesize: cx.buffers.of_run(seg.len, seg.seg_size, seg.segs),
                rcv_mss,
                advmss: u32::from(self.warm.advmss),
            };
            self.warm.space.on_arrived(arrived, cx.memory_pressure, cx.params.rmem[2]);
        }
        if !in_order {
            let reading = self.reading(cx);
            let Self { ext, warm, .. } = self;
            if let Some(ext) = ext {
                ext.autotune.on_out_of_order(&reading, cx.params, &mut warm.space);
            }
        }
        self.owe_delayed_ack(cx);
    }

    /// What the IP header of arriving data says of congestion. `before` is `rcv_nxt` without them.
    fn note_mark(&mut self, cx: &mut Cx<'_>, seg: &Segment, before: SeqNum) {
        match self.hot.ecn.on_data(seg.ecn) {
            Arrival::Usual => {}
            Arrival::Hasty => self.hot.pace.enter_quick(QUICK_AFTER_MARK, cx.params),
            Arrival::Changed => {
                self.hot.flags.set(Flags::ACK_NOW);
                let marked = self.hot.ecn.is_marked();
                let acknowledged = self.hot.rcv_wup;
                let Some(ext) = &mut self.ext else { return };
                let told = ext.earlier.last().map_or(acknowledged, |&(ack, _)| ack);
                if before.after(told) {
                    // Without room, the acknowledgement that follows covers more than it should.
                    let _ = ext.earlier.try_push((before, !marked));
                }
            }
        }
    }

    /// The receiver's own idea of a round trip.
    fn measure_round_trip(&mut self, cx: &Cx<'_>, seg: &Segment, in_order: bool) {
        let window = self.receive_window();
        let expected = if in_order { seg.seq } else { self.hot.rcv_nxt };
        let behind = self.hot.copied_seq.before(expected);
        let age = if seg.len >= u32::from(self.hot.rcv_mss) {
            self.echo_age(seg.arrival, seg)
        } else {
            None
        };
        let timestamps = self.hot.flags.has(Flags::TIMESTAMPS);
        let rcv_nxt = self.hot.rcv_nxt;
        let Some(ext) = &mut self.ext else { return };
        match seg.options.timestamps {
            Some((_, tsecr)) if timestamps => {
                if let Some(age) = age {
                    ext.autotune.on_echo(Echo { tsecr, age }, cx.params.autotuning, behind);
                }
            }
            _ if in_order => ext.autotune.on_window(cx.now, rcv_nxt, window),
            _ => {}
        }
    }

    fn owe_delayed_ack(&mut self, cx: &Cx<'_>) {
        self.hot.flags.set(Flags::ACK_PENDING);
        let pushed = self.hot.flags.has(Flags::PUSHED);
        let delay = self.hot.pace.delay(self.hot.rtt.srtt(), pushed, cx.params);
        let at = cx.now + delay;
        match self.hot.timers.get(Timer::DelayedAck) {
            // An earlier deadline stays; if it is very near, there is no point in waiting.
            Some(earlier) if earlier <= at => {
                if earlier <= cx.now + self.hot.pace.ato() / 4 {
                    self.hot.flags.set(Flags::ACK_NOW);
                }
            }
            _ => self.hot.timers.arm(Timer::DelayedAck, at),
        }
    }
}
