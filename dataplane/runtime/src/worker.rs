//! A pinned thread that builds its stack and turns it until it is told to leave.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

use base::{Clock, Device, SeededRandom};
use stack::{App, Command, Outgoing, Stack, StackConfig, StackParams};

use crate::clock::TimeBase;
use crate::idle::{Idle, IdlePolicy, Rest};
use crate::mailbox::{GoneOnDrop, Inbox};

/// What a worker is made of, made on its own thread.
pub struct WorkerParts<D> {
    /// A queue pair of each port, in the order of the ports; they share their buffers.
    pub devices: Vec<D>,
    /// The application.
    pub app: Box<dyn App>,
    /// Lives as long as the thread and is dropped after the devices: its registration with the device
    /// layer, say.
    pub guard: Box<dyn Any>,
}

/// Makes the parts, on the worker's thread after it was pinned; a refusal is a sentence for people.
pub type MakeParts<D> = Box<dyn FnOnce() -> Result<WorkerParts<D>, String> + Send>;

/// Everything that moves into one worker.
pub struct WorkerSetup<D> {
    /// Core to be pinned to; `None`: wherever the scheduler puts it.
    pub core: Option<usize>,
    /// Addresses, limits and so on.
    pub config: StackConfig,
    /// See [`MakeParts`].
    pub make: MakeParts<D>,
}

/// Commands that wait for one worker at most.
const INBOX_COMMANDS: usize = 1024;
/// Results of one worker that wait for the control thread at most.
const OUTBOX_RESULTS: usize = 4096;

/// The mailboxes of one worker.
pub(crate) type Shared = crate::mailbox::Shared<Command, Outgoing>;

/// Mailboxes for `workers` workers.
pub(crate) fn mailboxes(workers: usize) -> Vec<Arc<Shared>> {
    (0..workers).map(|_| Shared::new(INBOX_COMMANDS, OUTBOX_RESULTS)).collect()
}

/// The watchdog needs no finer heartbeat than this many turns.
const TURNS_PER_HEARTBEAT: u64 = 256;

pub(crate) struct WorkerHandle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) thread: JoinHandle<Result<(), String>>,
}

pub(crate) fn spawn<D: Device + 'static>(
    index: usize,
    setup: WorkerSetup<D>,
    time: TimeBase,
    idle: IdlePolicy,
    params: Arc<StackParams>,
    inboxes: Vec<Arc<Shared>>,
) -> std::io::Result<WorkerHandle> {
    let shared = Arc::clone(&inboxes[index]);
    let mine = Arc::clone(&shared);
    let thread = thread::Builder::new()
        .name(format!("millrace-w{index}"))
        .spawn(move || run(setup, time, idle, params, &mine, &inboxes))?;
    Ok(WorkerHandle { shared, thread })
}

fn run<D: Device>(
    setup: WorkerSetup<D>,
    time: TimeBase,
    idle: IdlePolicy,
    params: Arc<StackParams>,
    shared: &Shared,
    inboxes: &[Arc<Shared>],
) -> Result<(), String> {
    let _gone = GoneOnDrop(shared);
    if let Some(core) = setup.core
        && !core_affinity::set_for_current(core_affinity::CoreId { id: core })
    {
        return Err(format!("cannot pin to core {core}: not in the set this process may use"));
    }
    // Declared before the stack, so that it is dropped after it.
    let WorkerParts { devices, app, guard: _guard } = (setup.make)()?;
    let worker = setup.config.worker;
    let mut stack = Stack::new(setup.config, params, devices, seed_from_system()?, app);
    let mut idle = Idle::new(idle);
    let clock = time.clock();
    let mut turns = 0u64;

    while !shared.shall_quit() {
        let now = clock.now();
        let turn = stack.turn(now, &mut Inbox(&shared.inbox), &mut |out| match out {
            Outgoing::ToWorker(to, message) => match inboxes.get(usize::from(to.0)) {
                Some(other) => other
                    .inbox
                    .push(Command::Message { from: Some(worker), message })
                    .map_err(|back| match back {
                        Command::Message { message, .. } => Outgoing::ToWorker(to, message),
                        _ => unreachable!("a mailbox gives back what it was given"),
                    }),
                None => Ok(()),
            },
            out => shared.outbox.push(out),
        });
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

/// Seeds from the operating system's generator: two independent ones, because visible and secret
/// bits must not be related.
fn seed_from_system() -> Result<SeededRandom, String> {
    let mut bytes = [0u8; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut f| std::io::Read::read_exact(&mut f, &mut bytes))
        .map_err(|e| format!("cannot read /dev/urandom: {e}"))?;
    let half =
        |r: std::ops::Range<usize>| bytes[r].iter().fold(0u64, |acc, b| (acc << 8) | u64::from(*b));
    Ok(SeededRandom::from_seeds(half(0..8), half(8..16)))
}
