//! What a stack is built from, and what can be changed while it runs.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;

use base::WorkerId;
use tcp::TcpParams;

/// An address of ours with the length of its prefix in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LocalAddress {
    /// The address; never multicast or unspecified.
    pub addr: IpAddr,
    /// 0..=32 or 0..=128.
    pub prefix: u8,
}

impl LocalAddress {
    /// `addr` is in the network of this address.
    pub fn contains(&self, addr: IpAddr) -> bool {
        self.addr.is_ipv4() == addr.is_ipv4()
            && common_bits(self.addr, addr) >= u32::from(self.prefix)
    }
}

/// Leading bits that two addresses of one family have in common; zero across families.
pub(crate) fn common_bits(a: IpAddr, b: IpAddr) -> u32 {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => 0,
    }
}

/// Whom to believe about checksums of received frames, per port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ChecksumPolicy {
    /// Verify in software whatever the device has not verified. The default.
    #[default]
    Verify,
    /// Believe the link: for veth peers that leave checksums to hardware which does not exist.
    Trust,
}

/// Bounds of one worker's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections in synchronised states and handshakes.
    pub connections: u32,
    /// Half-open connections over all listeners.
    pub half_open: u32,
    /// `tcp_max_tw_buckets`: TIME-WAIT records.
    pub time_wait: u32,
    /// Neighbour entries of each port, and a quarter of it for entries being resolved.
    pub neighbors: u32,
    /// Listeners.
    pub listeners: u16,
    /// Datagrams being reassembled; zero drops every fragment.
    pub fragments: u16,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 16_384,
            half_open: 4096,
            time_wait: 16_384,
            neighbors: 1024,
            listeners: 256,
            fragments: 64,
        }
    }
}

/// One port: what is ours on its link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSetup {
    /// Our addresses there. No two ports have the same one, and their prefixes do not overlap, but for
    /// those of link-local addresses.
    pub addresses: Vec<LocalAddress>,
    /// Next hop for destinations outside of all prefixes, a neighbour on this link. Of several ports
    /// with one, the first serves whoever has no address of ours yet.
    pub gateway4: Option<Ipv4Addr>,
    /// The same for IPv6.
    pub gateway6: Option<Ipv6Addr>,
    /// MTU to use, at most the device's.
    pub mtu: u16,
    /// Checksums of received frames.
    pub rx_checksum: ChecksumPolicy,
}

/// Fixed from the start of a stack.
#[derive(Clone, Debug)]
pub struct StackConfig {
    /// Which worker this is, and of how many.
    pub worker: WorkerId,
    /// How many workers share the ports.
    pub workers: u16,
    /// The ports, in the order of their devices: 1 to [`base::PORTS_MAX`].
    pub ports: Vec<PortSetup>,
    /// Bounds.
    pub limits: Limits,
    /// How long an orderly stop may take before what is left is reset.
    pub stop_limit: Duration,
}

/// Parameters that a knob may change while the stack runs: one immutable set with a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackParams {
    /// Raised with each change.
    pub generation: u64,
    /// Parameters of the protocol.
    pub tcp: TcpParams,
    /// `ip_local_port_range`.
    pub local_port_range: [u16; 2],
    /// `ip_default_ttl`.
    pub ttl: u8,
    /// `core.somaxconn`.
    pub somaxconn: u32,
    /// `tcp_max_orphans`: closed connections of this worker that still have something to send, or wait
    /// for the peer's FIN.
    pub max_orphans: u32,
    /// `icmp_ratelimit`: least time between ICMP errors to one destination.
    pub icmp_ratelimit: Duration,
    /// `icmp_msgs_per_sec` for the whole worker.
    pub icmp_msgs_per_sec: u32,
    /// How long a neighbour entry counts as reachable, RFC 4861 (base_reachable_time).
    pub neighbor_reachable: Duration,
    /// Payload of one plan at most, bytes: software segmentation, 1..=65535.
    pub gso_max: u32,
}

impl Default for StackParams {
    fn default() -> Self {
        Self {
            generation: 0,
            tcp: TcpParams::default(),
            local_port_range: [32_768, 60_999],
            ttl: 64,
            somaxconn: 4096,
            max_orphans: 16_384,
            icmp_ratelimit: Duration::from_millis(1000),
            icmp_msgs_per_sec: 10_000,
            neighbor_reachable: Duration::from_secs(30),
            gso_max: 65_535,
        }
    }
}
