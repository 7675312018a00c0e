//! Frames that a stack throws away, each for one reason.

use std::net::Ipv4Addr;
use std::time::Duration;

use base::{DropReason, WorkerId};
use stack::{App, AppEvent, ChecksumPolicy, Io, Limits, LocalAddress, PortSetup, StackConfig};

/// Our address in these frames.
pub const ADDRESS: [u8; 4] = [10, 0, 0, 2];
const PEER: [u8; 4] = [10, 0, 0, 1];
const STRANGER: [u8; 4] = [192, 0, 2, 1];
/// Link, IPv4 and TCP header.
pub const LEN_MIN: usize = 54;

/// A frame of `len` bytes (at least [`LEN_MIN`]) to `mac` for each reason, from the one that is seen first to
/// the one that is seen last: after the look into the table of connections.
pub fn discarded(mac: [u8; 6], len: usize) -> [(DropReason, Vec<u8>); 6] {
    let whole = reset(mac, ADDRESS, len.max(LEN_MIN));
    let change = |at: usize, with: u8| {
        let mut frame = whole.clone();
        frame[at] ^= with;
        frame
    };
    [
        (DropReason::L2NotOurs, change(5, 1)),
        (DropReason::L2Unknown, change(12, 0x10)),
        (DropReason::IpChecksum, change(24, 1)),
        (DropReason::IpNotOurs, reset(mac, STRANGER, len.max(LEN_MIN))),
        (DropReason::TcpChecksum, change(50, 1)),
        (DropReason::TcpNoSocket, whole),
    ]
}

/// A reset to a port where nobody listens, right in every other respect.
fn reset(mac: [u8; 6], to: [u8; 4], len: usize) -> Vec<u8> {
    let total = (len - 14) as u16;
    let mut ip = vec![0x45, 0];
    ip.extend(total.to_be_bytes());
    ip.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    ip.extend(PEER);
    ip.extend(to);
    let checksum = checksum(&ip, 0);
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    let mut tcp = vec![0xc0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x04, 0, 0, 0, 0, 0, 0];
    tcp.resize(usize::from(total) - 20, 0x42);
    let pseudo = sum(&ip[12..20]) + 6 + tcp.len() as u32;
    let checksum = self::checksum(&tcp, pseudo);
    tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
    [&mac[..], &[2, 0, 0, 0, 0, 9, 8, 0], &ip, &tcp].concat()
}

/// A stack to which these frames come: it has our address and verifies checksums.
pub fn config() -> StackConfig {
    let address = LocalAddress { addr: Ipv4Addr::from(ADDRESS).into(), prefix: 24 };
    StackConfig {
        worker: WorkerId(0),
        workers: 1,
        ports: vec![PortSetup {
            addresses: vec![address],
            gateway4: None,
            gateway6: None,
            mtu: 1500,
            rx_checksum: ChecksumPolicy::Verify,
        }],
        limits: Limits::default(),
        stop_limit: Duration::from_secs(1),
    }
}

/// An application that does nothing.
#[derive(Debug)]
pub struct Nobody;

impl App for Nobody {
    fn on_event(&mut self, _: &mut dyn Io, _: AppEvent) {}
}

fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | w.get(1).map_or(0, |&b| u32::from(b))).sum()
}

fn checksum(bytes: &[u8], initial: u32) -> u16 {
    let mut total = sum(bytes) + initial;
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    !(total as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Setup;
    use base::mem::{MemConfig, MemDevice};
    use stack::Stack;
    use std::sync::Arc;

    #[test]
    fn each_frame_is_dropped_for_its_reason_and_nothing_is_answered() {
        for len in [60, 64, 1514] {
            for (reason, frame) in discarded(Setup::mac(1), len) {
                let device = MemConfig { mac: Setup::mac(1), ..MemConfig::default() };
                let mut stack = Stack::new(
                    config(),
                    Arc::default(),
                    vec![MemDevice::detached(&device)],
                    base::SeededRandom::new(1),
                    Box::new(Nobody),
                );
                let turn = |now, stack: &mut Stack<MemDevice>| {
                    stack.turn(
                        base::Instant::from_millis(now),
                        &mut std::iter::empty(),
                        &mut |_| Ok(()),
                    );
                };
                turn(1, &mut stack);
                while stack.device_mut().take_sent().is_some() {}
                assert!(stack.device_mut().deliver(&frame));
                turn(2, &mut stack);
                assert_eq!(stack.drops()[reason as usize], 1, "{reason:?}, {len} bytes");
                assert_eq!(stack.drops().iter().sum::<u64>(), 1, "{reason:?}, {len} bytes");
                assert!(stack.device_mut().take_sent().is_none(), "{reason:?}, {len} bytes");
            }
        }
    }
}
