//! `net_pcap`: a made-up conversation is replayed, and what we answer is read back.

use std::process::Command;
use std::time::Duration;

use etherparse::{
    ArpHardwareId, ArpOperation, ArpPacket, EtherType, Ethernet2Header, Ethernet2HeaderSlice,
    IcmpEchoHeader, Icmpv4Type, Icmpv6Type, NetSlice, PacketBuilder, SlicedPacket, TransportSlice,
};
use tests::{Scratch, counter, pcap, until};

const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];
const PEER4: [u8; 4] = [10, 0, 0, 9];
const OURS4: [u8; 4] = [10, 0, 0, 2];
const PEER6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
const OURS6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
/// The address that the driver gives to its first port.
const OUR_MAC: [u8; 6] = [0x02, b'p', b'c', b'a', b'p', 0];
const ISN: u32 = 0x1000_0000;

/// Somebody asks who has `target`.
pub(crate) fn arp_request(target: [u8; 4]) -> Vec<u8> {
    let arp = ArpPacket::new(
        ArpHardwareId::ETHERNET,
        EtherType::IPV4,
        ArpOperation::REQUEST,
        &PEER_MAC,
        &PEER4,
        &[0; 6],
        &target,
    )
    .expect("lengths fit");
    let header =
        Ethernet2Header { source: PEER_MAC, destination: [0xff; 6], ether_type: EtherType::ARP };
    [&header.to_bytes()[..], &arp.to_bytes()].concat()
}

/// Our answer to it.
pub(crate) fn is_arp_reply(frame: &[u8]) -> bool {
    let Ok(SlicedPacket { net: Some(NetSlice::Arp(arp)), .. }) = SlicedPacket::from_ethernet(frame)
    else {
        return false;
    };
    let link = Ethernet2HeaderSlice::from_slice(frame).expect("was parsed");
    arp.operation() == ArpOperation::REPLY
        && link.destination() == PEER_MAC
        && arp.sender_protocol_addr() == OURS4
        && arp.sender_hw_addr() == link.source()
}

fn v4() -> etherparse::PacketBuilderStep<etherparse::IpHeaders> {
    PacketBuilder::ethernet2(PEER_MAC, OUR_MAC).ipv4(PEER4, OURS4, 64)
}

fn v6(hops: u8) -> etherparse::PacketBuilderStep<etherparse::IpHeaders> {
    PacketBuilder::ethernet2(PEER_MAC, OUR_MAC).ipv6(PEER6, OURS6, hops)
}

/// A TCP segment from port `from` to `to`, of a kind of which one test has only a few.
fn tcp(ipv6: bool, from: u16, to: u16, kind: &str) -> Vec<u8> {
    let step = if ipv6 { v6(64) } else { v4() }.tcp(from, to, ISN, 8192);
    let step = match kind {
        "syn" => step.syn(),
        "ack" => step.ack(77),
        other => unreachable!("{other}"),
    };
    let mut frame = Vec::new();
    step.write(&mut frame, &[]).expect("memory takes it");
    frame
}

/// A SYN with data, for a port that is closed: our reset acknowledges all of it.
fn with_data(ipv6: bool, from: u16, data: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let step = if ipv6 { v6(64) } else { v4() }.tcp(from, 1, ISN, 8192).syn();
    step.write(&mut frame, data).expect("memory takes it");
    frame
}

fn echo(ipv6: bool, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let written = if ipv6 {
        v6(64).icmpv6_echo_request(7, 1).write(&mut frame, payload)
    } else {
        v4().icmpv4_echo_request(7, 1).write(&mut frame, payload)
    };
    written.expect("memory takes it");
    frame
}

/// A neighbour solicitation for our address with its sender's link address.
fn solicitation() -> Vec<u8> {
    const SOLICITATION: u8 = 135;
    let payload = [&OURS6[..], &[1, 1], &PEER_MAC].concat();
    let mut frame = Vec::new();
    v6(255)
        .icmpv6_raw(SOLICITATION, 0, [0; 4])
        .write(&mut frame, &payload)
        .expect("memory takes it");
    frame
}

/// What a frame of ours says, in a few words.
fn summary(frame: &[u8]) -> String {
    if is_arp_reply(frame) {
        return "arp reply".to_owned();
    }
    let Ok(packet) = SlicedPacket::from_ethernet(frame) else { return "unreadable".to_owned() };
    let family = match &packet.net {
        Some(NetSlice::Ipv4(_)) => 4,
        Some(NetSlice::Ipv6(_)) => 6,
        _ => return "other".to_owned(),
    };
    match &packet.transport {
        Some(TransportSlice::Tcp(t)) => {
            let flags: String = [(t.syn(), 'S'), (t.ack(), 'A'), (t.rst(), 'R'), (t.fin(), 'F')]
                .into_iter()
                .filter_map(|(set, letter)| set.then_some(letter))
                .collect();
            let ack = t.acknowledgment_number().wrapping_sub(ISN);
            let seq = if t.rst() { format!(" seq {}", t.sequence_number()) } else { String::new() };
            let ack = if t.ack() { format!(" ack {ack}") } else { String::new() };
            format!("v{family} {flags} {} to {}{seq}{ack}", t.source_port(), t.destination_port())
        }
        Some(TransportSlice::Icmpv4(i)) => match i.icmp_type() {
            Icmpv4Type::EchoReply(IcmpEchoHeader { id: 7, seq: 1 }) => {
                format!("v4 echo reply {}", i.payload().len())
            }
            other => format!("v4 {other:?}"),
        },
        Some(TransportSlice::Icmpv6(i)) => match i.icmp_type() {
            Icmpv6Type::EchoReply(IcmpEchoHeader { id: 7, seq: 1 }) => {
                format!("v6 echo reply {}", i.payload().len())
            }
            Icmpv6Type::NeighborAdvertisement(_) => "v6 advertisement".to_owned(),
            other => format!("v6 {other:?}"),
        },
        other => format!("v{family} {other:?}"),
    }
}

/// What tshark finds wrong with a capture; `None` without tshark.
fn tshark_complains(file: &str) -> Option<String> {
    let output = Command::new("tshark")
        .args(["-r", file, "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"])
        .args(["-Y", "_ws.malformed || tcp.checksum.status == 0 || ip.checksum.status == 0"])
        .output()
        .ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_replayed_capture_is_answered_and_recorded() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("in.pcap"), scratch.path("out.pcap"));
    let long = vec![0xa5; 1400];
    let large = vec![0x5a; 4000];
    let mut large_and_bad = with_data(false, 4009, &large);
    *large_and_bad.last_mut().expect("not empty") ^= 1;
    let mut bad = tcp(false, 4005, 7, "syn");
    *bad.last_mut().expect("not empty") ^= 1;
    let frames = [
        arp_request(OURS4),
        solicitation(),
        echo(false, b"ping"),
        echo(true, b"ping"),
        echo(false, &long),
        echo(true, &long),
        tcp(false, 4001, 7, "syn"),
        tcp(true, 4002, 7, "syn"),
        tcp(false, 4003, 1, "syn"),
        tcp(true, 4004, 1, "syn"),
        tcp(false, 4006, 7, "ack"),
        // Larger than a buffer, so the driver chains two: whole, and with a wrong last byte.
        with_data(false, 4007, &large),
        with_data(true, 4008, &large),
        large_and_bad,
        bad,
        vec![0; 60],
        b"short".to_vec(),
        arp_request([10, 0, 0, 3]),
    ];
    pcap::write(&from, &frames).expect("writable");
    let replay = scratch.run(
        "replay",
        &format!(
            "[[port]]\nvdev = \"net_pcap0,rx_pcap={from},tx_pcap={to}\"\n\
             addresses = [\"10.0.0.2/24\", \"fd00::2/64\"]\n\n[[app]]\nkind = \"echo\"\n"
        ),
    );
    let expected = [
        "arp reply",
        "v4 AR 1 to 4003 seq 0 ack 1",
        "v4 AR 1 to 4007 seq 0 ack 4001",
        "v4 R 7 to 4006 seq 77",
        "v4 SA 7 to 4001 ack 1",
        "v4 echo reply 1400",
        "v4 echo reply 4",
        "v6 AR 1 to 4004 seq 0 ack 1",
        "v6 AR 1 to 4008 seq 0 ack 4001",
        "v6 SA 7 to 4002 ack 1",
        "v6 advertisement",
        "v6 echo reply 1400",
        "v6 echo reply 4",
    ];
    let mut seen = Vec::new();
    let instance = scratch.instance("replay");
    until(Duration::from_secs(10), "all answers", || {
        let frames = pcap::read(&to).unwrap_or_default();
        seen = frames.iter().map(|f| summary(f)).collect();
        seen.sort();
        // What is sent again for want of an answer, and what we ask of our own accord.
        seen.dedup();
        seen.retain(|s| s != "other" && !s.contains("Solicitation"));
        seen.len() >= expected.len() && counter(&instance, "MillraceFramesRx") >= 18
    });
    assert_eq!(seen, expected);
    for (reason, count) in
        [("tcp_csum", 2), ("l2_unknown", 1), ("l2_short", 1), ("tcp_stray_ack", 1)]
    {
        assert_eq!(counter(&instance, &format!("drop_{reason}")), count, "{reason}");
    }
    replay.signal("INT");
    assert_eq!(replay.wait(Duration::from_secs(12)), Some(0));
    for frame in pcap::read(&to).expect("a whole capture") {
        assert_eq!(frame.get(6..12), Some(&OUR_MAC[..]), "{frame:02x?}");
    }
    if let Some(complaints) = tshark_complains(&to) {
        assert_eq!(complaints, "");
    }
}

#[test]
fn a_capture_that_is_not_there_is_named() {
    let scratch = Scratch::new();
    let missing = scratch.path("missing.pcap");
    let mut c = scratch.millrace("iperf", "missing");
    c.args(["-s", "--address", "10.0.0.2/24", "--vdev", &format!("net_pcap0,rx_pcap={missing}")]);
    let output = c.output().expect("millrace starts");
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains(&format!("cannot read the capture {missing}")), "{text}");
}
