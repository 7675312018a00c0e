//! ARP and neighbour discovery on the wire: answers for our addresses, questions for others'.

use alloc::boxed::Box;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::{Device, DropReason, Frame, PortId, WorkerId};
use wire::arp::{self, ArpPacket, Operation};
use wire::ndp::{self, Advertisement, NdpMessage, Solicitation};
use wire::{EtherType, Mac, ethernet, protocol};

use crate::Outgoing;
use crate::ingress::{ALL_NODES, LinkInfo, Packet};
use crate::inner::Core;
use crate::ip_control::Outer;
use crate::neighbor::{Action, Claim, Learned};

/// Questions, parked frames and failures handled in one turn.
const ACTIONS_PER_TURN: u32 = 128;

/// What one worker has heard of a neighbour. Answers to our questions come to one queue of the port,
/// whichever worker has asked, so each is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    port: PortId,
    addr: IpAddr,
    mac: Mac,
    claim: Claim,
}

impl<D: Device> Core<D> {
    pub(crate) fn on_arp(&mut self, link: &LinkInfo, bytes: &[u8]) -> Result<(), DropReason> {
        self.env.counters.arp_in += 1;
        let packet = arp::parse(bytes)?;
        let port = link.port;
        let to_us = self.is_ours(port, packet.target_ip.into());
        let sender = IpAddr::V4(packet.sender_ip);
        let alone = !link.group;
        let claim = match packet.operation {
            Operation::Request if to_us => Claim::Request,
            // An announcement, RFC 5227 section 3: nobody is asked.
            Operation::Request if packet.sender_ip == packet.target_ip => {
                Claim::Answer { solicited: false, overriding: true }
            }
            // In the conflict case the address must be looked at, whatever is asked.
            Operation::Request if self.is_ours(port, sender) => Claim::Request,
            Operation::Request => return Err(DropReason::NeighborIgnored),
            Operation::Reply => Claim::Answer { solicited: alone && to_us, overriding: true },
        };
        let learned = if packet.sender_ip.is_unspecified() {
            // RFC 5227 section 1.1: a probe claims nothing yet; the answer tells it to go away.
            Learned::Ignored
        } else {
            self.learn(port, sender, packet.sender_mac, claim)
        };
        match (learned, claim) {
            (Learned::Conflict, _) => Err(DropReason::AddressConflict),
            (_, Claim::Request) => {
                let answer = packet.reply(self.ports[port].mac);
                self.send_arp(port, packet.sender_mac, &answer)
            }
            (Learned::Ignored, _) => Err(DropReason::NeighborIgnored),
            _ => Ok(()),
        }
    }

    /// A message of neighbour discovery.
    pub(crate) fn on_neighbor_message(
        &mut self,
        packet: Packet<D::Frame>,
        src: Ipv6Addr,
        dst: Ipv6Addr,
    ) -> Result<(), DropReason> {
        self.env.counters.nd_in += 1;
        let port = packet.link.port;
        let frame = self.contiguous(packet.frame, packet.l4 + packet.l4_len)?;
        let message = frame.head().get(packet.l4..packet.l4 + packet.l4_len);
        let message = message.ok_or(DropReason::MbufSplit)?;
        match ndp::parse(message, src, dst, packet.hop_limit)? {
            NdpMessage::Solicitation(solicitation) => {
                if !self.is_ours(port, solicitation.target.into()) {
                    return Err(DropReason::NeighborIgnored);
                }
                if let Some(mac) = solicitation.source_mac {
                    self.learn(port, src.into(), mac, Claim::Request);
                }
                self.advertise(&packet.link, &solicitation, src)
            }
            NdpMessage::Advertisement(a) => {
                let mac = a.target_mac.unwrap_or(packet.link.from);
                let claim = Claim::Answer { solicited: a.solicited, overriding: a.override_entry };
                match self.learn(port, a.target.into(), mac, claim) {
                    Learned::Conflict => Err(DropReason::AddressConflict),
                    Learned::Ignored => Err(DropReason::NeighborIgnored),
                    _ => Ok(()),
                }
            }
        }
    }

    fn learn(&mut self, port: PortId, addr: IpAddr, mac: Mac, claim: Claim) -> Learned {
        let heard = Heard { port, addr, mac, claim };
        let learned = self.learn_here(heard);
        if matches!(learned, Learned::Conflict) {
            return learned;
        }
        for worker in (0..self.config.workers).map(WorkerId) {
            if worker != self.config.worker {
                let heard = Box::new(heard);
                // A full mailbox loses it; the other worker asks again.
                let _lost = self.outbox.push_message(heard, |m| Outgoing::ToWorker(worker, m));
            }
        }
        learned
    }

    /// Take in what this or another worker has heard.
    pub(crate) fn learn_here(&mut self, heard: Heard) -> Learned {
        let Heard { port, addr, mac, claim } = heard;
        let Some(port) = self.ports.get_mut(port) else { return Learned::Ignored };
        let learned = port.neighbors.learn(self.env.now, addr, mac, claim);
        if matches!(learned, Learned::Updated) {
            self.neighbor_generation = self.neighbor_generation.wrapping_add(1);
        }
        learned
    }

    fn advertise(
        &mut self,
        link: &LinkInfo,
        asked: &Solicitation,
        from: Ipv6Addr,
    ) -> Result<(), DropReason> {
        // RFC 4861 section 7.2.4: who has no address yet is answered through the group of all.
        let (dst, to, solicited) = if from.is_unspecified() {
            (ALL_NODES, ndp::multicast_mac(ALL_NODES), false)
        } else {
            (from, asked.source_mac.unwrap_or(link.from), true)
        };
        let advertisement = Advertisement {
            target: asked.target,
            target_mac: Some(self.ports[link.port].mac),
            router: false,
            solicited,
            override_entry: true,
        };
        let target = asked.target;
        self.send_nd(link.port, to, target, dst, |out| advertisement.emit(out, target, dst))
    }

    /// Do what the neighbour tables want done. Returns how much that was.
    pub(crate) fn poll_neighbors(&mut self) -> u32 {
        self.ports.ids().map(|port| self.poll_neighbors_of(port)).sum()
    }

    fn poll_neighbors_of(&mut self, id: PortId) -> u32 {
        let mut actions = 0;
        if self.ports[id].neighbors.next_deadline().is_none_or(|at| at > self.env.now) {
            return actions;
        }
        while actions < ACTIONS_PER_TURN
            && let port = &mut self.ports[id]
            && port.has_answer_room()
            && let Some(action) = port.neighbors.poll_action(self.env.now)
        {
            actions += 1;
            match action {
                Action::Solicit { target, to } => {
                    // Asked again if the buffer is missing now.
                    let _missing = self.solicit(id, target, to);
                }
                Action::Send { mac, frame, .. } => self.unpark(id, frame, mac),
                Action::Discard { .. } => self.env.drop(DropReason::NeighborFailed),
                Action::Unreachable { .. } => {
                    self.neighbor_generation = self.neighbor_generation.wrapping_add(1);
                }
            }
        }
        actions
    }

    fn solicit(&mut self, port: PortId, target: IpAddr, to: Option<Mac>) -> Result<(), DropReason> {
        let mac = self.ports[port].mac;
        match (target, self.routes.source_for(port, target)) {
            (IpAddr::V4(target), Some(IpAddr::V4(source))) => {
                let question = ArpPacket::request(mac, source, target);
                self.send_arp(port, to.unwrap_or(Mac::BROADCAST), &question)
            }
            (IpAddr::V6(target), Some(IpAddr::V6(source))) => {
                let group = ndp::solicited_node(target);
                let (dst, hop) = match to {
                    Some(known) => (target, known),
                    None => (group, ndp::multicast_mac(group)),
                };
                let question = Solicitation { target, source_mac: Some(mac) };
                self.send_nd(port, hop, source, dst, |out| question.emit(out, source, dst))
            }
            _ => Err(DropReason::NoRoute),
        }
    }

    /// Tell everybody where our addresses are, RFC 5227 section 3 and RFC 4861 section 7.2.6: others
    /// may remember whoever had them before.
    pub(crate) fn announce(&mut self) {
        for index in 0.. {
            let Some((port, addr)) = self.routes.local(index) else { return };
            // Others will ask if this gets lost.
            let _lost = match addr {
                IpAddr::V4(addr) => self.announce_v4(port, addr),
                IpAddr::V6(addr) => self.announce_v6(port, addr),
            };
        }
    }

    fn announce_v4(&mut self, port: PortId, addr: Ipv4Addr) -> Result<(), DropReason> {
        let mac = self.ports[port].mac;
        self.send_arp(port, Mac::BROADCAST, &ArpPacket::request(mac, addr, addr))
    }

    fn announce_v6(&mut self, port: PortId, addr: Ipv6Addr) -> Result<(), DropReason> {
        let advertisement = Advertisement {
            target: addr,
            target_mac: Some(self.ports[port].mac),
            router: false,
            solicited: false,
            override_entry: true,
        };
        let to = ndp::multicast_mac(ALL_NODES);
        self.send_nd(port, to, addr, ALL_NODES, |out| advertisement.emit(out, addr, ALL_NODES))
    }

    fn send_arp(&mut self, port: PortId, to: Mac, packet: &ArpPacket) -> Result<(), DropReason> {
        let port = &mut self.ports[port];
        if !port.has_answer_room() {
            return Err(DropReason::NoBuffer);
        }
        let mut frame = port.device.alloc().ok_or(DropReason::NoBuffer)?;
        let out = frame.push_back(ethernet::HEADER_LEN + arp::LEN).ok_or(DropReason::NoBuffer)?;
        let (link, body) = out.split_at_mut(ethernet::HEADER_LEN);
        ethernet::emit(link, to, port.mac, None, EtherType::ARP);
        packet.emit(body);
        self.env.counters.arp_out += 1;
        port.push(frame);
        Ok(())
    }

    fn send_nd(
        &mut self,
        port: PortId,
        to: Mac,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        emit: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<(), DropReason> {
        if !self.ports[port].has_answer_room() {
            return Err(DropReason::NoBuffer);
        }
        let outer = Outer {
            port,
            to,
            src: src.into(),
            dst: dst.into(),
            protocol: protocol::ICMPV6,
            hop_limit: ndp::HOP_LIMIT,
        };
        // All that we send carry a hardware address, so their length is known.
        let frame = self.packet(outer, ndp::NEIGHBOR_LEN_MAX, 0, |out| {
            let written = emit(out);
            debug_assert_eq!(written, ndp::NEIGHBOR_LEN_MAX);
        });
        let frame = frame.ok_or(DropReason::NoBuffer)?;
        self.env.counters.nd_out += 1;
        self.env.counters.icmp_out_msgs += 1;
        self.ports[port].push(frame);
        Ok(())
    }
}
