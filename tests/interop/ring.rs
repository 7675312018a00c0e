//! `net_ring`: two stacks in one process.

use std::process::Command;

use serde_json::Value;
use tests::{binary, iperf_json, received};

const BYTES: f64 = (20 << 20) as f64;

fn ring(flags: &[&str]) -> Value {
    let mut command = Command::new(binary("millrace"));
    command.args(["iperf", "--ring", "-n", "20M"]);
    iperf_json(command, flags)
}

#[test]
fn every_byte_crosses_in_both_families_and_sizes() {
    for family in ["-4", "-6"] {
        for mtu in ["1500", "9000"] {
            for direction in [&[][..], &["-R"], &["-P", "4"]] {
                let flags = [&[family, "--mtu", mtu], direction].concat();
                let result = ring(&flags);
                let end = &result["end"];
                assert!(received(&result, "sum_sent") >= BYTES, "{flags:?} {end:#}");
                // The sender ends as soon as the last block is handed to TCP.
                assert!(received(&result, "sum_received") >= 0.9 * BYTES, "{flags:?} {end:#}");
                let mss = result["start"]["tcp_mss_default"].as_u64().unwrap_or(0);
                let mtu: u64 = mtu.parse().expect("a number");
                assert!(mss > mtu - 100 && mss < mtu, "{flags:?}: segments of {mss}");
            }
        }
    }
}

#[test]
fn both_directions_at_once() {
    let result = ring(&["--bidir"]);
    let ways = ["sum_received", "sum_received_bidir_reverse"].map(|key| received(&result, key));
    // The test is over when one of them is done; how far the other is depends on who else has work for
    // the cores.
    let [less, more] = [ways[0].min(ways[1]), ways[0].max(ways[1])];
    assert!(more > 0.9 * BYTES && less > 0.1 * BYTES, "{:#}", result["end"]);
}
