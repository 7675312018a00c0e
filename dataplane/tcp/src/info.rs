//! The snapshot of a connection, with the field names of Linux's `tcp_info`.

use core::time::Duration;

use crate::State;

/// A snapshot for people and tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of tcp_info")]
pub struct TcpInfo {
    pub state: State,
    /// Name of the congestion control.
    pub congestion: &'static str,
    pub snd_wscale: u8,
    pub rcv_wscale: u8,
    pub timestamps: bool,
    pub sack: bool,
    /// ECN is in force.
    pub ecn: bool,
    /// And the peer has sent something that may be marked.
    pub ecn_seen: bool,
    pub rto: Duration,
    pub backoff: u8,
    pub ato: Duration,
    /// Bytes of payload per segment sent.
    pub snd_mss: u32,
    pub rcv_mss: u32,
    pub advmss: u32,
    /// Path MTU in bytes as the engine sees it.
    pub pmtu: u32,
    /// Segments.
    pub snd_cwnd: u32,
    /// Segments; `u32::MAX` when never reduced.
    pub snd_ssthresh: u32,
    pub rtt: Duration,
    pub rttvar: Duration,
    pub min_rtt: Duration,
    /// Segments sent and not acknowledged.
    pub unacked: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    /// Segments retransmitted since the start.
    pub total_retrans: u64,
    pub reordering: u32,
    pub bytes_sent: u64,
    pub bytes_retrans: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segs_in: u64,
    pub segs_out: u64,
    pub notsent_bytes: u32,
    /// Peer's window, scaled, bytes.
    pub snd_wnd: u32,
    /// Window that we offer, bytes.
    pub rcv_wnd: u32,
    /// Receive buffer in bytes.
    pub rcvbuf: u32,
    /// Memory that the receive side holds, bytes.
    pub rcv_memory: u32,
    /// The window that the peer's segments have earned, bytes.
    pub rcv_ssthresh: u32,
    /// Round trip as the receiver sees it; zero: not known.
    pub rcv_rtt: Duration,
    /// Bytes that the application took in the best round trip.
    pub rcv_space: u32,
    /// Send buffer in bytes.
    pub sndbuf: u32,
    /// Bytes received in order that the application has not consumed.
    pub rcv_queue: u32,
    /// Bytes handed over by the application and not acknowledged.
    pub snd_queue: u32,
    /// Bytes out of order.
    pub rcv_ooo_bytes: u32,
    pub rto_count: u64,
    pub rehash: u32,
    /// As `tcpi_ca_state`: 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss.
    pub ca_state: u8,
    /// Timeouts since something was acknowledged.
    pub retransmits: u8,
    /// Probes of the window, or for keep-alive, that were not answered.
    pub probes: u8,
    /// Time with something to send, in all, and as far as the peer's window or the send buffer held it
    /// up. This and what follows is counted only with [`crate::ConnOptions::tally`].
    pub busy_time: Duration,
    pub rwnd_limited: Duration,
    pub sndbuf_limited: Duration,
    /// How long ago.
    pub last_data_sent: Duration,
    pub last_data_recv: Duration,
    pub last_ack_recv: Duration,
    pub data_segs_in: u32,
    pub data_segs_out: u32,
    /// Segments that have arrived as far as the peer told, the SYN included.
    pub delivered: u32,
    /// Of them, those whose acknowledgement echoed a mark.
    pub delivered_ce: u32,
    /// Bytes of payload per second as last measured; zero: not yet.
    pub delivery_rate: u64,
    /// The application had too little to send at that time, so the path may be faster.
    pub delivery_rate_app_limited: bool,
    pub dsack_dups: u32,
    pub reord_seen: u32,
    pub rcv_ooopack: u32,
    pub total_rto_recoveries: u16,
    pub total_rto_time: Duration,
    pub cc: CcInfo,
}

/// What only one congestion control knows, as of `TCP_CC_INFO`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CcInfo {
    /// It has nothing to say.
    #[default]
    Nothing,
    /// DCTCP, under the names of Linux.
    Dctcp {
        /// The last data that came in were marked.
        ce_state: bool,
        /// The estimate of the share of marked segments, 1/1024.
        alpha: u32,
        /// Bytes delivered in this observation window of which marks were echoed.
        ab_ecn: u32,
        /// Bytes delivered in it.
        ab_tot: u32,
    },
}
