//! UDP, RFC 768.

use base::DropReason;

use crate::bytes::{head, room};

/// Bytes of a header.
pub const HEADER_LEN: usize = 8;

/// A parsed header: `8 <= len <= l4_len`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpHeader {
    /// Source port; zero means that no answer is expected.
    pub src_port: u16,
    /// Destination port; never zero.
    pub dst_port: u16,
    /// Bytes of header and payload.
    pub len: usize,
    /// The checksum field; zero means none, which IPv6 forbids outside of RFC 6935's tunnels.
    pub checksum: u16,
}

impl UdpHeader {
    /// Bytes of payload.
    #[inline]
    pub const fn payload_len(&self) -> usize {
        self.len - HEADER_LEN
    }
}

/// Parse the header at the front of `bytes`. `l4_len` counts the bytes that the IP header grants.
/// The checksum is not verified here, see [`crate::checksum::verify`].
///
/// # Errors
///
/// [`DropReason::UdpBad`], and [`DropReason::MbufSplit`] when the header is not contiguous.
#[inline]
pub fn parse(bytes: &[u8], l4_len: usize) -> Result<UdpHeader, DropReason> {
    let [s0, s1, d0, d1, l0, l1, c0, c1] = *head::<HEADER_LEN>(bytes, l4_len, DropReason::UdpBad)?;
    let header = UdpHeader {
        src_port: u16::from_be_bytes([s0, s1]),
        dst_port: u16::from_be_bytes([d0, d1]),
        len: usize::from(u16::from_be_bytes([l0, l1])),
        checksum: u16::from_be_bytes([c0, c1]),
    };
    if header.len < HEADER_LEN || header.len > l4_len || header.dst_port == 0 {
        return Err(DropReason::UdpBad);
    }
    Ok(header)
}

/// Write a header for `len` bytes of header and payload. Returns the bytes written,
/// [`HEADER_LEN`].
///
/// # Panics
///
/// If `out` is shorter than that.
#[inline]
pub fn emit(out: &mut [u8], src_port: u16, dst_port: u16, len: u16, checksum: u16) -> usize {
    let out = room::<HEADER_LEN>(out);
    out[..2].copy_from_slice(&src_port.to_be_bytes());
    out[2..4].copy_from_slice(&dst_port.to_be_bytes());
    out[4..6].copy_from_slice(&len.to_be_bytes());
    out[6..].copy_from_slice(&checksum.to_be_bytes());
    HEADER_LEN
}

/// Set the checksum of a header written before.
///
/// # Panics
///
/// If `header` is shorter than a header.
#[inline]
pub fn set_checksum(header: &mut [u8], checksum: u16) {
    room::<HEADER_LEN>(header)[6..].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests;
