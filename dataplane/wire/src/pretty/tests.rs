use std::string::{String, ToString};
use std::vec::Vec;

use base::TcpFlags;
use proptest::prelude::*;

use super::*;
use crate::arp::ArpPacket;
use crate::ethernet::Mac;
use crate::icmpv4::{EchoKind, Icmpv4Error};
use crate::ipv4::{HeaderChecksum, Ipv4Fields};
use crate::ipv6::Ipv6Fields;
use crate::tcp::{TcpFields, TcpOptions};

const MACS: (Mac, Mac) = (Mac([2, 0, 0, 0, 0, 2]), Mac([2, 0, 0, 0, 0, 1]));

fn frame(vlan: Option<u16>, ethertype: EtherType, rest: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 18];
    let len = ethernet::emit(&mut out, MACS.0, MACS.1, vlan, ethertype);
    out.truncate(len);
    out.extend(rest);
    out
}

fn v4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let fields = Ipv4Fields {
        src: [10, 0, 0, 1].into(),
        dst: [10, 0, 0, 2].into(),
        protocol,
        ttl: 64,
        tos: 0,
        ident: 77,
        dont_fragment: true,
        total_len: 20 + payload.len() as u16,
    };
    let mut out = vec![0; 20];
    ipv4::emit(&mut out, &fields, HeaderChecksum::Compute);
    out.extend(payload);
    out
}

fn v6(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let fields = Ipv6Fields {
        src: "fe80::1".parse().unwrap(),
        dst: "fe80::2".parse().unwrap(),
        traffic_class: 0,
        flow_label: 0,
        hop_limit: 255,
        next_header,
        payload_len: payload.len() as u16,
    };
    let mut out = vec![0; 40];
    ipv6::emit(&mut out, &fields);
    out.extend(payload);
    out
}

fn tcp(flags: TcpFlags, options: TcpOptions, payload: &[u8]) -> Vec<u8> {
    let fields = TcpFields {
        src_port: 4000,
        dst_port: 80,
        seq: 100,
        ack: if flags.ack() { 7 } else { 0 },
        flags,
        window: 512,
        urgent: 0,
        options,
    };
    let mut out = vec![0; 60];
    let len = tcp::emit(&mut out, &fields);
    out.truncate(len);
    out.extend(payload);
    out
}

fn show_v4(protocol: u8, payload: &[u8]) -> String {
    PrettyFrame(&frame(None, EtherType::IPV4, &v4(protocol, payload))).to_string()
}

fn show_v6(next_header: u8, payload: &[u8]) -> String {
    PrettyFrame(&frame(None, EtherType::IPV6, &v6(next_header, payload))).to_string()
}

#[test]
fn tcp_over_ipv4() {
    let options = TcpOptions {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some((1, 0)),
        ..TcpOptions::default()
    };
    assert_eq!(
        show_v4(6, &tcp(TcpFlags::SYN, options, &[])),
        "IP 10.0.0.1.4000 > 10.0.0.2.80: Flags [S], seq 100, win 512, \
         options [mss 1460,sackOK,TS val 1 ecr 0,nop,wscale 7], length 0"
    );
    let sack = TcpOptions {
        sack: [(200, 300), (400, 500)].into_iter().collect(),
        ..TcpOptions::with_timestamps(5, 6)
    };
    assert_eq!(
        show_v4(6, &tcp(TcpFlags::ACK, sack, &[])),
        "IP 10.0.0.1.4000 > 10.0.0.2.80: Flags [.], ack 7, win 512, \
         options [nop,nop,TS val 5 ecr 6,nop,nop,sack 2 {200:300}{400:500}], length 0"
    );
    let flags = TcpFlags::ACK | TcpFlags::PSH | TcpFlags::URG | TcpFlags::ECE;
    assert!(show_v4(6, &tcp(flags, TcpOptions::default(), &[])).contains("Flags [P.UE],"));
    let data = tcp(TcpFlags::ACK | TcpFlags::PSH, TcpOptions::default(), b"hello");
    assert_eq!(
        show_v4(6, &data),
        "IP 10.0.0.1.4000 > 10.0.0.2.80: Flags [P.], seq 100:105, ack 7, win 512, length 5"
    );
}

#[test]
fn what_would_be_dropped_says_why() {
    let mut bad_option = tcp(TcpFlags::ACK, TcpOptions::with_timestamps(1, 2), &[]);
    bad_option[23] = 99;
    assert_eq!(
        show_v4(6, &bad_option),
        "IP 10.0.0.1.4000 > 10.0.0.2.80: Flags [.], ack 7, win 512, \
         options [nop,nop,bad], length 0 [tcp_opt]"
    );
    assert_eq!(show_v4(6, &[0; 8]), "IP 10.0.0.1 > 10.0.0.2: tcp [tcp_short], length 8");
    assert_eq!(show_v4(17, &[0; 8]), "IP 10.0.0.1 > 10.0.0.2: UDP [udp_bad], length 8");
    assert_eq!(show_v4(47, &[0; 8]), "IP 10.0.0.1 > 10.0.0.2: ip-proto-47 8");
    assert_eq!(PrettyFrame(&[]).to_string(), "Ethernet [l2_short], length 0");
    let empty = frame(None, EtherType::IPV4, &[]);
    assert_eq!(PrettyFrame(&empty).to_string(), "IP [l3_short], length 0");
    let other = frame(None, EtherType(0x88cc), &[1]);
    assert_eq!(
        PrettyFrame(&other).to_string(),
        "02:00:00:00:00:01 > 02:00:00:00:00:02, ethertype 0x88cc, length 15"
    );
}

#[test]
fn other_protocols() {
    let udp = [0, 53, 0x10, 0, 0, 9, 0, 0, 1];
    let tagged = frame(Some(0x6005), EtherType::IPV4, &v4(17, &udp));
    assert_eq!(
        PrettyFrame(&tagged).to_string(),
        "vlan 5, p 3, IP 10.0.0.1.53 > 10.0.0.2.4096: UDP, length 1"
    );
    let mut arp = [0; 28];
    let request = ArpPacket::request(MACS.1, [10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    request.emit(&mut arp);
    assert_eq!(
        PrettyFrame(&frame(None, EtherType::ARP, &arp)).to_string(),
        "ARP, Request who-has 10.0.0.2 tell 10.0.0.1, length 28"
    );
    let mut echo = [0; 8];
    icmpv4::emit_echo(&mut echo, EchoKind::Request, 3, 4, 0);
    assert_eq!(
        show_v4(1, &echo),
        "IP 10.0.0.1 > 10.0.0.2: ICMP echo request, id 3, seq 4, length 8"
    );
    let mut error = [0; 100];
    let quoted = v4(6, &tcp(TcpFlags::ACK, TcpOptions::default(), &[]));
    let len = icmpv4::emit_error(&mut error, Icmpv4Error::FragmentationNeeded(1400), &quoted);
    assert_eq!(
        show_v4(1, &error[..len]),
        "IP 10.0.0.1 > 10.0.0.2: ICMP 10.0.0.2 tcp port 80 unreachable - need to frag (mtu 1400), \
         length 48"
    );
    let mut fragment = v4(6, &[0; 16]);
    fragment[6..8].copy_from_slice(&[0x20, 3]);
    assert_eq!(
        PrettyFrame(&frame(None, EtherType::IPV4, &fragment)).to_string(),
        "IP 10.0.0.1 > 10.0.0.2: frag (77:16@24+), proto 6"
    );
}

#[test]
fn over_ipv6() {
    let (src, dst) = ("fe80::1".parse().unwrap(), "fe80::2".parse().unwrap());
    let mut out = [0; 32];
    let question = ndp::Solicitation { target: dst, source_mac: Some(MACS.1) };
    let len = question.emit(&mut out, src, dst);
    assert_eq!(
        show_v6(58, &out[..len]),
        "IP6 fe80::1 > fe80::2: ICMP6, neighbor solicitation, who has fe80::2, length 32"
    );
    let segment = tcp(TcpFlags::RST, TcpOptions::default(), &[]);
    assert_eq!(
        show_v6(6, &segment),
        "IP6 fe80::1.4000 > fe80::2.80: Flags [R], seq 100, win 512, length 0"
    );
    assert_eq!(
        show_v6(44, &[6, 0, 0, 9, 0, 0, 0, 255, 1, 2]),
        "IP6 fe80::1 > fe80::2: frag (0x000000ff:2@8+), next-header 6"
    );
}

fn one_line(bytes: &[u8]) {
    let line = PrettyFrame(bytes).to_string();
    assert!(!line.is_empty() && !line.contains('\n'), "{line:?}");
}

proptest! {
    #[test]
    fn any_bytes_print_on_one_line(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        one_line(&bytes);
    }

    /// Headers that let the bytes through to the printers behind.
    #[test]
    fn any_payload_prints_on_one_line(
        payload in proptest::collection::vec(any::<u8>(), 0..120),
        protocol in prop_oneof![Just(1u8), Just(6), Just(17), Just(44), Just(58), Just(60), any::<u8>()],
        kind in 0u8..14, v6_kind in 128u8..140,
    ) {
        one_line(&frame(None, EtherType::ARP, &payload));
        let mut payload = payload;
        for first in [kind, v6_kind] {
            if let Some(byte) = payload.first_mut() { *byte = first; }
            show_v4(protocol, &payload);
            show_v6(protocol, &payload);
        }
        let segment = [&tcp(TcpFlags::ACK, TcpOptions::default(), &[])[..], &payload].concat();
        for words in 0..16u8 {
            let mut segment = segment.clone();
            segment[12] = words << 4;
            one_line(&frame(Some(1), EtherType::IPV4, &v4(6, &segment)));
        }
    }

    /// Flipping bits of a good frame gets further than any bytes.
    #[test]
    fn damaged_frames_print_on_one_line(flips in proptest::collection::vec(any::<proptest::sample::Index>(), 1..8)) {
        let segment = tcp(TcpFlags::SYN, TcpOptions { mss: Some(9), ..TcpOptions::with_timestamps(1, 2) }, b"x");
        let mut bytes = frame(Some(9), EtherType::IPV4, &v4(6, &segment));
        for flip in flips {
            let bit = flip.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        one_line(&bytes);
    }
}
