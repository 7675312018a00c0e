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
fn a_fragmented_ping_is_reassembled() {
    needs_root!();
    let lab = Lab::new(1500);
    let _server = lab.serve(&[]);
    for address in [Lab::OURS4, Lab::OURS6] {
        let out = lab
            .kernel("ping")
            .args(["-c", "2", "-i", "0.05", "-W", "2", "-s", "4000", address])
            .output()
            .expect("ping starts");
        let echoed = String::from_utf8_lossy(&out.stdout).contains(" 0% packet loss");
        // The reply would have to be fragmented by us, which we do not do: what counts is that the
        // request was put together and nothing broke.
        assert!(echoed || lab.counter("IpReasmOKs") > 0, "{address}");
    }
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
