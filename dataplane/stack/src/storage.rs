//! The bytes of connections: what was received and not read, and what was sent and not acknowledged.
//!
//! The engine decides on ranges; here is where the bytes of those ranges lie. Received payload stays
//! in the buffers it came in. The application's bytes are copied once, with their checksum, into
//! buffers that are cut where segments will be, so that a segment is normally one whole buffer and
//! its checksum is known.
//!
//! INVARIANT: ranges out of order never overlap each other or what is in order; the records of what
//! was sent are gapless from the oldest unacknowledged byte (or before) to the newest.

use core::cell::Cell;

use base::{Device, Frame};
use tcp::SeqNum;

use crate::arena::{Arena, Ordered, OrderedArena, Place, Queue};
use crate::egress::{Payload, Piece};

/// Received payloads up to this many bytes are copied behind the one before, if its buffer has room:
/// a flood of tiny segments must not take a buffer each.
const COMPACT_MAX: usize = 256;
/// Bytes of a sent but unacknowledged buffer up to which further small writes are put behind.
const APPEND_AFTER_SENT_MAX: usize = 512;
/// Position that sequence numbers are counted from, far enough from zero for earlier ones.
const ORIGIN: u64 = 1 << 40;
/// Chunks of the receive arena beyond one for each buffer.
const SPARE_CHUNKS: u32 = 1024;
/// Entries that must be free in each arena for payload to be taken in: more than one burst needs.
const INPUT_RESERVE: u32 = 512;

/// Sequence numbers as positions that never wrap: 2^64 bytes last for centuries.
#[derive(Clone, Copy, Debug)]
struct Positions {
    seq: SeqNum,
    key: u64,
}

impl Default for Positions {
    fn default() -> Self {
        Self { seq: SeqNum::default(), key: ORIGIN }
    }
}

impl Positions {
    fn of(&self, seq: SeqNum) -> u64 {
        self.key.wrapping_add_signed(i64::from(seq.distance_from(self.seq)))
    }

    fn advance(&mut self, to: SeqNum) {
        *self = Self { seq: to, key: self.of(to) };
    }
}

/// The arenas of a worker.
pub(crate) struct Storage<F> {
    received: Arena<F>,
    out_of_order: OrderedArena<F>,
    sent: OrderedArena<Record<F>>,
}

/// A piece of the application's data: one buffer.
struct Record<F> {
    frame: F,
    /// Partial sum of all bytes of `frame`.
    sum: u32,
    /// The record behind this one, so that a run of segments costs one search.
    next: Option<Place>,
}

/// Received bytes of one connection.
#[derive(Default)]
pub(crate) struct RecvStore {
    queue: Queue,
    out_of_order: Ordered,
    at: Positions,
    readable: u32,
}

/// Sent and unsent bytes of one connection.
#[derive(Default)]
pub(crate) struct SendStore {
    records: Ordered,
    at: Positions,
    /// Bytes that the last record still takes before the next cut between segments.
    until_cut: u32,
    /// The last record. INVARIANT: it is stored.
    tail: Option<Place>,
    /// The record that was looked at last: transmission goes on behind it. INVARIANT: it is stored.
    cursor: Cell<Option<Place>>,
}

impl<F: Frame> Storage<F> {
    /// Arenas for a pool of `buffers`.
    pub(crate) fn new(buffers: u32, seed: u64) -> Self {
        let entries = buffers.saturating_add(2 * INPUT_RESERVE);
        Self {
            received: Arena::new(buffers.saturating_add(SPARE_CHUNKS)),
            out_of_order: OrderedArena::new(entries, seed),
            sent: OrderedArena::new(entries, seed.rotate_left(32)),
        }
    }

    /// Whether whatever a burst brings could be stored.
    pub(crate) fn has_input_room(&self) -> bool {
        self.received.capacity() - self.received.used() > INPUT_RESERVE
            && self.out_of_order.capacity() - self.out_of_order.used() > INPUT_RESERVE
    }

    /// Give back all buffers of a connection.
    pub(crate) fn clear(&mut self, recv: &mut RecvStore, send: &mut SendStore) {
        self.clear_received(recv);
        self.clear_sent(send);
    }

    /// Give back what was to be sent: there is nobody left to send it to.
    pub(crate) fn clear_sent(&mut self, send: &mut SendStore) {
        self.sent.clear(&mut send.records);
        (send.tail, send.cursor) = (None, Cell::new(None));
    }

    /// Give back what was received: nobody will read it.
    pub(crate) fn clear_received(&mut self, recv: &mut RecvStore) {
        self.received.clear(&mut recv.queue);
        self.out_of_order.clear(&mut recv.out_of_order);
        recv.readable = 0;
    }

    /// Nothing is stored at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.received.used() == 0 && self.out_of_order.used() == 0 && self.sent.used() == 0
    }
}

/// What became of a received buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// It is kept.
    Kept,
    /// Its bytes were copied to another one; the buffer is free again.
    Copied,
    /// There was no room, against the promise of [`Storage::has_input_room`].
    Full,
}

impl RecvStore {
    /// The first byte expected.
    pub(crate) fn start(&mut self, seq: SeqNum) {
        self.at = Positions { seq, key: ORIGIN };
    }

    /// Bytes that can be read.
    pub(crate) const fn readable(&self) -> u32 {
        self.readable
    }

    /// Store a buffer of one segment that continues what can be read.
    pub(crate) fn append<F: Frame>(&mut self, storage: &mut Storage<F>, frame: F) -> Stored {
        let len = frame.len();
        if let Some(last) = storage.received.back_mut(&self.queue)
            && copied_behind(last, &frame)
        {
            self.readable += len as u32;
            return Stored::Copied;
        }
        match storage.received.push_back(&mut self.queue, frame) {
            Ok(()) => {
                self.readable += len as u32;
                Stored::Kept
            }
            Err(_) => Stored::Full,
        }
    }

    /// Store a buffer of one segment that waits for bytes before it.
    pub(crate) fn insert<F: Frame>(
        &mut self,
        storage: &mut Storage<F>,
        seq: SeqNum,
        frame: F,
    ) -> Stored {
        let key = self.at.of(seq);
        let set = &mut self.out_of_order;
        let before = storage.out_of_order.at_or_before(set, key).map(|(k, f)| (k, f.len()));
        if let Some((before_key, before_len)) = before
            && before_key + before_len as u64 == key
            && let Some(before) = storage.out_of_order.get_mut(set, before_key)
            && copied_behind(before, &frame)
        {
            return Stored::Copied;
        }
        match storage.out_of_order.insert(set, key, frame) {
            Ok(_) => Stored::Kept,
            Err(_) => Stored::Full,
        }
    }

    /// Everything before `rcv_nxt` is in order now: move what waited. False: no room for it, which
    /// [`Storage::has_input_room`] excludes.
    pub(crate) fn advance<F: Frame>(&mut self, storage: &mut Storage<F>, rcv_nxt: SeqNum) -> bool {
        let end = self.at.of(rcv_nxt);
        while let Some((key, _)) = storage.out_of_order.first(&self.out_of_order)
            && key < end
        {
            let Some((_, frame)) = storage.out_of_order.pop_first(&mut self.out_of_order) else {
                break;
            };
            debug_assert!(key + frame.len() as u64 <= end, "a stored range is half in order");
            if self.append(storage, frame) == Stored::Full {
                return false;
            }
        }
        self.at.advance(rcv_nxt);
        true
    }

    /// Lend what can be read, slice by slice, to `take`. Returns how many bytes it took.
    pub(crate) fn read<F: Frame>(
        &mut self,
        storage: &mut Storage<F>,
        take: &mut dyn FnMut(&[u8]) -> usize,
    ) -> u32 {
        let mut taken = 0;
        while let Some(front) = storage.received.front_mut(&self.queue) {
            let slice = front.head();
            let offered = slice.len();
            let count = take(slice).min(offered);
            taken += count as u32;
            if count < offered {
                front.trim_front(count);
                break;
            }
            storage.received.pop_front(&mut self.queue);
        }
        debug_assert!(taken <= self.readable);
        self.readable = self.readable.saturating_sub(taken);
        taken
    }
}

/// Copy the bytes of `frame` behind those of `last`, if they are few and there is room.
fn copied_behind<F: Frame>(last: &mut F, frame: &F) -> bool {
    let bytes = frame.head();
    if bytes.len() > COMPACT_MAX || bytes.len() > last.tailroom() {
        return false;
    }
    let Some(room) = last.push_back(bytes.len()) else { return false };
    room.copy_from_slice(bytes);
    true
}

/// Why [`SendStore::append`] took less than all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// It took all.
    None,
    /// No buffer could be had.
    Buffers,
}

impl SendStore {
    /// The first byte that will be sent.
    pub(crate) fn start(&mut self, seq: SeqNum) {
        self.at = Positions { seq, key: ORIGIN };
    }

    /// Copy `data` behind what is stored, whose end is `write_seq`. `mss`: where to cut;
    /// `all_sent`: nothing stored waits for its first transmission. `may_take` is asked before
    /// each new buffer. Returns how many bytes were taken.
    pub(crate) fn append<D: Device>(
        &mut self,
        storage: &mut Storage<D::Frame>,
        device: &mut D,
        place: AppendPlace,
        mut data: &[u8],
        mut may_take: impl FnMut() -> bool,
    ) -> (usize, Shortage) {
        let AppendPlace { write_seq, mss, all_sent } = place;
        let total = data.len();
        let room = device.capabilities().payload_room;
        let mut key = self.at.of(write_seq);
        let mut tail = storage.sent.last(&self.records).map(|(k, record)| (k, record.frame.len()));
        if all_sent {
            // The next segment begins here, whatever was sent before. A large write gets a buffer of
            // its own, so that its checksum can be used; small ones share.
            self.until_cut = segment_cut(mss, room);
            if tail.is_some_and(|(_, len)| len > APPEND_AFTER_SENT_MAX || total > COMPACT_MAX) {
                tail = None;
            }
        }
        while !data.is_empty() {
            if self.until_cut == 0 {
                self.until_cut = segment_cut(mss, room);
                tail = None;
            }
            let last = tail.and_then(|(k, _)| storage.sent.get_mut(&self.records, k));
            let count = match last {
                Some(record) if record.frame.tailroom() > 0 => {
                    let count = record.extend(data, self.until_cut as usize);
                    if count == 0 {
                        tail = None;
                        continue;
                    }
                    count
                }
                _ => {
                    let Some(frame) = may_take().then(|| device.payload_alloc()).flatten() else {
                        return (total - data.len(), Shortage::Buffers);
                    };
                    let mut record = Record { frame, sum: 0, next: None };
                    let count = record.extend(data, self.until_cut as usize);
                    if count == 0 {
                        return (total - data.len(), Shortage::Buffers);
                    }
                    let Ok(place) = storage.sent.insert(&mut self.records, key, record) else {
                        return (total - data.len(), Shortage::Buffers);
                    };
                    if let Some(before) = self.tail.replace(place)
                        && let Some(before) = storage.sent.at_place_mut(before)
                    {
                        before.next = Some(place);
                    }
                    tail = Some((key, count));
                    count
                }
            };
            data = data.get(count..).unwrap_or(&[]);
            key += count as u64;
            self.until_cut -= count as u32;
        }
        (total, Shortage::None)
    }

    /// Give back the buffers whose last byte is before `snd_una`.
    pub(crate) fn release<F: Frame>(&mut self, storage: &mut Storage<F>, snd_una: SeqNum) {
        let end = self.at.of(snd_una);
        while let Some((key, record)) = storage.sent.first(&self.records)
            && key + record.frame.len() as u64 <= end
        {
            // Places outlive what was there, so nobody may remember this one.
            if self
                .cursor
                .get()
                .and_then(|p| storage.sent.at_place(p))
                .is_some_and(|(k, _)| k <= key)
            {
                self.cursor.set(None);
            }
            storage.sent.pop_first(&mut self.records);
            if self.records.is_empty() {
                self.tail = None;
            }
        }
        self.at.advance(snd_una);
    }

    /// What is stored, for the transmit path.
    pub(crate) const fn view<'a, F>(&'a self, storage: &'a Storage<F>) -> SendView<'a, F> {
        SendView { storage, store: self }
    }
}

/// Where [`SendStore::append`] puts its data.
#[derive(Clone, Copy)]
pub(crate) struct AppendPlace {
    /// Sequence number of the first byte.
    pub(crate) write_seq: SeqNum,
    /// Payload of a segment at present; at least one.
    pub(crate) mss: u32,
    /// Nothing stored waits for its first transmission.
    pub(crate) all_sent: bool,
}

/// Bytes until the next cut: one segment, or as many whole ones as fit a buffer.
const fn segment_cut(mss: u32, room: u32) -> u32 {
    if mss == 0 {
        1
    } else if mss * 2 <= room {
        room / mss * mss
    } else {
        mss
    }
}

impl<F: Frame> Record<F> {
    /// Copy from `data` up to `limit` bytes and the end of the buffer. Returns how many.
    fn extend(&mut self, data: &[u8], limit: usize) -> usize {
        let count = data.len().min(limit).min(self.frame.tailroom());
        let before = self.frame.len();
        let (Some(room), Some(bytes)) = (self.frame.push_back(count), data.get(..count)) else {
            return 0;
        };
        let sum = accel::copy_and_checksum(room, bytes);
        self.sum = accel::combine(self.sum, before, sum);
        count
    }
}

/// See [`SendStore::view`].
pub(crate) struct SendView<'a, F> {
    storage: &'a Storage<F>,
    store: &'a SendStore,
}

impl<F: Frame> SendView<'_, F> {
    /// The record that begins at or before `at`: the one looked at last, the one behind it, or a
    /// search.
    fn record_at(&self, at: u64) -> Option<(u64, &Record<F>)> {
        let (sent, cursor) = (&self.storage.sent, &self.store.cursor);
        let holds = |place: Place| {
            let (key, record) = sent.at_place(place)?;
            let inside = (key..key + record.frame.len() as u64).contains(&at);
            Some((inside, record.next))
        };
        let mut place = cursor.get();
        for _ in 0..2 {
            let Some(candidate) = place else { break };
            match holds(candidate) {
                Some((true, _)) => {
                    cursor.set(Some(candidate));
                    return sent.at_place(candidate);
                }
                Some((false, next)) => place = next,
                None => break,
            }
        }
        let found = sent.place_at_or_before(&self.store.records, at);
        cursor.set(found);
        sent.at_place(found?)
    }
}

impl<F: Frame> Payload<F> for SendView<'_, F> {
    fn pieces<'a>(&'a self, seq: SeqNum, len: usize) -> impl Iterator<Item = Piece<'a, F>>
    where
        F: 'a,
    {
        let mut at = self.store.at.of(seq);
        let end = at + len as u64;
        // One search for each piece, and none to find that there are no more.
        core::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let (key, record) = self.record_at(at)?;
            let whole = record.frame.len() as u64;
            let (from, to) = (at - key, (end - key).min(whole));
            if from >= to {
                return None;
            }
            at = key + to;
            let sum = (from == 0 && to == whole).then_some(record.sum);
            let (offset, len) = (from as usize, (to - from) as usize);
            Some(Piece { frame: &record.frame, offset, len, sum })
        })
    }
}

#[cfg(test)]
mod tests;
