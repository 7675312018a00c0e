//! Facts about the machine, gathered once, so that the checks on them are plain functions that a
//! test can give any machine to.

use std::ffi::{CStr, CString};
use std::fs;
use std::path::PathBuf;

/// A kernel network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelInterface {
    /// Name.
    pub name: String,
    /// Administratively up.
    pub up: bool,
    /// Its MTU in bytes; zero: not known.
    pub mtu: u32,
    /// Queues into which it spreads what it receives; zero: not known.
    pub rx_queues: u32,
}

/// What has become of an interface that a device uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InterfaceState {
    /// Up, with a carrier.
    Up,
    /// Down, or without a carrier.
    Down,
    /// No longer in this network namespace. One of the same name that comes later is another one: a
    /// socket that was bound to the old one stays dead.
    Gone,
}

/// What matters about the machine and this process.
#[derive(Clone, Debug)]
pub struct Host {
    /// Where `/sys`, `/proc`, `/var` are found: `/` but in tests.
    pub root: PathBuf,
    /// Interfaces of this process's network namespace.
    pub interfaces: Vec<KernelInterface>,
    /// Effective capabilities, one bit each.
    pub capabilities: u64,
    /// Whether the effective user is root.
    pub is_root: bool,
    /// `RUNTIME_DIRECTORY`, which systemd sets.
    pub runtime_directory: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`.
    pub xdg_runtime_dir: Option<PathBuf>,
}

impl Host {
    /// This machine and this process.
    pub fn probe() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let capabilities = status
            .lines()
            .find_map(|l| l.strip_prefix("CapEff:"))
            .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
            .unwrap_or(0);
        let dir = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        Self {
            root: PathBuf::from("/"),
            interfaces: interfaces(),
            capabilities,
            // SAFETY: has no arguments and cannot fail.
            is_root: unsafe { libc::geteuid() } == 0,
            runtime_directory: dir("RUNTIME_DIRECTORY"),
            xdg_runtime_dir: dir("XDG_RUNTIME_DIR"),
        }
    }

    /// The interface called `name`.
    pub fn interface(&self, name: &str) -> Option<&KernelInterface> {
        self.interfaces.iter().find(|i| i.name == name)
    }

    /// The path `path`, given without its leading slash, on this host.
    pub(crate) fn path(&self, path: impl AsRef<std::path::Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Where EAL keeps the files of `prefix`, in its order of preference.
    pub fn eal_directory(&self, prefix: &str) -> PathBuf {
        let base = match (&self.runtime_directory, &self.xdg_runtime_dir) {
            (Some(dir), _) => dir.clone(),
            (None, _) if self.is_root => PathBuf::from("/var/run"),
            (None, Some(dir)) => dir.clone(),
            (None, None) => PathBuf::from("/tmp"),
        };
        self.path(base).join("dpdk").join(prefix)
    }
}

/// The interfaces of the network namespace of this thread. By system call: `/sys/class/net` shows
/// the namespace in which it was mounted.
fn interfaces() -> Vec<KernelInterface> {
    let mut out = Vec::new();
    // SAFETY: no arguments; the result is null or an array that is given back below.
    let list = unsafe { libc::if_nameindex() };
    if list.is_null() {
        return out;
    }
    // SAFETY: plain arguments.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    for i in 0.. {
        // SAFETY: the array ends with an entry whose index is zero, at which the loop ends.
        let entry = unsafe { &*list.add(i) };
        if entry.if_index == 0 || entry.if_name.is_null() {
            break;
        }
        // SAFETY: a NUL-terminated name, valid until the list is freed.
        let name = unsafe { CStr::from_ptr(entry.if_name) }.to_owned();
        out.push(KernelInterface {
            up: flags(socket, &name).is_some_and(|f| f & libc::IFF_UP as u32 != 0),
            mtu: mtu(socket, &name).unwrap_or(0),
            rx_queues: rx_queues(socket, &name).unwrap_or(0),
            name: name.to_string_lossy().into_owned(),
        });
    }
    // SAFETY: the list that `if_nameindex` returned and a descriptor that is ours (-1 is refused).
    unsafe {
        libc::if_freenameindex(list);
        libc::close(socket);
    }
    out
}

/// What an interface leaves to its hardware, which a veth does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkFeatures {
    /// Checksums of what it sends.
    pub tx_checksum: bool,
    /// Segmentation of what it sends.
    pub tso: bool,
    /// Generic segmentation.
    pub gso: bool,
}

/// The features of the interface `name` of this network namespace; `None` if it does not tell.
pub fn link_features(name: &str) -> Option<LinkFeatures> {
    let name = CString::new(name).ok()?;
    // SAFETY: plain arguments.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return None;
    }
    let value = |command| ethtool_value(socket, &name, command);
    let features = value(ETHTOOL_GTXCSUM).zip(value(ETHTOOL_GTSO)).zip(value(ETHTOOL_GGSO));
    // SAFETY: a descriptor that is ours.
    unsafe { libc::close(socket) };
    let ((tx_checksum, tso), gso) = features?;
    Some(LinkFeatures { tx_checksum, tso, gso })
}

const ETHTOOL_GTXCSUM: u32 = 0x16;
const ETHTOOL_GTSO: u32 = 0x1e;
const ETHTOOL_GGSO: u32 = 0x23;

/// The kernel's `ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

fn ethtool_value(socket: libc::c_int, name: &CString, command: u32) -> Option<bool> {
    let mut value = EthtoolValue { command, data: 0 };
    let mut request = request(name);
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: these commands read and write one `ethtool_value`, to which the request points.
    let ok = unsafe { libc::ioctl(socket, SIOCETHTOOL, &raw mut request) } == 0;
    ok.then_some(value.data != 0)
}

/// The kernel's number for the interface called `name`.
pub(crate) fn interface_index(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: a NUL-terminated name.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    (index != 0).then_some(index)
}

/// The state of the interface with this number, whatever it is called by now.
pub(crate) fn interface_state(index: u32) -> InterfaceState {
    let mut name = [0; libc::IF_NAMESIZE];
    // SAFETY: an array of the size that the function asks for.
    let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr()) };
    if found.is_null() {
        return InterfaceState::Gone;
    }
    // SAFETY: the function has written a NUL-terminated name into the array.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_owned();
    // SAFETY: plain arguments.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    let wanted = (libc::IFF_UP | libc::IFF_RUNNING) as u32;
    let up = flags(socket, &name).is_some_and(|f| f & wanted == wanted);
    // SAFETY: a descriptor that is ours (-1 is refused).
    unsafe { libc::close(socket) };
    if up { InterfaceState::Up } else { InterfaceState::Down }
}

fn request(name: &CString) -> libc::ifreq {
    // SAFETY: a struct of numbers and bytes, for which zero is valid.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.to_bytes()) {
        *to = *from as libc::c_char;
    }
    request
}

fn flags(socket: libc::c_int, name: &CString) -> Option<u32> {
    let mut request = request(name);
    // SAFETY: the kernel reads the name and writes the flags into the request.
    let ok = unsafe { libc::ioctl(socket, libc::SIOCGIFFLAGS as _, &raw mut request) } == 0;
    // SAFETY: on success the kernel has filled in this member; all are plain numbers anyway.
    ok.then(|| u32::from(unsafe { request.ifr_ifru.ifru_flags } as u16))
}

fn mtu(socket: libc::c_int, name: &CString) -> Option<u32> {
    let mut request = request(name);
    // SAFETY: the kernel reads the name and writes the MTU into the request.
    let ok = unsafe { libc::ioctl(socket, libc::SIOCGIFMTU as _, &raw mut request) } == 0;
    // SAFETY: on success the kernel has filled in this member; all are plain numbers anyway.
    ok.then(|| u32::try_from(unsafe { request.ifr_ifru.ifru_mtu }).unwrap_or(0))
}

/// `struct ethtool_channels` of the kernel's interface.
#[repr(C)]
#[derive(Default)]
struct Channels {
    cmd: u32,
    max: [u32; 4],
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

const ETHTOOL_GCHANNELS: u32 = 0x3c;
const SIOCETHTOOL: libc::c_ulong = 0x8946;

fn rx_queues(socket: libc::c_int, name: &CString) -> Option<u32> {
    let mut channels = Channels { cmd: ETHTOOL_GCHANNELS, ..Channels::default() };
    let mut request = request(name);
    request.ifr_ifru.ifru_data = (&raw mut channels).cast();
    // SAFETY: the kernel reads the name and the command and writes a struct of this layout.
    let ok = unsafe { libc::ioctl(socket, SIOCETHTOOL as _, &raw mut request) } == 0;
    ok.then(|| channels.rx.saturating_add(channels.combined))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_loopback() {
        let host = Host::probe();
        let lo = host.interface("lo").expect("every namespace has one");
        assert!(lo.mtu >= 1500);
        let index = interface_index("lo").expect("it has a number");
        assert_ne!(interface_state(index), InterfaceState::Gone);
        assert_eq!(interface_state(u32::MAX), InterfaceState::Gone);
        assert_eq!(interface_index("no such thing"), None);
    }

    #[test]
    fn features_of_an_interface() {
        assert!(link_features("lo").is_some_and(|f| f.tx_checksum), "loopback sums nothing");
        assert_eq!(link_features("no-such-if"), None);
        assert_eq!(link_features("a name far too long for an interface"), None);
    }

    #[test]
    fn directories_in_the_order_of_eal() {
        let mut host = Host {
            root: "/".into(),
            interfaces: Vec::new(),
            capabilities: 0,
            is_root: true,
            runtime_directory: Some("/run/svc".into()),
            xdg_runtime_dir: Some("/run/user/7".into()),
        };
        assert_eq!(host.eal_directory("x"), PathBuf::from("/run/svc/dpdk/x"));
        host.runtime_directory = None;
        assert_eq!(host.eal_directory("x"), PathBuf::from("/var/run/dpdk/x"));
        host.is_root = false;
        assert_eq!(host.eal_directory("x"), PathBuf::from("/run/user/7/dpdk/x"));
        host.xdg_runtime_dir = None;
        assert_eq!(host.eal_directory("x"), PathBuf::from("/tmp/dpdk/x"));
    }
}
