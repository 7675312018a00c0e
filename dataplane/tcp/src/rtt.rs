//! Round trips and the retransmission timeout: RFC 9293 section 3.8.1, RFC 6298 with the refinements
//! of Linux.
//!
//! [`Estimator`] keeps the smoothed round trip, its deviation and the least round trip of the last
//! minutes. [`Rto`] is a timeout that cannot leave its range. Times are `u32` microseconds in
//! private fields, because every connection carries them.

use core::time::Duration;

use base::Instant;

use crate::{SeqNum, TcpParams};

/// How long a least round trip counts, `tcp_min_rtt_wlen`.
pub const MIN_RTT_WINDOW: Duration = Duration::from_secs(300);

/// Samples are limited to this (268 s), so that eight times one fits 32 bits.
const SAMPLE_MAX_US: u32 = 1 << 28;

/// Microseconds of `d`, limited to what the estimator can hold; never zero, because zero means
/// "nothing known".
fn sample_us(d: Duration) -> u32 {
    micros(d).clamp(1, SAMPLE_MAX_US)
}

/// Microseconds of `d`, saturating at about 71 minutes.
#[inline]
fn micros(d: Duration) -> u32 {
    let us = d.as_secs().saturating_mul(1_000_000).saturating_add(d.subsec_micros().into());
    us.min(u32::MAX.into()) as u32
}

/// A duration of `us` microseconds.
const fn from_us(us: u32) -> Duration {
    Duration::from_micros(us as u64)
}

/// Smoothed round trip, its deviation, and the windowed minimum.
///
/// RFC 6298 with two differences of Linux: a deviation that grows because the round trip *falls*
/// counts only an eighth, and the deviation used is the largest of the present round trip, which
/// decays once per round trip and never falls below `tcp_rto_min_us`.
#[derive(Clone, Debug, Default)]
pub struct Estimator {
    /// Smoothed round trip times eight; zero before the first sample.
    srtt_us8: u32,
    /// Mean deviation times four.
    mdev_us4: u32,
    /// Largest `mdev_us4` since the round began.
    mdev_max_us4: u32,
    /// What the timeout adds to the smoothed round trip (four mean deviations).
    rttvar_us4: u32,
    /// The present round ends when this is acknowledged.
    round_end: SeqNum,
    min_rtt: WindowedMin,
}

// Every connection carries one, idle or not.
const _: () = assert!(size_of::<Estimator>() <= 44 && size_of::<Rto>() <= 8);

impl Estimator {
    /// Nothing known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A round trip was measured, on a segment that was never retransmitted (Karn) or by timestamp.
    /// `snd_una` (after the acknowledgement) and `snd_nxt` mark the rounds; `rto_min` is the floor
    /// of the deviation.
    pub fn on_sample(
        &mut self,
        rtt: Duration,
        snd_una: SeqNum,
        snd_nxt: SeqNum,
        rto_min: Duration,
    ) {
        let m = sample_us(rtt);
        let floor = micros(rto_min).min(SAMPLE_MAX_US);
        if self.srtt_us8 == 0 {
            // RFC 6298 section 2.2: the first sample is the mean, half of it the deviation.
            self.srtt_us8 = m * 8;
            self.mdev_us4 = m * 2;
            self.rttvar_us4 = self.mdev_us4.max(floor);
            self.mdev_max_us4 = self.rttvar_us4;
            self.round_end = snd_nxt;
            return;
        }
        // All of these are below 2^31, so the signed arithmetic is exact.
        let error = m.cast_signed() - (self.srtt_us8 / 8).cast_signed();
        self.srtt_us8 = self.srtt_us8.saturating_add_signed(error).max(1);
        let growth = error.abs() - (self.mdev_us4 / 4).cast_signed();
        // A falling round trip is good news: let it widen the timeout only slowly.
        let growth = if error < 0 && growth > 0 { growth / 8 } else { growth };
        self.mdev_us4 = self.mdev_us4.saturating_add_signed(growth);
        if self.mdev_us4 > self.mdev_max_us4 {
            self.mdev_max_us4 = self.mdev_us4;
            self.rttvar_us4 = self.rttvar_us4.max(self.mdev_max_us4);
        }
        if snd_una.after(self.round_end) {
            if self.mdev_max_us4 < self.rttvar_us4 {
                self.rttvar_us4 -= (self.rttvar_us4 - self.mdev_max_us4) / 4;
            }
            self.round_end = snd_nxt;
            self.mdev_max_us4 = floor;
        }
    }

    /// Feed the windowed minimum. `maybe_delayed`: the sample comes from a lone segment whose
    /// acknowledgement the peer may have delayed; such a one may lower the minimum, not renew it.
    pub fn on_min_rtt_sample(&mut self, now: Instant, rtt: Duration, maybe_delayed: bool) {
        let us = sample_us(rtt);
        if maybe_delayed && self.min_rtt.get().is_some_and(|min| us > min) {
            return;
        }
        self.min_rtt.update(now.as_millis() as u32, us);
    }

    /// Whether a round trip was ever measured.
    pub const fn has_sample(&self) -> bool {
        self.srtt_us8 != 0
    }

    /// Smoothed round trip; `None` before the first sample.
    pub fn srtt(&self) -> Option<Duration> {
        self.has_sample().then(|| from_us(self.srtt_us8 / 8))
    }

    /// As [`Estimator::srtt`], microseconds.
    pub(crate) fn srtt_us(&self) -> Option<u32> {
        self.has_sample().then_some(self.srtt_us8 / 8)
    }

    /// Mean deviation, what `tcp_info` calls `rttvar`; zero before the first sample.
    pub const fn mdev(&self) -> Duration {
        from_us(self.mdev_us4 / 4)
    }

    /// What the timeout adds to the smoothed round trip; zero before the first sample.
    pub const fn rttvar(&self) -> Duration {
        from_us(self.rttvar_us4)
    }

    /// The least round trip of the last [`MIN_RTT_WINDOW`].
    pub fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt.get().map(from_us)
    }

    /// As [`Estimator::min_rtt`], microseconds.
    pub(crate) fn min_rtt_us(&self) -> Option<u32> {
        self.min_rtt.get()
    }

    /// The timeout that follows from the estimate, without back-off; the initial one before the
    /// first sample.
    pub fn rto(&self, params: &TcpParams) -> Rto {
        if self.has_sample() {
            let us = (self.srtt_us8 / 8).saturating_add(self.rttvar_us4);
            Rto { us: us.min(max_us(params)).max(1), backoff: 0 }
        } else {
            Rto::initial(params)
        }
    }
}

/// The three best samples of a sliding window, each later than the one before: enough to know the
/// minimum at any time without keeping all samples.
#[derive(Clone, Debug, Default)]
struct WindowedMin {
    /// When (milliseconds, wrapping) and what; a value of zero is an empty place.
    best: [(u32, u32); 3],
}

impl WindowedMin {
    fn get(&self) -> Option<u32> {
        let (_, value) = self.best[0];
        (value != 0).then_some(value)
    }

    fn update(&mut self, now_ms: u32, value: u32) {
        let window_ms = MIN_RTT_WINDOW.as_millis() as u32;
        let sample = (now_ms, value);
        let age = |(at, _): (u32, u32)| now_ms.wrapping_sub(at);
        if self.best[0].1 == 0 || value <= self.best[0].1 || age(self.best[2]) > window_ms {
            self.best = [sample; 3];
            return;
        }
        if value <= self.best[1].1 {
            self.best[1] = sample;
            self.best[2] = sample;
        } else if value <= self.best[2].1 {
            self.best[2] = sample;
        }
        if age(self.best[0]) > window_ms {
            // The best has expired; the next ones move up, perhaps twice.
            self.best = [self.best[1], self.best[2], sample];
            if age(self.best[0]) > window_ms {
                self.best = [self.best[1], self.best[2], sample];
            }
        } else if self.best[1].0 == self.best[0].0 && age(self.best[1]) > window_ms / 4 {
            // A quarter of the window without a second best: take one from this quarter.
            self.best[1] = sample;
            self.best[2] = sample;
        } else if self.best[2].0 == self.best[1].0 && age(self.best[2]) > window_ms / 2 {
            self.best[2] = sample;
        }
    }
}

/// A retransmission timeout within `1 us ..= tcp_rto_max_ms`, and how often it was doubled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rto {
    us: u32,
    backoff: u8,
}

impl Rto {
    /// `timeout`, limited to the range, not backed off.
    pub fn new(timeout: Duration, params: &TcpParams) -> Self {
        Self { us: micros(timeout).min(max_us(params)).max(1), backoff: 0 }
    }

    /// The timeout before anything was measured, RFC 6298 section 2.1.
    pub fn initial(params: &TcpParams) -> Self {
        Self::new(params.rto_initial, params)
    }

    /// The timer expired: twice as long, at most the maximum; RFC 6298 section 5.5.
    #[must_use]
    pub fn double(self, params: &TcpParams) -> Self {
        Self {
            us: self.us.saturating_mul(2).min(max_us(params)).max(1),
            backoff: self.backoff.saturating_add(1),
        }
    }

    /// The timer expired in a phase that retries at a constant pace: counted, not longer.
    #[must_use]
    pub fn repeat(self) -> Self {
        Self { us: self.us, backoff: self.backoff.saturating_add(1) }
    }

    /// One doubling taken back (RFC 6069: the network says that the destination was unreachable,
    /// so the loss was no congestion). `base` is the timeout without back-off.
    #[must_use]
    pub fn halve(self, base: Self, params: &TcpParams) -> Self {
        let mut rto = Self { us: base.us, backoff: 0 };
        for _ in 1..self.backoff {
            rto = rto.double(params);
        }
        rto
    }

    /// The timeout.
    pub const fn get(self) -> Duration {
        from_us(self.us)
    }

    /// Doublings since the last valid sample.
    pub const fn backoff(self) -> u8 {
        self.backoff
    }
}

fn max_us(params: &TcpParams) -> u32 {
    micros(params.rto_max).max(1)
}

/// How long a timer that starts at `base` and doubles up to `rto_max` runs until its expiry number
/// `retries + 1`: the time after which "`retries` retransmissions" have been in vain, whatever the
/// real timer did. Saturates.
///
/// With `tcp_retries2` of 15 and a base of 200 ms this is 924.6 s.
pub fn backoff_time(base: Duration, retries: u8, rto_max: Duration) -> Duration {
    let mut total = Duration::ZERO;
    let mut step = base.min(rto_max);
    for _ in 0..=retries {
        total = total.saturating_add(step);
        // Above the last power of two that fits, the step is the maximum itself.
        step = match step.checked_mul(2) {
            Some(twice) if twice <= rto_max => twice,
            _ => rto_max,
        };
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS200: Duration = Duration::from_millis(200);

    fn ms(v: u64) -> Duration {
        Duration::from_millis(v)
    }

    /// Each row: round trip in us, whether it begins a new round, then srtt, mdev, rttvar in us.
    #[test]
    fn estimator_follows_hand_computed_samples() {
        let rows: &[(&str, u32, bool, u32, u32, u32)] = &[
            // srtt8 = 800000, D = 200000
            ("first: srtt m, deviation m/2", 100_000, false, 100_000, 50_000, 200_000),
            // e = 0, growth = -50000, D = 150000
            ("equal: deviation decays by a quarter", 100_000, false, 100_000, 37_500, 200_000),
            // e = 300000, srtt8 = 1100000, growth = 300000 - 37500, D = 412500
            ("jump up: counts at once", 400_000, false, 137_500, 103_125, 412_500),
            // e = 20000 - 137500 = -117500, srtt8 = 982500, growth = 117500 - 103125 = 14375, /8 =
            // 1796, D = 414296
            ("fall: growth counts an eighth", 20_000, false, 122_812, 103_574, 414_296),
            // e = 122812 - 122812 = 0, D = 414296 - 103574 = 310722 (a quarter: 77680); round ends with the maximum
            // 414296 = rttvar: no decay
            ("round ends, maximum is what it was", 122_812, true, 122_812, 77_680, 414_296),
            // e = 0 (srtt8 stays 982500), D = 310722 - 77680 = 233042 > floor 200000 = mdev_max;
            // rttvar -= (414296 - 233042) / 4 = 45313
            ("round ends, rttvar decays by a quarter", 122_812, true, 122_812, 58_260, 368_983),
            // D = 233042 - 58260 = 174782 < floor; rttvar -= (368983 - 200000) / 4 = 42245
            ("round ends at the floor", 122_812, true, 122_812, 43_695, 326_738),
        ];
        let mut e = Estimator::new();
        let mut una = SeqNum::new(u32::MAX - 5);
        assert_eq!((e.srtt(), e.has_sample()), (None, false));
        for &(name, rtt, new_round, srtt, mdev, rttvar) in rows {
            if new_round {
                una = una.add(20);
            }
            e.on_sample(from_us(rtt), una, una.add(10), MS200);
            let got = (e.srtt(), e.mdev(), e.rttvar());
            assert_eq!(got, (Some(from_us(srtt)), from_us(mdev), from_us(rttvar)), "{name}");
        }
        assert_eq!(e.rto(&TcpParams::default()).get(), from_us(122_812 + 326_738));
    }

    #[test]
    fn a_round_ends_when_more_than_it_is_acknowledged() {
        let start = SeqNum::new(0);
        for (name, una, rttvar) in [("up to its end", 10, 400_000), ("beyond it", 11, 356_250)] {
            let mut e = Estimator::new();
            e.on_sample(ms(200), start, SeqNum::new(10), MS200);
            // Equal samples: D falls from 400 ms to 300 and 225. The first round ends with its
            // maximum of 400; the second has 225, and rttvar goes a quarter of the way there.
            e.on_sample(ms(200), SeqNum::new(11), SeqNum::new(10), MS200);
            assert_eq!(e.rttvar(), ms(400));
            e.on_sample(ms(200), SeqNum::new(una), SeqNum::new(20), MS200);
            assert_eq!(e.rttvar(), from_us(rttvar), "{name}");
        }
    }

    #[test]
    fn timeout_is_never_below_srtt_plus_rto_min() {
        let p = TcpParams::default();
        let mut e = Estimator::new();
        assert_eq!(e.rto(&p).get(), Duration::from_secs(1));
        for i in 0..500 {
            e.on_sample(ms(1), SeqNum::new(i * 10), SeqNum::new(i * 10 + 5), p.rto_min);
        }
        assert_eq!(e.srtt(), Some(ms(1)));
        assert!(e.rto(&p).get() >= ms(201) && e.rto(&p).get() < ms(202));
    }

    #[test]
    fn least_round_trip_is_forgotten_after_its_window() {
        let mut e = Estimator::new();
        let at = |s: u64| Instant::from_millis(s * 1000);
        e.on_min_rtt_sample(at(0), ms(10), false);
        e.on_min_rtt_sample(at(100), ms(20), false);
        e.on_min_rtt_sample(at(200), ms(30), false);
        assert_eq!(e.min_rtt(), Some(ms(10)));
        e.on_min_rtt_sample(at(300), ms(40), false);
        assert_eq!(e.min_rtt(), Some(ms(10)), "still inside");
        e.on_min_rtt_sample(at(301), ms(40), false);
        assert_eq!(e.min_rtt(), Some(ms(20)), "the second best takes over");
        e.on_min_rtt_sample(at(1000), ms(50), false);
        assert_eq!(e.min_rtt(), Some(ms(50)), "everything else expired");
    }

    #[test]
    fn a_possibly_delayed_sample_only_lowers_the_minimum() {
        let mut e = Estimator::new();
        e.on_min_rtt_sample(Instant::ZERO, ms(10), true);
        e.on_min_rtt_sample(Instant::from_millis(900_000), ms(50), true);
        assert_eq!(e.min_rtt(), Some(ms(10)));
        e.on_min_rtt_sample(Instant::from_millis(900_000), ms(5), true);
        assert_eq!(e.min_rtt(), Some(ms(5)));
    }

    #[test]
    fn halve_takes_one_doubling_back() {
        let p = TcpParams::default();
        let base = Rto::new(ms(300), &p);
        let rto = base.double(&p).double(&p);
        assert_eq!((rto.get(), rto.backoff()), (ms(1200), 2));
        let rto = rto.halve(base, &p);
        assert_eq!((rto.get(), rto.backoff()), (ms(600), 1));
        let rto = rto.halve(base, &p).halve(base, &p);
        assert_eq!((rto.get(), rto.backoff()), (ms(300), 0));
    }

    #[test]
    fn backoff_time_matches_the_known_limits() {
        let max = Duration::from_secs(120);
        for (name, base, retries, total) in [
            ("tcp_retries2", MS200, 15, 924_600),
            ("tcp_retries1", MS200, 3, 3_000),
            ("tcp_syn_retries without linear ones", ms(1000), 6, 127_000),
            ("none", ms(1000), 0, 1_000),
            ("base above the maximum", ms(500_000), 1, 240_000),
        ] {
            assert_eq!(backoff_time(base, retries, max), ms(total), "{name}");
        }
        assert_eq!(backoff_time(Duration::MAX, 255, Duration::MAX), Duration::MAX);
    }

    proptest! {
        #[test]
        fn rto_stays_in_its_range(us in any::<u64>(), doublings in 0u16..300, max_ms in 0u64..200_000) {
            let p = TcpParams { rto_max: ms(max_ms), ..TcpParams::default() };
            let mut rto = Rto::new(Duration::from_micros(us), &p);
            for _ in 0..doublings {
                let next = rto.double(&p);
                prop_assert!(next.get() >= rto.get());
                rto = next;
            }
            prop_assert!(rto.get() <= p.rto_max.max(Duration::from_micros(1)));
            prop_assert!(rto.get() > Duration::ZERO);
            prop_assert_eq!(u16::from(rto.backoff()), doublings.min(255));
        }

        #[test]
        fn estimator_never_overflows_and_stays_among_its_samples(
            samples in proptest::collection::vec((any::<u64>(), any::<u32>()), 1..200)
        ) {
            let p = TcpParams::default();
            let mut e = Estimator::new();
            for (i, &(us, una)) in samples.iter().enumerate() {
                let rtt = Duration::from_micros(us >> (us & 63));
                e.on_sample(rtt, SeqNum::new(una), SeqNum::new(una).add(7), p.rto_min);
                e.on_min_rtt_sample(Instant::from_micros(us), rtt, i % 3 == 0);
            }
            let srtt = e.srtt().unwrap();
            prop_assert!(srtt <= from_us(SAMPLE_MAX_US));
            prop_assert!(e.rttvar() >= p.rto_min);
            prop_assert!(e.rto(&p).get() <= p.rto_max);
            prop_assert!(e.min_rtt().is_some());
        }

        /// Against all samples kept: never below the true minimum of the window, and exact while
        /// nothing has expired.
        #[test]
        fn windowed_minimum_against_all_samples(
            steps in proptest::collection::vec((0u32..100_000, 1u32..1000), 1..100)
        ) {
            let mut w = WindowedMin::default();
            let mut all = std::vec::Vec::new();
            let mut now = u32::MAX - 1_000_000;
            let start = now;
            for (dt, value) in steps {
                now = now.wrapping_add(dt);
                w.update(now, value);
                all.push((now, value));
                let window = MIN_RTT_WINDOW.as_millis() as u32;
                let least = all.iter().filter(|s| now.wrapping_sub(s.0) <= window).map(|s| s.1).min();
                prop_assert!(w.get() >= least);
                if now.wrapping_sub(start) <= window {
                    prop_assert_eq!(w.get(), least);
                }
            }
        }
    }
}
