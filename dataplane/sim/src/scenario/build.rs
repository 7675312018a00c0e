//! From a [`Scenario`] to a [`World`] with its applications and its time line.

use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;

use base::{Instant, Random, Rate, SeededRandom};
use config::{Knobs, Source};
use stack::{App, Command};
use workloads::traffic::{Board, SharedBoard, Sink, Source as TrafficSource};
use workloads::{Bundle, traffic};

use super::model::{Action, HostSpec, Place, Scenario};
use crate::host::{CardConfig, HostConfig};
use crate::link::LinkConfig;
use crate::world::{HostId, LinkId, Node, RouterId, Way, World};

/// The port of the first application's sink; the others follow.
const FIRST_PORT: u16 = 5001;
/// Buffers of a host: least, as a card with full rings needs, and most.
const BUFFERS: [u64; 2] = [4096, 131_072];
/// The rate for which buffers are planned where none is given.
const RATE_USUAL: Rate = Rate::from_bits_per_sec(10_000_000_000);
/// Turns of one run.
const STEPS_MAX: u64 = 2_000_000_000;

/// A world that is ready to run.
pub(super) struct Built {
    pub(super) world: World,
    pub(super) hosts: Vec<HostId>,
    pub(super) links: Vec<LinkId>,
    /// Per application.
    pub(super) boards: Vec<SharedBoard>,
}

/// The port that the sink of application `app` listens on.
pub(super) fn port_of(app: usize) -> u16 {
    FIRST_PORT + app as u16
}

pub(super) fn build(scenario: &Scenario, seed: u64, variant: Option<usize>) -> Built {
    let mut world = World::new(seed);
    world.set_step_limit(STEPS_MAX);
    let boards: Vec<SharedBoard> =
        scenario.apps.iter().map(|app| Board::shared(app.traffic.flows)).collect();
    let mut patterns = SeededRandom::new(seed ^ 0x7061_7474);
    let mut apps: Vec<Vec<Box<dyn App>>> = scenario.hosts.iter().map(|_| Vec::new()).collect();
    for (index, (app, board)) in scenario.apps.iter().zip(&boards).enumerate() {
        // Far enough apart that flows of different applications never have the same bytes.
        let key = patterns.next_u64() << 16;
        let port = port_of(index);
        let target = SocketAddr::new(app.target, port);
        let source = TrafficSource::new(target, app.traffic, key, board.clone());
        let sink = Sink::new(port, app.traffic, key, board.clone());
        if let Some(list) = apps.get_mut(app.to) {
            list.push(Box::new(sink));
        }
        if let Some(list) = apps.get_mut(app.from) {
            list.push(Box::new(source));
        }
    }
    let knobs: Vec<Knobs> = scenario.hosts.iter().map(|h| knobs_of(h, variant)).collect();
    let mut hosts = Vec::new();
    for (index, apps) in apps.into_iter().enumerate() {
        let config = host_config(scenario, index, &knobs[index]);
        hosts.push(world.add_host(config, Box::new(Bundle::new(apps))));
    }
    let routers: Vec<RouterId> =
        scenario.routers.iter().map(|r| world.add_router(r.clone())).collect();
    let node = |place: Place| match place {
        Place::Host(i) => Node::Host(hosts[i]),
        Place::Router(i) => Node::Router(routers[i]),
    };
    let links: Vec<LinkId> = scenario
        .links
        .iter()
        .map(|link| world.lay(link.between.map(node), link.forward, link.reverse))
        .collect();
    world.watch_ways();
    time_line(scenario, &mut world, &hosts, &links, knobs);
    Built { world, hosts, links, boards }
}

/// The knobs of a host in a variant.
fn knobs_of(host: &HostSpec, variant: Option<usize>) -> Knobs {
    let knobs = host.knobs.get(variant.unwrap_or(0));
    knobs.cloned().unwrap_or_else(|| Knobs::new(host.profile))
}

fn host_config(scenario: &Scenario, index: usize, knobs: &Knobs) -> HostConfig {
    let spec = &scenario.hosts[index];
    let mut config = HostConfig::new(&spec.name, spec.profile);
    config.params = knobs.to_params(0);
    knobs.apply_limits(&mut config.limits);
    let mut cards = spec.cards.iter().map(|card| CardConfig {
        addresses: card.addresses.clone(),
        mtu: card.mtu,
        gateway4: card.gateway4,
        gateway6: card.gateway6,
    });
    if let Some(first) = cards.next() {
        config.addresses = first.addresses;
        config.mtu = first.mtu;
        config.gateway4 = first.gateway4;
        config.gateway6 = first.gateway6;
    }
    config.more_cards = cards.collect();
    config.buffers = buffers(scenario, index, knobs) as usize;
    config
}

/// Buffers that suffice for what can be under way or wait, as far as knobs and paths allow.
fn buffers(scenario: &Scenario, index: usize, knobs: &Knobs) -> u64 {
    let params = knobs.to_params(0).tcp;
    let place = Place::Host(index);
    let configs = |link: &super::model::LinkSpec| [link.forward, link.reverse];
    // No path is longer than all links together; a queue may hold as much again.
    let all = || scenario.links.iter().flat_map(configs);
    let one_way: Duration = all().map(|c| c.delay + c.jitter).sum::<Duration>() / 2;
    let own = scenario.links.iter().filter(|l| l.between.contains(&place)).flat_map(configs);
    let rate = own.map(|c| c.rate).filter(|r| *r != Rate::UNLIMITED).max();
    let bottleneck = all().map(|c| c.rate).filter(|r| *r != Rate::UNLIMITED).max();
    let rate = rate.or(bottleneck).unwrap_or(RATE_USUAL);
    let path = u128::from(rate.bytes_per_sec()) * (2 * one_way).as_nanos() / 1_000_000_000;
    let queues: u64 = all().map(|c| queue_bytes(&c)).max().unwrap_or(0);
    let path = u64::try_from(path).unwrap_or(u64::MAX).saturating_add(queues).saturating_mul(3);
    let flows = |app: &super::model::AppSpec| {
        let ours = app.from == index || app.to == index;
        u64::from(if ours { app.traffic.flows } else { 0 })
    };
    let flows: u64 = scenario.apps.iter().map(flows).sum();
    let per_flow = u64::from(params.rmem[2].max(params.wmem[2]));
    let bytes = path.min(flows.saturating_mul(per_flow));
    let [least, most] = BUFFERS;
    // What an application writes ahead waits in buffers, too.
    (least + bytes / 1000 + flows * 64).clamp(least, most)
}

fn queue_bytes(config: &LinkConfig) -> u64 {
    match config.queue {
        crate::link::Room::Bytes(n) => n,
        crate::link::Room::Packets(n) => u64::from(n) * u64::from(config.mtu),
    }
}

fn time_line(
    scenario: &Scenario,
    world: &mut World,
    hosts: &[HostId],
    links: &[LinkId],
    mut knobs: Vec<Knobs>,
) {
    let mut generation = 0;
    for moment in &scenario.timeline {
        let at = Instant::ZERO + moment.time;
        match &moment.action {
            Action::Link { link, forward, reverse } => {
                let Some(&link) = links.get(*link) else { continue };
                let changes = [(Way::Forward, forward.clone()), (Way::Reverse, reverse.clone())];
                world.at(at, move |w| {
                    for (way, changes) in &changes {
                        let mut config = *w.link_config(link, *way);
                        changes.iter().for_each(|change| change.apply(&mut config));
                        w.set_link(link, *way, config);
                    }
                });
            }
            Action::Sysctl { host, settings } => {
                let (Some(&id), Some(knobs)) = (hosts.get(*host), knobs.get_mut(*host)) else {
                    continue;
                };
                let pairs = settings.iter().map(|s| (s.knob.as_str(), s.value.as_str()));
                // Checked when the file was read.
                if knobs.set_all(pairs, Source::Runtime).is_err() {
                    continue;
                }
                generation += 1;
                let params = Arc::new(knobs.to_params(generation));
                world.at(at, move |w| w.command(id, Command::SetParams(params)));
            }
            Action::Stall { host, time } => {
                let Some(&id) = hosts.get(*host) else { continue };
                let until = at + *time;
                world.at(at, move |w| w.stall(id, until));
            }
        }
    }
}

/// Whether an application holds up the end of a run that lasts until all have ended.
pub(super) fn is_waited_for(spec: &traffic::Spec) -> bool {
    spec.ends() || !matches!(spec.kind, traffic::Kind::Idle)
}
