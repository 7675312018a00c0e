//! Two stacks in this process, joined by a crossed `net_ring` pair: no interface, no hugepages, no
//! root.

use std::net::IpAddr;

use config::Startup;
use config::startup::{DeviceSpec, Port};
use stack::{App, LocalAddress, Message};

use crate::fault::{Fault, Outcome};
use crate::port_args::PortArgs;
use crate::ports;

/// The device by which files and flags mean a crossed pair.
const DRIVER: &str = "net_ring";

/// What both stacks have in common, checked.
// Without DPDK the flags are still checked, and then there is nothing to run.
#[cfg_attr(not(feature = "dpdk"), allow(dead_code))]
pub(crate) struct Ring {
    /// Where the server will be.
    pub(crate) server: IpAddr,
    startup: Startup,
    /// Its addresses and those of the client.
    addresses: [Vec<LocalAddress>; 2],
    /// Whether there is a control socket: only where somebody has named the instance.
    socket: bool,
}

impl Ring {
    /// From a file or from flags, whose one port describes both ends.
    pub(crate) fn new(args: &PortArgs, version6: bool) -> Result<Self, Fault> {
        let startup = ports::startup_of_ring(args)?;
        let port = match startup.ports.as_slice() {
            [port] if is_ring(port) => port,
            _ => {
                return Err(Fault::usage("--ring: the port of the file is another device")
                    .help("one [[port]] with vdev = \"net_ring0\", as in config/ring.toml"));
            }
        };
        if startup.workers.len() > 2 {
            return Err(Fault::usage("--ring: two stacks have two workers, and more are listed"));
        }
        let addresses = ends(&port.addresses);
        let [of_server, of_client] = &addresses;
        let of_family = |a: &&LocalAddress| a.addr.is_ipv6() == version6;
        let (Some(server), Some(_)) =
            (of_server.iter().find(of_family), of_client.iter().find(of_family))
        else {
            let family = if version6 { "IPv6" } else { "IPv4" };
            return Err(Fault::usage(format!("--ring: there are no two {family} addresses"))
                .help("the first of a family is the server's, the others are the client's"));
        };
        let server = server.addr;
        let socket = match args.config {
            Some(_) => startup.dataplane.control,
            None => args.instance.is_some(),
        };
        Ok(Self { server, startup, addresses, socket })
    }

    /// Bounds of each stack's tables.
    pub(crate) fn limits(&self) -> stack::Limits {
        self.startup.limits
    }

    /// Both ends, the server's first, and where their workers belong.
    #[cfg(feature = "dpdk")]
    pub(crate) fn open(&self) -> Result<[(runtime::ports::OpenPort, Option<usize>); 2], Fault> {
        for warning in &self.startup.warnings {
            eprintln!("millrace: {warning}");
        }
        let dataplane = &self.startup.dataplane;
        let mtu = self.startup.ports.first().map_or(1500, |port| port.mtu);
        let (a, b) = runtime::ports::ring_pair(mtu, Some(dataplane.buffers), dataplane.hugepages)
            .map_err(ports::device_fault)?;
        let cores = match self.startup.workers.as_slice() {
            [a, b] => vec![a.core, b.core],
            _ => runtime::available_cores(),
        };
        let core = |index: usize| (cores.len() > 1).then(|| cores[index % cores.len()]);
        Ok([(a, core(0)), (b, core(1))])
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
        use stack::{PortSetup, StackConfig};
        use std::time::Duration;

        /// How long the stop may take: there is nobody to be polite to.
        const STOP_LIMIT: Duration = Duration::from_secs(2);

        let [(mut a, core_a), (mut b, core_b)] = self.open()?;
        let Self { server: _, startup, addresses: [of_server, of_client], socket } = self;
        let stack_config = |worker: u16, addresses: Vec<LocalAddress>| StackConfig {
            worker: WorkerId(worker),
            workers: 1,
            ports: startup
                .ports
                .iter()
                .map(|port| PortSetup {
                    addresses: addresses.clone(),
                    gateway4: None,
                    gateway6: None,
                    mtu: port.mtu,
                    rx_checksum: port.rx_checksum,
                })
                .collect(),
            limits: startup.limits,
            stop_limit: STOP_LIMIT,
        };
        let (Some(qa), Some(qb)) = (a.queues.pop(), b.queues.pop()) else {
            return Err(Fault::new(crate::fault::FAILED, "the ring pair has no queues"));
        };
        let workers = vec![
            WorkerSetup {
                core: core_a,
                config: stack_config(0, of_server),
                make: a.parts(qa, server),
            },
            WorkerSetup {
                core: core_b,
                config: stack_config(1, of_client),
                make: b.parts(qb, client),
            },
        ];
        let options = Options {
            socket,
            instance: match socket {
                true => startup.instance.clone(),
                false => format!("ring-{}", std::process::id()),
            },
            idle: ports::idle(startup.dataplane.idle),
            stop_limit: STOP_LIMIT,
        };
        // The server's reports would only repeat the client's.
        let show = move |worker, message| {
            if worker == WorkerId(1) {
                show(message);
            }
        };
        let hooks = ports::hooks(show, || {});
        ports::finish(Dataplane { options, knobs: startup.knobs().clone(), workers, hooks })
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

/// Whether a port stands for a crossed pair.
pub(crate) fn is_ring(port: &Port) -> bool {
    matches!(&port.device, DeviceSpec::Vdev(v) if v.driver() == DRIVER)
}

/// Who has which address: the server the first of each family, the client all others.
fn ends(all: &[LocalAddress]) -> [Vec<LocalAddress>; 2] {
    let first = |v6: bool| all.iter().find(|a| a.addr.is_ipv6() == v6).map(|a| a.addr);
    let firsts = [first(false), first(true)];
    let (server, client): (Vec<LocalAddress>, Vec<LocalAddress>) =
        all.iter().copied().partition(|a| firsts.contains(&Some(a.addr)));
    [server, client]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_address_of_each_family_is_the_servers() {
        let local = |addr: &str| LocalAddress { addr: addr.parse().unwrap(), prefix: 24 };
        let all = ["10.0.0.1", "fd00::1", "10.0.0.2", "10.0.0.3", "fd00::2"].map(local);
        let [server, client] = ends(&all);
        assert_eq!(server, ["10.0.0.1", "fd00::1"].map(local));
        assert_eq!(client, ["10.0.0.2", "10.0.0.3", "fd00::2"].map(local));
        assert_eq!(ends(&[]), [Vec::new(), Vec::new()]);
    }
}
