//! RFC 7323: timestamps (RFC 7323 section 3), round trips (RFC 7323 section 4, RFC 6298 section 3), PAWS
//! (RFC 7323 section 5).

mod common;

use std::time::Duration;

use base::DropReason;
use common::at_ms;
use common::conversation::{Conversation, seg};
use tcp::Disposition;

/// Our clock at 0 ms: a million, and the offset.
const OURS: u32 = 1_000_077;

fn with_timestamps() -> Conversation {
    Conversation::with(|o, _| o.ts_recent = Some(5000))
}

#[test]
fn timestamps_are_echoed_and_cost_segment_size() {
    let mut t = with_timestamps();
    t.app_sends(at_ms(5), 1448);
    t.expect(at_ms(5), seg().seq(1).len(1448).ts(OURS + 5, 5000));
    t.peer_sends(at_ms(15), seg().seq(1).ack(1449).len(10).ts(5010, OURS + 5));
    t.expect(at_ms(15), seg().ack(11).ts(OURS + 15, 5010));
    assert_eq!(t.info().rtt, Duration::from_millis(10));
}

#[test]
fn old_timestamps_are_refused_and_answered() {
    let mut t = with_timestamps();
    let d = t.peer_sends(at_ms(1), seg().seq(1).ack(1).len(10).ts(4000, 0));
    assert_eq!(d, Disposition::Drop(DropReason::TcpPaws));
    t.expect(at_ms(1), seg().ack(1).ts(OURS + 1, 5000));
    assert_eq!(t.world.counters.paws_estab, 1);
    // One tick of lag is nothing.
    let d = t.peer_sends(at_ms(2), seg().seq(1).ack(1).len(10).ts(4999, 0));
    assert!(matches!(d, Disposition::Keep(_)), "{d:?}");
}

#[test]
fn a_missing_timestamp_is_refused_but_not_on_a_reset() {
    let mut t = Conversation::with(|o, p| {
        o.ts_recent = Some(5000);
        p.require_timestamps = true;
    });
    let d = t.peer_sends(at_ms(1), seg().seq(1).ack(1).len(10));
    assert_eq!(d, Disposition::Drop(DropReason::TcpTimestampMissing));
    t.expect_quiet();
    t.peer_sends(at_ms(2), seg().rst().seq(1).ack(1));
    assert_eq!(t.state(), tcp::State::Closed);
}

#[test]
fn a_missing_timestamp_is_taken_where_it_is_not_required() {
    let mut t = with_timestamps();
    let d = t.peer_sends(at_ms(1), seg().seq(1).ack(1).len(10));
    assert!(matches!(d, Disposition::Keep(_)), "{d:?}");
    // What it does not say changes nothing.
    t.expect(at_ms(1), seg().ack(11).ts(OURS + 1, 5000));
}

#[test]
fn an_old_pure_acknowledgement_is_dropped_in_silence() {
    let mut t = with_timestamps();
    t.app_sends(at_ms(0), 2000);
    t.peer_sends(at_ms(1), seg().seq(1).ack(2001).ts(5005, OURS));
    t.forget_output();
    let d = t.peer_sends(at_ms(2), seg().seq(1).ack(1001).ts(4000, OURS));
    assert_eq!(d, Disposition::Drop(DropReason::TcpPaws));
    t.expect_quiet();
    assert_eq!(t.world.counters.paws_old_ack, 1);
}

#[test]
fn jumps_of_the_peers_clock() {
    for (name, jump, taken) in [
        ("as far forward as can be", (1u32 << 31) - 1, true),
        ("half way round is neither past nor future", 1 << 31, true),
        ("just beyond half way", (1 << 31) + 1, false),
        ("the past", u32::MAX - 5, false),
    ] {
        let mut t = with_timestamps();
        let val = 5000u32.wrapping_add(jump);
        let d = t.peer_sends(at_ms(1), seg().seq(1).ack(1).len(10).ts(val, 0));
        assert_eq!(matches!(d, Disposition::Keep(_)), taken, "{name}: {d:?}");
    }
}

#[test]
fn segments_outside_the_window_do_not_move_ts_recent() {
    let mut t = with_timestamps();
    t.peer_sends(at_ms(1), seg().seq(100_000).ack(1).len(10).ts(5_000_000, 0));
    t.forget_output();
    // CVE-2005-0356: otherwise everything after it would be old.
    let d = t.peer_sends(at_ms(2), seg().seq(1).ack(1).len(10).ts(5001, 0));
    assert!(matches!(d, Disposition::Keep(_)), "{d:?}");
    // Beyond a hole it does not count either: Last.ACK.sent must be covered.
    t.peer_sends(at_ms(3), seg().seq(1000).ack(1).len(10).ts(9000, 0));
    t.forget_output();
    let d = t.peer_sends(at_ms(4), seg().seq(11).ack(1).len(10).ts(5002, 0));
    assert!(matches!(d, Disposition::Keep(_)), "{d:?}");
}

#[test]
fn an_acknowledgement_of_nothing_sent_does_not_move_ts_recent() {
    let mut t = with_timestamps();
    t.peer_sends(at_ms(1), seg().seq(1).ack(500).ts(5_000_000, 0));
    t.forget_output();
    let d = t.peer_sends(at_ms(2), seg().seq(1).ack(1).len(10).ts(5001, 0));
    assert!(matches!(d, Disposition::Keep(_)), "{d:?}");
}

#[test]
fn after_twenty_five_days_any_timestamp_will_do() {
    let mut t = with_timestamps();
    let later = at_ms(25 * 24 * 3600 * 1000);
    let d = t.peer_sends(later, seg().seq(1).ack(1).len(10).ts(100, 0));
    assert!(matches!(d, Disposition::Keep(_)), "{d:?}");
    t.expect(later, seg().ack(11));
    // And it counts from now on.
    let d = t.peer_sends(later, seg().seq(11).ack(1).len(10).ts(50, 0));
    assert_eq!(d, Disposition::Drop(DropReason::TcpPaws));
}

#[test]
fn echoes_tell_the_round_trip_of_retransmissions() {
    let mut t = with_timestamps();
    t.app_sends(at_ms(0), 100);
    t.advance(at_ms(1001));
    t.forget_output();
    assert_eq!(t.info().backoff, 1);
    // The answer to the retransmission of 1000 ms.
    t.peer_sends(at_ms(1040), seg().seq(1).ack(101).ts(5001, OURS + 1000));
    assert_eq!(t.info().rtt, Duration::from_millis(40));
    assert_eq!(t.info().backoff, 0);
}

#[test]
fn the_echo_of_a_duplicate_is_no_round_trip() {
    let mut t = with_timestamps();
    t.app_sends(at_ms(0), 2896);
    t.advance(at_ms(8000));
    t.forget_output();
    // Both had arrived, the acknowledgement was lost; the retransmission was a duplicate.
    t.peer_sends(at_ms(8100), seg().seq(1).ack(2897).sack(&[(1, 1449)]).ts(5001, OURS));
    assert_eq!(t.info().rtt, Duration::ZERO);
    assert_eq!(t.info().unacked, 0);
}
