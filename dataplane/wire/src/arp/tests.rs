use proptest::prelude::*;

use super::*;

const OURS: Mac = Mac([2, 0, 0, 0, 0, 1]);
const THEIRS: Mac = Mac([2, 0, 0, 0, 0, 2]);
const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

fn bytes(packet: ArpPacket) -> [u8; LEN] {
    let mut out = [0; LEN];
    assert_eq!(packet.emit(&mut out), LEN);
    out
}

#[test]
fn request_and_its_reply() {
    let request = ArpPacket::request(OURS, A, B);
    assert_eq!(parse(&bytes(request)), Ok(request));
    let reply = request.reply(THEIRS);
    assert_eq!((reply.sender_mac, reply.sender_ip), (THEIRS, B));
    assert_eq!((reply.target_mac, reply.target_ip), (OURS, A));
    assert_eq!(parse(&bytes(reply)), Ok(reply));
}

#[test]
fn padding_of_a_minimum_frame_is_ignored() {
    let mut padded = [0xee; 46];
    let request = ArpPacket::request(OURS, A, B);
    request.emit(&mut padded);
    assert_eq!(parse(&padded), Ok(request));
}

#[test]
fn h49_malformed() {
    let good = bytes(ArpPacket::request(OURS, A, B));
    for len in 0..LEN {
        assert_eq!(parse(&good[..len]), Err(DropReason::ArpBad), "cut to {len}");
    }
    let rows: [(&str, usize, u8); 11] = [
        ("hardware type", 1, 6),
        ("hardware type high", 0, 1),
        ("protocol", 2, 0x86),
        ("hardware length 0", 4, 0),
        ("hardware length 16", 4, 16),
        ("protocol length 0", 5, 0),
        ("protocol length 255", 5, 255),
        ("operation 0", 7, 0),
        ("operation 3, RARP", 7, 3),
        ("operation 255", 7, 255),
        ("operation high", 6, 1),
    ];
    for (name, at, value) in rows {
        let mut bad = good;
        bad[at] = value;
        assert_eq!(parse(&bad), Err(DropReason::ArpBad), "{name}");
    }
}

#[test]
fn h4_impossible_senders_are_not_learned() {
    for mac in [Mac::ZERO, Mac::BROADCAST, Mac([1, 0, 0x5e, 0, 0, 1])] {
        let packet = ArpPacket::request(mac, A, B);
        assert_eq!(parse(&bytes(packet)), Err(DropReason::ArpBad), "{mac}");
    }
    for ip in [Ipv4Addr::BROADCAST, Ipv4Addr::LOCALHOST, Ipv4Addr::new(224, 0, 0, 1)] {
        let packet = ArpPacket::request(OURS, ip, B);
        assert_eq!(parse(&bytes(packet)), Err(DropReason::ArpBad), "{ip}");
    }
    let probe = ArpPacket::request(OURS, Ipv4Addr::UNSPECIFIED, B);
    assert_eq!(parse(&bytes(probe)), Ok(probe), "RFC 5227 probe");
    let reply = ArpPacket { operation: Operation::Reply, ..probe };
    assert_eq!(parse(&bytes(reply)), Err(DropReason::ArpBad), "reply of nobody");
}

proptest! {
    #[test]
    fn any_bytes_parse_or_not(mut bytes in proptest::collection::vec(any::<u8>(), 0..60), fix: bool) {
        if fix && bytes.len() >= 8 {
            bytes[..8].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
        }
        if let Ok(packet) = parse(&bytes) {
            let mut out = [0; LEN];
            packet.emit(&mut out);
            prop_assert_eq!(&out[..], &bytes[..LEN]);
        }
    }
}
