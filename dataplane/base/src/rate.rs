//! Bytes per second.

use core::time::Duration;

/// A rate in bytes per second. Bits or bytes is decided here, once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// No limit.
    pub const UNLIMITED: Self = Self(u64::MAX);

    /// A rate of `bytes` per second.
    pub const fn from_bytes_per_sec(bytes: u64) -> Self {
        Self(bytes)
    }

    /// A rate of `bits` per second, rounded down to whole bytes.
    pub const fn from_bits_per_sec(bits: u64) -> Self {
        Self(bits / 8)
    }

    /// Bytes per second.
    pub const fn bytes_per_sec(self) -> u64 {
        self.0
    }

    /// The rate at which `bytes` pass in `interval`; unlimited for an interval of zero.
    pub fn from_transfer(bytes: u64, interval: Duration) -> Self {
        let nanos = interval.as_nanos();
        if nanos == 0 {
            return Self::UNLIMITED;
        }
        Self(u64::try_from(u128::from(bytes) * 1_000_000_000 / nanos).unwrap_or(u64::MAX))
    }

    /// How long `bytes` take at this rate, rounded up to a nanosecond; [`Duration::MAX`] at rate zero.
    pub fn time_for(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return if bytes == 0 { Duration::ZERO } else { Duration::MAX };
        }
        let nanos = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(self.0));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn time_and_transfer_are_inverse() {
        let r = Rate::from_bits_per_sec(10_000_000);
        assert_eq!(r.time_for(1250), Duration::from_millis(1));
        assert_eq!(Rate::from_transfer(1250, Duration::from_millis(1)), r);
        assert_eq!(Rate::from_bytes_per_sec(0).time_for(1), Duration::MAX);
    }

    proptest! {
        #[test]
        fn the_time_for_bytes_is_the_least_in_which_they_pass(
            rate in 1_u64.., bytes in any::<u64>(), small in 0..100_000_u64,
        ) {
            let r = Rate::from_bytes_per_sec(rate);
            for bytes in [bytes, small] {
                let nanos = r.time_for(bytes).as_nanos();
                let passed = |nanos: u128| nanos * u128::from(rate) / 1_000_000_000;
                if nanos < u128::from(u64::MAX) {
                    prop_assert!(passed(nanos) >= u128::from(bytes), "too short");
                    prop_assert!(nanos == 0 || passed(nanos - 1) < u128::from(bytes), "too long");
                } else {
                    prop_assert!(passed(nanos) <= u128::from(bytes), "cut off where it need not be");
                }
            }
        }

        #[test]
        fn a_measured_rate_needs_no_more_than_its_interval(
            bytes in any::<u64>(), nanos in 1_u64..1 << 60,
        ) {
            let interval = Duration::from_nanos(nanos);
            let r = Rate::from_transfer(bytes, interval);
            // Rounded down, so the same bytes take at least as long, and a little more at most.
            if r != Rate::UNLIMITED && r.bytes_per_sec() > 0 {
                prop_assert!(r.time_for(bytes) >= interval.min(Duration::from_nanos(u64::MAX)));
                let faster = Rate::from_bytes_per_sec(r.bytes_per_sec() + 1);
                prop_assert!(faster.time_for(bytes) <= interval);
            }
            prop_assert_eq!(Rate::from_transfer(bytes, Duration::ZERO), Rate::UNLIMITED);
            prop_assert!(Rate::from_bits_per_sec(bytes).bytes_per_sec() == bytes / 8);
        }

        #[test]
        fn more_bytes_take_no_less_time_and_a_higher_rate_no_more(
            a in any::<u64>(), b in any::<u64>(), rate in any::<u64>(), other in any::<u64>(),
        ) {
            let (low, high) = (a.min(b), a.max(b));
            let r = Rate::from_bytes_per_sec(rate);
            prop_assert!(r.time_for(low) <= r.time_for(high));
            let (slow, fast) = (rate.min(other), rate.max(other));
            let time = |rate| Rate::from_bytes_per_sec(rate).time_for(a);
            prop_assert!(time(fast) <= time(slow));
        }
    }
}
