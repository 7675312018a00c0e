//! Our client against our server.

use super::*;

fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

fn intervals(reports: &[Report]) -> Vec<&Interval> {
    let mut found = Vec::new();
    for report in reports {
        if let Report::Interval(interval) = report {
            found.push(interval.as_ref());
        }
    }
    found
}

fn received(s: &StreamSummary) -> u64 {
    s.received.expect("known").bytes
}

fn sent(s: &StreamSummary) -> u64 {
    s.sent.expect("known").bytes
}

/// The pipe carries 1 MB/s; what it carries and what is queued are the bounds.
#[track_caller]
fn assert_moved(s: &StreamSummary, seconds: u64) {
    let full = seconds * 1_000_000;
    assert!(received(s) > full - 200_000 && received(s) <= full + 10_000, "{s:?}");
    assert!(sent(s) >= received(s) && sent(s) <= received(s) + 150_000, "{s:?}");
}

#[test]
fn forward_by_time() {
    let mut ran = run(Params { time_secs: 3, ..Params::default() });
    ran.assert_clean();
    let client = ran.client_summary();
    assert_eq!(client.streams.len(), 1);
    assert_moved(&client.streams[0], 3);
    assert_eq!(intervals(&ran.client).len(), 3);
    assert_eq!(client.duration, secs(3));
    // What the server printed is what the client heard.
    let server = ran.server_summary();
    assert_eq!(received(&server.streams[0]), received(&client.streams[0]));
    assert_eq!(server.streams[0].sent, None);
    // The fake retransmits one segment in every 100 kB.
    let sender = client.streams[0].sent.expect("ours");
    assert_eq!(sender.retransmits, Some(sender.bytes / 100_000));
    let by_interval: u64 = intervals(&ran.client).iter().filter_map(|i| i.sum.retransmits).sum();
    assert_eq!(Some(by_interval), sender.retransmits);
    let bytes: u64 = intervals(&ran.client).iter().map(|i| i.sum.bytes).sum();
    assert_eq!(bytes, sender.bytes);
    assert_eq!(intervals(&ran.client)[0].streams[0].tcp.snd_cwnd, 10 * 1000);
    assert!(matches!(ran.server.first(), Some(Report::Listening { port: PORT, test: 1 })));
    assert!(matches!(ran.server.last(), Some(Report::Listening { test: 2, .. })));
}

#[test]
fn reverse_by_time() {
    let params = Params { time_secs: 3, direction: Direction::Reverse, ..Params::default() };
    let mut ran = run(params);
    ran.assert_clean();
    let client = ran.client_summary();
    assert!(!client.streams[0].sender);
    assert_moved(&client.streams[0], 3);
    // Retransmissions of the server travel in its results.
    let server = ran.server_summary();
    assert_eq!(
        client.streams[0].sent.expect("told").retransmits,
        Some(server.streams[0].sent.expect("ours").retransmits.expect("a sender"))
    );
    assert!(intervals(&ran.client).iter().all(|i| i.sum.retransmits.is_none()));
}

#[test]
fn bidirectional_roles_follow_the_order_of_streams() {
    let direction = Direction::Bidirectional;
    let mut ran = run(Params { time_secs: 2, parallel: 2, direction, ..Params::default() });
    ran.assert_clean();
    let client = ran.client_summary();
    let server = ran.server_summary();
    assert_eq!(client.streams.iter().map(|s| s.id).collect::<Vec<_>>(), [1, 3, 4, 5]);
    assert_eq!(
        client.streams.iter().map(|s| s.sender).collect::<Vec<_>>(),
        [true, true, false, false]
    );
    assert_eq!(
        server.streams.iter().map(|s| s.sender).collect::<Vec<_>>(),
        [false, false, true, true]
    );
    for s in &client.streams {
        assert_moved(s, 2);
    }
    let interval = intervals(&ran.client)[0];
    assert_eq!(interval.sum.bytes, interval.streams[0].bytes + interval.streams[1].bytes);
    let reverse = interval.sum_reverse.expect("two directions");
    assert_eq!(reverse.bytes, interval.streams[2].bytes + interval.streams[3].bytes);
    // Each id names the same connection on both sides.
    let of = |reports: &[Report]| -> Vec<(u32, u16)> {
        let info = |r: &Report| match r {
            Report::Connected(i) => Some((i.id, i.local.port().max(i.remote.port()))),
            _ => None,
        };
        reports.iter().filter_map(info).collect()
    };
    assert_eq!(of(&ran.client), of(&ran.server));
}

#[test]
fn a_hundred_and_twenty_eight_streams() {
    let link = Link { rate: 100_000, chunk: 4096, ..Link::default() };
    let direction = Direction::Bidirectional;
    let params = Params { time_secs: 1, parallel: 128, direction, ..Params::default() };
    let mut ran = run_with(link, server_config(), client_config(params));
    ran.assert_clean();
    let client = ran.client_summary();
    assert_eq!(client.streams.len(), 256);
    assert!(client.streams.iter().all(|s| received(s) > 50_000));
}

#[test]
fn n_sends_exactly_that_many_bytes() {
    for direction in [Direction::Forward, Direction::Bidirectional] {
        let mut ran = run(Params { num: 1_234_567, parallel: 3, direction, ..Params::default() });
        ran.assert_clean();
        let ours = ran.client_summary().streams.iter().filter(|s| s.sender);
        let total: u64 = ours.map(sent).sum();
        match direction {
            Direction::Forward => assert_eq!(total, 1_234_567),
            // Either direction may be the first to reach it.
            _ => assert!((1_000_000..=1_234_567).contains(&total), "{total}"),
        }
    }
}

#[test]
fn n_in_reverse_ends_when_received() {
    let params = Params { num: 500_000, direction: Direction::Reverse, ..Params::default() };
    let mut ran = run(params);
    ran.assert_clean();
    let got = received(&ran.client_summary().streams[0]);
    assert!((500_000..520_000).contains(&got), "{got}");
}

#[test]
fn k_sends_whole_blocks() {
    let mut ran = run(Params { blockcount: 100, len: 777, parallel: 2, ..Params::default() });
    ran.assert_clean();
    let summary = ran.client_summary();
    assert_eq!(summary.streams.iter().map(sent).sum::<u64>(), 77_700);
    assert!(summary.streams.iter().all(|s| sent(s).is_multiple_of(777)));
}

#[test]
fn omitted_seconds_do_not_count() {
    let mut ran = run(Params { time_secs: 2, omit_secs: 1, ..Params::default() });
    ran.assert_clean();
    let rows = intervals(&ran.client);
    assert_eq!(rows.iter().map(|i| i.sum.omitted).collect::<Vec<_>>(), [true, false, false]);
    assert_eq!(rows.iter().map(|i| i.sum.start).collect::<Vec<_>>(), [secs(0), secs(0), secs(1)]);
    let summary = ran.client_summary();
    assert_eq!(summary.duration, secs(2));
    // Both sides cut at their own time, with what is on its way in between.
    let (sent_bytes, got) = (sent(&summary.streams[0]), received(&summary.streams[0]));
    assert!(sent_bytes.abs_diff(2_000_000) < 70_000 && got.abs_diff(2_000_000) < 70_000);
    assert_eq!(sent_bytes, rows[1].sum.bytes + rows[2].sum.bytes);
    let server: Vec<_> = intervals(&ran.server).iter().map(|i| i.sum.omitted).collect();
    assert_eq!(server.iter().filter(|omitted| **omitted).count(), 1, "keeps time by itself");
}

#[test]
fn a_rate_is_kept_on_both_sides() {
    for direction in [Direction::Forward, Direction::Reverse] {
        for burst in [0, 5] {
            let bandwidth = 800_000;
            let mut ran = run(Params {
                time_secs: 4,
                len: 1000,
                bandwidth,
                burst,
                parallel: 2,
                direction,
                ..Params::default()
            });
            ran.assert_clean();
            for s in &ran.client_summary().streams {
                // 100 kB/s for 4 s, and one more burst.
                let limit = 400_000 + 1000 * u64::from(burst.max(1));
                assert!((390_000..=limit).contains(&sent(s)), "{direction:?} {burst} {}", sent(s));
            }
        }
    }
}

#[test]
fn one_byte_at_a_time() {
    let link = Link { chunk: 1, ..Link::default() };
    for direction in [Direction::Forward, Direction::Reverse, Direction::Bidirectional] {
        let params = Params { num: 20_000, parallel: 2, direction, len: 100, ..Params::default() };
        run_with(link, server_config(), client_config(params)).assert_clean();
    }
}

#[test]
fn all_at_once() {
    let link = Link { delay: Duration::ZERO, chunk: usize::MAX, rate: u64::MAX, buffer: 1 << 20 };
    for direction in [Direction::Forward, Direction::Reverse, Direction::Bidirectional] {
        let params = Params { num: 50_000_000, parallel: 2, direction, ..Params::default() };
        run_with(link, server_config(), client_config(params)).assert_clean();
    }
}

#[test]
fn small_blocks_are_counted_as_such() {
    let mut ran = run(Params { blockcount: 5000, len: 1, ..Params::default() });
    ran.assert_clean();
    assert_eq!(sent(&ran.client_summary().streams[0]), 5000);
}

#[test]
fn the_payload_can_be_verified() {
    for direction in [Direction::Forward, Direction::Reverse, Direction::Bidirectional] {
        let params = Params {
            num: 300_000,
            len: 1234,
            direction,
            repeating_payload: true,
            ..Params::default()
        };
        let server = ServerConfig { verify: true, ..server_config() };
        let client = ClientConfig { verify: true, ..client_config(params) };
        let mut ran = run_with(Link { chunk: 997, ..Link::default() }, server, client);
        ran.assert_clean();
        let all = ran.client_summary().streams.iter().chain(&ran.server_summary().streams);
        for s in all.filter(|s| !s.sender) {
            let check = s.integrity.expect("asked for");
            assert!(check.checked_bytes > 100_000);
            assert_eq!(check.first_mismatch, None);
        }
    }
}

#[test]
fn a_wrong_byte_is_found() {
    let mut net = net_with(Link::default(), ServerConfig { verify: true, ..server_config() });
    let params = json!({ "tcp": true, "len": 10, "repeating_payload": 1 });
    let (script, data) = Script::to_running(&mut net, &params);
    send(&mut net, script.host, data, b"0123456789012345x789");
    script.say(&mut net, &[4]);
    let all = reports(&mut net, SERVER);
    assert_eq!(warnings(&all), ["stream 5: wrong payload at byte 16"]);
    assert_eq!(summary(&all).streams[0].integrity.expect("asked for").first_mismatch, Some(16));
}

#[test]
fn server_output_is_fetched_as_text_and_as_json() {
    let params = Params { time_secs: 1, get_server_output: true, ..Params::default() };
    let mut ran = run(params.clone());
    ran.assert_clean();
    let output = ran.client.iter().find_map(|r| match r {
        Report::ServerOutput(ServerOutput::Text(text)) => Some(text),
        _ => None,
    });
    let text = output.expect("text");
    assert!(text.starts_with("Accepted connection from 10.0.0.2, port "), "{text}");
    assert!(text.ends_with("receiver\n"), "{text}");
    let config = ServerConfig { json: true, ..server_config() };
    let mut ran = run_with(Link::default(), config, client_config(params));
    ran.assert_clean();
    let output = ran.client.iter().find_map(|r| match r {
        Report::ServerOutput(ServerOutput::Json(value)) => Some(value),
        _ => None,
    });
    let value = output.expect("a document");
    assert_eq!(value["start"]["connected"][0]["local_port"], PORT);
    assert!(value["end"]["sum_received"]["bytes"].as_u64() > Some(500_000));
}

#[test]
fn window_mss_and_congestion_reach_the_connections() {
    let params = Params {
        num: 1000,
        window: Some(262_144),
        mss: Some(1200),
        nodelay: true,
        congestion: Some("reno".to_owned()),
        ..Params::default()
    };
    let mut ran = run(params);
    ran.assert_clean();
    assert_eq!(ran.client_summary().congestion_local.as_deref(), Some("reno"));
    assert_eq!(ran.client_summary().congestion_remote.as_deref(), Some("reno"));
    let started = ran.server.iter().find_map(|r| match r {
        Report::Started(info) => Some(info),
        _ => None,
    });
    assert_eq!(started.expect("started").rcvbuf, 524_288);
    // The next session starts from the defaults.
    let options = ran.net.accept_options(SERVER).expect("listens");
    assert_eq!((options.rcvbuf, options.mss, options.congestion), (None, None, None));
}

#[test]
fn an_unknown_congestion_control_is_only_a_warning() {
    let params = Params { num: 1000, congestion: Some("vegas".to_owned()), ..Params::default() };
    let mut ran = run(params);
    ran.assert_clean();
    assert!(warnings(&ran.client)[0].contains("vegas"));
    assert!(warnings(&ran.server)[0].contains("vegas"));
}

#[test]
fn a_buffer_that_cannot_be_had_is_fatal() {
    // The fake grants 8 MiB at most.
    let ran = run(Params { window: Some(64 << 20), ..Params::default() });
    assert_eq!(ran.exit, Some(1));
    assert_eq!(errors(&ran.client), ["socket buffer size not set correctly"]);
    let mut net = net_with(Link::default(), server_config());
    let script = Script::open(&mut net);
    script.expect(&mut net, &[9]);
    script.say_json(&mut net, &json!({ "tcp": true, "len": 1000, "window": 64 << 20 }));
    script.open_stream(&mut net);
    script.expect(&mut net, &[10, 0xFE, 0, 0, 0, 141, 0, 0, 0, 0]);
    assert_serves(&mut net);
}

#[test]
fn cport_gives_consecutive_ports() {
    let params =
        Params { num: 1000, parallel: 2, direction: Direction::Bidirectional, ..Params::default() };
    let config = ClientConfig { local_port: Some(7000), ..client_config(params.clone()) };
    let mut ran = run_with(Link::default(), server_config(), config);
    ran.assert_clean();
    let ports = ran.client.iter().filter_map(|r| match r {
        Report::Connected(info) => Some(info.local.port()),
        _ => None,
    });
    assert_eq!(ports.collect::<Vec<_>>(), [7000, 7001, 7002, 7003]);
    let config = ClientConfig { local_port: Some(65_534), ..client_config(params) };
    let ran = run_with(Link::default(), server_config(), config);
    assert_eq!(ran.exit, Some(1));
    assert!(errors(&ran.client)[0].starts_with("unable to connect stream"));
}

#[test]
fn nobody_listens() {
    let mut net = Net::new(Link::default());
    net.add_host(None);
    let host = net.add_host(Some(Box::new(Client::new(client_config(Params::default())))));
    net.run_for(secs(1));
    let all = reports(&mut net, host);
    assert_eq!(errors(&all), ["unable to connect to server: Connection refused"]);
    assert_eq!(net.exit_code(host), Some(1));
}

#[test]
fn the_connect_timeout_is_kept() {
    let mut net = net_with(Link::default(), server_config());
    net.silence(SERVER);
    let limit = Some(Duration::from_millis(300));
    let config = ClientConfig { connect_timeout: limit, ..client_config(Params::default()) };
    let host = net.add_host(Some(Box::new(Client::new(config))));
    net.run_for(Duration::from_millis(299));
    assert_eq!(net.exit_code(host), None);
    net.run_for(Duration::from_millis(2));
    assert_eq!(net.exit_code(host), Some(1));
    let all = reports(&mut net, host);
    assert_eq!(errors(&all), ["unable to connect to server: Connection timed out"]);
}

#[test]
fn one_off_serves_one_test_and_scanners_do_not_count() {
    let mut net = net_with(Link::default(), ServerConfig { one_off: true, ..server_config() });
    let scanner = net.add_host(None);
    let conn = connect(&mut net, scanner);
    net.io(scanner).close(conn);
    net.run_for(secs(1));
    let full = Script::open(&mut net);
    full.say_text(&mut net, "garbage");
    net.run_for(secs(3));
    assert_eq!(net.exit_code(SERVER), None);
    let params = Params { num: 1000, ..Params::default() };
    let host = net.add_host(Some(Box::new(Client::new(client_config(params)))));
    net.run_for(secs(5));
    assert_eq!(net.exit_code(host), Some(0));
    assert_eq!(net.exit_code(SERVER), Some(0));
    assert!(!net.is_listening(SERVER));
}

#[test]
fn one_off_and_idle() {
    let idle_timeout = Some(secs(5));
    let config = ServerConfig { one_off: true, idle_timeout, ..server_config() };
    let mut net = net_with(Link::default(), config);
    net.run_for(Duration::from_millis(4900));
    assert_eq!(net.exit_code(SERVER), None);
    net.run_for(secs(1));
    assert_eq!(net.exit_code(SERVER), Some(1));
}

#[test]
fn a_port_in_use_is_an_error() {
    let mut net = net_with(Link::default(), server_config());
    net.io(SERVER).close_listener(base::ListenerId(0));
    let config = ServerConfig { port: 0, ..server_config() };
    let host = net.add_host(Some(Box::new(Server::new(config))));
    net.run_for(secs(1));
    assert_eq!(net.exit_code(host), Some(1));
    let all = reports(&mut net, host);
    assert_eq!(errors(&all), ["unable to start listener for connections: invalid port"]);
}

#[test]
fn an_interrupted_client_says_so_and_the_server_listens_again() {
    let mut net = net_with(Link::default(), server_config());
    let host = net.add_host(Some(Box::new(Client::new(client_config(Params::default())))));
    net.run_for(secs(2));
    stop(&mut net, host);
    let client = reports(&mut net, host);
    assert_eq!(net.exit_code(host), Some(0));
    assert!(client.contains(&Report::Interrupted(Code::CLIENT_TERMINATED)));
    assert!(sent(&summary(&client).streams[0]) > 1_500_000);
    let server = reports(&mut net, SERVER);
    assert_eq!(errors(&server), ["the client has terminated"]);
    assert!(received(&summary(&server).streams[0]) > 1_500_000);
    assert_serves(&mut net);
}

#[test]
fn an_interrupted_server_tells_its_client() {
    let mut net = net_with(Link::default(), server_config());
    let host = net.add_host(Some(Box::new(Client::new(client_config(Params::default())))));
    net.run_for(secs(2));
    stop(&mut net, SERVER);
    let client = reports(&mut net, host);
    assert_eq!(net.exit_code(host), Some(1));
    assert_eq!(errors(&client), ["the server has terminated"]);
    assert!(sent(&summary(&client).streams[0]) > 1_500_000);
    assert_eq!(net.exit_code(SERVER), Some(0));
    assert!(!net.is_listening(SERVER));
    assert_eq!(net.open_conns(SERVER), 0);
}

#[test]
fn reports_are_kept_while_nobody_takes_them() {
    let mut net = net_with(Link::default(), server_config());
    let params = Params { time_secs: 3, ..Params::default() };
    let host = net.add_host(Some(Box::new(Client::new(client_config(params)))));
    net.run_for(secs(1));
    net.set_deaf(host, true);
    net.run_for(secs(9));
    assert_eq!(net.exit_code(host), None, "exits only once its reports are out");
    net.set_deaf(host, false);
    net.run_for(secs(1));
    assert_eq!(net.exit_code(host), Some(0));
    let all = reports(&mut net, host);
    assert_eq!(intervals(&all).len(), 3);
    assert_eq!(all.last(), Some(&Report::Done { success: true }));
}

#[test]
fn the_queue_of_reports_is_bounded_and_prefers_results() {
    let mut net = net_with(Link { rate: 10_000, ..Link::default() }, server_config());
    let params = Params { time_secs: 200, ..Params::default() };
    let interval = Some(Duration::from_millis(100));
    let config = ClientConfig { interval, ..client_config(params) };
    let host = net.add_host(Some(Box::new(Client::new(config))));
    net.set_deaf(host, true);
    net.run_for(secs(220));
    net.set_deaf(host, false);
    net.run_for(secs(1));
    let all = reports(&mut net, host);
    assert_eq!(net.exit_code(host), Some(0));
    assert!(all.len() <= outbox::QUEUE_MAX + 1, "{}", all.len());
    assert!(warnings(&all)[0].contains("reports were lost"), "{:?}", warnings(&all));
    assert_eq!(summary(&all).duration, secs(200));
    assert_eq!(all.last(), Some(&Report::Done { success: true }));
}

#[test]
fn without_an_interval_there_are_no_interval_reports() {
    let params = Params { time_secs: 2, ..Params::default() };
    let server = ServerConfig { interval: None, ..server_config() };
    let client = ClientConfig { interval: None, ..client_config(params) };
    let mut ran = run_with(Link::default(), server, client);
    ran.assert_clean();
    assert!(intervals(&ran.client).is_empty() && intervals(&ran.server).is_empty());
    assert_moved(&ran.client_summary().streams[0], 2);
}

#[test]
fn two_tests_in_a_row_have_their_numbers() {
    let mut ran = run(Params { num: 1000, ..Params::default() });
    ran.assert_clean();
    let net = &mut ran.net;
    assert_serves(net);
    let all = reports(net, SERVER);
    assert!(all.contains(&Report::Listening { port: PORT, test: 3 }), "{all:?}");
    assert!(net.now > at(0));
}
