//! What is wrong with a script, and where.

use core::fmt;

use super::ast::Span;

/// A script that cannot be read. Not the same as one that asks for something unsupported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// Where it is.
    pub span: Span,
    /// What is wrong, and what was expected.
    pub message: String,
}

/// Characters of a source line that a report shows.
const SHOWN_CHARS: usize = 160;

impl ScriptError {
    /// An error at a place.
    pub fn new(span: Span, message: impl Into<String>) -> Self {
        Self { span, message: message.into() }
    }

    /// `file:line:column: message`, then the line with a mark under the place.
    pub fn render(&self, file: &str, source: &str) -> String {
        render(file, source, self.span, &self.message)
    }
}

/// `file:line:column: message`, then the line with a mark under the place. A span on the command
/// line (line 0) has neither line nor mark.
pub fn render(file: &str, source: &str, span: Span, message: &str) -> String {
    let Some(index) = usize::try_from(span.line).ok().and_then(|line| line.checked_sub(1)) else {
        return format!("{file}: {message}");
    };
    let mut out = format!("{file}:{}:{}: {message}", span.line, span.column);
    if let Some(line) = source.lines().nth(index) {
        let column = usize::try_from(span.column).unwrap_or(usize::MAX).saturating_sub(1);
        // Tabs and control characters would move the mark.
        let clean = |c: char| if c.is_control() { ' ' } else { c };
        let shown: String = line.chars().take(SHOWN_CHARS).map(clean).collect();
        out.push_str("\n    ");
        out.push_str(shown.trim_end());
        if column < SHOWN_CHARS {
            out.push_str("\n    ");
            out.extend(core::iter::repeat_n(' ', column));
            out.push('^');
        }
    }
    out
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.span.line, self.span.column, self.message)
    }
}

impl std::error::Error for ScriptError {}
