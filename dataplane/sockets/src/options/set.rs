//! `setsockopt`.

use core::time::Duration;

use stack::Io;
use tcp::params::{CongestionAlgorithm, FIN_TIMEOUT_SEC_MAX};

use super::{
    COUNT, KEEP_SECONDS, KEPT_IP, KEPT_IPV6, MAXSEG, NAME_MAX, Options, RCVBUF_MIN, SNDBUF_MIN,
    rounded_to_retransmissions,
};
use crate::Errno;
use crate::abi::*;
use crate::ready::{READ, is_readable};
use crate::slab::FileId;
use crate::socket::{Phase, Socket};
use crate::sockets::Sockets;

/// What is left to do once an option is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// Nothing.
    Nothing,
    /// The connection or listener is to hear of it.
    Tell,
    /// The same, and what waits is to be sent.
    Push,
    /// Less may be readable now, or more.
    Look,
    /// `TCP_QUICKACK` is about the moment.
    QuickAck(bool),
}

/// The value of an option that is an integer.
fn int(value: &[u8]) -> Result<i32, Errno> {
    value.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes)).ok_or(Errno::EINVAL)
}

/// Options of IPv4 may be a single byte, too.
fn int_or_byte(value: &[u8]) -> Result<i32, Errno> {
    int(value).or_else(|_| value.first().map(|byte| i32::from(*byte)).ok_or(Errno::EINVAL))
}

fn time(value: &[u8]) -> Result<Option<Duration>, Errno> {
    let long = |at: usize| {
        let bytes = value.get(at..at + 8).and_then(|b| b.try_into().ok());
        bytes.map(i64::from_ne_bytes).ok_or(Errno::EINVAL)
    };
    let (seconds, micros) = (long(0)?, long(8)?);
    if !(0..1_000_000).contains(&micros) {
        return Err(Errno::EDOM);
    }
    match u64::try_from(seconds) {
        // A time before now: no waiting at all.
        Err(_) => Ok(Some(Duration::ZERO)),
        Ok(0) if micros == 0 => Ok(None),
        Ok(seconds) => Ok(Some(Duration::new(seconds, micros as u32 * 1000))),
    }
}

fn within<T: TryFrom<i32>>(value: i32, range: core::ops::RangeInclusive<i32>) -> Result<T, Errno> {
    if !range.contains(&value) {
        return Err(Errno::EINVAL);
    }
    T::try_from(value).map_err(|_| Errno::EINVAL)
}

/// Something that does not exist: switching it off is all that can be asked for.
fn refused(value: i32) -> Result<Then, Errno> {
    if value == 0 { Ok(Then::Nothing) } else { Err(Errno::EOPNOTSUPP) }
}

impl Sockets {
    pub(crate) fn set_option(
        &mut self,
        io: &mut dyn Io,
        fd: i32,
        (level, name): (i32, i32),
        value: Option<&[u8]>,
    ) -> Result<(), Errno> {
        let id = self.socket_of(fd)?;
        let value = value.ok_or(Errno::EFAULT)?;
        let socket = self.get_mut(id)?;
        let then = match level {
            SOL_SOCKET => socket_level(io, socket, name, value)?,
            SOL_TCP => tcp_level(socket, name, value)?,
            SOL_IP => ip_level(socket, name, value)?,
            SOL_IPV6 if socket.v6 => ipv6_level(socket, name, value)?,
            _ => return Err(Errno::ENOPROTOOPT),
        };
        match then {
            Then::Nothing => {}
            Then::Tell => self.tell_options(io, id),
            Then::Push => {
                self.tell_options(io, id);
                if let Some(conn) = self.get(id)?.conn() {
                    io.push(conn);
                }
            }
            Then::Look => {
                if self.get(id).is_ok_and(|socket| is_readable(io, socket)) {
                    self.wake(id, READ);
                }
            }
            Then::QuickAck(on) => {
                if let Some(conn) = self.get(id)?.conn() {
                    io.set_quickack(conn, on);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn tell_options(&self, io: &mut dyn Io, id: FileId) {
        let Ok(socket) = self.get(id) else { return };
        let options = socket.options.for_connection(socket.sends_v6());
        match &socket.phase {
            Phase::Idle => {}
            Phase::Listening(listening) => {
                io.set_listener_options(listening.listener, &options);
            }
            Phase::Opening(conn) | Phase::Open(conn) => io.set_options(*conn, &options),
        }
    }
}

fn socket_level(io: &dyn Io, socket: &mut Socket, name: i32, value: &[u8]) -> Result<Then, Errno> {
    let options = &mut socket.options;
    if name == SO_BINDTODEVICE {
        // Ports have numbers here, and no names.
        let named = value.iter().take_while(|byte| **byte != 0).count() > 0;
        return if named { Err(Errno::ENODEV) } else { Ok(Then::Nothing) };
    }
    let number = int(value)?;
    let on = number != 0;
    let (rmem_max, wmem_max) = (io.params().tcp.rmem_max, io.params().tcp.wmem_max);
    // Negative ones are large unsigned ones.
    let bytes = number as u32;
    match name {
        SO_REUSEADDR => options.reuseaddr = on,
        SO_REUSEPORT => options.reuseport = on,
        SO_SNDBUF | SO_SNDBUFFORCE => {
            options.sndbuf = Some(bytes.min(wmem_max).saturating_mul(2).max(SNDBUF_MIN));
            return Ok(Then::Tell);
        }
        SO_RCVBUF | SO_RCVBUFFORCE => {
            options.rcvbuf = Some(bytes.min(rmem_max).saturating_mul(2).max(RCVBUF_MIN));
            return Ok(Then::Tell);
        }
        SO_KEEPALIVE => {
            options.keepalive = on;
            return Ok(Then::Tell);
        }
        SO_LINGER => {
            let seconds = int(value.get(4..).unwrap_or(&[]))?;
            options.linger_time = if on { seconds } else { options.linger_time };
            options.linger = on.then(|| u32::try_from(seconds).unwrap_or(u32::MAX));
            return Ok(Then::Tell);
        }
        SO_RCVLOWAT => {
            let lowat = if number < 0 { i32::MAX } else { number.max(1) };
            // More than half of the buffer would never come together.
            let buffer = options.rcvbuf.unwrap_or(io.params().tcp.rmem[2]);
            options.rcvlowat = lowat.min(i32::try_from(buffer / 2).unwrap_or(i32::MAX).max(1));
            return Ok(Then::Look);
        }
        SO_RCVTIMEO | SO_RCVTIMEO_NEW => options.rcvtimeo = time(value)?,
        SO_SNDTIMEO | SO_SNDTIMEO_NEW => options.sndtimeo = time(value)?,
        SO_MARK => options.mark = number,
        SO_PRIORITY => options.priority = number,
        SO_TXREHASH => {
            let rehash: i32 = within(number, -1..=1)?;
            options.txrehash = if rehash < 0 { 1 } else { rehash };
        }
        SO_MAX_PACING_RATE => {
            let long = value.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes));
            let all = if bytes == u32::MAX { u64::MAX } else { bytes.into() };
            options.max_pacing_rate = long.unwrap_or(all);
        }
        SO_ZEROCOPY => {
            let _: u8 = within(number, 0..=1)?;
            return refused(number);
        }
        SO_TIMESTAMP | SO_TIMESTAMPNS | SO_TIMESTAMPING => return refused(number),
        SO_BINDTOIFINDEX if on => return Err(Errno::ENODEV),
        SO_DEBUG | SO_DONTROUTE | SO_BROADCAST | SO_OOBINLINE | SO_NO_CHECK => {
            options.keep((SOL_SOCKET, name), on.into());
        }
        SO_BUSY_POLL if number < 0 => return Err(Errno::EINVAL),
        SO_BUSY_POLL | SO_INCOMING_CPU => options.keep((SOL_SOCKET, name), number),
        SO_BINDTOIFINDEX => {}
        _ => return Err(Errno::ENOPROTOOPT),
    }
    Ok(Then::Nothing)
}

fn tcp_level(socket: &mut Socket, name: i32, value: &[u8]) -> Result<Then, Errno> {
    let options = &mut socket.options;
    match name {
        TCP_CONGESTION => {
            return set_congestion(options, value);
        }
        // No upper layer is known.
        TCP_ULP if value.is_empty() => return Err(Errno::EINVAL),
        TCP_ULP => return Err(Errno::ENOENT),
        TCP_FASTOPEN_KEY | TCP_ZEROCOPY_RECEIVE => return Err(Errno::EOPNOTSUPP),
        _ => {}
    }
    let number = int(value)?;
    let on = number != 0;
    match name {
        TCP_NODELAY => {
            options.nodelay = on;
            // Each time that it is said, as on Linux.
            return Ok(if on { Then::Push } else { Then::Tell });
        }
        TCP_CORK => options.cork = on,
        TCP_MAXSEG if number == 0 => options.maxseg = None,
        TCP_MAXSEG => options.maxseg = Some(within(number, MAXSEG)?),
        TCP_KEEPIDLE => options.keepidle = Some(within(number, KEEP_SECONDS)?),
        TCP_KEEPINTVL => options.keepintvl = Some(within(number, KEEP_SECONDS)?),
        TCP_KEEPCNT => options.keepcnt = Some(within(number, COUNT)?),
        TCP_SYNCNT => options.syncnt = Some(within(number, COUNT)?),
        TCP_LINGER2 => {
            let most = i32::from(FIN_TIMEOUT_SEC_MAX);
            options.linger2 = if number < 0 { -1 } else { number.min(most) };
        }
        TCP_DEFER_ACCEPT => {
            options.defer_accept_sec = rounded_to_retransmissions(number);
            return Ok(Then::Nothing);
        }
        TCP_WINDOW_CLAMP => {
            if !on && !matches!(socket.phase, Phase::Idle) {
                return Err(Errno::EINVAL);
            }
            let bytes = number as u32;
            options.window_clamp = if on { bytes.max(RCVBUF_MIN / 2) } else { 0 };
        }
        TCP_QUICKACK => return Ok(Then::QuickAck(on)),
        TCP_USER_TIMEOUT => {
            options.user_timeout_ms = u32::try_from(number).map_err(|_| Errno::EINVAL)?;
        }
        TCP_NOTSENT_LOWAT => options.notsent_lowat = number as u32,
        TCP_INQ => {
            let inq: u8 = within(number, 0..=1)?;
            options.inq = inq != 0;
            return Ok(Then::Nothing);
        }
        TCP_THIN_LINEAR_TIMEOUTS | TCP_THIN_DUPACK => {
            let flag: i32 = within(number, 0..=1)?;
            options.keep((SOL_TCP, name), flag);
            return Ok(Then::Nothing);
        }
        TCP_FASTOPEN
        | TCP_FASTOPEN_CONNECT
        | TCP_FASTOPEN_NO_COOKIE
        | TCP_SAVE_SYN
        | TCP_TX_DELAY => return refused(number),
        TCP_REPAIR => return if on { Err(Errno::EPERM) } else { Ok(Then::Nothing) },
        _ => return Err(Errno::ENOPROTOOPT),
    }
    Ok(Then::Tell)
}

fn set_congestion(options: &mut Options, value: &[u8]) -> Result<Then, Errno> {
    if value.is_empty() {
        return Err(Errno::EINVAL);
    }
    let name = value.split(|byte| *byte == 0).next().unwrap_or(&[]);
    let name = name.get(..NAME_MAX - 1).unwrap_or(name);
    let known = CongestionAlgorithm::ALL.iter().find(|(known, _)| known.as_bytes() == name);
    options.congestion = known.ok_or(Errno::ENOENT)?.1;
    options.congestion_set = true;
    Ok(Then::Tell)
}

fn ip_level(socket: &mut Socket, name: i32, value: &[u8]) -> Result<Then, Errno> {
    let options = &mut socket.options;
    if name == IP_OPTIONS {
        return if value.is_empty() { Ok(Then::Nothing) } else { Err(Errno::EOPNOTSUPP) };
    }
    let number = int_or_byte(value)?;
    match name {
        // The two bits of ECN are TCP's own.
        IP_TOS => options.tos = number as u8 & !3,
        IP_TTL if number == -1 => options.ttl = None,
        IP_TTL => options.ttl = Some(within(number, 1..=255)?),
        IP_MTU_DISCOVER => options.mtu_discover = within(number, 0..=IP_PMTUDISC_OMIT)?,
        IP_FREEBIND => options.freebind = number != 0,
        kept if KEPT_IP.contains(&kept) => {
            options.keep((SOL_IP, kept), (number != 0).into());
            return Ok(Then::Nothing);
        }
        // To accept it and not to do it would open what the caller wants closed.
        IP_MINTTL => return refused(within(number, 0..=255)?),
        _ => return Err(Errno::ENOPROTOOPT),
    }
    Ok(Then::Tell)
}

fn ipv6_level(socket: &mut Socket, name: i32, value: &[u8]) -> Result<Then, Errno> {
    let number = int(value)?;
    let bound = socket.bound.is_some();
    let options = &mut socket.options;
    match name {
        IPV6_V6ONLY if bound => return Err(Errno::EINVAL),
        IPV6_V6ONLY => {
            options.v6only = number != 0;
            return Ok(Then::Nothing);
        }
        IPV6_UNICAST_HOPS if number == -1 => options.hops = None,
        IPV6_UNICAST_HOPS => options.hops = Some(within(number, 0..=255)?),
        IPV6_TCLASS if number == -1 => options.tclass = 0,
        IPV6_TCLASS => {
            let class: u8 = within(number, 0..=255)?;
            options.tclass = class & !3;
        }
        IPV6_MTU_DISCOVER => options.mtu_discover6 = within(number, 0..=IP_PMTUDISC_OMIT)?,
        IPV6_FREEBIND => options.freebind = number != 0,
        kept if KEPT_IPV6.contains(&kept) => {
            options.keep((SOL_IPV6, kept), (number != 0).into());
            return Ok(Then::Nothing);
        }
        IPV6_MINHOPCOUNT => return refused(within(number, 0..=255)?),
        _ => return Err(Errno::ENOPROTOOPT),
    }
    Ok(Then::Tell)
}
