//! Requests and responses on connections that stay.

use core::time::Duration;
use std::collections::VecDeque;

use base::{ConnId, Instant};
use stack::{ConnectError, Io};
use tcp::ConnOptions;

use super::{Messages, OPENING_AT_ONCE, Target};
use crate::rr::hist::Latencies;
use crate::rr::report::Failure;

/// All connections, whether they are open yet or not.
pub(super) struct Ping {
    messages: Messages,
    outstanding: u32,
    schedule: Option<Schedule>,
    links: Vec<Link>,
    /// When the requests under way were sent, or were due: a ring for each connection.
    stamps: Vec<Instant>,
    /// With a schedule: connections that could take a request, once for each that they could.
    free: VecDeque<u32>,
    opening: u32,
    opened: u32,
    alive: u32,
    pub(super) running: bool,
    pub(super) completed: u64,
}

/// When requests are due, whatever becomes of those before.
struct Schedule {
    rate: u64,
    began: Instant,
    issued: u64,
}

impl Schedule {
    /// When the next request is due.
    fn next(&self) -> Instant {
        let nanos = u128::from(self.issued) * 1_000_000_000 / u128::from(self.rate.max(1));
        self.began + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn take(&mut self, now: Instant) -> Option<Instant> {
        let due = self.next();
        (due <= now).then(|| {
            self.issued = self.issued.saturating_add(1);
            due
        })
    }
}

#[derive(Clone, Copy)]
struct Link {
    conn: Option<ConnId>,
    /// The oldest stamp, as a place in the ring.
    oldest: u32,
    under_way: u32,
    /// Bytes of the response that is coming.
    got: u32,
    /// Bytes of requests that TCP has not taken.
    unsent: u64,
}

impl Ping {
    pub(super) fn new(
        messages: Messages,
        connections: u32,
        outstanding: u32,
        rate: Option<u64>,
    ) -> Self {
        let link = Link { conn: None, oldest: 0, under_way: 0, got: 0, unsent: 0 };
        let stamps = connections as usize * outstanding as usize;
        Self {
            messages,
            outstanding,
            schedule: rate.map(|rate| Schedule { rate, began: Instant::ZERO, issued: 0 }),
            links: vec![link; connections as usize],
            stamps: vec![Instant::ZERO; stamps],
            free: VecDeque::with_capacity(if rate.is_some() { stamps } else { 0 }),
            opening: 0,
            opened: 0,
            alive: 0,
            running: false,
            completed: 0,
        }
    }

    /// Open further connections; `opened` is told about each.
    pub(super) fn open(
        &mut self,
        io: &mut dyn Io,
        target: &mut Target,
        mut opened: impl FnMut(ConnId, u32),
    ) -> Result<(), ConnectError> {
        while self.opening < OPENING_AT_ONCE && (self.opened + self.opening) < self.count() {
            let options = ConnOptions { nodelay: true, ..ConnOptions::default() };
            let (remote, local) = target.next();
            let conn = io.connect(remote, local, &options)?;
            let index = self.opened + self.opening;
            self.opening += 1;
            opened(conn, index);
            if let Some(link) = self.links.get_mut(index as usize) {
                link.conn = Some(conn);
            }
        }
        Ok(())
    }

    fn count(&self) -> u32 {
        self.links.len() as u32
    }

    /// One more is established; whether all are.
    pub(super) fn on_connected(&mut self) -> bool {
        self.opening = self.opening.saturating_sub(1);
        self.opened += 1;
        self.alive += 1;
        self.opened == self.count()
    }

    /// Send the first requests.
    pub(super) fn begin(&mut self, io: &mut dyn Io) {
        self.running = true;
        let now = io.now();
        if let Some(schedule) = &mut self.schedule {
            schedule.began = now;
            for _ in 0..self.outstanding {
                self.free.extend(0..self.links.len() as u32);
            }
            return self.send_due(io);
        }
        for index in 0..self.count() {
            for _ in 0..self.outstanding {
                self.issue(index, now);
            }
            self.push(io, index);
        }
    }

    /// With a schedule: send what is due.
    pub(super) fn send_due(&mut self, io: &mut dyn Io) {
        let now = io.now();
        while self.running
            && let Some(&index) = self.free.front()
            && let Some(due) = self.schedule.as_mut().and_then(|s| s.take(now))
        {
            self.free.pop_front();
            self.issue(index, due);
            self.push(io, index);
        }
    }

    /// With a schedule: when to call [`Ping::send_due`] next.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let schedule = self.schedule.as_ref().filter(|_| self.running && !self.free.is_empty());
        schedule.map(Schedule::next)
    }

    fn issue(&mut self, index: u32, stamp: Instant) {
        let Some(link) = self.links.get_mut(index as usize) else { return };
        let place = (link.oldest + link.under_way) % self.outstanding.max(1);
        let place = index as usize * self.outstanding as usize + place as usize;
        if let Some(slot) = self.stamps.get_mut(place) {
            *slot = stamp;
            link.under_way += 1;
            link.unsent += self.messages.request.len() as u64;
        }
    }

    /// Give TCP what it has not taken yet.
    pub(super) fn push(&mut self, io: &mut dyn Io, index: u32) {
        let Some(link) = self.links.get_mut(index as usize) else { return };
        if let Some(conn) = link.conn {
            self.messages.push(io, conn, &mut link.unsent);
        }
    }

    /// Take in responses and send the next requests. Each that is complete is recorded and counted
    /// off `quota`.
    pub(super) fn on_readable(
        &mut self,
        io: &mut dyn Io,
        index: u32,
        times: &mut Latencies,
        quota: &mut u64,
    ) -> Result<(), Failure> {
        let now = io.now();
        let Some(link) = self.links.get_mut(index as usize) else { return Ok(()) };
        let Some(conn) = link.conn else { return Ok(()) };
        let mut bytes = 0u64;
        io.recv(conn, &mut |slice| {
            bytes += slice.len() as u64;
            slice.len()
        });
        let response = u64::from(self.messages.response);
        let mut got = u64::from(link.got) + bytes;
        // What is sent from here on cannot have been answered by these bytes.
        let mut answerable = link.under_way;
        while got >= response {
            let Some(link) = self.links.get_mut(index as usize) else { return Ok(()) };
            if answerable == 0 {
                return Err(Failure::Surplus);
            }
            answerable -= 1;
            let place = index as usize * self.outstanding as usize + link.oldest as usize;
            link.oldest = (link.oldest + 1) % self.outstanding.max(1);
            link.under_way -= 1;
            got -= response;
            if !self.running {
                continue;
            }
            self.completed = self.completed.saturating_add(1);
            if let Some(stamp) = self.stamps.get(place) {
                times.record(now.since(*stamp));
            }
            *quota = quota.saturating_sub(1);
            if *quota == 0 {
                self.running = false;
            } else if let Some(schedule) = &mut self.schedule {
                match schedule.take(now) {
                    Some(due) => self.issue(index, due),
                    None => self.free.push_back(index),
                }
            } else {
                self.issue(index, now);
            }
        }
        if got > 0 && answerable == 0 {
            return Err(Failure::Surplus);
        }
        if let Some(link) = self.links.get_mut(index as usize) {
            link.got = got as u32;
        }
        self.push(io, index);
        Ok(())
    }

    /// A connection is gone; whether any is left.
    pub(super) fn on_closed(&mut self, index: u32) -> bool {
        if let Some(link) = self.links.get_mut(index as usize)
            && link.conn.take().is_some()
        {
            self.alive = self.alive.saturating_sub(1);
            // Rare enough for a walk.
            self.free.retain(|free| *free != index);
        }
        self.alive > 0
    }

    /// Requests are under way.
    pub(super) fn waits(&self) -> bool {
        self.links.iter().any(|l| l.conn.is_some() && l.under_way > 0)
    }
}
