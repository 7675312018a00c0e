//! A connection for each request.

use core::time::Duration;

use base::{ConnId, Instant};
use stack::{ConnectError, Io};
use tcp::{CloseReason, ConnOptions};

use super::{Messages, Target};
use crate::rr::meter::Meter;
use crate::rr::report::{Close, Failure};

/// How long a place rests after a failure, so that a server that refuses is not flooded.
const REST: Duration = Duration::from_millis(1);

/// The places in which connections come and go. Nothing is allocated once they are there, and each
/// event takes a fixed number of steps.
pub(super) struct Churn {
    messages: Messages,
    close: Close,
    places: Vec<Place>,
    /// Places without a connection.
    resting: Vec<u32>,
    retry_at: Option<Instant>,
    pub(super) running: bool,
    pub(super) completed: u64,
}

#[derive(Clone, Copy)]
struct Place {
    conn: Option<ConnId>,
    state: State,
    started: Instant,
    /// Bytes of the response that have come.
    got: u32,
    /// Bytes of the request that TCP has not taken.
    unsent: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Connecting,
    Waiting,
    /// Answered in full: what follows is the end.
    Answered,
    /// Failed and counted.
    Failed,
}

impl Churn {
    pub(super) fn new(messages: Messages, concurrency: u32, close: Close) -> Self {
        let place =
            Place { conn: None, state: State::Failed, started: Instant::ZERO, got: 0, unsent: 0 };
        Self {
            messages,
            close,
            places: vec![place; concurrency as usize],
            resting: (0..concurrency).rev().collect(),
            retry_at: None,
            running: false,
            completed: 0,
        }
    }

    /// Fill the places that rest. Stops at the first failure, and tries again a little later.
    pub(super) fn fill(
        &mut self,
        io: &mut dyn Io,
        target: &mut Target,
        meter: &mut Meter,
        mut opened: impl FnMut(ConnId, u32),
    ) {
        self.retry_at = None;
        while self.running
            && let Some(index) = self.resting.pop()
        {
            match self.start(io, target, index) {
                Ok(conn) => opened(conn, index),
                Err(error) => {
                    meter.fail(Failure::of_connect(error));
                    self.rest(io.now(), index);
                    return;
                }
            }
        }
    }

    /// When to call [`Churn::fill`] next.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.retry_at.filter(|_| self.running)
    }

    fn rest(&mut self, now: Instant, index: u32) {
        self.resting.push(index);
        self.retry_at.get_or_insert(now + REST);
    }

    fn start(
        &mut self,
        io: &mut dyn Io,
        target: &mut Target,
        index: u32,
    ) -> Result<ConnId, ConnectError> {
        let options = ConnOptions { nodelay: true, ..ConnOptions::default() };
        let (remote, local) = target.next();
        let conn = io.connect(remote, local, &options)?;
        if let Some(place) = self.places.get_mut(index as usize) {
            *place = Place {
                conn: Some(conn),
                state: State::Connecting,
                started: io.now(),
                got: 0,
                unsent: self.messages.request.len() as u64,
            };
        }
        Ok(conn)
    }

    pub(super) fn on_connected(&mut self, io: &mut dyn Io, index: u32, meter: &mut Meter) {
        let Some(place) = self.places.get_mut(index as usize) else { return };
        if self.running
            && let Some(setup) = &mut meter.setup
        {
            setup.record(io.now().since(place.started));
        }
        place.state = State::Waiting;
        self.push(io, index);
    }

    pub(super) fn push(&mut self, io: &mut dyn Io, index: u32) {
        let Some(place) = self.places.get_mut(index as usize) else { return };
        if let Some(conn) = place.conn
            && place.state == State::Waiting
        {
            self.messages.push(io, conn, &mut place.unsent);
        }
    }

    pub(super) fn on_readable(&mut self, io: &mut dyn Io, index: u32, meter: &mut Meter) {
        let Some(place) = self.places.get_mut(index as usize) else { return };
        let Some(conn) = place.conn else { return };
        let mut bytes = 0u64;
        io.recv(conn, &mut |slice| {
            bytes += slice.len() as u64;
            slice.len()
        });
        let got = u64::from(place.got) + bytes;
        place.got = u32::try_from(got).unwrap_or(u32::MAX);
        if place.state == State::Failed || bytes == 0 {
            return;
        }
        if place.state == State::Answered || place.got > self.messages.response {
            return self.fail(io, index, Failure::Surplus, meter);
        }
        if place.got < self.messages.response {
            return;
        }
        place.state = State::Answered;
        match self.close {
            Close::Rst => io.abort(conn),
            Close::FinClient => io.close(conn),
            Close::FinServer => {}
        }
    }

    pub(super) fn on_peer_closed(&mut self, io: &mut dyn Io, index: u32, meter: &mut Meter) {
        let Some(place) = self.places.get(index as usize) else { return };
        match (place.state, place.conn) {
            (State::Answered, Some(conn)) => io.close(conn),
            (State::Failed, _) | (_, None) => {}
            _ => self.fail(io, index, Failure::ClosedEarly, meter),
        }
    }

    fn fail(&mut self, io: &mut dyn Io, index: u32, failure: Failure, meter: &mut Meter) {
        let Some(place) = self.places.get_mut(index as usize) else { return };
        place.state = State::Failed;
        if self.running {
            meter.fail(failure);
        }
        if let Some(conn) = place.conn {
            io.abort(conn);
        }
    }

    /// A connection is gone. Returns why, if that is a failure that was not counted before.
    pub(super) fn on_closed(
        &mut self,
        io: &mut dyn Io,
        index: u32,
        reason: CloseReason,
        meter: &mut Meter,
        quota: &mut u64,
    ) -> Option<Failure> {
        let now = io.now();
        let place = self.places.get_mut(index as usize)?;
        place.conn = None;
        let (state, started) = (place.state, place.started);
        let in_order = match self.close {
            Close::Rst => reason == CloseReason::Aborted,
            Close::FinClient | Close::FinServer => reason == CloseReason::Finished,
        };
        if state == State::Answered && in_order {
            if self.running {
                meter.latency.record(now.since(started));
                self.completed = self.completed.saturating_add(1);
                *quota = quota.saturating_sub(1);
                self.running = *quota > 0;
            }
            self.resting.push(index);
            return None;
        }
        self.rest(now, index);
        if state == State::Failed || !self.running {
            return None;
        }
        let failure = Failure::of_close(reason);
        meter.fail(failure);
        Some(failure)
    }

    /// Give up connections that are as old as `limit`.
    pub(super) fn sweep(&mut self, io: &mut dyn Io, limit: Duration, meter: &mut Meter) {
        let now = io.now();
        for index in 0..self.places.len() {
            let stuck = self.places.get(index).is_some_and(|p| {
                p.conn.is_some() && p.state != State::Failed && now.since(p.started) >= limit
            });
            if stuck {
                self.fail(io, index as u32, Failure::NoAnswer, meter);
            }
        }
    }
}
