//! `struct tcp_info`: what `TCP_INFO` returns.

use alloc::vec::Vec;
use core::time::Duration;

use tcp::{CcInfo, TcpInfo};

use crate::abi::*;
use crate::socket::state_number;

macro_rules! tcp_info {
    ($($name:ident: $type:ty,)+) => {
        /// The numbers of `struct tcp_info`, in its order, each as large as it is there. Bit fields have a
        /// number each and come together in [`LinuxTcpInfo::to_bytes`].
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the names are those of linux/tcp.h without the prefix")]
        pub struct LinuxTcpInfo {
            $(pub $name: $type,)+
        }

        impl LinuxTcpInfo {
            /// A number by its name in C, `tcpi_rtt` say.
            pub fn field(&self, name: &str) -> Option<u64> {
                let name = name.strip_prefix("tcpi_")?;
                match name {
                    $(stringify!($name) => Some(u64::from(self.$name)),)+
                    _ => None,
                }
            }

            /// The names in C, in order.
            pub fn names() -> impl Iterator<Item = &'static str> {
                [$(concat!("tcpi_", stringify!($name)),)+].into_iter()
            }
        }
    };
}

tcp_info! {
    state: u8,
    ca_state: u8,
    retransmits: u8,
    probes: u8,
    backoff: u8,
    options: u8,
    snd_wscale: u8,
    rcv_wscale: u8,
    delivery_rate_app_limited: u8,
    fastopen_client_fail: u8,
    rto: u32,
    ato: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,
    last_data_sent: u32,
    last_ack_sent: u32,
    last_data_recv: u32,
    last_ack_recv: u32,
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt: u32,
    rttvar: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt: u32,
    rcv_space: u32,
    total_retrans: u32,
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    delivery_rate: u64,
    busy_time: u64,
    rwnd_limited: u64,
    sndbuf_limited: u64,
    delivered: u32,
    delivered_ce: u32,
    bytes_sent: u64,
    bytes_retrans: u64,
    dsack_dups: u32,
    reord_seen: u32,
    rcv_ooopack: u32,
    snd_wnd: u32,
    rcv_wnd: u32,
    rehash: u32,
    total_rto: u16,
    total_rto_recoveries: u16,
    total_rto_time: u32,
    received_ce: u32,
    delivered_e1_bytes: u32,
    delivered_e0_bytes: u32,
    delivered_ce_bytes: u32,
    received_e1_bytes: u32,
    received_e0_bytes: u32,
    received_ce_bytes: u32,
    ecn_mode: u8,
    accecn_opt_seen: u8,
    accecn_fail_mode: u8,
}

/// Bytes of the structure.
pub const TCP_INFO_BYTES: usize = 280;
/// `TCP_INFINITE_SSTHRESH`.
const SSTHRESH_INFINITE: u32 = 0x7fff_ffff;

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

fn long_micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

fn small(n: u64) -> u32 {
    n as u32
}

impl LinuxTcpInfo {
    /// What the engine says, in the units of Linux.
    pub fn of(info: &TcpInfo) -> Self {
        let mut options = 0;
        if info.timestamps {
            options |= TCPI_OPT_TIMESTAMPS;
        }
        if info.sack {
            options |= TCPI_OPT_SACK;
        }
        if info.ecn {
            options |= TCPI_OPT_ECN;
        }
        if info.ecn_seen {
            options |= TCPI_OPT_ECN_SEEN;
        }
        if info.snd_wscale > 0 || info.rcv_wscale > 0 {
            options |= TCPI_OPT_WSCALE;
        }
        Self {
            state: state_number(info.state),
            ca_state: info.ca_state,
            retransmits: info.retransmits,
            probes: info.probes,
            backoff: info.backoff,
            options,
            snd_wscale: info.snd_wscale,
            rcv_wscale: info.rcv_wscale,
            rto: micros(info.rto),
            ato: micros(info.ato),
            snd_mss: info.snd_mss,
            rcv_mss: info.rcv_mss,
            unacked: info.unacked,
            sacked: info.sacked,
            lost: info.lost,
            retrans: info.retrans,
            last_data_sent: millis(info.last_data_sent),
            last_data_recv: millis(info.last_data_recv),
            last_ack_recv: millis(info.last_ack_recv),
            pmtu: info.pmtu,
            rcv_ssthresh: info.rcv_ssthresh,
            rcv_rtt: micros(info.rcv_rtt),
            rcv_space: info.rcv_space,
            rtt: micros(info.rtt),
            rttvar: micros(info.rttvar),
            snd_ssthresh: info.snd_ssthresh.min(SSTHRESH_INFINITE),
            snd_cwnd: info.snd_cwnd,
            advmss: info.advmss,
            reordering: info.reordering,
            total_retrans: small(info.total_retrans),
            pacing_rate: u64::MAX,
            max_pacing_rate: u64::MAX,
            bytes_acked: info.bytes_acked,
            bytes_received: info.bytes_received,
            segs_out: small(info.segs_out),
            segs_in: small(info.segs_in),
            notsent_bytes: info.notsent_bytes,
            // No sample yet is the largest number there.
            min_rtt: if info.min_rtt.is_zero() { u32::MAX } else { micros(info.min_rtt) },
            data_segs_in: info.data_segs_in,
            data_segs_out: info.data_segs_out,
            busy_time: long_micros(info.busy_time),
            rwnd_limited: long_micros(info.rwnd_limited),
            sndbuf_limited: long_micros(info.sndbuf_limited),
            delivered: info.delivered,
            delivered_ce: info.delivered_ce,
            delivery_rate: info.delivery_rate,
            delivery_rate_app_limited: info.delivery_rate_app_limited.into(),
            bytes_sent: info.bytes_sent,
            bytes_retrans: info.bytes_retrans,
            dsack_dups: info.dsack_dups,
            reord_seen: info.reord_seen,
            rcv_ooopack: info.rcv_ooopack,
            snd_wnd: info.snd_wnd,
            rcv_wnd: info.rcv_wnd,
            rehash: info.rehash,
            total_rto: u16::try_from(info.rto_count).unwrap_or(u16::MAX),
            total_rto_recoveries: info.total_rto_recoveries,
            total_rto_time: millis(info.total_rto_time),
            ecn_mode: u8::from(info.ecn),
            ..Self::default()
        }
    }

    /// Of a socket without a connection.
    pub(crate) fn idle(state: u8) -> Self {
        Self {
            state,
            rto: 1_000_000,
            snd_mss: 536,
            rcv_mss: 0,
            snd_cwnd: 10,
            snd_ssthresh: SSTHRESH_INFINITE,
            reordering: 3,
            pacing_rate: u64::MAX,
            max_pacing_rate: u64::MAX,
            min_rtt: u32::MAX,
            ..Self::default()
        }
    }

    /// The structure as it lies in memory.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Self {
            state,
            ca_state,
            retransmits,
            probes,
            backoff,
            options,
            snd_wscale,
            rcv_wscale,
            delivery_rate_app_limited,
            fastopen_client_fail,
            rto,
            ato,
            snd_mss,
            rcv_mss,
            unacked,
            sacked,
            lost,
            retrans,
            fackets,
            last_data_sent,
            last_ack_sent,
            last_data_recv,
            last_ack_recv,
            pmtu,
            rcv_ssthresh,
            rtt,
            rttvar,
            snd_ssthresh,
            snd_cwnd,
            advmss,
            reordering,
            rcv_rtt,
            rcv_space,
            total_retrans,
            pacing_rate,
            max_pacing_rate,
            bytes_acked,
            bytes_received,
            segs_out,
            segs_in,
            notsent_bytes,
            min_rtt,
            data_segs_in,
            data_segs_out,
            delivery_rate,
            busy_time,
            rwnd_limited,
            sndbuf_limited,
            delivered,
            delivered_ce,
            bytes_sent,
            bytes_retrans,
            dsack_dups,
            reord_seen,
            rcv_ooopack,
            snd_wnd,
            rcv_wnd,
            rehash,
            total_rto,
            total_rto_recoveries,
            total_rto_time,
            received_ce,
            delivered_e1_bytes,
            delivered_e0_bytes,
            delivered_ce_bytes,
            received_e1_bytes,
            received_e0_bytes,
            received_ce_bytes,
            ecn_mode,
            accecn_opt_seen,
            accecn_fail_mode,
        } = *self;
        let mut bytes = Vec::with_capacity(TCP_INFO_BYTES);
        bytes.extend([state, ca_state, retransmits, probes, backoff, options]);
        bytes.push((snd_wscale & 0xf) | rcv_wscale << 4);
        bytes.push((delivery_rate_app_limited & 1) | (fastopen_client_fail & 3) << 1);
        let longs = |bytes: &mut Vec<u8>, longs: &[u64]| {
            longs.iter().for_each(|long| bytes.extend(long.to_ne_bytes()));
        };
        words(&mut bytes, &[rto, ato, snd_mss, rcv_mss, unacked, sacked, lost, retrans, fackets]);
        words(&mut bytes, &[last_data_sent, last_ack_sent, last_data_recv, last_ack_recv]);
        words(&mut bytes, &[pmtu, rcv_ssthresh, rtt, rttvar, snd_ssthresh, snd_cwnd, advmss]);
        words(&mut bytes, &[reordering, rcv_rtt, rcv_space, total_retrans]);
        longs(&mut bytes, &[pacing_rate, max_pacing_rate, bytes_acked, bytes_received]);
        words(
            &mut bytes,
            &[segs_out, segs_in, notsent_bytes, min_rtt, data_segs_in, data_segs_out],
        );
        longs(&mut bytes, &[delivery_rate, busy_time, rwnd_limited, sndbuf_limited]);
        words(&mut bytes, &[delivered, delivered_ce]);
        longs(&mut bytes, &[bytes_sent, bytes_retrans]);
        words(&mut bytes, &[dsack_dups, reord_seen, rcv_ooopack, snd_wnd, rcv_wnd, rehash]);
        bytes.extend(total_rto.to_ne_bytes());
        bytes.extend(total_rto_recoveries.to_ne_bytes());
        words(&mut bytes, &[total_rto_time, received_ce]);
        words(&mut bytes, &[delivered_e1_bytes, delivered_e0_bytes, delivered_ce_bytes]);
        words(&mut bytes, &[received_e1_bytes, received_e0_bytes, received_ce_bytes]);
        let ecn = u32::from(ecn_mode & 3)
            | u32::from(accecn_opt_seen & 3) << 2
            | u32::from(accecn_fail_mode & 0xf) << 4;
        words(&mut bytes, &[ecn]);
        debug_assert_eq!(bytes.len(), TCP_INFO_BYTES);
        bytes
    }
}

fn words(bytes: &mut Vec<u8>, words: &[u32]) {
    words.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
}

/// `union tcp_cc_info` as it lies in memory; nothing of a congestion control that has nothing to say.
pub fn cc_info_bytes(info: &CcInfo) -> Vec<u8> {
    let mut bytes = Vec::new();
    match *info {
        CcInfo::Nothing => {}
        CcInfo::Dctcp { ce_state, alpha, ab_ecn, ab_tot } => {
            // dctcp_enabled: a connection on which it is not has another congestion control here.
            bytes.extend(1u16.to_ne_bytes());
            bytes.extend(u16::from(ce_state).to_ne_bytes());
            words(&mut bytes, &[alpha, ab_ecn, ab_tot]);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_dctcp_says_lies_where_linux_has_it() {
        let info = CcInfo::Dctcp { ce_state: true, alpha: 1024, ab_ecn: 1460, ab_tot: 2920 };
        let bytes = cc_info_bytes(&info);
        let half = |at: usize| u16::from_ne_bytes(bytes[at..at + 2].try_into().unwrap());
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!(bytes.len(), 16);
        assert_eq!((half(0), half(2), word(4), word(8), word(12)), (1, 1, 1024, 1460, 2920));
        assert!(cc_info_bytes(&CcInfo::Nothing).is_empty());
    }

    #[test]
    fn fields_lie_where_linux_has_them() {
        let info = LinuxTcpInfo {
            state: 1,
            snd_wscale: 7,
            rcv_wscale: 8,
            rto: 0x0102_0304,
            pmtu: 1500,
            bytes_acked: 99,
            total_rto: 3,
            rcv_wnd: 77,
            accecn_fail_mode: 5,
            ..LinuxTcpInfo::default()
        };
        let bytes = info.to_bytes();
        assert_eq!(bytes.len(), TCP_INFO_BYTES);
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!((bytes[0], bytes[6]), (1, 0x87));
        assert_eq!((word(8), word(60), word(120), word(232)), (0x0102_0304, 1500, 99, 77));
        assert_eq!((word(240), word(276)), (3, 5 << 4));
        assert_eq!(info.field("tcpi_pmtu"), Some(1500));
        assert_eq!(info.field("pmtu"), None);
        assert_eq!(LinuxTcpInfo::names().filter(|name| info.field(name).is_none()).count(), 0);
    }
}
