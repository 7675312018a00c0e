//! One timer per connection, in a hierarchy of wheels.
//!
//! Nine levels of 64 buckets; a bucket of level 0 is one tick ([`TICK`]), one of level `l` is 64^l
//! ticks, and the levels together reach the end of [`Instant`]. A timer lives at the level of the
//! highest digit (of six bits) in which its tick differs from the wheel's own time, so all buckets
//! in use of a level lie ahead in the order of their numbers. Each bucket knows a lower bound of
//! its deadlines: the next bucket to open is found by one look at each level, and a stall of an
//! hour costs no more than one of a tick.
//!
//! Deadlines are kept to the nanosecond: a timer never fires early. [`Wheel::next_deadline`] may be
//! early, never late.
//!
//! INVARIANT: no deadline under which a timer is filed lies before the wheel's own time, and every
//! bucket's bound is at most the deadlines under which its timers are filed.

use alloc::vec::Vec;
use core::time::Duration;

use base::Instant;

const TICK_BITS: u32 = 15;
/// Width of a bucket of the lowest level: 2^15 ns.
pub const TICK: Duration = Duration::from_nanos(1 << TICK_BITS);

const LEVEL_BITS: u32 = 6;
const LEVEL_BUCKETS: usize = 1 << LEVEL_BITS;
const LEVELS: usize = (u64::BITS - TICK_BITS).div_ceil(LEVEL_BITS) as usize;

const NIL: u32 = u32::MAX;
/// `Node::bucket` of a timer that is not armed.
const UNARMED: u16 = u16::MAX;
/// A second list for the wheel's own tick: takes what belongs into the list that is open.
const ASIDE: usize = LEVELS * LEVEL_BUCKETS;
/// `Wheel::opened` while no list is open.
const NONE: usize = usize::MAX;

#[derive(Clone, Copy)]
struct Node {
    /// When the timer shall fire; may be later than where it is filed.
    deadline: Instant,
    next: u32,
    prev: u32,
    bucket: u16,
}

const _: () = assert!(size_of::<Node>() == 24);

/// Bytes of the wheel for each timer.
pub(crate) const TIMER_BYTES: usize = size_of::<Node>();

/// A list of timers, first in first out.
#[derive(Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
    /// At most the earliest deadline under which a timer in this list was filed.
    bound: Instant,
}

impl List {
    const EMPTY: Self = Self { head: NIL, tail: NIL, bound: Instant::FAR_FUTURE };
}

/// A wheel for timers numbered from 0.
pub struct Wheel {
    nodes: Vec<Node>,
    lists: Vec<List>,
    /// For each level, which buckets have timers.
    used: [u64; LEVELS],
    /// The list whose timers are being handed out or filed anew. Nothing is added to it.
    opened: usize,
    /// The wheel's own time, in ticks.
    elapsed: u64,
    armed: u32,
    /// At most the earliest deadline.
    next: Instant,
}

impl Wheel {
    /// A wheel for timers `0..timers`. Allocates 24 bytes for each, and never again.
    pub fn new(timers: u32) -> Self {
        let node = Node { deadline: Instant::ZERO, next: NIL, prev: NIL, bucket: UNARMED };
        Self {
            nodes: alloc::vec![node; timers as usize],
            lists: alloc::vec![List::EMPTY; ASIDE + 1],
            used: [0; LEVELS],
            opened: NONE,
            elapsed: 0,
            armed: 0,
            next: Instant::FAR_FUTURE,
        }
    }

    /// Timers that are armed.
    pub fn armed(&self) -> u32 {
        self.armed
    }

    /// When `timer` will fire; `None` if it is not armed (or there is no such timer).
    pub fn deadline(&self, timer: u32) -> Option<Instant> {
        self.nodes.get(timer as usize).filter(|node| node.bucket != UNARMED).map(|n| n.deadline)
    }

    /// Let `timer` fire at `deadline` instead of whenever it would have. A later deadline than
    /// before costs one store: the timer stays where it is filed and is filed anew when its bucket
    /// is opened. A number out of range does nothing.
    pub fn arm(&mut self, timer: u32, deadline: Instant) {
        let Some(node) = self.nodes.get_mut(timer as usize) else {
            debug_assert!(false, "timer {timer} does not exist");
            return;
        };
        let armed = node.bucket != UNARMED;
        let earlier = deadline < node.deadline;
        node.deadline = deadline;
        if armed && (!earlier || usize::from(node.bucket) == self.opened) {
            return;
        }
        if armed {
            self.unlink(timer);
        } else {
            self.armed += 1;
        }
        self.file(timer);
        self.next = self.next.min(deadline);
    }

    /// Do not let `timer` fire, not even if its deadline has passed already.
    pub fn cancel(&mut self, timer: u32) {
        if self.deadline(timer).is_some() {
            self.unlink(timer);
            self.armed -= 1;
        }
    }

    /// Nothing is due before this instant; `None`: no timer is armed. May be early by what was
    /// cancelled or put off, and comes no nearer than one such entry at a time.
    pub fn next_deadline(&self) -> Option<Instant> {
        (self.armed > 0).then_some(self.next)
    }

    /// The next timer whose deadline is not after `now`, which is thereby disarmed; earlier ticks
    /// come first. `None`: nothing is due, or `work` is used up; [`Wheel::is_due`] tells which. Each
    /// timer that is looked at costs one unit of `work`; one timer is looked at ten times at most
    /// however long the wheel has stood still, unless it is armed again.
    pub fn poll_expired(&mut self, now: Instant, work: &mut u32) -> Option<u32> {
        loop {
            while self.opened != NONE {
                *work = work.checked_sub(1)?;
                let timer = self.lists[self.opened].head;
                self.unlink(timer);
                let deadline = self.nodes[timer as usize].deadline;
                // What is due in a later tick goes down first, so that it comes in its turn.
                if deadline <= now && tick(deadline) <= self.elapsed {
                    self.armed -= 1;
                    return Some(timer);
                }
                self.file(timer);
            }
            if now < self.next {
                return None;
            }
            if !self.open_next(now) {
                // Nothing is filed up to `now`.
                self.elapsed = self.elapsed.max(tick(now));
                return None;
            }
        }
    }

    /// [`Wheel::poll_expired`] has something to do at `now`.
    pub fn is_due(&self, now: Instant) -> bool {
        self.armed > 0 && self.next <= now
    }

    /// Open the earliest bucket if its bound is not after `now`. Otherwise set `next`.
    fn open_next(&mut self, now: Instant) -> bool {
        debug_assert_eq!(self.opened, NONE);
        let mut bound = self.lists[ASIDE].bound;
        let mut earliest = (self.lists[ASIDE].head != NIL).then_some(ASIDE);
        for level in (0..LEVELS).filter(|&level| self.used[level] != 0) {
            let index = level * LEVEL_BUCKETS + self.used[level].trailing_zeros() as usize;
            let list = &self.lists[index];
            // Of equal bounds the higher level is opened first: it may hold what belongs into the
            // same tick and was filed earlier.
            if list.bound <= bound {
                bound = list.bound;
                earliest = Some(index);
            }
        }
        self.next = bound;
        let Some(index) = earliest.filter(|_| bound <= now) else { return false };
        self.elapsed = self.elapsed.max(tick(bound));
        self.opened = index;
        true
    }

    fn file(&mut self, timer: u32) {
        let deadline = self.nodes[timer as usize].deadline;
        let at = tick(deadline).max(self.elapsed);
        let level = ((at ^ self.elapsed) | 1).ilog2() / LEVEL_BITS;
        let digit = (at >> (level * LEVEL_BITS)) as usize % LEVEL_BUCKETS;
        let mut index = level as usize * LEVEL_BUCKETS + digit;
        if index == self.opened {
            debug_assert_eq!(level, 0);
            index = ASIDE;
        } else {
            self.used[level as usize] |= 1 << digit;
        }
        let list = &mut self.lists[index];
        let tail = list.tail;
        list.bound = list.bound.min(deadline);
        list.tail = timer;
        if tail == NIL {
            list.head = timer;
        } else {
            self.nodes[tail as usize].next = timer;
        }
        let node = &mut self.nodes[timer as usize];
        node.prev = tail;
        node.next = NIL;
        node.bucket = index as u16;
    }

    fn unlink(&mut self, timer: u32) {
        let node = &mut self.nodes[timer as usize];
        let (prev, next, bucket) = (node.prev, node.next, node.bucket);
        node.bucket = UNARMED;
        if prev != NIL {
            self.nodes[prev as usize].next = next;
        }
        if next != NIL {
            self.nodes[next as usize].prev = prev;
        }
        let index = usize::from(bucket);
        let list = &mut self.lists[index];
        if prev == NIL {
            list.head = next;
        }
        if next == NIL {
            list.tail = prev;
        }
        if list.head == NIL {
            list.bound = Instant::FAR_FUTURE;
            if index != ASIDE {
                self.used[index / LEVEL_BUCKETS] &= !(1 << (index % LEVEL_BUCKETS));
            }
            if index == self.opened {
                self.opened = NONE;
            }
        }
    }
}

fn tick(at: Instant) -> u64 {
    at.as_nanos() >> TICK_BITS
}

#[cfg(test)]
mod tests;
