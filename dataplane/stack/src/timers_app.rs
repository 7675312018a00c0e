//! The timers of the application.

use alloc::vec::Vec;

use base::Instant;

/// Timers that one application may have set at the same time.
pub(crate) const APP_TIMERS_MAX: usize = 1024;

#[derive(Clone, Copy, Debug)]
struct Timer {
    at: Instant,
    token: u64,
}

/// A few timers in a flat list, the next one last. Setting one costs a walk over the list, which is
/// cheaper than any tree for the handful that applications use, and bounded for all.
pub(crate) struct AppTimers {
    /// By deadline, latest first; among equals, the one set last comes first.
    timers: Vec<Timer>,
}

impl AppTimers {
    pub(crate) fn new() -> Self {
        Self { timers: Vec::with_capacity(APP_TIMERS_MAX) }
    }

    /// Set or move a timer. False when there are too many.
    pub(crate) fn set(&mut self, token: u64, at: Instant) -> bool {
        self.cancel(token);
        if self.timers.len() >= APP_TIMERS_MAX {
            return false;
        }
        let place = self.timers.partition_point(|t| t.at > at);
        self.timers.insert(place, Timer { at, token });
        true
    }

    pub(crate) fn cancel(&mut self, token: u64) {
        if let Some(place) = self.timers.iter().position(|t| t.token == token) {
            self.timers.remove(place);
        }
    }

    /// The token of a timer that has run out, if there is one; it is set no longer.
    pub(crate) fn pop_expired(&mut self, now: Instant) -> Option<u64> {
        self.timers.pop_if(|t| t.at <= now).map(|t| t.token)
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.timers.last().map(|t| t.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn they_expire_in_order_and_a_new_deadline_replaces_the_old() {
        let mut timers = AppTimers::new();
        for (token, at) in [(1, 30), (2, 10), (3, 10), (4, 20), (1, 5), (4, 40)] {
            assert!(timers.set(token, ms(at)));
        }
        timers.cancel(9);
        assert_eq!(timers.next(), Some(ms(5)));
        let expired: Vec<u64> = core::iter::from_fn(|| timers.pop_expired(ms(10))).collect();
        assert_eq!(expired, [1, 2, 3]);
        timers.cancel(4);
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn there_are_at_most_1024() {
        let mut timers = AppTimers::new();
        for token in 0..APP_TIMERS_MAX as u64 {
            assert!(timers.set(token, ms(token)));
        }
        assert!(!timers.set(5000, ms(0)));
        assert!(timers.set(7, ms(0)), "moving one is always possible");
        assert_eq!(timers.pop_expired(ms(0)), Some(0));
        assert_eq!(timers.pop_expired(ms(0)), Some(7));
    }
}
