use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// One port.
fn setup(
    addresses: &[LocalAddress],
    gateway4: Option<Ipv4Addr>,
    gateway6: Option<Ipv6Addr>,
) -> PortSetup {
    let rx_checksum = crate::ChecksumPolicy::Verify;
    PortSetup { addresses: addresses.to_vec(), gateway4, gateway6, mtu: 9000, rx_checksum }
}

fn routes() -> Routes {
    let local = |addr: &str, prefix| LocalAddress { addr: ip(addr), prefix };
    let port = setup(
        &[
            local("10.0.0.1", 24),
            local("192.168.1.1", 30),
            local("203.0.113.4", 31),
            local("fe80::1", 64),
            local("fd00::1", 64),
            local("2001:db8::1", 64),
        ],
        Some(Ipv4Addr::new(10, 0, 0, 254)),
        Some("fe80::ff".parse().unwrap()),
    );
    Routes::new([(&port, 1500)])
}

const ONE: PortId = PortId::FIRST;

#[test]
fn next_hop_and_source() {
    let rows = [
        ("on link", "10.0.0.77", Some(("10.0.0.77", "10.0.0.1"))),
        ("second prefix", "192.168.1.2", Some(("192.168.1.2", "192.168.1.1"))),
        ("point to point", "203.0.113.5", Some(("203.0.113.5", "203.0.113.4"))),
        ("by gateway", "8.8.8.8", Some(("10.0.0.254", "10.0.0.1"))),
        ("link local", "fe80::2", Some(("fe80::2", "fe80::1"))),
        ("on link, v6", "fd00::2", Some(("fd00::2", "fd00::1"))),
        ("by gateway, v6", "2001:db8:1::2", Some(("fe80::ff", "2001:db8::1"))),
        ("ourselves", "10.0.0.1", None),
        ("broadcast", "10.0.0.255", None),
        ("all hosts", "224.0.0.1", None),
        ("nobody", "0.0.0.0", None),
    ];
    let routes = routes();
    for (name, destination, expected) in rows {
        let found = routes.lookup(Instant::ZERO, ip(destination), None).ok();
        let expected = expected.map(|(hop, source)| Route {
            port: ONE,
            next_hop: ip(hop),
            source: ip(source),
            mtu: 1500,
        });
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn without_gateway_or_address_there_is_no_route() {
    let local = LocalAddress { addr: ip("10.0.0.1"), prefix: 24 };
    let routes = Routes::new([(&setup(&[local], None, None), 1500)]);
    assert!(routes.lookup(Instant::ZERO, ip("10.0.0.2"), None).is_ok());
    assert_eq!(routes.lookup(Instant::ZERO, ip("10.0.1.2"), None), Err(NoRoute));
    assert_eq!(routes.lookup(Instant::ZERO, ip("fd00::2"), None), Err(NoRoute));
}

#[test]
fn source_of_the_right_scope_and_prefix_before_the_longest_match() {
    let local = |addr: &str, prefix| LocalAddress { addr: ip(addr), prefix };
    let addresses = [
        local("fe80::1", 64),
        local("fd00::1", 64),
        local("10.0.0.193", 29),
        local("10.0.0.1", 24),
        local("10.0.0.2", 24),
    ];
    let routes = Routes::new([(&setup(&addresses, None, None), 1500)]);
    let rows = [
        ("a global one for a global one", "2001:db8::1", "fd00::1"),
        ("a local one for a local one", "fe80::2", "fe80::1"),
        ("in the prefix, though 193 agrees in more bits", "10.0.0.200", "10.0.0.1"),
        ("in both prefixes", "10.0.0.194", "10.0.0.193"),
    ];
    for (name, destination, source) in rows {
        assert_eq!(routes.source_for(ONE, ip(destination)), Some(ip(source)), "{name}");
    }
}

#[test]
fn classes() {
    let rows = [
        ("10.0.0.1", AddressClass::Local),
        ("fd00::1", AddressClass::Local),
        ("10.0.0.2", AddressClass::Unicast),
        ("10.0.0.255", AddressClass::Broadcast),
        ("192.168.1.3", AddressClass::Broadcast),
        ("203.0.113.5", AddressClass::Unicast),
        ("255.255.255.255", AddressClass::Broadcast),
        ("224.0.0.1", AddressClass::Multicast),
        ("ff02::1", AddressClass::Multicast),
        ("127.1.2.3", AddressClass::Loopback),
        ("::1", AddressClass::Loopback),
        ("0.0.0.0", AddressClass::Unspecified),
        ("0.1.2.3", AddressClass::Unspecified),
        ("::", AddressClass::Unspecified),
    ];
    for (addr, class) in rows {
        assert_eq!(routes().classify(ip(addr)), class, "{addr}");
    }
}

#[test]
fn prefix_lengths_at_their_ends() {
    let mut local = LocalAddress { addr: ip("10.0.0.1"), prefix: 0 };
    assert!(local.contains(ip("200.0.0.1")));
    assert!(is_directed_broadcast(&local, ip("255.255.255.255")));
    local.prefix = 32;
    assert!(!local.contains(ip("10.0.0.0")));
    assert!(!is_directed_broadcast(&local, ip("10.0.0.1")));
    assert!(!local.contains(ip("fd00::1")));
}

#[test]
fn h40_packet_too_big() {
    let rows = [
        ("v4 below the floor", "8.8.8.8", 68, 1500, Some(552)),
        ("v4 nothing said", "8.8.8.8", 0, 1500, Some(1492)),
        ("v4 nothing said, small packet", "8.8.8.8", 0, 600, Some(552)),
        ("v4 nothing said, wild length", "8.8.8.8", 0, 65_535, Some(1492)),
        ("v4 1", "8.8.8.8", 1, 1500, Some(552)),
        ("v4 as it is", "8.8.8.8", 1500, 1500, None),
        ("v4 more", "8.8.8.8", 9000, 1500, None),
        ("v4 beyond 16 bits", "8.8.8.8", 1 << 20, 1500, None),
        ("v4 less", "8.8.8.8", 1400, 1500, Some(1400)),
        ("v6 below the least", "2001:db8:1::1", 1279, 1500, None),
        ("v6 nothing said", "2001:db8:1::1", 0, 1500, None),
        ("v6 least", "2001:db8:1::1", 1280, 1500, Some(1280)),
        ("v6 as it is", "2001:db8:1::1", 1500, 1500, None),
    ];
    for (name, destination, mtu, sent, expected) in rows {
        let mut routes = routes();
        let now = Instant::from_millis(5);
        let destination = ip(destination);
        assert_eq!(routes.on_packet_too_big(now, ONE, destination, mtu, sent), expected, "{name}");
        let after = routes.lookup(now, destination, None).unwrap().mtu;
        assert_eq!(after, expected.unwrap_or(1500), "{name}");
    }
}

#[test]
fn h41_a_path_mtu_falls_once_and_is_forgotten_in_time() {
    let mut routes = routes();
    let (now, far) = (Instant::from_millis(5), ip("8.8.8.8"));
    assert_eq!(routes.on_packet_too_big(now, ONE, far, 1400, 1500), Some(1400));
    for _ in 0..1000 {
        assert_eq!(routes.on_packet_too_big(now, ONE, far, 1400, 1500), None);
    }
    let end = now + PMTU_EXPIRES;
    assert_eq!(routes.path_mtu(end - Duration::from_nanos(1), ONE, far), 1400);
    assert_eq!(routes.path_mtu(end, ONE, far), 1500);
    routes.age(end);
    assert_eq!(routes.paths(), 0);
}

#[test]
fn path_mtus_are_bounded_and_the_oldest_gives_way() {
    let mut routes = routes();
    for i in 0..PMTU_ENTRIES_MAX as u32 + 10 {
        let destination = IpAddr::V4(Ipv4Addr::from_bits(0x0800_0000 + i));
        let now = Instant::from_millis(u64::from(i));
        assert_eq!(routes.on_packet_too_big(now, ONE, destination, 1400, 1500), Some(1400));
    }
    assert_eq!(routes.paths(), PMTU_ENTRIES_MAX);
    let now = Instant::from_millis(2000);
    assert_eq!(routes.path_mtu(now, ONE, IpAddr::V4(Ipv4Addr::from_bits(0x0800_0009))), 1500);
    assert_eq!(routes.path_mtu(now, ONE, IpAddr::V4(Ipv4Addr::from_bits(0x0800_000a))), 1400);
}
