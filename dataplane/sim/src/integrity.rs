//! An application whose every byte is checked at the other end.
//!
//! ```text
//!   client --- `up` bytes of pattern(port, up) ---> server
//!          <-- `down` bytes of pattern(port, down) ---
//! ```
//!
//! Both ends write and read in random sizes, pause at random, and close their half when they have
//! written all. What they find goes into a [`Ledger`] that the test holds.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

use core::time::Duration;

use base::{ConnId, Instant, Random};
use stack::{App, AppEvent, Io, Local};
use tcp::{CloseReason, ConnOptions};
use workloads::pattern;

use crate::link::{Share, below};

/// The port of the server.
pub const PORT: u16 = 7777;
/// Bytes offered to TCP at a time, at most.
pub const WRITE_MAX_BYTES: usize = 64 * 1024;
/// Connections of one client: each needs two of an application's timers.
pub const FLOWS_MAX: u32 = 400;
/// Violations kept; after the first few, more tell nothing.
const VIOLATIONS_MAX: usize = 16;

/// The timer by which the client opens its next connection.
const OPEN_TOKEN: u64 = u64::MAX;

/// What each connection is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Connections, at most [`FLOWS_MAX`].
    pub flows: u32,
    /// Time between two of them.
    pub stagger: Duration,
    /// Bytes from the client to the server, per connection.
    pub up: u64,
    /// Bytes from the server to the client, per connection.
    pub down: u64,
    /// Writes are of 1 to so many bytes, at most [`WRITE_MAX_BYTES`].
    pub write_max: u32,
    /// Reads are of 1 to so many bytes.
    pub read_max: u32,
    /// How many writes and reads are followed by a pause.
    pub pause: Share,
    /// The longest pause.
    pub pause_max: Duration,
    /// The server stops reading each connection once: after so many bytes, for so long.
    pub sleep: Option<(u64, Duration)>,
    /// How the client ends a connection when it has written and read all.
    pub ending: Ending,
    /// Options of all connections.
    pub options: ConnOptions,
}

/// How the client ends a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// Its half right after its last byte; the other direction goes on.
    #[default]
    HalfClose,
    /// Both at once, after the last byte in either direction.
    Close,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            flows: 1,
            stagger: Duration::ZERO,
            up: 1 << 20,
            down: 1 << 20,
            write_max: WRITE_MAX_BYTES as u32,
            read_max: u32::MAX,
            pause: Share::ZERO,
            pause_max: Duration::ZERO,
            sleep: None,
            ending: Ending::default(),
            options: ConnOptions::default(),
        }
    }
}

/// What one side knows of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Bytes that TCP took.
    pub sent: u64,
    /// Bytes received and found right.
    pub received: u64,
    /// The peer's end was seen.
    pub end_seen: bool,
    /// Why the connection went.
    pub closed: Option<CloseReason>,
    /// When the last byte came.
    pub last_byte_at: Instant,
}

/// What both sides have found, by the client's port.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// The client's accounts.
    pub client: BTreeMap<u16, Account>,
    /// The server's accounts.
    pub server: BTreeMap<u16, Account>,
    /// What must not be.
    pub violations: Vec<String>,
}

impl Ledger {
    fn violation(&mut self, text: String) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(text);
        }
    }

    /// Each of `flows` connections has gone at both sides, or one of them has failed.
    pub fn is_over(&self, flows: u32) -> bool {
        let closed = |accounts: &BTreeMap<u16, Account>| {
            accounts.len() >= flows as usize && accounts.values().all(|a| a.closed.is_some())
        };
        let mut accounts = self.client.values().chain(self.server.values());
        !self.violations.is_empty()
            || accounts.any(|a| a.closed.is_some_and(|r| r != CloseReason::Finished))
            || (closed(&self.client) && closed(&self.server))
    }

    /// Whether every byte of `plan` has arrived and each connection has ended in order.
    ///
    /// # Errors
    ///
    /// The first thing that is not as it should be.
    pub fn check(&self, plan: &Plan) -> Result<(), String> {
        if let Some(first) = self.violations.first() {
            return Err(first.clone());
        }
        let sides = [
            ("client", &self.client, plan.up, plan.down),
            ("server", &self.server, plan.down, plan.up),
        ];
        for (side, accounts, out, back) in sides {
            if accounts.len() != plan.flows as usize {
                return Err(format!("{side}: {} connections of {}", accounts.len(), plan.flows));
            }
            for (port, a) in accounts {
                let closed = matches!(a.closed, Some(CloseReason::Finished));
                // After a full close nobody waits for the peer's end.
                let ended = a.end_seen || (side == "client" && plan.ending == Ending::Close);
                if a.sent != out || a.received != back || !ended || !closed {
                    return Err(format!(
                        "{side} port {port}: {a:?}, expected {out} sent and {back} received"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Bytes received by both sides together.
    pub fn received(&self) -> u64 {
        self.client.values().chain(self.server.values()).map(|a| a.received).sum()
    }
}

/// A ledger that both applications write and the test reads.
pub type SharedLedger = Rc<RefCell<Ledger>>;

/// Both applications of a test, with their ledger.
pub fn pair(server: SocketAddr, plan: Plan) -> (Box<Peer>, Box<Peer>, SharedLedger) {
    let ledger = SharedLedger::default();
    let client = Box::new(Peer::new(Role::Client(server), plan, Rc::clone(&ledger)));
    let server = Box::new(Peer::new(Role::Server, plan, Rc::clone(&ledger)));
    (client, server, ledger)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Client(SocketAddr),
    Server,
}

/// One side of the test.
pub struct Peer {
    role: Role,
    plan: Plan,
    ledger: SharedLedger,
    /// By slot of the connection.
    flows: BTreeMap<u32, Flow>,
    opened: u32,
    closed: u32,
    scratch: Vec<u8>,
}

/// One connection.
struct Flow {
    conn: ConnId,
    /// The client's port.
    port: u16,
    account: Account,
    established: bool,
    write_pause: bool,
    read_pause: bool,
    slept: bool,
    shut: bool,
}

impl Flow {
    fn token(&self, read: bool) -> u64 {
        u64::from(self.conn.slot) << 1 | u64::from(read)
    }
}

impl Peer {
    fn new(role: Role, plan: Plan, ledger: SharedLedger) -> Self {
        let scratch = vec![0; WRITE_MAX_BYTES];
        Self { role, plan, ledger, flows: BTreeMap::new(), opened: 0, closed: 0, scratch }
    }

    fn is_client(&self) -> bool {
        matches!(self.role, Role::Client(_))
    }

    /// Bytes to send and to receive per connection.
    fn amounts(&self) -> (u64, u64) {
        if self.is_client() {
            (self.plan.up, self.plan.down)
        } else {
            (self.plan.down, self.plan.up)
        }
    }

    fn open(&mut self, io: &mut dyn Io) {
        let Role::Client(server) = self.role else { return };
        while self.opened < self.plan.flows.min(FLOWS_MAX) {
            match io.connect(server, Local::ANY, &self.plan.options) {
                Ok(conn) => {
                    let port = io.local_addr(conn).map_or(0, |a| a.port());
                    self.admit(conn, port, false);
                }
                Err(error) => {
                    self.ledger.borrow_mut().violation(format!("cannot connect: {error:?}"));
                    return;
                }
            }
            self.opened += 1;
            if !self.plan.stagger.is_zero() {
                let next = io.now() + self.plan.stagger;
                io.set_timer(OPEN_TOKEN, next);
                return;
            }
        }
    }

    fn admit(&mut self, conn: ConnId, port: u16, established: bool) {
        let flow = Flow {
            conn,
            port,
            account: Account::default(),
            established,
            write_pause: false,
            read_pause: false,
            slept: false,
            shut: false,
        };
        self.write_down(&flow);
        self.flows.insert(conn.slot, flow);
    }

    fn write_down(&self, flow: &Flow) {
        let mut ledger = self.ledger.borrow_mut();
        let accounts = if self.is_client() { &mut ledger.client } else { &mut ledger.server };
        accounts.insert(flow.port, flow.account);
    }

    /// Do what can be done now on one connection.
    fn pump(&mut self, io: &mut dyn Io, conn: ConnId) {
        let Some(mut flow) = self.flows.remove(&conn.slot) else { return };
        if flow.conn == conn && flow.established {
            self.write(io, &mut flow);
            self.read(io, &mut flow);
            self.finish(io, &mut flow);
            self.write_down(&flow);
        }
        self.flows.insert(conn.slot, flow);
    }

    fn write(&mut self, io: &mut dyn Io, flow: &mut Flow) {
        let (total, _) = self.amounts();
        let key = pattern::key(flow.port.into(), self.is_client());
        let limit = self.plan.write_max.clamp(1, WRITE_MAX_BYTES as u32);
        while !flow.write_pause && flow.account.sent < total {
            let left = usize::try_from(total - flow.account.sent).unwrap_or(usize::MAX);
            let size = (1 + Dice(io).below(limit) as usize).min(left);
            let data = &mut self.scratch[..size];
            pattern::fill(key, flow.account.sent, data);
            // An error means that the connection is going; its `Closed` follows.
            let Ok(taken) = io.send(flow.conn, data, false) else { return };
            flow.account.sent += taken as u64;
            if taken < size {
                return;
            }
            flow.write_pause = self.pause(io, flow.token(false));
        }
    }

    fn read(&mut self, io: &mut dyn Io, flow: &mut Flow) {
        let (_, total) = self.amounts();
        let key = pattern::key(flow.port.into(), !self.is_client());
        while !flow.read_pause && !flow.account.end_seen {
            if let (Role::Server, Some((after, time)), false) =
                (self.role, self.plan.sleep, flow.slept)
                && flow.account.received >= after
            {
                flow.slept = true;
                let until = io.now() + time;
                flow.read_pause = io.set_timer(flow.token(true), until);
                return;
            }
            let mut room = 1 + Dice(io).below(self.plan.read_max) as usize;
            let (mut at, mut wrong) = (flow.account.received, None);
            let got = io.recv(flow.conn, &mut |slice| {
                let slice = &slice[..slice.len().min(room)];
                if wrong.is_none() {
                    wrong = pattern::mismatch(key, at, slice).map(|i| at + i as u64);
                }
                at += slice.len() as u64;
                room -= slice.len();
                slice.len()
            });
            let Some(got) = got else { return };
            if got.taken > 0 {
                flow.account.last_byte_at = io.now();
            }
            flow.account.received = at;
            let violation = if let Some(offset) = wrong {
                Some(format!("wrong byte at {offset}"))
            } else if at > total {
                Some(format!("{at} bytes, {total} expected"))
            } else if got.end && at < total {
                Some(format!("ended after {at} of {total} bytes"))
            } else {
                None
            };
            if let Some(text) = violation {
                let side = if self.is_client() { "client" } else { "server" };
                self.ledger.borrow_mut().violation(format!("{side} port {}: {text}", flow.port));
            }
            flow.account.end_seen = got.end;
            if got.taken == 0 {
                return;
            }
            flow.read_pause = self.pause(io, flow.token(true));
        }
    }

    /// Close what is to be closed.
    fn finish(&mut self, io: &mut dyn Io, flow: &mut Flow) {
        let (out, back) = self.amounts();
        let written = flow.account.sent == out;
        if flow.shut || !written {
            return;
        }
        if self.is_client() && self.plan.ending == Ending::Close {
            if flow.account.received == back {
                flow.shut = true;
                io.close(flow.conn);
            }
        } else {
            flow.shut = true;
            io.shutdown(flow.conn);
        }
    }

    fn pause(&self, io: &mut dyn Io, token: u64) -> bool {
        if !self.plan.pause.hits(&mut Dice(io)) {
            return false;
        }
        let until = io.now() + below(&mut Dice(io), self.plan.pause_max);
        io.set_timer(token, until)
    }

    fn on_closed(&mut self, io: &mut dyn Io, conn: ConnId, reason: CloseReason) {
        let Some(mut flow) = self.flows.remove(&conn.slot) else { return };
        io.cancel_timer(flow.token(false));
        io.cancel_timer(flow.token(true));
        flow.account.closed = Some(reason);
        // A reader that pauses with nothing left to read does not get to ask for the end.
        flow.account.end_seen |= flow.read_pause && reason == CloseReason::Finished;
        self.write_down(&flow);
        self.closed += 1;
        if self.is_client() && self.closed == self.plan.flows.min(FLOWS_MAX) {
            io.exit(0);
        }
    }
}

impl App for Peer {
    fn on_event(&mut self, io: &mut dyn Io, event: AppEvent) {
        match event {
            AppEvent::Start => match self.role {
                Role::Client(_) => self.open(io),
                Role::Server => {
                    if let Err(error) = io.listen(None, PORT, FLOWS_MAX, &self.plan.options) {
                        self.ledger.borrow_mut().violation(format!("cannot listen: {error:?}"));
                    }
                }
            },
            AppEvent::Accepted { conn, .. } => {
                let port = io.remote_addr(conn).map_or(0, |a| a.port());
                self.admit(conn, port, true);
                self.pump(io, conn);
            }
            AppEvent::Connected { conn } => {
                if let Some(flow) = self.flows.get_mut(&conn.slot) {
                    flow.established = true;
                }
                self.pump(io, conn);
            }
            AppEvent::Readable { conn }
            | AppEvent::Writable { conn }
            | AppEvent::PeerClosed { conn } => self.pump(io, conn),
            AppEvent::Closed { conn, reason } => self.on_closed(io, conn, reason),
            AppEvent::Timer { token: OPEN_TOKEN } => self.open(io),
            AppEvent::Timer { token } => {
                let Some(flow) = self.flows.get_mut(&((token >> 1) as u32)) else { return };
                if token & 1 == 1 {
                    flow.read_pause = false;
                } else {
                    flow.write_pause = false;
                }
                let conn = flow.conn;
                self.pump(io, conn);
            }
            AppEvent::Message { .. } | AppEvent::Stop => {}
        }
    }
}

/// The stack's randomness as a generator.
struct Dice<'a>(&'a mut dyn Io);

impl Random for Dice<'_> {
    fn next_u64(&mut self) -> u64 {
        self.0.random()
    }

    fn secret(&mut self) -> u64 {
        self.0.random()
    }
}
