//! What a connection tells about itself.

use core::time::Duration;

use super::{Connection, Flags};
use crate::cc::CongestionControl;
use crate::params::CongestionAlgorithm;
use crate::recovery::CaState;
use crate::send::Quiet;
use crate::{CcInfo, CloseReason, Cx, SeqNum, State, TcpInfo, TimeWait, TimeWaitSeed};

impl Connection {
    /// The state.
    pub fn state(&self) -> State {
        self.hot.state
    }

    /// Oldest unacknowledged sequence number of *data*: send storage below it may be freed. Never
    /// beyond the last data byte (a FIN occupies no storage).
    pub fn snd_una(&self) -> SeqNum {
        self.hot.snd_una.earlier(self.hot.write_seq)
    }

    /// The sequence number that the next byte handed to [`Connection::send`] gets.
    pub fn write_seq(&self) -> SeqNum {
        self.hot.write_seq
    }

    /// Next sequence number expected, counting data only (a FIN occupies no storage).
    pub fn rcv_nxt(&self) -> SeqNum {
        if self.hot.flags.has(Flags::FIN_TAKEN) {
            self.hot.rcv_nxt.sub(1)
        } else {
            self.hot.rcv_nxt
        }
    }

    /// Whether `seq` is in flight: for the check of ICMP errors, RFC 5927 section 4.1.
    pub fn in_flight(&self, seq: SeqNum) -> bool {
        seq.at_or_after(self.hot.snd_una) && seq.before(self.hot.snd_nxt)
    }

    /// Payload bytes per segment at present.
    pub fn snd_mss(&self) -> u32 {
        u32::from(self.hot.snd_mss)
    }

    /// Why the connection ended, once it has.
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.warm.close_reason
    }

    /// Why the last [`Connection::poll_transmit`] had nothing to say.
    pub fn quiet(&self) -> Quiet {
        self.hot.quiet
    }

    /// Whether the network reported the peer unreachable since it was last heard of: the error that
    /// a timeout should show.
    pub fn is_unreachable(&self) -> bool {
        self.hot.flags.has(Flags::SOFT_ERROR)
    }

    /// The snapshot.
    pub fn info(&self, cx: &Cx<'_>) -> TcpInfo {
        let (hot, warm) = (&self.hot, &self.warm);
        let ext = self.ext.as_deref();
        let log = ext.map(|ext| &ext.recovery.log);
        let tally = self.extras.as_ref().map(|extras| extras.tally);
        let rate = log.map_or_else(|| tally.and_then(|tally| tally.rate), |log| log.rate.last());
        let [busy_time, rwnd_limited, sndbuf_limited] =
            tally.map_or([Duration::ZERO; 3], |tally| tally.times(cx.now));
        TcpInfo {
            state: hot.state,
            congestion: warm.algorithm.name(),
            snd_wscale: hot.snd_wscale.get(),
            rcv_wscale: hot.rcv_wscale.get(),
            timestamps: hot.flags.has(Flags::TIMESTAMPS),
            sack: hot.flags.has(Flags::SACK),
            ecn: hot.ecn.is_on(),
            ecn_seen: hot.ecn.is_seen(),
            rto: hot.rto.get(),
            backoff: hot.rto.backoff().max(warm.persist_backoff),
            ato: hot.pace.ato(),
            snd_mss: u32::from(hot.snd_mss),
            rcv_mss: u32::from(hot.rcv_mss),
            advmss: u32::from(warm.advmss),
            pmtu: u32::from(warm.mtu),
            snd_cwnd: ext.map_or(warm.saved_cwnd, |ext| ext.cc.cwnd()),
            snd_ssthresh: ext.map_or(warm.saved_ssthresh, |ext| ext.cc.ssthresh()),
            rtt: hot.rtt.srtt().unwrap_or(Duration::ZERO),
            rttvar: hot.rtt.mdev(),
            min_rtt: hot.rtt.min_rtt().unwrap_or(Duration::ZERO),
            unacked: log.map_or(0, |log| log.packets_out()),
            sacked: ext.map_or(0, |ext| ext.recovery.sacked_out()),
            lost: log.map_or(0, |log| log.lost_out()),
            retrans: log.map_or(0, |log| log.retrans_out()),
            total_retrans: u64::from(warm.total_retrans),
            reordering: ext.map_or(cx.params.reordering, |ext| ext.recovery.reordering()),
            bytes_sent: warm.bytes_sent,
            bytes_retrans: warm.bytes_retrans,
            bytes_acked: warm.bytes_acked,
            bytes_received: warm.bytes_received,
            segs_in: u64::from(warm.segs_in),
            segs_out: u64::from(warm.segs_out),
            notsent_bytes: hot.write_seq.bytes_since(hot.snd_nxt),
            snd_wnd: hot.snd_wnd,
            rcv_wnd: self.receive_window(),
            rcvbuf: warm.space.rcvbuf,
            rcv_memory: warm.space.rmem_alloc,
            rcv_ssthresh: warm.space.rcv_ssthresh,
            rcv_rtt: ext.map_or(Duration::ZERO, |ext| ext.autotune.rtt()),
            rcv_space: ext.map_or(warm.saved_rcvq_space, |ext| ext.autotune.space()),
            sndbuf: warm.sndbuf,
            rcv_queue: self.rcv_nxt().bytes_since(hot.copied_seq),
            snd_queue: hot.write_seq.bytes_since(hot.snd_una),
            rcv_ooo_bytes: ext.map_or(0, |ext| ext.assembler.bytes()),
            rto_count: u64::from(warm.rto_count),
            rehash: 0,
            ca_state: match ext.map(|ext| ext.recovery.ca_state()) {
                None | Some(CaState::Open) => 0,
                Some(CaState::Disorder) => 1,
                Some(CaState::Cwr) => 2,
                Some(CaState::Recovery) => 3,
                Some(CaState::Loss) => 4,
            },
            retransmits: tally.map_or(hot.rto.backoff(), |tally| tally.retransmits),
            probes: warm.probes_out,
            busy_time,
            rwnd_limited,
            sndbuf_limited,
            last_data_sent: cx.now.since(
                tally.map_or(ext.map_or(cx.now, |ext| ext.last_sent), |tally| tally.last_data_sent),
            ),
            last_data_recv: cx
                .now
                .since(tally.map_or(hot.pace.last_data(), |tally| tally.last_data_recv)),
            last_ack_recv: cx.now.since(warm.last_rcv),
            data_segs_in: tally.map_or(0, |tally| tally.data_segs_in),
            data_segs_out: tally.map_or(0, |tally| tally.data_segs_out),
            delivered: tally.map_or(0, |tally| tally.delivered),
            delivered_ce: tally.map_or(0, |tally| tally.delivered_ce),
            delivery_rate: rate.map_or(0, |rate| rate.per_second(u32::from(hot.snd_mss))),
            delivery_rate_app_limited: rate.is_some_and(|rate| rate.app_limited),
            dsack_dups: tally.map_or(0, |tally| tally.dsack_dups),
            reord_seen: tally.map_or(0, |tally| tally.reord_seen),
            rcv_ooopack: tally.map_or(0, |tally| tally.rcv_ooopack),
            total_rto_recoveries: tally.map_or(0, |tally| tally.rto_recoveries),
            total_rto_time: tally.map_or(Duration::ZERO, |tally| tally.rto_time),
            cc: self.cc_info(cx),
        }
    }

    fn cc_info(&self, cx: &Cx<'_>) -> CcInfo {
        if self.warm.algorithm != CongestionAlgorithm::Dctcp {
            return CcInfo::Nothing;
        }
        let ce_state = self.hot.ecn.is_marked();
        let mss = u32::from(self.hot.snd_mss);
        match self.ext.as_deref().map(|ext| &ext.cc) {
            Some(CongestionControl::Dctcp(dctcp)) => {
                let [marked, all] = dctcp.window_so_far().map(|segs| segs.saturating_mul(mss));
                CcInfo::Dctcp { ce_state, alpha: dctcp.alpha(), ab_ecn: marked, ab_tot: all }
            }
            // It begins anew with the next data.
            _ => {
                let alpha = u32::from(cx.params.dctcp_alpha_on_init);
                CcInfo::Dctcp { ce_state, alpha, ab_ecn: 0, ab_tot: 0 }
            }
        }
    }

    /// The record to keep after [`crate::Event::Closed`] with `time_wait`.
    pub fn time_wait(&self, cx: &Cx<'_>) -> TimeWait {
        let hot = &self.hot;
        let timestamps = hot.flags.has(Flags::TIMESTAMPS);
        let age_ms = (cx.now.as_millis() as u32).wrapping_sub(hot.ts_recent_ms);
        let taken_at = cx.now - Duration::from_millis(u64::from(age_ms));
        let seed = TimeWaitSeed {
            snd_nxt: hot.snd_nxt,
            rcv_nxt: hot.rcv_nxt,
            rcv_wnd: hot.rcv_wscale.raw(self.receive_window()),
            ts_recent: timestamps.then_some((hot.ts_recent, taken_at)),
            ts_offset: hot.ts_offset,
            txhash: self.warm.txhash,
        };
        TimeWait::new(cx, seed)
    }
}
