//! ECN and DCTCP where a script cannot look: several runs in one burst, a device that refuses, timeouts.

mod common;

use base::Ecn;
use common::conversation::{Conversation, seg};
use common::{at_ms, at_us};
use tcp::params::CongestionAlgorithm;
use tcp::{CcInfo, PlanKind};

/// Established with ECN at 0 ms.
fn classic() -> Conversation {
    Conversation::with(|o, _| o.ecn = true)
}

fn dctcp() -> Conversation {
    Conversation::with(|o, p| {
        o.ecn = true;
        p.congestion = CongestionAlgorithm::Dctcp;
    })
}

/// Takes a hundred segments, so that acknowledgements are not quick any more and the window of the peer's data
/// is not the limit.
fn settle(t: &mut Conversation) -> i64 {
    let mut seq = 1;
    for i in 0..40 {
        t.peer_sends(at_ms(10 + i), seg().seq(seq).len(2920).segs(2).ecn(Ecn::Ect0));
        t.app_reads(at_ms(10 + i), 2920);
        seq += 2920;
    }
    t.forget_output();
    seq
}

/// RFC 8257 section 3.2: each run that differs from the one before has an acknowledgement of its own, also when
/// they come in one burst.
#[test]
fn a_burst_of_several_kinds_has_an_acknowledgement_for_each() {
    let mut t = dctcp();
    let seq = settle(&mut t);
    let at = at_ms(60);
    let runs = [(3, Ecn::Ect0), (1, Ecn::Ce), (2, Ecn::Ect0), (4, Ecn::Ce)];
    let mut next = seq;
    for (segs, ecn) in runs {
        let len = 1460 * u32::from(segs);
        t.peer_sends_in_burst(at, seg().seq(next).len(len).segs(segs).ecn(ecn));
        next += i64::from(len);
    }
    // The burst ends with the last of them.
    t.peer_sends(at, seg().seq(next).len(1460).ecn(Ecn::Ce));
    let after = |segs: i64| seq + 1460 * segs;
    t.expect(at, seg().ack(after(3)).kind(PlanKind::Ack));
    t.expect(at, seg().ece().ack(after(4)).kind(PlanKind::Ack));
    t.expect(at, seg().ack(after(6)).kind(PlanKind::Ack));
    t.expect(at, seg().ece().ack(after(11)).kind(PlanKind::Ack));
    t.expect_quiet();
}

/// RFC 9293 section 3.8.6: the window of such an acknowledgement takes nothing back of what was offered, 65535
/// bytes from 1 on here, but for what its unit of 1024 rounds off.
#[test]
fn an_acknowledgement_of_an_earlier_state_leaves_the_edge_where_it_is() {
    let mut t = dctcp();
    // Buffers are short: the edge must not move on either.
    t.world.rcv_room = 0;
    t.peer_sends_in_burst(at_ms(10), seg().seq(1).len(1000).ecn(Ecn::Ect0));
    t.peer_sends(at_ms(10), seg().seq(1001).len(1000).ecn(Ecn::Ce));
    t.expect(at_ms(10), seg().ack(1001).wnd(63));
    t.expect(at_ms(10), seg().ece().ack(2001));
}

/// What `TCP_CC_INFO` says: the estimate, the echo, and the window of data so far.
#[test]
fn dctcp_tells_its_state() {
    let mut t = dctcp();
    t.app_sends(at_ms(0), 1460 * 10);
    t.peer_sends(at_ms(1), seg().seq(1).len(1460).ecn(Ecn::Ce));
    let told = |t: &mut Conversation| match t.info().cc {
        CcInfo::Dctcp { ce_state, alpha, ab_ecn, ab_tot } => (ce_state, alpha, ab_ecn, ab_tot),
        CcInfo::Nothing => panic!("nothing"),
    };
    assert_eq!(told(&mut t), (true, 1024, 0, 0));
    t.peer_sends(at_ms(10), seg().seq(1461).ack(1 + 2920));
    t.peer_sends(at_ms(10), seg().seq(1461).ack(1 + 5840).ece());
    assert_eq!(told(&mut t), (true, 1024, 2920, 5840));
    assert_eq!(classic().info().cc, CcInfo::Nothing);
}

/// More changes than are remembered: what is said in the end is right, and nothing is said twice.
#[test]
fn a_burst_of_many_kinds_is_bounded() {
    let mut t = dctcp();
    let seq = settle(&mut t);
    let at = at_ms(60);
    for i in 0..31 {
        let ecn = if i % 2 == 0 { Ecn::Ce } else { Ecn::Ect0 };
        t.peer_sends_in_burst(at, seg().seq(seq + 1460 * i).len(1460).ecn(ecn));
    }
    t.peer_sends(at, seg().seq(seq + 1460 * 31).len(1460).ecn(Ecn::Ce));
    let count = t.outbox_len();
    assert!((2..=9).contains(&count), "{count} acknowledgements");
    for i in 1..count as i64 {
        let expected = seg().ack(seq + 1460 * i);
        t.expect(at, if i % 2 == 1 { expected.ece() } else { expected });
    }
    t.expect(at, seg().ece().ack(seq + 1460 * 32));
    t.expect_quiet();
}

/// What the device refuses is said later, in the same order.
#[test]
fn an_acknowledgement_of_an_earlier_state_survives_a_full_device() {
    let mut t = dctcp();
    let seq = settle(&mut t);
    t.device = Some(0);
    t.peer_sends(at_ms(60), seg().seq(seq).len(1460).ecn(Ecn::Ect0));
    t.peer_sends(at_ms(61), seg().seq(seq + 1460).len(1460).ecn(Ecn::Ce));
    t.expect_quiet();
    t.device = Some(1);
    t.peer_sends(at_ms(62), seg().seq(seq + 2920).len(1460).ecn(Ecn::Ce));
    t.expect(at_ms(62), seg().ack(seq + 1460));
    t.expect_quiet();
    t.device = None;
    t.peer_sends(at_ms(63), seg().seq(seq + 4380).len(1460).ecn(Ecn::Ce));
    t.expect(at_ms(63), seg().ece().ack(seq + 5840));
    t.expect_quiet();
}

/// RFC 3168 section 6.1.2: the answer goes out with what the device takes.
#[test]
fn the_answer_waits_for_a_device_that_is_full() {
    let mut t = classic();
    t.app_sends(at_ms(0), 1460 * 20);
    t.forget_output();
    t.device = Some(0);
    t.peer_sends(at_ms(10), seg().seq(1).ack(1 + 14_600).ece());
    t.expect_quiet();
    t.device = None;
    t.peer_sends(at_ms(11), seg().seq(1).ack(1 + 14_600).ece());
    t.expect(at_ms(11), seg().cwr().seq(1 + 14_600).len(1460).ecn(Ecn::Ect0));
    t.expect(at_ms(11), seg().seq(1 + 16_060).len(1460).ecn(Ecn::Ect0));
}

/// A timeout in the window of data that a mark has reduced is no second congestion event, but the window
/// collapses all the same.
#[test]
fn a_timeout_after_a_mark_reduces_the_threshold_once() {
    let mut t = classic();
    t.world.params.early_retrans = 0;
    t.app_sends(at_ms(0), 1460 * 10);
    t.forget_output();
    t.peer_sends(at_ms(10), seg().seq(1).ack(1461).ece());
    assert_eq!((t.info().ca_state, t.info().snd_ssthresh), (2, 7));
    t.forget_output();
    t.advance(at_ms(1500));
    let info = t.info();
    assert_eq!((info.ca_state, info.snd_ssthresh), (4, 7), "{info:?}");
    assert!(info.rto_count > 0);
    t.expect(at_us(210_000), seg().seq(1461).len(1460).ecn(Ecn::NotEct).kind(PlanKind::Retransmit));
}

/// Without SACK: duplicates, then a mark; one reduction.
#[test]
fn marks_and_duplicates_without_sack_are_one_event() {
    let mut t = Conversation::with(|o, _| {
        o.ecn = true;
        o.sack = false;
    });
    t.app_sends(at_ms(0), 1460 * 10);
    t.forget_output();
    t.peer_sends(at_ms(10), seg().seq(1).ack(1461).ece());
    assert_eq!((t.info().ca_state, t.info().snd_ssthresh), (2, 7));
    for i in 0..3 {
        t.peer_sends(at_ms(11 + i), seg().seq(1).ack(1461).ece());
    }
    let info = t.info();
    assert_eq!((info.ca_state, info.snd_ssthresh, info.retrans), (3, 7, 1), "{info:?}");
    assert_eq!(t.world.counters.ecn_reductions, 1);
    t.peer_sends(at_ms(20), seg().seq(1).ack(1 + 14_600).ece());
    assert_eq!(t.info().snd_ssthresh, 7, "at exactly the end the echo is old");
}

/// RFC 3168 section 6.1: without the handshake none of it means anything.
#[test]
fn without_ecn_echo_and_marks_are_nothing() {
    let mut t = Conversation::established();
    t.app_sends(at_ms(0), 1460 * 10);
    for _ in 0..10 {
        t.expect(at_ms(0), seg().ecn(Ecn::NotEct));
    }
    t.peer_sends(at_ms(10), seg().seq(1).ack(1461).ece());
    t.peer_sends(at_ms(10), seg().seq(1).len(100).ecn(Ecn::Ce).cwr());
    t.expect(at_ms(10), seg().ack(101));
    assert_eq!(t.info().ca_state, 0);
    assert!(!t.info().ecn && !t.info().ecn_seen);
}
