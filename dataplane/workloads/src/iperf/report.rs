//! What the applications publish: plain values, to be rendered by [`super::text`] and
//! [`super::json`] or looked at by tests.

use core::net::SocketAddr;
use core::time::Duration;

use serde_json::Value;

use super::code::{Code, Failure};
use super::params::{Direction, Params};

/// Which end of the control connection we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Commands the test.
    Client,
    /// Serves it.
    Server,
}

/// One thing that happened, in the order in which it happened. A client publishes `Done` last,
/// whether all went well or not; after an `Error` or `Interrupted` it is silent. A server publishes for each
/// test `Listening` first and `TestEnded` last.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// The server waits for a client.
    Listening {
        /// Local port.
        port: u16,
        /// Number of the test to come, from 1.
        test: u64,
    },
    /// The control connection is there and the parameters are known: the lines `Connecting to` and
    /// `Accepted connection from`.
    Control(Box<ControlInfo>),
    /// A data stream is there.
    Connected(StreamInfo),
    /// All streams are there; the test starts.
    Started(Box<ControlInfo>),
    /// An interval has passed.
    Interval(Box<Interval>),
    /// The test is over (or was cut short) and this is the result.
    Summary(Box<Summary>),
    /// What the server printed, if the client asked for it.
    ServerOutput(ServerOutput),
    /// Something that the user should know; the test goes on.
    Warning(String),
    /// The test failed.
    Error(Failure),
    /// We were told to stop by an operator.
    Interrupted(Code),
    /// The client is done.
    Done {
        /// All went well.
        success: bool,
    },
    /// The server is done with this test, well or not.
    TestEnded,
}

/// What is known before data flows.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlInfo {
    /// Our role.
    pub side: Side,
    /// What we call ourselves, from [`super::Host::version`].
    pub version: String,
    /// From [`super::Host::system_info`].
    pub system_info: String,
    /// Civil time in ms since 1970, from [`super::Host::unix_time_ms`].
    pub unix_time_ms: u64,
    /// The 36 characters that name the test.
    pub cookie: String,
    /// MSS of the control connection in bytes; 0 when unknown.
    pub control_mss: u32,
    /// The peer: for a client as the user named it, for a server its address.
    pub host: String,
    /// The peer's port of the control connection.
    pub port: u16,
    /// The parameters in force.
    pub params: Params,
    /// Report interval; `None` without interval reports.
    pub interval: Option<Duration>,
    /// Send buffer of the first stream in bytes; 0 before there is one.
    pub sndbuf: u32,
    /// Receive buffer of the first stream in bytes; 0 before there is one.
    pub rcvbuf: u32,
}

/// The identity of a data stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamInfo {
    /// The number in brackets, from 5 upward.
    pub label: u32,
    /// The id in the results object: 1, 3, 4, 5, …
    pub id: u32,
    /// Our end.
    pub local: SocketAddr,
    /// The peer's end.
    pub remote: SocketAddr,
    /// This side sends.
    pub sender: bool,
}

/// What TCP says about a stream at the end of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpSample {
    /// Segments retransmitted in the interval.
    pub retransmits: u64,
    /// Congestion window in bytes.
    pub snd_cwnd: u64,
    /// The peer's window in bytes.
    pub snd_wnd: u64,
    /// Smoothed round-trip time in microseconds.
    pub rtt_us: u64,
    /// Its variation in microseconds.
    pub rttvar_us: u64,
    /// Path MTU in bytes as TCP sees it now.
    pub pmtu: u32,
    /// Degree of reordering in segments.
    pub reorder: u32,
    /// Smallest round-trip time in microseconds.
    pub min_rtt_us: u64,
    /// Payload bytes per segment sent.
    pub snd_mss: u32,
    /// The window that we offer, in bytes.
    pub rcv_wnd: u32,
    /// Receive buffer in bytes.
    pub rcvbuf: u32,
    /// Send buffer in bytes.
    pub sndbuf: u32,
    /// Times that the flow was moved to another path.
    pub rehash: u32,
    /// Retransmission timeouts since the start.
    pub timeouts: u64,
}

/// One stream in one interval. Times are since the start of counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamInterval {
    /// The number in brackets.
    pub label: u32,
    /// This side sends.
    pub sender: bool,
    /// Begin.
    pub start: Duration,
    /// End.
    pub end: Duration,
    /// Bytes sent or received in the interval.
    pub bytes: u64,
    /// Part of the omitted period at the start.
    pub omitted: bool,
    /// What TCP says; also for receivers, although only senders show it.
    pub tcp: TcpSample,
}

/// All streams of one direction in one interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    /// This side sends.
    pub sender: bool,
    /// Begin.
    pub start: Duration,
    /// End.
    pub end: Duration,
    /// Bytes of all streams.
    pub bytes: u64,
    /// Segments retransmitted; `None` for receivers.
    pub retransmits: Option<u64>,
    /// Part of the omitted period.
    pub omitted: bool,
}

/// One interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Our role.
    pub side: Side,
    /// Direction of the test.
    pub direction: Direction,
    /// Streams per direction.
    pub parallel: u32,
    /// All streams, those from client to server first.
    pub streams: Vec<StreamInterval>,
    /// The only direction, or client to server when there are two.
    pub sum: Sum,
    /// Server to client when there are two directions.
    pub sum_reverse: Option<Sum>,
}

/// One side's view of a stream or of a direction over the whole test.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Transfer {
    /// Bytes, without the omitted period.
    pub bytes: u64,
    /// How long that side measured.
    pub duration: Duration,
    /// Segments retransmitted, if that side is a sender and knows.
    pub retransmits: Option<u64>,
}

/// Extremes of what TCP said over all intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extremes {
    /// Bytes.
    pub max_snd_cwnd: u64,
    /// Bytes.
    pub max_snd_wnd: u64,
    /// Microseconds.
    pub max_rtt_us: u64,
    /// Microseconds; 0 without a sample.
    pub min_rtt_us: u64,
    /// Microseconds.
    pub mean_rtt_us: u64,
    /// Segments.
    pub reorder: u32,
}

/// What the check of the payload found (only where it was asked for).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Integrity {
    /// Bytes compared.
    pub checked_bytes: u64,
    /// Position in the stream of the first wrong byte.
    pub first_mismatch: Option<u64>,
}

/// One stream over the whole test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamSummary {
    /// The number in brackets.
    pub label: u32,
    /// The id in the results object.
    pub id: u32,
    /// This side sends.
    pub sender: bool,
    /// The sender's view; `None` if it is the peer's and not known.
    pub sent: Option<Transfer>,
    /// The receiver's view; `None` if it is the peer's and not known.
    pub received: Option<Transfer>,
    /// What our TCP said.
    pub extremes: Extremes,
    /// Our last look at TCP; its `retransmits` is the total.
    pub last: TcpSample,
    /// The check of the payload, for receivers that were asked to.
    pub integrity: Option<Integrity>,
}

/// Processor time as a share of the test's duration, in per cent; above 100 with several cores.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuPercent {
    /// User and system together.
    pub total: f64,
    /// In user mode.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
}

/// The result of a test.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Our role.
    pub side: Side,
    /// Direction of the test.
    pub direction: Direction,
    /// Streams per direction.
    pub parallel: u32,
    /// How long we measured.
    pub duration: Duration,
    /// All streams, those from client to server first.
    pub streams: Vec<StreamSummary>,
    /// Our processor time.
    pub cpu_local: CpuPercent,
    /// The peer's; `None` when it is not known (a server prints before it hears of it).
    pub cpu_remote: Option<CpuPercent>,
    /// Congestion control of our side.
    pub congestion_local: Option<String>,
    /// Congestion control of the peer, if it said so.
    pub congestion_remote: Option<String>,
    /// Title that the client chose, for the JSON document.
    pub title: Option<String>,
    /// Free text that the client sent along, for the JSON document.
    pub extra_data: Option<String>,
    /// What the peer reported under `x_stack`, if it is one of us.
    pub remote_x_stack: Option<Value>,
}

impl Summary {
    /// The directions of the test, client to server first, as "this side sends".
    pub fn directions(&self) -> impl Iterator<Item = bool> + use<> {
        let client_sends = self.side == Side::Client;
        let (first, second) = match self.direction {
            Direction::Forward => (client_sends, None),
            Direction::Reverse => (!client_sends, None),
            Direction::Bidirectional => (client_sends, Some(!client_sends)),
        };
        core::iter::once(first).chain(second)
    }

    /// All streams of one direction together, as sender and receiver saw them.
    pub fn totals(&self, sender: bool) -> (Option<Transfer>, Option<Transfer>) {
        let streams = || self.streams.iter().filter(move |s| s.sender == sender);
        (total(streams().map(|s| s.sent)), total(streams().map(|s| s.received)))
    }
}

/// The sum, if all parts are known.
fn total(parts: impl Iterator<Item = Option<Transfer>>) -> Option<Transfer> {
    let mut sum: Option<Transfer> = None;
    for part in parts {
        let part = part?;
        let so_far = sum.unwrap_or(Transfer { retransmits: part.retransmits, bytes: 0, ..part });
        let retransmits = match (sum, so_far.retransmits, part.retransmits) {
            (None, first, _) => first,
            (Some(_), Some(a), Some(b)) => Some(a.saturating_add(b)),
            (Some(_), _, _) => None,
        };
        sum = Some(Transfer {
            bytes: so_far.bytes.saturating_add(part.bytes),
            duration: so_far.duration.max(part.duration),
            retransmits,
        });
    }
    sum
}

/// What the server printed.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerOutput {
    /// Lines.
    Text(String),
    /// Its JSON document.
    Json(Value),
}
