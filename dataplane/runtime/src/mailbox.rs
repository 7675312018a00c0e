//! Bounded lock-free mailboxes between threads, and what is agreed on top of them.
//!
//! Each worker has one inbox, which the control thread and its fellow workers fill, and one outbox,
//! which the control thread empties. Full means "not now": the sender keeps what it has.
//!
//! - What is posted arrives in order, none of it lost and none twice ([`Backlog`]).
//! - A worker answers questions in the order in which they were posted, so an answer belongs to the
//!   oldest open question, also when nobody waits for that one any more ([`Questions`]).
//! - A worker that acknowledges a generation runs with it, and with none before it.
//! - Who sees that a worker is gone sees everything that it did before ([`GoneOnDrop`]).
//!
//! This file knows neither threads nor messages: it takes atomics and the queue from `crate::sync`.
//! `tests/loom` includes it over those of loom, which tries all interleavings of small programs:
//! `cargo nextest run -p loom-tests`.

use std::collections::VecDeque;

use crate::sync::{Arc, ArrayQueue, AtomicBool, AtomicU64, CachePadded, Ordering};

/// What a worker and the rest of the process share. Everything else is owned by one side.
pub(crate) struct Shared<C, O> {
    /// Commands for the worker.
    pub(crate) inbox: ArrayQueue<C>,
    /// Its results.
    pub(crate) outbox: ArrayQueue<O>,
    /// Turns done; the watchdog looks whether it moves. Written every few turns by the worker only.
    pub(crate) heartbeat: CachePadded<AtomicU64>,
    /// The worker shall leave its loop after this turn, whatever is unfinished.
    quit: AtomicBool,
    /// The worker has left its loop.
    gone: AtomicBool,
}

impl<C, O> Shared<C, O> {
    /// Mailboxes for so many commands and results.
    pub(crate) fn new(commands: usize, results: usize) -> Arc<Self> {
        Arc::new(Self {
            inbox: ArrayQueue::new(commands),
            outbox: ArrayQueue::new(results),
            heartbeat: CachePadded::new(AtomicU64::new(0)),
            quit: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        })
    }

    /// Ask the worker to leave. Relaxed: it says nothing but itself, and each turn looks again.
    pub(crate) fn ask_to_quit(&self) {
        self.quit.store(true, Ordering::Relaxed);
    }

    /// Whether the worker shall leave.
    pub(crate) fn shall_quit(&self) -> bool {
        self.quit.load(Ordering::Relaxed)
    }

    /// Whether the worker has left; then everything that it did can be seen.
    pub(crate) fn is_gone(&self) -> bool {
        // Pairs with the release of `GoneOnDrop`.
        self.gone.load(Ordering::Acquire)
    }
}

/// The commands waiting in an inbox; ends when it is empty.
pub(crate) struct Inbox<'a, C>(pub(crate) &'a ArrayQueue<C>);

impl<C> Iterator for Inbox<'_, C> {
    type Item = C;
    fn next(&mut self) -> Option<C> {
        self.0.pop()
    }
}

/// Marks a worker as gone even if it leaves by a panic.
pub(crate) struct GoneOnDrop<'a, C, O>(pub(crate) &'a Shared<C, O>);

impl<C, O> Drop for GoneOnDrop<'_, C, O> {
    fn drop(&mut self) {
        // Release: what the worker did comes before.
        self.0.gone.store(true, Ordering::Release);
    }
}

/// Commands that found the inbox full, oldest first.
pub(crate) struct Backlog<C>(VecDeque<C>);

impl<C> Backlog<C> {
    pub(crate) const fn new() -> Self {
        Self(VecDeque::new())
    }

    /// Post behind whatever waits already.
    pub(crate) fn post(&mut self, inbox: &ArrayQueue<C>, command: C) {
        self.0.push_back(command);
        self.flush(inbox);
    }

    /// Post what waits, as far as there is room.
    pub(crate) fn flush(&mut self, inbox: &ArrayQueue<C>) {
        while let Some(command) = self.0.pop_front() {
            if let Err(back) = inbox.push(command) {
                self.0.push_front(back);
                break;
            }
        }
    }

    /// Commands that wait.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// The questions that one worker has been asked and has not answered, oldest first, each by the name
/// of who waits for it.
pub(crate) struct Questions<Q>(VecDeque<Q>);

impl<Q> Questions<Q> {
    pub(crate) const fn new() -> Self {
        Self(VecDeque::new())
    }

    /// A question has been posted.
    pub(crate) fn asked(&mut self, by: Q) {
        self.0.push_back(by);
    }

    /// An answer has come: whose it is.
    pub(crate) fn answered(&mut self) -> Option<Q> {
        self.0.pop_front()
    }
}
