//! The time line.

use config::{Knobs, Source};

use super::hosts::{plain, settings};
use super::{Reader, links, list};
use crate::scenario::model::{Action, DURATION_MAX, MOMENTS_MAX, Moment};
use crate::scenario::units;
use crate::scenario::value::{Fields, Node, Problem, Read};

impl Reader {
    pub(super) fn timeline(&mut self, node: Option<&Node<'_>>) -> Read<()> {
        const TIME: &str = "a time such as \"4s\"";
        // Knobs as they will stand, so that a change that contradicts an earlier one is seen here.
        let mut changes = Vec::new();
        for (index, node) in list(node, "at", MOMENTS_MAX)?.iter().enumerate() {
            let mut fields = Fields::of(format!("at[{index}]"), node)?;
            let time_node = fields.need("time")?;
            let time = time_node.unit(&fields.key("time"), TIME, units::time)?;
            if time > self.scenario.duration.unwrap_or(DURATION_MAX) {
                let what = "is after the end of the run";
                return Err(Problem::new(time_node.at, fields.key("time"), what));
            }
            let what = fields.present(&["set", "sysctl", "stall"]);
            let what = match what.as_slice() {
                [(what, _)] => *what,
                [] => {
                    let what = "says nothing: write set, sysctl or stall";
                    return Err(Problem::new(node.at, fields.path(), what));
                }
                [_, (second, at), ..] => {
                    let key = fields.key(second);
                    return Err(Problem::new(*at, key, "needs an [[at]] of its own"));
                }
            };
            let action = match what {
                "set" => self.set_link(&mut fields)?,
                "sysctl" => {
                    let key = fields.key("host");
                    let host = self.host(fields.need("host")?, &key)?;
                    let key = fields.key("sysctl");
                    let raw = settings(fields.need("sysctl")?, &key)?;
                    let settings = plain(&raw);
                    changes.push((time, index, host, raw, key));
                    Action::Sysctl { host, settings }
                }
                _ => {
                    let key = fields.key("host");
                    let host = self.host(fields.need("host")?, &key)?;
                    let time =
                        fields.need("stall")?.unit(&fields.key("stall"), TIME, units::time)?;
                    Action::Stall { host, time }
                }
            };
            fields.finish()?;
            self.scenario.timeline.push(Moment { time, action });
        }
        // Of one time, in the order of the file.
        self.scenario.timeline.sort_by_key(|moment| moment.time);
        changes.sort_by_key(|(time, index, ..)| (*time, *index));
        let variants = self.scenario.variant_indices().len();
        for variant in 0..variants {
            let mut knobs: Vec<Option<Knobs>> =
                self.scenario.hosts.iter().map(|h| h.knobs.get(variant).cloned()).collect();
            for (.., host, raw, key) in &changes {
                if let Some(Some(knobs)) = knobs.get_mut(*host) {
                    self.set(knobs, raw, key, Source::Runtime)?;
                }
            }
        }
        Ok(())
    }

    fn set_link(&mut self, fields: &mut Fields<'_, '_>) -> Read<Action> {
        let key = fields.key("link");
        let link_node = fields.need("link")?;
        let link = self.link(link_node, &key)?;
        let set = fields.need("set")?;
        let mut inner = Fields::of(fields.key("set"), set)?;
        let (forward, reverse) = links::changes(&mut inner)?;
        inner.finish()?;
        if forward.is_empty() && reverse.is_empty() {
            return Err(Problem::new(set.at, fields.key("set"), "changes nothing"));
        }
        if let Some(spec) = self.scenario.links.get(link) {
            // A card of a host has its MTU for good.
            let host =
                spec.between.iter().any(|e| matches!(e, crate::scenario::model::Place::Host(_)));
            let mtu = |c: &crate::scenario::link_keys::LinkChange| {
                matches!(c, crate::scenario::link_keys::LinkChange::Mtu(_))
            };
            if host && forward.iter().chain(&reverse).any(mtu) {
                let what = "a host's card keeps its MTU; change a link between routers, or use \
                            drop_larger_than";
                return Err(Problem::new(set.at, fields.key("set.mtu"), what));
            }
        }
        Ok(Action::Link { link, forward, reverse })
    }
}
