//! One run of one script, event by event.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::VecDeque;

use base::Instant;

use super::compare::{self, Clock, Whole};
use super::flow::{Flow, Stage, Transport};
use super::inbound::{self, Wire};
use super::lang::ast::{
    Action, Command, Direction, Event, EventTime, Packet, PacketBody, Script, Span, TcpFlags,
};
use super::lang::options::Settings;
use super::lang::python;
use super::net::live::{Live, LiveBody};
use super::outcome::{Failure, Mismatch, seconds};
use super::shell::Shell;
use super::syscall::{Descriptors, Pending};
use super::target::{Restless, START, Target};
use super::variables::Snapshot;

/// How long after its latest time an expected packet is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a packet of any time is waited for, and how long a script may run in all.
const FOREVER: Duration = Duration::from_secs(7 * 24 * 3600);
/// How long a call waits for a blocking one before it.
pub(super) const BLOCKED_PATIENCE: Duration = Duration::from_secs(1);
/// Packets of a connection that a report shows.
const HISTORY: usize = 12;
/// Sockets of one script at most.
const FLOWS_MAX: usize = 4096;
/// First port of peers that connect to us.
const PEER_PORT: u16 = 49_152;

/// A run.
pub(super) struct Runner<'a> {
    pub(super) script: &'a Script,
    pub(super) settings: &'a Settings,
    pub(super) target: Target,
    pub(super) descriptors: Descriptors,
    pub(super) shell: Shell,
    pub(super) flows: Vec<Flow>,
    /// The socket that packets without ports belong to.
    pub(super) current: Option<usize>,
    pub(super) pending: Option<Pending<'a>>,
    python: python::State,
    last: Option<Last>,
    history: VecDeque<(Option<usize>, String)>,
    next_peer_port: u16,
    pub(super) warnings: Vec<String>,
    pub(super) log: Vec<String>,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
}

/// The event before.
#[derive(Clone, Copy, Debug)]
struct Last {
    /// When it was to happen.
    at: Duration,
    is_inbound: bool,
}

/// When an event is to happen, since the start of the script.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    /// The earliest time.
    pub(super) from: Duration,
    /// The latest; `None` for a packet that may come at any time.
    pub(super) to: Option<Duration>,
    /// What its relative times count from.
    pub(super) offset: Duration,
}

pub(super) type Step<T> = Result<T, Box<Failure>>;

/// Why there is no packet.
enum Absent {
    /// None came: in one line.
    NoPacket(&'static str),
    /// Something else went wrong meanwhile.
    Failed(Box<Failure>),
}

impl From<Box<Failure>> for Absent {
    fn from(failure: Box<Failure>) -> Self {
        Self::Failed(failure)
    }
}

impl<'a> Runner<'a> {
    pub(super) fn new(
        script: &'a Script,
        settings: &'a Settings,
        target: Target,
        ends: (SocketAddr, SocketAddr),
    ) -> Self {
        Self {
            script,
            settings,
            target,
            descriptors: Descriptors::default(),
            shell: Shell::default(),
            flows: Vec::new(),
            current: None,
            pending: None,
            python: python::State::default(),
            last: None,
            history: VecDeque::new(),
            next_peer_port: PEER_PORT,
            warnings: Vec::new(),
            log: Vec::new(),
            local: ends.0,
            remote: ends.1,
        }
    }

    /// Everything, from the first command to the clean-up.
    pub(super) fn run(&mut self) -> Step<()> {
        let result = self.init_and_events();
        // The clean-up runs after a failure, too, and does not hide it.
        let script: &'a Script = self.script;
        let cleanup = match &script.cleanup {
            Some(command) => self.command(command),
            None => Ok(()),
        };
        result.and(cleanup)
    }

    fn init_and_events(&mut self) -> Step<()> {
        let script: &'a Script = self.script;
        if let Some(command) = &script.init {
            self.command(command)?;
        }
        for event in &script.events {
            self.event(event)?;
        }
        self.finish_pending()?;
        self.reset_flows()
    }

    /// Time since the start of the script.
    pub(super) fn now(&self) -> Duration {
        self.target.now().since(START)
    }

    fn instant(at: Duration) -> Instant {
        START + at
    }

    pub(super) fn fail(&self, span: Span, what: impl Into<String>) -> Box<Failure> {
        Box::new(Failure {
            history: self.history_of(self.current),
            ..Failure::new(span, self.now(), what)
        })
    }

    pub(super) fn restless(&self, span: Span, restless: Restless) -> Box<Failure> {
        let at = seconds(restless.at.since(START));
        self.fail(span, format!("the stack does not come to rest at {at}"))
    }

    fn history_of(&self, flow: Option<usize>) -> Vec<String> {
        let mut lines: Vec<String> = self
            .history
            .iter()
            .rev()
            .filter(|(of, _)| of.is_none() || *of == flow)
            .take(HISTORY)
            .map(|(_, line)| line.clone())
            .collect();
        lines.reverse();
        lines
    }

    pub(super) fn remember(&mut self, flow: Option<usize>, line: String) {
        if self.settings.verbose {
            self.log.push(line.clone());
        }
        if self.history.len() >= 16 * HISTORY {
            self.history.pop_front();
        }
        self.history.push_back((flow, line));
    }

    // ---- time -------------------------------------------------------------------------------

    /// When `event` is to happen, now that it is taken up.
    fn due(&self, event: &Event) -> Due {
        let is_inbound = is_inbound(event);
        let offset = match self.last {
            Some(last) if last.is_inbound && is_inbound => last.at,
            _ => self.now(),
        };
        let (offset, from, to) = match event.time {
            EventTime::At(at) => (Duration::ZERO, at, Some(at)),
            EventTime::After(after) => (offset, after, Some(after)),
            EventTime::Any => (offset, Duration::ZERO, None),
            EventTime::Within(from, to) => (Duration::ZERO, from, Some(to)),
            EventTime::AfterWithin(from, to) => (offset, from, Some(to)),
        };
        Due {
            from: offset.saturating_add(from),
            to: to.map(|to| offset.saturating_add(to)),
            offset,
        }
    }

    /// Let time pass until `at`.
    pub(super) fn wait_until(&mut self, span: Span, at: Duration) -> Step<()> {
        if at > FOREVER {
            return Err(self.fail(span, "the script takes longer than a week"));
        }
        let until = Self::instant(at);
        self.poll_pending()?;
        while self.target.now() < until {
            self.target.step(until).map_err(|r| self.restless(span, r))?;
            self.poll_pending()?;
        }
        Ok(())
    }

    /// One step of time towards `until`. False: it is reached.
    pub(super) fn step(&mut self, span: Span, until: Duration) -> Step<bool> {
        let goes_on = self.target.step(Self::instant(until)).map_err(|r| self.restless(span, r))?;
        self.poll_pending()?;
        Ok(goes_on)
    }

    /// Wait for the time of an event that the script makes happen.
    fn start(&mut self, event: &Event, due: Due) -> Step<()> {
        let late = self.now().saturating_sub(due.from);
        self.wait_until(event.span, due.from)?;
        let gap = self.last.map_or(Duration::ZERO, |last| due.from.saturating_sub(last.at));
        if late > self.settings.tolerance_after(gap) {
            self.warnings.push(format!(
                "line {}: this event was to start at {}, and started at {}",
                event.span.line,
                seconds(due.from),
                seconds(self.now())
            ));
        }
        Ok(())
    }

    // ---- events -----------------------------------------------------------------------------

    fn event(&mut self, event: &'a Event) -> Step<()> {
        let due = self.due(event);
        match &event.action {
            Action::Packet(packet) => match packet.direction {
                Direction::Inbound => {
                    self.start(event, due)?;
                    self.inbound(packet)?;
                }
                Direction::Outbound => self.outbound(event, packet, due)?,
            },
            Action::Syscall(call) => {
                self.await_idle(event.span)?;
                self.start(event, due)?;
                let gap_from = due.from;
                let end = call.end.map(|end| due.offset.saturating_add(end));
                self.syscall(call, gap_from, end)?;
            }
            Action::Command(command) => {
                self.start(event, due)?;
                self.command(command)?;
            }
            Action::Code(code) => {
                self.start(event, due)?;
                self.code(&code.program, code.span)?;
            }
        }
        self.last = Some(Last { at: due.from, is_inbound: is_inbound(event) });
        match self.target.take_fault() {
            Some(fault) => Err(self.fail(event.span, fault)),
            None => Ok(()),
        }
    }

    fn command(&mut self, command: &Command) -> Step<()> {
        for step in &command.steps {
            let span = Span::new(step.line, 1);
            let wait = self
                .shell
                .run(step, &mut self.target, self.settings)
                .map_err(|what| self.fail(span, what))?;
            if let Some(wait) = wait {
                self.wait_until(span, self.now().saturating_add(wait))?;
            }
        }
        if !self.shell.take_status() {
            return Err(self.fail(command.span, format!("command failed: {}", command.text.trim())));
        }
        Ok(())
    }

    fn code(&mut self, program: &python::Program, span: Span) -> Step<()> {
        let fd = self.current.and_then(|index| self.flows.get(index)).and_then(|flow| flow.fd);
        let info = fd.and_then(|fd| self.descriptors.info(&mut self.target, fd));
        let snapshot = Snapshot(info);
        let mut printed = Vec::new();
        let result = self.python.run(program, &snapshot, &mut printed);
        self.log.append(&mut printed);
        if snapshot.0.is_none() {
            return Err(self.fail(span, "there is no socket to ask for TCP_INFO"));
        }
        result.map_err(|e| self.fail(Span::new(e.line, 1), e.to_string()))
    }

    // ---- packets ----------------------------------------------------------------------------

    /// The flow that a packet of the script belongs to.
    fn flow_of(&mut self, packet: &Packet) -> Step<usize> {
        let before = self.flow_by_ports(packet);
        if let Some(over) = self.opens_again(packet, before) {
            return self.new_child(packet, Some(over));
        }
        if let Some(index) = before {
            return Ok(index);
        }
        let inbound = packet.direction == Direction::Inbound;
        let segment = match &packet.body {
            PacketBody::Tcp(tcp) => Some(tcp),
            _ => None,
        };
        let current = self.current.and_then(|i| self.flows.get(i)).map(|flow| flow.stage);
        if let Some(tcp) = segment {
            let makes_child = inbound && matches!(current, None | Some(Stage::Listening));
            let second_child = inbound
                && packet.ports.is_some()
                && tcp.flags.has(TcpFlags::SYN)
                && !tcp.flags.has(TcpFlags::ACK)
                && self.flows.iter().any(|flow| flow.stage == Stage::Listening);
            if makes_child || second_child {
                return self.new_child(packet, None);
            }
            let pure_syn = tcp.flags.has(TcpFlags::SYN) && !tcp.flags.has(TcpFlags::ACK);
            if !inbound
                && pure_syn
                && let Some(index) = self.current
                && let Some(flow) = self.flows.get_mut(index)
                && flow.stage == Stage::Connecting
            {
                flow.stage = Stage::SynSent;
                flow.local_isn.script = tcp.seq;
                return Ok(index);
            }
        }
        self.current.ok_or_else(|| self.fail(packet.span, "there is no socket for this packet"))
    }

    /// The flow whose live ports a packet names.
    fn flow_by_ports(&self, packet: &Packet) -> Option<usize> {
        let ports = packet.ports?;
        let (ours, theirs) = match packet.direction {
            Direction::Inbound => (ports.destination, ports.source),
            Direction::Outbound => (ports.source, ports.destination),
        };
        self.flows.iter().rposition(|flow| {
            flow.stage != Stage::Listening
                && flow.local.is_some_and(|local| local.port() == ours)
                && flow.remote.is_some_and(|remote| remote.port() == theirs)
        })
    }

    /// The peer's end of a flow that is over, if `packet` is a SYN for a listener that begins another one
    /// between the same ends. `named`: the flow whose ports it has.
    fn opens_again(&self, packet: &Packet, named: Option<usize>) -> Option<SocketAddr> {
        let PacketBody::Tcp(tcp) = &packet.body else { return None };
        let syn = packet.direction == Direction::Inbound
            && tcp.flags.has(TcpFlags::SYN)
            && !tcp.flags.has(TcpFlags::ACK);
        let index = if packet.ports.is_some() { named } else { self.current };
        let flow = self.flows.get(index.filter(|_| syn)?)?;
        let passive =
            matches!(flow.stage, Stage::SynReceived | Stage::SynAckSeen | Stage::Completed);
        let listens = self.flows.iter().any(|f| f.stage == Stage::Listening && !f.closed);
        let over = flow.closed || flow.reset;
        flow.remote.filter(|_| passive && listens && over)
    }

    /// An inbound segment for a listener: the beginning of a connection. `again`: the peer's end, if it is
    /// that of an earlier one.
    fn new_child(&mut self, packet: &Packet, again: Option<SocketAddr>) -> Step<usize> {
        let PacketBody::Tcp(tcp) = &packet.body else {
            return Err(self.fail(packet.span, "only a segment can open a connection"));
        };
        let mut flow = Flow::new(None, Transport::Tcp, Stage::SynReceived);
        let (mut local, mut remote) = (self.local, self.remote);
        local.set_port(self.settings.bind_port);
        remote.set_port(self.next_peer_port);
        match packet.ports {
            Some(ports) => {
                remote.set_port(ports.source);
                local.set_port(ports.destination);
            }
            None => match again {
                Some(again) => remote = again,
                None => {
                    self.next_peer_port = self.next_peer_port.checked_add(1).unwrap_or(PEER_PORT);
                }
            },
        }
        flow.local = Some(local);
        flow.remote = Some(remote);
        flow.remote_isn = tcp.seq;
        let index = self.add_flow(packet.span, flow)?;
        Ok(index)
    }

    /// Remember a new socket, the one that packets belong to from now on.
    pub(super) fn add_flow(&mut self, span: Span, flow: Flow) -> Step<usize> {
        if self.flows.len() >= FLOWS_MAX {
            return Err(self.fail(span, "too many sockets"));
        }
        self.flows.push(flow);
        let index = self.flows.len() - 1;
        self.current = Some(index);
        Ok(index)
    }

    fn inbound(&mut self, packet: &Packet) -> Step<()> {
        let index = self.flow_of(packet)?;
        let wire = Wire {
            macs: self.target.macs(),
            mss: self.settings.mss,
            ts_ecr_scaled: self.settings.tcp_ts_ecr_scaled,
        };
        let Some(flow) = self.flows.get_mut(index) else {
            return Err(self.fail(packet.span, "there is no socket for this packet"));
        };
        if let PacketBody::Tcp(tcp) = &packet.body {
            let ack = tcp.flags.has(TcpFlags::ACK);
            flow.reset |= tcp.flags.has(TcpFlags::RST);
            match flow.stage {
                Stage::SynAckSeen if ack => flow.stage = Stage::Completed,
                Stage::SynSent if ack && tcp.flags.has(TcpFlags::SYN) => {
                    flow.stage = Stage::SynAcked;
                    flow.remote_isn = tcp.seq;
                }
                // Simultaneous open: the peer's SYN comes without an acknowledgement.
                Stage::SynSent if tcp.flags.has(TcpFlags::SYN) => {
                    flow.remote_isn = tcp.seq;
                }
                _ => {}
            }
        }
        let frames =
            inbound::frames(packet, flow, wire).map_err(|what| self.fail(packet.span, what))?;
        let line = format!("{} {}", seconds(self.now()), packet);
        self.remember(Some(index), line);
        self.target.inject(&frames).map_err(|r| self.restless(packet.span, r))?;
        self.poll_pending()
    }

    fn outbound(&mut self, event: &Event, packet: &Packet, due: Due) -> Step<()> {
        let result = self.expect(event, packet, due);
        match result {
            Err(failure) if self.settings.non_fatal_packet && failure.packets.is_some() => {
                self.warnings.push(failure.render("warning"));
                Ok(())
            }
            other => other,
        }
    }

    fn expect(&mut self, event: &Event, packet: &Packet, due: Due) -> Step<()> {
        let index = self.flow_of(packet)?;
        if let PacketBody::Tcp(tcp) = &packet.body
            && let Some(flow) = self.flows.get_mut(index)
            && flow.stage == Stage::SynReceived
            && tcp.flags.has(TcpFlags::SYN | TcpFlags::ACK)
        {
            flow.local_isn.script = tcp.seq;
        }
        let wanted = match &packet.body {
            PacketBody::Tcp(tcp) => u32::from(tcp.payload_len),
            _ => 0,
        };
        let mut whole: Option<Whole> = None;
        loop {
            let live = match self.next_live(index, event.span, due) {
                Ok(live) => live,
                Err(Absent::Failed(failure)) => return Err(failure),
                Err(Absent::NoPacket(what)) => {
                    let mut failure = self.fail(event.span, what);
                    failure.packets = Some(self.missing(packet, due, index, whole.as_ref()));
                    failure.history = self.history_of(Some(index));
                    return Err(failure);
                }
            };
            match &mut whole {
                None => whole = Some(Whole::new(live)),
                Some(sum) => {
                    let before = sum.clone();
                    if let Err(why) = sum.push(live.clone(), wanted) {
                        return Err(self.incomplete(packet, due, index, &before, &live, why));
                    }
                }
            }
            let complete = whole.as_ref().is_some_and(|whole| {
                whole.packet.payload() >= wanted || self.settings.strict_segments
            });
            if complete {
                break;
            }
        }
        match whole {
            Some(whole) => self.judge(packet, due, index, &whole),
            None => Ok(()),
        }
    }

    /// The next packet that the stack sends for a flow.
    fn next_live(&mut self, index: usize, span: Span, due: Due) -> Result<Live, Absent> {
        let now = self.now();
        let until = match due.to {
            Some(to) => to.max(now).saturating_add(PATIENCE),
            None => now.saturating_add(FOREVER),
        };
        self.poll_pending()?;
        loop {
            if let Some(live) = self.take_live(index) {
                return Ok(live);
            }
            if due.to.is_none() && self.target.next_deadline().is_none() {
                return Err(Absent::NoPacket("no packet came, and none ever will"));
            }
            if !self.step(span, until)? {
                if let Some(live) = self.take_live(index) {
                    return Ok(live);
                }
                return Err(Absent::NoPacket("no packet came"));
            }
        }
    }

    /// Take the oldest packet of a flow out of what the stack has sent.
    fn take_live(&mut self, index: usize) -> Option<Live> {
        let flow = self.flows.get(index)?;
        let position = self.target.sent_ref().iter().position(|live| belongs(flow, live))?;
        let live = self.target.sent().remove(position)?;
        let flow = self.flows.get_mut(index)?;
        learn(flow, &live);
        if self.settings.verbose {
            let at = seconds(live.at.since(START));
            self.log.push(format!("{at} sent: {}", describe(&live)));
        }
        Some(live)
    }

    fn mismatch(
        &self,
        packet: &Packet,
        due: Due,
        index: usize,
        live: Option<&Live>,
        differences: Vec<String>,
    ) -> Mismatch {
        let expected = format!("{} {}", window(due), packet);
        let actual = live.map(|live| self.line_of(packet, index, live));
        Mismatch { expected, actual, differences }
    }

    /// A packet from the stack as the script would write it, with its time.
    fn line_of(&self, like: &Packet, index: usize, live: &Live) -> String {
        let at = seconds(live.at.since(START));
        match self.flows.get(index) {
            Some(flow) => {
                format!("{at} {}", compare::actual(like, flow, live))
            }
            None => at,
        }
    }

    /// What was expected, next to the part of it that came.
    fn missing(&self, packet: &Packet, due: Due, index: usize, so_far: Option<&Whole>) -> Mismatch {
        let differences = match so_far {
            Some(whole) => vec![format!(
                "{} bytes in {} segments came, and then nothing more",
                whole.packet.payload(),
                whole.segments
            )],
            None => Vec::new(),
        };
        let live = so_far.map(|whole| &whole.packet);
        self.mismatch(packet, due, index, live, differences)
    }

    fn incomplete(
        &self,
        packet: &Packet,
        due: Due,
        index: usize,
        before: &Whole,
        live: &Live,
        why: String,
    ) -> Box<Failure> {
        let so_far = format!(
            "{} bytes came first: {}",
            before.packet.payload(),
            self.line_of(packet, index, &before.packet)
        );
        let packets = Some(self.mismatch(packet, due, index, Some(live), vec![so_far, why]));
        let mut failure =
            self.fail(packet.span, "the expected packet came in parts that do not fit");
        failure.packets = packets;
        failure.history = self.history_of(Some(index));
        failure
    }

    /// Compare what came with what was expected.
    fn judge(&mut self, packet: &Packet, due: Due, index: usize, whole: &Whole) -> Step<()> {
        let clock = Clock {
            tick: self.settings.tcp_ts_tick,
            tolerance: self.settings.tolerance_after(due.from),
        };
        let live = &whole.packet;
        let mut differences = match self.flows.get_mut(index) {
            Some(flow) => compare::differences(packet, flow, live, clock),
            None => Vec::new(),
        };
        differences.extend(self.time_differences(due, whole));
        let line = self.line_of(packet, index, live);
        self.remember(Some(index), line);
        if differences.is_empty() {
            return Ok(());
        }
        let what = "this is not the packet that was expected";
        let mut failure = self.fail(packet.span, what);
        failure.packets = Some(self.mismatch(packet, due, index, Some(live), differences));
        failure.history = self.history_of(Some(index));
        Err(failure)
    }

    fn time_differences(&self, due: Due, whole: &Whole) -> Vec<String> {
        let Some(to) = due.to else { return Vec::new() };
        let gap = self.last.map_or(Duration::ZERO, |last| due.from.saturating_sub(last.at));
        let allowed = self.settings.tolerance_after(gap);
        let check = |live: &Live, which: &str| {
            let at = live.at.since(START);
            let (early, late) = (due.from.saturating_sub(at), at.saturating_sub(to));
            let (by, word) = if early > Duration::ZERO { (early, "early") } else { (late, "late") };
            (by > allowed).then(|| {
                format!(
                    "time: {which}{} s too {word}, where {} s are allowed",
                    seconds(by),
                    seconds(allowed)
                )
            })
        };
        let first = check(&whole.packet, "");
        if whole.segments == 1 || first.is_some() {
            return first.into_iter().collect();
        }
        check(&whole.last, "its last segment ").into_iter().collect()
    }

    /// Every connection that is still open ends with a reset, so that its packets do not trouble
    /// anybody.
    fn reset_flows(&mut self) -> Step<()> {
        let macs = self.target.macs();
        let frames: Vec<_> =
            self.flows.iter().filter_map(|flow| inbound::reset(flow, macs)).collect();
        let end = Span::default();
        self.target.inject(&frames).map_err(|r| self.restless(end, r))
    }
}

/// The time of an event as scripts write it.
fn window(due: Due) -> String {
    match due.to {
        None => "*".into(),
        Some(to) if to == due.from => seconds(due.from),
        Some(to) => format!("{}~{}", seconds(due.from), seconds(to)),
    }
}

fn is_inbound(event: &Event) -> bool {
    matches!(&event.action, Action::Packet(packet) if packet.direction == Direction::Inbound)
}

/// Whether the stack sent `live` for `flow`.
fn belongs(flow: &Flow, live: &Live) -> bool {
    let Some(remote) = flow.remote else { return false };
    let transport_fits = match (&live.body, flow.transport) {
        (LiveBody::Tcp(_), Transport::Tcp) | (LiveBody::Udp { .. }, Transport::Udp) => true,
        // What is no datagram of a known protocol is everybody's business.
        (LiveBody::Icmp { .. } | LiveBody::Other(_), _) => return live.ip.dst == remote.ip(),
        _ => false,
    };
    let Some((source, destination)) = live.ports() else { return false };
    if !transport_fits || live.ip.dst != remote.ip() || destination != remote.port() {
        return false;
    }
    match flow.local {
        Some(local) if flow.stage != Stage::SynSent => {
            live.ip.src == local.ip() && source == local.port()
        }
        // A SYN tells who we are.
        _ => match &live.body {
            LiveBody::Tcp(tcp) => {
                flow.local.is_some_and(|local| local.port() == source)
                    || tcp.flags.syn() && !tcp.flags.ack()
            }
            _ => true,
        },
    }
}

/// What a packet from the stack tells about its flow.
fn learn(flow: &mut Flow, live: &Live) {
    let Some((source, _)) = live.ports() else { return };
    let local = SocketAddr::new(live.ip.src, source);
    let Some(tcp) = live.tcp() else {
        flow.local.get_or_insert(local);
        return;
    };
    let (syn, ack) = (tcp.flags.syn(), tcp.flags.ack());
    match flow.stage {
        Stage::SynSent if syn && !ack => {
            flow.local = Some(local);
            flow.local_isn.live = Some(tcp.seq);
        }
        Stage::SynReceived if syn && ack => {
            flow.local_isn.live = Some(tcp.seq);
            flow.stage = Stage::SynAckSeen;
        }
        _ => {}
    }
    flow.last.outbound = Some((tcp.seq, ack.then_some(tcp.ack)));
}

/// A packet in the numbers of the wire.
fn describe(live: &Live) -> String {
    match &live.body {
        LiveBody::Tcp(tcp) => format!(
            "{}.{} > {}.{} {:?} seq {} len {} ack {} win {}",
            live.ip.src,
            tcp.src_port,
            live.ip.dst,
            tcp.dst_port,
            tcp.flags,
            tcp.seq,
            tcp.payload,
            tcp.ack,
            tcp.window
        ),
        other => format!("{} > {} {other:?}", live.ip.src, live.ip.dst),
    }
}
