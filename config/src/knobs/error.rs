//! Why a knob could not be read or set.

use core::fmt;

use super::Applies;
use crate::text::quote;

/// Why a knob could not be read or set. Every message names the knob; one about a value names the
/// value and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnobError {
    /// No such knob.
    Unknown {
        /// As asked for.
        name: String,
        /// The knob that was probably meant.
        nearest: Option<&'static str>,
    },
    /// The last part of a name that several knobs share.
    Ambiguous {
        /// As asked for.
        name: String,
        /// The full names.
        candidates: Vec<&'static str>,
    },
    /// The text is no value of this type.
    Syntax {
        /// The knob.
        name: &'static str,
        /// The text, quoted.
        value: String,
        /// What was expected.
        expected: &'static str,
        /// The allowed range.
        range: String,
    },
    /// The value is outside of the range, or not one of the names.
    Range {
        /// The knob.
        name: &'static str,
        /// The value.
        value: String,
        /// The allowed range.
        range: String,
    },
    /// The value contradicts the value of another knob.
    Conflict {
        /// The knob.
        name: &'static str,
        /// The contradiction.
        why: String,
    },
    /// The knob tells something and cannot be set.
    ReadOnly {
        /// The knob.
        name: &'static str,
    },
    /// The knob has its effect at start only, and the dataplane runs already.
    AtStartOnly {
        /// The knob.
        name: &'static str,
    },
    /// The same knob twice in one place, under one name or two.
    Twice {
        /// The knob.
        name: &'static str,
    },
}

impl KnobError {
    /// Whether this is about a name that some Linux kernel may know and we do not: a file written
    /// for Linux is not wrong for having it.
    pub fn is_not_applicable(&self) -> bool {
        const TREES: [&str; 9] =
            ["net", "kernel", "vm", "fs", "dev", "debug", "abi", "user", "sunrpc"];
        match self {
            Self::Unknown { name, .. } => name
                .split(['.', '/'])
                .next()
                .is_some_and(|tree| name.len() > tree.len() && TREES.contains(&tree)),
            _ => false,
        }
    }
}

impl fmt::Display for KnobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, nearest: Some(nearest) } => {
                write!(f, "unknown knob {}: did you mean {nearest}?", quote(name))
            }
            Self::Unknown { name, nearest: None } => write!(f, "unknown knob {}", quote(name)),
            Self::Ambiguous { name, candidates } => {
                write!(f, "{} is more than one knob: {}", quote(name), candidates.join(", "))
            }
            Self::Syntax { name, value, expected, range } => {
                write!(f, "{name}: {value} is not {expected} (allowed: {range})")
            }
            Self::Range { name, value, range } => {
                write!(f, "{name}: {value} is not in {range}")
            }
            Self::Conflict { name, why } => write!(f, "{name}: {why}"),
            Self::ReadOnly { name } => write!(f, "{name}: can be read, not set"),
            Self::AtStartOnly { name } => write!(
                f,
                "{name}: takes effect {} only; set it in the file or on the command line and start again",
                Applies::AtStart.name()
            ),
            Self::Twice { name } => write!(f, "{name}: set twice"),
        }
    }
}

impl core::error::Error for KnobError {}
