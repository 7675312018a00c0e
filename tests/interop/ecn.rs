//! ECN with the kernel on the other end, and marks in between.

use std::time::Duration;

use serde_json::Value;
use tests::{Dataplane, Lab, moved, needs_root, until};

/// The connection that has moved most.
fn busiest(lab: &Lab) -> Value {
    let rows = lab.ask(&["ss", "-a", "-i"]);
    let bytes = |row: &Value| {
        let of = |key: &str| row["info"][key].as_u64().unwrap_or(0);
        of("bytes_sent") + of("bytes_received")
    };
    let busiest = rows.as_array().into_iter().flatten().max_by_key(|row| bytes(row));
    busiest.cloned().unwrap_or_default()
}

/// For what is soon there, but nobody knows on which machine.
const LONG: Duration = Duration::from_secs(20);

/// Our iperf as a client of the kernel's that goes on until it is stopped.
fn client(lab: &Lab, flags: &[&str]) -> Dataplane {
    let mut client = lab.millrace("iperf");
    client.args(["-c", Lab::KERNEL4, "-t", "60"]).args(flags);
    let client = Dataplane::start(client);
    client.wait_for("Interval");
    client
}

fn stop(client: Dataplane) {
    client.signal("INT");
    assert!(client.wait(LONG).is_some(), "it ends");
}

#[test]
fn the_kernel_asks_and_marks_are_answered_both_ways() {
    needs_root!();
    let lab = Lab::new(1500);
    lab.kernel_sysctl("net.ipv4.tcp_ecn=1");
    lab.mark(50);
    let _server = lab.serve(&[]);
    for address in [Lab::OURS4, Lab::OURS6] {
        let kernel = lab.kernel_counter("TcpExtTCPDeliveredCE");
        let family = if address == Lab::OURS4 { "IpExt" } else { "Ip6" };
        moved(&lab.kernel_iperf(&["-c", address, "-t", "1"]));
        assert!(lab.counter(&format!("{family}InCEPkts")) > 0, "marks have come");
        assert!(lab.counter(&format!("{family}InECT0Pkts")) > 100, "{address}");
        assert!(lab.kernel_counter("TcpExtTCPDeliveredCE") > kernel, "and were echoed: {address}");

        let (reductions, delivered) =
            (lab.counter("MillraceEcnReductions"), lab.counter("TcpExtTCPDeliveredCE"));
        moved(&lab.kernel_iperf(&["-c", address, "-t", "1", "-R"]));
        assert!(lab.counter("MillraceEcnReductions") > reductions, "{address}");
        assert!(lab.counter("TcpExtTCPDeliveredCE") > delivered, "{address}");
    }
}

#[test]
fn we_ask_and_the_kernel_grants() {
    needs_root!();
    let lab = Lab::new(1500);
    lab.mark(50);
    let _server = lab.kernel_iperf_server();
    let client = client(&lab, &["--sysctl", "net.ipv4.tcp_ecn=1"]);
    until(LONG, "our data are marked", || {
        busiest(&lab)["info"]["ecn"] == true && lab.counter("MillraceEcnReductions") > 0
    });
    stop(client);

    let before = lab.kernel_counter("TcpExtTCPDeliveredCE");
    let client = self::client(&lab, &["-R", "--sysctl", "net.ipv4.tcp_ecn=1"]);
    until(LONG, "our echo reaches the kernel", || {
        busiest(&lab)["info"]["ecn_seen"] == true
            && lab.kernel_counter("TcpExtTCPDeliveredCE") > before
    });
    stop(client);
}

/// All that DCTCP sends may be marked, its SYN included, which a kernel without it takes for the work of a
/// broken path.
#[test]
fn dctcp_gives_way_to_reno_with_a_peer_that_does_not_grant() {
    needs_root!();
    let lab = Lab::new(1500);
    let _server = lab.kernel_iperf_server();
    let client = client(&lab, &["-C", "dctcp"]);
    until(LONG, "a connection without ECN", || {
        let info = &busiest(&lab)["info"];
        info["ecn"] == false && info["congestion"] == "reno"
    });
    stop(client);
}

#[test]
fn a_path_that_loses_the_question_costs_one_timeout() {
    needs_root!();
    let lab = Lab::new(1500);
    lab.lose_ecn_syns();
    let _server = lab.kernel_iperf_server();
    let client = client(&lab, &["--sysctl", "net.ipv4.tcp_ecn=1"]);
    until(LONG, "a connection without ECN", || {
        let row = busiest(&lab);
        row["state"] == "ESTAB" && row["info"]["ecn"] == false
    });
    assert!(lab.counter("TcpExtTCPSynRetrans") >= 2, "control and data connection");
    stop(client);
}
