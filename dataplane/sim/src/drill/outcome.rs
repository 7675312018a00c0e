//! What became of a script.

use core::time::Duration;

use super::lang::ast::{Span, Unsupported};

/// Why a script did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The event, or line zero for what belongs to none.
    pub span: Span,
    /// When it was noticed, since the start of the script.
    pub at: Duration,
    /// What is wrong, in one line.
    pub what: String,
    /// A packet that was expected, and what came instead.
    pub packets: Option<Mismatch>,
    /// The last packets of the connection, oldest first.
    pub history: Vec<String>,
}

/// Two packets in script notation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mismatch {
    /// With its time.
    pub expected: String,
    /// With its time; `None`: nothing came.
    pub actual: Option<String>,
    /// All that is different, a line each.
    pub differences: Vec<String>,
}

impl Failure {
    /// One line and nothing else.
    pub fn new(span: Span, at: Duration, what: impl Into<String>) -> Self {
        Self { span, at, what: what.into(), packets: None, history: Vec::new() }
    }

    /// For people: `file:line:` and everything there is to say.
    pub fn render(&self, file: &str) -> String {
        let mut out = if self.span.line == 0 {
            format!("{file}: {}", self.what)
        } else {
            format!("{file}:{}:{}: {}", self.span.line, self.span.column, self.what)
        };
        if let Some(Mismatch { expected, actual, differences }) = &self.packets {
            out.push_str(&format!("\n  expected: {expected}"));
            let actual = actual.as_deref().unwrap_or("nothing");
            out.push_str(&format!("\n  actual:   {actual}"));
            for difference in differences {
                out.push_str(&format!("\n  - {difference}"));
            }
        }
        if !self.history.is_empty() {
            out.push_str("\n  last packets of the connection:");
            for line in &self.history {
                out.push_str(&format!("\n    {line}"));
            }
        }
        out
    }
}

/// The verdict over one run of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything came as written.
    Passed,
    /// Something did not.
    Failed(Box<Failure>),
    /// The script is none: `file:line:column: message` and the line.
    Bad(String),
    /// The script asks for what this runner or this stack cannot do; nothing was run.
    Unsupported(Vec<Unsupported>),
}

impl Verdict {
    /// Exit code of a run of this script alone.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::Failed(_) => 1,
            Self::Bad(_) => 2,
            Self::Unsupported(_) => 3,
        }
    }

    /// One word.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Passed => "pass",
            Self::Failed(_) => "fail",
            Self::Bad(_) => "bad",
            Self::Unsupported(_) => "unsupported",
        }
    }
}

/// Everything about one run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The verdict.
    pub verdict: Verdict,
    /// What is worth a look but decides nothing: late starts, failures that `non_fatal` forgives.
    pub warnings: Vec<String>,
    /// What snippets have printed, and with `verbose` all that happened.
    pub log: Vec<String>,
    /// How long it took in virtual time.
    pub elapsed: Duration,
    /// Frames in both directions with their times, if they were asked for.
    pub frames: Vec<(base::Instant, Vec<u8>)>,
}

/// A time as scripts write it: seconds with six places.
pub fn seconds(at: Duration) -> String {
    format!("{}.{:06}", at.as_secs(), at.subsec_micros())
}
