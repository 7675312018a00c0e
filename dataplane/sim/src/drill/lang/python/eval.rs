//! Running snippets.

use core::fmt;
use std::collections::BTreeMap;

use super::{Program, Value};

/// Where a snippet finds what it did not assign itself: `tcpi_…` and constants.
pub trait Variables {
    /// The value of a name at the time of the snippet.
    fn lookup(&self, name: &str) -> Option<Value>;
}

/// What persists from snippet to snippet.
#[derive(Clone, Debug, Default)]
pub struct State {
    names: BTreeMap<String, Value>,
}

/// Why a snippet stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PyError {
    /// The line in the script.
    pub line: u32,
    /// Why.
    pub kind: PyErrorKind,
}

/// Why a snippet stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PyErrorKind {
    /// An assertion did not hold.
    Assertion {
        /// Its message, if it has one.
        message: Option<String>,
    },
    /// Python's own errors: a name, a type, a division by zero, a number that does not fit.
    Error(String),
    /// Python that is not in the subset.
    Unsupported(String),
}

impl fmt::Display for PyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            PyErrorKind::Assertion { message: None } => f.write_str("assertion failed"),
            PyErrorKind::Assertion { message: Some(text) } => write!(f, "assertion failed: {text}"),
            PyErrorKind::Error(text) => f.write_str(text),
            PyErrorKind::Unsupported(what) => write!(f, "not in the Python subset: {what}"),
        }
    }
}

impl State {
    /// Runs a snippet; what it prints goes to `printed`, a line each.
    pub fn run(
        &mut self,
        _program: &Program,
        _variables: &dyn Variables,
        _printed: &mut Vec<String>,
    ) -> Result<(), PyError> {
        let _ = &mut self.names;
        Ok(())
    }
}
