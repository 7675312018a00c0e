//! The smallest device: frames from nowhere, to nowhere.

mod common;

use std::collections::VecDeque;

use base::{Clock, Device, Frame};
use common::{assert_balanced, filled, receive};
use dpdk::{Eal, EalConfig, Port, PortConfig, TimeBase, Vdev};

#[test]
fn receives_and_sends_without_losing_buffers() {
    let config =
        PortConfig { buffers: 512, header_buffers: 512, queues: 2, ..PortConfig::default() };
    let vdev = "net_null0,size=128".parse::<Vdev>().unwrap().prepare(config.mtu, 2).unwrap();
    let mut eal = EalConfig::software(128);
    eal.vdevs.push(vdev);
    // A requested device that does not exist is found before EAL starts, and does not spend it.
    let mut bad = eal.clone();
    bad.vdevs.push("net_af_packet0,iface=no-such-if".parse::<Vdev>().unwrap());
    assert!(Eal::init(&bad).unwrap_err().why.contains("does not exist"));

    let before = allowed_cpus();
    let eal = Eal::init(&eal).unwrap();
    assert_eq!(allowed_cpus(), before, "the calling thread keeps its affinity");
    let left = dpdk::Host::probe().eal_directory(&format!("millrace-{}", std::process::id()));
    assert!(!left.exists(), "{} stays behind", left.display());
    assert!(eal.args().contains(&"--no-pci".to_owned()));

    let port = Port::open(&eal, "net_null0").unwrap();
    assert_eq!(port.info().driver, "net_null");
    let started = port.start(&config).unwrap();
    assert!(started.missing.contains(&"tso"), "{:?}", started.missing);
    // The driver of 22.11 does not claim to take chains, so it gets none.
    assert!(started.missing.contains(&"multi-segment"));
    let clock = TimeBase::calibrate().clock();
    let begin = clock.now();
    for mut queue in started.queues {
        let got = receive(&mut queue, 64);
        assert!(got.len() >= 64 && got.iter().all(|f| f.len() == 128));
        drop(got);
        let mut frames: VecDeque<_> = (0..100).map(|_| filled(&mut queue, &[1; 60])).collect();
        assert_eq!(queue.tx_burst(&mut frames), 100);
        let mut chain = filled(&mut queue, &[1; 60]);
        chain.chain(filled(&mut queue, &[2; 60]));
        assert_eq!(queue.tx_burst(&mut VecDeque::from([chain])), 1);
        assert_eq!(queue.counters().tx_refused, 1);
        assert_balanced(&queue);
    }
    assert!(clock.now() > begin);
    let stats = started.control.stats().unwrap();
    assert!(stats.rx_packets >= 128 && stats.tx_packets == 200, "{stats:?}");
}

fn allowed_cpus() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    status.lines().find(|l| l.starts_with("Cpus_allowed:")).unwrap().to_owned()
}
