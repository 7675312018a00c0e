//! Links and peers as they should not be.

use std::time::Duration;

use tests::{Dataplane, Lab, needs_root};

#[test]
fn the_checksum_trap_is_named_and_can_be_trusted_away() {
    needs_root!();
    let lab = Lab::with_offloads(1500);
    let server = lab.serve(&[]);
    let mut client = lab.kernel("iperf3");
    client.args(["-c", Lab::OURS4, "-t", "1", "--connect-timeout", "15000"]);
    let client = Dataplane::start(client);
    server.wait_for("ethtool -K");
    assert!(server.output().contains("rx-checksum trust"), "{}", server.output());
    client.signal("KILL");
    drop(client);
    drop(server);

    let _trusting = lab.serve(&["--rx-checksum", "trust"]);
    let result = lab.kernel_iperf(&["-c", Lab::OURS4, "-n", "1M"]);
    assert!(result["error"].is_null(), "{result:#}");
}

#[test]
fn two_labs_at_the_same_time_do_not_meet() {
    needs_root!();
    let (a, b) = (Lab::new(1500), Lab::new(1500));
    let (_sa, _sb) = (a.serve(&[]), b.serve(&[]));
    std::thread::scope(|s| {
        for lab in [&a, &b] {
            s.spawn(move || {
                let result = lab.kernel_iperf(&["-c", Lab::OURS4, "-t", "1"]);
                assert!(result["error"].is_null(), "{result:#}");
            });
        }
    });
}

#[test]
fn the_peer_disappears_and_comes_back() {
    needs_root!();
    let lab = Lab::new(1500);
    let echo = lab.echo();
    let down_up = |state: &str| {
        let interface = lab.kernel_ns().replace("mrt", "k");
        let interface = interface.trim_end_matches('k');
        let out =
            lab.kernel("ip").args(["link", "set", interface, state]).output().expect("starts");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    };
    lab.peer(&["echo", "10.99.0.2:7", "100000"]);
    for _ in 0..3 {
        down_up("down");
        std::thread::sleep(Duration::from_millis(200));
        down_up("up");
    }
    std::thread::sleep(Duration::from_millis(500));
    lab.peer(&["echo", "10.99.0.2:7", "100000"]);
    drop(echo);
}
