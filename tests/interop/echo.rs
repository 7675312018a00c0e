//! Every byte compared, both ways at once.

use tests::{Lab, needs_root};

const ECHO4: &str = "10.99.0.2:7";
const ECHO6: &str = "[fd99::2]:7";

#[test]
fn bytes_come_back_unchanged() {
    needs_root!();
    let lab = Lab::new(1500);
    let _echo = lab.echo();
    lab.peer(&["echo", ECHO4, "30000000"]);
    lab.peer(&["echo", ECHO6, "30000000"]);
    lab.peer(&["echo", ECHO4, "3000000", "16"]);
}

#[test]
fn bytes_come_back_unchanged_in_jumbo_frames() {
    needs_root!();
    let lab = Lab::new(9000);
    let _echo = lab.echo();
    lab.peer(&["echo", ECHO4, "50000000"]);
    lab.peer(&["echo", ECHO6, "20000000", "4"]);
}

#[test]
fn bytes_come_back_unchanged_under_loss() {
    needs_root!();
    let lab = Lab::new(1500);
    let _echo = lab.echo();
    lab.lose(2);
    lab.peer(&["echo", ECHO4, "5000000", "4"]);
    lab.peer(&["echo", ECHO6, "5000000", "4"]);
    assert!(lab.counter("TcpRetransSegs") > 0);
}

#[test]
fn a_half_closed_peer_gets_everything() {
    needs_root!();
    let lab = Lab::new(1500);
    let _echo = lab.echo();
    // More than the kernel buffers, less than both buffers together: it must not deadlock.
    lab.peer(&["half", ECHO4, "100000"]);
    lab.peer(&["half", ECHO6, "0"]);
}

#[test]
fn short_connections_leave_nothing_behind() {
    needs_root!();
    let lab = Lab::new(1500);
    let echo = lab.echo();
    lab.peer(&["churn", ECHO4, "1000"]);
    let before = (lab.counter("MillraceBuffersFree"), echo.resident_kib());
    lab.peer(&["churn", ECHO4, "10000"]);
    assert_eq!(lab.counter("TcpCurrEstab"), 0);
    assert_eq!(lab.counter("MillraceConnections"), 0);
    let after = (lab.counter("MillraceBuffersFree"), echo.resident_kib());
    // A frame or two may be under way at the moment of asking.
    assert!(after.0 + 8 >= before.0, "buffers: {before:?} then {after:?}");
    assert!(after.1 < before.1 + 4096, "memory in KiB: {before:?} then {after:?}");
}
