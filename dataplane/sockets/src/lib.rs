//! POSIX socket semantics over the stack: what an application of Linux expects of its system calls,
//! down to numbers and errors, without threads. A call that would block becomes an operation that
//! completes later.
//!
//! [`Sockets`] holds the descriptors of one application on one worker. [`Sockets::start`] makes a
//! [`Call`] at the present time and answers with an [`Outcome`]; operations that were blocked come out
//! of [`Sockets::next_completed`]. It is an [`stack::App`], by which it hears of the network.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod abi;
pub mod addr;
pub mod call;
pub mod errno;
pub mod info;
pub mod sockets;

mod close;
mod data;
mod epoll;
mod events;
mod file;
mod open;
mod options;
mod ready;
mod slab;
mod socket;

#[cfg(test)]
mod tests;

pub use addr::SockAddr;
pub use call::{
    Call, Control, EpollEvent, Gather, OpId, Outcome, PollFd, Received, Scatter, Value,
};
pub use errno::Errno;
pub use info::LinuxTcpInfo;
pub use sockets::{Config, Sockets};
