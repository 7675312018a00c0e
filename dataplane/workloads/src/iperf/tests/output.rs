//! What people and scripts see.

use super::json::{Builder, Stream as JsonStream, http_date, to_text};
use super::text::{Format, Options, Renderer};
use super::*;

fn render(reports: &[Report], options: Options) -> (String, String) {
    let mut renderer = Renderer::new(options);
    let mut all = (String::new(), String::new());
    for report in reports {
        let lines = renderer.render(report);
        all.0 += &lines.out;
        all.1 += &lines.err;
    }
    all
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn control_info(side: Side, params: Params) -> Report {
    Report::Control(Box::new(info(side, params)))
}

fn info(side: Side, params: Params) -> ControlInfo {
    ControlInfo {
        side,
        version: "millrace 0.1.0".to_owned(),
        system_info: "Linux host".to_owned(),
        unix_time_ms: 1_796_066_209_250,
        cookie: "abcdefghijklmnopqrstuvwxyz234567abcd".to_owned(),
        control_mss: 1448,
        host: if side == Side::Client { "server.example" } else { "10.0.0.1" }.to_owned(),
        port: if side == Side::Client { 5201 } else { 37_030 },
        params,
        interval: Some(ms(1000)),
        sndbuf: 16_384,
        rcvbuf: 131_072,
    }
}

fn connected(label: u32, id: u32, port: u16, sender: bool) -> Report {
    Report::Connected(StreamInfo {
        label,
        id,
        local: SocketAddr::from(([10, 0, 0, 1], port)),
        remote: "[::ffff:10.0.0.2]:5201".parse().expect("an address"),
        sender,
    })
}

fn row(label: u32, sender: bool, span: (u64, u64), bytes: u64, retransmits: u64) -> StreamInterval {
    let tcp = TcpSample { retransmits, snd_cwnd: 1_047_552, rtt_us: 90, ..TcpSample::default() };
    StreamInterval { label, sender, start: ms(span.0), end: ms(span.1), bytes, omitted: false, tcp }
}

fn interval(direction: Direction, streams: Vec<StreamInterval>) -> Report {
    let sum = |sender: bool| {
        let ours: Vec<_> = streams.iter().filter(|s| s.sender == sender).collect();
        Sum {
            sender,
            start: streams[0].start,
            end: streams[0].end,
            bytes: ours.iter().map(|s| s.bytes).sum(),
            retransmits: sender.then(|| ours.iter().map(|s| s.tcp.retransmits).sum()),
            omitted: streams[0].omitted,
        }
    };
    let both = direction == Direction::Bidirectional;
    let first = streams[0].sender;
    Report::Interval(Box::new(Interval {
        side: Side::Client,
        direction,
        parallel: (streams.len() / if both { 2 } else { 1 }) as u32,
        sum: sum(first),
        sum_reverse: both.then(|| sum(!first)),
        streams,
    }))
}

fn transfer(bytes: u64, millis: u64, retransmits: Option<u64>) -> Option<Transfer> {
    Some(Transfer { bytes, duration: ms(millis), retransmits })
}

fn stream_summary(
    label: u32,
    id: u32,
    sender: bool,
    sent: Option<Transfer>,
    received: Option<Transfer>,
) -> StreamSummary {
    StreamSummary {
        label,
        id,
        sender,
        sent,
        received,
        extremes: Extremes::default(),
        last: TcpSample::default(),
        integrity: None,
    }
}

fn summary_of(direction: Direction, parallel: u32, streams: Vec<StreamSummary>) -> Summary {
    Summary {
        side: Side::Client,
        direction,
        parallel,
        duration: ms(2000),
        streams,
        cpu_local: CpuPercent { total: 95.8, user: 1.6, system: 94.2 },
        cpu_remote: Some(CpuPercent { total: 43.9, user: 2.3, system: 41.6 }),
        congestion_local: Some("cubic".to_owned()),
        congestion_remote: Some("reno".to_owned()),
        title: None,
        extra_data: None,
        remote_x_stack: None,
    }
}

const GB: u64 = 1 << 30;

/// One stream, two seconds.
fn forward_reports() -> Vec<Report> {
    let params = Params { time_secs: 2, ..Params::default() };
    let total = transfer(2 * GB + GB / 2, 2000, Some(8));
    let got = transfer(2 * GB + GB / 2, 2001, None);
    vec![
        control_info(Side::Client, params.clone()),
        connected(5, 1, 37_032, true),
        Report::Started(Box::new(info(Side::Client, params))),
        interval(Direction::Forward, vec![row(5, true, (0, 1000), GB + GB / 2, 6)]),
        interval(Direction::Forward, vec![row(5, true, (1000, 2000), GB, 2)]),
        Report::Summary(Box::new(summary_of(
            Direction::Forward,
            1,
            vec![stream_summary(5, 1, true, total, got)],
        ))),
        Report::Done { success: true },
    ]
}

#[test]
fn forward_text() {
    let (out, err) = render(&forward_reports(), Options::default());
    let expected = "\
Connecting to host server.example, port 5201
[  5] local 10.0.0.1 port 37032 connected to 10.0.0.2 port 5201
[ ID] Interval           Transfer     Bitrate         Retr  Cwnd
[  5]   0.00-1.00   sec  1.50 GBytes  12.9 Gbits/sec    6   1023 KBytes       
[  5]   1.00-2.00   sec  1.00 GBytes  8.59 Gbits/sec    2   1023 KBytes       
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-2.00   sec  2.50 GBytes  10.7 Gbits/sec    8             sender
[  5]   0.00-2.00   sec  2.50 GBytes  10.7 Gbits/sec                  receiver

iperf Done.
";
    assert_eq!(out, expected);
    assert_eq!(err, "");
}

#[test]
fn verbose_text() {
    let (out, _) = render(&forward_reports(), Options { verbose: true, ..Options::default() });
    let expected = "\
millrace 0.1.0
Linux host
Control connection MSS 1448
Time: Mon, 30 Nov 2026 19:16:49 GMT
Connecting to host server.example, port 5201
      Cookie: abcdefghijklmnopqrstuvwxyz234567abcd
      TCP MSS: 1448 (default)
[  5] local 10.0.0.1 port 37032 connected to 10.0.0.2 port 5201
Starting Test: protocol: TCP, 1 streams, 131072 byte blocks, omitting 0 seconds, 2 second test, tos 0
";
    assert!(out.starts_with(expected), "{out}");
    let tail = "\
CPU Utilization: local/sender 95.8% (1.6%u/94.2%s), remote/receiver 43.9% (2.3%u/41.6%s)
snd_tcp_congestion cubic
rcv_tcp_congestion reno

iperf Done.
";
    assert!(out.contains("Test Complete. Summary Results:\n[ ID] Interval"), "{out}");
    assert!(out.ends_with(tail), "{out}");
}

#[test]
fn reverse_text_with_a_title() {
    let params = Params { direction: Direction::Reverse, ..Params::default() };
    let sent = transfer(911 << 20, 1000, Some(4));
    let reports = [
        control_info(Side::Client, params),
        interval(Direction::Reverse, vec![row(5, false, (0, 500), 434 << 20, 0)]),
        Report::Summary(Box::new(summary_of(
            Direction::Reverse,
            1,
            vec![stream_summary(5, 1, false, sent, transfer(910 << 20, 1000, None))],
        ))),
    ];
    let (out, _) = render(&reports, Options { title: Some("T".to_owned()), ..Options::default() });
    let expected = "\
T:  Connecting to host server.example, port 5201
T:  Reverse mode, remote host server.example is sending
T:  [ ID] Interval           Transfer     Bitrate
T:  [  5]   0.00-0.50   sec   434 MBytes  7.28 Gbits/sec                  
T:  - - - - - - - - - - - - - - - - - - - - - - - - -
T:  [ ID] Interval           Transfer     Bitrate         Retr
T:  [  5]   0.00-1.00   sec   911 MBytes  7.64 Gbits/sec    4             sender
T:  [  5]   0.00-1.00   sec   910 MBytes  7.63 Gbits/sec                  receiver
";
    assert_eq!(out, expected);
}

#[test]
fn bidirectional_text_with_sums() {
    let d = Direction::Bidirectional;
    let second = |label, sender, span, mb: u64, r| row(label, sender, span, mb << 20, r);
    let all = |span| {
        vec![
            second(5, true, span, 345, 0),
            second(7, true, span, 344, 1),
            second(9, false, span, 89, 0),
            second(12, false, span, 87, 0),
        ]
    };
    let stream = |label, id, sender, mb: u64| {
        let got = transfer(mb << 20, 1000, None);
        stream_summary(label, id, sender, transfer(mb << 20, 1000, Some(1)), got)
    };
    let reports = [
        interval(d, all((0, 500))),
        interval(d, all((500, 1000))),
        Report::Summary(Box::new(summary_of(
            d,
            2,
            vec![
                stream(5, 1, true, 601),
                stream(7, 3, true, 598),
                stream(9, 4, false, 248),
                stream(12, 5, false, 246),
            ],
        ))),
    ];
    let (out, _) = render(&reports, Options::default());
    let expected = "\
[ ID][Role] Interval           Transfer     Bitrate         Retr  Cwnd
[  5][TX-C]   0.00-0.50   sec   345 MBytes  5.79 Gbits/sec    0   1023 KBytes       
[  7][TX-C]   0.00-0.50   sec   344 MBytes  5.77 Gbits/sec    1   1023 KBytes       
[SUM][TX-C]   0.00-0.50   sec   689 MBytes  11.6 Gbits/sec    1             
[  9][RX-C]   0.00-0.50   sec  89.0 MBytes  1.49 Gbits/sec                  
[ 12][RX-C]   0.00-0.50   sec  87.0 MBytes  1.46 Gbits/sec                  
[SUM][RX-C]   0.00-0.50   sec   176 MBytes  2.95 Gbits/sec                  
- - - - - - - - - - - - - - - - - - - - - - - - -
[  5][TX-C]   0.50-1.00   sec   345 MBytes  5.79 Gbits/sec    0   1023 KBytes       
[  7][TX-C]   0.50-1.00   sec   344 MBytes  5.77 Gbits/sec    1   1023 KBytes       
[SUM][TX-C]   0.50-1.00   sec   689 MBytes  11.6 Gbits/sec    1             
[  9][RX-C]   0.50-1.00   sec  89.0 MBytes  1.49 Gbits/sec                  
[ 12][RX-C]   0.50-1.00   sec  87.0 MBytes  1.46 Gbits/sec                  
[SUM][RX-C]   0.50-1.00   sec   176 MBytes  2.95 Gbits/sec                  
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID][Role] Interval           Transfer     Bitrate         Retr
[  5][TX-C]   0.00-1.00   sec   601 MBytes  5.04 Gbits/sec    1             sender
[  5][TX-C]   0.00-1.00   sec   601 MBytes  5.04 Gbits/sec                  receiver
[  7][TX-C]   0.00-1.00   sec   598 MBytes  5.02 Gbits/sec    1             sender
[  7][TX-C]   0.00-1.00   sec   598 MBytes  5.02 Gbits/sec                  receiver
[SUM][TX-C]   0.00-1.00   sec  1.17 GBytes  10.1 Gbits/sec    2             sender
[SUM][TX-C]   0.00-1.00   sec  1.17 GBytes  10.1 Gbits/sec                  receiver
[  9][RX-C]   0.00-1.00   sec   248 MBytes  2.08 Gbits/sec    1             sender
[  9][RX-C]   0.00-1.00   sec   248 MBytes  2.08 Gbits/sec                  receiver
[ 12][RX-C]   0.00-1.00   sec   246 MBytes  2.06 Gbits/sec    1             sender
[ 12][RX-C]   0.00-1.00   sec   246 MBytes  2.06 Gbits/sec                  receiver
[SUM][RX-C]   0.00-1.00   sec   494 MBytes  4.14 Gbits/sec    2             sender
[SUM][RX-C]   0.00-1.00   sec   494 MBytes  4.14 Gbits/sec                  receiver
";
    assert_eq!(out, expected);
}

#[test]
fn server_text() {
    let mut summary = summary_of(
        Direction::Forward,
        1,
        vec![stream_summary(5, 1, false, None, transfer(1000, 1000, None))],
    );
    summary.side = Side::Server;
    summary.cpu_remote = None;
    let mut omitted = row(5, false, (0, 1000), 0, 0);
    omitted.omitted = true;
    let reports = [
        Report::Listening { port: 5201, test: 1 },
        control_info(Side::Server, Params::default()),
        connected(5, 1, 5201, false),
        interval(Direction::Forward, vec![omitted]),
        interval(Direction::Forward, vec![row(5, false, (0, 1000), 1000, 0)]),
        Report::Summary(Box::new(summary)),
        Report::TestEnded,
        Report::Listening { port: 5201, test: 2 },
    ];
    let (out, _) = render(&reports, Options::default());
    let expected = "\
-----------------------------------------------------------
Server listening on 5201 (test #1)
-----------------------------------------------------------
Accepted connection from 10.0.0.1, port 37030
[  5] local 10.0.0.1 port 5201 connected to 10.0.0.2 port 5201
[ ID] Interval           Transfer     Bitrate
[  5]   0.00-1.00   sec  0.00 Bytes  0.00 bits/sec                  (omitted)
[  5]   0.00-1.00   sec  1000 Bytes  8.00 Kbits/sec                  
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate
[  5]   0.00-1.00   sec  1000 Bytes  8.00 Kbits/sec                  receiver
-----------------------------------------------------------
Server listening on 5201 (test #2)
-----------------------------------------------------------
";
    assert_eq!(out, expected);
    let (out, _) = render(&reports, Options { verbose: true, ..Options::default() });
    assert!(out.contains("[  5] (sender statistics not available)\n"), "{out}");
}

#[test]
fn units() {
    let rate = |format: Format, bytes: u64| {
        let reports = [interval(Direction::Forward, vec![row(5, false, (0, 1000), bytes, 0)])];
        let (out, _) = render(&reports, Options { format, ..Options::default() });
        out.lines().nth(1).expect("a row")[25..].trim_end().to_owned()
    };
    let adaptive = Format::Adaptive;
    assert_eq!(rate(adaptive, 0), "0.00 Bytes  0.00 bits/sec");
    assert_eq!(rate(adaptive, 124), " 124 Bytes   992 bits/sec");
    assert_eq!(rate(adaptive, 125), " 125 Bytes  1.00 Kbits/sec");
    assert_eq!(rate(adaptive, 1023), "1023 Bytes  8.18 Kbits/sec");
    assert_eq!(rate(adaptive, 1024), "1.00 KBytes  8.19 Kbits/sec");
    // The edges of the four characters.
    assert_eq!(rate(adaptive, 10_230), "9.99 KBytes  81.8 Kbits/sec");
    assert_eq!(rate(adaptive, 10_235), "10.0 KBytes  81.9 Kbits/sec");
    assert_eq!(rate(adaptive, 102_300), "99.9 KBytes   818 Kbits/sec");
    assert_eq!(rate(adaptive, 102_380), " 100 KBytes   819 Kbits/sec");
    assert_eq!(rate(adaptive, 3 << 40), "3.00 TBytes  26.4 Tbits/sec");
    assert_eq!(rate(adaptive, 5000 << 40), "5000 TBytes  43980 Tbits/sec");
    let letter = |c| Format::from_letter(c).expect("a unit");
    assert_eq!(rate(letter('k'), 1_000_000), " 977 KBytes  8000 Kbits/sec");
    assert_eq!(rate(letter('m'), 1_000_000), " 977 KBytes  8.00 Mbits/sec");
    assert_eq!(rate(letter('g'), 1_000_000), " 977 KBytes  0.01 Gbits/sec");
    assert_eq!(rate(letter('K'), 1 << 20), "1.00 MBytes  1024 KBytes/sec");
    assert_eq!(rate(letter('M'), 1 << 20), "1.00 MBytes  1.00 MBytes/sec");
    assert_eq!(rate(letter('T'), 1 << 20), "1.00 MBytes  0.00 TBytes/sec");
    assert_eq!(Format::from_letter('x'), None);
}

#[test]
fn errors_and_warnings_go_elsewhere() {
    let reports = [
        Report::Error(Failure::new(Code::BUSY)),
        Report::Error(Failure::with(Code::CONNECT, "Connection refused")),
        Report::Interrupted(Code::CLIENT_TERMINATED),
        Report::Warning("careful".to_owned()),
        Report::Done { success: false },
    ];
    let (out, err) = render(&reports, Options::default());
    assert_eq!(out, "");
    let expected = "\
iperf3: error - the server is busy running a test. try again later
iperf3: error - unable to connect to server: Connection refused
iperf3: interrupt - the client has terminated
warning: careful
";
    assert_eq!(err, expected);
}

#[test]
fn what_a_peer_says_cannot_steer_a_terminal() {
    let evil = ServerOutput::Text("a\u{1b}[2Jb\tc\nd\u{9b}e\r".to_owned());
    let (out, _) = render(&[Report::ServerOutput(evil)], Options::default());
    assert_eq!(out, "\nServer output:\na[2Jb\tc\nde\n");
}

#[test]
fn a_document_keeps_no_more_intervals_than_it_may() {
    let mut builder = Builder::with_rows_max(&SilentHost, 3);
    let rows = vec![row(5, true, (0, 1000), 1, 0), row(6, true, (0, 1000), 1, 0)];
    for _ in 0..5 {
        assert_eq!(builder.push(&interval(Direction::Forward, rows.clone())), None);
    }
    let doc = builder.push(&Report::Done { success: true }).expect("the document");
    assert_eq!(doc["intervals"].as_array().map(Vec::len), Some(1));
    assert_eq!(doc["x_stack"]["intervals_left_out"], 4);
    let next = builder.push(&Report::Done { success: true }).expect("the next document");
    assert_eq!(next["intervals"], json!([]));
}

#[test]
fn dates() {
    let rows = [
        (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
        (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
        (1_735_689_599, "Tue, 31 Dec 2024 23:59:59 GMT"),
        (1_796_066_209, "Mon, 30 Nov 2026 19:16:49 GMT"),
        (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
    ];
    for (secs, text) in rows {
        assert_eq!(http_date(secs), text);
    }
}

fn document(reports: &[Report]) -> Value {
    let mut builder = Builder::new(&SilentHost);
    let docs: Vec<_> = reports.iter().filter_map(|r| builder.push(r)).collect();
    assert_eq!(docs.len(), 1, "one document, with the last report");
    docs.into_iter().next().expect("one")
}

#[track_caller]
fn assert_keys(value: &Value, keys: &[&str]) {
    let object = value.as_object().expect("an object");
    let found: Vec<_> = object.keys().map(String::as_str).collect();
    assert_eq!(found, keys);
}

const COMMON: [&str; 6] = ["socket", "start", "end", "seconds", "bytes", "bits_per_second"];
const SUM: [&str; 5] = ["start", "end", "seconds", "bytes", "bits_per_second"];
const SENDER: [&str; 7] =
    ["retransmits", "snd_cwnd", "snd_wnd", "rtt", "rttvar", "pmtu", "reorder"];
const SENDER_END: [&str; 7] =
    ["retransmits", "reorder", "max_snd_cwnd", "max_snd_wnd", "max_rtt", "min_rtt", "mean_rtt"];

fn keys(parts: &[&[&'static str]]) -> Vec<&'static str> {
    parts.concat()
}

/// The document of a real test holds what section 12 lists, in its order.
#[track_caller]
fn assert_document(doc: &Value, side: Side, direction: Direction) {
    assert_keys(doc, &["start", "intervals", "end"]);
    let peer = if side == Side::Client { "connecting_to" } else { "accepted_connection" };
    assert_keys(
        &doc["start"],
        &[
            "connected",
            "version",
            "system_info",
            "timestamp",
            peer,
            "cookie",
            "tcp_mss_default",
            "target_bitrate",
            "fq_rate",
            "sock_bufsize",
            "sndbuf_actual",
            "rcvbuf_actual",
            "test_start",
        ],
    );
    let connected = ["socket", "local_host", "local_port", "remote_host", "remote_port"];
    assert_keys(&doc["start"]["connected"][0], &connected);
    assert_keys(&doc["start"]["timestamp"], &["time", "timesecs", "timemillisecs"]);
    assert_keys(&doc["start"][peer], &["host", "port"]);
    assert_keys(
        &doc["start"]["test_start"],
        &[
            "protocol",
            "num_streams",
            "blksize",
            "omit",
            "duration",
            "bytes",
            "blocks",
            "reverse",
            "tos",
            "target_bitrate",
            "bidir",
            "fqrate",
            "interval",
        ],
    );
    let both = direction == Direction::Bidirectional;
    let first = &doc["intervals"][0];
    let sums: &[_] =
        if both { &["streams", "sum", "sum_bidir_reverse"] } else { &["streams", "sum"] };
    assert_keys(first, sums);
    for s in first["streams"].as_array().expect("a list") {
        let tail = ["omitted", "sender", "x_stack"];
        let middle: &[_] = if s["sender"] == true { &SENDER } else { &[] };
        assert_keys(s, &keys(&[&COMMON, middle, &tail]));
    }
    for sum in &sums[1..] {
        let tail: &[_] = match first[*sum]["sender"] == true {
            true => &["retransmits", "omitted", "sender"],
            false => &["omitted", "sender"],
        };
        assert_keys(&first[*sum], &keys(&[&SUM, tail]));
    }
    let totals: &[_] = match both {
        true => {
            &["sum_sent", "sum_received", "sum_sent_bidir_reverse", "sum_received_bidir_reverse"]
        }
        false => &["sum_sent", "sum_received"],
    };
    let mut expected = keys(&[&["streams"], totals, &["cpu_utilization_percent"]]);
    let local_sends = (side == Side::Client) == (direction != Direction::Reverse);
    let congestion: &[_] = match (side, local_sends) {
        (Side::Client, _) => &["sender_tcp_congestion", "receiver_tcp_congestion", "x_stack"],
        (Side::Server, true) => &["sender_tcp_congestion"],
        (Side::Server, false) => &["receiver_tcp_congestion"],
    };
    expected.extend(congestion);
    assert_keys(&doc["end"], &expected);
    assert_keys(
        &doc["end"]["cpu_utilization_percent"],
        &["host_total", "host_user", "host_system", "remote_total", "remote_user", "remote_system"],
    );
    for s in doc["end"]["streams"].as_array().expect("a list") {
        assert_keys(s, &["sender", "receiver", "x_stack"]);
        let known = side == Side::Client || s["sender"]["sender"] == true;
        let middle: &[_] = if known { &SENDER_END } else { &[] };
        assert_keys(&s["sender"], &keys(&[&COMMON, middle, &["sender"]]));
        assert_keys(&s["receiver"], &keys(&[&COMMON, &["sender"]]));
    }
    assert_eq!(doc["end"]["sum_sent"]["sender"], local_sends);
}

#[test]
fn documents_of_real_tests_have_the_keys_of_the_original() {
    for direction in [Direction::Forward, Direction::Reverse, Direction::Bidirectional] {
        let params = Params { time_secs: 2, parallel: 2, direction, ..Params::default() };
        let mut ran = run(params);
        ran.assert_clean();
        let client = document(&ran.client);
        assert_document(&client, Side::Client, direction);
        assert_document(&document(&ran.server), Side::Server, direction);
        assert_eq!(client["intervals"].as_array().map(Vec::len), Some(2));
        assert_eq!(client["start"]["test_start"]["duration"], 2);
        assert_eq!(client["intervals"][0]["sum"]["end"], 1, "no fraction without need");
        let sent = client["end"]["sum_sent"]["bytes"].as_u64().expect("a count");
        let parts = client["end"]["streams"].as_array().expect("a list");
        let ours = |s: &&Value| s["sender"]["sender"] == client["end"]["sum_sent"]["sender"];
        let total: u64 =
            parts.iter().filter(ours).filter_map(|s| s["sender"]["bytes"].as_u64()).sum();
        assert_eq!(sent, total);
        let again: Value = serde_json::from_str(&to_text(&client)).expect("JSON");
        assert_eq!(again, client);
    }
}

#[test]
fn a_failed_test_is_still_a_document() {
    let doc = document(&[
        Report::Error(Failure::with(Code::CONNECT, "Connection refused")),
        Report::Done { success: false },
    ]);
    let expected = "{
\t\"start\": {
\t\t\"connected\": [],
\t\t\"version\": \"millrace 0.1.0\",
\t\t\"system_info\": \"\"
\t},
\t\"intervals\": [],
\t\"end\": {},
\t\"error\": \"unable to connect to server: Connection refused\"
}";
    assert_eq!(to_text(&doc), expected);
}

#[test]
fn a_refused_client_has_a_document_as_well() {
    let mut net = net_with(Link::default(), server_config());
    let first = Script::to_running(&mut net, &minimal_params());
    let host = net.add_host(Some(Box::new(Client::new(client_config(Params::default())))));
    net.run_for(Duration::from_secs(3));
    let doc = document(&reports(&mut net, host));
    assert_keys(&doc, &["start", "intervals", "end", "error"]);
    assert_eq!(doc["error"], "the server is busy running a test. try again later");
    assert_eq!(doc["start"]["connecting_to"]["port"], PORT);
    assert_eq!(doc["end"], json!({}));
    first.0.say(&mut net, &[12]);
}

#[test]
fn optional_keys_stand_between_end_and_error() {
    let params = Params {
        time_secs: 1,
        title: Some("T".to_owned()),
        extra_data: Some("E".to_owned()),
        get_server_output: true,
        congestion: Some("nonsense".to_owned()),
        ..Params::default()
    };
    let mut ran = run(params);
    ran.assert_clean();
    let doc = document(&ran.client);
    assert_keys(
        &doc,
        &["start", "intervals", "end", "title", "extra_data", "server_output_text", "x_stack"],
    );
    assert_eq!(document(&ran.server)["title"], "T");
    assert_eq!(doc["x_stack"]["warnings"].as_array().map(Vec::len), Some(1));
}

#[test]
fn json_stream_lines() {
    let mut ran = run(Params { time_secs: 2, ..Params::default() });
    ran.assert_clean();
    let doc = document(&ran.client);
    let mut stream = JsonStream::new(&SilentHost);
    let lines: String = ran.client.iter().map(|r| stream.push(r)).collect();
    let values: Vec<Value> =
        lines.lines().map(|l| serde_json::from_str(l).expect("one object a line")).collect();
    let events: Vec<_> = values.iter().map(|v| v["event"].as_str().unwrap_or("")).collect();
    assert_eq!(events, ["start", "interval", "interval", "end"]);
    assert_eq!(values[0]["data"], doc["start"]);
    assert_eq!(values[1]["data"], doc["intervals"][0]);
    assert_eq!(values[3]["data"], doc["end"]);
    let mut stream = JsonStream::new(&SilentHost);
    let failed = [Report::Error(Failure::new(Code::BUSY)), Report::Done { success: false }];
    let lines: String = failed.iter().map(|r| stream.push(r)).collect();
    let events: Vec<Value> =
        lines.lines().map(|l| serde_json::from_str(l).expect("one object a line")).collect();
    assert_eq!(events[0]["event"], "start");
    assert_eq!(
        events[1],
        json!({
            "event": "error", "data": "the server is busy running a test. try again later",
        })
    );
    assert_eq!(events[2]["event"], "end");
}

#[test]
fn a_real_server_prints_what_people_parse() {
    let mut ran = run(Params { num: 100_000, len: 1000, ..Params::default() });
    ran.assert_clean();
    let (out, _) = render(&ran.server, Options::default());
    let expected = "\
-----------------------------------------------------------
Server listening on 5201 (test #1)
-----------------------------------------------------------
Accepted connection from 10.0.0.2, port 40001
[  5] local 10.0.0.1 port 5201 connected to 10.0.0.2 port 40002
[ ID] Interval           Transfer     Bitrate
[  5]   0.00-0.10   sec  97.7 KBytes  7.76 Mbits/sec                  
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate
[  5]   0.00-0.10   sec  97.7 KBytes  7.76 Mbits/sec                  receiver
-----------------------------------------------------------
Server listening on 5201 (test #2)
-----------------------------------------------------------
";
    assert_eq!(out, expected);
}
