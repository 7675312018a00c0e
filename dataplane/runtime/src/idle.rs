//! What a worker does when a turn found nothing to do.

use std::time::Duration;

use base::Instant;
use stack::Turn;

/// How a worker idles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdlePolicy {
    /// Never gives the core away: for cores that belong to the dataplane.
    Poll,
    /// Spins for longer than a wake-up costs, then gives the core away in short sleeps: for software
    /// devices, where the peer needs the core.
    #[default]
    Adaptive,
}

/// A sleeping virtual CPU takes 20 to 30 us to come back, so an idle gap shorter than this is
/// cheaper to spin through than to sleep through.
const SPIN_FOR: Duration = Duration::from_micros(30);
/// One sleep: bounds what a frame can wait at the beginning of a burst.
const SLEEP_SHORT: Duration = Duration::from_micros(50);
/// After this long without any work sleeps get longer.
const DROWSY_AFTER: Duration = Duration::from_millis(20);
/// One sleep of a worker that has been idle for long: what a lone first frame may wait.
const SLEEP_LONG: Duration = Duration::from_micros(250);

/// Decides between spinning and sleeping. Pure: time comes in, a decision comes out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Idle {
    policy: IdlePolicy,
    since: Option<Instant>,
}

/// What to do until the next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Turn again at once.
    None,
    /// A pause instruction or two.
    Spin,
    /// Give the core away for about this long.
    Sleep(Duration),
}

impl Idle {
    pub(crate) fn new(policy: IdlePolicy) -> Self {
        Self { policy, since: None }
    }

    pub(crate) fn after(&mut self, now: Instant, turn: &Turn) -> Rest {
        if turn.work > 0 {
            self.since = None;
            return Rest::None;
        }
        if self.policy == IdlePolicy::Poll {
            return Rest::Spin;
        }
        let idle = now.since(*self.since.get_or_insert(now));
        if idle < SPIN_FOR {
            return Rest::Spin;
        }
        let longest = if turn.pending || idle < DROWSY_AFTER { SLEEP_SHORT } else { SLEEP_LONG };
        let due = turn.next_deadline.map_or(longest, |at| at.since(now));
        match due.min(longest) {
            d if d < SPIN_FOR => Rest::Spin,
            d => Rest::Sleep(d),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Turn = Turn { work: 0, next_deadline: None, pending: false };
    const BUSY: Turn = Turn { work: 1, next_deadline: None, pending: false };

    #[test]
    fn poll_never_sleeps() {
        let mut idle = Idle::new(IdlePolicy::Poll);
        for us in [0, 100, 1_000_000] {
            assert_eq!(idle.after(Instant::from_micros(us), &IDLE), Rest::Spin);
        }
    }

    #[test]
    fn adaptive_spins_then_sleeps_and_work_starts_it_over() {
        let mut idle = Idle::new(IdlePolicy::Adaptive);
        assert_eq!(idle.after(Instant::from_micros(0), &BUSY), Rest::None);
        assert_eq!(idle.after(Instant::from_micros(1), &IDLE), Rest::Spin);
        assert_eq!(idle.after(Instant::from_micros(30), &IDLE), Rest::Spin);
        assert_eq!(idle.after(Instant::from_micros(32), &IDLE), Rest::Sleep(SLEEP_SHORT));
        assert_eq!(idle.after(Instant::from_micros(30_000), &IDLE), Rest::Sleep(SLEEP_LONG));
        assert_eq!(idle.after(Instant::from_micros(30_001), &BUSY), Rest::None);
        assert_eq!(idle.after(Instant::from_micros(30_002), &IDLE), Rest::Spin);
    }

    #[test]
    fn a_near_deadline_is_not_slept_over() {
        let mut idle = Idle::new(IdlePolicy::Adaptive);
        idle.after(Instant::ZERO, &IDLE);
        let due = |us| Turn { next_deadline: Some(Instant::from_micros(us)), ..IDLE };
        assert_eq!(idle.after(Instant::from_micros(100), &due(110)), Rest::Spin);
        assert_eq!(
            idle.after(Instant::from_micros(100), &due(140)),
            Rest::Sleep(Duration::from_micros(40))
        );
    }
}
