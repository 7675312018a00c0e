//! Text of a snippet to its tree.

use super::Program;

/// A snippet that is not Python.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The line in the script.
    pub line: u32,
    /// What is wrong.
    pub message: String,
}

/// Parses.
pub fn parse(_text: &str, _line: u32) -> Result<Program, SyntaxError> {
    Ok(Program::default())
}
