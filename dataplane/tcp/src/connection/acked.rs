//! What an acknowledgement does: window, log, round trip, recovery, congestion control, timers.

use base::{Instant, TcpFlags};
use core::time::Duration;

use super::{Connection, Flags};
use crate::cc::{self, Controller, Signal};
use crate::recovery::log::{AckOutcome, Clues, Marks};
use crate::recovery::prr::{Prr, Step};
use crate::recovery::{AckInfo, CaState, Change, Reordered, Undo};
use crate::timers::Timer;
use crate::{Cx, Segment, SeqNum, SeqRange, StateEvent};

/// A peer that withdraws a selective acknowledgement gets this long to think again, at least.
const RENEGING_DELAY: Duration = Duration::from_millis(10);
/// A timer is never set nearer than this.
const TIMER_MIN: Duration = Duration::from_micros(64);

impl Connection {
    /// The acknowledgement of an acceptable segment; `wnd` is its window, scaled.
    pub(super) fn process_ack(&mut self, cx: &mut Cx<'_>, seg: &Segment, wnd: u32) {
        self.warm.probes_out = 0;
        let old = seg.ack.before(self.hot.snd_una);
        let window_changed = !old && self.update_window(seg, wnd);
        if window_changed && self.has_unsent() {
            // What has waited for it may have waited long.
            self.restart_after_idle(cx);
        }
        let advanced = seg.ack.after(self.hot.snd_una);
        let Some(ext) = self.ext.as_mut().filter(|ext| !ext.recovery.log.is_empty()) else {
            return;
        };
        let prior_packets = ext.recovery.log.packets_out();
        let prior_una = self.hot.snd_una;
        let known = seg.arrival != Segment::ARRIVAL_UNKNOWN;
        let mut outcome = AckOutcome {
            clues: Clues {
                now: if known { seg.arrival } else { cx.now },
                min_rtt: self.hot.rtt.min_rtt(),
                echo: self
                    .hot
                    .flags
                    .has(Flags::TIMESTAMPS)
                    .then_some(seg.options.timestamps)
                    .flatten()
                    .map(|(_, echo)| echo),
                ts_offset: self.hot.ts_offset,
                high_seq: ext.recovery.high_seq(),
            },
            prior_high_sacked: ext.recovery.log.high_sacked(),
            ..AckOutcome::default()
        };
        if advanced {
            self.warm.bytes_acked += u64::from(seg.ack.bytes_since(self.hot.snd_una));
            self.hot.snd_una = seg.ack;
            ext.recovery.log.ack_to(seg.ack, &mut outcome);
            ext.waiting_since = None;
            ext.probed_since = None;
            self.hot.flags.clear(Flags::SOFT_ERROR);
            if let Some(extras) = &mut self.extras {
                extras.tally.on_progress(cx.now);
            }
        }
        self.process_sack(cx, seg, prior_una, &mut outcome);
        self.judge_loss_probe(cx, seg, advanced, window_changed);
        if old && outcome.sacked == 0 {
            return;
        }
        let sampled = self.take_rtt(cx, seg, advanced, prior_packets, &outcome);

        let duplicate = !old && !advanced && !window_changed && seg.len == 0 && !seg.flags.fin();
        let info = AckInfo {
            prior_una,
            snd_una: self.hot.snd_una,
            snd_nxt: self.hot.snd_nxt,
            advanced,
            duplicates: if duplicate { u32::from(seg.segs) } else { 0 },
            sack: self.hot.flags.has(Flags::SACK),
            mss: u32::from(self.hot.snd_mss),
            max_reordering: cx.params.max_reordering,
            min_rtt: self.hot.rtt.min_rtt(),
            srtt: self.hot.rtt.srtt(),
            knob: cx.params.recovery,
            has_new_data: self.hot.write_seq.after(self.hot.snd_nxt) && self.usable_window() > 0,
            ece: !old && self.hot.ecn.is_on() && seg.flags.intersects(TcpFlags::ECE),
        };
        let Some(ext) = &mut self.ext else { return };
        ext.recovery.log.rate.sample(info.min_rtt);
        let change = ext.recovery.on_ack(&info, &outcome);
        self.apply(cx, &info, &change);
        self.after_ack_timers(cx, advanced || outcome.sacked > 0, sampled);
        if advanced {
            self.note_room(cx.params);
            self.on_fin_acknowledged(cx);
        }
    }

    /// RFC 9293 section 3.10.7.4: which windows count. True if the window is another one now.
    fn update_window(&mut self, seg: &Segment, wnd: u32) -> bool {
        let hot = &mut self.hot;
        let newer = seg.ack.after(hot.snd_una)
            || seg.seq.after(hot.snd_wl1)
            || seg.seq == hot.snd_wl1 && (wnd > hot.snd_wnd || wnd == 0);
        if !newer {
            return false;
        }
        hot.snd_wl1 = seg.seq;
        let changed = wnd != hot.snd_wnd;
        hot.snd_wnd = wnd;
        hot.max_window = hot.max_window.max(wnd);
        changed
    }

    /// The peer's SACK blocks, RFC 2018 section 5 and RFC 2883: four at most, each checked, the first perhaps a
    /// report of a duplicate.
    fn process_sack(
        &mut self,
        cx: &mut Cx<'_>,
        seg: &Segment,
        prior_una: SeqNum,
        outcome: &mut AckOutcome,
    ) {
        if seg.options.sack.is_empty() || !self.hot.flags.has(Flags::SACK) {
            return;
        }
        let blocks = &seg.options.sack;
        for (i, &(start, end)) in blocks.iter().enumerate() {
            if i == 0 && is_duplicate_report(blocks, seg.ack) {
                self.process_dsack(cx, seg, prior_una, (start, end));
                continue;
            }
            let valid = start.before(end)
                && end.at_or_before(self.hot.snd_nxt)
                && start.before(self.hot.snd_nxt)
                && start.at_or_after(self.hot.snd_una);
            let Some(block) = SeqRange::new(start, end).filter(|_| valid) else {
                // Old news, overtaken by a later acknowledgement, is no nonsense.
                let overtaken = seg.ack != self.hot.snd_una && end.at_or_before(self.hot.snd_una);
                cx.counters.sack_discard += u64::from(!overtaken);
                continue;
            };
            let Some(ext) = &mut self.ext else { return };
            ext.recovery.on_sack(block, outcome);
            cx.counters.sack_discard += u64::from(outcome.refused);
            outcome.refused = false;
        }
    }

    /// The peer says that it got a range twice, RFC 2883. Believed as far as we can have caused it.
    fn process_dsack(
        &mut self,
        cx: &mut Cx<'_>,
        seg: &Segment,
        prior_una: SeqNum,
        (start, end): (SeqNum, SeqNum),
    ) {
        let hot = &self.hot;
        let sane = start.before(end) && end.at_or_before(hot.snd_nxt);
        if !sane || hot.snd_una.bytes_since(start) > hot.max_window.max(1) {
            cx.counters.sack_discard += 1;
            return;
        }
        // Reported segment by segment: RFC 2883 section 4.
        let segs = end.bytes_since(start).div_ceil(u32::from(hot.snd_mss).max(1));
        cx.counters.dsack_recv += 1;
        cx.counters.dsack_recv_segs += u64::from(segs);
        cx.counters.dsack_ofo_recv += u64::from(start.at_or_after(seg.ack));
        if let Some(extras) = &mut self.extras {
            let tally = &mut extras.tally;
            tally.dsack_dups = tally.dsack_dups.wrapping_add(segs);
        }
        let Some(ext) = &mut self.ext else { return };
        ext.dsacked_segs = ext.dsacked_segs.saturating_add(segs);
        if ext.dsacked_segs > self.warm.total_retrans {
            // More than was ever sent twice.
            cx.counters.dsack_ignored_dubious += 1;
            return;
        }
        let Some(marker) = ext.recovery.undo_marker() else {
            cx.counters.dsack_ignored_no_undo += 1;
            return;
        };
        let probe = ext.tlp_is_retrans && ext.tlp_end_seq == Some(end);
        if end.at_or_before(marker) {
            cx.counters.dsack_ignored_old += 1;
        }
        ext.recovery.on_dsack(prior_una, hot.snd_nxt, end, segs, probe);
    }

    /// RFC 6298 section 3 and RFC 7323 section 4: the round trip, if this acknowledgement tells one.
    fn take_rtt(
        &mut self,
        cx: &mut Cx<'_>,
        seg: &Segment,
        advanced: bool,
        prior_packets: u32,
        outcome: &AckOutcome,
    ) -> bool {
        if seg.arrival == Segment::ARRIVAL_UNKNOWN {
            // As Karn: a sample that may be of anything is none.
            return false;
        }
        let measured = outcome.first_sent.filter(|_| !outcome.retrans_acked).or(outcome.sack_sent);
        let rtt = match measured {
            Some(sent) => seg.arrival.since(sent).max(Duration::from_micros(1)),
            // A report of a duplicate was caused by it, but echoes what came before: if it moves
            // `snd_una`, an earlier acknowledgement was lost, and the age of its echo is no round trip.
            None if advanced && !is_duplicate_report(&seg.options.sack, seg.ack) => {
                match self.echo_age(seg.arrival, seg) {
                    Some(age) => age,
                    None => return false,
                }
            }
            None => return false,
        };
        let hot = &mut self.hot;
        hot.rtt.on_sample(rtt, hot.snd_una, hot.snd_nxt, cx.params.rto_min);
        let lone = outcome.delivered == 1 && prior_packets == 1;
        hot.rtt.on_min_rtt_sample(cx.now, rtt, lone);
        // RFC 6298 section 5.7: a valid sample ends the back-off.
        hot.rto = hot.rtt.rto(cx.params);
        if measured.is_some()
            && let Some(ext) = &mut self.ext
        {
            let sample = cc::RttSample {
                rtt,
                srtt: hot.rtt.srtt().unwrap_or(rtt),
                snd_mss: u32::from(hot.snd_mss),
                snd_una: hot.snd_una,
                snd_nxt: hot.snd_nxt,
                paced: false,
            };
            ext.cc.on_rtt_sample(cx, &sample);
        }
        true
    }

    /// What congestion control makes of what loss detection has found.
    pub(super) fn apply(&mut self, cx: &mut Cx<'_>, info: &AckInfo, change: &Change) {
        let Some(ext) = &mut self.ext else { return };
        cx.counters.delivered += u64::from(change.delivered);
        let marked = if info.ece { change.delivered } else { 0 };
        cx.counters.delivered_ce += u64::from(marked);
        cx.counters.lost_retransmit += u64::from(change.lost_retransmissions);
        match change.reordered {
            Some(Reordered::Sack) => cx.counters.sack_reorder += 1,
            Some(Reordered::Reno) => cx.counters.reno_reorder += 1,
            Some(Reordered::Timestamps) => cx.counters.ts_reorder += 1,
            None => {}
        }
        if let Some(extras) = &mut self.extras {
            let tally = &mut extras.tally;
            tally.delivered = tally.delivered.wrapping_add(change.delivered);
            tally.delivered_ce = tally.delivered_ce.wrapping_add(marked);
            tally.reord_seen = tally.reord_seen.wrapping_add(change.reordered.is_some().into());
        }
        match change.undo {
            Some(Undo::Dsack) => cx.counters.dsack_undo += 1,
            Some(Undo::Full) => cx.counters.full_undo += 1,
            Some(Undo::Partial) => cx.counters.partial_undo += 1,
            Some(Undo::Loss) => cx.counters.loss_undo += 1,
            Some(Undo::SpuriousRto) => {
                cx.counters.loss_undo += 1;
                cx.counters.spurious_rtos += 1;
            }
            None => {}
        }
        if change.delivered > 0 {
            ext.cc.on_delivered(&cc::Delivery {
                segs: change.delivered,
                marked,
                snd_una: info.snd_una,
                snd_nxt: info.snd_nxt,
            });
        }
        if change.undo.is_some() && change.restore {
            ext.cc.on_undo();
            self.hot.ecn.forget_cwr();
        } else if matches!(change.exit, Some(CaState::Recovery | CaState::Cwr)) {
            // RFC 9937 section 6.2: whatever the steps led to, this is where the reduction ends.
            ext.cc.set_cwnd(ext.cc.ssthresh());
        }
        if change.enter {
            if info.sack {
                cx.counters.sack_recovery += 1;
            } else {
                cx.counters.reno_recovery += 1;
            }
        }
        if let Some(signal) = change.reduce {
            ext.cc.on_congestion_event(cx, signal);
            if signal != Signal::LossAfterMark {
                ext.prr = Prr::default();
                self.hot.ecn.owe_cwr();
            }
            cx.counters.ecn_reductions += u64::from(signal == Signal::Mark);
        }
        if matches!(ext.recovery.ca_state(), CaState::Recovery | CaState::Cwr) {
            let step = Step {
                delivered: change.delivered,
                in_flight: ext.recovery.in_flight(),
                ssthresh: ext.cc.ssthresh(),
                prior_cwnd: ext.cc.prior_cwnd(),
                // RFC 3168 section 6.1.2: an echo is no reason to speed up.
                safe: info.advanced && !change.newly_lost && !info.ece,
            };
            if let Some(cwnd) = ext.prr.on_ack(&step) {
                ext.cc.set_cwnd(cwnd);
            }
            return;
        }
        // Where packets are reordered, selective acknowledgements are progress enough.
        let learned = ext.recovery.reordering() > cx.params.reordering;
        // RFC 3168 section 6.1.2: what brings an echo does not let the window grow.
        if change.delivered > 0 && (info.advanced || learned) && !info.ece {
            let ack = cc::Ack {
                acked: change.delivered,
                in_flight_max: ext.usage.packets_max(),
                cwnd_limited: ext.usage.limited(),
            };
            ext.cc.on_ack(cx, &ack);
        }
    }

    /// What became of a tail loss probe, RFC 8985 section 7.4.
    fn judge_loss_probe(
        &mut self,
        cx: &mut Cx<'_>,
        seg: &Segment,
        advanced: bool,
        window_changed: bool,
    ) {
        let Some(ext) = &mut self.ext else { return };
        let Some(end) = ext.tlp_end_seq.filter(|end| seg.ack.at_or_after(*end)) else { return };
        let blocks = &seg.options.sack;
        let bare = seg.len == 0 && blocks.is_empty() && !advanced && !window_changed;
        if !ext.tlp_is_retrans || is_duplicate_report(blocks, seg.ack) || bare && seg.ack == end {
            // New data, or both copies have arrived: nothing was lost.
            ext.tlp_end_seq = None;
        } else if seg.ack.after(end) {
            // One acknowledgement for two copies: the probe has repaired a loss.
            ext.tlp_end_seq = None;
            cx.counters.loss_probe_recovery += 1;
            ext.cc.on_congestion_event(cx, Signal::Loss);
            ext.cc.step_down();
            self.hot.ecn.owe_cwr();
        }
    }

    fn after_ack_timers(&mut self, cx: &Cx<'_>, progress: bool, sampled: bool) {
        let Some(ext) = &self.ext else { return };
        let Some(head) = ext.recovery.log.head() else {
            self.hot.timers.stop(Timer::Retransmit);
            self.hot.timers.stop(Timer::LossProbe);
            self.hot.flags.clear(Flags::RTO_UNSENT);
            return;
        };
        if head.marks.has(Marks::SACKED) {
            // RFC 2018 section 8: the peer holds what it does not acknowledge. Wait a little for it to
            // mend that, then send everything again.
            let patience =
                self.hot.rtt.srtt().map_or(RENEGING_DELAY, |srtt| (srtt / 2).max(RENEGING_DELAY));
            let at = (cx.now + patience)
                .min(self.hot.timers.get(Timer::Retransmit).unwrap_or(Instant::FAR_FUTURE));
            self.hot.timers.arm(Timer::Retransmit, at);
        } else if progress || sampled {
            let head_sent = head.sent;
            self.arm_rto(cx.now, head_sent);
            self.arm_loss_probe(cx.now, cx.params);
        }
    }

    /// RFC 6298 section 5.3, measured from when the head was sent.
    pub(super) fn arm_rto(&mut self, now: Instant, head_sent: Instant) {
        let at = (head_sent + self.hot.rto.get()).max(now + TIMER_MIN);
        let since = self.ext.as_ref().and_then(|ext| ext.waiting_since);
        let at = since.map_or(at, |since| self.limit_by_user_timeout(now, since, at));
        self.hot.timers.arm(Timer::Retransmit, at);
    }

    /// RFC 9293 section 3.10.7.4, fifth: what follows once our FIN is acknowledged.
    fn on_fin_acknowledged(&mut self, cx: &mut Cx<'_>) {
        let fin_acknowledged =
            self.hot.flags.has(Flags::FIN_QUEUED) && self.hot.snd_una == self.send_end();
        if fin_acknowledged {
            self.transit(cx, StateEvent::AckOfFin);
        }
    }
}

/// RFC 2883 section 4: the first block reports a duplicate if it lies below the acknowledgement or
/// inside the second block.
fn is_duplicate_report(blocks: &[(SeqNum, SeqNum)], ack: SeqNum) -> bool {
    let Some(&(start, end)) = blocks.first() else { return false };
    if start.before(ack) && end.at_or_before(ack) {
        return true;
    }
    blocks.get(1).is_some_and(|&(outer_start, outer_end)| {
        start.at_or_after(outer_start) && end.at_or_before(outer_end)
    })
}
