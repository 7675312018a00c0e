//! Socket addresses: `struct sockaddr` and what it says.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use crate::Errno;
use crate::abi::{AF_INET, AF_INET6};

/// Bytes of `struct sockaddr_in`.
const SOCKADDR_IN: usize = 16;
/// Bytes of `struct sockaddr_in6` that must be there (RFC 2133 knew no scope).
const SOCKADDR_IN6_MIN: usize = 24;

/// An address as a call brings or returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SockAddr {
    /// `AF_UNSPEC`: dissolves what `connect` has made.
    Unspec,
    /// `AF_INET`.
    V4(SocketAddrV4),
    /// `AF_INET6`.
    V6(SocketAddrV6),
    /// Another family, by its number.
    Other(u16),
}

impl SockAddr {
    /// What `bytes` say: family, port and address in the byte orders of Linux.
    ///
    /// # Errors
    ///
    /// `EINVAL`: shorter than what its family needs.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Errno> {
        let family = bytes.first_chunk().map(|b| u16::from_ne_bytes(*b)).ok_or(Errno::EINVAL)?;
        let port = |bytes: &[u8]| {
            bytes.get(2..4).and_then(|b| b.try_into().ok()).map_or(0, u16::from_be_bytes)
        };
        match i32::from(family) {
            0 => Ok(Self::Unspec),
            AF_INET if bytes.len() < SOCKADDR_IN => Err(Errno::EINVAL),
            AF_INET => {
                let addr: [u8; 4] =
                    bytes.get(4..8).and_then(|b| b.try_into().ok()).ok_or(Errno::EINVAL)?;
                Ok(Self::V4(SocketAddrV4::new(Ipv4Addr::from(addr), port(bytes))))
            }
            AF_INET6 if bytes.len() < SOCKADDR_IN6_MIN => Err(Errno::EINVAL),
            AF_INET6 => {
                let word =
                    |at: usize| -> Option<[u8; 4]> { bytes.get(at..at + 4)?.try_into().ok() };
                let addr: [u8; 16] =
                    bytes.get(8..24).and_then(|b| b.try_into().ok()).ok_or(Errno::EINVAL)?;
                let flow = word(4).map_or(0, u32::from_be_bytes);
                let scope = word(24).map_or(0, u32::from_ne_bytes);
                let addr = SocketAddrV6::new(Ipv6Addr::from(addr), port(bytes), flow, scope);
                Ok(Self::V6(addr))
            }
            _ => Ok(Self::Other(family)),
        }
    }

    /// `struct sockaddr` of it.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(28);
        let family = match self {
            Self::Unspec => 0,
            Self::V4(_) => AF_INET as u16,
            Self::V6(_) => AF_INET6 as u16,
            Self::Other(family) => family,
        };
        bytes.extend_from_slice(&family.to_ne_bytes());
        match self {
            Self::Unspec | Self::Other(_) => {}
            Self::V4(addr) => {
                bytes.extend_from_slice(&addr.port().to_be_bytes());
                bytes.extend_from_slice(&addr.ip().octets());
                bytes.extend_from_slice(&[0; 8]);
            }
            Self::V6(addr) => {
                bytes.extend_from_slice(&addr.port().to_be_bytes());
                bytes.extend_from_slice(&addr.flowinfo().to_be_bytes());
                bytes.extend_from_slice(&addr.ip().octets());
                bytes.extend_from_slice(&addr.scope_id().to_ne_bytes());
            }
        }
        bytes
    }

    /// `addr` as a socket of the IPv6 family shows it (IPv4 mapped, RFC 4291 section 2.5.5.2) or one of
    /// the IPv4 family.
    pub(crate) fn shown(addr: SocketAddr, v6: bool) -> Self {
        match (addr, v6) {
            (SocketAddr::V4(addr), false) => Self::V4(addr),
            (SocketAddr::V4(addr), true) => {
                Self::V6(SocketAddrV6::new(addr.ip().to_ipv6_mapped(), addr.port(), 0, 0))
            }
            (SocketAddr::V6(addr), _) => Self::V6(addr),
        }
    }
}

impl From<SocketAddr> for SockAddr {
    fn from(addr: SocketAddr) -> Self {
        match addr {
            SocketAddr::V4(addr) => Self::V4(addr),
            SocketAddr::V6(addr) => Self::V6(addr),
        }
    }
}

/// An IPv6 address as the stack knows it: mapped ones are IPv4.
pub(crate) fn unmapped(addr: SocketAddrV6) -> SocketAddr {
    match addr.ip().to_ipv4_mapped() {
        Some(v4) => SocketAddr::new(IpAddr::V4(v4), addr.port()),
        None => SocketAddr::V6(addr),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_back() {
        for text in ["10.0.0.1:80", "[fd00::1]:443", "[fe80::1%3]:1", "0.0.0.0:0"] {
            let addr = SockAddr::from(text.parse::<SocketAddr>().unwrap());
            assert_eq!(SockAddr::from_bytes(&addr.to_bytes()), Ok(addr), "{text}");
        }
        for (name, bytes, expected) in [
            ("nothing", &[][..], Err(Errno::EINVAL)),
            ("half a family", &[2], Err(Errno::EINVAL)),
            ("unspecified needs no more", &[0, 0], Ok(SockAddr::Unspec)),
            ("a short IPv4 address", &[2, 0, 0, 80, 1, 2, 3, 4], Err(Errno::EINVAL)),
            ("a local one", &[1, 0], Ok(SockAddr::Other(1))),
        ] {
            assert_eq!(SockAddr::from_bytes(bytes), expected, "{name}");
        }
        let mut old = SockAddr::from("[fd00::9]:7".parse::<SocketAddr>().unwrap()).to_bytes();
        old.truncate(SOCKADDR_IN6_MIN);
        assert!(SockAddr::from_bytes(&old).is_ok(), "without a scope");
        old.truncate(SOCKADDR_IN6_MIN - 1);
        assert_eq!(SockAddr::from_bytes(&old), Err(Errno::EINVAL));
    }
}
