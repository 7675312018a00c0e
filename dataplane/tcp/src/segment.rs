//! A segment as the engine sees it: numbers and ranges, no bytes.

use arrayvec::ArrayVec;
use base::{Ecn, Instant, TcpFlags};

use crate::{SeqNum, UserTimeoutOption};

/// SACK blocks that fit a header beside nothing else.
pub const SACK_BLOCKS_MAX: usize = 4;

/// The options in use, RFC 9293 (MSS), RFC 7323 (window scale, timestamps), RFC 2018 (SACK).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegOptions {
    /// Maximum segment size; looked at in SYN segments only.
    pub mss: Option<u16>,
    /// Window scale as the peer wrote it (may exceed 14); SYN segments only.
    pub window_scale: Option<u8>,
    /// SACK permitted; SYN segments only.
    pub sack_permitted: bool,
    /// TSval and TSecr.
    pub timestamps: Option<(u32, u32)>,
    /// How long the peer is willing to wait, RFC 5482.
    pub user_timeout: Option<UserTimeoutOption>,
    /// SACK blocks, left and right edge, in the order of the header: most recent first.
    pub sack: ArrayVec<(SeqNum, SeqNum), SACK_BLOCKS_MAX>,
}

/// One segment, or an in-order run of segments of one flow merged by receive offload.
///
/// A run has consecutive payload, and `ack`, `wnd` and `options` of its last segment; `flags` are
/// those of the last segment plus PSH if any had it. Segments with SYN, FIN, RST or URG, with SACK
/// blocks, or without payload are never merged (FIN may end a run), nor are segments whose IP headers say
/// different things of congestion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first payload byte (or of the SYN).
    pub seq: SeqNum,
    /// Acknowledgement number; meaningful if `flags` has ACK.
    pub ack: SeqNum,
    /// Control bits.
    pub flags: TcpFlags,
    /// The window field as in the header, not scaled.
    pub wnd: u16,
    /// Payload bytes over the whole run.
    pub len: u32,
    /// Payload bytes of one full segment of the run (equal to `len` for a single segment).
    pub seg_size: u32,
    /// Segments in the run; at least one.
    pub segs: u16,
    /// Options of the last segment.
    pub options: SegOptions,
    /// What the IP headers of all segments of the run said of congestion, RFC 3168.
    pub ecn: Ecn,
    /// When the burst with this segment was taken from the device; [`Segment::ARRIVAL_UNKNOWN`] if
    /// it may have waited there for long.
    pub arrival: Instant,
}

impl Segment {
    /// The worker had come to a stop, so nobody knows when the segment arrived: it tells no round trip.
    pub const ARRIVAL_UNKNOWN: Instant = Instant::FAR_FUTURE;

    /// Sequence numbers occupied: payload, SYN and FIN. SEG.LEN of RFC 9293.
    pub const fn seq_len(&self) -> u32 {
        self.len.wrapping_add(self.flags.sequence_len())
    }

    /// The sequence number after the last one occupied.
    pub const fn end_seq(&self) -> SeqNum {
        self.seq.add(self.seq_len())
    }
}
