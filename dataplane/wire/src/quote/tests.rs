use core::net::Ipv6Addr;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::ipv4::{HeaderChecksum, Ipv4Fields};
use crate::ipv6::Ipv6Fields;

const TCP_START: [u8; 8] = [0x12, 0x34, 0, 80, 1, 2, 3, 4];

fn v4(protocol: u8, transport: &[u8]) -> Vec<u8> {
    let fields = Ipv4Fields {
        src: Ipv4Addr::new(10, 0, 0, 1),
        dst: Ipv4Addr::new(10, 0, 0, 2),
        protocol,
        ttl: 0,
        tos: 0,
        ident: 0,
        dont_fragment: true,
        total_len: 1500,
    };
    let mut out = vec![0; 20];
    ipv4::emit(&mut out, &fields, HeaderChecksum::Compute);
    out.extend(transport);
    out
}

fn v6(next_header: u8, rest: &[u8]) -> Vec<u8> {
    let fields = Ipv6Fields {
        src: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
        dst: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
        traffic_class: 0,
        flow_label: 7,
        hop_limit: 0,
        next_header,
        payload_len: 1460,
    };
    let mut out = vec![0; 40];
    ipv6::emit(&mut out, &fields);
    out.extend(rest);
    out
}

#[test]
fn tcp_segment_of_ours() {
    for quote in [parse_v4(&v4(6, &TCP_START)).unwrap(), parse_v6(&v6(6, &TCP_START)).unwrap()] {
        assert_eq!(quote.protocol, 6);
        assert_eq!((quote.ports, quote.tcp_seq), (Some((0x1234, 80)), Some(0x0102_0304)));
        let key = quote.flow_key().unwrap();
        assert_eq!((key.local(), key.local_port()), (quote.src, 0x1234));
        assert_eq!((key.remote(), key.remote_port()), (quote.dst, 80));
    }
}

#[test]
fn other_protocols_have_no_sequence_number() {
    let udp = parse_v4(&v4(17, &TCP_START)).unwrap();
    assert_eq!((udp.ports, udp.tcp_seq), (Some((0x1234, 80)), None));
    let icmp = parse_v4(&v4(1, &TCP_START)).unwrap();
    assert_eq!((icmp.ports, icmp.tcp_seq, icmp.flow_key()), (None, None, None));
}

#[test]
fn h43_truncated_or_bogus() {
    let bytes = v4(6, &TCP_START);
    for len in [0, 8, 19, 20, 27] {
        assert_eq!(parse_v4(&bytes[..len]), Err(DropReason::IcmpShort), "{len} bytes");
    }
    for first in [0x40, 0x44, 0x46, 0x4f, 0x55, 0x65, 0x05] {
        let mut bad = bytes.clone();
        bad[0] = first;
        assert_eq!(parse_v4(&bad), Err(DropReason::IcmpShort), "first byte {first:#x}");
    }
    let bytes = v6(6, &TCP_START);
    for len in [0, 8, 39, 40, 47] {
        assert_eq!(parse_v6(&bytes[..len]), Err(DropReason::IcmpShort), "{len} bytes");
    }
    let mut bad = bytes;
    bad[0] = 0x45;
    assert_eq!(parse_v6(&bad), Err(DropReason::IcmpShort));
}

#[test]
fn options_and_extension_headers_are_skipped() {
    let mut bytes = v4(6, &[&[1, 1, 1, 1][..], &TCP_START].concat());
    bytes[0] = 0x46;
    assert_eq!(parse_v4(&bytes).unwrap().tcp_seq, Some(0x0102_0304));
    let options = [44, 0, 1, 4, 0, 0, 0, 0];
    let atomic = [6, 0, 0, 1, 0, 0, 0, 9];
    let bytes = v6(60, &[&options[..], &atomic, &TCP_START].concat());
    let quote = parse_v6(&bytes).unwrap();
    assert_eq!((quote.protocol, quote.tcp_seq), (6, Some(0x0102_0304)));
    let endless = v6(60, &[60, 0, 1, 4, 0, 0, 0, 0].repeat(100));
    assert_eq!(parse_v6(&endless), Err(DropReason::IcmpShort));
}

#[test]
fn later_fragments_have_no_ports() {
    let mut bytes = v4(6, &TCP_START);
    bytes[7] = 1;
    assert_eq!(parse_v4(&bytes).unwrap().ports, None);
    let bytes = v6(44, &[6, 0, 0, 8, 0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8]);
    let quote = parse_v6(&bytes).unwrap();
    assert_eq!((quote.protocol, quote.ports), (6, None));
}

proptest! {
    #[test]
    fn any_bytes_parse_or_not(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), next: u8) {
        let _ = (parse_v4(&bytes), parse_v6(&bytes));
        if bytes.len() > 8 {
            bytes[0] = 0x40 | bytes[0] & 15;
            let _ = parse_v4(&bytes);
            (bytes[0], bytes[6]) = (0x60, next % 64);
            let _ = parse_v6(&bytes);
        }
    }
}
