//! How a device is named, and what is known of software devices before they start.

use core::fmt;
use core::str::FromStr;

use crate::text::{nearest, quote};

/// A device of DPDK.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DeviceSpec {
    /// A software device.
    Vdev(Vdev),
    /// A device on the PCI bus.
    Pci(PciAddress),
}

impl DeviceSpec {
    /// The name by which DPDK knows the port.
    pub fn name(&self) -> String {
        match self {
            Self::Vdev(v) => v.name().into(),
            Self::Pci(p) => p.to_string(),
        }
    }

    /// Whether it needs neither hardware nor hugepages.
    pub fn is_software(&self) -> bool {
        matches!(self, Self::Vdev(_))
    }
}

/// `net_af_packet0,iface=veth0` or `0000:03:00.0`, with `vdev:` or `pci:` before it at will.
impl FromStr for DeviceSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(rest) = text.strip_prefix("vdev:") {
            return rest.parse().map(Self::Vdev);
        }
        if let Some(rest) = text.strip_prefix("pci:") {
            return rest.parse().map(Self::Pci);
        }
        match text.parse() {
            Ok(pci) => Ok(Self::Pci(pci)),
            Err(_) => text.parse().map(Self::Vdev),
        }
    }
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vdev(v) => v.fmt(f),
            Self::Pci(p) => p.fmt(f),
        }
    }
}

/// What is known of a driver for software devices.
struct Driver {
    name: &'static str,
    /// Largest MTU that it carries, if it is less than ours.
    mtu_max: Option<u16>,
    /// Arguments without which it does not start.
    needs: &'static [&'static str],
}

impl Driver {
    const fn new(name: &'static str) -> Self {
        Self { name, mtu_max: None, needs: &[] }
    }
}

/// The software devices that DPDK has.
const DRIVERS: [Driver; 11] = [
    Driver { needs: &["iface"], ..Driver::new("net_af_packet") },
    // A frame has to fit into a page with the headroom of the kernel.
    Driver { needs: &["iface"], mtu_max: Some(3442), ..Driver::new("net_af_xdp") },
    Driver { mtu_max: Some(1500), ..Driver::new("net_tap") },
    Driver::new("net_memif"),
    Driver::new("net_ring"),
    Driver::new("net_null"),
    Driver::new("net_pcap"),
    Driver::new("net_virtio_user"),
    Driver::new("net_vhost"),
    Driver::new("net_bonding"),
    Driver::new("net_failsafe"),
];

/// Bytes of a device's name at most, as in DPDK (64 with the end).
const NAME_MAX: usize = 63;
/// Bytes of name and arguments at most.
const DEVARGS_MAX: usize = 1024;

/// A software device with its arguments, as `--vdev` takes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Vdev {
    /// Name, then `,key=value` for each argument.
    devargs: String,
}

impl Vdev {
    /// Name of the device: a driver and a number, such as `net_tap0`.
    pub fn name(&self) -> &str {
        self.devargs.split(',').next().unwrap_or_default()
    }

    /// Name and arguments.
    pub fn devargs(&self) -> &str {
        &self.devargs
    }

    /// Name of the driver.
    pub fn driver(&self) -> &'static str {
        driver_of(self.name()).map_or("", |d| d.name)
    }

    /// The value of the argument `key`.
    pub fn arg(&self, key: &str) -> Option<&str> {
        self.devargs.split(',').skip(1).find_map(|arg| {
            let (name, value) = arg.split_once('=').unwrap_or((arg, ""));
            (name == key).then_some(value)
        })
    }

    /// Check `mtu` and `queues` against what is known of the driver. Parameters that only tune the
    /// device are filled in where it is opened.
    pub(crate) fn check(&self, mtu: u16, queues: u16) -> Result<(), String> {
        let name = self.name();
        if let Some(max) = driver_of(name).and_then(|d| d.mtu_max)
            && mtu > max
        {
            return Err(format!("{name} carries an MTU of at most {max}, not {mtu}"));
        }
        for key in ["qpairs", "queue_count"] {
            let Some(text) = self.arg(key) else { continue };
            match text.parse::<u16>() {
                Ok(n) if n == queues => {}
                Ok(n) => return Err(format!("{key}={n} contradicts queues = {queues}")),
                Err(_) => return Err(format!("{key}={} is not a number of queues", quote(text))),
            }
        }
        Ok(())
    }

    /// Bytes of data that a buffer has to hold because of the arguments; 0 without a wish.
    pub(crate) fn data_room(&self) -> u32 {
        self.arg("framesz").and_then(|text| text.parse().ok()).unwrap_or(0)
    }
}

/// The driver whose name `name` begins with, the longest if there are several.
fn driver_of(name: &str) -> Option<&'static Driver> {
    DRIVERS.iter().filter(|d| name.starts_with(d.name)).max_by_key(|d| d.name.len())
}

impl FromStr for Vdev {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err("the device has no name; write one such as net_tap0".into());
        }
        if text.len() > DEVARGS_MAX {
            return Err(format!("longer than {DEVARGS_MAX} bytes"));
        }
        if let Some(c) = text.chars().find(|c| c.is_whitespace() || c.is_control()) {
            return Err(format!(
                "{} contains {c:?}; arguments are separated by commas only",
                quote(text)
            ));
        }
        let vdev = Self { devargs: text.into() };
        let name = vdev.name();
        if name.len() > NAME_MAX {
            return Err(format!("the name is longer than {NAME_MAX} bytes"));
        }
        let Some(driver) = driver_of(name) else {
            let known = DRIVERS.map(|d| d.name);
            let bare = name.trim_end_matches(|c: char| c.is_ascii_digit());
            let guess = match nearest(bare, known) {
                Some(near) => format!("did you mean {near}0?"),
                None => format!("there are {}", known.join(", ")),
            };
            return Err(format!("{} is not a software device: {guess}", quote(name)));
        };
        if name.len() == driver.name.len() {
            return Err(format!("{name} lacks a number; write {name}0{}", &text[name.len()..]));
        }
        for arg in text.split(',').skip(1) {
            if arg.is_empty() || arg.starts_with('=') {
                return Err(format!("{} has an empty argument", quote(text)));
            }
        }
        for key in driver.needs {
            if vdev.arg(key).unwrap_or_default().is_empty() {
                return Err(format!("{name} needs {key}=NAME, for example {name},{key}=veth0"));
            }
        }
        if driver.name == "net_memif"
            && let Some(socket) = vdev.arg("socket")
            && !socket.starts_with('/')
        {
            return Err(format!("socket={} is not an absolute path", quote(socket)));
        }
        Ok(vdev)
    }
}

impl fmt::Display for Vdev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.devargs)
    }
}

/// A device on the PCI bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PciAddress {
    /// Domain.
    pub domain: u16,
    /// Bus.
    pub bus: u8,
    /// Device, 0..=31.
    pub device: u8,
    /// Function, 0..=7.
    pub function: u8,
}

/// `0000:03:00.0`, or without the domain `03:00.0`; hexadecimal.
impl FromStr for PciAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{} is not a PCI address such as 0000:03:00.0", quote(text));
        let hex = |t: &str, width: usize| {
            (t.len() == width && t.bytes().all(|b| b.is_ascii_hexdigit()))
                .then(|| u16::from_str_radix(t, 16).ok())
                .flatten()
                .ok_or_else(wrong)
        };
        let (rest, function) = text.trim().split_once('.').ok_or_else(wrong)?;
        let parts: Vec<&str> = rest.split(':').collect();
        let (domain, bus, device) = match parts.as_slice() {
            [bus, device] => ("0000", *bus, *device),
            [domain, bus, device] => (*domain, *bus, *device),
            _ => return Err(wrong()),
        };
        let byte = |n: u16| u8::try_from(n).map_err(|_| wrong());
        let address = Self {
            domain: hex(domain, 4)?,
            bus: byte(hex(bus, 2)?)?,
            device: byte(hex(device, 2)?)?,
            function: byte(hex(function, 1)?)?,
        };
        if address.device > 31 || address.function > 7 {
            return Err(wrong());
        }
        Ok(address)
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_addresses() {
        for (text, shown) in [("0000:03:00.0", "0000:03:00.0"), ("8a:1f.7", "0000:8a:1f.7")] {
            assert_eq!(text.parse::<PciAddress>().map(|p| p.to_string()), Ok(shown.into()));
        }
        for text in ["", "03:00", "0000:03:20.0", "03:00.8", "3:0.0", "0000:03:00.0.0", "g3:00.0"] {
            assert!(text.parse::<PciAddress>().is_err(), "{text}");
        }
    }

    /// H152, as far as it can be seen before the start.
    #[test]
    fn h152_vdevs_that_are_not() {
        for (text, what) in [
            ("", "has no name"),
            (" ", "has no name"),
            ("net_nosuch0", "is not a software device"),
            ("net_af_pakcet0,iface=veth0", "did you mean net_af_packet0?"),
            ("net_af_packet0", "needs iface=NAME"),
            ("net_af_packet0,iface=", "needs iface=NAME"),
            ("net_tap0,,iface=a", "empty argument"),
            ("net_tap0 iface=a", "separated by commas"),
            ("net_tap,iface=t0", "write net_tap0,iface=t0"),
            ("net_memif0,role=server,socket=memif.sock", "absolute path"),
        ] {
            let error = text.parse::<Vdev>().expect_err(text);
            assert!(error.contains(what), "{text}: {error}");
        }
        let long = format!("net_tap{}", "0".repeat(64));
        assert!(long.parse::<Vdev>().is_err());
    }

    #[test]
    fn devices_are_told_apart() {
        assert!(matches!("03:00.0".parse(), Ok(DeviceSpec::Pci(_))));
        let vdev: DeviceSpec = "net_null0,size=64,copy=1".parse().unwrap();
        assert_eq!(vdev.name(), "net_null0");
        assert!(vdev.is_software());
        assert!("vdev:net_null0".parse::<DeviceSpec>().is_ok());
        assert!("pci:net_null0".parse::<DeviceSpec>().is_err());
    }

    #[test]
    fn mtu_and_queues_are_held_against_the_driver() {
        let check =
            |text: &str, mtu, queues| text.parse::<Vdev>().and_then(|v| v.check(mtu, queues));
        for (text, mtu, queues) in [
            ("net_af_packet0,iface=veth0", 9000, 2),
            ("net_af_packet0,iface=veth0,qpairs=2", 1500, 2),
            ("net_af_xdp0,iface=veth0", 3442, 1),
            ("net_tap0", 1500, 1),
            ("net_memif0", 9216, 4),
        ] {
            assert_eq!(check(text, mtu, queues), Ok(()), "{text}");
        }
        for (text, mtu, queues, what) in [
            ("net_tap0", 1501, 1, "at most 1500"),
            ("net_af_xdp0,iface=veth0", 9000, 1, "at most 3442"),
            ("net_af_packet0,iface=a,qpairs=4", 1500, 2, "contradicts queues = 2"),
            ("net_af_xdp0,iface=a,queue_count=1", 1500, 2, "contradicts queues = 2"),
            ("net_af_packet0,iface=a,qpairs=x", 1500, 1, "is not a number"),
        ] {
            let error = check(text, mtu, queues).expect_err(text);
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
