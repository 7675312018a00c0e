//! System calls of a script: what they ask of the sockets, and whether they returned what they must.

mod check;
mod translate;

use core::any::Any;
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use sockets::{Errno, LinuxTcpInfo, OpId, Outcome, Sockets, Value};

use super::flow::{Flow, Stage, Transport};
use super::lang::ast::{Span, Syscall};
use super::outcome::{Failure, seconds};
use super::runner::{BLOCKED_PATIENCE, Runner, Step};
use super::target::Target;

pub(super) use translate::{Refused, unsupported};

/// Descriptors of a script, and what they are here.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    live: BTreeMap<i32, i32>,
}

impl Descriptors {
    /// What the script calls `fd`.
    fn to_live(&self, fd: i32) -> Option<i32> {
        self.live.get(&fd).copied()
    }

    /// The snapshot of the connection that the script calls `fd`.
    pub(super) fn info(&self, target: &mut Target, fd: i32) -> Option<LinuxTcpInfo> {
        let fd = self.to_live(fd)?;
        with_sockets(target, |sockets, io| sockets.tcp_info(io, fd).ok())?
    }
}

/// A blocked call.
#[derive(Debug)]
pub(super) struct Pending<'a> {
    op: OpId,
    call: &'a Syscall,
    start: Duration,
    end: Duration,
}

/// How a call ended.
type Returned = Result<Value, Errno>;

fn with_sockets<R>(
    target: &mut Target,
    call: impl FnOnce(&mut Sockets, &mut dyn stack::Io) -> R,
) -> Option<R> {
    let now = target.now();
    target.stack_mut().with_app(now, |app, io| {
        let sockets = (app as &mut dyn Any).downcast_mut::<Sockets>()?;
        Some(call(sockets, io))
    })
}

impl<'a> Runner<'a> {
    /// Make a call at the present time. `end`: when it must return, if it may block.
    pub(super) fn syscall(
        &mut self,
        call: &'a Syscall,
        start: Duration,
        end: Option<Duration>,
    ) -> Step<()> {
        if end.is_some() && self.pending.is_some() {
            let what = "a blocking call is still under way, and there can be only one";
            return Err(self.fail(call.span, what));
        }
        let places = translate::Places {
            local: self.local,
            remote: self.remote,
            bind_port: self.settings.bind_port,
            connect_port: self.settings.connect_port,
            ip_version: self.settings.ip_version,
        };
        let fds = &self.descriptors;
        let asked = translate::call(call, &places, &|fd| fds.to_live(fd))
            .map_err(|refused| self.fail(call.span, refused.to_string()))?;
        if self.settings.verbose {
            self.log.push(format!("{} {call}", seconds(self.now())));
        }
        self.before(asked.to);
        let started = with_sockets(&mut self.target, |sockets, io| sockets.start(io, asked.call));
        let Some(started) = started else {
            return Err(self.fail(call.span, "the sockets of the stack are gone"));
        };
        // What a call brings about leaves at once, and only then is anybody looked at again.
        let op = match started {
            Outcome::Done(returned) => {
                let result = self.finished(call, &returned, start, end);
                self.target.settle().map_err(|r| self.restless(call.span, r))?;
                result?;
                return self.poll_pending();
            }
            Outcome::Blocked(op) => op,
        };
        self.target.settle().map_err(|r| self.restless(call.span, r))?;
        match end {
            Some(end) => {
                self.pending = Some(Pending { op, call, start, end });
                self.poll_pending()
            }
            None => {
                // It may have slept for no time at all.
                self.pending = Some(Pending { op, call, start, end: start });
                self.poll_pending()?;
                match self.pending.take() {
                    None => Ok(()),
                    Some(_) => Err(self.fail_call(call, "it blocks, and has no time to return at")),
                }
            }
        }
    }

    /// A call that blocked may have returned in the meantime.
    pub(super) fn poll_pending(&mut self) -> Step<()> {
        let Some(pending) = &self.pending else { return Ok(()) };
        let op = pending.op;
        let done = with_sockets(&mut self.target, |sockets, _| {
            core::iter::from_fn(|| sockets.next_completed()).find(|(id, _)| *id == op)
        });
        let Some((_, returned)) = done.flatten() else { return Ok(()) };
        let Some(Pending { call, start, end, .. }) = self.pending.take() else { return Ok(()) };
        self.finished(call, &returned, start, Some(end))
    }

    /// Wait for a blocked call before another one is made.
    pub(super) fn await_idle(&mut self, span: Span) -> Step<()> {
        self.poll_pending()?;
        let until = self.now().saturating_add(BLOCKED_PATIENCE);
        while self.pending.is_some() {
            if !self.step(span, until)? {
                break;
            }
        }
        Ok(())
    }

    /// At the end of a script, a blocked call has a second more.
    pub(super) fn finish_pending(&mut self) -> Step<()> {
        let Some(span) = self.pending.as_ref().map(|pending| pending.call.span) else {
            return Ok(());
        };
        self.await_idle(span)?;
        match &self.pending {
            None => Ok(()),
            Some(pending) => {
                Err(self.fail_call(pending.call, "the script is over, and it still blocks"))
            }
        }
    }

    /// What the runner has to know before packets of a call may come.
    fn before(&mut self, to: Option<translate::To>) {
        let Some(translate::To { fd, remote }) = to else { return };
        let Some(flow) = self.flow_of_fd(fd) else { return };
        let Some(flow) = self.flows.get_mut(flow) else { return };
        match remote {
            // `AF_UNSPEC`: as if it had never been connected.
            None => {
                *flow = Flow { stage: Stage::New, ..Flow::new(flow.fd, flow.transport, Stage::New) }
            }
            Some(remote) if flow.stage == Stage::New => {
                flow.stage = Stage::Connecting;
                flow.remote = Some(remote);
            }
            Some(_) => {}
        }
    }

    fn flow_of_fd(&self, fd: i32) -> Option<usize> {
        self.flows.iter().rposition(|flow| flow.fd == Some(fd))
    }

    /// A call has returned at the present time.
    fn finished(
        &mut self,
        call: &'a Syscall,
        returned: &Returned,
        start: Duration,
        end: Option<Duration>,
    ) -> Step<()> {
        let problems = self.problems(call, returned, start, end);
        if self.settings.verbose {
            let shown = check::shown(returned);
            self.log.push(format!("{} {}(…) returned {shown}", seconds(self.now()), call.name));
        }
        if let Ok(value) = returned {
            self.after(call, value)?;
        }
        if problems.is_empty() {
            return Ok(());
        }
        let failure = self.fail_call(call, problems.join("; "));
        if self.settings.non_fatal_syscall {
            self.warnings.push(format!("line {}: {}", call.span.line, failure.message()));
            return Ok(());
        }
        Err(failure)
    }

    fn fail_call(&self, call: &Syscall, what: impl Into<String>) -> Box<Failure> {
        Box::new(Failure { call: Some(call.to_string()), ..*self.fail(call.span, what) })
    }

    fn problems(
        &self,
        call: &Syscall,
        returned: &Returned,
        start: Duration,
        end: Option<Duration>,
    ) -> Vec<String> {
        let mut problems = check::differences(call, returned);
        if let Some(end) = end {
            let now = self.now();
            let allowed = self.settings.tolerance_after(end.saturating_sub(start));
            if now.abs_diff(end) > allowed {
                problems.push(format!(
                    "it was to return at {}, and returned at {}",
                    seconds(end),
                    seconds(now)
                ));
            }
        }
        problems
    }

    /// What the runner learns from a call that succeeded.
    fn after(&mut self, call: &Syscall, value: &Value) -> Step<()> {
        let fd_arg =
            || call.args.first().and_then(translate::int).and_then(|n| i32::try_from(n).ok());
        match (call.name.as_str(), value) {
            ("socket", Value::Int(live)) => {
                if let Some(fd) = self.new_fd(call, *live)? {
                    let transport = match call.args.get(1).and_then(translate::int) {
                        Some(kind) if kind & 0xf == 2 => Transport::Udp,
                        _ => Transport::Tcp,
                    };
                    self.add_flow(call.span, Flow::new(Some(fd), transport, Stage::New))?;
                }
            }
            ("epoll_create" | "epoll_create1", Value::Int(live)) => {
                self.new_fd(call, *live)?;
            }
            ("accept" | "accept4", Value::Accepted { fd: live, peer }) => {
                let Some(fd) = self.new_fd(call, i64::from(*live))? else { return Ok(()) };
                let peer = plain(*peer);
                let child = self
                    .flows
                    .iter()
                    .position(|flow| flow.fd.is_none() && !flow.closed && flow.remote == peer);
                match child.and_then(|index| self.flows.get_mut(index)) {
                    Some(flow) => flow.fd = Some(fd),
                    None => {
                        return Err(self.fail(call.span, "accept returned an unknown connection"));
                    }
                }
            }
            ("listen", _) => {
                if let Some(index) = fd_arg().and_then(|fd| self.flow_of_fd(fd))
                    && let Some(flow) = self.flows.get_mut(index)
                {
                    flow.stage = Stage::Listening;
                }
            }
            ("close", _) => {
                if let Some(fd) = fd_arg() {
                    self.descriptors.live.remove(&fd);
                    // The number is free for another socket; packets still belong to the flow.
                    if let Some(index) = self.flow_of_fd(fd)
                        && let Some(flow) = self.flows.get_mut(index)
                    {
                        flow.fd = None;
                        flow.closed = true;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The script's number for a new descriptor. `None`: it has none, since an error was expected.
    fn new_fd(&mut self, call: &Syscall, live: i64) -> Step<Option<i32>> {
        let script = translate::int(&call.result).and_then(|n| i32::try_from(n).ok());
        let (Some(script), Ok(live)) = (script, i32::try_from(live)) else { return Ok(None) };
        if script < 0 {
            return Ok(None);
        }
        if self.descriptors.live.insert(script, live).is_some() {
            let what = format!("descriptor {script} is in use already");
            return Err(self.fail_call(call, what));
        }
        Ok(Some(script))
    }
}

/// The peer as it is on the wire.
fn plain(addr: sockets::SockAddr) -> Option<SocketAddr> {
    match addr {
        sockets::SockAddr::V4(v4) => Some(v4.into()),
        sockets::SockAddr::V6(v6) => Some(match v6.ip().to_ipv4_mapped() {
            Some(v4) => SocketAddr::new(v4.into(), v6.port()),
            None => SocketAddr::new((*v6.ip()).into(), v6.port()),
        }),
        _ => None,
    }
}
