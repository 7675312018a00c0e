//! Commands of the control thread, the orderly stop, and snapshots.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;

use base::{ConnId, Device, Instant, Random};
use tcp::{CloseReason, State};
use wire::FlowHasher;

use crate::conn::Phase;
use crate::inner::{Core, Stopping};
use crate::neighbor_io::Heard;
use crate::{AppEvent, Command, ConnRow, Io, Outgoing, Snapshot};

/// After the limit of a stop, resets have this long to leave.
const LAST_WORDS: Duration = Duration::from_millis(100);

impl<D: Device> Core<D> {
    pub(crate) fn on_command(&mut self, command: Command) {
        match command {
            Command::SetParams(params) => {
                let generation = params.generation;
                self.local_ports.set_range(params.local_port_range);
                for port in self.ports.iter_mut() {
                    port.neighbors.set_reachable(params.neighbor_reachable);
                }
                self.icmp_limit.set_limits(params.icmp_ratelimit, params.icmp_msgs_per_sec);
                self.env.set_params(params);
                self.outbox.push_answer(Outgoing::ParamsApplied(generation));
            }
            Command::Message { from, message } => {
                let message = match message.downcast::<Heard>() {
                    Ok(heard) => {
                        self.learn_here(*heard);
                        return;
                    }
                    Err(message) => message,
                };
                self.app_queue.push_back(AppEvent::Message { from, message });
            }
            Command::Age => {
                let now = self.env.now;
                for port in self.ports.iter_mut() {
                    port.neighbors.age(now);
                }
                self.routes.age(now);
            }
            Command::RotateSecrets => {
                let hasher = FlowHasher::new(self.env.random.secret(), self.env.random.secret());
                self.demux.rekey(hasher);
                self.isn.rotate(&mut self.env.random);
            }
            Command::Snapshot { connections } => {
                let snapshot = self.snapshot(connections);
                self.outbox.push_answer(Outgoing::Snapshot(Box::new(snapshot)));
            }
            Command::Stop => self.begin_stop(),
        }
    }

    fn begin_stop(&mut self) {
        if self.stopping != Stopping::No {
            return;
        }
        self.stopping = Stopping::Until(self.env.now + self.config.stop_limit);
        self.app_queue.push_back(AppEvent::Stop);
        // Connections that nobody has been told of need not be finished.
        for slot in 0..self.conns.slots() {
            let half_open = |c: &crate::conn::Conn| {
                c.listener.is_some() && matches!(c.phase, Phase::Handshake(_))
            };
            if self.conns.at(slot).is_some_and(half_open) {
                self.abort_slot(slot);
            }
        }
    }

    /// Go on with a stop whose time is up.
    pub(crate) fn advance_stop(&mut self) {
        let now = self.env.now;
        match self.stopping {
            Stopping::Until(limit) if now >= limit => {
                self.stopping = Stopping::Aborted(now + LAST_WORDS);
                for slot in 0..self.conns.slots() {
                    if let Some(conn) = self.conns.at_mut(slot) {
                        conn.discard = true;
                        self.storage.clear_received(&mut conn.recv);
                        self.abort_slot(slot);
                    }
                }
            }
            // Nobody is left to finish for: frames that the device does not take, as one without a
            // peer, are not worth more than the last words.
            Stopping::Until(limit) if limit > now + LAST_WORDS && self.conns.is_empty() => {
                self.stopping = Stopping::Aborted(now + LAST_WORDS);
            }
            Stopping::Aborted(_) if self.has_given_up() => {
                for slot in 0..self.conns.slots() {
                    if let Some(conn) = self.conns.at_mut(slot) {
                        conn.pending.closed.get_or_insert((CloseReason::Resources, false));
                        self.news.push_back(&mut self.conns, slot);
                    }
                }
            }
            _ => {}
        }
    }

    /// A stop has taken so long that nothing is waited for any more.
    pub(crate) fn has_given_up(&self) -> bool {
        matches!(self.stopping, Stopping::Aborted(limit) if self.env.now >= limit)
    }

    /// Report the end of a stop, once.
    pub(crate) fn report_stop(&mut self) {
        let stopping = matches!(self.stopping, Stopping::Until(_) | Stopping::Aborted(_));
        let quiet = self.conns.is_empty()
            && self.app_queue.is_empty()
            && (!self.ports.is_any_backed_up() || self.has_given_up());
        if stopping && quiet {
            self.stopping = Stopping::Done;
            self.outbox.push_answer(Outgoing::Stopped);
        }
    }

    pub(crate) fn stop_deadline(&self) -> Option<Instant> {
        match self.stopping {
            Stopping::Until(limit) | Stopping::Aborted(limit) => Some(limit),
            Stopping::No | Stopping::Done => None,
        }
    }

    /// A connection was established for a listener that is closed.
    pub(crate) fn refuse(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        conn.discard = true;
        conn.untold = true;
        self.storage.clear_received(&mut conn.recv);
        self.abort_slot(id.slot);
    }

    /// Keep what a closed connection has received until the application has read it.
    pub(crate) fn keep_unread(&mut self, slot: u32, reason: CloseReason) {
        let Some(conn) = self.conns.at_mut(slot) else { return };
        conn.phase = Phase::Drained(reason);
        conn.pending.closed = None;
        conn.send.clear(&mut self.storage);
    }

    pub(crate) fn table(&self) -> [u32; 3] {
        let handshakes = self.conns.iter().filter(|(_, c)| matches!(c.phase, Phase::Handshake(_)));
        let handshakes = handshakes.count() as u32;
        [self.conns.len() - handshakes, handshakes, self.time_waits.len()]
    }

    pub(crate) fn holds_no_buffers(&self) -> bool {
        self.storage.is_empty()
            && self.ports.iter().all(|port| !port.is_backed_up() && port.neighbors.parked() == 0)
    }

    fn snapshot(&self, rows: u32) -> Snapshot {
        Snapshot {
            now: self.env.now,
            generation: self.env.params().generation,
            tcp: self.env.tcp.clone(),
            stack: self.env.counters.clone(),
            drops: *self.env.drops(),
            buffers: self.ports.any().device.buffers(),
            table: self.table(),
            connections: self.rows().take(rows as usize).collect::<Vec<_>>(),
        }
    }

    /// Listeners, connections, and TIME-WAIT records.
    fn rows(&self) -> impl Iterator<Item = ConnRow> {
        let listeners = self.listeners.iter().map(|l| {
            let any = l.addr.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
            let unspecified = if any.is_ipv4() {
                SocketAddr::from(([0; 4], 0))
            } else {
                SocketAddr::from(([0; 16], 0))
            };
            ConnRow {
                local: SocketAddr::new(any, l.port),
                remote: unspecified,
                port: l.addr.and_then(|addr| self.routes.port_of(addr)),
                state: State::Listen,
                recv_queue: l.listener.accept_queue,
                send_queue: l.listener.backlog,
                info: None,
            }
        });
        let conns = self.conns.iter().map(|(id, conn)| {
            let unacked = match &conn.phase {
                Phase::Open(c) => c.write_seq().bytes_since(c.snd_una()),
                _ => 0,
            };
            ConnRow {
                local: conn.key.local_addr(),
                remote: conn.key.remote_addr(),
                port: Some(conn.port),
                state: conn.state(),
                recv_queue: conn.recv.readable(),
                send_queue: unacked,
                info: self.info(id),
            }
        });
        let waiting = self.time_waits.iter().map(|w| ConnRow {
            local: w.key.local_addr(),
            remote: w.key.remote_addr(),
            port: self.port_for(&w.key),
            state: State::TimeWait,
            recv_queue: 0,
            send_queue: 0,
            info: None,
        });
        listeners.chain(conns).chain(waiting)
    }
}
