//! Addresses of ours and gateways: what may be one.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stack::LocalAddress;

use crate::text::quote;

/// Whether some address is in both prefixes.
pub fn overlap(a: &LocalAddress, b: &LocalAddress) -> bool {
    if a.prefix <= b.prefix { contains(a, b.addr) } else { contains(b, a.addr) }
}

/// Whether `addr` is an IPv6 address that means something on its link only.
pub(crate) fn is_on_one_link(addr: IpAddr) -> bool {
    matches!(addr, IpAddr::V6(a) if is_link_local(a))
}

/// An address with the length of its prefix, `10.0.0.2/24` or `fd00::2/64`. For IPv4 a netmask will
/// do as well.
pub fn local_address(text: &str) -> Result<LocalAddress, String> {
    let shown = quote(text);
    let Some((addr, length)) = text.split_once('/') else {
        return Err(match text.parse::<IpAddr>() {
            Ok(IpAddr::V4(_)) => format!("{shown} has no prefix length; write it as {text}/24"),
            Ok(IpAddr::V6(_)) => format!("{shown} has no prefix length; write it as {text}/64"),
            Err(_) => format!("{shown} is not an address such as 10.0.0.2/24 or fd00::2/64"),
        });
    };
    let Ok(addr) = addr.parse::<IpAddr>() else {
        return Err(match addr.split_once('%') {
            Some(_) => format!("{shown}: a port needs no zone behind the address"),
            None => format!("{shown}: {} is not an IPv4 or IPv6 address", quote(addr)),
        });
    };
    let prefix = prefix_length(addr, length).map_err(|why| format!("{shown}: {why}"))?;
    is_host(addr).map_err(|why| format!("{shown}: {why}"))?;
    let local = LocalAddress { addr, prefix };
    match role(local, addr) {
        Role::Host => Ok(local),
        Role::Network if addr.is_ipv4() => {
            Err(format!("{shown} is the address of the network itself, not of a host in it"))
        }
        Role::Network => {
            Err(format!("{shown} is the anycast address of all routers, not of a host"))
        }
        Role::Broadcast => Err(format!("{shown} is the broadcast address of the network")),
    }
}

fn prefix_length(addr: IpAddr, text: &str) -> Result<u8, String> {
    let max = if addr.is_ipv4() { 32 } else { 128 };
    if addr.is_ipv4()
        && let Ok(mask) = text.parse::<Ipv4Addr>()
    {
        let bits = u32::from(mask);
        if bits.leading_ones() + bits.trailing_zeros().min(32) < 32 {
            return Err(format!("the netmask {mask} has holes"));
        }
        return match bits.leading_ones() {
            0 => Err("the netmask 0.0.0.0 leaves nothing for a gateway".into()),
            n => Ok(n as u8),
        };
    }
    let number =
        text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u32>().ok()).flatten();
    match number {
        Some(n) if (1..=max).contains(&n) => Ok(n as u8),
        Some(_) => Err(format!("the prefix length is not in 1..{max}")),
        None => Err(format!("{} is not a prefix length", quote(text))),
    }
}

/// Whether a host may have `addr`, whatever the network.
fn is_host(addr: IpAddr) -> Result<(), &'static str> {
    match addr {
        IpAddr::V4(a) => match a.octets() {
            [0, 0, 0, 0] => Err("the unspecified address is no host's"),
            [0, ..] => Err("addresses in 0.0.0.0/8 are no host's"),
            [127, ..] => Err("a loopback address never leaves a host"),
            [224..=239, ..] => Err("a multicast address is no host's"),
            [255, 255, 255, 255] => Err("the broadcast address is no host's"),
            [240..=255, ..] => Err("addresses in 240.0.0.0/4 are reserved"),
            _ => Ok(()),
        },
        IpAddr::V6(a) if a.is_unspecified() => Err("the unspecified address is no host's"),
        IpAddr::V6(a) if a.is_loopback() => Err("a loopback address never leaves a host"),
        IpAddr::V6(a) if a.is_multicast() => Err("a multicast address is no host's"),
        IpAddr::V6(a) if a.to_ipv4_mapped().is_some() => {
            Err("an IPv4-mapped address never appears on a link; write the IPv4 address")
        }
        IpAddr::V6(_) => Ok(()),
    }
}

enum Role {
    Host,
    Network,
    Broadcast,
}

/// What `addr` is within the network of `local`. RFC 3021 and RFC 6164: a network of two addresses
/// has neither a network nor a broadcast address, and a single address is a host.
fn role(local: LocalAddress, addr: IpAddr) -> Role {
    let host_bits = match addr {
        IpAddr::V4(_) => 32 - u32::from(local.prefix.min(32)),
        IpAddr::V6(_) => 128 - u32::from(local.prefix.min(128)),
    };
    if host_bits < 2 {
        return Role::Host;
    }
    let (bits, ones) = match addr {
        IpAddr::V4(a) => (u128::from(u32::from(a)), (1_u128 << host_bits) - 1),
        IpAddr::V6(a) => (u128::from(a), u128::MAX >> (128 - host_bits)),
    };
    match bits & ones {
        0 => Role::Network,
        host if host == ones && addr.is_ipv4() => Role::Broadcast,
        _ => Role::Host,
    }
}

/// Whether `addr` is in the network of `local`.
fn contains(local: &LocalAddress, addr: IpAddr) -> bool {
    match (local.addr, addr) {
        (IpAddr::V4(ours), IpAddr::V4(addr)) => {
            let shift = 32 - u32::from(local.prefix.min(32));
            u64::from(u32::from(ours)) >> shift == u64::from(u32::from(addr)) >> shift
        }
        (IpAddr::V6(ours), IpAddr::V6(addr)) => {
            let differ = u128::from(ours) ^ u128::from(addr);
            differ.leading_zeros() >= u32::from(local.prefix)
        }
        _ => false,
    }
}

/// A gateway: a host that our addresses can reach without one.
pub(crate) fn gateway(text: &str, ours: &[LocalAddress]) -> Result<IpAddr, String> {
    let shown = quote(text);
    let Ok(addr) = text.parse::<IpAddr>() else {
        return Err(match text.contains('/') {
            true => format!("{shown}: a gateway has no prefix length"),
            false => format!("{shown} is not an IPv4 or IPv6 address"),
        });
    };
    is_host(addr).map_err(|why| format!("{shown}: {why}"))?;
    if ours.iter().any(|a| a.addr == addr) {
        return Err(format!("{shown} is our own address"));
    }
    let networks: Vec<&LocalAddress> =
        ours.iter().filter(|a| a.addr.is_ipv4() == addr.is_ipv4()).collect();
    if networks.is_empty() {
        let family = if addr.is_ipv4() { "IPv4" } else { "IPv6" };
        return Err(format!("{shown}: the port has no {family} address"));
    }
    // RFC 4861: routers announce themselves with their link-local address.
    if matches!(addr, IpAddr::V6(a) if is_link_local(a)) {
        return Ok(addr);
    }
    let Some(network) = networks.iter().find(|a| contains(a, addr)) else {
        let list: Vec<String> =
            networks.iter().map(|a| format!("{}/{}", a.addr, a.prefix)).collect();
        return Err(format!("{shown} is outside of {}", list.join(" and ")));
    };
    match role(**network, addr) {
        Role::Host => Ok(addr),
        // The anycast address of all routers may well be a gateway.
        Role::Network if addr.is_ipv6() => Ok(addr),
        Role::Network => Err(format!("{shown} is the address of the network itself")),
        Role::Broadcast => Err(format!("{shown} is the broadcast address of the network")),
    }
}

fn is_link_local(addr: Ipv6Addr) -> bool {
    addr.segments()[0] & 0xffc0 == 0xfe80
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_taken() {
        for (text, prefix) in [
            ("10.0.0.2/24", 24),
            ("10.0.0.2/255.255.255.0", 24),
            ("10.0.0.0/31", 31),
            ("10.0.0.1/31", 31),
            ("10.0.0.255/32", 32),
            ("10.0.0.255/16", 16),
            ("fd00::2/64", 64),
            ("fe80::1/10", 10),
            ("fd00::/127", 127),
            ("fd00::ffff:ffff:ffff:ffff/64", 64),
            ("2001:db8::1/128", 128),
        ] {
            assert_eq!(local_address(text).map(|a| a.prefix), Ok(prefix), "{text}");
        }
    }

    /// H150: mistakes with addresses.
    #[test]
    fn h150_addresses_that_are_not() {
        for (text, what) in [
            ("", "not an address such as"),
            ("300.1.1.1/24", "is not an IPv4 or IPv6 address"),
            ("10.0.0/24", "is not an IPv4 or IPv6 address"),
            ("10.0.0.1", "has no prefix length; write it as 10.0.0.1/24"),
            ("fd00::2", "write it as fd00::2/64"),
            ("10.0.0.1/33", "prefix length is not in 1..32"),
            ("10.0.0.1/0", "prefix length is not in 1..32"),
            ("10.0.0.1/-1", "is not a prefix length"),
            ("10.0.0.1/+1", "is not a prefix length"),
            ("10.0.0.1/", "prefix length"),
            ("10.0.0.1/24/8", "is not a prefix length"),
            ("10.0.0.1/99999999999", "is not a prefix length"),
            ("fd00::2/129", "prefix length is not in 1..128"),
            ("10.0.0.1/255.255.225.0", "the netmask 255.255.225.0 has holes"),
            ("10.0.0.1/0.0.0.0", "leaves nothing"),
            ("10.0.0.1/0.0.0.255", "has holes"),
            ("10.0.0.255/24", "is the broadcast address"),
            ("10.0.0.0/24", "is the address of the network itself"),
            ("fd00::/64", "anycast address of all routers"),
            ("224.0.0.1/24", "multicast"),
            ("ff02::1/64", "multicast"),
            ("127.0.0.1/8", "loopback"),
            ("::1/128", "loopback"),
            ("0.0.0.0/24", "unspecified"),
            ("0.1.2.3/24", "0.0.0.0/8"),
            ("::/64", "unspecified"),
            ("255.255.255.255/32", "broadcast"),
            ("240.0.0.1/24", "reserved"),
            ("::ffff:10.0.0.1/120", "IPv4-mapped"),
            ("fe80::1%eth0/64", "needs no zone"),
        ] {
            let error = local_address(text).expect_err(text);
            assert!(error.contains(what), "{text}: {error}");
        }
    }

    #[test]
    fn h150_gateways() {
        let ours: Vec<LocalAddress> =
            ["10.0.0.2/24", "fd00::2/64"].iter().map(|t| local_address(t).unwrap()).collect();
        assert!(gateway("10.0.0.1", &ours).is_ok());
        assert!(gateway("fd00::1", &ours).is_ok());
        assert!(gateway("fe80::1", &ours).is_ok());
        assert!(gateway("fd00::", &ours).is_ok());
        for (text, what) in [
            ("10.0.1.1", "is outside of 10.0.0.2/24"),
            ("fd01::1", "is outside of fd00::2/64"),
            ("10.0.0.2", "is our own address"),
            ("10.0.0.255", "broadcast"),
            ("10.0.0.0", "network itself"),
            ("10.0.0.1/24", "has no prefix length"),
            ("0.0.0.0", "unspecified"),
            ("gw", "is not an IPv4 or IPv6 address"),
        ] {
            let error = gateway(text, &ours).expect_err(text);
            assert!(error.contains(what), "{text}: {error}");
        }
        let error = gateway("10.0.0.1", &ours[1..]).unwrap_err();
        assert!(error.contains("has no IPv4 address"), "{error}");
    }
}
