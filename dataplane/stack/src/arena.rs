//! Storage for the queues of all connections of a worker.
//!
//! A [`Queue`] is twelve bytes in its connection; its items lie in chunks of a shared [`Arena`],
//! linked by index and returned when drained. The arena grows by pages up to its bound and then
//! refuses. [`Ordered`] is the same for items that are found by key: receive ranges out of order,
//! records of what was sent; every operation takes a logarithmic number of steps, since its order
//! is what a peer chooses.
//!
//! A queue must be used with the arena that it was filled from, and be cleared before it is
//! forgotten, or its chunks stay in use.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::array;

pub mod ordered;

pub use ordered::{Ordered, OrderedArena, Place};

/// Items per chunk.
pub const CHUNK_ITEMS: usize = 15;
/// Chunks that are allocated together.
const PAGE_CHUNKS: u32 = 32;
const NIL: u32 = u32::MAX;

struct Chunk<T> {
    items: [Option<T>; CHUNK_ITEMS],
    /// Items are in `start..end`.
    start: u8,
    end: u8,
    /// Towards the back of the queue; in a free chunk, the next free one.
    next: u32,
}

impl<T> Chunk<T> {
    fn empty() -> Self {
        Self { items: array::from_fn(|_| None), start: 0, end: 0, next: NIL }
    }
}

/// A double-ended place in an [`Arena`]: first in, first out, and also taken from the back.
#[derive(Debug, PartialEq, Eq)]
pub struct Queue {
    head: u32,
    tail: u32,
    len: u32,
}

const _: () = assert!(size_of::<Queue>() <= 16);

impl Queue {
    /// An empty queue; uses no chunk.
    pub const EMPTY: Self = Self { head: NIL, tail: NIL, len: 0 };

    /// Items.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// No items.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Chunks for the queues of one worker.
pub struct Arena<T> {
    pages: Vec<Box<[Chunk<T>]>>,
    free: u32,
    used: u32,
    touched: u32,
    capacity: u32,
}

impl<T> Arena<T> {
    /// An arena of at most `chunks` chunks. Reserves the list of pages, but no page.
    pub fn new(chunks: u32) -> Self {
        let capacity = chunks.min(NIL - 1);
        let pages = capacity.div_ceil(PAGE_CHUNKS) as usize;
        Self { pages: Vec::with_capacity(pages), free: NIL, used: 0, touched: 0, capacity }
    }

    /// Chunks in use.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Chunks at most.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Append `item`. Gives it back when the arena is full.
    pub fn push_back(&mut self, queue: &mut Queue, item: T) -> Result<(), T> {
        let full = |chunk: &Chunk<T>| usize::from(chunk.end) == CHUNK_ITEMS;
        if self.chunk(queue.tail).is_none_or(full) {
            let Some(fresh) = self.claim() else { return Err(item) };
            match self.chunk_mut(queue.tail) {
                Some(tail) => tail.next = fresh,
                None => queue.head = fresh,
            }
            queue.tail = fresh;
        }
        let Some(chunk) = self.chunk_mut(queue.tail) else { return Err(item) };
        let end = usize::from(chunk.end);
        chunk.items[end] = Some(item);
        chunk.end += 1;
        queue.len += 1;
        Ok(())
    }

    /// Put `item` before the first one. Gives it back when the arena is full.
    pub fn push_front(&mut self, queue: &mut Queue, item: T) -> Result<(), T> {
        if self.chunk(queue.head).is_none_or(|chunk| chunk.start == 0) {
            let Some(fresh) = self.claim() else { return Err(item) };
            let head = queue.head;
            if let Some(chunk) = self.chunk_mut(fresh) {
                // Filled from the end, since what comes to the front usually leaves from there.
                (chunk.start, chunk.end) = (CHUNK_ITEMS as u8, CHUNK_ITEMS as u8);
                chunk.next = head;
            }
            queue.head = fresh;
            if queue.tail == NIL {
                queue.tail = fresh;
            }
        }
        let Some(chunk) = self.chunk_mut(queue.head) else { return Err(item) };
        chunk.start -= 1;
        let start = usize::from(chunk.start);
        chunk.items[start] = Some(item);
        queue.len += 1;
        Ok(())
    }

    /// Take the first item.
    pub fn pop_front(&mut self, queue: &mut Queue) -> Option<T> {
        let chunk = self.chunk_mut(queue.head)?;
        let item = chunk.items.get_mut(usize::from(chunk.start))?.take()?;
        chunk.start += 1;
        queue.len -= 1;
        if chunk.start == chunk.end {
            let next = chunk.next;
            self.release(queue.head);
            queue.head = next;
            if next == NIL {
                queue.tail = NIL;
            }
        }
        Some(item)
    }

    /// The first item.
    pub fn front(&self, queue: &Queue) -> Option<&T> {
        let chunk = self.chunk(queue.head)?;
        chunk.items.get(usize::from(chunk.start))?.as_ref()
    }

    /// The first item.
    pub fn front_mut(&mut self, queue: &Queue) -> Option<&mut T> {
        let chunk = self.chunk_mut(queue.head)?;
        chunk.items.get_mut(usize::from(chunk.start))?.as_mut()
    }

    /// The last item.
    pub fn back(&self, queue: &Queue) -> Option<&T> {
        let chunk = self.chunk(queue.tail)?;
        chunk.items.get(usize::from(chunk.end).checked_sub(1)?)?.as_ref()
    }

    /// The last item.
    pub fn back_mut(&mut self, queue: &Queue) -> Option<&mut T> {
        let chunk = self.chunk_mut(queue.tail)?;
        chunk.items.get_mut(usize::from(chunk.end).checked_sub(1)?)?.as_mut()
    }

    /// The items from the first to the last.
    pub fn iter(&self, queue: &Queue) -> impl Iterator<Item = &T> {
        let mut next = queue.head;
        core::iter::from_fn(move || {
            let chunk = self.chunk(next)?;
            next = chunk.next;
            Some(&chunk.items[usize::from(chunk.start)..usize::from(chunk.end)])
        })
        .flatten()
        .flatten()
    }

    /// Drop all items and return the chunks.
    pub fn clear(&mut self, queue: &mut Queue) {
        while self.pop_front(queue).is_some() {}
        debug_assert_eq!(*queue, Queue::EMPTY);
    }

    fn chunk(&self, index: u32) -> Option<&Chunk<T>> {
        self.pages.get((index / PAGE_CHUNKS) as usize)?.get((index % PAGE_CHUNKS) as usize)
    }

    fn chunk_mut(&mut self, index: u32) -> Option<&mut Chunk<T>> {
        self.pages.get_mut((index / PAGE_CHUNKS) as usize)?.get_mut((index % PAGE_CHUNKS) as usize)
    }

    fn claim(&mut self) -> Option<u32> {
        let index = if self.free != NIL {
            self.free
        } else {
            if self.touched == self.capacity {
                return None;
            }
            if self.touched.is_multiple_of(PAGE_CHUNKS) {
                self.pages.push((0..PAGE_CHUNKS).map(|_| Chunk::empty()).collect());
            }
            self.touched += 1;
            self.touched - 1
        };
        let chunk = self.chunk_mut(index)?;
        (chunk.start, chunk.end) = (0, 0);
        let next = core::mem::replace(&mut chunk.next, NIL);
        self.free = next;
        self.used += 1;
        Some(index)
    }

    fn release(&mut self, index: u32) {
        let free = self.free;
        if let Some(chunk) = self.chunk_mut(index) {
            debug_assert!(chunk.items.iter().all(Option::is_none));
            chunk.next = free;
            self.free = index;
            self.used -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Random, SeededRandom};
    use std::collections::VecDeque;

    #[test]
    fn a_full_arena_gives_the_item_back_and_takes_it_after_a_drain() {
        let mut arena = Arena::new(2);
        let (mut a, mut b) = (Queue::EMPTY, Queue::EMPTY);
        for i in 0..CHUNK_ITEMS {
            arena.push_back(&mut a, i).unwrap();
        }
        arena.push_back(&mut b, 0).unwrap();
        assert_eq!(arena.push_back(&mut a, 99), Err(99));
        assert_eq!(arena.push_front(&mut b, 99), Err(99));
        arena.clear(&mut b);
        assert_eq!(arena.push_back(&mut a, 99), Ok(()));
        assert_eq!((arena.back(&a), arena.used(), arena.capacity()), (Some(&99), 2, 2));
    }

    #[test]
    fn agrees_with_deques() {
        let mut random = SeededRandom::new(3);
        let mut arena = Arena::new(40);
        let mut queues: [Queue; 5] = Default::default();
        let mut models: [VecDeque<u32>; 5] = Default::default();
        for step in 0..200_000 {
            let which = random.below(5) as usize;
            let (queue, model) = (&mut queues[which], &mut models[which]);
            // Long phases of growth and of shrinking.
            let growing = step / 1000 % 2 == 0;
            match random.below(if growing { 12 } else { 30 }) {
                0..=5 => {
                    if arena.push_back(queue, step).is_ok() {
                        model.push_back(step);
                    } else {
                        assert_eq!(arena.used(), 40);
                    }
                }
                6 | 7 => {
                    if arena.push_front(queue, step).is_ok() {
                        model.push_front(step);
                    }
                }
                8 => {
                    if let Some(back) = arena.back_mut(queue) {
                        *back += 1;
                    }
                    if let Some(front) = arena.front_mut(queue) {
                        *front += 1;
                    }
                    model.iter_mut().next_back().into_iter().for_each(|v| *v += 1);
                    model.iter_mut().take(1).for_each(|v| *v += 1);
                }
                9 if random.below(100) == 0 => {
                    arena.clear(queue);
                    model.clear();
                }
                _ => assert_eq!(arena.pop_front(queue), model.pop_front()),
            }
            assert_eq!(queue.len() as usize, model.len());
            assert_eq!((arena.front(queue), arena.back(queue)), (model.front(), model.back()));
            if step % 16 == 0 {
                assert!(arena.iter(queue).eq(model.iter()));
            }
        }
        queues.iter_mut().for_each(|queue| arena.clear(queue));
        assert_eq!(arena.used(), 0);
    }
}
