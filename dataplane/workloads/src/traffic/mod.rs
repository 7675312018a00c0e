//! Flows between two applications in one process, watched from outside: bulk data, requests and
//! responses, bursts, small writes, idle connections.
//!
//! ```text
//!   Source ---- pattern(flow, up) ----> Sink
//!          <--- pattern(flow, down) ---         (responses)
//!       \                             /
//!        ---------- Board -----------     what each flow has done, for whoever measures
//! ```
//!
//! Every byte is checked where it arrives. Source and sink know each other only through the network
//! and the [`Board`], on which the source writes the local port of each flow before its first segment
//! leaves, so the sink can tell whom it has accepted.

mod agenda;
mod board;
mod sink;
mod source;
#[cfg(test)]
mod tests;

use core::time::Duration;

use base::Rate;
use tcp::ConnOptions;

pub use board::{Board, Flow, SharedBoard};
pub use sink::Sink;
pub use source::Source;

/// Bytes offered to TCP at a time.
const WRITE_BYTES: usize = 64 * 1024;

/// What a source and its sink do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// What each flow carries.
    pub kind: Kind,
    /// How many flows.
    pub flows: u32,
    /// When the first one is opened, counted from the start of the source.
    pub start: Duration,
    /// Time between two of them.
    pub stagger: Duration,
    /// When nothing more is sent, counted likewise.
    pub stop: Option<Duration>,
    /// The sink.
    pub reader: Reader,
    /// Options of the source's connections; its `rcvbuf` is asked for by the sink.
    pub options: ConnOptions,
}

impl Spec {
    /// When flow `index` is opened.
    pub fn start_of(&self, index: u32) -> Duration {
        self.start.saturating_add(self.stagger.saturating_mul(index))
    }

    /// Whether flows end by themselves.
    pub fn ends(&self) -> bool {
        self.stop.is_some()
            || match self.kind {
                Kind::Bulk { bytes } | Kind::OnOff { bytes, .. } => bytes.is_some(),
                Kind::Rr { count, .. } | Kind::Writes { count, .. } => count.is_some(),
                Kind::Idle => false,
            }
    }
}

/// What a flow carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// As much as TCP takes.
    Bulk {
        /// Bytes in all; `None`: until stopped.
        bytes: Option<u64>,
    },
    /// A request, its response, the next request.
    Rr {
        /// Bytes of a request, at least one.
        request: u32,
        /// Bytes of a response, at least one.
        response: u32,
        /// Transactions in all; `None`: until stopped.
        count: Option<u64>,
    },
    /// As much as TCP takes, in turns.
    OnOff {
        /// For so long.
        on: Duration,
        /// Then nothing for so long.
        off: Duration,
        /// Bytes in all; `None`: until stopped.
        bytes: Option<u64>,
    },
    /// Small writes at a fixed rate. What TCP does not take at once is written as soon as it does.
    Writes {
        /// Bytes of a write, at least one.
        size: u32,
        /// Time between two of them, not zero.
        every: Duration,
        /// Writes in all; `None`: until stopped.
        count: Option<u64>,
    },
    /// Nothing.
    Idle,
}

/// How fast the sink reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reader {
    /// All that is there.
    #[default]
    Eager,
    /// Each flow at this rate.
    Rate(Rate),
    /// All that is there, but nothing for a while.
    Pause {
        /// From then on, counted from the start of the sink.
        at: Duration,
        /// For so long.
        time: Duration,
    },
}
