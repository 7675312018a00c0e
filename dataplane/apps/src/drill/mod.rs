//! `millrace drill`: packetdrill scripts against the stack in virtual time.

mod report;

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use clap::Args;
use sim::drill::{self, Invocation, Outcome as Run, Variant};

use crate::fault::{Fault, Outcome};
use crate::output;

/// Folders in folders that are searched.
const DEPTH_MAX: usize = 32;

/// What `--help` of drill says at its end.
const HELP: &str = "\
Options in a script have the same names; those of the command line win. Nothing of a shell or of Python is run: known \
idioms act on the stack under test.

Exit status: 0 passed, 1 failed, 2 no script or wrong usage, 3 needs what does not exist here (nothing was run). Of \
several runs: 2 before 1 before 3.";

/// Run packetdrill scripts against the stack, in virtual time
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct DrillArgs {
    /// Scripts, or folders whose .pkt files are run
    #[arg(value_name = "SCRIPT", required = true)]
    scripts: Vec<PathBuf>,
    /// Run each script in the three variants of the public runner: ipv4, ipv6 (MTU 1520) and
    /// ipv4-mapped-ipv6, unless it says itself which
    #[arg(long)]
    variants: bool,
    /// Only say what the scripts need that does not exist here
    #[arg(long, conflicts_with_all = ["json", "tap", "report"])]
    list_unsupported: bool,
    /// One JSON document
    #[arg(long, conflicts_with_all = ["tap", "report"])]
    json: bool,
    /// Test Anything Protocol, which is the default for several runs
    #[arg(long, conflicts_with = "report")]
    tap: bool,
    /// A table for people in Markdown: what passes, by folder, and why what does not
    #[arg(long)]
    report: bool,
    /// Runs at once; without it one per core
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
    /// Write all packets of the run to a file (one script in one variant)
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,

    /// Replace a word of the scripts: SYM=value
    #[arg(short = 'D', long = "define", value_name = "SYM=VALUE", help_heading = "packetdrill")]
    defines: Vec<String>,
    /// ipv4, ipv6 or ipv4-mapped-ipv6
    #[arg(
        long = "ip_version",
        value_name = "VERSION",
        conflicts_with = "variants",
        help_heading = "packetdrill"
    )]
    ip_version: Option<String>,
    /// Port of bind()
    #[arg(long = "bind_port", value_name = "PORT", help_heading = "packetdrill")]
    bind_port: Option<String>,
    /// Port of connect()
    #[arg(long = "connect_port", value_name = "PORT", help_heading = "packetdrill")]
    connect_port: Option<String>,
    /// Our address
    #[arg(long = "local_ip", value_name = "ADDR", help_heading = "packetdrill")]
    local_ip: Option<String>,
    /// The peer's address
    #[arg(long = "remote_ip", value_name = "ADDR", help_heading = "packetdrill")]
    remote_ip: Option<String>,
    /// Accepted: any address serves as the gateway
    #[arg(long = "gateway_ip", value_name = "ADDR", help_heading = "packetdrill")]
    gateway_ip: Option<String>,
    /// Accepted: nothing depends on it
    #[arg(long = "netmask_ip", value_name = "MASK", help_heading = "packetdrill")]
    netmask_ip: Option<String>,
    /// Largest IP packet of the link
    #[arg(long, value_name = "BYTES", help_heading = "packetdrill")]
    mtu: Option<String>,
    /// Larger inbound segments arrive as aggregates of such pieces
    #[arg(long, value_name = "BYTES", help_heading = "packetdrill")]
    mss: Option<String>,
    /// Accepted: the link has no rate
    #[arg(long, value_name = "MBITS", help_heading = "packetdrill")]
    speed: Option<String>,
    /// How far a time may be off (4000)
    #[arg(long = "tolerance_usecs", value_name = "USECS", help_heading = "packetdrill")]
    tolerance_usecs: Option<String>,
    /// The same, as a share of the time since the event before (12.5)
    #[arg(long = "tolerance_percent", value_name = "PERCENT", help_heading = "packetdrill")]
    tolerance_percent: Option<String>,
    /// Check TSval against a clock of this tick
    #[arg(long = "tcp_ts_tick_usecs", value_name = "USECS", help_heading = "packetdrill")]
    tcp_ts_tick_usecs: Option<String>,
    /// Echoed timestamps that were never sent are computed
    #[arg(long = "tcp_ts_ecr_scaled", help_heading = "packetdrill")]
    tcp_ts_ecr_scaled: bool,
    /// Segments must be exactly those of the script
    #[arg(long = "strict_segments", help_heading = "packetdrill")]
    strict_segments: bool,
    /// Go on after a wrong packet or syscall: packet, syscall
    #[arg(long = "non_fatal", value_name = "WHAT", help_heading = "packetdrill")]
    non_fatal: Option<String>,
    /// What snippets see: TCP_INFO
    #[arg(long = "code_sockopt", value_name = "NAME", help_heading = "packetdrill")]
    code_sockopt: Option<String>,
    /// Shell scripts to run first (not supported, and said so)
    #[arg(long = "init_scripts", value_name = "FILES", help_heading = "packetdrill")]
    init_scripts: Option<String>,
    /// Only read the scripts
    #[arg(long = "dry_run", help_heading = "packetdrill")]
    dry_run: bool,
    /// Print all that happens
    #[arg(short, long, help_heading = "packetdrill")]
    verbose: bool,
}

/// One run: a script in a variant.
pub(crate) struct Job {
    /// As messages name it.
    pub(crate) file: String,
    text: String,
    /// `None`: as the script and the command line have it.
    pub(crate) variant: Option<Variant>,
}

impl DrillArgs {
    fn invocation(&self) -> Invocation {
        let mut options: Vec<(String, Option<String>)> = Vec::new();
        for (name, value) in [
            ("ip_version", &self.ip_version),
            ("bind_port", &self.bind_port),
            ("connect_port", &self.connect_port),
            ("local_ip", &self.local_ip),
            ("remote_ip", &self.remote_ip),
            ("gateway_ip", &self.gateway_ip),
            ("netmask_ip", &self.netmask_ip),
            ("mtu", &self.mtu),
            ("mss", &self.mss),
            ("speed", &self.speed),
            ("tolerance_usecs", &self.tolerance_usecs),
            ("tolerance_percent", &self.tolerance_percent),
            ("tcp_ts_tick_usecs", &self.tcp_ts_tick_usecs),
            ("non_fatal", &self.non_fatal),
            ("code_sockopt", &self.code_sockopt),
            ("init_scripts", &self.init_scripts),
        ] {
            options.extend(value.as_ref().map(|value| (name.to_owned(), Some(value.clone()))));
        }
        for (name, on) in [
            ("tcp_ts_ecr_scaled", self.tcp_ts_ecr_scaled),
            ("strict_segments", self.strict_segments),
            ("dry_run", self.dry_run),
            ("verbose", self.verbose),
        ] {
            options.extend(on.then(|| (name.to_owned(), None)));
        }
        Invocation { options, defines: self.defines.clone(), frames: self.pcap.is_some() }
    }
}

pub(crate) fn run(args: &DrillArgs) -> Outcome {
    let jobs = jobs(args)?;
    if args.pcap.is_some() && jobs.len() != 1 {
        return Err(Fault::usage("--pcap takes one script in one variant"));
    }
    let base = args.invocation();
    if args.list_unsupported {
        return list_unsupported(&jobs, &base);
    }
    let threads = args.jobs.or_else(|| thread::available_parallelism().ok());
    let runs = run_all(&jobs, &base, threads.map_or(1, NonZero::get));
    if let (Some(path), [run]) = (&args.pcap, runs.as_slice()) {
        let frames = run.frames.iter().map(|(at, bytes)| (*at, bytes.as_slice()));
        fs::write(path, sim::record::pcap_file(frames))
            .map_err(|e| Fault::usage(format!("cannot write {}: {e}", path.display())))?;
    }
    let text = if args.report {
        report::markdown(&jobs, &runs, &args.scripts)
    } else if args.json {
        report::json(&jobs, &runs)
    } else if args.tap || jobs.len() > 1 {
        report::tap(&jobs, &runs)
    } else {
        report::people(&jobs, &runs)
    };
    output::print(&text)?;
    Ok(if args.report { 0 } else { worst(runs.iter().map(|run| run.verdict.exit_code())) })
}

/// 2 before 1 before 3 before 0.
fn worst(codes: impl Iterator<Item = u8>) -> u8 {
    const ORDER: [u8; 4] = [2, 1, 3, 0];
    let place = |code: u8| ORDER.iter().position(|c| *c == code).unwrap_or(0);
    codes.min_by_key(|code| place(*code)).unwrap_or(0)
}

fn jobs(args: &DrillArgs) -> Result<Vec<Job>, Fault> {
    let mut files = Vec::new();
    for path in &args.scripts {
        find(path, &mut files, 0)?;
    }
    if files.is_empty() {
        return Err(Fault::usage("no .pkt file in these folders"));
    }
    let mut jobs = Vec::new();
    for path in files {
        let text = fs::read(&path)
            .map_err(|e| Fault::usage(format!("cannot read {}: {e}", path.display())))?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let file = path.display().to_string();
        if args.variants {
            let variants = drill::variants(&file, &text);
            jobs.extend(variants.into_iter().map(|variant| Job {
                file: file.clone(),
                text: text.clone(),
                variant: Some(variant),
            }));
        } else {
            jobs.push(Job { file, text, variant: None });
        }
    }
    Ok(jobs)
}

/// Scripts below a folder, sorted by name; a file is taken as it is.
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
        if entry.is_dir() || entry.extension().is_some_and(|ext| ext == "pkt") {
            find(&entry, files, depth + 1)?;
        }
    }
    Ok(())
}

fn invocation_of(job: &Job, base: &Invocation) -> Invocation {
    let mut invocation = base.clone();
    if let Some(variant) = job.variant {
        variant.apply(&mut invocation);
    }
    invocation
}

/// All runs, in the order of the jobs. Each is its own world, so any number may run at once.
fn run_all(jobs: &[Job], base: &Invocation, threads: usize) -> Vec<Run> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Run)>> = Mutex::new(Vec::with_capacity(jobs.len()));
    thread::scope(|scope| {
        for _ in 0..threads.min(jobs.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(index) else { break };
                    let run = drill::run(&job.file, &job.text, &invocation_of(job, base));
                    if let Ok(mut done) = done.lock() {
                        done.push((index, run));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, run)| run).collect()
}

fn list_unsupported(jobs: &[Job], base: &Invocation) -> Outcome {
    let mut code = 0;
    let mut text = String::new();
    for job in jobs {
        let invocation = invocation_of(job, base);
        let verdict = drill::dry_run(&job.file, &job.text, &invocation);
        code = worst([code, verdict.exit_code()].into_iter());
        text.push_str(&verdict.render(&job.file));
    }
    output::print(&text)?;
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_several_decides() {
        assert_eq!(worst([0, 0].into_iter()), 0);
        assert_eq!(worst([0, 3, 0].into_iter()), 3);
        assert_eq!(worst([3, 1, 0].into_iter()), 1);
        assert_eq!(worst([3, 1, 2].into_iter()), 2);
        assert_eq!(worst(core::iter::empty()), 0);
    }
}
