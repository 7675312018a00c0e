//! The object that an application's system calls reach.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use base::{ConnId, Instant, ListenerId};
use stack::Io;

use crate::Errno;
use crate::abi::*;
use crate::call::{Call, OpId, Outcome, PollFd, Value};
use crate::data::{Receive, Send};
use crate::epoll::Epoll;
use crate::file::{Descriptor, Descriptors, File, Kind};
use crate::slab::{FileId, Slab};
use crate::socket::{Listening, Phase, Socket};

/// Bounds of a [`Sockets`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The first descriptor given: 3, as the three standard streams are somewhere else.
    pub first_fd: u16,
    /// Descriptors are below it (`RLIMIT_NOFILE`).
    pub fds_max: u16,
    /// Descriptions, connections that wait to be accepted included.
    pub files_max: usize,
    /// Operations that sleep.
    pub ops_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { first_fd: 3, fds_max: 1024, files_max: 65_536, ops_max: 4096 }
    }
}

/// A blocked operation.
#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) kind: Pending,
    pub(crate) deadline: Option<Instant>,
}

/// What a blocked operation wants.
#[derive(Debug)]
pub(crate) enum Pending {
    Accept {
        file: FileId,
        flags: i32,
    },
    Connect {
        file: FileId,
        would_block: Errno,
    },
    Receive {
        file: FileId,
        receive: Receive,
    },
    Send {
        file: FileId,
        send: Send,
    },
    /// The linger of `close`: until what was sent is acknowledged.
    Close {
        conn: ConnId,
    },
    Poll {
        fds: Vec<(PollFd, Option<FileId>)>,
    },
    EpollWait {
        file: FileId,
        most: usize,
    },
}

impl Pending {
    /// What it sleeps on, and keeps open.
    fn files(&self) -> Vec<FileId> {
        match self {
            Self::Accept { file, .. }
            | Self::Connect { file, .. }
            | Self::Receive { file, .. }
            | Self::Send { file, .. }
            | Self::EpollWait { file, .. } => [*file].into(),
            Self::Poll { fds } => fds.iter().filter_map(|(_, file)| *file).collect(),
            Self::Close { .. } => Vec::new(),
        }
    }
}

/// Where an attempt has led.
pub(crate) enum Step {
    Done(Result<Value, Errno>),
    /// Not yet.
    Wait,
}

/// How long an operation may sleep.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// Not at all: `O_NONBLOCK`, `MSG_DONTWAIT`, a timeout of zero.
    None,
    Until(Instant),
    Forever,
}

impl Patience {
    pub(crate) fn new(io: &dyn Io, nonblocking: bool, timeout: Option<Duration>) -> Self {
        match timeout {
            _ if nonblocking => Self::None,
            Some(Duration::ZERO) => Self::None,
            Some(timeout) => Self::Until(io.now() + timeout),
            None => Self::Forever,
        }
    }
}

/// The sockets of one application on one worker: its descriptors, what they name, and its system
/// calls, each at the time at which it is made. An [`stack::App`], so that it hears what happens; for
/// making calls outside of an event there is [`stack::Stack::with_app`].
///
/// ```text
/// stack.with_app(now, |app, io| {
///     let sockets = (app as &mut dyn Any).downcast_mut::<Sockets>().expect("ours");
///     match sockets.start(io, Call::read(fd, 1000)) {
///         Outcome::Done(result) => …,
///         Outcome::Blocked(op) => … // later: sockets.next_completed()
///     }
/// })
/// ```
#[derive(Debug)]
pub struct Sockets {
    pub(crate) config: Config,
    pub(crate) fds: Descriptors,
    pub(crate) files: Slab<File>,
    pub(crate) conns: BTreeMap<ConnId, FileId>,
    /// The sockets that listen through a listener of the stack: several with `SO_REUSEPORT`.
    pub(crate) listeners: BTreeMap<ListenerId, Vec<FileId>>,
    /// Closed connections on whose end a `close` waits.
    pub(crate) lingering: BTreeMap<ConnId, OpId>,
    pub(crate) ops: BTreeMap<OpId, Op>,
    pub(crate) deadlines: BTreeSet<(Instant, OpId)>,
    next_op: u64,
    completed: VecDeque<(OpId, Result<Value, Errno>)>,
    /// Descriptions that something has happened to, and what.
    pub(crate) wakes: VecDeque<(FileId, u32)>,
    pub(crate) sigpipes: u64,
    armed: Option<Instant>,
}

/// The timer of the stack that all deadlines share.
pub(crate) const TIMER: u64 = 0;
/// How often a lingering `close` looks at the state of its connection.
const LINGER_LOOK: Duration = Duration::from_millis(1);

impl Default for Sockets {
    fn default() -> Self {
        Self::new(Config::default())
    }
}

impl Sockets {
    /// No socket yet.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            fds: Descriptors::new(config.first_fd, config.fds_max),
            files: Slab::new(config.files_max),
            conns: BTreeMap::new(),
            listeners: BTreeMap::new(),
            lingering: BTreeMap::new(),
            ops: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            next_op: 0,
            completed: VecDeque::new(),
            wakes: VecDeque::new(),
            sigpipes: 0,
            armed: None,
        }
    }

    /// Make a system call, now.
    pub fn start(&mut self, io: &mut dyn Io, call: Call) -> Outcome {
        let outcome = self.dispatch(io, call);
        self.settle(io);
        outcome
    }

    /// A blocked operation that has returned, in the order in which they did.
    pub fn next_completed(&mut self) -> Option<(OpId, Result<Value, Errno>)> {
        self.completed.pop_front()
    }

    /// Interrupt a blocked operation: it returns what it has done so far, or `EINTR`. False: it has
    /// returned already.
    pub fn cancel(&mut self, io: &mut dyn Io, op: OpId) -> bool {
        let Some(pending) = self.forget_op(op) else { return false };
        let result = match Self::interrupted(&pending) {
            Err(Errno::EAGAIN) => Err(Errno::EINTR),
            other => other,
        };
        self.complete(io, op, pending, result);
        self.settle(io);
        true
    }

    /// How many `SIGPIPE`s the calls since the last question have raised.
    pub fn take_sigpipes(&mut self) -> u64 {
        core::mem::take(&mut self.sigpipes)
    }

    /// The descriptors that are open.
    pub fn open_fds(&self) -> impl Iterator<Item = i32> {
        self.fds.open()
    }

    /// Descriptions that are open, connections that nobody has accepted included.
    pub fn open_files(&self) -> usize {
        self.files.len()
    }

    /// Operations that sleep.
    pub fn blocked(&self) -> impl Iterator<Item = OpId> {
        self.ops.keys().copied()
    }

    fn dispatch(&mut self, io: &mut dyn Io, call: Call) -> Outcome {
        let done = |result: Result<i64, Errno>| Outcome::Done(result.map(Value::Int));
        // A call that may block can fail at once.
        let begun = |result: Result<Outcome, Errno>| {
            result.unwrap_or_else(|errno| Outcome::Done(Err(errno)))
        };
        match call {
            Call::Socket { domain, kind, protocol } => {
                done(self.socket(io, domain, kind, protocol))
            }
            Call::Bind { fd, addr } => done(self.bind(io, fd, addr)),
            Call::Listen { fd, backlog } => done(self.listen(io, fd, backlog)),
            Call::Accept { fd, flags } => begun(self.accept(io, fd, flags)),
            Call::Connect { fd, addr } => begun(self.connect(io, fd, addr)),
            Call::Read { fd, into } => begun(self.receive(io, fd, Receive::plain(into))),
            Call::Receive { fd, into, flags, control } => {
                begun(self.receive(io, fd, Receive::new(into, flags, control)))
            }
            Call::Write { fd, from } => begun(self.send(io, fd, Send::new(from, 0))),
            Call::Send { fd, from, flags, to: _, control } => {
                if control.iter().any(|c| !matches!(c.level, SOL_SOCKET | SOL_IP | SOL_IPV6)) {
                    return Outcome::Done(Err(Errno::EINVAL));
                }
                begun(self.send(io, fd, Send::new(from, flags)))
            }
            Call::Shutdown { fd, how } => done(self.shutdown(io, fd, how)),
            Call::Close { fd } => begun(self.close(io, fd)),
            Call::Dup { fd } => done(self.dup(fd, 0, false)),
            Call::Dup2 { old, new } if old == new => {
                done(self.fds.get(old).map(|_| i64::from(new)).ok_or(Errno::EBADF))
            }
            Call::Dup2 { old, new } => done(self.dup_to(io, old, new, 0)),
            Call::Dup3 { old, new, .. } if old == new => done(Err(Errno::EINVAL)),
            Call::Dup3 { old, new, flags } => done(self.dup_to(io, old, new, flags)),
            Call::Fcntl { fd, command, argument } => done(self.fcntl(fd, command, argument)),
            Call::Ioctl { fd, request, value } => Outcome::Done(self.ioctl(io, fd, request, value)),
            Call::GetSockName { fd } => Outcome::Done(self.name(io, fd, false)),
            Call::GetPeerName { fd } => Outcome::Done(self.name(io, fd, true)),
            Call::SetSockOpt { fd, level, name, value } => {
                done(self.set_option(io, fd, (level, name), value.as_deref()).map(|()| 0))
            }
            Call::GetSockOpt { fd, level, name, room } => {
                Outcome::Done(self.get_option(io, fd, (level, name), room).map(Value::Option))
            }
            Call::Poll { fds, timeout } => begun(self.poll(io, fds, timeout)),
            Call::EpollCreate { size } if size <= 0 => done(Err(Errno::EINVAL)),
            Call::EpollCreate { .. } => done(self.epoll_create(0)),
            Call::EpollCreate1 { flags } => done(self.epoll_create(flags)),
            Call::EpollCtl { epoll, operation, fd, event } => {
                done(self.epoll_ctl(io, epoll, operation, fd, event).map(|()| 0))
            }
            Call::EpollWait { epoll, most, timeout } => {
                begun(self.epoll_wait(io, epoll, most, timeout))
            }
        }
    }

    // Descriptors.

    pub(crate) fn file_of(&self, fd: i32) -> Result<FileId, Errno> {
        self.fds.get(fd).map(|descriptor| descriptor.file).ok_or(Errno::EBADF)
    }

    /// The socket behind a descriptor.
    pub(crate) fn socket_of(&self, fd: i32) -> Result<FileId, Errno> {
        let id = self.file_of(fd)?;
        match self.files.get(id).map(|file| &file.kind) {
            Some(Kind::Socket(_)) => Ok(id),
            Some(Kind::Epoll(_)) => Err(Errno::ENOTSOCK),
            None => Err(Errno::EBADF),
        }
    }

    pub(crate) fn get(&self, id: FileId) -> Result<&Socket, Errno> {
        match self.files.get(id).map(|file| &file.kind) {
            Some(Kind::Socket(socket)) => Ok(socket),
            _ => Err(Errno::EBADF),
        }
    }

    pub(crate) fn get_mut(&mut self, id: FileId) -> Result<&mut Socket, Errno> {
        match self.files.get_mut(id).map(|file| &mut file.kind) {
            Some(Kind::Socket(socket)) => Ok(socket),
            _ => Err(Errno::EBADF),
        }
    }

    /// What a socket has that listens; `None` of any other.
    pub(crate) fn listening(&self, id: FileId) -> Option<&Listening> {
        match &self.get(id).ok()?.phase {
            Phase::Listening(listening) => Some(listening),
            _ => None,
        }
    }

    pub(crate) fn listening_mut(&mut self, id: FileId) -> Option<&mut Listening> {
        match &mut self.get_mut(id).ok()?.phase {
            Phase::Listening(listening) => Some(listening),
            _ => None,
        }
    }

    pub(crate) fn epoll_mut(&mut self, id: FileId) -> Option<&mut Epoll> {
        match self.files.get_mut(id).map(|file| &mut file.kind) {
            Some(Kind::Epoll(epoll)) => Some(epoll),
            _ => None,
        }
    }

    pub(crate) fn is_nonblocking(&self, id: FileId) -> bool {
        self.files.get(id).is_some_and(|file| file.flags & O_NONBLOCK != 0)
    }

    /// Give a new description its first descriptor.
    pub(crate) fn install(&mut self, kind: Kind, flags: i32) -> Result<i64, Errno> {
        let fd = self.fds.lowest_free(0).ok_or(Errno::EMFILE)?;
        let file = File::new(kind, flags & O_NONBLOCK);
        let file = self.files.insert(file).map_err(|_| Errno::ENFILE)?;
        let close_on_exec = flags & O_CLOEXEC != 0;
        self.fds.set(fd, Some(Descriptor { file, close_on_exec }));
        Ok(fd.into())
    }

    fn dup(&mut self, fd: i32, least: i32, close_on_exec: bool) -> Result<i64, Errno> {
        let file = self.file_of(fd)?;
        if least != 0 && !self.fds.is_valid(least) {
            return Err(Errno::EINVAL);
        }
        let new = self.fds.lowest_free(least).ok_or(Errno::EMFILE)?;
        self.fds.set(new, Some(Descriptor { file, close_on_exec }));
        self.hold(file);
        Ok(new.into())
    }

    fn dup_to(&mut self, io: &mut dyn Io, old: i32, new: i32, flags: i32) -> Result<i64, Errno> {
        if flags & !O_CLOEXEC != 0 {
            return Err(Errno::EINVAL);
        }
        let file = self.file_of(old)?;
        if !self.fds.is_valid(new) {
            return Err(Errno::EBADF);
        }
        let close_on_exec = flags & O_CLOEXEC != 0;
        self.hold(file);
        if let Some(before) = self.fds.set(new, Some(Descriptor { file, close_on_exec })) {
            self.drop_file(io, before.file);
        }
        Ok(new.into())
    }

    fn fcntl(&mut self, fd: i32, command: i32, argument: i64) -> Result<i64, Errno> {
        let file = self.file_of(fd)?;
        match command {
            F_DUPFD | F_DUPFD_CLOEXEC => {
                let least = i32::try_from(argument).map_err(|_| Errno::EINVAL)?;
                if !self.fds.is_valid(least) {
                    return Err(Errno::EINVAL);
                }
                self.dup(fd, least, command == F_DUPFD_CLOEXEC)
            }
            F_GETFD => {
                let set = self.fds.get(fd).is_some_and(|descriptor| descriptor.close_on_exec);
                Ok(if set { FD_CLOEXEC.into() } else { 0 })
            }
            F_SETFD => {
                if let Some(descriptor) = self.fds.get_mut(fd) {
                    descriptor.close_on_exec = argument & i64::from(FD_CLOEXEC) != 0;
                }
                Ok(0)
            }
            F_GETFL => Ok(self.files.get(file).map_or(0, |file| file.flags).into()),
            F_SETFL => {
                self.set_nonblocking(file, argument & i64::from(O_NONBLOCK) != 0);
                Ok(0)
            }
            _ => Err(Errno::EINVAL),
        }
    }

    pub(crate) fn set_nonblocking(&mut self, id: FileId, on: bool) {
        if let Some(file) = self.files.get_mut(id) {
            file.flags = (file.flags & !O_NONBLOCK) | if on { O_NONBLOCK } else { 0 };
        }
    }

    pub(crate) fn hold(&mut self, id: FileId) {
        if let Some(file) = self.files.get_mut(id) {
            file.refs += 1;
        }
    }

    // Operations.

    /// Try an operation, and let it sleep if it must and may.
    pub(crate) fn begin(
        &mut self,
        io: &mut dyn Io,
        mut pending: Pending,
        patience: Patience,
    ) -> Outcome {
        if let Step::Done(result) = self.attempt(io, &mut pending) {
            return Outcome::Done(result);
        }
        let deadline = match patience {
            Patience::None => return Outcome::Done(Self::interrupted(&pending)),
            Patience::Until(at) => Some(at),
            Patience::Forever => None,
        };
        if self.ops.len() >= self.config.ops_max {
            return Outcome::Done(Err(Errno::ENOMEM));
        }
        let id = OpId(self.next_op);
        self.next_op += 1;
        for file in pending.files() {
            self.hold(file);
            if let Some(file) = self.files.get_mut(file) {
                file.waiters.push(id);
            }
        }
        if let Pending::Close { conn } = pending {
            self.lingering.insert(conn, id);
        }
        if let Some(at) = deadline {
            self.deadlines.insert((at, id));
        }
        self.ops.insert(id, Op { kind: pending, deadline });
        Outcome::Blocked(id)
    }

    fn attempt(&mut self, io: &mut dyn Io, pending: &mut Pending) -> Step {
        match pending {
            Pending::Accept { file, flags } => self.try_accept(io, *file, *flags),
            Pending::Connect { file, .. } => self.try_connect(*file),
            Pending::Receive { file, receive } => self.try_receive(io, *file, receive),
            Pending::Send { file, send } => self.try_send(io, *file, send),
            Pending::Close { conn } => Self::try_close(io, *conn),
            Pending::Poll { fds } => self.try_poll(io, fds),
            Pending::EpollWait { file, most } => self.try_epoll_wait(io, *file, *most),
        }
    }

    /// What an operation returns that may not sleep, or not any longer.
    fn interrupted(pending: &Pending) -> Result<Value, Errno> {
        match pending {
            Pending::Accept { .. } => Err(Errno::EAGAIN),
            Pending::Connect { would_block, .. } => Err(*would_block),
            Pending::Receive { receive, .. } => receive.so_far().ok_or(Errno::EAGAIN),
            Pending::Send { send, .. } => send.so_far().ok_or(Errno::EAGAIN),
            Pending::Close { .. } => Ok(Value::Int(0)),
            Pending::Poll { fds } => Ok(Value::Polled(alloc::vec![0; fds.len()])),
            Pending::EpollWait { .. } => Ok(Value::Events(Vec::new())),
        }
    }

    /// A blocked operation is not blocked any more.
    fn forget_op(&mut self, id: OpId) -> Option<Pending> {
        let op = self.ops.remove(&id)?;
        if let Some(at) = op.deadline {
            self.deadlines.remove(&(at, id));
        }
        if let Pending::Close { conn } = op.kind {
            self.lingering.remove(&conn);
        }
        for file in op.kind.files() {
            if let Some(file) = self.files.get_mut(file) {
                file.waiters.retain(|waiter| *waiter != id);
            }
        }
        Some(op.kind)
    }

    fn complete(
        &mut self,
        io: &mut dyn Io,
        id: OpId,
        pending: Pending,
        result: Result<Value, Errno>,
    ) {
        for file in pending.files() {
            self.drop_file(io, file);
        }
        self.completed.push_back((id, result));
    }

    /// Try a blocked operation again.
    pub(crate) fn retry(&mut self, io: &mut dyn Io, id: OpId) {
        let Some(mut op) = self.ops.remove(&id) else { return };
        let step = self.attempt(io, &mut op.kind);
        self.ops.insert(id, op);
        if let Step::Done(result) = step
            && let Some(pending) = self.forget_op(id)
        {
            self.complete(io, id, pending, result);
        }
    }

    /// The connection on whose end a `close` waited is gone.
    pub(crate) fn finish_lingering(&mut self, io: &mut dyn Io, id: OpId) {
        if let Some(pending) = self.forget_op(id) {
            self.complete(io, id, pending, Ok(Value::Int(0)));
        }
    }

    /// The timer has run out: operations that have slept for too long return.
    pub(crate) fn expire(&mut self, io: &mut dyn Io) {
        self.armed = None;
        let now = io.now();
        while let Some(&(at, id)) = self.deadlines.first()
            && at <= now
        {
            self.deadlines.pop_first();
            self.retry(io, id);
            if let Some(pending) = self.forget_op(id) {
                let result = Self::interrupted(&pending);
                self.complete(io, id, pending, result);
            }
        }
        let waiting: Vec<OpId> = self.lingering.values().copied().collect();
        for id in waiting {
            self.retry(io, id);
        }
        self.expire_deferred(io);
    }

    /// Something has happened to `id`: those who care about `mask` shall look.
    pub(crate) fn wake(&mut self, id: FileId, mask: u32) {
        self.wakes.push_back((id, mask));
    }

    /// Wake whoever is to be woken, then set the timer.
    pub(crate) fn settle(&mut self, io: &mut dyn Io) {
        while let Some((id, mask)) = self.wakes.pop_front() {
            let Some(file) = self.files.get(id) else { continue };
            let waiters = file.waiters.clone();
            for op in waiters {
                self.retry(io, op);
            }
            self.notify_watchers(id, mask);
        }
        let mut next = self.deadlines.first().map(|(at, _)| *at);
        next = next.into_iter().chain(self.next_deferred()).min();
        if !self.lingering.is_empty() {
            next = next.into_iter().chain([io.now() + LINGER_LOOK]).min();
        }
        if next == self.armed {
            return;
        }
        self.armed = next;
        match next {
            Some(at) => {
                io.set_timer(TIMER, at);
            }
            None => io.cancel_timer(TIMER),
        }
    }

    pub(crate) fn new_socket(socket: Socket) -> Kind {
        Kind::Socket(Box::new(socket))
    }
}
