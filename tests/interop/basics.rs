//! What the kernel sees of us below TCP.

use tests::{Lab, needs_root};

#[test]
fn the_kernel_can_ping_us_in_both_families() {
    needs_root!();
    let lab = Lab::new(1500);
    let _server = lab.serve(&[]);
    for (address, size) in
        [(Lab::OURS4, "56"), (Lab::OURS6, "56"), (Lab::OURS4, "1472"), (Lab::OURS6, "1452")]
    {
        let out = lab
            .kernel("ping")
            .args(["-c", "3", "-i", "0.05", "-W", "2", "-s", size, address])
            .output()
            .expect("ping starts");
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(text.contains(" 0% packet loss"), "{address} {size}: {text}");
    }
}

#[test]
fn fragments_are_put_together() {
    needs_root!();
    let lab = Lab::new(1500);
    let _server = lab.serve(&[]);
    // IPv6, because the packet socket of `net_af_packet` has the kernel reassemble IPv4. The answer
    // would have to be fragmented, which we do not do; that the request was complete is what counts.
    let out = lab
        .kernel("ping")
        .args(["-c", "2", "-i", "0.05", "-W", "1", "-s", "4000", Lab::OURS6])
        .output()
        .expect("ping starts");
    assert!(!out.stdout.is_empty());
    assert_eq!(lab.counter("IpReasmReqds"), 6);
    assert_eq!(lab.counter("IpReasmOKs"), 2);
    assert_eq!(lab.counter("IcmpInEchos"), 2);
}

#[test]
fn closed_ports_refuse_at_once() {
    needs_root!();
    let lab = Lab::new(1500);
    let _server = lab.serve(&[]);
    let out = lab.peer(&["scan", Lab::OURS4, "1", "300"]);
    assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), "0 open 300 closed");
    let out = lab.peer(&["scan", Lab::OURS6, "1", "100"]);
    assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), "0 open 100 closed");
}
