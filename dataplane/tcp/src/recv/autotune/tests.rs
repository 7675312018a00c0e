use std::vec::Vec;

use super::*;
use crate::WindowScale;
use proptest::prelude::*;

const MSS: u32 = 1460;

/// A receiver of one variant whose application takes what arrives.
struct Receiver {
    tune: Autotune,
    space: RecvSpace,
    params: TcpParams,
    seq: SeqNum,
    now: Instant,
    tsecr: u32,
}

impl Receiver {
    fn new(variant: Autotuning, rmem: [u32; 3]) -> Self {
        let params = TcpParams { autotuning: variant, rmem, ..TcpParams::default() };
        let now = Instant::from_millis(1000);
        let scale = WindowScale::clamped(14);
        let mut space = RecvSpace::new(&params, rmem[1], 64_240, MSS, scale, None);
        if variant.learns_ratio() {
            space.learn_ratio(1460, 2304);
        }
        let tune = Autotune::new(now, SeqNum::new(7), variant, 64_240, MSS, 0);
        Self { tune, space, params, seq: SeqNum::new(7), now, tsecr: 1 }
    }

    fn reading(&self, waiting: u32, ooo: Option<u32>) -> Reading {
        let rcv_nxt = self.seq.add(waiting);
        Reading {
            now: self.now,
            copied_seq: self.seq,
            rcv_nxt,
            ooo_end: ooo.map(|bytes| rcv_nxt.add(bytes)),
            advmss: MSS,
            locked: false,
            buffer_cost: 2304,
        }
    }

    /// A round trip in which the application takes `bytes` and leaves `waiting`.
    fn round(&mut self, rtt: Duration, bytes: u32, waiting: u32) {
        self.now += rtt;
        self.tsecr += 1;
        let echo = Echo { tsecr: self.tsecr, age: rtt };
        self.tune.on_echo(echo, self.params.autotuning, false);
        self.seq = self.seq.add(bytes);
        let reading = self.reading(waiting, None);
        self.tune.on_copied(&reading, &self.params, &mut self.space);
    }
}

fn ms(v: u64) -> Duration {
    Duration::from_millis(v)
}

const ALL: [Autotuning; 3] = [Autotuning::Legacy, Autotuning::Smooth, Autotuning::Modern];

#[test]
fn a_reader_that_keeps_pace_with_slow_start_is_never_the_limit() {
    let limited = |variant| {
        let mut r = Receiver::new(variant, [4096, 131_072, 1 << 30]);
        let mut burst = 10 * MSS;
        let mut limited = 0;
        for _ in 1..14 {
            limited += u32::from(r.space.window_clamp < burst);
            r.round(ms(20), burst, 0);
            burst *= 2;
        }
        limited
    };
    assert_eq!(limited(Autotuning::Modern), 0);
    // The first round was compared with the whole first window, and nothing grew before that was exceeded.
    assert_eq!(limited(Autotuning::Smooth), 1);
}

#[test]
fn legacy_and_smooth_are_the_same_at_a_quarter_and_at_half_more() {
    for (copied, expected) in
        [(125_000, 3 * (250_000 + 16 * MSS) / 2), (150_000, 2 * (300_000 + 16 * MSS))]
    {
        let legacy = legacy_window(copied, 100_000, MSS);
        assert_eq!(legacy.unsigned_abs(), expected);
        assert_eq!(smooth_window(copied, 100_000, MSS), u64::from(expected));
    }
    // Between and beyond the steps the one stands still and the other does not.
    assert_eq!(legacy_window(124_999, 100_000, MSS).unsigned_abs(), 249_998 + 16 * MSS);
    assert!(smooth_window(124_999, 100_000, MSS) > 370_000);
    assert!(smooth_window(200_000, 100_000, MSS) > legacy_window(200_000, 100_000, MSS) as u64);
}

#[test]
fn five_hundred_megabytes_overflow_legacy_only() {
    let rmem = [4096, 131_072, 500_000_000];
    for variant in ALL {
        let mut r = Receiver::new(variant, rmem);
        r.tune.space = 120_000_000;
        r.round(ms(100), 300_000_000, 0);
        match variant {
            Autotuning::Legacy => {
                assert_ne!(r.space.rcvbuf, 500_000_000, "the product wrapped");
            }
            _ => {
                assert_eq!(r.space.rcvbuf, 500_000_000, "{variant:?}");
                assert_eq!(r.space.window_clamp, r.space.full_space(), "{variant:?}");
            }
        }
    }
}

#[test]
fn the_clamp_of_legacy_is_what_was_wanted_not_what_there_is() {
    for variant in ALL {
        let mut r = Receiver::new(variant, [4096, 131_072, 262_144]);
        r.round(ms(20), 64_240, 0);
        r.round(ms(20), 200_000, 0);
        assert_eq!(r.space.rcvbuf, 262_144, "{variant:?}");
        let honest = r.space.window_clamp == r.space.full_space();
        assert_eq!(honest, variant != Autotuning::Legacy, "{variant:?}: {}", r.space.window_clamp);
    }
}

#[test]
fn steady_rates_and_slow_readers_do_not_grow() {
    for variant in ALL {
        let mut r = Receiver::new(variant, [4096, 131_072, 32 << 20]);
        r.round(ms(20), 60_000, 0);
        let settled = r.space.rcvbuf;
        for _ in 0..10 {
            r.round(ms(20), 60_000, 0);
        }
        assert_eq!(r.space.rcvbuf, settled, "{variant:?}: steady");
    }
    let mut r = Receiver::new(Autotuning::Modern, [4096, 131_072, 32 << 20]);
    for _ in 0..10 {
        r.round(ms(20), 100_000, 90_000);
    }
    assert_eq!(r.space.rcvbuf, 131_072, "what waits to be read is no reason for more");
}

#[test]
fn short_paths_are_damped() {
    let window = |rtt_us: u64| {
        let mut r = Receiver::new(Autotuning::Modern, [4096, 1, 1 << 30]);
        r.tune.space = 100_000;
        r.round(Duration::from_micros(rtt_us), 0, 0);
        r.round(Duration::from_micros(rtt_us), 300_000, 0);
        r.space.full_space()
    };
    let near = |got: u32, expected: u32| got.abs_diff(expected) <= expected / 100;
    assert!(near(window(50), 630_000), "5 % at 50 us: {}", window(50));
    assert!(near(window(500), 900_000), "half at 500 us: {}", window(500));
    assert!(near(window(1000), 600_000 * 5), "all of it at 1 ms: {}", window(1000));
}

#[test]
fn room_for_a_hole_is_there_before_it_is_filled() {
    let mut r = Receiver::new(Autotuning::Modern, [4096, 131_072, 32 << 20]);
    r.round(ms(20), 60_000, 0);
    let before = r.space.full_space();
    let reading = r.reading(0, Some(400_000));
    r.tune.on_out_of_order(&reading, &r.params, &mut r.space);
    assert!(r.space.full_space() >= before.max(400_000), "{}", r.space.full_space());
    for variant in [Autotuning::Legacy, Autotuning::Smooth] {
        let mut r = Receiver::new(variant, [4096, 131_072, 32 << 20]);
        let reading = r.reading(0, Some(400_000));
        r.tune.on_out_of_order(&reading, &r.params, &mut r.space);
        assert_eq!(r.space.rcvbuf, 131_072, "{variant:?}");
    }
}

#[test]
fn receiver_round_trips_hold_on_to_the_least_in_the_modern_form() {
    let samples = [(20, false), (40, false), (40, true), (10, true), (400, true)];
    let rtt = |variant| -> Vec<u128> {
        let mut tune = Autotune::new(Instant::ZERO, SeqNum::new(0), variant, 64_240, MSS, 0);
        let mut seen = Vec::new();
        for (tsecr, (age, behind)) in samples.iter().enumerate() {
            let echo = Echo { tsecr: tsecr as u32 + 1, age: ms(*age) };
            tune.on_echo(echo, variant, *behind);
            // The same echo again says nothing.
            tune.on_echo(Echo { age: ms(9999), ..echo }, variant, false);
            seen.push(tune.rtt().as_micros());
        }
        seen
    };
    assert_eq!(rtt(Autotuning::Modern), [20_000, 22_500, 22_500, 10_000, 10_000]);
    assert_eq!(rtt(Autotuning::Smooth), [20_000, 22_500, 24_687, 22_851, 69_995]);
}

#[test]
fn an_echo_of_no_age_is_no_sample() {
    let mut tune = Autotune::new(Instant::ZERO, SeqNum::new(0), Autotuning::Modern, 64_240, MSS, 0);
    tune.on_echo(Echo { tsecr: 5, age: Duration::ZERO }, Autotuning::Modern, false);
    assert_eq!(tune.rtt(), Duration::ZERO);
}

#[test]
fn without_timestamps_a_window_is_a_round_trip_and_only_less_is_believed() {
    let mut tune = Autotune::new(Instant::ZERO, SeqNum::new(0), Autotuning::Modern, 64_240, MSS, 0);
    tune.on_window(Instant::from_millis(1), SeqNum::new(1000), 20_000);
    tune.on_window(Instant::from_millis(6), SeqNum::new(21_000), 20_000);
    assert_eq!(tune.rtt(), ms(5));
    tune.on_window(Instant::from_millis(60), SeqNum::new(41_000), 20_000);
    assert_eq!(tune.rtt(), ms(5));
}

#[test]
fn what_was_measured_is_kept_over_a_pause() {
    let mut r = Receiver::new(Autotuning::Modern, [4096, 131_072, 32 << 20]);
    r.round(ms(20), 14_600, 0);
    r.round(ms(20), 400_000, 0);
    let (space, rcvbuf) = (r.tune.space(), r.space.rcvbuf);
    r.tune = Autotune::new(r.now, r.seq, Autotuning::Modern, 64_240, MSS, space);
    r.round(ms(20), 400_000, 0);
    r.round(ms(20), 400_000, 0);
    assert_eq!(r.space.rcvbuf, rcvbuf, "the same rate as before is no reason to grow");
}

proptest! {
    #[test]
    fn a_buffer_never_shrinks_and_never_exceeds_the_limit(
        variant in 0usize..3, max in 131_072u32..1 << 30,
        rounds in proptest::collection::vec((1u64..400_000, 0u32..1 << 29, 0u32..1 << 20), 1..40),
    ) {
        let mut r = Receiver::new(ALL[variant], [4096, 131_072, max]);
        for (rtt, bytes, waiting) in rounds {
            let before = r.space.rcvbuf;
            r.round(Duration::from_micros(rtt), bytes, waiting);
            let reading = r.reading(waiting, Some(bytes / 2));
            r.tune.on_out_of_order(&reading, &r.params, &mut r.space);
            prop_assert!(r.space.rcvbuf >= before && r.space.rcvbuf <= max);
            if variant > 0 {
                prop_assert!(r.space.window_clamp <= r.space.full_space());
            }
        }
    }
}
