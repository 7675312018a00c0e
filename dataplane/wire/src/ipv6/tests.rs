use std::vec::Vec;

use proptest::prelude::*;

use super::*;

const A: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const B: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
const GROUP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const TCP: u8 = protocol::TCP;

fn packet_to(dst: Ipv6Addr, next_header: u8, payload: &[u8]) -> Vec<u8> {
    let fields = Ipv6Fields {
        src: A,
        dst,
        traffic_class: 0,
        flow_label: 0,
        hop_limit: 64,
        next_header,
        payload_len: payload.len() as u16,
    };
    let mut out = vec![0; 40];
    emit(&mut out, &fields);
    out.extend(payload);
    out
}

fn packet(next_header: u8, payload: &[u8]) -> Vec<u8> {
    packet_to(B, next_header, payload)
}

fn good(bytes: &[u8]) -> Ipv6Header {
    parse(bytes, bytes.len()).unwrap()
}

fn refused(bytes: &[u8]) -> (DropReason, Option<(u8, u32)>) {
    let rejection = parse(bytes, bytes.len()).unwrap_err();
    (rejection.reason, rejection.answer.map(|p| (p.code, p.pointer)))
}

fn reason(bytes: &[u8]) -> DropReason {
    refused(bytes).0
}

/// An extension header of eight bytes, of which six are options.
fn extension(next: u8, options: [u8; 6]) -> [u8; 8] {
    let [a, b, c, d, e, f] = options;
    [next, 0, a, b, c, d, e, f]
}

const PADDING: [u8; 6] = [1, 4, 0, 0, 0, 0];

#[test]
fn h9_versions() {
    for version in (0..16).filter(|&v| v != 6) {
        let mut bytes = packet(TCP, &[0; 20]);
        bytes[0] = version << 4;
        assert_eq!(reason(&bytes), DropReason::IpVersion, "{version}");
    }
}

#[test]
fn h7_padding_is_not_payload() {
    let mut bytes = packet(TCP, &[0; 20]);
    bytes.resize(100, 0xff);
    let header = good(&bytes);
    assert_eq!((header.transport_offset, header.transport_len), (40, 20));
}

#[test]
fn h31_payload_length() {
    let mut bytes = packet(TCP, &[0; 20]);
    for (len, ok) in [(0u16, false), (19, true), (20, true), (21, false), (65535, false)] {
        bytes[4..6].copy_from_slice(&len.to_be_bytes());
        let result = parse(&bytes, bytes.len());
        assert_eq!(result.is_ok(), ok, "{len}");
        if let Err(rejection) = result {
            assert_eq!(rejection, Rejection::silent(DropReason::IpLength), "{len}");
        }
    }
    for len in 0..40 {
        assert_eq!(reason(&bytes[..len]), DropReason::IpShort, "{len}");
    }
    let jumbo = packet(HOP_BY_HOP, &[TCP, 0, 0xc2, 4, 0, 1, 0, 0, 0]);
    assert_eq!(refused(&jumbo), (DropReason::Ip6Extension, Some((2, 42))), "jumbo payload option");
}

#[test]
fn h32_long_chains() {
    let chain = |count: usize| {
        let mut payload = extension(DESTINATION_OPTIONS, PADDING).repeat(count);
        payload[(count - 1) * 8] = TCP;
        payload.extend([0; 20]);
        packet(DESTINATION_OPTIONS, &payload)
    };
    let header = good(&chain(EXTENSION_HEADERS_MAX));
    assert_eq!((header.protocol, header.transport_offset), (TCP, 40 + 64));
    assert_eq!((header.transport_len, header.protocol_at), (20, 40 + 56));
    assert_eq!(reason(&chain(EXTENSION_HEADERS_MAX + 1)), DropReason::Ip6Extension);
    assert_eq!(reason(&chain(200)), DropReason::Ip6Extension);
}

#[test]
fn h32_chain_that_ends_inside_a_header() {
    let two = [extension(DESTINATION_OPTIONS, PADDING), extension(TCP, PADDING)].concat();
    for len in 1..16 {
        let bytes = packet(DESTINATION_OPTIONS, &two[..len]);
        assert_eq!(reason(&bytes), DropReason::Ip6Extension, "{len}");
    }
    let mut long = [0; 16];
    long[..4].copy_from_slice(&[TCP, 1, 1, 12]);
    for len in 8..16 {
        let bytes = packet(DESTINATION_OPTIONS, &long[..len]);
        assert_eq!(reason(&bytes), DropReason::Ip6Extension, "{len} of a header of 16");
        // Padding behind the packet does not complete it.
        let padded = [&bytes[..], &[0; 30]].concat();
        assert_eq!(reason(&padded), DropReason::Ip6Extension, "{len} of a header of 16, padded");
    }
    assert_eq!(good(&packet(DESTINATION_OPTIONS, &long)).protocol, TCP);
    // Ending right after the extension headers is fine here; the transport finds itself missing.
    assert_eq!(good(&packet(DESTINATION_OPTIONS, &two)).transport_len, 0);
}

/// RFC 8200 section 4.1.
#[test]
fn h33_hop_by_hop_only_first() {
    let first = [extension(DESTINATION_OPTIONS, PADDING), extension(TCP, PADDING)].concat();
    assert_eq!(good(&packet(HOP_BY_HOP, &first)).protocol, TCP);
    let second = [extension(HOP_BY_HOP, PADDING), extension(TCP, PADDING)].concat();
    let answer = (DropReason::Ip6Extension, Some((1, 40)));
    assert_eq!(refused(&packet(DESTINATION_OPTIONS, &second)), answer, "behind another");
    assert_eq!(refused(&packet(HOP_BY_HOP, &second)), answer, "twice");
}

#[test]
fn h34_lengths_beyond_the_packet() {
    let mut payload = extension(TCP, PADDING).to_vec();
    payload[1] = 255;
    payload.extend([0; 100]);
    assert_eq!(reason(&packet(DESTINATION_OPTIONS, &payload)), DropReason::Ip6Extension);
    // 2048 bytes that are there are fine.
    payload.resize(2048, 0);
    payload.extend([0; 20]);
    assert_eq!(good(&packet(DESTINATION_OPTIONS, &payload)).transport_offset, 40 + 2048);
    for (name, options) in [
        ("option beyond its header", [5, 5, 0, 0, 0, 0]),
        ("padding beyond its header", [1, 255, 0, 0, 0, 0]),
        ("length missing", [0, 0, 0, 0, 0, 5]),
    ] {
        let bytes = packet(DESTINATION_OPTIONS, &extension(TCP, options));
        assert_eq!(reason(&bytes), DropReason::Ip6Extension, "{name}");
    }
    assert_eq!(good(&packet(DESTINATION_OPTIONS, &extension(TCP, [0; 6]))).protocol, TCP, "Pad1");
}

#[test]
fn h35_unknown_options_by_their_action() {
    let with =
        |kind, dst| packet_to(dst, DESTINATION_OPTIONS, &extension(TCP, [0, kind, 3, 0, 0, 0]));
    let (silent, answered) =
        ((DropReason::Ip6Extension, None), (DropReason::Ip6Extension, Some((2, 43))));
    for low in [2u8, 0x3f] {
        for dst in [B, GROUP] {
            assert_eq!(good(&with(low, dst)).protocol, TCP, "00: skip");
            assert_eq!(refused(&with(0x40 | low, dst)), silent, "01: discard");
            assert_eq!(refused(&with(0x80 | low, dst)), answered, "10: answer always");
        }
        assert_eq!(refused(&with(0xc0 | low, B)), answered, "11: answer unicast");
        assert_eq!(refused(&with(0xc0 | low, GROUP)), silent, "11: silent for groups");
    }
}

#[test]
fn h36_routing_headers() {
    for kind in [0, 2, 4, 253] {
        let route = |left| packet(ROUTING, &[TCP, 0, kind, left, 0, 0, 0, 0]);
        assert_eq!(refused(&route(1)), (DropReason::Ip6Routing, Some((0, 42))), "type {kind}");
        assert_eq!(refused(&route(255)).0, DropReason::Ip6Routing, "type {kind}");
        assert_eq!(good(&route(0)).protocol, TCP, "type {kind} that is used up");
    }
}

#[test]
fn h37_martian_sources() {
    for src in ["ff02::1", "ff0e::1", "::", "::1", "::ffff:10.0.0.1", "fd00::2"] {
        let src: Ipv6Addr = src.parse().unwrap();
        let mut bytes = packet(TCP, &[0; 20]);
        bytes[8..24].copy_from_slice(&src.octets());
        assert_eq!(reason(&bytes), DropReason::IpMartian, "{src}");
    }
}

#[test]
fn unspecified_source_is_for_duplicate_address_detection_only() {
    let from_nobody = |next, payload: &[u8]| {
        let mut bytes = packet(next, payload);
        bytes[8..24].fill(0);
        bytes
    };
    let header = good(&from_nobody(protocol::ICMPV6, &[0; 24]));
    assert!(header.src.is_unspecified());
    let fragment = [protocol::ICMPV6, 0, 0, 1, 0, 0, 0, 1];
    assert_eq!(reason(&from_nobody(FRAGMENT, &fragment)), DropReason::IpMartian);
    assert_eq!(reason(&from_nobody(protocol::UDP, &[0; 8])), DropReason::IpMartian);
}

#[test]
fn h38_hop_limit_and_no_next_header() {
    let mut bytes = packet(protocol::NO_NEXT_HEADER, &[0xee; 9]);
    let header = good(&bytes);
    assert_eq!((header.protocol, header.transport_len), (protocol::NO_NEXT_HEADER, 9));
    bytes[7] = 1;
    assert_eq!(good(&bytes).hop_limit, 1);
    bytes[7] = 0;
    assert_eq!(reason(&bytes), DropReason::IpTtl);
}

#[test]
fn fragments_end_the_walk() {
    let first = packet(FRAGMENT, &[DESTINATION_OPTIONS, 99, 0, 1, 1, 2, 3, 4, 0xee, 0xee]);
    let header = good(&first);
    assert_eq!(header.fragment, Some(Fragment { offset: 0, more: true, id: 0x0102_0304 }));
    assert_eq!((header.protocol, header.transport_offset), (DESTINATION_OPTIONS, 48));
    assert_eq!(header.transport_len, 2);
    let last = packet(FRAGMENT, &[TCP, 0, 0xff, 0xfe, 0, 0, 0, 1, 0xee]);
    let fragment = good(&last).fragment.unwrap();
    assert_eq!((fragment.offset, fragment.more), (0xfff8, false), "reserved bits ignored");
}

#[test]
fn h29_atomic_fragments_are_whole_packets() {
    let atomic = [TCP, 0, 0, 0, 1, 2, 3, 4];
    let header = good(&packet(FRAGMENT, &[&atomic[..], &[0; 20]].concat()));
    assert_eq!((header.fragment, header.protocol), (None, TCP));
    assert_eq!((header.transport_offset, header.transport_len), (48, 20));
    let mut twice = [atomic, atomic].concat();
    twice[0] = FRAGMENT;
    assert_eq!(reason(&packet(FRAGMENT, &twice)), DropReason::Ip6Extension);
    let then_options = [&[DESTINATION_OPTIONS, 0, 0, 0, 0, 0, 0, 1][..], &extension(TCP, PADDING)];
    assert_eq!(good(&packet(FRAGMENT, &then_options.concat())).protocol, TCP);
}

#[test]
fn h125_headers_split_over_segments() {
    let bytes = packet(DESTINATION_OPTIONS, &[&extension(TCP, PADDING)[..], &[0; 20]].concat());
    for have in 0..48 {
        let rejection = parse(&bytes[..have], bytes.len()).unwrap_err();
        assert_eq!(rejection.reason, DropReason::MbufSplit, "{have}");
    }
    assert_eq!(parse(&bytes[..48], bytes.len()), parse(&bytes, bytes.len()));
}

#[test]
fn question_mark_gives_the_reason() {
    fn outer(bytes: &[u8]) -> Result<Ipv6Header, DropReason> {
        Ok(parse(bytes, bytes.len())?)
    }
    assert_eq!(outer(&[]), Err(DropReason::IpShort));
}

proptest! {
    #[test]
    fn what_is_emitted_parses(
        src: u128, dst: u128, traffic_class: u8, flow_label in 0u32..1 << 20, hop_limit in 1u8..,
        next_header: u8, payload_len in 1u16..,
    ) {
        let (src, dst) = (Ipv6Addr::from_bits(src >> 4 | 2 << 124), Ipv6Addr::from_bits(dst));
        prop_assume!(!is_extension(next_header) && src != dst);
        let fields =
            Ipv6Fields { src, dst, traffic_class, flow_label, hop_limit, next_header, payload_len };
        let mut out = [0xff; 40];
        prop_assert_eq!(emit(&mut out, &fields), HEADER_LEN);
        let expected = Ipv6Header {
            src, dst, traffic_class, flow_label, hop_limit, protocol: next_header, protocol_at: 6,
            transport_offset: 40, transport_len: payload_len.into(), fragment: None,
        };
        prop_assert_eq!(parse(&out, 70000), Ok(expected));
    }

    #[test]
    fn any_bytes_parse_or_not(
        payload in proptest::collection::vec(any::<u8>(), 1..120),
        nexts in proptest::collection::vec(
            prop_oneof![Just(0u8), Just(43), Just(44), Just(60), any::<u8>()], 15),
        units in proptest::collection::vec(0u8..3, 15),
        have in 0usize..200, more in 0usize..70000, tame: bool,
    ) {
        let mut payload = payload;
        if tame {
            // Next headers and short lengths where small headers would begin.
            for (chunk, (next, units)) in payload.chunks_mut(8).zip(nexts.iter().zip(units)) {
                chunk[0] = *next;
                if let Some(len) = chunk.get_mut(1) { *len = units; }
            }
        }
        let bytes = packet(nexts[0], &payload);
        let visible = &bytes[..have.min(bytes.len())];
        if let Ok(h) = parse(visible, bytes.len() + more) {
            prop_assert!(h.transport_offset <= visible.len());
            prop_assert_eq!(h.total_len(), bytes.len());
        }
    }

    #[test]
    fn any_bytes_at_all(bytes in proptest::collection::vec(any::<u8>(), 0..120), more in 0usize..70000) {
        let _ = parse(&bytes, bytes.len() + more);
    }
}
