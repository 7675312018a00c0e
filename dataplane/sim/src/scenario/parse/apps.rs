//! Applications.

use core::time::Duration;

use base::Rate;
use tcp::ConnOptions;
use workloads::traffic::{Kind, Reader as SinkReader, Spec};

use super::hosts::family;
use super::{Reader, list};
use crate::link::LinkConfig;
use crate::scenario::model::{
    APPS_MAX, AppSpec, DURATION_MAX, FLOWS_MAX, LATER_CONGESTION, LinkSpec, Place, congestion,
};
use crate::scenario::units;
use crate::scenario::value::{Fields, Node, Problem, Read, Value, unknown};

/// The shortest time between two writes, and the shortest phase of a burst.
const STEP_MIN: Duration = Duration::from_micros(1);
/// The largest request, response, write or buffer in bytes.
const AMOUNT_MAX_BYTES: u64 = 1 << 30;
/// Transactions or writes of a flow.
const COUNT_MAX: u64 = 1_000_000_000;
const KINDS: [&str; 5] = ["bulk", "rr", "onoff", "writes", "idle"];

/// Which key goes with which kinds.
const BELONGS: [(&str, &[&str]); 8] = [
    ("bytes", &["bulk", "onoff"]),
    ("count", &["rr", "writes"]),
    ("request", &["rr"]),
    ("response", &["rr"]),
    ("size", &["writes"]),
    ("every", &["writes"]),
    ("on", &["onoff"]),
    ("off", &["onoff"]),
];

impl Reader {
    pub(super) fn apps(&mut self, node: Option<&Node<'_>>) -> Read<()> {
        let mut flows = 0;
        for (index, node) in list(node, "app", APPS_MAX)?.iter().enumerate() {
            let mut fields = Fields::of(format!("app[{index}]"), node)?;
            let name = match fields.take("name") {
                Some(node) => {
                    let name = node.as_name(&fields.key("name"))?;
                    if self.scenario.apps.iter().any(|a| a.name == name) {
                        let what = format!("another application is called {name}");
                        return Err(Problem::new(node.at, fields.key("name"), what));
                    }
                    name
                }
                None => format!("app{index}"),
            };
            let from_node = fields.need("from")?;
            let from = self.host(from_node, &fields.key("from"))?;
            let to_node = fields.need("to")?;
            let to = self.host(to_node, &fields.key("to"))?;
            if from == to {
                return Err(Problem::new(to_node.at, fields.key("to"), "is where it comes from"));
            }
            let ipv6 = match fields.take("ip") {
                Some(node) => family(node, &fields.key("ip"))?,
                None => false,
            };
            let traffic = self.traffic(&mut fields)?;
            let fields_key = fields.key("ip");
            fields.finish()?;
            flows += traffic.flows;
            if flows > FLOWS_MAX {
                let what = format!("all applications together have more than {FLOWS_MAX} flows");
                return Err(Problem::new(node.at, format!("app[{index}].flows"), what));
            }
            self.is_reachable(from, to, to_node)?;
            let family = if ipv6 { 6 } else { 4 };
            for (host, other, node) in [(from, to, from_node), (to, from, to_node)] {
                if self.target(other, host, ipv6).is_none() {
                    let host = self.scenario.hosts.get(host).map_or("", |h| &h.name);
                    let what = format!("{host} has no IPv{family} address");
                    return Err(Problem::new(node.at, fields_key, what));
                }
            }
            let Some(target) = self.target(from, to, ipv6) else { continue };
            self.scenario.apps.push(AppSpec { name, from, to, target, traffic });
        }
        Ok(())
    }

    fn traffic(&mut self, fields: &mut Fields<'_, '_>) -> Read<Spec> {
        const TIME: &str = "a time such as \"10ms\"";
        let kind_node = fields.need("kind")?;
        let kind_key = fields.key("kind");
        let kind = kind_node.as_text(&kind_key, "what the application does")?;
        if !KINDS.contains(&kind) {
            return Err(Problem::new(kind_node.at, kind_key, unknown("kind", kind, KINDS))
                .help(format!("allowed: {}", KINDS.join(", "))));
        }
        for (key, kinds) in BELONGS {
            if let (false, Some((_, at))) =
                (kinds.contains(&kind), fields.present(&[key]).first().copied())
            {
                let what = format!("belongs to {}, not to {kind}", kinds.join(" and "));
                return Err(Problem::new(at, fields.key(key), what));
            }
        }
        let mut time = |name: &'static str| -> Read<Option<(usize, Duration)>> {
            let key = fields.key(name);
            let Some(node) = fields.take(name) else { return Ok(None) };
            let time = node.unit(&key, TIME, units::time)?;
            if time > DURATION_MAX {
                return Err(Problem::new(node.at, key, "is longer than 1h"));
            }
            Ok(Some((node.at, time)))
        };
        let start = time("start")?.map_or(Duration::ZERO, |(_, t)| t);
        let stagger = time("stagger")?.map_or(Duration::ZERO, |(_, t)| t);
        let stop = time("stop")?;
        let (on, off, every) = (time("on")?, time("off")?, time("every")?);
        if let Some((at, _)) = stop.filter(|(_, stop)| *stop <= start) {
            return Err(Problem::new(at, fields.key("stop"), "is not after the start"));
        }
        let step = |time: Option<(usize, Duration)>, name: &str, usual: Duration| match time {
            Some((at, time)) if time < STEP_MIN => {
                Err(Problem::new(at, fields.key(name), "is shorter than 1us"))
            }
            time => Ok(time.map_or(usual, |(_, time)| time)),
        };
        let (on, off) =
            (step(on, "on", Duration::from_secs(1))?, step(off, "off", Duration::from_secs(1))?);
        let every = step(every, "every", Duration::from_millis(1))?;
        let flows = match fields.take("flows") {
            Some(node) => node.as_number(&fields.key("flows"), 1, FLOWS_MAX.into())? as u32,
            None => 1,
        };
        let bytes = amount(fields, "bytes", units::SIZE_MAX_BYTES)?;
        let request = amount(fields, "request", AMOUNT_MAX_BYTES)?;
        let response = amount(fields, "response", AMOUNT_MAX_BYTES)?;
        let size = amount(fields, "size", AMOUNT_MAX_BYTES)?;
        let count = match fields.take("count") {
            Some(node) => Some(node.as_number(&fields.key("count"), 1, COUNT_MAX)?),
            None => None,
        };
        let small = |size: Option<u64>, usual: u32| {
            size.map_or(usual, |n| u32::try_from(n).unwrap_or(u32::MAX))
        };
        let kind = match kind {
            "bulk" => Kind::Bulk { bytes },
            "rr" => Kind::Rr { request: small(request, 64), response: small(response, 64), count },
            "onoff" => Kind::OnOff { on, off, bytes },
            "writes" => Kind::Writes { size: small(size, 1024), every, count },
            _ => Kind::Idle,
        };
        let reader = reader(fields)?;
        let options = self.options(fields)?;
        let stop = stop.map(|(_, stop)| stop);
        Ok(Spec { kind, flows, start, stagger, stop, reader, options })
    }

    fn options(&mut self, fields: &mut Fields<'_, '_>) -> Read<ConnOptions> {
        let buffer = |size: Option<u64>| size.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        let mut options = ConnOptions {
            sndbuf: buffer(amount(fields, "sndbuf", AMOUNT_MAX_BYTES)?),
            rcvbuf: buffer(amount(fields, "rcvbuf", AMOUNT_MAX_BYTES)?),
            // Times that something held a flow up are among what is measured.
            tally: true,
            ..ConnOptions::default()
        };
        if let Some(node) = fields.take("nodelay") {
            options.nodelay = node.as_bool(&fields.key("nodelay"))?;
        }
        if let Some(node) = fields.take("cc") {
            let key = fields.key("cc");
            let name = node.as_text(&key, "the name of a congestion control")?;
            options.congestion = congestion(name);
            if options.congestion.is_none() {
                let here = tcp::params::CongestionAlgorithm::ALL.map(|(name, _)| name);
                if !LATER_CONGESTION.contains(&name) {
                    let known = here.into_iter().chain(LATER_CONGESTION);
                    let what = unknown("congestion control", name, known);
                    return Err(Problem::new(node.at, key, what)
                        .help(format!("there are: {}", here.join(", "))));
                }
                let what = format!("{name} does not exist here yet");
                let problem = Problem::unsupported(node.at, key, what);
                self.unsupported.push(problem.help(format!("there are: {}", here.join(", "))));
            }
        }
        Ok(options)
    }

    /// Whether links lead from one host to the other, and none of the ways takes no time at all.
    fn is_reachable(&self, from: usize, to: usize, node: &Node<'_>) -> Read<()> {
        if !self.leads(from, to, |_| true) {
            let what = "no links lead from one host to the other";
            return Err(Problem::new(node.at, "app", what));
        }
        let at_once =
            |c: &LinkConfig| c.rate == Rate::UNLIMITED && c.delay.is_zero() && c.jitter.is_zero();
        if self.leads(from, to, |link| at_once(&link.forward) && at_once(&link.reverse)) {
            let what =
                "nothing on the way takes time, so whatever fits would be sent at once for ever";
            return Err(Problem::new(node.at, "app", what).help("give a link a delay or a rate"));
        }
        Ok(())
    }

    /// Whether such links lead from one host to the other.
    fn leads(&self, from: usize, to: usize, such: impl Fn(&LinkSpec) -> bool) -> bool {
        let (from, to) = (Place::Host(from), Place::Host(to));
        let mut seen = vec![from];
        let mut next = 0;
        while let Some(&place) = seen.get(next) {
            next += 1;
            // Hosts do not forward.
            if matches!(place, Place::Host(_)) && place != from {
                continue;
            }
            for link in self.scenario.links.iter().filter(|link| such(link)) {
                let [a, b] = link.between;
                for (near, far) in [(a, b), (b, a)] {
                    if near == place && !seen.contains(&far) {
                        seen.push(far);
                    }
                }
            }
        }
        seen.contains(&to)
    }
}

/// A size in bytes, at least one.
fn amount(fields: &mut Fields<'_, '_>, name: &'static str, most: u64) -> Read<Option<u64>> {
    let key = fields.key(name);
    let Some(node) = fields.take(name) else { return Ok(None) };
    let bytes = node.unit(&key, "a size such as \"64KiB\"", units::size)?;
    if (1..=most).contains(&bytes) {
        return Ok(Some(bytes));
    }
    let what = format!("{bytes} bytes is not from 1B to {}MiB", most >> 20);
    Err(Problem::new(node.at, key, what))
}

fn reader(fields: &mut Fields<'_, '_>) -> Read<SinkReader> {
    const ALLOWED: &str = "{ rate = \"10Mbit\" } or { pause_at = \"2s\", for = \"5s\" }";
    let key = fields.key("reader");
    let Some(node) = fields.take("reader") else { return Ok(SinkReader::Eager) };
    let Value::Table(_) = node.value else { return Err(node.wrong(&key, ALLOWED)) };
    let mut inner = Fields::of(key, node)?;
    let rate = inner.take("rate");
    let pause = (inner.take("pause_at"), inner.take("for"));
    let reader = match (rate, pause) {
        (Some(node), (None, None)) => {
            let rate = node.unit(&inner.key("rate"), "a rate such as \"10Mbit\"", units::rate)?;
            if rate == Rate::UNLIMITED { SinkReader::Eager } else { SinkReader::Rate(rate) }
        }
        (None, (Some(at), Some(time))) => SinkReader::Pause {
            at: at.unit(&inner.key("pause_at"), "a time such as \"2s\"", units::time)?,
            time: time.unit(&inner.key("for"), "a time such as \"5s\"", units::time)?,
        },
        _ => return Err(Problem::new(node.at, inner.path(), format!("expected {ALLOWED}"))),
    };
    inner.finish()?;
    Ok(reader)
}
