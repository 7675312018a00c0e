//! What was sent and not acknowledged, and what waits to be sent.
//!
//! The application's bytes are copied once, with their checksum, into buffers that are cut where
//! segments will be. A record is one buffer; records come in chunks of some, and the chunks are
//! found by sequence number, so that bulk data costs a search for every few buffers only, and a
//! retransmission anywhere still a logarithmic number of steps.
//!
//! INVARIANT: records are gapless from the first to the last; no chunk is empty.

use core::cell::Cell;
use core::iter;

use base::{Device, Frame};
use tcp::SeqNum;

use super::{COMPACT_MAX, ORIGIN, Positions, Storage};
use crate::arena::{Ordered, Place};
use crate::egress::{Payload, Piece};

/// Bytes of a sent but unacknowledged buffer up to which further small writes are put behind.
const APPEND_AFTER_SENT_MAX: u32 = 512;
/// Records of one chunk.
const CHUNK_RECORDS: usize = 16;

/// A piece of the application's data: one buffer.
struct Record<F> {
    frame: F,
    /// Partial sum of all bytes of `frame`.
    sum: u32,
    /// Bytes of `frame`.
    len: u32,
    /// Where it begins, in bytes from the beginning of its chunk.
    at: u32,
}

impl<F: Frame> Record<F> {
    /// Copy from `data` up to `limit` bytes and the end of the buffer. Returns how many.
    fn extend(&mut self, data: &[u8], limit: usize) -> usize {
        let count = data.len().min(limit).min(self.frame.tailroom());
        let (Some(room), Some(bytes)) = (self.frame.push_back(count), data.get(..count)) else {
            return 0;
        };
        let sum = accel::copy_and_checksum(room, bytes);
        self.sum = accel::combine(self.sum, self.len as usize, sum);
        self.len += count as u32;
        count
    }
}

/// Consecutive records, the oldest first. Those before `start` are gone.
pub(super) struct Chunk<F> {
    records: [Option<Record<F>>; CHUNK_RECORDS],
    start: u8,
    end: u8,
}

impl<F> Default for Chunk<F> {
    fn default() -> Self {
        Self { records: [const { None }; CHUNK_RECORDS], start: 0, end: 0 }
    }
}

impl<F> Chunk<F> {
    fn get(&self, index: u8) -> Option<&Record<F>> {
        self.records.get(usize::from(index))?.as_ref()
    }

    fn last_mut(&mut self) -> Option<&mut Record<F>> {
        self.records.get_mut(usize::from(self.end.checked_sub(1)?))?.as_mut()
    }

    fn is_full(&self) -> bool {
        usize::from(self.end) == CHUNK_RECORDS
    }

    /// The record that holds the byte `offset` bytes behind the beginning of the chunk, looking from
    /// `hint` on first.
    fn find(&self, offset: u64, hint: u8) -> Option<u8> {
        let holds = |index: &u8| {
            self.get(*index).is_some_and(|record| {
                let begin = u64::from(record.at);
                (begin..begin + u64::from(record.len)).contains(&offset)
            })
        };
        if holds(&hint) {
            return Some(hint);
        }
        let hint = hint.clamp(self.start, self.end);
        (hint..self.end).chain(self.start..hint).find(holds)
    }
}

/// A record: its chunk, and its number there.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    chunk: Place,
    index: u8,
}

/// Sent and unsent bytes of one connection.
#[derive(Default)]
pub(crate) struct SendStore {
    chunks: Ordered,
    at: Positions,
    /// Bytes that the last record still takes before the next cut between segments.
    until_cut: u32,
    /// The first and the last chunk. INVARIANT: both are stored.
    ends: Option<(Place, Place)>,
    /// The record that was looked at last: transmission goes on behind it. INVARIANT: its chunk is
    /// stored.
    cursor: Cell<Option<Cursor>>,
}

/// Why [`SendStore::append`] took less than all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// It took all.
    None,
    /// No buffer could be had.
    Buffers,
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
        // Whether the last buffer may take more.
        let mut behind = self.ends.is_some();
        if all_sent {
            // The next segment begins here, whatever was sent before. A large write gets a buffer of
            // its own, so that its checksum can be used; small ones share.
            self.until_cut = segment_cut(mss, room);
            behind &= total <= COMPACT_MAX
                && self.last_mut(storage).is_some_and(|last| last.len <= APPEND_AFTER_SENT_MAX);
        }
        while !data.is_empty() {
            if self.until_cut == 0 {
                self.until_cut = segment_cut(mss, room);
                behind = false;
            }
            let limit = self.until_cut as usize;
            let last = if behind { self.last_mut(storage) } else { None };
            let mut count = last.map_or(0, |record| record.extend(data, limit));
            if count == 0 {
                let Some(frame) = may_take().then(|| device.payload_alloc()).flatten() else {
                    return (total - data.len(), Shortage::Buffers);
                };
                let mut record = Record { frame, sum: 0, len: 0, at: 0 };
                count = record.extend(data, limit);
                if count == 0 || !self.push(storage, key, record) {
                    return (total - data.len(), Shortage::Buffers);
                }
                behind = true;
            }
            data = data.get(count..).unwrap_or(&[]);
            key += count as u64;
            self.until_cut -= count as u32;
        }
        (total, Shortage::None)
    }

    fn last_mut<'a, F>(&self, storage: &'a mut Storage<F>) -> Option<&'a mut Record<F>> {
        storage.sent.at_place_mut(self.ends?.1)?.1.last_mut()
    }

    /// Put `record`, which begins at `key`, behind all others. False: there is no room.
    fn push<F>(&mut self, storage: &mut Storage<F>, key: u64, mut record: Record<F>) -> bool {
        if let Some((_, last)) = self.ends
            && let Some((chunk_key, chunk)) = storage.sent.at_place_mut(last)
            && !chunk.is_full()
        {
            record.at = (key - chunk_key) as u32;
            chunk.records[usize::from(chunk.end)] = Some(record);
            chunk.end += 1;
            return true;
        }
        let Some(place) = storage.sent.insert_spent(&mut self.chunks, key) else { return false };
        let Some((_, chunk)) = storage.sent.at_place_mut(place) else { return false };
        debug_assert!(chunk.records.iter().all(Option::is_none));
        chunk.records[0] = Some(record);
        (chunk.start, chunk.end) = (0, 1);
        self.ends = Some((self.ends.map_or(place, |(first, _)| first), place));
        true
    }

    /// Give back the buffers whose last byte is before `snd_una`.
    pub(crate) fn release<F: Frame>(&mut self, storage: &mut Storage<F>, snd_una: SeqNum) {
        let end = self.at.of(snd_una);
        while let Some((first, last)) = self.ends
            && let Some((key, chunk)) = storage.sent.at_place_mut(first)
        {
            while let Some(record) = chunk.get(chunk.start)
                && key + u64::from(record.at + record.len) <= end
            {
                chunk.records[usize::from(chunk.start)] = None;
                chunk.start += 1;
            }
            if chunk.start < chunk.end {
                break;
            }
            // Places outlive what was there, so nobody may remember this one.
            if self.cursor.get().is_some_and(|cursor| cursor.chunk == first) {
                self.cursor.set(None);
            }
            storage.sent.pop_first_spent(&mut self.chunks);
            self.ends = storage.sent.first_place(&self.chunks).map(|first| (first, last));
        }
        self.at.advance(snd_una);
    }

    /// Give back everything: there is nobody left to send it to.
    pub(crate) fn clear<F>(&mut self, storage: &mut Storage<F>) {
        storage.sent.clear(&mut self.chunks);
        (self.ends, self.cursor) = (None, Cell::new(None));
    }

    /// What is stored, for the transmit path.
    pub(crate) const fn view<'a, F>(&'a self, storage: &'a mut Storage<F>) -> SendView<'a, F> {
        SendView { storage, store: self }
    }
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

/// See [`SendStore::view`].
pub(crate) struct SendView<'a, F> {
    storage: &'a mut Storage<F>,
    store: &'a SendStore,
}

impl<F: Frame> SendView<'_, F> {
    /// Where the byte at position `at` is: first looked for in the chunk that was looked at last.
    fn locate(&self, at: u64) -> Option<Cursor> {
        let sent = &self.storage.sent;
        let within = |chunk: Place, hint: u8| {
            let (key, records) = sent.at_place(chunk)?;
            let index = records.find(at.checked_sub(key)?, hint)?;
            Some(Cursor { chunk, index })
        };
        let found = self.store.cursor.get().and_then(|c| within(c.chunk, c.index));
        let found = found.or_else(|| within(sent.place_at_or_before(&self.store.chunks, at)?, 0));
        if found.is_some() {
            self.store.cursor.set(found);
        }
        found
    }

    /// The record that holds the byte at position `at`, and where it begins.
    fn record_at(&self, at: u64) -> Option<(u64, &Record<F>)> {
        let Cursor { chunk, index } = self.locate(at)?;
        let (key, records) = self.storage.sent.at_place(chunk)?;
        let record = records.get(index)?;
        Some((key + u64::from(record.at), record))
    }
}

impl<F: Frame> Payload<F> for SendView<'_, F> {
    fn pieces<'a>(&'a self, seq: SeqNum, len: usize) -> impl Iterator<Item = Piece<'a, F>>
    where
        F: 'a,
    {
        let mut at = self.store.at.of(seq);
        let end = at + len as u64;
        iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let (key, record) = self.record_at(at)?;
            let whole = u64::from(record.len);
            let (from, to) = (at - key, (end - key).min(whole));
            at = key + to;
            let sum = (from == 0 && to == whole).then_some(record.sum);
            let (offset, len) = (from as usize, (to - from) as usize);
            Some(Piece { frame: &record.frame, offset, len, sum })
        })
    }

    fn whole(&mut self, seq: SeqNum, len: usize) -> Option<(&mut F, u32)> {
        let at = self.store.at.of(seq);
        let Cursor { chunk, index } = self.locate(at)?;
        let (key, records) = self.storage.sent.at_place_mut(chunk)?;
        let record = records.records.get_mut(usize::from(index))?.as_mut()?;
        let whole = key + u64::from(record.at) == at && record.len as usize == len;
        whole.then_some((&mut record.frame, record.sum))
    }
}
