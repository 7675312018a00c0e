//! Text to tokens.
//!
//! Words and numbers follow the longest match: `0x1f` is a number, `1f2e` a word, `.5` a decimal,
//! and an IPv6 address needs a `::` or eight groups, so that `1:1001` stays a range. An option takes
//! its value as raw text, so that `--ip_version=ipv4-mapped-ipv6` needs no quotes.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::ast::Span;
use super::error::ScriptError;

/// Longest script that is read, in bytes.
pub const SCRIPT_BYTES_MAX: usize = 4 << 20;

/// Longest IPv6 address as text, `ffff:` seven times and an IPv4 address.
const IPV6_TEXT_MAX: usize = 45;

/// A token with its place in the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) span: Span,
    /// Byte offsets in the text.
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) kind: TokenKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind {
    /// `--name[=value]`, the value raw.
    Option {
        name: String,
        value: Option<String>,
    },
    /// Decimal digits, maybe with a minus; as text, since a cookie may look like a number.
    Integer(String),
    /// The value after `0x`.
    Hex(u64),
    /// A number with a point, as text.
    Decimal(String),
    Word(String),
    /// A string with escapes resolved.
    Text(Vec<u8>),
    BackQuoted(String),
    /// The text between `%{` and `}%`.
    Code(String),
    Ipv4(Ipv4Addr),
    Ipv6(Ipv6Addr),
    Ellipsis,
    Symbol(char),
    End,
}

impl TokenKind {
    /// For "found …" in messages.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Option { name, .. } => format!("option '--{name}'"),
            Self::Integer(text) | Self::Decimal(text) => format!("number '{text}'"),
            Self::Hex(value) => format!("number '{value:#x}'"),
            Self::Word(word) => format!("word '{word}'"),
            Self::Text(_) => "a string".into(),
            Self::BackQuoted(_) => "shell text".into(),
            Self::Code(_) => "a Python snippet".into(),
            Self::Ipv4(address) => format!("address '{address}'"),
            Self::Ipv6(address) => format!("address '{address}'"),
            Self::Ellipsis => "'...'".into(),
            Self::Symbol(c) => format!("'{c}'"),
            Self::End => "the end of the script".into(),
        }
    }
}

/// All tokens of a text; the last one is [`TokenKind::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, ScriptError> {
    if text.len() > SCRIPT_BYTES_MAX {
        let message = format!("the script is longer than {SCRIPT_BYTES_MAX} bytes");
        return Err(ScriptError::new(Span::new(1, 1), message));
    }
    let mut lexer = Lexer { text, at: 0, line: 1, column: 1 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blanks()?;
        let (span, start) = (lexer.span(), lexer.at);
        let kind = lexer.token(span)?;
        let done = kind == TokenKind::End;
        tokens.push(Token { span, start, end: lexer.at, kind });
        if done {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    column: u32,
}

impl<'a> Lexer<'a> {
    const fn span(&self) -> Span {
        Span::new(self.line, self.column)
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Moves over `len` bytes, which end at a character.
    fn advance(&mut self, len: usize) -> &'a str {
        let taken = self.rest().get(..len).unwrap_or("");
        for c in taken.chars() {
            if c == '\n' {
                self.line = self.line.saturating_add(1);
                self.column = 1;
            } else {
                self.column = self.column.saturating_add(1);
            }
        }
        self.at = self.at.saturating_add(taken.len());
        taken
    }

    /// Moves over the characters for which `keep` holds.
    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.advance(len)
    }

    fn skip_blanks(&mut self) -> Result<(), ScriptError> {
        loop {
            self.take_while(|c| c.is_whitespace() || c == '\u{feff}');
            let span = self.span();
            if self.rest().starts_with("//") {
                self.take_while(|c| c != '\n');
            } else if self.rest().starts_with("/*") {
                self.until("/*", "*/", span, "comment")?;
            } else {
                return Ok(());
            }
        }
    }

    /// What stands between `open`, which is next, and `close`.
    fn until(
        &mut self,
        open: &str,
        close: &str,
        span: Span,
        what: &str,
    ) -> Result<&'a str, ScriptError> {
        self.advance(open.len());
        let Some(len) = self.rest().find(close) else {
            return Err(ScriptError::new(span, format!("this {what} has no '{close}'")));
        };
        let inner = self.advance(len);
        self.advance(close.len());
        Ok(inner)
    }

    fn token(&mut self, span: Span) -> Result<TokenKind, ScriptError> {
        let rest = self.rest();
        let Some(first) = self.peek() else { return Ok(TokenKind::End) };
        if rest.starts_with("...") {
            self.advance(3);
            return Ok(TokenKind::Ellipsis);
        }
        if rest.starts_with("%{") {
            let code = self.until("%{", "}%", span, "Python snippet")?;
            return Ok(TokenKind::Code(code.to_owned()));
        }
        if let Some(name) = rest.strip_prefix("--")
            && name.starts_with(is_word)
        {
            return self.option(span);
        }
        match first {
            '"' => Ok(TokenKind::Text(unescape(self.quoted('"', span)?))),
            '`' => Ok(TokenKind::BackQuoted(self.quoted('`', span)?.to_owned())),
            _ => match self.address().or_else(|| self.number()) {
                Some(kind) => Ok(kind),
                None if is_word(first) => Ok(TokenKind::Word(self.take_while(is_word).to_owned())),
                None => {
                    self.advance(first.len_utf8());
                    Ok(TokenKind::Symbol(first))
                }
            },
        }
    }

    /// What stands between two quotes; a back-slash protects the next character.
    fn quoted(&mut self, quote: char, span: Span) -> Result<&'a str, ScriptError> {
        self.advance(quote.len_utf8());
        let mut escaped = false;
        let end = self.rest().char_indices().find_map(|(index, c)| {
            let closes = c == quote && !escaped;
            escaped = c == '\\' && !escaped;
            closes.then_some(index)
        });
        let Some(end) = end else {
            return Err(ScriptError::new(span, format!("this text has no closing {quote}")));
        };
        let inner = self.advance(end);
        self.advance(quote.len_utf8());
        Ok(inner)
    }

    fn option(&mut self, span: Span) -> Result<TokenKind, ScriptError> {
        self.advance(2);
        let name = self.take_while(is_word).to_owned();
        // Blanks may surround the sign, but without one the next line is not ours.
        let blanks = self.rest().len().saturating_sub(self.rest().trim_start().len());
        if !self.rest().get(blanks..).is_some_and(|rest| rest.starts_with('=')) {
            return Ok(TokenKind::Option { name, value: None });
        }
        self.advance(blanks.saturating_add(1));
        self.take_while(|c| c == ' ' || c == '\t');
        let start = self.at;
        loop {
            self.take_while(|c| !c.is_whitespace() && !matches!(c, '"' | '`' | '/'));
            match self.peek() {
                Some(quote @ ('"' | '`')) => {
                    self.quoted(quote, span)?;
                }
                Some('/') if !self.rest().starts_with("//") && !self.rest().starts_with("/*") => {
                    self.advance(1);
                }
                _ => break,
            }
        }
        let value = self.text.get(start..self.at).unwrap_or("").to_owned();
        if value.is_empty() {
            return Err(ScriptError::new(span, format!("option '--{name}=' has no value")));
        }
        Ok(TokenKind::Option { name, value: Some(value) })
    }

    fn address(&mut self) -> Option<TokenKind> {
        let rest = self.rest();
        // Bounded before it is searched, or a long run of colons would take quadratic time.
        let run = |extra: char| {
            let head = rest.as_bytes().get(..IPV6_TEXT_MAX).unwrap_or(rest.as_bytes());
            let belongs = |b: &u8| b.is_ascii_hexdigit() || *b == b'.' || char::from(*b) == extra;
            let len = head.iter().position(|b| !belongs(b)).unwrap_or(head.len());
            rest.get(..len).unwrap_or("")
        };
        let candidate = run(':');
        if candidate.contains("::") || candidate.matches(':').count() >= 7 {
            for len in (2..=candidate.len()).rev() {
                let whole = !rest.get(len..).is_some_and(|after| after.starts_with(is_word));
                if let (true, Some(Ok(address))) =
                    (whole, candidate.get(..len).map(str::parse::<Ipv6Addr>))
                {
                    self.advance(len);
                    return Some(TokenKind::Ipv6(address));
                }
            }
        }
        let candidate = run('.');
        let address = candidate.parse::<Ipv4Addr>().ok()?;
        self.advance(candidate.len());
        Some(TokenKind::Ipv4(address))
    }

    fn number(&mut self) -> Option<TokenKind> {
        let rest = self.rest();
        let sign = usize::from(rest.starts_with('-'));
        let unsigned = rest.get(sign..).unwrap_or("");
        let digits = count_digits(unsigned);
        let after = unsigned.get(digits..).unwrap_or("");
        let fraction = after.strip_prefix('.').map_or(0, count_digits);
        let word = unsigned.find(|c| !is_word(c)).unwrap_or(unsigned.len());
        if fraction > 0 && word <= digits {
            let text = self.advance(sign + digits + 1 + fraction);
            return Some(TokenKind::Decimal(text.to_owned()));
        }
        if digits > 0 && (word == digits || sign > 0) {
            return Some(TokenKind::Integer(self.advance(sign + digits).to_owned()));
        }
        let hex = unsigned.get(..word)?.strip_prefix("0x").filter(|_| sign == 0)?;
        let value = u64::from_str_radix(hex, 16).ok()?;
        self.advance(word);
        Some(TokenKind::Hex(value))
    }
}

fn count_digits(text: &str) -> usize {
    text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len())
}

/// Whether a character belongs to words.
pub(super) const fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Resolves the escapes of C; an unknown one stands for its character.
fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some(escape) = bytes.next() else {
            out.push(b'\\');
            break;
        };
        let (radix, digits_max, mut value) = match escape {
            b'x' => (16, 2, None),
            b'0'..=b'7' => (8, 2, Some(u32::from(escape - b'0'))),
            _ => (0, 0, None),
        };
        for _ in 0..digits_max {
            let Some(digit) = bytes.peek().and_then(|b| char::from(*b).to_digit(radix)) else {
                break;
            };
            value = Some(value.unwrap_or(0) * radix + digit);
            bytes.next();
        }
        out.push(match (value, escape) {
            // Three octal digits may exceed a byte; C keeps the low eight bits.
            (Some(value), _) => (value & 0xff) as u8,
            (None, b'n') => b'\n',
            (None, b't') => b'\t',
            (None, b'r') => b'\r',
            (None, b'a') => 7,
            (None, b'b') => 8,
            (None, b'f') => 12,
            (None, b'v') => 11,
            (None, other) => other,
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<TokenKind> {
        let mut kinds: Vec<_> =
            tokens(text).expect("lexes").into_iter().map(|token| token.kind).collect();
        assert_eq!(kinds.pop(), Some(TokenKind::End));
        kinds
    }

    fn shown(text: &str) -> String {
        kinds(text).iter().map(TokenKind::describe).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn numbers_words_and_points_follow_the_longest_match() {
        for (text, expected) in [
            ("0x1F", "number '0x1f'"),
            ("1f2e", "word '1f2e'"),
            ("12", "number '12'"),
            ("-12", "number '-12'"),
            (".5", "number '.5'"),
            ("P.5", "word 'P' number '.5'"),
            ("P5.", "word 'P5' '.'"),
            ("P. 1", "word 'P' '.' number '1'"),
            ("+0...0.100", "'+' number '0' '...' number '0.100'"),
            ("0....5", "number '0' '...' number '.5'"),
            ("1.5~2", "number '1.5' '~' number '2'"),
            ("- 0:0(0)", "'-' number '0' ':' number '0' '(' number '0' ')'"),
            ("0x", "word '0x'"),
            ("0xzz", "word '0xzz'"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn addresses_do_not_swallow_ranges() {
        for (text, expected) in [
            ("1:1001(1000)", "number '1' ':' number '1001' '(' number '1000' ')'"),
            ("10.0.0.1:", "address '10.0.0.1' ':'"),
            ("fd00::1:", "address 'fd00::1' ':'"),
            ("2001:DB8::1 > ::", "address '2001:db8::1' '>' address '::'"),
            ("1:2:3:4:5:6:7:8", "address '1:2:3:4:5:6:7:8'"),
            ("::ffff:10.0.0.1", "address '::ffff:10.0.0.1'"),
            ("1:2 3:4", "number '1' ':' number '2' number '3' ':' number '4'"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn options_take_raw_values() {
        let option = |name: &str, value: Option<&str>| TokenKind::Option {
            name: name.into(),
            value: value.map(str::to_owned),
        };
        assert_eq!(
            kinds("--ip_version=ipv4-mapped-ipv6 // why\n--strict_segments\n--mtu = 1500"),
            [
                option("ip_version", Some("ipv4-mapped-ipv6")),
                option("strict_segments", None),
                option("mtu", Some("1500")),
            ]
        );
        assert_eq!(kinds("--define=A=\"b c\""), [option("define", Some("A=\"b c\""))]);
        assert_eq!(kinds("--remote_ip=10.0.0.1/24"), [option("remote_ip", Some("10.0.0.1/24"))]);
    }

    #[test]
    fn comments_and_strings_know_each_other() {
        assert_eq!(kinds("/* a // b */ \"c // d\" // e"), [TokenKind::Text(b"c // d".to_vec())]);
        assert_eq!(kinds("`a \\` b`"), [TokenKind::BackQuoted("a \\` b".into())]);
        assert_eq!(kinds(r#""\x41\n\101\q""#), [TokenKind::Text(b"A\nAq".to_vec())]);
    }

    #[test]
    fn what_is_not_closed_is_refused_where_it_opens() {
        for (text, span) in
            [("\n /* a", (2, 2)), ("\"a", (1, 1)), ("a `b", (1, 3)), ("%{ }", (1, 1))]
        {
            let error = tokens(text).expect_err(text);
            assert_eq!((error.span.line, error.span.column), span, "{text}");
        }
    }
}
