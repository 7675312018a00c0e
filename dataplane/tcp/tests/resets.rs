//! Resets, SYNs and acknowledgements that a stranger could have sent: RFC 5961 section 3,
//! RFC 5961 section 4, RFC 5961 section 5, RFC 5961 section 7; RFC 9293 section 3.5.2.

mod common;

use base::{DropReason, Ecn};
use common::at_ms;
use common::conversation::{Conversation, seg};
use tcp::{CloseReason, Disposition, SeqNum, State, reset_for};

const RIGHT_EDGE: i64 = 65_536;

#[test]
fn resets_by_sequence_number() {
    let rows: &[(&str, i64, Option<DropReason>)] = &[
        ("exact", 1, None),
        ("one before", 0, Some(DropReason::TcpRstIgnored)),
        ("one after", 2, Some(DropReason::TcpRstChallenged)),
        ("in the window", 30_000, Some(DropReason::TcpRstChallenged)),
        ("last in the window", RIGHT_EDGE - 1, Some(DropReason::TcpRstChallenged)),
        ("right edge", RIGHT_EDGE, Some(DropReason::TcpRstIgnored)),
        ("far left", -1_000_000, Some(DropReason::TcpRstIgnored)),
        ("far right", 1_000_000_000, Some(DropReason::TcpRstIgnored)),
    ];
    for &(name, seq, dropped) in rows {
        let mut t = Conversation::established();
        let d = t.peer_sends(at_ms(10), seg().rst().seq(seq).ack(1));
        match dropped {
            None => {
                assert_eq!(d, Disposition::Done, "{name}");
                t.expect_closed(CloseReason::ResetByPeer, false);
                assert_eq!(t.world.counters.estab_resets, 1, "{name}");
            }
            Some(reason) => {
                assert_eq!(d, Disposition::Drop(reason), "{name}");
                assert_eq!(t.state(), State::Established, "{name}");
                if reason == DropReason::TcpRstChallenged {
                    t.expect(at_ms(10), seg().seq(1).ack(1));
                }
            }
        }
        // A reset is never answered by a reset.
        t.expect_quiet();
    }
}

#[test]
fn a_reset_that_hits_the_edge_of_what_we_reported_counts() {
    let mut t = Conversation::established();
    t.peer_sends(at_ms(0), seg().seq(1001).len(1000));
    t.forget_output();
    t.peer_sends(at_ms(1), seg().rst().seq(2001).ack(1));
    t.expect_closed(CloseReason::ResetByPeer, false);
}

#[test]
fn after_the_peers_fin_its_reset_may_be_one_too_low() {
    let mut t = Conversation::established();
    t.peer_sends(at_ms(0), seg().seq(1).fin());
    t.forget_output();
    t.peer_sends(at_ms(1), seg().rst().seq(1).ack(1));
    t.expect_closed(CloseReason::ResetByPeer, false);
}

#[test]
fn a_reset_in_last_ack_is_an_orderly_end() {
    let mut t = Conversation::established();
    t.peer_sends(at_ms(0), seg().seq(1).fin());
    t.app_shuts_down(at_ms(1));
    t.forget_output();
    t.peer_sends(at_ms(2), seg().rst().seq(2).ack(1));
    t.expect_closed(CloseReason::Finished, false);
}

#[test]
fn syns_are_challenged_wherever_they_are() {
    for (name, seq, ack) in [
        ("in the window", 100, true),
        ("exact", 1, true),
        ("outside", -5000, true),
        ("bare", 0, false),
    ] {
        let mut t = Conversation::established();
        let mut s = seg().syn().seq(seq).ack(1);
        if !ack {
            s = s.no_ack();
        }
        let d = t.peer_sends(at_ms(10), s);
        assert_eq!(d, Disposition::Drop(DropReason::TcpSynChallenged), "{name}");
        t.expect(at_ms(10), seg().seq(1).ack(1).len(0));
        t.expect_quiet();
        assert_eq!(t.world.counters.syn_challenge, 1);
        assert_eq!(t.world.counters.challenge_ack, 1);
    }
}

#[test]
fn challenges_are_limited_per_connection() {
    let mut t = Conversation::established();
    let mut answers = 0;
    for i in 0..10_000 {
        let s = if i % 2 == 0 { seg().syn().seq(100) } else { seg().rst().seq(100) };
        t.peer_sends(at_ms(1000 + i / 10), s.ack(1));
        answers += t.take_trace().len();
    }
    // A second at one per 500 ms.
    assert_eq!(answers, 2);
    assert_eq!(t.world.counters.ack_skipped, 9998);
    assert_eq!(t.state(), State::Established);
}

#[test]
fn challenges_are_limited_per_worker() {
    let mut t = Conversation::with(|_, p| {
        p.challenge_ack_limit = 10;
        p.invalid_ratelimit = std::time::Duration::ZERO;
    });
    for _ in 0..1000 {
        t.peer_sends(at_ms(1), seg().syn().seq(100).ack(1));
    }
    let answers = t.take_trace().len();
    assert!((5..=15).contains(&answers), "{answers}");
}

#[test]
fn acknowledgements_of_what_was_never_sent() {
    let mut t = Conversation::established();
    t.app_sends(at_ms(0), 100);
    t.forget_output();
    let d = t.peer_sends(at_ms(10), seg().seq(1).ack(102).len(50));
    assert_eq!(d, Disposition::Drop(DropReason::TcpAckUnsent));
    t.expect(at_ms(10), seg().seq(101).ack(1));
    assert_eq!(t.info().unacked, 1);
    // Not one after the other for ever.
    t.peer_sends(at_ms(11), seg().seq(1).ack(1_000_000));
    t.expect_quiet();
}

#[test]
fn acknowledgements_that_are_too_old_are_dropped_and_old_ones_used() {
    let mut t = Conversation::established();
    t.app_sends(at_ms(0), 10_000);
    t.peer_sends(at_ms(1), seg().seq(1).ack(10_001));
    t.forget_output();
    // Within what was acknowledged: the payload counts.
    let d = t.peer_sends(at_ms(2), seg().seq(1).ack(5000).len(100));
    assert!(matches!(d, Disposition::Keep(k) if k.len == 100), "{d:?}");
    t.forget_output();
    // From before the beginning: nobody who saw this connection sends that.
    let d = t.peer_sends(at_ms(3), seg().seq(101).ack(-1).len(100));
    assert_eq!(d, Disposition::Drop(DropReason::TcpAckTooOld));
    t.expect(at_ms(3), seg().ack(101));
}

#[test]
fn no_acknowledgement_is_no_segment() {
    let mut t = Conversation::established();
    let d = t.peer_sends(at_ms(1), seg().seq(1).len(100).no_ack());
    assert_eq!(d, Disposition::Drop(DropReason::TcpNoAck));
    t.expect_quiet();
}

#[test]
fn segments_outside_the_window_are_answered() {
    let mut t = Conversation::established();
    let d = t.peer_sends(at_ms(10), seg().seq(RIGHT_EDGE + 1).len(10));
    assert_eq!(d, Disposition::Drop(DropReason::TcpOutOfWindow));
    t.expect(at_ms(10), seg().seq(1).ack(1));
    let d = t.peer_sends(at_ms(11), seg().seq(-100).len(50));
    assert_eq!(d, Disposition::Drop(DropReason::TcpOldData));
    t.expect(at_ms(11), seg().seq(1).ack(1));
    // Without payload at a limited rate, so that two hosts cannot answer each other for ever.
    t.peer_sends(at_ms(12), seg().seq(-100));
    t.expect(at_ms(12), seg().ack(1));
    t.peer_sends(at_ms(13), seg().seq(-100));
    t.expect_quiet();
    t.peer_sends(at_ms(513), seg().seq(-100));
    t.expect(at_ms(513), seg().ack(1));
}

#[test]
fn the_reset_for_a_segment_without_connection() {
    let segment = |flags: base::TcpFlags, len| tcp::Segment {
        seq: SeqNum::new(100),
        ack: SeqNum::new(500),
        flags,
        wnd: 7,
        len,
        seg_size: len,
        segs: 1,
        options: tcp::SegOptions::default(),
        ecn: Ecn::NotEct,
        arrival: at_ms(0),
    };
    use base::TcpFlags as F;
    assert_eq!(reset_for(&segment(F::RST | F::ACK, 0)), None);
    let plan = reset_for(&segment(F::ACK, 10)).expect("a reset");
    assert_eq!((plan.seq.get(), plan.flags), (500, F::RST), "SEQ is SEG.ACK, no ACK");
    let plan = reset_for(&segment(F::SYN, 0)).expect("a reset");
    assert_eq!((plan.seq.get(), plan.ack.get(), plan.flags), (0, 101, F::RST | F::ACK));
    let plan = reset_for(&segment(F::SYN | F::FIN, 10)).expect("a reset");
    assert_eq!(plan.ack.get(), 112);
}
