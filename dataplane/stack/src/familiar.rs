//! A short way in for the next segment of a flow.
//!
//! Bulk data are frames that differ in a few fields only. Once a TCP segment has come all the way
//! through link and network layer, the headers that decided so are remembered for its flow; a frame
//! that bears the same ones needs its lengths and checksums looked at, and nothing else. Whatever is
//! unusual in any way takes the long way, which alone knows reasons for discarding a frame.

use base::{Device, Ecn, Frame, PortId, TcpFlags};
use tcp::{SegOptions, Segment, SeqNum};
use wire::{FlowKey, Mac, checksum, ethernet, ipv4, ipv6, protocol};

use crate::gro::Arrived;
use crate::ingress::{ChecksumWatch, FRAME_MAX};
use crate::inner::Core;

/// Flows remembered for each port, some hundred bytes each. Another flow at the same place costs it the
/// short way, no more.
const FLOWS: usize = 128;
/// Where an IPv4 header ends that follows an untagged link header and has no options.
const V4_END: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN;
/// The same for IPv6.
const V6_END: usize = ethernet::HEADER_LEN + ipv6::HEADER_LEN;
/// The options of a segment that bears timestamps alone, as everybody lays them out.
const TIMESTAMPS_ALONE: [u8; 4] = [1, 1, 8, 10];
const TCP_HEADER: usize = wire::tcp::HEADER_LEN;
const TCP_HEADER_TIMESTAMPS: usize = TCP_HEADER + 12;

/// Headers of a flow whose last segment came through.
#[derive(Clone, Copy)]
struct Flow {
    link: [u8; ethernet::HEADER_LEN],
    /// Source and destination address and ports as they stand in the frame; the rest is zero.
    tuple: [u8; 36],
    key: FlowKey,
    from: Mac,
    /// Sum of the pseudo header without the length.
    pseudo: u32,
}

/// The flows remembered for one port.
pub(crate) struct Familiar([Option<Flow>; FLOWS]);

/// What the network header of a frame says that may differ between segments.
struct Network {
    /// Where it ends.
    end: usize,
    /// Transport header and payload.
    len: usize,
    ecn: Ecn,
    /// Addresses and ports.
    tuple: [u8; 36],
}

impl Network {
    /// `None` if there is anything to think about.
    #[inline]
    fn read(head: &[u8], checksum_good: bool) -> Option<Self> {
        match (*head.get(12)?, *head.get(13)?) {
            (0x08, 0x00) => {
                let h = head.first_chunk::<{ V4_END + 4 }>()?;
                let header: &[u8; ipv4::HEADER_LEN] = h[14..].first_chunk()?;
                let fragment = u16::from_be_bytes([h[20], h[21]]) & 0x3fff;
                let total = usize::from(u16::from_be_bytes([h[16], h[17]]));
                let plain = h[14] == 0x45 && fragment == 0 && h[22] != 0 && h[23] == protocol::TCP;
                if !plain || !(checksum_good || checksum::of(header) == 0) {
                    return None;
                }
                let len = total.checked_sub(ipv4::HEADER_LEN + TCP_HEADER)? + TCP_HEADER;
                let mut tuple = [0; 36];
                tuple[..12].copy_from_slice(&h[26..38]);
                Some(Self { end: V4_END, len, ecn: Ecn::from_bits(h[15]), tuple })
            }
            (0x86, 0xdd) => {
                let h = head.first_chunk::<{ V6_END + 4 }>()?;
                let payload = usize::from(u16::from_be_bytes([h[18], h[19]]));
                if h[14] >> 4 != 6 || h[20] != protocol::TCP || h[21] == 0 {
                    return None;
                }
                let len = payload.checked_sub(TCP_HEADER)? + TCP_HEADER;
                let mut tuple = [0; 36];
                tuple.copy_from_slice(&h[22..58]);
                Some(Self { end: V6_END, len, ecn: Ecn::from_bits(h[15] >> 4), tuple })
            }
            _ => None,
        }
    }
}

impl Familiar {
    pub(crate) const fn new() -> Self {
        Self([None; FLOWS])
    }

    /// Where a flow is remembered: by the low bits of its ports.
    const fn place(key: &FlowKey) -> usize {
        (key.local_port() ^ key.remote_port()) as usize % FLOWS
    }

    /// A segment of `key` came through in `head`, an unfragmented frame whose transport header begins
    /// at `l4`.
    #[inline]
    pub(crate) fn remember(&mut self, key: &FlowKey, from: Mac, head: &[u8], l4: usize) {
        let place = &mut self.0[Self::place(key)];
        let Some(link) = head.first_chunk().copied() else { return };
        if place.as_ref().is_some_and(|flow| flow.key == *key && flow.link == link) {
            return;
        }
        let Some(network) = Network::read(head, true).filter(|n| n.end == l4) else { return };
        let (src, dst) = (key.remote_addr().ip(), key.local_addr().ip());
        let Some(pseudo) = checksum::pseudo(src, dst, protocol::TCP, 0) else { return };
        *place = Some(Flow { link, tuple: network.tuple, key: *key, from, pseudo });
    }

    #[inline]
    fn find(&self, head: &[u8], network: &Network) -> Option<&Flow> {
        let end = network.end;
        let ports = head.get(end..)?.first_chunk::<4>()?;
        let [_, source, _, destination] = ports;
        let flow = self.0[usize::from(source ^ destination) % FLOWS].as_ref()?;
        // Two words for IPv4; what follows is zero in both.
        let same = if end == V4_END {
            !flow.key.is_ipv6() && flow.tuple[..12] == network.tuple[..12]
        } else {
            flow.key.is_ipv6() && flow.tuple == network.tuple
        };
        (same && head.first_chunk() == Some(&flow.link)).then_some(flow)
    }
}

impl<D: Device> Core<D> {
    /// Take `frame` in if it is a segment like the one before of its flow; otherwise it comes back.
    /// Whatever is taken here would have been taken by the long way, with the same effect.
    #[inline]
    pub(crate) fn familiar_input(
        &mut self,
        port_id: PortId,
        mut frame: D::Frame,
    ) -> Result<(), D::Frame> {
        let meta = frame.rx_meta();
        let arrival = self.arrival();
        let port = &mut self.ports[port_id];
        let head = frame.head();
        let flat = frame.segment_count() == 1 && head.len() == frame.len();
        if !flat || head.len() > FRAME_MAX || meta.vlan.is_some() {
            return Err(frame);
        }
        let (l3_good, l4_good) = (port.believes(meta.l3_checksum), port.believes(meta.l4_checksum));
        let Some(network) = Network::read(head, l3_good) else { return Err(frame) };
        let Some(flow) = port.familiar.find(head, &network) else { return Err(frame) };
        let Some(transport) = head.get(network.end..network.end + network.len) else {
            return Err(frame);
        };
        let Some(parsed) = parse(transport) else { return Err(frame) };
        if !l4_good {
            let pseudo = flow.pseudo + network.len as u32;
            if checksum::fold(checksum::sum(transport, pseudo)) != 0xffff {
                return Err(frame);
            }
        }
        let Parsed { mut seg, header_len } = parsed;
        seg.arrival = arrival;
        seg.ecn = network.ecn;
        let (key, from) = (flow.key, flow.from);
        port.checksums = ChecksumWatch::Off;
        self.env.tcp.in_segs += 1;
        if key.is_ipv6() {
            self.env.counters.on_ip6_in(network.ecn);
            self.env.counters.ip6_in_delivers += 1;
        } else {
            self.env.counters.on_ip_in(network.ecn);
            self.env.counters.ip_in_delivers += 1;
        }
        let payload = (seg.len > 0).then(|| {
            frame.truncate(network.end + network.len);
            frame.trim_front(network.end + header_len);
            frame
        });
        if self.burst.push(Arrived { key, from, seg, payload }) {
            self.env.counters.gro_merged += 1;
        }
        Ok(())
    }
}

struct Parsed {
    seg: Segment,
    header_len: usize,
}

/// A TCP header with the flags of data or an acknowledgement, and with no options but timestamps.
#[inline]
fn parse(transport: &[u8]) -> Option<Parsed> {
    let h = transport.first_chunk::<TCP_HEADER>()?;
    let word = |at: usize| u32::from_be_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]);
    let flags = TcpFlags::from_bits(u16::from_be_bytes([h[12] & 0x0f, h[13]]));
    if flags.without(TcpFlags::PSH) != TcpFlags::ACK {
        return None;
    }
    let header_len = usize::from(h[12] >> 4) * 4;
    let timestamps = match header_len {
        TCP_HEADER => None,
        TCP_HEADER_TIMESTAMPS => {
            let options = transport.get(TCP_HEADER..)?.first_chunk::<12>()?;
            let [k0, k1, k2, k3, v0, v1, v2, v3, e0, e1, e2, e3] = *options;
            if [k0, k1, k2, k3] != TIMESTAMPS_ALONE {
                return None;
            }
            Some((u32::from_be_bytes([v0, v1, v2, v3]), u32::from_be_bytes([e0, e1, e2, e3])))
        }
        _ => return None,
    };
    let len = transport.len().checked_sub(header_len)? as u32;
    let seg = Segment {
        seq: SeqNum::new(word(4)),
        ack: SeqNum::new(word(8)),
        flags,
        wnd: u16::from_be_bytes([h[14], h[15]]),
        len,
        seg_size: len,
        segs: 1,
        options: SegOptions { timestamps, ..SegOptions::default() },
        ecn: Ecn::NotEct,
        arrival: base::Instant::ZERO,
    };
    Some(Parsed { seg, header_len })
}
