//! Several addresses on one port.

use tests::{Lab, needs_root};

#[test]
fn every_local_address_answers_in_every_prefix() {
    needs_root!();
    let lab = Lab::new(1500);
    let ours = ["10.99.0.2", "10.99.0.77", "172.20.5.9", "fd99::2", "fd99::abcd", "fd98:1::7"];
    let prefixes = [24, 24, 16, 64, 64, 48];
    let list: Vec<String> =
        ours.iter().zip(prefixes).map(|(a, p)| format!("\"{a}/{p}\"")).collect();
    let _server = lab.run(&format!(
        "[[port]]\nvdev = \"net_af_packet0,iface={}\"\naddresses = [{}]\n\n\
         [[app]]\nkind = \"echo\"\n\n\
         [[app]]\nkind = \"echo\"\nport = 8\nbind = \"172.20.5.9\"\n",
        lab.our_interface(),
        list.join(", ")
    ));
    let kernel = lab.kernel_interface();
    lab.kernel_ip(&format!("addr add 172.20.200.1/16 dev {kernel}"));
    lab.kernel_ip(&format!("addr add fd98:1:0:9::1/48 dev {kernel} nodad"));
    for address in ours {
        // The first exchange resolves our address by ARP or neighbour discovery, and the answer to
        // it resolves the kernel's, which is on link in a prefix of ours.
        lab.ping(address, 56);
        let socket = if address.contains(':') { format!("[{address}]") } else { address.into() };
        lab.peer(&["echo", &format!("{socket}:7"), "200000"]);
        let scan = lab.peer(&["scan", address, "1", "6"]);
        assert_eq!(String::from_utf8_lossy(&scan.stdout).trim(), "0 open 6 closed", "{address}");
    }
    // What listens at one address is closed at the others.
    lab.peer(&["echo", "172.20.5.9:8", "1000"]);
    let scan = lab.peer(&["scan", "10.99.0.2", "8", "8"]);
    assert_eq!(String::from_utf8_lossy(&scan.stdout).trim(), "0 open 1 closed");
    // An address that is nobody's is not answered for.
    let out =
        lab.kernel("ping").args(["-c", "1", "-W", "1", "10.99.0.3"]).output().expect("starts");
    assert!(!out.status.success());
    assert_eq!(lab.counter("drop_addr_conflict"), 0);
}
