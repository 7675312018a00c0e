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
