//! Two directions of the simulator's link between two devices, in whatever time the caller tells.
//!
//! A frame stays in the buffer that it came in until it is due. What the link refuses gives its buffer back at
//! once.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use base::{Buffers, Device, Frame, Instant, RxBatch};
use runtime::frames::FrameApp;
use sim::LinkConfig;
use sim::link::{Backlog, Direction, Flight, LinkCounters, mark_ce};
use sim::scenario::link_keys::parse_path;
use stack::Turn;
use workloads::rr::{Figures, Latencies};

use super::checksums::{self, Completed};

/// Bursts taken from one device in a turn at most: the other one and what is due wait meanwhile.
const BURSTS_PER_TURN: u32 = 4;

/// The names of the directions, as `set` takes them.
pub(crate) const NAMES: [&str; 2] = ["forward", "reverse"];

/// A frame on its way.
struct Held<F> {
    at: Instant,
    /// Frames that are due at once leave in the order in which they came.
    number: u64,
    /// The link's epoch when it was accepted.
    epoch: u32,
    frame: F,
}

impl<F> PartialEq for Held<F> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl<F> Eq for Held<F> {}

impl<F> PartialOrd for Held<F> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<F> Ord for Held<F> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// What happens to frames besides what the link does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extra {
    /// Bytes of frames that came in.
    pub(crate) in_bytes: u64,
    /// Frames handed to the device, and their bytes.
    pub(crate) out: u64,
    pub(crate) out_bytes: u64,
    /// Frames shorter than their IP header says: cut by the device, because the sender left segmentation to
    /// hardware that is not there.
    pub(crate) cut: u64,
    /// Transport checksums that the sender left to hardware, completed here.
    pub(crate) completed: u64,
    /// Copies, of duplicates or of frames that somebody else refers to, for which there was no buffer.
    pub(crate) no_buffer: u64,
    /// Most frames held at a time.
    pub(crate) held_max: u64,
}

/// One direction.
struct Half<F> {
    link: Direction,
    held: BinaryHeap<Reverse<Held<F>>>,
    /// Due, and not taken by the device yet.
    due: VecDeque<F>,
    number: u64,
    extra: Extra,
    /// How late frames leave.
    late: Latencies,
    late_this_second: Latencies,
}

/// Both directions, forward from the first device to the second.
pub(crate) struct Pipe<F> {
    halves: [Half<F>; 2],
    batch: RxBatch<F>,
    began: Option<Instant>,
}

/// What one direction has done, for people.
#[derive(Clone, Debug)]
pub(crate) struct HalfReport {
    pub(crate) config: LinkConfig,
    pub(crate) link: LinkCounters,
    pub(crate) extra: Extra,
    /// On their way, those that wait for the device included.
    pub(crate) held: u64,
    pub(crate) backlog: Backlog,
    /// How late frames left, nanoseconds.
    pub(crate) late: Figures,
    /// The same since the report before.
    pub(crate) late_this_second: Figures,
}

/// What both have done.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// Since the first turn.
    pub(crate) time: Duration,
    pub(crate) halves: [HalfReport; 2],
    pub(crate) buffers: Buffers,
}

impl<F: Frame> Half<F> {
    fn new(config: LinkConfig, seed: u64) -> Self {
        Self {
            link: Direction::new(config, seed),
            held: BinaryHeap::new(),
            due: VecDeque::new(),
            number: 0,
            extra: Extra::default(),
            late: Latencies::new(),
            late_this_second: Latencies::new(),
        }
    }

    /// Take in what has come, and let out what is due. How much there was to do.
    fn pass<D: Device<Frame = F>>(
        &mut self,
        now: Instant,
        from: &mut D,
        to: &mut D,
        batch: &mut RxBatch<F>,
    ) -> u32 {
        let mut work = 0;
        for _ in 0..BURSTS_PER_TURN {
            batch.clear();
            let count = from.rx_burst(batch);
            work += count as u32;
            for frame in batch.drain(..) {
                self.take(now, frame, from);
            }
            if count < base::RX_BURST_FRAMES {
                break;
            }
        }
        work + self.release(now, to)
    }

    /// A frame has come in at `now`.
    fn take<D: Device<Frame = F>>(&mut self, now: Instant, frame: F, from: &mut D) {
        self.extra.in_bytes += frame.len() as u64;
        // The link looks at the bytes and may change them: they must be in one piece, and ours.
        let Some(mut frame) = flat(frame, from) else {
            self.extra.no_buffer += 1;
            return;
        };
        let Some(bytes) = frame.head_mut() else {
            self.extra.no_buffer += 1;
            return;
        };
        match checksums::complete(bytes) {
            Completed::Cut => {
                self.extra.cut += 1;
                return;
            }
            Completed::Done => self.extra.completed += 1,
            Completed::Unneeded => {}
        }
        let Ok(Flight { first, second, mark }) = self.link.offer(now, bytes) else { return };
        if mark {
            mark_ce(bytes);
        }
        if let Some(second) = second {
            match copy(bytes, from) {
                Some(mut copy) => {
                    if let Some(bytes) = copy.head_mut() {
                        second.damage(bytes);
                    }
                    self.hold(second.at, copy);
                }
                None => self.extra.no_buffer += 1,
            }
        }
        if let Some(bytes) = frame.head_mut() {
            first.damage(bytes);
        }
        self.hold(first.at, frame);
    }

    fn hold(&mut self, at: Instant, frame: F) {
        self.number += 1;
        let held = Held { at, number: self.number, epoch: self.link.epoch(), frame };
        self.held.push(Reverse(held));
        self.extra.held_max = self.extra.held_max.max(self.held.len() as u64);
    }

    /// Hand over what is due at `now`. How many frames left.
    fn release<D: Device<Frame = F>>(&mut self, now: Instant, to: &mut D) -> u32 {
        while let Some(Reverse(next)) = self.held.peek()
            && next.at <= now
        {
            let Some(Reverse(next)) = self.held.pop() else { break };
            if next.epoch != self.link.epoch() {
                self.link.on_lost_in_flight(next.frame.len());
                continue;
            }
            let late = now.since(next.at);
            self.late.record(late);
            self.late_this_second.record(late);
            self.due.push_back(next.frame);
        }
        if self.due.is_empty() {
            return 0;
        }
        let bytes: u64 = self.due.iter().map(|frame| frame.len() as u64).sum();
        let taken = to.tx_burst(&mut self.due);
        let left: u64 = self.due.iter().map(|frame| frame.len() as u64).sum();
        self.extra.out += taken as u64;
        self.extra.out_bytes += bytes - left;
        taken as u32
    }

    fn report(&mut self, now: Instant) -> HalfReport {
        let report = HalfReport {
            config: *self.link.config(),
            backlog: self.link.backlog(now),
            link: *self.link.counters(),
            extra: self.extra,
            held: (self.held.len() + self.due.len()) as u64,
            late: self.late.figures(),
            late_this_second: std::mem::take(&mut self.late_this_second).figures(),
        };
        self.link.forget_queue_max(now);
        report
    }
}

/// The frame in one piece that nobody else refers to; `None` without a buffer.
fn flat<F: Frame, D: Device<Frame = F>>(mut frame: F, device: &mut D) -> Option<F> {
    if frame.segment_count() == 1 && frame.head_mut().is_some() {
        return Some(frame);
    }
    let mut bytes = Vec::with_capacity(frame.len());
    for part in frame.segments() {
        bytes.extend_from_slice(part);
    }
    copy(&bytes, device)
}

fn copy<F: Frame, D: Device<Frame = F>>(bytes: &[u8], device: &mut D) -> Option<F> {
    let mut copy = device.payload_alloc()?;
    copy.push_back(bytes.len())?.copy_from_slice(bytes);
    Some(copy)
}

impl<F: Frame> Pipe<F> {
    /// Links of these kinds; what is random in them follows from `seed`.
    pub(crate) fn new(configs: [LinkConfig; 2], seed: u64) -> Self {
        let [forward, reverse] = configs;
        Self {
            halves: [Half::new(forward, seed), Half::new(reverse, seed ^ 0x9e37_79b9_7f4a_7c15)],
            batch: RxBatch::new(),
            began: None,
        }
    }

    /// The links as `changes` make them, each `forward.KEY=VALUE`, `reverse.KEY=VALUE` or `KEY=VALUE` for both.
    fn changed(&self, changes: &[String]) -> Result<[LinkConfig; 2], String> {
        let [forward, reverse] = &self.halves;
        let mut configs = [*forward.link.config(), *reverse.link.config()];
        for text in changes {
            let named = NAMES
                .iter()
                .position(|name| text.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')));
            let path = named.map_or(text.as_str(), |at| &text[NAMES[at].len() + 1..]);
            let parsed = parse_path(path).map_err(|problem| problem.to_string())?;
            if parsed.is_empty() {
                return Err(format!("\"{text}\" changes nothing: write forward.loss=3%"));
            }
            for (index, config) in configs.iter_mut().enumerate() {
                if named.is_none_or(|at| at == index) {
                    parsed.iter().for_each(|change| change.apply(config));
                }
            }
        }
        Ok(configs)
    }
}

impl<D: Device> FrameApp<D> for Pipe<D::Frame> {
    type Report = Report;

    fn turn(&mut self, now: Instant, devices: &mut [D]) -> Turn {
        self.began.get_or_insert(now);
        let [a, b, ..] = devices else {
            return Turn { work: 0, next_deadline: None, pending: false };
        };
        let Self { halves: [forward, reverse], batch, .. } = self;
        let work = forward.pass(now, a, b, batch) + reverse.pass(now, b, a, batch);
        let due = [forward, reverse].map(|half| half.held.peek().map(|Reverse(next)| next.at));
        Turn {
            work,
            next_deadline: due.into_iter().flatten().min(),
            pending: self.halves.iter().any(|half| !half.due.is_empty()),
        }
    }

    fn set(&mut self, _: Instant, changes: &[String]) -> Result<(), String> {
        let configs = self.changed(changes)?;
        for (half, config) in self.halves.iter_mut().zip(configs) {
            half.link.set(config);
        }
        Ok(())
    }

    fn report(&mut self, now: Instant, devices: &[D]) -> Report {
        let [forward, reverse] = &mut self.halves;
        Report {
            time: now.since(self.began.unwrap_or(now)),
            halves: [forward.report(now), reverse.report(now)],
            buffers: devices.first().map(Device::buffers).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests;
