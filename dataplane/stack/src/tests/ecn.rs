//! What IP headers say of congestion, on its way to the engine and back.

use std::vec::Vec;

use base::{Ecn, TcpFlags};

use super::fixture::*;

const A: TcpFlags = TcpFlags::ACK;
const E: TcpFlags = TcpFlags::ECE;

/// The frame with another codepoint.
fn with(mut frame: Vec<u8>, ecn: Ecn) -> Vec<u8> {
    if frame[12..14] == [8, 0] {
        frame[15] = frame[15] & !3 | ecn.bits();
        frame[24..26].fill(0);
        let sum = wire::checksum::of(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    } else {
        frame[15] = frame[15] & !0x30 | ecn.bits() << 4;
    }
    frame
}

/// A host with a connection of the peer's that has ECN, our next sequence number, and the peer's.
fn connected(v6: bool) -> (Host, u32) {
    let mut host = Host::new();
    host.introduce_peer();
    let dress = |s: Tcp| if v6 { s.v6() } else { s };
    let syn = dress(seg(TcpFlags::SYN | E | TcpFlags::CWR, 99, 0));
    let answer = tcp_of(&host.give(&syn.frame()));
    let answer = answer.first().expect("a SYN-ACK");
    assert_eq!(answer.tcp.flags, TcpFlags::SYN | A | E);
    let ack = answer.tcp.seq.wrapping_add(1);
    host.give(&dress(seg(A, 100, ack)).frame());
    (host, ack)
}

/// Segments take the short way in once the flow is known; cut in two buffers they never do. The answers are
/// the same.
#[test]
fn a_mark_is_seen_on_each_way_in() {
    for v6 in [false, true] {
        for cut in [false, true] {
            let (mut host, ack) = connected(v6);
            let mut seq = 100;
            for (ecn, flags, echo) in [
                (Ecn::Ect0, A, A),
                (Ecn::Ect0, A, A),
                (Ecn::Ce, A, A | E),
                (Ecn::Ect0, A, A | E),
                (Ecn::Ect0, A | TcpFlags::CWR, A),
                (Ecn::Ect1, A, A),
                (Ecn::Ce, A, A | E),
            ] {
                let data = seg(flags, seq, ack).data(&[7; 100]);
                let data = if v6 { data.v6() } else { data };
                seq += 100;
                let frame = with(data.frame(), ecn);
                let sent = if cut { host.give_chain(&frame, &[14]) } else { host.give(&frame) };
                let answers = tcp_of(&sent);
                let case = (v6, cut, seq, ecn);
                assert_eq!(answers.len(), 1, "{case:?}: acknowledged at once");
                assert_eq!((answers[0].tcp.flags, answers[0].tcp.ack), (echo, seq), "{case:?}");
            }
            let c = host.stack.counters();
            let seen = if v6 {
                [c.ip6_in_ect0_pkts, c.ip6_in_ect1_pkts, c.ip6_in_ce_pkts]
            } else {
                [c.ip_in_ect0_pkts, c.ip_in_ect1_pkts, c.ip_in_ce_pkts]
            };
            assert_eq!(seen, [4, 1, 2], "v6 {v6}, cut {cut}");
        }
    }
}
