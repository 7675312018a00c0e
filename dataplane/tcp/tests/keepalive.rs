//! Keep-alive: RFC 9293 section 3.8.4.

mod common;

use std::time::Duration;

use base::Instant;
use common::at_ms;
use common::conversation::{Conversation, seg};
use tcp::{CloseReason, PlanKind};

fn at_s(s: u64) -> Instant {
    at_ms(1000 * s)
}

fn with_keepalive() -> Conversation {
    Conversation::with(|o, _| o.options.keepalive = true)
}

#[test]
fn without_the_option_nothing_is_sent() {
    let mut t = Conversation::established();
    t.expect_quiet_until(at_s(100_000));
    assert_eq!(t.conn.next_deadline(), None);
}

#[test]
fn a_peer_that_answers_is_probed_every_two_hours() {
    let mut t = with_keepalive();
    t.expect_quiet_until(at_s(7199));
    for i in 1..4 {
        t.expect(at_s(7200 * i), seg().seq(0).ack(1).len(0).kind(PlanKind::Probe));
        t.expect_quiet();
        t.peer_sends(at_s(7200 * i), seg().seq(1).ack(1));
    }
    assert_eq!(t.world.counters.keep_alive, 3);
}

#[test]
fn a_peer_that_is_gone_is_given_up_after_nine_probes() {
    let mut t = with_keepalive();
    for i in 0..9 {
        t.expect(at_s(7200 + 75 * i), seg().seq(0).len(0).kind(PlanKind::Probe));
    }
    t.expect(at_s(7200 + 75 * 9), seg().seq(1).rst());
    t.expect_closed(CloseReason::TimedOut, false);
    t.expect_quiet();
    assert_eq!(t.world.counters.abort_on_timeout, 1);
}

#[test]
fn the_user_timeout_comes_first_but_not_before_a_probe() {
    let mut t = Conversation::with(|o, p| {
        o.options.keepalive = true;
        o.options.user_timeout = Some(Duration::from_secs(20));
        p.keepalive_time = Duration::from_secs(60);
        p.keepalive_interval = Duration::from_secs(10);
    });
    t.expect(at_s(60), seg().seq(0).len(0));
    t.expect(at_s(70), seg().rst());
    t.expect_closed(CloseReason::TimedOut, false);
}

#[test]
fn traffic_postpones_the_probe() {
    let mut t = with_keepalive();
    t.peer_sends(at_s(5000), seg().seq(1).len(10));
    t.advance(at_s(5001));
    t.forget_output();
    t.expect_quiet_until(at_s(12_199));
    t.expect(at_s(12_200), seg().seq(0).len(0).kind(PlanKind::Probe));
}

#[test]
fn data_in_flight_have_their_own_timer() {
    let mut t = with_keepalive();
    t.app_sends(at_s(7100), 10);
    t.expect(at_s(7100), seg().seq(1).len(10));
    t.advance(at_s(7210));
    assert!(t.take_trace().iter().all(|l| l.contains("Retransmit")));
}

#[test]
fn our_own_answer_to_a_probe() {
    let mut t = Conversation::established();
    t.peer_sends(at_s(100), seg().seq(0).len(0));
    t.expect(at_s(100), seg().seq(1).ack(1).len(0));
    // The old form carries a byte of rubbish.
    t.peer_sends(at_s(200), seg().seq(0).len(1));
    t.expect(at_s(200), seg().seq(1).ack(1).len(0));
}
