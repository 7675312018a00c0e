//! ICMP for IPv4, RFC 792: echo, and the errors that concern a connection.

use base::DropReason;

use crate::bytes::{head, room};
use crate::checksum::{self, combine, fold, sum};
use crate::quote::{self, Quote};

/// Bytes of a header.
pub const HEADER_LEN: usize = 8;
/// Bytes of a packet that an error of ours quotes at most: an error fits 576 bytes, RFC 1812
/// section 4.3.2.3.
pub const QUOTE_LEN_MAX: usize = 576 - 20 - HEADER_LEN;

/// Code of "unreachable": port.
pub const UNREACHABLE_PORT: u8 = 3;
/// Code of "unreachable": protocol.
pub const UNREACHABLE_PROTOCOL: u8 = 2;

const ECHO_REPLY: u8 = 0;
const UNREACHABLE: u8 = 3;
const SOURCE_QUENCH: u8 = 4;
const REDIRECT: u8 = 5;
const ECHO_REQUEST: u8 = 8;
const TIME_EXCEEDED: u8 = 11;
const PARAMETER_PROBLEM: u8 = 12;
const CODE_FRAGMENTATION_NEEDED: u8 = 4;

/// A message that means something to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icmpv4Message {
    /// To be answered with the same data, which begins after the header.
    EchoRequest {
        /// Identifier.
        ident: u16,
        /// Sequence number.
        sequence: u16,
    },
    /// The answer to such a request.
    EchoReply {
        /// Identifier.
        ident: u16,
        /// Sequence number.
        sequence: u16,
    },
    /// A packet of ours was too large for a link, RFC 1191.
    FragmentationNeeded {
        /// MTU of that link as sent; zero from routers older than RFC 1191.
        mtu: u16,
        /// The packet.
        quote: Quote,
    },
    /// A packet of ours could not be delivered for another reason.
    Unreachable {
        /// Which; never 4.
        code: u8,
        /// The packet.
        quote: Quote,
    },
    /// A packet of ours lived too long, or was not reassembled in time.
    TimeExceeded {
        /// Zero: in transit, one: in reassembly.
        code: u8,
        /// The packet.
        quote: Quote,
    },
    /// A packet of ours had a header that somebody did not like.
    ParameterProblem {
        /// Zero: `pointer` tells where.
        code: u8,
        /// Offset in the packet.
        pointer: u8,
        /// The packet.
        quote: Quote,
    },
}

/// Parse the message at the front of `bytes`. `l4_len` counts the bytes that the IP header grants.
/// The checksum is not verified here, see [`verify_checksum`].
///
/// # Errors
///
/// [`DropReason::IcmpShort`] (quotes included), [`DropReason::IcmpUnknown`] (source quench too, RFC
/// 6633), [`DropReason::NeighborIgnored`] (redirect), and [`DropReason::MbufSplit`] when what is
/// looked at is not contiguous.
pub fn parse(bytes: &[u8], l4_len: usize) -> Result<Icmpv4Message, DropReason> {
    let fixed = head::<HEADER_LEN>(bytes, l4_len, DropReason::IcmpShort)?;
    let [kind, code, _, _, pointer, _, r2, r3] = *fixed;
    let ident = u16::from_be_bytes([fixed[4], fixed[5]]);
    let low = u16::from_be_bytes([r2, r3]);
    let message = bytes.get(..l4_len).unwrap_or(bytes);
    let quoted = || match quote::parse_v4(&message[HEADER_LEN..]) {
        Err(DropReason::IcmpShort) if message.len() < l4_len => Err(DropReason::MbufSplit),
        other => other,
    };
    Ok(match kind {
        ECHO_REQUEST => Icmpv4Message::EchoRequest { ident, sequence: low },
        ECHO_REPLY => Icmpv4Message::EchoReply { ident, sequence: low },
        UNREACHABLE if code == CODE_FRAGMENTATION_NEEDED => {
            Icmpv4Message::FragmentationNeeded { mtu: low, quote: quoted()? }
        }
        UNREACHABLE => Icmpv4Message::Unreachable { code, quote: quoted()? },
        TIME_EXCEEDED => Icmpv4Message::TimeExceeded { code, quote: quoted()? },
        PARAMETER_PROBLEM => Icmpv4Message::ParameterProblem { code, pointer, quote: quoted()? },
        REDIRECT => return Err(DropReason::NeighborIgnored),
        _ => return Err(DropReason::IcmpUnknown),
    })
}

/// Whether messages of type `kind` are errors, to which no error is sent (RFC 1122 section 3.2.2).
#[inline]
pub const fn is_error(kind: u8) -> bool {
    matches!(kind, UNREACHABLE | SOURCE_QUENCH | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM)
}

/// Verify the checksum over `len` bytes of message in `segments`.
///
/// # Errors
///
/// [`DropReason::IcmpChecksum`].
#[inline]
pub fn verify_checksum<'a>(
    segments: impl IntoIterator<Item = &'a [u8]>,
    len: usize,
) -> Result<(), DropReason> {
    if checksum::verify(0, segments, len) { Ok(()) } else { Err(DropReason::IcmpChecksum) }
}

/// Request or reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EchoKind {
    /// Somebody is asked.
    Request,
    /// Somebody is answered.
    Reply,
}

/// Write an echo header for data, to be placed behind it, with the partial sum `data_sum`. Returns
/// the bytes written, [`HEADER_LEN`].
///
/// # Panics
///
/// If `out` is shorter than that.
pub fn emit_echo(
    out: &mut [u8],
    kind: EchoKind,
    ident: u16,
    sequence: u16,
    data_sum: u32,
) -> usize {
    let kind = match kind {
        EchoKind::Request => ECHO_REQUEST,
        EchoKind::Reply => ECHO_REPLY,
    };
    let rest = u32::from(ident) << 16 | u32::from(sequence);
    header(room(out), kind, 0, rest, data_sum);
    HEADER_LEN
}

/// An error that we report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icmpv4Error {
    /// Not deliverable, with the code that says why (not 4).
    Unreachable(u8),
    /// Too large for the next link, whose MTU this is.
    FragmentationNeeded(u16),
    /// Lived too long (0) or was not reassembled in time (1).
    TimeExceeded(u8),
    /// Bad header at this offset.
    ParameterProblem(u8),
}

/// Write an error about the packet of which `packet` has the first bytes (at least the header and
/// eight more; at most [`QUOTE_LEN_MAX`] are quoted). Returns the bytes written.
///
/// # Panics
///
/// If `out` has no room for that.
pub fn emit_error(out: &mut [u8], error: Icmpv4Error, packet: &[u8]) -> usize {
    let (kind, code, rest) = match error {
        Icmpv4Error::Unreachable(code) => (UNREACHABLE, code, 0),
        Icmpv4Error::FragmentationNeeded(mtu) => {
            (UNREACHABLE, CODE_FRAGMENTATION_NEEDED, u32::from(mtu))
        }
        Icmpv4Error::TimeExceeded(code) => (TIME_EXCEEDED, code, 0),
        Icmpv4Error::ParameterProblem(pointer) => (PARAMETER_PROBLEM, 0, u32::from(pointer) << 24),
    };
    let quoted = &packet[..packet.len().min(QUOTE_LEN_MAX)];
    out[HEADER_LEN..HEADER_LEN + quoted.len()].copy_from_slice(quoted);
    header(room(out), kind, code, rest, sum(quoted, 0));
    HEADER_LEN + quoted.len()
}

fn header(out: &mut [u8; HEADER_LEN], kind: u8, code: u8, rest: u32, data_sum: u32) {
    out[..4].copy_from_slice(&[kind, code, 0, 0]);
    out[4..].copy_from_slice(&rest.to_be_bytes());
    let checksum = !fold(combine(sum(out, 0), HEADER_LEN, data_sum));
    out[2..4].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests;
