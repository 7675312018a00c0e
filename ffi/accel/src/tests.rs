use proptest::prelude::*;

use super::*;

/// RFC 1071 section 4.1, word by word.
fn slow(data: &[u8], initial: u32) -> u32 {
    let mut sum = u64::from(initial);
    for pair in data.chunks(2) {
        let low = pair.get(1).copied().unwrap_or(0);
        sum += u64::from(u16::from_be_bytes([pair[0], low]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u32
}

/// Every variant on `data` against the slow twin, copies included.
fn check_all(data: &[u8], initial: u32) {
    let expected = slow(data, initial);
    assert_eq!(checksum(data, initial), expected, "dispatched");
    assert_eq!(portable::checksum(data, initial), expected, "portable");
    let expected_copy = slow(data, 0);
    let mut copy = vec![0xa5; data.len()];
    assert_eq!(copy_and_checksum(&mut copy, data), expected_copy, "dispatched copy");
    assert_eq!(copy, data);
    copy.fill(0xa5);
    assert_eq!(portable::copy_and_checksum(&mut copy, data), expected_copy, "portable copy");
    assert_eq!(copy, data);
    #[cfg(target_arch = "x86_64")]
    for level in x86::levels() {
        assert_eq!(x86::checksum(level, data, initial), expected, "{level:?}");
        copy.fill(0xa5);
        assert_eq!(x86::copy_and_checksum(level, &mut copy, data), expected_copy, "{level:?}");
        assert_eq!(copy, data, "{level:?}");
    }
}

#[test]
fn rfc_1071_example() {
    let data = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    assert_eq!(checksum(&data, 0), 0xddf2);
    check_all(&data, 0);
}

#[test]
fn all_lengths_around_the_block_sizes_with_extreme_values() {
    for value in [0x00, 0x01, 0x80, 0xff] {
        let data = vec![value; 400];
        for len in 0..data.len() {
            for initial in [0, 1, 0xffff, u32::MAX] {
                check_all(&data[..len], initial);
            }
        }
    }
}

#[test]
fn long_runs_of_ones_do_not_overflow() {
    check_all(&vec![0xff; 1 << 20], u32::MAX);
}

#[test]
#[should_panic(expected = "equal lengths")]
fn copies_of_unequal_length_are_refused() {
    copy_and_checksum(&mut [0; 3], &[0; 4]);
}

#[test]
fn copy_writes_nothing_outside_of_its_destination() {
    let src = vec![7u8; 300];
    for len in 0..src.len() {
        let mut room = vec![0u8; 302];
        copy_and_checksum(&mut room[1..=len], &src[..len]);
        assert_eq!(room[0], 0);
        assert!(room[len + 1..].iter().all(|&b| b == 0), "length {len}");
    }
}

#[test]
fn prefetch_takes_anything() {
    prefetch(&17u64);
    prefetch("");
    prefetch_slice(&[], 4);
    prefetch_slice(&[0; 100], 4);
}

proptest! {
    #[test]
    fn variants_agree(
        data in proptest::collection::vec(any::<u8>(), 0..3000),
        skip in 0usize..70,
        initial: u32,
    ) {
        check_all(data.get(skip..).unwrap_or(&[]), initial);
    }

    #[test]
    fn parts_combine_to_the_whole(
        data in proptest::collection::vec(any::<u8>(), 0..300),
        cut in 0usize..300,
    ) {
        let (a, b) = data.split_at(cut.min(data.len()));
        prop_assert_eq!(combine(checksum(a, 0), a.len(), checksum(b, 0)), checksum(&data, 0));
    }

    #[test]
    fn totals_of_partial_sums_fold(
        parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..20),
    ) {
        let even: Vec<Vec<u8>> = parts.into_iter().map(|mut p| { p.truncate(p.len() & !1); p }).collect();
        let total: u32 = even.iter().map(|p| checksum(p, 0)).sum();
        prop_assert_eq!(u32::from(fold(total)), checksum(&even.concat(), 0));
    }
}
