use std::vec::Vec;

use proptest::prelude::*;

use super::*;

#[test]
fn rfc_1624_example_gives_zero_and_not_its_other_form() {
    assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
}

#[test]
fn pseudo_headers_are_the_sums_of_their_bytes() {
    let (a, b) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(203, 0, 113, 255));
    let bytes = [192, 0, 2, 1, 203, 0, 113, 255, 0, 6, 0x12, 0x34];
    assert_eq!(fold(pseudo_v4(a, b, 6, 0x1234)), fold(sum(&bytes, 0)));
    let (a, b) = (Ipv6Addr::from([0xfe; 16]), Ipv6Addr::from([0x9a; 16]));
    let mut bytes = [[0xfe; 16], [0x9a; 16]].concat();
    bytes.extend([0, 1, 0x23, 0x45, 0, 0, 0, 17]);
    assert_eq!(fold(pseudo_v6(a, b, 17, 0x1_2345)), fold(sum(&bytes, 0)));
    assert_eq!(pseudo(a.into(), b.into(), 17, 5), Some(pseudo_v6(a, b, 17, 5)));
    assert_eq!(pseudo(a.into(), Ipv4Addr::LOCALHOST.into(), 17, 5), None);
}

#[test]
fn udp_never_sends_zero() {
    assert_eq!(finish(0, &[0xff, 0xff], 0), 0);
    assert_eq!(finish_udp(0, &[0xff, 0xff], 0), 0xffff);
}

#[test]
fn verify_stops_at_the_length_and_needs_all_of_it() {
    let whole: [&[u8]; 3] = [&[0x12], &[], &[0x34, 0xed, 0xcb, 0x99]];
    assert!(verify(0, whole, 4));
    assert!(!verify(0, whole, 3));
    assert!(!verify(0, whole, 5));
    let right: [&[u8]; 2] = [&[0x12, 0x34], &[0xed, 0xcb]];
    assert!(verify(0, right, 4));
    assert!(!verify(0, right, 6), "shorter than it claims");
    assert!(!verify(0, [[0u8; 4].as_slice()], 4), "all zero has no valid checksum");
}

/// Cut `data` into pieces of the given lengths, the last takes the rest.
fn pieces<'a>(mut data: &'a [u8], lens: &[usize]) -> Vec<&'a [u8]> {
    let mut out = Vec::new();
    for &len in lens {
        let (a, b) = data.split_at(len.min(data.len()));
        out.push(a);
        data = b;
    }
    out.push(data);
    out
}

proptest! {
    #[test]
    fn chains_sum_like_flat_bytes(
        data in proptest::collection::vec(any::<u8>(), 0..400),
        lens in proptest::collection::vec(0usize..60, 0..12),
        initial: u32,
    ) {
        let mut total = Accumulator::new(initial);
        for piece in pieces(&data, &lens) {
            total.add(piece);
        }
        prop_assert_eq!(total.sum(), sum(&data, initial));
        prop_assert_eq!(total.checksum(), !fold(sum(&data, initial)));
    }

    #[test]
    fn a_checksum_that_was_put_in_verifies_and_a_flipped_bit_does_not(
        mut data in proptest::collection::vec(any::<u8>(), 4..200),
        lens in proptest::collection::vec(0usize..60, 0..6),
        padding in proptest::collection::vec(any::<u8>(), 0..20),
        pseudo in 0u32..0x10_0000,
        bit: proptest::sample::Index,
    ) {
        data[2..4].fill(0);
        data[0] |= 1;
        let checksum = finish(pseudo, &data, 0);
        data[2..4].copy_from_slice(&checksum.to_be_bytes());
        let len = data.len();
        data.extend(&padding);
        prop_assert!(verify(pseudo, pieces(&data, &lens), len));
        let bit = bit.index(len * 8);
        data[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(!verify(pseudo, pieces(&data, &lens), len));
    }

    #[test]
    fn finishing_from_a_payload_sum_equals_the_whole(
        header in proptest::collection::vec(any::<u8>(), 0..61),
        payload in proptest::collection::vec(any::<u8>(), 0..200),
        pseudo in 0u32..0x10_0000,
    ) {
        let whole = [header.as_slice(), &payload].concat();
        prop_assert_eq!(finish(pseudo, &header, sum(&payload, 0)), !fold(sum(&whole, pseudo)));
    }

    #[test]
    fn incremental_update_equals_recomputation(
        words in proptest::collection::vec(any::<u16>(), 2..20),
        index: proptest::sample::Index,
        new: u32,
    ) {
        // One word stays non-zero: all-zero data is the one case with two representations.
        let mut words = words;
        words.push(1);
        let bytes = |words: &[u16]| -> Vec<u8> { words.iter().flat_map(|w| w.to_be_bytes()).collect() };
        let before = of(&bytes(&words));
        let i = index.index(words.len() - 2);
        let old = u32::from(words[i]) << 16 | u32::from(words[i + 1]);
        words[i] = (new >> 16) as u16;
        let high = update(before, (old >> 16) as u16, words[i]);
        prop_assert_eq!(high, of(&bytes(&words)));
        words[i + 1] = new as u16;
        prop_assert_eq!(update32(before, old, new), of(&bytes(&words)));
        let sums = (sum(&old.to_be_bytes(), 0), sum(&new.to_be_bytes(), 0));
        prop_assert_eq!(update_sum(before, sums.0, sums.1), of(&bytes(&words)));
    }
}
