//! Every reason for which a frame, or a part of one, is discarded, at any layer.

macro_rules! drop_reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident => $name:literal,)+) => {
        /// Why a frame was discarded. Each path that discards one ends in exactly one of these, and
        /// each has a counter of its own, so "why was it dropped" is a look-up.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DropReason {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl DropReason {
            /// All reasons, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];
            /// How many reasons there are; the size of an array of counters.
            pub const COUNT: usize = Self::ALL.len();

            /// The name by which counters and tools show the reason.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// One line of explanation for people.
            pub const fn explain(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+),)+ }
            }
        }
    };
}

drop_reasons! {
    /// Frame shorter than an Ethernet header.
    L2Short => "l2_short",
    /// Destination MAC is not ours, nor broadcast, nor a group we joined.
    L2NotOurs => "l2_not_ours",
    /// Source MAC is multicast or all zero.
    L2BadSource => "l2_bad_src",
    /// Ethertype is not IPv4, IPv6 or ARP (or an 802.3 length field).
    L2Unknown => "l2_unknown",
    /// VLAN tag truncated, more than two tags, or a VLAN that is not configured.
    VlanBad => "vlan_bad",
    /// Frame longer than the port's MTU and headers allow.
    L2Oversize => "l2_oversize",
    /// Our own transmission, looped back by the device.
    L2Loop => "l2_loop",
    /// Buffer chain inconsistent: segment count, lengths or an empty segment in the middle.
    MbufBad => "mbuf_bad",
    /// Headers are split over more buffer segments than we linearise.
    MbufSplit => "mbuf_split",
    /// No buffer left to go on with.
    NoBuffer => "no_buffer",

    /// Shorter than the header of its network layer.
    IpShort => "l3_short",
    /// Version field does not match the ethertype.
    IpVersion => "ip_version",
    /// IPv4 header length below 20 bytes or beyond the packet.
    IpHeaderLen => "ip_ihl",
    /// Total or payload length contradicts the frame.
    IpLength => "ip_len",
    /// IPv4 header checksum wrong.
    IpChecksum => "ip_csum",
    /// Source address that can never be one: multicast, unspecified, loopback, ours.
    IpMartian => "ip_martian",
    /// Not addressed to us.
    IpNotOurs => "ip_not_ours",
    /// Malformed IPv4 option.
    IpOption => "ip_opt",
    /// Source route option.
    IpSourceRoute => "ip_srcroute",
    /// Time to live (hop limit) of zero.
    IpTtl => "ip_ttl",
    /// Transport protocol that we do not speak.
    IpProtocol => "ip_proto",
    /// Extension header malformed, out of place, or too many.
    Ip6Extension => "ip6_ext",
    /// IPv6 routing header with segments left.
    Ip6Routing => "ip6_routing",

    /// Fragment that would end beyond 65535 bytes.
    FragmentSize => "frag_size",
    /// Fragment other than the last whose length is no multiple of eight.
    FragmentAlign => "frag_align",
    /// First fragment too short for its transport header.
    FragmentTiny => "frag_tiny",
    /// Fragments overlap: the whole datagram is discarded, RFC 5722.
    FragmentOverlap => "frag_overlap",
    /// One fragment bears a mark of congestion and another may not be marked, RFC 3168 section 5.3.
    FragmentEcn => "frag_ecn",
    /// Fragment that has come already.
    FragmentDuplicate => "frag_duplicate",
    /// Reassembly table or its memory is full.
    FragmentLimit => "frag_limit",
    /// Datagram not completed in time.
    FragmentTimeout => "frag_timeout",

    /// ARP packet malformed or of an operation we do not handle.
    ArpBad => "arp_bad",
    /// Neighbour discovery message that RFC 4861 section 7.1 tells us to discard.
    NdInvalid => "nd_invalid",
    /// Somebody else claims our address.
    AddressConflict => "addr_conflict",
    /// Neighbour not resolved in time, or its queue is full.
    NeighborFailed => "neigh_failed",
    /// Neighbour table full of entries being resolved.
    NeighborLimit => "neigh_limit",
    /// Message has nothing for us (a redirect, an advertisement we did not ask for).
    NeighborIgnored => "neigh_ignored",

    /// ICMP message too short.
    IcmpShort => "icmp_short",
    /// ICMP checksum wrong.
    IcmpChecksum => "icmp_csum",
    /// ICMP type that we do not handle.
    IcmpUnknown => "icmp_unknown",
    /// ICMP error that quotes nothing of ours, or a sequence number not in flight, RFC 5927.
    IcmpSequence => "icmp_seq",
    /// ICMP reply suppressed by the rate limit.
    IcmpLimit => "icmp_limit",

    /// UDP header malformed.
    UdpBad => "udp_bad",
    /// UDP checksum wrong.
    UdpChecksum => "udp_csum",
    /// No receiver for this UDP port.
    UdpPort => "udp_port",

    /// Shorter than a TCP header.
    TcpShort => "tcp_short",
    /// Data offset below five words or beyond the segment.
    TcpOffset => "tcp_off",
    /// TCP checksum wrong.
    TcpChecksum => "tcp_csum",
    /// Port zero.
    TcpPortZero => "tcp_port0",
    /// Combination of flags that no TCP sends.
    TcpFlags => "tcp_flags",
    /// Malformed TCP option.
    TcpOption => "tcp_opt",
    /// TCP to a broadcast or multicast address.
    TcpNotUnicast => "tcp_not_unicast",
    /// Acknowledgement at a listening port that belongs to no connection; answered with a reset.
    TcpStrayAck => "tcp_stray_ack",
    /// No listener and no connection; answered with a reset unless it was one.
    TcpNoSocket => "tcp_no_socket",
    /// Outside of the receive window.
    TcpOutOfWindow => "tcp_out_of_window",
    /// Entirely old data.
    TcpOldData => "tcp_old_data",
    /// Timestamp older than the last one accepted, RFC 7323 section 5.
    TcpPaws => "tcp_paws",
    /// Timestamp missing although negotiated, RFC 7323 section 3.2.
    TcpTimestampMissing => "tcp_ts_missing",
    /// Neither ACK nor a flag that makes sense without it.
    TcpNoAck => "tcp_no_ack",
    /// Acknowledges what was never sent.
    TcpAckUnsent => "tcp_ack_unsent",
    /// Acknowledges far too old data, RFC 5961 section 5.
    TcpAckTooOld => "tcp_ack_too_old",
    /// Reset that does not hit the exact sequence number, RFC 5961 section 3.
    TcpRstChallenged => "tcp_rst_challenged",
    /// Reset outside of the window or without meaning in this state.
    TcpRstIgnored => "tcp_rst_ignored",
    /// SYN in a synchronised state, RFC 5961 section 4.
    TcpSynChallenged => "tcp_syn_challenged",
    /// Acceptable segment that carries nothing for this state (a bare ACK in a handshake, say).
    TcpIgnored => "tcp_ignored",
    /// Listener's half-open connections at their limit.
    ListenSynQueue => "listen_syn_queue",
    /// Listener's accept queue at its limit.
    ListenOverflow => "listen_overflow",
    /// Connection table or memory full.
    ConnLimit => "conn_limit",
    /// Data in order, but no receive memory.
    RcvMemory => "rcv_memory",
    /// Data out of order, but no memory or too many holes.
    OfoLimit => "ofo_limit",
    /// Data for a connection whose application has closed.
    DataAfterClose => "data_after_close",
    /// Segment in TIME-WAIT, answered or ignored.
    TimeWait => "time_wait",

    /// Transmission: no route to the destination.
    NoRoute => "no_route",
    /// The worker is stopping.
    Stopping => "stopping",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_numbers_dense() {
        for (i, a) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*a as usize, i);
            for b in &DropReason::ALL[i + 1..] {
                assert_ne!(a.name(), b.name());
            }
        }
    }
}
