use std::fmt::Write as _;
use std::string::String;
use std::vec::Vec;

use base::Instant;
use proptest::prelude::*;

use super::cubic::cube_root;
use super::*;
use crate::testing::World;

const ALGORITHMS: [CongestionAlgorithm; 3] =
    [CongestionAlgorithm::Cubic, CongestionAlgorithm::Reno, CongestionAlgorithm::Dctcp];

fn ms(v: u64) -> Duration {
    Duration::from_millis(v)
}

fn full(acked: u32) -> Ack {
    Ack { acked, in_flight_max: u32::MAX, cwnd_limited: true }
}

/// One sender on a path with a fixed round trip whose window is always full.
struct Path {
    world: World,
    cc: CongestionControl,
    rtt: Duration,
    una: u32,
}

impl Path {
    fn new(algorithm: CongestionAlgorithm, rtt: Duration) -> Self {
        Self {
            world: World::new(),
            cc: CongestionControl::new(&TcpParams::default(), algorithm, 10),
            rtt,
            una: 1,
        }
    }

    /// One round trip: all of the window is acknowledged, two segments at a time, evenly spread.
    fn round(&mut self) {
        let mut left = self.cc.cwnd();
        let begin = self.world.now;
        let acks = left.div_ceil(2);
        let nxt = self.una.wrapping_add(left);
        for i in 1..=acks {
            let acked = left.min(2);
            left -= acked;
            self.una = self.una.wrapping_add(acked);
            self.world.now = begin + self.rtt * i / acks;
            self.ack(acked, self.rtt, nxt);
        }
    }

    fn ack(&mut self, acked: u32, rtt: Duration, nxt: u32) {
        let sample = RttSample {
            rtt,
            srtt: rtt,
            snd_mss: 1448,
            snd_una: SeqNum::new(self.una),
            snd_nxt: SeqNum::new(nxt),
            paced: false,
        };
        let mut cx = self.world.cx();
        self.cc.on_rtt_sample(&mut cx, &sample);
        self.cc.on_ack(&mut cx, &full(acked));
    }

    /// A loss, repaired within one round trip.
    fn lose(&mut self) {
        self.cc.on_congestion_event(&mut self.world.cx(), Signal::Loss);
        self.cc.set_cwnd(self.cc.ssthresh());
        self.world.now += self.rtt;
    }

    fn time_out(&mut self) {
        self.cc.on_rto(&mut self.world.cx(), 0, true);
    }
}

#[test]
fn cube_root_is_exact() {
    let mut root = 0u64;
    for n in 0..2_000_000u64 {
        if (root + 1).pow(3) <= n {
            root += 1;
        }
        assert_eq!(u64::from(cube_root(n)), root, "of {n}");
    }
    for root in (1..2_642_245u64).step_by(997).chain([2_642_245]) {
        let cube = root.pow(3);
        assert_eq!(u64::from(cube_root(cube - 1)), root - 1);
        assert_eq!(u64::from(cube_root(cube)), root);
        assert_eq!(u64::from(cube_root(cube + 1)), root);
    }
    assert_eq!(cube_root(u64::MAX), 2_642_245);
}

/// Window per round trip of 50 ms under losses in rounds 5, 40 and 44 and a timeout in round 60.
#[test]
fn window_per_round_trip_under_fixed_losses() {
    let mut text = String::new();
    for algorithm in ALGORITHMS {
        let mut p = Path::new(algorithm, ms(50));
        write!(text, "{}:", algorithm.name()).unwrap();
        for round in 0..80 {
            if round % 10 == 0 {
                text.push_str("\n ");
            }
            write!(text, " {:>4}", p.cc.cwnd()).unwrap();
            match round {
                5 | 40 | 44 => p.lose(),
                60 => p.time_out(),
                _ => p.round(),
            }
        }
        text.push('\n');
    }
    let expected = include_str!("rounds.txt");
    assert!(text == expected, "cwnd per round changed; now:\n{text}");
}

#[test]
fn slow_start_doubles_and_hands_the_rest_to_avoidance() {
    for algorithm in ALGORITHMS {
        let mut p = Path::new(algorithm, ms(50));
        p.round();
        assert_eq!(p.cc.cwnd(), 20);
        p.round();
        assert_eq!(p.cc.cwnd(), 40);
    }
    let mut w = Window::new(10);
    w.ssthresh = 12;
    assert_eq!(w.grow_slow_start(5), 3);
    assert_eq!(w.cwnd, 12);
    assert_eq!(w.grow_slow_start(5), 5);
}

#[test]
fn dividing_acknowledgements_gains_nothing() {
    // A segment acknowledged in a thousand pieces counts when its last byte is: zero segments for
    // all pieces but the last.
    for algorithm in ALGORITHMS {
        let mut p = Path::new(algorithm, ms(50));
        for _ in 0..1000 {
            p.ack(0, ms(50), 20);
        }
        assert_eq!(p.cc.cwnd(), 10, "slow start");
        p.lose();
        let before = p.cc.cwnd();
        for _ in 0..1000 {
            p.ack(0, ms(50), 20);
        }
        assert_eq!(p.cc.cwnd(), before, "avoidance");
    }
}

#[test]
fn an_unused_window_does_not_grow() {
    for algorithm in ALGORITHMS {
        let mut p = Path::new(algorithm, ms(50));
        let mut ack = |a: &Ack| -> u32 {
            p.cc.on_ack(&mut p.world.cx(), a);
            p.cc.cwnd()
        };
        let idle = Ack { acked: 2, in_flight_max: 5, cwnd_limited: false };
        assert_eq!(ack(&idle), 10, "half of the window was never exceeded");
        assert_eq!(ack(&Ack { in_flight_max: 6, ..idle }), 12, "slow start needs only half");
        p.lose();
        let before = p.cc.cwnd();
        for _ in 0..100 {
            p.cc.on_ack(&mut p.world.cx(), &Ack { in_flight_max: 100, ..idle });
        }
        assert_eq!(p.cc.cwnd(), before, "avoidance needs all of it");
    }
}

#[test]
fn reductions_and_their_undo() {
    for (name, algorithm, cwnd, ssthresh) in [
        ("cubic, 717/1024", CongestionAlgorithm::Cubic, 100, 70),
        ("cubic, never below two", CongestionAlgorithm::Cubic, 2, 2),
        ("reno, one half", CongestionAlgorithm::Reno, 101, 50),
        ("reno, never below two", CongestionAlgorithm::Reno, 1, 2),
        ("dctcp, a loss halves", CongestionAlgorithm::Dctcp, 101, 50),
    ] {
        let mut world = World::new();
        let mut cc = CongestionControl::new(&TcpParams::default(), algorithm, cwnd);
        cc.on_congestion_event(&mut world.cx(), Signal::Loss);
        assert_eq!(
            (cc.cwnd(), cc.ssthresh()),
            (cwnd, ssthresh),
            "{name}: the window follows later"
        );
        cc.set_cwnd(ssthresh);
        cc.on_undo();
        assert_eq!(cc.cwnd(), cwnd.max(ssthresh), "{name}");
        assert_eq!(cc.ssthresh(), SSTHRESH_INFINITE, "{name}");

        let mut cc = CongestionControl::new(&TcpParams::default(), algorithm, cwnd);
        cc.on_rto(&mut world.cx(), 3, true);
        assert_eq!((cc.cwnd(), cc.ssthresh()), (4, ssthresh), "{name}");
        cc.on_rto(&mut world.cx(), 0, false);
        assert_eq!((cc.cwnd(), cc.ssthresh()), (1, ssthresh), "{name}: one reduction per episode");
        cc.on_undo();
        assert_eq!(cc.cwnd(), cwnd, "{name}");
    }
}

fn delivery(segs: u32, marked: u32, una: u32, nxt: u32) -> Delivery {
    Delivery { segs, marked, snd_una: SeqNum::new(una), snd_nxt: SeqNum::new(nxt) }
}

/// A loss in the window of data that a mark has reduced.
#[test]
fn one_window_of_data_is_reduced_once() {
    for (algorithm, after_mark, after_loss) in [
        (CongestionAlgorithm::Cubic, 70, 70),
        (CongestionAlgorithm::Reno, 50, 50),
        // The estimate begins at one and a window without marks takes a sixteenth: 1 - 960/2048.
        (CongestionAlgorithm::Dctcp, 54, 50),
    ] {
        let mut world = World::new();
        let mut cc = CongestionControl::new(&TcpParams::default(), algorithm, 100);
        cc.on_delivered(&delivery(10, 0, 10, 10));
        cc.on_congestion_event(&mut world.cx(), Signal::Mark);
        assert_eq!((cc.cwnd(), cc.ssthresh()), (100, after_mark), "{algorithm:?}");
        cc.set_cwnd(60);
        cc.on_congestion_event(&mut world.cx(), Signal::LossAfterMark);
        assert_eq!((cc.cwnd(), cc.ssthresh()), (60, after_loss), "{algorithm:?}");
    }
}

/// RFC 8257 section 3.3 and RFC 8257 section 4.2: `alpha` is the moving average of the share of marked segments, one sample for each
/// window of data.
#[test]
fn the_estimate_of_dctcp_follows_the_share_of_marked_segments() {
    let estimate = |alpha: u16, shift: u8, windows: usize, marked: u32| {
        let params =
            TcpParams { dctcp_alpha_on_init: alpha, dctcp_shift_g: shift, ..TcpParams::default() };
        let mut dctcp = Dctcp::new(&params, 10);
        // The first acknowledgement begins a window, and each is acknowledged in two parts.
        dctcp.on_delivered(&delivery(0, 0, 0, 100));
        let mut una = 0;
        for _ in 0..windows {
            let before = dctcp.alpha();
            dctcp.on_delivered(&delivery(50, marked / 2, una + 50, una + 150));
            assert_eq!(dctcp.alpha(), before, "in the middle of a window");
            una += 100;
            dctcp.on_delivered(&delivery(50, marked - marked / 2, una, una + 100));
        }
        dctcp.alpha()
    };
    assert_eq!(estimate(1024, 4, 1, 0), 960, "one window without marks: 15/16");
    assert_eq!(estimate(0, 4, 1, 100), 64, "one window of marks: 1/16");
    assert_eq!(estimate(0, 0, 1, 25), 256, "without a memory the share itself");
    for share in [0, 10, 50, 90, 100] {
        for begin in [0, 1024] {
            let (alpha, exact) = (estimate(begin, 4, 200, share), share * 1024 / 100);
            // What a sixteenth loses in integers is at most 15.
            assert!(alpha.abs_diff(exact) <= 16, "{share} %: {alpha}, not {exact}");
        }
    }
    assert_eq!(estimate(1024, 4, 200, 0), 0, "it reaches zero");
}

/// RFC 5681 section 4.1.
#[test]
fn idleness_halves_the_window_once_per_timeout() {
    for (name, idle, cwnd) in [
        ("less than a timeout", 199, 100),
        ("one", 200, 50),
        ("two", 400, 25),
        ("many, down to the initial window", 100_000, 10),
    ] {
        let mut cc = CongestionControl::new(&TcpParams::default(), CongestionAlgorithm::Reno, 100);
        cc.on_idle_restart(ms(idle), ms(200), 10);
        assert_eq!(cc.cwnd(), cwnd, "{name}");
    }
    let mut cc = CongestionControl::new(&TcpParams::default(), CongestionAlgorithm::Reno, 4);
    cc.on_idle_restart(Duration::MAX, Duration::ZERO, 10);
    assert_eq!(cc.cwnd(), 4, "never larger than before");
}

#[test]
fn an_application_limited_window_decays_towards_its_use() {
    let mut cc = CongestionControl::new(&TcpParams::default(), CongestionAlgorithm::Reno, 100);
    cc.set_cwnd(100);
    cc.on_congestion_event(&mut World::new().cx(), Signal::Loss);
    cc.on_application_limited(20, 10);
    assert_eq!((cc.cwnd(), cc.ssthresh()), (60, 75));
    cc.on_application_limited(2, 10);
    assert_eq!(cc.cwnd(), 35, "the initial window is the least use");
    cc.on_application_limited(40, 10);
    assert_eq!(cc.cwnd(), 35);
}

/// RFC 9438 section 4.2.
#[test]
fn cubic_follows_the_curve_of_the_standard() {
    let mut p = Path::new(CongestionAlgorithm::Cubic, ms(100));
    p.cc.set_cwnd(2000);
    p.lose();
    let begin = p.world.now;
    assert_eq!(p.cc.cwnd(), 1400);
    let k = (600.0f64 / 0.4).cbrt();
    for _ in 0..200 {
        p.round();
        let t = p.world.now.since(begin).as_secs_f64();
        let curve = 0.4 * (t - k).powi(3) + 2000.0;
        let off = (f64::from(p.cc.cwnd()) - curve).abs();
        // One step of the curve per round trip, and the rounding of the steps.
        let slack = 3.0 * 0.4 * (t - k).powi(2) * 0.1 + 0.02 * curve;
        assert!(off <= slack, "at {t} s: cwnd {}, curve {curve}", p.cc.cwnd());
    }
    assert!(p.cc.cwnd() > 2000);
}

/// RFC 9438 section 4.3.
#[test]
fn cubic_is_never_slower_than_reno_on_short_paths() {
    let mut p = Path::new(CongestionAlgorithm::Cubic, ms(1));
    p.cc.set_cwnd(20);
    p.lose();
    let before = p.cc.cwnd();
    for _ in 0..100 {
        p.round();
    }
    // 0.53 segments per round trip; the cubic alone would not have moved in 100 ms.
    let grown = p.cc.cwnd() - before;
    assert!((35..=55).contains(&grown), "grew by {grown}");
}

/// RFC 9438 section 4.7.
#[test]
fn cubic_releases_bandwidth_when_losses_come_earlier() {
    let mut p = Path::new(CongestionAlgorithm::Cubic, ms(50));
    p.cc.set_cwnd(1000);
    p.lose();
    p.lose();
    let CongestionControl::Cubic(c) = &p.cc else { unreachable!() };
    // 700 * (1024 + 717) / 2048
    assert_eq!(c.w_max, 595);
}

#[test]
fn cubic_grows_by_half_per_round_trip_at_most() {
    let mut p = Path::new(CongestionAlgorithm::Cubic, ms(50));
    p.cc.set_cwnd(100);
    p.lose();
    p.round();
    // The epoch is long over, so the curve is far above the window.
    p.world.now += Duration::from_secs(3600);
    for _ in 0..5 {
        let before = p.cc.cwnd();
        p.round();
        let after = p.cc.cwnd();
        assert!(
            after > before + before / 3 && after <= before + before / 2 + 1,
            "{before} {after}"
        );
    }
}

#[test]
fn cubic_ignores_the_round_trips_of_a_recovery() {
    // A least round trip from the first second of an epoch would move the curve; so a connection
    // that sees one must grow like one that does not.
    let grown = |rtt| {
        let mut p = Path::new(CongestionAlgorithm::Cubic, ms(500));
        p.cc.set_cwnd(1000);
        p.lose();
        p.ack(2, ms(500), 0);
        p.world.now += ms(100);
        p.ack(2, rtt, 0);
        p.world.now += Duration::from_secs(4);
        p.ack(0, ms(500), 0);
        for _ in 0..500 {
            p.world.now += ms(1);
            p.ack(2, ms(500), 0);
        }
        p.cc.cwnd()
    };
    assert_eq!(grown(ms(1)), grown(ms(500)));
}

#[test]
fn cubic_does_not_count_idle_time() {
    let grown = |idle: Duration| {
        let mut p = Path::new(CongestionAlgorithm::Cubic, ms(50));
        p.cc.set_cwnd(1000);
        p.lose();
        p.round();
        p.world.now += idle;
        p.cc.on_transmit_start(&mut p.world.cx(), idle);
        p.round();
        p.cc.cwnd()
    };
    assert_eq!(grown(Duration::ZERO), grown(ms(20_000)));
}

#[test]
fn hystart_leaves_slow_start_on_delay() {
    let mut p = Path::new(CongestionAlgorithm::Cubic, ms(50));
    p.round();
    assert_eq!(p.cc.ssthresh(), SSTHRESH_INFINITE);
    p.rtt = ms(57);
    p.round();
    p.round();
    assert_eq!(p.world.counters.hystart_delay_detect, 1);
    assert_eq!(p.world.counters.hystart_train_detect, 0);
    assert!(p.cc.ssthresh() < 80);
    // An eighth of 50 ms is 6.25 ms: 6 ms more is no sign.
    let mut p = Path::new(CongestionAlgorithm::Cubic, ms(50));
    p.round();
    p.rtt = ms(56);
    p.round();
    p.round();
    assert_eq!(p.cc.ssthresh(), SSTHRESH_INFINITE);
}

#[test]
fn hystart_judges_delay_by_eight_samples_of_a_round() {
    let mut p = Path::new(CongestionAlgorithm::Cubic, ms(50));
    p.round();
    p.round();
    let nxt = p.una + 100;
    for i in 0..9 {
        p.world.now += ms(5);
        p.una += 1;
        assert_eq!(p.world.counters.hystart_delay_detect, 0, "after {i} samples");
        p.ack(1, ms(80), nxt);
    }
    assert_eq!(p.world.counters.hystart_delay_detect, 1);
}

#[test]
fn hystart_leaves_slow_start_on_a_long_train() {
    let mut p = Path::new(CongestionAlgorithm::Cubic, ms(50));
    p.cc.set_cwnd(64);
    let begin = Instant::from_millis(100);
    // Acknowledgements 1 ms apart for longer than (50 + 1) / 2 ms.
    for i in 0..40u64 {
        p.world.now = begin + ms(i);
        p.una += 1;
        p.ack(1, ms(50), 200);
        let found = p.world.counters.hystart_train_detect == 1;
        assert_eq!(found, i > 25, "after {i} ms");
    }
    // With gaps above 2 ms there is no train.
    let mut p = Path::new(CongestionAlgorithm::Cubic, ms(50));
    p.cc.set_cwnd(64);
    for i in 0..40u64 {
        p.world.now = begin + ms(3 * i);
        p.una += 1;
        p.ack(1, ms(50), 200);
    }
    assert_eq!(p.world.counters.hystart_train_detect, 0);
}

#[test]
fn hystart_is_quiet_below_sixteen_segments() {
    let mut p = Path::new(CongestionAlgorithm::Cubic, ms(50));
    for i in 0..100 {
        p.world.now = Instant::from_millis(i);
        p.ack(0, ms(if i < 10 { 10 } else { 100 }), 20);
    }
    assert_eq!(p.cc.ssthresh(), SSTHRESH_INFINITE);
}

#[derive(Clone, Debug)]
enum Op {
    Ack {
        acked: u32,
        wait_us: u64,
        rtt_us: u64,
    },
    Lose,
    LoseMore,
    /// Segments delivered, and marked.
    Marked(u32, u32),
    TimeOut {
        in_flight: u32,
        first: bool,
    },
    Undo,
    SetCwnd(u32),
    Idle(u64),
    Limited(u32),
    Start(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (any::<u32>(), 0..1u64 << 40, any::<u64>()).prop_map(|(acked, wait_us, rtt_us)| Op::Ack {
            acked: acked >> (acked & 31), wait_us: wait_us >> (acked & 31), rtt_us: rtt_us >> (acked & 63),
        }),
        2 => Just(Op::Lose),
        2 => (any::<u32>(), any::<u32>()).prop_map(|(segs, marked)| Op::Marked(segs, marked)),
        1 => Just(Op::LoseMore),
        1 => (any::<u32>(), any::<bool>()).prop_map(|(in_flight, first)| Op::TimeOut { in_flight, first }),
        1 => Just(Op::Undo),
        1 => any::<u32>().prop_map(Op::SetCwnd),
        1 => any::<u64>().prop_map(Op::Idle),
        1 => any::<u32>().prop_map(Op::Limited),
        1 => any::<u64>().prop_map(Op::Start),
    ]
}

proptest! {
    /// Whatever happens in whatever order, the numbers stay in range and nothing overflows.
    #[test]
    fn windows_stay_in_range(ops in proptest::collection::vec(op(), 1..200), which in 0..ALGORITHMS.len()) {
        let ops: Vec<Op> = ops;
        let mut p = Path::new(ALGORITHMS[which], ms(50));
        for op in ops {
            let before = (p.cc.cwnd(), p.cc.in_slow_start());
            match op {
                Op::Ack { acked, wait_us, rtt_us } => {
                    p.world.now += Duration::from_micros(wait_us);
                    p.una = p.una.wrapping_add(acked);
                    p.ack(acked, Duration::from_micros(rtt_us), p.una.wrapping_add(acked));
                    prop_assert!(p.cc.cwnd() >= before.0);
                    prop_assert!(p.cc.cwnd() - before.0 <= acked.saturating_add(1));
                }
                Op::Lose => p.cc.on_congestion_event(&mut p.world.cx(), Signal::Loss),
                Op::Marked(segs, marked) => {
                    p.cc.on_delivered(&delivery(segs, segs.min(marked), p.una, p.una));
                    p.cc.on_congestion_event(&mut p.world.cx(), Signal::Mark);
                }
                Op::LoseMore => p.cc.on_congestion_event(&mut p.world.cx(), Signal::LossAfterMark),
                Op::TimeOut { in_flight, first } => p.cc.on_rto(&mut p.world.cx(), in_flight, first),
                Op::Undo => p.cc.on_undo(),
                Op::SetCwnd(cwnd) => p.cc.set_cwnd(cwnd),
                Op::Idle(us) => {
                    p.cc.on_idle_restart(Duration::from_micros(us), ms(us % 1000), 10);
                    prop_assert!(p.cc.cwnd() <= before.0);
                }
                Op::Limited(used) => p.cc.on_application_limited(used, 10),
                Op::Start(us) => p.cc.on_transmit_start(&mut p.world.cx(), Duration::from_micros(us)),
            }
            prop_assert!((1..=CWND_MAX).contains(&p.cc.cwnd()));
            prop_assert!(p.cc.ssthresh() >= SSTHRESH_MIN);
        }
    }
}
