//! Congestion control: how much may be in flight.
//!
//! Loss recovery finds out what was lost and tells this module in events; the answers are a window
//! and a threshold, both in segments. While a recovery reduces the window step by step (PRR), it
//! writes the window with [`CongestionControl::set_cwnd`].
//!
//! Growth counts segments acknowledged, never acknowledgements, so that a peer gains nothing by
//! acknowledging one segment in many pieces (RFC 3465, RFC 5681 section 3.1). That there is such a thing
//! is RFC 9293 section 3.8.2.

mod cubic;
mod dctcp;
mod hystart;
mod reno;
#[cfg(test)]
mod tests;

use core::time::Duration;

use base::Rate;

pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use reno::Reno;

use crate::params::CongestionAlgorithm;
use crate::{Cx, SeqNum, TcpParams};

/// Upper bound of the congestion window, segments: the largest window of RFC 7323 in segments of
/// the smallest size.
pub const CWND_MAX: u32 = 1 << 24;
/// Threshold of a connection that has never been reduced.
pub const SSTHRESH_INFINITE: u32 = u32::MAX;
/// Lowest threshold after a reduction, segments; RFC 5681 equation 4.
pub const SSTHRESH_MIN: u32 = 2;

/// Why the window is to be reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Something was lost.
    Loss,
    /// A mark was echoed, RFC 3168.
    Mark,
    /// Something was lost in the window of data for which a mark has reduced the window already.
    LossAfterMark,
}

/// What an acknowledgement says to have arrived, in whatever state the connection is.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// Segments cumulatively or selectively acknowledged for the first time.
    pub segs: u32,
    /// Those of them whose marks are echoed.
    pub marked: u32,
    /// After the acknowledgement.
    pub snd_una: SeqNum,
    /// Now; marks rounds.
    pub snd_nxt: SeqNum,
}

/// Data were cumulatively acknowledged (or, with reordering learned, selectively), outside of
/// recovery.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// Segments newly acknowledged in full.
    pub acked: u32,
    /// Segments in flight at most during the last window of data.
    pub in_flight_max: u32,
    /// The window, not the application, limited what was sent last.
    pub cwnd_limited: bool,
}

/// A round trip as measured by an acknowledgement; also during recovery.
#[derive(Clone, Copy, Debug)]
pub struct RttSample {
    /// This one.
    pub rtt: Duration,
    /// Smoothed.
    pub srtt: Duration,
    /// Payload bytes per segment.
    pub snd_mss: u32,
    /// After the acknowledgement.
    pub snd_una: SeqNum,
    /// Now; marks rounds.
    pub snd_nxt: SeqNum,
    /// Transmission is paced, so that acknowledgements of one round are spread.
    pub paced: bool,
}

/// The numbers that every algorithm has.
#[derive(Clone, Debug)]
pub struct Window {
    cwnd: u32,
    ssthresh: u32,
    /// Segments acknowledged towards the next step of linear growth.
    credit: u32,
    /// Before the last reduction, for undo.
    prior_cwnd: u32,
    prior_ssthresh: u32,
}

impl Window {
    fn new(cwnd: u32) -> Self {
        let cwnd = cwnd.clamp(1, CWND_MAX);
        Self {
            cwnd,
            ssthresh: SSTHRESH_INFINITE,
            credit: 0,
            prior_cwnd: cwnd,
            prior_ssthresh: SSTHRESH_INFINITE,
        }
    }

    const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Whether an acknowledgement may let the window grow: it was in use (RFC 9438 section 5.8).
    const fn may_grow(&self, ack: &Ack) -> bool {
        ack.cwnd_limited || self.in_slow_start() && self.cwnd < ack.in_flight_max.saturating_mul(2)
    }

    /// One segment per segment acknowledged, up to the threshold; what is left over belongs to
    /// congestion avoidance.
    fn grow_slow_start(&mut self, acked: u32) -> u32 {
        let grown = self.cwnd.saturating_add(acked).min(self.ssthresh).min(CWND_MAX);
        let used = grown - self.cwnd;
        self.cwnd = grown;
        acked - used
    }

    /// One segment per `per` segments acknowledged.
    fn grow_linear(&mut self, per: u32, acked: u32) {
        let per = per.max(1);
        // Credit gathered while steps were longer counts as one step at most.
        if self.credit >= per {
            self.credit = 0;
            self.cwnd = self.cwnd.saturating_add(1);
        }
        self.credit = self.credit.saturating_add(acked);
        self.cwnd = self.cwnd.saturating_add(self.credit / per).min(CWND_MAX);
        self.credit %= per;
    }

    /// One segment per segment acknowledged up to the threshold, from there on one per window: RFC 5681
    /// section 3.1.
    fn grow_as_reno(&mut self, ack: &Ack) {
        if !self.may_grow(ack) {
            return;
        }
        let mut acked = ack.acked;
        if self.in_slow_start() {
            acked = self.grow_slow_start(acked);
        }
        if acked > 0 {
            self.grow_linear(self.cwnd, acked);
        }
    }

    /// The threshold as far as the window says more than the threshold does.
    fn current_ssthresh(&self) -> u32 {
        self.ssthresh.max((self.cwnd / 2).saturating_add(self.cwnd / 4))
    }

    fn reduce_to(&mut self, ssthresh: u32) {
        self.prior_cwnd = self.cwnd;
        self.prior_ssthresh = self.current_ssthresh();
        self.ssthresh = ssthresh.max(SSTHRESH_MIN);
    }

    fn collapse(&mut self, in_flight: u32) {
        self.cwnd = in_flight.saturating_add(1).min(CWND_MAX);
        self.credit = 0;
    }
}

/// What an algorithm decides for itself. The voice is that of events.
pub trait Controller {
    /// Which one it is.
    fn algorithm(&self) -> CongestionAlgorithm;
    /// The common numbers.
    fn window(&self) -> &Window;
    /// The common numbers, to be changed.
    fn window_mut(&mut self) -> &mut Window;
    /// Data were acknowledged, outside of recovery: grow.
    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &Ack);
    /// A round trip was measured; comes before [`Controller::on_ack`] of the same segment.
    fn on_rtt_sample(&mut self, _cx: &mut Cx<'_>, _sample: &RttSample) {}
    /// Something was delivered; comes before all else that follows from the acknowledgement.
    fn on_delivered(&mut self, _delivery: &Delivery) {}
    /// A loss was detected or a mark echoed, at most once each per window of data: sets the
    /// threshold; the window follows step by step.
    fn on_congestion_event(&mut self, cx: &mut Cx<'_>, signal: Signal);
    /// A retransmission timeout with `in_flight` segments still thought to be in flight. `first`:
    /// a new episode, so the threshold is set anew.
    fn on_rto(&mut self, cx: &mut Cx<'_>, in_flight: u32, first: bool);
    /// Transmission starts after `idle` with nothing in flight.
    fn on_transmit_start(&mut self, _cx: &mut Cx<'_>, _idle: Duration) {}
    /// The rate to pace at, if the algorithm has one of its own.
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }
}

/// The congestion control of one connection.
#[derive(Clone, Debug)]
pub enum CongestionControl {
    /// CUBIC, RFC 9438.
    Cubic(Cubic),
    /// NewReno, RFC 5681.
    Reno(Reno),
    /// DCTCP, RFC 8257.
    Dctcp(Dctcp),
}

const _: () = assert!(size_of::<CongestionControl>() <= 88);

macro_rules! each {
    ($self:expr, $c:ident => $body:expr) => {
        match $self {
            CongestionControl::Cubic($c) => $body,
            CongestionControl::Reno($c) => $body,
            CongestionControl::Dctcp($c) => $body,
        }
    };
}

impl CongestionControl {
    /// `algorithm` with an initial window of `cwnd` segments.
    pub fn new(params: &TcpParams, algorithm: CongestionAlgorithm, cwnd: u32) -> Self {
        match algorithm {
            CongestionAlgorithm::Cubic => Self::Cubic(Cubic::new(cwnd)),
            CongestionAlgorithm::Reno => Self::Reno(Reno::new(cwnd)),
            CongestionAlgorithm::Dctcp => Self::Dctcp(Dctcp::new(params, cwnd)),
        }
    }

    /// The congestion window, segments; at least one.
    pub fn cwnd(&self) -> u32 {
        self.window().cwnd
    }

    /// The slow-start threshold, segments; [`SSTHRESH_INFINITE`] when never reduced.
    pub fn ssthresh(&self) -> u32 {
        self.window().ssthresh
    }

    /// Window before the last reduction, segments; PRR measures by it.
    pub fn prior_cwnd(&self) -> u32 {
        self.window().prior_cwnd
    }

    /// The window is below the threshold.
    pub fn in_slow_start(&self) -> bool {
        self.window().in_slow_start()
    }

    /// The window while a recovery reduces it, and at its end; also the window of one segment after
    /// a handshake that needed retransmissions. Limited to `1 ..= CWND_MAX`.
    pub fn set_cwnd(&mut self, cwnd: u32) {
        let w = self.window_mut();
        w.cwnd = cwnd.clamp(1, CWND_MAX);
        w.credit = 0;
    }

    /// Bring the window down to the threshold, in one step; a smaller one stays.
    pub fn step_down(&mut self) {
        self.set_cwnd(self.cwnd().min(self.ssthresh()));
    }

    /// The threshold of a connection whose congestion control was put away while it was idle.
    pub fn restore_ssthresh(&mut self, ssthresh: u32) {
        self.window_mut().ssthresh = ssthresh.max(SSTHRESH_MIN);
    }

    /// The last reduction turned out to be unfounded: window and threshold as before, or larger.
    pub fn on_undo(&mut self) {
        let w = self.window_mut();
        w.cwnd = w.cwnd.max(w.prior_cwnd);
        w.ssthresh = w.ssthresh.max(w.prior_ssthresh);
    }

    /// About to send after `idle` with nothing in flight (`tcp_slow_start_after_idle`): the window
    /// halves for each timeout that has passed, not below the initial one. RFC 5681 section 4.1 in
    /// the gentler form of RFC 2861.
    pub fn on_idle_restart(&mut self, idle: Duration, rto: Duration, initial_cwnd: u32) {
        let w = self.window_mut();
        let floor = initial_cwnd.clamp(1, w.cwnd);
        let Some(mut left) = idle.checked_sub(rto) else { return };
        w.ssthresh = w.current_ssthresh();
        let rto = rto.max(Duration::from_millis(1));
        while w.cwnd > floor {
            w.cwnd /= 2;
            let Some(rest) = left.checked_sub(rto) else { break };
            left = rest;
        }
        w.cwnd = w.cwnd.max(floor);
    }

    /// For a timeout long the application has used at most `used` segments of the window: half of
    /// what it did not use is given up, RFC 2861.
    pub fn on_application_limited(&mut self, used: u32, initial_cwnd: u32) {
        let w = self.window_mut();
        let used = used.max(initial_cwnd);
        if used < w.cwnd {
            w.ssthresh = w.current_ssthresh();
            w.cwnd = w.cwnd.midpoint(used);
        }
    }
}

impl Controller for CongestionControl {
    fn algorithm(&self) -> CongestionAlgorithm {
        each!(self, c => c.algorithm())
    }
    fn window(&self) -> &Window {
        each!(self, c => c.window())
    }
    fn window_mut(&mut self) -> &mut Window {
        each!(self, c => c.window_mut())
    }
    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &Ack) {
        each!(self, c => c.on_ack(cx, ack));
    }
    fn on_rtt_sample(&mut self, cx: &mut Cx<'_>, sample: &RttSample) {
        each!(self, c => c.on_rtt_sample(cx, sample));
    }
    fn on_delivered(&mut self, delivery: &Delivery) {
        each!(self, c => c.on_delivered(delivery));
    }
    fn on_congestion_event(&mut self, cx: &mut Cx<'_>, signal: Signal) {
        each!(self, c => c.on_congestion_event(cx, signal));
    }
    fn on_rto(&mut self, cx: &mut Cx<'_>, in_flight: u32, first: bool) {
        each!(self, c => c.on_rto(cx, in_flight, first));
    }
    fn on_transmit_start(&mut self, cx: &mut Cx<'_>, idle: Duration) {
        each!(self, c => c.on_transmit_start(cx, idle));
    }
    fn pacing_rate(&self) -> Option<Rate> {
        each!(self, c => c.pacing_rate())
    }
}
