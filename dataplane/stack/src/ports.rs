//! Ephemeral ports by the double-hash algorithm of RFC 6056 section 3.3.4.
//!
//! Where the search begins follows from a keyed hash of the peer plus a counter; counters are chosen
//! by other bits of the hash and advance by random steps. There are as many of them as ports: a small
//! table lets an observer tell which of a host's connections share a counter.
//!
//! With several workers a port is of use only if the device's hash brings the answers back to this
//! one: the caller's predicate says so, together with "not in use towards this peer".

use alloc::vec::Vec;
use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};

use base::Random;

use crate::isn::{SipKey, write_addr};

/// Counters of the double hash.
const COUNTERS: usize = 1 << 16;
/// A counter advances by two to this many times two at random: even, so that the search keeps to
/// one parity of ports, and not countable for an observer.
const STEP_NOISE: u32 = 8;
/// The bit of a counter that says with which parity to begin.
const PARITY: u32 = 1;

/// No port is left towards this peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortsExhausted;

/// Chooses local ports for one worker.
pub struct Ports {
    key: SipKey,
    counters: Vec<u32>,
    /// First and last port of the range.
    range: [u16; 2],
    /// A bit per port that is never chosen.
    reserved: Vec<u64>,
}

impl Ports {
    /// RFC 6056 section 3.2: all of the range may be chosen but what is reserved.
    ///
    /// A chooser for ports `range[0]..=range[1]`. Allocates 270 kB, and never again.
    pub fn new(range: [u16; 2], random: &mut (impl Random + ?Sized)) -> Self {
        let key = SipKey::draw(random);
        // RFC 6056 section 3.3.4: the table begins with random values.
        let counters = (0..COUNTERS).map(|_| random.secret() as u32 & !PARITY).collect();
        let mut ports = Self { key, counters, range, reserved: alloc::vec![0; COUNTERS / 64] };
        ports.set_range(range);
        ports
    }

    /// `ip_local_port_range`. Port zero is never chosen; a range in the wrong order is turned round.
    pub fn set_range(&mut self, range: [u16; 2]) {
        let [a, b] = range;
        self.range = [a.min(b).max(1), a.max(b).max(1)];
    }

    /// `ip_local_reserved_ports`: never choose `port`. It can still be asked for explicitly.
    pub fn reserve(&mut self, port: u16) {
        self.reserved[usize::from(port) / 64] |= 1 << (port % 64);
    }

    /// Let `port` be chosen again.
    pub fn unreserve(&mut self, port: u16) {
        self.reserved[usize::from(port) / 64] &= !(1 << (port % 64));
    }

    /// `port` is reserved.
    pub fn is_reserved(&self, port: u16) -> bool {
        self.reserved[usize::from(port) / 64] & 1 << (port % 64) != 0
    }

    /// Choose a port towards `remote` for which `usable` holds. Asks about each port of the range at
    /// most once.
    ///
    /// Ports of one parity come first: Linux keeps the other for bound sockets in the same way, so
    /// both find theirs quickly. When none of it is left, the next searches begin with the other
    /// parity: else each of them would first ask about half of the range in vain.
    pub fn choose(
        &mut self,
        random: &mut (impl Random + ?Sized),
        local: IpAddr,
        remote: SocketAddr,
        mut usable: impl FnMut(u16) -> bool,
    ) -> Result<u16, PortsExhausted> {
        let mut hasher = self.key.hasher();
        write_addr(&mut hasher, local);
        write_addr(&mut hasher, remote.ip());
        hasher.write(&remote.port().to_be_bytes());
        let hash = hasher.finish();
        let which = hash as usize % COUNTERS;
        let [low, high] = self.range.map(u32::from);
        let size = high - low + 1;
        let counter = self.counters[which];
        let start = (counter & !PARITY).wrapping_add((hash >> 32) as u32) % size;
        let first = if size == 1 { 0 } else { counter & PARITY };
        for other in 0..size.min(2) {
            let parity = first ^ other;
            let ports = size.div_ceil(2) - if size % 2 == 1 { parity } else { 0 };
            for step in 0..ports {
                let nth = (start / 2 + step) % ports;
                let port = (low + 2 * nth + parity) as u16;
                if self.is_reserved(port) || !usable(port) {
                    continue;
                }
                let noise = random.below(STEP_NOISE) * 2;
                let advance = (2 * step).max(noise) + 2;
                let counter = (counter & !PARITY).wrapping_add(advance);
                self.counters[which] = counter | parity;
                return Ok(port);
            }
        }
        Err(PortsExhausted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::SeededRandom;
    use std::collections::BTreeSet;

    fn remote(port: u16) -> SocketAddr {
        SocketAddr::new("192.0.2.1".parse().unwrap(), port)
    }

    fn local() -> IpAddr {
        "10.0.0.1".parse().unwrap()
    }

    #[test]
    fn h82_every_port_is_found_once_and_then_a_clear_error() {
        for range in [[32_768, 60_999], [1000, 1000], [1000, 1001], [1000, 1002], [65_000, 65_535]]
        {
            let mut random = SeededRandom::new(5);
            let mut ports = Ports::new(range, &mut random);
            let mut used = BTreeSet::new();
            let size = usize::from(range[1] - range[0]) + 1;
            // Filling a large range by search is quadratic towards its end: fill the bulk at once.
            let filled = size.saturating_sub(300) as u16;
            used.extend(range[0]..range[0] + filled);
            while used.len() < size {
                let port =
                    ports.choose(&mut random, local(), remote(80), |p| !used.contains(&p)).unwrap();
                assert!((range[0]..=range[1]).contains(&port) && used.insert(port));
            }
            let mut asked = Vec::new();
            let result = ports.choose(&mut random, local(), remote(80), |port| {
                asked.push(port);
                false
            });
            assert_eq!(result, Err(PortsExhausted));
            asked.sort_unstable();
            assert!(asked.into_iter().eq(range[0]..=range[1]), "each port once");
        }
    }

    /// Nine tenths of all ports towards one peer: the last of them are found as the first ones were.
    #[test]
    fn most_of_the_range_is_found_without_asking_about_all_of_it() {
        let mut random = SeededRandom::new(11);
        let range = [1024, 65_535];
        let mut ports = Ports::new(range, &mut random);
        let mut used = alloc::vec![false; 65_536];
        let (mut asked, mut worst) = (0_u32, 0);
        let count = 58_000;
        for _ in 0..count {
            let before = asked;
            let port = ports
                .choose(&mut random, local(), remote(80), |p| {
                    asked += 1;
                    !used[usize::from(p)]
                })
                .unwrap();
            worst = worst.max(asked - before);
            used[usize::from(port)] = true;
        }
        // The parities fill one after the other, and the harmonic sum of a full one is about twelve.
        assert!(asked < count * 12, "{} for each", asked / count);
        assert!(worst <= 33_000, "one walk over the parity that has become full: {worst}");
    }

    /// RFC 6056 section 3.2.
    #[test]
    fn reserved_ports_and_those_of_other_workers_are_passed_over() {
        let mut random = SeededRandom::new(6);
        let mut ports = Ports::new([40_000, 40_099], &mut random);
        for port in 40_000..40_050 {
            ports.reserve(port);
        }
        let mut chosen = BTreeSet::new();
        for _ in 0..1000 {
            let mine = |port: u16| port % 4 == 3;
            chosen.insert(ports.choose(&mut random, local(), remote(80), mine).unwrap());
        }
        assert!(chosen.iter().all(|&port| port >= 40_050 && port % 4 == 3));
        assert_eq!(chosen.len(), 13, "and all of these are chosen some time");
        ports.unreserve(40_003);
        assert_eq!(ports.choose(&mut random, local(), remote(80), |p| p == 40_003), Ok(40_003));
    }

    #[test]
    fn peers_begin_at_unrelated_places_and_steps_cannot_be_counted() {
        let mut random = SeededRandom::new(7);
        let mut ports = Ports::new([32_768, 60_999], &mut random);
        let mut first = BTreeSet::new();
        for port in 0..200 {
            first.insert(ports.choose(&mut random, local(), remote(port), |_| true).unwrap());
        }
        assert!(first.len() > 190);
        let mut steps = BTreeSet::new();
        let mut last = ports.choose(&mut random, local(), remote(80), |_| true).unwrap();
        for _ in 0..200 {
            let port = ports.choose(&mut random, local(), remote(80), |_| true).unwrap();
            assert_ne!(port, last, "a port just used rests for a while");
            steps.insert(port.wrapping_sub(last));
            last = port;
        }
        assert!(steps.len() > 4, "{steps:?}");
    }

    /// RFC 6056 section 3.3.4: over many peers each part of the range is chosen about equally often, and
    /// towards one peer none is chosen twice before all others of its parity were.
    #[test]
    fn choices_are_spread_over_the_range_and_do_not_repeat_soon() {
        let mut random = SeededRandom::new(9);
        let range = [32_768, 60_999];
        let mut ports = Ports::new(range, &mut random);
        let mut buckets = [0_u32; 16];
        let size = u32::from(range[1] - range[0]) + 1;
        for peer in 1..=32_000_u16 {
            let port = ports.choose(&mut random, local(), remote(peer), |_| true).unwrap();
            buckets[(u32::from(port - range[0]) * 16 / size) as usize] += 1;
        }
        // 2000 each are expected; six standard deviations are 260.
        assert!(buckets.iter().all(|n| (1740..2260).contains(n)), "{buckets:?}");
        let mut seen = BTreeSet::new();
        for _ in 0..1500 {
            let port = ports.choose(&mut random, local(), remote(80), |_| true).unwrap();
            assert!(seen.insert(port), "{port} again after {}", seen.len());
        }
    }

    #[test]
    fn odd_ranges_are_put_right() {
        let mut random = SeededRandom::new(8);
        let mut ports = Ports::new([0, 0], &mut random);
        assert_eq!(ports.choose(&mut random, local(), remote(1), |_| true), Ok(1));
        ports.set_range([9, 3]);
        let port = ports.choose(&mut random, local(), remote(1), |_| true).unwrap();
        assert!((3..=9).contains(&port));
    }
}
