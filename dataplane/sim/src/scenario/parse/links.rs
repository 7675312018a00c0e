//! Links.

use super::{Reader, list};
use crate::link::LinkConfig;
use crate::scenario::link_keys::{self, KEYS, LinkChange};
use crate::scenario::model::{LINKS_MAX, LinkSpec, Place};
use crate::scenario::value::{Fields, Node, Problem, Read, unknown};

/// The MTU of a link that does not say.
const MTU: u16 = 1500;
/// The smallest MTU of a host's link, RFC 791 and what TCP's smallest MSS wants.
const HOST_MTU_MIN: u16 = 576;
/// The largest.
const HOST_MTU_MAX: u16 = 16_000;

impl Reader {
    pub(super) fn links(&mut self, node: Option<&Node<'_>>) -> Read<()> {
        for (index, node) in list(node, "link", LINKS_MAX)?.iter().enumerate() {
            let mut fields = Fields::of(format!("link[{index}]"), node)?;
            let id = match fields.take("id") {
                Some(node) => Some((node.at, node.as_name(&fields.key("id"))?)),
                None => None,
            };
            let key = fields.key("between");
            let ends = fields.need("between")?;
            let between = match ends.as_list(&key, "two names such as [\"a\", \"b\"]")? {
                [a, b] => [self.place(a, &key)?, self.place(b, &key)?],
                _ => return Err(Problem::new(ends.at, key, "names two hosts or routers")),
            };
            if between[0] == between[1] {
                return Err(Problem::new(ends.at, key, "names the same end twice"));
            }
            let (forward, reverse) = changes(&mut fields)?;
            fields.finish()?;
            let mut configs = [LinkConfig { mtu: MTU, ..LinkConfig::default() }; 2];
            for (config, changes) in configs.iter_mut().zip([forward, reverse]) {
                changes.into_iter().for_each(|change| change.apply(config));
            }
            let [forward, reverse] = configs;
            for config in configs {
                check(&config, between, node.at, index)?;
            }
            let id = self.link_id(id, between, index)?;
            self.scenario.links.push(LinkSpec { id, between, forward, reverse });
        }
        Ok(())
    }

    fn name(&self, place: Place) -> &str {
        let name = match place {
            Place::Host(i) => self.scenario.hosts.get(i).map(|h| &h.name),
            Place::Router(i) => self.scenario.routers.get(i).map(|r| &r.name),
        };
        name.map_or("", String::as_str)
    }

    /// The name of a link, its own or made of its ends.
    fn link_id(
        &self,
        own: Option<(usize, String)>,
        ends: [Place; 2],
        index: usize,
    ) -> Read<String> {
        let taken = |id: &str| self.scenario.links.iter().any(|l| l.id == id);
        if let Some((at, id)) = own {
            if taken(&id) {
                let what = format!("another link is called {id}");
                return Err(Problem::new(at, format!("link[{index}].id"), what));
            }
            return Ok(id);
        }
        let plain = format!("{}-{}", self.name(ends[0]), self.name(ends[1]));
        let mut id = plain.clone();
        let mut number = 1;
        while taken(&id) {
            number += 1;
            id = format!("{plain}#{number}");
        }
        Ok(id)
    }

    pub(super) fn link(&self, node: &Node<'_>, key: &str) -> Read<usize> {
        let name = node.as_text(key, "the id of a link")?;
        let ids = || self.scenario.links.iter().map(|l| l.id.as_str());
        ids().position(|id| id == name).ok_or_else(|| {
            let problem = Problem::new(node.at, key, unknown("link", name, ids()));
            if ids().count() > 20 {
                return problem;
            }
            problem.help(format!("there are: {}", ids().collect::<Vec<_>>().join(", ")))
        })
    }
}

/// What the keys of a link change, in its first direction and in its second.
pub(super) fn changes(fields: &mut Fields<'_, '_>) -> Read<(Vec<LinkChange>, Vec<LinkChange>)> {
    let forward = keys(fields)?;
    let mut reverse = forward.clone();
    if let Some(node) = fields.take("reverse") {
        let mut inner = Fields::of(fields.key("reverse"), node)?;
        reverse.extend(keys(&mut inner)?);
        inner.finish()?;
    }
    Ok((forward, reverse))
}

fn keys(fields: &mut Fields<'_, '_>) -> Read<Vec<LinkChange>> {
    let mut list = Vec::new();
    for name in KEYS {
        let key = fields.key(name);
        if let Some(node) = fields.take(name) {
            list.push(link_keys::change(name, &key, node.at, node)?);
        }
    }
    Ok(list)
}

/// What two keys of a link together must not be.
pub(super) fn check(config: &LinkConfig, between: [Place; 2], at: usize, index: usize) -> Read<()> {
    let key = |name: &str| format!("link[{index}].{name}");
    if config.drop_larger_than.is_some_and(|limit| limit >= config.mtu) {
        let what = format!("is not below the mtu of {}", config.mtu);
        return Err(Problem::new(at, key("drop_larger_than"), what));
    }
    let host = between.iter().any(|end| matches!(end, Place::Host(_)));
    if host && !(HOST_MTU_MIN..=HOST_MTU_MAX).contains(&config.mtu) {
        let what = format!(
            "{} is not from {HOST_MTU_MIN} to {HOST_MTU_MAX}, as a link of a host needs it",
            config.mtu
        );
        return Err(Problem::new(at, key("mtu"), what));
    }
    Ok(())
}
