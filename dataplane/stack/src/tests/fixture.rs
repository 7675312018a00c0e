//! Hosts, frames in and frames out.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use std::vec;

use base::mem::{MemConfig, MemDevice, MemFrame};
use base::{Device, DropReason, Frame, Instant, Offloads, SeededRandom, TcpFlags, WorkerId};
use wire::{EtherType, Mac, TcpFields, TcpHeader, TcpOptions, checksum, ethernet, ipv4, ipv6};

use crate::{
    App, AppEvent, ChecksumPolicy, Command, Io, Limits, LocalAddress, Outgoing, PortSetup, Stack,
    StackConfig, StackParams, Turn,
};

pub(super) const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(super) const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
pub(super) const OUR_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(super) const PEER_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
pub(super) const OUR_IP6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
pub(super) const PEER_IP6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

/// An application that is a closure.
pub(super) struct FnApp<F>(pub F);

impl<F: FnMut(&mut dyn Io, AppEvent) + 'static> App for FnApp<F> {
    fn on_event(&mut self, io: &mut dyn Io, event: AppEvent) {
        (self.0)(io, event);
    }
}

pub(super) fn mem_config() -> MemConfig {
    MemConfig { mac: OUR_MAC, buffers: 512, ..MemConfig::default() }
}

pub(super) fn stack_config(last: u8, mtu: u16) -> StackConfig {
    let v4 = Ipv4Addr::new(10, 0, 0, last);
    let v6 = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last.into());
    StackConfig {
        worker: WorkerId(0),
        workers: 1,
        ports: vec![PortSetup {
            addresses: vec![
                LocalAddress { addr: v4.into(), prefix: 24 },
                LocalAddress { addr: v6.into(), prefix: 64 },
            ],
            gateway4: Some(Ipv4Addr::new(10, 0, 0, 254)),
            gateway6: None,
            mtu,
            rx_checksum: ChecksumPolicy::Verify,
        }],
        limits: Limits { connections: 256, half_open: 64, time_wait: 64, ..Limits::default() },
        stop_limit: Duration::from_secs(5),
    }
}

/// One stack, and we are the wire.
pub(super) struct Host {
    pub(super) stack: Stack<MemDevice>,
    pub(super) now: Instant,
    pub(super) outgoing: Vec<Outgoing>,
    pub(super) events: Rc<RefCell<Vec<AppEvent>>>,
    full: (u32, usize),
}

/// The first buffers with which a host begins: to compare with what is there at its end.
fn level(device: &MemDevice) -> (u32, usize) {
    (device.buffers().free, device.header_buffers_free())
}

impl Host {
    /// A host whose application listens on port 80 and notes what happens.
    pub(super) fn new() -> Self {
        Self::with(mem_config(), stack_config(1, 1500), StackParams::default(), |io, event| {
            if matches!(event, AppEvent::Start) {
                io.listen(None, 80, 16, &tcp::ConnOptions::default()).unwrap();
            }
        })
    }

    pub(super) fn with(
        mem: MemConfig,
        config: StackConfig,
        params: StackParams,
        mut script: impl FnMut(&mut dyn Io, &AppEvent) + 'static,
    ) -> Self {
        let events: Rc<RefCell<Vec<AppEvent>>> = Rc::default();
        let log = Rc::clone(&events);
        let app = FnApp(move |io: &mut dyn Io, event: AppEvent| {
            script(io, &event);
            log.borrow_mut().push(event);
        });
        let device = MemDevice::detached(&mem);
        let full = level(&device);
        let stack =
            Stack::new(config, Arc::new(params), vec![device], SeededRandom::new(7), Box::new(app));
        let mut host =
            Self { stack, now: Instant::from_millis(1000), outgoing: Vec::new(), events, full };
        host.turn();
        host.sent();
        host
    }

    pub(super) fn turn(&mut self) -> Turn {
        self.turn_with(&mut core::iter::empty())
    }

    pub(super) fn turn_with(&mut self, commands: &mut dyn Iterator<Item = Command>) -> Turn {
        let out = &mut self.outgoing;
        self.stack.turn(self.now, commands, &mut |o| {
            out.push(o);
            Ok(())
        })
    }

    pub(super) fn command(&mut self, command: Command) -> Turn {
        self.turn_with(&mut core::iter::once(command))
    }

    /// Deliver one frame, run a turn, and return what was sent.
    pub(super) fn give(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        assert!(self.stack.device_mut().deliver(frame));
        self.turn();
        self.sent()
    }

    /// As [`Host::give`] with a frame cut into buffers of these sizes.
    pub(super) fn give_chain(&mut self, frame: &[u8], cuts: &[usize]) -> Vec<Vec<u8>> {
        let chain = self.chain(frame, cuts);
        self.stack.device_mut().deliver_frame(chain);
        self.turn();
        self.sent()
    }

    pub(super) fn chain(&mut self, frame: &[u8], cuts: &[usize]) -> MemFrame {
        let mut rest = frame;
        let mut chain: Option<MemFrame> = None;
        let mut cuts = cuts.iter().copied();
        while !rest.is_empty() || chain.is_none() {
            let (now, later) = rest.split_at(cuts.next().unwrap_or(rest.len()).min(rest.len()));
            let mut buffer = self.stack.device_mut().payload_alloc().unwrap();
            buffer.push_back(now.len()).unwrap().copy_from_slice(now);
            match &mut chain {
                Some(chain) => chain.chain(buffer),
                None => chain = Some(buffer),
            }
            rest = later;
        }
        chain.unwrap()
    }

    /// Everything sent since the last call.
    pub(super) fn sent(&mut self) -> Vec<Vec<u8>> {
        let device = self.stack.device_mut();
        core::iter::from_fn(|| device.take_sent().map(|f| f.to_vec())).collect()
    }

    /// Let time pass in steps until `deadline`, collecting what is sent.
    pub(super) fn run_for(&mut self, duration: Duration) -> Vec<Vec<u8>> {
        let end = self.now + duration;
        let mut sent = Vec::new();
        for _ in 0..100_000 {
            let turn = self.turn();
            sent.extend(self.sent());
            if turn.pending {
                continue;
            }
            match turn.next_deadline.filter(|at| *at <= end) {
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

    pub(super) fn drops(&self, reason: DropReason) -> u64 {
        self.stack.drops()[reason as usize]
    }

    pub(super) fn total_drops(&self) -> u64 {
        self.stack.drops().iter().sum()
    }

    /// Every buffer is back with the device.
    #[track_caller]
    pub(super) fn assert_balanced(&mut self) {
        self.sent();
        assert!(self.stack.holds_no_buffers(), "the stack holds buffers");
        assert_eq!(level(self.stack.device()), self.full, "buffers are missing");
    }

    /// Answer ARP and neighbour solicitations for the peer's addresses.
    pub(super) fn introduce_peer(&mut self) {
        let request = arp_request(PEER_MAC, PEER_IP, OUR_IP);
        self.give(&request);
        let asked = wire::ndp::Solicitation { target: OUR_IP6, source_mac: Some(Mac(PEER_MAC)) };
        let group = wire::ndp::solicited_node(OUR_IP6);
        let mut body = [0; wire::ndp::NEIGHBOR_LEN_MAX];
        asked.emit(&mut body, PEER_IP6, group);
        let frame = ip_frame_to(
            wire::ndp::multicast_mac(group),
            PEER_IP6.into(),
            group.into(),
            wire::protocol::ICMPV6,
            255,
            &body,
        );
        self.give(&frame);
    }
}

pub(super) fn arp_request(from: [u8; 6], sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let packet = wire::arp::ArpPacket::request(Mac(from), sender, target);
    arp_frame(Mac::BROADCAST, from, &packet)
}

pub(super) fn arp_frame(to: Mac, from: [u8; 6], packet: &wire::arp::ArpPacket) -> Vec<u8> {
    let mut out = vec![0; ethernet::HEADER_LEN + wire::arp::LEN];
    ethernet::emit(&mut out, to, Mac(from), None, EtherType::ARP);
    packet.emit(&mut out[ethernet::HEADER_LEN..]);
    out
}

/// An IP packet from the peer to our MAC.
pub(super) fn ip_frame(src: IpAddr, dst: IpAddr, protocol: u8, body: &[u8]) -> Vec<u8> {
    ip_frame_to(Mac(OUR_MAC), src, dst, protocol, 64, body)
}

pub(super) fn ip_frame_to(
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

/// A TCP segment, with defaults for what does not matter.
#[derive(Clone, Debug)]
pub(super) struct Tcp {
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    pub(super) fields: TcpFields,
    pub(super) payload: Vec<u8>,
}

/// From the peer's port 1000 to our port 80.
pub(super) fn seg(flags: TcpFlags, seq: u32, ack: u32) -> Tcp {
    Tcp {
        src: PEER_IP.into(),
        dst: OUR_IP.into(),
        fields: TcpFields {
            src_port: 1000,
            dst_port: 80,
            seq,
            ack,
            flags,
            window: 60_000,
            urgent: 0,
            options: TcpOptions::default(),
        },
        payload: Vec::new(),
    }
}

impl Tcp {
    pub(super) fn v6(mut self) -> Self {
        (self.src, self.dst) = (PEER_IP6.into(), OUR_IP6.into());
        self
    }

    pub(super) fn data(mut self, bytes: &[u8]) -> Self {
        self.payload = bytes.to_vec();
        self
    }

    pub(super) fn ports(mut self, src: u16, dst: u16) -> Self {
        (self.fields.src_port, self.fields.dst_port) = (src, dst);
        self
    }

    pub(super) fn body(&self) -> Vec<u8> {
        let mut out = vec![0; self.fields.header_len()];
        wire::tcp::emit(&mut out, &self.fields);
        let len = out.len() + self.payload.len();
        let pseudo = checksum::pseudo(self.src, self.dst, wire::protocol::TCP, len).unwrap();
        let sum = checksum::finish(pseudo, &out, checksum::sum(&self.payload, 0));
        wire::tcp::set_checksum(&mut out, sum);
        out.extend(&self.payload);
        out
    }

    pub(super) fn frame(&self) -> Vec<u8> {
        ip_frame(self.src, self.dst, wire::protocol::TCP, &self.body())
    }
}

/// A TCP segment that was sent, checked as a receiver would.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) to: Mac,
    pub(super) tcp: TcpHeader,
    pub(super) payload: Vec<u8>,
}

/// The TCP segments among `frames`, with all their checksums right.
pub(super) fn tcp_of(frames: &[Vec<u8>]) -> Vec<Sent> {
    frames.iter().filter_map(|f| parse_sent(f)).collect()
}

pub(super) fn parse_sent(frame: &[u8]) -> Option<Sent> {
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
    let (tcp, _) = wire::tcp::parse(segment, len).expect("a sound TCP header");
    let pseudo = checksum::pseudo(src, dst, protocol, len).unwrap();
    assert!(checksum::verify(pseudo, [segment], len), "wrong TCP checksum in {tcp:?}");
    let payload = segment[tcp.header_len..].to_vec();
    Some(Sent { to: link.dst, tcp, payload })
}

pub(super) fn plain_offloads() -> Offloads {
    Offloads { multi_segment: true, ..Offloads::default() }
}
