//! In steady state a worker allocates nothing, neither for sending nor for receiving nor for requests
//! and responses.

use std::alloc::System;
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use accel::counting::Counting;
use base::mem::{MemConfig, MemDevice};
use base::{ConnId, Instant, SeededRandom, WorkerId};
use stack::{
    App, AppEvent, ChecksumPolicy, Io, Limits, Local, LocalAddress, PortSetup, Stack, StackConfig,
    StackParams,
};
use tcp::ConnOptions;

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting::new(System);

const CHUNK: [u8; 16_384] = [0x42; 16_384];

/// Sends as much as goes, or answers each request of 64 bytes with another.
struct Load {
    connect: Option<SocketAddr>,
    request: bool,
    moved: Rc<Cell<u64>>,
}

impl Load {
    fn fill(&self, io: &mut dyn Io, conn: ConnId) {
        while let Ok(n) = io.send(conn, &CHUNK, false) {
            if n < CHUNK.len() {
                return;
            }
        }
    }
}

impl App for Load {
    fn on_event(&mut self, io: &mut dyn Io, event: AppEvent) {
        let options = ConnOptions { nodelay: true, ..ConnOptions::default() };
        match event {
            AppEvent::Start => match self.connect {
                Some(remote) => {
                    io.connect(remote, Local::ANY, &options).expect("a free port");
                }
                None => {
                    io.listen(None, 7, 4, &options).expect("a free port");
                }
            },
            AppEvent::Connected { conn } if self.request => {
                assert_eq!(io.send(conn, &CHUNK[..64], false), Ok(64));
            }
            AppEvent::Connected { conn } | AppEvent::Writable { conn } => self.fill(io, conn),
            AppEvent::Readable { conn } => {
                let mut taken = 0;
                io.recv(conn, &mut |bytes| {
                    taken += bytes.len() as u64;
                    bytes.len()
                });
                self.moved.set(self.moved.get() + taken);
                if self.request {
                    assert_eq!(io.send(conn, &CHUNK[..taken as usize], false), Ok(taken as usize));
                }
            }
            AppEvent::Closed { reason, .. } => panic!("closed: {reason:?}"),
            _ => {}
        }
    }
}

fn config(last: u8, mtu: u16) -> StackConfig {
    StackConfig {
        worker: WorkerId(0),
        workers: 1,
        ports: vec![PortSetup {
            addresses: vec![LocalAddress {
                addr: Ipv4Addr::new(10, 0, 0, last).into(),
                prefix: 24,
            }],
            gateway4: None,
            gateway6: None,
            mtu,
            rx_checksum: ChecksumPolicy::Verify,
        }],
        limits: Limits { connections: 16, time_wait: 16, ..Limits::default() },
        stop_limit: Duration::from_secs(1),
    }
}

/// Run until `bytes` have been received in all; returns the allocations that it took.
fn run(
    stacks: &mut [Stack<MemDevice>; 2],
    now: &mut Instant,
    moved: &Cell<u64>,
    bytes: u64,
) -> u64 {
    let before = ALLOCATOR.allocations();
    for _ in 0..10_000_000 {
        if moved.get() >= bytes {
            return ALLOCATOR.allocations() - before;
        }
        let mut busy = false;
        let mut next: Option<Instant> = None;
        for stack in stacks.iter_mut() {
            let turn = stack.turn(*now, &mut std::iter::empty(), &mut |_| Ok(()));
            busy |= turn.pending || turn.work > 0;
            next = [next, turn.next_deadline].into_iter().flatten().min();
        }
        // A turn takes a while, as it does in a worker.
        *now += Duration::from_micros(10);
        if !busy {
            *now = next.expect("something is waited for").max(*now);
        }
    }
    panic!("no progress: {} of {bytes} bytes", moved.get());
}

fn measure(mtu: u16, request: bool) {
    let mem = |last| MemConfig { mac: [2, 0, 0, 0, 0, last], mtu, ..MemConfig::default() };
    let (a, b) = MemDevice::pair(&mem(1), &mem(2));
    let moved = Rc::new(Cell::new(0));
    let app = |connect| {
        let moved = Rc::clone(&moved);
        Box::new(Load { connect, request, moved })
    };
    let remote = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 7);
    let params = || std::sync::Arc::new(StackParams::default());
    let mut stacks = [
        Stack::new(config(1, mtu), params(), vec![a], SeededRandom::new(1), app(Some(remote))),
        Stack::new(config(2, mtu), params(), vec![b], SeededRandom::new(2), app(None)),
    ];
    let mut now = Instant::from_millis(1);
    stacks[1].turn(now, &mut std::iter::empty(), &mut |_| Ok(()));
    let (warm, end) = if request { (64 * 2000, 64 * 20_000) } else { (64 << 20, 192 << 20) };
    assert!(run(&mut stacks, &mut now, &moved, warm) > 0, "the counter counts");
    let segments = stacks[1].tcp_counters().in_segs;
    let allocations = run(&mut stacks, &mut now, &moved, end);
    let segments = stacks[1].tcp_counters().in_segs - segments;
    assert!(segments > 5000, "{segments} segments are too few to tell");
    assert_eq!(allocations, 0, "for {segments} segments, MTU {mtu}");
}

// One test, since the allocator counts for all threads of the program.
#[test]
fn steady_state_allocates_nothing() {
    measure(1500, false);
    measure(9000, false);
    measure(1500, true);
}
