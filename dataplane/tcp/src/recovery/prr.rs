//! Proportional rate reduction, RFC 9937: during a recovery the window follows what the peer says to
//! have received, so that it arrives at the threshold when the round trip is over.

/// What one acknowledgement brought.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Segments delivered: cumulatively or selectively acknowledged for the first time.
    pub(crate) delivered: u32,
    /// Segments in flight by now.
    pub(crate) in_flight: u32,
    /// Where the reduction leads, segments.
    pub(crate) ssthresh: u32,
    /// The window before it, segments.
    pub(crate) prior_cwnd: u32,
    /// `snd_una` moved and nothing more was found lost: the recovery makes progress, so it may speed up.
    pub(crate) safe: bool,
}

/// The two sums of one recovery.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prr {
    /// Segments delivered since it began.
    delivered: u32,
    /// Segments sent since it began.
    out: u32,
}

impl Prr {
    /// Segments were sent, again or for the first time.
    pub(crate) fn on_sent(&mut self, segs: u32) {
        self.out = self.out.saturating_add(segs);
    }

    /// The window after this acknowledgement, segments; `None`: unchanged. RFC 9937 section 6.2.
    pub(crate) fn on_ack(&mut self, step: &Step) -> Option<u32> {
        if step.delivered == 0 {
            return None;
        }
        self.delivered = self.delivered.saturating_add(step.delivered);
        let missing = step.ssthresh.saturating_sub(step.in_flight);
        let send = if step.in_flight > step.ssthresh {
            // In proportion: after `prior_cwnd` segments delivered, `ssthresh` have been sent.
            let share = (u64::from(step.ssthresh) * u64::from(self.delivered))
                .div_ceil(u64::from(step.prior_cwnd.max(1)));
            u32::try_from(share).unwrap_or(u32::MAX).saturating_sub(self.out)
        } else {
            let arrears = self.delivered.saturating_sub(self.out).max(step.delivered);
            missing.min(arrears.saturating_add(u32::from(step.safe)))
        };
        // The first retransmission leaves at once.
        let send = send.max(u32::from(self.out == 0));
        Some(step.in_flight.saturating_add(send))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(delivered: u32, in_flight: u32) -> Step {
        Step { delivered, in_flight, ssthresh: 7, prior_cwnd: 10, safe: false }
    }

    /// Ten in flight, one lost: seven are sent for the nine that arrive.
    #[test]
    fn one_loss_is_spread_over_the_round_trip() {
        let mut prr = Prr::default();
        let mut in_flight = 10 - 4;
        let mut sent = 0;
        let mut grown = std::vec::Vec::new();
        // Entry with three selectively acknowledged, then one by one.
        for delivered in [3, 1, 1, 1, 1, 1, 1] {
            let cwnd = prr.on_ack(&step(delivered, in_flight)).unwrap();
            let send = cwnd - in_flight;
            grown.push(send);
            prr.on_sent(send);
            sent += send;
            in_flight += send;
            in_flight -= 1;
        }
        assert_eq!(in_flight, 6, "{grown:?}");
        assert!(sent <= 7, "{grown:?}");
    }

    #[test]
    fn above_the_threshold_it_falls_in_proportion() {
        let mut prr = Prr::default();
        let mut in_flight = 19;
        let step = |delivered, in_flight| Step {
            delivered,
            in_flight,
            ssthresh: 10,
            prior_cwnd: 20,
            safe: false,
        };
        for n in 1..=18 {
            let cwnd = prr.on_ack(&step(1, in_flight)).unwrap();
            prr.on_sent(cwnd - in_flight);
            in_flight = cwnd - 1;
            assert_eq!(prr.out, 10 * n / 20 + (10 * n) % 20 / 10, "rounded up, step {n}");
            if in_flight <= 10 {
                break;
            }
        }
    }

    #[test]
    fn below_it_a_safe_acknowledgement_may_send_one_more() {
        let mut prr = Prr::default();
        assert_eq!(prr.on_ack(&step(1, 2)), Some(3));
        prr.on_sent(1);
        assert_eq!(prr.on_ack(&Step { safe: true, ..step(1, 2) }), Some(4));
        prr.on_sent(2);
        assert_eq!(
            prr.on_ack(&Step { safe: true, ..step(3, 6) }),
            Some(7),
            "the threshold is the end"
        );
    }

    #[test]
    fn what_delivers_nothing_changes_nothing_and_the_first_is_free() {
        let mut prr = Prr::default();
        assert_eq!(prr.on_ack(&step(0, 5)), None);
        assert_eq!(prr.on_ack(&step(1, 7)), Some(8), "nothing has been sent yet");
        prr.on_sent(1);
        assert_eq!(prr.on_ack(&step(1, 7)), Some(7));
    }
}
