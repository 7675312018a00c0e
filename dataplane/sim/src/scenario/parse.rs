//! From text to a [`Scenario`].

mod apps;
mod cards;
mod hosts;
mod links;
mod timeline;

use std::collections::BTreeMap;

use config::{position, quote};

use super::expect::{self, Names};
use super::model::{
    DURATION_MAX, EXPECTS_MAX, Place, SEEDS_MAX, Scenario, VARIANTS_MAX, VariantSpec,
};
use super::units;
use super::value::{self, Entry, Fault, Fields, Node, Problem, Read, Value, unknown};

/// Whether the engine changes transmit hashes and counts why.
const ENGINE_REHASHES: bool = false;
/// The longest text of `name` and `about`, in bytes.
const TEXT_MAX: usize = 4096;

/// What has been read so far of a file that is being read.
struct Reader {
    scenario: Scenario,
    unsupported: Vec<Problem>,
    /// Hosts and routers by name.
    places: BTreeMap<String, Place>,
    /// Where each host stands.
    host_at: Vec<usize>,
}

impl Scenario {
    /// Read `text`, which is what the file called `file` holds.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong. What is right and does not exist here is in
    /// [`Scenario::unsupported`].
    pub fn parse(file: &str, text: &str) -> Result<Self, Fault> {
        read(file, text).map_err(|problem| problem.in_file(file, text))
    }
}

/// Seeds as on the command line: `1..10`, `3`, or `1,5,9`.
///
/// # Errors
///
/// What is wrong, and what is allowed.
pub fn seeds(text: &str) -> Result<Vec<u64>, String> {
    const ALLOWED: &str = "write \"1..10\" (both included) or [1, 2, 3]";
    let number = |t: &str| t.trim().parse::<u64>();
    let mut list = Vec::new();
    if let Some((first, last)) = text.split_once("..") {
        let last = last.strip_prefix('=').unwrap_or(last);
        let (Ok(first), Ok(last)) = (number(first), number(last)) else {
            return Err(format!("{} is no range of seeds: {ALLOWED}", quote(text)));
        };
        if first > last {
            return Err(format!("{} is empty: the first is above the last", quote(text)));
        }
        if last - first >= SEEDS_MAX as u64 {
            return Err(format!("{} is more than {SEEDS_MAX} seeds", quote(text)));
        }
        list.extend(first..=last);
    } else {
        for part in text.split(',') {
            let Ok(seed) = number(part) else {
                return Err(format!("{} is no list of seeds: {ALLOWED}", quote(text)));
            };
            list.push(seed);
        }
    }
    check_seeds(&list)?;
    Ok(list)
}

fn check_seeds(list: &[u64]) -> Result<(), String> {
    if list.is_empty() {
        return Err("there is no seed".into());
    }
    if list.len() > SEEDS_MAX {
        return Err(format!("more than {SEEDS_MAX} seeds"));
    }
    let mut sorted = list.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("seed {} comes twice", pair[0])),
        None => Ok(()),
    }
}

fn read(file: &str, text: &str) -> Read<Scenario> {
    let entries = value::read(text)?;
    let mut fields = Fields::new("", 0, &entries);
    let stem = file.rsplit(['/', '\\']).next().unwrap_or(file);
    let mut reader = Reader {
        scenario: Scenario {
            file: file.to_owned(),
            name: stem.strip_suffix(".toml").unwrap_or(stem).to_owned(),
            about: String::new(),
            seeds: vec![1],
            duration: None,
            warmup: core::time::Duration::ZERO,
            hosts: Vec::new(),
            routers: Vec::new(),
            links: Vec::new(),
            apps: Vec::new(),
            timeline: Vec::new(),
            expects: Vec::new(),
            variants: Vec::new(),
            unsupported: Vec::new(),
        },
        unsupported: Vec::new(),
        places: BTreeMap::new(),
        host_at: Vec::new(),
    };
    reader.top(&mut fields)?;
    let (hosts, routers) = (fields.take("host"), fields.take("router"));
    let (links, apps) = (fields.take("link"), fields.take("app"));
    let (at, expects, variants) =
        (fields.take("at"), fields.take("expect"), fields.take("variant"));
    fields.finish()?;
    let variants = reader.variants(variants)?;
    reader.hosts(hosts, &variants)?;
    reader.routers(routers)?;
    reader.links(links)?;
    reader.cards()?;
    reader.apps(apps)?;
    reader.timeline(at)?;
    reader.expects(expects, text)?;
    reader.check()?;
    let Reader { mut scenario, mut unsupported, .. } = reader;
    // What several variants say is said once, in the order of the file.
    unsupported.sort_by_key(|p| p.at);
    unsupported.dedup();
    scenario.unsupported = unsupported.into_iter().map(|p| p.in_file(file, text)).collect();
    Ok(scenario)
}

/// A variant while hosts have not been read.
struct RawVariant<'n, 'a> {
    name: String,
    sysctl: Option<&'n Node<'a>>,
}

impl Reader {
    fn top(&mut self, fields: &mut Fields<'_, '_>) -> Read<()> {
        let short = |node: &Node<'_>, key: &str| -> Read<String> {
            let text = node.as_text(key, "text")?;
            if text.len() > TEXT_MAX {
                let what = format!("is longer than {TEXT_MAX} bytes");
                return Err(Problem::new(node.at, key, what));
            }
            Ok(text.to_owned())
        };
        if let Some(node) = fields.take("name") {
            self.scenario.name = short(node, "name")?;
        }
        if let Some(node) = fields.take("about") {
            self.scenario.about = short(node, "about")?;
        }
        if let Some(node) = fields.take("seeds") {
            self.scenario.seeds = seeds_of(node)?;
        }
        const TIME: &str = "a time such as \"30s\"";
        if let Some(node) = fields.take("duration") {
            let duration = node.unit("duration", TIME, units::time)?;
            if duration.is_zero() || duration > DURATION_MAX {
                return Err(Problem::new(node.at, "duration", "is not above 0 and at most 1h"));
            }
            self.scenario.duration = Some(duration);
        }
        if let Some(node) = fields.take("warmup") {
            let warmup = node.unit("warmup", TIME, units::time)?;
            if warmup >= self.scenario.duration.unwrap_or(DURATION_MAX) {
                return Err(Problem::new(node.at, "warmup", "is not shorter than the run"));
            }
            self.scenario.warmup = warmup;
        }
        Ok(())
    }

    fn variants<'n, 'a>(&mut self, node: Option<&'n Node<'a>>) -> Read<Vec<RawVariant<'n, 'a>>> {
        let mut raw = Vec::new();
        for entry in named(node, "variant")? {
            let path = named_path("variant", entry)?;
            if raw.len() == VARIANTS_MAX {
                let what = format!("there are more than {VARIANTS_MAX}");
                return Err(Problem::new(entry.at, "variant", what));
            }
            let mut fields = Fields::of(path, &entry.node)?;
            let sysctl = fields.take("sysctl");
            fields.finish()?;
            let name = entry.name.clone().into_owned();
            self.scenario.variants.push(VariantSpec { name: name.clone() });
            raw.push(RawVariant { name, sysctl });
        }
        Ok(raw)
    }

    fn expects(&mut self, node: Option<&Node<'_>>, text: &str) -> Read<()> {
        let Self { scenario, unsupported, .. } = self;
        let names = Names {
            apps: scenario.apps.iter().map(|a| (a.name.as_str(), a.traffic.flows)).collect(),
            links: scenario.links.iter().map(|l| l.id.as_str()).collect(),
            hosts: scenario.hosts.iter().map(|h| h.name.as_str()).collect(),
            variants: scenario.variants.iter().map(|v| v.name.as_str()).collect(),
            rehashes: ENGINE_REHASHES,
        };
        let mut expects = Vec::new();
        for (index, node) in list(node, "expect", EXPECTS_MAX)?.iter().enumerate() {
            let fields = Fields::of(format!("expect[{index}]"), node)?;
            let line = position(text, node.at).0;
            let expect = expect::parse(fields, line, &names, unsupported)?;
            let end = scenario.duration.unwrap_or(DURATION_MAX);
            if expect.measures().filter_map(|m| m.at).any(|at| at > end) {
                let what = "is after the end of the run";
                return Err(Problem::new(node.at, format!("expect[{index}].at"), what));
            }
            expects.push(expect);
        }
        scenario.expects = expects;
        Ok(())
    }

    fn place(&self, node: &Node<'_>, key: &str) -> Read<Place> {
        let name = node.as_text(key, "the name of a host or router")?;
        self.places.get(name).copied().ok_or_else(|| {
            let known = self.places.keys().map(String::as_str);
            self.known(Problem::new(node.at, key, unknown("host or router", name, known)))
        })
    }

    fn host(&self, node: &Node<'_>, key: &str) -> Read<usize> {
        let name = node.as_text(key, "the name of a host")?;
        match self.places.get(name) {
            Some(Place::Host(host)) => Ok(*host),
            Some(Place::Router(_)) => {
                Err(Problem::new(node.at, key, format!("{} is a router", quote(name))))
            }
            None => {
                let hosts = self.scenario.hosts.iter().map(|h| h.name.as_str());
                Err(self.known(Problem::new(node.at, key, unknown("host", name, hosts))))
            }
        }
    }

    /// Say which places there are, unless they are too many.
    fn known(&self, problem: Problem) -> Problem {
        if self.places.is_empty() || self.places.len() > 20 {
            return problem;
        }
        let all: Vec<&str> = self.places.keys().map(String::as_str).collect();
        problem.help(format!("there are: {}", all.join(", ")))
    }

    /// What can be seen only when all has been read.
    fn check(&self) -> Read<()> {
        let scenario = &self.scenario;
        if scenario.hosts.is_empty() {
            return Err(Problem::new(0, "host", "there is none: write [host.NAME]"));
        }
        Ok(())
    }
}

fn seeds_of(node: &Node<'_>) -> Read<Vec<u64>> {
    let fail = |why: String| Problem::new(node.at, "seeds", why);
    let list = match &node.value {
        Value::Text(text) => return seeds(text).map_err(fail),
        Value::List(list) => list,
        _ => return Err(node.wrong("seeds", "\"1..10\" or a list of numbers")),
    };
    let seeds = list
        .iter()
        .map(|n| n.as_number("seeds", 0, i64::MAX as u64))
        .collect::<Read<Vec<u64>>>()?;
    check_seeds(&seeds).map_err(fail)?;
    Ok(seeds)
}

/// The entries of `[key.NAME]`.
fn named<'n, 'a>(node: Option<&'n Node<'a>>, key: &str) -> Read<&'n [Entry<'a>]> {
    let Some(node) = node else { return Ok(&[]) };
    node.as_table(key, "tables with names")
        .map_err(|p| p.help(format!("write [{key}.NAME], not [[{key}]]")))
}

/// The path of `[key.NAME]`, whose name must be one.
fn named_path(key: &str, entry: &Entry<'_>) -> Read<String> {
    value::check_name(&entry.name).map_err(|why| Problem::new(entry.at, key, why))?;
    Ok(format!("{key}.{}", entry.name))
}

/// The tables of `[[key]]`.
fn list<'n, 'a>(node: Option<&'n Node<'a>>, key: &str, most: usize) -> Read<&'n [Node<'a>]> {
    let Some(node) = node else { return Ok(&[]) };
    let list = node
        .as_list(key, "a list of tables")
        .map_err(|p| p.help(format!("write [[{key}]] with two brackets")))?;
    if list.len() > most {
        return Err(Problem::new(node.at, key, format!("there are more than {most}")));
    }
    Ok(list)
}

#[cfg(test)]
mod tests;
