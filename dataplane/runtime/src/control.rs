//! The control thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use base::{Device, DropReason, PortId, WorkerId};
use config::{Knobs, Source};
use serde_json::{Map, Value, json};
use stack::{Command, Message, Outgoing, Snapshot, StackCounters, StackParams};
use tcp::TcpCounters;

use crate::clock::TimeBase;
use crate::idle::IdlePolicy;
use crate::mailbox::{Backlog, Questions};
use crate::protocol::Request;
use crate::signals::Signals;
use crate::socket::{ClientId, ControlSocket};
use crate::worker::{self, Shared, WorkerHandle, WorkerSetup};

/// How often the control thread looks around when nothing happens.
const ROUND: Duration = Duration::from_millis(4);
/// Results taken from one worker per round.
const RESULTS_PER_ROUND: usize = 1024;
/// Neighbour ageing, link state and the watchdog.
const HOUSEKEEPING: Duration = Duration::from_secs(1);
/// New secrets where they can change without harm.
const SECRETS: Duration = Duration::from_secs(600);
/// A worker whose heartbeat stands still for this long is reported.
const WATCHDOG: Duration = Duration::from_secs(2);
/// Beyond `stop_limit`, how long the last frames and answers may take.
const STOP_GRACE: Duration = Duration::from_secs(1);
/// How long workers may take to answer a request that came over the control socket.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// Commands that wait for a worker whose inbox is full, beyond which it is not told to age.
const BACKLOG_HIGH: usize = 16;
/// What is asked when everything has ended; no other question has this name.
const LAST_QUESTION: QuestionId = QuestionId(u64::MAX);
/// Exit status when all ports are lost: the environment is not what it takes.
const LOST: u8 = 3;
/// Exit status when only some of them were.
const PARTLY: u8 = 5;
/// Rows of `ss` per worker.
const ROWS_MAX: u32 = 10_000;

/// A device's link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// Port name.
    pub name: String,
    /// Whether frames can pass.
    pub up: bool,
    /// Why none will ever pass again, if that is so. When it is so of all ports, the dataplane ends.
    pub lost: Option<String>,
}

/// How a dataplane runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the instance.
    pub instance: String,
    /// Whether to open a control socket.
    pub socket: bool,
    /// What idle workers do.
    pub idle: IdlePolicy,
    /// How long an orderly stop may take before what is left is reset.
    pub stop_limit: Duration,
}

/// What the control thread calls, on its own thread. All may block for a moment.
pub struct Hooks {
    /// An application has published something.
    pub on_publish: Box<dyn FnMut(WorkerId, Message)>,
    /// State of the ports' links, asked once a second.
    pub links: Box<dyn FnMut() -> Vec<LinkState>>,
    /// Counters of the ports for `nstat`: name and value.
    pub port_stats: Box<dyn FnMut() -> Vec<(String, u64)>>,
    /// One or more lines for people: a warning with what helps.
    pub on_warning: Box<dyn FnMut(&str)>,
    /// All workers turn.
    pub on_ready: Box<dyn FnMut()>,
}

/// Workers, knobs and hooks, ready to run.
pub struct Dataplane<D> {
    /// How to run.
    pub options: Options,
    /// The knobs, as the configuration set them.
    pub knobs: Knobs,
    /// One entry per worker.
    pub workers: Vec<WorkerSetup<D>>,
    /// See [`Hooks`].
    pub hooks: Hooks,
}

/// How it went.
#[derive(Debug)]
pub struct Outcome {
    /// 0 done (also after a signal), 1 the application failed, 3 all ports were lost, 5 some were.
    pub code: u8,
    /// The last snapshot of each worker that could give one.
    pub last: Vec<Snapshot>,
}

impl<D: Device + 'static> Dataplane<D> {
    /// Start the workers and be the control thread until an application or a signal ends it.
    ///
    /// # Errors
    /// Whatever keeps it from starting, as a sentence for people; or a worker that broke down.
    pub fn run(self) -> Result<Outcome, String> {
        let signals = Signals::install().map_err(|e| format!("cannot handle signals: {e}"))?;
        let socket = match self.options.socket {
            true => Some(ControlSocket::open(&self.options.instance).map_err(|e| e.to_string())?),
            false => None,
        };
        stop_on_panic();

        let time = TimeBase::start();
        let params = Arc::new(self.knobs.to_params(1));
        let shared = worker::mailboxes(self.workers.len());
        let mut workers = Vec::new();
        for (index, setup) in self.workers.into_iter().enumerate() {
            let idle = self.options.idle;
            let handle =
                worker::spawn(index, setup, time, idle, Arc::clone(&params), shared.clone())
                    .map_err(|e| format!("cannot start worker {index}: {e}"))?;
            workers.push(Worker::new(handle));
        }
        let control = Control {
            options: self.options,
            knobs: self.knobs,
            hooks: self.hooks,
            generation: 1,
            workers,
            socket,
            next_question: 0,
            pending: Vec::new(),
            links: Vec::new(),
            stop: None,
            lost: false,
            code: 0,
        };
        control.run(&signals)
    }
}

/// A worker without its invariants must not go on, nor must the rest of the process without it.
fn stop_on_panic() {
    let earlier = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let thread = thread::current();
        let name = thread.name().unwrap_or("?").to_owned();
        if name.starts_with("millrace-w") {
            eprintln!("millrace: {name} has broken an invariant and stops the process: {info}");
            std::process::abort();
        }
        earlier(info);
    }));
}

/// What the control thread knows of one worker.
struct Worker {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<Result<(), String>>>,
    backlog: Backlog<Command>,
    /// Open questions for snapshots.
    questions: Questions<QuestionId>,
    heartbeat: u64,
    heartbeat_moved: Instant,
    reported: bool,
    stopped: bool,
    last: Option<Box<Snapshot>>,
}

impl Worker {
    fn new(handle: WorkerHandle) -> Self {
        Self {
            shared: handle.shared,
            thread: Some(handle.thread),
            backlog: Backlog::new(),
            questions: Questions::new(),
            heartbeat: 0,
            heartbeat_moved: Instant::now(),
            reported: false,
            stopped: false,
            last: None,
        }
    }

    fn post(&mut self, command: Command) {
        self.backlog.post(&self.shared.inbox, command);
    }

    fn flush(&mut self) {
        self.backlog.flush(&self.shared.inbox);
    }

    /// What would be said again soon is not said to a worker that does not listen.
    fn post_if_it_listens(&mut self, command: Command) {
        if self.backlog.len() < BACKLOG_HIGH {
            self.post(command);
        }
    }

    fn ask(&mut self, by: QuestionId, connections: u32) {
        self.post(Command::Snapshot { connections });
        self.questions.asked(by);
    }
}

/// Names a question to all workers; none has the name of an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct QuestionId(u64);

/// A request that waits for the workers.
struct Pending {
    id: QuestionId,
    /// `None`: our own question (SIGUSR1, the end).
    client: Option<(ClientId, Value)>,
    until: Instant,
    kind: PendingKind,
    waiting: Vec<bool>,
    snapshots: Vec<Option<Box<Snapshot>>>,
}

enum PendingKind {
    Params { generation: u64, result: Value },
    Ss,
    Nstat,
    Workers,
    Statistics,
}

struct Stop {
    begun: Instant,
}

struct Control {
    options: Options,
    knobs: Knobs,
    hooks: Hooks,
    generation: u64,
    workers: Vec<Worker>,
    socket: Option<ControlSocket>,
    next_question: u64,
    pending: Vec<Pending>,
    links: Vec<LinkState>,
    stop: Option<Stop>,
    /// All ports are gone: nothing that was sent can be finished, so nothing is waited for.
    lost: bool,
    code: u8,
}

impl Control {
    fn run(mut self, signals: &Signals) -> Result<Outcome, String> {
        let mut housekeeping = Instant::now();
        let mut secrets = Instant::now();
        self.links = (self.hooks.links)();
        for link in self.links.iter().filter(|l| !l.up) {
            (self.hooks.on_warning)(&format!("port {} has no link", link.name));
        }
        (self.hooks.on_ready)();
        let mut failure = None;
        loop {
            let results = self.take_results();
            let requests = self.socket.as_mut().map(ControlSocket::poll).unwrap_or_default();
            for (client, id, request) in requests {
                self.on_request(client, id, request);
            }
            self.finish_pending();
            if signals.stop_requested() {
                self.begin_stop();
            }
            if signals.take_statistics() {
                self.ask_all(None, PendingKind::Statistics, 0);
            }
            if housekeeping.elapsed() >= HOUSEKEEPING {
                housekeeping = Instant::now();
                self.housekeeping();
            }
            if secrets.elapsed() >= SECRETS {
                secrets = Instant::now();
                self.post_all(|| Command::RotateSecrets);
            }
            if let Some(index) = self.workers.iter().position(|w| w.shared.is_gone()) {
                failure = Some(self.join(index));
                break;
            }
            if self.lost || self.stop_is_complete() {
                break;
            }
            if results == 0 {
                thread::park_timeout(ROUND);
            }
        }
        if failure.is_none() {
            self.last_snapshots();
        }
        for worker in &self.workers {
            worker.shared.ask_to_quit();
        }
        for index in 0..self.workers.len() {
            let joined = self.join(index);
            if !joined.is_empty() && failure.is_none() {
                failure = Some(joined);
            }
        }
        self.take_results();
        match failure {
            Some(why) => Err(why),
            None => Ok(Outcome {
                code: match self.code {
                    0 if self.links.iter().any(|link| link.lost.is_some()) => PARTLY,
                    code => code,
                },
                last: self.workers.into_iter().filter_map(|w| w.last.map(|b| *b)).collect(),
            }),
        }
    }

    /// Wait for a worker's end; empty if it ended well.
    fn join(&mut self, index: usize) -> String {
        match self.workers[index].thread.take().map(thread::JoinHandle::join) {
            None | Some(Ok(Ok(()))) => String::new(),
            Some(Ok(Err(why))) => format!("worker {index}: {why}"),
            Some(Err(_)) => format!("worker {index} panicked"),
        }
    }

    fn post_all(&mut self, make: impl Fn() -> Command) {
        for worker in &mut self.workers {
            worker.post(make());
        }
    }

    fn take_results(&mut self) -> usize {
        let mut count = 0;
        for index in 0..self.workers.len() {
            self.workers[index].flush();
            for _ in 0..RESULTS_PER_ROUND {
                let Some(result) = self.workers[index].shared.outbox.pop() else { break };
                count += 1;
                self.on_result(index, result);
            }
        }
        count
    }

    fn on_result(&mut self, index: usize, result: Outgoing) {
        match result {
            // A worker delivers these itself; one that comes here found no such worker.
            Outgoing::ToWorker(..) => {}
            Outgoing::Publish(message) => {
                let worker = WorkerId(u16::try_from(index).unwrap_or(u16::MAX));
                (self.hooks.on_publish)(worker, message);
            }
            Outgoing::ParamsApplied(applied) => {
                for p in &mut self.pending {
                    if let PendingKind::Params { generation, .. } = p.kind
                        && applied >= generation
                    {
                        p.waiting[index] = false;
                    }
                }
            }
            Outgoing::Snapshot(snapshot) => {
                // The answer to a question that nobody waits for any more is no answer to another.
                let by = self.workers[index].questions.answered();
                if let Some(p) = self.pending.iter_mut().find(|p| Some(p.id) == by) {
                    p.waiting[index] = false;
                    p.snapshots[index] = Some(snapshot);
                } else if by == Some(LAST_QUESTION) {
                    self.workers[index].last = Some(snapshot);
                }
            }
            Outgoing::Exit(code) => {
                self.code = self.code.max(code);
                self.begin_stop();
            }
            Outgoing::ChecksumTrap(port) => {
                let name = port_name(&self.links, port).unwrap_or("the port");
                (self.hooks.on_warning)(&checksum_trap(name));
            }
            Outgoing::Stopped => self.workers[index].stopped = true,
        }
    }

    fn begin_stop(&mut self) {
        if self.stop.is_none() {
            self.stop = Some(Stop { begun: Instant::now() });
            self.post_all(|| Command::Stop);
        }
    }

    fn stop_is_complete(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| {
            self.workers.iter().all(|w| w.stopped)
                || stop.begun.elapsed() > self.options.stop_limit + STOP_GRACE
        })
    }

    fn last_snapshots(&mut self) {
        self.pending.clear();
        for worker in &mut self.workers {
            worker.last = None;
        }
        for worker in &mut self.workers {
            worker.ask(LAST_QUESTION, 0);
        }
        let begun = Instant::now();
        while begun.elapsed() < STOP_GRACE && self.workers.iter().any(|w| w.last.is_none()) {
            if self.take_results() == 0 {
                thread::park_timeout(ROUND);
            }
        }
    }

    fn housekeeping(&mut self) {
        for worker in &mut self.workers {
            worker.post_if_it_listens(Command::Age);
        }
        for index in 0..self.workers.len() {
            let worker = &mut self.workers[index];
            let beat = worker.shared.heartbeat.load(Ordering::Relaxed);
            if beat != worker.heartbeat {
                worker.heartbeat = beat;
                worker.heartbeat_moved = Instant::now();
                worker.reported = false;
            } else if worker.heartbeat_moved.elapsed() > WATCHDOG && !worker.reported {
                worker.reported = true;
                let for_secs = worker.heartbeat_moved.elapsed().as_secs();
                (self.hooks.on_warning)(&format!(
                    "worker {index} has not turned for {for_secs} s: its application or its device holds it"
                ));
            }
        }
        let links = (self.hooks.links)();
        for link in &links {
            let before = self.links.iter().find(|l| l.name == link.name);
            if let Some(why) = &link.lost {
                if before.is_none_or(|l| l.lost.is_none()) {
                    (self.hooks.on_warning)(&format!("port {}: {why}", link.name));
                }
                continue;
            }
            if before.is_some_and(|l| l.up != link.up) {
                let state = if link.up { "up" } else { "down" };
                (self.hooks.on_warning)(&format!("port {}: link is {state}", link.name));
            }
        }
        if !links.is_empty() && links.iter().all(|link| link.lost.is_some()) {
            self.lost = true;
            self.code = LOST;
        }
        self.links = links;
    }

    fn ask_all(&mut self, client: Option<(ClientId, Value)>, kind: PendingKind, rows: u32) {
        let id = QuestionId(self.next_question);
        self.next_question += 1;
        if !matches!(kind, PendingKind::Params { .. }) {
            for worker in &mut self.workers {
                worker.ask(id, rows);
            }
        }
        self.pending.push(Pending {
            id,
            client,
            until: Instant::now() + ANSWER_LIMIT,
            kind,
            waiting: vec![true; self.workers.len()],
            snapshots: self.workers.iter().map(|_| None).collect(),
        });
    }

    fn on_request(&mut self, client: ClientId, id: Value, request: Request) {
        match request {
            Request::SysctlGet { name } => {
                let result = match self.knobs.entry(&name) {
                    Ok(entry) => Ok(json!({"name": entry.knob.name, "value": entry.value})),
                    Err(e) => Err(e.to_string()),
                };
                self.answer(client, &id, result);
            }
            Request::SysctlList => {
                let entries = self.knobs.list("").into_iter();
                let all: Map<String, Value> =
                    entries.map(|e| (e.knob.name.to_owned(), json!(e.value))).collect();
                self.answer(client, &id, Ok(Value::Object(all)));
            }
            Request::SysctlSet { name, value } => {
                let change = match self.knobs.set(&name, &value, Source::Runtime) {
                    Ok(change) => change,
                    Err(e) => return self.answer(client, &id, Err(e.to_string())),
                };
                if !change.reaches_workers() {
                    let result = changed(&change, self.generation);
                    return self.answer(client, &id, Ok(result));
                }
                self.generation += 1;
                let params: Arc<StackParams> = Arc::new(self.knobs.to_params(self.generation));
                self.post_all(|| Command::SetParams(Arc::clone(&params)));
                let result = changed(&change, self.generation);
                let kind = PendingKind::Params { generation: self.generation, result };
                self.ask_all(Some((client, id)), kind, 0);
            }
            Request::Ss => self.ask_all(Some((client, id)), PendingKind::Ss, ROWS_MAX),
            Request::Nstat => self.ask_all(Some((client, id)), PendingKind::Nstat, 0),
            Request::Workers => self.ask_all(Some((client, id)), PendingKind::Workers, 0),
            Request::WireShow | Request::WireSet { .. } => {
                self.answer(client, &id, Err("this is a dataplane, and no wire".to_owned()));
            }
            Request::Stop => {
                self.answer(client, &id, Ok(Value::Null));
                self.begin_stop();
            }
        }
    }

    fn answer(&mut self, client: ClientId, id: &Value, result: Result<Value, String>) {
        if let Some(socket) = &mut self.socket {
            socket.answer(client, id, result);
        }
    }

    fn finish_pending(&mut self) {
        let mut index = 0;
        while index < self.pending.len() {
            let p = &self.pending[index];
            let late = p.until <= Instant::now();
            if p.waiting.iter().any(|w| *w) && !late {
                index += 1;
                continue;
            }
            let p = self.pending.remove(index);
            let silent = p.waiting.iter().position(|w| *w);
            let result = match silent {
                Some(worker) => Err(format!("worker {worker} does not answer")),
                None => Ok(self.result_of(&p)),
            };
            match p.client {
                Some((client, id)) => self.answer(client, &id, result),
                None => {
                    let text = match result {
                        Ok(v) => v.to_string(),
                        Err(e) => e,
                    };
                    (self.hooks.on_warning)(&format!("statistics: {text}"));
                }
            }
        }
    }

    fn result_of(&mut self, p: &Pending) -> Value {
        let snapshots: Vec<&Snapshot> = p.snapshots.iter().flatten().map(|b| &**b).collect();
        match &p.kind {
            PendingKind::Params { result, .. } => result.clone(),
            PendingKind::Ss => {
                let links = &self.links;
                let rows = snapshots.iter().enumerate().flat_map(|(worker, s)| {
                    s.connections.iter().map(move |row| {
                        let port = row.port.and_then(|port| port_name(links, port));
                        crate::rows::connection(worker, port, row)
                    })
                });
                Value::Array(rows.collect())
            }
            PendingKind::Nstat | PendingKind::Statistics => {
                let mut counters = counters(&snapshots);
                for (name, value) in (self.hooks.port_stats)() {
                    counters.insert(name, json!(value));
                }
                Value::Object(counters)
            }
            PendingKind::Workers => {
                let rows = snapshots.iter().enumerate().map(|(worker, s)| {
                    json!({
                        "worker": worker,
                        "generation": s.generation,
                        "connections": s.table[0],
                        "half_open": s.table[1],
                        "time_wait": s.table[2],
                        "buffers_free": s.buffers.free,
                        "buffers_total": s.buffers.total,
                        "turns_busy": s.stack.turns_busy,
                        "turns_idle": s.stack.turns_idle,
                    })
                });
                Value::Array(rows.collect())
            }
        }
    }
}

/// The answer to a write.
fn changed(change: &config::Change, generation: u64) -> Value {
    json!({
        "name": change.knob.name,
        "value": change.new,
        "generation": generation,
        "warnings": change.warnings,
    })
}

/// All counters summed over workers, then drops by reason, then gauges.
fn counters(snapshots: &[&Snapshot]) -> Map<String, Value> {
    let mut tcp = TcpCounters::default();
    let mut stack = StackCounters::default();
    let mut drops = [0u64; DropReason::COUNT];
    for s in snapshots {
        tcp.add(&s.tcp);
        stack.add(&s.stack);
        for (sum, n) in drops.iter_mut().zip(s.drops) {
            *sum += n;
        }
    }
    let mut all = Map::new();
    for (name, value) in tcp.iter().chain(stack.iter()) {
        all.insert(name.to_owned(), json!(value));
    }
    for (reason, count) in DropReason::ALL.iter().zip(drops) {
        all.insert(format!("drop_{}", reason.name()), json!(count));
    }
    let sum = |of: fn(&Snapshot) -> u32| snapshots.iter().map(|s| u64::from(of(s))).sum::<u64>();
    for (name, value) in [
        ("MillraceConnections", sum(|s| s.table[0])),
        ("MillraceHalfOpen", sum(|s| s.table[1])),
        ("MillraceTimeWait", sum(|s| s.table[2])),
        ("MillraceBuffersFree", sum(|s| s.buffers.free)),
        ("MillraceBuffersTotal", sum(|s| s.buffers.total)),
    ] {
        all.insert(name.to_owned(), json!(value));
    }
    all
}

/// The name of a port, as the list of links has it: both are in the order of the ports.
fn port_name(links: &[LinkState], port: PortId) -> Option<&str> {
    links.get(usize::from(port.0)).map(|link| link.name.as_str())
}

/// Said once of a port, when wrong TCP checksums come in a burst without a right one among them.
fn checksum_trap(port: &str) -> String {
    format!(
        "all TCP checksums that arrive by {port} are wrong: the peer's interface probably leaves them to
hardware that a virtual link does not have. On the peer's interface:
  ethtool -K IFACE tx off tso off gso off
or believe the link: --rx-checksum trust (rx_checksum = \"trust\" in [[port]])"
    )
}
