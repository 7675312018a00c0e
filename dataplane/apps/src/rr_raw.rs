//! `millrace rr --raw`: ping-pong of frames on a port without a stack.

#[cfg(not(feature = "dpdk"))]
pub(crate) fn run(_: &crate::cli::RrArgs) -> crate::fault::Outcome {
    Err(crate::ports::without_dpdk())
}

#[cfg(feature = "dpdk")]
pub(crate) use with_dpdk::run;

#[cfg(feature = "dpdk")]
mod with_dpdk {
    use std::time::Duration;

    use runtime::ports::{DeviceName, OpenPort, PortRequest};
    use runtime::raw::{FRAME_BYTES_MIN, PingConfig, Pinged, ping_on, reflect_on};
    use serde_json::json;
    use workloads::rr::totals::per_second;
    use workloads::rr::{Latencies, json as rr_json, text};

    use crate::cli::RrArgs;
    use crate::fault::{FAILED, Fault, Outcome};
    use crate::host::unix_seconds;
    use crate::ring::Ring;
    use crate::rr::{amount, seconds};
    use crate::{output, ports};

    /// What fits a jumbo frame with its link header.
    const FRAME_BYTES_MAX: usize = config::startup::MTU_MAX as usize + 14;

    pub(crate) fn run(args: &RrArgs) -> Outcome {
        if !(FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&args.frame_size) {
            return Err(Fault::usage(format!(
                "--frame-size {} is not in {FRAME_BYTES_MIN}..{FRAME_BYTES_MAX}",
                args.frame_size
            )));
        }
        let config = PingConfig {
            frame_bytes: args.frame_size,
            time: match args.transactions {
                None => seconds(args.time.unwrap_or(10.0), "-t")?,
                Some(_) => Duration::MAX,
            },
            count: match &args.transactions {
                None => u64::MAX,
                Some(n) => amount(n, 1000, "-n")?.max(1),
            },
            omit: seconds(args.omit, "-O")?,
            timeout: seconds(args.timeout, "--timeout")?,
        };
        match (args.server, &args.client, args.ring) {
            (true, None, false) => {
                let (port, core) = open(args)?;
                output::write("rr: reflecting frames\n").map_err(|e| {
                    Fault::new(FAILED, format!("cannot write to standard output: {e}"))
                })?;
                reflect_on(port, core).map_err(|e| Fault::new(FAILED, e))?;
                Ok(0)
            }
            (false, Some(_), false) => {
                let (port, core) = open(args)?;
                ping(args, &config, port, core, None)
            }
            (false, None, true) => {
                let [(a, core_a), (b, core_b)] = Ring::new(&args.dataplane, false)?.open()?;
                ping(args, &config, b, core_b, Some((a, core_a)))
            }
            _ => Err(Fault::usage("rr --raw is a server (-s), a client (-c) or --ring")),
        }
    }

    fn open(args: &RrArgs) -> Result<(OpenPort, Option<usize>), Fault> {
        let startup = ports::startup_for_frames(&args.dataplane)?;
        let [port] = startup.ports.as_slice() else {
            return Err(Fault::usage("rr --raw uses one port"));
        };
        let request = PortRequest {
            device: match &port.device {
                config::startup::DeviceSpec::Vdev(v) => DeviceName::Vdev(v.to_string()),
                config::startup::DeviceSpec::Pci(p) => DeviceName::Pci(p.to_string()),
            },
            mtu: port.mtu,
            queues: 1,
            buffers: Some(startup.dataplane.buffers),
            promiscuous: false,
        };
        let memory = u32::try_from(startup.dataplane.memory_bytes >> 20).ok();
        let mut open = runtime::ports::open(&[request], memory, startup.dataplane.hugepages, &[])
            .map_err(ports::device_fault)?;
        let open = open.pop().ok_or_else(|| Fault::new(FAILED, "no port was opened"))?;
        Ok((open, startup.workers.first().map(|w| w.core)))
    }

    fn ping(
        args: &RrArgs,
        config: &PingConfig,
        port: OpenPort,
        core: Option<usize>,
        mirror: Option<(OpenPort, Option<usize>)>,
    ) -> Outcome {
        let mut times = Latencies::new();
        let done = ping_on(port, core, mirror, config, &mut |t| times.record(t))
            .map_err(|e| Fault::new(FAILED, e).help("is the other side running, with --raw?"))?;
        output::print(&shown(args, config, &done, &times))?;
        Ok(match (done.answered, done.lost) {
            (0, _) if !done.interrupted => FAILED,
            (_, 0) => 0,
            _ => 5,
        })
    }

    fn shown(args: &RrArgs, config: &PingConfig, done: &Pinged, times: &Latencies) -> String {
        let figures = times.figures();
        let rate = per_second(done.answered, done.time);
        if args.json {
            let document = json!({
                "schema": rr_json::SCHEMA,
                "version": concat!("millrace ", env!("CARGO_PKG_VERSION")),
                "unix_seconds": unix_seconds(),
                "test": {
                    "mode": "raw",
                    "frame_bytes": config.frame_bytes,
                    "omit_seconds": config.omit.as_secs_f64(),
                },
                "total": {
                    "seconds": done.time.as_secs_f64(),
                    "transactions": done.answered,
                    "per_second": rate,
                    "failed": done.lost,
                    "latency": rr_json::figures(&figures),
                },
                "end": if done.interrupted { "interrupted" } else { "complete" },
            });
            return format!("{}\n", serde_json::to_string_pretty(&document).unwrap_or_default());
        }
        format!(
            "raw ping-pong, frames of {} bytes, no TCP\n{}{}{} round trips in {:.2} s: {rate:.0} per \
             second, {} lost\n",
            config.frame_bytes,
            text::table_heading(),
            text::table_row("round trip", &figures),
            done.answered,
            done.time.as_secs_f64(),
            done.lost,
        )
    }
}
