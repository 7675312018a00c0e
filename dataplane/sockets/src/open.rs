//! From `socket` to a connection: `bind`, `listen`, `accept`, `connect`, and the names of both ends.

use alloc::collections::VecDeque;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base::{ConnId, Instant};
use stack::{ConnectError, Io, ListenError, Local};

use crate::abi::*;
use crate::addr::unmapped;
use crate::call::{Outcome, Value};
use crate::file::{Descriptor, File, Kind};
use crate::options::Options;
use crate::ready::{ALL, READ};
use crate::slab::FileId;
use crate::socket::{Association, Bound, Listening, Phase, Socket};
use crate::sockets::{Patience, Pending, Sockets, Step};
use crate::{Errno, SockAddr};

/// Ports tried when any will do.
const PORT_TRIES: u32 = 65_536;

impl Sockets {
    pub(crate) fn socket(
        &mut self,
        io: &dyn Io,
        domain: i32,
        kind: i32,
        protocol: i32,
    ) -> Result<i64, Errno> {
        let flags = kind & !SOCK_TYPE_MASK;
        if flags & !(SOCK_NONBLOCK | SOCK_CLOEXEC) != 0 {
            return Err(Errno::EINVAL);
        }
        let v6 = match domain {
            AF_INET => false,
            AF_INET6 => true,
            _ => return Err(Errno::EAFNOSUPPORT),
        };
        match kind & SOCK_TYPE_MASK {
            SOCK_STREAM => {}
            0 | SOCK_MAX.. => return Err(Errno::EINVAL),
            _ => return Err(Errno::ESOCKTNOSUPPORT),
        }
        if !matches!(protocol, 0 | IPPROTO_TCP) {
            return Err(if protocol < 0 { Errno::EINVAL } else { Errno::EPROTONOSUPPORT });
        }
        let socket = Socket::new(v6, Options::new(io.params()));
        self.install(Self::new_socket(socket), flags)
    }

    pub(crate) fn bind(
        &mut self,
        io: &mut dyn Io,
        fd: i32,
        addr: Option<SockAddr>,
    ) -> Result<i64, Errno> {
        let id = self.socket_of(fd)?;
        let socket = self.get(id)?;
        let addr = match (addr.ok_or(Errno::EFAULT)?, socket.v6) {
            (SockAddr::V4(addr), false) => SocketAddr::V4(addr),
            // Linux takes an unspecified family for IPv4 if the address is unspecified, too.
            (SockAddr::Unspec, false) => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
            // A `sockaddr_in` is too short for IPv6.
            (SockAddr::V4(_), true) => return Err(Errno::EINVAL),
            (SockAddr::V6(addr), true) => {
                let mapped = addr.ip().to_ipv4_mapped().is_some();
                if addr.ip().is_multicast() || (mapped && socket.options.v6only) {
                    return Err(Errno::EINVAL);
                }
                if mapped { unmapped(addr) } else { SocketAddr::V6(addr) }
            }
            _ => return Err(Errno::EAFNOSUPPORT),
        };
        if !matches!(socket.phase, Phase::Idle) || socket.bound.is_some() {
            return Err(Errno::EINVAL);
        }
        // The mapped unspecified address means all of IPv4, not all of both families.
        let only4 = socket.v6 && addr.is_ipv4();
        let ip = Some(addr.ip()).filter(|ip| !ip.is_unspecified() || only4);
        if let Some(ip) = ip
            && !ip.is_unspecified()
            && !io.is_local(ip)
            && !socket.options.freebind
        {
            return Err(Errno::EADDRNOTAVAIL);
        }
        let bound = self.find_port(io, id, ip, addr.port())?;
        let socket = self.get_mut(id)?;
        socket.bound = Some(Bound { by_bind: true, ..bound });
        Ok(0)
    }

    /// `port` at `addr`, or any port if it is zero.
    fn find_port(
        &self,
        io: &mut dyn Io,
        id: FileId,
        addr: Option<IpAddr>,
        port: u16,
    ) -> Result<Bound, Errno> {
        let socket = self.get(id)?;
        if port != 0 {
            let bound = Bound { addr, port, by_bind: false };
            let free = !self.conflicts(io, id, socket, bound, false);
            return if free { Ok(bound) } else { Err(Errno::EADDRINUSE) };
        }
        let [low, high] = io.params().local_port_range;
        let (low, high) = (low.min(high).max(1), low.max(high).max(1));
        let count = u32::from(high - low) + 1;
        let start = (io.random() % u64::from(count)) as u32;
        for step in 0..count.min(PORT_TRIES) {
            let port = low + ((start + step) % count) as u16;
            let bound = Bound { addr, port, by_bind: false };
            if !self.conflicts(io, id, socket, bound, true) {
                return Ok(bound);
            }
        }
        Err(Errno::EADDRINUSE)
    }

    /// Whether another socket, or a connection that nobody holds any more, keeps `bound` from us. Two
    /// share a port if both say `SO_REUSEADDR` and neither listens, or both say `SO_REUSEPORT`. `any`:
    /// the port is one of many, so none is shared.
    fn conflicts(&self, io: &dyn Io, id: FileId, own: &Socket, bound: Bound, any: bool) -> bool {
        let mut shared_by_ours = false;
        for (other_id, file) in self.files.iter() {
            let Kind::Socket(other) = &file.kind else { continue };
            let Some(held) = other.bound else { continue };
            if other_id == id || held.port != bound.port {
                continue;
            }
            shared_by_ours = true;
            if !overlap(own, bound.addr, other, held.addr) {
                continue;
            }
            let listens = matches!(own.phase, Phase::Listening(_))
                || matches!(other.phase, Phase::Listening(_));
            let reuse = own.options.reuseaddr && other.options.reuseaddr && !listens;
            let reuseport = own.options.reuseport && other.options.reuseport;
            if any || !(reuse || reuseport) {
                return true;
            }
        }
        // What is left of closed ones: connections that end, and TIME-WAIT.
        !shared_by_ours && (any || !own.options.reuseaddr) && io.is_port_used(bound.port)
    }

    pub(crate) fn listen(&mut self, io: &mut dyn Io, fd: i32, backlog: i32) -> Result<i64, Errno> {
        let id = self.socket_of(fd)?;
        let most = io.params().somaxconn;
        // A negative one is a large unsigned one.
        let backlog = u32::try_from(backlog).map_or(most, |backlog| backlog.min(most));
        let socket = self.get_mut(id)?;
        if socket.association != Association::Unconnected {
            return Err(Errno::EINVAL);
        }
        match &mut socket.phase {
            Phase::Listening(listening) => {
                listening.backlog = backlog;
                let listener = listening.listener;
                self.tell_queue(io, listener);
                return Ok(0);
            }
            Phase::Idle => {}
            Phase::Opening(_) | Phase::Open(_) => return Err(Errno::EINVAL),
        }
        let bound = match socket.bound {
            Some(bound) => bound,
            None => self.find_port(io, id, None, 0)?,
        };
        let listener = self.open_listener(io, id, bound, backlog)?;
        let socket = self.get_mut(id)?;
        socket.bound = Some(bound);
        socket.shut_read = false;
        socket.shut_write = false;
        socket.done = false;
        socket.phase = Phase::Listening(Listening {
            listener,
            backlog,
            queue: VecDeque::new(),
            deferred: VecDeque::new(),
        });
        self.listeners.entry(listener).or_default().push(id);
        self.tell_queue(io, listener);
        Ok(0)
    }

    /// A listener of the stack for `bound`: a new one, or with `SO_REUSEPORT` that of its group.
    fn open_listener(
        &mut self,
        io: &mut dyn Io,
        id: FileId,
        bound: Bound,
        backlog: u32,
    ) -> Result<base::ListenerId, Errno> {
        let socket = self.get(id)?;
        for (listener, members) in &self.listeners {
            for member in members {
                let Ok(other) = self.get(*member) else { continue };
                let Some(held) = other.bound.filter(|held| held.port == bound.port) else {
                    continue;
                };
                if !overlap(socket, bound.addr, other, held.addr) {
                    continue;
                }
                let same = held.addr == bound.addr
                    && (other.v6, other.options.v6only) == (socket.v6, socket.options.v6only);
                let shared = socket.options.reuseport && other.options.reuseport && same;
                return if shared { Ok(*listener) } else { Err(Errno::EADDRINUSE) };
            }
        }
        let addr = match bound.addr {
            Some(addr) => Some(addr),
            None if !socket.v6 => Some(Ipv4Addr::UNSPECIFIED.into()),
            None if socket.options.v6only => Some(Ipv6Addr::UNSPECIFIED.into()),
            None => None,
        };
        let options = socket.options.for_connection(socket.v6);
        io.listen(addr, bound.port, backlog.saturating_add(1), &options).map_err(
            |error| match error {
                ListenError::InUse => Errno::EADDRINUSE,
                ListenError::NotOurs => Errno::EADDRNOTAVAIL,
                ListenError::Invalid => Errno::ENOBUFS,
            },
        )
    }

    /// What waits to be accepted counts against the backlog. Linux lets one more than it wait.
    pub(crate) fn tell_queue(&mut self, io: &mut dyn Io, listener: base::ListenerId) {
        let (mut backlog, mut waiting) = (0_u32, 0);
        for member in self.listeners.get(&listener).into_iter().flatten() {
            if let Some(listening) = self.listening(*member) {
                backlog = backlog.saturating_add(listening.backlog).saturating_add(1);
                waiting += listening.waiting();
            }
        }
        io.set_listener_queue(listener, backlog, waiting);
    }

    pub(crate) fn accept(
        &mut self,
        io: &mut dyn Io,
        fd: i32,
        flags: i32,
    ) -> Result<Outcome, Errno> {
        if flags & !(SOCK_NONBLOCK | SOCK_CLOEXEC) != 0 {
            return Err(Errno::EINVAL);
        }
        let file = self.socket_of(fd)?;
        self.fds.lowest_free(0).ok_or(Errno::EMFILE)?;
        let timeout = self.get(file)?.options.rcvtimeo;
        let patience = Patience::new(io, self.is_nonblocking(file), timeout);
        Ok(self.begin(io, Pending::Accept { file, flags }, patience))
    }

    pub(crate) fn try_accept(&mut self, io: &mut dyn Io, file: FileId, flags: i32) -> Step {
        let free = self.fds.lowest_free(0);
        let Some(listening) = self.listening_mut(file) else {
            return Step::Done(Err(Errno::EINVAL));
        };
        if listening.queue.is_empty() {
            return Step::Wait;
        }
        let Some(fd) = free else { return Step::Done(Err(Errno::EMFILE)) };
        let listener = listening.listener;
        let Some(child) = listening.queue.pop_front() else { return Step::Wait };
        self.tell_queue(io, listener);
        self.fds
            .set(fd, Some(Descriptor { file: child, close_on_exec: flags & SOCK_CLOEXEC != 0 }));
        self.set_nonblocking(child, flags & SOCK_NONBLOCK != 0);
        let Ok(socket) = self.get_mut(child) else { return Step::Done(Err(Errno::ECONNABORTED)) };
        socket.queued_at = None;
        let (v6, remote) = (socket.v6, socket.remote);
        let peer = remote.map_or(SockAddr::Unspec, |remote| SockAddr::shown(remote, v6));
        Step::Done(Ok(Value::Accepted { fd, peer }))
    }

    /// A listener has a new connection.
    pub(crate) fn on_accepted(
        &mut self,
        io: &mut dyn Io,
        listener: base::ListenerId,
        conn: ConnId,
    ) {
        let local = io.local_addr(conn);
        let remote = io.remote_addr(conn);
        let Some(id) = self.choose_member(listener, remote) else {
            io.abort(conn);
            return;
        };
        let Ok(parent) = self.get(id) else { return };
        let mut child = Socket::new(parent.v6, parent.options.inherited());
        child.bound = parent.bound.map(|bound| Bound { by_bind: false, ..bound });
        child.association = Association::Connected;
        child.phase = Phase::Open(conn);
        (child.local, child.remote) = (local, remote);
        child.queued_at = Some(id);
        if parent.v6 && !child.sends_v6() {
            // The listener could not know of which family its peers are.
            io.set_options(conn, &child.options.for_connection(false));
        }
        let defer = parent.options.defer_accept_sec;
        let Ok(child) = self.files.insert(File::new(Self::new_socket(child), 0)) else {
            io.abort(conn);
            return;
        };
        self.conns.insert(conn, child);
        let until = io.now() + core::time::Duration::from_secs(defer.into());
        let deferred = defer > 0 && io.readable(conn) == 0;
        if let Some(listening) = self.listening_mut(id) {
            if deferred {
                listening.deferred.push_back((child, until));
            } else {
                listening.queue.push_back(child);
            }
        }
        self.tell_queue(io, listener);
        if !deferred {
            self.wake(id, READ);
        }
    }

    /// Which socket of a group gets a connection from `remote`: always the same while the group does
    /// not change.
    fn choose_member(
        &self,
        listener: base::ListenerId,
        remote: Option<SocketAddr>,
    ) -> Option<FileId> {
        let members = self.listeners.get(&listener)?;
        let hash = remote.map_or(0, |remote| {
            let ip = match remote.ip() {
                IpAddr::V4(ip) => u64::from(u32::from(ip)),
                IpAddr::V6(ip) => u128::from(ip) as u64 ^ (u128::from(ip) >> 64) as u64,
            };
            let mixed = (ip << 16 | u64::from(remote.port())).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            mixed >> 32
        });
        members.get(hash as usize % members.len().max(1)).copied()
    }

    /// A connection that waited for its first data has some, or has waited long enough.
    pub(crate) fn promote(&mut self, child: FileId) {
        let Ok(Some(parent)) = self.get(child).map(|socket| socket.queued_at) else { return };
        let Some(listening) = self.listening_mut(parent) else { return };
        let Some(place) = listening.deferred.iter().position(|(id, _)| *id == child) else {
            return;
        };
        listening.deferred.remove(place);
        listening.queue.push_back(child);
        self.wake(parent, READ);
    }

    /// When the next connection has waited long enough for its first data.
    pub(crate) fn next_deferred(&self) -> Option<Instant> {
        let of = |id: &FileId| Some(self.listening(*id)?.deferred.front()?.1);
        self.listeners.values().flatten().filter_map(of).min()
    }

    pub(crate) fn expire_deferred(&mut self, io: &dyn Io) {
        let now = io.now();
        let due: alloc::vec::Vec<FileId> = self
            .listeners
            .values()
            .flatten()
            .filter_map(|id| self.listening(*id))
            .flat_map(|listening| &listening.deferred)
            .filter(|(_, until)| *until <= now)
            .map(|(child, _)| *child)
            .collect();
        for child in due {
            self.promote(child);
        }
    }

    pub(crate) fn connect(
        &mut self,
        io: &mut dyn Io,
        fd: i32,
        addr: Option<SockAddr>,
    ) -> Result<Outcome, Errno> {
        let Some((file, would_block)) = self.connect_now(io, fd, addr)? else {
            return Ok(Outcome::Done(Ok(Value::Int(0))));
        };
        let timeout = self.get(file)?.options.sndtimeo;
        let patience = Patience::new(io, self.is_nonblocking(file), timeout);
        Ok(self.begin(io, Pending::Connect { file, would_block }, patience))
    }

    /// What there is to wait for, and what to say if it cannot be waited for.
    fn connect_now(
        &mut self,
        io: &mut dyn Io,
        fd: i32,
        addr: Option<SockAddr>,
    ) -> Result<Option<(FileId, Errno)>, Errno> {
        let id = self.socket_of(fd)?;
        let addr = addr.ok_or(Errno::EFAULT)?;
        if addr == SockAddr::Unspec {
            self.disconnect(io, id);
            return Ok(None);
        }
        let socket = self.get(id)?;
        match socket.association {
            Association::Connected => return Err(Errno::EISCONN),
            Association::Connecting => return Ok(Some((id, Errno::EALREADY))),
            Association::Unconnected if !matches!(socket.phase, Phase::Idle) => {
                return Err(Errno::EISCONN);
            }
            Association::Unconnected => {}
        }
        let remote = Self::destination(socket, addr)?;
        let options = socket.options.for_connection(remote.is_ipv6());
        let local = socket.bound.map_or(Local::ANY, |bound| Local {
            // The one that an earlier connection had goes with it.
            addr: bound.addr.filter(|addr| bound.by_bind && !addr.is_unspecified()),
            port: Some(bound.port),
        });
        let conn = io.connect(remote, local, &options).map_err(|error| match error {
            ConnectError::NoRoute | ConnectError::Invalid => Errno::ENETUNREACH,
            ConnectError::NotOurs | ConnectError::PortsExhausted => Errno::EADDRNOTAVAIL,
            ConnectError::Limit => Errno::ENOBUFS,
        })?;
        let local = io.local_addr(conn);
        let socket = self.get_mut(id)?;
        socket.reset();
        socket.error = None;
        socket.phase = Phase::Opening(conn);
        socket.association = Association::Connecting;
        (socket.local, socket.remote) = (local, Some(remote));
        if socket.bound.is_none() {
            socket.bound = local.map(|local| Bound {
                addr: Some(local.ip()),
                port: local.port(),
                by_bind: false,
            });
        }
        self.conns.insert(conn, id);
        Ok(Some((id, Errno::EINPROGRESS)))
    }

    /// Where `connect` leads, as the stack knows it.
    fn destination(socket: &Socket, addr: SockAddr) -> Result<SocketAddr, Errno> {
        match (addr, socket.v6) {
            (SockAddr::V4(addr), false) => Ok(SocketAddr::V4(addr)),
            (SockAddr::V4(_), true) => Err(Errno::EINVAL),
            (SockAddr::V6(addr), true) => {
                let remote = unmapped(addr);
                let family_bound = socket.bound.and_then(|bound| bound.addr);
                if remote.is_ipv4() && socket.options.v6only {
                    return Err(Errno::ENETUNREACH);
                }
                match family_bound {
                    Some(own) if own.is_ipv4() && remote.is_ipv6() => Err(Errno::EAFNOSUPPORT),
                    Some(own) if own.is_ipv6() && remote.is_ipv4() => Err(Errno::ENETUNREACH),
                    _ => Ok(remote),
                }
            }
            _ => Err(Errno::EAFNOSUPPORT),
        }
    }

    pub(crate) fn try_connect(&mut self, file: FileId) -> Step {
        let Ok(socket) = self.get_mut(file) else { return Step::Done(Err(Errno::EBADF)) };
        match socket.phase {
            Phase::Opening(_) => Step::Wait,
            Phase::Open(_) => {
                socket.association = Association::Connected;
                Step::Done(Ok(Value::Int(0)))
            }
            // It came and went before anybody asked, or never was.
            Phase::Idle | Phase::Listening(_) => {
                let error = socket.take_error().unwrap_or(Errno::ECONNABORTED);
                socket.reset();
                Step::Done(Err(error))
            }
        }
    }

    /// Dissolve what `connect`, `accept` or `listen` has made: `connect` with `AF_UNSPEC`.
    pub(crate) fn disconnect(&mut self, io: &mut dyn Io, id: FileId) {
        let Ok(socket) = self.get(id) else { return };
        let needs_reset = match socket.phase {
            Phase::Open(conn) => io.info(conn).is_some_and(|info| {
                matches!(
                    info.state,
                    tcp::State::Established
                        | tcp::State::CloseWait
                        | tcp::State::FinWait1
                        | tcp::State::FinWait2
                )
            }),
            Phase::Opening(_) => true,
            Phase::Idle | Phase::Listening(_) => false,
        };
        self.release_phase(io, id, true);
        let Ok(socket) = self.get_mut(id) else { return };
        socket.reset();
        if needs_reset {
            socket.error = Some(Errno::ECONNRESET);
        }
        self.wake(id, ALL);
    }

    pub(crate) fn name(&mut self, io: &dyn Io, fd: i32, peer: bool) -> Result<Value, Errno> {
        let id = self.socket_of(fd)?;
        let socket = self.get(id)?;
        let any: IpAddr =
            if socket.v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let addr = if peer {
            // Not in CLOSED, and not in SYN-SENT either.
            match socket.phase {
                Phase::Open(conn) => socket.remote.or_else(|| io.remote_addr(conn)),
                _ => None,
            }
            .ok_or(Errno::ENOTCONN)?
        } else {
            socket.local.unwrap_or_else(|| match socket.bound {
                Some(bound) => SocketAddr::new(bound.addr.unwrap_or(any), bound.port),
                None => SocketAddr::new(any, 0),
            })
        };
        Ok(Value::Address(SockAddr::shown(addr, socket.v6)))
    }
}

/// Whether a connection could come in for both bindings.
fn overlap(a: &Socket, a_addr: Option<IpAddr>, b: &Socket, b_addr: Option<IpAddr>) -> bool {
    let v4 = |socket: &Socket, addr: Option<IpAddr>| match addr {
        Some(addr) => addr.is_ipv4(),
        None => !socket.v6 || !socket.options.v6only,
    };
    let v6 = |socket: &Socket, addr: Option<IpAddr>| match addr {
        Some(addr) => addr.is_ipv6(),
        None => socket.v6,
    };
    let family = (v4(a, a_addr) && v4(b, b_addr)) || (v6(a, a_addr) && v6(b, b_addr));
    let any = |addr: Option<IpAddr>| addr.is_none_or(|addr| addr.is_unspecified());
    family && (any(a_addr) || any(b_addr) || a_addr == b_addr)
}
