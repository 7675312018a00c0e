//! The neighbour of a stack under a script: one station that has every address but the stack's own.
//!
//! Scripts know only IP. Whatever the link needs besides is answered here, in no time.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::arp::{self, Operation};
use wire::ethernet::{self, EtherType, Mac};
use wire::ndp::{self, Advertisement, NdpMessage};
use wire::{ipv6, protocol};

use super::build::{Macs, Outer};

/// Hardware address of the gateway.
pub const GATEWAY_MAC: Mac = Mac([2, 0, 0, 0, 0, 0xfe]);
/// Type of the first message of neighbour discovery (router solicitation), RFC 4861.
const NDP_FIRST: u8 = 133;
/// Type of the last one (redirect).
const NDP_LAST: u8 = 137;
/// Types of multicast listener discovery, RFC 2710 and RFC 3810.
const MLD: [u8; 4] = [130, 131, 132, 143];

/// What becomes of a frame from the stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// It concerns the link only; the answer, if there is one, is a frame to the stack.
    Handled(Option<Vec<u8>>),
    /// The script has to see it.
    Script,
}

/// Look at a frame from the stack with the hardware address `mac`; `is_own` says which addresses are
/// the stack's.
pub fn handle(frame: &[u8], mac: Mac, is_own: impl Fn(IpAddr) -> bool) -> Link {
    let Ok(link) = ethernet::parse(frame) else { return Link::Script };
    let rest = frame.get(link.len..).unwrap_or_default();
    match link.ethertype {
        EtherType::ARP => Link::Handled(answer_arp(rest, mac, is_own)),
        EtherType::IPV6 => {
            let Ok(header) = ipv6::parse(rest, rest.len()) else { return Link::Script };
            let message = rest
                .get(header.transport_offset..header.transport_offset + header.transport_len)
                .unwrap_or_default();
            let kind = message.first().copied().unwrap_or_default();
            let of_link = (NDP_FIRST..=NDP_LAST).contains(&kind) || MLD.contains(&kind);
            if header.protocol != protocol::ICMPV6 || !of_link {
                return Link::Script;
            }
            let parsed = ndp::parse(message, header.src, header.dst, header.hop_limit);
            Link::Handled(match parsed {
                Ok(NdpMessage::Solicitation(asked)) if !is_own(asked.target.into()) => {
                    answer_ndp(asked.target, header.src, mac)
                }
                _ => None,
            })
        }
        _ => Link::Script,
    }
}

fn answer_arp(rest: &[u8], mac: Mac, is_own: impl Fn(IpAddr) -> bool) -> Option<Vec<u8>> {
    let request = arp::parse(rest).ok()?;
    let target: Ipv4Addr = request.target_ip;
    if request.operation != Operation::Request || is_own(target.into()) {
        return None;
    }
    let mut out = Macs { src: GATEWAY_MAC, dst: mac }.header(EtherType::ARP);
    let at = out.len();
    out.resize(at + arp::LEN, 0);
    request.reply(GATEWAY_MAC).emit(&mut out[at..]);
    Some(out)
}

fn answer_ndp(target: Ipv6Addr, asker: Ipv6Addr, mac: Mac) -> Option<Vec<u8>> {
    if asker.is_unspecified() {
        // Duplicate address detection for an address of ours.
        return None;
    }
    let mut message = vec![0; ndp::NEIGHBOR_LEN_MAX];
    let answer = Advertisement {
        target,
        target_mac: Some(GATEWAY_MAC),
        router: true,
        solicited: true,
        override_entry: true,
    };
    let len = answer.emit(&mut message, target, asker);
    message.truncate(len);
    let outer =
        Outer { src: target.into(), dst: asker.into(), tos: 0, ttl: ndp::HOP_LIMIT, flow_label: 0 };
    let mut out = Macs { src: GATEWAY_MAC, dst: mac }.header(EtherType::IPV6);
    out.extend(outer.header(protocol::ICMPV6, len)?);
    out.extend(message);
    Some(out)
}
