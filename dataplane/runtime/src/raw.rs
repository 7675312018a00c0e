//! Ping-pong of frames between two ports with no stack on them: what the devices and the cores
//! alone make of a round trip. Each side is a loop of its own on the device door.

use std::collections::VecDeque;
use std::time::Duration;

use base::{Clock, Device, Frame, Instant, RxBatch};

/// Smallest frame, as on Ethernet without its check sequence.
pub const FRAME_BYTES_MIN: usize = 60;
/// Link header.
const LINK_HEADER: usize = 14;
/// EtherType that IEEE 802 leaves to local experiments.
const ETHER_TYPE: [u8; 2] = 0x88B5u16.to_be_bytes();
/// Where the number of a frame stands, with eight bytes.
const NUMBER: core::ops::Range<usize> = LINK_HEADER..LINK_HEADER + 8;
/// A frame that has not come back by then is sent again under a new number.
const LOST_AFTER: Duration = Duration::from_millis(100);
/// Polls without a frame between two looks at the clock and at the wish to stop.
const POLLS_PER_LOOK: u32 = 256;

/// Lost frames after which the other side is taken to be gone.
const LOST_MAX: u64 = 50;
/// Answers between two looks at the wish to stop.
const ANSWERS_PER_LOOK: u64 = 1024;

/// What the asking side does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingConfig {
    /// Bytes of a frame without its check sequence, [`FRAME_BYTES_MIN`] to what one buffer holds.
    pub frame_bytes: usize,
    /// How long it counts.
    pub time: Duration,
    /// Round trips after which it ends, if that is earlier.
    pub count: u64,
    /// What does not count at the beginning.
    pub omit: Duration,
    /// How long the first answer may take: the other side may not be there yet.
    pub timeout: Duration,
}

/// How it went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pinged {
    /// Round trips that count.
    pub answered: u64,
    /// Frames that did not come back, after the first that did.
    pub lost: u64,
    /// For how long it counted.
    pub time: Duration,
    /// It was told to stop.
    pub interrupted: bool,
}

/// Send back whatever such frames arrive, until told not to. Returns how many.
pub fn reflect<D: Device>(device: &mut D, go_on: &dyn Fn() -> bool) -> u64 {
    let own = device.capabilities().mac;
    let mut batch = RxBatch::new();
    let mut back: VecDeque<D::Frame> = VecDeque::new();
    let (mut count, mut idle) = (0u64, 0);
    loop {
        device.rx_burst(&mut batch);
        for mut frame in batch.drain(..) {
            if turn_round(&mut frame, own) {
                back.push_back(frame);
                count = count.saturating_add(1);
            }
        }
        if !back.is_empty() {
            device.tx_burst(&mut back);
            idle = 0;
        }
        idle += 1;
        if idle >= POLLS_PER_LOOK {
            idle = 0;
            // What the peer does not take is thrown away rather than piled up.
            back.clear();
            if !go_on() {
                return count;
            }
        }
    }
}

/// Address an arrived frame to its sender; false if it is not one of ours or is shared.
fn turn_round(frame: &mut impl Frame, own: [u8; 6]) -> bool {
    let Some(head) = frame.head_mut() else { return false };
    let Some((link, _)) = head.split_first_chunk_mut::<LINK_HEADER>() else { return false };
    let [_, _, _, _, _, _, s0, s1, s2, s3, s4, s5, t0, t1] = *link;
    if [t0, t1] != ETHER_TYPE || [s0, s1, s2, s3, s4, s5] == own {
        return false;
    }
    let [o0, o1, o2, o3, o4, o5] = own;
    *link = [s0, s1, s2, s3, s4, s5, o0, o1, o2, o3, o4, o5, t0, t1];
    true
}

/// Send a frame, wait for it, and so on. Each round trip that counts goes to `record`; it lasts from
/// the answer before to its own answer, so what is done in between belongs to it.
///
/// # Errors
/// No answer at all within the time limit, or the frame does not fit a buffer: a sentence.
pub fn ping<D: Device>(
    device: &mut D,
    clock: &impl Clock,
    config: &PingConfig,
    record: &mut dyn FnMut(Duration),
    go_on: &dyn Fn() -> bool,
) -> Result<Pinged, String> {
    let mut done = Pinged::default();
    let mut number = 0u64;
    let mut begun: Option<Instant> = None;
    let started = clock.now();
    let mut sent_at = started;
    let mut out: VecDeque<D::Frame> = VecDeque::with_capacity(1);
    let mut batch = RxBatch::new();
    loop {
        number = number.wrapping_add(1);
        out.clear();
        out.push_back(build(device, config.frame_bytes, number)?);
        let mut polls = 0;
        let answered_at = loop {
            if !out.is_empty() {
                device.tx_burst(&mut out);
            }
            device.rx_burst(&mut batch);
            if batch.drain(..).any(|frame| is_answer(&frame, number)) {
                break Some(clock.now());
            }
            polls += 1;
            if polls >= POLLS_PER_LOOK {
                polls = 0;
                let now = clock.now();
                let counted_from = begun.map_or(now, |at| at + config.omit);
                if !go_on() {
                    done.interrupted = true;
                    done.time = now.since(counted_from);
                    return Ok(done);
                }
                if begun.is_none() && now.since(started) >= config.timeout {
                    return Err("no frame has come back".to_owned());
                }
                if now.since(sent_at) >= LOST_AFTER {
                    break None;
                }
            }
        };
        let now = match (answered_at, begun) {
            (None, None) => {
                sent_at = clock.now();
                continue;
            }
            (None, Some(_)) => {
                done.lost = done.lost.saturating_add(1);
                clock.now()
            }
            (Some(now), None) => {
                // The first one waited for the other side to come up.
                begun = Some(now);
                sent_at = now;
                continue;
            }
            (Some(now), Some(at)) => {
                if sent_at.since(at) >= config.omit {
                    record(now.since(sent_at));
                    done.answered = done.answered.saturating_add(1);
                }
                now
            }
        };
        sent_at = now;
        let counted = now.since(begun.unwrap_or(now) + config.omit);
        if counted >= config.time || done.answered >= config.count || done.lost >= LOST_MAX {
            done.time = counted;
            return Ok(done);
        }
        if done.answered.is_multiple_of(ANSWERS_PER_LOOK) && !go_on() {
            done.interrupted = true;
            done.time = counted;
            return Ok(done);
        }
    }
}

fn build<D: Device>(device: &mut D, bytes: usize, number: u64) -> Result<D::Frame, String> {
    let own = device.capabilities().mac;
    let mut frame = device.payload_alloc().ok_or("no buffer is free")?;
    let room = frame.tailroom();
    let data = frame
        .push_back(bytes)
        .ok_or_else(|| format!("a frame of {bytes} bytes does not fit a buffer of {room}"))?;
    data.fill(0);
    let header = [0xFF; 6].into_iter().chain(own).chain(ETHER_TYPE).chain(number.to_be_bytes());
    for (to, from) in data.iter_mut().zip(header) {
        *to = from;
    }
    Ok(frame)
}

fn is_answer(frame: &impl Frame, number: u64) -> bool {
    let head = frame.head();
    head.get(12..LINK_HEADER) == Some(&ETHER_TYPE[..])
        && head.get(NUMBER) == Some(&number.to_be_bytes()[..])
}

/// Ping-pong on DPDK ports.
#[cfg(feature = "dpdk")]
mod on_ports {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    use dpdk::PortQueue;

    use super::{PingConfig, Pinged, ping, reflect};
    use crate::clock::TimeBase;
    use crate::ports::OpenPort;
    use crate::signals::Signals;

    /// Let `work` run on `port` in a thread of its own, pinned and known to DPDK.
    fn in_worker<'scope, T: Send + 'scope>(
        scope: &'scope thread::Scope<'scope, '_>,
        mut port: OpenPort,
        core: Option<usize>,
        work: impl FnOnce(&mut PortQueue) -> Result<T, String> + Send + 'scope,
    ) -> thread::ScopedJoinHandle<'scope, Result<T, String>> {
        scope.spawn(move || {
            if let Some(core) = core
                && !core_affinity::set_for_current(core_affinity::CoreId { id: core })
            {
                return Err(format!(
                    "cannot pin to core {core}: not in the set this process may use"
                ));
            }
            // Declared before the queue, so that it is dropped after it.
            let _registration = port.register()?;
            let mut queue = port.queues.pop().ok_or("the port has no queue")?;
            work(&mut queue)
        })
    }

    fn join<T>(handle: thread::ScopedJoinHandle<'_, Result<T, String>>) -> Result<T, String> {
        handle.join().unwrap_or_else(|_| Err("the thread of a port panicked".to_owned()))
    }

    /// Reflect on `port` until SIGINT or SIGTERM. Returns how many frames.
    ///
    /// # Errors
    /// What is wrong with the machine.
    pub fn reflect_on(port: OpenPort, core: Option<usize>) -> Result<u64, String> {
        let signals = Signals::install().map_err(|e| format!("cannot handle signals: {e}"))?;
        let go_on = || !signals.stop_requested();
        thread::scope(|s| join(in_worker(s, port, core, |queue| Ok(reflect(queue, &go_on)))))
    }

    /// Ping on `port`; with `mirror` on a second port of this process that reflects on a core of
    /// its own.
    ///
    /// # Errors
    /// What is wrong with the machine, or that nothing comes back.
    pub fn ping_on(
        port: OpenPort,
        core: Option<usize>,
        mirror: Option<(OpenPort, Option<usize>)>,
        config: &PingConfig,
        record: &mut (dyn FnMut(Duration) + Send),
    ) -> Result<Pinged, String> {
        let signals = Signals::install().map_err(|e| format!("cannot handle signals: {e}"))?;
        let time = TimeBase::start();
        let over = AtomicBool::new(false);
        let mirror_goes_on = || !over.load(Ordering::Relaxed);
        thread::scope(|s| {
            let reflecting = mirror.map(|(port, core)| {
                in_worker(s, port, core, |queue| Ok(reflect(queue, &mirror_goes_on)))
            });
            let result = join(in_worker(s, port, core, |queue| {
                ping(queue, &time.clock(), config, record, &|| !signals.stop_requested())
            }));
            over.store(true, Ordering::Relaxed);
            reflecting.map_or(Ok(0), join)?;
            result
        })
    }
}

#[cfg(feature = "dpdk")]
pub use on_ports::{ping_on, reflect_on};

#[cfg(test)]
mod tests {
    use super::*;
    use base::mem::{MemConfig, MemDevice};
    use std::cell::Cell;

    /// Time that goes on by a microsecond with each reading.
    struct Ticking(Cell<u64>);

    impl Clock for Ticking {
        fn now(&self) -> Instant {
            self.0.set(self.0.get() + 1);
            Instant::from_micros(self.0.get())
        }
    }

    const CONFIG: PingConfig = PingConfig {
        frame_bytes: 118,
        time: Duration::from_millis(1),
        count: u64::MAX,
        omit: Duration::ZERO,
        timeout: Duration::from_millis(10),
    };

    fn pair() -> (MemDevice, MemDevice) {
        let mem = |last| MemConfig { mac: [2, 0, 0, 0, 0, last], ..MemConfig::default() };
        MemDevice::pair(&mem(1), &mem(2))
    }

    #[test]
    fn a_reflected_frame_is_addressed_to_its_sender_and_ends_the_wait() {
        let (mut a, mut b) = pair();
        let frame = build(&mut a, 118, 7).expect("a buffer");
        assert!(!is_answer(&frame, 8) && is_answer(&frame, 7));
        a.tx_burst(&mut VecDeque::from([frame]));
        let looks = Cell::new(0);
        let once = || looks.replace(1) == 0;
        assert_eq!(reflect(&mut b, &once), 1);
        let back = b.take_sent().expect("reflected").to_vec();
        assert_eq!(back.len(), 118);
        assert_eq!(back[..14], [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xB5]);
        assert_eq!(back[14..22], 7u64.to_be_bytes());
    }

    #[test]
    fn round_trips_last_from_answer_to_answer() {
        // One end on each side of the same device: what is sent is received at once.
        let mut loopback = MemDevice::detached(&MemConfig::default());
        let mut times = Vec::new();
        let mut device = Loop(&mut loopback);
        let clock = Ticking(Cell::new(0));
        let config = PingConfig { omit: Duration::from_micros(100), ..CONFIG };
        let done = ping(&mut device, &clock, &config, &mut |t| times.push(t), &|| true);
        let done = done.expect("answers");
        assert_eq!(done.time, Duration::from_millis(1));
        assert_eq!((done.answered, done.lost, done.interrupted), (1000, 0, false));
        assert!(times.iter().all(|t| *t == Duration::from_micros(1)));
        let config = PingConfig { count: 17, ..CONFIG };
        let done = ping(&mut device, &clock, &config, &mut |_| {}, &|| true).expect("answers");
        assert_eq!(done.answered, 17);
    }

    #[test]
    fn silence_ends_in_a_sentence_and_a_wish_to_stop_is_heard() {
        let (mut a, _b) = pair();
        let clock = Ticking(Cell::new(0));
        let error = ping(&mut a, &clock, &CONFIG, &mut |_| {}, &|| true).expect_err("nobody there");
        assert_eq!(error, "no frame has come back");
        let done = ping(&mut a, &clock, &CONFIG, &mut |_| {}, &|| false).expect("stopped");
        assert!(done.interrupted && done.answered == 0);
        let config = PingConfig { frame_bytes: 60_000, ..CONFIG };
        let error = ping(&mut a, &clock, &config, &mut |_| {}, &|| true).expect_err("too large");
        assert!(error.contains("60000"), "{error}");
    }

    #[test]
    fn strange_frames_are_not_reflected() {
        let (mut a, mut b) = pair();
        for bytes in [&[0u8; 3][..], &[0; 14], &[0; 60]] {
            let mut frame = a.payload_alloc().expect("a buffer");
            frame.push_back(bytes.len()).expect("room").copy_from_slice(bytes);
            a.tx_burst(&mut VecDeque::from([frame]));
        }
        let looks = Cell::new(0);
        assert_eq!(reflect(&mut b, &|| looks.replace(1) == 0), 0);
        assert!(b.take_sent().is_none());
    }

    /// A device that receives what it sends.
    struct Loop<'a>(&'a mut MemDevice);

    impl Device for Loop<'_> {
        type Frame = base::mem::MemFrame;

        fn capabilities(&self) -> &base::Capabilities {
            self.0.capabilities()
        }

        fn rx_burst(&mut self, out: &mut RxBatch<Self::Frame>) -> usize {
            while let Some(frame) = self.0.take_sent() {
                self.0.deliver_frame(frame);
            }
            self.0.rx_burst(out)
        }

        fn alloc(&mut self) -> Option<Self::Frame> {
            self.0.alloc()
        }

        fn payload_alloc(&mut self) -> Option<Self::Frame> {
            self.0.payload_alloc()
        }

        fn share(&mut self, of: &Self::Frame, offset: usize, len: usize) -> Option<Self::Frame> {
            self.0.share(of, offset, len)
        }

        fn tx_burst(&mut self, frames: &mut VecDeque<Self::Frame>) -> usize {
            self.0.tx_burst(frames)
        }

        fn buffers(&self) -> base::Buffers {
            self.0.buffers()
        }
    }
}
