//! A device on the heap, for tests, fuzzing, the simulator and benchmarks of the engine alone.
//!
//! It keeps the whole contract of [`Device`]: bounded pools, shared read-only buffers, chains,
//! a transmit queue that refuses. In steady state it allocates nothing, so that a counting allocator
//! sees only what the stack does. Buffers are reference counted within one thread.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use arrayvec::ArrayVec;
use core::cell::RefCell;

use crate::device::{Buffers, Capabilities, Device, Frame, Offloads, RxBatch, RxMeta, TxMeta};

/// Segments that one frame may have.
pub const MEM_SEGMENTS_MAX: usize = 8;

const HEADROOM: usize = 128;

type Free = Rc<RefCell<Vec<Rc<Vec<u8>>>>>;

/// One reference to a range of one buffer.
#[derive(Debug)]
struct Segment {
    /// `None` only while being dropped.
    buffer: Option<Rc<Vec<u8>>>,
    start: usize,
    len: usize,
    home: Free,
}

impl Segment {
    fn bytes(&self) -> &[u8] {
        self.buffer.as_deref().map_or(&[], |b| &b[self.start..self.start + self.len])
    }

    fn unique(&mut self) -> Option<&mut Vec<u8>> {
        self.buffer.as_mut().and_then(Rc::get_mut)
    }

    fn tailroom(&self) -> usize {
        match &self.buffer {
            Some(b) if Rc::strong_count(b) == 1 => b.len() - self.start - self.len,
            _ => 0,
        }
    }

    fn share(&self, offset: usize, len: usize) -> Option<Self> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        Some(Self {
            buffer: self.buffer.clone(),
            start: self.start + offset,
            len,
            home: Rc::clone(&self.home),
        })
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take()
            && Rc::strong_count(&buffer) == 1
        {
            self.home.borrow_mut().push(buffer);
        }
    }
}

/// A frame of up to [`MEM_SEGMENTS_MAX`] segments.
#[derive(Debug)]
pub struct MemFrame {
    segments: ArrayVec<Segment, MEM_SEGMENTS_MAX>,
    rx: RxMeta,
    tx: TxMeta,
}

impl MemFrame {
    fn of(segment: Segment) -> Self {
        let mut segments = ArrayVec::new();
        segments.push(segment);
        Self { segments, rx: RxMeta::default(), tx: TxMeta::default() }
    }

    /// What the sender asked the device to do.
    pub fn tx_meta(&self) -> TxMeta {
        self.tx
    }

    /// Set what the receiver is told.
    pub fn set_rx_meta(&mut self, meta: RxMeta) {
        self.rx = meta;
    }

    /// All bytes, flat.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len());
        for s in self.segments() {
            out.extend_from_slice(s);
        }
        out
    }
}

impl Frame for MemFrame {
    fn len(&self) -> usize {
        self.segments.iter().map(|s| s.len).sum()
    }

    fn head(&self) -> &[u8] {
        self.segments.first().map_or(&[], Segment::bytes)
    }

    fn head_mut(&mut self) -> Option<&mut [u8]> {
        let s = self.segments.first_mut()?;
        let (start, len) = (s.start, s.len);
        Some(&mut s.unique()?[start..start + len])
    }

    fn segment_count(&self) -> usize {
        self.segments.len()
    }

    fn segments(&self) -> impl Iterator<Item = &[u8]> {
        self.segments.iter().map(Segment::bytes)
    }

    fn split_head(mut self) -> (Self, Option<Self>) {
        if self.segments.len() == 1 {
            return (self, None);
        }
        let rest: ArrayVec<Segment, MEM_SEGMENTS_MAX> = self.segments.drain(1..).collect();
        let rest = Self { segments: rest, rx: self.rx, tx: TxMeta::default() };
        (self, Some(rest))
    }

    fn chain(&mut self, mut tail: Self) {
        assert!(
            self.segments.len() + tail.segments.len() <= MEM_SEGMENTS_MAX,
            "the stack chained more segments than the device allows"
        );
        self.segments.extend(tail.segments.drain(..));
    }

    fn trim_front(&mut self, count: usize) {
        if let Some(s) = self.segments.first_mut() {
            let n = count.min(s.len);
            s.start += n;
            s.len -= n;
        }
    }

    fn truncate(&mut self, len: usize) {
        let mut left = len;
        let mut keep = 0;
        for s in &mut self.segments {
            s.len = s.len.min(left);
            left -= s.len;
            keep += 1;
            if left == 0 {
                break;
            }
        }
        self.segments.truncate(keep.max(1));
    }

    fn push_front(&mut self, count: usize) -> Option<&mut [u8]> {
        let s = self.segments.first_mut()?;
        if s.start < count {
            return None;
        }
        let start = s.start - count;
        s.unique()?;
        s.start = start;
        s.len += count;
        Some(&mut s.unique()?[start..start + count])
    }

    fn push_back(&mut self, count: usize) -> Option<&mut [u8]> {
        let s = self.segments.last_mut()?;
        if s.tailroom() < count {
            return None;
        }
        let start = s.start + s.len;
        s.len += count;
        Some(&mut s.unique()?[start..start + count])
    }

    fn tailroom(&self) -> usize {
        self.segments.last().map_or(0, Segment::tailroom)
    }

    fn rx_meta(&self) -> RxMeta {
        self.rx
    }

    fn set_tx_meta(&mut self, meta: TxMeta) {
        self.tx = meta;
    }
}

/// One direction of a link: what one side has sent and the other not yet received.
type Queue = Rc<RefCell<VecDeque<MemFrame>>>;

/// How a [`MemDevice`] is made.
#[derive(Clone, Copy, Debug)]
pub struct MemConfig {
    /// Hardware address.
    pub mac: [u8; 6],
    /// Largest IP packet in bytes.
    pub mtu: u16,
    /// What the device claims to do. It never really does it: who claims must check.
    pub offloads: Offloads,
    /// Buffers for payload and received frames.
    pub buffers: usize,
    /// Bytes of payload in one buffer.
    pub payload_room: usize,
    /// Frames that may wait for the other side before `tx_burst` refuses.
    pub tx_ring: u16,
}

impl Default for MemConfig {
    fn default() -> Self {
        Self {
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            offloads: Offloads { multi_segment: true, ..Offloads::default() },
            buffers: 4096,
            payload_room: 2048,
            tx_ring: 512,
        }
    }
}

/// A queue pair on the heap. See [`MemDevice::pair`] and [`MemDevice::detached`].
#[derive(Debug)]
pub struct MemDevice {
    capabilities: Capabilities,
    small: Free,
    small_size: usize,
    large: Free,
    large_total: u32,
    rx: Queue,
    tx: Queue,
}

impl MemDevice {
    /// A device whose two ends the caller holds by [`MemDevice::deliver`] and
    /// [`MemDevice::take_sent`].
    pub fn detached(config: &MemConfig) -> Self {
        Self::with_queues(config, Queue::default(), Queue::default())
    }

    /// Two devices of which each receives what the other sends: the very same buffers, as
    /// `net_ring` delivers them.
    pub fn pair(a: &MemConfig, b: &MemConfig) -> (Self, Self) {
        let (ab, ba) = (Queue::default(), Queue::default());
        (Self::with_queues(a, Rc::clone(&ba), Rc::clone(&ab)), Self::with_queues(b, ab, ba))
    }

    fn with_queues(config: &MemConfig, rx: Queue, tx: Queue) -> Self {
        let pool = |count: usize, size: usize| -> Free {
            Rc::new(RefCell::new((0..count).map(|_| Rc::new(alloc::vec![0; size])).collect()))
        };
        let small_size = HEADROOM + 256;
        rx.borrow_mut().reserve(1024);
        tx.borrow_mut().reserve(1024);
        Self {
            capabilities: Capabilities {
                mac: config.mac,
                mtu: config.mtu,
                offloads: config.offloads,
                payload_room: config.payload_room as u32,
                header_room: 256,
                tx_ring: config.tx_ring,
                tx_segments_max: MEM_SEGMENTS_MAX as u8,
            },
            // Header buffers and references must not be the bottleneck that hides the payload pool's.
            small: pool(2 * config.buffers + usize::from(config.tx_ring), small_size),
            small_size,
            large: pool(config.buffers, HEADROOM + config.payload_room),
            large_total: config.buffers as u32,
            rx,
            tx,
        }
    }

    /// Copy `bytes` into a frame of this device's pool and let it be received. False when the pool
    /// is empty or the bytes do not fit one buffer.
    pub fn deliver(&mut self, bytes: &[u8]) -> bool {
        let Some(mut frame) = self.payload_alloc() else { return false };
        let Some(room) = frame.push_back(bytes.len()) else { return false };
        room.copy_from_slice(bytes);
        self.rx.borrow_mut().push_back(frame);
        true
    }

    /// Let `frame` be received as it is.
    pub fn deliver_frame(&mut self, frame: MemFrame) {
        self.rx.borrow_mut().push_back(frame);
    }

    /// The oldest frame sent and not yet taken.
    pub fn take_sent(&mut self) -> Option<MemFrame> {
        self.tx.borrow_mut().pop_front()
    }

    /// Header buffers that are free now: for leak checks together with [`Device::buffers`].
    pub fn header_buffers_free(&self) -> usize {
        self.small.borrow().len()
    }

    fn take(free: &Free) -> Option<MemFrame> {
        let buffer = free.borrow_mut().pop()?;
        Some(MemFrame::of(Segment {
            buffer: Some(buffer),
            start: HEADROOM,
            len: 0,
            home: Rc::clone(free),
        }))
    }
}

impl Device for MemDevice {
    type Frame = MemFrame;

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn rx_burst(&mut self, out: &mut RxBatch<MemFrame>) -> usize {
        let mut queue = self.rx.borrow_mut();
        let before = out.len();
        while !out.is_full() {
            let Some(frame) = queue.pop_front() else { break };
            out.push(frame);
        }
        out.len() - before
    }

    fn alloc(&mut self) -> Option<MemFrame> {
        debug_assert!(self.small_size >= HEADROOM + 256);
        Self::take(&self.small)
    }

    fn payload_alloc(&mut self) -> Option<MemFrame> {
        Self::take(&self.large)
    }

    fn share(&mut self, of: &MemFrame, offset: usize, len: usize) -> Option<MemFrame> {
        Some(MemFrame::of(of.segments.first()?.share(offset, len)?))
    }

    fn tx_burst(&mut self, frames: &mut VecDeque<MemFrame>) -> usize {
        let mut queue = self.tx.borrow_mut();
        let room = usize::from(self.capabilities.tx_ring).saturating_sub(queue.len());
        let count = room.min(frames.len());
        for _ in 0..count {
            if let Some(frame) = frames.pop_front() {
                queue.push_back(frame);
            }
        }
        count
    }

    fn buffers(&self) -> Buffers {
        Buffers { free: self.large.borrow().len() as u32, total: self.large_total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(d: &mut MemDevice, bytes: &[u8]) -> MemFrame {
        let mut f = d.payload_alloc().unwrap();
        f.push_back(bytes.len()).unwrap().copy_from_slice(bytes);
        f
    }

    #[test]
    fn shared_bytes_are_read_only_and_come_back_once() {
        let mut d = MemDevice::detached(&MemConfig { buffers: 2, ..MemConfig::default() });
        let mut data = filled(&mut d, b"hello world");
        let mut frame = d.alloc().unwrap();
        frame.push_back(2).unwrap().copy_from_slice(b"h:");
        frame.chain(d.share(&data, 6, 5).unwrap());
        assert_eq!(frame.to_vec(), b"h:world");
        assert!(data.head_mut().is_none());
        assert_eq!(data.tailroom(), 0);
        assert!(d.share(&data, 6, 6).is_none());
        drop(frame);
        assert!(data.head_mut().is_some());
        assert_eq!(d.buffers().free, 1);
        drop(data);
        assert_eq!(d.buffers().free, 2);
    }

    #[test]
    fn pair_delivers_the_same_buffers_in_order_and_refuses_beyond_the_ring() {
        let config = MemConfig { tx_ring: 2, ..MemConfig::default() };
        let (mut a, mut b) = MemDevice::pair(&config, &config);
        let mut frames: VecDeque<_> = (0..3u8).map(|i| filled(&mut a, &[i])).collect();
        assert_eq!(a.tx_burst(&mut frames), 2);
        assert_eq!(frames.len(), 1);
        let mut batch = RxBatch::new();
        assert_eq!(b.rx_burst(&mut batch), 2);
        assert_eq!(batch[1].head(), [1]);
        let before = a.buffers().free;
        batch.clear();
        assert_eq!(a.buffers().free, before + 2);
    }

    #[test]
    fn cutting_and_splitting_chains() {
        let mut d = MemDevice::detached(&MemConfig::default());
        let mut f = filled(&mut d, b"abcd");
        f.chain(filled(&mut d, b"efgh"));
        f.chain(filled(&mut d, b"ij"));
        f.truncate(6);
        assert_eq!((f.segment_count(), f.len()), (2, 6));
        f.trim_front(1);
        let (head, rest) = f.split_head();
        assert_eq!(head.head(), b"bcd");
        assert_eq!(rest.unwrap().head(), b"ef");
    }
}
