//! What a client publishes: values, made into text and JSON elsewhere.

use core::net::IpAddr;
use core::time::Duration;

use stack::ConnectError;
use tcp::CloseReason;

use super::hist::Latencies;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Requests and responses on connections that stay.
    Ping {
        /// Connections.
        connections: u32,
        /// Requests under way on each at most.
        outstanding: u32,
        /// Requests per second over all connections, sent when they are due and not when the last
        /// one was answered; `None`: as fast as answers come.
        rate: Option<u64>,
    },
    /// A connection for each request.
    Connect {
        /// Connections at once.
        concurrency: u32,
        /// How each of them ends.
        close: Close,
    },
}

/// How a short connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// The client resets it: no TIME-WAIT on either side.
    Rst,
    /// The client closes first and keeps TIME-WAIT.
    FinClient,
    /// The server closes first and keeps TIME-WAIT.
    FinServer,
}

impl Close {
    /// As on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rst => "rst",
            Self::FinClient => "fin-client",
            Self::FinServer => "fin-server",
        }
    }
}

/// The test, as the client was told to run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The server.
    pub remote: IpAddr,
    /// Its ports.
    pub ports: Vec<u16>,
    /// Our addresses to connect from, one after the other; none: the one that the route says.
    pub locals: Vec<IpAddr>,
    /// Bytes of a request.
    pub request: u32,
    /// Bytes of a response.
    pub response: u32,
    /// What is measured.
    pub mode: Mode,
    /// Connections held open meanwhile.
    pub idle: u32,
    /// How long it is measured; zero: only the idle connections are opened.
    pub time: Duration,
    /// Transactions after which it ends; `None`: after `time`.
    pub count: Option<u64>,
    /// What does not count at the beginning.
    pub omit: Duration,
}

/// Why a connection or a transaction failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No route, or no address of ours in that family.
    NoRoute,
    /// The address to connect from is not ours.
    NotOurs,
    /// The address is none to connect to.
    Invalid,
    /// All local ports towards the server are in use.
    NoPort,
    /// The table of connections is full.
    TableFull,
    /// The server refused the connection.
    Refused,
    /// The server reset the connection.
    Reset,
    /// Retransmissions gave up.
    TimedOut,
    /// ICMP said that the server cannot be reached.
    Unreachable,
    /// Our stack ran out of room.
    Resources,
    /// The server closed before its answer was complete.
    ClosedEarly,
    /// The server sent what nobody had asked for.
    Surplus,
    /// No answer within the time limit.
    NoAnswer,
}

impl Failure {
    /// All of them, in the order of [`Failures`].
    pub const ALL: [Self; 13] = [
        Self::NoRoute,
        Self::NotOurs,
        Self::Invalid,
        Self::NoPort,
        Self::TableFull,
        Self::Refused,
        Self::Reset,
        Self::TimedOut,
        Self::Unreachable,
        Self::Resources,
        Self::ClosedEarly,
        Self::Surplus,
        Self::NoAnswer,
    ];

    /// A key for JSON.
    pub const fn key(self) -> &'static str {
        match self {
            Self::NoRoute => "no_route",
            Self::NotOurs => "address_not_ours",
            Self::Invalid => "invalid_address",
            Self::NoPort => "no_local_port",
            Self::TableFull => "table_full",
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::TimedOut => "timed_out",
            Self::Unreachable => "unreachable",
            Self::Resources => "out_of_resources",
            Self::ClosedEarly => "closed_early",
            Self::Surplus => "surplus_bytes",
            Self::NoAnswer => "no_answer",
        }
    }

    /// For people.
    pub const fn text(self) -> &'static str {
        match self {
            Self::NoRoute => "no route to host",
            Self::NotOurs => "local address is not ours",
            Self::Invalid => "invalid address",
            Self::NoPort => "no local port left",
            Self::TableFull => "connection table full",
            Self::Refused => "connection refused",
            Self::Reset => "connection reset by peer",
            Self::TimedOut => "connection timed out",
            Self::Unreachable => "host unreachable",
            Self::Resources => "out of resources",
            Self::ClosedEarly => "closed before the answer was complete",
            Self::Surplus => "more bytes than were asked for",
            Self::NoAnswer => "no answer",
        }
    }

    /// What a person can do about it.
    pub const fn hint(self) -> Option<&'static str> {
        match self {
            Self::NoPort => Some(
                "widen the range (--sysctl 'net.ipv4.ip_local_port_range=1024 65535') or spread over \
                 more ports of the server (-p 5201..5208 on both sides) or more addresses here \
                 (--address)",
            ),
            Self::TableFull => Some("raise --connections"),
            Self::Resources => Some("raise --memory and --buffers"),
            Self::Surplus | Self::NoAnswer => Some(
                "a server that is not millrace rr has to echo: leave request and response of equal \
                 size",
            ),
            Self::Refused => Some("is the server running, and on these ports?"),
            _ => None,
        }
    }

    pub(crate) const fn of_connect(error: ConnectError) -> Self {
        match error {
            ConnectError::NoRoute => Self::NoRoute,
            ConnectError::NotOurs => Self::NotOurs,
            ConnectError::Invalid => Self::Invalid,
            ConnectError::PortsExhausted => Self::NoPort,
            ConnectError::Limit => Self::TableFull,
        }
    }

    pub(crate) const fn of_close(reason: CloseReason) -> Self {
        match reason {
            CloseReason::Finished => Self::ClosedEarly,
            CloseReason::ResetByPeer => Self::Reset,
            CloseReason::Refused => Self::Refused,
            CloseReason::TimedOut => Self::TimedOut,
            CloseReason::Unreachable => Self::Unreachable,
            CloseReason::Aborted | CloseReason::Resources => Self::Resources,
        }
    }
}

/// Failures by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures([u64; Failure::ALL.len()]);

impl Failures {
    pub(crate) fn count(&mut self, failure: Failure) {
        if let Some(n) = self.0.get_mut(failure as usize) {
            *n = n.saturating_add(1);
        }
    }

    /// Count those of `other` as well.
    pub fn add(&mut self, other: &Self) {
        for (sum, n) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(n);
        }
    }

    /// All together.
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Those that happened.
    pub fn iter(&self) -> impl Iterator<Item = (Failure, u64)> {
        Failure::ALL.into_iter().zip(self.0).filter(|(_, n)| *n > 0)
    }
}

/// What happened in a part of the test.
#[derive(Clone, Debug)]
pub struct Interval {
    /// From here, since measuring (or what is omitted of it) began.
    pub start: Duration,
    /// To here.
    pub end: Duration,
    /// It does not count.
    pub omitted: bool,
    /// Round trips; with `--connect` from `connect` to the end of the connection.
    pub latency: Box<Latencies>,
    /// With `--connect`: from `connect` to established.
    pub setup: Option<Box<Latencies>>,
    /// What went wrong.
    pub failures: Failures,
}

/// Idle connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Since opening them began.
    pub at: Duration,
    /// Established now.
    pub held: u32,
    /// Established since the last report, and in which time.
    pub opened: u32,
    /// See `opened`.
    pub within: Duration,
    /// All that were asked for stand.
    pub complete: bool,
}

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It ran as long as it should.
    Complete,
    /// It was interrupted; what was measured counts.
    Interrupted,
    /// It could not go on.
    Failed(Failure),
}

/// What a client publishes, in this order.
#[derive(Clone, Debug)]
pub enum Report {
    /// It begins.
    Begin(Box<Setup>),
    /// Idle connections are being opened.
    Standing(Standing),
    /// A part of the measurement.
    Interval(Interval),
    /// The last report. Failures that belong to no interval came before measuring.
    End(End, Failures),
}
