//! Several workers over several ports: each owns a queue of both, and what happens to one link is none
//! of the other's business.

use std::collections::BTreeSet;
use std::time::Duration;

use tests::{Dataplane, TwoLinks, needs, needs_root, until};

const LIMIT: Duration = Duration::from_secs(60);
const BOTH: [(usize, &str); 4] =
    [(0, "10.90.0.2:7"), (0, "[fd90::2]:7"), (1, "10.91.0.2:7"), (1, "[fd91::2]:7")];

fn two_cpus() -> bool {
    std::thread::available_parallelism().is_ok_and(|n| n.get() >= 2)
}

/// Two workers on two ports. They share the machine's cores with both kernels, so they sleep when idle.
fn two_by_two(links: &TwoLinks, mtus: [u16; 2]) -> Dataplane {
    let head = "[dataplane]\ncores = \"0,1\"\nidle = \"adaptive\"\nmemory = \"512MiB\"\n";
    let ports: String = [0, 1].map(|n| links.section(n, mtus[n], "queues = 2")).concat();
    links.run(&format!("{head}{ports}"), &["discard"])
}

/// Which worker serves which port: those that have established connections.
fn busy(links: &TwoLinks) -> BTreeSet<(u64, String)> {
    let rows = links.ask(&["ss"]);
    let established = rows.as_array().into_iter().flatten().filter(|row| row["state"] == "ESTAB");
    established
        .filter_map(|row| Some((row["worker"].as_u64()?, row["port"].as_str()?.to_owned())))
        .collect()
}

#[test]
fn two_workers_on_two_ports_share_all_flows_and_no_byte_is_lost() {
    needs_root!();
    needs!(two_cpus(), "two CPUs");
    let mtus = [1500, 9000];
    let links = TwoLinks::new(mtus);
    let dataplane = two_by_two(&links, mtus);
    // The kernel spreads flows over the queues by its hash: that 24 are all on one side has a chance of
    // one in 2^23 for each link.
    let held: Vec<Dataplane> = [(0, "10.90.0.2:7"), (1, "[fd91::2]:7")]
        .into_iter()
        .map(|(link, at)| links.peer(link, &["hold", at, "24"]))
        .collect();
    for hold in &held {
        hold.wait_for("connected");
    }
    let all: BTreeSet<(u64, String)> =
        [0, 1].into_iter().flat_map(|w| [0, 1].map(|p| (w, format!("net_af_packet{p}")))).collect();
    assert_eq!(busy(&links), all);
    // With all of them held, both families on both links at once, and every byte is compared.
    let running: Vec<Dataplane> =
        BOTH.iter().map(|(link, at)| links.peer(*link, &["echo", at, "1000000", "8"])).collect();
    for echo in running {
        echo.ends(LIMIT, 0);
    }
    for port in ["net_af_packet0", "net_af_packet1"] {
        assert!(links.counter(&format!("{port}.RX-packets")) > 1000);
        assert_eq!(links.counter(&format!("{port}.TX-errors")), 0);
    }
    assert_eq!(links.counter("drop_tcp_csum"), 0);
    assert_eq!(links.counter("drop_ip_not_ours"), 0);
    dataplane.signal("TERM");
    dataplane.ends(LIMIT, 0);
}

#[test]
fn one_link_down_or_lost_does_not_stop_the_other() {
    needs_root!();
    needs!(two_cpus(), "two CPUs");
    let mtus = [1500, 1500];
    let links = TwoLinks::new(mtus);
    let dataplane = two_by_two(&links, mtus);
    let received = |port: usize| links.counter(&format!("net_af_packet{port}.RX-packets"));
    let waiting = links.peer(0, &["echo", "10.90.0.2:7", "40000000", "2"]);
    until(LIMIT, "traffic on the first link", || received(0) > 2000);

    // Down: its own connections wait, all others go on, new ones too.
    links.our_ip(&format!("link set {} down", links.port(0)));
    dataplane.wait_for("net_af_packet0: link is down");
    let on_second = links.peer(1, &["echo", "10.91.0.2:7", "4000000", "8"]);
    on_second.ends(LIMIT, 0);
    links.our_ip(&format!("link set {} up", links.port(0)));
    dataplane.wait_for("net_af_packet0: link is up");
    waiting.ends(LIMIT, 0);

    // Removed for good, with connections on it.
    let hold = links.peer(0, &["hold", "10.90.0.2:7", "8"]);
    hold.wait_for("connected");
    let lost = links.peer(0, &["echo", "[fd90::2]:7", "900000000"]);
    let before = received(0);
    until(LIMIT, "traffic on the first link", || received(0) > before + 1000);
    links.our_ip(&format!("link del {}", links.port(0)));
    dataplane.wait_for(&format!("net_af_packet0: interface {} is gone", links.port(0)));
    for at in ["10.91.0.2:7", "[fd91::2]:7"] {
        let on_second = links.peer(1, &["echo", at, "4000000", "8"]);
        on_second.ends(LIMIT, 0);
    }
    drop((hold, lost));
    // Said once, and at the end the exit status tells of it.
    assert_eq!(dataplane.output().matches("is gone").count(), 1, "{}", dataplane.output());
    dataplane.signal("TERM");
    dataplane.ends(LIMIT, 5);
}
