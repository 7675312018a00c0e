//! The same things as flags.

use super::raw::{Assignment, Cores, Located, OneOrMany, RawPort, RawStartup, Scalar};
use crate::error::{ConfigError, Place};

/// What the command line may say instead of, or in addition to, a start-up file. Texts are as
/// typed; nothing is checked yet. A file together with flags for a port is an error; the other
/// flags win over the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortFlags {
    /// `--vdev`
    pub vdev: Option<String>,
    /// `--pci`
    pub pci: Option<String>,
    /// `--address`, each
    pub addresses: Vec<String>,
    /// `--gateway`, each
    pub gateways: Vec<String>,
    /// `--mtu`
    pub mtu: Option<i64>,
    /// `--queues`
    pub queues: Option<i64>,
    /// `--rx-checksum`
    pub rx_checksum: Option<String>,
    /// `--cores`: `auto` or a list such as `1-3,5`
    pub cores: Option<String>,
    /// `--idle`
    pub idle: Option<String>,
    /// `--memory`
    pub memory: Option<String>,
    /// `--hugepages`
    pub hugepages: Option<bool>,
    /// `--buffers`
    pub buffers: Option<i64>,
    /// `--connections`
    pub connections: Option<i64>,
    /// `--time-wait`
    pub time_wait: Option<i64>,
    /// `--instance`
    pub instance: Option<String>,
    /// `--profile`
    pub profile: Option<String>,
    /// `--sysctl NAME=VALUE`, each
    pub sysctl: Vec<String>,
    /// Ports after the first.
    pub more: Vec<MorePort>,
}

/// A further port on the command line: a second `--vdev` or `--pci` and what belongs to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MorePort {
    /// `--vdev`
    pub vdev: Option<String>,
    /// `--pci`
    pub pci: Option<String>,
    /// `--address`, each
    pub addresses: Vec<String>,
    /// `--gateway`, each
    pub gateways: Vec<String>,
    /// `--mtu`
    pub mtu: Option<i64>,
    /// `--rx-checksum`
    pub rx_checksum: Option<String>,
}

const VDEV: &str = "--vdev";
const PCI: &str = "--pci";
const ADDRESS: &str = "--address";
const GATEWAY: &str = "--gateway";
const MTU: &str = "--mtu";
const QUEUES: &str = "--queues";
const RX_CHECKSUM: &str = "--rx-checksum";

impl PortFlags {
    /// The first flag that describes a port.
    fn first_of_port(&self) -> Option<&'static str> {
        [
            (self.vdev.is_some(), VDEV),
            (self.pci.is_some(), PCI),
            (!self.addresses.is_empty(), ADDRESS),
            (!self.gateways.is_empty(), GATEWAY),
            (self.mtu.is_some(), MTU),
            (self.queues.is_some(), QUEUES),
            (self.rx_checksum.is_some(), RX_CHECKSUM),
            (!self.more.is_empty(), VDEV),
        ]
        .into_iter()
        .find_map(|(given, flag)| given.then_some(flag))
    }

    /// The ports, the first one first.
    fn ports(&self) -> impl Iterator<Item = RawPort> {
        let first = MorePort {
            vdev: self.vdev.clone(),
            pci: self.pci.clone(),
            addresses: self.addresses.clone(),
            gateways: self.gateways.clone(),
            mtu: self.mtu,
            rx_checksum: self.rx_checksum.clone(),
        };
        core::iter::once(first).chain(self.more.iter().cloned()).map(|port| {
            let MorePort { vdev, pci, addresses, gateways, mtu, rx_checksum } = port;
            let text = |value: Option<String>, flag| value.map(|v| Located::flag(v, flag));
            let list = |values: Vec<String>, flag| {
                Some(OneOrMany(values.into_iter().map(|v| Located::flag(v, flag)).collect()))
            };
            RawPort {
                vdev: text(vdev, VDEV),
                pci: text(pci, PCI),
                addresses: list(addresses, ADDRESS),
                gateway: list(gateways, GATEWAY),
                mtu: mtu.map(|n| Located::flag(n, MTU)),
                queues: self.queues.map(|n| Located::flag(n, QUEUES)),
                rx_checksum: text(rx_checksum, RX_CHECKSUM),
            }
        })
    }

    /// A start-up file's worth of flags alone.
    pub(super) fn to_raw(&self) -> RawStartup {
        let mut raw = RawStartup::default();
        raw.ports.extend(self.ports().map(|value| Located { value, at: Place::Nowhere }));
        self.override_common(&mut raw);
        raw
    }

    /// Put the flags over what a file says.
    pub(super) fn override_file(&self, raw: &mut RawStartup) -> Result<(), ConfigError> {
        if let Some(flag) = self.first_of_port() {
            return Err(ConfigError::new("describes a port, and so does the file of --config")
                .key(flag)
                .help("use one or the other"));
        }
        self.override_common(raw);
        Ok(())
    }

    fn override_common(&self, raw: &mut RawStartup) {
        let put = |to: &mut Option<Located<String>>, value: &Option<String>, flag| {
            if let Some(value) = value {
                *to = Some(Located::flag(value.clone(), flag));
            }
        };
        put(&mut raw.instance, &self.instance, "--instance");
        put(&mut raw.profile, &self.profile, "--profile");
        put(&mut raw.dataplane.idle, &self.idle, "--idle");
        if let Some(cores) = &self.cores {
            raw.dataplane.cores = Some(Located::flag(Cores::Text(cores.clone()), "--cores"));
        }
        if let Some(memory) = &self.memory {
            raw.dataplane.memory = Some(Located::flag(Scalar::Text(memory.clone()), "--memory"));
        }
        for (to, value, flag) in [
            (&mut raw.limits.buffers, self.buffers, "--buffers"),
            (&mut raw.limits.connections, self.connections, "--connections"),
            (&mut raw.limits.time_wait, self.time_wait, "--time-wait"),
        ] {
            if let Some(n) = value {
                *to = Some(Located::flag(n, flag));
            }
        }
        if let Some(on) = self.hugepages {
            raw.dataplane.hugepages = Some(Located::flag(on, "--hugepages"));
        }
    }

    /// The knobs of the command line.
    pub(super) fn assignments(&self) -> Result<Vec<Assignment>, ConfigError> {
        const FLAG: &str = "--sysctl";
        self.sysctl
            .iter()
            .map(|text| match text.split_once('=') {
                Some((name, value)) => Ok(Assignment {
                    name: Located::flag(name.trim().into(), FLAG),
                    value: Located::flag(value.into(), FLAG),
                }),
                None => {
                    Err(ConfigError::new(format!("{} is not NAME=VALUE", crate::text::quote(text)))
                        .key(FLAG))
                }
            })
            .collect()
    }
}
