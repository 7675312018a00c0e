//! A slab whose ids do not find what took over their slot.

use alloc::vec::Vec;

/// An open file description: a slot and the generation of what lives in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FileId {
    slot: u32,
    generation: u32,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Values by id, at most `limit`.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    limit: usize,
}

impl<T> Slab<T> {
    pub(crate) const fn new(limit: usize) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), limit }
    }

    /// Gives the value back when there is no room.
    pub(crate) fn insert(&mut self, value: T) -> Result<FileId, T> {
        if let Some(slot) = self.free.pop()
            && let Some(place) = self.slots.get_mut(slot as usize)
        {
            place.value = Some(value);
            return Ok(FileId { slot, generation: place.generation });
        }
        if self.slots.len() >= self.limit {
            return Err(value);
        }
        let slot = self.slots.len() as u32;
        self.slots.push(Slot { generation: 0, value: Some(value) });
        Ok(FileId { slot, generation: 0 })
    }

    pub(crate) fn get(&self, id: FileId) -> Option<&T> {
        let slot = self.slots.get(id.slot as usize)?;
        slot.value.as_ref().filter(|_| slot.generation == id.generation)
    }

    pub(crate) fn get_mut(&mut self, id: FileId) -> Option<&mut T> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        slot.value.as_mut().filter(|_| slot.generation == id.generation)
    }

    pub(crate) fn remove(&mut self, id: FileId) -> Option<T> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        if slot.generation != id.generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.slot);
        Some(value)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (FileId, &T)> {
        self.slots.iter().zip(0..).filter_map(|(slot, index)| {
            let id = FileId { slot: index, generation: slot.generation };
            slot.value.as_ref().map(|value| (id, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_id_finds_nothing() {
        let mut slab = Slab::new(2);
        let a = slab.insert('a').unwrap();
        let b = slab.insert('b').unwrap();
        assert_eq!(slab.insert('c'), Err('c'));
        assert_eq!(slab.remove(a), Some('a'));
        assert_eq!(slab.remove(a), None);
        let c = slab.insert('c').unwrap();
        assert_eq!((slab.get(a), slab.get(b), slab.get(c)), (None, Some(&'b'), Some(&'c')));
        assert_eq!(slab.len(), 2);
        assert_eq!(slab.iter().map(|(_, v)| *v).collect::<Vec<_>>(), ['c', 'b']);
    }
}
