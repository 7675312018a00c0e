//! The User Timeout Option, RFC 5482: each end says how long it is willing to wait, and both adapt.
//!
//! Nothing depends on the arrival of the option: RFC 5482 section 3.2.

use core::num::NonZeroU16;
use core::time::Duration;

/// The granularity bit: the value counts minutes, not seconds.
const MINUTES: u16 = 1 << 15;
/// Largest number of either.
const VALUE_MAX: u16 = MINUTES - 1;

/// The value of the option as it is in a header: a granularity bit and fifteen bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserTimeoutOption(NonZeroU16);

impl UserTimeoutOption {
    /// From a header. RFC 5482 section 3: a value of zero, of seconds or minutes, is ignored.
    pub const fn from_field(field: u16) -> Option<Self> {
        match NonZeroU16::new(field) {
            Some(value) if field & VALUE_MAX != 0 => Some(Self(value)),
            _ => None,
        }
    }

    /// For a header.
    pub const fn field(self) -> u16 {
        self.0.get()
    }

    /// What tells `timeout`, rounded up: seconds as long as they fit, minutes beyond; at most 22 days.
    /// RFC 5482 section 3 forbids to send a zero, so there is none for zero.
    pub fn of(timeout: Duration) -> Option<Self> {
        let up = u64::from(timeout.subsec_nanos() > 0);
        let seconds = timeout.as_secs().saturating_add(up);
        let field = match u16::try_from(seconds).ok().filter(|sec| *sec <= VALUE_MAX) {
            Some(sec) => sec,
            None => {
                let minutes = seconds.div_ceil(60).min(VALUE_MAX.into());
                MINUTES | minutes as u16
            }
        };
        Self::from_field(field)
    }

    /// The time that it tells.
    pub const fn get(self) -> Duration {
        let field = self.0.get();
        let value = (field & VALUE_MAX) as u64;
        Duration::from_secs(if field & MINUTES != 0 { value * 60 } else { value })
    }
}

/// RFC 5482 section 3.1: the timeout that both ends arrive at, within the limits of this one.
pub(crate) fn adapted(own: Duration, remote: Duration, limits: [Duration; 2]) -> Duration {
    let [lower, upper] = limits;
    own.max(remote).max(lower).min(upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 5482 section 3.
    #[test]
    fn seconds_then_minutes_and_never_zero() {
        let secs = Duration::from_secs;
        for (timeout, field, read) in [
            (Duration::from_millis(1), 1, secs(1)),
            (secs(90), 90, secs(90)),
            (Duration::from_millis(90_001), 91, secs(91)),
            (secs(32_767), 32_767, secs(32_767)),
            (secs(32_768), MINUTES | 547, secs(547 * 60)),
            (secs(u64::MAX), u16::MAX, secs(32_767 * 60)),
            (Duration::MAX, u16::MAX, secs(32_767 * 60)),
        ] {
            let option = UserTimeoutOption::of(timeout).unwrap();
            assert_eq!((option.field(), option.get()), (field, read), "{timeout:?}");
        }
        assert_eq!(UserTimeoutOption::of(Duration::ZERO), None);
        for zero in [0, MINUTES] {
            assert_eq!(UserTimeoutOption::from_field(zero), None);
        }
        assert_eq!(UserTimeoutOption::from_field(MINUTES | 2).unwrap().get(), secs(120));
    }

    /// RFC 5482 section 3.1.
    #[test]
    fn the_longer_one_counts_within_the_limits() {
        let secs = Duration::from_secs;
        let limits = [secs(100), secs(3600)];
        for (own, remote, result) in
            [(300, 200, 300), (200, 300, 300), (5, 7, 100), (5, 100_000, 3600), (0, 900, 900)]
        {
            assert_eq!(adapted(secs(own), secs(remote), limits), secs(result), "{own} {remote}");
        }
    }
}
