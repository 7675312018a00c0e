//! The iperf server and client against peers that do anything, on a network in memory.
//!
//! An input is a list of steps, so that a mutation of one that goes deep still goes deep. What is
//! published is rendered as text and as JSON: a peer must not be able to write to the terminal.

use core::net::SocketAddr;
use core::time::Duration;

use base::ConnId;
use serde_json::{Value, json};
use stack::{AppEvent, Io, Local};
use workloads::fake::{Link, Net};
use workloads::iperf::text::Renderer;
use workloads::iperf::{
    Client, ClientConfig, DEFAULT_PORT, Direction, Params, Report, Server, ServerConfig,
    SilentHost, json, text,
};

use crate::input::Input;

const SERVER: usize = 0;
/// Connections that a script opens at most.
const CONNS_MAX: usize = 24;
/// Steps of a script at most.
const STEPS_MAX: usize = 64;
/// Requested durations beyond it are refused, or a run would take long.
const DURATION_MAX_SECS: u32 = 4;
/// Longer than each limit after which a silent peer is thrown out.
const PATIENCE: Duration = Duration::from_secs(130);
/// TEST_START and so on, as the peers say them.
const STATES: [u8; 14] = [1, 2, 4, 9, 10, 11, 12, 13, 14, 15, 16, 0xfe, 0xff, 0];

/// Slow enough that tests by time stay small.
fn link() -> Link {
    Link { delay: Duration::from_millis(1), rate: 20_000, chunk: 4096, buffer: 16_384 }
}

fn server_addr() -> SocketAddr {
    SocketAddr::new(Net::addr(SERVER), DEFAULT_PORT)
}

/// Steps of time, from one turn to beyond most limits.
fn pause(byte: u8) -> Duration {
    Duration::from_millis([1, 20, 300, 1000, 3000, 11_000, 31_000, 61_000][usize::from(byte & 7)])
}

fn with_length(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text].concat()
}

/// A value for a key that expects something else.
fn value(input: &mut Input<'_>) -> Value {
    const NUMBERS: [i64; 8] =
        [0, 1, -1, 128, 1 << 20, i32::MAX as i64, u32::MAX as i64 + 1, i64::MAX];
    match input.u8() {
        n @ 0..8 => json!(NUMBERS[usize::from(n)]),
        8 => json!(true),
        9 => json!(null),
        10 => json!(1e300),
        11 => json!(u64::MAX),
        12 => json!([{}]),
        13..=40 => {
            let len = usize::from(input.u8() & 63);
            json!(String::from_utf8_lossy(input.bytes(len)))
        }
        n => json!(n),
    }
}

fn params(input: &mut Input<'_>) -> Value {
    const KEYS: [&str; 24] = [
        "tcp",
        "udp",
        "omit",
        "server_affinity",
        "time",
        "num",
        "blockcount",
        "MSS",
        "nodelay",
        "parallel",
        "reverse",
        "bidirectional",
        "window",
        "len",
        "bandwidth",
        "fqrate",
        "pacing_timer",
        "burst",
        "TOS",
        "title",
        "extra_data",
        "congestion",
        "get_server_output",
        "repeating_payload",
    ];
    let mut params = json!({ "tcp": true, "parallel": 1, "len": 1000, "time": 2 });
    for _ in 0..input.u8() & 3 {
        let key = KEYS[usize::from(input.u8()) % KEYS.len()];
        params[key] = value(input);
    }
    params
}

fn results(input: &mut Input<'_>) -> Value {
    const KEYS: [&str; 6] = ["id", "bytes", "retransmits", "jitter", "errors", "packets"];
    let stream = |id: u8| json!({ "id": id, "bytes": 1000, "retransmits": -1, "jitter": 0, "errors": 0, "packets": 0 });
    let choice = input.u8();
    let mut results = json!({
        "cpu_util_total": 1, "cpu_util_user": 0.5, "cpu_util_system": 0.5,
        "sender_has_retransmits": choice & 1,
        "streams": (1..=1 + (choice >> 1 & 3)).map(stream).collect::<Vec<_>>(),
    });
    if choice & 8 != 0 {
        results["streams"][0][KEYS[usize::from(input.u8()) % KEYS.len()]] = value(input);
    }
    if choice & 16 != 0 {
        results["server_output_text"] = value(input);
    }
    if choice & 32 != 0 {
        results["server_output_json"] = value(input);
    }
    results
}

/// Something to say on a control connection.
fn words(input: &mut Input<'_>) -> Vec<u8> {
    match input.u8() % 6 {
        0 => vec![STATES[usize::from(input.u8()) % STATES.len()]],
        1 => {
            let len = usize::from(input.u8());
            input.bytes(len).to_vec()
        }
        2 => {
            let len = usize::from(input.u8());
            with_length(input.bytes(len))
        }
        3 => with_length(params(input).to_string().as_bytes()),
        4 => with_length(results(input).to_string().as_bytes()),
        _ => input.u32().to_be_bytes().to_vec(),
    }
}

fn connect(net: &mut Net, host: usize) -> ConnId {
    let conn =
        net.io(host).connect(server_addr(), Local::ANY, &Default::default()).expect("a route");
    net.run_for(Duration::from_millis(5));
    conn
}

fn say(net: &mut Net, host: usize, conn: ConnId, bytes: &[u8]) {
    // Who has been thrown out is not heard.
    let _ = net.io(host).send(conn, bytes, false);
    net.run_for(Duration::from_millis(5));
}

/// Read all that has come, or the peer could wait for room.
fn read_all(net: &mut Net, host: usize, conns: &[ConnId]) {
    for conn in conns {
        net.io(host).recv(*conn, &mut |slice| slice.len());
    }
}

/// What `host` has published, through all renderers.
fn check_reports(net: &mut Net, host: usize) {
    let mut lines = Renderer::new(text::Options::default());
    let (mut builder, mut stream) =
        (json::Builder::new(&SilentHost), json::Stream::new(&SilentHost));
    for message in net.take_published(host) {
        let report = *message.downcast::<Report>().expect("a report");
        let rendered = lines.render(&report);
        for out in [&rendered.out, &rendered.err] {
            assert!(!out.chars().any(|c| c.is_control() && c != '\n' && c != '\t'), "{out:?}");
        }
        if let Some(value) = builder.push(&report) {
            let text = json::to_text(&value);
            assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
        }
        for line in stream.push(&report).lines() {
            assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}");
        }
    }
}

/// A client by hand.
struct Script {
    host: usize,
    cookie: Vec<u8>,
    /// The first is the control connection.
    conns: Vec<ConnId>,
}

impl Script {
    fn new(net: &mut Net) -> Self {
        let host = net.add_host(None);
        let cookie = format!("{host:b>36}\0").into_bytes();
        Self { host, cookie, conns: Vec::new() }
    }

    fn open(&mut self, net: &mut Net, first: &[u8]) {
        if self.conns.len() < CONNS_MAX {
            let conn = connect(net, self.host);
            self.conns.push(conn);
            say(net, self.host, conn, first);
        }
    }

    fn pick(&self, choice: u8) -> Option<ConnId> {
        self.conns.get(usize::from(choice) % self.conns.len().max(1)).copied()
    }

    fn step(&mut self, net: &mut Net, step: u8, input: &mut Input<'_>) {
        let cookie = self.cookie.clone();
        match step % 12 {
            0..3 => {
                let words = words(input);
                if let Some(control) = self.pick(0) {
                    say(net, self.host, control, &words);
                }
            }
            3 | 4 => self.open(net, &cookie),
            5 => {
                let len = usize::from(input.u8() & 63);
                let first = input.bytes(len);
                self.open(net, first);
            }
            6 => self.open(net, &cookie[..20]),
            7 | 8 => {
                let (which, len) = (input.u8(), input.u8());
                if let Some(conn) = self.pick(which) {
                    say(net, self.host, conn, &vec![b'x'; usize::from(len) * 32]);
                }
            }
            9 => {
                let (which, how) = (input.u8(), input.u8());
                if let Some(conn) = self.pick(which) {
                    let mut io = net.io(self.host);
                    match how % 3 {
                        0 => io.close(conn),
                        1 => io.abort(conn),
                        _ => io.shutdown(conn),
                    }
                }
            }
            10 => net.run_for(pause(input.u8())),
            _ => read_all(net, self.host, &self.conns),
        }
    }
}

pub(crate) fn server(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let choice = input.u8();
    let config = ServerConfig {
        max_duration_secs: Some(DURATION_MAX_SECS),
        verify: choice & 1 != 0,
        idle_timeout: (choice & 2 != 0).then(|| Duration::from_secs(40)),
        ..ServerConfig::new(Box::new(SilentHost))
    };
    let mut net = Net::new(link());
    net.add_host(Some(Box::new(Server::new(config))));
    net.run_for(Duration::from_millis(1));
    let mut scripts = [Script::new(&mut net), Script::new(&mut net)];
    let mut steps = 0;
    while let Some(step) = input.next()
        && steps < STEPS_MAX
    {
        steps += 1;
        let who = usize::from(step >> 7);
        scripts[who].step(&mut net, step & 0x7f, &mut input);
    }
    for script in &scripts {
        if choice & 4 != 0 {
            net.kill(script.host);
        }
    }
    for _ in 0..PATIENCE.as_secs() / 10 {
        net.run_for(Duration::from_secs(10));
        for script in &scripts {
            read_all(&mut net, script.host, &script.conns);
        }
    }
    assert_eq!(net.open_conns(SERVER), 0, "the server keeps connections");
    assert!(net.exit_code(SERVER).is_none() && net.is_listening(SERVER), "the server has ended");
    check_reports(&mut net, SERVER);

    let params = Params { num: 5000, len: 1000, ..Params::default() };
    let config = ClientConfig { params, ..ClientConfig::new(server_addr(), Box::new(SilentHost)) };
    let host = net.add_host(Some(Box::new(Client::new(config))));
    net.run_for(Duration::from_secs(10));
    assert_eq!(net.exit_code(host), Some(0), "the next client was not served");
}

pub(crate) fn server_seeds() -> Vec<Vec<u8>> {
    // A cookie; parameters; a stream with its cookie; data; TEST_END; results; IPERF_DONE.
    let whole = |config: u8, params: &[u8]| {
        [&[config, 3, 0, 3][..], params, &[3, 7, 1, 60, 0, 0, 2, 0, 4, 0, 0, 0, 10], &[10, 1]]
            .concat()
    };
    vec![
        whole(0, &[0]),
        // Reverse, by time.
        [whole(1, &[1, 10, 8]), vec![11, 10, 3, 11, 10, 3]].concat(),
        // Both directions, two streams, with a title, and killed.
        whole(6, &[3, 11, 8, 9, 42, 19, 20, 3, b'a', 27, b'b']),
        // Lengths that lie; JSON that is none; a second client meanwhile.
        vec![0, 3, 0, 5, 0xff, 0xff, 0xff, 0xff, 0x83, 10, 3],
        vec![0, 3, 0, 2, 5, b'[', b'[', b'{', b'}', b'1', 3, 3, 10, 5],
        vec![2, 5, 40, 1, 2, 3, 6, 3, 0x83, 0x80, 3, 0, 10, 6],
    ]
}

pub(crate) fn client(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let choice = input.u8();
    let direction =
        [Direction::Forward, Direction::Reverse, Direction::Bidirectional][usize::from(choice) % 3];
    let params = Params {
        direction,
        time_secs: 1,
        parallel: 1 + u32::from(choice >> 2 & 1),
        get_server_output: choice & 8 != 0,
        num: if choice & 16 != 0 { 3000 } else { 0 },
        ..Params::default()
    };
    let mut net = Net::new(link());
    net.add_host(None);
    net.io(SERVER).listen(None, DEFAULT_PORT, 1, &Default::default()).expect("a free port");
    let verify = choice & 32 != 0;
    let config =
        ClientConfig { params, verify, ..ClientConfig::new(server_addr(), Box::new(SilentHost)) };
    let host = net.add_host(Some(Box::new(Client::new(config))));
    net.run_for(Duration::from_millis(10));
    let mut conns: Vec<ConnId> = Vec::new();
    let mut steps = 0;
    while let Some(step) = input.next()
        && steps < STEPS_MAX
    {
        steps += 1;
        for event in net.take_events(SERVER) {
            if let AppEvent::Accepted { conn, .. } = event {
                conns.push(conn);
            }
        }
        let pick = |choice: u8| conns.get(usize::from(choice) % conns.len().max(1)).copied();
        match step % 8 {
            0..4 => {
                let words = words(&mut input);
                if let Some(control) = pick(0) {
                    say(&mut net, SERVER, control, &words);
                }
            }
            4 => {
                let (which, len) = (input.u8(), input.u8());
                if let Some(conn) = pick(which) {
                    say(&mut net, SERVER, conn, &vec![b'x'; usize::from(len) * 32]);
                }
            }
            5 => {
                let (which, how) = (input.u8(), input.u8());
                if let Some(conn) = pick(which) {
                    let mut io = net.io(SERVER);
                    match how % 3 {
                        0 => io.close(conn),
                        1 => io.abort(conn),
                        _ => io.shutdown(conn),
                    }
                }
            }
            6 => net.run_for(pause(input.u8())),
            _ => read_all(&mut net, SERVER, &conns),
        }
    }
    net.run_for(PATIENCE);
    assert!(net.exit_code(host).is_some(), "the client waits for ever");
    assert_eq!(net.open_conns(host), 0, "the client keeps connections");
    check_reports(&mut net, host);
}

pub(crate) fn client_seeds() -> Vec<Vec<u8>> {
    // PARAM_EXCHANGE, CREATE_STREAMS, TEST_START, TEST_RUNNING, then what a server says at the end.
    let begin = [0, 0, 3, 0, 0, 4, 0, 0, 0, 0, 0, 1];
    let end = [6, 3, 0, 0, 7, 0, 4, 1, 0, 0, 8];
    let seed = |config: u8, middle: &[u8]| [&[config][..], &begin, middle, &end].concat();
    vec![
        seed(0, &[7]),
        seed(1, &[4, 1, 200, 4, 1, 200]),
        seed(14, &[4, 1, 100, 7]),
        // SERVER_ERROR with codes; ACCESS_DENIED; nothing at all.
        vec![0, 0, 0, 11, 0, 5, 0, 0, 0, 110, 0, 5, 0, 0, 0, 0],
        vec![0, 0, 0, 12],
        vec![0, 6, 7],
        // Results with the server's output.
        [&[8][..], &begin, &[6, 3, 0, 0, 7, 0, 4, 17, 20, 5, 27, b'[', b'2', b'J', 10]].concat(),
    ]
}
