//! Client and server on a network in memory, in virtual time.

mod hostile;
mod output;

use core::net::SocketAddr;
use core::time::Duration;

use base::ConnId;
use stack::{Io, Local, LocalAddress};

use super::*;
use crate::echo::Echo;
use crate::fake::{Link, Net};

const PORT: u16 = DEFAULT_PORT;

fn server_config() -> ServerConfig {
    ServerConfig { addr: None, ports: vec![PORT], sizes: None }
}

fn config(net_server: usize) -> ClientConfig {
    ClientConfig::new(Net::addr(net_server))
}

fn ping(connections: u32, outstanding: u32) -> Mode {
    Mode::Ping { connections, outstanding, rate: None }
}

fn connect(concurrency: u32, close: Close) -> Mode {
    Mode::Connect { concurrency, close }
}

/// A finished run, added up.
struct Seen {
    totals: totals::Totals,
    end: Option<End>,
    standing: Vec<Standing>,
    intervals: usize,
    exit: Option<u8>,
}

fn seen(net: &mut Net, client: usize) -> Seen {
    let mut seen = Seen {
        totals: totals::Totals::default(),
        end: None,
        standing: Vec::new(),
        intervals: 0,
        exit: net.exit_code(client),
    };
    for message in net.take_published(client) {
        match *message.downcast::<Report>().expect("a report") {
            Report::Begin(_) => {}
            Report::Standing(standing) => seen.standing.push(standing),
            Report::Interval(interval) => {
                seen.intervals += 1;
                seen.totals.add(&interval);
            }
            Report::End(end, failures) => {
                seen.totals.failures.add(&failures);
                assert_eq!(seen.end.replace(end), None, "one end");
            }
        }
    }
    seen
}

/// Run a client against our server until it is done.
fn run(link: Link, change: impl FnOnce(&mut ClientConfig)) -> Seen {
    let mut net = Net::new(link);
    let server = net.add_host(Some(Box::new(Server::new(server_config()))));
    let mut config = config(server);
    change(&mut config);
    config.check().expect("a test that can be run");
    let client = net.add_host(Some(Box::new(Client::new(config))));
    net.run_for(Duration::from_secs(120));
    let seen = seen(&mut net, client);
    assert_eq!((net.open_conns(server), net.open_conns(client)), (0, 0), "nothing is left");
    seen
}

#[track_caller]
fn assert_clean(seen: &Seen, count: u64) {
    assert_eq!(seen.end, Some(End::Complete));
    assert_eq!(seen.totals.failures, Failures::default());
    assert_eq!(seen.exit, Some(0));
    assert_eq!(seen.totals.count(), count);
}

#[test]
fn a_number_of_transactions_is_that_number() {
    for (connections, outstanding) in [(1, 1), (1, 8), (10, 1), (7, 3)] {
        let seen = run(Link::default(), |c| {
            c.setup.mode = ping(connections, outstanding);
            c.setup.count = Some(1000);
        });
        assert_clean(&seen, 1000);
        let figures = seen.totals.latency.figures();
        assert!(figures.min >= 2_000_000, "a round trip takes two delays: {figures:?}");
    }
}

#[test]
fn time_and_omitted_time_are_kept() {
    let seen = run(Link::default(), |c| {
        c.setup.time = Duration::from_secs(3);
        c.setup.omit = Duration::from_secs(2);
    });
    assert_eq!(seen.totals.time, Duration::from_secs(3));
    assert_eq!(seen.intervals, 5);
    // 2.128 ms for a round trip with 64 bytes each way at a megabyte per second.
    assert!(seen.totals.count().abs_diff(3_000_000 / 2128) <= 1, "{}", seen.totals.count());
    assert_clean(&seen, seen.totals.count());
}

#[test]
fn sizes_need_not_be_told_to_the_server() {
    for (request, response, chunk) in
        [(64, 64, 16_384), (16, 1, 16_384), (100, 5000, 16_384), (5000, 100, 1), (17, 300_000, 999)]
    {
        let seen = run(Link { chunk, ..Link::default() }, |c| {
            c.setup.request = request;
            c.setup.response = response;
            c.setup.count = Some(20);
            c.setup.mode = ping(2, 2);
        });
        assert_clean(&seen, 20);
    }
}

#[test]
fn an_echo_server_will_do_when_sizes_are_equal() {
    for size in [1, 15, 16, 64, 5000] {
        let mut net = Net::new(Link::default());
        let echo =
            crate::echo::Config { addr: None, port: PORT, options: tcp::ConnOptions::default() };
        let server = net.add_host(Some(Box::new(Echo::new(echo))));
        let mut config = config(server);
        config.setup.request = size;
        config.setup.response = size;
        config.setup.count = Some(50);
        let client = net.add_host(Some(Box::new(Client::new(config))));
        net.run_for(Duration::from_secs(20));
        assert_clean(&seen(&mut net, client), 50);
    }
}

#[test]
fn short_connections_end_in_each_way() {
    for close in [Close::Rst, Close::FinClient, Close::FinServer] {
        for response in [1, 64, 20_000] {
            let seen = run(Link::default(), |c| {
                c.setup.mode = connect(16, close);
                c.setup.response = response;
                c.setup.count = Some(500);
            });
            assert_clean(&seen, 500);
            let setup = seen.totals.setup.as_ref().expect("recorded").figures();
            let near = |ns: u64| (1_990_000..2_010_000).contains(&ns);
            assert!(setup.count >= 500 && near(setup.min) && near(setup.max), "{setup:?}");
        }
    }
}

#[test]
fn connections_take_addresses_and_ports_in_turn() {
    let mut net = Net::new(Link::default());
    let ports = vec![PORT, PORT + 1];
    let server = net.add_host(Some(Box::new(Server::new(server_config()))));
    let mut config = config(server);
    let client = 1;
    let ours: Vec<_> = (0..3).map(|nth| Net::nth_addr(client, nth)).collect();
    config.setup.ports = ports.clone();
    config.setup.locals = ours.clone();
    config.setup.mode = connect(12, Close::FinClient);
    assert_eq!(net.add_host(Some(Box::new(Client::new(config)))), client);
    net.run_for(Duration::from_micros(500));
    let mut seen: Vec<_> = net.ends_of(client).map(|(l, r)| (l.ip(), r.port())).collect();
    seen.sort_unstable();
    let pairs = ours.iter().flat_map(|a| ports.iter().map(move |p| (*a, *p)));
    assert!(seen.into_iter().eq(pairs.flat_map(|pair| [pair; 2])), "each pair twice");
}

#[test]
fn sources_are_those_nearest_to_the_server() {
    let of = |list: &str, remote: &str| {
        let parse = |text: &str| {
            let (addr, prefix) = text.split_once('/').unwrap();
            LocalAddress { addr: addr.parse().unwrap(), prefix: prefix.parse().unwrap() }
        };
        let all: Vec<_> = list.split_whitespace().map(parse).collect();
        let found = sources(&all, remote.parse().unwrap());
        found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    let ours = "10.0.0.2/24 10.0.0.3/24 10.1.0.2/24 fd00::2/64 fd00::3/64 fe80::1/64";
    let rows = [
        ("10.0.0.1", "10.0.0.2 10.0.0.3"),
        ("10.1.0.1", ""),
        ("8.8.8.8", "10.0.0.2 10.0.0.3 10.1.0.2"),
        ("fd00::1", "fd00::2 fd00::3"),
        ("2001:db8::1", "fd00::2 fd00::3"),
        ("fe80::9", ""),
    ];
    for (remote, expected) in rows {
        assert_eq!(of(ours, remote), expected, "{remote}");
    }
    assert_eq!(of("", "10.0.0.1"), "");
}

#[test]
fn a_rate_is_kept_and_what_waits_for_a_slow_server_is_counted() {
    let rate = |rate| Mode::Ping { connections: 4, outstanding: 1, rate: Some(rate) };
    let slow = Link { delay: Duration::from_millis(10), ..Link::default() };
    let seen = run(slow, |c| {
        c.setup.mode = rate(100);
        c.setup.time = Duration::from_secs(5);
    });
    assert!(seen.totals.count().abs_diff(500) <= 4, "{}", seen.totals.count());
    assert!(seen.totals.latency.figures().max < 21_000_000);
    // Four connections carry 200 per second: of 300, a third waits longer and longer.
    let seen = run(slow, |c| {
        c.setup.mode = rate(300);
        c.setup.time = Duration::from_secs(5);
    });
    let figures = seen.totals.latency.figures();
    assert!(seen.totals.count() < 1010, "{figures:?}");
    assert!(figures.max > 1_500_000_000 && figures.p50 > 700_000_000, "{figures:?}");
}

#[test]
fn idle_connections_stand_before_and_during_the_test() {
    let seen = run(Link::default(), |c| {
        c.setup.idle = 5000;
        c.setup.count = Some(100);
    });
    assert_clean(&seen, 100);
    let last = seen.standing.last().expect("a report");
    assert!(last.complete && last.held == 5000, "{last:?}");
    let seen = run(Link::default(), |c| {
        c.setup.idle = 300;
        c.setup.time = Duration::ZERO;
    });
    assert_eq!((seen.end, seen.exit, seen.totals.count()), (Some(End::Complete), Some(0), 0));
}

#[test]
fn reports_wait_for_an_outside_that_does_not_keep_up() {
    let mut net = Net::new(Link::default());
    let server = net.add_host(Some(Box::new(Server::new(server_config()))));
    let mut config = config(server);
    config.setup.time = Duration::from_secs(10);
    let client = net.add_host(Some(Box::new(Client::new(config))));
    net.set_deaf(client, true);
    net.run_for(Duration::from_secs(15));
    assert_eq!(net.exit_code(client), None, "not before the result is out");
    net.set_deaf(client, false);
    net.run_for(Duration::from_secs(1));
    let seen = seen(&mut net, client);
    assert_eq!(seen.end, Some(End::Complete));
    assert!(seen.intervals <= 2, "collected, not piled up: {}", seen.intervals);
    assert!(seen.totals.count().abs_diff(10_000_000 / 2128) <= 1, "{}", seen.totals.count());
}

#[test]
fn an_interrupted_test_reports_what_it_has() {
    let mut net = Net::new(Link::default());
    let server = net.add_host(Some(Box::new(Server::new(server_config()))));
    let client = net.add_host(Some(Box::new(Client::new(config(server)))));
    net.run_for(Duration::from_millis(1500));
    net.event(client, stack::AppEvent::Stop);
    net.run_for(Duration::from_secs(2));
    let seen = seen(&mut net, client);
    assert_eq!((seen.end, seen.exit), (Some(End::Interrupted), Some(0)));
    assert!(seen.totals.count() > 600);
    assert_eq!(net.open_conns(client), 0);
}

#[test]
fn what_cannot_be_run_is_refused() {
    type Change = fn(&mut ClientConfig);
    let rows: [(Change, &str); 8] = [
        (|c| c.setup.ports.clear(), "65535"),
        (|c| c.setup.request = 0, "16777216"),
        (|c| c.setup.response = (1 << 24) + 1, "16777216"),
        (|c| c.setup.mode = ping(0, 1), "at least one"),
        (|c| c.setup.mode = ping(1 << 20, 1 << 10), "in all"),
        (|c| c.setup.count = Some(0), "at least 1"),
        (|c| c.setup.mode = connect(0, Close::Rst), "at once"),
        (
            |c| {
                c.setup.mode = connect(1, Close::FinServer);
                c.setup.request = 15;
            },
            "16 bytes",
        ),
    ];
    for (change, part) in rows {
        let mut config = config(0);
        change(&mut config);
        let text = config.check().expect_err(part);
        assert!(text.contains(part), "{text}");
    }
}

/// A scripted peer of our server: what came back after `parts`, sent one after the other.
fn answers(sizes: Option<(u32, u32)>, parts: &[&[u8]]) -> Vec<usize> {
    let mut net = Net::new(Link::default());
    let server =
        net.add_host(Some(Box::new(Server::new(ServerConfig { sizes, ..server_config() }))));
    let peer = net.add_host(None);
    net.run_for(Duration::from_millis(1));
    let conn = open(&mut net, peer, server);
    let mut all = Vec::new();
    for part in parts {
        assert_eq!(net.io(peer).send(conn, part, false), Ok(part.len()));
        net.run_for(Duration::from_millis(500));
        all.push(read(&mut net, peer, conn));
    }
    all
}

fn open(net: &mut Net, peer: usize, server: usize) -> ConnId {
    let remote = SocketAddr::new(Net::addr(server), PORT);
    let conn =
        net.io(peer).connect(remote, Local::ANY, &tcp::ConnOptions::default()).expect("a route");
    net.run_for(Duration::from_millis(10));
    conn
}

fn read(net: &mut Net, host: usize, conn: ConnId) -> usize {
    let got = net.io(host).recv(conn, &mut |slice| slice.len());
    got.map_or(0, |r| r.taken)
}

#[test]
fn clients_without_a_header_get_what_they_sent_or_what_was_agreed() {
    assert_eq!(answers(None, &[b"hello", b"x"]), [5, 1]);
    assert_eq!(
        answers(Some((10, 3)), &[b"0123456789", b"01234", b"56789", &[0; 30]]),
        [3, 0, 3, 9]
    );
    // What might have become a header and did not.
    assert_eq!(answers(None, &[b"MLRR", b"!"]), [0, 5]);
    assert_eq!(answers(None, &[b"M", b"LRR\x01\0\0\0\0\0\0\0"]), [0, 0]);
    let nonsense = b"MLRR\x01\xff\0\0\0\0\0\x40\0\0\0\x01";
    assert_eq!(answers(None, &[nonsense]), [16]);
    let header = Header { request: 20, response: 7, server_closes: false }.encode();
    assert_eq!(
        answers(Some((10, 3)), &[&header[..9], &header[9..], b"1234", &[0; 20]]),
        [0, 0, 7, 7]
    );
}
