//! Ethernet II frames with at most two VLAN tags, RFC 894 and IEEE 802.1Q.

use core::fmt;
use core::net::Ipv6Addr;

use base::DropReason;

use crate::bytes::{be16, room};

/// Bytes of a header without tags.
pub const HEADER_LEN: usize = 14;
/// Bytes that one VLAN tag adds.
pub const VLAN_TAG_LEN: usize = 4;
/// Tags that are parsed; more are refused, so that the work per frame is bounded.
pub const VLAN_TAGS_MAX: usize = 2;
/// Values below are 802.3 lengths and not types.
const ETHERTYPE_MIN: u16 = 0x0600;

/// A hardware address.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// All ones.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// All zeros: no address.
    pub const ZERO: Self = Self([0; 6]);

    /// A group address; broadcast is one.
    #[inline]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// The broadcast address.
    #[inline]
    pub fn is_broadcast(self) -> bool {
        self == Self::BROADCAST
    }

    /// The zero address.
    #[inline]
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// Whether a station can have it: neither a group nor zero.
    #[inline]
    pub fn is_station(self) -> bool {
        !self.is_multicast() && !self.is_zero()
    }

    /// Where IPv6 packets for the group `address` go, RFC 2464 section 7.
    #[inline]
    pub const fn of_ipv6_multicast(address: Ipv6Addr) -> Self {
        let o = address.octets();
        Self([0x33, 0x33, o[12], o[13], o[14], o[15]])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<[u8; 6]> for Mac {
    fn from(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }
}

/// What a frame carries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: Self = Self(0x0800);
    /// Address resolution.
    pub const ARP: Self = Self(0x0806);
    /// IPv6.
    pub const IPV6: Self = Self(0x86dd);
    /// A VLAN tag, 802.1Q.
    pub const VLAN: Self = Self(0x8100);
    /// A service VLAN tag, 802.1ad.
    pub const QINQ: Self = Self(0x88a8);
    /// A service VLAN tag as used before 802.1ad.
    pub const QINQ_OLD: Self = Self(0x9100);

    /// Whether a VLAN tag follows.
    #[inline]
    pub const fn is_vlan(self) -> bool {
        matches!(self, Self::VLAN | Self::QINQ | Self::QINQ_OLD)
    }
}

impl fmt::Debug for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:04x}", self.0)
    }
}

/// A parsed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetHeader {
    /// Destination.
    pub dst: Mac,
    /// Source; always that of a station.
    pub src: Mac,
    /// Tag control information (priority and VLAN number) of the outermost tag.
    pub vlan: Option<u16>,
    /// The same of the second tag.
    pub inner_vlan: Option<u16>,
    /// What follows after all tags; never a length nor a tag.
    pub ethertype: EtherType,
    /// Bytes up to what follows: 14, 18 or 22.
    pub len: usize,
}

/// Parse the header at the front of a frame. Whether the destination is ours is for the caller.
///
/// # Errors
///
/// [`DropReason::L2Short`], [`DropReason::VlanBad`] (truncated, or a third tag),
/// [`DropReason::L2Unknown`] (an 802.3 length), [`DropReason::L2BadSource`].
#[inline]
pub fn parse(frame: &[u8]) -> Result<EthernetHeader, DropReason> {
    let head = frame.first_chunk::<HEADER_LEN>().ok_or(DropReason::L2Short)?;
    let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *head;
    let mut header = EthernetHeader {
        dst: Mac([d0, d1, d2, d3, d4, d5]),
        src: Mac([s0, s1, s2, s3, s4, s5]),
        vlan: None,
        inner_vlan: None,
        ethertype: EtherType(u16::from_be_bytes([t0, t1])),
        len: HEADER_LEN,
    };
    if header.ethertype.is_vlan() {
        parse_tags(frame, &mut header)?;
    }
    if header.ethertype.0 < ETHERTYPE_MIN {
        return Err(DropReason::L2Unknown);
    }
    if !header.src.is_station() {
        return Err(DropReason::L2BadSource);
    }
    Ok(header)
}

fn parse_tags(frame: &[u8], header: &mut EthernetHeader) -> Result<(), DropReason> {
    for _ in 0..VLAN_TAGS_MAX {
        let tci = be16(frame, header.len).ok_or(DropReason::VlanBad)?;
        let next = be16(frame, header.len + 2).ok_or(DropReason::VlanBad)?;
        if header.vlan.is_none() {
            header.vlan = Some(tci);
        } else {
            header.inner_vlan = Some(tci);
        }
        header.ethertype = EtherType(next);
        header.len += VLAN_TAG_LEN;
        if !header.ethertype.is_vlan() {
            return Ok(());
        }
    }
    Err(DropReason::VlanBad)
}

/// Bytes that [`emit`] writes.
#[inline]
pub const fn header_len(vlan: Option<u16>) -> usize {
    if vlan.is_some() { HEADER_LEN + VLAN_TAG_LEN } else { HEADER_LEN }
}

/// Write a header, with an 802.1Q tag if `vlan` has its control information. Returns the bytes
/// written.
///
/// # Panics
///
/// If `out` is shorter than [`header_len`].
#[inline]
pub fn emit(out: &mut [u8], dst: Mac, src: Mac, vlan: Option<u16>, ethertype: EtherType) -> usize {
    let addresses = room::<12>(out);
    addresses[..6].copy_from_slice(&dst.0);
    addresses[6..].copy_from_slice(&src.0);
    let rest = &mut out[12..];
    match vlan {
        None => {
            *room::<2>(rest) = ethertype.0.to_be_bytes();
            HEADER_LEN
        }
        Some(tci) => {
            let tag = room::<6>(rest);
            tag[..2].copy_from_slice(&EtherType::VLAN.0.to_be_bytes());
            tag[2..4].copy_from_slice(&tci.to_be_bytes());
            tag[4..].copy_from_slice(&ethertype.0.to_be_bytes());
            HEADER_LEN + VLAN_TAG_LEN
        }
    }
}

#[cfg(test)]
mod tests;
