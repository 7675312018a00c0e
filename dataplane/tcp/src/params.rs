//! The immutable parameters that a connection is opened with.
//!
//! A value that people set is a knob; `config` maps names to these fields.

use core::time::Duration;

use crate::UserTimeoutOption;

/// Which congestion control new connections use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CongestionAlgorithm {
    /// CUBIC, RFC 9438.
    #[default]
    Cubic,
    /// NewReno, RFC 5681 and RFC 6582.
    Reno,
    /// DCTCP, RFC 8257; NewReno on a connection whose peer does not grant ECN.
    Dctcp,
}

impl CongestionAlgorithm {
    /// All that exist, by the names of Linux.
    pub const ALL: [(&'static str, Self); 3] =
        [("cubic", Self::Cubic), ("reno", Self::Reno), ("dctcp", Self::Dctcp)];

    /// The name by which Linux knows it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
            Self::Dctcp => "dctcp",
        }
    }

    /// It lives on marks (RFC 8257 section 4.1: chosen on purpose), so its connections ask for ECN whatever `tcp_ecn` says.
    pub const fn needs_ecn(self) -> bool {
        matches!(self, Self::Dctcp)
    }
}

/// How the receive window grows: a whole receiver of its time, for comparison. `millrace.autotuning`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Autotuning {
    /// What followed until 2026: the cost of segments is learned, receiver round trips hold on to the
    /// least, what waits to be read does not count, holes are provided for, short paths damped.
    #[default]
    Modern,
    /// Before the series of 2017: growth in two steps, 32-bit arithmetic, the clamp from the window that was
    /// wanted; half of a buffer is window, receiver round trips drift.
    Legacy,
    /// The series of 2017: continuous growth, 64 bits, the clamp from the buffer that there is; all else as
    /// before it.
    Smooth,
}

impl Autotuning {
    /// All that exist, by the names of the knob.
    pub const ALL: [(&'static str, Self); 3] =
        [("modern", Self::Modern), ("legacy", Self::Legacy), ("smooth", Self::Smooth)];

    /// The name by which the knob knows it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Modern => "modern",
            Self::Legacy => "legacy",
            Self::Smooth => "smooth",
        }
    }
}

/// Parameters of the protocol; one immutable set with a generation, shared by many connections.
/// Defaults are those of the `linux` profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpParams {
    /// `tcp_rmem`: minimum, initial and largest receive buffer in bytes.
    pub rmem: [u32; 3],
    /// `tcp_wmem`: minimum, initial and largest send buffer in bytes.
    pub wmem: [u32; 3],
    /// `core.rmem_max`: cap for a receive buffer that the application asks for, bytes.
    pub rmem_max: u32,
    /// `core.wmem_max`: cap for a send buffer that the application asks for, bytes.
    pub wmem_max: u32,
    /// `tcp_moderate_rcvbuf`: the receive buffer grows by itself.
    pub moderate_rcvbuf: bool,
    /// `millrace.autotuning`: how it grows.
    pub autotuning: Autotuning,
    /// `tcp_rcvbuf_low_rtt`: below this round trip growth is damped.
    pub rcvbuf_low_rtt: Duration,
    /// `tcp_app_win`: the part of the window kept for the application's overhead is a 2^n-th; 31 is none.
    pub app_win: u8,
    /// `tcp_window_scaling`.
    pub window_scaling: bool,
    /// `tcp_timestamps` is not 0.
    pub timestamps: bool,
    /// `tcp_timestamps` is 1: a random offset per connection.
    pub timestamp_offset: bool,
    /// `millrace.require_timestamps`: with timestamps in force, drop segments without them, as RFC 7323
    /// section 3.2 says and Linux does not.
    pub require_timestamps: bool,
    /// `tcp_sack`.
    pub sack: bool,
    /// `tcp_dsack`.
    pub dsack: bool,
    /// `tcp_congestion_control`.
    pub congestion: CongestionAlgorithm,
    /// Initial congestion window in segments, RFC 6928 section 2 (route attribute `initcwnd`).
    pub initial_cwnd: u32,
    /// `tcp_slow_start_after_idle`.
    pub slow_start_after_idle: bool,
    /// `tcp_rto_min_us`: floor of the variance part of the RTO.
    pub rto_min: Duration,
    /// `tcp_rto_max_ms`: cap of the RTO.
    pub rto_max: Duration,
    /// RTO before the first sample, RFC 6298: 1 s.
    pub rto_initial: Duration,
    /// `tcp_reordering`: duplicate-ACK threshold in segments.
    pub reordering: u32,
    /// `tcp_max_reordering`.
    pub max_reordering: u32,
    /// `tcp_recovery`: bit 1 keeps the reordering window of RACK (RFC 8985) at its smallest, bit 2 ignores
    /// the duplicate threshold; RACK itself is always on with SACK.
    pub recovery: u8,
    /// `tcp_ecn`: 0 no ECN; 1, 3 and 4 asked for and granted; 2 and 5 granted. Accurate ECN, which 3 to 5
    /// prefer, is not there yet.
    pub ecn: u8,
    /// `tcp_ecn_fallback`: a SYN that is repeated does not ask for ECN any more.
    pub ecn_fallback: bool,
    /// `millrace.dctcp_shift_g`: gain of DCTCP's estimate, 2^-n.
    pub dctcp_shift_g: u8,
    /// `millrace.dctcp_alpha_on_init`: DCTCP's first estimate, 1/1024.
    pub dctcp_alpha_on_init: u16,
    /// `tcp_frto`: doubt timeouts, RFC 5682; 0 off, any other value on.
    pub frto: u8,
    /// `tcp_early_retrans`: tail loss probes, RFC 8985 section 7, at 3 and 4; off below.
    pub early_retrans: u8,
    /// `tcp_retries1`.
    pub retries1: u8,
    /// `tcp_retries2`.
    pub retries2: u8,
    /// `tcp_orphan_retries`; 0 acts as 8.
    pub orphan_retries: u8,
    /// `tcp_syn_retries`.
    pub syn_retries: u8,
    /// `tcp_syn_linear_timeouts`.
    pub syn_linear_timeouts: u8,
    /// `tcp_synack_retries`.
    pub synack_retries: u8,
    /// `tcp_abort_on_overflow`.
    pub abort_on_overflow: bool,
    /// `tcp_fin_timeout`: orphan FIN-WAIT-2 limit.
    pub fin_timeout: Duration,
    /// TIME-WAIT, 60 s as on Linux (RFC 9293 asks for 2 MSL).
    pub time_wait: Duration,
    /// `tcp_tw_reuse`: 0 no, 1 yes, 2 loopback only.
    pub tw_reuse: u8,
    /// `tcp_tw_reuse_delay`.
    pub tw_reuse_delay: Duration,
    /// `tcp_rfc1337`: ignore resets in TIME-WAIT.
    pub rfc1337: bool,
    /// `tcp_keepalive_time`: idle before the first probe.
    pub keepalive_time: Duration,
    /// `tcp_keepalive_intvl`: between probes.
    pub keepalive_interval: Duration,
    /// `tcp_keepalive_probes`.
    pub keepalive_probes: u8,
    /// `millrace.user_timeout_ms`: user timeout of connections for which the application sets none;
    /// zero is none.
    pub user_timeout: Duration,
    /// `millrace.user_timeout_option`, RFC 5482: 0 the option is neither heeded nor sent, 1 heeded, 2
    /// heeded and sent.
    pub user_timeout_option: u8,
    /// `millrace.user_timeout_limits_sec`: bounds of what a peer can make of our user timeout.
    pub user_timeout_limits: [Duration; 2],
    /// `tcp_invalid_ratelimit`: pause between ACKs for invalid segments.
    pub invalid_ratelimit: Duration,
    /// `tcp_challenge_ack_limit` per second and worker; `u32::MAX` is no limit.
    pub challenge_ack_limit: u32,
    /// `tcp_min_snd_mss`: lowest MSS ever used for sending, bytes.
    pub min_snd_mss: u16,
    /// `tcp_min_tso_segs`: floor of a super-segment, segments.
    pub min_tso_segs: u16,
    /// `tcp_tso_rtt_log`: what a super-segment may hold is added to its size on the shortest paths, and
    /// half as much for each `2^n` us that the least round trip is longer; 0 adds nothing.
    pub tso_rtt_log: u8,
    /// `tcp_pacing_ss_ratio`: rate of a flow in slow start as a share of `cwnd / srtt`, percent.
    pub pacing_ss_ratio: u16,
    /// `tcp_pacing_ca_ratio`: the same otherwise.
    pub pacing_ca_ratio: u16,
    /// `tcp_tso_win_divisor`.
    pub tso_win_divisor: u32,
    /// Longest delay of an acknowledgement: 200 ms; RFC 9293 allows 500 ms.
    pub delack_max: Duration,
    /// Shortest delay of an acknowledgement: 40 ms.
    pub delack_min: Duration,
    /// `tcp_notsent_lowat` in bytes.
    pub notsent_lowat: u32,
    /// `tcp_shrink_window`: reserved, always false today.
    pub shrink_window: bool,
}

impl Default for TcpParams {
    fn default() -> Self {
        Self {
            rmem: [4096, 131_072, 33_554_432],
            wmem: [4096, 16_384, 4_194_304],
            rmem_max: 4_194_304,
            wmem_max: 4_194_304,
            moderate_rcvbuf: true,
            autotuning: Autotuning::Modern,
            rcvbuf_low_rtt: Duration::from_millis(1),
            app_win: 31,
            window_scaling: true,
            timestamps: true,
            timestamp_offset: true,
            require_timestamps: false,
            sack: true,
            dsack: true,
            congestion: CongestionAlgorithm::Cubic,
            initial_cwnd: 10,
            slow_start_after_idle: true,
            rto_min: Duration::from_millis(200),
            rto_max: Duration::from_secs(120),
            rto_initial: Duration::from_secs(1),
            reordering: 3,
            max_reordering: 300,
            recovery: 1,
            ecn: 2,
            ecn_fallback: true,
            dctcp_shift_g: 4,
            dctcp_alpha_on_init: 1024,
            frto: 2,
            early_retrans: 3,
            retries1: 3,
            retries2: 15,
            orphan_retries: 0,
            syn_retries: 6,
            syn_linear_timeouts: 4,
            synack_retries: 5,
            abort_on_overflow: false,
            fin_timeout: Duration::from_secs(60),
            time_wait: Duration::from_secs(60),
            tw_reuse: 2,
            tw_reuse_delay: Duration::from_millis(1000),
            rfc1337: false,
            keepalive_time: Duration::from_secs(7200),
            keepalive_interval: Duration::from_secs(75),
            keepalive_probes: 9,
            user_timeout: Duration::ZERO,
            user_timeout_option: 0,
            user_timeout_limits: [Duration::from_secs(100), Duration::from_secs(3600)],
            invalid_ratelimit: Duration::from_millis(500),
            challenge_ack_limit: u32::MAX,
            min_snd_mss: 48,
            min_tso_segs: 2,
            tso_rtt_log: 9,
            pacing_ss_ratio: 200,
            pacing_ca_ratio: 120,
            tso_win_divisor: 3,
            delack_max: Duration::from_millis(200),
            delack_min: Duration::from_millis(40),
            notsent_lowat: u32::MAX,
            shrink_window: false,
        }
    }
}

impl TcpParams {
    /// The user timeout of a connection for which the application asks for `asked`.
    pub(crate) fn user_timeout_or(&self, asked: Option<Duration>) -> Option<Duration> {
        asked.or(Some(self.user_timeout)).filter(|timeout| !timeout.is_zero())
    }

    /// What to say of it to the peer, if anything.
    pub(crate) fn advertised_user_timeout(
        &self,
        asked: Option<Duration>,
    ) -> Option<UserTimeoutOption> {
        self.user_timeout_or(asked)
            .filter(|_| self.user_timeout_option >= 2)
            .and_then(UserTimeoutOption::of)
    }
}

/// What the stack knows of the path when a connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathParams {
    /// Largest IP packet towards the peer, bytes.
    pub mtu: u16,
    /// IP header bytes: 20 or 40.
    pub ip_header: u16,
    /// Payload bytes that one plan may carry at most (software or hardware segmentation).
    pub gso_max: u32,
    /// Initial send sequence number, RFC 6528.
    pub iss: u32,
    /// Offset of our timestamp clock.
    pub ts_offset: u32,
    /// First transmit hash.
    pub txhash: u32,
}

/// What an application may ask for, per connection or listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnOptions {
    /// `TCP_NODELAY`: no Nagle.
    pub nodelay: bool,
    /// `SO_RCVBUF` in bytes of window asked for; doubled and capped as on Linux, ends autotuning.
    pub rcvbuf: Option<u32>,
    /// `SO_SNDBUF`, likewise.
    pub sndbuf: Option<u32>,
    /// `TCP_MAXSEG` in bytes: bounds both directions.
    pub mss: Option<u16>,
    /// `TCP_CONGESTION`.
    pub congestion: Option<CongestionAlgorithm>,
    /// `SO_KEEPALIVE`.
    pub keepalive: bool,
    /// `TCP_KEEPIDLE` in seconds, instead of `tcp_keepalive_time`; at least one.
    pub keepalive_time_sec: Option<u16>,
    /// `TCP_KEEPINTVL` in seconds, instead of `tcp_keepalive_intvl`; at least one.
    pub keepalive_interval_sec: Option<u16>,
    /// `TCP_KEEPCNT`, instead of `tcp_keepalive_probes`; at least one.
    pub keepalive_probes: Option<u8>,
    /// `TCP_SYNCNT`: retransmissions of a SYN, instead of `tcp_syn_retries`.
    pub syn_retries: Option<u8>,
    /// `SO_LINGER` in seconds: what `close` leaves unacknowledged for so long ends with a reset; zero
    /// resets at once. `None`: it is sent for as long as the other timers allow.
    pub linger_sec: Option<u16>,
    /// `TCP_LINGER2` in seconds, at most 120: how long an orphan stays in FIN-WAIT-2, instead of
    /// `tcp_fin_timeout`.
    pub fin_timeout_sec: Option<u16>,
    /// `TCP_USER_TIMEOUT`, RFC 5482.
    pub user_timeout: Option<Duration>,
    /// `TCP_CORK`: a partial segment waits, for as long as a zero window would be waited for at most.
    pub cork: bool,
    /// `TCP_NOTSENT_LOWAT` in bytes, instead of `tcp_notsent_lowat`.
    pub notsent_lowat: Option<u32>,
    /// `TCP_WINDOW_CLAMP` in bytes: no larger window is offered.
    pub window_clamp: Option<u32>,
    /// Once we have closed our side, data that arrive reset the connection: what Linux makes of
    /// `shutdown` in both directions.
    pub refuse_text: bool,
    /// Count what only `TCP_INFO` shows. Costs memory.
    pub tally: bool,
    /// `IP_TOS` or `IPV6_TCLASS`; the two bits of ECN belong to the engine.
    pub tos: u8,
    /// `IP_TTL` or `IPV6_UNICAST_HOPS`, instead of `ip_default_ttl`.
    pub ttl: Option<u8>,
}

/// Longest stay of an orphan in FIN-WAIT-2 that an application can ask for, seconds.
pub const FIN_TIMEOUT_SEC_MAX: u16 = 120;
