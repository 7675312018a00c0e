//! Handshakes, ports, resets, and what strangers send: RFC 9293 section 3.10.7.1, RFC 9293
//! section 3.10.7.2, RFC 9293 section 3.10.7.3, RFC 1122 section 4.2.3.9, RFC 1122 section 4.2.3.5.

use std::vec;
use std::vec::Vec;

use alloc::boxed::Box;
use alloc::sync::Arc;

use base::mem::{MemConfig, MemDevice};
use base::{Checksum, ConnId, Device, DropReason, Frame, Instant, RxMeta, SeededRandom, TcpFlags};
use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use tcp::{CloseReason, ConnOptions};
use wire::icmpv4::{self, Icmpv4Error};
use wire::{Mac, protocol};

use super::fixture::*;
use crate::{
    AppEvent, ChecksumPolicy, Command, ConnectError, Io, Local, LocalAddress, Outgoing, Stack,
    StackParams,
};

const SYN: TcpFlags = TcpFlags::SYN;
const ACK: TcpFlags = TcpFlags::ACK;
const RST: TcpFlags = TcpFlags::RST;
const FIN: TcpFlags = TcpFlags::FIN;

fn syn(seq: u32) -> Tcp {
    let mut s = seg(SYN, seq, 0);
    s.fields.options.mss = Some(1460);
    s
}

/// A host that knows its peer.
fn host() -> Host {
    let mut host = Host::new();
    host.introduce_peer();
    host
}

/// Open a connection from the peer's port 1000 and return our initial sequence number.
fn open(host: &mut Host) -> u32 {
    let sent = tcp_of(&host.give(&syn(100).frame()));
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].tcp.flags, SYN | ACK);
    assert_eq!(sent[0].tcp.ack, 101);
    let iss = sent[0].tcp.seq;
    host.give(&seg(ACK, 101, iss.wrapping_add(1)).frame());
    iss
}

fn accepted(host: &Host) -> Vec<ConnId> {
    let events = host.events.borrow();
    let conn = |e: &AppEvent| match e {
        AppEvent::Accepted { conn, .. } => Some(*conn),
        _ => None,
    };
    events.iter().filter_map(conn).collect()
}

fn closed(host: &Host) -> Vec<CloseReason> {
    let events = host.events.borrow();
    let reason = |e: &AppEvent| match e {
        AppEvent::Closed { reason, .. } => Some(*reason),
        _ => None,
    };
    events.iter().filter_map(reason).collect()
}

#[test]
fn h7_padding_is_not_payload() {
    let mut host = host();
    let iss = open(&mut host);
    let mut frame = seg(ACK, 101, iss.wrapping_add(1)).frame();
    frame.resize(60, 0xee);
    host.give(&frame);
    let conn = accepted(&host)[0];
    assert_eq!(host.stack.io().readable(conn), 0);
    let mut frame = seg(ACK, 101, iss.wrapping_add(1)).data(b"hi").frame();
    frame.resize(60, 0xee);
    host.give(&frame);
    assert_eq!(host.stack.io().readable(conn), 2);
}

#[test]
fn a_scan_of_closed_ports_is_answered_with_resets_and_costs_nothing() {
    for v6 in [false, true] {
        let mut host = host();
        for port in 1..2000_u16 {
            if port == 80 {
                continue;
            }
            let probe = syn(7).ports(999, port);
            let probe = if v6 { probe.v6() } else { probe };
            let sent = tcp_of(&host.give(&probe.frame()));
            assert_eq!(sent.len(), 1, "port {port}");
            assert_eq!(sent[0].tcp.flags, RST | ACK);
            assert_eq!((sent[0].tcp.seq, sent[0].tcp.ack), (0, 8));
            assert_eq!((sent[0].tcp.src_port, sent[0].to), (port, Mac(PEER_MAC)));
        }
        assert_eq!(host.stack.table(), [0, 0, 0]);
        assert_eq!(host.drops(DropReason::TcpNoSocket), 1998);
        assert_eq!(host.stack.tcp_counters().out_rsts, 1998);
        // A reset is never answered.
        assert!(host.give(&seg(RST, 7, 0).ports(999, 7).frame()).is_empty());
        host.assert_balanced();
    }
}

#[test]
fn resets_are_bounded_in_each_turn() {
    let mut host = host();
    for i in 0..300_u16 {
        let frame = syn(7).ports(i + 1, 7).frame();
        assert!(host.stack.device_mut().deliver(&frame));
    }
    let mut answers = 0;
    for _ in 0..10 {
        host.turn();
        let sent = tcp_of(&host.sent()).len();
        assert!(sent <= 64);
        answers += sent;
    }
    assert!(answers > 0);
    host.assert_balanced();
}

#[test]
fn h58_wrong_checksums_are_seen_whatever_the_device_says() {
    let mut host = host();
    let good = syn(5).frame();
    let mut bad = good.clone();
    bad[40] ^= 1;
    let deliver = |host: &mut Host, frame: &[u8], l4_checksum| {
        let mut chain = host.chain(frame, &[]);
        chain.set_rx_meta(RxMeta { l4_checksum, ..RxMeta::default() });
        host.stack.device_mut().deliver_frame(chain);
        host.turn();
        tcp_of(&host.sent()).len()
    };
    assert_eq!(deliver(&mut host, &bad, Checksum::Unknown), 0);
    assert_eq!(deliver(&mut host, &bad, Checksum::Bad), 0);
    assert_eq!(host.drops(DropReason::TcpChecksum), 2);
    assert_eq!(host.stack.tcp_counters().in_csum_errors, 2);
    // H133: "bad" is verified again before anything is dropped.
    assert_eq!(deliver(&mut host, &good, Checksum::Bad), 1);
    assert_eq!(deliver(&mut host, &bad, Checksum::Good), 0, "another sequence number: a challenge");
}

#[test]
fn a_link_that_leaves_checksums_out_is_reported_once() {
    let mut host = Host::new();
    let mut frame = syn(5).frame();
    frame[50..52].copy_from_slice(&[0, 0]);
    for _ in 0..100 {
        host.give(&frame);
    }
    let traps = host.outgoing.iter().filter(|o| matches!(o, Outgoing::ChecksumTrap(_))).count();
    assert_eq!(traps, 1);
    // Policy `Trust` is the way out.
    let mut config = stack_config(1, 1500);
    config.ports[0].rx_checksum = ChecksumPolicy::Trust;
    let mut host = Host::with(mem_config(), config, StackParams::default(), |_, _| {});
    assert_eq!(tcp_of(&host.give(&frame)).len(), 1);
}

#[test]
fn h72_data_in_a_syn_are_not_taken() {
    let mut host = host();
    let sent = tcp_of(&host.give(&syn(100).data(b"early").frame()));
    assert_eq!(sent[0].tcp.ack, 101);
    let iss = sent[0].tcp.seq;
    host.give(&seg(ACK, 101, iss.wrapping_add(1)).frame());
    let conn = accepted(&host)[0];
    assert_eq!(host.stack.io().readable(conn), 0);
}

#[test]
fn h73_a_repeated_syn_gets_the_same_answer() {
    let mut host = host();
    let first = tcp_of(&host.give(&syn(100).frame()));
    let iss = first[0].tcp.seq;
    for _ in 0..3 {
        for again in tcp_of(&host.give(&syn(100).frame())) {
            assert_eq!((again.tcp.seq, again.tcp.ack, again.tcp.flags), (iss, 101, SYN | ACK));
        }
    }
    assert_eq!(host.stack.table(), [0, 1, 0]);
    host.give(&seg(ACK, 101, iss.wrapping_add(1)).frame());
    assert_eq!(host.stack.table(), [1, 0, 0]);
}

#[test]
fn h75_a_reset_frees_the_slot_at_once() {
    let script = |io: &mut dyn Io, e: &AppEvent| {
        if matches!(e, AppEvent::Start) {
            io.listen(None, 80, 1, &ConnOptions::default()).unwrap();
        }
    };
    let mut host = Host::with(mem_config(), stack_config(1, 1500), StackParams::default(), script);
    host.introduce_peer();
    for i in 0..5 {
        let sent = tcp_of(&host.give(&syn(100).ports(1000 + i, 80).frame()));
        assert_eq!(sent.len(), 1, "round {i}");
        // The backlog is full now.
        assert!(tcp_of(&host.give(&syn(1).ports(2000, 80).frame())).is_empty());
        host.give(&seg(RST, 101, 0).ports(1000 + i, 80).frame());
        assert_eq!(host.stack.table(), [0, 0, 0]);
    }
    assert!(closed(&host).is_empty(), "nobody has heard of them");
}

#[test]
fn h76_a_full_accept_queue_keeps_the_handshake() {
    // Final acknowledgements of more connections than the backlog come in one burst.
    let script = |io: &mut dyn Io, e: &AppEvent| {
        if matches!(e, AppEvent::Start) {
            io.listen(None, 80, 4, &ConnOptions::default()).unwrap();
        }
    };
    let mut host = Host::with(mem_config(), stack_config(1, 1500), StackParams::default(), script);
    host.introduce_peer();
    let mut finals = Vec::new();
    for port in 1000..1004 {
        let sent = tcp_of(&host.give(&syn(100).ports(port, 80).frame()));
        finals.push(seg(ACK, 101, sent[0].tcp.seq.wrapping_add(1)).ports(port, 80).frame());
    }
    for frame in &finals {
        assert!(host.stack.device_mut().deliver(frame));
    }
    // A fifth SYN in the same burst finds the queue of established ones full.
    assert!(host.stack.device_mut().deliver(&syn(100).ports(1004, 80).frame()));
    host.turn();
    assert_eq!(accepted(&host).len(), 4);
    assert_eq!(host.drops(DropReason::ListenOverflow), 1);
    assert_eq!(tcp_of(&host.give(&syn(100).ports(1004, 80).frame())).len(), 1, "and then room");
}

#[test]
fn h77_data_complete_the_handshake() {
    let mut host = host();
    let sent = tcp_of(&host.give(&syn(100).frame()));
    let iss = sent[0].tcp.seq;
    let push = ACK | TcpFlags::PSH;
    host.give(&seg(push, 101, iss.wrapping_add(1)).data(b"hello").frame());
    let conn = accepted(&host)[0];
    let mut got = Vec::new();
    let taken = host.stack.io().recv(conn, &mut |bytes| {
        got.extend_from_slice(bytes);
        bytes.len()
    });
    assert_eq!((got.as_slice(), taken.unwrap().left), (&b"hello"[..], 0));
}

fn client(port: u16) -> Host {
    let script = move |io: &mut dyn Io, e: &AppEvent| {
        if matches!(e, AppEvent::Start) {
            io.connect(
                SocketAddr::from((PEER_IP, port)),
                Local::port(4000),
                &ConnOptions::default(),
            )
            .unwrap();
        }
    };
    let mut host = Host::with(mem_config(), stack_config(1, 1500), StackParams::default(), script);
    // The SYN waits for the peer's address.
    host.stack.device_mut().deliver(&arp_request(PEER_MAC, PEER_IP, OUR_IP));
    host
}

/// Run the first turns of a client and return its SYN.
fn first_syn(host: &mut Host) -> Sent {
    host.turn();
    let sent = tcp_of(&host.sent());
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].tcp.flags, SYN);
    sent[0].clone()
}

#[test]
fn h78_h79_wrong_answers_to_our_syn() {
    let mut host = client(9);
    let ours = first_syn(&mut host);
    let answer = |flags, seq, ack| seg(flags, seq, ack).ports(9, 4000).frame();
    let right = ours.tcp.seq.wrapping_add(1);
    let sent = tcp_of(&host.give(&answer(SYN | ACK, 500, right.wrapping_add(7))));
    assert_eq!((sent[0].tcp.flags, sent[0].tcp.seq), (RST, right.wrapping_add(7)));
    for frame in [answer(RST | ACK, 0, right.wrapping_add(7)), answer(RST, 0, 0)] {
        assert!(tcp_of(&host.give(&frame)).is_empty());
    }
    assert_eq!(host.stack.table(), [0, 1, 0]);
    host.give(&answer(RST | ACK, 0, right));
    assert_eq!(closed(&host), [CloseReason::Refused]);
    assert_eq!(host.stack.table(), [0, 0, 0]);
    host.assert_balanced();
}

#[test]
fn h80_simultaneous_open() {
    let mut host = client(9);
    let ours = first_syn(&mut host);
    let mut theirs = seg(SYN, 500, 0).ports(9, 4000);
    theirs.fields.options.mss = Some(1460);
    let sent = tcp_of(&host.give(&theirs.frame()));
    assert_eq!((sent[0].tcp.flags, sent[0].tcp.ack), (SYN | ACK, 501));
    let mut crossing = seg(SYN | ACK, 500, ours.tcp.seq.wrapping_add(1)).ports(9, 4000);
    crossing.fields.options.mss = Some(1460);
    host.give(&crossing.frame());
    let connected = |e: &AppEvent| matches!(e, AppEvent::Connected { .. });
    assert_eq!(host.events.borrow().iter().filter(|e| connected(e)).count(), 1);
    assert_eq!(host.stack.table(), [1, 0, 0]);
}

#[test]
fn a_syn_that_nobody_answers_times_out() {
    let mut host = client(9);
    first_syn(&mut host);
    let sent = tcp_of(&host.run_for(Duration::from_secs(200)));
    assert!((6..=12).contains(&sent.len()), "{} repetitions", sent.len());
    assert_eq!(closed(&host), [CloseReason::TimedOut]);
    host.assert_balanced();
}

#[test]
fn an_unresolved_neighbour_holds_the_syn_back_and_loses_it_in_the_end() {
    let script = |io: &mut dyn Io, e: &AppEvent| {
        if matches!(e, AppEvent::Start) {
            let remote = SocketAddr::from(([10, 0, 0, 77], 9));
            io.connect(remote, Local::ANY, &ConnOptions::default()).unwrap();
        }
    };
    let mut host = Host::with(mem_config(), stack_config(1, 1500), StackParams::default(), script);
    let sent = host.run_for(Duration::from_secs(200));
    assert!(tcp_of(&sent).is_empty());
    assert!(sent.len() >= 3, "it was asked for");
    assert_eq!(closed(&host), [CloseReason::TimedOut]);
    assert!(host.drops(DropReason::NeighborFailed) > 0);
    host.assert_balanced();
}

#[test]
fn icmp_refuses_a_syn_but_not_a_connection() {
    let unreachable = |code, packet: &[u8]| {
        let mut body = vec![0; 600];
        let len = icmpv4::emit_error(&mut body, Icmpv4Error::Unreachable(code), &packet[14..]);
        body.truncate(len);
        ip_frame(PEER_IP.into(), OUR_IP.into(), protocol::ICMP, &body)
    };
    let mut host = client(9);
    host.turn();
    let frames = host.sent();
    let ours = frames.iter().find(|f| parse_sent(f).is_some()).unwrap().clone();
    // A guess at the sequence number.
    let mut forged = ours.clone();
    forged[40] ^= 0x40;
    host.give(&unreachable(3, &forged));
    assert_eq!(host.drops(DropReason::IcmpSequence), 1);
    assert_eq!(host.stack.counters().out_of_window_icmps, 1);
    host.give(&unreachable(0, &ours));
    assert!(closed(&host).is_empty(), "soft");
    host.give(&unreachable(3, &ours));
    assert_eq!(closed(&host).len(), 1);

    let mut host = self::host();
    open(&mut host);
    let conn = accepted(&host)[0];
    host.stack.io().send(conn, b"data", false).unwrap();
    host.turn();
    let data = host.sent().pop().unwrap();
    host.give(&unreachable(3, &data));
    assert!(closed(&host).is_empty());
    assert_eq!(host.stack.table(), [1, 0, 0]);
}

#[test]
fn packet_too_big_makes_segments_smaller() {
    let mut host = host();
    open(&mut host);
    let conn = accepted(&host)[0];
    host.stack.io().send(conn, &[1; 3000], false).unwrap();
    host.turn();
    let sent = host.sent();
    assert_eq!(parse_sent(&sent[0]).unwrap().payload.len(), 1460);
    let mut body = vec![0; 600];
    let error = Icmpv4Error::FragmentationNeeded(1000);
    let len = icmpv4::emit_error(&mut body, error, &sent[0][14..]);
    body.truncate(len);
    let answer = host.give(&ip_frame(PEER_IP.into(), OUR_IP.into(), protocol::ICMP, &body));
    let again = tcp_of(&answer);
    assert!(!again.is_empty());
    assert!(again.iter().all(|s| s.payload.len() <= 960));
    // The stored bytes are cut anew, across the old borders.
    assert!(again.iter().all(|s| s.payload.iter().all(|b| *b == 1)));
}

#[test]
fn h81_closing_a_listener_resets_what_is_half_open() {
    let mut host = host();
    let mut syn_acks = Vec::new();
    for port in 1000..1010 {
        syn_acks.extend(tcp_of(&host.give(&syn(100).ports(port, 80).frame())));
    }
    assert_eq!(host.stack.table(), [0, 10, 0]);
    host.stack.io().close_listener(base::ListenerId(0));
    host.turn();
    let resets = tcp_of(&host.sent());
    assert_eq!(resets.iter().filter(|s| s.tcp.flags.rst()).count(), 10);
    assert_eq!(host.stack.table(), [0, 0, 0]);
    let sent = tcp_of(&host.give(&seg(ACK, 101, syn_acks[0].tcp.seq.wrapping_add(1)).frame()));
    assert_eq!(sent[0].tcp.flags, RST);
    host.assert_balanced();
}

#[test]
fn h82_h83_ports_run_out_and_ourselves_are_refused() {
    let params = StackParams { local_port_range: [5000, 5003], ..StackParams::default() };
    let mut host = Host::with(mem_config(), stack_config(1, 1500), params, |_, _| {});
    host.introduce_peer();
    let remote = SocketAddr::from((PEER_IP, 9));
    let options = ConnOptions::default();
    let mut ports = Vec::new();
    for _ in 0..4 {
        let conn = host.stack.io().connect(remote, Local::ANY, &options).unwrap();
        ports.push(host.stack.io().local_addr(conn).unwrap().port());
    }
    ports.sort_unstable();
    assert_eq!(ports, [5000, 5001, 5002, 5003]);
    let io = host.stack.io();
    assert_eq!(io.connect(remote, Local::ANY, &options), Err(ConnectError::PortsExhausted));
    assert_eq!(io.connect(remote, Local::port(5001), &options), Err(ConnectError::PortsExhausted));
    let other = SocketAddr::from((PEER_IP, 10));
    assert!(io.connect(other, Local::port(5001), &options).is_ok(), "another peer, another tuple");
    for (addr, error) in [
        ("10.0.0.1:80", ConnectError::NoRoute),
        ("224.0.0.1:80", ConnectError::Invalid),
        ("255.255.255.255:80", ConnectError::Invalid),
        ("0.0.0.0:80", ConnectError::Invalid),
        ("10.0.0.2:0", ConnectError::Invalid),
        ("[2001:db8::1]:80", ConnectError::NoRoute),
    ] {
        assert_eq!(io.connect(addr.parse().unwrap(), Local::ANY, &options), Err(error), "{addr}");
    }
}

/// RFC 9293 section 3.9.1, MUST-43.
#[test]
fn each_local_address_has_its_own_ports() {
    let params = StackParams { local_port_range: [5000, 5003], ..StackParams::default() };
    let mut config = stack_config(1, 1500);
    let second = Ipv4Addr::new(10, 0, 0, 77);
    config.ports[0].addresses.push(LocalAddress { addr: second.into(), prefix: 24 });
    let mut host = Host::with(mem_config(), config, params, |_, _| {});
    host.introduce_peer();
    let remote = SocketAddr::from((PEER_IP, 9));
    let options = ConnOptions::default();
    let io = host.stack.io();
    let mut used = Vec::new();
    for local in [Local::ANY, Local::addr(second.into())] {
        for _ in 0..4 {
            let conn = io.connect(remote, local, &options).unwrap();
            used.push(io.local_addr(conn).unwrap());
        }
        assert_eq!(io.connect(remote, local, &options), Err(ConnectError::PortsExhausted));
    }
    used.sort_unstable();
    let all =
        [OUR_IP, second].map(|ip| [5000, 5001, 5002, 5003].map(|p| SocketAddr::from((ip, p))));
    assert_eq!(used, all.as_flattened());
    // Outside the range, exactly there, and once.
    let exact = SocketAddr::from((second, 70));
    let conn = io.connect(remote, exact.into(), &options).unwrap();
    assert_eq!(io.local_addr(conn), Some(exact));
    assert_eq!(io.connect(remote, exact.into(), &options), Err(ConnectError::PortsExhausted));
    let elsewhere = SocketAddr::from((OUR_IP, 70));
    assert!(io.connect(remote, elsewhere.into(), &options).is_ok());
    for (local, error) in [
        ("10.0.0.3", ConnectError::NotOurs),
        ("10.0.0.2", ConnectError::NotOurs),
        ("fd00::1", ConnectError::NoRoute),
        ("fd00::9", ConnectError::NotOurs),
    ] {
        let local = Local::addr(local.parse().unwrap());
        assert_eq!(io.connect(remote, local, &options), Err(error), "{local:?}");
    }
    let unspecified = Local { addr: Some(Ipv4Addr::UNSPECIFIED.into()), port: Some(71) };
    let conn = io.connect(remote, unspecified, &options).unwrap();
    assert_eq!(io.local_addr(conn), Some(SocketAddr::from((OUR_IP, 71))));
}

#[test]
fn close_in_order_leaves_a_record_that_expires() {
    let mut host = host();
    let iss = open(&mut host);
    let conn = accepted(&host)[0];
    host.stack.io().close(conn);
    host.turn();
    let sent = tcp_of(&host.sent());
    assert_eq!(sent[0].tcp.flags, FIN | ACK);
    let next = iss.wrapping_add(2);
    host.give(&seg(ACK, 101, next).frame());
    let last = tcp_of(&host.give(&seg(FIN | ACK, 101, next).frame()));
    assert_eq!((last[0].tcp.flags, last[0].tcp.ack), (ACK, 102));
    assert_eq!(closed(&host), [CloseReason::Finished]);
    assert_eq!(host.stack.table(), [0, 0, 1]);
    assert!(
        host.stack.io().info(conn).is_none() && host.stack.io().recv(conn, &mut |_| 0).is_none()
    );
    // The peer's FIN again, then a new connection over the same ports.
    let again = tcp_of(&host.give(&seg(FIN | ACK, 101, next).frame()));
    assert_eq!((again[0].tcp.flags, again[0].tcp.ack), (ACK, 102));
    let fresh = tcp_of(&host.give(&syn(900_000).frame()));
    assert_eq!(fresh[0].tcp.flags, SYN | ACK);
    assert_ne!(fresh[0].tcp.seq, iss);
    assert_eq!(host.stack.table(), [0, 1, 0]);
    host.give(&seg(RST, 900_001, 0).frame());

    let mut host = self::host();
    let iss = open(&mut host);
    let conn = accepted(&host)[0];
    host.stack.io().close(conn);
    host.turn();
    host.give(&seg(FIN | ACK, 101, iss.wrapping_add(2)).frame());
    assert_eq!(host.stack.table(), [0, 0, 1]);
    host.run_for(Duration::from_secs(62));
    assert_eq!(host.stack.table(), [0, 0, 0]);
    host.assert_balanced();
}

#[test]
fn bytes_outlive_the_connection_until_they_are_read() {
    let mut host = host();
    let iss = open(&mut host);
    let conn = accepted(&host)[0];
    host.stack.io().shutdown(conn);
    host.turn();
    let next = iss.wrapping_add(2);
    host.give(&seg(FIN | ACK, 101, next).data(b"last words").frame());
    assert!(closed(&host).is_empty());
    assert_eq!(host.stack.table(), [1, 0, 1]);
    let mut got = Vec::new();
    let mut take = |bytes: &[u8]| {
        got.extend_from_slice(&bytes[..5]);
        5
    };
    let first = host.stack.io().recv(conn, &mut take).unwrap();
    assert_eq!((first.taken, first.left, first.end), (5, 5, false));
    let second = host.stack.io().recv(conn, &mut |b| b.len()).unwrap();
    assert_eq!((second.taken, second.left, second.end), (5, 0, true));
    host.turn();
    assert_eq!(closed(&host), [CloseReason::Finished]);
    assert_eq!(host.stack.table(), [0, 0, 1]);
    host.assert_balanced();
}

#[test]
fn aborting_sends_a_reset_and_closes_once() {
    let mut host = host();
    open(&mut host);
    let conn = accepted(&host)[0];
    host.stack.io().send(conn, &[7; 5000], false).unwrap();
    host.stack.io().abort(conn);
    host.stack.io().abort(conn);
    host.turn();
    let sent = tcp_of(&host.sent());
    assert!(sent.last().unwrap().tcp.flags.rst());
    assert_eq!(closed(&host), [CloseReason::Aborted]);
    host.assert_balanced();
    host.turn();
    assert_eq!(closed(&host).len(), 1);
    // While the handshake is still going on.
    let mut host = client(9);
    first_syn(&mut host);
    let slot = ConnId { slot: 0, generation: 0 };
    host.stack.io().abort(slot);
    host.turn();
    assert_eq!(closed(&host), [CloseReason::Aborted]);
    assert_eq!(host.stack.table(), [0, 0, 0]);
    host.assert_balanced();
}

#[test]
fn h103_tiny_segments_do_not_eat_the_pool() {
    let mut host = host();
    let iss = open(&mut host);
    let conn = accepted(&host)[0];
    let before = host.stack.device().buffers().free;
    for i in 0..2000_u32 {
        let one = seg(ACK | TcpFlags::PSH, 101 + i, iss.wrapping_add(1)).data(&[i as u8]);
        host.give(&one.frame());
    }
    let used = before - host.stack.device().buffers().free;
    assert!(used <= 4, "{used} buffers for 2000 bytes");
    assert_eq!(host.stack.io().readable(conn), 2000);
    let mut at = 0_u32;
    host.stack.io().recv(conn, &mut |bytes| {
        for b in bytes {
            assert_eq!(*b, at as u8);
            at += 1;
        }
        bytes.len()
    });
    assert_eq!(at, 2000);
    host.assert_balanced_after_abort(conn);
}

impl Host {
    fn assert_balanced_after_abort(&mut self, conn: ConnId) {
        self.stack.io().abort(conn);
        self.turn();
        self.assert_balanced();
    }
}

#[test]
fn out_of_order_bytes_wait_for_the_hole_to_be_filled() {
    let mut host = host();
    let iss = open(&mut host);
    let conn = accepted(&host)[0];
    let data: Vec<u8> = (0..20_000_u32).map(|i| ((i * i) >> 3) as u8).collect();
    // Every second piece, then the others backwards, each once more.
    let piece = |i: usize| {
        let from = i * 500;
        seg(ACK, 101 + from as u32, iss.wrapping_add(1)).data(&data[from..from + 500]).frame()
    };
    for i in (1..40).step_by(2) {
        host.give(&piece(i));
    }
    assert_eq!(host.stack.io().readable(conn), 0);
    for i in (0..40).step_by(2).rev() {
        host.give(&piece(i));
        host.give(&piece(i));
    }
    assert_eq!(host.stack.io().readable(conn), 20_000);
    let mut got = Vec::new();
    host.stack.io().recv(conn, &mut |bytes| {
        got.extend_from_slice(bytes);
        bytes.len()
    });
    assert!(got == data);
    host.assert_balanced_after_abort(conn);
}

#[test]
fn h128_an_empty_pool_loses_nothing_but_time() {
    let mem = MemConfig { buffers: 64, ..mem_config() };
    let mut host = Host::with(mem, stack_config(1, 1500), StackParams::default(), |io, e| {
        if matches!(e, AppEvent::Start) {
            io.listen(None, 80, 16, &ConnOptions::default()).unwrap();
        }
    });
    host.introduce_peer();
    let iss = open(&mut host);
    let conn = accepted(&host)[0];
    let mut held = Vec::new();
    while let Some(buffer) = host.stack.device_mut().payload_alloc() {
        held.push(buffer);
    }
    // Resets and acknowledgements still go out; data cannot be taken in, and is not acknowledged.
    held.truncate(62);
    let sent = tcp_of(&host.give(&syn(7).ports(999, 7).frame()));
    assert_eq!(sent.len(), 1);
    host.now += Duration::from_millis(1);
    host.turn();
    let data = seg(ACK, 101, iss.wrapping_add(1)).data(&[9; 1000]).frame();
    for answer in tcp_of(&host.give(&data)) {
        assert_eq!(answer.tcp.ack, 101);
    }
    assert_eq!(host.drops(DropReason::RcvMemory), 1);
    assert_eq!(host.stack.io().send(conn, &[1; 100], false), Ok(0));
    drop(held);
    host.run_for(Duration::from_millis(50));
    let writable = host.events.borrow().iter().any(|e| matches!(e, AppEvent::Writable { .. }));
    assert!(writable, "the application is told when there are buffers again");
    host.give(&data);
    assert_eq!(host.stack.io().readable(conn), 1000);
    host.assert_balanced_after_abort(conn);
}

#[test]
fn of_a_run_in_order_what_fits_is_taken_and_acknowledged_at_once() {
    let mem = MemConfig { buffers: 64, ..mem_config() };
    let mut host = Host::with(mem, stack_config(1, 1500), StackParams::default(), |io, e| {
        if matches!(e, AppEvent::Start) {
            io.listen(None, 80, 16, &ConnOptions::default()).unwrap();
        }
    });
    host.introduce_peer();
    let iss = open(&mut host);
    let conn = accepted(&host)[0];
    let burst = |host: &mut Host, from: u32, count: u32| {
        for i in from..from + count {
            let at = 101 + 1000 * i;
            let s = seg(ACK, at, iss.wrapping_add(1)).data(&[i as u8; 1000]);
            assert!(host.stack.device_mut().deliver(&s.frame()));
        }
    };
    let mut held = Vec::new();
    let mut leave = |host: &mut Host, free: u32| {
        while host.stack.device().buffers().free < free && held.pop().is_some() {}
        while host.stack.device().buffers().free > free {
            held.push(host.stack.device_mut().payload_alloc().unwrap());
        }
    };
    // The pool is nearly used up, and the stack has noticed.
    leave(&mut host, 24);
    host.now += Duration::from_millis(1);
    host.turn();
    // The reserve is 8 of 64 buffers. Ten segments wait in the device, and six may be kept.
    burst(&mut host, 0, 10);
    host.turn();
    let answers = tcp_of(&host.sent());
    assert_eq!(answers.last().unwrap().tcp.ack, 6101, "{answers:?}");
    assert_eq!(host.drops(DropReason::RcvMemory), 4);
    assert_eq!(host.stack.io().readable(conn), 6000);
    // Nothing is spare now, but half of the reserve lets one segment after the other through.
    for round in 0..3_u32 {
        burst(&mut host, 6 + round, 3);
        leave(&mut host, 6);
        host.turn();
        let answers = tcp_of(&host.sent());
        assert_eq!(answers.last().unwrap().tcp.ack, 7101 + 1000 * round);
    }
    // Below that, none.
    burst(&mut host, 9, 3);
    leave(&mut host, 4);
    host.turn();
    assert_eq!(tcp_of(&host.sent()).last().unwrap().tcp.ack, 9101);
    drop(held);
    burst(&mut host, 9, 10);
    host.turn();
    let mut at = 0;
    host.stack.io().recv(conn, &mut |bytes| {
        assert!(bytes.iter().all(|b| usize::from(*b) == at / 1000));
        at += bytes.len();
        bytes.len()
    });
    assert_eq!(at, 19_000);
    host.assert_balanced_after_abort(conn);
}

#[test]
fn a_syn_for_a_full_listener_leaves_the_record_in_time_wait() {
    let script = |io: &mut dyn Io, e: &AppEvent| match e {
        AppEvent::Start => {
            io.listen(None, 80, 1, &ConnOptions::default()).unwrap();
        }
        AppEvent::Accepted { conn, .. } => io.close(*conn),
        _ => {}
    };
    let mut host = Host::with(mem_config(), stack_config(1, 1500), StackParams::default(), script);
    host.introduce_peer();
    let iss = open(&mut host);
    let next = iss.wrapping_add(2);
    host.give(&seg(FIN | ACK, 101, next).frame());
    assert_eq!(host.stack.table(), [0, 0, 1]);
    // Somebody else takes the only place.
    host.give(&syn(100).ports(2000, 80).frame());
    assert!(tcp_of(&host.give(&syn(900_000).frame())).is_empty());
    assert_eq!(host.stack.table(), [0, 1, 1], "the record is still there");
    assert_eq!(host.drops(DropReason::ListenSynQueue), 1);
    assert_eq!(host.stack.tcp_counters().listen_drops, 1);
    assert_eq!(host.stack.tcp_counters().tw_recycled, 0);
    let again = tcp_of(&host.give(&seg(FIN | ACK, 101, next).frame()));
    assert_eq!((again[0].tcp.flags, again[0].tcp.ack), (ACK, 102), "and answers for the old one");
    // The place is free again, and the SYN comes again.
    host.give(&seg(RST, 101, 0).ports(2000, 80).frame());
    let fresh = tcp_of(&host.give(&syn(900_000).frame()));
    assert_eq!((fresh[0].tcp.flags, fresh[0].tcp.ack), (SYN | ACK, 900_001));
    assert_eq!(host.stack.table(), [0, 1, 0]);
    assert_eq!(host.stack.tcp_counters().tw_recycled, 1);
    host.give(&seg(RST, 900_001, 0).frame());
    host.assert_balanced();
}

#[test]
fn h130_a_ring_that_refuses_for_long_keeps_everything_once() {
    let mem = MemConfig { tx_ring: 4, ..mem_config() };
    let mut host = Host::with(mem, stack_config(1, 1500), StackParams::default(), |io, e| {
        if matches!(e, AppEvent::Start) {
            io.listen(None, 80, 16, &ConnOptions::default()).unwrap();
        }
    });
    host.introduce_peer();
    let iss = open(&mut host);
    let conn = accepted(&host)[0];
    let taken = host.stack.io().send(conn, &[5; 14_600], false).unwrap();
    assert!(taken > 4 * 1460);
    // Nobody takes frames from the ring for ten seconds.
    for _ in 0..1000 {
        host.turn();
        host.now += Duration::from_millis(10);
    }
    assert!(host.stack.counters().tx_refused > 0);
    let mut edge = iss.wrapping_add(1);
    let mut got = 0;
    let mut sent = Vec::new();
    for _ in 0..200 {
        sent.extend(host.run_for(Duration::from_millis(100)));
        for s in tcp_of(&core::mem::take(&mut sent)) {
            let end = s.tcp.seq.wrapping_add(s.payload.len() as u32);
            if end.wrapping_sub(edge).cast_signed() > 0 {
                got += end.wrapping_sub(edge);
                edge = end;
            }
        }
        sent = host.give(&seg(ACK, 101, edge).frame());
        // The peer is still there.
        sent.extend(host.give(&arp_request(PEER_MAC, PEER_IP, OUR_IP)));
    }
    assert_eq!(got as usize, taken);
    host.assert_balanced_after_abort(conn);
}

#[test]
fn a_stop_is_polite_and_then_firm() {
    let mut host = host();
    open(&mut host);
    host.command(Command::Stop);
    assert!(host.events.borrow().iter().any(|e| matches!(e, AppEvent::Stop)));
    assert!(!host.outgoing.iter().any(|o| matches!(o, Outgoing::Stopped)));
    let sent = tcp_of(&host.run_for(Duration::from_secs(6)));
    assert!(sent.last().unwrap().tcp.flags.rst());
    assert_eq!(closed(&host), [CloseReason::Aborted]);
    let stopped = host.outgoing.iter().filter(|o| matches!(o, Outgoing::Stopped)).count();
    assert_eq!(stopped, 1);
    host.assert_balanced();
}

#[test]
fn a_stop_does_not_wait_for_a_device_that_takes_nothing() {
    let mem = MemConfig { tx_ring: 1, ..mem_config() };
    let mut host = Host::with(mem, stack_config(1, 1500), StackParams::default(), |_, _| {});
    for _ in 0..3 {
        let request = arp_request(PEER_MAC, PEER_IP, OUR_IP);
        assert!(host.stack.device_mut().deliver(&request));
        host.turn();
    }
    let begun = host.now;
    host.command(Command::Stop);
    let stopped = |host: &Host| host.outgoing.iter().any(|o| matches!(o, Outgoing::Stopped));
    assert!(!stopped(&host), "two answers still wait for the ring");
    while !stopped(&host) {
        host.now += Duration::from_millis(10);
        host.turn();
        assert!(host.now.since(begun) < Duration::from_secs(2), "of 5 that it may take");
    }
}

#[test]
fn what_arrives_before_the_first_turn_finds_the_application_listening() {
    let mut device = MemDevice::detached(&mem_config());
    assert!(device.deliver(&arp_request(PEER_MAC, PEER_IP, OUR_IP)));
    assert!(device.deliver(&syn(100).frame()));
    let app = FnApp(|io: &mut dyn Io, event: AppEvent| {
        if matches!(event, AppEvent::Start) {
            io.listen(None, 80, 16, &ConnOptions::default()).unwrap();
        }
    });
    let config = stack_config(1, 1500);
    let random = SeededRandom::new(7);
    let mut stack =
        Stack::new(config, Arc::new(StackParams::default()), vec![device], random, Box::new(app));
    stack.turn(Instant::from_millis(1000), &mut core::iter::empty(), &mut |_| Ok(()));
    let device = stack.device_mut();
    let sent: Vec<_> = core::iter::from_fn(|| device.take_sent().map(|f| f.to_vec())).collect();
    let sent = tcp_of(&sent);
    assert_eq!(sent.len(), 1);
    assert!(sent[0].tcp.flags.syn() && sent[0].tcp.flags.ack(), "not a reset");
}

#[test]
fn time_wait_records_are_bounded() {
    let mut config = stack_config(1, 1500);
    config.limits.time_wait = 3;
    let mut host = Host::with(mem_config(), config, StackParams::default(), |io, e| match e {
        AppEvent::Start => {
            io.listen(None, 80, 16, &ConnOptions::default()).unwrap();
        }
        AppEvent::Accepted { conn, .. } => io.close(*conn),
        _ => {}
    });
    host.introduce_peer();
    for port in 1000..1010 {
        let sent = tcp_of(&host.give(&syn(100).ports(port, 80).frame()));
        let next = sent[0].tcp.seq.wrapping_add(1);
        host.give(&seg(ACK, 101, next).ports(port, 80).frame());
        let fin = seg(FIN | ACK, 101, next.wrapping_add(1)).ports(port, 80);
        assert_eq!(tcp_of(&host.give(&fin.frame())).len(), 1, "the FIN is acknowledged");
    }
    assert_eq!(host.stack.table(), [0, 0, 3]);
    assert_eq!(host.stack.tcp_counters().time_wait_overflow, 7);
    assert_eq!(closed(&host).len(), 10);
    host.run_for(Duration::from_secs(61));
    assert_eq!(host.stack.table(), [0, 0, 0]);
    host.assert_balanced();
}

#[test]
fn half_open_connections_and_the_table_are_bounded() {
    let mut config = stack_config(1, 1500);
    config.limits.half_open = 8;
    config.limits.connections = 12;
    let mut host = Host::with(mem_config(), config, StackParams::default(), |io, e| {
        if matches!(e, AppEvent::Start) {
            io.listen(None, 80, 1000, &ConnOptions::default()).unwrap();
        }
    });
    host.introduce_peer();
    for port in 1..200 {
        host.give(&syn(100).ports(port, 80).frame());
    }
    assert_eq!(host.stack.table(), [0, 8, 0]);
    assert_eq!(host.drops(DropReason::ListenSynQueue), 191);
    // A flood that stops leaves nothing behind.
    host.run_for(Duration::from_secs(70));
    assert_eq!(host.stack.table(), [0, 0, 0]);
    host.assert_balanced();
}

#[test]
fn h127_a_shared_buffer_is_never_written() {
    // The peer's frames may be referenced by somebody else: small payloads behind them must not
    // change what he sees.
    let mut host = host();
    let iss = open(&mut host);
    let conn = accepted(&host)[0];
    let frame = seg(ACK, 101, iss.wrapping_add(1)).data(b"one").frame();
    let mut owner = host.chain(&frame, &[]);
    let shared = host.stack.device_mut().share(&owner, 0, frame.len()).unwrap();
    host.stack.device_mut().deliver_frame(shared);
    host.turn();
    host.give(&seg(ACK, 104, iss.wrapping_add(1)).data(b"two").frame());
    assert!(owner.head_mut().is_none(), "still queued");
    assert_eq!(owner.to_vec(), frame);
    let mut got = Vec::new();
    host.stack.io().recv(conn, &mut |bytes| {
        got.extend_from_slice(bytes);
        bytes.len()
    });
    assert_eq!(got, b"onetwo");
    drop(owner);
    host.assert_balanced_after_abort(conn);
}

#[test]
fn sending_before_the_connection_stands_is_owed_an_event() {
    let mut host = client(9);
    let ours = first_syn(&mut host);
    let conn = ConnId { slot: 0, generation: 0 };
    assert_eq!(host.stack.io().send_room(conn), 0);
    assert_eq!(host.stack.io().send(conn, b"too early", false), Ok(0));
    let mut answer = seg(SYN | ACK, 500, ours.tcp.seq.wrapping_add(1)).ports(9, 4000);
    answer.fields.options.mss = Some(1460);
    host.give(&answer.frame());
    let writable = |e: &AppEvent| matches!(e, AppEvent::Writable { .. });
    assert_eq!(host.events.borrow().iter().filter(|e| writable(e)).count(), 1);
    let room = host.stack.io().send_room(conn);
    assert!(room > 0);
    let data = vec![1; room];
    assert_eq!(host.stack.io().send(conn, &data, false), Ok(room), "room is what is taken");
    host.assert_balanced_after_abort(conn);
}

#[test]
fn room_to_send_counts_the_buffers_that_are_left() {
    let mem = MemConfig { buffers: 32, ..mem_config() };
    let mut host = Host::with(mem, stack_config(1, 1500), StackParams::default(), |io, e| {
        if matches!(e, AppEvent::Start) {
            let options = ConnOptions { sndbuf: Some(1 << 20), ..ConnOptions::default() };
            io.listen(None, 80, 16, &options).unwrap();
        }
    });
    host.introduce_peer();
    open(&mut host);
    let conn = accepted(&host)[0];
    host.turn();
    let room = host.stack.io().send_room(conn);
    assert!((1460..32 * 1460).contains(&room), "{room}");
    assert_eq!(host.stack.io().send(conn, &vec![1; room], false), Ok(room));
    host.assert_balanced_after_abort(conn);
}

/// RFC 9293 section 3.10.7.4, fourth, for SYN-RECEIVED, and RFC 5961 section 4.
#[test]
fn h74_a_syn_with_another_number_while_half_open() {
    // In the window: the old attempt is over, and the next SYN finds the place empty.
    let mut host = host();
    let first = tcp_of(&host.give(&syn(100).frame()));
    assert!(tcp_of(&host.give(&syn(5100).frame())).is_empty());
    assert_eq!(host.stack.table(), [0, 0, 0]);
    assert_eq!(host.stack.tcp_counters().attempt_fails, 1);
    host.now += Duration::from_millis(1);
    let second = tcp_of(&host.give(&syn(5100).frame()));
    assert_eq!((second[0].tcp.flags, second[0].tcp.ack), (SYN | ACK, 5101));
    assert_ne!(second[0].tcp.seq, first[0].tcp.seq);
    // Outside of it: told what is expected, and nothing changes.
    let answer = tcp_of(&host.give(&syn(4_000_000).frame()));
    assert_eq!((answer[0].tcp.flags, answer[0].tcp.ack), (ACK, 5101));
    assert_eq!(host.stack.table(), [0, 1, 0]);
    host.give(&seg(ACK, 5101, second[0].tcp.seq.wrapping_add(1)).frame());
    assert_eq!(host.stack.table(), [1, 0, 0]);
    let conn = accepted(&host)[0];
    host.assert_balanced_after_abort(conn);
}

/// A worker that was stopped for seconds.
#[test]
fn h113_a_stall_costs_neither_the_estimate_nor_a_burst() {
    let mut host = host();
    let iss = open(&mut host);
    let conn = accepted(&host)[0];
    let next = iss.wrapping_add(1);
    let send = |host: &mut Host| {
        host.stack.io().send(conn, &[1; 100], false).unwrap();
        host.turn();
        host.sent();
    };
    send(&mut host);
    host.now += Duration::from_millis(10);
    host.give(&seg(ACK, 101, next.wrapping_add(100)).frame());
    let before = host.stack.io().info(conn).unwrap();
    assert!(before.rtt <= Duration::from_millis(10), "{before:?}");
    // The acknowledgement came in the meantime, behind a full burst of other things.
    send(&mut host);
    for port in 0..base::RX_BURST_FRAMES as u16 {
        assert!(host.stack.device_mut().deliver(&seg(ACK, 5, 5).ports(port + 2000, 7).frame()));
    }
    let ack = seg(ACK, 101, next.wrapping_add(200)).frame();
    assert!(host.stack.device_mut().deliver(&ack));
    host.now += Duration::from_secs(5);
    host.turn();
    host.turn();
    let resent =
        |host: &mut Host| tcp_of(&host.sent()).iter().filter(|s| !s.payload.is_empty()).count();
    assert_eq!(resent(&mut host), 0, "nothing had timed out");
    assert_eq!(host.stack.counters().worker_stalls, 1);
    let after = host.stack.io().info(conn).unwrap();
    assert_eq!((after.unacked, after.rtt, after.rto), (0, before.rtt, before.rto));
    // No acknowledgement came: the timer fires once, not once for each time it would have.
    send(&mut host);
    host.now += Duration::from_secs(5);
    for _ in 0..10 {
        host.turn();
    }
    assert_eq!(resent(&mut host), 1);
    assert_eq!(host.stack.tcp_counters().timeouts, 1);
    host.assert_balanced_after_abort(conn);
}

/// R1 of RFC 9293 section 3.8.3: the next hop is asked again although acknowledgements of long ago keep
/// it reachable for hours.
#[test]
fn after_r1_the_neighbour_is_asked_again() {
    for (retries1, asked) in [(3, true), (255, false)] {
        let mut params =
            StackParams { neighbor_reachable: Duration::from_secs(3600), ..StackParams::default() };
        params.tcp.retries1 = retries1;
        let mut host = Host::with(mem_config(), stack_config(1, 1500), params, |io, e| {
            if matches!(e, AppEvent::Start) {
                io.listen(None, 80, 16, &ConnOptions::default()).unwrap();
            }
        });
        host.introduce_peer();
        let iss = open(&mut host);
        let conn = accepted(&host)[0];
        // Progress makes the neighbour reachable.
        host.stack.io().send(conn, &[1; 100], false).unwrap();
        host.turn();
        host.give(&seg(ACK, 101, iss.wrapping_add(101)).frame());
        host.now += Duration::from_secs(2);
        host.stack.io().send(conn, &[1; 100], false).unwrap();
        host.turn();
        host.give(&seg(ACK, 101, iss.wrapping_add(201)).frame());
        host.sent();
        // And then silence.
        host.stack.io().send(conn, &[1; 100], false).unwrap();
        let arp_before = host.stack.counters().arp_out;
        host.run_for(Duration::from_secs(60));
        assert_eq!(host.stack.counters().arp_out > arp_before, asked, "{retries1}");
        // It answers at last, and what waited for it leaves.
        host.introduce_peer();
        host.assert_balanced_after_abort(conn);
    }
}

/// Errors of both versions of ICMP in every state: RFC 9293 section 3.9.2.2, RFC 5927 section 5,
/// RFC 5461.
#[test]
fn h44_icmp_errors_by_version_state_and_code() {
    use wire::icmpv6::{self, Icmpv6Error};
    let about = |v6: bool, code: u8, packet: &[u8]| {
        let mut body = vec![0; 1300];
        if v6 {
            let error = Icmpv6Error::Unreachable(code);
            let len = icmpv6::emit_error(&mut body, PEER_IP6, OUR_IP6, error, &packet[14..]);
            body.truncate(len);
            ip_frame(PEER_IP6.into(), OUR_IP6.into(), protocol::ICMPV6, &body)
        } else {
            let error = Icmpv4Error::Unreachable(code);
            let len = icmpv4::emit_error(&mut body, error, &packet[14..]);
            body.truncate(len);
            ip_frame(PEER_IP.into(), OUR_IP.into(), protocol::ICMP, &body)
        }
    };
    let connecting = |v6: bool| {
        let script = move |io: &mut dyn Io, e: &AppEvent| {
            if matches!(e, AppEvent::Start) {
                io.listen(None, 80, 16, &ConnOptions::default()).unwrap();
            }
        };
        let mut host =
            Host::with(mem_config(), stack_config(1, 1500), StackParams::default(), script);
        host.introduce_peer();
        let peer: core::net::IpAddr = if v6 { PEER_IP6.into() } else { PEER_IP.into() };
        host.stack
            .io()
            .connect(SocketAddr::new(peer, 9), Local::port(4000), &ConnOptions::default())
            .unwrap();
        host.turn();
        let sent = host.sent();
        let syn = sent.iter().find(|f| parse_sent(f).is_some()).unwrap().clone();
        (host, syn)
    };
    for v6 in [false, true] {
        let hard: &[u8] = if v6 { &[1, 4, 5, 6] } else { &[2, 3, 9, 10, 13] };
        let soft: &[u8] = if v6 { &[0, 2, 3] } else { &[0, 1, 5, 11, 12] };
        // SYN-SENT: hard ones end it at once, soft ones are the reason in the end.
        for &code in hard {
            let (mut host, syn) = connecting(v6);
            host.give(&about(v6, code, &syn));
            assert_eq!(closed(&host), [CloseReason::Unreachable], "v6 {v6} code {code}");
            host.assert_balanced();
        }
        for &code in soft {
            let (mut host, syn) = connecting(v6);
            host.give(&about(v6, code, &syn));
            assert!(closed(&host).is_empty(), "v6 {v6} code {code}");
            host.run_for(Duration::from_secs(200));
            assert_eq!(closed(&host), [CloseReason::Unreachable], "v6 {v6} code {code}");
        }
        // SYN-RECEIVED, ESTABLISHED and later: none ends it, also not a hard one.
        let family = |s: Tcp| if v6 { s.v6() } else { s };
        let mut host = host();
        let syn_ack = host.give(&family(syn(100)).frame());
        let ours = parse_sent(&syn_ack[0]).unwrap().tcp.seq.wrapping_add(1);
        for &code in hard.iter().chain(soft) {
            host.give(&about(v6, code, &syn_ack[0]));
        }
        assert_eq!(host.stack.table(), [0, 1, 0]);
        host.give(&family(seg(ACK, 101, ours)).frame());
        let conn = accepted(&host)[0];
        host.stack.io().send(conn, b"data", false).unwrap();
        host.stack.io().shutdown(conn);
        host.turn();
        let data = host.sent().pop().unwrap();
        for &code in hard.iter().chain(soft) {
            host.give(&about(v6, code, &data));
        }
        assert_eq!(host.stack.table(), [1, 0, 0]);
        assert_eq!(host.drops(DropReason::IcmpSequence), 0);
        // What is not in flight any more is not believed.
        host.give(&family(seg(ACK, 101, ours.wrapping_add(5))).frame());
        host.give(&about(v6, hard[0], &data));
        assert_eq!(host.drops(DropReason::IcmpSequence), 1);
        host.assert_balanced_after_abort(conn);
    }
}
