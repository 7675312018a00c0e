//! One error type for everything that can be unfit about the machine or the configuration.
//!
//! Its form follows what users of DPDK miss most: what failed, why, what would help, and the
//! library's own log lines as detail instead of a bare number.

use std::fmt::Write as _;

/// Which of the program's exit statuses an error belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// What was asked for is contradictory or misspelt.
    Configuration,
    /// The machine is not ready: permission, memory, an interface that does not exist.
    Environment,
    /// The device or this build cannot do what was asked.
    Unsupported,
}

/// What failed, why, and what would help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {why}")]
pub struct Error {
    /// How to classify it.
    pub kind: ErrorKind,
    /// The object and the operation, such as `cannot open net_tap0`.
    pub what: String,
    /// The reason, with the values that were found.
    pub why: String,
    /// Lines that say what to do; commands can be copied.
    pub help: Vec<String>,
    /// What DPDK logged meanwhile, oldest line first.
    pub detail: Vec<String>,
}

impl Error {
    /// An error without help.
    pub fn new(kind: ErrorKind, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { kind, what: what.into(), why: why.into(), help: Vec::new(), detail: Vec::new() }
    }

    pub(crate) fn configuration(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(ErrorKind::Configuration, what, why)
    }

    pub(crate) fn environment(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(ErrorKind::Environment, what, why)
    }

    pub(crate) fn unsupported(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, what, why)
    }

    /// Add a line of help.
    #[must_use]
    pub fn help(mut self, line: impl Into<String>) -> Self {
        self.help.push(line.into());
        self
    }

    /// Add what DPDK logged.
    #[must_use]
    pub(crate) fn detail(mut self, lines: Vec<String>) -> Self {
        self.detail = lines;
        self
    }

    /// The message with its help lines indented, and the detail if `verbose`.
    ///
    /// ```
    /// use dpdk::{Error, ErrorKind};
    /// let e = Error::new(ErrorKind::Environment, "cannot open net_tap0", "no permission")
    ///     .help("try: sudo millrace run");
    /// assert_eq!(e.report(false), "cannot open net_tap0: no permission\n  try: sudo millrace run\n");
    /// ```
    pub fn report(&self, verbose: bool) -> String {
        let mut out = format!("{self}\n");
        for line in &self.help {
            let _ = writeln!(out, "  {line}");
        }
        if verbose {
            for line in &self.detail {
                let _ = writeln!(out, "  | {line}");
            }
        }
        out
    }
}

/// The text for an error number of DPDK (positive or negative).
pub(crate) fn errno_text(code: i32) -> String {
    // SAFETY: rte_strerror returns a NUL-terminated string that is static or thread-local and
    // stays valid until this thread calls it again; it is copied at once.
    let text = unsafe { core::ffi::CStr::from_ptr(dpdk_sys::rte_strerror(code.saturating_abs())) };
    text.to_string_lossy().into_owned()
}

/// The thread's `rte_errno`.
pub(crate) fn last_errno() -> i32 {
    // SAFETY: reads a thread-local variable.
    unsafe { dpdk_sys::mr_errno() }
}
