//! Bounded lock-free mailboxes between threads.
//!
//! Each worker has one inbox, which the control thread and its fellow workers fill, and one outbox,
//! which the control thread empties. Full means "not now": the sender keeps what it has.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam::queue::ArrayQueue;
use crossbeam::utils::CachePadded;
use stack::{Command, Outgoing};

/// Commands that wait for one worker at most.
const INBOX_COMMANDS: usize = 1024;
/// Results of one worker that wait for the control thread at most.
const OUTBOX_RESULTS: usize = 4096;

/// What a worker and the rest of the process share. Everything else is owned by one side.
pub(crate) struct Shared {
    pub(crate) inbox: ArrayQueue<Command>,
    pub(crate) outbox: ArrayQueue<Outgoing>,
    /// Turns done; the watchdog looks whether it moves. Written every few turns by the worker only.
    pub(crate) heartbeat: CachePadded<AtomicU64>,
    /// The worker shall leave its loop after this turn, whatever is unfinished.
    pub(crate) quit: AtomicBool,
    /// The worker has left its loop.
    pub(crate) gone: AtomicBool,
}

impl Shared {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            inbox: ArrayQueue::new(INBOX_COMMANDS),
            outbox: ArrayQueue::new(OUTBOX_RESULTS),
            heartbeat: CachePadded::new(AtomicU64::new(0)),
            quit: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        })
    }
}

/// The commands waiting in an inbox; ends when it is empty.
pub(crate) struct Inbox<'a>(pub(crate) &'a ArrayQueue<Command>);

impl Iterator for Inbox<'_> {
    type Item = Command;
    fn next(&mut self) -> Option<Command> {
        self.0.pop()
    }
}

/// Marks a worker as gone even if it leaves by a panic.
pub(crate) struct GoneOnDrop<'a>(pub(crate) &'a Shared);

impl Drop for GoneOnDrop<'_> {
    fn drop(&mut self) {
        self.0.gone.store(true, Ordering::Release);
    }
}
