//! Hugepages: how many, where, and what dead processes have left in them.

use super::root::Root;
use super::{Finding, list};

/// Memory that an instance with default buffers wants, MiB.
const WANTED_MIB: u64 = 256;

struct Pages {
    kib: u64,
    total: u64,
    free: u64,
}

fn pages(root: &Root, folder: &str) -> Vec<Pages> {
    let mut out: Vec<Pages> = root
        .names(folder)
        .iter()
        .filter_map(|name| {
            let kib = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            let number = |file| root.number(&format!("{folder}/{name}/{file}")).unwrap_or(0);
            Some(Pages { kib, total: number("nr_hugepages"), free: number("free_hugepages") })
        })
        .collect();
    out.sort_by_key(|p| p.kib);
    out
}

pub(super) fn check(root: &Root) -> Vec<Finding> {
    let mut out = vec![hugepages(root)];
    out.extend(nodes(root));
    out.extend(stale(root));
    out
}

fn mib(pages: &[Pages], count: fn(&Pages) -> u64) -> u64 {
    pages.iter().map(|p| count(p).saturating_mul(p.kib)).sum::<u64>() / 1024
}

fn hugepages(root: &Root) -> Finding {
    let all = pages(root, "sys/kernel/mm/hugepages");
    if all.is_empty() {
        return Finding::ok("hugepages", "the kernel has none; software mode needs none");
    }
    let (total, free) = (mib(&all, |p| p.total), mib(&all, |p| p.free));
    let smallest = all.first().map_or(2048, |p| p.kib);
    let count = (WANTED_MIB * 1024).div_ceil(smallest.max(1));
    if total == 0 {
        return Finding::advice(
            "hugepages",
            "none reserved: software mode runs without, NICs do not",
            format!("scripts/host hugepages {count}"),
        );
    }
    let sizes: Vec<String> = all
        .iter()
        .filter(|p| p.total > 0)
        .map(|p| format!("{} of {} pages of {} KiB free", p.free, p.total, p.kib))
        .collect();
    let mount = match mount(root) {
        Some(place) => format!("mounted at {place}"),
        // `--in-memory` takes them without a file.
        None => "no mount, none is needed".to_owned(),
    };
    let text = format!("{} MiB free: {}; {mount}", free, sizes.join(", "));
    if free >= WANTED_MIB.min(total) {
        Finding::ok("hugepages", text)
    } else {
        Finding::advice(
            "hugepages",
            text,
            format!("stop who holds them, or: scripts/host hugepages {}", count.saturating_mul(2)),
        )
    }
}

/// Nodes of a machine with several of which some have no free pages: a NIC there has none near.
fn nodes(root: &Root) -> Option<Finding> {
    let folder = "sys/devices/system/node";
    let number = |name: &String| name.strip_prefix("node")?.parse::<u32>().ok();
    let mut numbers: Vec<u32> = root.names(folder).iter().filter_map(number).collect();
    numbers.sort_unstable();
    let free: Vec<(u32, u64)> = numbers
        .iter()
        .map(|n| (*n, mib(&pages(root, &format!("{folder}/node{n}/hugepages")), |p| p.free)))
        .collect();
    let any = free.iter().any(|(_, mib)| *mib > 0);
    if free.len() < 2 || !any {
        return None;
    }
    let text: Vec<String> = free.iter().map(|(n, mib)| format!("node {n}: {mib} MiB")).collect();
    let text = format!("free per NUMA node: {}", text.join(", "));
    let empty = free.iter().find(|(_, mib)| *mib == 0);
    Some(match empty {
        None => Finding::ok("numa", text),
        Some((n, _)) => Finding::advice(
            "numa",
            text,
            format!(
                "if the NIC is on node {n}: echo 128 > \
                 /sys/devices/system/node/node{n}/hugepages/hugepages-2048kB/nr_hugepages"
            ),
        ),
    })
}

fn mount(root: &Root) -> Option<String> {
    let mounts = root.read("proc/mounts")?;
    mounts.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let (_, place, kind) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "hugetlbfs").then(|| place.to_owned())
    })
}

/// Files of pages that nobody maps: their process has died, and they hold memory.
fn stale(root: &Root) -> Option<Finding> {
    let place = mount(root)?;
    let files: Vec<String> = root
        .names(&place)
        .into_iter()
        .filter(|name| {
            let number = name.rsplit_once("map_").map(|(_, n)| n);
            number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        })
        .map(|name| format!("{}/{name}", place.trim_end_matches('/')))
        .collect();
    if files.is_empty() {
        return None;
    }
    let mapped: Vec<String> = root
        .names("proc")
        .iter()
        .filter(|name| name.bytes().all(|b| b.is_ascii_digit()))
        .filter_map(|pid| root.read(&format!("proc/{pid}/maps")))
        .filter(|maps| maps.contains(place.as_str()))
        .collect();
    let used = |file: &String| {
        let ends = |line: &str| line.split_whitespace().last() == Some(file);
        mapped.iter().any(|maps| maps.lines().any(ends))
    };
    let dead: Vec<String> = files.into_iter().filter(|file| !used(file)).collect();
    if dead.is_empty() {
        return None;
    }
    Some(Finding::advice(
        "hugepages",
        format!("{} files of dead processes hold pages in {place}", dead.len()),
        format!("rm {}", list(&dead.into_iter().take(8).collect::<Vec<_>>())),
    ))
}
