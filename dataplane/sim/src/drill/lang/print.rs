//! The tree in script notation.
//!
//! What is printed parses to an equal tree, so that a report's packet can be pasted into a script.

use core::fmt::{self, Display, Formatter, Write};
use core::time::Duration;

use super::ast::{
    AccEcnOrder, Action, Direction, Encapsulation, EpollMember, Event, EventTime, Expr, ExprKind,
    Gre, Icmp, IpInfo, MplsEntry, MsgHdr, Packet, PacketBody, Quoted, Script, ScriptOption,
    SockAddr, Syscall, Tcp, TcpFlags, TcpOption, TcpOptions, Tos,
};

/// Seconds with as many digits as needed, such as `0.25`.
#[derive(Clone, Copy, Debug)]
pub struct Seconds(pub Duration);

impl Display for Seconds {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let nanos = self.0.subsec_nanos();
        write!(f, "{}", self.0.as_secs())?;
        if nanos != 0 {
            let digits = format!("{nanos:09}");
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        Ok(())
    }
}

impl Display for EventTime {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(time) => write!(f, "{}", Seconds(*time)),
            Self::After(time) => write!(f, "+{}", Seconds(*time)),
            Self::Any => f.write_char('*'),
            Self::Within(from, to) => write!(f, "{}~{}", Seconds(*from), Seconds(*to)),
            Self::AfterWithin(from, to) => write!(f, "+{}~+{}", Seconds(*from), Seconds(*to)),
        }
    }
}

impl Display for Script {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for option in &self.options {
            writeln!(f, "{option}")?;
        }
        if let Some(init) = &self.init {
            writeln!(f, "`{}`", init.text)?;
        }
        for event in &self.events {
            writeln!(f, "{event}")?;
        }
        if let Some(cleanup) = &self.cleanup {
            writeln!(f, "`{}`", cleanup.text)?;
        }
        Ok(())
    }
}

impl Display for ScriptOption {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "--{}", self.name)?;
        match &self.value {
            Some(value) => write!(f, "={value}"),
            None => Ok(()),
        }
    }
}

impl Display for Event {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.time)?;
        match &self.action {
            Action::Packet(packet) => write!(f, " {packet}"),
            Action::Syscall(call) => {
                let separator = if call.end.is_some() { "" } else { " " };
                write!(f, "{separator}{call}")
            }
            Action::Command(command) => write!(f, " `{}`", command.text),
            Action::Code(code) => write!(f, " %{{{}}}%", code.text),
        }
    }
}

// ---- packets ----------------------------------------------------------------------------------

impl Display for Direction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char(match self {
            Self::Inbound => '<',
            Self::Outbound => '>',
        })
    }
}

impl Display for Packet {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.direction)?;
        for header in &self.encapsulation {
            write!(f, " {header}")?;
        }
        if !self.ip.is_empty() {
            write!(f, " {}", self.ip)?;
        }
        if let Some(spi) = self.psp_spi {
            write!(f, " encap psp spi {spi}")?;
        }
        if let Some(ports) = self.ports {
            write!(f, " {} > {}", ports.source, ports.destination)?;
        }
        match &self.body {
            PacketBody::Tcp(tcp) => write!(f, " {tcp}"),
            PacketBody::Udp { payload_len } => write!(f, " udp ({payload_len})"),
            PacketBody::Icmp(icmp) => write!(f, " {icmp}"),
        }
    }
}

impl Display for IpInfo {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        match self.tos {
            None => {}
            Some(Tos::NotEct) => parts.push("noecn".into()),
            Some(Tos::Ect0) => parts.push("ect0".into()),
            Some(Tos::Ect1) => parts.push("ect1".into()),
            Some(Tos::Ce) => parts.push("ce".into()),
            Some(Tos::AnyEct) => parts.push("ect01".into()),
            Some(Tos::Byte(byte)) => parts.push(format!("tos {byte:#04x}")),
        }
        if let Some(label) = self.flow_label {
            parts.push(format!("flowlabel {label:#x}"));
        }
        if let Some(ttl) = self.ttl {
            parts.push(format!("ttl {ttl}"));
        }
        write!(f, "({})", parts.join(","))
    }
}

impl Display for Encapsulation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let write_ip = |f: &mut Formatter<'_>, ip: &IpInfo| {
            if ip.is_empty() { Ok(()) } else { write!(f, " {ip}") }
        };
        match self {
            Self::Ipv4 { ip, source, destination } => {
                f.write_str("ipv4")?;
                write_ip(f, ip)?;
                write!(f, " {source} > {destination}:")
            }
            Self::Ipv6 { ip, source, destination } => {
                f.write_str("ipv6")?;
                write_ip(f, ip)?;
                write!(f, " {source} > {destination}:")
            }
            Self::Gre(None) => f.write_str("gre:"),
            Self::Gre(Some(gre)) => write!(f, "gre {gre}:"),
            Self::Mpls(entries) => {
                f.write_str("mpls")?;
                for entry in entries {
                    write!(f, " {entry}")?;
                }
                f.write_char(':')
            }
        }
    }
}

impl Display for Gre {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { flags, sum, offset, key, sequence } = self;
        write!(f, "flags {flags:#06x}, sum {sum:#06x}, off {offset}, key {key:#x}, seq {sequence}")
    }
}

impl Display for MplsEntry {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let bottom = if self.bottom { "[S], " } else { "" };
        write!(f, "(label {}, tc {}, {bottom}ttl {})", self.label, self.tc, self.ttl)
    }
}

impl Display for TcpFlags {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let letters = [
            (Self::FIN, 'F'),
            (Self::SYN, 'S'),
            (Self::RST, 'R'),
            (Self::PSH, 'P'),
            (Self::URG, 'U'),
            (Self::ECE, 'E'),
            (Self::CWR, 'W'),
            (Self::AE, 'A'),
            (Self::ACK, '.'),
        ];
        let hidden = if self.ace_as_digit { Self::ECE | Self::CWR | Self::AE } else { 0 };
        for (bit, letter) in letters {
            if self.bits & bit & !hidden != 0 {
                f.write_char(letter)?;
            }
        }
        if self.ace_as_digit {
            write!(f, "{}", self.ace())?;
        } else if self.bits == 0 {
            f.write_char('-')?;
        }
        Ok(())
    }
}

/// `start:end(len)`.
fn write_sequence(f: &mut Formatter<'_>, seq: u32, len: u16) -> fmt::Result {
    write!(f, "{seq}:{}({len})", seq.wrapping_add(u32::from(len)))
}

impl Display for Tcp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.flags)?;
        write_sequence(f, self.seq, self.payload_len)?;
        if let Some(ack) = self.ack {
            write!(f, " ack {ack}")?;
        }
        if let Some(window) = self.window {
            write!(f, " win {window}")?;
        }
        if let Some(urgent) = self.urgent {
            write!(f, " urg {urgent}")?;
        }
        match &self.options {
            TcpOptions::List(options) if options.is_empty() => Ok(()),
            options => write!(f, " {options}"),
        }
    }
}

impl Display for TcpOptions {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unchecked => f.write_str("<...>"),
            Self::List(options) => {
                f.write_char('<')?;
                write_joined(f, options)?;
                f.write_char('>')
            }
        }
    }
}

fn write_joined<T: Display>(f: &mut Formatter<'_>, items: &[T]) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(f, "{comma}{item}")?;
    }
    Ok(())
}

impl Display for TcpOption {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let blob = |f: &mut Formatter<'_>, name: &str, bytes: &[u8]| {
            f.write_str(name)?;
            if !bytes.is_empty() {
                f.write_char(' ')?;
            }
            bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
        };
        match self {
            Self::Mss(mss) => write!(f, "mss {mss}"),
            Self::WindowScale(shift) => write!(f, "wscale {shift}"),
            Self::SackPermitted => f.write_str("sackOK"),
            Self::Nop => f.write_str("nop"),
            Self::Eol => f.write_str("eol"),
            Self::Timestamps { val, ecr } => write!(f, "TS val {val} ecr {ecr}"),
            Self::Sack(blocks) => {
                f.write_str("sack")?;
                blocks.iter().try_for_each(|block| write!(f, " {}:{}", block.left, block.right))
            }
            Self::FastOpen(cookie) => blob(f, "FO", cookie),
            Self::FastOpenExperimental(cookie) => blob(f, "FOEXP", cookie),
            Self::Md5(digest) => blob(f, "md5", digest),
            Self::AccEcn(option) => {
                let names = match option.order {
                    AccEcnOrder::E0First => ["e0b", "ceb", "e1b"],
                    AccEcnOrder::E1First => ["e1b", "ceb", "e0b"],
                };
                f.write_str("ECN")?;
                let mut named = names.iter().zip(&option.counters);
                named.try_for_each(|(name, counter)| write!(f, " {name} {counter}"))
            }
        }
    }
}

impl Display for Icmp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "icmp {}", self.kind)?;
        if let Some(code) = &self.code {
            write!(f, " {code}")?;
        }
        if let Some(mtu) = self.mtu {
            write!(f, " mtu {mtu}")?;
        }
        if let Some(id) = self.id {
            write!(f, " id {id}")?;
        }
        match self.quoted {
            None => Ok(()),
            Some(Quoted::Tcp { seq, payload_len }) => {
                f.write_str(" [")?;
                write_sequence(f, seq, payload_len)?;
                f.write_char(']')
            }
            Some(Quoted::Udp { payload_len }) => write!(f, " [udp ({payload_len})]"),
            Some(Quoted::Raw { payload_len }) => write!(f, " [raw ({payload_len})]"),
        }
    }
}

// ---- system calls -----------------------------------------------------------------------------

impl Display for Syscall {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(end) = self.end {
            write!(f, "...{} ", Seconds(end))?;
        }
        write!(f, "{}(", self.name)?;
        write_list(f, &self.args)?;
        write!(f, ") = {}", self.result)?;
        if let Some(errno) = &self.errno {
            write!(f, " {errno}")?;
        }
        match &self.note {
            Some(note) => write!(f, " ({note})"),
            None => Ok(()),
        }
    }
}

fn write_list(f: &mut Formatter<'_>, items: &[Expr]) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        write!(f, "{comma}{item}")?;
    }
    Ok(())
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ExprKind::Ellipsis => f.write_str("..."),
            ExprKind::Integer { value, hex: true } => write!(f, "{value:#x}"),
            ExprKind::Integer { value, hex: false } => write!(f, "{value}"),
            ExprKind::Word(word) => f.write_str(word),
            ExprKind::Text { bytes, open } => {
                write_text(f, bytes)?;
                f.write_str(if *open { "..." } else { "" })
            }
            ExprKind::Or(operands) => {
                for (index, operand) in operands.iter().enumerate() {
                    let bar = if index == 0 { "" } else { "|" };
                    write!(f, "{bar}{operand}")?;
                }
                Ok(())
            }
            ExprKind::Assign { name, value } => write!(f, "{name} = {value}"),
            ExprKind::List(items) => {
                f.write_char('[')?;
                write_list(f, items)?;
                f.write_char(']')
            }
            ExprKind::Group(items) => {
                f.write_char('{')?;
                write_list(f, items)?;
                f.write_char('}')
            }
            ExprKind::Htons(port) => write!(f, "htons({port})"),
            ExprKind::InetAddr(address) => write!(f, "inet_addr(\"{address}\")"),
            ExprKind::Inet6Addr(address) => write!(f, "inet6_addr(\"{address}\")"),
            ExprKind::SockAddr(socket) => write!(f, "{socket}"),
            ExprKind::MsgHdr(message) => write!(f, "{message}"),
            ExprKind::Cmsg(cmsg) => write!(
                f,
                "{{cmsg_level={}, cmsg_type={}, cmsg_data={}}}",
                cmsg.level, cmsg.kind, cmsg.data
            ),
            ExprKind::IoVec { len } => write!(f, "{{..., {len}}}"),
            ExprKind::PollFd(entry) => {
                write!(f, "{{fd={}, events={}", entry.fd, entry.events)?;
                if let Some(revents) = &entry.revents {
                    write!(f, ", revents={revents}")?;
                }
                f.write_char('}')
            }
            ExprKind::EpollEvent(event) => {
                let member = match event.member {
                    EpollMember::Fd => "fd",
                    EpollMember::Ptr => "ptr",
                    EpollMember::U32 => "u32",
                    EpollMember::U64 => "u64",
                };
                write!(f, "{{events={}, {member}={}}}", event.events, event.data)
            }
            ExprKind::Linger { onoff, linger } => write!(f, "{{onoff={onoff}, linger={linger}}}"),
            ExprKind::ExtendedError(error) => write!(
                f,
                "{{ee_errno={}, ee_origin={}, ee_type={}, ee_code={}, ee_info={}, ee_data={}}}",
                error.errno, error.origin, error.kind, error.code, error.info, error.data
            ),
            ExprKind::ScmTimestamping { sec, nsec } => {
                write!(f, "{{scm_sec={sec}, scm_nsec={nsec}}}")
            }
            ExprKind::Mpls(entries) => {
                f.write_char('{')?;
                entries.iter().try_for_each(|entry| write!(f, "{entry}"))?;
                f.write_char('}')
            }
            ExprKind::Gre(gre) => write!(f, "{{{gre}}}"),
        }
    }
}

/// A string in quotes; what is not printable ASCII becomes an escape of two digits.
fn write_text(f: &mut Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    f.write_char('"')?;
    for byte in bytes {
        match byte {
            b'"' | b'\\' => write!(f, "\\{}", char::from(*byte))?,
            b' '..=b'~' => f.write_char(char::from(*byte))?,
            _ => write!(f, "\\x{byte:02x}")?,
        }
    }
    f.write_char('"')
}

impl Display for SockAddr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{{sa_family = {}", self.family)?;
        if let Some(port) = self.port {
            write!(f, ", sin_port = htons({port})")?;
        }
        if let Some(address) = self.address {
            write!(f, ", sin_addr = inet_addr(\"{address}\")")?;
        }
        f.write_char('}')
    }
}

impl Display for MsgHdr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{{msg_name(...)=..., msg_iov({})=[", self.iov_len)?;
        write_list(f, &self.iov)?;
        write!(f, "], msg_flags={}", self.flags)?;
        if let Some(control) = &self.control {
            f.write_str(", msg_control=[")?;
            write_list(f, control)?;
            f.write_char(']')?;
        }
        f.write_char('}')
    }
}
