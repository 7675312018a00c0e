//! One stack in virtual time, and we are the wire.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::mem::{MemConfig, MemDevice};
use base::{ConnId, Device, DropReason, Instant, ListenerId, SeededRandom, TcpFlags, WorkerId};
use stack::{
    App, AppEvent, ChecksumPolicy, Command, ConnRow, Io, Limits, Local, LocalAddress, Outgoing,
    PortSetup, Stack, StackConfig, StackParams,
};
use tcp::{CloseReason, ConnOptions};
use wire::{EtherType, Mac, TcpFields, TcpHeader, TcpOptions, checksum, ethernet, ipv4, ipv6};

const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const OUR_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEER_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const OUR_IP6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const PEER_IP6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

/// The port on which our application listens.
pub(crate) const OUR_PORT: u16 = 80;
/// The peer's port.
pub(crate) const PEER_PORT: u16 = 1000;

/// Large enough for a segment that is larger than the whole window.
const MTU: u16 = 4000;

/// The two address families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) const BOTH: [Self; 2] = [Self::V4, Self::V6];

    fn ours(self) -> IpAddr {
        match self {
            Self::V4 => OUR_IP.into(),
            Self::V6 => OUR_IP6.into(),
        }
    }

    fn peer(self) -> IpAddr {
        match self {
            Self::V4 => PEER_IP.into(),
            Self::V6 => PEER_IP6.into(),
        }
    }
}

/// A segment of the peer's, in numbers of the wire.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segment {
    pub(crate) flags: TcpFlags,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) window: u16,
    pub(crate) options: TcpOptions,
    pub(crate) payload: Vec<u8>,
}

/// A segment that the stack sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) tcp: TcpHeader,
    pub(crate) options: TcpOptions,
    pub(crate) payload: Vec<u8>,
}

/// What the application was told.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) conn: Option<ConnId>,
    pub(crate) closed: Option<CloseReason>,
}

/// Notes what it is told and does nothing: the test acts through [`Stack::io`].
struct Notes(Rc<RefCell<Told>>);

impl App for Notes {
    fn on_event(&mut self, _: &mut dyn Io, event: AppEvent) {
        let mut told = self.0.borrow_mut();
        match event {
            AppEvent::Accepted { conn, .. } | AppEvent::Connected { conn } => {
                told.conn = Some(conn)
            }
            AppEvent::Closed { reason, .. } => {
                assert_eq!(told.closed.replace(reason), None, "the end was told twice");
            }
            _ => {}
        }
    }
}

/// A stack and its surroundings.
pub(crate) struct Host {
    pub(crate) stack: Stack<MemDevice>,
    pub(crate) now: Instant,
    pub(crate) told: Rc<RefCell<Told>>,
    pub(crate) family: Family,
    listener: Option<ListenerId>,
    rows: Vec<ConnRow>,
    full: (u32, usize),
}

impl Host {
    /// A host that knows its peer's hardware address, at `now`.
    pub(crate) fn new(family: Family, params: &Arc<StackParams>, now: Instant) -> Self {
        let config = StackConfig {
            worker: WorkerId(0),
            workers: 1,
            ports: vec![PortSetup {
                addresses: vec![
                    LocalAddress { addr: OUR_IP.into(), prefix: 24 },
                    LocalAddress { addr: OUR_IP6.into(), prefix: 64 },
                ],
                gateway4: None,
                gateway6: None,
                mtu: MTU,
                rx_checksum: ChecksumPolicy::Verify,
            }],
            limits: Limits {
                connections: 4,
                half_open: 4,
                time_wait: 4,
                neighbors: 8,
                listeners: 2,
                fragments: 0,
            },
            stop_limit: Duration::from_secs(5),
        };
        let mem = MemConfig {
            mac: OUR_MAC,
            mtu: MTU,
            buffers: 32,
            payload_room: usize::from(MTU) + 100,
            tx_ring: 32,
            ..MemConfig::default()
        };
        let device = MemDevice::detached(&mem);
        let full = (device.buffers().free, device.header_buffers_free());
        let told = Rc::<RefCell<Told>>::default();
        let app = Box::new(Notes(Rc::clone(&told)));
        let stack = Stack::new(config, Arc::clone(params), vec![device], SeededRandom::new(7), app);
        let mut host = Self { stack, now, told, family, listener: None, rows: Vec::new(), full };
        host.turn();
        host.introduce_peer();
        host.sent();
        host
    }

    pub(crate) fn io(&mut self) -> &mut dyn Io {
        self.stack.io()
    }

    /// Our application's only connection.
    pub(crate) fn conn(&self) -> ConnId {
        self.told.borrow().conn.expect("a connection that the application knows")
    }

    pub(crate) fn listen(&mut self, options: &ConnOptions) {
        self.listener = Some(self.io().listen(None, OUR_PORT, 4, options).expect("a free port"));
    }

    /// Connect from our port to the peer's.
    pub(crate) fn connect(&mut self, options: &ConnOptions) {
        let remote = SocketAddr::new(self.family.peer(), PEER_PORT);
        let conn = self.io().connect(remote, Local::port(OUR_PORT), options).expect("a free port");
        self.told.borrow_mut().conn = Some(conn);
    }

    pub(crate) fn turn(&mut self) -> Option<Instant> {
        let turn = self.stack.turn(self.now, &mut std::iter::empty(), &mut |_| Ok(()));
        assert!(!turn.pending, "one turn is enough for one segment");
        turn.next_deadline
    }

    /// Deliver one segment, run a turn, and return what was sent.
    pub(crate) fn give(&mut self, segment: &Segment) -> Vec<Sent> {
        let frame = self.frame(segment);
        assert!(self.stack.device_mut().deliver(&frame), "no buffer");
        self.turn();
        self.sent()
    }

    /// Everything sent since the last call, each checked as a receiver would.
    pub(crate) fn sent(&mut self) -> Vec<Sent> {
        let device = self.stack.device_mut();
        std::iter::from_fn(|| device.take_sent()).filter_map(|f| parse(&f.to_vec())).collect()
    }

    /// Let time pass, and collect what is sent.
    pub(crate) fn run_for(&mut self, duration: Duration) -> Vec<Sent> {
        let end = self.now + duration;
        let mut sent = Vec::new();
        for _ in 0..1000 {
            let next = self.turn();
            sent.extend(self.sent());
            match next.filter(|at| *at <= end) {
                Some(at) => self.now = self.now.max(at) + Duration::from_nanos(1),
                None => {
                    self.now = end;
                    self.turn();
                    sent.extend(self.sent());
                    return sent;
                }
            }
        }
        panic!("no end: the stack asks for turns for ever");
    }

    /// Let time pass until something is sent, or `duration` is over.
    pub(crate) fn run_until_sent(&mut self, duration: Duration) -> Vec<Sent> {
        let end = self.now + duration;
        for _ in 0..1000 {
            let next = self.turn();
            let sent = self.sent();
            match next.filter(|at| *at <= end) {
                Some(at) if sent.is_empty() => {
                    self.now = self.now.max(at) + Duration::from_nanos(1)
                }
                _ => return sent,
            }
        }
        panic!("no end: the stack asks for turns for ever");
    }

    /// The connection between the two ports, or the listener.
    pub(crate) fn row(&mut self) -> Option<ConnRow> {
        let mut rows = std::mem::take(&mut self.rows);
        let ask = Command::Snapshot { connections: 8 };
        self.stack.turn(self.now, &mut std::iter::once(ask), &mut |out| {
            if let Outgoing::Snapshot(snapshot) = out {
                rows = snapshot.connections;
            }
            Ok(())
        });
        // A connection that has gone to TIME-WAIT may stay for what is unread.
        let found = rows
            .iter()
            .rfind(|r| r.remote.port() == PEER_PORT)
            .or_else(|| rows.iter().find(|r| r.local.port() == OUR_PORT))
            .cloned();
        self.rows = rows;
        found
    }

    pub(crate) fn drops(&self) -> [u64; DropReason::COUNT] {
        *self.stack.drops()
    }

    /// Read all that is readable.
    pub(crate) fn read(&mut self) -> Vec<u8> {
        let Some(conn) = self.told.borrow().conn else { return Vec::new() };
        let mut out = Vec::new();
        self.io().recv(conn, &mut |bytes| {
            out.extend_from_slice(bytes);
            bytes.len()
        });
        out
    }

    /// End what is left, wait until nothing remembers it, and find every buffer at home.
    pub(crate) fn wind_down(&mut self) -> Result<(), String> {
        let conn = self.told.borrow().conn;
        if let Some(conn) = conn {
            self.io().abort(conn);
        }
        if let Some(listener) = self.listener.take() {
            self.io().close_listener(listener);
        }
        // TIME-WAIT and half-open connections last a minute or so.
        self.run_for(Duration::from_secs(130));
        *self.told.borrow_mut() = Told::default();
        if self.stack.table() != [0; 3] {
            return Err(format!("left over: {:?}", self.stack.table()));
        }
        let device = self.stack.device();
        let level = (device.buffers().free, device.header_buffers_free());
        if !self.stack.holds_no_buffers() || level != self.full {
            return Err(format!("buffers are missing: {level:?} of {:?}", self.full));
        }
        Ok(())
    }

    /// Let time go on to `start`, at which a scene can begin as on a fresh host.
    pub(crate) fn wait_for(&mut self, start: Instant) {
        self.run_for(start.since(self.now));
        self.introduce_peer();
        self.sent();
    }

    fn frame(&self, segment: &Segment) -> Vec<u8> {
        let (src, dst) = (self.family.peer(), self.family.ours());
        let fields = TcpFields {
            src_port: PEER_PORT,
            dst_port: OUR_PORT,
            seq: segment.seq,
            ack: segment.ack,
            flags: segment.flags,
            window: segment.window,
            urgent: 0,
            options: segment.options.clone(),
        };
        let mut body = vec![0; fields.header_len()];
        wire::tcp::emit(&mut body, &fields);
        let len = body.len() + segment.payload.len();
        let pseudo = checksum::pseudo(src, dst, wire::protocol::TCP, len).expect("one family");
        let sum = checksum::finish(pseudo, &body, checksum::sum(&segment.payload, 0));
        wire::tcp::set_checksum(&mut body, sum);
        body.extend(&segment.payload);
        ip_frame(Mac(OUR_MAC), src, dst, wire::protocol::TCP, 64, &body)
    }

    /// Make the peer's hardware address known by asking for ours.
    fn introduce_peer(&mut self) {
        let frame = match self.family {
            Family::V4 => {
                let packet = wire::arp::ArpPacket::request(Mac(PEER_MAC), PEER_IP, OUR_IP);
                let mut out = vec![0; ethernet::HEADER_LEN + wire::arp::LEN];
                ethernet::emit(&mut out, Mac::BROADCAST, Mac(PEER_MAC), None, EtherType::ARP);
                packet.emit(&mut out[ethernet::HEADER_LEN..]);
                out
            }
            Family::V6 => {
                let asked =
                    wire::ndp::Solicitation { target: OUR_IP6, source_mac: Some(Mac(PEER_MAC)) };
                let group = wire::ndp::solicited_node(OUR_IP6);
                let mut body = [0; wire::ndp::NEIGHBOR_LEN_MAX];
                asked.emit(&mut body, PEER_IP6, group);
                let to = wire::ndp::multicast_mac(group);
                ip_frame(to, PEER_IP6.into(), group.into(), wire::protocol::ICMPV6, 255, &body)
            }
        };
        assert!(self.stack.device_mut().deliver(&frame), "no buffer");
        self.turn();
    }
}

fn ip_frame(
    to: Mac,
    src: IpAddr,
    dst: IpAddr,
    protocol: u8,
    hop_limit: u8,
    body: &[u8],
) -> Vec<u8> {
    let mut out = vec![0; ethernet::HEADER_LEN];
    let ethertype = if src.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
    ethernet::emit(&mut out, to, Mac(PEER_MAC), None, ethertype);
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let fields = ipv4::Ipv4Fields {
                src,
                dst,
                protocol,
                ttl: hop_limit,
                tos: 0,
                ident: 0,
                dont_fragment: true,
                total_len: (ipv4::HEADER_LEN + body.len()) as u16,
            };
            let mut header = [0; ipv4::HEADER_LEN];
            ipv4::emit(&mut header, &fields, ipv4::HeaderChecksum::Compute);
            out.extend(header);
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let fields = ipv6::Ipv6Fields {
                src,
                dst,
                traffic_class: 0,
                flow_label: 0,
                hop_limit,
                next_header: protocol,
                payload_len: body.len() as u16,
            };
            let mut header = [0; ipv6::HEADER_LEN];
            ipv6::emit(&mut header, &fields);
            out.extend(header);
        }
        _ => unreachable!("one family"),
    }
    out.extend(body);
    out
}

fn parse(frame: &[u8]) -> Option<Sent> {
    let link = ethernet::parse(frame).expect("a sound link header");
    let packet = &frame[link.len..];
    let (src, dst, protocol, l4, len): (IpAddr, IpAddr, u8, usize, usize) = match link.ethertype {
        EtherType::IPV4 => {
            let h = ipv4::parse(packet, packet.len(), true).expect("a sound IPv4 header");
            (h.src.into(), h.dst.into(), h.protocol, h.header_len, h.payload_len())
        }
        EtherType::IPV6 => {
            let h = ipv6::parse(packet, packet.len()).expect("a sound IPv6 header");
            (h.src.into(), h.dst.into(), h.protocol, h.transport_offset, h.transport_len)
        }
        _ => return None,
    };
    if protocol != wire::protocol::TCP {
        return None;
    }
    let segment = &packet[l4..l4 + len];
    let (tcp, options) = wire::tcp::parse(segment, len).expect("a sound TCP header");
    let pseudo = checksum::pseudo(src, dst, protocol, len).expect("one family");
    assert!(checksum::verify(pseudo, [segment], len), "wrong TCP checksum in {tcp:?}");
    assert_eq!((tcp.src_port, tcp.dst_port), (OUR_PORT, PEER_PORT), "to a third party");
    Some(Sent { payload: segment[tcp.header_len..].to_vec(), tcp, options })
}
