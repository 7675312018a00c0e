//! Two complete stacks in memory on one core: ours and smoltcp's through the same harness.
//!
//! ```text
//! engine                                   bulk at MTU 1500, both stacks, checksums on and off
//! engine --rr                              64-byte requests and responses
//! engine --instructions --stack millrace   instructions per segment, by function (callgrind)
//! ```
//!
//! Runs alternate between the stacks; the state of the machine stands beside each repeat.

#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use benches::callgrind::Profile;
use benches::engine::{self, Outcome, Setup, Until};
use benches::probe::{ForeignTime, State};
use clap::{Parser, ValueEnum};
use serde_json::{Value, json};

/// A repeat with more than this of a core used by others says nothing.
const FOREIGN_CORES_MAX: f64 = 0.1;
/// A core that does less than this share of the best one seen is shared with a neighbour.
const SHARED_BELOW: f64 = 0.8;
/// Functions listed with `--instructions`.
const FUNCTIONS: usize = 25;

/// Two complete stacks in memory on one core, next to smoltcp in the same harness.
#[derive(Parser)]
struct Args {
    /// Whose stacks.
    #[arg(long, value_enum, default_value_t = Stacks::Both)]
    stack: Stacks,
    /// Largest IP packet in bytes; several separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "1500", value_parser = clap::value_parser!(u16).range(576..))]
    mtu: Vec<u16>,
    /// Software checksums on both sides, or none.
    #[arg(long, value_enum, default_value_t = Checksums::Both)]
    checksums: Checksums,
    /// Send and receive buffer in bytes; several separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "65536,524288")]
    buffer: Vec<u32>,
    /// 64-byte requests and responses instead of bulk.
    #[arg(long)]
    rr: bool,
    /// Length of a run.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// End a run after so many segments (or round trips) if that is earlier.
    #[arg(long)]
    segments: Option<u64>,
    /// Runs of each kind.
    #[arg(long, default_value_t = 5)]
    repeats: u32,
    /// Count instructions under valgrind instead of time.
    #[arg(long)]
    instructions: bool,
    /// Write everything measured to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// What joins the stacks.
    #[arg(long, value_enum, default_value_t = Joint::Memory)]
    device: Joint,
    /// One run, silently: what is run under valgrind.
    #[arg(long, hide = true)]
    once: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stacks {
    Millrace,
    Smoltcp,
    Both,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Checksums {
    On,
    Off,
    Both,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Joint {
    /// Buffers on the heap.
    Memory,
}

impl Args {
    fn setups(&self) -> Vec<Setup> {
        let mut setups = Vec::new();
        for &mtu in &self.mtu {
            for checksums in [true, false] {
                let wanted = if checksums { Checksums::On } else { Checksums::Off };
                if self.checksums != wanted && self.checksums != Checksums::Both {
                    continue;
                }
                // What a request needs fits any buffer.
                let buffers = if self.rr { &self.buffer[..1] } else { &self.buffer };
                for &buffer in buffers {
                    setups.push(Setup { mtu, checksums, buffer, rr: self.rr });
                }
            }
        }
        setups
    }

    /// `smoltcp` of each kind of stack.
    fn stacks(&self) -> &'static [bool] {
        match self.stack {
            Stacks::Millrace => &[false],
            Stacks::Smoltcp => &[true],
            Stacks::Both => &[false, true],
        }
    }

    fn run(&self, smoltcp: bool, setup: &Setup) -> Result<Outcome, String> {
        let until = Until {
            elapsed: Duration::try_from_secs_f64(self.seconds).map_err(|e| e.to_string())?,
            bytes: self.segments.map_or(u64::MAX, |n| setup.bytes_for(n)),
        };
        let mut pair = match self.device {
            Joint::Memory => {
                let (a, b) = setup.memory();
                engine::pair(smoltcp, setup, a, b)
            }
        };
        engine::run(&mut *pair, until)
    }
}

const fn name(smoltcp: bool) -> &'static str {
    if smoltcp { "smoltcp" } else { "millrace" }
}

fn describe(setup: &Setup) -> String {
    let checksums = if setup.checksums { "on" } else { "off" };
    let buffer = setup.buffer / 1024;
    let what = if setup.rr { "64 B requests" } else { "bulk" };
    format!("{what}, MTU {}, checksums {checksums}, buffers {buffer} KiB", setup.mtu)
}

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = if args.once {
        once(&args)
    } else if args.instructions {
        instructions(&args)
    } else {
        time(&args)
    };
    let written = outcome.and_then(|value| match &args.json {
        Some(file) => std::fs::write(file, format!("{value:#}\n"))
            .map_err(|e| format!("{}: {e}", file.display())),
        None => Ok(()),
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("engine: {e}");
            ExitCode::FAILURE
        }
    }
}

fn once(args: &Args) -> Result<Value, String> {
    for setup in args.setups() {
        for &smoltcp in args.stacks() {
            args.run(smoltcp, &setup)?;
        }
    }
    Ok(Value::Null)
}

/// One repeat: a run of each stack between two probes.
struct Repeat {
    /// In the order of [`Args::stacks`].
    figures: Vec<f64>,
    before: State,
    after: State,
    foreign: Option<f64>,
}

impl Repeat {
    fn operations(&self) -> f64 {
        self.before.operations_per_ns.min(self.after.operations_per_ns)
    }

    /// Distance between cores does not matter to one core; a neighbour on it does.
    fn counts(&self, best: f64) -> bool {
        self.operations() >= SHARED_BELOW * best && self.foreign.unwrap_or(0.0) <= FOREIGN_CORES_MAX
    }
}

fn time(args: &Args) -> Result<Value, String> {
    let mut all = Vec::new();
    let mut rows = String::new();
    let unit = if args.rr { "ns per round trip" } else { "Gbit/s" };
    // A core cannot do more than its best moment; what is far below that is shared.
    let mut best = State::probe().operations_per_ns;
    for setup in args.setups() {
        eprintln!("{}, {unit}", describe(&setup));
        let mut repeats = Vec::new();
        for i in 0..args.repeats.max(1) {
            let (foreign, before) = (ForeignTime::start(), State::probe());
            let mut figures = Vec::new();
            for &smoltcp in args.stacks() {
                let outcome = args.run(smoltcp, &setup)?;
                figures.push(if args.rr { outcome.round_trip_ns() } else { outcome.gbit() });
            }
            let repeat =
                Repeat { figures, before, after: State::probe(), foreign: foreign.cores() };
            best = best.max(repeat.before.operations_per_ns).max(repeat.after.operations_per_ns);
            let mut line = format!("  {}:", i + 1);
            for (&smoltcp, figure) in args.stacks().iter().zip(&repeat.figures) {
                let _ = write!(line, " {} {figure:.1}", name(smoltcp));
            }
            let foreign = repeat.foreign.map_or_else(|| "?".to_owned(), |f| format!("{f:.2}"));
            eprintln!("{line} | {before} | {} | others {foreign} cores", repeat.after);
            repeats.push(repeat);
        }
        let (row, value) = summary(args, &setup, &repeats, best);
        rows.push_str(&row);
        all.push(value);
    }
    let heads: Vec<_> = args.stacks().iter().map(|&s| name(s)).collect();
    println!("| {unit}, median (min-max) | {} | ratio | repeats that count |", heads.join(" | "));
    println!("|---|{}", "---|".repeat(heads.len() + 2));
    print!("{rows}");
    Ok(Value::Array(all))
}

fn summary(args: &Args, setup: &Setup, repeats: &[Repeat], best: f64) -> (String, Value) {
    let good: Vec<_> = repeats.iter().filter(|r| r.counts(best)).collect();
    // Nothing that counts is shown as nothing.
    let mut row = format!("| {} |", describe(setup));
    let mut medians = Vec::new();
    let mut value = json!({
        "setup": describe(setup), "mtu": setup.mtu, "checksums": setup.checksums,
        "buffer": setup.buffer, "rr": setup.rr, "mss": setup.mss(),
        "unit": if setup.rr { "ns" } else { "gbit/s" }, "best_operations_per_ns": best,
    });
    let states = |of: fn(&Repeat) -> State| -> Vec<_> {
        repeats.iter().map(|r| of(r).to_string()).collect()
    };
    value["before"] = json!(states(|r| r.before));
    value["after"] = json!(states(|r| r.after));
    value["foreign_cores"] = json!(repeats.iter().map(|r| r.foreign).collect::<Vec<_>>());
    value["counts"] = json!(repeats.iter().map(|r| r.counts(best)).collect::<Vec<_>>());
    for (i, &smoltcp) in args.stacks().iter().enumerate() {
        value[name(smoltcp)] = json!(repeats.iter().map(|r| r.figures[i]).collect::<Vec<_>>());
        let mut figures: Vec<_> = good.iter().map(|r| r.figures[i]).collect();
        figures.sort_by(f64::total_cmp);
        match (figures.first(), figures.last()) {
            (Some(min), Some(max)) => {
                let median = median(&figures);
                let _ = write!(row, " {median:.1} ({min:.1}-{max:.1}) |");
                medians.push(median);
            }
            _ => row.push_str(" - |"),
        }
    }
    match medians.as_slice() {
        // Above one is better than the peer, for rates and for times.
        [ours, peer] => {
            let ratio = if setup.rr { peer / ours } else { ours / peer };
            value["ratio"] = json!(ratio);
            let _ = write!(row, " {ratio:.2} |");
        }
        _ => row.push_str(" - |"),
    }
    let _ = writeln!(row, " {} of {} |", good.len(), repeats.len());
    (row, value)
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        (sorted[middle - 1] + sorted[middle]) / 2.0
    } else {
        sorted[middle]
    }
}

fn instructions(args: &Args) -> Result<Value, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let units = args.segments.unwrap_or(20_000);
    let unit = if args.rr { "round trip" } else { "segment" };
    let mut all = Vec::new();
    for setup in args.setups() {
        for &smoltcp in args.stacks() {
            let profile = |segments: u64| {
                let mut run: Vec<String> = ["--once", "--seconds", "600", "--stack", name(smoltcp)]
                    .map(str::to_owned)
                    .to_vec();
                let checksums = if setup.checksums { "on" } else { "off" };
                run.extend([format!("--checksums={checksums}"), format!("--mtu={}", setup.mtu)]);
                run.extend([
                    format!("--buffer={}", setup.buffer),
                    format!("--segments={segments}"),
                ]);
                run.extend(setup.rr.then(|| "--rr".to_owned()));
                Profile::record(&program, &run).map_err(|e| e.to_string())
            };
            let (short, long) = (profile(units)?, profile(2 * units)?);
            let total = (long.total() as f64 - short.total() as f64) / units as f64;
            println!("{}, {}: {total:.0} instructions per {unit}", name(smoltcp), describe(&setup));
            let functions = long.per_unit(&short, units);
            for (function, cost) in functions.iter().take(FUNCTIONS) {
                println!("  {cost:8.1} {:5.1} %  {function}", 100.0 * cost / total);
            }
            all.push(json!({
                "stack": name(smoltcp), "setup": describe(&setup), "unit": unit,
                "instructions": total, "functions": functions,
            }));
        }
    }
    Ok(Value::Array(all))
}
