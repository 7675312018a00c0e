//! Every order in which a connection can end: RFC 9293 section 3.6, RFC 9293 section 3.10.4, RFC 9293
//! section 3.10.5, RFC 1122 section 4.2.2.13.

mod common;

use std::time::Duration;

use base::DropReason;
use common::at_ms;
use common::conversation::{Conversation, seg};
use tcp::{CloseReason, Disposition, Event, PlanKind, State};

#[test]
fn we_close_first() {
    let mut t = Conversation::established();
    t.app_shuts_down(at_ms(0));
    assert_eq!(t.state(), State::FinWait1);
    t.expect(at_ms(0), seg().seq(1).ack(1).fin());
    t.peer_sends(at_ms(10), seg().seq(1).ack(2));
    assert_eq!(t.state(), State::FinWait2);
    t.peer_sends(at_ms(20), seg().seq(1).fin().ack(2));
    t.expect(at_ms(20), seg().seq(2).ack(2));
    t.expect_event(Event::PeerClosed);
    assert_eq!(t.state(), State::TimeWait);
    t.expect_closed(CloseReason::Finished, true);
    assert_eq!(t.conn.next_deadline(), None);
}

#[test]
fn the_peer_closes_first() {
    let mut t = Conversation::established();
    t.peer_sends(at_ms(0), seg().seq(1).fin());
    t.expect(at_ms(0), seg().seq(1).ack(2));
    t.expect_event(Event::PeerClosed);
    assert_eq!(t.state(), State::CloseWait);
    t.app_shuts_down(at_ms(10));
    assert_eq!(t.state(), State::LastAck);
    t.expect(at_ms(10), seg().seq(1).ack(2).fin());
    t.peer_sends(at_ms(20), seg().seq(2).ack(2));
    assert_eq!(t.state(), State::Closed);
    t.expect_closed(CloseReason::Finished, false);
    t.expect_quiet();
}

#[test]
fn both_close_at_once() {
    let mut t = Conversation::established();
    t.app_shuts_down(at_ms(0));
    t.expect(at_ms(0), seg().seq(1).fin());
    t.peer_sends(at_ms(5), seg().seq(1).ack(1).fin());
    assert_eq!(t.state(), State::Closing);
    t.expect(at_ms(5), seg().seq(2).ack(2));
    t.peer_sends(at_ms(10), seg().seq(2).ack(2));
    assert_eq!(t.state(), State::TimeWait);
    t.expect_closed(CloseReason::Finished, true);
    t.expect_quiet();
}

#[test]
fn fin_and_its_acknowledgement_in_one_segment() {
    let mut t = Conversation::established();
    t.app_shuts_down(at_ms(0));
    t.expect(at_ms(0), seg().seq(1).fin());
    t.peer_sends(at_ms(5), seg().seq(1).ack(2).fin());
    assert_eq!(t.state(), State::TimeWait);
    t.expect(at_ms(5), seg().seq(2).ack(2));
    t.expect_closed(CloseReason::Finished, true);
}

#[test]
fn closed_only_after_the_last_acknowledgement_has_left() {
    let mut t = Conversation::established();
    t.app_shuts_down(at_ms(0));
    t.forget_output();
    t.device = Some(0);
    t.peer_sends(at_ms(5), seg().seq(1).ack(2).fin());
    t.expect_event(Event::PeerClosed);
    t.expect_quiet();
    assert_eq!(t.conn.poll_event(), None);
    let now = t.now;
    assert!(t.conn.wants_transmit(&t.world.cx(now)));
    let plan = t.conn.poll_transmit(&mut t.world.cx(now), 1).expect("the acknowledgement");
    t.conn.on_transmitted(&mut t.world.cx(now), &plan, 1);
    assert_eq!(
        t.conn.poll_event(),
        Some(Event::Closed { reason: CloseReason::Finished, time_wait: true })
    );
    assert_eq!(t.conn.poll_event(), None);
}

#[test]
fn fin_follows_the_data_and_rides_on_the_last_segment() {
    let mut t = Conversation::established();
    t.app_sends(at_ms(0), 20_000);
    t.app_shuts_down(at_ms(0));
    for i in 0..10 {
        t.expect(at_ms(0), seg().seq(1 + 1460 * i).len(1460));
    }
    t.expect_quiet();
    t.peer_sends(at_ms(10), seg().seq(1).ack(14_601));
    for i in 10..13 {
        t.expect(at_ms(10), seg().seq(1 + 1460 * i).len(1460));
    }
    t.expect(at_ms(10), seg().seq(18_981).len(1020).fin());
    // The FIN takes no storage.
    t.peer_sends(at_ms(20), seg().seq(1).ack(20_002));
    assert_eq!(t.conn.snd_una(), t.conn.write_seq());
    assert_eq!(t.state(), State::FinWait2);
}

#[test]
fn half_close_still_receives() {
    let mut t = Conversation::established();
    t.app_shuts_down(at_ms(0));
    t.forget_output();
    t.peer_sends(at_ms(5), seg().seq(1).ack(2));
    let d = t.peer_sends(at_ms(6), seg().seq(1).len(500));
    assert!(matches!(d, Disposition::Keep(k) if k.len == 500));
    t.expect(at_ms(6), seg().seq(2).ack(501));
    let d = t.peer_sends(at_ms(7), seg().seq(501).len(500).fin());
    assert!(matches!(d, Disposition::Keep(k) if k.len == 500));
    t.expect(at_ms(7), seg().seq(2).ack(1002));
    assert_eq!(t.state(), State::TimeWait);
}

#[test]
fn half_closed_peer_still_gets_data() {
    let mut t = Conversation::established();
    t.peer_sends(at_ms(0), seg().seq(1).fin());
    t.forget_output();
    t.app_sends(at_ms(1), 1000);
    t.expect(at_ms(1), seg().seq(1).ack(2).len(1000));
    t.peer_sends(at_ms(2), seg().seq(2).ack(1001));
    assert_eq!(t.info().unacked, 0);
}

#[test]
fn a_fin_beyond_a_hole_waits_for_it() {
    let mut t = Conversation::established();
    let d = t.peer_sends(at_ms(0), seg().seq(1001).len(500).fin());
    assert!(matches!(d, Disposition::Keep(k) if k.len == 500 && !k.in_order));
    t.expect(at_ms(0), seg().ack(1).sack(&[(1001, 1502)]));
    assert_eq!(t.state(), State::Established);
    t.peer_sends(at_ms(1), seg().seq(1).len(1000));
    t.expect(at_ms(1), seg().ack(1502));
    assert_eq!(t.state(), State::CloseWait);
    t.expect_event(Event::PeerClosed);
    assert_eq!(t.info().rcv_queue, 1500);
}

#[test]
fn a_fin_alone_beyond_a_hole_waits_too() {
    let mut t = Conversation::established();
    assert_eq!(t.peer_sends(at_ms(0), seg().seq(1001).fin()), Disposition::Done);
    t.expect(at_ms(0), seg().ack(1).sack(&[(1001, 1002)]));
    // Nothing can lie beyond it, whatever the peer says now.
    let d = t.peer_sends(at_ms(1), seg().seq(1001).len(500));
    assert!(matches!(d, Disposition::Drop(_)), "{d:?}");
    t.forget_output();
    let d = t.peer_sends(at_ms(2), seg().seq(1).len(1400));
    assert!(matches!(d, Disposition::Keep(k) if k.len == 1000), "{d:?}");
    t.expect(at_ms(2), seg().ack(1002));
    assert_eq!(t.state(), State::CloseWait);
}

#[test]
fn a_fin_before_data_that_are_here_is_not_believed() {
    let mut t = Conversation::established();
    t.peer_sends(at_ms(0), seg().seq(2001).len(500));
    t.forget_output();
    t.peer_sends(at_ms(1), seg().seq(1).len(1000).fin());
    assert_eq!(t.state(), State::Established);
    t.expect(at_ms(1), seg().ack(1001).sack(&[(2001, 2501)]));
}

#[test]
fn a_repeated_fin_is_acknowledged_again() {
    let mut t = Conversation::established();
    t.peer_sends(at_ms(0), seg().seq(1).fin());
    t.expect(at_ms(0), seg().ack(2));
    t.peer_sends(at_ms(300), seg().seq(1).fin());
    t.expect(at_ms(300), seg().ack(2));
    t.expect_event(Event::PeerClosed);
    assert_eq!(t.conn.poll_event(), None, "told once");
}

#[test]
fn data_after_the_peers_fin_are_ignored() {
    let mut t = Conversation::established();
    t.peer_sends(at_ms(0), seg().seq(1).fin());
    t.forget_output();
    let d = t.peer_sends(at_ms(1), seg().seq(2).len(100));
    assert_eq!(d, Disposition::Drop(DropReason::TcpIgnored));
    assert_eq!(t.info().bytes_received, 0);
}

#[test]
fn fin_is_retransmitted() {
    let mut t = Conversation::established();
    t.app_shuts_down(at_ms(0));
    t.expect(at_ms(0), seg().seq(1).fin());
    t.expect(at_ms(1000), seg().seq(1).fin().len(0).kind(PlanKind::Retransmit));
    t.expect(at_ms(3000), seg().seq(1).fin().len(0));
    t.peer_sends(at_ms(3100), seg().seq(1).ack(2));
    assert_eq!(t.state(), State::FinWait2);
}

#[test]
fn closing_with_data_unread_resets() {
    let mut t = Conversation::established();
    t.peer_sends(at_ms(0), seg().seq(1).len(100));
    t.forget_output();
    t.app_closes(at_ms(1));
    t.expect(at_ms(1), seg().seq(1).rst().kind(PlanKind::Reset));
    t.expect_closed(CloseReason::Aborted, false);
    assert_eq!(t.world.counters.abort_on_close, 1);
}

#[test]
fn data_after_close_reset() {
    let mut t = Conversation::established();
    t.app_closes(at_ms(0));
    t.expect(at_ms(0), seg().seq(1).fin());
    t.peer_sends(at_ms(5), seg().seq(1).ack(2));
    let d = t.peer_sends(at_ms(6), seg().seq(1).len(100));
    assert_eq!(d, Disposition::Drop(DropReason::DataAfterClose));
    t.expect(at_ms(6), seg().seq(2).rst().no_ack());
    t.expect_closed(CloseReason::Aborted, false);
    assert_eq!(t.world.counters.abort_on_data, 1);
}

#[test]
fn an_orphan_does_not_wait_for_the_peers_fin_for_ever() {
    let mut t = Conversation::established();
    t.app_closes(at_ms(0));
    t.forget_output();
    t.peer_sends(at_ms(5), seg().seq(1).ack(2));
    assert_eq!(t.state(), State::FinWait2);
    t.expect_quiet_until(at_ms(60_004));
    assert_eq!(t.state(), State::FinWait2);
    t.advance(at_ms(60_006));
    t.expect_closed(CloseReason::TimedOut, false);
    t.expect_quiet();
}

#[test]
fn half_closed_fin_wait_2_waits_as_long_as_the_application_does() {
    let mut t = Conversation::established();
    t.app_shuts_down(at_ms(0));
    t.forget_output();
    t.peer_sends(at_ms(5), seg().seq(1).ack(2));
    t.expect_quiet_until(at_ms(3_600_000));
    assert_eq!(t.state(), State::FinWait2);
    // Closing it then starts the limit.
    t.app_closes(at_ms(3_600_000));
    t.advance(at_ms(3_660_001));
    t.expect_closed(CloseReason::TimedOut, false);
}

#[test]
fn an_orphan_gives_up_retransmitting_earlier() {
    let mut t = Conversation::established();
    t.app_sends(at_ms(0), 100);
    t.app_closes(at_ms(0));
    // Eight retries of 200 ms doubled: 102.2 s.
    t.advance(at_ms(0) + Duration::from_secs(140));
    t.expect_closed(CloseReason::TimedOut, false);
}

#[test]
fn abort_sends_one_reset_and_is_final() {
    let mut t = Conversation::established();
    t.app_sends(at_ms(0), 100);
    t.forget_output();
    t.app_aborts(at_ms(1));
    t.expect(at_ms(1), seg().seq(101).rst());
    t.expect_closed(CloseReason::Aborted, false);
    t.app_aborts(at_ms(2));
    t.expect_quiet_until(at_ms(100_000));
    let d = t.peer_sends(at_ms(100_000), seg().seq(1).len(10));
    assert_eq!(d, Disposition::Drop(DropReason::TcpNoSocket));
    t.expect_quiet();
}

#[test]
fn closing_before_the_handshake_was_complete_sends_fin_at_once() {
    let mut t = Conversation::established();
    t.forget_output();
    let mut world = common::World::new(2);
    let mut opening = common::opening(1, 2);
    opening.close_requested = true;
    let conn = common::connect(&mut world, at_ms(0), &opening);
    assert_eq!(conn.state(), State::FinWait1);
    assert!(conn.wants_transmit(&world.cx(at_ms(0))));
}

#[test]
fn the_gauge_of_established_connections_returns() {
    let mut t = Conversation::established();
    assert_eq!(t.world.counters.curr_estab, 1);
    t.peer_sends(at_ms(0), seg().seq(1).fin());
    assert_eq!(t.world.counters.curr_estab, 1);
    t.app_shuts_down(at_ms(1));
    assert_eq!(t.world.counters.curr_estab, 0);
    t.peer_sends(at_ms(2), seg().seq(2).ack(2));
    assert_eq!(t.world.counters.curr_estab, 0);
    assert_eq!(t.world.counters.estab_resets, 0);
}

/// `tcp_fin_timeout` also for a connection that had keep-alive.
#[test]
fn keepalive_does_not_prolong_the_life_of_an_orphan() {
    let mut t = Conversation::with(|o, _| o.options.keepalive = true);
    t.app_closes(at_ms(0));
    t.forget_output();
    t.peer_sends(at_ms(5), seg().seq(1).ack(2));
    assert_eq!(t.state(), State::FinWait2);
    t.advance(at_ms(60_006));
    t.expect_closed(CloseReason::TimedOut, false);
}

/// `TCP_LINGER2`.
#[test]
fn an_orphan_in_fin_wait_2_may_have_a_limit_of_its_own() {
    for (asked, got) in [(0, 0), (5, 5), (120, 120), (1000, 120)] {
        let mut t = Conversation::with(|o, _| o.options.fin_timeout_sec = Some(asked));
        t.app_closes(at_ms(0));
        t.peer_sends(at_ms(5), seg().seq(1).ack(2));
        t.forget_output();
        if got > 0 {
            t.expect_quiet_until(at_ms(1000 * got));
            assert_eq!(t.state(), State::FinWait2, "{asked}");
        }
        t.advance(at_ms(1000 * got + 10));
        t.expect_closed(CloseReason::TimedOut, false);
    }
}

/// `SO_LINGER` with zero.
#[test]
fn lingering_for_no_time_is_a_reset() {
    let mut t = Conversation::with(|o, _| o.options.linger_sec = Some(0));
    t.app_sends(at_ms(0), 100);
    t.forget_output();
    t.app_closes(at_ms(1));
    t.expect(at_ms(1), seg().seq(101).rst().kind(PlanKind::Reset));
    t.expect_closed(CloseReason::Aborted, false);
    t.expect_quiet_until(at_ms(100_000));
    // Half a close is none: the rest is still to be received.
    let mut t = Conversation::with(|o, _| o.options.linger_sec = Some(0));
    t.app_shuts_down(at_ms(0));
    t.expect(at_ms(0), seg().seq(1).fin());
    t.peer_sends(at_ms(5), seg().seq(1).ack(2));
    t.app_closes(at_ms(9));
    t.expect(at_ms(9), seg().seq(2).rst());
    t.expect_closed(CloseReason::Aborted, false);
}

/// `SO_LINGER` with a time.
#[test]
fn what_is_unacknowledged_when_the_time_to_linger_is_over_is_given_up() {
    // Nothing is acknowledged.
    let mut t = Conversation::with(|o, _| o.options.linger_sec = Some(3));
    t.app_sends(at_ms(0), 3000);
    t.app_closes(at_ms(100));
    t.advance(at_ms(3099));
    assert_eq!(t.state(), State::FinWait1);
    t.forget_output();
    t.expect(at_ms(3100), seg().seq(3002).rst());
    t.expect_closed(CloseReason::TimedOut, false);
    assert_eq!(t.world.counters.abort_on_linger, 1);
    // A closed window does not prolong it.
    let mut t = Conversation::with(|o, _| o.options.linger_sec = Some(3));
    t.peer_sends(at_ms(0), seg().seq(1).ack(1).wnd(0));
    t.app_sends(at_ms(0), 3000);
    t.app_closes(at_ms(0));
    t.advance(at_ms(2999));
    t.forget_output();
    t.expect(at_ms(3000), seg().seq(1).rst());
    t.expect_closed(CloseReason::TimedOut, false);
    // All is acknowledged in time: FIN-WAIT-2 has its own limit.
    let mut t = Conversation::with(|o, _| o.options.linger_sec = Some(3));
    t.app_sends(at_ms(0), 1000);
    t.app_closes(at_ms(0));
    t.peer_sends(at_ms(50), seg().seq(1).ack(1002));
    t.forget_output();
    t.expect_quiet_until(at_ms(60_049));
    assert_eq!(t.state(), State::FinWait2);
    t.advance(at_ms(60_051));
    t.expect_closed(CloseReason::TimedOut, false);
    // The peer closed first, and does not acknowledge our FIN.
    let mut t = Conversation::with(|o, _| o.options.linger_sec = Some(1));
    t.peer_sends(at_ms(0), seg().seq(1).fin());
    t.app_closes(at_ms(10));
    assert_eq!(t.state(), State::LastAck);
    t.advance(at_ms(1009));
    t.forget_output();
    t.expect(at_ms(1010), seg().seq(2).rst());
    t.expect_closed(CloseReason::TimedOut, false);
}

/// RFC 9293 section 3.6: half close, both orders, with data behind the first FIN.
#[test]
fn data_go_on_in_the_other_direction_after_either_fin() {
    // We close first, the peer goes on sending and is acknowledged, then it closes.
    let mut t = Conversation::established();
    t.app_sends(at_ms(0), 10);
    t.app_shuts_down(at_ms(0));
    t.forget_output();
    t.peer_sends(at_ms(10), seg().seq(1).ack(12));
    for i in 0..20 {
        let at = 20 + 10 * i as u64;
        let d = t.peer_sends(at_ms(at), seg().seq(1 + 1460 * i).len(1460));
        assert!(matches!(d, Disposition::Keep(k) if k.in_order), "{d:?}");
        t.app_reads(at_ms(at), 1460);
    }
    t.advance(at_ms(500));
    let last = t.take_trace().pop().expect("acknowledgements");
    assert!(last.contains("seq 12 ack 29201"), "{last}");
    t.peer_sends(at_ms(600), seg().seq(29_201).fin());
    t.expect(at_ms(600), seg().seq(12).ack(29_202));
    t.expect_closed(CloseReason::Finished, true);
    // The peer closes first, we go on sending with loss, then we close.
    let mut t = Conversation::established();
    t.peer_sends(at_ms(0), seg().seq(1).fin());
    t.expect(at_ms(0), seg().seq(1).ack(2));
    t.app_sends(at_ms(10), 5000);
    t.app_shuts_down(at_ms(10));
    assert_eq!(t.state(), State::LastAck);
    t.forget_output();
    // The first segment was lost.
    t.peer_sends(at_ms(20), seg().seq(2).ack(1).sack(&[(1461, 5002)]));
    t.expect(at_ms(20), seg().seq(1).len(1460).ack(2));
    t.peer_sends(at_ms(30), seg().seq(2).ack(5002));
    t.expect_closed(CloseReason::Finished, false);
}

/// RFC 9293 section 3.6, case 3: both FINs cross, and each of the four segments gets lost once.
#[test]
fn simultaneous_close_survives_the_loss_of_each_segment() {
    // Our FIN is lost: theirs comes first, then ours again.
    let mut t = Conversation::established();
    t.app_shuts_down(at_ms(0));
    t.expect(at_ms(0), seg().seq(1).ack(1).fin());
    t.peer_sends(at_ms(5), seg().seq(1).ack(1).fin());
    t.expect(at_ms(5), seg().seq(2).ack(2));
    assert_eq!(t.state(), State::Closing);
    // The peer, which has not seen our FIN, repeats its own when our ACK is lost too.
    t.peer_sends(at_ms(400), seg().seq(1).ack(1).fin());
    t.expect(at_ms(400), seg().seq(2).ack(2));
    t.expect(at_ms(1000), seg().seq(1).ack(2).fin().kind(PlanKind::Retransmit));
    t.peer_sends(at_ms(1005), seg().seq(2).ack(2));
    t.expect_closed(CloseReason::Finished, true);
    // Their FIN is lost, our FIN is acknowledged.
    let mut t = Conversation::established();
    t.app_shuts_down(at_ms(0));
    t.expect(at_ms(0), seg().seq(1).fin());
    t.peer_sends(at_ms(5), seg().seq(2).ack(2));
    assert_eq!(t.state(), State::FinWait2, "an acknowledgement beyond a hole counts");
    t.peer_sends(at_ms(200), seg().seq(1).ack(2).fin());
    t.expect_closed(CloseReason::Finished, true);
}

#[test]
fn last_ack_repeats_its_fin_until_the_limit_for_orphans() {
    let mut t = Conversation::established();
    t.peer_sends(at_ms(0), seg().seq(1).fin());
    t.expect(at_ms(0), seg().seq(1).ack(2));
    t.app_closes(at_ms(10));
    t.expect(at_ms(10), seg().seq(1).ack(2).fin());
    for ms in [1010, 3010, 7010, 15_010, 31_010, 63_010] {
        t.expect(at_ms(ms), seg().seq(1).ack(2).fin().kind(PlanKind::Retransmit));
        // The peer's FIN again, as its acknowledgement was lost: answered at once.
        t.peer_sends(at_ms(ms + 1), seg().seq(1).ack(1).fin());
        t.expect(at_ms(ms + 1), seg().seq(2).ack(2));
    }
    t.advance(at_ms(130_000));
    t.expect_closed(CloseReason::TimedOut, false);
}
