//! Frames as the network of a script sends them.

use core::net::IpAddr;

use base::TcpFlags;
use wire::ethernet::{self, EtherType, Mac};
use wire::{TcpFields, checksum, icmpv4, icmpv6, ipv4, ipv6, protocol, tcp, udp};

use super::options;
use crate::drill::lang::ast::TcpOption;

/// The IP header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outer {
    /// Source.
    pub src: IpAddr,
    /// Destination, of the same family.
    pub dst: IpAddr,
    /// DSCP and ECN.
    pub tos: u8,
    /// Hop limit.
    pub ttl: u8,
    /// IPv6 only.
    pub flow_label: u32,
}

/// TCP header of a packet to build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpOut {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Flags.
    pub flags: TcpFlags,
    /// Window field.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options in order.
    pub options: Vec<TcpOption>,
    /// Bytes of payload, all zero.
    pub payload: u16,
}

impl TcpOut {
    /// Header and payload, without a checksum; `None` if the options do not fit a header.
    pub fn segment(&self) -> Option<Vec<u8>> {
        let options = options::encode(&self.options);
        let header_len = tcp::HEADER_LEN + options.len();
        if header_len > tcp::HEADER_LEN_MAX {
            return None;
        }
        let mut out = vec![0; header_len + usize::from(self.payload)];
        tcp::emit(
            &mut out,
            &TcpFields {
                src_port: self.src_port,
                dst_port: self.dst_port,
                seq: self.seq,
                ack: self.ack,
                flags: self.flags,
                window: self.window,
                urgent: self.urgent,
                options: wire::TcpOptions::default(),
            },
        );
        out[tcp::HEADER_LEN..header_len].copy_from_slice(&options);
        // The data offset in words, in the upper four bits; `emit` knew of no options.
        out[12] = (out[12] & 0x0f) | ((header_len as u8 / 4) << 4);
        Some(out)
    }
}

impl Outer {
    /// A TCP packet in a frame; `None` if the options do not fit or the families differ.
    pub fn tcp_frame(&self, macs: Macs, segment: &TcpOut) -> Option<Vec<u8>> {
        let mut bytes = segment.segment()?;
        let pseudo = checksum::pseudo(self.src, self.dst, protocol::TCP, bytes.len())?;
        let sum = checksum::finish(pseudo, &bytes, 0);
        tcp::set_checksum(&mut bytes, sum);
        self.frame(macs, protocol::TCP, &bytes)
    }

    /// A UDP packet with a payload of `payload` zeroes.
    pub fn udp_frame(&self, macs: Macs, ports: (u16, u16), payload: u16) -> Option<Vec<u8>> {
        let len = udp::HEADER_LEN + usize::from(payload);
        let mut bytes = vec![0; len];
        udp::emit(&mut bytes, ports.0, ports.1, u16::try_from(len).ok()?, 0);
        let pseudo = checksum::pseudo(self.src, self.dst, protocol::UDP, len)?;
        let sum = checksum::finish_udp(pseudo, &bytes, 0);
        udp::set_checksum(&mut bytes, sum);
        self.frame(macs, protocol::UDP, &bytes)
    }

    /// An ICMP message of this type and code: `rest` is the second word of the header.
    pub fn icmp_frame(
        &self,
        macs: Macs,
        (kind, code): (u8, u8),
        rest: u32,
        data: &[u8],
    ) -> Option<Vec<u8>> {
        debug_assert_eq!(icmpv4::HEADER_LEN, icmpv6::HEADER_LEN);
        let mut bytes = vec![kind, code, 0, 0];
        bytes.extend(rest.to_be_bytes());
        bytes.extend(data);
        let (pseudo, number) = match self.dst {
            IpAddr::V4(_) => (0, protocol::ICMP),
            IpAddr::V6(_) => (
                checksum::pseudo(self.src, self.dst, protocol::ICMPV6, bytes.len())?,
                protocol::ICMPV6,
            ),
        };
        let sum = !checksum::fold(checksum::sum(&bytes, pseudo));
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        self.frame(macs, number, &bytes)
    }

    /// The IP header for `len` bytes of `transport`; `None` if the families differ or it is too long.
    pub fn header(&self, transport: u8, len: usize) -> Option<Vec<u8>> {
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let mut out = vec![0; ipv4::HEADER_LEN];
                let fields = ipv4::Ipv4Fields {
                    src,
                    dst,
                    protocol: transport,
                    ttl: self.ttl,
                    tos: self.tos,
                    ident: 0,
                    dont_fragment: true,
                    total_len: u16::try_from(ipv4::HEADER_LEN + len).ok()?,
                };
                ipv4::emit(&mut out, &fields, ipv4::HeaderChecksum::Compute);
                Some(out)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let mut out = vec![0; ipv6::HEADER_LEN];
                let fields = ipv6::Ipv6Fields {
                    src,
                    dst,
                    traffic_class: self.tos,
                    flow_label: self.flow_label,
                    hop_limit: self.ttl,
                    next_header: transport,
                    payload_len: u16::try_from(len).ok()?,
                };
                ipv6::emit(&mut out, &fields);
                Some(out)
            }
            _ => None,
        }
    }

    fn frame(&self, macs: Macs, transport: u8, bytes: &[u8]) -> Option<Vec<u8>> {
        let header = self.header(transport, bytes.len())?;
        let ethertype = if self.dst.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
        let mut out = macs.header(ethertype);
        out.extend(header);
        out.extend(bytes);
        Some(out)
    }
}

/// The hardware addresses of both ends of the wire, as seen by who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Macs {
    /// Whoever sends.
    pub src: Mac,
    /// Whoever receives.
    pub dst: Mac,
}

impl Macs {
    /// An Ethernet header.
    pub fn header(self, ethertype: EtherType) -> Vec<u8> {
        let mut out = vec![0; ethernet::HEADER_LEN];
        ethernet::emit(&mut out, self.dst, self.src, None, ethertype);
        out
    }
}
