//! Memory, buffers and what else concerns the whole process.

use core::time::Duration;

use super::raw::{Assignment, RawDataplane, RawLimits};
use super::resolve::{number, parse};
use super::{Dataplane, DeviceSpec, IdlePolicy, Port, units};
use crate::error::{Place, Text};
use crate::knobs::{Source, find, table};
use crate::text::quote;
use crate::{ConfigError, Knobs};

const MEMORY_DEFAULT: u64 = 256 << 20;
const MEMORY_MIN: u64 = 16 << 20;
const MEMORY_MAX: u64 = 1 << 40;

const STOP_LIMIT_DEFAULT: Duration = Duration::from_secs(5);
const STOP_LIMIT_MAX: Duration = Duration::from_secs(3600);

/// Fewer buffers do not fill the rings of a device.
const BUFFERS_MIN: u32 = 1024;
/// More are not taken unless asked for: 32 MiB of payload, the largest receive buffer by default.
const BUFFERS_AUTO_MAX: u32 = 16_384;
const BUFFERS_MAX: u32 = 1 << 24;

/// Bytes of a buffer besides its data: descriptor, what the pool puts around it, headroom.
const AROUND_DATA: u64 = 128 + 128 + 128;
/// With each buffer come two small ones, for a frame's headers and for its reference to the data.
const BUFFER_HEADERS: u64 = AROUND_DATA + 2 * (AROUND_DATA + 384);

/// Bytes of data in a buffer: a whole frame of any port with its link header, a VLAN tag and what
/// a slot of a packet ring has in front, and never less than DPDK's usual 2048.
fn data_room(ports: &[Port]) -> u32 {
    const AROUND: u32 = 14 + 4 + 80;
    let needed = ports.iter().map(|port| {
        let asked = match &port.device {
            DeviceSpec::Vdev(v) => v.data_room(),
            DeviceSpec::Pci(_) => 0,
        };
        (u32::from(port.mtu) + AROUND).next_multiple_of(1024).max(asked)
    });
    needed.max().unwrap_or(0).clamp(2048, DATA_ROOM_MAX)
}

/// A buffer's length has 16 bits in DPDK, headroom included.
const DATA_ROOM_MAX: u32 = 65_535 - 128;

pub(super) fn process(
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
        Some(text) => match units::time(&text.value.to_string()) {
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
    let data_room_bytes = data_room(ports);
    let bytes = BUFFER_HEADERS + u64::from(data_room_bytes);
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
        data_room_bytes,
    })
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
pub(super) fn check_sizes(
    knobs: &Knobs,
    file: &[Assignment],
    flags: &[Assignment],
    dataplane: &Dataplane,
    ports: &[Port],
    source: Text<'_>,
    warnings: &mut Vec<String>,
) -> Result<(), ConfigError> {
    let pool = u64::from(dataplane.buffers) * u64::from(dataplane.data_room_bytes);
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
