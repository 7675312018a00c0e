//! `net_af_xdp` on one end of a veth pair.

use std::time::Duration;

use tests::{Dataplane, Lab, binary, moved, needs, needs_root};

/// Whether the kernel has the sockets, by the list of protocols that it registered.
fn xdp() -> bool {
    std::fs::read_to_string("/proc/net/protocols")
        .is_ok_and(|t| t.lines().any(|l| l.starts_with("XDP")))
}

fn serve(lab: &Lab) -> Dataplane {
    let port = lab.port("net_af_xdp0", "");
    let server =
        lab.run(&format!("{port}\n[[app]]\nkind = \"echo\"\n\n[[app]]\nkind = \"iperf-server\"\n"));
    server.wait_for("Server listening");
    server
}

fn program_of(lab: &Lab) -> bool {
    let mut show = lab.ours("ip");
    let output =
        show.args(["-d", "link", "show", lab.our_interface()]).output().expect("ip starts");
    String::from_utf8_lossy(&output.stdout).contains("prog/xdp")
}

#[test]
fn both_directions_families_and_sizes_and_nothing_is_left() {
    needs_root!();
    needs!(xdp(), "a kernel with AF_XDP");
    for mtu in [1500, 3442] {
        let lab = Lab::with_queues(mtu, Some(1));
        let server = serve(&lab);
        assert!(program_of(&lab));
        for (address, socket) in [(Lab::OURS4, "10.99.0.2:7"), (Lab::OURS6, "[fd99::2]:7")] {
            lab.ping(address, mtu - if address == Lab::OURS4 { 28 } else { 48 });
            moved(&lab.kernel_iperf(&["-c", address, "-t", "1"]));
            moved(&lab.kernel_iperf(&["-c", address, "-t", "1", "-R"]));
            lab.peer(&["echo", socket, "3000000", "4"]);
        }
        assert!(lab.counter("net_af_xdp0.RX-packets") > 1000);
        // A worker that gets no time loses some; that none fits would look different.
        let missed = lab.counter("net_af_xdp0.RX-missed");
        assert!(missed * 10 < lab.counter("net_af_xdp0.RX-packets"), "{missed} were missed");
        server.signal("INT");
        assert_eq!(server.wait(Duration::from_secs(8)), Some(0));
        assert!(!program_of(&lab), "the XDP program goes with the process");
    }
}

/// Start on `lab`'s interface; the exit status and what was said.
fn refused(lab: &Lab, mtu: u16, queues: &str) -> (Option<i32>, String) {
    let device = format!("net_af_xdp0,iface={}{queues}", lab.our_interface());
    let output = lab
        .ours(&binary("millrace").to_string_lossy())
        .args(["iperf", "-s", "--vdev", &device, "--address", "10.99.0.2/24"])
        .args(["--mtu", &mtu.to_string()])
        .output()
        .expect("millrace starts");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn what_the_driver_cannot_do_is_refused_before_the_start() {
    needs_root!();
    let lab = Lab::with_queues(9000, Some(1));
    let (code, text) = refused(&lab, 9000, "");
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("MTU of at most") && !text.contains("EAL"), "{text}");
    // The interface's own MTU counts as well: its peer sends as much.
    let (code, text) = refused(&lab, 1500, "");
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("has an MTU of 9000") && text.contains("ip link set"), "{text}");

    let lab = Lab::with_queues(1500, Some(2));
    let (code, text) = refused(&lab, 1500, "");
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("2 receive queues") && text.contains("ethtool -L"), "{text}");
}

#[test]
fn an_interface_that_is_removed_ends_the_dataplane_with_a_reason() {
    needs_root!();
    needs!(xdp(), "a kernel with AF_XDP");
    let lab = Lab::with_queues(1500, Some(1));
    let server = serve(&lab);
    lab.our_ip(&format!("link del {}", lab.our_interface()));
    server.wait_for(&format!("net_af_xdp0: interface {} is gone", lab.our_interface()));
    assert_eq!(server.wait(Duration::from_secs(10)), Some(3));
}
