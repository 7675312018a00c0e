//! CUBIC, RFC 9438, in integers, with the constants of Linux.
//!
//! Time is counted in 1/1024 s within the cubic function, windows in segments.

use core::time::Duration;

use super::hystart::{self, Found, Hystart};
use super::{Ack, Controller, RttSample, Signal, Window};
use crate::Cx;
use crate::params::CongestionAlgorithm;

/// Multiplicative decrease factor over [`BETA_SCALE`]: about 0.7, RFC 9438 section 4.6.
const BETA: u64 = 717;
const BETA_SCALE: u64 = 1024;
/// C over 1024: about 0.4, RFC 9438 section 5.1.
const C: u64 = 410;
/// Binary digits by which C times a cube of 1/1024 s exceeds segments: 10 for C, 30 for the cube.
const CUBE_SHIFT: u32 = 40;
/// Segments acknowledged per segment of growth in the Reno-friendly estimate, as a share of the
/// window in eighths: the inverse of 3(1-beta)/(1+beta) = 0.53.
const FRIENDLY_EIGHTHS: u64 = 8 * (BETA_SCALE + BETA) / 3 / (BETA_SCALE - BETA);
/// Fewest segments acknowledged per step: at most half a window of growth per round trip,
/// RFC 9438 section 4.4.
const STEP_MIN: u32 = 2;
/// Most segments acknowledged per step while no maximum is known.
const STEP_MAX_UNKNOWN: u32 = 20;
/// The function is evaluated again after this time even if the window is the same.
const EVALUATE_MS: u32 = 31;
/// Round trips this soon after an epoch begins are still those of the recovery.
const QUIET_MS: u32 = 1_000;

/// Growth along a cubic around the window of the last loss, and HyStart in slow start.
#[derive(Clone, Debug)]
pub struct Cubic {
    window: Window,
    hystart: Hystart,
    /// Window at the last reduction, made smaller by fast convergence; zero: not known.
    pub(super) w_max: u32,
    /// The plateau of this epoch.
    origin: u32,
    /// Time from the start of the epoch to the plateau, 1/1024 s.
    k: u32,
    /// When this epoch of congestion avoidance began, wrapping milliseconds; see `in_epoch`.
    epoch_ms: u32,
    /// When and for which window `step` was computed.
    evaluated_ms: u32,
    evaluated_cwnd: u32,
    /// Segments acknowledged per segment of growth.
    step: u32,
    /// What Reno would have, and the segments acknowledged towards its next step.
    w_est: u32,
    w_est_credit: u32,
    /// Least round trip since the last timeout, microseconds; zero: none.
    delay_min_us: u32,
    in_epoch: bool,
}

impl Cubic {
    /// An initial window of `cwnd` segments.
    pub fn new(cwnd: u32) -> Self {
        Self::with_window(Window::new(cwnd))
    }

    fn with_window(window: Window) -> Self {
        Self {
            window,
            hystart: Hystart::default(),
            w_max: 0,
            origin: 0,
            k: 0,
            epoch_ms: 0,
            evaluated_ms: 0,
            evaluated_cwnd: 0,
            step: 0,
            w_est: 0,
            w_est_credit: 0,
            delay_min_us: 0,
            in_epoch: false,
        }
    }

    /// RFC 9438 section 4.6 and, for the maximum, fast convergence of section 4.7.
    fn reduce(&mut self) {
        let cwnd = self.window.cwnd;
        self.w_max = if cwnd < self.w_max {
            (u64::from(cwnd) * (BETA_SCALE + BETA) / (2 * BETA_SCALE)) as u32
        } else {
            cwnd
        };
        self.in_epoch = false;
        self.window.reduce_to((u64::from(cwnd) * BETA / BETA_SCALE) as u32);
    }

    /// Recomputes `step` for `acked` segments acknowledged in congestion avoidance.
    fn update(&mut self, now_ms: u32, acked: u32) {
        let cwnd = self.window.cwnd;
        self.w_est_credit = self.w_est_credit.saturating_add(acked);
        // Once per round trip Reno's estimate has moved; on a short path that is far more often than the
        // cubic, and waiting would keep the window below what RFC 9438 section 4.3 grants.
        if self.in_epoch
            && self.evaluated_cwnd == cwnd
            && self.w_est_credit < friendly_per(cwnd)
            && now_ms.wrapping_sub(self.evaluated_ms) <= EVALUATE_MS
        {
            return;
        }
        self.evaluated_cwnd = cwnd;
        self.evaluated_ms = now_ms;
        if !self.in_epoch {
            self.begin_epoch(now_ms, acked);
        }
        self.step = self.cubic_step(now_ms).min(self.friendly_step()).max(STEP_MIN);
    }

    fn begin_epoch(&mut self, now_ms: u32, acked: u32) {
        let cwnd = self.window.cwnd;
        self.in_epoch = true;
        self.epoch_ms = now_ms;
        self.w_est_credit = acked;
        self.w_est = cwnd;
        self.origin = self.w_max.max(cwnd);
        // RFC 9438 equation 2: K = cubic_root((W_max - cwnd) / C); zero if already beyond.
        let below = u64::from(self.w_max.saturating_sub(cwnd));
        self.k = cube_root((below << CUBE_SHIFT) / C);
    }

    /// Segments acknowledged per step, so that one round trip from now the window is on the curve
    /// `C (t - K)^3 + W_max`, RFC 9438 equation 1.
    fn cubic_step(&self, now_ms: u32) -> u32 {
        let cwnd = self.window.cwnd;
        let elapsed_us = u64::from(now_ms.wrapping_sub(self.epoch_ms)) * 1000;
        let t = (elapsed_us + u64::from(self.delay_min_us)) * 1024 / 1_000_000;
        let off = u128::from(t.abs_diff(u64::from(self.k)));
        let delta = (u128::from(C) * off * off * off) >> CUBE_SHIFT;
        let delta = u32::try_from(delta).unwrap_or(u32::MAX);
        let target = if t < u64::from(self.k) {
            self.origin.saturating_sub(delta)
        } else {
            self.origin.saturating_add(delta)
        };
        let step = match target.checked_sub(cwnd) {
            None | Some(0) => cwnd.saturating_mul(100),
            Some(missing) => cwnd / missing,
        };
        if self.w_max == 0 { step.min(STEP_MAX_UNKNOWN) } else { step }
    }

    /// RFC 9438 section 4.3: never slower than Reno with the same decrease factor.
    fn friendly_step(&mut self) -> u32 {
        let cwnd = self.window.cwnd;
        let per = friendly_per(cwnd);
        self.w_est = self.w_est.saturating_add(self.w_est_credit / per);
        self.w_est_credit %= per;
        match self.w_est.checked_sub(cwnd) {
            None | Some(0) => u32::MAX,
            Some(missing) => cwnd / missing,
        }
    }
}

/// Segments acknowledged for which Reno's estimate grows by one segment.
fn friendly_per(cwnd: u32) -> u32 {
    ((u64::from(cwnd) * FRIENDLY_EIGHTHS / 8) as u32).max(1)
}

impl Controller for Cubic {
    fn algorithm(&self) -> CongestionAlgorithm {
        CongestionAlgorithm::Cubic
    }

    fn window(&self) -> &Window {
        &self.window
    }

    fn window_mut(&mut self) -> &mut Window {
        &mut self.window
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &Ack) {
        if !self.window.may_grow(ack) {
            return;
        }
        let mut acked = ack.acked;
        if self.window.in_slow_start() {
            acked = self.window.grow_slow_start(acked);
        }
        if acked > 0 {
            self.update(cx.now.as_millis() as u32, acked);
            self.window.grow_linear(self.step, acked);
        }
    }

    fn on_rtt_sample(&mut self, cx: &mut Cx<'_>, sample: &RttSample) {
        let now_ms = cx.now.as_millis() as u32;
        if self.in_epoch && now_ms.wrapping_sub(self.epoch_ms) < QUIET_MS {
            return;
        }
        let rtt_us = hystart::duration_us(sample.rtt);
        if self.delay_min_us == 0 || rtt_us < self.delay_min_us {
            self.delay_min_us = rtt_us;
        }
        let w = &mut self.window;
        if !self.hystart.is_searching() || !w.in_slow_start() || w.cwnd < hystart::CWND_MIN {
            return;
        }
        match self.hystart.on_rtt_sample(cx.now, sample, rtt_us, self.delay_min_us, w.cwnd) {
            Some(Found::Train) => cx.counters.hystart_train_detect += 1,
            Some(Found::Delay) => cx.counters.hystart_delay_detect += 1,
            None => return,
        }
        w.ssthresh = w.cwnd;
    }

    fn on_congestion_event(&mut self, _cx: &mut Cx<'_>, signal: Signal) {
        if signal != Signal::LossAfterMark {
            self.reduce();
        }
    }

    fn on_rto(&mut self, _cx: &mut Cx<'_>, in_flight: u32, first: bool) {
        if first {
            self.reduce();
        }
        self.window.collapse(in_flight);
        // RFC 9438 section 4.8: after a timeout the first congestion avoidance starts with K = 0
        // around the window it begins with, so nothing of the past is kept.
        *self = Self::with_window(self.window.clone());
    }

    fn on_transmit_start(&mut self, cx: &mut Cx<'_>, idle: Duration) {
        // RFC 9438 section 5.8: time without data in flight is no time of the epoch.
        if self.in_epoch {
            let age = (cx.now.as_millis() as u32).wrapping_sub(self.epoch_ms);
            let idle_ms = u32::try_from(idle.as_millis()).unwrap_or(u32::MAX);
            self.epoch_ms = self.epoch_ms.wrapping_add(idle_ms.min(age));
        }
    }
}

/// The largest integer whose cube is at most `n`, digit by digit.
pub(super) fn cube_root(n: u64) -> u32 {
    let mut rest = n;
    let mut root = 0u64;
    // 2^22 cubed exceeds 64 bits, so the root has 22 binary digits.
    for shift in (0..=63).rev().step_by(3) {
        root *= 2;
        // (root + 1)^3 - root^3
        let digit = 3 * root * (root + 1) + 1;
        if (rest >> shift) >= digit {
            rest -= digit << shift;
            root += 1;
        }
    }
    root as u32
}
