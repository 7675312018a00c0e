//! Finding a peer again that was lost: `net_memif` as a client asks for its server at the start of
//! the port, and never again.
//!
//! So the port is stopped and started. That may block, when the server does not come round to
//! accepting, and must not happen while the queue is inside a burst function. The queue therefore
//! stands aside first, and a thread that lives only for this does the rest.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a start may take to lead to a link before it is tried again.
const PATIENCE: Duration = Duration::from_secs(1);

/// The queue polls.
const RUNNING: u8 = 0;
/// The queue is to stand aside at its next burst.
const ASKED: u8 = 1;
/// The queue stands aside.
const ASIDE: u8 = 2;
/// The queue stands aside and the port is being started.
const STARTING: u8 = 3;

/// Between a queue, the only one of its port, and who looks at the port's link.
#[derive(Debug)]
pub(super) struct Reconnect {
    state: AtomicU8,
    since: Mutex<Instant>,
}

impl Reconnect {
    /// For a port that is just being started.
    pub(super) fn new() -> Self {
        Self { state: AtomicU8::new(RUNNING), since: Mutex::new(Instant::now()) }
    }

    /// Whether the queue may call burst functions. It says so before each, from the only place that
    /// calls them.
    pub(super) fn may_poll(&self) -> bool {
        match self.state.load(Ordering::Acquire) {
            RUNNING => true,
            ASKED => {
                // From here on the queue is outside; what it did inside happened before.
                self.state.store(ASIDE, Ordering::Release);
                false
            }
            _ => false,
        }
    }

    /// The link is down. `true`: the caller is to start the port and then to call
    /// [`Reconnect::started`].
    pub(super) fn link_is_down(&self) -> bool {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        if since.elapsed() < PATIENCE {
            return false;
        }
        let step = |from, to| {
            self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
        };
        if step(ASIDE, STARTING) {
            *since = Instant::now();
            return true;
        }
        step(RUNNING, ASKED);
        false
    }

    /// The port runs, or its start has failed.
    pub(super) fn started(&self, runs: bool) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.state.store(if runs { RUNNING } else { ASIDE }, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_stands_aside_before_the_port_is_started() {
        let r = Reconnect::new();
        assert!(!r.link_is_down() && r.may_poll(), "a start has its time");
        let later = || {
            let long_ago = Instant::now().checked_sub(2 * PATIENCE).unwrap();
            *r.since.lock().unwrap() = long_ago;
        };
        later();
        assert!(!r.link_is_down(), "the queue polls: it is asked");
        assert!(!r.link_is_down(), "and has not answered");
        assert!(!r.may_poll());
        assert!(r.link_is_down(), "now it is the caller's turn");
        later();
        assert!(!r.link_is_down() && !r.may_poll(), "one at a time");
        r.started(false);
        assert!(!r.may_poll() && !r.link_is_down());
        later();
        assert!(r.link_is_down(), "it is tried again");
        r.started(true);
        assert!(r.may_poll());
    }
}
