//! What the stack tells, and what follows for sockets.

use alloc::vec::Vec;

use base::ConnId;
use stack::{App, AppEvent, Io, Unreachable};
use tcp::CloseReason;

use crate::Errno;
use crate::abi::EPOLLERR;
use crate::ready::{ALL, READ, WRITE, is_readable};
use crate::socket::Phase;
use crate::sockets::{Sockets, TIMER};

impl App for Sockets {
    fn on_event(&mut self, io: &mut dyn Io, event: AppEvent) {
        match event {
            AppEvent::Accepted { listener, conn, .. } => self.on_accepted(io, listener, conn),
            AppEvent::Connected { conn } => self.on_connected(io, conn),
            AppEvent::Readable { conn } => self.on_readable(io, conn),
            AppEvent::Writable { conn } => {
                if let Some(&id) = self.conns.get(&conn)
                    && let Ok(socket) = self.get_mut(id)
                    && core::mem::take(&mut socket.no_space)
                {
                    self.wake(id, WRITE);
                }
            }
            AppEvent::PeerClosed { conn } => {
                if let Some(&id) = self.conns.get(&conn)
                    && let Ok(socket) = self.get_mut(id)
                {
                    socket.done = true;
                    socket.shut_read = true;
                    self.promote(id);
                    self.wake(id, ALL);
                }
            }
            AppEvent::Closed { conn, reason } => self.on_closed(io, conn, reason),
            AppEvent::Timer { token: TIMER } => self.expire(io),
            AppEvent::Start
            | AppEvent::Stop
            | AppEvent::Timer { .. }
            | AppEvent::Message { .. } => {}
        }
        self.settle(io);
    }
}

impl Sockets {
    fn on_connected(&mut self, io: &dyn Io, conn: ConnId) {
        let Some(&id) = self.conns.get(&conn) else { return };
        let local = io.local_addr(conn);
        let Ok(socket) = self.get_mut(id) else { return };
        socket.phase = Phase::Open(conn);
        socket.local = local.or(socket.local);
        self.wake(id, ALL);
    }

    fn on_readable(&mut self, io: &dyn Io, conn: ConnId) {
        let Some(&id) = self.conns.get(&conn) else { return };
        self.promote(id);
        // A reader that sleeps may have taken some already, and takes what there is; others care only
        // for as much as `SO_RCVLOWAT` says.
        let enough = self.get(id).is_ok_and(|socket| is_readable(io, socket));
        self.wake(id, if enough { READ } else { 0 });
    }

    /// A connection is gone. What it has received and nobody has read yet stays readable.
    fn on_closed(&mut self, io: &mut dyn Io, conn: ConnId, reason: CloseReason) {
        if let Some(op) = self.lingering.remove(&conn) {
            // From here on it is not to be found.
            self.finish_lingering(io, op);
        }
        let Some(id) = self.conns.remove(&conn) else { return };
        let info = io.info(conn);
        let unreachable = io.unreachable(conn);
        let mut unread = Vec::new();
        let len = io.readable(conn);
        crate::data::take_from(io, conn, Some(&mut unread), len);
        let Ok(socket) = self.get_mut(id) else { return };
        let opening = matches!(socket.phase, Phase::Opening(_));
        // RFC 9293 section 3.10.7.4 leaves it to the user interface; Linux tells a peer that had closed
        // before as a broken pipe.
        let closed_before = socket.done && !socket.shut_write;
        let error = match reason {
            CloseReason::Finished => None,
            // Not by us, or it would not be known any more: data came that nobody was to read.
            CloseReason::Aborted => Some(Errno::ECONNRESET),
            CloseReason::ResetByPeer if opening => Some(Errno::ECONNREFUSED),
            CloseReason::ResetByPeer if closed_before => Some(Errno::EPIPE),
            CloseReason::ResetByPeer => Some(Errno::ECONNRESET),
            CloseReason::Refused => Some(Errno::ECONNREFUSED),
            CloseReason::TimedOut => Some(Errno::ETIMEDOUT),
            CloseReason::Unreachable => Some(match unreachable {
                Some(Unreachable::Network) => Errno::ENETUNREACH,
                Some(Unreachable::Protocol) => Errno::ENOPROTOOPT,
                Some(Unreachable::Port) => Errno::ECONNREFUSED,
                Some(Unreachable::Prohibited) => Errno::EACCES,
                Some(Unreachable::Host) | None => Errno::EHOSTUNREACH,
            }),
            CloseReason::Resources => Some(Errno::ENOBUFS),
        };
        socket.end(error, unread, info);
        self.promote(id);
        if error.is_some() {
            self.wake(id, EPOLLERR);
        }
        self.wake(id, ALL);
    }
}
