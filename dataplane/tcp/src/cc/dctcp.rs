//! DCTCP, RFC 8257: the window shrinks in proportion to the share of marked segments.

use super::{Ack, Controller, Delivery, SSTHRESH_MIN, Signal, Window};
use crate::params::CongestionAlgorithm;
use crate::{Cx, SeqNum, TcpParams};

/// `alpha` is counted in 2^-10.
const ALPHA_SHIFT: u32 = 10;
const ALPHA_MAX: u32 = 1 << ALPHA_SHIFT;

/// Growth as in NewReno; reduction by half of the estimated share of marked segments.
#[derive(Clone, Debug)]
pub struct Dctcp {
    window: Window,
    /// Estimate of the share of marked segments, 1/1024: DCTCP.Alpha.
    alpha: u32,
    /// Gain of the estimate, 2^-n: g.
    shift: u32,
    /// Segments delivered in this observation window, and the marked ones among them.
    delivered: u32,
    marked: u32,
    /// It ends when this is acknowledged: DCTCP.WindowEnd. Nothing before the first delivery.
    window_end: Option<SeqNum>,
}

impl Dctcp {
    /// An initial window of `cwnd` segments.
    pub fn new(params: &TcpParams, cwnd: u32) -> Self {
        Self {
            window: Window::new(cwnd),
            alpha: u32::from(params.dctcp_alpha_on_init).min(ALPHA_MAX),
            shift: u32::from(params.dctcp_shift_g).min(ALPHA_SHIFT),
            delivered: 0,
            marked: 0,
            window_end: None,
        }
    }

    /// The estimate, 1/1024.
    pub const fn alpha(&self) -> u32 {
        self.alpha
    }

    /// Segments delivered in this observation window: the marked ones, and all.
    pub(crate) const fn window_so_far(&self) -> [u32; 2] {
        [self.marked, self.delivered]
    }

    /// RFC 8257 section 3.3, steps 5 to 7: `alpha = alpha * (1 - g) + g * M`. In integers, RFC 8257
    /// section 4.2, but down to zero: a path without marks costs nothing.
    fn estimate(&mut self) {
        let gone = if self.alpha == 0 { 0 } else { (self.alpha >> self.shift).max(1) };
        let scaled = u64::from(self.marked) << (ALPHA_SHIFT - self.shift);
        let come = (scaled / u64::from(self.delivered.max(1))) as u32;
        self.alpha = (self.alpha - gone + come).min(ALPHA_MAX);
        (self.delivered, self.marked) = (0, 0);
    }
}

impl Controller for Dctcp {
    fn algorithm(&self) -> CongestionAlgorithm {
        CongestionAlgorithm::Dctcp
    }

    fn window(&self) -> &Window {
        &self.window
    }

    fn window_mut(&mut self) -> &mut Window {
        &mut self.window
    }

    fn on_delivered(&mut self, delivery: &Delivery) {
        self.delivered = self.delivered.saturating_add(delivery.segs);
        self.marked = self.marked.saturating_add(delivery.marked);
        // RFC 8257 section 3.3, steps 3, 4 and 8. The number is not kept for longer than the connection
        // is idle, for then all of this is given back.
        let end = *self.window_end.get_or_insert(delivery.snd_nxt);
        if delivery.snd_una.at_or_after(end) {
            self.estimate();
            self.window_end = Some(delivery.snd_nxt);
        }
    }

    /// RFC 8257 section 3.4.
    fn on_ack(&mut self, _cx: &mut Cx<'_>, ack: &Ack) {
        self.window.grow_as_reno(ack);
    }

    fn on_congestion_event(&mut self, _cx: &mut Cx<'_>, signal: Signal) {
        let w = &mut self.window;
        match signal {
            // RFC 8257 section 3.3, step 9: cwnd = cwnd * (1 - alpha / 2).
            Signal::Mark => {
                let cut = (u64::from(w.cwnd) * u64::from(self.alpha)) >> (ALPHA_SHIFT + 1);
                w.reduce_to(w.cwnd - cut as u32);
            }
            // RFC 8257 section 3.5: a loss is met as by any other.
            Signal::Loss => w.reduce_to(w.cwnd / 2),
            // Once per window of data, all signals together; the gravest counts.
            Signal::LossAfterMark => {
                w.ssthresh = w.ssthresh.min((w.prior_cwnd / 2).max(SSTHRESH_MIN));
            }
        }
    }

    fn on_rto(&mut self, _cx: &mut Cx<'_>, in_flight: u32, first: bool) {
        if first {
            self.window.reduce_to(self.window.cwnd / 2);
        }
        self.window.collapse(in_flight);
    }
}
