//! Timers: retransmission, window probes, delayed acknowledgement, keep-alive, FIN-WAIT-2.

use core::num::NonZeroU8;
use core::time::Duration;

use base::Instant;

use super::{Connection, EXTENSION_IDLE, Flags};
use crate::cc::Controller;
use crate::recovery::{AckInfo, CaState};
use crate::timers::Timer;
use crate::{CloseReason, Cx, State, TcpParams, backoff_time};

/// Orphans retry so often when `tcp_orphan_retries` is 0.
const ORPHAN_RETRIES: u8 = 8;
/// From this value of `tcp_early_retrans` on there are tail loss probes.
const EARLY_RETRANS_PROBES: u8 = 3;
/// What a tail loss probe waits beyond two round trips: granularity of the timers on both sides.
const PROBE_PATIENCE: Duration = Duration::from_millis(2);
/// The device did not take a retransmission: try again so soon at the latest.
const LOCAL_RETRY_MAX: Duration = Duration::from_millis(500);

impl Connection {
    /// A deadline may have passed; called early it does nothing.
    pub fn on_deadline(&mut self, cx: &mut Cx<'_>) {
        self.check();
        let now = cx.now;
        if self.hot.timers.take_expired(Timer::DelayedAck, now) {
            self.on_delayed_ack_timer(cx);
        }
        let probe = self.hot.timers.take_expired(Timer::LossProbe, now);
        let late = self.ext.as_ref().and_then(|ext| ext.recovery.reorder_at());
        if probe && late.is_none() && self.on_loss_probe_timer(cx) {
            // In place of the retransmission timer, should both have expired.
        } else if self.hot.timers.take_expired(Timer::Retransmit, now) {
            if self.packets_out() > 0 {
                self.on_retransmit_timer(cx);
            } else {
                self.on_persist_timer(cx);
            }
        } else if probe && late.is_some() {
            self.on_reorder_timer(cx);
        }
        if self.hot.timers.take_expired(Timer::Slow, now) {
            if self.is_lingering() {
                // RFC 9293 section 3.6.1 leaves the length of this wait to us: tcp_fin_timeout.
                self.finish(cx, CloseReason::TimedOut);
            } else if self.linger().is_some() {
                // What was written before the close has not arrived in the time that was set for it.
                cx.counters.abort_on_linger += 1;
                self.reset(cx, CloseReason::TimedOut);
            } else {
                self.on_keepalive_timer(cx);
            }
        }
        if self.hot.timers.take_expired(Timer::Idle, now) {
            self.on_idle_timer(cx);
        }
        self.settle(cx);
        self.check();
    }

    /// An orphan that waits for the peer's FIN.
    pub(super) fn is_lingering(&self) -> bool {
        self.hot.state == State::FinWait2 && self.hot.flags.has(Flags::DISCARD)
    }

    /// How long the peer has, from the close on, to acknowledge what is left; while it is left.
    fn linger(&self) -> Option<Duration> {
        let closing = matches!(self.hot.state, State::FinWait1 | State::Closing | State::LastAck);
        self.warm
            .linger_sec
            .filter(|_| closing && self.hot.flags.has(Flags::DISCARD))
            .map(|sec| Duration::from_secs(sec.into()))
    }

    fn on_delayed_ack_timer(&mut self, cx: &mut Cx<'_>) {
        if self.hot.flags.has(Flags::ACK_PENDING) {
            self.hot.pace.on_timer(self.hot.rto.get(), cx.params);
            self.hot.flags.set(Flags::ACK_NOW);
            cx.counters.delayed_acks += 1;
        }
    }

    /// RFC 6298 section 5.4 and following.
    fn on_retransmit_timer(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now;
        let rto = self.hot.rto;
        let Some(ext) = &mut self.ext else { return };
        let head_sent = ext.recovery.log.head().map_or(now, |head| head.sent);
        if self.hot.flags.has(Flags::RTO_UNSENT) {
            // The last retransmission never left this host: no reason to back off.
            self.hot.timers.arm(Timer::Retransmit, now + rto.get().min(LOCAL_RETRY_MAX));
            return;
        }
        let first = ext.waiting_since.is_none();
        let head_sent = ext.probed_since.take().unwrap_or(head_sent);
        let since = *ext.waiting_since.get_or_insert(head_sent);
        if rto.backoff() > 0 && self.is_given_up(cx.params, now, now.since(since)) {
            cx.counters.abort_on_timeout += 1;
            self.finish(cx, self.silence());
            return;
        }
        let Some(ext) = &mut self.ext else { return };
        ext.tlp_end_seq = None;
        self.hot.flags.clear(Flags::LOSS_PROBE_OWED);
        self.hot.timers.stop(Timer::LossProbe);
        cx.counters.timeouts += 1;
        self.warm.rto_count = self.warm.rto_count.saturating_add(1);
        if let Some(extras) = &mut self.extras {
            extras.tally.on_timeout(now);
        }
        let numbers = (self.hot.snd_una, self.hot.snd_nxt);
        let timeout =
            ext.recovery.on_timeout(now, numbers, cx.params.reordering, first, cx.params.frto > 0);
        let sack = self.hot.flags.has(Flags::SACK);
        match timeout.was {
            CaState::Recovery if sack => cx.counters.sack_recovery_fail += 1,
            CaState::Recovery => cx.counters.reno_recovery_fail += 1,
            CaState::Disorder if sack => cx.counters.sack_failures += 1,
            CaState::Disorder => cx.counters.reno_failures += 1,
            CaState::Loss => cx.counters.loss_failures += 1,
            CaState::Open | CaState::Cwr => {}
        }
        cx.counters.sack_reneging += u64::from(timeout.reneged);
        let in_flight = ext.recovery.in_flight();
        ext.cc.on_rto(cx, in_flight, timeout.fresh);
        self.hot.ecn.owe_cwr();
        self.hot.rto = rto.double(cx.params);
        self.hot.flags.set(Flags::RTO_UNSENT);
        let at = self.limit_by_user_timeout(now, since, now + self.hot.rto.get());
        self.hot.timers.arm(Timer::Retransmit, at);
    }

    /// RFC 8985 section 7.2: a probe is due twice the round trip after what was sent or acknowledged
    /// last, and some time for the peer's timers; in place of the retransmission timer if that would be
    /// first.
    ///
    /// While segments are late without being taken for lost, the slot is theirs (RFC 8985 section 6.3): a
    /// probe is for times when nothing is known to be missing.
    pub(super) fn arm_loss_probe(&mut self, now: Instant, params: &TcpParams) {
        if let Some(at) = self.ext.as_ref().and_then(|ext| ext.recovery.reorder_at()) {
            self.hot.timers.arm(Timer::LossProbe, at);
            return;
        }
        let srtt = self.hot.rtt.srtt().filter(|_| self.may_probe(params));
        let at = srtt.map(|srtt| {
            // A lone segment may wait for the peer's delayed acknowledgement.
            let patience = if self.packets_out() == 1 { params.rto_min } else { PROBE_PATIENCE };
            now + srtt * 2 + patience
        });
        match (at, self.hot.timers.get(Timer::Retransmit)) {
            (Some(at), Some(rto)) => self.hot.timers.arm(Timer::LossProbe, at.min(rto)),
            _ => self.hot.timers.stop(Timer::LossProbe),
        }
    }

    /// Whether the silence of the peer may be answered by a tail loss probe: nothing is known to be
    /// missing, and no probe is under way.
    fn may_probe(&self, params: &TcpParams) -> bool {
        params.early_retrans >= EARLY_RETRANS_PROBES
            && self.hot.flags.has(Flags::SACK)
            && self.hot.rto.backoff() == 0
            && self.ext.as_ref().is_some_and(|ext| {
                ext.recovery.may_probe()
                    && !ext.recovery.log.is_empty()
                    && ext.tlp_end_seq.is_none()
            })
    }

    /// RFC 8985 section 6.3: what was late has not come.
    fn on_reorder_timer(&mut self, cx: &mut Cx<'_>) {
        let hot = &self.hot;
        let numbers = (hot.snd_una, hot.snd_nxt);
        let times = (hot.rtt.min_rtt(), hot.rtt.srtt());
        let info = AckInfo {
            prior_una: hot.snd_una,
            snd_una: hot.snd_una,
            snd_nxt: hot.snd_nxt,
            advanced: false,
            duplicates: 0,
            sack: true,
            mss: u32::from(hot.snd_mss),
            max_reordering: cx.params.max_reordering,
            min_rtt: hot.rtt.min_rtt(),
            srtt: hot.rtt.srtt(),
            knob: cx.params.recovery,
            has_new_data: false,
            ece: false,
        };
        let Some(ext) = &mut self.ext else { return };
        let mut change = ext.recovery.on_reorder_timer(cx.now, numbers, times, cx.params.recovery);
        // The timer stands for the acknowledgement that did not come: one segment may leave.
        let delivered = core::mem::replace(&mut change.delivered, 0);
        debug_assert_eq!(delivered, 0);
        self.apply(cx, &info, &change);
        if change.enter
            && let Some(ext) = &mut self.ext
        {
            let in_flight = ext.recovery.in_flight();
            ext.cc.set_cwnd(in_flight.saturating_add(1));
        }
        self.arm_loss_probe(cx.now, cx.params);
    }

    /// RFC 8985 section 7.3: new data if there are any, else the last segment again. Its
    /// acknowledgement shows what has arrived, long before the retransmission timer would ask.
    /// False: there is nothing to ask with.
    fn on_loss_probe_timer(&mut self, cx: &mut Cx<'_>) -> bool {
        let snd_nxt = self.hot.snd_nxt;
        let new_data = self.hot.write_seq.after(snd_nxt) && self.usable_window() > 0;
        // The tail is beyond a window that the peer has shrunk.
        let beyond = snd_nxt.after(self.hot.snd_una.add(self.hot.snd_wnd));
        if !self.may_probe(cx.params) || beyond && self.packets_out() > 1 {
            return false;
        }
        let Some(ext) = &mut self.ext else { return false };
        // The user's patience began with what is in flight, although the probe may be sent in its place.
        ext.probed_since = ext.recovery.log.head().map(|head| head.sent);
        if new_data {
            self.hot.flags.set(Flags::LOSS_PROBE_OWED);
        } else if !ext.recovery.probe_tail() {
            return false;
        }
        ext.tlp_is_retrans = !new_data;
        ext.tlp_end_seq = Some(snd_nxt);
        cx.counters.loss_probes += 1;
        // The answer gets the whole time, as if what is in flight had been sent now.
        self.arm_rto(cx.now, cx.now);
        true
    }

    /// Whether waiting for an acknowledgement for `waited` is enough: R2 of RFC 9293 section 3.8.3, as a
    /// time.
    fn is_given_up(&self, params: &TcpParams, now: Instant, waited: Duration) -> bool {
        if let Some(limit) = self.user_timeout() {
            return waited >= limit;
        }
        let orphan = self.hot.flags.has(Flags::DISCARD);
        if self.hot.snd_wnd == 0 && !orphan {
            // RFC 9293 section 3.8.6.1: the peer has withdrawn its window, so our retransmissions are
            // window probes now, and as long as it answers them the connection stays.
            return now.since(self.warm.last_rcv).min(waited) >= params.rto_max * 2;
        }
        let retries = if orphan { orphan_retries(params) } else { params.retries2 };
        waited >= backoff_time(params.rto_min, retries, params.rto_max)
    }

    /// R1 of RFC 9293 section 3.8.3: so many timeouts in a row that the next hop itself may be gone, and
    /// the network layer should look (RFC 1122 section 4.2.3.5).
    pub fn doubts_path(&self, params: &TcpParams) -> bool {
        self.packets_out() > 0 && self.hot.rto.backoff() >= params.retries1.max(1)
    }

    /// What to tell the application when the peer has been silent for too long. RFC 9293 section 3.9.2.2:
    /// a soft error of the network says more than the silence.
    fn silence(&self) -> CloseReason {
        if self.hot.flags.has(Flags::SOFT_ERROR) {
            CloseReason::Unreachable
        } else {
            CloseReason::TimedOut
        }
    }

    fn user_timeout(&self) -> Option<Duration> {
        let ms = self.warm.user_timeout_ms;
        (ms != 0).then(|| Duration::from_millis(u64::from(ms)))
    }

    /// A deadline, but not beyond the moment at which the user timeout ends it all.
    pub(super) fn limit_by_user_timeout(
        &self,
        now: Instant,
        since: Instant,
        at: Instant,
    ) -> Instant {
        match self.user_timeout() {
            Some(limit) => at.min((since + limit).max(now + Duration::from_millis(1))),
            None => at,
        }
    }

    /// Arm the probe timer if data wait, nothing is in flight, and nothing may leave.
    pub(super) fn settle_persist(&mut self, cx: &Cx<'_>) {
        if self.packets_out() > 0 {
            return;
        }
        if !self.has_unsent() || self.decide_data(cx, 1).is_ok() {
            self.hot.timers.stop(Timer::Retransmit);
            if !self.has_unsent() || self.usable_window() > 0 {
                self.warm.persist_backoff = 0;
            }
            return;
        }
        if !self.hot.timers.is_armed(Timer::Retransmit) {
            let since = self.ext.as_ref().and_then(|ext| ext.waiting_since).unwrap_or(cx.now);
            let at =
                self.limit_by_user_timeout(cx.now, since, cx.now + self.persist_delay(cx.params));
            self.hot.timers.arm(Timer::Retransmit, at);
        }
    }

    fn persist_delay(&self, params: &TcpParams) -> Duration {
        let factor = 1u32.checked_shl(u32::from(self.warm.persist_backoff)).unwrap_or(u32::MAX);
        self.base_rto(params).saturating_mul(factor).min(params.rto_max)
    }

    /// RFC 9293 section 3.8.6.1: ask for the window, with what fits if anything does.
    fn on_persist_timer(&mut self, cx: &mut Cx<'_>) {
        if !self.has_unsent() {
            return;
        }
        let Some(ext) = &mut self.ext else { return };
        let since = *ext.waiting_since.get_or_insert(cx.now);
        // A peer that answers probes keeps the connection up for ever (probes_out is zero then),
        // unless the user has set a limit or nobody holds it any more.
        let orphan = self.hot.flags.has(Flags::DISCARD);
        let most = if orphan { orphan_retries(cx.params) } else { cx.params.retries2 };
        let waited = cx.now.since(since);
        let over = self.user_timeout().is_some_and(|limit| waited >= limit && !waited.is_zero());
        let orphan_over =
            orphan && waited >= backoff_time(cx.params.rto_min, most, cx.params.rto_max);
        if over || orphan_over || self.warm.probes_out >= most {
            cx.counters.abort_on_timeout += 1;
            self.finish(cx, self.silence());
            return;
        }
        // Released even if more was announced, as a corked socket is.
        self.hot.flags.clear(Flags::MORE);
        self.push_last();
        self.warm.probes_out = self.warm.probes_out.saturating_add(1);
        self.warm.persist_backoff = self.warm.persist_backoff.saturating_add(1).min(31);
        if self.usable_window() > 0 {
            self.hot.flags.set(Flags::FORCE_PARTIAL);
        } else {
            self.hot.flags.set(Flags::PROBE_OWED);
            self.hot.flags.clear(Flags::PROBE_KEEPALIVE);
        }
    }

    /// Keep-alive, the time to linger and FIN-WAIT-2 share a slot: they exclude each other.
    pub(super) fn settle_slow(&mut self, cx: &Cx<'_>) {
        let wait = if self.is_lingering() {
            let own = self.warm.fin_timeout_sec.map(|sec| Duration::from_secs(sec.into()));
            Some(own.unwrap_or(cx.params.fin_timeout))
        } else {
            self.linger()
        };
        if let Some(wait) = wait {
            if !self.hot.timers.is_armed(Timer::Slow) {
                self.hot.timers.arm(Timer::Slow, cx.now + wait);
            }
        } else if self.hot.flags.has(Flags::KEEPALIVE) {
            if !self.hot.timers.is_armed(Timer::Slow) {
                let idle = self.keepalive_time(cx.params);
                self.hot.timers.arm(Timer::Slow, self.warm.last_rcv.max(cx.now - idle) + idle);
            }
        } else {
            self.hot.timers.stop(Timer::Slow);
        }
    }

    fn keepalive_time(&self, params: &TcpParams) -> Duration {
        let own = self.warm.keepalive_time_sec;
        own.map_or(params.keepalive_time, |sec| Duration::from_secs(sec.get().into()))
    }

    /// RFC 9293 section 3.8.4.
    fn on_keepalive_timer(&mut self, cx: &mut Cx<'_>) {
        if !self.hot.flags.has(Flags::KEEPALIVE) {
            return;
        }
        let params = cx.params;
        let idle = self.keepalive_time(params);
        if self.packets_out() > 0 || self.has_unsent() {
            // Other timers watch over the peer now.
            self.hot.timers.arm(Timer::Slow, cx.now + idle);
            return;
        }
        let silent = cx.now.since(self.warm.last_rcv);
        if silent < idle {
            let at = self.warm.last_rcv + idle;
            self.warm.probes_out = 0;
            self.hot.timers.arm(Timer::Slow, at);
            return;
        }
        let most = self.warm.keepalive_probes.map_or(params.keepalive_probes, NonZeroU8::get);
        let given_up = match self.user_timeout() {
            Some(limit) => silent >= limit && self.warm.probes_out > 0,
            None => self.warm.probes_out >= most,
        };
        if given_up {
            cx.counters.abort_on_timeout += 1;
            self.reset(cx, self.silence());
            return;
        }
        self.warm.probes_out = self.warm.probes_out.saturating_add(1);
        self.hot.flags.set(Flags::PROBE_OWED);
        self.hot.flags.set(Flags::PROBE_KEEPALIVE);
        let own = self.warm.keepalive_interval_sec;
        let interval =
            own.map_or(params.keepalive_interval, |sec| Duration::from_secs(sec.get().into()));
        self.hot.timers.arm(Timer::Slow, cx.now + interval);
    }

    fn on_idle_timer(&mut self, cx: &Cx<'_>) {
        let Some(ext) = &self.ext else { return };
        let last = ext.last_sent.max(self.hot.pace.last_data());
        if !self.is_quiescent() {
            return;
        }
        if cx.now.since(last) < EXTENSION_IDLE {
            self.hot.timers.arm(Timer::Idle, last + EXTENSION_IDLE);
        } else {
            self.detach(cx.params);
        }
    }

    /// An ICMP unreachable for a segment in flight (its sequence number already checked against
    /// `snd_una..snd_nxt`): soft in synchronised states, RFC 5927 section 5 and RFC 9293
    /// section 3.9.2. Remembered for the error that a timeout reports.
    pub fn on_unreachable(&mut self, cx: &mut Cx<'_>) {
        if matches!(self.hot.state, State::Closed | State::TimeWait) {
            return;
        }
        self.hot.flags.set(Flags::SOFT_ERROR);
        // RFC 6069: the loss was no congestion, so one step of back-off is taken back.
        let retrying = self.packets_out() > 0 && self.hot.rto.backoff() > 0;
        let Some(head_sent) = self
            .ext
            .as_ref()
            .filter(|_| retrying)
            .and_then(|ext| ext.recovery.log.head().map(|head| head.sent))
        else {
            return;
        };
        let base = self.hot.rtt.rto(cx.params);
        self.hot.rto = self.hot.rto.halve(base, cx.params);
        self.arm_rto(cx.now, head_sent);
    }
}

fn orphan_retries(params: &TcpParams) -> u8 {
    if params.orphan_retries == 0 { ORPHAN_RETRIES } else { params.orphan_retries }
}
