use std::vec::Vec;

use proptest::prelude::*;

use super::*;

const A: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const B: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0xab, 0xcdef);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
type Parsed = Result<NdpMessage, DropReason>;
/// Name, type, bytes before the options, options, source, expected.
type Row = (&'static str, u8, usize, &'static [u8], Ipv6Addr, Parsed);
const INVALID: Parsed = Err(DropReason::NdInvalid);
const IGNORED: Parsed = Err(DropReason::NeighborIgnored);

fn sign(message: &mut [u8], src: Ipv6Addr, dst: Ipv6Addr) {
    message[2..4].fill(0);
    let checksum = !fold(sum(message, pseudo_v6(src, dst, 58, message.len())));
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
}

/// A message with a right checksum, whatever else is wrong.
fn message(kind: u8, body: &[u8], src: Ipv6Addr, dst: Ipv6Addr) -> Vec<u8> {
    let mut out = vec![kind, 0, 0, 0];
    out.extend(body);
    sign(&mut out, src, dst);
    out
}

/// A solicitation of A for B with the bytes `options`.
fn solicitation_with(options: &[u8]) -> Vec<u8> {
    let body = [&[0; 4][..], &B.octets(), options].concat();
    message(NEIGHBOR_SOLICITATION, &body, A, solicited_node(B))
}

fn parse_solicitation(bytes: &[u8]) -> Result<NdpMessage, DropReason> {
    parse(bytes, A, solicited_node(B), 255)
}

#[test]
fn groups_and_their_hardware_addresses() {
    let group: Ipv6Addr = "ff02::1:ffab:cdef".parse().unwrap();
    let address: Ipv6Addr = "2001:db8::12ab:cdef".parse().unwrap();
    assert_eq!(solicited_node(address), group);
    assert!(is_solicited_node(group) && !is_solicited_node(ALL_NODES));
    assert_eq!(multicast_mac(group), Mac([0x33, 0x33, 0xff, 0xab, 0xcd, 0xef]));
}

/// RFC 4861 section 7.1.
#[test]
fn h54_what_section_7_1_discards() {
    let good = solicitation_with(&[1, 1, 2, 0, 0, 0, 0, 1]);
    let expected = Solicitation { target: B, source_mac: Some(MAC) };
    assert_eq!(parse_solicitation(&good), Ok(NdpMessage::Solicitation(expected)));
    for hop_limit in [0, 1, 64, 254] {
        assert_eq!(parse(&good, A, solicited_node(B), hop_limit), INVALID, "{hop_limit}");
    }
    let mut code = good.clone();
    code[1] = 1;
    sign(&mut code, A, solicited_node(B));
    assert_eq!(parse_solicitation(&code), INVALID, "code");
    let mut wrong = good.clone();
    wrong[2] ^= 1;
    assert_eq!(parse_solicitation(&wrong), Err(DropReason::IcmpChecksum));
    let body = [&[0; 4][..], &ALL_NODES.octets()].concat();
    let group = message(NEIGHBOR_SOLICITATION, &body, A, solicited_node(B));
    assert_eq!(parse_solicitation(&group), INVALID, "target multicast");
    for len in 0..24 {
        let mut cut = good[..len].to_vec();
        let expected = if len < 8 { Err(DropReason::IcmpShort) } else { INVALID };
        if len >= 4 {
            sign(&mut cut, A, solicited_node(B));
        }
        assert_eq!(parse_solicitation(&cut), expected, "{len} bytes");
    }
}

#[test]
fn h54_options() {
    let rows: [(&str, &[u8], bool); 10] = [
        ("none", &[], true),
        ("unknown", &[14, 1, 0, 0, 0, 0, 0, 0], true),
        (
            "unknown, then ours",
            &[14, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 0, 0, 0, 0, 1],
            true,
        ),
        ("length 0", &[1, 0, 2, 0, 0, 0, 0, 1], false),
        ("unknown of length 0", &[14, 0, 0, 0, 0, 0, 0, 0], false),
        ("beyond the end", &[1, 2, 2, 0, 0, 0, 0, 1], false),
        ("one byte", &[1], false),
        ("seven bytes", &[1, 1, 2, 0, 0, 0, 0], false),
        ("address of a group", &[1, 1, 0x33, 0x33, 0, 0, 0, 1], false),
        ("address zero", &[1, 1, 0, 0, 0, 0, 0, 0], false),
    ];
    for (name, options, good) in rows {
        assert_eq!(parse_solicitation(&solicitation_with(options)).is_ok(), good, "{name}");
    }
    let long = [&[1, 2][..], &[2; 14]].concat();
    assert_eq!(parse_solicitation(&solicitation_with(&long)), INVALID, "not an Ethernet address");
    let two = [1, 1, 2, 0, 0, 0, 0, 1, 1, 1, 2, 0, 0, 0, 0, 9];
    match parse_solicitation(&solicitation_with(&two)) {
        Ok(NdpMessage::Solicitation(s)) => assert_eq!(s.source_mac, Some(MAC), "first of two"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn duplicate_address_detection() {
    let nobody = Ipv6Addr::UNSPECIFIED;
    let probe = Solicitation { target: B, source_mac: None };
    let mut out = [0; NEIGHBOR_LEN_MAX];
    let len = probe.emit(&mut out, nobody, solicited_node(B));
    let parsed = parse(&out[..len], nobody, solicited_node(B), 255);
    assert_eq!(parsed, Ok(NdpMessage::Solicitation(probe)));
    let len = probe.emit(&mut out, nobody, ALL_NODES);
    assert_eq!(parse(&out[..len], nobody, ALL_NODES, 255), INVALID, "not to the group");
    let telling = Solicitation { source_mac: Some(MAC), ..probe };
    let len = telling.emit(&mut out, nobody, solicited_node(B));
    assert_eq!(parse(&out[..len], nobody, solicited_node(B), 255), INVALID, "has an address");
}

#[test]
fn advertisements() {
    let good = Advertisement {
        target: B,
        target_mac: Some(MAC),
        router: true,
        solicited: false,
        override_entry: true,
    };
    let mut out = [0; NEIGHBOR_LEN_MAX];
    let len = good.emit(&mut out, B, ALL_NODES);
    assert_eq!(parse(&out[..len], B, ALL_NODES, 255), Ok(NdpMessage::Advertisement(good)));
    let solicited = Advertisement { solicited: true, target_mac: None, ..good };
    let len = solicited.emit(&mut out, B, ALL_NODES);
    assert_eq!(parse(&out[..len], B, ALL_NODES, 255), INVALID, "solicited, to a group");
    let len = solicited.emit(&mut out, B, A);
    assert_eq!(parse(&out[..len], B, A, 255), Ok(NdpMessage::Advertisement(solicited)));
}

#[test]
fn h46_router_messages_and_redirects() {
    let global: Ipv6Addr = "2001:db8::1".parse().unwrap();
    let rows: [Row; 9] = [
        ("solicitation", ROUTER_SOLICITATION, 4, &[1, 1, 2, 0, 0, 0, 0, 1], A, IGNORED),
        ("solicitation of nobody", ROUTER_SOLICITATION, 4, &[], Ipv6Addr::UNSPECIFIED, IGNORED),
        (
            "of nobody, with address",
            ROUTER_SOLICITATION,
            4,
            &[1, 1, 2, 0, 0, 0, 0, 1],
            Ipv6Addr::UNSPECIFIED,
            INVALID,
        ),
        ("advertisement", ROUTER_ADVERTISEMENT, 12, &[1, 1, 2, 0, 0, 0, 0, 1], A, IGNORED),
        (
            "advertisement from afar",
            ROUTER_ADVERTISEMENT,
            12,
            &[1, 1, 2, 0, 0, 0, 0, 1],
            global,
            INVALID,
        ),
        ("advertisement, short", ROUTER_ADVERTISEMENT, 11, &[], A, INVALID),
        (
            "DNS option of length 0",
            ROUTER_ADVERTISEMENT,
            12,
            &[25, 0, 0, 0, 0, 0, 0, 0],
            A,
            INVALID,
        ),
        ("redirect", REDIRECT, 36, &[], A, IGNORED),
        ("redirect from afar", REDIRECT, 36, &[], global, INVALID),
    ];
    for (name, kind, fixed, options, src, expected) in rows {
        let body = [&vec![0; fixed][..], options].concat();
        let bytes = message(kind, &body, src, ALL_NODES);
        assert_eq!(parse(&bytes, src, ALL_NODES, 255), expected, "{name}");
    }
}

proptest! {
    #[test]
    fn what_is_emitted_parses(
        target: u128, mac: Option<[u8; 6]>, router: bool, solicited: bool, override_entry: bool,
    ) {
        let target = Ipv6Addr::from_bits(target >> 4 | 2 << 124);
        let mac = mac.map(|mut mac| { mac[0] = mac[0] & 0xfe | 2; Mac(mac) });
        let mut out = [0xff; NEIGHBOR_LEN_MAX];
        let question = Solicitation { target, source_mac: mac };
        let len = question.emit(&mut out, A, B);
        prop_assert_eq!(parse(&out[..len], A, B, 255), Ok(NdpMessage::Solicitation(question)));
        let answer = Advertisement { target, target_mac: mac, router, solicited, override_entry };
        let len = answer.emit(&mut out, A, B);
        prop_assert_eq!(parse(&out[..len], A, B, 255), Ok(NdpMessage::Advertisement(answer)));
    }

    /// The checksum is made right, so that the bytes get to the checks behind it.
    #[test]
    fn any_bytes_parse_or_not(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), kind in 130u8..140, units in 0u8..4) {
        let _ = parse(&bytes, A, B, 255);
        if bytes.len() >= 4 {
            (bytes[0], bytes[1]) = (kind, 0);
            for at in (9..bytes.len()).step_by(8) { bytes[at] = units; }
            sign(&mut bytes, A, B);
            let _ = parse(&bytes, A, B, 255);
        }
    }
}
