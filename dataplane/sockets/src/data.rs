//! `read`, `recv`, `write`, `send` and their relatives.

use alloc::vec::Vec;

use base::ConnId;
use stack::Io;

use crate::Errno;
use crate::abi::*;
use crate::call::{Control, Gather, Outcome, Received, Scatter, Value};
use crate::slab::FileId;
use crate::socket::{Phase, Socket};
use crate::sockets::{Patience, Pending, Sockets, Step};

/// Pieces of one call at most (`UIO_MAXIOV`).
const PIECES_MAX: usize = 1024;

/// A call that receives, and how far it has come.
#[derive(Debug)]
pub(crate) struct Receive {
    into: Scatter,
    flags: i32,
    control: bool,
    /// `read`, which does not look at the socket when nothing is asked for.
    plain: bool,
    data: Vec<u8>,
    /// Bytes received, thrown away or seen.
    count: usize,
    /// `TCP_INQ`, as it was when the call last took something.
    inq: Option<i32>,
}

impl Receive {
    pub(crate) fn new(into: Scatter, flags: i32, control: bool) -> Self {
        Self { into, flags, control, plain: false, data: Vec::new(), count: 0, inq: None }
    }

    pub(crate) fn plain(into: Scatter) -> Self {
        Self { plain: true, ..Self::new(into, 0, false) }
    }

    fn has(&self, flag: i32) -> bool {
        self.flags & flag != 0
    }

    /// Bytes that were asked for, up to the first bad pointer; and whether there is one.
    fn room(&self) -> (usize, bool) {
        let good = self.into.iter().map_while(|len| *len).fold(0, usize::saturating_add);
        (good, self.into.contains(&None))
    }

    /// What it has received, if anything.
    pub(crate) fn so_far(&self) -> Option<Value> {
        (self.count > 0).then(|| self.value())
    }

    fn value(&self) -> Value {
        let control = self.inq.filter(|_| self.control).map(|inq| Control {
            level: SOL_TCP,
            kind: TCP_CM_INQ,
            data: inq.to_ne_bytes().to_vec(),
        });
        Value::Received(Received {
            count: self.count,
            data: self.data.clone(),
            flags: 0,
            control: control.into_iter().collect(),
        })
    }
}

/// A call that sends, and how far it has come.
#[derive(Debug)]
pub(crate) struct Send {
    from: Gather,
    flags: i32,
    piece: usize,
    /// Within the piece.
    at: usize,
    sent: usize,
}

impl Send {
    pub(crate) const fn new(from: Gather, flags: i32) -> Self {
        Self { from, flags, piece: 0, at: 0, sent: 0 }
    }

    /// Whether this call has more bytes after the present piece, as far as they can be reached.
    fn more_follows(&self) -> bool {
        let mut rest = self.from.iter().skip(self.piece + 1);
        let next = rest.find(|piece| piece.as_ref().is_none_or(|bytes| !bytes.is_empty()));
        matches!(next, Some(Some(_)))
    }

    /// What it has sent, if anything.
    pub(crate) fn so_far(&self) -> Option<Value> {
        (self.sent > 0).then_some(Value::Int(self.sent as i64))
    }
}

impl Sockets {
    pub(crate) fn receive(
        &mut self,
        io: &mut dyn Io,
        fd: i32,
        receive: Receive,
    ) -> Result<Outcome, Errno> {
        let file = match self.socket_of(fd) {
            // `read` does not care what it reads from, if it cannot be read at all.
            Err(Errno::ENOTSOCK) if receive.plain => return Err(Errno::EINVAL),
            other => other?,
        };
        if receive.into.len() > PIECES_MAX {
            return Err(if receive.plain { Errno::EINVAL } else { Errno::EMSGSIZE });
        }
        let (room, bad) = receive.room();
        if receive.plain && room == 0 && !bad {
            return Ok(Outcome::Done(Ok(receive.value())));
        }
        if receive.has(MSG_ERRQUEUE) {
            return Err(Errno::EAGAIN);
        }
        if self.listening(file).is_some() {
            return Err(Errno::ENOTCONN);
        }
        // Urgent data are delivered in line, so there are none to be had otherwise.
        if receive.has(MSG_OOB) {
            return Err(Errno::EINVAL);
        }
        let nonblocking = receive.has(MSG_DONTWAIT) || self.is_nonblocking(file);
        let timeout = self.get(file)?.options.rcvtimeo;
        let patience = Patience::new(io, nonblocking, timeout);
        Ok(self.begin(io, Pending::Receive { file, receive }, patience))
    }

    pub(crate) fn try_receive(
        &mut self,
        io: &mut dyn Io,
        file: FileId,
        receive: &mut Receive,
    ) -> Step {
        let Ok(socket) = self.get_mut(file) else { return Step::Done(Err(Errno::EBADF)) };
        let (room, bad) = receive.room();
        let available = readable(io, socket);
        let wanted = room.saturating_sub(receive.count);
        if available > 0 && wanted == 0 {
            // Nothing was asked for, or the next byte has no place.
            let failed = bad && receive.count == 0;
            return Step::Done(if failed { Err(Errno::EFAULT) } else { Ok(receive.value()) });
        }
        if available > 0 {
            take(io, socket, receive, wanted.min(available));
        }
        if socket.options.inq && (receive.count > 0 || socket.done) {
            receive.inq = Some(inq_hint(io, socket));
        }
        let lowat = usize::try_from(socket.options.rcvlowat).unwrap_or(1);
        let target = if receive.has(MSG_WAITALL) { room } else { lowat.min(room) }.max(1);
        if receive.count >= target {
            return Step::Done(Ok(receive.value()));
        }
        let over = socket.done || socket.shut_read || matches!(socket.phase, Phase::Idle);
        if receive.count > 0 {
            let stop = over || socket.error.is_some() || receive.has(MSG_PEEK);
            return if stop { Step::Done(Ok(receive.value())) } else { Step::Wait };
        }
        // The end that the peer has announced comes before whatever went wrong later, and an error
        // before the end that it has brought.
        if !socket.done
            && let Some(errno) = socket.take_error()
        {
            return Step::Done(Err(errno));
        }
        if socket.done || socket.shut_read {
            return Step::Done(Ok(receive.value()));
        }
        match socket.phase {
            Phase::Idle => Step::Done(Err(Errno::ENOTCONN)),
            _ => Step::Wait,
        }
    }

    pub(crate) fn send(&mut self, io: &mut dyn Io, fd: i32, send: Send) -> Result<Outcome, Errno> {
        let file = self.socket_of(fd)?;
        if send.from.len() > PIECES_MAX {
            return Err(Errno::EMSGSIZE);
        }
        let socket = self.get(file)?;
        // Neither exists yet, and taking the flags for nothing would change what the caller relies on.
        let zerocopy = send.flags & MSG_ZEROCOPY != 0 && socket.options.zerocopy;
        if send.flags & MSG_FASTOPEN != 0 || zerocopy {
            return Err(Errno::EOPNOTSUPP);
        }
        let nonblocking = send.flags & MSG_DONTWAIT != 0 || self.is_nonblocking(file);
        let timeout = socket.options.sndtimeo;
        let patience = Patience::new(io, nonblocking, timeout);
        Ok(self.begin(io, Pending::Send { file, send }, patience))
    }

    pub(crate) fn try_send(&mut self, io: &mut dyn Io, file: FileId, send: &mut Send) -> Step {
        let Ok(socket) = self.get_mut(file) else { return Step::Done(Err(Errno::EBADF)) };
        let conn = match socket.phase {
            Phase::Opening(_) if socket.error.is_none() && !socket.shut_write => return Step::Wait,
            Phase::Open(conn) if socket.error.is_none() && !socket.shut_write => conn,
            _ => return self.broken(file, send),
        };
        while let Some(piece) = send.from.get(send.piece) {
            let Some(bytes) = piece else {
                let result = send.so_far().ok_or(Errno::EFAULT);
                return Step::Done(result);
            };
            let rest = bytes.get(send.at..).unwrap_or(&[]);
            if rest.is_empty() {
                send.piece += 1;
                send.at = 0;
                continue;
            }
            let more = send.flags & MSG_MORE != 0 || send.more_follows();
            match io.send(conn, rest, more) {
                Ok(taken) => {
                    send.at += taken;
                    send.sent += taken;
                    if taken < rest.len() {
                        socket.no_space = true;
                        return Step::Wait;
                    }
                }
                Err(_) => return self.broken(file, send),
            }
        }
        if send.flags & MSG_EOR != 0 {
            io.end_record(conn);
        }
        Step::Done(Ok(Value::Int(send.sent as i64)))
    }

    /// Nothing can be sent any more, or yet.
    fn broken(&mut self, file: FileId, send: &Send) -> Step {
        if let Some(value) = send.so_far() {
            return Step::Done(Ok(value));
        }
        let error = self.get_mut(file).ok().and_then(Socket::take_error);
        if error.is_none() && send.flags & MSG_NOSIGNAL == 0 {
            self.sigpipes += 1;
        }
        Step::Done(Err(error.unwrap_or(Errno::EPIPE)))
    }
}

/// Bytes that can be read now.
pub(crate) fn readable(io: &dyn Io, socket: &Socket) -> usize {
    match socket.phase {
        Phase::Open(conn) => io.readable(conn),
        Phase::Idle => socket.left.len(),
        Phase::Opening(_) | Phase::Listening(_) => 0,
    }
}

/// `tcp_inq_hint`: a FIN that has come counts as something to read.
fn inq_hint(io: &dyn Io, socket: &Socket) -> i32 {
    let fin = usize::from(socket.done);
    i32::try_from(readable(io, socket).saturating_add(fin)).unwrap_or(i32::MAX)
}

/// Take `len` bytes, which are there, or look at them.
fn take(io: &mut dyn Io, socket: &mut Socket, receive: &mut Receive, len: usize) {
    let (peek, discard) = (receive.has(MSG_PEEK), receive.has(MSG_TRUNC));
    if peek {
        // Each look begins at the front.
        receive.data.clear();
        receive.count = 0;
    }
    let taken = match socket.phase {
        Phase::Open(conn) if peek => peek_from(io, conn, &mut receive.data, len),
        Phase::Open(conn) => take_from(io, conn, (!discard).then_some(&mut receive.data), len),
        _ => {
            let len = len.min(socket.left.len());
            if !discard {
                receive.data.extend(socket.left.iter().take(len));
            }
            if !peek {
                socket.left.drain(..len);
            }
            len
        }
    };
    receive.count += taken;
    if discard && peek {
        receive.data.clear();
    }
}

fn peek_from(io: &dyn Io, conn: ConnId, data: &mut Vec<u8>, len: usize) -> usize {
    io.peek(conn, &mut |bytes| {
        let rest = len - data.len();
        data.extend_from_slice(bytes.get(..rest).unwrap_or(bytes));
        data.len() < len
    });
    data.len()
}

/// Take `len` bytes from a connection, to be kept or thrown away.
pub(crate) fn take_from(
    io: &mut dyn Io,
    conn: ConnId,
    mut data: Option<&mut Vec<u8>>,
    len: usize,
) -> usize {
    let mut taken = 0;
    io.recv(conn, &mut |bytes| {
        let some = bytes.get(..len - taken).unwrap_or(bytes);
        if let Some(data) = &mut data {
            data.extend_from_slice(some);
        }
        taken += some.len();
        some.len()
    });
    taken
}
