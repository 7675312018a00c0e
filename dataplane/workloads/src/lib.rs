//! Applications that run on a worker and in the simulator alike.
//!
//! - [`iperf`]: a client and a server that speak the protocol of iperf3, with its reports.
//! - [`rr`]: request and response, short connections, idle connections.
//! - [`echo`]: sends back whatever arrives, with back-pressure.
//! - [`discard`]: takes whatever arrives.
//! - [`traffic`]: flows that are watched from outside: bulk, requests, bursts, small writes.
//! - [`pattern`]: bytes that can be checked.
//! - [`Bundle`]: several of them on one worker.
//!
//! Each is a [`stack::App`]: run-to-completion callbacks over [`stack::Io`]. There is no I/O, no
//! thread and no clock here; what a person shall see is published as a value and turned into text
//! by pure renderers ([`iperf::text`], [`rr::json`] and so on), so a run in virtual time prints the very
//! same lines as one on a NIC.

#![forbid(unsafe_code)]

mod alarm;
mod bundle;
pub mod discard;
pub mod echo;
pub mod iperf;
pub mod pattern;
pub mod rr;
pub mod traffic;

pub use bundle::{APPS_MAX, Bundle};

#[cfg(any(test, feature = "fake"))]
pub mod fake;
