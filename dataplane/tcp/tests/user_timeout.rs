//! The user timeout and its option: RFC 5482 section 3, RFC 5482 section 3.1, RFC 9293 section 3.8.3.

mod common;

use std::time::Duration;

use base::Instant;
use common::at_ms;
use common::conversation::{Conversation, seg};
use tcp::{CloseReason, ConnOptions, State, UserTimeoutOption};

fn at_s(s: u64) -> Instant {
    at_ms(1000 * s)
}

/// How long a byte that is never acknowledged keeps the connection, seconds.
fn patience(mut t: Conversation) -> u64 {
    let begun = t.now;
    t.app_sends(begun, 1);
    while t.state() == State::Established {
        t.advance(t.conn.next_deadline().expect("a timer"));
    }
    t.expect_closed(CloseReason::TimedOut, false);
    assert_eq!(t.world.counters.abort_on_timeout, 1);
    t.now.since(begun).as_secs()
}

/// RFC 5482 section 3.1.
/// RFC 5482 section 3.2: what the SYN did not bring a later segment may.
#[test]
fn the_peers_option_counts_if_that_is_switched_on_and_nobody_has_said_otherwise() {
    // Knob for the option, knob for the timeout (s), the application's (s), the peer's field, result.
    for (name, switch, knob, asked, told, expected) in [
        ("nobody says anything: tcp_retries2", 1, 0, None, 0, 924..=1100),
        ("off, as by default", 0, 0, None, 200, 924..=1100),
        ("heeded", 1, 0, None, 200, 200..=200),
        ("heeded in minutes", 1, 0, None, (1 << 15) | 4, 240..=240),
        ("below the lower limit", 1, 0, None, 5, 100..=100),
        ("above the upper limit", 1, 0, None, 30_000, 3600..=3600),
        ("the longer one is ours", 1, 300, None, 200, 300..=300),
        ("the longer one is theirs", 1, 150, None, 200, 200..=200),
        ("the application has spoken", 1, 150, Some(20), 200, 20..=20),
        ("zero is no value", 1, 0, None, 1 << 15, 924..=1100),
        ("ours alone", 0, 30, None, 200, 30..=30),
    ] {
        let with = |in_syn: u16| {
            Conversation::with(|o, p| {
                p.user_timeout_option = switch;
                p.user_timeout = Duration::from_secs(knob);
                o.options.user_timeout = asked.map(Duration::from_secs);
                o.user_timeout = UserTimeoutOption::from_field(in_syn);
            })
        };
        let got = patience(with(told));
        assert!(expected.contains(&got), "{name}, in the SYN: {got}");
        let mut t = with(0);
        t.peer_sends(at_ms(5), seg().seq(1).ack(1).user_timeout(told));
        let got = patience(t);
        assert!(expected.contains(&got), "{name}, later: {got}");
    }
}

#[test]
fn what_the_application_takes_back_is_the_knobs_again() {
    let mut t = Conversation::with(|o, p| {
        p.user_timeout = Duration::from_secs(40);
        o.options.user_timeout = Some(Duration::from_secs(20));
    });
    t.conn.set_options(&mut t.world.cx(at_ms(0)), &ConnOptions::default());
    assert_eq!(patience(t), 40);
}

/// RFC 5482 section 3.1: also in the first segment that is no SYN, and when it changes.
#[test]
fn ours_is_told_with_the_first_acknowledgement_and_after_a_change() {
    let own = |sec| ConnOptions {
        user_timeout: Some(Duration::from_secs(sec)),
        ..ConnOptions::default()
    };
    let mut t = Conversation::with(|o, p| {
        p.user_timeout_option = 2;
        o.options = own(90);
    });
    t.peer_sends(at_ms(5), seg().seq(1).len(10));
    t.expect(at_ms(5), seg().seq(1).ack(11).user_timeout(90));
    t.peer_sends(at_ms(6), seg().seq(11).len(10));
    t.expect(at_ms(6), seg().seq(1).ack(21).user_timeout(0));
    t.conn.set_options(&mut t.world.cx(at_ms(6)), &own(40_000));
    // The stack would look for output now.
    t.peer_sends(at_ms(7), seg().seq(21).ack(1));
    t.expect(at_ms(7), seg().seq(1).ack(21).user_timeout(1 << 15 | 667));
    t.expect_quiet_until(at_s(100));
    // Switched off, nothing is said.
    let mut t = Conversation::with(|o, p| {
        p.user_timeout_option = 1;
        o.options = own(90);
    });
    t.peer_sends(at_ms(5), seg().seq(1).len(10));
    t.expect(at_ms(5), seg().seq(1).ack(11).user_timeout(0));
}

/// RFC 9293 section 3.8.3 with a closed window: probes are answered, and still nothing moves.
#[test]
fn answers_without_progress_do_not_prolong_it() {
    let mut t = Conversation::with(|o, _| o.options.user_timeout = Some(Duration::from_secs(30)));
    t.app_sends(at_ms(0), 1000);
    t.peer_sends(at_ms(1), seg().seq(1).ack(1).wnd(0));
    while t.state() == State::Established {
        let at = t.conn.next_deadline().expect("a timer");
        t.advance(at);
        if t.outbox_len() > 0 && t.state() == State::Established {
            t.forget_output();
            t.peer_sends(at, seg().seq(1).ack(1).wnd(0));
        }
    }
    assert_eq!(t.now, at_s(30));
    t.expect_closed(CloseReason::TimedOut, false);
}

/// A stall of the worker tells nothing about the path: no round trip from what arrived meanwhile.
#[test]
fn h113_segments_of_unknown_arrival_give_no_round_trip() {
    for timestamps in [false, true] {
        let mut t = Conversation::with(|o, _| o.ts_recent = timestamps.then_some(50));
        let ts = |s: common::conversation::Seg, val, ms: u64| {
            if timestamps { s.ts(val, (at_ms(ms).as_millis() as u32).wrapping_add(77)) } else { s }
        };
        t.app_sends(at_ms(0), 1000);
        t.peer_sends(at_ms(20), ts(seg().seq(1).ack(1001), 60, 0));
        let before = t.info();
        assert_eq!(before.rtt, Duration::from_millis(20));
        t.app_sends(at_ms(20), 1000);
        t.forget_output();
        t.arrival_unknown = true;
        t.peer_sends(at_ms(200), ts(seg().seq(1).ack(2001), 70, 20));
        let after = t.info();
        assert_eq!((after.rtt, after.rto, after.min_rtt), (before.rtt, before.rto, before.min_rtt));
        assert_eq!(after.bytes_acked, 2000);
        assert_eq!(after.unacked, 0);
    }
}
