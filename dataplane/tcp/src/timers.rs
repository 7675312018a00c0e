//! The deadlines of one connection: a tiny table, one slot per kind.

use base::Instant;

/// What a deadline is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// Retransmission timeout while something is in flight, window probe otherwise: one slot,
    /// because the two exclude each other.
    Retransmit,
    /// Tail loss probe.
    LossProbe,
    /// Delayed acknowledgement.
    DelayedAck,
    /// Keep-alive, or the limit of FIN-WAIT-2 once nobody holds the connection any more.
    Slow,
    /// Detach the extension of a connection on which nothing happens.
    Idle,
}

impl Timer {
    const ALL: [Self; 5] =
        [Self::Retransmit, Self::LossProbe, Self::DelayedAck, Self::Slow, Self::Idle];
}

/// One deadline per kind; [`Instant::FAR_FUTURE`] is "not armed".
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimerTable([Instant; Timer::ALL.len()]);

impl TimerTable {
    pub(crate) const fn new() -> Self {
        Self([Instant::FAR_FUTURE; Timer::ALL.len()])
    }

    pub(crate) fn arm(&mut self, timer: Timer, at: Instant) {
        self.0[timer as usize] = at;
    }

    pub(crate) fn stop(&mut self, timer: Timer) {
        self.0[timer as usize] = Instant::FAR_FUTURE;
    }

    pub(crate) fn stop_all(&mut self) {
        *self = Self::new();
    }

    pub(crate) fn get(&self, timer: Timer) -> Option<Instant> {
        Some(self.0[timer as usize]).filter(|&at| at != Instant::FAR_FUTURE)
    }

    pub(crate) fn is_armed(&self, timer: Timer) -> bool {
        self.get(timer).is_some()
    }

    /// Whether the deadline has passed; if so it is disarmed.
    pub(crate) fn take_expired(&mut self, timer: Timer, now: Instant) -> bool {
        let expired = self.get(timer).is_some_and(|at| at <= now);
        if expired {
            self.stop(timer);
        }
        expired
    }

    /// The earliest deadline.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.into_iter().min().filter(|&at| at != Instant::FAR_FUTURE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_is_next_and_expiry_disarms() {
        let mut table = TimerTable::new();
        assert_eq!(table.next(), None);
        table.arm(Timer::Slow, Instant::from_millis(9));
        table.arm(Timer::DelayedAck, Instant::from_millis(4));
        assert_eq!(table.next(), Some(Instant::from_millis(4)));
        assert!(!table.take_expired(Timer::DelayedAck, Instant::from_millis(3)));
        assert!(table.take_expired(Timer::DelayedAck, Instant::from_millis(4)));
        assert!(!table.is_armed(Timer::DelayedAck));
        assert_eq!(table.next(), Some(Instant::from_millis(9)));
        for (i, timer) in Timer::ALL.into_iter().enumerate() {
            assert_eq!(timer as usize, i);
        }
    }
}
