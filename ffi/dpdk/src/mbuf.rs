//! The frame: one or more mbufs in a chain.
//!
//! INVARIANT: an [`Mbuf`] owns the mbuf *structs* of its whole chain alone. A data buffer may have
//! several users: the direct mbuf it belongs to and the indirect mbufs attached to it by
//! [`Device::share`](base::Device::share); its reference count says how many. So lengths and links
//! are always ours to change, bytes only when the count is one and the mbuf is direct.

use core::cell::Cell;
use core::marker::PhantomData;
use core::mem::offset_of;
use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::{AtomicU16, Ordering};

use base::{Checksum, Frame, L4Offload, RxMeta, TxMeta};
use dpdk_sys as sys;
use sys::rte_mbuf;

/// The part of `rte_mbuf` that we use, with the one field that other threads write as an atomic and
/// the others as cells: then a shared reference to it is never a promise that we cannot keep.
#[repr(C)]
struct Segment {
    buf_addr: Cell<*mut u8>,
    buf_iova: Cell<u64>,
    data_off: Cell<u16>,
    refcnt: AtomicU16,
    nb_segs: Cell<u16>,
    port: Cell<u16>,
    ol_flags: Cell<u64>,
    packet_type: Cell<u32>,
    pkt_len: Cell<u32>,
    data_len: Cell<u16>,
    vlan_tci: Cell<u16>,
    hash: Cell<[u32; 2]>,
    vlan_tci_outer: Cell<u16>,
    buf_len: Cell<u16>,
    pool: Cell<*mut sys::rte_mempool>,
    next: Cell<*mut rte_mbuf>,
    tx_offload: Cell<u64>,
}

// Layout on which the code below and the drivers' vector paths rely.
const _: () = {
    assert!(size_of::<Mbuf>() == size_of::<*mut rte_mbuf>());
    assert!(size_of::<Option<Mbuf>>() == size_of::<*mut rte_mbuf>());
    assert!(size_of::<rte_mbuf>() == 128 && align_of::<rte_mbuf>() == 64);
    assert!(size_of::<Segment>() <= size_of::<rte_mbuf>());
    assert!(offset_of!(Segment, buf_addr) == sys::MR_MBUF_AT_BUF_ADDR);
    assert!(offset_of!(Segment, data_off) == sys::MR_MBUF_AT_DATA_OFF);
    assert!(offset_of!(Segment, refcnt) == sys::MR_MBUF_AT_REFCNT);
    assert!(offset_of!(Segment, nb_segs) == sys::MR_MBUF_AT_NB_SEGS);
    assert!(offset_of!(Segment, ol_flags) == sys::MR_MBUF_AT_OL_FLAGS);
    assert!(offset_of!(Segment, pkt_len) == sys::MR_MBUF_AT_PKT_LEN);
    assert!(offset_of!(Segment, data_len) == sys::MR_MBUF_AT_DATA_LEN);
    assert!(offset_of!(Segment, vlan_tci) == sys::MR_MBUF_AT_VLAN_TCI);
    assert!(offset_of!(Segment, hash) == sys::MR_MBUF_AT_RSS);
    assert!(offset_of!(Segment, buf_len) == sys::MR_MBUF_AT_BUF_LEN);
    assert!(offset_of!(Segment, next) == sys::MR_MBUF_AT_NEXT);
    assert!(offset_of!(Segment, tx_offload) == sys::MR_MBUF_AT_TX_OFFLOAD);
    assert!(offset_of!(Segment, next) == 64, "a received frame touches the first cache line only");
    // The bit-field of transmit offloads is written as one word; each field has room for its type
    // but the header lengths, which `tx_lengths` masks.
    assert!(sys::MR_MBUF_L3_LEN_SHIFT == 7 && sys::MR_MBUF_L4_LEN_SHIFT == 7 + 9);
    assert!(sys::MR_MBUF_TSO_SEGSZ_SHIFT == 16 + 8 && sys::MR_MBUF_OUTL3_LEN_SHIFT == 24 + 16);
};

/// Flags that say where the bytes are; all others may be cleared between uses.
const PLACE_FLAGS: u64 = sys::MR_MBUF_INDIRECT | sys::MR_MBUF_EXTERNAL;

/// A frame of one or more mbufs. Dropping it returns them to their pools, from any thread.
///
/// ```no_run
/// use base::{Device, Frame};
/// # fn f(queue: &mut dpdk::PortQueue) -> Option<()> {
/// let mut data = queue.payload_alloc()?;
/// data.push_back(1448)?.fill(0x42);
/// let mut frame = queue.alloc()?;
/// frame.push_back(54)?; // the headers
/// frame.chain(queue.share(&data, 0, 1448)?);
/// assert_eq!((frame.segment_count(), frame.len()), (2, 1502));
/// assert!(data.head_mut().is_none(), "read-only while the frame exists");
/// # Some(()) }
/// ```
#[repr(transparent)]
#[derive(Debug)]
pub struct Mbuf(NonNull<rte_mbuf>);

// SAFETY: an Mbuf owns its structs alone (see the module), reference counts of shared buffers are
// atomic, and mempools accept returns from any thread. It is not Sync: its fields are cells.
unsafe impl Send for Mbuf {}

/// A received chain contradicts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl Mbuf {
    /// Take over the chain at `raw`.
    ///
    /// # Safety
    /// `raw` is the first mbuf of a chain that the caller owns; each mbuf's `data_off + data_len`
    /// lies within its buffer, `nb_segs` and `pkt_len` of the first describe the chain.
    pub(crate) unsafe fn from_raw(raw: NonNull<rte_mbuf>) -> Self {
        Self(raw)
    }

    /// Take over a chain that a driver has delivered, with only the flags in `keep`. Checks what
    /// [`Mbuf::from_raw`] demands: a frame of one segment costs three comparisons.
    ///
    /// # Safety
    /// `raw` is the first mbuf of a `next`-linked chain that the caller owns.
    pub(crate) unsafe fn from_driver(raw: NonNull<rte_mbuf>, keep: u64) -> Result<Self, Malformed> {
        let frame = Self(raw);
        let first = frame.first();
        first.ol_flags.set(first.ol_flags.get() & (keep | PLACE_FLAGS));
        let flat = first.nb_segs.get() == 1
            && u32::from(first.data_len.get()) == first.pkt_len.get()
            && first.fits();
        if !flat {
            // On failure `frame` is dropped and frees the chain.
            frame.check_chain()?;
        }
        Ok(frame)
    }

    /// Walk the chain once: every segment within its buffer, empty segments unlinked, count and
    /// length recomputed where the driver got them wrong.
    fn check_chain(&self) -> Result<(), Malformed> {
        let first = self.first();
        let (mut count, mut total) = (0u16, 0u32);
        let mut at = first;
        loop {
            if !at.fits() {
                return Err(Malformed);
            }
            count = count.checked_add(1).ok_or(Malformed)?;
            total = total.checked_add(u32::from(at.data_len.get())).ok_or(Malformed)?;
            while let Some(next) = self.after(at)
                && next.data_len.get() == 0
            {
                let unlinked = at.next.get();
                at.next.set(next.next.get());
                next.next.set(ptr::null_mut());
                next.nb_segs.set(1);
                // SAFETY: the struct was ours and was just unlinked, so nobody refers to it; `next`
                // is not used after this.
                unsafe { sys::mr_free_segment(unlinked) };
            }
            match self.after(at) {
                Some(next) => at = next,
                None => break,
            }
        }
        // An empty first segment can neither be unlinked without losing the metadata nor parsed.
        if first.data_len.get() == 0 && count > 1 {
            return Err(Malformed);
        }
        first.nb_segs.set(count);
        first.pkt_len.set(total);
        Ok(())
    }

    /// Give the chain to somebody else, typically a driver.
    pub(crate) fn into_raw(self) -> NonNull<rte_mbuf> {
        let raw = self.0;
        core::mem::forget(self);
        raw
    }

    pub(crate) fn raw_ptr(&self) -> *mut rte_mbuf {
        self.0.as_ptr()
    }

    /// This fresh mbuf as a reference to `len` bytes at `offset` of the first segment of `of`.
    ///
    /// Panics when the range is not within that segment: the caller has checked.
    pub(crate) fn attach(self, of: &Self, offset: u16, len: u16) -> Self {
        assert!(u32::from(offset) + u32::from(len) <= u32::from(of.first().data_len.get()));
        debug_assert!(self.first().writable(), "only a fresh mbuf of its own can refer to another");
        // SAFETY: `self` is direct, unshared and carries no data; `of` is valid. DPDK raises the
        // count of the buffer behind `of`, so it outlives `of` as long as it is referred to.
        unsafe { sys::mr_attach(self.raw_ptr(), of.raw_ptr()) };
        let m = self.first();
        m.data_off.set(m.data_off.get() + offset);
        m.data_len.set(len);
        m.pkt_len.set(u32::from(len));
        // Metadata of the other frame is not ours.
        m.ol_flags.set(m.ol_flags.get() & PLACE_FLAGS);
        m.tx_offload.set(0);
        self
    }

    fn first(&self) -> &Segment {
        // SAFETY: `self` owns the struct (module invariant), `Segment` has its layout (asserted
        // above), and its fields may change under a shared reference.
        unsafe { self.0.cast::<Segment>().as_ref() }
    }

    /// The segment after `at`, which belongs to our chain.
    fn after<'a>(&'a self, at: &'a Segment) -> Option<&'a Segment> {
        // SAFETY: null, or the next member of the chain that `self` owns.
        unsafe { at.next.get().cast::<Segment>().as_ref() }
    }

    fn last(&self) -> &Segment {
        let mut at = self.first();
        while let Some(next) = self.after(at) {
            at = next;
        }
        at
    }
}

impl Segment {
    /// The bytes lie within the buffer.
    fn fits(&self) -> bool {
        let end = u32::from(self.data_off.get()) + u32::from(self.data_len.get());
        end <= u32::from(self.buf_len.get())
    }

    /// Whether the buffer may be written to: it is the mbuf's own and nobody else refers to it.
    fn writable(&self) -> bool {
        // Acquire pairs with the release of the last other user, whose reads are then over.
        self.ol_flags.get() & PLACE_FLAGS == 0 && self.refcnt.load(Ordering::Acquire) == 1
    }

    /// Start of the data.
    fn data(&self) -> *mut u8 {
        // SAFETY: `data_off` lies within the buffer (checked on receipt, kept by every change).
        unsafe { self.buf_addr.get().add(usize::from(self.data_off.get())) }
    }
}

/// The segment's bytes.
///
/// # Safety
/// `m` belongs to an [`Mbuf`] that is borrowed for `'a`.
unsafe fn bytes<'a>(m: &Segment) -> &'a [u8] {
    // SAFETY: the range lies within the buffer (checked on receipt, kept by every change), the
    // memory is initialised (EAL maps zeroed pages), and it is written only through a mutable
    // borrow of an Mbuf that is its only user.
    unsafe { slice::from_raw_parts(m.data(), usize::from(m.data_len.get())) }
}

impl Drop for Mbuf {
    fn drop(&mut self) {
        // SAFETY: `self` owns one reference to each segment of the chain and gives them up here.
        unsafe { sys::mr_free(self.0.as_ptr()) }
    }
}

struct Segments<'a> {
    at: *mut rte_mbuf,
    owner: PhantomData<&'a Mbuf>,
}

impl<'a> Iterator for Segments<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        // SAFETY: null, or a member of the chain that the borrowed Mbuf owns.
        let m = unsafe { self.at.cast::<Segment>().as_ref()? };
        self.at = m.next.get();
        // SAFETY: the owner is borrowed for 'a.
        Some(unsafe { bytes(m) })
    }
}

impl Frame for Mbuf {
    fn len(&self) -> usize {
        self.first().pkt_len.get() as usize
    }

    fn head(&self) -> &[u8] {
        // SAFETY: `self` is borrowed as long as the slice.
        unsafe { bytes(self.first()) }
    }

    fn head_mut(&mut self) -> Option<&mut [u8]> {
        let m = self.first();
        if !m.writable() {
            return None;
        }
        // SAFETY: as in `bytes`; `writable` proved that nobody else refers to the buffer, and the
        // mutable borrow of `self` keeps it that way.
        Some(unsafe { slice::from_raw_parts_mut(m.data(), usize::from(m.data_len.get())) })
    }

    fn segment_count(&self) -> usize {
        usize::from(self.first().nb_segs.get())
    }

    fn segments(&self) -> impl Iterator<Item = &[u8]> {
        Segments { at: self.0.as_ptr(), owner: PhantomData }
    }

    fn split_head(self) -> (Self, Option<Self>) {
        let m = self.first();
        let Some(raw) = NonNull::new(m.next.get()) else { return (self, None) };
        m.next.set(ptr::null_mut());
        // SAFETY: just unlinked from our chain; count, length and metadata follow.
        let rest = unsafe { Self::from_raw(raw) };
        let r = rest.first();
        r.nb_segs.set(m.nb_segs.get() - 1);
        r.pkt_len.set(m.pkt_len.get() - u32::from(m.data_len.get()));
        let (place, meta) = (r.ol_flags.get() & PLACE_FLAGS, m.ol_flags.get() & !PLACE_FLAGS);
        r.ol_flags.set(place | meta);
        r.hash.set(m.hash.get());
        r.vlan_tci.set(m.vlan_tci.get());
        m.nb_segs.set(1);
        m.pkt_len.set(u32::from(m.data_len.get()));
        (self, Some(rest))
    }

    fn chain(&mut self, tail: Self) {
        let first = self.first();
        let segments = first.nb_segs.get().checked_add(tail.first().nb_segs.get());
        let segments = segments.expect("a frame has fewer segments than a mbuf can count");
        let length = first.pkt_len.get() + tail.first().pkt_len.get();
        self.last().next.set(tail.into_raw().as_ptr());
        first.nb_segs.set(segments);
        first.pkt_len.set(length);
    }

    fn trim_front(&mut self, count: usize) {
        let m = self.first();
        let n = u16::try_from(count).unwrap_or(u16::MAX).min(m.data_len.get());
        m.data_off.set(m.data_off.get() + n);
        m.data_len.set(m.data_len.get() - n);
        m.pkt_len.set(m.pkt_len.get() - u32::from(n));
    }

    fn truncate(&mut self, len: usize) {
        if len >= self.len() {
            return;
        }
        let first = self.first();
        let (mut left, mut kept, mut at) = (len, 1u16, first);
        loop {
            let here = usize::from(at.data_len.get()).min(left);
            at.data_len.set(here as u16);
            left -= here;
            match self.after(at) {
                Some(next) if left > 0 => at = next,
                _ => break,
            }
            kept += 1;
        }
        let rest = at.next.replace(ptr::null_mut());
        // SAFETY: the rest was just unlinked and is ours; freeing null does nothing.
        unsafe { sys::mr_free(rest) };
        first.nb_segs.set(kept);
        first.pkt_len.set((len - left) as u32);
    }

    fn push_front(&mut self, count: usize) -> Option<&mut [u8]> {
        let m = self.first();
        let n = u16::try_from(count).ok()?;
        if !m.writable() {
            return None;
        }
        let (offset, len) = (m.data_off.get().checked_sub(n)?, m.data_len.get().checked_add(n)?);
        m.data_off.set(offset);
        m.data_len.set(len);
        m.pkt_len.set(m.pkt_len.get() + u32::from(n));
        // SAFETY: the first `count` bytes of the data, in a buffer that `writable` proved ours.
        Some(unsafe { slice::from_raw_parts_mut(m.data(), count) })
    }

    fn push_back(&mut self, count: usize) -> Option<&mut [u8]> {
        if count > self.tailroom() {
            return None;
        }
        // At most the tailroom, which fits 16 bits.
        let n = count as u16;
        let (first, last) = (self.first(), self.last());
        let old = last.data_len.get();
        last.data_len.set(old + n);
        first.pkt_len.set(first.pkt_len.get() + u32::from(n));
        // SAFETY: behind the old data and within the buffer, which is ours alone, or there would
        // have been no tailroom.
        Some(unsafe { slice::from_raw_parts_mut(last.data().add(usize::from(old)), count) })
    }

    fn tailroom(&self) -> usize {
        let m = self.last();
        if !m.writable() {
            return 0;
        }
        let used = usize::from(m.data_off.get()) + usize::from(m.data_len.get());
        usize::from(m.buf_len.get()).saturating_sub(used)
    }

    /// Checksum, hash and tag as the flags say. The queue has removed the flags that are not to be
    /// believed.
    fn rx_meta(&self) -> RxMeta {
        let m = self.first();
        let flags = m.ol_flags.get();
        let l3_checksum = match flags & sys::MR_MBUF_RX_IP_CKSUM_MASK {
            sys::MR_MBUF_RX_IP_CKSUM_GOOD => Checksum::Good,
            sys::MR_MBUF_RX_IP_CKSUM_BAD => Checksum::Bad,
            _ => Checksum::Unknown,
        };
        let l4_checksum = match flags & sys::MR_MBUF_RX_L4_CKSUM_MASK {
            // NONE: the field is not filled in, but the data is known to be intact.
            sys::MR_MBUF_RX_L4_CKSUM_GOOD | sys::MR_MBUF_RX_L4_CKSUM_NONE => Checksum::Good,
            sys::MR_MBUF_RX_L4_CKSUM_BAD => Checksum::Bad,
            _ => Checksum::Unknown,
        };
        let rss_hash = (flags & sys::MR_MBUF_RX_RSS_HASH != 0).then(|| m.hash.get()[0]);
        let vlan = (flags & sys::MR_MBUF_RX_VLAN_STRIPPED != 0).then(|| m.vlan_tci.get());
        RxMeta { l3_checksum, l4_checksum, rss_hash, vlan }
    }

    fn set_tx_meta(&mut self, meta: TxMeta) {
        let m = self.first();
        m.ol_flags.set((m.ol_flags.get() & PLACE_FLAGS) | tx_flags(&meta));
        m.tx_offload.set(tx_lengths(&meta));
    }
}

/// `ol_flags` for a request.
fn tx_flags(meta: &TxMeta) -> u64 {
    let asks = meta.ip_checksum || meta.l4 != L4Offload::None || meta.tso_segment > 0;
    if !asks {
        return 0;
    }
    let mut flags = if meta.ipv6 { sys::MR_MBUF_TX_IPV6 } else { sys::MR_MBUF_TX_IPV4 };
    if meta.ip_checksum && !meta.ipv6 {
        flags |= sys::MR_MBUF_TX_IP_CKSUM;
    }
    flags |= match meta.l4 {
        L4Offload::None => 0,
        L4Offload::Tcp => sys::MR_MBUF_TX_TCP_CKSUM,
        L4Offload::Udp => sys::MR_MBUF_TX_UDP_CKSUM,
    };
    if meta.tso_segment > 0 {
        flags |= sys::MR_MBUF_TX_TCP_SEG | sys::MR_MBUF_TX_TCP_CKSUM;
    }
    flags
}

/// Header lengths and segment size in the places of the bit-field; asserted above.
fn tx_lengths(meta: &TxMeta) -> u64 {
    let l2 = u64::from(meta.l2_len) & 0x7f;
    let l3 = u64::from(meta.l3_len) & 0x1ff;
    l2 | l3 << 7 | u64::from(meta.l4_len) << 16 | u64::from(meta.tso_segment) << 24
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Eal, EalConfig, PortConfig, PortQueue, RingPair};
    use base::{Device, RxBatch};
    use std::collections::VecDeque;

    #[test]
    fn lengths_lie_in_their_fields() {
        let meta =
            TxMeta { l2_len: 14, l3_len: 40, l4_len: 32, tso_segment: 1428, ..TxMeta::default() };
        assert_eq!(tx_lengths(&meta), 14 | 40 << 7 | 32 << 16 | 1428 << 24);
        let large = TxMeta { l2_len: 255, l3_len: u16::MAX, ..meta };
        assert_eq!(tx_lengths(&large) >> 16, 32 | 1428 << 8, "neighbours are not touched");
    }

    #[test]
    fn flags_are_set_only_when_something_is_asked() {
        let plain = TxMeta { l2_len: 14, l3_len: 20, l4_len: 20, ..TxMeta::default() };
        assert_eq!(tx_flags(&plain), 0);
        let v6 = TxMeta { ipv6: true, ip_checksum: true, l4: L4Offload::Udp, ..plain };
        assert_eq!(tx_flags(&v6), sys::MR_MBUF_TX_IPV6 | sys::MR_MBUF_TX_UDP_CKSUM);
        let tso = TxMeta { ip_checksum: true, tso_segment: 1448, ..plain };
        assert_eq!(
            tx_flags(&tso),
            sys::MR_MBUF_TX_IPV4
                | sys::MR_MBUF_TX_IP_CKSUM
                | sys::MR_MBUF_TX_TCP_CKSUM
                | sys::MR_MBUF_TX_TCP_SEG
        );
    }

    /// Contradictions that a driver could deliver, made by hand on frames of a ring pair.
    #[test]
    fn received_chains_are_checked() {
        let eal = Eal::init(&EalConfig::software(64)).unwrap();
        let config = PortConfig { buffers: 128, header_buffers: 128, ..PortConfig::default() };
        let RingPair { a, b } = RingPair::create(&eal, "checked", 1, 64).unwrap();
        let mut a = a.start(&config).unwrap().queues.remove(0);
        let mut b = b.start(&config).unwrap().queues.remove(0);
        let chain = |a: &mut PortQueue, lens: &[usize]| {
            let mut parts = lens.iter().map(|&len| {
                let mut part = a.payload_alloc().unwrap();
                part.push_back(len).unwrap().fill(len as u8);
                part
            });
            let mut frame = parts.next().unwrap();
            parts.for_each(|part| frame.chain(part));
            frame
        };
        let mut pass = |a: &mut PortQueue, frame| {
            assert_eq!(a.tx_burst(&mut VecDeque::from([frame])), 1);
            let mut out = RxBatch::new();
            b.rx_burst(&mut out);
            (out.pop(), b.counters().rx_malformed)
        };

        let frame = chain(&mut a, &[4, 10]);
        frame.first().pkt_len.set(99);
        frame.first().nb_segs.set(7);
        frame.first().ol_flags.set(sys::MR_MBUF_RX_IP_CKSUM_GOOD | sys::MR_MBUF_RX_VLAN_STRIPPED);
        let (got, malformed) = pass(&mut a, frame);
        let got = got.unwrap();
        assert_eq!((got.len(), got.segment_count(), malformed), (14, 2, 0));
        assert_eq!(got.rx_meta(), RxMeta::default(), "flags of the sender mean nothing");
        drop(got);

        let frame = chain(&mut a, &[4, 0, 0, 10, 0]);
        let got = pass(&mut a, frame).0.unwrap();
        assert_eq!((got.len(), got.segment_count()), (14, 2));
        assert_eq!(got.segments().map(<[u8]>::len).collect::<Vec<_>>(), [4, 10]);
        drop(got);

        let frame = chain(&mut a, &[0, 4]);
        let (got, malformed) = pass(&mut a, frame);
        assert!(got.is_none() && malformed == 1);
        let frame = chain(&mut a, &[4, 4]);
        frame.last().data_len.set(u16::MAX);
        let (got, malformed) = pass(&mut a, frame);
        assert!(got.is_none() && malformed == 2);

        let buffers = a.buffers();
        assert_eq!(buffers.free, buffers.total, "what was refused went back");
        verdicts(chain(&mut a, &[4]));
    }

    fn verdicts(frame: Mbuf) {
        let flags = sys::MR_MBUF_RX_IP_CKSUM_BAD
            | sys::MR_MBUF_RX_L4_CKSUM_NONE
            | sys::MR_MBUF_RX_RSS_HASH
            | sys::MR_MBUF_RX_VLAN_STRIPPED;
        frame.first().ol_flags.set(flags);
        frame.first().hash.set([0xdead_beef, 0]);
        frame.first().vlan_tci.set(7);
        // SAFETY: the chain was ours until here.
        let frame = unsafe { Mbuf::from_driver(frame.into_raw(), u64::MAX) }.unwrap();
        let all = RxMeta {
            l3_checksum: Checksum::Bad,
            l4_checksum: Checksum::Good,
            rss_hash: Some(0xdead_beef),
            vlan: Some(7),
        };
        assert_eq!(frame.rx_meta(), all);
        // SAFETY: as above.
        let frame = unsafe { Mbuf::from_driver(frame.into_raw(), 0) }.unwrap();
        assert_eq!(frame.rx_meta(), RxMeta::default());
    }
}
