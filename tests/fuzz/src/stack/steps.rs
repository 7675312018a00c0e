//! What a step of an input means.

use std::sync::Arc;

use core::net::SocketAddr;
use core::time::Duration;

use base::{Device, TcpFlags};
use stack::{Command, Local, StackParams};
use tcp::ConnOptions;
use tcp::params::CongestionAlgorithm;
use wire::icmpv4::Icmpv4Error;
use wire::icmpv6::Icmpv6Error;
use wire::{EtherType, Mac, arp, protocol};

use super::app::PORT;
use super::peer::{PEERS, Peer, Shape};
use super::world::{World, flags};
use crate::frames::{self, OUR_IP, OUR_IP6, OUR_MAC, PEER_IP, PEER_IP6, PEER_MAC};
use crate::input::Input;

/// The stack does not turn after this step.
const NO_TURN: u8 = 0x80;

/// The numbers from here on are those of single steps, at the end that the next byte says.
const RARE: u8 = 80;

/// Steps by number. The order is part of the corpora.
const DATA: u8 = 0;
const ACK_ALL: u8 = 1;
const ACK_SOME: u8 = 2;
const SACK: u8 = 3;
const SEGMENT: u8 = 4;
const SYN: u8 = 5;
const FIN: u8 = 6;
const RST: u8 = 7;
const TIME: u8 = 8;
const DEADLINES: u8 = 9;
const APP_SEND: u8 = 10;
const APP_RECV: u8 = 11;
const APP_CLOSE: u8 = 12;
const APP_CONNECT: u8 = 13;
const APP_OPTIONS: u8 = 14;
const ANSWER_SYN: u8 = 15;
const RAW: u8 = 16;
const MUTATE: u8 = 17;
const ICMP_ERROR: u8 = 18;
const FRAGMENT: u8 = 19;
const NEIGHBOR: u8 = 20;
const DEVICE: u8 = 21;
const COMMAND: u8 = 22;
const BEHAVE: u8 = 23;
const OUT_OF_ORDER: u8 = 24;
const OPEN: u8 = 25;
const OTHER: u8 = 26;
const STEPS: u8 = 27;

/// Lengths of payload: nothing, a byte, segments and their neighbours.
fn len(choice: u8) -> u32 {
    match choice {
        0..4 => u32::from(choice),
        4..128 => u32::from(choice) * 4,
        128..200 => 536,
        200..220 => 1220,
        220..240 => 1440,
        _ => u32::from(choice) * 5,
    }
}

/// Distances in sequence space: mostly small, some as far as they go.
fn distance(choice: u8) -> u32 {
    match choice {
        0..100 => 0,
        100..140 => u32::from(choice - 100),
        140..180 => u32::from(choice - 140) * 536,
        180..200 => u32::from(choice - 180) * 4096,
        200..220 => 1 << (choice - 200 + 12),
        220..240 => 0_u32.wrapping_sub(u32::from(choice - 219)),
        _ => 0_u32.wrapping_sub(u32::from(choice - 239) * 536),
    }
}

fn pause(choice: u8) -> Duration {
    match choice {
        0..32 => Duration::from_micros(u64::from(choice) * 50),
        32..128 => Duration::from_millis(u64::from(choice - 31)),
        128..224 => Duration::from_millis(u64::from(choice - 127) * 20),
        _ => Duration::from_secs(u64::from(choice - 223) * 4),
    }
}

fn options(input: &mut Input<'_>) -> ConnOptions {
    let choice = input.u8();
    ConnOptions {
        nodelay: choice & 1 != 0,
        rcvbuf: (choice & 2 != 0).then(|| u32::from(input.u8()) * 300),
        sndbuf: (choice & 4 != 0).then(|| u32::from(input.u8()) * 300),
        mss: (choice & 8 != 0).then(|| u16::from(input.u8()) * 8),
        congestion: (choice & 16 != 0).then_some(CongestionAlgorithm::Reno),
        keepalive: choice & 32 != 0,
        user_timeout: (choice & 64 != 0).then(|| Duration::from_millis(u64::from(input.u8()) * 50)),
        ..ConnOptions::default()
    }
}

impl World {
    pub(super) fn step(&mut self, step: u8, input: &mut Input<'_>) {
        match step & !NO_TURN {
            // Ten common steps at each of the ends.
            common @ 0..RARE => self.common(common % 10, usize::from(common / 10), input),
            rare => {
                let index = usize::from(input.u8()) % PEERS;
                self.rare((rare - RARE) % STEPS, index, input);
            }
        }
        if step & NO_TURN == 0 {
            self.settle();
            self.check_streams();
        }
    }

    /// The steps that carry a connection on, by their last digit.
    fn common(&mut self, digit: u8, index: usize, input: &mut Input<'_>) {
        let step = [
            DATA,
            ACK_ALL,
            ACK_SOME,
            SACK,
            BEHAVE,
            OUT_OF_ORDER,
            DEADLINES,
            APP_SEND,
            APP_RECV,
            TIME,
        ];
        self.rare(step[usize::from(digit)], index, input);
    }

    fn rare(&mut self, step: u8, index: usize, input: &mut Input<'_>) {
        match step {
            DATA => {
                let shape = self.peers[index].honest(len(input.u8()));
                self.send_segment(index, &shape);
            }
            ACK_ALL => {
                let shape = self.peers[index].honest(0);
                self.send_segment(index, &shape);
            }
            ACK_SOME => {
                let peer = &mut self.peers[index];
                let in_flight = peer.sent_to.wrapping_sub(peer.acked);
                let more = u32::from(input.u8()) * in_flight.min(1 << 20) / 255;
                peer.window = u16::from(input.u8()) << 6;
                let shape = Shape { ack: peer.acked.wrapping_add(more), ..peer.honest(0) };
                self.send_segment(index, &shape);
            }
            SACK => {
                let peer = &self.peers[index];
                let mut shape = Shape { ack: peer.acked, ..peer.honest(0) };
                for _ in 0..1 + input.u8() % 3 {
                    let left = peer.acked.wrapping_add(u32::from(input.u8()) * 134);
                    shape.sack.push((left, left.wrapping_add(u32::from(input.u8()) * 134)));
                }
                self.send_segment(index, &shape);
            }
            SEGMENT => {
                let peer = &self.peers[index];
                let shape = Shape {
                    flags: flags(input.u8()),
                    seq: peer.expected.wrapping_add(distance(input.u8())),
                    ack: peer.sent_to.wrapping_add(distance(input.u8())),
                    len: len(input.u8()),
                    window: input.u16(),
                    sack: Vec::new(),
                    urgent: 5,
                };
                self.send_segment(index, &shape);
            }
            SYN => self.syn(index, input),
            FIN | RST => {
                let seq = distance(input.u8());
                let peer = &self.peers[index];
                let flags = if step == FIN { TcpFlags::FIN | TcpFlags::ACK } else { TcpFlags::RST };
                let seq = peer.expected.wrapping_add(seq);
                let shape = Shape { flags, seq, ..peer.honest(0) };
                self.send_segment(index, &shape);
            }
            TIME => self.now += pause(input.u8()),
            DEADLINES => {
                let most = 1 + u32::from(input.u8() % 16);
                self.run_to(self.now + Duration::from_secs(120), most);
            }
            APP_SEND | APP_RECV | APP_CLOSE | APP_OPTIONS => self.application(step, input),
            APP_CONNECT => self.connect(index, input),
            ANSWER_SYN => {
                let choice = input.u8();
                let peer = &mut self.peers[index];
                peer.timestamps = choice & 1 != 0;
                let flags =
                    if choice & 2 != 0 { TcpFlags::SYN } else { TcpFlags::SYN | TcpFlags::ACK };
                let seq = Peer::isn(choice >> 2).wrapping_add(1);
                let shape = Shape { flags, seq, ..peer.honest(0) };
                peer.expected = seq;
                self.send_segment(index, &shape);
            }
            RAW => self.raw(input),
            MUTATE => {
                for _ in 0..1 + input.u8() % 3 {
                    let (place, value, fix) = (input.u8(), input.u8(), input.u8());
                    self.mutations.push((place.into(), value, fix & 1 == 0));
                }
            }
            ICMP_ERROR => self.icmp_error(index, input),
            FRAGMENT => self.fragment(input),
            NEIGHBOR => self.neighbor(input),
            DEVICE => self.device(input),
            COMMAND => self.command(input),
            BEHAVE => self.behave(index, input),
            OUT_OF_ORDER => {
                let (gap, len) = (u32::from(input.u8()) * 67, len(input.u8()));
                let honest = self.peers[index].honest(len);
                let shape = Shape { seq: honest.seq.wrapping_add(gap), ..honest };
                self.send_segment(index, &shape);
            }
            OPEN => self.open(index, input),
            OTHER => self.other(input),
            _ => {}
        }
    }

    fn syn(&mut self, index: usize, input: &mut Input<'_>) {
        let choice = input.u8();
        let peer = &mut self.peers[index];
        (peer.timestamps, peer.sack) = (choice & 1 != 0, choice & 2 == 0);
        let seq = Peer::isn(choice >> 2).wrapping_add(1);
        let shape = Shape {
            flags: TcpFlags::SYN,
            seq,
            len: if choice & 0x40 == 0 { 0 } else { 10 },
            ack: 0,
            ..peer.honest(0)
        };
        self.send_segment(index, &shape);
    }

    /// A whole handshake, from the peer.
    fn open(&mut self, index: usize, input: &mut Input<'_>) {
        self.peers[index].our_port = PORT;
        self.syn(index, input);
        self.settle();
        let shape = self.peers[index].honest(0);
        self.send_segment(index, &shape);
    }

    /// The peer takes what comes, acknowledges it and sends a little, for some rounds.
    fn behave(&mut self, index: usize, input: &mut Input<'_>) {
        let choice = input.u8();
        let len = len(input.u8());
        for _ in 0..1 + choice % 16 {
            self.settle();
            self.now += Duration::from_millis(u64::from(choice >> 4));
            let shape = self.peers[index].honest(len);
            self.send_segment(index, &shape);
        }
    }

    fn application(&mut self, step: u8, input: &mut Input<'_>) {
        let which = input.u8();
        let book = std::rc::Rc::clone(&self.book);
        let mut book = book.borrow_mut();
        let Some(conn) = book.nth(which) else { return };
        let io = self.stack.io();
        match step {
            APP_SEND => book.send(io, conn, u32::from(input.u8()) * 64 + u32::from(which & 1)),
            APP_RECV => {
                book.recv(io, conn, usize::from(input.u8()) * 32);
            }
            APP_OPTIONS => {
                let options = options(input);
                io.set_options(conn, &options);
            }
            _ => match input.u8() % 4 {
                0 => io.close(conn),
                1 => io.abort(conn),
                _ => io.shutdown(conn),
            },
        }
    }

    fn connect(&mut self, index: usize, input: &mut Input<'_>) {
        let choice = input.u8();
        let options = options(input);
        let peer = &mut self.peers[index];
        let (remote, own) = peer.addresses();
        let remote = SocketAddr::new(remote, peer.port);
        let local = Local {
            // Ours, the peer's, or whatever the route says.
            addr: match choice >> 3 & 7 {
                0 => Some(own),
                1 => Some(remote.ip()),
                _ => None,
            },
            port: (choice & 1 != 0).then_some(3000 + u16::from(choice >> 1 & 3)),
        };
        if let Ok(conn) = self.stack.io().connect(remote, local, &options) {
            self.book.borrow_mut().begin(conn);
        }
    }

    fn raw(&mut self, input: &mut Input<'_>) {
        let (choice, len) = (input.u8(), usize::from(input.u8()));
        let bytes = input.bytes(len);
        self.taint();
        let ethertype = match choice % 5 {
            0 => return self.deliver(bytes.to_vec()),
            1 => EtherType::IPV4,
            2 => EtherType::IPV6,
            3 => EtherType::ARP,
            _ => EtherType::VLAN,
        };
        self.deliver(frames::link(OUR_MAC, PEER_MAC, ethertype, bytes));
    }

    fn icmp_error(&mut self, index: usize, input: &mut Input<'_>) {
        let (kind, code, mtu, at) = (input.u8(), input.u8(), input.u16(), input.u8());
        let peer = &self.peers[index];
        let (theirs, ours) = peer.addresses();
        let fields = wire::TcpFields {
            src_port: peer.our_port,
            dst_port: peer.port,
            seq: peer.acked.wrapping_add(distance(at)),
            flags: TcpFlags::ACK,
            ..Default::default()
        };
        let segment = frames::segment(ours, theirs, &fields, b"");
        let packet = frames::packet(ours, theirs, protocol::TCP, &segment);
        let (proto, body) = if peer.v6 {
            let error = match kind % 3 {
                0 => Icmpv6Error::PacketTooBig(u32::from(mtu)),
                1 => Icmpv6Error::Unreachable(code),
                _ => Icmpv6Error::TimeExceeded(code),
            };
            (protocol::ICMPV6, frames::error6(error, &packet))
        } else {
            let error = match kind % 3 {
                0 => Icmpv4Error::FragmentationNeeded(mtu),
                1 => Icmpv4Error::Unreachable(code % 16),
                _ => Icmpv4Error::TimeExceeded(code),
            };
            (protocol::ICMP, frames::error4(error, &packet))
        };
        self.deliver(frames::frame(theirs, ours, proto, &body));
    }

    fn fragment(&mut self, input: &mut Input<'_>) {
        let (id, offset, len, more) = (input.u8() & 3, input.u8(), input.u8(), input.u8());
        let body = vec![1; usize::from(len) * 8];
        let packet = if id & 1 == 0 {
            let field = u16::from(offset) | if more & 1 == 0 { 0 } else { 0x2000 };
            frames::ipv4_packet(protocol::UDP, id.into(), field, &body)
        } else {
            let field = u16::from(offset) << 3 | u16::from(more & 1);
            let mut extension = vec![protocol::UDP, 0];
            extension.extend(field.to_be_bytes());
            extension.extend([0, 0, 0, id]);
            extension.extend(body);
            frames::packet_v6(PEER_IP6, OUR_IP6, 44, 64, &extension)
        };
        let ethertype = if id & 1 == 0 { EtherType::IPV4 } else { EtherType::IPV6 };
        self.deliver(frames::link(OUR_MAC, PEER_MAC, ethertype, &packet));
    }

    /// Questions and answers about hardware addresses, true and false ones.
    fn neighbor(&mut self, input: &mut Input<'_>) {
        let choice = input.u8();
        let mac = Mac([2, 0, 0, 0, 0, 2 + (choice >> 6)]);
        let frame = match choice & 3 {
            0 => frames::arp_request(PEER_IP, OUR_IP),
            1 => frames::solicitation(OUR_IP6),
            2 => {
                let asked = arp::ArpPacket::request(OUR_MAC, OUR_IP, PEER_IP);
                let mut body = vec![0; arp::LEN];
                asked.reply(mac).emit(&mut body);
                frames::link(OUR_MAC, mac, EtherType::ARP, &body)
            }
            _ => {
                let told = wire::ndp::Advertisement {
                    target: PEER_IP6,
                    target_mac: Some(mac),
                    router: false,
                    solicited: choice & 4 != 0,
                    override_entry: choice & 8 != 0,
                };
                let mut body = vec![0; wire::ndp::NEIGHBOR_LEN_MAX];
                told.emit(&mut body, PEER_IP6, OUR_IP6);
                let packet = frames::packet_v6(PEER_IP6, OUR_IP6, protocol::ICMPV6, 255, &body);
                frames::link(OUR_MAC, mac, EtherType::IPV6, &packet)
            }
        };
        self.deliver(frame);
    }

    /// The device is full, or others have its buffers.
    fn device(&mut self, input: &mut Input<'_>) {
        let choice = input.u8();
        if self.twin {
            return;
        }
        match choice % 3 {
            0 => self.held_turns = choice >> 2,
            1 => {
                for _ in 0..choice {
                    let Some(buffer) = self.stack.device_mut().payload_alloc() else { break };
                    self.hogged.push(buffer);
                }
            }
            _ => self.hogged.clear(),
        }
    }

    fn command(&mut self, input: &mut Input<'_>) {
        let choice = input.u8();
        let command = match choice % 5 {
            0 => Command::Age,
            1 => Command::RotateSecrets,
            2 => Command::Snapshot { connections: u32::from(choice) },
            3 => {
                self.generation += 1;
                let mut params = StackParams { generation: self.generation, ..Default::default() };
                params.tcp.sack = choice & 8 == 0;
                params.tcp.timestamps = choice & 16 == 0;
                params.tcp.window_scaling = choice & 32 == 0;
                params.gso_max = if choice & 64 == 0 { 65_535 } else { 1 };
                Command::SetParams(Arc::new(params))
            }
            _ if choice >= 250 => Command::Stop,
            _ => return,
        };
        let asked = matches!(command, Command::Snapshot { .. });
        let (_, snapshot) = self.turn_with(Some(command));
        assert_eq!(snapshot.is_some(), asked, "one answer to each question");
        if let Some(snapshot) = snapshot {
            let table = self.stack.table();
            assert!(snapshot.buffers.free <= snapshot.buffers.total);
            assert_eq!(snapshot.generation, self.generation);
            assert!(snapshot.connections.len() <= usize::from(choice));
            let ours = (table[0] + table[1]) as usize;
            assert!(ours >= self.book.borrow().streams.len(), "{table:?}");
        }
    }

    /// What is not TCP, and the listener.
    fn other(&mut self, input: &mut Input<'_>) {
        let (choice, size) = (input.u8(), usize::from(input.u8()) * 5);
        let (p4, o4, p6, o6) = (PEER_IP.into(), OUR_IP.into(), PEER_IP6.into(), OUR_IP6.into());
        match choice % 6 {
            0 => self.deliver(frames::frame(p4, o4, protocol::ICMP, &frames::echo(size))),
            1 => self.deliver(frames::frame(p6, o6, protocol::ICMPV6, &frames::echo6(size))),
            2 => self.deliver(frames::frame(p4, o4, protocol::UDP, &frames::datagram(size))),
            3 => self.deliver(frames::frame(p6, o6, protocol::UDP, &frames::datagram(size))),
            4 => self.deliver(frames::frame(p4, o4, choice, &vec![7; size])),
            _ => {
                let mut book = self.book.borrow_mut();
                match book.listener.take() {
                    Some(listener) => self.stack.io().close_listener(listener),
                    None => {
                        let options = options(input);
                        book.listener = self.stack.io().listen(None, PORT, 4, &options).ok();
                    }
                }
            }
        }
    }
}

/// The names of steps in [`seeds`], by number.
const NAMES: [&str; STEPS as usize] = [
    "data",
    "ack",
    "ack-some",
    "sack",
    "segment",
    "syn",
    "fin",
    "rst",
    "time",
    "deadlines",
    "send",
    "recv",
    "close",
    "connect",
    "options",
    "answer",
    "raw",
    "mutate",
    "error",
    "fragment",
    "neighbor",
    "device",
    "command",
    "behave",
    "gap",
    "open",
    "other",
];

/// The input that a line such as `8: open@1 1, +data@1 200` stands for: the world, then steps with
/// their end and what follows it. `+`: the stack does not turn.
fn from_line(line: &str) -> Vec<u8> {
    let (world, steps) = line.split_once(':').expect("a world");
    let mut bytes = vec![world.parse().expect("a number")];
    for step in steps.split(',').map(str::trim) {
        let (no_turn, step) = step.strip_prefix('+').map_or((0, step), |rest| (NO_TURN, rest));
        let mut words = step.split([' ', '@']);
        let name = words.next().unwrap_or_default();
        let number = NAMES.iter().position(|n| *n == name).unwrap_or_else(|| panic!("no {name}"));
        bytes.push(no_turn | (RARE + number as u8));
        bytes.extend(words.map(|word| word.parse::<u8>().expect("a number")));
    }
    bytes
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    [
        // The peer sends, the application answers, both close.
        "0: open@1 1, data@1 200, behave@1 36 100, ack@1, fin@1 0, behave@1 3 0",
        // The application sends much; losses are reported by SACK; a timeout.
        "8: open@1 1, send@0 0 250, behave@1 31 0, send@0 0 250, sack@1 1 8 40 60 100, deadlines@0 2, \
         sack@1 0 12 80, ack@1, behave@1 31 0, deadlines@0 9",
        // Out of order, then the gap is filled; the application reads slowly.
        "8: open@1 1, gap@1 8 200, gap@1 16 200, gap@1 24 30, data@1 200, data@1 200, recv@0 0 9, \
         recv@0 0 255",
        // A closed window, probes, an opening.
        "24: open@1 1, send@0 0 200, ack-some@1 255 0, deadlines@0 15, ack-some@1 255 1, \
         deadlines@0 5, ack-some@1 255 200, behave@1 4 0",
        // Resets and stray segments.
        "16: open@1 1, segment@1 110 0 0 0 0 0, data@1 9, rst@1 0, data@1 1",
        // Frames cut into buffers.
        "4: open@1 1, data@1 220, gap@1 30 200, +data@1 240, +data@1 7, fragment@0 0 0 2 1, \
         other@0 0 20, time@0 100",
        // Few buffers, a device that is full.
        "2: open@1 1, send@0 0 250, device@0 40, behave@1 5 100, device@0 1, data@1 200, device@0 2",
        // Small tables, several handshakes.
        "64: syn@0 0, syn@1 4, +syn@2 8, open@3 0, open@0 4, command@0 254",
        // Ours to open: nobody answers; an answer; a refusal; both call at once.
        "8: connect@4 0 0, time@0 200, deadlines@0 7",
        "8: connect@5 0 0, answer@5 0, send@0 0 100, ack@5, data@5 100, behave@5 20 100",
        "8: connect@6 0 0, segment@6 112 0 0 0 0 0",
        "8: connect@7 0 0, answer@7 2, answer@7 0, data@7 100",
        // Bytes as they are, mutations, errors.
        "1: open@1 1, mutate@0 1 47 18 0 60 1 0, data@1 99, raw@0 1 4 69 0 0 9",
        "0: open@1 1, send@0 0 99, error@1 0 0 5 120 0, neighbor@0 194, command@0 8, send@0 0 9",
        // Half closed, TIME-WAIT, a new SYN into it.
        "8: open@1 1, close@0 0 2, deadlines@0 3, fin@1 0, time@0 255, data@1 5",
        "8: open@1 1, close@0 0 2, ack@1, fin@1 0, time@0 140, syn@1 9, ack@1",
        // Options of all kinds, keep-alive.
        "0: open@1 1, options@0 0 127 10 10 60 20, data@1 99, time@0 240, deadlines@0 15, syn@1 0",
        // A listener that comes and goes.
        "0: open@0 0, +syn@2 0, other@0 5 0, ack@2, other@0 5 0 0, open@2 0",
    ]
    .into_iter()
    .map(from_line)
    .collect()
}
