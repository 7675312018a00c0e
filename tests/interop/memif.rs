//! `net_memif`: two processes through shared memory, and what happens when one of them dies.

use std::time::{Duration, Instant};

use serde_json::Value;
use tests::{Dataplane, Scratch, counter, iperf_json, moved, received, until};

/// The two ends of one link. Who opens the socket (`server`, `client`) is independent of who serves.
struct Link {
    scratch: Scratch,
    more: String,
    mtu: u16,
}

const ADDRESSES: [(&str, &str); 2] =
    [("10.97.0.1/24", "fd97::1/64"), ("10.97.0.2/24", "fd97::2/64")];

impl Link {
    fn new(mtu: u16, more: &str) -> Self {
        Self { scratch: Scratch::new(), more: more.to_owned(), mtu }
    }

    fn socket(&self) -> String {
        self.scratch.path("memif.sock")
    }

    fn vdev(&self, role: &str) -> String {
        format!("net_memif0,role={role},id=0,socket={}{}", self.socket(), self.more)
    }

    /// Our iperf server, as the end of the link that has this role.
    fn serve(&self, role: &str) -> Dataplane {
        let mut c = self.end("server", role, ADDRESSES[0]);
        c.args(["-s", "--rcv-timeout", "1000"]);
        let server = Dataplane::start(c);
        server.wait_for("Server listening");
        server
    }

    fn end(&self, name: &str, role: &str, (v4, v6): (&str, &str)) -> std::process::Command {
        let mut c = self.scratch.millrace("iperf", name);
        c.args(["--vdev", &self.vdev(role), "--address", v4, "--address", v6]);
        c.args(["--mtu", &self.mtu.to_string(), "--memory", "128MiB"]);
        c
    }

    /// Our iperf client at the other end.
    fn client(&self, role: &str) -> std::process::Command {
        self.end("client", role, ADDRESSES[1])
    }

    fn iperf(&self, role: &str, flags: &[&str]) -> Value {
        iperf_json(self.client(role), flags)
    }
}

#[test]
fn both_directions_families_and_sizes() {
    for mtu in [1500, 9000] {
        let link = Link::new(mtu, "");
        let _server = link.serve("server");
        for host in ["10.97.0.1", "fd97::1"] {
            moved(&link.iperf("client", &["-c", host, "-n", "100M"]));
            moved(&link.iperf("client", &["-c", host, "-n", "100M", "-R"]));
        }
        moved(&link.iperf("client", &["-c", "10.97.0.1", "-n", "100M", "-P", "4"]));
        let both = link.iperf("client", &["-c", "fd97::1", "-n", "50M", "--bidir", "-P", "4"]);
        moved(&both);
        assert!(received(&both, "sum_received_bidir_reverse") > 1e6, "{:#}", both["end"]);
        let instance = link.scratch.instance("server");
        assert_eq!(counter(&instance, "drop_tcp_csum"), 0);
        assert_eq!(counter(&instance, "drop_mbuf_bad"), 0);
    }
}

#[test]
fn buffers_smaller_than_a_frame_are_refused() {
    let link = Link::new(9000, ",bsize=2048");
    let output = link.client("client").args(["-c", "10.97.0.1"]).output().expect("millrace starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("bsize=2048 is smaller than a frame of 9018"), "{text}");
}

/// One end is killed in the middle of a test and started again; the other end goes on.
fn survives(link: &Link, server_role: &str, client_role: &str) {
    let instance = link.scratch.instance("server");
    let start = |direction: &[&str]| {
        let mut client = link.client(client_role);
        client.args(["-c", "10.97.0.1", "-t", "30"]).args(direction);
        Dataplane::start(client)
    };
    // Whoever makes the socket has to be first.
    let early = (client_role == "server").then(|| {
        let client = start(&[]);
        client.wait_for("no link");
        client
    });
    let server = link.serve(server_role);
    let mut early = early;
    for direction in [&[][..], &["-R"]] {
        let first = early.take().unwrap_or_else(|| start(direction));
        let segments = || counter(&instance, "TcpInSegs");
        let before = segments();
        until(Duration::from_secs(10), "traffic", || segments() > before + 500);
        first.signal("KILL");
        assert_eq!(first.wait(Duration::from_secs(5)), None, "it was killed");
        // The old test occupies the server until it gives up on data, as with the original.
        let begun = Instant::now();
        loop {
            let mut again = link.client(client_role);
            again.args(["-c", "10.97.0.1", "-n", "20M", "-J", "--connect-timeout", "3000"]);
            let output = again.args(direction).output().expect("millrace starts");
            if output.status.success() {
                moved(&serde_json::from_slice(&output.stdout).expect("-J prints JSON"));
                break;
            }
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.contains("busy") || text.contains("onnect"), "{text}");
            assert!(begun.elapsed() < Duration::from_secs(15), "never again: {text}");
        }
        until(Duration::from_secs(5), "old connections go", || {
            counter(&instance, "MillraceConnections") == 0
        });
    }
    server.signal("INT");
    assert_eq!(server.wait(Duration::from_secs(8)), Some(0));
}

#[test]
fn h138_the_owner_of_the_socket_is_killed_and_comes_back() {
    // A socket in the file system, which the dead owner leaves behind.
    let link = Link::new(1500, ",socket-abstract=no");
    survives(&link, "client", "server");
    assert!(!std::path::Path::new(&link.socket()).exists(), "an orderly end removes the socket");
}

#[test]
fn h138_the_other_end_is_killed_and_comes_back() {
    survives(&Link::new(1500, ""), "server", "client");
}

#[test]
fn sockets_that_are_in_use_or_served_by_nobody_or_none_at_all_are_refused() {
    let link = Link::new(1500, ",socket-abstract=no");
    let _server = link.serve("server");
    let refusal = |link: &Link, role: &str| {
        let output = link.client(role).args(["-s"]).output().expect("millrace starts");
        assert_eq!(output.status.code(), Some(3));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let text = refusal(&link, "server");
    assert!(text.contains("another process serves") && text.contains("role=client"), "{text}");
    assert!(std::path::Path::new(&link.socket()).exists(), "it is left alone");

    for more in ["", ",socket-abstract=no"] {
        let text = refusal(&Link::new(1500, more), "client");
        assert!(text.contains("nobody serves") && text.contains("role=server first"), "{text}");
    }
    let other = Link::new(1500, ",socket-abstract=no");
    std::fs::write(other.socket(), "precious").expect("writable");
    let text = refusal(&other, "client");
    assert!(text.contains("is not a socket"), "{text}");
    let text = refusal(&other, "server");
    assert!(text.contains("is not a socket"), "{text}");
    assert_eq!(std::fs::read_to_string(other.socket()).expect("still there"), "precious");
}
