//! Snippets to lexemes, with Python's rules of lines and indentation.

use super::{Parsed, SyntaxError};
use crate::drill::lang::python::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lexeme {
    pub(super) line: u32,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Name(String),
    Constant(Value),
    Op(&'static str),
    Newline,
    Indent,
    Dedent,
    End,
}

impl Kind {
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Name(name) => format!("'{name}'"),
            Self::Constant(value) => value.repr(),
            Self::Op(op) => format!("'{op}'"),
            Self::Newline => "the end of the line".into(),
            Self::Indent => "indentation".into(),
            Self::Dedent => "the end of the block".into(),
            Self::End => "the end of the snippet".into(),
        }
    }
}

/// Longest first, so that the first match is the longest.
const OPS: &[&str] = &[
    "**=", "//=", "<<=", ">>=", "==", "!=", "<=", ">=", "<<", ">>", "**", "//", "+=", "-=", "*=",
    "/=", "%=", "&=", "|=", "^=", "->", ":=", "+", "-", "*", "/", "%", "&", "|", "^", "~", "<",
    ">", "=", "(", ")", "[", "]", "{", "}", ",", ":", ".", ";", "@",
];

/// Digits of a number.
const DIGITS_MAX: usize = 36;

pub(super) fn scan(text: &str, line: u32) -> Parsed<Vec<Lexeme>> {
    let mut scanner = Scanner { text, at: 0, line, out: Vec::new(), indents: vec![0], brackets: 0 };
    scanner.run()?;
    Ok(scanner.out)
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    out: Vec<Lexeme>,
    /// Open indentations; the first is 0.
    indents: Vec<usize>,
    brackets: u32,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at = self.at.saturating_add(c.len_utf8());
        Some(c)
    }

    fn push(&mut self, kind: Kind) {
        self.out.push(Lexeme { line: self.line, kind });
    }

    fn refuse<T>(&self, message: &str) -> Parsed<T> {
        Err(SyntaxError { line: self.line, message: format!("Python: {message}") })
    }

    fn run(&mut self) -> Parsed<()> {
        let mut at_start = true;
        loop {
            if at_start {
                self.indentation()?;
                at_start = false;
            }
            let Some(c) = self.peek() else { break };
            match c {
                ' ' | '\t' | '\r' | '\u{c}' => {
                    self.bump();
                }
                '\n' => {
                    self.bump();
                    if self.brackets == 0 {
                        if !matches!(
                            self.out.last().map(|lexeme| &lexeme.kind),
                            None | Some(Kind::Newline | Kind::Indent | Kind::Dedent)
                        ) {
                            self.push(Kind::Newline);
                        }
                        at_start = true;
                    }
                    self.line = self.line.saturating_add(1);
                }
                '#' => self.skip_comment(),
                '\\' => {
                    self.bump();
                    let rest = self.rest();
                    let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\r']).len();
                    self.at = self.at.saturating_add(blank);
                    match self.bump() {
                        Some('\n') => self.line = self.line.saturating_add(1),
                        None => {}
                        Some(_) => return self.refuse("'\\' that does not end its line"),
                    }
                }
                '"' | '\'' => {
                    let text = self.string(c)?;
                    self.push(Kind::Constant(Value::Text(text)));
                }
                _ if c.is_ascii_digit() => self.number()?,
                '.' if self.rest().chars().nth(1).is_some_and(|c| c.is_ascii_digit()) => {
                    self.number()?;
                }
                _ if c.is_alphabetic() || c == '_' => {
                    let rest = self.rest();
                    let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
                    let name = rest.get(..len.unwrap_or(rest.len())).unwrap_or("");
                    self.at = self.at.saturating_add(name.len());
                    self.push(Kind::Name(name.to_owned()));
                }
                _ => self.operator(c)?,
            }
        }
        if self.brackets > 0 {
            return self.refuse("a bracket is not closed");
        }
        if !matches!(self.out.last().map(|lexeme| &lexeme.kind), None | Some(Kind::Newline)) {
            self.push(Kind::Newline);
        }
        for _ in 1..self.indents.len() {
            self.push(Kind::Dedent);
        }
        self.push(Kind::End);
        Ok(())
    }

    fn skip_comment(&mut self) {
        let rest = self.rest();
        self.at = self.at.saturating_add(rest.find('\n').unwrap_or(rest.len()));
    }

    /// Indents and dedents at the start of a line that is not blank.
    fn indentation(&mut self) -> Parsed<()> {
        let rest = self.rest();
        let line = rest.lines().next().unwrap_or("");
        let body = line.trim_start_matches([' ', '\t', '\r']);
        if body.is_empty() || body.starts_with('#') {
            return Ok(());
        }
        let width = line.len().saturating_sub(body.len());
        let current = self.indents.last().copied().unwrap_or(0);
        if width > current {
            // Only a line that ends in a colon may be followed by a deeper one.
            if !self.after_colon() {
                return self.refuse("this line is indented for no reason");
            }
            self.indents.push(width);
            self.push(Kind::Indent);
        }
        while width < self.indents.last().copied().unwrap_or(0) {
            self.indents.pop();
            self.push(Kind::Dedent);
        }
        if width != self.indents.last().copied().unwrap_or(0) {
            return self.refuse("this indentation matches no line above");
        }
        Ok(())
    }

    fn after_colon(&self) -> bool {
        let mut before = self.out.iter().rev().map(|lexeme| &lexeme.kind);
        before.next() == Some(&Kind::Newline) && before.next() == Some(&Kind::Op(":"))
    }

    fn operator(&mut self, c: char) -> Parsed<()> {
        let Some(op) = OPS.iter().find(|op| self.rest().starts_with(**op)) else {
            return self.refuse(&format!("unexpected character '{}'", c.escape_default()));
        };
        self.at = self.at.saturating_add(op.len());
        match *op {
            "(" | "[" | "{" => self.brackets = self.brackets.saturating_add(1),
            ")" | "]" | "}" => match self.brackets.checked_sub(1) {
                Some(brackets) => self.brackets = brackets,
                None => return self.refuse(&format!("'{op}' closes nothing")),
            },
            _ => {}
        }
        self.push(Kind::Op(op));
        Ok(())
    }

    fn string(&mut self, quote: char) -> Parsed<String> {
        self.bump();
        let mut text = String::new();
        loop {
            match self.bump() {
                None | Some('\n') => return self.refuse("a string is not closed"),
                Some(c) if c == quote => return Ok(text),
                Some('\\') => match self.bump() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('\n') => self.line = self.line.saturating_add(1),
                    Some(c @ ('\\' | '\'' | '"')) => text.push(c),
                    Some(c) => text.extend(['\\', c]),
                    None => return self.refuse("a string is not closed"),
                },
                Some(c) => text.push(c),
            }
        }
    }

    fn number(&mut self) -> Parsed<()> {
        let rest = self.rest();
        let len = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.');
        let text = rest.get(..len.unwrap_or(rest.len())).unwrap_or("");
        let Some(value) = number(text) else {
            return self.refuse(&format!("'{text}' is no number that fits"));
        };
        self.at = self.at.saturating_add(text.len());
        self.push(Kind::Constant(value));
        Ok(())
    }
}

/// An integer in base 10, 16, 8 or 2, or a decimal fraction, perhaps with an exponent.
fn number(text: &str) -> Option<Value> {
    let text = text.replace('_', "");
    if text.len() > DIGITS_MAX {
        return None;
    }
    for (prefix, radix) in [("0x", 16), ("0X", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            return i128::from_str_radix(digits, radix).ok().map(Value::Int);
        }
    }
    if let Ok(value) = text.parse() {
        return Some(Value::Int(value));
    }
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
    let exponent: u32 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let scale = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    Value::ratio(digits.checked_mul(10_i128.checked_pow(exponent)?)?, scale)
}
