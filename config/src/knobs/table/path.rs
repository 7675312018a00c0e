//! Path selection.

use super::U32_MAX;
use crate::knobs::{Knob, Preset, Unit};

pub(super) const ROWS: &[Knob] = &[
    Knob::switch("net.core.txrehash", 1,
        "A connection may change its transmit hash, and with it its path behind equal-cost routers. Off, \
         a connection on a dead path stays there until it dies."),
    Knob::choice("millrace.rehash_policy", &["off", "linux", "source", "auto"], "linux",
        "When the transmit hash changes: `off` never, `linux` at the triggers of Linux, `source` by \
         `tcp_retrans_txhash_prob` and `_mode`, `auto` by our own evidence. The profile `millrace` uses \
         `auto`, which moves away from bad paths and not from busy ones.")
        .millrace(Preset::Text("auto")),
    Knob::int("net.ipv4.tcp_retrans_txhash_prob", 0, 100, 0, Unit::Percent,
        "Chance of a new hash at a first retransmission that no timeout caused. Only the policy `source` \
         reads it. High values reorder connections that merely see congestion."),
    Knob::int("net.ipv4.tcp_retrans_txhash_mode", 0, super::I32_MAX, 0, Unit::None,
        "A new hash after a timeout: 0 no, above 0 always. Only the policy `source` reads it."),
    Knob::switch("net.ipv4.tcp_plb_enabled", 0, "Protective load balancing: change path when ECN says that it is congested."),
    Knob::int("net.ipv4.tcp_plb_idle_rehash_rounds", 0, 31, 3, Unit::Rounds,
        "Congested rounds before a change of path when the connection is idle."),
    Knob::int("net.ipv4.tcp_plb_rehash_rounds", 0, 31, 12, Unit::Rounds,
        "Congested rounds before a change of path when it is busy."),
    Knob::int("net.ipv4.tcp_plb_suspend_rto_sec", 0, 255, 60, Unit::Seconds,
        "Pause after a timeout, once to twice this long, so that not all connections move together."),
    Knob::int("net.ipv4.tcp_plb_cong_thresh", 0, 256, 128, Unit::Per256,
        "Share of marked segments from which a round counts as congested."),
    Knob::int("net.ipv6.auto_flowlabels", 0, 3, 1, Unit::None,
        "Flow labels from the transmit hash: 0 off, 1 unless a socket opts out, 2 if it opts in, 3 always."),
    Knob::switch("net.ipv6.flowlabel_consistency", 1, "Labels that applications manage are unique."),
    Knob::switch("net.ipv6.flowlabel_state_ranges", 0, "The bit 0x80000 tells computed labels from managed ones."),
    Knob::int("net.ipv6.flowlabel_reflect", 0, 7, 0, Unit::Bits,
        "Answer with the label of the peer: 1 established connections, 2 resets, 4 echo replies."),
    Knob::int("net.ipv4.fib_multipath_hash_policy", 0, 3, 0, Unit::None,
        "What picks among equal IPv4 routes: 0 addresses, 1 also ports, 2 inner addresses, 3 chosen \
         fields. There is one next hop here."),
    Knob::int("net.ipv6.fib_multipath_hash_policy", 0, 3, 0, Unit::None,
        "The same for IPv6."),
    Knob::int("net.ipv4.fib_multipath_hash_fields", 0, U32_MAX, 7, Unit::Bits,
        "Fields for policy 3, IPv4."),
    Knob::int("net.ipv6.fib_multipath_hash_fields", 0, U32_MAX, 7, Unit::Bits,
        "Fields for policy 3, IPv6."),
    Knob::int("net.ipv4.fib_multipath_hash_seed", 0, U32_MAX, 0, Unit::None,
        "Key of that hash; 0 means random."),
    Knob::switch("net.ipv4.fib_multipath_use_neigh", 0, "Avoid next hops that do not answer."),
    Knob::vector("millrace.vxlan_source_port_range", 1, 65_535, &[32_768, 60_999], Unit::Ports,
        "Source ports of outer VXLAN headers (link option `srcport` of Linux): the more, the better routers \
         spread the flows."),
];
