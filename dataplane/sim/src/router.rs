//! Routers: what they do with a packet, and how they share paths of equal cost.
//!
//! A router knows the shortest ways to every address of every host (counted in links) from the start and
//! for good: a link that is down loses what it should have carried. It answers for every address that
//! is not on the link itself, so hosts need no more than any gateway. It does not fragment.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use std::collections::BTreeMap;

use base::{Instant, Random, SeededRandom};
use wire::arp::{self, ArpPacket, Operation};
use wire::ethernet::{self, EtherType, HEADER_LEN, Mac};
use wire::icmpv4::{self, Icmpv4Error};
use wire::icmpv6::{self, Icmpv6Error};
use wire::ipv4::{self, HeaderChecksum, Ipv4Fields};
use wire::ipv6::{self, Ipv6Fields};
use wire::ndp::{self, Advertisement, NdpMessage};
use wire::protocol;

use crate::world::{LinkId, Way};

/// The gateway of every host behind a router, over IPv4.
pub const GATEWAY_V4: Ipv4Addr = Ipv4Addr::new(169, 254, 0, 1);
/// The same over IPv6.
pub const GATEWAY_V6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
/// Places for flowlets; flows that share one share its pause, too, as in hardware.
const FLOWLETS: usize = 4096;
/// Flows whose path is remembered for whoever looks at it.
const WATCHED_MAX: usize = 65_536;
/// Bytes of a packet that an error quotes.
const QUOTE_MAX: usize = 128;

/// How a router shares paths of equal cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecmp {
    /// A hash over addresses, protocol and ports.
    #[default]
    FiveTuple,
    /// The same and the flow label of IPv6.
    FlowLabel,
    /// A hash over the outer header, which for packets without a tunnel is their only one.
    OuterPort,
    /// As the first; a flow that pauses draws again.
    Flowlet,
    /// Packet by packet, at random.
    Spray,
}

/// What a router is made of.
#[derive(Clone, Debug)]
pub struct RouterConfig {
    /// For traces.
    pub name: String,
    /// How it shares paths of equal cost.
    pub ecmp: Ecmp,
    /// The pause after which a flowlet ends.
    pub flowlet_gap: Duration,
    /// It says what is too big and what it cannot deliver.
    pub icmp: bool,
}

impl RouterConfig {
    /// A router that hashes flows and sends ICMP.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ecmp: Ecmp::default(),
            flowlet_gap: Duration::from_micros(200),
            icmp: true,
        }
    }
}

/// What a router has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouterCounters {
    /// Packets passed on.
    pub forwarded: u64,
    /// Packets dropped because they do not fit the next link.
    pub too_big: u64,
    /// Packets dropped for want of a way, or of a way that is up.
    pub unreachable: u64,
    /// Packets dropped because they lived too long.
    pub expired: u64,
    /// Frames that make no sense to a router.
    pub bad: u64,
    /// ICMP errors sent.
    pub errors_sent: u64,
}

/// The addresses, protocol and ports of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FiveTuple {
    /// From.
    pub src: IpAddr,
    /// To.
    pub dst: IpAddr,
    /// Protocol number.
    pub protocol: u8,
    /// Source and destination port; zero where there are none.
    pub ports: [u16; 2],
}

/// A card of a router.
pub(crate) struct Port {
    pub(crate) link: LinkId,
    /// In which direction it sends.
    pub(crate) way: Way,
    pub(crate) mac: Mac,
    /// Of whoever is at the other end.
    pub(crate) peer: Mac,
    /// The addresses of a host at the other end.
    pub(crate) on_link: Vec<IpAddr>,
}

/// What is to be done with a frame.
pub(crate) enum Verdict {
    /// Nothing.
    Drop,
    /// Send this by this port; whether it is passed on or made here.
    Send { port: usize, frame: Vec<u8>, made_here: bool },
}

#[derive(Clone, Copy, Default)]
struct Flowlet {
    seen: Instant,
    choice: u32,
    used: bool,
}

/// A router in a world.
pub(crate) struct Router {
    pub(crate) config: RouterConfig,
    pub(crate) counters: RouterCounters,
    pub(crate) ports: Vec<Port>,
    /// Ports that lead to an address on a shortest way.
    pub(crate) routes: BTreeMap<IpAddr, Vec<usize>>,
    key: u64,
    random: SeededRandom,
    flowlets: Vec<Flowlet>,
    /// The port that each flow took last, where there was a choice.
    watched: Option<BTreeMap<FiveTuple, usize>>,
    number: u8,
}

/// What a router looks at in a packet.
struct Packet {
    flow: FiveTuple,
    label: u32,
    hops_left: u8,
    len: usize,
    /// It may be answered with an error.
    answerable: bool,
}

impl Router {
    pub(crate) fn new(config: RouterConfig, number: u8, seed: u64) -> Self {
        let mut random = SeededRandom::new(seed);
        let key = random.next_u64();
        let flowlets = match config.ecmp {
            Ecmp::Flowlet => vec![Flowlet::default(); FLOWLETS],
            _ => Vec::new(),
        };
        Self {
            config,
            counters: RouterCounters::default(),
            ports: Vec::new(),
            routes: BTreeMap::new(),
            key,
            random,
            flowlets,
            watched: None,
            number,
        }
    }

    /// The hardware address of its next card.
    pub(crate) fn next_mac(&self) -> Mac {
        let [high, low] = (self.ports.len() as u16).to_be_bytes();
        Mac([2, 1, self.number, 0, high, low])
    }

    /// Remember from now on which way flows take.
    pub(crate) fn watch(&mut self) {
        self.watched.get_or_insert_default();
    }

    /// The link that a flow took last, if there was a choice.
    pub(crate) fn way_of(&self, flow: &FiveTuple) -> Option<LinkId> {
        let port = *self.watched.as_ref()?.get(flow)?;
        self.ports.get(port).map(|p| p.link)
    }

    /// What becomes of a frame that came in by `port`. `mtu_of` tells the MTU of a port's link, `None` if
    /// it is down.
    pub(crate) fn on_frame(
        &mut self,
        now: Instant,
        port: usize,
        mut frame: Vec<u8>,
        mtu_of: impl Fn(&Port) -> Option<u16>,
    ) -> Verdict {
        match ethernet_type(&frame) {
            Some(EtherType::ARP) => return self.on_arp(port, &frame),
            Some(EtherType::IPV4 | EtherType::IPV6) => {}
            _ => return self.bad(),
        }
        if let Some(answer) = self.on_solicitation(port, &frame) {
            return answer;
        }
        let to_us = self.ports.get(port).is_some_and(|p| frame.get(..6) == Some(&p.mac.0));
        let Some(packet) = look(&frame).filter(|_| to_us) else { return self.bad() };
        if packet.hops_left <= 1 {
            self.counters.expired += 1;
            return self.error(port, &packet, &frame, Fault::Expired);
        }
        let Some(out) = self.choose(now, &packet) else {
            self.counters.unreachable += 1;
            return self.error(port, &packet, &frame, Fault::Unreachable);
        };
        let Some(next) = self.ports.get(out) else { return self.bad() };
        match mtu_of(next) {
            None => {
                self.counters.unreachable += 1;
                return self.error(port, &packet, &frame, Fault::Unreachable);
            }
            Some(mtu) if packet.len > usize::from(mtu) => {
                self.counters.too_big += 1;
                return self.error(port, &packet, &frame, Fault::TooBig(mtu));
            }
            Some(_) => {}
        }
        if let Some(macs) = frame.first_chunk_mut::<12>() {
            macs[..6].copy_from_slice(&next.peer.0);
            macs[6..].copy_from_slice(&next.mac.0);
        }
        age(&mut frame);
        self.counters.forwarded += 1;
        Verdict::Send { port: out, frame, made_here: false }
    }

    fn bad(&mut self) -> Verdict {
        self.counters.bad += 1;
        Verdict::Drop
    }

    /// The port for a packet, of those that lead to its destination.
    fn choose(&mut self, now: Instant, packet: &Packet) -> Option<usize> {
        let ports = self.routes.get(&packet.flow.dst)?;
        let count = u32::try_from(ports.len()).unwrap_or(u32::MAX);
        if count <= 1 {
            return ports.first().copied();
        }
        let index = match self.config.ecmp {
            Ecmp::Spray => self.random.below(count),
            Ecmp::FlowLabel => pick(hash(self.key, &packet.flow, packet.label), count),
            Ecmp::FiveTuple | Ecmp::OuterPort => pick(hash(self.key, &packet.flow, 0), count),
            Ecmp::Flowlet => {
                let hash = hash(self.key, &packet.flow, 0);
                let gap = self.config.flowlet_gap;
                let place = (hash % FLOWLETS as u64) as usize;
                let random = &mut self.random;
                let flowlet = self.flowlets.get_mut(place)?;
                if !flowlet.used || now.since(flowlet.seen) > gap {
                    flowlet.choice = random.next_u64() as u32;
                    flowlet.used = true;
                }
                flowlet.seen = now;
                pick(u64::from(flowlet.choice) << 32, count)
            }
        };
        let port = ports.get(index as usize).copied()?;
        if let Some(watched) = &mut self.watched
            && (watched.len() < WATCHED_MAX || watched.contains_key(&packet.flow))
        {
            watched.insert(packet.flow, port);
        }
        Some(port)
    }

    /// Answer for every address but those on the link itself.
    fn on_arp(&mut self, port: usize, frame: &[u8]) -> Verdict {
        let Some(p) = self.ports.get(port) else { return self.bad() };
        let Some(Ok(question)) = frame.get(HEADER_LEN..).map(arp::parse) else { return self.bad() };
        let theirs = p.on_link.contains(&question.target_ip.into());
        if question.operation != Operation::Request
            || question.sender_ip.is_unspecified()
            || question.sender_ip == question.target_ip
            || theirs
        {
            return Verdict::Drop;
        }
        let answer: ArpPacket = question.reply(p.mac);
        let mut frame = vec![0; HEADER_LEN + arp::LEN];
        let at = ethernet::emit(&mut frame, question.sender_mac, p.mac, None, EtherType::ARP);
        if let Some(room) = frame.get_mut(at..) {
            answer.emit(room);
        }
        Verdict::Send { port, frame, made_here: true }
    }

    /// The same over IPv6; `None` if the frame is no matter of neighbours.
    fn on_solicitation(&mut self, port: usize, frame: &[u8]) -> Option<Verdict> {
        let packet = frame.get(HEADER_LEN..)?;
        if frame.get(12..14)? != EtherType::IPV6.0.to_be_bytes()
            || *packet.get(6)? != protocol::ICMPV6
        {
            return None;
        }
        let header = packet.first_chunk::<40>()?;
        let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let (src, dst) = (v6(&header[8..24]), v6(&header[24..40]));
        let message = packet.get(40..40 + len)?;
        // 133 to 137: router and neighbour discovery, which never goes beyond a link.
        if !(133..=137).contains(message.first()?) {
            return None;
        }
        let p = self.ports.get(port)?;
        let Ok(NdpMessage::Solicitation(question)) = ndp::parse(message, src, dst, header[7])
        else {
            return Some(Verdict::Drop);
        };
        let (Some(asker), false) =
            (question.source_mac, p.on_link.contains(&question.target.into()))
        else {
            return Some(Verdict::Drop);
        };
        let answer = Advertisement {
            target: question.target,
            target_mac: Some(p.mac),
            router: true,
            solicited: true,
            override_entry: true,
        };
        let mut frame = vec![0; HEADER_LEN + 40 + ndp::NEIGHBOR_LEN_MAX];
        let (ethernet_room, rest) = frame.split_at_mut(HEADER_LEN);
        ethernet::emit(ethernet_room, asker, p.mac, None, EtherType::IPV6);
        let (ip, body) = rest.split_at_mut(40);
        let len = answer.emit(body, question.target, src);
        let fields = Ipv6Fields {
            src: question.target,
            dst: src,
            traffic_class: 0,
            flow_label: 0,
            hop_limit: ndp::HOP_LIMIT,
            next_header: protocol::ICMPV6,
            payload_len: len as u16,
        };
        ipv6::emit(ip, &fields);
        frame.truncate(HEADER_LEN + 40 + len);
        Some(Verdict::Send { port, frame, made_here: true })
    }

    /// Say to the sender of a packet what is wrong with it, by the port it came from.
    fn error(&mut self, port: usize, packet: &Packet, frame: &[u8], fault: Fault) -> Verdict {
        if !self.config.icmp || !packet.answerable {
            return Verdict::Drop;
        }
        let Some(p) = self.ports.get(port) else { return Verdict::Drop };
        let quoted = frame.get(HEADER_LEN..).unwrap_or_default();
        let quoted = quoted.get(..QUOTE_MAX).unwrap_or(quoted);
        let mut out = vec![0; HEADER_LEN + 40 + 8 + quoted.len()];
        let (ethernet_room, rest) = out.split_at_mut(HEADER_LEN);
        let len = match (packet.flow.src, packet.flow.dst) {
            (IpAddr::V4(dst), IpAddr::V4(_)) => {
                ethernet::emit(ethernet_room, p.peer, p.mac, None, EtherType::IPV4);
                let error = match fault {
                    Fault::Expired => Icmpv4Error::TimeExceeded(0),
                    Fault::Unreachable => Icmpv4Error::Unreachable(0),
                    Fault::TooBig(mtu) => Icmpv4Error::FragmentationNeeded(mtu),
                };
                let (ip, body) = rest.split_at_mut(ipv4::HEADER_LEN);
                let len = icmpv4::emit_error(body, error, quoted);
                let fields = Ipv4Fields {
                    src: Ipv4Addr::new(100, 64, 0, self.number),
                    dst,
                    protocol: protocol::ICMP,
                    ttl: 64,
                    tos: 0,
                    ident: 0,
                    dont_fragment: true,
                    total_len: (ipv4::HEADER_LEN + len) as u16,
                };
                ipv4::emit(ip, &fields, HeaderChecksum::Compute);
                ipv4::HEADER_LEN + len
            }
            (IpAddr::V6(dst), IpAddr::V6(_)) => {
                ethernet::emit(ethernet_room, p.peer, p.mac, None, EtherType::IPV6);
                let error = match fault {
                    Fault::Expired => Icmpv6Error::TimeExceeded(0),
                    Fault::Unreachable => Icmpv6Error::Unreachable(0),
                    Fault::TooBig(mtu) => Icmpv6Error::PacketTooBig(mtu.into()),
                };
                let src = Ipv6Addr::new(0xfd00, 0xffff, 0, 0, 0, 0, 0, self.number.into());
                let (ip, body) = rest.split_at_mut(40);
                let len = icmpv6::emit_error(body, src, dst, error, quoted);
                let fields = Ipv6Fields {
                    src,
                    dst,
                    traffic_class: 0,
                    flow_label: 0,
                    hop_limit: 64,
                    next_header: protocol::ICMPV6,
                    payload_len: len as u16,
                };
                ipv6::emit(ip, &fields);
                40 + len
            }
            _ => return Verdict::Drop,
        };
        out.truncate(HEADER_LEN + len);
        self.counters.errors_sent += 1;
        Verdict::Send { port, frame: out, made_here: true }
    }
}

/// Why a packet goes no further.
enum Fault {
    Expired,
    Unreachable,
    TooBig(u16),
}

fn ethernet_type(frame: &[u8]) -> Option<EtherType> {
    frame.get(12..HEADER_LEN)?.first_chunk::<2>().map(|t| EtherType(u16::from_be_bytes(*t)))
}

fn v6(bytes: &[u8]) -> Ipv6Addr {
    bytes.first_chunk::<16>().map_or(Ipv6Addr::UNSPECIFIED, |b| Ipv6Addr::from(*b))
}

/// The source and destination port at the beginning of a transport header.
fn ports(kind: u8, transport: &[u8]) -> [u16; 2] {
    match (kind, transport.first_chunk::<4>()) {
        (protocol::TCP | protocol::UDP, Some([a, b, c, d])) => {
            [u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])]
        }
        _ => [0; 2],
    }
}

fn look(frame: &[u8]) -> Option<Packet> {
    let ip = frame.get(HEADER_LEN..)?;
    if ethernet_type(frame)? == EtherType::IPV4 {
        let header = ip.first_chunk::<20>()?;
        let header_len = usize::from(header[0] & 15) * 4;
        let len = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if header[0] >> 4 != 4 || header_len < 20 || len < header_len || len > ip.len() {
            return None;
        }
        let [src, dst] = [12, 16].map(|at| {
            let bytes = ip.get(at..).and_then(|b| b.first_chunk::<4>()).copied();
            Ipv4Addr::from(bytes.unwrap_or_default())
        });
        let offset = u16::from_be_bytes([header[6], header[7]]) & 0x1fff;
        // Later fragments have no ports.
        let transport = if offset == 0 { ip.get(header_len..len)? } else { &[] };
        let icmp_error = header[9] == protocol::ICMP && !matches!(transport.first(), Some(0 | 8));
        return Some(Packet {
            flow: FiveTuple {
                src: src.into(),
                dst: dst.into(),
                protocol: header[9],
                ports: ports(header[9], transport),
            },
            label: 0,
            hops_left: header[8],
            len,
            // RFC 1122 section 3.2.2: no error about an error, or about a later fragment.
            answerable: !icmp_error && offset == 0,
        });
    }
    let header = ip.first_chunk::<40>()?;
    let len = 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
    if header[0] >> 4 != 6 || len > ip.len() {
        return None;
    }
    let transport = ip.get(40..len)?;
    let icmp_error = header[6] == protocol::ICMPV6 && transport.first().is_none_or(|t| *t < 128);
    Some(Packet {
        flow: FiveTuple {
            src: v6(&header[8..24]).into(),
            dst: v6(&header[24..40]).into(),
            protocol: header[6],
            ports: ports(header[6], transport),
        },
        label: u32::from_be_bytes([0, header[1] & 15, header[2], header[3]]),
        hops_left: header[7],
        len,
        // RFC 4443 section 2.4 (e).
        answerable: !icmp_error,
    })
}

/// One hop less to live.
fn age(frame: &mut [u8]) {
    let is_v4 = ethernet_type(frame) == Some(EtherType::IPV4);
    let Some(ip) = frame.get_mut(HEADER_LEN..).and_then(|ip| ip.first_chunk_mut::<20>()) else {
        return;
    };
    if !is_v4 {
        ip[7] = ip[7].saturating_sub(1);
        return;
    }
    ip[8] = ip[8].saturating_sub(1);
    // RFC 1624 equation 3, for a word whose high byte went down by one.
    let sum = u32::from(u16::from_be_bytes([ip[10], ip[11]])) + 0x0100;
    let sum = (sum & 0xffff) + (sum >> 16);
    ip[10..12].copy_from_slice(&(sum as u16).to_be_bytes());
}

fn hash(key: u64, flow: &FiveTuple, label: u32) -> u64 {
    let mut state = key;
    let mut word = |word: u64| {
        state = (state ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        state ^= state >> 29;
    };
    for addr in [flow.src, flow.dst] {
        let bits = match addr {
            IpAddr::V4(a) => u128::from(a.to_bits()),
            IpAddr::V6(a) => a.to_bits(),
        };
        word(bits as u64);
        word((bits >> 64) as u64);
    }
    let [from, to] = flow.ports;
    word(u64::from(flow.protocol) << 32 | u64::from(from) << 16 | u64::from(to));
    word(label.into());
    word(0);
    state
}

/// A number below `count`.
fn pick(hash: u64, count: u32) -> u32 {
    ((u128::from(hash) * u128::from(count)) >> 64) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(port: u16) -> FiveTuple {
        FiveTuple {
            src: [10, 0, 0, 1].into(),
            dst: [10, 0, 0, 2].into(),
            protocol: protocol::TCP,
            ports: [port, 5000],
        }
    }

    #[test]
    fn hashes_spread_flows_and_labels_evenly() {
        for count in [2, 3, 8] {
            let mut ports = vec![0; count as usize];
            let mut labels = vec![0; count as usize];
            for i in 0..30_000_u32 {
                ports[pick(hash(1, &flow(i as u16), 0), count) as usize] += 1;
                labels[pick(hash(1, &flow(1), i), count) as usize] += 1;
            }
            for n in ports.into_iter().chain(labels) {
                let expected = 30_000 / count as i32;
                assert!((n - expected).abs() < expected / 10, "{n} of {expected}");
            }
        }
        assert_ne!(hash(1, &flow(1), 0), hash(2, &flow(1), 0), "the key counts");
    }

    #[test]
    fn a_header_that_has_aged_has_a_right_checksum() {
        for ttl in 2..=255 {
            let mut frame = vec![0; HEADER_LEN + 20];
            frame[12..14].copy_from_slice(&EtherType::IPV4.0.to_be_bytes());
            let fields = Ipv4Fields {
                src: [10, 0, 0, 1].into(),
                dst: [10, 0, 0, 2].into(),
                protocol: protocol::TCP,
                ttl,
                tos: 0,
                ident: 0xffff,
                dont_fragment: true,
                total_len: 20,
            };
            ipv4::emit(&mut frame[HEADER_LEN..], &fields, HeaderChecksum::Compute);
            age(&mut frame);
            assert_eq!(frame[HEADER_LEN + 8], ttl - 1);
            assert_eq!(wire::checksum::of(&frame[HEADER_LEN..]), 0, "ttl {ttl}");
        }
    }
}
