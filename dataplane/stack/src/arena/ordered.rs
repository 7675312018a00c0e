//! Items found by key, in logarithmic time whatever the order in which a peer makes them come.
//!
//! A set is a treap: a search tree by key that is also a heap by a priority drawn for each node, so
//! its shape does not depend on the order of insertions. Depth stays near twice the logarithm of
//! the size unless somebody knows the seed.

use alloc::vec::Vec;

const NIL: u32 = u32::MAX;

struct Node<T> {
    key: u64,
    priority: u32,
    left: u32,
    /// In a free node, the next free one.
    right: u32,
    /// In a free node, perhaps one that is spent.
    value: Option<T>,
}

/// A set of items by key: the root in its arena and the number of items.
#[derive(Debug, PartialEq, Eq)]
pub struct Ordered {
    root: u32,
    len: u32,
}

const _: () = assert!(size_of::<Ordered>() <= 16);

impl Ordered {
    /// The empty set; uses no node.
    pub const EMPTY: Self = Self { root: NIL, len: 0 };

    /// Items.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// No items.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Default for Ordered {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Where an item is in its arena: a way to it without a search, for as long as it stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u32);

/// Nodes for the ordered sets of one worker.
pub struct OrderedArena<T> {
    nodes: Vec<Node<T>>,
    free: u32,
    used: u32,
    capacity: u32,
    /// State of the generator of priorities.
    state: u64,
}

impl<T> OrderedArena<T> {
    /// An arena of at most `capacity` nodes, which it allocates at once; `seed` decides the shapes
    /// of the trees, see [`base::Random::secret`].
    pub fn new(capacity: u32, seed: u64) -> Self {
        let capacity = capacity.min(NIL - 1);
        Self {
            nodes: Vec::with_capacity(capacity as usize),
            free: NIL,
            used: 0,
            capacity,
            state: seed,
        }
    }

    /// Nodes in use.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Nodes at most.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Add an item; its place is good for [`OrderedArena::at_place`] until it is taken out. Gives the
    /// item back when the arena is full or the set has the key already.
    pub fn insert(&mut self, set: &mut Ordered, key: u64, value: T) -> Result<Place, T> {
        if self.get(set, key).is_some() {
            return Err(value);
        }
        let priority = self.draw();
        let Some(fresh) = self.claim(key, priority) else { return Err(value) };
        self.nodes[fresh as usize].value = Some(value);
        self.hang(set, fresh);
        Ok(Place(fresh))
    }

    /// Add an item that somebody has used and left behind with [`OrderedArena::pop_first_spent`], or a
    /// new one: for items too large to be moved about. `None` when the arena is full. The set must not
    /// have the key.
    pub fn insert_spent(&mut self, set: &mut Ordered, key: u64) -> Option<Place>
    where
        T: Default,
    {
        debug_assert!(self.get(set, key).is_none());
        let priority = self.draw();
        let fresh = self.claim(key, priority)?;
        self.nodes[fresh as usize].value.get_or_insert_default();
        self.hang(set, fresh);
        Some(Place(fresh))
    }

    /// Put a node with key, priority and value into the tree.
    fn hang(&mut self, set: &mut Ordered, fresh: u32) {
        set.len += 1;
        let Node { key, priority, .. } = self.nodes[fresh as usize];
        let (mut parent, mut index) = (None, set.root);
        while let Some(node) = self.node(index).filter(|node| node.priority >= priority) {
            let right = node.key < key;
            parent = Some((index, right));
            index = if right { node.right } else { node.left };
        }
        let (left, right) = if index == NIL { (NIL, NIL) } else { self.split(index, key) };
        let node = &mut self.nodes[fresh as usize];
        (node.left, node.right) = (left, right);
        self.link(set, parent, fresh);
    }

    /// The item at `place`. The caller must have kept `place` from a time since which the item has
    /// not been taken out: another item may be there now.
    pub fn at_place(&self, place: Place) -> Option<(u64, &T)> {
        let node = self.node(place.0)?;
        Some((node.key, node.value.as_ref()?))
    }

    /// As [`OrderedArena::at_place`].
    pub fn at_place_mut(&mut self, place: Place) -> Option<(u64, &mut T)> {
        let node = self.nodes.get_mut(place.0 as usize)?;
        Some((node.key, node.value.as_mut()?))
    }

    /// The place of the item with the smallest key.
    pub fn first_place(&self, set: &Ordered) -> Option<Place> {
        let (mut first, mut index) = (None, set.root);
        while let Some(node) = self.node(index) {
            first = Some(Place(index));
            index = node.left;
        }
        first
    }

    /// The item with this key.
    pub fn get(&self, set: &Ordered, key: u64) -> Option<&T> {
        self.nodes.get(self.search(set, key)?.1 as usize)?.value.as_ref()
    }

    /// The item with this key.
    pub fn get_mut(&mut self, set: &Ordered, key: u64) -> Option<&mut T> {
        let index = self.search(set, key)?.1;
        self.nodes.get_mut(index as usize)?.value.as_mut()
    }

    /// Take out the item with this key.
    pub fn remove(&mut self, set: &mut Ordered, key: u64) -> Option<T> {
        let (parent, index) = self.search(set, key)?;
        let (left, right) = (self.nodes[index as usize].left, self.nodes[index as usize].right);
        let merged = self.merge(left, right);
        self.link(set, parent, merged);
        set.len -= 1;
        self.release(index)
    }

    /// The item with the smallest key.
    pub fn first(&self, set: &Ordered) -> Option<(u64, &T)> {
        self.at_or_after(set, 0)
    }

    /// The item with the largest key.
    pub fn last(&self, set: &Ordered) -> Option<(u64, &T)> {
        self.at_or_before(set, u64::MAX)
    }

    /// Take out the item with the smallest key.
    pub fn pop_first(&mut self, set: &mut Ordered) -> Option<(u64, T)> {
        let (key, index) = self.unhang_first(set)?;
        self.release(index).map(|value| (key, value))
    }

    /// Take out the item with the smallest key, which is as good as new, and leave it for
    /// [`OrderedArena::insert_spent`].
    pub fn pop_first_spent(&mut self, set: &mut Ordered) {
        if let Some((_, index)) = self.unhang_first(set) {
            self.free(index);
        }
    }

    /// Take the node with the smallest key out of the tree. Returns the key and the node.
    fn unhang_first(&mut self, set: &mut Ordered) -> Option<(u64, u32)> {
        let (mut parent, mut index) = (None, set.root);
        let (key, right) = loop {
            let node = self.node(index)?;
            match self.node(node.left) {
                Some(_) => {
                    parent = Some((index, false));
                    index = node.left;
                }
                None => break (node.key, node.right),
            }
        };
        self.link(set, parent, right);
        set.len -= 1;
        Some((key, index))
    }

    /// The item with the largest key that is not larger than `key`.
    pub fn at_or_before(&self, set: &Ordered, key: u64) -> Option<(u64, &T)> {
        self.at_place(self.place_at_or_before(set, key)?)
    }

    /// The place of the item with the largest key that is not larger than `key`.
    pub fn place_at_or_before(&self, set: &Ordered, key: u64) -> Option<Place> {
        let (mut best, mut index) = (None, set.root);
        while let Some(node) = self.node(index) {
            if node.key <= key {
                best = Some(Place(index));
                index = node.right;
            } else {
                index = node.left;
            }
        }
        best
    }

    /// The item with the smallest key that is not smaller than `key`.
    pub fn at_or_after(&self, set: &Ordered, key: u64) -> Option<(u64, &T)> {
        let (mut best, mut index) = (None, set.root);
        while let Some(node) = self.node(index) {
            if node.key >= key {
                best = Some(node);
                index = node.left;
            } else {
                index = node.right;
            }
        }
        best.and_then(|node| Some((node.key, node.value.as_ref()?)))
    }

    /// The items from `key` on in the order of their keys; each costs one search.
    pub fn iter_from(&self, set: &Ordered, key: u64) -> impl Iterator<Item = (u64, &T)> {
        let (root, mut next) = (Ordered { root: set.root, len: set.len }, Some(key));
        core::iter::from_fn(move || {
            let (key, value) = self.at_or_after(&root, next?)?;
            next = key.checked_add(1);
            Some((key, value))
        })
    }

    /// Drop all items.
    pub fn clear(&mut self, set: &mut Ordered) {
        while self.pop_first(set).is_some() {}
        debug_assert_eq!(*set, Ordered::EMPTY);
    }

    fn node(&self, index: u32) -> Option<&Node<T>> {
        self.nodes.get(index as usize)
    }

    /// The node with this key, and its parent with the side on which it hangs (true: right).
    fn search(&self, set: &Ordered, key: u64) -> Option<(Option<(u32, bool)>, u32)> {
        let (mut parent, mut index) = (None, set.root);
        loop {
            let node = self.node(index)?;
            if node.key == key {
                return Some((parent, index));
            }
            let right = node.key < key;
            parent = Some((index, right));
            index = if right { node.right } else { node.left };
        }
    }

    /// Hang `child` where `parent` says; without a parent it becomes the root.
    fn link(&mut self, set: &mut Ordered, parent: Option<(u32, bool)>, child: u32) {
        match parent {
            Some((parent, true)) => self.nodes[parent as usize].right = child,
            Some((parent, false)) => self.nodes[parent as usize].left = child,
            None => set.root = child,
        }
    }

    /// Split a subtree into the keys below `key` and those above.
    fn split(&mut self, mut index: u32, key: u64) -> (u32, u32) {
        let (mut roots, mut ends) = ((NIL, NIL), (NIL, NIL));
        while let Some(node) = self.nodes.get(index as usize) {
            if node.key < key {
                let next = node.right;
                if ends.0 == NIL {
                    roots.0 = index;
                } else {
                    self.nodes[ends.0 as usize].right = index;
                }
                ends.0 = index;
                index = next;
            } else {
                let next = node.left;
                if ends.1 == NIL {
                    roots.1 = index;
                } else {
                    self.nodes[ends.1 as usize].left = index;
                }
                ends.1 = index;
                index = next;
            }
        }
        if ends.0 != NIL {
            self.nodes[ends.0 as usize].right = NIL;
        }
        if ends.1 != NIL {
            self.nodes[ends.1 as usize].left = NIL;
        }
        roots
    }

    /// Join two subtrees, all keys of the first below those of the second.
    fn merge(&mut self, mut left: u32, mut right: u32) -> u32 {
        let (mut root, mut end) = (NIL, None);
        loop {
            let child = match (self.node(left), self.node(right)) {
                (Some(l), Some(r)) if l.priority >= r.priority => left,
                (Some(_), None) => left,
                (_, Some(_)) => right,
                (None, None) => NIL,
            };
            match end {
                None => root = child,
                Some((parent, true)) => self.nodes[parent as usize].right = child,
                Some((parent, false)) => {
                    let parent: u32 = parent;
                    self.nodes[parent as usize].left = child;
                }
            }
            if left == NIL || right == NIL {
                return root;
            }
            if child == left {
                end = Some((left, true));
                left = self.nodes[left as usize].right;
            } else {
                end = Some((right, false));
                right = self.nodes[right as usize].left;
            }
        }
    }

    fn claim(&mut self, key: u64, priority: u32) -> Option<u32> {
        let index = if self.free != NIL {
            let index = self.free;
            let node = &mut self.nodes[index as usize];
            self.free = node.right;
            (node.key, node.priority) = (key, priority);
            index
        } else {
            let index = self.nodes.len() as u32;
            if index >= self.capacity {
                return None;
            }
            self.nodes.push(Node { key, priority, left: NIL, right: NIL, value: None });
            index
        };
        self.used += 1;
        Some(index)
    }

    fn release(&mut self, index: u32) -> Option<T> {
        let value = self.nodes.get_mut(index as usize)?.value.take();
        self.free(index);
        value
    }

    fn free(&mut self, index: u32) {
        self.nodes[index as usize].right = self.free;
        self.free = index;
        self.used -= 1;
    }

    /// The next priority: a step of splitmix64.
    fn draw(&mut self) -> u32 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Random, SeededRandom};
    use std::collections::BTreeMap;

    fn depth<T>(arena: &OrderedArena<T>, index: u32) -> u32 {
        arena.node(index).map_or(0, |n| 1 + depth(arena, n.left).max(depth(arena, n.right)))
    }

    #[test]
    fn agrees_with_a_tree_map() {
        let mut random = SeededRandom::new(9);
        let mut arena = OrderedArena::new(150, 1);
        let mut sets: [Ordered; 3] = Default::default();
        let mut models: [BTreeMap<u64, u32>; 3] = Default::default();
        for step in 0..60_000 {
            let which = random.below(3) as usize;
            let (set, model) = (&mut sets[which], &mut models[which]);
            let key = u64::from(random.below(100));
            match random.below(9) {
                0..=3 => {
                    let full = arena.used() == 150;
                    match arena.insert(set, key, step) {
                        Ok(_) => assert!(!full && model.insert(key, step).is_none()),
                        Err(back) => {
                            assert_eq!(back, step);
                            assert!(full || model.contains_key(&key));
                        }
                    }
                }
                4..=6 => assert_eq!(arena.remove(set, key), model.remove(&key)),
                7 => assert_eq!(arena.pop_first(set), model.pop_first()),
                _ => {
                    if let Some(value) = arena.get_mut(set, key) {
                        *value += 1;
                    }
                    model.entry(key).and_modify(|value| *value += 1);
                }
            }
            assert_eq!(set.len() as usize, model.len());
            assert_eq!(arena.get(set, key), model.get(&key));
            let before = model.range(..=key).next_back().map(|(k, v)| (*k, v));
            let after = model.range(key..).next().map(|(k, v)| (*k, v));
            assert_eq!(
                (arena.at_or_before(set, key), arena.at_or_after(set, key)),
                (before, after)
            );
            assert_eq!(arena.last(set), model.last_key_value().map(|(k, v)| (*k, v)));
            if step % 32 == 0 {
                assert!(arena.iter_from(set, key).eq(model.range(key..).map(|(k, v)| (*k, v))));
            }
        }
        sets.iter_mut().for_each(|set| arena.clear(set));
        assert_eq!(arena.used(), 0);
    }

    #[test]
    fn depth_stays_logarithmic_in_any_order_of_insertion() {
        let orders: [fn(u64) -> u64; 4] = [
            |i| i,
            |i| u64::MAX - i,
            |i| if i % 2 == 0 { i } else { u64::MAX - i },
            |i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15),
        ];
        for (name, order) in orders.iter().enumerate() {
            let mut arena = OrderedArena::new(10_000, 5);
            let mut set = Ordered::EMPTY;
            for i in 0..10_000 {
                arena.insert(&mut set, order(i), ()).unwrap();
            }
            let full = depth(&arena, set.root);
            assert!(full <= 50, "order {name}: depth {full} for 2^13.3 items");
            // Most are removed, and as many come in their order again.
            for i in (0..10_000).filter(|i| i % 10 != 0) {
                arena.remove(&mut set, order(i)).unwrap();
            }
            let thin = depth(&arena, set.root);
            assert!(thin <= 35, "order {name}: depth {thin} for 2^10 items");
            for i in (0..10_000).filter(|i| i % 10 != 0) {
                arena.insert(&mut set, order(i), ()).unwrap();
            }
            let again = depth(&arena, set.root);
            assert!(again <= 50, "order {name}: depth {again} after a change of most items");
        }
    }
}
