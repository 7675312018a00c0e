//! The stack of one worker: everything it owns, and the turn that moves it.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::marker::PhantomData;

use base::{
    ConnId, Device, DropReason, Instant, PortId, RX_BURST_FRAMES, RxBatch, SeededRandom, WorkerId,
};
use tcp::{CloseReason, TcpCounters};

use crate::conn::{Pending, Phase};
use crate::inner::{Core, Stopping};
use crate::transmit::{RESETS_PER_TURN, RETRY_AFTER};
use crate::{App, AppEvent, Command, Io, Outgoing, StackConfig, StackCounters, StackParams, Turn};

/// Commands taken in one turn at most.
const COMMANDS_PER_TURN: u32 = 64;
/// Events told to the application in one of the two rounds of a turn.
const EVENTS_PER_ROUND: u32 = 1024;
/// Timers looked at in one turn.
const DEADLINES_PER_TURN: u32 = 1024;
/// Buckets of the connection table that change to a new secret in one turn.
const REKEY_PER_TURN: usize = 8;

/// All that one core owns. It is built on the thread of its worker and never leaves it (the type is
/// not `Send`).
pub struct Stack<D: Device> {
    core: Core<D>,
    app: Box<dyn App>,
    _stays_here: PhantomData<Rc<()>>,
}

impl<D: Device> Stack<D> {
    /// A stack that does nothing yet: the application gets [`AppEvent::Start`] in the first turn.
    /// `devices`: one for each of `config.ports`, in that order, sharing their buffers.
    ///
    /// # Panics
    /// If there are more or fewer devices than ports, no port, or more than [`base::PORTS_MAX`].
    pub fn new(
        config: StackConfig,
        params: Arc<StackParams>,
        devices: Vec<D>,
        random: SeededRandom,
        app: Box<dyn App>,
    ) -> Self {
        let mut core = Core::new(config, params, devices, random);
        core.app_queue.push_back(AppEvent::Start);
        Self { core, app, _stays_here: PhantomData }
    }

    /// One trip round the loop, to completion: receive burst, input, commands, deadlines,
    /// application, output, transmit burst. `now` never goes back. Takes a bounded number of
    /// `commands`; what `outgoing` gives back is offered again in the next turn.
    pub fn turn(
        &mut self,
        now: Instant,
        commands: &mut dyn Iterator<Item = Command>,
        outgoing: &mut dyn FnMut(Outgoing) -> Result<(), Outgoing>,
    ) -> Turn {
        // A clock that goes back is none; the engine sees a monotonic one.
        let now = self.core.env.now.max(now);
        self.core.env.now = now;
        // Until then, only a frame or a command can bring anything about.
        let quiet = self.core.quiet_until.is_some_and(|until| now < until);
        let mut begun = !quiet;
        let first = self.core.fresh;
        if begun {
            self.core.begin_turn();
        }
        let mut work = 0;
        // What has arrived before the first turn is not to find ports closed that are about to open.
        if first {
            work += self.deliver();
        }
        work += self.receive(&mut begun);
        work += self.core.take_commands(commands);
        if quiet && work == 0 {
            return self.core.quiet_turn();
        }
        let core = &mut self.core;
        if !begun {
            core.begin_turn();
        }
        if core.stall.may_run_deadlines() {
            work += core.on_deadlines();
        }
        work += core.poll_neighbors();
        core.advance_stop();

        work += self.deliver();
        work += self.core.transmit();
        // What the last segments of a connection have brought about.
        work += self.deliver();
        if self.core.ports.iter().any(|port| !port.ready.is_empty()) {
            work += self.core.transmit();
        }
        self.core.end_turn(outgoing, work)
    }

    /// Take in what the ports have; the turn begins with the first frame at the latest. Returns the
    /// frames.
    fn receive(&mut self, begun: &mut bool) -> u32 {
        let (mut frames, mut full) = (0, false);
        let mut batch = RxBatch::new();
        for port in self.core.ports.ids() {
            let count = self.core.ports[port].device.rx_burst(&mut batch);
            if count == 0 {
                continue;
            }
            full |= count >= RX_BURST_FRAMES;
            frames += count as u32;
            if !core::mem::replace(begun, true) {
                self.core.begin_turn();
            }
            for frame in batch.drain(..) {
                self.core.on_frame(port, frame);
            }
            while self.core.tcp_input(port) {
                // Many flows at once: the answers of the first are on their way while we look at
                // the others.
                self.deliver();
                self.core.transmit();
            }
        }
        if *begun {
            self.core.stall.after_burst(full);
        }
        frames
    }

    /// Tell the application what happened. Returns the events told.
    fn deliver(&mut self) -> u32 {
        let mut events = 0;
        while events < EVENTS_PER_ROUND
            && let Some(event) = self.core.next_app_event()
        {
            self.app.on_event(&mut self.core, event);
            events += 1;
        }
        // Only what is on the list now: an application that makes news by its answers must not
        // keep the turn from ending.
        for _ in 0..self.core.news.len() {
            if events >= EVENTS_PER_ROUND {
                break;
            }
            let Some(id) = self.core.news.pop_front(&mut self.core.conns) else { break };
            events += self.deliver_news(id);
        }
        events
    }

    /// Tell the news of one connection, in the order in which they make sense.
    fn deliver_news(&mut self, id: ConnId) -> u32 {
        let mut events = 0;
        let Some(conn) = self.core.conns.get_mut(id) else { return events };
        let Pending { accepted, connected, readable, writable, peer_closed, closed } =
            core::mem::take(&mut conn.pending);
        conn.pending.closed = closed;
        let syn_arrival = conn.syn_arrival;
        if accepted {
            if let Some(listener) = conn.listener {
                self.core.leave_listener(id.slot);
                events += 1;
                let event = AppEvent::Accepted { listener, conn: id, syn_arrival };
                self.app.on_event(&mut self.core, event);
            } else {
                // Its listener was closed in the meantime: nobody waits for it.
                self.core.refuse(id);
                return events;
            }
        }
        let edges = [
            (connected, AppEvent::Connected { conn: id }),
            (readable, AppEvent::Readable { conn: id }),
            (writable, AppEvent::Writable { conn: id }),
            (peer_closed, AppEvent::PeerClosed { conn: id }),
        ];
        for (happened, event) in edges {
            if happened && self.core.conns.get(id).is_some_and(|conn| !conn.discard) {
                events += 1;
                self.app.on_event(&mut self.core, event);
            }
        }
        let pending = self.core.conns.get(id).and_then(|conn| conn.pending.closed);
        if let Some((reason, time_wait)) = pending {
            events += self.finish(id, reason, time_wait);
        }
        events
    }

    /// The engine is done with a connection: tell it, unless something is left to send or to read.
    fn finish(&mut self, id: ConnId, reason: CloseReason, time_wait: bool) -> u32 {
        let slot = id.slot;
        let given_up = self.core.has_given_up();
        let Some(conn) = self.core.conns.get_mut(id) else { return 0 };
        if conn.ready.is_linked() && !given_up {
            self.core.news.push_back(&mut self.core.conns, slot);
            return 0;
        }
        let unread = conn.recv.readable() > 0 && !conn.discard;
        if !matches!(conn.phase, Phase::Drained(_)) {
            self.core.detach(slot, time_wait);
            if unread && reason == CloseReason::Finished {
                self.core.keep_unread(slot, reason);
                return 0;
            }
        }
        let told = !self.core.conns.get(id).is_some_and(|conn| conn.untold);
        if told {
            // Whatever it says to the connection comes too late, but it may look and read.
            self.app.on_event(&mut self.core, AppEvent::Closed { conn: id, reason });
        }
        self.core.remove_conn(slot);
        u32::from(told)
    }

    /// The device of the first port.
    pub fn device(&self) -> &D {
        &self.core.ports.any().device
    }

    /// The device of the first port, for whoever plays the wire.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.core.ports.any_mut().device
    }

    /// The device of a port; `None`: there is no such port.
    pub fn port_device(&self, port: PortId) -> Option<&D> {
        self.core.ports.get(port).map(|port| &port.device)
    }

    /// As [`Stack::port_device`], for whoever plays the wire.
    pub fn port_device_mut(&mut self, port: PortId) -> Option<&mut D> {
        self.core.ports.get_mut(port).map(|port| &mut port.device)
    }

    /// The application.
    pub fn app_mut(&mut self) -> &mut dyn App {
        &mut *self.app
    }

    /// What the application sees, for a script runner that takes the application's place between
    /// two turns. Time is that of the last turn; what it causes leaves in the next one.
    pub fn io(&mut self) -> &mut dyn Io {
        // Whatever it causes is to be found.
        self.core.quiet_until = None;
        &mut self.core
    }

    /// Something that the application does of its own accord between two turns, at `now`: a system call,
    /// say. What it causes leaves in the next turn, which is due at once. The application is found
    /// again as what it is by `(app as &mut dyn Any).downcast_mut()`.
    pub fn with_app<R>(
        &mut self,
        now: Instant,
        call: impl FnOnce(&mut dyn App, &mut dyn Io) -> R,
    ) -> R {
        self.core.env.now = self.core.env.now.max(now);
        self.core.quiet_until = None;
        call(&mut *self.app, &mut self.core)
    }

    /// Protocol counters.
    pub fn tcp_counters(&self) -> &TcpCounters {
        &self.core.env.tcp
    }

    /// All other counters.
    pub fn counters(&self) -> &StackCounters {
        &self.core.env.counters
    }

    /// Frames discarded, by [`DropReason`] as index.
    pub fn drops(&self) -> &[u64; DropReason::COUNT] {
        self.core.env.drops()
    }

    /// Generation of the parameters in force for new connections.
    pub fn generation(&self) -> u64 {
        self.core.env.params().generation
    }

    /// Connections (one that waits for its application included), handshakes and TIME-WAIT records.
    pub fn table(&self) -> [u32; 3] {
        self.core.table()
    }

    /// Nothing is stored for any connection, and no frame waits: all buffers are with the device.
    pub fn holds_no_buffers(&self) -> bool {
        self.core.holds_no_buffers()
    }
}

impl<D: Device> Core<D> {
    fn begin_turn(&mut self) {
        self.env.counters.worker_stalls += u64::from(self.stall.begin_turn(self.env.now));
        self.resets_left = RESETS_PER_TURN;
        if core::mem::take(&mut self.fresh) && self.config.worker == WorkerId(0) {
            self.announce();
        }
        if self.retry_at.is_some_and(|at| at <= self.env.now) {
            self.retry_at = None;
        }
        if self.env.wants_buffer_sample() {
            let buffers = self.ports.any().device.buffers();
            self.env.set_buffers(buffers);
            self.wake_starved();
        }
        if self.demux.is_rekeying() {
            let (conns, time_waits) = (&self.conns, &self.time_waits);
            self.demux.rekey_step(REKEY_PER_TURN, |entry, hasher| {
                let key = match entry.kind() {
                    crate::demux::Kind::TimeWait => time_waits.at(entry.index()).map(|w| w.key),
                    _ => conns.at(entry.index()).map(|c| c.key),
                };
                key.map_or(0, |key| hasher.hash(&key))
            });
        }
    }

    /// A turn in which nothing was to be done.
    fn quiet_turn(&mut self) -> Turn {
        self.env.counters.turns_idle += 1;
        let next_deadline = self.quiet_until.filter(|&at| at != Instant::FAR_FUTURE);
        Turn { work: 0, next_deadline, pending: false }
    }

    fn on_deadlines(&mut self) -> u32 {
        let now = self.env.now;
        let (mut look, mut fired) = (DEADLINES_PER_TURN, 0);
        while let Some(slot) = self.wheel.poll_expired(now, &mut look) {
            self.on_deadline(slot);
            fired += 1;
        }
        fired += self.expire_time_waits();
        fired + self.expire_fragments()
    }

    fn take_commands(&mut self, commands: &mut dyn Iterator<Item = Command>) -> u32 {
        let mut taken = 0;
        while taken < COMMANDS_PER_TURN
            && self.app_queue.len() < crate::inner::APP_QUEUE
            && let Some(command) = commands.next()
        {
            self.on_command(command);
            taken += 1;
        }
        taken
    }

    /// The next event that belongs to no connection.
    fn next_app_event(&mut self) -> Option<AppEvent> {
        self.app_queue.pop_front().or_else(|| {
            self.timers.pop_expired(self.env.now).map(|token| AppEvent::Timer { token })
        })
    }

    fn end_turn(
        &mut self,
        outgoing: &mut dyn FnMut(Outgoing) -> Result<(), Outgoing>,
        mut work: u32,
    ) -> Turn {
        self.file_timers();
        self.report_stop();
        work += self.outbox.drain(outgoing);
        // Without buffers, more turns at once would change nothing.
        let may_plan = self.retry_at.is_none();
        let mut ports = self.ports.iter();
        let busy = ports.any(|port| port.is_backed_up() || (may_plan && !port.ready.is_empty()));
        let pending = busy
            || (!self.news.is_empty() && may_plan)
            || !self.app_queue.is_empty()
            || self.wheel.is_due(self.env.now);
        if work > 0 {
            self.env.counters.turns_busy += 1;
        } else {
            self.env.counters.turns_idle += 1;
        }
        let next_deadline = self.next_deadline();
        self.stall.end_turn(if pending { Some(self.env.now) } else { next_deadline });
        // What waits for buffers, a new secret or the end looks for itself each time.
        let waits = pending
            || !self.starved.is_empty()
            || !self.outbox.is_empty()
            || self.demux.is_rekeying()
            || self.stopping != Stopping::No;
        self.quiet_until = (!waits).then_some(next_deadline.unwrap_or(Instant::FAR_FUTURE));
        Turn { work, next_deadline, pending }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let starved = (!self.starved.is_empty()).then(|| self.env.now + RETRY_AFTER);
        let mut next = Instant::FAR_FUTURE;
        let mut consider = |at: Option<Instant>| next = next.min(at.unwrap_or(Instant::FAR_FUTURE));
        consider(self.wheel.next_deadline());
        consider(self.timers.next());
        consider(self.time_waits.next());
        for port in self.ports.iter() {
            consider(port.neighbors.next_deadline());
        }
        consider(self.fragments_deadline());
        consider(self.retry_at);
        consider(starved);
        consider(self.stop_deadline());
        Some(next).filter(|&at| at != Instant::FAR_FUTURE)
    }
}
