//! Packets.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::{Parsed, Parser};
use crate::drill::lang::ast::{
    AccEcn, AccEcnOrder, Direction, Encapsulation, Gre, Icmp, IpInfo, MplsEntry, Packet,
    PacketBody, Ports, Quoted, SackBlock, Tcp, TcpFlags, TcpOption, TcpOptions, Tos,
};
use crate::drill::lang::error::ScriptError;
use crate::drill::lang::lexer::TokenKind;
use crate::drill::lang::symbols;

/// Bytes of options that fit into a TCP header.
const TCP_OPTIONS_BYTES_MAX: usize = 40;

/// Headers around a packet.
const ENCAPSULATIONS_MAX: usize = 16;

/// Entries of an MPLS label stack.
const MPLS_ENTRIES_MAX: usize = 16;

impl Parser<'_> {
    pub(super) fn packet(&mut self) -> Parsed<Packet> {
        let span = self.span();
        let direction = match self.kind() {
            TokenKind::Symbol('<') => Direction::Inbound,
            TokenKind::Symbol('>') => Direction::Outbound,
            _ => return self.expected("'<' or '>'"),
        };
        self.advance();
        let encapsulation = self.encapsulations()?;
        let ip = self.ip_info()?;
        let psp_spi = if self.eat_word("encap") {
            self.expect_word("psp")?;
            self.expect_word("spi")?;
            Some(self.u32("an SPI")?)
        } else {
            None
        };
        let mut ports = self.ports()?;
        let body = if self.eat_word("icmp") {
            PacketBody::Icmp(self.icmp()?)
        } else if self.eat_word("udp") {
            if ports.is_none() {
                ports = self.ports()?;
            }
            PacketBody::Udp { payload_len: self.len_in_parentheses()? }
        } else {
            PacketBody::Tcp(self.tcp()?)
        };
        Ok(Packet { span, direction, encapsulation, ip, psp_spi, ports, body })
    }

    fn encapsulations(&mut self) -> Parsed<Vec<Encapsulation>> {
        let mut headers = Vec::new();
        loop {
            let header = match self.word() {
                Some("ipv4") => {
                    self.advance();
                    let ip = self.ip_info()?;
                    let source = self.ipv4()?;
                    self.expect('>')?;
                    Encapsulation::Ipv4 { ip, source, destination: self.ipv4()? }
                }
                Some("ipv6") => {
                    self.advance();
                    let ip = self.ip_info()?;
                    let source = self.ipv6()?;
                    self.expect('>')?;
                    Encapsulation::Ipv6 { ip, source, destination: self.ipv6()? }
                }
                Some("gre" | "GREv0") => {
                    self.advance();
                    self.eat(',');
                    let fields = if self.is_symbol(':') { None } else { Some(self.gre()?) };
                    Encapsulation::Gre(fields)
                }
                Some("mpls") => {
                    self.advance();
                    Encapsulation::Mpls(self.mpls_stack()?)
                }
                _ => return Ok(headers),
            };
            self.expect(':')?;
            if headers.len() >= ENCAPSULATIONS_MAX {
                let message = format!("more than {ENCAPSULATIONS_MAX} headers around a packet");
                return Err(ScriptError::new(self.span(), message));
            }
            headers.push(header);
        }
    }

    fn ipv4(&mut self) -> Parsed<Ipv4Addr> {
        match *self.kind() {
            TokenKind::Ipv4(address) => {
                self.advance();
                Ok(address)
            }
            _ => self.expected("an IPv4 address"),
        }
    }

    fn ipv6(&mut self) -> Parsed<Ipv6Addr> {
        match *self.kind() {
            TokenKind::Ipv6(address) => {
                self.advance();
                Ok(address)
            }
            _ => self.expected("an IPv6 address"),
        }
    }

    /// `flags [checksum present, …] , sum N, off N, key N, seq N`.
    pub(super) fn gre(&mut self) -> Parsed<Gre> {
        if !self.eat_word("flags") {
            self.expect_word("Flags")?;
        }
        let flags = if self.eat('[') {
            let mut flags = 0;
            loop {
                if !self.eat_word("none") {
                    flags |= match self.word() {
                        Some("checksum") => 0x8000,
                        Some("key") => 0x2000,
                        Some("sequence") => 0x1000,
                        _ => return self.expected("'none', 'checksum', 'key' or 'sequence#'"),
                    };
                    self.advance();
                    self.eat('#');
                    self.expect_word("present")?;
                }
                if !self.eat(',') {
                    break;
                }
            }
            self.expect(']')?;
            flags
        } else {
            self.u16("GRE flags")?
        };
        let field = |parser: &mut Self, name: &str, max: i64| {
            parser.eat(',');
            parser.expect_word(name)?;
            parser.eat('=');
            parser.number(&format!("GRE {name}"), 0, max)
        };
        // In range, so nothing is cut off.
        let sum = field(self, "sum", i64::from(u16::MAX))? as u16;
        let offset = field(self, "off", i64::from(u16::MAX))? as u16;
        let key = field(self, "key", i64::from(u32::MAX))? as u32;
        let sequence = field(self, "seq", i64::from(u32::MAX))? as u32;
        Ok(Gre { flags, sum, offset, key, sequence })
    }

    /// `(label N, tc N, [S], ttl N) …`.
    pub(super) fn mpls_stack(&mut self) -> Parsed<Vec<MplsEntry>> {
        let mut entries = Vec::new();
        while self.is_symbol('(') {
            if entries.len() >= MPLS_ENTRIES_MAX {
                let message = format!("more than {MPLS_ENTRIES_MAX} MPLS labels");
                return Err(ScriptError::new(self.span(), message));
            }
            self.advance();
            self.expect_word("label")?;
            let label = self.number("an MPLS label", 0, 0xf_ffff)? as u32;
            self.expect(',')?;
            self.expect_word("tc")?;
            let tc = self.number("a traffic class", 0, 7)? as u8;
            self.expect(',')?;
            let bottom = self.eat('[');
            if bottom {
                self.expect_word("S")?;
                self.expect(']')?;
                self.expect(',')?;
            }
            self.expect_word("ttl")?;
            let ttl = self.u8("a time to live")?;
            self.expect(')')?;
            entries.push(MplsEntry { label, tc, bottom, ttl });
        }
        Ok(entries)
    }

    fn ip_info(&mut self) -> Parsed<IpInfo> {
        let mut info = IpInfo::default();
        let close = match self.kind() {
            TokenKind::Symbol('(') => ')',
            TokenKind::Symbol('[') => ']',
            _ => return Ok(info),
        };
        self.advance();
        loop {
            let twice = match self.word() {
                Some("flowlabel") => {
                    self.advance();
                    let label = self.number("a flow label", 0, 0xf_ffff)? as u32;
                    info.flow_label.replace(label).is_some()
                }
                Some("ttl") => {
                    self.advance();
                    let ttl = self.u8("a time to live")?;
                    info.ttl.replace(ttl).is_some()
                }
                Some("tos") => {
                    self.advance();
                    let tos = Tos::Byte(self.u8("a TOS byte")?);
                    info.tos.replace(tos).is_some()
                }
                _ => {
                    let tos = match self.word() {
                        Some("noecn") => Tos::NotEct,
                        Some("ect0") => Tos::Ect0,
                        Some("ect1") => Tos::Ect1,
                        Some("ce") => Tos::Ce,
                        Some("ect01") => Tos::AnyEct,
                        _ => {
                            return self.expected(
                                "noecn, ect0, ect1, ce, ect01, 'tos', 'flowlabel' or 'ttl'",
                            );
                        }
                    };
                    self.advance();
                    info.tos.replace(tos).is_some()
                }
            };
            if twice {
                return Err(ScriptError::new(self.span(), "the same IP field is given twice"));
            }
            if !self.eat(',') {
                break;
            }
        }
        self.expect(close)?;
        Ok(info)
    }

    fn ports(&mut self) -> Parsed<Option<Ports>> {
        let next = (self.kind(), self.kind_at(1));
        if !matches!(next, (TokenKind::Integer(_) | TokenKind::Hex(_), TokenKind::Symbol('>'))) {
            return Ok(None);
        }
        let source = self.u16("a port")?;
        self.expect('>')?;
        Ok(Some(Ports { source, destination: self.u16("a port")? }))
    }

    fn len_in_parentheses(&mut self) -> Parsed<u16> {
        self.expect('(')?;
        let len = self.u16("a length")?;
        self.expect(')')?;
        Ok(len)
    }

    /// `start:end(len)`.
    fn sequence(&mut self) -> Parsed<(u32, u16)> {
        let start = self.u32("a sequence number")?;
        self.expect(':')?;
        let span = self.span();
        let end = self.u32("a sequence number")?;
        let len = self.len_in_parentheses()?;
        // The space wraps, so a range may, too.
        if end != start.wrapping_add(u32::from(len)) {
            let message = format!(
                "{start} and {len} bytes end at {}, not at {end}",
                start.wrapping_add(u32::from(len))
            );
            return Err(ScriptError::new(span, message));
        }
        Ok((start, len))
    }

    fn tcp(&mut self) -> Parsed<Tcp> {
        let flags = self.flags()?;
        let (seq, payload_len) = self.sequence()?;
        let ack =
            if self.eat_word("ack") { Some(self.u32("an acknowledgement number")?) } else { None };
        let window = if self.eat_word("win") { Some(self.u16("a window")?) } else { None };
        let urgent = if self.eat_word("urg") { Some(self.u16("an urgent pointer")?) } else { None };
        let options = self.tcp_options()?;
        Ok(Tcp { flags, seq, payload_len, ack, window, urgent, options })
    }

    fn flags(&mut self) -> Parsed<TcpFlags> {
        let span = self.span();
        if self.eat('-') {
            return Ok(TcpFlags::default());
        }
        // The pieces of something like `FP.5`, which the lexer cannot know to be one thing.
        let mut text = String::new();
        if let TokenKind::Word(piece) | TokenKind::Integer(piece) = self.kind() {
            text.push_str(piece);
            self.advance();
        }
        match self.kind() {
            TokenKind::Symbol('.') => {
                text.push('.');
                self.advance();
            }
            TokenKind::Decimal(piece) if piece.starts_with('.') => {
                text.push_str(piece);
                self.advance();
            }
            _ => {}
        }
        if text.is_empty() {
            return self.expected("TCP flags, 'udp' or 'icmp'");
        }
        let mut flags = TcpFlags::default();
        for c in text.chars() {
            let bits = match c {
                'F' => TcpFlags::FIN,
                'S' => TcpFlags::SYN,
                'R' => TcpFlags::RST,
                'P' => TcpFlags::PSH,
                '.' => TcpFlags::ACK,
                'U' => TcpFlags::URG,
                'E' => TcpFlags::ECE,
                'W' => TcpFlags::CWR,
                'A' => TcpFlags::AE,
                '0'..='7' if !flags.ace_as_digit && flags.ace() == 0 => {
                    flags.ace_as_digit = true;
                    (c as u16).wrapping_sub('0' as u16) << 6
                }
                _ => {
                    let message = format!(
                        "'{text}' are no TCP flags: letters FSRPUEWA, '.' for ACK, one ACE digit 0 to 7"
                    );
                    return Err(ScriptError::new(span, message));
                }
            };
            let ecn = matches!(c, 'E' | 'W' | 'A');
            if flags.bits & bits != 0 || (ecn && flags.ace_as_digit) {
                let message = format!("'{text}' names a flag twice");
                return Err(ScriptError::new(span, message));
            }
            flags.bits |= bits;
        }
        Ok(flags)
    }

    fn tcp_options(&mut self) -> Parsed<TcpOptions> {
        let span = self.span();
        if !self.eat('<') {
            return Ok(TcpOptions::List(Vec::new()));
        }
        if *self.kind() == TokenKind::Ellipsis {
            self.advance();
            self.expect('>')?;
            return Ok(TcpOptions::Unchecked);
        }
        let mut options = Vec::new();
        let mut bytes = 0_usize;
        loop {
            let option = self.tcp_option()?;
            bytes = bytes.saturating_add(option.wire_len());
            if bytes > TCP_OPTIONS_BYTES_MAX {
                let message = format!("TCP options take more than {TCP_OPTIONS_BYTES_MAX} bytes");
                return Err(ScriptError::new(span, message));
            }
            options.push(option);
            if !self.eat(',') {
                break;
            }
        }
        self.expect('>')?;
        if !bytes.is_multiple_of(4) {
            let message =
                format!("TCP options take {bytes} bytes; pad them with nop to a multiple of 4");
            return Err(ScriptError::new(span, message));
        }
        Ok(TcpOptions::List(options))
    }

    fn tcp_option(&mut self) -> Parsed<TcpOption> {
        let Some(word) = self.word().map(str::to_owned) else {
            return self.expected("a TCP option");
        };
        let span = self.span();
        self.advance();
        Ok(match word.as_str() {
            "mss" => TcpOption::Mss(self.u16("an MSS")?),
            "wscale" => TcpOption::WindowScale(self.u8("a window scale")?),
            "sackOK" => TcpOption::SackPermitted,
            "nop" => TcpOption::Nop,
            "eol" => TcpOption::Eol,
            "sack" => TcpOption::Sack(self.sack_blocks()?),
            "TS" => {
                self.expect_word("val")?;
                let val = self.u32("a timestamp")?;
                self.expect_word("ecr")?;
                TcpOption::Timestamps { val, ecr: self.u32("a timestamp")? }
            }
            "FO" => TcpOption::FastOpen(self.hex_blob("a Fast Open cookie")?),
            "FOEXP" => TcpOption::FastOpenExperimental(self.hex_blob("a Fast Open cookie")?),
            "md5" => TcpOption::Md5(self.hex_blob("an MD5 digest")?),
            "ECN" => TcpOption::AccEcn(self.acc_ecn()?),
            _ => {
                let message = format!(
                    "unknown TCP option '{word}'; known are mss, wscale, sackOK, sack, TS, nop, eol, FO, FOEXP, md5 and ECN"
                );
                return Err(ScriptError::new(span, message));
            }
        })
    }

    fn sack_blocks(&mut self) -> Parsed<Vec<SackBlock>> {
        let mut blocks = Vec::new();
        // Four blocks fill a header; the length check refuses the fifth.
        while blocks.len() <= 4 {
            let left = self.u32("a SACK block")?;
            self.expect(':')?;
            blocks.push(SackBlock { left, right: self.u32("a sequence number")? });
            if !matches!(self.kind(), TokenKind::Integer(_) | TokenKind::Hex(_)) {
                break;
            }
        }
        Ok(blocks)
    }

    /// Hexadecimal digits without prefix, perhaps none.
    fn hex_blob(&mut self, what: &str) -> Parsed<Vec<u8>> {
        let span = self.span();
        let text = match self.kind() {
            TokenKind::Word(text) | TokenKind::Integer(text) => text.clone(),
            _ => return Ok(Vec::new()),
        };
        self.advance();
        let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(16)).collect();
        match digits.filter(|digits| digits.len().is_multiple_of(2)) {
            // Two digits below 16 make a byte.
            Some(digits) => Ok(digits
                .chunks_exact(2)
                .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | (*digit as u8)))
                .collect()),
            None => {
                let message =
                    format!("{what} is an even number of hexadecimal digits, not '{text}'");
                Err(ScriptError::new(span, message))
            }
        }
    }

    fn acc_ecn(&mut self) -> Parsed<AccEcn> {
        let (order, names) = match self.word() {
            Some("e0b") => (AccEcnOrder::E0First, ["e0b", "ceb", "e1b"]),
            Some("e1b") => (AccEcnOrder::E1First, ["e1b", "ceb", "e0b"]),
            _ => return self.expected("'e0b' or 'e1b'"),
        };
        let mut counters = Vec::new();
        for name in names {
            if !self.eat_word(name) {
                break;
            }
            // In range, so nothing is cut off.
            counters.push(self.number("an AccECN counter", 0, 0xff_ffff)? as u32);
        }
        Ok(AccEcn { order, counters })
    }

    fn icmp(&mut self) -> Parsed<Icmp> {
        let span = self.span();
        let kind = self.any_word("an ICMP type")?;
        if !symbols::is_icmp_type(&kind) {
            return Err(ScriptError::new(span, format!("unknown ICMP type '{kind}'")));
        }
        let span = self.span();
        let code = match self.word().filter(|word| !matches!(*word, "mtu" | "id")) {
            Some(code) if !symbols::is_icmp_code(&kind, code) => {
                let message = format!("unknown code '{code}' of ICMP type '{kind}'");
                return Err(ScriptError::new(span, message));
            }
            Some(code) => {
                let code = code.to_owned();
                self.advance();
                Some(code)
            }
            None => None,
        };
        let mtu = if self.eat_word("mtu") { Some(self.u32("an MTU")?) } else { None };
        let id = if self.eat_word("id") { Some(self.u16("an echo identifier")?) } else { None };
        let quoted = if self.eat('[') {
            let quoted = if self.eat_word("udp") {
                Quoted::Udp { payload_len: self.len_in_parentheses()? }
            } else if self.eat_word("raw") {
                Quoted::Raw { payload_len: self.len_in_parentheses()? }
            } else {
                let (seq, payload_len) = self.sequence()?;
                Quoted::Tcp { seq, payload_len }
            };
            self.expect(']')?;
            Some(quoted)
        } else {
            None
        };
        Ok(Icmp { kind, code, mtu, id, quoted })
    }
}
