//! Segment arrival in the synchronised states, in the order of RFC 9293 section 3.10.7.4.
//!
//! [`Connection::judge`] asks one `check_*` after the other; they compute, the parent acts. In front
//! stands header prediction for the two segments that a busy connection sees: the next data, and an
//! acknowledgement of more.

use core::time::Duration;

use base::{DropReason, Instant, TcpFlags};

use super::{Connection, Disposition, Flags};
use crate::recv::ack::QUICK_MAX;
use crate::timestamp::{TS_RECENT_VALID, rtt_of_echo, ts_before};
use crate::{CloseReason, Cx, Segment, SeqNum, State};

/// No echo is older: the longest back-off and a margin.
const ECHO_AGE_MAX: Duration = Duration::from_secs(300);

/// What a check says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Continue,
    Drop(DropReason),
    /// Discard, and say what we expect.
    AckThenDrop(DropReason),
    /// Discard, and let the peer prove itself, RFC 5961.
    Challenge(DropReason),
    /// The peer resets the connection.
    Reset,
}

impl Connection {
    /// A segment, or an in-order run of them, RFC 9293 section 3.10.7.4.
    ///
    /// Afterwards the stack frees send storage below [`Connection::snd_una`], stores what
    /// [`Disposition::Keep`] says, and moves stored bytes below [`Connection::rcv_nxt`] to the
    /// application's queue.
    pub fn on_segments(&mut self, cx: &mut Cx<'_>, seg: &Segment) -> Disposition {
        self.check();
        self.count_in(seg);
        self.stop_waiting_for_more();
        let disposition = if self.is_predicted_data(cx, seg) {
            self.take_predicted_data(cx, seg)
        } else if self.is_predicted_ack(seg) {
            self.take_predicted_ack(cx, seg)
        } else {
            self.segment_arrives(cx, seg)
        };
        self.settle(cx);
        self.check();
        disposition
    }

    /// The same without header prediction, for the test that compares both.
    #[cfg(test)]
    pub(super) fn on_segments_unpredicted(
        &mut self,
        cx: &mut Cx<'_>,
        seg: &Segment,
    ) -> Disposition {
        self.check();
        self.count_in(seg);
        self.stop_waiting_for_more();
        let disposition = self.segment_arrives(cx, seg);
        self.settle(cx);
        self.check();
        disposition
    }

    fn count_in(&mut self, seg: &Segment) {
        self.warm.segs_in = self.warm.segs_in.wrapping_add(u32::from(seg.segs));
        if seg.len > 0
            && let Some(tally) = self.tally()
        {
            tally.data_segs_in = tally.data_segs_in.wrapping_add(u32::from(seg.segs));
        }
    }

    /// Whether everything in the header is as expected of the next segment of a stream.
    fn is_predicted_header(&self, seg: &Segment) -> bool {
        let hot = &self.hot;
        let timestamps_fit = match seg.options.timestamps {
            // Not older, and not the first in a long time.
            Some((val, _)) => hot.flags.has(Flags::TIMESTAMPS) && !ts_before(val, hot.ts_recent),
            None => !hot.flags.has(Flags::TIMESTAMPS),
        };
        hot.state == State::Established
            && !hot.flags.has(Flags::FIRST)
            && seg.flags.without(TcpFlags::PSH) == TcpFlags::ACK
            && seg.seq == hot.rcv_nxt
            && timestamps_fit
            && seg.options.sack.is_empty()
            && seg.options.user_timeout.is_none()
            && hot.snd_wscale.bytes(seg.wnd) == hot.snd_wnd
    }

    /// The next bytes, alone or (in a conversation) with the acknowledgement of ours.
    fn is_predicted_data(&self, cx: &Cx<'_>, seg: &Segment) -> bool {
        seg.len > 0
            && cx.can_store
            && !self.warm.space.is_over()
            && seg.len <= self.receive_window()
            && self.is_predicted_header(seg)
            && self.ext.as_ref().is_some_and(|ext| {
                ext.assembler.is_empty()
                    && (seg.ack == self.hot.snd_una
                        || self.is_acceptable_ack(seg) && ext.recovery.is_calm())
            })
    }

    /// Acknowledges something new that was sent.
    fn is_acceptable_ack(&self, seg: &Segment) -> bool {
        seg.ack.after(self.hot.snd_una) && seg.ack.at_or_before(self.hot.snd_nxt)
    }

    fn is_predicted_ack(&self, seg: &Segment) -> bool {
        seg.len == 0
            && self.is_acceptable_ack(seg)
            && self.is_predicted_header(seg)
            && self.ext.as_ref().is_some_and(|ext| ext.recovery.is_calm())
    }

    fn take_predicted_data(&mut self, cx: &mut Cx<'_>, seg: &Segment) -> Disposition {
        cx.counters.hp_hits += 1;
        self.warm.last_rcv = cx.now;
        // The window is as it was, but it was said later: SND.WL1 must keep up, or it would be in the
        // future after 2^31 bytes.
        self.hot.snd_wl1 = self.hot.snd_wl1.later(seg.seq);
        self.warm.probes_out = 0;
        self.update_ts_recent(cx.now, seg);
        if seg.ack != self.hot.snd_una {
            self.process_ack(cx, seg, self.hot.snd_wnd);
        }
        self.take_in_order(cx, seg)
    }

    fn take_predicted_ack(&mut self, cx: &mut Cx<'_>, seg: &Segment) -> Disposition {
        cx.counters.hp_acks += 1;
        self.warm.last_rcv = cx.now;
        self.update_ts_recent(cx.now, seg);
        self.process_ack(cx, seg, self.hot.snd_wnd);
        Disposition::Done
    }

    fn segment_arrives(&mut self, cx: &mut Cx<'_>, seg: &Segment) -> Disposition {
        if self.hot.flags.take(Flags::FIRST) {
            return self.first_arrives(cx, seg);
        }
        let wnd = self.hot.snd_wscale.bytes(seg.wnd);
        self.arrives(cx, seg, wnd)
    }

    /// The segment that completed the handshake. If it is a SYN, that is its job done: the rest of it
    /// is an ordinary segment, with a window that is not scaled (RFC 7323 section 2.2).
    fn first_arrives(&mut self, cx: &mut Cx<'_>, seg: &Segment) -> Disposition {
        if seg.flags.syn() && seg.seq == self.warm.irs {
            let mut rest = seg.clone();
            rest.seq = rest.seq.add(1);
            rest.flags = rest.flags.without(TcpFlags::SYN);
            let wnd = u32::from(seg.wnd);
            self.set_first_window(rest.seq, wnd);
            // The peer waits for the last part of the handshake.
            self.hot.flags.set(Flags::ACK_NOW);
            return self.arrives(cx, &rest, wnd);
        }
        let wnd = self.hot.snd_wscale.bytes(seg.wnd);
        self.set_first_window(seg.seq, wnd);
        self.arrives(cx, seg, wnd)
    }

    fn set_first_window(&mut self, seq: SeqNum, wnd: u32) {
        self.hot.snd_wnd = wnd;
        self.hot.max_window = wnd;
        self.hot.snd_wl1 = seq;
    }

    fn arrives(&mut self, cx: &mut Cx<'_>, seg: &Segment, wnd: u32) -> Disposition {
        match self.judge(cx, seg) {
            Verdict::Continue => {}
            Verdict::Drop(reason) => {
                self.count_drop(cx, reason);
                return Disposition::Drop(reason);
            }
            Verdict::AckThenDrop(reason) => {
                self.answer_unacceptable(cx, seg, reason);
                return Disposition::Drop(reason);
            }
            Verdict::Challenge(reason) => {
                self.challenge(cx, reason);
                return Disposition::Drop(reason);
            }
            Verdict::Reset => {
                self.on_reset(cx);
                return Disposition::Done;
            }
        }
        self.warm.last_rcv = cx.now;
        self.hot.flags.clear(Flags::SOFT_ERROR);
        self.heed_user_timeout(cx.params, seg.options.user_timeout);
        self.update_ts_recent(cx.now, seg);
        if seg.len == 0 {
            cx.counters.pure_acks += 1;
        }
        self.process_ack(cx, seg, wnd);
        if self.hot.state == State::Closed {
            return Disposition::Done;
        }
        // Also when that was the end of CLOSING: a FIN that comes again with it wants its answer.
        self.take_text(cx, seg)
    }

    /// The checks in their order. The first that objects decides.
    pub(super) fn judge(&self, cx: &Cx<'_>, seg: &Segment) -> Verdict {
        if matches!(self.hot.state, State::Closed | State::TimeWait) {
            return Verdict::Drop(DropReason::TcpNoSocket);
        }
        for verdict in [
            self.check_paws(cx, seg),
            self.check_sequence(seg),
            self.check_reset(seg),
            self.check_syn(seg),
            self.check_ack(seg),
        ] {
            if verdict != Verdict::Continue {
                return verdict;
            }
        }
        Verdict::Continue
    }

    /// RFC 7323 section 5.3: protection against wrapped sequence numbers.
    fn check_paws(&self, cx: &Cx<'_>, seg: &Segment) -> Verdict {
        let hot = &self.hot;
        if !hot.flags.has(Flags::TIMESTAMPS) || seg.flags.rst() || seg.flags.syn() {
            return Verdict::Continue;
        }
        // RFC 7323 section 3.2: once negotiated, every segment but a reset carries timestamps.
        let Some((val, _)) = seg.options.timestamps else {
            return if cx.params.require_timestamps {
                Verdict::Drop(DropReason::TcpTimestampMissing)
            } else {
                Verdict::Continue
            };
        };
        let lag = hot.ts_recent.wrapping_sub(val).cast_signed();
        if lag <= 1 || self.ts_recent_expired(cx.now) {
            return Verdict::Continue;
        }
        if seg.seq_len() == 0 && seg.flags.ack() {
            // A reordered pure acknowledgement that says nothing new is harmless.
            let tolerated = self.base_rto(cx.params).as_millis() * 6 / 5;
            if seg.seq == hot.rcv_nxt
                && seg.ack == hot.snd_una
                && hot.snd_wscale.bytes(seg.wnd) == hot.snd_wnd
                && u128::from(lag.unsigned_abs()) <= tolerated
            {
                return Verdict::Continue;
            }
            if seg.ack.before(hot.snd_una) {
                return Verdict::Drop(DropReason::TcpPaws);
            }
        }
        Verdict::AckThenDrop(DropReason::TcpPaws)
    }

    fn ts_recent_expired(&self, now: Instant) -> bool {
        let age = (now.as_millis() as u32).wrapping_sub(self.hot.ts_recent_ms);
        u128::from(age) > TS_RECENT_VALID.as_millis()
            || now.since(self.warm.last_rcv) > TS_RECENT_VALID
    }

    /// RFC 9293 section 3.10.7.4, first: is any of it in the window that was ever offered? (Resets and
    /// SYNs have rules of their own, RFC 5961.)
    fn check_sequence(&self, seg: &Segment) -> Verdict {
        if seg.flags.rst() || seg.flags.syn() {
            return Verdict::Continue;
        }
        if seg.end_seq().before(self.hot.rcv_wup) {
            return Verdict::AckThenDrop(DropReason::TcpOldData);
        }
        if seg.seq.after(self.hot.rcv_adv) {
            return Verdict::AckThenDrop(DropReason::TcpOutOfWindow);
        }
        Verdict::Continue
    }

    /// RFC 5961 section 3.2: a reset counts only if it hits the next sequence number exactly.
    fn check_reset(&self, seg: &Segment) -> Verdict {
        if !seg.flags.rst() {
            return Verdict::Continue;
        }
        let hot = &self.hot;
        let after_fin = matches!(hot.state, State::CloseWait | State::LastAck | State::Closing)
            && seg.seq == hot.rcv_nxt.sub(1);
        // A peer that has lost its state resets with the number that our SACK told it.
        let after_hole = self.ext.as_ref().and_then(|ext| ext.assembler.highest()) == Some(seg.seq);
        if seg.seq == hot.rcv_nxt || after_fin || after_hole {
            return Verdict::Reset;
        }
        if seg.seq.after(hot.rcv_nxt) && seg.seq.before(hot.rcv_adv) {
            return Verdict::Challenge(DropReason::TcpRstChallenged);
        }
        Verdict::Drop(DropReason::TcpRstIgnored)
    }

    /// RFC 5961 section 4.2: a SYN gets a challenge, wherever it is.
    fn check_syn(&self, seg: &Segment) -> Verdict {
        if seg.flags.syn() {
            return Verdict::Challenge(DropReason::TcpSynChallenged);
        }
        Verdict::Continue
    }

    /// RFC 9293 section 3.10.7.4, fifth, with RFC 5961 section 5.2.
    fn check_ack(&self, seg: &Segment) -> Verdict {
        if !seg.flags.ack() {
            return Verdict::Drop(DropReason::TcpNoAck);
        }
        if seg.ack.after(self.hot.snd_nxt) {
            return Verdict::Challenge(DropReason::TcpAckUnsent);
        }
        let behind = self.hot.snd_una.bytes_since(seg.ack);
        let plausible = u64::from(self.hot.max_window).min(self.warm.bytes_acked);
        if u64::from(behind) > plausible {
            return Verdict::Challenge(DropReason::TcpAckTooOld);
        }
        Verdict::Continue
    }

    /// RFC 7323 section 4.3: only a segment that covers what we acknowledged last may set it.
    fn update_ts_recent(&mut self, now: Instant, seg: &Segment) {
        if !self.hot.flags.has(Flags::TIMESTAMPS) {
            return;
        }
        let Some((val, _)) = seg.options.timestamps else { return };
        if seg.seq.after(self.hot.rcv_wup) {
            return;
        }
        if !ts_before(val, self.hot.ts_recent) || self.ts_recent_expired(now) {
            self.hot.ts_recent = val;
            self.hot.ts_recent_ms = now.as_millis() as u32;
        }
    }

    fn count_drop(&self, cx: &mut Cx<'_>, reason: DropReason) {
        if reason == DropReason::TcpPaws {
            cx.counters.paws_old_ack += 1;
        }
    }

    fn answer_unacceptable(&mut self, cx: &mut Cx<'_>, seg: &Segment, reason: DropReason) {
        if reason == DropReason::TcpPaws {
            cx.counters.paws_estab += 1;
        }
        // Data are answered always: the peer's recovery depends on it. Two hosts that only
        // acknowledge each other must not do so for ever.
        if seg.len == 0 && !self.may_answer_invalid(cx) {
            return;
        }
        self.note_duplicate(cx, seg.seq, seg.end_seq());
        self.hot.flags.set(Flags::ACK_NOW);
    }

    /// A segment repeats what is here: report it, and be quick for a while.
    pub(super) fn note_duplicate(&mut self, cx: &mut Cx<'_>, start: SeqNum, end: SeqNum) {
        if start == end || start.at_or_after(self.hot.rcv_nxt) {
            return;
        }
        cx.counters.delayed_ack_lost += 1;
        self.hot.pace.enter_quick(QUICK_MAX, cx.params);
        if self.hot.flags.has(Flags::SACK) && cx.params.dsack {
            cx.counters.dsack_old_sent += 1;
            let end = end.earlier(self.hot.rcv_nxt);
            self.attach(cx).dsack = Some((start, end));
        }
    }

    /// Whether one more invalid segment may be answered: `tcp_invalid_ratelimit`.
    fn may_answer_invalid(&mut self, cx: &mut Cx<'_>) -> bool {
        let now_ms = (cx.now.as_millis() as u32).wrapping_add(1).max(1);
        let since = now_ms.wrapping_sub(self.warm.invalid_ms);
        let pause = cx.params.invalid_ratelimit.as_millis();
        if self.warm.invalid_ms != 0 && u128::from(since) < pause {
            cx.counters.ack_skipped += 1;
            return false;
        }
        self.warm.invalid_ms = now_ms;
        true
    }

    /// RFC 5961 section 7: challenges are limited per connection and per worker.
    fn challenge(&mut self, cx: &mut Cx<'_>, reason: DropReason) {
        if reason == DropReason::TcpSynChallenged {
            cx.counters.syn_challenge += 1;
        }
        if !self.may_answer_invalid(cx) {
            return;
        }
        let limit = cx.params.challenge_ack_limit;
        if cx.counters.challenges.take(cx.now, limit, cx.random) {
            cx.counters.challenge_ack += 1;
            self.hot.flags.set(Flags::ACK_NOW);
        } else {
            cx.counters.ack_skipped += 1;
        }
    }

    fn on_reset(&mut self, cx: &mut Cx<'_>) {
        let only_fin_unacknowledged =
            self.hot.snd_nxt == self.send_end() && self.hot.snd_una.at_or_after(self.hot.write_seq);
        let reason = match self.hot.state {
            // RFC 9293 section 3.10.7.4: nobody waits for anything any more.
            State::Closing | State::LastAck if only_fin_unacknowledged => CloseReason::Finished,
            _ => CloseReason::ResetByPeer,
        };
        self.finish(cx, reason);
    }

    /// How long ago the peer got the segment whose timestamp it echoes; `None` without one.
    pub(super) fn echo_age(&self, at: Instant, seg: &Segment) -> Option<Duration> {
        if at == Segment::ARRIVAL_UNKNOWN {
            return None;
        }
        let (_, ecr) = seg.options.timestamps.filter(|_| self.hot.flags.has(Flags::TIMESTAMPS))?;
        let age = rtt_of_echo(at, self.hot.ts_offset, ecr).filter(|_| ecr != 0)?;
        // Anything older was never a timestamp of ours.
        (age < ECHO_AGE_MAX).then_some(age)
    }
}
