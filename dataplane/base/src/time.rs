//! Points in time, and the door through which they come in.
//!
//! Intervals are [`core::time::Duration`]. The engine never asks for the time: the worker reads the
//! clock once per turn and passes `now` down, so every decision within a burst sees one time.

use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

/// Nanoseconds on a monotonic clock since an arbitrary start (the process, or the simulation).
///
/// Arithmetic saturates: a deadline that would lie beyond the end of time is the end of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The start of the clock.
    pub const ZERO: Self = Self(0);
    /// Later than anything that will happen.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the start of the clock.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The instant `micros` microseconds after the start of the clock.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// The instant `millis` milliseconds after the start of the clock.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the start of the clock.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole microseconds since the start of the clock.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole milliseconds since the start of the clock.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Time from `earlier` to `self`; zero if `earlier` is not earlier.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A `Duration` in nanoseconds that fits 64 bits (584 years), saturating.
const fn nanos(d: Duration) -> u64 {
    d.as_secs().saturating_mul(1_000_000_000).saturating_add(d.subsec_nanos() as u64)
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, d: Duration) -> Self {
        Self(self.0.saturating_add(nanos(d)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, d: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(d)))
    }
}

/// Where `now` comes from: read once per turn by the worker, never by the engine.
pub trait Clock {
    /// The present time; never smaller than an earlier answer.
    fn now(&self) -> Instant;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Instant::ZERO - Duration::from_secs(1), Instant::ZERO);
        assert_eq!(Instant::FAR_FUTURE + Duration::from_secs(1), Instant::FAR_FUTURE);
        assert_eq!(Instant::from_millis(3) + Duration::MAX, Instant::FAR_FUTURE);
        assert_eq!(Instant::from_millis(3).since(Instant::from_millis(5)), Duration::ZERO);
        assert_eq!(
            Instant::from_millis(5).since(Instant::from_millis(3)),
            Duration::from_millis(2)
        );
    }

    /// What would be right with unlimited numbers.
    fn clamped(nanos: i128) -> Instant {
        Instant::from_nanos(nanos.clamp(0, u64::MAX.into()) as u64)
    }

    proptest! {
        #[test]
        fn arithmetic_is_that_of_unlimited_numbers_with_the_ends_cut_off(
            at in edge(), d in edge(), secs in any::<u64>(), unit in any::<u64>(),
        ) {
            let (a, n) = (i128::from(at), i128::from(d));
            let (at, d) = (Instant::from_nanos(at), Duration::from_nanos(d));
            prop_assert_eq!(at + d, clamped(a + n));
            prop_assert_eq!(at - d, clamped(a - n));
            let long = Duration::from_secs(secs);
            prop_assert_eq!(at + long, clamped(a + long.as_nanos() as i128));
            prop_assert_eq!(at - long, clamped(a - long.as_nanos() as i128));
            prop_assert_eq!(Instant::from_millis(unit), clamped(i128::from(unit) * 1_000_000));
            prop_assert_eq!(Instant::from_micros(unit), clamped(i128::from(unit) * 1_000));
        }

        #[test]
        fn since_takes_back_what_was_added(at in edge(), other in edge(), d in 0..u64::MAX / 2) {
            let (at, other) = (Instant::from_nanos(at), Instant::from_nanos(other));
            let d = Duration::from_nanos(d);
            prop_assert_eq!((at + d).since(at), d.min(Instant::FAR_FUTURE.since(at)));
            // One of the two ways is zero, and the other leads from one to the other.
            let (there, back) = (at.since(other), other.since(at));
            prop_assert!(there.is_zero() || back.is_zero());
            prop_assert_eq!(other + there - back, at);
            prop_assert_eq!(at.as_millis(), at.as_micros() / 1_000);
            prop_assert_eq!(at < other, !back.is_zero());
        }
    }

    /// Any number, often one near an end.
    fn edge() -> impl Strategy<Value = u64> {
        prop_oneof![any::<u64>(), 0..1000_u64, u64::MAX - 1000..=u64::MAX]
    }
}
