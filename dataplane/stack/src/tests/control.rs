//! ICMP, UDP, fragments, commands.

use std::vec;
use std::vec::Vec;

use base::{DropReason, TcpFlags};
use core::net::IpAddr;
use wire::icmpv4::{EchoKind, Icmpv4Error, Icmpv4Message};
use wire::icmpv6::{Echo, Icmpv6Message};
use wire::{checksum, icmpv4, icmpv6, protocol};

use super::fixture::*;
use crate::{AppEvent, Command, Outgoing, StackParams};

fn echo4(len: usize) -> Vec<u8> {
    let data: Vec<u8> = (0..len).map(|i| i as u8).collect();
    let mut body = vec![0; 8];
    icmpv4::emit_echo(&mut body, EchoKind::Request, 7, 9, checksum::sum(&data, 0));
    body.extend(data);
    body
}

#[test]
fn echo_requests_are_answered_with_their_data() {
    for multi_segment in [true, false] {
        let mut mem = mem_config();
        mem.offloads.multi_segment = multi_segment;
        let mut host = Host::with(mem, stack_config(1, 1500), StackParams::default(), |_, _| {});
        for len in [0, 1, 56, 57, 1400, 1472] {
            let body = echo4(len);
            let frame = ip_frame(PEER_IP.into(), OUR_IP.into(), protocol::ICMP, &body);
            for sent in [host.give(&frame), host.give_chain(&frame, &[40, 3, 900])] {
                assert_eq!(sent.len(), 1, "{len} {multi_segment}");
                let packet = &sent[0][14..];
                let header = wire::ipv4::parse(packet, packet.len(), true).unwrap();
                assert_eq!((header.src, header.dst), (OUR_IP, PEER_IP));
                let message = &packet[20..];
                icmpv4::verify_checksum([message], message.len()).unwrap();
                assert_eq!(
                    icmpv4::parse(message, message.len()),
                    Ok(Icmpv4Message::EchoReply { ident: 7, sequence: 9 })
                );
                assert_eq!(message[8..], body[8..]);
            }
        }
        host.assert_balanced();
        assert_eq!(host.total_drops(), 0);
    }
}

#[test]
fn echo_over_ipv6() {
    let mut host = Host::new();
    let data: Vec<u8> = (0..1001_u32).map(|i| (i * 7) as u8).collect();
    let mut body = vec![0; 8];
    let echo = Echo { kind: EchoKind::Request, ident: 3, sequence: 4 };
    let sum = checksum::sum(&data, 0);
    icmpv6::emit_echo(&mut body, PEER_IP6, OUR_IP6, echo, data.len(), sum);
    body.extend(&data);
    let frame = ip_frame(PEER_IP6.into(), OUR_IP6.into(), protocol::ICMPV6, &body);
    let sent = host.give(&frame);
    assert_eq!(sent.len(), 1);
    let message = &sent[0][54..];
    icmpv6::verify_checksum(OUR_IP6, PEER_IP6, [message], message.len()).unwrap();
    assert_eq!(
        icmpv6::parse(message, message.len()),
        Ok(Icmpv6Message::EchoReply { ident: 3, sequence: 4 })
    );
    assert_eq!(message[8..], data);
    // To a group: no answer.
    let all = crate::ingress::ALL_NODES;
    let sum = checksum::sum(&data, 0);
    icmpv6::emit_echo(&mut body, PEER_IP6, all, echo, data.len(), sum);
    let to = wire::ndp::multicast_mac(all);
    let frame = ip_frame_to(to, PEER_IP6.into(), all.into(), protocol::ICMPV6, 64, &body);
    assert!(host.give(&frame).is_empty());
    host.assert_balanced();
}

fn udp(src: IpAddr, dst: IpAddr, len: usize) -> Vec<u8> {
    let data = vec![0x5a; len];
    let total = wire::udp::HEADER_LEN + len;
    let mut body = vec![0; wire::udp::HEADER_LEN];
    wire::udp::emit(&mut body, 2000, 53, total as u16, 0);
    let pseudo = checksum::pseudo(src, dst, protocol::UDP, total).unwrap();
    let sum = checksum::finish_udp(pseudo, &body, checksum::sum(&data, 0));
    wire::udp::set_checksum(&mut body, sum);
    body.extend(data);
    body
}

#[test]
fn udp_gets_port_unreachable_at_a_limited_rate() {
    let mut host = Host::new();
    let body = udp(PEER_IP.into(), OUR_IP.into(), 700);
    let frame = ip_frame(PEER_IP.into(), OUR_IP.into(), protocol::UDP, &body);
    let sent = host.give(&frame);
    assert_eq!(sent.len(), 1);
    let message = &sent[0][34..];
    icmpv4::verify_checksum([message], message.len()).unwrap();
    let parsed = icmpv4::parse(message, message.len()).unwrap();
    let Icmpv4Message::Unreachable { code, quote } = parsed else { panic!("{parsed:?}") };
    assert_eq!((code, quote.ports), (icmpv4::UNREACHABLE_PORT, Some((2000, 53))));
    assert!(message.len() <= 556);
    let mut answers = 1;
    for _ in 0..50 {
        answers += host.give(&frame).len();
    }
    assert!(answers <= 7, "{answers} answers without time passing");
    assert_eq!(host.drops(DropReason::UdpPort), 51);

    let mut bad = frame.clone();
    bad[60] ^= 1;
    host.give(&bad);
    assert_eq!(host.drops(DropReason::UdpChecksum), 1);

    let v6 = udp(PEER_IP6.into(), OUR_IP6.into(), 10);
    let sent = host.give(&ip_frame(PEER_IP6.into(), OUR_IP6.into(), protocol::UDP, &v6));
    assert_eq!(sent.len(), 1);
    let message = &sent[0][54..];
    icmpv6::verify_checksum(OUR_IP6, PEER_IP6, [message], message.len()).unwrap();
    host.assert_balanced();
}

#[test]
fn h47_no_error_about_what_went_to_all() {
    let mut host = Host::new();
    let body = udp(PEER_IP.into(), OUR_IP.into(), 7);
    let all = wire::Mac::BROADCAST;
    let frame = ip_frame_to(all, PEER_IP.into(), OUR_IP.into(), protocol::UDP, 64, &body);
    assert!(host.give(&frame).is_empty());
    let echo = echo4(10);
    let directed: IpAddr = [10, 0, 0, 255].into();
    let frame = ip_frame_to(all, PEER_IP.into(), directed, protocol::ICMP, 64, &echo);
    assert!(host.give(&frame).is_empty());
    assert_eq!(host.drops(DropReason::IpNotOurs), 2);
    // An error about an error: what the quote says is no segment of ours, and nobody answers.
    let mut error = vec![0; 600];
    let len = icmpv4::emit_error(&mut error, Icmpv4Error::Unreachable(1), &frame[14..]);
    error.truncate(len);
    let frame = ip_frame(PEER_IP.into(), OUR_IP.into(), protocol::ICMP, &error);
    assert!(host.give(&frame).is_empty());
    assert_eq!(host.drops(DropReason::IcmpSequence), 1);
    host.assert_balanced();
}

#[test]
fn h19_other_protocols() {
    let mut host = Host::new();
    for p in [4, 41, 47, 51, 255] {
        let frame = ip_frame(PEER_IP.into(), OUR_IP.into(), p, &[0; 40]);
        assert!(host.give(&frame).len() <= 1);
    }
    assert_eq!(host.drops(DropReason::IpProtocol), 5);
    host.assert_balanced();
}

/// Cut the packet of a frame into fragments of `size` bytes of payload.
fn fragments(frame: &[u8], size: usize) -> Vec<Vec<u8>> {
    let payload = &frame[34..];
    let count = payload.len().div_ceil(size);
    (0..count)
        .map(|i| {
            let part = &payload[i * size..payload.len().min((i + 1) * size)];
            let mut out = frame[..34].to_vec();
            out[16..18].copy_from_slice(&((20 + part.len()) as u16).to_be_bytes());
            out[18..20].copy_from_slice(&77_u16.to_be_bytes());
            let more = if i + 1 < count { 0x2000 } else { 0 };
            let field = (i * size / 8) as u16 | more;
            out[20..22].copy_from_slice(&field.to_be_bytes());
            out[24..26].copy_from_slice(&[0, 0]);
            let sum = checksum::of(&out[14..34]);
            out[24..26].copy_from_slice(&sum.to_be_bytes());
            out.extend(part);
            out
        })
        .collect()
}

#[test]
fn fragments_are_put_together_and_answered() {
    let mut host = Host::new();
    let body = echo4(1200);
    let frame = ip_frame(PEER_IP.into(), OUR_IP.into(), protocol::ICMP, &body);
    let mut parts = fragments(&frame, 400);
    parts.reverse();
    let mut sent = Vec::new();
    for part in &parts {
        sent.extend(host.give(part));
    }
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0][42..], body[8..]);
    assert_eq!(host.stack.counters().ip_reasm_oks, 1);
    host.assert_balanced();
    assert_eq!(host.total_drops(), 0);

    // Longer than any buffer: put together in several, but too long for a reply of ours.
    let long = ip_frame(PEER_IP.into(), OUR_IP.into(), protocol::ICMP, &echo4(5000));
    for part in fragments(&long, 1000) {
        assert!(host.give(&part).is_empty());
    }
    assert_eq!(host.drops(DropReason::IcmpLimit), 1);
    // Never completed: given up in time.
    host.give(&parts[0]);
    host.run_for(core::time::Duration::from_secs(61));
    assert_eq!(host.drops(DropReason::FragmentTimeout), 1);
    host.assert_balanced();
}

#[test]
fn commands_are_answered_and_messages_delivered() {
    let mut host = Host::new();
    let params = StackParams { generation: 5, ..StackParams::default() };
    host.command(Command::SetParams(params.into()));
    assert_eq!(host.stack.generation(), 5);
    assert!(matches!(host.outgoing.pop(), Some(Outgoing::ParamsApplied(5))));
    host.command(Command::Message { from: None, message: std::boxed::Box::new(5_u8) });
    let last = host.events.borrow_mut().pop();
    assert!(matches!(last, Some(AppEvent::Message { from: None, .. })));
    host.command(Command::RotateSecrets);
    host.command(Command::Age);
    host.command(Command::Snapshot { connections: 10 });
    let Some(Outgoing::Snapshot(snapshot)) = host.outgoing.pop() else { panic!("no snapshot") };
    assert_eq!(snapshot.connections.len(), 1, "the listener");
    assert_eq!(snapshot.generation, 5);
    host.command(Command::Stop);
    assert!(matches!(host.outgoing.pop(), Some(Outgoing::Stopped)));
    assert!(matches!(host.events.borrow_mut().pop(), Some(AppEvent::Stop)));
    let sent = host.give(&seg(TcpFlags::SYN, 1, 0).frame());
    assert!(tcp_of(&sent).is_empty());
    assert_eq!(host.drops(DropReason::Stopping), 1);
}

#[test]
fn what_the_outside_refuses_is_offered_again() {
    let mut host =
        Host::with(mem_config(), stack_config(1, 1500), StackParams::default(), |io, e| {
            if matches!(e, AppEvent::Message { .. }) {
                for i in 0..2000_u32 {
                    let refused = io.publish(std::boxed::Box::new(i)).is_err();
                    assert_eq!(refused, i >= 1024);
                }
            }
        });
    let mut no =
        core::iter::once(Command::Message { from: None, message: std::boxed::Box::new(()) });
    host.stack.turn(host.now, &mut no, &mut Err);
    host.turn();
    assert_eq!(host.outgoing.len(), 1024);
}

#[test]
fn application_timers_fire_once_and_on_time() {
    let mut host =
        Host::with(mem_config(), stack_config(1, 1500), StackParams::default(), |io, e| {
            let now = io.now();
            match e {
                AppEvent::Start => {
                    let ms = core::time::Duration::from_millis;
                    io.set_timer(1, now + ms(10));
                    io.set_timer(2, now + ms(20));
                    io.set_timer(1, now + ms(30));
                    io.set_timer(3, now + ms(5));
                    io.cancel_timer(3);
                }
                AppEvent::Timer { token } => {
                    let expected = if *token == 1 { 1030 } else { 1020 };
                    assert_eq!(now.as_millis(), expected);
                }
                _ => {}
            }
        });
    host.run_for(core::time::Duration::from_secs(1));
    let fired: Vec<u64> = host
        .events
        .borrow()
        .iter()
        .filter_map(|e| if let AppEvent::Timer { token } = e { Some(*token) } else { None })
        .collect();
    assert_eq!(fired, [2, 1]);
}
