//! Loss detection and the states of recovery.
//!
//! What decides that something is lost is here, apart from congestion control, which decides how
//! much may be in flight (RFC 5681 section 3.2, RFC 5681 section 4.3): RFC 6675 with selective acknowledgements, RFC 6582 (NewReno) without, the
//! retransmission timeout of RFC 6298 in both cases. Time-ordered detection (RACK-TLP) and
//! proportional rate reduction belong here too, in the place of [`Recovery::detect`] and of the
//! one-step reduction; the log already keeps the send times that they need.

pub(crate) mod log;

use crate::{SeqNum, SeqRange};
use log::{AckOutcome, TransmitLog};

/// The congestion states of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaState {
    /// Nothing unusual.
    Open,
    /// Duplicate or selective acknowledgements have been seen; nothing is lost yet.
    Disorder,
    /// Fast recovery.
    Recovery,
    /// After a retransmission timeout.
    Loss,
}

/// What an acknowledgement says, as far as loss is concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckInfo {
    /// After the acknowledgement.
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
}

/// What the caller has to do after an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    None,
    /// Fast recovery begins: one reduction.
    Enter,
    /// The episode is over; the state it was in.
    Exit(CaState),
}

/// What detection found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    /// Retransmissions found lost, segments.
    pub(crate) lost_retransmissions: u32,
    /// The degree of reordering rose.
    pub(crate) reordering_rose: bool,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Recovery {
    pub(crate) log: TransmitLog,
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
    /// Everything before it has been judged by [`Recovery::detect`].
    lost_mark: SeqNum,
    /// Nothing before it waits for retransmission.
    retransmit_hint: SeqNum,
    /// Earliest `rxt_nxt` of the retransmissions in flight.
    lost_retransmission_edge: Option<SeqNum>,
    /// The rescue retransmission of this episode was made, RFC 6675 section 4, NextSeg rule 4.
    rescue_done: bool,
    /// The next retransmission may leave whatever the congestion window says.
    forced: bool,
}

impl Recovery {
    pub(crate) fn new(snd_una: SeqNum, reordering: u32) -> Self {
        Self {
            log: TransmitLog::new(),
            ca_state: CaState::Open,
            high_seq: snd_una,
            reno_sacked: 0,
            reno_hold: None,
            reordering: reordering.max(1),
            lost_mark: snd_una,
            retransmit_hint: snd_una,
            lost_retransmission_edge: None,
            rescue_done: false,
            forced: false,
        }
    }

    pub(crate) const fn ca_state(&self) -> CaState {
        self.ca_state
    }

    pub(crate) const fn reordering(&self) -> u32 {
        self.reordering
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

    /// No segment in flight is marked in any way, and no episode goes on.
    pub(crate) fn is_calm(&self) -> bool {
        self.ca_state == CaState::Open && self.sacked_out() == 0 && self.log.lost_out() == 0
    }

    /// The record to retransmit next.
    pub(crate) fn next_retransmission(&self) -> Option<log::Record> {
        self.log.next_lost(self.retransmit_hint).and_then(|i| self.log.get(i)).copied()
    }

    /// Whether the next retransmission ignores the congestion window.
    pub(crate) const fn is_forced(&self) -> bool {
        self.forced
    }

    /// A retransmission of `segs` segments from `start` on was taken by the device.
    pub(crate) fn on_retransmitted(
        &mut self,
        start: SeqNum,
        segs: u32,
        now: base::Instant,
        snd_nxt: SeqNum,
    ) {
        self.forced = false;
        self.retransmit_hint = start;
        self.log.on_retransmitted(start, segs, now, snd_nxt);
        let edge = self.lost_retransmission_edge.map_or(snd_nxt, |e| e.earlier(snd_nxt));
        self.lost_retransmission_edge = Some(edge);
    }

    /// An acknowledgement has been entered into the log; `outcome` is what it did there.
    pub(crate) fn on_ack(&mut self, ack: &AckInfo, outcome: &AckOutcome) -> (Change, Found) {
        let mut found = Found::default();
        self.lost_mark = self.lost_mark.later(ack.snd_una);
        self.retransmit_hint = self.retransmit_hint.later(ack.snd_una);
        if ack.advanced {
            if self.log.retrans_out() == 0 {
                self.lost_retransmission_edge = None;
            }
            if self.reno_hold.is_some_and(|hold| ack.snd_una.after(hold)) {
                self.reno_hold = None;
            }
        }
        self.learn_reordering(ack, outcome, &mut found);
        if !ack.sack {
            self.count_reno(ack, outcome);
        }

        let in_episode = matches!(self.ca_state, CaState::Recovery | CaState::Loss);
        if in_episode && ack.advanced && ack.snd_una.at_or_after(self.high_seq) {
            let was = self.ca_state;
            self.leave(ack);
            // What was sent meanwhile may have holes of its own; the next acknowledgement tells.
            return (Change::Exit(was), found);
        }
        let lost_now = self.detect(ack, &mut found);
        if in_episode {
            return (Change::None, found);
        }
        if lost_now {
            self.enter(CaState::Recovery, ack.snd_nxt);
            return (Change::Enter, found);
        }
        self.ca_state = if self.sacked_out() > 0 { CaState::Disorder } else { CaState::Open };
        (Change::None, found)
    }

    /// Find out what is lost. True if something newly is.
    fn detect(&mut self, ack: &AckInfo, found: &mut Found) -> bool {
        if !ack.sack {
            return self.detect_reno(ack);
        }
        let Some(edge) = self.log.lost_edge(self.reordering) else { return false };
        let mut any = false;
        if edge.after(self.lost_mark) {
            any = self.log.mark_lost_range(self.lost_mark, edge);
            if any {
                self.retransmit_hint = self.retransmit_hint.earlier(self.lost_mark);
            }
            self.lost_mark = edge;
        }
        if self.lost_retransmission_edge.is_some_and(|e| e.at_or_before(edge)) {
            let (segs, earliest) = self.log.mark_lost_retransmissions(edge);
            found.lost_retransmissions = segs;
            self.lost_retransmission_edge = earliest;
            if segs > 0 {
                self.retransmit_hint = ack.snd_una;
                any = true;
            }
        }
        any
    }

    fn detect_reno(&mut self, ack: &AckInfo) -> bool {
        match self.ca_state {
            CaState::Open | CaState::Disorder => {
                if self.reno_sacked < self.reordering || self.reno_hold.is_some() {
                    return false;
                }
            }
            // RFC 6582 section 3.2, step 3: a partial acknowledgement shows the next hole.
            CaState::Recovery => {
                if !ack.advanced {
                    return false;
                }
                self.forced = true;
            }
            CaState::Loss => return false,
        }
        self.log.mark_head_lost();
        self.retransmit_hint = ack.snd_una;
        self.log.lost_out() > 0
    }

    /// Without SACK, duplicates stand for segments that have arrived. Never more than can have.
    fn count_reno(&mut self, ack: &AckInfo, outcome: &AckOutcome) {
        if ack.advanced {
            // One of the segments acknowledged was the hole; the others ate their duplicates.
            self.reno_sacked = self.reno_sacked.saturating_sub(outcome.acked.saturating_sub(1));
        }
        self.reno_sacked = self.reno_sacked.saturating_add(ack.duplicates);
        self.limit_reno();
    }

    fn limit_reno(&mut self) {
        let holes = self.log.lost_out().max(1);
        self.reno_sacked = self.reno_sacked.min(self.log.packets_out().saturating_sub(holes));
    }

    fn learn_reordering(&mut self, ack: &AckInfo, outcome: &AckOutcome, found: &mut Found) {
        let Some(low) = outcome.reordered.filter(|_| ack.sack) else { return };
        let high = self.log.high_sacked().unwrap_or(ack.snd_una).later(ack.snd_una);
        let distance = high.bytes_since(low).div_ceil(ack.mss.max(1));
        let degree = distance.min(ack.max_reordering);
        if degree > self.reordering {
            self.reordering = degree;
            found.reordering_rose = true;
        }
    }

    fn enter(&mut self, state: CaState, snd_nxt: SeqNum) {
        self.ca_state = state;
        self.high_seq = snd_nxt;
        self.rescue_done = false;
        // RFC 6675 section 5, step 4.3: the first retransmission leaves at once.
        self.forced = true;
    }

    fn leave(&mut self, ack: &AckInfo) {
        if !ack.sack {
            // At exactly the end of the episode, further duplicates are ambiguous.
            self.reno_hold = (ack.snd_una == self.high_seq).then_some(self.high_seq);
        }
        self.reno_sacked = 0;
        self.forced = false;
        self.ca_state = if self.log.sacked_out() > 0 { CaState::Disorder } else { CaState::Open };
    }

    /// The retransmission timer expired. Returns whether this is a new congestion event (and not the
    /// same loss again).
    pub(crate) fn on_timeout(
        &mut self,
        snd_una: SeqNum,
        snd_nxt: SeqNum,
        threshold: u32,
    ) -> Timeout {
        let reneged = self.log.head().is_some_and(|head| head.marks.has(log::Marks::SACKED));
        let was = self.ca_state;
        let fresh =
            matches!(was, CaState::Open | CaState::Disorder) || snd_una.at_or_after(self.high_seq);
        if matches!(was, CaState::Open | CaState::Disorder) && self.sacked_out() >= threshold {
            self.reordering = self.reordering.min(threshold.max(1));
        }
        self.log.mark_all_lost(reneged);
        self.reno_sacked = 0;
        self.reno_hold = None;
        self.lost_mark = snd_nxt;
        self.retransmit_hint = snd_una;
        self.lost_retransmission_edge = None;
        self.enter(CaState::Loss, snd_nxt);
        Timeout { fresh, reneged }
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
                self.enter(CaState::Loss, snd_nxt);
            }
            self.forced = true;
        }
    }

    /// Nothing is lost any more that we know of, nothing new may be sent, the episode goes on, and no
    /// rescue was tried in it: send the last segment again, so that its selective
    /// acknowledgement shows what the lost acknowledgements did not. RFC 6675 section 4, rule 4.
    pub(crate) fn wants_rescue(&self) -> bool {
        self.ca_state == CaState::Recovery && !self.rescue_done
    }

    /// Make the rescue retransmission possible; true if there is one.
    pub(crate) fn rescue(&mut self, snd_una: SeqNum) -> bool {
        self.rescue_done = true;
        if self.log.mark_tail_lost() {
            self.retransmit_hint = snd_una;
            return true;
        }
        false
    }

    /// Let the last segment be sent again as a tail loss probe; false if it cannot be.
    pub(crate) fn probe_tail(&mut self, snd_una: SeqNum) -> bool {
        if !self.log.mark_tail_lost() {
            return false;
        }
        self.retransmit_hint = snd_una;
        self.forced = true;
        true
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
                rxt_nxt: end,
                seg_size: SIZE as u16,
                marks: Marks::default(),
            });
            self.nxt = end;
        }

        fn ack(&mut self, segs: u32, block: Option<(u32, u32)>, duplicates: u32) -> Change {
            let mut outcome = AckOutcome {
                prior_high_sacked: self.recovery.log.high_sacked(),
                ..AckOutcome::default()
            };
            self.una = self.una.add(segs * SIZE);
            self.recovery.log.ack_to(self.una, &mut outcome);
            if let Some((from, to)) = block {
                let range = SeqRange::new(self.una.add(from * SIZE), self.una.add(to * SIZE));
                self.recovery.on_sack(range.unwrap(), &mut outcome);
            }
            let info = AckInfo {
                snd_una: self.una,
                snd_nxt: self.nxt,
                advanced: segs > 0,
                duplicates,
                sack: self.sack,
                mss: SIZE,
                max_reordering: 300,
            };
            let (change, _) = self.recovery.on_ack(&info, &outcome);
            self.recovery.log.check(self.una, self.nxt);
            change
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
                assert_eq!(change, Change::Enter, "sack {sack} round {round}");
                assert_eq!(flow.recovery.next_retransmission().map(|r| r.start), Some(flow.una));
                let (una, nxt) = (flow.una, flow.nxt);
                flow.recovery.on_retransmitted(una, 1, Instant::from_millis(2), nxt);
                assert_eq!(flow.ack(10, None, 0), Change::Exit(CaState::Recovery));
                // More than 2^31 bytes without loss.
                for _ in 0..40 {
                    flow.send(1000);
                    assert_eq!(flow.ack(1000, None, 0), Change::None);
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
        let start = flow.una;
        flow.recovery.on_retransmitted(start, 1, Instant::from_millis(2), flow.nxt);
        assert_eq!(flow.recovery.in_flight(), 6);
        let timeout = flow.recovery.on_timeout(flow.una, flow.nxt, 3);
        assert!(!timeout.fresh && !timeout.reneged);
        assert_eq!(flow.recovery.in_flight(), 0);
        assert_eq!(flow.recovery.ca_state(), CaState::Loss);
    }

    #[test]
    fn a_second_timeout_is_no_new_event_and_a_later_one_is() {
        let mut flow = Flow::new(true);
        flow.send(4);
        assert!(flow.recovery.on_timeout(flow.una, flow.nxt, 3).fresh);
        assert!(!flow.recovery.on_timeout(flow.una, flow.nxt, 3).fresh);
        assert_eq!(flow.ack(4, None, 0), Change::Exit(CaState::Loss));
        flow.send(4);
        assert!(flow.recovery.on_timeout(flow.una, flow.nxt, 3).fresh);
    }
}
