//! The Internet checksum, RFC 1071: sums, pseudo headers, incremental update.
//!
//! Sums are the partial sums of [`accel`]: plain `u32`, not complemented, addable. A *checksum* is a
//! `u16` ready for its header field.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use accel::{checksum as sum, combine, fold};

/// The checksum of `data` alone.
#[inline]
pub fn of(data: &[u8]) -> u16 {
    !fold(sum(data, 0))
}

/// The partial sum of an IPv4 pseudo header, RFC 9293 section 3.1. `len` is that of the transport
/// header and payload; pass zero where a device that segments wants the sum without it.
#[inline]
pub fn pseudo_v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, len: usize) -> u32 {
    let (s, d) = (src.to_bits(), dst.to_bits());
    (s >> 16) + (s & 0xffff) + (d >> 16) + (d & 0xffff) + u32::from(protocol) + len_sum(len)
}

/// The partial sum of an IPv6 pseudo header, RFC 8200 section 8.1. `len` as for [`pseudo_v4`].
#[inline]
pub fn pseudo_v6(src: Ipv6Addr, dst: Ipv6Addr, protocol: u8, len: usize) -> u32 {
    // Two sums of 32-bit words at most 2^34 each fold to 17 bits.
    let addresses = address_sum(src) + address_sum(dst);
    let folded = (addresses >> 32) + ((addresses >> 16) & 0xffff) + (addresses & 0xffff);
    folded as u32 + u32::from(protocol) + len_sum(len)
}

/// Sum of an address as 32-bit words, which modulo 65535 is that of its 16-bit words.
#[inline]
const fn address_sum(address: Ipv6Addr) -> u64 {
    const LOW: u64 = 0xffff_ffff;
    let bits = address.to_bits();
    let (high, low) = ((bits >> 64) as u64, bits as u64);
    (high >> 32) + (high & LOW) + (low >> 32) + (low & LOW)
}

/// The pseudo header of whichever family both addresses have; `None` if they differ.
#[inline]
pub fn pseudo(src: IpAddr, dst: IpAddr, protocol: u8, len: usize) -> Option<u32> {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Some(pseudo_v4(src, dst, protocol, len)),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Some(pseudo_v6(src, dst, protocol, len)),
        _ => None,
    }
}

/// A length as 32 bits of pseudo header.
#[inline]
const fn len_sum(len: usize) -> u32 {
    (len & 0xffff) as u32 + ((len >> 16) & 0xffff) as u32
}

/// The transport checksum from its parts: a pseudo header sum, the header with its checksum field
/// zero, and the sum of the payload as it was computed when the bytes were copied.
///
/// The header may have any length; after an odd one the payload's sum is byte-swapped.
#[inline]
pub fn finish(pseudo: u32, header: &[u8], payload_sum: u32) -> u16 {
    !fold(combine(sum(header, pseudo), header.len(), payload_sum))
}

/// As [`finish`] for UDP, where a computed zero is sent as `0xffff`, RFC 768.
#[inline]
pub fn finish_udp(pseudo: u32, header: &[u8], payload_sum: u32) -> u16 {
    match finish(pseudo, header, payload_sum) {
        0 => 0xffff,
        checksum => checksum,
    }
}

/// A sum over a byte string that comes in pieces of any length, odd ones included.
#[derive(Clone, Copy, Debug, Default)]
pub struct Accumulator {
    sum: u32,
    odd: bool,
}

impl Accumulator {
    /// Begins with `initial`, usually a pseudo header's sum.
    #[inline]
    pub fn new(initial: u32) -> Self {
        Self { sum: u32::from(fold(initial)), odd: false }
    }

    /// The next bytes.
    #[inline]
    pub fn add(&mut self, bytes: &[u8]) {
        self.add_sum(sum(bytes, 0), bytes.len());
    }

    /// The next `len` bytes, of which the partial sum is known.
    #[inline]
    pub fn add_sum(&mut self, part: u32, len: usize) {
        self.sum = combine(self.sum, usize::from(self.odd), part);
        self.odd ^= len & 1 == 1;
    }

    /// The partial sum of everything so far.
    #[inline]
    pub fn sum(self) -> u32 {
        self.sum
    }

    /// The checksum of everything so far.
    #[inline]
    pub fn checksum(self) -> u16 {
        !fold(self.sum)
    }
}

/// Whether the first `len` bytes of `segments`, checksum field included, and `pseudo` sum up as
/// they should. Bytes beyond `len` (Ethernet padding) do not count; fewer bytes than `len` are
/// wrong.
#[inline]
pub fn verify<'a>(pseudo: u32, segments: impl IntoIterator<Item = &'a [u8]>, len: usize) -> bool {
    let mut total = Accumulator::new(pseudo);
    let mut left = len;
    for segment in segments {
        if left == 0 {
            break;
        }
        let part = segment.get(..left).unwrap_or(segment);
        total.add(part);
        left -= part.len();
    }
    left == 0 && total.checksum() == 0
}

/// The checksum after a 16-bit word covered by it changed from `old` to `new`, RFC 1624 equation 3.
#[inline]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    // HC' = ~(~HC + ~m + m'); the older form of RFC 1141 goes wrong when the result is zero.
    !fold(!checksum as u32 + !old as u32 + new as u32)
}

/// As [`update`] for an aligned 32-bit word (a sequence number, an IPv4 address).
#[inline]
pub const fn update32(checksum: u16, old: u32, new: u32) -> u16 {
    let high = update(checksum, (old >> 16) as u16, (new >> 16) as u16);
    update(high, old as u16, new as u16)
}

/// As [`update`] when bytes at an even offset were replaced by others of any length, given the
/// partial sums of both.
#[inline]
pub const fn update_sum(checksum: u16, old: u32, new: u32) -> u16 {
    update(checksum, fold(old), fold(new))
}

#[cfg(test)]
mod tests;
