//! TIME-WAIT records of a worker, in the order in which they expire.

use alloc::collections::VecDeque;

use base::{ConnId, Instant};
use tcp::TimeWait;
use wire::FlowKey;

use crate::conns::Conns;
use crate::env::ParamsIndex;

/// A record, and what is needed to answer for it.
pub(crate) struct Waiting {
    pub(crate) record: TimeWait,
    pub(crate) key: FlowKey,
    pub(crate) params: ParamsIndex,
}

/// All records. Expiry is looked at from the front of a plain queue: all of them wait equally long,
/// and the few whose time begins again go to the back once they come to the front.
pub(crate) struct TimeWaits {
    records: Conns<Waiting>,
    queue: VecDeque<ConnId>,
}

/// Records looked at for expiry in one turn.
const EXPIRED_PER_TURN: u32 = 64;

impl TimeWaits {
    pub(crate) fn new(limit: u32) -> Self {
        Self { records: Conns::new(limit), queue: VecDeque::new() }
    }

    pub(crate) fn len(&self) -> u32 {
        self.records.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.records.is_full()
    }

    /// Keep a record; given back when there are too many.
    pub(crate) fn insert(&mut self, waiting: Waiting) -> Result<ConnId, Waiting> {
        let id = self.records.insert(waiting)?;
        // Records that ended early leave their ids behind; sweep before they outnumber the others.
        if self.queue.len() >= 2 * self.records.len() as usize + 64 {
            let records = &self.records;
            self.queue.retain(|id| records.contains(*id));
        }
        self.queue.push_back(id);
        Ok(id)
    }

    /// All, in the order of their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.records.iter().map(|(_, waiting)| waiting)
    }

    pub(crate) fn at(&self, slot: u32) -> Option<&Waiting> {
        self.records.at(slot)
    }

    pub(crate) fn at_mut(&mut self, slot: u32) -> Option<&mut Waiting> {
        self.records.at_mut(slot)
    }

    pub(crate) fn remove_at(&mut self, slot: u32) -> Option<Waiting> {
        self.records.remove(self.records.id_at(slot)?)
    }

    /// Take out records whose time is over and hand each with its slot to `expired`; a bounded
    /// number of them.
    pub(crate) fn expire(&mut self, now: Instant, mut expired: impl FnMut(u32, Waiting)) -> u32 {
        let mut work = 0;
        while work < EXPIRED_PER_TURN
            && let Some(&id) = self.queue.front()
        {
            let due = self.records.get(id).map(|w| w.record.expires());
            if due.is_some_and(|at| at > now) && self.front_is_in_order() {
                break;
            }
            work += 1;
            self.queue.pop_front();
            match due {
                None => {}
                Some(at) if at > now => self.queue.push_back(id),
                Some(_) => {
                    if let Some(waiting) = self.records.remove(id) {
                        expired(id.slot, waiting);
                    }
                }
            }
        }
        work
    }

    /// Whether the record at the front expires before the next one. If its time began again, the
    /// ones behind it come first.
    fn front_is_in_order(&self) -> bool {
        let at = |i: usize| {
            let id = self.queue.get(i)?;
            Some(self.records.get(*id).map_or(Instant::ZERO, |w| w.record.expires()))
        };
        at(1).is_none_or(|second| at(0).is_none_or(|first| first <= second))
    }

    /// When to call [`TimeWaits::expire`] next.
    pub(crate) fn next(&self) -> Option<Instant> {
        let id = self.queue.front()?;
        // The place of a record that ended early is cleared with the next one that expires.
        self.records.get(*id).map(|w| w.record.expires()).or_else(|| {
            self.queue.iter().find_map(|id| self.records.get(*id)).map(|w| w.record.expires())
        })
    }
}
