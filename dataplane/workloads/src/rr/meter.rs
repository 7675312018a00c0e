//! What is measured between two cuts.

use base::Instant;

use super::hist::Latencies;
use super::report::{Failure, Failures, Interval};

/// Collects until the next cut.
pub(crate) struct Meter {
    /// When measuring began.
    began: Instant,
    /// When what is collected began.
    since: Instant,
    pub(crate) latency: Box<Latencies>,
    pub(crate) setup: Option<Box<Latencies>>,
    pub(crate) failures: Failures,
    /// The last failure, whether handed out or not.
    pub(crate) last: Option<Failure>,
}

impl Meter {
    pub(crate) fn new(now: Instant, with_setup: bool) -> Self {
        Self {
            began: now,
            since: now,
            latency: Box::default(),
            setup: with_setup.then(Box::default),
            failures: Failures::default(),
            last: None,
        }
    }

    pub(crate) fn fail(&mut self, failure: Failure) {
        self.failures.count(failure);
        self.last = Some(failure);
    }

    /// Hand out what was collected and start afresh.
    pub(crate) fn cut(&mut self, now: Instant, omitted: bool) -> Interval {
        let interval = Interval {
            start: self.since.since(self.began),
            end: now.since(self.began),
            omitted,
            latency: core::mem::take(&mut self.latency),
            setup: self.setup.as_mut().map(core::mem::take),
            failures: core::mem::take(&mut self.failures),
        };
        self.since = now;
        interval
    }

    /// Count time from now on: what was before is omitted.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.began = now;
        self.since = now;
    }
}
