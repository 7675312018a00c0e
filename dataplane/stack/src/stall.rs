//! What a worker that was stopped for a while (a paused virtual machine, a debugger, a host that is
//! overloaded) must not believe.
//!
//! Frames that waited in the device meanwhile say nothing about the path, so no round trip is measured
//! with them. And what they acknowledge has not timed out, so timers wait until the frames are in.

use core::time::Duration;

use base::Instant;

/// A turn that begins so long after it was due was held up: half of the least retransmission timeout.
const STALL_MIN: Duration = Duration::from_millis(100);
/// Turns after a stall in which full bursts come before timers, at most.
const CATCH_UP_TURNS_MAX: u8 = 64;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Stall {
    /// When the next turn is due, if anything is known to be due.
    due: Option<Instant>,
    /// Turns left in which what the device held back may still come.
    catching_up: u8,
    /// The last burst was a full one: more waits.
    more: bool,
}

impl Stall {
    /// A turn begins. True if it begins a stall's end.
    pub(crate) fn begin_turn(&mut self, now: Instant) -> bool {
        let stalled = self.due.take().is_some_and(|due| now.since(due) >= STALL_MIN);
        if stalled {
            self.catching_up = CATCH_UP_TURNS_MAX;
        }
        stalled
    }

    /// Whether frames of this turn may have waited for long.
    pub(crate) const fn is_catching_up(&self) -> bool {
        self.catching_up > 0
    }

    /// A burst was taken in; `full`: the device may have more.
    pub(crate) fn after_burst(&mut self, full: bool) {
        self.more = full && self.catching_up > 0;
        self.catching_up = if full { self.catching_up.saturating_sub(1) } else { 0 };
    }

    /// Whether all that waited has been seen, so that what has not come by now is late.
    pub(crate) const fn may_run_deadlines(&self) -> bool {
        !self.more
    }

    /// A turn ends; the next one is wanted then.
    pub(crate) fn end_turn(&mut self, due: Option<Instant>) {
        self.due = due;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_turn_is_a_stall_until_the_device_is_empty() {
        let at = Instant::from_millis;
        let mut stall = Stall::default();
        assert!(!stall.begin_turn(at(5000)), "nothing was due");
        stall.end_turn(Some(at(6000)));
        assert!(!stall.begin_turn(at(6099)) && !stall.is_catching_up());
        stall.after_burst(true);
        assert!(stall.may_run_deadlines(), "a busy worker is none that was stopped");
        stall.end_turn(Some(at(6100)));
        assert!(stall.begin_turn(at(6200)) && stall.is_catching_up());
        stall.after_burst(true);
        assert!(!stall.may_run_deadlines());
        stall.end_turn(Some(at(6200)));
        assert!(!stall.begin_turn(at(6200)) && stall.is_catching_up());
        stall.after_burst(false);
        assert!(stall.may_run_deadlines() && !stall.is_catching_up());
        // A device that is never empty does not hold timers back for ever.
        stall.end_turn(Some(at(6200)));
        stall.begin_turn(at(9000));
        let held = (0..1000).take_while(|_| {
            stall.after_burst(true);
            !stall.may_run_deadlines()
        });
        assert_eq!(held.count(), usize::from(CATCH_UP_TURNS_MAX));
    }
}
