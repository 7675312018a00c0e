//! From what was written to what is meant. Contradictions are found here.

use stack::{Limits, LocalAddress};

use super::raw::{Assignment, Located, RawLimits, RawStartup};
use super::{AppConfig, Startup, Worker, apps, cores, ports, process};
use crate::error::Text;
use crate::knobs::{Source, find};
use crate::text::quote;
use crate::{ConfigError, KnobError, Knobs, Profile};

/// Applications at most.
const APPS_MAX: usize = 64;
/// Bytes of an instance's name at most: it becomes part of the path of a socket.
const INSTANCE_MAX: usize = 48;

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

    let devices = ports::devices(&raw_ports, source)?;
    let core_list = cores::workers(&dataplane, &raw_ports, source, available)?;
    let mut resolved_ports = Vec::new();
    for (raw, device) in raw_ports.iter().zip(devices) {
        let port = ports::port(raw, device, core_list.len() as u16, &resolved_ports, source)?;
        resolved_ports.push(port);
    }
    let ports = resolved_ports;
    let workers: Vec<Worker> = core_list.iter().map(|&core| Worker { core }).collect();
    let dataplane =
        process::process(&dataplane, &limits, &ports, workers.len(), source, &mut warnings)?;
    process::check_sizes(&knobs, &sysctl.0, flags, &dataplane, &ports, source, &mut warnings)?;

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
pub(super) fn parse<T: core::str::FromStr<Err = String>>(
    text: &Located<String>,
    key: &str,
    source: Text<'_>,
) -> Result<T, ConfigError> {
    text.value.parse().map_err(|what: String| source.error(&text.at, key, what))
}

/// A number in a range, or the default.
pub(super) fn number(
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
