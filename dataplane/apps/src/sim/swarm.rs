//! `millrace sim swarm`: drawn worlds with all oracles.

use std::cell::Cell;
use std::fmt::Write as _;
use std::fs;
use std::num::NonZero;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use serde_json::{Value, json};
use sim::sabotage::Sabotage;
use sim::swarm::{Draw, Watch, Witness};

use super::progress::Progress;
use crate::fault::{FAILED, Fault, Outcome};
use crate::output;

/// Name and version of the document, docs/sim-json.md.
const SCHEMA: &str = "millrace-swarm/1";
/// Worlds that failed of which more than the seed is shown.
const SHOWN_MAX: usize = 3;

/// What `--help` says at its end.
const HELP: &str = "\
A seed draws a path, its faults, two hosts with their knobs, and what is transferred; every byte is checked, and so are offered windows, \
timers, buffers and that everything ends once faults have stopped. Each world runs twice: the same seed must give the same \
trace. A seed that fails names the command that replays it.

Exit status: 0 all worlds hold, 1 one does not, 2 wrong usage.";

/// Worlds drawn from seeds, with every oracle
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(super) struct SwarmArgs {
    /// How many worlds
    #[arg(long, value_name = "N", default_value_t = 100, conflicts_with = "seed")]
    seeds: u64,
    /// The first seed; without it another one each time
    #[arg(long, value_name = "SEED", conflicts_with = "seed")]
    first: Option<u64>,
    /// Only this world, told in full: how it was drawn, and all its frames
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// With --seed: write its frames, each once where it was sent
    #[arg(long, value_name = "FILE", requires = "seed")]
    pcap: Option<PathBuf>,
    /// Give the client a deliberate fault, which has to be noticed: wrong-byte, wrong-number, early-ack, shrunk-window,
    /// beyond-window, forgotten-timer, kept-buffer, swallowed-fin, stray-reset, other-dice
    #[arg(long, value_name = "FAULT")]
    sabotage: Option<Sabotage>,
    /// One JSON document
    #[arg(long)]
    json: bool,
    /// Worlds at once; without it one per core
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
}

thread_local! {
    /// The world that this thread runs.
    static RUNNING: Cell<Option<u64>> = const { Cell::new(None) };
}

pub(super) fn run(args: &SwarmArgs) -> Outcome {
    name_the_seed_in_panics(args.sabotage);
    if let Some(seed) = args.seed {
        return replay(args, seed);
    }
    let first = args.first.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Far from those that are always run.
        (now.as_secs() << 20) | u64::from(now.subsec_micros())
    });
    let Some(end) = first.checked_add(args.seeds) else {
        return Err(Fault::usage("sim swarm: there are no so many seeds behind --first"));
    };
    let found = search(first..end, args);
    let failed: Vec<&Witness> = found.iter().filter(|w| w.failure.is_some()).collect();
    if args.json {
        output::print(&format!("{:#}\n", document(first, args, &found)))?;
    } else {
        let mut text = String::new();
        for witness in failed.iter().take(SHOWN_MAX) {
            let _ = writeln!(text, "{}\n", witness.failure.as_deref().unwrap_or_default());
        }
        for witness in &failed {
            let _ = writeln!(text, "FAIL  replay: {}", command(witness.seed, args.sabotage));
        }
        let flows: u64 = found.iter().map(|w| u64::from(w.flows)).sum();
        let seconds: f64 = found.iter().map(|w| w.seconds).sum();
        let _ = writeln!(
            text,
            "{} worlds from seed {first} on, {flows} connections, {seconds:.0} simulated seconds: {} failed",
            found.len(),
            failed.len()
        );
        output::print(&text)?;
    }
    Ok(if failed.is_empty() { 0 } else { FAILED })
}

fn command(seed: u64, sabotage: Option<Sabotage>) -> String {
    let fault = sabotage.map(|fault| format!(" --sabotage {fault}")).unwrap_or_default();
    format!("millrace sim swarm --seed {seed}{fault}")
}

/// A broken invariant may end the process at once: the seed must have been said by then.
fn name_the_seed_in_panics(sabotage: Option<Sabotage>) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let earlier = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            earlier(info);
            if let Some(seed) = RUNNING.get() {
                eprintln!("replay: {}", command(seed, sabotage));
            }
        }));
    });
}

/// Run one world; a panic in it is a failure like others, where it can be caught.
fn witness(seed: u64, sabotage: Option<Sabotage>, watch: Watch) -> Witness {
    RUNNING.set(Some(seed));
    let run = || Draw::new(seed).sabotaged(sabotage).witness(watch);
    let found = panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let what = panic.downcast_ref::<String>().map(String::as_str);
        let what = what.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?");
        Witness::panicked(seed, what)
    });
    RUNNING.set(None);
    found
}

fn search(seeds: std::ops::Range<u64>, args: &SwarmArgs) -> Vec<Witness> {
    let threads =
        args.jobs.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZero::get);
    let all = usize::try_from(args.seeds).unwrap_or(usize::MAX);
    let next = AtomicU64::new(seeds.start);
    let (sender, receiver) = mpsc::channel();
    let mut found = Vec::new();
    thread::scope(|scope| {
        for _ in 0..threads.min(all) {
            let (sender, next, end) = (sender.clone(), &next, seeds.end);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end
                        || sender.send(witness(seed, args.sabotage, Watch::Twice)).is_err()
                    {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut progress = Progress::new(all);
        loop {
            match receiver.recv_timeout(Duration::from_millis(250)) {
                Ok(one) => {
                    found.push(one);
                    progress.step();
                }
                Err(RecvTimeoutError::Timeout) => progress.tell(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        progress.finish();
    });
    found.sort_by_key(|w| w.seed);
    found
}

/// One world in full.
fn replay(args: &SwarmArgs, seed: u64) -> Outcome {
    let watch = if args.pcap.is_some() { Watch::Capture } else { Watch::Trace };
    let found = witness(seed, args.sabotage, watch);
    if let (Some(path), Some(bytes)) = (&args.pcap, &found.pcap) {
        fs::write(path, bytes)
            .map_err(|e| Fault::new(FAILED, format!("cannot write {}: {e}", path.display())))?;
    }
    let failed = found.failure.is_some();
    if args.json {
        let found = [found];
        output::print(&format!("{:#}\n", document(seed, args, &found)))?;
    } else {
        let mut text = format!("{}\n", Draw::new(seed).sabotaged(args.sabotage));
        if let Some(lines) = &found.lines {
            lines.iter().for_each(|line| text.push_str(&format!("{line}\n")));
        }
        match &found.failure {
            Some(failure) => text.push_str(&format!("{failure}\n")),
            None => {
                text.push_str(&format!("seed {seed}: all oracles hold, trace {}\n", found.trace))
            }
        }
        output::print(&text)?;
    }
    Ok(if failed { FAILED } else { 0 })
}

fn document(first: u64, args: &SwarmArgs, found: &[Witness]) -> Value {
    let failed: Vec<Value> = found
        .iter()
        .filter_map(|w| {
            let failure = w.failure.as_deref()?;
            Some(json!({
                "seed": w.seed,
                "oracle": w.oracle,
                "failure": failure.lines().last().unwrap_or_default(),
                "replay": command(w.seed, args.sabotage),
            }))
        })
        .collect();
    json!({
        "schema": SCHEMA,
        "version": concat!("millrace ", env!("CARGO_PKG_VERSION")),
        "first_seed": first,
        "worlds": found.len(),
        "connections": found.iter().map(|w| u64::from(w.flows)).sum::<u64>(),
        "simulated_seconds": found.iter().map(|w| w.seconds).sum::<f64>(),
        "sabotage": args.sabotage.map(|fault| fault.to_string()),
        "passed": failed.is_empty(),
        "failed": failed,
        "traces": found.iter().map(|w| json!([w.seed, w.trace])).collect::<Vec<_>>(),
    })
}
