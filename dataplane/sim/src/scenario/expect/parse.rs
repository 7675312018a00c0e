//! From a table or a phrase to an expectation.

use base::DropReason;
use config::quote;
use stack::StackCounters;
use tcp::TcpCounters;

use super::{DropBy, Expect, LINK_REASONS, Measure, Of, Op, Operand, Over, Target, Unit, What};
use crate::link::Room;
use crate::scenario::units;
use crate::scenario::value::{FaultKind, Fields, Node, Problem, Read, Value, unknown};
use crate::world::Way;

/// What the names in an expectation refer to.
pub(in crate::scenario) struct Names<'s> {
    pub(in crate::scenario) apps: Vec<(&'s str, u32)>,
    pub(in crate::scenario) links: Vec<&'s str>,
    pub(in crate::scenario) hosts: Vec<&'s str>,
    pub(in crate::scenario) variants: Vec<&'s str>,
    /// Whether the engine changes transmit hashes and says why.
    pub(in crate::scenario) rehashes: bool,
}

/// A piece of text and where it stands.
type Word<'t> = Option<(usize, &'t str)>;

/// A quantity as written.
#[derive(Clone, Copy, Default)]
struct Raw<'t> {
    what: Word<'t>,
    of: Word<'t>,
    variant: Word<'t>,
    at: Word<'t>,
    mss: Option<(usize, u32)>,
    reason: Word<'t>,
    link: Word<'t>,
    way: Word<'t>,
    host: Word<'t>,
    name: Word<'t>,
}

const WHATS: [&str; 24] = [
    "goodput",
    "fastest_over_slowest",
    "jain",
    "completion",
    "mss",
    "time_to_mss",
    "rtos",
    "retransmits",
    "spurious_retransmits",
    "recoveries",
    "rehashes",
    "rcvbuf_max",
    "rcvbuf",
    "window_limited",
    "cwnd",
    "srtt",
    "queue_max",
    "queue_mean",
    "marks",
    "utilisation",
    "drops",
    "counter",
    "bytes_intact",
    "ratio",
];

/// Quantities of links.
const LINKS_WHATS: [&str; 5] = ["queue_max", "queue_mean", "utilisation", "marks", "drops"];

/// Which key goes with which quantities.
const BELONGS: [(&str, &[&str]); 6] = [
    ("mss", &["time_to_mss"]),
    ("reason", &["rehashes", "drops"]),
    ("link", &LINKS_WHATS),
    ("way", &LINKS_WHATS),
    ("host", &["counter", "drops"]),
    ("name", &["counter"]),
];

/// The largest MSS that can be waited for.
const MSS_MAX: u64 = 65_535;

/// One `[[expect]]`; `line` is where it stands. What the engine cannot tell yet goes to `unsupported`.
pub(in crate::scenario) fn parse(
    mut fields: Fields<'_, '_>,
    line: usize,
    names: &Names<'_>,
    unsupported: &mut Vec<Problem>,
) -> Read<Expect> {
    let what_node = fields.need("what")?;
    let what = what_node.as_text(&fields.key("what"), "a quantity")?;
    let op_key = fields.key("op");
    let op_node = fields.need("op")?;
    let op = op_node.as_choice(&op_key, &Op::NAMES)?;
    let over = match fields.take("over") {
        Some(node) => node.as_choice(&fields.key("over"), &Over::NAMES)?,
        None => Over::default(),
    };
    let variant_at = fields.take("variant");
    let variant = match variant_at {
        Some(node) => {
            let key = fields.key("variant");
            Some(names.variant(node.at, node.as_text(&key, "the name of a variant")?, &key)?)
        }
        None => None,
    };
    let (mut left, left_text) = if what == "ratio" {
        let (a, a_text) = part(&mut fields, ["a", "of"], names, unsupported)?;
        let (b, b_text) = part(&mut fields, ["b", "to"], names, unsupported)?;
        (Operand::Ratio(a, b), format!("({a_text}) / ({b_text})"))
    } else {
        let raw = table(&mut fields)?;
        let text = raw.text();
        let measure = resolve(&raw, &fields, names, unsupported)?;
        (Operand::One(measure), text)
    };
    let value_key = fields.key("value");
    let (value, value_of) = (fields.take("value"), fields.take("value_of"));
    let (right, right_text) = match (value, value_of) {
        (Some(node), None) => {
            let number = number(node, &value_key, &mut left)?;
            (Target::Number(number), shown(node))
        }
        (None, Some(node)) => {
            let key = fields.key("value_of");
            let raw = phrase(node, &key)?;
            (Target::Measure(resolve(&raw, &fields, names, unsupported)?), raw.text())
        }
        (None, None) => return Err(Problem::new(fields.at, value_key, "is missing")),
        (Some(_), Some(node)) => {
            return Err(Problem::new(node.at, fields.key("value_of"), "stands beside value"));
        }
    };
    fields.finish()?;
    let over_text = if over == Over::Mean { String::new() } else { format!(" ({})", over.name()) };
    let text = format!("{left_text} {} {right_text}{over_text}", op.name());
    Ok(Expect { line, text, left, op, right, over, variant })
}

/// A value as written.
fn shown(node: &Node<'_>) -> String {
    match &node.value {
        Value::Text(text) | Value::Float(text) => text.clone().into_owned(),
        Value::Integer(n) => n.to_string(),
        Value::Bool(b) => b.to_string(),
        _ => String::new(),
    }
}

/// One side of a ratio, under either of two names: a phrase, or a table.
fn part(
    fields: &mut Fields<'_, '_>,
    keys: [&'static str; 2],
    names: &Names<'_>,
    unsupported: &mut Vec<Problem>,
) -> Read<(Measure, String)> {
    let [first, second] = keys;
    let name = if !fields.has(first) && fields.has(second) { second } else { first };
    let node = fields.need(name)?;
    let key = fields.key(name);
    if let Value::Table(_) = node.value {
        let mut inner = Fields::of(key, node)?;
        let variant = inner.take("variant").map(|n| (n.at, n));
        let mut raw = table(&mut inner)?;
        if let Some((at, node)) = variant {
            raw.variant = Some((at, node.as_text(&inner.key("variant"), "the name of a variant")?));
        }
        inner.take("what");
        let measure = resolve(&raw, &inner, names, unsupported)?;
        inner.finish()?;
        return Ok((measure, raw.text()));
    }
    let raw = phrase(node, &key)?;
    let measure = resolve(&raw, fields, names, unsupported)?;
    Ok((measure, raw.text()))
}

/// A quantity in keys.
fn table<'t>(fields: &mut Fields<'t, '_>) -> Read<Raw<'t>> {
    let mut word = |name: &'static str| -> Read<Word<'t>> {
        let key = fields.key(name);
        fields.take(name).map(|node| Ok((node.at, node.as_text(&key, "text")?))).transpose()
    };
    let mut raw = Raw {
        what: word("what")?,
        of: word("of")?,
        variant: None,
        at: word("at")?,
        mss: None,
        reason: word("reason")?,
        link: word("link")?,
        way: word("way")?,
        host: word("host")?,
        name: word("name")?,
    };
    let key = fields.key("mss");
    if let Some(node) = fields.take("mss") {
        raw.mss = Some((node.at, node.as_number(&key, 1, MSS_MAX)? as u32));
    }
    Ok(raw)
}

/// A quantity in words.
fn phrase<'t>(node: &'t Node<'_>, key: &str) -> Read<Raw<'t>> {
    const EXAMPLE: &str = "\"goodput of f in after\"";
    let text = node.as_text(key, &format!("a quantity such as {EXAMPLE}"))?;
    let fail = |what: String| Problem::new(node.at, key, what).help(format!("such as {EXAMPLE}"));
    let mut words = text.split_whitespace();
    let what = words.next().ok_or_else(|| fail("is empty".into()))?;
    let at = node.at;
    let mut raw = Raw { what: Some((at, what)), ..Raw::default() };
    while let Some(word) = words.next() {
        let slot = match word {
            "of" => &mut raw.of,
            "in" => &mut raw.variant,
            "at" => &mut raw.at,
            argument => {
                let slot = match what {
                    "counter" => &mut raw.name,
                    "rehashes" | "drops" => &mut raw.reason,
                    "time_to_mss" if raw.mss.is_none() => {
                        let number =
                            argument.parse().ok().filter(|n| (1..=MSS_MAX as u32).contains(n));
                        let why = || fail(format!("{} is no MSS", quote(argument)));
                        raw.mss = Some((at, number.ok_or_else(why)?));
                        continue;
                    }
                    _ => return Err(fail(format!("{} has no meaning here", quote(argument)))),
                };
                if slot.replace((at, argument)).is_some() {
                    return Err(fail(format!("{} has no meaning here", quote(argument))));
                }
                continue;
            }
        };
        let value = words.next().ok_or_else(|| fail(format!("nothing follows {}", quote(word))))?;
        if slot.replace((at, value)).is_some() {
            return Err(fail(format!("{} comes twice", quote(word))));
        }
    }
    // What a quantity is of depends on it.
    match what {
        "queue_max" | "queue_mean" | "marks" | "utilisation" => raw.link = raw.of.take(),
        "counter" => raw.host = raw.of.take(),
        _ => {}
    }
    Ok(raw)
}

impl Raw<'_> {
    fn text(&self) -> String {
        let mut text = self.what.map_or(String::new(), |(_, what)| what.to_owned());
        let mut add = |before: &str, word: Word<'_>| {
            if let Some((_, word)) = word {
                text.push_str(before);
                text.push_str(word);
            }
        };
        add(" ", self.name);
        add(" ", self.reason);
        let mss = self.mss.map(|(at, n)| (at, n.to_string()));
        add(" ", mss.as_ref().map(|(at, n)| (*at, n.as_str())));
        add(" of ", self.of);
        add(" of ", self.link);
        add(" ", self.way);
        add(" of ", self.host);
        add(" in ", self.variant);
        add(" at ", self.at);
        text
    }

    fn has(&self, key: &str) -> Option<usize> {
        match key {
            "mss" => self.mss.map(|(at, _)| at),
            "reason" => self.reason.map(|(at, _)| at),
            "link" => self.link.map(|(at, _)| at),
            "way" => self.way.map(|(at, _)| at),
            "host" => self.host.map(|(at, _)| at),
            "name" => self.name.map(|(at, _)| at),
            _ => None,
        }
    }
}

impl Names<'_> {
    fn variant(&self, at: usize, name: &str, key: &str) -> Read<usize> {
        find(&self.variants, "variant", at, name, key)
    }

    /// `f`, `f[3]` or `all`.
    fn of(&self, at: usize, text: &str, key: &str) -> Read<Of> {
        if text == "all" {
            return Ok(Of::All);
        }
        let (name, flow) = match text.strip_suffix(']').and_then(|t| t.split_once('[')) {
            Some((name, flow)) => (name, Some(flow)),
            None => (text, None),
        };
        let apps: Vec<&str> = self.apps.iter().map(|(name, _)| *name).collect();
        let app = find(&apps, "application", at, name, key)?;
        let Some(flow) = flow else { return Ok(Of::App(app)) };
        let flows = self.apps.get(app).map_or(0, |(_, flows)| *flows);
        match flow.parse::<u32>() {
            Ok(n) if n < flows => Ok(Of::Flow(app, n)),
            _ => Err(Problem::new(
                at,
                key,
                format!("{}: {name} has flows [0] to [{}]", quote(text), flows.saturating_sub(1)),
            )),
        }
    }
}

fn find(names: &[&str], what: &str, at: usize, name: &str, key: &str) -> Read<usize> {
    names.iter().position(|n| *n == name).ok_or_else(|| {
        let problem = Problem::new(at, key, unknown(what, name, names.iter().copied()));
        if names.is_empty() || names.len() > 20 {
            problem
        } else {
            problem.help(format!("there are: {}", names.join(", ")))
        }
    })
}

fn resolve(
    raw: &Raw<'_>,
    fields: &Fields<'_, '_>,
    names: &Names<'_>,
    unsupported: &mut Vec<Problem>,
) -> Read<Measure> {
    let key = |name: &str| fields.key(name);
    let Some((at, what)) = raw.what else {
        return Err(Problem::new(fields.at, key("what"), "is missing"));
    };
    if !WHATS.contains(&what) || what == "ratio" {
        return Err(Problem::new(at, key("what"), unknown("quantity", what, WHATS))
            .help(format!("quantities: {}", WHATS.join(", "))));
    }
    for (name, whats) in BELONGS {
        if let (Some(at), false) = (raw.has(name), whats.contains(&what)) {
            let whats = whats.join(", ");
            return Err(Problem::new(at, key(name), format!("belongs to {whats}, not to {what}")));
        }
    }
    let missing = |name: &str| Problem::new(at, key(name), format!("{what} needs it"));
    // A link may be named by `of` as well, and so may the host of a host's reason.
    let reason = match (what, raw.reason) {
        ("drops", Some(word)) => Some(drop_reason(word, &key("reason"))?),
        _ => None,
    };
    let by_of = raw.of.filter(|_| LINKS_WHATS.contains(&what));
    let hosts_own = matches!(reason, Some(DropBy::Host(_)));
    let link_word = raw.link.or(by_of.filter(|_| !hosts_own));
    let host_word = raw.host.or(by_of.filter(|_| hosts_own));
    let link = link_word
        .map(|(at, name)| find(&names.links, "link", at, name, &key("link")))
        .transpose()?;
    let way = match raw.way {
        None => None,
        Some((_, "forward")) => Some(Way::Forward),
        Some((_, "reverse")) => Some(Way::Reverse),
        Some((at, other)) => {
            let what = format!("{} is not forward or reverse", quote(other));
            return Err(Problem::new(at, key("way"), what));
        }
    };
    let host = host_word
        .map(|(at, name)| find(&names.hosts, "host", at, name, &key("host")))
        .transpose()?;
    let kind = match what {
        "goodput" => What::Goodput,
        "fastest_over_slowest" => What::FastestOverSlowest,
        "jain" => What::Jain,
        "completion" => What::Completion,
        "mss" => What::Mss,
        "time_to_mss" => What::TimeToMss(raw.mss.ok_or_else(|| missing("mss"))?.1),
        "rtos" => What::Rtos,
        "retransmits" => What::Retransmits { share: false },
        "spurious_retransmits" => What::SpuriousRetransmits,
        "recoveries" => What::Recoveries,
        "rehashes" => {
            if !names.rehashes {
                let what = "the engine does not change transmit hashes yet";
                unsupported.push(Problem::unsupported(
                    at,
                    key("what"),
                    format!("rehashes: {what}"),
                ));
            }
            What::Rehashes(raw.reason.map(|(_, reason)| reason.to_owned()))
        }
        "rcvbuf_max" => What::RcvbufMax,
        "rcvbuf" => What::Rcvbuf,
        "window_limited" => What::WindowLimited,
        "cwnd" => What::Cwnd { bytes: false },
        "srtt" => What::Srtt,
        "queue_max" => {
            What::QueueMax { link: link.ok_or_else(|| missing("link"))?, way, packets: false }
        }
        "queue_mean" => {
            What::QueueMean { link: link.ok_or_else(|| missing("link"))?, way, packets: false }
        }
        "marks" => What::Marks { link, way },
        "utilisation" => What::Utilisation { link: link.ok_or_else(|| missing("link"))?, way },
        "drops" => {
            let by_host = host.is_some() || matches!(reason, Some(DropBy::Host(_)));
            let by_link = link.is_some() || matches!(reason, Some(DropBy::Link(_)));
            if by_host && by_link {
                let what = "hosts and links drop for different reasons";
                return Err(Problem::new(at, key("reason"), what));
            }
            if host.is_some() && reason.is_none() {
                return Err(missing("reason"));
            }
            What::Drops { reason, link, way, host }
        }
        "counter" => {
            let host = host.ok_or_else(|| missing("host"))?;
            let (at, name) = raw.name.ok_or_else(|| missing("name"))?;
            match counter(at, name, &key("name")) {
                Ok(name) => What::Counter { host, name },
                Err(problem) if problem.kind == FaultKind::Unsupported => {
                    unsupported.push(problem);
                    What::Counter { host, name: "" }
                }
                Err(problem) => return Err(problem),
            }
        }
        _ => What::BytesIntact,
    };
    let of = match raw.of {
        Some((at, text)) if by_of.is_none() => names.of(at, text, &key("of"))?,
        _ => Of::All,
    };
    let when = raw
        .at
        .map(|(at, text)| units::time(text).map_err(|why| Problem::new(at, key("at"), why)))
        .transpose()?;
    let variant =
        raw.variant.map(|(at, name)| names.variant(at, name, &key("what"))).transpose()?;
    Ok(Measure { what: kind, of, at: when, variant })
}

fn drop_reason((at, name): (usize, &str), key: &str) -> Read<DropBy> {
    if let Some((_, reason)) = LINK_REASONS.iter().find(|(n, _)| *n == name) {
        return Ok(DropBy::Link(*reason));
    }
    if let Some(reason) = DropReason::ALL.iter().find(|r| r.name() == name) {
        return Ok(DropBy::Host(*reason));
    }
    let links = LINK_REASONS.iter().map(|(n, _)| *n);
    let known = links.clone().chain(DropReason::ALL.iter().map(|r| r.name()));
    Err(Problem::new(at, key, unknown("reason", name, known))
        .help(format!("links: {}", links.collect::<Vec<_>>().join(", ")))
        .help("hosts: the names that a stack counts its drops by, such as tcp_csum"))
}

/// The full names of all counters.
pub fn counter_names() -> Vec<&'static str> {
    let tcp = TcpCounters::default();
    let stack = StackCounters::default();
    tcp.iter().chain(stack.iter()).map(|(name, _)| name).collect()
}

/// The full name of a counter, which may be written without its group.
fn counter(at: usize, name: &str, key: &str) -> Read<&'static str> {
    let all = counter_names();
    let without_group = |full: &&&'static str| {
        ["TcpExt", "Tcp", "Ip6", "Ip", "Icmp", "Millrace"]
            .iter()
            .find_map(|group| full.strip_prefix(group))
            .is_some_and(|rest| rest == name)
    };
    if let Some(full) =
        all.iter().find(|full| **full == name).or_else(|| all.iter().find(without_group))
    {
        return Ok(full);
    }
    let near = all.iter().map(|full| (strsim::damerau_levenshtein(full, name), *full)).min();
    match near {
        // A slip of the pen; what is farther off is a counter of a mechanism that is not there.
        Some((1..=2, near)) if name.len() < 100 => {
            let what = format!("unknown counter {}: did you mean {near}?", quote(name));
            Err(Problem::new(at, key, what))
        }
        _ => {
            let what = format!("there is no counter {}", quote(name));
            Err(Problem::unsupported(at, key, what))
        }
    }
}

/// The number that a quantity is compared with, in its base unit. How it is written may decide on the
/// unit of the quantity.
fn number(node: &Node<'_>, key: &str, left: &mut Operand) -> Read<f64> {
    let Operand::One(measure) = left else {
        return plain(node, key);
    };
    let text = node.measure(key, "a number");
    match &mut measure.what {
        What::Cwnd { bytes } => {
            let text = text?;
            if let Value::Text(_) = node.value
                && text.contains('B')
            {
                *bytes = true;
                return node.unit(key, "", units::size).map(|n| n as f64);
            }
            if text.contains("pkt") {
                return node.unit(key, "", units::packets).map(f64::from);
            }
            return plain(node, key);
        }
        What::QueueMax { packets, .. } | What::QueueMean { packets, .. } => {
            return Ok(
                match node.unit(key, "a size such as \"64KiB\" or \"65pkt\"", units::room)? {
                    Room::Bytes(n) => n as f64,
                    Room::Packets(n) => {
                        *packets = true;
                        f64::from(n)
                    }
                },
            );
        }
        What::Retransmits { share } => {
            let text = text?;
            if text.contains('%') || matches!(node.value, Value::Float(_)) {
                *share = true;
                return node.unit(key, "", units::share).map(|s| f64::from(s.ppm()) / 1e6);
            }
            return plain(node, key);
        }
        _ => {}
    }
    match measure.what.unit() {
        Unit::Rate => {
            node.unit(key, "a rate such as \"100Mbit\"", units::bits).map(|bits| bits as f64)
        }
        Unit::Time => {
            node.unit(key, "a time such as \"50ms\"", units::time).map(|t| t.as_secs_f64())
        }
        Unit::Share => node
            .unit(key, "a share such as \"1%\" or 0.01", units::share)
            .map(|share| f64::from(share.ppm()) / 1e6),
        // A packet's size needs no unit, as in `mtu`.
        Unit::Bytes if measure.what == What::Mss => match node.value {
            Value::Text(_) => node.unit(key, "a number of bytes", units::size).map(|n| n as f64),
            _ => plain(node, key),
        },
        Unit::Bytes => node.unit(key, "a size such as \"64KiB\"", units::size).map(|n| n as f64),
        Unit::Packets | Unit::Number => match node.value {
            Value::Bool(value) if measure.what == What::BytesIntact => {
                Ok(f64::from(u8::from(value)))
            }
            _ => plain(node, key),
        },
    }
}

/// A number without a unit; a share will do as well.
fn plain(node: &Node<'_>, key: &str) -> Read<f64> {
    let text = node.measure(key, "a number")?;
    if let Some(percent) = text.trim().strip_suffix('%') {
        let number = percent.trim().parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
        return number
            .map(|n| n / 100.0)
            .ok_or_else(|| Problem::new(node.at, key, format!("{} is not a share", quote(&text))));
    }
    text.trim()
        .parse::<f64>()
        .ok()
        .filter(|n| n.is_finite())
        .ok_or_else(|| Problem::new(node.at, key, format!("{} is not a number", quote(&text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_go_by_full_and_short_names() {
        assert_eq!(counter(0, "TcpRetransSegs", "name"), Ok("TcpRetransSegs"));
        assert_eq!(counter(0, "RetransSegs", "name"), Ok("TcpRetransSegs"));
        assert_eq!(counter(0, "TCPTimeouts", "name"), Ok("TcpExtTCPTimeouts"));
        let slip = counter(0, "TcpRetransSeg", "name").unwrap_err();
        assert!(slip.what.contains("did you mean TcpRetransSegs?"), "{slip}");
        let later = counter(0, "TcpExtTCPMTUPSuccess", "name").unwrap_err();
        assert_eq!(later.kind, FaultKind::Unsupported);
    }
}
