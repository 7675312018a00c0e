//! ECN and parameters of congestion control.

use super::{I32_MAX, to_u8, to_u16};
use crate::knobs::{Knob, Unit, Value};

pub(super) const ROWS: &[Knob] = &[
    Knob::int("net.ipv4.tcp_ecn", 0, 5, 2, Unit::None,
        "Explicit congestion notification, as accepted / as asked for: 0 no / no; 1 classic (RFC 3168) / classic; \
         2 classic / no; 3 accurate (RFC 9768) / accurate; 4 accurate / classic; 5 accurate / no. Linux \
         accepts and does not ask, because some paths drop a SYN that does. Accurate ECN is not there yet: 3 \
         and 4 act as 1, 5 as 2. DCTCP asks and accepts whatever this says. With 0 a congested queue can \
         only drop; with 1 a path that drops such a SYN costs a second unless tcp_ecn_fallback is off, and \
         then the connection.")
        .new_connections()
        .active(|p, v| p.tcp.ecn = to_u8(v.int()), |p| Value::Int(p.tcp.ecn.into())),
    Knob::switch("net.ipv4.tcp_ecn_fallback", 1,
        "Repeat a lost SYN without ECN, for paths that drop it. Off, such a path cannot be used with \
         tcp_ecn=1.")
        .new_connections()
        .active(|p, v| p.tcp.ecn_fallback = v.int() == 1, |p| Value::Int(p.tcp.ecn_fallback.into())),
    Knob::int("net.ipv4.tcp_ecn_option", 0, 3, 2, Unit::None,
        "When the option of accurate ECN is sent: 0 never, 1 as seldom as RFC 9768 allows, 2 whenever it fits \
         unless the handshake had to fall back, 3 even then."),
    Knob::int("net.ipv4.tcp_ecn_option_beacon", 0, 3, 3, Unit::Rounds,
        "Least number of such options per round trip with policy 2."),
    Knob::int("millrace.dctcp_shift_g", 0, 10, 4, Unit::Shift,
        "Gain of the estimate of DCTCP, 2^-n (RFC 8257). Small n follows every mark; large n reacts late.")
        .new_connections()
        .active(|p, v| p.tcp.dctcp_shift_g = to_u8(v.int()), |p| Value::Int(p.tcp.dctcp_shift_g.into())),
    Knob::int("millrace.dctcp_alpha_on_init", 0, 1024, 1024, Unit::Per1024,
        "First estimate of DCTCP: 1024 is careful, 0 trusts the path.")
        .new_connections()
        .active(|p, v| p.tcp.dctcp_alpha_on_init = to_u16(v.int()),
            |p| Value::Int(p.tcp.dctcp_alpha_on_init.into())),
    Knob::int("millrace.cubic_beta", 0, 1024, 717, Unit::Per1024,
        "What CUBIC keeps of its window after a loss: 717 is 0.7, RFC 9438."),
    Knob::int("millrace.cubic_bic_scale", 0, I32_MAX, 41, Unit::None,
        "The constant C of CUBIC in units of 10/1024: 41 is 0.4, RFC 9438."),
    Knob::switch("millrace.cubic_fast_convergence", 1,
        "A flow that lost twice in a row gives up more, so that newcomers get their share."),
    Knob::switch("millrace.cubic_tcp_friendliness", 1, "Never slower than Reno would be."),
    Knob::switch("millrace.cubic_hystart", 1, "Leave slow start before the queue overflows."),
    Knob::int("millrace.cubic_hystart_detect", 0, 3, 3, Unit::Bits,
        "What tells: 1 trains of ACKs, 2 rising delay."),
    Knob::int("millrace.cubic_hystart_low_window", 0, I32_MAX, 16, Unit::Segments,
        "Below this window slow start is not left early."),
    Knob::int("millrace.cubic_hystart_ack_delta_us", 0, I32_MAX, 2000, Unit::Microseconds,
        "ACKs closer together than this belong to one train."),
    Knob::int("millrace.cubic_initial_ssthresh", 0, I32_MAX, 0, Unit::Segments,
        "First slow-start threshold; 0 means none."),
];
