//! `net_af_packet` beyond one queue on a link that stays: several workers, stop and start, and an
//! interface that goes down or away.

use std::collections::BTreeSet;
use std::time::Duration;

use tests::{Dataplane, Lab, binary, needs, needs_root, until};

fn two_cpus() -> bool {
    std::thread::available_parallelism().is_ok_and(|n| n.get() >= 2)
}

/// The workers that have established connections.
fn busy_workers(lab: &Lab) -> BTreeSet<u64> {
    let rows = lab.ask(&["ss"]);
    let workers = rows.as_array().into_iter().flatten().filter_map(|row| row["worker"].as_u64());
    workers.collect()
}

#[test]
fn two_workers_share_the_flows_and_no_byte_is_lost() {
    needs_root!();
    needs!(two_cpus(), "two CPUs");
    for mtu in [1500, 9000] {
        let lab = Lab::new(mtu);
        let port = lab.port("net_af_packet0", "queues = 2");
        let memory = "memory = \"512MiB\"";
        let _server = lab.run(&format!(
            "[dataplane]\ncores = \"0,1\"\n{memory}\n\n{port}\n\
             [[app]]\nkind = \"echo\"\n\n[[app]]\nkind = \"discard\"\n"
        ));
        // The kernel spreads flows over the sockets by its hash: with as many connections all on one
        // side has a chance of one in 2^23.
        for address in ["10.99.0.2:7", "[fd99::2]:7"] {
            let mut hold = lab.kernel(&binary("millrace-test-peer").to_string_lossy());
            hold.args(["hold", address, "24"]);
            let hold = Dataplane::start(hold);
            hold.wait_for("connected");
            assert_eq!(busy_workers(&lab), BTreeSet::from([0, 1]), "{mtu} {address}");
            lab.peer(&["echo", address, "400000", "24"]);
        }
        // Neighbours are known to both workers, whichever got the answer.
        lab.ping(Lab::OURS4, 56);
        lab.ping(Lab::OURS6, 56);
        assert_eq!(lab.counter("drop_tcp_csum"), 0);
        assert_eq!(lab.counter("net_af_packet0.TX-errors"), 0);
    }
}

#[test]
fn it_stops_and_starts_again_on_the_same_interface() {
    needs_root!();
    let lab = Lab::new(1500);
    for _ in 0..3 {
        let echo = lab.echo();
        lab.peer(&["echo", "10.99.0.2:7", "100000"]);
        lab.peer(&["echo", "[fd99::2]:7", "100000"]);
        echo.signal("INT");
        assert_eq!(echo.wait(Duration::from_secs(8)), Some(0));
    }
}

#[test]
fn our_interface_goes_down_and_up_while_traffic_runs() {
    needs_root!();
    let lab = Lab::new(1500);
    let echo = lab.echo();
    std::thread::scope(|s| {
        let running = s.spawn(|| lab.peer(&["echo", "10.99.0.2:7", "60000000", "2"]));
        until(Duration::from_secs(10), "traffic", || lab.counter("TcpInSegs") > 2000);
        lab.our_ip(&format!("link set {} down", lab.our_interface()));
        echo.wait_for("link is down");
        lab.our_ip(&format!("link set {} up", lab.our_interface()));
        echo.wait_for("link is up");
        running.join().expect("every byte comes back");
    });
}

#[test]
fn an_interface_that_is_removed_ends_the_dataplane_with_a_reason() {
    needs_root!();
    let lab = Lab::new(1500);
    let echo = lab.echo();
    lab.peer(&["echo", "10.99.0.2:7", "100000"]);
    lab.our_ip(&format!("link del {}", lab.our_interface()));
    let gone = format!("net_af_packet0: interface {} is gone", lab.our_interface());
    echo.wait_for(&gone);
    assert_eq!(echo.wait(Duration::from_secs(10)), Some(3));
}

#[test]
fn what_is_wrong_with_an_interface_is_said_before_the_start() {
    needs_root!();
    let lab = Lab::new(1500);
    let refused = |device: &str, mtu: &str| {
        let mut command = lab.ours(&binary("millrace").to_string_lossy());
        command.args(["iperf", "-s", "--vdev", device, "--address", "10.99.0.2/24"]);
        let output = command.args(["--mtu", mtu]).output().expect("millrace starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let ours = lab.our_interface();
    let (code, text) = refused("net_af_packet0,iface=nosuch0", "1500");
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("nosuch0 does not exist") && text.contains(ours), "{text}");
    let (code, text) = refused(&format!("net_af_packet0,iface={ours}"), "9000");
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains(&format!("ip link set {ours} mtu 9000")), "{text}");
    lab.our_ip(&format!("link set {ours} down"));
    let (code, text) = refused(&format!("net_af_packet0,iface={ours}"), "1500");
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains(&format!("ip link set {ours} up")), "{text}");
}
