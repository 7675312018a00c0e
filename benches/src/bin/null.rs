//! Frames received, parsed and dropped per second on one core, by reason: the stack on DPDK's null
//! device, next to testpmd, which looks at nothing.
//!
//! The null device hands out buffers of the pool as they are. Before each run every buffer is
//! filled with the frame that shall arrive; the headers are the only thing that is ever read, so they
//! stay.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use base::{Device, DropReason, Frame, SeededRandom};
use benches::frames::{self, Nobody};
use benches::repeats::{Cores, Figures, Series};
use benches::system::{Place, testpmd};
use clap::Parser;
use dpdk::{Eal, EalConfig, Port, PortConfig, PortQueue, Vdev};
use stack::Stack;

/// Buffers of the pool: 512 KiB, which stay in the second-level cache.
const BUFFERS: u32 = 512;
const MEMORY_MIB: u32 = 128;
/// Reading the clock is part of a turn, and so is asking whether the time is over only now and then.
const TURNS_PER_LOOK: u32 = 256;

/// Frames received, parsed and dropped per second on one core, by reason.
#[derive(Parser)]
struct Args {
    /// Bytes of a frame
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(54..=1514))]
    size: u16,
    /// Repeats that count
    #[arg(long, default_value_t = 5)]
    repeats: usize,
    /// Repeats in all, those that do not count included
    #[arg(long, default_value_t = 10)]
    at_most: usize,
    /// Length of the run for each reason, and of testpmd's
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
    /// Memory in hugepages, which must be there
    #[arg(long)]
    hugepages: bool,
    /// Without testpmd beside it
    #[arg(long)]
    alone: bool,
    /// Write everything measured to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("null: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    let time = Duration::try_from_secs_f64(args.seconds).map_err(|e| e.to_string())?;
    let place = Place::new(PathBuf::new(), args.hugepages)?;
    let (_eal, queue) = start(args)?;
    let mac = queue.capabilities().mac;
    let random = SeededRandom::new(1);
    let mut stack =
        Stack::new(frames::config(), Arc::default(), vec![queue], random, Box::new(Nobody));
    let title = format!("net_null, {} bytes, one core, million frames/s", args.size);
    let mut series = Series::new(title, Cores::One);
    series.repeat(args.repeats, args.at_most.max(args.repeats), || {
        let mut figures = Figures::new();
        if !args.alone {
            let rate = testpmd::null(&place, args.size.into(), time.max(Duration::from_secs(1)))?;
            figures.push(("testpmd rxonly".to_owned(), rate / 1e6));
        }
        for (reason, frame) in frames::discarded(mac, args.size.into()) {
            fill(stack.device_mut(), &frame)?;
            let rate = drop_for(&mut stack, reason, time)?;
            figures.push((reason.name().to_owned(), rate / 1e6));
        }
        Ok(figures)
    })?;
    println!("{}", series.table());
    if let Some(file) = &args.json {
        std::fs::write(file, format!("{:#}\n", series.json()))
            .map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok(())
}

fn start(args: &Args) -> Result<(Eal, PortQueue), String> {
    let failed = |e: dpdk::Error| e.to_string();
    let config = PortConfig { buffers: BUFFERS, header_buffers: BUFFERS, ..PortConfig::default() };
    let vdev = format!("net_null0,size={},copy=0", args.size).parse::<Vdev>().map_err(failed)?;
    let mut eal = if args.hugepages {
        EalConfig::hugepages(Some(MEMORY_MIB))
    } else {
        EalConfig::software(MEMORY_MIB)
    };
    eal.vdevs.push(vdev.prepare(config.mtu, config.queues).map_err(failed)?);
    let eal = Eal::init(&eal).map_err(failed)?;
    let port = Port::open(&eal, "net_null0").map_err(failed)?;
    let queues = port.start(&config).map_err(failed)?.queues;
    let queue = queues.into_iter().next().ok_or("the port has no queue")?;
    Ok((eal, queue))
}

/// Put `frame` into every buffer of the pool.
fn fill(queue: &mut PortQueue, frame: &[u8]) -> Result<(), String> {
    let mut all = Vec::new();
    while let Some(mut buffer) = queue.payload_alloc() {
        let room = buffer.push_back(frame.len()).ok_or("a frame does not fit a buffer")?;
        room.copy_from_slice(frame);
        all.push(buffer);
    }
    if all.len() < BUFFERS as usize / 2 {
        return Err(format!("only {} buffers of {BUFFERS} are free", all.len()));
    }
    Ok(())
}

/// Frames per second, each of which was dropped for `reason`.
fn drop_for(
    stack: &mut Stack<PortQueue>,
    reason: DropReason,
    time: Duration,
) -> Result<f64, String> {
    let origin = Instant::now();
    let clock = ORIGIN.get_or_init(Instant::now);
    let (before, dropped) = (stack.counters().frames_rx, stack.drops()[reason as usize]);
    loop {
        for _ in 0..TURNS_PER_LOOK {
            let now = base::Instant::from_nanos(clock.elapsed().as_nanos() as u64 + 1);
            stack.turn(now, &mut std::iter::empty(), &mut |_| Ok(()));
        }
        if origin.elapsed() >= time {
            break;
        }
    }
    let frames = stack.counters().frames_rx - before;
    let dropped = stack.drops()[reason as usize] - dropped;
    if frames == 0 || dropped != frames {
        return Err(format!("{dropped} of {frames} frames were dropped as {}", reason.name()));
    }
    Ok(frames as f64 / origin.elapsed().as_secs_f64())
}

/// The stack's clock never goes back, from one run to the next either.
static ORIGIN: OnceLock<Instant> = OnceLock::new();
