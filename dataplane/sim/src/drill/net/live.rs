//! What the stack has sent, taken apart as far as a script can ask.

use base::{Instant, TcpFlags};
use wire::ethernet::{self, EtherType};
use wire::{checksum, ipv4, ipv6, protocol, tcp, udp};

use super::build::Outer;
use super::options::{self, LiveOption};

/// A packet from the stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// When it was sent.
    pub at: Instant,
    /// The IP header.
    pub ip: Outer,
    /// What it carries.
    pub body: LiveBody,
    /// All checksums are right.
    pub checksums_good: bool,
    /// The IP packet.
    pub bytes: Vec<u8>,
}

/// What a packet carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveBody {
    /// A segment.
    Tcp(LiveTcp),
    /// A datagram.
    Udp {
        /// Source port.
        src_port: u16,
        /// Destination port.
        dst_port: u16,
        /// Bytes of payload.
        payload: u16,
    },
    /// ICMP of either version.
    Icmp {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
        /// Second word of the header.
        rest: u32,
    },
    /// Another protocol, or a fragment.
    Other(u8),
}

/// A segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveTcp {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number; zero is expected without ACK.
    pub ack: u32,
    /// Flags, the AE bit included.
    pub flags: TcpFlags,
    /// Reserved bits, to be zero.
    pub reserved: u8,
    /// Window field.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options in order.
    pub options: Vec<LiveOption>,
    /// Bytes of payload.
    pub payload: u32,
    /// All of them are zero.
    pub payload_is_zero: bool,
}

impl Live {
    /// Take apart the IP packet in `frame`; `None` for other frames and for what is not well-formed
    /// (a bug of ours, which the caller reports).
    pub fn of_frame(frame: &[u8], at: Instant) -> Option<Self> {
        let link = ethernet::parse(frame).ok()?;
        let packet = frame.get(link.len..)?;
        Self::of_packet(packet, link.ethertype, at)
    }

    fn of_packet(packet: &[u8], ethertype: EtherType, at: Instant) -> Option<Self> {
        let (ip, transport, offset, len, header_good) = match ethertype {
            EtherType::IPV4 => {
                let header = ipv4::parse(packet, packet.len(), false).ok()?;
                let ip = Outer {
                    src: header.src.into(),
                    dst: header.dst.into(),
                    tos: header.tos,
                    ttl: header.ttl,
                    flow_label: 0,
                };
                let good = checksum::of(packet.get(..header.header_len)?) == 0;
                (ip, header.protocol, header.header_len, header.payload_len(), good)
            }
            EtherType::IPV6 => {
                let header = ipv6::parse(packet, packet.len()).ok()?;
                let ip = Outer {
                    src: header.src.into(),
                    dst: header.dst.into(),
                    tos: header.traffic_class,
                    ttl: header.hop_limit,
                    flow_label: header.flow_label,
                };
                (ip, header.protocol, header.transport_offset, header.transport_len, true)
            }
            _ => return None,
        };
        let bytes = packet.get(offset..offset + len)?;
        let body = body(transport, bytes)?;
        let pseudo = match transport {
            protocol::ICMP => Some(0),
            protocol::TCP | protocol::UDP | protocol::ICMPV6 => {
                checksum::pseudo(ip.src, ip.dst, transport, len)
            }
            _ => None,
        };
        let checksums_good =
            header_good && pseudo.is_none_or(|pseudo| checksum::verify(pseudo, [bytes], len));
        let bytes = packet.get(..offset + len)?.to_vec();
        Some(Self { at, ip, body, checksums_good, bytes })
    }

    /// The segment, if it is one.
    pub fn tcp(&self) -> Option<&LiveTcp> {
        match &self.body {
            LiveBody::Tcp(tcp) => Some(tcp),
            _ => None,
        }
    }

    /// Source and destination port.
    pub fn ports(&self) -> Option<(u16, u16)> {
        match &self.body {
            LiveBody::Tcp(tcp) => Some((tcp.src_port, tcp.dst_port)),
            LiveBody::Udp { src_port, dst_port, .. } => Some((*src_port, *dst_port)),
            LiveBody::Icmp { .. } | LiveBody::Other(_) => None,
        }
    }

    /// Bytes of payload.
    pub fn payload(&self) -> u32 {
        match &self.body {
            LiveBody::Tcp(tcp) => tcp.payload,
            LiveBody::Udp { payload, .. } => u32::from(*payload),
            LiveBody::Icmp { .. } | LiveBody::Other(_) => 0,
        }
    }
}

fn body(transport: u8, bytes: &[u8]) -> Option<LiveBody> {
    Some(match transport {
        protocol::TCP => LiveBody::Tcp(segment(bytes)?),
        protocol::UDP => {
            let header = udp::parse(bytes, bytes.len()).ok()?;
            LiveBody::Udp {
                src_port: header.src_port,
                dst_port: header.dst_port,
                payload: u16::try_from(header.payload_len()).ok()?,
            }
        }
        protocol::ICMP | protocol::ICMPV6 => {
            let [kind, code, _, _, r0, r1, r2, r3] = *bytes.first_chunk::<8>()?;
            LiveBody::Icmp { kind, code, rest: u32::from_be_bytes([r0, r1, r2, r3]) }
        }
        other => LiveBody::Other(other),
    })
}

fn segment(bytes: &[u8]) -> Option<LiveTcp> {
    let (header, _) = tcp::parse(bytes, bytes.len()).ok()?;
    let options = options::decode(bytes.get(tcp::HEADER_LEN..header.header_len)?);
    let payload = bytes.get(header.header_len..)?;
    Some(LiveTcp {
        src_port: header.src_port,
        dst_port: header.dst_port,
        seq: header.seq,
        ack: header.ack,
        flags: header.flags,
        reserved: (bytes.get(12)? >> 1) & 0x07,
        window: header.window,
        urgent: header.urgent,
        options,
        payload: u32::try_from(payload.len()).ok()?,
        payload_is_zero: payload.iter().all(|b| *b == 0),
    })
}
