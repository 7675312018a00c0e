//! What the operating system says about this machine and this process.

use workloads::iperf::{CpuUsage, Host};

/// CPU time of this process so far, from `/proc/self/stat`; zeros where that cannot be read.
fn cpu_usage() -> CpuUsage {
    // Clock ticks per second are 100 on every Linux that this runs on (USER_HZ is an ABI).
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The command name may contain blanks and parentheses: count fields behind the last one.
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest.split_whitespace().collect())
        .unwrap_or_default();
    let seconds = |index: usize| {
        fields.get(index).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0) / TICKS_PER_SECOND
    };
    CpuUsage { user_secs: seconds(11), system_secs: seconds(12) }
}

/// The line that `uname -a` begins with.
fn system_info() -> String {
    let read = |name: &str| {
        std::fs::read_to_string(format!("/proc/sys/kernel/{name}"))
            .map(|s| s.trim().to_owned())
            .unwrap_or_default()
    };
    format!(
        "{} {} {} {} {}",
        read("ostype"),
        read("hostname"),
        read("osrelease"),
        read("version"),
        std::env::consts::ARCH
    )
}

/// Resident memory of this process in bytes; zero where that cannot be read.
pub(crate) fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap_or_default();
    let kib = line.split_whitespace().next().and_then(|n| n.parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

/// Civil time in seconds since 1970; shown, never used for deciding.
pub(crate) fn unix_seconds() -> f64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0.0, |d| d.as_secs_f64())
}

/// This process, for the reports of iperf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process;

impl Host for Process {
    fn cpu_usage(&self) -> CpuUsage {
        cpu_usage()
    }

    fn unix_time_ms(&self) -> u64 {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
    }

    fn system_info(&self) -> String {
        system_info()
    }
}
