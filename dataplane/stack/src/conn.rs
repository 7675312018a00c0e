//! What the stack knows of a connection besides the engine's state.

use alloc::boxed::Box;
use alloc::vec::Vec;

use base::{Instant, ListenerId, PortId};
use tcp::{CloseReason, ConnOptions, Connection, Event, Handshake, SeqNum, State};
use wire::{FlowKey, Mac};

use crate::Unreachable;
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
        // Without a branch for each.
        *accepted | *connected | *readable | *writable | *peer_closed | closed.is_some()
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
    /// The wheel may not know its deadline yet; see [`Unfiled`].
    pub(crate) unfiled: bool,
    /// `IP_TOS` or `IPV6_TCLASS` of its packets.
    pub(crate) tos: u8,
    /// What the network said last of its destination.
    pub(crate) unreachable: Option<Unreachable>,
    /// TTL or hop limit, instead of the knob.
    pub(crate) ttl: Option<u8>,
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
            tos: 0,
            unreachable: None,
            ttl: None,
            unfiled: false,
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

    /// What the application asks for that is about packets.
    pub(crate) fn set_marks(&mut self, options: &ConnOptions) {
        self.tos = options.tos;
        self.ttl = options.ttl;
    }

    pub(crate) fn state(&self) -> State {
        match &self.phase {
            Phase::Handshake(handshake) => handshake.state(),
            Phase::Open(connection) => connection.state(),
            Phase::Drained(_) => State::Closed,
        }
    }

    /// It will be visited and filed in this turn anyway, and has no news.
    #[inline]
    pub(crate) fn is_noted(&self) -> bool {
        self.unfiled
            && self.ready.is_linked()
            && matches!(&self.phase, Phase::Open(connection) if !connection.has_event())
    }

    /// Take over the engine's events. Whether the connection may have something to send.
    pub(crate) fn take_events(&mut self) -> bool {
        let connection = match &mut self.phase {
            Phase::Open(connection) => connection,
            Phase::Handshake(_) => return true,
            Phase::Drained(_) => return false,
        };
        if connection.has_event() {
            while let Some(event) = connection.poll_event() {
                let pending = &mut self.pending;
                match event {
                    Event::Readable => pending.readable = !self.discard && !self.deaf,
                    Event::Writable => pending.writable = !self.discard,
                    Event::PeerClosed => {
                        self.peer_closed = true;
                        pending.peer_closed = !self.discard;
                    }
                    Event::Closed { reason, time_wait } => {
                        pending.closed = Some((reason, time_wait));
                    }
                }
            }
        }
        connection.may_have_plan()
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Handshake(handshake) => handshake.next_deadline(),
            Phase::Open(connection) => connection.next_deadline(),
            Phase::Drained(_) => None,
        }
    }
}

/// Connections noted at most before the wheel must hear of them.
const UNFILED_MAX: usize = 1024;

/// Connections whose deadlines may have changed since the wheel heard of them. A turn touches a
/// connection several times, and all but the last deadline of it are of no interest to anybody: timers
/// are looked at once per turn.
pub(crate) struct Unfiled(Vec<u32>);

impl Unfiled {
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(UNFILED_MAX))
    }

    /// The connection in `slot` was looked at.
    #[inline]
    pub(crate) fn note(&mut self, slot: u32, conn: &mut Conn) {
        if !core::mem::replace(&mut conn.unfiled, true) {
            self.0.push(slot);
        }
    }

    /// No more may be noted.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= UNFILED_MAX
    }

    /// Any of them. Its mark says whether it is still to be filed.
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.0.pop()
    }
}
