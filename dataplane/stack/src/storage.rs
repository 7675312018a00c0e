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

mod sent;

pub(crate) use sent::{AppendPlace, SendStore, Shortage};

/// Received payloads up to this many bytes are copied behind the one before, if its buffer has room:
/// a flood of tiny segments must not take a buffer each.
const COMPACT_MAX: usize = 256;
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

#[cfg(test)]
mod tests;
