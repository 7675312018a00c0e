//! Error codes: they travel in SERVER_ERROR records, and their texts are what scripts look for.

use core::fmt;

/// An error code of iperf3; the numbers are the same in all versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Code(pub i32);

#[allow(missing_docs, reason = "the texts below explain them")]
impl Code {
    pub const DURATION: Self = Self(5);
    pub const PARALLEL: Self = Self(6);
    pub const BLOCK_SIZE: Self = Self(7);
    pub const BUFFER_SIZE: Self = Self(8);
    pub const INTERVAL: Self = Self(9);
    pub const MSS: Self = Self(10);
    pub const OMIT: Self = Self(12);
    pub const UNIMPLEMENTED: Self = Self(13);
    pub const BURST: Self = Self(15);
    pub const END_CONDITIONS: Self = Self(16);
    pub const NO_SCTP: Self = Self(18);
    pub const TOS: Self = Self(21);
    pub const REVERSE_BIDIR: Self = Self(25);
    pub const TOTAL_RATE: Self = Self(27);
    pub const MAX_DURATION: Self = Self(37);
    pub const LISTEN: Self = Self(102);
    pub const CONNECT: Self = Self(103);
    pub const COOKIE: Self = Self(106);
    pub const CONTROL_CLOSED: Self = Self(109);
    pub const UNKNOWN_MESSAGE: Self = Self(110);
    pub const CONTROL_READ: Self = Self(112);
    pub const PARAMETERS: Self = Self(114);
    pub const SEND_RESULTS: Self = Self(116);
    pub const RECV_RESULTS: Self = Self(117);
    pub const CLIENT_TERMINATED: Self = Self(119);
    pub const SERVER_TERMINATED: Self = Self(120);
    pub const BUSY: Self = Self(121);
    pub const FLOW_LABEL: Self = Self(127);
    pub const AFFINITY: Self = Self(132);
    pub const SOCKET_BUFFER: Self = Self(141);
    pub const AUTHORIZATION: Self = Self(142);
    pub const IDLE_DATA: Self = Self(144);
    pub const TEST_EXPIRED: Self = Self(160);
    pub const STREAM_CONNECT: Self = Self(203);
    pub const STREAM_ACCEPT: Self = Self(204);
    pub const STREAM_WRITE: Self = Self(205);
    pub const STREAM_READ: Self = Self(206);
    pub const STREAM_ID: Self = Self(208);
}

impl Code {
    /// The text that goes with the code, if it is one of those that we know.
    pub const fn text(self) -> Option<&'static str> {
        Some(match self.0 {
            5 => "test duration too long / valid values are 0 to 86400 seconds",
            6 => "number of parallel streams too large (maximum = 128)",
            7 => "block size too large (maximum = 1048576 bytes)",
            8 => "socket buffer size too large (maximum = 536870912 bytes)",
            9 => "invalid report interval (min = 0.1, max = 60 seconds)",
            10 => "TCP MSS too large",
            12 => "bogus value for --omit",
            13 => "an option you are trying to set is not implemented yet",
            15 => "invalid burst count (maximum = 1000)",
            16 => "only one test end condition (-t, -n, -k) may be specified",
            18 => "no SCTP support available",
            20 => "block size invalid (minimum = 16 bytes, maximum = 65507 bytes)",
            21 => "bad TOS value (must be between 0 and 255 inclusive)",
            25 => "cannot be both reverse and bidirectional",
            27 => "total required bandwidth is larger than server limit",
            37 => "client's requested duration exceeds the server's maximum permitted limit",
            102 => "unable to start listener for connections",
            103 => "unable to connect to server",
            105 => "unable to send cookie to server",
            106 => "unable to receive cookie at server",
            107 => "unable to write to the control socket",
            108 => "unable to read from the control socket",
            109 => "control socket has closed unexpectedly",
            110 => {
                "received an unknown control message (ensure other side is iperf3 and not iperf)"
            }
            111 => "unable to send control message",
            112 => "unable to receive control message",
            113 => "unable to send parameters to server",
            114 => "unable to receive parameters from client",
            115 => "unable to package results",
            116 => "unable to send results",
            117 => "unable to receive results",
            119 => "the client has terminated",
            120 => "the server has terminated",
            121 => "the server is busy running a test. try again later",
            122 => "unable to set TCP NODELAY",
            123 => "unable to set TCP MSS",
            124 => "unable to set socket buffer size",
            127 => "unable to set IPv6 flow label",
            132 => "unable to set CPU affinity",
            134 => {
                "unable to set TCP_CONGESTION: Supplied congestion control algorithm not supported \
                 on this host"
            }
            141 => "socket buffer size not set correctly",
            142 => "test authorization failed",
            144 => "idle timeout for receiving data",
            160 => "server test duration expired",
            202 => "unable to start stream listener",
            203 => "unable to connect stream",
            204 => "unable to accept stream connection",
            205 => "unable to write to stream socket",
            206 => "unable to read from stream socket",
            208 => "stream has an invalid id",
            _ => return None,
        })
    }
}

/// Why a test failed: a code, and what more is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The code.
    pub code: Code,
    /// More about it, in the words of the operating system or ours.
    pub detail: Option<String>,
    /// Says all of it in place of the code's text, where the original does so too.
    pub text: Option<&'static str>,
}

impl Failure {
    /// A failure with nothing more to say than its code.
    pub const fn new(code: Code) -> Self {
        Self { code, detail: None, text: None }
    }

    /// A failure with a detail that is shown after a colon.
    pub fn with(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: Some(detail.into()), text: None }
    }

    /// The server's view of a client that has gone.
    pub const fn client_vanished() -> Self {
        Self {
            code: Code::CONTROL_CLOSED,
            detail: None,
            text: Some("the client has unexpectedly closed the connection"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text.or(self.code.text()) {
            Some(text) => f.write_str(text)?,
            // The words of older versions for a code that they do not know.
            None => write!(f, "int_errno={}", self.code.0)?,
        }
        match &self.detail {
            Some(detail) => write!(f, ": {detail}"),
            None => Ok(()),
        }
    }
}
