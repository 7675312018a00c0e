//! The end that opens connections.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use base::{ConnId, Instant};
use stack::{App, AppEvent, Io, Local};
use tcp::CloseReason;

use super::agenda::Agenda;
use super::board::SharedBoard;
use super::{Kind, Spec, WRITE_BYTES};
use crate::pattern;

/// What a source may be called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// Open a flow.
    Open(u32),
    /// A flow has something to write, or a phase of it ends.
    Step(u32),
    /// All flows stop.
    Stop,
}

/// One flow as its source sees it.
#[derive(Debug, Default)]
struct State {
    conn: Option<ConnId>,
    established: bool,
    /// Bytes that TCP took.
    sent: u64,
    /// Bytes of writes that are due, with those sent; only for [`Kind::Writes`] and [`Kind::Rr`].
    wanted: u64,
    /// Bytes of responses read.
    returned: u64,
    /// When the present phase of [`Kind::OnOff`] ends, or the next of [`Kind::Writes`] is due.
    next_at: Instant,
    on: bool,
    /// When the present request was sent.
    asked_at: Instant,
    /// Nothing more will be written.
    done: bool,
}

/// The application.
pub struct Source {
    target: SocketAddr,
    spec: Spec,
    board: SharedBoard,
    /// Distinguishes the bytes of this source from those of others.
    seed: u64,
    flows: Vec<State>,
    /// Flows by the slot of their connection.
    by_slot: BTreeMap<u32, u32>,
    agenda: Agenda<Due>,
    begun: Instant,
    stopped: bool,
    scratch: Vec<u8>,
}

impl Source {
    /// A source that has not started. `seed` must be that of the sink.
    pub fn new(target: SocketAddr, spec: Spec, seed: u64, board: SharedBoard) -> Self {
        Self {
            target,
            spec,
            board,
            seed,
            flows: (0..spec.flows).map(|_| State::default()).collect(),
            by_slot: BTreeMap::new(),
            agenda: Agenda::new(),
            begun: Instant::ZERO,
            stopped: false,
            scratch: vec![0; WRITE_BYTES],
        }
    }

    fn start(&mut self, io: &mut dyn Io) {
        self.begun = io.now();
        if self.spec.flows > 0 {
            let at = self.begun + self.spec.start;
            self.agenda.note(io, at, Due::Open(0));
        }
        if let Some(stop) = self.spec.stop {
            self.agenda.note(io, self.begun + stop, Due::Stop);
        }
        self.run_due(io);
    }

    fn run_due(&mut self, io: &mut dyn Io) {
        let now = io.now();
        while let Some(due) = self.agenda.due(now) {
            match due {
                Due::Open(flow) => {
                    if flow + 1 < self.spec.flows {
                        let at = self.begun + self.spec.start_of(flow + 1);
                        self.agenda.note(io, at, Due::Open(flow + 1));
                    }
                    self.open(io, flow);
                }
                Due::Step(flow) => self.pump(io, flow),
                Due::Stop => {
                    self.stopped = true;
                    for flow in 0..self.spec.flows {
                        self.pump(io, flow);
                    }
                }
            }
        }
        self.agenda.arm(io);
    }

    fn open(&mut self, io: &mut dyn Io, flow: u32) {
        let now = io.now();
        let options = tcp::ConnOptions { rcvbuf: None, ..self.spec.options };
        // A flow that would begin after the end is over before it has begun.
        let opened =
            if self.stopped { None } else { Some(io.connect(self.target, Local::ANY, &options)) };
        let mut board = self.board.borrow_mut();
        match opened {
            None => board.update(flow, |f| f.completed_at = Some(now)),
            Some(Err(_)) => board.update(flow, |f| {
                f.opened_at = Some(now);
                f.failed = true;
            }),
            Some(Ok(conn)) => {
                let port = io.local_addr(conn).map(|a| a.port());
                board.update(flow, |f| {
                    f.opened_at = Some(now);
                    f.source = Some(conn);
                    f.port = port;
                });
                if let Some(state) = self.flows.get_mut(flow as usize) {
                    state.conn = Some(conn);
                    self.by_slot.insert(conn.slot, flow);
                }
            }
        }
    }

    fn flow_of(&self, conn: ConnId) -> Option<u32> {
        let flow = *self.by_slot.get(&conn.slot)?;
        (self.flows.get(flow as usize)?.conn == Some(conn)).then_some(flow)
    }

    fn established(&mut self, io: &mut dyn Io, flow: u32) {
        let now = io.now();
        self.board.borrow_mut().update(flow, |f| f.established_at = Some(now));
        let Some(state) = self.flows.get_mut(flow as usize) else { return };
        state.established = true;
        state.next_at = now;
        self.pump(io, flow);
    }

    /// Do what can be done now.
    fn pump(&mut self, io: &mut dyn Io, flow: u32) {
        let Some(state) = self.flows.get(flow as usize) else { return };
        let (Some(conn), true) = (state.conn, state.established) else { return };
        self.read(io, flow, conn);
        self.plan(io, flow);
        self.write(io, flow, conn);
        self.finish(io, flow, conn);
    }

    /// Take responses.
    fn read(&mut self, io: &mut dyn Io, flow: u32, conn: ConnId) {
        let Some(state) = self.flows.get_mut(flow as usize) else { return };
        let key = pattern::key(self.seed ^ u64::from(flow), false);
        let (mut at, mut wrong) = (state.returned, None);
        io.recv(conn, &mut |slice| {
            if wrong.is_none() {
                wrong = pattern::mismatch(key, at, slice).map(|i| at + i as u64);
            }
            at += slice.len() as u64;
            slice.len()
        });
        if at == state.returned {
            return;
        }
        let now = io.now();
        state.returned = at;
        let complete = match self.spec.kind {
            Kind::Rr { response, .. } => at / u64::from(response.max(1)),
            _ => 0,
        };
        let took = now.since(state.asked_at);
        self.board.borrow_mut().update(flow, |f| {
            f.returned = at;
            f.last_byte_at = Some(now);
            f.wrong_at = f.wrong_at.or(wrong);
            if complete > f.transactions {
                f.transactions = complete;
                f.transaction_sum += took;
                f.transaction_max = f.transaction_max.max(took);
            }
        });
    }

    /// Decide on what is to be written.
    fn plan(&mut self, io: &mut dyn Io, flow: u32) {
        let now = io.now();
        let stopped = self.stopped;
        let Some(state) = self.flows.get_mut(flow as usize) else { return };
        if state.done {
            return;
        }
        let mut call_at = None;
        match self.spec.kind {
            Kind::Bulk { bytes } => {
                state.wanted = bytes.unwrap_or(u64::MAX);
                state.done = stopped || state.sent >= state.wanted;
            }
            Kind::OnOff { on, off, bytes } => {
                while state.next_at <= now {
                    state.on = !state.on;
                    // A phase of no length would never end.
                    let phase = if state.on { on } else { off };
                    state.next_at += phase.max(Duration::from_nanos(1));
                    call_at = Some(state.next_at);
                }
                let most = bytes.unwrap_or(u64::MAX);
                state.wanted = if state.on { most } else { state.sent };
                state.done = stopped || state.sent >= most;
            }
            Kind::Writes { size, every, count } => {
                let size = u64::from(size.max(1));
                let most = count.map_or(u64::MAX, |n| n.saturating_mul(size));
                while state.next_at <= now && state.wanted < most && !stopped {
                    state.wanted = state.wanted.saturating_add(size).min(most);
                    state.next_at += every.max(Duration::from_nanos(1));
                    call_at = Some(state.next_at);
                }
                state.done = state.sent >= most || (stopped && state.sent >= state.wanted);
            }
            Kind::Rr { request, response, count } => {
                let (request, response) = (u64::from(request.max(1)), u64::from(response.max(1)));
                let asked = state.wanted / request;
                let answered = state.returned / response;
                let all = count.is_some_and(|n| answered >= n);
                if asked == answered {
                    if all || stopped {
                        state.done = true;
                    } else {
                        state.wanted = state.wanted.saturating_add(request);
                        state.asked_at = now;
                    }
                }
            }
            Kind::Idle => state.done = stopped,
        }
        if let (Some(at), false) = (call_at, state.done) {
            self.agenda.note(io, at, Due::Step(flow));
        }
    }

    fn write(&mut self, io: &mut dyn Io, flow: u32, conn: ConnId) {
        let Some(state) = self.flows.get_mut(flow as usize) else { return };
        let key = pattern::key(self.seed ^ u64::from(flow), true);
        let before = state.sent;
        while !state.done && state.sent < state.wanted {
            let left = usize::try_from(state.wanted - state.sent).unwrap_or(usize::MAX);
            // What would not be taken need not be made up; one byte asks to be told of room.
            let size = left.min(WRITE_BYTES).min(io.send_room(conn).max(1));
            let Some(data) = self.scratch.get_mut(..size) else { break };
            pattern::fill(key, state.sent, data);
            // An error means that the connection is going; its `Closed` follows.
            let Ok(taken) = io.send(conn, data, false) else { break };
            state.sent += taken as u64;
            if taken < size {
                break;
            }
        }
        if state.sent != before {
            let sent = state.sent;
            self.board.borrow_mut().update(flow, |f| f.sent = sent);
            // The last byte may have been the one.
            self.plan(io, flow);
        }
    }

    /// Close what has said all.
    fn finish(&mut self, io: &mut dyn Io, flow: u32, conn: ConnId) {
        let Some(state) = self.flows.get_mut(flow as usize) else { return };
        if !state.done || !state.established {
            return;
        }
        // Once is enough.
        state.established = false;
        match self.spec.kind {
            // These are complete when the sink has all, which it sees by the end.
            Kind::Bulk { .. } | Kind::OnOff { .. } | Kind::Writes { .. } => {}
            Kind::Rr { .. } | Kind::Idle => {
                let now = io.now();
                self.board.borrow_mut().update(flow, |f| f.completed_at = Some(now));
            }
        }
        io.shutdown(conn);
    }

    fn on_closed(&mut self, io: &mut dyn Io, conn: ConnId, reason: CloseReason) {
        let Some(flow) = self.flow_of(conn) else { return };
        self.read(io, flow, conn);
        let info = io.info(conn);
        if let Some(state) = self.flows.get_mut(flow as usize) {
            state.conn = None;
            state.established = false;
            self.by_slot.remove(&conn.slot);
        }
        self.board.borrow_mut().update(flow, |f| {
            f.source = None;
            f.source_closed = Some(reason);
            f.source_info = info;
            f.failed |= reason != CloseReason::Finished && f.completed_at.is_none();
        });
    }
}

impl App for Source {
    fn on_event(&mut self, io: &mut dyn Io, event: AppEvent) {
        match event {
            AppEvent::Start => self.start(io),
            AppEvent::Connected { conn } => {
                if let Some(flow) = self.flow_of(conn) {
                    self.established(io, flow);
                }
            }
            AppEvent::Readable { conn } | AppEvent::Writable { conn } => {
                if let Some(flow) = self.flow_of(conn) {
                    self.pump(io, flow);
                }
            }
            AppEvent::PeerClosed { conn } => {
                if let Some(flow) = self.flow_of(conn) {
                    self.pump(io, flow);
                    // The sink closes only when it has seen our end, or when it gives up.
                    io.close(conn);
                }
            }
            AppEvent::Closed { conn, reason } => self.on_closed(io, conn, reason),
            AppEvent::Timer { .. } => {
                self.agenda.rang();
                self.run_due(io);
            }
            AppEvent::Accepted { conn, .. } => io.abort(conn),
            AppEvent::Message { .. } | AppEvent::Stop => {}
        }
    }
}
