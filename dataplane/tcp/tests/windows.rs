//! Windows both ways: zero, silly, shrunk, probed, updated: RFC 9293 section 3.8.6, RFC 9293
//! section 3.8.6.1, RFC 9293 section 3.8.6.2, RFC 7323 section 2.4.

mod common;

use base::DropReason;
use common::at_ms;
use common::conversation::{Conversation, seg};
use tcp::{CloseReason, Disposition, PlanKind, Quiet, State};

#[test]
fn a_closed_window_is_probed_with_back_off_and_reopens() {
    let mut t = Conversation::established();
    t.peer_sends(at_ms(0), seg().seq(1).ack(1).wnd(0));
    t.app_sends(at_ms(10), 5000);
    t.expect_quiet();
    assert_eq!(t.conn.quiet(), Quiet::PeerWindow);
    // No round trip known: the initial timeout, doubled each time.
    for at in [1010, 3010, 7010] {
        t.expect_quiet_until(at_ms(at - 1));
        t.expect(at_ms(at), seg().seq(0).len(0).kind(PlanKind::Probe));
        t.peer_sends(at_ms(at), seg().seq(1).ack(1).wnd(0));
        t.expect_quiet();
    }
    assert_eq!(t.world.counters.win_probe, 3);
    t.peer_sends(at_ms(9000), seg().seq(1).ack(1).wnd(512));
    for (seq, len) in [(1, 1460), (1461, 1460), (2921, 1460), (4381, 620)] {
        t.expect(at_ms(9000), seg().seq(seq).len(len));
    }
    t.expect_quiet();
}

#[test]
fn a_peer_that_answers_probes_keeps_the_connection_for_ever() {
    let mut t = Conversation::established();
    t.peer_sends(at_ms(0), seg().seq(1).ack(1).wnd(0));
    t.app_sends(at_ms(0), 100);
    let mut at = at_ms(0);
    for _ in 0..60 {
        at = t.conn.next_deadline().expect("a probe to come");
        t.expect(at, seg().seq(0).len(0));
        t.peer_sends(at, seg().seq(1).ack(1).wnd(0));
    }
    assert!(at > at_ms(3_600_000));
    assert_eq!(t.conn.close_reason(), None);
}

#[test]
fn a_peer_that_does_not_answer_probes_is_given_up() {
    let mut t = Conversation::established();
    t.peer_sends(at_ms(0), seg().seq(1).ack(1).wnd(0));
    t.app_sends(at_ms(0), 100);
    t.advance(at_ms(3_600_000));
    t.expect_closed(CloseReason::TimedOut, false);
    assert_eq!(t.outbox_len(), 15, "tcp_retries2 probes");
}

#[test]
fn the_user_timeout_bounds_probing() {
    let mut t = Conversation::with(|o, _| {
        o.options.user_timeout = Some(std::time::Duration::from_secs(5));
    });
    t.peer_sends(at_ms(0), seg().seq(1).ack(1).wnd(0));
    t.app_sends(at_ms(0), 100);
    t.advance(at_ms(6500));
    t.expect_closed(CloseReason::TimedOut, false);
}

#[test]
fn a_silly_window_waits_for_the_override_timer() {
    let mut t = Conversation::established();
    t.peer_sends(at_ms(0), seg().seq(1).len(1));
    t.peer_sends(at_ms(0), seg().seq(2).ack(1).wnd(2));
    t.forget_output();
    t.app_sends(at_ms(10), 5000);
    t.expect_quiet();
    assert_eq!(t.conn.quiet(), Quiet::Sws);
    t.expect(at_ms(1010), seg().seq(1).len(256).kind(PlanKind::Data));
    t.expect_quiet();
}

#[test]
fn whole_segments_only_as_the_window_allows() {
    let mut t = Conversation::established();
    t.peer_sends(at_ms(0), seg().seq(1).len(1));
    t.peer_sends(at_ms(0), seg().seq(2).ack(1).wnd(30));
    t.forget_output();
    t.app_sends(at_ms(10), 10_000);
    // 3840 bytes of window.
    t.expect(at_ms(10), seg().seq(1).len(1460));
    t.expect(at_ms(10), seg().seq(1461).len(1460));
    t.expect_quiet();
}

#[test]
fn a_shrunk_window_stops_new_data_and_keeps_the_head_retransmittable() {
    let mut t = Conversation::established();
    t.app_sends(at_ms(0), 20_000);
    for i in 0..10 {
        t.expect(at_ms(0), seg().seq(1 + 1460 * i).len(1460));
    }
    t.peer_sends(at_ms(100), seg().seq(2).ack(1461).wnd(0));
    t.expect_quiet();
    // Out of order for the peer's window, but valid: the retransmission timer still runs.
    t.expect(at_ms(300), seg().seq(1461).len(1460).kind(PlanKind::Retransmit));
    t.expect_quiet();
    t.peer_sends(at_ms(500), seg().seq(2).ack(14_601).wnd(512));
    t.expect(at_ms(500), seg().seq(14_601).len(1460));
}

#[test]
fn our_window_closes_as_data_wait_and_never_retreats() {
    let mut t = Conversation::with(|_, p| p.moderate_rcvbuf = false);
    let mut seq = 1i64;
    let mut edge = 65_536i64;
    for i in 1..100 {
        let len = 1460.min(edge - seq);
        if len <= 0 {
            break;
        }
        t.peer_sends(at_ms(100 * i), seg().seq(seq).len(len as u32));
        seq += len;
        t.advance(at_ms(100 * i + 90));
        while t.outbox_len() > 0 {
            let line = t.take_trace();
            for l in line {
                let field = |name: &str| -> i64 {
                    let at = l.find(name).expect(name) + name.len();
                    l[at..].split_whitespace().next().expect("value").parse().expect("number")
                };
                let right = field(" ack ") + field(" wnd ") * 1024;
                assert!(right + 1024 > edge, "the edge went back: {l}");
                edge = edge.max(right);
            }
        }
    }
    t.advance(at_ms(19_000));
    t.forget_output();
    assert!(edge <= 65_536 + 1024, "{edge}");
    assert!(t.info().rcv_wnd < 1024);
    assert_eq!(t.world.counters.to_zero_window_adv, 1);
    // A probe is answered, its byte is not taken.
    let d = t.peer_sends(at_ms(20_000), seg().seq(seq).len(1));
    assert_eq!(d, Disposition::Drop(DropReason::TcpOutOfWindow));
    t.expect(at_ms(20_000), seg().ack(seq).wnd(0));
    assert_eq!(t.world.counters.zero_window_drop, 1);
    // Reading little by little says nothing until it is worth it.
    let mut read = 0;
    while t.outbox_len() == 0 {
        t.app_reads(at_ms(21_000), 100);
        read += 100;
        assert!(read < 65_536);
    }
    assert!(read >= 4096, "a silly window was offered after {read} bytes");
    assert_eq!(t.world.counters.from_zero_window_adv, 1);
}

#[test]
fn the_buffer_room_of_the_worker_bounds_the_window() {
    let mut t = Conversation::established();
    t.world.rcv_room = 0;
    t.peer_sends(at_ms(1), seg().seq(1).len(1000));
    // 64535 bytes are still open of what was offered; in whole units that is 64512.
    t.expect(at_ms(1), seg().ack(1001).wnd(63));
    t.app_reads(at_ms(2), 1000);
    t.peer_sends(at_ms(3), seg().seq(1001).len(10_000));
    t.expect(at_ms(3), seg().ack(11_001).wnd(53));
}

#[test]
fn data_beyond_the_window_are_cut_and_their_fin_with_them() {
    let mut t = Conversation::with(|o, _| o.rcv_wnd = 2000);
    let d = t.peer_sends(at_ms(1), seg().seq(1).len(3000).fin());
    let Disposition::Keep(keep) = d else { panic!("{d:?}") };
    assert_eq!((keep.skip, keep.len), (0, 2000));
    t.expect(at_ms(1), seg().ack(2001));
    assert_eq!(t.state(), State::Established);
    assert_eq!(t.world.counters.beyond_window, 1);
}

#[test]
fn a_fin_alone_is_taken_at_a_zero_window() {
    let mut t = Conversation::with(|o, _| o.rcv_wnd = 1000);
    t.world.rcv_room = 0;
    t.peer_sends(at_ms(1), seg().seq(1).len(1000));
    t.expect(at_ms(1), seg().ack(1001).wnd(0));
    t.peer_sends(at_ms(2), seg().seq(1001).fin());
    t.expect(at_ms(2), seg().ack(1002));
    assert_eq!(t.state(), State::CloseWait);
}

#[test]
fn a_fin_waits_for_the_peers_window() {
    let mut t = Conversation::established();
    t.app_sends(at_ms(0), 256);
    t.expect(at_ms(0), seg().seq(1).len(256));
    t.peer_sends(at_ms(1), seg().seq(1).ack(257).wnd(0));
    t.app_shuts_down(at_ms(2));
    t.expect_quiet();
    t.peer_sends(at_ms(3), seg().seq(1).ack(257).wnd(1));
    t.expect(at_ms(3), seg().seq(257).len(0).fin());
}

/// There were no buffers when the handshake offered a window, and there are now: the answer to the peer's
/// probe says so.
#[test]
fn a_window_that_was_closed_by_the_handshake_opens() {
    let mut t = Conversation::with(|o, _| o.rcv_wnd = 0);
    t.peer_sends(at_ms(300), seg().seq(0).ack(1));
    assert!(t.info().rcv_wnd >= 2 * 1460, "{}", t.info().rcv_wnd);
    t.expect(at_ms(300), seg().ack(1));
    t.peer_sends(at_ms(301), seg().seq(1).len(1460));
    t.expect(at_ms(301), seg().ack(1461));
}

#[test]
fn an_old_acknowledgement_does_not_change_the_window() {
    let mut t = Conversation::established();
    t.app_sends(at_ms(0), 2920);
    t.forget_output();
    t.peer_sends(at_ms(1), seg().seq(1).len(100).ack(2921).wnd(100));
    t.peer_sends(at_ms(2), seg().seq(1).ack(1461).wnd(5000));
    assert_eq!(t.info().snd_wnd, 100 << 7);
}

/// RFC 9293 section 3.8.6.1.
#[test]
fn a_peer_that_withdraws_its_window_and_answers_keeps_the_connection() {
    let mut t = Conversation::established();
    t.app_sends(at_ms(0), 1000);
    t.expect(at_ms(0), seg().seq(1).len(1000));
    t.peer_sends(at_ms(100), seg().seq(1).ack(1).wnd(0));
    // Far longer than tcp_retries2 lasts, the head is sent again and refused.
    let mut answered = 0;
    while t.now < at_ms(4_000_000) {
        let at = t.conn.next_deadline().expect("a timer while data are in flight");
        t.advance(at);
        for _ in 0..t.outbox_len() {
            answered += 1;
        }
        t.forget_output();
        t.peer_sends(at, seg().seq(1).ack(1).wnd(0));
        t.forget_output();
    }
    assert_eq!(t.state(), State::Established);
    assert!(answered > 30, "{answered}");
    // Once it is silent, it has twice the longest timeout.
    let silent_since = t.now;
    while t.state() == State::Established {
        t.advance(t.conn.next_deadline().expect("a timer"));
    }
    let waited = t.now.since(silent_since);
    assert!((240..=361).contains(&waited.as_secs()), "{waited:?}");
    t.expect_closed(CloseReason::TimedOut, false);
}
