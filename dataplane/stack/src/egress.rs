//! From plans to frames.
//!
//! A frame is a header buffer chained to references into the application's stored bytes. The headers
//! of a plan are laid out once and patched for each segment (segmentation in software), or sent once
//! for all of them (by the device). What fits a header buffer whole is copied there: for so few
//! bytes, a second buffer costs more than the copy.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use arrayvec::ArrayVec;
use base::{Capabilities, Checksum, Device, Frame, TcpFlags};
use tcp::{Plan, SeqNum};
use wire::Mac;
use wire::checksum::Accumulator;

use crate::familiar::Familiar;
use crate::ingress::ChecksumWatch;
use crate::links::ConnList;
use crate::neighbor::Neighbors;
use crate::template::{Part, Template};
use crate::{ChecksumPolicy, PortSetup, StackCounters};

/// Frames planned in one turn at most.
const TX_FRAMES_PER_TURN: usize = 256;
/// Answers that no connection sends (resets, ICMP, neighbour discovery) while frames wait for the
/// device; beyond that they are not made.
const TX_ANSWERS_WAITING: usize = 64;
/// Parts of a chained frame besides its headers, whatever more the device takes.
const PIECES_MAX: usize = 48;
/// Bytes of an IP packet that a device may be asked to cut up.
const TSO_PACKET_MAX: usize = 65_535;

/// A part of the payload of a segment, where it is stored.
pub(crate) struct Piece<'a, F> {
    /// A frame of one buffer.
    pub(crate) frame: &'a F,
    /// Where the part begins in it.
    pub(crate) offset: usize,
    /// Its bytes.
    pub(crate) len: usize,
    /// Its partial sum, if it is known.
    pub(crate) sum: Option<u32>,
}

impl<F: Frame> Piece<'_, F> {
    fn bytes(&self) -> &[u8] {
        self.frame.head().get(self.offset..self.offset + self.len).unwrap_or(&[])
    }
}

/// Where stored payload comes from.
pub(crate) trait Payload<F> {
    /// The parts of `len` bytes from `seq` on, in order. Fewer if they are not there.
    fn pieces<'a>(&'a self, seq: SeqNum, len: usize) -> impl Iterator<Item = Piece<'a, F>>
    where
        F: 'a;

    /// The buffer that holds the `len` bytes from `seq` on and no others, with their partial sum, if
    /// there is one.
    fn whole(&mut self, seq: SeqNum, len: usize) -> Option<(&mut F, u32)>;
}

/// Segments without payload.
pub(crate) struct NoPayload;

impl<F> Payload<F> for NoPayload {
    fn pieces<'a>(&'a self, _seq: SeqNum, _len: usize) -> impl Iterator<Item = Piece<'a, F>>
    where
        F: 'a,
    {
        core::iter::empty()
    }

    fn whole(&mut self, _seq: SeqNum, _len: usize) -> Option<(&mut F, u32)> {
        None
    }
}

/// The device, the frames that wait for it, and what belongs to its link.
pub(crate) struct Port<D: Device> {
    pub(crate) device: D,
    tx: VecDeque<D::Frame>,
    /// Bytes of frames queued since the last flush.
    bytes_queued: u64,
    pub(crate) mac: Mac,
    /// Largest IP packet, sent or received.
    pub(crate) mtu: u16,
    /// Received frames are believed where the device says nothing.
    pub(crate) trust: bool,
    pub(crate) checksums: ChecksumWatch,
    pub(crate) familiar: Familiar,
    /// Connections that may have something to send by this port.
    pub(crate) ready: ConnList,
    pub(crate) neighbors: Neighbors<D::Frame>,
}

impl<D: Device> Port<D> {
    pub(crate) fn new(
        device: D,
        setup: &PortSetup,
        neighbors_max: u32,
        neighbor_reachable: Duration,
    ) -> Self {
        let tx = VecDeque::with_capacity(TX_FRAMES_PER_TURN + 2 * TX_ANSWERS_WAITING);
        let caps = *device.capabilities();
        let own: Vec<IpAddr> = setup.addresses.iter().map(|a| a.addr).collect();
        let gateways = [setup.gateway4.map(IpAddr::V4), setup.gateway6.map(IpAddr::V6)];
        let gateways: Vec<IpAddr> = gateways.into_iter().flatten().collect();
        Self {
            device,
            tx,
            bytes_queued: 0,
            mac: Mac(caps.mac),
            mtu: setup.mtu.min(caps.mtu),
            trust: setup.rx_checksum == ChecksumPolicy::Trust,
            checksums: ChecksumWatch::Wrong(0),
            familiar: Familiar::new(),
            ready: ConnList::new(|conn| &mut conn.ready),
            neighbors: Neighbors::new(neighbors_max, &own, &gateways, neighbor_reachable),
        }
    }

    /// Whether a received checksum needs no look of ours.
    #[inline]
    pub(crate) fn believes(&self, verdict: Checksum) -> bool {
        verdict == Checksum::Good || (self.trust && verdict == Checksum::Unknown)
    }

    /// Frames wait for the device: nothing new is to be planned.
    pub(crate) fn is_backed_up(&self) -> bool {
        !self.tx.is_empty()
    }

    /// How many frames may be planned, if nothing waits.
    pub(crate) fn frames_per_turn(&self) -> u32 {
        usize::from(self.device.capabilities().tx_ring).min(TX_FRAMES_PER_TURN) as u32
    }

    /// Whether there is room for an answer that is not planned.
    pub(crate) fn has_answer_room(&self) -> bool {
        self.tx.len() < TX_FRAMES_PER_TURN + TX_ANSWERS_WAITING
    }

    /// Let a finished frame go out with the next burst.
    pub(crate) fn push(&mut self, frame: D::Frame) {
        self.bytes_queued += frame.len() as u64;
        self.tx.push_back(frame);
    }

    /// Offer what waits to the device. Returns the frames taken.
    pub(crate) fn flush(&mut self, counters: &mut StackCounters) -> u32 {
        if self.tx.is_empty() {
            return 0;
        }
        let taken = self.device.tx_burst(&mut self.tx) as u64;
        counters.frames_tx += taken;
        // Counted when queued: looking at what is left would touch every waiting frame each turn.
        counters.bytes_tx += core::mem::take(&mut self.bytes_queued);
        if !self.tx.is_empty() {
            counters.tx_refused += 1;
        }
        taken as u32
    }

    /// Make the frames of `plan` and hand each to `send`. Returns how many segments were made; fewer
    /// than planned when buffers run out.
    pub(crate) fn emit<P: Payload<D::Frame>>(
        &mut self,
        template: &mut Template,
        plan: &Plan,
        payload: &mut P,
        mut send: impl FnMut(&mut Self, D::Frame),
    ) -> u32 {
        let total = plan.segs();
        let per_frame = self.segments_per_frame(template, plan);
        let mut made = 0;
        while made < total {
            let begin = made.saturating_mul(plan.seg_size);
            let left = plan.len.saturating_sub(begin);
            let mut count = per_frame.min(total - made);
            if count > 1 {
                let len = left.min(count.saturating_mul(plan.seg_size));
                let room = self.pieces_fitting(payload, plan.seq.add(begin), len);
                if room < len {
                    count = (room / plan.seg_size).max(1);
                }
            }
            // What reduced the window is said once, by the first segment. Not all devices take the bit off
            // the others when they cut a frame up, so that one goes alone.
            let reduced = template.flags().intersects(TcpFlags::CWR);
            if reduced && made == 0 {
                count = 1;
            }
            let len = left.min(count.saturating_mul(plan.seg_size));
            let last = made + count == total;
            let mut flags = template.flags();
            if !last {
                flags = flags.without(TcpFlags::FIN | TcpFlags::PSH);
            }
            if made > 0 {
                flags = flags.without(TcpFlags::CWR);
            }
            let part = Part {
                seq: plan.seq.add(begin),
                len: len as usize,
                flags,
                segment: (count > 1).then_some(plan.seg_size as u16),
            };
            let Some(frame) = self.frame(template, &part, payload) else { break };
            send(self, frame);
            made += count;
        }
        made
    }

    /// How many segments go into one frame: more than one only if the device cuts it up.
    fn segments_per_frame(&self, template: &Template, plan: &Plan) -> u32 {
        let offloads = &self.device.capabilities().offloads;
        let size = plan.seg_size as usize;
        // Each segment of IPv4 gets a header of its own, which only the device can sum.
        let sums = offloads.tx_tcp_checksum && (template.is_ipv6() || offloads.tx_ip_checksum);
        if !(offloads.tso && sums && offloads.multi_segment) || size == 0 {
            return 1;
        }
        let room = TSO_PACKET_MAX - template.packet_header_len();
        (room / size).max(1) as u32
    }

    /// Parts of payload that a frame may have besides its headers.
    fn pieces_max(&self) -> usize {
        let caps = self.device.capabilities();
        let most = usize::from(caps.tx_segments_max).saturating_sub(1).min(PIECES_MAX);
        if caps.offloads.multi_segment { most } else { 0 }
    }

    /// How many of `len` bytes from `seq` on fit one chain.
    fn pieces_fitting<P: Payload<D::Frame>>(&self, payload: &P, seq: SeqNum, len: u32) -> u32 {
        let pieces = payload.pieces(seq, len as usize).take(self.pieces_max());
        pieces.map(|piece| piece.len as u32).sum()
    }

    /// One frame, or `None` when buffers have run out.
    fn frame<P: Payload<D::Frame>>(
        &mut self,
        template: &mut Template,
        part: &Part,
        payload: &mut P,
    ) -> Option<D::Frame> {
        let caps = *self.device.capabilities();
        let whole = template.header_len() + part.len;
        let mut frame = if whole <= caps.header_room as usize && part.segment.is_none() {
            let frame = self.device.alloc()?;
            self.flat_frame(frame, template, part, payload, &caps)?
        } else if let Some(frame) = self.prefixed_frame(template, part, payload, &caps) {
            frame
        } else {
            let mut pieces = ArrayVec::<_, PIECES_MAX>::new();
            pieces.extend(payload.pieces(part.seq, part.len).take(self.pieces_max()));
            if pieces.iter().map(|p| p.len).sum::<usize>() == part.len {
                self.chained_frame(template, part, &pieces, &caps)?
            } else if part.segment.is_none() {
                drop(pieces);
                let frame = self.device.payload_alloc()?;
                self.flat_frame(frame, template, part, payload, &caps)?
            } else {
                return None;
            }
        };
        frame.set_tx_meta(template.meta(&caps, part));
        Some(frame)
    }

    /// Headers and payload copied into one empty buffer.
    fn flat_frame<P: Payload<D::Frame>>(
        &self,
        mut frame: D::Frame,
        template: &mut Template,
        part: &Part,
        payload: &mut P,
        caps: &Capabilities,
    ) -> Option<D::Frame> {
        let header_len = template.header_len();
        let out = frame.push_back(header_len + part.len)?;
        let (headers, body) = out.split_at_mut(header_len);
        let sum = if part.len == 0 {
            0
        } else if let Some((whole, sum)) = payload.whole(part.seq, part.len) {
            body.copy_from_slice(whole.head().get(..part.len)?);
            sum
        } else {
            let mut sum = Accumulator::default();
            let mut at = 0;
            for piece in payload.pieces(part.seq, part.len) {
                let bytes = piece.bytes();
                let to = body.get_mut(at..at + bytes.len())?;
                sum.add_sum(accel::copy_and_checksum(to, bytes), bytes.len());
                at += bytes.len();
            }
            debug_assert_eq!(at, part.len, "the plan names bytes that are not stored");
            if at != part.len {
                return None;
            }
            sum.sum()
        };
        let sum = (!caps.offloads.tx_tcp_checksum).then_some(sum);
        template.write(headers, part, sum, caps);
        Some(frame)
    }

    /// A reference to the payload's own buffer, with the headers written in front of it: the cheapest
    /// frame there is. `None` where the bytes are not one buffer, or a driver still refers to it, as
    /// when it is sent again soon: then the bytes in front may not be written.
    fn prefixed_frame<P: Payload<D::Frame>>(
        &mut self,
        template: &mut Template,
        part: &Part,
        payload: &mut P,
        caps: &Capabilities,
    ) -> Option<D::Frame> {
        let (whole, sum) = payload.whole(part.seq, part.len)?;
        let headers = whole.push_front(template.header_len())?;
        template.write(headers, part, (!caps.offloads.tx_tcp_checksum).then_some(sum), caps);
        let frame = self.device.share(whole, 0, template.header_len() + part.len);
        whole.trim_front(template.header_len());
        frame
    }

    /// A header buffer and references to the payload where it is.
    fn chained_frame(
        &mut self,
        template: &mut Template,
        part: &Part,
        pieces: &[Piece<'_, D::Frame>],
        caps: &Capabilities,
    ) -> Option<D::Frame> {
        let mut frame = self.device.alloc()?;
        let offload = caps.offloads.tx_tcp_checksum;
        let mut sum = Accumulator::default();
        if !offload {
            for piece in pieces {
                let known = piece.sum.unwrap_or_else(|| accel::checksum(piece.bytes(), 0));
                sum.add_sum(known, piece.len);
            }
        }
        let headers = frame.push_back(template.header_len())?;
        template.write(headers, part, (!offload).then(|| sum.sum()), caps);
        for piece in pieces {
            frame.chain(self.device.share(piece.frame, piece.offset, piece.len)?);
        }
        Some(frame)
    }
}
