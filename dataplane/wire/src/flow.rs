//! The four-tuple of a connection, and three hashes of it: Toeplitz as network cards compute it, a
//! fast keyed one for the connection table, and the IPv6 flow label.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of a Toeplitz key that cover the longest input, and that most network cards take.
pub const RSS_KEY_LEN: usize = 40;

/// The key of Microsoft's published test vectors, the default of many network cards.
pub const MICROSOFT_KEY: [u8; RSS_KEY_LEN] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// Local and remote address and port of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FlowKey {
    /// Over IPv4.
    V4 {
        /// Our address.
        local: Ipv4Addr,
        /// The peer's address.
        remote: Ipv4Addr,
        /// Our port.
        local_port: u16,
        /// The peer's port.
        remote_port: u16,
    },
    /// Over IPv6.
    V6 {
        /// Our address.
        local: Ipv6Addr,
        /// The peer's address.
        remote: Ipv6Addr,
        /// Our port.
        local_port: u16,
        /// The peer's port.
        remote_port: u16,
    },
}

// Millions of these are compared and stored.
const _: () = assert!(size_of::<FlowKey>() <= 40);

impl FlowKey {
    /// The key of a connection between two endpoints; `None` if the families differ.
    #[inline]
    pub const fn new(local: SocketAddr, remote: SocketAddr) -> Option<Self> {
        Self::from_parts(local.ip(), local.port(), remote.ip(), remote.port())
    }

    /// As [`FlowKey::new`] from addresses and ports.
    #[inline]
    pub const fn from_parts(
        local: IpAddr,
        local_port: u16,
        remote: IpAddr,
        remote_port: u16,
    ) -> Option<Self> {
        match (local, remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                Some(Self::V4 { local, remote, local_port, remote_port })
            }
            (IpAddr::V6(local), IpAddr::V6(remote)) => {
                Some(Self::V6 { local, remote, local_port, remote_port })
            }
            _ => None,
        }
    }

    /// Our address.
    #[inline]
    pub const fn local(&self) -> IpAddr {
        match *self {
            Self::V4 { local, .. } => IpAddr::V4(local),
            Self::V6 { local, .. } => IpAddr::V6(local),
        }
    }

    /// The peer's address.
    #[inline]
    pub const fn remote(&self) -> IpAddr {
        match *self {
            Self::V4 { remote, .. } => IpAddr::V4(remote),
            Self::V6 { remote, .. } => IpAddr::V6(remote),
        }
    }

    /// Our port.
    #[inline]
    pub const fn local_port(&self) -> u16 {
        match *self {
            Self::V4 { local_port, .. } | Self::V6 { local_port, .. } => local_port,
        }
    }

    /// The peer's port.
    #[inline]
    pub const fn remote_port(&self) -> u16 {
        match *self {
            Self::V4 { remote_port, .. } | Self::V6 { remote_port, .. } => remote_port,
        }
    }

    /// Our endpoint.
    #[inline]
    pub const fn local_addr(&self) -> SocketAddr {
        SocketAddr::new(self.local(), self.local_port())
    }

    /// The peer's endpoint.
    #[inline]
    pub const fn remote_addr(&self) -> SocketAddr {
        SocketAddr::new(self.remote(), self.remote_port())
    }

    /// Over IPv6.
    #[inline]
    pub const fn is_ipv6(&self) -> bool {
        matches!(self, Self::V6 { .. })
    }

    /// The same connection seen from the other end.
    #[inline]
    pub const fn reversed(&self) -> Self {
        match *self {
            Self::V4 { local, remote, local_port, remote_port } => Self::V4 {
                local: remote,
                remote: local,
                local_port: remote_port,
                remote_port: local_port,
            },
            Self::V6 { local, remote, local_port, remote_port } => Self::V6 {
                local: remote,
                remote: local,
                local_port: remote_port,
                remote_port: local_port,
            },
        }
    }

    /// The hash that a network card with `key` computes for packets that we *receive* on this
    /// connection (their source is the peer), ports included. Made for once per connection, not
    /// for once per packet.
    pub fn toeplitz(&self, key: &[u8; RSS_KEY_LEN]) -> u32 {
        match *self {
            Self::V4 { local, remote, local_port, remote_port } => {
                let mut input = [0; 12];
                input[..4].copy_from_slice(&remote.octets());
                input[4..8].copy_from_slice(&local.octets());
                input[8..10].copy_from_slice(&remote_port.to_be_bytes());
                input[10..].copy_from_slice(&local_port.to_be_bytes());
                toeplitz(key, &input)
            }
            Self::V6 { local, remote, local_port, remote_port } => {
                let mut input = [0; 36];
                input[..16].copy_from_slice(&remote.octets());
                input[16..32].copy_from_slice(&local.octets());
                input[32..34].copy_from_slice(&remote_port.to_be_bytes());
                input[34..].copy_from_slice(&local_port.to_be_bytes());
                toeplitz(key, &input)
            }
        }
    }
}

/// The Toeplitz hash: for each set bit of `input`, from the left, the 32 bits of `key` that begin
/// at the same position are added modulo 2. Beyond its end the key counts as zeros.
pub fn toeplitz(key: &[u8], input: &[u8]) -> u32 {
    let mut key_bytes = key.iter().copied();
    let mut next = || key_bytes.next().unwrap_or(0);
    // The window holds 40 bits: the 32 of the present byte's first bit, and eight to shift in.
    let mut window =
        u64::from(u32::from_be_bytes([next(), next(), next(), next()])) << 8 | u64::from(next());
    let mut hash = 0;
    for byte in input {
        for bit in 0..8 {
            if byte & (0x80 >> bit) != 0 {
                hash ^= (window >> (8 - bit)) as u32;
            }
        }
        window = window << 8 | u64::from(next());
    }
    hash
}

/// A key for which both directions of a connection hash alike: `pattern` repeated. With a period of
/// 16 bits, swapping addresses (32 or 128 bits) and ports (16 bits) does not change the sum.
pub const fn symmetric_key<const N: usize>(pattern: u16) -> [u8; N] {
    let [high, low] = pattern.to_be_bytes();
    let mut key = [0; N];
    let mut i = 0;
    while i < N {
        key[i] = if i % 2 == 0 { high } else { low };
        i += 1;
    }
    key
}

/// The pattern for [`symmetric_key`] that is in common use; it spreads well.
pub const SYMMETRIC_PATTERN: u16 = 0x6d5a;

/// The fast keyed hash for the connection table.
///
/// Each step multiplies two 64-bit words, of which each is first mixed with a secret, to 128 bits
/// and adds both halves modulo 2 (the construction of wyhash and others). A peer that does not know
/// the secrets cannot choose tuples that collide, other than by observing time. It is not a pseudo
/// random function in the strict sense: values that show on the wire or protect something (initial
/// sequence numbers, ports, cookies) need SipHash.
#[derive(Clone, Copy)]
pub struct FlowHasher {
    keys: [u64; 4],
}

impl FlowHasher {
    /// A hasher from two secrets, see [`base::Random::secret`].
    pub const fn new(secret_a: u64, secret_b: u64) -> Self {
        // Digits of pi, so that a weak secret still meets dense constants.
        const PI: [u64; 4] = [
            0x243f_6a88_85a3_08d3,
            0x1319_8a2e_0370_7344,
            0xa409_3822_299f_31d0,
            0x082e_fa98_ec4e_6c89,
        ];
        let a = secret_a ^ PI[0];
        let b = secret_b ^ PI[1];
        Self { keys: [a, b, mix(a, PI[2]) ^ b, mix(b, PI[3]) ^ a] }
    }

    /// The hash of `key`. All 64 bits are good; take the upper ones for an index and others for a
    /// tag.
    #[inline]
    pub fn hash(&self, key: &FlowKey) -> u64 {
        let [k0, k1, k2, k3] = self.keys;
        match *key {
            FlowKey::V4 { local, remote, local_port, remote_port } => {
                let addresses = u64::from(local.to_bits()) << 32 | u64::from(remote.to_bits());
                let h = mix(addresses ^ k0, ports(local_port, remote_port) ^ k1);
                mix(h ^ k2, k3)
            }
            FlowKey::V6 { local, remote, local_port, remote_port } => {
                let (l, r) = (local.to_bits(), remote.to_bits());
                let a = mix((l >> 64) as u64 ^ k0, l as u64 ^ k1);
                let b = mix((r >> 64) as u64 ^ k2, r as u64 ^ k3);
                // The rotation keeps equal halves from cancelling out.
                let h = mix(a ^ b.rotate_left(32) ^ k0, ports(local_port, remote_port) ^ k1);
                mix(h ^ k2, k3)
            }
        }
    }

    /// Mix a hash that the device computed (which its key's owner may predict) with the secrets.
    #[inline]
    pub fn hash_rss(&self, rss_hash: u32) -> u64 {
        let [k0, k1, k2, k3] = self.keys;
        mix(mix(u64::from(rss_hash) ^ k0, k1) ^ k2, k3)
    }
}

#[inline]
fn ports(local: u16, remote: u16) -> u64 {
    u64::from(local) << 16 | u64::from(remote)
}

/// Both halves of the 128-bit product, added modulo 2.
#[inline]
const fn mix(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

/// The IPv6 flow label for a connection with the transmit hash `hash`: its low 20 bits, and never
/// zero, which would mean "not labelled" (RFC 6437 section 2).
#[inline]
pub const fn flow_label(hash: u32) -> u32 {
    let low = hash & 0xf_ffff;
    if low != 0 {
        return low;
    }
    let high = hash >> 12;
    if high != 0 { high } else { 1 }
}

#[cfg(test)]
mod tests;
