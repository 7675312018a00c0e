//! TIME-WAIT as a small record.

use base::{DropReason, Instant};

use crate::{Cx, Plan, Segment};

/// What a segment does to a TIME-WAIT record.
#[derive(Debug)]
pub enum TimeWaitInput {
    /// Discard; the record stays (its expiry may have moved: see [`TimeWait::expires`]).
    Drop(DropReason),
    /// Discard and send this acknowledgement; the record stays.
    Ack(Plan, DropReason),
    /// A SYN that may open a new connection, RFC 9293 section 3.6.1 and RFC 6191: the stack removes
    /// the record and hands the segment to the listener, with this initial sequence number.
    NewConnection {
        /// To be used as ISS.
        iss: u32,
    },
    /// The record is ended (by a reset, unless `tcp_rfc1337`).
    Remove,
}

/// What is left of a closed connection: at most 64 bytes.
#[derive(Clone, Debug)]
pub struct TimeWait {}

impl TimeWait {
    /// A segment for this record.
    pub fn on_segment(&mut self, _cx: &mut Cx<'_>, _seg: &Segment) -> TimeWaitInput {
        todo!()
    }

    /// When the record may be forgotten.
    pub fn expires(&self) -> Instant {
        todo!()
    }

    /// Whether an outgoing connection may take over the address pair now (`tcp_tw_reuse`), and with
    /// which initial sequence number.
    pub fn reuse(&self, _cx: &Cx<'_>, _loopback: bool) -> Option<u32> {
        todo!()
    }
}
