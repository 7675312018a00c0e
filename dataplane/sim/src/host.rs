//! A host: the stack that workers run, on a device of the heap.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::VecDeque;
use std::sync::Arc;

use base::mem::{MemConfig, MemDevice, MemFrame};
use base::{
    Buffers, Device, Frame, Instant, Offloads, PORTS_MAX, PortId, RX_BURST_FRAMES, SeededRandom,
    WorkerId,
};
use config::{Knobs, Profile};
use stack::{
    App, ChecksumPolicy, Command, Limits, LocalAddress, Message, Outgoing, PortSetup, Snapshot,
    Stack, StackConfig, StackParams, Turn,
};

use crate::nic;
use crate::sabotage::{Sabotage, Saboteur};

/// Frames that wait for a host's turn; more are dropped as a card with a full ring would.
pub const RX_RING_FRAMES: usize = 1024;
/// Published messages kept until somebody takes them; more are given back to the application.
pub const PUBLISHED_MAX: usize = 65_536;

/// A card of a host beside its first.
#[derive(Clone, Debug)]
pub struct CardConfig {
    /// At least one.
    pub addresses: Vec<LocalAddress>,
    /// Largest IP packet in bytes.
    pub mtu: u16,
    /// Next hop for everything else, over IPv4.
    pub gateway4: Option<Ipv4Addr>,
    /// The same over IPv6.
    pub gateway6: Option<Ipv6Addr>,
}

/// What a host is made of.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// For traces.
    pub name: String,
    /// Empty: `10.0.0.n/24` and `fd00::n/64`, counting hosts from 1.
    pub addresses: Vec<LocalAddress>,
    /// Largest IP packet in bytes.
    pub mtu: u16,
    /// Next hop for everything else, over IPv4.
    pub gateway4: Option<Ipv4Addr>,
    /// The same over IPv6.
    pub gateway6: Option<Ipv6Addr>,
    /// Cards beside the first, with at most [`PORTS_MAX`] in all; links are plugged in in their order.
    pub more_cards: Vec<CardConfig>,
    /// Buffers of the pool for payload and received frames.
    pub buffers: usize,
    /// Descriptors of the transmit ring.
    pub tx_ring: u16,
    /// Claimed by the device and carried out by [`nic`].
    pub offloads: Offloads,
    /// Knobs.
    pub params: StackParams,
    /// Bounds of tables.
    pub limits: Limits,
    /// A deliberate fault, for tests of the oracles.
    pub sabotage: Option<Sabotage>,
}

impl HostConfig {
    /// A host of this name and profile, without offloads.
    pub fn new(name: &str, profile: Profile) -> Self {
        Self {
            name: name.to_owned(),
            addresses: Vec::new(),
            mtu: 1500,
            gateway4: None,
            gateway6: None,
            more_cards: Vec::new(),
            buffers: 4096,
            tx_ring: 512,
            offloads: Offloads { multi_segment: true, ..Offloads::default() },
            params: Knobs::new(profile).to_params(0),
            limits: Limits::default(),
            sabotage: None,
        }
    }
}

/// A host in a world.
pub struct Host {
    name: String,
    /// Of all cards.
    addresses: Vec<LocalAddress>,
    card_addresses: Vec<Vec<LocalAddress>>,
    /// Of its cards.
    macs: Vec<[u8; 6]>,
    stack: Stack<MemDevice>,
    offloads: Offloads,
    /// Frames from the wire that the stack has not been given, with the card that they came to.
    inbox: VecDeque<(PortId, Vec<u8>)>,
    commands: VecDeque<Command>,
    published: VecDeque<Message>,
    snapshot: Option<Box<Snapshot>>,
    exit: Option<u8>,
    checksum_trap: bool,
    stopped: bool,
    header_buffers: usize,
    /// Frames that found the ring or the pool empty-handed.
    rx_missed: u64,
    saboteur: Option<Saboteur>,
    /// What it has kept.
    kept: Vec<MemFrame>,
    turns: u64,
    last_turn: Turn,
    /// Has something to do now.
    pub(crate) runnable: bool,
    /// The event in the heap that counts; earlier ones are stale.
    pub(crate) wake_at: Option<Instant>,
    /// Does not run until then.
    pub(crate) stalled_until: Instant,
}

impl Host {
    /// Room for the largest frame: Ethernet header and two VLAN tags.
    const FRAME_OVERHEAD: usize = 22;

    pub(crate) fn new(config: HostConfig, number: u8, seed: u64, app: Box<dyn App>) -> Self {
        let addresses = if config.addresses.is_empty() {
            vec![
                LocalAddress { addr: [10, 0, 0, number].into(), prefix: 24 },
                LocalAddress {
                    addr: [0xfd00, 0, 0, 0, 0, 0, 0, u16::from(number)].into(),
                    prefix: 64,
                },
            ]
        } else {
            config.addresses
        };
        let (mtu, gateway4, gateway6) = (config.mtu, config.gateway4, config.gateway6);
        let first = CardConfig { addresses, mtu, gateway4, gateway6 };
        let cards: Vec<CardConfig> =
            core::iter::once(first).chain(config.more_cards).take(PORTS_MAX).collect();
        let macs: Vec<[u8; 6]> =
            (0..cards.len() as u8).map(|card| [2, 0, 0, 0, card, number]).collect();
        let largest = cards.iter().map(|card| card.mtu).max().unwrap_or(config.mtu);
        let mut devices: Vec<MemDevice> = Vec::new();
        for (card, mac) in cards.iter().zip(&macs) {
            let device = MemDevice::detached(&MemConfig {
                mac: *mac,
                mtu: card.mtu,
                offloads: config.offloads,
                // The first card's buffers are those of all, as on a worker.
                buffers: if devices.is_empty() { config.buffers } else { 0 },
                payload_room: (usize::from(largest) + Self::FRAME_OVERHEAD).max(2048),
                tx_ring: config.tx_ring,
            });
            let device = match devices.first() {
                Some(first) => device.sharing_buffers_of(first),
                None => device,
            };
            devices.push(device);
        }
        let header_buffers = devices.first().map_or(0, MemDevice::header_buffers_free);
        let card_addresses: Vec<_> = cards.iter().map(|card| card.addresses.clone()).collect();
        let addresses = card_addresses.concat();
        let setup = |card: CardConfig| PortSetup {
            addresses: card.addresses,
            gateway4: card.gateway4,
            gateway6: card.gateway6,
            mtu: card.mtu,
            rx_checksum: ChecksumPolicy::Verify,
        };
        let stack_config = StackConfig {
            worker: WorkerId(0),
            workers: 1,
            ports: cards.into_iter().map(setup).collect(),
            limits: config.limits,
            stop_limit: core::time::Duration::from_secs(2),
        };
        let params = Arc::new(config.params);
        let random = SeededRandom::new(seed);
        Self {
            name: config.name,
            addresses,
            card_addresses,
            macs,
            stack: Stack::new(stack_config, params, devices, random, app),
            offloads: config.offloads,
            inbox: VecDeque::new(),
            commands: VecDeque::new(),
            published: VecDeque::new(),
            snapshot: None,
            exit: None,
            checksum_trap: false,
            stopped: false,
            header_buffers,
            rx_missed: 0,
            saboteur: config.sabotage.map(Saboteur::new),
            kept: Vec::new(),
            turns: 0,
            last_turn: Turn::default(),
            runnable: true,
            wake_at: None,
            stalled_until: Instant::ZERO,
        }
    }

    /// For traces.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its addresses.
    pub fn addresses(&self) -> &[LocalAddress] {
        &self.addresses
    }

    /// The hardware address of its first card.
    pub fn mac(&self) -> [u8; 6] {
        self.macs.first().copied().unwrap_or_default()
    }

    /// The addresses of one of its cards.
    pub(crate) fn card_addresses(&self, card: usize) -> Vec<IpAddr> {
        let addresses = self.card_addresses.get(card).cloned().unwrap_or_default();
        addresses.into_iter().map(|a| a.addr).collect()
    }

    /// The hardware addresses of its cards.
    pub fn macs(&self) -> &[[u8; 6]] {
        &self.macs
    }

    /// The stack, for counters, tables and drops.
    pub fn stack(&self) -> &Stack<MemDevice> {
        &self.stack
    }

    /// The stack, for whoever plays the application between two turns.
    pub fn stack_mut(&mut self) -> &mut Stack<MemDevice> {
        &mut self.stack
    }

    /// The exit code, once the application has asked for the end.
    pub fn exit(&self) -> Option<u8> {
        self.exit
    }

    /// The orderly stop is complete.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// The stack believes that its peers leave checksums to hardware.
    pub fn checksum_trap(&self) -> bool {
        self.checksum_trap
    }

    /// Frames dropped by the card for want of a descriptor or a buffer.
    pub fn rx_missed(&self) -> u64 {
        self.rx_missed
    }

    /// Turns so far.
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// Take what was published of type `T`, oldest first; everything else is discarded.
    pub fn take_published<T: 'static>(&mut self) -> Vec<T> {
        self.published.drain(..).filter_map(|m| m.downcast::<T>().ok()).map(|m| *m).collect()
    }

    /// The answer to the last [`Command::Snapshot`].
    pub fn take_snapshot(&mut self) -> Option<Box<Snapshot>> {
        self.snapshot.take()
    }

    /// Say something at the beginning of the next turn.
    pub(crate) fn command(&mut self, command: Command) {
        self.commands.push_back(command);
        self.runnable = true;
    }

    /// A frame comes from the wire to a card.
    pub(crate) fn receive(&mut self, card: usize, bytes: Vec<u8>) {
        if self.inbox.len() < RX_RING_FRAMES {
            self.inbox.push_back((PortId(card as u8), bytes));
            self.runnable = true;
        } else {
            self.rx_missed += 1;
        }
    }

    /// One turn; what the cards send is appended to `sent`, with the number of the card.
    pub(crate) fn turn(&mut self, now: Instant, sent: &mut Vec<(usize, Vec<u8>)>) -> Turn {
        for _ in 0..RX_BURST_FRAMES {
            let Some((card, bytes)) = self.inbox.pop_front() else { break };
            self.feed(card, &bytes);
        }
        let Self { stack, commands, published, snapshot, exit, checksum_trap, stopped, .. } = self;
        let mut to_self = VecDeque::new();
        let mut source = core::iter::from_fn(|| commands.pop_front());
        let mut turn = stack.turn(now, &mut source, &mut |out| {
            match out {
                Outgoing::Publish(message) if published.len() >= PUBLISHED_MAX => {
                    return Err(Outgoing::Publish(message));
                }
                Outgoing::Publish(message) => published.push_back(message),
                Outgoing::ToWorker(WorkerId(0), message) => {
                    to_self.push_back(Command::Message { from: Some(WorkerId(0)), message });
                }
                // There is no other worker, and parameters were never changed.
                Outgoing::ToWorker(..) | Outgoing::ParamsApplied(_) => {}
                Outgoing::Snapshot(s) => *snapshot = Some(s),
                Outgoing::Exit(code) => *exit = exit.or(Some(code)),
                Outgoing::ChecksumTrap(_) => *checksum_trap = true,
                Outgoing::Stopped => *stopped = true,
            }
            Ok(())
        });
        self.commands.append(&mut to_self);
        for card in 0..self.macs.len() {
            let Some(device) = self.stack.port_device_mut(PortId(card as u8)) else { break };
            while let Some(frame) = device.take_sent() {
                sent.extend(nic::egress(&frame).into_iter().map(|bytes| (card, bytes)));
            }
        }
        if let Some(saboteur) = &mut self.saboteur {
            saboteur.turn(now, &mut turn);
            sent.iter_mut().for_each(|(_, bytes)| saboteur.frame(bytes));
        }
        self.turns += 1;
        self.last_turn = turn;
        self.runnable = turn.pending || !self.inbox.is_empty() || !self.commands.is_empty();
        turn
    }

    fn feed(&mut self, card: PortId, bytes: &[u8]) {
        let Some(device) = self.stack.port_device_mut(card) else { return };
        let Some(mut frame) = device.payload_alloc() else {
            self.rx_missed += 1;
            return;
        };
        match frame.push_back(bytes.len()) {
            Some(room) => room.copy_from_slice(bytes),
            None => {
                self.rx_missed += 1;
                return;
            }
        }
        if let Some(saboteur) = &mut self.saboteur
            && saboteur.keeps_buffer()
        {
            self.kept.push(frame);
            return;
        }
        frame.set_rx_meta(nic::ingress(bytes, &self.offloads));
        device.deliver_frame(frame);
    }

    /// What the last turn said.
    pub fn last_turn(&self) -> Turn {
        self.last_turn
    }

    /// Nothing is going on and nothing is remembered: no connection, no handshake, no TIME-WAIT
    /// record, no frame that waits.
    pub fn is_quiet(&self) -> bool {
        !self.runnable && self.inbox.is_empty() && self.stack.table() == [0; 3]
    }

    /// Buffers that are missing from the two pools: payload and headers.
    pub fn buffers_missing(&self) -> (u32, usize) {
        let device = self.stack.device();
        let Buffers { free, total } = device.buffers();
        (total - free, self.header_buffers - device.header_buffers_free())
    }
}
