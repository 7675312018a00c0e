//! The TCP header and its options, RFC 9293 section 3.1.

mod options;

#[cfg(test)]
mod tests;

use base::{DropReason, TcpFlags};

use crate::bytes::{head, room};
pub use options::{OPTIONS_LEN_MAX, SACK_BLOCKS_MAX, TcpOptions, kind as option_kind};

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;
/// Bytes of a header with all the options it can have.
pub const HEADER_LEN_MAX: usize = 60;
/// Where the checksum field is.
const CHECKSUM_AT: usize = 16;

/// A parsed header: `20 <= header_len <= l4_len`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpHeader {
    /// Source port; never zero.
    pub src_port: u16,
    /// Destination port; never zero.
    pub dst_port: u16,
    /// Sequence number of the first byte, or of the SYN.
    pub seq: u32,
    /// Acknowledgement number, if the ACK flag is set.
    pub ack: u32,
    /// Control bits.
    pub flags: TcpFlags,
    /// Window as it stands in the header, not scaled.
    pub window: u16,
    /// Urgent pointer, if the URG flag is set; data are delivered in line, RFC 9293 section 3.8.5. Any value can come: no buffer arithmetic on it.
    pub urgent: u16,
    /// Bytes of the header with options.
    pub header_len: usize,
    /// The checksum field.
    pub checksum: u16,
}

/// Parse the header at the front of `bytes` with its options. `l4_len` counts the bytes that the
/// IP header grants. The checksum is not verified here, see [`crate::checksum::verify`], nor are
/// the flags, see [`check_flags`].
///
/// # Errors
///
/// [`DropReason::TcpShort`], [`DropReason::TcpOffset`], [`DropReason::TcpPortZero`],
/// [`DropReason::TcpOption`], and [`DropReason::MbufSplit`] when the header is not contiguous.
#[inline]
pub fn parse(bytes: &[u8], l4_len: usize) -> Result<(TcpHeader, TcpOptions), DropReason> {
    let fixed = head::<HEADER_LEN>(bytes, l4_len, DropReason::TcpShort)?;
    let header = fixed_header(fixed);
    if header.header_len < HEADER_LEN || header.header_len > l4_len {
        return Err(DropReason::TcpOffset);
    }
    let options = bytes.get(HEADER_LEN..header.header_len).ok_or(DropReason::MbufSplit)?;
    if header.src_port == 0 || header.dst_port == 0 {
        return Err(DropReason::TcpPortZero);
    }
    Ok((header, options::parse(options, header.flags.syn())?))
}

#[inline]
pub(crate) fn fixed_header(fixed: &[u8; HEADER_LEN]) -> TcpHeader {
    let [s0, s1, d0, d1, q0, q1, q2, q3, a0, a1, a2, a3, o, f, w0, w1, c0, c1, u0, u1] = *fixed;
    TcpHeader {
        src_port: u16::from_be_bytes([s0, s1]),
        dst_port: u16::from_be_bytes([d0, d1]),
        seq: u32::from_be_bytes([q0, q1, q2, q3]),
        ack: u32::from_be_bytes([a0, a1, a2, a3]),
        flags: TcpFlags::from_bits(u16::from_be_bytes([o, f])),
        window: u16::from_be_bytes([w0, w1]),
        urgent: u16::from_be_bytes([u0, u1]),
        header_len: usize::from(o >> 4) * 4,
        checksum: u16::from_be_bytes([c0, c1]),
    }
}

/// Refuse combinations of flags that no state can use.
///
/// A reset may come with anything but SYN: middle boxes copy other flags into it.
///
/// # Errors
///
/// [`DropReason::TcpFlags`] for SYN with FIN or RST; [`DropReason::TcpNoAck`] when neither SYN, RST
/// nor ACK is set (no flags at all, a lone FIN, the "Xmas" scan), since RFC 9293 section 3.10.7
/// drops such a segment in each state.
#[inline]
pub const fn check_flags(flags: TcpFlags) -> Result<(), DropReason> {
    if flags.syn() && flags.intersects(TcpFlags::FIN.union(TcpFlags::RST)) {
        return Err(DropReason::TcpFlags);
    }
    if !flags.intersects(TcpFlags::SYN.union(TcpFlags::RST).union(TcpFlags::ACK)) {
        return Err(DropReason::TcpNoAck);
    }
    Ok(())
}

/// What [`emit`] writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpFields {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number; must be zero without the ACK flag.
    pub ack: u32,
    /// Control bits.
    pub flags: TcpFlags,
    /// Window, already scaled down.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options. SACK blocks beyond the room that the others leave are not written (three fit
    /// besides timestamps).
    pub options: TcpOptions,
}

impl TcpFields {
    /// Bytes that [`emit`] will write: a multiple of four, at most [`HEADER_LEN_MAX`].
    #[inline]
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.options.encoded_len()
    }
}

/// Write a header with its options; the checksum field is zero. Returns the bytes written,
/// [`TcpFields::header_len`].
///
/// # Panics
///
/// If `out` is shorter than that.
#[inline]
pub fn emit(out: &mut [u8], fields: &TcpFields) -> usize {
    let options_len = options::emit(&mut out[HEADER_LEN..], &fields.options);
    let header_len = HEADER_LEN + options_len;
    let out = room::<HEADER_LEN>(out);
    out[..2].copy_from_slice(&fields.src_port.to_be_bytes());
    out[2..4].copy_from_slice(&fields.dst_port.to_be_bytes());
    out[4..8].copy_from_slice(&fields.seq.to_be_bytes());
    out[8..12].copy_from_slice(&fields.ack.to_be_bytes());
    // The data offset counts words of four bytes in the upper four bits.
    let offset_and_flags = ((header_len as u16) << 10) | fields.flags.bits();
    out[12..14].copy_from_slice(&offset_and_flags.to_be_bytes());
    out[14..16].copy_from_slice(&fields.window.to_be_bytes());
    out[16..18].copy_from_slice(&[0, 0]);
    out[18..].copy_from_slice(&fields.urgent.to_be_bytes());
    header_len
}

/// Set the checksum of a header written before.
///
/// # Panics
///
/// If `header` is shorter than a header.
#[inline]
pub fn set_checksum(header: &mut [u8], checksum: u16) {
    room::<HEADER_LEN>(header)[CHECKSUM_AT..CHECKSUM_AT + 2]
        .copy_from_slice(&checksum.to_be_bytes());
}
