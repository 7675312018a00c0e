//! Wrong flags, files and addresses: one clear line that names the place, exit 2, before anything
//! starts.

#![forbid(unsafe_code)]

mod host;
mod sim;
mod wire;

use std::process::{Command, Output};

use tests::binary;

fn millrace(args: &[&str]) -> Output {
    Command::new(binary("millrace")).args(args).output().expect("millrace starts")
}

fn config(text: &str) -> (Output, String) {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let file = std::env::temp_dir().join(format!("mrt-cli-{}-{n}.toml", std::process::id()));
    std::fs::write(&file, text).expect("the temporary directory is writable");
    let out = millrace(&["config", "check", &file.to_string_lossy()]);
    let _ = std::fs::remove_file(&file);
    let err = String::from_utf8_lossy(&out.stderr).into_owned();
    (out, err)
}

#[test]
fn help_and_version_are_no_errors() {
    for args in [
        &["--help"][..],
        &["-h"],
        &["--version"],
        &["iperf", "--help"],
        &["iperf", "-h"],
        &["rr", "--help"],
        &["run", "--help"],
        &["doctor", "--help"],
        &["workers", "--help"],
        &["sim", "--help"],
        &["sim", "run", "--help"],
    ] {
        let out = millrace(args);
        assert_eq!(out.status.code(), Some(0), "{args:?}");
        assert!(!out.stdout.is_empty());
    }
}

#[test]
fn wrong_flags_exit_two_and_name_themselves() {
    let port = ["--vdev", "net_null0", "--address", "10.0.0.2/24"];
    let rows: &[(&[&str], &[&str], &str)] = &[
        (&["fly"], &[], "fly"),
        (&["iperf"], &port, "client (-c) or server (-s)"),
        (&["iperf", "-s", "-c", "10.0.0.1"], &port, "-c"),
        (&["iperf", "-s", "--adress", "10.0.0.2/24"], &[], "--address"),
        (&["iperf", "-c", "10.0.0.1", "-R", "--bidir"], &port, "bidir"),
        (&["iperf", "-c", "10.0.0.1", "-t", "1", "-n", "1M"], &port, "end condition"),
        (&["iperf", "-c", "10.0.0.1", "-P", "129"], &port, "128"),
        (&["iperf", "-c", "10.0.0.1", "-l", "2M"], &port, "1048576"),
        (&["iperf", "-c", "10.0.0.1", "-p", "70000"], &port, "70000"),
        (&["rr"], &port, "-c HOST"),
        (&["rr", "-s", "-c", "10.0.0.1"], &port, "only one of"),
        (&["rr", "-s", "-t", "1"], &port, "-t is for clients"),
        (&["rr", "-c"], &port, "needs the address"),
        (&["rr", "-c", "10.0.0.1", "-p", "5..4"], &port, "5..4"),
        (&["rr", "-c", "10.0.0.1", "-p", "1..300"], &port, "256"),
        (&["rr", "-c", "10.0.0.1", "--request-size", "17M"], &port, "16777216"),
        (&["rr", "-c", "10.0.0.1", "-P", "0"], &port, "at least one"),
        (&["rr", "-c", "10.0.0.1", "-t", "1", "-n", "5"], &port, "cannot be used with"),
        (&["rr", "-c", "10.0.0.1", "--connect", "-P", "4"], &port, "cannot be used with"),
        (&["rr", "-c", "10.0.0.1", "--connect", "--close", "fin"], &port, "fin-client"),
        (
            &["rr", "-c", "10.0.0.1", "--connect", "--close", "fin-server", "--request-size", "8"],
            &port,
            "16 bytes",
        ),
        (&["rr", "-c", "10.0.0.1", "-t", "0"], &port, "--hold"),
        (&["rr", "-c", "10.0.0.1", "-B", "10.0.0.3"], &port, "--bind 10.0.0.3"),
        (&["workers", "-z"], &[], "-z"),
        (&["rr", "-c", "10.0.0.1", "-i", "0.01"], &port, "0.1 seconds"),
        (&["rr", "-c", "--raw", "--connect"], &port, "cannot be used with"),
        (&["rr", "-c", "--raw", "--frame-size", "20"], &port, "60..9230"),
        (&["rr", "-c", "10.0.0.1", "--hdr-log", "/no/such/dir/x"], &port, "--hdr-log"),
        (&["iperf", "-c", "not an address"], &port, "not an address"),
        (&["iperf", "-s"], &["--address", "10.0.0.2/24"], "--vdev"),
        (&["iperf", "-s"], &["--vdev", "net_null0"], "--address"),
        (&["iperf", "-s"], &["--vdev", "net_null0", "--address", "10.0.0.300/24"], "10.0.0.300"),
        (&["iperf", "-s"], &["--vdev", "net_null0", "--address", "10.0.0.2/33"], "33"),
        (&["iperf", "-s"], &["--vdev", "net_null0", "--address", "10.0.0.0/24"], "10.0.0.0"),
        (
            &["iperf", "-s"],
            &["--vdev", "net_null0", "--address", "10.0.0.2/24", "--gateway", "10.1.0.1"],
            "10.1.0.1",
        ),
        (
            &["iperf", "-s"],
            &["--vdev", "net_null0", "--address", "10.0.0.2/24", "--cores", "999"],
            "999",
        ),
        (
            &["iperf", "-s"],
            &["--vdev", "net_null0", "--address", "10.0.0.2/24", "--mtu", "20"],
            "mtu",
        ),
    ];
    for (first, rest, part) in rows {
        let args: Vec<&str> = first.iter().chain(rest.iter()).copied().collect();
        let out = millrace(&args);
        let err = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {err}");
        assert!(err.contains(part), "{args:?}: no \"{part}\" in {err}");
        assert!(err.lines().count() <= 12, "{args:?}: too long:\n{err}");
    }
}

#[test]
fn device_faults_say_what_why_and_what_helps() {
    let rows: &[(&str, &[&str])] = &[
        ("net_af_pakcet0,iface=lo", &["net_af_packet"]),
        ("net_nosuch0", &["net_nosuch0"]),
        ("net_af_packet0,iface=surely-no-if", &["surely-no-if"]),
        ("net_af_packet0", &["iface"]),
    ];
    for (vdev, parts) in rows {
        let out = millrace(&["iperf", "-s", "--vdev", vdev, "--address", "10.0.0.2/24"]);
        let err = String::from_utf8_lossy(&out.stderr);
        assert!(matches!(out.status.code(), Some(2 | 3)), "{vdev}: {:?} {err}", out.status);
        for part in *parts {
            assert!(err.contains(part), "{vdev}: no \"{part}\" in {err}");
        }
        assert!(err.starts_with("millrace: "), "{err}");
    }
}

#[test]
fn configuration_files_are_checked_without_a_device() {
    let good = "[[port]]\nvdev = \"net_null0\"\naddresses = [\"10.0.0.2/24\"]\n[[app]]\nkind = \"echo\"\nport = 7\n";
    let (out, err) = config(good);
    assert_eq!(out.status.code(), Some(0), "{err}");

    let rows = [
        ("port = 1\n[[port]\n", "2"),
        ("[[port]]\nvdevs = \"net_null0\"\n", "vdev"),
        ("[[port]]\nvdev = \"net_null0\"\naddresses = [\"10.0.0.2/40\"]\n", "10.0.0.2/40"),
        (
            "[[port]]\nvdev = \"net_null0\"\naddresses = [\"10.0.0.2/24\"]\n[sysctl]\n\"net.ipv4.tcp_sakc\" = 1\n",
            "tcp_sack",
        ),
        (
            "[[port]]\nvdev = \"net_null0\"\naddresses = [\"10.0.0.2/24\"]\n[sysctl]\n\"net.ipv4.tcp_sack\" = 5\n",
            "0..1",
        ),
        (
            "[[port]]\nvdev = \"net_null0\"\naddresses = [\"10.0.0.2/24\"]\n[dataplane]\ncores = [999]\n",
            "999",
        ),
    ];
    for (text, part) in rows {
        let (out, err) = config(text);
        assert_eq!(out.status.code(), Some(2), "{text}: {err}");
        assert!(err.contains(part), "{text}: no \"{part}\" in {err}");
        assert!(err.contains(".toml"), "{text}: does not name the file: {err}");
    }
    let out = millrace(&["config", "check", "/nonexistent/x.toml"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("/nonexistent/x.toml"));
}

#[test]
fn two_stacks_in_one_process_need_no_root() {
    for flags in [&[][..], &["-R"], &["--bidir", "-P", "2"]] {
        let mut args = vec!["iperf", "--ring", "-t", "1", "-J"];
        args.extend_from_slice(flags);
        let out = millrace(&args);
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success(), "{flags:?}: {text}{}", String::from_utf8_lossy(&out.stderr));
        assert!(text.contains("\"sum_received\""), "{text}");
    }
}

#[test]
fn the_doctor_says_what_cannot_start() {
    let here = millrace(&["doctor", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&here.stdout).expect("one document");
    let ready = report["ready"].as_bool().expect("a verdict");
    assert_eq!(here.status.code(), Some(if ready { 0 } else { 3 }), "{report:#}");
    let findings = report["findings"].as_array().expect("findings");
    assert!(findings.iter().any(|f| f["check"] == "dpdk"), "{report:#}");

    let port = ["--vdev", "net_af_packet0,iface=no-such-if", "--address", "10.0.0.2/24"];
    let none = millrace(&[&["doctor"][..], &port].concat());
    let text = String::from_utf8_lossy(&none.stdout).into_owned();
    assert_eq!(none.status.code(), Some(3), "{text}");
    assert!(text.contains("interface no-such-if does not exist"), "{text}");
    let null = millrace(&["doctor", "--vdev", "net_null0", "--address", "10.0.0.2/24"]);
    let text = String::from_utf8_lossy(&null.stdout).into_owned();
    assert!(text.contains("net_null0 can be opened"), "{text}");
    let bare = millrace(&["doctor", "--vdev", "net_null0"]);
    let text = String::from_utf8_lossy(&bare.stdout).into_owned();
    assert_eq!(bare.status.code(), Some(3), "{text}");
    assert!(text.contains("--address"), "{text}");
}
