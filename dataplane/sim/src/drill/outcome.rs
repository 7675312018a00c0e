//! What became of a script.

use core::time::Duration;

use super::lang::ScriptError;
use super::lang::ast::{Span, Unsupported};

/// Why a script did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The event, or line zero for what belongs to none.
    pub span: Span,
    /// When it was noticed, since the start of the script.
    pub at: Duration,
    /// The system call that it is about, as the script has it.
    pub call: Option<String>,
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
        Self { span, at, call: None, what: what.into(), packets: None, history: Vec::new() }
    }

    /// What is wrong with what, in one line.
    pub fn message(&self) -> String {
        match &self.call {
            Some(call) => format!("{call}: {}", self.what),
            None => self.what.clone(),
        }
    }

    /// For people: `file:line:` and everything there is to say.
    pub fn render(&self, file: &str) -> String {
        let mut out = format!("{}: {}", place(file, self.span), self.message());
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
    /// The script is none.
    Bad(Box<Bad>),
    /// The script asks for what this runner or this stack cannot do; nothing was run.
    Unsupported(Vec<Unsupported>),
}

/// Why a script is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bad {
    /// What is wrong, and where.
    pub error: ScriptError,
    /// The same for people: `file:line:column: message`, and the line.
    pub rendered: String,
}

/// Where something is: `file:line:column`, or the file alone for what belongs to no line.
fn place(file: &str, span: Span) -> String {
    if span.line == 0 { file.to_owned() } else { format!("{file}:{}:{}", span.line, span.column) }
}

impl Verdict {
    /// Everything that is wrong, for people, in lines that begin with the file; empty if nothing is.
    pub fn render(&self, file: &str) -> String {
        match self {
            Self::Passed => String::new(),
            Self::Failed(failure) => format!("{}\n", failure.render(file)),
            Self::Bad(bad) => format!("{}\n", bad.rendered),
            Self::Unsupported(list) => list
                .iter()
                .map(|u| format!("{}: not supported: {}\n", place(file, u.span), u.what))
                .collect(),
        }
    }

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
