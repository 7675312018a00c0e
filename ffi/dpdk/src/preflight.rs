//! Checks before EAL starts.
//!
//! EAL can be started once per process, goes on without devices that it could not open, and often
//! ends in "Success". So everything that can be known is looked at first, and said in words that
//! name the object, the values found and the command that helps.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::eal::{EalConfig, Memory};
use crate::error::Error;
use crate::host::{Host, KernelInterface};
use crate::vdev::{Interface, Socket, Vdev};

const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;

/// Kernel drivers under which DPDK can use a device: those that hand it over, and those that share
/// it (Mellanox).
const DPDK_DRIVERS: [&str; 5] =
    ["vfio-pci", "uio_pci_generic", "igb_uio", "mlx5_core", "mlx4_core"];

/// Everything that would keep `config` from starting on `host`, the most fundamental first. Empty:
/// nothing is known to be wrong.
pub fn check(host: &Host, config: &EalConfig) -> Vec<Error> {
    let mut found = Vec::new();
    found.extend(runtime_directory(host));
    found.extend(prefix(host, &config.file_prefix));
    if let Memory::Hugepages { mib } = config.memory {
        found.extend(hugepages(host, mib));
    }
    let mut names = BTreeSet::new();
    for vdev in &config.vdevs {
        if !names.insert(vdev.name()) {
            found.push(Error::configuration(
                format!("cannot open {}", vdev.name()),
                "two devices have this name",
            ));
        }
        found.extend(permission(host, vdev));
        found.extend(interface(host, vdev));
        found.extend(files(host, vdev));
    }
    for address in &config.pci {
        found.extend(pci(host, address.split(',').next().unwrap_or(address)));
    }
    found
}

fn runtime_directory(host: &Host) -> Option<Error> {
    if host.is_root || host.runtime_directory.is_some() {
        return None;
    }
    let dir = host.xdg_runtime_dir.as_ref()?;
    if host.path(dir).is_dir() {
        return None;
    }
    Some(
        Error::environment(
            "cannot create DPDK's runtime directory",
            format!("XDG_RUNTIME_DIR is {}, which does not exist", dir.display()),
        )
        .help("try: unset XDG_RUNTIME_DIR"),
    )
}

fn prefix(host: &Host, prefix: &str) -> Option<Error> {
    if prefix.is_empty() || prefix.contains(['/', '%', '\0']) {
        return Some(Error::configuration(
            format!("cannot use the file prefix \"{prefix}\""),
            "it must not be empty or contain '/' or '%'",
        ));
    }
    let pid = holder(&host.eal_directory(prefix).join("config"))?;
    // Locks of an open file description, not of a process, name no process.
    let who = if pid > 0 {
        let command = fs::read_to_string(host.path(format!("proc/{pid}/comm"))).unwrap_or_default();
        format!("process {pid} ({})", command.trim())
    } else {
        "another process".to_owned()
    };
    Some(
        Error::environment(
            format!("cannot use the file prefix \"{prefix}\""),
            format!("{who} uses it"),
        )
        .help("stop that process, or choose another name for this instance"),
    )
}

/// The process that holds a write lock on `path`.
fn holder(path: &Path) -> Option<i32> {
    let file = fs::File::open(path).ok()?;
    // SAFETY: a struct of numbers, for which zero is valid.
    let mut lock: libc::flock = unsafe { core::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as _;
    lock.l_whence = libc::SEEK_SET as _;
    // SAFETY: an open descriptor; the kernel reads and fills in the struct.
    let ok = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut lock) } == 0;
    (ok && lock.l_type != libc::F_UNLCK as libc::c_short).then_some(lock.l_pid)
}

/// Pages of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pages {
    kib: u64,
    total: u64,
    free: u64,
}

fn pages(host: &Host) -> Vec<Pages> {
    let mut out = Vec::new();
    let entries = fs::read_dir(host.path("sys/kernel/mm/hugepages"));
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let kib = name.strip_prefix("hugepages-").and_then(|n| n.strip_suffix("kB"));
        let Some(kib) = kib.and_then(|n| n.parse().ok()) else { continue };
        let number = |file| {
            let text = fs::read_to_string(entry.path().join(file)).unwrap_or_default();
            text.trim().parse().unwrap_or(0)
        };
        out.push(Pages { kib, total: number("nr_hugepages"), free: number("free_hugepages") });
    }
    out.sort_by_key(|p| p.kib);
    out
}

fn hugepages(host: &Host, wanted_mib: Option<u32>) -> Option<Error> {
    let pages = pages(host);
    let mib = |count: fn(&Pages) -> u64| pages.iter().map(|p| count(p) * p.kib).sum::<u64>() / 1024;
    let (free, total) = (mib(|p| p.free), mib(|p| p.total));
    let wanted = u64::from(wanted_mib.unwrap_or(1));
    if free >= wanted {
        return None;
    }
    let smallest = pages.first().map_or(2048, |p| p.kib);
    // What is needed beyond what others hold already.
    let count = (total - free + wanted.max(512)).saturating_mul(1024).div_ceil(smallest);
    let mut error = Error::environment(
        format!("cannot reserve {wanted} MiB of huge pages"),
        format!("{free} MiB free of {total} MiB"),
    );
    if total > free {
        error = error.help("another process holds the rest, or files of a dead one remain");
    }
    Some(
        error
            .help(format!(
                "try: echo {count} > /sys/kernel/mm/hugepages/hugepages-{smallest}kB/nr_hugepages"
            ))
            .help("or use software mode, which needs no huge pages"),
    )
}

fn permission(host: &Host, vdev: &Vdev) -> Option<Error> {
    let driver = vdev.driver();
    let lacks = |cap: u32| host.capabilities & (1 << cap) == 0;
    let missing: Vec<&str> = [
        (driver.needs_net_raw && lacks(CAP_NET_RAW), "CAP_NET_RAW"),
        (driver.needs_net_admin && lacks(CAP_NET_ADMIN), "CAP_NET_ADMIN"),
    ]
    .into_iter()
    .filter_map(|(missing, name)| missing.then_some(name))
    .collect();
    if missing.is_empty() {
        return None;
    }
    let caps = missing.join(",").to_lowercase();
    Some(
        Error::environment(
            format!("cannot open {}", vdev.name()),
            format!("{} needs {}", driver.name, missing.join(" and ")),
        )
        .help("run it as root, or give the program the capability:")
        .help(format!("try: sudo setcap {caps}+ep $(command -v millrace)")),
    )
}

fn interface(host: &Host, vdev: &Vdev) -> Option<Error> {
    let name = vdev.interface()?;
    let what = format!("cannot open {}", vdev.name());
    let found = host.interface(name);
    if vdev.driver().interface == Interface::Created {
        return (name.len() >= libc::IFNAMSIZ).then(|| {
            Error::configuration(
                what,
                format!(
                    "\"{name}\" is longer than the {} characters of an interface's name",
                    libc::IFNAMSIZ - 1
                ),
            )
        });
    }
    let Some(found) = found else {
        let all: Vec<&str> = host.interfaces.iter().map(|i| i.name.as_str()).collect();
        let error = Error::environment(what, format!("interface {name} does not exist"))
            .help(format!("interfaces here: {}", all.join(" ")));
        let near = all.iter().find(|i| strsim::damerau_levenshtein(name, i) == 1);
        return Some(match near {
            Some(near) => error.help(format!("did you mean {near}?")),
            None => error,
        });
    };
    if !found.up {
        return Some(
            Error::environment(what, format!("interface {name} is down"))
                .help(format!("try: ip link set {name} up")),
        );
    }
    let wanted = u32::from(vdev.mtu().unwrap_or(0));
    if found.mtu != 0 && found.mtu < wanted {
        return Some(
            Error::environment(
                what,
                format!("interface {name} has an MTU of {}, {wanted} was asked for", found.mtu),
            )
            .help(format!("try: ip link set {name} mtu {wanted}"))
            .help("and the same on its peer"),
        );
    }
    if vdev.driver().name == "net_af_xdp" { xdp_interface(what, vdev, found) } else { None }
}

/// What `net_af_xdp` asks of an interface beyond its being there.
fn xdp_interface(what: String, vdev: &Vdev, found: &KernelInterface) -> Option<Error> {
    let name = &found.name;
    let max = u32::from(vdev.driver().mtu_max);
    if found.mtu > max {
        return Some(
            Error::environment(
                what,
                format!(
                    "interface {name} has an MTU of {}, and XDP takes at most {max}",
                    found.mtu
                ),
            )
            .help(format!("try: ip link set {name} mtu {max}"))
            .help("and the same on its peer, or use net_af_packet"),
        );
    }
    // With a first queue of his own choice the user steers frames himself.
    let queues = vdev.arg("queue_count").and_then(|n| n.parse().ok()).unwrap_or(1);
    if vdev.arg("start_queue").is_none() && found.rx_queues > queues {
        return Some(
            Error::environment(
                what,
                format!(
                    "interface {name} spreads over {} receive queues and {queues} would be read: \
                     the frames of the others would go to the kernel",
                    found.rx_queues
                ),
            )
            .help(format!("try: ethtool -L {name} combined {queues}"))
            .help(format!(" or: ethtool -L {name} rx {queues} tx {queues}       a veth")),
        );
    }
    None
}

/// Files that a device reads, or in whose place it makes a socket.
fn files(host: &Host, vdev: &Vdev) -> Option<Error> {
    let what = || format!("cannot open {}", vdev.name());
    match vdev.driver().name {
        "net_pcap" => {
            let file = vdev.arg("rx_pcap")?;
            fs::metadata(host.path(file))
                .err()
                .map(|e| Error::environment(what(), format!("cannot read the capture {file}: {e}")))
        }
        "net_memif" => {
            if let Some(socket) = vdev.arg("socket")
                && !socket.starts_with(['/', '@'])
            {
                return Some(Error::configuration(
                    what(),
                    format!("socket={socket} is not an absolute path"),
                ));
            }
            socket(host, what(), vdev.socket()?)
        }
        _ => None,
    }
}

/// What lies in the place of a `memif` socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// Nothing.
    Nothing,
    /// A file that is no socket.
    Other,
    /// A socket file to which nobody listens: a server that was killed leaves it behind.
    Stale,
    /// A socket that somebody serves, as far as can be seen.
    Served,
}

fn found(host: &Host, socket: &Socket<'_>) -> Found {
    use std::os::unix::fs::FileTypeExt;
    use std::os::unix::net::UnixStream;

    if !socket.is_file {
        // Names in the abstract space are told apart by the kind of socket as well: a stream would
        // find nobody there, and a socket of the right kind would disturb who serves it.
        let all = fs::read_to_string(host.path("proc/thread-self/net/unix")).unwrap_or_default();
        let here = all.lines().filter_map(|l| l.split_once(" @")).any(|(_, n)| n == socket.name);
        return if here { Found::Served } else { Found::Nothing };
    }
    let path = host.path(socket.name);
    let Ok(metadata) = fs::symlink_metadata(&path) else { return Found::Nothing };
    if !metadata.file_type().is_socket() {
        return Found::Other;
    }
    // A live one answers a stream socket with EPROTOTYPE, since memif speaks SOCK_SEQPACKET.
    let refused =
        UnixStream::connect(path).is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused);
    if refused { Found::Stale } else { Found::Served }
}

fn socket(host: &Host, what: String, socket: Socket<'_>) -> Option<Error> {
    let name = socket.name;
    if socket.is_file
        && let Some(dir) = Path::new(name).parent()
        && !host.path(dir).is_dir()
    {
        let dir = dir.display();
        return Some(
            Error::environment(what, format!("there is no directory {dir} for {name}"))
                .help(format!("try: mkdir -p {dir}")),
        );
    }
    match (found(host, &socket), socket.serves) {
        (Found::Other, _) => Some(
            Error::environment(what, format!("{name} is not a socket"))
                .help("choose another path, or remove the file if nothing needs it"),
        ),
        (Found::Served, true) => Some(
            Error::environment(what, format!("another process serves {name}"))
                .help("choose another socket, or role=client to connect to it"),
        ),
        (Found::Nothing | Found::Stale, false) => Some(
            Error::environment(what, format!("nobody serves {name}"))
                .help("start the end with role=server first")
                .help(
                    "both ends need the same socket-abstract, and with yes, which is the default,",
                )
                .help("the same network namespace"),
        ),
        (Found::Nothing | Found::Stale, true) | (Found::Served, false) => None,
    }
}

/// Remove what would keep `config` from starting and belongs to nobody: sockets of `memif` servers
/// that were killed, over which a new server could not be made.
pub(crate) fn clear(host: &Host, config: &EalConfig) {
    for socket in config.vdevs.iter().filter_map(Vdev::socket) {
        if socket.serves && found(host, &socket) == Found::Stale {
            // If it cannot be removed, the driver says so in its own words.
            let _ = fs::remove_file(host.path(socket.name));
        }
    }
}

/// A PCI address in full, `0000:03:00.0`; the domain may be left out.
fn pci_address(text: &str) -> Option<String> {
    let hex = |s: &str, len: usize| s.len() == len && s.chars().all(|c| c.is_ascii_hexdigit());
    let full =
        if text.matches(':').count() == 1 { format!("0000:{text}") } else { text.to_owned() };
    let mut parts = full.splitn(3, ':');
    let (domain, bus, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let (device, function) = rest.split_once('.')?;
    let ok = hex(domain, 4)
        && hex(bus, 2)
        && hex(device, 2)
        && function.len() == 1
        && function.chars().all(|c| ('0'..='7').contains(&c));
    ok.then(|| full.to_lowercase())
}

fn pci(host: &Host, text: &str) -> Option<Error> {
    let what = format!("cannot open {text}");
    let Some(address) = pci_address(text) else {
        return Some(
            Error::configuration(what, "this is not a PCI address")
                .help("an address looks like 0000:03:00.0; dpdk-devbind.py --status lists them"),
        );
    };
    let devices = host.path("sys/bus/pci/devices");
    let device = devices.join(&address);
    if !device.exists() {
        let nics = nics(&devices);
        let list = if nics.is_empty() { "none".to_owned() } else { nics.join(" ") };
        return Some(
            Error::environment(what, "there is no such device")
                .help(format!("network devices here: {list}")),
        );
    }
    let driver = fs::read_link(device.join("driver")).ok();
    let driver = driver.as_ref().and_then(|p| p.file_name()).map(|n| n.to_string_lossy());
    match driver {
        Some(driver) if DPDK_DRIVERS.contains(&driver.as_ref()) => None,
        Some(driver) => {
            let interface = fs::read_dir(device.join("net"))
                .ok()
                .and_then(|mut d| d.next()?.ok())
                .map(|e| e.file_name().to_string_lossy().into_owned());
            Some(bound(host, what, &address, &driver, interface.as_deref()))
        }
        None => Some(
            Error::environment(what, "no kernel driver hands it over")
                .help(format!("try: dpdk-devbind.py -b vfio-pci {address}")),
        ),
    }
}

fn bound(host: &Host, what: String, address: &str, driver: &str, name: Option<&str>) -> Error {
    let of = name.map(|n| format!(" as interface {n}")).unwrap_or_default();
    let error =
        Error::environment(what, format!("the kernel uses it with the driver {driver}{of}"));
    if name.is_some_and(|n| has_default_route(host, n)) {
        return error.help("it carries the default route of this machine: choose another device");
    }
    let error = match name {
        Some(name) => error.help(format!("try: ip link set {name} down")),
        None => error,
    };
    error.help(format!("try: dpdk-devbind.py -b vfio-pci {address}"))
}

fn has_default_route(host: &Host, interface: &str) -> bool {
    let table = fs::read_to_string(host.path("proc/net/route")).unwrap_or_default();
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace();
        fields.next() == Some(interface) && fields.next() == Some("00000000")
    })
}

/// Addresses of all devices of the class "network".
fn nics(devices: &Path) -> Vec<String> {
    let mut out: Vec<String> = fs::read_dir(devices)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|e| {
            let class = fs::read_to_string(e.path().join("class")).unwrap_or_default();
            class.starts_with("0x02")
        })
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    out.sort();
    out
}

#[cfg(test)]
mod tests;
