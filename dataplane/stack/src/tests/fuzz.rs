//! Any bytes on the wire: nothing panics, each frame is accounted for once, every buffer comes home,
//! and it makes no difference how a frame is cut into buffers.

use std::vec;
use std::vec::Vec;

use base::mem::MemConfig;
use base::{DropReason, TcpFlags};
use core::time::Duration;
use proptest::prelude::*;
use tcp::ConnOptions;
use wire::icmpv4::{self, EchoKind, Icmpv4Error};
use wire::{checksum, protocol};

use super::fixture::*;
use crate::{AppEvent, ChecksumPolicy, Io, StackParams};

/// A frame to be made once it is known where the connection stands.
#[derive(Clone, Debug)]
enum Shape {
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
struct Anchor {
    seq: u32,
    ack: u32,
}

fn build(frame: &Frame, at: Anchor) -> Vec<u8> {
    let (peer, us) = (PEER_IP.into(), OUR_IP.into());
    let mut bytes = match &frame.shape {
        Shape::Bytes { link, bytes } => {
            let mut out = if *link { arp_request(PEER_MAC, PEER_IP, OUR_IP) } else { Vec::new() };
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
    };
    for (place, value) in &frame.mutations {
        if let Some(byte) = bytes.get_mut(*place) {
            *byte = *value;
        }
    }
    bytes
}

fn fix_checksum(body: &mut [u8]) {
    wire::tcp::set_checksum(body, 0);
    let pseudo = checksum::pseudo_v4(PEER_IP, OUR_IP, protocol::TCP, body.len());
    let sum = checksum::finish(pseudo, body, 0);
    wire::tcp::set_checksum(body, sum);
}

/// A host that echoes, has a connection, and believes all checksums if told so.
fn echo_host(trust: bool, mem: MemConfig) -> (Host, Anchor) {
    let mut config = stack_config(1, 1500);
    if trust {
        config.rx_checksum = ChecksumPolicy::Trust;
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
    let mut host = Host::with(mem, config, StackParams::default(), script);
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
        let (mut flat, at) = echo_host(trust, mem_config());
        let (mut cut, _) = echo_host(trust, mem_config());
        for frame in &frames {
            for host in [&mut flat, &mut cut] {
                host.now += Duration::from_millis(frame.pause_ms.into());
            }
            let bytes = build(frame, at);
            let expected = flat.give(&bytes);
            let got = cut.give_chain(&bytes, &frame.cuts);
            prop_assert_eq!(&got, &expected, "{:?}", frame);
            let drops = |h: &Host| -> Vec<_> {
                let all = DropReason::ALL.iter().map(|r| (r.name(), h.drops(*r)));
                all.filter(|(_, n)| *n > 0).collect()
            };
            prop_assert_eq!(drops(&cut), drops(&flat), "{:?}", frame);
        }
        prop_assert_eq!(cut.stack.tcp_counters(), flat.stack.tcp_counters());
        wind_down(&mut cut);
    }
}

#[test]
fn h125_headers_in_one_byte_buffers() {
    let (mut flat, at) = echo_host(false, mem_config());
    let frame = seg(TcpFlags::ACK, at.seq, at.ack).data(b"payload").frame();
    let expected = flat.give(&frame);
    assert_eq!(tcp_of(&expected)[0].payload, b"payload");
    for cuts in [&[1, 1, 1, 1, 1, 1, 1][..], &[53], &[13, 1], &[14], &[14, 20], &[33, 1, 19, 1]] {
        let (mut host, _) = echo_host(false, mem_config());
        assert_eq!(host.give_chain(&frame, cuts), expected, "{cuts:?}");
    }
}
