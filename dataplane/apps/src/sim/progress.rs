//! Progress of long work, on standard error: a line that is rewritten on a terminal, else now and then a
//! line of its own.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Work that is over by then needs no word.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two updates of a terminal.
const ON_TERMINAL: Duration = Duration::from_millis(250);
/// Between two lines elsewhere.
const ELSEWHERE: Duration = Duration::from_secs(10);

/// How far a number of runs has come.
pub(super) struct Progress {
    all: usize,
    done: usize,
    began: Instant,
    told: Option<Instant>,
    terminal: bool,
}

impl Progress {
    pub(super) fn new(all: usize) -> Self {
        let terminal = io::stderr().is_terminal();
        Self { all, done: 0, began: Instant::now(), told: None, terminal }
    }

    /// One more is done.
    pub(super) fn step(&mut self) {
        self.done += 1;
        self.tell();
    }

    /// Time has passed.
    pub(super) fn tell(&mut self) {
        let interval = if self.terminal { ON_TERMINAL } else { ELSEWHERE };
        let due = match self.told {
            Some(told) => told.elapsed() >= interval,
            None => self.began.elapsed() >= PATIENCE,
        };
        if !due || self.done == self.all {
            return;
        }
        self.told = Some(Instant::now());
        let line = format!(
            "millrace: {} of {} runs done after {} s",
            self.done,
            self.all,
            self.began.elapsed().as_secs()
        );
        // Nobody is harmed if this cannot be said.
        let _ = if self.terminal {
            write!(io::stderr(), "\r{line}")
        } else {
            writeln!(io::stderr(), "{line}")
        };
    }

    /// The work is over: the line goes.
    pub(super) fn finish(self) {
        if self.terminal && self.told.is_some() {
            let _ = write!(io::stderr(), "\r{:60}\r", "");
        }
    }
}
