use proptest::prelude::*;

use super::*;

#[test]
fn lengths_that_contradict_the_packet() {
    for (name, len, l4_len, good) in [
        ("just a header", 8, 8, true),
        ("padding behind", 8, 20, true),
        ("length 0", 0, 20, false),
        ("length 7", 7, 20, false),
        ("one too long", 21, 20, false),
        ("longest", 65535, 20, false),
    ] {
        let mut out = [0; 20];
        emit(&mut out, 1, 2, len, 0);
        assert_eq!(parse(&out, l4_len).is_ok(), good, "{name}");
    }
    for len in 0..HEADER_LEN {
        assert_eq!(parse(&[1; 8][..len], len), Err(DropReason::UdpBad), "cut to {len}");
        assert_eq!(parse(&[1; 8][..len], 100), Err(DropReason::MbufSplit), "split at {len}");
    }
}

#[test]
fn port_zero_receives_nothing() {
    let mut out = [0; 8];
    emit(&mut out, 7, 0, 8, 0);
    assert_eq!(parse(&out, 8), Err(DropReason::UdpBad));
    emit(&mut out, 0, 7, 8, 0);
    assert!(parse(&out, 8).is_ok());
}

proptest! {
    #[test]
    fn what_is_emitted_parses(src: u16, dst in 1u16.., len in 8u16.., checksum: u16) {
        let mut out = [0xff; 8];
        emit(&mut out, src, dst, len, 0);
        set_checksum(&mut out, checksum);
        let expected = UdpHeader { src_port: src, dst_port: dst, len: len.into(), checksum };
        prop_assert_eq!(parse(&out, 65535), Ok(expected));
    }

    #[test]
    fn any_bytes_parse_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..20), more in 0usize..70000) {
        let l4_len = bytes.len() + more;
        if let Ok(header) = parse(&bytes, l4_len) {
            prop_assert!(header.len >= HEADER_LEN && header.len <= l4_len);
        }
    }
}
