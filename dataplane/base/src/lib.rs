//! Shared vocabulary of the dataplane and its three doors to the outside: time ([`Clock`]),
//! randomness ([`Random`]) and frames ([`Device`]).
//!
//! Production, the simulator and the script runner differ only in what stands behind these doors.
//! A type belongs here when at least two crates need it in their public interface and it decides
//! nothing. There is no I/O, no clock and no unsafe code; [`mem`] is the heap-backed device that
//! tests, fuzzing and the simulator use.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod device;
pub mod drop;
pub mod ecn;
pub mod flags;
pub mod id;
pub mod mem;
pub mod random;
pub mod rate;
pub mod time;

pub use device::{
    Buffers, Capabilities, Checksum, Device, Frame, L4Offload, Offloads, RX_BURST_FRAMES, RxBatch,
    RxMeta, TxMeta,
};
pub use drop::DropReason;
pub use ecn::Ecn;
pub use flags::TcpFlags;
pub use id::{ConnId, ListenerId, PORTS_MAX, PortId, WorkerId};
pub use random::{Random, SeededRandom};
pub use rate::Rate;
pub use time::{Clock, Instant};
