//! The TCP protocol engine: a pure machine over sequence numbers and ranges.
//!
//! It receives segments, deadlines and application calls together with the present time, and answers
//! with segments to send ([`Plan`]), events and its next deadline. It does no I/O, reads no clock,
//! starts no thread and never touches a payload byte: bytes are the stack's business.
//!
//! The four phases of a connection are four types, because that is where the data really differs:
//! [`Listener`] (LISTEN), [`Handshake`] (SYN-SENT, SYN-RECEIVED), [`Connection`] (the synchronised
//! states) and [`TimeWait`]. Every call takes a [`Cx`].

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod cc;
pub mod connection;
pub mod counters;
pub(crate) mod ecn;
pub mod event;
pub mod handshake;
pub mod info;
pub mod listen;
pub mod mss;
pub mod params;
pub mod plan;
pub(crate) mod recovery;
pub mod recv;
pub mod rtt;
pub mod segment;
pub mod send;
pub mod seq;
pub mod state;
#[cfg(test)]
mod testing;
pub mod time_wait;
mod timers;
pub mod timestamp;
mod user_timeout;
pub mod window;

pub use connection::{Connection, Disposition, Keep, Opening, reset_for};
pub use counters::TcpCounters;
pub use event::{CloseReason, Event, SendError};
pub use handshake::{Handshake, HandshakeInput};
pub use info::{CcInfo, TcpInfo};
pub use listen::{ListenInput, Listener};
pub use params::{Autotuning, ConnOptions, PathParams, TcpParams};
pub use plan::{Plan, PlanKind};
pub use rtt::{Estimator, Rto, backoff_time};
pub use segment::{SegOptions, Segment};
pub use send::Quiet;
pub use seq::{SeqNum, SeqRange};
pub use state::{State, StateEvent};
pub use time_wait::{TimeWait, TimeWaitInput, TimeWaitSeed};
pub use user_timeout::UserTimeoutOption;
pub use window::WindowScale;

use base::{Instant, Random};

/// What every call into the engine brings along. The engine holds no door of its own.
pub struct Cx<'a> {
    /// The present time, one reading per turn.
    pub now: Instant,
    /// The parameters that this connection was opened with.
    pub params: &'a TcpParams,
    /// Randomness.
    pub random: &'a mut dyn Random,
    /// This worker's counters.
    pub counters: &'a mut TcpCounters,
    /// Bytes by which receive windows may still grow, given the buffers at hand. The engine never
    /// moves the right edge of a window further than this, and never back (in a header it may appear
    /// rounded down by less than one unit of the window scale).
    pub rcv_room: u32,
    /// Whether a received segment could be stored at all now. When false, data are dropped with
    /// [`base::DropReason::RcvMemory`] or [`base::DropReason::OfoLimit`].
    pub can_store: bool,
    /// What it costs to store payload.
    pub buffers: BufferCost,
    /// Buffers are short everywhere: no window may count on many.
    pub memory_pressure: bool,
}

/// What it costs to store received payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferCost {
    /// Payload bytes that one buffer takes.
    pub room: u32,
    /// Memory that one buffer occupies, with its headroom and its record, bytes; zero: not known, and
    /// twice the payload is reckoned with.
    pub bytes: u32,
    /// Segments of at most that many bytes share a buffer with the one before.
    pub shared_up_to: u32,
}

impl BufferCost {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { room: u32::MAX, bytes: 0, shared_up_to: 0 };

    /// Memory for a run of `segs` segments of `seg_size` bytes, `len` in all.
    pub const fn of_run(&self, len: u32, seg_size: u32, segs: u16) -> u32 {
        if self.bytes == 0 || seg_size <= self.shared_up_to || self.room == 0 {
            return len.saturating_mul(2);
        }
        let buffers = seg_size.div_ceil(self.room).saturating_mul(segs as u32);
        buffers.saturating_mul(self.bytes)
    }
}
