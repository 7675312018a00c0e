//! The clock door on the operating system's monotonic clock.

use base::{Clock, Instant};

/// `CLOCK_MONOTONIC` since the clock was made. One reading costs some tens of nanoseconds, and a
/// worker takes one per turn.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock {
    start: std::time::Instant,
}

impl MonotonicClock {
    /// A clock that begins now. All workers of a process share one, so that their times compare.
    pub fn start() -> Self {
        Self { start: std::time::Instant::now() }
    }
}

impl Clock for MonotonicClock {
    fn now(&self) -> Instant {
        let nanos = self.start.elapsed().as_nanos();
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}
