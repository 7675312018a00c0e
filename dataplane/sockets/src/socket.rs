//! What one socket is.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use base::{ConnId, Instant, ListenerId};
use tcp::TcpInfo;

use crate::Errno;
use crate::abi::*;
use crate::options::Options;
use crate::slab::FileId;

/// What the engine holds for a socket.
#[derive(Debug)]
pub(crate) enum Phase {
    /// Nothing: fresh, or the connection is over. TCP_CLOSE.
    Idle,
    /// LISTEN.
    Listening(Listening),
    /// SYN-SENT or SYN-RECEIVED of an active open.
    Opening(ConnId),
    /// A synchronised state.
    Open(ConnId),
}

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) listener: ListenerId,
    /// As given to `listen`, capped.
    pub(crate) backlog: u32,
    /// Connections that can be accepted, oldest first.
    pub(crate) queue: VecDeque<FileId>,
    /// Connections that wait for their first data (`TCP_DEFER_ACCEPT`), and until when.
    pub(crate) deferred: VecDeque<(FileId, Instant)>,
}

impl Listening {
    pub(crate) fn waiting(&self) -> u32 {
        (self.queue.len() + self.deferred.len()) as u32
    }
}

/// `sock->state` of Linux: what `connect` and `accept` have made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Association {
    Unconnected,
    Connecting,
    Connected,
}

/// Where a socket is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    /// `None`: all addresses.
    pub(crate) addr: Option<IpAddr>,
    pub(crate) port: u16,
    /// By `bind`, so it survives a disconnect.
    pub(crate) by_bind: bool,
}

#[derive(Debug)]
pub(crate) struct Socket {
    /// `AF_INET6`.
    pub(crate) v6: bool,
    pub(crate) phase: Phase,
    pub(crate) association: Association,
    pub(crate) options: Options,
    pub(crate) bound: Option<Bound>,
    /// Both ends of the connection, also of one that is over.
    pub(crate) local: Option<SocketAddr>,
    pub(crate) remote: Option<SocketAddr>,
    /// `sk_err`: told once.
    pub(crate) error: Option<Errno>,
    pub(crate) shut_read: bool,
    pub(crate) shut_write: bool,
    /// The peer has closed (`SOCK_DONE`).
    pub(crate) done: bool,
    /// What was not read when the connection ended.
    pub(crate) left: VecDeque<u8>,
    /// The last snapshot of a connection that is over.
    pub(crate) last: Option<Box<TcpInfo>>,
    /// It waits in the queue of this listening socket.
    pub(crate) queued_at: Option<FileId>,
    /// Something was found not writable: an edge is owed (`SOCK_NOSPACE`).
    pub(crate) no_space: bool,
}

impl Socket {
    pub(crate) fn new(v6: bool, options: Options) -> Self {
        Self {
            v6,
            phase: Phase::Idle,
            association: Association::Unconnected,
            options,
            bound: None,
            local: None,
            remote: None,
            error: None,
            shut_read: false,
            shut_write: false,
            done: false,
            left: VecDeque::new(),
            last: None,
            queued_at: None,
            no_space: false,
        }
    }

    /// The connection behind it, in whatever state.
    pub(crate) const fn conn(&self) -> Option<ConnId> {
        match self.phase {
            Phase::Opening(conn) | Phase::Open(conn) => Some(conn),
            Phase::Idle | Phase::Listening(_) => None,
        }
    }

    /// Whether its packets are IPv6; one without a peer believes in its family.
    pub(crate) fn sends_v6(&self) -> bool {
        self.remote.map_or(self.v6, |remote| remote.is_ipv6())
    }

    /// The error, which is thereby told.
    pub(crate) fn take_error(&mut self) -> Option<Errno> {
        self.error.take()
    }

    /// Everything received is still there or was never told: for the accounting of the end.
    pub(crate) fn end(&mut self, error: Option<Errno>, unread: Vec<u8>, last: Option<TcpInfo>) {
        self.phase = Phase::Idle;
        self.shut_read = true;
        self.shut_write = true;
        self.left = unread.into();
        self.error = error.or(self.error);
        self.last = last.map(|info| Box::new(TcpInfo { state: tcp::State::Closed, ..info }));
    }

    /// As after `socket`, but for what `bind` and the options have set.
    pub(crate) fn reset(&mut self) {
        self.phase = Phase::Idle;
        self.association = Association::Unconnected;
        self.bound = self.bound.filter(|bound| bound.by_bind);
        self.local = None;
        self.remote = None;
        self.shut_read = false;
        self.shut_write = false;
        self.options.read_shut = false;
        self.done = false;
        self.left = VecDeque::new();
        self.last = None;
        self.no_space = false;
    }
}

/// `tcpi_state` of an engine state.
pub(crate) const fn state_number(state: tcp::State) -> u8 {
    match state {
        tcp::State::Closed => TCP_CLOSE,
        tcp::State::Listen => TCP_LISTEN,
        tcp::State::SynSent => TCP_SYN_SENT,
        tcp::State::SynReceived => TCP_SYN_RECV,
        tcp::State::Established => TCP_ESTABLISHED,
        tcp::State::FinWait1 => TCP_FIN_WAIT1,
        tcp::State::FinWait2 => TCP_FIN_WAIT2,
        tcp::State::CloseWait => TCP_CLOSE_WAIT,
        tcp::State::Closing => TCP_CLOSING,
        tcp::State::LastAck => TCP_LAST_ACK,
        tcp::State::TimeWait => TCP_TIME_WAIT,
    }
}
