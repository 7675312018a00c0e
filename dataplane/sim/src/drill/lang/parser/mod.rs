//! Tokens to a [`Script`], by recursive descent.
//!
//! The grammar needs at most three tokens of look-ahead. Nesting only happens in arguments of system
//! calls and is bounded by [`DEPTH_MAX`].

mod packet;
mod syscall;
#[cfg(test)]
mod tests;

use core::time::Duration;

use super::ast::{
    Action, Code, Command, Direction, Event, EventTime, PacketBody, Script, ScriptOption, Span,
    TcpOptions, Tos,
};
use super::error::ScriptError;
use super::lexer::{Token, TokenKind, tokens};
use super::options::Definitions;
use super::{python, shell};

/// Deepest nesting of lists and structures.
pub const DEPTH_MAX: u32 = 32;

/// The latest time that a script may name, in seconds: thirty years.
pub const SECONDS_MAX: u64 = 1_000_000_000;

/// Words of the grammar; a user's symbol does not replace them.
const RESERVED: &[&str] = &[
    "FO",
    "FOEXP",
    "Flags",
    "GREv0",
    "TS",
    "ack",
    "ce",
    "ceb",
    "checksum",
    "cmsg_data",
    "cmsg_level",
    "cmsg_type",
    "e0b",
    "e1b",
    "ecr",
    "ect0",
    "ect01",
    "ect1",
    "ee_code",
    "ee_data",
    "ee_errno",
    "ee_info",
    "ee_origin",
    "ee_type",
    "encap",
    "eol",
    "events",
    "fd",
    "flags",
    "flowlabel",
    "gre",
    "htons",
    "icmp",
    "id",
    "inet6_addr",
    "inet_addr",
    "ipv4",
    "ipv6",
    "key",
    "label",
    "linger",
    "md5",
    "mpls",
    "msg_control",
    "msg_flags",
    "msg_iov",
    "msg_name",
    "mss",
    "mtu",
    "noecn",
    "none",
    "nop",
    "off",
    "onoff",
    "present",
    "psp",
    "ptr",
    "raw",
    "revents",
    "sa_family",
    "sack",
    "sackOK",
    "scm_nsec",
    "scm_sec",
    "seq",
    "sin_addr",
    "sin_port",
    "spi",
    "sum",
    "tc",
    "tos",
    "ttl",
    "u32",
    "u64",
    "udp",
    "urg",
    "val",
    "win",
    "wscale",
];

/// Parses a script. `definitions` are the symbols of the command line; those of the script's own
/// options come below them.
pub fn parse(text: &str, definitions: &Definitions) -> Result<Script, ScriptError> {
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0, depth: 0 };
    let options = parser.options()?;
    let mut symbols = Definitions::default();
    for option in options.iter().filter(|option| option.name == "define") {
        let value = option.value.as_deref().unwrap_or("");
        symbols.define(value).map_err(|text| ScriptError::new(option.span, text))?;
    }
    symbols.extend(definitions);
    parser.substitute(&symbols);
    parser.script(options)
}

/// Parses one packet, as a test or a tool may want to.
pub fn parse_packet(text: &str) -> Result<super::ast::Packet, ScriptError> {
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0, depth: 0 };
    let packet = parser.packet()?;
    parser.end()?;
    Ok(packet)
}

/// Parses one system call with its result.
pub fn parse_syscall(text: &str) -> Result<super::ast::Syscall, ScriptError> {
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0, depth: 0 };
    let syscall = parser.syscall()?;
    parser.end()?;
    Ok(syscall)
}

struct Parser<'a> {
    text: &'a str,
    /// Never empty: the last one is [`TokenKind::End`].
    tokens: Vec<Token>,
    at: usize,
    depth: u32,
}

type Parsed<T> = Result<T, ScriptError>;

/// Helpers: looking, taking, refusing.
impl Parser<'_> {
    fn kind_at(&self, ahead: usize) -> &TokenKind {
        self.tokens.get(self.at.saturating_add(ahead)).map_or(&TokenKind::End, |token| &token.kind)
    }

    fn kind(&self) -> &TokenKind {
        self.kind_at(0)
    }

    fn span(&self) -> Span {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(Span::default(), |token| token.span)
    }

    fn advance(&mut self) {
        self.at = self.at.saturating_add(1).min(self.tokens.len().saturating_sub(1));
    }

    fn is_symbol(&self, symbol: char) -> bool {
        *self.kind() == TokenKind::Symbol(symbol)
    }

    fn word(&self) -> Option<&str> {
        match self.kind() {
            TokenKind::Word(word) => Some(word),
            _ => None,
        }
    }

    fn is_word(&self, word: &str) -> bool {
        self.word() == Some(word)
    }

    /// Takes the next token if it is this symbol.
    fn eat(&mut self, symbol: char) -> bool {
        let found = self.is_symbol(symbol);
        if found {
            self.advance();
        }
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.advance();
        }
        found
    }

    /// "expected …, found …" at the next token.
    fn expected<T>(&self, what: &str) -> Parsed<T> {
        let found = self.kind().describe();
        Err(ScriptError::new(self.span(), format!("expected {what}, found {found}")))
    }

    fn expect(&mut self, symbol: char) -> Parsed<()> {
        if self.eat(symbol) { Ok(()) } else { self.expected(&format!("'{symbol}'")) }
    }

    fn expect_word(&mut self, word: &str) -> Parsed<()> {
        if self.eat_word(word) { Ok(()) } else { self.expected(&format!("'{word}'")) }
    }

    fn any_word(&mut self, what: &str) -> Parsed<String> {
        match self.word().map(str::to_owned) {
            Some(word) => {
                self.advance();
                Ok(word)
            }
            None => self.expected(what),
        }
    }

    /// A number in a range, decimal or hexadecimal.
    fn number(&mut self, what: &str, min: i64, max: i64) -> Parsed<i64> {
        let value = match self.kind() {
            TokenKind::Integer(text) => text.parse::<i64>().ok(),
            TokenKind::Hex(value) => i64::try_from(*value).ok(),
            _ => return self.expected(what),
        };
        match value {
            Some(value) if (min..=max).contains(&value) => {
                self.advance();
                Ok(value)
            }
            _ => {
                let found = self.kind().describe();
                let message = format!("{what} must be within {min} and {max}, found {found}");
                Err(ScriptError::new(self.span(), message))
            }
        }
    }

    fn u8(&mut self, what: &str) -> Parsed<u8> {
        // In range, so nothing is cut off; likewise below.
        Ok(self.number(what, 0, i64::from(u8::MAX))? as u8)
    }

    fn u16(&mut self, what: &str) -> Parsed<u16> {
        Ok(self.number(what, 0, i64::from(u16::MAX))? as u16)
    }

    fn u32(&mut self, what: &str) -> Parsed<u32> {
        Ok(self.number(what, 0, i64::from(u32::MAX))? as u32)
    }

    fn end(&self) -> Parsed<()> {
        if *self.kind() == TokenKind::End { Ok(()) } else { self.expected("the end") }
    }
}

/// The script as a whole.
impl Parser<'_> {
    fn options(&mut self) -> Parsed<Vec<ScriptOption>> {
        let mut options = Vec::new();
        while let TokenKind::Option { name, value } = self.kind() {
            let option =
                ScriptOption { name: name.clone(), value: value.clone(), span: self.span() };
            options.push(option);
            self.advance();
        }
        Ok(options)
    }

    /// Replaces the user's symbols in what is left.
    fn substitute(&mut self, symbols: &Definitions) {
        for token in self.tokens.iter_mut().skip(self.at) {
            if let TokenKind::Word(word) = &token.kind
                && !RESERVED.contains(&word.as_str())
                && let Some(value) = symbols.token(word)
            {
                token.kind = value;
            }
        }
    }

    fn script(&mut self, options: Vec<ScriptOption>) -> Parsed<Script> {
        let mut script = Script { options, ..Script::default() };
        script.init = self.command();
        while *self.kind() != TokenKind::End {
            if let Some(cleanup) = self.command() {
                script.cleanup = Some(cleanup);
                if *self.kind() != TokenKind::End {
                    return self.expected(
                        "the end of the script, since shell text without a time comes last",
                    );
                }
                break;
            }
            script.events.push(self.event()?);
        }
        if script.events.is_empty() {
            return self.expected("an event");
        }
        Ok(script)
    }

    fn command(&mut self) -> Option<Command> {
        let TokenKind::BackQuoted(text) = self.kind() else { return None };
        let (text, span) = (text.clone(), self.span());
        self.advance();
        let steps = shell::parse(&text, span.line);
        Some(Command { span, text, steps })
    }

    fn event(&mut self) -> Parsed<Event> {
        let span = self.span();
        let time = self.time()?;
        let action = self.action()?;
        let outbound =
            matches!(&action, Action::Packet(packet) if packet.direction == Direction::Outbound);
        if !outbound && !matches!(time, EventTime::At(_) | EventTime::After(_)) {
            return Err(ScriptError::new(
                span,
                "'*' and windows of time are for outbound packets only",
            ));
        }
        if let Action::Packet(packet) = &action {
            check_direction(packet)?;
        }
        if let (Action::Syscall(call), EventTime::At(start)) = (&action, time)
            && call.end.is_some_and(|end| end < start)
        {
            return Err(ScriptError::new(call.span, "the call would return before it begins"));
        }
        Ok(Event { span, time, action })
    }

    fn time(&mut self) -> Parsed<EventTime> {
        let span = self.span();
        if self.eat('*') {
            return Ok(EventTime::Any);
        }
        let relative = self.eat('+');
        let first = self.seconds()?;
        if !self.eat('~') {
            return Ok(if relative { EventTime::After(first) } else { EventTime::At(first) });
        }
        if relative {
            self.expect('+')?;
        }
        let second = self.seconds()?;
        if second < first {
            return Err(ScriptError::new(span, "this window of time ends before it begins"));
        }
        Ok(if relative {
            EventTime::AfterWithin(first, second)
        } else {
            EventTime::Within(first, second)
        })
    }

    /// Seconds with up to nine digits after the point; more are cut off.
    fn seconds(&mut self) -> Parsed<Duration> {
        let (TokenKind::Decimal(text) | TokenKind::Integer(text)) = self.kind() else {
            return self.expected("a time in seconds");
        };
        match seconds(text) {
            Some(time) => {
                self.advance();
                Ok(time)
            }
            None => Err(ScriptError::new(
                self.span(),
                format!("'{text}' is no time: seconds from 0 to {SECONDS_MAX}"),
            )),
        }
    }

    fn action(&mut self) -> Parsed<Action> {
        if let Some(command) = self.command() {
            return Ok(Action::Command(command));
        }
        match self.kind() {
            TokenKind::Symbol('<' | '>') => Ok(Action::Packet(Box::new(self.packet()?))),
            TokenKind::Word(_) | TokenKind::Ellipsis => {
                Ok(Action::Syscall(Box::new(self.syscall()?)))
            }
            TokenKind::Code(text) => {
                let (text, span) = (text.clone(), self.span());
                let program = python::parse(&text, span.line)
                    .map_err(|error| ScriptError::new(Span::new(error.line, 1), error.message))?;
                self.advance();
                Ok(Action::Code(Code { span, text, program }))
            }
            _ => self.expected("a packet, a system call, shell text or a Python snippet"),
        }
    }
}

/// What only makes sense in one direction.
fn check_direction(packet: &super::ast::Packet) -> Parsed<()> {
    if packet.direction == Direction::Outbound {
        return Ok(());
    }
    let refuse = |message: &str| Err(ScriptError::new(packet.span, message));
    if packet.ip.tos == Some(Tos::AnyEct) {
        return refuse("'ect01' is for outbound packets; say ect0 or ect1 here");
    }
    if let PacketBody::Tcp(tcp) = &packet.body {
        if tcp.window.is_none() {
            return refuse("an inbound TCP packet needs 'win N'");
        }
        if tcp.options == TcpOptions::Unchecked {
            return refuse("'<...>' is for outbound packets; say which options to send");
        }
    }
    Ok(())
}

fn seconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()? };
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let nanos = digits.parse::<u32>().ok()?;
    (seconds <= SECONDS_MAX).then(|| Duration::new(seconds, nanos))
}
