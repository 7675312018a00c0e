//! How a dataplane starts: cores, ports, addresses, bounds, knobs, applications.
//!
//! A [`Startup`] is made from a file ([`Startup::from_file`]) or from flags
//! ([`Startup::from_flags`]); both go through the same checks, and the first fault found is
//! reported with its place. Holding a `Startup` proves that it is consistent: addresses are
//! hosts', no two ports lead to the same network, gateways can be reached, every worker has one queue of
//! each port, the memory suffices.
//!
//! ```
//! let file = r#"
//! [[port]]
//! vdev = "net_tap0,iface=tap0"
//! addresses = ["10.0.0.2/24"]
//! gateway = "10.0.0.1"
//!
//! [sysctl]
//! net.ipv4.tcp_rmem = [4096, 131072, 33554432]
//!
//! [[app]]
//! kind = "iperf-server"
//! "#;
//! let cores = [0, 1];
//! let startup = config::Startup::from_text("demo.toml", file, &Default::default(), &cores)?;
//! assert_eq!(startup.ports[0].device.name(), "net_tap0");
//! assert_eq!(startup.workers[0].core, 1);
//! # Ok::<(), config::ConfigError>(())
//! ```

mod address;
mod apps;
mod cores;
mod device;
mod file;
mod flags;
mod ports;
mod process;
mod raw;
mod resolve;
mod units;

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::str::FromStr;
use core::time::Duration;
use std::path::Path;

use base::WorkerId;
use stack::{ChecksumPolicy, Limits, LocalAddress, PortSetup, StackConfig};

pub use address::{local_address, overlap};
pub use apps::{AppConfig, AppKind};
pub use device::{DeviceSpec, PciAddress, Vdev};
pub use file::FILE_BYTES_MAX;
pub use flags::{MorePort, PortFlags};

use crate::error::Text;
use crate::{ConfigError, Knobs};

/// Smallest MTU of a port with IPv4 addresses only: what RFC 791 obliges every host to take.
pub const MTU_MIN_V4: u16 = 576;
/// Smallest MTU of a port with an IPv6 address, RFC 8200 section 5.
pub const MTU_MIN_V6: u16 = 1280;
/// Largest MTU of a port: what NICs call jumbo.
pub const MTU_MAX: u16 = 9216;

/// What a worker does when there is nothing to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IdlePolicy {
    /// Look again at once: the core belongs to the worker.
    Poll,
    /// Spin a little, then pause, then sleep: the core is shared.
    #[default]
    Adaptive,
}

impl IdlePolicy {
    /// The name used in files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Poll => "poll",
            Self::Adaptive => "adaptive",
        }
    }
}

impl fmt::Display for IdlePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for IdlePolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Poll, Self::Adaptive].into_iter().find(|i| i.name() == text).ok_or_else(|| {
            format!("{} is not an idle policy: poll or adaptive", crate::text::quote(text))
        })
    }
}

/// What concerns the whole process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dataplane {
    /// What workers do when there is nothing to do. Default: `Adaptive` with software devices only,
    /// `Poll` otherwise.
    pub idle: IdlePolicy,
    /// Memory for DPDK, bytes.
    pub memory_bytes: u64,
    /// Whether that memory is made of hugepages. Default: only with a PCI device.
    pub hugepages: bool,
    /// How long an orderly stop may take.
    pub stop_limit: Duration,
    /// Whether there is a control socket.
    pub control: bool,
    /// Buffers in the pool of each worker.
    pub buffers: u32,
    /// Bytes of data that each of them holds, headroom not counted: a whole frame.
    pub data_room_bytes: u32,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The device.
    pub device: DeviceSpec,
    /// Our addresses; at least one.
    pub addresses: Vec<LocalAddress>,
    /// Next hop for IPv4 destinations outside of all prefixes.
    pub gateway4: Option<Ipv4Addr>,
    /// The same for IPv6.
    pub gateway6: Option<Ipv6Addr>,
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// Queue pairs: one for each worker, so that all ports have the same number.
    pub queues: u16,
    /// Whom to believe about checksums of received frames.
    pub rx_checksum: ChecksumPolicy,
}

/// A worker: one core, and one queue pair of each port, which has the worker's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Worker {
    /// The core it is pinned to.
    pub core: usize,
}

/// A checked configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Startup {
    /// Name of the running dataplane; letters, digits, `_`, `-` and `.`.
    pub instance: String,
    /// The process.
    pub dataplane: Dataplane,
    /// The ports, at least one.
    pub ports: Vec<Port>,
    /// The workers.
    pub workers: Vec<Worker>,
    /// Bounds of each worker's tables.
    pub limits: Limits,
    /// The applications, each of which runs on all workers.
    pub apps: Vec<AppConfig>,
    /// What deserves a second thought, one line each.
    pub warnings: Vec<String>,
    knobs: Knobs,
}

impl Startup {
    /// Read and check the file at `path`, with `flags` over it. `available` are the cores that this
    /// process may run on.
    pub fn from_file(
        path: &Path,
        flags: &PortFlags,
        available: &[usize],
    ) -> Result<Self, ConfigError> {
        let text = file::read(path)?;
        Self::from_text(&path.display().to_string(), &text, flags, available)
    }

    /// Check the bytes of a file called `name`, with `flags` over it.
    pub fn from_bytes(
        name: &str,
        bytes: Vec<u8>,
        flags: &PortFlags,
        available: &[usize],
    ) -> Result<Self, ConfigError> {
        Self::from_text(name, &file::decode(name, bytes)?, flags, available)
    }

    /// Check the text of a file called `name`, with `flags` over it.
    pub fn from_text(
        name: &str,
        text: &str,
        flags: &PortFlags,
        available: &[usize],
    ) -> Result<Self, ConfigError> {
        let source = Text { file: Some(name), text };
        let mut raw = toml::from_str(text).map_err(|e| source.parse_error(&e))?;
        flags.override_file(&mut raw)?;
        resolve::resolve(raw, &flags.assignments()?, source, available)
    }

    /// Check flags alone: ports, no applications.
    pub fn from_flags(flags: &PortFlags, available: &[usize]) -> Result<Self, ConfigError> {
        let source = Text { file: None, text: "" };
        resolve::resolve(flags.to_raw(), &flags.assignments()?, source, available)
    }

    /// The knobs as the start left them.
    pub fn knobs(&self) -> &Knobs {
        &self.knobs
    }

    /// What the stack of worker `index` of [`Self::workers`] is built from; `None` beyond the last.
    pub fn stack_config(&self, index: usize) -> Option<StackConfig> {
        self.workers.get(index)?;
        let setup = |port: &Port| PortSetup {
            addresses: port.addresses.clone(),
            gateway4: port.gateway4,
            gateway6: port.gateway6,
            mtu: port.mtu,
            rx_checksum: port.rx_checksum,
        };
        Some(StackConfig {
            worker: WorkerId(index as u16),
            workers: self.workers.len() as u16,
            ports: self.ports.iter().map(setup).collect(),
            limits: self.limits,
            stop_limit: self.dataplane.stop_limit,
        })
    }
}

#[cfg(test)]
mod tests;
