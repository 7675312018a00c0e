//! `getsockopt` and `ioctl`.

use alloc::vec::Vec;
use core::time::Duration;

use stack::Io;

use super::{KEPT_IP, KEPT_IPV6, MSS_DEFAULT, NAME_MAX};
use crate::Errno;
use crate::abi::*;
use crate::call::Value;
use crate::data::readable;
use crate::info::{LinuxTcpInfo, cc_info_bytes};
use crate::socket::{Phase, Socket};
use crate::sockets::Sockets;

/// A value as the caller gets it.
enum Answer {
    /// Cut to what the caller has room for.
    Int(i32),
    /// Likewise.
    Bytes(Vec<u8>),
}

impl Sockets {
    pub(crate) fn get_option(
        &mut self,
        io: &dyn Io,
        fd: i32,
        (level, name): (i32, i32),
        room: i32,
    ) -> Result<Vec<u8>, Errno> {
        let id = self.socket_of(fd)?;
        let room = usize::try_from(room).map_err(|_| Errno::EINVAL)?;
        let socket = self.get_mut(id)?;
        let answer = match level {
            SOL_SOCKET => socket_level(io, socket, name)?,
            SOL_TCP => tcp_level(io, socket, name)?,
            SOL_IP => ip_level(io, socket, name)?,
            SOL_IPV6 if socket.v6 => ipv6_level(io, socket, name)?,
            _ => return Err(Errno::ENOPROTOOPT),
        };
        let mut bytes = match answer {
            // IPv4 options that fit one byte can be had as one.
            Answer::Int(n @ 0..=255) if level == SOL_IP && (1..4).contains(&room) => {
                [n as u8].to_vec()
            }
            Answer::Int(n) => n.to_ne_bytes().to_vec(),
            Answer::Bytes(bytes) => bytes,
        };
        bytes.truncate(room);
        Ok(bytes)
    }

    /// The numbers of a socket, as `TCP_INFO` has them.
    ///
    /// # Errors
    ///
    /// `EBADF`, `ENOTSOCK`.
    pub fn tcp_info(&self, io: &dyn Io, fd: i32) -> Result<LinuxTcpInfo, Errno> {
        Ok(info_of(io, self.get(self.socket_of(fd)?)?))
    }

    pub(crate) fn ioctl(
        &mut self,
        io: &dyn Io,
        fd: i32,
        request: u32,
        value: Option<i32>,
    ) -> Result<Value, Errno> {
        let file = self.file_of(fd)?;
        if request == FIONBIO {
            let on = value.ok_or(Errno::EFAULT)? != 0;
            self.set_nonblocking(file, on);
            return Ok(Value::Int(0));
        }
        let id = self.socket_of(fd).map_err(|_| Errno::ENOTTY)?;
        let socket = self.get(id)?;
        let listens = matches!(socket.phase, Phase::Listening(_));
        let info = socket.conn().and_then(|conn| io.info(conn));
        let answer = match request {
            SIOCINQ | SIOCOUTQ | SIOCOUTQNSD if listens => return Err(Errno::EINVAL),
            SIOCINQ => readable(io, socket) as u64,
            SIOCOUTQ => info.map_or(0, |info| info.snd_queue.into()),
            SIOCOUTQNSD => info.map_or(0, |info| info.notsent_bytes.into()),
            // Urgent data are part of the stream here.
            SIOCATMARK => 0,
            _ => return Err(Errno::ENOTTY),
        };
        if value.is_none() {
            return Err(Errno::EFAULT);
        }
        Ok(Value::Out(i32::try_from(answer).unwrap_or(i32::MAX)))
    }
}

fn info_of(io: &dyn Io, socket: &Socket) -> LinuxTcpInfo {
    match &socket.phase {
        Phase::Idle => match &socket.last {
            Some(last) => LinuxTcpInfo::of(last),
            None => LinuxTcpInfo::idle(TCP_CLOSE),
        },
        Phase::Listening(listening) => LinuxTcpInfo {
            unacked: listening.waiting(),
            sacked: listening.backlog,
            ..LinuxTcpInfo::idle(TCP_LISTEN)
        },
        Phase::Opening(conn) | Phase::Open(conn) => match io.info(*conn) {
            Some(info) => LinuxTcpInfo::of(&info),
            None if matches!(socket.phase, Phase::Opening(_)) => LinuxTcpInfo::idle(TCP_SYN_SENT),
            // Over, but for what is to be read.
            None => LinuxTcpInfo::idle(TCP_CLOSE),
        },
    }
}

fn timeval(time: Option<Duration>) -> Answer {
    let time = time.unwrap_or_default();
    let mut bytes = (time.as_secs() as i64).to_ne_bytes().to_vec();
    bytes.extend(i64::from(time.subsec_micros()).to_ne_bytes());
    Answer::Bytes(bytes)
}

fn unsigned(n: u32) -> Answer {
    Answer::Int(n as i32)
}

fn flag(on: bool) -> Answer {
    Answer::Int(on.into())
}

fn socket_level(io: &dyn Io, socket: &mut Socket, name: i32) -> Result<Answer, Errno> {
    let params = &io.params().tcp;
    let info = socket.conn().and_then(|conn| io.info(conn));
    let options = &socket.options;
    // While nothing is fixed, the engine grows them.
    let sndbuf = options.sndbuf.unwrap_or_else(|| info.map_or(params.wmem[1], |info| info.sndbuf));
    let rcvbuf = options.rcvbuf.unwrap_or_else(|| info.map_or(params.rmem[1], |info| info.rcvbuf));
    Ok(match name {
        SO_REUSEADDR => flag(options.reuseaddr),
        SO_REUSEPORT => flag(options.reuseport),
        SO_TYPE => Answer::Int(SOCK_STREAM),
        SO_PROTOCOL => Answer::Int(IPPROTO_TCP),
        SO_DOMAIN => Answer::Int(if socket.v6 { AF_INET6 } else { AF_INET }),
        SO_ERROR => Answer::Int(socket.take_error().map_or(0, Errno::number)),
        SO_SNDBUF => unsigned(sndbuf),
        SO_RCVBUF => unsigned(rcvbuf),
        SO_KEEPALIVE => flag(options.keepalive),
        SO_LINGER => {
            let mut bytes = i32::from(options.linger.is_some()).to_ne_bytes().to_vec();
            bytes.extend(options.linger_time.to_ne_bytes());
            Answer::Bytes(bytes)
        }
        SO_RCVLOWAT => Answer::Int(options.rcvlowat),
        SO_SNDLOWAT => Answer::Int(1),
        SO_RCVTIMEO | SO_RCVTIMEO_NEW => timeval(options.rcvtimeo),
        SO_SNDTIMEO | SO_SNDTIMEO_NEW => timeval(options.sndtimeo),
        SO_MARK => Answer::Int(options.mark),
        SO_PRIORITY => Answer::Int(options.priority),
        SO_TXREHASH => Answer::Int(options.txrehash),
        SO_MAX_PACING_RATE => Answer::Bytes(options.max_pacing_rate.to_ne_bytes().to_vec()),
        SO_ACCEPTCONN => flag(matches!(socket.phase, Phase::Listening(_))),
        SO_BINDTODEVICE => Answer::Bytes(Vec::new()),
        SO_BINDTOIFINDEX | SO_INCOMING_NAPI_ID => Answer::Int(0),
        SO_ZEROCOPY | SO_TIMESTAMP | SO_TIMESTAMPNS | SO_TIMESTAMPING => Answer::Int(0),
        SO_DEBUG | SO_DONTROUTE | SO_BROADCAST | SO_OOBINLINE | SO_NO_CHECK | SO_BUSY_POLL
        | SO_INCOMING_CPU => Answer::Int(options.kept((SOL_SOCKET, name))),
        SO_MEMINFO => {
            let queued = info.map_or(0, |info| info.snd_queue);
            let received = info.map_or(0, |info| info.rcv_queue + info.rcv_ooo_bytes);
            let waiting = match &socket.phase {
                Phase::Listening(listening) => listening.waiting(),
                _ => 0,
            };
            // SK_MEMINFO_*: what is received and stored, and its bound; what is on its way, and its bound;
            // what is set aside; what is queued; option memory, backlog and drops, which do not exist.
            let words = [received, rcvbuf, queued, sndbuf, 0, queued, 0, waiting, 0];
            Answer::Bytes(words.iter().flat_map(|word| word.to_ne_bytes()).collect())
        }
        _ => return Err(Errno::ENOPROTOOPT),
    })
}

fn tcp_level(io: &dyn Io, socket: &Socket, name: i32) -> Result<Answer, Errno> {
    let options = &socket.options;
    let params = &io.params().tcp;
    let seconds = |time: Duration| i32::try_from(time.as_secs()).unwrap_or(i32::MAX);
    let fixed = matches!(socket.phase, Phase::Idle | Phase::Listening(_));
    Ok(match name {
        TCP_NODELAY => flag(options.nodelay),
        TCP_CORK => flag(options.cork),
        TCP_MAXSEG => {
            let used = socket.conn().and_then(|conn| io.info(conn)).map(|info| info.snd_mss);
            let asked = options.maxseg.filter(|_| fixed).map(u32::from);
            unsigned(asked.or(used).unwrap_or(MSS_DEFAULT))
        }
        TCP_KEEPIDLE => {
            Answer::Int(options.keepidle.map_or(seconds(params.keepalive_time), i32::from))
        }
        TCP_KEEPINTVL => {
            Answer::Int(options.keepintvl.map_or(seconds(params.keepalive_interval), i32::from))
        }
        TCP_KEEPCNT => Answer::Int(options.keepcnt.unwrap_or(params.keepalive_probes).into()),
        TCP_SYNCNT => Answer::Int(options.syncnt.unwrap_or(params.syn_retries).into()),
        TCP_LINGER2 => Answer::Int(match options.linger2 {
            0 => seconds(params.fin_timeout),
            other => other,
        }),
        TCP_DEFER_ACCEPT => unsigned(options.defer_accept_sec),
        TCP_WINDOW_CLAMP => unsigned(options.window_clamp),
        TCP_QUICKACK => flag(socket.conn().is_none_or(|conn| io.is_quickack(conn))),
        TCP_CONGESTION => {
            // A connection may have another than was asked for: DCTCP needs a peer with ECN.
            let live = socket.conn().and_then(|conn| io.info(conn)).map(|info| info.congestion);
            let mut name = live.unwrap_or(options.congestion.name()).as_bytes().to_vec();
            name.resize(NAME_MAX, 0);
            Answer::Bytes(name)
        }
        TCP_USER_TIMEOUT => unsigned(options.user_timeout_ms),
        TCP_NOTSENT_LOWAT => unsigned(options.notsent_lowat),
        TCP_INQ => flag(options.inq),
        TCP_THIN_LINEAR_TIMEOUTS | TCP_THIN_DUPACK => Answer::Int(options.kept((SOL_TCP, name))),
        TCP_FASTOPEN
        | TCP_FASTOPEN_CONNECT
        | TCP_FASTOPEN_NO_COOKIE
        | TCP_SAVE_SYN
        | TCP_TX_DELAY
        | TCP_REPAIR => Answer::Int(0),
        TCP_INFO => Answer::Bytes(info_of(io, socket).to_bytes()),
        TCP_CC_INFO => {
            let info = socket.conn().and_then(|conn| io.info(conn)).map(|info| info.cc);
            Answer::Bytes(info.map_or_else(Vec::new, |info| cc_info_bytes(&info)))
        }
        TCP_SAVED_SYN | TCP_ULP => Answer::Bytes(Vec::new()),
        _ => return Err(Errno::ENOPROTOOPT),
    })
}

/// The path's MTU, of a connection.
fn path_mtu(io: &dyn Io, socket: &Socket) -> Result<Answer, Errno> {
    let info = match socket.phase {
        Phase::Open(conn) => io.info(conn),
        _ => None,
    };
    Ok(unsigned(info.ok_or(Errno::ENOTCONN)?.pmtu))
}

fn ip_level(io: &dyn Io, socket: &Socket, name: i32) -> Result<Answer, Errno> {
    let options = &socket.options;
    Ok(match name {
        IP_TOS => Answer::Int(options.tos.into()),
        IP_TTL => Answer::Int(options.ttl.unwrap_or(io.params().ttl).into()),
        IP_MTU_DISCOVER => Answer::Int(options.mtu_discover),
        IP_MTU => path_mtu(io, socket)?,
        IP_FREEBIND => flag(options.freebind),
        kept if KEPT_IP.contains(&kept) => Answer::Int(options.kept((SOL_IP, kept))),
        IP_MINTTL => Answer::Int(0),
        IP_OPTIONS => Answer::Bytes(Vec::new()),
        _ => return Err(Errno::ENOPROTOOPT),
    })
}

fn ipv6_level(io: &dyn Io, socket: &Socket, name: i32) -> Result<Answer, Errno> {
    let options = &socket.options;
    Ok(match name {
        IPV6_V6ONLY => flag(options.v6only),
        IPV6_UNICAST_HOPS => Answer::Int(options.hops.unwrap_or(io.params().ttl).into()),
        IPV6_TCLASS => Answer::Int(options.tclass.into()),
        IPV6_MTU_DISCOVER => Answer::Int(options.mtu_discover6),
        IPV6_MTU => path_mtu(io, socket)?,
        IPV6_FREEBIND => flag(options.freebind),
        kept if KEPT_IPV6.contains(&kept) => Answer::Int(options.kept((SOL_IPV6, kept))),
        IPV6_MINHOPCOUNT => Answer::Int(0),
        _ => return Err(Errno::ENOPROTOOPT),
    })
}
