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

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use benches::callgrind::Profile;
use benches::engine::{self, Outcome, Setup, Until};
use benches::repeats::{Cores, Figures, Series};
use clap::{Parser, ValueEnum};
use serde_json::{Value, json};

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
    /// Repeats of each kind that count.
    #[arg(long, default_value_t = 5)]
    repeats: usize,
    /// Repeats of each kind in all, those that do not count included.
    #[arg(long, default_value_t = 10)]
    at_most: usize,
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

fn time(args: &Args) -> Result<Value, String> {
    let mut all = Vec::new();
    for setup in args.setups() {
        let mut series = Series::new(describe(&setup), Cores::One);
        series.repeat(args.repeats, args.at_most.max(args.repeats), || measure(args, &setup))?;
        println!("{}", series.table());
        let mut value = series.json();
        value["setup"] = json!({
            "mtu": setup.mtu, "checksums": setup.checksums, "buffer": setup.buffer,
            "rr": setup.rr, "mss": setup.mss(),
        });
        all.push(value);
    }
    Ok(Value::Array(all))
}

/// A run of each stack.
fn measure(args: &Args, setup: &Setup) -> Result<Figures, String> {
    let mut figures = Figures::new();
    let mut values = Vec::new();
    for &smoltcp in args.stacks() {
        let outcome = args.run(smoltcp, setup)?;
        let value = if args.rr { outcome.round_trip_ns() } else { outcome.gbit() };
        let unit = if args.rr { "ns" } else { "Gbit/s" };
        figures.push((format!("{}, {unit}", name(smoltcp)), value));
        values.push(value);
    }
    // Above one is better than the peer, for rates and for times.
    if let [ours, peer] = *values {
        figures.push(("ratio".to_owned(), if args.rr { peer / ours } else { ours / peer }));
    }
    Ok(figures)
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
