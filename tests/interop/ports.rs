//! Several ports in one instance: two kernels on two links, and a link of another kind beside them.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use tests::{Dataplane, binary, needs_root};

/// Two kernels in namespaces of their own; a third namespace has the other ends of both links.
struct TwoLinks {
    name: String,
}

#[track_caller]
fn must(command: &mut Command) -> Output {
    let output = command.output().expect("the program starts");
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

fn ip(args: &[&str]) {
    must(Command::new("ip").args(args));
}

impl TwoLinks {
    fn new(mtus: [u16; 2]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let unique = format!("{}x{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let links = Self { name: format!("mrp{unique}") };
        let ours = links.ours();
        ip(&["netns", "add", &ours]);
        for (link, mtu) in mtus.into_iter().enumerate() {
            let (kernel, inner, outer) = (links.kernel(link), links.port(link), format!("k{link}"));
            let mtu = mtu.to_string();
            ip(&["netns", "add", &kernel]);
            ip(&[
                "-n", &kernel, "link", "add", &outer, "type", "veth", "peer", "name", &inner,
                "netns", &ours,
            ]);
            let quiet = format!("net.ipv6.conf.{inner}.disable_ipv6=1");
            must(Command::new("ip").args(["netns", "exec", &ours, "sysctl", "-q", "-w", &quiet]));
            for (namespace, interface) in [(&kernel, &outer), (&ours, &inner)] {
                must(
                    Command::new("ip")
                        .args(["netns", "exec", namespace, "ethtool", "-K", interface])
                        .args(["tso", "off", "gso", "off", "gro", "off", "tx", "off", "rx", "off"]),
                );
                ip(&["-n", namespace, "link", "set", interface, "mtu", &mtu, "up"]);
            }
            ip(&["-n", &kernel, "addr", "add", &format!("10.9{link}.0.1/24"), "dev", &outer]);
            let v6 = format!("fd9{link}::1/64");
            ip(&["-n", &kernel, "addr", "add", &v6, "dev", &outer, "nodad"]);
        }
        links
    }

    fn ours(&self) -> String {
        format!("{}u", self.name)
    }

    fn kernel(&self, link: usize) -> String {
        format!("{}k{link}", self.name)
    }

    fn port(&self, link: usize) -> String {
        format!("p{link}{}", self.name.trim_start_matches("mrp"))
    }

    fn millrace(&self, args: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.ours()]);
        command.arg(binary("millrace")).args(args);
        command
    }

    fn vdev(&self, link: usize) -> String {
        format!("net_af_packet{link},iface={}", self.port(link))
    }

    /// An instance from a file: an echo server and an iperf server on the ports of `sections`.
    fn run(&self, sections: &str) -> Dataplane {
        let file = self.file();
        let apps = "[[app]]\nkind = \"echo\"\nport = 7\n[[app]]\nkind = \"iperf-server\"\n";
        let text = format!("instance = \"{}\"\n{sections}{apps}", self.name);
        std::fs::write(&file, text).expect("the temporary directory is writable");
        let dataplane = Dataplane::start(self.millrace(&["run", "--config", &file]));
        dataplane.wait_for("running");
        dataplane
    }

    fn file(&self) -> String {
        std::env::temp_dir().join(format!("{}.toml", self.name)).to_string_lossy().into_owned()
    }

    fn section(&self, link: usize, mtu: u16) -> String {
        format!(
            "[[port]]\nvdev = \"{}\"\naddresses = [\"10.9{link}.0.2/24\", \"fd9{link}::2/64\"]\n\
             mtu = {mtu}\n",
            self.vdev(link)
        )
    }

    /// A program behind one of the links.
    fn behind(&self, link: usize, program: &str, args: &[&str]) -> Dataplane {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.kernel(link), program]).args(args);
        Dataplane::start(command)
    }

    fn ask(&self, args: &[&str]) -> Value {
        let instance = ["--instance", &self.name, "--json"];
        let output = must(Command::new(binary("millrace")).args(args).args(instance));
        serde_json::from_slice(&output.stdout).expect("--json prints JSON")
    }
}

impl Drop for TwoLinks {
    fn drop(&mut self) {
        for namespace in [self.ours(), self.kernel(0), self.kernel(1)] {
            if let Ok(out) = Command::new("ip").args(["netns", "pids", &namespace]).output() {
                for pid in String::from_utf8_lossy(&out.stdout).split_whitespace() {
                    let _ = Command::new("kill").args(["-9", pid]).output();
                }
            }
            let _ = Command::new("ip").args(["netns", "del", &namespace]).output();
        }
        let _ = std::fs::remove_file(self.file());
        let _ = std::fs::remove_file(format!("/run/millrace/{}.sock", self.name));
    }
}

const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

#[test]
fn two_links_are_served_at_once_in_both_families() {
    needs_root!();
    let links = TwoLinks::new([1500, 9000]);
    let dataplane = links.run(&(links.section(0, 1500) + &links.section(1, 9000)));
    let peer = binary("millrace-test-peer").to_string_lossy().into_owned();
    let clients: Vec<Dataplane> = ["10.90.0.2:7", "[fd90::2]:7", "10.91.0.2:7", "[fd91::2]:7"]
        .into_iter()
        .zip([0, 0, 1, 1])
        .map(|(at, link)| links.behind(link, &peer, &["echo", at, "5000000", "2"]))
        .collect();
    for client in clients {
        assert_eq!(client.wait(LIMIT), Some(0));
    }

    for (link, address) in [(0, "10.90.0.2"), (1, "fd91::2")] {
        let holder = links.behind(link, &peer, &["hold", &format!("{}:7", bracketed(address))]);
        let args = ["-c", address, "-t", "1", "-C", "cubic"];
        assert_eq!(links.behind(link, "iperf3", &args).wait(LIMIT), Some(0));
        let rows = links.ask(&["ss"]);
        let held = rows.as_array().into_iter().flatten().find(|row| {
            row["local"].as_str().is_some_and(|local| local.contains(address))
                && row["state"] == "ESTAB"
        });
        let held = held.unwrap_or_else(|| panic!("{rows:#}"));
        assert_eq!(held["port"], format!("net_af_packet{link}"));
        drop(holder);
    }
    let all = links.ask(&["nstat", "--zeros"]);
    for link in [0, 1] {
        let received = &all["millrace"][format!("net_af_packet{link}.RX-packets")];
        assert!(received.as_u64() > Some(1000), "{received}");
    }
    assert_eq!(all["millrace"]["drop_tcp_csum"], 0);
    dataplane.signal("TERM");
    assert_eq!(dataplane.wait(LIMIT), Some(0));
}

fn bracketed(address: &str) -> String {
    if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
}

#[test]
fn flags_describe_several_ports() {
    needs_root!();
    let links = TwoLinks::new([1500, 1500]);
    let (first, second) = (links.vdev(0), links.vdev(1));
    let mut command = links.millrace(&["iperf", "-s", "--instance", &links.name]);
    command.args(["--vdev", &first, "--address", "10.90.0.2/24"]);
    command.args(["--vdev", &second, "--address", "10.91.0.2/24", "--address", "fd91::2/64"]);
    let server = Dataplane::start(command);
    server.wait_for("Server listening");
    for (link, address) in [(0, "10.90.0.2"), (1, "10.91.0.2"), (1, "fd91::2")] {
        let args = ["-c", address, "-t", "1", "-C", "cubic"];
        assert_eq!(links.behind(link, "iperf3", &args).wait(LIMIT), Some(0));
    }
    // The route decides: as a client, by the second port.
    drop(server);
    let listener = links.behind(1, "iperf3", &["-s", "-1", "--forceflush"]);
    listener.wait_for("Server listening");
    let mut command = links.millrace(&["iperf", "-c", "10.91.0.1", "-t", "1"]);
    command.args(["--vdev", &first, "--address", "10.90.0.2/24"]);
    command.args(["--vdev", &second, "--address", "10.91.0.2/24"]);
    assert_eq!(Dataplane::start(command).wait(LIMIT), Some(0));
    assert_eq!(listener.wait(LIMIT), Some(0));
}

#[test]
fn a_packet_socket_and_shared_memory_in_one_instance() {
    needs_root!();
    let links = TwoLinks::new([1500, 1500]);
    let socket = std::env::temp_dir().join(format!("{}.memif", links.name));
    let memif = |role: &str| format!("net_memif0,role={role},id=0,socket={}", socket.display());
    let section = format!(
        "[[port]]\nvdev = \"{}\"\naddresses = [\"10.92.0.2/24\", \"fd92::2/64\"]\n",
        memif("server")
    );
    let dataplane = links.run(&(links.section(0, 1500) + &section));
    let peer = binary("millrace-test-peer").to_string_lossy().into_owned();
    let echo = links.behind(0, &peer, &["echo", "10.90.0.2:7", "20000000"]);
    for address in ["10.92.0.2", "fd92::2"] {
        let mut command = links.millrace(&["iperf", "-c", address, "-t", "1"]);
        command.args(["--vdev", &memif("client"), "--instance", &format!("{}c", links.name)]);
        command.args(["--address", "10.92.0.1/24", "--address", "fd92::1/64"]);
        assert_eq!(Dataplane::start(command).wait(LIMIT), Some(0));
    }
    assert_eq!(echo.wait(LIMIT), Some(0));
    dataplane.signal("TERM");
    assert_eq!(dataplane.wait(LIMIT), Some(0));
    let _ = std::fs::remove_file(socket);
}
