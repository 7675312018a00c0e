use std::collections::HashSet;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

/// Microsoft's "Verifying the RSS hash calculation": destination, source, hash of the addresses,
/// hash with TCP ports.
const VECTORS: [(&str, &str, u32, u32); 8] = [
    ("161.142.100.80:1766", "66.9.149.187:2794", 0x323e_8fc2, 0x51cc_c178),
    ("65.69.140.83:4739", "199.92.111.2:14230", 0xd718_262a, 0xc626_b0ea),
    ("12.22.207.184:38024", "24.19.198.95:12898", 0xd2d0_a5de, 0x5c2b_394a),
    ("209.142.163.6:2217", "38.27.205.30:48228", 0x8298_9176, 0xafc7_327f),
    ("202.188.127.2:1303", "153.39.163.191:44251", 0x5d18_09c5, 0x10e8_28a2),
    ("[3ffe:2501:200:3::1]:1766", "[3ffe:2501:200:1fff::7]:2794", 0x2cc1_8cd5, 0x4020_7d3d),
    ("[ff02::1]:4739", "[3ffe:501:8::260:97ff:fe40:efab]:14230", 0x0f0c_461c, 0xdde5_1bbf),
    (
        "[fe80::200:f8ff:fe21:67cf]:38024",
        "[3ffe:1900:4545:3:200:f8ff:fe21:67cf]:44251",
        0x4b61_e985,
        0x02d1_feef,
    ),
];

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}

#[test]
fn toeplitz_matches_the_published_vectors() {
    for (dst, src, addresses, with_ports) in VECTORS {
        let (dst, src): (SocketAddr, SocketAddr) = (dst.parse().unwrap(), src.parse().unwrap());
        let input = [octets(src.ip()), octets(dst.ip())].concat();
        assert_eq!(toeplitz(&MICROSOFT_KEY, &input), addresses, "{src} to {dst}");
        let key = FlowKey::new(dst, src).unwrap();
        assert_eq!(key.toeplitz(&MICROSOFT_KEY), with_ports, "{src} to {dst} with ports");
    }
}

#[test]
fn a_key_that_ends_early_counts_as_zeros() {
    assert_eq!(toeplitz(&[], &[0xff; 36]), 0);
    assert_eq!(toeplitz(&[0x80, 0, 0, 0], &[0xff]), 0x8000_0000);
    assert_eq!(toeplitz(&[0, 0, 0, 1], &[0xff]), 0xff, "bits move in from beyond the window");
}

#[test]
fn labels_are_twenty_bits_and_never_zero() {
    assert_eq!(flow_label(0xabc1_2345), 0x1_2345);
    assert_eq!(flow_label(0xabc0_0000), 0xabc00);
    assert_eq!(flow_label(0), 1);
    for hash in (0..=u32::MAX).step_by(65_537) {
        let label = flow_label(hash);
        assert!(label != 0 && label <= 0xf_ffff, "{hash:#x}");
    }
}

#[test]
fn families_do_not_mix() {
    let v4: SocketAddr = "10.0.0.1:1".parse().unwrap();
    let v6: SocketAddr = "[fd00::1]:1".parse().unwrap();
    assert_eq!(FlowKey::new(v4, v6), None);
    let key = FlowKey::new(v6, v6).unwrap();
    assert_eq!((key.local_addr(), key.remote_addr(), key.is_ipv6()), (v6, v6, true));
}

/// Neighbouring tuples, as a busy client or an attacker makes them.
fn neighbours(hash: impl Fn(u16, u16) -> u64) -> Vec<u64> {
    (0..256u16).flat_map(|a| (0..256u16).map(move |b| (a, b))).map(|(a, b)| hash(a, b)).collect()
}

/// The fullest of 4096 buckets with 65536 values stays near the 16 expected; a uniform hash stays
/// below 45 in far more than a million tries.
fn check_spread(name: &str, hashes: &[u64]) {
    for shift in [52, 26, 0] {
        let mut buckets = [0u32; 4096];
        for hash in hashes {
            buckets[(hash >> shift) as usize & 4095] += 1;
        }
        let fullest = buckets.iter().max().unwrap();
        assert!(*fullest < 45, "{name}, bits from {shift}: {fullest} in one bucket");
    }
    assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), hashes.len(), "{name}");
}

#[test]
fn h141_fast_hash_spreads_neighbouring_tuples() {
    for secrets in [(0, 0), (1, 2), (u64::MAX, u64::MAX), (0x1234_5678_9abc_def0, 77)] {
        let hasher = FlowHasher::new(secrets.0, secrets.1);
        let v4 = |local: u32, remote: u32, local_port, remote_port| {
            let (local, remote) = (Ipv4Addr::from_bits(local), Ipv4Addr::from_bits(remote));
            hasher.hash(&FlowKey::V4 { local, remote, local_port, remote_port })
        };
        let ports = neighbours(|a, b| v4(0x0a00_0001, 0x0a00_0002, a, 1024 + b));
        check_spread("v4 ports", &ports);
        let addresses = neighbours(|a, b| {
            v4(0x0a00_0001, 0x0a00_0000 | u32::from(a) << 8 | u32::from(b), 80, 5000)
        });
        check_spread("v4 addresses", &addresses);
        let v6 = neighbours(|a, b| {
            let local = Ipv6Addr::LOCALHOST;
            let remote = Ipv6Addr::new(0x2001, 0xdb8, a, 0, 0, 0, 0, b);
            hasher.hash(&FlowKey::V6 { local, remote, local_port: 80, remote_port: 5000 })
        });
        check_spread("v6 addresses", &v6);
        check_spread("rss", &neighbours(|a, b| hasher.hash_rss(u32::from(a) << 24 | u32::from(b))));
    }
}

#[test]
fn fast_hash_depends_on_each_secret_and_each_part() {
    let key = FlowKey::new("10.0.0.1:80".parse().unwrap(), "10.0.0.2:99".parse().unwrap()).unwrap();
    let hash = FlowHasher::new(1, 2).hash(&key);
    assert_ne!(hash, FlowHasher::new(1, 3).hash(&key));
    assert_ne!(hash, FlowHasher::new(2, 2).hash(&key));
    assert_ne!(hash, FlowHasher::new(1, 2).hash(&key.reversed()));
}

fn v4_key() -> impl Strategy<Value = FlowKey> {
    any::<(u32, u32, u16, u16)>().prop_map(|(local, remote, local_port, remote_port)| FlowKey::V4 {
        local: Ipv4Addr::from_bits(local),
        remote: Ipv4Addr::from_bits(remote),
        local_port,
        remote_port,
    })
}

fn v6_key() -> impl Strategy<Value = FlowKey> {
    any::<(u128, u128, u16, u16)>().prop_map(|(local, remote, local_port, remote_port)| {
        FlowKey::V6 {
            local: Ipv6Addr::from_bits(local),
            remote: Ipv6Addr::from_bits(remote),
            local_port,
            remote_port,
        }
    })
}

proptest! {
    #[test]
    fn symmetric_keys_hash_both_directions_alike(
        key in prop_oneof![v4_key(), v6_key()], pattern: u16,
    ) {
        let rss = symmetric_key(pattern);
        prop_assert_eq!(key.toeplitz(&rss), key.reversed().toeplitz(&rss));
        prop_assert_eq!(key.reversed().reversed(), key);
    }

    #[test]
    fn toeplitz_equals_the_definition(
        key in proptest::collection::vec(any::<u8>(), 40),
        input in proptest::collection::vec(any::<u8>(), 0..36),
    ) {
        let bit = |bytes: &[u8], i: usize| u32::from(bytes[i / 8] >> (7 - i % 8) & 1);
        let mut expected = 0u32;
        for i in (0..input.len() * 8).filter(|&i| bit(&input, i) == 1) {
            expected ^= (0..32).fold(0, |word, j| word << 1 | bit(&key, i + j));
        }
        prop_assert_eq!(toeplitz(&key, &input), expected);
    }

    #[test]
    fn one_bit_changes_about_half_of_the_fast_hash(
        key in prop_oneof![v4_key(), v6_key()], secrets: (u64, u64),
    ) {
        let hasher = FlowHasher::new(secrets.0, secrets.1);
        let before = hasher.hash(&key);
        let flipped = match key {
            FlowKey::V4 { local, remote, local_port, remote_port } =>
                FlowKey::V4 { local, remote, local_port: local_port ^ 1, remote_port },
            FlowKey::V6 { local, remote, local_port, remote_port } =>
                FlowKey::V6 { local, remote, local_port: local_port ^ 1, remote_port },
        };
        // 64 fair coins stay within 8..=56 but once in 10^9 cases.
        let changed = (before ^ hasher.hash(&flipped)).count_ones();
        prop_assert!((8..=56).contains(&changed), "{changed} bits");
    }
}
