//! Address resolution for IPv4 over Ethernet, RFC 826, with the checks of RFC 5227.

use core::net::Ipv4Addr;

use base::DropReason;

use crate::bytes::room;
use crate::ethernet::{EtherType, Mac};

/// Bytes of a packet.
pub const LEN: usize = 28;
/// Hardware type Ethernet.
const HARDWARE_ETHERNET: u16 = 1;

/// What a packet is for. Reverse ARP is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Who has the target address?
    Request,
    /// The sender has it.
    Reply,
}

/// A request or a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArpPacket {
    /// Request or reply.
    pub operation: Operation,
    /// Hardware address of the sender; always that of a station.
    pub sender_mac: Mac,
    /// IPv4 address of the sender; unspecified in a probe (a request only).
    pub sender_ip: Ipv4Addr,
    /// Hardware address of the target; without meaning in a request.
    pub target_mac: Mac,
    /// IPv4 address that is asked for, or of whom is answered.
    pub target_ip: Ipv4Addr,
}

/// Parse what follows an Ethernet header.
///
/// # Errors
///
/// [`DropReason::ArpBad`] for anything but a well-formed request or reply.
#[inline]
pub fn parse(bytes: &[u8]) -> Result<ArpPacket, DropReason> {
    let packet = bytes.first_chunk::<LEN>().ok_or(DropReason::ArpBad)?;
    let [h0, h1, p0, p1, hardware_len, protocol_len, o0, o1, ..] = *packet;
    let fits = u16::from_be_bytes([h0, h1]) == HARDWARE_ETHERNET
        && u16::from_be_bytes([p0, p1]) == EtherType::IPV4.0
        && hardware_len == 6
        && protocol_len == 4;
    let operation = match u16::from_be_bytes([o0, o1]) {
        1 if fits => Operation::Request,
        2 if fits => Operation::Reply,
        _ => return Err(DropReason::ArpBad),
    };
    let [.., s0, s1, s2, s3, s4, s5, i0, i1, i2, i3, t0, t1, t2, t3, t4, t5, j0, j1, j2, j3] =
        *packet;
    let parsed = ArpPacket {
        operation,
        sender_mac: Mac([s0, s1, s2, s3, s4, s5]),
        sender_ip: Ipv4Addr::new(i0, i1, i2, i3),
        target_mac: Mac([t0, t1, t2, t3, t4, t5]),
        target_ip: Ipv4Addr::new(j0, j1, j2, j3),
    };
    // RFC 5227 section 2.1.1: a probe has no sender address yet, and is always a request.
    let probe = operation == Operation::Request && parsed.sender_ip.is_unspecified();
    let sender = parsed.sender_ip;
    let impossible = sender.is_multicast()
        || sender.is_broadcast()
        || sender.is_loopback()
        || sender.is_unspecified() && !probe;
    if impossible || !parsed.sender_mac.is_station() {
        return Err(DropReason::ArpBad);
    }
    Ok(parsed)
}

impl ArpPacket {
    /// The question of `sender` for the hardware address of `target_ip`.
    pub const fn request(sender_mac: Mac, sender_ip: Ipv4Addr, target_ip: Ipv4Addr) -> Self {
        let operation = Operation::Request;
        Self { operation, sender_mac, sender_ip, target_mac: Mac::ZERO, target_ip }
    }

    /// The answer to `self`, a request for `self.target_ip`, from the station `mac`.
    pub const fn reply(&self, mac: Mac) -> Self {
        Self {
            operation: Operation::Reply,
            sender_mac: mac,
            sender_ip: self.target_ip,
            target_mac: self.sender_mac,
            target_ip: self.sender_ip,
        }
    }

    /// Write the packet. Returns the bytes written.
    ///
    /// # Panics
    ///
    /// If `out` is shorter than [`LEN`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let out = room::<LEN>(out);
        let operation = match self.operation {
            Operation::Request => 1,
            Operation::Reply => 2,
        };
        out[..2].copy_from_slice(&HARDWARE_ETHERNET.to_be_bytes());
        out[2..4].copy_from_slice(&EtherType::IPV4.0.to_be_bytes());
        out[4..8].copy_from_slice(&[6, 4, 0, operation]);
        out[8..14].copy_from_slice(&self.sender_mac.0);
        out[14..18].copy_from_slice(&self.sender_ip.octets());
        out[18..24].copy_from_slice(&self.target_mac.0);
        out[24..].copy_from_slice(&self.target_ip.octets());
        LEN
    }
}

#[cfg(test)]
mod tests;
