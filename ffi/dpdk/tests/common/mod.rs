//! Shared by the tests, each of which is a process of its own: EAL starts once per process.
#![allow(dead_code, unreachable_pub)]

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use base::{Device, Frame, RxBatch};
use dpdk::{Mbuf, PortQueue};

/// All bytes of a frame, flat.
pub fn flat(frame: &Mbuf) -> Vec<u8> {
    frame.segments().flatten().copied().collect()
}

/// A payload buffer with `bytes` in it.
pub fn filled(queue: &mut PortQueue, bytes: &[u8]) -> Mbuf {
    let mut frame = queue.payload_alloc().expect("the pool has buffers");
    frame.push_back(bytes.len()).expect("the buffer has room").copy_from_slice(bytes);
    frame
}

/// Send one frame, which must be accepted.
pub fn send(queue: &mut PortQueue, frame: Mbuf) {
    let mut frames = VecDeque::from([frame]);
    assert_eq!(queue.tx_burst(&mut frames), 1);
}

/// Poll until `count` frames have arrived or two seconds are over.
pub fn receive(queue: &mut PortQueue, count: usize) -> Vec<Mbuf> {
    let end = Instant::now() + Duration::from_secs(2);
    let mut out = Vec::new();
    while out.len() < count && Instant::now() < end {
        let mut batch = RxBatch::new();
        queue.rx_burst(&mut batch);
        out.extend(batch);
    }
    out
}

/// Both pools of the queue are full: nothing leaked.
pub fn assert_balanced(queue: &PortQueue) {
    for buffers in [queue.buffers(), queue.header_buffers()] {
        assert_eq!(buffers.free, buffers.total);
    }
}

pub fn is_root() -> bool {
    // SAFETY: has no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Run `ip` with these arguments; whether it succeeded.
pub fn ip(args: &str) -> bool {
    std::process::Command::new("ip").args(args.split(' ')).status().is_ok_and(|s| s.success())
}

/// Ethernet, IPv4 and UDP headers for `len` bytes from 10.NET.0.1 to 10.NET.0.2; no UDP checksum,
/// which IPv4 permits.
pub fn headers(from: [u8; 6], to: [u8; 6], net: u8, port: u16, len: usize) -> Vec<u8> {
    let mut h = [&to[..], &from[..], &[8, 0]].concat();
    let mut v4 = vec![0x45, 0];
    v4.extend((len as u16 + 28).to_be_bytes());
    v4.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, net, 0, 1, 10, net, 0, 2]);
    let sum: u32 = v4.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    v4[10..12].copy_from_slice(&sum.to_be_bytes());
    h.extend(v4);
    for word in [port, port, len as u16 + 8, 0] {
        h.extend(word.to_be_bytes());
    }
    h
}

/// The payload of a UDP datagram to `port`, and the hardware address of its sender.
pub fn payload(frame: &Mbuf, port: u16) -> Option<([u8; 6], Vec<u8>)> {
    let bytes = flat(frame);
    let udp = bytes.len() > 42 && bytes[12..14] == [8, 0] && bytes[23] == 17;
    let from = bytes.get(6..12)?.try_into().ok()?;
    (udp && bytes[36..38] == port.to_be_bytes()).then(|| (from, bytes[42..].to_vec()))
}
