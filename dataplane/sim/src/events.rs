//! The heap of events, ordered by time and then by the order in which they were put in.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use base::Instant;

use crate::world::{HostId, LinkId, Way, World};

/// Something that will happen.
pub(crate) enum Event {
    /// A frame comes out of a link.
    Arrive { link: LinkId, way: Way, epoch: u32, bytes: Vec<u8> },
    /// A host's deadline.
    Wake { host: HostId },
    /// A line of the time line.
    Action(Box<dyn FnOnce(&mut World)>),
}

struct Entry {
    at: Instant,
    number: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// The heap.
#[derive(Default)]
pub(crate) struct Events {
    heap: BinaryHeap<Reverse<Entry>>,
    pushed: u64,
    /// Frames on their way.
    in_flight: usize,
}

impl Events {
    pub(crate) fn push(&mut self, at: Instant, event: Event) {
        self.in_flight += usize::from(matches!(event, Event::Arrive { .. }));
        self.heap.push(Reverse(Entry { at, number: self.pushed, event }));
        self.pushed += 1;
    }

    /// When the next one is due.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// The next one, if it is due at `now`.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Event> {
        if self.next_at()? > now {
            return None;
        }
        let Reverse(entry) = self.heap.pop()?;
        self.in_flight -= usize::from(matches!(entry.event, Event::Arrive { .. }));
        Some(entry.event)
    }

    /// Frames on their way.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_instant_keep_their_order() {
        let mut events = Events::default();
        for (at, host) in [(5, 0), (3, 1), (5, 2), (3, 3), (4, 4)] {
            events.push(Instant::from_nanos(at), Event::Wake { host: HostId(host) });
        }
        let mut order = Vec::new();
        assert!(events.pop_due(Instant::from_nanos(2)).is_none());
        while let Some(Event::Wake { host }) = events.pop_due(Instant::from_nanos(9)) {
            order.push(host.0);
        }
        assert_eq!(order, [1, 3, 4, 0, 2]);
    }
}
