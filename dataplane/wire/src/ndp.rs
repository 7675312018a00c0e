//! Neighbour discovery, RFC 4861, with the checks of its sections 6.1, 7.1 and 8.1.
//!
//! Addresses and routes come from the configuration, so router messages and redirects are checked
//! and then ignored.

use core::net::Ipv6Addr;

use base::DropReason;

use crate::bytes::{chunk, room};
use crate::checksum::{self, fold, pseudo_v6, sum};
use crate::ethernet::Mac;
use crate::{icmpv6, protocol};

pub(crate) const ROUTER_SOLICITATION: u8 = 133;
const ROUTER_ADVERTISEMENT: u8 = 134;
const NEIGHBOR_SOLICITATION: u8 = 135;
const NEIGHBOR_ADVERTISEMENT: u8 = 136;
pub(crate) const REDIRECT: u8 = 137;

const SOURCE_LINK_LAYER: u8 = 1;
const TARGET_LINK_LAYER: u8 = 2;

/// Hop limit that proves that a message was not forwarded.
pub const HOP_LIMIT: u8 = 255;
/// Bytes of a neighbour message without options.
const NEIGHBOR_LEN: usize = 24;
/// Bytes of a neighbour message with a link-layer address: what [`Solicitation::emit`] and
/// [`Advertisement::emit`] write at most.
pub const NEIGHBOR_LEN_MAX: usize = NEIGHBOR_LEN + 8;

/// A message about a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdpMessage {
    /// Who has this address?
    Solicitation(Solicitation),
    /// Somebody has this address.
    Advertisement(Advertisement),
}

/// A question for the hardware address of `target`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Solicitation {
    /// Never multicast.
    pub target: Ipv6Addr,
    /// Hardware address of who asks; `None` from the unspecified address (duplicate address
    /// detection).
    pub source_mac: Option<Mac>,
}

/// A statement about `target`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertisement {
    /// Never multicast.
    pub target: Ipv6Addr,
    /// Hardware address of `target`; may be missing in an answer to a unicast question.
    pub target_mac: Option<Mac>,
    /// The sender is a router.
    pub router: bool,
    /// In answer to a solicitation; never in a message to a group.
    pub solicited: bool,
    /// Replaces a hardware address that is known already.
    pub override_entry: bool,
}

/// Parse and check a whole ICMPv6 message of one of the five types, as [`icmpv6::parse`] finds
/// them. `message` must be contiguous and end with the packet.
///
/// # Errors
///
/// [`DropReason::NdInvalid`] for whatever the RFC tells us to discard, except
/// [`DropReason::IcmpShort`] and [`DropReason::IcmpChecksum`];
/// [`DropReason::NeighborIgnored`] for a valid router message or redirect;
/// [`DropReason::IcmpUnknown`] if it is of another type.
pub fn parse(
    message: &[u8],
    src: Ipv6Addr,
    dst: Ipv6Addr,
    hop_limit: u8,
) -> Result<NdpMessage, DropReason> {
    let [kind, code, ..] = *message.first_chunk::<8>().ok_or(DropReason::IcmpShort)?;
    let fixed_len = match kind {
        ROUTER_SOLICITATION => 8,
        ROUTER_ADVERTISEMENT => 16,
        NEIGHBOR_SOLICITATION | NEIGHBOR_ADVERTISEMENT => NEIGHBOR_LEN,
        REDIRECT => 40,
        _ => return Err(DropReason::IcmpUnknown),
    };
    icmpv6::verify_checksum(src, dst, [message], message.len())?;
    let valid = hop_limit == HOP_LIMIT && code == 0;
    let options = message.get(fixed_len..).filter(|_| valid).ok_or(DropReason::NdInvalid)?;
    let options = parse_options(options)?;
    match kind {
        NEIGHBOR_SOLICITATION => solicitation(message, &options, src, dst),
        NEIGHBOR_ADVERTISEMENT => advertisement(message, &options, dst),
        kind => check_ignored(kind, &options, src),
    }
}

fn solicitation(
    message: &[u8],
    options: &Options,
    src: Ipv6Addr,
    dst: Ipv6Addr,
) -> Result<NdpMessage, DropReason> {
    let target = target(message)?;
    // RFC 4861 section 7.1.1: duplicate address detection asks the target's group and has no
    // address of its own to tell.
    if src.is_unspecified() && (!is_solicited_node(dst) || options.source.is_some()) {
        return Err(DropReason::NdInvalid);
    }
    Ok(NdpMessage::Solicitation(Solicitation { target, source_mac: options.source }))
}

fn advertisement(
    message: &[u8],
    options: &Options,
    dst: Ipv6Addr,
) -> Result<NdpMessage, DropReason> {
    let target = target(message)?;
    let flags = message.get(4).copied().unwrap_or(0);
    let parsed = Advertisement {
        target,
        target_mac: options.target,
        router: flags & 0x80 != 0,
        solicited: flags & 0x40 != 0,
        override_entry: flags & 0x20 != 0,
    };
    if dst.is_multicast() && parsed.solicited {
        return Err(DropReason::NdInvalid);
    }
    Ok(NdpMessage::Advertisement(parsed))
}

/// Router messages and redirects: invalid, or of no interest.
fn check_ignored(kind: u8, options: &Options, src: Ipv6Addr) -> Result<NdpMessage, DropReason> {
    let valid = match kind {
        ROUTER_SOLICITATION => !(src.is_unspecified() && options.source.is_some()),
        _ => src.is_unicast_link_local(),
    };
    Err(if valid { DropReason::NeighborIgnored } else { DropReason::NdInvalid })
}

fn target(message: &[u8]) -> Result<Ipv6Addr, DropReason> {
    let target = chunk::<16>(message, 8).map(Ipv6Addr::from).ok_or(DropReason::NdInvalid)?;
    if target.is_multicast() || target.is_unspecified() || target.is_loopback() {
        return Err(DropReason::NdInvalid);
    }
    Ok(target)
}

#[derive(Default)]
struct Options {
    source: Option<Mac>,
    target: Option<Mac>,
}

/// All options are of whole units of eight bytes, at least one (RFC 4861 section 4.6), so each turn
/// advances. Unknown ones are skipped.
fn parse_options(mut bytes: &[u8]) -> Result<Options, DropReason> {
    let mut options = Options::default();
    while !bytes.is_empty() {
        let [kind, units] = chunk(bytes, 0).ok_or(DropReason::NdInvalid)?;
        if units == 0 {
            return Err(DropReason::NdInvalid);
        }
        let rest = bytes.get(8 * usize::from(units)..).ok_or(DropReason::NdInvalid)?;
        if matches!(kind, SOURCE_LINK_LAYER | TARGET_LINK_LAYER) {
            let mac = chunk(bytes, 2).map(Mac).ok_or(DropReason::NdInvalid)?;
            if units != 1 || !mac.is_station() {
                return Err(DropReason::NdInvalid);
            }
            let slot = match kind {
                SOURCE_LINK_LAYER => &mut options.source,
                _ => &mut options.target,
            };
            slot.get_or_insert(mac);
        }
        bytes = rest;
    }
    Ok(options)
}

impl Solicitation {
    /// Write the message, with its checksum. Returns the bytes written. It is to be sent with
    /// [`HOP_LIMIT`].
    ///
    /// # Panics
    ///
    /// If `out` is shorter than [`NEIGHBOR_LEN_MAX`].
    pub fn emit(&self, out: &mut [u8], src: Ipv6Addr, dst: Ipv6Addr) -> usize {
        let option = self.source_mac.map(|mac| (SOURCE_LINK_LAYER, mac));
        emit(room(out), NEIGHBOR_SOLICITATION, 0, self.target, option, src, dst)
    }
}

impl Advertisement {
    /// Write the message, with its checksum. Returns the bytes written. It is to be sent with
    /// [`HOP_LIMIT`].
    ///
    /// # Panics
    ///
    /// If `out` is shorter than [`NEIGHBOR_LEN_MAX`].
    pub fn emit(&self, out: &mut [u8], src: Ipv6Addr, dst: Ipv6Addr) -> usize {
        let flags = u8::from(self.router) << 7
            | u8::from(self.solicited) << 6
            | u8::from(self.override_entry) << 5;
        let option = self.target_mac.map(|mac| (TARGET_LINK_LAYER, mac));
        emit(room(out), NEIGHBOR_ADVERTISEMENT, flags, self.target, option, src, dst)
    }
}

fn emit(
    out: &mut [u8; NEIGHBOR_LEN_MAX],
    kind: u8,
    flags: u8,
    target: Ipv6Addr,
    option: Option<(u8, Mac)>,
    src: Ipv6Addr,
    dst: Ipv6Addr,
) -> usize {
    out[..8].copy_from_slice(&[kind, 0, 0, 0, flags, 0, 0, 0]);
    out[8..24].copy_from_slice(&target.octets());
    let mut len = NEIGHBOR_LEN;
    if let Some((kind, mac)) = option {
        out[24..26].copy_from_slice(&[kind, 1]);
        out[26..].copy_from_slice(&mac.0);
        len = NEIGHBOR_LEN_MAX;
    }
    let pseudo = pseudo_v6(src, dst, protocol::ICMPV6, len);
    let checksum = !fold(sum(&out[..len], pseudo));
    out[2..4].copy_from_slice(&checksum.to_be_bytes());
    debug_assert!(checksum::verify(pseudo, [&out[..len]], len));
    len
}

/// The group in which `address` listens for solicitations, RFC 4291 section 2.7.1.
#[inline]
pub const fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let o = address.octets();
    let low = u16::from_be_bytes([o[14], o[15]]);
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | o[13] as u16, low)
}

/// Whether `address` is the group of some address.
#[inline]
pub const fn is_solicited_node(address: Ipv6Addr) -> bool {
    matches!(address.segments(), [0xff02, 0, 0, 0, 0, 1, 0xff00..=0xffff, _])
}

/// Where packets for the group `address` go, RFC 2464 section 7.
#[inline]
pub const fn multicast_mac(address: Ipv6Addr) -> Mac {
    Mac::of_ipv6_multicast(address)
}

#[cfg(test)]
mod tests;
