//! Connections that are opened and then left alone.

use base::{ConnId, Instant};
use stack::{ConnectError, Io};
use tcp::ConnOptions;

use super::{OPENING_AT_ONCE, Target};
use crate::rr::report::Standing;

/// How far it has come.
pub(super) struct Hold {
    target: u32,
    opening: u32,
    held: u32,
    began: Instant,
    /// The last report.
    reported: Instant,
    opened_since: u32,
}

impl Hold {
    pub(super) const fn new(target: u32) -> Self {
        Self {
            target,
            opening: 0,
            held: 0,
            began: Instant::ZERO,
            reported: Instant::ZERO,
            opened_since: 0,
        }
    }

    pub(super) const fn begin(&mut self, now: Instant) {
        self.began = now;
        self.reported = now;
    }

    /// Open further connections; `opened` is told about each.
    pub(super) fn open(
        &mut self,
        io: &mut dyn Io,
        target: &mut Target,
        mut opened: impl FnMut(ConnId),
    ) -> Result<(), ConnectError> {
        while self.opening < OPENING_AT_ONCE && self.held.saturating_add(self.opening) < self.target
        {
            let (remote, local) = target.next();
            let conn = io.connect(remote, local, &ConnOptions::default())?;
            self.opening += 1;
            opened(conn);
        }
        Ok(())
    }

    /// One more stands; whether all do.
    pub(super) const fn on_connected(&mut self) -> bool {
        self.opening = self.opening.saturating_sub(1);
        self.held += 1;
        self.opened_since += 1;
        self.held == self.target
    }

    /// One is gone, before or after it was established.
    pub(super) const fn on_closed(&mut self, established: bool) {
        if established {
            self.held = self.held.saturating_sub(1);
        } else {
            self.opening = self.opening.saturating_sub(1);
        }
    }

    pub(super) fn report(&mut self, now: Instant, complete: bool) -> Standing {
        let standing = Standing {
            at: now.since(self.began),
            held: self.held,
            opened: self.opened_since,
            within: now.since(self.reported),
            complete,
        };
        self.reported = now;
        self.opened_since = 0;
        standing
    }
}
