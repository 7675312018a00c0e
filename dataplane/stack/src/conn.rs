//! What the stack knows of a connection besides the engine's state.

use alloc::boxed::Box;

use base::{Instant, ListenerId, PortId};
use tcp::{CloseReason, Connection, Handshake, SeqNum, State};
use wire::{FlowKey, Mac};

use crate::env::ParamsIndex;
use crate::links::Link;
use crate::storage::{RecvStore, SendStore};

/// Where a connection stands.
pub(crate) enum Phase {
    /// SYN-SENT or SYN-RECEIVED.
    Handshake(Handshake),
    /// The synchronised states.
    Open(Box<Connection>),
    /// Closed in order, but the application has not read everything yet. No segment finds it any
    /// more.
    Drained(CloseReason),
}

/// What the application has not been told yet. Edges: told once per turn at most.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pending {
    pub(crate) accepted: bool,
    pub(crate) connected: bool,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    pub(crate) peer_closed: bool,
    /// The engine is done with it: why, and whether a TIME-WAIT record is to be kept.
    pub(crate) closed: Option<(CloseReason, bool)>,
}

impl Pending {
    pub(crate) const fn any(&self) -> bool {
        let Self { accepted, connected, readable, writable, peer_closed, closed } = self;
        *accepted || *connected || *readable || *writable || *peer_closed || closed.is_some()
    }
}

/// A hardware address, remembered for a while so that not each frame asks the neighbour table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CachedMac {
    pub(crate) mac: Mac,
    /// The generation of the neighbour table in which it was looked up.
    pub(crate) generation: u32,
    /// When to look again, so that the table knows that the neighbour is in use.
    pub(crate) until: Instant,
}

/// A connection in any phase but TIME-WAIT.
pub(crate) struct Conn {
    pub(crate) phase: Phase,
    pub(crate) key: FlowKey,
    /// The port by which it sends. Routes do not change, so neither does this.
    pub(crate) port: PortId,
    pub(crate) params: ParamsIndex,
    /// The listener whose queues count it: while half-open, and until the application knows it.
    pub(crate) listener: Option<ListenerId>,
    pub(crate) pending: Pending,
    /// The application has called `close`: it reads no more.
    pub(crate) discard: bool,
    /// `discard`, and counted among the orphans.
    pub(crate) orphan: bool,
    /// The application has called `shutdown_read`: what arrives is taken, and thrown away.
    pub(crate) deaf: bool,
    /// The peer's FIN has come in order.
    pub(crate) peer_closed: bool,
    /// The application has never heard of it, and never will.
    pub(crate) untold: bool,
    /// The application has tried to send before the connection stood.
    pub(crate) wants_room: bool,
    /// When the SYN arrived.
    pub(crate) syn_arrival: Instant,
    /// Sequence number after the last byte ever sent; while opening, that of the SYN.
    pub(crate) snd_max: SeqNum,
    pub(crate) mac: Option<CachedMac>,
    /// Acknowledgements have come since the neighbour was last confirmed.
    pub(crate) progress: bool,
    pub(crate) recv: RecvStore,
    pub(crate) send: SendStore,
    /// In the list of connections that may have something to send.
    pub(crate) ready: Link,
    /// In the list of connections with news for the application.
    pub(crate) news: Link,
    /// In the list of connections whose application waits for buffers.
    pub(crate) starved: Link,
}

/// Where the bytes of an idle connection are: established, nothing to send, to read or to wait for. What
/// only moving data needs (congestion control, recovery, queues of payload) is given back by then, and
/// the application's own state is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleBytes {
    /// What the stack knows of it, in its slab.
    pub stack: usize,
    /// The engine's state.
    pub engine: usize,
    /// What the allocator adds to that.
    pub allocator: usize,
    /// Its timer.
    pub timer: usize,
    /// Its place in the table of flows, at most.
    pub demux: usize,
}

impl IdleBytes {
    /// Of this build.
    pub const PER_CONNECTION: Self = Self {
        stack: crate::conns::slot_bytes::<Conn>(),
        engine: size_of::<Connection>(),
        allocator: 16,
        timer: crate::wheel::TIMER_BYTES,
        demux: crate::demux::ENTRY_BYTES_MAX,
    };

    /// All of it.
    pub const fn total(self) -> usize {
        let Self { stack, engine, allocator, timer, demux } = self;
        stack + engine + allocator + timer + demux
    }
}

/// The promise is 1024; the rest of it is for what follows.
const IDLE_BYTES_MAX: usize = 1024;
const _: () = assert!(IdleBytes::PER_CONNECTION.total() <= IDLE_BYTES_MAX);

impl Conn {
    pub(crate) fn new(
        (key, port): (FlowKey, PortId),
        params: ParamsIndex,
        handshake: Handshake,
        listener: Option<ListenerId>,
        iss: SeqNum,
        syn_arrival: Instant,
    ) -> Self {
        Self {
            phase: Phase::Handshake(handshake),
            key,
            port,
            params,
            listener,
            pending: Pending::default(),
            discard: false,
            orphan: false,
            deaf: false,
            peer_closed: false,
            untold: false,
            wants_room: false,
            syn_arrival,
            snd_max: iss,
            mac: None,
            progress: false,
            recv: RecvStore::default(),
            send: SendStore::default(),
            ready: Link::default(),
            news: Link::default(),
            starved: Link::default(),
        }
    }

    pub(crate) fn state(&self) -> State {
        match &self.phase {
            Phase::Handshake(handshake) => handshake.state(),
            Phase::Open(connection) => connection.state(),
            Phase::Drained(_) => State::Closed,
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Handshake(handshake) => handshake.next_deadline(),
            Phase::Open(connection) => connection.next_deadline(),
            Phase::Drained(_) => None,
        }
    }
}
