//! `net_tap`: the kernel of the same namespace behind an interface that the driver makes.

use std::time::Duration;

use tests::{Dataplane, Lab, binary, iperf3, moved, needs, needs_root, received};

const INTERFACE: &str = "mrt0";

fn tun() -> bool {
    std::path::Path::new("/dev/net/tun").exists()
}

/// A dataplane behind a tap in our namespace of `lab`, and the kernel's end of it with addresses.
fn start(lab: &Lab) -> Dataplane {
    let dataplane = lab.run(&format!(
        "[[port]]\nvdev = \"net_tap0,iface={INTERFACE}\"\n\
         addresses = [\"10.98.0.2/24\", \"fd98::2/64\"]\n\n\
         [[app]]\nkind = \"echo\"\n\n[[app]]\nkind = \"iperf-server\"\n"
    ));
    lab.our_ip(&format!("addr add 10.98.0.1/24 dev {INTERFACE}"));
    lab.our_ip(&format!("addr add fd98::1/64 dev {INTERFACE} nodad"));
    lab.our_ip(&format!("link set {INTERFACE} up"));
    dataplane
}

#[test]
fn ping_iperf_and_every_byte_in_both_families() {
    needs_root!();
    needs!(tun(), "/dev/net/tun");
    let lab = Lab::new(1500);
    let dataplane = start(&lab);
    for (address, socket) in [("10.98.0.2", "10.98.0.2:7"), ("fd98::2", "[fd98::2]:7")] {
        for size in ["56", "1400"] {
            let ping = lab
                .ours("ping")
                .args(["-c", "3", "-i", "0.02", "-W", "2", "-s", size, address])
                .output()
                .expect("ping starts");
            let text = String::from_utf8_lossy(&ping.stdout);
            assert!(text.contains(" 0% packet loss"), "{text}");
        }
        moved(&iperf3(lab.ours("iperf3"), &["-c", address, "-t", "1"]));
        moved(&iperf3(lab.ours("iperf3"), &["-c", address, "-t", "1", "-R"]));
        let peer = lab
            .ours(&binary("millrace-test-peer").to_string_lossy())
            .args(["echo", socket, "2000000", "4"])
            .output()
            .expect("the peer starts");
        assert!(peer.status.success(), "{}", String::from_utf8_lossy(&peer.stderr));
    }
    let both = iperf3(lab.ours("iperf3"), &["-c", "10.98.0.2", "-t", "1", "--bidir"]);
    assert!(received(&both, "sum_received_bidir_reverse") > 1e5, "{:#}", both["end"]);
    dataplane.signal("TERM");
    assert_eq!(dataplane.wait(Duration::from_secs(8)), Some(0));
    let left = lab.ours("ip").args(["link", "show", INTERFACE]).output().expect("ip starts");
    assert!(!left.status.success(), "the interface goes with the process");
}

#[test]
fn jumbo_frames_are_refused_clearly() {
    needs_root!();
    let lab = Lab::new(1500);
    for mtu in ["1501", "9000"] {
        let output = lab
            .ours(&binary("millrace").to_string_lossy())
            .args(["iperf", "-s", "--vdev", "net_tap0", "--address", "10.98.0.2/24"])
            .args(["--mtu", mtu])
            .output()
            .expect("millrace starts");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains("MTU of at most 1500"), "{text}");
        assert!(!text.contains("EAL"), "refused before EAL starts: {text}");
    }
}

#[test]
fn an_interface_that_is_deleted_ends_the_dataplane_with_a_reason() {
    needs_root!();
    needs!(tun(), "/dev/net/tun");
    let lab = Lab::new(1500);
    let dataplane = start(&lab);
    lab.our_ip(&format!("link del {INTERFACE}"));
    dataplane.wait_for(&format!("net_tap0: interface {INTERFACE} is gone"));
    assert_eq!(dataplane.wait(Duration::from_secs(10)), Some(3));
}
