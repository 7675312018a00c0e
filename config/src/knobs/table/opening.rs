//! Opening and listening.

use super::{I32_MAX, I32_MIN, U32_MAX, to_u8, to_u16, to_u32};
use crate::knobs::{Knob, Preset, TextForm, Unit, Value};

pub(super) const ROWS: &[Knob] = &[
    Knob::switch("millrace.require_timestamps", 0,
        "Drop segments without timestamps on connections that use them, RFC 7323 section 3.2. On, a blind \
         attacker has to guess a timestamp, too; off, as on Linux, peers behind boxes that strip options \
         get through, without protection against wrapped numbers.")
        .millrace(Preset::Int(1))
        .new_connections()
        .active(|p, v| p.tcp.require_timestamps = v.int() == 1,
            |p| Value::Int(p.tcp.require_timestamps.into())),
    Knob::int("net.ipv4.tcp_timestamps", 0, 2, 1, Unit::None,
        "Timestamps, RFC 7323: 0 off, 1 on with a random offset per connection, 2 on without it. They \
         measure round trips during loss and protect wrapped sequence numbers. Off, connections above \
         1 Gbit/s lose that protection; 2 tells peers how long we have been up.")
        .new_connections()
        .active(
            |p, v| {
                p.tcp.timestamps = v.int() != 0;
                p.tcp.timestamp_offset = v.int() == 1;
            },
            |p| Value::Int(match (p.tcp.timestamps, p.tcp.timestamp_offset) {
                (false, _) => 0,
                (true, true) => 1,
                (true, false) => 2,
            })),
    Knob::int("net.ipv4.tcp_syn_retries", 1, 127, 6, Unit::Count,
        "Repetitions of a SYN with a growing timeout, after the linear ones, before connecting fails; 6 is \
         about two minutes. Few give up on slow paths; many keep applications waiting.")
        .new_connections()
        .active(|p, v| p.tcp.syn_retries = to_u8(v.int()), |p| Value::Int(p.tcp.syn_retries.into())),
    Knob::int("net.ipv4.tcp_syn_linear_timeouts", 0, 127, 4, Unit::Count,
        "So many first SYNs are repeated after the same initial timeout before it begins to grow. A lost SYN \
         rarely means congestion; many repetitions load a peer that is really overloaded.")
        .new_connections()
        .active(|p, v| p.tcp.syn_linear_timeouts = to_u8(v.int()),
            |p| Value::Int(p.tcp.syn_linear_timeouts.into())),
    Knob::int("net.ipv4.tcp_synack_retries", 0, 255, 5, Unit::Count,
        "Repetitions of a SYN-ACK; 5 is about a minute. At 0 a lost one is never repeated; many let \
         forged SYNs hold memory and reflect traffic.")
        .new_connections()
        .active(|p, v| p.tcp.synack_retries = to_u8(v.int()),
            |p| Value::Int(p.tcp.synack_retries.into())),
    Knob::int("net.ipv4.tcp_syncookies", 0, 2, 1, Unit::None,
        "SYN cookies: 0 never, 1 when the queue of half-open connections overflows, 2 always. They keep a \
         server reachable in a SYN flood at the price of some options."),
    Knob::int("net.ipv4.tcp_max_syn_backlog", I32_MIN, I32_MAX, 4096, Unit::Count,
        "Half-open connections of one listener. Here `half_open` in `[limits]` bounds all of a worker and \
         the backlog those of a listener."),
    Knob::int("net.core.somaxconn", 0, I32_MAX, 4096, Unit::Count,
        "Cap of the backlog that an application asks for when it listens. Small backlogs drop bursts of new \
         connections; large ones let an overloaded application collect connections whose peers have \
         given up.")
        .active(|p, v| p.somaxconn = to_u32(v.int()), |p| Value::Int(p.somaxconn.into())),
    Knob::switch("net.ipv4.tcp_abort_on_overflow", 0,
        "Reset a connection that finds the accept queue full. Off, the peer repeats and may succeed; on, it \
         learns at once that the server is overloaded.")
        .new_connections()
        .active(|p, v| p.tcp.abort_on_overflow = v.int() == 1,
            |p| Value::Int(p.tcp.abort_on_overflow.into())),
    Knob::int("net.ipv4.tcp_fastopen", I32_MIN, I32_MAX, 1, Unit::Bits,
        "TCP Fast Open, RFC 7413: 1 client, 2 server, 4 client without a cookie, 0x200 server without one, \
         0x400 every listener.").new_connections(),
    Knob::text("net.ipv4.tcp_fastopen_key", TextForm::Keys, "",
        "Keys for cookies of Fast Open: the primary one and, after a comma, a backup for rotation. Empty \
         means random."),
    Knob::int("net.ipv4.tcp_fastopen_blackhole_timeout_sec", 0, I32_MAX, 0, Unit::Seconds,
        "Pause of Fast Open at the client after a suspicious failure, doubling; 0 none."),
    Knob::vector("net.ipv4.ip_local_port_range", 1, 65_535, &[32_768, 60_999], Unit::Ports,
        "Local ports for connections that we open, shared among the workers. 28232 of them bound the \
         connections to one destination, and those that stay in TIME-WAIT count; a range that reaches low \
         ports takes those of services.")
        .active(|p, v| p.local_port_range = [to_u16(v.at(0)), to_u16(v.at(1))],
            |p| Value::vector(&p.local_port_range.map(i64::from))),
    Knob::int("net.ipv4.ip_local_port_step_width", 0, U32_MAX, 0, Unit::Ports,
        "Upper bound of a random step between tried ports; 0 none."),
    Knob::text("net.ipv4.ip_local_reserved_ports", TextForm::PortRanges, "",
        "Ports that are never chosen for connections that we open."),
    Knob::int("net.ipv4.ip_unprivileged_port_start", 0, 65_535, 1024, Unit::Ports,
        "First port that ordinary users may listen on. There are no users here."),
    Knob::switch("net.ipv4.ip_autobind_reuse", 0, "Choose ports that sockets with SO_REUSEADDR hold."),
    Knob::int("net.ipv4.ip_default_ttl", 1, 255, 64, Unit::Hops,
        "Time to live, and hop limit of IPv6, of what we send. RFC 1700 recommends 64. Small values do \
         not reach far peers; 255 lets packets circle longer in a routing loop.")
        .active(|p, v| p.ttl = to_u8(v.int()), |p| Value::Int(p.ttl.into())),
    Knob::switch("net.ipv4.tcp_migrate_req", 0,
        "Move half-open connections to another listener of the group when theirs closes."),
    Knob::int("net.ipv4.tcp_child_ehash_entries", 0, 16 << 20, 0, Unit::Count,
        "Size of the connection table of new namespaces; 0 shares the global one."),
];
