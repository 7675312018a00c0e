//! The IPv6 header and its extension headers, RFC 8200.
//!
//! Extension headers are walked over in a loop with a limit. A fragment header ends the walk: what
//! follows it can be parsed only after reassembly. "Atomic" fragments (RFC 6946) are whole packets
//! and treated as such.

use core::net::Ipv6Addr;

use base::DropReason;

use crate::bytes::{chunk, head, room};
use crate::protocol;

/// Bytes of the fixed header.
pub const HEADER_LEN: usize = 40;
/// Extension headers that a packet may have.
pub const EXTENSION_HEADERS_MAX: usize = 8;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;

/// Bytes of a fragment header.
pub const FRAGMENT_HEADER_LEN: usize = 8;

/// Where a fragment belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Offset in the fragmentable part, in bytes; a multiple of eight, at most 65528.
    pub offset: u16,
    /// More fragments follow.
    pub more: bool,
    /// Identification.
    pub id: u32,
}

/// A parsed header with all that precedes the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Header {
    /// Source; never multicast, loopback or IPv4-mapped, and not `dst`. Unspecified only if the
    /// transport is ICMPv6 (duplicate address detection).
    pub src: Ipv6Addr,
    /// Destination; whether it is ours is for the caller.
    pub dst: Ipv6Addr,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Twenty bits.
    pub flow_label: u32,
    /// Hop limit; at least one.
    pub hop_limit: u8,
    /// What is at `transport_offset`: the transport, or for a fragment the first header of the
    /// fragmentable part, which may be another extension header.
    pub protocol: u8,
    /// Where `protocol` was named, in bytes from the start of the header: the pointer of an
    /// ICMPv6 "unrecognized next header".
    pub protocol_at: usize,
    /// Bytes of the header and all extension headers.
    pub transport_offset: usize,
    /// Bytes from `transport_offset` to the end of the packet.
    pub transport_len: usize,
    /// Set if this is a part of a datagram (more than one part, that is).
    pub fragment: Option<Fragment>,
}

impl Ipv6Header {
    /// Bytes of the whole packet; what follows in the frame is padding.
    #[inline]
    pub const fn total_len(&self) -> usize {
        self.transport_offset + self.transport_len
    }
}

/// The ICMPv6 parameter problem by which a refused packet is to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterProblem {
    /// 0 erroneous field, 1 unrecognized next header, 2 unrecognized option.
    pub code: u8,
    /// Offset of the offence from the start of the IPv6 header.
    pub pointer: u32,
}

/// Why a packet was refused, and what the sender is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The counter.
    pub reason: DropReason,
    /// The answer, if there is to be one. The caller limits the rate, and applies the rule of RFC
    /// 4443 section 2.4 on sources that are never answered.
    pub answer: Option<ParameterProblem>,
}

impl Rejection {
    const fn silent(reason: DropReason) -> Self {
        Self { reason, answer: None }
    }

    const fn answered(reason: DropReason, code: u8, pointer: usize) -> Self {
        Self { reason, answer: Some(ParameterProblem { code, pointer: pointer as u32 }) }
    }
}

impl From<DropReason> for Rejection {
    fn from(reason: DropReason) -> Self {
        Self::silent(reason)
    }
}

impl From<Rejection> for DropReason {
    fn from(rejection: Rejection) -> Self {
        rejection.reason
    }
}

/// Parse the header at the front of `bytes` with its extension headers. `frame_len` counts the
/// bytes from here to the end of the frame, over all its segments.
///
/// # Errors
///
/// [`DropReason::IpShort`], [`DropReason::IpVersion`], [`DropReason::IpLength`],
/// [`DropReason::IpTtl`], [`DropReason::IpMartian`], [`DropReason::Ip6Extension`],
/// [`DropReason::Ip6Routing`], and [`DropReason::MbufSplit`] when the headers are not contiguous.
/// Some come with an answer; `?` discards it in a function that fails with [`DropReason`].
#[inline]
pub fn parse(bytes: &[u8], frame_len: usize) -> Result<Ipv6Header, Rejection> {
    let fixed = head::<HEADER_LEN>(bytes, frame_len, DropReason::IpShort)?;
    let [w0, w1, w2, w3, l0, l1, next, hop_limit, addresses @ ..] = *fixed;
    let word = u32::from_be_bytes([w0, w1, w2, w3]);
    if word >> 28 != 6 {
        return Err(Rejection::silent(DropReason::IpVersion));
    }
    // A payload length of zero would need a jumbo option, RFC 2675, which we do not support.
    let payload_len = usize::from(u16::from_be_bytes([l0, l1]));
    if payload_len == 0 || payload_len > frame_len - HEADER_LEN {
        return Err(Rejection::silent(DropReason::IpLength));
    }
    // DEVIATION: RFC 8200 section 3 would have the destination process a hop limit of zero. No
    // router delivers one; we treat it like the TTL of IPv4.
    if hop_limit == 0 {
        return Err(Rejection::silent(DropReason::IpTtl));
    }
    let (src, dst) = split_addresses(&addresses);
    if is_martian(src) || src == dst {
        return Err(Rejection::silent(DropReason::IpMartian));
    }
    let mut header = Ipv6Header {
        src,
        dst,
        traffic_class: (word >> 20) as u8,
        flow_label: word & 0xf_ffff,
        hop_limit,
        protocol: next,
        protocol_at: 6,
        transport_offset: HEADER_LEN,
        transport_len: payload_len,
        fragment: None,
    };
    if is_extension(next) {
        walk_extensions(bytes, &mut header)?;
    }
    // RFC 4291 section 2.5.2; duplicate address detection, RFC 4862, is the exception, and RFC 6980
    // forbids that it is fragmented.
    let detection = header.protocol == protocol::ICMPV6 && header.fragment.is_none();
    if src.is_unspecified() && !detection {
        return Err(Rejection::silent(DropReason::IpMartian));
    }
    Ok(header)
}

#[inline]
pub(crate) fn split_addresses(bytes: &[u8; 32]) -> (Ipv6Addr, Ipv6Addr) {
    let (halves, _) = bytes.as_chunks::<16>();
    match halves {
        [src, dst] => (Ipv6Addr::from(*src), Ipv6Addr::from(*dst)),
        _ => (Ipv6Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED),
    }
}

/// Sources that no packet on a wire can have. The unspecified address is not among them, see
/// [`Ipv6Header::src`].
#[inline]
pub const fn is_martian(src: Ipv6Addr) -> bool {
    src.is_multicast() || src.is_loopback() || matches!(src.segments(), [0, 0, 0, 0, 0, 0xffff, ..])
}

#[inline]
pub(crate) const fn is_extension(next: u8) -> bool {
    matches!(next, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS)
}

/// Walk until `header.protocol` is no extension header, or to a real fragment.
fn walk_extensions(bytes: &[u8], header: &mut Ipv6Header) -> Result<(), Rejection> {
    let end = header.total_len();
    let bad = |pointer| Rejection::answered(DropReason::Ip6Extension, 0, pointer);
    let mut fragment_seen = false;
    for count in 0.. {
        if !is_extension(header.protocol) {
            return Ok(());
        }
        if count == EXTENSION_HEADERS_MAX {
            return Err(Rejection::silent(DropReason::Ip6Extension));
        }
        // RFC 8200 section 4.1: hop-by-hop options directly follow the fixed header, or are an
        // unrecognized next header.
        if header.protocol == HOP_BY_HOP && count != 0 {
            return Err(Rejection::answered(DropReason::Ip6Extension, 1, header.protocol_at));
        }
        let at = header.transport_offset;
        let extension = extension_at(bytes, at, end, header.protocol == FRAGMENT)?;
        match header.protocol {
            FRAGMENT => {
                if fragment_seen {
                    return Err(bad(header.protocol_at));
                }
                fragment_seen = true;
                header.fragment = fragment(extension);
            }
            ROUTING => check_routing(extension, at)?,
            _ => check_options(extension, at, header.dst)?,
        }
        header.protocol = extension.first().copied().unwrap_or(protocol::NO_NEXT_HEADER);
        header.protocol_at = at;
        header.transport_offset += extension.len();
        header.transport_len -= extension.len();
        if header.fragment.is_some() {
            return Ok(());
        }
    }
    Ok(())
}

/// The bytes of the extension header at `at`; it must end by `end`.
fn extension_at(
    bytes: &[u8],
    at: usize,
    end: usize,
    is_fragment: bool,
) -> Result<&[u8], Rejection> {
    if at + 8 > end {
        return Err(Rejection::silent(DropReason::Ip6Extension));
    }
    let [_, units] = chunk(bytes, at).ok_or(DropReason::MbufSplit)?;
    // In a fragment header the second byte is reserved. The most is 2048, so nothing overflows.
    let len = if is_fragment { FRAGMENT_HEADER_LEN } else { 8 + 8 * usize::from(units) };
    if at + len > end {
        return Err(Rejection::silent(DropReason::Ip6Extension));
    }
    Ok(bytes.get(at..at + len).ok_or(DropReason::MbufSplit)?)
}

/// The contents of a fragment header; `None` for an atomic fragment.
fn fragment(extension: &[u8]) -> Option<Fragment> {
    let [_, _, o0, o1, id @ ..] = chunk::<8>(extension, 0)?;
    let field = u16::from_be_bytes([o0, o1]);
    let (offset, more) = (field & 0xfff8, field & 1 == 1);
    (offset != 0 || more).then_some(Fragment { offset, more, id: u32::from_be_bytes(id) })
}

/// RFC 8200 section 4.4 and RFC 5095: without segments left the header is skipped, whatever its
/// type; with some left we recognise no type, and answer pointing at the type.
fn check_routing(extension: &[u8], at: usize) -> Result<(), Rejection> {
    match extension.get(3) {
        Some(0) => Ok(()),
        _ => Err(Rejection::answered(DropReason::Ip6Routing, 0, at + 2)),
    }
}

/// RFC 8200 section 4.2: we know no options but padding, and obey the upper two bits of the others.
fn check_options(extension: &[u8], at: usize, dst: Ipv6Addr) -> Result<(), Rejection> {
    const PAD_1: u8 = 0;
    const PAD_N: u8 = 1;
    let mut offset = 2;
    while let Some(&kind) = extension.get(offset) {
        if kind == PAD_1 {
            offset += 1;
            continue;
        }
        let len = *extension.get(offset + 1).ok_or(DropReason::Ip6Extension)?;
        let next = offset + 2 + usize::from(len);
        if next > extension.len() {
            return Err(Rejection::silent(DropReason::Ip6Extension));
        }
        if kind != PAD_N {
            let problem = Rejection::answered(DropReason::Ip6Extension, 2, at + offset);
            match kind >> 6 {
                0 => {}
                2 => return Err(problem),
                3 if !dst.is_multicast() => return Err(problem),
                _ => return Err(Rejection::silent(DropReason::Ip6Extension)),
            }
        }
        offset = next;
    }
    Ok(())
}

/// What [`emit`] writes. There are no extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Fields {
    /// Source.
    pub src: Ipv6Addr,
    /// Destination.
    pub dst: Ipv6Addr,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Twenty bits; higher ones are cut off.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// What follows.
    pub next_header: u8,
    /// Bytes that follow.
    pub payload_len: u16,
}

/// Write a header. Returns the bytes written, [`HEADER_LEN`].
///
/// # Panics
///
/// If `out` is shorter than that.
#[inline]
pub fn emit(out: &mut [u8], fields: &Ipv6Fields) -> usize {
    let out = room::<HEADER_LEN>(out);
    let word = 6 << 28 | u32::from(fields.traffic_class) << 20 | fields.flow_label & 0xf_ffff;
    out[..4].copy_from_slice(&word.to_be_bytes());
    out[4..6].copy_from_slice(&fields.payload_len.to_be_bytes());
    out[6..8].copy_from_slice(&[fields.next_header, fields.hop_limit]);
    out[8..24].copy_from_slice(&fields.src.octets());
    out[24..].copy_from_slice(&fields.dst.octets());
    HEADER_LEN
}

#[cfg(test)]
mod tests;
