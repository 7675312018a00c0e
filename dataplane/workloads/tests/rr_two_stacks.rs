//! Requests and responses on two real stacks, joined by memory, in virtual time.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use base::mem::{MemConfig, MemDevice};
use base::{Instant, SeededRandom, WorkerId};
use stack::{
    App, ChecksumPolicy, Command, Limits, LocalAddress, Outgoing, PortSetup, Stack, StackConfig,
    StackParams,
};
use workloads::rr::totals::Totals;
use workloads::rr::{
    Client, ClientConfig, Close, End, Failures, Mode, Report, Server, ServerConfig,
};

/// Virtual time that passes with each round of turns.
const ROUND: Duration = Duration::from_micros(10);
const ROUNDS_MAX: u32 = 2_000_000;
const PORTS: [u16; 3] = [5201, 5202, 5203];

fn addr(host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 9, 0, host))
}

fn stack(host: u8, device: MemDevice, limits: Limits, app: Box<dyn App>) -> Stack<MemDevice> {
    let config = StackConfig {
        worker: WorkerId(0),
        workers: 1,
        ports: vec![PortSetup {
            addresses: vec![LocalAddress { addr: addr(host), prefix: 24 }],
            gateway4: None,
            gateway6: None,
            mtu: 1500,
            rx_checksum: ChecksumPolicy::Verify,
        }],
        limits,
        stop_limit: Duration::from_secs(1),
    };
    let random = SeededRandom::new(u64::from(host));
    Stack::new(config, Arc::new(StackParams::default()), vec![device], random, app)
}

struct Seen {
    totals: Totals,
    end: Option<End>,
    exit: Option<u8>,
    /// TIME-WAIT records of server and client.
    time_wait: [u32; 2],
}

/// Run a test until the client wants to exit, stop both, and see that nothing is left.
fn run(change: impl FnOnce(&mut ClientConfig)) -> Seen {
    let mem = |host: u8| MemConfig { mac: [2, 0, 0, 0, 0, host], ..MemConfig::default() };
    let (a, b) = MemDevice::pair(&mem(1), &mem(2));
    let server = ServerConfig { addr: None, ports: PORTS.to_vec(), sizes: None };
    let mut config = ClientConfig::new(addr(1));
    config.setup.ports = PORTS.to_vec();
    change(&mut config);
    config.check().expect("a test that can be run");
    let limits = Limits { time_wait: 500, ..Limits::default() };
    let mut stacks = [
        stack(1, a, limits, Box::new(Server::new(server))),
        stack(2, b, limits, Box::new(Client::new(config))),
    ];
    let mut seen = Seen { totals: Totals::default(), end: None, exit: None, time_wait: [0; 2] };
    let mut stopped = [false; 2];
    let mut asked = false;
    let mut now = Instant::from_millis(1);
    for _ in 0..ROUNDS_MAX {
        let ask = seen.exit.is_some() && !std::mem::replace(&mut asked, seen.exit.is_some());
        for (i, stack) in stacks.iter_mut().enumerate() {
            let mut commands = ask.then_some(Command::Stop).into_iter();
            stack.turn(now, &mut commands, &mut |outgoing| {
                match outgoing {
                    Outgoing::Publish(message) => {
                        match *message.downcast::<Report>().expect("a report") {
                            Report::Interval(interval) => seen.totals.add(&interval),
                            Report::End(end, failures) => {
                                seen.totals.failures.add(&failures);
                                seen.end = Some(end);
                            }
                            Report::Begin(_) | Report::Standing(_) => {}
                        }
                    }
                    Outgoing::Exit(code) => seen.exit = Some(code),
                    Outgoing::Stopped => stopped[i] = true,
                    _ => {}
                }
                Ok(())
            });
        }
        if stopped == [true, true] {
            break;
        }
        now += ROUND;
    }
    assert_eq!(stopped, [true, true]);
    for (i, stack) in stacks.iter().enumerate() {
        let [connections, half_open, waiting] = stack.table();
        assert_eq!((connections, half_open), (0, 0), "host {i}");
        assert!(stack.holds_no_buffers(), "host {i}");
        seen.time_wait[i] = waiting;
    }
    seen
}

#[track_caller]
fn assert_clean(seen: &Seen, count: u64) {
    assert_eq!((seen.end, seen.exit), (Some(End::Complete), Some(0)));
    assert_eq!(seen.totals.failures, Failures::default());
    assert_eq!(seen.totals.count(), count);
}

#[test]
fn round_trips_of_all_sizes() {
    for (request, response) in [(1, 1), (64, 64), (64, 5000), (30_000, 16)] {
        let seen = run(|c| {
            c.setup.request = request;
            c.setup.response = response;
            c.setup.mode = Mode::Ping { connections: 3, outstanding: 4, rate: None };
            c.setup.count = Some(1000);
        });
        assert_clean(&seen, 1000);
    }
}

#[test]
fn nothing_waits_for_a_delayed_acknowledgement() {
    let seen = run(|c| c.setup.count = Some(2000));
    assert_clean(&seen, 2000);
    assert!(seen.totals.latency.figures().max <= 4 * ROUND.as_nanos() as u64, "{:?}", seen.totals);
}

#[test]
fn a_reset_leaves_no_time_wait_and_an_orderly_close_one_within_the_cap() {
    for (close, sides) in [
        (Close::Rst, [false, false]),
        (Close::FinClient, [false, true]),
        (Close::FinServer, [true, false]),
    ] {
        let seen = run(|c| {
            c.setup.mode = Mode::Connect { concurrency: 32, close };
            c.setup.count = Some(3000);
        });
        assert_clean(&seen, 3000);
        let has = seen.time_wait.map(|n| n > 0);
        assert_eq!(has, sides, "{close:?} {:?}", seen.time_wait);
        assert!(seen.time_wait.iter().all(|n| *n <= 500), "{:?}", seen.time_wait);
    }
}

#[test]
fn a_rate_is_kept_to_the_turn() {
    let seen = run(|c| {
        c.setup.mode = Mode::Ping { connections: 2, outstanding: 8, rate: Some(10_000) };
        c.setup.time = Duration::from_secs(1);
    });
    assert_eq!(seen.end, Some(End::Complete));
    assert!(seen.totals.count().abs_diff(10_000) <= 2, "{}", seen.totals.count());
}

#[test]
fn idle_connections_stand_while_others_come_and_go() {
    let seen = run(|c| {
        c.setup.idle = 2000;
        c.setup.mode = Mode::Connect { concurrency: 16, close: Close::Rst };
        c.setup.count = Some(1000);
    });
    assert_clean(&seen, 1000);
}

#[test]
fn too_many_idle_connections_name_the_bound() {
    let seen = run(|c| {
        c.setup.idle = Limits::default().connections + 1;
        c.setup.time = Duration::ZERO;
    });
    assert_eq!(seen.exit, Some(1));
    assert_eq!(seen.end, Some(End::Failed(workloads::rr::Failure::TableFull)));
}
