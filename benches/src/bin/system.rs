//! Benchmarks of whole processes over software devices, with the device's own limit in the same run.
//! `scripts/bench` builds what is needed and calls this.
//!
//! ```text
//! system memif      one flow and eight, next to testpmd on the same kind of pair
//! system rr         64-byte round trips, next to the raw device
//! system connect    short connections per second
//! system idle       a million idle connections
//! ```

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use benches::repeats::{Cores, Figures, Series, number};
use benches::system::millrace::{Run, Server, client, document, field};
use benches::system::{Place, idle, raw, testpmd};
use clap::{Args, Parser, Subcommand};
use serde_json::Value;
use stack::IdleBytes;

/// Benchmarks of whole processes over software devices.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    options: Options,
}

#[derive(Args)]
struct Options {
    /// The binary
    #[arg(long, global = true, default_value = "target/release/millrace")]
    millrace: PathBuf,
    /// Memory in hugepages, which must be there
    #[arg(long, global = true)]
    hugepages: bool,
    /// Repeats that count
    #[arg(long, global = true, default_value_t = 5)]
    repeats: usize,
    /// Repeats in all, those that do not count included
    #[arg(long, global = true, default_value_t = 15)]
    at_most: usize,
    /// Length of each part of a repeat
    #[arg(long, global = true, default_value_t = 2.0)]
    seconds: f64,
    /// Write everything measured to this file as JSON
    #[arg(long, global = true, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Subcommand)]
enum What {
    /// One flow and eight at 1500 bytes, next to testpmd on the same kind of pair
    Memif,
    /// 64-byte requests and responses, next to the raw device
    Rr,
    /// Short connections per second, closed with a reset and with FIN
    Connect,
    /// Idle connections held in one process, their memory, and the rate of setting them up
    Idle {
        /// How many
        #[arg(long, default_value_t = 1_000_000)]
        connections: u32,
    },
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("system: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<(), String> {
    let options = &cli.options;
    let millrace = options
        .millrace
        .canonicalize()
        .map_err(|e| format!("{}: {e}", options.millrace.display()))?;
    let place = Place::new(millrace, options.hugepages)?;
    let (name, documents) = match &cli.what {
        What::Memif => ("memif", vec![memif(options, &place)?]),
        What::Rr => ("rr", vec![rr(options, &place)?]),
        What::Connect => ("connect", connect(options, &place)?),
        What::Idle { connections } => {
            let idle = || idle::measure(&place, *connections, options.seconds);
            let title = format!("memif, {} connections held", number(f64::from(*connections)));
            let document = series(options, &title, idle)?;
            let bytes = IdleBytes::PER_CONNECTION;
            println!("bytes of an idle connection: {} in all, {bytes:?}", bytes.total());
            ("idle", vec![document])
        }
    };
    let pages = if options.hugepages { "hugepages" } else { "ordinary pages" };
    println!("\nmillrace and testpmd: one core per process, {pages}");
    if let Some(file) = &options.json {
        let all = serde_json::json!({ "benchmark": name, "memory": pages, "series": documents });
        std::fs::write(file, format!("{all:#}\n"))
            .map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok(())
}

fn series(
    options: &Options,
    title: &str,
    measure: impl FnMut() -> Result<Figures, String>,
) -> Result<Value, String> {
    let mut series = Series::new(title, Cores::Two);
    series.repeat(options.repeats, options.at_most, measure)?;
    println!("{}", series.table());
    Ok(series.json())
}

fn memif(options: &Options, place: &Place) -> Result<Value, String> {
    let time = Duration::try_from_secs_f64(options.seconds).map_err(|e| e.to_string())?;
    series(options, "memif, 1500 bytes, Gbit/s", || {
        // testpmd's frames are as long as our IP packets, as in the promise.
        let device = testpmd::memif(place, 1500, time)? * 1500.0 * 8.0 / 1e9;
        let mut figures = vec![("testpmd txonly to rxonly".to_owned(), device)];
        for (flows, name) in [("1", "one flow"), ("8", "eight flows")] {
            let gbit = iperf(options, place, flows)?;
            figures.push((name.to_owned(), gbit));
            figures.push((format!("{name}, share of testpmd"), gbit / device));
        }
        Ok(figures)
    })
}

fn iperf(options: &Options, place: &Place, flows: &str) -> Result<f64, String> {
    let server = Server::start(place, "iperf", "", &[])?;
    // iperf counts in whole seconds.
    let run = Run { seconds: options.seconds.ceil().max(1.0), ..Run::default() };
    let seconds = run.seconds.to_string();
    let flags = ["-P", flows, "-t", &seconds, "-O", "1", "-J", "-i", "0"];
    let said = client(place, "iperf", "", &flags)?.finish(run.limit()?)?;
    server.stop();
    field(&document(&said)?, "/end/sum_received/bits_per_second").map(|bits| bits / 1e9)
}

fn rr(options: &Options, place: &Place) -> Result<Value, String> {
    series(options, "memif, 64 bytes each way, one connection, us", || {
        let run = Run { seconds: options.seconds, ..Run::default() };
        let raw = raw::memif(place, options.seconds)?;
        let tcp = run.rr(place)?;
        let us = |document: &Value, key: &str| {
            field(document, &format!("/total/latency/{key}")).map(|ns| ns / 1000.0)
        };
        let mut figures = Figures::new();
        for key in ["p50_ns", "p99_ns", "p99_9_ns"] {
            let name = key.trim_end_matches("_ns").replace('_', ".");
            figures.push((format!("raw {name}"), us(&raw, key)?));
            figures.push((format!("TCP {name}"), us(&tcp, key)?));
        }
        figures.push(("raw frames lost".to_owned(), field(&raw, "/total/failed")?));
        figures.push(("p50 above raw".to_owned(), us(&tcp, "p50_ns")? - us(&raw, "p50_ns")?));
        Ok(figures)
    })
}

/// What FIN-close runs need; said in the output.
const FIN: &str = "[limits]\ntime_wait = 1000000\n\n[sysctl]\n\"net.ipv4.tcp_tw_reuse\" = 1\n\
    \"net.ipv4.ip_local_port_range\" = \"1024 65535\"\n";

fn connect(options: &Options, place: &Place) -> Result<Vec<Value>, String> {
    let ports = ["-p", "5201..5208"];
    let kinds = [
        ("rst", "RST close", ""),
        ("fin-client", "FIN close, client first, tcp_tw_reuse=1, TIME-WAIT cap 1 000 000", FIN),
        ("fin-server", "FIN close, server first, tcp_tw_reuse=1, TIME-WAIT cap 1 000 000", FIN),
    ];
    let measure = |(close, how, extra): (&str, &str, &str)| {
        let client = [&ports[..], &["--connect", "--concurrency", "64", "--close", close]].concat();
        let run = Run { server: &ports, client: &client, extra, seconds: options.seconds };
        let title = format!("memif, 64 bytes each way, 64 at once, 8 ports, {how}");
        series(options, &title, || {
            let document = run.rr(place)?;
            Ok(vec![
                ("connections/s".to_owned(), field(&document, "/total/per_second")?),
                ("failed".to_owned(), field(&document, "/total/failed")?),
            ])
        })
    };
    kinds.into_iter().map(measure).collect()
}
