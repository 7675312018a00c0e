//! DPDK: the library and its drivers.

use super::root::Root;
use super::{Finding, list};

/// Drivers of software devices that we use, as their plug-ins are called.
const SOFTWARE: [&str; 7] = ["af_packet", "af_xdp", "memif", "null", "pcap", "ring", "tap"];
/// Folders in which distributions and DPDK's own installation keep libraries.
const LIBRARIES: [&str; 4] = ["usr/lib", "usr/lib64", "usr/local/lib", "usr/local/lib64"];

pub(super) fn check(root: &Root, versions: Option<((u32, u32), (u32, u32))>) -> Vec<Finding> {
    let Some((built, loaded)) = versions else {
        return vec![Finding::problem(
            "dpdk",
            "this build has no DPDK, and so no ports",
            "build with the default features: cargo build --release",
        )];
    };
    let text = |(year, month): (u32, u32)| format!("{year}.{month:02}");
    let library = if built == loaded {
        Finding::ok("dpdk", format!("{}, as this program was built for", text(loaded)))
    } else {
        Finding::problem(
            "dpdk",
            format!("built for {}, and {} is installed", text(built), text(loaded)),
            "install the release it was built for, or build it again",
        )
    };
    vec![library, drivers(root)]
}

/// `x.so.23` and `x.so` are one driver.
fn drivers(root: &Root) -> Finding {
    let folders = folders(root);
    let mut names: Vec<String> = folders
        .iter()
        .flat_map(|folder| root.names(folder))
        .filter_map(|file| {
            let (name, _) = file.strip_prefix("librte_net_")?.split_once(".so")?;
            Some(name.to_owned())
        })
        .collect();
    names.sort();
    names.dedup();
    let has = |name: &&str| names.iter().any(|n| n == name);
    let (there, missing): (Vec<&str>, Vec<&str>) = SOFTWARE.iter().partition(|n| has(n));
    let words = |names: &[&str]| list(&names.iter().map(|&n| n.to_owned()).collect::<Vec<_>>());
    let todo = "apt-get install libdpdk-dev dpdk-dev";
    if there.is_empty() {
        let looked = if folders.is_empty() { "no plug-in folder" } else { "no software driver" };
        return Finding::problem("drivers", format!("{looked} was found"), todo);
    }
    let text = format!("{}, of {} in /{}", words(&there), names.len(), folders.join(" and /"));
    if missing.is_empty() {
        Finding::ok("drivers", text)
    } else {
        Finding::advice("drivers", format!("{text}; not there: {}", words(&missing)), todo)
    }
}

/// Plug-in folders, `…/dpdk/pmds-23.0`.
fn folders(root: &Root) -> Vec<String> {
    let mut out = Vec::new();
    for library in LIBRARIES {
        let within = root.names(library).into_iter().map(|name| format!("{library}/{name}"));
        for place in within.chain([library.to_owned()]) {
            let dpdk = format!("{place}/dpdk");
            let plugins = root.names(&dpdk).into_iter().filter(|n| n.starts_with("pmds-"));
            out.extend(plugins.map(|name| format!("{dpdk}/{name}")));
        }
    }
    out
}
