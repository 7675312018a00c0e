//! What connections have to send, and where it goes.

use core::net::IpAddr;
use core::time::Duration;

use base::{Device, DropReason, Frame, PortId};
use tcp::{Plan, Segment};
use wire::{FlowKey, Mac};

use crate::conn::{CachedMac, Conn, Phase};
use crate::egress::{NoPayload, Port};
use crate::env::Env;
use crate::inner::Core;
use crate::neighbor::Resolved;
use crate::route::Routes;
use crate::storage::Storage;
use crate::template::Template;

/// Segments that one connection may plan before the others have their turn: one super-segment.
const SEGS_PER_VISIT: u32 = 64;
/// How long to wait for buffers before planning is tried again.
pub(crate) const RETRY_AFTER: Duration = Duration::from_millis(1);
/// How long a connection trusts the hardware address it has looked up.
const MAC_TRUST: Duration = Duration::from_secs(1);
/// Resets and other answers to strangers in one turn.
pub(crate) const RESETS_PER_TURN: u32 = 64;

/// Where the frames of a connection go.
#[derive(Clone, Copy)]
enum Destination {
    Station(Mac),
    /// To wait until this neighbour is resolved.
    Parked(IpAddr),
    /// Nowhere; counted as lost, and sent again by the engine when its time comes.
    Nowhere(DropReason),
}

/// How a visit to a connection ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Visit {
    /// It has nothing more to say.
    Idle,
    /// Its share is used up.
    More,
    /// Buffers have run out.
    NoBuffers,
}

/// What a plan of a connection needs to become frames.
struct Way<'a, D: Device> {
    env: &'a mut Env,
    port: &'a mut Port<D>,
    storage: &'a mut Storage<D::Frame>,
    routes: &'a mut Routes,
    /// Of the neighbour tables.
    generation: u32,
}

impl<D: Device> Way<'_, D> {
    /// Make the frames of a plan of `conn` and send them on their way. Returns how many segments were
    /// made.
    fn send_plan(&mut self, conn: &mut Conn, plan: &Plan) -> u32 {
        let destination = self.destination(conn);
        let Self { env, port, storage, .. } = self;
        let to = match destination {
            Destination::Nowhere(reason) => {
                env.drop(reason);
                return plan.segs();
            }
            Destination::Station(to) => to,
            Destination::Parked(_) => Mac::ZERO,
        };
        let mut template = {
            let ttl = conn.ttl.unwrap_or(env.params().ttl);
            Template::new((port.mac, to), &conn.key, plan, (ttl, conn.tos))
        };
        let mut view = conn.send.view(storage);
        let ipv6 = conn.key.is_ipv6();
        let segs = port.emit(&mut template, plan, &mut view, |port, frame| {
            match ipv6 {
                true => env.counters.ip6_out_requests += 1,
                false => env.counters.ip_out_requests += 1,
            }
            match destination {
                Destination::Parked(next_hop) => match port.neighbors.park(next_hop, frame) {
                    Ok(None) => {}
                    Ok(Some(_)) | Err(_) => env.drop(DropReason::NeighborFailed),
                },
                _ => port.push(frame),
            }
        });
        conn.snd_max = conn.snd_max.later(plan.seq.add(plan.len.min(segs * plan.seg_size)));
        segs
    }

    /// Where the frames of `conn` go, from memory or by asking.
    fn destination(&mut self, conn: &mut Conn) -> Destination {
        let now = self.env.now;
        if let Some(cached) = conn.mac
            && cached.generation == self.generation
            && now < cached.until
        {
            return Destination::Station(cached.mac);
        }
        let Ok(next_hop) = self.routes.next_hop(conn.port, conn.key.remote()) else {
            self.env.counters.ip_out_no_routes += 1;
            return Destination::Nowhere(DropReason::NoRoute);
        };
        let neighbors = &mut self.port.neighbors;
        if core::mem::take(&mut conn.progress) {
            neighbors.confirm(now, next_hop);
        }
        match neighbors.resolve(now, next_hop) {
            Resolved::Mac(mac) => {
                let generation = self.generation;
                conn.mac = Some(CachedMac { mac, generation, until: now + MAC_TRUST });
                Destination::Station(mac)
            }
            Resolved::Wait => Destination::Parked(next_hop),
            Resolved::Full => Destination::Nowhere(DropReason::NeighborLimit),
        }
    }
}

impl<D: Device> Core<D> {
    /// Let each port plan and send. Returns the frames planned.
    pub(crate) fn transmit(&mut self) -> u32 {
        let (mut planned, mut buffers_left) = (0, true);
        for port in self.ports.ids_from(self.first_port) {
            let (frames, enough) = self.transmit_on(port, buffers_left);
            planned += frames;
            if buffers_left && !enough {
                // Whoever runs out of buffers has had some: the next time others come first.
                self.first_port = self.ports.after(port);
                self.retry_at = Some(self.env.now + RETRY_AFTER);
                buffers_left = false;
            }
        }
        planned
    }

    /// Visit connections on the ready list of a port in turn until all are quiet, the device's queue
    /// is full or buffers run out; not at all while frames of before are left over or unless
    /// `plan`. Returns the frames planned, and whether there were buffers enough.
    fn transmit_on(&mut self, port: PortId, plan: bool) -> (u32, bool) {
        self.ports[port].flush(&mut self.env.counters);
        if self.ports[port].is_backed_up() || !plan {
            return (0, true);
        }
        let limit = self.ports[port].frames_per_turn();
        let (mut budget, mut enough) = (limit, true);
        while budget > 0
            && let Some(id) = self.ports[port].ready.pop_front(&mut self.conns)
        {
            let (used, visit) = self.visit(id.slot, budget.min(SEGS_PER_VISIT));
            budget -= used.min(budget);
            if visit == Visit::NoBuffers {
                enough = false;
                break;
            }
        }
        self.ports[port].flush(&mut self.env.counters);
        (limit - budget, enough)
    }

    /// Let one connection plan at most `segs_max` segments, and do what [`Core::after`] does; but one
    /// that has said all stays off the ready list.
    fn visit(&mut self, slot: u32, segs_max: u32) -> (u32, Visit) {
        let Some((conn, mut way)) = self.way(slot) else { return (0, Visit::Idle) };
        let mut used = 0;
        let visit = loop {
            if used >= segs_max {
                break Visit::More;
            }
            let mut cx = way.env.cx(conn.params);
            let plan = match &mut conn.phase {
                Phase::Open(connection) => connection.poll_transmit(&mut cx, segs_max - used),
                Phase::Handshake(handshake) => handshake.poll_transmit(&mut cx),
                Phase::Drained(_) => None,
            };
            let Some(plan) = plan else { break Visit::Idle };
            let segs = way.send_plan(conn, &plan);
            let mut cx = way.env.cx(conn.params);
            match &mut conn.phase {
                Phase::Open(connection) => connection.on_transmitted(&mut cx, &plan, segs),
                Phase::Handshake(handshake) => {
                    handshake.on_transmitted(&mut cx, &plan, segs > 0);
                }
                Phase::Drained(_) => {}
            }
            used += segs.max(1);
            if segs < plan.segs() {
                way.env.counters.pool_empty += 1;
                break Visit::NoBuffers;
            }
        };
        conn.take_events();
        let news = conn.pending.any();
        if !conn.unfiled {
            self.note_unfiled(slot);
        }
        if visit != Visit::Idle {
            self.make_ready(slot);
        }
        if news {
            self.news.push_back(&mut self.conns, slot);
        }
        (used, visit)
    }

    /// Make the frames of a plan of the connection in `slot` and send them on their way.
    pub(crate) fn send_plan(&mut self, slot: u32, plan: &Plan) {
        if let Some((conn, mut way)) = self.way(slot) {
            way.send_plan(conn, plan);
        }
    }

    /// The connection in `slot`, and its way out.
    fn way(&mut self, slot: u32) -> Option<(&mut Conn, Way<'_, D>)> {
        let Self { conns, env, ports, storage, routes, neighbor_generation, .. } = self;
        let conn = conns.at_mut(slot)?;
        let port = &mut ports[conn.port];
        Some((conn, Way { env, port, storage, routes, generation: *neighbor_generation }))
    }

    /// Answer a segment of no connection: a reset, unless it was one.
    pub(crate) fn reset(&mut self, key: &FlowKey, to: (PortId, Mac), seg: &Segment) {
        if let Some(plan) = tcp::reset_for(seg)
            && self.reply(key, to, &plan)
        {
            self.env.tcp.out_segs += 1;
            self.env.tcp.out_rsts += 1;
        }
    }

    /// Send a segment without payload back to where one came from. A bounded number per turn; false
    /// beyond that.
    pub(crate) fn reply(&mut self, key: &FlowKey, to: (PortId, Mac), plan: &Plan) -> bool {
        let (port, to) = (&mut self.ports[to.0], to.1);
        if self.resets_left == 0 || !port.has_answer_room() {
            return false;
        }
        self.resets_left -= 1;
        let mut template = Template::new((port.mac, to), key, plan, (self.env.params().ttl, 0));
        let made = port.emit(&mut template, plan, &mut NoPayload, |port, frame| port.push(frame));
        if made > 0 {
            if key.is_ipv6() {
                self.env.counters.ip6_out_requests += 1;
            } else {
                self.env.counters.ip_out_requests += 1;
            }
        }
        made > 0
    }

    /// Send a frame that was parked.
    pub(crate) fn unpark(&mut self, port: PortId, mut frame: D::Frame, mac: Mac) {
        let Some(to) = frame.head_mut().and_then(|head| head.first_chunk_mut::<6>()) else {
            self.env.drop(DropReason::NoBuffer);
            return;
        };
        *to = mac.0;
        self.ports[port].push(frame);
    }
}
