//! Counters of the protocol by their MIB names (RFC 4022 and Linux's TcpExt).

use base::{Instant, Random};

/// `tcp_challenge_ack_limit`: challenge acknowledgements of one worker in the present second.
///
/// The real limit of each second is drawn between half and one and a half times the configured one,
/// because a constant one tells a stranger whether his guesses were answered (CVE-2016-5696).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChallengeLimit {
    second: u64,
    left: u32,
}

impl ChallengeLimit {
    /// Whether one more may be sent; `u32::MAX` is no limit.
    pub(crate) fn take(&mut self, now: Instant, limit: u32, random: &mut dyn Random) -> bool {
        if limit == u32::MAX {
            return true;
        }
        // Seconds count from one, so that the first one is told from "never".
        let second = now.as_millis() / 1000 + 1;
        if second != self.second {
            self.second = second;
            // The draw stays secret.
            let spread = (u64::from(limit) * (random.secret() >> 32)) >> 32;
            self.left = (u64::from(limit / 2) + spread).min(u64::from(u32::MAX)) as u32;
        }
        let granted = self.left > 0;
        self.left = self.left.saturating_sub(1);
        granted
    }
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $field:ident => $name:literal,)+) => {
        /// Plain integers, owned by one worker. Names follow the MIB.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct TcpCounters {
            $($(#[doc = $doc])+ pub $field: u64,)+
            /// The limit that one of the counters is subject to; no counter itself.
            pub(crate) challenges: ChallengeLimit,
        }

        impl TcpCounters {
            /// Name (as `nstat` prints it, with its group) and value of each.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$(($name, self.$field),)+].into_iter()
            }

            /// Add another worker's counters.
            pub fn add(&mut self, other: &Self) {
                $(self.$field += other.$field;)+
            }
        }
    };
}

counters! {
    /// Connections opened by us.
    active_opens => "TcpActiveOpens",
    /// Connections opened by peers.
    passive_opens => "TcpPassiveOpens",
    /// Attempts that failed in SYN-SENT or SYN-RECEIVED.
    attempt_fails => "TcpAttemptFails",
    /// Connections that went from ESTABLISHED or CLOSE-WAIT directly to CLOSED.
    estab_resets => "TcpEstabResets",
    /// Connections in ESTABLISHED or CLOSE-WAIT now (a gauge).
    curr_estab => "TcpCurrEstab",
    /// Segments received.
    in_segs => "TcpInSegs",
    /// Segments sent, retransmissions excluded.
    out_segs => "TcpOutSegs",
    /// Segments retransmitted.
    retrans_segs => "TcpRetransSegs",
    /// Segments received in error.
    in_errs => "TcpInErrs",
    /// Resets sent.
    out_rsts => "TcpOutRsts",
    /// Segments with a wrong checksum.
    in_csum_errors => "TcpInCsumErrors",
    /// Resets received in SYN-RECEIVED.
    embryonic_rsts => "TcpExtEmbryonicRsts",
    /// Connections that went to TIME-WAIT.
    tw => "TcpExtTW",
    /// TIME-WAIT records reused by a new connection.
    tw_recycled => "TcpExtTWRecycled",
    /// TIME-WAIT records ended early by a reset.
    tw_killed => "TcpExtTWKilled",
    /// TIME-WAIT records not kept because of their limit.
    time_wait_overflow => "TcpExtTCPTimeWaitOverflow",
    /// Segments refused by PAWS in SYN-SENT.
    paws_active => "TcpExtPAWSActive",
    /// Segments refused by PAWS in synchronised states.
    paws_estab => "TcpExtPAWSEstab",
    /// Old pure ACKs refused by PAWS.
    paws_old_ack => "TcpExtPAWSOldAck",
    /// Data beyond the live window.
    beyond_window => "TcpExtBeyondWindow",
    /// Acknowledgements sent by the delayed-ACK timer.
    delayed_acks => "TcpExtDelayedACKs",
    /// Duplicate segments that show our ACK was lost or late.
    delayed_ack_lost => "TcpExtDelayedACKLost",
    /// Final ACKs that found the accept queue full.
    listen_overflows => "TcpExtListenOverflows",
    /// SYNs and final ACKs dropped by a listener.
    listen_drops => "TcpExtListenDrops",
    /// Data segments taken by the fast path.
    hp_hits => "TcpExtTCPHPHits",
    /// Pure acknowledgements taken by the slow path.
    pure_acks => "TcpExtTCPPureAcks",
    /// Pure acknowledgements taken by the fast path.
    hp_acks => "TcpExtTCPHPAcks",
    /// Recoveries entered without SACK.
    reno_recovery => "TcpExtTCPRenoRecovery",
    /// Recoveries entered with SACK.
    sack_recovery => "TcpExtTCPSackRecovery",
    /// Peers that withdrew what they had selectively acknowledged.
    sack_reneging => "TcpExtTCPSACKReneging",
    /// Reordering found by SACK.
    sack_reorder => "TcpExtTCPSACKReorder",
    /// Reordering found without SACK.
    reno_reorder => "TcpExtTCPRenoReorder",
    /// Reordering found by timestamps.
    ts_reorder => "TcpExtTCPTSReorder",
    /// Recoveries undone at their end.
    full_undo => "TcpExtTCPFullUndo",
    /// Recoveries undone by a partial acknowledgement.
    partial_undo => "TcpExtTCPPartialUndo",
    /// Recoveries undone because all retransmissions were reported as duplicates.
    dsack_undo => "TcpExtTCPDSACKUndo",
    /// Timeouts undone.
    loss_undo => "TcpExtTCPLossUndo",
    /// Timeouts that came too soon, found by F-RTO.
    spurious_rtos => "TcpExtTCPSpuriousRTOs",
    /// Timeouts in fast recovery with SACK.
    sack_recovery_fail => "TcpExtTCPSackRecoveryFail",
    /// Timeouts in fast recovery without SACK.
    reno_recovery_fail => "TcpExtTCPRenoRecoveryFail",
    /// Timeouts in Disorder with SACK.
    sack_failures => "TcpExtTCPSackFailures",
    /// Timeouts in Disorder without SACK.
    reno_failures => "TcpExtTCPRenoFailures",
    /// Timeouts after a timeout.
    loss_failures => "TcpExtTCPLossFailures",
    /// Retransmissions found lost.
    lost_retransmit => "TcpExtTCPLostRetransmit",
    /// Segments retransmitted in fast recovery.
    fast_retrans => "TcpExtTCPFastRetrans",
    /// Segments retransmitted in Loss, in slow start.
    slow_start_retrans => "TcpExtTCPSlowStartRetrans",
    /// Retransmission timeouts.
    timeouts => "TcpExtTCPTimeouts",
    /// Tail loss probes sent.
    loss_probes => "TcpExtTCPLossProbes",
    /// Losses that a tail loss probe repaired.
    loss_probe_recovery => "TcpExtTCPLossProbeRecovery",
    /// DSACKs sent for old duplicates.
    dsack_old_sent => "TcpExtTCPDSACKOldSent",
    /// DSACKs sent for duplicates out of order.
    dsack_ofo_sent => "TcpExtTCPDSACKOfoSent",
    /// DSACKs received.
    dsack_recv => "TcpExtTCPDSACKRecv",
    /// DSACKs received for data out of order.
    dsack_ofo_recv => "TcpExtTCPDSACKOfoRecv",
    /// Segments that DSACKs received told of.
    dsack_recv_segs => "TcpExtTCPDSACKRecvSegs",
    /// DSACKs older than the recovery that could be undone.
    dsack_ignored_old => "TcpExtTCPDSACKIgnoredOld",
    /// DSACKs without a recovery that could be undone.
    dsack_ignored_no_undo => "TcpExtTCPDSACKIgnoredNoUndo",
    /// DSACKs of more than was ever retransmitted.
    dsack_ignored_dubious => "TcpExtTCPDSACKIgnoredDubious",
    /// SACK blocks that made no sense.
    sack_discard => "TcpExtTCPSACKDiscard",
    /// Connections reset because data came after the application had closed.
    abort_on_data => "TcpExtTCPAbortOnData",
    /// Connections reset because the application closed with data unread.
    abort_on_close => "TcpExtTCPAbortOnClose",
    /// Connections given up by a timer.
    abort_on_timeout => "TcpExtTCPAbortOnTimeout",
    /// Connections aborted by the application.
    abort_on_linger => "TcpExtTCPAbortOnLinger",
    /// Connections given up for lack of memory.
    abort_on_memory => "TcpExtTCPAbortOnMemory",
    /// Data segments queued out of order.
    ofo_queue => "TcpExtTCPOFOQueue",
    /// Data segments out of order dropped for lack of room.
    ofo_drop => "TcpExtTCPOFODrop",
    /// Data out of order that overlapped what was there.
    ofo_merge => "TcpExtTCPOFOMerge",
    /// In-order data dropped for lack of memory.
    rcv_q_drop => "TcpExtTCPRcvQDrop",
    /// Small segments whose payload was put behind the one before (counted by the stack).
    rcv_coalesce => "TcpExtTCPRcvCoalesce",
    /// Other segments whose payload was, because memory was short (counted by the stack).
    rcv_collapsed => "TcpExtTCPRcvCollapsed",
    /// A segment arrived for a connection that held more memory than it may.
    prune_called => "TcpExtPruneCalled",
    /// Data beyond a hole were given up for it.
    ofo_pruned => "TcpExtOfoPruned",
    /// It was discarded all the same.
    rcv_pruned => "TcpExtRcvPruned",
    /// Data dropped at a zero window.
    zero_window_drop => "TcpExtTCPZeroWindowDrop",
    /// Challenge ACKs sent, RFC 5961.
    challenge_ack => "TcpExtTCPChallengeACK",
    /// SYNs in synchronised states.
    syn_challenge => "TcpExtTCPSYNChallenge",
    /// ACKs for invalid segments not sent because of the rate limit.
    ack_skipped => "TcpExtTCPACKSkippedSeq",
    /// Window advertised rose from zero.
    from_zero_window_adv => "TcpExtTCPFromZeroWindowAdv",
    /// Window advertised fell to zero.
    to_zero_window_adv => "TcpExtTCPToZeroWindowAdv",
    /// SYNs and SYN-ACKs retransmitted.
    syn_retrans => "TcpExtTCPSynRetrans",
    /// Data segments sent for the first time.
    orig_data_sent => "TcpExtTCPOrigDataSent",
    /// Window probes sent.
    win_probe => "TcpExtTCPWinProbe",
    /// Keep-alive probes sent.
    keep_alive => "TcpExtTCPKeepAlive",
    /// Segments delivered to peers.
    delivered => "TcpExtTCPDelivered",
    /// Segments delivered whose acknowledgement echoed a mark.
    delivered_ce => "TcpExtTCPDeliveredCE",
    /// Reductions of a window because of an echoed mark.
    ecn_reductions => "MillraceEcnReductions",
    /// The device refused a segment that was planned.
    retrans_fail => "TcpExtTCPRetransFail",
    /// HyStart ended slow start because of an ACK train.
    hystart_train_detect => "TcpExtTCPHystartTrainDetect",
    /// HyStart ended slow start because of delay.
    hystart_delay_detect => "TcpExtTCPHystartDelayDetect",
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::SeededRandom;

    #[test]
    fn challenges_of_a_second_are_between_half_and_one_and_a_half() {
        let mut random = SeededRandom::new(3);
        let mut limit = ChallengeLimit::default();
        let mut seen = (u32::MAX, 0);
        for second in 0..200 {
            let now = Instant::from_millis(second * 1000 + 5);
            let sent = (0..1000).filter(|_| limit.take(now, 100, &mut random)).count() as u32;
            seen = (seen.0.min(sent), seen.1.max(sent));
        }
        assert!(seen.0 >= 50 && seen.1 < 150, "{seen:?}");
        assert!(seen.0 < 60 && seen.1 > 140, "{seen:?}: it is drawn");
        let now = Instant::from_millis(1_000_000);
        assert!((0..1000).all(|_| limit.take(now, u32::MAX, &mut random)), "no limit");
        assert!(!limit.take(now, 0, &mut random), "none at all");
    }
}
