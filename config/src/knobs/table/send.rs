//! Sending.

use super::{I32_MAX, I32_MIN, U32_MAX, to_u8, to_u16, to_u32};
use crate::knobs::{Knob, Preset, TextForm, Unit, Value};
use tcp::params::CongestionAlgorithm;

/// The names that exist, from the engine's own list.
const CONGESTION: [&str; CongestionAlgorithm::ALL.len()] = {
    let mut names = [""; CongestionAlgorithm::ALL.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = CongestionAlgorithm::ALL[i].0;
        i += 1;
    }
    names
};

pub(super) const ROWS: &[Knob] = &[
    Knob::vector("net.ipv4.tcp_wmem", 1, I32_MAX, &[4096, 16_384, 4_194_304], Unit::Bytes,
        "Send buffer of a connection: what is granted even under pressure, where it begins, how far it \
         may grow. 16 KiB to begin with suits requests; 4 MiB carries 1 Gbit/s over 30 ms. A small \
         maximum caps throughput at maximum / RTT; a large one lets stuck peers hold memory. The three \
         must be in rising order.")
        .new_connections()
        .active(|p, v| p.tcp.wmem = [to_u32(v.at(0)), to_u32(v.at(1)), to_u32(v.at(2))],
            |p| Value::vector(&p.tcp.wmem.map(i64::from))),
    Knob::int("net.core.wmem_default", 4608, I32_MAX, 212_992, Unit::Bytes,
        "Send buffer of sockets that are not TCP. There are none here."),
    Knob::int("net.core.wmem_max", 4608, I32_MAX, 4_194_304, Unit::Bytes,
        "Cap for a send buffer that an application asks for (SO_SNDBUF). 4 MiB, as Linux since 2025. Low \
         caps silently limit applications that know their path.")
        .new_connections()
        .active(|p, v| p.tcp.wmem_max = to_u32(v.int()), |p| Value::Int(p.tcp.wmem_max.into())),
    Knob::int("net.ipv4.tcp_notsent_lowat", 0, U32_MAX, U32_MAX, Unit::Bytes,
        "A connection with more unsent bytes than this is not writable. 128 KiB is still in the core's \
         cache when it is sent, and keeps data fresh in the application; Linux never holds back. Very \
         low values leave the sender idle between wake-ups.")
        .millrace(Preset::Int(131_072))
        .new_connections()
        .active(|p, v| p.tcp.notsent_lowat = to_u32(v.int()),
            |p| Value::Int(p.tcp.notsent_lowat.into())),
    Knob::int("net.ipv4.tcp_limit_output_bytes", I32_MIN, I32_MAX, 4_194_304, Unit::Bytes,
        "Bytes of one connection in the queues of the device at most. 4 MiB since 2025, 1 MiB before."),
    Knob::switch("net.ipv4.tcp_autocorking", 1,
        "Put small writes together while earlier ones still wait in the device."),
    Knob::int("net.ipv4.tcp_tso_win_divisor", 0, I32_MAX, 3, Unit::Ratio,
        "One super-segment takes at most this part of the congestion window. A third keeps the ACK clock \
         ticking; at 1 the window leaves as one burst; at 0 there is no limit; large numbers give small \
         plans and more work per byte.")
        .new_connections()
        .active(|p, v| p.tcp.tso_win_divisor = to_u32(v.int()),
            |p| Value::Int(p.tcp.tso_win_divisor.into())),
    Knob::int("net.ipv4.tcp_min_tso_segs", 1, 65_535, 2, Unit::Segments,
        "Least size of a super-segment at low pacing rates. Two, so that a delayed ACK answers it at once. \
         High values make slow connections bursty.")
        .new_connections()
        .active(|p, v| p.tcp.min_tso_segs = to_u16(v.int()),
            |p| Value::Int(p.tcp.min_tso_segs.into())),
    Knob::int("net.ipv4.tcp_tso_rtt_log", 0, 255, 9, Unit::Shift,
        "Super-segments are whole on paths with a round-trip time below 2^n microseconds, and shrink to \
         what the rate asks for as it grows; 0 leaves it to the rate. High values make bursts on long \
         paths.")
        .new_connections()
        .active(|p, v| p.tcp.tso_rtt_log = to_u8(v.int()),
            |p| Value::Int(p.tcp.tso_rtt_log.into())),
    Knob::int("net.ipv4.tcp_pacing_ss_ratio", 0, 1000, 200, Unit::Percent,
        "Rate in slow start as a share of cwnd / srtt. It sizes super-segments so that each holds a \
         millisecond's worth; transmission itself is not paced. 200 leaves room for doubling; low values make \
         more and smaller plans; very large ones make whole ones.")
        .new_connections()
        .active(|p, v| p.tcp.pacing_ss_ratio = to_u16(v.int()),
            |p| Value::Int(p.tcp.pacing_ss_ratio.into())),
    Knob::int("net.ipv4.tcp_pacing_ca_ratio", 0, 1000, 120, Unit::Percent,
        "The same rate otherwise, as a share of cwnd / srtt. Low values make more and smaller super-segments, \
         high ones bursts.")
        .new_connections()
        .active(|p, v| p.tcp.pacing_ca_ratio = to_u16(v.int()),
            |p| Value::Int(p.tcp.pacing_ca_ratio.into())),
    Knob::switch("net.ipv4.tcp_slow_start_after_idle", 1,
        "After an idle time of one RTO the congestion window falls back, RFC 2861. On protects paths whose \
         state has changed meanwhile; off helps applications that send in bursts on private paths.")
        .new_connections()
        .active(|p, v| p.tcp.slow_start_after_idle = v.int() == 1,
            |p| Value::Int(p.tcp.slow_start_after_idle.into())),
    Knob::int("millrace.initial_cwnd", 1, 1000, 10, Unit::Segments,
        "Initial congestion window (route attribute `initcwnd` of Linux). RFC 6928 allows 10. At 1 every \
         small answer takes more round trips; hundreds overrun small queues at the first burst.")
        .new_connections()
        .active(|p, v| p.tcp.initial_cwnd = to_u32(v.int()),
            |p| Value::Int(p.tcp.initial_cwnd.into())),
    Knob::switch("net.ipv4.tcp_retrans_collapse", 1,
        "Merge small segments when they are sent again. Plans are made from ranges here, so this is how \
         it always works."),
    Knob::switch("net.ipv4.tcp_thin_linear_timeouts", 0,
        "Do not double the RTO for connections with few segments in flight."),
    Knob::choice("net.ipv4.tcp_congestion_control", &CONGESTION, "cubic",
        "Congestion control of new connections. CUBIC (RFC 9438) is what most of the Internet runs; `reno` \
         is the textbook's, slow on long fat paths. `dctcp` (RFC 8257) keeps queues short where every queue \
         on the path marks at a low threshold, asks for ECN whatever tcp_ecn says, and is unfair to others \
         elsewhere: for one's own data centre.")
        .new_connections()
        .active(
            |p, v| {
                let known = CongestionAlgorithm::ALL.iter().find(|(name, _)| *name == v.text());
                if let Some((_, algorithm)) = known {
                    p.tcp.congestion = *algorithm;
                }
            },
            |p| Value::Text(p.tcp.congestion.name().into())),
    Knob::text("net.ipv4.tcp_available_congestion_control", TextForm::Names, "cubic reno dctcp",
        "The congestion controls that exist.").read_only(),
    Knob::text("net.ipv4.tcp_allowed_congestion_control", TextForm::Names, "reno cubic",
        "The congestion controls that unprivileged users may choose. There are no users here."),
    Knob::switch("net.ipv4.tcp_no_metrics_save", 0,
        "Do not remember what was learned of a path when a connection closes. Nothing is remembered yet."),
    Knob::switch("net.ipv4.tcp_no_ssthresh_metrics_save", 1,
        "Do not remember the slow-start threshold of a path."),
    Knob::switch("net.ipv4.tcp_reflect_tos", 0, "A SYN-ACK carries the traffic class of the SYN."),
    Knob::text("net.core.default_qdisc", TextForm::Names, "pfifo_fast",
        "Queueing discipline of new devices on Linux. There is none here."),
];
