//! Hosts, routers and knobs.

use core::time::Duration;
use std::borrow::Cow;

use config::{KnobError, Knobs, Profile, Source};
use stack::LocalAddress;

use super::{RawVariant, Reader, named, named_path};
use crate::router::{Ecmp, RouterConfig};
use crate::scenario::model::{
    ECMP_NAMES, HOSTS_MAX, HostSpec, LATER_CONGESTION, Place, ROUTERS_MAX, Setting,
};
use crate::scenario::units;
use crate::scenario::value::{Entry, Fields, Node, Problem, Read, Value, unknown};

/// Addresses of one host.
const ADDRESSES_MAX: usize = 16;
/// Knobs in one place.
const SETTINGS_MAX: usize = 256;
/// Tables in tables that a knob's dotted name may be written in.
const DEPTH_MAX: usize = 8;
/// Cores of a simulated host.
const WORKERS_MAX: u64 = 64;
/// The pause after which a flowlet ends, if the file does not say.
const FLOWLET_GAP: Duration = Duration::from_micros(200);

/// A knob as written.
pub(super) struct RawSetting<'n> {
    pub(super) at: usize,
    pub(super) knob: String,
    pub(super) value: Cow<'n, str>,
}

impl Reader {
    pub(super) fn hosts(
        &mut self,
        node: Option<&Node<'_>>,
        variants: &[RawVariant<'_, '_>],
    ) -> Read<()> {
        // What variants say of each host, in the order of the variants.
        let mut tables: Vec<&[Entry<'_>]> = Vec::new();
        for variant in variants {
            let key = format!("variant.{}.sysctl", variant.name);
            tables.push(match variant.sysctl {
                Some(node) => node.as_table(&key, "a table of hosts")?,
                None => &[],
            });
        }
        for entry in named(node, "host")? {
            self.host_table(entry, variants, &tables)?;
        }
        for (variant, table) in variants.iter().zip(&tables) {
            let hosts = || self.scenario.hosts.iter().map(|h| h.name.as_str());
            if let Some(entry) = table.iter().find(|e| !hosts().any(|h| h == e.name)) {
                let key = format!("variant.{}.sysctl", variant.name);
                let what = unknown("host", &entry.name, hosts());
                return Err(self.known(Problem::new(entry.at, key, what)));
            }
        }
        Ok(())
    }

    fn host_table(
        &mut self,
        entry: &Entry<'_>,
        variants: &[RawVariant<'_, '_>],
        tables: &[&[Entry<'_>]],
    ) -> Read<()> {
        let path = named_path("host", entry)?;
        if self.scenario.hosts.len() == HOSTS_MAX {
            return Err(Problem::new(entry.at, path, format!("there are more than {HOSTS_MAX}")));
        }
        let name = entry.name.clone().into_owned();
        let mut fields = Fields::of(path, &entry.node)?;
        let profile = match fields.take("profile") {
            Some(node) => node.as_choice(
                &fields.key("profile"),
                &Profile::ALL.map(|profile| (profile.name(), profile)),
            )?,
            None => Profile::default(),
        };
        let key = fields.key("addresses");
        let addresses = match fields.take("addresses") {
            Some(node) => self.addresses(node, &key)?,
            None => Vec::new(),
        };
        if let Some(node) = fields.take("workers")
            && node.as_number(&fields.key("workers"), 1, WORKERS_MAX)? > 1
        {
            let what = "hosts of more than one core do not exist here yet";
            self.later(node.at, fields.key("workers"), what);
        }
        if let Some(node) = fields.take("vxlan") {
            self.vxlan(node, &fields.key("vxlan"))?;
        }
        if let Some(node) = fields.take("overlay") {
            let key = fields.key("overlay");
            for node in node.as_list(&key, "a list of addresses")? {
                address(node, &key)?;
            }
            self.later(node.at, key, "overlay addresses do not exist here yet");
        }
        let key = fields.key("sysctl");
        let base = match fields.take("sysctl") {
            Some(node) => settings(node, &key)?,
            None => Vec::new(),
        };
        fields.finish()?;
        let mut knobs = Knobs::new(profile);
        self.set(&mut knobs, &base, &key, Source::File)?;
        let mut all = Vec::new();
        for (variant, table) in variants.iter().zip(tables) {
            let mut knobs = knobs.clone();
            if let Some(entry) = table.iter().find(|e| e.name == name) {
                let key = format!("variant.{}.sysctl.{name}", variant.name);
                let more = settings(&entry.node, &key)?;
                self.set(&mut knobs, &more, &key, Source::File)?;
            }
            all.push(knobs);
        }
        if all.is_empty() {
            all.push(knobs);
        }
        let index = self.scenario.hosts.len();
        self.places.insert(name.clone(), Place::Host(index));
        self.host_at.push(entry.at);
        let cards = Vec::new();
        self.scenario.hosts.push(HostSpec { name, addresses, profile, knobs: all, cards });
        Ok(())
    }

    fn later(&mut self, at: usize, key: String, what: &str) {
        self.unsupported.push(Problem::unsupported(at, key, what));
    }

    fn addresses(&self, node: &Node<'_>, key: &str) -> Read<Vec<LocalAddress>> {
        let mut addresses: Vec<LocalAddress> = Vec::new();
        for node in node.as_list(key, "a list of addresses such as [\"10.0.1.1/24\"]")? {
            let new = address(node, key)?;
            let others = self.scenario.hosts.iter().flat_map(|h| &h.addresses);
            if addresses.iter().chain(others).any(|a| a.addr == new.addr) {
                return Err(Problem::new(node.at, key, format!("{} comes twice", new.addr)));
            }
            if addresses.len() == ADDRESSES_MAX {
                return Err(Problem::new(
                    node.at,
                    key,
                    format!("there are more than {ADDRESSES_MAX}"),
                ));
            }
            addresses.push(new);
        }
        Ok(addresses)
    }

    fn vxlan(&mut self, node: &Node<'_>, key: &str) -> Read<()> {
        let mut fields = Fields::of(key, node)?;
        fields.need("vni")?.as_number(&fields.key("vni"), 0, (1 << 24) - 1)?;
        fields.need("remote")?.as_name(&fields.key("remote"))?;
        if let Some(node) = fields.take("underlay") {
            family(node, &fields.key("underlay"))?;
        }
        fields.finish()?;
        self.later(node.at, key.to_owned(), "VXLAN does not exist here yet");
        Ok(())
    }

    /// Set knobs, all or none. One that nothing uses yet is not supported.
    pub(super) fn set(
        &mut self,
        knobs: &mut Knobs,
        raw: &[RawSetting<'_>],
        key: &str,
        source: Source,
    ) -> Read<()> {
        let mut plain: Vec<&RawSetting<'_>> = Vec::new();
        for setting in raw {
            // A congestion control that will exist is no mistake.
            let later = setting.knob.ends_with("tcp_congestion_control")
                && LATER_CONGESTION.contains(&setting.value.trim());
            if later {
                let what = format!("{} does not exist here yet", setting.value.trim());
                self.later(setting.at, format!("{key}.{}", setting.knob), &what);
            } else {
                plain.push(setting);
            }
        }
        let pairs = plain.iter().map(|s| (s.knob.as_str(), s.value.as_ref()));
        let changes = knobs.set_all(pairs, source).map_err(|(index, error)| {
            let at = plain.get(index).map_or(0, |s| s.at);
            let mut problem = Problem::new(at, key, error.to_string());
            if let KnobError::Unknown { nearest: None, .. } = error {
                problem =
                    problem.help("`millrace explain` knows all knobs; docs/knobs.md lists them");
            }
            problem
        })?;
        for (setting, change) in plain.iter().zip(&changes) {
            if change.is_idle(knobs.profile()) {
                let what =
                    format!("{} = {}: nothing uses this knob yet", change.knob.name, change.new);
                self.later(setting.at, key.to_owned(), &what);
            }
        }
        Ok(())
    }

    pub(super) fn routers(&mut self, node: Option<&Node<'_>>) -> Read<()> {
        for entry in named(node, "router")? {
            let path = named_path("router", entry)?;
            if self.scenario.routers.len() == ROUTERS_MAX {
                let what = format!("there are more than {ROUTERS_MAX}");
                return Err(Problem::new(entry.at, path, what));
            }
            if self.places.contains_key(entry.name.as_ref()) {
                return Err(Problem::new(entry.at, path, "a host has this name"));
            }
            let mut fields = Fields::of(path, &entry.node)?;
            let ecmp = match fields.take("ecmp") {
                Some(node) => node.as_choice(&fields.key("ecmp"), &ECMP_NAMES)?,
                None => Ecmp::default(),
            };
            let flowlet_gap = match fields.take("flowlet_gap") {
                Some(node) => {
                    let key = fields.key("flowlet_gap");
                    if ecmp != Ecmp::Flowlet {
                        let what = "has no meaning without ecmp = \"flowlet\"";
                        return Err(Problem::new(node.at, key, what));
                    }
                    node.unit(&key, "a time such as \"200us\"", units::time)?
                }
                None => FLOWLET_GAP,
            };
            let icmp = match fields.take("icmp") {
                Some(node) => node.as_bool(&fields.key("icmp"))?,
                None => true,
            };
            fields.finish()?;
            let name = entry.name.clone().into_owned();
            self.places.insert(name.clone(), Place::Router(self.scenario.routers.len()));
            self.scenario.routers.push(RouterConfig { name, ecmp, flowlet_gap, icmp });
        }
        Ok(())
    }
}

fn address(node: &Node<'_>, key: &str) -> Read<LocalAddress> {
    let text = node.as_text(key, "an address such as \"10.0.1.1/24\"")?;
    config::startup::local_address(text).map_err(|why| Problem::new(node.at, key, why))
}

/// 4 or 6: whether it is 6.
pub(super) fn family(node: &Node<'_>, key: &str) -> Read<bool> {
    match node.value {
        Value::Integer(4) => Ok(false),
        Value::Integer(6) => Ok(true),
        _ => Err(Problem::new(node.at, key, "is not 4 or 6")),
    }
}

/// A table of knobs.
pub(super) fn settings<'n>(node: &'n Node<'_>, key: &str) -> Read<Vec<RawSetting<'n>>> {
    let mut list = Vec::new();
    let entries = node.as_table(key, "a table such as { \"net.ipv4.tcp_sack\" = 0 }")?;
    collect(entries, "", key, &mut list, 0)?;
    Ok(list)
}

/// A dotted name without quotes is tables in tables.
fn collect<'n>(
    entries: &'n [Entry<'_>],
    prefix: &str,
    key: &str,
    list: &mut Vec<RawSetting<'n>>,
    depth: usize,
) -> Read<()> {
    for entry in entries {
        let knob = if prefix.is_empty() {
            entry.name.to_string()
        } else {
            format!("{prefix}.{}", entry.name)
        };
        let path = || format!("{key}.{knob}");
        if list.len() == SETTINGS_MAX || depth == DEPTH_MAX {
            return Err(Problem::new(entry.at, path(), format!("more than {SETTINGS_MAX} knobs")));
        }
        let value = match &entry.node.value {
            Value::Table(inner) => {
                collect(inner, &knob, key, list, depth + 1)?;
                continue;
            }
            Value::Text(text) => Cow::Borrowed(text.as_ref()),
            Value::Float(text) => Cow::Borrowed(text.as_ref()),
            Value::Integer(n) => Cow::Owned(n.to_string()),
            Value::List(items) => {
                let numbers = items.iter().map(|item| match item.value {
                    Value::Integer(n) => Ok(n.to_string()),
                    _ => Err(item.wrong(&path(), "whole numbers")),
                });
                Cow::Owned(numbers.collect::<Read<Vec<_>>>()?.join(" "))
            }
            Value::Bool(_) => return Err(entry.node.wrong(&path(), "0 or 1")),
            Value::Other(_) => return Err(entry.node.wrong(&path(), "a number or text")),
        };
        list.push(RawSetting { at: entry.at, knob, value });
    }
    Ok(())
}

/// Settings without their places.
pub(super) fn plain(raw: &[RawSetting<'_>]) -> Vec<Setting> {
    raw.iter()
        .map(|s| Setting { knob: s.knob.clone(), value: s.value.clone().into_owned() })
        .collect()
}
