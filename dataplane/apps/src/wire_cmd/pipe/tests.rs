use super::*;
use base::mem::{MemConfig, MemDevice, MemFrame};
use sim::scenario::link_keys::apply_path;

/// A pipe between two devices, in virtual time.
struct Bench {
    pipe: Pipe<MemFrame>,
    devices: [MemDevice; 2],
    now: Instant,
}

fn link(path: &str) -> LinkConfig {
    let mut config = LinkConfig::default();
    apply_path(path, &mut config).expect("a good path");
    config
}

/// An IPv4 frame with `bytes` of payload that begins with `number`; its protocol has no checksum.
fn frame(number: u32, bytes: usize) -> Vec<u8> {
    let mut frame = vec![2; 12];
    let len = (20 + bytes) as u16;
    frame.extend_from_slice(&[8, 0, 0x45, 0]);
    frame.extend_from_slice(&len.to_be_bytes());
    frame.extend_from_slice(&[0, 0, 0x40, 0, 64, 253, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let begin = frame.len();
    frame.resize(begin + bytes, 0);
    if bytes >= 4 {
        frame[begin..begin + 4].copy_from_slice(&number.to_be_bytes());
    }
    frame
}

impl Bench {
    fn new(forward: &str, reverse: &str) -> Self {
        let config = MemConfig { buffers: 512, ..MemConfig::default() };
        let a = MemDevice::detached(&config);
        let b = MemDevice::detached(&config).sharing_buffers_of(&a);
        let pipe = Pipe::new([link(forward), link(reverse)], 1);
        Self { pipe, devices: [a, b], now: Instant::from_millis(1000) }
    }

    /// A frame comes in at an end, which has a buffer for it.
    fn give(&mut self, end: usize, frame: &[u8]) {
        assert!(self.devices[end].deliver(frame), "a buffer");
    }

    fn turn(&mut self) -> Turn {
        self.pipe.turn(self.now, &mut self.devices)
    }

    fn after(&mut self, time: Duration) -> Turn {
        self.now += time;
        self.turn()
    }

    /// The numbers of the frames that have left by an end.
    fn out(&mut self, end: usize) -> Vec<u32> {
        let mut numbers = Vec::new();
        while let Some(frame) = self.devices[end].take_sent() {
            let bytes = frame.to_vec();
            numbers.push(u32::from_be_bytes([bytes[34], bytes[35], bytes[36], bytes[37]]));
        }
        numbers
    }

    fn report(&mut self) -> Report {
        self.pipe.report(self.now, &self.devices)
    }

    fn set(&mut self, changes: &[&str]) -> Result<(), String> {
        let changes: Vec<String> = changes.iter().map(|c| (*c).to_owned()).collect();
        FrameApp::<MemDevice>::set(&mut self.pipe, self.now, &changes)
    }

    /// Everything that came in went out, was dropped for a reason, or is still held; and no buffer is lost.
    fn balance(&mut self) {
        let report = self.report();
        let mut held = 0;
        for half in &report.halves {
            let gone = half.link.lost + half.link.queue + half.link.policed + half.link.size;
            let gone = gone + half.link.down + half.link.unnoticed;
            let arriving = half.extra.out + half.held + half.extra.no_buffer;
            assert_eq!(half.link.offered + half.link.duplicated, arriving + gone, "{half:?}");
            held += half.held;
        }
        self.out(0);
        self.out(1);
        let buffers = self.devices[0].buffers();
        assert_eq!(u64::from(buffers.total - buffers.free), held);
    }
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_frame_is_out_when_its_delay_is_over_and_not_before() {
    let mut bench = Bench::new("delay=10ms", "delay=3ms");
    bench.give(0, &frame(1, 100));
    bench.give(1, &frame(2, 100));
    let turn = bench.turn();
    assert_eq!(turn.next_deadline, Some(bench.now + 3 * MS), "the earlier of both");
    bench.after(3 * MS);
    assert_eq!((bench.out(0), bench.out(1)), (vec![2], vec![]));
    let turn = bench.after(7 * MS - Duration::from_nanos(1));
    assert!(bench.out(1).is_empty() && turn.work == 0);
    bench.after(Duration::from_micros(40));
    assert_eq!(bench.out(1), [1]);
    let report = bench.report();
    assert_eq!(report.halves[0].late.count, 1);
    assert!((39_000..41_000).contains(&report.halves[0].late.max), "{:?}", report.halves[0].late);
    assert_eq!(report.halves[1].late.max, 0, "in time");
    bench.balance();
}

#[test]
fn a_rate_spaces_frames_and_its_queue_overflows() {
    // 1250 bytes per millisecond.
    let mut bench = Bench::new("rate=10Mbit,queue=4pkt", "");
    for number in 0..10 {
        bench.give(0, &frame(number, 1250 - 34));
    }
    bench.turn();
    for number in 0..4 {
        bench.after(MS);
        assert_eq!(bench.out(1), [number]);
    }
    bench.after(100 * MS);
    assert!(bench.out(1).is_empty());
    let report = bench.report();
    assert_eq!((report.halves[0].link.queue, report.halves[0].extra.out), (6, 4));
    bench.balance();
}

#[test]
fn overtaken_frames_come_late_and_all_others_in_order() {
    let mut bench = Bench::new("delay=5ms,jitter=4ms,reorder=20%/20ms", "");
    for number in 0..200 {
        bench.give(0, &frame(number, 50));
        bench.after(MS / 4);
    }
    for _ in 0..200 {
        bench.after(MS / 4);
    }
    let out = bench.out(1);
    assert_eq!(out.len(), 200);
    let overtaken = out.windows(2).filter(|w| w[0] > w[1]).count();
    let report = bench.report();
    assert!(report.halves[0].link.reordered > 20 && overtaken > 10, "{overtaken}");
    bench.balance();
    // Without reordering jitter keeps the order.
    let mut bench = Bench::new("delay=5ms,jitter=4ms", "");
    for number in 0..200 {
        bench.give(0, &frame(number, 50));
        bench.after(MS / 4);
    }
    bench.after(20 * MS);
    assert!(bench.out(1).is_sorted());
}

#[test]
fn losses_and_copies_are_counted_and_balance() {
    let mut bench = Bench::new("loss=10%,duplicate=10%,corrupt=5%,delay=1ms", "loss=100%");
    for number in 0..300 {
        bench.give(0, &frame(number, 60));
        bench.give(1, &frame(number, 60));
        bench.after(MS);
    }
    let report = bench.report();
    let [forward, reverse] = &report.halves;
    assert_eq!((reverse.link.lost, reverse.extra.out), (300, 0));
    for (what, count) in [
        ("lost", forward.link.lost),
        ("duplicated", forward.link.duplicated),
        ("corrupted", 2 * forward.link.corrupted),
    ] {
        assert!((10..60).contains(&count), "{what}: {count}");
    }
    bench.balance();
}

#[test]
fn a_corrupt_frame_differs_in_one_bit_and_its_copy_need_not() {
    let mut bench = Bench::new("corrupt=100%,duplicate=100%", "");
    let sent = frame(7, 64);
    bench.give(0, &sent);
    bench.turn();
    for _ in 0..2 {
        let got = bench.devices[1].take_sent().expect("two of them").to_vec();
        let bits: u32 = got.iter().zip(&sent).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert_eq!(bits, 1);
        assert_eq!(got[..14], sent[..14], "never in the link header");
    }
}

#[test]
fn what_is_too_large_or_was_cut_is_dropped_with_its_reason() {
    let mut bench = Bench::new("mtu=1000,drop_larger_than=900", "");
    bench.give(0, &frame(1, 981));
    bench.give(0, &frame(2, 900));
    bench.give(0, &frame(3, 880));
    let cut = frame(4, 800);
    bench.give(0, &cut[..500]);
    // The protocol of these frames has no checksum, so being cut is seen for TCP and UDP only.
    let mut tcp = frame(5, 800);
    tcp[23] = 6;
    bench.give(0, &tcp[..500]);
    bench.turn();
    assert_eq!(bench.out(1), [3]);
    let half = bench.report().halves[0].clone();
    assert_eq!((half.link.size, half.extra.cut), (2, 2));
}

#[test]
fn changes_take_effect_at_once_and_bad_ones_change_nothing() {
    let mut bench = Bench::new("delay=10ms", "");
    bench.give(0, &frame(1, 50));
    bench.turn();
    bench.set(&["forward.delay=1ms", "loss=0%"]).expect("good changes");
    bench.give(0, &frame(2, 50));
    bench.after(5 * MS);
    assert!(bench.out(1).is_empty(), "order is kept: what is on its way keeps its time");
    bench.after(5 * MS);
    assert_eq!(bench.out(1), [1, 2]);
    for (changes, why) in [
        (&["forward.bogus=1"][..], "unknown key"),
        (&["reverse.delay=5ms", "loss=200%"], "more than all"),
        (&["sideways.delay=5ms"], "unknown key"),
        (&["forward."], "changes nothing"),
        (&[""], "changes nothing"),
        (&["delay"], "has no value"),
    ] {
        let error = bench.set(changes).expect_err(why);
        assert!(error.contains(why), "{changes:?}: {error}");
    }
    assert_eq!(bench.report().halves[1].config.delay, Duration::ZERO, "all or nothing");
}

#[test]
fn what_is_on_its_way_when_the_link_goes_down_is_lost() {
    let mut bench = Bench::new("delay=10ms", "");
    bench.give(0, &frame(1, 50));
    bench.turn();
    bench.set(&["forward.up=false"]).expect("a good change");
    bench.give(0, &frame(2, 50));
    bench.after(20 * MS);
    bench.set(&["forward.up=true"]).expect("a good change");
    bench.give(0, &frame(3, 50));
    bench.after(MS);
    bench.after(20 * MS);
    assert_eq!(bench.out(1), [3]);
    assert_eq!(bench.report().halves[0].link.down, 2);
    bench.balance();
}

#[test]
fn without_buffers_copies_are_lost_and_counted() {
    let mut bench = Bench::new("duplicate=100%,delay=1s", "");
    let mut given = 0;
    while bench.devices[0].deliver(&frame(given, 50)) {
        given += 1;
        bench.after(Duration::from_micros(1));
    }
    let half = bench.report().halves[0].clone();
    assert!(given >= 256, "{given}");
    assert_eq!(half.held + half.extra.no_buffer, 2 * u64::from(given));
    bench.balance();
}
