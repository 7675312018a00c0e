//! The shell idioms of scripts, carried out on the stack under test.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use config::Source;

use super::lang::options::Settings;
use super::lang::shell::{Action, Assignment, Qdisc, Route, RouteMetrics, Step, When};

use super::target::Target;

/// What the common defaults script of the public collection sets.
const DEFAULTS: [(&str, &str); 24] = [
    ("net.ipv4.tcp_rmem", "4096 540000 15728640"),
    ("net.ipv4.tcp_wmem", "4096 262144 4194304"),
    ("net.ipv4.tcp_timestamps", "1"),
    ("net.ipv4.tcp_syn_retries", "5"),
    ("net.ipv4.tcp_synack_retries", "5"),
    ("net.ipv4.tcp_frto", "2"),
    ("net.ipv4.tcp_sack", "1"),
    ("net.ipv4.tcp_dsack", "1"),
    ("net.ipv4.tcp_fack", "0"),
    ("net.ipv4.tcp_reordering", "3"),
    ("net.ipv4.tcp_congestion_control", "cubic"),
    ("net.ipv4.tcp_slow_start_after_idle", "0"),
    ("net.ipv4.tcp_early_retrans", "4"),
    ("net.ipv4.tcp_recovery", "1"),
    ("net.ipv4.tcp_tso_win_divisor", "3"),
    ("net.ipv4.tcp_ecn", "0"),
    ("net.ipv4.tcp_ecn_option", "2"),
    ("net.ipv4.tcp_pacing_ss_ratio", "200"),
    ("net.ipv4.tcp_pacing_ca_ratio", "120"),
    ("net.ipv4.tcp_notsent_lowat", "4294967295"),
    ("net.ipv4.tcp_fastopen", "0x70403"),
    ("net.ipv4.tcp_fastopen_key", "a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4"),
    ("net.ipv4.tcp_syncookies", "1"),
    ("net.ipv4.tcp_shrink_window", "0"),
];
/// Offloads that do not exist on the link under test, whatever a script sets.
const OFFLOADS: [&str; 4] = ["gso", "tso", "gro", "lro"];

/// State of the shell of one script.
#[derive(Debug, Default)]
pub(super) struct Shell {
    failed: bool,
    /// Values from before `set_sysctls`, oldest first.
    saved: Vec<(String, String)>,
    /// Counters at the last `nstat`.
    counted: BTreeMap<&'static str, u64>,
}

/// Why a step cannot be carried out, before anything runs. `None`: it can.
pub(super) fn unsupported(action: &Action) -> Option<String> {
    match action {
        Action::Unsupported { text } => Some(format!("shell command: {text}")),
        Action::Sysctl { assignments, ignore_unknown } if !ignore_unknown => {
            unknown_knob(assignments)
        }
        Action::SetSysctls(assignments) => unknown_knob(assignments),
        Action::ModuleParameter { module, name, .. } => {
            let known = parameter(module, name).is_some_and(|name| is_knob(&name));
            (!known).then(|| format!("parameter {name} of the module {module}"))
        }
        Action::Route(route) => route_unsupported(route),
        Action::RouteDelete { .. } => Some("ip route delete".into()),
        Action::Qdisc(Qdisc { verb, kind, limit, other, .. }) => {
            let plain = matches!(kind.as_str(), "pfifo" | "bfifo" | "pfifo_fast" | "noqueue");
            match limit {
                Some(limit) if *limit < 100 => Some(format!("a queue of {limit} packets")),
                _ if verb == "del" || plain && other.is_empty() => None,
                _ => Some(format!("queueing discipline {kind}")),
            }
        }
        Action::Offloads { settings, .. } => settings
            .iter()
            .find(|(name, _)| !OFFLOADS.contains(&name.as_str()))
            .map(|(name, _)| format!("offload {name}")),
        Action::Defaults
        | Action::Restore
        | Action::Sysctl { .. }
        | Action::FlushMetrics
        | Action::CountersReset
        | Action::CounterCheck { .. }
        | Action::SocketCheck { .. }
        | Action::Sleep(_)
        | Action::RemoveFile(_)
        | Action::ZeroFile { .. }
        | Action::Nothing
        | Action::Fail => None,
    }
}

fn is_knob(name: &str) -> bool {
    super::target::linux_knobs().get(name).is_ok()
}

fn unknown_knob(assignments: &[Assignment]) -> Option<String> {
    let unknown = assignments.iter().find(|a| !is_knob(&a.name))?;
    Some(format!("the knob {}", unknown.name))
}

/// The knob that stands for a parameter of a kernel module.
fn parameter(module: &str, name: &str) -> Option<String> {
    let algorithm = module.strip_prefix("tcp_")?;
    Some(format!("millrace.{algorithm}_{name}"))
}

/// Only the metrics that the stack can give a route.
fn route_unsupported(route: &Route) -> Option<String> {
    if let Some(other) = route.other.first() {
        return Some(format!("ip route: {other}"));
    }
    let metrics = &route.metrics;
    if *metrics == RouteMetrics::default() {
        return None;
    }
    Some(format!("ip route {} with metrics", route.verb))
}

impl Shell {
    /// Whether the command that just ended succeeded; the next one starts anew.
    pub(super) fn take_status(&mut self) -> bool {
        !core::mem::take(&mut self.failed)
    }

    /// Carry out one step. Answers with a time to wait for.
    ///
    /// # Errors
    /// In words, what cannot be done.
    pub(super) fn run(
        &mut self,
        step: &Step,
        target: &mut Target,
        settings: &Settings,
    ) -> Result<Option<Duration>, String> {
        let runs = match step.when {
            When::Always => true,
            When::Succeeded => !self.failed,
            When::Failed => self.failed,
        };
        if !runs {
            return Ok(None);
        }
        if let Some(what) = unsupported(&step.action) {
            return Err(format!("not supported: {what}"));
        }
        self.failed = false;
        match &step.action {
            Action::Defaults => {
                for (name, value) in DEFAULTS {
                    self.set(target, name, value)?;
                }
                apply(target)?;
            }
            Action::SetSysctls(assignments) => {
                for Assignment { name, value } in assignments {
                    let old = target.knobs().get(name).map_err(|e| e.to_string())?;
                    self.saved.push((name.clone(), old));
                    self.set(target, name, value)?;
                }
                apply(target)?;
            }
            Action::Restore => {
                for (name, value) in core::mem::take(&mut self.saved).into_iter().rev() {
                    self.set(target, &name, &value)?;
                }
                apply(target)?;
            }
            Action::Sysctl { assignments, ignore_unknown } => {
                for Assignment { name, value } in assignments {
                    if *ignore_unknown && target.knobs().get(name).is_err() {
                        continue;
                    }
                    self.set(target, name, value)?;
                }
                apply(target)?;
            }
            Action::ModuleParameter { module, name, value } => {
                let knob = parameter(module, name).unwrap_or_default();
                self.set(target, &knob, value)?;
                apply(target)?;
            }
            Action::CountersReset => self.counted = counters(target),
            Action::CounterCheck { patterns, zeros, keep, negated } => {
                let now = counters(target);
                let found = now.iter().any(|(name, value)| {
                    let moved = value.saturating_sub(self.counted.get(name).copied().unwrap_or(0));
                    let line = format!("{name:<32}{moved:<16}0.0");
                    (moved > 0 || *zeros) && patterns.iter().all(|p| line.contains(p.as_str()))
                });
                if !keep {
                    self.counted = now;
                }
                self.failed = found == *negated;
            }
            Action::SocketCheck { ipv6, ipv4, patterns, negated } => {
                let v6_sockets = settings.ip_version.sockets_are_ipv6();
                let lines = socket_lines(target, v6_sockets)?;
                let listed = if v6_sockets { *ipv6 } else { *ipv4 };
                let found = listed
                    && lines.iter().any(|line| patterns.iter().all(|p| line.contains(p.as_str())));
                self.failed = found == *negated;
            }
            Action::Sleep(time) => return Ok(Some(*time)),
            Action::Fail => self.failed = true,
            // Nothing is kept from one connection to the next; the only queue is the device's; files
            // are read by calls that are not supported.
            Action::FlushMetrics
            | Action::Qdisc(_)
            | Action::Offloads { .. }
            | Action::Route(_)
            | Action::RouteDelete { .. }
            | Action::RemoveFile(_)
            | Action::ZeroFile { .. }
            | Action::Nothing
            | Action::Unsupported { .. } => {}
        }
        Ok(None)
    }

    fn set(&mut self, target: &mut Target, name: &str, value: &str) -> Result<(), String> {
        target
            .knobs_mut()
            .set(name, value, Source::Runtime)
            .map(|_| ())
            .map_err(|e| format!("sysctl: {e}"))
    }
}

fn apply(target: &mut Target) -> Result<(), String> {
    target.apply_knobs().map_err(|_| "the stack does not come to rest".to_owned())
}

fn counters(target: &Target) -> BTreeMap<&'static str, u64> {
    let stack = target.stack();
    stack.tcp_counters().iter().chain(stack.counters().iter()).collect()
}

/// The lines of `/proc/net/tcp` or `/proc/net/tcp6`, as far as patterns can ask for them.
fn socket_lines(target: &mut Target, v6: bool) -> Result<Vec<String>, String> {
    let rows = target.sockets().map_err(|_| "the stack does not come to rest".to_owned())?;
    let end = |addr: core::net::SocketAddr| {
        let bytes: Vec<u8> = match (addr.ip(), v6) {
            (IpAddr::V4(a), false) => a.octets().to_vec(),
            (IpAddr::V4(a), true) if a.is_unspecified() => vec![0; 16],
            (IpAddr::V4(a), true) => a.to_ipv6_mapped().octets().to_vec(),
            (IpAddr::V6(a), _) => a.octets().to_vec(),
        };
        // Words in the byte order of the machine, as the kernel prints them on most of them.
        let words: String = bytes
            .chunks(4)
            .map(|word| word.iter().rev().map(|b| format!("{b:02X}")).collect::<String>())
            .collect();
        format!("{words}:{:04X}", addr.port())
    };
    Ok(rows
        .iter()
        .enumerate()
        .map(|(index, row)| {
            format!(
                "{index:4}: {} {} {:02X} {:08X}:{:08X} 00:00000000 00000000     0        0 0",
                end(row.local),
                end(row.remote),
                state_number(row.state),
                row.send_queue,
                row.recv_queue
            )
        })
        .collect())
}

/// The number that Linux gives a state.
pub(super) fn state_number(state: tcp::State) -> u8 {
    match state {
        tcp::State::Established => 1,
        tcp::State::SynSent => 2,
        tcp::State::SynReceived => 3,
        tcp::State::FinWait1 => 4,
        tcp::State::FinWait2 => 5,
        tcp::State::TimeWait => 6,
        tcp::State::Closed => 7,
        tcp::State::CloseWait => 8,
        tcp::State::LastAck => 9,
        tcp::State::Listen => 10,
        tcp::State::Closing => 11,
    }
}
