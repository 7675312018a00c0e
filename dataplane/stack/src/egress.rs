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
use base::{Capabilities, Checksum, Device, Frame, L4Offload, TcpFlags, TxMeta};
use tcp::{Plan, SeqNum, UserTimeoutOption};
use wire::checksum::{self, Accumulator};
use wire::ipv4::{HeaderChecksum, Ipv4Fields};
use wire::ipv6::Ipv6Fields;
use wire::{EtherType, FlowKey, Mac, TcpFields, TcpOptions, ethernet, flow, ipv4, ipv6, protocol};

use crate::familiar::Familiar;
use crate::ingress::ChecksumWatch;
use crate::links::ConnList;
use crate::neighbor::Neighbors;
use crate::{ChecksumPolicy, PortSetup, StackCounters};

/// Ethernet, IPv6 and TCP with all options.
const HEADERS_MAX: usize = ethernet::HEADER_LEN + ipv6::HEADER_LEN + wire::tcp::HEADER_LEN_MAX;
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

/// The headers of a plan as they are on its segments, but for what differs between them.
pub(crate) struct Template {
    bytes: [u8; HEADERS_MAX],
    l3: usize,
    l4: usize,
    len: usize,
    ipv6: bool,
    /// Partial sum of the IPv4 header, total length and checksum being zero.
    l3_sum: u32,
    /// Partial sum of the pseudo header without the length.
    pseudo: u32,
    /// Partial sum of the TCP header, sequence number, flags and checksum being zero.
    l4_sum: u32,
    flags: TcpFlags,
}

impl Template {
    /// Headers for `plan` on the connection `key`.
    pub(crate) fn new(src: Mac, dst: Mac, key: &FlowKey, plan: &Plan, ttl: u8) -> Self {
        let mut bytes = [0; HEADERS_MAX];
        let ipv6 = key.is_ipv6();
        let ethertype = if ipv6 { EtherType::IPV6 } else { EtherType::IPV4 };
        let l3 = ethernet::emit(&mut bytes, dst, src, None, ethertype);
        let (network, pseudo) = match *key {
            FlowKey::V4 { local, remote, .. } => {
                let fields = Ipv4Fields {
                    src: local,
                    dst: remote,
                    protocol: protocol::TCP,
                    ttl,
                    tos: plan.ecn & 3,
                    // RFC 6864: what is never fragmented needs no identification.
                    ident: 0,
                    dont_fragment: true,
                    total_len: 0,
                };
                let len = ipv4::emit(&mut bytes[l3..], &fields, HeaderChecksum::Offload);
                (len, checksum::pseudo_v4(local, remote, protocol::TCP, 0))
            }
            FlowKey::V6 { local, remote, .. } => {
                let fields = Ipv6Fields {
                    src: local,
                    dst: remote,
                    traffic_class: plan.ecn & 3,
                    flow_label: flow::flow_label(plan.txhash),
                    hop_limit: ttl,
                    next_header: protocol::TCP,
                    payload_len: 0,
                };
                let len = ipv6::emit(&mut bytes[l3..], &fields);
                (len, checksum::pseudo_v6(local, remote, protocol::TCP, 0))
            }
        };
        let l4 = l3 + network;
        let sack = plan.options.sack.iter().map(|(l, r)| (l.get(), r.get())).collect();
        let fields = TcpFields {
            src_port: key.local_port(),
            dst_port: key.remote_port(),
            seq: 0,
            ack: if plan.flags.ack() { plan.ack.get() } else { 0 },
            flags: TcpFlags::empty(),
            window: plan.wnd,
            urgent: 0,
            options: TcpOptions {
                user_timeout: plan.options.user_timeout.map(UserTimeoutOption::field),
                mss: plan.options.mss,
                window_scale: plan.options.window_scale,
                sack_permitted: plan.options.sack_permitted,
                timestamps: plan.options.timestamps,
                sack,
                ..TcpOptions::default()
            },
        };
        let len = l4 + wire::tcp::emit(&mut bytes[l4..], &fields);
        let l3_sum = checksum::sum(&bytes[l3..l4], 0);
        let l4_sum = checksum::sum(&bytes[l4..len], 0);
        Self { bytes, l3, l4, len, ipv6, l3_sum, pseudo, l4_sum, flags: plan.flags }
    }

    fn header_len(&self) -> usize {
        self.len
    }

    /// Write the headers of one segment. `payload_sum`: `None` leaves the checksum to the device,
    /// whose field then holds the pseudo-header sum, without the length if it cuts the frame up.
    fn write(&self, out: &mut [u8], part: &Part, payload_sum: Option<u32>, port: &Capabilities) {
        out.copy_from_slice(&self.bytes[..self.len]);
        let l4_len = self.len - self.l4 + part.len;
        let (link_and_network, transport) = out.split_at_mut(self.l4);
        let network = &mut link_and_network[self.l3..];
        if self.ipv6 {
            network[4..6].copy_from_slice(&(l4_len as u16).to_be_bytes());
        } else {
            let total = (ipv4::HEADER_LEN + l4_len) as u16;
            network[2..4].copy_from_slice(&total.to_be_bytes());
            if !port.offloads.tx_ip_checksum {
                let sum = !checksum::fold(self.l3_sum + u32::from(total));
                network[10..12].copy_from_slice(&sum.to_be_bytes());
            }
        }
        transport[4..8].copy_from_slice(&part.seq.get().to_be_bytes());
        let [high, low] = part.flags.bits().to_be_bytes();
        transport[12] |= high;
        transport[13] |= low;
        let length = if part.segment.is_some() { 0 } else { l4_len as u32 };
        let pseudo = self.pseudo + (length & 0xffff) + (length >> 16);
        let field = match payload_sum {
            Some(sum) => {
                let seq = part.seq.get();
                let header = self.l4_sum + u32::from(part.flags.bits());
                !checksum::fold(pseudo + header + (seq >> 16) + (seq & 0xffff) + sum)
            }
            None => checksum::fold(pseudo),
        };
        wire::tcp::set_checksum(transport, field);
    }

    fn meta(&self, port: &Capabilities, part: &Part, l4_offload: bool) -> TxMeta {
        TxMeta {
            l2_len: self.l3 as u8,
            l3_len: (self.l4 - self.l3) as u16,
            l4_len: (self.len - self.l4) as u8,
            ipv6: self.ipv6,
            ip_checksum: port.offloads.tx_ip_checksum && !self.ipv6,
            l4: if l4_offload { L4Offload::Tcp } else { L4Offload::None },
            tso_segment: part.segment.unwrap_or(0),
        }
    }
}

/// What goes into one frame.
struct Part {
    seq: SeqNum,
    /// Bytes of payload.
    len: usize,
    flags: TcpFlags,
    /// Set if the device is to cut it into segments of this size.
    segment: Option<u16>,
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
        template: &Template,
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
            let len = left.min(count.saturating_mul(plan.seg_size));
            let last = made + count == total;
            let middle = template.flags.without(TcpFlags::FIN | TcpFlags::PSH);
            let part = Part {
                seq: plan.seq.add(begin),
                len: len as usize,
                flags: if last { template.flags } else { middle },
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
        let sums = offloads.tx_tcp_checksum && (template.ipv6 || offloads.tx_ip_checksum);
        if !(offloads.tso && sums && offloads.multi_segment) || size == 0 {
            return 1;
        }
        let room = TSO_PACKET_MAX - (template.len - template.l3);
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
        template: &Template,
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
            let all = payload.pieces(part.seq, part.len);
            pieces.extend(all.take(self.pieces_max()));
            if pieces.iter().map(|p| p.len).sum::<usize>() == part.len {
                self.chained_frame(template, part, &pieces, &caps)?
            } else if part.segment.is_none() {
                let frame = self.device.payload_alloc()?;
                self.flat_frame(frame, template, part, payload, &caps)?
            } else {
                return None;
            }
        };
        frame.set_tx_meta(template.meta(&caps, part, caps.offloads.tx_tcp_checksum));
        Some(frame)
    }

    /// Headers and payload copied into one empty buffer.
    fn flat_frame<P: Payload<D::Frame>>(
        &self,
        mut frame: D::Frame,
        template: &Template,
        part: &Part,
        payload: &P,
        caps: &Capabilities,
    ) -> Option<D::Frame> {
        let header_len = template.header_len();
        let out = frame.push_back(header_len + part.len)?;
        let (headers, body) = out.split_at_mut(header_len);
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
        let sum = (!caps.offloads.tx_tcp_checksum).then(|| sum.sum());
        template.write(headers, part, sum, caps);
        Some(frame)
    }

    /// A reference to the payload's own buffer, with the headers written in front of it: the cheapest
    /// frame there is. `None` where the bytes are not one buffer, or a driver still refers to it, as
    /// when it is sent again soon: then the bytes in front may not be written.
    fn prefixed_frame<P: Payload<D::Frame>>(
        &mut self,
        template: &Template,
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
        template: &Template,
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
