//! How fast the simulator is: simulated seconds of a connection per real second on one core.
//!
//! ```text
//! sim                     one flow of 10 Mbit/s over 40 ms, clean and with 1 % loss; eight flows at once
//! ```

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use benches::repeats::{Cores, Series};
use clap::Parser;
use serde_json::{Value, json};
use sim::scenario::{self, Order, SAMPLES, Scenario};

/// How fast the simulator is.
#[derive(Parser)]
struct Args {
    /// Virtual seconds of a run.
    #[arg(long, default_value_t = 120)]
    seconds: u32,
    /// Repeats of each kind that count.
    #[arg(long, default_value_t = 5)]
    repeats: usize,
    /// Repeats of each kind in all, those that do not count included.
    #[arg(long, default_value_t = 10)]
    at_most: usize,
    /// Write everything measured to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Flows of 10 Mbit/s each over 20 ms there and back; `more` are keys of the link.
fn scenario(seconds: u32, flows: u32, more: &str) -> Result<Scenario, String> {
    let mut text = format!(
        "name = \"speed\"\nduration = \"{seconds}s\"\n[host.a]\n[host.b]\n[[link]]\nbetween = [\"a\", \"b\"]\n\
         rate = \"{}Mbit\"\ndelay = \"20ms\"\nqueue = \"{}KiB\"\n{more}\n",
        10 * flows,
        64 * flows
    );
    for flow in 0..flows {
        text +=
            &format!("[[app]]\nname = \"f{flow}\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n");
    }
    Scenario::parse("speed", &text).map_err(|fault| fault.to_string())
}

fn main() -> ExitCode {
    let args = Args::parse();
    let written = measure(&args).and_then(|value| match &args.json {
        Some(file) => std::fs::write(file, format!("{value:#}\n"))
            .map_err(|e| format!("{}: {e}", file.display())),
        None => Ok(()),
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("sim: {e}");
            ExitCode::FAILURE
        }
    }
}

fn measure(args: &Args) -> Result<Value, String> {
    let mut all = Vec::new();
    for (title, flows, more) in [
        ("one flow of 10 Mbit/s", 1, ""),
        ("one flow of 10 Mbit/s, 1 % loss", 1, "loss = \"1%\""),
        ("eight flows of 10 Mbit/s", 8, ""),
    ] {
        let scenario = scenario(args.seconds, flows, more)?;
        let mut series = Series::new(title, Cores::One);
        series.repeat(args.repeats, args.at_most.max(args.repeats), || {
            let order = Order { seed: 1, variant: None, capture: false, samples: SAMPLES[1] };
            let begun = Instant::now();
            let run = scenario::run(&scenario, order).map_err(|failure| failure.to_string())?;
            let real = begun.elapsed().as_secs_f64();
            let bytes: u64 = run.last.flows.iter().map(|flow| flow.bytes).sum();
            let simulated = f64::from(args.seconds) * f64::from(flows);
            Ok(vec![
                ("connection-seconds per second".to_owned(), simulated / real),
                ("Mbit/s simulated".to_owned(), bytes as f64 * 8e-6 / f64::from(args.seconds)),
            ])
        })?;
        println!("{}", series.table());
        all.push(series.json());
    }
    Ok(json!({ "bench": "sim", "seconds": args.seconds, "measurements": all }))
}
