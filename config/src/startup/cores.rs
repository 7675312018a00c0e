//! Which cores work.

use core::cmp::Ordering;

use super::raw::{Cores, Located, RawDataplane, RawPort};
use super::resolve::number;
use super::units;
use crate::ConfigError;
use crate::error::{Place, Text};
use crate::text::quote;

/// Workers at most, as in DPDK.
const WORKERS_MAX: usize = 128;

/// Which cores work: as many as each port has queues, since a worker owns one of each.
pub(super) fn workers(
    raw: &RawDataplane,
    raw_ports: &[Located<RawPort>],
    source: Text<'_>,
    available: &[usize],
) -> Result<Vec<usize>, ConfigError> {
    let mut available = available.to_vec();
    available.sort_unstable();
    available.dedup();
    let mut said: Option<(usize, &Place)> = None;
    for written in raw_ports.iter().filter_map(|port| port.value.queues.as_ref()) {
        let some = Some(written.clone());
        let queues = number(&some, "queues", 1..=WORKERS_MAX as u32, 1, source)? as usize;
        match said {
            Some((before, _)) if before != queues => {
                let what = format!("{queues} queues, and {before} of another port");
                return Err(source
                    .error(&written.at, "queues", what)
                    .help("a worker owns one queue of each port: give all ports the same number"));
            }
            Some(_) => {}
            None => said = Some((queues, &written.at)),
        }
    }
    let listed = match &raw.cores {
        None => None,
        Some(cores) => core_list(cores, &available, source)?.map(|list| (list, &cores.at)),
    };
    let Some((cores, at)) = listed else {
        let (needed, at) = said.unwrap_or((1, &Place::Nowhere));
        if needed > available.len() {
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
        return Ok(available.split_off(available.len() - needed));
    };
    let queues = said.map_or(cores.len(), |(queues, _)| queues);
    let fault = match cores.len().cmp(&queues) {
        Ordering::Equal => return Ok(cores),
        Ordering::Greater => "more than {queues} queues: some would have no work",
        Ordering::Less => "fewer than {queues} queues: some would starve",
    };
    let fault = fault.replace("{queues}", &queues.to_string());
    Err(source.error(at, "cores", format!("{} workers are {fault}", cores.len())))
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
