//! The owner types over a crossed pair in memory, in one EAL process.

mod common;

use std::collections::VecDeque;

use base::{Checksum, Device, Frame, RxBatch, RxMeta, TxMeta};
use common::{assert_balanced, filled, flat, receive, send};
use dpdk::{Eal, EalConfig, Port, PortConfig, PortQueue, RingPair};

/// A started pair with small pools, and the queues of both ends.
fn pair(eal: &Eal, name: &str, config: &PortConfig, frames: u32) -> (PortQueue, PortQueue) {
    let pair = RingPair::create(eal, name, 1, frames).unwrap();
    let a = pair.a.start(config).unwrap();
    let b = pair.b.start(config).unwrap();
    assert!(a.queues[0].capabilities().offloads.multi_segment);
    assert_ne!(a.control.info().mac, b.control.info().mac);
    (a.queues.into_iter().next().unwrap(), b.queues.into_iter().next().unwrap())
}

#[test]
fn frames_cross_and_every_buffer_comes_back() {
    let eal = Eal::init(&EalConfig::software(256)).unwrap();
    let config = PortConfig { buffers: 256, header_buffers: 512, ..PortConfig::default() };

    let again = Eal::init(&EalConfig::software(64)).unwrap_err();
    assert!(again.why.contains("once"), "{again}");

    chains_and_references(&eal, &config);
    read_only_rule(&eal, &config);
    cutting(&eal, &config);
    exhaustion(&eal, &config);
    full_ring(&eal, &config);
    other_threads(&eal, &config);
    left_in_the_ring(&eal, &config);
    jumbo(&eal);
    refusals(&eal, &config);
}

fn chains_and_references(eal: &Eal, config: &PortConfig) {
    let (mut a, mut b) = pair(eal, "chains", config, 256);
    let data = filled(&mut a, b"the quick brown fox");
    let mut frame = a.alloc().unwrap();
    frame.push_back(2).unwrap().copy_from_slice(b"h:");
    frame.chain(a.share(&data, 4, 5).unwrap());
    frame.chain(a.share(&data, 16, 3).unwrap());
    frame.set_tx_meta(TxMeta { l2_len: 2, ..TxMeta::default() });
    assert_eq!((frame.segment_count(), frame.len()), (3, 10));
    assert!(a.share(&data, 16, 4).is_none());
    assert!(a.share(&data, usize::MAX, 2).is_none());
    send(&mut a, frame);

    let mut got = receive(&mut b, 1).pop().unwrap();
    assert_eq!(flat(&got), b"h:quickfox");
    assert_eq!(got.rx_meta(), RxMeta::default());
    assert_eq!(got.rx_meta().l4_checksum, Checksum::Unknown);

    // What was received may be referenced in turn, and outlives the frame it came with.
    got.trim_front(2);
    let (_, rest) = got.split_head();
    let rest = rest.unwrap();
    assert_eq!((rest.segment_count(), rest.len()), (2, 8));
    let kept = b.share(&rest, 1, 3).unwrap();
    drop(rest);
    drop(data);
    assert_eq!(kept.head(), b"uic");
    assert_eq!(a.buffers().free, a.buffers().total - 1);
    drop(kept);
    assert_balanced(&a);
    assert_balanced(&b);
}

fn read_only_rule(eal: &Eal, config: &PortConfig) {
    let (mut a, b) = pair(eal, "readonly", config, 256);
    let mut data = filled(&mut a, b"0123456789");
    assert!(data.head_mut().is_some() && data.tailroom() > 0);
    let mut reference = a.share(&data, 0, 10).unwrap();
    for frame in [&mut data, &mut reference] {
        assert!(frame.head_mut().is_none());
        assert!(frame.push_front(1).is_none() && frame.push_back(1).is_none());
        assert_eq!(frame.tailroom(), 0);
    }
    // A chain whose last segment is a reference has no tailroom, its head is still writable.
    let mut head = a.alloc().unwrap();
    assert_eq!(head.push_front(14).map(|b| b.len()), Some(14));
    head.chain(reference);
    assert!(head.head_mut().is_some());
    assert_eq!(head.tailroom(), 0);
    drop(head);
    data.head_mut().unwrap()[0] = b'x';
    assert_eq!(data.head(), b"x123456789");
    // A reference is never writable, not even when it is the last.
    let mut last = a.share(&data, 0, 1).unwrap();
    drop(data);
    assert!(last.head_mut().is_none());
    drop(last);
    assert_balanced(&a);
    drop(b);
}

fn cutting(eal: &Eal, config: &PortConfig) {
    let (mut a, _b) = pair(eal, "cutting", config, 256);
    let mut f = filled(&mut a, b"abcd");
    f.chain(filled(&mut a, b"efgh"));
    f.chain(filled(&mut a, b"ij"));
    f.truncate(11);
    assert_eq!(f.len(), 10);
    f.truncate(6);
    assert_eq!((f.segment_count(), f.len()), (2, 6));
    assert_eq!(a.buffers().free, a.buffers().total - 2);
    f.trim_front(1);
    assert_eq!(flat(&f), b"bcdef");
    f.trim_front(100);
    assert_eq!((f.head(), f.len()), (&b""[..], 2));
    f.truncate(0);
    assert_eq!((f.segment_count(), f.len(), f.is_empty()), (1, 0, true));
    let room = a.capabilities().payload_room as usize;
    let mut g = a.payload_alloc().unwrap();
    assert_eq!(g.tailroom(), room);
    assert!(g.push_back(room + 1).is_none());
    g.push_back(room).unwrap();
    assert!(g.push_back(1).is_none());
    assert_eq!(g.len(), room);
    drop((f, g));
    assert_balanced(&a);
}

fn exhaustion(eal: &Eal, config: &PortConfig) {
    let (mut a, _b) = pair(eal, "empty", config, 256);
    let all: Vec<_> = std::iter::from_fn(|| a.payload_alloc()).collect();
    assert_eq!(all.len(), config.buffers as usize);
    assert_eq!(a.buffers().free, 0);
    let references: Vec<_> = std::iter::from_fn(|| a.share(&all[0], 0, 0)).collect();
    assert_eq!(references.len(), config.header_buffers as usize);
    assert!(a.alloc().is_none());
    drop(all);
    assert_eq!(a.buffers().free, a.buffers().total - 1, "one is still referred to");
    drop(references);
    assert!(a.payload_alloc().is_some() && a.alloc().is_some());
    assert_balanced(&a);
}

fn full_ring(eal: &Eal, config: &PortConfig) {
    // A ring of 64 holds 63.
    let (mut a, mut b) = pair(eal, "full", config, 64);
    let mut frames: VecDeque<_> = (0..100u8).map(|i| filled(&mut a, &[i])).collect();
    assert_eq!(a.tx_burst(&mut frames), 63);
    assert_eq!(a.tx_burst(&mut frames), 0);
    assert_eq!(frames.front().unwrap().head(), [63]);
    let got = receive(&mut b, 63);
    assert!(got.iter().enumerate().all(|(i, f)| f.head() == [i as u8]));
    assert_eq!(a.tx_burst(&mut frames), 37);
    assert_eq!(receive(&mut b, 37).len(), 37);
    // A chain longer than the device takes is given up instead of blocking the queue.
    let mut long = filled(&mut a, b"x");
    for _ in 0..a.capabilities().tx_segments_max {
        long.chain(filled(&mut a, b"y"));
    }
    let mut frames = VecDeque::from([filled(&mut a, b"1"), long, filled(&mut a, b"2")]);
    assert_eq!(a.tx_burst(&mut frames), 3);
    assert_eq!(a.counters().tx_refused, 1);
    assert_eq!(receive(&mut b, 2).len(), 2);
    drop(got);
    assert_balanced(&a);
}

fn other_threads(eal: &Eal, config: &PortConfig) {
    let (mut a, mut b) = pair(eal, "threads", config, 256);
    let (to_main, main) = std::sync::mpsc::channel();
    let worker = {
        let eal = eal.clone();
        std::thread::spawn(move || {
            let _registered = dpdk::thread::register(&eal).unwrap();
            let mut seen = 0;
            while seen < 20_000 {
                let mut batch = RxBatch::new();
                seen += b.rx_burst(&mut batch);
                // Every other one is freed here, the rest by the main thread.
                for (i, frame) in batch.into_iter().enumerate() {
                    if i % 2 == 0 {
                        to_main.send(frame).unwrap();
                    }
                }
            }
            b
        })
    };
    let eal = eal.clone();
    let sender = std::thread::spawn(move || {
        let _registered = dpdk::thread::register(&eal).unwrap();
        let mut waiting = VecDeque::new();
        let mut made = 0u32;
        let mut data = None;
        while made < 20_000 || !waiting.is_empty() {
            if data.is_none() {
                data = a.payload_alloc();
                if let Some(d) = &mut data {
                    d.push_back(1000).unwrap().fill(7);
                }
            }
            if made < 20_000
                && waiting.len() < 32
                && let Some(d) = &data
                && let Some(mut head) = a.alloc()
                && let Some(part) = a.share(d, (made % 900) as usize, 100)
            {
                head.push_back(4).unwrap().copy_from_slice(&made.to_be_bytes());
                head.chain(part);
                waiting.push_back(head);
                made += 1;
                if made.is_multiple_of(16) {
                    data = None;
                }
            }
            a.tx_burst(&mut waiting);
        }
        drop(data);
        a
    });
    let mut count = 0;
    for frame in main {
        assert_eq!(frame.len(), 104);
        assert!(frame.segments().nth(1).unwrap().iter().all(|&x| x == 7));
        count += 1;
    }
    assert!(count >= 10_000);
    let (a, b) = (sender.join().unwrap(), worker.join().unwrap());
    assert_balanced(&a);
    assert_balanced(&b);
}

fn left_in_the_ring(eal: &Eal, config: &PortConfig) {
    let (mut a, b) = pair(eal, "left", config, 64);
    let other = a.control().clone();
    for i in 0..10 {
        let frame = filled(&mut a, &[i]);
        send(&mut a, frame);
    }
    assert_eq!(other.stats().unwrap().tx_packets, 10);
    assert!(other.link().unwrap().up);
    drop(a);
    drop(b);
    drop(other);
    // The pool is used again, and is full: the frames were not lost with the rings.
    let (a, _b) = pair(eal, "left2", config, 64);
    assert_balanced(&a);
}

fn jumbo(eal: &Eal) {
    let config = PortConfig { mtu: 9000, buffers: 64, header_buffers: 64, ..PortConfig::default() };
    let (mut a, mut b) = pair(eal, "jumbo", &config, 64);
    assert!(a.capabilities().payload_room >= 9018);
    let frame = filled(&mut a, &[9; 9014]);
    send(&mut a, frame);
    assert_eq!(receive(&mut b, 1).pop().unwrap().len(), 9014);
}

fn refusals(eal: &Eal, config: &PortConfig) {
    let pair = RingPair::create(eal, "refuse", 2, 64).unwrap();
    let name = pair.a.info().name.clone();
    assert!(Port::open(eal, &name).unwrap_err().why.contains("open already"));
    let too_many = PortConfig { queues: 3, ..config.clone() };
    assert!(pair.a.start(&too_many).unwrap_err().why.contains("1 to 2"));
    assert!(Port::open(eal, &name).unwrap_err().why.contains("closed before"));
    assert!(RingPair::create(eal, "odd", 1, 63).unwrap_err().why.contains("power of two"));
    assert!(Port::open(eal, "net_null7").is_err());
}
