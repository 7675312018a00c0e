//! `net_null`: frames from nowhere at full rate, which are nothing to anybody, and a transmit side
//! that throws away.

use std::time::Duration;

use tests::{Scratch, ask, counter, until};

/// What must hold of the counters when all that arrives is garbage.
fn all_is_dropped_by_name(instance: &str, reason: &str) {
    let all = ask(instance, &["nstat", "--zeros"]);
    let count = |name: &str| all["millrace"][name].as_u64().expect("there is such a counter");
    assert_eq!(count("MillraceFramesRx"), count(reason), "{all:#}");
    assert_eq!(count("MillraceBuffersFree"), count("MillraceBuffersTotal"), "{all:#}");
    let drops = all["millrace"].as_object().into_iter().flatten();
    let others = drops
        .filter(|(name, n)| name.starts_with("drop_") && *name != reason && n.as_u64() != Some(0));
    assert_eq!(others.count(), 0, "{all:#}");
}

#[test]
fn h135_garbage_is_dropped_under_a_name_while_the_dataplane_answers() {
    let scratch = Scratch::new();
    // The driver's frames are all zero: no Ethernet type.
    for (name, device, mtu) in [
        ("plain", "net_null0", 1500),
        ("copy", "net_null0,copy=1,size=1514", 1500),
        ("jumbo", "net_null0,copy=1,size=9014", 9000),
    ] {
        let port = format!("[[port]]\nvdev = \"{device}\"\naddresses = [\"10.0.0.2/24\"]\n");
        let dataplane = scratch
            .run(name, &format!("{port}mtu = {mtu}\n\n[[app]]\nkind = \"discard\"\nport = 9\n"));
        let instance = scratch.instance(name);
        let dropped = || counter(&instance, "drop_l2_unknown");
        let before = dropped();
        until(Duration::from_secs(10), "the counter moves", || dropped() > before + 10_000);
        all_is_dropped_by_name(&instance, "drop_l2_unknown");
        dataplane.signal("INT");
        assert_eq!(dataplane.wait(Duration::from_secs(8)), Some(0), "{device}");
    }
}

#[test]
fn what_is_sent_is_thrown_away_by_the_device() {
    let scratch = Scratch::new();
    let mut client = scratch.millrace("iperf", "tx");
    client.args(["-c", "10.0.0.1", "--connect-timeout", "700", "--vdev", "net_null0,no-rx=1"]);
    client.args(["--address", "10.0.0.2/24"]);
    let client = tests::Dataplane::start(client);
    let instance = scratch.instance("tx");
    client.wait_for("onnect");
    assert_eq!(client.wait(Duration::from_secs(10)), Some(1), "nobody answers");
    drop(instance);
}
