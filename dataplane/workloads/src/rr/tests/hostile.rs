//! Peers that do not keep to the rules.

use super::*;

/// What a scripted server does on each connection once it has a request.
type Script = fn(&mut Net, usize, ConnId);

/// Run a client against a scripted server; what it makes of it.
fn against(script: Script, change: impl FnOnce(&mut ClientConfig)) -> Seen {
    let mut net = Net::new(Link::default());
    let server = net.add_host(None);
    net.io(server).listen(None, PORT, 16, &tcp::ConnOptions::default()).expect("free");
    let mut config = config(server);
    config.timeout = Duration::from_secs(2);
    config.setup.time = Duration::from_secs(5);
    change(&mut config);
    let client = net.add_host(Some(Box::new(Client::new(config))));
    for _ in 0..800 {
        net.run_for(Duration::from_millis(10));
        for event in net.take_events(server) {
            if let stack::AppEvent::Readable { conn } = event {
                script(&mut net, server, conn);
            }
        }
    }
    let seen = seen(&mut net, client);
    assert_eq!(net.open_conns(client), 0, "nothing is left");
    seen
}

fn short_and_closed(net: &mut Net, host: usize, conn: ConnId) {
    read(net, host, conn);
    let _ = net.io(host).send(conn, b"short", false);
    net.io(host).close(conn);
}

fn reset(net: &mut Net, host: usize, conn: ConnId) {
    let _ = net.io(host).send(conn, b"short", false);
    net.io(host).abort(conn);
}

fn too_much(net: &mut Net, host: usize, conn: ConnId) {
    read(net, host, conn);
    let _ = net.io(host).send(conn, &[0; 65], false);
}

fn silent(net: &mut Net, host: usize, conn: ConnId) {
    read(net, host, conn);
}

const SCRIPTS: [(Script, Failure); 4] = [
    (short_and_closed, Failure::ClosedEarly),
    (reset, Failure::Reset),
    (too_much, Failure::Surplus),
    (silent, Failure::NoAnswer),
];

#[test]
fn bad_servers_end_a_test_with_their_fault() {
    for (script, failure) in SCRIPTS {
        let seen = against(script, |_| {});
        assert_eq!(seen.end, Some(End::Failed(failure)));
        assert_eq!(seen.exit, Some(1), "{failure:?}");
        assert!(seen.totals.failures.iter().all(|(f, _)| f == failure), "{:?}", seen.totals);
    }
}

#[test]
fn bad_servers_fail_each_short_connection() {
    for close in [Close::Rst, Close::FinClient, Close::FinServer] {
        for (script, failure) in SCRIPTS {
            let seen = against(script, |c| c.setup.mode = connect(4, close));
            assert_eq!(seen.exit, Some(1), "{failure:?}");
            assert_eq!(seen.totals.count(), 0);
            assert!(seen.totals.failures.total() > 0, "{failure:?} {close:?}");
            assert!(
                seen.totals.failures.iter().all(|(f, _)| f == failure),
                "{failure:?} {close:?}: {:?}",
                seen.totals.failures
            );
        }
    }
}

#[test]
fn nobody_there_ends_a_test_at_once() {
    for mode in [ping(1, 1), connect(64, Close::Rst)] {
        let mut net = Net::new(Link::default());
        let nobody = net.add_host(None);
        let mut config = config(nobody);
        config.setup.mode = mode;
        let client = net.add_host(Some(Box::new(Client::new(config))));
        net.run_for(Duration::from_secs(1));
        let seen = seen(&mut net, client);
        assert_eq!((seen.end, seen.exit), (Some(End::Failed(Failure::Refused)), Some(1)));
    }
}

#[test]
fn one_lost_connection_of_several_is_a_failure_and_not_the_end() {
    let mut net = Net::new(Link::default());
    let server = net.add_host(Some(Box::new(Server::new(server_config()))));
    let mut config = config(server);
    config.setup.mode = ping(3, 1);
    let client = net.add_host(Some(Box::new(Client::new(config))));
    net.run_for(Duration::from_secs(1));
    net.reset_nth(server, 1);
    net.run_for(Duration::from_secs(15));
    let seen = seen(&mut net, client);
    assert_eq!((seen.end, seen.exit), (Some(End::Complete), Some(5)));
    assert_eq!(seen.totals.failures.total(), 1);
}

#[test]
fn a_server_that_dies_does_not_hold_the_client_up() {
    for mode in [ping(2, 4), connect(16, Close::Rst)] {
        let mut net = Net::new(Link::default());
        let server = net.add_host(Some(Box::new(Server::new(server_config()))));
        let mut config = config(server);
        config.setup.mode = mode;
        config.setup.time = Duration::from_secs(100);
        let client = net.add_host(Some(Box::new(Client::new(config))));
        net.run_for(Duration::from_secs(1));
        net.silence(server);
        net.run_for(Duration::from_secs(30));
        let seen = seen(&mut net, client);
        assert!(matches!(seen.end, Some(End::Failed(_))), "{:?}", seen.end);
        assert!(seen.totals.count() > 0);
    }
}

#[test]
fn a_client_that_does_not_read_holds_only_itself_up() {
    let mut net = Net::new(Link::default());
    let server = net.add_host(Some(Box::new(Server::new(server_config()))));
    let peer = net.add_host(None);
    net.run_for(Duration::from_millis(1));
    let conn = open(&mut net, peer, server);
    let header = Header { request: 16, response: 1 << 20, server_closes: false }.encode();
    for _ in 0..10 {
        net.io(peer).send(conn, &header, false).expect("open");
    }
    net.run_for(Duration::from_secs(5));
    let waiting = net.io(peer).readable(conn);
    assert!(waiting <= Link::default().buffer, "{waiting}");
    let mut got = 0;
    for _ in 0..2000 {
        got += read(&mut net, peer, conn);
        net.run_for(Duration::from_millis(10));
    }
    assert_eq!(got, 10 << 20);
    // It goes in the middle of a request, with an answer under way.
    net.io(peer).send(conn, &header, false).expect("open");
    net.io(peer).send(conn, b"half", false).expect("open");
    net.run_for(Duration::from_millis(20));
    net.io(peer).abort(conn);
    net.run_for(Duration::from_secs(1));
    assert_eq!(net.open_conns(server), 0);
}

#[test]
fn a_server_that_stops_closes_what_is_open() {
    let mut net = Net::new(Link::default());
    let server = net.add_host(Some(Box::new(Server::new(server_config()))));
    let peer = net.add_host(None);
    net.run_for(Duration::from_millis(1));
    let conns: Vec<ConnId> = (0..10).map(|_| open(&mut net, peer, server)).collect();
    net.event(server, stack::AppEvent::Stop);
    net.run_for(Duration::from_secs(1));
    for conn in conns {
        net.io(peer).close(conn);
    }
    net.run_for(Duration::from_secs(1));
    assert_eq!(net.open_conns(server), 0);
}
