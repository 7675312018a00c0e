//! System calls and their arguments.

use core::net::IpAddr;

use super::{DEPTH_MAX, Parsed, Parser};
use crate::drill::lang::ast::{
    Cmsg, EpollEvent, EpollMember, Expr, ExprKind, ExtendedError, MsgHdr, PollFd, SockAddr, Span,
    Syscall,
};
use crate::drill::lang::error::ScriptError;
use crate::drill::lang::lexer::TokenKind;
use crate::drill::lang::symbols;

impl Parser<'_> {
    pub(super) fn syscall(&mut self) -> Parsed<Syscall> {
        let end = if *self.kind() == TokenKind::Ellipsis {
            self.advance();
            Some(self.seconds()?)
        } else {
            None
        };
        let span = self.span();
        let name = self.any_word("the name of a system call")?;
        self.expect('(')?;
        let args = self.list(')')?;
        self.expect('=')?;
        let result = self.expr()?;
        let errno = match self.word() {
            Some(word) if symbols::errno(word).is_none() => {
                let message = format!("unknown error number '{word}'");
                return Err(ScriptError::new(self.span(), message));
            }
            Some(word) => {
                let word = word.to_owned();
                self.advance();
                Some(word)
            }
            None => None,
        };
        let note = if self.is_symbol('(') { Some(self.note()?) } else { None };
        Ok(Syscall { span, end, name, args, result, errno, note })
    }

    /// Words in parentheses, kept as they are written.
    fn note(&mut self) -> Parsed<String> {
        let span = self.span();
        self.expect('(')?;
        let start = self.tokens.get(self.at).map_or(0, |token| token.start);
        while !self.is_symbol(')') {
            if *self.kind() == TokenKind::End {
                return Err(ScriptError::new(span, "this note has no ')'"));
            }
            self.advance();
        }
        let end = self.tokens.get(self.at).map_or(start, |token| token.start);
        self.advance();
        let words = self.text.get(start..end).unwrap_or("").split_whitespace();
        Ok(words.collect::<Vec<_>>().join(" "))
    }

    /// Expressions up to `close`, which is taken, too.
    fn list(&mut self, close: char) -> Parsed<Vec<Expr>> {
        let mut items = Vec::new();
        if self.eat(close) {
            return Ok(items);
        }
        loop {
            items.push(self.expr()?);
            if self.eat(close) {
                return Ok(items);
            }
            if !self.eat(',') {
                return self.expected(&format!("',' or '{close}'"));
            }
        }
    }

    pub(super) fn expr(&mut self) -> Parsed<Expr> {
        if self.depth >= DEPTH_MAX {
            let message = format!("nested more than {DEPTH_MAX} deep");
            return Err(ScriptError::new(self.span(), message));
        }
        self.depth = self.depth.saturating_add(1);
        let expr = self.or_expr();
        self.depth = self.depth.saturating_sub(1);
        expr
    }

    fn or_expr(&mut self) -> Parsed<Expr> {
        let span = self.span();
        let first = self.operand()?;
        if !self.is_symbol('|') {
            return Ok(first);
        }
        let mut operands = vec![first];
        while self.eat('|') {
            operands.push(self.operand()?);
        }
        Ok(Expr { span, kind: ExprKind::Or(operands) })
    }

    fn operand(&mut self) -> Parsed<Expr> {
        let span = self.span();
        let kind = match self.kind().clone() {
            TokenKind::Ellipsis => {
                self.advance();
                ExprKind::Ellipsis
            }
            TokenKind::Integer(_) => {
                ExprKind::Integer { value: self.integer("a number")?, hex: false }
            }
            TokenKind::Hex(value) => {
                self.advance();
                // A mask such as 0xffffffffffffffff means its bits.
                ExprKind::Integer { value: value.cast_signed(), hex: true }
            }
            TokenKind::Text(_) => self.text(),
            TokenKind::Symbol('[') => {
                self.advance();
                ExprKind::List(self.list(']')?)
            }
            TokenKind::Symbol('{') => {
                self.advance();
                self.structure(span)?
            }
            TokenKind::Word(word) => {
                self.advance();
                self.after_word(word)?
            }
            _ => return self.expected("an argument"),
        };
        Ok(Expr { span, kind })
    }

    fn integer(&mut self, what: &str) -> Parsed<i64> {
        self.number(what, i64::MIN, i64::MAX)
    }

    fn text(&mut self) -> ExprKind {
        let mut bytes = Vec::new();
        while let TokenKind::Text(piece) = self.kind() {
            bytes.extend_from_slice(piece);
            self.advance();
        }
        let open = *self.kind() == TokenKind::Ellipsis;
        if open {
            self.advance();
        }
        ExprKind::Text { bytes, open }
    }

    fn after_word(&mut self, word: String) -> Parsed<ExprKind> {
        Ok(match (word.as_str(), self.kind()) {
            ("htons", TokenKind::Symbol('(')) => {
                self.advance();
                let port = self.u16("a port")?;
                self.expect(')')?;
                ExprKind::Htons(port)
            }
            ("inet_addr", TokenKind::Symbol('(')) => match self.address_in_parentheses()? {
                (_, IpAddr::V4(address)) => ExprKind::InetAddr(address),
                (span, IpAddr::V6(_)) => {
                    return Err(ScriptError::new(span, "expected an IPv4 address"));
                }
            },
            ("inet6_addr", TokenKind::Symbol('(')) => match self.address_in_parentheses()? {
                (_, IpAddr::V6(address)) => ExprKind::Inet6Addr(address),
                (span, IpAddr::V4(_)) => {
                    return Err(ScriptError::new(span, "expected an IPv6 address"));
                }
            },
            (_, TokenKind::Symbol('=')) => {
                self.advance();
                ExprKind::Assign { name: word, value: Box::new(self.expr()?) }
            }
            _ => ExprKind::Word(word),
        })
    }

    /// `("address")`.
    fn address_in_parentheses(&mut self) -> Parsed<(Span, IpAddr)> {
        self.expect('(')?;
        let span = self.span();
        let TokenKind::Text(bytes) = self.kind() else {
            return self.expected("an address in quotes");
        };
        let address = core::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
        let Some(address) = address else {
            return self.expected("an IPv4 or IPv6 address in quotes");
        };
        self.advance();
        self.expect(')')?;
        Ok((span, address))
    }

    /// `name = expr`.
    fn member(&mut self, name: &str) -> Parsed<Expr> {
        self.expect_word(name)?;
        self.expect('=')?;
        self.expr()
    }

    fn next_member(&mut self, name: &str) -> Parsed<Expr> {
        self.expect(',')?;
        self.member(name)
    }

    /// What follows `{`.
    fn structure(&mut self, span: Span) -> Parsed<ExprKind> {
        let next = self.kind_at(1);
        let starts_member = matches!(next, TokenKind::Symbol('=' | '('));
        let kind = match self.word().filter(|_| starts_member) {
            Some("sa_family") => ExprKind::SockAddr(self.sockaddr(span)?),
            Some("msg_name") => ExprKind::MsgHdr(Box::new(self.msghdr()?)),
            Some("cmsg_level") => ExprKind::Cmsg(Box::new(Cmsg {
                level: self.member("cmsg_level")?,
                kind: self.next_member("cmsg_type")?,
                data: self.next_member("cmsg_data")?,
            })),
            Some("fd") => ExprKind::PollFd(Box::new(self.pollfd()?)),
            Some("events") => ExprKind::EpollEvent(Box::new(self.epoll_event()?)),
            Some("onoff") => {
                let onoff = self.plain_member("onoff")?;
                self.expect(',')?;
                ExprKind::Linger { onoff, linger: self.plain_member("linger")? }
            }
            Some("ee_errno") => ExprKind::ExtendedError(Box::new(ExtendedError {
                errno: self.member("ee_errno")?,
                origin: self.next_member("ee_origin")?,
                kind: self.next_member("ee_type")?,
                code: self.next_member("ee_code")?,
                info: self.next_member("ee_info")?,
                data: self.next_member("ee_data")?,
            })),
            Some("scm_sec") => {
                self.expect_word("scm_sec")?;
                self.expect('=')?;
                let sec = self.integer("seconds")?;
                self.expect(',')?;
                self.expect_word("scm_nsec")?;
                self.expect('=')?;
                ExprKind::ScmTimestamping { sec, nsec: self.integer("nanoseconds")? }
            }
            _ => return self.plain_structure(),
        };
        self.expect('}')?;
        Ok(kind)
    }

    /// Structures without named members.
    fn plain_structure(&mut self) -> Parsed<ExprKind> {
        if self.is_symbol('(') {
            let stack = self.mpls_stack()?;
            self.expect('}')?;
            return Ok(ExprKind::Mpls(stack));
        }
        let brackets_or_number = matches!(
            self.kind_at(1),
            TokenKind::Symbol('[') | TokenKind::Hex(_) | TokenKind::Integer(_)
        );
        if matches!(self.word(), Some("flags" | "Flags")) && brackets_or_number {
            let gre = self.gre()?;
            self.expect('}')?;
            return Ok(ExprKind::Gre(gre));
        }
        let items = self.list('}')?;
        Ok(match items.as_slice() {
            [
                Expr { kind: ExprKind::Ellipsis, .. },
                Expr { kind: ExprKind::Integer { value, .. }, .. },
            ] => ExprKind::IoVec { len: *value },
            _ => ExprKind::Group(items),
        })
    }

    fn plain_member(&mut self, name: &str) -> Parsed<i32> {
        self.expect_word(name)?;
        self.expect('=')?;
        // In range, so nothing is cut off.
        Ok(self.number(name, i64::from(i32::MIN), i64::from(i32::MAX))? as i32)
    }

    fn sockaddr(&mut self, span: Span) -> Parsed<SockAddr> {
        self.expect_word("sa_family")?;
        self.expect('=')?;
        let family = self.any_word("an address family")?;
        if !matches!(family.as_str(), "AF_INET" | "AF_INET6" | "AF_UNSPEC") {
            let message = format!("expected AF_INET, AF_INET6 or AF_UNSPEC, found '{family}'");
            return Err(ScriptError::new(span, message));
        }
        let mut socket = SockAddr { family, port: None, address: None };
        while self.eat(',') {
            match self.word() {
                Some("sin_port") if socket.port.is_none() => {
                    self.advance();
                    self.expect('=')?;
                    self.expect_word("htons")?;
                    self.expect('(')?;
                    socket.port = Some(self.u16("a port")?);
                    self.expect(')')?;
                }
                Some("sin_addr") if socket.address.is_none() => {
                    self.advance();
                    self.expect('=')?;
                    if !self.eat_word("inet6_addr") {
                        self.expect_word("inet_addr")?;
                    }
                    let (place, address) = self.address_in_parentheses()?;
                    let fits = match socket.family.as_str() {
                        "AF_INET" => address.is_ipv4(),
                        "AF_INET6" => address.is_ipv6(),
                        _ => true,
                    };
                    if !fits {
                        let message = format!("{address} is no address of {}", socket.family);
                        return Err(ScriptError::new(place, message));
                    }
                    socket.address = Some(address);
                }
                _ => return self.expected("'sin_port' or 'sin_addr'"),
            }
        }
        if socket.family != "AF_UNSPEC" && (socket.port.is_none() || socket.address.is_none()) {
            let message = format!("{} needs sin_port and sin_addr", socket.family);
            return Err(ScriptError::new(span, message));
        }
        Ok(socket)
    }

    fn msghdr(&mut self) -> Parsed<MsgHdr> {
        self.expect_word("msg_name")?;
        self.expect('(')?;
        self.ellipsis()?;
        self.expect(')')?;
        self.expect('=')?;
        self.ellipsis()?;
        self.expect(',')?;
        self.expect_word("msg_iov")?;
        self.expect('(')?;
        let iov_len = self.integer("the number of vectors")?;
        self.expect(')')?;
        self.expect('=')?;
        self.expect('[')?;
        let iov = self.list(']')?;
        let flags = self.next_member("msg_flags")?;
        let control = if self.eat(',') {
            self.expect_word("msg_control")?;
            self.expect('=')?;
            self.expect('[')?;
            Some(self.list(']')?)
        } else {
            None
        };
        Ok(MsgHdr { iov_len, iov, flags, control })
    }

    fn ellipsis(&mut self) -> Parsed<()> {
        if *self.kind() != TokenKind::Ellipsis {
            return self.expected("'...'");
        }
        self.advance();
        Ok(())
    }

    fn pollfd(&mut self) -> Parsed<PollFd> {
        let fd = self.member("fd")?;
        let events = self.next_member("events")?;
        let revents = if self.eat(',') { Some(self.member("revents")?) } else { None };
        Ok(PollFd { fd, events, revents })
    }

    fn epoll_event(&mut self) -> Parsed<EpollEvent> {
        let events = self.member("events")?;
        self.expect(',')?;
        let member = match self.word() {
            Some("fd") => EpollMember::Fd,
            Some("ptr") => EpollMember::Ptr,
            Some("u32") => EpollMember::U32,
            Some("u64") => EpollMember::U64,
            _ => return self.expected("'fd', 'ptr', 'u32' or 'u64'"),
        };
        self.advance();
        self.expect('=')?;
        Ok(EpollEvent { events, member, data: self.expr()? })
    }
}
