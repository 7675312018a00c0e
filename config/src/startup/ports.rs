//! Devices, addresses and gateways of the ports.

use core::net::IpAddr;

use base::PORTS_MAX;
use stack::{ChecksumPolicy, LocalAddress};

use super::raw::{Located, RawPort};
use super::resolve::{number, parse};
use super::{DeviceSpec, MTU_MAX, MTU_MIN_V4, MTU_MIN_V6, Port, address};
use crate::ConfigError;
use crate::error::{Place, Text};
use crate::text::quote;

/// Addresses of a port at most.
const ADDRESSES_MAX: usize = 64;

/// The device of each port, each of them once.
pub(super) fn devices(
    raw: &[Located<RawPort>],
    source: Text<'_>,
) -> Result<Vec<DeviceSpec>, ConfigError> {
    if raw.is_empty() {
        return Err(source
            .error(&Place::Nowhere, "", "there is no port")
            .help("add a section [[port]] with vdev = \"...\" or pci = \"...\""));
    }
    if let Some(port) = raw.get(PORTS_MAX) {
        return Err(source.error(&port.at, "port", format!("more than {PORTS_MAX} ports")));
    }
    let mut devices: Vec<DeviceSpec> = Vec::new();
    for port in raw {
        let (device, at, key) = match (&port.value.vdev, &port.value.pci) {
            (Some(vdev), None) => {
                (DeviceSpec::Vdev(parse(vdev, "vdev", source)?), &vdev.at, "vdev")
            }
            (None, Some(pci)) => (DeviceSpec::Pci(parse(pci, "pci", source)?), &pci.at, "pci"),
            (Some(_), Some(pci)) => {
                return Err(source.error(
                    &pci.at,
                    "pci",
                    "a port is either a vdev or a pci device, not both",
                ));
            }
            (None, None) => {
                let what = "the port has no device";
                return Err(match source.file {
                    Some(_) => source.error(&port.at, "port", what).help(
                        "add vdev = \"net_af_packet0,iface=veth0\" or pci = \"0000:03:00.0\"",
                    ),
                    None => ConfigError::new(what)
                        .help("add --vdev net_af_packet0,iface=veth0 or --pci 0000:03:00.0")
                        .help("or --config FILE"),
                });
            }
        };
        if devices.iter().any(|d| d.name() == device.name()) {
            return Err(source.error(
                at,
                key,
                format!("{} is another port already", device.name()),
            ));
        }
        devices.push(device);
    }
    Ok(devices)
}

pub(super) fn port(
    raw: &Located<RawPort>,
    device: DeviceSpec,
    queues: u16,
    before: &[Port],
    source: Text<'_>,
) -> Result<Port, ConfigError> {
    // Without `..`: a new key must be looked at here.
    let RawPort { vdev, pci, addresses: raw_addresses, gateway, mtu, queues: _, rx_checksum } =
        &raw.value;
    let mut addresses: Vec<LocalAddress> = Vec::new();
    for text in raw_addresses.iter().flat_map(|list| &list.0) {
        let fail = |what: String| source.error(&text.at, "addresses", what);
        let local = address::local_address(&text.value).map_err(fail)?;
        let ours = |list: &[LocalAddress]| list.iter().any(|a| a.addr == local.addr);
        if ours(&addresses) {
            return Err(fail(format!("{} is listed twice", local.addr)));
        }
        if let Some(other) = before.iter().find(|p| ours(&p.addresses)) {
            return Err(fail(format!(
                "{} is an address of {} already",
                local.addr,
                other.device.name()
            )));
        }
        if let Some((other, prefix)) = overlapping(&local, before) {
            return Err(fail(format!(
                "{}/{} overlaps {}/{} of {}: which of the two leads there?",
                local.addr,
                local.prefix,
                prefix.addr,
                prefix.prefix,
                other.device.name()
            )));
        }
        if addresses.len() == ADDRESSES_MAX {
            return Err(fail(format!("more than {ADDRESSES_MAX} addresses")));
        }
        addresses.push(local);
    }
    if addresses.is_empty() {
        return Err(match source.file {
            Some(_) => source
                .error(&raw.at, "port", format!("{} has no address", device.name()))
                .help("add addresses = [\"10.0.0.2/24\"]"),
            None => ConfigError::new(format!("{} has no address", device.name()))
                .help("add --address 10.0.0.2/24"),
        });
    }
    let (mut gateway4, mut gateway6) = (None, None);
    for text in gateway.iter().flat_map(|list| &list.0) {
        let fail = |what: String| source.error(&text.at, "gateway", what);
        let taken = match address::gateway(&text.value, &addresses).map_err(fail)? {
            IpAddr::V4(a) => gateway4.replace(a).is_some(),
            IpAddr::V6(a) => gateway6.replace(a).is_some(),
        };
        if taken {
            return Err(fail(format!("{} is the second of its family", text.value)));
        }
    }
    let has_v6 = addresses.iter().any(|a| a.addr.is_ipv6());
    let mtu_min = if has_v6 { MTU_MIN_V6 } else { MTU_MIN_V4 };
    let size = number(mtu, "mtu", mtu_min.into()..=MTU_MAX.into(), 1500, source).map_err(|e| {
        if has_v6 { e.help("a port with an IPv6 address needs at least 1280, RFC 8200") } else { e }
    })? as u16;
    if let DeviceSpec::Vdev(v) = &device {
        let device_at = vdev.as_ref().or(pci.as_ref()).map_or(&raw.at, |d| &d.at);
        let at = mtu.as_ref().map_or(device_at, |m| &m.at);
        v.check(size, queues).map_err(|what| source.error(at, "vdev", what))?;
    }
    let rx_checksum = match rx_checksum {
        None => ChecksumPolicy::Verify,
        Some(text) => match text.value.as_str() {
            "verify" => ChecksumPolicy::Verify,
            "trust" => ChecksumPolicy::Trust,
            other => {
                return Err(source.error(
                    &text.at,
                    "rx_checksum",
                    format!("{} is neither verify nor trust", quote(other)),
                ));
            }
        },
    };
    Ok(Port { device, addresses, gateway4, gateway6, mtu: size, queues, rx_checksum })
}

/// The first prefix of another port that has addresses in common with that of `local`. Link-local
/// prefixes are on every link.
fn overlapping<'a>(local: &LocalAddress, before: &'a [Port]) -> Option<(&'a Port, LocalAddress)> {
    let same = |a: &LocalAddress| address::overlap(a, local) && !address::is_on_one_link(a.addr);
    before.iter().find_map(|p| p.addresses.iter().find(|a| same(a)).map(|&a| (p, a)))
}
