//! Counters of the layers below TCP, by their MIB names, and of the turn itself.

use base::Ecn;

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $field:ident => $name:literal,)+) => {
        /// Plain integers, owned by one worker.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct StackCounters {
            $($(#[doc = $doc])+ pub $field: u64,)+
        }

        impl StackCounters {
            /// Name (as `nstat` prints it, with its group) and value of each.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$(($name, self.$field),)+].into_iter()
            }

            /// Add another worker's counters.
            pub fn add(&mut self, other: &Self) {
                $(self.$field += other.$field;)+
            }
        }
    };
}

impl StackCounters {
    /// An IPv4 packet has come in.
    #[inline]
    pub(crate) fn on_ip_in(&mut self, ecn: Ecn) {
        self.ip_in_receives += 1;
        *match ecn {
            Ecn::NotEct => &mut self.ip_in_no_ect_pkts,
            Ecn::Ect1 => &mut self.ip_in_ect1_pkts,
            Ecn::Ect0 => &mut self.ip_in_ect0_pkts,
            Ecn::Ce => &mut self.ip_in_ce_pkts,
        } += 1;
    }

    /// An IPv6 packet has come in.
    #[inline]
    pub(crate) fn on_ip6_in(&mut self, ecn: Ecn) {
        self.ip6_in_receives += 1;
        *match ecn {
            Ecn::NotEct => &mut self.ip6_in_no_ect_pkts,
            Ecn::Ect1 => &mut self.ip6_in_ect1_pkts,
            Ecn::Ect0 => &mut self.ip6_in_ect0_pkts,
            Ecn::Ce => &mut self.ip6_in_ce_pkts,
        } += 1;
    }
}

counters! {
    /// IPv4 packets received.
    ip_in_receives => "IpInReceives",
    /// IPv4 packets delivered to a protocol.
    ip_in_delivers => "IpInDelivers",
    /// IPv4 packets sent.
    ip_out_requests => "IpOutRequests",
    /// IPv4 packets without a route.
    ip_out_no_routes => "IpOutNoRoutes",
    /// IPv4 packets received by their ECN codepoint: not capable.
    ip_in_no_ect_pkts => "IpExtInNoECTPkts",
    /// ECT(1).
    ip_in_ect1_pkts => "IpExtInECT1Pkts",
    /// ECT(0).
    ip_in_ect0_pkts => "IpExtInECT0Pkts",
    /// Congestion experienced.
    ip_in_ce_pkts => "IpExtInCEPkts",
    /// Fragments received.
    ip_reasm_reqds => "IpReasmReqds",
    /// Datagrams reassembled.
    ip_reasm_oks => "IpReasmOKs",
    /// Reassemblies failed.
    ip_reasm_fails => "IpReasmFails",
    /// IPv6 packets received.
    ip6_in_receives => "Ip6InReceives",
    /// IPv6 packets delivered to a protocol.
    ip6_in_delivers => "Ip6InDelivers",
    /// IPv6 packets received by their ECN codepoint: not capable.
    ip6_in_no_ect_pkts => "Ip6InNoECTPkts",
    /// ECT(1).
    ip6_in_ect1_pkts => "Ip6InECT1Pkts",
    /// ECT(0).
    ip6_in_ect0_pkts => "Ip6InECT0Pkts",
    /// Congestion experienced.
    ip6_in_ce_pkts => "Ip6InCEPkts",
    /// IPv6 packets sent.
    ip6_out_requests => "Ip6OutRequests",
    /// ICMP messages received, both versions.
    icmp_in_msgs => "IcmpInMsgs",
    /// Echo requests received.
    icmp_in_echos => "IcmpInEchos",
    /// Destination-unreachable messages received.
    icmp_in_dest_unreachs => "IcmpInDestUnreachs",
    /// ICMP messages sent, both versions.
    icmp_out_msgs => "IcmpOutMsgs",
    /// Echo replies sent.
    icmp_out_echo_reps => "IcmpOutEchoReps",
    /// Destination-unreachable messages sent.
    icmp_out_dest_unreachs => "IcmpOutDestUnreachs",
    /// ICMP errors about TCP segments not in flight, ignored.
    out_of_window_icmps => "TcpExtOutOfWindowIcmps",
    /// ARP packets received.
    arp_in => "MillraceArpIn",
    /// ARP packets sent.
    arp_out => "MillraceArpOut",
    /// Neighbour discovery messages received.
    nd_in => "MillraceNdIn",
    /// Neighbour discovery messages sent.
    nd_out => "MillraceNdOut",
    /// Frames received.
    frames_rx => "MillraceFramesRx",
    /// Frames handed to the device.
    frames_tx => "MillraceFramesTx",
    /// Bytes received in frames.
    bytes_rx => "MillraceBytesRx",
    /// Bytes of frames queued for the device.
    bytes_tx => "MillraceBytesTx",
    /// Segments merged into runs by software receive offload (each but the first of a run).
    gro_merged => "MillraceGroMerged",
    /// Times this worker came to its turn long after it was due.
    worker_stalls => "MillraceWorkerStalls",
    /// Times the device took fewer frames than it was offered.
    tx_refused => "MillraceTxRefused",
    /// Times a buffer was wanted and the pool was empty.
    pool_empty => "MillracePoolEmpty",
    /// Demux buckets that overflowed.
    demux_overflow => "MillraceDemuxOverflow",
    /// Turns that did something.
    turns_busy => "MillraceTurnsBusy",
    /// Turns that found nothing to do.
    turns_idle => "MillraceTurnsIdle",
}
