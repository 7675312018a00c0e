//! Where packets go: the ports with their on-link prefixes and gateways, our source address, and what
//! is known of the path's MTU.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;

use base::{Instant, PORTS_MAX, PortId};

use crate::bounded::BoundedMap;
use crate::params::common_bits;
use crate::{LocalAddress, PortSetup};

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
    /// The port by which packets leave.
    pub port: PortId,
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

/// An address of ours, and the port it belongs to.
struct Local {
    address: LocalAddress,
    port: PortId,
}

/// What a port is apart from its addresses.
struct Link {
    gateway4: Option<Ipv4Addr>,
    gateway6: Option<Ipv6Addr>,
    mtu: u16,
}

/// How well a port leads to a destination: by a gateway, or with so many bits of a prefix on link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Gateway,
    OnLink(u8),
}

/// Routes of one worker: those that follow from the addresses and gateways of its ports.
pub struct Routes {
    /// In the order of the ports.
    local: Vec<Local>,
    links: Vec<Link>,
    paths: BoundedMap<(PortId, IpAddr), PathMtu>,
}

impl Routes {
    /// Routes of these ports, each with the MTU of its link, which may be less than configured.
    pub fn new<'a>(ports: impl IntoIterator<Item = (&'a PortSetup, u16)>) -> Self {
        let (mut local, mut links) = (Vec::new(), Vec::new());
        for ((setup, mtu), port) in ports.into_iter().zip(0..).take(PORTS_MAX) {
            let port = PortId(port);
            local.extend(setup.addresses.iter().map(|&address| Local { address, port }));
            links.push(Link { gateway4: setup.gateway4, gateway6: setup.gateway6, mtu });
        }
        Self { local, links, paths: BoundedMap::new(PMTU_ENTRIES_MAX) }
    }

    /// Our address number `index` over all ports, with its port.
    pub fn local(&self, index: usize) -> Option<(PortId, IpAddr)> {
        self.local.get(index).map(|l| (l.port, l.address.addr))
    }

    /// Our addresses on `port`.
    pub fn addresses(&self, port: PortId) -> impl Iterator<Item = IpAddr> {
        self.of(port).map(|l| l.addr)
    }

    fn of(&self, port: PortId) -> impl Iterator<Item = &LocalAddress> {
        self.local.iter().filter(move |l| l.port == port).map(|l| &l.address)
    }

    /// The port to which our address `addr` belongs; `None`: it is not ours.
    #[inline]
    pub fn port_of(&self, addr: IpAddr) -> Option<PortId> {
        self.local.iter().find(|l| l.address.addr == addr).map(|l| l.port)
    }

    /// `addr` is one of ours.
    #[inline]
    pub fn is_local(&self, addr: IpAddr) -> bool {
        self.port_of(addr).is_some()
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
            _ if self.local.iter().any(|l| is_directed_broadcast(&l.address, addr)) => {
                AddressClass::Broadcast
            }
            _ => AddressClass::Unicast,
        }
    }

    /// How to reach `destination`, one host that is not us. The longest prefix decides on the port;
    /// where several fit alike (gateways, most of all), it is `preferred` if that is one of them, and
    /// else the first. Link-local destinations can be on each link: there, `preferred` comes first.
    /// An MTU whose time is up counts no more.
    pub fn lookup(
        &self,
        now: Instant,
        destination: IpAddr,
        preferred: Option<PortId>,
    ) -> Result<Route, NoRoute> {
        if self.classify(destination) != AddressClass::Unicast {
            return Err(NoRoute);
        }
        let mut best = None;
        for port in (0..self.links.len() as u8).map(PortId) {
            let Some(fit) = self.fit(port, destination) else { continue };
            let wanted = preferred == Some(port);
            let rank = if is_link_local(destination) {
                (wanted, fit, false)
            } else {
                (false, fit, wanted)
            };
            if best.is_none_or(|(highest, _)| rank > highest) {
                best = Some((rank, port));
            }
        }
        let (_, port) = best.ok_or(NoRoute)?;
        let next_hop = self.hop(port, destination).ok_or(NoRoute)?;
        let source = self.source_for(port, destination).ok_or(NoRoute)?;
        Ok(Route { port, next_hop, source, mtu: self.path_mtu(now, port, destination) })
    }

    /// The neighbour on the link of `port` by way of which `destination` is reached.
    pub fn next_hop(&self, port: PortId, destination: IpAddr) -> Result<IpAddr, NoRoute> {
        if self.classify(destination) != AddressClass::Unicast {
            return Err(NoRoute);
        }
        self.hop(port, destination).ok_or(NoRoute)
    }

    fn hop(&self, port: PortId, destination: IpAddr) -> Option<IpAddr> {
        match self.fit(port, destination)? {
            Fit::OnLink(_) => Some(destination),
            Fit::Gateway => self.gateway(port, destination),
        }
    }

    fn gateway(&self, port: PortId, destination: IpAddr) -> Option<IpAddr> {
        let link = self.links.get(usize::from(port.0))?;
        match destination {
            IpAddr::V4(_) => link.gateway4.map(IpAddr::V4),
            IpAddr::V6(_) => link.gateway6.map(IpAddr::V6),
        }
    }

    /// How well `port` leads to `destination`; `None`: not at all.
    fn fit(&self, port: PortId, destination: IpAddr) -> Option<Fit> {
        let mut bits = None;
        let mut speaks = false;
        for l in self.of(port) {
            speaks |= l.addr.is_ipv4() == destination.is_ipv4();
            if l.contains(destination) {
                bits = bits.max(Some(l.prefix));
            }
        }
        if !speaks {
            return None;
        }
        // Whoever speaks a family reaches its link-local addresses, with one of his own or without.
        let bits = bits.or(is_link_local(destination).then_some(0));
        match bits {
            Some(bits) => Some(Fit::OnLink(bits)),
            None => self.gateway(port, destination).map(|_| Fit::Gateway),
        }
    }

    /// Our address on `port` to use towards `destination`: one of the same scope, of these the one
    /// that has most leading bits in common with it, of these the first. (RFC 6724 section 5, rules 2
    /// and 8; an address in the destination's prefix wins by that.)
    pub fn source_for(&self, port: PortId, destination: IpAddr) -> Option<IpAddr> {
        let score = |l: &LocalAddress| {
            let scope = is_link_local(l.addr) == is_link_local(destination);
            (scope, l.contains(destination), common_bits(l.addr, destination))
        };
        let mut best: Option<&LocalAddress> = None;
        for l in self.of(port).filter(|l| l.addr.is_ipv4() == destination.is_ipv4()) {
            if best.is_none_or(|b| score(l) > score(b)) {
                best = Some(l);
            }
        }
        best.map(|l| l.addr)
    }

    /// Largest IP packet by `port` on the way to `destination` as far as is known.
    pub fn path_mtu(&self, now: Instant, port: PortId, destination: IpAddr) -> u16 {
        let link = self.links.get(usize::from(port.0)).map_or(0, |link| link.mtu);
        match self.paths.get(&(port, destination)) {
            Some(path) if now < path.expires => path.mtu.min(link),
            _ => link,
        }
    }

    /// A router says that at most `mtu` bytes pass on the way from `port` to `destination`; zero: it
    /// does not say. `sent` is the length of the packet that did not pass, from the quoted header. The caller
    /// has checked that the message is about a segment in flight, RFC 5927 section 4.1.
    ///
    /// Returns the new path MTU, `None` if the message changes nothing.
    pub fn on_packet_too_big(
        &mut self,
        now: Instant,
        port: PortId,
        destination: IpAddr,
        mtu: u32,
        sent: u16,
    ) -> Option<u16> {
        let current = self.path_mtu(now, port, destination);
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
        let key = (port, destination);
        if self.paths.is_full() && self.paths.get(&key).is_none() {
            self.make_room();
        }
        self.paths.insert(key, path()).ok()?;
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
        let first = self.paths.iter().min_by_key(|(_, path)| path.expires).map(|(key, _)| *key);
        if let Some(key) = first {
            self.paths.remove(&key);
        }
    }
}

fn plateau_below(len: u16) -> u16 {
    PLATEAUS.into_iter().find(|&plateau| plateau < len).unwrap_or(0)
}

/// `addr` means something on its own link only.
pub(crate) fn is_link_local(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// All host bits set. A prefix of 31 or 32 bits has no broadcast address, RFC 3021.
fn is_directed_broadcast(local: &LocalAddress, addr: IpAddr) -> bool {
    let IpAddr::V4(v4) = addr else { return false };
    let host = u32::MAX.checked_shr(u32::from(local.prefix)).unwrap_or(0);
    local.prefix <= 30 && local.contains(addr) && v4.to_bits() & host == host
}

#[cfg(test)]
mod tests;
