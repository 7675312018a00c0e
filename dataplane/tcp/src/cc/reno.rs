//! NewReno: RFC 5681; the recovery that RFC 6582 adds is the business of loss recovery.

use super::{Ack, Controller, Signal, Window};
use crate::Cx;
use crate::params::CongestionAlgorithm;

/// Additive increase by one segment per round trip, multiplicative decrease by one half.
#[derive(Clone, Debug)]
pub struct Reno {
    window: Window,
}

impl Reno {
    /// An initial window of `cwnd` segments.
    pub fn new(cwnd: u32) -> Self {
        Self { window: Window::new(cwnd) }
    }
}

impl Controller for Reno {
    fn algorithm(&self) -> CongestionAlgorithm {
        CongestionAlgorithm::Reno
    }

    fn window(&self) -> &Window {
        &self.window
    }

    fn window_mut(&mut self) -> &mut Window {
        &mut self.window
    }

    fn on_ack(&mut self, _cx: &mut Cx<'_>, ack: &Ack) {
        self.window.grow_as_reno(ack);
    }

    fn on_congestion_event(&mut self, _cx: &mut Cx<'_>, signal: Signal) {
        if signal != Signal::LossAfterMark {
            self.window.reduce_to(self.window.cwnd / 2);
        }
    }

    fn on_rto(&mut self, _cx: &mut Cx<'_>, in_flight: u32, first: bool) {
        if first {
            self.window.reduce_to(self.window.cwnd / 2);
        }
        self.window.collapse(in_flight);
    }
}
