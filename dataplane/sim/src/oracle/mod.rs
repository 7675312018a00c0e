//! What must hold in every world, and how a failure is told.

mod windows;

use core::fmt;
use core::time::Duration;

use base::Instant;
use stack::{Snapshot, Turn};
use tcp::State;

use crate::record::Seconds;
pub(crate) use windows::Windows;

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Hosts turn for ever without time moving.
    Livelock {
        /// Turns within one instant.
        turns: u64,
    },
    /// More events than a run may have.
    Steps {
        /// The ceiling.
        limit: u64,
    },
    /// Something did not happen within a bounded virtual time.
    Liveness {
        /// What was waited for.
        what: String,
        /// For how long.
        limit: Duration,
    },
    /// A host has work and neither a deadline nor a pending turn: a lost timer.
    LostTimer {
        /// The host.
        host: String,
        /// The connection that would wait for ever.
        connection: String,
    },
    /// All connections are gone, their buffers are not.
    Leak {
        /// The host.
        host: String,
        /// Payload buffers missing.
        payload: u32,
        /// Header buffers missing.
        headers: usize,
    },
    /// The right edge of an offered window has moved back.
    WindowShrunk {
        /// The flow and the numbers.
        detail: String,
    },
    /// Data beyond the window that the peer has offered.
    WindowExceeded {
        /// The flow and the numbers.
        detail: String,
    },
    /// The application has found wrong bytes, or too many, or too few.
    Integrity {
        /// What it says.
        detail: String,
    },
}

impl Violation {
    /// The oracle that has found it.
    pub const fn oracle(&self) -> &'static str {
        match self {
            Self::Livelock { .. } => "livelock",
            Self::Steps { .. } => "steps",
            Self::Liveness { .. } => "liveness",
            Self::LostTimer { .. } => "lost timer",
            Self::Leak { .. } => "leak",
            Self::WindowShrunk { .. } => "window shrunk",
            Self::WindowExceeded { .. } => "window exceeded",
            Self::Integrity { .. } => "integrity",
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Livelock { turns } => write!(f, "livelock: {turns} turns and time stands still"),
            Self::Steps { limit } => write!(f, "more than {limit} turns in one run"),
            Self::Liveness { what, limit } => write!(f, "not within {limit:?}: {what}"),
            Self::LostTimer { host, connection } => {
                write!(f, "{host} has work but neither deadline nor pending turn: {connection}")
            }
            Self::Leak { host, payload, headers } => write!(
                f,
                "{host} is quiet, but {payload} payload and {headers} header buffers are missing"
            ),
            Self::WindowShrunk { detail } => write!(f, "offered window moved back: {detail}"),
            Self::WindowExceeded { detail } => write!(f, "sent beyond the window: {detail}"),
            Self::Integrity { detail } => write!(f, "integrity: {detail}"),
        }
    }
}

/// A run that failed, with all that is needed to see why.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed of the world.
    pub seed: u64,
    /// Virtual time.
    pub at: Instant,
    /// What.
    pub violation: Violation,
    /// Hosts and links, a line each.
    pub world: Vec<String>,
    /// The last frames, a line each, oldest first.
    pub frames: Vec<String>,
}

impl Failure {
    /// Where the frames are shown anyway.
    pub fn without_frames(self) -> Self {
        Self { frames: Vec::new(), ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.frames {
            writeln!(f, "{line}")?;
        }
        for line in &self.world {
            writeln!(f, "{line}")?;
        }
        write!(f, "seed {}, at {} s: {}", self.seed, Seconds(self.at), self.violation)
    }
}

impl std::error::Error for Failure {}

/// Whether a turn leaves it open if something would wait for ever, so that the connections have to
/// be looked at.
pub fn is_suspect(turn: &Turn, table: [u32; 3]) -> bool {
    !turn.pending && turn.next_deadline.is_none() && table[0] + table[1] > 0
}

/// The first connection that has work of its own but, since its host has no deadline, no timer.
pub fn stuck_connection(snapshot: &Snapshot) -> Option<String> {
    let row = snapshot.connections.iter().find(|row| match row.state {
        State::SynSent | State::SynReceived => true,
        State::Closed | State::Listen => false,
        _ => row.send_queue > 0,
    })?;
    Some(format!("{} > {} {:?} send queue {}", row.local, row.remote, row.state, row.send_queue))
}
