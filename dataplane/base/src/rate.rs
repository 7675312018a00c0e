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
    use super::*;

    #[test]
    fn time_and_transfer_are_inverse() {
        let r = Rate::from_bits_per_sec(10_000_000);
        assert_eq!(r.time_for(1250), Duration::from_millis(1));
        assert_eq!(Rate::from_transfer(1250, Duration::from_millis(1)), r);
        assert_eq!(Rate::from_bytes_per_sec(0).time_for(1), Duration::MAX);
    }
}
