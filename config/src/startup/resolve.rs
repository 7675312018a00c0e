//! From what was written to what is meant. Contradictions are found here.

use core::net::IpAddr;
use core::time::Duration;

use stack::{ChecksumPolicy, Limits, LocalAddress};

use super::raw::{
    Assignment, Cores, Located, RawDataplane, RawLimits, RawPort, RawStartup, Scalar,
};
use super::{
    AppConfig, Dataplane, DeviceSpec, IdlePolicy, MTU_MAX, MTU_MIN_V4, MTU_MIN_V6, Port, Startup,
    Worker, address, apps, units,
};
use crate::error::{Place, Text};
use crate::knobs::{Source, find, table};
use crate::text::quote;
use crate::{ConfigError, KnobError, Knobs, Profile};

/// Ports at most, as in DPDK.
const PORTS_MAX: usize = 32;
/// Workers at most, as in DPDK.
const WORKERS_MAX: usize = 128;
/// Addresses of a port at most.
const ADDRESSES_MAX: usize = 64;
/// Applications at most.
const APPS_MAX: usize = 64;
/// Bytes of an instance's name at most: it becomes part of the path of a socket.
const INSTANCE_MAX: usize = 48;

const MEMORY_DEFAULT: u64 = 256 << 20;
const MEMORY_MIN: u64 = 16 << 20;
const MEMORY_MAX: u64 = 1 << 40;

const STOP_LIMIT_DEFAULT: Duration = Duration::from_secs(5);
const STOP_LIMIT_MAX: Duration = Duration::from_secs(3600);

/// Fewer buffers do not fill the rings of a device.
const BUFFERS_MIN: u32 = 1024;
/// More are not taken unless asked for: 128 MiB of payload.
const BUFFERS_AUTO_MAX: u32 = 65_536;
const BUFFERS_MAX: u32 = 1 << 24;

pub(super) fn resolve(
    raw: RawStartup,
    flags: &[Assignment],
    source: Text<'_>,
    available: &[usize],
) -> Result<Startup, ConfigError> {
    // Without `..`: a new key must be looked at here.
    let RawStartup { instance, profile, dataplane, ports: raw_ports, limits, sysctl, apps } = raw;
    let mut warnings = Vec::new();

    let instance = instance_name(instance, source)?;
    let profile = match &profile {
        Some(text) => parse(text, "profile", source)?,
        None => Profile::default(),
    };
    let knobs = knobs(profile, &sysctl.0, flags, &limits, source, &mut warnings)?;
    let limits_resolved = table_limits(&limits, &knobs, source, &mut warnings)?;

    let devices = ports(&raw_ports, source)?;
    let (cores, queues) = workers(&dataplane, &raw_ports, &devices, source, available)?;
    let mut ports = Vec::new();
    for ((raw, device), queues) in raw_ports.iter().zip(devices).zip(&queues) {
        ports.push(port(raw, device, *queues, &ports, source)?);
    }
    let workers = assign(&cores, &ports);
    let dataplane = process(&dataplane, &limits, &ports, workers.len(), source, &mut warnings)?;
    check_sizes(&knobs, &sysctl.0, flags, &dataplane, &ports, source, &mut warnings)?;

    let addresses: Vec<LocalAddress> = ports.iter().flat_map(|p| p.addresses.clone()).collect();
    if apps.len() > APPS_MAX {
        return Err(source.error(
            &apps[APPS_MAX].at,
            "app",
            format!("more than {APPS_MAX} applications"),
        ));
    }
    let mut resolved: Vec<AppConfig> = Vec::new();
    for raw in &apps {
        let app = apps::resolve(raw, source, &addresses)?;
        if let Some(other) = resolved.iter().find(|other| apps::collide(other, &app)) {
            return Err(source.error(
                &raw.at,
                "app",
                format!(
                    "{} and {} both listen on port {}",
                    other.kind.name(),
                    app.kind.name(),
                    app.port
                ),
            ));
        }
        resolved.push(app);
    }
    Ok(Startup {
        instance,
        dataplane,
        ports,
        workers,
        limits: limits_resolved,
        apps: resolved,
        warnings,
        knobs,
    })
}

/// Parse a text whose error says everything.
fn parse<T: core::str::FromStr<Err = String>>(
    text: &Located<String>,
    key: &str,
    source: Text<'_>,
) -> Result<T, ConfigError> {
    text.value.parse().map_err(|what: String| source.error(&text.at, key, what))
}

/// A number in a range, or the default.
fn number(
    raw: &Option<Located<i64>>,
    key: &str,
    range: core::ops::RangeInclusive<u32>,
    default: u32,
    source: Text<'_>,
) -> Result<u32, ConfigError> {
    let Some(raw) = raw else { return Ok(default) };
    match u32::try_from(raw.value) {
        Ok(n) if range.contains(&n) => Ok(n),
        _ => Err(source.error(
            &raw.at,
            key,
            format!("{} is not in {}..{}", raw.value, range.start(), range.end()),
        )),
    }
}

fn instance_name(raw: Option<Located<String>>, source: Text<'_>) -> Result<String, ConfigError> {
    let Some(raw) = raw else { return Ok("default".into()) };
    let name = &raw.value;
    let fine = (1..=INSTANCE_MAX).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
        && name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if fine {
        return Ok(raw.value);
    }
    Err(source.error(
        &raw.at,
        "instance",
        format!(
            "{} is not a name of 1 to {INSTANCE_MAX} letters, digits, _ - . that begins with a \
             letter or digit",
            quote(name)
        ),
    ))
}

/// Profile, then file, then command line.
fn knobs(
    profile: Profile,
    file: &[Assignment],
    flags: &[Assignment],
    limits: &RawLimits,
    source: Text<'_>,
    warnings: &mut Vec<String>,
) -> Result<Knobs, ConfigError> {
    let mut knobs = Knobs::new(profile);
    // A bound of [limits] that is a knob as well is set as one, so that `sysctl` shows the truth.
    let mut file: Vec<(&Located<String>, &Located<String>)> =
        file.iter().map(|a| (&a.name, &a.value)).collect();
    let time_wait = limits.time_wait.as_ref().map(|n| {
        let name = Located { value: TIME_WAIT_KNOB.to_owned(), at: n.at.clone() };
        let value = Located { value: n.value.to_string(), at: n.at.clone() };
        (name, value)
    });
    if let Some((name, value)) = &time_wait {
        file.push((name, value));
    }
    // On a command line the last of several wins.
    let flags: Vec<(&Located<String>, &Located<String>)> = flags
        .iter()
        .enumerate()
        .filter(|(i, a)| {
            let index = find(&a.name.value);
            index.is_err() || flags.iter().skip(i + 1).all(|later| find(&later.name.value) != index)
        })
        .map(|(_, a)| (&a.name, &a.value))
        .collect();
    let limit_at = limits.time_wait.as_ref().map(|n| &n.at);
    let mut idle = Vec::new();
    for (assignments, from) in [(file, Source::File), (flags, Source::CommandLine)] {
        let pairs = assignments.iter().map(|(n, v)| (n.value.as_str(), v.value.as_str()));
        let changes = knobs.set_all(pairs, from).map_err(|(index, error)| {
            let (name, value) = assignments[index];
            let place = match error {
                KnobError::Unknown { .. }
                | KnobError::Ambiguous { .. }
                | KnobError::ReadOnly { .. }
                | KnobError::AtStartOnly { .. }
                | KnobError::Twice { .. } => &name.at,
                KnobError::Syntax { .. } | KnobError::Range { .. } | KnobError::Conflict { .. } => {
                    &value.at
                }
            };
            let key = if name.value == TIME_WAIT_KNOB && Some(&name.at) == limit_at {
                "time_wait"
            } else {
                "sysctl"
            };
            source.error(place, key, error.to_string())
        })?;
        for change in changes {
            if change.is_idle(profile) {
                idle.push(change.knob.name);
            } else {
                warnings.extend(change.warnings);
            }
        }
    }
    if !idle.is_empty() {
        warnings.push(format!("kept, but nothing uses them yet: {}", idle.join(", ")));
    }
    Ok(knobs)
}

const TIME_WAIT_KNOB: &str = "net.ipv4.tcp_max_tw_buckets";

fn table_limits(
    raw: &RawLimits,
    knobs: &Knobs,
    source: Text<'_>,
    warnings: &mut Vec<String>,
) -> Result<Limits, ConfigError> {
    // `time_wait` came in as a knob, `buffers` belong to the process.
    let RawLimits {
        connections,
        half_open,
        time_wait: _,
        neighbors,
        listeners,
        fragments,
        buffers: _,
    } = raw;
    let usual = Limits::default();
    let mut limits = Limits {
        connections: number(connections, "connections", 1..=1 << 24, usual.connections, source)?,
        half_open: number(half_open, "half_open", 1..=1 << 20, usual.half_open, source)?,
        time_wait: usual.time_wait,
        neighbors: number(neighbors, "neighbors", 4..=1 << 16, usual.neighbors, source)?,
        listeners: number(listeners, "listeners", 1..=4096, usual.listeners.into(), source)? as u16,
        fragments: number(fragments, "fragments", 0..=4096, usual.fragments.into(), source)? as u16,
    };
    knobs.apply_limits(&mut limits);
    if limits.half_open > limits.connections {
        if half_open.is_some() {
            warnings.push(format!(
                "limits: half_open = {} is above connections = {} and can never be reached",
                limits.half_open, limits.connections
            ));
        }
        limits.half_open = limits.connections;
    }
    Ok(limits)
}

/// The device of each port, each of them once.
fn ports(raw: &[Located<RawPort>], source: Text<'_>) -> Result<Vec<DeviceSpec>, ConfigError> {
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

/// Which cores work, and how many queues each port has: as many in all as there are cores.
fn workers(
    raw: &RawDataplane,
    raw_ports: &[Located<RawPort>],
    devices: &[DeviceSpec],
    source: Text<'_>,
    available: &[usize],
) -> Result<(Vec<usize>, Vec<u16>), ConfigError> {
    let mut available = available.to_vec();
    available.sort_unstable();
    available.dedup();
    let wanted: Vec<Option<usize>> = raw_ports
        .iter()
        .map(|port| match &port.value.queues {
            None => Ok(None),
            some => {
                number(some, "queues", 1..=WORKERS_MAX as u32, 1, source).map(|n| Some(n as usize))
            }
        })
        .collect::<Result<_, _>>()?;
    let said: usize = wanted.iter().flatten().sum();
    let silent = wanted.iter().filter(|q| q.is_none()).count();
    let listed = match &raw.cores {
        None => None,
        Some(cores) => core_list(cores, &available, source)?.map(|list| (list, &cores.at)),
    };
    let Some((cores, at)) = listed else {
        let needed = said + silent;
        if needed > available.len() {
            let at = raw_ports
                .iter()
                .filter_map(|p| p.value.queues.as_ref())
                .next_back()
                .map_or(&Place::Nowhere, |q| &q.at);
            return Err(source.error(
                at,
                "queues",
                format!(
                    "{needed} workers need as many cores, and {} of them may be used: {}",
                    available.len(),
                    show_cores(&available)
                ),
            ));
        }
        // The first cores are left to the control thread and to everybody else.
        let cores = available.split_off(available.len() - needed);
        let queues = wanted.iter().map(|q| q.unwrap_or(1) as u16).collect();
        return Ok((cores, queues));
    };
    let each = match (silent, cores.len().checked_sub(said)) {
        (0, _) => 0,
        (_, Some(rest)) if rest >= silent && rest.is_multiple_of(silent) => rest / silent,
        _ => {
            return Err(source
                .error(
                    at,
                    "cores",
                    format!(
                        "{} workers cannot be shared evenly among {} ports",
                        cores.len(),
                        devices.len()
                    ),
                )
                .help("give each port its queues"));
        }
    };
    let queues: Vec<usize> = wanted.iter().map(|q| q.unwrap_or(each)).collect();
    let sum: usize = queues.iter().sum();
    if cores.len() > sum {
        return Err(source.error(
            at,
            "cores",
            format!("{} workers are more than {sum} queues: some would have no work", cores.len()),
        ));
    }
    if cores.len() < sum {
        return Err(source.error(
            at,
            "cores",
            format!("{} workers are fewer than {sum} queues: some would starve", cores.len()),
        ));
    }
    Ok((cores, queues.into_iter().map(|q| q as u16).collect()))
}

/// The cores listed; `None` for `auto`.
fn core_list(
    raw: &Located<Cores>,
    available: &[usize],
    source: Text<'_>,
) -> Result<Option<Vec<usize>>, ConfigError> {
    let fail = |what: String| source.error(&raw.at, "cores", what);
    let list = match &raw.value {
        Cores::Text(text) if text == "auto" => return Ok(None),
        Cores::Text(text) => units::cores(text, WORKERS_MAX).ok_or_else(|| {
            fail(format!("{} is neither auto nor a list such as 1-3,5", quote(text)))
        })?,
        Cores::List(list) => list.clone(),
    };
    if list.is_empty() {
        return Err(fail("zero workers: list at least one core, or write \"auto\"".into()));
    }
    if list.len() > WORKERS_MAX {
        return Err(fail(format!("more than {WORKERS_MAX} workers")));
    }
    let mut cores: Vec<usize> = Vec::new();
    for n in list {
        let core = usize::try_from(n).ok().filter(|core| available.contains(core));
        let Some(core) = core else {
            return Err(fail(format!(
                "there is no core {n} for this process; it may use {}",
                show_cores(available)
            )));
        };
        if cores.contains(&core) {
            return Err(fail(format!("core {core} is listed twice")));
        }
        cores.push(core);
    }
    Ok(Some(cores))
}

/// Cores as people write them: `0-3,8`.
fn show_cores(cores: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &core in cores {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => parts.push((core, core)),
        }
    }
    if parts.is_empty() {
        return "none".into();
    }
    let show = |(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    parts.iter().map(show).collect::<Vec<_>>().join(",")
}

/// Cores to queues in the order of the ports.
fn assign(cores: &[usize], ports: &[Port]) -> Vec<Worker> {
    let slots =
        ports.iter().enumerate().flat_map(|(port, p)| (0..p.queues).map(move |q| (port, q)));
    cores.iter().zip(slots).map(|(&core, (port, queue))| Worker { core, port, queue }).collect()
}

fn port(
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
    let device = match device {
        DeviceSpec::Vdev(v) => {
            let device_at = vdev.as_ref().or(pci.as_ref()).map_or(&raw.at, |d| &d.at);
            let at = mtu.as_ref().map_or(device_at, |m| &m.at);
            DeviceSpec::Vdev(v.fit(size, queues).map_err(|what| source.error(at, "vdev", what))?)
        }
        pci @ DeviceSpec::Pci(_) => pci,
    };
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

/// Bytes of a buffer for packets of `mtu` bytes: descriptor and pool header, headroom, and data
/// rounded up to cache lines.
fn buffer_bytes(mtu: u16) -> u64 {
    const HEADERS: u64 = 128 + 64 + 128;
    HEADERS + data_room(mtu)
}

/// Bytes of data in a buffer: a whole frame, and never less than DPDK's usual 2048.
fn data_room(mtu: u16) -> u64 {
    const ETHERNET_AND_TAGS: u64 = 14 + 8;
    (u64::from(mtu) + ETHERNET_AND_TAGS).next_multiple_of(64).max(2048)
}

fn largest_mtu(ports: &[Port]) -> u16 {
    ports.iter().map(|p| p.mtu).max().unwrap_or(1500)
}

fn process(
    raw: &RawDataplane,
    limits: &RawLimits,
    ports: &[Port],
    workers: usize,
    source: Text<'_>,
    warnings: &mut Vec<String>,
) -> Result<Dataplane, ConfigError> {
    let RawDataplane { cores: _, idle, memory, hugepages, stop_limit, control } = raw;
    let software = ports.iter().all(|p| p.device.is_software());
    let idle = match idle {
        Some(text) => parse(text, "idle", source)?,
        None if software => IdlePolicy::Adaptive,
        None => IdlePolicy::Poll,
    };
    let memory_bytes = match memory {
        None => MEMORY_DEFAULT,
        Some(text) => match units::size(&text.value.to_string()) {
            Some(n) if (MEMORY_MIN..=MEMORY_MAX).contains(&n) => n,
            _ => {
                return Err(source.error(
                    &text.at,
                    "memory",
                    format!(
                        "{} is not a size between 16MiB and 1TiB",
                        quote(&text.value.to_string())
                    ),
                ));
            }
        },
    };
    let hugepages = match hugepages {
        Some(on) => {
            if !on.value && !software {
                warnings.push("hugepages = false: most PCI devices do not start without".into());
            }
            on.value
        }
        None => !software,
    };
    let stop_limit = match stop_limit {
        None => STOP_LIMIT_DEFAULT,
        Some(text) => match seconds(&text.value) {
            Some(t) if t <= STOP_LIMIT_MAX => t,
            _ => {
                return Err(source.error(
                    &text.at,
                    "stop_limit",
                    format!("{} is not a time up to 1h", quote(&text.value.to_string())),
                ));
            }
        },
    };
    // A quarter is left for rings, tables of the drivers and the allocator itself.
    let per_worker = (memory_bytes / 4 * 3) / workers.max(1) as u64;
    let bytes = buffer_bytes(largest_mtu(ports));
    let fitting = per_worker / bytes;
    let buffers = match &limits.buffers {
        Some(raw_buffers) => {
            let n = number(&limits.buffers, "buffers", BUFFERS_MIN..=BUFFERS_MAX, 0, source)?;
            if u64::from(n) > fitting {
                return Err(too_little_memory(
                    source,
                    &raw_buffers.at,
                    n,
                    bytes,
                    workers,
                    memory_bytes,
                ));
            }
            n
        }
        None if fitting < BUFFERS_MIN.into() => {
            let at = memory.as_ref().map_or(&Place::Nowhere, |m| &m.at);
            return Err(too_little_memory(source, at, BUFFERS_MIN, bytes, workers, memory_bytes));
        }
        None => fitting.min(BUFFERS_AUTO_MAX.into()) as u32,
    };
    Ok(Dataplane {
        idle,
        memory_bytes,
        hugepages,
        stop_limit,
        control: control.unwrap_or(true),
        buffers,
    })
}

fn seconds(text: &Scalar) -> Option<Duration> {
    units::time(&text.to_string())
}

fn too_little_memory(
    source: Text<'_>,
    at: &Place,
    buffers: u32,
    bytes: u64,
    workers: usize,
    memory: u64,
) -> ConfigError {
    let needed = u64::from(buffers) * bytes * workers as u64;
    source
        .error(
            at,
            "buffers",
            format!(
                "{buffers} buffers of {bytes} bytes for each of {workers} workers do not fit into \
                 three quarters of {}",
                units::show_size(memory)
            ),
        )
        .help(format!("memory = \"{}MiB\" would do", (needed.div_ceil(3) * 4).div_ceil(1 << 20)))
}

/// What only shows when knobs, ports and memory are seen together.
fn check_sizes(
    knobs: &Knobs,
    file: &[Assignment],
    flags: &[Assignment],
    dataplane: &Dataplane,
    ports: &[Port],
    source: Text<'_>,
    warnings: &mut Vec<String>,
) -> Result<(), ConfigError> {
    let pool = u64::from(dataplane.buffers) * data_room(largest_mtu(ports));
    for name in ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"] {
        let Ok(index) = find(name) else { continue };
        let (value, from) = knobs.at(index);
        let max = value.at(2);
        if u64::try_from(max).is_ok_and(|max| max > pool) {
            let what = format!(
                "{}: the maximum {max} is more than the {pool} bytes that all buffers of a worker hold",
                table()[index].name
            );
            // What somebody asked for has to be possible; a default is only explained.
            if from == Source::Default {
                warnings.push(what);
            } else {
                let written = flags.iter().rev().chain(file);
                let at = written
                    .filter(|a| find(&a.name.value) == Ok(index))
                    .map(|a| &a.value.at)
                    .next()
                    .unwrap_or(&Place::Nowhere);
                return Err(source
                    .error(at, "sysctl", what)
                    .help("raise memory, or lower the maximum"));
            }
        }
    }
    let probing = knobs.value("net.ipv4.tcp_mtu_probing").is_ok_and(|v| v.int() > 0);
    let base = knobs.value("net.ipv4.tcp_base_mss").map_or(0, |v| v.int());
    for port in ports {
        if probing && base.saturating_add(40) > i64::from(port.mtu) {
            warnings.push(format!(
                "net.ipv4.tcp_base_mss = {base} does not fit into the MTU {} of {}: a search begins \
                 at what fits",
                port.mtu,
                port.device.name()
            ));
        }
    }
    Ok(())
}
