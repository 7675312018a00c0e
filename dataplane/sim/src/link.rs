//! What a link does to frames, one direction at a time.
//!
//! ```text
//!   offered -> up? size? policer? -> drop-tail queue, marks -> transmitter (rate) -> loss -> delay,
//!                                       jitter, reordering, duplication, corruption -> arrives
//! ```
//!
//! [`Direction`] knows neither the world nor a clock: the time comes with each frame, and the answer says
//! when it arrives. So the same model serves virtual and real time.
//!
//! A lost frame has used the transmitter: it is lost on the wire and not before it. Each direction
//! draws from a generator of its own, so that one link's dice do not depend on another's traffic.

use core::time::Duration;
use std::collections::VecDeque;

use base::{Instant, Random, Rate, SeededRandom};
use wire::ethernet::{EtherType, HEADER_LEN};

/// A probability in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u32);

impl Share {
    /// Never.
    pub const ZERO: Self = Self(0);
    /// Always.
    pub const ALL: Self = Self(1_000_000);

    /// So many millionths, at most all.
    pub const fn from_ppm(ppm: u32) -> Self {
        Self(if ppm > Self::ALL.0 { Self::ALL.0 } else { ppm })
    }

    /// So many percent, at most a hundred.
    pub const fn percent(percent: u32) -> Self {
        Self::from_ppm(percent.saturating_mul(10_000))
    }

    /// Millionths.
    pub const fn ppm(self) -> u32 {
        self.0
    }

    /// Throw the dice. Nothing is drawn for a certain outcome.
    pub fn hits(self, random: &mut dyn Random) -> bool {
        match self.0 {
            0 => false,
            ppm if ppm >= Self::ALL.0 => true,
            ppm => random.below(Self::ALL.0) < ppm,
        }
    }
}

/// Frames lost on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each frame by itself.
    Random(Share),
    /// Gilbert and Elliott: two states that are left with these probabilities per frame.
    Bursts {
        /// From the good state, in which nothing is lost, to the bad one.
        good_to_bad: Share,
        /// Back.
        bad_to_good: Share,
        /// Lost in the bad state.
        bad: Share,
    },
}

impl Loss {
    /// A share `p` of all frames, on average `burst` in a row.
    pub fn bursts(p: Share, burst: u32) -> Self {
        let leave = Share::ALL.0 / burst.max(1);
        // In balance, p = enter / (enter + leave).
        let kept = u64::from(Share::ALL.0 - p.0).max(1);
        let enter = u64::from(p.0) * u64::from(leave) / kept;
        Self::Bursts {
            good_to_bad: Share::from_ppm(u32::try_from(enter).unwrap_or(u32::MAX)),
            bad_to_good: Share::from_ppm(leave),
            bad: Share::ALL,
        }
    }
}

/// Frames that are overtaken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reorder {
    /// How many.
    pub p: Share,
    /// How much longer they take.
    pub by: Duration,
}

/// An amount of what waits in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Bytes of frames with their Ethernet headers.
    Bytes(u64),
    /// Frames.
    Packets(u32),
}

impl Room {
    /// Whether `backlog` is more than this.
    pub fn is_exceeded_by(self, backlog: Backlog) -> bool {
        match self {
            Self::Bytes(most) => backlog.bytes > most,
            Self::Packets(most) => backlog.packets > most,
        }
    }
}

/// What waits in a queue, the frame being transmitted included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Bytes of frames with their Ethernet headers.
    pub bytes: u64,
    /// Frames.
    pub packets: u32,
}

/// A token bucket that drops what does not conform, without delaying anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policer {
    /// Of frames with their Ethernet headers.
    pub rate: Rate,
    /// Bytes that may pass at once after a pause.
    pub burst: u64,
}

/// One direction of a link. The names are those of scenario files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// Of frames with their Ethernet header, without preamble and gap.
    pub rate: Rate,
    /// One way.
    pub delay: Duration,
    /// Drop-tail queue, the frame being transmitted included; without meaning at an unlimited rate.
    /// What is queued when the rate changes leaves as it would have.
    pub queue: Room,
    /// Mark Congestion Experienced on ECN-capable packets (RFC 3168) that find more than this, themselves
    /// included; without meaning at an unlimited rate.
    pub ecn_mark: Option<Room>,
    /// In front of the queue.
    pub policer: Option<Policer>,
    /// Largest IP packet in bytes; a larger one is an error of its sender and is dropped.
    pub mtu: u16,
    /// Uniform addition to the delay; order is kept.
    pub jitter: Duration,
    /// On the wire.
    pub loss: Loss,
    /// Frames that are overtaken.
    pub reorder: Reorder,
    /// Frames that arrive twice.
    pub duplicate: Share,
    /// Frames of which one bit behind the Ethernet header is flipped. Those without a checksum of
    /// their own (ARP) are lost instead, as a card would discard them.
    pub corrupt: Share,
    /// Silent cut by IP packet size in bytes, below `mtu`.
    pub drop_larger_than: Option<u16>,
    /// Carrier. What is on the wire when it goes down is lost.
    pub up: bool,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            rate: Rate::UNLIMITED,
            delay: Duration::ZERO,
            queue: Room::Bytes(512 * 1024),
            ecn_mark: None,
            policer: None,
            mtu: 9000,
            jitter: Duration::ZERO,
            loss: Loss::None,
            reorder: Reorder::default(),
            duplicate: Share::ZERO,
            corrupt: Share::ZERO,
            drop_larger_than: None,
            up: true,
        }
    }
}

impl LinkConfig {
    /// The same without anything that harms frames: what remains once faults stop.
    pub fn healed(self) -> Self {
        Self {
            loss: Loss::None,
            reorder: Reorder::default(),
            duplicate: Share::ZERO,
            corrupt: Share::ZERO,
            up: true,
            ..self
        }
    }
}

/// Why a link did not deliver a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkDrop {
    /// No carrier.
    Down,
    /// IP packet larger than the MTU.
    Mtu,
    /// Larger than `drop_larger_than`.
    Size,
    /// Beyond the policer's bucket.
    Policer,
    /// Queue full.
    Queue,
    /// Lost on the wire.
    Loss,
    /// Corrupted, and nothing but the card would notice.
    Corrupt,
}

impl LinkDrop {
    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Down => "link down",
            Self::Mtu => "above the MTU",
            Self::Size => "cut by size",
            Self::Policer => "policed",
            Self::Queue => "queue full",
            Self::Loss => "lost",
            Self::Corrupt => "corrupt beyond notice",
        }
    }
}

/// What one direction has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Frames offered.
    pub offered: u64,
    /// Frames that (will) arrive, duplicates included.
    pub delivered: u64,
    /// Bytes of frames that (will) arrive.
    pub delivered_bytes: u64,
    /// Refused or lost without carrier.
    pub down: u64,
    /// Dropped for their size, silently or not.
    pub size: u64,
    /// Dropped by the policer.
    pub policed: u64,
    /// Dropped by the queue.
    pub queue: u64,
    /// Marked with Congestion Experienced.
    pub marked: u64,
    /// Lost on the wire.
    pub lost: u64,
    /// Held back to be overtaken.
    pub reordered: u64,
    /// Arriving twice.
    pub duplicated: u64,
    /// Bits flipped, or the frame lost for that.
    pub corrupted: u64,
    /// Corrupted frames that were lost because nothing but a card would notice.
    pub unnoticed: u64,
    /// Most that the queue held, bytes and frames each by itself.
    pub queue_max: Backlog,
    /// Bytes queued, each times the nanoseconds until it has left, counted when it comes: by the time that
    /// passed, the mean length of the queue.
    pub queue_byte_nanos: u128,
    /// The same of frames.
    pub queue_packet_nanos: u128,
    /// Nanoseconds of transmission of all frames that were queued: by the time that passed, the
    /// utilisation of a link with a rate.
    pub busy_nanos: u64,
}

/// One copy of a frame on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it comes out.
    pub at: Instant,
    /// Bit of the frame to be flipped, counted from its first byte's lowest.
    pub flip: Option<usize>,
}

impl Arrival {
    /// Do to the bytes of this copy what the link does to them.
    pub fn damage(&self, frame: &mut [u8]) {
        if let Some(bit) = self.flip
            && let Some(byte) = frame.get_mut(bit / 8)
        {
            *byte ^= 1 << (bit % 8);
        }
    }
}

/// A frame was accepted: it arrives once or twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// It.
    pub first: Arrival,
    /// Its duplicate.
    pub second: Option<Arrival>,
    /// Both are to be marked with [`mark_ce`].
    pub mark: bool,
}

/// The state of one direction.
#[derive(Clone, Debug)]
pub struct Direction {
    config: LinkConfig,
    counters: LinkCounters,
    epoch: u32,
    random: SeededRandom,
    /// Gilbert and Elliott's bad state.
    bad: bool,
    /// When the transmitter has sent all that is queued.
    busy_until: Instant,
    /// What is queued: when it will have left, and its bytes.
    queue: VecDeque<(Instant, u32)>,
    queued: Backlog,
    /// Nanobytes in the policer's bucket at `filled_at`; `None`: full.
    bucket: Option<u128>,
    filled_at: Instant,
    /// Arrival of the last frame that keeps order.
    last_arrival: Instant,
}

impl Direction {
    /// An empty one. What is random in it follows from `seed`.
    pub fn new(config: LinkConfig, seed: u64) -> Self {
        Self {
            config,
            counters: LinkCounters::default(),
            epoch: 0,
            random: SeededRandom::new(seed),
            bad: false,
            busy_until: Instant::ZERO,
            queue: VecDeque::new(),
            queued: Backlog::default(),
            bucket: None,
            filled_at: Instant::ZERO,
            last_arrival: Instant::ZERO,
        }
    }

    /// As it is set.
    pub const fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// What it has done.
    pub const fn counters(&self) -> &LinkCounters {
        &self.counters
    }

    /// Raised when carrier is lost: what was accepted before does not arrive, see
    /// [`Direction::on_lost_in_flight`].
    pub const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Change it from now on.
    pub fn set(&mut self, config: LinkConfig) {
        if self.config.up && !config.up {
            self.epoch += 1;
            // The queue is gone with the carrier, and with it what would have to be waited for.
            self.busy_until = Instant::ZERO;
            self.last_arrival = Instant::ZERO;
            self.queue.clear();
            self.queued = Backlog::default();
        }
        if self.config.policer != config.policer {
            self.bucket = None;
        }
        self.config = config;
    }

    /// A frame of `len` bytes that [`Direction::offer`] accepted was on its way when carrier was lost.
    pub fn on_lost_in_flight(&mut self, len: usize) {
        self.counters.delivered = self.counters.delivered.saturating_sub(1);
        let bytes = self.counters.delivered_bytes.saturating_sub(len as u64);
        self.counters.delivered_bytes = bytes;
        self.counters.down += 1;
    }

    /// What waits or is being transmitted.
    pub fn backlog(&mut self, now: Instant) -> Backlog {
        while let Some(&(_, len)) = self.queue.front().filter(|(leaves, _)| *leaves <= now) {
            self.queue.pop_front();
            self.queued.bytes -= u64::from(len);
            self.queued.packets -= 1;
        }
        self.queued
    }

    /// Begin anew with [`LinkCounters::queue_max`].
    pub fn forget_queue_max(&mut self, now: Instant) {
        self.counters.queue_max = self.backlog(now);
    }

    /// Whether the policer lets `len` bytes pass.
    fn conforms(&mut self, now: Instant, len: u64) -> bool {
        const NANO: u128 = 1_000_000_000;
        let Some(policer) = self.config.policer else { return true };
        let most = u128::from(policer.burst) * NANO;
        let filled =
            now.since(self.filled_at).as_nanos() * u128::from(policer.rate.bytes_per_sec());
        let level = self.bucket.map_or(most, |level| level.saturating_add(filled).min(most));
        let wanted = u128::from(len) * NANO;
        self.filled_at = now;
        self.bucket = Some(level.saturating_sub(if wanted <= level { wanted } else { 0 }));
        wanted <= level
    }

    /// What becomes of `frame`. Times must not go back from call to call.
    ///
    /// # Errors
    ///
    /// Why it does not arrive.
    pub fn offer(&mut self, now: Instant, frame: &[u8]) -> Result<Flight, LinkDrop> {
        self.counters.offered += 1;
        let fate = self.decide(now, frame);
        let c = &mut self.counters;
        match &fate {
            Ok(flight) => {
                let copies = 1 + u64::from(flight.second.is_some());
                c.delivered += copies;
                c.delivered_bytes += copies * frame.len() as u64;
            }
            Err(LinkDrop::Down) => c.down += 1,
            Err(LinkDrop::Mtu | LinkDrop::Size) => c.size += 1,
            Err(LinkDrop::Policer) => c.policed += 1,
            Err(LinkDrop::Queue) => c.queue += 1,
            Err(LinkDrop::Loss) => c.lost += 1,
            Err(LinkDrop::Corrupt) => {
                c.corrupted += 1;
                c.unnoticed += 1;
            }
        }
        fate
    }

    fn decide(&mut self, now: Instant, frame: &[u8]) -> Result<Flight, LinkDrop> {
        let config = self.config;
        let len = frame.len() as u64;
        let packet = frame.len().saturating_sub(HEADER_LEN);
        if !config.up {
            return Err(LinkDrop::Down);
        }
        if packet > usize::from(config.mtu) {
            return Err(LinkDrop::Mtu);
        }
        if config.drop_larger_than.is_some_and(|limit| packet > usize::from(limit)) {
            return Err(LinkDrop::Size);
        }
        if !self.conforms(now, len) {
            return Err(LinkDrop::Policer);
        }
        let mut leaves = now;
        let mut mark = false;
        if config.rate != Rate::UNLIMITED {
            let waiting = self.backlog(now);
            let queued =
                Backlog { bytes: waiting.bytes + len, packets: waiting.packets.saturating_add(1) };
            // An idle link sends whatever comes.
            if waiting.packets > 0 && config.queue.is_exceeded_by(queued) {
                return Err(LinkDrop::Queue);
            }
            mark = config.ecn_mark.is_some_and(|room| room.is_exceeded_by(queued))
                && is_ecn_capable(frame);
            let time = config.rate.time_for(len);
            leaves = self.busy_until.max(now) + time;
            self.busy_until = leaves;
            self.queue.push_back((leaves, u32::try_from(len).unwrap_or(u32::MAX)));
            self.queued = queued;
            let c = &mut self.counters;
            c.queue_max.bytes = c.queue_max.bytes.max(queued.bytes);
            c.queue_max.packets = c.queue_max.packets.max(queued.packets);
            c.busy_nanos += u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            c.marked += u64::from(mark);
            let stay = leaves.since(now).as_nanos();
            c.queue_byte_nanos += u128::from(len) * stay;
            c.queue_packet_nanos += stay;
        }
        if self.loses() {
            return Err(LinkDrop::Loss);
        }
        let first = self.copy(leaves, frame)?;
        let second = if config.duplicate.hits(&mut self.random) {
            self.counters.duplicated += 1;
            self.copy(leaves, frame).ok()
        } else {
            None
        };
        Ok(Flight { first, second, mark })
    }

    fn loses(&mut self) -> bool {
        match self.config.loss {
            Loss::None => false,
            Loss::Random(p) => p.hits(&mut self.random),
            Loss::Bursts { good_to_bad, bad_to_good, bad } => {
                let leave = if self.bad { bad_to_good } else { good_to_bad };
                self.bad ^= leave.hits(&mut self.random);
                self.bad && bad.hits(&mut self.random)
            }
        }
    }

    /// One copy that leaves the transmitter at `leaves`.
    fn copy(&mut self, leaves: Instant, frame: &[u8]) -> Result<Arrival, LinkDrop> {
        let config = self.config;
        let jitter = below(&mut self.random, config.jitter);
        let at = leaves + config.delay + jitter;
        let at = if config.reorder.p.hits(&mut self.random) {
            self.counters.reordered += 1;
            at + config.reorder.by
        } else {
            self.last_arrival = at.max(self.last_arrival);
            self.last_arrival
        };
        let mut flip = None;
        if config.corrupt.hits(&mut self.random) {
            if !has_checksum(frame) {
                return Err(LinkDrop::Corrupt);
            }
            self.counters.corrupted += 1;
            let bits = (frame.len() - HEADER_LEN) * 8;
            flip = Some(HEADER_LEN * 8 + self.random.below(bits as u32) as usize);
        }
        Ok(Arrival { at, flip })
    }
}

/// A duration below `bound`, uniform.
pub(crate) fn below(random: &mut dyn Random, bound: Duration) -> Duration {
    if bound.is_zero() {
        return Duration::ZERO;
    }
    let nanos = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(((u128::from(random.next_u64()) * u128::from(nanos)) >> 64) as u64)
}

/// Whether a receiver can notice a flipped bit behind the Ethernet header.
fn has_checksum(frame: &[u8]) -> bool {
    frame.len() > HEADER_LEN && matches!(ethertype(frame), Some(EtherType::IPV4 | EtherType::IPV6))
}

/// What an untagged frame carries.
fn ethertype(frame: &[u8]) -> Option<EtherType> {
    frame.get(12..HEADER_LEN)?.first_chunk().map(|bytes| EtherType(u16::from_be_bytes(*bytes)))
}

/// The IP header of a frame, and whether it is one of IPv6.
fn ip_header(frame: &[u8]) -> Option<(bool, &[u8])> {
    let ip = frame.get(HEADER_LEN..)?;
    match ethertype(frame)? {
        EtherType::IPV4 if ip.len() >= 20 => Some((false, ip)),
        EtherType::IPV6 if ip.len() >= 40 => Some((true, ip)),
        _ => None,
    }
}

/// Whether a frame carries an IP packet with ECT(0), ECT(1) or CE, RFC 3168 section 5.
pub fn is_ecn_capable(frame: &[u8]) -> bool {
    match ip_header(frame) {
        Some((false, ip)) => ip[1] & 3 != 0,
        Some((true, ip)) => ip[1] >> 4 & 3 != 0,
        None => false,
    }
}

/// Set Congestion Experienced in the IP header of a frame; the checksum of an IPv4 header follows (RFC
/// 1624). Nothing happens to a frame that is not ECN-capable.
pub fn mark_ce(frame: &mut [u8]) {
    if !is_ecn_capable(frame) {
        return;
    }
    let is_v6 = ip_header(frame).is_some_and(|(is_v6, _)| is_v6);
    let Some(ip) = frame.get_mut(HEADER_LEN..) else { return };
    if is_v6 {
        ip[1] |= 3 << 4;
        return;
    }
    let before = u16::from_be_bytes([ip[0], ip[1]]);
    ip[1] |= 3;
    let after = u16::from_be_bytes([ip[0], ip[1]]);
    let old = u16::from_be_bytes([ip[10], ip[11]]);
    let sum = u32::from(!old) + u32::from(!before) + u32::from(after);
    let sum = (sum & 0xFFFF) + (sum >> 16);
    let sum = (sum & 0xFFFF) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_may_count_frames_and_empties_as_they_leave() {
        let config = LinkConfig {
            rate: Rate::from_bits_per_sec(8_000_000),
            queue: Room::Packets(3),
            ..LinkConfig::default()
        };
        let mut d = Direction::new(config, 1);
        let fates: Vec<_> = (0..5).map(|_| d.offer(Instant::ZERO, &frame(1000)).err()).collect();
        assert_eq!(fates, [None, None, None, Some(LinkDrop::Queue), Some(LinkDrop::Queue)]);
        assert_eq!(d.counters.queue_max, Backlog { bytes: 3000, packets: 3 });
        assert_eq!(d.backlog(Instant::from_millis(1)).packets, 2);
        // What is queued stays what it is when the rate changes.
        d.set(LinkConfig { rate: Rate::from_bits_per_sec(800_000), ..config });
        assert_eq!(d.backlog(Instant::from_millis(2)), Backlog { bytes: 1000, packets: 1 });
        assert_eq!(d.backlog(Instant::from_millis(3)), Backlog::default());
        assert_eq!(d.counters.busy_nanos, 3_000_000);
        // One, two and three milliseconds: two frames in the mean over the three.
        assert_eq!(d.counters.queue_packet_nanos, 6_000_000);
        assert_eq!(d.counters.queue_byte_nanos, 6_000_000_000);
        d.set(LinkConfig { up: false, ..config });
        d.set(config);
        assert_eq!(d.backlog(Instant::from_millis(3)), Backlog::default());
    }

    #[test]
    fn what_exceeds_the_threshold_is_marked_if_it_can_be() {
        let config = LinkConfig {
            rate: Rate::from_bits_per_sec(8_000_000),
            ecn_mark: Some(Room::Packets(2)),
            ..LinkConfig::default()
        };
        let mut d = Direction::new(config, 1);
        let mut capable = frame(1000);
        capable[HEADER_LEN + 1] = 2;
        let mark = |d: &mut Direction, f: &[u8]| d.offer(Instant::ZERO, f).unwrap().mark;
        assert_eq!([(); 4].map(|()| mark(&mut d, &capable)), [false, false, true, true]);
        assert!(!mark(&mut d, &frame(1000)), "not ECN-capable");
        assert_eq!(d.counters.marked, 2);
    }

    #[test]
    fn a_mark_keeps_the_header_checksum_right() {
        let mut f = frame(60);
        for (i, byte) in f[HEADER_LEN..HEADER_LEN + 20].iter_mut().enumerate() {
            *byte = (i * 37 + 69) as u8;
        }
        for ecn in 1..=3 {
            f[HEADER_LEN + 1] = 0xB8 | ecn;
            f[HEADER_LEN + 10..HEADER_LEN + 12].fill(0);
            let sum = wire::checksum::of(&f[HEADER_LEN..HEADER_LEN + 20]);
            f[HEADER_LEN + 10..HEADER_LEN + 12].copy_from_slice(&sum.to_be_bytes());
            mark_ce(&mut f);
            assert_eq!(f[HEADER_LEN + 1], 0xBB);
            assert_eq!(wire::checksum::of(&f[HEADER_LEN..HEADER_LEN + 20]), 0, "from {ecn}");
        }
        f[HEADER_LEN + 1] = 0xB8;
        let before = f.clone();
        mark_ce(&mut f);
        assert_eq!(f, before, "not capable");
        let mut six = frame(60);
        six[12..14].copy_from_slice(&[0x86, 0xDD]);
        six[HEADER_LEN + 1] = 0x10;
        mark_ce(&mut six);
        assert_eq!(six[HEADER_LEN + 1], 0x30);
        for len in 0..HEADER_LEN + 19 {
            mark_ce(&mut frame(60)[..len]);
        }
    }

    #[test]
    fn a_policer_lets_its_rate_pass_and_a_burst_after_a_pause() {
        let policer = Policer { rate: Rate::from_bits_per_sec(8_000_000), burst: 5000 };
        let config = LinkConfig { policer: Some(policer), ..LinkConfig::default() };
        let mut d = Direction::new(config, 1);
        let burst = (0..10).filter(|_| d.offer(Instant::ZERO, &frame(1000)).is_ok()).count();
        assert_eq!((burst, d.counters.policed), (5, 5));
        // A kilobyte per millisecond, offered two.
        let passed = (1..=200u64)
            .filter(|i| d.offer(Instant::from_micros(i * 500), &frame(1000)).is_ok())
            .count();
        assert_eq!(passed, 100);
        assert_eq!(
            (0..10).filter(|_| d.offer(Instant::from_millis(9_000), &frame(1000)).is_ok()).count(),
            5
        );
    }

    #[test]
    fn what_was_on_the_wire_when_it_went_down_was_not_delivered() {
        let mut d = Direction::new(LinkConfig::default(), 1);
        d.offer(Instant::ZERO, &frame(1000)).unwrap();
        d.on_lost_in_flight(1000);
        assert_eq!((d.counters.delivered, d.counters.delivered_bytes, d.counters.down), (0, 0, 1));
    }

    fn frame(len: usize) -> Vec<u8> {
        let mut f = vec![0; len];
        f[12] = 8;
        f
    }

    fn run(config: LinkConfig, frames: u32) -> (Direction, Vec<Result<Flight, LinkDrop>>) {
        let mut d = Direction::new(config, 1);
        let f = frame(1000);
        let fates = (0..frames).map(|i| d.offer(Instant::from_millis(u64::from(i)), &f)).collect();
        (d, fates)
    }

    #[test]
    fn rate_and_delay_add_up_and_the_queue_drops_its_tail() {
        let config = LinkConfig {
            rate: Rate::from_bits_per_sec(8_000_000),
            delay: Duration::from_millis(10),
            queue: Room::Bytes(2500),
            ..LinkConfig::default()
        };
        let mut d = Direction::new(config, 1);
        let arrivals: Vec<_> = (0..4)
            .map(|_| d.offer(Instant::ZERO, &frame(1000)).map(|f| f.first.at.as_millis()))
            .collect();
        assert_eq!(arrivals, [Ok(11), Ok(12), Err(LinkDrop::Queue), Err(LinkDrop::Queue)]);
        // A millisecond later one frame has left.
        assert!(d.offer(Instant::from_millis(1), &frame(1000)).is_ok());
        assert_eq!(d.counters.queue_max, Backlog { bytes: 2000, packets: 2 });
    }

    #[test]
    fn random_loss_and_bursts_have_their_mean() {
        let frames = 100_000;
        for (loss, expected) in [
            (Loss::Random(Share::percent(5)), 5_000u64),
            (Loss::bursts(Share::percent(2), 8), 2_000),
        ] {
            let (d, fates) = run(LinkConfig { loss, ..LinkConfig::default() }, frames);
            let lost = d.counters.lost;
            assert!(lost.abs_diff(expected) < expected / 5, "{loss:?}: {lost}");
            assert_eq!(fates.iter().filter(|f| f.is_err()).count() as u64, lost);
        }
        // Of eight in a row on average, few stand alone.
        let loss = Loss::bursts(Share::percent(2), 8);
        let (_, fates) = run(LinkConfig { loss, ..LinkConfig::default() }, frames);
        let starts = fates.windows(2).filter(|w| w[0].is_ok() && w[1].is_err()).count();
        assert!((150..400).contains(&starts), "{starts} bursts");
    }

    #[test]
    fn reordered_frames_are_overtaken_and_jitter_alone_keeps_order() {
        let jitter = Duration::from_millis(20);
        let (_, fates) = run(LinkConfig { jitter, ..LinkConfig::default() }, 1000);
        assert!(fates.iter().flatten().map(|f| f.first.at).is_sorted());
        let reorder = Reorder { p: Share::percent(10), by: Duration::from_millis(5) };
        let (d, fates) = run(LinkConfig { reorder, ..LinkConfig::default() }, 1000);
        assert!(!fates.iter().flatten().map(|f| f.first.at).is_sorted());
        assert!((50..150).contains(&d.counters.reordered));
    }

    #[test]
    fn sizes_are_those_of_ip_packets() {
        let config =
            LinkConfig { mtu: 1500, drop_larger_than: Some(1400), ..LinkConfig::default() };
        let mut d = Direction::new(config, 1);
        let mut fate = |len| d.offer(Instant::ZERO, &frame(len)).err();
        assert_eq!(fate(1414), None);
        assert_eq!(fate(1415), Some(LinkDrop::Size));
        assert_eq!(fate(1515), Some(LinkDrop::Mtu));
    }

    #[test]
    fn flips_stay_behind_the_ethernet_header_and_arp_is_lost_instead() {
        let config = LinkConfig { corrupt: Share::ALL, ..LinkConfig::default() };
        let mut d = Direction::new(config, 1);
        for _ in 0..1000 {
            let flip = d.offer(Instant::ZERO, &frame(60)).unwrap().first.flip.unwrap();
            assert!((HEADER_LEN * 8..60 * 8).contains(&flip));
        }
        let mut arp = frame(60);
        arp[13] = 6;
        assert_eq!(d.offer(Instant::ZERO, &arp), Err(LinkDrop::Corrupt));
    }
}
