//! An instance without a stack: one worker that moves frames between its ports, and a control thread for
//! all that is slow.
//!
//! What is done with the frames is a [`FrameApp`]; it is asked once per turn, as a stack would be, and told of
//! time by the worker alone. The control thread passes on what comes over the control socket, reads a
//! report once a second, and ends it all on a signal, at a time limit or when a port is lost.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use base::Clock;
use serde_json::{Value, json};
use stack::Turn;

use crate::clock::TimeBase;
use crate::control::LinkState;
use crate::idle::{Idle, IdlePolicy, Rest};
use crate::mailbox::{GoneOnDrop, Shared};
use crate::protocol::Request;
use crate::signals::Signals;
use crate::socket::{ClientId, ControlSocket};

/// Questions and answers that wait at most; a control thread that has so many open asks no more.
const MAILBOX: usize = 64;
/// How often the control thread looks around.
const ROUND: Duration = Duration::from_millis(4);
/// Reports and the state of links.
const SECOND: Duration = Duration::from_secs(1);
/// How long the worker may take for the last report.
const LAST_REPORT: Duration = Duration::from_secs(1);
/// Turns between two beats of the heart.
const TURNS_PER_HEARTBEAT: u64 = 256;
/// A port was lost: the environment is not what it takes.
const LOST: u8 = 3;

/// What moves frames between `devices`, which stay the same.
pub trait FrameApp<D> {
    /// What is read once a second, and at the end.
    type Report: Send + 'static;

    /// Do what is to be done at `now`.
    fn turn(&mut self, now: base::Instant, devices: &mut [D]) -> Turn;

    /// Change what it does: all changes or none.
    ///
    /// # Errors
    /// What is wrong with them, for the client.
    fn set(&mut self, now: base::Instant, changes: &[String]) -> Result<(), String>;

    /// How it is going.
    fn report(&mut self, now: base::Instant, devices: &[D]) -> Self::Report;
}

/// How such an instance runs.
#[derive(Clone, Debug)]
pub struct FrameOptions {
    /// Name of the instance.
    pub instance: String,
    /// What the worker does when idle.
    pub idle: IdlePolicy,
    /// Core of the worker; `None`: wherever the scheduler puts it.
    pub core: Option<usize>,
    /// When it ends by itself.
    pub limit: Option<Duration>,
}

/// What the control thread calls, on its own thread.
pub struct FrameHooks<R> {
    /// State of the ports' links, asked once a second.
    pub links: Box<dyn FnMut() -> Vec<LinkState>>,
    /// Counters of the ports for `nstat`: name and value.
    pub port_stats: Box<dyn FnMut() -> Vec<(String, u64)>>,
    /// Lines for people.
    pub on_warning: Box<dyn FnMut(&str)>,
    /// The worker turns.
    pub on_ready: Box<dyn FnMut()>,
    /// A second has passed.
    pub on_second: Box<dyn FnMut(&R)>,
    /// What the control socket answers when it is asked how it is going.
    pub show: Box<dyn FnMut(&R) -> Value>,
}

/// How it went.
#[derive(Debug)]
pub struct FrameOutcome<R> {
    /// 0 done, also after a signal; 3 a port was lost.
    pub code: u8,
    /// The last report.
    pub last: R,
}

enum Command {
    Report,
    Set(Vec<String>),
}

enum Answer<R> {
    Report(R),
    Set(Result<(), String>),
}

/// Who waits for an answer; answers come in the order of the questions.
enum Asker {
    Second,
    Show(ClientId, Value),
    Set(ClientId, Value),
}

type Mailbox<R> = Shared<Command, Answer<R>>;

/// Makes the devices and what must outlive them, on the worker's thread.
pub type MakeDevices<D> =
    Box<dyn FnOnce() -> Result<(Vec<D>, Box<dyn std::any::Any>), String> + Send>;

/// Makes the application, on the worker's thread: what it holds belongs there.
pub type MakeApp<A> = Box<dyn FnOnce() -> A + Send>;

/// Run an application on a worker and be the control thread until a signal, the limit or a lost port ends it.
///
/// # Errors
/// Whatever keeps it from starting, as a sentence for people.
pub fn run<D: 'static, A: FrameApp<D> + 'static>(
    options: &FrameOptions,
    make: MakeDevices<D>,
    make_app: MakeApp<A>,
    hooks: FrameHooks<A::Report>,
) -> Result<FrameOutcome<A::Report>, String> {
    let signals = Signals::install().map_err(|e| format!("cannot handle signals: {e}"))?;
    let socket = ControlSocket::open(&options.instance).map_err(|e| e.to_string())?;
    let shared = Shared::new(MAILBOX, MAILBOX);
    let mine: Arc<Mailbox<A::Report>> = Arc::clone(&shared);
    let (idle, core, time) = (options.idle, options.core, TimeBase::start());
    let worker = thread::Builder::new()
        .name("millrace-w0".to_owned())
        .spawn(move || work(&mine, make, make_app, Idle::new(idle), core, time))
        .map_err(|e| format!("cannot start the worker: {e}"))?;
    let control = Control { shared, socket, hooks, asked: Vec::new(), links: Vec::new() };
    let (code, last) = control.run(&signals, options.limit);
    match worker.join() {
        Ok(Ok(())) => match last {
            Some(last) => Ok(FrameOutcome { code, last }),
            None => Err("the worker does not answer".to_owned()),
        },
        Ok(Err(why)) => Err(why),
        Err(_) => Err("the worker panicked".to_owned()),
    }
}

fn work<D, A: FrameApp<D>>(
    shared: &Mailbox<A::Report>,
    make: MakeDevices<D>,
    make_app: MakeApp<A>,
    mut idle: Idle,
    core: Option<usize>,
    time: TimeBase,
) -> Result<(), String> {
    let _gone = GoneOnDrop(shared);
    if let Some(core) = core
        && !core_affinity::set_for_current(core_affinity::CoreId { id: core })
    {
        return Err(format!("cannot pin to core {core}: not in the set this process may use"));
    }
    // The last to be declared is the first to go: what the application holds belongs to the devices' pools, and
    // they to what the guard keeps alive.
    let (devices, _guard) = make()?;
    let mut devices = devices;
    let mut app = make_app();
    let clock = time.clock();
    let mut turns = 0u64;
    while !shared.shall_quit() {
        let now = clock.now();
        let turn = app.turn(now, &mut devices);
        while let Some(command) = shared.inbox.pop() {
            let answer = match command {
                Command::Report => Answer::Report(app.report(now, &devices)),
                Command::Set(changes) => Answer::Set(app.set(now, &changes)),
            };
            // There are never more questions open than places for answers.
            let pushed = shared.outbox.push(answer);
            debug_assert!(pushed.is_ok());
        }
        turns += 1;
        if turns.is_multiple_of(TURNS_PER_HEARTBEAT) || turn.work == 0 {
            shared.heartbeat.store(turns, Ordering::Relaxed);
        }
        match idle.after(now, &turn) {
            Rest::None => {}
            Rest::Spin => std::hint::spin_loop(),
            Rest::Sleep(d) => thread::sleep(d),
        }
    }
    Ok(())
}

struct Control<R> {
    shared: Arc<Mailbox<R>>,
    socket: ControlSocket,
    hooks: FrameHooks<R>,
    asked: Vec<Asker>,
    links: Vec<LinkState>,
}

impl<R> Control<R> {
    fn run(mut self, signals: &Signals, limit: Option<Duration>) -> (u8, Option<R>) {
        self.links = (self.hooks.links)();
        for link in self.links.iter().filter(|l| !l.up) {
            (self.hooks.on_warning)(&format!("port {} has no link", link.name));
        }
        (self.hooks.on_ready)();
        let begun = Instant::now();
        let mut second = begun;
        let mut code = 0;
        let mut over = false;
        while !over {
            for (client, id, request) in self.socket.poll() {
                over |= self.on_request(client, id, request);
            }
            self.take_answers();
            if second.elapsed() >= SECOND {
                second += SECOND;
                if self.look_at_links() {
                    code = LOST;
                    over = true;
                }
                self.ask(Command::Report, Asker::Second);
            }
            over |= signals.stop_requested()
                || self.shared.is_gone()
                || limit.is_some_and(|limit| begun.elapsed() >= limit);
            if !over {
                thread::park_timeout(ROUND);
            }
        }
        let last = self.last_report();
        self.shared.ask_to_quit();
        (code, last)
    }

    /// False: too many questions are open.
    fn ask(&mut self, command: Command, by: Asker) -> bool {
        let room = self.asked.len() < MAILBOX && self.shared.inbox.push(command).is_ok();
        if room {
            self.asked.push(by);
        }
        room
    }

    fn on_request(&mut self, client: ClientId, id: Value, request: Request) -> bool {
        const BUSY: &str = "too many requests are open";
        let refused = match request {
            Request::WireShow => {
                (!self.ask(Command::Report, Asker::Show(client, id.clone()))).then_some(BUSY)
            }
            Request::WireSet { changes } => {
                (!self.ask(Command::Set(changes), Asker::Set(client, id.clone()))).then_some(BUSY)
            }
            Request::Nstat => {
                let stats = (self.hooks.port_stats)().into_iter();
                let all = stats.map(|(name, value)| (name, json!(value))).collect();
                self.socket.answer(client, &id, Ok(Value::Object(all)));
                None
            }
            Request::Stop => {
                self.socket.answer(client, &id, Ok(Value::Null));
                return true;
            }
            _ => Some("this is a wire: it has no stack, and so no knobs and no connections"),
        };
        if let Some(why) = refused {
            self.socket.answer(client, &id, Err(why.to_owned()));
        }
        false
    }

    fn take_answers(&mut self) -> Option<R> {
        let mut last = None;
        while let Some(answer) = self.shared.outbox.pop() {
            if self.asked.is_empty() {
                break;
            }
            match (self.asked.remove(0), answer) {
                (Asker::Second, Answer::Report(report)) => {
                    (self.hooks.on_second)(&report);
                    last = Some(report);
                }
                (Asker::Show(client, id), Answer::Report(report)) => {
                    let shown = (self.hooks.show)(&report);
                    self.socket.answer(client, &id, Ok(shown));
                }
                (Asker::Set(client, id), Answer::Set(result)) => {
                    self.socket.answer(client, &id, result.map(|()| Value::Null));
                }
                _ => debug_assert!(false, "answers come in the order of the questions"),
            }
        }
        last
    }

    fn last_report(&mut self) -> Option<R> {
        // Whatever was asked before is answered first, and does not count.
        self.hooks.on_second = Box::new(|_| {});
        if !self.ask(Command::Report, Asker::Second) {
            return None;
        }
        let begun = Instant::now();
        let mut last = None;
        while !self.asked.is_empty() && begun.elapsed() < LAST_REPORT && !self.shared.is_gone() {
            last = self.take_answers().or(last);
            thread::park_timeout(Duration::from_millis(1));
        }
        self.take_answers().or(last)
    }

    /// True: a port is lost.
    fn look_at_links(&mut self) -> bool {
        let links = (self.hooks.links)();
        for (before, link) in self.links.iter().zip(&links) {
            if let Some(why) = link.lost.as_ref().filter(|_| before.lost.is_none()) {
                (self.hooks.on_warning)(&format!("{}: {why}", link.name));
            } else if link.up != before.up {
                let state = if link.up { "up" } else { "down" };
                (self.hooks.on_warning)(&format!("{}: link is {state}", link.name));
            }
        }
        self.links = links;
        self.links.iter().any(|link| link.lost.is_some())
    }
}

/// The queues of `ports`, one of each, for [`run`].
#[cfg(feature = "dpdk")]
pub fn devices_of(mut ports: Vec<crate::ports::OpenPort>) -> MakeDevices<dpdk::PortQueue> {
    Box::new(move || {
        let first = ports.first().ok_or("there is no port")?;
        let registration = first.register()?;
        let queues: Vec<_> = ports.iter_mut().filter_map(|port| port.queues.pop()).collect();
        // The ports carry what keeps the environment alive.
        let guard: Box<dyn std::any::Any> = Box::new((registration, ports));
        Ok((queues, guard))
    })
}
