use std::vec::Vec;

use proptest::prelude::*;

use super::*;

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

fn fields() -> Ipv4Fields {
    Ipv4Fields {
        src: A,
        dst: B,
        protocol: 6,
        ttl: 64,
        tos: 0,
        ident: 0,
        dont_fragment: true,
        total_len: 40,
    }
}

/// A good packet of 40 bytes with `edit` applied and the checksum made right again.
fn packet(edit: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = vec![0; 40];
    emit(&mut bytes, &fields(), HeaderChecksum::Offload);
    edit(&mut bytes);
    let header_len = (usize::from(bytes[0] & 15) * 4).clamp(20, bytes.len());
    bytes[10..12].fill(0);
    let checksum = checksum::of(&bytes[..header_len]);
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

fn reason(bytes: &[u8]) -> DropReason {
    parse(bytes, bytes.len(), true).unwrap_err()
}

/// A good packet with `options` padded to words.
fn with_options(options: &[u8]) -> Vec<u8> {
    let words = options.len().div_ceil(4);
    packet(|b| {
        b[0] = 0x45 + words as u8;
        b.splice(20..20, options.iter().copied().chain(core::iter::repeat(0)).take(words * 4));
        let total = b.len() as u16;
        b[2..4].copy_from_slice(&total.to_be_bytes());
    })
}

#[test]
fn h7_padding_is_not_payload() {
    let mut bytes = packet(|_| {});
    bytes.resize(46, 0xff);
    let header = parse(&bytes, bytes.len(), true).unwrap();
    assert_eq!((header.header_len, header.total_len, header.payload_len()), (20, 40, 20));
}

#[test]
fn h9_versions() {
    for version in (0..16).filter(|&v| v != 4) {
        let bytes = packet(|b| b[0] = version << 4 | 5);
        assert_eq!(reason(&bytes), DropReason::IpVersion, "{version}");
    }
}

#[test]
fn h10_header_length_below_twenty() {
    for ihl in 0..5 {
        assert_eq!(reason(&packet(|b| b[0] = 0x40 | ihl)), DropReason::IpHeaderLen, "{ihl}");
    }
}

#[test]
fn h11_header_length_beyond_packet_or_frame() {
    assert_eq!(reason(&packet(|b| b[0] = 0x4b)), DropReason::IpHeaderLen, "beyond both");
    let mut longer = packet(|b| b[0] = 0x4b);
    longer.resize(60, 0);
    assert_eq!(reason(&longer), DropReason::IpHeaderLen, "beyond the packet");
    let short = &packet(|b| b[0] = 0x46)[..20];
    assert_eq!(reason(short), DropReason::IpHeaderLen, "beyond the frame");
}

#[test]
fn h12_total_length() {
    for total in [0u8, 19, 41, 255] {
        assert_eq!(reason(&packet(|b| b[3] = total)), DropReason::IpLength, "{total}");
    }
    assert_eq!(reason(&packet(|b| b[2] = 0xff)), DropReason::IpLength);
}

#[test]
fn h13_checksum() {
    let good = packet(|_| {});
    for bit in 0..160 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(parse(&bad, bad.len(), true).is_err(), "bit {bit}");
    }
    let mut bad = good.clone();
    bad[10] ^= 1;
    assert_eq!(reason(&bad), DropReason::IpChecksum);
    assert!(parse(&bad, bad.len(), false).is_ok(), "left to the device");
}

#[test]
fn h13_both_forms_of_a_zero_checksum() {
    // The identification is chosen such that the checksum comes out as zero.
    let before = packet(|_| {});
    let checksum = u16::from_be_bytes([before[10], before[11]]);
    let mut zero = packet(|b| b[4..6].copy_from_slice(&checksum.to_be_bytes()));
    assert_eq!(zero[10..12], [0, 0]);
    assert!(parse(&zero, 40, true).is_ok());
    zero[10..12].fill(0xff);
    assert!(parse(&zero, 40, true).is_ok());
}

#[test]
fn h14_martian_sources() {
    for src in [
        "0.0.0.0",
        "0.1.2.3",
        "127.0.0.1",
        "127.255.0.9",
        "224.0.0.1",
        "239.1.1.1",
        "255.255.255.255",
    ] {
        let src: Ipv4Addr = src.parse().unwrap();
        let bytes = packet(|b| b[12..16].copy_from_slice(&src.octets()));
        assert_eq!(reason(&bytes), DropReason::IpMartian, "{src}");
    }
}

#[test]
fn h16_land() {
    assert_eq!(reason(&packet(|b| b[12..16].copy_from_slice(&B.octets()))), DropReason::IpMartian);
}

#[test]
fn h17_options() {
    let rows: [(&str, &[u8], Result<(), DropReason>); 14] = [
        ("only NOPs", &[1; 40], Ok(())),
        ("router alert", &[148, 4, 0, 0], Ok(())),
        ("record route", &[7, 7, 4, 0, 0, 0, 0, 1], Ok(())),
        ("end, then garbage", &[0, 131, 0, 255], Ok(())),
        ("length 2", &[200, 2, 1, 1], Ok(())),
        ("length 0", &[7, 0, 0, 0], Err(DropReason::IpOption)),
        ("length 1", &[7, 1, 0, 0], Err(DropReason::IpOption)),
        ("length beyond", &[7, 5, 0, 0], Err(DropReason::IpOption)),
        ("length 255", &[7, 255, 0, 0], Err(DropReason::IpOption)),
        ("length missing", &[1, 1, 1, 7], Err(DropReason::IpOption)),
        ("loose source route", &[131, 7, 4, 1, 2, 3, 4], Err(DropReason::IpSourceRoute)),
        ("strict source route", &[137, 3, 4, 0], Err(DropReason::IpSourceRoute)),
        ("source route behind others", &[1, 7, 3, 4, 131, 3, 4, 0], Err(DropReason::IpSourceRoute)),
        ("source route too long", &[131, 9, 4, 0], Err(DropReason::IpOption)),
    ];
    for (name, options, expected) in rows {
        let bytes = with_options(options);
        let result = parse(&bytes, bytes.len(), true);
        assert_eq!(result.map(|_| ()), expected, "{name}");
        if let Ok(header) = result {
            assert_eq!(header.payload_len(), 20, "{name}");
        }
    }
}

#[test]
fn h18_time_to_live() {
    assert_eq!(reason(&packet(|b| b[8] = 0)), DropReason::IpTtl);
    assert_eq!(parse(&packet(|b| b[8] = 1), 40, true).unwrap().ttl, 1);
}

#[test]
fn h20_only_offset_and_more_make_a_fragment() {
    let fragment = |flags: u16| {
        let bytes = packet(|b| b[6..8].copy_from_slice(&flags.to_be_bytes()));
        parse(&bytes, 40, true).unwrap().fragment
    };
    assert_eq!(fragment(0x4000), None, "DF");
    assert_eq!(fragment(0x8000), None, "evil bit");
    assert_eq!(fragment(0x6000), Some(Fragment { offset: 0, more: true }), "DF and MF");
    assert_eq!(fragment(0x5fff), Some(Fragment { offset: 65528, more: false }), "DF, last offset");
    assert_eq!(fragment(0xa001), Some(Fragment { offset: 8, more: true }), "evil and MF");
}

#[test]
fn h125_header_split_over_segments() {
    let bytes = with_options(&[1; 8]);
    for have in 0..28 {
        assert_eq!(parse(&bytes[..have], 48, true), Err(DropReason::MbufSplit), "{have}");
    }
    assert_eq!(parse(&bytes[..28], 48, true), parse(&bytes, 48, true));
    for len in 0..20 {
        assert_eq!(reason(&bytes[..len]), DropReason::IpShort, "{len}");
    }
}

proptest! {
    #[test]
    fn what_is_emitted_parses(
        src in 0x0100_0000u32..0x7f00_0000, dst in 0x8000_0000u32..,
        protocol: u8, ttl in 1u8.., tos: u8, ident: u16, dont_fragment: bool, total_len in 20u16..,
    ) {
        let (src, dst) = (Ipv4Addr::from_bits(src), Ipv4Addr::from_bits(dst));
        let fields =
            Ipv4Fields { src, dst, protocol, ttl, tos, ident, dont_fragment, total_len };
        let mut out = [0xff; 20];
        prop_assert_eq!(emit(&mut out, &fields, HeaderChecksum::Compute), HEADER_LEN);
        let expected = Ipv4Header {
            src, dst, protocol, ttl, tos, ident, header_len: 20, total_len: total_len.into(),
            dont_fragment, fragment: None,
        };
        prop_assert_eq!(parse(&out, 65535, true), Ok(expected));
        emit(&mut out, &fields, HeaderChecksum::Offload);
        prop_assert_eq!(&out[10..12], &[0, 0]);
    }

    #[test]
    fn any_bytes_parse_or_not(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..80),
        more in 0usize..70000, fix: bool,
    ) {
        if let Some(first) = bytes.first_mut().filter(|_| fix) {
            *first = 0x40 | *first & 15;
        }
        let frame_len = bytes.len() + more;
        if let Ok(h) = parse(&bytes, frame_len, !fix) {
            prop_assert!(20 <= h.header_len && h.header_len <= h.total_len);
            prop_assert!(h.header_len <= bytes.len() && h.total_len <= frame_len);
        }
    }
}
