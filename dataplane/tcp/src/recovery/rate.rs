//! How fast the path delivers: the delivery-rate samples of draft-ietf-ccwg-bbr, section 4.1.
//!
//! Each transmission takes along how much had been delivered when it left. When it is delivered itself, the
//! difference over the time between is a sample. That time is the longer of the two in which the same data
//! were sent and were acknowledged, so that neither a burst of transmissions nor of acknowledgements looks like
//! a fast path. A sample from a time when the application had too little to send is a lower bound only.

use core::time::Duration;

use base::{Instant, Rate};

/// What a transmission takes along.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Departure {
    /// Segments delivered until then, wrapping.
    delivered: u32,
    /// When the last of them was.
    delivered_at: Instant,
    /// When the flight began in which it left: its send phase is measured from here.
    first_sent: Instant,
    app_limited: bool,
}

/// A rate as it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateSample {
    /// Segments delivered in `interval`.
    pub(crate) delivered: u32,
    pub(crate) interval: Duration,
    /// The application had too little to send, so the path may be faster.
    pub(crate) app_limited: bool,
}

impl RateSample {
    /// Bytes per second, with so many of payload in each segment.
    pub(crate) fn per_second(&self, mss: u32) -> u64 {
        let bytes = u64::from(self.delivered) * u64::from(mss);
        Rate::from_transfer(bytes, self.interval).bytes_per_sec()
    }

    fn is_as_fast_as(&self, other: &Self) -> bool {
        let product = |s: &Self, interval: Duration| u128::from(s.delivered) * interval.as_nanos();
        product(self, other.interval) >= product(other, self.interval)
    }
}

/// The newest transmission that an acknowledgement delivers, with how long its send phase lasted.
#[derive(Clone, Copy, Debug)]
struct Newest {
    departure: Departure,
    sent: Instant,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeliveryRate {
    /// Segments delivered, wrapping.
    delivered: u32,
    delivered_at: Instant,
    first_sent: Instant,
    /// Everything up to this count of delivered segments left while the application was the limit.
    app_limited: Option<u32>,
    /// Of the acknowledgement that is being looked at.
    newest: Option<Newest>,
    /// The last sample that says something, for people.
    last: Option<RateSample>,
}

impl DeliveryRate {
    /// Something leaves at `now`; `idle`: nothing was in flight.
    pub(crate) const fn on_sent(&mut self, now: Instant, idle: bool) -> Departure {
        if idle {
            self.first_sent = now;
            self.delivered_at = now;
        }
        Departure {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            app_limited: self.app_limited.is_some(),
        }
    }

    /// `segs` segments that left at `sent` are delivered, as an acknowledgement that came `now` says.
    pub(crate) fn on_delivered(
        &mut self,
        segs: u32,
        departure: Departure,
        sent: Instant,
        now: Instant,
    ) {
        self.delivered = self.delivered.wrapping_add(segs);
        self.delivered_at = self.delivered_at.max(now);
        let newer = |other: &Newest| {
            let ahead = departure.delivered.wrapping_sub(other.departure.delivered).cast_signed();
            ahead > 0 || ahead == 0 && sent >= other.sent
        };
        if self.newest.as_ref().is_none_or(newer) {
            self.newest = Some(Newest { departure, sent });
            // What was sent in the next flight is measured from here.
            self.first_sent = sent;
        }
    }

    /// All that the acknowledgement delivers has been told: its sample, if it is one. What took less than
    /// the least round trip cannot be true.
    pub(crate) fn sample(&mut self, min_rtt: Option<Duration>) -> Option<RateSample> {
        if self.app_limited.is_some_and(|end| self.delivered.wrapping_sub(end).cast_signed() > 0) {
            self.app_limited = None;
        }
        let Newest { departure, sent } = self.newest.take()?;
        let send_phase = sent.since(departure.first_sent);
        let ack_phase = self.delivered_at.since(departure.delivered_at);
        let interval = send_phase.max(ack_phase);
        if interval.is_zero() || min_rtt.is_some_and(|min| interval < min) {
            return None;
        }
        let sample = RateSample {
            delivered: self.delivered.wrapping_sub(departure.delivered),
            interval,
            app_limited: departure.app_limited,
        };
        // A lower bound below what is known tells nothing.
        if !sample.app_limited || self.last.is_none_or(|last| sample.is_as_fast_as(&last)) {
            self.last = Some(sample);
        }
        Some(sample)
    }

    /// The application leaves room in the window with `in_flight` segments on their way: until those are
    /// delivered, and more, samples are lower bounds.
    pub(crate) const fn on_application_limited(&mut self, in_flight: u32) {
        self.app_limited = Some(self.delivered.wrapping_add(in_flight));
    }

    /// What was known before the rest of the state was put away.
    pub(crate) const fn restore(&mut self, last: Option<RateSample>) {
        self.last = last;
    }

    /// The last sample that says something.
    pub(crate) const fn last(&self) -> Option<RateSample> {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn sample(delivered: u32, ms: u64) -> Option<RateSample> {
        let interval = Duration::from_millis(ms);
        Some(RateSample { delivered, interval, app_limited: false })
    }

    #[test]
    fn a_flight_that_leaves_at_once_is_measured_by_its_acknowledgements() {
        let mut rate = DeliveryRate::default();
        let first = rate.on_sent(at(100), true);
        rate.on_delivered(2, first, at(100), at(110));
        assert_eq!(rate.sample(None), sample(2, 10));
        rate.on_delivered(2, first, at(100), at(112));
        assert_eq!(rate.sample(None), sample(4, 12));
        // Sent when two were delivered, at 110.
        let mut rate = DeliveryRate::default();
        let first = rate.on_sent(at(100), true);
        rate.on_delivered(2, first, at(100), at(110));
        rate.sample(None);
        let second = rate.on_sent(at(110), false);
        rate.on_delivered(8, first, at(100), at(118));
        rate.on_delivered(4, second, at(110), at(120));
        assert_eq!(rate.sample(None), sample(12, 10));
    }

    #[test]
    fn acknowledgements_that_come_at_once_are_measured_by_the_transmissions() {
        let mut rate = DeliveryRate::default();
        let mut departures = [Departure::default(); 10];
        for (i, departure) in (0..).zip(&mut departures) {
            *departure = rate.on_sent(at(100 + 10 * i), i == 0);
        }
        rate.on_delivered(1, departures[0], at(100), at(195));
        rate.sample(None);
        let next = rate.on_sent(at(195), false);
        for (i, departure) in (1..).zip(&departures[1..]) {
            rate.on_delivered(1, *departure, at(100 + 10 * i), at(196));
        }
        // Nine in one millisecond, but they took 96 to be sent and acknowledged.
        assert_eq!(rate.sample(None), sample(10, 96));
        rate.on_delivered(1, next, at(195), at(197));
        // Sent 95 ms after what was known to have left first by then.
        assert_eq!(rate.sample(None), sample(10, 95));
    }

    #[test]
    fn what_is_faster_than_a_round_trip_is_no_sample() {
        let mut rate = DeliveryRate::default();
        let departure = rate.on_sent(at(100), true);
        rate.on_delivered(1, departure, at(100), at(104));
        assert_eq!(rate.sample(Some(5 * MS)), None);
        assert_eq!(rate.last(), None);
        assert_eq!(rate.sample(None), None, "and an acknowledgement of nothing is none");
    }

    #[test]
    fn what_the_application_limits_is_a_lower_bound() {
        let mut rate = DeliveryRate::default();
        let before = rate.on_sent(at(100), true);
        rate.on_application_limited(1);
        let during = rate.on_sent(at(101), false);
        rate.on_delivered(1, before, at(100), at(110));
        assert_eq!(rate.sample(None).map(|s| s.app_limited), Some(false));
        let still = rate.on_sent(at(110), false);
        rate.on_delivered(1, during, at(101), at(150));
        assert_eq!(rate.sample(None).map(|s| s.app_limited), Some(true));
        // Slower than what was known, and only a bound: nobody is told.
        assert_eq!(rate.last().map(|s| s.app_limited), Some(false));
        let after = rate.on_sent(at(150), false);
        rate.on_delivered(60, still, at(110), at(151));
        assert_eq!(rate.sample(None).map(|s| s.app_limited), Some(true));
        assert_eq!(rate.last().map(|s| s.app_limited), Some(true), "but a higher bound is news");
        rate.on_delivered(1, after, at(150), at(170));
        assert_eq!(rate.sample(None).map(|s| s.app_limited), Some(false));
    }

    #[test]
    fn the_count_may_wrap() {
        let mut rate = DeliveryRate { delivered: u32::MAX, ..DeliveryRate::default() };
        let departure = rate.on_sent(at(100), true);
        rate.on_application_limited(3);
        rate.on_delivered(2, departure, at(100), at(110));
        assert_eq!(rate.sample(None), sample(2, 10));
        assert!(rate.on_sent(at(110), false).app_limited);
        rate.on_delivered(2, departure, at(100), at(111));
        rate.sample(None);
        assert!(!rate.on_sent(at(111), false).app_limited);
    }
}
