//! In which state is this machine? Two-core results of a shared virtual machine differ by a factor
//! of two with where the host put the virtual CPUs, so a figure is worth little without it.
//!
//! Prints `near` or `far` (round trip of a cache line between cores 0 and 1), and how many simple
//! operations a nanosecond core 0 does in eight independent chains. A busy hyper-thread sibling takes about a
//! third of the latter; compare it between repeats, since its full value depends on the processor.

#![forbid(unsafe_code)]

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Between what was measured in the two states (50 to 78 ns, and 320 to 355 ns).
const FAR_ABOVE_NS: f64 = 150.0;
const ROUNDS: u64 = 200_000;

static BALL: AtomicU64 = AtomicU64::new(0);

fn main() {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let round_trip = if cores.len() >= 2 { ping_pong(cores[0], cores[1]) } else { f64::NAN };
    let operations = chains();
    let distance = if round_trip > FAR_ABOVE_NS { "far" } else { "near" };
    println!("{distance}, ping-pong {round_trip:.0} ns, {operations:.1} operations/ns");
}

fn ping_pong(a: core_affinity::CoreId, b: core_affinity::CoreId) -> f64 {
    let other = thread::spawn(move || {
        core_affinity::set_for_current(b);
        for i in 0..ROUNDS {
            while BALL.load(Ordering::Acquire) != 2 * i + 1 {
                std::hint::spin_loop();
            }
            BALL.store(2 * i + 2, Ordering::Release);
        }
    });
    core_affinity::set_for_current(a);
    let begun = Instant::now();
    for i in 0..ROUNDS {
        BALL.store(2 * i + 1, Ordering::Release);
        while BALL.load(Ordering::Acquire) != 2 * i + 2 {
            std::hint::spin_loop();
        }
    }
    let took = begun.elapsed();
    if other.join().is_err() {
        return f64::NAN;
    }
    took.as_nanos() as f64 / ROUNDS as f64
}

/// The best of several short runs: a preempted one says nothing.
fn chains() -> f64 {
    const STEPS: u64 = 1_000_000;
    let mut best = f64::MIN;
    let until = Instant::now() + Duration::from_millis(100);
    while Instant::now() < until {
        let mut x = [1u64, 2, 3, 4, 5, 6, 7, 8].map(black_box);
        let step = black_box(3u64);
        let begun = Instant::now();
        for _ in 0..STEPS {
            for v in &mut x {
                // The rotation keeps the compiler from adding all steps at once.
                *v = v.wrapping_add(step).rotate_left(1);
            }
        }
        black_box(x);
        let operations = (STEPS * 8 * 2) as f64 / begun.elapsed().as_nanos() as f64;
        best = best.max(operations);
    }
    best
}
