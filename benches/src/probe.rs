//! In which state is this machine? Two-core results of a shared virtual machine differ by a factor
//! of two with where the host put the virtual CPUs, so a figure is worth little without it.

use std::fmt;
use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Between what was measured in the two states (50 to 78 ns, and 320 to 355 ns).
const FAR_ABOVE_NS: f64 = 150.0;
const ROUNDS: u64 = 200_000;

static BALL: AtomicU64 = AtomicU64::new(0);

/// What a probe of a third of a second finds.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// Round trip of a cache line between cores 0 and 1 in nanoseconds; not a number on one core.
    pub ping_pong_ns: f64,
    /// Simple operations per nanosecond in eight independent chains. A busy hyper-thread sibling takes
    /// about a third of it; compare it between repeats, since its full value depends on the processor.
    pub operations_per_ns: f64,
}

impl State {
    /// Probe now. The calling thread is pinned to the first core afterwards.
    pub fn probe() -> Self {
        // Asked once: what a pinned thread is told are the cores that are left to it.
        static CORES: OnceLock<Vec<core_affinity::CoreId>> = OnceLock::new();
        let cores = CORES.get_or_init(|| core_affinity::get_core_ids().unwrap_or_default());
        let ping_pong_ns = match cores.as_slice() {
            [a, b, ..] => ping_pong(*a, *b),
            _ => f64::NAN,
        };
        Self { ping_pong_ns, operations_per_ns: chains() }
    }

    /// Both cores share a third-level cache.
    pub fn is_near(&self) -> bool {
        self.ping_pong_ns <= FAR_ABOVE_NS
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let distance = if self.is_near() { "near" } else { "far" };
        let Self { ping_pong_ns, operations_per_ns } = self;
        write!(
            f,
            "{distance}, ping-pong {ping_pong_ns:.0} ns, {operations_per_ns:.1} operations/ns"
        )
    }
}

fn ping_pong(a: core_affinity::CoreId, b: core_affinity::CoreId) -> f64 {
    BALL.store(0, Ordering::SeqCst);
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

/// How much of the machine others used while something was measured.
#[derive(Debug)]
pub struct ForeignTime {
    begun: Instant,
    machine: Option<u64>,
    own: Option<u64>,
}

impl ForeignTime {
    /// Start counting. The processes that a measurement has started belong to it once they have been
    /// waited for.
    pub fn start() -> Self {
        Self { begun: Instant::now(), machine: machine_ticks(), own: own_ticks() }
    }

    /// Cores that others used on average since the start; `None` where the kernel does not tell.
    pub fn cores(&self) -> Option<f64> {
        let machine = machine_ticks()?.saturating_sub(self.machine?);
        let own = own_ticks()?.saturating_sub(self.own?);
        let elapsed = self.begun.elapsed().as_secs_f64() * TICKS_PER_SECOND;
        Some(machine.saturating_sub(own) as f64 / elapsed.max(1.0))
    }
}

/// `USER_HZ`, which is 100 on every architecture that Linux has today.
const TICKS_PER_SECOND: f64 = 100.0;

/// Ticks that all processes have spent running: user, nice, system, irq and softirq.
fn machine_ticks() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let fields: Vec<u64> =
        stat.lines().next()?.split_whitespace().skip(1).filter_map(|f| f.parse().ok()).collect();
    [0, 1, 2, 5, 6].iter().map(|&i| fields.get(i).copied()).sum()
}

/// Ticks of this process and of the children that it has waited for.
fn own_ticks() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the process may contain spaces, but nothing after its closing bracket does.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().skip(11).take(4).map(|f| f.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_work_is_not_foreign() {
        let (foreign, begun) = (ForeignTime::start(), Instant::now());
        let before = own_ticks().expect("a kernel that tells");
        let mut x = 0u64;
        while begun.elapsed() < Duration::from_millis(200) {
            x = black_box(x.wrapping_add(1));
        }
        // A busy machine may give us less than that, but hardly a twentieth.
        assert!(own_ticks().expect("as before") > before);
        assert!(foreign.cores().expect("as before") >= 0.0);
    }
}
