//! From a received frame to what it means: link and network layer, checksums, and the way up.
//!
//! A frame is parsed in place. Only when its headers do not lie together in the first buffer is it
//! copied to one, so any cutting of a frame into buffers gives the same result as the flat frame.

use base::{Checksum, Device, DropReason, Ecn, Frame, PortId, RxMeta};
use core::net::{IpAddr, Ipv6Addr};
use tcp::{SegOptions, Segment, SeqNum, UserTimeoutOption};
use wire::ipv6::{ParameterProblem, Rejection};
use wire::{
    EtherType, FlowKey, Ipv4Header, Ipv6Header, Mac, TcpHeader, TcpOptions, checksum, ethernet,
    ipv4, ipv6, ndp, protocol,
};

use crate::gro::Arrived;
use crate::inner::Core;
use crate::ip_control::Report;
use crate::route::AddressClass;

/// Bytes of link header that must be contiguous: two VLAN tags.
const LINK_HEADER_MAX: usize = ethernet::HEADER_LEN + 2 * ethernet::VLAN_TAG_LEN;
/// Bytes of the longest frame taken: a device that merges segments delivers up to one IP packet.
pub(crate) const FRAME_MAX: usize = 65_535 + LINK_HEADER_MAX;
/// Bits of a VLAN tag that number the VLAN; without them the tag only sets a priority.
const VLAN_NUMBER: u16 = 0xfff;
/// Wrong TCP checksums in a row, with nothing right before, that show a link which leaves them out.
const CHECKSUM_TRAP: u32 = 3;

/// Notes wrong TCP checksums until it is clear whether the link leaves them out.
pub(crate) enum ChecksumWatch {
    /// So many wrong ones, nothing right yet.
    Wrong(u32),
    /// Something was right, or the alarm has been given.
    Off,
}

/// What is known of the link layer when a packet goes up.
#[derive(Clone, Copy)]
pub(crate) struct LinkInfo {
    /// Where it came in.
    pub(crate) port: PortId,
    /// Who sent it.
    pub(crate) from: Mac,
    /// It was sent to all, or to a group.
    pub(crate) group: bool,
    /// Where the network header begins.
    pub(crate) l3: usize,
    /// The transport checksum was verified by the device.
    pub(crate) l4_good: bool,
    /// The same for the IPv4 header.
    pub(crate) l3_good: bool,
}

/// What the network layer hands up.
pub(crate) struct Packet<F> {
    pub(crate) link: LinkInfo,
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
    pub(crate) protocol: u8,
    /// Where `protocol` was named, for an ICMPv6 parameter problem.
    pub(crate) protocol_at: usize,
    /// ECN codepoint.
    pub(crate) ecn: Ecn,
    pub(crate) hop_limit: u8,
    /// Put together from fragments: there is no network header in the frame.
    pub(crate) reassembled: bool,
    /// Offset of the transport header in the frame.
    pub(crate) l4: usize,
    /// Bytes of transport header and payload.
    pub(crate) l4_len: usize,
    /// Ends with the packet: padding is cut off.
    pub(crate) frame: F,
}

/// What parsing without taking the frame apart has found out.
enum Parsed {
    Arp(LinkInfo),
    V4(LinkInfo, Ipv4Header),
    V6(LinkInfo, Ipv6Header),
    /// An IPv6 packet that is refused, with an answer.
    Refused(LinkInfo, DropReason, ParameterProblem),
}

/// The frame's bytes from `offset` on, buffer by buffer.
pub(crate) fn bytes_from<F: Frame>(frame: &F, offset: usize) -> impl Iterator<Item = &[u8]> {
    let mut skip = offset;
    frame.segments().map(move |bytes| {
        let n = skip.min(bytes.len());
        skip -= n;
        bytes.get(n..).unwrap_or(&[])
    })
}

/// Whether the buffers of a chain add up to its length, and none but a lone one is empty.
fn chain_is_sound<F: Frame>(frame: &F) -> bool {
    if frame.segment_count() == 1 {
        return frame.head().len() == frame.len();
    }
    let (mut count, mut sum, mut empty) = (0, 0_usize, false);
    for bytes in frame.segments() {
        count += 1;
        sum = sum.saturating_add(bytes.len());
        empty |= bytes.is_empty();
    }
    count == frame.segment_count() && sum == frame.len() && !empty
}

impl<D: Device> Core<D> {
    /// A frame from the device. Whatever becomes of it, it is counted once.
    pub(crate) fn on_frame(&mut self, port: PortId, frame: D::Frame) {
        self.env.counters.frames_rx += 1;
        self.env.counters.bytes_rx += frame.len() as u64;
        let Err(frame) = self.familiar_input(port, frame) else { return };
        if let Err(reason) = self.frame_input(port, frame) {
            self.env.drop(reason);
        }
    }

    fn frame_input(&mut self, port: PortId, mut frame: D::Frame) -> Result<(), DropReason> {
        if !chain_is_sound(&frame) {
            return Err(DropReason::MbufBad);
        }
        if frame.len() > FRAME_MAX {
            return Err(DropReason::L2Oversize);
        }
        let meta = frame.rx_meta();
        let mut flat = frame.segment_count() == 1;
        if !flat && frame.head().len() < LINK_HEADER_MAX {
            frame = self.linearise(frame)?;
            flat = true;
        }
        let parsed = match self.parse_frame(port, &frame, meta) {
            Err(DropReason::MbufSplit) if !flat => {
                frame = self.linearise(frame)?;
                self.parse_frame(port, &frame, meta)?
            }
            other => other?,
        };
        match parsed {
            Parsed::Arp(link) => {
                let frame = self.contiguous(frame, link.l3 + wire::arp::LEN)?;
                self.on_arp(&link, frame.head().get(link.l3..).unwrap_or(&[]))
            }
            Parsed::V4(link, header) => self.on_ipv4(link, &header, frame),
            Parsed::V6(link, header) => self.on_ipv6(link, &header, frame),
            Parsed::Refused(link, reason, problem) => {
                self.env.counters.ip6_in_receives += 1;
                self.refuse_packet(link, problem, frame);
                Err(reason)
            }
        }
    }

    /// The same bytes with as many as possible of the first ones in one buffer.
    fn linearise(&mut self, mut frame: D::Frame) -> Result<D::Frame, DropReason> {
        let device = &mut self.ports.any_mut().device;
        let room = device.capabilities().payload_room as usize;
        let Some(mut flat) = device.payload_alloc() else {
            self.env.pool_was_empty();
            return Err(DropReason::NoBuffer);
        };
        let mut left = room.min(frame.len());
        let Some(out) = flat.push_back(left) else { return Err(DropReason::NoBuffer) };
        let mut at = 0;
        for bytes in frame.segments() {
            let n = bytes.len().min(left);
            let (Some(to), Some(from)) = (out.get_mut(at..at + n), bytes.get(..n)) else { break };
            to.copy_from_slice(from);
            at += n;
            left -= n;
        }
        // What did not fit stays behind the copy.
        let mut skip = at;
        loop {
            let n = skip.min(frame.head().len());
            frame.trim_front(n);
            skip -= n;
            if !frame.head().is_empty() {
                flat.chain(frame);
                return Ok(flat);
            }
            match frame.split_head() {
                (_, Some(rest)) => frame = rest,
                (_, None) => return Ok(flat),
            }
        }
    }

    /// The frame with at least the first `len` bytes (or all there are) in one buffer.
    pub(crate) fn contiguous(
        &mut self,
        frame: D::Frame,
        len: usize,
    ) -> Result<D::Frame, DropReason> {
        if frame.head().len() >= len.min(frame.len()) {
            return Ok(frame);
        }
        self.linearise(frame)
    }

    fn parse_frame(
        &self,
        port: PortId,
        frame: &D::Frame,
        meta: RxMeta,
    ) -> Result<Parsed, DropReason> {
        let own = &self.ports[port];
        let head = frame.head();
        let link = ethernet::parse(head)?;
        if link.src == own.mac {
            return Err(DropReason::L2Loop);
        }
        if !self.is_for_us(port, link.dst) {
            return Err(DropReason::L2NotOurs);
        }
        let tags = [meta.vlan, link.vlan, link.inner_vlan];
        if tags.into_iter().flatten().any(|tag| tag & VLAN_NUMBER != 0) {
            return Err(DropReason::VlanBad);
        }
        let good = |c: Checksum| own.believes(c);
        let info = LinkInfo {
            port,
            from: link.src,
            group: link.dst.is_multicast(),
            l3: link.len,
            l4_good: good(meta.l4_checksum),
            l3_good: good(meta.l3_checksum),
        };
        let packet = head.get(link.len..).unwrap_or(&[]);
        let len = frame.len() - link.len;
        match link.ethertype {
            EtherType::IPV4 => Ok(Parsed::V4(info, ipv4::parse(packet, len, !info.l3_good)?)),
            EtherType::IPV6 => match ipv6::parse(packet, len) {
                Ok(header) => Ok(Parsed::V6(info, header)),
                Err(Rejection { reason, answer: Some(problem) }) => {
                    Ok(Parsed::Refused(info, reason, problem))
                }
                Err(Rejection { reason, .. }) => Err(reason),
            },
            EtherType::ARP => Ok(Parsed::Arp(info)),
            _ => Err(DropReason::L2Unknown),
        }
    }

    /// Whether a frame to `mac` concerns us: our address, everybody, or a group that neighbour
    /// discovery uses.
    fn is_for_us(&self, port: PortId, mac: Mac) -> bool {
        if !mac.is_multicast() {
            return mac == self.ports[port].mac;
        }
        mac.is_broadcast()
            || mac == Mac::of_ipv6_multicast(ALL_NODES)
            || self.addresses6(port).any(|a| mac == ndp::multicast_mac(ndp::solicited_node(a)))
    }

    fn addresses6(&self, port: PortId) -> impl Iterator<Item = Ipv6Addr> {
        self.routes.addresses(port).filter_map(|addr| match addr {
            IpAddr::V6(addr) => Some(addr),
            IpAddr::V4(_) => None,
        })
    }

    fn on_ipv4(
        &mut self,
        link: LinkInfo,
        header: &Ipv4Header,
        mut frame: D::Frame,
    ) -> Result<(), DropReason> {
        self.env.counters.on_ip_in(Ecn::from_bits(header.tos));
        frame.truncate(link.l3 + header.total_len);
        if self.is_local(header.src.into()) || self.is_broadcast(header.src.into()) {
            return Err(DropReason::IpMartian);
        }
        if !self.is_ours(link.port, header.dst.into()) {
            let group = self.is_broadcast(header.dst.into()) || header.dst.is_multicast();
            return Err(not_ours(group, header.protocol));
        }
        // RFC 1122 section 3.3.6: sent to all on the link, but not to an address of all.
        if link.group {
            return Err(not_ours(true, header.protocol));
        }
        let mut packet = Packet {
            link,
            src: header.src.into(),
            dst: header.dst.into(),
            protocol: header.protocol,
            protocol_at: 9,
            ecn: Ecn::from_bits(header.tos),
            hop_limit: header.ttl,
            reassembled: false,
            l4: link.l3 + header.header_len,
            l4_len: header.payload_len(),
            frame,
        };
        if let Some(fragment) = header.fragment {
            let place = (u32::from(header.ident), fragment.offset, fragment.more);
            let Some(whole) = self.reassemble(packet, place)? else { return Ok(()) };
            packet = whole;
        }
        self.env.counters.ip_in_delivers += 1;
        self.on_packet(packet)
    }

    fn on_ipv6(
        &mut self,
        link: LinkInfo,
        header: &Ipv6Header,
        mut frame: D::Frame,
    ) -> Result<(), DropReason> {
        self.env.counters.on_ip6_in(Ecn::from_bits(header.traffic_class));
        frame.truncate(link.l3 + header.total_len());
        if self.is_local(header.src.into()) {
            return Err(DropReason::IpMartian);
        }
        let discovery =
            header.protocol == protocol::ICMPV6 && self.is_group6(link.port, header.dst);
        if !self.is_ours(link.port, header.dst.into()) && !discovery {
            return Err(not_ours(header.dst.is_multicast(), header.protocol));
        }
        let mut packet = Packet {
            link,
            src: header.src.into(),
            dst: header.dst.into(),
            protocol: header.protocol,
            protocol_at: header.protocol_at,
            ecn: Ecn::from_bits(header.traffic_class),
            hop_limit: header.hop_limit,
            reassembled: false,
            l4: link.l3 + header.transport_offset,
            l4_len: header.transport_len,
            frame,
        };
        if let Some(fragment) = header.fragment {
            // RFC 6980: neighbour discovery is never fragmented; groups get nothing else from us.
            if discovery {
                return Err(DropReason::NdInvalid);
            }
            let place = (fragment.id, fragment.offset, fragment.more);
            let Some(whole) = self.reassemble(packet, place)? else { return Ok(()) };
            packet = whole;
        }
        self.env.counters.ip6_in_delivers += 1;
        self.on_packet(packet)
    }

    /// Tell the sender of an IPv6 packet what was wrong with its headers.
    fn refuse_packet(&mut self, link: LinkInfo, problem: ParameterProblem, frame: D::Frame) {
        let address = |at: usize| {
            let bytes = frame.head().get(link.l3 + at..).and_then(|b| b.first_chunk::<16>());
            bytes.map(|b| IpAddr::V6(Ipv6Addr::from(*b)))
        };
        let (Some(src), Some(dst)) = (address(8), address(24)) else { return };
        if !self.is_ours(link.port, dst) || self.is_local(src) {
            return;
        }
        let packet = Packet {
            link,
            src,
            dst,
            protocol: protocol::NO_NEXT_HEADER,
            protocol_at: 0,
            ecn: Ecn::NotEct,
            hop_limit: 0,
            reassembled: false,
            l4: link.l3,
            l4_len: 0,
            frame,
        };
        self.report(packet, Report::Problem(problem));
    }

    /// A whole packet for us.
    fn on_packet(&mut self, mut packet: Packet<D::Frame>) -> Result<(), DropReason> {
        match packet.protocol {
            protocol::TCP => {
                self.env.tcp.in_segs += 1;
                let parsed = match self.parse_tcp(&packet) {
                    Err(DropReason::MbufSplit) => {
                        packet.frame = self.linearise(packet.frame)?;
                        self.parse_tcp(&packet)
                    }
                    other => other,
                };
                let (header, options) = parsed?;
                self.on_tcp(packet, &header, options)
            }
            protocol::UDP => self.on_udp(packet),
            protocol::ICMP if packet.src.is_ipv4() => self.on_icmpv4(packet),
            protocol::ICMPV6 if packet.src.is_ipv6() => self.on_icmpv6(packet),
            _ => self.on_unknown_protocol(packet),
        }
    }

    /// The header of a segment whose checksum is right.
    fn parse_tcp(
        &mut self,
        packet: &Packet<D::Frame>,
    ) -> Result<(TcpHeader, TcpOptions), DropReason> {
        let bytes = packet.frame.head().get(packet.l4..).unwrap_or(&[]);
        let parsed = wire::tcp::parse(bytes, packet.l4_len);
        match parsed {
            Err(reason @ (DropReason::TcpShort | DropReason::MbufSplit)) => return Err(reason),
            // Whatever else is wrong: without a right checksum it says nothing about the peer.
            _ => self.verify_tcp(packet)?,
        }
        let (header, options) = parsed.inspect_err(|_| self.env.tcp.in_errs += 1)?;
        wire::tcp::check_flags(header.flags)?;
        Ok((header, options))
    }

    fn verify_tcp(&mut self, packet: &Packet<D::Frame>) -> Result<(), DropReason> {
        let port = packet.link.port;
        if packet.link.l4_good {
            self.ports[port].checksums = ChecksumWatch::Off;
            return Ok(());
        }
        let pseudo = checksum::pseudo(packet.src, packet.dst, protocol::TCP, packet.l4_len);
        let bytes = bytes_from(&packet.frame, packet.l4);
        if pseudo.is_some_and(|p| checksum::verify(p, bytes, packet.l4_len)) {
            self.ports[port].checksums = ChecksumWatch::Off;
            return Ok(());
        }
        self.env.tcp.in_csum_errors += 1;
        self.env.tcp.in_errs += 1;
        let watch = &mut self.ports[port].checksums;
        if let ChecksumWatch::Wrong(count) = watch {
            *count += 1;
            if *count >= CHECKSUM_TRAP {
                *watch = ChecksumWatch::Off;
                self.outbox.push_answer(crate::Outgoing::ChecksumTrap(port));
            }
        }
        Err(DropReason::TcpChecksum)
    }

    fn on_tcp(
        &mut self,
        packet: Packet<D::Frame>,
        header: &TcpHeader,
        options: TcpOptions,
    ) -> Result<(), DropReason> {
        // RFC 1122 sections 3.3.6 and 4.2.3.10: TCP knows no groups, at any layer.
        if packet.link.group {
            return Err(DropReason::TcpNotUnicast);
        }
        let key = FlowKey::from_parts(packet.dst, header.dst_port, packet.src, header.src_port)
            .ok_or(DropReason::IpMartian)?;
        let len = packet.l4_len - header.header_len;
        let mut frame = packet.frame;
        if !packet.reassembled {
            let familiar = &mut self.ports[packet.link.port].familiar;
            familiar.remember(&key, packet.link.from, frame.head(), packet.l4);
        }
        frame.trim_front(packet.l4 + header.header_len);
        let payload = if len == 0 {
            None
        } else if frame.head().is_empty() {
            frame.split_head().1
        } else {
            Some(frame)
        };
        let seg = self.segment(header, options, len, packet.ecn);
        let arrived = Arrived { key, from: packet.link.from, seg, payload };
        if self.burst.push(arrived) {
            self.env.counters.gro_merged += 1;
        }
        Ok(())
    }

    /// When the frames of this turn arrived, as far as it is known.
    #[inline]
    pub(crate) fn arrival(&self) -> base::Instant {
        if self.stall.is_catching_up() { Segment::ARRIVAL_UNKNOWN } else { self.env.now }
    }

    fn segment(&self, header: &TcpHeader, options: TcpOptions, len: usize, ecn: Ecn) -> Segment {
        let sack = options.sack.iter().map(|&(l, r)| (SeqNum::new(l), SeqNum::new(r))).collect();
        Segment {
            seq: SeqNum::new(header.seq),
            ack: SeqNum::new(header.ack),
            flags: header.flags,
            wnd: header.window,
            len: len as u32,
            seg_size: len as u32,
            segs: 1,
            options: SegOptions {
                mss: options.mss,
                window_scale: options.window_scale,
                sack_permitted: options.sack_permitted,
                timestamps: options.timestamps,
                user_timeout: options.user_timeout.and_then(UserTimeoutOption::from_field),
                sack,
            },
            ecn,
            arrival: self.arrival(),
        }
    }

    /// Whether `addr` is one of ours on the link of `port`. Packets for another port's address are
    /// not taken: docs/decisions/012.
    #[inline]
    pub(crate) fn is_ours(&self, port: PortId, addr: IpAddr) -> bool {
        self.routes.port_of(addr) == Some(port)
    }

    /// Whether `addr` is one of ours, on whichever port.
    #[inline]
    pub(crate) fn is_local(&self, addr: IpAddr) -> bool {
        self.routes.is_local(addr)
    }

    /// The limited broadcast address, or that of a network of ours.
    pub(crate) fn is_broadcast(&self, addr: IpAddr) -> bool {
        self.routes.classify(addr) == AddressClass::Broadcast
    }

    /// A group in which we listen to neighbour discovery.
    fn is_group6(&self, port: PortId, addr: Ipv6Addr) -> bool {
        addr == ALL_NODES || self.addresses6(port).any(|a| ndp::solicited_node(a) == addr)
    }
}

/// The reason for which a packet to an address that is not ours is discarded: RFC 9293 section 3.9.2.3
/// and RFC 1122 section 4.2.3.10 for what goes to all.
const fn not_ours(group: bool, protocol: u8) -> DropReason {
    if group && protocol == protocol::TCP {
        DropReason::TcpNotUnicast
    } else {
        DropReason::IpNotOurs
    }
}

/// All nodes of the link, RFC 4291 section 2.7.1.
pub(crate) const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
