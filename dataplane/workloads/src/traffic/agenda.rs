//! Many deadlines on one timer of the stack.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use base::Instant;
use stack::Io;

use crate::alarm::Alarm;

/// What is due when. Entries are not taken back: whoever is called looks whether there is still reason.
#[derive(Debug)]
pub(super) struct Agenda<T> {
    heap: BinaryHeap<Reverse<(Instant, u64, T)>>,
    /// Keeps entries of one time in their order.
    next: u64,
    alarm: Alarm,
}

impl<T: Ord> Agenda<T> {
    pub(super) fn new() -> Self {
        Self { heap: BinaryHeap::new(), next: 0, alarm: Alarm::default() }
    }

    /// Note `what` for `at`.
    pub(super) fn note(&mut self, io: &mut dyn Io, at: Instant, what: T) {
        self.heap.push(Reverse((at, self.next, what)));
        self.next += 1;
        self.arm(io);
    }

    /// The timer has run out.
    pub(super) fn rang(&mut self) {
        self.alarm.rang();
    }

    /// The next entry that is due, in the order of time.
    pub(super) fn due(&mut self, now: Instant) -> Option<T> {
        if self.heap.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            return self.heap.pop().map(|Reverse((.., what))| what);
        }
        None
    }

    /// Be called when the next entry is due.
    pub(super) fn arm(&mut self, io: &mut dyn Io) {
        if let Some(Reverse((at, ..))) = self.heap.peek() {
            self.alarm.set(io, *at);
        }
    }
}
