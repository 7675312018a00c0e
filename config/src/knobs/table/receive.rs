//! Receive memory and window.

use core::time::Duration;

use tcp::Autotuning;

use super::{I32_MAX, from_u128, to_u8, to_u32, to_u64};
use crate::knobs::{Knob, Unit, Value};

pub(super) const ROWS: &[Knob] = &[
    Knob::vector("net.ipv4.tcp_rmem", 1, I32_MAX, &[4096, 131_072, 33_554_432], Unit::Bytes,
        "Receive buffer of a connection: what is granted even under pressure, where it begins, how far \
         autotuning may let it grow. 128 KiB to begin with gives a first window of 64 KiB; 32 MiB \
         carries 10 Gbit/s over 25 ms. A small maximum caps throughput at maximum / RTT; a large one lets \
         few slow readers hold all memory. The three must be in rising order.")
        .new_connections()
        .active(|p, v| p.tcp.rmem = [to_u32(v.at(0)), to_u32(v.at(1)), to_u32(v.at(2))],
            |p| Value::vector(&p.tcp.rmem.map(i64::from))),
    Knob::int("net.core.rmem_default", 2304, I32_MAX, 212_992, Unit::Bytes,
        "Receive buffer of sockets that are not TCP. There are none here."),
    Knob::int("net.core.rmem_max", 2304, I32_MAX, 4_194_304, Unit::Bytes,
        "Cap for a receive buffer that an application asks for (SO_RCVBUF). 4 MiB, as Linux since 2025. \
         Low caps silently limit applications that know their path; autotuning is not bound by it.")
        .new_connections()
        .active(|p, v| p.tcp.rmem_max = to_u32(v.int()), |p| Value::Int(p.tcp.rmem_max.into())),
    Knob::switch("net.ipv4.tcp_moderate_rcvbuf", 1,
        "The receive buffer grows with what the application reads per round trip. Off, every connection \
         stays at the middle value of `tcp_rmem`, which is too little for fast long paths.")
        .new_connections()
        .active(|p, v| p.tcp.moderate_rcvbuf = v.int() == 1,
            |p| Value::Int(p.tcp.moderate_rcvbuf.into())),
    Knob::choice("millrace.autotuning", &["modern", "legacy", "smooth"], "modern",
        "Which receiver lets its buffer grow: `modern` is that of Linux 6.19 and later; `legacy` that before \
         Linux 4.16, with growth in two steps and 32-bit arithmetic; `smooth` that of 4.16, with \
         continuous growth. The older two also take half of a buffer for window and let their round trip \
         drift, as they did. Only for comparisons: both waste memory and grow late.")
        .new_connections()
        .active(
            |p, v| {
                if let Some(&(_, variant)) = Autotuning::ALL.iter().find(|(name, _)| *name == v.text()) {
                    p.tcp.autotuning = variant;
                }
            },
            |p| Value::Text(p.tcp.autotuning.name().into()),
        ),
    Knob::int("net.ipv4.tcp_rcvbuf_low_rtt", 0, I32_MAX, 1000, Unit::Microseconds,
        "Below this round-trip time the receive buffer grows more slowly, since a short path needs \
         little and bursts there are noise. At 0 there is no damping; large values starve real \
         long paths.")
        .new_connections()
        .active(|p, v| p.tcp.rcvbuf_low_rtt = Duration::from_micros(to_u64(v.int())),
            |p| Value::Int(from_u128(p.tcp.rcvbuf_low_rtt.as_micros()))),
    Knob::int("net.ipv4.tcp_app_win", 0, 31, 31, Unit::Shift,
        "Part of the first window kept for the application's overhead: window / 2^n; 31 keeps none. Low \
         values leave less window for the same memory.")
        .new_connections()
        .active(|p, v| p.tcp.app_win = to_u8(v.int()), |p| Value::Int(p.tcp.app_win.into())),
    Knob::int("net.ipv4.tcp_adv_win_scale", -31, 31, 1, Unit::Shift,
        "Share of the buffer counted as overhead; without effect in Linux since 6.6."),
    Knob::switch("net.ipv4.tcp_shrink_window", 0,
        "The right edge of the offered window may move back under memory pressure. RFC 9293 discourages \
         it, and peers take data sent before as lost; here the edge never moves back."),
    Knob::switch("net.ipv4.tcp_window_scaling", 1,
        "Offer and accept window scaling, RFC 7323. Off, no window exceeds 64 KiB, that is 5 Mbit/s over \
         100 ms. Only to work around broken middleboxes.")
        .new_connections()
        .active(|p, v| p.tcp.window_scaling = v.int() == 1,
            |p| Value::Int(p.tcp.window_scaling.into())),
    Knob::switch("net.ipv4.tcp_workaround_signed_windows", 0,
        "Without window scaling, treat windows above 32767 as 32767, for peers that take the field as \
         signed. None are known today."),
    Knob::vector("net.ipv4.tcp_mem", 0, i64::MAX, &[49_152, 65_536, 98_304], Unit::Pages,
        "Low, pressure and high mark of all TCP memory. Linux derives it from the machine's memory (the \
         default here is that of 4 GiB); here `memory` and the buffer pools bound it."),
    Knob::int("net.ipv4.tcp_comp_sack_delay_ns", 0, i64::MAX, 1_000_000, Unit::Nanoseconds,
        "Longest delay by which SACKs are put together. 1 ms hides bursts of holes on fast paths; at 0 \
         every out-of-order segment is acknowledged; long delays slow down the sender's recovery."),
    Knob::int("net.ipv4.tcp_comp_sack_slack_ns", 0, i64::MAX, 10_000, Unit::Nanoseconds,
        "Slack of the timer for compressed SACKs: later, but together with others."),
    Knob::int("net.ipv4.tcp_comp_sack_nr", 0, 255, 44, Unit::Count,
        "SACKs put together at most; 0 turns compression off."),
    Knob::int("net.ipv4.tcp_comp_sack_rtt_percent", 1, 1000, 33, Unit::Percent,
        "Share of the round-trip time by which a SACK may be delayed. 33 since 2025, 5 before."),
    Knob::switch("net.ipv4.tcp_backlog_ack_defer", 1,
        "Delay the ACK until a whole backlog of segments has been processed."),
    Knob::switch("net.ipv4.tcp_purge_receive_queue", 0,
        "Drop data that the application has not read yet when a reset arrives."),
    Knob::int("millrace.delack_max_us", 1000, 500_000, 200_000, Unit::Microseconds,
        "Longest delay of an acknowledgement. 200 ms as Linux; RFC 9293 section 3.8.6.3 forbids 500 ms \
         and more. Long delays slow down request and response; at 1 ms there is hardly an ACK to save.")
        .new_connections()
        .active(|p, v| p.tcp.delack_max = Duration::from_micros(to_u64(v.int())),
            |p| Value::Int(from_u128(p.tcp.delack_max.as_micros()))),
    Knob::int("millrace.delack_min_us", 0, 500_000, 40_000, Unit::Microseconds,
        "Shortest delay of an acknowledgement; the delay moves between this and `delack_max_us` with the \
         rhythm of the peer. 40 ms as Linux. At 0 the delay may vanish, and with it the chance that a \
         response carries the ACK; not above `delack_max_us`.")
        .new_connections()
        .active(|p, v| p.tcp.delack_min = Duration::from_micros(to_u64(v.int())),
            |p| Value::Int(from_u128(p.tcp.delack_min.as_micros()))),
];
