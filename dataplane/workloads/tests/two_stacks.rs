//! Client and server on two real stacks, joined by memory, in virtual time.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use base::mem::{MemConfig, MemDevice};
use base::{Instant, SeededRandom, WorkerId};
use stack::{
    ChecksumPolicy, Command, Limits, LocalAddress, Outgoing, PortSetup, Stack, StackConfig,
    StackParams,
};
use workloads::iperf::{
    Client, ClientConfig, Direction, Params, Report, Server, ServerConfig, SilentHost, Summary,
};

/// Virtual time that passes with each round of turns: it stands for what a burst takes.
const ROUND: Duration = Duration::from_micros(500);
const ROUNDS_MAX: u32 = 100_000;

fn addr(host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 9, 0, host))
}

fn config(host: u8) -> StackConfig {
    StackConfig {
        worker: WorkerId(0),
        workers: 1,
        ports: vec![PortSetup {
            addresses: vec![LocalAddress { addr: addr(host), prefix: 24 }],
            gateway4: None,
            gateway6: None,
            mtu: 1500,
            rx_checksum: ChecksumPolicy::Verify,
        }],
        limits: Limits::default(),
        stop_limit: Duration::from_secs(5),
    }
}

#[derive(Default)]
struct Seen {
    reports: Vec<Report>,
    exit: Option<u8>,
    stopped: bool,
}

impl Seen {
    fn take(&mut self, outgoing: Outgoing) {
        match outgoing {
            Outgoing::Publish(message) => {
                self.reports.push(*message.downcast::<Report>().expect("a report"));
            }
            Outgoing::Exit(code) => self.exit = Some(code),
            Outgoing::Stopped => self.stopped = true,
            _ => {}
        }
    }

    fn summary(&self) -> &Summary {
        let found = self.reports.iter().find_map(|r| match r {
            Report::Summary(summary) => Some(summary),
            _ => None,
        });
        found.expect("a summary")
    }
}

/// Run a test with a one-off server, stop both when they ask for it, and see that nothing is left.
fn run(params: Params) -> [Seen; 2] {
    let mem = |host: u8| MemConfig { mac: [2, 0, 0, 0, 0, host], ..MemConfig::default() };
    let (a, b) = MemDevice::pair(&mem(1), &mem(2));
    let server =
        ServerConfig { one_off: true, verify: true, ..ServerConfig::new(Box::new(SilentHost)) };
    let remote = SocketAddr::new(addr(1), server.port);
    let client = ClientConfig {
        params: Params { repeating_payload: true, ..params },
        verify: true,
        ..ClientConfig::new(remote, Box::new(SilentHost))
    };
    let shared = Arc::new(StackParams::default());
    let random = SeededRandom::new;
    let mut stacks = [
        Stack::new(config(1), shared.clone(), vec![a], random(1), Box::new(Server::new(server))),
        Stack::new(config(2), shared, vec![b], random(2), Box::new(Client::new(client))),
    ];
    let mut seen = [Seen::default(), Seen::default()];
    let mut asked = [false; 2];
    let mut now = Instant::from_millis(1);
    for _ in 0..ROUNDS_MAX {
        let mut next = None;
        let mut busy = false;
        for (i, stack) in stacks.iter_mut().enumerate() {
            let stop =
                seen[i].exit.is_some() && !std::mem::replace(&mut asked[i], seen[i].exit.is_some());
            let mut commands = stop.then_some(Command::Stop).into_iter();
            let turn = stack.turn(now, &mut commands, &mut |outgoing| {
                seen[i].take(outgoing);
                Ok(())
            });
            busy |= turn.work > 0 || turn.pending;
            next = next.into_iter().chain(turn.next_deadline).min();
        }
        if seen.iter().all(|s| s.stopped) {
            break;
        }
        now = match next {
            Some(at) if !busy && at > now => at,
            _ => now + ROUND,
        };
    }
    for s in &seen {
        assert_eq!(s.exit, Some(0), "{:#?}", s.reports);
        assert!(s.stopped);
        let bad = s.reports.iter().filter(|r| matches!(r, Report::Error(_) | Report::Warning(_)));
        assert_eq!(bad.count(), 0, "{:#?}", s.reports);
    }
    seen
}

/// What one side received of each stream was compared with what should be there.
fn assert_verified(seen: &[Seen; 2], at_least: u64) {
    let streams = seen.iter().flat_map(|s| &s.summary().streams);
    let mut checked = 0;
    for s in streams.filter(|s| !s.sender) {
        let check = s.integrity.expect("asked for");
        assert_eq!(check.first_mismatch, None);
        assert!(check.checked_bytes >= at_least, "{s:?}");
        checked += 1;
    }
    assert!(checked > 0);
}

#[test]
fn a_number_of_bytes_arrives_whole() {
    let seen = run(Params { num: 20_000_000, ..Params::default() });
    assert_verified(&seen, 20_000_000);
    let stream = &seen[1].summary().streams[0];
    assert_eq!(stream.sent.map(|t| t.bytes), Some(20_000_000));
    assert_eq!(stream.received.map(|t| t.bytes), Some(20_000_000));
    assert_eq!(stream.sent.and_then(|t| t.retransmits), Some(0), "nothing is lost in memory");
    assert_eq!(seen[1].summary().congestion_local.as_deref(), Some("cubic"));
}

#[test]
fn reverse_and_both_ways_by_time() {
    for direction in [Direction::Reverse, Direction::Bidirectional] {
        let seen = run(Params { time_secs: 1, parallel: 2, direction, ..Params::default() });
        assert_verified(&seen, 1_000_000);
        let last = seen[1].reports.iter().rev().find_map(|r| match r {
            Report::Interval(interval) => Some(interval),
            _ => None,
        });
        let tcp = last.expect("an interval").streams[0].tcp;
        assert!(tcp.snd_mss >= 1400 && tcp.pmtu == 1500 && tcp.rcvbuf > 0, "{tcp:?}");
    }
}

#[test]
fn options_reach_real_connections() {
    let seen = run(Params {
        time_secs: 1,
        bandwidth: 10_000_000,
        window: Some(65_536),
        mss: Some(1000),
        congestion: Some("reno".to_owned()),
        ..Params::default()
    });
    assert_verified(&seen, 1_000_000);
    for s in &seen {
        let summary = s.summary();
        assert_eq!(summary.congestion_local.as_deref(), Some("reno"));
        let last = summary.streams[0].last;
        assert!((900..=1000).contains(&last.snd_mss), "{last:?}");
        assert!(last.rcvbuf >= 65_536 && last.sndbuf >= 65_536, "{last:?}");
    }
    let sent = seen[1].summary().streams[0].sent.expect("ours").bytes;
    assert!(sent.abs_diff(1_250_000) < 150_000, "{sent}");
}

#[test]
fn many_streams() {
    let seen = run(Params { num: 5_000_000, parallel: 128, len: 4096, ..Params::default() });
    assert_verified(&seen, 0);
    let received = seen[1].summary().streams.iter().filter_map(|s| s.received);
    assert_eq!(received.map(|t| t.bytes).sum::<u64>(), 5_000_000);
}
