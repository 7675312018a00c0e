//! What went wrong, in the form that all commands share: `millrace: what: why`, then what helps.

use std::fmt;

/// The transfer or the test failed.
pub(crate) const FAILED: u8 = 1;
/// Wrong usage or configuration; nothing was started.
pub(crate) const USAGE: u8 = 2;
/// Not supported, or the environment is not ready.
pub(crate) const ENVIRONMENT: u8 = 3;
/// No such instance.
pub(crate) const NO_INSTANCE: u8 = 4;

/// An end with a message.
#[derive(Debug)]
pub(crate) struct Fault {
    /// Exit status.
    pub(crate) code: u8,
    /// What failed, and why.
    pub(crate) what: String,
    /// Lines that help, each of its own.
    pub(crate) help: Vec<String>,
}

/// The outcome of a command: an exit status, or a fault.
pub(crate) type Outcome = Result<u8, Fault>;

impl Fault {
    pub(crate) fn new(code: u8, what: impl Into<String>) -> Self {
        Self { code, what: what.into(), help: Vec::new() }
    }

    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(USAGE, what)
    }

    pub(crate) fn help(mut self, line: impl Into<String>) -> Self {
        self.help.push(line.into());
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.what.strip_prefix("millrace: ").unwrap_or(&self.what);
        writeln!(f, "millrace: {}", what.trim_end())?;
        for line in &self.help {
            writeln!(f, "  {line}")?;
        }
        Ok(())
    }
}
