//! Transport checksums that a sender has left to hardware.
//!
//! A virtual link hands a frame over as the sender's stack made it: with checksum offload (the default) the
//! field holds the sum of the pseudo header, because whoever would put it on a real wire would complete it. Nobody
//! does so between a packet socket and the next link, so the wire does.

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::{checksum, ethernet, protocol};

/// What was done with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completed {
    /// Its checksum is its sender's, or it has none that we know.
    Unneeded,
    /// It was completed.
    Done,
    /// The frame is shorter than its IP header says.
    Cut,
}

/// Complete the checksum of the TCP or UDP segment in `frame` if it is only that of the pseudo header.
pub(crate) fn complete(frame: &mut [u8]) -> Completed {
    let Some((link, ip)) = frame.split_first_chunk_mut::<{ ethernet::HEADER_LEN }>() else {
        return Completed::Unneeded;
    };
    let found = match (link[12], link[13]) {
        (0x08, 0x00) => ipv4(ip),
        (0x86, 0xdd) => ipv6(ip),
        _ => return Completed::Unneeded,
    };
    let Some(Packet { header, len, protocol, pseudo }) = found else { return Completed::Unneeded };
    let Some(segment) = ip.get_mut(header..len) else { return Completed::Cut };
    let at = match protocol {
        protocol::TCP => 16,
        protocol::UDP => 6,
        _ => return Completed::Unneeded,
    };
    let Some(field) = segment.get_mut(at..at + 2) else { return Completed::Unneeded };
    // Now and then a finished checksum looks like this too; computing it again changes nothing then.
    if u16::from_be_bytes([field[0], field[1]]) != checksum::fold(pseudo) {
        return Completed::Unneeded;
    }
    field.fill(0);
    let sum = match protocol {
        protocol::UDP => checksum::finish_udp(pseudo, segment, 0),
        _ => checksum::finish(pseudo, segment, 0),
    };
    if let Some(field) = segment.get_mut(at..at + 2) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
    Completed::Done
}

/// Where the transport header is.
struct Packet {
    header: usize,
    /// Of the whole packet.
    len: usize,
    protocol: u8,
    /// Sum of the pseudo header.
    pseudo: u32,
}

/// `None`: nothing to be completed, as in fragments.
fn ipv4(ip: &[u8]) -> Option<Packet> {
    let head = ip.first_chunk::<20>()?;
    let header = usize::from(head[0] & 15) * 4;
    let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let fragment = u16::from_be_bytes([head[6], head[7]]) & 0x3fff;
    if head[0] >> 4 != 4 || header < 20 || len < header || fragment != 0 {
        return None;
    }
    let address = |at: usize| Ipv4Addr::new(head[at], head[at + 1], head[at + 2], head[at + 3]);
    let pseudo = checksum::pseudo_v4(address(12), address(16), head[9], len - header);
    Some(Packet { header, len, protocol: head[9], pseudo })
}

/// Without extension headers, which no sender of ours uses.
fn ipv6(ip: &[u8]) -> Option<Packet> {
    let head = ip.first_chunk::<40>()?;
    let len = 40 + usize::from(u16::from_be_bytes([head[4], head[5]]));
    if head[0] >> 4 != 6 {
        return None;
    }
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&head[at..at + 16]);
        Ipv6Addr::from(octets)
    };
    let pseudo = checksum::pseudo_v6(address(8), address(24), head[6], len - 40);
    Some(Packet { header: 40, len, protocol: head[6], pseudo })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of `protocol` with `payload`, whose checksum field is what `field` makes of the pseudo sum.
    fn frame(v6: bool, protocol: u8, payload: &[u8], field: impl Fn(u32, &[u8]) -> u16) -> Vec<u8> {
        let header = if protocol == protocol::TCP { 20 } else { 8 };
        let mut segment = vec![0; header];
        segment[0] = 0x12;
        segment.extend_from_slice(payload);
        let len = segment.len();
        let mut frame = vec![2; 12];
        let pseudo = if v6 {
            frame.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, len as u8, protocol, 64]);
            frame.extend((0..32).map(|n| n as u8));
            checksum::pseudo(
                Ipv6Addr::from(std::array::from_fn::<u8, 16, _>(|n| n as u8)).into(),
                Ipv6Addr::from(std::array::from_fn::<u8, 16, _>(|n| 16 + n as u8)).into(),
                protocol,
                len,
            )
        } else {
            frame.extend_from_slice(&[
                8,
                0,
                0x45,
                0,
                0,
                (20 + len) as u8,
                0,
                0,
                0x40,
                0,
                64,
                protocol,
                0,
                0,
            ]);
            frame.extend_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
            checksum::pseudo([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), protocol, len)
        };
        let at = if protocol == protocol::TCP { 16 } else { 6 };
        let sum = field(pseudo.expect("one family"), &segment);
        segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        frame.extend_from_slice(&segment);
        frame
    }

    #[test]
    fn what_was_left_to_hardware_is_completed_and_nothing_else() {
        for v6 in [false, true] {
            for protocol in [protocol::TCP, protocol::UDP] {
                for payload in [&b""[..], b"x", b"forty-two bytes of no importance at all..."] {
                    let right = frame(v6, protocol, payload, |pseudo, segment| {
                        if protocol == protocol::UDP {
                            checksum::finish_udp(pseudo, segment, 0)
                        } else {
                            checksum::finish(pseudo, segment, 0)
                        }
                    });
                    let mut partial =
                        frame(v6, protocol, payload, |pseudo, _| checksum::fold(pseudo));
                    assert_eq!(complete(&mut partial), Completed::Done);
                    assert_eq!(partial, right);
                    let mut same = right.clone();
                    assert_eq!(complete(&mut same), Completed::Unneeded);
                    let mut wrong = frame(v6, protocol, payload, |_, _| 0x1234);
                    let before = wrong.clone();
                    assert_eq!(complete(&mut wrong), Completed::Unneeded);
                    assert_eq!(wrong, before, "a wrong one stays wrong");
                }
            }
        }
    }

    #[test]
    fn whatever_comes_is_survived_and_what_was_cut_is_seen() {
        let good = frame(false, protocol::TCP, b"payload", |pseudo, _| checksum::fold(pseudo));
        for end in 0..good.len() {
            let mut short = good[..end].to_vec();
            let found = complete(&mut short);
            assert_eq!(found == Completed::Cut, end >= 34, "{end}: {found:?}");
        }
        let mut fragment = good.clone();
        fragment[20] = 0x20;
        assert_eq!(complete(&mut fragment), Completed::Unneeded);
        for at in 0..good.len() {
            for byte in [0, 0xff, 0x7f] {
                let mut odd = good.clone();
                odd[at] = byte;
                complete(&mut odd);
            }
        }
    }
}
