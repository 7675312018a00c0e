//! The one timer of an application.

use base::Instant;
use stack::Io;

/// Any token will do; there is only this timer.
const TOKEN: u64 = 1;

/// Remembers what is set, so that a busy application does not set the same timer at each event.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    armed: Option<Instant>,
}

impl Alarm {
    /// Be called at `at`, and not before unless something else happens.
    pub(crate) fn set(&mut self, io: &mut dyn Io, at: Instant) {
        if at == Instant::FAR_FUTURE {
            if self.armed.take().is_some() {
                io.cancel_timer(TOKEN);
            }
        } else if self.armed != Some(at) && io.set_timer(TOKEN, at) {
            self.armed = Some(at);
        }
    }

    /// Be called at `at` at the latest.
    pub(crate) fn at_most(&mut self, io: &mut dyn Io, at: Instant) {
        if self.armed.is_none_or(|armed| at < armed) {
            self.set(io, at);
        }
    }

    /// Whether it is set to `at` or earlier.
    pub(crate) fn rings_by(&self, at: Instant) -> bool {
        self.armed.is_some_and(|armed| armed <= at)
    }

    /// It has run out.
    pub(crate) fn rang(&mut self) {
        self.armed = None;
    }
}
