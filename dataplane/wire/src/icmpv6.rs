//! ICMP for IPv6, RFC 4443: echo, and the errors that concern a connection. Neighbour discovery is
//! in [`crate::ndp`].

use core::net::Ipv6Addr;

use base::DropReason;

use crate::bytes::{head, room};
use crate::checksum::{self, combine, fold, pseudo_v6, sum};
pub use crate::icmpv4::EchoKind;
use crate::protocol;
use crate::quote::{self, Quote};

/// Bytes of a header.
pub const HEADER_LEN: usize = 8;
/// Bytes of a packet that an error of ours quotes at most: an error fits the minimum MTU, RFC 4443
/// section 2.4.
pub const QUOTE_LEN_MAX: usize = 1280 - 40 - HEADER_LEN;

/// Code of "unreachable": port.
pub const UNREACHABLE_PORT: u8 = 4;
/// Code of "parameter problem": unrecognized next header.
pub const UNRECOGNIZED_NEXT_HEADER: u8 = 1;

const UNREACHABLE: u8 = 1;
const PACKET_TOO_BIG: u8 = 2;
const TIME_EXCEEDED: u8 = 3;
const PARAMETER_PROBLEM: u8 = 4;
const ECHO_REQUEST: u8 = 128;
const ECHO_REPLY: u8 = 129;

/// A message that means something to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icmpv6Message {
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
    /// A packet of ours was too large for a link, RFC 8201.
    PacketTooBig {
        /// MTU of that link as sent; below 1280 it is to be ignored.
        mtu: u32,
        /// The packet.
        quote: Quote,
    },
    /// A packet of ours could not be delivered.
    Unreachable {
        /// Why.
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
        /// What was wrong.
        code: u8,
        /// Offset in the packet.
        pointer: u32,
        /// The packet.
        quote: Quote,
    },
    /// Neighbour discovery: to be parsed by [`crate::ndp::parse`].
    Neighbor,
}

/// Parse the message at the front of `bytes`. `l4_len` counts the bytes that the IP header grants.
/// The checksum is not verified here, see [`verify_checksum`].
///
/// # Errors
///
/// [`DropReason::IcmpShort`] (quotes included), [`DropReason::IcmpUnknown`], and
/// [`DropReason::MbufSplit`] when what is looked at is not contiguous.
pub fn parse(bytes: &[u8], l4_len: usize) -> Result<Icmpv6Message, DropReason> {
    let fixed = head::<HEADER_LEN>(bytes, l4_len, DropReason::IcmpShort)?;
    let [kind, code, _, _, r0, r1, r2, r3] = *fixed;
    let word = u32::from_be_bytes([r0, r1, r2, r3]);
    let (ident, sequence) = (u16::from_be_bytes([r0, r1]), u16::from_be_bytes([r2, r3]));
    let message = bytes.get(..l4_len).unwrap_or(bytes);
    let quoted = || match quote::parse_v6(&message[HEADER_LEN..]) {
        Err(DropReason::IcmpShort) if message.len() < l4_len => Err(DropReason::MbufSplit),
        other => other,
    };
    Ok(match kind {
        ECHO_REQUEST => Icmpv6Message::EchoRequest { ident, sequence },
        ECHO_REPLY => Icmpv6Message::EchoReply { ident, sequence },
        UNREACHABLE => Icmpv6Message::Unreachable { code, quote: quoted()? },
        PACKET_TOO_BIG => Icmpv6Message::PacketTooBig { mtu: word, quote: quoted()? },
        TIME_EXCEEDED => Icmpv6Message::TimeExceeded { code, quote: quoted()? },
        PARAMETER_PROBLEM => {
            Icmpv6Message::ParameterProblem { code, pointer: word, quote: quoted()? }
        }
        crate::ndp::ROUTER_SOLICITATION..=crate::ndp::REDIRECT => Icmpv6Message::Neighbor,
        _ => return Err(DropReason::IcmpUnknown),
    })
}

/// Whether messages of type `kind` are errors, to which no error is sent (RFC 4443 section 2.4); a
/// redirect is treated as one.
#[inline]
pub const fn is_error(kind: u8) -> bool {
    kind < 128 || kind == crate::ndp::REDIRECT
}

/// Verify the checksum over `len` bytes of message in `segments`.
///
/// # Errors
///
/// [`DropReason::IcmpChecksum`].
#[inline]
pub fn verify_checksum<'a>(
    src: Ipv6Addr,
    dst: Ipv6Addr,
    segments: impl IntoIterator<Item = &'a [u8]>,
    len: usize,
) -> Result<(), DropReason> {
    let pseudo = pseudo_v6(src, dst, protocol::ICMPV6, len);
    if checksum::verify(pseudo, segments, len) { Ok(()) } else { Err(DropReason::IcmpChecksum) }
}

/// What an echo message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// Request or reply.
    pub kind: EchoKind,
    /// Identifier.
    pub ident: u16,
    /// Sequence number.
    pub sequence: u16,
}

/// Write an echo header for `data_len` bytes of data, to be placed behind it, with the partial sum
/// `data_sum`. Returns the bytes written, [`HEADER_LEN`].
///
/// # Panics
///
/// If `out` is shorter than that.
pub fn emit_echo(
    out: &mut [u8],
    src: Ipv6Addr,
    dst: Ipv6Addr,
    echo: Echo,
    data_len: usize,
    data_sum: u32,
) -> usize {
    let kind = match echo.kind {
        EchoKind::Request => ECHO_REQUEST,
        EchoKind::Reply => ECHO_REPLY,
    };
    let pseudo = pseudo_v6(src, dst, protocol::ICMPV6, HEADER_LEN + data_len);
    let rest = u32::from(echo.ident) << 16 | u32::from(echo.sequence);
    header(room(out), kind, 0, rest, pseudo, data_sum);
    HEADER_LEN
}

/// An error that we report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icmpv6Error {
    /// Not deliverable, with the code that says why.
    Unreachable(u8),
    /// Too large for the next link, whose MTU this is.
    PacketTooBig(u32),
    /// Lived too long (0) or was not reassembled in time (1).
    TimeExceeded(u8),
    /// Something in the headers, see [`crate::ipv6::Rejection`].
    ParameterProblem(crate::ipv6::ParameterProblem),
}

/// Write an error from `src` to `dst` about the packet of which `packet` has the first bytes (at
/// most [`QUOTE_LEN_MAX`] are quoted). Returns the bytes written.
///
/// # Panics
///
/// If `out` has no room for that.
pub fn emit_error(
    out: &mut [u8],
    src: Ipv6Addr,
    dst: Ipv6Addr,
    error: Icmpv6Error,
    packet: &[u8],
) -> usize {
    let (kind, code, rest) = match error {
        Icmpv6Error::Unreachable(code) => (UNREACHABLE, code, 0),
        Icmpv6Error::PacketTooBig(mtu) => (PACKET_TOO_BIG, 0, mtu),
        Icmpv6Error::TimeExceeded(code) => (TIME_EXCEEDED, code, 0),
        Icmpv6Error::ParameterProblem(p) => (PARAMETER_PROBLEM, p.code, p.pointer),
    };
    let quoted = &packet[..packet.len().min(QUOTE_LEN_MAX)];
    let len = HEADER_LEN + quoted.len();
    out[HEADER_LEN..len].copy_from_slice(quoted);
    let pseudo = pseudo_v6(src, dst, protocol::ICMPV6, len);
    header(room(out), kind, code, rest, pseudo, sum(quoted, 0));
    len
}

fn header(out: &mut [u8; HEADER_LEN], kind: u8, code: u8, rest: u32, pseudo: u32, data_sum: u32) {
    out[..4].copy_from_slice(&[kind, code, 0, 0]);
    out[4..].copy_from_slice(&rest.to_be_bytes());
    let checksum = !fold(combine(sum(out, pseudo), HEADER_LEN, data_sum));
    out[2..4].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests;
