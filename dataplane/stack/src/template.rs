//! The headers of a plan: laid out once, patched for each segment.
//!
//! Almost every segment has an untagged link header, no IP options, and no TCP options but
//! timestamps. For these, each field has a fixed place and sums are those of the fields; no byte is
//! looked at again after it was written.

use base::{Capabilities, L4Offload, TcpFlags, TxMeta};
use tcp::{Plan, SegOptions, SeqNum, UserTimeoutOption};
use wire::ipv4::{HeaderChecksum, Ipv4Fields};
use wire::ipv6::Ipv6Fields;
use wire::{EtherType, FlowKey, Mac, TcpFields, TcpOptions, checksum, ethernet, flow, ipv4, ipv6};
use wire::{protocol, tcp as header};

/// Where the network header begins.
const L3: usize = ethernet::HEADER_LEN;
/// Where the TCP header begins behind IPv4.
const L4_V4: usize = L3 + ipv4::HEADER_LEN;
/// The same for IPv6.
const L4_V6: usize = L3 + ipv6::HEADER_LEN;
/// Ethernet, IPv6 and TCP with all options.
const HEADERS_MAX: usize = L4_V6 + header::HEADER_LEN_MAX;
/// The timestamps option as everybody lays it out: two fillers, kind and length.
const TIMESTAMPS: u32 = 0x0101_080a;
const TIMESTAMPS_LEN: usize = 12;

/// Headers, largest case.
type Bytes = [u8; HEADERS_MAX];

/// The headers of a plan as they are on its segments, but for what differs between them.
pub(crate) struct Template {
    bytes: Bytes,
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

/// What goes into one frame.
pub(crate) struct Part {
    pub(crate) seq: SeqNum,
    /// Bytes of payload.
    pub(crate) len: usize,
    pub(crate) flags: TcpFlags,
    /// Set if the device is to cut it into segments of this size.
    pub(crate) segment: Option<u16>,
}

impl Template {
    /// Headers for `plan` on the connection `key`.
    pub(crate) fn new(
        (src, dst): (Mac, Mac),
        key: &FlowKey,
        plan: &Plan,
        (ttl, tos): (u8, u8),
    ) -> Self {
        // The codepoint of ECN is the engine's, the rest the application's.
        let tos = tos & !3 | plan.ecn.bits();

        let mut bytes = [0; HEADERS_MAX];
        let (ipv6, l3_sum, pseudo) = match *key {
            FlowKey::V4 { local, remote, .. } => {
                ethernet::emit(&mut bytes, dst, src, None, EtherType::IPV4);
                let fields = Ipv4Fields {
                    src: local,
                    dst: remote,
                    protocol: protocol::TCP,
                    ttl,
                    tos,
                    // RFC 6864: what is never fragmented needs no identification.
                    ident: 0,
                    dont_fragment: true,
                    total_len: 0,
                };
                ipv4::emit(&mut bytes[L3..], &fields, HeaderChecksum::Offload);
                // The addresses and the protocol are in both.
                let pseudo = checksum::pseudo_v4(local, remote, protocol::TCP, 0);
                let others = 0x4500 + u32::from(tos) + 0x4000 + (u32::from(ttl) << 8);
                (false, pseudo + others, pseudo)
            }
            FlowKey::V6 { local, remote, .. } => {
                ethernet::emit(&mut bytes, dst, src, None, EtherType::IPV6);
                let fields = Ipv6Fields {
                    src: local,
                    dst: remote,
                    traffic_class: tos,
                    flow_label: flow::flow_label(plan.txhash),
                    hop_limit: ttl,
                    next_header: protocol::TCP,
                    payload_len: 0,
                };
                ipv6::emit(&mut bytes[L3..], &fields);
                (true, 0, checksum::pseudo_v6(local, remote, protocol::TCP, 0))
            }
        };
        let ports = u32::from(key.local_port()) << 16 | u32::from(key.remote_port());
        let (len, l4_sum) = if is_plain(&plan.options) {
            if ipv6 {
                plain::<L4_V6>(&mut bytes, ports, plan)
            } else {
                plain::<L4_V4>(&mut bytes, ports, plan)
            }
        } else {
            let l4 = if ipv6 { L4_V6 } else { L4_V4 };
            let len = l4 + header::emit(&mut bytes[l4..], &fields(key, plan));
            (len, checksum::sum(&bytes[l4..len], 0))
        };
        Self { bytes, len, ipv6, l3_sum, pseudo, l4_sum, flags: plan.flags }
    }

    pub(crate) const fn header_len(&self) -> usize {
        self.len
    }

    /// Bytes of network and transport header.
    pub(crate) const fn packet_header_len(&self) -> usize {
        self.len - L3
    }

    pub(crate) const fn is_ipv6(&self) -> bool {
        self.ipv6
    }

    /// The control bits of the plan.
    pub(crate) const fn flags(&self) -> TcpFlags {
        self.flags
    }

    const fn l4(&self) -> usize {
        if self.ipv6 { L4_V6 } else { L4_V4 }
    }

    /// Write the headers of one segment. `payload_sum`: `None` leaves the checksum to the device,
    /// whose field then holds the pseudo-header sum, without the length if it cuts the frame up.
    ///
    /// # Panics
    ///
    /// Unless `out` has [`Template::header_len`] bytes.
    pub(crate) fn write(
        &mut self,
        out: &mut [u8],
        part: &Part,
        payload_sum: Option<u32>,
        port: &Capabilities,
    ) {
        let l4_len = self.len - self.l4() + part.len;
        let seq = part.seq.get();
        let length = if part.segment.is_some() { 0 } else { l4_len as u32 };
        let pseudo = self.pseudo + (length & 0xffff) + (length >> 16);
        let field = match payload_sum {
            Some(sum) => {
                let header = self.l4_sum + u32::from(part.flags.bits());
                !checksum::fold(pseudo + header + (seq >> 16) + (seq & 0xffff) + sum)
            }
            None => checksum::fold(pseudo),
        };
        if self.ipv6 {
            put(&mut self.bytes, L3 + 4, (l4_len as u16).to_be_bytes());
            transport::<L4_V6>(&mut self.bytes, seq, part.flags, field);
        } else {
            let total = (ipv4::HEADER_LEN + l4_len) as u16;
            put(&mut self.bytes, L3 + 2, total.to_be_bytes());
            if !port.offloads.tx_ip_checksum {
                let sum = !checksum::fold(self.l3_sum + u32::from(total));
                put(&mut self.bytes, L3 + 10, sum.to_be_bytes());
            }
            transport::<L4_V4>(&mut self.bytes, seq, part.flags, field);
        }
        // The usual lengths are copied without a call.
        const SHORTEST: usize = L4_V4 + header::HEADER_LEN;
        let out = &mut out[..self.len];
        copy::<SHORTEST>(out, &self.bytes, 0);
        let mut at = SHORTEST;
        if self.len >= SHORTEST + TIMESTAMPS_LEN {
            copy::<TIMESTAMPS_LEN>(out, &self.bytes, SHORTEST);
            at += TIMESTAMPS_LEN;
        }
        if at < self.len {
            out[at..].copy_from_slice(&self.bytes[at..self.len]);
        }
    }

    pub(crate) fn meta(&self, port: &Capabilities, part: &Part) -> TxMeta {
        let l4_offload = port.offloads.tx_tcp_checksum;
        TxMeta {
            l2_len: L3 as u8,
            l3_len: (self.l4() - L3) as u16,
            l4_len: (self.len - self.l4()) as u8,
            ipv6: self.ipv6,
            ip_checksum: port.offloads.tx_ip_checksum && !self.ipv6,
            l4: if l4_offload { L4Offload::Tcp } else { L4Offload::None },
            tso_segment: part.segment.unwrap_or(0),
        }
    }
}

/// Whether there are no options but timestamps.
fn is_plain(options: &SegOptions) -> bool {
    let SegOptions { mss, window_scale, sack_permitted, timestamps: _, user_timeout, sack } =
        options;
    mss.is_none()
        && window_scale.is_none()
        && !sack_permitted
        && user_timeout.is_none()
        && sack.is_empty()
}

/// Lay out the TCP header of a plan without other options at `L4`. Returns where it ends, and its
/// partial sum.
#[inline]
fn plain<const L4: usize>(bytes: &mut Bytes, ports: u32, plan: &Plan) -> (usize, u32) {
    let ack = if plan.flags.ack() { plan.ack.get() } else { 0 };
    put(bytes, L4, ports.to_be_bytes());
    put(bytes, L4 + 8, ack.to_be_bytes());
    put(bytes, L4 + 14, plan.wnd.to_be_bytes());
    let sum = halves(ports) + halves(ack) + u32::from(plan.wnd);
    let Some((val, ecr)) = plan.options.timestamps else {
        bytes[L4 + 12] = 0x50;
        return (L4 + header::HEADER_LEN, sum + 0x5000);
    };
    bytes[L4 + 12] = 0x80;
    put(bytes, L4 + 20, TIMESTAMPS.to_be_bytes());
    put(bytes, L4 + 24, val.to_be_bytes());
    put(bytes, L4 + 28, ecr.to_be_bytes());
    let sum = sum + 0x8000 + halves(TIMESTAMPS) + halves(val) + halves(ecr);
    (L4 + header::HEADER_LEN + TIMESTAMPS_LEN, sum)
}

/// The header of a plan with other options, sequence number and flags being zero.
fn fields(key: &FlowKey, plan: &Plan) -> TcpFields {
    let sack = plan.options.sack.iter().map(|(l, r)| (l.get(), r.get())).collect();
    TcpFields {
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
    }
}

/// What differs between the TCP headers of a plan.
#[inline]
fn transport<const L4: usize>(bytes: &mut Bytes, seq: u32, flags: TcpFlags, checksum: u16) {
    let [high, low] = flags.bits().to_be_bytes();
    put(bytes, L4 + 4, seq.to_be_bytes());
    bytes[L4 + 12] = bytes[L4 + 12] & 0xf0 | high;
    bytes[L4 + 13] = low;
    put(bytes, L4 + 16, checksum.to_be_bytes());
}

#[inline]
fn put<const N: usize>(bytes: &mut Bytes, at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}

#[inline]
fn copy<const N: usize>(out: &mut [u8], bytes: &Bytes, at: usize) {
    out[at..at + N].copy_from_slice(&bytes[at..at + N]);
}

/// A word of 32 bits in a partial sum.
const fn halves(word: u32) -> u32 {
    (word >> 16) + (word & 0xffff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Ecn, Offloads};
    use core::net::{Ipv4Addr, Ipv6Addr};
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;
    use tcp::PlanKind;

    const SRC: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const DST: Mac = Mac([2, 0, 0, 0, 0, 2]);

    /// The same frame, written field by field by the general functions.
    fn twin(
        key: &FlowKey,
        plan: &Plan,
        part: &Part,
        sum: Option<u32>,
        ip_offload: bool,
    ) -> Vec<u8> {
        let mut fields = fields(key, plan);
        (fields.seq, fields.flags) = (part.seq.get(), part.flags);
        let mut transport = vec![0; header::HEADER_LEN_MAX];
        let len = header::emit(&mut transport, &fields);
        transport.truncate(len);
        let l4_len = len + part.len;
        let pseudo_len = if part.segment.is_some() { 0 } else { l4_len };
        let (l, r) = (key.local(), key.remote());
        let pseudo = checksum::pseudo(l, r, protocol::TCP, pseudo_len).unwrap();
        let field = match sum {
            Some(sum) => checksum::finish(pseudo, &transport, sum),
            None => checksum::fold(pseudo),
        };
        header::set_checksum(&mut transport, field);
        let mut frame = vec![0; HEADERS_MAX];
        let ethertype = if key.is_ipv6() { EtherType::IPV6 } else { EtherType::IPV4 };
        let l3 = ethernet::emit(&mut frame, DST, SRC, None, ethertype);
        let network = match *key {
            FlowKey::V4 { local, remote, .. } => {
                let fields = Ipv4Fields {
                    src: local,
                    dst: remote,
                    protocol: protocol::TCP,
                    ttl: 64,
                    tos: plan.ecn.bits(),
                    ident: 0,
                    dont_fragment: true,
                    total_len: (ipv4::HEADER_LEN + l4_len) as u16,
                };
                let how =
                    if ip_offload { HeaderChecksum::Offload } else { HeaderChecksum::Compute };
                ipv4::emit(&mut frame[l3..], &fields, how)
            }
            FlowKey::V6 { local, remote, .. } => {
                let fields = Ipv6Fields {
                    src: local,
                    dst: remote,
                    traffic_class: plan.ecn.bits(),
                    flow_label: flow::flow_label(plan.txhash),
                    hop_limit: 64,
                    next_header: protocol::TCP,
                    payload_len: l4_len as u16,
                };
                ipv6::emit(&mut frame[l3..], &fields)
            }
        };
        frame.truncate(l3 + network);
        frame.extend(transport);
        frame
    }

    fn key() -> impl Strategy<Value = FlowKey> {
        (any::<bool>(), any::<[u128; 2]>(), any::<[u16; 2]>()).prop_map(|(v6, [l, r], ports)| {
            let [local_port, remote_port] = ports;
            if v6 {
                let (local, remote) = (Ipv6Addr::from_bits(l), Ipv6Addr::from_bits(r));
                FlowKey::V6 { local, remote, local_port, remote_port }
            } else {
                let (local, remote) =
                    (Ipv4Addr::from_bits(l as u32), Ipv4Addr::from_bits(r as u32));
                FlowKey::V4 { local, remote, local_port, remote_port }
            }
        })
    }

    fn options() -> impl Strategy<Value = SegOptions> {
        let timestamps = any::<Option<(u32, u32)>>();
        let sack = proptest::collection::vec(any::<(u32, u32)>(), 0..=2);
        (timestamps, sack, any::<Option<u16>>(), any::<bool>()).prop_map(
            |(timestamps, sack, mss, rare)| {
                let pair = |(l, r)| (SeqNum::new(l), SeqNum::new(r));
                if rare {
                    let sack = sack.into_iter().map(pair).collect();
                    SegOptions { timestamps, sack, mss, ..SegOptions::default() }
                } else {
                    SegOptions { timestamps, ..SegOptions::default() }
                }
            },
        )
    }

    proptest! {
        #[test]
        fn agrees_with_the_general_functions(
            key in key(),
            options in options(),
            (ack, wnd, ecn, txhash, bits) in any::<(u32, u16, u8, u32, u16)>(),
            segments in proptest::collection::vec((any::<u32>(), 0..1460_usize, any::<u16>()), 1..4),
            (sum, tso, tx_ip_checksum) in any::<(Option<u16>, bool, bool)>(),
        ) {
            let plan = Plan {
                kind: PlanKind::Data,
                seq: SeqNum::new(0),
                len: 0,
                seg_size: 1460,
                flags: TcpFlags::from_bits(bits),
                ack: SeqNum::new(ack),
                wnd,
                options,
                ecn: Ecn::from_bits(ecn),
                txhash,
            };
            let offloads = Offloads { tx_ip_checksum, ..Offloads::default() };
            let port = Capabilities {
                mac: [0; 6],
                mtu: 1500,
                offloads,
                payload_room: 2048,
                header_room: 256,
                tx_ring: 64,
                tx_segments_max: 8,
            };
            let mut template = Template::new((SRC, DST), &key, &plan, (64, 0));
            for (seq, len, bits) in segments {
                let part = Part {
                    seq: SeqNum::new(seq),
                    len,
                    flags: TcpFlags::from_bits(bits),
                    segment: tso.then_some(1460),
                };
                let sum = sum.map(u32::from);
                let mut out = vec![0xff; template.header_len()];
                template.write(&mut out, &part, sum, &port);
                let want = twin(&key, &plan, &part, sum, tx_ip_checksum);
                prop_assert_eq!(&out, &want);
            }
        }
    }
}
