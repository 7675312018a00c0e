//! Headers: what is parsed can be written again and then means the same; lengths stay within what
//! surrounds the header; a cut input gives the same header or says that it is cut; and what we
//! accept, an independent implementation accepts with the same meaning.

use core::fmt::Debug;
use core::net::{IpAddr, Ipv6Addr};

use etherparse::{
    Ethernet2HeaderSlice, Ipv4HeaderSlice, Ipv6HeaderSlice, SingleVlanHeaderSlice, TcpSlice,
    UdpHeaderSlice,
};
use wire::icmpv4::{EchoKind, Icmpv4Error, Icmpv4Message};
use wire::icmpv6::{Icmpv6Error, Icmpv6Message};
use wire::ipv6::ParameterProblem;
use wire::{DropReason, Mac, TcpFields, TcpFlags, protocol};

use crate::frames::{self, OUR_IP6, PEER_IP, PEER_IP6, PEER_MAC};
use crate::input::Input;

/// Where an input may be cut: everywhere in its headers.
fn cuts(len: usize) -> impl Iterator<Item = usize> {
    0..len.min(128)
}

/// `parse` sees the first bytes of a frame whose real length it knows: it finds what it would find
/// in all of it, or that the rest lies elsewhere.
fn cut_is_no_lie<T: PartialEq + Debug>(
    bytes: &[u8],
    whole: &Result<T, DropReason>,
    parse: impl Fn(&[u8], usize) -> Result<T, DropReason>,
) {
    for cut in cuts(bytes.len()) {
        let part = parse(&bytes[..cut], bytes.len());
        if part != Err(DropReason::MbufSplit) {
            assert_eq!(&part, whole, "cut at {cut} of {}", bytes.len());
        }
    }
}

pub(crate) fn ethernet(bytes: &[u8]) {
    let whole = wire::ethernet::parse(bytes);
    for cut in cuts(bytes.len()) {
        if let Ok(part) = wire::ethernet::parse(&bytes[..cut]) {
            assert_eq!(Ok(part), whole, "cut at {cut}");
        }
    }
    let Ok(header) = whole else { return };
    assert!(header.len <= bytes.len() && [14, 18, 22].contains(&header.len));
    assert!(header.src.is_station() && !header.ethertype.is_vlan() && header.ethertype.0 >= 0x600);
    assert_eq!(header.len, 14 + 4 * [header.vlan, header.inner_vlan].iter().flatten().count());

    let theirs = Ethernet2HeaderSlice::from_slice(bytes).expect("we have accepted it");
    assert_eq!((Mac(theirs.destination()), Mac(theirs.source())), (header.dst, header.src));
    let mut ether_type = theirs.ether_type().0;
    let mut at = 14;
    for tci in [header.vlan, header.inner_vlan].into_iter().flatten() {
        let tag = SingleVlanHeaderSlice::from_slice(&bytes[at..]).expect("we have accepted it");
        assert_eq!(tag.vlan_identifier().value(), tci & 0xfff);
        assert_eq!(tag.drop_eligible_indicator(), tci & 0x1000 != 0);
        ether_type = tag.ether_type().0;
        at += 4;
    }
    assert_eq!((ether_type, at), (header.ethertype.0, header.len));

    let mut out = [0; 22];
    let len = wire::ethernet::emit(&mut out, header.dst, header.src, header.vlan, header.ethertype);
    assert_eq!(len, wire::ethernet::header_len(header.vlan));
    let again = wire::ethernet::parse(&out[..len]);
    assert_eq!(again, Ok(wire::EthernetHeader { inner_vlan: None, len, ..header }));
}

pub(crate) fn arp(bytes: &[u8]) {
    let Ok(packet) = wire::arp::parse(bytes) else { return };
    assert!(packet.sender_mac.is_station());
    let mut out = [0; wire::arp::LEN];
    assert_eq!(packet.emit(&mut out), wire::arp::LEN);
    assert_eq!(&out[..], &bytes[..wire::arp::LEN], "every bit of it has a meaning");
    assert_eq!(wire::arp::parse(&out), Ok(packet));
    // What we would answer is something that we would accept.
    if packet.operation == wire::arp::Operation::Request
        && !wire::ipv4::is_martian(packet.target_ip)
    {
        packet.reply(PEER_MAC).emit(&mut out);
        let answer = wire::arp::parse(&out).expect("our own answer");
        assert_eq!((answer.sender_ip, answer.target_mac), (packet.target_ip, packet.sender_mac));
    }
}

pub(crate) fn arp_seeds() -> Vec<Vec<u8>> {
    let request = frames::arp_request(PEER_IP, frames::OUR_IP)[14..].to_vec();
    let mut reply = request.clone();
    reply[7] = 2;
    vec![request, reply]
}

pub(crate) fn ipv4(bytes: &[u8]) {
    for verify in [false, true] {
        let parse = |b: &[u8], len| wire::ipv4::parse(b, len, verify);
        let whole = parse(bytes, bytes.len());
        cut_is_no_lie(bytes, &whole, parse);
        // Padding behind the packet is no part of it.
        let padded = [bytes, &[0xee; 9]].concat();
        if whole.is_ok() {
            assert_eq!(parse(&padded, padded.len()), whole);
        }
    }
    let Ok(header) = wire::ipv4::parse(bytes, bytes.len(), false) else { return };
    assert!(20 <= header.header_len && header.header_len <= header.total_len);
    assert!(header.total_len <= bytes.len() && header.header_len <= 60 && header.ttl > 0);
    assert!(!wire::ipv4::is_martian(header.src) && header.src != header.dst);
    if let Some(fragment) = header.fragment {
        assert!(fragment.offset % 8 == 0 && (fragment.more || fragment.offset > 0));
    }

    let theirs = Ipv4HeaderSlice::from_slice(bytes).expect("we have accepted it");
    assert_eq!((theirs.source_addr(), theirs.destination_addr()), (header.src, header.dst));
    assert_eq!(usize::from(theirs.ihl()) * 4, header.header_len);
    assert_eq!(usize::from(theirs.total_len()), header.total_len);
    assert_eq!((theirs.ttl(), theirs.protocol().0), (header.ttl, header.protocol));
    assert_eq!(theirs.is_fragmenting_payload(), header.fragment.is_some());
    let right = theirs.header_checksum() == theirs.to_header().calc_header_checksum();
    let ours = wire::ipv4::parse(bytes, bytes.len(), true);
    // Both zeros of ones' complement are right for us; they forget the reserved flag.
    let reserved = bytes[6] & 0x80 != 0;
    assert!(ours.is_ok() >= right || reserved, "they find the checksum right");

    let fields = wire::ipv4::Ipv4Fields {
        src: header.src,
        dst: header.dst,
        protocol: header.protocol,
        ttl: header.ttl,
        tos: header.tos,
        ident: header.ident,
        dont_fragment: header.dont_fragment,
        total_len: header.total_len as u16,
    };
    let mut out = bytes[..header.total_len].to_vec();
    wire::ipv4::emit(&mut out, &fields, wire::ipv4::HeaderChecksum::Compute);
    let again = wire::ipv4::parse(&out, out.len(), true);
    assert_eq!(again, Ok(wire::Ipv4Header { header_len: 20, fragment: None, ..header }));
}

pub(crate) fn ipv4_seeds() -> Vec<Vec<u8>> {
    let plain = frames::ipv4_packet(protocol::UDP, 7, 0, &frames::datagram(5));
    let fragment = frames::ipv4_packet(protocol::UDP, 7, 0x2000 | 3, &[1; 16]);
    // Router alert, a timestamp, padding.
    let mut options = plain.clone();
    options.splice(20..20, [148, 4, 0, 0, 68, 5, 5, 0, 0, 1, 0, 0]);
    options[0] = 0x48;
    options[3] += 12;
    vec![plain, fragment, options]
}

pub(crate) fn ipv6(bytes: &[u8]) {
    let whole = wire::ipv6::parse(bytes, bytes.len());
    cut_is_no_lie(bytes, &whole.map_err(DropReason::from), |b, len| {
        wire::ipv6::parse(b, len).map_err(DropReason::from)
    });
    let header = match whole {
        Ok(header) => header,
        Err(rejection) => {
            if let Some(ParameterProblem { code, pointer }) = rejection.answer {
                assert!(code <= 2 && (pointer as usize) < bytes.len(), "points into the packet");
            }
            return;
        }
    };
    assert!(40 <= header.transport_offset && header.total_len() <= bytes.len());
    assert!(header.protocol_at < header.transport_offset && header.flow_label < 1 << 20);
    assert_eq!(bytes[header.protocol_at], header.protocol);
    assert!(header.hop_limit > 0 && header.src != header.dst);
    assert!(!wire::ipv6::is_martian(header.src));
    if let Some(fragment) = header.fragment {
        assert!(fragment.offset % 8 == 0 && (fragment.more || fragment.offset > 0));
    }

    let theirs = Ipv6HeaderSlice::from_slice(bytes).expect("we have accepted it");
    assert_eq!((theirs.source_addr(), theirs.destination_addr()), (header.src, header.dst));
    assert_eq!(usize::from(theirs.payload_length()) + 40, header.total_len());
    assert_eq!(theirs.flow_label().value(), header.flow_label);
    assert_eq!(
        (theirs.traffic_class(), theirs.hop_limit()),
        (header.traffic_class, header.hop_limit)
    );

    let fields = wire::ipv6::Ipv6Fields {
        src: header.src,
        dst: header.dst,
        traffic_class: header.traffic_class,
        flow_label: header.flow_label,
        hop_limit: header.hop_limit,
        next_header: bytes[6],
        payload_len: (header.total_len() - 40) as u16,
    };
    let mut out = bytes[..header.total_len()].to_vec();
    wire::ipv6::emit(&mut out, &fields);
    assert_eq!(out, &bytes[..header.total_len()], "every bit of the fixed header has a meaning");
}

pub(crate) fn ipv6_seeds() -> Vec<Vec<u8>> {
    let with = |next, extensions: &[u8], body: &[u8]| {
        frames::packet_v6(PEER_IP6, OUR_IP6, next, 64, &[extensions, body].concat())
    };
    let udp = frames::datagram(5);
    let padding = [1, 4, 0, 0, 0, 0];
    let hop_by_hop = [&[60, 0][..], &padding, &[43, 0], &padding].concat();
    let routing = [&[protocol::UDP, 0][..], &[0, 0, 0, 0, 0, 0]].concat();
    vec![
        with(protocol::UDP, &[], &udp),
        with(0, &[hop_by_hop, routing].concat(), &udp),
        with(44, &[protocol::UDP, 0, 0, 0, 0, 0, 0, 9], &udp),
        with(44, &[protocol::UDP, 0, 0, 9, 0, 0, 0, 9], &[1; 16]),
        // Unknown options that want an answer, and one that is skipped.
        with(0, &[protocol::UDP, 0, 0xc5, 1, 0, 0, 0, 0], &udp),
        with(60, &[protocol::UDP, 0, 0x05, 1, 0, 0, 0, 0], &udp),
    ]
}

pub(crate) fn icmpv4(bytes: &[u8]) {
    let whole = wire::icmpv4::parse(bytes, bytes.len());
    cut_is_no_lie(bytes, &whole, wire::icmpv4::parse);
    let Ok(message) = whole else { return };
    let quoted = bytes.get(wire::icmpv4::HEADER_LEN..).unwrap_or_default();
    let mut out = vec![0; bytes.len() + 8];
    let error = match message {
        Icmpv4Message::EchoRequest { ident, sequence }
        | Icmpv4Message::EchoReply { ident, sequence } => {
            let request = matches!(message, Icmpv4Message::EchoRequest { .. });
            let kind = if request { EchoKind::Request } else { EchoKind::Reply };
            let sum = wire::checksum::sum(quoted, 0);
            let len = wire::icmpv4::emit_echo(&mut out, kind, ident, sequence, sum);
            out.truncate(len);
            out.extend(quoted);
            assert_eq!(wire::icmpv4::verify_checksum([&out[..]], out.len()), Ok(()));
            assert_eq!(wire::icmpv4::parse(&out, out.len()), Ok(message));
            return;
        }
        Icmpv4Message::FragmentationNeeded { mtu, .. } => Icmpv4Error::FragmentationNeeded(mtu),
        Icmpv4Message::Unreachable { code, .. } => Icmpv4Error::Unreachable(code),
        Icmpv4Message::TimeExceeded { code, .. } => Icmpv4Error::TimeExceeded(code),
        Icmpv4Message::ParameterProblem { code: 0, pointer, .. } => {
            Icmpv4Error::ParameterProblem(pointer)
        }
        // We write none with another code.
        Icmpv4Message::ParameterProblem { .. } => return,
    };
    assert!(wire::icmpv4::is_error(bytes[0]));
    let len = wire::icmpv4::emit_error(&mut out, error, quoted);
    assert!(len <= wire::icmpv4::HEADER_LEN + wire::icmpv4::QUOTE_LEN_MAX);
    assert_eq!(wire::icmpv4::verify_checksum([&out[..len]], len), Ok(()));
    assert_eq!(wire::icmpv4::parse(&out[..len], len), Ok(message));
}

pub(crate) fn icmpv4_seeds() -> Vec<Vec<u8>> {
    let errors = [
        Icmpv4Error::FragmentationNeeded(1400),
        Icmpv4Error::Unreachable(1),
        Icmpv4Error::TimeExceeded(0),
        Icmpv4Error::ParameterProblem(3),
    ];
    let quoted = frames::quoted(false, 7);
    let mut all: Vec<_> = errors.into_iter().map(|e| frames::error4(e, &quoted)).collect();
    all.push(frames::echo(10));
    all
}

pub(crate) fn icmpv6(bytes: &[u8]) {
    let whole = wire::icmpv6::parse(bytes, bytes.len());
    cut_is_no_lie(bytes, &whole, wire::icmpv6::parse);
    let Ok(message) = whole else { return };
    let quoted = bytes.get(wire::icmpv6::HEADER_LEN..).unwrap_or_default();
    let mut out = vec![0; bytes.len() + 8];
    let error = match message {
        Icmpv6Message::EchoRequest { ident, sequence }
        | Icmpv6Message::EchoReply { ident, sequence } => {
            let request = matches!(message, Icmpv6Message::EchoRequest { .. });
            let kind = if request { EchoKind::Request } else { EchoKind::Reply };
            let echo = wire::icmpv6::Echo { kind, ident, sequence };
            let sum = wire::checksum::sum(quoted, 0);
            let len = wire::icmpv6::emit_echo(&mut out, PEER_IP6, OUR_IP6, echo, quoted.len(), sum);
            out.truncate(len);
            out.extend(quoted);
            let right = wire::icmpv6::verify_checksum(PEER_IP6, OUR_IP6, [&out[..]], out.len());
            assert_eq!(right, Ok(()));
            assert_eq!(wire::icmpv6::parse(&out, out.len()), Ok(message));
            return;
        }
        Icmpv6Message::PacketTooBig { mtu, .. } => Icmpv6Error::PacketTooBig(mtu),
        Icmpv6Message::Unreachable { code, .. } => Icmpv6Error::Unreachable(code),
        Icmpv6Message::TimeExceeded { code, .. } => Icmpv6Error::TimeExceeded(code),
        Icmpv6Message::ParameterProblem { code, pointer, .. } => {
            Icmpv6Error::ParameterProblem(ParameterProblem { code, pointer })
        }
        Icmpv6Message::Neighbor => return,
    };
    let len = wire::icmpv6::emit_error(&mut out, PEER_IP6, OUR_IP6, error, quoted);
    assert!(len <= wire::icmpv6::HEADER_LEN + wire::icmpv6::QUOTE_LEN_MAX);
    let right = wire::icmpv6::verify_checksum(PEER_IP6, OUR_IP6, [&out[..len]], len);
    assert_eq!(right, Ok(()));
    assert_eq!(wire::icmpv6::parse(&out[..len], len), Ok(message));
}

pub(crate) fn icmpv6_seeds() -> Vec<Vec<u8>> {
    let errors = [
        Icmpv6Error::PacketTooBig(1400),
        Icmpv6Error::Unreachable(1),
        Icmpv6Error::TimeExceeded(0),
        Icmpv6Error::ParameterProblem(ParameterProblem { code: 1, pointer: 40 }),
    ];
    let quoted = frames::quoted(true, 7);
    let mut all: Vec<_> = errors.into_iter().map(|e| frames::error6(e, &quoted)).collect();
    all.push(frames::echo6(10));
    all
}

/// First byte: who speaks to whom, and whether the message was forwarded. The checksum is put right,
/// or nothing behind it would ever be looked at.
pub(crate) fn ndp(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let choice = input.u8();
    let mut message = input.rest().to_vec();
    let src = [PEER_IP6, Ipv6Addr::UNSPECIFIED, "fe80::7".parse().expect("an address"), OUR_IP6]
        [usize::from(choice & 3)];
    let group = wire::ndp::solicited_node(OUR_IP6);
    let dst = if choice & 4 == 0 { OUR_IP6 } else { group };
    let hop_limit = if choice & 8 == 0 { 255 } else { 64 };
    let given = wire::ndp::parse(&message, src, dst, hop_limit);
    assert!(given.is_ok() <= (hop_limit == 255), "it was forwarded");
    if let Some(field) = message.get_mut(2..4) {
        field.copy_from_slice(&[0, 0]);
        let pseudo = wire::checksum::pseudo_v6(src, dst, protocol::ICMPV6, message.len());
        let sum = wire::checksum::finish(pseudo, &message, 0);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    let parsed = wire::ndp::parse(&message, src, dst, hop_limit);
    assert_ne!(parsed, Err(DropReason::IcmpChecksum));
    let mut out = [0; wire::ndp::NEIGHBOR_LEN_MAX];
    let Ok(found) = parsed else { return };
    let (len, target, mac) = match found {
        wire::ndp::NdpMessage::Solicitation(s) => {
            (s.emit(&mut out, src, dst), s.target, s.source_mac)
        }
        wire::ndp::NdpMessage::Advertisement(a) => {
            assert!(!(a.solicited && dst.is_multicast()));
            (a.emit(&mut out, src, dst), a.target, a.target_mac)
        }
    };
    assert!(!target.is_multicast() && mac.is_none_or(Mac::is_station));
    assert_eq!(wire::ndp::parse(&out[..len], src, dst, 255), parsed);
}

pub(crate) fn ndp_seeds() -> Vec<Vec<u8>> {
    let (mut asked, mut told) = (vec![0; 32], vec![0; 32]);
    wire::ndp::Solicitation { target: OUR_IP6, source_mac: Some(PEER_MAC) }
        .emit(&mut asked, PEER_IP6, OUR_IP6);
    wire::ndp::Advertisement {
        target: PEER_IP6,
        target_mac: Some(PEER_MAC),
        router: true,
        solicited: true,
        override_entry: true,
    }
    .emit(&mut told, PEER_IP6, OUR_IP6);
    let mut router = vec![134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0];
    router.extend([1, 1, 2, 0, 0, 0, 0, 9]);
    let redirect = [vec![137, 0, 0, 0, 0, 0, 0, 0], vec![0xfe; 32]].concat();
    let rows = [(0, asked.clone()), (5, asked), (0, told), (2, router), (2, redirect)];
    rows.into_iter().map(|(choice, message)| [vec![choice], message].concat()).collect()
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

pub(crate) fn tcp(bytes: &[u8]) {
    let whole = wire::tcp::parse(bytes, bytes.len());
    cut_is_no_lie(bytes, &whole, wire::tcp::parse);
    let Ok((header, options)) = whole else { return };
    assert!(20 <= header.header_len && header.header_len <= bytes.len());
    assert!(header.src_port != 0 && header.dst_port != 0);
    let syn = header.flags.syn();
    assert!(syn || options.mss.is_none() && options.window_scale.is_none());
    assert!(syn || !options.sack_permitted);
    assert!(!syn || options.sack.is_empty());

    let theirs = TcpSlice::from_slice(bytes).expect("we have accepted it");
    assert_eq!(theirs.payload(), &bytes[header.header_len..]);
    assert_eq!(
        (theirs.source_port(), theirs.destination_port()),
        (header.src_port, header.dst_port)
    );
    assert_eq!(
        (theirs.sequence_number(), theirs.acknowledgment_number()),
        (header.seq, header.ack)
    );
    assert_eq!((theirs.window_size(), theirs.urgent_pointer()), (header.window, header.urgent));
    assert_eq!(flags_of(&theirs), header.flags);

    // Verdicts on flags and payload must be the same for the header that we would write.
    let written = wire::TcpOptions { authentication: false, unknown: false, ..options };
    let fields = TcpFields {
        src_port: header.src_port,
        dst_port: header.dst_port,
        seq: header.seq,
        ack: header.ack,
        flags: header.flags,
        window: header.window,
        urgent: header.urgent,
        options: written.clone(),
    };
    let mut out = [0; wire::tcp::HEADER_LEN_MAX];
    let len = wire::tcp::emit(&mut out, &fields);
    assert_eq!(len, fields.header_len());
    let (again, mut options_again) = wire::tcp::parse(&out[..len], len).expect("our own header");
    // Four blocks and timestamps came without the padding that we write.
    let fit = options_again.sack.len();
    assert!(fit == written.sack.len() || fit == 3 && written.timestamps.is_some());
    options_again.sack = written.sack.clone();
    assert_eq!(options_again, written);
    assert_eq!(again, wire::TcpHeader { header_len: len, checksum: 0, ..header });
}

pub(crate) fn tcp_seeds() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = frames::tcp_fields()
        .iter()
        .map(|fields| frames::segment(IpAddr::V6(PEER_IP6), IpAddr::V6(OUR_IP6), fields, b"hello"))
        .collect();
    // MD5, TCP-AO, something unknown, the end before the end.
    for option in [[19, 18], [29, 18], [254, 18]] {
        let mut segment = all[2].clone();
        let value = [&option[..], &[0xab; 16], &[0, 77]].concat();
        segment.splice(20..20, value);
        segment[12] = 10 << 4;
        all.push(segment);
    }
    all
}

pub(crate) fn udp(bytes: &[u8]) {
    let whole = wire::udp::parse(bytes, bytes.len());
    cut_is_no_lie(bytes, &whole, wire::udp::parse);
    let Ok(header) = whole else { return };
    assert!(8 <= header.len && header.len <= bytes.len() && header.dst_port != 0);
    let theirs = UdpHeaderSlice::from_slice(bytes).expect("we have accepted it");
    assert_eq!(usize::from(theirs.length()), header.len);
    let mut out = bytes.to_vec();
    wire::udp::emit(&mut out, header.src_port, header.dst_port, header.len as u16, header.checksum);
    assert_eq!(out, bytes, "every bit of it has a meaning");
}

pub(crate) fn udp_seeds() -> Vec<Vec<u8>> {
    vec![frames::datagram(0), frames::datagram(10)]
}

pub(crate) fn pretty(bytes: &[u8]) {
    let line = wire::pretty::PrettyFrame(bytes).to_string();
    assert!(!line.is_empty() && !line.contains(['\n', '\r']), "{line:?}");
    assert!(!line.chars().any(char::is_control), "{line:?}");
}
