//! Two connections joined by a link that loses, delays, reorders and duplicates, in virtual time.
//!
//! Bytes are positions: what matters is that each position arrives once and in order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use base::{Instant, Random, SeededRandom, TcpFlags};
use tcp::{CloseReason, Connection, Disposition, Event, Opening, PlanKind, Segment, SeqNum, State};

use super::{World, at_ms, connect, opening, segments_of};

/// A ceiling on steps turns a livelock into a failure.
const STEPS_MAX: u64 = 2_000_000;

#[derive(Clone, Debug)]
pub struct Path {
    pub delay: Duration,
    pub jitter: Duration,
    /// Of 10000.
    pub loss: u32,
    pub duplicate: u32,
    /// Bytes per second; zero: no limit.
    pub rate: u64,
    /// Bytes that wait for the link at most.
    pub queue: u64,
}

impl Path {
    pub fn clean(delay: Duration) -> Self {
        Self { delay, jitter: Duration::ZERO, loss: 0, duplicate: 0, rate: 0, queue: u64::MAX }
    }
}

/// How the application at one end behaves.
#[derive(Clone, Debug)]
pub struct App {
    pub total: u64,
    /// Bytes per write at most.
    pub write_max: u32,
    /// Bytes per read at most, and the pause between reads (zero: reads at once, all).
    pub read_max: u32,
    pub read_pause: Duration,
}

pub struct Host {
    pub world: World,
    pub conn: Connection,
    pub app: App,
    written: u64,
    pub read: u64,
    closed: bool,
    pub end: Option<(CloseReason, bool)>,
    peer_closed: bool,
    next_read: Instant,
    next_write: Instant,
    /// Positions kept, by start; never overlapping.
    kept: BTreeMap<u64, u64>,
    irs: SeqNum,
    iss: SeqNum,
    rcv_pos: u64,
    snd_una_pos: u64,
    /// Right edge offered: position, monotonic.
    edge: u64,
    /// Right edge that the peer has offered us, as far as it arrived or not.
    rcv_wscale: u8,
    /// The device takes at most so many segments per burst and sometimes fewer.
    pub device: u32,
    busy_until: Instant,
    now: Instant,
}

impl Host {
    fn new(seed: u64, now: Instant, opening: &Opening, params: tcp::TcpParams, app: App) -> Self {
        let mut world = World::new(seed);
        world.params = params;
        let conn = connect(&mut world, now, opening);
        Self {
            world,
            conn,
            app,
            written: 0,
            read: 0,
            closed: false,
            end: None,
            peer_closed: false,
            next_read: now,
            next_write: now,
            kept: BTreeMap::new(),
            irs: opening.irs,
            iss: opening.iss,
            rcv_pos: 0,
            snd_una_pos: 0,
            edge: u64::from(opening.rcv_wnd),
            rcv_wscale: opening.rcv_wscale,
            device: 64,
            busy_until: now,
            now,
        }
    }

    /// A sequence number of the peer's stream as a position near `rcv_pos`.
    fn position(&self, seq: SeqNum) -> u64 {
        let near = self.irs.add(1).add(self.rcv_pos as u32);
        self.rcv_pos.checked_add_signed(i64::from(seq.distance_from(near))).expect("before start")
    }

    fn receive(&mut self, now: Instant, seg: &Segment) {
        let disposition = self.conn.on_segments(&mut self.world.cx(now), seg);
        if let Some(from) = self.conn.take_pruned() {
            let from = self.position(from);
            self.kept.retain(|start, _| *start < from);
        }
        if let Disposition::Keep(keep) = disposition {
            assert!(keep.len > 0 && keep.skip + keep.len <= seg.len, "{keep:?} of {seg:?}");
            assert_eq!(keep.seq, seg.seq.add(keep.skip));
            let start = self.position(keep.seq);
            let end = start + u64::from(keep.len);
            assert_eq!(keep.in_order, start == self.rcv_pos, "{keep:?}");
            let before = self.kept.range(..=start).next_back().map_or(0, |(_, e)| *e);
            let after = self.kept.range(start..).next().map_or(u64::MAX, |(s, _)| *s);
            assert!(before <= start && end <= after, "bytes kept twice: {keep:?}");
            self.kept.insert(start, end);
        }
        let rcv_pos = self.position(self.conn.rcv_nxt());
        assert!(rcv_pos >= self.rcv_pos, "rcv_nxt went back");
        while self.rcv_pos < rcv_pos {
            let end = self.kept.remove(&self.rcv_pos).expect("rcv_nxt moved past a hole");
            self.rcv_pos = end;
        }
        assert_eq!(self.rcv_pos, rcv_pos, "rcv_nxt inside a kept piece");
        self.count_memory();
        let una = self.conn.snd_una().distance_from(self.iss.add(1).add(self.snd_una_pos as u32));
        self.snd_una_pos = self.snd_una_pos.checked_add_signed(i64::from(una)).expect("una");
    }

    /// Memory is twice the payload here.
    fn count_memory(&mut self) {
        let beyond: u64 = self.kept.iter().map(|(start, end)| end - start).sum();
        self.conn.set_receive_memory(2 * (self.rcv_pos - self.read + beyond) as u32);
    }

    fn run_app(&mut self, now: Instant) {
        self.now = now;
        while let Some(event) = self.conn.poll_event() {
            match event {
                Event::Readable | Event::Writable => {}
                Event::PeerClosed => self.peer_closed = true,
                Event::Closed { reason, time_wait } => self.end = Some((reason, time_wait)),
            }
        }
        let mut cx = self.world.cx(now);
        while self.written < self.app.total && now >= self.next_write {
            let room = self.conn.send_room(&cx, u32::MAX);
            let want = (self.app.total - self.written).min(u64::from(self.app.write_max)) as u32;
            let len = want.min(room);
            if len == 0 {
                self.conn.want_writable();
                break;
            }
            if self.conn.send(&mut cx, len, false).is_err() {
                break;
            }
            self.written += u64::from(len);
            if self.app.write_max < 10_000 {
                self.next_write = now + Duration::from_micros(300);
                break;
            }
        }
        if self.written >= self.app.total && !self.closed {
            self.closed = true;
            self.conn.close(&mut cx, false);
        }
        if self.read < self.rcv_pos && now >= self.next_read {
            let len = (self.rcv_pos - self.read).min(u64::from(self.app.read_max)) as u32;
            self.read += u64::from(len);
            self.count_memory();
            self.conn.consume(&mut self.world.cx(now), len);
            self.next_read = now + self.app.read_pause;
        }
    }

    fn wakeup(&self) -> Option<Instant> {
        let read = (self.read < self.rcv_pos).then_some(self.next_read);
        let write = (self.written < self.app.total && self.end.is_none())
            .then_some(self.next_write)
            .filter(|at| *at > self.now);
        [self.conn.next_deadline(), read, write].into_iter().flatten().min()
    }

    pub fn is_done(&self) -> bool {
        self.end.is_some()
    }
}

pub struct Link {
    pub now: Instant,
    pub hosts: [Host; 2],
    pub path: Path,
    pub random: SeededRandom,
    flying: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    segments: BTreeMap<u64, Segment>,
    serial: u64,
    free_at: [Instant; 2],
    pub lost: u64,
    /// Every segment given to the link, in numbers relative to where streams and clocks begin.
    pub log: Option<Vec<String>>,
    clocks: [u32; 2],
    pub trace: bool,
    /// Merge the segments of one plan to a run.
    pub merge: bool,
    /// Sometimes the device refuses.
    pub refuse: bool,
    /// Buffers run short now and then.
    pub pressure: bool,
    /// A router says now and then that packets are too big.
    pub hints: bool,
    pub cwnd_max: u32,
}

pub struct Setup {
    pub seed: u64,
    pub iss: [u32; 2],
    /// Offsets of the two timestamp clocks.
    pub clocks: [u32; 2],
    pub path: Path,
    pub apps: [App; 2],
    pub sack: bool,
    pub timestamps: bool,
    pub mtu: u16,
    pub params: tcp::TcpParams,
}

impl Link {
    pub fn new(setup: Setup) -> Self {
        let now = at_ms(0);
        let Setup { seed, iss, clocks, path, apps, sack, timestamps, mtu, params } = setup;
        let [app_a, app_b] = apps;
        let host = |i: usize, app: App| {
            let mut o = opening(iss[i], iss[1 - i]);
            o.snd_wscale = 10;
            o.path.mtu = mtu;
            o.peer_mss = Some(mtu - 40);
            o.sack = sack;
            o.path.ts_offset = clocks[i];
            o.ts_recent = timestamps.then(|| (now.as_millis() as u32).wrapping_add(clocks[1 - i]));
            Host::new(seed + i as u64, now, &o, params.clone(), app)
        };
        let hosts = [host(0, app_a), host(1, app_b)];
        Self {
            now,
            hosts,
            path,
            random: SeededRandom::new(seed),
            flying: BinaryHeap::new(),
            segments: BTreeMap::new(),
            serial: 0,
            free_at: [now; 2],
            lost: 0,
            log: None,
            clocks,
            trace: false,
            merge: false,
            refuse: false,
            pressure: false,
            hints: false,
            cwnd_max: 0,
        }
    }

    fn chance(&mut self, of_10000: u32) -> bool {
        self.random.below(10_000) < of_10000
    }

    fn transmit(&mut self, from: usize, seg: Segment) {
        if let Some(log) = &mut self.log {
            let (ours, theirs) = (self.hosts[from].iss, self.hosts[from].irs);
            let rel = |seq: SeqNum, base: SeqNum| seq.distance_from(base);
            let [our_clock, their_clock] = [self.clocks[from], self.clocks[1 - from]];
            let blocks = seg.options.sack.iter();
            let sack: Vec<_> = blocks.map(|&(a, b)| (rel(a, theirs), rel(b, theirs))).collect();
            let ts = seg.options.timestamps;
            let ts = ts.map(|(v, e)| (v.wrapping_sub(our_clock), e.wrapping_sub(their_clock)));
            log.push(format!(
                "{:?} {from} {} {} {} {} {} {sack:?} {ts:?}",
                self.now,
                seg.flags,
                rel(seg.seq, ours),
                rel(seg.ack, theirs),
                seg.len,
                seg.wnd
            ));
        }
        let size = u64::from(seg.len) + 60 * u64::from(seg.segs);
        if self.chance(self.path.loss) {
            self.lost += 1;
            if self.trace {
                println!("{:?} {from} LOST {seg:?}", self.now);
            }
            return;
        }
        let mut leaves = self.now;
        if self.path.rate > 0 {
            let free = self.free_at[from].max(self.now);
            let waiting = free.since(self.now).as_nanos() as u64 * self.path.rate / 1_000_000_000;
            if waiting > self.path.queue {
                self.lost += 1;
                return;
            }
            leaves = free + Duration::from_nanos(size * 1_000_000_000 / self.path.rate);
            self.free_at[from] = leaves;
        }
        let copies = 1 + u32::from(self.chance(self.path.duplicate));
        for _ in 0..copies {
            let jitter = self.random.below(self.path.jitter.as_micros() as u32 + 1);
            let at = leaves + self.path.delay + Duration::from_micros(u64::from(jitter));
            self.serial += 1;
            self.flying.push(Reverse((at, self.serial, 1 - from)));
            self.segments.insert(self.serial, Segment { arrival: at, ..seg.clone() });
        }
    }

    /// One turn of a host: application, then output.
    fn turn(&mut self, i: usize) {
        if self.pressure {
            let world = &mut self.hosts[i].world;
            world.can_store = self.random.below(20) > 0;
            world.rcv_room = if self.random.below(3) == 0 { 0 } else { self.random.below(50_000) };
        }
        if self.hints && self.random.below(200) == 0 {
            let mtu = 500 + self.random.below(2000) as u16;
            let host = &mut self.hosts[i];
            host.conn.on_path_hint(&mut host.world.cx(self.now), mtu);
        }
        self.hosts[i].run_app(self.now);
        let mut budget = self.hosts[i].device;
        loop {
            let now = self.now;
            let host = &mut self.hosts[i];
            let Some(plan) = host.conn.poll_transmit(&mut host.world.cx(now), budget) else {
                break;
            };
            let segs = plan.segs();
            assert!(segs <= budget.max(1), "more than the budget");
            assert!(plan.len <= 65_160);
            let taken = if self.refuse && self.random.below(8) == 0 {
                self.random.below(segs + 1)
            } else {
                segs
            };
            let host = &mut self.hosts[i];
            if self.trace {
                println!("{now:?} {i} {taken} of {plan:?}");
            }
            host.conn.on_transmitted(&mut host.world.cx(now), &plan, taken);
            if taken > 0 && plan.kind != PlanKind::Reset {
                let edge = host.position(plan.ack) + (u64::from(plan.wnd) << host.rcv_wscale);
                // A FIN counts in `ack` but not in positions; nothing follows it.
                // Told in units; by less than one it may lie below what was offered before.
                let unit = 1 << host.rcv_wscale;
                assert!(edge + unit > host.edge || host.peer_closed, "right edge went back");
                host.edge = host.edge.max(edge);
            }
            let info = host.conn.info(&host.world.cx(now));
            self.cwnd_max = self.cwnd_max.max(info.snd_cwnd);
            let peer = &self.hosts[1 - i];
            if taken > 0 && plan.len > 0 {
                let end = peer.position(plan.seq) + u64::from(plan.len);
                assert!(end <= peer.edge, "sent beyond the window: {end} {} {plan:?}", peer.edge);
            }
            let all = segments_of(&plan, taken, now);
            if self.merge && all.len() > 1 && plan.options.sack.is_empty() {
                let last = all.last().expect("not empty").clone();
                let len = all.iter().map(|s| s.len).sum();
                let run = Segment {
                    seq: plan.seq,
                    len,
                    seg_size: plan.seg_size,
                    segs: all.len() as u16,
                    ..last
                };
                self.transmit(i, run);
            } else {
                for seg in all {
                    self.transmit(i, seg);
                }
            }
            if taken < segs {
                // The stack comes back when the ring has room: a little later.
                self.hosts[i].busy_until = self.now + Duration::from_micros(100);
                break;
            }
            budget = budget.saturating_sub(segs);
            if budget == 0 {
                self.hosts[i].busy_until = self.now + Duration::from_micros(20);
                break;
            }
        }
        self.hosts[i].run_app(self.now);
        self.check(i);
    }

    /// No lost timers: work outstanding means a deadline, or the stack was told to come back.
    fn check(&mut self, i: usize) {
        let now = self.now;
        let host = &mut self.hosts[i];
        if host.end.is_some() {
            return;
        }
        let cx = host.world.cx(now);
        let outstanding = host.conn.info(&cx).unacked > 0 || host.conn.info(&cx).notsent_bytes > 0;
        if outstanding && host.busy_until <= now {
            assert!(
                host.conn.next_deadline().is_some() || host.conn.wants_transmit(&cx),
                "work outstanding and no deadline: {:?}",
                host.conn
            );
        }
    }

    pub fn run(&mut self, limit: Duration) {
        let end = self.now + limit;
        self.turn(0);
        self.turn(1);
        for _ in 0..STEPS_MAX {
            if self.hosts.iter().all(Host::is_done) {
                return;
            }
            let arrival = self.flying.peek().map(|Reverse((at, _, _))| *at);
            let mut next = arrival.unwrap_or(Instant::FAR_FUTURE);
            for host in &mut self.hosts {
                if host.end.is_some() {
                    continue;
                }
                if let Some(at) = host.wakeup() {
                    next = next.min(at);
                }
                if host.busy_until > self.now && host.conn.wants_transmit(&host.world.cx(self.now))
                {
                    next = next.min(host.busy_until);
                }
            }
            assert!(next != Instant::FAR_FUTURE, "deadlock: {:?}", self.states());
            self.now = self.now.max(next);
            assert!(self.now <= end, "too slow: {:?}", self.states());
            let mut touched = [false; 2];
            while let Some(Reverse((at, serial, to))) = self.flying.peek().copied() {
                if at > self.now {
                    break;
                }
                self.flying.pop();
                let seg = self.segments.remove(&serial).expect("in flight");
                if self.hosts[to].end.is_none() {
                    if self.trace {
                        println!("{:?} -> {to} {seg:?}", self.now);
                    }
                    self.hosts[to].receive(self.now, &seg);
                } else if self.hosts[to].conn.state() == State::TimeWait
                    && (seg.len > 0 || seg.flags.fin())
                {
                    self.answer_for_time_wait(to, &seg);
                } else if self.hosts[to].conn.state() != State::TimeWait
                    && let Some(plan) = tcp::reset_for(&seg)
                {
                    for reset in segments_of(&plan, 1, self.now) {
                        self.transmit(to, reset);
                    }
                }
                touched[to] = true;
            }
            for (i, touched) in touched.iter_mut().enumerate() {
                let host = &mut self.hosts[i];
                if host.end.is_some() {
                    continue;
                }
                if host.conn.next_deadline().is_some_and(|at| at <= self.now) {
                    host.conn.on_deadline(&mut host.world.cx(self.now));
                    *touched = true;
                }
                if *touched
                    || host.busy_until <= self.now
                    || host.wakeup().is_some_and(|at| at <= self.now)
                {
                    self.turn(i);
                }
            }
        }
        panic!("too many steps: {:?}", self.states());
    }

    /// The record that the stack keeps would acknowledge the FIN again.
    fn answer_for_time_wait(&mut self, host: usize, seg: &Segment) {
        let mut options = seg.options.clone();
        options.timestamps = seg
            .options
            .timestamps
            .map(|(val, _)| ((self.now.as_millis() as u32).wrapping_add(self.clocks[host]), val));
        let ack = Segment {
            options,
            seq: seg.ack,
            ack: self.hosts[host].conn.rcv_nxt().add(1),
            flags: TcpFlags::ACK,
            len: 0,
            seg_size: 0,
            ..seg.clone()
        };
        self.transmit(host, ack);
    }

    pub fn states(&mut self) -> String {
        let now = self.now;
        self.hosts
            .iter_mut()
            .map(|h| {
                let info = h.conn.info(&h.world.cx(now));
                format!("\nread {} of peer, end {:?}, {info:?}", h.read, h.end)
            })
            .collect()
    }

    pub fn assert_finished(&mut self) {
        let totals = [self.hosts[0].app.total, self.hosts[1].app.total];
        for (i, host) in self.hosts.iter_mut().enumerate() {
            let Some((reason, _)) = host.end else { panic!("host {i} not closed") };
            assert_eq!(reason, CloseReason::Finished, "host {i}");
            assert_eq!(host.rcv_pos, totals[1 - i], "host {i} received");
            assert_eq!(host.snd_una_pos, totals[i], "host {i} acknowledged");
            assert!(host.kept.is_empty());
        }
    }
}
