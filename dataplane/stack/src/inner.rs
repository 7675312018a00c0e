//! Everything of a stack but its application: what an application reaches through [`crate::Io`].

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use base::{ConnId, Device, DropReason, Instant, PortId, Random, SeededRandom};
use wire::{FlowHasher, FlowKey};

use crate::conn::{Conn, Unfiled};
use crate::conns::Conns;
use crate::demux::{Demux, Entry, Kind};
use crate::egress::Port;
use crate::env::Env;
use crate::gro::Burst;
use crate::icmp_limit::IcmpLimit;
use crate::isn::InitialNumbers;
use crate::links::ConnList;
use crate::listeners::Listeners;
use crate::outbox::Outbox;
use crate::port_list::PortList;
use crate::ports::Ports;
use crate::reassembly::Reassembly;
use crate::route::Routes;
use crate::stall::Stall;
use crate::storage::Storage;
use crate::time_waits::TimeWaits;
use crate::timers_app::AppTimers;
use crate::wheel::Wheel;
use crate::{AppEvent, StackConfig, StackParams};

/// Application events outside of connections that wait at most (messages from other workers).
pub(crate) const APP_QUEUE: usize = 1024;
/// Smallest number of buffers for which tables are laid out.
const BUFFERS_MIN: u32 = 1024;

/// How far a stop has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopping {
    /// Not at all.
    No,
    /// Connections may finish until then.
    Until(Instant),
    /// All have been aborted; what is left then goes without a word.
    Aborted(Instant),
    /// It is done and reported.
    Done,
}

/// See the module.
pub(crate) struct Core<D: Device> {
    pub(crate) config: StackConfig,
    pub(crate) env: Env,
    pub(crate) ports: PortList<D>,
    /// The port that plans first.
    pub(crate) first_port: PortId,

    pub(crate) burst: Burst<D::Frame>,

    pub(crate) conns: Conns<Conn>,
    pub(crate) demux: Demux<FlowHasher>,
    /// The flow that was looked up last, in front of the table.
    pub(crate) last_flow: Option<(FlowKey, ConnId)>,
    pub(crate) time_waits: TimeWaits,
    pub(crate) listeners: Listeners,
    /// Half-open connections of all listeners.
    pub(crate) half_open: u32,
    /// Connections that nobody holds any more.
    pub(crate) orphans: u32,
    pub(crate) storage: Storage<D::Frame>,

    pub(crate) wheel: Wheel,
    /// Connections of whose deadlines the wheel is to hear.
    pub(crate) unfiled: Unfiled,
    /// Connections with news for the application.
    pub(crate) news: ConnList,
    /// Connections whose application waits for buffers, to be told when there are some.
    pub(crate) starved: ConnList,
    /// Planning stopped for lack of buffers: try again then.
    pub(crate) retry_at: Option<Instant>,

    /// Raised when a hardware address, on whichever link, that connections may remember has changed.
    pub(crate) neighbor_generation: u32,
    pub(crate) routes: Routes,
    pub(crate) local_ports: Ports,
    pub(crate) isn: InitialNumbers,
    pub(crate) reassembly: Reassembly<D::Frame>,
    pub(crate) icmp_limit: IcmpLimit,
    /// Resets to strangers that may still be sent in this turn.
    pub(crate) resets_left: u32,

    /// Whether this worker keeps up.
    pub(crate) stall: Stall,
    /// The first turn is still to come.
    pub(crate) fresh: bool,
    /// Before this instant a turn without frames and commands has nothing to do. `None`: it may have.
    pub(crate) quiet_until: Option<Instant>,
    pub(crate) app_queue: VecDeque<AppEvent>,
    pub(crate) timers: AppTimers,
    pub(crate) outbox: Outbox,
    pub(crate) stopping: Stopping,
}

impl<D: Device> Core<D> {
    pub(crate) fn new(
        config: StackConfig,
        params: Arc<StackParams>,
        devices: Vec<D>,
        mut random: SeededRandom,
    ) -> Self {
        assert_eq!(devices.len(), config.ports.len(), "each port has a device");
        let limits = config.limits;
        let entries = limits.connections.saturating_add(limits.time_wait);
        let hasher = FlowHasher::new(random.secret(), random.secret());
        let seed = random.secret();
        let reachable = params.neighbor_reachable;
        let ports: Vec<Port<D>> = devices
            .into_iter()
            .zip(&config.ports)
            .map(|(device, setup)| Port::new(device, setup, limits.neighbors, reachable))
            .collect();
        let ports = PortList::new(ports);
        let buffers = ports.any().device.buffers();
        let payload_room = ports.any().device.capabilities().payload_room;
        let routes = Routes::new(config.ports.iter().zip(ports.iter().map(|p| p.mtu)));
        let local_ports = Ports::new(params.local_port_range, &mut random);
        let isn = InitialNumbers::new(&mut random);
        let reassembly = Reassembly::new(limits.fragments, random.secret());
        let icmp_limit =
            IcmpLimit::new(params.icmp_ratelimit, params.icmp_msgs_per_sec, &mut random);
        let mut core = Self {
            ports,
            first_port: PortId::FIRST,
            burst: Burst::new(),
            conns: Conns::new(limits.connections.min(Entry::INDEX_MAX)),
            demux: Demux::new(entries, hasher),
            last_flow: None,
            time_waits: TimeWaits::new(limits.time_wait.min(Entry::INDEX_MAX)),
            listeners: Listeners::new(limits.listeners),
            half_open: 0,
            orphans: 0,
            storage: Storage::new(buffers.total.max(BUFFERS_MIN), seed),
            wheel: Wheel::new(limits.connections),
            unfiled: Unfiled::new(),
            news: ConnList::new(|conn| &mut conn.news),
            starved: ConnList::new(|conn| &mut conn.starved),
            retry_at: None,
            neighbor_generation: 0,
            routes,
            local_ports,
            isn,
            reassembly,
            icmp_limit,
            resets_left: 0,
            stall: Stall::default(),
            fresh: true,
            quiet_until: None,
            app_queue: VecDeque::with_capacity(APP_QUEUE),
            timers: AppTimers::new(),
            outbox: Outbox::new(),
            stopping: Stopping::No,
            env: Env::new(params, random, payload_room),
            config,
        };
        core.env.set_buffers(buffers);
        core
    }

    /// What handles the flow `key`.
    pub(crate) fn lookup(&mut self, key: &FlowKey) -> Option<Entry> {
        if let Some((last, id)) = &self.last_flow
            && last == key
            && self.conns.contains(*id)
        {
            return Some(Entry::new(Kind::Connection, id.slot));
        }
        let (conns, time_waits) = (&self.conns, &self.time_waits);
        let entry = self.demux.find(
            |hasher| hasher.hash(key),
            |entry| match entry.kind() {
                Kind::TimeWait => time_waits.at(entry.index()).is_some_and(|w| w.key == *key),
                _ => conns.at(entry.index()).is_some_and(|c| c.key == *key),
            },
        )?;
        if entry.kind() != Kind::TimeWait {
            self.last_flow = conns.id_at(entry.index()).map(|id| (*key, id));
        }
        Some(entry)
    }

    /// The port by which the flow `key` sends: that of the route to its peer. `None`: there is no
    /// route.
    pub(crate) fn port_for(&self, key: &FlowKey) -> Option<PortId> {
        if self.ports.is_single() {
            return Some(PortId::FIRST);
        }
        let own = self.routes.port_of(key.local());
        self.routes.lookup(self.env.now, key.remote(), own).ok().map(|route| route.port)
    }

    /// The connection in `slot` may have something to send.
    pub(crate) fn make_ready(&mut self, slot: u32) {
        if let Some(port) = self.conns.at(slot).map(|conn| conn.port) {
            self.ports[port].ready.push_back(&mut self.conns, slot);
        }
    }

    /// The connection in `slot` has nothing to send.
    pub(crate) fn unmake_ready(&mut self, slot: u32) {
        if let Some(port) = self.conns.at(slot).map(|conn| conn.port) {
            self.ports[port].ready.remove(&mut self.conns, slot);
        }
    }

    /// Count `segs` discarded segments.
    pub(crate) fn drop_many(&mut self, reason: DropReason, segs: u16) {
        for _ in 0..segs {
            self.env.drop(reason);
        }
    }
}
