//! The transmit log, which is the scoreboard at the same time: what is in flight, when it was sent,
//! and what is known about it.
//!
//! One record per plan. A record is split where a selective acknowledgement, a partial
//! acknowledgement or a partial retransmission makes its halves differ, always at a boundary of the
//! segments that were really sent, so a peer that acknowledges single bytes cannot make more records
//! than there are segments. Neighbours that are both selectively acknowledged are merged again.
//!
//! The records are contiguous: the first begins at `snd_una`, each begins where the one before ends,
//! the last ends at `snd_nxt`. A look-up is a binary search.

use alloc::collections::VecDeque;
use core::time::Duration;

use base::Instant;

use super::rate::{DeliveryRate, Departure};
use crate::timestamp::{ts_before, ts_val};
use crate::{SeqNum, SeqRange};

/// Records at most. Beyond it nothing is split any more: selective acknowledgements inside a record
/// are then ignored, which costs a retransmission but no memory.
pub(crate) const RECORDS_MAX: usize = 4096;

/// Records up to which new data may be sent; the rest is kept for splits.
pub(crate) const RECORDS_NEW_DATA_MAX: usize = RECORDS_MAX * 3 / 4;

/// Records up to which every check in debug builds looks at all of them.
const CHECKED_RECORDS: usize = 64;

/// Records that wait for judgement which one look considers for its timer.
const WAITING_RECORDS: usize = 32;

/// What is known of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks(u8);

impl Marks {
    /// Selectively acknowledged.
    pub(crate) const SACKED: Self = Self(1);
    /// Taken for lost.
    pub(crate) const LOST: Self = Self(2);
    /// A retransmission of it is in flight.
    pub(crate) const RETRANS: Self = Self(4);
    /// It was retransmitted at least once (Karn).
    pub(crate) const EVER_RETRANS: Self = Self(8);
    /// Its last sequence number is our FIN.
    pub(crate) const FIN: Self = Self(16);
    /// Its last segment carried PSH.
    pub(crate) const PSH: Self = Self(32);

    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    #[must_use]
    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[must_use]
    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Lost, and not on its way again.
    pub(crate) const fn is_to_resend(self) -> bool {
        self.has(Self::LOST) && !self.has(Self::RETRANS)
    }
}

/// A range sent at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) start: SeqNum,
    /// After the last byte, or after the FIN.
    pub(crate) end: SeqNum,
    /// When it was sent last.
    pub(crate) sent: Instant,
    /// What was delivered by then.
    pub(crate) departure: Departure,
    /// Payload bytes of each segment but the last.
    pub(crate) seg_size: u16,
    pub(crate) marks: Marks,
}

impl Record {
    pub(crate) const fn data_len(&self) -> u32 {
        self.end.bytes_since(self.start).saturating_sub(self.marks.has(Marks::FIN) as u32)
    }

    /// Segments in it; a FIN alone is one.
    pub(crate) fn segs(&self) -> u32 {
        self.data_len().div_ceil(u32::from(self.seg_size.max(1))).max(1)
    }
}

/// What is known beside the numbers when an acknowledgement is entered into the log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clues {
    /// When it arrived.
    pub(crate) now: Instant,
    /// The least round trip known.
    pub(crate) min_rtt: Option<Duration>,
    /// Its timestamp echo, if timestamps are in force.
    pub(crate) echo: Option<u32>,
    /// Offset of our timestamp clock.
    pub(crate) ts_offset: u32,
    /// `snd_nxt` when the present episode began.
    pub(crate) high_seq: SeqNum,
}

impl Clues {
    /// The echo is of a segment sent before `sent`, so the acknowledgement was caused by one.
    pub(crate) fn echoes_before(&self, sent: Instant) -> bool {
        self.echo.is_some_and(|echo| ts_before(echo, ts_val(sent, self.ts_offset)))
    }
}

/// A delivered segment, as time-ordered loss detection sees it (RFC 8985 section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivered {
    /// When it was sent (last).
    pub(crate) sent: Instant,
    /// Its end.
    pub(crate) end: SeqNum,
    /// From then to its acknowledgement.
    pub(crate) rtt: Duration,
}

impl Delivered {
    /// Whether a segment sent at `sent` that ends at `end` was sent before this one.
    pub(crate) fn is_after(&self, sent: Instant, end: SeqNum) -> bool {
        self.sent > sent || self.sent == sent && self.end.after(end)
    }
}

/// What time-ordered detection says of one segment that is not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// Nothing sent later is known to have arrived.
    Open,
    /// It may still be on its way for so long.
    Wait(Duration),
    Lost,
}

/// What [`TransmitLog::detect`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Detected {
    /// Segments newly taken for lost, retransmissions among them.
    pub(crate) lost: u32,
    /// Retransmissions among them, segments.
    pub(crate) lost_retransmissions: u32,
    /// Where the first of them begins.
    pub(crate) first: Option<SeqNum>,
    /// Others are to be judged again after this time.
    pub(crate) wait: Option<Duration>,
}

/// A range that was sent again at one time.
#[derive(Clone, Copy, Debug)]
struct Resent {
    start: SeqNum,
    end: SeqNum,
    sent: Instant,
}

/// What an acknowledgement did to the log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckOutcome {
    pub(crate) clues: Clues,
    /// End of the highest range selectively acknowledged before this acknowledgement.
    pub(crate) prior_high_sacked: Option<SeqNum>,
    /// Segments acknowledged cumulatively.
    pub(crate) acked: u32,
    /// Segments selectively acknowledged for the first time.
    pub(crate) sacked: u32,
    /// Segments delivered: of the cumulatively acknowledged ones those not already counted when
    /// they were selectively acknowledged, plus `sacked`.
    pub(crate) delivered: u32,
    /// When the first cumulatively acknowledged, never retransmitted segment was sent.
    pub(crate) first_sent: Option<Instant>,
    /// A segment that was retransmitted is among them: what else the acknowledgement covers may have
    /// waited for it at the peer, so it says nothing about the round trip (Karn).
    pub(crate) retrans_acked: bool,
    /// When the first newly selectively acknowledged, never retransmitted segment was sent.
    pub(crate) sack_sent: Option<Instant>,
    /// The lowest segment that arrived later than a higher one although it was sent once only.
    pub(crate) reordered: Option<SeqNum>,
    /// Blocks of the peer that could not be used because the log is full.
    pub(crate) refused: bool,
    /// Of the segments delivered, the one that was sent last.
    pub(crate) newest: Option<Delivered>,
    /// With `newest`: round trip of the one with the highest number.
    pub(crate) rtt: Duration,
    /// Whether that was acknowledged cumulatively.
    pub(crate) rtt_is_cumulative: bool,
    /// A segment that was sent once only, before the episode began, was delivered: what F-RTO looks for.
    pub(crate) original_delivered: bool,
}

impl AckOutcome {
    /// A segment of `record` that ends at `end` has been delivered.
    fn note_delivered(&mut self, record: &Record, end: SeqNum, cumulative: bool) {
        let resent = record.marks.has(Marks::EVER_RETRANS);
        self.original_delivered |= !resent && end.at_or_before(self.clues.high_seq);
        let rtt = self.clues.now.since(record.sent);
        if resent {
            // RFC 8985 section 6.2, step 2: the acknowledgement may be of an earlier copy.
            let too_soon = self.clues.min_rtt.is_some_and(|min| rtt < min);
            if too_soon || self.clues.echoes_before(record.sent) {
                return;
            }
        }
        if self.newest.is_none_or(|newest| !newest.is_after(record.sent, end)) {
            self.newest = Some(Delivered { sent: record.sent, end, rtt });
        }
        // RFC 8985 section 6.2, step 2: RACK.rtt is that of the segment looked at last, those acknowledged
        // cumulatively after the others.
        if cumulative || !self.rtt_is_cumulative {
            self.rtt = rtt;
            self.rtt_is_cumulative = cumulative;
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct TransmitLog {
    records: VecDeque<Record>,
    pub(crate) rate: DeliveryRate,
    /// Retransmissions in the order of their sending; those that no record bears out any more are
    /// passed over.
    resent: VecDeque<Resent>,
    /// Segments in all records.
    packets_out: u32,
    sacked_out: u32,
    lost_out: u32,
    retrans_out: u32,
    /// Lost, and not on its way again.
    resend_out: u32,
    /// End of the highest range selectively acknowledged; meaningful while `sacked_out` is not zero.
    high_sacked: SeqNum,
}

impl TransmitLog {
    pub(crate) fn new() -> Self {
        Self {
            records: VecDeque::new(),
            rate: DeliveryRate::default(),
            resent: VecDeque::new(),
            packets_out: 0,
            sacked_out: 0,
            lost_out: 0,
            retrans_out: 0,
            resend_out: 0,
            high_sacked: SeqNum::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) const fn packets_out(&self) -> u32 {
        self.packets_out
    }

    pub(crate) const fn sacked_out(&self) -> u32 {
        self.sacked_out
    }

    pub(crate) const fn lost_out(&self) -> u32 {
        self.lost_out
    }

    pub(crate) const fn retrans_out(&self) -> u32 {
        self.retrans_out
    }

    /// End of the highest selectively acknowledged range.
    pub(crate) fn high_sacked(&self) -> Option<SeqNum> {
        (self.sacked_out > 0).then_some(self.high_sacked)
    }

    pub(crate) fn head(&self) -> Option<&Record> {
        self.records.front()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Record> {
        self.records.get(index)
    }

    /// Index of the record that contains `seq`, or of the first after it.
    pub(crate) fn find(&self, seq: SeqNum) -> usize {
        self.records.partition_point(|r| r.end.at_or_before(seq))
    }

    /// Something was sent for the first time; it follows on what the log holds.
    pub(crate) fn push(&mut self, mut record: Record) {
        record.departure = self.rate.on_sent(record.sent, self.records.is_empty());
        debug_assert!(self.records.back().is_none_or(|last| last.end == record.start));
        debug_assert!(record.start.before(record.end));
        self.packets_out += record.segs();
        self.records.push_back(record);
    }

    /// Everything before `una` is acknowledged.
    pub(crate) fn ack_to(&mut self, una: SeqNum, out: &mut AckOutcome) {
        while let Some(head) = self.records.front().copied() {
            if una.at_or_before(head.start) {
                break;
            }
            let whole = una.at_or_after(head.end);
            let size = u32::from(head.seg_size.max(1));
            let segs = if whole {
                head.segs()
            } else {
                (una.bytes_since(head.start) / size).min(head.segs() - 1)
            };
            self.count_acked(&head, segs, out);
            if whole {
                self.records.pop_front();
                continue;
            }
            self.trim_head(una, head.start.add(segs * size));
            break;
        }
    }

    /// Book `segs` segments from the front of `head` as acknowledged.
    fn count_acked(&mut self, head: &Record, segs: u32, out: &mut AckOutcome) {
        if segs == 0 {
            return;
        }
        let marks = head.marks;
        out.acked += segs;
        self.packets_out -= segs;
        self.discount(segs, marks);
        if !marks.has(Marks::SACKED) {
            out.delivered += segs;
            self.rate.on_delivered(segs, head.departure, head.sent, out.clues.now);
            let end = head.start.add(segs * u32::from(head.seg_size.max(1)));
            out.note_delivered(head, if segs == head.segs() { head.end } else { end }, true);
            if !marks.has(Marks::EVER_RETRANS)
                && out.prior_high_sacked.is_some_and(|h| head.start.before(h))
            {
                let lowest = out.reordered.map_or(head.start, |r| r.earlier(head.start));
                out.reordered = Some(lowest);
            }
        }
        out.retrans_acked |= marks.has(Marks::EVER_RETRANS);
        if !marks.has(Marks::EVER_RETRANS.with(Marks::SACKED)) && out.first_sent.is_none() {
            out.first_sent = Some(head.sent);
        }
    }

    /// Let the head begin at `una`, in the middle of it; `boundary` is the start of the segment that
    /// `una` lies in. The rest of a segment that was acknowledged in part becomes a record of its own,
    /// so that the other boundaries stay where they are on the wire.
    fn trim_head(&mut self, una: SeqNum, boundary: SeqNum) {
        let Some(head) = self.records.front_mut() else { return };
        let next = boundary.add(u32::from(head.seg_size.max(1)));
        let data_end = head.start.add(head.data_len());
        if una == boundary || next.at_or_after(data_end) {
            head.start = una;
            return;
        }
        let mut rest = *head;
        head.start = next;
        rest.start = una;
        rest.end = next;
        rest.marks = rest.marks.without(Marks::FIN.with(Marks::PSH));
        self.records.push_front(rest);
    }

    /// The peer holds `block`, which lies between `snd_una` and `snd_nxt`.
    pub(crate) fn on_sack(&mut self, block: SeqRange, out: &mut AckOutcome) {
        let first = self.find(block.start());
        let mut index = first;
        while let Some(record) = self.records.get(index).copied() {
            if record.start.at_or_after(block.end()) {
                break;
            }
            if record.marks.has(Marks::SACKED) {
                index += 1;
                continue;
            }
            let Some(inner) = whole_segments(&record, block) else {
                index += 1;
                continue;
            };
            if inner.start() != record.start {
                if !self.split(index, inner.start()) {
                    out.refused = true;
                    break;
                }
                index += 1;
            }
            if inner.end() != record.end && !self.split(index, inner.end()) {
                out.refused = true;
                break;
            }
            self.mark_sacked(index, out);
            index += 1;
        }
        self.merge_sacked(first.saturating_sub(1), index);
    }

    /// Take `segs` segments with these marks out of the counts.
    fn discount(&mut self, segs: u32, marks: Marks) {
        self.sacked_out -= if marks.has(Marks::SACKED) { segs } else { 0 };
        self.lost_out -= if marks.has(Marks::LOST) { segs } else { 0 };
        self.retrans_out -= if marks.has(Marks::RETRANS) { segs } else { 0 };
        self.resend_out -= if marks.is_to_resend() { segs } else { 0 };
    }

    fn count(&mut self, segs: u32, marks: Marks) {
        self.sacked_out += if marks.has(Marks::SACKED) { segs } else { 0 };
        self.lost_out += if marks.has(Marks::LOST) { segs } else { 0 };
        self.retrans_out += if marks.has(Marks::RETRANS) { segs } else { 0 };
        self.resend_out += if marks.is_to_resend() { segs } else { 0 };
    }

    /// Change what is known of a record; the counts follow.
    fn set_marks(&mut self, index: usize, marks: Marks) {
        let Some(record) = self.records.get_mut(index) else { return };
        let (segs, before) = (record.segs(), record.marks);
        record.marks = marks;
        self.discount(segs, before);
        self.count(segs, marks);
    }

    fn mark_sacked(&mut self, index: usize, out: &mut AckOutcome) {
        let any_sacked = self.sacked_out > 0;
        let Some(record) = self.records.get(index).copied() else { return };
        let segs = record.segs();
        let marks = record.marks;
        self.rate.on_delivered(segs, record.departure, record.sent, out.clues.now);
        out.note_delivered(&record, record.end, false);
        out.retrans_acked |= marks.has(Marks::EVER_RETRANS);
        if !marks.has(Marks::EVER_RETRANS) {
            out.sack_sent.get_or_insert(record.sent);
            if out.prior_high_sacked.is_some_and(|h| record.start.before(h)) {
                out.reordered =
                    Some(out.reordered.map_or(record.start, |r| r.earlier(record.start)));
            }
        }
        self.set_marks(index, marks.without(Marks::LOST.with(Marks::RETRANS)).with(Marks::SACKED));
        self.high_sacked = if any_sacked { self.high_sacked.later(record.end) } else { record.end };
        out.sacked += segs;
        out.delivered += segs;
    }

    /// Merge neighbours among the records `from..=to` that are both selectively acknowledged.
    fn merge_sacked(&mut self, from: usize, to: usize) {
        let mut index = to.min(self.records.len().saturating_sub(1));
        while index > from {
            let (Some(left), Some(right)) =
                (self.records.get(index - 1).copied(), self.records.get(index).copied())
            else {
                return;
            };
            let both = left.marks.has(Marks::SACKED) && right.marks.has(Marks::SACKED);
            let aligned = left.seg_size == right.seg_size
                && left.data_len().is_multiple_of(u32::from(left.seg_size.max(1)));
            if both && aligned {
                if let Some(l) = self.records.get_mut(index - 1) {
                    l.end = right.end;
                    l.sent = left.sent.max(right.sent);
                    l.marks = Marks(left.marks.0 | right.marks.0);
                }
                self.records.remove(index);
            }
            index -= 1;
        }
    }

    /// Split the record at `index` so that a new one begins at `at`, which is a segment boundary
    /// inside it. False if the log is full.
    fn split(&mut self, index: usize, at: SeqNum) -> bool {
        if self.records.len() >= RECORDS_MAX {
            return false;
        }
        let Some(left) = self.records.get_mut(index) else { return false };
        debug_assert!(left.start.before(at) && at.before(left.end));
        let mut right = *left;
        left.end = at;
        left.marks = left.marks.without(Marks::FIN.with(Marks::PSH));
        right.start = at;
        self.records.insert(index + 1, right);
        true
    }

    /// Take the record for lost. Nothing happens to one that the peer holds.
    pub(crate) fn mark_lost(&mut self, index: usize) {
        let Some(record) = self.records.get(index) else { return };
        if !record.marks.has(Marks::SACKED) {
            self.set_marks(index, record.marks.with(Marks::LOST).without(Marks::RETRANS));
        }
    }

    /// Take only the first segment of the log for lost. True if it was not already.
    pub(crate) fn mark_head_lost(&mut self) -> bool {
        let Some(head) = self.records.front().copied() else { return false };
        if head.marks.has(Marks::LOST.with(Marks::SACKED)) {
            return false;
        }
        let boundary = head.start.add(u32::from(head.seg_size.max(1)));
        if head.segs() > 1 && !self.split(0, boundary) {
            return false;
        }
        self.mark_lost(0);
        true
    }

    /// Where the last segment of the log begins, as a record of its own, unless something is known of
    /// it already.
    pub(crate) fn isolate_tail(&mut self) -> Option<SeqNum> {
        let index = self.records.len().checked_sub(1)?;
        let tail = self.records.get(index).copied()?;
        if tail.marks.has(Marks::SACKED.with(Marks::LOST).with(Marks::RETRANS)) {
            return None;
        }
        let size = u32::from(tail.seg_size.max(1));
        let boundary = tail.start.add((tail.segs() - 1) * size);
        if boundary != tail.start && !self.split(index, boundary) {
            return None;
        }
        Some(boundary)
    }

    /// RFC 8985 section 6.2, step 5: judge what is in flight in the order of its sending. What was sent
    /// once only lies in that order in the log; `from` is where the last look ended, and moves on.
    /// Retransmissions have a queue of their own. Each record is passed over once, so the work for one
    /// acknowledgement is small on average, whatever the peer does.
    pub(crate) fn detect(
        &mut self,
        from: &mut SeqNum,
        judge: impl Fn(Instant, SeqNum) -> Judgement,
    ) -> Detected {
        let mut found = Detected::default();
        self.detect_originals(from, &judge, &mut found);
        self.detect_resent(&judge, &mut found);
        found
    }

    fn detect_originals(
        &mut self,
        from: &mut SeqNum,
        judge: &impl Fn(Instant, SeqNum) -> Judgement,
        found: &mut Detected,
    ) {
        let known = Marks::SACKED.with(Marks::LOST).with(Marks::EVER_RETRANS);
        let mut index = self.find(*from);
        while let Some(record) = self.records.get(index).copied() {
            if !record.marks.has(known) {
                match judge(record.sent, record.end) {
                    Judgement::Lost => {
                        self.mark_lost(index);
                        found.lost += record.segs();
                        found.first.get_or_insert(record.start);
                    }
                    Judgement::Open => return,
                    Judgement::Wait(time) => {
                        found.wait = Some(self.longest_wait(index, time, judge));
                        return;
                    }
                }
            }
            *from = record.end;
            index += 1;
        }
    }

    /// One timer for all that wait is enough, so it is set for the last of them, within reason.
    fn longest_wait(
        &self,
        index: usize,
        mut longest: Duration,
        judge: &impl Fn(Instant, SeqNum) -> Judgement,
    ) -> Duration {
        let known = Marks::SACKED.with(Marks::LOST).with(Marks::EVER_RETRANS);
        for record in self.records.range(index..).take(WAITING_RECORDS) {
            if record.marks.has(known) {
                continue;
            }
            match judge(record.sent, record.end) {
                Judgement::Wait(time) => longest = longest.max(time),
                _ => break,
            }
        }
        longest
    }

    fn detect_resent(
        &mut self,
        judge: &impl Fn(Instant, SeqNum) -> Judgement,
        found: &mut Detected,
    ) {
        while let Some(resent) = self.resent.front().copied() {
            let mut index = self.find(resent.start);
            let mut waiting = false;
            while let Some(record) = self.records.get(index).copied() {
                if record.start.at_or_after(resent.end) {
                    break;
                }
                if record.marks.has(Marks::RETRANS) && record.sent == resent.sent {
                    match judge(record.sent, record.end) {
                        Judgement::Lost => {
                            self.mark_lost(index);
                            found.lost += record.segs();
                            found.lost_retransmissions += record.segs();
                            let first =
                                found.first.map_or(record.start, |f| f.earlier(record.start));
                            found.first = Some(first);
                        }
                        Judgement::Open => waiting = true,
                        Judgement::Wait(time) => {
                            waiting = true;
                            found.wait = Some(found.wait.map_or(time, |wait| wait.max(time)));
                        }
                    }
                }
                index += 1;
            }
            if waiting {
                return;
            }
            self.resent.pop_front();
        }
    }

    /// The loss was none: forget what was taken for lost.
    pub(crate) fn unmark_lost(&mut self) {
        for index in 0..self.records.len() {
            if let Some(record) = self.records.get(index)
                && record.marks.has(Marks::LOST)
            {
                self.set_marks(index, record.marks.without(Marks::LOST));
            }
        }
    }

    /// A timeout: everything in flight that the peer does not hold is lost, retransmissions included, but
    /// for what `recent` says was sent a moment ago; the head is lost in any case. With `forget_sack`
    /// (the peer has reneged, or may have) what it said to hold is lost too. Returns where the first
    /// record begins that was left alone and was sent once only, if there is one.
    pub(crate) fn mark_all_lost(
        &mut self,
        forget_sack: bool,
        recent: impl Fn(Instant) -> bool,
    ) -> Option<SeqNum> {
        if forget_sack {
            for index in 0..self.records.len() {
                if let Some(record) = self.records.get(index) {
                    self.set_marks(index, record.marks.without(Marks::SACKED));
                }
            }
        }
        let mut spared = None;
        for index in 0..self.records.len() {
            let Some(record) = self.records.get(index).copied() else { break };
            if index > 0 && !record.marks.has(Marks::SACKED) && recent(record.sent) {
                if !record.marks.has(Marks::EVER_RETRANS.with(Marks::LOST)) {
                    spared.get_or_insert(record.start);
                }
                continue;
            }
            self.mark_lost(index);
        }
        spared
    }

    /// Index of the first record from `from` on that is lost and not retransmitted since.
    pub(crate) fn next_lost(&self, from: SeqNum) -> Option<usize> {
        if self.resend_out == 0 {
            return None;
        }
        let start = self.find(from);
        (start..self.records.len())
            .find(|&i| self.records.get(i).is_some_and(|r| r.marks.is_to_resend()))
    }

    /// The first `segs` segments of the record that begins at `start` were sent again.
    pub(crate) fn on_retransmitted(&mut self, start: SeqNum, segs: u32, now: Instant) {
        let index = self.find(start);
        let Some(record) = self.records.get(index).copied() else { return };
        debug_assert_eq!(record.start, start);
        if segs < record.segs() {
            let at = record.start.add(segs * u32::from(record.seg_size.max(1)));
            // If the log is full, all of the record counts as sent: counted as less it would be sent
            // again and again. Only a hostile peer gets here, and the timer repairs it.
            self.split(index, at);
        }
        let Some(record) = self.records.get_mut(index) else { return };
        record.sent = now;
        record.departure = self.rate.on_sent(now, false);
        let (end, marks) = (record.end, record.marks);
        self.set_marks(index, marks.with(Marks::RETRANS.with(Marks::EVER_RETRANS)));
        match self.resent.back_mut() {
            Some(last) if last.sent == now && last.end == start => last.end = end,
            _ => {
                if self.resent.len() >= RECORDS_MAX {
                    // Watched by the retransmission timer alone.
                    self.resent.pop_front();
                }
                self.resent.push_back(Resent { start, end, sent: now });
            }
        }
    }

    /// The path carries no segment larger than `mss` any more: cut what is in flight accordingly and
    /// take what was larger for lost.
    pub(crate) fn resegment(&mut self, mss: u16) {
        let mut any = false;
        for record in &mut self.records {
            if record.seg_size <= mss || record.data_len() <= u32::from(mss) {
                continue;
            }
            any = true;
            record.seg_size = mss;
            if !record.marks.has(Marks::SACKED) {
                record.marks = record.marks.with(Marks::LOST).without(Marks::RETRANS);
            }
        }
        if any {
            self.recount();
        }
    }

    fn recount(&mut self) {
        [self.packets_out, self.sacked_out, self.lost_out, self.retrans_out, self.resend_out] =
            self.sums();
    }

    /// The counts as the records have them.
    fn sums(&self) -> [u32; 5] {
        let mut sums = [0u32; 5];
        for record in &self.records {
            let segs = record.segs();
            let marks = record.marks;
            let counted = [
                true,
                marks.has(Marks::SACKED),
                marks.has(Marks::LOST),
                marks.has(Marks::RETRANS),
                marks.is_to_resend(),
            ];
            for (sum, counted) in sums.iter_mut().zip(counted) {
                *sum = sum.saturating_add(if counted { segs } else { 0 });
            }
        }
        sums
    }

    /// What must hold, checked in debug builds; in full while the log is short.
    pub(crate) fn check(&self, snd_una: SeqNum, snd_nxt: SeqNum) {
        if !cfg!(debug_assertions) {
            return;
        }
        let start = self.records.front().map_or(snd_nxt, |r| r.start);
        let end = self.records.back().map_or(snd_una, |r| r.end);
        assert_eq!((start, end), (snd_una, snd_nxt), "the log is not what is in flight");
        if self.records.len() > CHECKED_RECORDS {
            return;
        }
        let mut at = snd_una;
        for record in &self.records {
            assert_eq!(record.start, at, "the log has a hole");
            assert!(record.start.before(record.end), "an empty record");
            at = record.end;
        }
        let counts =
            [self.packets_out, self.sacked_out, self.lost_out, self.retrans_out, self.resend_out];
        assert_eq!(self.sums(), counts, "the log's counts drifted");
    }
}

/// The part of `block` that covers whole segments of `record`; `None` if it covers none. A record's
/// last segment ends where the record ends, FIN included.
fn whole_segments(record: &Record, block: SeqRange) -> Option<SeqRange> {
    let size = u32::from(record.seg_size.max(1));
    let skipped = block.start().bytes_since(record.start).div_ceil(size);
    if skipped >= record.segs() {
        return None;
    }
    let start = record.start.add(skipped * size);
    let end = if block.end().at_or_after(record.end) {
        record.end
    } else {
        // Never past the start of the last segment: a FIN behind it belongs to that segment.
        let segs = (block.end().bytes_since(record.start) / size).min(record.segs() - 1);
        record.start.add(segs * size)
    };
    SeqRange::new(start, end).filter(|r| !r.is_empty())
}

#[cfg(test)]
#[path = "log/tests.rs"]
mod tests;
