//! Whole networks in virtual time, around the very [`stack::Stack::turn`] that workers run.
//!
//! ```text
//!              World: clock, heap of events, seed
//!   Host a --- nic --- Link (two directions) --- nic --- Host b
//!     |                      |                             |
//!   Stack<MemDevice>     recorder: trace hash, last frames, pcap
//!                        oracles: pools, lost timers, windows, liveness
//! ```
//!
//! - [`World`] moves time from event to event; [`Host`] is a stack on a device of the heap.
//! - [`LinkConfig`] says what a link does to frames; its fields have the names of scenario files.
//! - [`integrity`] is the application whose every byte is checked at the other end.
//! - [`swarm`] draws a whole world from a seed.
//! - [`Failure`] is what an oracle says: seed, time, and the frames that led there.
//!
//! There are no threads and no wall clock here; one seed gives one trace, which
//! [`World::trace_hash`] sums up. What later reads scenario files or draws plots builds on the same
//! types.

#![forbid(unsafe_code)]

pub mod drill;
mod events;
pub mod host;
pub mod integrity;
pub mod link;
pub mod nic;
pub mod oracle;
pub mod record;
pub mod router;
pub mod sabotage;
pub mod scenario;
pub mod swarm;
pub mod world;

pub use host::{CardConfig, Host, HostConfig};
pub use link::{Backlog, LinkConfig, LinkCounters, LinkDrop, Loss, Policer, Reorder, Room, Share};
pub use oracle::{Failure, Violation};
pub use router::{Ecmp, RouterConfig, RouterCounters};
pub use world::{HostId, LinkId, Node, Reached, RouterId, SwitchId, Way, World};
