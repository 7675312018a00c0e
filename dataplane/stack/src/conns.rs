//! Where connections live: a slab with generations.
//!
//! Entries never move and existing pages are never reallocated, so a burst of new connections costs
//! one page at a time and no stall. A freed slot raises its generation: a [`ConnId`] kept too long
//! finds nothing instead of the slot's next tenant.

use alloc::boxed::Box;
use alloc::vec::Vec;

use base::ConnId;

/// Slots that are allocated together.
const PAGE_SLOTS: u32 = 64;
/// End of the free list.
const NIL: u32 = u32::MAX;

struct Slot<T> {
    generation: u32,
    /// The next free slot, meaningful while `value` is `None`.
    next_free: u32,
    value: Option<T>,
}

/// Bytes of the slab for each entry.
pub(crate) const fn slot_bytes<T>() -> usize {
    size_of::<Slot<T>>()
}

/// A slab of at most `capacity` entries.
pub struct Conns<T> {
    pages: Vec<Box<[Slot<T>]>>,
    free: u32,
    len: u32,
    /// Slots that have been used at least once; all of them lie below it.
    touched: u32,
    capacity: u32,
}

impl<T> Conns<T> {
    /// An empty slab. Reserves the list of pages, but no page.
    pub fn new(capacity: u32) -> Self {
        let capacity = capacity.min(NIL - 1);
        Self {
            pages: Vec::with_capacity(capacity.div_ceil(PAGE_SLOTS) as usize),
            free: NIL,
            len: 0,
            touched: 0,
            capacity,
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

    /// Entries at most.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// No further entry fits.
    pub fn is_full(&self) -> bool {
        self.len == self.capacity
    }

    /// Every slot in use is below this one: the bound for a walk with [`Conns::id_at`].
    pub fn slots(&self) -> u32 {
        self.touched
    }

    /// Store what `make` builds from its future id. Gives `make` back when the slab is full.
    pub fn insert_with<M: FnOnce(ConnId) -> T>(&mut self, make: M) -> Result<ConnId, M> {
        let Some(id) = self.vacant() else { return Err(make) };
        self.fill(id, make(id));
        Ok(id)
    }

    /// Store `value`. Gives it back when the slab is full.
    pub fn insert(&mut self, value: T) -> Result<ConnId, T> {
        let Some(id) = self.vacant() else { return Err(value) };
        self.fill(id, value);
        Ok(id)
    }

    /// Take the entry out; its id and all copies of it become stale.
    pub fn remove(&mut self, id: ConnId) -> Option<T> {
        let free = self.free;
        let slot = self.slot_mut(id.slot)?;
        if slot.generation != id.generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        slot.next_free = free;
        self.free = id.slot;
        self.len -= 1;
        Some(value)
    }

    /// The entry of `id`, unless it is stale.
    pub fn get(&self, id: ConnId) -> Option<&T> {
        let slot = self.slot(id.slot)?;
        if slot.generation == id.generation { slot.value.as_ref() } else { None }
    }

    /// The entry of `id`, unless it is stale.
    pub fn get_mut(&mut self, id: ConnId) -> Option<&mut T> {
        let slot = self.slot_mut(id.slot)?;
        if slot.generation == id.generation { slot.value.as_mut() } else { None }
    }

    /// Whether `id` still has an entry.
    pub fn contains(&self, id: ConnId) -> bool {
        self.get(id).is_some()
    }

    /// The id of what lives in `slot`: for tables that hold slots and are cleaned with the entry
    /// (demux, wheel), and for walks over `0..self.slots()` a few slots at a time.
    pub fn id_at(&self, slot: u32) -> Option<ConnId> {
        let found = self.slot(slot)?;
        found.value.as_ref().map(|_| ConnId { slot, generation: found.generation })
    }

    /// What lives in `slot`, without a check of the generation.
    pub fn at(&self, slot: u32) -> Option<&T> {
        self.slot(slot)?.value.as_ref()
    }

    /// What lives in `slot`, without a check of the generation.
    pub fn at_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.slot_mut(slot)?.value.as_mut()
    }

    /// All entries in the order of their slots. Walks every slot ever used: not for the fast path.
    pub fn iter(&self) -> impl Iterator<Item = (ConnId, &T)> {
        self.pages.iter().flat_map(|page| page.iter()).zip(0..).filter_map(|(slot, index)| {
            let id = ConnId { slot: index, generation: slot.generation };
            slot.value.as_ref().map(|value| (id, value))
        })
    }

    fn slot(&self, index: u32) -> Option<&Slot<T>> {
        self.pages.get((index / PAGE_SLOTS) as usize)?.get((index % PAGE_SLOTS) as usize)
    }

    fn slot_mut(&mut self, index: u32) -> Option<&mut Slot<T>> {
        self.pages.get_mut((index / PAGE_SLOTS) as usize)?.get_mut((index % PAGE_SLOTS) as usize)
    }

    /// The id that the next entry will have; `None` when the slab is full.
    fn vacant(&mut self) -> Option<ConnId> {
        if self.free == NIL {
            if self.touched == self.capacity {
                return None;
            }
            if self.touched.is_multiple_of(PAGE_SLOTS) {
                let empty = || Slot { generation: 0, next_free: NIL, value: None };
                self.pages.push((0..PAGE_SLOTS).map(|_| empty()).collect());
            }
            self.free = self.touched;
            self.touched += 1;
        }
        let generation = self.slot(self.free)?.generation;
        Some(ConnId { slot: self.free, generation })
    }

    /// Store at `id`, which [`Conns::vacant`] has just given.
    fn fill(&mut self, id: ConnId, value: T) {
        debug_assert_eq!(self.free, id.slot);
        let Some(slot) = self.slot_mut(id.slot) else { return };
        debug_assert!(slot.value.is_none());
        slot.value = Some(value);
        self.free = slot.next_free;
        self.len += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Random, SeededRandom};
    use std::collections::BTreeMap;

    #[test]
    fn a_stale_id_finds_nothing_in_a_reused_slot() {
        let mut conns = Conns::new(2);
        let a = conns.insert('a').unwrap();
        assert_eq!(conns.remove(a), Some('a'));
        let b = conns.insert('b').unwrap();
        assert_eq!(a.slot, b.slot);
        assert_eq!(conns.get(a), None);
        assert_eq!(conns.get_mut(a), None);
        assert_eq!(conns.remove(a), None);
        assert_eq!(conns.get(b), Some(&'b'));
        assert_eq!(conns.id_at(b.slot), Some(b));
    }

    #[test]
    fn full_gives_the_value_back() {
        let mut conns = Conns::new(1);
        conns.insert(1).unwrap();
        assert_eq!(conns.insert(2), Err(2));
        assert!(conns.is_full());
        assert_eq!(Conns::new(0).insert(3), Err(3));
    }

    #[test]
    fn ids_out_of_range_find_nothing() {
        let mut conns = Conns::new(100);
        conns.insert(()).unwrap();
        for slot in [1, 63, 64, 99, 100, u32::MAX] {
            assert_eq!(conns.get(ConnId { slot, generation: 0 }), None);
            assert_eq!(conns.remove(ConnId { slot, generation: 0 }), None);
        }
    }

    #[test]
    fn entries_stay_where_they_are_while_the_slab_grows() {
        let mut conns = Conns::new(1000);
        let first = conns.insert(0).unwrap();
        let address: *const i32 = conns.get(first).unwrap();
        for i in 1..1000 {
            conns.insert(i).unwrap();
        }
        assert_eq!(address, conns.get(first).unwrap());
    }

    #[test]
    fn agrees_with_a_map() {
        let mut random = SeededRandom::new(11);
        let mut conns = Conns::new(200);
        let mut model = BTreeMap::new();
        let mut ids = Vec::new();
        for step in 0..20_000u32 {
            if random.below(2) == 0 {
                match conns.insert(step) {
                    Ok(id) => {
                        assert!(model.insert(id, step).is_none());
                        ids.push(id);
                    }
                    Err(_) => assert_eq!(model.len(), 200),
                }
            } else if !ids.is_empty() {
                let id = ids[random.below(ids.len() as u32) as usize];
                assert_eq!(conns.remove(id), model.remove(&id));
            }
            assert_eq!(conns.len() as usize, model.len());
        }
        let mut all: Vec<_> = model.iter().map(|(id, v)| (*id, v)).collect();
        all.sort_by_key(|(id, _)| id.slot);
        assert!(conns.iter().eq(all));
        assert!(conns.slots() <= 200);
    }
}
