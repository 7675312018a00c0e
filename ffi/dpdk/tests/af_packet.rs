//! Frames to and from the kernel over a veth pair, MTU 9000, the far end in a namespace of its own.

mod common;

use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use base::{Device, Frame};
use common::{assert_balanced, headers, ip, payload, receive, send};
use dpdk::{Eal, EalConfig, Port, PortConfig, PortQueue, Vdev};

const OURS: &str = "10.77.0.1";
const THEIRS: &str = "10.77.0.2";
const PORT: u16 = 7777;
const MTU: u16 = 9000;

/// A veth pair whose far end is in a namespace, removed at the end.
struct Link {
    near: String,
    namespace: String,
}

impl Link {
    /// `None`, with the reason printed, where this is not permitted.
    fn new() -> Option<Self> {
        let pid = std::process::id();
        let link = Self { near: format!("mr{pid}"), namespace: format!("mr-test-{pid}") };
        if !common::is_root() || !ip(&format!("netns add {}", link.namespace)) {
            println!("skipped: needs root and network namespaces");
            return None;
        }
        let Self { near, namespace: ns } = &link;
        for args in [
            format!("link add {near} mtu {MTU} type veth peer name far mtu {MTU} netns {ns}"),
            format!("-n {ns} addr add {THEIRS}/24 dev far"),
            format!("-n {ns} link set far up"),
            format!("link set {near} up"),
        ] {
            assert!(ip(&args), "ip {args}");
        }
        Some(link)
    }

    /// A socket on the far end.
    fn far_socket(&self) -> UdpSocket {
        let path = format!("/run/netns/{}", self.namespace);
        // A thread changes its namespace for good, so it is one that ends.
        std::thread::spawn(move || {
            let file = std::fs::File::open(path).unwrap();
            let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
            // SAFETY: an open descriptor of a namespace; affects this thread only.
            assert_eq!(unsafe { libc::setns(fd, libc::CLONE_NEWNET) }, 0);
            UdpSocket::bind((THEIRS, PORT)).unwrap()
        })
        .join()
        .unwrap()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The namespace takes the pair with it, but not at once.
        for args in [["link", "del", &self.near], ["netns", "del", &self.namespace]] {
            let _ = Command::new("ip").args(args).output();
        }
    }
}

fn next_payload(queue: &mut PortQueue) -> ([u8; 6], Vec<u8>) {
    (0..100)
        .find_map(|_| receive(queue, 1).iter().find_map(|f| payload(f, PORT)))
        .expect("a datagram arrives")
}

#[test]
fn jumbo_frames_to_and_from_the_kernel() {
    let Some(link) = Link::new() else { return };
    let config =
        PortConfig { mtu: MTU, buffers: 512, header_buffers: 512, ..PortConfig::default() };
    let vdev: Vdev = format!("net_af_packet0,iface={}", link.near).parse().unwrap();
    let mut eal = EalConfig::software(128);
    eal.vdevs.push(vdev.prepare(config.mtu, config.queues).unwrap());
    let eal = Eal::init(&eal).unwrap();
    let port = Port::open(&eal, "net_af_packet0").unwrap();
    let mac = port.info().mac;
    let kernel_mac = std::fs::read_to_string(format!("/sys/class/net/{}/address", link.near));
    let hex: Vec<String> = mac.iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(kernel_mac.unwrap().trim(), hex.join(":"), "the interface's own address");

    let started = port.start(&config).unwrap();
    assert!(!started.missing.contains(&"multi-segment"), "{:?}", started.missing);
    let mut queue = started.queues.into_iter().next().unwrap();
    assert!(queue.capabilities().payload_room >= 9018);
    let ns = &link.namespace;
    assert!(ip(&format!("-n {ns} neigh replace {OURS} lladdr {} dev far", hex.join(":"))));
    let far = link.far_socket();
    far.set_read_timeout(Some(Duration::from_secs(2))).unwrap();

    // From the kernel, small and as large as the MTU allows.
    let large: Vec<u8> = (0..usize::from(MTU) - 28).map(|i| i as u8).collect();
    far.send_to(b"hello", (OURS, PORT)).unwrap();
    let (their_mac, hello) = next_payload(&mut queue);
    // The Ethernet minimum does not apply to veth: no padding behind the datagram.
    assert_eq!(hello, b"hello");
    far.send_to(&large, (OURS, PORT)).unwrap();
    assert_eq!(next_payload(&mut queue).1, large);

    // To the kernel, a header and two references to payload.
    let mut data = queue.payload_alloc().unwrap();
    data.push_back(large.len()).unwrap().copy_from_slice(&large);
    for (start, len) in [(0, 100), (0, large.len())] {
        let mut frame = queue.alloc().unwrap();
        let h = headers(mac, their_mac, 77, PORT, len);
        frame.push_back(h.len()).unwrap().copy_from_slice(&h);
        frame.chain(queue.share(&data, start, 50).unwrap());
        frame.chain(queue.share(&data, start + 50, len - 50).unwrap());
        send(&mut queue, frame);
        let mut got = vec![0; 10_000];
        let (n, from) = far.recv_from(&mut got).expect("the kernel takes the frame");
        assert_eq!((n, from.ip().to_string().as_str()), (len, OURS));
        assert_eq!(got[..n], large[..len]);
    }
    // Both are copied into the driver's ring, so the references are gone.
    assert!(data.head_mut().is_some());

    // What we sent does not come back to us.
    let mut batch = base::RxBatch::new();
    queue.rx_burst(&mut batch);
    assert!(batch.iter().all(|f| payload(f, PORT).is_none_or(|(from, _)| from != mac)));
    drop(batch);
    drop(data);
    let stats = started.control.stats().unwrap();
    assert!(stats.rx_packets >= 2 && stats.tx_packets == 2 && stats.tx_errors == 0, "{stats:?}");
    assert_balanced(&queue);
}
