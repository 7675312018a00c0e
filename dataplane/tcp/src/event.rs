//! What a connection tells its application, and what went wrong.

/// Why a connection ended. The names say who ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// Both sides closed in order.
    Finished,
    /// The peer sent a reset.
    ResetByPeer,
    /// The peer refused the connection (reset to our SYN).
    Refused,
    /// We aborted: `abort`, or closed with unread data.
    Aborted,
    /// Retransmissions, keep-alive or the user timeout gave up.
    TimedOut,
    /// An ICMP error ended the attempt to connect, or was the last that was heard when a timer gave up.
    Unreachable,
    /// The stack shut down or ran out of room.
    Resources,
}

/// Something that the application should know. Levels, not edges, stand behind `Readable` and
/// `Writable`: asking again costs nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Bytes have become readable, in order.
    Readable,
    /// There is room to send again after `send` granted less than it was asked for.
    Writable,
    /// The peer has sent FIN: after the readable bytes comes the end.
    PeerClosed,
    /// Both directions are closed and acknowledged, and the connection goes to TIME-WAIT if
    /// `time_wait` says so: the stack takes the record and frees the connection.
    Closed {
        /// Why.
        reason: CloseReason,
        /// A [`crate::TimeWait`] record is to be kept; get it with `Connection::time_wait`.
        time_wait: bool,
    },
}

/// Why bytes cannot be sent on this connection (now no longer, not "not now").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SendError {
    /// The application has closed its side.
    Closing,
    /// The connection is gone.
    Closed,
}
