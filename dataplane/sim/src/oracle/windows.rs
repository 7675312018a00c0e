//! Windows as seen on the wire, RFC 9293 section 3.8.6.
//!
//! ```text
//!   y's receive space:   ack ............ edge = ack + (wnd << scale)
//!                                          | never moves back as y sends segments (but for what
//!                                          | the scale rounds off, RFC 7323 section 2.4),
//!                                          | never passed by what x sends, of those that reached x
//! ```

use std::collections::BTreeMap;

use core::net::{IpAddr, SocketAddr};
use wire::tcp::TcpHeader;
use wire::{protocol, tcp};

use super::Violation;
use crate::nic::Transport;

/// Flows watched at once; a world has far fewer, and beyond it the oldest addresses go unwatched.
const FLOWS_MAX: usize = 65_536;

/// From whom the segments come, and to whom they go.
type Flow = (SocketAddr, SocketAddr);

/// What one end has said in its segments.
#[derive(Clone, Copy, Debug, Default)]
struct Half {
    /// `Some`: its SYN was seen; the shift that it would use if both offer one.
    syn: Option<Option<u8>>,
    /// The furthest edge that it has offered.
    offered: Option<u32>,
    /// The furthest edge that has reached the other end.
    reached: Option<u32>,
}

/// All flows of a world.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    halves: BTreeMap<Flow, Half>,
}

struct Seen {
    flow: Flow,
    header: TcpHeader,
    window_scale: Option<u8>,
    payload: u32,
}

impl Seen {
    fn of(frame: &[u8]) -> Option<Self> {
        let transport = Transport::of(frame)?;
        if transport.protocol != protocol::TCP || !transport.verifies(frame) {
            return None;
        }
        let bytes = transport.bytes(frame);
        let (header, options) = tcp::parse(bytes, bytes.len()).ok()?;
        let end = |ip: IpAddr, port| SocketAddr::new(ip, port);
        Some(Self {
            flow: (end(transport.src, header.src_port), end(transport.dst, header.dst_port)),
            header,
            window_scale: options.window_scale,
            payload: (bytes.len() - header.header_len) as u32,
        })
    }
}

impl Windows {
    fn half(&self, flow: Flow) -> Half {
        self.halves.get(&flow).copied().unwrap_or_default()
    }

    fn set(&mut self, flow: Flow, half: Half) {
        if self.halves.len() < FLOWS_MAX || self.halves.contains_key(&flow) {
            self.halves.insert(flow, half);
        }
    }

    /// The edge that a segment offers, and the unit of its window; none without ACK and for resets,
    /// whose window means nothing.
    fn edge(&self, seen: &Seen) -> Option<(u32, i32)> {
        let header = &seen.header;
        if !header.flags.ack() || header.flags.rst() {
            return None;
        }
        let (from, to) = seen.flow;
        let (own, peer) = (self.half((from, to)).syn?, self.half((to, from)).syn?);
        // RFC 7323 section 2.2: never scaled in a SYN, and only if both sides have offered it.
        let shift = match (own, peer) {
            (Some(own), Some(_)) if !header.flags.syn() => own.min(14),
            _ => 0,
        };
        Some((header.ack.wrapping_add(u32::from(header.window) << shift), 1 << shift))
    }

    /// A host sends `frame`.
    pub(crate) fn on_sent(&mut self, frame: &[u8]) -> Result<(), Violation> {
        let Some(seen) = Seen::of(frame) else { return Ok(()) };
        let (from, to) = seen.flow;
        let mut own = self.half(seen.flow);
        if seen.header.flags.syn() {
            if !seen.header.flags.ack() {
                // A new connection, or the same SYN again.
                self.halves.remove(&(to, from));
            }
            own = Half { syn: Some(seen.window_scale), ..Half::default() };
            self.set(seen.flow, own);
        }
        if let Some(limit) = self.half((to, from)).reached {
            let end = seen.header.seq.wrapping_add(seen.payload);
            let beyond = end.wrapping_sub(limit) as i32;
            // RFC 9293 section 3.8.6.1: a probe may carry one byte into a closed window.
            if seen.payload > 1 && beyond > 0 {
                let detail = format!(
                    "{from} > {to} seq {} len {} ends {beyond} beyond {limit}",
                    seen.header.seq, seen.payload
                );
                return Err(Violation::WindowExceeded { detail });
            }
        }
        let Some((edge, unit)) = self.edge(&seen) else { return Ok(()) };
        let moved = own.offered.map_or(0, |last| edge.wrapping_sub(last) as i32);
        if let Some(last) = own.offered
            && moved <= -unit
        {
            let detail = format!(
                "{from} > {to} ack {} window {}: edge {edge}, was {last}",
                seen.header.ack, seen.header.window
            );
            return Err(Violation::WindowShrunk { detail });
        }
        if own.offered.is_none() || moved > 0 {
            own.offered = Some(edge);
            self.set(seen.flow, own);
        }
        Ok(())
    }

    /// `frame` has reached a host. If its checksum is wrong, it has said nothing.
    pub(crate) fn on_arrived(&mut self, frame: &[u8]) {
        let Some(seen) = Seen::of(frame) else { return };
        let Some((edge, _)) = self.edge(&seen) else { return };
        let mut half = self.half(seen.flow);
        if half.reached.is_none_or(|old| (edge.wrapping_sub(old) as i32) > 0) {
            half.reached = Some(edge);
            self.set(seen.flow, half);
        }
    }
}

#[cfg(test)]
mod tests {
    use base::TcpFlags;
    use wire::ethernet::{self, EtherType, Mac};
    use wire::tcp::{TcpFields, TcpOptions};
    use wire::{checksum, ipv4};

    use super::*;

    const A: [u8; 4] = [10, 0, 0, 1];
    const B: [u8; 4] = [10, 0, 0, 2];

    /// A segment from port 1 of `src` to port 1 of `dst`.
    fn segment(src: [u8; 4], dst: [u8; 4], fields: &TcpFields, payload: usize) -> Vec<u8> {
        let fields = TcpFields { src_port: 1, dst_port: 1, ..fields.clone() };
        let mut frame = vec![0; 200];
        let l3 = ethernet::emit(
            &mut frame,
            Mac([2, 0, 0, 0, 0, 1]),
            Mac([2, 0, 0, 0, 0, 2]),
            None,
            EtherType::IPV4,
        );
        let l4_len = fields.header_len() + payload;
        let l4 = l3 + ipv4::HEADER_LEN;
        frame[l3] = 0x45;
        frame[l3 + 2..l3 + 4].copy_from_slice(&((20 + l4_len) as u16).to_be_bytes());
        frame[l3 + 8] = 64;
        frame[l3 + 9] = protocol::TCP;
        frame[l3 + 12..l3 + 16].copy_from_slice(&src);
        frame[l3 + 16..l4].copy_from_slice(&dst);
        tcp::emit(&mut frame[l4..], &fields);
        frame.truncate(l4 + l4_len);
        let pseudo = checksum::pseudo_v4(src.into(), dst.into(), protocol::TCP, l4_len);
        let sum = checksum::finish(pseudo, &frame[l4..], 0);
        tcp::set_checksum(&mut frame[l4..], sum);
        frame
    }

    /// A and B have shaken hands from sequence number 0 with a shift of 4; B offers 16 KiB.
    fn established() -> Windows {
        let mut w = Windows::default();
        let options = TcpOptions { window_scale: Some(4), ..TcpOptions::default() };
        let syn = TcpFields { flags: TcpFlags::SYN, window: 1000, options, ..TcpFields::default() };
        let syn_ack = TcpFields { flags: TcpFlags::SYN | TcpFlags::ACK, ack: 1, ..syn.clone() };
        for (src, dst, fields) in [(A, B, &syn), (B, A, &syn_ack)] {
            let frame = segment(src, dst, fields, 0);
            w.on_sent(&frame).unwrap();
            w.on_arrived(&frame);
        }
        offer(&mut w, 1, 1024, true).unwrap();
        w
    }

    fn ack(seq: u32, ack: u32, window: u16) -> TcpFields {
        TcpFields { flags: TcpFlags::ACK, seq, ack, window, ..TcpFields::default() }
    }

    /// B acknowledges and offers; the segment reaches A or is lost.
    fn offer(w: &mut Windows, number: u32, window: u16, arrives: bool) -> Result<(), Violation> {
        let frame = segment(B, A, &ack(1, number, window), 0);
        w.on_sent(&frame)?;
        if arrives {
            w.on_arrived(&frame);
        }
        Ok(())
    }

    fn send(w: &mut Windows, seq: u32, len: usize) -> Result<(), Violation> {
        w.on_sent(&segment(A, B, &ack(seq, 1, 1000), len))
    }

    #[test]
    fn the_edge_may_lose_less_than_a_unit_and_no_more() {
        let mut w = established();
        assert_eq!(offer(&mut w, 101, 1017, true), Ok(()), "twelve bytes rounded off");
        let shrunk = offer(&mut w, 102, 1016, true);
        assert!(matches!(shrunk, Err(Violation::WindowShrunk { .. })), "{shrunk:?}");
    }

    #[test]
    fn data_must_end_within_what_has_reached_the_sender() {
        let mut w = established();
        assert_eq!(send(&mut w, 16_285, 100), Ok(()));
        let exceeded = send(&mut w, 16_286, 100);
        assert!(matches!(exceeded, Err(Violation::WindowExceeded { .. })), "{exceeded:?}");
        // An offer that was lost does not count; one that came does.
        offer(&mut w, 1001, 1024, false).unwrap();
        assert!(send(&mut w, 16_286, 100).is_err());
        offer(&mut w, 1001, 1024, true).unwrap();
        assert_eq!(send(&mut w, 16_286, 100), Ok(()));
        // A probe of one byte may go beyond.
        assert_eq!(send(&mut w, 17_385, 1), Ok(()));
    }

    #[test]
    fn corrupted_segments_say_nothing() {
        let mut w = established();
        let mut frame = segment(B, A, &ack(1, 5000, 1024), 0);
        let last = frame.len() - 5;
        frame[last] ^= 1;
        w.on_arrived(&frame);
        assert!(send(&mut w, 16_286, 100).is_err());
    }
}
