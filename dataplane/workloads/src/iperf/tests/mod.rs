//! Whole sessions in virtual time.

mod hostile;
mod output;
mod sessions;
mod wire;

use core::net::SocketAddr;
use core::time::Duration;

use base::{ConnId, Instant};
use serde_json::{Value, json};
use stack::{AppEvent, Io, Local};

use super::*;
use crate::fake::{Link, Net};

pub(super) const SERVER: usize = 0;

/// The port of all servers here.
pub(super) const PORT: u16 = 5201;

pub(super) fn server_addr() -> SocketAddr {
    SocketAddr::new(Net::addr(SERVER), PORT)
}

pub(super) fn server_config() -> ServerConfig {
    ServerConfig::new(Box::new(SilentHost))
}

pub(super) fn client_config(params: Params) -> ClientConfig {
    ClientConfig { params, ..ClientConfig::new(server_addr(), Box::new(SilentHost)) }
}

/// A network with a server on it.
pub(super) fn net_with(link: Link, config: ServerConfig) -> Net {
    let mut net = Net::new(link);
    assert_eq!(net.add_host(Some(Box::new(Server::new(config)))), SERVER);
    net.run_for(Duration::from_millis(1));
    assert!(net.is_listening(SERVER));
    net
}

pub(super) fn reports(net: &mut Net, host: usize) -> Vec<Report> {
    let published = net.take_published(host);
    published.into_iter().map(|m| *m.downcast::<Report>().expect("a report")).collect()
}

/// What both sides published in a test, and how the client ended.
pub(super) struct Ran {
    pub(super) client: Vec<Report>,
    pub(super) server: Vec<Report>,
    pub(super) exit: Option<u8>,
    pub(super) net: Net,
}

impl Ran {
    pub(super) fn client_summary(&self) -> &Summary {
        summary(&self.client)
    }

    pub(super) fn server_summary(&self) -> &Summary {
        summary(&self.server)
    }

    pub(super) fn assert_clean(&mut self) {
        assert_eq!(self.exit, Some(0), "{:#?}", self.client);
        assert_eq!(errors(&self.client), Vec::<String>::new());
        assert_eq!(errors(&self.server), Vec::<String>::new());
        assert_eq!(self.client.last(), Some(&Report::Done { success: true }));
        self.net.run_for(Duration::from_secs(31));
        assert_eq!(self.net.open_conns(SERVER), 0, "server keeps connections");
    }
}

pub(super) fn summary(reports: &[Report]) -> &Summary {
    let found = reports.iter().find_map(|r| match r {
        Report::Summary(summary) => Some(summary),
        _ => None,
    });
    found.expect("a summary")
}

pub(super) fn errors(reports: &[Report]) -> Vec<String> {
    let text = |r: &Report| match r {
        Report::Error(failure) => Some(failure.to_string()),
        _ => None,
    };
    reports.iter().filter_map(text).collect()
}

pub(super) fn warnings(reports: &[Report]) -> Vec<&str> {
    let mut found = Vec::new();
    for report in reports {
        if let Report::Warning(text) = report {
            found.push(text.as_str());
        }
    }
    found
}

/// Run a whole test between our client and our server.
pub(super) fn run_with(link: Link, server: ServerConfig, client: ClientConfig) -> Ran {
    let mut net = net_with(link, server);
    let host = net.add_host(Some(Box::new(Client::new(client))));
    for _ in 0..2000 {
        net.run_for(Duration::from_millis(500));
        if net.exit_code(host).is_some() {
            break;
        }
    }
    let exit = net.exit_code(host);
    let client = reports(&mut net, host);
    let server = reports(&mut net, SERVER);
    Ran { client, server, exit, net }
}

pub(super) fn run(params: Params) -> Ran {
    run_with(Link::default(), server_config(), client_config(params))
}

/// A client by hand, on a host without an application.
pub(super) struct Script {
    pub(super) host: usize,
    pub(super) cookie: Vec<u8>,
    pub(super) control: ConnId,
}

impl Script {
    /// Open a control connection and send the cookie.
    pub(super) fn open(net: &mut Net) -> Self {
        let host = net.add_host(None);
        let cookie = format!("{:a>36}\0", host).into_bytes();
        let control = connect(net, host);
        let script = Self { host, cookie, control };
        send(net, host, control, &script.cookie);
        script
    }

    pub(super) fn say(&self, net: &mut Net, bytes: &[u8]) {
        send(net, self.host, self.control, bytes);
    }

    pub(super) fn say_json(&self, net: &mut Net, value: &Value) {
        self.say_text(net, &value.to_string());
    }

    pub(super) fn say_text(&self, net: &mut Net, text: &str) {
        let mut message = (text.len() as u32).to_be_bytes().to_vec();
        message.extend(text.as_bytes());
        self.say(net, &message);
    }

    /// Exactly these bytes come next on the control connection.
    #[track_caller]
    pub(super) fn expect(&self, net: &mut Net, bytes: &[u8]) {
        assert_eq!(heard(net, self.host, self.control), bytes);
    }

    /// A data connection with the right cookie.
    pub(super) fn open_stream(&self, net: &mut Net) -> ConnId {
        let conn = connect(net, self.host);
        send(net, self.host, conn, &self.cookie);
        conn
    }

    /// Up to and including TEST_RUNNING, with one stream.
    pub(super) fn to_running(net: &mut Net, params: &Value) -> (Self, ConnId) {
        let script = Self::open(net);
        script.expect(net, &[9]);
        script.say_json(net, params);
        script.expect(net, &[10]);
        let data = script.open_stream(net);
        script.expect(net, &[1, 2]);
        (script, data)
    }
}

pub(super) fn connect(net: &mut Net, host: usize) -> ConnId {
    let conn =
        net.io(host).connect(server_addr(), Local::ANY, &Default::default()).expect("a route");
    net.run_for(Duration::from_millis(5));
    conn
}

pub(super) fn send(net: &mut Net, host: usize, conn: ConnId, bytes: &[u8]) {
    // A connection that the server has reset takes nothing; what it said before is what counts.
    let _ = net.io(host).send(conn, bytes, false);
    net.run_for(Duration::from_millis(20));
}

/// All that has arrived on `conn`.
pub(super) fn heard(net: &mut Net, host: usize, conn: ConnId) -> Vec<u8> {
    let mut bytes = Vec::new();
    net.io(host).recv(conn, &mut |slice| {
        bytes.extend(slice);
        slice.len()
    });
    bytes
}

pub(super) fn minimal_params() -> Value {
    json!({ "tcp": true, "parallel": 1, "len": 1000 })
}

/// Results with the required keys alone.
pub(super) fn minimal_results(id: u32) -> Value {
    json!({
        "cpu_util_total": 1, "cpu_util_user": 0.5, "cpu_util_system": 0.5,
        "sender_has_retransmits": 0,
        "streams": [{
            "id": id, "bytes": 1000, "retransmits": -1, "jitter": 0, "errors": 0, "packets": 0
        }],
    })
}

/// The server serves the next client as if nothing had been.
#[track_caller]
pub(super) fn assert_serves(net: &mut Net) {
    reports(net, SERVER);
    let params = Params { num: 5000, len: 1000, ..Params::default() };
    let host = net.add_host(Some(Box::new(Client::new(client_config(params)))));
    net.run_for(Duration::from_secs(10));
    let client = reports(net, host);
    assert_eq!(net.exit_code(host), Some(0), "{client:#?}");
    assert_eq!(summary(&client).streams[0].received.map(|t| t.bytes), Some(5000));
    net.run_for(Duration::from_secs(31));
    assert_eq!(net.open_conns(SERVER), 0, "server keeps connections");
}

/// Stop as the runtime does it.
pub(super) fn stop(net: &mut Net, host: usize) {
    net.event(host, AppEvent::Stop);
    net.run_for(Duration::from_secs(3));
}

pub(super) fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}
