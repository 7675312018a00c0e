//! SIGINT and SIGTERM ask for an orderly stop, a second one for an immediate one; SIGUSR1 asks for
//! statistics.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::flag;

/// Exit status after a second signal: 128 plus the number of SIGINT, as a shell reports it.
const EXIT_AT_ONCE: i32 = 130;

pub(crate) struct Signals {
    stop: Arc<AtomicBool>,
    statistics: Arc<AtomicBool>,
}

impl Signals {
    pub(crate) fn install() -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let statistics = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // Order matters: the first signal finds the flag still down and only raises it.
            flag::register_conditional_shutdown(signal, EXIT_AT_ONCE, Arc::clone(&stop))?;
            flag::register(signal, Arc::clone(&stop))?;
        }
        flag::register(SIGUSR1, Arc::clone(&statistics))?;
        Ok(Self { stop, statistics })
    }

    pub(crate) fn stop_requested(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn take_statistics(&self) -> bool {
        self.statistics.swap(false, Ordering::Relaxed)
    }
}
