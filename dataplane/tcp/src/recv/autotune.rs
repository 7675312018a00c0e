//! Growth of the receive buffer: the simple, correct form.
//!
//! Once per round trip, as a receiver can see it, the bytes that the application took are compared
//! with what it took in the round before. A sender in slow start doubles per round trip, so the
//! buffer is grown ahead of it; a reader that does not keep pace gets no more. Damping at low round
//! trips and provisioning for holes are not in here yet.

use core::time::Duration;

use base::Instant;

use crate::SeqNum;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Autotune {
    /// Bytes taken in the best round so far.
    space: u32,
    /// Where the present round began, and when.
    round_seq: SeqNum,
    round_at: Instant,
    /// Round trip as the receiver sees it, microseconds; zero: unknown.
    rtt_us: u32,
    /// Without timestamps: when a window's worth beyond this has arrived, a round trip has passed.
    measure_seq: SeqNum,
    measure_at: Instant,
}

impl Autotune {
    pub(crate) fn new(now: Instant, copied_seq: SeqNum, space: u32) -> Self {
        Self {
            space: space.max(1),
            round_seq: copied_seq,
            round_at: now,
            rtt_us: 0,
            measure_seq: copied_seq,
            measure_at: Instant::ZERO,
        }
    }

    /// Data have arrived in order. `echo`: how long ago the peer says it got the segment that this
    /// one answers, if timestamps are in force.
    pub(crate) fn on_data(
        &mut self,
        now: Instant,
        rcv_nxt: SeqNum,
        rcv_wnd: u32,
        echo: Option<Duration>,
    ) {
        if let Some(echo) = echo {
            let us = u32::try_from(echo.as_micros()).unwrap_or(u32::MAX).max(1);
            self.rtt_us =
                if self.rtt_us == 0 { us } else { self.rtt_us - self.rtt_us / 8 + us / 8 };
            return;
        }
        if self.measure_at == Instant::ZERO {
            self.measure_at = now;
        } else if rcv_nxt.before(self.measure_seq) {
            return;
        } else {
            let took = now.since(self.measure_at);
            let us = u32::try_from(took.as_micros()).unwrap_or(u32::MAX).max(1);
            // A window cannot arrive faster than in a round trip, only slower: take the least.
            self.rtt_us = if self.rtt_us == 0 { us } else { self.rtt_us.min(us) };
            self.measure_at = now;
        }
        self.measure_seq = rcv_nxt.add(rcv_wnd);
    }

    /// The application has taken bytes up to `copied_seq`. Returns the window that the connection
    /// should be able to offer, if it should grow.
    pub(crate) fn on_copied(
        &mut self,
        now: Instant,
        copied_seq: SeqNum,
        rcv_nxt: SeqNum,
        srtt_us: Option<u32>,
    ) -> Option<u32> {
        let rtt_us = match srtt_us {
            Some(srtt_us) if self.rtt_us != 0 => self.rtt_us.min(srtt_us),
            Some(srtt_us) => srtt_us,
            None => self.rtt_us,
        };
        let round = now.as_nanos().saturating_sub(self.round_at.as_nanos());
        if rtt_us == 0 || round < u64::from(rtt_us) * 1000 {
            return None;
        }
        let waiting = rcv_nxt.bytes_since(copied_seq);
        let copied = copied_seq.bytes_since(self.round_seq).saturating_sub(waiting);
        self.round_seq = copied_seq;
        self.round_at = now;
        if copied <= self.space {
            return None;
        }
        let old = u64::from(self.space);
        let window = 2 * u64::from(copied);
        let growth = 2 * window * (u64::from(copied) - old) / old;
        self.space = copied;
        Some(u32::try_from(window.saturating_add(growth)).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_keeps_pace_with_slow_start_is_always_ahead() {
        let mut tune = Autotune::new(Instant::ZERO, SeqNum::new(0), 14_600);
        let mut seq = SeqNum::new(0);
        let mut window = 65_535;
        for round in 1..8u64 {
            let now = Instant::from_millis(20 * round);
            let burst = 14_600u32 << round;
            assert!(window >= burst, "round {round}: {window} below {burst}");
            seq = seq.add(burst);
            tune.on_data(now, seq, window, Some(Duration::from_millis(20)));
            if let Some(wanted) = tune.on_copied(now, seq, seq, None) {
                window = window.max(wanted);
            }
        }
    }

    #[test]
    fn steady_rate_and_slow_readers_do_not_grow() {
        let mut tune = Autotune::new(Instant::ZERO, SeqNum::new(0), 10_000);
        let mut seq = SeqNum::new(0);
        for round in 1..5u64 {
            let now = Instant::from_millis(20 * round);
            seq = seq.add(10_000);
            tune.on_data(now, seq, 65_535, Some(Duration::from_millis(20)));
            assert_eq!(tune.on_copied(now, seq, seq, None), None, "steady");
        }
        let now = Instant::from_millis(200);
        assert_eq!(
            tune.on_copied(now, seq.add(20_000), seq.add(40_000), None),
            None,
            "slow reader"
        );
    }

    #[test]
    fn without_timestamps_a_window_is_a_round_trip() {
        let mut tune = Autotune::new(Instant::ZERO, SeqNum::new(0), 10_000);
        tune.on_data(Instant::from_millis(1), SeqNum::new(1000), 20_000, None);
        tune.on_data(Instant::from_millis(6), SeqNum::new(21_000), 20_000, None);
        assert_eq!(tune.rtt_us, 5000);
    }
}
