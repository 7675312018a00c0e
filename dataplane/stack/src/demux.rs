//! From a segment's addresses to what handles it: a fixed-size table of hashed flows.
//!
//! A bucket is one cache line of sixteen-bit tags and the entries they stand for. A flow may live in
//! either of two buckets; where both are full it goes to a small overflow area, which is looked at
//! only if its first bucket says so. Nothing is ever rehashed as a whole: the size is fixed at the
//! start, and a change of the secret moves a few buckets at a time, in place.
//!
//! Keys stay with the connections: the caller passes the hash of its key under a secret, and a
//! closure that compares the key with that of an entry.
//!
//! INVARIANT: an entry is in one of the two buckets of its hash under the present secret or, while
//! a re-key is under way, under the previous one; or in the overflow area, where the counter of the
//! first bucket includes it.

use alloc::vec::Vec;
use core::mem;

/// Entries per bucket: 10 × (2 + 4) bytes and the counters fill a cache line.
const BUCKET_ENTRIES: usize = 10;
/// Entries per bucket for which the table is laid out. With two choices, the fullest bucket of
/// millions holds about three more than the average.
const BUCKET_TARGET: u32 = 6;
/// Entries that find no room in either of their buckets, over the whole table. An entry beyond is
/// refused. The area is searched linearly, so it is part of the bound on a look-up.
pub const OVERFLOW_MAX: usize = 64;
/// The tag of an empty place.
const NO_TAG: u16 = 0;
/// Bits of the hash that choose each bucket.
const BUCKET_BITS: u32 = 24;

/// What an entry of the table stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A synchronised connection, or one that we open: the index is its slot.
    Connection,
    /// A half-open passive one.
    HalfOpen,
    /// A TIME-WAIT record.
    TimeWait,
}

/// A kind and an index into that kind's table, in 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry(u32);

impl Entry {
    const INDEX_BITS: u32 = 30;
    /// Largest index.
    pub const INDEX_MAX: u32 = (1 << Self::INDEX_BITS) - 1;

    /// An entry. The index comes from a table of ours; it is at most [`Entry::INDEX_MAX`].
    pub fn new(kind: Kind, index: u32) -> Self {
        debug_assert!(index <= Self::INDEX_MAX);
        let kind = match kind {
            Kind::Connection => 0,
            Kind::HalfOpen => 1,
            Kind::TimeWait => 2,
        };
        Self(kind << Self::INDEX_BITS | (index & Self::INDEX_MAX))
    }

    /// What the index refers to.
    pub fn kind(self) -> Kind {
        match self.0 >> Self::INDEX_BITS {
            0 => Kind::Connection,
            1 => Kind::HalfOpen,
            _ => Kind::TimeWait,
        }
    }

    /// Index into that kind's table.
    pub fn index(self) -> u32 {
        self.0 & Self::INDEX_MAX
    }
}

/// The table cannot take this entry: it is full, or too many flows share the entry's buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DemuxFull;

/// What happened in the table since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DemuxStats {
    /// Entries that went to the overflow area.
    pub overflowed: u64,
    /// Entries that were refused.
    pub refused: u64,
    /// Changes of the secret that were completed.
    pub rekeyed: u64,
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Bucket {
    tags: [u16; BUCKET_ENTRIES],
    /// Entries in the overflow area whose first bucket is this one.
    overflowed: u16,
    entries: [Entry; BUCKET_ENTRIES],
}

const _: () = assert!(size_of::<Bucket>() == 64);

/// Bytes of the table for each entry that it has room for, at most: twice the wanted number of buckets,
/// since their number is a power of two.
pub(crate) const ENTRY_BYTES_MAX: usize =
    (2 * size_of::<Bucket>()).div_ceil(BUCKET_TARGET as usize);

impl Bucket {
    const EMPTY: Self =
        Self { tags: [NO_TAG; BUCKET_ENTRIES], overflowed: 0, entries: [Entry(0); BUCKET_ENTRIES] };

    /// A bit for each place with this tag. Without a branch, so that it becomes a few vector
    /// instructions.
    #[inline]
    fn places(&self, tag: u16) -> u32 {
        self.tags.iter().enumerate().fold(0, |mask, (i, have)| mask | u32::from(*have == tag) << i)
    }

    #[inline]
    fn find(&self, tag: u16, mut matches: impl FnMut(Entry) -> bool) -> Option<usize> {
        let mut places = self.places(tag);
        while places != 0 {
            let i = places.trailing_zeros() as usize;
            if matches(self.entries[i]) {
                return Some(i);
            }
            places &= places - 1;
        }
        None
    }

    fn used(&self) -> u32 {
        BUCKET_ENTRIES as u32 - self.places(NO_TAG).count_ones()
    }

    /// False: full.
    fn put(&mut self, tag: u16, entry: Entry) -> bool {
        let i = self.places(NO_TAG).trailing_zeros() as usize;
        if i >= BUCKET_ENTRIES {
            return false;
        }
        self.tags[i] = tag;
        self.entries[i] = entry;
        true
    }
}

struct Overflow {
    hash: u64,
    entry: Entry,
}

/// Where a hash may live.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    first: usize,
    second: usize,
    tag: u16,
}

/// Where an entry was found.
enum Found {
    Bucket(usize, usize),
    Overflow(usize),
}

/// The table. `S` is the secret of the caller's hash function.
pub struct Demux<S> {
    secret: S,
    /// The secret under which some entries still are, and the next bucket to move.
    moving: Option<(S, usize)>,
    /// A re-key left entries behind because there was no room for them under the new secret.
    left_behind: bool,
    buckets: Vec<Bucket>,
    overflow: Vec<Overflow>,
    len: u32,
    capacity: u32,
    stats: DemuxStats,
}

impl<S> Demux<S> {
    /// A table for `capacity` entries. Allocates all it will ever need, about eleven bytes per entry
    /// and at most twice that.
    pub fn new(capacity: u32, secret: S) -> Self {
        let wanted = capacity.div_ceil(BUCKET_TARGET).max(1);
        let buckets = wanted.min(1 << BUCKET_BITS).next_power_of_two();
        Self {
            secret,
            moving: None,
            left_behind: false,
            buckets: alloc::vec![Bucket::EMPTY; buckets as usize],
            overflow: Vec::with_capacity(OVERFLOW_MAX),
            len: 0,
            capacity,
            stats: DemuxStats::default(),
        }
    }

    /// Entries.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// No entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What happened so far.
    pub fn stats(&self) -> DemuxStats {
        self.stats
    }

    /// The present secret.
    pub fn secret(&self) -> &S {
        &self.secret
    }

    /// Find an entry. `hash` is the hash of the wanted key under the secret it is given; it is
    /// called once, or twice while a re-key is under way. `matches` says whether an entry has the
    /// wanted key; it is called for the few entries whose tag agrees.
    pub fn find(
        &self,
        hash: impl Fn(&S) -> u64,
        mut matches: impl FnMut(Entry) -> bool,
    ) -> Option<Entry> {
        match self.locate(&hash, &mut matches)? {
            Found::Bucket(bucket, i) => Some(self.buckets[bucket].entries[i]),
            Found::Overflow(i) => Some(self.overflow[i].entry),
        }
    }

    /// Have the buckets of a hash under the present secret brought near: for a burst of segments,
    /// first all of these and then the look-ups.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        let place = self.place_of(hash);
        accel::prefetch(&self.buckets[place.first]);
        accel::prefetch(&self.buckets[place.second]);
    }

    /// Add an entry whose key is not in the table.
    pub fn insert(&mut self, hash: impl Fn(&S) -> u64, entry: Entry) -> Result<(), DemuxFull> {
        if self.len >= self.capacity || !self.place(hash(&self.secret), entry) {
            self.stats.refused += 1;
            return Err(DemuxFull);
        }
        self.len += 1;
        Ok(())
    }

    /// Remove exactly `entry`, whose key hashes to `hash`. False: it is not in the table.
    pub fn remove(&mut self, hash: impl Fn(&S) -> u64, entry: Entry) -> bool {
        let Some(found) = self.locate(&hash, &mut |e| e == entry) else { return false };
        self.take(found);
        self.len -= 1;
        true
    }

    /// Let `to` take the place of `from`, which has the same key (a handshake that completes, a
    /// connection that goes to TIME-WAIT). Cannot run out of room. False: `from` is not in the table.
    pub fn replace(&mut self, hash: impl Fn(&S) -> u64, from: Entry, to: Entry) -> bool {
        match self.locate(&hash, &mut |e| e == from) {
            Some(Found::Bucket(bucket, i)) => self.buckets[bucket].entries[i] = to,
            Some(Found::Overflow(i)) => self.overflow[i].entry = to,
            None => return false,
        }
        true
    }

    /// Begin to use another secret; [`Demux::rekey_step`] does the work. False: the last change is
    /// not complete, and nothing happens.
    pub fn rekey(&mut self, secret: S) -> bool {
        if self.moving.is_some() {
            return false;
        }
        self.moving = Some((mem::replace(&mut self.secret, secret), 0));
        self.left_behind = false;
        true
    }

    /// A re-key is under way.
    pub fn is_rekeying(&self) -> bool {
        self.moving.is_some()
    }

    /// Move the entries of at most `buckets` buckets. `hash_of` is the hash of an entry's key under
    /// the secret it is given. True: nothing is left to move.
    pub fn rekey_step(&mut self, buckets: usize, hash_of: impl Fn(Entry, &S) -> u64) -> bool {
        let Some((old, start)) = self.moving.take() else { return true };
        let end = start.saturating_add(buckets).min(self.buckets.len());
        for bucket in start..end {
            self.move_bucket(bucket, &hash_of);
        }
        if end < self.buckets.len() {
            self.moving = Some((old, end));
            return false;
        }
        self.move_overflow(&hash_of);
        if mem::take(&mut self.left_behind) {
            // Both secrets stay in use until the crowded buckets have room; go round again.
            self.moving = Some((old, 0));
            return false;
        }
        self.stats.rekeyed += 1;
        true
    }

    fn move_bucket(&mut self, bucket: usize, hash_of: &impl Fn(Entry, &S) -> u64) {
        for i in 0..BUCKET_ENTRIES {
            let tag = self.buckets[bucket].tags[i];
            if tag == NO_TAG {
                continue;
            }
            let entry = self.buckets[bucket].entries[i];
            let hash = hash_of(entry, &self.secret);
            let place = self.place_of(hash);
            if place.tag == tag && (place.first == bucket || place.second == bucket) {
                continue;
            }
            self.buckets[bucket].tags[i] = NO_TAG;
            if !self.place(hash, entry) {
                self.buckets[bucket].tags[i] = tag;
                self.left_behind = true;
            }
        }
    }

    fn move_overflow(&mut self, hash_of: &impl Fn(Entry, &S) -> u64) {
        // From the back, since a removal puts the last one into the gap.
        for i in (0..self.overflow.len()).rev() {
            let Overflow { hash: was, entry } = self.overflow[i];
            let hash = hash_of(entry, &self.secret);
            if hash == was {
                continue;
            }
            self.take(Found::Overflow(i));
            // There is room: at worst the place in the overflow area that has just been freed.
            let placed = self.place(hash, entry);
            debug_assert!(placed);
        }
    }

    fn place_of(&self, hash: u64) -> Place {
        let mask = self.buckets.len() - 1;
        Place {
            first: hash as usize & mask,
            second: (hash >> BUCKET_BITS) as usize & mask,
            tag: ((hash >> (2 * BUCKET_BITS)) as u16).max(NO_TAG + 1),
        }
    }

    fn locate(
        &self,
        hash: &impl Fn(&S) -> u64,
        matches: &mut impl FnMut(Entry) -> bool,
    ) -> Option<Found> {
        self.locate_hash(hash(&self.secret), matches).or_else(|| {
            let (old, _) = self.moving.as_ref()?;
            self.locate_hash(hash(old), matches)
        })
    }

    fn locate_hash(&self, hash: u64, matches: &mut impl FnMut(Entry) -> bool) -> Option<Found> {
        let place = self.place_of(hash);
        let first = &self.buckets[place.first];
        if let Some(i) = first.find(place.tag, &mut *matches) {
            return Some(Found::Bucket(place.first, i));
        }
        if let Some(i) = self.buckets[place.second].find(place.tag, &mut *matches) {
            return Some(Found::Bucket(place.second, i));
        }
        if first.overflowed == 0 {
            return None;
        }
        self.overflow.iter().position(|o| o.hash == hash && matches(o.entry)).map(Found::Overflow)
    }

    /// Store without a look at the capacity. False: no room.
    fn place(&mut self, hash: u64, entry: Entry) -> bool {
        let place = self.place_of(hash);
        let (first, second) = (&self.buckets[place.first], &self.buckets[place.second]);
        let bucket = if second.used() < first.used() { place.second } else { place.first };
        if self.buckets[bucket].put(place.tag, entry) {
            return true;
        }
        if self.overflow.len() >= OVERFLOW_MAX {
            return false;
        }
        self.buckets[place.first].overflowed += 1;
        self.overflow.push(Overflow { hash, entry });
        self.stats.overflowed += 1;
        true
    }

    fn take(&mut self, found: Found) {
        match found {
            Found::Bucket(bucket, i) => {
                self.buckets[bucket].tags[i] = NO_TAG;
                self.pull_back(bucket);
            }
            Found::Overflow(i) => {
                let Overflow { hash, .. } = self.overflow.swap_remove(i);
                let first = self.place_of(hash).first;
                self.buckets[first].overflowed -= 1;
            }
        }
    }

    /// `bucket` has room again: let an entry of the overflow area come home.
    fn pull_back(&mut self, bucket: usize) {
        if self.buckets[bucket].overflowed == 0 {
            return;
        }
        let home = |o: &Overflow| self.place_of(o.hash).first == bucket;
        let Some(i) = self.overflow.iter().position(home) else { return };
        let Overflow { hash, entry } = self.overflow.swap_remove(i);
        self.buckets[bucket].overflowed -= 1;
        let tag = self.place_of(hash).tag;
        let put = self.buckets[bucket].put(tag, entry);
        debug_assert!(put);
    }
}

#[cfg(test)]
mod tests;
