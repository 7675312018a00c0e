//! Jumbo frames between two processes over shared memory: this test, and itself started again as
//! the other end, which sends everything back.

mod common;

use std::collections::VecDeque;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use base::{Device, Frame, RxBatch};
use common::{assert_balanced, filled, flat, receive};
use dpdk::{Eal, EalConfig, Port, PortConfig, PortControl, PortQueue, Vdev};

const ROLE: &str = "DPDK_TEST_MEMIF_SOCKET";
const PATIENCE: Duration = Duration::from_secs(10);
const FRAMES: u8 = 100;

fn start(role: &str, socket: &str) -> (PortControl, PortQueue) {
    let config =
        PortConfig { mtu: 9000, buffers: 1024, header_buffers: 1024, ..PortConfig::default() };
    let vdev = format!("net_memif0,id=0,role={role},socket={socket}").parse::<Vdev>().unwrap();
    let mut eal = EalConfig::software(128);
    eal.vdevs.push(vdev.prepare(config.mtu, config.queues).unwrap());
    let eal = Eal::init(&eal).unwrap_or_else(|e| panic!("{}", e.report(true)));
    let port = Port::open(&eal, "net_memif0").unwrap();
    let started = port.start(&config).unwrap_or_else(|e| panic!("{}", e.report(true)));
    (started.control, started.queues.into_iter().next().unwrap())
}

/// Send back what arrives until the other end is gone.
fn echo(socket: &str) {
    let (control, mut queue) = start("client", socket);
    let begin = Instant::now();
    let mut frames = VecDeque::new();
    let mut was_up = false;
    while begin.elapsed() < PATIENCE {
        let up = control.link().unwrap().up;
        if was_up && !up {
            break;
        }
        was_up |= up;
        let mut batch = RxBatch::new();
        queue.rx_burst(&mut batch);
        frames.extend(batch);
        queue.tx_burst(&mut frames);
    }
    drop(frames);
    assert!(was_up);
    assert_balanced(&queue);
}

/// The other process, ended in any case.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn jumbo_frames_there_and_back() {
    if let Ok(socket) = std::env::var(ROLE) {
        return echo(&socket);
    }
    let socket = std::env::temp_dir().join(format!("dpdk-test-{}.sock", std::process::id()));
    let socket = socket.to_str().unwrap().to_owned();
    let (control, mut queue) = start("server", &socket);
    let mut other = Other(
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "jumbo_frames_there_and_back"])
            .env(ROLE, &socket)
            .spawn()
            .unwrap(),
    );
    let begin = Instant::now();
    while !control.link().unwrap().up {
        assert!(begin.elapsed() < PATIENCE, "no connection");
        std::thread::sleep(Duration::from_millis(1));
    }

    let multi = queue.capabilities().offloads.multi_segment;
    let data: Vec<u8> = (0..9000).map(|i| (i % 251) as u8).collect();
    let shared = filled(&mut queue, &data);
    for i in 0..FRAMES {
        let mut head = queue.alloc().unwrap();
        head.push_back(14).unwrap().fill(i);
        if multi {
            head.chain(queue.share(&shared, 0, data.len()).unwrap());
        }
        let mut frames = VecDeque::from([head]);
        while queue.tx_burst(&mut frames) == 0 {
            assert!(begin.elapsed() < PATIENCE, "the ring stays full");
        }
        let got = receive(&mut queue, 1).pop().expect("the frame comes back");
        let bytes = flat(&got);
        assert_eq!(bytes[..14], [i; 14]);
        assert_eq!(bytes[14..], data[..if multi { data.len() } else { 0 }]);
        assert_eq!(got.segment_count(), 1, "a large buffer takes a whole frame");
    }
    drop(shared);
    assert_balanced(&queue);
    drop((control, queue));
    assert!(other.0.wait().unwrap().success());
    assert!(!std::path::Path::new(&socket).exists(), "the port removes its socket");
}
