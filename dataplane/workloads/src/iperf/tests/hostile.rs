//! Peers that are busy, broken, gone or hostile. After each of them the server serves the next
//! client and has no connection left.

use proptest::prelude::*;

use super::*;

fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

fn new_net() -> Net {
    net_with(Link::default(), server_config())
}

/// Where a client can be when something happens to it.
#[derive(Clone, Copy, Debug)]
enum Stage {
    PartOfCookie,
    Cookie,
    PartOfParams,
    Params,
    SomeStreams,
    PartOfStreamCookie,
    Running,
    Ended,
    PartOfResults,
    Results,
}

const STAGES: [Stage; 10] = [
    Stage::PartOfCookie,
    Stage::Cookie,
    Stage::PartOfParams,
    Stage::Params,
    Stage::SomeStreams,
    Stage::PartOfStreamCookie,
    Stage::Running,
    Stage::Ended,
    Stage::PartOfResults,
    Stage::Results,
];

/// A scripted client that stops at `stage`.
fn client_at(net: &mut Net, stage: Stage) -> Script {
    let host = net.add_host(None);
    let cookie = format!("{host:b>36}\0").into_bytes();
    let control = connect(net, host);
    let script = Script { host, cookie, control };
    if matches!(stage, Stage::PartOfCookie) {
        script.say(net, &script.cookie[..36]);
        return script;
    }
    script.say(net, &script.cookie);
    script.expect(net, &[9]);
    if matches!(stage, Stage::Cookie) {
        return script;
    }
    let params = json!({ "tcp": true, "parallel": 2, "len": 1000, "bidirectional": true });
    if matches!(stage, Stage::PartOfParams) {
        script.say(net, &[0, 0, 0, 100, b'{']);
        return script;
    }
    script.say_json(net, &params);
    script.expect(net, &[10]);
    if matches!(stage, Stage::Params) {
        return script;
    }
    let streams: Vec<_> = (0..3).map(|_| script.open_stream(net)).collect();
    if matches!(stage, Stage::SomeStreams) {
        return script;
    }
    let last = connect(net, host);
    send(net, host, last, &script.cookie[..20]);
    if matches!(stage, Stage::PartOfStreamCookie) {
        return script;
    }
    send(net, host, last, &script.cookie[20..]);
    script.expect(net, &[1, 2]);
    send(net, host, streams[0], &[b'x'; 5000]);
    if matches!(stage, Stage::Running) {
        return script;
    }
    script.say(net, &[4]);
    script.expect(net, &[13]);
    if matches!(stage, Stage::Ended) {
        return script;
    }
    let results = minimal_results(1).to_string();
    if matches!(stage, Stage::PartOfResults) {
        script.say(net, &[0, 0, 0, 200]);
        script.say(net, &results.as_bytes()[..100]);
        return script;
    }
    script.say_text(net, &results);
    assert_eq!(heard(net, host, control).last(), Some(&14));
    script
}

#[test]
fn a_killed_client_frees_the_server_at_once() {
    for stage in STAGES {
        let mut net = new_net();
        let script = client_at(&mut net, stage);
        net.kill(script.host);
        net.run_for(secs(3));
        assert_eq!(net.open_conns(SERVER), 0, "{stage:?}");
        assert_serves(&mut net);
    }
}

#[test]
fn a_client_that_fell_silent_frees_the_server_within_its_limit() {
    for stage in STAGES {
        let mut net = new_net();
        let script = client_at(&mut net, stage);
        net.silence(script.host);
        let limit = match stage {
            Stage::PartOfCookie | Stage::Cookie => secs(13),
            // Bidirectional and nothing received: the idle limit, well before the 50 s of the test.
            Stage::Running => secs(53),
            _ => secs(33),
        };
        net.run_for(limit);
        assert_eq!(net.open_conns(SERVER), 0, "{stage:?}");
        assert_serves(&mut net);
    }
}

#[test]
fn a_client_that_stays_and_says_nothing_is_thrown_out() {
    for stage in STAGES {
        let mut net = new_net();
        client_at(&mut net, stage);
        net.run_for(secs(65));
        assert_eq!(net.open_conns(SERVER), 0, "{stage:?}");
        assert_serves(&mut net);
    }
}

#[test]
fn a_server_that_dies_ends_the_client() {
    for kill in [true, false] {
        for ms in [2, 4, 6, 8, 10, 12, 500, 1500] {
            let mut net = new_net();
            let direction = if ms % 4 == 0 { Direction::Reverse } else { Direction::Forward };
            let params = Params { parallel: 2, direction, time_secs: 1000, ..Params::default() };
            let connect_timeout = Some(secs(30));
            let config = ClientConfig { connect_timeout, ..client_config(params) };
            let host = net.add_host(Some(Box::new(Client::new(config))));
            net.run_for(Duration::from_millis(ms));
            if kill {
                net.kill(SERVER);
                net.run_for(secs(1));
                // Nobody listens any more where a kernel would refuse.
                net.run_for(secs(30));
            } else {
                net.silence(SERVER);
                net.run_for(secs(125));
            }
            let all = reports(&mut net, host);
            assert_eq!(net.exit_code(host), Some(1), "{kill} {ms} {all:#?}");
            assert_eq!(errors(&all).len(), 1);
            assert_eq!(net.open_conns(host), 0, "{kill} {ms}");
        }
    }
}

#[test]
fn intruders_are_told_to_come_back_and_the_test_does_not_notice() {
    // Until the test runs, while it runs, and when it has ended.
    for stage in STAGES.into_iter().skip(1) {
        let mut net = new_net();
        let script = client_at(&mut net, stage);
        let mut intruders = Vec::new();
        for _ in 0..10 {
            intruders.push(net.add_host(Some(Box::new(Client::new(client_config(Params {
                num: 1000,
                ..Params::default()
            }))))));
        }
        net.run_for(secs(4));
        for host in intruders {
            let all = reports(&mut net, host);
            assert_eq!(
                errors(&all),
                ["the server is busy running a test. try again later"],
                "{stage:?}"
            );
            assert_eq!(net.exit_code(host), Some(1));
        }
        // Whoever was first is still there.
        let all = reports(&mut net, SERVER);
        assert_eq!(errors(&all), Vec::<String>::new(), "{stage:?}");
        net.kill(script.host);
        net.run_for(secs(3));
        assert_serves(&mut net);
    }
}

#[test]
fn intruders_cost_a_running_test_nothing() {
    let quiet = run(Params { time_secs: 3, ..Params::default() });
    let mut net = new_net();
    let params = Params { time_secs: 3, ..Params::default() };
    let host = net.add_host(Some(Box::new(Client::new(client_config(params)))));
    for _ in 0..28 {
        net.run_for(Duration::from_millis(100));
        let intruder = net.add_host(None);
        for len in [0, 1, 36, 37, 60] {
            let conn = connect(&mut net, intruder);
            send(&mut net, intruder, conn, &vec![b'i'; len]);
        }
    }
    net.run_for(secs(5));
    assert_eq!(net.exit_code(host), Some(0));
    let client = reports(&mut net, host);
    let streams = (&summary(&client).streams, &quiet.client_summary().streams);
    assert_eq!(streams.0[0].received, streams.1[0].received);
    net.run_for(secs(5));
    assert_eq!(net.open_conns(SERVER), 0);
}

#[test]
fn port_scanners_do_not_keep_a_client_out() {
    let mut net = new_net();
    let scanner = net.add_host(None);
    for len in [0, 1, 36] {
        let conn = connect(&mut net, scanner);
        send(&mut net, scanner, conn, &vec![b's'; len]);
    }
    // They still hold their connections.
    assert_serves(&mut net);
}

#[test]
fn too_many_silent_connections_are_refused_and_forgotten() {
    let mut net = new_net();
    let scanner = net.add_host(None);
    for _ in 0..600 {
        let _ = net.io(scanner).connect(server_addr(), Local::ANY, &Default::default());
    }
    net.run_for(secs(1));
    assert!(net.open_conns(SERVER) <= 600);
    net.run_for(secs(11));
    assert_eq!(net.open_conns(SERVER), 0);
    assert_serves(&mut net);
}

#[test]
fn a_data_connection_with_a_wrong_cookie_is_refused_and_the_test_goes_on() {
    let mut net = new_net();
    let script = Script::open(&mut net);
    script.expect(&mut net, &[9]);
    script.say_json(&mut net, &minimal_params());
    script.expect(&mut net, &[10]);
    let stranger = net.add_host(None);
    let wrong = connect(&mut net, stranger);
    send(&mut net, stranger, wrong, &[b'w'; 37]);
    assert_eq!(heard(&mut net, stranger, wrong), [0xFF]);
    script.open_stream(&mut net);
    script.expect(&mut net, &[1, 2]);
    // One too many, although it knows the cookie.
    let extra = script.open_stream(&mut net);
    assert_eq!(heard(&mut net, script.host, extra), [0xFF]);
    script.say(&mut net, &[12]);
    assert_serves(&mut net);
}

#[test]
fn fewer_streams_than_announced_end_in_an_error_record() {
    let mut net = new_net();
    let script = client_at(&mut net, Stage::SomeStreams);
    net.run_for(secs(30));
    script.expect(&mut net, &[0xFE, 0, 0, 0, 204, 0, 0, 0, 0]);
    assert_serves(&mut net);
}

#[test]
fn a_test_that_does_not_end_is_ended() {
    let mut net = new_net();
    let params = json!({ "tcp": true, "len": 1000, "time": 5, "omit": 1 });
    let (script, data) = Script::to_running(&mut net, &params);
    for _ in 0..45 {
        send(&mut net, script.host, data, b"still here");
        net.run_for(secs(1));
    }
    net.run_for(secs(1));
    script.expect(&mut net, &[0xFE, 0, 0, 0, 160, 0, 0, 0, 0]);
    let all = reports(&mut net, SERVER);
    assert_eq!(errors(&all), ["server test duration expired"]);
    assert_eq!(summary(&all).streams[0].received.map(|t| t.bytes > 300), Some(true));
    assert_serves(&mut net);
}

#[test]
fn a_sender_that_sends_nothing_runs_into_the_idle_limit() {
    let config = ServerConfig { rcv_timeout: secs(5), ..server_config() };
    let mut net = net_with(Link::default(), config);
    let params = json!({ "tcp": true, "len": 1000, "time": 0 });
    let (script, _) = Script::to_running(&mut net, &params);
    net.run_for(secs(6));
    script.expect(&mut net, &[0xFE, 0, 0, 0, 144, 0, 0, 0, 0]);
    assert_serves(&mut net);
}

#[test]
fn a_receiver_that_does_not_read_runs_into_the_idle_limit() {
    let config = ServerConfig { rcv_timeout: secs(5), ..server_config() };
    let mut net = net_with(Link::default(), config);
    let params = json!({ "tcp": true, "len": 1000, "time": 0, "reverse": true });
    let (script, _) = Script::to_running(&mut net, &params);
    net.run_for(secs(6));
    script.expect(&mut net, &[0xFE, 0, 0, 0, 144, 0, 0, 0, 0]);
    assert_serves(&mut net);
}

#[test]
fn a_data_connection_that_is_reset_ends_the_test_on_both_sides() {
    for direction in [Direction::Forward, Direction::Reverse] {
        let mut net = new_net();
        let params = Params { parallel: 2, direction, time_secs: 100, ..Params::default() };
        let host = net.add_host(Some(Box::new(Client::new(client_config(params)))));
        net.run_for(secs(2));
        // The first connection is the control connection.
        net.reset_nth(SERVER, 2);
        net.run_for(secs(15));
        assert_eq!(net.exit_code(host), Some(1));
        let client = reports(&mut net, host);
        let text = match direction {
            Direction::Forward => "unable to write to stream socket",
            _ => "unable to read from stream socket",
        };
        assert_eq!(errors(&client).len() + errors(&reports(&mut net, SERVER)).len(), 2);
        assert!(errors(&client)[0] == text || errors(&client)[0].contains("stream socket"));
        assert_serves(&mut net);
    }
}

#[test]
fn a_reset_of_the_control_connection_ends_the_test() {
    let mut net = new_net();
    let host = net.add_host(Some(Box::new(Client::new(client_config(Params::default())))));
    net.run_for(secs(2));
    net.reset_nth(host, 0);
    net.run_for(secs(3));
    assert_eq!(net.exit_code(host), Some(1));
    let all = reports(&mut net, SERVER);
    assert_eq!(errors(&all), ["the client has unexpectedly closed the connection"]);
    assert_serves(&mut net);
}

#[test]
fn bad_parameters_are_refused_with_their_code() {
    let long = format!("{{\"title\":\"{}\"}}", "x".repeat(8190));
    let rows: &[(&str, &str, i32)] = &[
        ("not JSON", "garbage", 114),
        ("not an object", "[1]", 114),
        ("nesting", &"[".repeat(8000), 114),
        ("NaN", "{\"tcp\":NaN}", 114),
        ("too long", &long, 114),
        ("UDP", "{\"udp\":true}", 13),
        ("SCTP", "{\"sctp\":true}", 18),
        ("MPTCP", "{\"tcp\":true,\"mptcp\":true}", 13),
        ("authentication", "{\"tcp\":true,\"authtoken\":\"x\"}", 142),
        ("both directions", "{\"reverse\":true,\"bidirectional\":true}", 25),
        ("duration", "{\"time\":86401}", 5),
        ("negative duration", "{\"time\":-1}", 5),
        ("negative as unsigned", "{\"time\":18446744073709551615}", 5),
        ("omit", "{\"omit\":601}", 12),
        ("no streams", "{\"parallel\":0}", 6),
        ("streams", "{\"parallel\":129}", 6),
        ("block 0", "{\"len\":0}", 7),
        ("block", "{\"len\":1048577}", 7),
        ("huge block", "{\"len\":1e300}", 7),
        ("window", "{\"window\":536870913}", 8),
        ("MSS", "{\"MSS\":32768}", 10),
        ("burst", "{\"burst\":1001}", 15),
        ("TOS", "{\"TOS\":256}", 21),
        ("bytes", "{\"num\":-5}", 114),
        ("flow label", "{\"flowlabel\":1048576}", 127),
        ("affinity", "{\"server_affinity\":1025}", 132),
    ];
    for (name, text, code) in rows {
        let mut net = new_net();
        let script = Script::open(&mut net);
        script.expect(&mut net, &[9]);
        script.say_text(&mut net, text);
        let mut record = vec![0xFE];
        record.extend(code.to_be_bytes());
        record.extend([0; 4]);
        assert_eq!(heard(&mut net, script.host, script.control), record, "{name}");
        assert_serves(&mut net);
    }
}

#[test]
fn bad_lengths_of_parameters_are_refused_before_anything_is_kept() {
    for length in [0u32, 8193, 0x7FFF_FFFF, 0xFFFF_FFFF] {
        let mut net = new_net();
        let script = Script::open(&mut net);
        script.expect(&mut net, &[9]);
        script.say(&mut net, &length.to_be_bytes());
        script.expect(&mut net, &[0xFE, 0, 0, 0, 114, 0, 0, 0, 0]);
        assert_serves(&mut net);
    }
}

#[test]
fn wrong_types_are_ignored_with_a_warning() {
    let mut net = new_net();
    let params = json!({
        "tcp": 1, "len": "big", "time": {}, "parallel": [2], "title": 7, "congestion": null,
        "nodelay": 0, "TOS": 8, "unknown": [[[]]],
    });
    let (script, _) = Script::to_running(&mut net, &params);
    let all = reports(&mut net, SERVER);
    let said = warnings(&all).join("\n");
    for key in ["len", "time", "parallel", "title", "congestion", "nodelay", "TOS"] {
        assert!(said.contains(&format!("{key:?}")), "{key}: {said}");
    }
    script.say(&mut net, &[12]);
    assert_serves(&mut net);
}

#[test]
fn a_flag_that_is_false_is_on() {
    let mut net = new_net();
    let params = json!({ "tcp": true, "len": 1000, "reverse": false });
    let (script, data) = Script::to_running(&mut net, &params);
    net.run_for(secs(1));
    assert!(heard(&mut net, script.host, data).len() > 10_000, "the server sends");
    let all = reports(&mut net, SERVER);
    assert_eq!(warnings(&all), ["the client sends \"reverse\": false, which means it is on"]);
}

#[test]
fn states_out_of_order_are_answered_and_end_the_session() {
    for byte in [1u8, 2, 3, 9, 10, 13, 14, 15, 16, 0, 77, 0xFE, 0xFF] {
        for stage in [Stage::Params, Stage::Running] {
            let mut net = new_net();
            let script = client_at(&mut net, stage);
            script.say(&mut net, &[byte]);
            assert_eq!(
                heard(&mut net, script.host, script.control),
                [0xFE, 0, 0, 0, 110, 0, 0, 0, 0],
                "{byte} at {stage:?}"
            );
            assert_serves(&mut net);
        }
    }
}

#[test]
fn a_client_that_does_not_wait_for_its_turn_is_served() {
    let mut net = new_net();
    let host = net.add_host(None);
    let control = connect(&mut net, host);
    let body = minimal_params().to_string();
    let mut all = vec![b'c'; 37];
    all.extend((body.len() as u32).to_be_bytes());
    all.extend(body.as_bytes());
    send(&mut net, host, control, &all);
    assert_eq!(heard(&mut net, host, control), [9, 10]);
    // Cookie and first data in one segment; both data and TEST_END before the server has started.
    let data = connect(&mut net, host);
    let mut bytes = vec![b'c'; 37];
    bytes.extend([b'x'; 5000]);
    send(&mut net, host, control, &[]);
    send(&mut net, host, data, &bytes);
    assert_eq!(heard(&mut net, host, control), [1, 2]);
    send(&mut net, host, control, &[4]);
    let server = reports(&mut net, SERVER);
    assert_eq!(summary(&server).streams[0].received.map(|t| t.bytes), Some(5000));
    net.kill(host);
    assert_serves(&mut net);
}

#[test]
fn an_iperf2_client_is_no_client() {
    let mut net = new_net();
    let host = net.add_host(None);
    // iperf2 sends data at once; its first bytes are a header and then digits.
    let conn = connect(&mut net, host);
    for _ in 0..20 {
        send(&mut net, host, conn, &[b'0'; 4096]);
    }
    net.run_for(secs(3));
    assert_eq!(net.open_conns(SERVER), 0);
    assert_serves(&mut net);
}

#[test]
fn requested_durations_are_held_against_the_servers_maximum() {
    let config = || ServerConfig { max_duration_secs: Some(60), ..server_config() };
    for (time_secs, omit_secs, fine) in [(1, 0, true), (61, 0, false), (60, 1, false)] {
        let params = Params { time_secs, omit_secs, ..Params::default() };
        let ran = run_with(Link::default(), config(), client_config(params));
        assert_eq!(ran.exit, Some(u8::from(!fine)));
        if !fine {
            assert!(errors(&ran.client)[0].starts_with("client's requested duration exceeds"));
        }
    }
}

#[test]
fn bad_results_end_the_session_with_a_record() {
    let mut other = minimal_results(2);
    let rows: Vec<(&str, String, i32)> = vec![
        ("garbage", "garbage".to_owned(), 117),
        ("nothing", "{}".to_owned(), 117),
        ("unknown stream", minimal_results(99).to_string(), 208),
        (
            "half of a pair",
            {
                other["streams"][0]["id"] = 1.into();
                other["streams"][0]["omitted_errors"] = 0.into();
                other.to_string()
            },
            117,
        ),
    ];
    for (name, text, code) in rows {
        let mut net = new_net();
        let (script, _) = Script::to_running(&mut net, &minimal_params());
        script.say(&mut net, &[4]);
        script.expect(&mut net, &[13]);
        script.say_text(&mut net, &text);
        let bytes = heard(&mut net, script.host, script.control);
        assert_eq!(bytes.get(..5), Some([0xFE, 0, 0, 0, code as u8].as_slice()), "{name}");
        assert_serves(&mut net);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_at_any_stage_leave_a_server_that_serves(
        stage in 0..STAGES.len(),
        pieces in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..64),
                prop::sample::select(vec![vec![4u8], vec![12], vec![13], vec![16], vec![0, 0, 0, 2],
                    b"{}".to_vec(), vec![0, 0, 0, 12], b"{\"tcp\":true}".to_vec()]),
            ],
            0..12,
        ),
        kill in any::<bool>(),
    ) {
        let mut net = new_net();
        let script = client_at(&mut net, STAGES[stage]);
        for piece in pieces {
            script.say(&mut net, &piece);
        }
        if kill {
            net.kill(script.host);
        }
        net.run_for(secs(95));
        assert_serves(&mut net);
    }

    #[test]
    fn any_answer_of_a_server_ends_the_client(
        answers in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..16),
                prop::sample::select(vec![vec![9u8], vec![10], vec![1, 2], vec![13], vec![14],
                    vec![0xFE], vec![0xFF], vec![11], vec![0, 0, 0, 2], b"{}".to_vec()]),
            ],
            0..10,
        ),
    ) {
        // A listener by hand where the server would be.
        let mut net = Net::new(Link::default());
        assert_eq!(net.add_host(None), SERVER);
        let _ = net.io(SERVER).listen(None, PORT, 1, &Default::default());
        let config = client_config(Params { time_secs: 1, ..Params::default() });
        let host = net.add_host(Some(Box::new(Client::new(config))));
        net.run_for(Duration::from_millis(10));
        let accepted = net.take_events(SERVER).into_iter().find_map(|e| match e {
            AppEvent::Accepted { conn, .. } => Some(conn),
            _ => None,
        });
        let conn = accepted.expect("a control connection");
        for answer in answers {
            send(&mut net, SERVER, conn, &answer);
        }
        net.run_for(secs(130));
        prop_assert!(net.exit_code(host).is_some());
        prop_assert_eq!(net.open_conns(host), 0);
    }
}
