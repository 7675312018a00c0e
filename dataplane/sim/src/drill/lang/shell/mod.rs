//! The shell idioms of scripts as typed steps.
//!
//! No shell is ever run. A command is split into words as a POSIX shell would (quotes, comments,
//! continuation lines, `;`, `&&`, `||`, pipes), and each simple command is recognised or becomes
//! [`Action::Unsupported`] with its text.

use core::net::IpAddr;
use core::time::Duration;

mod parse;
mod recognise;
#[cfg(test)]
mod tests;

pub use parse::parse;

/// One simple command or pipeline of a shell text. Its line takes no part in comparisons.
#[derive(Clone, Debug, Eq)]
pub struct Step {
    /// Its line in the script.
    pub line: u32,
    /// Whether it runs, given how the one before it ended.
    pub when: When,
    /// What it does.
    pub action: Action,
}

impl PartialEq for Step {
    fn eq(&self, other: &Self) -> bool {
        self.when == other.when && self.action == other.action
    }
}

/// Whether a step runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// After `;`, a new line, or at the start.
    Always,
    /// After `&&`.
    Succeeded,
    /// After `||`.
    Failed,
}

/// What a step does. The status of a whole command is that of the last step that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// `…/defaults.sh`: the knobs of the common defaults script, fresh TCP metrics, a plain fifo.
    Defaults,
    /// `…/set_sysctls.py /proc/sys/…=V …`: set, and remember the old values for [`Action::Restore`].
    SetSysctls(Vec<Assignment>),
    /// `/tmp/sysctl_restore_….sh`.
    Restore,
    /// `sysctl [-q] [-w] [-e] NAME=V …`.
    Sysctl {
        /// What to set, in order.
        assignments: Vec<Assignment>,
        /// `-e`: unknown names are no error.
        ignore_unknown: bool,
    },
    /// `echo V > /proc/sys/…` is a sysctl; `echo V > /sys/module/M/parameters/P` is this.
    ModuleParameter {
        /// The module, such as `tcp_cubic`.
        module: String,
        /// The parameter.
        name: String,
        /// Its value.
        value: String,
    },
    /// `ip route add|change|replace DST …`.
    Route(Box<Route>),
    /// `ip route del DST …`.
    RouteDelete {
        /// `ip -6`.
        ipv6: bool,
        /// The destination as written.
        destination: String,
    },
    /// `ip tcp_metrics flush …`.
    FlushMetrics,
    /// `tc qdisc add|replace|change|del dev D root …`.
    Qdisc(Qdisc),
    /// `ethtool -K DEV NAME on|off …`.
    Offloads {
        /// The device.
        device: String,
        /// Names with what they become.
        settings: Vec<(String, bool)>,
    },
    /// `nstat` without a filter: counters from now on count from zero.
    CountersReset,
    /// `nstat … | grep NAME`: succeeds when a counter that matches has moved since the last
    /// `nstat`. It, too, makes counters count from zero unless `keep`.
    CounterCheck {
        /// All of these are substrings of the line `NAME VALUE RATE` that must exist.
        patterns: Vec<String>,
        /// `nstat -z`: counters that are zero are printed, too.
        zeros: bool,
        /// `nstat -s`: do not make them count from zero.
        keep: bool,
        /// `! …`: succeeds when there is none.
        negated: bool,
    },
    /// `grep P /proc/net/tcp … | grep Q`: succeeds when a socket's line has all the patterns.
    SocketCheck {
        /// `/proc/net/tcp6` was named.
        ipv6: bool,
        /// `/proc/net/tcp` was named.
        ipv4: bool,
        /// Substrings of the line, as the kernel formats it.
        patterns: Vec<String>,
        /// It succeeds when there is none.
        negated: bool,
    },
    /// `sleep N`.
    Sleep(Duration),
    /// `rm -f PATH`.
    RemoveFile(String),
    /// `dd if=/dev/zero of=PATH bs=B count=C`.
    ZeroFile {
        /// The file.
        path: String,
        /// Its length.
        bytes: u64,
    },
    /// `true`, `:`, `echo text`: nothing happens, and it succeeds.
    Nothing,
    /// `false`, `exit 1`.
    Fail,
    /// Anything else.
    Unsupported {
        /// The command as written.
        text: String,
    },
}

/// A knob with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The name with dots, such as `net.ipv4.tcp_sack`.
    pub name: String,
    /// The value without quotes; triples are separated by one blank.
    pub value: String,
}

/// What `ip route` sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// `ip -6`.
    pub ipv6: bool,
    /// `add`, `change`, `replace` or `append`.
    pub verb: String,
    /// The destination as written: `default`, an address or a prefix.
    pub destination: String,
    /// The gateway.
    pub via: Option<IpAddr>,
    /// The device.
    pub device: Option<String>,
    /// The source address.
    pub source: Option<IpAddr>,
    /// Its metrics.
    pub metrics: RouteMetrics,
    /// Attributes that are not known here.
    pub other: Vec<String>,
}

/// Metrics of a route; absent means unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteMetrics {
    /// Path MTU in bytes.
    pub mtu: Option<u32>,
    /// `mtu lock N`: path MTU discovery does not change it.
    pub mtu_lock: bool,
    /// Largest MSS to advertise.
    pub advmss: Option<u32>,
    /// Initial congestion window in segments.
    pub initcwnd: Option<u32>,
    /// Initial receive window in segments.
    pub initrwnd: Option<u32>,
    /// Clamp of the congestion window in segments.
    pub cwnd: Option<u32>,
    /// Initial slow start threshold in segments.
    pub ssthresh: Option<u32>,
    /// Clamp of the advertised window in bytes.
    pub window: Option<u32>,
    /// Initial reordering degree.
    pub reordering: Option<u32>,
    /// Hop limit.
    pub hoplimit: Option<u32>,
    /// Smallest RTO.
    pub rto_min: Option<Duration>,
    /// Initial round trip.
    pub rtt: Option<Duration>,
    /// Initial variance of it.
    pub rttvar: Option<Duration>,
    /// `quickack 0|1`.
    pub quickack: Option<bool>,
    /// `fastopen_no_cookie 0|1`.
    pub fastopen_no_cookie: Option<bool>,
    /// `features ecn`.
    pub ecn: bool,
    /// `congctl NAME`.
    pub congctl: Option<String>,
}

/// A queueing discipline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qdisc {
    /// `add`, `replace`, `change` or `del`.
    pub verb: String,
    /// The device.
    pub device: String,
    /// Its kind, such as `fq`; empty for `del`.
    pub kind: String,
    /// `limit N`.
    pub limit: Option<u32>,
    /// The rest of its parameters.
    pub other: Vec<String>,
}
