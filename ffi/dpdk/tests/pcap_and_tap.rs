//! Replay and record, and an interface of our own towards the kernel.

mod common;

use std::net::UdpSocket;
use std::time::Duration;

use base::{Device, Frame};
use common::{assert_balanced, filled, headers, ip, is_root, payload, receive, send};
use dpdk::{Eal, EalConfig, Port, PortConfig, PortQueue, Vdev};

const PORT: u16 = 7778;

/// A capture file with one frame, as `tcpdump -w` writes it.
fn capture(frame: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [0xa1b2_c3d4u32, 4 << 16 | 2, 0, 0, 65_535, 1, 0, 0] {
        out.extend(word.to_ne_bytes());
    }
    out[4..8].copy_from_slice(&[2u16.to_ne_bytes(), 4u16.to_ne_bytes()].concat());
    for _ in 0..2 {
        out.extend((frame.len() as u32).to_ne_bytes());
    }
    out.extend(frame);
    out
}

fn start(eal: &Eal, name: &str, config: &PortConfig) -> PortQueue {
    let started = Port::open(eal, name).unwrap().start(config);
    let started = started.unwrap_or_else(|e| panic!("{}", e.report(true)));
    started.queues.into_iter().next().unwrap()
}

#[test]
fn files_and_an_interface_of_our_own() {
    let dir = std::env::temp_dir().join(format!("dpdk-test-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (input, output) = (dir.join("in.pcap"), dir.join("out.pcap"));
    let frame: Vec<u8> = (0..200).collect();
    std::fs::write(&input, capture(&frame)).unwrap();

    let config = PortConfig { buffers: 512, header_buffers: 512, ..PortConfig::default() };
    let tap = format!("mrt{}", std::process::id());
    let mut eal = EalConfig::software(128);
    let mut requests =
        vec![format!("net_pcap0,rx_pcap={},tx_pcap={}", input.display(), output.display())];
    if is_root() {
        requests.push(format!("net_tap0,iface={tap}"));
    }
    for text in requests {
        eal.vdevs.push(text.parse::<Vdev>().unwrap().prepare(1500, 1).unwrap());
    }
    let eal = Eal::init(&eal).unwrap_or_else(|e| panic!("{}", e.report(true)));

    replay_and_record(&eal, &config, &frame);
    let written = std::fs::read(&output).unwrap();
    assert_eq!(written[40..], frame, "behind the headers of file and record");
    std::fs::remove_dir_all(&dir).unwrap();

    if is_root() {
        through_the_kernel(&eal, &config, &tap);
    } else {
        println!("tap skipped: needs root");
    }
}

fn replay_and_record(eal: &Eal, config: &PortConfig, frame: &[u8]) {
    let mut queue = start(eal, "net_pcap0", config);
    let got = receive(&mut queue, 1).pop().unwrap();
    assert_eq!(got.head(), frame);
    send(&mut queue, got);
    assert_balanced(&queue);
}

fn through_the_kernel(eal: &Eal, config: &PortConfig, tap: &str) {
    let mut queue = start(eal, "net_tap0", config);
    let mac = queue.capabilities().mac;
    let text = std::fs::read_to_string(format!("/sys/class/net/{tap}/address")).unwrap();
    let kernel: Vec<u8> =
        text.trim().split(':').map(|b| u8::from_str_radix(b, 16).unwrap()).collect();
    let kernel: [u8; 6] = kernel.try_into().unwrap();
    assert_ne!(mac, kernel, "the two ends of a link have different addresses");

    let hex: Vec<String> = mac.iter().map(|b| format!("{b:02x}")).collect();
    assert!(ip(&format!("link set {tap} up")));
    assert!(ip(&format!("addr add 10.78.0.2/24 dev {tap}")));
    assert!(ip(&format!("neigh replace 10.78.0.1 lladdr {} dev {tap}", hex.join(":"))));
    let socket = UdpSocket::bind(("10.78.0.2", PORT)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();

    socket.send_to(b"to the stack", ("10.78.0.1", PORT)).unwrap();
    let (from, bytes) = (0..100)
        .find_map(|_| receive(&mut queue, 1).iter().find_map(|f| payload(f, PORT)))
        .expect("the datagram arrives");
    assert_eq!((from, &bytes[..]), (kernel, &b"to the stack"[..]));

    let text = b"to the kernel";
    let h = headers(mac, kernel, 78, PORT, text.len());
    let frame = filled(&mut queue, &[&h[..], text].concat());
    send(&mut queue, frame);
    let mut got = [0; 100];
    let (n, from) = socket.recv_from(&mut got).expect("the kernel takes the frame");
    assert_eq!((&got[..n], from.ip().to_string().as_str()), (&text[..], "10.78.0.1"));
}
