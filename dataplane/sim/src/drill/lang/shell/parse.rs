//! Splitting shell text into pipelines of simple commands.

use super::recognise::recognise;
use super::{Action, Step, When};

/// Most steps of one shell text; what follows is one unsupported step.
const STEPS_MAX: usize = 1000;

/// A word after quotes and escapes are resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    /// A `$` or a back quote that a shell would expand.
    pub(super) expands: bool,
}

/// A redirection other than to `/dev/null` or between descriptors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Redirect {
    /// `>`, `>>` or `<`, perhaps with a descriptor before it.
    pub(super) operator: String,
    pub(super) target: Word,
}

/// Words and redirections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Simple {
    pub(super) words: Vec<Word>,
    pub(super) redirects: Vec<Redirect>,
}

/// Simple commands joined by `|`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pipeline {
    pub(super) commands: Vec<Simple>,
    /// `! …`.
    pub(super) negated: bool,
}

/// Splits shell text that begins in `line` of a script, and recognises its commands.
pub fn parse(text: &str, line: u32) -> Vec<Step> {
    let mut splitter = Splitter { text, at: 0, line };
    let mut steps = Vec::new();
    let mut when = When::Always;
    while splitter.skip_to_command() {
        let (start, line) = (splitter.at, splitter.line);
        let pipeline = if steps.len() < STEPS_MAX { splitter.pipeline() } else { None };
        let action = match &pipeline {
            Some(pipeline) => recognise(pipeline),
            None => {
                // Where one command ends is not known, so the rest goes with it.
                splitter.at = text.len();
                None
            }
        };
        let text = text.get(start..splitter.at).unwrap_or("").trim();
        let action = action.unwrap_or_else(|| Action::Unsupported { text: text.to_owned() });
        steps.push(Step { line, when, action });
        when = splitter.separator();
    }
    steps
}

struct Splitter<'a> {
    text: &'a str,
    at: usize,
    line: u32,
}

impl<'a> Splitter<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at = self.at.saturating_add(c.len_utf8());
        if c == '\n' {
            self.line = self.line.saturating_add(1);
        }
        Some(c)
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            for _ in text.chars() {
                self.next();
            }
        }
        found
    }

    /// Blanks, continuation lines and comments.
    fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t' | '\r') => {
                    self.next();
                }
                Some('\\') if self.rest().starts_with("\\\n") => {
                    self.eat("\\\n");
                }
                Some('#') => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.next();
                    }
                }
                _ => return,
            }
        }
    }

    /// Whether there is another command; empty ones are skipped.
    fn skip_to_command(&mut self) -> bool {
        loop {
            self.skip_blanks();
            match self.peek() {
                Some('\n' | ';') => {
                    self.next();
                }
                other => return other.is_some(),
            }
        }
    }

    fn separator(&mut self) -> When {
        self.skip_blanks();
        if self.eat("&&") {
            When::Succeeded
        } else if self.eat("||") {
            When::Failed
        } else {
            When::Always
        }
    }

    /// `None` when this is more shell than is understood here.
    fn pipeline(&mut self) -> Option<Pipeline> {
        let mut pipeline = Pipeline { commands: Vec::new(), negated: false };
        if self.rest().starts_with("! ") {
            self.eat("! ");
            pipeline.negated = true;
        }
        loop {
            // A pipe may be followed by new lines.
            while self.peek().is_some_and(char::is_whitespace) {
                self.next();
            }
            let command = self.simple()?;
            if command.words.is_empty() {
                return None;
            }
            pipeline.commands.push(command);
            if self.rest().starts_with("||") || !self.eat("|") {
                break;
            }
        }
        match self.peek() {
            None | Some('\n' | ';') => Some(pipeline),
            _ if self.rest().starts_with("&&") || self.rest().starts_with("||") => Some(pipeline),
            // Background jobs, groups, subshells.
            _ => None,
        }
    }

    fn simple(&mut self) -> Option<Simple> {
        let mut command = Simple::default();
        loop {
            self.skip_blanks();
            let descriptor = self.rest().len()
                - self.rest().trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let after = self.rest().get(descriptor..).unwrap_or("");
            if after.starts_with(['<', '>']) || self.rest().starts_with("&>") {
                self.redirect(descriptor, &mut command)?;
                continue;
            }
            match self.peek() {
                None | Some('\n' | ';' | '|' | '&' | '(' | ')') => return Some(command),
                _ => command.words.push(self.word()?),
            }
        }
    }

    fn redirect(&mut self, descriptor: usize, command: &mut Simple) -> Option<()> {
        let start = self.at;
        self.at = self.at.saturating_add(descriptor);
        self.eat("&");
        while matches!(self.peek(), Some('<' | '>')) {
            self.next();
        }
        let operator = self.text.get(start..self.at).unwrap_or("").to_owned();
        if self.eat("&") {
            // From descriptor to descriptor.
            self.word()?;
            return Some(());
        }
        self.skip_blanks();
        let target = self.word()?;
        if target.text != "/dev/null" {
            command.redirects.push(Redirect { operator, target });
        }
        Some(())
    }

    fn word(&mut self) -> Option<Word> {
        let mut word = Word { text: String::new(), expands: false };
        let start = self.at;
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\r' | '\n' | ';' | '|' | '&' | '<' | '>' | '(' | ')' => break,
                '\'' => {
                    self.next();
                    self.quoted('\'', &mut word)?;
                }
                '"' => {
                    self.next();
                    self.quoted('"', &mut word)?;
                }
                '\\' => {
                    self.next();
                    match self.next() {
                        Some('\n') => {}
                        Some(c) => word.text.push(c),
                        None => return None,
                    }
                }
                _ if self.arithmetic(&mut word) => {}
                _ => {
                    self.next();
                    word.expands |= matches!(c, '$' | '`' | '*' | '?');
                    word.text.push(c);
                }
            }
        }
        (self.at > start).then_some(word)
    }

    fn quoted(&mut self, quote: char, word: &mut Word) -> Option<()> {
        loop {
            if quote == '"' && self.arithmetic(word) {
                continue;
            }
            let c = self.next()?;
            match c {
                _ if c == quote => return Some(()),
                '\\' if quote == '"' => match self.next()? {
                    '\n' => {}
                    c @ ('"' | '\\' | '$' | '`') => word.text.push(c),
                    c => word.text.extend(['\\', c]),
                },
                _ => {
                    word.expands |= quote == '"' && matches!(c, '$' | '`');
                    word.text.push(c);
                }
            }
        }
    }

    /// Takes `$((…))` of plain numbers, if that is what comes next.
    fn arithmetic(&mut self, word: &mut Word) -> bool {
        let Some(rest) = self.rest().strip_prefix("$((") else { return false };
        // Bounded, or many openings without an end would take quadratic time.
        let mut pairs = rest.as_bytes().windows(2).take(ARITHMETIC_MAX);
        let end = pairs.position(|pair| pair == b"))");
        let Some(inner) = end.and_then(|end| rest.get(..end)) else { return false };
        let Some(value) = sum(inner) else { return false };
        self.at = self.at.saturating_add("$(())".len()).saturating_add(inner.len());
        word.text.push_str(&value.to_string());
        true
    }
}

/// Longest arithmetic that is read.
const ARITHMETIC_MAX: usize = 100;

/// Sums and differences of products; no parentheses, no negative numbers.
fn sum(text: &str) -> Option<i64> {
    if text.contains('\n') {
        return None;
    }
    let mut total = 0_i64;
    let mut rest = text;
    let mut negative = false;
    loop {
        let end = rest.find(['+', '-']).unwrap_or(rest.len());
        let product = rest.get(..end)?.split('*').try_fold(1_i64, |product, factor| {
            product.checked_mul(i64::from(factor.trim().parse::<u32>().ok()?))
        })?;
        total = if negative { total.checked_sub(product)? } else { total.checked_add(product)? };
        let Some(operator) = rest.get(end..).and_then(|rest| rest.chars().next()) else {
            return Some(total);
        };
        negative = operator == '-';
        rest = rest.get(end.checked_add(1)?..)?;
    }
}
