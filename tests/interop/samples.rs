//! Every sample of `config/` starts for real and carries a little traffic.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tests::{Dataplane, Lab, Scratch, binary, iperf_json, iperf3, moved, needs_root, pcap, until};

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../config"))
}

/// A sample with the names in it replaced; each has to be there. The line that names the instance
/// goes, as the fixtures set one.
fn sample(file: &str, replace: &[(&str, &str)]) -> String {
    let text = std::fs::read_to_string(folder().join(file)).expect("the sample is there");
    let lines = text.lines().filter(|l| !l.starts_with('#') && !l.starts_with("instance"));
    let mut text = lines.collect::<Vec<_>>().join("\n");
    for (from, to) in replace {
        assert!(text.contains(from), "{file} does not say {from}");
        text = text.replace(from, to);
    }
    text
}

#[test]
fn none_is_forgotten() {
    // Needs a NIC; `config` checks that it can be read.
    let elsewhere = ["knobs.toml", "Cargo.toml", "physical.toml"];
    let tested = [
        "af_packet-jumbo.toml",
        "af_packet.toml",
        "af_xdp.toml",
        "memif.toml",
        "null.toml",
        "pcap.toml",
        "ring.toml",
        "tap.toml",
        "two-ports.toml",
    ];
    for entry in std::fs::read_dir(folder()).expect("the folder is there").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".toml") && !elsewhere.contains(&name.as_str()) {
            assert!(tested.contains(&name.as_str()), "no test starts {name}");
        }
    }
}

/// A sample on one end of a veth pair, whose other end is prepared as its comment says.
fn on_veth(file: &str, mtu: u16) {
    let lab = Lab::with_queues(mtu, Some(1));
    let kernel = lab.kernel_interface();
    lab.kernel_ip(&format!("addr add 10.0.0.1/24 dev {kernel}"));
    lab.kernel_ip(&format!("addr add fd00::1/64 dev {kernel} nodad"));
    let text = sample(file, &[("iface=veth0", &format!("iface={}", lab.our_interface()))]);
    let server = lab.run(&text);
    server.wait_for("Server listening");
    moved(&lab.kernel_iperf(&["-c", "10.0.0.2", "-n", "10M"]));
    if text.contains("fd00::2") {
        moved(&lab.kernel_iperf(&["-c", "fd00::2", "-n", "10M"]));
    }
}

#[test]
fn on_an_interface() {
    needs_root!();
    on_veth("af_packet.toml", 1500);
    on_veth("af_packet-jumbo.toml", 9000);
    on_veth("af_xdp.toml", 1500);
}

#[test]
fn behind_a_tap() {
    needs_root!();
    let lab = Lab::new(1500);
    let server = lab.run(&sample("tap.toml", &[]));
    lab.our_ip("addr add 10.0.0.1/24 dev mill0");
    server.wait_for("Server listening");
    moved(&iperf3(lab.ours("iperf3"), &["-c", "10.0.0.2", "-n", "10M"]));
}

#[test]
fn between_two_processes() {
    let scratch = Scratch::new();
    let socket = scratch.path("memif.sock");
    let text = sample("memif.toml", &[("/run/millrace/memif.sock", &socket)]);
    let server = scratch.run("server", &text);
    server.wait_for("Server listening");
    let mut client = scratch.millrace("iperf", "client");
    client.args(["-c", "10.1.0.1"]);
    client.args(["--vdev", &format!("net_memif0,role=client,id=0,socket={socket}")]);
    client.args(["--address", "10.1.0.2/24"]);
    moved(&iperf_json(client, &["-n", "10M"]));
}

#[test]
fn on_two_links_of_different_kinds() {
    needs_root!();
    let lab = Lab::with_queues(1500, Some(1));
    let kernel = lab.kernel_interface();
    lab.kernel_ip(&format!("addr add 10.0.0.1/24 dev {kernel}"));
    let scratch = Scratch::new();
    let socket = scratch.path("memif.sock");
    let interface = format!("iface={}", lab.our_interface());
    let replace = [("iface=veth0", interface.as_str()), ("/run/millrace/memif.sock", &socket)];
    let server = lab.run(&sample("two-ports.toml", &replace));
    server.wait_for("Server listening");
    moved(&lab.kernel_iperf(&["-c", "10.0.0.2", "-n", "10M"]));
    // The name of the socket is abstract: both ends have to be in one network namespace.
    let mut client = lab.ours(binary("millrace").to_str().expect("a path of this workspace"));
    client.args(["iperf", "--instance", &scratch.instance("client")]);
    client.args(["-c", "10.1.0.1"]);
    client.args(["--vdev", &format!("net_memif0,role=client,id=0,socket={socket}")]);
    client.args(["--address", "10.1.0.2/24"]);
    moved(&iperf_json(client, &["-n", "10M"]));
}

#[test]
fn without_a_peer() {
    let scratch = Scratch::new();
    let null = scratch.run("null", &sample("null.toml", &[]));
    let instance = scratch.instance("null");
    until(Duration::from_secs(10), "frames are dropped", || {
        tests::counter(&instance, "drop_l2_unknown") > 1000
    });
    drop(null);

    let (from, to) = (scratch.path("in.pcap"), scratch.path("out.pcap"));
    let request = crate::pcap::arp_request([10, 0, 0, 2]);
    pcap::write(&from, &[request]).expect("writable");
    let text = sample("pcap.toml", &[("in.pcap", &from), ("out.pcap", &to)]);
    let replay = scratch.run("pcap", &text);
    until(Duration::from_secs(10), "an answer", || {
        pcap::read(&to).is_ok_and(|frames| frames.iter().any(|f| crate::pcap::is_arp_reply(f)))
    });
    replay.signal("INT");
    assert_eq!(replay.wait(Duration::from_secs(8)), Some(0));
}

#[test]
fn two_stacks_in_one_process() {
    // The first line that the README gives for `net_ring`.
    let mut command = Command::new(binary("millrace"));
    command.args(["iperf", "--ring", "-t", "1"]);
    let ring = Dataplane::start(command);
    ring.wait_for("iperf Done.");
    assert_eq!(ring.wait(Duration::from_secs(8)), Some(0));

    let scratch = Scratch::new();
    let file = scratch.path("ring.toml");
    std::fs::write(&file, sample("ring.toml", &[])).expect("writable");
    let on_ring = |tool: &str| {
        let mut command = scratch.millrace(tool, "ring");
        command.args(["--ring", "--config", &file]);
        command
    };
    for family in ["-4", "-6"] {
        let result = iperf_json(on_ring("iperf"), &[family, "-n", "10M"]);
        moved(&result);
        let mss = result["start"]["tcp_mss_default"].as_u64();
        assert!(mss.is_some_and(|mss| mss > 8900), "the MTU of the file: {mss:?}");
    }
    let mut short = on_ring("rr");
    let output = short.args(["--connect", "-n", "200", "--json"]).output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    let mut raw = on_ring("rr");
    let output = raw.args(["--raw", "-n", "200"]).output().expect("it starts");
    assert!(output.status.success(), "{output:?}");

    // A single stack would hear nobody but itself.
    let mut alone = Command::new(binary("millrace"));
    alone.args(["run", "--config", &file]);
    let output = alone.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("--ring"), "{text}");
}
