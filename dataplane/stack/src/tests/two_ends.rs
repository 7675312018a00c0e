//! Two stacks and a wire between them on which chosen segments get lost: every way in which an open
//! or a close can go wrong: RFC 9293 section 3.5, RFC 9293 section 3.6.1.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use base::mem::{MemConfig, MemDevice};
use base::{ConnId, DropReason, Instant, SeededRandom};
use tcp::{CloseReason, ConnOptions};

use super::fixture::*;
use crate::{AppEvent, Io, Local, Stack, StackParams};

/// What an end has been told, in short.
#[derive(Default)]
struct Told {
    connected: Vec<ConnId>,
    accepted: Vec<ConnId>,
    closed: Vec<CloseReason>,
    read: Vec<u8>,
    peer_closed: u32,
}

/// A wire with a delay of five milliseconds and a list of losses.
struct Wire {
    stacks: [Stack<MemDevice>; 2],
    told: [Rc<RefCell<Told>>; 2],
    now: Instant,
    flying: Vec<(Instant, usize, Vec<u8>)>,
    /// Numbers of the TCP segments of each end that get lost, counted from zero.
    lose: [Vec<usize>; 2],
    count: [usize; 2],
    /// What was on the wire, as one line each.
    trace: Vec<alloc::string::String>,
}

const DELAY: Duration = Duration::from_millis(5);
/// A ceiling on steps turns a livelock into a failure.
const STEPS_MAX: u32 = 100_000;

fn address(end: usize, v6: bool) -> IpAddr {
    match (end, v6) {
        (0, false) => OUR_IP.into(),
        (0, true) => OUR_IP6.into(),
        (_, false) => PEER_IP.into(),
        (_, true) => PEER_IP6.into(),
    }
}

/// The numbers below `count` whose bits are set.
fn numbers_of(pattern: u32, count: usize) -> Vec<usize> {
    (0..count).filter(|i| pattern >> i & 1 == 1).collect()
}

impl Wire {
    fn new(params: &StackParams) -> Self {
        let told: [Rc<RefCell<Told>>; 2] = Default::default();
        let stack = |end: usize| {
            let log = Rc::clone(&told[end]);
            let app = FnApp(move |io: &mut dyn Io, event: AppEvent| {
                let t = &mut *log.borrow_mut();
                match event {
                    AppEvent::Connected { conn } => t.connected.push(conn),
                    AppEvent::Accepted { conn, .. } => t.accepted.push(conn),
                    AppEvent::Closed { reason, .. } => t.closed.push(reason),
                    AppEvent::PeerClosed { .. } => t.peer_closed += 1,
                    AppEvent::Readable { conn } => {
                        io.recv(conn, &mut |bytes| {
                            t.read.extend_from_slice(bytes);
                            bytes.len()
                        });
                    }
                    _ => {}
                }
            });
            let last = end as u8 + 1;
            let mem = MemConfig { mac: [2, 0, 0, 0, 0, last], ..mem_config() };
            let config = stack_config(last, 1500);
            let random = SeededRandom::new(40 + u64::from(last));
            Stack::new(
                config,
                Arc::new(params.clone()),
                Vec::from([MemDevice::detached(&mem)]),
                random,
                Box::new(app),
            )
        };
        let stacks = [stack(0), stack(1)];
        let mut wire = Self {
            stacks,
            told,
            now: Instant::from_millis(1000),
            flying: Vec::new(),
            lose: Default::default(),
            count: [0; 2],
            trace: Vec::new(),
        };
        wire.settle();
        wire
    }

    fn turn(&mut self, end: usize) -> Option<Instant> {
        let stack = &mut self.stacks[end];
        let mut next = None;
        for _ in 0..100 {
            let turn = stack.turn(self.now, &mut core::iter::empty(), &mut |_| Ok(()));
            next = turn.next_deadline;
            if !turn.pending {
                break;
            }
        }
        while let Some(frame) = stack.device_mut().take_sent() {
            let frame = frame.to_vec();
            if let Some(sent) = parse_sent(&frame) {
                let number = self.count[end];
                self.count[end] += 1;
                let lost = self.lose[end].contains(&number);
                self.trace.push(alloc::format!(
                    "{:>8} ms  end {end} #{number} {}{} len {}",
                    self.now.as_millis() - 1000,
                    sent.tcp.flags,
                    if lost { " LOST" } else { "" },
                    sent.payload.len(),
                ));
                if lost {
                    continue;
                }
            }
            self.flying.push((self.now + DELAY, 1 - end, frame));
        }
        next
    }

    /// Run until `end`, or until nothing will ever happen.
    fn run_until(&mut self, end: Instant) {
        for _ in 0..STEPS_MAX {
            let next = [self.turn(0), self.turn(1)];
            let arrival = self.flying.iter().map(|(at, ..)| *at).min();
            let at = next.into_iter().flatten().chain(arrival).min();
            let Some(at) = at.filter(|at| *at <= end) else {
                self.now = self.now.max(end);
                return;
            };
            self.now = self.now.max(at);
            let now = self.now;
            let (here, later) =
                core::mem::take(&mut self.flying).into_iter().partition(|(at, ..)| *at <= now);
            self.flying = later;
            let here: Vec<(Instant, usize, Vec<u8>)> = here;
            for (_, to, frame) in here {
                assert!(self.stacks[to].device_mut().deliver(&frame));
            }
        }
        panic!("no end: {:#?}", self.trace);
    }

    fn run_for(&mut self, duration: Duration) {
        self.run_until(self.now + duration);
    }

    /// Until what was said has arrived and was answered, without waiting for timers.
    fn settle(&mut self) {
        self.run_for(DELAY * 6);
    }

    fn lose(&mut self, end: usize, numbers: &[usize]) {
        self.lose[end] = numbers.iter().map(|n| n + self.count[end]).collect();
    }

    fn connect(&mut self, end: usize, v6: bool, port: u16, from: u16, options: &ConnOptions) {
        let remote = SocketAddr::new(address(1 - end, v6), port);
        self.stacks[end].io().connect(remote, Local::port(from), options).expect("a place");
    }

    fn conn(&self, end: usize) -> ConnId {
        let told = self.told[end].borrow();
        *told.connected.last().or(told.accepted.last()).expect("a connection")
    }

    /// Two ends that know each other and have one connection.
    fn established(v6: bool, params: &StackParams, options: &ConnOptions) -> Self {
        let mut wire = Self::new(params);
        wire.stacks[1].io().listen(None, 80, 8, options).unwrap();
        wire.connect(0, v6, 80, 5000, options);
        wire.settle();
        assert_eq!(wire.told[0].borrow().connected.len(), 1, "{:#?}", wire.trace);
        assert_eq!(wire.told[1].borrow().accepted.len(), 1, "{:#?}", wire.trace);
        wire
    }

    #[track_caller]
    fn assert_ended(&mut self, reasons: [CloseReason; 2]) {
        for (end, reason) in reasons.into_iter().enumerate() {
            let closed = self.told[end].borrow().closed.clone();
            assert_eq!(closed, [reason], "end {end}: {:#?}", self.trace);
            assert_eq!(self.stacks[end].table()[..2], [0, 0], "end {end}");
        }
    }
}

/// RFC 9293 section 3.5: crossing SYNs, each of the first segments lost in each combination, IPv4 and
/// IPv6. In the end there is one connection, and it carries data both ways.
#[test]
fn h80_simultaneous_open_with_every_loss() {
    for v6 in [false, true] {
        for pattern in 0..64_u32 {
            let mut params = StackParams::default();
            params.tcp.syn_linear_timeouts = 0;
            let mut wire = Wire::new(&params);
            // They know each other's hardware address.
            for end in 0..2 {
                wire.connect(end, v6, 9, 10, &ConnOptions::default());
            }
            wire.settle();
            // Nobody listens there.
            assert!(wire.told.iter().all(|told| told.borrow().closed.len() == 1));
            for told in &wire.told {
                *told.borrow_mut() = Told::default();
            }
            wire.trace.clear();
            for end in 0..2 {
                let (from, to) = if end == 0 { (700, 800) } else { (800, 700) };
                wire.lose(end, &numbers_of(pattern >> (3 * end), 3));
                wire.connect(end, v6, to, from, &ConnOptions::default());
            }
            wire.run_for(Duration::from_secs(20));
            for end in 0..2 {
                let told = wire.told[end].borrow();
                assert_eq!(told.connected.len(), 1, "{pattern:#b} {:#?}", wire.trace);
                assert!(told.closed.is_empty());
            }
            for end in 0..2 {
                let conn = wire.conn(end);
                assert_eq!(wire.stacks[end].io().send(conn, &[end as u8; 10], false), Ok(10));
            }
            wire.run_for(Duration::from_secs(20));
            for end in 0..2 {
                assert_eq!(wire.told[end].borrow().read, [1 - end as u8; 10], "{pattern:#b}");
                assert_eq!(wire.stacks[end].table(), [1, 0, 0]);
            }
        }
    }
}

/// RFC 9293 section 3.6: who closes, when, and which of the first four segments of each end after
/// that get lost. All end in order, and what was sent before the close arrives.
#[test]
fn every_order_of_closing_with_every_loss() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Order {
        Ours,
        Theirs,
        Both,
    }
    for order in [Order::Ours, Order::Theirs, Order::Both] {
        for pattern in 0..256_u32 {
            let options = ConnOptions::default();
            let mut wire = Wire::established(false, &StackParams::default(), &options);
            let first = if order == Order::Theirs { 1 } else { 0 };
            for end in 0..2 {
                wire.lose(end, &numbers_of(pattern >> (4 * end), 4));
            }
            wire.trace.clear();
            let ends = [wire.conn(0), wire.conn(1)];
            for end in [first, 1 - first] {
                wire.stacks[end].io().send(ends[end], b"last words", false).unwrap();
                wire.stacks[end].io().shutdown(ends[end]);
                if order != Order::Both {
                    // The other one answers once it has seen all of this.
                    wire.run_for(Duration::from_secs(100));
                }
            }
            wire.run_for(Duration::from_secs(400));
            wire.assert_ended([CloseReason::Finished; 2]);
            for end in 0..2 {
                assert_eq!(wire.told[end].borrow().read, b"last words", "{order:?} {pattern:#b}");
                assert_eq!(wire.told[end].borrow().peer_closed, 1);
                assert_eq!(wire.stacks[end].table(), [0, 0, 0], "TIME-WAIT is over, too");
                assert!(wire.stacks[end].holds_no_buffers());
            }
        }
    }
}

/// `tcp_max_orphans`.
#[test]
fn orphans_are_bounded_and_counted() {
    let params = StackParams { max_orphans: 2, ..StackParams::default() };
    let mut wire = Wire::new(&params);
    wire.stacks[1].io().listen(None, 80, 8, &ConnOptions::default()).unwrap();
    for port in 5000..5004 {
        wire.connect(0, false, 80, port, &ConnOptions::default());
    }
    wire.settle();
    let conns = wire.told[0].borrow().connected.clone();
    assert_eq!(conns.len(), 4);
    for conn in &conns {
        wire.stacks[0].io().send(*conn, b"data", false).unwrap();
        wire.stacks[0].io().close(*conn);
        // Once more changes nothing.
        wire.stacks[0].io().close(*conn);
    }
    wire.settle();
    assert_eq!(wire.told[0].borrow().closed, [CloseReason::Resources; 2]);
    assert_eq!(wire.told[1].borrow().closed, [CloseReason::ResetByPeer; 2]);
    assert_eq!(wire.stacks[0].tcp_counters().abort_on_memory, 2);
    // The two others finish, and make room for others.
    let served = wire.told[1].borrow().accepted.clone();
    for conn in served {
        wire.stacks[1].io().close(conn);
    }
    wire.settle();
    assert_eq!(wire.stacks[0].table(), [0, 0, 2]);
    wire.connect(0, false, 80, 6000, &ConnOptions::default());
    wire.settle();
    let conn = wire.conn(0);
    wire.stacks[0].io().close(conn);
    wire.settle();
    assert_eq!(wire.stacks[0].tcp_counters().abort_on_memory, 2);
}

/// `SO_LINGER` with zero towards a peer that still sends, and with a time towards one that is gone.
#[test]
fn linger() {
    let options = ConnOptions { linger_sec: Some(0), ..ConnOptions::default() };
    let mut wire = Wire::established(true, &StackParams::default(), &options);
    let conn = wire.conn(0);
    wire.stacks[0].io().send(conn, &[1; 5000], false).unwrap();
    wire.stacks[0].io().close(conn);
    wire.settle();
    wire.assert_ended([CloseReason::Aborted, CloseReason::ResetByPeer]);

    let mut wire = Wire::established(false, &StackParams::default(), &ConnOptions::default());
    let conn = wire.conn(0);
    // Asked for on the living connection.
    let options = ConnOptions { linger_sec: Some(7), ..ConnOptions::default() };
    wire.stacks[0].io().set_options(conn, &options);
    wire.stacks[0].io().send(conn, &[1; 5000], false).unwrap();
    wire.lose(0, &(0..100).collect::<Vec<_>>());
    wire.stacks[0].io().close(conn);
    wire.run_for(Duration::from_secs(6));
    assert!(wire.told[0].borrow().closed.is_empty());
    wire.run_for(Duration::from_secs(2));
    assert_eq!(wire.told[0].borrow().closed, [CloseReason::TimedOut]);
    assert!(wire.stacks[0].holds_no_buffers());
}

#[test]
fn what_nobody_reads_is_acknowledged_and_thrown_away() {
    let options = ConnOptions { rcvbuf: Some(8192), ..ConnOptions::default() };
    let mut wire = Wire::established(false, &StackParams::default(), &options);
    let (deaf, loud) = (wire.conn(1), wire.conn(0));
    wire.stacks[1].io().shutdown_read(deaf);
    let mut sent = 0;
    while sent < 100_000 {
        sent += wire.stacks[0].io().send(loud, &[3; 3000], false).unwrap();
        wire.settle();
    }
    assert!(wire.told[1].borrow().read.is_empty());
    assert_eq!(wire.stacks[1].io().readable(deaf), 0);
    let end = wire.stacks[1].io().recv(deaf, &mut |_| panic!("nothing to read")).unwrap();
    assert!(end.end);
    // The other direction works, and it ends in order.
    wire.stacks[1].io().send(deaf, b"I do not listen", false).unwrap();
    wire.stacks[0].io().shutdown(loud);
    wire.settle();
    assert_eq!(wire.told[0].borrow().read, b"I do not listen");
    assert_eq!(wire.told[1].borrow().peer_closed, 1);
    wire.stacks[1].io().close(deaf);
    wire.settle();
    wire.assert_ended([CloseReason::Finished; 2]);
}

/// RFC 9293 section 3.10.4: closing in SYN-SENT forgets the attempt.
#[test]
fn closing_before_there_is_an_answer_gives_up() {
    let mut wire = Wire::established(false, &StackParams::default(), &ConnOptions::default());
    wire.lose(0, &[0]);
    let remote = SocketAddr::new(PEER_IP.into(), 80);
    let conn = wire.stacks[0].io().connect(remote, Local::ANY, &ConnOptions::default()).unwrap();
    wire.run_for(Duration::from_millis(1));
    wire.stacks[0].io().close(conn);
    wire.settle();
    assert_eq!(wire.told[0].borrow().closed, [CloseReason::Aborted]);
    assert_eq!(wire.stacks[0].table(), [1, 0, 0]);
    // Closing one's side only keeps the attempt, and the FIN follows.
    let conn = wire.stacks[0].io().connect(remote, Local::ANY, &ConnOptions::default()).unwrap();
    wire.stacks[0].io().shutdown(conn);
    wire.settle();
    assert_eq!(wire.told[1].borrow().accepted.len(), 2);
    assert_eq!(wire.told[1].borrow().peer_closed, 1);
}

/// Backlog: more clients than places. With patience all get in, or all learn at once.
#[test]
fn an_overflowing_backlog_and_clients_that_try_again() {
    for abort in [false, true] {
        let mut params = StackParams::default();
        params.tcp.abort_on_overflow = abort;
        let mut wire = Wire::new(&params);
        wire.stacks[1].io().listen(None, 80, 2, &ConnOptions::default()).unwrap();
        // The way to the peer is known.
        wire.connect(0, false, 9, 4000, &ConnOptions::default());
        wire.settle();
        for port in 5000..5010 {
            wire.connect(0, false, 80, port, &ConnOptions::default());
        }
        wire.settle();
        let counters = wire.stacks[1].tcp_counters();
        assert!(counters.listen_drops > 0, "{counters:?}");
        assert!(wire.stacks[1].drops()[DropReason::ListenSynQueue as usize] > 0);
        wire.run_for(Duration::from_secs(130));
        assert_eq!(wire.told[0].borrow().connected.len(), 10, "{:#?}", wire.trace);
        assert_eq!(wire.told[1].borrow().accepted.len(), 10);
    }
}

/// RFC 5482 as an application uses it: the connection is given up when it said so, whatever state it
/// is in, and the peer hears of it if it comes back.
#[test]
fn the_user_timeout_ends_a_connection_whose_peer_is_gone() {
    let timeout = Duration::from_secs(10);
    let options = ConnOptions { user_timeout: Some(timeout), ..ConnOptions::default() };
    let mut wire = Wire::established(true, &StackParams::default(), &options);
    let conn = wire.conn(0);
    wire.lose(0, &(0..100).collect::<Vec<_>>());
    wire.stacks[0].io().send(conn, b"anybody there?", false).unwrap();
    wire.run_for(timeout - Duration::from_millis(1));
    assert!(wire.told[0].borrow().closed.is_empty(), "{:#?}", wire.trace);
    wire.run_for(Duration::from_millis(200));
    assert_eq!(wire.told[0].borrow().closed, [CloseReason::TimedOut], "{:#?}", wire.trace);
    assert_eq!(wire.stacks[0].tcp_counters().abort_on_timeout, 1);
    // The peer has noticed nothing. What it sends is answered with a reset.
    wire.lose(0, &[]);
    let conn = wire.conn(1);
    wire.stacks[1].io().send(conn, b"I am", false).unwrap();
    wire.settle();
    assert_eq!(wire.told[1].borrow().closed, [CloseReason::ResetByPeer]);
    assert_eq!(wire.stacks[0].drops()[DropReason::TcpNoSocket as usize], 1);
}
