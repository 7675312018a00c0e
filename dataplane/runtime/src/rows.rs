//! Connections as JSON, under their `tcp_info` names with units.

use std::net::SocketAddr;

use serde_json::{Value, json};
use stack::ConnRow;
use tcp::CcInfo;

/// State words as `ss` prints them.
fn state_word(state: tcp::State) -> &'static str {
    use tcp::State as S;
    match state {
        S::Closed => "UNCONN",
        S::Listen => "LISTEN",
        S::SynSent => "SYN-SENT",
        S::SynReceived => "SYN-RECV",
        S::Established => "ESTAB",
        S::FinWait1 => "FIN-WAIT-1",
        S::FinWait2 => "FIN-WAIT-2",
        S::CloseWait => "CLOSE-WAIT",
        S::Closing => "CLOSING",
        S::LastAck => "LAST-ACK",
        S::TimeWait => "TIME-WAIT",
    }
}

/// An end as `ss` writes it: `*` for all addresses of both families, and for any port.
fn end(addr: SocketAddr) -> String {
    match (addr.ip().is_unspecified(), addr.port()) {
        (false, _) => addr.to_string(),
        (true, 0) => "*:*".to_owned(),
        (true, port) => format!("*:{port}"),
    }
}

/// A connection of `worker`. `port`: the name of the one by which it sends.
pub(crate) fn connection(worker: usize, port: Option<&str>, row: &ConnRow) -> Value {
    let mut v = json!({
        "state": state_word(row.state),
        "recv_q": row.recv_queue,
        "send_q": row.send_queue,
        "local": end(row.local),
        "peer": end(row.remote),
        "worker": worker,
        "port": port,
    });
    if let Some(i) = &row.info {
        let us = |d: std::time::Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
        v["info"] = json!({
            "congestion": i.congestion,
            "timestamps": i.timestamps,
            "sack": i.sack,
            "ecn": i.ecn,
            "ecn_seen": i.ecn_seen,
            "snd_wscale": i.snd_wscale,
            "rcv_wscale": i.rcv_wscale,
            "rto_us": us(i.rto),
            "backoff": i.backoff,
            "rtt_us": us(i.rtt),
            "rttvar_us": us(i.rttvar),
            "min_rtt_us": us(i.min_rtt),
            "ato_us": us(i.ato),
            "mss_bytes": i.snd_mss,
            "pmtu_bytes": i.pmtu,
            "rcvmss_bytes": i.rcv_mss,
            "advmss_bytes": i.advmss,
            "cwnd_segs": i.snd_cwnd,
            "ssthresh_segs": (i.snd_ssthresh != u32::MAX).then_some(i.snd_ssthresh),
            "bytes_sent": i.bytes_sent,
            "bytes_retrans": i.bytes_retrans,
            "bytes_acked": i.bytes_acked,
            "bytes_received": i.bytes_received,
            "segs_out": i.segs_out,
            "segs_in": i.segs_in,
            "unacked_segs": i.unacked,
            "retrans_segs": i.retrans,
            "total_retrans_segs": i.total_retrans,
            "lost_segs": i.lost,
            "sacked_segs": i.sacked,
            "reordering": i.reordering,
            "notsent_bytes": i.notsent_bytes,
            "snd_wnd_bytes": i.snd_wnd,
            "rcv_wnd_bytes": i.rcv_wnd,
            "rcvbuf_bytes": i.rcvbuf,
            "sndbuf_bytes": i.sndbuf,
            "rcv_ooo_bytes": i.rcv_ooo_bytes,
            "rto_count": i.rto_count,
            "rehash": i.rehash,
        });
        if let CcInfo::Dctcp { ce_state, alpha, ab_ecn, ab_tot } = i.cc {
            v["info"]["dctcp"] = json!({
                "ce_state": u8::from(ce_state),
                "alpha_per_1024": alpha,
                "ab_ecn_bytes": ab_ecn,
                "ab_tot_bytes": ab_tot,
            });
        }
    }
    v
}
