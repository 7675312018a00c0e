//! Reports on their way out.

use std::collections::VecDeque;

use stack::{Io, Message};

use super::report::Report;

/// Reports kept while the outside does not keep up; beyond that the oldest interval goes.
pub(crate) const QUEUE_MAX: usize = 1024;
/// Pause before reports that were not taken are offered again.
pub(crate) const RETRY: core::time::Duration = core::time::Duration::from_millis(10);

/// A bounded queue before [`Io::publish`].
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queue: VecDeque<Report>,
    /// Reports that had to be thrown away.
    lost: u64,
}

impl Outbox {
    /// Hand `report` out, or keep it until [`Outbox::flush`].
    pub(crate) fn publish(&mut self, io: &mut dyn Io, report: Report) {
        if self.queue.len() >= QUEUE_MAX {
            self.lost = self.lost.saturating_add(1);
            // Results, errors and the end matter more than one interval of many.
            let victim = self.queue.iter().position(|r| matches!(r, Report::Interval(_)));
            self.queue.remove(victim.unwrap_or(0));
        }
        self.queue.push_back(report);
        self.flush(io);
    }

    /// Try again to hand out what is kept.
    pub(crate) fn flush(&mut self, io: &mut dyn Io) {
        while let Some(report) = self.next() {
            let Err(back) = io.publish(Box::new(report) as Message) else { continue };
            // It is what we have just boxed, so this always finds it.
            if let Ok(report) = back.downcast::<Report>() {
                self.queue.push_front(*report);
            }
            return;
        }
    }

    /// The next report; said in between: that some are missing.
    fn next(&mut self) -> Option<Report> {
        if self.lost > 0 && self.queue.len() < QUEUE_MAX / 2 {
            let text = format!("{} reports were lost: output does not keep up", self.lost);
            self.lost = 0;
            return Some(Report::Warning(text));
        }
        self.queue.pop_front()
    }

    /// Something waits for another attempt.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.queue.is_empty()
    }
}
