//! From flags or a file to a running dataplane.

use base::WorkerId;
use config::startup::MorePort;
use config::{PortFlags, Startup};
use runtime::Hooks;
use stack::Message;

use crate::cli::Idle;
use crate::fault::{Fault, Outcome};
use crate::port_args::PortArgs;

/// What the flags ask for, checked.
pub(crate) fn startup(args: &PortArgs) -> Result<Startup, Fault> {
    resolve(args, flags(args)?)
}

/// The same for a port on which no stack runs, so that it needs no address.
#[cfg(feature = "dpdk")]
pub(crate) fn startup_for_frames(args: &PortArgs) -> Result<Startup, Fault> {
    let mut flags = flags(args)?;
    if args.config.is_none() && flags.addresses.is_empty() {
        // Of the block for documentation (RFC 5737); nothing is ever sent from it.
        flags.addresses.push("192.0.2.1/24".to_owned());
    }
    resolve(args, flags)
}

/// The same for a crossed pair in this process, which needs no device and has addresses of its own.
pub(crate) fn startup_of_ring(args: &PortArgs) -> Result<Startup, Fault> {
    let mut flags = flags(args)?;
    if args.config.is_none() {
        if flags.vdev.is_some() || flags.pci.is_some() || !flags.more.is_empty() {
            return Err(Fault::usage("--ring brings its own ports: leave out --vdev and --pci"));
        }
        flags.vdev = Some("net_ring0".to_owned());
        if flags.addresses.is_empty() {
            let ours = ["10.99.0.1/24", "10.99.0.2/24", "fd99::1/64", "fd99::2/64"];
            flags.addresses = ours.map(str::to_owned).to_vec();
        }
    }
    resolve(args, flags)
}

fn flags(args: &PortArgs) -> Result<PortFlags, Fault> {
    let mut ports = args.ports()?.into_iter();
    let MorePort { vdev, pci, addresses, gateways, mtu, rx_checksum } =
        ports.next().unwrap_or_default();
    Ok(PortFlags {
        vdev,
        pci,
        addresses,
        gateways,
        mtu,
        queues: None,
        rx_checksum,
        cores: args.cores.clone(),
        idle: args.idle.map(|i| match i {
            Idle::Adaptive => "adaptive".to_owned(),
            Idle::Poll => "poll".to_owned(),
        }),
        memory: args.memory.clone(),
        hugepages: args.hugepages.then_some(true),
        buffers: args.buffers.map(i64::from),
        connections: args.connections.map(i64::from),
        time_wait: args.time_wait.map(i64::from),
        instance: args.instance.clone(),
        profile: args.profile.clone(),
        sysctl: args.sysctls.clone(),
        more: ports.collect(),
    })
}

fn resolve(args: &PortArgs, flags: PortFlags) -> Result<Startup, Fault> {
    let cores = runtime::available_cores();
    match &args.config {
        Some(file) => Startup::from_file(file, &flags, &cores),
        None => Startup::from_flags(&flags, &cores),
    }
    .map_err(usage)
}

/// A configuration error as it stands; it names its place and what helps.
pub(crate) fn usage(e: config::ConfigError) -> Fault {
    Fault::usage(e.to_string())
}

#[cfg(feature = "dpdk")]
fn options(startup: &Startup) -> runtime::Options {
    runtime::Options {
        instance: startup.instance.clone(),
        socket: startup.dataplane.control,
        idle: idle(startup.dataplane.idle),
        stop_limit: startup.dataplane.stop_limit,
    }
}

#[cfg(feature = "dpdk")]
pub(crate) fn idle(policy: config::startup::IdlePolicy) -> runtime::IdlePolicy {
    match policy {
        config::startup::IdlePolicy::Poll => runtime::IdlePolicy::Poll,
        config::startup::IdlePolicy::Adaptive => runtime::IdlePolicy::Adaptive,
    }
}

/// What is called on the control thread: `on_publish` gets what applications publish.
pub(crate) fn hooks(
    on_publish: impl FnMut(WorkerId, Message) + 'static,
    on_ready: impl FnMut() + 'static,
) -> Hooks {
    Hooks {
        on_publish: Box::new(on_publish),
        links: Box::new(Vec::new),
        port_stats: Box::new(Vec::new),
        on_warning: Box::new(|text| eprintln!("millrace: {text}")),
        on_ready: Box::new(on_ready),
    }
}

/// A ring by itself loops onto itself.
#[cfg(feature = "dpdk")]
fn alone(port: &config::startup::Port) -> Fault {
    Fault::usage(format!("{}: nobody else is on a ring", port.device.name()))
        .help("two stacks in one process: millrace iperf --ring --config config/ring.toml")
        .help("two processes: net_memif, see config/memif.toml")
}

/// Makes the application of a worker, on the worker's thread.
pub(crate) type MakeApp = Box<dyn Fn() -> Box<dyn stack::App> + Send + Sync>;

/// Run `app` on every worker of `startup`; the exit code is the application's.
#[cfg(feature = "dpdk")]
pub(crate) fn run(startup: &Startup, mut hooks: Hooks, app: MakeApp) -> Outcome {
    use std::sync::Arc;

    use runtime::ports::{DeviceName, PortRequest};
    use runtime::{Dataplane, WorkerSetup};

    if let Some(port) = startup.ports.iter().find(|port| crate::ring::is_ring(port)) {
        return Err(alone(port));
    }
    for warning in &startup.warnings {
        (hooks.on_warning)(warning);
    }
    let request = |port: &config::startup::Port| PortRequest {
        device: match &port.device {
            config::startup::DeviceSpec::Vdev(v) => DeviceName::Vdev(v.to_string()),
            config::startup::DeviceSpec::Pci(p) => DeviceName::Pci(p.to_string()),
        },
        mtu: port.mtu,
        queues: port.queues,
        buffers: Some(startup.dataplane.buffers),
        promiscuous: false,
    };
    let requests: Vec<PortRequest> = startup.ports.iter().map(request).collect();
    let memory = u32::try_from(startup.dataplane.memory_bytes >> 20).ok();
    let mut open = runtime::ports::open(&requests, memory, startup.dataplane.hugepages, &[])
        .map_err(device_fault)?;
    let controls: Vec<_> = open.iter().map(|port| port.control.clone()).collect();
    let watched = controls.clone();
    hooks.links = Box::new(move || runtime::ports::links(&watched));
    hooks.port_stats = Box::new(move || runtime::ports::port_stats(&controls));

    let app = Arc::new(app);
    let queues = runtime::ports::by_worker(&mut open);
    let mut workers = Vec::new();
    for (index, queues) in queues.into_iter().enumerate() {
        let (Some(config), Some(port)) = (startup.stack_config(index), open.first()) else { break };
        let app = Arc::clone(&app);
        workers.push(WorkerSetup {
            core: startup.workers.get(index).map(|w| w.core),
            config,
            make: port.parts_of(queues, move || app()),
        });
    }
    finish(Dataplane { options: options(startup), knobs: startup.knobs().clone(), workers, hooks })
}

#[cfg(not(feature = "dpdk"))]
pub(crate) fn run(_: &Startup, _: Hooks, _: MakeApp) -> Outcome {
    Err(without_dpdk())
}

#[cfg(not(feature = "dpdk"))]
pub(crate) fn without_dpdk() -> Fault {
    Fault::new(crate::fault::ENVIRONMENT, "this build has no DPDK, and so no ports")
        .help("build with the default features: cargo build --release")
}

#[cfg(feature = "dpdk")]
pub(crate) fn device_fault(e: runtime::ports::PortFault) -> Fault {
    let code = if e.usage { crate::fault::USAGE } else { crate::fault::ENVIRONMENT };
    Fault { code, what: e.what, help: e.help }
}

/// Run, and look once more at what the workers left.
#[cfg(feature = "dpdk")]
pub(crate) fn finish<D: base::Device + 'static>(dataplane: runtime::Dataplane<D>) -> Outcome {
    let outcome = dataplane.run().map_err(|why| {
        let code = if why.contains("already running") {
            crate::fault::USAGE
        } else {
            crate::fault::FAILED
        };
        Fault::new(code, why)
    })?;
    Ok(outcome.code)
}
