//! Requests and responses: over memif between two processes of ours, and with the kernel.

use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use tests::{Dataplane, Lab, binary, needs_root};

/// Two processes and the socket between them.
struct Pair {
    socket: String,
    name: String,
    server: Option<Dataplane>,
}

impl Pair {
    /// Start a server and wait until it says `ready`.
    fn new(flags: &[&str], ready: &str) -> Self {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let n = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("mrt-rr-{}-{n}", std::process::id());
        let socket = std::env::temp_dir().join(format!("{name}.sock"));
        let mut pair = Self { socket: socket.to_string_lossy().into_owned(), name, server: None };
        let mut command = pair.millrace("server", "10.98.0.1/24");
        command.arg("-s").args(flags);
        let server = Dataplane::start(command);
        server.wait_for(ready);
        pair.server = Some(server);
        pair
    }

    fn millrace(&self, role: &str, address: &str) -> Command {
        let mut command = Command::new(binary("millrace"));
        command.arg("rr").arg("--vdev");
        command
            .arg(format!("net_memif0,role={role},id=0,socket={},socket-abstract=no", self.socket));
        command.args(["--address", address, "--instance", &format!("{}-{role}", self.name)]);
        command
    }

    /// A client's JSON document.
    #[track_caller]
    fn ask(&self, flags: &[&str]) -> Value {
        let mut command = self.millrace("client", "10.98.0.2/24");
        document(&command.arg("--json").args(flags).output().expect("millrace starts"))
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        drop(self.server.take());
        let _ = std::fs::remove_file(&self.socket);
        for role in ["server", "client"] {
            let _ = std::fs::remove_file(format!("/run/millrace/{}-{role}.sock", self.name));
        }
    }
}

#[track_caller]
fn document(output: &Output) -> Value {
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let document: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    assert_eq!(document["schema"], "millrace-rr/1");
    assert_eq!(document["end"], "complete");
    assert_eq!(document["total"]["failed"], 0, "{document:#}");
    document
}

#[test]
fn memif_between_two_processes() {
    needs_root!();
    let pair = Pair::new(&["-p", "5201..5202"], "listening");
    let ping = pair.ask(&["-c", "10.98.0.1", "-p", "5201", "-t", "2", "--response-size", "3000"]);
    assert!(ping["total"]["transactions"].as_u64() > Some(100), "{:#}", ping["total"]);
    assert!(ping["total"]["latency"]["p99_99_ns"].as_u64() > Some(1000));
    for close in ["rst", "fin-client", "fin-server"] {
        let short = pair.ask(&[
            "-c",
            "10.98.0.1",
            "-p",
            "5201..5202",
            "--connect",
            "--close",
            close,
            "-n",
            "2000",
        ]);
        assert_eq!(short["total"]["transactions"], 2000, "{:#}", short["total"]);
    }
    let idle = pair.ask(&["-c", "10.98.0.1", "-p", "5201..5202", "--hold", "2000", "-t", "0"]);
    assert_eq!(
        idle["idle"].as_array().and_then(|a| a.last()).map(|s| &s["held"]),
        Some(&2000.into())
    );
    assert!(idle["memory"]["bytes_per_connection"].as_u64().is_some());
}

/// Who closes first keeps TIME-WAIT, and with it the port: then more addresses mean more connections.
#[test]
fn time_wait_is_bounded_by_ports_times_addresses() {
    needs_root!();
    let pair = Pair::new(&["-p", "5201"], "listening");
    let range = "net.ipv4.ip_local_port_range=40000 40099";
    let reuse = "net.ipv4.tcp_tw_reuse=0";
    let short =
        ["-c", "10.98.0.1", "-p", "5201", "--connect", "--close", "fin-client", "-n", "250"];
    // What is begun beyond the number asked for needs ports as well.
    let few = ["--concurrency", "8"];
    let limits = ["--sysctl", range, "--sysctl", reuse, "--timeout", "1"];
    let more = ["--address", "10.98.0.3/24", "--address", "10.98.0.4/24"];
    let three = pair.ask(&[&short[..], &few, &limits, &more].concat());
    assert_eq!(three["total"]["transactions"], 250);
    assert_eq!(three["test"]["local_addresses"].as_array().map(Vec::len), Some(3));
    // From one of them a hundred, and no more.
    let mut client = pair.millrace("client", "10.98.0.5/24");
    client.args(["--address", "10.98.0.6/24", "--bind", "10.98.0.6", "--json"]);
    let output = client.args(short).args(few).args(limits).output().expect("millrace starts");
    let one: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    assert_eq!(one["total"]["transactions"], 100, "{one:#}");
    assert!(one["failures"]["no_local_port"].as_u64() > Some(0), "{one:#}");
}

#[test]
fn frames_over_memif_without_a_stack() {
    needs_root!();
    let pair = Pair::new(&["--raw"], "reflecting");
    let raw = pair.ask(&["--raw", "-t", "1", "-c"]);
    assert_eq!(raw["test"]["mode"], "raw");
    // Two cores that are busy with something else still manage some.
    assert!(raw["total"]["transactions"].as_u64() > Some(10), "{raw:#}");
}

#[test]
fn the_kernel_echoes_and_asks() {
    needs_root!();
    let lab = Lab::new(1500);
    let mut peer = lab.kernel(&binary("millrace-test-peer").to_string_lossy());
    peer.args(["serve-echo", "0.0.0.0:5210"]);
    let peer = Dataplane::start(peer);
    peer.wait_for("serving");
    let mut client = lab.millrace("rr");
    client.args(["-c", Lab::KERNEL4, "--json", "-t", "1", "-P", "2"]);
    let ping = document(&client.output().expect("millrace starts"));
    assert!(ping["total"]["transactions"].as_u64() > Some(20), "{:#}", ping["total"]);
    let mut client = lab.millrace("rr");
    client.args(["-c", Lab::KERNEL4, "--json", "-n", "200", "--connect", "--concurrency", "4"]);
    document(&client.output().expect("millrace starts"));
    drop(peer);

    let mut server = lab.millrace("rr");
    server.args(["-s", "-p", "7"]);
    let server = Dataplane::start(server);
    server.wait_for("listening");
    // Any byte for any byte is what a client without a header gets.
    let churn = lab.peer(&["sizes", "10.99.0.2:7", "5000", "20"]);
    assert_eq!(String::from_utf8_lossy(&churn.stdout).trim(), "20 answers of 5000 bytes");
    server.signal("INT");
    assert_eq!(server.wait(Duration::from_secs(10)), Some(0));
}

#[test]
fn nobody_there_is_a_clear_error() {
    needs_root!();
    let lab = Lab::new(1500);
    for mode in [&[][..], &["--connect"]] {
        let mut client = lab.millrace("rr");
        let output =
            client.args(["-c", Lab::KERNEL4, "-t", "1"]).args(mode).output().expect("starts");
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("connection refused"), "{text}");
    }
}

#[test]
fn a_rate_is_kept_and_histograms_are_logged() {
    let file = std::env::temp_dir().join(format!("mrt-rr-log-{}.hlog", std::process::id()));
    let mut command = Command::new(binary("millrace"));
    command.args(["rr", "--ring", "--json", "-t", "2", "--rate", "200", "--hdr-log"]).arg(&file);
    let document = document(&command.output().expect("millrace starts"));
    let log = std::fs::read_to_string(&file);
    let _ = std::fs::remove_file(&file);
    assert_eq!(document["test"]["rate_per_second"], 200);
    let count = document["total"]["transactions"].as_u64().unwrap_or_default();
    // As fast as answers come would be some tens of thousands; a busy machine may be late with a few.
    assert!((350..=401).contains(&count), "{count}");
    let log = log.expect("a log was written");
    let rows = |line: &&str| !line.starts_with('#') && !line.starts_with('"');
    assert!(log.starts_with("#[") && log.lines().filter(rows).count() >= 2, "{log}");
    for row in log.lines().filter(rows) {
        let fields: Vec<&str> = row.split(',').collect();
        assert_eq!(fields.len(), 4, "{row}");
        assert!(fields[0].parse::<f64>().is_ok() && fields[3].starts_with("HISTF"), "{row}");
    }
}
