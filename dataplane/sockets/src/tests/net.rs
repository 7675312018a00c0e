//! Two hosts with sockets and a wire between them, in virtual time.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;

use base::mem::{MemConfig, MemDevice};
use base::{Instant, SeededRandom, WorkerId};
use stack::{ChecksumPolicy, Io, Limits, LocalAddress, PortSetup, Stack, StackConfig, StackParams};

use crate::abi::*;
use crate::{Call, Config, Errno, OpId, Outcome, SockAddr, Sockets, Value};

pub(super) const DELAY: Duration = Duration::from_millis(5);
/// A ceiling on steps turns a livelock into a failure.
const STEPS_MAX: u32 = 100_000;

pub(super) const A: usize = 0;
pub(super) const B: usize = 1;

pub(super) struct Net {
    stacks: [Stack<MemDevice>; 2],
    pub(super) now: Instant,
    flying: Vec<(Instant, usize, Vec<u8>)>,
    /// What was on the wire, by sender; for tests that look at frames.
    pub(super) seen: Vec<(usize, Vec<u8>)>,
    /// Frames of an end that get lost as long as it says so.
    pub(super) cut: [bool; 2],
    completed: [BTreeMap<OpId, Result<Value, Errno>>; 2],
}

pub(super) fn v4(host: usize, port: u16) -> SockAddr {
    SocketAddr::new(Ipv4Addr::new(10, 0, 0, host as u8 + 1).into(), port).into()
}

pub(super) fn v6(host: usize, port: u16) -> SockAddr {
    let ip = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host as u16 + 1);
    SocketAddr::new(ip.into(), port).into()
}

impl Net {
    pub(super) fn new() -> Self {
        Self::with(StackParams::default(), Config::default())
    }

    pub(super) fn with(params: StackParams, config: Config) -> Self {
        let stack = |host: usize| {
            let last = host as u8 + 1;
            let mem =
                MemConfig { mac: [2, 0, 0, 0, 0, last], buffers: 8192, ..MemConfig::default() };
            let addresses = alloc::vec![
                LocalAddress { addr: Ipv4Addr::new(10, 0, 0, last).into(), prefix: 24 },
                LocalAddress {
                    addr: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last.into()).into(),
                    prefix: 64,
                },
            ];
            let stack_config = StackConfig {
                worker: WorkerId(0),
                workers: 1,
                ports: alloc::vec![PortSetup {
                    addresses,
                    gateway4: None,
                    gateway6: None,
                    mtu: 1500,
                    rx_checksum: ChecksumPolicy::Verify,
                }],
                limits: Limits {
                    connections: 64,
                    half_open: 32,
                    time_wait: 64,
                    ..Limits::default()
                },
                stop_limit: Duration::from_secs(5),
            };
            Stack::new(
                stack_config,
                Arc::new(params.clone()),
                [MemDevice::detached(&mem)].into(),
                SeededRandom::new(7 + host as u64),
                Box::new(Sockets::new(config)),
            )
        };
        let mut net = Self {
            stacks: [stack(A), stack(B)],
            now: Instant::from_millis(1000),
            flying: Vec::new(),
            seen: Vec::new(),
            cut: [false; 2],
            completed: Default::default(),
        };
        net.settle();
        net
    }

    pub(super) fn with_sockets<R>(
        &mut self,
        host: usize,
        call: impl FnOnce(&mut Sockets, &mut dyn Io) -> R,
    ) -> R {
        self.stacks[host].with_app(self.now, |app, io| {
            let sockets = (app as &mut dyn Any).downcast_mut::<Sockets>().expect("ours");
            call(sockets, io)
        })
    }

    fn turn(&mut self, host: usize) -> Option<Instant> {
        let stack = &mut self.stacks[host];
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
            self.seen.push((host, frame.clone()));
            if !self.cut[host] {
                self.flying.push((self.now + DELAY, 1 - host, frame));
            }
        }
        let completed = &mut self.completed[host];
        stack.with_app(self.now, |app, _| {
            let sockets = (app as &mut dyn Any).downcast_mut::<Sockets>().expect("ours");
            while let Some((op, result)) = sockets.next_completed() {
                assert!(completed.insert(op, result).is_none(), "completed twice");
            }
        });
        next
    }

    pub(super) fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..STEPS_MAX {
            let next = [self.turn(A), self.turn(B)];
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
        panic!("no end");
    }

    /// Until what was said has arrived and was answered.
    pub(super) fn settle(&mut self) {
        self.run_for(DELAY * 8);
    }

    /// An ICMP message of `code` from a router, unreachable, about the frame (IPv4) that `host` sent last.
    pub(super) fn complain(&mut self, host: usize, code: u8) {
        let (_, sent) = self.seen.iter().rfind(|(from, _)| *from == host).expect("a frame");
        let quote = &sent[14..14 + 28];
        let mut packet: Vec<u8> = [0x45, 0, 0, 56, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 77].into();
        packet.extend([10, 0, 0, host as u8 + 1]);
        packet.extend([3, code, 0, 0, 0, 0, 0, 0]);
        packet.extend(quote);
        let sum = |bytes: &[u8]| {
            let sum: u32 = bytes.chunks(2).map(|b| u32::from(b[0]) << 8 | u32::from(b[1])).sum();
            (!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes()
        };
        let header = sum(&packet[..20]);
        packet[10..12].copy_from_slice(&header);
        let message = sum(&packet[20..]);
        packet[22..24].copy_from_slice(&message);
        let mut frame = sent[6..12].to_vec();
        frame.extend([2, 0, 0, 0, 0, 77, 8, 0]);
        frame.extend(packet);
        assert!(self.stacks[host].device_mut().deliver(&frame));
        self.turn(host);
    }

    pub(super) fn start(&mut self, host: usize, call: Call) -> Outcome {
        self.with_sockets(host, |sockets, io| sockets.start(io, call))
    }

    #[track_caller]
    pub(super) fn value(&mut self, host: usize, call: Call) -> Value {
        match self.start(host, call.clone()) {
            Outcome::Done(Ok(value)) => value,
            other => panic!("{call:?}: {other:?}"),
        }
    }

    #[track_caller]
    pub(super) fn ok(&mut self, host: usize, call: Call) -> i32 {
        self.value(host, call).returned() as i32
    }

    #[track_caller]
    pub(super) fn err(&mut self, host: usize, call: Call) -> Errno {
        match self.start(host, call.clone()) {
            Outcome::Done(Err(errno)) => errno,
            other => panic!("{call:?}: {other:?}"),
        }
    }

    #[track_caller]
    pub(super) fn blocked(&mut self, host: usize, call: Call) -> OpId {
        match self.start(host, call.clone()) {
            Outcome::Blocked(op) => op,
            other => panic!("{call:?}: {other:?}"),
        }
    }

    pub(super) fn completed(&mut self, host: usize, op: OpId) -> Option<Result<Value, Errno>> {
        self.turn(host);
        self.completed[host].remove(&op)
    }

    #[track_caller]
    pub(super) fn option(&mut self, host: usize, fd: i32, level: i32, name: i32) -> i32 {
        match self.value(host, Call::get_int(fd, level, name)) {
            Value::Option(bytes) => i32::from_ne_bytes(bytes.try_into().unwrap()),
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub(super) fn data(&mut self, host: usize, call: Call) -> Vec<u8> {
        match self.value(host, call) {
            Value::Received(received) => received.data,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub(super) fn socket(&mut self, host: usize) -> i32 {
        self.ok(host, Call::Socket { domain: AF_INET, kind: SOCK_STREAM, protocol: 0 })
    }

    #[track_caller]
    pub(super) fn socket6(&mut self, host: usize) -> i32 {
        self.ok(host, Call::Socket { domain: AF_INET6, kind: SOCK_STREAM, protocol: 0 })
    }

    #[track_caller]
    pub(super) fn nonblocking(&mut self, host: usize, fd: i32) {
        self.ok(host, Call::Fcntl { fd, command: F_SETFL, argument: O_NONBLOCK.into() });
    }

    /// A socket of `host` that listens on `port`.
    #[track_caller]
    pub(super) fn listener(&mut self, host: usize, port: u16, backlog: i32) -> i32 {
        let fd = self.socket(host);
        let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port).into();
        self.ok(host, Call::set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1));
        self.ok(host, Call::Bind { fd, addr: Some(any) });
        self.ok(host, Call::Listen { fd, backlog });
        fd
    }

    /// A connection from A to a listener of B: both ends.
    #[track_caller]
    pub(super) fn pair(&mut self, listener: i32, port: u16) -> (i32, i32) {
        let client = self.socket(A);
        let op = self.blocked(A, Call::Connect { fd: client, addr: Some(v4(B, port)) });
        self.settle();
        assert_eq!(self.completed(A, op), Some(Ok(Value::Int(0))));
        let server = self.ok(B, Call::Accept { fd: listener, flags: 0 });
        (client, server)
    }

    /// A listener of B on port 80, and a connection to it.
    #[track_caller]
    pub(super) fn connected() -> (Self, i32, i32) {
        let mut net = Self::new();
        let listener = net.listener(B, 80, 8);
        let (client, server) = net.pair(listener, 80);
        (net, client, server)
    }

    /// Readiness as `poll` shows it, all bits asked for.
    #[track_caller]
    pub(super) fn ready(&mut self, host: usize, fd: i32) -> u32 {
        let fds = Some([crate::PollFd { fd, events: u16::MAX }].into());
        match self.value(host, Call::Poll { fds, timeout: Some(Duration::ZERO) }) {
            Value::Polled(revents) => revents[0].into(),
            other => panic!("{other:?}"),
        }
    }

    /// Close everything, let all of it end, and look for what is left.
    #[track_caller]
    pub(super) fn assert_nothing_left(&mut self) {
        self.cut = [false; 2];
        for host in [A, B] {
            self.with_sockets(host, |sockets, io| sockets.close_all(io));
        }
        self.run_for(Duration::from_secs(2000));
        for host in [A, B] {
            let left = self.with_sockets(host, |s, _| {
                (s.open_files(), s.open_fds().count(), s.blocked().count())
            });
            assert_eq!(left, (0, 0, 0), "host {host}");
            assert_eq!(self.stacks[host].table(), [0; 3], "host {host}");
            assert!(self.stacks[host].holds_no_buffers(), "host {host}");
        }
    }
}
