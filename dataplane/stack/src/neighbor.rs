//! Who on the link has which address: one table for ARP and for IPv6 neighbour discovery.
//!
//! The states are those of RFC 4861 section 7.3.2, for both families. Everything is a value: what
//! has to be sent or discarded comes out of [`Neighbors::poll_action`].
//!
//! Two rules beyond the RFC protect live connections. A claim of another hardware address for a
//! neighbour in use changes nothing at first; the old address is asked, and only if it stays silent
//! the new one is tried. And entries being resolved, which a scan of the prefix makes grow, have a
//! quarter of the table for themselves (RFC 6583) and never displace one that is resolved.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use base::{ConnId, Instant};
use wire::ethernet::Mac;

use crate::arena::{Arena, Queue};
use crate::bounded::BoundedMap;
use crate::conns::Conns;
use crate::wheel::Wheel;

/// RFC 4861 section 10, RETRANS_TIMER.
pub const RETRANSMIT_INTERVAL: Duration = Duration::from_secs(1);
/// RFC 4861 section 10, MAX_MULTICAST_SOLICIT and MAX_UNICAST_SOLICIT.
pub const SOLICITATIONS_MAX: u8 = 3;
/// RFC 4861 section 10, DELAY_FIRST_PROBE_TIME.
pub const DELAY_FIRST_PROBE: Duration = Duration::from_secs(5);
/// A stale entry that was not used for so long is forgotten.
pub const UNUSED_MAX: Duration = Duration::from_secs(600);
/// Frames that wait for one neighbour; the oldest gives way. As many as connections are opened at once
/// by an application that has just started: each SYN that gives way costs its connection a second.
pub const PARKED_PER_NEIGHBOR: u32 = 64;
/// Frames that wait in all.
pub const PARKED_MAX: u32 = 512;
/// Entries that are looked at for one to displace.
const EVICTION_LOOK: u32 = 32;
/// Entries that one call of [`Neighbors::age`] looks at.
const AGE_LOOK: u32 = 256;
/// Timers that one call of [`Neighbors::poll_action`] looks at.
const TIMER_LOOK: u32 = 64;

/// RFC 4861 section 7.3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NeighborState {
    /// Being resolved.
    Incomplete,
    /// Known to be there a short while ago.
    Reachable,
    /// Known, but not confirmed of late.
    Stale,
    /// Used while stale: gives the transport time to confirm it.
    Delay,
    /// Being asked by unicast; still used.
    Probe,
    /// Not resolved in time; goes as soon as its frames are handed back.
    Failed,
}

/// Answer to [`Neighbors::resolve`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// Send there.
    Mac(Mac),
    /// Being resolved: [`Neighbors::park`] the frame.
    Wait,
    /// No room for another entry being resolved.
    Full,
}

/// What somebody says about his addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// He asks for us (ARP request for our address, neighbour solicitation with his link address).
    Request,
    /// Neighbour advertisement or ARP reply. An ARP reply that was sent to us alone counts as
    /// solicited and overriding; a gratuitous one as overriding only.
    Answer {
        /// In answer to a solicitation.
        solicited: bool,
        /// May replace a known address.
        overriding: bool,
    },
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// Somebody claims an address of ours. Nothing changes.
    Conflict,
    /// Nothing for us.
    Ignored,
    /// A new entry.
    Created,
    /// An entry got its (or another) hardware address.
    Updated,
    /// The known hardware address was confirmed.
    Confirmed,
    /// Another hardware address was claimed for a neighbour in use: the known one is kept and asked.
    Suspect,
}

/// What has to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum Action<F> {
    /// Send an ARP request or a neighbour solicitation for `target`.
    Solicit {
        /// The address in question.
        target: IpAddr,
        /// To this hardware address; `None`: to all (broadcast, solicited-node multicast).
        to: Option<Mac>,
    },
    /// Send a parked frame.
    Send {
        /// The neighbour.
        next_hop: IpAddr,
        /// Its hardware address.
        mac: Mac,
        /// The frame.
        frame: F,
    },
    /// Discard a parked frame: `neigh_failed`.
    Discard {
        /// The neighbour.
        next_hop: IpAddr,
        /// The frame.
        frame: F,
    },
    /// The neighbour does not answer; its frames have been handed back.
    Unreachable {
        /// The neighbour.
        addr: IpAddr,
    },
}

struct Neighbor {
    addr: IpAddr,
    state: NeighborState,
    /// Zero while not known.
    mac: Mac,
    /// Claimed while `mac` is in use; tried when `mac` does not answer.
    candidate: Option<Mac>,
    /// Solicitations sent in this state.
    solicited: u8,
    /// End of `Reachable`.
    reachable_until: Instant,
    /// When `mac` was last asked for the sake of a candidate.
    suspected: Option<Instant>,
    used: Instant,
    parked: Queue,
    /// In the list of ready entries.
    ready: bool,
}

impl Neighbor {
    /// The state, with an expired `Reachable` seen as what it is.
    fn state_at(&self, now: Instant) -> NeighborState {
        match self.state {
            NeighborState::Reachable if now >= self.reachable_until => NeighborState::Stale,
            state => state,
        }
    }
}

/// The table of one worker. `F` is a frame that waits.
pub struct Neighbors<F> {
    entries: Conns<Neighbor>,
    index: BoundedMap<IpAddr, ConnId>,
    timers: Wheel,
    frames: Arena<F>,
    parked: u32,
    /// Entries whose frames can be sent or must be handed back.
    ready: VecDeque<ConnId>,
    incomplete: u32,
    incomplete_max: u32,
    own: Vec<IpAddr>,
    gateways: Vec<IpAddr>,
    reachable: Duration,
    /// The neighbour looked up last: most frames go to one, the gateway.
    last: Option<ConnId>,
    /// Where the search for an entry to displace, or to age, goes on.
    hand: u32,
}

impl<F> Neighbors<F> {
    /// An empty table of `limit` entries beside the gateways. `reachable` is how long a confirmation
    /// counts; RFC 4861 section 6.3.2 wants it drawn from 0.5 to 1.5 times the configured value,
    /// which is the caller's business.
    pub fn new(limit: u32, own: &[IpAddr], gateways: &[IpAddr], reachable: Duration) -> Self {
        // Gateways have places of their own, so that nothing has to give way to them.
        let capacity = limit.saturating_add(gateways.len() as u32);
        let incomplete_max = (limit / 4).max(1);
        let waiting = incomplete_max.saturating_add(gateways.len() as u32);
        Self {
            entries: Conns::new(capacity),
            index: BoundedMap::new(capacity as usize),
            timers: Wheel::new(capacity),
            frames: Arena::new(capacity.min(waiting.saturating_mul(2))),
            parked: 0,
            ready: VecDeque::with_capacity(capacity as usize),
            incomplete: 0,
            incomplete_max,
            own: own.to_vec(),
            gateways: gateways.to_vec(),
            reachable,
            last: None,
            hand: 0,
        }
    }

    /// How long a confirmation counts from now on.
    pub fn set_reachable(&mut self, reachable: Duration) {
        self.reachable = reachable;
    }

    /// Entries.
    pub fn len(&self) -> u32 {
        self.entries.len()
    }

    /// No entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Frames that wait.
    pub fn parked(&self) -> u32 {
        self.parked
    }

    /// All entries in the order of their addresses.
    pub fn iter(&self, now: Instant) -> impl Iterator<Item = (IpAddr, Mac, NeighborState)> {
        self.index.iter().filter_map(move |(addr, id)| {
            self.entries.get(*id).map(|n| (*addr, n.mac, n.state_at(now)))
        })
    }

    /// Where to send a frame for the neighbour `addr`. Begins to resolve it if it is not known.
    pub fn resolve(&mut self, now: Instant, addr: IpAddr) -> Resolved {
        let Some(id) = self.find(addr) else { return self.begin(now, addr) };
        let Some(n) = self.entries.get_mut(id) else { return Resolved::Full };
        n.used = now;
        match n.state_at(now) {
            NeighborState::Incomplete => Resolved::Wait,
            NeighborState::Failed => Resolved::Full,
            NeighborState::Stale => {
                // RFC 4861 section 7.3.3: the first packet to a stale neighbour starts the delay.
                n.state = NeighborState::Delay;
                let mac = n.mac;
                self.timers.arm(id.slot, now + DELAY_FIRST_PROBE);
                Resolved::Mac(mac)
            }
            NeighborState::Reachable | NeighborState::Delay | NeighborState::Probe => {
                Resolved::Mac(n.mac)
            }
        }
    }

    /// Let `frame` wait for a neighbour that is being resolved. `Ok(Some(_))`: the oldest had to
    /// make room, `neigh_failed`. `Err`: too many frames wait, or `addr` is not being resolved.
    pub fn park(&mut self, addr: IpAddr, frame: F) -> Result<Option<F>, F> {
        let Some(n) = self.index.get(&addr).and_then(|id| self.entries.get_mut(*id)) else {
            return Err(frame);
        };
        if n.state != NeighborState::Incomplete {
            return Err(frame);
        }
        let mut oldest = None;
        if n.parked.len() >= PARKED_PER_NEIGHBOR {
            oldest = self.frames.pop_front(&mut n.parked);
            self.parked -= u32::from(oldest.is_some());
        } else if self.parked >= PARKED_MAX {
            return Err(frame);
        }
        self.frames.push_back(&mut n.parked, frame)?;
        self.parked += 1;
        Ok(oldest)
    }

    /// The transport has made progress by way of `addr`: RFC 4861 section 7.3.1.
    pub fn confirm(&mut self, now: Instant, addr: IpAddr) {
        let Some(id) = self.find(addr) else { return };
        let Some(n) = self.entries.get_mut(id) else { return };
        // While two hardware addresses compete, segments that were under way prove nothing.
        let known = !matches!(n.state, NeighborState::Incomplete | NeighborState::Failed);
        if known && n.candidate.is_none() {
            n.state = NeighborState::Reachable;
            n.reachable_until = now + self.reachable;
            self.timers.cancel(id.slot);
        }
    }

    /// The transport gets no answers by way of `addr` (R1 of RFC 9293 section 3.8.3): it is not held to
    /// be reachable any more, and asked soon if it is used.
    pub fn doubt(&mut self, now: Instant, addr: IpAddr) {
        let Some(id) = self.find(addr) else { return };
        let Some(n) = self.entries.get_mut(id) else { return };
        if n.state_at(now) == NeighborState::Reachable {
            n.state = NeighborState::Stale;
        }
    }

    /// Somebody says that `addr` is at `mac`.
    pub fn learn(&mut self, now: Instant, addr: IpAddr, mac: Mac, claim: Claim) -> Learned {
        if self.own.contains(&addr) {
            return Learned::Conflict;
        }
        if !mac.is_station() || addr.is_unspecified() || addr.is_multicast() {
            return Learned::Ignored;
        }
        let Some(&id) = self.index.get(&addr) else {
            // RFC 4861 section 7.2.5: an advertisement creates no entry; section 7.2.3: a
            // solicitation does.
            if claim == Claim::Request
                && self.create(now, addr, NeighborState::Stale, mac).is_some()
            {
                return Learned::Created;
            }
            return Learned::Ignored;
        };
        let Some(n) = self.entries.get_mut(id) else { return Learned::Ignored };
        let solicited = matches!(claim, Claim::Answer { solicited: true, .. });
        let replaces =
            claim == Claim::Request || matches!(claim, Claim::Answer { overriding: true, .. });
        match n.state_at(now) {
            NeighborState::Failed => Learned::Ignored,
            NeighborState::Incomplete => {
                n.mac = mac;
                self.incomplete -= 1;
                self.settle(now, id, solicited);
                Learned::Updated
            }
            _ if n.mac == mac => {
                if !solicited {
                    return Learned::Ignored;
                }
                self.settle(now, id, true);
                Learned::Confirmed
            }
            NeighborState::Stale if replaces => {
                n.mac = mac;
                n.candidate = None;
                n.state = NeighborState::Stale;
                Learned::Updated
            }
            NeighborState::Stale => Learned::Ignored,
            NeighborState::Reachable | NeighborState::Delay | NeighborState::Probe => {
                let recently = n.suspected.is_some_and(|at| now < at + RETRANSMIT_INTERVAL);
                if n.candidate.is_none() && replaces && !recently {
                    n.candidate = Some(mac);
                    n.suspected = Some(now);
                    n.state = NeighborState::Probe;
                    n.solicited = 0;
                    self.timers.arm(id.slot, now);
                }
                Learned::Suspect
            }
        }
    }

    /// Forget what has not been used for long. To be called about once a second.
    pub fn age(&mut self, now: Instant) {
        for _ in 0..AGE_LOOK.min(self.entries.slots()) {
            let Some(id) = self.advance_hand() else { continue };
            let unused = self.entries.get(id).is_some_and(|n| {
                n.state_at(now) == NeighborState::Stale && now >= n.used + UNUSED_MAX
            });
            if unused {
                self.remove(id);
            }
        }
    }

    /// When [`Neighbors::poll_action`] has something to do next; may be early.
    pub fn next_deadline(&self) -> Option<Instant> {
        if self.ready.is_empty() { self.timers.next_deadline() } else { Some(Instant::ZERO) }
    }

    /// The next thing to do now. Call until `None`.
    pub fn poll_action(&mut self, now: Instant) -> Option<Action<F>> {
        if let Some(action) = self.poll_ready() {
            return Some(action);
        }
        let mut look = TIMER_LOOK;
        while let Some(slot) = self.timers.poll_expired(now, &mut look) {
            let Some(id) = self.entries.id_at(slot) else { continue };
            if let Some(action) = self.on_timer(now, id) {
                return Some(action);
            }
        }
        None
    }

    fn find(&mut self, addr: IpAddr) -> Option<ConnId> {
        let last = self.last.filter(|&id| self.entries.get(id).is_some_and(|n| n.addr == addr));
        if last.is_none() {
            self.last = self.index.get(&addr).copied();
            return self.last;
        }
        last
    }

    fn poll_ready(&mut self) -> Option<Action<F>> {
        while let Some(&id) = self.ready.front() {
            let Some(n) = self.entries.get_mut(id) else {
                self.ready.pop_front();
                continue;
            };
            let (next_hop, mac, failed) = (n.addr, n.mac, n.state == NeighborState::Failed);
            if let Some(frame) = self.frames.pop_front(&mut n.parked) {
                self.parked -= 1;
                return Some(if failed {
                    Action::Discard { next_hop, frame }
                } else {
                    Action::Send { next_hop, mac, frame }
                });
            }
            n.ready = false;
            self.ready.pop_front();
            if failed {
                self.remove(id);
                return Some(Action::Unreachable { addr: next_hop });
            }
        }
        None
    }

    fn on_timer(&mut self, now: Instant, id: ConnId) -> Option<Action<F>> {
        let n = self.entries.get_mut(id)?;
        let target = n.addr;
        match n.state {
            NeighborState::Incomplete if n.solicited < SOLICITATIONS_MAX => n.solicited += 1,
            NeighborState::Incomplete => {
                n.state = NeighborState::Failed;
                self.incomplete -= 1;
                if !core::mem::replace(&mut n.ready, true) {
                    self.ready.push_back(id);
                }
                return self.poll_ready();
            }
            NeighborState::Delay => {
                n.state = NeighborState::Probe;
                n.solicited = 1;
            }
            NeighborState::Probe if n.solicited < SOLICITATIONS_MAX => n.solicited += 1,
            NeighborState::Probe => {
                n.solicited = 1;
                match n.candidate.take() {
                    // The known address is silent: ask the claimed one.
                    Some(mac) => n.mac = mac,
                    // DEVIATION: RFC 4861 section 7.3.3 deletes the entry here. It would be made
                    // anew by the next packet; going on with multicast saves that packet's wait.
                    None => {
                        n.state = NeighborState::Incomplete;
                        n.mac = Mac::ZERO;
                        self.incomplete += 1;
                    }
                }
            }
            NeighborState::Reachable | NeighborState::Stale | NeighborState::Failed => return None,
        }
        let to = (n.state == NeighborState::Probe).then_some(n.mac);
        self.timers.arm(id.slot, now + RETRANSMIT_INTERVAL);
        Some(Action::Solicit { target, to })
    }

    /// `id` has a hardware address now; it is confirmed, or only claimed.
    fn settle(&mut self, now: Instant, id: ConnId, confirmed: bool) {
        self.timers.cancel(id.slot);
        let Some(n) = self.entries.get_mut(id) else { return };
        n.candidate = None;
        if confirmed {
            n.state = NeighborState::Reachable;
            n.reachable_until = now + self.reachable;
        } else {
            n.state = NeighborState::Stale;
        }
        if !n.parked.is_empty() {
            if !confirmed {
                n.state = NeighborState::Delay;
                self.timers.arm(id.slot, now + DELAY_FIRST_PROBE);
            }
            if !core::mem::replace(&mut n.ready, true) {
                self.ready.push_back(id);
            }
        }
    }

    fn begin(&mut self, now: Instant, addr: IpAddr) -> Resolved {
        let gateway = self.gateways.contains(&addr);
        if self.incomplete >= self.incomplete_max && !gateway {
            return Resolved::Full;
        }
        match self.create(now, addr, NeighborState::Incomplete, Mac::ZERO) {
            Some(id) => {
                self.incomplete += 1;
                self.timers.arm(id.slot, now);
                Resolved::Wait
            }
            None => Resolved::Full,
        }
    }

    fn create(
        &mut self,
        now: Instant,
        addr: IpAddr,
        state: NeighborState,
        mac: Mac,
    ) -> Option<ConnId> {
        if !self.gateways.contains(&addr) && !self.make_room(now) {
            return None;
        }
        let neighbor = Neighbor {
            addr,
            state,
            mac,
            candidate: None,
            solicited: 0,
            reachable_until: now,
            suspected: None,
            used: now,
            parked: Queue::EMPTY,
            ready: false,
        };
        let id = self.entries.insert(neighbor).ok()?;
        let inserted = self.index.insert(addr, id);
        debug_assert!(matches!(inserted, Ok(None)));
        Some(id)
    }

    /// Make room for an entry that is not a gateway's by displacing a stale one.
    fn make_room(&mut self, now: Instant) -> bool {
        let gateways = &self.gateways;
        let absent = gateways.iter().filter(|g| self.index.get(g).is_none()).count() as u32;
        if self.entries.len() + absent < self.entries.capacity() {
            return true;
        }
        let mut oldest: Option<(Instant, ConnId)> = None;
        for _ in 0..EVICTION_LOOK.min(self.entries.slots()) {
            let Some(id) = self.advance_hand() else { continue };
            let Some(n) = self.entries.get(id) else { continue };
            let stale = n.state_at(now) == NeighborState::Stale;
            if stale
                && n.parked.is_empty()
                && !self.gateways.contains(&n.addr)
                && oldest.is_none_or(|(used, _)| n.used < used)
            {
                oldest = Some((n.used, id));
            }
        }
        let Some((_, id)) = oldest else { return false };
        self.remove(id);
        true
    }

    fn advance_hand(&mut self) -> Option<ConnId> {
        self.hand = (self.hand + 1) % self.entries.slots().max(1);
        self.entries.id_at(self.hand)
    }

    fn remove(&mut self, id: ConnId) {
        let Some(n) = self.entries.remove(id) else { return };
        debug_assert!(n.parked.is_empty());
        self.index.remove(&n.addr);
        self.timers.cancel(id.slot);
    }
}

#[cfg(test)]
mod tests;
