//! The kernel's iperf3 as the client of our server.

use std::time::Duration;

use serde_json::Value;
use tests::{Lab, needs_root};

fn received(result: &Value, key: &str) -> f64 {
    result["end"][key]["bytes"].as_f64().unwrap_or(0.0)
}

#[track_caller]
fn moved(result: &Value) {
    assert!(result["error"].is_null(), "{}", result["error"]);
    assert!(received(result, "sum_received") > 1e6, "{:#}", result["end"]);
}

#[test]
fn both_directions_and_families() {
    needs_root!();
    let lab = Lab::new(1500);
    let server = lab.serve(&[]);
    for address in [Lab::OURS4, Lab::OURS6] {
        moved(&lab.kernel_iperf(&["-c", address, "-t", "1"]));
        moved(&lab.kernel_iperf(&["-c", address, "-t", "1", "-R"]));
    }
    assert!(server.output().contains("Accepted connection from 10.99.0.1"), "{}", server.output());
}

#[test]
fn many_streams_and_both_directions_at_once() {
    needs_root!();
    let lab = Lab::new(1500);
    let _server = lab.serve(&[]);
    moved(&lab.kernel_iperf(&["-c", Lab::OURS4, "-t", "1", "-P", "8"]));
    moved(&lab.kernel_iperf(&["-c", Lab::OURS4, "-t", "1", "-P", "8", "-R"]));
    let both = lab.kernel_iperf(&["-c", Lab::OURS4, "-t", "1", "--bidir", "-P", "2"]);
    moved(&both);
    assert!(received(&both, "sum_received_bidir_reverse") > 1e6, "{:#}", both["end"]);
    moved(&lab.kernel_iperf(&["-c", Lab::OURS6, "-t", "1", "-P", "128"]));
}

#[test]
fn every_way_to_end_and_shape_a_test() {
    needs_root!();
    let lab = Lab::new(1500);
    let _server = lab.serve(&[]);
    // The original ends as soon as the last block is handed to TCP, so the receiver's count is short.
    let exact = lab.kernel_iperf(&["-c", Lab::OURS4, "-n", "10M"]);
    assert!(received(&exact, "sum_sent") >= 10.0 * 1024.0 * 1024.0);
    moved(&exact);
    moved(&lab.kernel_iperf(&["-c", Lab::OURS4, "-k", "100"]));
    moved(&lab.kernel_iperf(&["-c", Lab::OURS4, "-t", "1", "-M", "1200", "-R"]));
    moved(&lab.kernel_iperf(&["-c", Lab::OURS4, "-t", "1", "-w", "256K"]));
    moved(&lab.kernel_iperf(&["-c", Lab::OURS4, "-t", "1", "-O", "1"]));
    moved(&lab.kernel_iperf(&["-c", Lab::OURS4, "-t", "1", "-l", "1000", "-N", "-R"]));
    let output = lab.kernel_iperf(&["-c", Lab::OURS4, "-t", "1", "--get-server-output"]);
    moved(&output);
    let has = |key: &str| !output[key].is_null();
    assert!(has("server_output_text") || has("server_output_json"), "{output:#}");
}

#[test]
fn jumbo_frames() {
    needs_root!();
    let lab = Lab::new(9000);
    let _server = lab.serve(&[]);
    for address in [Lab::OURS4, Lab::OURS6] {
        moved(&lab.kernel_iperf(&["-c", address, "-t", "1"]));
        moved(&lab.kernel_iperf(&["-c", address, "-t", "1", "-R"]));
    }
}

#[test]
fn one_percent_loss() {
    needs_root!();
    let lab = Lab::new(1500);
    let _server = lab.serve(&[]);
    lab.lose(1);
    moved(&lab.kernel_iperf(&["-c", Lab::OURS4, "-t", "2"]));
    let reverse = lab.kernel_iperf(&["-c", Lab::OURS4, "-t", "2", "-R"]);
    moved(&reverse);
    assert!(reverse["end"]["sum_sent"]["retransmits"].as_u64().unwrap_or(0) > 0);
    // Recovery by SACK keeps the flow moving: timeouts must stay rare.
    assert!(lab.counter("TcpExtTCPSackRecovery") > lab.counter("TcpExtTCPTimeouts"));
}

#[test]
fn an_intruder_and_a_scanner_do_not_disturb_a_running_test() {
    needs_root!();
    let lab = Lab::new(1500);
    let _server = lab.serve(&[]);
    let mut client = lab.kernel("iperf3");
    client.args(["-c", Lab::OURS4, "-t", "3", "-J", "-C", "cubic"]);
    let client = std::thread::scope(|s| {
        let running = s.spawn(|| client.output().expect("iperf3 starts"));
        std::thread::sleep(Duration::from_millis(700));
        for _ in 0..3 {
            let intruder = lab
                .kernel("iperf3")
                .args(["-c", Lab::OURS4, "-t", "1"])
                .output()
                .expect("iperf3 starts");
            assert!(!intruder.status.success());
            let text = String::from_utf8_lossy(&intruder.stderr).into_owned()
                + &String::from_utf8_lossy(&intruder.stdout);
            assert!(text.contains("the server is busy running a test"), "{text}");
        }
        lab.peer(&["scan", Lab::OURS4, "5000", "5400"]);
        running.join().expect("the client thread ends")
    });
    assert!(client.status.success());
    let result: Value = serde_json::from_slice(&client.stdout).expect("JSON");
    moved(&result);
    // The scanner came to port 5201, too; the server must be ready again.
    moved(&lab.kernel_iperf(&["-c", Lab::OURS4, "-t", "1"]));
}

#[test]
fn a_killed_client_frees_the_server() {
    needs_root!();
    let lab = Lab::new(1500);
    let _server = lab.serve(&[]);
    for flags in [&["-t", "30"][..], &["-t", "30", "-R"], &["-t", "30", "--bidir", "-P", "4"]] {
        let mut command = lab.kernel("iperf3");
        command.args(["-c", Lab::OURS4]).args(flags);
        let client = tests::Dataplane::start(command);
        std::thread::sleep(Duration::from_millis(600));
        client.signal("KILL");
        drop(client);
        std::thread::sleep(Duration::from_millis(500));
        moved(&lab.kernel_iperf(&["-c", Lab::OURS4, "-t", "1"]));
    }
}
