//! Segment sizes: what we tell the peer, and what we send. RFC 9293 section 3.7.1, RFC 6691.
//!
//! The number in the option counts neither IP nor TCP header and takes no account of options; each
//! sender subtracts the options that it really sends.

use crate::{ConnOptions, PathParams, TcpParams};

/// TCP header without options, bytes.
pub const TCP_HEADER: u16 = 20;
/// The timestamp option with its padding, bytes.
pub const TIMESTAMP_OPTION: u16 = 12;
/// What a peer that says nothing accepts over IPv4, RFC 9293 section 3.7.1.
pub const MSS_DEFAULT_V4: u16 = 536;
/// The same over IPv6.
pub const MSS_DEFAULT_V6: u16 = 1220;
/// Smallest size that we announce or let an application set, bytes.
pub const MSS_ADVERTISED_MIN: u16 = 88;

/// What a peer without an MSS option accepts; `ip_header` tells the family.
pub const fn default_mss(ip_header: u16) -> u16 {
    if ip_header >= 40 { MSS_DEFAULT_V6 } else { MSS_DEFAULT_V4 }
}

/// Payload and options that fit behind the fixed headers on a path of `mtu` bytes.
pub const fn mss_of_mtu(mtu: u16, ip_header: u16) -> u16 {
    mtu.saturating_sub(ip_header).saturating_sub(TCP_HEADER)
}

/// The MSS option of our SYN: what the MTU allows, or less if the application says so.
pub fn advertised_mss(path: &PathParams, options: &ConnOptions) -> u16 {
    let mss = mss_of_mtu(path.mtu, path.ip_header);
    options.mss.map_or(mss, |user| mss.min(user)).max(MSS_ADVERTISED_MIN)
}

/// Payload bytes of a full segment that we send, RFC 9293 section 3.7.1 (Eff.snd.MSS): the least of
/// what the peer accepts, the path carries and the application allows, but not less than
/// `tcp_min_snd_mss`, and without the room that timestamps take. At least one.
///
/// The floor is there because a tiny size multiplies the work per byte (CVE-2019-11479). A peer that
/// announces zero has said nothing.
pub fn send_mss(
    params: &TcpParams,
    path_mtu: u16,
    ip_header: u16,
    peer_mss: Option<u16>,
    options: &ConnOptions,
    timestamps: bool,
) -> u16 {
    let peer = peer_mss.filter(|&mss| mss != 0).unwrap_or(default_mss(ip_header));
    let user = options.mss.unwrap_or(u16::MAX);
    let mss = mss_of_mtu(path_mtu, ip_header).min(peer).min(user).max(params.min_snd_mss);
    let extra = if timestamps { TIMESTAMP_OPTION } else { 0 };
    mss.saturating_sub(extra).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(mtu: u16, ip_header: u16) -> PathParams {
        PathParams { mtu, ip_header, gso_max: 65_536, iss: 0, ts_offset: 0, txhash: 1 }
    }

    #[test]
    fn advertised_follows_the_mtu_and_the_application() {
        for (name, mtu, ip, user, expected) in [
            ("Ethernet, IPv4", 1500, 20, None, 1460),
            ("Ethernet, IPv6", 1500, 40, None, 1440),
            ("jumbo", 9000, 20, None, 8960),
            ("largest", 65_535, 20, None, 65_495),
            ("application wants less", 1500, 20, Some(1000), 1000),
            ("application wants more", 1500, 20, Some(9000), 1460),
            ("application wants nothing", 1500, 20, Some(0), 88),
            ("absurd MTU", 30, 40, None, 88),
        ] {
            let options = ConnOptions { mss: user, ..ConnOptions::default() };
            assert_eq!(advertised_mss(&path(mtu, ip), &options), expected, "{name}");
        }
    }

    #[test]
    fn sending_takes_the_least_and_keeps_the_floor() {
        for (name, mtu, ip, peer, ts, user, expected) in [
            ("Ethernet", 1500, 20, Some(1460), false, None, 1460),
            ("with timestamps", 1500, 20, Some(1460), true, None, 1448),
            ("peer on a smaller link", 1500, 20, Some(1400), true, None, 1388),
            ("peer on a larger link", 1500, 20, Some(8960), false, None, 1460),
            ("path shrank", 576, 20, Some(1460), false, None, 536),
            ("no option, IPv4", 1500, 20, None, false, None, 536),
            ("no option, IPv6", 1500, 40, None, false, None, 1220),
            ("option of zero is none", 1500, 20, Some(0), false, None, 536),
            ("option of one", 1500, 20, Some(1), false, None, 48),
            ("option of one, timestamps", 1500, 20, Some(1), true, None, 36),
            ("47", 1500, 20, Some(47), false, None, 48),
            ("48", 1500, 20, Some(48), false, None, 48),
            ("65535", 65_535, 20, Some(65_535), false, None, 65_495),
            ("absurd path", 0, 40, Some(1440), false, None, 48),
            ("application bounds it", 1500, 20, Some(1460), false, Some(600), 600),
        ] {
            let options = ConnOptions { mss: user, ..ConnOptions::default() };
            let got = send_mss(&TcpParams::default(), mtu, ip, peer, &options, ts);
            assert_eq!(got, expected, "{name}");
        }
        let no_floor = TcpParams { min_snd_mss: 0, ..TcpParams::default() };
        let options = ConnOptions::default();
        assert_eq!(send_mss(&no_floor, 0, 20, Some(1), &options, true), 1);
    }
}
