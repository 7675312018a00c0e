//! What the engine wants to be sent.

use base::{Ecn, TcpFlags};

use crate::{SegOptions, SeqNum};

/// Why a plan was made; the transmit path treats all alike, traces and counters do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlanKind {
    /// SYN or SYN-ACK.
    Syn,
    /// Data for the first time (perhaps with a FIN), or a FIN alone.
    Data,
    /// Data sent before.
    Retransmit,
    /// A bare acknowledgement.
    Ack,
    /// Zero-window or keep-alive probe.
    Probe,
    /// A reset.
    Reset,
}

/// One or many segments to send: `len` payload bytes from `seq` on, cut into segments of `seg_size`
/// bytes (the last may be shorter), all with the same acknowledgement, window and options. FIN and
/// PSH of `flags` belong on the last segment only, CWR on the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Why.
    pub kind: PlanKind,
    /// Sequence number of the first byte.
    pub seq: SeqNum,
    /// Payload bytes in all.
    pub len: u32,
    /// Payload bytes per segment; at least one if `len` is not zero.
    pub seg_size: u32,
    /// Control bits.
    pub flags: TcpFlags,
    /// Acknowledgement number.
    pub ack: SeqNum,
    /// Window field as it goes into the header, already scaled.
    pub wnd: u16,
    /// Options of each segment; MSS, window scale and SACK permitted in SYN only.
    pub options: SegOptions,
    /// What the IP header says of congestion: [`Ecn::NotEct`], or [`Ecn::Ect0`] where marks are understood.
    pub ecn: Ecn,
    /// Transmit hash of the flow at this moment: the IPv6 flow label and the outer source port of a
    /// tunnel follow from it. A new value means a new path.
    pub txhash: u32,
}

impl Plan {
    /// How many segments the plan makes; one if it has no payload.
    pub const fn segs(&self) -> u32 {
        if self.len <= self.seg_size || self.seg_size == 0 {
            1
        } else {
            self.len.div_ceil(self.seg_size)
        }
    }
}
