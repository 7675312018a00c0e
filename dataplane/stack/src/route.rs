//! Where packets go: on-link prefixes, one gateway per family, our source address, and what is known
//! of the path's MTU.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;

use base::Instant;

use crate::LocalAddress;
use crate::bounded::BoundedMap;

/// `min_pmtu`: smallest IPv4 path MTU that an ICMP message can make us believe.
pub const PMTU_MIN_V4: u16 = 552;
/// RFC 8200 section 5: every IPv6 path carries it.
pub const PMTU_MIN_V6: u16 = 1280;
/// `mtu_expires`: how long a learned path MTU counts.
pub const PMTU_EXPIRES: Duration = Duration::from_secs(600);
/// Destinations whose path MTU is remembered.
pub const PMTU_ENTRIES_MAX: usize = 1024;
/// RFC 1191 section 7: what to try when a router does not say how much passes.
const PLATEAUS: [u16; 10] = [32_000, 17_914, 8166, 4352, 2002, 1492, 1006, 508, 296, 68];

/// Kind of an address, seen from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressClass {
    /// One of ours.
    Local,
    /// One host, not us.
    Unicast,
    /// Limited, or directed to one of our prefixes.
    Broadcast,
    /// A group.
    Multicast,
    /// 127.0.0.0/8 or ::1.
    Loopback,
    /// All zero; for IPv4 all of 0.0.0.0/8.
    Unspecified,
}

/// How to reach a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The neighbour to send to: the destination itself, or the gateway.
    pub next_hop: IpAddr,
    /// Our address to use.
    pub source: IpAddr,
    /// Largest IP packet for this destination.
    pub mtu: u16,
}

/// No address of ours in that family, no gateway, or nothing that a host can be sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoute;

struct PathMtu {
    mtu: u16,
    expires: Instant,
}

/// Routes of one worker.
pub struct Routes {
    local: Vec<LocalAddress>,
    gateway4: Option<Ipv4Addr>,
    gateway6: Option<Ipv6Addr>,
    mtu: u16,
    paths: BoundedMap<IpAddr, PathMtu>,
}

impl Routes {
    /// Routes from our addresses and gateways; `mtu` is that of the link.
    pub fn new(
        local: &[LocalAddress],
        gateway4: Option<Ipv4Addr>,
        gateway6: Option<Ipv6Addr>,
        mtu: u16,
    ) -> Self {
        let paths = BoundedMap::new(PMTU_ENTRIES_MAX);
        Self { local: local.to_vec(), gateway4, gateway6, mtu, paths }
    }

    /// Our addresses.
    pub fn local(&self) -> &[LocalAddress] {
        &self.local
    }

    /// The gateways there are.
    pub fn gateways(&self) -> impl Iterator<Item = IpAddr> {
        self.gateway4.map(IpAddr::V4).into_iter().chain(self.gateway6.map(IpAddr::V6))
    }

    /// `addr` is one of ours.
    pub fn is_local(&self, addr: IpAddr) -> bool {
        self.local.iter().any(|l| l.addr == addr)
    }

    /// What kind of address `addr` is.
    pub fn classify(&self, addr: IpAddr) -> AddressClass {
        if self.is_local(addr) {
            return AddressClass::Local;
        }
        match addr {
            IpAddr::V4(v4) if v4.is_multicast() => AddressClass::Multicast,
            IpAddr::V4(v4) if v4.is_broadcast() => AddressClass::Broadcast,
            IpAddr::V4(v4) if v4.octets()[0] == 0 => AddressClass::Unspecified,
            _ if addr.is_multicast() => AddressClass::Multicast,
            _ if addr.is_loopback() => AddressClass::Loopback,
            _ if addr.is_unspecified() => AddressClass::Unspecified,
            _ if self.local.iter().any(|l| is_directed_broadcast(l, addr)) => {
                AddressClass::Broadcast
            }
            _ => AddressClass::Unicast,
        }
    }

    /// `addr` can be reached without a gateway.
    pub fn is_on_link(&self, addr: IpAddr) -> bool {
        is_link_local(addr) || self.local.iter().any(|l| prefix_contains(l, addr))
    }

    /// How to reach `destination`, one host that is not us. An MTU whose time is up counts no more.
    pub fn lookup(&self, now: Instant, destination: IpAddr) -> Result<Route, NoRoute> {
        if self.classify(destination) != AddressClass::Unicast {
            return Err(NoRoute);
        }
        let source = self.source_for(destination).ok_or(NoRoute)?;
        let next_hop = if self.is_on_link(destination) {
            destination
        } else {
            match destination {
                IpAddr::V4(_) => self.gateway4.map(IpAddr::V4),
                IpAddr::V6(_) => self.gateway6.map(IpAddr::V6),
            }
            .ok_or(NoRoute)?
        };
        Ok(Route { next_hop, source, mtu: self.path_mtu(now, destination) })
    }

    /// The neighbour by way of which `destination` is reached.
    pub fn next_hop(&self, destination: IpAddr) -> Result<IpAddr, NoRoute> {
        self.lookup(Instant::ZERO, destination).map(|route| route.next_hop)
    }

    /// Our address to use towards `destination`: one of the same scope, of these the one that has
    /// most leading bits in common with it, of these the first. (RFC 6724 section 5, rules 2 and 8;
    /// an address in the destination's prefix wins by that.)
    pub fn source_for(&self, destination: IpAddr) -> Option<IpAddr> {
        let score = |l: &LocalAddress| {
            let scope = is_link_local(l.addr) == is_link_local(destination);
            (scope, prefix_contains(l, destination), common_bits(l.addr, destination))
        };
        let mut best: Option<&LocalAddress> = None;
        for l in self.local.iter().filter(|l| l.addr.is_ipv4() == destination.is_ipv4()) {
            if best.is_none_or(|b| score(l) > score(b)) {
                best = Some(l);
            }
        }
        best.map(|l| l.addr)
    }

    /// Largest IP packet on the way to `destination` as far as is known.
    pub fn path_mtu(&self, now: Instant, destination: IpAddr) -> u16 {
        match self.paths.get(&destination) {
            Some(path) if now < path.expires => path.mtu.min(self.mtu),
            _ => self.mtu,
        }
    }

    /// A router says that at most `mtu` bytes pass on the way to `destination`; zero: it does not
    /// say. `sent` is the length of the packet that did not pass, from the quoted header. The caller
    /// has checked that the message is about a segment in flight, RFC 5927 section 4.1.
    ///
    /// Returns the new path MTU, `None` if the message changes nothing.
    pub fn on_packet_too_big(
        &mut self,
        now: Instant,
        destination: IpAddr,
        mtu: u32,
        sent: u16,
    ) -> Option<u16> {
        let current = self.path_mtu(now, destination);
        let claimed = u16::try_from(mtu).unwrap_or(u16::MAX);
        let mtu = match destination {
            IpAddr::V4(_) => {
                let mtu = if claimed == 0 { plateau_below(sent.min(current)) } else { claimed };
                mtu.max(PMTU_MIN_V4)
            }
            // RFC 8201 section 4: such a message is discarded, or it would force fragments.
            IpAddr::V6(_) if claimed < PMTU_MIN_V6 => return None,
            IpAddr::V6(_) => claimed,
        };
        if mtu >= current {
            return None;
        }
        let path = || PathMtu { mtu, expires: now + PMTU_EXPIRES };
        if self.paths.is_full() && self.paths.get(&destination).is_none() {
            self.make_room();
        }
        self.paths.insert(destination, path()).ok()?;
        Some(mtu)
    }

    /// Forget path MTUs whose time is up. To be called now and then.
    pub fn age(&mut self, now: Instant) {
        self.paths.retain(|_, path| now < path.expires);
    }

    /// Path MTUs that are remembered.
    pub fn paths(&self) -> usize {
        self.paths.len()
    }

    /// Displace what would expire first. A walk over the table; happens only with more than
    /// [`PMTU_ENTRIES_MAX`] destinations of which each has a connection with a segment in flight.
    fn make_room(&mut self) {
        let first = self.paths.iter().min_by_key(|(_, path)| path.expires).map(|(addr, _)| *addr);
        if let Some(addr) = first {
            self.paths.remove(&addr);
        }
    }
}

fn plateau_below(len: u16) -> u16 {
    PLATEAUS.into_iter().find(|&plateau| plateau < len).unwrap_or(0)
}

fn is_link_local(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// Leading bits that two addresses of one family have in common; zero across families.
fn common_bits(a: IpAddr, b: IpAddr) -> u32 {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => 0,
    }
}

fn prefix_contains(local: &LocalAddress, addr: IpAddr) -> bool {
    local.addr.is_ipv4() == addr.is_ipv4()
        && common_bits(local.addr, addr) >= u32::from(local.prefix)
}

/// All host bits set. A prefix of 31 or 32 bits has no broadcast address, RFC 3021.
fn is_directed_broadcast(local: &LocalAddress, addr: IpAddr) -> bool {
    let IpAddr::V4(v4) = addr else { return false };
    let host = u32::MAX.checked_shr(u32::from(local.prefix)).unwrap_or(0);
    local.prefix <= 30 && prefix_contains(local, addr) && v4.to_bits() & host == host
}

#[cfg(test)]
mod tests;
