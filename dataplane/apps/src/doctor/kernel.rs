//! What the kernel has for software devices.

use super::Finding;
use super::root::Root;

pub(super) fn check(root: &Root) -> Vec<Finding> {
    let packet = if root.exists("proc/net/packet") {
        Finding::ok("af_packet", "packet sockets with fan-out over queues")
    } else {
        Finding::advice(
            "af_packet",
            "no packet sockets: net_af_packet cannot run",
            "modprobe af_packet (CONFIG_PACKET)",
        )
    };
    let protocols = root.read("proc/net/protocols").unwrap_or_default();
    let xdp = if protocols.lines().any(|l| l.split_whitespace().next() == Some("XDP")) {
        Finding::ok("af_xdp", "XDP sockets")
    } else {
        Finding::advice(
            "af_xdp",
            "no XDP sockets: net_af_xdp cannot run",
            "use net_af_packet, or a kernel with CONFIG_XDP_SOCKETS=y",
        )
    };
    let tun = if root.exists("dev/net/tun") {
        Finding::ok("tap", "/dev/net/tun")
    } else {
        Finding::advice("tap", "no /dev/net/tun: net_tap cannot run", "modprobe tun")
    };
    vec![packet, xdp, tun]
}
