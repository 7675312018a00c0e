//! The bytes on the control connection, and what is made of them.

use proptest::prelude::*;
use tcp::ConnOptions;

use super::results::{Results, SenderRetransmits, StreamResult, integer};
use super::*;

/// A server by hand at which our client is looked at.
struct ByHand {
    net: Net,
    client: usize,
    control: ConnId,
}

impl ByHand {
    fn start(params: Params) -> Self {
        let mut net = Net::new(Link::default());
        assert_eq!(net.add_host(None), SERVER);
        net.io(SERVER).listen(None, PORT, 1, &ConnOptions::default()).expect("free");
        let client = net.add_host(Some(Box::new(Client::new(client_config(params)))));
        net.run_for(Duration::from_millis(10));
        let control = accepted(&mut net)[0];
        Self { net, client, control }
    }

    fn say(&mut self, bytes: &[u8]) {
        send(&mut self.net, SERVER, self.control, bytes);
    }

    fn heard(&mut self) -> Vec<u8> {
        heard(&mut self.net, SERVER, self.control)
    }

    #[track_caller]
    fn heard_json(&mut self) -> Value {
        let bytes = self.heard();
        let (length, body) = bytes.split_at(4);
        assert_eq!(length, (body.len() as u32).to_be_bytes());
        serde_json::from_slice(body).expect("JSON")
    }
}

fn accepted(net: &mut Net) -> Vec<ConnId> {
    let conn = |e| match e {
        AppEvent::Accepted { conn, .. } => Some(conn),
        _ => None,
    };
    net.take_events(SERVER).into_iter().filter_map(conn).collect()
}

#[test]
fn the_client_says_what_the_original_says() {
    for (joined, direction) in [(true, Direction::Forward), (false, Direction::Forward)] {
        let mut server =
            ByHand::start(Params { time_secs: 1, parallel: 2, direction, ..Params::default() });
        let cookie = server.heard();
        assert_eq!(cookie.len(), 37);
        assert_eq!(cookie[36], 0);
        assert!(cookie[..36].iter().all(|b| b"abcdefghijklmnopqrstuvwxyz234567".contains(b)));
        server.say(&[9]);
        let params = server.heard_json();
        assert_eq!(params["tcp"], true);
        assert_eq!(params["parallel"], 2);
        assert_eq!(params["time"], 1);
        assert_eq!(params["len"], 131_072);
        for absent in ["reverse", "bidirectional", "udp", "nodelay", "window", "MSS"] {
            assert!(params.get(absent).is_none(), "{absent}");
        }
        server.say(&[10]);
        let streams = accepted(&mut server.net);
        assert_eq!(streams.len(), 2, "one after the other, without waiting for us");
        for conn in &streams {
            assert_eq!(heard(&mut server.net, SERVER, *conn), cookie);
        }
        if joined {
            server.say(&[1, 2]);
        } else {
            server.say(&[1]);
            assert!(heard(&mut server.net, SERVER, streams[0]).is_empty());
            server.say(&[2]);
        }
        server.net.run_for(Duration::from_secs(1));
        assert!(heard(&mut server.net, SERVER, streams[0]).len() > 10_000);
        assert_eq!(server.heard(), [4]);
        // Data connections closed with unread data, as the original does.
        for conn in &streams {
            server.net.io(SERVER).close(*conn);
        }
        server.say(&[13]);
        let results = server.heard_json();
        assert_eq!(results["sender_has_retransmits"], 1);
        assert_eq!(results["streams"][1]["id"], 3);
        let mut ours = minimal_results(1);
        let second = minimal_results(3)["streams"][0].clone();
        ours["streams"].as_array_mut().expect("a list").push(second);
        let body = ours.to_string();
        let mut message = (body.len() as u32).to_be_bytes().to_vec();
        message.extend(body.as_bytes());
        if joined {
            message.push(14);
            server.say(&message);
        } else {
            for byte in message {
                server.say(&[byte]);
            }
            server.say(&[14]);
        }
        assert_eq!(server.heard(), [16]);
        // A stray record after the end is ignored.
        server.say(&[0xFE, 0, 0, 0, 205, 0, 0, 0, 0]);
        server.net.io(SERVER).close(server.control);
        server.net.run_for(Duration::from_secs(3));
        assert_eq!(server.net.exit_code(server.client), Some(0));
        let all = reports(&mut server.net, server.client);
        assert_eq!(errors(&all), Vec::<String>::new());
        let summary = summary(&all);
        assert_eq!(summary.streams[0].received.expect("told").bytes, 1000);
    }
}

#[test]
fn answers_of_a_server_and_what_the_client_makes_of_them() {
    let rows: &[(&[u8], &str)] = &[
        (&[0xFF], "the server is busy running a test. try again later"),
        (&[11], "the server has terminated"),
        (&[0xFE, 0, 0, 0, 7, 0, 0, 0, 0], "block size too large (maximum = 1048576 bytes)"),
        (&[0xFE, 0, 0, 0, 141, 0, 0, 0, 22], "socket buffer size not set correctly: errno 22"),
        (&[0xFE, 0, 0, 3, 231, 0, 0, 0, 0], "int_errno=999"),
        (&[0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0], "int_errno=-1"),
        (
            &[77],
            "received an unknown control message (ensure other side is iperf3 and not iperf): 77",
        ),
    ];
    for (bytes, text) in rows {
        let mut server = ByHand::start(Params::default());
        server.say(bytes);
        server.net.run_for(Duration::from_secs(3));
        assert_eq!(server.net.exit_code(server.client), Some(1));
        let all = reports(&mut server.net, server.client);
        assert_eq!(errors(&all), [*text]);
        assert!(!all.iter().any(|r| matches!(r, Report::Summary(_))));
    }
}

#[test]
fn a_server_that_closes_is_noticed() {
    let mut server = ByHand::start(Params::default());
    let control = server.control;
    server.heard();
    server.net.io(SERVER).close(control);
    server.net.run_for(Duration::from_secs(3));
    let all = reports(&mut server.net, server.client);
    assert_eq!(errors(&all), ["control socket has closed unexpectedly"]);
}

#[test]
fn the_server_says_what_the_original_says() {
    let mut net = net_with(Link::default(), server_config());
    let params = json!({ "tcp": true, "parallel": 1, "len": 1000, "reverse": true });
    let (script, data) = Script::to_running(&mut net, &params);
    net.run_for(Duration::from_secs(1));
    let got = heard(&mut net, script.host, data).len() as u64;
    script.say(&mut net, &[4]);
    script.expect(&mut net, &[13]);
    // The end of the data connection comes after what was on its way.
    net.run_for(Duration::from_millis(200));
    let late = heard(&mut net, script.host, data).len() as u64;
    script.say_json(&mut net, &minimal_results(1));
    let bytes = heard(&mut net, script.host, script.control);
    let length = u32::from_be_bytes(bytes[..4].try_into().expect("four")) as usize;
    assert_eq!(bytes.len(), 4 + length + 1);
    assert_eq!(bytes.last(), Some(&14), "results and state may come together");
    let value: Value = serde_json::from_slice(&bytes[4..4 + length]).expect("JSON");
    assert_eq!(value["sender_has_retransmits"], 1);
    assert_eq!(value["streams"][0]["id"], 1);
    assert_eq!(value["streams"][0]["bytes"], got + late);
    assert_eq!(value["streams"][0]["retransmits"], (got + late) / 100_000);
    for key in ["jitter", "errors", "packets", "omitted_errors", "omitted_packets", "start_time"] {
        assert_eq!(value["streams"][0][key], 0, "{key}");
    }
    assert_eq!(value["congestion_used"], "cubic");
    script.say(&mut net, &[16]);
    net.io(script.host).shutdown(script.control);
    net.run_for(Duration::from_millis(10));
    assert!(
        net.take_events(script.host)
            .iter()
            .any(|e| matches!(e, AppEvent::Closed { conn, .. } if *conn == script.control)),
        "closes at once"
    );
    assert_serves(&mut net);
}

#[test]
fn roles_follow_the_order_of_syns_and_not_of_cookies() {
    let mut net = net_with(Link::default(), server_config());
    let script = Script::open(&mut net);
    script.expect(&mut net, &[9]);
    script.say_json(&mut net, &json!({ "tcp": true, "len": 1000, "bidirectional": true }));
    script.expect(&mut net, &[10]);
    let first = connect(&mut net, script.host);
    let second = connect(&mut net, script.host);
    // The first cookie was lost on its way and comes late.
    send(&mut net, script.host, second, &script.cookie);
    send(&mut net, script.host, first, &script.cookie);
    script.expect(&mut net, &[1, 2]);
    net.run_for(Duration::from_millis(100));
    assert!(heard(&mut net, script.host, first).is_empty(), "the server receives here");
    assert!(heard(&mut net, script.host, second).len() > 10_000, "and sends here");
}

#[test]
fn parameters_survive_the_way_there() {
    let params = Params {
        omit_secs: 1,
        time_secs: 0,
        num: 5,
        mss: Some(1200),
        nodelay: true,
        parallel: 7,
        direction: Direction::Bidirectional,
        window: Some(4096),
        len: 99,
        bandwidth: 1_000_000,
        burst: 4,
        title: Some("title".to_owned()),
        extra_data: Some("data".to_owned()),
        congestion: Some("reno".to_owned()),
        get_server_output: true,
        repeating_payload: true,
        client_version: Some("3.12".to_owned()),
        ..Params::default()
    };
    let text = params.to_json().to_string();
    let (read, warnings) = Params::from_json(text.as_bytes()).expect("our own");
    assert_eq!(read, params);
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(params.check(), Ok(()));
    assert!(!text.contains("false"));
}

#[test]
fn absent_keys_have_their_defaults_and_the_last_duplicate_counts() {
    let (read, _) = Params::from_json(b"{\"tcp\":true}").expect("minimal");
    assert_eq!(read, Params { client_version: None, ..Params::default() });
    let (read, _) = Params::from_json(b"{\"parallel\":2,\"parallel\":3}").expect("duplicate");
    assert_eq!(read.parallel, 3);
    let (read, _) = Params::from_json(b"{\"parallel\":2.0,\"time\":3.7}").expect("floats");
    assert_eq!((read.parallel, read.time_secs), (2, 3));
}

#[test]
fn limits_are_checked_before_a_client_is_made() {
    let fine = Params::default;
    let rows = [
        (Params { parallel: 0, ..fine() }, Code::PARALLEL),
        (Params { parallel: 129, ..fine() }, Code::PARALLEL),
        (Params { len: 0, ..fine() }, Code::BLOCK_SIZE),
        (Params { len: (1 << 20) + 1, ..fine() }, Code::BLOCK_SIZE),
        (Params { time_secs: 86_401, ..fine() }, Code::DURATION),
        (Params { omit_secs: 601, ..fine() }, Code::OMIT),
        (Params { window: Some((512 << 20) + 1), ..fine() }, Code::BUFFER_SIZE),
        (Params { mss: Some(32_768), ..fine() }, Code::MSS),
        (Params { burst: 1001, ..fine() }, Code::BURST),
        (Params { num: 1, blockcount: 1, ..fine() }, Code::END_CONDITIONS),
        (Params { protocol: Protocol::Udp, ..fine() }, Code::UNIMPLEMENTED),
        (Params { protocol: Protocol::Sctp, ..fine() }, Code::NO_SCTP),
    ];
    for (params, code) in rows {
        assert_eq!(params.check(), Err(Failure::new(code)));
    }
}

#[test]
fn integers_as_others_write_them() {
    let rows = [
        ("5", Some(5)),
        ("-1", Some(-1)),
        ("18446744073709551615", Some(-1)),
        ("18446744073709551615.0", Some(-1)),
        ("9223372036854775808", Some(i64::MIN)),
        ("9223372036854775807", Some(i64::MAX)),
        ("3.9", Some(3)),
        ("-2.0", Some(-2)),
        ("1e300", Some(-1)),
        ("-1e300", Some(i64::MIN)),
        ("true", None),
        ("\"5\"", None),
        ("null", None),
    ];
    for (text, expected) in rows {
        let value: Value = serde_json::from_str(text).expect("JSON");
        let folded = integer(&value);
        match expected {
            // Far beyond 64 bits only the sign is promised.
            Some(-1) if text == "1e300" => assert!(folded.is_some()),
            _ => assert_eq!(folded, expected, "{text}"),
        }
    }
}

#[test]
fn results_of_other_versions() {
    let known = |id| id == 1;
    let read = |text: &str| Results::from_json(text.as_bytes(), &known);
    let with = |stream: &str, more: &str| {
        format!(
            "{{\"cpu_util_total\":1.5,\"cpu_util_user\":1,\"cpu_util_system\":0.5,{more}\
             \"sender_has_retransmits\":18446744073709551615,\"streams\":[{stream}]}}"
        )
    };
    let plain = "\"id\":1,\"bytes\":10,\"jitter\":0,\"errors\":0,\"packets\":0";
    // 3.12: negative numbers as unsigned.
    let unsigned = with(&format!("{{{plain},\"retransmits\":18446744073709551615}}"), "");
    let results = read(&unsigned).expect("3.12");
    assert_eq!(results.sender_retransmits, SenderRetransmits::NotSending);
    assert_eq!(results.streams, [StreamResult { id: 1, bytes: 10, ..StreamResult::default() }]);
    // Floats for integers, unknown keys, duplicate keys.
    let odd = with(
        "{\"id\":1.0,\"bytes\":1e3,\"retransmits\":2.0,\"jitter\":0,\"errors\":0,\"packets\":0.0,\
         \"end_time\":2,\"id\":1,\"new\":[]}",
        "\"server_output_json\":{\"start\":{\"sock_bufsize\":0,\"sock_bufsize\":0}},\"x\":{},",
    );
    let results = read(&odd).expect("odd but fine");
    assert_eq!(results.streams[0].bytes, 1000);
    assert_eq!(results.streams[0].retransmits, Some(2));
    assert_eq!(results.stream(1).map(|s| s.end_time), Some(2.0));
    assert!(results.server_output_json.is_some());
    // What is required, is.
    for key in ["id", "bytes", "retransmits", "jitter", "errors", "packets"] {
        let mut value: Value = serde_json::from_str(&unsigned).expect("JSON");
        value["streams"][0].as_object_mut().expect("object").remove(key);
        assert!(read(&value.to_string()).is_err(), "{key}");
    }
    for key in ["cpu_util_total", "cpu_util_user", "sender_has_retransmits", "streams"] {
        let mut value: Value = serde_json::from_str(&unsigned).expect("JSON");
        value.as_object_mut().expect("object").remove(key);
        assert!(read(&value.to_string()).is_err(), "{key}");
    }
    assert!(read(&"[".repeat(100_000)).is_err());
}

#[test]
fn ours_read_back() {
    let results = Results {
        cpu: CpuPercent { total: 12.5, user: 10.0, system: 2.5 },
        sender_retransmits: SenderRetransmits::Known,
        congestion_used: Some("cubic".to_owned()),
        server_output_text: Some("text".to_owned()),
        server_output_json: None,
        streams: vec![StreamResult {
            id: 3,
            bytes: u64::MAX >> 1,
            retransmits: Some(7),
            start_time: 0.0,
            end_time: 1.25,
        }],
        x_stack: Some(json!({ "a": 1 })),
    };
    let text = results.to_json().to_string();
    assert_eq!(Results::from_json(text.as_bytes(), &|id| id == 3), Ok(results));
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-5i64..2_000_000).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((".{0,4}", inner), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

const PARAM_KEYS: [&str; 24] = [
    "tcp",
    "omit",
    "time",
    "num",
    "blockcount",
    "MSS",
    "nodelay",
    "parallel",
    "reverse",
    "window",
    "len",
    "bandwidth",
    "fqrate",
    "pacing_timer",
    "burst",
    "TOS",
    "flowlabel",
    "title",
    "extra_data",
    "congestion",
    "get_server_output",
    "repeating_payload",
    "bidirectional",
    "server_affinity",
];
const RESULT_KEYS: [&str; 12] = [
    "id",
    "bytes",
    "retransmits",
    "jitter",
    "errors",
    "packets",
    "omitted_errors",
    "omitted_packets",
    "start_time",
    "end_time",
    "cpu_util_total",
    "sender_has_retransmits",
];

proptest! {
    #[test]
    fn what_is_accepted_of_any_parameters_is_within_the_limits(
        pairs in prop::collection::vec((prop::sample::select(&PARAM_KEYS[..]), any_value()), 0..8),
    ) {
        let object = pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        let text = Value::Object(object).to_string();
        if let Ok((params, _)) = Params::from_json(text.as_bytes()) {
            // The original takes two end conditions; only a command line refuses them.
            let params = Params { blockcount: 0, ..params };
            prop_assert_eq!(params.check(), Ok(()));
            let again = Params::from_json(params.to_json().to_string().as_bytes());
            let by_time = params.num == 0;
            let expected = Params { time_secs: if by_time { params.time_secs } else { 0 }, ..params };
            prop_assert_eq!(again.map(|(p, _)| p), Ok(expected));
        }
    }

    #[test]
    fn any_results_are_taken_or_refused(
        changes in prop::collection::vec(
            (prop::sample::select(&RESULT_KEYS[..]), any::<bool>(), any_value()), 0..5),
    ) {
        let mut value = minimal_results(1);
        for (key, in_stream, new) in changes {
            if in_stream { value["streams"][0][key] = new } else { value[key] = new }
        }
        if let Ok(results) = Results::from_json(value.to_string().as_bytes(), &|id| id == 1) {
            prop_assert!(results.streams.iter().all(|s| s.id == 1));
            let again = Results::from_json(results.to_json().to_string().as_bytes(), &|id| id == 1);
            prop_assert!(again.is_ok(), "{again:?}");
        }
    }

    #[test]
    fn integers_fold_without_surprise(n in any::<i64>()) {
        prop_assert_eq!(integer(&Value::from(n)), Some(n));
        prop_assert_eq!(integer(&Value::from(n as u64)), Some(n));
    }
}
