//! Loss: fast retransmit with SACK and without, timeouts, reneging, limited transmit, lost
//! retransmissions. RFC 5681 section 3.2, RFC 6298 section 5, RFC 2018 section 5, RFC 2018 section 8,
//! RFC 6582 section 3, RFC 6675 section 5.

mod common;

use std::time::Duration;

use common::conversation::{Conversation, seg};
use common::{at_ms, at_us};
use tcp::{CloseReason, PlanKind, State};

/// Ten segments of 1460 in flight since 0 ms, more queued.
fn ten_in_flight(sack: bool) -> Conversation {
    ten_in_flight_with(sack, true)
}

/// The same, with timeouts doubted (F-RTO) or not.
fn ten_in_flight_with(sack: bool, frto: bool) -> Conversation {
    let mut t = Conversation::with(|o, p| {
        o.sack = sack;
        p.frto = if frto { 2 } else { 0 };
        // Probes would come in place of timeouts.
        p.early_retrans = 0;
    });
    t.app_sends(at_ms(0), 29_200);
    for i in 0..10 {
        t.expect(at_ms(0), seg().seq(1 + 1460 * i).len(1460));
    }
    t.expect_quiet();
    t
}

/// The number of the first byte of segment `i`.
const fn at(i: i64) -> i64 {
    1 + 1460 * i
}

#[test]
fn three_segments_beyond_a_hole_start_a_fast_retransmission() {
    let mut t = ten_in_flight(true);
    // The first is lost. Limited transmit: each report lets one new segment go.
    t.peer_sends(at_ms(50), seg().seq(1).ack(1).sack(&[(at(1), at(2))]));
    t.expect(at_ms(50), seg().seq(at(10)).len(1460).kind(PlanKind::Data));
    t.peer_sends(at_ms(50), seg().seq(1).ack(1).sack(&[(at(1), at(3))]));
    t.expect(at_ms(50), seg().seq(at(11)).len(1460).kind(PlanKind::Data));
    t.expect_quiet();
    t.peer_sends(at_ms(51), seg().seq(1).ack(1).sack(&[(at(1), at(4))]));
    t.expect(at_ms(51), seg().seq(1).len(1460).kind(PlanKind::Retransmit));
    t.expect_quiet();
    assert_eq!(t.info().snd_ssthresh, 7);
    // RFC 9937: the window follows what is delivered; nine is what is in flight now.
    assert_eq!(t.info().snd_cwnd, 9);
    assert_eq!(t.world.counters.sack_recovery, 1);
    // More reports drain the pipe below the window: new data.
    t.peer_sends(at_ms(52), seg().seq(1).ack(1).sack(&[(at(1), at(7))]));
    t.expect(at_ms(52), seg().seq(at(12)).len(1460));
    // The end of the episode.
    t.peer_sends(at_ms(100), seg().seq(1).ack(at(13)));
    assert_eq!(t.info().lost, 0);
    assert_eq!(t.world.counters.fast_retrans, 1);
    assert_eq!(t.world.counters.timeouts, 0);
}

#[test]
fn several_holes_are_repaired_in_one_episode() {
    let mut t = ten_in_flight(true);
    let blocks = [(at(7), at(10)), (at(4), at(6)), (at(1), at(3))];
    t.peer_sends(at_ms(50), seg().seq(1).ack(1).sack(&blocks));
    // Segments 0, 3 and 6 are lost: each has three or more above it.
    for i in [0, 3, 6] {
        t.expect(at_ms(50), seg().seq(at(i)).len(1460).kind(PlanKind::Retransmit));
    }
    // Then new data, up to the reduced window.
    for i in 10..14 {
        t.expect(at_ms(50), seg().seq(at(i)).len(1460).kind(PlanKind::Data));
    }
    t.expect_quiet();
    t.peer_sends(at_ms(100), seg().seq(1).ack(at(14)));
    assert_eq!((t.info().lost, t.info().sacked, t.info().retrans), (0, 0, 0));
    assert_eq!(t.world.counters.sack_recovery, 1);
}

#[test]
fn two_reports_are_no_loss() {
    let mut t = ten_in_flight(true);
    t.peer_sends(at_ms(50), seg().seq(1).ack(1).sack(&[(at(1), at(3))]));
    t.forget_output();
    t.peer_sends(at_ms(60), seg().seq(1).ack(at(3)));
    assert_eq!(t.world.counters.sack_recovery, 0);
    assert_eq!(t.world.counters.retrans_segs, 0);
}

#[test]
fn reordering_is_learned() {
    let mut t = ten_in_flight(true);
    t.peer_sends(at_ms(50), seg().seq(1).ack(1).sack(&[(at(2), at(3))]));
    t.peer_sends(at_ms(51), seg().seq(1).ack(1).sack(&[(at(2), at(3)), (at(9), at(10))]));
    t.forget_output();
    // The first arrives late although it was sent once only: eight or more segments late.
    t.peer_sends(at_ms(52), seg().seq(1).ack(at(1)).sack(&[(at(2), at(3)), (at(9), at(10))]));
    assert!(t.info().reordering > 3, "{:?}", t.info());
    assert_eq!(t.world.counters.sack_reorder, 1);
}

#[test]
fn a_retransmission_that_is_lost_is_sent_again_without_a_timeout() {
    let mut t = ten_in_flight(true);
    t.peer_sends(at_ms(50), seg().seq(1).ack(1).sack(&[(at(1), at(6))]));
    t.expect(at_ms(50), seg().seq(1).kind(PlanKind::Retransmit));
    t.forget_output();
    // What was sent after the retransmission arrives, three segments of it.
    t.peer_sends(at_ms(90), seg().seq(1).ack(1).sack(&[(at(1), at(10))]));
    t.forget_output();
    t.peer_sends(at_ms(100), seg().seq(1).ack(1).sack(&[(at(1), at(13))]));
    t.expect(at_ms(100), seg().seq(1).len(1460).kind(PlanKind::Retransmit));
    assert_eq!(t.world.counters.lost_retransmit, 1);
}

#[test]
fn newreno_retransmits_on_the_third_duplicate_and_on_partial_acknowledgements() {
    let mut t = ten_in_flight(false);
    t.peer_sends(at_ms(50), seg().seq(1).ack(1));
    t.expect(at_ms(50), seg().seq(at(10)));
    t.peer_sends(at_ms(50), seg().seq(1).ack(1));
    t.expect(at_ms(50), seg().seq(at(11)));
    t.peer_sends(at_ms(50), seg().seq(1).ack(1));
    t.expect(at_ms(50), seg().seq(1).len(1460).kind(PlanKind::Retransmit));
    t.expect_quiet();
    assert_eq!(t.world.counters.reno_recovery, 1);
    assert_eq!((t.info().snd_ssthresh, t.info().snd_cwnd), (7, 9));
    // Segment 4 is missing too.
    t.peer_sends(at_ms(100), seg().seq(1).ack(at(4)));
    t.expect(at_ms(100), seg().seq(at(4)).len(1460).kind(PlanKind::Retransmit));
    t.forget_output();
    t.peer_sends(at_ms(150), seg().seq(1).ack(at(12)));
    t.forget_output();
    assert_eq!(t.world.counters.reno_recovery, 1);
    // Duplicates at exactly the end of the episode start no other one.
    for i in 0..5 {
        t.peer_sends(at_ms(151 + i), seg().seq(1).ack(at(12)));
    }
    assert_eq!(t.world.counters.reno_recovery, 1);
    assert_eq!(t.world.counters.fast_retrans, 2);
}

#[test]
fn duplicates_without_data_in_flight_are_nothing() {
    let mut t = Conversation::with(|o, _| o.sack = false);
    for i in 0..1000 {
        t.peer_sends(at_ms(i), seg().seq(1).ack(1));
    }
    t.expect_quiet();
    // With data in flight they count no more than there are segments.
    t.app_sends(at_ms(1000), 14_600);
    t.forget_output();
    for _ in 0..100_000 {
        t.peer_sends(at_ms(1001), seg().seq(1).ack(1));
    }
    let info = t.info();
    assert!(info.sacked <= 9, "{info:?}");
    assert!(info.unacked <= 10, "{info:?}");
}

#[test]
fn a_timeout_backs_off_and_goes_back_to_the_start() {
    let mut t = ten_in_flight_with(true, false);
    // Round trip of 100 ms, so that the timeout is 300 ms.
    t.peer_sends(at_ms(100), seg().seq(1).ack(at(1)));
    t.forget_output();
    // Segment 1 was sent at 0 ms.
    t.expect(at_ms(400 - 100), seg().seq(at(1)).len(1460).kind(PlanKind::Retransmit));
    t.expect_quiet();
    assert_eq!(t.info().snd_cwnd, 1);
    assert_eq!(t.info().lost, t.info().unacked);
    for at_time in [900, 2100, 4500] {
        t.expect_quiet_until(at_ms(at_time - 1));
        t.expect(at_ms(at_time), seg().seq(at(1)).len(1460));
        t.expect_quiet();
    }
    assert_eq!(t.world.counters.timeouts, 4);
    assert_eq!(t.info().backoff, 4);
    // Slow start over what was lost.
    t.peer_sends(at_ms(4600), seg().seq(1).ack(at(2)));
    t.expect(at_ms(4600), seg().seq(at(2)).kind(PlanKind::Retransmit));
    t.expect(at_ms(4600), seg().seq(at(3)).kind(PlanKind::Retransmit));
    t.expect_quiet();
    // Karn: a retransmitted segment does not end the back-off.
    assert_eq!(t.info().backoff, 4);
    t.peer_sends(at_ms(4700), seg().seq(1).ack(at(12)));
    t.expect(at_ms(4700), seg().seq(at(12)).kind(PlanKind::Data));
    t.forget_output();
    t.peer_sends(at_ms(4800), seg().seq(1).ack(at(13)));
    assert_eq!(t.info().backoff, 0);
}

#[test]
fn a_timeout_spares_what_the_peer_holds() {
    let mut t = ten_in_flight_with(true, false);
    t.peer_sends(at_ms(50), seg().seq(1).ack(1).sack(&[(at(8), at(10))]));
    t.forget_output();
    t.advance(at_ms(1200));
    t.forget_output();
    let mut again = Vec::new();
    for i in 0..6 {
        let up_to = 1 + i64::from(i > 0) * (2_i64.pow(i) - 1);
        t.peer_sends(at_ms(1300 + 10 * u64::from(i)), seg().seq(1).ack(at(up_to.min(8))));
        again.extend(t.take_trace());
    }
    assert!(again.iter().any(|l| l.contains(&format!("Retransmit . seq {}", at(7)))), "{again:?}");
    for spared in [8, 9] {
        let name = format!("Retransmit . seq {} ", at(spared));
        assert!(!again.iter().any(|l| l.contains(&name)), "{again:?}");
    }
}

#[test]
fn a_peer_that_withdraws_its_sack_gets_everything_again() {
    let mut t = ten_in_flight(true);
    t.peer_sends(at_ms(50), seg().seq(1).ack(1).sack(&[(at(1), at(3))]));
    t.forget_output();
    // It acknowledges the hole, but not what it said to hold.
    t.peer_sends(at_ms(60), seg().seq(1).ack(at(1)));
    t.forget_output();
    // Half of the smoothed round trip of 51.25 ms.
    t.advance(at_ms(100));
    t.expect(at_us(85_625), seg().seq(at(1)).len(1460).kind(PlanKind::Retransmit));
    assert_eq!(t.world.counters.sack_reneging, 1);
    assert_eq!(t.info().sacked, 0);
}

#[test]
fn retransmissions_end_after_the_time_of_retries2() {
    let mut t = Conversation::established();
    t.app_sends(at_ms(0), 100);
    t.expect(at_ms(0), seg().seq(1));
    t.advance(at_ms(0) + Duration::from_secs(2000));
    t.expect_closed(CloseReason::TimedOut, false);
    assert_eq!(t.world.counters.abort_on_timeout, 1);
    // The initial timeout of 1 s, doubled up to 120 s: 924.6 s have passed at the 14th.
    assert_eq!(t.outbox_len(), 13);
}

#[test]
fn the_user_timeout_ends_retransmissions_when_it_says() {
    let mut t = Conversation::with(|o, _| o.options.user_timeout = Some(Duration::from_secs(10)));
    t.app_sends(at_ms(0), 100);
    t.advance(at_ms(9999));
    assert_eq!(t.conn.close_reason(), None);
    t.advance(at_ms(10_001));
    t.expect_closed(CloseReason::TimedOut, false);
}

#[test]
fn an_unreachable_takes_one_step_of_back_off_back() {
    let mut t = Conversation::established();
    t.app_sends(at_ms(0), 100);
    t.advance(at_ms(1000 + 2000 + 1));
    assert_eq!(t.info().backoff, 2);
    let now = t.now;
    t.conn.on_unreachable(&mut t.world.cx(now));
    assert_eq!(t.info().backoff, 1);
    assert!(t.conn.is_unreachable());
    t.peer_sends(at_ms(3100), seg().seq(1).ack(101));
    assert!(!t.conn.is_unreachable());
}

#[test]
fn a_timeout_whose_retransmission_the_device_refuses_does_not_back_off() {
    let mut t = Conversation::established();
    t.app_sends(at_ms(0), 100);
    t.forget_output();
    t.device = Some(0);
    t.advance(at_ms(4000));
    assert_eq!(t.info().backoff, 1);
    t.device = None;
    t.advance(at_ms(4600));
    assert_eq!(t.outbox_len(), 1);
}

#[test]
fn nonsense_in_sack_blocks_is_discarded() {
    let mut t = ten_in_flight(true);
    let before = t.info();
    let rows: &[(&str, (i64, i64))] = &[
        ("reversed", (at(3), at(2))),
        ("empty", (at(2), at(2))),
        ("beyond what was sent", (at(9), at(11))),
        ("all of it beyond", (at(20), at(21))),
        ("wrapped", (at(20), at(5))),
        ("across snd_una", (-5, at(2))),
        ("duplicate report of what was never sent", (-70_000, -60_000)),
    ];
    for (i, (name, block)) in rows.iter().enumerate() {
        t.peer_sends(at_ms(10), seg().seq(1).ack(1).sack(&[*block]));
        assert_eq!(t.info().sacked, before.sacked, "{name}");
        assert_eq!(t.world.counters.sack_discard, i as u64 + 1, "{name}");
    }
    t.expect_quiet();
}

#[test]
fn blocks_of_single_bytes_split_nothing_below_a_segment() {
    let mut t = ten_in_flight(true);
    for i in 0..2000 {
        let byte = 2 + 7 * i % 14_000;
        t.peer_sends(at_ms(10), seg().seq(1).ack(1).sack(&[(byte, byte + 1)]));
    }
    let info = t.info();
    assert_eq!((info.unacked, info.sacked), (10, 0), "{info:?}");
}

#[test]
fn the_window_does_not_grow_while_it_is_not_used() {
    let mut t = Conversation::with(|o, _| o.options.nodelay = true);
    let mut seq = 1i64;
    for i in 0..200 {
        t.app_sends(at_ms(10 * i), 1000);
        seq += 1000;
        t.peer_sends(at_ms(10 * i + 5), seg().seq(1).ack(seq));
    }
    assert_eq!(t.info().snd_cwnd, 10);
}

#[test]
fn many_acknowledgements_of_one_segment_gain_nothing() {
    let mut whole = ten_in_flight(true);
    whole.peer_sends(at_ms(50), seg().seq(1).ack(at(1)));
    let mut pieces = ten_in_flight(true);
    for i in 1..=146 {
        pieces.peer_sends(at_ms(50), seg().seq(1).ack(1 + 10 * i));
    }
    assert_eq!(pieces.info().snd_cwnd, whole.info().snd_cwnd);
}

#[test]
fn after_a_pause_the_window_starts_again() {
    let mut t = ten_in_flight(true);
    let mut acked = 0;
    let mut at_time = 50;
    while acked < 20 {
        acked = (acked + 5).min(20);
        t.peer_sends(at_ms(at_time), seg().seq(1).ack(at(acked)));
        at_time += 50;
    }
    t.forget_output();
    assert!(t.info().snd_cwnd > 10);
    t.app_sends(at_ms(4000), 100);
    assert_eq!(t.info().snd_cwnd, 10);
}

/// RFC 9293 section 3.9.2.2: a soft error is no end, but it is the better reason.
#[test]
fn a_soft_error_is_the_reason_when_the_timer_gives_up() {
    for (name, heard_again, reason) in [
        ("nothing heard since", false, CloseReason::Unreachable),
        ("heard of since", true, CloseReason::TimedOut),
    ] {
        let mut t = Conversation::established();
        t.app_sends(at_ms(0), 100);
        t.conn.on_unreachable(&mut t.world.cx(at_ms(50)));
        assert!(t.conn.is_unreachable() && t.state() == State::Established, "{name}");
        if heard_again {
            t.peer_sends(at_ms(60), seg().seq(1).ack(1));
        }
        while t.state() == State::Established {
            t.advance(t.conn.next_deadline().expect("a timer"));
        }
        t.expect_closed(reason, false);
    }
}

/// Ten in flight, a round trip of 100 ms, and the timer has fired at 300 ms: the head was sent again.
fn after_a_timeout() -> Conversation {
    let mut t = ten_in_flight(true);
    t.peer_sends(at_ms(100), seg().seq(1).ack(at(1)));
    t.forget_output();
    t.expect(at_ms(300), seg().seq(at(1)).len(1460).kind(PlanKind::Retransmit));
    t.expect_quiet();
    t
}

#[test]
fn a_timeout_that_came_too_soon_is_taken_back() {
    let mut t = after_a_timeout();
    let before = t.info();
    assert_eq!(before.snd_cwnd, 1);
    // RFC 5682 section 2.1: the first acknowledgement after it lets new data go and nothing old.
    t.peer_sends(at_ms(310), seg().seq(1).ack(at(2)));
    t.expect(at_ms(310), seg().seq(at(12)).kind(PlanKind::Data));
    t.expect(at_ms(310), seg().seq(at(13)).kind(PlanKind::Data));
    t.expect_quiet();
    // The next one covers what was sent once only: the originals are arriving.
    t.peer_sends(at_ms(311), seg().seq(1).ack(at(4)));
    assert_eq!(t.world.counters.spurious_rtos, 1);
    assert!(t.info().snd_cwnd >= 11, "{:?}", t.info());
    assert_eq!((t.info().lost, t.info().backoff), (0, 0));
    t.forget_output();
    assert_eq!(t.world.counters.retrans_segs, 1);
}

#[test]
fn a_timeout_that_was_right_goes_on_with_what_was_lost() {
    let mut t = after_a_timeout();
    t.peer_sends(at_ms(400), seg().seq(1).ack(at(2)));
    t.expect(at_ms(400), seg().seq(at(12)).kind(PlanKind::Data));
    t.expect(at_ms(400), seg().seq(at(13)).kind(PlanKind::Data));
    t.expect_quiet();
    // The new data arrive behind a hole.
    t.peer_sends(at_ms(500), seg().seq(1).ack(at(2)).sack(&[(at(12), at(13))]));
    t.expect(at_ms(500), seg().seq(at(2)).kind(PlanKind::Retransmit));
    assert_eq!(t.world.counters.spurious_rtos, 0);
    assert_eq!(t.world.counters.timeouts, 1);
}

/// RFC 8985 section 6.2: what is a little late is waited for, and then sent again without a timeout.
#[test]
fn late_segments_get_a_quarter_of_the_round_trip() {
    let mut t = ten_in_flight(true);
    t.peer_sends(at_ms(40), seg().seq(1).ack(at(1)));
    t.forget_output();
    t.peer_sends(at_ms(41), seg().seq(1).ack(at(1)).sack(&[(at(2), at(4))]));
    t.forget_output();
    t.expect_quiet_until(at_ms(52));
    t.advance(at_ms(54));
    t.expect(at_ms(53), seg().seq(at(1)).kind(PlanKind::Retransmit));
    assert_eq!((t.world.counters.sack_recovery, t.world.counters.timeouts), (1, 0));
}

/// RFC 2883 and RFC 8985: what was sent again in vain widens the window and gives back what the recovery took.
#[test]
fn reordering_that_looked_like_loss_is_undone() {
    let mut t = ten_in_flight(true);
    t.peer_sends(at_ms(40), seg().seq(1).ack(1).sack(&[(at(1), at(4))]));
    t.expect(at_ms(40), seg().seq(1).kind(PlanKind::Retransmit));
    t.forget_output();
    assert_eq!(t.info().snd_ssthresh, 7);
    // The original comes, then the copy, which is reported.
    t.peer_sends(at_ms(44), seg().seq(1).ack(at(4)));
    t.forget_output();
    t.peer_sends(at_ms(45), seg().seq(1).ack(at(4)).sack(&[(1, at(1))]));
    assert_eq!(t.world.counters.dsack_undo, 1);
    assert!(t.info().snd_cwnd >= 10, "{:?}", t.info());
    assert!(t.info().snd_ssthresh > 7);
}
