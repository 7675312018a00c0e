use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::ipv6::{Ipv6Fields, ParameterProblem, emit as emit_ip};

const A: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const B: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

/// The first bytes of a TCP packet of ours.
fn packet() -> Vec<u8> {
    let fields = Ipv6Fields {
        src: A,
        dst: B,
        traffic_class: 0,
        flow_label: 0,
        hop_limit: 1,
        next_header: 6,
        payload_len: 1460,
    };
    let mut out = vec![0; 40];
    emit_ip(&mut out, &fields);
    out.extend([0x12, 0x34, 0, 80, 1, 2, 3, 4]);
    out
}

fn error(error: Icmpv6Error, packet: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 1500];
    let len = emit_error(&mut out, B, A, error, packet);
    out.truncate(len);
    out
}

#[test]
fn errors_come_back_as_they_were_sent() {
    let packet = packet();
    let quote = quote::parse_v6(&packet).unwrap();
    for (sent, expected) in [
        (Icmpv6Error::PacketTooBig(1279), Icmpv6Message::PacketTooBig { mtu: 1279, quote }),
        (Icmpv6Error::Unreachable(4), Icmpv6Message::Unreachable { code: 4, quote }),
        (Icmpv6Error::TimeExceeded(0), Icmpv6Message::TimeExceeded { code: 0, quote }),
        (
            Icmpv6Error::ParameterProblem(ParameterProblem { code: 2, pointer: 70_000 }),
            Icmpv6Message::ParameterProblem { code: 2, pointer: 70_000, quote },
        ),
    ] {
        let bytes = error(sent, &packet);
        assert_eq!(verify_checksum(B, A, [&bytes[..]], bytes.len()), Ok(()), "{sent:?}");
        assert_eq!(parse(&bytes, bytes.len()), Ok(expected));
        assert!(is_error(bytes[0]));
    }
}

#[test]
fn h43_short_quotes() {
    let bytes = error(Icmpv6Error::PacketTooBig(1300), &packet());
    for quoted in 0..48 {
        let len = HEADER_LEN + quoted;
        assert_eq!(parse(&bytes[..len], len), Err(DropReason::IcmpShort), "{quoted} quoted");
        assert_eq!(parse(&bytes[..len], 56), Err(DropReason::MbufSplit), "{quoted} contiguous");
    }
}

#[test]
fn h47_errors_are_known_as_such_and_stay_small() {
    assert!(!is_error(ECHO_REQUEST) && !is_error(ECHO_REPLY) && !is_error(135));
    assert!(is_error(127) && is_error(crate::ndp::REDIRECT));
    assert_eq!(error(Icmpv6Error::Unreachable(4), &[0x60; 1500]).len(), 1280 - 40);
}

#[test]
fn h48_short_or_wrong() {
    for len in 0..8 {
        assert_eq!(parse(&[128; 8][..len], len), Err(DropReason::IcmpShort), "{len} bytes");
    }
    let mut bytes = error(Icmpv6Error::Unreachable(4), &packet());
    bytes[20] ^= 1;
    let wrong = Err(DropReason::IcmpChecksum);
    assert_eq!(verify_checksum(B, A, [&bytes[..]], bytes.len()), wrong);
    bytes[20] ^= 1;
    let other = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 3);
    assert_eq!(verify_checksum(other, A, [&bytes[..]], bytes.len()), wrong, "other source");
    assert_eq!(verify_checksum(B, A, [&bytes[..]], bytes.len() + 1), wrong, "too short");
}

#[test]
fn echo_and_its_checksum_over_a_chain() {
    let data = [7u8; 33];
    let mut header = [0; 8];
    let echo = Echo { kind: EchoKind::Request, ident: 0x1234, sequence: 9 };
    emit_echo(&mut header, A, B, echo, data.len(), sum(&data, 0));
    let expected = Icmpv6Message::EchoRequest { ident: 0x1234, sequence: 9 };
    assert_eq!(parse(&header, 41), Ok(expected));
    assert_eq!(verify_checksum(A, B, [&header[..], &data[..5], &data[5..]], 41), Ok(()));
    let echo = Echo { kind: EchoKind::Reply, ..echo };
    emit_echo(&mut header, A, B, echo, 0, 0);
    assert_eq!(parse(&header, 8), Ok(Icmpv6Message::EchoReply { ident: 0x1234, sequence: 9 }));
}

#[test]
fn neighbour_discovery_is_passed_on_and_the_rest_is_unknown() {
    for kind in 133..=137 {
        assert_eq!(parse(&[kind, 0, 0, 0, 0, 0, 0, 0], 8), Ok(Icmpv6Message::Neighbor));
    }
    for kind in [0, 5, 100, 127, 130, 132, 138, 143, 255] {
        let unknown = Err(DropReason::IcmpUnknown);
        assert_eq!(parse(&[kind, 0, 0, 0, 0, 0, 0, 0], 8), unknown, "type {kind}");
    }
}

proptest! {
    #[test]
    fn any_bytes_parse_or_not(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), more in 0usize..2000, fix: bool) {
        if fix && bytes.len() > 8 {
            bytes[0] &= 7;
            bytes[8] = 0x60;
        }
        let _ = parse(&bytes, bytes.len() + more);
        let _ = parse(&bytes, bytes.len().saturating_sub(more));
    }
}
