//! How often we answer what nobody can authenticate: ICMP errors and resets without a connection.
//!
//! Two limits, both as virtual schedules (a time at which the next message would be on schedule, and
//! how far ahead of it one may be). The one per destination is asked first, and what it refuses does
//! not count for the other: nobody uses up the worker's budget by asking for one victim's share. The
//! one for the worker has noise in it, so that an off-path attacker who fills it with forged sources
//! cannot learn from its last message how many of his probes were answered (CVE-2020-25705).

use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use base::{Instant, Random};

use crate::isn::{SipKey, write_addr};

/// Messages to one destination that may come at once (Linux has the same).
pub const DESTINATION_BURST: u32 = 6;
/// The worker's limit may be ahead of its schedule by this part of a second.
const WORKER_BURST_PART: u32 = 20;
/// Part of the worker's burst that noise may hold back.
const NOISE_PART: u32 = 4;
/// Destinations that are remembered: sets of [`WAYS`].
const SETS: usize = 256;
const WAYS: usize = 4;
const SECOND_NS: u64 = 1_000_000_000;

#[derive(Clone, Copy)]
struct Destination {
    /// Part of the address's hash; two destinations that agree in it share a schedule.
    tag: u64,
    /// When the next message would be on schedule. In the past: nothing to remember.
    due: Instant,
}

/// Limits of one worker.
pub struct IcmpLimit {
    key: SipKey,
    /// Least time between messages to one destination in the long run.
    interval: Duration,
    per_second: u32,
    due: Instant,
    destinations: Vec<[Destination; WAYS]>,
}

impl IcmpLimit {
    /// Limits: `interval` between messages to one destination (`icmp_ratelimit`; zero: no limit),
    /// `per_second` in all (`icmp_msgs_per_sec`; zero: none is sent). Allocates 16 kB, and never
    /// again.
    pub fn new(interval: Duration, per_second: u32, random: &mut (impl Random + ?Sized)) -> Self {
        let empty = Destination { tag: 0, due: Instant::ZERO };
        Self {
            key: SipKey::draw(random),
            interval,
            per_second,
            due: Instant::ZERO,
            destinations: alloc::vec![[empty; WAYS]; SETS],
        }
    }

    /// Change the limits.
    pub fn set_limits(&mut self, interval: Duration, per_second: u32) {
        self.interval = interval;
        self.per_second = per_second;
    }

    /// Whether a message may go to `destination` now; if so, it counts. False: discard the cause
    /// without an answer, `icmp_limit`.
    pub fn allow(
        &mut self,
        now: Instant,
        random: &mut (impl Random + ?Sized),
        destination: IpAddr,
    ) -> bool {
        if self.per_second == 0 {
            return false;
        }
        let mut hasher = self.key.hasher();
        write_addr(&mut hasher, destination);
        let hash = core::hash::Hasher::finish(&hasher);
        let set = &mut self.destinations[hash as usize % SETS];
        let way = (0..WAYS)
            .find(|&way| set[way].tag == hash)
            // Forget who has been quiet for longest; if he was quiet enough, nothing is lost.
            .or_else(|| (0..WAYS).min_by_key(|&way| set[way].due))
            .unwrap_or(0);
        let mut entry = set[way];
        if entry.tag != hash {
            entry = Destination { tag: hash, due: now };
        }
        let burst = DESTINATION_BURST - 1;
        let Some(due) = on_schedule(now, entry.due, self.interval, self.interval * burst) else {
            return false;
        };
        let cost = Duration::from_nanos(SECOND_NS / u64::from(self.per_second));
        let burst = (self.per_second / WORKER_BURST_PART).max(1);
        let noise = random.below(burst / NOISE_PART + 1);
        let Some(worker_due) = on_schedule(now, self.due, cost, cost * (burst - 1 - noise)) else {
            return false;
        };
        self.due = worker_due;
        set[way] = Destination { due, ..entry };
        true
    }
}

/// The schedule after one more message, `None` if it would be more than `ahead` early.
fn on_schedule(now: Instant, due: Instant, cost: Duration, ahead: Duration) -> Option<Instant> {
    (due.since(now) <= ahead).then(|| due.max(now) + cost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::SeededRandom;
    use core::net::Ipv4Addr;
    use std::collections::BTreeSet;

    fn ip(i: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + i))
    }

    fn limit(per_second: u32, random: &mut SeededRandom) -> IcmpLimit {
        IcmpLimit::new(Duration::from_secs(1), per_second, random)
    }

    /// How many of `count` messages to `destination` pass at once.
    fn burst(
        l: &mut IcmpLimit,
        r: &mut SeededRandom,
        now: Instant,
        count: u32,
        to: impl Fn(u32) -> IpAddr,
    ) -> u32 {
        (0..count).filter(|&i| l.allow(now, r, to(i))).count() as u32
    }

    #[test]
    fn one_destination_gets_a_burst_and_then_one_each_interval() {
        let random = &mut SeededRandom::new(1);
        let mut l = limit(10_000, random);
        let start = Instant::from_millis(1);
        assert_eq!(burst(&mut l, random, start, 1000, |_| ip(1)), DESTINATION_BURST);
        let mut later = 0;
        for ms in 1..=10_000 {
            later += u32::from(l.allow(start + Duration::from_millis(ms), random, ip(1)));
        }
        assert_eq!(later, 10);
        let end = start + Duration::from_secs(10);
        assert!(l.allow(end, random, ip(2)), "others are not concerned");
    }

    #[test]
    fn the_worker_keeps_its_rate_under_a_flood_from_many_sources() {
        let random = &mut SeededRandom::new(1);
        let mut l = limit(1000, random);
        let mut sent = 0;
        for i in 0..1_000_000 {
            let now = Instant::from_micros(u64::from(i) * 10);
            sent += u32::from(l.allow(now, random, ip(i)));
        }
        // Ten seconds.
        assert!((9_800..=10_050).contains(&sent), "{sent}");
    }

    #[test]
    fn refused_messages_to_one_destination_do_not_use_up_the_workers_budget() {
        let random = &mut SeededRandom::new(1);
        let mut l = limit(1000, random);
        let now = Instant::from_millis(1);
        burst(&mut l, random, now, 1_000_000, |_| ip(1));
        assert!(burst(&mut l, random, now, 20, |i| ip(10 + i)) == 20);
    }

    #[test]
    fn cve_2020_25705_the_size_of_a_burst_cannot_be_predicted() {
        let random = &mut SeededRandom::new(1);
        let mut l = limit(1000, random);
        let mut sizes = BTreeSet::new();
        for round in 1..=50u32 {
            let now = Instant::ZERO + Duration::from_secs(u64::from(round) * 10);
            sizes.insert(burst(&mut l, random, now, 45, |i| ip(round * 1000 + i)));
        }
        assert!(sizes.len() >= 4, "{sizes:?}");
    }

    #[test]
    fn who_has_been_quiet_for_longest_is_forgotten_first() {
        let random = &mut SeededRandom::new(1);
        let mut l = limit(1_000_000, random);
        let set_of = |addr: IpAddr| {
            let mut hasher = l.key.hasher();
            write_addr(&mut hasher, addr);
            core::hash::Hasher::finish(&hasher) as usize % SETS
        };
        let crowd: Vec<IpAddr> = (0..).map(ip).filter(|&a| set_of(a) == 0).take(WAYS + 1).collect();
        let now = Instant::from_millis(1);
        for (nth, &addr) in crowd[..WAYS].iter().enumerate() {
            // The later in the list, the more messages and the longer to remember.
            assert_eq!(burst(&mut l, random, now, nth as u32 + 2, |_| addr), nth as u32 + 2);
        }
        assert!(l.allow(now, random, crowd[WAYS]));
        let left = DESTINATION_BURST - (WAYS as u32 + 1);
        assert_eq!(burst(&mut l, random, now, 10, |_| crowd[WAYS - 1]), left);
    }

    #[test]
    fn limits_of_zero_and_of_one() {
        let random = &mut SeededRandom::new(1);
        let now = Instant::from_millis(1);
        assert_eq!(burst(&mut limit(0, random), random, now, 10, ip), 0);
        assert_eq!(burst(&mut limit(1, random), random, now, 10, ip), 1);
        let mut l = limit(u32::MAX, random);
        l.set_limits(Duration::ZERO, u32::MAX);
        assert_eq!(burst(&mut l, random, now, 100, |_| ip(1)), 100);
    }
}
