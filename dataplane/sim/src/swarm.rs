//! Worlds drawn from a seed, to be run with all oracles.
//!
//! Worlds that differ strongly find more than one world with everything a little wrong, so each
//! trait is off in most of them and strong where it is on.

use core::fmt;
use core::time::Duration;

use base::{Instant, Offloads, Random, Rate, SeededRandom};
use config::Profile;
use stack::StackParams;
use tcp::Autotuning;
use tcp::params::CongestionAlgorithm;

use crate::host::HostConfig;
use crate::integrity::{self, Ending, PORT, Plan, SharedLedger};
use crate::link::{LinkConfig, Loss, Policer, Reorder, Room, Share};
use crate::oracle::{Failure, Violation};
use crate::sabotage::Sabotage;
use crate::world::{HostId, LinkId, Way, World};

/// Faults stop at this time if the transfer has not ended before. TCP gives up only after minutes,
/// so whoever has given up in a drawn world has done so without need.
pub const FAULTS_STOP: Duration = Duration::from_secs(40);
/// Once faults have stopped, everything must finish within this time.
pub const LIVENESS_LIMIT: Duration = Duration::from_secs(900);
/// After the last byte, both hosts are quiet within this time: FIN-WAIT and TIME-WAIT.
pub const QUIET_LIMIT: Duration = Duration::from_secs(600);

/// What all pauses of an application together take at most, about.
const PAUSES_LIMIT: Duration = Duration::from_secs(100);

/// A drawn world.
#[derive(Clone, Debug)]
pub struct Draw {
    /// What it was drawn from.
    pub seed: u64,
    /// The family of the addresses is IPv6.
    pub ipv6: bool,
    /// From the client.
    pub forward: LinkConfig,
    /// Towards the client.
    pub reverse: LinkConfig,
    /// The client and the server.
    pub hosts: [HostConfig; 2],
    /// What is transferred.
    pub plan: Plan,
    /// The link goes down, at which time and for how long.
    pub outage: Option<(Duration, Duration)>,
    /// A host (the client, if true) does not run, at which time and for how long.
    pub stall: Option<(bool, Duration, Duration)>,
    /// A deliberate fault of the client.
    pub sabotage: Option<Sabotage>,
}

/// How closely a world is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Run it twice: the traces must be the same.
    Twice,
    /// Keep a line for each frame.
    Trace,
    /// The same, and the frames themselves.
    Capture,
}

/// What was seen of a world.
#[derive(Clone, Debug, Default)]
pub struct Witness {
    /// What it was drawn from.
    pub seed: u64,
    /// Connections.
    pub flows: u32,
    /// How long it lasted, virtual seconds.
    pub seconds: f64,
    /// Hash of its trace, hexadecimal.
    pub trace: String,
    /// Which oracle has found something.
    pub oracle: Option<&'static str>,
    /// What, with the last frames.
    pub failure: Option<String>,
    /// A line for each frame, with [`Watch::Trace`].
    pub lines: Option<Vec<String>>,
    /// A file in pcap format, with [`Watch::Capture`].
    pub pcap: Option<Vec<u8>>,
}

impl Witness {
    /// Of a world in which an invariant broke.
    pub fn panicked(seed: u64, what: &str) -> Self {
        let failure = Some(format!("seed {seed}: an invariant is broken: {what}"));
        Self { seed, oracle: Some("invariant"), failure, ..Self::default() }
    }
}

/// A generator with words for choices.
struct Dice(SeededRandom);

impl Dice {
    fn one_in(&mut self, n: u32) -> bool {
        self.0.below(n) == 0
    }

    /// Uniform, both ends included.
    fn range(&mut self, low: u64, high: u64) -> u64 {
        low + ((u128::from(self.0.next_u64()) * u128::from(high - low + 1)) >> 64) as u64
    }

    /// Each order of magnitude as likely as the others.
    fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        let bits = self.range(u64::from(low.max(1).ilog2()), u64::from(high.ilog2()));
        let base = 1u64 << bits;
        self.range(base, base * 2 - 1).clamp(low, high)
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.0.below(choices.len() as u32) as usize]
    }

    fn micros(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.magnitude(low, high))
    }
}

impl Draw {
    /// The world of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut dice = Dice(SeededRandom::new(seed ^ 0x73_7761_726D));
        let mtu = dice.of(&[1280, 1500, 1500, 1500, 4000, 9000]);
        let base = path(&mut dice, mtu);
        let forward = faults(&mut dice, base);
        let reverse = if dice.one_in(2) {
            faults(&mut dice, base)
        } else if dice.one_in(4) {
            let other = path(&mut dice, mtu);
            faults(&mut dice, other)
        } else {
            LinkConfig { mtu, ..base }
        };
        let hosts = ["client", "server"].map(|name| host(&mut dice, name, mtu));
        // What a slow world can carry in a few minutes.
        let slowest = forward.rate.min(reverse.rate).bytes_per_sec();
        let harm = [forward, reverse].iter().any(|c| c.loss != Loss::None);
        let most = (slowest.saturating_mul(20)).min(if harm { 1_000_000 } else { 8_000_000 });
        let plan = plan(&mut dice, most);
        let outage =
            dice.one_in(6).then(|| (dice.micros(1000, 4_000_000), dice.micros(1000, 8_000_000)));
        let stall = dice
            .one_in(6)
            .then(|| (dice.one_in(2), dice.micros(1000, 2_000_000), dice.micros(1000, 1_000_000)));
        let ipv6 = dice.one_in(2);
        let sabotage = None;
        let mut draw = Self { seed, ipv6, forward, reverse, hosts, plan, outage, stall, sabotage };
        draw.draw_marks();
        draw.draw_variants();
        draw
    }

    /// Who speaks ECN, and which queues mark. From dice of their own, so that worlds stay what they were in all
    /// else.
    fn draw_marks(&mut self) {
        let mut dice = Dice(SeededRandom::new(self.seed ^ 0x65_636E));
        for host in &mut self.hosts {
            let tcp = &mut host.params.tcp;
            tcp.ecn = dice.of(&[0, 1, 1, 2]);
            tcp.ecn_fallback = dice.one_in(2);
            if dice.one_in(4) {
                tcp.congestion = CongestionAlgorithm::Dctcp;
                tcp.dctcp_shift_g = dice.range(0, 10) as u8;
                tcp.dctcp_alpha_on_init = dice.range(0, 1024) as u16;
            }
        }
        for link in [&mut self.forward, &mut self.reverse] {
            if dice.one_in(2) {
                link.ecn_mark = Some(Room::Packets(dice.magnitude(1, 200) as u32));
            }
        }
    }

    /// Knobs of the receiver and of recovery, and policers; likewise.
    fn draw_variants(&mut self) {
        let mut dice = Dice(SeededRandom::new(self.seed ^ 0x006C_6174_6572));
        for link in [&mut self.forward, &mut self.reverse] {
            if dice.one_in(8) && link.rate != Rate::UNLIMITED {
                let burst = dice.magnitude(20_000, 1 << 20);
                link.policer = Some(Policer { rate: link.rate, burst });
            }
        }
        for host in &mut self.hosts {
            let tcp = &mut host.params.tcp;
            if dice.one_in(3) {
                tcp.autotuning = dice.of(&[Autotuning::Legacy, Autotuning::Smooth]);
            }
            if dice.one_in(3) {
                tcp.recovery = dice.range(0, 7) as u8;
                tcp.frto = dice.of(&[0, 2]);
                tcp.early_retrans = dice.of(&[0, 3]);
                tcp.reordering = dice.of(&[1, 3, 30]);
            }
        }
    }

    /// The same world with a deliberate fault.
    pub fn sabotaged(self, sabotage: Option<Sabotage>) -> Self {
        Self { sabotage, ..self }
    }

    /// Run it with all oracles.
    pub fn witness(&self, watch: Watch) -> Witness {
        let (mut world, ledger) = self.build();
        if watch != Watch::Twice {
            world.keep_all_lines();
        }
        if watch == Watch::Capture {
            world.capture();
        }
        let failure = self.run(&mut world, &ledger).err();
        let trace = format!("{:016x}", world.trace_hash().value());
        let mut witness = Witness {
            seed: self.seed,
            flows: self.plan.flows,
            seconds: world.now().since(Instant::ZERO).as_secs_f64(),
            oracle: failure.as_ref().map(|f| f.violation.oracle()),
            lines: (watch != Watch::Twice).then(|| world.last_frames()),
            pcap: world.pcap().map(<[u8]>::to_vec),
            failure: failure.map(|f| match watch {
                // All lines are there already.
                Watch::Trace | Watch::Capture => f.without_frames().to_string(),
                Watch::Twice => f.to_string(),
            }),
            trace,
        };
        if watch == Watch::Twice && witness.failure.is_none() {
            let (mut again, ledger) = self.build();
            let _ = self.run(&mut again, &ledger);
            let trace = format!("{:016x}", again.trace_hash().value());
            if trace != witness.trace {
                let (seed, first) = (self.seed, &witness.trace);
                witness.failure =
                    Some(format!("seed {seed}: two runs differ: {first} and {trace}"));
                witness.oracle = Some("determinism");
            }
        }
        witness
    }

    /// The world, ready to run, with the ledger of its transfer.
    pub fn build(&self) -> (World, SharedLedger) {
        let mut world = World::new(self.seed);
        let server = if self.ipv6 {
            ([0xfd00, 0, 0, 0, 0, 0, 0, 2], PORT).into()
        } else {
            ([10, 0, 0, 2], PORT).into()
        };
        let (client, server, ledger) = integrity::pair(server, self.plan);
        let [a, b] = &self.hosts;
        let a = HostConfig { sabotage: self.sabotage, ..a.clone() };
        let a = world.add_host(a, client);
        let b = world.add_host(b.clone(), server);
        let link = world.connect_ways(a, b, self.forward, self.reverse);
        self.time_line(&mut world, [a, b], link);
        (world, ledger)
    }

    fn time_line(&self, world: &mut World, [a, b]: [HostId; 2], link: LinkId) {
        if let Some((at, time)) = self.outage {
            let at = Instant::ZERO + at;
            world.at(at, move |w| w.set_up(link, false));
            world.at(at + time, move |w| w.set_up(link, true));
        }
        if let Some((client, at, time)) = self.stall {
            let host = if client { a } else { b };
            let at = Instant::ZERO + at;
            world.at(at, move |w| w.stall(host, at + time));
        }
        world.at(Instant::ZERO + FAULTS_STOP, World::heal);
    }

    /// Run it with all oracles, in a world that [`Draw::build`] has made.
    ///
    /// # Errors
    ///
    /// What an oracle has found.
    pub fn run(&self, world: &mut World, ledger: &SharedLedger) -> Result<(), Failure> {
        let flows = self.plan.flows;
        let limit = Instant::ZERO + FAULTS_STOP + LIVENESS_LIMIT;
        let what = format!("{flows} connections of the integrity test ended");
        let over = world.expect_by(limit, &what, |_| ledger.borrow().is_over(flows));
        // What the ledger has seen says more than that time is up.
        if let Some(detail) = ledger.borrow().violations.first().cloned() {
            return Err(world.failure(Violation::Integrity { detail }));
        }
        over?;
        if let Err(detail) = ledger.borrow().check(&self.plan) {
            return Err(world.failure(Violation::Integrity { detail }));
        }
        world.expect_quiet(QUIET_LIMIT)
    }
}

/// Rate, delay and queue.
fn path(dice: &mut Dice, mtu: u16) -> LinkConfig {
    let bits = dice.magnitude(256_000, 1_000_000_000);
    let rate = if dice.one_in(4) { Rate::UNLIMITED } else { Rate::from_bits_per_sec(bits) };
    let delay = if dice.one_in(8) { Duration::ZERO } else { dice.micros(10, 200_000) };
    LinkConfig {
        rate,
        delay,
        jitter: if dice.one_in(3) { dice.micros(1, 20_000) } else { Duration::ZERO },
        // A few full frames at least, or nothing larger would ever queue.
        queue: Room::Bytes(dice.magnitude(4 * (u64::from(mtu) + 18), 4 << 20)),
        mtu,
        ..LinkConfig::default()
    }
}

/// What harms frames.
fn faults(dice: &mut Dice, path: LinkConfig) -> LinkConfig {
    let mut config = path;
    let ppm = |dice: &mut Dice, high| Share::from_ppm(dice.magnitude(100, high) as u32);
    config.loss = match dice.range(0, 5) {
        0 | 1 => Loss::Random(ppm(dice, 120_000)),
        2 => Loss::bursts(ppm(dice, 30_000), dice.range(2, 20) as u32),
        _ => Loss::None,
    };
    if dice.one_in(3) {
        config.reorder = Reorder { p: ppm(dice, 300_000), by: dice.micros(10, 50_000) };
    }
    if dice.one_in(4) {
        config.duplicate = ppm(dice, 300_000);
    }
    if dice.one_in(4) {
        config.corrupt = ppm(dice, 50_000);
    }
    config
}

fn host(dice: &mut Dice, name: &str, mtu: u16) -> HostConfig {
    let profile = dice.of(&[Profile::Linux, Profile::Millrace]);
    let mut config = HostConfig::new(name, profile);
    config.mtu = mtu;
    config.buffers = dice.of(&[64, 128, 512, 4096, 4096, 4096]);
    config.tx_ring = dice.of(&[4, 32, 512, 512, 512]);
    config.offloads = offloads(dice);
    knobs(dice, &mut config.params);
    config
}

fn offloads(dice: &mut Dice) -> Offloads {
    let tx = dice.one_in(2);
    let rx = dice.one_in(2);
    let multi_segment = !dice.one_in(4);
    Offloads {
        rx_ip_checksum: rx,
        rx_tcp_checksum: rx,
        rx_udp_checksum: rx,
        tx_ip_checksum: tx,
        tx_tcp_checksum: tx,
        tx_udp_checksum: tx,
        tso: tx && multi_segment && dice.one_in(2),
        multi_segment,
    }
}

fn knobs(dice: &mut Dice, params: &mut StackParams) {
    let tcp = &mut params.tcp;
    // An unlucky neighbour discovery and an outage together may take minutes.
    tcp.syn_retries = 12;
    tcp.synack_retries = 12;
    // Without timestamps a timer that has backed off stays so for long: orphans would give up early,
    // and last acknowledgements could come after TIME-WAIT.
    tcp.orphan_retries = 15;
    tcp.rto_max = Duration::from_secs(10);
    tcp.window_scaling = !dice.one_in(4);
    tcp.timestamps = !dice.one_in(3);
    tcp.timestamp_offset = !dice.one_in(3);
    tcp.sack = !dice.one_in(4);
    tcp.dsack = !dice.one_in(4);
    tcp.congestion = dice.of(&[CongestionAlgorithm::Cubic, CongestionAlgorithm::Reno]);
    tcp.moderate_rcvbuf = !dice.one_in(4);
    tcp.slow_start_after_idle = !dice.one_in(3);
    tcp.initial_cwnd = dice.of(&[1, 2, 10, 10, 10, 64]);
    if dice.one_in(4) {
        tcp.rmem[1] = dice.magnitude(4096, 1 << 20) as u32;
        tcp.rmem[2] = tcp.rmem[1].max(dice.magnitude(4096, 32 << 20) as u32);
    }
    if dice.one_in(4) {
        tcp.wmem[1] = dice.magnitude(4096, 1 << 20) as u32;
        tcp.wmem[2] = tcp.wmem[1].max(dice.magnitude(4096, 4 << 20) as u32);
    }
    if dice.one_in(3) {
        params.gso_max = dice.magnitude(1, 65_535) as u32;
    }
}

fn plan(dice: &mut Dice, most: u64) -> Plan {
    let flows = dice.of(&[1, 1, 1, 2, 5, 20]);
    let each = most / u64::from(flows);
    let mut amount = || match dice.range(0, 5) {
        0 => 0,
        1 | 2 => dice.magnitude(1, each.max(1)),
        _ => dice.range(each / 4, each),
    };
    let (up, down) = (amount(), amount());
    let pauses = dice.one_in(3);
    let plan = Plan {
        flows,
        stagger: if dice.one_in(2) { dice.micros(10, 100_000) } else { Duration::ZERO },
        up,
        down,
        write_max: dice.of(&[100, 1460, 16_384, 65_536, 65_536]),
        read_max: dice.of(&[500, 4096, 65_536, u32::MAX, u32::MAX]),
        pause: if pauses { Share::percent(dice.range(1, 10) as u32) } else { Share::ZERO },
        pause_max: if pauses { dice.micros(100, 300_000) } else { Duration::ZERO },
        sleep: dice.one_in(5).then(|| (dice.range(0, up), dice.micros(1_000, 20_000_000))),
        ending: dice.of(&[Ending::HalfClose, Ending::Close]),
        ..Plan::default()
    };
    let carried = bytes_within(&plan, PAUSES_LIMIT);
    Plan { up: up.min(carried), down: down.min(carried), ..plan }
}

/// Bytes that applications which pause as `plan` says carry in about this time.
fn bytes_within(plan: &Plan, time: Duration) -> u64 {
    // Sizes and pauses are uniform: half of the longest on average.
    let pause_ns = plan.pause_max.as_nanos() * u128::from(plan.pause.ppm()) / 2_000_000;
    let calls = time.as_nanos().checked_div(pause_ns).unwrap_or(u128::MAX);
    let bytes = calls.saturating_mul(u128::from(plan.write_max.min(plan.read_max) / 2));
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

impl fmt::Display for Draw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, ipv6, forward, reverse, hosts, plan, outage, stall, sabotage } = self;
        writeln!(f, "world {seed}, {}", if *ipv6 { "IPv6" } else { "IPv4" })?;
        for (way, link) in Way::BOTH.iter().zip([forward, reverse]) {
            writeln!(f, "  {way:?} {link:?}")?;
        }
        for host in hosts {
            let HostConfig { name, mtu, buffers, tx_ring, offloads, params, .. } = host;
            writeln!(f, "  host {name}: mtu {mtu}, {buffers} buffers, tx ring {tx_ring}")?;
            writeln!(f, "    {offloads:?}")?;
            writeln!(f, "    {params:?}")?;
        }
        writeln!(f, "  {plan:?}")?;
        write!(f, "  outage {outage:?}, stall {stall:?}")?;
        sabotage.map_or(Ok(()), |fault| write!(f, "\n  the client is sabotaged: {fault}"))
    }
}
