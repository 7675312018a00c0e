//! When acknowledgements leave: RFC 9293 section 3.8.6.3, RFC 5681 section 4.2.

mod common;

use common::at_ms;
use common::conversation::{Conversation, seg};

/// Established, with the quick acknowledgements of the beginning used up; the peer has sent up to
/// the number returned, one full segment each 30 ms.
fn after_quick_phase() -> (Conversation, i64, u64) {
    let mut t = Conversation::established();
    let (mut seq, mut at) = (1, 0);
    loop {
        at += 30;
        t.peer_sends(at_ms(at), seg().seq(seq).len(1460));
        seq += 1460;
        if t.outbox_len() == 0 {
            t.advance(at_ms(at + 100));
            t.app_reads(at_ms(at + 100), u32::MAX);
            t.forget_output();
            return (t, seq, at + 120);
        }
        t.app_reads(at_ms(at), 1460);
        t.forget_output();
        assert!(at < 3000, "quick for ever");
    }
}

#[test]
fn the_first_segments_are_acknowledged_at_once() {
    let mut t = Conversation::established();
    for i in 0..4 {
        t.peer_sends(at_ms(10 * i), seg().seq(1 + 100 * i as i64).len(100));
        t.expect(at_ms(10 * i), seg().ack(101 + 100 * i as i64));
    }
}

#[test]
fn a_single_segment_waits_forty_milliseconds_or_more() {
    let (mut t, seq, at) = after_quick_phase();
    t.peer_sends(at_ms(at), seg().seq(seq).len(1460));
    t.expect_quiet_until(at_ms(at + 39));
    t.advance(at_ms(at + 200));
    assert_eq!(t.outbox_len(), 1, "one delayed acknowledgement");
    assert!(t.world.counters.delayed_acks > 0);
}

#[test]
fn more_than_one_full_segment_is_acknowledged_at_once_if_the_reader_keeps_pace() {
    let (mut t, seq, at) = after_quick_phase();
    t.peer_sends(at_ms(at), seg().seq(seq).len(1460));
    t.expect_quiet();
    t.app_reads(at_ms(at), 1460);
    t.expect_quiet();
    t.peer_sends_in_burst(at_ms(at + 1), seg().seq(seq + 1460).len(1460));
    t.app_reads(at_ms(at + 1), 1460);
    t.expect(at_ms(at + 1), seg().ack(seq + 2920));
    t.expect_quiet();
}

#[test]
fn without_a_reader_the_second_segment_waits_too() {
    let (mut t, seq, at) = after_quick_phase();
    t.peer_sends(at_ms(at), seg().seq(seq).len(1460));
    t.peer_sends(at_ms(at + 1), seg().seq(seq + 1460).len(1460));
    t.expect_quiet();
    // Reading it moves the window: now it is worth telling.
    t.app_reads(at_ms(at + 2), 2920);
    t.expect(at_ms(at + 2), seg().ack(seq + 2920));
}

#[test]
fn a_reply_carries_the_acknowledgement() {
    let mut t = Conversation::established();
    t.peer_sends_in_burst(at_ms(10), seg().seq(1).len(100).psh(true));
    t.app_reads(at_ms(10), 100);
    t.forget_output();
    t.app_sends(at_ms(11), 200);
    t.expect(at_ms(11), seg().seq(1).ack(101).len(200));
    // An exchange: the request is not acknowledged alone any more.
    t.peer_sends_in_burst(at_ms(20), seg().seq(101).ack(201).len(100).psh(true));
    t.app_reads(at_ms(20), 100);
    t.expect_quiet();
    t.app_sends(at_ms(21), 200);
    t.expect(at_ms(21), seg().seq(201).ack(201).len(200));
    t.expect_quiet();
}

#[test]
fn no_reply_in_time_ends_the_exchange() {
    let mut t = Conversation::established();
    t.peer_sends(at_ms(10), seg().seq(1).len(100));
    t.app_reads(at_ms(10), 100);
    t.app_sends(at_ms(11), 200);
    t.forget_output();
    t.peer_sends(at_ms(20), seg().seq(101).ack(201).len(100));
    t.app_reads(at_ms(20), 100);
    t.expect_quiet();
    t.expect(at_ms(60), seg().seq(201).ack(201).len(0));
    // Quick again.
    t.peer_sends(at_ms(70), seg().seq(201).len(100));
    t.expect(at_ms(70), seg().ack(301));
}

#[test]
fn a_peer_without_sack_gets_one_duplicate_per_segment() {
    let mut t = Conversation::with(|o, _| o.sack = false);
    for i in 1..4 {
        t.peer_sends_in_burst(at_ms(1), seg().seq(1 + 1000 * i).len(1000));
    }
    t.peer_sends(at_ms(1), seg().seq(4001).len(1000));
    for _ in 0..4 {
        t.expect(at_ms(1), seg().ack(1).sack(&[]));
    }
    t.expect_quiet();
}

#[test]
fn a_peer_with_sack_gets_one_for_the_burst() {
    let mut t = Conversation::established();
    for i in 1..4 {
        t.peer_sends_in_burst(at_ms(1), seg().seq(1 + 1000 * i).len(1000));
    }
    t.peer_sends(at_ms(1), seg().seq(4001).len(1000));
    t.expect(at_ms(1), seg().ack(1).sack(&[(1001, 5001)]));
    t.expect_quiet();
}
