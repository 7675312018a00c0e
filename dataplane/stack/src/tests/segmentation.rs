//! Every place at which a frame can be cut into buffers, for each kind of frame.

use std::vec;
use std::vec::Vec;

use base::TcpFlags;
use base::mem::MEM_SEGMENTS_MAX;

use super::fixture::*;
use super::fuzz::{Anchor, Shape, drops, echo_host};

/// Each kind of frame that the stack looks into, with a name.
fn frames(at: Anchor) -> Vec<(&'static str, Vec<u8>)> {
    let six = |headers: &[u8], inner| Shape::Six { headers: headers.to_vec(), inner, len: 40 };
    let rows = [
        ("TCP with timestamps", Shape::Full { sack: 0, len: 30, v6: false }),
        ("TCP with timestamps and SACK", Shape::Full { sack: 3, len: 1200, v6: false }),
        ("TCP over IPv6", Shape::Full { sack: 2, len: 30, v6: true }),
        ("ARP", Shape::Arp { sender: 2, target: 1 }),
        ("ARP for others", Shape::Arp { sender: 2, target: 3 }),
        ("ARP of our own address", Shape::Arp { sender: 1, target: 1 }),
        ("echo", Shape::Echo { len: 100 }),
        ("empty echo", Shape::Echo { len: 0 }),
        ("UDP", Shape::Udp { len: 50 }),
        ("ICMP too big", Shape::Error { kind: 0, mtu: 900, seq: -1 }),
        ("ICMP unreachable", Shape::Error { kind: 13, mtu: 0, seq: -1 }),
        ("first fragment", Shape::Fragment { id: 1, offset: 0, more: true, len: 64 }),
        ("last fragment", Shape::Fragment { id: 1, offset: 8, more: false, len: 30 }),
        ("tiny fragment", Shape::Fragment { id: 2, offset: 0, more: true, len: 0 }),
        ("solicitation", Shape::Solicit { target: 1, dad: false, group: true }),
        ("solicitation to us", Shape::Solicit { target: 1, dad: false, group: false }),
        ("duplicate address detection", Shape::Solicit { target: 1, dad: true, group: true }),
        ("solicitation for others", Shape::Solicit { target: 3, dad: false, group: true }),
        ("advertisement", Shape::Advertise { target: 2, solicited: true }),
        ("claim of our address", Shape::Advertise { target: 1, solicited: false }),
        ("TCP behind four headers", six(&[0, 1, 2, 3], 0)),
        ("UDP behind a header", six(&[1], 1)),
        ("echo behind an atomic fragment", six(&[3], 2)),
        ("unknown protocol behind headers", six(&[0, 1], 3)),
        ("headers in the wrong order", six(&[1, 0], 2)),
        ("first fragment of IPv6", Shape::Fragment6 { id: 1, offset: 0, more: true, len: 64 }),
        ("last fragment of IPv6", Shape::Fragment6 { id: 1, offset: 8, more: false, len: 30 }),
        ("ICMPv6 too big", Shape::Error6 { kind: 0, mtu: 1300, seq: -1 }),
        ("ICMPv6 unreachable", Shape::Error6 { kind: 17, mtu: 0, seq: -1 }),
    ];
    let mut all: Vec<(&str, Vec<u8>)> =
        rows.into_iter().map(|(name, shape)| (name, shape.bytes(at))).collect();
    let mut tagged = Shape::Full { sack: 1, len: 30, v6: false }.bytes(at);
    tagged.splice(12..12, [0x81, 0x00, 0x20, 0x00, 0x81, 0x00, 0x00, 0x00]);
    all.push(("priority in two tags", tagged));
    let mut padded = seg(TcpFlags::ACK, at.seq, at.ack).frame();
    padded.resize(60, 0xee);
    all.push(("padded", padded));
    let mut wrong = Shape::Full { sack: 0, len: 30, v6: false }.bytes(at);
    wrong[60] ^= 1;
    all.push(("wrong checksum", wrong));
    for len in [0, 1, 13, 14, 33, 34, 53] {
        let mut short = Shape::Full { sack: 0, len: 30, v6: false }.bytes(at);
        short.truncate(len);
        all.push(("cut short", short));
    }
    let mut garbage: Vec<u8> = (0..200_u32).map(|i| ((i * 7919) >> 3) as u8).collect();
    garbage[..6].copy_from_slice(&OUR_MAC);
    all.push(("garbage", garbage));
    all
}

/// Cuts that leave no place out: each alone, with one byte between two, and many small ones.
fn cuts(len: usize) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = (1..len).map(|at| vec![at]).collect();
    all.extend((1..len.saturating_sub(1)).map(|at| vec![at, 1]));
    for first in [1, 6, 12, 13, 14, 15, 18, 20, 22, 33, 34, 35, 41, 53, 54, 55, 62] {
        for size in [1, 2, 3, 7, 8, 20] {
            let mut cuts = vec![size; MEM_SEGMENTS_MAX - 1];
            cuts[0] = first;
            all.push(cuts);
        }
    }
    all
}

#[test]
fn h125_any_cut_of_any_frame_is_the_flat_frame() {
    let (_, at) = echo_host(false, mem_config());
    let frames = frames(at);
    for (name, frame) in &frames {
        let (mut flat, _) = echo_host(false, mem_config());
        let (mut cut, _) = echo_host(false, mem_config());
        for cuts in cuts(frame.len()) {
            // Whatever is limited in time is so for both.
            for host in [&mut flat, &mut cut] {
                host.now += core::time::Duration::from_millis(20);
            }
            let expected = flat.give(frame);
            let got = cut.give_chain(frame, &cuts);
            assert_eq!(got, expected, "{name}, {cuts:?}");
            assert_eq!(drops(&cut), drops(&flat), "{name}, {cuts:?}");
            assert_eq!(cut.stack.tcp_counters(), flat.stack.tcp_counters(), "{name}, {cuts:?}");
            assert_eq!(cut.stack.counters(), flat.stack.counters(), "{name}, {cuts:?}");
        }
        assert_eq!(cut.events.borrow().len(), flat.events.borrow().len(), "{name}");
    }
}

#[test]
fn the_frames_are_what_their_names_say() {
    // Or the comparison above would compare nothing with nothing.
    let (_, at) = echo_host(false, mem_config());
    let answered = |name: &str| {
        let (mut host, _) = echo_host(false, mem_config());
        let all = frames(at);
        let (_, frame) = all.iter().find(|(n, _)| *n == name).unwrap();
        let before = host.total_drops();
        let sent = host.give(frame);
        (sent.len(), host.total_drops() - before)
    };
    let rows = [
        ("TCP with timestamps", (1, 0)),
        ("TCP with timestamps and SACK", (1, 0)),
        ("TCP over IPv6", (1, 1)),
        ("ARP", (1, 0)),
        ("ARP for others", (0, 1)),
        ("ARP of our own address", (0, 1)),
        ("echo", (1, 0)),
        ("empty echo", (1, 0)),
        ("UDP", (1, 1)),
        ("first fragment", (0, 0)),
        ("tiny fragment", (0, 1)),
        ("solicitation", (1, 0)),
        ("solicitation to us", (1, 0)),
        ("duplicate address detection", (1, 0)),
        ("TCP behind four headers", (1, 1)),
        ("UDP behind a header", (1, 1)),
        ("echo behind an atomic fragment", (1, 0)),
        ("unknown protocol behind headers", (1, 1)),
        ("headers in the wrong order", (1, 1)),
        ("first fragment of IPv6", (0, 0)),
        ("priority in two tags", (1, 0)),
        ("wrong checksum", (0, 1)),
    ];
    for (name, expected) in rows {
        assert_eq!(answered(name), expected, "{name}");
    }
}
