//! The other ends: where each stands, and the segments that they send.

use core::net::IpAddr;

use base::TcpFlags;
use wire::{TcpFields, TcpOptions, protocol};

use super::app::{PERIOD, PORT, pattern};
use crate::frames::{self, OUR_IP, OUR_IP6, PEER_IP, PEER_IP6};

/// Ends at the peer, half of which call and half of which are called.
pub(super) const PEERS: usize = 8;

/// One end at the peer. Its numbers are the best that an honest peer could know.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) port: u16,
    pub(super) our_port: u16,
    pub(super) v6: bool,
    /// Initial sequence number of the stack, once seen.
    pub(super) iss: Option<u32>,
    /// What the stack has sent ends here.
    pub(super) sent_to: u32,
    /// What we have acknowledged.
    pub(super) acked: u32,
    /// What the stack expects next, as it says.
    pub(super) expected: u32,
    /// The window scale that we offer, always the same.
    pub(super) scale: Option<u8>,
    pub(super) sack: bool,
    /// Timestamps are used.
    pub(super) timestamps: bool,
    /// The stack's latest TSval.
    pub(super) ts_echo: u32,
    pub(super) window: u16,
}

impl Peer {
    pub(super) fn new(index: usize, scale: Option<u8>) -> Self {
        let calls = index < PEERS / 2;
        Self {
            port: if calls { 1000 } else { 2000 } + index as u16,
            our_port: PORT,
            v6: index % 2 == 1,
            iss: None,
            sent_to: 0,
            acked: 0,
            expected: 0,
            scale,
            sack: true,
            timestamps: false,
            ts_echo: 0,
            window: 8000,
        }
    }

    /// Peer, then us.
    pub(super) fn addresses(&self) -> (IpAddr, IpAddr) {
        if self.v6 { (PEER_IP6.into(), OUR_IP6.into()) } else { (PEER_IP.into(), OUR_IP.into()) }
    }

    /// Where a stream can begin so that its pattern is right: some just before the wrap.
    pub(super) fn isn(choice: u8) -> u32 {
        let first: u32 = match choice % 4 {
            0 => 0,
            1 => 0_u32.wrapping_sub(PERIOD),
            2 => (1 << 31) - PERIOD,
            _ => u32::from(choice) << 20,
        };
        first.wrapping_sub(1)
    }

    fn options(&self, syn: bool, now_ms: u32) -> TcpOptions {
        let mut options = TcpOptions {
            timestamps: self.timestamps.then_some((now_ms, self.ts_echo)),
            ..TcpOptions::default()
        };
        if syn {
            options.mss = Some(if self.v6 { 1220 } else { 536 });
            options.window_scale = self.scale;
            options.sack_permitted = self.sack;
        }
        options
    }

    /// A frame with a segment; the payload is the pattern at its place.
    pub(super) fn segment(&self, s: &Shape, now_ms: u32) -> Vec<u8> {
        let syn = s.flags.syn();
        let seq = if syn { (s.seq & !(PERIOD - 1)).wrapping_sub(1) } else { s.seq };
        let mut options = self.options(syn, now_ms);
        if !syn {
            options.sack = s.sack.iter().copied().collect();
        }
        let fields = TcpFields {
            src_port: self.port,
            dst_port: self.our_port,
            seq,
            ack: if s.flags.ack() { s.ack } else { 0 },
            flags: s.flags,
            window: s.window,
            urgent: s.urgent,
            options,
        };
        let first = seq.wrapping_add(u32::from(syn));
        let payload: Vec<u8> = (0..s.len).map(|i| pattern(first.wrapping_add(i))).collect();
        let (src, dst) = self.addresses();
        let body = frames::segment(src, dst, &fields, &payload);
        frames::frame(src, dst, protocol::TCP, &body)
    }

    /// What an honest peer would send: in order, with everything acknowledged.
    pub(super) fn honest(&self, len: u32) -> Shape {
        Shape {
            flags: TcpFlags::ACK,
            seq: self.expected,
            ack: self.sent_to,
            len,
            window: self.window,
            sack: Vec::new(),
            urgent: 0,
        }
    }
}

/// A segment to be made.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) flags: TcpFlags,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) len: u32,
    pub(super) window: u16,
    /// At most three.
    pub(super) sack: Vec<(u32, u32)>,
    pub(super) urgent: u16,
}
