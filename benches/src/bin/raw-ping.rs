//! One frame back and forth over a device, without any protocol: what a round trip costs before TCP.
//!
//! Prints a document of the shape of `millrace rr --json`, so that both are read alike.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use base::{Device, Frame, RxBatch};
use clap::{Parser, ValueEnum};
use dpdk::{Eal, EalConfig, Port, PortConfig, PortControl, PortQueue, Vdev};
use serde_json::json;

const BUFFERS: u32 = 1024;
const MEMORY_MIB: u32 = 128;
/// Round trips kept: half a minute of the fastest.
const SAMPLES_MAX: usize = 1 << 26;
/// For the link to come up.
const PATIENCE: Duration = Duration::from_secs(10);
/// A frame that has not come back by then is lost, and another is sent.
const LOST_AFTER: Duration = Duration::from_millis(200);
/// Frames that may be lost one after the other: then the other end is gone.
const LOST_IN_A_ROW_MAX: u32 = 50;
/// Polls between two looks at the clock while nothing comes.
const POLLS_PER_LOOK: u32 = 10_000;
/// What a frame is filled with, after its number.
const FILL: u8 = 0x42;
/// Bytes of the number in front.
const NUMBER_LEN: usize = 8;

/// One frame back and forth over a device, without any protocol.
#[derive(Parser)]
struct Args {
    /// Send back, or send and measure
    #[arg(long, value_enum)]
    role: Role,
    /// The device, such as net_memif0,role=server,id=0,socket=/run/x.sock
    #[arg(long)]
    vdev: String,
    /// Bytes of the frame
    #[arg(long, default_value_t = 118)]
    size: u16,
    /// How long to measure
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Memory in hugepages, which must be there
    #[arg(long)]
    hugepages: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Role {
    Server,
    Client,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = start(&args).and_then(|(_eal, control, mut queue)| match args.role {
        Role::Server => serve(&control, &mut queue),
        Role::Client => measure(&args, &control, &mut queue),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("raw-ping: {e}");
            ExitCode::FAILURE
        }
    }
}

fn start(args: &Args) -> Result<(Eal, PortControl, PortQueue), String> {
    let failed = |e: dpdk::Error| e.to_string();
    let config = PortConfig { buffers: BUFFERS, header_buffers: BUFFERS, ..PortConfig::default() };
    let vdev = args.vdev.parse::<Vdev>().map_err(failed)?;
    let name = vdev.name().to_owned();
    let mut eal = if args.hugepages {
        EalConfig::hugepages(Some(MEMORY_MIB))
    } else {
        EalConfig::software(MEMORY_MIB)
    };
    eal.vdevs.push(vdev.prepare(config.mtu, config.queues).map_err(failed)?);
    let eal = Eal::init(&eal).map_err(failed)?;
    let started = Port::open(&eal, &name).and_then(|p| p.start(&config)).map_err(failed)?;
    let queue = started.queues.into_iter().next().ok_or("the port has no queue")?;
    Ok((eal, started.control, queue))
}

fn is_up(control: &PortControl) -> bool {
    control.link().is_ok_and(|link| link.up)
}

/// Send back what comes until the other end is gone.
fn serve(control: &PortControl, queue: &mut PortQueue) -> Result<(), String> {
    println!("listening");
    let mut frames = VecDeque::new();
    let mut was_up = false;
    loop {
        for _ in 0..POLLS_PER_LOOK {
            let mut batch = RxBatch::new();
            if queue.rx_burst(&mut batch) > 0 {
                frames.extend(batch);
                queue.tx_burst(&mut frames);
            }
        }
        let up = is_up(control);
        if was_up && !up {
            return Ok(());
        }
        was_up |= up;
    }
}

fn measure(args: &Args, control: &PortControl, queue: &mut PortQueue) -> Result<(), String> {
    let time = Duration::try_from_secs_f64(args.seconds).map_err(|e| e.to_string())?;
    let begun = Instant::now();
    while !is_up(control) {
        if begun.elapsed() > PATIENCE {
            return Err(format!("the link is not up after {PATIENCE:?}"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut samples = Vec::<u32>::with_capacity(1 << 22);
    let size = usize::from(args.size).max(NUMBER_LEN);
    let mut ball = VecDeque::from([fresh(queue, size, 0)?]);
    let (mut number, mut lost, mut in_a_row) = (0_u64, 0_u64, 0_u32);
    // A quarter for the caches and the clock of the processor.
    let warm = time / 4;
    let begun = Instant::now();
    let mut sent = begun;
    while begun.elapsed() < warm + time && samples.len() < SAMPLES_MAX {
        queue.tx_burst(&mut ball);
        let Some(frame) = receive(queue, number) else {
            // Neither driver promises that no frame is ever lost. What comes later bears an old number.
            lost += 1;
            in_a_row += 1;
            if in_a_row > LOST_IN_A_ROW_MAX {
                return Err(format!("{in_a_row} frames in a row have not come back"));
            }
            number += 1;
            ball = VecDeque::from([fresh(queue, size, number)?]);
            sent = Instant::now();
            continue;
        };
        in_a_row = 0;
        ball.push_back(frame);
        let now = Instant::now();
        if now - begun > warm {
            samples.push(u32::try_from((now - sent).as_nanos()).unwrap_or(u32::MAX));
        }
        sent = now;
    }
    samples.sort_unstable();
    let at = |per_mille: usize| {
        samples.get((samples.len() * per_mille / 1000).min(samples.len().saturating_sub(1)))
    };
    let latency = json!({
        "count": samples.len(), "p50_ns": at(500), "p99_ns": at(990), "p99_9_ns": at(999),
    });
    println!(
        "{:#}",
        json!({ "schema": "raw-ping/1", "total": { "latency": latency, "failed": lost } })
    );
    Ok(())
}

/// A frame with this number in front.
fn fresh(
    queue: &mut PortQueue,
    size: usize,
    number: u64,
) -> Result<<PortQueue as Device>::Frame, String> {
    let mut frame = queue.payload_alloc().ok_or("no buffer")?;
    let bytes = frame.push_back(size).ok_or("the frame does not fit a buffer")?;
    bytes.fill(FILL);
    if let Some(front) = bytes.first_chunk_mut::<NUMBER_LEN>() {
        *front = number.to_be_bytes();
    }
    Ok(frame)
}

/// The frame with this number; `None` if it is lost.
fn receive(queue: &mut PortQueue, number: u64) -> Option<<PortQueue as Device>::Frame> {
    let mut batch = RxBatch::new();
    let mut begun = None;
    loop {
        for _ in 0..POLLS_PER_LOOK {
            if queue.rx_burst(&mut batch) == 0 {
                continue;
            }
            while let Some(frame) = batch.pop() {
                if frame.head().first_chunk() == Some(&number.to_be_bytes()) {
                    return Some(frame);
                }
            }
        }
        if begun.get_or_insert_with(Instant::now).elapsed() > LOST_AFTER {
            return None;
        }
    }
}
