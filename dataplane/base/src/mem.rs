//! A device on the heap, for tests, fuzzing, the simulator and benchmarks of the engine alone.
//!
//! It keeps the whole contract of [`Device`]: bounded pools, shared read-only buffers, chains,
//! a transmit queue that refuses. In steady state it allocates nothing, so that a counting allocator
//! sees only what the stack does. Buffers are reference counted within one thread.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::fmt;

use crate::device::{Buffers, Capabilities, Device, Frame, Offloads, RxBatch, RxMeta, TxMeta};

/// Segments that one frame may have.
pub const MEM_SEGMENTS_MAX: usize = 8;

const HEADROOM: usize = 128;
/// Bytes after the headroom of a header buffer.
const HEADER_ROOM: usize = 256;

/// Segments nobody uses, linked through `next`: last in, first out, as warm buffers are good ones.
#[derive(Default)]
struct FreeList {
    head: Cell<Option<Box<Segment>>>,
    len: Cell<usize>,
}

impl FreeList {
    fn pop(&self) -> Option<Box<Segment>> {
        let mut first = self.head.take()?;
        self.head.set(first.next.take());
        self.len.set(self.len.get() - 1);
        Some(first)
    }

    fn push(&self, mut segment: Box<Segment>) {
        segment.next = self.head.take();
        self.head.set(Some(segment));
        self.len.set(self.len.get() + 1);
    }
}

impl Drop for FreeList {
    fn drop(&mut self) {
        // One by one: the drop of a long chain would recurse.
        while self.pop().is_some() {}
    }
}

/// What is free. One per device or for all devices of a worker; each segment in use holds on to the
/// pool that it returns to.
#[derive(Default)]
struct Pool {
    /// With a header buffer each.
    small: FreeList,
    /// With a payload buffer each.
    large: FreeList,
    /// Without a buffer, to refer to somebody else's.
    references: FreeList,
}

#[derive(Clone, Copy)]
enum Size {
    Small,
    Large,
}

/// One reference to a range of one buffer, and what else a driver keeps beside it.
struct Segment {
    /// `None` in a free reference.
    buffer: Option<Rc<[u8]>>,
    start: u32,
    len: u32,
    /// The rest of the frame, or of the free list.
    next: Option<Box<Segment>>,
    /// `None` while free: the pool holds its segments and not itself.
    pool: Option<Rc<Pool>>,
    size: Size,
    rx: RxMeta,
    tx: TxMeta,
}

impl Segment {
    fn free(buffer: Option<Rc<[u8]>>, size: Size) -> Box<Self> {
        Box::new(Self {
            buffer,
            start: HEADROOM as u32,
            len: 0,
            next: None,
            pool: None,
            size,
            rx: RxMeta::default(),
            tx: TxMeta::default(),
        })
    }

    /// Take into use: an empty range after the headroom.
    fn into_frame(mut self: Box<Self>, pool: &Rc<Pool>) -> MemFrame {
        self.start = HEADROOM as u32;
        self.len = 0;
        self.rx = RxMeta::default();
        self.tx = TxMeta::default();
        self.pool = Some(Rc::clone(pool));
        MemFrame(Some(self))
    }

    fn start(&self) -> usize {
        self.start as usize
    }

    fn len(&self) -> usize {
        self.len as usize
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.as_deref().map_or(&[], |b| &b[self.start()..self.start() + self.len()])
    }

    fn unique(&mut self) -> Option<&mut [u8]> {
        self.buffer.as_mut().and_then(Rc::get_mut)
    }

    fn tailroom(&self) -> usize {
        match &self.buffer {
            Some(b) if Rc::strong_count(b) == 1 => b.len() - self.start() - self.len(),
            _ => 0,
        }
    }

    fn share(&self, offset: usize, len: usize) -> Option<MemFrame> {
        if offset.checked_add(len)? > self.len() {
            return None;
        }
        // The reference belongs to the pool of the buffer, as the buffer comes back with the last one.
        let pool = self.pool.as_ref()?;
        let free = pool.references.pop();
        let mut reference = free.unwrap_or_else(|| Self::free(None, self.size));
        reference.buffer.clone_from(&self.buffer);
        reference.size = self.size;
        let mut frame = reference.into_frame(pool);
        let head = frame.0.as_mut()?;
        head.start = self.start + offset as u32;
        head.len = len as u32;
        Some(frame)
    }

    /// Give a segment back that is no longer part of a frame: with its buffer if nobody else
    /// refers to that.
    fn recycle(mut self: Box<Self>) {
        let Some(pool) = self.pool.take() else { return };
        if self.buffer.as_ref().is_some_and(|b| Rc::strong_count(b) == 1) {
            match self.size {
                Size::Small => pool.small.push(self),
                Size::Large => pool.large.push(self),
            }
        } else {
            self.buffer = None;
            pool.references.push(self);
        }
    }
}

/// A frame of up to [`MEM_SEGMENTS_MAX`] segments: a chain, whose first link stands for it. It is one
/// word, so moving it between queues costs nothing.
pub struct MemFrame(
    /// `None` only while being dropped or chained.
    Option<Box<Segment>>,
);

const _: () = assert!(size_of::<MemFrame>() == size_of::<usize>());

impl MemFrame {
    /// What the sender asked the device to do.
    pub fn tx_meta(&self) -> TxMeta {
        self.0.as_ref().map_or_else(TxMeta::default, |s| s.tx)
    }

    /// Set what the receiver is told.
    pub fn set_rx_meta(&mut self, meta: RxMeta) {
        if let Some(s) = &mut self.0 {
            s.rx = meta;
        }
    }

    /// All bytes, flat.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len());
        for s in self.segments() {
            out.extend_from_slice(s);
        }
        out
    }

    fn links(&self) -> impl Iterator<Item = &Segment> {
        core::iter::successors(self.0.as_deref(), |s| s.next.as_deref())
    }

    fn last_mut(&mut self) -> Option<&mut Segment> {
        let mut last = self.0.as_deref_mut()?;
        while last.next.is_some() {
            last = last.next.as_deref_mut()?;
        }
        Some(last)
    }
}

impl fmt::Debug for MemFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.links().map(Segment::len)).finish()
    }
}

impl Drop for MemFrame {
    fn drop(&mut self) {
        let mut next = self.0.take();
        while let Some(mut segment) = next {
            next = segment.next.take();
            segment.recycle();
        }
    }
}

impl Frame for MemFrame {
    fn len(&self) -> usize {
        self.links().map(Segment::len).sum()
    }

    fn head(&self) -> &[u8] {
        self.0.as_deref().map_or(&[], Segment::bytes)
    }

    fn head_mut(&mut self) -> Option<&mut [u8]> {
        let s = self.0.as_deref_mut()?;
        let (start, len) = (s.start(), s.len());
        Some(&mut s.unique()?[start..start + len])
    }

    fn segment_count(&self) -> usize {
        self.links().count()
    }

    fn segments(&self) -> impl Iterator<Item = &[u8]> {
        self.links().map(Segment::bytes)
    }

    fn split_head(mut self) -> (Self, Option<Self>) {
        let rx = self.rx_meta();
        let rest = self.0.as_deref_mut().and_then(|s| s.next.take()).map(|mut rest| {
            rest.rx = rx;
            rest.tx = TxMeta::default();
            Self(Some(rest))
        });
        (self, rest)
    }

    fn chain(&mut self, mut tail: Self) {
        assert!(
            self.segment_count() + tail.segment_count() <= MEM_SEGMENTS_MAX,
            "the stack chained more segments than the device allows"
        );
        if let Some(last) = self.last_mut() {
            last.next = tail.0.take();
        }
    }

    fn trim_front(&mut self, count: usize) {
        if let Some(s) = &mut self.0 {
            let n = u32::try_from(count).unwrap_or(u32::MAX).min(s.len);
            s.start += n;
            s.len -= n;
        }
    }

    fn truncate(&mut self, len: usize) {
        let mut left = u32::try_from(len).unwrap_or(u32::MAX);
        let mut at = self.0.as_deref_mut();
        while let Some(s) = at {
            s.len = s.len.min(left);
            left -= s.len;
            if left == 0 {
                // Dropped as a frame, so that each goes back to its pool.
                drop(MemFrame(s.next.take()));
                return;
            }
            at = s.next.as_deref_mut();
        }
    }

    fn push_front(&mut self, count: usize) -> Option<&mut [u8]> {
        let s = self.0.as_deref_mut()?;
        let start = s.start().checked_sub(count)?;
        s.unique()?;
        s.start = start as u32;
        s.len += count as u32;
        Some(&mut s.unique()?[start..start + count])
    }

    fn push_back(&mut self, count: usize) -> Option<&mut [u8]> {
        let s = self.last_mut()?;
        if s.tailroom() < count {
            return None;
        }
        let start = s.start() + s.len();
        s.len += count as u32;
        Some(&mut s.unique()?[start..start + count])
    }

    fn tailroom(&self) -> usize {
        self.links().last().map_or(0, Segment::tailroom)
    }

    fn rx_meta(&self) -> RxMeta {
        self.0.as_ref().map_or_else(RxMeta::default, |s| s.rx)
    }

    fn set_tx_meta(&mut self, meta: TxMeta) {
        if let Some(s) = &mut self.0 {
            s.tx = meta;
        }
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
pub struct MemDevice {
    capabilities: Capabilities,
    pool: Rc<Pool>,
    large_total: u32,
    rx: Queue,
    tx: Queue,
}

impl fmt::Debug for MemDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { capabilities, pool: _, large_total: _, rx, tx } = self;
        f.debug_struct("MemDevice")
            .field("capabilities", capabilities)
            .field("buffers", &self.buffers())
            .field("header_buffers_free", &self.header_buffers_free())
            .field("rx", &rx.borrow().len())
            .field("tx", &tx.borrow().len())
            .finish()
    }
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

    /// Use the buffers of `other` instead of its own, as devices of one worker do.
    ///
    /// # Panics
    /// If the buffers of the two differ in size.
    #[must_use]
    pub fn sharing_buffers_of(self, other: &Self) -> Self {
        assert_eq!(self.capabilities.payload_room, other.capabilities.payload_room);
        Self { pool: Rc::clone(&other.pool), large_total: other.large_total, ..self }
    }

    fn with_queues(config: &MemConfig, rx: Queue, tx: Queue) -> Self {
        let pool = Rc::new(Pool::default());
        for _ in 0..config.buffers {
            let buffer = Rc::from(alloc::vec![0; HEADROOM + config.payload_room]);
            pool.large.push(Segment::free(Some(buffer), Size::Large));
        }
        // Header buffers and references must not be the bottleneck that hides the payload pool's.
        for _ in 0..2 * config.buffers + usize::from(config.tx_ring) {
            let buffer = Rc::from([0; HEADROOM + HEADER_ROOM]);
            pool.small.push(Segment::free(Some(buffer), Size::Small));
            pool.references.push(Segment::free(None, Size::Small));
        }
        rx.borrow_mut().reserve(1024);
        tx.borrow_mut().reserve(1024);
        Self {
            capabilities: Capabilities {
                mac: config.mac,
                mtu: config.mtu,
                offloads: config.offloads,
                payload_room: config.payload_room as u32,
                header_room: HEADER_ROOM as u32,
                tx_ring: config.tx_ring,
                tx_segments_max: MEM_SEGMENTS_MAX as u8,
            },
            pool,
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

    /// Header buffers and references that are free now: for leak checks together with
    /// [`Device::buffers`].
    pub fn header_buffers_free(&self) -> usize {
        self.pool.small.len.get() + self.pool.references.len.get()
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
        let free = self.pool.small.pop()?;
        Some(free.into_frame(&self.pool))
    }

    fn payload_alloc(&mut self) -> Option<MemFrame> {
        let free = self.pool.large.pop()?;
        Some(free.into_frame(&self.pool))
    }

    fn share(&mut self, of: &MemFrame, offset: usize, len: usize) -> Option<MemFrame> {
        of.0.as_ref()?.share(offset, len)
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
        Buffers { free: self.pool.large.len.get() as u32, total: self.large_total }
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
    fn whoever_lets_go_last_returns_the_buffer() {
        let mut d = MemDevice::detached(&MemConfig { buffers: 1, ..MemConfig::default() });
        let full = d.header_buffers_free();
        for _ in 0..3 {
            let data = filled(&mut d, b"hello world");
            let references: Vec<_> = (0..11).map(|i| d.share(&data, i, 1).unwrap()).collect();
            assert!(d.payload_alloc().is_none());
            drop(data);
            assert_eq!(references[4].head(), b"o");
            assert_eq!(d.buffers().free, 0);
            drop(references);
            assert_eq!((d.buffers().free, d.header_buffers_free()), (1, full));
        }
    }

    #[test]
    fn references_beyond_those_at_hand_are_made() {
        let mut d =
            MemDevice::detached(&MemConfig { buffers: 1, tx_ring: 1, ..MemConfig::default() });
        let data = filled(&mut d, b"x");
        let references: Vec<_> = (0..100_000).map(|_| d.share(&data, 0, 1).unwrap()).collect();
        drop(data);
        drop(references);
        assert_eq!(d.buffers().free, 1);
        // And a list as long as that is given up without a deep recursion.
        drop(d);
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
