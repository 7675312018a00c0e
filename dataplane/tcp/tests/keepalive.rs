//! Keep-alive: RFC 9293 section 3.8.4.

mod common;

use std::time::Duration;

use base::Instant;
use common::at_ms;
use common::conversation::{Conversation, seg};
use tcp::{CloseReason, ConnOptions, PlanKind, State};

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

/// `TCP_KEEPIDLE`, `TCP_KEEPINTVL`, `TCP_KEEPCNT`.
#[test]
fn a_connection_may_have_times_of_its_own() {
    let mut t = with_keepalive();
    let own = ConnOptions {
        keepalive: true,
        keepalive_time_sec: Some(30),
        keepalive_interval_sec: Some(5),
        keepalive_probes: Some(2),
        ..ConnOptions::default()
    };
    // Counted from when the peer was last heard of, not from when it was asked for.
    t.advance(at_s(10));
    t.conn.set_options(&mut t.world.cx(at_s(10)), &own);
    t.expect(at_s(30), seg().seq(0).len(0).kind(PlanKind::Probe));
    t.peer_sends(at_s(31), seg().seq(1).ack(1));
    t.expect(at_s(61), seg().seq(0).len(0));
    // Another option in between changes nothing about it.
    t.advance(at_s(62));
    t.conn.set_options(&mut t.world.cx(at_s(62)), &ConnOptions { nodelay: true, ..own });
    t.expect(at_s(66), seg().seq(0).len(0));
    t.expect(at_s(71), seg().seq(1).rst());
    t.expect_closed(CloseReason::TimedOut, false);
}

#[test]
fn a_closed_window_is_watched_by_its_own_probes() {
    let mut t = with_keepalive();
    t.peer_sends(at_s(7000), seg().seq(1).ack(1).wnd(0));
    t.app_sends(at_s(7001), 10);
    t.advance(at_s(7400));
    let probes = t.take_trace().len();
    assert!(probes > 5, "{probes}");
    assert_eq!(t.world.counters.keep_alive, 0);
    assert_eq!(t.world.counters.win_probe, probes as u64);
    // The window opens, the byte is acknowledged, and the idle time begins there.
    t.peer_sends(at_s(7400), seg().seq(1).ack(1).wnd(512));
    t.expect(at_s(7400), seg().seq(1).len(10));
    t.peer_sends(at_ms(7_400_100), seg().seq(1).ack(11));
    t.expect_quiet_until(at_s(14_600));
    t.expect(at_ms(14_600_100), seg().seq(10).len(0).kind(PlanKind::Probe));
    assert_eq!(t.world.counters.keep_alive, 1);
}

/// RFC 7323 section 3.2: probes carry timestamps, and so must their answers.
#[test]
fn probes_and_answers_carry_timestamps() {
    let mut t = Conversation::with(|o, p| {
        p.require_timestamps = true;
        o.options.keepalive = true;
        o.ts_recent = Some(500);
    });
    let ours = |s: u64| (at_s(s).as_millis() as u32).wrapping_add(77);
    t.expect(at_s(7200), seg().seq(0).len(0).ts(ours(7200), 500));
    t.peer_sends(at_s(7200), seg().seq(1).ack(1).ts(700, ours(7200)));
    t.expect(at_s(14_400), seg().seq(0).len(0).ts(ours(14_400), 700));
    // An answer without them is none.
    t.peer_sends(at_s(14_400), seg().seq(1).ack(1));
    t.expect(at_s(14_475), seg().seq(0).len(0));
    t.peer_sends(at_s(14_476), seg().seq(1).ack(1).ts(900, ours(14_475)));
    t.expect(at_s(21_676), seg().seq(0).len(0).ts(ours(21_676), 900));
}

#[test]
fn a_network_error_is_the_reason_when_probes_stay_unanswered() {
    let mut t = with_keepalive();
    t.expect(at_s(7200), seg().seq(0).len(0));
    t.conn.on_unreachable(&mut t.world.cx(at_s(7201)));
    t.advance(at_s(7200 + 75 * 9));
    t.expect_closed(CloseReason::Unreachable, false);
}

/// RFC 7323 section 5.5: 25 days of silence, longer than the timestamp clock can compare, with and
/// without probes, and then traffic in both directions.
#[test]
fn h96_after_twenty_five_days_and_after_fifty_both_directions_go_on() {
    const DAY: u64 = 24 * 3600;
    for keepalive in [false, true] {
        for days in [25, 30, 50, 75, 120] {
            let mut t = Conversation::with(|o, _| {
                o.options.keepalive = keepalive;
                o.ts_recent = Some(500);
            });
            let ours = |at: Instant| (at.as_millis() as u32).wrapping_add(77);
            let theirs = |s: u64| (s * 1000 + 500) as u32;
            t.peer_sends(at_s(1), seg().seq(1).len(100).ts(theirs(1), 0));
            t.forget_output();
            // The peer is asleep, or answers each probe.
            let end = days * DAY;
            while let Some(at) = t.conn.next_deadline().filter(|at| *at < at_s(end)) {
                t.advance(at);
                if t.outbox_len() > 0 {
                    t.forget_output();
                    let s = at.since(at_ms(0)).as_secs();
                    t.peer_sends(at, seg().seq(101).ack(1).ts(theirs(s), ours(at)));
                }
            }
            assert_eq!(t.state(), State::Established, "{days} days");
            assert_eq!(t.world.counters.keep_alive > 100, keepalive);
            // Theirs first: whatever the clocks say, it is taken and echoed.
            let at = at_s(end);
            let d = t.peer_sends(at, seg().seq(101).len(50).ts(theirs(end), ours(at_s(1))));
            assert_eq!(t.relative(d), "keep 101 skip 0 len 50 in order true", "{days} days");
            t.app_reads(at, 150);
            t.app_sends(at, 70);
            let last = t.take_trace().pop().expect("an answer");
            let echo = format!("Some(({}, {}))", ours(at), theirs(end));
            assert!(last.contains("ack 151 len 70") && last.ends_with(&echo), "{last}");
            // Ours is acknowledged; the round trip is that of now, and the timeout an ordinary one.
            let later = at + Duration::from_millis(40);
            t.peer_sends(later, seg().seq(151).ack(71).ts(theirs(end) + 40, ours(at)));
            assert_eq!(t.info().bytes_acked, 70, "{days} days");
            let info = t.info();
            assert!(info.rtt <= Duration::from_millis(41) && info.rto < Duration::from_secs(2));
            // And its loss is found as ever.
            t.app_sends(later, 70);
            t.forget_output();
            t.advance(later + Duration::from_secs(3));
            assert!(t.take_trace().iter().all(|l| l.contains("Retransmit")), "{days} days");
        }
    }
}
