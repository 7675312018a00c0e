//! ICMP of both families: echo, errors about our segments, errors about others' packets; and what is
//! neither TCP nor ICMP.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::{Device, DropReason, Frame, PortId};
use wire::checksum::{self, Accumulator};
use wire::icmpv4::{EchoKind, Icmpv4Error, Icmpv4Message};
use wire::icmpv6::{Echo, Icmpv6Error, Icmpv6Message};
use wire::ipv4::{HeaderChecksum, Ipv4Fields};
use wire::ipv6::{Ipv6Fields, ParameterProblem};
use wire::{EtherType, Mac, Quote, ethernet, icmpv4, icmpv6, ipv4, ipv6, protocol};

use crate::Unreachable;
use crate::conn::Phase;
use crate::demux::Kind;
use crate::ingress::{Packet, bytes_from};
use crate::inner::Core;

/// What an ICMP error says about a segment of ours.
#[derive(Clone, Copy)]
enum Complaint {
    /// It cannot be delivered; `hard`: nor can any other.
    /// What, and whether it may pass (`hard`: it may not).
    Unreachable { hard: bool, what: Option<Unreachable> },
    /// It was too large for a link with this MTU (zero: not said); `sent` is its length.
    TooBig { mtu: u32, sent: u16 },
}

/// An error that we report, of either family.
#[derive(Clone, Copy)]
pub(crate) enum Report {
    /// Nobody listens on this UDP port.
    PortUnreachable,
    /// We do not speak this protocol.
    ProtocolUnreachable,
    /// Something in the headers of an IPv6 packet.
    Problem(ParameterProblem),
}

/// The source, destination and kind of an IP packet that we make.
#[derive(Clone, Copy)]
pub(crate) struct Outer {
    /// Where it leaves: where what it answers came in.
    pub(crate) port: PortId,
    pub(crate) to: Mac,
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
    pub(crate) protocol: u8,
    pub(crate) hop_limit: u8,
}

impl<D: Device> Core<D> {
    /// Datagrams are for nobody here.
    pub(crate) fn on_udp(&mut self, packet: Packet<D::Frame>) -> Result<(), DropReason> {
        let frame = self.contiguous(packet.frame, packet.l4 + wire::udp::HEADER_LEN)?;
        let packet = Packet { frame, ..packet };
        let bytes = packet.frame.head().get(packet.l4..).unwrap_or(&[]);
        let header = wire::udp::parse(bytes, packet.l4_len)?;
        // RFC 8200 section 8.1: a checksum of zero is an error over IPv6.
        let absent = header.checksum == 0 && packet.src.is_ipv4();
        if !absent && !packet.link.l4_good {
            let pseudo = checksum::pseudo(packet.src, packet.dst, protocol::UDP, header.len);
            let bytes = bytes_from(&packet.frame, packet.l4);
            let right = header.checksum != 0
                && pseudo.is_some_and(|p| checksum::verify(p, bytes, header.len));
            if !right {
                return Err(DropReason::UdpChecksum);
            }
        }
        self.report(packet, Report::PortUnreachable);
        Err(DropReason::UdpPort)
    }

    pub(crate) fn on_unknown_protocol(
        &mut self,
        packet: Packet<D::Frame>,
    ) -> Result<(), DropReason> {
        // RFC 8200 section 4.7: "no next header" is not a protocol, and no offence.
        if packet.protocol != protocol::NO_NEXT_HEADER {
            self.report(packet, Report::ProtocolUnreachable);
        }
        Err(DropReason::IpProtocol)
    }

    pub(crate) fn on_icmpv4(&mut self, mut packet: Packet<D::Frame>) -> Result<(), DropReason> {
        self.env.counters.icmp_in_msgs += 1;
        icmpv4::verify_checksum(bytes_from(&packet.frame, packet.l4), packet.l4_len)?;
        let looked_at = packet.l4_len.min(icmpv4::HEADER_LEN + icmpv4::QUOTE_LEN_MAX);
        packet.frame = self.contiguous(packet.frame, packet.l4 + looked_at)?;
        let message = packet.frame.head().get(packet.l4..).unwrap_or(&[]);
        let soft = Complaint::Unreachable { hard: false, what: None };
        match icmpv4::parse(message, packet.l4_len)? {
            Icmpv4Message::EchoRequest { ident, sequence } => {
                self.env.counters.icmp_in_echos += 1;
                self.echo(packet, ident, sequence)
            }
            Icmpv4Message::EchoReply { .. } => Err(DropReason::IcmpUnknown),
            Icmpv4Message::FragmentationNeeded { mtu, quote } => {
                self.env.counters.icmp_in_dest_unreachs += 1;
                let sent = message.get(icmpv4::HEADER_LEN + 2..).and_then(|b| b.first_chunk());
                let sent = sent.map_or(0, |b| u16::from_be_bytes(*b));
                self.on_icmp_error(&quote, Complaint::TooBig { mtu: mtu.into(), sent })
            }
            Icmpv4Message::Unreachable { code, quote } => {
                self.env.counters.icmp_in_dest_unreachs += 1;
                // RFC 1122 section 4.2.3.9, and prohibitions: the others may pass.
                let hard = matches!(code, 2 | 3 | 6..=10 | 13..=15);
                let what = Some(match code {
                    2 => Unreachable::Protocol,
                    3 => Unreachable::Port,
                    0 | 6 | 9 | 11 => Unreachable::Network,
                    _ => Unreachable::Host,
                });
                self.on_icmp_error(&quote, Complaint::Unreachable { hard, what })
            }
            Icmpv4Message::TimeExceeded { quote, .. }
            | Icmpv4Message::ParameterProblem { quote, .. } => self.on_icmp_error(&quote, soft),
        }
    }

    pub(crate) fn on_icmpv6(&mut self, mut packet: Packet<D::Frame>) -> Result<(), DropReason> {
        let (IpAddr::V6(src), IpAddr::V6(dst)) = (packet.src, packet.dst) else {
            return Err(DropReason::IpProtocol);
        };
        self.env.counters.icmp_in_msgs += 1;
        let bytes = bytes_from(&packet.frame, packet.l4);
        icmpv6::verify_checksum(src, dst, bytes, packet.l4_len)?;
        let looked_at = packet.l4_len.min(icmpv6::HEADER_LEN + icmpv6::QUOTE_LEN_MAX);
        packet.frame = self.contiguous(packet.frame, packet.l4 + looked_at)?;
        let message = packet.frame.head().get(packet.l4..).unwrap_or(&[]);
        let parsed = icmpv6::parse(message, packet.l4_len)?;
        if parsed == Icmpv6Message::Neighbor {
            return self.on_neighbor_message(packet, src, dst);
        }
        // Groups get neighbour discovery from us, and nothing else.
        if dst.is_multicast() || src.is_unspecified() {
            return Err(DropReason::IpNotOurs);
        }
        let soft = Complaint::Unreachable { hard: false, what: None };
        match parsed {
            Icmpv6Message::EchoRequest { ident, sequence } => {
                self.env.counters.icmp_in_echos += 1;
                self.echo(packet, ident, sequence)
            }
            Icmpv6Message::EchoReply { .. } | Icmpv6Message::Neighbor => {
                Err(DropReason::IcmpUnknown)
            }
            Icmpv6Message::PacketTooBig { mtu, quote } => {
                self.on_icmp_error(&quote, Complaint::TooBig { mtu, sent: 0 })
            }
            Icmpv6Message::Unreachable { code, quote } => {
                self.env.counters.icmp_in_dest_unreachs += 1;
                let hard = matches!(code, 1 | 4..=6);
                let what = Some(match code {
                    0 => Unreachable::Network,
                    4 => Unreachable::Port,
                    1 | 5 | 6 => Unreachable::Prohibited,
                    _ => Unreachable::Host,
                });
                self.on_icmp_error(&quote, Complaint::Unreachable { hard, what })
            }
            Icmpv6Message::TimeExceeded { quote, .. }
            | Icmpv6Message::ParameterProblem { quote, .. } => self.on_icmp_error(&quote, soft),
        }
    }

    /// An ICMP error: believed only if it quotes a segment that is in flight, RFC 5927 section 4.
    fn on_icmp_error(&mut self, quote: &Quote, complaint: Complaint) -> Result<(), DropReason> {
        let ours = quote.protocol == protocol::TCP && self.is_local(quote.src);
        let (Some(key), Some(seq), true) = (quote.flow_key(), quote.tcp_seq, ours) else {
            return Err(DropReason::IcmpSequence);
        };
        let slot = self.lookup(&key).filter(|entry| entry.kind() != Kind::TimeWait);
        let slot = slot.map(|entry| entry.index());
        let Some(slot) = slot.filter(|&slot| self.in_flight(slot, seq)) else {
            self.env.counters.out_of_window_icmps += 1;
            return Err(DropReason::IcmpSequence);
        };
        match complaint {
            Complaint::Unreachable { hard, what } => self.on_unreachable(slot, hard, what),
            Complaint::TooBig { mtu, sent } => {
                let Some(port) = self.conns.at(slot).map(|conn| conn.port) else { return Ok(()) };
                let now = self.env.now;
                self.routes.on_packet_too_big(now, port, key.remote(), mtu, sent);
                // Another connection may have learned it first.
                let known = self.routes.path_mtu(now, port, key.remote());
                self.on_path_hint(slot, known);
            }
        }
        Ok(())
    }

    fn on_unreachable(&mut self, slot: u32, hard: bool, what: Option<Unreachable>) {
        let Some(conn) = self.conns.at_mut(slot) else { return };
        conn.unreachable = what.or(conn.unreachable);
        let mut cx = self.env.cx(conn.params);
        match &mut conn.phase {
            Phase::Open(connection) => connection.on_unreachable(&mut cx),
            Phase::Handshake(handshake) => {
                if let Some(reason) = handshake.on_unreachable(&mut cx, hard) {
                    self.handshake_failed(slot, reason);
                    return;
                }
            }
            Phase::Drained(_) => {}
        }
        self.after(slot);
    }

    fn on_path_hint(&mut self, slot: u32, mtu: u16) {
        let Some(conn) = self.conns.at_mut(slot) else { return };
        if let Phase::Open(connection) = &mut conn.phase
            && mtu < self.ports[conn.port].mtu
        {
            connection.on_path_hint(&mut self.env.cx(conn.params), mtu);
            self.after(slot);
        }
    }

    /// Send the data of an echo request back: the very same buffers behind new headers, or a copy if
    /// the device cannot send chains.
    fn echo(
        &mut self,
        packet: Packet<D::Frame>,
        ident: u16,
        sequence: u16,
    ) -> Result<(), DropReason> {
        if packet.link.group {
            return Err(DropReason::IpNotOurs);
        }
        let data_at = packet.l4 + icmpv4::HEADER_LEN;
        let data_len = packet.l4_len.saturating_sub(icmpv4::HEADER_LEN);
        let ip = if packet.src.is_ipv4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
        let port = packet.link.port;
        let too_long = ip + icmpv4::HEADER_LEN + data_len > self.ports[port].mtu.into();
        if too_long || !self.ports[port].has_answer_room() {
            return Err(DropReason::IcmpLimit);
        }
        let mut sum = Accumulator::default();
        for bytes in bytes_from(&packet.frame, data_at) {
            sum.add(bytes);
        }
        let mut header = [0; icmpv4::HEADER_LEN];
        match (packet.dst, packet.src) {
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let echo = Echo { kind: EchoKind::Reply, ident, sequence };
                icmpv6::emit_echo(&mut header, src, dst, echo, data_len, sum.sum())
            }
            _ => icmpv4::emit_echo(&mut header, EchoKind::Reply, ident, sequence, sum.sum()),
        };
        let outer = Outer {
            port: packet.link.port,
            to: packet.link.from,
            src: packet.dst,
            dst: packet.src,
            protocol: packet.protocol,
            hop_limit: self.env.params().ttl,
        };
        let caps = *self.ports[port].device.capabilities();
        let chained = caps.offloads.multi_segment
            && packet.frame.segment_count() < usize::from(caps.tx_segments_max)
            && data_len > 0;
        let sent = if chained {
            let made = self.packet(outer, icmpv4::HEADER_LEN, data_len, |out| {
                out.copy_from_slice(&header);
            });
            let mut data = packet.frame;
            data.trim_front(data_at);
            let data = if data.head().is_empty() { data.split_head().1 } else { Some(data) };
            made.and_then(|mut frame| {
                frame.chain(data?);
                Some(frame)
            })
        } else {
            self.packet(outer, icmpv4::HEADER_LEN + data_len, 0, |out| {
                let (head, body) = out.split_at_mut(icmpv4::HEADER_LEN);
                head.copy_from_slice(&header);
                gather(bytes_from(&packet.frame, data_at), body);
            })
        };
        let frame = sent.ok_or(DropReason::NoBuffer)?;
        self.env.counters.icmp_out_msgs += 1;
        self.env.counters.icmp_out_echo_reps += 1;
        self.ports[port].push(frame);
        Ok(())
    }

    /// Report an error about a packet, if it is one of those about which errors are reported and
    /// the rate allows it: RFC 1122 section 3.2.2, RFC 4443 section 2.4.
    pub(crate) fn report(&mut self, packet: Packet<D::Frame>, report: Report) {
        let port = packet.link.port;
        let stranger = packet.src.is_unspecified() || packet.src.is_multicast();
        // A reassembled datagram has lost its header.
        if packet.link.group
            || stranger
            || packet.reassembled
            || !self.ports[port].has_answer_room()
        {
            return;
        }
        let now = self.env.now;
        if !self.icmp_limit.allow(now, &mut self.env.random, packet.src) {
            return;
        }
        let outer = Outer {
            port: packet.link.port,
            to: packet.link.from,
            src: packet.dst,
            dst: packet.src,
            protocol: if packet.src.is_ipv4() { protocol::ICMP } else { protocol::ICMPV6 },
            hop_limit: self.env.params().ttl,
        };
        let (l3, pointer) = (packet.link.l3, packet.protocol_at as u32);
        let quote_max = match packet.src {
            IpAddr::V4(_) => icmpv4::QUOTE_LEN_MAX,
            IpAddr::V6(_) => icmpv6::QUOTE_LEN_MAX,
        };
        let Ok(frame) = self.contiguous(packet.frame, l3 + quote_max) else { return };
        let quoted = frame.head().get(l3..).unwrap_or(&[]);
        let quoted = quoted.get(..quote_max).unwrap_or(quoted);
        let len = icmpv4::HEADER_LEN + quoted.len();
        let made = self.packet(outer, len, 0, |out| match (outer.src, outer.dst) {
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let error = match report {
                    Report::PortUnreachable => Icmpv6Error::Unreachable(icmpv6::UNREACHABLE_PORT),
                    Report::ProtocolUnreachable => {
                        let code = icmpv6::UNRECOGNIZED_NEXT_HEADER;
                        Icmpv6Error::ParameterProblem(ParameterProblem { code, pointer })
                    }
                    Report::Problem(problem) => Icmpv6Error::ParameterProblem(problem),
                };
                icmpv6::emit_error(out, src, dst, error, quoted);
            }
            _ => {
                let code = match report {
                    Report::PortUnreachable => icmpv4::UNREACHABLE_PORT,
                    _ => icmpv4::UNREACHABLE_PROTOCOL,
                };
                icmpv4::emit_error(out, Icmpv4Error::Unreachable(code), quoted);
            }
        });
        if let Some(frame) = made {
            self.env.counters.icmp_out_msgs += 1;
            if !matches!(report, Report::Problem(_)) {
                self.env.counters.icmp_out_dest_unreachs += 1;
            }
            self.ports[port].push(frame);
        }
    }

    /// A frame with link and network header and `len` bytes that `write` fills in; `more` bytes will
    /// be chained behind.
    pub(crate) fn packet(
        &mut self,
        outer: Outer,
        len: usize,
        more: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> Option<D::Frame> {
        let ipv6 = outer.dst.is_ipv6();
        let network = if ipv6 { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN };
        let whole = ethernet::HEADER_LEN + network + len;
        let port = &mut self.ports[outer.port];
        let (mac, device) = (port.mac, &mut port.device);
        let room = device.capabilities().header_room as usize;
        let mut frame = if whole <= room { device.alloc()? } else { device.payload_alloc()? };
        let out = frame.push_back(whole)?;
        let ethertype = if ipv6 { EtherType::IPV6 } else { EtherType::IPV4 };
        let (link, rest) = out.split_at_mut(ethernet::HEADER_LEN);
        ethernet::emit(link, outer.to, mac, None, ethertype);
        let (header, body) = rest.split_at_mut(network);
        let payload_len = (len + more) as u16;
        match (outer.src, outer.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                self.env.counters.ip_out_requests += 1;
                emit_v4(header, src, dst, &outer, payload_len);
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                self.env.counters.ip6_out_requests += 1;
                emit_v6(header, src, dst, &outer, payload_len);
            }
            _ => return None,
        }
        write(body);
        Some(frame)
    }
}

fn emit_v4(out: &mut [u8], src: Ipv4Addr, dst: Ipv4Addr, outer: &Outer, payload_len: u16) {
    let fields = Ipv4Fields {
        src,
        dst,
        protocol: outer.protocol,
        ttl: outer.hop_limit,
        tos: 0,
        ident: 0,
        dont_fragment: true,
        total_len: ipv4::HEADER_LEN as u16 + payload_len,
    };
    ipv4::emit(out, &fields, HeaderChecksum::Compute);
}

fn emit_v6(out: &mut [u8], src: Ipv6Addr, dst: Ipv6Addr, outer: &Outer, payload_len: u16) {
    let fields = Ipv6Fields {
        src,
        dst,
        traffic_class: 0,
        flow_label: 0,
        hop_limit: outer.hop_limit,
        next_header: outer.protocol,
        payload_len,
    };
    ipv6::emit(out, &fields);
}

/// Copy pieces one after the other to `out`, as far as it reaches.
fn gather<'a>(pieces: impl Iterator<Item = &'a [u8]>, mut out: &mut [u8]) {
    for piece in pieces {
        let n = piece.len().min(out.len());
        let (to, rest) = out.split_at_mut(n);
        to.copy_from_slice(&piece[..n]);
        out = rest;
    }
}
