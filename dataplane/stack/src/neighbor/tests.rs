use super::*;
use std::string::String;
use std::{format, vec};

const REACHABLE: Duration = Duration::from_secs(30);
const SECOND: Duration = Duration::from_secs(1);
const OWN: &str = "10.0.0.1";
const PEER: &str = "10.0.0.2";
const GATEWAY: &str = "10.0.0.254";
const ANSWER: Claim = Claim::Answer { solicited: true, overriding: true };
const GRATUITOUS: Claim = Claim::Answer { solicited: false, overriding: true };

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn nth(i: u32) -> IpAddr {
    IpAddr::V4(core::net::Ipv4Addr::from_bits(0x0a01_0000 + i))
}

fn mac(last: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, last])
}

fn table(limit: u32) -> Neighbors<u32> {
    Neighbors::new(limit, &[ip(OWN), ip("fd00::1")], &[ip(GATEWAY)], REACHABLE)
}

fn at(secs: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(secs)
}

/// All that is to be done, as text.
fn actions(table: &mut Neighbors<u32>, now: Instant) -> Vec<String> {
    core::iter::from_fn(|| table.poll_action(now))
        .map(|action| match action {
            Action::Solicit { to: None, target } => format!("who has {target}"),
            Action::Solicit { to: Some(mac), target } => format!("ask {} for {target}", mac.0[5]),
            Action::Send { next_hop, mac, frame } => {
                format!("send {frame} to {next_hop} at {}", mac.0[5])
            }
            Action::Discard { frame, .. } => format!("discard {frame}"),
            Action::Unreachable { addr } => format!("no {addr}"),
        })
        .collect()
}

fn state(table: &Neighbors<u32>, now: Instant, addr: &str) -> Option<NeighborState> {
    table.iter(now).find(|(a, ..)| *a == ip(addr)).map(|(_, _, state)| state)
}

/// A table in which `PEER` is reachable at mac 2 since `now`.
fn with_peer(now: Instant) -> Neighbors<u32> {
    let mut table = table(16);
    assert_eq!(table.resolve(now, ip(PEER)), Resolved::Wait);
    assert_eq!(actions(&mut table, now), ["who has 10.0.0.2"]);
    assert_eq!(table.learn(now, ip(PEER), mac(2), ANSWER), Learned::Updated);
    assert_eq!(table.resolve(now, ip(PEER)), Resolved::Mac(mac(2)));
    table
}

/// RFC 4861 section 7.2.
#[test]
fn a_frame_waits_for_the_answer_and_leaves() {
    let mut table = table(16);
    assert_eq!(table.resolve(at(1), ip(PEER)), Resolved::Wait);
    assert_eq!(table.park(ip(PEER), 7), Ok(None));
    assert_eq!(table.park(ip(PEER), 8), Ok(None));
    assert_eq!(actions(&mut table, at(1)), ["who has 10.0.0.2"]);
    assert_eq!(table.resolve(at(1), ip(PEER)), Resolved::Wait);
    assert_eq!(actions(&mut table, at(1)), [""; 0]);
    assert_eq!(table.next_deadline(), Some(at(2)));
    assert_eq!(table.learn(at(1), ip(PEER), mac(2), ANSWER), Learned::Updated);
    assert_eq!(table.next_deadline(), Some(Instant::ZERO));
    assert_eq!(actions(&mut table, at(1)), ["send 7 to 10.0.0.2 at 2", "send 8 to 10.0.0.2 at 2"]);
    assert_eq!((table.parked(), table.next_deadline()), (0, None));
    assert_eq!(table.park(ip(PEER), 9), Err(9), "does not wait any more");
}

#[test]
fn silence_is_asked_three_times_and_then_hands_the_frames_back() {
    let mut table = table(16);
    table.resolve(at(1), ip(PEER));
    table.park(ip(PEER), 7).unwrap();
    for secs in 1..4 {
        assert_eq!(actions(&mut table, at(secs)), ["who has 10.0.0.2"], "{secs}");
        assert_eq!(table.next_deadline(), Some(at(secs + 1)));
    }
    assert_eq!(actions(&mut table, at(4)), ["discard 7", "no 10.0.0.2"]);
    assert_eq!((table.len(), table.incomplete, table.next_deadline()), (0, 0, None));
    assert_eq!(table.resolve(at(5), ip(PEER)), Resolved::Wait);
}

#[test]
fn the_oldest_frame_gives_way_and_all_frames_have_a_bound() {
    let mut table = table(1024);
    table.resolve(at(1), ip(PEER));
    for frame in 0..PARKED_PER_NEIGHBOR {
        assert_eq!(table.park(ip(PEER), frame), Ok(None));
    }
    assert_eq!(table.park(ip(PEER), 100), Ok(Some(0)));
    for i in 0..200 {
        table.resolve(at(1), nth(i));
        for frame in 0..PARKED_PER_NEIGHBOR {
            let full = table.parked() == PARKED_MAX;
            assert_eq!(table.park(nth(i), frame).is_err(), full);
        }
    }
    assert_eq!(table.parked(), PARKED_MAX);
}

/// RFC 4861 section 7.3.
#[test]
fn use_of_a_stale_entry_leads_to_a_unicast_probe() {
    let mut table = with_peer(at(0));
    let stale = at(0) + REACHABLE;
    assert_eq!(state(&table, stale, PEER), Some(NeighborState::Stale));
    assert_eq!(table.next_deadline(), None, "an unused entry needs no timer");
    assert_eq!(table.resolve(stale, ip(PEER)), Resolved::Mac(mac(2)));
    assert_eq!(state(&table, stale, PEER), Some(NeighborState::Delay));
    let probe = stale + DELAY_FIRST_PROBE;
    assert_eq!(actions(&mut table, probe), ["ask 2 for 10.0.0.2"]);
    assert_eq!(state(&table, probe, PEER), Some(NeighborState::Probe));
    assert_eq!(table.learn(probe, ip(PEER), mac(2), ANSWER), Learned::Confirmed);
    assert_eq!(state(&table, probe, PEER), Some(NeighborState::Reachable));
    assert_eq!(table.next_deadline(), None);
}

/// RFC 4861 section 7.3.
#[test]
fn progress_of_the_transport_saves_the_probe() {
    let mut table = with_peer(at(0));
    table.resolve(at(31), ip(PEER));
    table.confirm(at(32), ip(PEER));
    assert_eq!(state(&table, at(32), PEER), Some(NeighborState::Reachable));
    assert_eq!(actions(&mut table, at(60)), [""; 0]);
    table.confirm(at(32), ip("10.0.0.9"));
    assert_eq!(table.len(), 1);
}

#[test]
fn h50_a_new_mac_for_a_neighbor_in_use_is_not_believed_while_the_old_one_answers() {
    for claim in [GRATUITOUS, ANSWER, Claim::Request] {
        let mut table = with_peer(at(0));
        assert_eq!(table.learn(at(1), ip(PEER), mac(66), claim), Learned::Suspect);
        assert_eq!(table.resolve(at(1), ip(PEER)), Resolved::Mac(mac(2)));
        assert_eq!(actions(&mut table, at(1)), ["ask 2 for 10.0.0.2"]);
        // The liar repeats himself; no further probe.
        assert_eq!(table.learn(at(1), ip(PEER), mac(66), claim), Learned::Suspect);
        assert_eq!(table.learn(at(1), ip(PEER), mac(67), claim), Learned::Suspect);
        assert_eq!(actions(&mut table, at(1)), [""; 0]);
        assert_eq!(table.learn(at(1), ip(PEER), mac(2), ANSWER), Learned::Confirmed);
        assert_eq!(table.resolve(at(1), ip(PEER)), Resolved::Mac(mac(2)));
        assert_eq!(table.next_deadline(), None);
        // And again, right after: one probe a second at most.
        assert_eq!(table.learn(at(1), ip(PEER), mac(66), claim), Learned::Suspect);
        assert_eq!(actions(&mut table, at(1)), [""; 0]);
        assert_eq!(table.learn(at(2), ip(PEER), mac(66), claim), Learned::Suspect);
        assert_eq!(actions(&mut table, at(2)), ["ask 2 for 10.0.0.2"]);
    }
}

#[test]
fn h50_a_new_mac_is_taken_over_when_the_old_one_is_silent_and_the_new_one_answers() {
    let mut table = with_peer(at(0));
    table.learn(at(1), ip(PEER), mac(3), GRATUITOUS);
    for secs in 1..4 {
        assert_eq!(actions(&mut table, at(secs)), ["ask 2 for 10.0.0.2"]);
        // Segments under way from the old owner do not count.
        table.confirm(at(secs), ip(PEER));
    }
    assert_eq!(actions(&mut table, at(4)), ["ask 3 for 10.0.0.2"]);
    assert_eq!(table.resolve(at(4), ip(PEER)), Resolved::Mac(mac(3)));
    assert_eq!(table.learn(at(4), ip(PEER), mac(3), ANSWER), Learned::Confirmed);
    assert_eq!(state(&table, at(4), PEER), Some(NeighborState::Reachable));
}

#[test]
fn a_stale_entry_follows_an_overriding_claim_only() {
    let mut table = with_peer(at(0));
    let weak = Claim::Answer { solicited: false, overriding: false };
    assert_eq!(table.learn(at(40), ip(PEER), mac(3), weak), Learned::Ignored);
    assert_eq!(table.learn(at(40), ip(PEER), mac(3), GRATUITOUS), Learned::Updated);
    assert_eq!(table.resolve(at(40), ip(PEER)), Resolved::Mac(mac(3)));
    assert_eq!(state(&table, at(40), PEER), Some(NeighborState::Delay));
}

#[test]
fn h51_claims_of_our_own_address_are_reported_and_change_nothing() {
    let mut table = table(16);
    for own in [OWN, "fd00::1"] {
        for claim in [GRATUITOUS, ANSWER, Claim::Request] {
            assert_eq!(table.learn(at(1), ip(own), mac(9), claim), Learned::Conflict);
        }
    }
    assert!(table.is_empty());
}

#[test]
fn claims_that_teach_nothing() {
    let mut table = table(16);
    let rows = [
        ("advertisement without entry", PEER, mac(2), ANSWER),
        ("probe for a duplicate", "0.0.0.0", mac(2), Claim::Request),
        ("group", "224.0.0.1", mac(2), Claim::Request),
        ("group mac", PEER, Mac([1, 0, 0, 0, 0, 1]), Claim::Request),
        ("broadcast mac", PEER, Mac::BROADCAST, Claim::Request),
        ("no mac", PEER, Mac::ZERO, Claim::Request),
    ];
    for (name, addr, mac, claim) in rows {
        assert_eq!(table.learn(at(1), ip(addr), mac, claim), Learned::Ignored, "{name}");
        assert!(table.is_empty(), "{name}");
    }
    assert_eq!(table.learn(at(1), ip(PEER), mac(2), Claim::Request), Learned::Created);
    assert_eq!(state(&table, at(1), PEER), Some(NeighborState::Stale));
}

#[test]
fn h52_a_scan_displaces_nobody_and_does_not_ask_more_than_its_share() {
    let mut table = table(64);
    table.resolve(at(0), ip(GATEWAY));
    table.learn(at(0), ip(GATEWAY), mac(254), ANSWER);
    table.resolve(at(0), ip(PEER));
    table.learn(at(0), ip(PEER), mac(2), ANSWER);
    actions(&mut table, at(0));
    let mut asked = 0;
    for i in 0..65_000 {
        let now = at(0) + Duration::from_micros(u64::from(i) * 100);
        if table.resolve(now, nth(i)) == Resolved::Wait {
            table.park(nth(i), i).unwrap();
        }
        let done = actions(&mut table, now);
        asked += done.iter().filter(|a| a.starts_with("who")).count();
        assert!(table.incomplete <= 16);
    }
    // 6.5 seconds; sixteen entries that ask once a second each.
    assert!(asked <= 16 * 8, "{asked}");
    assert_eq!(table.resolve(at(7), ip(GATEWAY)), Resolved::Mac(mac(254)));
    assert_eq!(table.resolve(at(7), ip(PEER)), Resolved::Mac(mac(2)));
    // Whoever asks us is known without being resolved, also while the scan goes on.
    assert_eq!(table.learn(at(7), ip("10.0.0.3"), mac(3), Claim::Request), Learned::Created);
    assert_eq!(table.resolve(at(7), ip("10.0.0.3")), Resolved::Mac(mac(3)));
    for secs in 8..12 {
        actions(&mut table, at(secs));
    }
    assert_eq!((table.incomplete, table.parked(), table.len()), (0, 0, 3));
}

#[test]
fn h52_the_gateway_is_resolved_while_a_scan_holds_all_places() {
    let mut table = table(8);
    for i in 0..8 {
        table.learn(at(0), nth(i), mac(i as u8 + 1), Claim::Request);
        table.resolve(at(0), nth(i));
    }
    assert_eq!(table.resolve(at(0), ip(PEER)), Resolved::Full, "all entries are in use");
    assert_eq!(table.learn(at(0), ip(PEER), mac(2), Claim::Request), Learned::Ignored);
    assert_eq!(table.resolve(at(0), ip(GATEWAY)), Resolved::Wait);
    assert_eq!(table.park(ip(GATEWAY), 1), Ok(None));

    let mut table = self::table(8);
    assert_eq!(table.resolve(at(0), nth(1)), Resolved::Wait);
    assert_eq!(table.resolve(at(0), nth(2)), Resolved::Wait);
    assert_eq!(table.resolve(at(0), nth(3)), Resolved::Full);
    assert_eq!(table.resolve(at(0), ip(GATEWAY)), Resolved::Wait);
}

#[test]
fn a_flood_of_requests_displaces_stale_entries_only() {
    let mut table = table(32);
    table.resolve(at(0), ip(PEER));
    table.learn(at(0), ip(PEER), mac(2), ANSWER);
    actions(&mut table, at(0));
    table.learn(at(0), ip(GATEWAY), mac(254), Claim::Request);
    for i in 0..10_000 {
        assert_eq!(table.learn(at(1), nth(i), mac(66), Claim::Request), Learned::Created);
    }
    assert_eq!(table.len(), 33);
    assert_eq!(state(&table, at(1), GATEWAY), Some(NeighborState::Stale));
    assert_eq!(state(&table, at(1), PEER), Some(NeighborState::Reachable));
}

#[test]
fn h53_a_transfer_goes_on_while_probes_are_lost_and_ends_in_a_clear_state() {
    let mut table = with_peer(at(0));
    let mut now = at(31);
    table.resolve(now, ip(PEER));
    now += DELAY_FIRST_PROBE;
    for _ in 0..2 {
        assert_eq!(actions(&mut table, now), ["ask 2 for 10.0.0.2"]);
        assert_eq!(table.resolve(now, ip(PEER)), Resolved::Mac(mac(2)));
        now += SECOND;
    }
    // The third is answered.
    let mut answered = actions(&mut table, now);
    assert_eq!(answered.pop().as_deref(), Some("ask 2 for 10.0.0.2"));
    table.learn(now, ip(PEER), mac(2), ANSWER);
    assert_eq!(state(&table, now, PEER), Some(NeighborState::Reachable));

    // All are lost: then everybody is asked, frames wait, and the end is reported.
    now += REACHABLE;
    table.resolve(now, ip(PEER));
    now += DELAY_FIRST_PROBE;
    let mut log = vec![];
    for i in 0..8 {
        if table.resolve(now, ip(PEER)) == Resolved::Wait {
            table.park(ip(PEER), i).unwrap();
        }
        log.append(&mut actions(&mut table, now));
        now += SECOND;
    }
    let (ask, who) = ("ask 2 for 10.0.0.2", "who has 10.0.0.2");
    let expected = [ask, ask, ask, who, who, who];
    assert_eq!(log[..6], expected);
    assert_eq!(log[6..], ["discard 4", "discard 5", "discard 6", "no 10.0.0.2", who]);
}

#[test]
fn unused_entries_are_forgotten_and_used_ones_are_not() {
    let mut table = with_peer(at(0));
    table.learn(at(0), ip("10.0.0.3"), mac(3), Claim::Request);
    table.resolve(at(500), ip(PEER));
    table.learn(at(500), ip(PEER), mac(2), ANSWER);
    table.age(at(0) + UNUSED_MAX);
    assert_eq!(state(&table, at(600), "10.0.0.3"), None);
    assert_eq!(state(&table, at(600), PEER), Some(NeighborState::Stale));
}

#[test]
fn random_operations_keep_the_books() {
    use base::{Random, SeededRandom};
    for seed in 0..20 {
        let mut random = SeededRandom::new(seed);
        let mut table = table(12);
        let mut now = at(0);
        let (mut parked, mut returned) = (0, 0);
        for step in 0..5000 {
            let addr = if random.below(10) == 0 { ip(GATEWAY) } else { nth(random.below(20)) };
            match random.below(7) {
                0 | 1 => {
                    table.resolve(now, addr);
                    match table.park(addr, step) {
                        Ok(None) => parked += 1,
                        Ok(Some(_)) => (parked, returned) = (parked + 1, returned + 1),
                        Err(_) => {}
                    }
                }
                2 => {
                    let claim = [ANSWER, GRATUITOUS, Claim::Request][random.below(3) as usize];
                    table.learn(now, addr, mac(random.below(3) as u8), claim);
                }
                3 => table.confirm(now, addr),
                4 => table.age(now),
                _ => {
                    now += Duration::from_millis(u64::from(random.below(2000)));
                    while let Some(action) = table.poll_action(now) {
                        let frame = matches!(action, Action::Send { .. } | Action::Discard { .. });
                        returned += u32::from(frame);
                    }
                }
            }
            assert_eq!(table.parked(), parked - returned, "seed {seed} step {step}");
            let incomplete = table.iter(now).filter(|e| e.2 == NeighborState::Incomplete).count();
            assert_eq!(table.incomplete as usize, incomplete);
            assert_eq!(table.len() as usize, table.index.len());
            assert!(table.len() <= 13);
        }
        for _ in 0..20 {
            now += SECOND;
            while table.poll_action(now).is_some() {}
        }
        assert_eq!((table.parked(), table.frames.used()), (0, 0), "seed {seed}");
    }
}
