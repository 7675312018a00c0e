//! Numbers that a connection begins with and nobody may guess: initial sequence number (RFC 6528),
//! timestamp offset (RFC 7323 section 5.4) and transmit hash.
//!
//! Once per connection, hence SipHash.

use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};

use base::{Instant, Random};
use siphasher::sip::SipHasher24;

/// A secret of SipHash.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct SipKey(u64, u64);

impl SipKey {
    pub(crate) fn draw(random: &mut (impl Random + ?Sized)) -> Self {
        Self(random.secret(), random.secret())
    }

    pub(crate) fn hasher(self) -> SipHasher24 {
        SipHasher24::new_with_keys(self.0, self.1)
    }
}

/// Feed an address, the family first, so that no two inputs have the same bytes.
pub(crate) fn write_addr(hasher: &mut SipHasher24, addr: IpAddr) {
    match addr {
        IpAddr::V4(v4) => {
            hasher.write_u8(4);
            hasher.write(&v4.octets());
        }
        IpAddr::V6(v6) => {
            hasher.write_u8(6);
            hasher.write(&v6.octets());
        }
    }
}

/// The secrets of one worker for what its connections begin with.
pub struct InitialNumbers {
    isn: SipKey,
    timestamp: SipKey,
}

impl InitialNumbers {
    /// Fresh secrets.
    pub fn new(random: &mut (impl Random + ?Sized)) -> Self {
        Self { isn: SipKey::draw(random), timestamp: SipKey::draw(random) }
    }

    /// RFC 6528 section 3: a clock plus a hash of the connection's addresses and ports. The clock
    /// advances every 64 ns as in Linux, and so wraps after 4.6 minutes, well over the lifetime of a
    /// segment; RFC 9293 section 3.4.1 has 4 us, which fast short connections would overtake.
    pub fn isn(&self, now: Instant, local: SocketAddr, remote: SocketAddr) -> u32 {
        let mut hasher = self.isn.hasher();
        write_addr(&mut hasher, local.ip());
        write_addr(&mut hasher, remote.ip());
        hasher.write(&local.port().to_be_bytes());
        hasher.write(&remote.port().to_be_bytes());
        let clock = (now.as_nanos() >> 6) as u32;
        (hasher.finish() as u32).wrapping_add(clock)
    }

    /// What to add to the timestamp clock towards `remote`. The same for all connections between two
    /// addresses, so that timestamps go on rising when ports are used again (RFC 7323 section 5.4,
    /// and RFC 6191 section 3 relies on it).
    pub fn timestamp_offset(&self, local: IpAddr, remote: IpAddr) -> u32 {
        let mut hasher = self.timestamp.hasher();
        write_addr(&mut hasher, local);
        write_addr(&mut hasher, remote);
        hasher.finish() as u32
    }

    /// A first transmit hash: random, and not zero, which stands for "none".
    pub fn txhash(random: &mut (impl Random + ?Sized)) -> u32 {
        (random.next_u64() as u32).max(1)
    }

    /// Draw another secret for sequence numbers. The one for timestamps stays: with another, a
    /// reused port could meet a TIME-WAIT peer with timestamps that go back, and be refused.
    ///
    /// Right after the change a new connection may begin below where an old one between the same
    /// ports ended; the peer's TIME-WAIT then accepts it by its timestamp only.
    pub fn rotate(&mut self, random: &mut (impl Random + ?Sized)) {
        self.isn = SipKey::draw(random);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::SeededRandom;
    use core::time::Duration;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn isn_follows_the_clock_for_one_connection() {
        let numbers = InitialNumbers::new(&mut SeededRandom::new(1));
        let (a, b) = (addr("10.0.0.1:80"), addr("10.0.0.2:4000"));
        let t = Instant::from_millis(77);
        let first = numbers.isn(t, a, b);
        assert_eq!(first, numbers.isn(t, a, b));
        let later = numbers.isn(t + Duration::from_micros(64), a, b);
        assert_eq!(later.wrapping_sub(first), 1000);
        // A whole turn of the 32-bit space, and the clock itself far beyond 32 bits.
        let wrapped = numbers.isn(t + Duration::from_nanos(1 << 38), a, b);
        assert_eq!(wrapped, first);
    }

    proptest! {
        /// RFC 6528 section 3: for one connection's addresses and ports later is higher, by what the clock
        /// has moved, whoever they are and whenever it is. So is the timestamp clock for one pair.
        #[test]
        fn initial_numbers_of_one_connection_rise_with_time(
            secret: u64, ports: (u16, u16), last: u8, start in 0u64..1 << 55, step in 64u64..1 << 36,
        ) {
            let numbers = InitialNumbers::new(&mut SeededRandom::new(secret));
            let local = SocketAddr::from(([10, 0, 0, 1], ports.0));
            let remote = SocketAddr::from(([10, 0, 0, last], ports.1));
            let then = Instant::ZERO + Duration::from_nanos(start);
            let first = numbers.isn(then, local, remote);
            let second = numbers.isn(then + Duration::from_nanos(step), local, remote);
            let moved = second.wrapping_sub(first);
            prop_assert!((step >> 6..=(step >> 6) + 1).contains(&u64::from(moved)), "{moved}");
            // The other direction, and other addresses, are other connections.
            prop_assert_ne!(numbers.isn(then, remote, local), first);
        }
    }

    /// RFC 6528 section 3, RFC 9293 section 3.4.1.
    #[test]
    fn isn_of_different_connections_are_unrelated() {
        let mut random = SeededRandom::new(1);
        let mut numbers = InitialNumbers::new(&mut random);
        let mut seen = BTreeSet::new();
        let (t, a) = (Instant::ZERO, addr("[fd00::1]:80"));
        for port in 1..=2000 {
            let b = SocketAddr::new(addr("[fd00::2]:1").ip(), port);
            seen.insert(numbers.isn(t, a, b));
            seen.insert(numbers.isn(t, b, a));
        }
        numbers.rotate(&mut random);
        seen.insert(numbers.isn(t, a, addr("[fd00::2]:1")));
        assert_eq!(seen.len(), 4001);
    }

    /// RFC 7323 section 5.4, RFC 6191 section 3.
    #[test]
    fn timestamp_offset_is_per_pair_of_addresses_and_survives_rotation() {
        let mut random = SeededRandom::new(1);
        let mut numbers = InitialNumbers::new(&mut random);
        let (a, b, c) = (addr("10.0.0.1:1").ip(), addr("10.0.0.2:1").ip(), addr("10.0.0.3:1").ip());
        let offset = numbers.timestamp_offset(a, b);
        assert_ne!(offset, numbers.timestamp_offset(a, c));
        assert_ne!(offset, numbers.timestamp_offset(b, a));
        numbers.rotate(&mut random);
        assert_eq!(offset, numbers.timestamp_offset(a, b));
    }
}
