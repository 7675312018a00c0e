//! The end that accepts connections, reads them at its own speed and checks every byte.

use core::time::Duration;
use std::collections::BTreeMap;

use base::{ConnId, Instant, Rate};
use stack::{App, AppEvent, Io};
use tcp::CloseReason;

use super::agenda::Agenda;
use super::board::SharedBoard;
use super::{Kind, Reader, Spec, WRITE_BYTES};
use crate::pattern;

/// A slow reader reads about so often.
const READ_EVERY: Duration = Duration::from_millis(1);
/// Bytes that a slow reader takes at a time: least and most.
const READ_BYTES: [u64; 2] = [256, 64 * 1024];

/// One flow as its sink sees it.
#[derive(Debug)]
struct State {
    flow: u32,
    received: u64,
    answered: u64,
    /// A slow reader may read again at this time.
    next_read: Instant,
    /// It has asked to be called then.
    waits: bool,
    end: bool,
}

/// The application.
pub struct Sink {
    port: u16,
    spec: Spec,
    board: SharedBoard,
    seed: u64,
    /// By slot of the connection.
    flows: BTreeMap<u32, (ConnId, State)>,
    agenda: Agenda<ConnId>,
    begun: Instant,
    scratch: Vec<u8>,
}

impl Sink {
    /// A sink that has not started and will listen on `port`. `seed` must be that of the source.
    pub fn new(port: u16, spec: Spec, seed: u64, board: SharedBoard) -> Self {
        Self {
            port,
            spec,
            board,
            seed,
            flows: BTreeMap::new(),
            agenda: Agenda::new(),
            begun: Instant::ZERO,
            scratch: vec![0; WRITE_BYTES],
        }
    }

    fn start(&mut self, io: &mut dyn Io) {
        self.begun = io.now();
        let options = tcp::ConnOptions { sndbuf: None, ..self.spec.options };
        if io.listen(None, self.port, self.spec.flows.max(1), &options).is_err() {
            // Nobody will ever be accepted here.
            let mut board = self.board.borrow_mut();
            (0..self.spec.flows).for_each(|flow| board.update(flow, |f| f.failed = true));
        }
    }

    fn accept(&mut self, io: &mut dyn Io, conn: ConnId) {
        let port = io.remote_addr(conn).map(|a| a.port());
        let flow = self.board.borrow().flows.iter().position(|f| f.port == port && port.is_some());
        let Some(flow) = flow.map(|i| i as u32) else {
            io.abort(conn);
            return;
        };
        self.board.borrow_mut().update(flow, |f| f.sink = Some(conn));
        let state =
            State { flow, received: 0, answered: 0, next_read: io.now(), waits: false, end: false };
        self.flows.insert(conn.slot, (conn, state));
        self.pump(io, conn);
    }

    fn pump(&mut self, io: &mut dyn Io, conn: ConnId) {
        let Some((owner, mut state)) = self.flows.remove(&conn.slot) else { return };
        if owner == conn {
            self.read(io, conn, &mut state);
            self.answer(io, conn, &mut state);
        }
        self.flows.insert(conn.slot, (owner, state));
    }

    /// Bytes that may be read now, and when more may be.
    fn allowance(&self, now: Instant, state: &State) -> (u64, Option<Instant>) {
        match self.spec.reader {
            Reader::Eager => (u64::MAX, None),
            Reader::Pause { at, time } => {
                let (from, until) = (self.begun + at, self.begun + at + time);
                if now >= from && now < until { (0, Some(until)) } else { (u64::MAX, None) }
            }
            Reader::Rate(_) if now < state.next_read => (0, Some(state.next_read)),
            Reader::Rate(rate) => (block(rate), None),
        }
    }

    fn read(&mut self, io: &mut dyn Io, conn: ConnId, state: &mut State) {
        let key = pattern::key(self.seed ^ u64::from(state.flow), true);
        while !state.end {
            let now = io.now();
            let (mut room, again) = self.allowance(now, state);
            if room == 0 {
                if let (Some(at), false) = (again, state.waits) {
                    state.waits = true;
                    self.agenda.note(io, at, conn);
                }
                return;
            }
            let (mut at, mut wrong) = (state.received, None);
            let got = io.recv(conn, &mut |slice| {
                let most = usize::try_from(room).unwrap_or(usize::MAX);
                let slice = slice.get(..most.min(slice.len())).unwrap_or_default();
                if wrong.is_none() {
                    wrong = pattern::mismatch(key, at, slice).map(|i| at + i as u64);
                }
                at += slice.len() as u64;
                room -= slice.len() as u64;
                slice.len()
            });
            let Some(got) = got else { return };
            let taken = at - state.received;
            state.received = at;
            state.end = got.end;
            if let Reader::Rate(rate) = self.spec.reader {
                state.next_read = now + rate.time_for(taken);
            }
            self.write_down(now, state, taken, wrong);
            if state.end {
                io.shutdown(conn);
            }
            if taken == 0 {
                return;
            }
        }
    }

    fn write_down(&self, now: Instant, state: &State, taken: u64, wrong: Option<u64>) {
        let complete = state.end && !matches!(self.spec.kind, Kind::Rr { .. } | Kind::Idle);
        self.board.borrow_mut().update(state.flow, |f| {
            f.received = state.received;
            f.wrong_at = f.wrong_at.or(wrong);
            if taken > 0 {
                f.last_byte_at = Some(now);
            }
            // An end before its time is a byte that is missing.
            if complete && state.received != f.sent {
                f.wrong_at = f.wrong_at.or(Some(state.received));
            }
            if complete && f.completed_at.is_none() {
                f.completed_at = f.last_byte_at.or(Some(now));
            }
        });
    }

    /// Send the responses that are due.
    fn answer(&mut self, io: &mut dyn Io, conn: ConnId, state: &mut State) {
        let Kind::Rr { request, response, .. } = self.spec.kind else { return };
        let asked = state.received / u64::from(request.max(1));
        let wanted = asked.saturating_mul(u64::from(response.max(1)));
        let key = pattern::key(self.seed ^ u64::from(state.flow), false);
        while state.answered < wanted && !state.end {
            let left = usize::try_from(wanted - state.answered).unwrap_or(usize::MAX);
            let size = left.min(WRITE_BYTES).min(io.send_room(conn).max(1));
            let Some(data) = self.scratch.get_mut(..size) else { break };
            pattern::fill(key, state.answered, data);
            let Ok(taken) = io.send(conn, data, false) else { break };
            state.answered += taken as u64;
            if taken < size {
                break;
            }
        }
        let answered = state.answered;
        self.board.borrow_mut().update(state.flow, |f| f.answered = answered);
    }

    fn on_closed(&mut self, io: &mut dyn Io, conn: ConnId, reason: CloseReason) {
        // In order it ends only after this end has read all and closed, so nothing is left unread.
        let Some((owner, state)) = self.flows.remove(&conn.slot) else { return };
        if owner != conn {
            self.flows.insert(conn.slot, (owner, state));
            return;
        }
        let info = io.info(conn);
        self.board.borrow_mut().update(state.flow, |f| {
            f.sink = None;
            f.sink_closed = Some(reason);
            f.sink_info = info;
            f.failed |= reason != CloseReason::Finished && f.completed_at.is_none();
        });
    }
}

/// Bytes that a reader of this rate takes at a time.
fn block(rate: Rate) -> u64 {
    let bytes = u128::from(rate.bytes_per_sec()) * READ_EVERY.as_nanos() / 1_000_000_000;
    let [least, most] = READ_BYTES;
    u64::try_from(bytes).unwrap_or(u64::MAX).clamp(least, most)
}

impl App for Sink {
    fn on_event(&mut self, io: &mut dyn Io, event: AppEvent) {
        match event {
            AppEvent::Start => self.start(io),
            AppEvent::Accepted { conn, .. } => self.accept(io, conn),
            AppEvent::Readable { conn }
            | AppEvent::Writable { conn }
            | AppEvent::PeerClosed { conn } => self.pump(io, conn),
            AppEvent::Closed { conn, reason } => self.on_closed(io, conn, reason),
            AppEvent::Timer { .. } => {
                self.agenda.rang();
                let now = io.now();
                while let Some(conn) = self.agenda.due(now) {
                    if let Some((owner, state)) = self.flows.get_mut(&conn.slot)
                        && *owner == conn
                    {
                        state.waits = false;
                        self.pump(io, conn);
                    }
                }
                self.agenda.arm(io);
            }
            AppEvent::Connected { .. } | AppEvent::Message { .. } | AppEvent::Stop => {}
        }
    }
}
