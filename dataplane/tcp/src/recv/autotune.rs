//! Growth of the receive buffer: dynamic right-sizing, in the three forms that can be compared.
//!
//! Once per round trip, as a receiver can see it, the bytes that the application took are compared
//! with what it took in the best round before. A sender in slow start doubles per round trip, so the
//! buffer is grown ahead of it; a reader that does not keep pace gets no more.
//!
//! The forms differ in more than the rule of growth: [`Autotuning`] says what belongs to each.

use core::time::Duration;

use base::Instant;

use super::space::RecvSpace;
use crate::params::Autotuning;
use crate::{SeqNum, TcpParams};

/// What rounds begin with at most in the modern form, segments.
const FIRST_SPACE_SEGMENTS: u32 = 10;
/// Head start of the older forms, segments.
const HEAD_START_SEGMENTS: u64 = 16;
/// Largest number of the oldest form.
const I32_MAX: u32 = i32::MAX as u32;
/// Room for headers in a buffer of the older forms, bytes.
const HEADER_ROOM: u64 = 320;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Autotune {
    /// Bytes taken in the best round so far; at least one.
    space: u32,
    /// Where the present round began, and when.
    round_seq: SeqNum,
    round_at: Instant,
    /// Round trip as the receiver sees it, eighths of microseconds; zero: unknown.
    rtt_us8: u64,
    /// Without timestamps: when a window's worth beyond this has arrived, a round trip has passed.
    measure_seq: SeqNum,
    measure_at: Instant,
    /// Echo that was last measured: one answer of ours starts one measurement.
    last_tsecr: u32,
}

/// What the rules of growth look at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) now: Instant,
    /// Everything before it the application has taken.
    pub(crate) copied_seq: SeqNum,
    pub(crate) rcv_nxt: SeqNum,
    /// End of what lies beyond a hole.
    pub(crate) ooo_end: Option<SeqNum>,
    pub(crate) advmss: u32,
    /// The application fixed the buffer.
    pub(crate) locked: bool,
    /// What a buffer costs, bytes.
    pub(crate) buffer_cost: u32,
}

/// A timestamp of ours that came back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Echo {
    pub(crate) tsecr: u32,
    /// How long ago it left.
    pub(crate) age: Duration,
}

impl Autotune {
    /// A connection that is offered `rcv_wnd` bytes; `space` is what an earlier measurement came to, if any.
    pub(crate) fn new(
        now: Instant,
        copied_seq: SeqNum,
        variant: Autotuning,
        rcv_wnd: u32,
        advmss: u32,
        space: u32,
    ) -> Self {
        // Until 2018 the first round was compared with the whole window.
        let first = match variant {
            Autotuning::Legacy | Autotuning::Smooth => rcv_wnd,
            Autotuning::Modern => rcv_wnd.min(FIRST_SPACE_SEGMENTS.saturating_mul(advmss)),
        };
        Self {
            space: if space == 0 { first.max(1) } else { space },
            round_seq: copied_seq,
            round_at: now,
            rtt_us8: 0,
            measure_seq: copied_seq,
            measure_at: Instant::ZERO,
            last_tsecr: 0,
        }
    }

    /// Bytes taken in the best round so far.
    pub(crate) const fn space(&self) -> u32 {
        self.space
    }

    /// Round trip as the receiver sees it; zero: unknown.
    pub(crate) const fn rtt(&self) -> Duration {
        Duration::from_micros(self.rtt_us8 / 8)
    }

    /// Data have arrived that answer something of ours. `behind`: the application has not taken
    /// everything yet, so the peer may have been waiting for its window.
    pub(crate) fn on_echo(&mut self, echo: Echo, variant: Autotuning, behind: bool) {
        if echo.tsecr == self.last_tsecr {
            return;
        }
        self.last_tsecr = echo.tsecr;
        let us = u64::try_from(echo.age.as_micros()).unwrap_or(u64::MAX >> 4).min(u64::MAX >> 4);
        if variant == Autotuning::Modern {
            // The clock of timestamps is coarse: nothing was measured.
            if us == 0 {
                return;
            }
            if self.rtt_us8 != 0 && 8 * us >= self.rtt_us8 && behind {
                return;
            }
            if self.rtt_us8 == 0 || 8 * us < self.rtt_us8 {
                self.rtt_us8 = 8 * us;
                return;
            }
        }
        let us = us.max(1);
        self.rtt_us8 =
            if self.rtt_us8 == 0 { 8 * us } else { self.rtt_us8 - self.rtt_us8 / 8 + us };
    }

    /// Data have arrived in order, without timestamps: a window's worth cannot take less than a round
    /// trip, only more.
    pub(crate) fn on_window(&mut self, now: Instant, rcv_nxt: SeqNum, rcv_wnd: u32) {
        if self.measure_at == Instant::ZERO {
            self.measure_at = now;
        } else if rcv_nxt.before(self.measure_seq) {
            return;
        } else {
            let us = (now.since(self.measure_at).as_micros() as u64).max(1);
            self.rtt_us8 = if self.rtt_us8 == 0 { 8 * us } else { self.rtt_us8.min(8 * us) };
            self.measure_at = now;
        }
        self.measure_seq = rcv_nxt.add(rcv_wnd);
    }

    /// The application has taken something.
    pub(crate) fn on_copied(&mut self, r: &Reading, params: &TcpParams, space: &mut RecvSpace) {
        let round = r.now.as_nanos().saturating_sub(self.round_at.as_nanos());
        if self.rtt_us8 == 0 || round < self.rtt_us8 / 8 * 1000 {
            return;
        }
        let mut copied = r.copied_seq.bytes_since(self.round_seq);
        if params.autotuning == Autotuning::Modern {
            copied = copied.saturating_sub(r.rcv_nxt.bytes_since(r.copied_seq));
        }
        if copied > self.space {
            self.grow(copied, r, params, space);
        }
        self.round_seq = r.copied_seq;
        self.round_at = r.now;
    }

    /// Something lies beyond a hole: it will be read at once when the hole is filled, so room for the hole
    /// must be there before.
    pub(crate) fn on_out_of_order(
        &mut self,
        r: &Reading,
        params: &TcpParams,
        space: &mut RecvSpace,
    ) {
        if params.autotuning == Autotuning::Modern {
            self.grow(self.space, r, params, space);
        }
    }

    fn grow(&mut self, copied: u32, r: &Reading, params: &TcpParams, space: &mut RecvSpace) {
        let before = core::mem::replace(&mut self.space, copied);
        if !params.moderate_rcvbuf || r.locked {
            return;
        }
        let max = params.rmem[2];
        match params.autotuning {
            Autotuning::Legacy => {
                let window = legacy_window(copied, before, r.advmss);
                let advmss = i32::try_from(r.advmss.max(1)).unwrap_or(i32::MAX);
                let each = buffer_for(u64::from(r.advmss), r, space) as i32;
                let rcvbuf = (window / advmss).wrapping_mul(each).min(max.min(I32_MAX) as i32);
                if rcvbuf > 0 {
                    space.grow_to(rcvbuf.unsigned_abs(), Some(window.unsigned_abs()));
                }
            }
            Autotuning::Smooth => {
                let window = smooth_window(copied, before, r.advmss);
                let rcvbuf = buffer_for(window, r, space).min(u64::from(max));
                space.grow_to(rcvbuf as u32, None);
            }
            Autotuning::Modern => {
                let mut window = self.modern_window(copied, before, params);
                if let Some(end) = r.ooo_end {
                    window = window.saturating_add(u64::from(end.bytes_since(r.rcv_nxt)));
                }
                let rcvbuf = space.space_from_win(window.min(1 << 40)).min(u64::from(max));
                space.grow_to(rcvbuf as u32, None);
            }
        }
    }

    fn modern_window(&self, copied: u32, before: u32, params: &TcpParams) -> u64 {
        let window = 2 * u64::from(copied);
        let low = u64::try_from(params.rcvbuf_low_rtt.as_micros()).unwrap_or(u64::MAX);
        let rtt = self.rtt_us8 / 8;
        let growth = if rtt < low {
            // Short paths have small windows, and a buffer that stays in the cache is worth more.
            u128::from(window) * u128::from(rtt) / u128::from(low)
        } else {
            u128::from(2 * window) * u128::from(copied - before) / u128::from(before.max(1))
        };
        window.saturating_add(u64::try_from(growth).unwrap_or(u64::MAX))
    }
}

/// Before the series of 2017: two steps, at a quarter and at half more than before, in 32 bits with all
/// that follows from it.
fn legacy_window(copied: u32, before: u32, advmss: u32) -> i32 {
    let head_start = (HEAD_START_SEGMENTS as u32).wrapping_mul(advmss);
    let window = copied.wrapping_mul(2).wrapping_add(head_start).cast_signed();
    if copied >= before.wrapping_add(before >> 1) {
        window.wrapping_mul(2)
    } else if copied >= before.wrapping_add(before >> 2) {
        window.wrapping_add(window >> 1)
    } else {
        window
    }
}

/// The series of 2017: continuous, the same at a quarter and at half, in 64 bits.
fn smooth_window(copied: u32, before: u32, advmss: u32) -> u64 {
    let window = 2 * u64::from(copied) + HEAD_START_SEGMENTS * u64::from(advmss);
    let growth = u128::from(window) * u128::from(copied - before) / u128::from(before.max(1));
    u64::try_from(u128::from(window) + 2 * growth).unwrap_or(u64::MAX)
}

/// Memory for a window of whole segments, in the older forms.
fn buffer_for(window: u64, r: &Reading, space: &RecvSpace) -> u64 {
    let advmss = u64::from(r.advmss.max(1));
    let mut each = (advmss + HEADER_ROOM).max(u64::from(r.buffer_cost));
    // Half of a buffer is window in these forms, so this is twice the segment.
    let needed = space.space_from_win(advmss);
    if each < needed {
        each += (needed - each).next_multiple_of(128);
    }
    window / advmss * each
}

#[cfg(test)]
mod tests;
