//! The door through which frames come and go.
//!
//! A device is one receive queue and one transmit queue, owned by one worker. A frame is *owned*:
//! dropping it returns its buffers to their pool, so "no leaks" means "the pool is full again".
//!
//! A worker may own devices of several ports. They share its buffers: a frame that came in by one, or
//! was allocated from one, may be sent by another; [`Device::buffers`] says the same of all; and the
//! rooms of their buffers agree.
//!
//! A frame is a chain of one or more segments. What is transmitted is a header buffer chained to
//! references ([`Device::share`]) to ranges of payload buffers. A buffer that is referenced more
//! than once is read-only until the last other reference is gone; `net_ring` delivers the very same
//! buffers to the receiver.

use alloc::collections::VecDeque;
use arrayvec::ArrayVec;

/// Frames taken from a device in one turn at most.
pub const RX_BURST_FRAMES: usize = 64;

/// Frames of one burst, oldest first.
pub type RxBatch<F> = ArrayVec<F, RX_BURST_FRAMES>;

/// What the device says about a checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Checksum {
    /// Not looked at: verify in software.
    #[default]
    Unknown,
    /// Verified and right.
    Good,
    /// Verified and wrong: verify again in software, then drop.
    Bad,
}

/// What came with a received frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxMeta {
    /// Of the IPv4 header.
    pub l3_checksum: Checksum,
    /// Of TCP or UDP, pseudo header included.
    pub l4_checksum: Checksum,
    /// Hash by which the device chose the queue, if it says so.
    pub rss_hash: Option<u32>,
    /// VLAN tag (TCI) that the device has stripped.
    pub vlan: Option<u16>,
}

/// The transport header for which a checksum is left to the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum L4Offload {
    /// Checksum is complete.
    #[default]
    None,
    /// TCP: the field holds the pseudo-header sum.
    Tcp,
    /// UDP: the field holds the pseudo-header sum.
    Udp,
}

/// What the device is asked to do with a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxMeta {
    /// Bytes of the link header.
    pub l2_len: u8,
    /// Bytes of the network header with options or extension headers.
    pub l3_len: u16,
    /// Bytes of the transport header with options.
    pub l4_len: u8,
    /// The network header is IPv6.
    pub ipv6: bool,
    /// Compute the IPv4 header checksum.
    pub ip_checksum: bool,
    /// Compute the transport checksum.
    pub l4: L4Offload,
    /// Cut into segments of this many payload bytes; zero: send as it is.
    pub tso_segment: u16,
}

/// What may be left to the device: wanted and capable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// Receive: IPv4 header checksum verified.
    pub rx_ip_checksum: bool,
    /// Receive: TCP checksum verified.
    pub rx_tcp_checksum: bool,
    /// Receive: UDP checksum verified.
    pub rx_udp_checksum: bool,
    /// Transmit: IPv4 header checksum filled in.
    pub tx_ip_checksum: bool,
    /// Transmit: TCP checksum filled in.
    pub tx_tcp_checksum: bool,
    /// Transmit: UDP checksum filled in.
    pub tx_udp_checksum: bool,
    /// Transmit: TCP segmentation.
    pub tso: bool,
    /// Transmit: frames of several buffers. Without it the stack sends flat frames.
    pub multi_segment: bool,
}

/// What a device offers, fixed from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Our hardware address.
    pub mac: [u8; 6],
    /// Largest IP packet, sent or received, in bytes.
    pub mtu: u16,
    /// What is in force.
    pub offloads: Offloads,
    /// Room for payload in one buffer of [`Device::payload_alloc`], in bytes.
    pub payload_room: u32,
    /// Room after the headroom in one buffer of [`Device::alloc`], in bytes; at least 256. A
    /// larger flat frame does not fit a header buffer: use a payload buffer for it.
    pub header_room: u32,
    /// Transmit descriptors: frames that the device may hold at once.
    pub tx_ring: u16,
    /// Segments that one transmitted frame may have.
    pub tx_segments_max: u8,
}

/// State of the buffer pool from which received frames and payload come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffers {
    /// Buffers that can be had now. May lag behind by what other workers just returned.
    pub free: u32,
    /// Buffers in all.
    pub total: u32,
}

/// A frame, or a part of one: one or more buffer segments. Dropping it gives the buffers back.
pub trait Frame: Sized {
    /// Bytes over all segments.
    fn len(&self) -> usize;

    /// No bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the first segment.
    fn head(&self) -> &[u8];

    /// Bytes of the first segment for writing; `None` if somebody else refers to them.
    fn head_mut(&mut self) -> Option<&mut [u8]>;

    /// How many segments the frame has; at least one.
    fn segment_count(&self) -> usize;

    /// The bytes of each segment in order.
    fn segments(&self) -> impl Iterator<Item = &[u8]>;

    /// Detach the first segment: itself alone, and the rest of the chain if there is any.
    fn split_head(self) -> (Self, Option<Self>);

    /// Put `tail` behind the last segment.
    fn chain(&mut self, tail: Self);

    /// Remove `count` bytes from the front of the first segment; at most all of them.
    fn trim_front(&mut self, count: usize);

    /// Cut the frame to `len` bytes, giving back segments that become superfluous. Longer than it
    /// is: nothing happens.
    fn truncate(&mut self, len: usize);

    /// Extend the first segment to the front by `count` bytes of unspecified content and return
    /// them; `None` if there is no such headroom or the buffer is shared.
    fn push_front(&mut self, count: usize) -> Option<&mut [u8]>;

    /// Extend the last segment by `count` bytes of unspecified content and return them; `None` if
    /// there is no such room or the buffer is shared.
    fn push_back(&mut self, count: usize) -> Option<&mut [u8]>;

    /// Bytes that [`Frame::push_back`] would grant now (zero when shared).
    fn tailroom(&self) -> usize;

    /// What the device said about this frame when it arrived.
    fn rx_meta(&self) -> RxMeta;

    /// What the device shall do when it sends this frame.
    fn set_tx_meta(&mut self, meta: TxMeta);
}

/// One receive queue and one transmit queue, owned by one worker.
pub trait Device {
    /// The buffers of this device.
    type Frame: Frame;

    /// What the device offers. The answer never changes.
    fn capabilities(&self) -> &Capabilities;

    /// Append received frames, oldest first, until `out` is full or nothing is waiting. Returns how
    /// many were appended.
    fn rx_burst(&mut self, out: &mut RxBatch<Self::Frame>) -> usize;

    /// An empty buffer with headroom, for headers and small frames; `None` when the pool is empty.
    fn alloc(&mut self) -> Option<Self::Frame>;

    /// An empty buffer for payload (or for a large flat frame); `None` when the pool is empty.
    fn payload_alloc(&mut self) -> Option<Self::Frame>;

    /// A new reference to bytes `offset .. offset + len` of the *first segment* of `of`, without a
    /// copy. Until it and all others are gone, the bytes are read-only. `None` when no buffer is
    /// left for the reference or the range lies outside of the segment.
    fn share(&mut self, of: &Self::Frame, offset: usize, len: usize) -> Option<Self::Frame>;

    /// Take frames from the front until the device accepts no more; the rest stay. Returns how many
    /// were taken.
    fn tx_burst(&mut self, frames: &mut VecDeque<Self::Frame>) -> usize;

    /// State of the pool of received frames and payload, which the devices of a worker share. May
    /// cost a microsecond: ask now and then, not per frame.
    fn buffers(&self) -> Buffers;
}
