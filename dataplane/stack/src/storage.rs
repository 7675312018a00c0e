//! The bytes of connections: what was received and not read, and what was sent and not acknowledged.
//!
//! The engine decides on ranges; here is where the bytes of those ranges lie. Received payload stays
//! in the buffers it came in. The application's bytes are copied once, with their checksum, into
//! buffers that are cut where segments will be, so that a segment is normally one whole buffer and
//! its checksum is known.
//!
//! INVARIANT: ranges out of order never overlap each other or what is in order; the records of what
//! was sent are gapless from the oldest unacknowledged byte (or before) to the newest.

use base::Frame;
use tcp::SeqNum;

use crate::arena::{Arena, Ordered, OrderedArena, Queue};
use crate::env::Env;

mod sent;

pub(crate) use sent::{AppendPlace, SendStore, Shortage};

/// Received payloads up to this many bytes are copied behind the one before, if its buffer has room:
/// a flood of tiny segments must not take a buffer each.
pub(crate) const COMPACT_MAX: usize = 256;
/// Buffers that must have come since the last look for waste, at least.
const COLLAPSE_STEP_MIN: u32 = 1;
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
    sent: OrderedArena<sent::Chunk<F>>,
}

/// Received bytes of one connection.
#[derive(Default)]
pub(crate) struct RecvStore {
    queue: Queue,
    out_of_order: Ordered,
    at: Positions,
    readable: u32,
    /// Buffers held, in order and out of order; a chained one counts for each of its parts.
    held: u32,
    /// With fewer than that a look for waste is not worth it: there was one not long ago.
    collapse_at: u32,
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
        send.clear(self);
    }

    /// Give back what was received: nobody will read it.
    pub(crate) fn clear_received(&mut self, recv: &mut RecvStore) {
        self.received.clear(&mut recv.queue);
        self.out_of_order.clear(&mut recv.out_of_order);
        recv.readable = 0;
        recv.held = 0;
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

    /// Memory of the buffers held, whatever little they contain, bytes. With `dense` what is left of the last
    /// one in order is not counted: the next bytes go there.
    pub(crate) fn memory<F: Frame>(&self, storage: &Storage<F>, env: &Env, dense: bool) -> u32 {
        let last = if dense { storage.received.back(&self.queue) } else { None };
        env.memory_of(self.held).saturating_sub(last.map_or(0, |last| last.tailroom() as u32))
    }

    /// Store a buffer of one segment that continues what can be read. With `dense` its bytes go behind the
    /// ones before wherever there is room for them, not only if they are few.
    pub(crate) fn append<F: Frame>(
        &mut self,
        storage: &mut Storage<F>,
        frame: F,
        dense: bool,
    ) -> Stored {
        let len = frame.len();
        if let Some(last) = storage.received.back_mut(&self.queue)
            && copied_behind(last, &frame, dense)
        {
            self.readable += len as u32;
            return Stored::Copied;
        }
        match storage.received.push_back(&mut self.queue, frame) {
            Ok(()) => {
                self.readable += len as u32;
                self.held += 1;
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
        dense: bool,
    ) -> Stored {
        let key = self.at.of(seq);
        let set = &mut self.out_of_order;
        let before = storage.out_of_order.at_or_before(set, key).map(|(k, f)| (k, f.len()));
        if let Some((before_key, before_len)) = before
            && before_key + before_len as u64 == key
            && let Some(before) = storage.out_of_order.get_mut(set, before_key)
            && copied_behind(before, &frame, dense)
        {
            return Stored::Copied;
        }
        match storage.out_of_order.insert(set, key, frame) {
            Ok(_) => {
                self.held += 1;
                Stored::Kept
            }
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
            self.held -= 1;
            if self.append(storage, frame, false) == Stored::Full {
                return false;
            }
        }
        self.at.advance(rcv_nxt);
        true
    }

    /// Put together what lies in more buffers than it needs. Returns how many were freed. Looked at is
    /// everything, so that is done only when a quarter more has come than was left the last time: however a
    /// peer cuts its data, the work for each of its segments is bounded.
    pub(crate) fn collapse<F: Frame>(&mut self, storage: &mut Storage<F>) -> u32 {
        if self.held < self.collapse_at {
            return 0;
        }
        let before = self.held;
        let mut queue = core::mem::take(&mut self.queue);
        while let Some(frame) = storage.received.pop_front(&mut queue) {
            self.held -= 1;
            self.readable -= frame.len() as u32;
            let stored = self.append(storage, frame, true);
            debug_assert_ne!(stored, Stored::Full, "its own place was free");
        }
        let mut key = storage.out_of_order.first(&self.out_of_order).map(|(key, _)| key);
        while let Some(at) = key {
            key = self.collapse_behind(storage, at);
        }
        self.collapse_at = self.held + (self.held / 4).max(COLLAPSE_STEP_MIN);
        before - self.held
    }

    /// Put the buffer that follows the one at `at` into it if there is no hole between and room enough. Where to
    /// look next.
    fn collapse_behind<F: Frame>(&mut self, storage: &mut Storage<F>, at: u64) -> Option<u64> {
        let set = &mut self.out_of_order;
        let end = at + storage.out_of_order.get(set, at)?.len() as u64;
        let (next, len) =
            storage.out_of_order.at_or_after(set, at + 1).map(|(k, f)| (k, f.len()))?;
        let fits = next == end && len <= storage.out_of_order.get(set, at)?.tailroom();
        if !fits {
            return Some(next);
        }
        let frame = storage.out_of_order.remove(set, next)?;
        let copied = copied_behind(storage.out_of_order.get_mut(set, at)?, &frame, true);
        debug_assert!(copied, "there was room");
        self.held -= 1;
        Some(at)
    }

    /// Forget what was stored at `from` or beyond.
    pub(crate) fn prune<F: Frame>(&mut self, storage: &mut Storage<F>, from: SeqNum) {
        let from = self.at.of(from);
        while let Some((key, _)) = storage.out_of_order.last(&self.out_of_order)
            && key >= from
        {
            storage.out_of_order.remove(&mut self.out_of_order, key);
            self.held -= 1;
        }
    }

    /// Show what can be read, slice by slice, until `look` has seen enough.
    pub(crate) fn peek<F: Frame>(&self, storage: &Storage<F>, look: &mut dyn FnMut(&[u8]) -> bool) {
        for frame in storage.received.iter(&self.queue) {
            if !look(frame.head()) {
                break;
            }
        }
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
            self.held -= 1;
            self.collapse_at = 0;
        }
        debug_assert!(taken <= self.readable);
        self.readable = self.readable.saturating_sub(taken);
        taken
    }
}

/// Copy the bytes of `frame` behind those of `last`, if they are few (or `dense` asks for it) and there is
/// room.
fn copied_behind<F: Frame>(last: &mut F, frame: &F, dense: bool) -> bool {
    let bytes = frame.head();
    if !dense && bytes.len() > COMPACT_MAX || bytes.len() > last.tailroom() {
        return false;
    }
    let Some(room) = last.push_back(bytes.len()) else { return false };
    room.copy_from_slice(bytes);
    true
}

#[cfg(test)]
mod tests;
