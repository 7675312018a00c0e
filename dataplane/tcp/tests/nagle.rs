//! Small segments, RFC 9293 section 3.7.4: Nagle in Minshall's form, MSG_MORE, NODELAY.

mod common;

use common::at_ms;
use common::conversation::{Conversation, seg};
use tcp::Quiet;

#[test]
fn a_small_segment_waits_for_another_small_one() {
    let mut t = Conversation::established();
    t.app_sends(at_ms(0), 100);
    t.expect(at_ms(0), seg().seq(1).len(100).psh(true));
    t.app_sends(at_ms(1), 100);
    t.app_sends(at_ms(2), 100);
    t.expect_quiet();
    assert_eq!(t.conn.quiet(), Quiet::Nagle);
    t.peer_sends(at_ms(50), seg().seq(1).ack(101));
    t.expect(at_ms(50), seg().seq(101).len(200).psh(true));
    t.expect_quiet();
}

#[test]
fn a_small_segment_does_not_wait_for_full_ones() {
    let mut t = Conversation::established();
    t.app_sends(at_ms(0), 2920);
    t.expect(at_ms(0), seg().seq(1).len(1460));
    t.expect(at_ms(0), seg().seq(1461).len(1460));
    t.app_sends(at_ms(1), 100);
    t.expect(at_ms(1), seg().seq(2921).len(100));
}

#[test]
fn full_segments_do_not_wait() {
    let mut t = Conversation::established();
    t.app_sends(at_ms(0), 100);
    t.app_sends(at_ms(1), 1500);
    t.expect(at_ms(0), seg().seq(1).len(100));
    t.expect(at_ms(1), seg().seq(101).len(1460));
    t.expect_quiet();
}

#[test]
fn nodelay_waits_for_nothing() {
    let mut t = Conversation::with(|o, _| o.options.nodelay = true);
    for i in 0..5 {
        t.app_sends(at_ms(i), 10);
        t.expect(at_ms(i), seg().seq(1 + 10 * i as i64).len(10).psh(true));
    }
}

#[test]
fn setting_nodelay_releases_what_waits() {
    let mut t = Conversation::established();
    t.app_sends(at_ms(0), 10);
    t.app_sends(at_ms(0), 10);
    t.expect(at_ms(0), seg().seq(1).len(10));
    t.expect_quiet();
    let now = t.now;
    let options = tcp::ConnOptions { nodelay: true, ..tcp::ConnOptions::default() };
    t.conn.set_options(&mut t.world.cx(now), &options);
    assert!(t.conn.wants_transmit(&t.world.cx(now)));
}

#[test]
fn fin_takes_the_small_segment_along() {
    let mut t = Conversation::established();
    t.app_sends(at_ms(0), 10);
    t.expect(at_ms(0), seg().seq(1).len(10));
    t.app_sends(at_ms(1), 10);
    t.expect_quiet();
    t.app_shuts_down(at_ms(2));
    t.expect(at_ms(2), seg().seq(11).len(10).fin());
}

#[test]
fn more_to_come_holds_a_partial_segment_but_not_for_ever() {
    let mut t = Conversation::established();
    t.app_sends_more(at_ms(0), 100, true);
    t.expect_quiet();
    t.app_sends_more(at_ms(1), 1400, true);
    t.expect(at_ms(1), seg().seq(1).len(1460));
    t.expect_quiet();
    t.peer_sends(at_ms(10), seg().seq(1).ack(1461));
    t.expect_quiet();
    t.app_sends_more(at_ms(20), 60, false);
    t.expect(at_ms(20), seg().seq(1461).len(100).psh(true));
    t.peer_sends(at_ms(30), seg().seq(1).ack(1561));
    // Nothing follows although it was announced: the timer releases it.
    t.app_sends_more(at_ms(100), 7, true);
    t.expect_quiet_until(at_ms(299));
    t.advance(at_ms(400));
    assert_eq!(t.take_trace().len(), 1);
}
