//! A small map with a fixed capacity.
//!
//! A sorted array: look-ups by halving, insertion by moving what lies behind. For tables that are
//! read often and change seldom (neighbours, path MTUs, datagrams being reassembled). Its order is
//! that of the keys, so nothing depends on a hash, and nobody can make keys collide.

use alloc::vec::Vec;

/// A map of at most `capacity` entries, allocated at its start.
pub struct BoundedMap<K, V> {
    entries: Vec<(K, V)>,
    capacity: usize,
}

impl<K: Ord, V> BoundedMap<K, V> {
    /// An empty map.
    pub fn new(capacity: usize) -> Self {
        Self { entries: Vec::with_capacity(capacity), capacity }
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// No entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// No further key fits.
    pub fn is_full(&self) -> bool {
        self.entries.len() >= self.capacity
    }

    /// The value of `key`.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.find(key).ok().map(|i| &self.entries[i].1)
    }

    /// The value of `key`.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.find(key).ok().map(|i| &mut self.entries[i].1)
    }

    /// Set the value of `key` and return the one before. Gives `value` back when `key` is new and
    /// the map is full.
    pub fn insert(&mut self, key: K, value: V) -> Result<Option<V>, V> {
        match self.find(&key) {
            Ok(i) => Ok(Some(core::mem::replace(&mut self.entries[i].1, value))),
            Err(_) if self.is_full() => Err(value),
            Err(i) => {
                self.entries.insert(i, (key, value));
                Ok(None)
            }
        }
    }

    /// Take the entry of `key` out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.find(key).ok().map(|i| self.entries.remove(i).1)
    }

    /// All entries in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    /// The entry at a place in the order of keys.
    pub fn at(&self, index: usize) -> Option<(&K, &V)> {
        self.entries.get(index).map(|(key, value)| (key, value))
    }

    /// How many keys `before` holds for; it holds for a key only if it holds for all smaller ones.
    pub fn rank(&self, before: impl Fn(&K) -> bool) -> usize {
        self.entries.partition_point(|(key, _)| before(key))
    }

    /// Remove entries for which `keep` does not hold.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &V) -> bool) {
        self.entries.retain(|(key, value)| keep(key, value));
    }

    fn find(&self, key: &K) -> Result<usize, usize> {
        self.entries.binary_search_by(|(have, _)| have.cmp(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Random, SeededRandom};
    use std::collections::BTreeMap;

    #[test]
    fn agrees_with_a_tree_map_up_to_its_capacity() {
        let mut random = SeededRandom::new(2);
        let mut map = BoundedMap::new(20);
        let mut model = BTreeMap::new();
        for step in 0..10_000 {
            let key = random.below(40);
            if random.below(3) == 0 {
                assert_eq!(map.remove(&key), model.remove(&key));
            } else if model.len() < 20 || model.contains_key(&key) {
                assert_eq!(map.insert(key, step), Ok(model.insert(key, step)));
            } else {
                assert!(map.is_full());
                assert_eq!(map.insert(key, step), Err(step));
            }
            assert_eq!(map.get(&key), model.get(&key));
            assert!(map.iter().eq(model.iter()));
            assert_eq!(map.rank(|k| *k < key), model.range(..key).count());
        }
    }
}
