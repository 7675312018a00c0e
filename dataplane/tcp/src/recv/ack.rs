//! When to acknowledge: delayed acknowledgements that adapt to the peer's pace, quick
//! acknowledgements while it needs them, piggybacking while the exchange is interactive.
//!
//! This only keeps the pace. Whether an acknowledgement leaves is decided at transmission time, so
//! that one of them answers a whole burst.

use core::time::Duration;

use base::Instant;

use crate::TcpParams;

/// Segments acknowledged at once in quick mode, at most.
pub(crate) const QUICK_MAX: u8 = 16;
/// Hard limit of a delay, RFC 9293 section 3.8.6.3.
const DELAY_MAX: Duration = Duration::from_millis(500);
/// The peer's timeout is no shorter than ours: stay below it.
const RTO_MARGIN: Duration = Duration::from_millis(1);
/// Half a tick of the shortest delay: arrivals closer than this are one stream.
const GAP_SHORT: Duration = Duration::from_millis(20);
/// Replies that make an exchange interactive, `tcp_pingpong_thresh`.
const INTERACTIVE_REPLIES: u8 = 1;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckPace {
    /// When data arrived last; zero: never.
    last_data: Instant,
    /// Adaptive delay, microseconds; zero before the first data.
    ato_us: u32,
    /// Acknowledgements left in quick mode.
    quick: u8,
    /// Replies sent soon after requests.
    replies: u8,
}

impl AckPace {
    pub(crate) const fn new() -> Self {
        Self { last_data: Instant::ZERO, ato_us: 0, quick: 0, replies: 0 }
    }

    /// Data have arrived; `budget` is what [`quick_budget`] says, should it matter.
    pub(crate) fn on_data(
        &mut self,
        now: Instant,
        rto: Duration,
        budget: impl FnOnce() -> u8,
        params: &TcpParams,
    ) {
        let gap = now.since(self.last_data);
        let ato = self.ato();
        if self.ato_us == 0 {
            self.quick = self.quick.max(budget());
            self.set_ato(params.delack_min);
        } else if gap <= GAP_SHORT {
            self.set_ato(ato / 2 + GAP_SHORT);
        } else if gap < ato {
            self.set_ato((ato / 2 + gap).min(rto));
        } else if gap > rto {
            // The peer has probably started again with a small window: help it.
            self.quick = self.quick.max(budget());
        }
        self.last_data = now;
    }

    /// Something is wrong at the peer (duplicates, holes): acknowledge at once for a while.
    pub(crate) fn enter_quick(&mut self, budget: u8, params: &TcpParams) {
        self.quick = self.quick.max(budget.min(QUICK_MAX));
        self.replies = 0;
        self.set_ato(params.delack_min);
    }

    pub(crate) const fn is_quick(&self) -> bool {
        self.quick > 0 && !self.is_interactive()
    }

    pub(crate) const fn is_interactive(&self) -> bool {
        self.replies >= INTERACTIVE_REPLIES
    }

    /// The application says which it is (`TCP_QUICKACK`).
    pub(crate) fn set_interactive(&mut self, on: bool) {
        self.replies = if on { INTERACTIVE_REPLIES } else { 0 };
    }

    /// An acknowledgement has left, alone or with data.
    pub(crate) fn on_ack_sent(&mut self) {
        self.quick = self.quick.saturating_sub(1);
    }

    /// Data have left: soon after data came in, that is a reply.
    pub(crate) fn on_data_sent(&mut self, now: Instant) {
        if self.ato_us != 0 && now.since(self.last_data) < self.ato() {
            self.replies = self.replies.saturating_add(1).min(INTERACTIVE_REPLIES);
        }
    }

    /// The delay ran out with an acknowledgement still owed.
    pub(crate) fn on_timer(&mut self, rto: Duration, params: &TcpParams) {
        if self.is_interactive() {
            // No reply came in time: not interactive after all.
            self.replies = 0;
            self.set_ato(params.delack_min);
        } else {
            self.set_ato((self.ato() * 2).min(rto));
        }
    }

    /// How long an acknowledgement may wait now.
    pub(crate) fn delay(
        &self,
        srtt: Option<Duration>,
        pushed: bool,
        params: &TcpParams,
    ) -> Duration {
        let mut limit = if self.is_interactive() || pushed { params.delack_max } else { DELAY_MAX };
        if let Some(srtt) = srtt {
            limit = limit.min(srtt.max(params.delack_min));
        }
        self.ato()
            .max(params.delack_min)
            .min(limit)
            .min(params.delack_max)
            .min(params.rto_min.saturating_sub(RTO_MARGIN))
    }

    pub(crate) const fn ato(&self) -> Duration {
        Duration::from_micros(self.ato_us as u64)
    }

    pub(crate) const fn last_data(&self) -> Instant {
        self.last_data
    }

    fn set_ato(&mut self, ato: Duration) {
        self.ato_us = u32::try_from(ato.as_micros()).unwrap_or(u32::MAX).max(1);
    }
}

/// Segments to acknowledge at once in a burst of quick acknowledgements.
pub(crate) fn quick_budget(rcv_wnd: u32, rcv_mss: u32) -> u8 {
    let segs = rcv_wnd / rcv_mss.saturating_mul(2).max(1);
    if segs == 0 { 2 } else { segs.min(u32::from(QUICK_MAX)) as u8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTO: Duration = Duration::from_millis(220);

    fn ms(v: u64) -> Instant {
        Instant::from_millis(v)
    }

    #[test]
    fn ato_follows_the_gaps() {
        let params = TcpParams::default();
        let mut pace = AckPace::new();
        pace.on_data(ms(1000), RTO, || 4, &params);
        assert_eq!(pace.ato(), Duration::from_millis(40), "first data");
        assert!(pace.is_quick());
        pace.on_data(ms(1010), RTO, || 4, &params);
        assert_eq!(pace.ato(), Duration::from_millis(40), "short gap: half plus 20 ms");
        pace.on_data(ms(1040), RTO, || 4, &params);
        assert_eq!(pace.ato(), Duration::from_millis(50), "gap below ato: half plus gap");
        pace.on_data(ms(1140), RTO, || 4, &params);
        assert_eq!(pace.ato(), Duration::from_millis(50), "gap above ato: as it was");
        for _ in 0..4 {
            pace.on_ack_sent();
        }
        assert!(!pace.is_quick());
        pace.on_data(ms(2000), RTO, || 4, &params);
        assert!(pace.is_quick(), "gap above the RTO: quick again");
    }

    #[test]
    fn a_reply_makes_it_interactive_and_a_timer_ends_it() {
        let params = TcpParams::default();
        let mut pace = AckPace::new();
        pace.on_data(ms(1000), RTO, || 4, &params);
        pace.on_data_sent(ms(1001));
        assert!(pace.is_interactive() && !pace.is_quick());
        pace.on_timer(RTO, &params);
        assert!(!pace.is_interactive());
        pace.on_timer(RTO, &params);
        assert_eq!(pace.ato(), Duration::from_millis(80));
    }

    #[test]
    fn quick_budget_is_between_two_and_sixteen() {
        assert_eq!(quick_budget(1000, 1460), 2);
        assert_eq!(quick_budget(14600, 1460), 5);
        assert_eq!(quick_budget(1 << 20, 1460), 16);
        assert_eq!(quick_budget(1 << 20, 0), 16);
    }
}
