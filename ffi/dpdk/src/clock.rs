//! The production clock: the time stamp counter where it is invariant, else `CLOCK_MONOTONIC`.
//!
//! EAL rounds its own measurement of the counter's frequency to 10 MHz, which is off by up to 0.2 %
//! here, so the frequency is measured against `CLOCK_MONOTONIC` once more.

use core::cell::Cell;
use std::time::Duration;

use base::{Clock, Instant};

/// How long the counter is compared with the kernel's clock: the error of one reading (about 50 ns)
/// becomes 2.5 parts in a million.
const CALIBRATION: Duration = Duration::from_millis(20);
/// Fractional bits of nanoseconds per tick.
const SHIFT: u32 = 32;

/// A time base that all workers of a process share: calibrate once, then take a
/// [`TscClock`] per worker.
#[derive(Clone, Copy, Debug)]
pub struct TimeBase(Source);

#[derive(Clone, Copy, Debug)]
enum Source {
    /// `nanos = (tsc - start) * scale >> SHIFT`
    Tsc {
        start: u64,
        scale: u64,
    },
    Monotonic {
        start: u64,
    },
}

impl TimeBase {
    /// Measure the counter's frequency (blocks for 20 ms) if the CPU and the kernel vouch for it;
    /// use `CLOCK_MONOTONIC` otherwise.
    pub fn calibrate() -> Self {
        if !tsc_is_invariant() {
            return Self::monotonic();
        }
        let (t0, n0) = reading();
        std::thread::sleep(CALIBRATION);
        let (t1, n1) = reading();
        match scale(t1.wrapping_sub(t0), n1.saturating_sub(n0)) {
            Some(scale) => Self(Source::Tsc { start: t0, scale }),
            None => Self::monotonic(),
        }
    }

    /// A time base on `CLOCK_MONOTONIC`.
    pub fn monotonic() -> Self {
        Self(Source::Monotonic { start: monotonic_nanos() })
    }

    /// Whether the time stamp counter is in use.
    pub fn uses_tsc(&self) -> bool {
        matches!(self.0, Source::Tsc { .. })
    }

    /// A clock for one thread.
    pub fn clock(&self) -> TscClock {
        TscClock { base: *self, last: Cell::new(0) }
    }

    fn nanos(&self) -> u64 {
        match self.0 {
            Source::Tsc { start, scale } => to_nanos(tsc().wrapping_sub(start), scale),
            Source::Monotonic { start } => monotonic_nanos().saturating_sub(start),
        }
    }
}

/// The clock of one worker; never goes back, even where the counters of two cores differ.
///
/// ```
/// use base::Clock;
/// let clock = dpdk::clock::TimeBase::calibrate().clock();
/// let a = clock.now();
/// assert!(clock.now() >= a);
/// ```
#[derive(Debug)]
pub struct TscClock {
    base: TimeBase,
    last: Cell<u64>,
}

impl Clock for TscClock {
    fn now(&self) -> Instant {
        let now = self.base.nanos().max(self.last.get());
        self.last.set(now);
        Instant::from_nanos(now)
    }
}

/// Nanoseconds per tick with [`SHIFT`] fractional bits; `None` when the reading is absurd.
fn scale(ticks: u64, nanos: u64) -> Option<u64> {
    // 100 MHz to 100 GHz: anything else is a counter that stood still or jumped.
    let sane = ticks / 100 <= nanos && nanos / 10 <= ticks && nanos > 0 && ticks > 0;
    if !sane {
        return None;
    }
    u64::try_from((u128::from(nanos) << SHIFT) / u128::from(ticks)).ok()
}

fn to_nanos(ticks: u64, scale: u64) -> u64 {
    // A core whose counter is a little behind the one that took `start` reads "negative" ticks.
    if ticks > u64::MAX / 2 {
        return 0;
    }
    ((u128::from(ticks) * u128::from(scale)) >> SHIFT) as u64
}

/// Counter and kernel clock at nearly the same moment: the closest of several tries, so that a
/// preemption between the two readings does no harm.
fn reading() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..16 {
        let before = tsc();
        let nanos = monotonic_nanos();
        let width = tsc().wrapping_sub(before);
        if width < best.0 {
            best = (width, before.wrapping_add(width / 2), nanos);
        }
    }
    (best.1, best.2)
}

fn tsc() -> u64 {
    // SAFETY: reads a counter; x86 offers it to every process, and on other architectures DPDK
    // reads the one that it uses itself.
    unsafe { dpdk_sys::mr_tsc() }
}

fn monotonic_nanos() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid place for the result; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut t) };
    (t.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(t.tv_nsec as u64)
}

/// The CPU says that the counter runs at one rate in every power state, and the kernel has not
/// given up on it (it watches it against other clocks).
fn tsc_is_invariant() -> bool {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = cpu.lines().find(|l| l.starts_with("flags")).unwrap_or_default();
    let has = |flag| flags.split_whitespace().any(|f| f == flag);
    let dir = "/sys/devices/system/clocksource/clocksource0/";
    let list = std::fs::read_to_string(format!("{dir}available_clocksource")).unwrap_or_default();
    has("constant_tsc")
        && has("nonstop_tsc")
        && list
            .split_whitespace()
            .any(|s| s == "tsc" || s == "kvm-clock" || s == "hyperv_clocksource_tsc_page")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_kernel_clock() {
        let base = TimeBase::calibrate();
        let clock = base.clock();
        // Several tries, since this thread may lose its CPU between the two readings. A frequency
        // that is off by one percent fails them all.
        let differences: Vec<Duration> = (0..10)
            .map(|_| {
                let (a, wall) = (clock.now(), std::time::Instant::now());
                std::thread::sleep(Duration::from_millis(20));
                let (b, wall) = (clock.now(), wall.elapsed());
                b.since(a).abs_diff(wall)
            })
            .collect();
        assert!(differences.iter().any(|d| d.as_micros() < 50), "{differences:?}");
    }

    #[test]
    fn absurd_frequencies_are_refused() {
        assert_eq!(scale(0, 20_000_000), None);
        assert_eq!(scale(20_000_000, 0), None);
        assert_eq!(scale(u64::MAX, 20_000_000), None);
        assert_eq!(scale(60_000_000, 20_000_000), Some((1 << SHIFT) / 3));
    }

    #[test]
    fn a_counter_behind_the_start_reads_zero() {
        assert_eq!(to_nanos(5u64.wrapping_sub(9), 1 << SHIFT), 0);
        assert_eq!(to_nanos(10, 1 << SHIFT), 10);
    }

    #[test]
    fn never_goes_back() {
        let clock = TimeBase::monotonic().clock();
        clock.last.set(u64::MAX / 4);
        assert_eq!(clock.now(), Instant::from_nanos(u64::MAX / 4));
    }
}
