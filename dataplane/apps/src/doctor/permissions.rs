//! What this process may do: capabilities, locked memory, open files.

use super::Finding;
use super::root::Root;

const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;
const CAP_IPC_LOCK: u32 = 14;
/// Locked memory that `af_xdp` and a NIC through vfio need at least, MiB.
const LOCKED_MIB: u64 = 64;
/// Open files with which an instance of a few ports gets along.
const FILES: u64 = 256;

pub(super) fn check(root: &Root) -> Vec<Finding> {
    let field = |key| root.field("proc/self/status", key);
    let bits = field("CapEff").and_then(|hex| u64::from_str_radix(&hex, 16).ok()).unwrap_or(0);
    let has = |cap: u32| bits & 1 << cap != 0;
    vec![capabilities(&has), locked(root, has(CAP_IPC_LOCK)), files(root)]
}

fn capabilities(has: &dyn Fn(u32) -> bool) -> Finding {
    let missing: Vec<&str> = [(CAP_NET_RAW, "CAP_NET_RAW"), (CAP_NET_ADMIN, "CAP_NET_ADMIN")]
        .into_iter()
        .filter_map(|(cap, name)| (!has(cap)).then_some(name))
        .collect();
    if missing.is_empty() {
        return Finding::ok("capabilities", "all that the software devices need");
    }
    Finding::advice(
        "capabilities",
        format!(
            "no {}: net_ring, net_null, net_pcap and net_memif work, \
             net_af_packet, net_af_xdp and net_tap do not",
            missing.join(" and no ")
        ),
        format!(
            "run as root, or: sudo setcap {}+ep $(command -v millrace)",
            missing.join(",").to_lowercase()
        ),
    )
}

/// The soft limit called `name`; `u64::MAX`: there is none.
fn limit(root: &Root, name: &str) -> Option<u64> {
    let text = root.read("proc/self/limits")?;
    let line = text.lines().find(|l| l.starts_with(name))?;
    match line.get(name.len()..)?.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

fn locked(root: &Root, may_lock: bool) -> Finding {
    let Some(bytes) = limit(root, "Max locked memory") else {
        return Finding::ok("memlock", "the limit is not known");
    };
    if may_lock || bytes == u64::MAX {
        return Finding::ok("memlock", "no limit on locked memory");
    }
    if bytes >= LOCKED_MIB << 20 {
        return Finding::ok("memlock", format!("{} MiB may be locked", bytes >> 20));
    }
    Finding::advice(
        "memlock",
        format!("{} KiB of memory may be locked: too little for net_af_xdp and NICs", bytes >> 10),
        "ulimit -l unlimited, or LimitMEMLOCK=infinity in the service",
    )
}

fn files(root: &Root) -> Finding {
    match limit(root, "Max open files") {
        Some(count) if count < FILES => Finding::advice(
            "files",
            format!("{count} files may be open"),
            "ulimit -n 1024, or LimitNOFILE=1024 in the service",
        ),
        Some(u64::MAX) => Finding::ok("files", "no limit on open files"),
        Some(count) => Finding::ok("files", format!("{count} files may be open")),
        None => Finding::ok("files", "the limit is not known"),
    }
}
