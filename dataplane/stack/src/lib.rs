//! All that one core owns: the device's frames, the table of connections, payload storage, timers,
//! neighbours, routes, ports, and the application.
//!
//! [`Stack::turn`] is the one loop body that workers, the simulator and the script runner share:
//! receive burst, input, deadlines, application, output, transmit burst. It runs to completion and
//! knows nothing of threads or DPDK; whatever crosses cores comes in as a [`Command`] and leaves as
//! an [`Outgoing`].

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod app;
pub mod command;
pub mod counters;
pub mod params;
pub mod stack;
mod stall;

mod conn;
mod control;
mod egress;
mod env;
mod familiar;
mod fragments;
mod gro;
mod ingress;
mod inner;
mod io;
mod ip_control;
mod links;
mod listeners;
mod neighbor_io;
mod outbox;
mod port_list;
mod storage;
mod tcp_input;
mod template;
mod time_waits;
mod timers_app;
mod transmit;

// Tables and queues, free of each other.
pub mod arena;
pub mod bounded;
pub mod conns;
pub mod demux;
pub mod icmp_limit;
pub mod isn;
pub mod neighbor;
pub mod ports;
pub mod reassembly;
pub mod route;
pub mod wheel;

#[cfg(test)]
mod tests;

pub use app::{App, AppEvent, ConnectError, Io, ListenError, Local, Message, Recv, Unreachable};
pub use command::{Command, ConnRow, Outgoing, Snapshot, Turn};
pub use conn::IdleBytes;
pub use counters::StackCounters;
pub use params::{ChecksumPolicy, Limits, LocalAddress, PortSetup, StackConfig, StackParams};
pub use stack::Stack;
