//! Path MTU.

use super::{I32_MAX, I32_MIN, from_u128, to_u16};
use crate::knobs::{Knob, Preset, Unit, Value};

pub(super) const ROWS: &[Knob] = &[
    Knob::int("net.ipv4.tcp_mtu_probing", 0, 2, 0, Unit::None,
        "Finds the path MTU by sending larger segments and watching whether they arrive (RFC 4821): \
         0 never, 1 after a black hole was noticed, 2 always. Linux leaves it off; the profile \
         `millrace` searches always, because ICMP is filtered on too many paths. At 0 a path that \
         drops large packets silently stalls connections; at 2 some probes are lost and sent again.")
        .millrace(Preset::Int(2)).new_connections(),
    Knob::int("net.ipv4.tcp_base_mss", I32_MIN, I32_MAX, 1024, Unit::Bytes,
        "MSS at which a search for the path MTU begins. 1024 passes nearly everywhere. Too low costs \
         packets until the search has climbed; above what the path carries, the search begins with a \
         loss. Values below `tcp_min_snd_mss` act as that.").new_connections(),
    Knob::int("net.ipv4.tcp_mtu_probe_floor", 48, 65_535, 48, Unit::Bytes,
        "Lowest MSS to which the reaction to a black hole may go. 48 never stands in the way; a higher \
         floor keeps forged or accidental loss from shrinking segments to dust, but leaves narrow paths \
         stuck."),
    Knob::int("net.ipv4.tcp_min_snd_mss", 48, 65_535, 48, Unit::Bytes,
        "Lowest MSS ever used for sending, whatever the peer offers. 48 is what the least MTU \
         of IPv4, 68, leaves after its header. Tiny values let a peer make us send a storm of tiny segments; a value \
         above what the peer really accepts makes its connections fail.")
        .new_connections()
        .active(|p, v| p.tcp.min_snd_mss = to_u16(v.int()),
            |p| Value::Int(p.tcp.min_snd_mss.into())),
    Knob::int("net.ipv4.tcp_probe_threshold", 1, 65_535, 8, Unit::Bytes,
        "A search ends when the largest size that passed and the smallest that failed are this close. \
         8 loses less than one per cent at common sizes. At 1 the last probes buy a byte or two; large \
         values give up usable size. (Linux takes any number.)"),
    Knob::int("net.ipv4.tcp_probe_interval", 0, I32_MAX, 600, Unit::Seconds,
        "Wait before a finished search looks again for a larger path MTU. RFC 4821 suggests ten \
         minutes. Short waits lose segments for nothing; long ones miss that a path has widened."),
    Knob::choice("millrace.mtu_search", &["bisect", "candidates"], "bisect",
        "How a search picks the next size: `bisect` halves the interval; `candidates` first tries the \
         sizes that links really have (tunnels, PPPoE, jumbo) and then bisects. The second ends after \
         fewer probes on real paths.").millrace(Preset::Text("candidates")).new_connections(),
    Knob::choice("millrace.mtu_start", &["base", "route"], "base",
        "Where a search begins: `base` at `tcp_base_mss` and upwards, `route` at the MSS of the route \
         and in both directions. `route` loses nothing on a clean path; `base` is safer where most \
         paths are narrow.").millrace(Preset::Text("route")).new_connections(),
    Knob::int("millrace.mtu_blackhole_rtos", 0, 255, 0, Unit::Count,
        "Retransmission timeouts of large segments in a row, while small ones pass, that count as a \
         black hole; 0 means the time that `tcp_retries1` timeouts take, as on Linux. The profile \
         `millrace` acts after 2. At 1 ordinary loss looks like a black hole; high values stall a \
         connection for minutes.").millrace(Preset::Int(2)),
    Knob::int("net.ipv4.ip_no_pmtu_disc", 0, 3, 0, Unit::None,
        "What ICMP \"fragmentation needed\" does: 0 lowers the path MTU; 1 no DF bit, and lowers it to \
         `route.min_pmtu`; 2 is ignored; 3 is believed only for protocols that check the quoted packet. \
         With 1 routers fragment; with 2 only probing finds narrow paths."),
    Knob::switch("net.ipv4.ip_forward_use_pmtu", 0,
        "Forwarded packets honour a learned path MTU. Nothing is forwarded here."),
    Knob::int("net.ipv4.route.min_pmtu", 68, I32_MAX, 552, Unit::Bytes,
        "Lowest IPv4 path MTU that an ICMP message may set; 552 is 512 bytes of \
         data behind headers of 20 bytes each. At 68 a forged message makes 28-byte segments; too \
         high, and honest narrow links become black holes."),
    Knob::int("net.ipv4.route.mtu_expires", 1, I32_MAX, 600, Unit::Seconds,
        "Life of a learned IPv4 path MTU. RFC 1191 asks for about ten minutes. Short lives repeat the \
         loss that taught it; long ones keep small packets after the path has changed."),
    Knob::int("net.ipv4.route.min_adv_mss", 0, I32_MAX, 256, Unit::Bytes,
        "Floor of the MSS that we advertise. 256 keeps a wrongly set MTU from ruining transfers; above \
         what the link takes, peers send segments that never arrive."),
    Knob::int("net.ipv6.route.mtu_expires", 1, I32_MAX, 600, Unit::Seconds,
        "Life of a learned IPv6 path MTU, as `net.ipv4.route.mtu_expires`; RFC 8201 forbids less than \
         five minutes."),
    Knob::int("net.ipv6.conf.all.mtu", 1280, 65_535, 1500, Unit::Bytes,
        "IPv6 link MTU as set by router advertisements on Linux. Here a port has one MTU, `mtu` in its \
         `[[port]]` section, for both families."),
    Knob::int("millrace.gso_max_bytes", 536, 65_535, 65_535, Unit::Bytes,
        "Payload of one transmit plan at most, before software or hardware cuts it into segments. \
         Large plans amortise the work per plan; small ones give smoother departures and let other \
         connections in between. Below one MSS every segment is a plan.")
        .new_connections()
        .active(|p, v| p.gso_max = super::to_u32(v.int()),
            |p| Value::Int(from_u128(p.gso_max.into()))),
];
