//! Link layer, addresses, ARP and neighbour discovery: what is ours and what is discarded.

use std::vec;
use std::vec::Vec;

use base::mem::MemConfig;
use base::{DropReason, Frame, RxMeta, TcpFlags};
use wire::arp::{ArpPacket, Operation};
use wire::{EtherType, Mac, ethernet};

use super::fixture::*;
use crate::StackParams;

/// Deliver `frame` and expect exactly one discarded frame, for this reason, and no answer.
#[track_caller]
fn dropped(host: &mut Host, frame: &[u8], reason: DropReason) {
    let (before, total) = (host.drops(reason), host.total_drops());
    let sent = host.give(frame);
    assert_eq!(host.drops(reason), before + 1, "{reason:?}; drops {:?}", nonzero(host));
    assert_eq!(host.total_drops(), total + 1, "{:?}", nonzero(host));
    assert!(sent.is_empty(), "answered: {sent:?}");
    host.assert_balanced();
}

fn nonzero(host: &Host) -> Vec<(&'static str, u64)> {
    let all = DropReason::ALL.iter().map(|r| (r.name(), host.drops(*r)));
    all.filter(|(_, n)| *n > 0).collect()
}

fn syn() -> Tcp {
    seg(TcpFlags::SYN, 100, 0)
}

fn with_macs(mut frame: Vec<u8>, dst: [u8; 6], src: [u8; 6]) -> Vec<u8> {
    frame[..6].copy_from_slice(&dst);
    frame[6..12].copy_from_slice(&src);
    frame
}

#[test]
fn h1_short_frames() {
    let mut host = Host::new();
    for len in [0, 1, 13] {
        dropped(&mut host, &vec![0; len], DropReason::L2Short);
    }
}

#[test]
fn h2_header_and_nothing_else() {
    let mut host = Host::new();
    for (ethertype, reason) in
        [(0x0800, DropReason::IpShort), (0x86dd, DropReason::IpShort), (0x0806, DropReason::ArpBad)]
    {
        let mut frame = vec![0; 14];
        ethernet::emit(&mut frame, Mac(OUR_MAC), Mac(PEER_MAC), None, EtherType(ethertype));
        dropped(&mut host, &frame, reason);
    }
}

#[test]
fn h3_h4_addresses_of_others_and_impossible_ones() {
    let mut host = Host::new();
    let frame = syn().frame();
    let rows = [
        ([2, 9, 9, 9, 9, 9], PEER_MAC, DropReason::L2NotOurs),
        ([1, 0, 0x5e, 0, 0, 1], PEER_MAC, DropReason::L2NotOurs),
        ([0x33, 0x33, 0xff, 9, 9, 9], PEER_MAC, DropReason::L2NotOurs),
        (OUR_MAC, [3, 0, 0, 0, 0, 2], DropReason::L2BadSource),
        (OUR_MAC, [0; 6], DropReason::L2BadSource),
        ([0xff; 6], OUR_MAC, DropReason::L2Loop),
        // TCP knows no broadcast, at no layer.
        ([0xff; 6], PEER_MAC, DropReason::TcpNotUnicast),
    ];
    for (dst, src, reason) in rows {
        dropped(&mut host, &with_macs(frame.clone(), dst, src), reason);
    }
}

#[test]
fn h5_h6_tags_and_lengths() {
    let mut host = Host::new();
    let frame = syn().frame();
    let tagged = |tags: &[[u8; 4]], cut: usize| {
        let mut out = frame[..12].to_vec();
        out.extend(tags.iter().flatten());
        out.extend(&frame[12..]);
        out.truncate(cut);
        out
    };
    let priority = [0x81, 0, 0x60, 0];
    let vlan5 = [0x81, 0, 0, 5];
    dropped(&mut host, &tagged(&[priority], 16), DropReason::VlanBad);
    dropped(&mut host, &tagged(&[priority; 3], 1000), DropReason::VlanBad);
    dropped(&mut host, &tagged(&[vlan5], 1000), DropReason::VlanBad);
    let mut length = frame.clone();
    length[12..14].copy_from_slice(&1000_u16.to_be_bytes());
    dropped(&mut host, &length, DropReason::L2Unknown);

    // A tag that the device has stripped counts as if it were there.
    let mut stripped = host.chain(&frame, &[]);
    stripped.set_rx_meta(RxMeta { vlan: Some(7), ..RxMeta::default() });
    host.stack.device_mut().deliver_frame(stripped);
    host.turn();
    assert_eq!(host.drops(DropReason::VlanBad), 4);
    host.assert_balanced();
}

#[test]
fn h8_h126_impossible_chains() {
    let mut host = Host::new();
    let frame = syn().frame();
    let mut chain = host.chain(&frame, &[20]);
    let empty = host.chain(&[], &[]);
    chain.chain(empty);
    host.stack.device_mut().deliver_frame(chain);
    host.turn();
    assert_eq!(host.drops(DropReason::MbufBad), 1);
    host.assert_balanced();
}

#[test]
/// RFC 9293 section 3.9.2.3, RFC 1122 section 4.2.3.10.
fn h14_h15_h16_martians_groups_and_land() {
    let mut host = Host::new();
    let with = |src: [u8; 4], dst: [u8; 4]| {
        let mut s = syn();
        (s.src, s.dst) = (src.into(), dst.into());
        s.frame()
    };
    let rows = [
        ([224, 0, 0, 1], [10, 0, 0, 1], DropReason::IpMartian),
        ([255, 255, 255, 255], [10, 0, 0, 1], DropReason::IpMartian),
        ([10, 0, 0, 255], [10, 0, 0, 1], DropReason::IpMartian),
        ([0, 0, 0, 0], [10, 0, 0, 1], DropReason::IpMartian),
        ([127, 0, 0, 1], [10, 0, 0, 1], DropReason::IpMartian),
        // LAND: our own address as source.
        ([10, 0, 0, 1], [10, 0, 0, 1], DropReason::IpMartian),
        ([10, 0, 0, 2], [10, 0, 0, 255], DropReason::TcpNotUnicast),
        ([10, 0, 0, 2], [255, 255, 255, 255], DropReason::TcpNotUnicast),
        ([10, 0, 0, 2], [224, 0, 0, 5], DropReason::TcpNotUnicast),
        ([10, 0, 0, 2], [10, 0, 0, 77], DropReason::IpNotOurs),
    ];
    for (src, dst, reason) in rows {
        dropped(&mut host, &with(src, dst), reason);
    }
    let mut land6 = syn().v6();
    land6.src = land6.dst;
    dropped(&mut host, &land6.frame(), DropReason::IpMartian);
}

#[test]
fn arp_requests_for_us_are_answered_and_teach_us_who_asks() {
    let mut host = Host::new();
    let sent = host.give(&arp_request(PEER_MAC, PEER_IP, OUR_IP));
    assert_eq!(sent.len(), 1);
    let link = ethernet::parse(&sent[0]).unwrap();
    assert_eq!((link.dst, link.src), (Mac(PEER_MAC), Mac(OUR_MAC)));
    let reply = wire::arp::parse(&sent[0][14..]).unwrap();
    assert_eq!(
        (reply.operation, reply.sender_ip, reply.sender_mac),
        (Operation::Reply, OUR_IP, Mac(OUR_MAC))
    );
    assert!(host.give(&arp_request(PEER_MAC, PEER_IP, [10, 0, 0, 9].into())).is_empty());
    assert_eq!(host.drops(DropReason::NeighborIgnored), 1);
}

#[test]
fn h51_somebody_claims_our_address() {
    let mut host = Host::new();
    let announcement = arp_request([2, 7, 7, 7, 7, 7], OUR_IP, OUR_IP);
    dropped(&mut host, &announcement, DropReason::AddressConflict);
    let reply = ArpPacket {
        operation: Operation::Reply,
        sender_mac: Mac([2, 7, 7, 7, 7, 7]),
        sender_ip: OUR_IP,
        target_mac: Mac(OUR_MAC),
        target_ip: PEER_IP,
    };
    let frame = arp_frame(Mac(OUR_MAC), [2, 7, 7, 7, 7, 7], &reply);
    dropped(&mut host, &frame, DropReason::AddressConflict);
    // We still answer for it.
    assert_eq!(host.give(&arp_request(PEER_MAC, PEER_IP, OUR_IP)).len(), 1);
}

#[test]
fn solicitations_for_us_are_answered() {
    let mut host = Host::new();
    let group = wire::ndp::solicited_node(OUR_IP6);
    let asked = wire::ndp::Solicitation { target: OUR_IP6, source_mac: Some(Mac(PEER_MAC)) };
    let mut body = [0; wire::ndp::NEIGHBOR_LEN_MAX];
    asked.emit(&mut body, PEER_IP6, group);
    let to = wire::ndp::multicast_mac(group);
    let build = |hop| ip_frame_to(to, PEER_IP6.into(), group.into(), 58, hop, &body);
    // H54: forwarded, so not from the link.
    dropped(&mut host, &build(254), DropReason::NdInvalid);
    let sent = host.give(&build(255));
    assert_eq!(sent.len(), 1);
    let header = wire::ipv6::parse(&sent[0][14..], sent[0].len() - 14).unwrap();
    assert_eq!((header.src, header.dst, header.hop_limit), (OUR_IP6, PEER_IP6, 255));
    let message = &sent[0][54..];
    let parsed = wire::ndp::parse(message, OUR_IP6, PEER_IP6, 255).unwrap();
    let wire::ndp::NdpMessage::Advertisement(a) = parsed else { panic!("{parsed:?}") };
    assert_eq!((a.target, a.target_mac, a.solicited), (OUR_IP6, Some(Mac(OUR_MAC)), true));
}

#[test]
fn our_addresses_are_announced_at_the_start() {
    let mem = mem_config();
    let device = base::mem::MemDevice::detached(&mem);
    let mut stack = crate::Stack::new(
        stack_config(1, 1500),
        StackParams::default().into(),
        vec![device],
        base::SeededRandom::new(1),
        std::boxed::Box::new(FnApp(|_: &mut dyn crate::Io, _| {})),
    );
    stack.turn(base::Instant::ZERO, &mut core::iter::empty(), &mut |_| Ok(()));
    let mut types = Vec::new();
    while let Some(frame) = stack.device_mut().take_sent() {
        types.push(ethernet::parse(frame.head()).unwrap().ethertype);
    }
    assert_eq!(types, [EtherType::ARP, EtherType::IPV6]);
}

#[test]
fn h52_a_scan_does_not_make_us_ask_for_ever() {
    // Answers to unknown neighbours wait for their addresses, in a quarter of the table.
    let mut config = stack_config(1, 1500);
    config.limits.neighbors = 16;
    let mut host =
        Host::with(MemConfig { ..mem_config() }, config, StackParams::default(), |io, e| {
            if matches!(e, crate::AppEvent::Start) {
                io.listen(None, 80, 1000, &tcp::ConnOptions::default()).unwrap();
            }
        });
    host.introduce_peer();
    let mut asked = 0;
    for i in 0..200_u8 {
        let mut s = syn();
        s.src = [10, 0, 0, i.wrapping_add(10)].into();
        let sent = host.give(&s.frame());
        asked += sent.len();
        assert!(tcp_of(&sent).is_empty(), "nothing to send to without an address");
    }
    assert!(asked <= 8, "{asked} questions at once");
    assert!(host.drops(DropReason::NeighborLimit) > 0);
    // A neighbour that is known is reached all the time.
    let answer = tcp_of(&host.give(&syn().ports(5, 81).frame()));
    assert_eq!(answer.len(), 1);
}

#[test]
fn h55_what_one_worker_hears_all_know() {
    let mut config = stack_config(1, 1500);
    config.workers = 2;
    let mut first = Host::with(mem_config(), config.clone(), StackParams::default(), |_, _| {});
    config.worker = base::WorkerId(1);
    let script = |io: &mut dyn crate::Io, e: &crate::AppEvent| {
        if matches!(e, crate::AppEvent::Start) {
            let remote = (PEER_IP, 9).into();
            io.connect(remote, crate::Local::ANY, &tcp::ConnOptions::default()).unwrap();
        }
    };
    let mut second = Host::with(mem_config(), config, StackParams::default(), script);
    // The second worker waits; the answer comes to the queue of the first.
    let reply = ArpPacket::request(Mac(OUR_MAC), OUR_IP, PEER_IP).reply(Mac(PEER_MAC));
    first.outgoing.clear();
    first.give(&arp_request(PEER_MAC, PEER_IP, OUR_IP));
    first.give(&arp_frame(Mac(OUR_MAC), PEER_MAC, &reply));
    assert_eq!(first.outgoing.len(), 2);
    for out in first.outgoing.drain(..) {
        let crate::Outgoing::ToWorker(to, message) = out else { panic!("for another worker") };
        assert_eq!(to, base::WorkerId(1));
        let from = Some(base::WorkerId(0));
        second.command(crate::Command::Message { from, message });
    }
    let sent = tcp_of(&second.sent());
    assert_eq!(sent.len(), 1, "the SYN that waited");
    assert_eq!(sent[0].to, Mac(PEER_MAC));
    let told = |e: &crate::AppEvent| matches!(e, crate::AppEvent::Message { .. });
    assert!(!second.events.borrow().iter().any(told), "no business of the application");
}
