//! Sound frames and packets to begin with.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::icmpv4::EchoKind;
use wire::{
    EtherType, Mac, TcpFields, TcpFlags, TcpOptions, arp, checksum, ethernet, icmpv4, icmpv6, ipv4,
    ipv6, ndp, protocol, tcp, udp,
};

pub(crate) const OUR_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
pub(crate) const PEER_MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);
pub(crate) const OUR_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(crate) const PEER_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
pub(crate) const OUR_IP6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
pub(crate) const PEER_IP6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

/// What follows the link header of a frame.
pub(crate) fn link(to: Mac, from: Mac, ethertype: EtherType, packet: &[u8]) -> Vec<u8> {
    let mut out = vec![0; ethernet::HEADER_LEN];
    ethernet::emit(&mut out, to, from, None, ethertype);
    out.extend(packet);
    out
}

/// An IPv4 packet from the peer.
pub(crate) fn ipv4_packet(proto: u8, ident: u16, fragment: u16, body: &[u8]) -> Vec<u8> {
    packet_v4(PEER_IP, OUR_IP, proto, ident, fragment, body)
}

pub(crate) fn packet_v4(
    src: Ipv4Addr,
    dst: Ipv4Addr,
    proto: u8,
    ident: u16,
    fragment: u16,
    body: &[u8],
) -> Vec<u8> {
    let fields = ipv4::Ipv4Fields {
        src,
        dst,
        protocol: proto,
        ttl: 64,
        tos: 0,
        ident,
        dont_fragment: fragment == 0,
        total_len: (ipv4::HEADER_LEN + body.len()) as u16,
    };
    let mut out = vec![0; ipv4::HEADER_LEN];
    ipv4::emit(&mut out, &fields, ipv4::HeaderChecksum::Offload);
    if fragment != 0 {
        out[6..8].copy_from_slice(&fragment.to_be_bytes());
    }
    let sum = checksum::of(&out);
    out[10..12].copy_from_slice(&sum.to_be_bytes());
    out.extend(body);
    out
}

/// An IPv6 packet.
pub(crate) fn packet_v6(
    src: Ipv6Addr,
    dst: Ipv6Addr,
    next_header: u8,
    hop_limit: u8,
    body: &[u8],
) -> Vec<u8> {
    let fields = ipv6::Ipv6Fields {
        src,
        dst,
        traffic_class: 0,
        flow_label: 0,
        hop_limit,
        next_header,
        payload_len: body.len() as u16,
    };
    let mut out = vec![0; ipv6::HEADER_LEN];
    ipv6::emit(&mut out, &fields);
    out.extend(body);
    out
}

/// A TCP segment with its checksum.
pub(crate) fn segment(src: IpAddr, dst: IpAddr, fields: &TcpFields, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; fields.header_len()];
    tcp::emit(&mut out, fields);
    out.extend(payload);
    put_tcp_checksum(src, dst, &mut out);
    out
}

pub(crate) fn put_tcp_checksum(src: IpAddr, dst: IpAddr, segment: &mut [u8]) {
    tcp::set_checksum(segment, 0);
    if let Some(pseudo) = checksum::pseudo(src, dst, protocol::TCP, segment.len()) {
        let sum = checksum::finish(pseudo, segment, 0);
        tcp::set_checksum(segment, sum);
    }
}

/// The packet around a transport of either family, from `src`.
pub(crate) fn packet(src: IpAddr, dst: IpAddr, proto: u8, body: &[u8]) -> Vec<u8> {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => packet_v4(src, dst, proto, 0, 0, body),
        (IpAddr::V6(src), IpAddr::V6(dst)) => packet_v6(src, dst, proto, 64, body),
        _ => unreachable!("one family"),
    }
}

/// A frame from the peer to us with a transport of either family.
pub(crate) fn frame(src: IpAddr, dst: IpAddr, proto: u8, body: &[u8]) -> Vec<u8> {
    let ethertype = if src.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
    link(OUR_MAC, PEER_MAC, ethertype, &packet(src, dst, proto, body))
}

pub(crate) fn arp_request(sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let mut body = vec![0; arp::LEN];
    arp::ArpPacket::request(PEER_MAC, sender, target).emit(&mut body);
    link(Mac::BROADCAST, PEER_MAC, EtherType::ARP, &body)
}

/// A solicitation of the peer for `target`.
pub(crate) fn solicitation(target: Ipv6Addr) -> Vec<u8> {
    let group = ndp::solicited_node(target);
    let mut body = vec![0; ndp::NEIGHBOR_LEN_MAX];
    let asked = ndp::Solicitation { target, source_mac: Some(PEER_MAC) };
    asked.emit(&mut body, PEER_IP6, group);
    let packet = packet_v6(PEER_IP6, group, protocol::ICMPV6, ndp::HOP_LIMIT, &body);
    link(ndp::multicast_mac(group), PEER_MAC, EtherType::IPV6, &packet)
}

pub(crate) fn syn_options() -> TcpOptions {
    TcpOptions {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some((1000, 0)),
        ..TcpOptions::default()
    }
}

/// Headers of segments: a SYN, one with SACK blocks, one with data.
pub(crate) fn tcp_fields() -> Vec<TcpFields> {
    let ports = TcpFields { src_port: 1000, dst_port: 80, ..TcpFields::default() };
    let syn = TcpFields { flags: TcpFlags::SYN, seq: 99, options: syn_options(), ..ports.clone() };
    let mut options = TcpOptions::with_timestamps(5, 6);
    options.sack = [(10, 20), (30, 40), (50, 60)].into_iter().collect();
    let sack = TcpFields { flags: TcpFlags::ACK, seq: 100, ack: 7, options, ..ports.clone() };
    let flags = TcpFlags::ACK | TcpFlags::PSH | TcpFlags::FIN;
    vec![syn, sack, TcpFields { flags, seq: 100, ack: 8, window: 512, urgent: 3, ..ports }]
}

pub(crate) fn echo(len: usize) -> Vec<u8> {
    let data = vec![3; len];
    let mut body = vec![0; icmpv4::HEADER_LEN];
    icmpv4::emit_echo(&mut body, EchoKind::Request, 1, 2, checksum::sum(&data, 0));
    body.extend(data);
    body
}

pub(crate) fn echo6(len: usize) -> Vec<u8> {
    let data = vec![3; len];
    let mut body = vec![0; icmpv6::HEADER_LEN];
    let echo = icmpv6::Echo { kind: EchoKind::Request, ident: 1, sequence: 2 };
    let sum = checksum::sum(&data, 0);
    icmpv6::emit_echo(&mut body, PEER_IP6, OUR_IP6, echo, len, sum);
    body.extend(data);
    body
}

pub(crate) fn datagram(len: usize) -> Vec<u8> {
    let mut body = vec![0; udp::HEADER_LEN];
    udp::emit(&mut body, 5, 6, (udp::HEADER_LEN + len) as u16, 0);
    body.extend(vec![9; len]);
    body
}

/// A segment of ours in a packet of ours, for errors to quote.
pub(crate) fn quoted(v6: bool, seq: u32) -> Vec<u8> {
    let (src, dst): (IpAddr, IpAddr) =
        if v6 { (OUR_IP6.into(), PEER_IP6.into()) } else { (OUR_IP.into(), PEER_IP.into()) };
    let fields = TcpFields {
        src_port: 80,
        dst_port: 1000,
        seq,
        flags: TcpFlags::ACK,
        ..TcpFields::default()
    };
    packet(src, dst, protocol::TCP, &segment(src, dst, &fields, b"data"))
}

pub(crate) fn error4(error: icmpv4::Icmpv4Error, packet: &[u8]) -> Vec<u8> {
    let mut body = vec![0; icmpv4::HEADER_LEN + icmpv4::QUOTE_LEN_MAX];
    let len = icmpv4::emit_error(&mut body, error, packet);
    body.truncate(len);
    body
}

pub(crate) fn error6(error: icmpv6::Icmpv6Error, packet: &[u8]) -> Vec<u8> {
    let mut body = vec![0; icmpv6::HEADER_LEN + icmpv6::QUOTE_LEN_MAX];
    let len = icmpv6::emit_error(&mut body, PEER_IP6, OUR_IP6, error, packet);
    body.truncate(len);
    body
}

/// Whole frames, one of each kind.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut all = vec![arp_request(PEER_IP, OUR_IP), solicitation(OUR_IP6)];
    for fields in tcp_fields() {
        for (src, dst) in [(PEER_IP.into(), OUR_IP.into()), (PEER_IP6.into(), OUR_IP6.into())]
            as [(IpAddr, IpAddr); 2]
        {
            let body = segment(src, dst, &fields, b"hello");
            all.push(frame(src, dst, protocol::TCP, &body));
        }
    }
    let (src, dst) = (PEER_IP.into(), OUR_IP.into());
    all.push(frame(src, dst, protocol::UDP, &datagram(20)));
    all.push(frame(src, dst, protocol::ICMP, &echo(10)));
    let too_big = icmpv4::Icmpv4Error::FragmentationNeeded(1400);
    all.push(frame(src, dst, protocol::ICMP, &error4(too_big, &quoted(false, 7))));
    let (src, dst) = (PEER_IP6.into(), OUR_IP6.into());
    all.push(frame(src, dst, protocol::ICMPV6, &echo6(10)));
    let too_big = icmpv6::Icmpv6Error::PacketTooBig(1400);
    all.push(frame(src, dst, protocol::ICMPV6, &error6(too_big, &quoted(true, 7))));
    let tagged = |tags: &[u8]| {
        let mut out = all[0].clone();
        out.splice(12..12, tags.iter().copied());
        out
    };
    let (single, double) =
        (tagged(&[0x81, 0, 0, 5]), tagged(&[0x88, 0xa8, 0x60, 5, 0x81, 0, 0, 6]));
    all.extend([single, double]);
    all
}
