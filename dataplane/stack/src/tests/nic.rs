//! A device that does what it claims: sums, cuts large frames into segments, gives verdicts on what
//! it receives. And that checks each request as strictly as any card or driver does, because what a
//! card makes of a wrong one is seen by the peer only.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use base::mem::{MemConfig, MemDevice, MemFrame};
use base::{
    Buffers, Capabilities, Checksum, Device, Frame, L4Offload, Random, RxBatch, RxMeta,
    SeededRandom, TxMeta,
};

/// What a device is like beyond its capabilities.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// What it says of received checksums, as far as its capabilities let it say something.
    pub(super) verdict: Verdict,
    /// Cut received frames into buffers at any place.
    pub(super) cuts: bool,
    /// Take only some of the frames that there is room for.
    pub(super) grudging: bool,
}

/// What a device says of a checksum that it can verify.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verdict {
    Truth,
    /// The truth, or nothing.
    Sometimes,
    /// Bad, whatever it is.
    AlwaysBad,
    /// Any of the three, but never good for what is bad.
    Mixed,
}

/// See the module.
pub(super) struct Nic {
    capabilities: Capabilities,
    manner: Manner,
    data: MemDevice,
    headers: MemDevice,
    random: SeededRandom,
    /// Frames on the transmit ring with what they become on the wire.
    ring: VecDeque<(MemFrame, Vec<Vec<u8>>)>,
    /// Frames that have arrived.
    arrived: VecDeque<Vec<u8>>,
    /// Frames with a request to the device, and those that it cut up.
    pub(super) requests: u64,
    pub(super) large: u64,
}

impl Nic {
    pub(super) fn new(
        capabilities: Capabilities,
        buffers: usize,
        manner: Manner,
        seed: u64,
    ) -> Self {
        let config =
            |room: u32| MemConfig { buffers, payload_room: room as usize, ..MemConfig::default() };
        Self {
            capabilities,
            manner,
            data: MemDevice::detached(&config(capabilities.payload_room)),
            headers: MemDevice::detached(&config(capabilities.header_room)),
            random: SeededRandom::new(seed),
            ring: VecDeque::new(),
            arrived: VecDeque::new(),
            requests: 0,
            large: 0,
        }
    }

    /// Free buffers of all kinds, for leak checks.
    pub(super) fn level(&self) -> [usize; 4] {
        [
            self.data.buffers().free as usize,
            self.data.header_buffers_free(),
            self.headers.buffers().free as usize,
            self.headers.header_buffers_free(),
        ]
    }

    /// The oldest frame of the ring goes out.
    pub(super) fn transmit(&mut self) -> Option<Vec<Vec<u8>>> {
        let (frame, wire) = self.ring.pop_front()?;
        let now = on_the_wire(&frame, &self.capabilities);
        assert_eq!(now, wire, "the bytes of a frame changed while the device had it");
        Some(wire)
    }

    /// A frame comes in.
    pub(super) fn arrive(&mut self, bytes: Vec<u8>) {
        self.arrived.push_back(bytes);
    }

    /// The frame in buffers of ours; `None`: no buffers.
    fn receive(&mut self, bytes: &[u8]) -> Option<MemFrame> {
        let room = self.capabilities.payload_room as usize;
        let mut frame: Option<MemFrame> = None;
        let mut rest = bytes;
        // What must be left for the last buffer at most, so that they never are too many.
        for left in (0..base::mem::MEM_SEGMENTS_MAX).rev() {
            let least = rest.len().saturating_sub(left * room).max(1);
            let most = rest.len().min(room);
            let count = match self.manner.cuts && self.random.below(2) == 0 {
                true if least < most => {
                    let span = if self.random.below(2) == 0 { 60 } else { most - least };
                    least + self.random.below((most - least).min(span) as u32 + 1) as usize
                }
                _ => most,
            };
            let (now, later) = rest.split_at(count);
            let mut buffer = self.data.payload_alloc()?;
            buffer.push_back(now.len())?.copy_from_slice(now);
            match &mut frame {
                Some(frame) => frame.chain(buffer),
                None => frame = Some(buffer),
            }
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        assert!(rest.is_empty(), "a frame longer than the device's buffers");
        let mut frame = frame?;
        frame.set_rx_meta(self.verdicts(bytes));
        Some(frame)
    }

    fn verdicts(&mut self, bytes: &[u8]) -> RxMeta {
        let offloads = self.capabilities.offloads;
        let (l3, l4) = truth(bytes);
        let mut say = |able: bool, truth: Option<bool>| {
            let (Some(right), true) = (truth, able) else { return Checksum::Unknown };
            let truth = if right { Checksum::Good } else { Checksum::Bad };
            match self.manner.verdict {
                Verdict::Truth => truth,
                Verdict::AlwaysBad => Checksum::Bad,
                Verdict::Sometimes if self.random.below(2) == 0 => truth,
                Verdict::Sometimes => Checksum::Unknown,
                Verdict::Mixed => match self.random.below(3) {
                    0 => Checksum::Bad,
                    1 => Checksum::Unknown,
                    _ => truth,
                },
            }
        };
        RxMeta {
            l3_checksum: say(offloads.rx_ip_checksum, l3),
            l4_checksum: say(offloads.rx_tcp_checksum && offloads.rx_udp_checksum, l4),
            ..RxMeta::default()
        }
    }
}

impl Device for Nic {
    type Frame = MemFrame;

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn rx_burst(&mut self, out: &mut RxBatch<MemFrame>) -> usize {
        let before = out.len();
        while !out.is_full()
            && let Some(bytes) = self.arrived.pop_front()
        {
            // Without buffers the frame is lost, as on any card.
            out.extend(self.receive(&bytes));
        }
        out.len() - before
    }

    fn alloc(&mut self) -> Option<MemFrame> {
        self.headers.payload_alloc()
    }

    fn payload_alloc(&mut self) -> Option<MemFrame> {
        self.data.payload_alloc()
    }

    fn share(&mut self, of: &MemFrame, offset: usize, len: usize) -> Option<MemFrame> {
        self.data.share(of, offset, len)
    }

    fn tx_burst(&mut self, frames: &mut VecDeque<MemFrame>) -> usize {
        let room = usize::from(self.capabilities.tx_ring).saturating_sub(self.ring.len());
        let mut count = room.min(frames.len());
        if self.manner.grudging {
            count = self.random.below(count as u32 + 1) as usize;
        }
        for frame in frames.drain(..count) {
            let wire = on_the_wire(&frame, &self.capabilities);
            self.requests += u64::from(frame.tx_meta() != TxMeta::default());
            self.large += u64::from(frame.tx_meta().tso_segment > 0);
            self.ring.push_back((frame, wire));
        }
        count
    }

    fn buffers(&self) -> Buffers {
        self.data.buffers()
    }
}

/// Sum of big-endian words, folded.
fn fold(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u64;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |b| u64::from(*b));
        }
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

fn word(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]))
}

/// Where the headers of a frame of ours are: link, network, transport; and whether it is IPv6.
struct Headers {
    l3: usize,
    l4: usize,
    ipv6: bool,
    protocol: u8,
}

fn headers(bytes: &[u8]) -> Option<Headers> {
    match word(bytes, 12) {
        0x0800 => {
            let l4 = 14 + usize::from(bytes[14] & 15) * 4;
            Some(Headers { l3: 14, l4, ipv6: false, protocol: bytes[23] })
        }
        0x86dd => Some(Headers { l3: 14, l4: 54, ipv6: true, protocol: bytes[20] }),
        _ => None,
    }
}

/// The pseudo header with `len` bytes of transport.
fn pseudo(packet: &[u8], ipv6: bool, protocol: u8, len: usize) -> Vec<u8> {
    let addresses = if ipv6 { &packet[8..40] } else { &packet[12..20] };
    let mut out = addresses.to_vec();
    out.extend((len as u32).to_be_bytes());
    out.extend([0, 0, 0, protocol]);
    out
}

/// Whether the checksums of a frame are right: IPv4 header, TCP.
fn truth(bytes: &[u8]) -> (Option<bool>, Option<bool>) {
    let Some(h) = headers(bytes) else { return (None, None) };
    let packet = &bytes[h.l3..];
    let l3 = (!h.ipv6).then(|| fold(&[&bytes[h.l3..h.l4.min(bytes.len())]]) == 0xffff);
    let len = if h.ipv6 { word(packet, 4) } else { word(packet, 2).wrapping_sub(h.l4 - h.l3) };
    let Some(transport) = bytes.get(h.l4..h.l4.saturating_add(len)) else { return (l3, None) };
    let l4 = (h.protocol == 6 && len >= 20)
        .then(|| fold(&[&pseudo(packet, h.ipv6, 6, len), transport]) == 0xffff);
    (l3, l4)
}

/// What a frame becomes on the wire; panics when the device is asked for what it did not offer, or
/// not as devices want it.
fn on_the_wire(frame: &MemFrame, caps: &Capabilities) -> Vec<Vec<u8>> {
    let meta = frame.tx_meta();
    let offloads = caps.offloads;
    let segments = frame.segment_count();
    assert!(segments <= usize::from(caps.tx_segments_max), "{segments} segments");
    assert!(segments == 1 || offloads.multi_segment, "a chain for a device that takes none");
    assert!(frame.segments().all(|s| !s.is_empty()), "an empty segment");
    let mut bytes = frame.to_vec();
    let asked = meta.ip_checksum || meta.l4 != L4Offload::None || meta.tso_segment > 0;
    let Some(h) = headers(&bytes) else {
        assert!(!asked, "something asked of what is no IP packet: {meta:?}");
        return alloc::vec![bytes];
    };
    let packet = &bytes[h.l3..];
    let ip_len = if h.ipv6 { 40 + word(packet, 4) } else { word(packet, 2) };
    assert_eq!(ip_len, packet.len(), "the length of the packet");
    let transport_len = bytes.len() - h.l4;
    if asked {
        assert_eq!(usize::from(meta.l2_len), h.l3, "l2_len");
        assert_eq!(usize::from(meta.l3_len), h.l4 - h.l3, "l3_len");
        assert_eq!(meta.ipv6, h.ipv6, "family");
        assert!(frame.head().len() >= h.l4, "headers in several buffers");
    }
    if meta.ip_checksum {
        assert!(offloads.tx_ip_checksum && !h.ipv6, "IPv4 checksum");
        assert_eq!(word(packet, 10), 0, "the field is to be empty");
    }
    let tcp_len = if h.protocol == 6 { usize::from(bytes[h.l4 + 12] >> 4) * 4 } else { 0 };
    if meta.l4 != L4Offload::None {
        assert_eq!((meta.l4, h.protocol), (L4Offload::Tcp, 6), "only TCP is left to devices");
        assert!(offloads.tx_tcp_checksum, "TCP checksum");
        assert_eq!(usize::from(meta.l4_len), tcp_len, "l4_len");
        assert!(frame.head().len() >= h.l4 + tcp_len, "headers in several buffers");
        let len = if meta.tso_segment > 0 { 0 } else { transport_len };
        let field = fold(&[&pseudo(packet, h.ipv6, 6, len)]);
        assert_eq!(word(&bytes, h.l4 + 16), usize::from(field), "the pseudo-header sum");
    }
    if meta.tso_segment == 0 {
        assert!(packet.len() <= usize::from(caps.mtu), "a packet of {} bytes", packet.len());
        complete(&mut bytes, &h, meta);
        return alloc::vec![bytes];
    }
    assert!(offloads.tso && meta.l4 == L4Offload::Tcp, "segmentation");
    // As `rte_validate_tx_offload` has it.
    assert!(h.ipv6 || meta.ip_checksum, "segmentation of IPv4 needs its header summed");
    // Not all devices know that CWR belongs to the first segment only.
    assert_eq!(bytes[h.l4 + 13] & 0x80, 0, "CWR in what is cut up");
    let size = usize::from(meta.tso_segment);
    let header_len = h.l4 + tcp_len;
    assert!(bytes.len() - header_len > size, "nothing to cut");
    assert!(header_len - h.l3 + size <= usize::from(caps.mtu), "segments beyond the MTU");
    cut_up(&bytes, &h, meta, header_len)
}

fn cut_up(bytes: &[u8], h: &Headers, meta: TxMeta, header_len: usize) -> Vec<Vec<u8>> {
    let (header, payload) = bytes.split_at(header_len);
    let size = usize::from(meta.tso_segment);
    let count = payload.len().div_ceil(size);
    let seq = u32::from_be_bytes(header[h.l4 + 4..h.l4 + 8].try_into().unwrap());
    let piece = |(i, part): (usize, &[u8])| {
        let mut out = [header, part].concat();
        let total = out.len() - h.l3;
        let (at, value) = if h.ipv6 { (4, total - 40) } else { (2, total) };
        out[h.l3 + at..h.l3 + at + 2].copy_from_slice(&(value as u16).to_be_bytes());
        let seq = seq.wrapping_add((i * size) as u32);
        out[h.l4 + 4..h.l4 + 8].copy_from_slice(&seq.to_be_bytes());
        if i + 1 < count {
            // FIN and PSH belong to the last.
            out[h.l4 + 13] &= !0x09;
        }
        if i > 0 {
            // CWR belongs to the first.
            out[h.l4 + 13] &= !0x80;
        }
        let field = fold(&[&pseudo(&out[h.l3..], h.ipv6, 6, out.len() - h.l4)]);
        out[h.l4 + 16..h.l4 + 18].copy_from_slice(&field.to_be_bytes());
        complete(&mut out, h, meta);
        out
    };
    payload.chunks(size).enumerate().map(piece).collect()
}

/// Fill in what is left to the device, and see that all is right then.
fn complete(bytes: &mut [u8], h: &Headers, meta: TxMeta) {
    if meta.ip_checksum {
        let sum = !fold(&[&bytes[h.l3..h.l4]]);
        bytes[h.l3 + 10..h.l3 + 12].copy_from_slice(&sum.to_be_bytes());
    }
    if meta.l4 == L4Offload::Tcp {
        let sum = !fold(&[&bytes[h.l4..]]);
        bytes[h.l4 + 16..h.l4 + 18].copy_from_slice(&sum.to_be_bytes());
    }
    let (l3, l4) = truth(bytes);
    assert_ne!(l3, Some(false), "IPv4 checksum on the wire");
    assert_ne!(l4, Some(false), "TCP checksum on the wire");
}
