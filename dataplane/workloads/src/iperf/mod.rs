//! A client and a server that speak the protocol of iperf3 (control connection, JSON parameters and
//! results, TCP data streams).
//!
//! ```text
//! Client/Server (App) --Report--> Io::publish --> text::Renderer or json::Builder --> a terminal
//!        |
//!        +-- control.rs   exact-length reads, queued writes on the control connection
//!        +-- params.rs    the parameter object      results.rs  the results object
//!        +-- measure.rs      streams, intervals, omit period, end condition (both roles)
//!        +-- stream.rs    one data connection: payload, pacing, counters
//! ```
//!
//! Choices where the original leaves room:
//! - A test ends as soon as its end condition is reached, not at the next interval. `-n` sends
//!   exactly that many bytes, so the last block may be cut, and a sender with `-n` or `-k` waits
//!   until all of it has been acknowledged: the receiver's figure is then the whole amount.
//! - Bytes count as sent when TCP takes them, as in the original, so what is still queued when a
//!   test ends by time is missing from the receiver's figure.
//! - UDP (`-u`), SCTP and MPTCP are refused with codes 13, 18 and 13; authentication with 142.
//! - TOS, flow label, affinity and fair-queueing rate of a peer are accepted and ignored with a
//!   warning: the stack has no such options.
//! - All connections of a test must arrive at one worker: the applications run on one worker and
//!   share nothing. A session is known by its cookie, so handing connections over between workers
//!   can be added without touching the protocol.

mod capture;
mod client;
mod code;
mod control;
mod farewell;
mod host;
pub mod json;
mod measure;
mod outbox;
mod params;
mod report;
mod results;
mod server;
mod stream;
pub mod text;

#[cfg(test)]
mod tests;

pub use client::{Client, ClientConfig};
pub use code::{Code, Failure};
pub use host::{CpuUsage, Host, SilentHost};
pub use params::{Direction, Params, Protocol};
pub use report::{
    ControlInfo, CpuPercent, Extremes, Integrity, Interval, Report, ServerOutput, Side, StreamInfo,
    StreamInterval, StreamSummary, Sum, Summary, TcpSample, Transfer,
};
pub use server::{Server, ServerConfig};

/// The port that both sides use unless told otherwise.
pub const DEFAULT_PORT: u16 = 5201;
