//! Time-ordered loss detection, RFC 8985: a segment is lost once one that was sent sufficiently later
//! has been delivered.

use core::time::Duration;

use base::Instant;

use super::log::{Delivered, Judgement};
use crate::SeqNum;

/// A widened reordering window is kept for so many recoveries without a further reason, RFC 8985
/// section 6.2, step 4.
const PERSIST: u8 = 16;

/// `tcp_recovery`: the reordering window stays at a quarter of the least round trip.
pub(crate) const STATIC_WINDOW: u8 = 2;
/// `tcp_recovery`: so many selective acknowledgements as `tcp_reordering` says do not end the patience.
pub(crate) const NO_DUPTHRESH: u8 = 4;

/// What the reordering window depends on, at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Fast recovery or Loss is under way.
    pub(crate) recovering: bool,
    /// As many segments as the duplicate threshold are selectively acknowledged.
    pub(crate) many_sacked: bool,
    /// The least round trip known.
    pub(crate) min_rtt: Option<Duration>,
    /// Smoothed round trip.
    pub(crate) srtt: Option<Duration>,
    /// `tcp_recovery`.
    pub(crate) knob: u8,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Rack {
    /// Of all segments delivered, the one that was sent last: RACK.segment.
    newest: Option<Delivered>,
    /// It is another one since the last look.
    advanced: bool,
    reordering_seen: bool,
    /// Quarters of the least round trip in the window: RACK.reo_wnd_mult.
    steps: u8,
    /// Recoveries for which they are kept: RACK.reo_wnd_persist.
    persist: u8,
    /// The steps have risen in this round, which ends when this is acknowledged.
    round_end: Option<SeqNum>,
}

impl Rack {
    pub(crate) const fn new() -> Self {
        Self {
            newest: None,
            advanced: false,
            reordering_seen: false,
            steps: 1,
            persist: PERSIST,
            round_end: None,
        }
    }

    /// Round trip of the newest segment delivered; zero before there was one.
    pub(crate) fn rtt(&self) -> Duration {
        self.newest.map_or(Duration::ZERO, |newest| newest.rtt)
    }

    /// RFC 8985 section 6.2, step 2.
    pub(crate) fn on_delivered(&mut self, delivered: Delivered) {
        self.advanced = true;
        match &mut self.newest {
            Some(newest) if newest.is_after(delivered.sent, delivered.end) => {
                // An older one: its round trip is the latest all the same.
                newest.rtt = delivered.rtt;
            }
            newest => *newest = Some(delivered),
        }
    }

    pub(crate) fn on_reordering(&mut self) {
        self.reordering_seen = true;
    }

    /// Whether there is a reason to look again.
    pub(crate) fn take_advanced(&mut self) -> bool {
        core::mem::take(&mut self.advanced)
    }

    /// An undo has changed what is in flight.
    pub(crate) fn look_again(&mut self) {
        self.advanced = true;
    }

    /// RFC 8985 section 6.2, step 4: the peer reports a duplicate, so the window was too narrow; once per
    /// round. Without reordering it is no reason.
    pub(crate) fn on_dsack(&mut self, snd_una: SeqNum, snd_nxt: SeqNum) {
        if !self.reordering_seen || self.round_end.is_some_and(|end| snd_una.before(end)) {
            return;
        }
        self.round_end = Some(snd_nxt);
        self.steps = self.steps.saturating_add(1);
        self.persist = PERSIST;
    }

    /// `snd_una` has moved: nothing remembered may fall behind it for long.
    pub(crate) fn on_progress(&mut self, snd_una: SeqNum) {
        if self.round_end.is_some_and(|end| snd_una.at_or_after(end)) {
            self.round_end = None;
        }
        // What was sent at this time is all acknowledged, so the end no longer decides anything.
        if let Some(newest) = &mut self.newest {
            newest.end = newest.end.later(snd_una);
        }
    }

    /// A recovery was unfounded.
    pub(crate) fn on_undo(&mut self) {
        self.persist = self.persist.saturating_add(1).min(PERSIST);
    }

    /// A recovery has ended.
    pub(crate) fn on_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.steps = 1;
        }
    }

    /// RFC 8985 section 6.2, step 4: how much later than expected a segment may be.
    pub(crate) fn window(&self, patience: &Patience) -> Duration {
        if !self.reordering_seen {
            let impatient = patience.many_sacked && patience.knob & NO_DUPTHRESH == 0;
            if patience.recovering || impatient {
                return Duration::ZERO;
            }
        }
        let steps = if patience.knob & STATIC_WINDOW != 0 { 1 } else { self.steps };
        let window = patience.min_rtt.unwrap_or(Duration::ZERO) / 4 * u32::from(steps);
        window.min(patience.srtt.unwrap_or(window))
    }

    /// RFC 8985 section 6.2, step 5, for one segment.
    pub(crate) fn judge(
        &self,
        now: Instant,
        window: Duration,
        sent: Instant,
        end: SeqNum,
    ) -> Judgement {
        let Some(newest) = self.newest.filter(|newest| newest.is_after(sent, end)) else {
            return Judgement::Open;
        };
        match (sent + newest.rtt + window).since(now) {
            Duration::ZERO => Judgement::Lost,
            left => Judgement::Wait(left),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn patience() -> Patience {
        Patience {
            recovering: false,
            many_sacked: false,
            min_rtt: Some(ms(40)),
            srtt: Some(ms(50)),
            knob: 1,
        }
    }

    fn delivered(sent: u64, end: u32, rtt: u64) -> Delivered {
        Delivered { sent: at(sent), end: SeqNum::new(end), rtt: ms(rtt) }
    }

    #[test]
    fn the_window_is_a_quarter_unless_there_is_no_reason_to_wait() {
        let mut rack = Rack::new();
        assert_eq!(rack.window(&patience()), ms(10));
        assert_eq!(rack.window(&Patience { recovering: true, ..patience() }), ms(0));
        assert_eq!(rack.window(&Patience { many_sacked: true, ..patience() }), ms(0));
        let knob = 1 | NO_DUPTHRESH;
        assert_eq!(rack.window(&Patience { many_sacked: true, knob, ..patience() }), ms(10));
        rack.on_reordering();
        assert_eq!(rack.window(&Patience { recovering: true, ..patience() }), ms(10));
        assert_eq!(rack.window(&Patience { min_rtt: None, ..patience() }), ms(0));
    }

    #[test]
    fn duplicates_widen_it_once_a_round_and_recoveries_narrow_it_again() {
        let mut rack = Rack::new();
        rack.on_dsack(SeqNum::new(0), SeqNum::new(100));
        assert_eq!(rack.window(&patience()), ms(10), "no reordering was seen");
        rack.on_reordering();
        rack.on_dsack(SeqNum::new(0), SeqNum::new(100));
        rack.on_dsack(SeqNum::new(50), SeqNum::new(150));
        assert_eq!(rack.window(&patience()), ms(20), "once in a round");
        rack.on_dsack(SeqNum::new(100), SeqNum::new(200));
        assert_eq!(rack.window(&patience()), ms(30));
        let knob = 1 | STATIC_WINDOW;
        assert_eq!(rack.window(&Patience { knob, ..patience() }), ms(10));
        for _ in 0..10 {
            rack.on_dsack(SeqNum::new(1_000_000), SeqNum::new(1_000_000));
        }
        assert_eq!(rack.window(&patience()), ms(50), "never more than the round trip");
        for _ in 0..15 {
            rack.on_recovered();
        }
        assert_eq!(rack.window(&patience()), ms(50));
        rack.on_recovered();
        assert_eq!(rack.window(&patience()), ms(10), "after the sixteenth");
    }

    #[test]
    fn a_segment_sent_earlier_by_a_round_trip_and_the_window_is_lost() {
        let mut rack = Rack::new();
        let end = SeqNum::new(500);
        let judge = |rack: &Rack, now, sent, end| rack.judge(at(now), ms(10), at(sent), end);
        assert_eq!(judge(&rack, 100, 0, end), Judgement::Open, "nothing is known");
        rack.on_delivered(delivered(20, 1000, 40));
        assert_eq!(judge(&rack, 60, 21, end), Judgement::Open, "sent later");
        assert_eq!(judge(&rack, 60, 20, SeqNum::new(1000)), Judgement::Open, "itself");
        assert_eq!(judge(&rack, 60, 20, end), Judgement::Wait(ms(10)));
        assert_eq!(judge(&rack, 60, 15, end), Judgement::Wait(ms(5)));
        assert_eq!(judge(&rack, 60, 10, end), Judgement::Lost);
        assert_eq!(judge(&rack, 70, 20, end), Judgement::Lost);
    }

    #[test]
    fn the_newest_stays_the_newest() {
        let mut rack = Rack::new();
        rack.on_delivered(delivered(20, 1000, 40));
        assert!(rack.take_advanced() && !rack.take_advanced());
        rack.on_delivered(delivered(10, 2000, 60));
        assert_eq!(rack.newest.map(|n| (n.sent, n.end)), Some((at(20), SeqNum::new(1000))));
        assert_eq!(rack.rtt(), ms(60));
        rack.on_delivered(delivered(20, 1500, 45));
        assert_eq!(rack.newest.map(|n| n.end), Some(SeqNum::new(1500)));
        rack.on_progress(SeqNum::new(3000));
        assert_eq!(rack.newest.map(|n| n.end), Some(SeqNum::new(3000)));
    }
}
