//! Readiness: what `poll` and `epoll` show of a description.

use alloc::vec::Vec;
use core::time::Duration;

use stack::Io;

use crate::Errno;
use crate::abi::*;
use crate::call::{Outcome, PollFd, Value};
use crate::data::readable;
use crate::file::Kind;
use crate::slab::FileId;
use crate::socket::{Phase, Socket};
use crate::sockets::{Patience, Pending, Sockets, Step};

/// Something to read has come (`sk_data_ready`).
pub(crate) const READ: u32 = EPOLLIN | EPOLLRDNORM | EPOLLRDBAND;
/// There is room to write (`sk_write_space`).
pub(crate) const WRITE: u32 = EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND;
/// The state has changed, so everybody looks (`sk_state_change`).
pub(crate) const ALL: u32 = u32::MAX;

/// How deep epoll instances may watch each other.
pub(crate) const NESTING_MAX: u32 = 5;

impl Sockets {
    pub(crate) fn poll(
        &mut self,
        io: &mut dyn Io,
        fds: Option<Vec<PollFd>>,
        timeout: Option<Duration>,
    ) -> Result<Outcome, Errno> {
        let fds = fds.ok_or(Errno::EFAULT)?;
        if fds.len() > usize::from(self.config.fds_max) {
            return Err(Errno::EINVAL);
        }
        let fds = fds
            .into_iter()
            .map(|entry| (entry, self.fds.get(entry.fd).map(|descriptor| descriptor.file)))
            .collect();
        let patience = Patience::new(io, false, timeout);
        Ok(self.begin(io, Pending::Poll { fds }, patience))
    }

    pub(crate) fn try_poll(&mut self, io: &mut dyn Io, fds: &[(PollFd, Option<FileId>)]) -> Step {
        let revents: Vec<u16> = fds
            .iter()
            .map(|(entry, file)| match file {
                _ if entry.fd < 0 => 0,
                None => EPOLLNVAL as u16,
                Some(file) => {
                    let asked = u32::from(entry.events) | EPOLLERR | EPOLLHUP;
                    (self.readiness(io, *file, 0) & asked) as u16
                }
            })
            .collect();
        if revents.iter().all(|r| *r == 0) {
            return Step::Wait;
        }
        Step::Done(Ok(Value::Polled(revents)))
    }

    /// What is so now, `EPOLL*`.
    pub(crate) fn readiness(&mut self, io: &mut dyn Io, id: FileId, depth: u32) -> u32 {
        match self.files.get_mut(id).map(|file| &mut file.kind) {
            Some(Kind::Socket(socket)) => socket_readiness(io, socket),
            Some(Kind::Epoll(_)) => self.epoll_readiness(io, id, depth),
            None => 0,
        }
    }
}

/// `tcp_poll` of Linux. A writer that finds no room is owed an edge.
fn socket_readiness(io: &mut dyn Io, socket: &mut Socket) -> u32 {
    if let Phase::Listening(listening) = &socket.phase {
        return if listening.queue.is_empty() { 0 } else { EPOLLIN | EPOLLRDNORM };
    }
    let mut mask = 0;
    let idle = matches!(socket.phase, Phase::Idle);
    if idle || (socket.shut_read && socket.shut_write) {
        mask |= EPOLLHUP;
    }
    if socket.shut_read {
        mask |= EPOLLIN | EPOLLRDNORM | EPOLLRDHUP;
    }
    if !matches!(socket.phase, Phase::Opening(_)) {
        if is_readable(io, socket) {
            mask |= EPOLLIN | EPOLLRDNORM;
        }
        let room = match socket.phase {
            Phase::Open(conn) if !socket.shut_write => {
                let room = io.is_writable(conn);
                if !room {
                    socket.no_space = true;
                    io.want_writable(conn);
                }
                room
            }
            _ => true,
        };
        if room {
            mask |= EPOLLOUT | EPOLLWRNORM;
        }
    }
    if socket.error.is_some() {
        mask |= EPOLLERR;
    }
    mask
}

/// `tcp_epollin_ready`: as much as `SO_RCVLOWAT` asks for, or so much that no more can come.
pub(crate) fn is_readable(io: &dyn Io, socket: &Socket) -> bool {
    let available = readable(io, socket);
    if available == 0 {
        return false;
    }
    let lowat = usize::try_from(socket.options.rcvlowat).unwrap_or(1);
    available >= lowat
        || match socket.phase {
            Phase::Open(conn) => io.info(conn).is_some_and(|info| info.rcv_wnd <= info.rcv_mss),
            _ => true,
        }
}
