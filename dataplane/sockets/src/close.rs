//! `shutdown`, `close`, and what happens when nobody holds a description any more.

use core::time::Duration;

use base::ConnId;
use stack::Io;

use crate::Errno;
use crate::abi::*;
use crate::call::{Outcome, Value};
use crate::file::Kind;
use crate::ready::ALL;
use crate::slab::FileId;
use crate::socket::Phase;
use crate::sockets::{Patience, Pending, Sockets, Step};

impl Sockets {
    pub(crate) fn shutdown(&mut self, io: &mut dyn Io, fd: i32, how: i32) -> Result<i64, Errno> {
        let id = self.socket_of(fd)?;
        if !(SHUT_RD..=SHUT_RDWR).contains(&how) {
            return Err(Errno::EINVAL);
        }
        let (read, write) = (how != SHUT_WR, how != SHUT_RD);
        let socket = self.get_mut(id)?;
        match socket.phase {
            Phase::Listening(_) if !read => {}
            Phase::Listening(_) | Phase::Opening(_) => {
                self.disconnect(io, id);
            }
            Phase::Idle => {
                socket.shut_read |= read;
                socket.shut_write |= write;
                self.wake(id, ALL);
                return Err(Errno::ENOTCONN);
            }
            Phase::Open(conn) => {
                socket.shut_read |= read;
                let first = write && !socket.shut_write;
                socket.shut_write |= write;
                socket.options.read_shut |= read;
                if read {
                    self.tell_options(io, id);
                }
                if first {
                    io.shutdown(conn);
                }
            }
        }
        self.wake(id, ALL);
        Ok(0)
    }

    pub(crate) fn close(&mut self, io: &mut dyn Io, fd: i32) -> Result<Outcome, Errno> {
        let descriptor = self.fds.set(fd, None).ok_or(Errno::EBADF)?;
        let Some((conn, time)) = self.drop_file(io, descriptor.file) else {
            return Ok(Outcome::Done(Ok(Value::Int(0))));
        };
        // Not even `O_NONBLOCK` keeps it from waiting.
        let patience = Patience::new(io, false, Some(time));
        Ok(self.begin(io, Pending::Close { conn }, patience))
    }

    /// Somebody holds `id` no longer. If that was the last: the connection that lingers, and how long.
    pub(crate) fn drop_file(&mut self, io: &mut dyn Io, id: FileId) -> Option<(ConnId, Duration)> {
        let file = self.files.get_mut(id)?;
        file.refs = file.refs.saturating_sub(1);
        if file.refs > 0 {
            return None;
        }
        let linger = match &file.kind {
            Kind::Socket(socket) => socket
                .options
                .linger
                .filter(|time| *time > 0)
                .and_then(|time| Some((socket.conn()?, Duration::from_secs(time.into())))),
            Kind::Epoll(_) => None,
        };
        let watchers = file.watchers.clone();
        for watcher in watchers {
            if let Some(epoll) = self.epoll_mut(watcher.epoll) {
                epoll.forget(watcher.fd, id);
            }
        }
        self.release_phase(io, id, false);
        if let Some(file) = self.files.remove(id)
            && let Kind::Epoll(epoll) = file.kind
        {
            for (_, watched) in epoll.watched() {
                if let Some(file) = self.files.get_mut(watched) {
                    file.watchers.retain(|watcher| watcher.epoll != id);
                }
            }
        }
        linger.filter(|(conn, _)| io.info(*conn).is_some())
    }

    /// Give back what the engine holds for a socket. `abort`: by a reset, as a disconnect does.
    pub(crate) fn release_phase(&mut self, io: &mut dyn Io, id: FileId, abort: bool) {
        let Ok(socket) = self.get_mut(id) else { return };
        match core::mem::replace(&mut socket.phase, Phase::Idle) {
            Phase::Idle => {}
            Phase::Opening(conn) | Phase::Open(conn) => {
                self.conns.remove(&conn);
                if abort {
                    io.abort(conn);
                } else {
                    io.close(conn);
                }
            }
            Phase::Listening(listening) => {
                let listener = listening.listener;
                if let Some(members) = self.listeners.get_mut(&listener) {
                    members.retain(|member| *member != id);
                    if members.is_empty() {
                        self.listeners.remove(&listener);
                        io.close_listener(listener);
                    }
                }
                let children = listening.queue.into_iter();
                for child in children.chain(listening.deferred.into_iter().map(|(id, _)| id)) {
                    // Nobody will accept them.
                    self.release_phase(io, child, true);
                    self.drop_file(io, child);
                }
                self.tell_queue(io, listener);
            }
        }
    }

    /// Whether all that was sent before a `close` is acknowledged.
    pub(crate) fn try_close(io: &dyn Io, conn: ConnId) -> Step {
        let waits = io.info(conn).is_some_and(|info| {
            matches!(info.state, tcp::State::FinWait1 | tcp::State::Closing | tcp::State::LastAck)
        });
        if waits { Step::Wait } else { Step::Done(Ok(Value::Int(0))) }
    }

    /// Close everything, as the end of a process does: in order of descriptors, without lingering.
    pub fn close_all(&mut self, io: &mut dyn Io) {
        let open: alloc::vec::Vec<i32> = self.fds.open().collect();
        for fd in open {
            if let Some(descriptor) = self.fds.set(fd, None) {
                self.drop_file(io, descriptor.file);
            }
        }
        let ops: alloc::vec::Vec<_> = self.ops.keys().copied().collect();
        for op in ops {
            self.cancel(io, op);
        }
        self.settle(io);
    }
}
