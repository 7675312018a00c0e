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
fn a_change_anywhere_in_a_familiar_segment_is_seen() {
    // A flat frame may take the short way in, one of two buffers never does.
    let (_, at) = echo_host(false, mem_config());
    let plain = seg(TcpFlags::ACK | TcpFlags::PSH, at.seq, at.ack).data(&[7; 30]).frame();
    let mut padded = seg(TcpFlags::ACK, at.seq, at.ack).frame();
    padded.resize(64, 0);
    let rows = [
        ("plain", plain),
        ("padded acknowledgement", padded),
        ("timestamps", Shape::Full { sack: 0, len: 30, v6: false }.bytes(at)),
        ("IPv6", Shape::Full { sack: 0, len: 30, v6: true }.bytes(at)),
    ];
    for (name, frame) in rows {
        let (mut flat, _) = echo_host(false, mem_config());
        let (mut cut, _) = echo_host(false, mem_config());
        for place in 0..frame.len() {
            for change in [0x01, 0x10, 0x20, 0x80, 0xff] {
                let mut changed = frame.clone();
                changed[place] ^= change;
                // Right checksums, so that the change gets past them.
                for fixed in [false, true] {
                    if fixed && !fix_checksums(&mut changed) {
                        continue;
                    }
                    for host in [&mut flat, &mut cut] {
                        host.now += core::time::Duration::from_millis(20);
                        host.give(&frame);
                    }
                    let expected = cut.give_chain(&changed, &[14]);
                    let case = (name, place, change, fixed);
                    assert_eq!(flat.give(&changed), expected, "{case:?}");
                    assert_eq!(drops(&flat), drops(&cut), "{case:?}");
                    assert_eq!(flat.stack.tcp_counters(), cut.stack.tcp_counters(), "{case:?}");
                    assert_eq!(flat.stack.counters(), cut.stack.counters(), "{case:?}");
                }
            }
        }
        assert_eq!(cut.events.borrow().len(), flat.events.borrow().len(), "{name}");
    }
}

/// Give an IPv4 frame with a TCP segment the checksums that its bytes ask for; false if it is none.
fn fix_checksums(frame: &mut [u8]) -> bool {
    let Some(total) = frame.get(16..18).map(|b| usize::from(u16::from_be_bytes([b[0], b[1]])))
    else {
        return false;
    };
    if frame[12..15] != [8, 0, 0x45] || !(40..=frame.len() - 14).contains(&total) {
        return false;
    }
    frame[24..26].fill(0);
    let sum = wire::checksum::of(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame[50..52].fill(0);
    let addresses = wire::checksum::sum(&frame[26..34], 6 + (total - 20) as u32);
    let sum = wire::checksum::finish(addresses, &frame[34..14 + total], 0);
    frame[50..52].copy_from_slice(&sum.to_be_bytes());
    true
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
