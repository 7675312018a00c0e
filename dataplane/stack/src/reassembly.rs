//! Reassembly of IPv4 and IPv6 fragments, within limits.
//!
//! TCP avoids fragments, so this table is small and strict: what overlaps is discarded as a whole
//! (RFC 5722 section 4, RFC 8200 section 4.5; for IPv4 by our own choice), a datagram has few parts, a source
//! has few datagrams, and under pressure the oldest datagram goes. Bytes stay in the frames in which
//! they came: a complete datagram is handed back as its parts in order.
//!
//! A frame that does not get into a datagram goes to the caller's `dropped` with its reason.

use arrayvec::ArrayVec;
use core::net::IpAddr;
use core::time::Duration;

use base::{ConnId, DropReason, Ecn, Instant};

use crate::arena::{Ordered, OrderedArena};
use crate::bounded::BoundedMap;
use crate::conns::Conns;

/// Parts that a datagram may have.
pub const PARTS_MAX: usize = 64;
/// Frames in the table for each datagram that it may hold.
const FRAMES_PER_DATAGRAM: u32 = 8;
/// The part of the table that one source may fill.
const SOURCE_SHARE: u32 = 4;
/// How long an IPv4 datagram may take (Linux has the same; RFC 1122 section 3.3.2 wants 60 to 120 s,
/// which nothing on today's paths needs).
pub const TIMEOUT_V4: Duration = Duration::from_secs(30);
/// RFC 8200 section 4.5.
pub const TIMEOUT_V6: Duration = Duration::from_secs(60);
/// Datagrams that may give way to one fragment.
const EVICTIONS_MAX: usize = 4;
/// Datagrams that one call of [`Reassembly::expire`] looks at.
const EXPIRE_LOOK: usize = 64;

const TCP: u8 = 6;
const TCP_HEADER: u16 = 20;
/// The header of UDP and ICMP, and the least of an extension header.
const SHORT_HEADER: u16 = 8;
const NIL: u32 = u32::MAX;

/// What the fragments of one datagram have in common. Ordered by source first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatagramKey {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Identification, 16 bits in IPv4.
    pub id: u32,
    /// IPv4: the protocol, RFC 791. IPv6: zero, since RFC 8200 does not count it.
    pub protocol: u8,
}

/// One fragment.
#[derive(Debug)]
pub struct Fragment<F> {
    /// Bytes before it in the datagram's fragmentable part.
    pub offset: u16,
    /// Its bytes of the fragmentable part.
    pub len: u16,
    /// More fragments follow.
    pub more: bool,
    /// Bytes of headers before the fragmentable part that count for the datagram's length: the
    /// IPv4 header; for IPv6 the extension headers before the fragment header.
    pub header_len: u16,
    /// Protocol (next header) of the fragmentable part.
    pub protocol: u8,
    /// What its IP header says of congestion.
    pub ecn: Ecn,
    /// What holds the bytes.
    pub frame: F,
}

/// A part of a complete datagram.
#[derive(Debug, PartialEq, Eq)]
pub struct Part<F> {
    /// Bytes before it.
    pub offset: u16,
    /// Its bytes.
    pub len: u16,
    /// What holds them.
    pub frame: F,
}

/// A complete datagram: its parts without gap or overlap, in order.
#[derive(Debug, PartialEq, Eq)]
pub struct Datagram<F> {
    /// The parts.
    pub parts: ArrayVec<Part<F>, PARTS_MAX>,
    /// Bytes of all parts.
    pub len: u32,
    /// What the parts together say of congestion: marked if one of them is, RFC 3168 section 5.3.
    pub ecn: Ecn,
}

struct Pending {
    key: DatagramKey,
    born: Instant,
    /// By offset.
    parts: Ordered,
    /// Bytes in `parts`.
    received: u32,
    /// Where the datagram ends, once the last fragment has come.
    end: Option<u32>,
    ecn: Codepoints,
    /// The datagram is discarded, and so is what still comes of it.
    condemned: Option<DropReason>,
    /// Towards younger datagrams of the family.
    next: u32,
    prev: u32,
}

/// A set of codepoints of ECN.
#[derive(Clone, Copy, Default)]
struct Codepoints(u8);

impl Codepoints {
    fn insert(&mut self, ecn: Ecn) {
        self.0 |= 1 << ecn.bits();
    }

    const fn has(self, ecn: Ecn) -> bool {
        self.0 & 1 << ecn.bits() != 0
    }

    /// What a datagram says of whose fragments one says this and one that: no mark is lost (RFC 3168
    /// section 5.3). `None` if a router marked what must not be marked.
    fn merged(self) -> Option<Ecn> {
        if self.has(Ecn::Ce) {
            return (!self.has(Ecn::NotEct)).then_some(Ecn::Ce);
        }
        let alone = self.0.is_power_of_two();
        Some(if alone { Ecn::from_bits(self.0.trailing_zeros() as u8) } else { Ecn::NotEct })
    }
}

/// Datagrams of one family in the order in which they began.
#[derive(Clone, Copy)]
struct ByAge {
    head: u32,
    tail: u32,
}

/// The table of one worker.
pub struct Reassembly<F> {
    pending: Conns<Pending>,
    index: BoundedMap<DatagramKey, ConnId>,
    parts: OrderedArena<Part<F>>,
    ages: [ByAge; 2],
}

impl<F> Reassembly<F> {
    /// A table for `datagrams` datagrams at a time; zero drops every fragment. `seed` is a secret.
    pub fn new(datagrams: u16, seed: u64) -> Self {
        let frames = u32::from(datagrams) * FRAMES_PER_DATAGRAM;
        Self {
            pending: Conns::new(u32::from(datagrams)),
            index: BoundedMap::new(usize::from(datagrams)),
            parts: OrderedArena::new(frames.max(PARTS_MAX as u32), seed),
            ages: [ByAge { head: NIL, tail: NIL }; 2],
        }
    }

    /// Datagrams being reassembled, or remembered as discarded.
    pub fn len(&self) -> u32 {
        self.pending.len()
    }

    /// No datagrams.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Frames held.
    pub fn frames(&self) -> u32 {
        self.parts.used()
    }

    /// A fragment has come. Returns the datagram if it is complete with it.
    pub fn insert(
        &mut self,
        now: Instant,
        key: DatagramKey,
        fragment: Fragment<F>,
        dropped: &mut impl FnMut(DropReason, F),
    ) -> Option<Datagram<F>> {
        let Fragment { offset, len, more, header_len, protocol, ecn, frame } = fragment;
        let end = u32::from(offset) + u32::from(len);
        if offset == 0 && !more {
            // RFC 6946: an atomic fragment stands alone, whatever else has its identification.
            let mut parts = ArrayVec::new();
            parts.push(Part { offset, len, frame });
            return Some(Datagram { parts, len: end, ecn });
        }
        if end + u32::from(header_len) > u32::from(u16::MAX) {
            dropped(DropReason::FragmentSize, frame);
            if let Some(&id) = self.index.get(&key) {
                self.discard(id, DropReason::FragmentSize, dropped);
            }
            return None;
        }
        if let Some(reason) = check_shape(offset, len, more, protocol) {
            dropped(reason, frame);
            return None;
        }
        let Some(id) = self.find_or_begin(now, key, dropped) else {
            dropped(DropReason::FragmentLimit, frame);
            return None;
        };
        let Some(datagram) = self.pending.get(id) else {
            dropped(DropReason::FragmentLimit, frame);
            return None;
        };
        if let Some(reason) = datagram.condemned {
            dropped(reason, frame);
            return None;
        }
        let verdict = self.check_place(datagram, offset, len, more);
        match verdict {
            Place::Free => {}
            Place::Duplicate => {
                dropped(DropReason::FragmentDuplicate, frame);
                return None;
            }
            Place::Contradiction(reason) => {
                dropped(reason, frame);
                self.condemn(id, reason, dropped);
                return None;
            }
        }
        if !self.make_frame_room(id, dropped) {
            dropped(DropReason::FragmentLimit, frame);
            self.condemn(id, DropReason::FragmentLimit, dropped);
            return None;
        }
        let datagram = self.pending.get_mut(id)?;
        let part = Part { offset, len, frame };
        if let Err(part) = self.parts.insert(&mut datagram.parts, u64::from(offset), part) {
            dropped(DropReason::FragmentLimit, part.frame);
            return None;
        }
        datagram.received += u32::from(len);
        datagram.ecn.insert(ecn);
        if !more {
            datagram.end = Some(end);
        }
        if datagram.end != Some(datagram.received) {
            return None;
        }
        if datagram.ecn.merged().is_none() {
            self.discard(id, DropReason::FragmentEcn, dropped);
            return None;
        }
        self.complete(id)
    }

    /// Discard what has taken too long: `frag_timeout`. A bounded number at a time.
    pub fn expire(&mut self, now: Instant, dropped: &mut impl FnMut(DropReason, F)) {
        if self.pending.is_empty() {
            return;
        }
        for _ in 0..EXPIRE_LOOK {
            let due = |family| self.oldest(family).filter(|&(_, deadline)| deadline <= now);
            let Some((id, _)) = due(0).or_else(|| due(1)) else { return };
            self.discard(id, DropReason::FragmentTimeout, dropped);
        }
    }

    /// When [`Reassembly::expire`] has something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        if self.pending.is_empty() {
            return None;
        }
        let deadlines = [0, 1].into_iter().filter_map(|family| self.oldest(family));
        deadlines.map(|(_, deadline)| deadline).min()
    }

    fn find_or_begin(
        &mut self,
        now: Instant,
        key: DatagramKey,
        dropped: &mut impl FnMut(DropReason, F),
    ) -> Option<ConnId> {
        if let Some(&id) = self.index.get(&key) {
            if self.pending.get(id).is_some_and(|datagram| now < deadline(datagram)) {
                return Some(id);
            }
            // Its time is up, only nobody has looked: these are fragments of the next datagram.
            self.discard(id, DropReason::FragmentTimeout, dropped);
        }
        let share = (self.pending.capacity() / SOURCE_SHARE).max(1) as usize;
        let first = self.index.rank(|k| k.source < key.source);
        let count = self.index.rank(|k| k.source <= key.source) - first;
        if count >= share {
            let oldest = (first..first + count)
                .filter_map(|i| self.index.at(i))
                .min_by_key(|(_, id)| self.pending.get(**id).map(|datagram| datagram.born))
                .map(|(_, id)| *id)?;
            self.discard(oldest, DropReason::FragmentLimit, dropped);
        } else if self.pending.is_full() {
            let oldest = self.oldest_of_all()?;
            self.discard(oldest, DropReason::FragmentLimit, dropped);
        }
        let family = family(&key);
        let tail = self.ages[family].tail;
        let datagram = Pending {
            key,
            born: now,
            parts: Ordered::EMPTY,
            received: 0,
            end: None,
            ecn: Codepoints::default(),
            condemned: None,
            next: NIL,
            prev: tail,
        };
        let id = self.pending.insert(datagram).ok()?;
        let inserted = self.index.insert(key, id);
        debug_assert!(matches!(inserted, Ok(None)));
        self.ages[family].tail = id.slot;
        match self.pending.at_mut(tail) {
            Some(older) => older.next = id.slot,
            None => self.ages[family].head = id.slot,
        }
        Some(id)
    }

    /// Where a fragment lies among those that have come.
    fn check_place(&self, datagram: &Pending, offset: u16, len: u16, more: bool) -> Place {
        let (start, end) = (u32::from(offset), u32::from(offset) + u32::from(len));
        let overlap = Place::Contradiction(DropReason::FragmentOverlap);
        let part_end = |part: &Part<F>| u32::from(part.offset) + u32::from(part.len);
        let before = self.parts.at_or_before(&datagram.parts, u64::from(end - 1));
        if let Some((_, part)) = before
            && part_end(part) > start
        {
            let last = datagram.end == Some(part_end(part));
            // RFC 8200 section 4.5 lets exact duplicates pass.
            return if part.offset == offset && part.len == len && last != more {
                Place::Duplicate
            } else {
                overlap
            };
        }
        // A second, different end; data behind the end; an end before data that has come.
        let last_part = self.parts.last(&datagram.parts).map_or(0, |(_, part)| part_end(part));
        let contradicts = match datagram.end {
            Some(known) => !more || end > known,
            None => !more && end < last_part,
        };
        if contradicts {
            return overlap;
        }
        if datagram.parts.len() as usize >= PARTS_MAX {
            return Place::Contradiction(DropReason::FragmentLimit);
        }
        Place::Free
    }

    /// Let older datagrams give way until another frame fits. False: it does not fit.
    fn make_frame_room(&mut self, id: ConnId, dropped: &mut impl FnMut(DropReason, F)) -> bool {
        for _ in 0..EVICTIONS_MAX {
            if self.parts.used() < self.parts.capacity() {
                return true;
            }
            match self.oldest_of_all() {
                Some(oldest) if oldest != id => {
                    self.discard(oldest, DropReason::FragmentLimit, dropped);
                }
                _ => return false,
            }
        }
        self.parts.used() < self.parts.capacity()
    }

    fn complete(&mut self, id: ConnId) -> Option<Datagram<F>> {
        let mut datagram = self.remove(id)?;
        let mut parts = ArrayVec::new();
        while let Some((_, part)) = self.parts.pop_first(&mut datagram.parts) {
            parts.push(part);
        }
        Some(Datagram { parts, len: datagram.received, ecn: datagram.ecn.merged()? })
    }

    /// Discard the frames and remember to discard what still comes.
    fn condemn(&mut self, id: ConnId, reason: DropReason, dropped: &mut impl FnMut(DropReason, F)) {
        let Some(datagram) = self.pending.get_mut(id) else { return };
        datagram.condemned = Some(reason);
        while let Some((_, part)) = self.parts.pop_first(&mut datagram.parts) {
            dropped(reason, part.frame);
        }
    }

    /// Discard the frames and forget the datagram.
    fn discard(&mut self, id: ConnId, reason: DropReason, dropped: &mut impl FnMut(DropReason, F)) {
        self.condemn(id, reason, dropped);
        self.remove(id);
    }

    fn remove(&mut self, id: ConnId) -> Option<Pending> {
        let datagram = self.pending.remove(id)?;
        self.index.remove(&datagram.key);
        let ages = &mut self.ages[family(&datagram.key)];
        match self.pending.at_mut(datagram.prev) {
            Some(older) => older.next = datagram.next,
            None => ages.head = datagram.next,
        }
        match self.pending.at_mut(datagram.next) {
            Some(younger) => younger.prev = datagram.prev,
            None => ages.tail = datagram.prev,
        }
        Some(datagram)
    }

    /// The oldest datagram of a family, and when its time is up.
    fn oldest(&self, family: usize) -> Option<(ConnId, Instant)> {
        let id = self.pending.id_at(self.ages[family].head)?;
        Some((id, deadline(self.pending.get(id)?)))
    }

    fn oldest_of_all(&self) -> Option<ConnId> {
        let heads = self.ages.iter().filter_map(|ages| self.pending.id_at(ages.head));
        heads.min_by_key(|id| self.pending.get(*id).map(|datagram| datagram.born))
    }
}

enum Place {
    Free,
    Duplicate,
    Contradiction(DropReason),
}

fn check_shape(offset: u16, len: u16, more: bool, protocol: u8) -> Option<DropReason> {
    if more && !len.is_multiple_of(8) {
        return Some(DropReason::FragmentAlign);
    }
    if len == 0 {
        return Some(DropReason::FragmentTiny);
    }
    // RFC 1858, RFC 7112: the first fragment has the whole transport header. RFC 3128: nor may a
    // later one bring a part of TCP's.
    let header = if protocol == TCP { TCP_HEADER } else { SHORT_HEADER };
    let tiny = if offset == 0 { len < header } else { protocol == TCP && offset < header };
    tiny.then_some(DropReason::FragmentTiny)
}

fn family(key: &DatagramKey) -> usize {
    usize::from(key.source.is_ipv6())
}

fn deadline(datagram: &Pending) -> Instant {
    let timeout = if datagram.key.source.is_ipv6() { TIMEOUT_V6 } else { TIMEOUT_V4 };
    datagram.born + timeout
}

#[cfg(test)]
mod tests;
