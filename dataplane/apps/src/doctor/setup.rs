//! Would it start: what was asked for, held against the machine.

use config::{AppKind, Startup};

use super::root::Root;
use super::{Finding, Process, cpu};

/// Whether a software device can be opened at all.
#[cfg(feature = "dpdk")]
pub(super) fn default_mode() -> Vec<Finding> {
    use runtime::ports::{DeviceName, PortRequest, preflight};
    let device = DeviceName::Vdev("net_null0".to_owned());
    let request = PortRequest { device, mtu: 1500, queues: 1, buffers: None, promiscuous: false };
    let faults = preflight(&request, None, false);
    if faults.is_empty() {
        return vec![Finding::ok("start", "a software device can be opened")];
    }
    faults.into_iter().map(fault).collect()
}

#[cfg(not(feature = "dpdk"))]
pub(super) fn default_mode() -> Vec<Finding> {
    Vec::new()
}

#[cfg(feature = "dpdk")]
fn fault(fault: runtime::ports::PortFault) -> Finding {
    let todo = fault.help.iter().map(|line| line.trim_start_matches("try: ")).collect::<Vec<_>>();
    let todo =
        if todo.is_empty() { "change the configuration".to_owned() } else { todo.join("; ") };
    Finding::problem("start", fault.what, todo)
}

pub(super) fn check(root: &Root, process: &Process, startup: &Startup) -> Vec<Finding> {
    let mut out = devices(startup);
    out.extend(memory(root, startup));
    out.extend(workers(root, startup));
    out.extend(veth(root, process, startup));
    out.extend(listeners(startup));
    out.extend(
        startup
            .warnings
            .iter()
            .map(|w| Finding::advice("configuration", w.as_str(), "see docs/knobs.md and config/")),
    );
    out
}

#[cfg(feature = "dpdk")]
fn devices(startup: &Startup) -> Vec<Finding> {
    use config::startup::DeviceSpec;
    use runtime::ports::{DeviceName, PortRequest, preflight};
    let memory = u32::try_from(startup.dataplane.memory_bytes >> 20).ok();
    let mut out = Vec::new();
    for port in &startup.ports {
        let request = PortRequest {
            device: match &port.device {
                DeviceSpec::Vdev(v) => DeviceName::Vdev(v.to_string()),
                DeviceSpec::Pci(p) => DeviceName::Pci(p.to_string()),
            },
            mtu: port.mtu,
            queues: port.queues,
            buffers: Some(startup.dataplane.buffers),
            promiscuous: false,
        };
        let faults = preflight(&request, memory, startup.dataplane.hugepages);
        if faults.is_empty() {
            out.push(Finding::ok("start", format!("{} can be opened", port.device)));
        }
        out.extend(faults.into_iter().map(fault));
    }
    out
}

#[cfg(not(feature = "dpdk"))]
fn devices(_: &Startup) -> Vec<Finding> {
    Vec::new()
}

/// Ordinary memory; hugepages are looked at with the devices.
pub(super) fn memory(root: &Root, startup: &Startup) -> Option<Finding> {
    if startup.dataplane.hugepages {
        return None;
    }
    let line = root.field("proc/meminfo", "MemAvailable")?;
    let available: u64 = line.split_whitespace().next()?.parse().ok()?;
    let wanted = startup.dataplane.memory_bytes >> 10;
    Some(if wanted <= available {
        Finding::ok("memory", format!("{} MiB of {} MiB", wanted >> 10, available >> 10))
    } else {
        Finding::problem(
            "memory",
            format!("{} MiB are wanted, and {} MiB are there", wanted >> 10, available >> 10),
            "ask for less with --memory, or fewer buffers in [limits]",
        )
    })
}

/// Cores of the workers.
pub(super) fn workers(root: &Root, startup: &Startup) -> Option<Finding> {
    let cores: Vec<usize> = startup.workers.iter().map(|w| w.core).collect();
    let list = cpu::shared(root, &cores)?;
    Some(Finding::advice(
        "workers",
        format!("two workers on the hyper-threads {list} of one core"),
        "name one of them in --cores",
    ))
}

/// What the peer of a veth leaves to hardware that is not there comes to us unfinished.
pub(super) fn veth(root: &Root, process: &Process, startup: &Startup) -> Vec<Finding> {
    let mut out = Vec::new();
    for port in &startup.ports {
        let config::startup::DeviceSpec::Vdev(vdev) = &port.device else { continue };
        let Some(name) = vdev.arg("iface").filter(|_| vdev.driver() != "net_tap") else { continue };
        let number = |name: &str, file: &str| root.number(&format!("sys/class/net/{name}/{file}"));
        let (own, peer) = (number(name, "ifindex"), number(name, "iflink"));
        // An interface that is not the end of a pair is its own link.
        let Some(peer) = peer.filter(|peer| Some(*peer) != own) else { continue };
        let names = root.names("sys/class/net");
        let peer = names.into_iter().find(|n| number(n, "ifindex") == Some(peer) && n != name);
        out.push(match peer.as_deref().map(|peer| (peer, (process.offloads)(peer))) {
            Some((peer, Some(on))) if on.is_empty() => {
                Finding::ok("veth", format!("{peer}, the peer of {name}, leaves nothing undone"))
            }
            Some((peer, on)) => Finding::advice(
                "veth",
                format!(
                    "{peer}, the peer of {name}, leaves {} undone",
                    on.map_or_else(|| "perhaps something".to_owned(), |on| on.join(", "))
                ),
                format!("ethtool -K {peer} tx off tso off gso off"),
            ),
            None => Finding::advice(
                "veth",
                format!(
                    "the peer of {name} is in another namespace and may leave checksums undone"
                ),
                "there: ethtool -K PEER tx off tso off gso off",
            ),
        });
    }
    out
}

/// Ports that applications listen on and that connections of ours may take before them.
pub(super) fn listeners(startup: &Startup) -> Vec<Finding> {
    let name = "net.ipv4.ip_local_port_range";
    let Ok(range) = startup.knobs().get(name) else { return Vec::new() };
    let mut ends = range.split_whitespace().filter_map(|n| n.parse::<u16>().ok());
    let (Some(first), Some(last)) = (ends.next(), ends.next()) else { return Vec::new() };
    let inside = startup.apps.iter().filter(|app| (first..=last).contains(&app.port));
    inside
        .map(|app| {
            let kind = match app.kind {
                AppKind::IperfServer { .. } => "iperf-server",
                _ => app.kind.name(),
            };
            Finding::advice(
                "ports",
                format!("{kind} listens on {}, within {name} = {first} {last}", app.port),
                format!("net.ipv4.ip_local_reserved_ports, or a port outside of {first}-{last}"),
            )
        })
        .collect()
}
