//! Threads: one pinned worker per core that calls [`stack::Stack::turn`] for ever, and the control
//! thread, which owns whatever is slow, global or may block.
//!
//! The control thread is the one that calls [`Dataplane::run`]. It posts [`stack::Command`]s into
//! bounded lock-free mailboxes and takes [`stack::Outgoing`]s out of others; it never touches a
//! worker's state. Neighbour ageing, rotation of secrets, link state, the watchdog, the knobs and the
//! control socket live there.

#![forbid(unsafe_code)]

pub mod client;
mod clock;
mod control;
pub mod frames;
mod idle;
mod mailbox;
#[cfg(feature = "dpdk")]
pub mod ports;
pub mod protocol;
pub mod raw;
mod rows;
mod signals;
mod socket;
mod sync;
mod worker;

pub use control::{Dataplane, Hooks, LinkState, Options, Outcome};
pub use idle::IdlePolicy;
pub use socket::{SocketError, socket_path};
pub use worker::{MakeParts, WorkerParts, WorkerSetup};

/// Cores that this process may use, in ascending order.
pub fn available_cores() -> Vec<usize> {
    let mut cores: Vec<usize> =
        core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|c| c.id).collect();
    cores.sort_unstable();
    cores
}
