//! What the application does: send, consume, close, abort, change options.

use core::num::{NonZeroU8, NonZeroU16};
use core::time::Duration;

use super::{CHARGE, Connection, Flags};
use crate::params::FIN_TIMEOUT_SEC_MAX;
use crate::recv::autotune::Reading;
use crate::timers::Timer;
use crate::user_timeout::adapted;
use crate::window::initial_rcvbuf;
use crate::{
    CloseReason, ConnOptions, Cx, SendError, State, StateEvent, TcpParams, UserTimeoutOption,
};

impl Connection {
    pub(super) fn may_send(&self) -> bool {
        matches!(self.hot.state, State::Established | State::CloseWait)
            && !self.hot.flags.has(Flags::FIN_QUEUED)
    }

    /// The stack has stored `len` more bytes of the application's (at most [`Connection::send_room`]).
    /// `more`: further bytes follow at once, so a partial segment may wait for them (MSG_MORE). The
    /// caller polls the connection afterwards.
    ///
    /// # Errors
    ///
    /// Once the application has closed, or the connection is gone.
    pub fn send(&mut self, cx: &mut Cx<'_>, len: u32, more: bool) -> Result<(), SendError> {
        if !self.may_send() {
            let gone = matches!(self.hot.state, State::Closed | State::TimeWait);
            return Err(if gone { SendError::Closed } else { SendError::Closing });
        }
        self.check();
        if len > 0 {
            self.restart_after_idle(cx);
            self.note_application_limited();
            self.enqueue(cx, len, more);
        }
        self.hot.flags.put(Flags::MORE, more);
        // What is to follow is decided when the connection is polled, which data to send is reason for.
        self.check();
        Ok(())
    }

    /// What was handed over before was not enough to fill the window: the rate at which it is delivered is the
    /// application's.
    fn note_application_limited(&mut self) {
        let unsent = self.hot.write_seq.bytes_since(self.hot.snd_nxt);
        let Some(ext) = self.ext.as_mut().filter(|_| unsent < u32::from(self.hot.snd_mss)) else {
            return;
        };
        let in_flight = ext.recovery.in_flight();
        if in_flight < ext.cc.cwnd()
            && ext.recovery.log.lost_out() <= ext.recovery.log.retrans_out()
        {
            ext.recovery.log.rate.on_application_limited(in_flight);
        }
    }

    /// RFC 5681 section 4.1: after a pause the window says nothing about the path any more.
    pub(super) fn restart_after_idle(&mut self, cx: &mut Cx<'_>) {
        let rto = self.hot.rto.get();
        let now = cx.now;
        let params = cx.params;
        let ext = self.attach(cx);
        if params.slow_start_after_idle && ext.recovery.log.is_empty() {
            let idle = now.since(ext.last_sent);
            if idle > rto {
                ext.cc.on_idle_restart(idle, rto, params.initial_cwnd);
                // Further writes before anything is sent are part of the same start.
                ext.last_sent = now;
            }
        }
    }

    /// The application has taken `len` bytes from the receive queue.
    pub fn consume(&mut self, cx: &mut Cx<'_>, len: u32) {
        self.check();
        let len = len.min(self.rcv_nxt().bytes_since(self.hot.copied_seq));
        if len == 0 {
            return;
        }
        self.hot.copied_seq = self.hot.copied_seq.add(len);
        self.tune_receive_buffer(cx);
        self.acknowledge_read(cx);
        // Nothing else follows from what was received.
        if !matches!(self.hot.state, State::Closed | State::TimeWait) {
            self.settle_idle(cx.now);
        }
        self.check();
    }

    /// The stack has counted the memory that the receive side holds: what was received and not read, in
    /// order or not, bytes. To be called before what depends on it is asked for.
    pub fn set_receive_memory(&mut self, bytes: u32) {
        self.warm.space.rmem_alloc = bytes;
    }

    /// More is held than may be: whoever stores the bytes should look whether they need so much.
    pub fn exceeds_receive_memory(&self) -> bool {
        self.warm.space.is_over()
    }

    /// More than half of what may be held is held: buffers are worth a copy.
    pub fn receive_memory_is_short(&self) -> bool {
        self.warm.space.rmem_alloc > self.warm.space.rcvbuf / 2
    }

    fn tune_receive_buffer(&mut self, cx: &Cx<'_>) {
        let reading = self.reading(cx);
        let Self { ext, warm, .. } = self;
        let Some(ext) = ext else { return };
        ext.autotune.on_copied(&reading, cx.params, &mut warm.space);
    }

    /// What the growth of the receive buffer looks at.
    pub(super) fn reading(&self, cx: &Cx<'_>) -> Reading {
        Reading {
            now: cx.now,
            copied_seq: self.hot.copied_seq,
            rcv_nxt: self.rcv_nxt(),
            ooo_end: self.ext.as_ref().and_then(|ext| ext.assembler.highest()),
            advmss: u32::from(self.warm.advmss),
            locked: self.hot.flags.has(Flags::RCVBUF_LOCKED),
            buffer_cost: cx.buffers.bytes,
        }
    }

    /// Reading may make an acknowledgement worth while: for the data, or for the window.
    fn acknowledge_read(&mut self, cx: &Cx<'_>) {
        let hot = &self.hot;
        if matches!(hot.state, State::Closed | State::TimeWait) || hot.flags.has(Flags::ACK_NOW) {
            return;
        }
        let pending = hot.flags.has(Flags::ACK_PENDING);
        let drained = hot.copied_seq == self.rcv_nxt();
        let unacknowledged = hot.rcv_nxt.bytes_since(hot.rcv_wup);
        let due = pending
            && (unacknowledged > u32::from(hot.rcv_mss)
                || drained && hot.flags.has(Flags::PUSHED) && !hot.pace.is_interactive());
        if due || (!hot.flags.has(Flags::FIN_TAKEN) && self.is_window_update_due(cx)) {
            self.hot.flags.set(Flags::ACK_NOW);
        }
    }

    /// A window worth telling: at least twice what is open, RFC 9293 section 3.8.6.2.2.
    fn is_window_update_due(&self, cx: &Cx<'_>) -> bool {
        let current = self.receive_window();
        let clamp = self.warm.space.window_clamp.min(self.window_clamp());
        if current.saturating_mul(2) > clamp {
            return false;
        }
        let window = self.select_window(cx);
        window > 0 && window >= current.saturating_mul(2)
    }

    /// The application will send no more: FIN after what is queued. With `discard` it will not
    /// read any more either (`close` of a socket): unread or later data reset the connection.
    pub fn close(&mut self, cx: &mut Cx<'_>, discard: bool) {
        if matches!(self.hot.state, State::Closed | State::TimeWait) {
            return;
        }
        self.check();
        if discard {
            self.hot.flags.set(Flags::DISCARD);
            self.hot.flags.clear(Flags::EV_READABLE);
            if self.rcv_nxt() != self.hot.copied_seq {
                // RFC 1122 section 4.2.2.13 and RFC 2525 section 2.17: the peer must learn that its data
                // were not read.
                cx.counters.abort_on_close += 1;
                self.reset(cx, CloseReason::Aborted);
                self.settle(cx);
                return;
            }
            if self.warm.linger_sec == Some(0) {
                self.abort(cx);
                return;
            }
            // A keep-alive of before means nothing to an orphan.
            self.hot.timers.stop(Timer::Slow);
        }
        if !self.hot.flags.has(Flags::FIN_QUEUED) {
            self.attach(cx);
            self.hot.flags.set(Flags::FIN_QUEUED);
            self.hot.flags.clear(Flags::MORE);
            self.transit(cx, StateEvent::Close);
        }
        self.hot.flags.clear(Flags::WANT_WRITABLE);
        self.settle(cx);
        self.check();
    }

    /// `TCP_QUICKACK`: leave the interactive mode, in which acknowledgements wait for data to carry them,
    /// and send one that waits; or enter it. Only for now: the exchange goes on to decide.
    pub fn set_quickack(&mut self, cx: &mut Cx<'_>, on: bool) {
        self.hot.pace.set_interactive(!on);
        let drained = self.hot.copied_seq == self.rcv_nxt();
        if on && drained && self.hot.flags.has(Flags::ACK_PENDING) {
            self.hot.flags.set(Flags::ACK_NOW);
        }
        self.settle(cx);
    }

    /// What is queued goes now, though a segment be partial: neither Nagle nor an announcement of more nor
    /// a cork holds it.
    pub fn push(&mut self, cx: &mut Cx<'_>) {
        if self.has_unsent() {
            self.hot.flags.set(Flags::FORCE_PARTIAL);
        }
        self.settle(cx);
    }

    /// Whether the exchange is not interactive: what `TCP_QUICKACK` reads.
    pub fn is_quickack(&self) -> bool {
        !self.hot.pace.is_interactive()
    }

    /// Reset at once; the RST comes out of [`Connection::poll_transmit`], then
    /// [`crate::Event::Closed`].
    pub fn abort(&mut self, cx: &mut Cx<'_>) {
        if matches!(self.hot.state, State::Closed | State::TimeWait) {
            return;
        }
        cx.counters.abort_on_linger += 1;
        self.reset(cx, CloseReason::Aborted);
        self.settle(cx);
    }

    /// There is no room for what the application has left behind: reset at once, as
    /// [`Connection::abort`] does.
    pub fn give_up(&mut self, cx: &mut Cx<'_>) {
        if matches!(self.hot.state, State::Closed | State::TimeWait) {
            return;
        }
        cx.counters.abort_on_memory += 1;
        self.reset(cx, CloseReason::Resources);
        self.settle(cx);
    }

    /// Change options of a live connection (`TCP_NODELAY`, buffers, keep-alive, linger, timeouts). The
    /// congestion control and what belongs to the SYN stay as they were.
    pub fn set_options(&mut self, cx: &mut Cx<'_>, options: &ConnOptions) {
        let ConnOptions {
            nodelay,
            rcvbuf,
            sndbuf,
            mss,
            congestion: _,
            keepalive,
            keepalive_time_sec,
            keepalive_interval_sec,
            keepalive_probes,
            syn_retries: _,
            linger_sec,
            fin_timeout_sec,
            user_timeout,
            cork: _,
            notsent_lowat: _,
            window_clamp: _,
            tally: _,
            refuse_text: _,
            tos: _,
            ttl: _,
        } = options;
        let params = cx.params;
        self.set_extras(cx.now, options);
        if *nodelay && !self.hot.flags.has(Flags::NODELAY) && self.has_unsent() {
            // What is queued goes now, cork or not.
            self.hot.flags.set(Flags::FORCE_PARTIAL);
        }
        self.hot.flags.put(Flags::NODELAY, *nodelay);
        let idle = keepalive_time_sec.and_then(NonZeroU16::new);
        let other_idle = self.hot.flags.has(Flags::KEEPALIVE) != *keepalive
            || self.warm.keepalive_time_sec != idle;
        if other_idle && !self.hot.flags.has(Flags::DISCARD) {
            // Armed again below, from when the peer was last heard of.
            self.hot.timers.stop(Timer::Slow);
        }
        self.hot.flags.put(Flags::KEEPALIVE, *keepalive);
        self.warm.keepalive_time_sec = idle;
        self.warm.keepalive_interval_sec = keepalive_interval_sec.and_then(NonZeroU16::new);
        self.warm.keepalive_probes = keepalive_probes.and_then(NonZeroU8::new);
        self.warm.linger_sec = *linger_sec;
        self.warm.fin_timeout_sec = fin_timeout_sec.map(|sec| sec.min(FIN_TIMEOUT_SEC_MAX));
        self.set_user_timeout(params, *user_timeout);
        if rcvbuf.is_some() {
            self.hot.flags.set(Flags::RCVBUF_LOCKED);
            self.warm.space.set_rcvbuf(initial_rcvbuf(params, options));
        }
        if let Some(bytes) = *sndbuf {
            self.hot.flags.set(Flags::SNDBUF_LOCKED);
            let doubled = bytes.min(params.wmem_max).saturating_mul(CHARGE);
            self.warm.sndbuf = doubled.max(params.wmem[0]);
        }
        if let Some(mss) = mss {
            self.warm.peer_mss = self.warm.peer_mss.min(*mss);
            self.shrink_mss(params);
        }
        self.settle(cx);
    }

    /// RFC 5482 section 3.1: what the application sets is not changed by the peer, and is told.
    fn set_user_timeout(&mut self, params: &TcpParams, asked: Option<Duration>) {
        let before = self.warm.user_timeout_ms;
        match asked {
            Some(timeout) => {
                self.hot.flags.set(Flags::USER_TIMEOUT_SET);
                self.warm.user_timeout_ms = timeout_ms(timeout);
            }
            None if self.hot.flags.take(Flags::USER_TIMEOUT_SET) => {
                self.warm.user_timeout_ms = timeout_ms(params.user_timeout);
            }
            None => {}
        }
        // RFC 5482 section 3.1: also in the first segment that is no SYN, which may be lost unnoticed.
        let fresh = self.hot.flags.has(Flags::FIRST);
        if params.user_timeout_option >= 2 && (fresh || self.warm.user_timeout_ms != before) {
            self.hot.flags.set(Flags::USER_TIMEOUT_OWED);
            if !fresh {
                self.hot.flags.set(Flags::ACK_NOW);
            }
        }
    }

    /// The peer has told its user timeout: adapt ours, unless the application has set it.
    pub(super) fn heed_user_timeout(
        &mut self,
        params: &TcpParams,
        told: Option<UserTimeoutOption>,
    ) {
        let Some(told) = told.filter(|_| params.user_timeout_option >= 1) else { return };
        if !self.hot.flags.has(Flags::USER_TIMEOUT_SET) {
            let timeout = adapted(params.user_timeout, told.get(), params.user_timeout_limits);
            self.warm.user_timeout_ms = timeout_ms(timeout);
        }
    }

    /// The option for an acknowledgement, if one is owed.
    pub(super) fn user_timeout_option(&self, params: &TcpParams) -> Option<UserTimeoutOption> {
        if !self.hot.flags.has(Flags::USER_TIMEOUT_OWED) {
            return None;
        }
        let own = Duration::from_millis(self.warm.user_timeout_ms.into());
        let asked = self.hot.flags.has(Flags::USER_TIMEOUT_SET).then_some(own);
        params.advertised_user_timeout(asked)
    }

    /// The path may carry only packets of `mtu` bytes, says an ICMP message whose quotation was in
    /// flight. Never raises, and never below the floors of RFC 1191 and `tcp_min_snd_mss`.
    pub fn on_path_hint(&mut self, cx: &mut Cx<'_>, mtu: u16) {
        let floor = path_floor(self.warm.ip_header);
        let mtu = mtu.max(floor);
        if mtu >= self.warm.mtu || self.hot.state == State::Closed {
            return;
        }
        self.warm.mtu = mtu;
        self.shrink_mss(cx.params);
        self.settle(cx);
    }

    /// The segment size has become smaller: what is in flight and too large is sent again.
    fn shrink_mss(&mut self, params: &TcpParams) {
        let before = self.hot.snd_mss;
        self.set_mss(params);
        let mss = self.hot.snd_mss;
        if before == 0 || mss >= before {
            return;
        }
        if let Some(ext) = &mut self.ext {
            ext.recovery.on_smaller_mss(self.hot.snd_una, self.hot.snd_nxt, mss);
        }
    }
}

/// Smallest packet that a path is believed to be limited to: RFC 1191 (with the floor that Linux
/// uses, `min_pmtu`) and RFC 8200.
const fn path_floor(ip_header: u16) -> u16 {
    if ip_header >= 40 { 1280 } else { 552 }
}

/// Milliseconds of a user timeout; zero is none.
pub(super) fn timeout_ms(timeout: Duration) -> u32 {
    u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX)
}
