//! A call of a script as a call of the sockets.

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use sockets::{Call, Control, EpollEvent, PollFd, SockAddr};

use super::super::lang::ast::{Expr, ExprKind, MsgHdr, Syscall};
use super::super::lang::{IpVersion, symbols};

/// Bytes that one call may ask to send or to receive.
const BYTES_MAX: i64 = 1 << 28;
/// `MSG_*` that belong to mechanisms which do not exist here yet.
const MSG_UNSUPPORTED: [(i64, &str); 3] =
    [(0x2000_0000, "MSG_FASTOPEN"), (0x400_0000, "MSG_ZEROCOPY"), (0x2000, "MSG_ERRQUEUE")];
/// Socket options of such mechanisms.
const OPTIONS_UNSUPPORTED: [&str; 9] = [
    "SO_ZEROCOPY",
    "SO_TIMESTAMPING",
    "TCP_FASTOPEN",
    "TCP_FASTOPEN_CONNECT",
    "TCP_FASTOPEN_KEY",
    "TCP_FASTOPEN_NO_COOKIE",
    "TCP_MD5SIG",
    "TCP_AO_ADD_KEY",
    "TCP_TX_DELAY",
];

/// Why a call cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It makes no sense; in words.
    Bad(String),
    /// It asks for what does not exist here; in words.
    Unsupported(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bad(what) => f.write_str(what),
            Self::Unsupported(what) => write!(f, "not supported: {what}"),
        }
    }
}

fn bad<T>(what: impl Into<String>) -> Result<T, Refused> {
    Err(Refused::Bad(what.into()))
}

fn refuse<T>(what: impl Into<String>) -> Result<T, Refused> {
    Err(Refused::Unsupported(what.into()))
}

/// Addresses that a script leaves to the tool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) bind_port: u16,
    pub(super) connect_port: u16,
    pub(super) ip_version: IpVersion,
}

/// A call to make.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) call: Call,
    /// It may open a connection.
    pub(super) to: Option<To>,
}

/// Where a call may open a connection to.
#[derive(Clone, Copy, Debug)]
pub(super) struct To {
    /// In the script.
    pub(super) fd: i32,
    /// On the wire; `None`: nowhere, it is taken apart.
    pub(super) remote: Option<SocketAddr>,
}

/// What a call needs that does not exist here, before anything runs.
pub(crate) fn unsupported(call: &Syscall) -> Option<Refused> {
    let any = SocketAddr::new(IpAddr::from([192, 0, 2, 1]), 1);
    let places = Places {
        local: any,
        remote: any,
        bind_port: 1,
        connect_port: 1,
        ip_version: IpVersion::Ipv4,
    };
    self::call(call, &places, &Some).err()
}

/// The number that an expression stands for.
pub(super) fn int(expr: &Expr) -> Option<i64> {
    match &expr.kind {
        ExprKind::Integer { value, .. } => Some(*value),
        ExprKind::Word(word) => symbols::value(word),
        ExprKind::Or(parts) => parts.iter().try_fold(0, |sum, part| Some(sum | int(part)?)),
        ExprKind::Htons(port) => Some(i64::from(port.to_be())),
        ExprKind::InetAddr(addr) => Some(i64::from(addr.to_bits().to_be())),
        ExprKind::Assign { value, .. } => int(value),
        _ => None,
    }
}

/// The number in `[n]`.
pub(super) fn bracketed(expr: &Expr) -> Option<i64> {
    match &expr.kind {
        ExprKind::List(list) => match list.as_slice() {
            [one] => int(one),
            _ => None,
        },
        _ => None,
    }
}

struct Args<'a> {
    call: &'a Syscall,
    fd: &'a dyn Fn(i32) -> Option<i32>,
}

impl<'a> Args<'a> {
    fn count(&self, wanted: usize) -> Result<(), Refused> {
        let got = self.call.args.len();
        if got == wanted {
            return Ok(());
        }
        bad(format!("{} takes {wanted} arguments, not {got}", self.call.name))
    }

    fn at(&self, index: usize) -> Result<&'a Expr, Refused> {
        match self.call.args.get(index) {
            Some(expr) => Ok(expr),
            None => bad(format!("{} needs more arguments", self.call.name)),
        }
    }

    fn long(&self, index: usize) -> Result<i64, Refused> {
        self.number(self.at(index)?)
    }

    fn number(&self, expr: &Expr) -> Result<i64, Refused> {
        match (&expr.kind, int(expr)) {
            (_, Some(number)) => Ok(number),
            (ExprKind::Word(word), None) => refuse(format!("the symbol {word}")),
            _ => bad(format!("{expr} is no number")),
        }
    }

    fn int(&self, index: usize) -> Result<i32, Refused> {
        to_int(self.long(index)?)
    }

    /// A descriptor of the script, as it is here.
    fn fd(&self, index: usize) -> Result<i32, Refused> {
        self.live(self.int(index)?)
    }

    fn live(&self, script: i32) -> Result<i32, Refused> {
        if script < 0 {
            // Scripts try what happens.
            return Ok(script);
        }
        match (self.fd)(script) {
            Some(fd) => Ok(fd),
            None => bad(format!("descriptor {script} is not open")),
        }
    }

    /// A buffer of the length in another argument: `...`, or a null pointer.
    fn buffer(&self, index: usize, len: usize) -> Result<Option<usize>, Refused> {
        let expr = self.at(index)?;
        let len = self.long(len)?;
        let good = match &expr.kind {
            ExprKind::Ellipsis => true,
            ExprKind::Text { .. } => return refuse("data of the script in a buffer"),
            _ => match int(expr) {
                Some(0) => false,
                None if matches!(&expr.kind, ExprKind::Word(word) if word == "NULL") => false,
                _ => return bad(format!("{expr} is no buffer: ... or NULL")),
            },
        };
        Ok(if good { Some(length(len)?) } else { None })
    }

    fn ellipsis(&self, index: usize) -> Result<(), Refused> {
        let expr = self.at(index)?;
        match expr.kind {
            ExprKind::Ellipsis => Ok(()),
            _ => bad(format!("{expr} should be ...")),
        }
    }
}

/// A number of 32 bits, written with or without its sign.
fn to_int(number: i64) -> Result<i32, Refused> {
    match (i32::try_from(number), u32::try_from(number)) {
        (Ok(int), _) => Ok(int),
        (Err(_), Ok(unsigned)) => Ok(unsigned.cast_signed()),
        _ => bad(format!("{number} has more than 32 bits")),
    }
}

fn length(len: i64) -> Result<usize, Refused> {
    match usize::try_from(len) {
        Ok(n) if len <= BYTES_MAX => Ok(n),
        _ => bad(format!("{len} is no length")),
    }
}

fn zeroes(len: Option<usize>) -> Option<Vec<u8>> {
    len.map(|len| vec![0; len])
}

/// What `call` asks for. `fd` finds descriptors.
pub(super) fn call(
    call: &Syscall,
    places: &Places,
    fd: &dyn Fn(i32) -> Option<i32>,
) -> Result<Asked, Refused> {
    let args = Args { call, fd };
    let mut to = None;
    let asked = match call.name.as_str() {
        "socket" => {
            args.count(3)?;
            let domain = match args.at(0)?.kind {
                ExprKind::Ellipsis if places.ip_version.sockets_are_ipv6() => 10,
                ExprKind::Ellipsis => 2,
                _ => args.int(0)?,
            };
            Call::Socket { domain, kind: args.int(1)?, protocol: args.int(2)? }
        }
        "bind" => {
            args.count(3)?;
            let port = places.bind_port;
            let (addr, _) = address(&args, 1, places, places.local.ip(), port)?;
            Call::Bind { fd: args.fd(0)?, addr }
        }
        "listen" => {
            args.count(2)?;
            Call::Listen { fd: args.fd(0)?, backlog: args.int(1)? }
        }
        "accept" => {
            args.count(3)?;
            args.ellipsis(1)?;
            args.ellipsis(2)?;
            Call::Accept { fd: args.fd(0)?, flags: 0 }
        }
        "connect" => {
            args.count(3)?;
            let port = places.connect_port;
            let (addr, remote) = address(&args, 1, places, places.remote.ip(), port)?;
            to = Some(To { fd: args.int(0)?, remote });
            Call::Connect { fd: args.fd(0)?, addr }
        }
        "read" => {
            args.count(3)?;
            Call::Read { fd: args.fd(0)?, into: vec![args.buffer(1, 2)?] }
        }
        "readv" => {
            args.count(3)?;
            let into = vectors(&args, args.at(1)?, args.long(2)?)?;
            Call::Read { fd: args.fd(0)?, into }
        }
        "recv" | "recvfrom" => {
            args.count(if call.name == "recv" { 4 } else { 6 })?;
            let flags = flags(args.long(3)?)?;
            Call::Receive { fd: args.fd(0)?, into: vec![args.buffer(1, 2)?], flags, control: false }
        }
        "recvmsg" => {
            args.count(3)?;
            let message = message(args.at(1)?)?;
            let flags = flags(args.long(2)?)?;
            let into = message_vectors(&args, message)?;
            Call::Receive { fd: args.fd(0)?, into, flags, control: message.control.is_some() }
        }
        "write" => {
            args.count(3)?;
            Call::Write { fd: args.fd(0)?, from: vec![zeroes(args.buffer(1, 2)?)] }
        }
        "writev" => {
            args.count(3)?;
            let from = vectors(&args, args.at(1)?, args.long(2)?)?;
            Call::Write { fd: args.fd(0)?, from: from.into_iter().map(zeroes).collect() }
        }
        "send" | "sendto" => {
            args.count(if call.name == "send" { 4 } else { 6 })?;
            let from = vec![zeroes(args.buffer(1, 2)?)];
            let flags = flags(args.long(3)?)?;
            let mut dest = None;
            if call.name == "sendto" {
                let port = places.connect_port;
                let (addr, remote) = address(&args, 4, places, places.remote.ip(), port)?;
                to = Some(To { fd: args.int(0)?, remote });
                dest = addr;
            }
            Call::Send { fd: args.fd(0)?, from, flags, to: dest, control: Vec::new() }
        }
        "sendmsg" => {
            args.count(3)?;
            let message = message(args.at(1)?)?;
            let from = message_vectors(&args, message)?.into_iter().map(zeroes).collect();
            let control = controls(&args, message)?;
            Call::Send { fd: args.fd(0)?, from, flags: flags(args.long(2)?)?, to: None, control }
        }
        "fcntl" => {
            let argument = if args.call.args.len() > 2 { args.long(2)? } else { 0 };
            Call::Fcntl { fd: args.fd(0)?, command: args.int(1)?, argument }
        }
        "ioctl" => {
            args.count(3)?;
            let value = bracketed(args.at(2)?).map(to_int).transpose()?;
            let request = args.int(1)?.cast_unsigned();
            Call::Ioctl { fd: args.fd(0)?, request, value }
        }
        "close" => {
            args.count(1)?;
            Call::Close { fd: args.fd(0)? }
        }
        "shutdown" => {
            args.count(2)?;
            Call::Shutdown { fd: args.fd(0)?, how: args.int(1)? }
        }
        "getsockopt" => {
            args.count(5)?;
            option(&args)?;
            let Some(room) = bracketed(args.at(4)?) else {
                return bad(format!("{} is no length: [N]", args.at(4)?));
            };
            let (level, name) = (args.int(1)?, args.int(2)?);
            Call::GetSockOpt { fd: args.fd(0)?, level, name, room: to_int(room)? }
        }
        "setsockopt" => {
            args.count(5)?;
            option(&args)?;
            let value = option_value(&args)?;
            Call::SetSockOpt { fd: args.fd(0)?, level: args.int(1)?, name: args.int(2)?, value }
        }
        "poll" => {
            args.count(3)?;
            let ExprKind::List(list) = &args.at(0)?.kind else {
                return bad("poll needs a list of structures");
            };
            if args.long(1)? != list.len() as i64 {
                return bad("poll: the number of structures is another one");
            }
            let mut fds = Vec::new();
            for entry in list {
                let ExprKind::PollFd(entry) = &entry.kind else {
                    return bad(format!("{entry} is no structure for poll"));
                };
                let fd = args.live(to_int(args.number(&entry.fd)?)?)?;
                fds.push(PollFd { fd, events: args.number(&entry.events)? as u16 });
            }
            Call::Poll { fds: Some(fds), timeout: timeout(args.int(2)?) }
        }
        "epoll_create" => {
            args.count(1)?;
            Call::EpollCreate { size: args.int(0)? }
        }
        "epoll_ctl" => {
            args.count(4)?;
            let event = match &args.at(3)?.kind {
                ExprKind::EpollEvent(event) => Some(EpollEvent {
                    events: to_int(args.number(&event.events)?)?.cast_unsigned(),
                    data: args.number(&event.data)?.cast_unsigned(),
                }),
                _ if int(args.at(3)?) == Some(0) => None,
                _ => return bad(format!("{} is no event", args.at(3)?)),
            };
            Call::EpollCtl { epoll: args.fd(0)?, operation: args.int(1)?, fd: args.fd(2)?, event }
        }
        "epoll_wait" => {
            args.count(4)?;
            if !matches!(args.at(1)?.kind, ExprKind::EpollEvent(_)) {
                return bad(format!("{} is no event", args.at(1)?));
            }
            let (most, time) = (args.int(2)?, timeout(args.int(3)?));
            Call::EpollWait { epoll: args.fd(0)?, most, timeout: time }
        }
        other => return refuse(format!("the system call {other}")),
    };
    Ok(Asked { call: asked, to })
}

fn timeout(millis: i32) -> Option<Duration> {
    u64::try_from(millis).ok().map(Duration::from_millis)
}

fn flags(flags: i64) -> Result<i32, Refused> {
    for (bit, name) in MSG_UNSUPPORTED {
        if flags & bit != 0 {
            return refuse(format!("the flag {name}"));
        }
    }
    to_int(flags)
}

/// An address argument: as the sockets get it, and as it is on the wire (`None`: `AF_UNSPEC`).
fn address(
    args: &Args<'_>,
    index: usize,
    places: &Places,
    ip: IpAddr,
    port: u16,
) -> Result<(Option<SockAddr>, Option<SocketAddr>), Refused> {
    let expr = args.at(index)?;
    let (ip, port) = match &expr.kind {
        ExprKind::Ellipsis => (ip, port),
        ExprKind::SockAddr(addr) if addr.family == "AF_UNSPEC" => {
            return Ok((Some(SockAddr::Unspec), None));
        }
        ExprKind::Word(word) if word == "AF_UNSPEC" => return Ok((Some(SockAddr::Unspec), None)),
        ExprKind::SockAddr(addr) => (addr.address.unwrap_or(ip), addr.port.unwrap_or(port)),
        _ => match int(expr) {
            Some(0) => return Ok((Some(SockAddr::Unspec), None)),
            _ => return bad(format!("{expr} is no address")),
        },
    };
    let wire = SocketAddr::new(ip, port);
    let explicit = matches!(&expr.kind, ExprKind::SockAddr(_));
    let mapped = places.ip_version.sockets_are_ipv6() && !explicit;
    let addr = match ip {
        IpAddr::V4(v4) if mapped => {
            let v6 = v4.to_ipv6_mapped();
            SockAddr::V6(core::net::SocketAddrV6::new(v6, port, 0, 0))
        }
        IpAddr::V4(v4) => SockAddr::V4(core::net::SocketAddrV4::new(v4, port)),
        IpAddr::V6(v6) => SockAddr::V6(core::net::SocketAddrV6::new(v6, port, 0, 0)),
    };
    Ok((Some(addr), Some(wire)))
}

fn vectors(args: &Args<'_>, expr: &Expr, count: i64) -> Result<Vec<Option<usize>>, Refused> {
    let ExprKind::List(list) = &expr.kind else {
        return bad(format!("{expr} is no list of buffers"));
    };
    if list.len() as i64 != count {
        return bad(format!("{}: the number of buffers is another one", args.call.name));
    }
    list.iter()
        .map(|piece| match &piece.kind {
            ExprKind::IoVec { len } => length(*len).map(Some),
            _ => bad(format!("{piece} is no buffer")),
        })
        .collect()
}

pub(super) fn message(expr: &Expr) -> Result<&MsgHdr, Refused> {
    match &expr.kind {
        ExprKind::MsgHdr(message) => Ok(message),
        _ => bad(format!("{expr} is no message header")),
    }
}

fn message_vectors(args: &Args<'_>, message: &MsgHdr) -> Result<Vec<Option<usize>>, Refused> {
    if message.iov.len() as i64 != message.iov_len {
        return bad(format!("{}: the number of buffers is another one", args.call.name));
    }
    message
        .iov
        .iter()
        .map(|piece| match &piece.kind {
            ExprKind::IoVec { len } => length(*len).map(Some),
            _ => bad(format!("{piece} is no buffer")),
        })
        .collect()
}

/// The control messages of a message header, as bytes.
pub(super) fn control_of(expr: &Expr) -> Result<Control, Refused> {
    let ExprKind::Cmsg(cmsg) = &expr.kind else {
        return bad(format!("{expr} is no control message"));
    };
    let (Some(level), Some(kind)) = (int(&cmsg.level), int(&cmsg.kind)) else {
        return refuse(format!("the control message {expr}"));
    };
    let data = match int(&cmsg.data) {
        Some(number) => to_int(number)?.to_ne_bytes().to_vec(),
        None => return refuse(format!("the data of the control message {expr}")),
    };
    Ok(Control { level: to_int(level)?, kind: to_int(kind)?, data })
}

fn controls(args: &Args<'_>, message: &MsgHdr) -> Result<Vec<Control>, Refused> {
    let _ = args;
    message.control.iter().flatten().map(control_of).collect()
}

/// Options that belong to mechanisms which do not exist here yet.
fn option(args: &Args<'_>) -> Result<(), Refused> {
    match &args.at(2)?.kind {
        ExprKind::Word(word) if OPTIONS_UNSUPPORTED.contains(&word.as_str()) => {
            refuse(format!("the socket option {word}"))
        }
        _ => Ok(()),
    }
}

fn option_value(args: &Args<'_>) -> Result<Option<Vec<u8>>, Refused> {
    let expr = args.at(3)?;
    let len = args.long(4)?;
    let mut bytes = match &expr.kind {
        ExprKind::Text { bytes, .. } => bytes.clone(),
        ExprKind::Linger { onoff, linger } => [onoff.to_ne_bytes(), linger.to_ne_bytes()].concat(),
        ExprKind::List(_) => match bracketed(expr) {
            Some(number) => match to_int(number) {
                Ok(int) => int.to_ne_bytes().to_vec(),
                Err(_) => number.to_ne_bytes().to_vec(),
            },
            None => return bad(format!("{expr} is no value: [N]")),
        },
        _ => match int(expr) {
            Some(0) => return Ok(None),
            _ => return refuse(format!("{expr} as the value of a socket option")),
        },
    };
    let len = length(len)?;
    if len > bytes.len() {
        // The caller tells more than it has; nobody may read beyond it.
        bytes.resize(len.min(256), 0);
    }
    bytes.truncate(len);
    Ok(Some(bytes))
}
