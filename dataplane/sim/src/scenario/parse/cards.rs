//! Which addresses the cards of hosts have, and where they send what is for others.
//!
//! Addresses that the file gives go to the card whose neighbour shares their prefix, and else to the cards
//! in their order. Cards without any get `10.n.j.1/24` and `fd00:n:j::1/64`, for host `n` counted from 1
//! and its link `j` counted from 0; the second host of a link gets the next address of that network.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use config::startup::overlap;
use stack::LocalAddress;

use super::Reader;
use crate::router::{GATEWAY_V4, GATEWAY_V6};
use crate::scenario::model::{CARDS_MAX, Card, LinkSpec, Place};
use crate::scenario::value::{Problem, Read};

/// RFC 8200 section 5.
const MTU_MIN_V6: u16 = 1280;

impl Reader {
    /// Give every host a card per link.
    pub(super) fn cards(&mut self) -> Read<()> {
        for host in 0..self.scenario.hosts.len() {
            let links: Vec<usize> = (0..self.scenario.links.len())
                .filter(|l| self.scenario.links[*l].between.contains(&Place::Host(host)))
                .collect();
            let spec = &self.scenario.hosts[host];
            if links.len() > CARDS_MAX {
                let what = format!("has {} links, and a host has at most {CARDS_MAX}", links.len());
                return Err(self.host_problem(host, what));
            }
            let mut cards: Vec<Card> = links
                .iter()
                .map(|&link| Card {
                    link,
                    addresses: Vec::new(),
                    mtu: own_mtu(&self.scenario.links[link], host),
                    gateway4: None,
                    gateway6: None,
                })
                .collect();
            let mut left = spec.addresses.clone();
            self.to_neighbours(host, &mut cards, &mut left);
            in_order(&mut cards, &mut left);
            self.scenario.hosts[host].cards = cards;
        }
        self.defaults();
        for host in 0..self.scenario.hosts.len() {
            self.gateways(host);
            self.check_cards(host)?;
        }
        Ok(())
    }

    fn host_problem(&self, host: usize, what: String) -> Problem {
        let name = self.scenario.hosts.get(host).map_or("", |h| &h.name);
        let at = self.host_at.get(host).copied().unwrap_or(0);
        Problem::new(at, format!("host.{name}"), what)
    }

    /// Addresses that share a prefix with a host at the other end of a link.
    fn to_neighbours(&self, host: usize, cards: &mut [Card], left: &mut Vec<LocalAddress>) {
        for card in cards {
            let Some(peer) = self.peer(card.link, host) else { continue };
            let theirs = &self.scenario.hosts[peer].addresses;
            let shared = |a: &LocalAddress| theirs.iter().any(|t| overlap(a, t));
            for ipv6 in [false, true] {
                if let Some(i) = left.iter().position(|a| a.addr.is_ipv6() == ipv6 && shared(a)) {
                    card.addresses.push(left.remove(i));
                }
            }
        }
    }

    /// The host at the other end of a link.
    fn peer(&self, link: usize, host: usize) -> Option<usize> {
        let [a, b] = self.scenario.links.get(link)?.between;
        let other = if a == Place::Host(host) { b } else { a };
        match other {
            Place::Host(peer) => Some(peer),
            Place::Router(_) => None,
        }
    }

    /// Addresses for cards that the file gives none.
    fn defaults(&mut self) {
        for host in 0..self.scenario.hosts.len() {
            for card in 0..self.scenario.hosts[host].cards.len() {
                if !self.scenario.hosts[host].cards[card].addresses.is_empty() {
                    continue;
                }
                let (link, mtu) = {
                    let c = &self.scenario.hosts[host].cards[card];
                    (c.link, c.mtu)
                };
                // The network of whoever is at the other end, or one of our own.
                let theirs: Vec<LocalAddress> = self
                    .peer(link, host)
                    .and_then(|peer| {
                        self.scenario.hosts[peer].cards.iter().find(|c| c.link == link)
                    })
                    .map(|c| c.addresses.clone())
                    .unwrap_or_default();
                let (n, j) = (host as u8 + 1, card as u8);
                let mut ours = Vec::new();
                if theirs.is_empty() {
                    ours.push(LocalAddress { addr: Ipv4Addr::new(10, n, j, 1).into(), prefix: 24 });
                    let v6 = Ipv6Addr::new(0xfd00, n.into(), j.into(), 0, 0, 0, 0, 1);
                    ours.push(LocalAddress { addr: v6.into(), prefix: 64 });
                } else {
                    ours.extend(theirs.iter().filter_map(beside));
                }
                ours.retain(|a| a.addr.is_ipv4() || mtu >= MTU_MIN_V6);
                self.scenario.hosts[host].cards[card].addresses = ours;
            }
        }
    }

    fn gateways(&mut self, host: usize) {
        for card in 0..self.scenario.hosts[host].cards.len() {
            let (link, ours) = {
                let c = &self.scenario.hosts[host].cards[card];
                (c.link, c.addresses.clone())
            };
            let (mut v4, mut v6) = (None, None);
            match self.peer(link, host) {
                None => (v4, v6) = (Some(GATEWAY_V4), Some(GATEWAY_V6)),
                // Whoever is not in one of our networks, and is the only one there.
                Some(peer) => {
                    let theirs = self.scenario.hosts[peer].cards.iter().find(|c| c.link == link);
                    for their in theirs.into_iter().flat_map(|c| &c.addresses) {
                        if ours.iter().any(|a| a.contains(their.addr)) {
                            continue;
                        }
                        match their.addr {
                            IpAddr::V4(addr) => v4 = v4.or(Some(addr)),
                            IpAddr::V6(addr) => v6 = v6.or(Some(addr)),
                        }
                    }
                }
            }
            let has = |ipv6: bool| ours.iter().any(|a| a.addr.is_ipv6() == ipv6);
            let c = &mut self.scenario.hosts[host].cards[card];
            c.gateway4 = v4.filter(|_| has(false));
            c.gateway6 = v6.filter(|_| has(true));
        }
    }

    fn check_cards(&self, host: usize) -> Read<()> {
        let cards = &self.scenario.hosts[host].cards;
        for (i, card) in cards.iter().enumerate() {
            let id = &self.scenario.links[card.link].id;
            if card.mtu < MTU_MIN_V6 && card.addresses.iter().any(|a| a.addr.is_ipv6()) {
                let what = format!("has an IPv6 address on {id}, whose mtu is below {MTU_MIN_V6}");
                return Err(self.host_problem(host, what));
            }
            for other in cards.iter().skip(i + 1) {
                let both =
                    card.addresses.iter().flat_map(|a| other.addresses.iter().map(move |b| (a, b)));
                let same = |(a, b): &(&LocalAddress, &LocalAddress)| {
                    a.addr.is_ipv4() == b.addr.is_ipv4() && overlap(a, b)
                };
                if let Some((a, b)) = both.into_iter().find(same) {
                    let what = format!(
                        "{}/{} and {}/{} are of one network, and on two links ({id} and {})",
                        a.addr, a.prefix, b.addr, b.prefix, self.scenario.links[other.link].id
                    );
                    return Err(self.host_problem(host, what));
                }
            }
        }
        Ok(())
    }

    /// The address of `to` that flows from `from` go to.
    pub(super) fn target(&self, from: usize, to: usize, ipv6: bool) -> Option<IpAddr> {
        let hosts = &self.scenario.hosts;
        let family = |c: &Card| c.addresses.iter().map(|a| a.addr).find(|a| a.is_ipv6() == ipv6);
        let direct = |c: &&Card| self.peer(c.link, to) == Some(from);
        let cards = &hosts.get(to)?.cards;
        let near = cards.iter().filter(direct).find_map(family);
        let first = hosts.get(to)?.addresses.iter().map(|a| a.addr).find(|a| a.is_ipv6() == ipv6);
        near.or(first).or_else(|| cards.iter().find_map(family))
    }
}

/// The MTU in the direction in which `host` sends.
fn own_mtu(link: &LinkSpec, host: usize) -> u16 {
    if link.between[0] == Place::Host(host) { link.forward.mtu } else { link.reverse.mtu }
}

/// What is left goes to the cards in their order, one of each family, and the rest to the first card.
fn in_order(cards: &mut [Card], left: &mut Vec<LocalAddress>) {
    for card in cards.iter_mut() {
        for ipv6 in [false, true] {
            let has = card.addresses.iter().any(|a| a.addr.is_ipv6() == ipv6);
            if let (false, Some(i)) = (has, left.iter().position(|a| a.addr.is_ipv6() == ipv6)) {
                card.addresses.push(left.remove(i));
            }
        }
    }
    if let Some(first) = cards.first_mut() {
        first.addresses.append(left);
    }
}

/// The next address of a network, or the one before.
fn beside(address: &LocalAddress) -> Option<LocalAddress> {
    let LocalAddress { addr, prefix } = *address;
    let neighbour = |step: i8| match addr {
        IpAddr::V4(a) => IpAddr::from(Ipv4Addr::from(a.to_bits().wrapping_add_signed(step.into()))),
        IpAddr::V6(a) => IpAddr::from(Ipv6Addr::from(a.to_bits().wrapping_add_signed(step.into()))),
    };
    [1, -1].into_iter().map(neighbour).find_map(|addr| {
        let text = format!("{addr}/{prefix}");
        config::startup::local_address(&text).ok().filter(|a| address.contains(a.addr))
    })
}
