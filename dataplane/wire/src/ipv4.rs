//! The IPv4 header, RFC 791. Options are skipped; source routes are refused.

use core::net::Ipv4Addr;

use base::DropReason;

use crate::bytes::{head, room};
use crate::checksum;

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;
/// Bytes of a header with all the options it can have.
pub const HEADER_LEN_MAX: usize = 60;

/// Where a fragment belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Offset of the payload in the datagram, in bytes; a multiple of eight, at most 65528.
    pub offset: u16,
    /// More fragments follow.
    pub more: bool,
}

/// A parsed header: `20 <= header_len <= total_len <= frame`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Header {
    /// Source; never multicast, broadcast, loopback or unspecified, and not `dst`.
    pub src: Ipv4Addr,
    /// Destination; whether it is ours is for the caller.
    pub dst: Ipv4Addr,
    /// What the payload is, see [`crate::protocol`].
    pub protocol: u8,
    /// Time to live; at least one.
    pub ttl: u8,
    /// DSCP and ECN.
    pub tos: u8,
    /// Identification.
    pub ident: u16,
    /// Bytes of the header with options.
    pub header_len: usize,
    /// Bytes of header and payload; what follows them in the frame is padding.
    pub total_len: usize,
    /// Routers must not fragment.
    pub dont_fragment: bool,
    /// Set if this is a part of a datagram.
    pub fragment: Option<Fragment>,
}

impl Ipv4Header {
    /// Bytes of payload.
    #[inline]
    pub const fn payload_len(&self) -> usize {
        self.total_len - self.header_len
    }
}

/// Parse the header at the front of `bytes`. `frame_len` counts the bytes from here to the end of
/// the frame, over all its segments.
///
/// # Errors
///
/// [`DropReason::IpShort`], [`DropReason::IpVersion`], [`DropReason::IpHeaderLen`],
/// [`DropReason::IpLength`], [`DropReason::IpChecksum`], [`DropReason::IpTtl`],
/// [`DropReason::IpMartian`], [`DropReason::IpOption`], [`DropReason::IpSourceRoute`], and
/// [`DropReason::MbufSplit`] when the header is not contiguous.
#[inline]
pub fn parse(
    bytes: &[u8],
    frame_len: usize,
    verify_checksum: bool,
) -> Result<Ipv4Header, DropReason> {
    let fixed = head::<HEADER_LEN>(bytes, frame_len, DropReason::IpShort)?;
    let [version, tos, l0, l1, i0, i1, f0, f1, ttl, protocol, _, _, addresses @ ..] = *fixed;
    let [s0, s1, s2, s3, d0, d1, d2, d3] = addresses;
    if version >> 4 != 4 {
        return Err(DropReason::IpVersion);
    }
    let header_len = usize::from(version & 0xf) * 4;
    let total_len = usize::from(u16::from_be_bytes([l0, l1]));
    if header_len < HEADER_LEN || header_len > frame_len {
        return Err(DropReason::IpHeaderLen);
    }
    if total_len < HEADER_LEN || total_len > frame_len {
        return Err(DropReason::IpLength);
    }
    if header_len > total_len {
        return Err(DropReason::IpHeaderLen);
    }
    let header = bytes.get(..header_len).ok_or(DropReason::MbufSplit)?;
    if verify_checksum {
        // Of a known length, the sum is a handful of additions.
        let sum = if header_len == HEADER_LEN { checksum::of(fixed) } else { checksum::of(header) };
        if sum != 0 {
            return Err(DropReason::IpChecksum);
        }
    }
    if ttl == 0 {
        return Err(DropReason::IpTtl);
    }
    let src = Ipv4Addr::new(s0, s1, s2, s3);
    let dst = Ipv4Addr::new(d0, d1, d2, d3);
    if is_martian(src) || src == dst {
        return Err(DropReason::IpMartian);
    }
    if header_len > HEADER_LEN {
        check_options(&header[HEADER_LEN..])?;
    }
    let flags = u16::from_be_bytes([f0, f1]);
    let offset = (flags & 0x1fff) << 3;
    let more = flags & 0x2000 != 0;
    Ok(Ipv4Header {
        src,
        dst,
        protocol,
        ttl,
        tos,
        ident: u16::from_be_bytes([i0, i1]),
        header_len,
        total_len,
        dont_fragment: flags & 0x4000 != 0,
        fragment: (offset != 0 || more).then_some(Fragment { offset, more }),
    })
}

/// Sources that no packet on a wire can have, whatever our addresses are: RFC 1122 section
/// 3.2.1.3.
#[inline]
pub const fn is_martian(src: Ipv4Addr) -> bool {
    let first = src.octets()[0];
    first == 0 || src.is_loopback() || src.is_multicast() || src.is_broadcast()
}

/// Walk over options: each advances by at least one byte.
fn check_options(mut options: &[u8]) -> Result<(), DropReason> {
    const END: u8 = 0;
    const NOP: u8 = 1;
    const LOOSE_SOURCE_ROUTE: u8 = 131;
    const STRICT_SOURCE_ROUTE: u8 = 137;
    while let [kind, rest @ ..] = options {
        match *kind {
            END => return Ok(()),
            NOP => options = rest,
            kind => {
                let len = usize::from(*rest.first().ok_or(DropReason::IpOption)?);
                if len < 2 {
                    return Err(DropReason::IpOption);
                }
                options = options.get(len..).ok_or(DropReason::IpOption)?;
                if kind == LOOSE_SOURCE_ROUTE || kind == STRICT_SOURCE_ROUTE {
                    return Err(DropReason::IpSourceRoute);
                }
            }
        }
    }
    Ok(())
}

/// Who fills in the header checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderChecksum {
    /// We do, now.
    Compute,
    /// The device does; the field is zero.
    Offload,
}

/// What [`emit`] writes. There are no options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Fields {
    /// Source.
    pub src: Ipv4Addr,
    /// Destination.
    pub dst: Ipv4Addr,
    /// What the payload is.
    pub protocol: u8,
    /// Time to live.
    pub ttl: u8,
    /// DSCP and ECN.
    pub tos: u8,
    /// Identification; zero is right for datagrams that are never fragmented, RFC 6864.
    pub ident: u16,
    /// Routers must not fragment.
    pub dont_fragment: bool,
    /// Bytes of header and payload; at least 20.
    pub total_len: u16,
}

/// Write a header. Returns the bytes written, [`HEADER_LEN`].
///
/// # Panics
///
/// If `out` is shorter than that.
#[inline]
pub fn emit(out: &mut [u8], fields: &Ipv4Fields, header_checksum: HeaderChecksum) -> usize {
    let out = room::<HEADER_LEN>(out);
    out[..2].copy_from_slice(&[0x45, fields.tos]);
    out[2..4].copy_from_slice(&fields.total_len.to_be_bytes());
    out[4..6].copy_from_slice(&fields.ident.to_be_bytes());
    let flags = if fields.dont_fragment { 0x40 } else { 0 };
    out[6..12].copy_from_slice(&[flags, 0, fields.ttl, fields.protocol, 0, 0]);
    out[12..16].copy_from_slice(&fields.src.octets());
    out[16..].copy_from_slice(&fields.dst.octets());
    if header_checksum == HeaderChecksum::Compute {
        let checksum = checksum::of(out);
        out[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
    HEADER_LEN
}

#[cfg(test)]
mod tests;
