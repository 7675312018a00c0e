//! What is on the wire, held against what was said before.

use std::collections::BTreeMap;

use core::net::IpAddr;

use wire::{EtherType, Mac, TcpHeader, TcpOptions, checksum, ethernet, ipv4, ipv6, protocol, tcp};

use super::app::pattern;
use crate::frames::OUR_MAC;

/// Bytes that may wait for the device, more than a send buffer.
const WAITING_MAX: i64 = 1 << 20;

/// A TCP segment in a frame.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    pub(super) v6: bool,
    pub(super) header: TcpHeader,
    pub(super) options: TcpOptions,
    pub(super) payload: &'a [u8],
    /// The checksum is right.
    sound: bool,
}

impl<'a> Seen<'a> {
    /// The segment in a frame, if there is one that is no fragment.
    pub(super) fn of(frame: &'a [u8]) -> Option<Self> {
        let link = ethernet::parse(frame).ok()?;
        let packet = frame.get(link.len..)?;
        let (src, dst, proto, at, len): (IpAddr, IpAddr, u8, usize, usize) = match link.ethertype {
            EtherType::IPV4 => {
                let h = ipv4::parse(packet, packet.len(), false).ok()?;
                if h.fragment.is_some() {
                    return None;
                }
                (h.src.into(), h.dst.into(), h.protocol, h.header_len, h.payload_len())
            }
            EtherType::IPV6 => {
                let h = ipv6::parse(packet, packet.len()).ok()?;
                if h.fragment.is_some() {
                    return None;
                }
                (h.src.into(), h.dst.into(), h.protocol, h.transport_offset, h.transport_len)
            }
            _ => return None,
        };
        if proto != protocol::TCP {
            return None;
        }
        let segment = packet.get(at..at + len)?;
        let (header, options) = tcp::parse(segment, len).ok()?;
        let pseudo = checksum::pseudo(src, dst, proto, len)?;
        let sound = checksum::verify(pseudo, [segment], len);
        let payload = &segment[header.header_len..];
        Some(Self { v6: src.is_ipv6(), header, options, payload, sound })
    }

    pub(super) fn end(&self) -> u32 {
        let flags = self.header.flags;
        let extra = u32::from(flags.syn()) + u32::from(flags.fin());
        self.header.seq.wrapping_add(self.payload.len() as u32).wrapping_add(extra)
    }
}

/// Each frame of ours must be sound, whatever it carries.
pub(super) fn check_frame(frame: &[u8], mtu: usize) {
    let link = ethernet::parse(frame).expect("a sound link header");
    assert_eq!(link.src, OUR_MAC);
    assert!(link.dst != OUR_MAC && link.dst != Mac::ZERO);
    let packet = &frame[link.len..];
    assert!(packet.len() <= mtu, "a packet of {} bytes", packet.len());
    match link.ethertype {
        EtherType::IPV4 => {
            let h = ipv4::parse(packet, packet.len(), true).expect("a sound IPv4 header");
            assert_eq!(h.total_len, packet.len());
        }
        EtherType::IPV6 => {
            let h = ipv6::parse(packet, packet.len()).expect("a sound IPv6 header");
            assert_eq!(h.total_len(), packet.len());
        }
        EtherType::ARP => assert!(wire::arp::parse(packet).is_ok(), "a sound ARP packet"),
        other => panic!("a frame of type {other:?}"),
    }
    if let Some(seen) = Seen::of(frame) {
        assert!(seen.sound, "wrong checksum in {:?}", seen.header);
        let flags = seen.header.flags;
        assert!(tcp::check_flags(flags).is_ok(), "{flags:?}");
        assert!(seen.payload.is_empty() || flags.ack() && !flags.rst(), "{flags:?} with data");
    }
}

/// One connection of ours, since its SYN. Places are counted from our initial sequence number.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    iss: u32,
    /// Our scale, if both sides offered one.
    scale: u8,
    /// The furthest edge that we have offered.
    offered: Option<u32>,
    /// The end of what was sent.
    sent: i64,
    /// The furthest edge that was offered to us.
    limit: i64,
}

/// All connections, by family and the two ports (the peer's first).
#[derive(Debug, Default)]
pub(super) struct Watch {
    flows: BTreeMap<(bool, u16, u16), Flow>,
    /// Windows in SYNs to us, before there is a flow.
    syn_windows: BTreeMap<(bool, u16, u16), i64>,
}

impl Watch {
    /// The stack has sent a segment. `peer_scale`: the scale that the peer offers in each SYN.
    pub(super) fn on_sent(&mut self, seen: &Seen<'_>, peer_scale: Option<u8>, tainted: bool) {
        let header = &seen.header;
        let key = (seen.v6, header.dst_port, header.src_port);
        if header.flags.rst() {
            return;
        }
        if header.flags.syn() {
            let scale = match (seen.options.window_scale, peer_scale) {
                (Some(ours), Some(_)) => ours.min(14),
                _ => 0,
            };
            let limit = 1 + self.syn_windows.get(&key).copied().unwrap_or(0);
            let again = self.flows.get(&key).filter(|flow| flow.iss == header.seq);
            let (sent, old) = again.map_or((1, 0), |flow| (flow.sent, flow.limit));
            let limit = limit.max(old);
            let flow = Flow { iss: header.seq, scale, offered: None, sent, limit };
            self.flows.insert(key, flow);
        }
        let Some(flow) = self.flows.get_mut(&key) else { return };
        let place = |seq: u32| i64::from(seq.wrapping_sub(flow.iss) as i32);
        let start = place(header.seq) + i64::from(header.flags.syn());
        let end = start + seen.payload.len() as i64;
        flow.sent = flow.sent.max(place(seen.end()));
        if !tainted {
            assert!(
                seen.payload.len() <= 1 || end <= flow.limit,
                "{header:?} with {} bytes ends {} beyond what was offered",
                seen.payload.len(),
                end - flow.limit
            );
        }
        for (i, byte) in seen.payload.iter().enumerate() {
            let at = start - 1 + i as i64;
            assert_eq!(*byte, pattern(at as u32), "byte {at} of the stream, {header:?}");
        }
        if header.flags.ack() {
            let shift = if header.flags.syn() { 0 } else { flow.scale };
            let edge = header.ack.wrapping_add(u32::from(header.window) << shift);
            let unit = 1_i32 << shift;
            let moved = flow.offered.map_or(0, |last| edge.wrapping_sub(last) as i32);
            // What a mutated segment has made of the connection may be another connection.
            assert!(tainted || moved > -unit, "{header:?}: the edge went back by {}", -moved);
            if flow.offered.is_none() || moved > 0 {
                flow.offered = Some(edge);
            }
        }
    }

    /// A segment reaches the stack, right or wrong: it can offer no more than this.
    pub(super) fn on_arrived(&mut self, seen: &Seen<'_>, peer_scale: Option<u8>) {
        let header = &seen.header;
        let key = (seen.v6, header.src_port, header.dst_port);
        let window = i64::from(header.window);
        if header.flags.syn() {
            let old = self.syn_windows.entry(key).or_default();
            *old = window.max(*old);
        }
        let Some(flow) = self.flows.get_mut(&key) else { return };
        if header.flags.syn() {
            flow.limit = flow.limit.max(1 + window);
        }
        let acked = i64::from(header.ack.wrapping_sub(flow.iss) as i32);
        // RFC 9293 section 3.10.7.4: what acknowledges more than was sent is dropped. Some may have
        // been sent that still waits for room in the device.
        if header.flags.ack() && acked <= flow.sent + WAITING_MAX {
            let edge = acked + (window << peer_scale.unwrap_or(0).min(14));
            flow.limit = flow.limit.max(edge);
        }
    }
}

/// A net is to be trusted only after it has caught something.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::{OUR_IP, PEER_IP, frame, segment};
    use base::TcpFlags;
    use wire::TcpFields;

    const ISS: u32 = 5000;

    fn ours(seq: u32, ack: u32, window: u16, payload: &[u8]) -> Vec<u8> {
        let fields = TcpFields {
            src_port: 80,
            dst_port: 1000,
            seq: ISS.wrapping_add(seq),
            ack,
            flags: TcpFlags::ACK,
            window,
            ..TcpFields::default()
        };
        let body = segment(OUR_IP.into(), PEER_IP.into(), &fields, payload);
        frame(OUR_IP.into(), PEER_IP.into(), protocol::TCP, &body)
    }

    fn bytes(place: u32, len: u32) -> Vec<u8> {
        (place..place + len).map(pattern).collect()
    }

    /// After a handshake with a scale of 2 on both sides, in which the peer has offered 1000 bytes.
    fn watch() -> Watch {
        let mut watch = Watch::default();
        let syn = TcpFields {
            src_port: 1000,
            dst_port: 80,
            flags: TcpFlags::SYN,
            window: 1000,
            ..TcpFields::default()
        };
        let body = segment(PEER_IP.into(), OUR_IP.into(), &syn, b"");
        let arrived = frame(PEER_IP.into(), OUR_IP.into(), protocol::TCP, &body);
        watch.on_arrived(&Seen::of(&arrived).unwrap(), Some(2));
        let options = TcpOptions { window_scale: Some(2), ..TcpOptions::default() };
        let answer = TcpFields {
            src_port: 80,
            dst_port: 1000,
            seq: ISS,
            ack: 1,
            flags: TcpFlags::SYN | TcpFlags::ACK,
            window: 400,
            options,
            ..TcpFields::default()
        };
        let body = segment(OUR_IP.into(), PEER_IP.into(), &answer, b"");
        let sent = frame(OUR_IP.into(), PEER_IP.into(), protocol::TCP, &body);
        watch.on_sent(&Seen::of(&sent).unwrap(), Some(2), false);
        watch
    }

    fn send(watch: &mut Watch, frame: &[u8]) {
        watch.on_sent(&Seen::of(frame).unwrap(), Some(2), false);
    }

    #[test]
    fn what_was_offered_may_be_used_and_the_edge_may_lose_less_than_its_unit() {
        let mut watch = watch();
        send(&mut watch, &ours(1, 1, 100, &bytes(0, 500)));
        send(&mut watch, &ours(501, 1, 100, &bytes(500, 500)));
        send(&mut watch, &ours(1, 4, 99, &bytes(0, 500)));
        send(&mut watch, &ours(1001, 5, 99, &bytes(1000, 1)));
    }

    #[test]
    #[should_panic(expected = "ends 1 beyond")]
    fn a_byte_beyond_the_window_is_noticed() {
        send(&mut watch(), &ours(501, 1, 100, &bytes(500, 501)));
    }

    #[test]
    #[should_panic(expected = "byte 2 of the stream")]
    fn a_wrong_byte_is_noticed() {
        send(&mut watch(), &ours(1, 1, 100, &[pattern(0), pattern(1), 99]));
    }

    #[test]
    #[should_panic(expected = "went back by 4")]
    fn an_edge_that_goes_back_is_noticed() {
        let mut watch = watch();
        send(&mut watch, &ours(1, 1, 100, b""));
        send(&mut watch, &ours(1, 1, 99, b""));
    }

    #[test]
    #[should_panic(expected = "wrong checksum")]
    fn a_wrong_checksum_is_noticed() {
        let mut frame = ours(1, 1, 100, &bytes(0, 4));
        frame[0..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
        check_frame(&frame, 1500);
        frame[50] ^= 1;
        check_frame(&frame, 1500);
    }
}
