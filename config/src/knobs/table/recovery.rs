//! Loss recovery and round-trip time.

use core::time::Duration;

use super::{I32_MAX, from_u128, to_u8, to_u32, to_u64};
use crate::knobs::{Knob, Unit, Value};

/// Segments in flight can hardly be more; it keeps products with an MSS within 32 bits.
const REORDERING_MAX: i64 = 65_535;

pub(super) const ROWS: &[Knob] = &[
    Knob::switch("net.ipv4.tcp_sack", 1,
        "Offer and use selective acknowledgements, RFC 2018. Off, each loss in a window costs a round trip \
         of its own. Only for comparisons.")
        .new_connections()
        .active(|p, v| p.tcp.sack = v.int() == 1, |p| Value::Int(p.tcp.sack.into())),
    Knob::switch("net.ipv4.tcp_dsack", 1,
        "Report duplicates that arrived, RFC 2883, so that the peer can undo needless reductions. Off hides \
         them from it.")
        .new_connections()
        .active(|p, v| p.tcp.dsack = v.int() == 1, |p| Value::Int(p.tcp.dsack.into())),
    Knob::switch("net.ipv4.tcp_fack", 0, "Forward acknowledgement; without effect in Linux since 2017."),
    Knob::int("net.ipv4.tcp_reordering", 1, REORDERING_MAX, 3, Unit::Segments,
        "Duplicate ACKs that count as a loss to begin with, RFC 5681. At 1 the least reordering causes \
         needless retransmission; high values wait for a timeout on short flows. (Linux takes any \
         number.)")
        .new_connections()
        .active(|p, v| p.tcp.reordering = to_u32(v.int()), |p| Value::Int(p.tcp.reordering.into())),
    Knob::int("net.ipv4.tcp_max_reordering", 1, REORDERING_MAX, 300, Unit::Segments,
        "How far the threshold may learn upwards on paths that reorder. 300 as Linux. Low, and such paths \
         look lossy; high, and a real loss is noticed late. (Linux takes any number.)")
        .new_connections()
        .active(|p, v| p.tcp.max_reordering = to_u32(v.int()),
            |p| Value::Int(p.tcp.max_reordering.into())),
    Knob::int("net.ipv4.tcp_recovery", 0, 7, 1, Unit::Bits,
        "Loss detection: 1 RACK (RFC 8985), 2 a fixed reordering window, 4 no short cut by duplicate \
         ACKs. RACK is on with SACK whatever bit 1 says. A fixed window retransmits sooner and is \
         deceived more often on paths that reorder.")
        .new_connections()
        .active(|p, v| p.tcp.recovery = to_u8(v.int()), |p| Value::Int(p.tcp.recovery.into())),
    Knob::int("net.ipv4.tcp_early_retrans", 0, 4, 3, Unit::None,
        "Tail loss probes (RFC 8985): 3 and 4 on, 0 to 2 off. Off, the loss of the last segments or of their \
         only acknowledgement costs a timeout.")
        .new_connections()
        .active(|p, v| p.tcp.early_retrans = to_u8(v.int()), |p| Value::Int(p.tcp.early_retrans.into())),
    Knob::int("net.ipv4.tcp_frto", 0, 255, 2, Unit::None,
        "Detect spurious timeouts, RFC 5682; 0 off. Off, a delay longer than the RTO costs the window and \
         needless retransmissions.")
        .new_connections()
        .active(|p, v| p.tcp.frto = to_u8(v.int()), |p| Value::Int(p.tcp.frto.into())),
    Knob::int("net.ipv4.tcp_retries1", 0, 255, 3, Unit::Count,
        "Timeouts in a row after which the path itself is doubted: the neighbour is asked again, and a \
         black hole is considered. RFC 9293 section 3.8.3 asks for at least 3.")
        .new_connections()
        .active(|p, v| p.tcp.retries1 = to_u8(v.int()), |p| Value::Int(p.tcp.retries1.into())),
    Knob::int("net.ipv4.tcp_retries2", 0, 255, 15, Unit::Count,
        "Timeouts in a row after which a connection is given up; 15 is 924.6 s at the least RTO. RFC 9293 \
         section 3.8.3 asks for at least 100 s. Low values break connections during a short outage; high \
         ones keep dead ones for hours.")
        .new_connections()
        .active(|p, v| p.tcp.retries2 = to_u8(v.int()), |p| Value::Int(p.tcp.retries2.into())),
    Knob::int("net.ipv4.tcp_orphan_retries", 0, 255, 0, Unit::Count,
        "The same for connections that the application has closed; 0 acts as 8. High values let vanished \
         peers hold memory.")
        .new_connections()
        .active(|p, v| p.tcp.orphan_retries = to_u8(v.int()),
            |p| Value::Int(p.tcp.orphan_retries.into())),
    Knob::int("net.ipv4.tcp_rto_min_us", 1, I32_MAX, 200_000, Unit::Microseconds,
        "Floor of the variance part of the RTO. RFC 6298 asks for an RTO of one second; Linux ships 200 ms, \
         above the delay of most delayed ACKs; 5 ms is common inside one data centre. Too low causes \
         needless timeouts when ACKs are delayed; too high makes each timeout a long silence. Not above \
         `tcp_rto_max_ms`.")
        .new_connections()
        .active(|p, v| p.tcp.rto_min = Duration::from_micros(to_u64(v.int())),
            |p| Value::Int(from_u128(p.tcp.rto_min.as_micros()))),
    Knob::int("net.ipv4.tcp_rto_max_ms", 1000, 120_000, 120_000, Unit::Milliseconds,
        "Cap of the RTO while it backs off. Two minutes as Linux; RFC 6298 allows 60 s and more. Low caps \
         notice sooner that a path is back, and send more into one that is not.")
        .new_connections()
        .active(|p, v| p.tcp.rto_max = Duration::from_millis(to_u64(v.int())),
            |p| Value::Int(from_u128(p.tcp.rto_max.as_millis()))),
    Knob::int("millrace.rto_initial_ms", 1, 60_000, 1000, Unit::Milliseconds,
        "RTO before the first measurement. One second, RFC 6298 section 2. Lower repeats the SYN needlessly \
         on long paths; higher makes each lost SYN a long wait. Not above `tcp_rto_max_ms`.")
        .new_connections()
        .active(|p, v| p.tcp.rto_initial = Duration::from_millis(to_u64(v.int())),
            |p| Value::Int(from_u128(p.tcp.rto_initial.as_millis()))),
    Knob::int("net.ipv4.tcp_min_rtt_wlen", 0, 86_400, 300, Unit::Seconds,
        "How long a smallest round-trip time counts. Short windows forget it during congestion; long ones \
         keep that of a path that has changed."),
    Knob::int("net.ipv4.tcp_invalid_ratelimit", 0, I32_MAX, 500, Unit::Milliseconds,
        "Pause between ACKs that answer invalid segments of a connection, so that two confused ends do not \
         answer each other for ever. At 0 they may; long pauses delay the repair of an honest mistake.")
        .new_connections()
        .active(|p, v| p.tcp.invalid_ratelimit = Duration::from_millis(to_u64(v.int())),
            |p| Value::Int(from_u128(p.tcp.invalid_ratelimit.as_millis()))),
    Knob::int("net.ipv4.tcp_pingpong_thresh", 1, 255, 1, Unit::Count,
        "Answers after which a connection counts as interactive and delays its ACKs."),
];
