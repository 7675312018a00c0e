//! The side that asks and measures.

mod churn;
mod hold;
mod ping;

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::VecDeque;

use base::{ConnId, Instant};
use stack::{App, AppEvent, Io, Local, LocalAddress, Message};
use tcp::CloseReason;

use super::header::{HEADER_BYTES, Header, MESSAGE_BYTES_MAX};
use super::meter::Meter;
use super::report::{Close, End, Failure, Mode, Report, Setup};
use super::table::Table;
use super::{CONNECTIONS_MAX, OUTSTANDING_MAX};
use crate::alarm::Alarm;
use churn::Churn;
use hold::Hold;
use ping::Ping;

/// Handshakes under way at once while connections that stay are opened.
const OPENING_AT_ONCE: u32 = 256;
/// Connections reset per turn at the end.
const RESET_AT_ONCE: u32 = 4096;
/// How long the end may take before the stack is left to finish it.
const GOODBYE: Duration = Duration::from_millis(500);
/// Pause before a report that was not taken is offered again.
const RETRY: Duration = Duration::from_millis(1);
/// Looks for what is stuck, per time limit.
const CHECKS_PER_LIMIT: u32 = 8;

/// What to run.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The test.
    pub setup: Setup,
    /// Time between reports; `None`: one at the end.
    pub interval: Option<Duration>,
    /// How long a connection may take, or may leave requests unanswered.
    pub timeout: Duration,
}

impl ClientConfig {
    /// One connection with one request of 64 bytes under way, answered by 64, for ten seconds.
    pub fn new(remote: IpAddr) -> Self {
        Self {
            setup: Setup {
                remote,
                ports: vec![super::DEFAULT_PORT],
                locals: Vec::new(),
                request: 64,
                response: 64,
                mode: Mode::Ping { connections: 1, outstanding: 1, rate: None },
                idle: 0,
                time: Duration::from_secs(10),
                count: None,
                omit: Duration::ZERO,
            },
            interval: Some(Duration::from_secs(1)),
            timeout: Duration::from_secs(10),
        }
    }

    /// What cannot be run, in words.
    ///
    /// # Errors
    /// A sentence about the first contradiction.
    pub fn check(&self) -> Result<(), String> {
        let Setup { ports, request, response, mode, idle, count, .. } = &self.setup;
        let sizes = 1..=MESSAGE_BYTES_MAX;
        let among = |n: u32, max: u32| (1..=max).contains(&n);
        if ports.is_empty() || ports.contains(&0) {
            return Err("a port is in 1..65535".to_owned());
        }
        if !sizes.contains(request) || !sizes.contains(response) {
            return Err(format!("a size is in 1..{MESSAGE_BYTES_MAX} bytes"));
        }
        if *idle > CONNECTIONS_MAX {
            return Err(format!("at most {CONNECTIONS_MAX} idle connections"));
        }
        if *count == Some(0) {
            return Err("a number of transactions is at least 1".to_owned());
        }
        match *mode {
            Mode::Ping { connections, outstanding, rate } => {
                let all = connections.saturating_mul(outstanding);
                if !among(connections, CONNECTIONS_MAX)
                    || !among(outstanding, OUTSTANDING_MAX)
                    || all > CONNECTIONS_MAX
                {
                    return Err(format!(
                        "at most {CONNECTIONS_MAX} requests under way in all, and {OUTSTANDING_MAX} \
                         on a connection; at least one"
                    ));
                }
                if rate == Some(0) {
                    return Err("a rate is at least one per second".to_owned());
                }
            }
            Mode::Connect { concurrency, close } => {
                if !among(concurrency, CONNECTIONS_MAX) {
                    return Err(format!("between 1 and {CONNECTIONS_MAX} connections at once"));
                }
                if close == Close::FinServer && (*request as usize) < HEADER_BYTES {
                    return Err(format!(
                        "a server can be asked to close first in a request of at least \
                         {HEADER_BYTES} bytes"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// What is sent and expected on a connection.
#[derive(Clone)]
struct Messages {
    request: Vec<u8>,
    response: u32,
}

impl Messages {
    fn new(setup: &Setup) -> Self {
        let mut request = vec![b'.'; setup.request as usize];
        let header = Header {
            request: setup.request,
            response: setup.response,
            server_closes: matches!(setup.mode, Mode::Connect { close: Close::FinServer, .. }),
        };
        if let Some(front) = request.first_chunk_mut::<HEADER_BYTES>() {
            *front = header.encode();
        }
        Self { request, response: setup.response }
    }

    /// Send what is left of the requests begun on `conn`.
    fn push(&self, io: &mut dyn Io, conn: ConnId, unsent: &mut u64) {
        let size = self.request.len() as u64;
        while *unsent > 0 {
            let begun = unsent.checked_rem(size).unwrap_or(0);
            let from = if begun == 0 { 0 } else { size - begun };
            let rest = self.request.get(from as usize..).unwrap_or_default();
            let more = *unsent > rest.len() as u64;
            // An error means that the connection is going; its `Closed` follows.
            let Ok(sent) = io.send(conn, rest, more) else { return };
            *unsent = unsent.saturating_sub(sent as u64);
            if sent < rest.len() {
                return;
            }
        }
    }
}

/// Those of `addresses` from which connections to `remote` can be spread: in its network, or all of
/// its family if it is in none of ours. None if one is as good as none, and for link-local peers, whose
/// link decides.
pub fn sources(addresses: &[LocalAddress], remote: IpAddr) -> Vec<IpAddr> {
    let link_local = |addr: IpAddr| match addr {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    if link_local(remote) {
        return Vec::new();
    }
    let fitting = |all: bool| -> Vec<IpAddr> {
        let fits = |l: &&LocalAddress| {
            let family = l.addr.is_ipv4() == remote.is_ipv4();
            family && !link_local(l.addr) && (all || l.contains(remote))
        };
        addresses.iter().filter(fits).map(|l| l.addr).collect()
    };
    let near = fitting(false);
    let found = if near.is_empty() { fitting(true) } else { near };
    if found.len() < 2 { Vec::new() } else { found }
}

/// Where connections go and where they begin: one port of the server after the other, and after a round
/// of them the next address of ours, so that each pair has its turn.
struct Target {
    remote: IpAddr,
    ports: Vec<u16>,
    locals: Vec<IpAddr>,
    next_port: usize,
    next_local: usize,
}

impl Target {
    fn new(setup: &Setup) -> Self {
        Self {
            remote: setup.remote,
            ports: setup.ports.clone(),
            locals: setup.locals.clone(),
            next_port: 0,
            next_local: 0,
        }
    }

    fn next(&mut self) -> (SocketAddr, Local) {
        let port = self.ports.get(self.next_port).copied().unwrap_or_default();
        let local = self.locals.get(self.next_local).copied();
        self.next_port += 1;
        if self.next_port >= self.ports.len() {
            self.next_port = 0;
            self.next_local = (self.next_local + 1) % self.locals.len().max(1);
        }
        (SocketAddr::new(self.remote, port), Local { addr: local, port: None })
    }
}

/// What a connection is for.
#[derive(Clone, Copy)]
enum Role {
    /// Stands idle; `true` once established.
    Held(bool),
    /// Works, under this index.
    Works(u32),
}

enum Work {
    Ping(Ping),
    Churn(Churn),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Idle connections are being opened.
    Holding,
    /// Connections for requests are being opened.
    Opening,
    /// Measuring, which begins with what is omitted.
    Running { omitting: bool },
    /// All is measured; connections are being ended.
    Leaving,
    /// Nothing is left to do.
    Over,
}

/// The application.
pub struct Client {
    config: ClientConfig,
    phase: Phase,
    target: Target,
    roles: Table<Role>,
    /// Connections that are not closed.
    live: u64,
    hold: Hold,
    work: Work,
    meter: Meter,
    /// Transactions until the end.
    quota: u64,
    /// Transactions that counted.
    measured: u64,
    failed: bool,
    /// The end of what is omitted, of the measurement, or of the goodbye.
    until: Instant,
    next_cut: Instant,
    next_check: Instant,
    /// Transactions at the last check that found more, and when that was.
    progress: (u64, Instant),
    outbox: VecDeque<Report>,
    alarm: Alarm,
    exit: Option<u8>,
    /// The first slot whose connection is still to be ended; `None` once all are.
    leave_from: Option<u32>,
}

impl Client {
    /// Bytes that an idle connection takes in this application.
    pub const IDLE_CONNECTION_BYTES: usize = Table::<Role>::ENTRY_BYTES;

    /// An application that has not started. `config` has passed [`ClientConfig::check`].
    pub fn new(config: ClientConfig) -> Self {
        let setup = &config.setup;
        let messages = Messages::new(setup);
        let (work, with_setup) = match setup.mode {
            Mode::Ping { connections, outstanding, rate } => {
                (Work::Ping(Ping::new(messages, connections, outstanding, rate)), false)
            }
            Mode::Connect { concurrency, close } => {
                (Work::Churn(Churn::new(messages, concurrency, close)), true)
            }
        };
        Self {
            phase: Phase::Holding,
            target: Target::new(setup),
            roles: Table::new(),
            live: 0,
            hold: Hold::new(setup.idle),
            work,
            meter: Meter::new(Instant::ZERO, with_setup),
            quota: u64::MAX,
            measured: 0,
            failed: false,
            until: Instant::FAR_FUTURE,
            next_cut: Instant::FAR_FUTURE,
            next_check: Instant::FAR_FUTURE,
            progress: (0, Instant::ZERO),
            outbox: VecDeque::new(),
            alarm: Alarm::default(),
            exit: None,
            leave_from: Some(0),
            config,
        }
    }

    fn start(&mut self, io: &mut dyn Io) {
        let now = io.now();
        self.publish(io, Report::Begin(Box::new(self.config.setup.clone())));
        self.meter.restart(now);
        self.progress = (0, now);
        self.next_check = now + self.config.timeout / CHECKS_PER_LIMIT;
        if self.config.setup.idle == 0 {
            return self.begin_work(io);
        }
        self.hold.begin(now);
        if let Some(interval) = self.config.interval {
            self.next_cut = now + interval;
        }
        self.open_idle(io);
    }

    fn open_idle(&mut self, io: &mut dyn Io) {
        let Self { hold, target, roles, live, .. } = self;
        let opened = hold.open(io, target, |conn| {
            roles.insert(conn, Role::Held(false));
            *live += 1;
        });
        if let Err(error) = opened {
            self.give_up(io, Failure::of_connect(error));
        }
    }

    fn begin_work(&mut self, io: &mut dyn Io) {
        if self.config.setup.time.is_zero() && self.config.setup.count.is_none() {
            return self.finish(io, End::Complete);
        }
        self.phase = Phase::Opening;
        match &self.work {
            Work::Ping(_) => self.open_working(io),
            Work::Churn(_) => self.begin_measuring(io),
        }
    }

    fn open_working(&mut self, io: &mut dyn Io) {
        let Self { work: Work::Ping(ping), target, roles, live, .. } = self else { return };
        let opened = ping.open(io, target, |conn, index| {
            roles.insert(conn, Role::Works(index));
            *live += 1;
        });
        if let Err(error) = opened {
            self.give_up(io, Failure::of_connect(error));
        }
    }

    fn begin_measuring(&mut self, io: &mut dyn Io) {
        let now = io.now();
        let Setup { omit, .. } = self.config.setup;
        self.meter.restart(now);
        self.progress = (self.completed(), now);
        let omitting = !omit.is_zero();
        self.phase = Phase::Running { omitting };
        if omitting {
            self.until = now + omit;
        } else {
            self.count_from(now);
        }
        if let Some(interval) = self.config.interval {
            self.next_cut = now + interval;
        }
        match &mut self.work {
            Work::Ping(ping) => ping.begin(io),
            Work::Churn(churn) => {
                churn.running = true;
                self.fill(io);
            }
        }
    }

    /// From here on it counts.
    fn count_from(&mut self, now: Instant) {
        let Setup { time, count, .. } = self.config.setup;
        self.quota = count.unwrap_or(u64::MAX);
        self.until = if count.is_some() { Instant::FAR_FUTURE } else { now + time };
    }

    fn fill(&mut self, io: &mut dyn Io) {
        let Self { work: Work::Churn(churn), target, roles, live, meter, .. } = self else {
            return;
        };
        churn.fill(io, target, meter, |conn, index| {
            roles.insert(conn, Role::Works(index));
            *live += 1;
        });
    }

    fn completed(&self) -> u64 {
        match &self.work {
            Work::Ping(ping) => ping.completed,
            Work::Churn(churn) => churn.completed,
        }
    }

    fn on_connected(&mut self, io: &mut dyn Io, conn: ConnId) {
        let now = io.now();
        let Some(role) = self.roles.get_mut(conn) else { return };
        match role {
            Role::Held(established) => {
                *established = true;
                self.progress.1 = now;
                if self.hold.on_connected() && self.phase == Phase::Holding {
                    let standing = self.hold.report(now, true);
                    self.publish(io, Report::Standing(standing));
                    self.begin_work(io);
                } else if self.phase == Phase::Holding {
                    self.open_idle(io);
                }
            }
            Role::Works(index) => match (&mut self.work, *index) {
                (Work::Ping(ping), _) => {
                    self.progress.1 = now;
                    if ping.on_connected() && self.phase == Phase::Opening {
                        self.begin_measuring(io);
                    } else if self.phase == Phase::Opening {
                        self.open_working(io);
                    }
                }
                (Work::Churn(churn), index) => churn.on_connected(io, index, &mut self.meter),
            },
        }
    }

    /// The path of the data: what it takes and no more.
    fn on_readable(&mut self, io: &mut dyn Io, conn: ConnId) {
        let Some(&mut Role::Works(index)) = self.roles.get_mut(conn) else { return };
        match &mut self.work {
            Work::Ping(ping) => {
                let got = ping.on_readable(io, index, &mut self.meter.latency, &mut self.quota);
                if let Err(failure) = got {
                    self.lose(io, conn, index, failure);
                }
                if self.quota == 0 {
                    self.finish(io, End::Complete);
                }
            }
            Work::Churn(churn) => churn.on_readable(io, index, &mut self.meter),
        }
    }

    fn on_writable(&mut self, io: &mut dyn Io, conn: ConnId) {
        let Some(&mut Role::Works(index)) = self.roles.get_mut(conn) else { return };
        match &mut self.work {
            Work::Ping(ping) => ping.push(io, index),
            Work::Churn(churn) => churn.push(io, index),
        }
    }

    fn on_peer_closed(&mut self, io: &mut dyn Io, conn: ConnId) {
        match (self.roles.get_mut(conn), &mut self.work) {
            (Some(Role::Works(index)), Work::Churn(churn)) => {
                let index = *index;
                churn.on_peer_closed(io, index, &mut self.meter);
            }
            (Some(Role::Works(index)), Work::Ping(_)) => {
                let index = *index;
                self.lose(io, conn, index, Failure::ClosedEarly);
            }
            // Its `Closed` counts it.
            (Some(Role::Held(_)), _) => io.abort(conn),
            (None, _) => {}
        }
    }

    /// A connection that should have stayed is of no more use.
    fn lose(&mut self, io: &mut dyn Io, conn: ConnId, index: u32, failure: Failure) {
        self.roles.remove(conn);
        io.abort(conn);
        self.lost(io, index, failure);
    }

    fn lost(&mut self, io: &mut dyn Io, index: u32, failure: Failure) {
        let Work::Ping(ping) = &mut self.work else { return };
        let left = ping.on_closed(index);
        if matches!(self.phase, Phase::Leaving | Phase::Over) {
            return;
        }
        self.meter.fail(failure);
        if !left || self.phase == Phase::Opening {
            self.stop_for(io, failure);
        }
    }

    fn on_closed(&mut self, io: &mut dyn Io, conn: ConnId, reason: CloseReason) {
        self.live = self.live.saturating_sub(1);
        let leaving = matches!(self.phase, Phase::Leaving | Phase::Over);
        match self.roles.remove(conn) {
            Some(Role::Held(established)) => {
                self.hold.on_closed(established);
                if leaving {
                    return self.over_if_alone();
                }
                let failure = Failure::of_close(reason);
                self.meter.fail(failure);
                match failure {
                    Failure::Refused | Failure::Unreachable if !established => {
                        self.stop_for(io, failure);
                    }
                    _ if self.phase == Phase::Holding => self.open_idle(io),
                    _ => {}
                }
            }
            Some(Role::Works(index)) => match &mut self.work {
                Work::Ping(_) => self.lost(io, index, Failure::of_close(reason)),
                Work::Churn(churn) => {
                    let Self { meter, quota, .. } = self;
                    let failure = churn.on_closed(io, index, reason, meter, quota);
                    if self.quota == 0 {
                        return self.finish(io, End::Complete);
                    }
                    match failure {
                        None if churn.retry_at().is_none() => self.fill(io),
                        // A server that never answered will not do so later.
                        Some(f @ (Failure::Refused | Failure::Unreachable))
                            if churn.completed == 0 =>
                        {
                            self.stop_for(io, f);
                        }
                        _ => {}
                    }
                }
            },
            None => {}
        }
        self.over_if_alone();
    }

    fn give_up(&mut self, io: &mut dyn Io, failure: Failure) {
        self.meter.fail(failure);
        self.stop_for(io, failure);
    }

    fn stop_for(&mut self, io: &mut dyn Io, failure: Failure) {
        self.finish(io, End::Failed(failure));
    }

    /// The measurement is over, in whatever way.
    fn finish(&mut self, io: &mut dyn Io, end: End) {
        if matches!(self.phase, Phase::Leaving | Phase::Over) {
            return;
        }
        let now = io.now();
        if let Phase::Running { omitting } = self.phase {
            self.cut(io, omitting);
        }
        let failures = self.meter.failures;
        self.failed |= failures.total() > 0;
        self.publish(io, Report::End(end, failures));
        self.exit = Some(match end {
            End::Failed(_) => 1,
            End::Complete if self.failed && self.measured == 0 => 1,
            End::Complete if self.failed => 5,
            End::Complete | End::Interrupted => 0,
        });
        match &mut self.work {
            Work::Ping(ping) => ping.running = false,
            Work::Churn(churn) => churn.running = false,
        }
        self.phase = Phase::Leaving;
        self.next_cut = Instant::FAR_FUTURE;
        self.next_check = Instant::FAR_FUTURE;
        self.until = now + GOODBYE;
        self.over_if_alone();
    }

    /// End connections, a bounded number at a time.
    fn leave(&mut self, io: &mut dyn Io) {
        for _ in 0..RESET_AT_ONCE {
            let Some(at) = self.leave_from else { break };
            let Some(conn) = self.roles.next_from(at) else {
                self.leave_from = None;
                break;
            };
            self.leave_from = conn.slot.checked_add(1);
            match (self.roles.remove(conn), &self.work) {
                (Some(Role::Works(_)), Work::Ping(_)) if self.exit == Some(0) => io.close(conn),
                _ => io.abort(conn),
            }
        }
        self.over_if_alone();
    }

    fn over_if_alone(&mut self) {
        if self.phase == Phase::Leaving && self.live == 0 {
            self.phase = Phase::Over;
        }
    }

    fn cut(&mut self, io: &mut dyn Io, omitted: bool) {
        let interval = self.meter.cut(io.now(), omitted);
        if !omitted {
            self.measured = self.measured.saturating_add(interval.latency.count());
            self.failed |= interval.failures.total() > 0;
        }
        self.publish(io, Report::Interval(interval));
    }

    fn publish(&mut self, io: &mut dyn Io, report: Report) {
        self.outbox.push_back(report);
        self.flush(io);
    }

    fn flush(&mut self, io: &mut dyn Io) {
        while let Some(report) = self.outbox.pop_front() {
            let Err(back) = io.publish(Box::new(report) as Message) else { continue };
            // It is what we have just boxed, so this always finds it.
            if let Ok(report) = back.downcast::<Report>() {
                self.outbox.push_front(*report);
            }
            return;
        }
    }

    /// Whatever time has brought.
    fn on_time(&mut self, io: &mut dyn Io) {
        let now = io.now();
        if self.phase == Phase::Leaving && self.leave_from.is_some() {
            self.leave(io);
        }
        match &mut self.work {
            Work::Ping(ping) if ping.next_due().is_some_and(|at| at <= now) => ping.send_due(io),
            Work::Churn(churn) if churn.retry_at().is_some_and(|at| at <= now) => self.fill(io),
            _ => {}
        }
        if self.until <= now {
            match self.phase {
                Phase::Running { omitting: true } => {
                    self.cut(io, true);
                    self.meter.restart(now);
                    self.phase = Phase::Running { omitting: false };
                    self.count_from(now);
                    if let Some(interval) = self.config.interval {
                        self.next_cut = now + interval;
                    }
                }
                Phase::Running { omitting: false } => self.finish(io, End::Complete),
                // The peer is silent: the stack ends what is left.
                Phase::Leaving if self.leave_from.is_none() => self.phase = Phase::Over,
                _ => {}
            }
        }
        // What cannot be handed out is collected further, so that nothing piles up here.
        if self.next_cut <= now && self.outbox.is_empty() {
            match self.phase {
                Phase::Holding => {
                    let standing = self.hold.report(now, false);
                    self.publish(io, Report::Standing(standing));
                }
                Phase::Running { omitting } => self.cut(io, omitting),
                _ => {}
            }
            let interval = self.config.interval.unwrap_or(Duration::MAX);
            self.next_cut = (self.next_cut + interval).max(now);
        }
        if self.next_check <= now {
            self.check(io);
        }
    }

    /// Look for what is stuck.
    fn check(&mut self, io: &mut dyn Io) {
        let now = io.now();
        let limit = self.config.timeout;
        self.next_check = now + limit / CHECKS_PER_LIMIT;
        let completed = self.completed();
        if completed > self.progress.0 {
            self.progress = (completed, now);
        }
        let stuck = now.since(self.progress.1) >= limit;
        match (&mut self.work, self.phase) {
            (_, Phase::Holding | Phase::Opening) if stuck => self.give_up(io, Failure::TimedOut),
            (Work::Ping(ping), Phase::Running { .. }) if stuck && ping.waits() => {
                self.give_up(io, Failure::NoAnswer);
            }
            (Work::Churn(churn), Phase::Running { .. }) => {
                churn.sweep(io, limit, &mut self.meter);
                if stuck {
                    match self.meter.last {
                        Some(failure) => self.stop_for(io, failure),
                        None => self.give_up(io, Failure::NoAnswer),
                    }
                }
            }
            _ => {}
        }
    }

    fn settle(&mut self, io: &mut dyn Io) {
        self.flush(io);
        if self.phase == Phase::Leaving && self.leave_from.is_some() {
            // The rest with the next turn.
            let now = io.now();
            self.alarm.set(io, now);
            return;
        }
        if self.phase == Phase::Over
            && self.outbox.is_empty()
            && let Some(code) = self.exit.take()
        {
            io.exit(code);
        }
        if self.phase == Phase::Over {
            self.until = Instant::FAR_FUTURE;
        }
        // While reports wait, nothing is cut.
        let cut = if self.outbox.is_empty() { self.next_cut } else { io.now() + RETRY };
        let next = self.until.min(self.next_check).min(cut);
        let own = match &self.work {
            Work::Ping(ping) => ping.next_due(),
            Work::Churn(churn) => churn.retry_at(),
        };
        self.alarm.set(io, own.into_iter().chain([next]).min().unwrap_or(next));
    }
}

impl App for Client {
    fn on_event(&mut self, io: &mut dyn Io, event: AppEvent) {
        match event {
            AppEvent::Readable { conn } => {
                self.on_readable(io, conn);
                if !self.wants_settling() {
                    return;
                }
            }
            AppEvent::Connected { conn } => {
                self.on_connected(io, conn);
                if !self.wants_settling() {
                    return;
                }
            }
            AppEvent::Closed { conn, reason } => {
                self.on_closed(io, conn, reason);
                if !self.wants_settling() {
                    return;
                }
            }
            AppEvent::Writable { conn } => return self.on_writable(io, conn),
            AppEvent::PeerClosed { conn } => self.on_peer_closed(io, conn),
            AppEvent::Start => self.start(io),
            AppEvent::Timer { .. } => self.alarm.rang(),
            AppEvent::Stop => self.finish(io, End::Interrupted),
            AppEvent::Accepted { .. } | AppEvent::Message { .. } => {}
        }
        self.on_time(io);
        self.settle(io);
    }
}

impl Client {
    /// Whether the timer has to be set anew after an event that comes with every transaction: not
    /// while all goes well, because what it is set to comes in time or too early.
    fn wants_settling(&self) -> bool {
        let own = match &self.work {
            Work::Ping(ping) => ping.next_due(),
            Work::Churn(churn) => churn.retry_at(),
        };
        !matches!(self.phase, Phase::Running { .. })
            || !self.outbox.is_empty()
            || own.is_some_and(|at| !self.alarm.rings_by(at))
    }
}
