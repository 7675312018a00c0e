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
