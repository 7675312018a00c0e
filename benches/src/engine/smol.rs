//! A pair of smoltcp's, over the same frames.

use std::collections::VecDeque;
use std::time::Instant;

use base::{Device, Frame, RxBatch};
use smoltcp::iface::{
    Config, Interface, PollIngressSingleResult, PollResult, SocketHandle, SocketSet,
};
use smoltcp::phy::{self, ChecksumCapabilities, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Instant as Timestamp;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};

use super::{Pair, REQUEST_BYTES, Setup, WRITE_BYTES};

const PORT: u16 = 7;
/// Frames collected before they are given to the device; the rest follows at the end of a turn.
const TX_BURST: usize = 32;

/// See [`Pair`].
pub struct Smoltcp<D: Device> {
    sides: [Side<D>; 2],
    begun: Instant,
    rr: bool,
    moved: u64,
    complaint: Option<String>,
    /// The client waits for a response.
    waiting: bool,
}

struct Side<D: Device> {
    interface: Interface,
    wire: Wire<D>,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    buffer: Vec<u8>,
}

impl<D: Device> Side<D> {
    fn new(number: u8, setup: &Setup, device: D) -> Self {
        let mut wire = Wire::new(device, setup);
        let config = Config::new(EthernetAddress(Setup::mac(number)).into());
        let mut interface = Interface::new(config, &mut wire, Timestamp::ZERO);
        interface.update_ip_addrs(|addrs| {
            // There is room for two.
            let _ = addrs.push(IpCidr::new(address(number), 24));
        });
        let buffer = || SocketBuffer::new(vec![0; setup.buffer as usize]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(!setup.rr);
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let handle = sockets.add(socket);
        let buffer = vec![0x42; if setup.rr { REQUEST_BYTES } else { WRITE_BYTES }];
        Self { interface, wire, sockets, handle, buffer }
    }

    fn socket(&mut self) -> (&mut Socket<'static>, &mut [u8]) {
        (self.sockets.get_mut(self.handle), &mut self.buffer)
    }

    /// Receive burst and input.
    fn input(&mut self, now: Timestamp) {
        let Self { interface, wire, sockets, .. } = self;
        interface.poll_maintenance(now);
        while interface.poll_ingress_single(now, wire, sockets) != PollIngressSingleResult::None {}
    }

    /// Output and transmit burst.
    fn output(&mut self, now: Timestamp) {
        let Self { interface, wire, sockets, .. } = self;
        while interface.poll_egress(now, wire, sockets) != PollResult::None {}
        wire.flush();
    }
}

fn address(side: u8) -> IpAddress {
    IpAddress::v4(10, 0, 0, side + 1)
}

impl<D: Device> Smoltcp<D> {
    /// A pair over two devices of which each receives what the other sends.
    pub fn new(setup: &Setup, a: D, b: D) -> Self {
        let mut sides = [Side::new(0, setup, a), Side::new(1, setup, b)];
        let mut complaint = None;
        let (server, _) = sides[1].socket();
        if let Err(e) = server.listen(PORT) {
            complaint = Some(format!("cannot listen: {e}"));
        }
        let Side { interface, sockets, handle, .. } = &mut sides[0];
        let client = sockets.get_mut::<Socket<'_>>(*handle);
        if let Err(e) = client.connect(interface.context(), (address(1), PORT), 49_152) {
            complaint = Some(format!("cannot connect: {e}"));
        }
        Self { sides, begun: Instant::now(), rr: setup.rr, moved: 0, complaint, waiting: false }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.begun.elapsed().as_micros() as i64)
    }

    fn complain(&mut self, what: &str) {
        self.complaint.get_or_insert_with(|| what.to_owned());
    }

    fn serve(&mut self) {
        let (socket, buffer) = self.sides[1].socket();
        let mut taken = 0;
        while socket.can_recv() {
            let Ok(n) = socket.recv_slice(buffer) else { break };
            taken += n;
        }
        self.moved += taken as u64;
        if self.rr && taken > 0 {
            let sent = socket.send_slice(buffer);
            if taken != REQUEST_BYTES || sent != Ok(REQUEST_BYTES) {
                self.complain("a request in pieces");
            }
        }
    }

    fn load(&mut self) {
        let (rr, waiting) = (self.rr, self.waiting);
        let (socket, buffer) = self.sides[0].socket();
        if !rr {
            while socket.can_send() {
                match socket.send_slice(buffer) {
                    Ok(n) if n == buffer.len() => {}
                    _ => break,
                }
            }
            return;
        }
        if waiting {
            if !socket.can_recv() {
                return;
            }
            if socket.recv_slice(buffer) != Ok(REQUEST_BYTES) {
                self.complain("a response in pieces");
                return;
            }
        } else if !socket.can_send() {
            return;
        }
        if socket.send_slice(buffer) != Ok(REQUEST_BYTES) {
            self.complain("cannot send a request");
        }
        self.waiting = true;
    }
}

impl<D: Device> Pair for Smoltcp<D> {
    fn round(&mut self) {
        let now = self.now();
        self.sides[1].input(now);
        self.serve();
        self.sides[1].output(now);
        let now = self.now();
        self.sides[0].input(now);
        self.load();
        self.sides[0].output(now);
    }

    fn moved(&self) -> u64 {
        self.moved
    }

    fn complaint(&self) -> Option<String> {
        let lost: u64 = self.sides.iter().map(|s| s.wire.lost).sum();
        let lost = (lost > 0).then(|| format!("no buffer for {lost} frames"));
        self.complaint.clone().or(lost)
    }
}

/// A device of ours behind smoltcp's interface to one: the same frames, one buffer each, in bursts.
struct Wire<D: Device> {
    device: D,
    capabilities: DeviceCapabilities,
    header_room: usize,
    /// Oldest last.
    rx: RxBatch<D::Frame>,
    tx: VecDeque<D::Frame>,
    /// Frames for which the pool had no buffer.
    lost: u64,
}

impl<D: Device> Wire<D> {
    fn new(device: D, setup: &Setup) -> Self {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = usize::from(setup.mtu) + 14;
        capabilities.checksum = if setup.checksums {
            ChecksumCapabilities::default()
        } else {
            ChecksumCapabilities::ignored()
        };
        let header_room = device.capabilities().header_room as usize;
        Self {
            device,
            capabilities,
            header_room,
            rx: RxBatch::new(),
            tx: VecDeque::with_capacity(1024),
            lost: 0,
        }
    }

    fn flush(&mut self) {
        if !self.tx.is_empty() {
            self.device.tx_burst(&mut self.tx);
        }
    }
}

struct Received<F>(F);

impl<F: Frame> phy::RxToken for Received<F> {
    fn consume<R, G: FnOnce(&[u8]) -> R>(self, f: G) -> R {
        f(self.0.head())
    }
}

/// Takes its buffer only when it is used: smoltcp asks for one with each received frame.
struct Sending<'a, D: Device> {
    device: &'a mut D,
    tx: &'a mut VecDeque<D::Frame>,
    lost: &'a mut u64,
    header_room: usize,
}

impl<D: Device> phy::TxToken for Sending<'_, D> {
    fn consume<R, G: FnOnce(&mut [u8]) -> R>(self, len: usize, f: G) -> R {
        let Self { device, tx, lost, header_room } = self;
        let frame = if len <= header_room { device.alloc() } else { device.payload_alloc() };
        if let Some(mut frame) = frame
            && let Some(room) = frame.push_back(len)
        {
            let result = f(room);
            tx.push_back(frame);
            if tx.len() >= TX_BURST {
                device.tx_burst(tx);
            }
            return result;
        }
        *lost += 1;
        f(&mut vec![0; len])
    }
}

impl<D: Device> phy::Device for Wire<D> {
    type RxToken<'a>
        = Received<D::Frame>
    where
        D: 'a;
    type TxToken<'a>
        = Sending<'a, D>
    where
        D: 'a;

    fn receive(&mut self, now: Timestamp) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        if self.rx.is_empty() {
            self.device.rx_burst(&mut self.rx);
            self.rx.reverse();
        }
        let frame = self.rx.pop()?;
        Some((Received(frame), self.transmit(now)?))
    }

    fn transmit(&mut self, _: Timestamp) -> Option<Self::TxToken<'_>> {
        let Self { device, header_room, tx, lost, .. } = self;
        Some(Sending { device, tx, lost, header_room: *header_room })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        self.capabilities.clone()
    }
}
