//! `millrace wire`: the simulator's link in real time, between two ports.

mod checksums;
mod pipe;
mod report;

use std::time::Duration;

use clap::{Args, Subcommand};
use runtime::protocol::Request;
use sim::LinkConfig;
use sim::link::Room;
use sim::scenario::link_keys::apply_path;

use crate::cli::{Idle, Instance};
use crate::control::{connect, failed};
use crate::fault::{FAILED, Fault, Outcome};
use crate::output;

/// What `--help` says at its end.
const HELP: &str = "\
A PATH is a list of KEY=VALUE: delay=50ms, jitter=1ms, rate=100Mbit, queue=1MiB or 100pkt, loss=1% or 0.1%/8 (in bursts of 8), \
reorder=5%/10ms, duplicate=0.1%, corrupt=0.01%, policer=100Mbit/64KiB, ecn_mark=65pkt, mtu=1500, drop_larger_than=1400, up=false. \
What is true of links in scenario files is true here (docs/wire.md).

While it runs: millrace wire set forward.loss=3% delay=20ms (without a direction: both), millrace wire show.

Exit status: 0 done, also after a signal, 2 usage, 3 environment or a port was lost, 4 no such instance (set, show).";

/// A bad path between two ports, in real time: delay, rate, queue, loss, reordering
#[derive(Args, Debug)]
#[command(after_help = HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct WireArgs {
    #[command(subcommand)]
    ask: Option<Ask>,
    /// One end, such as net_af_packet0,iface=veth0, or the address of a NIC such as 0000:03:00.0
    #[arg(long, value_name = "DEVICE")]
    a: Option<String>,
    /// The other end
    #[arg(long, value_name = "DEVICE")]
    b: Option<String>,
    /// What the wire does in both directions
    #[arg(long, value_name = "PATH")]
    both: Option<String>,
    /// What it does from a to b, beside or instead of what --both says
    #[arg(long, value_name = "PATH")]
    forward: Option<String>,
    /// What it does from b to a
    #[arg(long, value_name = "PATH")]
    reverse: Option<String>,
    /// Which frames are lost and so on: another number, other dice
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Seconds to run (without: until SIGINT or SIGTERM)
    #[arg(short, long, value_name = "SECS")]
    time: Option<f64>,
    /// Largest IP packet of both ports
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u16).range(68..))]
    mtu: u16,
    /// Frames that can be on their way (without: as many as the path holds)
    #[arg(long, value_name = "N")]
    buffers: Option<u32>,
    /// Core of the worker; without it the scheduler decides
    #[arg(long, value_name = "N")]
    core: Option<usize>,
    /// What the worker does when idle
    #[arg(long, value_name = "POLICY", default_value = "adaptive")]
    idle: Idle,
    /// Use hugepages
    #[arg(long)]
    hugepages: bool,
    /// Nothing but errors and warnings while it runs; the summary at the end
    #[arg(short, long)]
    quiet: bool,
    /// One JSON document at the end (docs/wire.md)
    #[arg(long)]
    json: bool,
    /// Name of this wire for set, show and nstat
    #[arg(long, value_name = "NAME", default_value = "default")]
    instance: String,
}

#[derive(Subcommand, Debug)]
enum Ask {
    /// Change a running wire: all that is named, or nothing
    Set {
        /// Such as forward.loss=3%, reverse.up=false, or delay=20ms for both directions
        #[arg(required = true, value_name = "[DIRECTION.]KEY=VALUE")]
        changes: Vec<String>,
        #[command(flatten)]
        instance: Instance,
    },
    /// How a running wire is doing, as a JSON document (docs/wire.md)
    Show {
        #[command(flatten)]
        instance: Instance,
    },
}

pub(crate) fn run(args: &WireArgs) -> Outcome {
    match &args.ask {
        Some(Ask::Set { changes, instance }) => {
            let request = Request::WireSet { changes: changes.clone() };
            let mut client = connect(&instance.instance)?;
            client.ask(&request).map_err(|e| failed(&e))?;
            Ok(0)
        }
        Some(Ask::Show { instance }) => {
            let mut client = connect(&instance.instance)?;
            let shown = client.ask(&Request::WireShow).map_err(|e| failed(&e))?;
            output::print(&format!("{shown:#}\n"))
        }
        None => {
            let wire = Wire::of(args)?;
            wire.run(args)
        }
    }
}

/// A wire as it was asked for, checked.
#[derive(Debug)]
struct Wire<'a> {
    ends: [&'a str; 2],
    configs: [LinkConfig; 2],
    time: Option<Duration>,
    buffers: u32,
}

/// Buffers that the ports need for their rings, and the worker for copies.
const BUFFERS_SPARE: u64 = 4096;
/// What a path of unlimited rate may hold.
const BUFFERS_UNLIMITED: u64 = 32_768;
/// More is refused; it is a gigabyte or two.
const BUFFERS_MAX: u64 = 524_288;
/// Small frames are this long on average at least: data in one direction and acknowledgements in the other.
const FRAME_BYTES_MEAN: u64 = 500;

impl<'a> Wire<'a> {
    fn of(args: &'a WireArgs) -> Result<Self, Fault> {
        let end = |name: &str, device: &'a Option<String>| {
            device.as_deref().ok_or_else(|| {
                Fault::usage(format!("wire: --{name} is missing: a wire has two ends"))
                    .help("millrace wire --a net_af_packet0,iface=x0 --b net_af_packet1,iface=y0 --both delay=50ms")
            })
        };
        let ends = [end("a", &args.a)?, end("b", &args.b)?];
        if ends[0] == ends[1] {
            return Err(Fault::usage("wire: --a and --b are the same device"));
        }
        let usual = LinkConfig { mtu: args.mtu, ..LinkConfig::default() };
        let mut configs = [usual, usual];
        let own = [("--forward", &args.forward), ("--reverse", &args.reverse)];
        for (config, (name, own)) in configs.iter_mut().zip(own) {
            for (name, path) in [("--both", &args.both), (name, own)] {
                let Some(path) = path else { continue };
                apply_path(path, config).map_err(|problem| {
                    let text = problem.to_string();
                    let mut lines = text.lines().map(str::trim);
                    let fault =
                        Fault::usage(format!("wire: {name}: {}", lines.next().unwrap_or_default()));
                    lines.fold(fault, Fault::help)
                })?;
            }
        }
        let time = match args.time {
            Some(seconds) => Some(crate::rr::seconds(seconds, "-t")?),
            None => None,
        };
        let needed = BUFFERS_SPARE + configs.iter().map(held_at_most).sum::<u64>();
        if args.buffers.is_none() && needed > BUFFERS_MAX {
            return Err(Fault::usage(format!(
                "wire: this path holds up to {needed} frames, more than {BUFFERS_MAX}"
            ))
            .help(
                "lower the rate, the delay or the queue, or say how many it may be with --buffers",
            ));
        }
        let buffers = args.buffers.unwrap_or(needed.min(BUFFERS_MAX) as u32);
        Ok(Self { ends, configs, time, buffers })
    }
}

/// Frames that a direction can hold: on the wire, held back, and queued.
fn held_at_most(config: &LinkConfig) -> u64 {
    let longest = config.delay + config.jitter + config.reorder.by;
    let on_the_way = match config.rate {
        base::Rate::UNLIMITED if longest.is_zero() => 0,
        base::Rate::UNLIMITED => BUFFERS_UNLIMITED,
        rate => {
            let bytes = u128::from(rate.bytes_per_sec()) * longest.as_nanos() / 1_000_000_000;
            u64::try_from(bytes).unwrap_or(u64::MAX) / FRAME_BYTES_MEAN
        }
    };
    let queued = match config.queue {
        _ if config.rate == base::Rate::UNLIMITED => 0,
        Room::Bytes(bytes) => bytes / FRAME_BYTES_MEAN,
        Room::Packets(packets) => packets.into(),
    };
    on_the_way.saturating_add(queued)
}

#[cfg(not(feature = "dpdk"))]
impl Wire<'_> {
    fn run(&self, _: &WireArgs) -> Outcome {
        let _ = (
            self.ends,
            self.time,
            self.buffers,
            pipe::Pipe::<base::mem::MemFrame>::new(self.configs, 1),
        );
        let _ = (report::heading, report::second, report::summary, report::document, FAILED);
        Err(crate::ports::without_dpdk())
    }
}

#[cfg(feature = "dpdk")]
impl Wire<'_> {
    fn run(&self, args: &WireArgs) -> Outcome {
        use std::cell::RefCell;
        use std::rc::Rc;

        use runtime::frames::{self, FrameHooks, FrameOptions};
        use runtime::ports::{self, DeviceName, PortRequest};

        let request = |device: &&str| PortRequest {
            device: match device.contains("net_") {
                true => DeviceName::Vdev((*device).to_owned()),
                false => DeviceName::Pci((*device).to_owned()),
            },
            mtu: args.mtu,
            queues: 1,
            buffers: Some(self.buffers),
            promiscuous: true,
        };
        let requests: Vec<PortRequest> = self.ends.iter().map(request).collect();
        let open = ports::open(&requests, None, args.hugepages, &[])
            .map_err(crate::ports::device_fault)?;
        let controls: Vec<_> = open.iter().map(|port| port.control.clone()).collect();
        let names: Vec<String> = controls.iter().map(|c| c.info().name.clone()).collect();
        let options = FrameOptions {
            instance: args.instance.clone(),
            idle: match args.idle {
                Idle::Poll => runtime::IdlePolicy::Poll,
                Idle::Adaptive => runtime::IdlePolicy::Adaptive,
            },
            core: args.core,
            limit: self.time,
        };
        let talks = !args.quiet && !args.json;
        let (watched, counted, seed) = (controls.clone(), controls, args.seed);
        let begin = self.beginning(&names, &args.instance);
        let mut before: Option<pipe::Report> = None;
        let warned = Rc::new(RefCell::new(Warned::default()));
        let hooks = FrameHooks {
            links: Box::new(move || ports::links(&watched)),
            port_stats: Box::new(move || ports::port_stats(&counted)),
            on_warning: Box::new(|text| eprintln!("millrace: {text}")),
            on_ready: Box::new(move || {
                if talks {
                    say(&begin);
                    say(&report::heading());
                }
            }),
            on_second: Box::new(move |report: &pipe::Report| {
                warned.borrow_mut().look(report);
                if talks {
                    say(&report::second(report, before.as_ref()));
                }
                before = Some(report.clone());
            }),
            show: Box::new(move |report| report::document(report, seed)),
        };
        let configs = self.configs;
        let make_app = Box::new(move || pipe::Pipe::new(configs, seed));
        let outcome =
            frames::run(&options, frames::devices_of(open), make_app, hooks).map_err(|why| {
                let code =
                    if why.contains("already running") { crate::fault::USAGE } else { FAILED };
                Fault::new(code, why)
            })?;
        let text = if args.json {
            format!("{:#}\n", report::document(&outcome.last, args.seed))
        } else {
            report::summary(&outcome.last)
        };
        output::print(&text)?;
        Ok(outcome.code)
    }

    fn beginning(&self, names: &[String], instance: &str) -> String {
        use sim::scenario::path_text::path_of;
        let [forward, reverse] = self.configs.map(|config| path_of(&config));
        format!(
            "wire \"{instance}\": {}, room for {} frames\n  forward: {}\n  reverse: {}\n",
            names.join(" <-> "),
            self.buffers,
            report::or_plain(&forward),
            report::or_plain(&reverse),
        )
    }
}

/// Output while it runs; whoever reads it may leave, which ends the program quietly.
#[cfg(feature = "dpdk")]
fn say(text: &str) {
    if let Err(e) = output::write(text) {
        eprintln!("millrace: cannot write to standard output: {e}");
    }
}

/// What was warned of already.
#[cfg(feature = "dpdk")]
#[derive(Default)]
struct Warned {
    cut: bool,
    buffers: bool,
}

#[cfg(feature = "dpdk")]
impl Warned {
    fn look(&mut self, report: &pipe::Report) {
        if !self.cut && report.halves.iter().any(|half| half.extra.cut > 0 || half.link.size > 0) {
            self.cut = true;
            eprintln!(
                "millrace: frames come in that are larger than the wire carries: a sender leaves segmentation to \
                 hardware that a\nvirtual link does not have, or its MTU is larger. On the senders' interfaces:\n  \
                 ethtool -K IFACE tso off gso off gro off"
            );
        }
        if !self.buffers && report.buffers.free < report.buffers.total / 16 {
            self.buffers = true;
            eprintln!(
                "millrace: nearly all of {} buffers are in use: frames may be lost that the path would carry. Give more \
                 with --buffers",
                report.buffers.total
            );
        }
    }
}

#[cfg(test)]
mod tests;
