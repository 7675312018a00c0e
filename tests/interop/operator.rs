//! What an operator does: look, change, stop.

use std::process::Command;
use std::time::Duration;

use tests::{Lab, binary, needs_root};

#[test]
fn sysctl_ss_and_nstat_answer_while_traffic_runs() {
    needs_root!();
    let lab = Lab::new(1500);
    let _server = lab.serve(&[]);
    let mut client = lab.kernel("iperf3");
    client.args(["-c", Lab::OURS4, "-t", "3", "-R"]);
    let client = tests::Dataplane::start(client);
    std::thread::sleep(Duration::from_millis(800));

    let rows = lab.ask(&["ss", "-a", "-i"]);
    let states: Vec<_> = rows.as_array().into_iter().flatten().map(|r| &r["state"]).collect();
    assert!(states.iter().any(|s| *s == "LISTEN"), "{rows:#}");
    let busy =
        rows.as_array().into_iter().flatten().max_by_key(|r| r["info"]["bytes_sent"].as_u64());
    let busy = busy.expect("there is a connection");
    assert_eq!(busy["state"], "ESTAB");
    assert!(busy["info"]["cwnd_segs"].as_u64() >= Some(10), "{busy:#}");

    assert!(lab.counter("TcpOutSegs") > 1000);
    assert_eq!(lab.counter("drop_tcp_csum"), 0);

    let workers = &lab.ask(&["workers"])["workers"];
    assert_eq!(workers.as_array().map(Vec::len), Some(1), "{workers:#}");
    let worker = &workers[0];
    assert!(worker["connections"].as_u64() >= Some(2), "control and data: {worker:#}");
    assert!(worker["turns_busy"].as_u64() > Some(100), "{worker:#}");
    assert!(worker["buffers_free"].as_u64() < worker["buffers_total"].as_u64(), "{worker:#}");

    let read = |name: &str| lab.ask(&["sysctl", name]).to_string();
    assert!(read("net.ipv4.tcp_rmem").contains("33554432"));
    // Written in part, as on Linux: the rest keeps its values.
    lab.ask(&["sysctl", "-w", "net.ipv4.tcp_rmem=8192"]);
    let now = read("tcp_rmem");
    assert!(now.contains("8192") && now.contains("33554432"), "{now}");
    client.signal("INT");
}

#[test]
fn bad_writes_say_what_would_be_right() {
    needs_root!();
    let lab = Lab::new(1500);
    let _server = lab.serve(&[]);
    let sysctl = |args: &[&str]| {
        let out = Command::new(binary("millrace"))
            .arg("sysctl")
            .args(args)
            .args(["--instance", lab.instance()])
            .output()
            .expect("starts");
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let (code, text) = sysctl(&["-w", "net.ipv4.tcp_sack=7"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("tcp_sack") && text.contains("0..1"), "{text}");
    let (code, text) = sysctl(&["net.ipv4.tcp_sakc"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("tcp_sack"), "{text}");
}

#[test]
fn no_instance_is_exit_four() {
    for command in ["ss", "nstat", "workers"] {
        let out = Command::new(binary("millrace"))
            .args([command, "--instance", "surely-not-there"])
            .output()
            .expect("starts");
        assert_eq!(out.status.code(), Some(4), "{command}");
        assert!(String::from_utf8_lossy(&out.stderr).contains("surely-not-there"));
    }
}

#[test]
fn one_signal_stops_in_order_and_the_socket_is_gone() {
    needs_root!();
    let lab = Lab::new(1500);
    for signal in ["INT", "TERM"] {
        let echo = lab.echo();
        let mut hold = lab.kernel(&binary("millrace-test-peer").to_string_lossy());
        hold.args(["hold", "10.99.0.2:7"]);
        let hold = tests::Dataplane::start(hold);
        hold.wait_for("connected");
        echo.signal(signal);
        assert_eq!(echo.wait(Duration::from_secs(10)), Some(0));
    }
}

#[test]
fn a_second_instance_of_the_same_name_is_refused() {
    needs_root!();
    let lab = Lab::new(1500);
    let _first = lab.serve(&[]);
    let second = lab.millrace("iperf").arg("-s").output().expect("starts");
    assert!(!second.status.success());
    let text = String::from_utf8_lossy(&second.stderr);
    assert!(text.contains("already running"), "{text}");
}
