//! Request and response: latency, connections per second, connections that stand idle.
//!
//! A [`Client`] sends requests of N bytes, and a [`Server`] answers each with M bytes. The sizes
//! are in a [`Header`] at the front of each request, of which the server reads the first per
//! connection, so that nothing has to be said on the server's side. Requests shorter than a header
//! carry none; then, and for clients that are not ours, the server sends as many bytes as came, or
//! what its own configuration says. Against an ordinary echo server a client therefore works when
//! both sizes are equal, and so does this server for whoever expects an echo of that length.
//!
//! Times are those of turns: a request is stamped with the time of the turn that sends it and its
//! answer with that of the turn that takes it in, each read when the turn began. On a polling worker
//! a turn without work lasts about a tenth of a microsecond, and by so much one time may be off; on
//! one connection with one request under way the mean is exact, because each round trip begins
//! where the one before has ended.

mod client;
mod header;
mod hist;
mod log;
mod meter;
mod report;
mod server;
mod table;

pub mod json;
pub mod text;
pub mod totals;

pub use client::{Client, ClientConfig, sources};
pub use header::{HEADER_BYTES, Header, MESSAGE_BYTES_MAX};
pub use hist::{Figures, Latencies};
pub use log::HdrLog;
pub use report::{Close, End, Failure, Failures, Interval, Mode, Report, Setup, Standing};
pub use server::{Server, ServerConfig};

/// The port of servers when nobody names one.
pub const DEFAULT_PORT: u16 = 5210;
/// Connections, requests under way and idle connections at most, each.
pub const CONNECTIONS_MAX: u32 = 1 << 24;
/// Requests under way on one connection at most.
pub const OUTSTANDING_MAX: u32 = 1 << 16;

#[cfg(test)]
mod tests;
