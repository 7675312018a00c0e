//! What a network card does for a host: checksums, segmentation, verification.
//!
//! A [`base::mem::MemDevice`] only claims its offloads; here they are carried out, so that a world
//! may claim them and still put honest frames on the wire.

use core::net::IpAddr;

use base::mem::MemFrame;
use base::{Checksum, L4Offload, Offloads, RxMeta, TcpFlags, TxMeta};
use wire::checksum;
use wire::ethernet::{self, EtherType};
use wire::{ipv4, ipv6, protocol};

/// Where the transport of a whole IP packet lies in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// See [`wire::protocol`].
    pub protocol: u8,
    /// From the start of the frame, bytes.
    pub offset: usize,
    /// Header and payload, bytes.
    pub len: usize,
}

impl Transport {
    /// Find it; `None` for anything but a whole, well-formed IP packet.
    pub fn of(frame: &[u8]) -> Option<Self> {
        let link = ethernet::parse(frame).ok()?;
        let rest = frame.get(link.len..)?;
        match link.ethertype {
            EtherType::IPV4 => {
                let h = ipv4::parse(rest, rest.len(), false).ok()?;
                h.fragment.is_none().then_some(Self {
                    src: h.src.into(),
                    dst: h.dst.into(),
                    protocol: h.protocol,
                    offset: link.len + h.header_len,
                    len: h.payload_len(),
                })
            }
            EtherType::IPV6 => {
                let h = ipv6::parse(rest, rest.len()).ok()?;
                h.fragment.is_none().then_some(Self {
                    src: h.src.into(),
                    dst: h.dst.into(),
                    protocol: h.protocol,
                    offset: link.len + h.transport_offset,
                    len: h.transport_len,
                })
            }
            _ => None,
        }
    }

    /// Its bytes.
    pub fn bytes<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        frame.get(self.offset..self.offset + self.len).unwrap_or_default()
    }

    /// Whether its checksum is right.
    pub fn verifies(&self, frame: &[u8]) -> bool {
        checksum::pseudo(self.src, self.dst, self.protocol, self.len)
            .is_some_and(|pseudo| checksum::verify(pseudo, [self.bytes(frame)], self.len))
    }
}

/// The frames that leave the card for `frame`.
///
/// # Panics
///
/// If the stack described its frame wrongly.
pub fn egress(frame: &MemFrame) -> Vec<Vec<u8>> {
    let meta = frame.tx_meta();
    let mut bytes = frame.to_vec();
    if meta.tso_segment > 0 {
        return segment(&bytes, meta);
    }
    complete(&mut bytes, meta);
    vec![bytes]
}

/// Fill in what was left to the card.
fn complete(bytes: &mut [u8], meta: TxMeta) {
    let l3 = usize::from(meta.l2_len);
    let l4 = l3 + usize::from(meta.l3_len);
    if meta.ip_checksum {
        bytes[l3 + 10..l3 + 12].fill(0);
        let sum = checksum::of(&bytes[l3..l4]);
        bytes[l3 + 10..l3 + 12].copy_from_slice(&sum.to_be_bytes());
    }
    let field = match meta.l4 {
        L4Offload::None => return,
        L4Offload::Tcp => l4 + 16,
        L4Offload::Udp => l4 + 6,
    };
    let end = l3 + packet_len(&bytes[l3..], meta.ipv6);
    // The field holds the sum of the pseudo header, so summing over it completes the checksum.
    let sum = checksum::of(&bytes[l4..end]);
    let sum = if meta.l4 == L4Offload::Udp && sum == 0 { 0xffff } else { sum };
    bytes[field..field + 2].copy_from_slice(&sum.to_be_bytes());
}

fn packet_len(packet: &[u8], ipv6: bool) -> usize {
    if ipv6 {
        ipv6::HEADER_LEN + usize::from(u16::from_be_bytes([packet[4], packet[5]]))
    } else {
        usize::from(u16::from_be_bytes([packet[2], packet[3]]))
    }
}

/// TCP segmentation as cards do it: headers copied, lengths, identification, sequence number, flags
/// and checksums made to fit each piece.
fn segment(bytes: &[u8], meta: TxMeta) -> Vec<Vec<u8>> {
    let l3 = usize::from(meta.l2_len);
    let l4 = l3 + usize::from(meta.l3_len);
    let header_len = l4 + usize::from(meta.l4_len);
    let (header, payload) = bytes.split_at(header_len);
    let size = usize::from(meta.tso_segment);
    let seq = u32::from_be_bytes([header[l4 + 4], header[l4 + 5], header[l4 + 6], header[l4 + 7]]);
    let ident = u16::from_be_bytes([header[l3 + 4], header[l3 + 5]]);
    let pseudo = u16::from_be_bytes([header[l4 + 16], header[l4 + 17]]);
    let flags = header[l4 + 13];
    let pieces = payload.len().div_ceil(size).max(1);
    (0..pieces)
        .map(|i| {
            let start = i * size;
            let piece = &payload[start..(start + size).min(payload.len())];
            let mut out = header.to_vec();
            out.extend_from_slice(piece);
            let l4_len = usize::from(meta.l4_len) + piece.len();
            if meta.ipv6 {
                let len = usize::from(meta.l3_len) - ipv6::HEADER_LEN + l4_len;
                out[l3 + 4..l3 + 6].copy_from_slice(&(len as u16).to_be_bytes());
            } else {
                let len = usize::from(meta.l3_len) + l4_len;
                out[l3 + 2..l3 + 4].copy_from_slice(&(len as u16).to_be_bytes());
                let ident = ident.wrapping_add(i as u16);
                out[l3 + 4..l3 + 6].copy_from_slice(&ident.to_be_bytes());
            }
            let seq = seq.wrapping_add(start as u32);
            out[l4 + 4..l4 + 8].copy_from_slice(&seq.to_be_bytes());
            let mut drop = 0;
            if i + 1 < pieces {
                drop |= (TcpFlags::FIN | TcpFlags::PSH).bits() as u8;
            }
            if i > 0 {
                drop |= TcpFlags::CWR.bits() as u8;
            }
            out[l4 + 13] = flags & !drop;
            // Without a length in the pseudo header, the card adds that of each piece.
            let sum = checksum::fold(u32::from(pseudo) + l4_len as u32);
            out[l4 + 16..l4 + 18].copy_from_slice(&sum.to_be_bytes());
            complete(&mut out, TxMeta { tso_segment: 0, l4: L4Offload::Tcp, ..meta });
            out
        })
        .collect()
}

/// What the card says about a frame that has arrived.
pub fn ingress(frame: &[u8], offloads: &Offloads) -> RxMeta {
    let mut meta = RxMeta::default();
    let verdict = |good| if good { Checksum::Good } else { Checksum::Bad };
    if offloads.rx_ip_checksum
        && let Ok(link) = ethernet::parse(frame)
        && link.ethertype == EtherType::IPV4
        && let Some(packet) = frame.get(link.len..)
    {
        meta.l3_checksum = match ipv4::parse(packet, packet.len(), true) {
            Ok(_) => Checksum::Good,
            Err(base::DropReason::IpChecksum) => Checksum::Bad,
            Err(_) => Checksum::Unknown,
        };
    }
    if let Some(transport) = Transport::of(frame) {
        let verified = match transport.protocol {
            protocol::TCP => offloads.rx_tcp_checksum,
            protocol::UDP => offloads.rx_udp_checksum,
            _ => false,
        };
        if verified {
            meta.l4_checksum = verdict(transport.verifies(frame));
        }
    }
    meta
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 20 bytes of IPv4 and 20 of TCP behind an Ethernet header, with the pseudo header's sum (less
    /// its length, as segmentation wants it) in the checksum field.
    fn super_segment(payload: usize) -> Vec<u8> {
        let mut f = vec![0; 54];
        f[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
        f[14] = 0x45;
        f[18..20].copy_from_slice(&0xffff_u16.to_be_bytes());
        f[22] = 64;
        f[23] = protocol::TCP;
        f[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        f[34..38].copy_from_slice(&[0, 1, 0, 2]);
        f[38..42].copy_from_slice(&0xffff_fff0_u32.to_be_bytes());
        f[46] = 0x50;
        f[47] = (TcpFlags::ACK | TcpFlags::PSH | TcpFlags::FIN | TcpFlags::CWR).bits() as u8;
        let pseudo =
            checksum::pseudo_v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), protocol::TCP, 0);
        f[50..52].copy_from_slice(&checksum::fold(pseudo).to_be_bytes());
        f.extend((0..payload).map(|i| i as u8));
        f
    }

    #[test]
    fn pieces_are_whole_packets_with_right_checksums() {
        let meta = TxMeta {
            l2_len: 14,
            l3_len: 20,
            l4_len: 20,
            ip_checksum: true,
            l4: L4Offload::Tcp,
            tso_segment: 100,
            ..TxMeta::default()
        };
        let pieces = segment(&super_segment(250), meta);
        let mut payload = Vec::new();
        let mut flags = Vec::new();
        for (i, piece) in pieces.iter().enumerate() {
            let all =
                Offloads { rx_ip_checksum: true, rx_tcp_checksum: true, ..Offloads::default() };
            let seen = ingress(piece, &all);
            assert_eq!((seen.l3_checksum, seen.l4_checksum), (Checksum::Good, Checksum::Good));
            let bytes = Transport::of(piece).unwrap().bytes(piece);
            let (header, _) = wire::tcp::parse(bytes, bytes.len()).unwrap();
            assert_eq!(header.seq, 0xffff_fff0_u32.wrapping_add(100 * i as u32));
            assert_eq!(piece[18..20], (0xffff_u16.wrapping_add(i as u16)).to_be_bytes());
            payload.extend_from_slice(&bytes[20..]);
            flags.push(header.flags);
            let mut wrong = piece.clone();
            *wrong.last_mut().unwrap() ^= 1;
            assert_eq!(ingress(&wrong, &all).l4_checksum, Checksum::Bad);
        }
        assert_eq!(payload, (0..250).map(|i| i as u8).collect::<Vec<_>>());
        let ends = TcpFlags::PSH | TcpFlags::FIN;
        let expected = [TcpFlags::ACK | TcpFlags::CWR, TcpFlags::ACK, TcpFlags::ACK | ends];
        assert_eq!(flags, expected);
    }
}
