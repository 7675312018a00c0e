//! In the place of `runtime::sync`.

use std::collections::VecDeque;
use std::ops::Deref;

pub(crate) use loom::sync::Arc;
use loom::sync::Mutex;
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A bounded queue that promises what crossbeam's does: first in first out, and what was done before a
/// push is seen after its pop.
pub(crate) struct ArrayQueue<T> {
    queue: Mutex<VecDeque<T>>,
    room: usize,
}

impl<T> ArrayQueue<T> {
    pub(crate) fn new(room: usize) -> Self {
        Self { queue: Mutex::new(VecDeque::new()), room }
    }

    pub(crate) fn push(&self, value: T) -> Result<(), T> {
        let mut queue = self.queue.lock().unwrap();
        if queue.len() == self.room {
            return Err(value);
        }
        queue.push_back(value);
        Ok(())
    }

    pub(crate) fn pop(&self) -> Option<T> {
        self.queue.lock().unwrap().pop_front()
    }
}

pub(crate) struct CachePadded<T>(T);

impl<T> CachePadded<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> Deref for CachePadded<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}
