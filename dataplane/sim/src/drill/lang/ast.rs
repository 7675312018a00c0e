//! What a script says, as a tree.
//!
//! Numbers have been checked against the width of their field, times are exact (no floats), and
//! every node that a report may want to name has its [`Span`]. Spans never take part in a
//! comparison: two trees are equal when they mean the same.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;

use super::python::Program;
use super::shell::Step;

/// A place in a script: where something begins. Lines and columns count from one.
///
/// Any two spans are equal, so that trees compare by meaning.
#[derive(Clone, Copy, Default)]
pub struct Span {
    /// The line, from one. Zero: the command line.
    pub line: u32,
    /// The column in characters, from one.
    pub column: u32,
}

impl Span {
    /// A place.
    pub const fn new(line: u32, column: u32) -> Self {
        Self { line, column }
    }
}

impl PartialEq for Span {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Span {}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Something that the language knows and that somebody cannot do, or that the language only
/// recognises. A reason for exit code 3, never for a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The construct, in words that a reader of the script understands.
    pub what: String,
    /// Where it is.
    pub span: Span,
}

/// A whole script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Options at the top, in their order.
    pub options: Vec<ScriptOption>,
    /// Shell text before the first event.
    pub init: Option<Command>,
    /// What happens, in the order of the file.
    pub events: Vec<Event>,
    /// Shell text after the last event, run after a failure, too.
    pub cleanup: Option<Command>,
}

/// `--name` or `--name=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptOption {
    /// The name without dashes.
    pub name: String,
    /// The raw text after `=`.
    pub value: Option<String>,
    /// Where it is.
    pub span: Span,
}

/// One event: a time and an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Where its time begins.
    pub span: Span,
    /// When it happens.
    pub time: EventTime,
    /// What happens.
    pub action: Action,
}

/// When an event happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventTime {
    /// `t`: since the start of the script.
    At(Duration),
    /// `+t`: since the event before.
    After(Duration),
    /// `*`: whenever it comes (outbound packets only).
    Any,
    /// `a~b`: in this window since the start (outbound packets only).
    Within(Duration, Duration),
    /// `+a~+b`: in this window since the event before (outbound packets only).
    AfterWithin(Duration, Duration),
}

/// What happens in an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A packet to inject or to expect.
    Packet(Box<Packet>),
    /// A system call.
    Syscall(Box<Syscall>),
    /// Shell text in back quotes.
    Command(Command),
    /// A Python snippet.
    Code(Code),
}

// ---- packets ----------------------------------------------------------------------------------

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// `<`: injected into the stack.
    Inbound,
    /// `>`: expected from the stack.
    Outbound,
}

/// One packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Where its direction stands.
    pub span: Span,
    /// Which way it goes.
    pub direction: Direction,
    /// Headers around it, outermost first.
    pub encapsulation: Vec<Encapsulation>,
    /// What is said about the (inner) IP header.
    pub ip: IpInfo,
    /// `encap psp spi N`.
    pub psp_spi: Option<u32>,
    /// Ports, when they differ from the socket's.
    pub ports: Option<Ports>,
    /// The transport.
    pub body: PacketBody,
}

/// `src > dst`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
}

/// What is said about an IP header; nothing said, nothing checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpInfo {
    /// The ECN field or the whole TOS byte.
    pub tos: Option<Tos>,
    /// Flow label, 20 bits. Outbound labels are symbolic.
    pub flow_label: Option<u32>,
    /// Time to live, hop limit.
    pub ttl: Option<u8>,
}

impl IpInfo {
    /// Whether nothing was said.
    pub const fn is_empty(&self) -> bool {
        self.tos.is_none() && self.flow_label.is_none() && self.ttl.is_none()
    }
}

/// What is said about the TOS byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tos {
    /// `noecn`: ECN field 0.
    NotEct,
    /// `ect1`: ECN field 1.
    Ect1,
    /// `ect0`: ECN field 2.
    Ect0,
    /// `ce`: ECN field 3.
    Ce,
    /// `ect01`: ECT(0) or ECT(1); outbound only.
    AnyEct,
    /// `tos 0xNN`: all eight bits.
    Byte(u8),
}

/// A header around the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Encapsulation {
    /// `ipv4 A > B:`.
    Ipv4 {
        /// What is said about it.
        ip: IpInfo,
        /// Source.
        source: Ipv4Addr,
        /// Destination.
        destination: Ipv4Addr,
    },
    /// `ipv6 A > B:`.
    Ipv6 {
        /// What is said about it.
        ip: IpInfo,
        /// Source.
        source: Ipv6Addr,
        /// Destination.
        destination: Ipv6Addr,
    },
    /// `gre:` with its optional fields.
    Gre(Option<Gre>),
    /// `mpls (label N, tc N, [S], ttl N) …:`, outermost label first.
    Mpls(Vec<MplsEntry>),
}

/// The fields of a GRE header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gre {
    /// Flags: 0x8000 checksum, 0x2000 key, 0x1000 sequence present.
    pub flags: u16,
    /// Checksum.
    pub sum: u16,
    /// Offset.
    pub offset: u16,
    /// Key.
    pub key: u32,
    /// Sequence number.
    pub sequence: u32,
}

/// One MPLS label stack entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MplsEntry {
    /// Label, 20 bits.
    pub label: u32,
    /// Traffic class, 3 bits.
    pub tc: u8,
    /// Bottom of stack.
    pub bottom: bool,
    /// Time to live.
    pub ttl: u8,
}

/// The transport of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketBody {
    /// A TCP segment.
    Tcp(Tcp),
    /// A UDP datagram with this many bytes of payload.
    Udp {
        /// Bytes of payload.
        payload_len: u16,
    },
    /// An ICMP message of the packet's IP version.
    Icmp(Icmp),
}

/// A TCP segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Flags.
    pub flags: TcpFlags,
    /// Sequence number, relative as the script has it.
    pub seq: u32,
    /// Bytes of payload.
    pub payload_len: u16,
    /// Acknowledgement number. A script may leave it out although the ACK flag is set; then it is 0.
    pub ack: Option<u32>,
    /// The raw window field; always present on inbound segments.
    pub window: Option<u16>,
    /// Urgent pointer.
    pub urgent: Option<u16>,
    /// Options.
    pub options: TcpOptions,
}

/// The nine flag bits of a TCP header.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpFlags {
    /// The bits, as in the header.
    pub bits: u16,
    /// AE, CWR and ECE were written as one digit (AccECN's ACE field), and print so.
    pub ace_as_digit: bool,
}

impl TcpFlags {
    /// FIN.
    pub const FIN: u16 = 0x001;
    /// SYN.
    pub const SYN: u16 = 0x002;
    /// RST.
    pub const RST: u16 = 0x004;
    /// PSH.
    pub const PSH: u16 = 0x008;
    /// ACK.
    pub const ACK: u16 = 0x010;
    /// URG.
    pub const URG: u16 = 0x020;
    /// ECE, the 1 of ACE.
    pub const ECE: u16 = 0x040;
    /// CWR, the 2 of ACE.
    pub const CWR: u16 = 0x080;
    /// AE, the 4 of ACE (RFC 9768).
    pub const AE: u16 = 0x100;

    /// These bits, written as letters.
    pub const fn from_bits(bits: u16) -> Self {
        Self { bits, ace_as_digit: false }
    }

    /// Whether all of `bits` are set.
    pub const fn has(self, bits: u16) -> bool {
        self.bits & bits == bits
    }

    /// The ACE field: AE, CWR, ECE as a number below 8.
    pub const fn ace(self) -> u8 {
        ((self.bits >> 6) & 7) as u8
    }
}

impl fmt::Debug for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TcpFlags({:#05x}{})", self.bits, if self.ace_as_digit { " ace" } else { "" })
    }
}

/// The options of a TCP segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcpOptions {
    /// `<...>`: not checked; outbound only.
    Unchecked,
    /// Exactly these, in this order.
    List(Vec<TcpOption>),
}

/// One TCP option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcpOption {
    /// `mss N`.
    Mss(u16),
    /// `wscale N`.
    WindowScale(u8),
    /// `sackOK`.
    SackPermitted,
    /// `sack a:b c:d`.
    Sack(Vec<SackBlock>),
    /// `nop`.
    Nop,
    /// `eol`.
    Eol,
    /// `TS val N ecr N`.
    Timestamps {
        /// TSval.
        val: u32,
        /// TSecr.
        ecr: u32,
    },
    /// `FO [hex]`, kind 34; empty asks for a cookie.
    FastOpen(Vec<u8>),
    /// `FOEXP [hex]`, kind 254 with magic 0xF989.
    FastOpenExperimental(Vec<u8>),
    /// `md5 hex`, kind 19.
    Md5(Vec<u8>),
    /// `ECN …`, kind 172 or 174.
    AccEcn(AccEcn),
}

impl TcpOption {
    /// Bytes that it takes in a header.
    pub fn wire_len(&self) -> usize {
        match self {
            Self::Nop | Self::Eol => 1,
            Self::SackPermitted => 2,
            Self::WindowScale(_) => 3,
            Self::Mss(_) => 4,
            Self::Timestamps { .. } => 10,
            Self::Sack(blocks) => 2 + blocks.len().saturating_mul(8),
            Self::FastOpen(cookie) => 2 + cookie.len(),
            Self::FastOpenExperimental(cookie) => 4 + cookie.len(),
            Self::Md5(digest) => 2 + digest.len(),
            Self::AccEcn(option) => 2 + option.counters.len().saturating_mul(3),
        }
    }
}

/// Edges of a SACK block as the script has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SackBlock {
    /// First sequence number.
    pub left: u32,
    /// The one after the last.
    pub right: u32,
}

/// An AccECN option: one to three 24-bit counters in the order of its kind (RFC 9768).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccEcn {
    /// Which order, hence which kind.
    pub order: AccEcnOrder,
    /// The counters that are present, in wire order.
    pub counters: Vec<u32>,
}

/// The order of an AccECN option's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccEcnOrder {
    /// Kind 172: e0b, ceb, e1b.
    E0First,
    /// Kind 174: e1b, ceb, e0b.
    E1First,
}

impl AccEcnOrder {
    /// The option kind.
    pub const fn kind(self) -> u8 {
        match self {
            Self::E0First => 172,
            Self::E1First => 174,
        }
    }
}

/// An ICMP message. Names are resolved with [`super::symbols::icmp_type`] and
/// [`super::symbols::icmp_code`], since they mean different numbers in the two IP versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Icmp {
    /// The type's name; known in at least one version.
    pub kind: String,
    /// The code's name; known for that type in at least one version. Absent: 0.
    pub code: Option<String>,
    /// `mtu N`.
    pub mtu: Option<u32>,
    /// `id N` of an echo.
    pub id: Option<u16>,
    /// What the message quotes.
    pub quoted: Option<Quoted>,
}

/// What an ICMP message quotes, after the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quoted {
    /// `[start:end(len)]`: a TCP segment with this sequence number.
    Tcp {
        /// Sequence number.
        seq: u32,
        /// Bytes of payload.
        payload_len: u16,
    },
    /// `[udp (N)]`.
    Udp {
        /// Bytes of payload.
        payload_len: u16,
    },
    /// `[raw (N)]`.
    Raw {
        /// Bytes after the IP header.
        payload_len: u16,
    },
}

// ---- system calls -----------------------------------------------------------------------------

/// A system call with what it must return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Syscall {
    /// Where its name stands.
    pub span: Span,
    /// A blocking call must return at this time, absolute after `t` and relative to the same event
    /// after `+t`. Absent: it must return at once.
    pub end: Option<Duration>,
    /// Its name.
    pub name: String,
    /// Its arguments.
    pub args: Vec<Expr>,
    /// What it must return.
    pub result: Expr,
    /// The errno it must set, a symbol such as `EAGAIN`.
    pub errno: Option<String>,
    /// Explanatory words in parentheses; they mean nothing.
    pub note: Option<String>,
}

/// An argument or a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expr {
    /// Where it begins.
    pub span: Span,
    /// What it is.
    pub kind: ExprKind,
}

/// The forms of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExprKind {
    /// `...`: supplied by the tool, or not checked.
    Ellipsis,
    /// A number.
    Integer {
        /// Its value; `0xffffffffffffffff` wraps to -1.
        value: i64,
        /// It was written in hexadecimal, and prints so.
        hex: bool,
    },
    /// A symbol such as `SOCK_STREAM`, see [`super::symbols`].
    Word(String),
    /// A string with its escapes resolved; neighbours are joined.
    Text {
        /// The bytes.
        bytes: Vec<u8>,
        /// `"…"...`: more may follow.
        open: bool,
    },
    /// `a|b|c`.
    Or(Vec<Expr>),
    /// `SYM = value`.
    Assign {
        /// The symbol.
        name: String,
        /// Its value.
        value: Box<Expr>,
    },
    /// `[a, b]`.
    List(Vec<Expr>),
    /// `{a, b}` that is none of the structures below.
    Group(Vec<Expr>),
    /// `htons(N)`: the number, in host order here.
    Htons(u16),
    /// `inet_addr("a")`.
    InetAddr(Ipv4Addr),
    /// `inet6_addr("a")`.
    Inet6Addr(Ipv6Addr),
    /// `{sa_family = AF_INET, sin_port = htons(P), sin_addr = inet_addr("a")}`.
    SockAddr(SockAddr),
    /// `{msg_name(...)=..., msg_iov(n)=[…], msg_flags=F, msg_control=[…]}`.
    MsgHdr(Box<MsgHdr>),
    /// `{cmsg_level=L, cmsg_type=T, cmsg_data=D}`.
    Cmsg(Box<Cmsg>),
    /// `{..., N}`: a buffer of N bytes.
    IoVec {
        /// Bytes.
        len: i64,
    },
    /// `{fd=N, events=M, revents=R}`.
    PollFd(Box<PollFd>),
    /// `{events=M, fd=N}`.
    EpollEvent(Box<EpollEvent>),
    /// `{onoff=N, linger=N}`.
    Linger {
        /// On when not zero.
        onoff: i32,
        /// Seconds.
        linger: i32,
    },
    /// `{ee_errno=…, …}`.
    ExtendedError(Box<ExtendedError>),
    /// `{scm_sec=N, scm_nsec=N}`.
    ScmTimestamping {
        /// Seconds.
        sec: i64,
        /// Nanoseconds.
        nsec: i64,
    },
    /// `{label N, tc N, ttl N …}` as an argument.
    Mpls(Vec<MplsEntry>),
    /// `{flags …, sum …, off …, key …, seq …}` as an argument.
    Gre(Gre),
}

/// A socket address written out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SockAddr {
    /// `AF_INET`, `AF_INET6` or `AF_UNSPEC`.
    pub family: String,
    /// Port in host order.
    pub port: Option<u16>,
    /// Address; its version fits the family.
    pub address: Option<IpAddr>,
}

/// A message header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MsgHdr {
    /// The number of vectors as written.
    pub iov_len: i64,
    /// The vectors.
    pub iov: Vec<Expr>,
    /// Flags.
    pub flags: Expr,
    /// Control messages, if written.
    pub control: Option<Vec<Expr>>,
}

/// A control message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cmsg {
    /// Level.
    pub level: Expr,
    /// Type.
    pub kind: Expr,
    /// Data.
    pub data: Expr,
}

/// An entry of `poll`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PollFd {
    /// Descriptor.
    pub fd: Expr,
    /// What is asked.
    pub events: Expr,
    /// What must come back; absent means 0.
    pub revents: Option<Expr>,
}

/// An event of `epoll_ctl` or `epoll_wait`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpollEvent {
    /// Events.
    pub events: Expr,
    /// Which member of the union `data` was written.
    pub member: EpollMember,
    /// Its value.
    pub data: Expr,
}

/// A member of `epoll_data_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpollMember {
    /// `fd`.
    Fd,
    /// `ptr`.
    Ptr,
    /// `u32`.
    U32,
    /// `u64`.
    U64,
}

/// `struct sock_extended_err`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtendedError {
    /// `ee_errno`.
    pub errno: Expr,
    /// `ee_origin`.
    pub origin: Expr,
    /// `ee_type`.
    pub kind: Expr,
    /// `ee_code`.
    pub code: Expr,
    /// `ee_info`.
    pub info: Expr,
    /// `ee_data`.
    pub data: Expr,
}

// ---- shell and Python -------------------------------------------------------------------------

/// Shell text and what it means here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Where its back quote stands.
    pub span: Span,
    /// The text between the back quotes.
    pub text: String,
    /// Its steps; what is not known is [`super::shell::Action::Unsupported`].
    pub steps: Vec<Step>,
}

/// A Python snippet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// Where `%{` stands.
    pub span: Span,
    /// The text inside.
    pub text: String,
    /// What it says.
    pub program: Program,
}
