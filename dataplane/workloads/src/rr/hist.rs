//! Latencies, recorded.

use core::fmt;
use core::time::Duration;

use hdrhistogram::Histogram;

/// Longest latency that is told apart from longer ones.
const LONGEST: Duration = Duration::from_secs(100);
/// Significant digits: 0.1 % of the value.
const DIGITS: u8 = 3;

/// A histogram of times in nanoseconds. An empty one costs a page or two until it is used.
#[derive(Clone)]
pub struct Latencies(Histogram<u64>);

/// The figures that people ask for, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Recorded times.
    pub count: u64,
    /// The shortest.
    pub min: u64,
    /// The arithmetic mean.
    pub mean: f64,
    /// Half of the times are at most this.
    pub p50: u64,
    /// 90 %.
    pub p90: u64,
    /// 99 %.
    pub p99: u64,
    /// 99.9 %.
    pub p999: u64,
    /// 99.99 %.
    pub p9999: u64,
    /// The longest.
    pub max: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

impl Latencies {
    /// Nothing recorded.
    pub fn new() -> Self {
        // The bounds are constants in the range that the crate allows.
        let made = Histogram::new_with_bounds(1, LONGEST.as_nanos() as u64, DIGITS);
        Self(made.unwrap_or_else(|e| unreachable!("constant bounds: {e:?}")))
    }

    /// Record one time; 0 counts as 1 ns, and what is longer than 100 s as that.
    pub fn record(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Count what `other` has recorded as well.
    pub fn add(&mut self, other: &Self) {
        // Both have the same bounds, so that nothing can be out of range.
        if let Err(e) = self.0.add(&other.0) {
            unreachable!("histograms of one kind: {e:?}");
        }
    }

    /// Times recorded.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// All figures at once; zeros when nothing was recorded.
    pub fn figures(&self) -> Figures {
        let h = &self.0;
        if h.is_empty() {
            return Figures::default();
        }
        Figures {
            count: h.len(),
            min: h.min(),
            mean: h.mean(),
            p50: h.value_at_quantile(0.5),
            p90: h.value_at_quantile(0.9),
            p99: h.value_at_quantile(0.99),
            p999: h.value_at_quantile(0.999),
            p9999: h.value_at_quantile(0.9999),
            max: h.max(),
        }
    }

    /// The histogram itself, for the log format.
    pub(crate) fn inner(&self) -> &Histogram<u64> {
        &self.0
    }
}

impl fmt::Debug for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.figures().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_what_was_recorded() {
        let mut a = Latencies::new();
        assert_eq!(a.figures(), Figures::default());
        for us in 1..=1000 {
            a.record(Duration::from_micros(us));
        }
        let f = a.figures();
        assert_eq!((f.count, f.min), (1000, 1000));
        let near = |got: u64, want: u64| got.abs_diff(want) <= want / 500;
        assert!(near(f.p50, 500_000) && near(f.p99, 990_000) && near(f.max, 1_000_000), "{f:?}");
        a.record(Duration::ZERO);
        a.record(Duration::MAX);
        let mut b = Latencies::new();
        b.add(&a);
        b.add(&a);
        assert_eq!(b.count(), 2004);
        assert!(near(b.figures().max, 100_000_000_000));
    }
}
