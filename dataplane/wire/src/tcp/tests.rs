use std::vec::Vec;

use proptest::prelude::*;

use super::*;

const ACK: TcpFlags = TcpFlags::ACK;
const SYN: TcpFlags = TcpFlags::SYN;

/// A header with raw `options`, padded with ends of options to words.
fn segment(flags: TcpFlags, options: &[u8]) -> Vec<u8> {
    let fields = TcpFields { src_port: 1000, dst_port: 80, seq: 1, flags, ..TcpFields::default() };
    let mut out = vec![0; 20];
    emit(&mut out, &fields);
    out.extend(options);
    out.resize(20 + options.len().next_multiple_of(4), 0);
    let words = out.len() as u8 / 4;
    out[12] = words << 4 | out[12] & 15;
    out
}

fn options_of(flags: TcpFlags, options: &[u8]) -> Result<TcpOptions, DropReason> {
    let bytes = segment(flags, options);
    parse(&bytes, bytes.len()).map(|(_, options)| options)
}

fn none() -> TcpOptions {
    TcpOptions::default()
}

#[test]
fn h56_short() {
    let bytes = segment(ACK, &[]);
    for len in 0..20 {
        assert_eq!(parse(&bytes[..len], len), Err(DropReason::TcpShort), "{len}");
        // Ethernet padding after a cut segment does not count.
        assert_eq!(parse(&bytes, len), Err(DropReason::TcpShort), "{len} of 20");
        assert_eq!(parse(&bytes[..len], 20), Err(DropReason::MbufSplit), "{len} contiguous");
    }
}

#[test]
fn h57_data_offset() {
    for words in 0..5u8 {
        let mut bytes = segment(ACK, &[]);
        bytes[12] = words << 4;
        assert_eq!(parse(&bytes, 20), Err(DropReason::TcpOffset), "{words} words");
    }
    for words in 6..16u8 {
        let mut bytes = segment(ACK, &[]);
        bytes[12] = words << 4;
        assert_eq!(parse(&bytes, 20), Err(DropReason::TcpOffset), "{words} words of 5");
        let len = usize::from(words) * 4;
        assert_eq!(parse(&bytes, len), Err(DropReason::MbufSplit), "{words} words, split");
        bytes.resize(len, 1);
        assert_eq!(parse(&bytes, len).unwrap().0.header_len, len);
        assert_eq!(
            parse(&bytes, len - 1),
            Err(DropReason::TcpOffset),
            "{words} words but one byte"
        );
    }
}

/// RFC 9293 section 3.1 (MUST-3).
#[test]
fn h58_checksum() {
    use crate::checksum::{finish, pseudo_v4, sum, verify};
    let (a, b) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let mut bytes = segment(ACK, &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    let payload = [1u8, 2, 3, 4, 0x80];
    let len = bytes.len() + payload.len();
    let pseudo = pseudo_v4(a, b, 6, len);
    assert!(!verify(pseudo, [&bytes[..], &payload], len), "field 0");
    let checksum = finish(pseudo, &bytes, sum(&payload, 0));
    set_checksum(&mut bytes, checksum);
    assert_eq!(parse(&bytes, len).unwrap().0.checksum, checksum);
    assert!(verify(pseudo, [&bytes[..], &payload], len));
    let mut odd = payload;
    odd[4] ^= 0x80;
    assert!(!verify(pseudo, [&bytes[..], &odd], len), "last odd byte");
    assert!(!verify(pseudo, [&bytes[..], &payload[..4]], len), "last odd byte missing");
    assert!(verify(pseudo, [&bytes[..], &payload, &[9, 9]], len), "padding does not count");
}

#[test]
fn h59_port_zero() {
    for (at, name) in [(0, "source"), (2, "destination")] {
        let mut bytes = segment(ACK, &[]);
        bytes[at..at + 2].fill(0);
        assert_eq!(parse(&bytes, 20), Err(DropReason::TcpPortZero), "{name}");
    }
}

#[test]
fn h60_flags() {
    use TcpFlags as F;
    let xmas = F::FIN | F::PSH | F::URG;
    let rows = [
        ("none", F::empty(), Err(DropReason::TcpNoAck)),
        ("URG alone", F::URG, Err(DropReason::TcpNoAck)),
        ("PSH alone", F::PSH, Err(DropReason::TcpNoAck)),
        ("FIN without ACK", F::FIN, Err(DropReason::TcpNoAck)),
        ("Xmas scan", xmas, Err(DropReason::TcpNoAck)),
        ("ECN bits alone", F::ECE | F::CWR | F::AE, Err(DropReason::TcpNoAck)),
        ("SYN FIN", F::SYN | F::FIN, Err(DropReason::TcpFlags)),
        ("SYN RST", F::SYN | F::RST, Err(DropReason::TcpFlags)),
        ("SYN FIN ACK", F::SYN | F::FIN | F::ACK, Err(DropReason::TcpFlags)),
        ("all", F::from_bits(0x1ff), Err(DropReason::TcpFlags)),
        ("SYN", F::SYN, Ok(())),
        ("SYN for ECN", F::SYN | F::ECE | F::CWR | F::AE, Ok(())),
        ("SYN ACK", F::SYN | F::ACK, Ok(())),
        ("SYN URG", F::SYN | F::URG, Ok(())),
        ("ACK", F::ACK, Ok(())),
        ("FIN ACK", F::FIN | F::ACK, Ok(())),
        ("RST", F::RST, Ok(())),
        ("RST ACK", F::RST | F::ACK, Ok(())),
        ("RST FIN", F::RST | F::FIN, Ok(())),
    ];
    for (name, flags, expected) in rows {
        assert_eq!(check_flags(flags), expected, "{name}");
    }
}

/// RFC 9293 section 3.2 (MUST-5, MUST-6, MUST-7, MUST-68).
#[test]
fn h61_malformed_options_and_odd_ones() {
    let mut longest = [0xaa; 40];
    longest[..2].copy_from_slice(&[77, 40]);
    let rows: [(&str, &[u8], Option<bool>); 13] = [
        ("length 0", &[2, 0, 0, 0], None),
        ("length 1", &[77, 1, 0, 0], None),
        ("length 0 of an unknown kind", &[77, 0, 0, 0], None),
        ("past the end", &[77, 5, 0, 0], None),
        ("far past the end", &[77, 255, 0, 0], None),
        ("length missing", &[1, 1, 1, 77], None),
        ("second one bad", &[77, 2, 77, 3], None),
        ("unknown", &[77, 4, 0, 0], Some(true)),
        ("unknown of 40 bytes", &longest, Some(true)),
        ("only NOPs", &[1; 40], Some(false)),
        ("end, then garbage", &[0, 2, 0, 255], Some(false)),
        ("NOPs, end, then garbage", &[1, 0, 77, 0], Some(false)),
        ("length 2 of an unknown kind", &[77, 2, 1, 1], Some(true)),
    ];
    for (name, options, unknown) in rows {
        let expected = match unknown {
            Some(unknown) => Ok(TcpOptions { unknown, ..none() }),
            None => Err(DropReason::TcpOption),
        };
        assert_eq!(options_of(ACK, options), expected, "{name}");
        assert_eq!(options_of(SYN, options), expected, "{name} in a SYN");
    }
}

#[test]
fn h62_first_of_two_counts() {
    let twice = [2, 4, 5, 0xb4, 2, 4, 0, 1, 1, 3, 3, 7, 1, 3, 3, 1];
    let options = options_of(SYN, &twice).unwrap();
    assert_eq!((options.mss, options.window_scale), (Some(1460), Some(7)));
    let stamps = [8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 8, 10, 0, 0, 0, 3, 0, 0, 0, 4];
    assert_eq!(options_of(ACK, &stamps).unwrap().timestamps, Some((1, 2)));
    let blocks = [5, 10, 0, 0, 0, 1, 0, 0, 0, 2, 5, 10, 0, 0, 0, 3, 0, 0, 0, 4];
    assert_eq!(options_of(ACK, &blocks).unwrap().sack.as_slice(), [(1, 2)]);
    let bad_second = [2, 4, 5, 0xb4, 2, 3, 0, 0];
    assert_eq!(options_of(SYN, &bad_second), Err(DropReason::TcpOption));
}

#[test]
fn h63_mss() {
    for mss in [0u16, 1, 47, 48, 536, 65535] {
        let [high, low] = mss.to_be_bytes();
        assert_eq!(options_of(SYN, &[2, 4, high, low]).unwrap().mss, Some(mss), "{mss}");
    }
    for len in [2u8, 3, 5, 6] {
        assert_eq!(options_of(SYN, &[2, len, 5, 0xb4, 0, 0, 0, 0]), Err(DropReason::TcpOption));
    }
}

#[test]
fn h64_window_scale() {
    for scale in [0u8, 14, 15, 255] {
        let options = [1, 3, 3, scale];
        assert_eq!(options_of(SYN, &options).unwrap().window_scale, Some(scale), "{scale}");
        assert_eq!(options_of(ACK, &options), Ok(none()), "{scale} outside of a SYN");
    }
    assert_eq!(options_of(SYN, &[3, 2, 1, 1]), Err(DropReason::TcpOption));
    assert_eq!(options_of(SYN, &[3, 4, 1, 1]), Err(DropReason::TcpOption));
}

#[test]
fn h65_options_out_of_place_or_of_wrong_length() {
    assert_eq!(options_of(ACK, &[4, 2, 1, 1]), Ok(none()), "SACK permitted");
    assert_eq!(options_of(ACK, &[2, 4, 5, 0xb4]), Ok(none()), "MSS");
    let block = [1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    assert_eq!(options_of(SYN, &block), Ok(none()), "SACK in a SYN");
    let rows: [(&str, u8, u8); 10] = [
        ("SACK permitted", 4, 3),
        ("timestamps", 8, 2),
        ("timestamps", 8, 9),
        ("timestamps", 8, 11),
        ("SACK of no block", 5, 2),
        ("SACK", 5, 9),
        ("SACK", 5, 11),
        ("SACK", 5, 17),
        ("SACK of five blocks cannot fit", 5, 42),
        ("MD5", 19, 17),
    ];
    for (name, kind, len) in rows {
        let mut options = [1; 40];
        options[..2].copy_from_slice(&[kind, len]);
        for flags in [ACK, SYN] {
            assert_eq!(options_of(flags, &options), Err(DropReason::TcpOption), "{name} {len}");
        }
    }
}

#[test]
fn h67_urgent_pointer_is_just_a_number() {
    for (flags, urgent) in [(ACK, 0xffff), (ACK | TcpFlags::URG, 0), (SYN | TcpFlags::URG, 1)] {
        let mut bytes = segment(flags, &[]);
        bytes[18..20].copy_from_slice(&u16::to_be_bytes(urgent));
        assert_eq!(parse(&bytes, 21).unwrap().0.urgent, urgent);
    }
}

#[test]
fn h68_authentication_is_noticed_and_skipped() {
    let mut md5 = [1; 20];
    md5[..2].copy_from_slice(&[19, 18]);
    let ao = [29, 16, 1, 1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9];
    let expected = Ok(TcpOptions { authentication: true, ..none() });
    assert_eq!(options_of(ACK, &md5), expected);
    assert_eq!(options_of(SYN, &ao), expected);
    assert_eq!(options_of(SYN, &[29, 3, 1, 1]), Err(DropReason::TcpOption));
}

#[test]
fn h69_work_for_the_longest_options_is_bounded() {
    // Forty options of one byte, or twenty of two: each is looked at once.
    assert!(options_of(ACK, &[1; 40]).is_ok());
    assert!(options_of(ACK, &[77, 2].repeat(20)).unwrap().unknown);
}

#[test]
fn common_layout_and_the_slow_way_agree() {
    let fast = [1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8];
    let slow = [8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1];
    let expected = Ok(TcpOptions::with_timestamps(0x0102_0304, 0x0506_0708));
    assert_eq!(options_of(ACK, &fast), expected);
    assert_eq!(options_of(ACK, &slow), expected);
}

#[test]
fn layouts_that_are_sent() {
    let written = |options: TcpOptions| {
        let fields = TcpFields { src_port: 1, dst_port: 2, options, ..TcpFields::default() };
        let mut out = vec![0xee; 60];
        let len = emit(&mut out, &fields);
        assert_eq!(len, fields.header_len());
        assert!(out[len..].iter().all(|&b| b == 0xee), "wrote beyond");
        out[20..len].to_vec()
    };
    let timestamps = Some((0x0102_0304, 0x0506_0708));
    let syn = TcpOptions {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps,
        ..none()
    };
    let expected = [2, 4, 5, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 3, 3, 7];
    assert_eq!(written(syn.clone()), expected);
    assert_eq!(
        written(TcpOptions { timestamps: None, ..syn }),
        [2, 4, 5, 0xb4, 1, 1, 4, 2, 1, 3, 3, 7]
    );
    assert_eq!(written(TcpOptions { user_timeout: Some(0x8005), ..none() }), [28, 4, 0x80, 5]);
    assert_eq!(written(none()), []);
    let sack = [(1, 2), (3, 4), (5, 6), (7, 8)].into_iter().collect();
    let four = TcpOptions { sack, ..none() };
    assert_eq!(written(four.clone()).len(), 36);
    assert_eq!(written(TcpOptions { timestamps, ..four }).len(), 40, "three fit");
}

fn any_options() -> impl Strategy<Value = (bool, TcpOptions)> {
    let sack = proptest::collection::vec(any::<(u32, u32)>(), 0..=4);
    (any::<bool>(), any::<(Option<u16>, Option<u8>, bool, Option<(u32, u32)>, Option<u16>)>(), sack)
        .prop_map(|(syn, (mss, window_scale, sack_permitted, timestamps, user_timeout), sack)| {
            let options = if syn {
                TcpOptions { mss, window_scale, sack_permitted, timestamps, user_timeout, ..none() }
            } else {
                let room = if timestamps.is_some() { 3 } else { 4 };
                TcpOptions { timestamps, sack: sack.into_iter().take(room).collect(), ..none() }
            };
            (syn, options)
        })
}

proptest! {
    #[test]
    fn what_is_emitted_parses(
        (syn, options) in any_options(), src_port in 1u16.., dst_port in 1u16..,
        seq: u32, ack: u32, bits: u16, window: u16, urgent: u16, checksum: u16, payload in 0usize..2000,
    ) {
        let flags = TcpFlags::from_bits(bits).without(SYN);
        let flags = if syn { flags | SYN } else { flags };
        let fields =
            TcpFields { src_port, dst_port, seq, ack, flags, window, urgent, options: options.clone() };
        let mut out = [0xff; 60];
        let header_len = emit(&mut out, &fields);
        prop_assert_eq!(header_len, fields.header_len());
        prop_assert_eq!(&out[16..18], &[0, 0]);
        set_checksum(&mut out, checksum);
        let header = TcpHeader {
            src_port, dst_port, seq, ack, flags, window, urgent, header_len, checksum,
        };
        let l4_len = header_len + payload;
        prop_assert_eq!(parse(&out[..header_len], l4_len), Ok((header, options)));
    }

    #[test]
    fn any_bytes_parse_or_not(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..80), more in 0usize..70000, fix: bool,
    ) {
        if fix && bytes.len() > 20 {
            bytes[12] = (bytes.len().min(60) / 4 * 4) as u8 * 4;
        }
        let l4_len = bytes.len() + more;
        if let Ok((header, _)) = parse(&bytes, l4_len) {
            prop_assert!(20 <= header.header_len && header.header_len <= bytes.len());
        }
    }

    /// Options out of the pieces that matter, which uniform bytes hardly ever make.
    #[test]
    fn any_options_parse_or_not(
        pieces in proptest::collection::vec((0u8..32, 0u8..14), 0..12), syn: bool,
    ) {
        let mut options = Vec::new();
        for (kind, len) in pieces {
            options.extend([kind, len]);
            options.extend((2..len).map(|i| i.wrapping_mul(kind)));
        }
        options.truncate(40);
        let flags = if syn { SYN } else { ACK };
        if let Ok(parsed) = options_of(flags, &options) {
            prop_assert!(syn || parsed.mss.is_none() && !parsed.sack_permitted);
        }
    }
}
