use super::*;
use base::{Random, SeededRandom};
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000_000;

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn expired(wheel: &mut Wheel, now: Instant) -> Vec<u32> {
    let mut work = u32::MAX;
    core::iter::from_fn(|| wheel.poll_expired(now, &mut work)).collect()
}

#[test]
fn fires_to_the_nanosecond_and_disarms() {
    let mut wheel = Wheel::new(2);
    wheel.arm(1, at(1_000_001));
    assert_eq!(expired(&mut wheel, at(1_000_000)), []);
    assert_eq!(wheel.next_deadline(), Some(at(1_000_001)));
    assert_eq!(expired(&mut wheel, at(1_000_001)), [1]);
    assert_eq!((wheel.armed(), wheel.next_deadline()), (0, None));
    assert_eq!(expired(&mut wheel, at(u64::MAX - 1)), []);
}

#[test]
fn a_deadline_in_the_past_fires_at_once() {
    let mut wheel = Wheel::new(2);
    wheel.arm(0, at(5 * SECOND));
    assert_eq!(expired(&mut wheel, at(6 * SECOND)), [0]);
    wheel.arm(1, at(2));
    assert!(wheel.is_due(at(6 * SECOND)));
    assert_eq!(expired(&mut wheel, at(6 * SECOND)), [1]);
}

#[test]
fn putting_off_leaves_the_timer_where_it_is() {
    let mut wheel = Wheel::new(1);
    wheel.arm(0, at(SECOND));
    let filed = wheel.nodes[0].bucket;
    for i in 1..100 {
        wheel.arm(0, at(SECOND + i));
        assert_eq!(wheel.nodes[0].bucket, filed);
    }
    assert_eq!(wheel.deadline(0), Some(at(SECOND + 99)));
    assert_eq!(expired(&mut wheel, at(SECOND + 98)), []);
    assert_eq!(wheel.next_deadline(), Some(at(SECOND + 99)));
    assert_eq!(expired(&mut wheel, at(SECOND + 99)), [0]);
}

#[test]
fn h113_after_a_stall_each_timer_fires_once_and_in_order() {
    for stall in [5, 3600, 30 * 86_400] {
        let mut wheel = Wheel::new(1000);
        let mut random = SeededRandom::new(stall);
        let mut deadlines: Vec<(u64, u32)> =
            (0..1000).map(|timer| (random.next_u64() % (stall * SECOND), timer)).collect();
        for &(deadline, timer) in &deadlines {
            wheel.arm(timer, at(deadline));
        }
        let (mut fired, mut work) = (Vec::new(), 10_000);
        while let Some(timer) = wheel.poll_expired(at(stall * SECOND), &mut work) {
            fired.push(timer);
        }
        assert!(work > 0, "ten looks per timer are enough, however long the stall");
        deadlines.sort_unstable();
        let ticks = |timer: &u32| deadlines.iter().find(|d| d.1 == *timer).unwrap().0 >> TICK_BITS;
        assert!(fired.iter().map(ticks).eq(deadlines.iter().map(|d| d.0 >> TICK_BITS)));
    }
}

#[test]
fn h115_no_timer_is_early_or_lost_where_small_counters_wrap() {
    // 32 bits of milliseconds, signed and not; 32 bits of our ticks; far beyond.
    let wraps = [(1 << 31) * 1_000_000, (1 << 32) * 1_000_000, 1 << (32 + TICK_BITS), 1 << 62];
    for wrap in wraps {
        let mut wheel = Wheel::new(3);
        wheel.arm(2, at(wrap - SECOND));
        assert_eq!(expired(&mut wheel, at(wrap - SECOND)), [2]);
        wheel.arm(0, at(wrap - 1));
        wheel.arm(1, at(wrap + 1));
        assert_eq!(expired(&mut wheel, at(wrap - 2)), []);
        assert_eq!(expired(&mut wheel, at(wrap)), [0]);
        assert_eq!(expired(&mut wheel, at(wrap + 1)), [1]);
    }
}

#[test]
fn h116_cancelled_in_the_batch_in_which_it_expires() {
    let mut wheel = Wheel::new(3);
    for timer in 0..3 {
        wheel.arm(timer, at(1000));
    }
    let mut work = 100;
    assert_eq!(wheel.poll_expired(at(2000), &mut work), Some(0));
    wheel.cancel(1);
    // Put off in the same batch: does not fire either.
    wheel.arm(2, at(SECOND));
    assert_eq!(wheel.poll_expired(at(2000), &mut work), None);
    assert_eq!((wheel.deadline(1), wheel.deadline(2)), (None, Some(at(SECOND))));
    assert_eq!(expired(&mut wheel, at(SECOND)), [2]);
}

#[test]
fn work_is_bounded_and_the_remainder_stays_due() {
    let mut wheel = Wheel::new(1000);
    for timer in 0..1000 {
        wheel.arm(timer, at(SECOND));
    }
    let mut fired = 0;
    let mut calls = 0;
    while wheel.is_due(at(SECOND)) {
        calls += 1;
        let mut work = 100;
        while wheel.poll_expired(at(SECOND), &mut work).is_some() {
            fired += 1;
        }
    }
    assert_eq!(fired, 1000);
    assert!((10..=100).contains(&calls), "{calls}");
}

#[test]
fn a_timer_armed_again_at_once_does_not_loop_beyond_its_work() {
    let mut wheel = Wheel::new(1);
    wheel.arm(0, at(10));
    let mut work = 50;
    while let Some(timer) = wheel.poll_expired(at(20), &mut work) {
        wheel.arm(timer, at(15));
    }
    assert_eq!(work, 0);
}

#[test]
fn agrees_with_a_sorted_map() {
    for seed in 0..8 {
        let mut random = SeededRandom::new(seed);
        let mut wheel = Wheel::new(64);
        let mut model: BTreeMap<u32, Instant> = BTreeMap::new();
        let mut now = at(random.next_u64() >> 30);
        for step in 0..20_000 {
            let timer = random.below(64);
            match random.below(8) {
                0..=3 => {
                    let range = 1 << random.below(45);
                    let deadline =
                        at(now.as_nanos() + random.next_u64() % range - range.min(1000) / 4);
                    wheel.arm(timer, deadline);
                    model.insert(timer, deadline);
                }
                4 => {
                    wheel.cancel(timer);
                    model.remove(&timer);
                }
                _ => {
                    let jump = random.next_u64() % (1 << random.below(42));
                    now += Duration::from_nanos(jump);
                    let mut work = random.below(40);
                    let mut last = 0;
                    while let Some(fired) = wheel.poll_expired(now, &mut work) {
                        let deadline = model.remove(&fired).expect("armed once, fired once");
                        assert!(deadline <= now, "seed {seed} step {step}");
                        assert!(tick(deadline) >= last || tick(deadline) < wheel.elapsed);
                        last = tick(deadline);
                        if random.below(4) == 0 {
                            let other = random.below(64);
                            wheel.cancel(other);
                            model.remove(&other);
                        }
                    }
                    if !wheel.is_due(now) {
                        assert!(model.values().all(|d| *d > now), "seed {seed} step {step}");
                    }
                }
            }
            assert_eq!(wheel.armed() as usize, model.len());
            assert_eq!(wheel.deadline(timer), model.get(&timer).copied());
            match (wheel.next_deadline(), model.values().min()) {
                (Some(next), Some(earliest)) => assert!(next <= *earliest, "seed {seed}"),
                (next, earliest) => assert_eq!((next, earliest), (None, None)),
            }
        }
    }
}
