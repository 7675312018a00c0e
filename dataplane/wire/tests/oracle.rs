//! Our headers against those of an independent implementation, in both directions, over whole
//! frames: what we emit must mean the same to it, what it emits must mean the same to us, and of
//! damaged bytes we must never accept what it refuses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::{
    IpHeaders, IpNumber, Ipv4Header, Ipv4HeaderSlice, Ipv4Options, Ipv6Extensions,
    Ipv6FragmentHeader, Ipv6Header, Ipv6RawExtHeader, NetSlice, PacketBuilder, SlicedPacket,
    TcpOptionElement, TcpSlice, TransportSlice,
};
use proptest::prelude::*;
use wire::ipv4::{HeaderChecksum, Ipv4Fields};
use wire::ipv6::Ipv6Fields;
use wire::{EtherType, Mac, TcpFields, TcpFlags, TcpOptions};
use wire::{checksum, ethernet, icmpv4, icmpv6, ipv4, ipv6, protocol, tcp, udp};

const MAC_A: Mac = Mac([2, 0, 0, 0, 0, 1]);
const MAC_B: Mac = Mac([2, 0, 0, 0, 0, 2]);

/// Two unicast addresses of one family.
fn addresses() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    let v4 = (0x0a00_0000u32..0x0b00_0000, 0xac10_0000u32..0xac20_0000)
        .prop_map(|(a, b)| (Ipv4Addr::from_bits(a).into(), Ipv4Addr::from_bits(b).into()));
    let v6 = (any::<u64>(), any::<u64>()).prop_map(|(a, b)| {
        let (fd, fe) = (0xfd00u128 << 112, 0xfe80u128 << 112);
        let (a, b) = (fd | u128::from(a), fe | u128::from(b));
        (Ipv6Addr::from_bits(a).into(), Ipv6Addr::from_bits(b).into())
    });
    prop_oneof![v4, v6]
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..200)
}

/// A frame of ours around a transport header and payload that are complete.
fn frame(src: IpAddr, dst: IpAddr, vlan: Option<u16>, proto: u8, transport: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 18];
    let kind = if src.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
    let len = ethernet::emit(&mut out, MAC_B, MAC_A, vlan, kind);
    out.truncate(len);
    let at = out.len();
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            out.resize(at + 20, 0);
            let fields = Ipv4Fields {
                src,
                dst,
                protocol: proto,
                ttl: 17,
                tos: 0xb9,
                ident: 0xabcd,
                dont_fragment: true,
                total_len: 20 + transport.len() as u16,
            };
            ipv4::emit(&mut out[at..], &fields, HeaderChecksum::Compute);
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            out.resize(at + 40, 0);
            let fields = Ipv6Fields {
                src,
                dst,
                traffic_class: 0xb9,
                flow_label: 0xf_1234,
                hop_limit: 17,
                next_header: proto,
                payload_len: transport.len() as u16,
            };
            ipv6::emit(&mut out[at..], &fields);
        }
        _ => unreachable!("one family"),
    }
    out.extend(transport);
    out
}

/// What the other implementation says about the network header of a frame of ours.
fn check_net(net: Option<NetSlice<'_>>, src: IpAddr, dst: IpAddr) {
    match net.unwrap() {
        NetSlice::Ipv4(ip) => {
            let h = ip.header();
            assert_eq!((IpAddr::V4(h.source_addr()), IpAddr::V4(h.destination_addr())), (src, dst));
            assert_eq!((h.ttl(), h.identification(), h.dont_fragment()), (17, 0xabcd, true));
            assert_eq!((h.dcp().value(), h.ecn().value()), (0xb9 >> 2, 0xb9 & 3));
            assert_eq!(h.header_checksum(), h.to_header().calc_header_checksum());
        }
        NetSlice::Ipv6(ip) => {
            let h = ip.header();
            assert_eq!((IpAddr::V6(h.source_addr()), IpAddr::V6(h.destination_addr())), (src, dst));
            assert_eq!((h.hop_limit(), h.traffic_class()), (17, 0xb9));
            assert_eq!(h.flow_label().value(), 0xf_1234);
        }
        NetSlice::Arp(_) => panic!("not ARP"),
    }
}

fn flags_of(segment: &TcpSlice<'_>) -> TcpFlags {
    let rows = [
        (segment.fin(), TcpFlags::FIN),
        (segment.syn(), TcpFlags::SYN),
        (segment.rst(), TcpFlags::RST),
        (segment.psh(), TcpFlags::PSH),
        (segment.ack(), TcpFlags::ACK),
        (segment.urg(), TcpFlags::URG),
        (segment.ece(), TcpFlags::ECE),
        (segment.cwr(), TcpFlags::CWR),
        (segment.ns(), TcpFlags::AE),
    ];
    let set = rows.iter().filter(|(set, _)| *set);
    set.fold(TcpFlags::empty(), |all, (_, flag)| all | *flag)
}

/// The options as the other implementation reads them; `None` if it stumbles.
fn options_of(segment: &TcpSlice<'_>) -> Option<TcpOptions> {
    let syn = segment.syn();
    let mut options = TcpOptions::default();
    for element in segment.options_iterator() {
        match element.ok()? {
            TcpOptionElement::Noop => {}
            TcpOptionElement::MaximumSegmentSize(mss) if syn => {
                options.mss.get_or_insert(mss);
            }
            TcpOptionElement::WindowScale(scale) if syn => {
                options.window_scale.get_or_insert(scale);
            }
            TcpOptionElement::SelectiveAcknowledgementPermitted => options.sack_permitted |= syn,
            TcpOptionElement::Timestamp(value, echo) => {
                options.timestamps.get_or_insert((value, echo));
            }
            TcpOptionElement::SelectiveAcknowledgement(first, rest)
                if !syn && options.sack.is_empty() =>
            {
                options.sack.push(first);
                options.sack.extend(rest.into_iter().flatten());
            }
            _ => {}
        }
    }
    Some(options)
}

fn tcp_options() -> impl Strategy<Value = (bool, TcpOptions)> {
    let sack = proptest::collection::vec(any::<(u32, u32)>(), 0..=3);
    let rest = any::<(bool, Option<u16>, Option<u8>, bool, Option<(u32, u32)>)>();
    (rest, sack).prop_map(|((syn, mss, window_scale, sack_permitted, timestamps), sack)| {
        let plain = TcpOptions { timestamps, ..TcpOptions::default() };
        let options = if syn {
            TcpOptions { mss, window_scale, sack_permitted, ..plain }
        } else {
            TcpOptions { sack: sack.into_iter().collect(), ..plain }
        };
        (syn, options)
    })
}

proptest! {
    #[test]
    fn our_tcp_segments_read_the_same(
        (src, dst) in addresses(), (syn, options) in tcp_options(), payload in payload(),
        numbers: (u16, u16, u32, u32), bits: u16, window: u16, urgent: u16, vlan: Option<u16>,
    ) {
        let flags = TcpFlags::from_bits(bits).without(TcpFlags::SYN);
        let flags = if syn { flags | TcpFlags::SYN } else { flags };
        let (src_port, dst_port, seq, ack) = numbers;
        let fields = TcpFields { src_port, dst_port, seq, ack, flags, window, urgent, options };
        let mut segment = vec![0; 60];
        let header_len = tcp::emit(&mut segment, &fields);
        segment.truncate(header_len);
        let len = header_len + payload.len();
        let pseudo = checksum::pseudo(src, dst, protocol::TCP, len).unwrap();
        let sum = checksum::finish(pseudo, &segment, checksum::sum(&payload, 0));
        tcp::set_checksum(&mut segment, sum);
        segment.extend(&payload);
        let bytes = frame(src, dst, vlan, protocol::TCP, &segment);

        let packet = SlicedPacket::from_ethernet(&bytes).unwrap();
        prop_assert_eq!(
            packet.vlan_ids().first().map(|id| id.value()), vlan.map(|tci| tci & 0xfff));
        check_net(packet.net, src, dst);
        let Some(TransportSlice::Tcp(theirs)) = packet.transport else { panic!("not TCP") };
        prop_assert_eq!((theirs.source_port(), theirs.destination_port()), (src_port, dst_port));
        prop_assert_eq!((theirs.sequence_number(), theirs.acknowledgment_number()), (seq, ack));
        prop_assert_eq!((theirs.window_size(), theirs.urgent_pointer()), (window, urgent));
        prop_assert_eq!(flags_of(&theirs), flags);
        prop_assert_eq!(options_of(&theirs), Some(fields.options));
        prop_assert_eq!(theirs.payload(), &payload[..]);
        let expected = match (src, dst) {
            (IpAddr::V4(s), IpAddr::V4(d)) => theirs.calc_checksum_ipv4(s.octets(), d.octets()),
            (IpAddr::V6(s), IpAddr::V6(d)) => theirs.calc_checksum_ipv6(s.octets(), d.octets()),
            _ => unreachable!("one family"),
        };
        prop_assert_eq!(theirs.checksum(), expected.unwrap());
    }

    #[test]
    fn our_datagrams_read_the_same(
        (src, dst) in addresses(), ports: (u16, u16), payload in payload(), vlan: Option<u16>,
    ) {
        let len = 8 + payload.len();
        let mut datagram = vec![0; 8];
        udp::emit(&mut datagram, ports.0, ports.1, len as u16, 0);
        let pseudo = checksum::pseudo(src, dst, protocol::UDP, len).unwrap();
        let sum = checksum::finish_udp(pseudo, &datagram, checksum::sum(&payload, 0));
        udp::set_checksum(&mut datagram, sum);
        datagram.extend(&payload);
        let bytes = frame(src, dst, vlan, protocol::UDP, &datagram);

        let packet = SlicedPacket::from_ethernet(&bytes).unwrap();
        check_net(packet.net, src, dst);
        let Some(TransportSlice::Udp(theirs)) = packet.transport else { panic!("not UDP") };
        prop_assert_eq!((theirs.source_port(), theirs.destination_port()), ports);
        prop_assert_eq!(theirs.payload(), &payload[..]);
        let mut header = theirs.to_header();
        header.checksum = 0;
        let expected = match (src, dst) {
            (IpAddr::V4(s), IpAddr::V4(d)) =>
                header.calc_checksum_ipv4_raw(s.octets(), d.octets(), &payload),
            (IpAddr::V6(s), IpAddr::V6(d)) =>
                header.calc_checksum_ipv6_raw(s.octets(), d.octets(), &payload),
            _ => unreachable!("one family"),
        };
        prop_assert_eq!(theirs.checksum(), expected.unwrap());
    }

    #[test]
    fn their_segments_read_the_same(
        (src, dst) in addresses(), (syn, options) in tcp_options(), payload in payload(),
        numbers in (1u16.., 1u16.., any::<u32>(), any::<u32>()), window: u16,
        ip_options in 0usize..=10, extensions in 0u8..8, vlans in 0u8..3,
    ) {
        let (src_port, dst_port, seq, ack) = numbers;
        let ip = match (src, dst) {
            (IpAddr::V4(s), IpAddr::V4(d)) => {
                let mut h = Ipv4Header::new(0, 9, IpNumber::TCP, s.octets(), d.octets()).unwrap();
                h.options = Ipv4Options::try_from(&[1u8; 40][..ip_options * 4]).unwrap();
                IpHeaders::Ipv4(h, Default::default())
            }
            (IpAddr::V6(s), IpAddr::V6(d)) => {
                let raw = |on: bool| on.then(|| {
                    // Padding that fills 8 + 8 bytes.
                    let pad = [1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
                    Ipv6RawExtHeader::new_raw(IpNumber::TCP, &pad).unwrap()
                });
                let exts = Ipv6Extensions {
                    hop_by_hop_options: raw(extensions & 1 != 0),
                    destination_options: raw(extensions & 2 != 0),
                    fragment: (extensions & 4 != 0).then(|| Ipv6FragmentHeader::new(
                        IpNumber::TCP, 0.try_into().unwrap(), false, 77)),
                    ..Default::default()
                };
                let h = Ipv6Header {
                    source: s.octets(), destination: d.octets(), hop_limit: 9, ..Default::default()
                };
                IpHeaders::Ipv6(h, exts)
            }
            _ => unreachable!("one family"),
        };
        let elements: Vec<TcpOptionElement> = options.timestamps.map(|(v, e)| TcpOptionElement::Timestamp(v, e))
            .into_iter()
            .chain(options.mss.map(TcpOptionElement::MaximumSegmentSize))
            .chain(options.window_scale.map(TcpOptionElement::WindowScale))
            .chain(options.sack_permitted.then_some(TcpOptionElement::SelectiveAcknowledgementPermitted))
            .chain(options.sack.first().map(|first| {
                let at = |i| options.sack.get(i).copied();
                TcpOptionElement::SelectiveAcknowledgement(*first, [at(1), at(2), at(3)])
            }))
            .collect();
        let build = PacketBuilder::ethernet2(MAC_A.0, MAC_B.0);
        let id = |id: u16| id.try_into().unwrap();
        let build = match vlans {
            0 => build.ip(ip),
            1 => build.single_vlan(id(5)).ip(ip),
            _ => build.double_vlan(id(5), id(6)).ip(ip),
        };
        let build = build.tcp(src_port, dst_port, seq, window).ack(ack);
        let build = if syn { build.syn() } else { build };
        let mut bytes = Vec::new();
        build.options(&elements).unwrap().write(&mut bytes, &payload).unwrap();
        let end = bytes.len();
        bytes.extend([0xee; 7]);

        let link = ethernet::parse(&bytes).unwrap();
        prop_assert_eq!((link.src, link.dst), (MAC_A, MAC_B));
        prop_assert_eq!(link.vlan, (vlans > 0).then_some(5));
        prop_assert_eq!(link.inner_vlan, (vlans > 1).then_some(6));
        let ip = &bytes[link.len..];
        let (at, l4_len) = if src.is_ipv4() {
            let h = ipv4::parse(ip, ip.len(), true).unwrap();
            prop_assert_eq!((IpAddr::V4(h.src), IpAddr::V4(h.dst)), (src, dst));
            prop_assert_eq!((h.header_len, h.fragment), (20 + ip_options * 4, None));
            (h.header_len, h.payload_len())
        } else {
            let h = ipv6::parse(ip, ip.len()).unwrap();
            prop_assert_eq!((IpAddr::V6(h.src), IpAddr::V6(h.dst)), (src, dst));
            prop_assert_eq!((h.protocol, h.fragment), (protocol::TCP, None));
            (h.transport_offset, h.transport_len)
        };
        prop_assert_eq!(link.len + at + l4_len, end);
        let segment = &ip[at..];
        let pseudo = checksum::pseudo(src, dst, protocol::TCP, l4_len).unwrap();
        prop_assert!(checksum::verify(pseudo, [segment], l4_len));
        let (header, parsed) = tcp::parse(segment, l4_len).unwrap();
        prop_assert_eq!(parsed, options);
        prop_assert_eq!((header.src_port, header.dst_port), (src_port, dst_port));
        prop_assert_eq!((header.seq, header.ack, header.window), (seq, ack, window));
        prop_assert_eq!((header.flags.syn(), header.flags.ack()), (syn, true));
        prop_assert_eq!(&segment[header.header_len..l4_len], &payload[..]);
    }

    #[test]
    fn our_icmp_has_a_checksum_they_accept(data in payload(), ident: u16, sequence: u16) {
        let sum = checksum::sum(&data, 0);
        let mut bytes = vec![0; 8];
        icmpv4::emit_echo(&mut bytes, icmpv4::EchoKind::Request, ident, sequence, sum);
        bytes.extend(&data);
        let theirs = etherparse::Icmpv4Slice::from_slice(&bytes).unwrap();
        let echo = etherparse::IcmpEchoHeader { id: ident, seq: sequence };
        prop_assert_eq!(theirs.icmp_type(), etherparse::Icmpv4Type::EchoRequest(echo));
        prop_assert_eq!(theirs.checksum(), theirs.icmp_type().calc_checksum(&data));

        let (a, b) = (Ipv6Addr::from([0xfd; 16]), Ipv6Addr::from([0xfe; 16]));
        let mut bytes = vec![0; 1500];
        let error = icmpv6::Icmpv6Error::PacketTooBig(1400);
        let len = icmpv6::emit_error(&mut bytes, a, b, error, &data);
        bytes.truncate(len);
        let theirs = etherparse::Icmpv6Slice::from_slice(&bytes).unwrap();
        prop_assert!(theirs.is_checksum_valid(a.octets(), b.octets()));
        prop_assert_eq!(theirs.icmp_type(), etherparse::Icmpv6Type::PacketTooBig { mtu: 1400 });
    }

    /// Ours is the stricter one: whatever we accept it accepts, with the same meaning.
    #[test]
    fn we_accept_nothing_that_they_refuse_in_ipv4(
        mut bytes in proptest::collection::vec(any::<u8>(), 20..80), lie in 0u8..100,
    ) {
        bytes[0] = 0x40 | bytes[0] & 0xf;
        (bytes[2], bytes[3]) = (0, lie);
        if let Ok(ours) = ipv4::parse(&bytes, bytes.len(), false) {
            let theirs = Ipv4HeaderSlice::from_slice(&bytes).unwrap();
            prop_assert_eq!(usize::from(theirs.ihl()) * 4, ours.header_len);
            prop_assert_eq!(usize::from(theirs.total_len()), ours.total_len);
            prop_assert_eq!(theirs.is_fragmenting_payload(), ours.fragment.is_some());
            let offset = usize::from(theirs.fragments_offset().value()) * 8;
            prop_assert_eq!(offset, ours.fragment.map_or(0, |f| f.offset.into()));
            prop_assert_eq!(theirs.protocol().0, ours.protocol);
        }
    }

    #[test]
    fn we_accept_nothing_that_they_refuse_in_tcp(
        kinds in proptest::collection::vec((0u8..10, 0u8..12, any::<[u8; 10]>()), 0..8),
        mut header: [u8; 20], payload in payload(), cut in 0usize..300,
    ) {
        let mut options: Vec<u8> = Vec::new();
        for (kind, len, value) in kinds {
            match kind {
                0 | 1 => options.push(kind),
                _ => {
                    options.extend([kind, len]);
                    options.extend(&value[..usize::from(len).saturating_sub(2).min(10)]);
                }
            }
        }
        options.resize(options.len().next_multiple_of(4).min(40), 0);
        header[12] = ((5 + options.len() / 4) as u8) << 4;
        let mut bytes = [&header[..], &options, &payload].concat();
        bytes.truncate(cut.max(20));
        if let Ok((ours, parsed)) = tcp::parse(&bytes, bytes.len()) {
            let theirs = TcpSlice::from_slice(&bytes).unwrap();
            prop_assert_eq!(theirs.payload(), &bytes[ours.header_len..]);
            prop_assert_eq!(flags_of(&theirs), ours.flags);
            // It knows no options beyond these five and stops at others.
            if !parsed.unknown && !parsed.authentication {
                prop_assert_eq!(options_of(&theirs), Some(parsed));
            }
        }
    }
}
