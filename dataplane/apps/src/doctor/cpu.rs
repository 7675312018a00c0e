//! Cores, their clocks, and who else runs on them.

use super::Finding;
use super::root::{Root, numbers};

const CPUS: &str = "sys/devices/system/cpu";
/// Machines with fewer cores have none to give to one purpose.
const CORES_TO_ISOLATE: usize = 4;

pub(super) fn check(root: &Root) -> Vec<Finding> {
    let mut out = vec![cores(root), isolation(root)];
    out.extend(siblings(root));
    out.push(governor(root));
    out.extend(counter(root));
    out.extend(clock_source(root));
    out
}

/// Cores that this process may run on.
pub(super) fn usable(root: &Root) -> Vec<usize> {
    let allowed = root.field("proc/self/status", "Cpus_allowed_list").unwrap_or_default();
    let online = root.read(&format!("{CPUS}/online")).unwrap_or_default();
    let online = numbers(&online);
    numbers(&allowed).into_iter().filter(|n| online.is_empty() || online.contains(n)).collect()
}

fn cores(root: &Root) -> Finding {
    let count = usable(root).len();
    if count >= 2 {
        return Finding::ok("cores", format!("{count} usable, a default instance has one worker"));
    }
    Finding::advice(
        "cores",
        format!("{count} usable: the worker shares it with all else"),
        "give the process more cores (taskset, cgroup), and leave idle = \"adaptive\"",
    )
}

fn isolation(root: &Root) -> Finding {
    let read = |file: &str| root.read(&format!("{CPUS}/{file}")).unwrap_or_default();
    let (isolated, quiet) = (read("isolated"), read("nohz_full"));
    // The kernel says "(null)" for an empty list of some kinds.
    let quiet = if quiet.contains("null") { String::new() } else { quiet };
    let count = usable(root).len();
    if isolated.is_empty() && quiet.is_empty() {
        if count < CORES_TO_ISOLATE {
            return Finding::ok("isolation", "no core is set apart, and there is none to spare");
        }
        return Finding::advice(
            "isolation",
            "no core is set apart: the scheduler and its tick disturb workers that poll",
            format!("boot with isolcpus=2-{0} nohz_full=2-{0} rcu_nocbs=2-{0}", count - 1),
        );
    }
    let text = format!("isolcpus={isolated} nohz_full={quiet}");
    if numbers(&isolated) == numbers(&quiet) {
        return Finding::ok("isolation", text);
    }
    Finding::advice(
        "isolation",
        format!("{text}: not the same cores"),
        "name the same cores in isolcpus= and nohz_full=",
    )
}

/// Two workers on one physical core get half of it each.
fn siblings(root: &Root) -> Option<Finding> {
    if root.read(&format!("{CPUS}/smt/active")).as_deref() != Some("1") {
        return None;
    }
    let mut pairs: Vec<String> = usable(root)
        .iter()
        .filter_map(|n| root.read(&format!("{CPUS}/cpu{n}/topology/thread_siblings_list")))
        .filter(|list| numbers(list).len() > 1)
        .collect();
    pairs.sort();
    pairs.dedup();
    if pairs.is_empty() {
        return None;
    }
    Some(Finding::advice(
        "smt",
        format!("hyper-threads share cores: {}", pairs.join(" ")),
        "name one of each pair in --cores",
    ))
}

/// Sets of hyper-threads of one core among `cores` of which more than one is there.
pub(super) fn shared(root: &Root, cores: &[usize]) -> Option<String> {
    cores.iter().find_map(|n| {
        let list = root.read(&format!("{CPUS}/cpu{n}/topology/thread_siblings_list"))?;
        let both = numbers(&list).iter().filter(|c| cores.contains(c)).count() > 1;
        both.then_some(list)
    })
}

fn governor(root: &Root) -> Finding {
    let mut others: Vec<String> = usable(root)
        .iter()
        .filter_map(|n| root.read(&format!("{CPUS}/cpu{n}/cpufreq/scaling_governor")))
        .collect();
    if others.is_empty() {
        return Finding::ok("frequency", "no governor to see (a virtual machine, or fixed)");
    }
    others.retain(|g| g != "performance");
    others.sort();
    others.dedup();
    if others.is_empty() {
        return Finding::ok("frequency", "governor performance");
    }
    Finding::advice(
        "frequency",
        format!("governor {}: latencies and figures vary", others.join(" ")),
        "cpupower frequency-set -g performance",
    )
}

/// The time stamp counter, from which workers read the time.
fn counter(root: &Root) -> Option<Finding> {
    let flags = root.field("proc/cpuinfo", "flags")?;
    let has = |name| flags.split_whitespace().any(|f| f == name);
    Some(if has("constant_tsc") && has("nonstop_tsc") {
        Finding::ok("tsc", "the same rate at all times")
    } else {
        Finding::advice(
            "tsc",
            "it may stop or change its rate, and workers read the time from it",
            "fix the frequency and turn deep sleep off (intel_idle.max_cstate=1), or use another CPU",
        )
    })
}

fn clock_source(root: &Root) -> Option<Finding> {
    let folder = "sys/devices/system/clocksource/clocksource0";
    let current = root.read(&format!("{folder}/current_clocksource"))?;
    let available = root.read(&format!("{folder}/available_clocksource")).unwrap_or_default();
    let has_tsc = available.split_whitespace().any(|s| s == "tsc");
    if current == "tsc" || !has_tsc {
        return Some(Finding::ok("clock", format!("clock source {current}")));
    }
    Some(Finding::advice(
        "clock",
        format!("clock source {current}: the kernel may have found the tsc unstable"),
        format!("dmesg | grep -i tsc; echo tsc > /{folder}/current_clocksource"),
    ))
}
