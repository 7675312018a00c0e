use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::ipv4::{HeaderChecksum, Ipv4Fields, emit as emit_ip};

/// The first bytes of a TCP packet of ours.
fn packet() -> Vec<u8> {
    let fields = Ipv4Fields {
        src: [10, 0, 0, 1].into(),
        dst: [10, 0, 0, 2].into(),
        protocol: 6,
        ttl: 1,
        tos: 0,
        ident: 0,
        dont_fragment: true,
        total_len: 1500,
    };
    let mut out = vec![0; 20];
    emit_ip(&mut out, &fields, HeaderChecksum::Compute);
    out.extend([0x12, 0x34, 0, 80, 1, 2, 3, 4]);
    out
}

fn error(error: Icmpv4Error, packet: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 600];
    let len = emit_error(&mut out, error, packet);
    out.truncate(len);
    out
}

#[test]
fn errors_come_back_as_they_were_sent() {
    let packet = packet();
    let quote = quote::parse_v4(&packet).unwrap();
    for (sent, expected) in [
        (
            Icmpv4Error::FragmentationNeeded(1400),
            Icmpv4Message::FragmentationNeeded { mtu: 1400, quote },
        ),
        (Icmpv4Error::Unreachable(UNREACHABLE_PORT), Icmpv4Message::Unreachable { code: 3, quote }),
        (Icmpv4Error::TimeExceeded(1), Icmpv4Message::TimeExceeded { code: 1, quote }),
        (
            Icmpv4Error::ParameterProblem(9),
            Icmpv4Message::ParameterProblem { code: 0, pointer: 9, quote },
        ),
    ] {
        let bytes = error(sent, &packet);
        assert_eq!(verify_checksum([&bytes[..]], bytes.len()), Ok(()), "{sent:?}");
        assert_eq!(parse(&bytes, bytes.len()), Ok(expected));
        assert!(is_error(bytes[0]));
    }
}

#[test]
fn h40_every_mtu_is_handed_on() {
    for mtu in [0, 1, 67, 68, 65535] {
        let bytes = error(Icmpv4Error::FragmentationNeeded(mtu), &packet());
        match parse(&bytes, bytes.len()).unwrap() {
            Icmpv4Message::FragmentationNeeded { mtu: parsed, .. } => assert_eq!(parsed, mtu),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn h43_short_quotes() {
    let bytes = error(Icmpv4Error::Unreachable(1), &packet());
    for quoted in 0..28 {
        let len = HEADER_LEN + quoted;
        assert_eq!(parse(&bytes[..len], len), Err(DropReason::IcmpShort), "{quoted} quoted");
        assert_eq!(parse(&bytes, len), Err(DropReason::IcmpShort), "{quoted}, then padding");
        assert_eq!(parse(&bytes[..len], 36), Err(DropReason::MbufSplit), "{quoted} contiguous");
    }
    for len in 0..HEADER_LEN {
        assert_eq!(parse(&bytes[..len], len), Err(DropReason::IcmpShort), "{len}");
    }
}

#[test]
fn h45_h46_messages_without_meaning() {
    for (kind, expected) in [
        (SOURCE_QUENCH, DropReason::IcmpUnknown),
        (REDIRECT, DropReason::NeighborIgnored),
        (13, DropReason::IcmpUnknown),
        (255, DropReason::IcmpUnknown),
    ] {
        let mut bytes = error(Icmpv4Error::Unreachable(1), &packet());
        bytes[0] = kind;
        assert_eq!(parse(&bytes, bytes.len()), Err(expected), "type {kind}");
    }
}

#[test]
fn h47_errors_are_known_as_such_and_stay_small() {
    let errors: Vec<u8> = (0..=255).filter(|&kind| is_error(kind)).collect();
    assert_eq!(errors, [3, 4, 5, 11, 12]);
    assert_eq!(error(Icmpv4Error::Unreachable(3), &[0x45; 1500]).len(), 576 - 20);
}

#[test]
fn echo_and_its_checksum_over_a_chain() {
    let data = [7u8; 33];
    let mut header = [0; 8];
    emit_echo(&mut header, EchoKind::Reply, 0x1234, 9, sum(&data, 0));
    let expected = Icmpv4Message::EchoReply { ident: 0x1234, sequence: 9 };
    assert_eq!(parse(&header, 41), Ok(expected));
    assert_eq!(verify_checksum([&header[..], &data[..5], &data[5..]], 41), Ok(()));
    assert_eq!(verify_checksum([&header[..], &data], 40), Err(DropReason::IcmpChecksum));
    emit_echo(&mut header, EchoKind::Request, 1, 2, 0);
    assert_eq!(parse(&header, 8), Ok(Icmpv4Message::EchoRequest { ident: 1, sequence: 2 }));
    assert!(!is_error(header[0]));
}

proptest! {
    #[test]
    fn any_bytes_parse_or_not(mut bytes in proptest::collection::vec(any::<u8>(), 0..80), more in 0usize..2000, fix: bool) {
        if fix && bytes.len() > 8 {
            bytes[0] &= 15;
            bytes[8] = 0x45;
        }
        let _ = parse(&bytes, bytes.len() + more);
        let _ = parse(&bytes, bytes.len().saturating_sub(more));
    }
}
