//! Closing, keep-alive and limits.

use core::time::Duration;

use super::{I32_MAX, I32_MIN, U32_MAX, from_u128, to_u8, to_u32, to_u64};
use crate::knobs::{Knob, Preset, Unit, Value};

pub(super) const ROWS: &[Knob] = &[
    Knob::int("net.ipv4.tcp_fin_timeout", 0, I32_MAX, 60, Unit::Seconds,
        "How long a closed connection waits for the peer's FIN in FIN-WAIT-2. RFC 9293 knows no limit; one \
         minute as Linux. Short times reset peers that still send; long ones let vanished peers hold \
         memory.")
        .new_connections()
        .active(|p, v| p.tcp.fin_timeout = Duration::from_secs(to_u64(v.int())),
            |p| Value::Int(from_u128(p.tcp.fin_timeout.as_secs().into()))),
    Knob::int("millrace.time_wait_sec", 1, 240, 60, Unit::Seconds,
        "How long TIME-WAIT lasts. RFC 9293 says twice the maximum segment lifetime, four minutes; Linux has \
         one minute fixed. Short times let old segments hit new connections with the same ports; long \
         ones use up ports and records.")
        .new_connections()
        .active(|p, v| p.tcp.time_wait = Duration::from_secs(to_u64(v.int())),
            |p| Value::Int(from_u128(p.tcp.time_wait.as_secs().into()))),
    Knob::int("net.ipv4.tcp_tw_reuse", 0, 2, 2, Unit::None,
        "Connecting may take over ports in TIME-WAIT: 0 no, 1 yes, 2 over loopback only. Timestamps make it \
         safe (RFC 6191), and clients with many short connections need it, so the profile `millrace` \
         has 1. At 0 or 2 they run out of ports.")
        .millrace(Preset::Int(1))
        .active(|p, v| p.tcp.tw_reuse = to_u8(v.int()), |p| Value::Int(p.tcp.tw_reuse.into())),
    Knob::int("net.ipv4.tcp_tw_reuse_delay", 1, 60_000, 1000, Unit::Milliseconds,
        "Least age of the last timestamp before ports in TIME-WAIT may be taken over. One second covers the \
         coarsest timestamp clock that RFC 7323 allows; shorter relies on finer clocks; at a minute \
         nothing is left to reuse.")
        .active(|p, v| p.tcp.tw_reuse_delay = Duration::from_millis(to_u64(v.int())),
            |p| Value::Int(from_u128(p.tcp.tw_reuse_delay.as_millis()))),
    Knob::int("net.ipv4.tcp_max_tw_buckets", 0, 1 << 24, 16_384, Unit::Count,
        "TIME-WAIT records of one worker at most (also `time_wait` in `[limits]`); beyond it connections end \
         without TIME-WAIT. At 0 none have it; records cost 64 bytes each, reserved at start. (Linux takes any number.)")
        .limit(|l, v| l.time_wait = to_u32(v.int()), |l| Value::Int(l.time_wait.into())),
    Knob::switch("net.ipv4.tcp_rfc1337", 0,
        "Ignore resets in TIME-WAIT, RFC 1337. On prevents that an old duplicate ends it early; off frees \
         records sooner.")
        .active(|p, v| p.tcp.rfc1337 = v.int() == 1, |p| Value::Int(p.tcp.rfc1337.into())),
    Knob::int("net.ipv4.tcp_max_orphans", 0, I32_MAX, 16_384, Unit::Count,
        "Closed connections of one worker that still have data to send or wait for the peer's FIN, at most; \
         one more is reset. At 0 none may: every close that is not complete at once is a reset. (Linux takes \
         negative numbers too.)")
        .active(|p, v| p.max_orphans = to_u32(v.int()), |p| Value::Int(p.max_orphans.into())),
    Knob::int("net.ipv4.tcp_keepalive_time", 1, 32_767, 7200, Unit::Seconds,
        "Idle time before the first keep-alive probe, for connections that ask for it. RFC 9293 section \
         3.8.4 asks for two hours at least. Short times cost packets and radio energy; long ones let \
         firewalls forget the connection.")
        .new_connections()
        .active(|p, v| p.tcp.keepalive_time = Duration::from_secs(to_u64(v.int())),
            |p| Value::Int(from_u128(p.tcp.keepalive_time.as_secs().into()))),
    Knob::int("net.ipv4.tcp_keepalive_intvl", 1, 32_767, 75, Unit::Seconds,
        "Time between keep-alive probes. With `tcp_keepalive_probes` it decides how long an outage may last.")
        .new_connections()
        .active(|p, v| p.tcp.keepalive_interval = Duration::from_secs(to_u64(v.int())),
            |p| Value::Int(from_u128(p.tcp.keepalive_interval.as_secs().into()))),
    Knob::int("net.ipv4.tcp_keepalive_probes", 1, 127, 9, Unit::Count,
        "Keep-alive probes without an answer that end a connection. At 1 a single lost packet does.")
        .new_connections()
        .active(|p, v| p.tcp.keepalive_probes = to_u8(v.int()),
            |p| Value::Int(p.tcp.keepalive_probes.into())),
    Knob::int("millrace.user_timeout_ms", 0, I32_MAX, 0, Unit::Milliseconds,
        "User timeout (`TCP_USER_TIMEOUT`) of connections for which the application sets none: how long data \
         may stay unacknowledged, and connecting may take. At 0 there is none, and `tcp_retries2` \
         decides. Short times end connections in outages that they would survive.")
        .new_connections()
        .active(|p, v| p.tcp.user_timeout = Duration::from_millis(to_u64(v.int())),
            |p| Value::Int(from_u128(p.tcp.user_timeout.as_millis()))),
    Knob::int("millrace.user_timeout_option", 0, 2, 0, Unit::None,
        "The User Timeout Option, RFC 5482: 0 is neither heeded nor sent, 1 is heeded where the application \
         has set no user timeout, 2 is sent too. Off by default as the RFC says: heeding lets peers make us \
         keep state for longer.")
        .new_connections()
        .active(|p, v| p.tcp.user_timeout_option = to_u8(v.int()),
            |p| Value::Int(p.tcp.user_timeout_option.into())),
    Knob::vector("millrace.user_timeout_limits_sec", 1, I32_MAX, &[100, 3600], Unit::Seconds,
        "What a peer's User Timeout Option can make of our user timeout, at least and at most. RFC 9293 \
         section 3.8.3 asks for 100 s at least; a high upper limit lets peers that are gone hold memory.")
        .new_connections()
        .active(
            |p, v| p.tcp.user_timeout_limits =
                [0, 1].map(|i| Duration::from_secs(to_u64(v.at(i)))),
            |p| {
                let [low, high] = p.tcp.user_timeout_limits;
                let secs = |d: Duration| from_u128(d.as_secs().into());
                Value::vector(&[secs(low), secs(high)])
            }),
    Knob::switch("net.ipv4.tcp_stdurg", 0,
        "The urgent pointer means the last urgent byte (RFC 1122), not the one after it. Urgent data are \
         delivered in line here."),
    Knob::int("net.ipv4.tcp_challenge_ack_limit", 0, I32_MAX, I32_MAX, Unit::PerSecond,
        "Challenge ACKs of a worker, RFC 5961; the largest number is no limit, and the default, since a \
         global limit lets an attacker learn about other connections. At 0 none is sent, and honest \
         mistakes are not repaired.")
        .new_connections()
        .active(
            |p, v| p.tcp.challenge_ack_limit =
                if v.int() == I32_MAX { u32::MAX } else { to_u32(v.int()) },
            |p| Value::Int(i64::from(p.tcp.challenge_ack_limit).min(I32_MAX))),
    Knob::switch("net.ipv4.tcp_l3mdev_accept", 0, "Listeners accept from all routing domains."),
    Knob::switch("net.ipv4.tcp_fwmark_accept", 0, "Accepted connections take over the mark of the SYN."),
    Knob::switch("net.ipv4.fwmark_reflect", 0, "Answers without a socket take over the mark of the packet."),
    Knob::switch("net.ipv4.tcp_early_demux", 1, "Find the connection before the route. Always so here."),
    Knob::int("net.core.netdev_max_backlog", I32_MIN, I32_MAX, 1000, Unit::Count,
        "Packets waiting between driver and stack. There is no such queue here."),
    Knob::int("net.core.busy_poll", 0, U32_MAX, 0, Unit::Microseconds,
        "Busy polling in poll and select. Workers poll always; see `idle`."),
    Knob::int("net.core.busy_read", 0, U32_MAX, 0, Unit::Microseconds, "Busy polling in reads."),
    Knob::int("net.core.optmem_max", I32_MIN, I32_MAX, 131_072, Unit::Bytes,
        "Buffers for control messages of a socket."),
    Knob::int("net.ipv4.icmp_ratelimit", 0, I32_MAX, 1000, Unit::Milliseconds,
        "Least time between ICMP errors to one destination. At 0 there is no limit and we may be used to \
         flood somebody; long pauses hide real errors from peers.")
        .active(|p, v| p.icmp_ratelimit = Duration::from_millis(to_u64(v.int())),
            |p| Value::Int(from_u128(p.icmp_ratelimit.as_millis()))),
    Knob::int("net.ipv4.icmp_msgs_per_sec", 0, I32_MAX, 10_000, Unit::PerSecond,
        "ICMP messages of a worker to all destinations. At 0 none is sent.")
        .active(|p, v| p.icmp_msgs_per_sec = to_u32(v.int()),
            |p| Value::Int(p.icmp_msgs_per_sec.into())),
    Knob::int("net.ipv4.icmp_msgs_burst", 0, I32_MAX, 10_000, Unit::Count,
        "ICMP messages that may leave at once."),
    Knob::int("net.ipv4.neigh.default.base_reachable_time_ms", 1000, 3_600_000, 30_000, Unit::Milliseconds,
        "How long a neighbour counts as reachable after a sign of life, RFC 4861. 30 s. Short times ask \
         often; long ones send into the void after a neighbour has moved. Both families.")
        .active(|p, v| p.neighbor_reachable = Duration::from_millis(to_u64(v.int())),
            |p| Value::Int(from_u128(p.neighbor_reachable.as_millis()))),
];
