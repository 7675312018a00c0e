//! Which cores work, and on which queue of which port.

use super::raw::{Cores, Located, RawDataplane, RawPort};
use super::resolve::number;
use super::{Port, Worker, units};
use crate::ConfigError;
use crate::error::{Place, Text};
use crate::text::quote;

/// Workers at most, as in DPDK.
const WORKERS_MAX: usize = 128;

/// Which cores work, and how many queues each port has: as many in all as there are cores.
pub(super) fn workers(
    raw: &RawDataplane,
    raw_ports: &[Located<RawPort>],
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
                        raw_ports.len()
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
pub(super) fn assign(cores: &[usize], ports: &[Port]) -> Vec<Worker> {
    let slots =
        ports.iter().enumerate().flat_map(|(port, p)| (0..p.queues).map(move |q| (port, q)));
    cores.iter().zip(slots).map(|(&core, (port, queue))| Worker { core, port, queue }).collect()
}
