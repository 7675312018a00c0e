//! Connections on their way out: they say their last word, are drained, and are gone within a limit.

use core::time::Duration;

use base::{ConnId, Instant};
use stack::Io;

use super::control::{Control, State};

/// Connections that say their last word at the same time; more are reset at once.
const FAREWELLS_MAX: usize = 1024;
/// A peer has this long to read our last word.
const LAST_WORD_LIMIT: Duration = Duration::from_secs(2);

/// One of them.
#[derive(Debug)]
struct Farewell {
    control: Control,
    /// We have sent FIN; what still comes is read and thrown away.
    finished: bool,
    deadline: Instant,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Farewells {
    list: Vec<Farewell>,
}

impl Farewells {
    /// Say "busy" and close. Closing at once would reset the connection if the cookie is unread,
    /// and the reset may overtake the word.
    pub(crate) fn refuse(&mut self, io: &mut dyn Io, conn: ConnId) {
        let mut control = Control::new(conn);
        control.send_state(io, State::AccessDenied);
        self.finish(io, control);
    }

    /// Send what is queued, then close.
    pub(crate) fn finish(&mut self, io: &mut dyn Io, control: Control) {
        if self.list.len() >= FAREWELLS_MAX {
            return io.abort(control.conn);
        }
        let conn = control.conn;
        let deadline = io.now() + LAST_WORD_LIMIT;
        self.list.push(Farewell { control, finished: false, deadline });
        self.on_event(io, conn);
    }

    /// Close a data connection: what is queued has `limit` to be delivered; zero resets it.
    pub(crate) fn close(&mut self, io: &mut dyn Io, conn: ConnId, limit: Duration) {
        if limit.is_zero() || self.list.len() >= FAREWELLS_MAX {
            return io.abort(conn);
        }
        let deadline = io.now() + limit;
        self.list.push(Farewell { control: Control::new(conn), finished: true, deadline });
        io.close(conn);
    }

    /// Something changed on `conn`, which may be one of them.
    pub(crate) fn on_event(&mut self, io: &mut dyn Io, conn: ConnId) {
        let Some(farewell) = self.list.iter_mut().find(|f| f.control.conn == conn) else { return };
        farewell.control.flush(io);
        if !farewell.finished && farewell.control.is_flushed() {
            farewell.finished = true;
            io.shutdown(conn);
        }
        io.recv(conn, &mut |bytes| bytes.len());
    }

    /// The connection is gone.
    pub(crate) fn on_closed(&mut self, conn: ConnId) {
        self.list.retain(|f| f.control.conn != conn);
    }

    /// Reset those that take too long.
    pub(crate) fn expire(&mut self, io: &mut dyn Io) {
        let now = io.now();
        while let Some(at) = self.list.iter().position(|f| f.deadline <= now) {
            io.abort(self.list.swap_remove(at).control.conn);
        }
    }

    /// When [`Farewells::expire`] has work.
    pub(crate) fn deadline(&self) -> Instant {
        self.list.iter().map(|f| f.deadline).fold(Instant::FAR_FUTURE, Ord::min)
    }
}
