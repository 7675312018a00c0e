//! Data both ways, out of order, SACK and DSACK, PSH, large plans, a device that refuses: RFC 9293
//! section 3.10.7.4, RFC 2018 section 4, RFC 2883 section 4.

mod common;

use base::DropReason;
use common::at_ms;
use common::conversation::{Conversation, ms, seg};
use tcp::{Disposition, Event, Keep, PlanKind, SendError, SeqNum};

#[track_caller]
fn kept(disposition: Disposition) -> (u32, u32, bool) {
    let Disposition::Keep(Keep { skip, len, seq: _, in_order }) = disposition else {
        panic!("not kept: {disposition:?}");
    };
    (skip, len, in_order)
}

#[test]
fn data_arrive_and_are_acknowledged() {
    let mut t = Conversation::established();
    assert_eq!(kept(t.peer_sends(at_ms(1), seg().seq(1).len(1000))), (0, 1000, true));
    t.expect(at_ms(1), seg().seq(1).ack(1001).len(0).kind(PlanKind::Ack));
    t.expect_event(Event::Readable);
    t.expect_quiet();
    assert_eq!(t.info().bytes_received, 1000);
}

#[test]
fn the_initial_window_leaves_in_plans_of_half_and_acknowledgements_bring_more() {
    let mut t = Conversation::established();
    t.app_sends(at_ms(0), 29_200);
    for i in 0..10 {
        // The end of each plan is pushed.
        let pushed = i % 5 == 4;
        t.expect(at_ms(0), seg().seq(1 + i * 1460).ack(1).len(1460).psh(pushed));
    }
    t.expect_quiet();
    t.peer_sends(at_ms(50), seg().seq(1).ack(2921));
    // Two acknowledged, slow start: four more.
    for i in 10..14 {
        t.expect(at_ms(50), seg().seq(1 + i * 1460).len(1460));
    }
    t.expect_quiet();
    assert_eq!(t.info().snd_cwnd, 12);
}

#[test]
fn push_marks_the_end_of_what_is_queued() {
    let mut t = Conversation::established();
    t.app_sends(at_ms(0), 2000);
    t.expect(at_ms(0), seg().seq(1).len(1460).psh(false));
    t.expect(at_ms(0), seg().seq(1461).len(540).psh(true));
    t.expect_quiet();
}

#[test]
fn data_beyond_a_hole_wait_and_are_reported_newest_first() {
    let mut t = Conversation::established();
    let d = t.peer_sends(at_ms(1), seg().seq(1001).len(1000));
    assert_eq!(kept(d), (0, 1000, false));
    t.expect(at_ms(1), seg().ack(1).sack(&[(1001, 2001)]));
    t.peer_sends(at_ms(2), seg().seq(3001).len(1000));
    t.expect(at_ms(2), seg().ack(1).sack(&[(3001, 4001), (1001, 2001)]));
    t.peer_sends(at_ms(3), seg().seq(5001).len(1000));
    t.expect(at_ms(3), seg().ack(1).sack(&[(5001, 6001), (3001, 4001), (1001, 2001)]));
    assert_eq!(t.info().rcv_ooo_bytes, 3000);
    // The first hole closes: what waited behind it comes along.
    assert_eq!(kept(t.peer_sends(at_ms(4), seg().seq(1).len(1000))), (0, 1000, true));
    t.expect(at_ms(4), seg().ack(2001).sack(&[(5001, 6001), (3001, 4001)]));
    t.peer_sends(at_ms(5), seg().seq(2001).len(1000));
    t.expect(at_ms(5), seg().ack(4001).sack(&[(5001, 6001)]));
    t.peer_sends(at_ms(6), seg().seq(4001).len(1000));
    t.expect(at_ms(6), seg().ack(6001).sack(&[]));
    t.expect_quiet();
    assert_eq!(t.world.counters.ofo_queue, 3);
}

#[test]
fn one_acknowledgement_answers_a_burst() {
    let mut t = Conversation::established();
    for i in 0..8 {
        t.peer_sends_in_burst(at_ms(1), seg().seq(1 + 1460 * i).len(1460));
    }
    // Output happens once the burst is in.
    t.peer_sends(at_ms(1), seg().seq(1 + 1460 * 8).len(1460));
    t.expect(at_ms(1), seg().ack(1 + 1460 * 9));
    t.expect_quiet();
    // So it is for a run that receive offload has merged.
    t.app_reads(at_ms(2), 1460 * 9);
    t.forget_output();
    let run = seg().seq(1 + 1460 * 9).len(1460 * 20).segs(20);
    assert_eq!(kept(t.peer_sends(at_ms(3), run)), (0, 29_200, true));
    t.expect(at_ms(3), seg().ack(1 + 1460 * 29));
    t.expect_quiet();
}

#[test]
fn duplicates_are_answered_at_once_with_dsack() {
    let mut t = Conversation::established();
    t.peer_sends(at_ms(1), seg().seq(1).len(1000));
    t.expect(at_ms(1), seg().ack(1001));
    let d = t.peer_sends(at_ms(2), seg().seq(1).len(1000));
    assert_eq!(d, Disposition::Drop(DropReason::TcpOldData));
    t.expect(at_ms(2), seg().ack(1001).sack(&[(1, 1001)]));
    // Once only.
    t.peer_sends(at_ms(3), seg().seq(1001).len(1000));
    t.expect(at_ms(3), seg().ack(2001).sack(&[]));
    // A duplicate of what waits beyond a hole.
    t.peer_sends(at_ms(4), seg().seq(3001).len(1000));
    t.expect(at_ms(4), seg().ack(2001).sack(&[(3001, 4001)]));
    t.peer_sends(at_ms(5), seg().seq(3001).len(1000));
    t.expect(at_ms(5), seg().ack(2001).sack(&[(3001, 4001), (3001, 4001)]));
    assert_eq!(t.world.counters.dsack_old_sent, 1);
    assert_eq!(t.world.counters.dsack_ofo_sent, 1);
}

#[test]
fn old_and_new_in_one_segment_gives_only_the_new() {
    let mut t = Conversation::established();
    t.peer_sends(at_ms(1), seg().seq(1).len(2000));
    t.forget_output();
    assert_eq!(kept(t.peer_sends(at_ms(2), seg().seq(1).len(3000))), (2000, 1000, true));
    t.expect(at_ms(2), seg().ack(3001).sack(&[(1, 2001)]));
}

#[test]
fn one_new_piece_per_segment_and_the_rest_comes_again() {
    let mut t = Conversation::established();
    t.peer_sends(at_ms(1), seg().seq(1001).len(500));
    t.peer_sends(at_ms(1), seg().seq(2001).len(500));
    t.forget_output();
    // 1..3001 covers: new, waiting, new, waiting, new.
    assert_eq!(kept(t.peer_sends(at_ms(2), seg().seq(1).len(3000))), (0, 1000, true));
    t.expect(at_ms(2), seg().ack(1501));
    assert_eq!(kept(t.peer_sends(at_ms(3), seg().seq(1).len(3000))), (1500, 500, true));
    t.expect(at_ms(3), seg().ack(2501));
    assert_eq!(kept(t.peer_sends(at_ms(4), seg().seq(1).len(3000))), (2500, 500, true));
    t.expect(at_ms(4), seg().ack(3001));
}

#[test]
fn data_carry_sack_blocks_and_become_shorter_for_them() {
    let mut t = Conversation::established();
    t.peer_sends(at_ms(1), seg().seq(1001).len(1000));
    t.expect(at_ms(1), seg().ack(1));
    t.app_sends(at_ms(2), 3000);
    t.expect(at_ms(2), seg().seq(1).len(1448).sack(&[(1001, 2001)]));
    t.expect(at_ms(2), seg().seq(1449).len(1448).sack(&[(1001, 2001)]));
    // The partial rest waits for nothing: no partial segment is in flight yet.
    t.expect(at_ms(2), seg().seq(2897).len(104));
    t.expect_quiet();
}

#[test]
fn a_device_that_takes_less_loses_nothing() {
    let mut t = Conversation::established();
    t.device = Some(3);
    t.app_sends(at_ms(0), 14_600);
    for i in 0..3 {
        t.expect(at_ms(0), seg().seq(1 + i * 1460).len(1460));
    }
    t.expect_quiet();
    assert_eq!(t.info().unacked, 3);
    // Whatever wakes the connection next goes on from there.
    t.peer_sends(at_ms(1), seg().seq(1).ack(1));
    for i in 3..6 {
        t.expect(at_ms(1), seg().seq(1 + i * 1460).len(1460));
    }
    t.expect_quiet();
}

#[test]
fn a_refused_plan_arms_no_timer() {
    let mut t = Conversation::established();
    t.device = Some(0);
    t.app_sends(at_ms(0), 1000);
    t.expect_quiet_until(at_ms(5000));
    assert_eq!(t.info().unacked, 0);
    assert_eq!(t.world.counters.timeouts, 0);
    t.device = None;
    t.peer_sends(at_ms(5001), seg().seq(1).ack(1));
    t.expect(at_ms(5001), seg().seq(1).len(1000));
}

#[test]
fn no_memory_means_drop_and_acknowledge() {
    let mut t = Conversation::established();
    t.world.can_store = false;
    let d = t.peer_sends(at_ms(1), seg().seq(1).len(1000));
    assert_eq!(d, Disposition::Drop(DropReason::RcvMemory));
    t.expect(at_ms(1), seg().ack(1));
    let d = t.peer_sends(at_ms(2), seg().seq(1001).len(1000));
    assert_eq!(d, Disposition::Drop(DropReason::OfoLimit));
    t.expect(at_ms(2), seg().ack(1).sack(&[]));
    t.world.can_store = true;
    assert_eq!(kept(t.peer_sends(at_ms(3), seg().seq(1).len(1000))), (0, 1000, true));
    assert_eq!((t.world.counters.rcv_q_drop, t.world.counters.ofo_drop), (1, 1));
}

#[test]
fn holes_are_bounded() {
    let mut t = Conversation::established();
    let mut dropped = 0;
    for i in 0..1000 {
        let d = t.peer_sends(at_ms(1), seg().seq(3 + 2 * i).len(1));
        dropped += u32::from(d == Disposition::Drop(DropReason::OfoLimit));
    }
    assert!(t.info().rcv_ooo_bytes <= 128, "{:?}", t.info());
    assert_eq!(dropped + t.info().rcv_ooo_bytes, 1000);
}

#[test]
fn writable_comes_once_a_third_is_free() {
    let mut t = Conversation::established();
    let room = {
        let now = t.now;
        t.conn.send_room(&t.world.cx(now), u32::MAX)
    };
    // As on Linux: what leaves at once, and then whole chunks of half the peer's window while the buffer, 20 times
    // 4352 bytes, is not full.
    assert_eq!(room, 10 * 1460 + 3 * 22 * 1460);
    t.app_sends(at_ms(0), room);
    let now = t.now;
    assert_eq!(t.conn.send_room(&t.world.cx(now), u32::MAX), 0);
    t.conn.want_writable();
    t.peer_sends(at_ms(10), seg().seq(1).ack(1461));
    assert_eq!(t.conn.poll_event(), None);
    // The congestion window is full each time, so the buffer stays as it is.
    t.forget_output();
    t.peer_sends(at_ms(20), seg().seq(1).ack(14_601));
    assert_eq!(t.conn.poll_event(), None);
    t.forget_output();
    t.peer_sends(at_ms(30), seg().seq(1).ack(43_801));
    assert_eq!(t.conn.poll_event(), None);
    t.forget_output();
    t.peer_sends(at_ms(40), seg().seq(1).ack(73_001));
    t.expect_event(Event::Writable);
}

#[test]
fn sending_after_close_is_an_error() {
    let mut t = Conversation::established();
    t.app_shuts_down(at_ms(1));
    let now = t.now;
    assert_eq!(t.conn.send(&mut t.world.cx(now), 1, false), Err(SendError::Closing));
    t.app_aborts(at_ms(2));
    assert_eq!(t.conn.send(&mut t.world.cx(now), 1, false), Err(SendError::Closed));
}

#[test]
fn an_icmp_hint_lowers_the_segment_size_and_sends_again() {
    let mut t = Conversation::established();
    t.app_sends(at_ms(0), 2920);
    t.expect(at_ms(0), seg().seq(1).len(1460));
    t.expect(at_ms(0), seg().seq(1461).len(1460));
    assert!(t.conn.in_flight(SeqNum::new(7_000_001)));
    let now = t.now;
    t.conn.on_path_hint(&mut t.world.cx(now), 1000);
    assert_eq!(t.conn.snd_mss(), 960);
    t.peer_sends(at_ms(20), seg().seq(1).ack(1));
    // Pieces of the old segments, cut to the new size.
    for (seq, len) in [(1, 960), (961, 960), (1921, 960), (2881, 40)] {
        t.expect(at_ms(20), seg().seq(seq).len(len).kind(PlanKind::Retransmit));
    }
    t.expect_quiet();
    // No reduction: nothing was lost to congestion.
    assert_eq!(t.info().snd_cwnd, 10);
    // Never up again, never below the floor.
    t.conn.on_path_hint(&mut t.world.cx(now), 1400);
    assert_eq!(t.conn.snd_mss(), 960);
    t.conn.on_path_hint(&mut t.world.cx(now), 68);
    assert_eq!(t.conn.snd_mss(), 512);
}

#[test]
fn the_extension_goes_after_a_pause_and_comes_back() {
    let mut t = Conversation::established();
    t.app_sends(at_ms(0), 1000);
    t.peer_sends(at_ms(10), seg().seq(1).ack(1001));
    t.forget_output();
    t.expect_quiet_until(at_ms(60_000));
    assert_eq!(t.conn.next_deadline(), None, "an idle connection costs no deadline");
    t.app_sends(at_ms(60_000), 1000);
    t.expect(at_ms(60_000), seg().seq(1001).len(1000));
    t.peer_sends(at_ms(60_000) + ms(10), seg().seq(1).ack(2001));
    assert_eq!(t.info().unacked, 0);
}
