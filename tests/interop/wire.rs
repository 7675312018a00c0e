//! `millrace wire` between two kernels.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tests::{Dataplane, TwoLinks, needs_root};

const LIMIT: Duration = Duration::from_secs(60);

/// Two kernels that are neighbours through the wire, 10.97.0.1 and 10.97.0.2.
struct Path {
    links: TwoLinks,
}

impl Path {
    fn new() -> Self {
        let links = TwoLinks::new([1500, 1500]);
        for link in 0..2 {
            for address in [format!("10.97.0.{}/24", link + 1), format!("fd97::{}/64", link + 1)] {
                let mut ip = Command::new("ip");
                let interface = format!("k{link}");
                ip.args(["-n", &links.kernel(link), "addr", "add", &address, "dev", &interface]);
                if address.contains(':') {
                    ip.arg("nodad");
                }
                assert!(ip.status().expect("ip starts").success());
            }
        }
        Self { links }
    }

    /// A wire as `args` say.
    fn wire(&self, args: &[&str]) -> Dataplane {
        let (a, b) = (self.links.vdev(0), self.links.vdev(1));
        let mut all = vec!["wire", "--a", &a, "--b", &b, "--instance", self.links.instance()];
        all.extend_from_slice(args);
        let wire = Dataplane::start(self.links.millrace(&all));
        wire.wait_for("seconds  direction");
        wire
    }

    fn ask(&self, args: &[&str]) -> (Option<i32>, String) {
        let mut command = self.links.millrace(&["wire"]);
        let out = command.args(args).args(["--instance", self.links.instance()]).output();
        let out = out.expect("it starts");
        let [said, err] =
            [&out.stdout, &out.stderr].map(|b| String::from_utf8_lossy(b).into_owned());
        (out.status.code(), said + &err)
    }

    fn show(&self) -> Value {
        let (code, said) = self.ask(&["show"]);
        assert_eq!(code, Some(0), "{said}");
        serde_json::from_str(&said).expect("a document")
    }

    /// Milliseconds of the fastest of ten pings; the first asks for the neighbour.
    fn ping(&self, address: &str) -> f64 {
        let mut ping = Command::new("ip");
        ping.args([
            "netns",
            "exec",
            &self.links.kernel(0),
            "ping",
            "-c",
            "10",
            "-i",
            "0.1",
            "-q",
            address,
        ]);
        let out = ping.output().expect("ping starts");
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        // rtt min/avg/max/mdev = 50.303/60.403/100.640/20.118 ms
        let times = said.split("mdev = ").nth(1).unwrap_or_else(|| panic!("{said}"));
        times
            .split('/')
            .next()
            .and_then(|least| least.parse().ok())
            .unwrap_or_else(|| panic!("{said}"))
    }

    /// Bits per second that the kernel's iperf3 moves with CUBIC, after two seconds that do not count.
    fn iperf(&self, seconds: u32) -> f64 {
        let server = self.links.behind(1, "iperf3", &["-s", "-1", "--forceflush"]);
        server.wait_for("Server listening");
        let seconds = seconds.to_string();
        let mut client = Command::new("ip");
        client.args(["netns", "exec", &self.links.kernel(0), "iperf3", "-J", "-c", "10.97.0.2"]);
        let out = client
            .args(["-C", "cubic", "-O", "2", "-t", &seconds])
            .output()
            .expect("iperf3 starts");
        let result: Value = serde_json::from_slice(&out.stdout).expect("-J prints JSON");
        result["end"]["sum_received"]["bits_per_second"]
            .as_f64()
            .unwrap_or_else(|| panic!("{result:#}"))
    }
}

fn count(shown: &Value, direction: &str, key: &str) -> u64 {
    shown[direction][key].as_u64().unwrap_or_else(|| panic!("{direction}.{key}: {shown:#}"))
}

#[test]
fn delays_are_those_of_the_path_and_change_while_it_runs() {
    needs_root!();
    let path = Path::new();
    let wire = path.wire(&["--forward", "delay=30ms", "--reverse", "delay=20ms"]);
    // Nothing may be early. What is late is the machine's, so the least of ten counts, generously.
    let rtt = path.ping("10.97.0.2");
    assert!((50.0..65.0).contains(&rtt), "{rtt} ms");
    assert_eq!(path.ask(&["set", "delay=5ms"]), (Some(0), String::new()));
    let rtt = path.ping("fd97::2");
    assert!((10.0..25.0).contains(&rtt), "{rtt} ms");

    let (code, said) = path.ask(&["set", "forward.delay=1ms", "forward.color=red"]);
    assert_eq!(code, Some(1));
    assert!(said.starts_with("millrace: unknown key \"color\""), "{said}");
    assert_eq!(path.show()["forward"]["path"], "delay=5ms,mtu=1500", "all or nothing");
    // It is a wire and nothing else.
    let mut sysctl = path.links.millrace(&["sysctl", "-a", "--instance", path.links.instance()]);
    let out = sysctl.output().expect("it starts");
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("this is a wire"));

    wire.signal("TERM");
    wire.ends(LIMIT, 0);
}

#[test]
fn a_kernel_that_loses_one_percent_gets_what_theory_says() {
    needs_root!();
    let path = Path::new();
    let wire = path.wire(&["--both", "delay=25ms,rate=100Mbit,queue=1MiB", "--forward", "loss=1%"]);
    let bits = path.iperf(12);
    let shown = path.show();
    let (came, lost) =
        (count(&shown, "forward", "frames_in"), shown["forward"]["drops"]["loss"].as_f64());
    let share = lost.unwrap_or(0.0) / came as f64;
    assert!((0.004..0.02).contains(&share), "{share}");
    // At such a loss CUBIC does what Reno does (RFC 9438 section 4.3): sqrt(3/2p) segments per round trip. One
    // transfer of some seconds has dozens of losses, so it may well be off by half; a wire that loses no
    // packets or ten times as many, or has no delay, is off by factors of three and more.
    let theory = 1448.0 * 8.0 / 0.050 * (1.5 / share).sqrt();
    let ratio = bits / theory;
    assert!((0.4..2.5).contains(&ratio), "{bits} bit/s, {theory} expected");

    // A loss that ends lets the path be filled.
    assert_eq!(path.ask(&["set", "loss=0", "rate=20Mbit", "delay=2ms"]), (Some(0), String::new()));
    let bits = path.iperf(4);
    assert!((10e6..20e6).contains(&bits), "{bits} bit/s of 20 Mbit/s");

    let shown = path.show();
    for direction in ["forward", "reverse"] {
        let drops = shown[direction]["drops"].as_object().expect("drops");
        let dropped: u64 = drops.values().filter_map(Value::as_u64).sum();
        let gone = count(&shown, direction, "frames_out") + count(&shown, direction, "frames_held");
        assert_eq!(count(&shown, direction, "frames_in"), gone + dropped, "{shown:#}");
    }
    wire.signal("TERM");
    wire.ends(LIMIT, 0);
}

#[test]
fn offloaded_checksums_are_completed_and_large_frames_explained() {
    needs_root!();
    let path = Path::new();
    let wire = path.wire(&["--both", "delay=1ms", "--mtu", "1500"]);
    let offloads = |args: &[&str]| {
        for link in 0..2 {
            let mut ethtool = Command::new("ip");
            let interface = format!("k{link}");
            ethtool.args(["netns", "exec", &path.links.kernel(link), "ethtool", "-K", &interface]);
            assert!(ethtool.args(args).output().expect("ethtool starts").status.success());
        }
    };
    offloads(&["tx", "on"]);
    let echo = path.links.behind(1, "iperf3", &["-s", "-1", "--forceflush"]);
    echo.wait_for("Server listening");
    let client = path.links.behind(0, "iperf3", &["-c", "10.97.0.2", "-C", "cubic", "-n", "2M"]);
    client.ends(LIMIT, 0);
    assert!(count(&path.show(), "forward", "checksums_completed") > 500);

    offloads(&["tso", "on", "gso", "on"]);
    let echo = path.links.behind(1, "iperf3", &["-s", "-1", "--forceflush"]);
    echo.wait_for("Server listening");
    let client = path.links.behind(0, "iperf3", &["-c", "10.97.0.2", "-C", "cubic", "-t", "3"]);
    wire.wait_for("ethtool -K IFACE tso off gso off");
    drop((client, echo));
    wire.signal("TERM");
    wire.ends(LIMIT, 0);
}
