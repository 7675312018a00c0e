//! Listening endpoints of a worker.

use alloc::vec::Vec;
use core::net::IpAddr;

use base::ListenerId;
use tcp::{ConnOptions, Listener};

use crate::ListenError;

/// A listener and where it listens.
pub(crate) struct Listening {
    /// One address of ours, all of one family (the unspecified one), or all (`None`).
    pub(crate) addr: Option<IpAddr>,
    pub(crate) port: u16,
    pub(crate) listener: Listener,
}

/// Whether a segment could be for both.
fn overlap(a: Option<IpAddr>, b: Option<IpAddr>) -> bool {
    let (Some(a), Some(b)) = (a, b) else { return true };
    let one_is_any = a.is_unspecified() || b.is_unspecified();
    a == b || (one_is_any && a.is_ipv4() == b.is_ipv4())
}

/// The table, with an index sorted by port.
pub(crate) struct Listeners {
    slots: Vec<Option<Listening>>,
    by_port: Vec<(u16, ListenerId)>,
    limit: usize,
    /// Where the search for a free slot goes on, so that ids are taken again as late as possible.
    hand: usize,
}

impl Listeners {
    pub(crate) fn new(limit: u16) -> Self {
        Self { slots: Vec::new(), by_port: Vec::new(), limit: limit.into(), hand: 0 }
    }

    /// Begin to listen. `addr` is known to be ours.
    pub(crate) fn open(
        &mut self,
        addr: Option<IpAddr>,
        port: u16,
        backlog: u32,
        options: &ConnOptions,
    ) -> Result<ListenerId, ListenError> {
        let overlaps = |l: &Listening| overlap(l.addr, addr);
        if self.on_port(port).filter_map(|id| self.get(id)).any(overlaps) {
            return Err(ListenError::InUse);
        }
        if port == 0 || self.by_port.len() >= self.limit {
            return Err(ListenError::Invalid);
        }
        let index = self.free_slot();
        let id = ListenerId(index as u16);
        let listening = Listening { addr, port, listener: Listener::new(backlog, *options) };
        if let Some(slot) = self.slots.get_mut(index) {
            *slot = Some(listening);
        } else {
            self.slots.push(Some(listening));
        }
        let place = self.by_port.partition_point(|entry| *entry < (port, id));
        self.by_port.insert(place, (port, id));
        Ok(id)
    }

    fn free_slot(&mut self) -> usize {
        let count = self.slots.len();
        if count < self.limit {
            return count;
        }
        let free = (0..count).map(|i| (self.hand + i) % count).find(|&i| self.slots[i].is_none());
        let index = free.unwrap_or(count);
        self.hand = index + 1;
        index
    }

    pub(crate) fn close(&mut self, id: ListenerId) -> bool {
        self.by_port.retain(|(_, listed)| *listed != id);
        self.slots.get_mut(usize::from(id.0)).and_then(Option::take).is_some()
    }

    /// The listener for segments to `addr` and `port`; one for exactly this address comes first.
    pub(crate) fn find(&self, addr: IpAddr, port: u16) -> Option<ListenerId> {
        let mut any = None;
        for id in self.on_port(port) {
            match self.get(id)?.addr {
                Some(own) if own == addr => return Some(id),
                Some(own) if own.is_unspecified() && own.is_ipv4() == addr.is_ipv4() => {
                    any = Some(id);
                }
                None => any = Some(id),
                Some(_) => {}
            }
        }
        any
    }

    fn on_port(&self, port: u16) -> impl Iterator<Item = ListenerId> {
        let first = self.by_port.partition_point(|(p, _)| *p < port);
        let from = self.by_port.get(first..).unwrap_or(&[]);
        from.iter().take_while(move |(p, _)| *p == port).map(|(_, id)| *id)
    }

    pub(crate) fn get(&self, id: ListenerId) -> Option<&Listening> {
        self.slots.get(usize::from(id.0))?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: ListenerId) -> Option<&mut Listening> {
        self.slots.get_mut(usize::from(id.0))?.as_mut()
    }

    /// All, in the order of their ports.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Listening> {
        self.by_port.iter().filter_map(|(_, id)| self.get(*id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    fn ip(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    #[test]
    fn the_exact_address_comes_before_any_and_overlaps_are_refused() {
        let mut l = Listeners::new(3);
        let options = ConnOptions::default();
        let a = l.open(Some(ip(1)), 80, 1, &options).unwrap();
        let b = l.open(Some(ip(2)), 80, 1, &options).unwrap();
        let any = l.open(None, 81, 1, &options).unwrap();
        assert_eq!(l.open(None, 80, 1, &options), Err(ListenError::InUse));
        assert_eq!(l.open(Some(ip(1)), 81, 1, &options), Err(ListenError::InUse));
        assert_eq!(l.open(None, 82, 1, &options), Err(ListenError::Invalid), "too many");
        assert_eq!(l.open(None, 0, 1, &options), Err(ListenError::Invalid));
        assert_eq!(l.find(ip(1), 80), Some(a));
        assert_eq!(l.find(ip(2), 80), Some(b));
        assert_eq!(l.find(ip(3), 80), None);
        assert_eq!(l.find(ip(3), 81), Some(any));
        assert!(l.close(a) && !l.close(a));
        assert_eq!(l.find(ip(1), 80), None);
        assert_eq!(l.open(None, 82, 1, &options), Ok(a));
    }

    #[test]
    fn all_of_one_family_leaves_the_other_free() {
        let mut l = Listeners::new(8);
        let options = ConnOptions::default();
        let any4 = IpAddr::from(Ipv4Addr::UNSPECIFIED);
        let any6 = IpAddr::from(core::net::Ipv6Addr::UNSPECIFIED);
        let v4 = l.open(Some(any4), 80, 1, &options).unwrap();
        let v6 = l.open(Some(any6), 80, 1, &options).unwrap();
        for addr in [None, Some(any4), Some(any6), Some(ip(1))] {
            assert_eq!(l.open(addr, 80, 1, &options), Err(ListenError::InUse), "{addr:?}");
        }
        assert_eq!(l.find(ip(1), 80), Some(v4));
        assert_eq!(l.find("fd00::1".parse().unwrap(), 80), Some(v6));
        let both = l.open(None, 81, 1, &options).unwrap();
        assert_eq!(l.open(Some(any6), 81, 1, &options), Err(ListenError::InUse));
        assert_eq!(l.find(ip(1), 81), Some(both));
    }
}
