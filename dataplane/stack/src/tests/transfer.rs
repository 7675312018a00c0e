//! Two stacks and what lies between them: every byte arrives once, in order, and every buffer comes
//! home.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use base::mem::{MemConfig, MemDevice};
use base::{Device, Instant, Offloads, Random, SeededRandom};
use tcp::{CloseReason, ConnOptions};

use super::fixture::*;
use crate::{AppEvent, Io, Local, Stack, StackConfig, StackParams};

/// What one end has done so far.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) sent: u64,
    pub(super) received: u64,
    shut: bool,
    end: bool,
    pub(super) connected: bool,
    pub(super) closed: Option<CloseReason>,
}

/// Byte `at` of a stream; never the same at the distances at which segments get mixed up.
fn byte(salt: u8, at: u64) -> u8 {
    (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8 ^ salt
}

/// How an end of a transfer behaves.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    /// Bytes to send.
    pub(super) total: u64,
    /// Bytes per call of `send`.
    pub(super) write: usize,
    /// Bytes read per event at most.
    pub(super) read: usize,
    pub(super) nodelay: bool,
}

impl Plan {
    pub(super) const fn bulk(total: u64) -> Self {
        Self { total, write: 32_768, read: usize::MAX, nodelay: false }
    }
}

fn drive(io: &mut dyn Io, conn: base::ConnId, p: &mut Progress, plan: &Plan, salts: [u8; 2]) {
    let mut buffer = std::vec![0; plan.write];
    while p.sent < plan.total {
        let n = plan.write.min((plan.total - p.sent) as usize);
        for (i, b) in buffer.iter_mut().enumerate().take(n) {
            *b = byte(salts[0], p.sent + i as u64);
        }
        match io.send(conn, &buffer[..n], false) {
            Ok(taken) => {
                p.sent += taken as u64;
                if taken < n {
                    break;
                }
            }
            Err(e) => panic!("send refused after {} bytes: {e:?}", p.sent),
        }
    }
    if p.sent == plan.total && !p.shut {
        p.shut = true;
        io.shutdown(conn);
    }
}

fn read(io: &mut dyn Io, conn: base::ConnId, p: &mut Progress, plan: &Plan, salts: [u8; 2]) {
    let mut left = plan.read;
    let received = &mut p.received;
    let result = io.recv(conn, &mut |slice| {
        let n = slice.len().min(left);
        for &b in &slice[..n] {
            assert_eq!(b, byte(salts[1], *received), "byte {received} is wrong");
            *received += 1;
        }
        left -= n;
        n
    });
    let result = result.expect("a live connection");
    p.end |= result.end;
    if result.left > 0 {
        // Slow readers come back later.
        assert!(io.set_timer(u64::from(conn.slot), io.now() + Duration::from_millis(3)));
    }
}

/// One end: the server if `connect` is `None`.
pub(super) fn end(
    progress: &Rc<RefCell<Progress>>,
    plan: Plan,
    connect: Option<SocketAddr>,
) -> impl FnMut(&mut dyn Io, AppEvent) + 'static {
    let progress = Rc::clone(progress);
    let salts = if connect.is_some() { [0x55, 0xaa] } else { [0xaa, 0x55] };
    let mut current = None;
    move |io, event| {
        let p = &mut *progress.borrow_mut();
        let options = ConnOptions { nodelay: plan.nodelay, ..ConnOptions::default() };
        match event {
            AppEvent::Start => match connect {
                None => {
                    io.listen(None, 5001, 16, &options).unwrap();
                }
                Some(remote) => current = Some(io.connect(remote, Local::ANY, &options).unwrap()),
            },
            AppEvent::Accepted { conn, .. } | AppEvent::Connected { conn } => {
                current = Some(conn);
                p.connected = true;
                drive(io, conn, p, &plan, salts);
            }
            AppEvent::Readable { conn } | AppEvent::PeerClosed { conn } => {
                read(io, conn, p, &plan, salts);
            }
            AppEvent::Writable { conn } => drive(io, conn, p, &plan, salts),
            AppEvent::Timer { .. } => {
                if let Some(conn) = current.filter(|_| p.closed.is_none()) {
                    read(io, conn, p, &plan, salts);
                }
            }
            AppEvent::Closed { reason, .. } => {
                assert!(p.closed.is_none(), "closed twice");
                p.closed = Some(reason);
            }
            _ => {}
        }
    }
}

pub(super) struct World {
    pub(super) stacks: [Stack<MemDevice>; 2],
    pub(super) progress: [Rc<RefCell<Progress>>; 2],
    full: [(u32, usize); 2],
    pub(super) now: Instant,
    link: Option<Link>,
}

/// A path that mistreats frames.
struct Link {
    random: SeededRandom,
    /// Of 1000 frames.
    loss: u32,
    duplicate: u32,
    reorder: u32,
    delay: Duration,
    /// Frames under way in each direction, with the time of arrival.
    wire: [VecDeque<(Instant, Vec<u8>)>; 2],
}

#[derive(Clone, Copy)]
pub(super) struct Setup {
    pub(super) mem: MemConfig,
    pub(super) mtu: u16,
    pub(super) ipv6: bool,
    pub(super) plans: [Plan; 2],
    pub(super) seed: u64,
}

impl Setup {
    pub(super) fn new(total: u64) -> Self {
        Self {
            mem: MemConfig { buffers: 2048, ..MemConfig::default() },
            mtu: 1500,
            ipv6: false,
            plans: [Plan::bulk(total), Plan::bulk(total)],
            seed: 1,
        }
    }

    pub(super) fn build(self, joined: bool) -> World {
        let mem = |last: u8| MemConfig { mac: [2, 0, 0, 0, 0, last], mtu: self.mtu, ..self.mem };
        let (a, b) = if joined {
            MemDevice::pair(&mem(1), &mem(2))
        } else {
            (MemDevice::detached(&mem(1)), MemDevice::detached(&mem(2)))
        };
        let full = [&a, &b].map(|d| (d.buffers().free, d.header_buffers_free()));
        let remote: IpAddr = if self.ipv6 { PEER_IP6.into() } else { PEER_IP.into() };
        let progress: [Rc<RefCell<Progress>>; 2] = Default::default();
        let stack = |device, last, app: Box<dyn crate::App>| {
            let config: StackConfig = stack_config(last, self.mtu);
            let random = SeededRandom::new(self.seed * 2 + u64::from(last));
            Stack::new(config, StackParams::default().into(), vec![device], random, app)
        };
        let client = end(&progress[0], self.plans[0], Some(SocketAddr::new(remote, 5001)));
        let server = end(&progress[1], self.plans[1], None);
        let mut stacks =
            [stack(a, 1, Box::new(FnApp(client))), stack(b, 2, Box::new(FnApp(server)))];
        // The server listens first.
        stacks[1].turn(Instant::from_millis(1000), &mut core::iter::empty(), &mut |_| Ok(()));
        World { stacks, progress, full, now: Instant::from_millis(1000), link: None }
    }

    pub(super) fn lossy(self, loss: u32, duplicate: u32, reorder: u32) -> World {
        let mut world = self.build(false);
        world.link = Some(Link {
            random: SeededRandom::new(self.seed),
            loss,
            duplicate,
            reorder,
            delay: Duration::from_millis(5),
            wire: Default::default(),
        });
        world
    }
}

impl Link {
    /// Move what was sent to the other side. Returns when the next frame arrives.
    fn step(&mut self, now: Instant, stacks: &mut [Stack<MemDevice>; 2]) -> Option<Instant> {
        for from in 0..2 {
            while let Some(frame) = stacks[from].device_mut().take_sent() {
                if self.random.below(1000) < self.loss {
                    continue;
                }
                let copies = 1 + u32::from(self.random.below(1000) < self.duplicate);
                for _ in 0..copies {
                    let late = self.random.below(1000) < self.reorder;
                    let jitter = Duration::from_micros(self.random.below(3000).into());
                    let at = now + self.delay + if late { jitter } else { Duration::ZERO };
                    let place = self.wire[from].partition_point(|(t, _)| *t <= at);
                    self.wire[from].insert(place, (at, frame.to_vec()));
                }
            }
            while let Some((at, bytes)) = self.wire[from].front() {
                // A full pool loses frames, as a full ring of a real device does.
                if *at > now {
                    break;
                }
                stacks[1 - from].device_mut().deliver(bytes);
                self.wire[from].pop_front();
            }
        }
        self.wire.iter().filter_map(|w| w.front().map(|(at, _)| *at)).min()
    }
}

impl World {
    /// Turns, and time that passes when nobody has anything to do. False: nothing will happen any
    /// more.
    pub(super) fn step(&mut self) -> bool {
        let arrival = self.link.as_mut().and_then(|link| link.step(self.now, &mut self.stacks));
        let mut next = arrival;
        let mut busy = false;
        for stack in &mut self.stacks {
            let turn = stack.turn(self.now, &mut core::iter::empty(), &mut |_| Ok(()));
            busy |= turn.pending || turn.work > 0;
            next = next.into_iter().chain(turn.next_deadline).min();
        }
        if !busy {
            let Some(at) = next else { return false };
            self.now = self.now.max(at).max(self.now + Duration::from_nanos(1));
        }
        true
    }

    /// Run until both ends are closed, or the world has nothing more to do.
    #[track_caller]
    pub(super) fn finish(&mut self) -> Duration {
        let start = self.now;
        for _ in 0..2_000_000 {
            let done = self.progress.iter().all(|p| p.borrow().closed.is_some());
            if done || !self.step() {
                break;
            }
        }
        let reasons = self.progress.each_ref().map(|p| p.borrow().closed);
        let counts = self.progress.each_ref().map(|p| {
            let p = p.borrow();
            (p.sent, p.received, p.end)
        });
        assert_eq!(
            reasons,
            [Some(CloseReason::Finished); 2],
            "at {:?}: {counts:?}",
            self.now.since(start)
        );
        self.now.since(start)
    }

    /// Let TIME-WAIT pass and look for buffers that did not come home.
    #[track_caller]
    pub(super) fn assert_balanced(&mut self) {
        let end = self.now + Duration::from_secs(130);
        while self.now < end && self.step() {}
        if let Some(link) = &mut self.link {
            link.step(self.now, &mut self.stacks);
        }
        for stack in &mut self.stacks {
            stack.turn(self.now, &mut core::iter::empty(), &mut |_| Ok(()));
            assert_eq!(stack.table(), [0, 0, 0]);
            assert!(stack.holds_no_buffers());
        }
        let level = self
            .stacks
            .each_ref()
            .map(|s| (s.device().buffers().free, s.device().header_buffers_free()));
        assert_eq!(level, self.full);
    }

    #[track_caller]
    pub(super) fn assert_complete(&self, plans: &[Plan; 2]) {
        for (i, p) in self.progress.iter().enumerate() {
            let p = p.borrow();
            assert_eq!((p.sent, p.received), (plans[i].total, plans[1 - i].total));
            assert!(p.end && p.connected);
        }
    }
}

#[track_caller]
fn transfer(setup: Setup) -> World {
    let mut world = setup.build(true);
    world.finish();
    world.assert_complete(&setup.plans);
    world.assert_balanced();
    world
}

const MEGA: u64 = 1 << 20;

#[test]
fn megabytes_both_ways_over_ipv4() {
    let world = transfer(Setup::new(8 * MEGA));
    assert!(world.stacks[0].counters().gro_merged > 100, "bursts are merged");
    for stack in &world.stacks {
        assert_eq!(stack.tcp_counters().retrans_segs, 0, "nothing is lost on this link");
        // Announcements of a neighbour that nobody asked for.
        let announced = stack.drops()[base::DropReason::NeighborIgnored as usize];
        assert_eq!(stack.drops().iter().sum::<u64>(), announced);
    }
}

#[test]
fn megabytes_both_ways_over_ipv6() {
    transfer(Setup { ipv6: true, ..Setup::new(8 * MEGA) });
}

#[test]
fn jumbo_frames_are_chains() {
    for ipv6 in [false, true] {
        transfer(Setup { mtu: 9000, ipv6, ..Setup::new(8 * MEGA) });
    }
}

#[test]
fn flat_frames_when_the_device_takes_no_chains() {
    let mut setup = Setup::new(2 * MEGA);
    setup.mem.offloads = Offloads::default();
    transfer(setup);
    setup.mtu = 9000;
    setup.mem.payload_room = 9216;
    setup.mem.buffers = 512;
    transfer(setup);
}

#[test]
fn odd_sizes_small_writes_and_slow_readers() {
    for (write, read, nodelay) in
        [(1, usize::MAX, true), (77, 1000, false), (1449, 3, true), (5000, 40_000, false)]
    {
        let mut setup = Setup::new(if write < 100 { 20_000 } else { 60_000 });
        for plan in &mut setup.plans {
            (plan.write, plan.read, plan.nodelay) = (write, read, nodelay);
        }
        transfer(setup);
    }
}

#[test]
fn one_way_and_empty_transfers() {
    let mut setup = Setup::new(0);
    transfer(setup);
    setup.plans[0] = Plan::bulk(3 * MEGA);
    transfer(setup);
    setup.plans = [Plan::bulk(0), Plan::bulk(3 * MEGA)];
    transfer(setup);
}

#[test]
fn loss_duplicates_and_reordering() {
    for (seed, ipv6, mtu) in [(1, false, 1500), (2, true, 1500), (3, false, 1000), (4, true, 9000)]
    {
        let mut setup = Setup { seed, ipv6, mtu, ..Setup::new(MEGA) };
        // Frames arrive flat.
        setup.mem.payload_room = 9216;
        let mut world = setup.lossy(20, 20, 50);
        world.finish();
        world.assert_complete(&setup.plans);
        let retransmitted: u64 = world.stacks.iter().map(|s| s.tcp_counters().retrans_segs).sum();
        assert!(retransmitted > 0);
        world.assert_balanced();
    }
}

#[test]
fn heavy_loss_ends_in_time() {
    let setup = Setup { seed: 9, ..Setup::new(100_000) };
    let mut world = setup.lossy(150, 100, 200);
    world.finish();
    world.assert_complete(&setup.plans);
    world.assert_balanced();
}

#[test]
fn h128_h129_a_tiny_pool_slows_down_and_recovers() {
    let mut setup = Setup::new(300_000);
    setup.mem.buffers = 24;
    let mut world = setup.build(true);
    world.finish();
    world.assert_complete(&setup.plans);
    world.assert_balanced();
    let mut world = setup.lossy(10, 10, 10);
    world.finish();
    world.assert_complete(&setup.plans);
    world.assert_balanced();
}

#[test]
fn h130_a_small_ring_refuses_and_nothing_is_lost() {
    let mut setup = Setup::new(MEGA);
    setup.mem.tx_ring = 3;
    let world = transfer(setup);
    assert_eq!(world.stacks[0].tcp_counters().retrans_segs, 0);
}

#[test]
fn one_seed_one_trace() {
    let run = |seed| {
        let setup = Setup { seed, ..Setup::new(200_000) };
        let mut world = setup.lossy(20, 10, 50);
        world.finish();
        let counters =
            world.stacks.each_ref().map(|s| (s.counters().clone(), s.tcp_counters().clone()));
        (world.now, counters)
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5).0, run(6).0);
}

#[test]
fn the_device_that_claims_offloads_gets_the_work() {
    // MemDevice does not do what it claims, so the far end believes the link.
    let offloads =
        Offloads { tx_ip_checksum: true, tx_tcp_checksum: true, tso: true, ..plain_offloads() };
    let mem = MemConfig { offloads, ..mem_config() };
    let progress: Rc<RefCell<Progress>> = Rc::default();
    let script = end(&progress, Plan::bulk(40_000), None);
    let device = MemDevice::detached(&mem);
    let mut stack = Stack::new(
        stack_config(1, 1500),
        StackParams::default().into(),
        vec![device],
        SeededRandom::new(1),
        Box::new(FnApp(script)),
    );
    let now = Instant::from_millis(1);
    let turn = |stack: &mut Stack<MemDevice>, frame: &[u8]| {
        if !frame.is_empty() {
            assert!(stack.device_mut().deliver(frame));
        }
        stack.turn(now, &mut core::iter::empty(), &mut |_| Ok(()));
        let mut sent = Vec::new();
        while let Some(frame) = stack.device_mut().take_sent() {
            sent.push((frame.tx_meta(), frame.to_vec()));
        }
        sent
    };
    turn(&mut stack, &[]);
    turn(&mut stack, &arp_request(PEER_MAC, PEER_IP, OUR_IP));
    let mut syn = seg(base::TcpFlags::SYN, 99, 0).ports(1000, 5001);
    syn.fields.options.mss = Some(1460);
    syn.fields.window = 65_535;
    let sent = turn(&mut stack, &syn.frame());
    let (meta, frame) = &sent[0];
    assert_eq!((meta.l2_len, meta.l3_len, meta.l4), (14, 20, base::L4Offload::Tcp));
    assert!(meta.ip_checksum);
    let iss = u32::from_be_bytes(frame[38..42].try_into().unwrap());
    let sent = turn(
        &mut stack,
        &seg(base::TcpFlags::ACK, 100, iss.wrapping_add(1)).ports(1000, 5001).frame(),
    );
    let big = sent.iter().find(|(_, f)| f.len() > 5000).expect("a super-segment");
    assert_eq!(big.0.tso_segment, 1460);
    let total = u16::from_be_bytes(big.1[16..18].try_into().unwrap());
    assert_eq!(usize::from(total), big.1.len() - 14);
    // The pseudo header without the length, as devices that segment want it.
    let pseudo = wire::checksum::pseudo_v4(OUR_IP, PEER_IP, 6, 0);
    let field = u16::from_be_bytes(big.1[50..52].try_into().unwrap());
    assert_eq!(field, wire::checksum::fold(pseudo));
    for (at, b) in big.1[54..].iter().enumerate() {
        assert_eq!(*b, byte(0xaa, at as u64));
    }
}
