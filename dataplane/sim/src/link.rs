//! What a link does to frames, one direction at a time.
//!
//! ```text
//!   offered -> up? size? -> drop-tail queue -> transmitter (rate) -> loss -> delay, jitter,
//!                                                reordering, duplication, corruption -> arrives
//! ```
//!
//! A lost frame has used the transmitter: it is lost on the wire and not before it. Each direction
//! draws from a generator of its own, so that one link's dice do not depend on another's traffic.

use core::time::Duration;

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

/// One direction of a link. The names are those of scenario files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// Of frames with their Ethernet header, without preamble and gap.
    pub rate: Rate,
    /// One way.
    pub delay: Duration,
    /// Drop-tail queue in bytes, the frame being transmitted included; without meaning at an
    /// unlimited rate.
    pub queue: u64,
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
            queue: 512 * 1024,
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
    /// Dropped by the queue.
    pub queue: u64,
    /// Lost on the wire.
    pub lost: u64,
    /// Held back to be overtaken.
    pub reordered: u64,
    /// Arriving twice.
    pub duplicated: u64,
    /// Bits flipped.
    pub corrupted: u64,
    /// Most bytes that the queue held.
    pub queue_max: u64,
}

/// One copy of a frame on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    pub(crate) at: Instant,
    /// Bit of the frame to be flipped.
    pub(crate) flip: Option<usize>,
}

/// A frame was accepted: it arrives once or twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flight {
    pub(crate) first: Copy,
    pub(crate) second: Option<Copy>,
}

/// The state of one direction.
#[derive(Clone, Debug)]
pub(crate) struct Direction {
    pub(crate) config: LinkConfig,
    pub(crate) counters: LinkCounters,
    /// Raised when carrier is lost: what was sent before does not arrive.
    pub(crate) epoch: u32,
    random: SeededRandom,
    /// Gilbert and Elliott's bad state.
    bad: bool,
    /// When the transmitter has sent all that is queued.
    busy_until: Instant,
    /// Arrival of the last frame that keeps order.
    last_arrival: Instant,
}

impl Direction {
    pub(crate) fn new(config: LinkConfig, seed: u64) -> Self {
        Self {
            config,
            counters: LinkCounters::default(),
            epoch: 0,
            random: SeededRandom::new(seed),
            bad: false,
            busy_until: Instant::ZERO,
            last_arrival: Instant::ZERO,
        }
    }

    pub(crate) fn set(&mut self, config: LinkConfig) {
        if self.config.up && !config.up {
            self.epoch += 1;
            // The queue is gone with the carrier.
            self.busy_until = Instant::ZERO;
        }
        self.config = config;
    }

    /// Bytes that wait or are being transmitted.
    fn backlog(&self, now: Instant) -> u64 {
        let waiting = self.busy_until.since(now).as_nanos();
        let bytes = waiting * u128::from(self.config.rate.bytes_per_sec()) / 1_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// What becomes of `frame`.
    pub(crate) fn offer(&mut self, now: Instant, frame: &[u8]) -> Result<Flight, LinkDrop> {
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
            Err(LinkDrop::Queue) => c.queue += 1,
            Err(LinkDrop::Loss) => c.lost += 1,
            Err(LinkDrop::Corrupt) => c.corrupted += 1,
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
        let mut leaves = now;
        if config.rate != Rate::UNLIMITED {
            let queued = self.backlog(now) + len;
            // An idle link sends whatever comes.
            if queued > config.queue && self.busy_until > now {
                return Err(LinkDrop::Queue);
            }
            self.counters.queue_max = self.counters.queue_max.max(queued);
            leaves = self.busy_until.max(now) + config.rate.time_for(len);
            self.busy_until = leaves;
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
        Ok(Flight { first, second })
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
    fn copy(&mut self, leaves: Instant, frame: &[u8]) -> Result<Copy, LinkDrop> {
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
        Ok(Copy { at, flip })
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
    let ethertype = frame.get(12..HEADER_LEN).map(|t| u16::from_be_bytes([t[0], t[1]]));
    frame.len() > HEADER_LEN
        && matches!(ethertype.map(EtherType), Some(EtherType::IPV4 | EtherType::IPV6))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            queue: 2500,
            ..LinkConfig::default()
        };
        let mut d = Direction::new(config, 1);
        let arrivals: Vec<_> = (0..4)
            .map(|_| d.offer(Instant::ZERO, &frame(1000)).map(|f| f.first.at.as_millis()))
            .collect();
        assert_eq!(arrivals, [Ok(11), Ok(12), Err(LinkDrop::Queue), Err(LinkDrop::Queue)]);
        // A millisecond later one frame has left.
        assert!(d.offer(Instant::from_millis(1), &frame(1000)).is_ok());
        assert_eq!(d.counters.queue_max, 2000);
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
