//! System calls as values: what is asked, what comes back.

use alloc::vec::Vec;
use core::time::Duration;

use crate::{Errno, SockAddr};

/// A blocked operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpId(pub u64);

/// What starting a call led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has returned.
    Done(Result<Value, Errno>),
    /// It sleeps; it will be among [`crate::Sockets::next_completed`].
    Blocked(OpId),
}

/// Bytes to send, piece by piece; `None` is a piece whose pointer leads nowhere (`EFAULT`).
pub type Gather = Vec<Option<Vec<u8>>>;
/// Lengths of buffers to fill; `None` is one whose pointer leads nowhere (`EFAULT`).
pub type Scatter = Vec<Option<usize>>;

/// One entry of `poll`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollFd {
    /// Negative ones are passed over.
    pub fd: i32,
    /// What is asked for.
    pub events: u16,
}

/// One entry of `epoll`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpollEvent {
    /// `EPOLL*`.
    pub events: u32,
    /// Whatever the caller has put there.
    pub data: u64,
}

/// A control message: level, type and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// `cmsg_level`.
    pub level: i32,
    /// `cmsg_type`.
    pub kind: i32,
    /// What follows the header.
    pub data: Vec<u8>,
}

/// A system call. Structures that a caller passes by pointer are `None` where the pointer leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the manual pages")]
pub enum Call {
    Socket {
        domain: i32,
        kind: i32,
        protocol: i32,
    },
    Bind {
        fd: i32,
        addr: Option<SockAddr>,
    },
    Listen {
        fd: i32,
        backlog: i32,
    },
    /// `accept` is `accept4` with no flags.
    Accept {
        fd: i32,
        flags: i32,
    },
    Connect {
        fd: i32,
        addr: Option<SockAddr>,
    },
    /// `read` and `readv`.
    Read {
        fd: i32,
        into: Scatter,
    },
    /// `recv`, `recvfrom` and `recvmsg`, the last with `control` if there is room for control messages.
    Receive {
        fd: i32,
        into: Scatter,
        flags: i32,
        control: bool,
    },
    /// `write` and `writev`.
    Write {
        fd: i32,
        from: Gather,
    },
    /// `send`, `sendto` and `sendmsg`.
    Send {
        fd: i32,
        from: Gather,
        flags: i32,
        to: Option<SockAddr>,
        control: Vec<Control>,
    },
    Shutdown {
        fd: i32,
        how: i32,
    },
    Close {
        fd: i32,
    },
    Dup {
        fd: i32,
    },
    /// `dup2` has no flags, and returns `new` if that is `old`.
    Dup2 {
        old: i32,
        new: i32,
    },
    Dup3 {
        old: i32,
        new: i32,
        flags: i32,
    },
    Fcntl {
        fd: i32,
        command: i32,
        argument: i64,
    },
    /// `value` is the integer that `FIONBIO` reads.
    Ioctl {
        fd: i32,
        request: u32,
        value: Option<i32>,
    },
    GetSockName {
        fd: i32,
    },
    GetPeerName {
        fd: i32,
    },
    SetSockOpt {
        fd: i32,
        level: i32,
        name: i32,
        value: Option<Vec<u8>>,
    },
    /// `room` is the length that the caller has told.
    GetSockOpt {
        fd: i32,
        level: i32,
        name: i32,
        room: i32,
    },
    /// `timeout`: `None` waits for ever.
    Poll {
        fds: Option<Vec<PollFd>>,
        timeout: Option<Duration>,
    },
    EpollCreate {
        size: i32,
    },
    EpollCreate1 {
        flags: i32,
    },
    EpollCtl {
        epoll: i32,
        operation: i32,
        fd: i32,
        event: Option<EpollEvent>,
    },
    EpollWait {
        epoll: i32,
        most: i32,
        timeout: Option<Duration>,
    },
}

impl Call {
    /// `read` into a good buffer.
    pub fn read(fd: i32, len: usize) -> Self {
        Self::Read { fd, into: [Some(len)].into() }
    }

    /// `recv` into a good buffer.
    pub fn recv(fd: i32, len: usize, flags: i32) -> Self {
        Self::Receive { fd, into: [Some(len)].into(), flags, control: false }
    }

    /// `write` from a good buffer.
    pub fn write(fd: i32, bytes: &[u8]) -> Self {
        Self::Write { fd, from: [Some(bytes.to_vec())].into() }
    }

    /// `send` from a good buffer.
    pub fn send(fd: i32, bytes: &[u8], flags: i32) -> Self {
        let from = [Some(bytes.to_vec())].into();
        Self::Send { fd, from, flags, to: None, control: Vec::new() }
    }

    /// `setsockopt` of an integer.
    pub fn set_int(fd: i32, level: i32, name: i32, value: i32) -> Self {
        Self::SetSockOpt { fd, level, name, value: Some(value.to_ne_bytes().to_vec()) }
    }

    /// `getsockopt` of an integer.
    pub const fn get_int(fd: i32, level: i32, name: i32) -> Self {
        Self::GetSockOpt { fd, level, name, room: 4 }
    }
}

/// What was received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// The return value: bytes received, also those that `MSG_TRUNC` threw away.
    pub count: usize,
    /// The bytes, to be spread over the caller's buffers.
    pub data: Vec<u8>,
    /// `msg_flags`.
    pub flags: i32,
    /// Control messages.
    pub control: Vec<Control>,
}

/// What a call returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A plain number.
    Int(i64),
    /// From the calls that receive.
    Received(Received),
    /// From `accept`: the descriptor, and the peer.
    Accepted {
        /// The new descriptor.
        fd: i32,
        /// The peer.
        peer: SockAddr,
    },
    /// From `getsockname` and `getpeername`.
    Address(SockAddr),
    /// From `getsockopt`: the bytes, at most as many as there was room for.
    Option(Vec<u8>),
    /// From `ioctl`s that return a number through a pointer.
    Out(i32),
    /// From `poll`: `revents` of each entry.
    Polled(Vec<u16>),
    /// From `epoll_wait`.
    Events(Vec<EpollEvent>),
}

impl Value {
    /// What the system call returns as its number.
    pub fn returned(&self) -> i64 {
        match self {
            Self::Int(n) => *n,
            Self::Received(received) => received.count as i64,
            Self::Accepted { fd, .. } => i64::from(*fd),
            Self::Address(_) | Self::Option(_) | Self::Out(_) => 0,
            Self::Polled(revents) => revents.iter().filter(|r| **r != 0).count() as i64,
            Self::Events(events) => events.len() as i64,
        }
    }
}
