//! Intrusive lists of connections: a place in a list costs no memory but two links in the connection
//! itself.

use base::ConnId;

use crate::conn::Conn;
use crate::conns::Conns;

const NIL: u32 = u32::MAX;

/// A connection's place in one list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    prev: u32,
    next: u32,
    linked: bool,
}

impl Link {
    /// Whether the connection is in the list.
    pub(crate) const fn is_linked(self) -> bool {
        self.linked
    }
}

impl Default for Link {
    fn default() -> Self {
        Self { prev: NIL, next: NIL, linked: false }
    }
}

/// A list of connections by their slots, first in first out.
pub(crate) struct ConnList {
    head: u32,
    tail: u32,
    len: u32,
    /// Which link of a connection belongs to this list.
    link: fn(&mut Conn) -> &mut Link,
}

impl ConnList {
    pub(crate) const fn new(link: fn(&mut Conn) -> &mut Link) -> Self {
        Self { head: NIL, tail: NIL, len: 0, link }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.head == NIL
    }

    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    /// Append the connection in `slot`, unless it is in the list already.
    pub(crate) fn push_back(&mut self, conns: &mut Conns<Conn>, slot: u32) {
        let (tail, link) = (self.tail, self.link);
        let Some(conn) = conns.at_mut(slot) else { return };
        let own = link(conn);
        if own.linked {
            return;
        }
        *own = Link { prev: tail, next: NIL, linked: true };
        match conns.at_mut(tail) {
            Some(last) => link(last).next = slot,
            None => self.head = slot,
        }
        self.tail = slot;
        self.len += 1;
    }

    /// Take the first connection off the list.
    pub(crate) fn pop_front(&mut self, conns: &mut Conns<Conn>) -> Option<ConnId> {
        let slot = self.head;
        let id = conns.id_at(slot)?;
        self.remove(conns, slot);
        Some(id)
    }

    /// Take the connection in `slot` off the list, if it is in it.
    pub(crate) fn remove(&mut self, conns: &mut Conns<Conn>, slot: u32) {
        let link = self.link;
        let Some(conn) = conns.at_mut(slot) else { return };
        let own = core::mem::take(link(conn));
        if !own.linked {
            return;
        }
        match conns.at_mut(own.prev) {
            Some(prev) => link(prev).next = own.next,
            None => self.head = own.next,
        }
        match conns.at_mut(own.next) {
            Some(next) => link(next).prev = own.prev,
            None => self.tail = own.prev,
        }
        self.len -= 1;
    }
}
