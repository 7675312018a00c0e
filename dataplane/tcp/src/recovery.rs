//! Loss detection and the states of recovery.
//!
//! What decides that something is lost is here, apart from congestion control, which decides how
//! much may be in flight (RFC 5681 section 3.2, RFC 5681 section 4.3): time order ([`rack`], RFC 8985) with selective
//! acknowledgements, RFC 6582 (NewReno) without, the retransmission timeout of RFC 6298 in both cases.
//! A timeout is doubted until its first acknowledgements have borne it out (F-RTO, RFC 5682), and whatever a
//! recovery took away is given back when it turns out that nothing was lost ([`Undo`]).

pub(crate) mod log;
pub(crate) mod prr;
pub(crate) mod rack;
pub(crate) mod rate;

use core::time::Duration;

use base::Instant;

use crate::cc::Signal;
use crate::{SeqNum, SeqRange};
use log::{AckOutcome, Delivered, Marks, TransmitLog};
use rack::{Patience, Rack};

/// The timer for late segments has this granularity, on both sides.
const REORDER_TIMER_MIN: Duration = Duration::from_millis(2);

/// The congestion states of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaState {
    /// Nothing unusual.
    Open,
    /// Duplicate or selective acknowledgements have been seen; nothing is lost yet.
    Disorder,
    /// The window is being reduced because the peer echoes a mark, RFC 3168; nothing is lost.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// After a retransmission timeout.
    Loss,
}

/// What an acknowledgement says, as far as loss is concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckInfo {
    /// Before the acknowledgement.
    pub(crate) prior_una: SeqNum,
    /// After it.
    pub(crate) snd_una: SeqNum,
    pub(crate) snd_nxt: SeqNum,
    /// It moved `snd_una`.
    pub(crate) advanced: bool,
    /// Duplicate acknowledgements that it stands for, RFC 5681 section 2 (peers without SACK).
    pub(crate) duplicates: u32,
    /// SACK is in force.
    pub(crate) sack: bool,
    pub(crate) mss: u32,
    /// `tcp_max_reordering`.
    pub(crate) max_reordering: u32,
    /// The least round trip, this one included.
    pub(crate) min_rtt: Option<Duration>,
    /// Smoothed round trip.
    pub(crate) srtt: Option<Duration>,
    /// `tcp_recovery`.
    pub(crate) knob: u8,
    /// There are new data, and the peer has room for them.
    pub(crate) has_new_data: bool,
    /// It echoes a mark: ECE.
    pub(crate) ece: bool,
}

/// Why an episode was taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undo {
    /// All retransmissions were reported as duplicates.
    Dsack,
    /// At the end of a fast recovery.
    Full,
    /// By a partial acknowledgement in fast recovery.
    Partial,
    /// After a timeout.
    Loss,
    /// The timeout was spurious: F-RTO.
    SpuriousRto,
}

/// How reordering was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reordered {
    Sack,
    Reno,
    Timestamps,
}

/// What followed from an acknowledgement or from the timer for late segments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Change {
    /// A retransmission was unfounded.
    pub(crate) undo: Option<Undo>,
    /// With it the reduction, as no mark was echoed.
    pub(crate) restore: bool,
    /// An episode is over; the state it was in.
    pub(crate) exit: Option<CaState>,
    /// Fast recovery begins.
    pub(crate) enter: bool,
    /// The window is to be reduced.
    pub(crate) reduce: Option<Signal>,
    /// Something was newly found lost.
    pub(crate) newly_lost: bool,
    /// Retransmissions found lost, segments.
    pub(crate) lost_retransmissions: u32,
    /// The degree of reordering rose.
    pub(crate) reordered: Option<Reordered>,
    /// Segments delivered.
    pub(crate) delivered: u32,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Recovery {
    pub(crate) log: TransmitLog,
    rack: Rack,
    ca_state: CaState,
    /// `snd_nxt` when the episode began; it ends when this is acknowledged.
    high_seq: SeqNum,
    /// Without SACK: duplicate acknowledgements, each a segment that has left the network.
    reno_sacked: u32,
    /// Without SACK: duplicates at exactly the end of an episode may be echoes of its
    /// retransmissions and must not start another, RFC 6582 section 3.2.
    reno_hold: Option<SeqNum>,
    /// Duplicate threshold, learned from reordering.
    reordering: u32,
    /// What was sent once only is judged up to here.
    lost_mark: SeqNum,
    /// Nothing before it waits for retransmission.
    retransmit_hint: SeqNum,
    /// When late segments are to be looked at again.
    reorder_at: Option<Instant>,
    /// The next retransmission may leave whatever the congestion window says.
    forced: bool,
    /// The last segment is to be sent again as a probe; it begins here.
    tail_probe: Option<SeqNum>,
    /// The peer has echoed a mark in this episode, or before it in the same window of data: the reduction
    /// stands, whatever becomes of the losses.
    confirmed: bool,
    /// `snd_una` when the last episode began, while it may still be taken back.
    undo_marker: Option<SeqNum>,
    /// Retransmissions since then that the peer has not reported as duplicates, segments; `None`: there
    /// was none.
    undo_retrans: Option<u32>,
    /// When the first of them was sent.
    first_retrans: Option<Instant>,
    /// Whether the timeout was spurious is not known yet, RFC 5682.
    frto: bool,
    /// Its step 2b: new data go out to find out, retransmissions wait.
    frto_new_data: bool,
}

impl Recovery {
    pub(crate) fn new(snd_una: SeqNum, reordering: u32) -> Self {
        Self {
            log: TransmitLog::new(),
            rack: Rack::new(),
            ca_state: CaState::Open,
            high_seq: snd_una,
            reno_sacked: 0,
            reno_hold: None,
            reordering: reordering.max(1),
            lost_mark: snd_una,
            retransmit_hint: snd_una,
            reorder_at: None,
            forced: false,
            tail_probe: None,
            confirmed: false,
            undo_marker: None,
            undo_retrans: None,
            first_retrans: None,
            frto: false,
            frto_new_data: false,
        }
    }

    pub(crate) const fn ca_state(&self) -> CaState {
        self.ca_state
    }

    pub(crate) const fn high_seq(&self) -> SeqNum {
        self.high_seq
    }

    pub(crate) const fn reordering(&self) -> u32 {
        self.reordering
    }

    /// `snd_una` when the episode began that may still be taken back.
    pub(crate) const fn undo_marker(&self) -> Option<SeqNum> {
        self.undo_marker
    }

    /// When to call [`Recovery::on_reorder_timer`].
    pub(crate) const fn reorder_at(&self) -> Option<Instant> {
        self.reorder_at
    }

    /// Segments in flight by the best of our knowledge: "pipe" of RFC 6675.
    pub(crate) const fn in_flight(&self) -> u32 {
        let gone = self.sacked_out() + self.log.lost_out();
        (self.log.packets_out() + self.log.retrans_out()).saturating_sub(gone)
    }

    /// Segments that have arrived without being acknowledged cumulatively.
    pub(crate) const fn sacked_out(&self) -> u32 {
        self.log.sacked_out() + self.reno_sacked
    }

    /// No segment in flight is marked in any way, no episode goes on, and none can be taken back.
    pub(crate) fn is_calm(&self) -> bool {
        self.ca_state == CaState::Open
            && self.sacked_out() == 0
            && self.log.lost_out() == 0
            && self.tail_probe.is_none()
    }

    /// The record to retransmit next.
    pub(crate) fn next_retransmission(&self) -> Option<log::Record> {
        if let Some(start) = self.tail_probe {
            return self.log.get(self.log.find(start)).copied();
        }
        self.log.next_lost(self.retransmit_hint).and_then(|i| self.log.get(i)).copied()
    }

    /// No segment in flight is marked in any way, and none was lost lately: a tail loss probe would be news.
    pub(crate) fn may_probe(&self) -> bool {
        matches!(self.ca_state, CaState::Open | CaState::Cwr)
            && self.sacked_out() == 0
            && self.log.lost_out() == 0
            && self.tail_probe.is_none()
    }

    /// Whether the next retransmission ignores the congestion window.
    pub(crate) const fn is_forced(&self) -> bool {
        self.forced
    }

    /// F-RTO asks with new data whether the timeout was right; retransmissions wait for the answer, if
    /// there are new data to ask with.
    pub(crate) const fn asks_with_new_data(&self) -> bool {
        self.frto_new_data
    }

    /// A retransmission of `segs` segments from `start` on was taken by the device.
    pub(crate) fn on_retransmitted(&mut self, start: SeqNum, segs: u32, now: Instant) {
        self.forced = false;
        if self.tail_probe.take().is_none() {
            self.retransmit_hint = start;
        }
        self.log.on_retransmitted(start, segs, now);
        self.undo_retrans = Some(self.undo_retrans.unwrap_or(0).saturating_add(segs));
        self.first_retrans.get_or_insert(now);
    }

    /// The peer reports segments that it got twice: `segs` of them, the last of which ends at `end`.
    /// `probe`: they may be those of a tail loss probe, which says nothing about reordering.
    pub(crate) fn on_dsack(
        &mut self,
        prior_una: SeqNum,
        snd_nxt: SeqNum,
        end: SeqNum,
        segs: u32,
        probe: bool,
    ) {
        if !probe {
            self.rack.on_dsack(prior_una, snd_nxt);
        }
        if let (Some(marker), Some(left)) = (self.undo_marker, self.undo_retrans)
            && end.after(marker)
            && end.at_or_before(prior_una)
        {
            self.undo_retrans = Some(left.saturating_sub(segs));
        }
    }

    /// An acknowledgement has been entered into the log; `outcome` is what it did there.
    pub(crate) fn on_ack(&mut self, ack: &AckInfo, outcome: &AckOutcome) -> Change {
        let mut change = Change { delivered: outcome.delivered, ..Change::default() };
        self.keep_up(ack);
        if let Some(delivered) = outcome.newest {
            self.rack.on_delivered(Delivered { rtt: outcome.rtt, ..delivered });
        }
        if let Some(low) = outcome.reordered.filter(|_| ack.sack) {
            self.learn_reordering(ack, low, Reordered::Sack, &mut change);
        }
        if !ack.sack {
            self.count_reno(ack, outcome, &mut change);
        }
        self.frto_new_data = false;

        self.confirmed |= ack.ece;
        if self.ca_state == CaState::Recovery && ack.snd_una.at_or_after(self.high_seq) {
            self.finish_episode(ack, outcome, &mut change);
        } else if self.ca_state == CaState::Cwr && ack.snd_una.after(self.high_seq) {
            // Only now the peer has seen that the window was reduced.
            self.calm_down();
            change.exit = Some(CaState::Cwr);
        }
        match self.ca_state {
            CaState::Recovery => self.in_recovery(ack, outcome, &mut change),
            CaState::Loss => self.in_loss(ack, outcome, &mut change),
            CaState::Open | CaState::Disorder | CaState::Cwr => {
                if self.ca_state != CaState::Cwr {
                    self.try_undo_dsack(&mut change);
                }
                self.detect(ack, outcome, &mut change);
                self.judge(ack, &mut change);
            }
        }
        change
    }

    /// Whatever is remembered as a sequence number moves along with `snd_una`.
    fn keep_up(&mut self, ack: &AckInfo) {
        self.lost_mark = self.lost_mark.later(ack.snd_una);
        self.retransmit_hint = self.retransmit_hint.later(ack.snd_una);
        if !ack.advanced {
            return;
        }
        self.rack.on_progress(ack.snd_una);
        if self.tail_probe.is_some_and(|start| start.before(ack.snd_una)) {
            self.tail_probe = None;
        }
        if self.reno_hold.is_some_and(|hold| ack.snd_una.after(hold)) {
            self.reno_hold = None;
        }
        if matches!(self.ca_state, CaState::Open | CaState::Disorder) {
            self.high_seq = self.high_seq.later(ack.snd_una);
            if !self.any_retransmitted() {
                self.first_retrans = None;
            }
        }
        // Further back than the window may be, nothing is reported any more.
        if self.undo_marker.is_some_and(|marker| ack.snd_una.bytes_since(marker) > 1 << 30) {
            self.undo_marker = None;
        }
    }

    fn any_retransmitted(&self) -> bool {
        self.log.retrans_out() > 0
            || self.log.head().is_some_and(|head| head.marks.has(Marks::EVER_RETRANS))
    }

    fn in_recovery(&mut self, ack: &AckInfo, outcome: &AckOutcome, change: &mut Change) {
        if ack.advanced && self.undo_marker.is_some() && self.echoes_original(outcome) {
            // A partial acknowledgement that the original caused: it was late, not lost.
            self.learn_reordering(ack, ack.prior_una, Reordered::Timestamps, change);
            if self.log.retrans_out() > 0 {
                return;
            }
            self.undo(Undo::Partial, true, change);
        }
        self.try_undo_dsack(change);
        if change.undo.is_some() {
            self.calm_down();
            change.exit = Some(CaState::Recovery);
        }
        self.detect(ack, outcome, change);
        if self.ca_state != CaState::Recovery {
            self.judge(ack, change);
        }
    }

    /// RFC 5682 section 3.1, and the end of the episode.
    fn in_loss(&mut self, ack: &AckInfo, outcome: &AckOutcome, change: &mut Change) {
        let recovered = ack.snd_una.at_or_after(self.high_seq);
        if ack.advanced && self.may_undo(outcome) {
            self.undo(Undo::Loss, true, change);
        } else if self.frto {
            if outcome.original_delivered {
                // Step 3b: what was sent before the timeout arrives, so the timeout came too soon.
                self.undo(Undo::SpuriousRto, true, change);
            } else if ack.snd_nxt.after(self.high_seq) {
                if outcome.sacked > 0 || ack.duplicates > 0 {
                    // Step 3a: the loss was real.
                    self.frto = false;
                }
            } else if ack.advanced && !recovered {
                self.high_seq = ack.snd_nxt;
                if ack.has_new_data {
                    // Step 2b.
                    self.frto_new_data = true;
                    return;
                }
                self.frto = false;
            }
        }
        if change.undo.is_some() {
            if ack.sack || change.undo == Some(Undo::SpuriousRto) || recovered {
                self.leave(ack);
                change.exit = Some(CaState::Loss);
            }
        } else if recovered {
            self.finish_episode(ack, outcome, change);
        }
        self.detect(ack, outcome, change);
        if self.ca_state != CaState::Loss || change.lost_retransmissions > 0 {
            self.judge(ack, change);
        }
    }

    /// Everything is acknowledged that was in flight when the episode began.
    fn finish_episode(&mut self, ack: &AckInfo, outcome: &AckOutcome, change: &mut Change) {
        let was = self.ca_state;
        if self.may_undo(outcome) {
            let why = if was == CaState::Loss { Undo::Loss } else { Undo::Full };
            self.undo(why, false, change);
        }
        self.rack.on_recovered();
        self.leave(ack);
        change.exit = Some(was);
    }

    /// Begin fast recovery if something is lost, or a reduction if a mark is echoed.
    fn judge(&mut self, ack: &AckInfo, change: &mut Change) {
        // At exactly the end of an episode, the echo is of before the peer was told of it.
        let echo_is_old = change.exit.is_some() && ack.snd_una == self.high_seq;
        if self.log.lost_out() > 0 {
            self.enter_recovery(ack.snd_una, ack.snd_nxt, change);
            self.confirmed |= ack.ece;
        } else if self.ca_state == CaState::Cwr {
            // Goes on.
        } else if ack.ece && !echo_is_old {
            // RFC 3168 section 6.1.2: as a loss, once per window of data, but nothing to retransmit.
            self.begin(CaState::Cwr, ack.snd_una, ack.snd_nxt);
            self.undo_marker = None;
            self.confirmed = true;
            change.reduce = Some(Signal::Mark);
        } else {
            self.calm_down();
        }
    }

    fn calm_down(&mut self) {
        self.ca_state = if self.sacked_out() > 0 { CaState::Disorder } else { CaState::Open };
    }

    // --- detection -------------------------------------------------------------------------------

    /// Find out what is lost.
    fn detect(&mut self, ack: &AckInfo, outcome: &AckOutcome, change: &mut Change) {
        if ack.sack {
            if self.rack.take_advanced() {
                let clues = &outcome.clues;
                self.detect_by_time(clues.now, ack.min_rtt, ack.srtt, ack.knob, change);
            }
        } else {
            self.detect_reno(ack, change);
        }
    }

    fn detect_by_time(
        &mut self,
        now: Instant,
        min_rtt: Option<Duration>,
        srtt: Option<Duration>,
        knob: u8,
        change: &mut Change,
    ) {
        let window = self.rack.window(&Patience {
            recovering: matches!(self.ca_state, CaState::Recovery | CaState::Loss),
            many_sacked: self.log.sacked_out() >= self.reordering,
            min_rtt,
            srtt,
            knob,
        });
        let rack = &self.rack;
        let found =
            self.log.detect(&mut self.lost_mark, |sent, end| rack.judge(now, window, sent, end));
        if let Some(first) = found.first {
            self.retransmit_hint = self.retransmit_hint.earlier(first);
            change.newly_lost = true;
        }
        change.lost_retransmissions += found.lost_retransmissions;
        self.reorder_at = found.wait.map(|wait| now + wait + REORDER_TIMER_MIN);
    }

    /// RFC 8985 section 6.3: the time for late segments is over. `knob` is `tcp_recovery`.
    pub(crate) fn on_reorder_timer(
        &mut self,
        now: Instant,
        (snd_una, snd_nxt): (SeqNum, SeqNum),
        (min_rtt, srtt): (Option<Duration>, Option<Duration>),
        knob: u8,
    ) -> Change {
        let mut change = Change::default();
        self.reorder_at = None;
        self.detect_by_time(now, min_rtt, srtt, knob, &mut change);
        if change.newly_lost && self.ca_state != CaState::Recovery {
            self.enter_recovery(snd_una, snd_nxt, &mut change);
        }
        change
    }

    fn detect_reno(&mut self, ack: &AckInfo, change: &mut Change) {
        let lost = match self.ca_state {
            CaState::Open | CaState::Disorder | CaState::Cwr => {
                self.reno_sacked >= self.reordering && self.reno_hold.is_none()
            }
            // RFC 6582 section 3.2, step 3: a partial acknowledgement shows the next hole.
            CaState::Recovery => ack.advanced,
            CaState::Loss => false,
        };
        if lost && self.log.mark_head_lost() {
            self.retransmit_hint = ack.snd_una;
            // It is sent again at once, whatever the rate reduction says: no duplicate may follow that
            // would let it go.
            self.forced = self.ca_state == CaState::Recovery;
            change.newly_lost = true;
        }
    }

    /// Without SACK, duplicates stand for segments that have arrived. Never more than can have.
    fn count_reno(&mut self, ack: &AckInfo, outcome: &AckOutcome, change: &mut Change) {
        if outcome.acked > 0 {
            // One of the segments acknowledged was the hole; the others ate their duplicates.
            change.delivered = outcome.acked.saturating_sub(self.reno_sacked).max(1);
            self.reno_sacked = self.reno_sacked.saturating_sub(outcome.acked.saturating_sub(1));
        }
        let before = self.reno_sacked;
        self.reno_sacked = self.reno_sacked.saturating_add(ack.duplicates);
        let claimed = self.reno_sacked;
        self.limit_reno();
        if self.reno_sacked < claimed {
            // More duplicates than segments that could have caused them: it was the order.
            let degree = self.log.packets_out().saturating_add(outcome.acked);
            let degree = degree.min(ack.max_reordering);
            if degree > self.reordering {
                self.reordering = degree;
                change.reordered = Some(Reordered::Reno);
            }
        }
        change.delivered += self.reno_sacked.saturating_sub(before);
    }

    fn limit_reno(&mut self) {
        let holes = self.log.lost_out().max(1);
        self.reno_sacked = self.reno_sacked.min(self.log.packets_out().saturating_sub(holes));
    }

    /// A segment from `low` on arrived later than one above it.
    fn learn_reordering(
        &mut self,
        ack: &AckInfo,
        low: SeqNum,
        how: Reordered,
        change: &mut Change,
    ) {
        let high = self.log.high_sacked().unwrap_or(ack.snd_una).later(ack.snd_una);
        if low.at_or_after(high) {
            return;
        }
        self.rack.on_reordering();
        let degree = high.bytes_since(low).div_ceil(ack.mss.max(1)).min(ack.max_reordering);
        if degree > self.reordering {
            self.reordering = degree;
            change.reordered = Some(how);
        }
    }

    // --- episodes --------------------------------------------------------------------------------

    fn enter_recovery(&mut self, snd_una: SeqNum, snd_nxt: SeqNum, change: &mut Change) {
        let (reducing, end) = (self.ca_state == CaState::Cwr, self.high_seq);
        self.first_retrans = None;
        self.begin(CaState::Recovery, snd_una, snd_nxt);
        change.enter = true;
        change.reduce = Some(if reducing { Signal::LossAfterMark } else { Signal::Loss });
        if reducing {
            // The same window of data has lost what follows the mark: one episode. The first
            // retransmission leaves at once, RFC 5681 section 3.2, which otherwise the reduction sees to.
            self.high_seq = end;
            self.forced = true;
            self.confirmed = true;
        }
    }

    fn begin(&mut self, state: CaState, snd_una: SeqNum, snd_nxt: SeqNum) {
        self.ca_state = state;
        self.high_seq = snd_nxt;
        self.confirmed = false;
        self.undo_marker = Some(snd_una);
        self.undo_retrans = Some(self.log.retrans_out()).filter(|&segs| segs > 0);
    }

    fn leave(&mut self, ack: &AckInfo) {
        if !ack.sack {
            // At exactly the end of the episode, further duplicates are ambiguous.
            self.reno_hold = (ack.snd_una == self.high_seq).then_some(self.high_seq);
        }
        self.reno_sacked = 0;
        self.forced = false;
        self.frto = false;
        self.frto_new_data = false;
        self.calm_down();
    }

    // --- undo ------------------------------------------------------------------------------------

    /// The acknowledgement answers something sent before the first retransmission of the episode, so the
    /// original was not lost: Eifel, RFC 3522.
    fn echoes_original(&self, outcome: &AckOutcome) -> bool {
        self.first_retrans.is_some_and(|sent| outcome.clues.echoes_before(sent))
    }

    fn may_undo(&self, outcome: &AckOutcome) -> bool {
        self.undo_marker.is_some()
            && (self.undo_retrans == Some(0) || self.echoes_original(outcome))
    }

    /// All that was retransmitted had arrived before: RFC 3708 in the form of Linux.
    fn try_undo_dsack(&mut self, change: &mut Change) {
        if self.undo_marker.is_some() && self.undo_retrans == Some(0) {
            self.rack.on_undo();
            self.undo(Undo::Dsack, false, change);
        }
    }

    fn undo(&mut self, why: Undo, unmark: bool, change: &mut Change) {
        if unmark {
            self.log.unmark_lost();
            // What is not lost after all has to be judged again: some of it may be.
            self.lost_mark = self.log.head().map_or(self.lost_mark, |head| head.start);
        }
        self.undo_marker = None;
        self.rack.look_again();
        change.undo = Some(why);
        change.restore = !self.confirmed;
    }

    // --- timeout ---------------------------------------------------------------------------------

    /// The retransmission timer expired. `first`: `snd_una` has moved since the last time it did, if
    /// ever. `frto`: doubt it (`tcp_frto`).
    pub(crate) fn on_timeout(
        &mut self,
        now: Instant,
        (snd_una, snd_nxt): (SeqNum, SeqNum),
        threshold: u32,
        first: bool,
        frto: bool,
    ) -> Timeout {
        let reneged = self.log.head().is_some_and(|head| head.marks.has(Marks::SACKED));
        let was = self.ca_state;
        let new_recovery = matches!(was, CaState::Open | CaState::Disorder | CaState::Cwr);
        let fresh = matches!(was, CaState::Open | CaState::Disorder)
            || snd_una.at_or_after(self.high_seq)
            || was == CaState::Loss && first;
        if new_recovery && self.sacked_out() >= threshold {
            self.reordering = self.reordering.min(threshold.max(1));
        }
        // What was sent less than a round trip ago may well be on its way.
        let rtt = self.rack.rtt();
        let spared = self.log.mark_all_lost(reneged, |sent| now.since(sent) < rtt);
        self.reno_sacked = 0;
        self.reno_hold = None;
        self.lost_mark = spared.unwrap_or(snd_nxt);
        self.retransmit_hint = snd_una;
        self.reorder_at = None;
        self.tail_probe = None;
        if fresh {
            self.first_retrans = None;
            self.begin(CaState::Loss, snd_una, snd_nxt);
        } else {
            self.ca_state = CaState::Loss;
            self.high_seq = snd_nxt;
        }
        self.forced = true;
        self.frto = frto && (new_recovery || !first);
        self.frto_new_data = false;
        Timeout { fresh, reneged, was }
    }

    /// The path takes smaller segments only: what was larger is sent again, without a reduction,
    /// because no congestion was seen.
    pub(crate) fn on_smaller_mss(&mut self, snd_una: SeqNum, snd_nxt: SeqNum, mss: u16) {
        let before = self.log.lost_out();
        self.log.resegment(mss);
        self.limit_reno();
        if self.log.lost_out() > before {
            self.retransmit_hint = snd_una;
            if !matches!(self.ca_state, CaState::Loss | CaState::Recovery) {
                self.begin(CaState::Loss, snd_una, snd_nxt);
                self.undo_marker = None;
                self.frto = false;
            }
            self.forced = true;
        }
    }

    /// Let the last segment be sent again as a tail loss probe; false if it cannot be.
    pub(crate) fn probe_tail(&mut self) -> bool {
        self.tail_probe = self.log.isolate_tail();
        self.forced = self.tail_probe.is_some();
        self.forced
    }

    /// A block of the peer that passed the check: it holds these.
    pub(crate) fn on_sack(&mut self, block: SeqRange, outcome: &mut AckOutcome) {
        self.log.on_sack(block, outcome);
    }
}

/// What [`Recovery::on_timeout`] found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeout {
    /// A new congestion event: one more reduction of `ssthresh`.
    pub(crate) fresh: bool,
    /// The peer had withdrawn what it had selectively acknowledged.
    pub(crate) reneged: bool,
    /// The state before.
    pub(crate) was: CaState,
}

#[cfg(test)]
mod tests {
    use super::log::{Marks, Record};
    use super::*;
    use base::Instant;

    const SIZE: u32 = 60_000;

    struct Flow {
        recovery: Recovery,
        una: SeqNum,
        nxt: SeqNum,
        sack: bool,
    }

    impl Flow {
        fn new(sack: bool) -> Self {
            let start = SeqNum::new(77);
            Self { recovery: Recovery::new(start, 3), una: start, nxt: start, sack }
        }

        fn send(&mut self, segs: u32) {
            let end = self.nxt.add(segs * SIZE);
            self.recovery.log.push(Record {
                start: self.nxt,
                end,
                sent: Instant::from_millis(1),
                departure: rate::Departure::default(),
                seg_size: SIZE as u16,
                marks: Marks::default(),
            });
            self.nxt = end;
        }

        fn ack(&mut self, segs: u32, block: Option<(u32, u32)>, duplicates: u32) -> Change {
            let mut outcome = AckOutcome {
                prior_high_sacked: self.recovery.log.high_sacked(),
                clues: log::Clues {
                    now: Instant::from_millis(3),
                    high_seq: self.recovery.high_seq(),
                    min_rtt: Some(Duration::from_millis(2)),
                    ..log::Clues::default()
                },
                ..AckOutcome::default()
            };
            let prior_una = self.una;
            self.una = self.una.add(segs * SIZE);
            self.recovery.log.ack_to(self.una, &mut outcome);
            if let Some((from, to)) = block {
                let range = SeqRange::new(self.una.add(from * SIZE), self.una.add(to * SIZE));
                self.recovery.on_sack(range.unwrap(), &mut outcome);
            }
            let info = AckInfo {
                prior_una,
                snd_una: self.una,
                snd_nxt: self.nxt,
                advanced: segs > 0,
                duplicates,
                sack: self.sack,
                mss: SIZE,
                max_reordering: 300,
                min_rtt: None,
                srtt: Some(Duration::from_millis(2)),
                knob: 1,
                has_new_data: false,
                ece: false,
            };
            let change = self.recovery.on_ack(&info, &outcome);
            self.recovery.log.check(self.una, self.nxt);
            change
        }

        fn resend(&mut self, ms: u64) {
            let una = self.una;
            assert_eq!(self.recovery.next_retransmission().map(|r| r.start), Some(una));
            self.recovery.on_retransmitted(una, 1, Instant::from_millis(ms));
        }

        fn timeout(&mut self, first: bool) -> Timeout {
            let numbers = (self.una, self.nxt);
            self.recovery.on_timeout(Instant::from_millis(900), numbers, 3, first, true)
        }
    }

    /// Whatever is remembered as a sequence number must keep up with `snd_una`, or it is in the future
    /// once 2^31 bytes have passed.
    #[test]
    fn nothing_remembered_goes_stale() {
        for sack in [true, false] {
            let mut flow = Flow::new(sack);
            for round in 0..6 {
                flow.send(10);
                let change = if sack { flow.ack(0, Some((1, 4)), 0) } else { flow.ack(0, None, 3) };
                assert!(change.enter, "sack {sack} round {round}: {change:?}");
                flow.resend(2);
                assert_eq!(flow.ack(10, None, 0).exit, Some(CaState::Recovery));
                // More than 2^31 bytes without loss.
                for _ in 0..40 {
                    flow.send(1000);
                    let change = flow.ack(1000, None, 0);
                    assert!(!change.enter && change.exit.is_none() && change.undo.is_none());
                }
                assert_eq!(flow.recovery.in_flight(), 0);
            }
        }
    }

    #[test]
    fn the_pipe_counts_what_is_really_in_flight() {
        let mut flow = Flow::new(true);
        flow.send(10);
        assert_eq!(flow.recovery.in_flight(), 10);
        flow.ack(0, Some((2, 5)), 0);
        // Three have arrived, two are lost.
        assert_eq!(flow.recovery.in_flight(), 5);
        flow.resend(2);
        assert_eq!(flow.recovery.in_flight(), 6);
        let timeout = flow.timeout(true);
        assert!(!timeout.fresh && !timeout.reneged);
        assert_eq!(flow.recovery.in_flight(), 0);
        assert_eq!(flow.recovery.ca_state(), CaState::Loss);
    }

    #[test]
    fn a_second_timeout_is_no_new_event_and_a_later_one_is() {
        let mut flow = Flow::new(true);
        flow.send(4);
        assert!(flow.timeout(true).fresh);
        assert!(!flow.timeout(false).fresh);
        flow.resend(901);
        assert_eq!(flow.ack(4, None, 0).exit, Some(CaState::Loss));
        flow.send(4);
        assert!(flow.timeout(true).fresh);
    }

    #[test]
    fn an_original_that_arrives_after_the_timeout_takes_it_back() {
        let mut flow = Flow::new(true);
        flow.send(4);
        flow.timeout(true);
        flow.resend(901);
        // The first acknowledgement covers what was sent again and more: originals arrive.
        let change = flow.ack(2, None, 0);
        assert_eq!((change.undo, change.exit), (Some(Undo::SpuriousRto), Some(CaState::Loss)));
        assert_eq!(flow.recovery.log.lost_out(), 0);
        assert_eq!(flow.recovery.ca_state(), CaState::Open);
    }

    #[test]
    fn what_an_undo_takes_back_is_judged_again() {
        let mut f = Flow::new(true);
        f.send(4);
        f.recovery.on_timeout(Instant::from_millis(300), (f.una, f.nxt), 3, true, true);
        assert_eq!(f.recovery.log.lost_out(), 4);
        f.recovery.undo(Undo::SpuriousRto, true, &mut Change::default());
        assert_eq!(f.recovery.log.lost_out(), 0);
        let Recovery { log, lost_mark, .. } = &mut f.recovery;
        let found = log.detect(lost_mark, |_, _| log::Judgement::Lost);
        assert_eq!(found.lost, 4, "lost after all, and not only by the next timeout");
    }

    #[test]
    fn reports_of_duplicates_for_all_that_was_sent_again_take_the_recovery_back() {
        let mut flow = Flow::new(true);
        flow.send(10);
        assert!(flow.ack(0, Some((1, 4)), 0).enter);
        flow.resend(4);
        assert!(flow.ack(4, None, 0).undo.is_none());
        let (una, nxt) = (flow.una, flow.nxt);
        flow.recovery.on_dsack(una, nxt, una.sub(3 * SIZE), 1, false);
        assert_eq!(flow.ack(0, None, 0).undo, Some(Undo::Dsack));
        assert_eq!(flow.recovery.ca_state(), CaState::Open);
    }
}
