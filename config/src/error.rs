//! What is wrong with a configuration, and where.

use core::fmt;
use core::ops::Range;

use crate::text::nearest;

/// A configuration that cannot be used: where the fault is, what it is, what would help.
///
/// Displayed as `FILE:LINE:COL: key: what`, then indented lines with what to do. The caller puts the
/// name of the program in front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, as it was named; `None` if the fault is on the command line.
    pub file: Option<String>,
    /// Line and column in characters, both from 1.
    pub line: Option<(usize, usize)>,
    /// The key in the file, or the flag.
    pub key: Option<String>,
    /// What is wrong, on one line.
    pub what: String,
    /// What to do, one line each.
    pub help: Vec<String>,
}

impl ConfigError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        // What a parser says may come in several lines; a fault gets one.
        let what = what.into().split_whitespace().collect::<Vec<_>>().join(" ");
        Self { file: None, line: None, key: None, what, help: Vec::new() }
    }

    pub(crate) fn in_file(mut self, file: &str) -> Self {
        self.file = Some(file.into());
        self
    }

    pub(crate) fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    pub(crate) fn help(mut self, line: impl Into<String>) -> Self {
        self.help.push(line.into());
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}")?;
            if let Some((line, column)) = self.line {
                write!(f, ":{line}:{column}")?;
            }
            f.write_str(": ")?;
        }
        if let Some(key) = &self.key {
            write!(f, "{key}: ")?;
        }
        f.write_str(&self.what)?;
        for line in &self.help {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

impl core::error::Error for ConfigError {}

/// Where a value was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    /// Bytes of the file.
    Span(Range<usize>),
    /// A flag of the command line.
    Flag(&'static str),
    /// Nowhere: it is missing, or a default.
    #[default]
    Nowhere,
}

/// The text that places point into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'a> {
    /// Name of the file; `None` for the command line alone.
    pub(crate) file: Option<&'a str>,
    /// What it says.
    pub(crate) text: &'a str,
}

impl Text<'_> {
    /// The fault `what` of `key`, at `place`.
    pub(crate) fn error(&self, place: &Place, key: &str, what: impl Into<String>) -> ConfigError {
        let mut error = ConfigError::new(what);
        match place {
            Place::Span(span) => {
                error.file = self.file.map(Into::into);
                error.line = Some(position(self.text, span.start));
                error.key(key)
            }
            Place::Flag(flag) => error.key(*flag),
            Place::Nowhere => {
                error.file = self.file.map(Into::into);
                if key.is_empty() { error } else { error.key(key) }
            }
        }
    }

    /// The fault that the parser found.
    pub(crate) fn parse_error(&self, error: &toml::de::Error) -> ConfigError {
        // Names of Rust's types mean nothing to whoever wrote the file.
        let message = error
            .message()
            .replace("expected i64", "expected a whole number")
            .replace("invalid type: map", "invalid type: table");
        let mut ours = ConfigError::new(message.as_str());
        ours.file = self.file.map(Into::into);
        ours.line = error.span().map(|span| position(self.text, span.start));
        if let Some(rest) = message.strip_prefix("unknown field `") {
            // serde names the field first and then all that it would have taken.
            let mut words = rest.split('`').step_by(2).map(str::trim);
            let field = words.next().unwrap_or_default();
            let known: Vec<&str> = rest.split('`').skip(2).step_by(2).collect();
            ours.what = format!("unknown key {}", crate::text::quote(field));
            if let Some(near) = nearest(field, known.iter().copied()) {
                ours.what.push_str(&format!(": did you mean {near}?"));
            }
            ours.help.push(format!("keys here: {}", known.join(", ")));
        } else if message.contains("expected a sequence") {
            ours.help.push("write [[port]] and [[app]] with two brackets, lists as [1, 2]".into());
        }
        ours
    }
}

/// Line and column, from 1, of a byte of `text`; the end of the text for one beyond it.
pub fn position(text: &str, byte: usize) -> (usize, usize) {
    let before = text.as_bytes().get(..byte).unwrap_or(text.as_bytes());
    let line_start = before.iter().rposition(|&b| b == b'\n').map_or(0, |i| i + 1);
    let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
    // Characters, not bytes: what an editor shows. Continuation bytes begin no character.
    let column = before[line_start..].iter().filter(|&&b| b & 0xc0 != 0x80).count() + 1;
    (line, column)
}
