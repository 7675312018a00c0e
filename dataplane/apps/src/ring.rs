//! Two stacks in this process, joined by a crossed `net_ring` pair: no interface, no hugepages, no
//! root.

use std::net::IpAddr;

use stack::{App, Message};

use crate::fault::{Fault, Outcome};
use crate::port_args::PortArgs;
use crate::ports;

/// What both stacks have in common, checked.
// Without DPDK the flags are still checked, and then there is nothing to run.
#[cfg_attr(not(feature = "dpdk"), allow(dead_code))]
pub(crate) struct Ring {
    /// Where the server will be.
    pub(crate) server: IpAddr,
    /// Where the client will be.
    pub(crate) client: IpAddr,
    mtu: u16,
    knobs: config::Knobs,
    limits: stack::Limits,
    idle: config::startup::IdlePolicy,
    instance: Option<String>,
}

impl Ring {
    /// From flags of a port, of which those that describe a device mean nothing here.
    pub(crate) fn new(args: &PortArgs, version6: bool) -> Result<Self, Fault> {
        let v6 = |last: u16| IpAddr::from([0xfd99, 0, 0, 0, 0, 0, 0, last]);
        let v4 = |last: u8| IpAddr::from([10, 99, 0, last]);
        let (server, client) = if version6 { (v6(1), v6(2)) } else { (v4(1), v4(2)) };
        let mtu = args.mtus.last().copied().unwrap_or(1500);
        if !(1280..=config::startup::MTU_MAX).contains(&mtu) {
            return Err(Fault::usage(format!(
                "--mtu {mtu} is not in 1280..{}",
                config::startup::MTU_MAX
            )));
        }
        let profile = match args.profile.as_deref() {
            None => config::Profile::Millrace,
            Some(name) => name.parse().map_err(|e| Fault::usage(format!("--profile: {e}")))?,
        };
        let mut knobs = config::Knobs::new(profile);
        for assignment in &args.sysctls {
            let (name, value) = assignment
                .split_once('=')
                .ok_or_else(|| Fault::usage(format!("--sysctl {assignment}: not NAME=VALUE")))?;
            knobs
                .set(name.trim(), value, config::Source::CommandLine)
                .map_err(|e| Fault::usage(format!("--sysctl: {e}")))?;
        }
        let mut limits = stack::Limits::default();
        knobs.apply_limits(&mut limits);
        if let Some(n) = args.connections {
            limits.connections = n.clamp(1, 1 << 24);
        }
        if let Some(n) = args.time_wait {
            limits.time_wait = n.min(1 << 24);
        }
        limits.half_open = limits.half_open.min(limits.connections);
        let idle = match args.idle {
            Some(crate::cli::Idle::Poll) => config::startup::IdlePolicy::Poll,
            _ => config::startup::IdlePolicy::Adaptive,
        };
        Ok(Self { server, client, mtu, knobs, limits, idle, instance: args.instance.clone() })
    }

    /// Bounds of each stack's tables.
    pub(crate) fn limits(&self) -> stack::Limits {
        self.limits
    }

    /// Run both; what the client publishes is shown, and its exit code counts.
    #[cfg(feature = "dpdk")]
    pub(crate) fn run(
        self,
        server: impl FnOnce() -> Box<dyn App> + Send + 'static,
        client: impl FnOnce() -> Box<dyn App> + Send + 'static,
        mut show: impl FnMut(Message) + 'static,
    ) -> Outcome {
        use base::WorkerId;
        use runtime::{Dataplane, Options, WorkerSetup};
        use stack::{LocalAddress, PortSetup, StackConfig};
        use std::time::Duration;

        /// How long the stop may take: there is nobody to be polite to.
        const STOP_LIMIT: Duration = Duration::from_secs(2);

        let (mut a, mut b) =
            runtime::ports::ring_pair(self.mtu, None).map_err(ports::device_fault)?;
        let (mtu, limits) = (self.mtu, self.limits);
        let stack_config = |worker: u16, addr: IpAddr| StackConfig {
            worker: WorkerId(worker),
            workers: 1,
            ports: vec![PortSetup {
                addresses: vec![LocalAddress {
                    addr,
                    prefix: if addr.is_ipv4() { 24 } else { 64 },
                }],
                gateway4: None,
                gateway6: None,
                mtu,
                rx_checksum: stack::ChecksumPolicy::Verify,
            }],
            limits,
            stop_limit: STOP_LIMIT,
        };
        let (Some(qa), Some(qb)) = (a.queues.pop(), b.queues.pop()) else {
            return Err(Fault::new(crate::fault::FAILED, "the ring pair has no queues"));
        };
        let cores = runtime::available_cores();
        let core = |index: usize| (cores.len() > 1).then(|| cores[index % cores.len()]);
        let workers = vec![
            WorkerSetup {
                core: core(0),
                config: stack_config(0, self.server),
                make: a.parts(qa, server),
            },
            WorkerSetup {
                core: core(1),
                config: stack_config(1, self.client),
                make: b.parts(qb, client),
            },
        ];
        let options = Options {
            socket: self.instance.is_some(),
            instance: self.instance.unwrap_or_else(|| format!("ring-{}", std::process::id())),
            idle: ports::idle(self.idle),
            stop_limit: STOP_LIMIT,
        };
        // The server's reports would only repeat the client's.
        let show = move |worker, message| {
            if worker == WorkerId(1) {
                show(message);
            }
        };
        let hooks = ports::hooks(show, || {});
        ports::finish(Dataplane { options, knobs: self.knobs, workers, hooks })
    }

    #[cfg(not(feature = "dpdk"))]
    pub(crate) fn run(
        self,
        _: impl FnOnce() -> Box<dyn App> + Send + 'static,
        _: impl FnOnce() -> Box<dyn App> + Send + 'static,
        _: impl FnMut(Message) + 'static,
    ) -> Outcome {
        Err(ports::without_dpdk())
    }
}
