//! Intervals, added up.

use core::time::Duration;

use super::hist::Latencies;
use super::report::{Failures, Interval, Standing};

/// What counts of a test so far.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Round trips, or whole connections.
    pub latency: Latencies,
    /// Connections being established.
    pub setup: Option<Latencies>,
    /// What went wrong, also before measuring.
    pub failures: Failures,
    /// How long it was measured.
    pub time: Duration,
    /// The idle connections, once all stand.
    pub standing: Option<Standing>,
}

impl Totals {
    /// Add an interval; one that is omitted counts for nothing.
    pub fn add(&mut self, interval: &Interval) {
        if interval.omitted {
            return;
        }
        self.latency.add(&interval.latency);
        if let Some(setup) = &interval.setup {
            self.setup.get_or_insert_default().add(setup);
        }
        self.failures.add(&interval.failures);
        self.time = self.time.max(interval.end);
    }

    /// Transactions, or connections.
    pub fn count(&self) -> u64 {
        self.latency.count()
    }
}

/// `count` per second of `time`; zero when no time has passed.
pub fn per_second(count: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { count as f64 / time.as_secs_f64() }
}
