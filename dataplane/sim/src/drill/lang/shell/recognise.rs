//! What a command means.

use core::time::Duration;

use super::parse::{Pipeline, Simple, Word};
use super::{Action, Assignment, Qdisc, Route, RouteMetrics};

/// The action of a pipeline, or `None` when it is not known.
pub(super) fn recognise(pipeline: &Pipeline) -> Option<Action> {
    let (first, filters) = pipeline.commands.split_first()?;
    let name = first.words.first()?;
    if name.text == "nstat" && !filters.is_empty() {
        return counter_check(pipeline, first, filters);
    }
    if matches!(name.text.as_str(), "grep" | "cat") {
        return socket_check(pipeline, first, filters);
    }
    if !filters.is_empty() || pipeline.negated {
        return None;
    }
    command(first)
}

/// A command without pipes.
fn command(simple: &Simple) -> Option<Action> {
    let (name, args) = simple.words.split_first()?;
    let base = name.text.rsplit('/').next().unwrap_or("");
    // The name of the restore script has the id of a process in it, which means nothing here.
    if name.text.starts_with("/tmp/sysctl_restore_") && base.ends_with(".sh") && args.is_empty() {
        return simple.redirects.is_empty().then_some(Action::Restore);
    }
    if name.expands || args.iter().any(|arg| arg.expands) {
        return None;
    }
    let args: Vec<&str> = args.iter().map(|arg| arg.text.as_str()).collect();
    if base == "echo" {
        return echo(&args, simple);
    }
    if !simple.redirects.is_empty() {
        return None;
    }
    match base {
        "defaults.sh" if args.is_empty() => Some(Action::Defaults),
        "set_sysctls.py" => assignments(&args).map(Action::SetSysctls),
        "sysctl" => sysctl(&args),
        "ip" => ip(&args),
        "tc" => tc(&args),
        "ethtool" => ethtool(&args),
        "nstat" => args.iter().all(|arg| nstat_flag(arg)).then_some(Action::CountersReset),
        "sleep" | "usleep" => sleep(base, &args),
        "rm" => match args.as_slice() {
            ["-f", path] | [path] => Some(Action::RemoveFile((*path).to_owned())),
            _ => None,
        },
        "dd" => dd(&args),
        "true" | ":" => Some(Action::Nothing),
        "false" => Some(Action::Fail),
        "exit" => match args.as_slice() {
            ["0"] => Some(Action::Nothing),
            [code] if code.parse::<u8>().is_ok() => Some(Action::Fail),
            _ => None,
        },
        _ => None,
    }
}

/// A knob's name with dots, whatever form it has.
fn knob_name(name: &str) -> String {
    match name.strip_prefix("/proc/sys/") {
        Some(path) => path.replace('/', "."),
        // With slashes as separators, a point belongs to a name.
        None if name.contains('/') => name.replace('/', "."),
        None => name.to_owned(),
    }
}

fn assignment(text: &str) -> Option<Assignment> {
    let (name, value) = text.split_once('=')?;
    let value: Vec<&str> = value.split_whitespace().collect();
    if name.is_empty() || value.is_empty() {
        return None;
    }
    Some(Assignment { name: knob_name(name), value: value.join(" ") })
}

fn assignments(args: &[&str]) -> Option<Vec<Assignment>> {
    let all: Option<Vec<_>> = args.iter().map(|arg| assignment(arg)).collect();
    all.filter(|all| !all.is_empty())
}

fn sysctl(args: &[&str]) -> Option<Action> {
    let (flags, names): (Vec<&str>, Vec<&str>) = args.iter().partition(|arg| arg.starts_with('-'));
    let known = |flag: &&str| flag.chars().skip(1).all(|c| matches!(c, 'q' | 'w' | 'e'));
    if !flags.iter().all(known) {
        return None;
    }
    let ignore_unknown = flags.iter().any(|flag| flag.contains('e'));
    Some(Action::Sysctl { assignments: assignments(&names)?, ignore_unknown })
}

fn echo(args: &[&str], simple: &Simple) -> Option<Action> {
    let args = match args {
        ["-n", rest @ ..] => rest,
        all => all,
    };
    let value = args.join(" ");
    let redirect = match simple.redirects.as_slice() {
        [] => return Some(Action::Nothing),
        [one] if matches!(one.operator.as_str(), ">" | "1>") && !one.target.expands => one,
        _ => return None,
    };
    let path = redirect.target.text.as_str();
    if path.starts_with("/proc/sys/") {
        let assignments = assignments(&[&format!("{path}={value}")])?;
        return Some(Action::Sysctl { assignments, ignore_unknown: false });
    }
    let (module, name) = path.strip_prefix("/sys/module/")?.split_once("/parameters/")?;
    if module.is_empty() || name.is_empty() || name.contains('/') {
        return None;
    }
    Some(Action::ModuleParameter { module: module.to_owned(), name: name.to_owned(), value })
}

fn ip(args: &[&str]) -> Option<Action> {
    let (ipv6, args) = match args {
        ["-6", rest @ ..] => (true, rest),
        ["-4", rest @ ..] => (false, rest),
        all => (false, all),
    };
    match args {
        ["tcp_metrics" | "tcpmetrics", "flush" | "delete" | "del", ..] => {
            Some(Action::FlushMetrics)
        }
        ["route" | "ro" | "r", "del" | "delete", destination, ..] => {
            let destination = (*destination).to_owned();
            Some(Action::RouteDelete { ipv6: ipv6 || destination.contains(':'), destination })
        }
        ["route" | "ro" | "r", verb, rest @ ..]
            if matches!(*verb, "add" | "change" | "replace" | "append") =>
        {
            route(ipv6, verb, rest)
        }
        _ => None,
    }
}

fn route(ipv6: bool, verb: &str, args: &[&str]) -> Option<Action> {
    let (destination, mut args) = args.split_first()?;
    let mut route = Route {
        ipv6: ipv6 || destination.contains(':'),
        verb: verb.to_owned(),
        destination: (*destination).to_owned(),
        ..Route::default()
    };
    while let Some((name, mut rest)) = args.split_first() {
        if let (true, Some((&"lock", after))) = (is_metric(name), rest.split_first()) {
            if *name == "mtu" {
                route.metrics.mtu_lock = true;
            } else {
                route.other.push(format!("{name} lock"));
            }
            rest = after;
        }
        if *name == "onlink" {
            args = rest;
            continue;
        }
        let (value, after) = rest.split_first()?;
        args = after;
        match *name {
            "via" => route.via = Some(value.parse().ok()?),
            "src" => route.source = Some(value.parse().ok()?),
            "dev" => route.device = Some((*value).to_owned()),
            "proto" | "scope" | "table" | "metric" => {}
            _ => {
                if metric(&mut route.metrics, name, value)? {
                    continue;
                }
                route.other.push(format!("{name} {value}"));
            }
        }
    }
    Some(Action::Route(Box::new(route)))
}

fn is_metric(name: &str) -> bool {
    matches!(
        name,
        "mtu"
            | "advmss"
            | "initcwnd"
            | "initrwnd"
            | "cwnd"
            | "ssthresh"
            | "window"
            | "reordering"
            | "hoplimit"
            | "rto_min"
            | "rtt"
            | "rttvar"
            | "congctl"
    )
}

/// Sets a metric; `Some(false)` when there is none of this name, `None` when the value is wrong.
fn metric(metrics: &mut RouteMetrics, name: &str, value: &str) -> Option<bool> {
    let number = || value.parse::<u32>().ok();
    let switch = || match value {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    };
    match name {
        "mtu" => metrics.mtu = Some(number()?),
        "advmss" => metrics.advmss = Some(number()?),
        "initcwnd" => metrics.initcwnd = Some(number()?),
        "initrwnd" => metrics.initrwnd = Some(number()?),
        "cwnd" => metrics.cwnd = Some(number()?),
        "ssthresh" => metrics.ssthresh = Some(number()?),
        "window" => metrics.window = Some(number()?),
        "reordering" => metrics.reordering = Some(number()?),
        "hoplimit" => metrics.hoplimit = Some(number()?),
        "rto_min" => metrics.rto_min = Some(time(value)?),
        "rtt" => metrics.rtt = Some(time(value)?),
        "rttvar" => metrics.rttvar = Some(time(value)?),
        "quickack" => metrics.quickack = Some(switch()?),
        "fastopen_no_cookie" => metrics.fastopen_no_cookie = Some(switch()?),
        "features" if value == "ecn" => metrics.ecn = true,
        "congctl" => metrics.congctl = Some(value.to_owned()),
        _ => return Some(false),
    }
    Some(true)
}

/// A time as `ip` has it: `200ms`, `1s`, and bare milliseconds.
fn time(value: &str) -> Option<Duration> {
    let split = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let (digits, unit) = value.split_at(split);
    let number = digits.parse::<u64>().ok()?;
    match unit {
        "" | "ms" | "msec" | "msecs" => Some(Duration::from_millis(number)),
        "s" | "sec" | "secs" => Some(Duration::from_secs(number)),
        "us" | "usec" | "usecs" => Some(Duration::from_micros(number)),
        _ => None,
    }
}

fn tc(args: &[&str]) -> Option<Action> {
    let ["qdisc", verb, rest @ ..] = args else { return None };
    let verb = match *verb {
        "add" | "replace" | "change" => *verb,
        "del" | "delete" => "del",
        _ => return None,
    };
    let ["dev", device, rest @ ..] = rest else { return None };
    let ["root", rest @ ..] = rest else { return None };
    let rest = match rest {
        ["handle", _, rest @ ..] => rest,
        all => all,
    };
    let mut qdisc = Qdisc {
        verb: verb.to_owned(),
        device: (*device).to_owned(),
        kind: String::new(),
        limit: None,
        other: Vec::new(),
    };
    let Some((kind, parameters)) = rest.split_first() else {
        return (verb == "del").then_some(Action::Qdisc(qdisc));
    };
    (*kind).clone_into(&mut qdisc.kind);
    match parameters {
        ["limit", limit, rest @ ..] => {
            qdisc.limit = Some(limit.parse().ok()?);
            qdisc.other = rest.iter().map(|text| (*text).to_owned()).collect();
        }
        all => qdisc.other = all.iter().map(|text| (*text).to_owned()).collect(),
    }
    Some(Action::Qdisc(qdisc))
}

fn ethtool(args: &[&str]) -> Option<Action> {
    let ["-K" | "--offload" | "--features", device, settings @ ..] = args else { return None };
    let pairs = settings.chunks_exact(2);
    if settings.is_empty() || !pairs.remainder().is_empty() {
        return None;
    }
    let settings: Option<Vec<_>> = pairs
        .map(|pair| match pair {
            [name, "on"] => Some(((*name).to_owned(), true)),
            [name, "off"] => Some(((*name).to_owned(), false)),
            _ => None,
        })
        .collect();
    Some(Action::Offloads { device: (*device).to_owned(), settings: settings? })
}

fn nstat_flag(arg: &str) -> bool {
    arg.strip_prefix('-')
        .is_some_and(|letters| letters.chars().all(|c| matches!(c, 'z' | 's' | 'n' | 'a' | 'r')))
}

/// The pattern of a filter that keeps lines with a fixed text.
fn grep_pattern(filter: &Simple) -> Option<(&str, &[Word])> {
    let (name, mut args) = filter.words.split_first()?;
    if name.text != "grep" || !filter.redirects.is_empty() {
        return None;
    }
    while let Some((flag, rest)) = args.split_first() {
        match flag.text.as_str() {
            "-q" | "-F" | "-s" => args = rest,
            _ => break,
        }
    }
    let (pattern, rest) = args.split_first()?;
    let special = |c: char| "*[]^$\\.|+?(){}".contains(c);
    let plain = !pattern.expands && !pattern.text.starts_with('-');
    (plain && !pattern.text.contains(special)).then_some((pattern.text.as_str(), rest))
}

fn counter_check(pipeline: &Pipeline, first: &Simple, filters: &[Simple]) -> Option<Action> {
    let flags = first.words.get(1..)?;
    if !flags.iter().all(|flag| nstat_flag(&flag.text)) || !first.redirects.is_empty() {
        return None;
    }
    let has = |letter: char| flags.iter().any(|flag| flag.text.contains(letter));
    if has('a') || has('r') || has('n') {
        return None;
    }
    let mut patterns = Vec::new();
    for filter in filters {
        let (pattern, rest) = grep_pattern(filter)?;
        if !rest.is_empty() {
            return None;
        }
        patterns.push(pattern.to_owned());
    }
    Some(Action::CounterCheck {
        patterns,
        zeros: has('z'),
        keep: has('s'),
        negated: pipeline.negated,
    })
}

fn socket_check(pipeline: &Pipeline, first: &Simple, filters: &[Simple]) -> Option<Action> {
    let mut patterns = Vec::new();
    let files = if first.words.first()?.text == "cat" {
        first.words.get(1..)?
    } else {
        let (pattern, files) = grep_pattern(first)?;
        patterns.push(pattern.to_owned());
        files
    };
    let (mut ipv4, mut ipv6) = (false, false);
    for file in files {
        match file.text.as_str() {
            "/proc/net/tcp" => ipv4 = true,
            "/proc/net/tcp6" => ipv6 = true,
            _ => return None,
        }
    }
    for filter in filters {
        let (pattern, rest) = grep_pattern(filter)?;
        if !rest.is_empty() {
            return None;
        }
        patterns.push(pattern.to_owned());
    }
    if patterns.is_empty() || !(ipv4 || ipv6) || !first.redirects.is_empty() {
        return None;
    }
    Some(Action::SocketCheck { ipv6, ipv4, patterns, negated: pipeline.negated })
}

fn sleep(name: &str, args: &[&str]) -> Option<Action> {
    let [text] = args else { return None };
    if name == "usleep" {
        return Some(Action::Sleep(Duration::from_micros(text.parse().ok()?)));
    }
    let (text, unit_seconds) = match text.strip_suffix(['s', 'm']) {
        Some(number) if text.ends_with('m') => (number, 60),
        Some(number) => (number, 1),
        None => (*text, 1),
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let whole = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let time = Duration::new(whole, digits.parse().ok()?);
    Some(Action::Sleep(time.checked_mul(unit_seconds)?))
}

fn dd(args: &[&str]) -> Option<Action> {
    let (mut path, mut block, mut count) = (None, Some(512_u64), None);
    for arg in args {
        match arg.split_once('=')? {
            ("if", "/dev/zero") | ("status", _) => {}
            ("of", file) => path = Some(file.to_owned()),
            ("bs", size) => block = bytes(size),
            ("count", blocks) => count = blocks.parse::<u64>().ok(),
            _ => return None,
        }
    }
    Some(Action::ZeroFile { path: path?, bytes: block?.checked_mul(count?)? })
}

/// A size as `dd` has it: bytes, or `K` and `M`.
fn bytes(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix(['k', 'K', 'M']) {
        Some(digits) if text.ends_with('M') => (digits, 1 << 20),
        Some(digits) => (digits, 1 << 10),
        None => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}
