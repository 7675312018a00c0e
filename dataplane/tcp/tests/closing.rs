//! Every order in which a connection can end.

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
    t.expect(at_ms(6), seg().seq(2).rst());
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
