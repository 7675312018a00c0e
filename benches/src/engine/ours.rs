//! A pair of ours.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::{ConnId, Device, SeededRandom, WorkerId};
use stack::{
    App, AppEvent, ChecksumPolicy, Io, Limits, LocalAddress, PortSetup, Stack, StackConfig,
    StackParams,
};
use tcp::ConnOptions;

use super::{Pair, REQUEST_BYTES, Setup, WRITE_BYTES};

const PORT: u16 = 7;

#[derive(Default)]
struct Seen {
    moved: u64,
    complaint: Option<String>,
}

/// See [`Pair`].
pub struct Ours<D: Device> {
    stacks: [Stack<D>; 2],
    begun: Instant,
    seen: Rc<RefCell<Seen>>,
}

impl<D: Device> Ours<D> {
    /// A pair over two devices of which each receives what the other sends.
    pub fn new(setup: &Setup, a: D, b: D) -> Self {
        let seen = Rc::<RefCell<Seen>>::default();
        let mut params = StackParams::default();
        // Segments without options, as smoltcp sends them: 1460 bytes at 1500.
        params.tcp.timestamps = false;
        let params = Arc::new(params);
        let side = |number: u8, device| {
            let app = Load {
                connect: (number == 0).then(|| SocketAddr::new(address(1), PORT)),
                rr: setup.rr,
                mss: setup.mss(),
                options: ConnOptions {
                    nodelay: setup.rr,
                    // The window is what is asked for; the send buffer is doubled for overhead that
                    // is not charged.
                    rcvbuf: Some(setup.buffer),
                    sndbuf: Some(setup.buffer / 2),
                    ..ConnOptions::default()
                },
                buffer: vec![0x42; if setup.rr { REQUEST_BYTES } else { WRITE_BYTES }],
                seen: Rc::clone(&seen),
            };
            let config = config(number, setup);
            let random = SeededRandom::new(u64::from(number) + 1);
            Stack::new(config, Arc::clone(&params), vec![device], random, Box::new(app))
        };
        let stacks = [side(0, a), side(1, b)];
        Self { stacks, begun: Instant::now(), seen }
    }
}

fn address(side: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, side + 1).into()
}

fn config(side: u8, setup: &Setup) -> StackConfig {
    StackConfig {
        worker: WorkerId(0),
        workers: 1,
        ports: vec![PortSetup {
            addresses: vec![LocalAddress { addr: address(side), prefix: 24 }],
            gateway4: None,
            gateway6: None,
            mtu: setup.mtu,
            rx_checksum: if setup.checksums {
                ChecksumPolicy::Verify
            } else {
                ChecksumPolicy::Trust
            },
        }],
        limits: Limits { connections: 16, time_wait: 16, ..Limits::default() },
        stop_limit: Duration::from_secs(1),
    }
}

impl<D: Device> Pair for Ours<D> {
    fn round(&mut self) {
        // The server first, so that it listens before the first SYN.
        for stack in self.stacks.iter_mut().rev() {
            let now = base::Instant::from_nanos(self.begun.elapsed().as_nanos() as u64 + 1);
            stack.turn(now, &mut std::iter::empty(), &mut |_| Ok(()));
        }
    }

    fn moved(&self) -> u64 {
        self.seen.borrow().moved
    }

    fn complaint(&self) -> Option<String> {
        self.seen.borrow().complaint.clone()
    }
}

struct Load {
    /// For the client.
    connect: Option<SocketAddr>,
    rr: bool,
    mss: u32,
    options: ConnOptions,
    /// What is written from, or copied into.
    buffer: Vec<u8>,
    seen: Rc<RefCell<Seen>>,
}

impl Load {
    fn complain(&self, what: String) {
        self.seen.borrow_mut().complaint.get_or_insert(what);
    }

    fn fill(&self, io: &mut dyn Io, conn: ConnId) {
        while let Ok(taken) = io.send(conn, &self.buffer, false) {
            if taken < self.buffer.len() {
                return;
            }
        }
    }

    fn request(&self, io: &mut dyn Io, conn: ConnId) {
        let sent = io.send(conn, &self.buffer, false);
        if sent != Ok(self.buffer.len()) {
            self.complain(format!("cannot send {} bytes: {sent:?}", self.buffer.len()));
        }
    }

    /// Copy out what there is, and return how much it was.
    fn take(&mut self, io: &mut dyn Io, conn: ConnId) -> usize {
        let (buffer, mut at, mut taken) = (&mut self.buffer, 0, 0);
        io.recv(conn, &mut |bytes| {
            let mut left = bytes;
            while !left.is_empty() {
                let n = left.len().min(buffer.len() - at);
                buffer[at..at + n].copy_from_slice(&left[..n]);
                left = &left[n..];
                at = (at + n) % buffer.len();
            }
            taken += bytes.len();
            bytes.len()
        });
        taken
    }

    fn check_mss(&self, io: &dyn Io, conn: ConnId) {
        let mss = io.info(conn).map_or(0, |info| info.snd_mss);
        if u64::from(mss) != u64::from(self.mss) {
            self.complain(format!("segments of {mss} bytes instead of {}", self.mss));
        }
    }
}

impl App for Load {
    fn on_event(&mut self, io: &mut dyn Io, event: AppEvent) {
        match event {
            AppEvent::Start => {
                let done = match self.connect {
                    Some(remote) => {
                        io.connect(remote, stack::Local::ANY, &self.options).map(drop).is_ok()
                    }
                    None => io.listen(None, PORT, 4, &self.options).is_ok(),
                };
                if !done {
                    self.complain("cannot connect or listen".to_owned());
                }
            }
            AppEvent::Connected { conn } => {
                self.check_mss(io, conn);
                if self.rr {
                    self.request(io, conn);
                } else {
                    self.fill(io, conn);
                }
            }
            AppEvent::Writable { conn } => self.fill(io, conn),
            AppEvent::Readable { conn } => {
                let taken = self.take(io, conn);
                if self.connect.is_none() {
                    self.seen.borrow_mut().moved += taken as u64;
                }
                if self.rr {
                    if taken != REQUEST_BYTES {
                        self.complain(format!("{taken} bytes instead of {REQUEST_BYTES}"));
                    }
                    self.request(io, conn);
                }
            }
            AppEvent::Closed { reason, .. } => self.complain(format!("closed: {reason:?}")),
            AppEvent::Accepted { .. }
            | AppEvent::PeerClosed { .. }
            | AppEvent::Timer { .. }
            | AppEvent::Message { .. }
            | AppEvent::Stop => {}
        }
    }
}
