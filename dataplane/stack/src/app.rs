//! The interface that application code is written against.
//!
//! An [`App`] runs to completion on the worker that owns its connections: each call does what it
//! can do now and returns. It never blocks, never prints, reads no clock but [`Io::now`] and draws
//! no randomness but [`Io::random`], so the same code runs in the simulator. What people shall see
//! is published as a value ([`Io::publish`]) and formatted elsewhere.

use alloc::boxed::Box;
use core::any::Any;
use core::net::{IpAddr, SocketAddr};

use base::{ConnId, Instant, ListenerId, WorkerId};
use tcp::{CloseReason, ConnOptions, SendError, TcpInfo};

use crate::StackParams;

/// Something small and owned that crosses cores.
pub type Message = Box<dyn Any + Send>;

/// What happened. `Readable` and `Writable` are edges: they come once per turn in which something
/// changed, so an application drains until there is nothing left or remembers that it did not.
pub enum AppEvent {
    /// The stack runs; listen, connect, set timers.
    Start,
    /// A listener has a new established connection.
    Accepted {
        /// The listener.
        listener: ListenerId,
        /// The new connection.
        conn: ConnId,
        /// When its SYN arrived: connections of one peer can be put into the order of their SYNs.
        syn_arrival: Instant,
    },
    /// A connection that we opened is established.
    Connected {
        /// The connection.
        conn: ConnId,
    },
    /// Bytes have arrived in order.
    Readable {
        /// The connection.
        conn: ConnId,
    },
    /// There is room to send again after [`Io::send`] took less than it was given.
    Writable {
        /// The connection.
        conn: ConnId,
    },
    /// The peer has closed its side: after the readable bytes comes the end.
    PeerClosed {
        /// The connection.
        conn: ConnId,
    },
    /// The connection is gone, and its id with it: for the last time it can be asked, and what it has
    /// received can be taken, while this event is handled. Comes exactly once for each connection that
    /// was accepted or asked for, also when connecting failed and also after [`Io::abort`].
    Closed {
        /// The connection.
        conn: ConnId,
        /// Why.
        reason: CloseReason,
    },
    /// A timer has run out.
    Timer {
        /// As given to [`Io::set_timer`].
        token: u64,
    },
    /// A message from an application on another worker, or from the control thread.
    Message {
        /// The sender; `None` for the control thread.
        from: Option<WorkerId>,
        /// The message.
        message: Message,
    },
    /// The dataplane is about to stop: finish politely. Turns go on for a while, until all
    /// connections are gone or the limit is reached.
    Stop,
}

/// An application. (`Any`: whoever has made it can find it again, see [`crate::Stack::with_app`].)
pub trait App: Any {
    /// Something happened.
    fn on_event(&mut self, io: &mut dyn Io, event: AppEvent);
}

/// Why listening failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListenError {
    /// Another listener has this port (and an overlapping address).
    InUse,
    /// The address is not ours.
    NotOurs,
    /// Port zero, or too many listeners.
    Invalid,
}

/// Where a connection that we open begins. What is left open is chosen: the address by the route, the
/// port among those that are free towards the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Local {
    /// One of our addresses; an unspecified one counts as `None`.
    pub addr: Option<IpAddr>,
    /// A port, not zero.
    pub port: Option<u16>,
}

impl Local {
    /// Any of our addresses and any free port.
    pub const ANY: Self = Self { addr: None, port: None };

    /// From this address of ours, from a free port.
    pub const fn addr(addr: IpAddr) -> Self {
        Self { addr: Some(addr), port: None }
    }

    /// From this port, at the address that the route says.
    pub const fn port(port: u16) -> Self {
        Self { addr: None, port: Some(port) }
    }
}

/// From exactly there.
impl From<SocketAddr> for Local {
    fn from(at: SocketAddr) -> Self {
        Self { addr: Some(at.ip()), port: Some(at.port()) }
    }
}

/// Why connecting failed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectError {
    /// No address of ours in the peer's family (or the one asked for is not of it), or no route.
    NoRoute,
    /// The local address asked for is not ours.
    NotOurs,
    /// Unspecified, multicast or broadcast address, or port zero.
    Invalid,
    /// All ports of the local address towards this peer are in use (or the one asked for is).
    PortsExhausted,
    /// Connection table or memory is full.
    Limit,
}

/// What the network has said of a destination that it could not reach, RFC 792 and RFC 4443.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unreachable {
    /// The network.
    Network,
    /// The host.
    Host,
    /// The host does not speak TCP.
    Protocol,
    /// Nobody listens there.
    Port,
    /// Somebody forbids it (IPv6 says so; IPv4 names what is cut off by it).
    Prohibited,
}

/// What [`Io::recv`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recv {
    /// Bytes that the closure took.
    pub taken: usize,
    /// Bytes still readable.
    pub left: usize,
    /// Everything has been taken and the peer has closed its side.
    pub end: bool,
}

/// What a stack offers an application: the user calls of RFC 9293 section 3.9.1 without their blocking.
/// Calls with a stale [`ConnId`] do nothing and say so.
pub trait Io {
    /// The time of this turn.
    fn now(&self) -> Instant;

    /// Which worker this is.
    fn worker(&self) -> WorkerId;

    /// How many workers there are.
    fn workers(&self) -> u16;

    /// The parameters in force for what begins now.
    fn params(&self) -> &StackParams;

    /// Whether this is one of our addresses.
    fn is_local(&self, addr: IpAddr) -> bool;

    /// A random number.
    fn random(&mut self) -> u64;

    /// Listen on `port`, at one of our addresses, at all of one family (its unspecified address) or at
    /// all of both (`None`). The backlog bounds half-open and not yet accepted connections each.
    fn listen(
        &mut self,
        addr: Option<IpAddr>,
        port: u16,
        backlog: u32,
        options: &ConnOptions,
    ) -> Result<ListenerId, ListenError>;

    /// Stop listening; half-open connections of the listener are reset.
    fn close_listener(&mut self, listener: ListenerId);

    /// Change what connections accepted from now on inherit.
    fn set_listener_options(&mut self, listener: ListenerId, options: &ConnOptions);

    /// The backlog of a listener from now on, and how many of its connections the application has been
    /// told of and keeps waiting (`accept` not yet called): they count against it.
    fn set_listener_queue(&mut self, listener: ListenerId, backlog: u32, waiting: u32);

    /// Whether a connection or TIME-WAIT record has this local port. A walk over all of them.
    fn is_port_used(&self, port: u16) -> bool;

    /// Open a connection from `local`. The route decides on the port of the instance that it uses,
    /// also for an address of another one; a scope (of a link-local address, above all) names one,
    /// counted from 1.
    fn connect(
        &mut self,
        remote: SocketAddr,
        local: Local,
        options: &ConnOptions,
    ) -> Result<ConnId, ConnectError>;

    /// Our end.
    fn local_addr(&self, conn: ConnId) -> Option<SocketAddr>;

    /// The peer's end.
    fn remote_addr(&self, conn: ConnId) -> Option<SocketAddr>;

    /// Bytes that [`Io::send`] would take now, if not more: it may fill what a buffer has left.
    fn send_room(&self, conn: ConnId) -> usize;

    /// Whether there is room worth waking a writer for: a third of the send buffer, and little enough
    /// unsent (`tcp_notsent_lowat`). What a poll shows.
    fn is_writable(&self, conn: ConnId) -> bool;

    /// A poll has found that there is none: a [`AppEvent::Writable`] follows once there is.
    fn want_writable(&mut self, conn: ConnId);

    /// Send from `data`; returns how many bytes were taken (copied). Less than all: a
    /// [`AppEvent::Writable`] follows. `more`: further bytes follow in this call of the
    /// application, so a partial segment may wait for them.
    fn send(&mut self, conn: ConnId, data: &[u8], more: bool) -> Result<usize, SendError>;

    /// `MSG_EOR`: what was sent so far and what follows are never in one segment.
    fn end_record(&mut self, conn: ConnId);

    /// Bytes that can be received now.
    fn readable(&self, conn: ConnId) -> usize;

    /// Lend the received bytes, slice after slice in order, to `take`, which returns how many it
    /// has taken; it is called again with the next slice only if it took all of the last one.
    /// Returns `None` for a stale id.
    fn recv(&mut self, conn: ConnId, take: &mut dyn FnMut(&[u8]) -> usize) -> Option<Recv>;

    /// Look at the received bytes, slice after slice in order, for as long as `look` asks for more.
    fn peek(&self, conn: ConnId, look: &mut dyn FnMut(&[u8]) -> bool);

    /// No more data from us: FIN after what is queued. Receiving goes on.
    fn shutdown(&mut self, conn: ConnId);

    /// Nothing will be read any more, while sending goes on: what waits and what still comes is
    /// acknowledged and thrown away, so a peer that sends is not held up. Cannot be taken back.
    fn shutdown_read(&mut self, conn: ConnId);

    /// Like `close` of a socket: FIN after what is queued, and nothing is received any more; unread
    /// or later data reset the connection. `ConnOptions::linger_sec` limits how long what is queued
    /// may take. A connection that is not yet established ([`Io::connect`]) is given up.
    fn close(&mut self, conn: ConnId);

    /// Reset the connection.
    fn abort(&mut self, conn: ConnId);

    /// Change options of a connection.
    fn set_options(&mut self, conn: ConnId, options: &ConnOptions);

    /// Send what is queued now, though the last segment be partial.
    fn push(&mut self, conn: ConnId);

    /// `TCP_QUICKACK`: acknowledge at once for a while, or go back to delaying.
    fn set_quickack(&mut self, conn: ConnId, on: bool);

    /// Whether acknowledgements are sent at once at present.
    fn is_quickack(&self, conn: ConnId) -> bool;

    /// What the network said last of a connection's destination, if it could not be reached.
    fn unreachable(&self, conn: ConnId) -> Option<Unreachable>;

    /// The snapshot of a connection.
    fn info(&self, conn: ConnId) -> Option<TcpInfo>;

    /// Set the application's timer `token`, replacing its earlier deadline. At most 1024 timers per
    /// application; false beyond that.
    fn set_timer(&mut self, token: u64, at: Instant) -> bool;

    /// Cancel the application's timer `token`.
    fn cancel_timer(&mut self, token: u64);

    /// Send a message to the application on another worker (or on this one). Gives it back when
    /// the mailbox is full or the worker does not exist.
    fn post(&mut self, to: WorkerId, message: Message) -> Result<(), Message>;

    /// Hand something to the outside, to be formatted or recorded there. Gives it back when the
    /// outside does not keep up.
    fn publish(&mut self, message: Message) -> Result<(), Message>;

    /// The application has done what it was started for: ask the whole dataplane to stop, with this
    /// exit code (0 done, 1 failed).
    fn exit(&mut self, code: u8);
}
