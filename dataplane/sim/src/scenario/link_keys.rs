//! The keys of a link, for scenario files, their time lines and the paths of `millrace wire`.
//!
//! In a path, `key=value` pairs are separated by commas, and what is a table in a file is written with
//! slashes: `reorder=5%/10ms`, `loss=0.1%/8` (in bursts of 8 on average), `loss=0.1%/20%/50%` (Gilbert
//! and Elliott), `policer=100Mbit/64KiB`. Files take these forms as well.

use core::time::Duration;

use base::Rate;

use super::units;
use super::value::{Fields, Node, Problem, Read, Value, unknown};
use crate::link::{LinkConfig, Loss, Policer, Reorder, Room, Share};

/// The smallest MTU of a link: what RFC 791 asks every link to carry.
pub const MTU_MIN: u16 = 68;
/// The longest burst of losses on average.
const BURST_MAX: u64 = 1_000_000;
/// The most that a path of the command line may say.
const PATH_MAX_BYTES: usize = 4096;

/// The names of all keys that change a link.
pub const KEYS: [&str; 13] = [
    "rate",
    "delay",
    "queue",
    "ecn_mark",
    "mtu",
    "jitter",
    "loss",
    "reorder",
    "duplicate",
    "corrupt",
    "policer",
    "drop_larger_than",
    "up",
];

/// One change of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkChange {
    /// `rate`
    Rate(Rate),
    /// `delay`
    Delay(Duration),
    /// `queue`
    Queue(Room),
    /// `ecn_mark`
    EcnMark(Option<Room>),
    /// `mtu`
    Mtu(u16),
    /// `jitter`
    Jitter(Duration),
    /// `loss`
    Loss(Loss),
    /// `reorder`
    Reorder(Reorder),
    /// `duplicate`
    Duplicate(Share),
    /// `corrupt`
    Corrupt(Share),
    /// `policer`
    Policer(Option<Policer>),
    /// `drop_larger_than`
    DropLargerThan(Option<u16>),
    /// `up`
    Up(bool),
}

impl LinkChange {
    /// Change `config`.
    pub fn apply(self, config: &mut LinkConfig) {
        match self {
            Self::Rate(rate) => config.rate = rate,
            Self::Delay(delay) => config.delay = delay,
            Self::Queue(queue) => config.queue = queue,
            Self::EcnMark(mark) => config.ecn_mark = mark,
            Self::Mtu(mtu) => config.mtu = mtu,
            Self::Jitter(jitter) => config.jitter = jitter,
            Self::Loss(loss) => config.loss = loss,
            Self::Reorder(reorder) => config.reorder = reorder,
            Self::Duplicate(share) => config.duplicate = share,
            Self::Corrupt(share) => config.corrupt = share,
            Self::Policer(policer) => config.policer = policer,
            Self::DropLargerThan(limit) => config.drop_larger_than = limit,
            Self::Up(up) => config.up = up,
        }
    }
}

/// Change `config` as a path says: `delay=50ms,loss=1%,rate=100Mbit,queue=1MiB,reorder=5%/10ms`. What
/// it does not name stays. On an error nothing has changed.
///
/// # Errors
///
/// The key, what is wrong and what is allowed.
pub fn apply_path(path: &str, config: &mut LinkConfig) -> Result<(), Problem> {
    let mut next = *config;
    for change in parse_path(path)? {
        change.apply(&mut next);
    }
    *config = next;
    Ok(())
}

/// The changes that a path asks for, in its order.
///
/// # Errors
///
/// The key, what is wrong and what is allowed.
pub fn parse_path(path: &str) -> Result<Vec<LinkChange>, Problem> {
    if path.len() > PATH_MAX_BYTES {
        return Err(Problem::new(0, "", format!("a path has at most {PATH_MAX_BYTES} bytes")));
    }
    let mut changes = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    let mut at = 0;
    for part in path.split(',') {
        let begin = at;
        at += part.len() + 1;
        if part.trim().is_empty() {
            continue;
        }
        let Some((key, value)) = part.split_once('=') else {
            let example = "delay=50ms,loss=1%,rate=100Mbit";
            return Err(Problem::new(begin, part.trim(), format!("has no value: write {example}")));
        };
        let (key, value) = (key.trim(), value.trim());
        if seen.contains(&key) {
            return Err(Problem::new(begin, key, "comes twice"));
        }
        seen.push(key);
        changes.push(change(key, key, begin, &Node::text(begin, value))?);
    }
    Ok(changes)
}

/// The change that a key with its value asks for; `path` is how messages name the key.
pub(super) fn change(name: &str, path: &str, at: usize, node: &Node<'_>) -> Read<LinkChange> {
    let time = || node.unit(path, "a time such as \"50ms\"", units::time);
    let share = || node.unit(path, "a share such as \"1%\" or 0.01", units::share);
    Ok(match name {
        "rate" => LinkChange::Rate(rate(path, node)?),
        "delay" => LinkChange::Delay(time()?),
        "queue" => LinkChange::Queue(room(path, node)?),
        "ecn_mark" if is_none(node) => LinkChange::EcnMark(None),
        "ecn_mark" => LinkChange::EcnMark(Some(room(path, node)?)),
        "mtu" => LinkChange::Mtu(mtu(path, node)?),
        "jitter" => LinkChange::Jitter(time()?),
        "loss" => LinkChange::Loss(loss(path, node)?),
        "reorder" => LinkChange::Reorder(reorder(path, node)?),
        "duplicate" => LinkChange::Duplicate(share()?),
        "corrupt" => LinkChange::Corrupt(share()?),
        "policer" if is_none(node) => LinkChange::Policer(None),
        "policer" => LinkChange::Policer(Some(policer(path, node)?)),
        "drop_larger_than" if is_none(node) => LinkChange::DropLargerThan(None),
        "drop_larger_than" => LinkChange::DropLargerThan(Some(mtu(path, node)?)),
        "up" => LinkChange::Up(up(path, node)?),
        other => {
            return Err(Problem::new(at, "", unknown("key", other, KEYS))
                .help(format!("keys of a link: {}", KEYS.join(", "))));
        }
    })
}

fn is_none(node: &Node<'_>) -> bool {
    matches!(&node.value, Value::Text(text) if text == "none")
}

fn rate(path: &str, node: &Node<'_>) -> Read<Rate> {
    node.unit(path, "a rate such as \"100Mbit\", or \"unlimited\"", units::rate)
}

fn room(path: &str, node: &Node<'_>) -> Read<Room> {
    node.unit(path, "a size such as \"64KiB\" or \"65pkt\"", units::room)
}

/// The size of a packet: a plain number of bytes, or a size.
fn mtu(path: &str, node: &Node<'_>) -> Read<u16> {
    let sized = match &node.value {
        Value::Text(text) if text.contains(|c: char| c.is_ascii_alphabetic()) => {
            Some(node.unit(path, "a number of bytes", units::size)?)
        }
        _ => None,
    };
    let n = match sized {
        Some(n) if (u64::from(MTU_MIN)..=u64::from(u16::MAX)).contains(&n) => n,
        Some(n) => {
            let allowed = format!("from {MTU_MIN} to {}", u16::MAX);
            return Err(Problem::new(node.at, path, format!("{n} bytes is not {allowed}")));
        }
        None => node.as_number(path, MTU_MIN.into(), u16::MAX.into())?,
    };
    Ok(n as u16)
}

fn up(path: &str, node: &Node<'_>) -> Read<bool> {
    match &node.value {
        Value::Text(text) if text == "true" || text == "1" => Ok(true),
        Value::Text(text) if text == "false" || text == "0" => Ok(false),
        _ => node.as_bool(path),
    }
}

/// The parts of a value with slashes.
fn parts<'n>(node: &'n Node<'_>) -> Option<Vec<Node<'n>>> {
    match &node.value {
        Value::Text(text) if text.contains('/') => {
            Some(text.split('/').map(|part| Node::text(node.at, part)).collect())
        }
        _ => None,
    }
}

fn loss(path: &str, node: &Node<'_>) -> Read<Loss> {
    const ALLOWED: &str = "a share such as \"1%\", or { p = \"0.1%\", burst = 8 }, or \
                           { good_to_bad = \"0.1%\", bad_to_good = \"20%\", bad = \"50%\" }";
    let share = |node: &Node<'_>, key: &str| node.unit(key, ALLOWED, units::share);
    let random = |p: Share| if p == Share::ZERO { Loss::None } else { Loss::Random(p) };
    if let Some(parts) = parts(node) {
        return match parts.as_slice() {
            [p, burst] => bursts(path, share(p, path)?, burst),
            [enter, leave, bad] => Ok(Loss::Bursts {
                good_to_bad: share(enter, path)?,
                bad_to_good: share(leave, path)?,
                bad: share(bad, path)?,
            }),
            _ => Err(Problem::new(node.at, path, format!("expected {ALLOWED}"))),
        };
    }
    let Value::Table(_) = node.value else { return share(node, path).map(random) };
    let mut fields = Fields::of(path, node)?;
    if fields.has("p") {
        let p = share(fields.need("p")?, &fields.key("p"))?;
        let burst = fields.take("burst");
        let key = fields.key("burst");
        fields.finish()?;
        return match burst {
            Some(burst) => bursts(&key, p, burst),
            None => Ok(random(p)),
        };
    }
    let mut of = |name| share(fields.need(name)?, &format!("{path}.{name}"));
    let states = Loss::Bursts {
        good_to_bad: of("good_to_bad")?,
        bad_to_good: of("bad_to_good")?,
        bad: of("bad")?,
    };
    fields.finish()?;
    Ok(states)
}

fn bursts(path: &str, p: Share, burst: &Node<'_>) -> Read<Loss> {
    let burst = burst.as_number(path, 1, BURST_MAX)? as u32;
    Ok(if p == Share::ZERO { Loss::None } else { Loss::bursts(p, burst) })
}

fn reorder(path: &str, node: &Node<'_>) -> Read<Reorder> {
    const ALLOWED: &str = "{ p = \"5%\", by = \"10ms\" }";
    let share = |node: &Node<'_>, key: &str| node.unit(key, ALLOWED, units::share);
    let time = |node: &Node<'_>, key: &str| node.unit(key, ALLOWED, units::time);
    if let Some([p, by]) = parts(node).as_deref() {
        return Ok(Reorder { p: share(p, path)?, by: time(by, path)? });
    }
    if let Value::Table(_) = node.value {
        let mut fields = Fields::of(path, node)?;
        let p = share(fields.need("p")?, &fields.key("p"))?;
        let by = time(fields.need("by")?, &fields.key("by"))?;
        fields.finish()?;
        return Ok(Reorder { p, by });
    }
    // Nothing is reordered by nothing, so zero needs no time.
    match node.measure(path, ALLOWED).ok().and_then(|text| units::share(&text).ok()) {
        Some(Share::ZERO) => Ok(Reorder::default()),
        _ => Err(Problem::new(node.at, path, format!("needs a share and a time: {ALLOWED}"))
            .help("in a path: reorder=5%/10ms")),
    }
}

fn policer(path: &str, node: &Node<'_>) -> Read<Policer> {
    const ALLOWED: &str = "{ rate = \"100Mbit\", burst = \"64KiB\" } or \"none\"";
    let size = |node: &Node<'_>, key: &str| node.unit(key, ALLOWED, units::size);
    if let Some([limit, burst]) = parts(node).as_deref() {
        return Ok(Policer { rate: rate(path, limit)?, burst: size(burst, path)? });
    }
    let Value::Table(_) = node.value else { return Err(node.wrong(path, ALLOWED)) };
    let mut fields = Fields::of(path, node)?;
    let limit = rate(&fields.key("rate"), fields.need("rate")?)?;
    let burst = size(fields.need("burst")?, &fields.key("burst"))?;
    fields.finish()?;
    Ok(Policer { rate: limit, burst })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(text: &str) -> Result<LinkConfig, String> {
        let mut config = LinkConfig::default();
        apply_path(text, &mut config).map_err(|p| p.to_string())?;
        Ok(config)
    }

    #[test]
    fn a_path_names_what_differs() {
        let expected = LinkConfig {
            rate: Rate::from_bits_per_sec(100_000_000),
            delay: Duration::from_millis(50),
            queue: Room::Bytes(1 << 20),
            loss: Loss::Random(Share::percent(1)),
            reorder: Reorder { p: Share::percent(5), by: Duration::from_millis(10) },
            ..LinkConfig::default()
        };
        let text = "delay=50ms,loss=1%,rate=100Mbit,queue=1MiB,reorder=5%/10ms";
        assert_eq!(path(text), Ok(expected));
        assert_eq!(path(""), Ok(LinkConfig::default()));
    }

    #[test]
    fn each_key_reaches_its_field() {
        let base = LinkConfig::default();
        let rows: [(&str, LinkConfig); 15] = [
            ("rate=unlimited", base),
            ("queue=65pkt", LinkConfig { queue: Room::Packets(65), ..base }),
            ("ecn_mark=65pkt", LinkConfig { ecn_mark: Some(Room::Packets(65)), ..base }),
            ("ecn_mark=none", base),
            ("mtu=1400", LinkConfig { mtu: 1400, ..base }),
            ("mtu=1400B", LinkConfig { mtu: 1400, ..base }),
            ("jitter=1ms", LinkConfig { jitter: Duration::from_millis(1), ..base }),
            ("loss=0", base),
            ("loss=0.1%/8", LinkConfig { loss: Loss::bursts(Share::from_ppm(1000), 8), ..base }),
            (
                "loss=0.1%/20%/50%",
                LinkConfig {
                    loss: Loss::Bursts {
                        good_to_bad: Share::from_ppm(1000),
                        bad_to_good: Share::percent(20),
                        bad: Share::percent(50),
                    },
                    ..base
                },
            ),
            ("duplicate=0.1%", LinkConfig { duplicate: Share::from_ppm(1000), ..base }),
            ("corrupt=0.0001", LinkConfig { corrupt: Share::from_ppm(100), ..base }),
            (
                "policer=100Mbit/64KiB",
                LinkConfig {
                    policer: Some(Policer {
                        rate: Rate::from_bits_per_sec(100_000_000),
                        burst: 65_536,
                    }),
                    ..base
                },
            ),
            ("drop_larger_than=1400", LinkConfig { drop_larger_than: Some(1400), ..base }),
            ("up=false", LinkConfig { up: false, ..base }),
        ];
        for (text, expected) in rows {
            assert_eq!(path(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, expected) in [
            ("delay", "delay: has no value"),
            ("delay=50", "delay: \"50\" has no unit"),
            ("dely=50ms", "unknown key \"dely\": did you mean delay?"),
            ("delay=1ms,delay=2ms", "delay: comes twice"),
            ("reorder=5%", "reorder: needs a share and a time"),
            ("loss=1%/0", "loss: \"0\" is not a whole number from 1 to 1000000"),
            ("loss=1%/2/3/4", "loss: expected a share"),
            ("mtu=67", "mtu: \"67\" is not a whole number from 68 to 65535"),
            ("mtu=1MiB", "mtu: 1048576 bytes is not from 68 to 65535"),
            ("policer=100Mbit", "policer: expected { rate"),
            ("up=perhaps", "up: expected true or false, found text"),
            ("queue=64", "queue: \"64\" has no unit"),
        ] {
            let message = path(text).unwrap_err();
            assert!(message.starts_with(expected), "{text}: {message}");
        }
    }

    #[test]
    fn an_error_changes_nothing() {
        let mut config = LinkConfig::default();
        assert!(apply_path("delay=1ms,loss=x", &mut config).is_err());
        assert_eq!(config, LinkConfig::default());
    }

    proptest! {
        #[test]
        fn any_text_is_a_path_or_an_error(text in "\\PC*") {
            let _ = parse_path(&text);
        }

        #[test]
        fn any_value_of_a_key_is_a_change_or_an_error(
            key in 0..KEYS.len(), value in "[0-9.a-zA-Z%/]{0,24}",
        ) {
            let _ = parse_path(&format!("{}={value}", KEYS[key]));
        }
    }
}
