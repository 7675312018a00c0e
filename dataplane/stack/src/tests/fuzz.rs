//! Any bytes on the wire: nothing panics, each frame is accounted for once, every buffer comes home,
//! and it makes no difference how a frame is cut into buffers.

use std::vec;
use std::vec::Vec;

use base::mem::MemConfig;
use base::{DropReason, TcpFlags};
use core::net::Ipv6Addr;
use core::time::Duration;
use proptest::prelude::*;
use tcp::ConnOptions;
use wire::icmpv4::{self, EchoKind, Icmpv4Error};
use wire::icmpv6::{self, Icmpv6Error};
use wire::ipv6::ParameterProblem;
use wire::{Mac, checksum, ndp, protocol};

use super::fixture::*;
use crate::{AppEvent, ChecksumPolicy, Io, StackParams};

/// A frame to be made once it is known where the connection stands.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// Anything, perhaps behind a sound link header.
    Bytes {
        link: bool,
        bytes: Vec<u8>,
    },
    /// A segment near what is expected.
    Segment {
        flags: u16,
        seq: i32,
        ack: i32,
        len: usize,
        port: u16,
        v6: bool,
    },
    /// A segment with other options.
    Options {
        bytes: Vec<u8>,
        seq: i32,
    },
    Arp {
        sender: u8,
        target: u8,
    },
    Echo {
        len: usize,
    },
    Udp {
        len: usize,
    },
    /// An ICMP error that quotes a segment of ours.
    Error {
        kind: u8,
        mtu: u16,
        seq: i32,
    },
    Fragment {
        id: u16,
        offset: u16,
        more: bool,
        len: usize,
    },
    /// A segment in order with all the options that it may have.
    Full {
        sack: usize,
        len: usize,
        v6: bool,
    },
    /// A neighbour asks; `dad`: before it has an address.
    Solicit {
        target: u8,
        dad: bool,
        group: bool,
    },
    /// A neighbour answers, or claims an address.
    Advertise {
        target: u8,
        solicited: bool,
    },
    /// IPv6 with extension headers (0 hop-by-hop, 1 destination, 2 routing, 3 atomic fragment) and
    /// TCP, UDP or an echo request behind them.
    Six {
        headers: Vec<u8>,
        inner: u8,
        len: usize,
    },
    /// A fragment of an IPv6 packet behind a destination header.
    Fragment6 {
        id: u8,
        offset: u16,
        more: bool,
        len: usize,
    },
    /// An ICMPv6 error that quotes a segment of ours.
    Error6 {
        kind: u8,
        mtu: u16,
        seq: i32,
    },
}

#[derive(Clone, Debug)]
struct Frame {
    shape: Shape,
    /// Bytes that are changed afterwards.
    mutations: Vec<(usize, u8)>,
    /// How it is cut into buffers.
    cuts: Vec<usize>,
    /// Time before it.
    pause_ms: u16,
}

fn shape() -> impl Strategy<Value = Shape> {
    let flags = prop_oneof![
        6 => Just(0x10_u16),
        2 => Just(0x18),
        2 => Just(0x11),
        1 => Just(0x02),
        1 => Just(0x04),
        1 => Just(0x14),
        1 => 0_u16..0x200,
    ];
    let near = || prop_oneof![4 => Just(0_i32), 3 => -3000..6000_i32, 1 => any::<i32>()];
    let segment = (flags, near(), near(), 0..1460_usize, 0..3_u16, any::<bool>());
    prop_oneof![
        1 => (any::<bool>(), prop::collection::vec(any::<u8>(), 0..200))
            .prop_map(|(link, bytes)| Shape::Bytes { link, bytes }),
        8 => segment.prop_map(|(flags, seq, ack, len, port, v6)| {
            Shape::Segment { flags, seq, ack, len, port, v6 }
        }),
        1 => (prop::collection::vec(any::<u8>(), 0..40), near())
            .prop_map(|(bytes, seq)| Shape::Options { bytes, seq }),
        1 => (0..4_u8, 0..4_u8).prop_map(|(sender, target)| Shape::Arp { sender, target }),
        1 => (0..1400_usize).prop_map(|len| Shape::Echo { len }),
        1 => (0..1400_usize).prop_map(|len| Shape::Udp { len }),
        1 => (any::<u8>(), any::<u16>(), near())
            .prop_map(|(kind, mtu, seq)| Shape::Error { kind, mtu, seq }),
        1 => (0..3_u16, 0..200_u16, any::<bool>(), 0..600_usize)
            .prop_map(|(id, offset, more, len)| Shape::Fragment { id, offset, more, len }),
        2 => (0..4_usize, 0..1400_usize, any::<bool>())
            .prop_map(|(sack, len, v6)| Shape::Full { sack, len, v6 }),
        1 => (0..4_u8, any::<bool>(), any::<bool>())
            .prop_map(|(target, dad, group)| Shape::Solicit { target, dad, group }),
        1 => (0..4_u8, any::<bool>())
            .prop_map(|(target, solicited)| Shape::Advertise { target, solicited }),
        2 => (prop::collection::vec(0..4_u8, 0..4), 0..4_u8, 0..1200_usize)
            .prop_map(|(headers, inner, len)| Shape::Six { headers, inner, len }),
        1 => (0..3_u8, 0..200_u16, any::<bool>(), 0..600_usize)
            .prop_map(|(id, offset, more, len)| Shape::Fragment6 { id, offset, more, len }),
        1 => (any::<u8>(), any::<u16>(), near())
            .prop_map(|(kind, mtu, seq)| Shape::Error6 { kind, mtu, seq }),
    ]
}

fn frame() -> impl Strategy<Value = Frame> {
    let mutations = prop_oneof![
        3 => Just(Vec::new()),
        1 => prop::collection::vec((0..120_usize, any::<u8>()), 1..4),
    ];
    let cuts = prop::collection::vec(1..100_usize, 0..6);
    let pause = prop_oneof![8 => Just(0_u16), 1 => 0..50_u16, 1 => 0..3000_u16];
    (shape(), mutations, cuts, pause).prop_map(|(shape, mutations, cuts, pause_ms)| Frame {
        shape,
        mutations,
        cuts,
        pause_ms,
    })
}

/// Where the connection of the peer's port 1000 stands.
#[derive(Clone, Copy)]
pub(super) struct Anchor {
    pub(super) seq: u32,
    pub(super) ack: u32,
}

fn build(frame: &Frame, at: Anchor) -> Vec<u8> {
    let mut bytes = frame.shape.bytes(at);
    for (place, value) in &frame.mutations {
        if let Some(byte) = bytes.get_mut(*place) {
            *byte = *value;
        }
    }
    bytes
}

impl Shape {
    pub(super) fn bytes(&self, at: Anchor) -> Vec<u8> {
        let (peer, us) = (PEER_IP.into(), OUR_IP.into());
        match self {
            Shape::Bytes { link, bytes } => {
                let mut out =
                    if *link { arp_request(PEER_MAC, PEER_IP, OUR_IP) } else { Vec::new() };
                out.truncate(12);
                out.extend(bytes);
                out
            }
            Shape::Segment { flags, seq, ack, len, port, v6 } => {
                let data: Vec<u8> = (0..*len).map(|i| i as u8).collect();
                let s = seg(
                    TcpFlags::from_bits(*flags),
                    at.seq.wrapping_add_signed(*seq),
                    at.ack.wrapping_add_signed(*ack),
                );
                let s = s.data(&data).ports(1000 + port, 80);
                if *v6 { s.v6().frame() } else { s.frame() }
            }
            Shape::Options { bytes, seq } => {
                let mut s = seg(TcpFlags::ACK, at.seq.wrapping_add_signed(*seq), at.ack);
                s.payload = bytes.clone();
                s.payload.resize(bytes.len().next_multiple_of(4), 0);
                let mut body = s.body();
                body[12] = ((5 + s.payload.len() / 4) as u8) << 4;
                fix_checksum(&mut body);
                ip_frame(peer, us, protocol::TCP, &body)
            }
            Shape::Arp { sender, target } => {
                arp_request(PEER_MAC, [10, 0, 0, *sender].into(), [10, 0, 0, *target].into())
            }
            Shape::Echo { len } => {
                let mut body = vec![0; 8];
                let data = vec![3; *len];
                let sum = checksum::sum(&data, 0);
                icmpv4::emit_echo(&mut body, EchoKind::Request, 1, 2, sum);
                body.extend(data);
                ip_frame(peer, us, protocol::ICMP, &body)
            }
            Shape::Udp { len } => {
                let mut body = vec![0; 8];
                wire::udp::emit(&mut body, 5, 6, (8 + len) as u16, 0);
                body.extend(vec![9; *len]);
                ip_frame(peer, us, protocol::UDP, &body)
            }
            Shape::Error { kind, mtu, seq } => {
                let mut quoted = seg(TcpFlags::ACK, at.ack.wrapping_add_signed(*seq), at.seq);
                (quoted.src, quoted.dst) = (us, peer);
                let packet = quoted.ports(80, 1000).frame();
                let error = match kind % 4 {
                    0 => Icmpv4Error::FragmentationNeeded(*mtu),
                    1 => Icmpv4Error::Unreachable(kind / 4 % 16),
                    2 => Icmpv4Error::TimeExceeded(0),
                    _ => Icmpv4Error::ParameterProblem(3),
                };
                let mut body = vec![0; 600];
                let len = icmpv4::emit_error(&mut body, error, &packet[14..]);
                body.truncate(len);
                ip_frame(peer, us, protocol::ICMP, &body)
            }
            Shape::Fragment { id, offset, more, len } => {
                let mut out = ip_frame(peer, us, protocol::UDP, &vec![1; *len]);
                out[18..20].copy_from_slice(&id.to_be_bytes());
                let field = offset | if *more { 0x2000 } else { 0 };
                out[20..22].copy_from_slice(&field.to_be_bytes());
                out[24..26].copy_from_slice(&[0, 0]);
                let sum = checksum::of(&out[14..34]);
                out[24..26].copy_from_slice(&sum.to_be_bytes());
                out
            }
            Shape::Full { sack, len, v6 } => {
                let mut s = seg(TcpFlags::ACK | TcpFlags::PSH, at.seq, at.ack).data(&vec![7; *len]);
                s.fields.options.timestamps = Some((5, 6));
                s.fields.options.sack =
                    (0..*sack as u32).map(|i| (at.ack + 10 * i + 5, at.ack + 10 * i + 9)).collect();
                if *v6 { s.v6().frame() } else { s.frame() }
            }
            Shape::Solicit { target, dad, group } => {
                let target = six(*target);
                let source_mac = (!dad).then_some(Mac(PEER_MAC));
                let src = if *dad { Ipv6Addr::UNSPECIFIED } else { PEER_IP6 };
                let to = if *group || *dad { ndp::solicited_node(target) } else { target };
                let mut body = vec![0; ndp::NEIGHBOR_LEN_MAX];
                let len = ndp::Solicitation { target, source_mac }.emit(&mut body, src, to);
                body.truncate(len);
                neighbor_frame(src, to, &body)
            }
            Shape::Advertise { target, solicited } => {
                let target = six(*target);
                let to = if *solicited { OUR_IP6 } else { crate::ingress::ALL_NODES };
                let message = ndp::Advertisement {
                    target,
                    target_mac: Some(Mac(PEER_MAC)),
                    router: false,
                    solicited: *solicited,
                    override_entry: true,
                };
                let mut body = vec![0; ndp::NEIGHBOR_LEN_MAX];
                let len = message.emit(&mut body, PEER_IP6, to);
                body.truncate(len);
                neighbor_frame(PEER_IP6, to, &body)
            }
            Shape::Six { headers, inner, len } => {
                let (next, body) = inner6(*inner, *len, at);
                extended(headers, next, &body)
            }
            Shape::Fragment6 { id, offset, more, len } => {
                let field = offset << 3 | u16::from(*more);
                let [high, low] = field.to_be_bytes();
                let mut chain = vec![44, 0, 1, 4, 0, 0, 0, 0];
                chain.extend([protocol::UDP, 0, high, low, 0, 0, 0, *id]);
                chain.extend(vec![1; *len]);
                ip_frame(PEER_IP6.into(), OUR_IP6.into(), 60, &chain)
            }
            Shape::Error6 { kind, mtu, seq } => {
                let mut quoted = seg(TcpFlags::ACK, at.ack.wrapping_add_signed(*seq), at.seq).v6();
                (quoted.src, quoted.dst) = (OUR_IP6.into(), PEER_IP6.into());
                let packet = quoted.ports(80, 1000).frame();
                let error = match kind % 4 {
                    0 => Icmpv6Error::PacketTooBig((*mtu).into()),
                    1 => Icmpv6Error::Unreachable(kind / 4 % 8),
                    2 => Icmpv6Error::TimeExceeded(0),
                    _ => Icmpv6Error::ParameterProblem(ParameterProblem { code: 1, pointer: 40 }),
                };
                let mut body = vec![0; 1300];
                let len = icmpv6::emit_error(&mut body, PEER_IP6, OUR_IP6, error, &packet[14..]);
                body.truncate(len);
                ip_frame(PEER_IP6.into(), OUR_IP6.into(), protocol::ICMPV6, &body)
            }
        }
    }
}

fn six(last: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last.into())
}

fn neighbor_frame(src: Ipv6Addr, dst: Ipv6Addr, body: &[u8]) -> Vec<u8> {
    let mac = if dst.is_multicast() { ndp::multicast_mac(dst) } else { Mac(OUR_MAC) };
    ip_frame_to(mac, src.into(), dst.into(), protocol::ICMPV6, 255, body)
}

/// What is behind the extension headers, and its protocol.
fn inner6(kind: u8, len: usize, at: Anchor) -> (u8, Vec<u8>) {
    let data = vec![4; len];
    match kind {
        0 => (protocol::TCP, seg(TcpFlags::ACK, at.seq, at.ack).v6().data(&data).body()),
        1 => {
            let mut body = vec![0; 8];
            let len = (8 + data.len()) as u16;
            wire::udp::emit(&mut body, 5, 6, len, 0);
            body.extend(&data);
            let pseudo = checksum::pseudo_v6(PEER_IP6, OUR_IP6, protocol::UDP, body.len());
            let sum = checksum::finish(pseudo, &body, 0);
            body[6..8].copy_from_slice(&sum.to_be_bytes());
            (protocol::UDP, body)
        }
        2 => {
            let mut body = vec![0; 8];
            let echo = icmpv6::Echo { kind: EchoKind::Request, ident: 1, sequence: 2 };
            let sum = checksum::sum(&data, 0);
            icmpv6::emit_echo(&mut body, PEER_IP6, OUR_IP6, echo, data.len(), sum);
            body.extend(&data);
            (protocol::ICMPV6, body)
        }
        _ => (253, data),
    }
}

/// An IPv6 packet with these extension headers.
fn extended(headers: &[u8], next: u8, body: &[u8]) -> Vec<u8> {
    let number = |h: &u8| match h {
        0 => 0,
        1 => 60,
        2 => 43,
        _ => 44,
    };
    let mut chain = Vec::new();
    for (i, header) in headers.iter().enumerate() {
        let next = headers.get(i + 1).map_or(next, number);
        // Padding; a routing header that is done; a fragment that is the whole.
        let rest: [u8; 7] = match header {
            0 | 1 => [0, 1, 4, 0, 0, 0, 0],
            2 => [0, 4, 0, 0, 0, 0, 0],
            _ => [0; 7],
        };
        chain.push(next);
        chain.extend(rest);
    }
    chain.extend(body);
    let first = headers.first().map_or(next, number);
    ip_frame(PEER_IP6.into(), OUR_IP6.into(), first, &chain)
}

fn fix_checksum(body: &mut [u8]) {
    wire::tcp::set_checksum(body, 0);
    let pseudo = checksum::pseudo_v4(PEER_IP, OUR_IP, protocol::TCP, body.len());
    let sum = checksum::finish(pseudo, body, 0);
    wire::tcp::set_checksum(body, sum);
}

/// A host that echoes, has a connection, and believes all checksums if told so.
pub(super) fn echo_host(trust: bool, mem: MemConfig) -> (Host, Anchor) {
    echo_host_with(trust, mem, |_| {})
}

/// The same with a receive buffer that never limits the window.
fn roomy_echo_host(trust: bool) -> (Host, Anchor) {
    echo_host_with(trust, mem_config(), |tcp| tcp.rmem = [4096, 1 << 24, 1 << 25])
}

fn echo_host_with(
    trust: bool,
    mem: MemConfig,
    change: impl FnOnce(&mut tcp::TcpParams),
) -> (Host, Anchor) {
    let mut config = stack_config(1, 1500);
    if trust {
        config.ports[0].rx_checksum = ChecksumPolicy::Trust;
    }
    let script = |io: &mut dyn Io, event: &AppEvent| match event {
        AppEvent::Start => {
            io.listen(None, 80, 16, &ConnOptions::default()).unwrap();
        }
        AppEvent::Readable { conn } | AppEvent::Writable { conn } => {
            let room = io.send_room(*conn);
            let mut back = Vec::new();
            io.recv(*conn, &mut |bytes| {
                let n = bytes.len().min(room - back.len());
                back.extend_from_slice(&bytes[..n]);
                n
            });
            if io.send(*conn, &back, false).is_err() {
                io.abort(*conn);
            }
        }
        AppEvent::PeerClosed { conn } => io.close(*conn),
        _ => {}
    };
    let mut params = StackParams::default();
    change(&mut params.tcp);
    let mut host = Host::with(mem, config, params, script);
    host.introduce_peer();
    let mut syn = seg(TcpFlags::SYN, 100, 0);
    syn.fields.options.mss = Some(1460);
    syn.fields.options.sack_permitted = true;
    let sent = tcp_of(&host.give(&syn.frame()));
    let at = Anchor { seq: 101, ack: sent[0].tcp.seq.wrapping_add(1) };
    host.give(&seg(TcpFlags::ACK, at.seq, at.ack).frame());
    assert_eq!(host.stack.table(), [1, 0, 0]);
    (host, at)
}

/// What was discarded, by reason.
pub(super) fn drops(host: &Host) -> Vec<(&'static str, u64)> {
    let all = DropReason::ALL.iter().map(|r| (r.name(), host.drops(*r)));
    all.filter(|(_, n)| *n > 0).collect()
}

/// Counters of the protocol, apart from those that tell how payload lies in buffers.
fn apart_from_cuts(host: &Host) -> tcp::TcpCounters {
    let mut counters = host.stack.tcp_counters().clone();
    (counters.rcv_coalesce, counters.rcv_collapsed) = (0, 0);
    counters
}

/// Until everything that a peer can begin has ended.
fn wind_down(host: &mut Host) {
    host.run_for(Duration::from_secs(70));
    host.command(crate::Command::Stop);
    host.run_for(Duration::from_secs(130));
    assert_eq!(host.stack.table(), [0, 0, 0]);
    host.assert_balanced();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics_and_every_buffer_comes_home(
        frames in prop::collection::vec(frame(), 1..60),
        trust in any::<bool>(),
        tiny in any::<bool>(),
    ) {
        let mem = MemConfig { buffers: if tiny { 24 } else { 512 }, ..mem_config() };
        let (mut host, at) = echo_host(trust, mem);
        let before = host.stack.counters().frames_rx;
        let mut delivered = 0;
        for frame in &frames {
            host.now += Duration::from_millis(frame.pause_ms.into());
            let bytes = build(frame, at);
            delivered += u64::from(host.stack.device_mut().deliver(&bytes));
            if frame.pause_ms > 0 || frame.cuts.is_empty() {
                host.turn();
                host.sent();
            }
        }
        host.turn();
        // Promise 6: replies to strangers are fewer than what they send.
        prop_assert_eq!(host.stack.counters().frames_rx - before, delivered);
        prop_assert!(host.total_drops() <= host.stack.counters().frames_rx);
        wind_down(&mut host);
    }

    #[test]
    fn chains_and_flat_frames_give_the_same_result(
        frames in prop::collection::vec(frame(), 1..30),
        trust in any::<bool>(),
    ) {
        // Pieces of a chain occupy more memory, which a window may show: let memory be no limit.
        let (mut flat, at) = roomy_echo_host(trust);
        let (mut cut, _) = roomy_echo_host(trust);
        for frame in &frames {
            for host in [&mut flat, &mut cut] {
                host.now += Duration::from_millis(frame.pause_ms.into());
            }
            let bytes = build(frame, at);
            let expected = flat.give(&bytes);
            let got = cut.give_chain(&bytes, &frame.cuts);
            prop_assert_eq!(&got, &expected, "{:?}", frame);
            prop_assert_eq!(drops(&cut), drops(&flat), "{:?}", frame);
            prop_assert_eq!(apart_from_cuts(&cut), apart_from_cuts(&flat));
            prop_assert_eq!(cut.stack.counters(), flat.stack.counters());
            prop_assert_eq!(cut.events.borrow().len(), flat.events.borrow().len());
        }
        wind_down(&mut cut);
    }
}
