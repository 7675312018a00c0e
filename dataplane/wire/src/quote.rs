//! The packet that an ICMP error quotes: enough of it to find the connection and to check, as RFC
//! 5927 section 4 asks, that we really sent it.

use core::net::{IpAddr, Ipv4Addr};

use base::DropReason;

use crate::bytes::{be16, be32, chunk};
use crate::flow::FlowKey;
use crate::{ipv4, ipv6, protocol};

/// Bytes of the transport header that must have been quoted: both ports and a sequence number.
const TRANSPORT_LEN_MIN: usize = 8;

/// What is known of a quoted packet. It claims to be one of ours, so `src` should be us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote {
    /// Source, that is the alleged sender.
    pub src: IpAddr,
    /// Destination.
    pub dst: IpAddr,
    /// Transport protocol.
    pub protocol: u8,
    /// Source and destination port, for TCP and UDP.
    pub ports: Option<(u16, u16)>,
    /// Sequence number, for TCP.
    pub tcp_seq: Option<u32>,
}

impl Quote {
    /// The connection that it belongs to, with the alleged sender as the local side.
    #[inline]
    pub fn flow_key(&self) -> Option<FlowKey> {
        let (src_port, dst_port) = self.ports?;
        FlowKey::from_parts(self.src, src_port, self.dst, dst_port)
    }

    fn new(
        src: IpAddr,
        dst: IpAddr,
        protocol: u8,
        transport: Option<&[u8]>,
    ) -> Result<Self, DropReason> {
        let mut quote = Self { src, dst, protocol, ports: None, tcp_seq: None };
        let Some(transport) = transport else { return Ok(quote) };
        if transport.len() < TRANSPORT_LEN_MIN {
            return Err(DropReason::IcmpShort);
        }
        if matches!(protocol, protocol::TCP | protocol::UDP) {
            quote.ports = be16(transport, 0).zip(be16(transport, 2));
        }
        if protocol == protocol::TCP {
            quote.tcp_seq = be32(transport, 4);
        }
        Ok(quote)
    }
}

/// Parse a quoted IPv4 packet. Its total length says nothing, since quotes are cut.
///
/// # Errors
///
/// [`DropReason::IcmpShort`] if less than the header and eight bytes were quoted, or the header
/// cannot be one of IPv4.
pub fn parse_v4(bytes: &[u8]) -> Result<Quote, DropReason> {
    let fixed = bytes.first_chunk::<{ ipv4::HEADER_LEN }>().ok_or(DropReason::IcmpShort)?;
    let [version, _, _, _, _, _, f0, f1, _, protocol, _, _, addresses @ ..] = *fixed;
    let [s0, s1, s2, s3, d0, d1, d2, d3] = addresses;
    let header_len = usize::from(version & 0xf) * 4;
    if version >> 4 != 4 || header_len < ipv4::HEADER_LEN {
        return Err(DropReason::IcmpShort);
    }
    let transport = bytes.get(header_len..).ok_or(DropReason::IcmpShort)?;
    // Only the first fragment has the transport header.
    let first = u16::from_be_bytes([f0, f1]) & 0x1fff == 0;
    let src = IpAddr::V4(Ipv4Addr::new(s0, s1, s2, s3));
    let dst = IpAddr::V4(Ipv4Addr::new(d0, d1, d2, d3));
    Quote::new(src, dst, protocol, first.then_some(transport))
}

/// Parse a quoted IPv6 packet, over its extension headers.
///
/// # Errors
///
/// [`DropReason::IcmpShort`] if it ends before eight bytes of transport header, has more than
/// [`ipv6::EXTENSION_HEADERS_MAX`] extension headers, or cannot be IPv6.
pub fn parse_v6(bytes: &[u8]) -> Result<Quote, DropReason> {
    const FRAGMENT: u8 = 44;
    let fixed = bytes.first_chunk::<{ ipv6::HEADER_LEN }>().ok_or(DropReason::IcmpShort)?;
    let [version, _, _, _, _, _, next, _, addresses @ ..] = *fixed;
    if version >> 4 != 6 {
        return Err(DropReason::IcmpShort);
    }
    let (src, dst) = ipv6::split_addresses(&addresses);
    let (src, dst) = (IpAddr::V6(src), IpAddr::V6(dst));
    let mut protocol = next;
    let mut at = ipv6::HEADER_LEN;
    for _ in 0..=ipv6::EXTENSION_HEADERS_MAX {
        if !ipv6::is_extension(protocol) {
            let transport = bytes.get(at..).ok_or(DropReason::IcmpShort)?;
            return Quote::new(src, dst, protocol, Some(transport));
        }
        let [following, units, o0, o1] = chunk(bytes, at).ok_or(DropReason::IcmpShort)?;
        if protocol == FRAGMENT && u16::from_be_bytes([o0, o1]) & 0xfff8 != 0 {
            return Quote::new(src, dst, following, None);
        }
        at += if protocol == FRAGMENT { 8 } else { 8 + 8 * usize::from(units) };
        protocol = following;
    }
    Err(DropReason::IcmpShort)
}

#[cfg(test)]
mod tests;
