//! Fragments on their way into the reassembly table, and whole datagrams out of it.

use base::{Device, DropReason, Frame, Instant};

use crate::ingress::{LinkInfo, Packet, bytes_from};
use crate::inner::Core;
use crate::reassembly::{Datagram, DatagramKey, Fragment};

/// Where a fragment belongs: identification, offset in bytes, and whether more follow.
pub(crate) type Place = (u32, u16, bool);

impl<D: Device> Core<D> {
    /// Keep a fragment. Returns the datagram that is complete with it.
    pub(crate) fn reassemble(
        &mut self,
        packet: Packet<D::Frame>,
        (id, offset, more): Place,
    ) -> Result<Option<Packet<D::Frame>>, DropReason> {
        self.env.counters.ip_reasm_reqds += 1;
        let ipv4 = packet.src.is_ipv4();
        let key = DatagramKey {
            source: packet.src,
            destination: packet.dst,
            id,
            protocol: if ipv4 { packet.protocol } else { 0 },
        };
        let headers = packet.l4.saturating_sub(packet.link.l3);
        let Packet { mut frame, .. } = packet;
        frame.trim_front(packet.l4);
        if frame.head().is_empty() {
            frame = frame.split_head().1.ok_or(DropReason::FragmentTiny)?;
        }
        let fragment = Fragment {
            offset,
            len: packet.l4_len as u16,
            more,
            header_len: if ipv4 { headers } else { headers.saturating_sub(48) } as u16,
            protocol: packet.protocol,
            ecn: packet.ecn,
            frame,
        };
        let env = &mut self.env;
        let complete = self.reassembly.insert(env.now, key, fragment, &mut |reason, _frame| {
            env.counters.ip_reasm_fails += 1;
            env.drop(reason);
        });
        let Some(datagram) = complete else { return Ok(None) };
        let (len, ecn) = (datagram.len as usize, datagram.ecn);
        let frame = self.join(datagram)?;
        self.env.counters.ip_reasm_oks += 1;
        Ok(Some(Packet {
            // The device has seen parts only.
            link: LinkInfo { l3: 0, l3_good: false, l4_good: false, ..packet.link },
            l4: 0,
            l4_len: len,
            reassembled: true,
            src: packet.src,
            dst: packet.dst,
            protocol: packet.protocol,
            protocol_at: packet.protocol_at,
            ecn,
            hop_limit: packet.hop_limit,
            frame,
        }))
    }

    /// The bytes of a datagram in as few buffers as possible.
    fn join(&mut self, datagram: Datagram<D::Frame>) -> Result<D::Frame, DropReason> {
        let caps = *self.ports.any().device.capabilities();
        let room = caps.payload_room as usize;
        let total = datagram.len as usize;
        if total.div_ceil(room) > usize::from(caps.tx_segments_max) {
            // Devices bound what a chain may be; so long a datagram is nothing that we need.
            return Err(DropReason::FragmentLimit);
        }
        let mut joined: Option<D::Frame> = None;
        let mut buffer = self.ports.any_mut().device.payload_alloc().ok_or(DropReason::NoBuffer)?;
        for part in &datagram.parts {
            for mut bytes in bytes_from(&part.frame, 0) {
                while !bytes.is_empty() {
                    let space = room - buffer.len();
                    let (now, later) = bytes.split_at(space.min(bytes.len()));
                    let to = buffer.push_back(now.len()).ok_or(DropReason::NoBuffer)?;
                    to.copy_from_slice(now);
                    bytes = later;
                    if buffer.len() == room {
                        let fresh = self.ports.any_mut().device.payload_alloc();
                        let full =
                            core::mem::replace(&mut buffer, fresh.ok_or(DropReason::NoBuffer)?);
                        append(&mut joined, full);
                    }
                }
            }
        }
        if !buffer.is_empty() {
            append(&mut joined, buffer);
        }
        joined.ok_or(DropReason::FragmentTiny)
    }

    /// Give up datagrams that have taken too long.
    pub(crate) fn expire_fragments(&mut self) -> u32 {
        let env = &mut self.env;
        let mut expired = 0;
        self.reassembly.expire(env.now, &mut |reason, _frame| {
            env.counters.ip_reasm_fails += 1;
            env.drop(reason);
            expired += 1;
        });
        expired
    }

    pub(crate) fn fragments_deadline(&self) -> Option<Instant> {
        self.reassembly.next_deadline()
    }
}

fn append<F: Frame>(chain: &mut Option<F>, buffer: F) {
    match chain {
        Some(chain) => chain.chain(buffer),
        None => *chain = Some(buffer),
    }
}
