//! Several ports in one instance: two kernels on two links, and a link of another kind beside them.

use tests::{Dataplane, TwoLinks, needs_root};

const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

#[test]
fn two_links_are_served_at_once_in_both_families() {
    needs_root!();
    let links = TwoLinks::new([1500, 9000]);
    let dataplane =
        links.run(&(links.section(0, 1500, "") + &links.section(1, 9000, "")), &["iperf-server"]);
    let clients: Vec<Dataplane> = ["10.90.0.2:7", "[fd90::2]:7", "10.91.0.2:7", "[fd91::2]:7"]
        .into_iter()
        .zip([0, 0, 1, 1])
        .map(|(at, link)| links.peer(link, &["echo", at, "5000000", "2"]))
        .collect();
    for client in clients {
        assert_eq!(client.wait(LIMIT), Some(0));
    }

    for (link, address) in [(0, "10.90.0.2"), (1, "fd91::2")] {
        let holder = links.peer(link, &["hold", &format!("{}:7", bracketed(address))]);
        let args = ["-c", address, "-t", "1", "-C", "cubic"];
        assert_eq!(links.behind(link, "iperf3", &args).wait(LIMIT), Some(0));
        let rows = links.ask(&["ss"]);
        let held = rows.as_array().into_iter().flatten().find(|row| {
            row["local"].as_str().is_some_and(|local| local.contains(address))
                && row["state"] == "ESTAB"
        });
        let held = held.unwrap_or_else(|| panic!("{rows:#}"));
        assert_eq!(held["port"], format!("net_af_packet{link}"));
        drop(holder);
    }
    let all = links.ask(&["nstat", "--zeros"]);
    for link in [0, 1] {
        let received = &all["millrace"][format!("net_af_packet{link}.RX-packets")];
        assert!(received.as_u64() > Some(1000), "{received}");
    }
    assert_eq!(all["millrace"]["drop_tcp_csum"], 0);
    dataplane.signal("TERM");
    assert_eq!(dataplane.wait(LIMIT), Some(0));
}

fn bracketed(address: &str) -> String {
    if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
}

#[test]
fn flags_describe_several_ports() {
    needs_root!();
    let links = TwoLinks::new([1500, 1500]);
    let (first, second) = (links.vdev(0), links.vdev(1));
    let mut command = links.millrace(&["iperf", "-s", "--instance", links.instance()]);
    command.args(["--vdev", &first, "--address", "10.90.0.2/24"]);
    command.args(["--vdev", &second, "--address", "10.91.0.2/24", "--address", "fd91::2/64"]);
    let server = Dataplane::start(command);
    server.wait_for("Server listening");
    for (link, address) in [(0, "10.90.0.2"), (1, "10.91.0.2"), (1, "fd91::2")] {
        let args = ["-c", address, "-t", "1", "-C", "cubic"];
        assert_eq!(links.behind(link, "iperf3", &args).wait(LIMIT), Some(0));
    }
    // The route decides: as a client, by the second port.
    drop(server);
    let listener = links.behind(1, "iperf3", &["-s", "-1", "--forceflush"]);
    listener.wait_for("Server listening");
    let mut command = links.millrace(&["iperf", "-c", "10.91.0.1", "-t", "1"]);
    command.args(["--vdev", &first, "--address", "10.90.0.2/24"]);
    command.args(["--vdev", &second, "--address", "10.91.0.2/24"]);
    assert_eq!(Dataplane::start(command).wait(LIMIT), Some(0));
    assert_eq!(listener.wait(LIMIT), Some(0));
}

#[test]
fn a_packet_socket_and_shared_memory_in_one_instance() {
    needs_root!();
    let links = TwoLinks::new([1500, 1500]);
    let socket = std::env::temp_dir().join(format!("{}.memif", links.instance()));
    let memif = |role: &str| format!("net_memif0,role={role},id=0,socket={}", socket.display());
    let section = format!(
        "[[port]]\nvdev = \"{}\"\naddresses = [\"10.92.0.2/24\", \"fd92::2/64\"]\n",
        memif("server")
    );
    let dataplane = links.run(&(links.section(0, 1500, "") + &section), &["iperf-server"]);
    let echo = links.peer(0, &["echo", "10.90.0.2:7", "20000000"]);
    for address in ["10.92.0.2", "fd92::2"] {
        let mut command = links.millrace(&["iperf", "-c", address, "-t", "1"]);
        command.args(["--vdev", &memif("client"), "--instance", &format!("{}c", links.instance())]);
        command.args(["--address", "10.92.0.1/24", "--address", "fd92::1/64"]);
        assert_eq!(Dataplane::start(command).wait(LIMIT), Some(0));
    }
    assert_eq!(echo.wait(LIMIT), Some(0));
    dataplane.signal("TERM");
    assert_eq!(dataplane.wait(LIMIT), Some(0));
    let _ = std::fs::remove_file(socket);
}
