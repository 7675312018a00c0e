//! One world: a virtual clock, a heap of events, hosts, links and switches.
//!
//! Time moves to the next event only when no host has anything left to do. A host is turned when a
//! frame arrives, at its deadline, and again while it says that more is pending.

use core::time::Duration;

use base::{Instant, Random, SeededRandom};
use stack::{App, Command};
use wire::ethernet::Mac;

use crate::events::{Event, Events};
use crate::host::{Host, HostConfig};
use crate::link::Backlog;
use crate::link::{Arrival, Direction, LinkConfig, LinkCounters, mark_ce};
use crate::oracle::{self, Failure, Violation, Windows};
use crate::record::{Fate, Recorder, TraceHash};
use crate::router::{FiveTuple, Port, Router, RouterConfig, RouterCounters};

mod routing;

/// Turns within one instant beyond which time is said to stand still for ever.
const TURNS_PER_INSTANT_MAX: u64 = 100_000;
/// Turns of one run, unless [`World::set_step_limit`] says otherwise.
const STEPS_MAX: u64 = 50_000_000;
/// Hosts of a world; their number is the last byte of their addresses.
pub const HOSTS_MAX: usize = 250;
/// Routers of a world.
pub const ROUTERS_MAX: usize = 250;
/// As the control thread does it.
const AGE_INTERVAL: Duration = Duration::from_secs(1);
/// Connections that an oracle looks at in a host that may have lost a timer.
const SNAPSHOT_ROWS: u32 = 4096;

/// A host of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostId(pub usize);

/// A switch of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SwitchId(pub usize);

/// A router of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RouterId(pub usize);

/// A link of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub usize);

/// A direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// From its first end to its second.
    Forward,
    /// From its second end to its first.
    Reverse,
}

impl Way {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Forward, Self::Reverse];

    const fn index(self) -> usize {
        match self {
            Self::Forward => 0,
            Self::Reverse => 1,
        }
    }
}

/// What [`World::lay`] joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// A host, by its next card.
    Host(HostId),
    /// A router.
    Router(RouterId),
}

/// What a link is fastened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// With the number of its card.
    Host(HostId, usize),
    Switch(SwitchId),
    /// With the number of its card.
    Router(RouterId, usize),
}

struct Link {
    ends: [End; 2],
    directions: [Direction; 2],
}

/// Frames go by destination: stations are known from the start, nothing is learned. Groups and
/// unknown stations are flooded, so switches must form a tree.
#[derive(Default)]
struct Switch {
    ports: Vec<(LinkId, Way)>,
    stations: Vec<([u8; 6], (LinkId, Way))>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// What was waited for has come true.
    Done,
    /// The time is up.
    Limit,
}

/// Hosts and links, and the time that passes for them.
pub struct World {
    seed: u64,
    now: Instant,
    events: Events,
    hosts: Vec<Host>,
    /// Where each host's cards are plugged in.
    plugs: Vec<Vec<(LinkId, Way)>>,
    links: Vec<Link>,
    switches: Vec<Switch>,
    routers: Vec<Router>,
    /// Hosts or links have been added since routes were computed.
    routes_stale: bool,
    recorder: Recorder,
    windows: Windows,
    next_age: Instant,
    steps: u64,
    step_limit: u64,
    turns_at_instant: u64,
    /// Scratch of a turn.
    sent: Vec<(usize, Vec<u8>)>,
}

impl World {
    /// An empty world. All that is random in it follows from `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            now: Instant::ZERO,
            events: Events::default(),
            hosts: Vec::new(),
            plugs: Vec::new(),
            links: Vec::new(),
            switches: Vec::new(),
            routers: Vec::new(),
            routes_stale: false,
            recorder: Recorder::default(),
            windows: Windows::default(),
            next_age: Instant::ZERO + AGE_INTERVAL,
            steps: 0,
            step_limit: STEPS_MAX,
            turns_at_instant: 0,
            sent: Vec::new(),
        }
    }

    /// Its seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The present time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// A run of more turns than this has failed.
    pub fn set_step_limit(&mut self, turns: u64) {
        self.step_limit = turns;
    }

    /// Add a host with its application.
    ///
    /// # Panics
    ///
    /// Beyond [`HOSTS_MAX`] hosts.
    pub fn add_host(&mut self, config: HostConfig, app: Box<dyn App>) -> HostId {
        assert!(self.hosts.len() < HOSTS_MAX, "a world has at most {HOSTS_MAX} hosts");
        let index = self.hosts.len();
        let seed = self.seed_of(0x68_6F73_7400 + index as u64);
        self.hosts.push(Host::new(config, index as u8 + 1, seed, app));
        self.plugs.push(Vec::new());
        HostId(index)
    }

    /// Add a switch.
    pub fn add_switch(&mut self) -> SwitchId {
        self.switches.push(Switch::default());
        SwitchId(self.switches.len() - 1)
    }

    /// Add a router.
    ///
    /// # Panics
    ///
    /// Beyond [`ROUTERS_MAX`] routers.
    pub fn add_router(&mut self, config: RouterConfig) -> RouterId {
        assert!(self.routers.len() < ROUTERS_MAX, "a world has at most {ROUTERS_MAX} routers");
        let index = self.routers.len();
        let seed = self.seed_of(0x726F_7574_0000 + index as u64);
        self.routers.push(Router::new(config, index as u8 + 1, seed));
        RouterId(index)
    }

    /// A link between hosts and routers, with two different directions.
    ///
    /// # Panics
    ///
    /// If a host has no card left.
    pub fn lay(&mut self, ends: [Node; 2], forward: LinkConfig, reverse: LinkConfig) -> LinkId {
        let ends = ends.map(|node| match node {
            Node::Host(host) => End::Host(host, self.plugs[host.0].len()),
            Node::Router(router) => self.router_end(router),
        });
        self.link(ends, [forward, reverse])
    }

    fn router_end(&self, router: RouterId) -> End {
        End::Router(router, self.routers[router.0].ports.len())
    }

    /// A link between two hosts, the same in both directions.
    pub fn connect(&mut self, a: HostId, b: HostId, config: LinkConfig) -> LinkId {
        self.connect_ways(a, b, config, config)
    }

    /// A link between two hosts with two different directions.
    pub fn connect_ways(
        &mut self,
        a: HostId,
        b: HostId,
        forward: LinkConfig,
        reverse: LinkConfig,
    ) -> LinkId {
        self.lay([Node::Host(a), Node::Host(b)], forward, reverse)
    }

    /// A link between a host and a switch; the first direction is that from the host.
    pub fn plug(
        &mut self,
        host: HostId,
        switch: SwitchId,
        up: LinkConfig,
        down: LinkConfig,
    ) -> LinkId {
        let card = self.plugs[host.0].len();
        let link = self.link([End::Host(host, card), End::Switch(switch)], [up, down]);
        let mac = self.hosts[host.0].mac();
        self.switches[switch.0].stations.push((mac, (link, Way::Reverse)));
        link
    }

    /// A link between two switches.
    pub fn join(&mut self, a: SwitchId, b: SwitchId, config: LinkConfig) -> LinkId {
        self.link([End::Switch(a), End::Switch(b)], [config; 2])
    }

    fn link(&mut self, ends: [End; 2], configs: [LinkConfig; 2]) -> LinkId {
        let id = LinkId(self.links.len());
        let mut way = 0;
        let directions = configs.map(|config| {
            way += 1;
            Direction::new(config, self.seed_of(0x6C69_6E6B_0000 + 2 * id.0 as u64 + way))
        });
        for (end, way) in ends.into_iter().zip(Way::BOTH) {
            match end {
                End::Host(h, card) => {
                    let cards = self.hosts[h.0].macs().len();
                    assert!(card < cards, "{} has {cards} cards", self.hosts[h.0].name());
                    self.plugs[h.0].push((id, way));
                }
                End::Switch(s) => self.switches[s.0].ports.push((id, way)),
                End::Router(r, _) => {
                    let mac = self.routers[r.0].next_mac();
                    let port = Port { link: id, way, mac, peer: Mac::ZERO, on_link: Vec::new() };
                    self.routers[r.0].ports.push(port);
                }
            }
        }
        self.routes_stale = true;
        self.links.push(Link { ends, directions });
        id
    }

    fn seed_of(&self, what: u64) -> u64 {
        SeededRandom::new(self.seed ^ what.wrapping_mul(0x9E37_79B9_7F4A_7C15)).next_u64()
    }

    /// A host.
    pub fn host(&self, id: HostId) -> &Host {
        &self.hosts[id.0]
    }

    /// A host, to take what it has published.
    pub fn host_mut(&mut self, id: HostId) -> &mut Host {
        &mut self.hosts[id.0]
    }

    /// All hosts.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// What a router has done.
    pub fn router_counters(&self, router: RouterId) -> &RouterCounters {
        &self.routers[router.0].counters
    }

    /// Remember from now on which ways flows take where routers have a choice: [`World::ways_of`].
    pub fn watch_ways(&mut self) {
        self.routers.iter_mut().for_each(Router::watch);
    }

    /// The links that a flow took last where a router had a choice, in the order of the routers.
    pub fn ways_of(&self, flow: &FiveTuple) -> Vec<LinkId> {
        self.routers.iter().filter_map(|r| r.way_of(flow)).collect()
    }

    /// What waits in one direction of a link.
    pub fn backlog(&mut self, link: LinkId, way: Way) -> Backlog {
        let now = self.now;
        self.links[link.0].directions[way.index()].backlog(now)
    }

    /// Begin anew with the most that a queue held, in both directions of a link.
    pub fn forget_queue_max(&mut self, link: LinkId) {
        let now = self.now;
        for direction in &mut self.links[link.0].directions {
            direction.forget_queue_max(now);
        }
    }

    /// One direction of a link as it is now.
    pub fn link_config(&self, link: LinkId, way: Way) -> &LinkConfig {
        self.links[link.0].directions[way.index()].config()
    }

    /// What one direction of a link has done.
    pub fn link_counters(&self, link: LinkId, way: Way) -> &LinkCounters {
        self.links[link.0].directions[way.index()].counters()
    }

    /// Change one direction of a link from now on.
    pub fn set_link(&mut self, link: LinkId, way: Way, config: LinkConfig) {
        self.links[link.0].directions[way.index()].set(config);
    }

    /// Change both directions of a link, each in its own way.
    pub fn change_link(&mut self, link: LinkId, change: impl Fn(&mut LinkConfig)) {
        for way in Way::BOTH {
            let mut config = *self.link_config(link, way);
            change(&mut config);
            self.set_link(link, way, config);
        }
    }

    /// Carrier of both directions.
    pub fn set_up(&mut self, link: LinkId, up: bool) {
        self.change_link(link, |config| config.up = up);
    }

    /// Faults stop everywhere: no more loss, reordering, duplication or corruption; all links are
    /// up.
    pub fn heal(&mut self) {
        for link in 0..self.links.len() {
            self.change_link(LinkId(link), |config| *config = config.healed());
        }
    }

    /// The host does not run until `time`.
    pub fn stall(&mut self, host: HostId, time: Instant) {
        self.hosts[host.0].stalled_until = time;
        self.events.push(time, Event::Wake { host });
    }

    /// Something that the application of a host does of its own accord, now: see
    /// [`stack::Stack::with_app`].
    pub fn with_app<R>(
        &mut self,
        host: HostId,
        call: impl FnOnce(&mut dyn App, &mut dyn stack::Io) -> R,
    ) -> R {
        let now = self.now;
        let host = &mut self.hosts[host.0];
        host.runnable = true;
        host.stack_mut().with_app(now, call)
    }

    /// Say something to a stack at the beginning of its next turn, now.
    pub fn command(&mut self, host: HostId, command: Command) {
        self.hosts[host.0].command(command);
    }

    /// A line of the time line: at `time` (not before now), do this.
    pub fn at(&mut self, time: Instant, action: impl FnOnce(&mut Self) + 'static) {
        self.events.push(time.max(self.now), Event::Action(Box::new(action)));
    }

    /// Keep all frames for [`World::pcap`].
    pub fn capture(&mut self) {
        self.recorder.capture();
    }

    /// Keep a line for each frame from now on, and not only for the last ones.
    pub fn keep_all_lines(&mut self) {
        self.recorder.keep_all_lines();
    }

    /// What was captured: a file in pcap format.
    pub fn pcap(&self) -> Option<&[u8]> {
        self.recorder.pcap()
    }

    /// The hash over all frames with their times and fates. Two runs of one seed agree.
    pub fn trace_hash(&self) -> TraceHash {
        self.recorder.summary().1
    }

    /// The last frames, or all of them if they were kept, a line each.
    pub fn last_frames(&self) -> Vec<String> {
        self.recorder.lines(&|link| {
            let [a, b] = self.links[link].ends;
            (self.end_name(a), self.end_name(b))
        })
    }

    fn end_name(&self, end: End) -> String {
        match end {
            End::Host(h, _) => self.hosts[h.0].name().to_owned(),
            End::Router(r, _) => self.routers[r.0].config.name.clone(),
            End::Switch(s) => format!("switch{}", s.0),
        }
    }

    /// Hosts and links in a line each.
    pub fn describe(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for host in &self.hosts {
            let drops: Vec<_> = base::DropReason::ALL
                .iter()
                .zip(host.stack().drops())
                .filter(|(_, n)| **n > 0)
                .map(|(reason, n)| format!("{} {n}", reason.name()))
                .collect();
            lines.push(format!(
                "host {}: table {:?}, turn {:?}, {} turns, rx missed {}, buffers missing {:?}, \
                 drops: {}",
                host.name(),
                host.stack().table(),
                host.last_turn(),
                host.turns(),
                host.rx_missed(),
                host.buffers_missing(),
                drops.join(", ")
            ));
        }
        for router in &self.routers {
            lines.push(format!("router {}: {:?}", router.config.name, router.counters));
        }
        for link in &self.links {
            for (way, d) in link.directions.iter().enumerate() {
                let (from, to) = (self.end_name(link.ends[way]), self.end_name(link.ends[1 - way]));
                lines.push(format!("link {from} > {to}: {:?} {:?}", d.config(), d.counters()));
            }
        }
        lines
    }

    /// The failure of this run.
    pub fn failure(&self, violation: Violation) -> Failure {
        Failure {
            seed: self.seed,
            at: self.now,
            violation,
            world: self.describe(),
            frames: self.last_frames(),
        }
    }

    /// Let this much time pass.
    ///
    /// # Errors
    ///
    /// What an oracle has found.
    pub fn run_for(&mut self, time: Duration) -> Result<(), Failure> {
        self.run_until(self.now + time, |_| false).map(|_| ())
    }

    /// Let time pass until `done` or `limit`. `done` is asked when no host has anything to do at
    /// that instant.
    ///
    /// # Errors
    ///
    /// What an oracle has found.
    pub fn run_until(
        &mut self,
        limit: Instant,
        mut done: impl FnMut(&mut Self) -> bool,
    ) -> Result<Reached, Failure> {
        loop {
            self.settle().map_err(|violation| self.failure(violation))?;
            if done(self) {
                return Ok(Reached::Done);
            }
            // A condition may have given a host something to do.
            if self.hosts.iter().any(|h| h.runnable && h.stalled_until <= self.now) {
                continue;
            }
            match self.events.next_at() {
                Some(at) if at <= limit => self.move_to(at),
                _ => {
                    self.now = self.now.max(limit);
                    return Ok(Reached::Limit);
                }
            }
        }
    }

    /// Let time pass until `done`, which must come true by `limit`. Returns when it did.
    ///
    /// # Errors
    ///
    /// What an oracle has found; [`Violation::Liveness`] when the time is up.
    pub fn expect_by(
        &mut self,
        limit: Instant,
        what: &str,
        done: impl FnMut(&mut Self) -> bool,
    ) -> Result<Instant, Failure> {
        let started = self.now;
        match self.run_until(limit, done)? {
            Reached::Done => Ok(self.now),
            Reached::Limit => {
                let what = what.to_owned();
                Err(self.failure(Violation::Liveness { what, limit: limit.since(started) }))
            }
        }
    }

    /// Wait until all hosts are quiet and the wires empty, TIME-WAIT included, and check that all
    /// buffers have come back.
    ///
    /// # Errors
    ///
    /// What an oracle has found; [`Violation::Leak`] when buffers are missing.
    pub fn expect_quiet(&mut self, within: Duration) -> Result<(), Failure> {
        self.expect_by(self.now + within, "all connections gone and all wires empty", |w| {
            w.events.in_flight() == 0 && w.hosts.iter().all(Host::is_quiet)
        })?;
        for host in &self.hosts {
            let (payload, headers) = host.buffers_missing();
            if (payload, headers) != (0, 0) {
                let host = host.name().to_owned();
                return Err(self.failure(Violation::Leak { host, payload, headers }));
            }
        }
        Ok(())
    }

    /// Time moves, and what is due then happens.
    fn move_to(&mut self, at: Instant) {
        let at = if self.next_age <= at {
            let age = self.next_age;
            self.next_age += AGE_INTERVAL;
            for host in &mut self.hosts {
                host.command(Command::Age);
            }
            age
        } else {
            at
        };
        if at > self.now {
            self.now = at;
            self.turns_at_instant = 0;
        }
        while let Some(event) = self.events.pop_due(self.now) {
            match event {
                Event::Arrive { link, way, epoch, bytes } => self.arrive(link, way, epoch, bytes),
                Event::Wake { host } => self.wake(host),
                Event::Action(action) => action(self),
            }
        }
    }

    fn wake(&mut self, id: HostId) {
        let now = self.now;
        let host = &mut self.hosts[id.0];
        if host.wake_at != Some(now) {
            // Stale, or the end of a stall, after which a host runs if it has reason to.
            return;
        }
        host.wake_at = None;
        match host.last_turn().next_deadline {
            Some(deadline) if deadline > now => self.schedule(id, deadline),
            Some(_) => host.runnable = true,
            None => {}
        }
    }

    /// Make sure that the host is woken at `deadline` or before.
    fn schedule(&mut self, id: HostId, deadline: Instant) {
        let deadline = deadline.max(self.now);
        let host = &mut self.hosts[id.0];
        if host.wake_at.is_none_or(|at| at > deadline) {
            host.wake_at = Some(deadline);
            self.events.push(deadline, Event::Wake { host: id });
        }
    }

    /// Turn hosts, in the order of their numbers, until none has anything to do now.
    fn settle(&mut self) -> Result<(), Violation> {
        loop {
            let mut idle = true;
            for index in 0..self.hosts.len() {
                let host = &self.hosts[index];
                if host.runnable && host.stalled_until <= self.now {
                    idle = false;
                    self.turn(HostId(index))?;
                }
            }
            if idle {
                return Ok(());
            }
        }
    }

    fn turn(&mut self, id: HostId) -> Result<(), Violation> {
        self.steps += 1;
        self.turns_at_instant += 1;
        if self.steps > self.step_limit {
            return Err(Violation::Steps { limit: self.step_limit });
        }
        if self.turns_at_instant > TURNS_PER_INSTANT_MAX {
            return Err(Violation::Livelock { turns: self.turns_at_instant });
        }
        let mut sent = core::mem::take(&mut self.sent);
        let host = &mut self.hosts[id.0];
        let mut turn = host.turn(self.now, &mut sent);
        if oracle::is_suspect(&turn, host.stack().table()) && !host.runnable {
            host.command(Command::Snapshot { connections: SNAPSHOT_ROWS });
            turn = host.turn(self.now, &mut sent);
            if oracle::is_suspect(&turn, host.stack().table())
                && let Some(snapshot) = host.take_snapshot()
                && let Some(connection) = oracle::stuck_connection(&snapshot)
            {
                return Err(Violation::LostTimer { host: host.name().to_owned(), connection });
            }
        }
        if let Some(deadline) = turn.next_deadline {
            self.schedule(id, deadline);
        }
        for (card, bytes) in sent.drain(..) {
            self.windows.on_sent(&bytes)?;
            if let Some(&(link, way)) = self.plugs[id.0].get(card) {
                self.offer(link, way, bytes, true);
            }
        }
        self.sent = sent;
        Ok(())
    }

    /// Put a frame on a link; `first`: it has been on none before.
    fn offer(&mut self, link: LinkId, way: Way, bytes: Vec<u8>, first: bool) {
        if first {
            self.recorder.keep(self.now, &bytes);
        }
        let direction = &mut self.links[link.0].directions[way.index()];
        let fate = direction.offer(self.now, &bytes);
        let epoch = direction.epoch();
        let reverse = way == Way::Reverse;
        let fate = match fate {
            Err(reason) => {
                self.recorder.frame(self.now, link.0, reverse, &bytes, Fate::Dropped(reason));
                return;
            }
            Ok(flight) => flight,
        };
        let flipped = [Some(fate.first), fate.second].iter().flatten().any(|c| c.flip.is_some());
        let told = Fate::Arrives { at: fate.first.at, again: fate.second.map(|c| c.at), flipped };
        self.recorder.frame(self.now, link.0, reverse, &bytes, told);
        let mut arrive = |copy: Arrival, mut bytes: Vec<u8>| {
            if fate.mark {
                mark_ce(&mut bytes);
            }
            copy.damage(&mut bytes);
            self.events.push(copy.at, Event::Arrive { link, way, epoch, bytes });
        };
        if let Some(second) = fate.second {
            let again = bytes.clone();
            arrive(fate.first, bytes);
            arrive(second, again);
        } else {
            arrive(fate.first, bytes);
        }
    }

    /// A frame comes out of a link.
    fn arrive(&mut self, link: LinkId, way: Way, epoch: u32, bytes: Vec<u8>) {
        let ends = self.links[link.0].ends;
        let direction = &mut self.links[link.0].directions[way.index()];
        if direction.epoch() != epoch {
            direction.on_lost_in_flight(bytes.len());
            return;
        }
        match ends[1 - way.index()] {
            End::Host(host, card) => {
                self.windows.on_arrived(&bytes);
                self.hosts[host.0].receive(card, bytes);
            }
            End::Switch(switch) => self.forward(switch, link, bytes),
            End::Router(router, port) => self.route(router, port, bytes),
        }
    }

    /// What a switch does with a frame that came from `from`.
    fn forward(&mut self, switch: SwitchId, from: LinkId, bytes: Vec<u8>) {
        let Some(dst) = bytes.first_chunk::<6>().copied() else { return };
        let s = &self.switches[switch.0];
        let station = s.stations.iter().find(|(mac, _)| *mac == dst).map(|(_, port)| *port);
        let ports = match station {
            Some(port) if !Mac(dst).is_multicast() => vec![port],
            _ => s.ports.clone(),
        };
        for (link, way) in ports.into_iter().filter(|(link, _)| *link != from) {
            self.offer(link, way, bytes.clone(), false);
        }
    }
}
