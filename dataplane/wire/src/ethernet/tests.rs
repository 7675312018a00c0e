use std::string::ToString;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

const DST: Mac = Mac([2, 0, 0, 0, 0, 2]);
const SRC: Mac = Mac([2, 0, 0, 0, 0, 1]);

/// A frame with `tail` after the addresses.
fn frame(src: Mac, tail: &[u8]) -> Vec<u8> {
    [&DST.0, &src.0, tail].concat()
}

#[test]
fn h1_short_frames() {
    let frame = frame(SRC, &[0x08, 0x00]);
    for len in 0..HEADER_LEN {
        assert_eq!(parse(&frame[..len]), Err(DropReason::L2Short), "length {len}");
    }
    assert!(parse(&frame).is_ok());
}

#[test]
fn h2_header_without_packet() {
    let frame = frame(SRC, &[0x08, 0x00]);
    let header = parse(&frame).unwrap();
    let rest = &frame[header.len..];
    assert_eq!(crate::ipv4::parse(rest, rest.len(), true), Err(DropReason::IpShort));
    assert_eq!(crate::ipv6::parse(rest, rest.len()).unwrap_err().reason, DropReason::IpShort);
}

#[test]
fn h4_bad_sources() {
    for (name, src) in
        [("zero", Mac::ZERO), ("broadcast", Mac::BROADCAST), ("group", Mac([1, 0, 0x5e, 0, 0, 1]))]
    {
        assert_eq!(parse(&frame(src, &[0x08, 0])), Err(DropReason::L2BadSource), "{name}");
    }
}

#[test]
fn h5_vlan_tags() {
    let one = frame(SRC, &[0x81, 0, 0x20, 0x05, 0x08, 0x00]);
    let header = parse(&one).unwrap();
    assert_eq!((header.vlan, header.inner_vlan, header.len), (Some(0x2005), None, 18));
    assert_eq!(header.ethertype, EtherType::IPV4);
    for len in 14..18 {
        assert_eq!(parse(&one[..len]), Err(DropReason::VlanBad), "cut to {len}");
    }
    let two = frame(SRC, &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 0x86, 0xdd]);
    let header = parse(&two).unwrap();
    assert_eq!((header.vlan, header.inner_vlan, header.len), (Some(1), Some(2), 22));
    for len in 18..22 {
        assert_eq!(parse(&two[..len]), Err(DropReason::VlanBad), "cut to {len}");
    }
    let mut deep = frame(SRC, &[]);
    for _ in 0..300 {
        deep.extend([0x81, 0, 0, 1]);
    }
    deep.extend([0x08, 0]);
    assert_eq!(parse(&deep), Err(DropReason::VlanBad));
    let three = frame(SRC, &[0x81, 0, 0, 1, 0x81, 0, 0, 2, 0x91, 0, 0, 3, 0x08, 0]);
    assert_eq!(parse(&three), Err(DropReason::VlanBad));
}

#[test]
fn h6_length_instead_of_type() {
    for length in [0u16, 46, 1500, 0x05ff] {
        let plain = frame(SRC, &length.to_be_bytes());
        assert_eq!(parse(&plain), Err(DropReason::L2Unknown), "{length}");
        let [high, low] = length.to_be_bytes();
        let tagged = frame(SRC, &[0x81, 0, 0, 1, high, low]);
        assert_eq!(parse(&tagged), Err(DropReason::L2Unknown), "{length} in a VLAN");
    }
    assert!(parse(&frame(SRC, &[0x06, 0x00])).is_ok());
}

#[test]
fn h135_frames_of_zeros() {
    assert_eq!(parse(&[0; 64]), Err(DropReason::L2Unknown));
}

#[test]
fn addresses_print_and_classify() {
    assert_eq!(Mac([0, 0x1b, 0x21, 0xab, 0xcd, 0xef]).to_string(), "00:1b:21:ab:cd:ef");
    assert!(Mac::BROADCAST.is_multicast() && Mac::BROADCAST.is_broadcast());
    assert!(!DST.is_multicast() && DST.is_station());
    assert!(Mac::ZERO.is_zero() && !Mac::ZERO.is_station());
}

proptest! {
    #[test]
    fn what_is_emitted_parses(
        dst: [u8; 6], mut src: [u8; 6], vlan: Option<u16>, kind in 0x0600u16..,
    ) {
        src[0] = src[0] & 0xfe | 2;
        prop_assume!(!EtherType(kind).is_vlan());
        let mut out = [0; 18];
        let len = emit(&mut out, Mac(dst), Mac(src), vlan, EtherType(kind));
        prop_assert_eq!(len, header_len(vlan));
        let (dst, src, ethertype) = (Mac(dst), Mac(src), EtherType(kind));
        let expected = EthernetHeader { dst, src, vlan, inner_vlan: None, ethertype, len };
        prop_assert_eq!(parse(&out[..len]), Ok(expected));
    }

    #[test]
    fn any_bytes_parse_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(header) = parse(&bytes) {
            prop_assert!(header.len <= bytes.len() && header.src.is_station());
        }
    }
}
