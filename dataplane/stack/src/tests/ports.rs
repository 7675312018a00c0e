//! Two ports: each link has its own answers, neighbours and routes, and one that is stuck holds up
//! nobody else's connections.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use core::time::Duration;

use base::mem::{MemConfig, MemDevice};
use base::{ConnId, Device, DropReason, Instant, PortId, SeededRandom, TcpFlags};
use tcp::ConnOptions;
use wire::arp::Operation;
use wire::{EtherType, Mac, ethernet};

use super::fixture::*;
use crate::{AppEvent, Command, ConnectError, Io, Local, LocalAddress, Outgoing, PortSetup, Stack};

const PORTS: [PortId; 2] = [PortId(0), PortId(1)];
const MACS: [[u8; 6]; 2] = [OUR_MAC, [2, 0, 0, 0, 1, 1]];
const IPS: [Ipv4Addr; 2] = [OUR_IP, Ipv4Addr::new(10, 1, 0, 1)];
const PEERS: [Ipv4Addr; 2] = [PEER_IP, Ipv4Addr::new(10, 1, 0, 2)];
const PEER_MACS: [[u8; 6]; 2] = [PEER_MAC, [2, 0, 0, 0, 1, 2]];
const LINK_LOCAL: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 1, 1)];
/// The same on both links.
const LINK_LOCAL_PEER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x99);
/// Behind the gateways.
const FAR: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);

type Calls = Rc<RefCell<Vec<Box<dyn FnOnce(&mut dyn Io)>>>>;

struct TwoPorts {
    stack: Stack<MemDevice>,
    now: Instant,
    calls: Calls,
    conns: Rc<RefCell<Vec<ConnId>>>,
    read: Rc<RefCell<Vec<(ConnId, usize)>>>,
    outgoing: Vec<Outgoing>,
    full: (u32, usize),
}

fn setup(port: usize) -> PortSetup {
    let [a, b, _, _] = IPS[port].octets();
    let plain = stack_config(1, 1500).ports.remove(0);
    PortSetup {
        addresses: vec![
            LocalAddress { addr: IPS[port].into(), prefix: 24 },
            LocalAddress { addr: LINK_LOCAL[port].into(), prefix: 64 },
        ],
        gateway4: Some(Ipv4Addr::new(a, b, 0, 254)),
        mtu: if port == 0 { 1500 } else { 900 },
        ..plain
    }
}

impl TwoPorts {
    /// An echo server on port 80 that also does what it is asked to.
    fn new(tx_ring: u16) -> Self {
        let device = |port: usize| {
            MemDevice::detached(&MemConfig { mac: MACS[port], tx_ring, ..mem_config() })
        };
        let first = device(0);
        let second = device(1).sharing_buffers_of(&first);
        let full = (first.buffers().free, first.header_buffers_free());
        let mut config = stack_config(1, 1500);
        config.ports = vec![setup(0), setup(1)];
        let (calls, conns, read): (Calls, Rc<RefCell<Vec<_>>>, Rc<RefCell<Vec<_>>>) =
            Default::default();
        let (todo, accepted, taken) = (Rc::clone(&calls), Rc::clone(&conns), Rc::clone(&read));
        let app = FnApp(move |io: &mut dyn Io, event: AppEvent| match event {
            AppEvent::Start => {
                io.listen(None, 80, 64, &ConnOptions::default()).unwrap();
            }
            AppEvent::Accepted { conn, .. } => accepted.borrow_mut().push(conn),
            AppEvent::Readable { conn } => {
                let mut bytes = Vec::new();
                io.recv(conn, &mut |b| {
                    bytes.extend_from_slice(b);
                    b.len()
                });
                taken.borrow_mut().push((conn, bytes.len()));
                io.send(conn, &bytes, false).unwrap();
            }
            AppEvent::Message { .. } => {
                for call in todo.borrow_mut().drain(..) {
                    call(io);
                }
            }
            _ => {}
        });
        let devices = vec![first, second];
        let random = SeededRandom::new(3);
        let params = crate::StackParams::default().into();
        let stack = Stack::new(config, params, devices, random, Box::new(app));
        let now = Instant::from_millis(1000);
        Self { stack, now, calls, conns, read, outgoing: Vec::new(), full }
    }

    fn turn(&mut self) -> crate::Turn {
        self.turn_with(&mut core::iter::empty())
    }

    fn turn_with(&mut self, commands: &mut dyn Iterator<Item = Command>) -> crate::Turn {
        let out = &mut self.outgoing;
        self.stack.turn(self.now, commands, &mut |o| {
            out.push(o);
            Ok(())
        })
    }

    /// Let the application do something.
    fn call(&mut self, what: impl FnOnce(&mut dyn Io) + 'static) {
        self.calls.borrow_mut().push(Box::new(what));
        let message = Command::Message { from: None, message: Box::new(()) };
        self.turn_with(&mut core::iter::once(message));
    }

    /// What has left by a port since the last look.
    fn sent(&mut self, port: usize) -> Vec<Vec<u8>> {
        let device = self.stack.port_device_mut(PORTS[port]).unwrap();
        core::iter::from_fn(|| device.take_sent().map(|f| f.to_vec())).collect()
    }

    fn put(&mut self, port: usize, frame: &[u8]) {
        assert!(self.stack.port_device_mut(PORTS[port]).unwrap().deliver(frame));
    }

    fn give(&mut self, port: usize, frame: &[u8]) -> Vec<Vec<u8>> {
        self.put(port, frame);
        self.turn();
        self.sent(port)
    }

    /// Make the peer of a port known.
    fn introduce(&mut self, port: usize, peer: Ipv4Addr) {
        self.give(port, &arp_request(PEER_MACS[port], peer, IPS[port]));
    }

    fn introduce_all(&mut self, peers: [Ipv4Addr; 2]) {
        for (port, peer) in peers.into_iter().enumerate() {
            self.introduce(port, peer);
        }
    }

    /// Forget what has been sent.
    fn clear(&mut self) {
        for port in [0, 1] {
            self.sent(port);
        }
    }

    /// Open a connection from the peer of a port, from its port `from`.
    fn open(&mut self, port: usize, from: u16) -> u32 {
        self.introduce(port, PEERS[port]);
        let answer = tcp_of(&self.give(port, &to_port(port, seg(TcpFlags::SYN, 99, 0), from)));
        let [syn] = answer.as_slice() else { panic!("{answer:?}") };
        let ack = syn.tcp.seq.wrapping_add(1);
        self.give(port, &to_port(port, seg(TcpFlags::ACK, 100, ack), from));
        ack
    }

    fn drops(&self, reason: DropReason) -> u64 {
        self.stack.drops()[reason as usize]
    }
}

/// The segment as it comes in by a port from the peer there.
fn to_port(port: usize, mut segment: Tcp, from: u16) -> Vec<u8> {
    (segment.src, segment.dst) = (PEERS[port].into(), IPS[port].into());
    framed(port, &segment.ports(from, 80))
}

fn framed(port: usize, segment: &Tcp) -> Vec<u8> {
    let mut frame = segment.frame();
    frame[..6].copy_from_slice(&MACS[port]);
    frame[6..12].copy_from_slice(&PEER_MACS[port]);
    frame
}

fn arps(frames: &[Vec<u8>]) -> Vec<wire::arp::ArpPacket> {
    frames
        .iter()
        .filter_map(|f| {
            let link = ethernet::parse(f).unwrap();
            (link.ethertype == EtherType::ARP).then(|| wire::arp::parse(&f[link.len..]).unwrap())
        })
        .collect()
}

#[test]
fn each_link_has_its_own_addresses_and_mac() {
    let mut host = TwoPorts::new(256);
    host.turn();
    for port in [0, 1] {
        let announced = arps(&host.sent(port));
        assert_eq!(announced.len(), 1, "its own address and no other");
        assert_eq!((announced[0].sender_ip, announced[0].sender_mac), (IPS[port], Mac(MACS[port])));
    }
    for port in [0, 1] {
        let request = arp_request(PEER_MACS[port], PEERS[port], IPS[port]);
        let answers = arps(&host.give(port, &request));
        assert_eq!(answers[0].operation, Operation::Reply);
        assert_eq!(answers[0].sender_mac, Mac(MACS[port]));
        let other = arp_request(PEER_MACS[port], PEERS[port], IPS[1 - port]);
        assert!(host.give(port, &other).is_empty(), "not for the address of another link");
        assert!(host.sent(1 - port).is_empty());
    }
}

#[test]
fn what_comes_for_the_address_of_another_port_is_dropped() {
    let mut host = TwoPorts::new(256);
    host.turn();
    host.sent(0);
    let mut syn = seg(TcpFlags::SYN, 99, 0);
    (syn.src, syn.dst) = (PEERS[0].into(), IPS[1].into());
    let before = host.drops(DropReason::IpNotOurs);
    assert!(host.give(0, &framed(0, &syn)).is_empty());
    assert_eq!(host.drops(DropReason::IpNotOurs), before + 1);
    // Nor does one link take the hardware address of the other.
    let mut misdirected = to_port(0, seg(TcpFlags::SYN, 99, 0), 1000);
    misdirected[..6].copy_from_slice(&MACS[1]);
    assert!(host.give(0, &misdirected).is_empty());
    assert_eq!(host.drops(DropReason::L2NotOurs), 1);
}

#[test]
fn connections_on_both_at_once_and_every_buffer_comes_back() {
    let mut host = TwoPorts::new(256);
    host.turn();
    let acks = [0, 1].map(|port| host.open(port, 1000));
    for port in [0, 1] {
        let data = seg(TcpFlags::ACK | TcpFlags::PSH, 100, acks[port]).data(b"hello");
        host.put(port, &to_port(port, data, 1000));
    }
    host.turn();
    for port in [0, 1] {
        let frames = host.sent(port);
        for frame in &frames {
            let link = ethernet::parse(frame).unwrap();
            assert_eq!((link.src, link.dst), (Mac(MACS[port]), Mac(PEER_MACS[port])));
        }
        let segments = tcp_of(&frames);
        assert!(segments.iter().any(|s| s.payload == b"hello"), "{segments:?}");
        let reset = seg(TcpFlags::RST, 105, 0);
        host.give(port, &to_port(port, reset, 1000));
    }
    host.turn();
    assert!(host.stack.holds_no_buffers());
    let device = host.stack.device();
    assert_eq!((device.buffers().free, device.header_buffers_free()), host.full);
}

#[test]
fn the_mss_is_that_of_the_port_and_rows_name_it() {
    let mut host = TwoPorts::new(256);
    host.turn();
    host.open(1, 1000);
    host.open(0, 1000);
    host.turn_with(&mut core::iter::once(Command::Snapshot { connections: 10 }));
    let rows = host.outgoing.iter().find_map(|o| match o {
        Outgoing::Snapshot(s) => Some(s.connections.clone()),
        _ => None,
    });
    let rows = rows.unwrap();
    let of = |ip: Ipv4Addr| {
        let row = rows.iter().find(|r| r.local.ip() == ip && r.info.is_some()).unwrap();
        (row.port, row.info.as_ref().unwrap().pmtu)
    };
    assert_eq!(of(IPS[0]), (Some(PORTS[0]), 1500));
    assert_eq!(of(IPS[1]), (Some(PORTS[1]), 900));
}

#[test]
fn the_route_chooses_the_port_of_what_we_open() {
    let mut host = TwoPorts::new(256);
    host.turn();
    host.introduce_all(PEERS);
    host.clear();
    for port in [0, 1] {
        host.call(move |io| {
            let remote = SocketAddr::new(PEERS[port].into(), 7);
            let conn = io.connect(remote, Local::ANY, &ConnOptions::default()).unwrap();
            assert_eq!(io.local_addr(conn).unwrap().ip(), IPS[port]);
        });
        let syn = tcp_of(&host.sent(port));
        assert_eq!((syn.len(), syn[0].to), (1, Mac(PEER_MACS[port])));
        assert!(host.sent(1 - port).is_empty());
    }
    // Beyond all prefixes: the first gateway.
    host.call(|io| {
        let conn = io.connect(SocketAddr::new(FAR.into(), 7), Local::ANY, &ConnOptions::default());
        assert_eq!(io.local_addr(conn.unwrap()).unwrap().ip(), IPS[0]);
    });
    assert!(host.turn().work > 0 || !host.sent(0).is_empty(), "asks for the gateway");
    assert!(host.sent(1).is_empty());
}

#[test]
fn the_address_of_a_connection_chooses_among_gateways_and_no_more() {
    let mut host = TwoPorts::new(256);
    host.turn();
    host.introduce_all([Ipv4Addr::new(10, 0, 0, 254), Ipv4Addr::new(10, 1, 0, 254)]);
    host.clear();
    let from = |io: &mut dyn Io, addr: Ipv4Addr, to: Ipv4Addr| {
        let local = Local::addr(addr.into());
        let conn = io.connect(SocketAddr::new(to.into(), 7), local, &ConnOptions::default());
        assert_eq!(io.local_addr(conn.unwrap()).unwrap().ip(), addr);
    };
    for port in [0, 1] {
        host.call(move |io| from(io, IPS[port], FAR));
        assert_eq!(tcp_of(&host.sent(port)).len(), 1, "by the gateway of its own link");
        assert!(host.sent(1 - port).is_empty());
    }
    host.introduce(0, PEERS[0]);
    host.clear();
    host.call(move |io| from(io, IPS[1], PEERS[0]));
    assert_eq!(tcp_of(&host.sent(0)).len(), 1, "the longest prefix decides");
    // What is link-local stays on its link.
    host.call(|io| {
        let remote = SocketAddrV6::new(LINK_LOCAL_PEER, 7, 0, 1);
        let refused =
            io.connect(remote.into(), Local::addr(LINK_LOCAL[1].into()), &ConnOptions::default());
        assert_eq!(refused.unwrap_err(), ConnectError::NoRoute);
        let remote = SocketAddrV6::new(LINK_LOCAL_PEER, 7, 0, 0);
        let local = Local::addr(LINK_LOCAL[1].into());
        assert!(io.connect(remote.into(), local, &ConnOptions::default()).is_ok());
    });
    host.now += Duration::from_millis(1);
    host.turn();
    assert!(host.sent(0).is_empty());
    assert!(!host.sent(1).is_empty(), "a solicitation on the link of the address");
}

#[test]
fn answers_to_far_peers_leave_by_the_gateway_of_the_address_they_asked() {
    let mut host = TwoPorts::new(256);
    host.turn();
    let gateways = [Ipv4Addr::new(10, 0, 0, 254), Ipv4Addr::new(10, 1, 0, 254)];
    host.introduce_all(gateways);
    for port in [0, 1] {
        let mut syn = seg(TcpFlags::SYN, 99, 0);
        (syn.src, syn.dst) = (FAR.into(), IPS[port].into());
        let answer = tcp_of(&host.give(port, &framed(port, &syn)));
        assert_eq!((answer.len(), answer[0].to), (1, Mac(PEER_MACS[port])));
        assert!(host.sent(1 - port).is_empty());
    }
}

#[test]
fn the_longer_prefix_wins_over_the_port_a_segment_came_by() {
    let mut host = TwoPorts::new(256);
    host.turn();
    host.introduce(0, PEERS[0]);
    host.sent(0);
    // A peer of the first link reaches the second by way of a router: answered directly.
    let mut syn = seg(TcpFlags::SYN, 99, 0);
    (syn.src, syn.dst) = (PEERS[0].into(), IPS[1].into());
    host.put(1, &framed(1, &syn));
    host.turn();
    assert_eq!(tcp_of(&host.sent(0)).len(), 1, "by the route");
    assert!(tcp_of(&host.sent(1)).is_empty());
}

#[test]
fn link_local_peers_are_told_apart_by_their_link() {
    let mut host = TwoPorts::new(256);
    host.turn();
    host.clear();
    let ask = |scope: u32| {
        move |io: &mut dyn Io| {
            let remote = SocketAddrV6::new(LINK_LOCAL_PEER, 7, 0, scope);
            let conn = io.connect(remote.into(), Local::ANY, &ConnOptions::default()).unwrap();
            let own = LINK_LOCAL[scope.saturating_sub(1) as usize];
            assert_eq!(io.local_addr(conn).unwrap().ip(), own);
        }
    };
    for (scope, port) in [(0, 0), (1, 0), (2, 1)] {
        host.call(ask(scope));
        host.now += Duration::from_millis(1);
        host.turn();
        let frames = host.sent(port);
        assert!(scope == 1 || !frames.is_empty(), "a solicitation on the right link");
        assert!(host.sent(1 - port).is_empty());
    }
    host.call(|io| {
        let remote = SocketAddrV6::new(LINK_LOCAL_PEER, 7, 0, 3);
        let refused = io.connect(remote.into(), Local::ANY, &ConnOptions::default());
        assert_eq!(refused.unwrap_err(), ConnectError::NoRoute, "there is no third port");
    });
    // The same address on two links: two neighbours.
    for port in [0, 1] {
        let mut syn = seg(TcpFlags::SYN, 99, 0);
        (syn.src, syn.dst) = (IpAddr::V6(LINK_LOCAL_PEER), LINK_LOCAL[port].into());
        host.give(port, &framed(port, &syn));
        let target = LINK_LOCAL_PEER;
        let advertisement = wire::ndp::Advertisement {
            target,
            target_mac: Some(Mac(PEER_MACS[port])),
            router: false,
            solicited: true,
            override_entry: true,
        };
        let mut body = [0; wire::ndp::NEIGHBOR_LEN_MAX];
        advertisement.emit(&mut body, target, LINK_LOCAL[port]);
        let icmp = wire::protocol::ICMPV6;
        let to = Mac(MACS[port]);
        let frame = ip_frame_to(to, target.into(), LINK_LOCAL[port].into(), icmp, 255, &body);
        let answers = tcp_of(&host.give(port, &frame));
        assert!(answers.iter().any(|s| s.tcp.flags.ack()), "{answers:?}");
        assert!(answers.iter().all(|s| s.to == Mac(PEER_MACS[port])), "{answers:?}");
    }
}

#[test]
fn a_port_that_takes_nothing_holds_up_its_own_connections_only() {
    let mut host = TwoPorts::new(4);
    host.turn();
    host.clear();
    let acks = [0, 1].map(|port| host.open(port, 1000));
    let conns = host.conns.borrow().clone();
    // The ring of the first has four places; nobody takes from it.
    host.call(move |io| {
        let data = [7; 20_000];
        assert!(io.send(conns[0], &data, false).unwrap() > 6_000);
    });
    for _ in 0..3 {
        let turn = host.turn();
        assert!(turn.pending, "frames wait for the device");
    }
    let mut seq = 100;
    for round in 0..50 {
        let data = seg(TcpFlags::ACK | TcpFlags::PSH, seq, acks[1] + round * 5).data(b"hello");
        let answer = tcp_of(&host.give(1, &to_port(1, data, 1000)));
        assert!(answer.iter().any(|s| s.payload == b"hello"), "round {round}");
        seq += 5;
    }
    assert_eq!(host.read.borrow().len(), 50);
    // What has waited leaves as soon as there is room.
    let mut bytes = 0;
    for _ in 0..10 {
        bytes += tcp_of(&host.sent(0)).iter().map(|s| s.payload.len()).sum::<usize>();
        host.turn();
    }
    assert_eq!(bytes, 10 * 536, "an initial window of default segments");
}

#[test]
#[should_panic(expected = "each port has a device")]
fn a_stack_has_a_device_for_each_port() {
    let mut config = stack_config(1, 1500);
    config.ports.push(setup(1));
    let devices = vec![MemDevice::detached(&mem_config())];
    let app = Box::new(FnApp(|_: &mut dyn Io, _| {}));
    let params = crate::StackParams::default().into();
    let _ = Stack::new(config, params, devices, SeededRandom::new(1), app);
}
