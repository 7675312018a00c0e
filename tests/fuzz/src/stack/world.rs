//! The stack, its device, its clock, and what is checked around each turn.

use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;
use std::sync::Arc;

use core::time::Duration;

use base::mem::{MemConfig, MemDevice, MemFrame};
use base::{ConnId, Device, DropReason, Frame, Instant, SeededRandom, TcpFlags, WorkerId};
use sim::oracle::{is_suspect, stuck_connection};
use stack::{
    ChecksumPolicy, Command, Limits, LocalAddress, Outgoing, PortSetup, Snapshot, Stack,
    StackConfig, StackParams, Turn,
};

use super::app::{Book, Script};
use super::peer::{PEERS, Peer, Shape};
use super::watch::{Seen, Watch, check_frame};
use super::{QUIET_APP, SCALE_SHIFT, TIGHT, TINY, TRUST, TWIN};
use crate::frames::{self, OUR_IP, OUR_IP6, OUR_MAC, PEER_IP};

const MTU: u16 = 1500;
/// Turns without time moving, after which it is a livelock.
const TURNS_MAX: u32 = 10_000;

/// A change of the next frame: place, value, and whether checksums are put right afterwards.
pub(super) type Mutation = (u16, u8, bool);

pub(super) struct World {
    pub(super) stack: Stack<MemDevice>,
    pub(super) now: Instant,
    pub(super) book: Rc<RefCell<Book>>,
    pub(super) peers: [Peer; PEERS],
    watch: Watch,
    /// How frames are cut, if they are.
    cuts: Option<&'static [usize]>,
    /// The device keeps what was sent for so many more turns.
    pub(super) held_turns: u8,
    /// Buffers that somebody else has.
    pub(super) hogged: Vec<MemFrame>,
    pub(super) mutations: Vec<Mutation>,
    pub(super) generation: u64,
    pub(super) twin: bool,
    delivered: u64,
    frames_before: u64,
    full: (u32, usize),
    pub(super) next_deadline: Option<Instant>,
    log: String,
}

fn level(device: &MemDevice) -> (u32, usize) {
    (device.buffers().free, device.header_buffers_free())
}

fn config(trust: bool, tight: bool) -> StackConfig {
    let addresses = vec![
        LocalAddress { addr: OUR_IP.into(), prefix: 24 },
        LocalAddress { addr: OUR_IP6.into(), prefix: 64 },
    ];
    let limits = if tight {
        Limits {
            connections: 6,
            half_open: 3,
            time_wait: 2,
            neighbors: 8,
            listeners: 2,
            fragments: 4,
        }
    } else {
        Limits { connections: 64, half_open: 16, time_wait: 16, ..Limits::default() }
    };
    StackConfig {
        worker: WorkerId(0),
        workers: 1,
        ports: vec![PortSetup {
            addresses,
            gateway4: Some([10, 0, 0, 254].into()),
            gateway6: None,
            mtu: MTU,
            rx_checksum: if trust { ChecksumPolicy::Trust } else { ChecksumPolicy::Verify },
        }],
        limits,
        stop_limit: Duration::from_secs(5),
    }
}

impl World {
    pub(super) fn new(choice: u8, cuts: Option<&'static [usize]>) -> Self {
        let twin = choice & TWIN != 0;
        let (trust, tiny) = (choice & TRUST != 0, choice & TINY != 0 && !twin);
        // Cut frames take more buffers; what depends on them being scarce would differ.
        let buffers = match (tiny, twin) {
            (true, _) => 24,
            (_, true) => 4096,
            _ => 256,
        };
        let mem = MemConfig {
            mac: OUR_MAC.0,
            mtu: MTU,
            buffers,
            tx_ring: if tiny { 8 } else { 256 },
            ..MemConfig::default()
        };
        let device = MemDevice::detached(&mem);
        let full = level(&device);
        let book = Rc::new(RefCell::new(Book::new(choice & QUIET_APP == 0, trust)));
        let stack = Stack::new(
            config(trust, choice & TIGHT != 0),
            Arc::new(StackParams::default()),
            vec![device],
            SeededRandom::new(7),
            Box::new(Script(Rc::clone(&book))),
        );
        let scale = [Some(0), Some(3), None, Some(9)][usize::from(choice >> SCALE_SHIFT & 3)];
        let mut world = Self {
            stack,
            now: Instant::from_millis(1000),
            book,
            peers: core::array::from_fn(|index| Peer::new(index, scale)),
            watch: Watch::default(),
            cuts,
            held_turns: 0,
            hogged: Vec::new(),
            mutations: Vec::new(),
            generation: 0,
            twin,
            delivered: 0,
            frames_before: 0,
            full,
            next_deadline: None,
            log: String::new(),
        };
        world.turn();
        // Both sides know each other's hardware address.
        world.deliver(frames::arp_request(PEER_IP, OUR_IP));
        world.deliver(frames::solicitation(OUR_IP6));
        world.turn();
        world
    }

    /// From now on bytes may be others than the pattern.
    pub(super) fn taint(&mut self) {
        self.book.borrow_mut().tainted = true;
    }

    fn is_tainted(&self) -> bool {
        self.book.borrow().tainted
    }

    pub(super) fn now_ms(&self) -> u32 {
        self.now.as_millis() as u32
    }

    /// Let a frame arrive, changed by the mutations that wait.
    pub(super) fn deliver(&mut self, mut frame: Vec<u8>) {
        for (place, value, fix) in core::mem::take(&mut self.mutations) {
            self.taint();
            if let Some(byte) = frame.get_mut(usize::from(place) % 128) {
                *byte = value;
            }
            if fix {
                fix_checksums(&mut frame);
            }
        }
        // What does not fit one buffer could only come in several.
        if frame.len() > MemConfig::default().payload_room {
            return;
        }
        if let Some(seen) = Seen::of(&frame) {
            let scale = self.peers[0].scale;
            self.watch.on_arrived(&seen, scale);
        }
        let device = self.stack.device_mut();
        let taken = match self.cuts {
            None => device.deliver(&frame),
            Some(cuts) => {
                let chain = chain(device, &frame, cuts);
                chain.map(|chain| device.deliver_frame(chain)).is_some()
            }
        };
        self.delivered += u64::from(taken);
    }

    pub(super) fn send_segment(&mut self, index: usize, shape: &Shape) {
        let frame = self.peers[index].segment(shape, self.now_ms());
        self.deliver(frame);
        if shape.flags.ack() && !shape.flags.rst() {
            let peer = &mut self.peers[index];
            if (shape.ack.wrapping_sub(peer.acked) as i32) > 0
                && (shape.ack.wrapping_sub(peer.sent_to) as i32) <= 0
            {
                peer.acked = shape.ack;
            }
        }
    }

    /// Turn until the stack rests, without time moving.
    pub(super) fn settle(&mut self) {
        let mut turns = 0;
        while self.turn().pending && self.held_turns == 0 {
            turns += 1;
            assert!(turns < TURNS_MAX, "the stack does not come to rest");
        }
    }

    pub(super) fn turn(&mut self) -> Turn {
        self.turn_with(None).0
    }

    pub(super) fn turn_with(&mut self, command: Option<Command>) -> (Turn, Option<Box<Snapshot>>) {
        let mut snapshot = None;
        let mut applied = None;
        let turn = self.stack.turn(self.now, &mut command.into_iter(), &mut |out| {
            match out {
                Outgoing::Snapshot(s) => snapshot = Some(s),
                Outgoing::ParamsApplied(generation) => applied = Some(generation),
                _ => {}
            }
            Ok(())
        });
        if let Some(applied) = applied {
            assert_eq!(applied, self.generation, "another generation");
        }
        self.next_deadline = turn.next_deadline;
        if self.held_turns > 0 {
            self.held_turns -= 1;
        } else {
            self.take_sent();
        }
        self.check_timers(&turn);
        (turn, snapshot)
    }

    fn check_timers(&mut self, turn: &Turn) {
        if !is_suspect(turn, self.stack.table()) {
            return;
        }
        let mut snapshot = None;
        let command = Command::Snapshot { connections: 100 };
        let again = self.stack.turn(self.now, &mut core::iter::once(command), &mut |out| {
            if let Outgoing::Snapshot(s) = out {
                snapshot = Some(s);
            }
            Ok(())
        });
        self.next_deadline = again.next_deadline;
        if is_suspect(&again, self.stack.table()) {
            let stuck = snapshot.and_then(|s| stuck_connection(&s));
            assert_eq!(stuck, None, "has work, but no deadline");
        }
    }

    /// Look at what was sent; each end at the peer learns from it.
    fn take_sent(&mut self) {
        while let Some(frame) = self.stack.device_mut().take_sent() {
            let frame = frame.to_vec();
            check_frame(&frame, MTU.into());
            self.note(&frame);
            let Some(seen) = Seen::of(&frame) else { continue };
            let tainted = self.is_tainted();
            let peer =
                self.peers.iter_mut().find(|p| p.v6 == seen.v6 && p.port == seen.header.dst_port);
            let scale = peer.as_ref().and_then(|p| p.scale);
            self.watch.on_sent(&seen, scale, tainted);
            if let Some(peer) = peer {
                learn(peer, &seen);
            }
        }
    }

    /// For the comparison of two runs: a hash of each frame would do, but says nothing.
    fn note(&mut self, frame: &[u8]) {
        if self.twin {
            let line = wire::pretty::PrettyFrame(frame);
            let _ = writeln!(self.log, "{} {line}", self.now.as_millis());
        }
    }

    /// Let time pass from deadline to deadline, `most` of them.
    pub(super) fn run_to(&mut self, end: Instant, most: u32) {
        for _ in 0..most {
            self.settle();
            match self.next_deadline.filter(|at| *at <= end) {
                Some(at) => self.now = self.now.max(at) + Duration::from_nanos(1),
                None => {
                    self.now = self.now.max(end);
                    break;
                }
            }
        }
        self.settle();
    }

    /// What must hold of each connection between two turns.
    pub(super) fn check_streams(&mut self) {
        let conns: Vec<ConnId> = self.book.borrow().streams.keys().copied().collect();
        for conn in conns {
            let Some(info) = self.stack.io().info(conn) else { continue };
            assert!(info.snd_cwnd > 0 && info.snd_mss > 0, "{info:?}");
            assert!(info.sacked + info.lost <= info.unacked, "{info:?}");
            assert!(info.retrans <= info.unacked, "{info:?}");
            assert!(info.rto >= Duration::from_millis(1), "{info:?}");
            assert!(info.bytes_retrans <= info.bytes_sent, "{info:?}");
        }
    }

    /// Everybody falls silent; in the end nothing is left.
    pub(super) fn wind_down(mut self) -> String {
        self.held_turns = 0;
        self.hogged.clear();
        self.take_sent();
        self.check_streams();
        self.run_to(self.now + Duration::from_secs(70), 100_000);
        self.turn_with(Some(Command::Stop));
        self.run_to(self.now + Duration::from_secs(130), 100_000);
        self.take_sent();
        assert_eq!(self.stack.table(), [0, 0, 0], "tables are not empty");
        assert!(self.book.borrow().streams.is_empty(), "{:?} never ended", self.book.borrow());
        assert!(self.stack.holds_no_buffers(), "the stack holds buffers");
        assert_eq!(level(self.stack.device()), self.full, "buffers are missing");
        let received = self.stack.counters().frames_rx - self.frames_before;
        assert_eq!(received, self.delivered, "frames received and frames delivered");
        for (reason, count) in DropReason::ALL.iter().zip(self.stack.drops()) {
            let _ = write!(self.log, "{} {count} ", reason.name());
        }
        let _ = write!(self.log, "{:?}", self.stack.tcp_counters());
        self.log
    }
}

fn learn(peer: &mut Peer, seen: &Seen<'_>) {
    let (header, flags) = (&seen.header, seen.header.flags);
    if flags.rst() {
        return;
    }
    if flags.syn() && peer.iss != Some(header.seq) {
        peer.iss = Some(header.seq);
        peer.our_port = header.src_port;
        peer.sent_to = seen.end();
        peer.acked = header.seq;
    }
    if (seen.end().wrapping_sub(peer.sent_to) as i32) > 0 {
        peer.sent_to = seen.end();
    }
    if flags.ack() {
        peer.expected = header.ack;
    }
    if let Some((value, _)) = seen.options.timestamps {
        peer.ts_echo = value;
    }
}

fn chain(device: &mut MemDevice, frame: &[u8], cuts: &[usize]) -> Option<MemFrame> {
    let mut rest = frame;
    let mut chain: Option<MemFrame> = None;
    let mut cuts = cuts.iter().copied();
    while !rest.is_empty() || chain.is_none() {
        let (part, later) = rest.split_at(cuts.next().unwrap_or(rest.len()).min(rest.len()));
        let mut buffer = device.payload_alloc()?;
        buffer.push_back(part.len())?.copy_from_slice(part);
        match &mut chain {
            Some(chain) => chain.chain(buffer),
            None => chain = Some(buffer),
        }
        rest = later;
    }
    chain
}

/// Put right what a mutation has broken, so that it gets further.
fn fix_checksums(frame: &mut [u8]) {
    let Ok(link) = wire::ethernet::parse(frame) else { return };
    let packet = &mut frame[link.len..];
    let (src, dst, proto, at, len) = match link.ethertype {
        wire::EtherType::IPV4 => {
            let header_len = usize::from(packet.first().map_or(0, |b| b & 15)) * 4;
            let Some(header) = packet.get_mut(..header_len).filter(|h| h.len() >= 20) else {
                return;
            };
            header[10..12].copy_from_slice(&[0, 0]);
            let sum = wire::checksum::of(header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            let Ok(h) = wire::ipv4::parse(packet, packet.len(), true) else { return };
            (h.src.into(), h.dst.into(), h.protocol, h.header_len, h.payload_len())
        }
        wire::EtherType::IPV6 => {
            let Ok(h) = wire::ipv6::parse(packet, packet.len()) else { return };
            (h.src.into(), h.dst.into(), h.protocol, h.transport_offset, h.transport_len)
        }
        _ => return,
    };
    if proto == wire::protocol::TCP
        && let Some(segment) = packet.get_mut(at..at + len).filter(|s| s.len() >= 20)
    {
        frames::put_tcp_checksum(src, dst, segment);
    }
}

/// The flags of a segment by a byte: mostly those that matter.
pub(super) fn flags(choice: u8) -> TcpFlags {
    match choice {
        0..64 => TcpFlags::ACK,
        64..80 => TcpFlags::ACK | TcpFlags::PSH,
        80..104 => TcpFlags::ACK | TcpFlags::FIN,
        104..112 => TcpFlags::RST,
        112..120 => TcpFlags::RST | TcpFlags::ACK,
        120..132 => TcpFlags::SYN,
        132..144 => TcpFlags::SYN | TcpFlags::ACK,
        144..152 => TcpFlags::ACK | TcpFlags::URG,
        _ => TcpFlags::from_bits(u16::from(choice) * 3),
    }
}
