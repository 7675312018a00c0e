//! What crosses the border of a worker: commands in, results out.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;

use base::{Buffers, DropReason, Instant, PortId, WorkerId};
use tcp::{State, TcpCounters, TcpInfo};

use crate::{Message, StackCounters, StackParams};

/// What the control thread or another worker asks of a stack. Handled at the start of a turn.
pub enum Command {
    /// Run with these parameters from now on; answered by [`Outgoing::ParamsApplied`].
    SetParams(Arc<StackParams>),
    /// Deliver to the application.
    Message {
        /// `None`: the control thread.
        from: Option<WorkerId>,
        /// The message.
        message: Message,
    },
    /// Age neighbour entries and the ICMP limiter; sent about once a second.
    Age,
    /// Draw new secrets for what can change them without harm.
    RotateSecrets,
    /// Answer with [`Outgoing::Snapshot`]; `connections` includes a row per connection, at most
    /// this many.
    Snapshot {
        /// How many rows at most.
        connections: u32,
    },
    /// Stop in order: tell the application, take no new connections, finish within
    /// `StackConfig::stop_limit`; then [`Outgoing::Stopped`].
    Stop,
}

/// What leaves a stack.
pub enum Outgoing {
    /// For the application on another worker.
    ToWorker(WorkerId, Message),
    /// For the outside: see [`crate::Io::publish`].
    Publish(Message),
    /// The parameters of this generation are in force.
    ParamsApplied(u64),
    /// The answer to [`Command::Snapshot`].
    Snapshot(Box<Snapshot>),
    /// The application asks for the end of the dataplane, with an exit code.
    Exit(u8),
    /// A burst of wrong TCP checksums with nothing right among them: the peer probably leaves
    /// checksums to hardware. Sent once for each port.
    ChecksumTrap(PortId),
    /// The stop is complete.
    Stopped,
}

/// One connection for `ss`.
#[derive(Clone, Debug)]
pub struct ConnRow {
    /// Our end.
    pub local: SocketAddr,
    /// The peer's end (unspecified and port 0 for a listener).
    pub remote: SocketAddr,
    /// The port by which it sends; `None` for a listener at all addresses.
    pub port: Option<PortId>,
    /// The state.
    pub state: State,
    /// Bytes not read; for a listener: connections waiting.
    pub recv_queue: u32,
    /// Bytes not acknowledged; for a listener: the backlog.
    pub send_queue: u32,
    /// The rest, for synchronised connections.
    pub info: Option<TcpInfo>,
}

/// A copy of what a worker knows about itself.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// When it was taken.
    pub now: Instant,
    /// Generation of the parameters in force.
    pub generation: u64,
    /// Protocol counters.
    pub tcp: TcpCounters,
    /// All other counters.
    pub stack: StackCounters,
    /// Frames discarded, by [`DropReason`] as index.
    pub drops: [u64; DropReason::COUNT],
    /// Buffer pool.
    pub buffers: Buffers,
    /// Connections, handshakes and TIME-WAIT records.
    pub table: [u32; 3],
    /// Rows, if asked for.
    pub connections: Vec<ConnRow>,
}

/// What a turn did, for the idle policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Frames received, deadlines handled, commands taken and frames sent.
    pub work: u32,
    /// When the next turn is due even if nothing arrives; `None`: nothing is waiting for time.
    pub next_deadline: Option<Instant>,
    /// Frames wait for room in the device, or connections for a turn: do not sleep.
    pub pending: bool,
}
