//! Socket options, with the numbers and meanings of Linux.

mod get;
mod set;

use alloc::vec::Vec;
use core::time::Duration;

use stack::StackParams;
use tcp::ConnOptions;
use tcp::params::CongestionAlgorithm;

use crate::abi::*;

/// Smallest buffers that can be asked for, bytes: `SOCK_MIN_SNDBUF`, `SOCK_MIN_RCVBUF`.
const SNDBUF_MIN: u32 = 4608;
const RCVBUF_MIN: u32 = 2304;
/// Bounds of `TCP_MAXSEG`: `TCP_MIN_MSS`, `MAX_TCP_WINDOW`.
const MAXSEG: core::ops::RangeInclusive<i32> = 88..=32_767;
/// `MAX_TCP_KEEPIDLE`, `MAX_TCP_KEEPINTVL`.
const KEEP_SECONDS: core::ops::RangeInclusive<i32> = 1..=32_767;
/// `MAX_TCP_KEEPCNT`, `MAX_TCP_SYNCNT`.
const COUNT: core::ops::RangeInclusive<i32> = 1..=127;
/// `TCP_CA_NAME_MAX`.
const NAME_MAX: usize = 16;
/// `TCP_MSS_DEFAULT`.
const MSS_DEFAULT: u32 = 536;

/// Flags of IPv4 and of IPv6 that mean nothing here.
const KEPT_IP: [i32; 7] = [
    IP_TRANSPARENT,
    IP_RECVERR,
    IP_RECVTOS,
    IP_RECVTTL,
    IP_PKTINFO,
    IP_RECVOPTS,
    IP_BIND_ADDRESS_NO_PORT,
];
const KEPT_IPV6: [i32; 6] = [
    IPV6_TRANSPARENT,
    IPV6_RECVERR,
    IPV6_RECVTCLASS,
    IPV6_DONTFRAG,
    IPV6_AUTOFLOWLABEL,
    IPV6_FLOWINFO_SEND,
];

/// What has been set on a socket, or is so by default. Flags that mean nothing here are kept, so that
/// who sets one reads it back.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) reuseaddr: bool,
    pub(crate) reuseport: bool,
    /// As `getsockopt` shows it: doubled.
    sndbuf: Option<u32>,
    rcvbuf: Option<u32>,
    keepalive: bool,
    /// Seconds.
    pub(crate) linger: Option<u32>,
    /// The time while it is off.
    linger_time: i32,
    pub(crate) rcvlowat: i32,
    pub(crate) rcvtimeo: Option<Duration>,
    pub(crate) sndtimeo: Option<Duration>,
    mark: i32,
    priority: i32,
    txrehash: i32,
    max_pacing_rate: u64,
    /// Accepted only as zero.
    pub(crate) zerocopy: bool,

    nodelay: bool,
    pub(crate) cork: bool,
    /// `shutdown` has said that nothing is read any more.
    pub(crate) read_shut: bool,
    maxseg: Option<u16>,
    keepidle: Option<u16>,
    keepintvl: Option<u16>,
    keepcnt: Option<u8>,
    syncnt: Option<u8>,
    /// Seconds; negative: FIN-WAIT-2 is left at once.
    linger2: i32,
    /// Rounded up to what some number of SYN-ACK retransmissions takes.
    pub(crate) defer_accept_sec: u32,
    window_clamp: u32,
    congestion: CongestionAlgorithm,
    congestion_set: bool,
    user_timeout_ms: u32,
    /// Zero: the knob.
    notsent_lowat: u32,
    pub(crate) inq: bool,

    tos: u8,
    ttl: Option<u8>,
    mtu_discover: i32,
    pub(crate) freebind: bool,
    tclass: u8,
    hops: Option<u8>,
    mtu_discover6: i32,
    pub(crate) v6only: bool,

    /// Flags without effect that are set, by level and name.
    kept: Vec<((i32, i32), i32)>,
}

impl Options {
    /// Of a fresh socket.
    pub(crate) fn new(params: &StackParams) -> Self {
        Self {
            reuseaddr: false,
            reuseport: false,
            sndbuf: None,
            rcvbuf: None,
            keepalive: false,
            linger: None,
            linger_time: 0,
            rcvlowat: 1,
            rcvtimeo: None,
            sndtimeo: None,
            mark: 0,
            priority: 0,
            txrehash: 1,
            max_pacing_rate: u64::MAX,
            zerocopy: false,
            nodelay: false,
            cork: false,
            read_shut: false,
            maxseg: None,
            keepidle: None,
            keepintvl: None,
            keepcnt: None,
            syncnt: None,
            linger2: 0,
            defer_accept_sec: 0,
            window_clamp: 0,
            congestion: params.tcp.congestion,
            congestion_set: false,
            user_timeout_ms: 0,
            notsent_lowat: 0,
            inq: false,
            tos: 0,
            ttl: None,
            mtu_discover: IP_PMTUDISC_WANT,
            freebind: false,
            tclass: 0,
            hops: None,
            mtu_discover6: IP_PMTUDISC_WANT,
            v6only: false,
            kept: Vec::new(),
        }
    }

    /// What a connection inherits from its listener.
    pub(crate) fn inherited(&self) -> Self {
        Self { defer_accept_sec: 0, ..self.clone() }
    }

    /// What the engine is to know of it.
    /// `v6`: its packets are IPv6.
    pub(crate) fn for_connection(&self, v6: bool) -> ConnOptions {
        ConnOptions {
            nodelay: self.nodelay,
            // The engine doubles.
            rcvbuf: self.rcvbuf.map(|bytes| bytes / 2),
            sndbuf: self.sndbuf.map(|bytes| bytes / 2),
            mss: self.maxseg,
            congestion: self.congestion_set.then_some(self.congestion),
            keepalive: self.keepalive,
            keepalive_time_sec: self.keepidle,
            keepalive_interval_sec: self.keepintvl,
            keepalive_probes: self.keepcnt,
            syn_retries: self.syncnt,
            // A time to linger is how long `close` waits; only none at all is the engine's business.
            linger_sec: (self.linger == Some(0)).then_some(0),
            fin_timeout_sec: match self.linger2 {
                0 => None,
                seconds => Some(u16::try_from(seconds).unwrap_or(0)),
            },
            user_timeout: (self.user_timeout_ms != 0)
                .then(|| Duration::from_millis(self.user_timeout_ms.into())),
            cork: self.cork,
            notsent_lowat: (self.notsent_lowat != 0).then_some(self.notsent_lowat),
            window_clamp: (self.window_clamp != 0).then_some(self.window_clamp),
            refuse_text: self.read_shut,
            tally: true,
            tos: if v6 { self.tclass } else { self.tos },
            ttl: if v6 { self.hops } else { self.ttl },
        }
    }

    fn kept(&self, name: (i32, i32)) -> i32 {
        self.kept.iter().find(|(kept, _)| *kept == name).map_or(0, |(_, value)| *value)
    }

    fn keep(&mut self, name: (i32, i32), value: i32) {
        self.kept.retain(|(kept, _)| *kept != name);
        if value != 0 {
            self.kept.push((name, value));
        }
    }
}

/// Seconds that it takes to retransmit a SYN-ACK as often as needed to cover `seconds`: what
/// `TCP_DEFER_ACCEPT` makes of its argument. The timeout begins with one second and doubles up to
/// two minutes.
fn rounded_to_retransmissions(seconds: i32) -> u32 {
    let Ok(seconds) = u32::try_from(seconds) else { return 0 };
    if seconds == 0 {
        return 0;
    }
    let (mut period, mut timeout) = (1_u32, 1_u32);
    for _ in 0..u8::MAX {
        if period >= seconds {
            break;
        }
        timeout = (timeout * 2).min(120);
        period += timeout;
    }
    period
}
