//! `millrace sim run`: scenarios over their seeds and variants.

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use clap::Args;
use sim::Failure;
use sim::scenario::{
    self, FILE_MAX_BYTES, Order, Outcome as Verdict, Run, SAMPLES, SERIES_FLOWS_MAX, Scenario,
};

use super::progress::Progress;
use super::{json, plot, text};
use crate::fault::{ENVIRONMENT, FAILED, Fault, Outcome, USAGE};
use crate::output;

/// Folders in folders that are searched.
const DEPTH_MAX: usize = 32;
/// Values that all series of all runs together keep.
const VALUES_MAX: usize = 8_000_000;
/// Series of a flow.
const SERIES_PER_FLOW: usize = 8;

/// What `--help` says at its end.
const HELP: &str = "\
The language of scenarios is described in docs/simulator.md, the document of --json in docs/sim-json.md. The same seed \
gives the same run, whatever --jobs is.

Exit status: 0 all expectations hold, 1 one does not or a run broke off, 2 a file is wrong (nothing was run) or wrong \
usage, 3 a scenario needs what does not exist here (it was not run). Of several: 2 before 1 before 3.";

/// Run scenarios and check what they expect
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(super) struct RunArgs {
    /// Scenario files, or folders whose .toml files are run
    #[arg(value_name = "SCENARIO", required = true)]
    scenarios: Vec<PathBuf>,
    /// Seeds instead of those of the files: 1..10 (both included), 7, or 1,5,9
    #[arg(long, value_name = "SEEDS")]
    seeds: Option<String>,
    /// Only this variant
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// One JSON document
    #[arg(long)]
    json: bool,
    /// Draw the first seed of each variant (one scenario)
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Write all packets, each once where it was sent (one scenario, seed and variant)
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Runs at once; without it one per core
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
}

/// A scenario with all that is known of it.
pub(super) struct Report {
    pub(super) scenario: Scenario,
    pub(super) seeds: Vec<u64>,
    /// In the order of variants, then of seeds; those that broke off are missing.
    pub(super) runs: Vec<Run>,
    pub(super) broken: Vec<Broken>,
    pub(super) verdicts: Vec<scenario::Verdict>,
}

/// A run in which an oracle found something.
pub(super) struct Broken {
    pub(super) seed: u64,
    pub(super) variant: Option<usize>,
    pub(super) failure: Box<Failure>,
}

impl Report {
    pub(super) fn passed(&self) -> bool {
        self.broken.is_empty() && !self.verdicts.iter().any(|v| v.outcome == Verdict::Fail)
    }
}

pub(super) fn run(args: &RunArgs) -> Outcome {
    let mut files = Vec::new();
    for path in &args.scenarios {
        find(path, &mut files, 0)?;
    }
    if files.is_empty() {
        return Err(Fault::usage("no .toml file in these folders"));
    }
    let scenarios = files.iter().map(|f| parse(f)).collect::<Result<Vec<Scenario>, Fault>>()?;
    let mut code = 0;
    let (can, cannot): (Vec<Scenario>, Vec<Scenario>) =
        scenarios.into_iter().partition(|s| s.unsupported.is_empty());
    for fault in cannot.iter().flat_map(|s| &s.unsupported) {
        eprintln!("millrace: not supported: {fault}");
        code = ENVIRONMENT;
    }
    let orders = can.iter().map(|s| orders(s, args)).collect::<Result<Vec<_>, Fault>>()?;
    check_usage(args, files.len(), &orders)?;
    let reports = run_all(can, orders, args)?;
    if let Some(path) = &args.pcap {
        let run = reports.iter().flat_map(|r| &r.runs).next();
        write(path, run.and_then(|r| r.pcap.as_deref()).unwrap_or_default())?;
    }
    if let (Some(path), Some(report)) = (&args.plot, reports.first()) {
        write(path, plot::svg(report)?.as_bytes())?;
    }
    output::print(&if args.json { json::document(&reports) } else { text::people(&reports) })?;
    if reports.iter().any(|r| !r.passed()) {
        code = FAILED;
    }
    Ok(code)
}

fn check_usage(args: &RunArgs, files: usize, orders: &[Vec<Order>]) -> Result<(), Fault> {
    let runs: usize = orders.iter().map(Vec::len).sum();
    if args.pcap.is_some() && (files != 1 || runs > 1) {
        return Err(Fault::usage("--pcap takes one scenario with one seed and one variant")
            .help("add --seeds 1, and --variant NAME if there are variants"));
    }
    if args.plot.is_some() && files != 1 {
        return Err(Fault::usage("--plot takes one scenario"));
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Fault> {
    fs::write(path, bytes)
        .map_err(|e| Fault::new(FAILED, format!("cannot write {}: {e}", path.display())))
}

fn parse(path: &Path) -> Result<Scenario, Fault> {
    let cannot = |why: String| Fault::usage(format!("cannot read {}: {why}", path.display()));
    let size = fs::metadata(path).map_err(|e| cannot(e.to_string()))?.len();
    if size > FILE_MAX_BYTES as u64 {
        return Err(cannot(format!("longer than {FILE_MAX_BYTES} bytes")));
    }
    let bytes = fs::read(path).map_err(|e| cannot(e.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| cannot("not UTF-8 text".into()))?;
    Scenario::parse(&path.display().to_string(), &text)
        .map_err(|fault| Fault::new(USAGE, fault.to_string()))
}

/// Scenarios below a folder, sorted by name; a file is taken as it is.
fn find(path: &Path, files: &mut Vec<PathBuf>, depth: usize) -> Result<(), Fault> {
    let failed = |e| Fault::usage(format!("cannot read {}: {e}", path.display()));
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    if depth > DEPTH_MAX {
        return Err(Fault::usage(format!("too many folders in folders: {}", path.display())));
    }
    let mut entries = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        entries.push(entry.map_err(failed)?.path());
    }
    entries.sort();
    for entry in entries {
        if entry.is_dir() || entry.extension().is_some_and(|ext| ext == "toml") {
            find(&entry, files, depth + 1)?;
        }
    }
    Ok(())
}

/// The runs of a scenario.
fn orders(scenario: &Scenario, args: &RunArgs) -> Result<Vec<Order>, Fault> {
    let seeds = seeds(scenario, args)?;
    let variants = match &args.variant {
        None => scenario.variant_indices(),
        Some(name) => {
            let index = scenario.variants.iter().position(|v| v.name == *name);
            let names: Vec<&str> = scenario.variants.iter().map(|v| v.name.as_str()).collect();
            vec![Some(index.ok_or_else(|| {
                Fault::usage(format!("{}: there is no variant {name}", scenario.file)).help(
                    if names.is_empty() {
                        "there are none".to_owned()
                    } else {
                        format!("there are: {}", names.join(", "))
                    },
                )
            })?)]
        }
    };
    // Without anybody who looks at them, series need not be fine.
    let runs = (seeds.len() * variants.len()).max(1);
    let flows = scenario.flows().count().clamp(1, SERIES_FLOWS_MAX);
    let samples = if args.json || args.plot.is_some() {
        (VALUES_MAX / (runs * flows * SERIES_PER_FLOW)).clamp(SAMPLES[1], SAMPLES[0])
    } else {
        SAMPLES[1]
    };
    let capture = args.pcap.is_some();
    let order = |variant| move |seed: &u64| Order { seed: *seed, variant, capture, samples };
    Ok(variants.into_iter().flat_map(|v| seeds.iter().map(order(v))).collect())
}

fn seeds(scenario: &Scenario, args: &RunArgs) -> Result<Vec<u64>, Fault> {
    match &args.seeds {
        None => Ok(scenario.seeds.clone()),
        Some(text) => scenario::seeds(text).map_err(|why| Fault::usage(format!("--seeds: {why}"))),
    }
}

/// All runs of all scenarios. Each is its own world, so any number may run at once.
fn run_all(
    scenarios: Vec<Scenario>,
    orders: Vec<Vec<Order>>,
    args: &RunArgs,
) -> Result<Vec<Report>, Fault> {
    let jobs: Vec<(usize, Order)> = orders
        .iter()
        .enumerate()
        .flat_map(|(s, orders)| orders.iter().map(move |order| (s, *order)))
        .collect();
    let threads = args.jobs.or_else(|| thread::available_parallelism().ok());
    let threads = threads.map_or(1, NonZero::get).min(jobs.len());
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    let mut done = Vec::with_capacity(jobs.len());
    thread::scope(|scope| {
        for _ in 0..threads {
            let (sender, next, jobs, scenarios) = (sender.clone(), &next, &jobs, &scenarios);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some((s, order)) = jobs.get(index) else { break };
                    let Some(scenario) = scenarios.get(*s) else { break };
                    let outcome = scenario::run(scenario, *order);
                    if sender.send((index, outcome)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut progress = Progress::new(jobs.len());
        loop {
            match receiver.recv_timeout(Duration::from_millis(250)) {
                Ok(one) => {
                    done.push(one);
                    progress.step();
                }
                Err(RecvTimeoutError::Timeout) => progress.tell(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        progress.finish();
    });
    done.sort_by_key(|(index, _)| *index);
    let mut reports = Vec::new();
    for scenario in scenarios {
        let seeds = seeds(&scenario, args)?;
        let (runs, broken, verdicts) = (Vec::new(), Vec::new(), Vec::new());
        reports.push(Report { scenario, seeds, runs, broken, verdicts });
    }
    for (index, outcome) in done {
        let Some((s, order)) = jobs.get(index) else { continue };
        let Some(report) = reports.get_mut(*s) else { continue };
        match outcome {
            Ok(run) => report.runs.push(run),
            Err(failure) => {
                let (seed, variant) = (order.seed, order.variant);
                report.broken.push(Broken { seed, variant, failure });
            }
        }
    }
    for report in &mut reports {
        report.verdicts = scenario::evaluate(&report.scenario, &report.seeds, &report.runs);
    }
    Ok(reports)
}
