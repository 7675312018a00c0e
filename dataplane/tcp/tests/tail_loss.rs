//! Tail loss probes, RFC 8985 section 7: the silence after the last segment is not waited out.

mod common;

use std::time::Duration;

use common::conversation::{Conversation, seg};
use common::{at_ms, at_us};
use tcp::PlanKind;

const RTT: Duration = Duration::from_millis(10);

/// `segs` segments of 1460 are all that the application sends, at 0 ms, on a path of 10 ms.
fn in_flight(segs: i64) -> Conversation {
    let mut t = Conversation::with(|o, _| o.rtt = Some(RTT));
    t.app_sends(at_ms(0), 1460 * u32::try_from(segs).unwrap());
    for i in 0..segs {
        t.expect(at_ms(0), seg().seq(at(i)).len(1460));
    }
    t.expect_quiet();
    t
}

/// The number of the first byte of segment `i`.
const fn at(i: i64) -> i64 {
    1 + 1460 * i
}

#[test]
fn a_lost_acknowledgement_costs_two_round_trips_and_no_window() {
    let mut t = in_flight(5);
    t.expect_quiet_until(at_us(21_900));
    t.expect(at_ms(22), seg().seq(at(4)).len(1460).kind(PlanKind::Retransmit));
    t.expect_quiet();
    // The peer had everything: it acknowledges all, and reports the duplicate.
    t.peer_sends(at_ms(32), seg().seq(1).ack(at(5)).sack(&[(at(4), at(5))]));
    let cwnd = t.info().snd_cwnd;
    t.app_sends(at_ms(33), 1460);
    t.expect(at_ms(33), seg().seq(at(5)).len(1460));
    t.peer_sends(at_ms(43), seg().seq(1).ack(at(6)));
    assert!(t.info().snd_cwnd >= cwnd);
    let c = &t.world.counters;
    assert_eq!((c.loss_probes, c.loss_probe_recovery, c.timeouts, c.fast_retrans), (1, 0, 0, 0));
}

#[test]
fn a_loss_that_the_probe_repairs_counts_as_congestion_once() {
    let mut t = in_flight(5);
    t.expect(at_ms(22), seg().seq(at(4)).len(1460).kind(PlanKind::Retransmit));
    // No duplicate is reported: the last segment and the acknowledgement before it were lost.
    t.peer_sends(at_ms(32), seg().seq(1).ack(at(5)));
    assert_eq!(t.world.counters.loss_probe_recovery, 0);
    t.app_sends(at_ms(33), 1460);
    t.expect(at_ms(33), seg().seq(at(5)).len(1460));
    t.peer_sends(at_ms(43), seg().seq(1).ack(at(6)));
    assert_eq!(t.world.counters.loss_probe_recovery, 1);
    assert_ne!(t.info().snd_ssthresh, u32::MAX);
    assert_eq!(t.world.counters.timeouts, 0);
}

#[test]
fn new_data_make_the_better_probe_even_beyond_the_congestion_window() {
    let mut t = Conversation::with(|o, _| o.rtt = Some(RTT));
    t.app_sends(at_ms(0), 14_600 + 2920);
    for i in 0..10 {
        t.expect(at_ms(0), seg().seq(at(i)).len(1460));
    }
    t.expect_quiet_until(at_us(21_900));
    t.expect(at_ms(22), seg().seq(at(10)).len(1460).kind(PlanKind::Data));
    t.expect_quiet();
    // It is answered by a selective acknowledgement if all before it was lost, by everything if not.
    t.peer_sends(at_ms(32), seg().seq(1).ack(at(11)));
    t.expect(at_ms(32), seg().seq(at(11)).len(1460));
    let c = &t.world.counters;
    assert_eq!((c.loss_probes, c.loss_probe_recovery, c.timeouts), (1, 0, 0));
}

#[test]
fn one_probe_then_the_timeout() {
    let mut t = in_flight(5);
    t.expect(at_ms(22), seg().seq(at(4)).len(1460).kind(PlanKind::Retransmit));
    // The answer to the probe has as much time as that to the data had.
    t.expect_quiet_until(at_ms(231));
    assert_eq!(t.world.counters.loss_probes, 1);
    t.advance(at_ms(235));
    t.expect(at_ms(232), seg().seq(1).len(1460).kind(PlanKind::Retransmit));
    assert_eq!(t.world.counters.timeouts, 1);
    t.forget_output();
    t.advance(at_ms(600));
    assert_eq!(t.world.counters.loss_probes, 1, "no probes while the timer backs off");
}

#[test]
fn there_is_none_without_sack_without_a_round_trip_or_switched_off() {
    let quiet = |change: fn(&mut tcp::Opening, &mut tcp::TcpParams)| {
        let mut t = Conversation::with(|o, p| {
            o.rtt = Some(RTT);
            change(o, p);
        });
        t.app_sends(at_ms(0), 7300);
        t.forget_output();
        t.advance(at_ms(150));
        assert_eq!(t.outbox_len(), 0);
        assert_eq!(t.world.counters.loss_probes, 0);
    };
    quiet(|o, _| o.sack = false);
    quiet(|o, _| o.rtt = None);
    quiet(|_, p| p.early_retrans = 0);
    // A lone segment may wait for the peer's delayed acknowledgement: the timeout is nearer.
    let mut t = in_flight(1);
    t.expect_quiet_until(at_ms(200));
    assert_eq!(t.world.counters.loss_probes, 0);
}

#[test]
fn progress_puts_the_probe_off() {
    let mut t = in_flight(10);
    for i in 1..=8 {
        t.peer_sends(at_ms(10 * u64::try_from(i).unwrap()), seg().seq(1).ack(at(i)));
    }
    t.expect_quiet();
    assert_eq!(t.world.counters.loss_probes, 0);
    t.advance(at_ms(200));
    assert_eq!(t.world.counters.loss_probes, 1);
}
