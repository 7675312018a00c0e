//! Our iperf as the client of the kernel's.

use std::process::Output;

use serde_json::Value;
use tests::{Lab, needs_root};

fn run(lab: &Lab, flags: &[&str]) -> Output {
    lab.millrace("iperf").args(flags).output().expect("millrace starts")
}

#[track_caller]
fn json(output: &Output) -> Value {
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("-J prints JSON")
}

#[track_caller]
fn moved(result: &Value, key: &str) {
    assert!(result["end"][key]["bytes"].as_f64().unwrap_or(0.0) > 1e6, "{:#}", result["end"]);
}

#[test]
fn both_directions_and_families() {
    needs_root!();
    let lab = Lab::new(1500);
    let _server = lab.kernel_iperf_server();
    for address in [Lab::KERNEL4, Lab::KERNEL6] {
        moved(&json(&run(&lab, &["-c", address, "-t", "1", "-J"])), "sum_received");
        moved(&json(&run(&lab, &["-c", address, "-t", "1", "-J", "-R"])), "sum_received");
    }
    let both = json(&run(&lab, &["-c", Lab::KERNEL4, "-t", "1", "-J", "--bidir"]));
    moved(&both, "sum_received");
    moved(&both, "sum_received_bidir_reverse");
    moved(&json(&run(&lab, &["-c", Lab::KERNEL4, "-t", "1", "-J", "-P", "8"])), "sum_received");
}

#[test]
fn the_text_is_what_iperf_users_expect() {
    needs_root!();
    let lab = Lab::new(1500);
    let _server = lab.kernel_iperf_server();
    let output = run(&lab, &["-c", Lab::KERNEL4, "-t", "2"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for part in [
        "Connecting to host 10.99.0.1, port 5201",
        "local 10.99.0.2 port ",
        "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd",
        "sender",
        "receiver",
        "iperf Done.",
    ] {
        assert!(text.contains(part), "no \"{part}\" in\n{text}");
    }
}

#[test]
fn under_loss_it_goes_on() {
    needs_root!();
    let lab = Lab::new(1500);
    let _server = lab.kernel_iperf_server();
    lab.lose(1);
    moved(&json(&run(&lab, &["-c", Lab::KERNEL4, "-t", "2", "-J"])), "sum_received");
    moved(&json(&run(&lab, &["-c", Lab::KERNEL4, "-t", "2", "-J", "-R"])), "sum_received");
}

#[test]
fn nobody_there_is_a_clear_error() {
    needs_root!();
    let lab = Lab::new(1500);
    let output = run(&lab, &["-c", Lab::KERNEL4, "-t", "1"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("unable to connect to server"), "{text}");
}

#[test]
fn udp_is_refused_clearly() {
    needs_root!();
    let lab = Lab::new(1500);
    let output = run(&lab, &["-c", Lab::KERNEL4, "-u"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("UDP"));
    let _server = lab.serve(&[]);
    let kernel =
        lab.kernel("iperf3").args(["-c", Lab::OURS4, "-u", "-t", "1"]).output().expect("starts");
    assert!(!kernel.status.success());
}
