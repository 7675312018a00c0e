//! DPDK ports for workers: from what a person asked for to queues that move into threads.

use std::any::Any;

use dpdk::mempool::Layout;
use dpdk::{
    Eal, EalConfig, Error, ErrorKind, Pools, Port, PortConfig, PortControl, PortQueue, RingPair,
    RxChecksum, Started, Vdev,
};
use stack::App;

use crate::control::LinkState;
use crate::worker::{MakeParts, WorkerParts};

/// Memory that EAL and its drivers need beside the buffers at least, MiB.
const EAL_MIB_MIN: u32 = 12;
/// What they get when nobody says how much, MiB.
const EAL_MIB: u32 = 48;
/// Frames in each direction of a crossed pair: fewer than the buffers, so that neither side can take
/// all of them.
const RING_FRAMES: u32 = 1024;

/// A port to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortRequest {
    /// What it is.
    pub device: DeviceName,
    /// Largest IP packet in bytes.
    pub mtu: u16,
    /// Queue pairs, one per worker.
    pub queues: u16,
    /// Buffers for frames and payload of each worker, all ports together; `None`: the default for the
    /// MTU.
    pub buffers: Option<u32>,
    /// Receive what is addressed to others, too.
    pub promiscuous: bool,
}

/// How a port is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceName {
    /// A virtual device with its arguments.
    Vdev(String),
    /// A NIC by its PCI address.
    Pci(String),
}

/// Why ports could not be opened.
#[derive(Clone, Debug)]
pub struct PortFault {
    /// The request itself is wrong (as opposed to the machine).
    pub usage: bool,
    /// What, and why.
    pub what: String,
    /// What helps, and with the last lines that DPDK logged.
    pub help: Vec<String>,
}

impl From<Error> for PortFault {
    fn from(e: Error) -> Self {
        /// More log lines than this bury the help.
        const DETAIL_LINES: usize = 4;
        let mut help = e.help.clone();
        let skip = e.detail.len().saturating_sub(DETAIL_LINES);
        help.extend(e.detail.iter().skip(skip).map(|line| format!("| {line}")));
        Self { usage: e.kind == ErrorKind::Configuration, what: e.to_string(), help }
    }
}

/// A port that runs, and proof that its environment does.
pub struct OpenPort {
    eal: Eal,
    /// Statistics and link.
    pub control: PortControl,
    /// One per worker.
    pub queues: Vec<PortQueue>,
    /// What was wanted and cannot be had, in words.
    pub missing: Vec<&'static str>,
}

fn port_config(request: &PortRequest) -> PortConfig {
    let mut config = PortConfig {
        mtu: request.mtu,
        queues: request.queues,
        // A device's verdicts are believed in any case; the stack verifies what has none, which on
        // software devices is everything.
        rx_checksum: RxChecksum::Trust,
        promiscuous: request.promiscuous,
        ..PortConfig::default()
    };
    if let Some(buffers) = request.buffers {
        config.buffers = buffers;
        config.header_buffers = buffers.saturating_mul(2);
    }
    config
}

/// Start EAL and open the ports of `requests`, in this order. The queues with one number share their
/// buffers: they are one worker's. EAL can be started once per process.
///
/// # Errors
/// What is wrong with the requests or the machine, found before EAL starts where possible.
pub fn open(
    requests: &[PortRequest],
    memory_mib: Option<u32>,
    hugepages: bool,
    extra: &[String],
) -> Result<Vec<OpenPort>, PortFault> {
    let configs: Vec<PortConfig> = requests.iter().map(port_config).collect();
    let Some(shared) = shared_buffers(&configs) else { return Ok(Vec::new()) };
    let (mut eal, names) = prepare(requests, memory_mib, hugepages)?;
    eal.extra = extra.to_vec();
    let eal = Eal::init(&eal)?;
    let ports: Vec<Port> =
        names.iter().map(|name| Port::open(&eal, name)).collect::<Result<_, _>>()?;
    let mut room = 0;
    for (port, config) in ports.iter().zip(&configs) {
        room = room.max(port.room_needed(config)?);
    }
    // Where ports are on different nodes, no choice suits all.
    let socket = ports.first().map_or(-1, Port::socket);
    let layout = ports.iter().map(Port::layout).max().unwrap_or(Layout::Packed);
    let (buffers, headers) = ((shared.buffers, room), shared.header_buffers);
    let pools = (0..shared.queues)
        .map(|_| Pools::new(&eal, buffers, headers, socket, layout))
        .collect::<Result<Vec<_>, _>>()?;
    ports
        .into_iter()
        .zip(configs)
        .map(|(port, config)| {
            // No port may have all of them in its descriptors.
            let buffers = config.buffers / requests.len() as u32;
            let config = PortConfig { buffers, ..config };
            Ok(opened(&eal, port.start_with(&config, &pools)?))
        })
        .collect()
}

/// The buffers of one worker as if they were those of one port: enough for whoever wants most, and
/// for the largest frames.
fn shared_buffers(configs: &[PortConfig]) -> Option<PortConfig> {
    configs.iter().cloned().reduce(|a, b| PortConfig {
        mtu: a.mtu.max(b.mtu),
        queues: a.queues.max(b.queues),
        buffers: a.buffers.max(b.buffers),
        header_buffers: a.header_buffers.max(b.header_buffers),
        ..a
    })
}

/// Start EAL and make two ports of which each receives what the other sends. `buffers` is how many
/// each has; `None`: the default for the MTU.
///
/// # Errors
/// What is wrong with the machine.
pub fn ring_pair(
    mtu: u16,
    buffers: Option<u32>,
    hugepages: bool,
) -> Result<(OpenPort, OpenPort), PortFault> {
    let mut config = PortConfig { mtu, ..PortConfig::default() };
    if let Some(buffers) = buffers {
        config.buffers = buffers;
        config.header_buffers = buffers.saturating_mul(2);
    }
    let eal = Eal::init(&environment(&[config.clone(), config.clone()], None, hugepages)?)?;
    let RingPair { a, b } = RingPair::create(&eal, "millrace", 1, RING_FRAMES)?;
    Ok((start(&eal, a, &config)?, start(&eal, b, &config)?))
}

/// Everything that is known to keep `request` from starting, without starting anything.
pub fn preflight(
    request: &PortRequest,
    memory_mib: Option<u32>,
    hugepages: bool,
) -> Vec<PortFault> {
    match prepare(std::slice::from_ref(request), memory_mib, hugepages) {
        Err(fault) => vec![fault],
        Ok((eal, _)) => {
            let found = dpdk::preflight::check(&dpdk::Host::probe(), &eal);
            found.into_iter().map(PortFault::from).collect()
        }
    }
}

/// Releases of DPDK: of the headers at build time, and of the library that is loaded.
pub fn versions() -> ((u32, u32), (u32, u32)) {
    let dpdk::Versions { built, loaded } = dpdk::Versions::of_this_process();
    (built, loaded)
}

/// Names of the features with which the interface `name` leaves work to hardware that a veth does
/// not have, as `ethtool -K` knows them; `None` if it does not tell.
pub fn link_offloads(name: &str) -> Option<Vec<&'static str>> {
    let f = dpdk::host::link_features(name)?;
    let all = [(f.tx_checksum, "tx"), (f.tso, "tso"), (f.gso, "gso")];
    Some(all.into_iter().filter_map(|(on, name)| on.then_some(name)).collect())
}

/// How EAL is started for `requests`, and the names of their ports.
fn prepare(
    requests: &[PortRequest],
    memory_mib: Option<u32>,
    hugepages: bool,
) -> Result<(EalConfig, Vec<String>), PortFault> {
    let configs: Vec<PortConfig> = requests.iter().map(port_config).collect();
    let shared = shared_buffers(&configs);
    let mut eal = environment(shared.as_slice(), memory_mib, hugepages)?;
    let mut names = Vec::new();
    for request in requests {
        names.push(match &request.device {
            DeviceName::Vdev(text) => {
                let vdev: Vdev = text.parse::<Vdev>()?.prepare(request.mtu, request.queues)?;
                let name = vdev.name().to_owned();
                eal.vdevs.push(vdev);
                name
            }
            DeviceName::Pci(address) => {
                eal.pci.push(address.clone());
                address.clone()
            }
        });
    }
    Ok((eal, names))
}

fn environment(
    ports: &[PortConfig],
    memory_mib: Option<u32>,
    hugepages: bool,
) -> Result<EalConfig, PortFault> {
    if hugepages {
        return Ok(EalConfig::hugepages(memory_mib));
    }
    let needed: u64 = ports.iter().map(|p| p.memory_needed()).sum();
    let buffers = u32::try_from(needed.div_ceil(1 << 20)).unwrap_or(u32::MAX);
    let needed = buffers.saturating_add(EAL_MIB_MIN);
    match memory_mib {
        Some(given) if given < needed => Err(PortFault {
            usage: true,
            what: format!("memory of {given} MiB is too small: the buffers need {needed} MiB"),
            help: vec!["give more with --memory, or fewer buffers in [limits]".to_owned()],
        }),
        given => Ok(EalConfig::software(given.unwrap_or(buffers.saturating_add(EAL_MIB)))),
    }
}

fn start(eal: &Eal, port: Port, config: &PortConfig) -> Result<OpenPort, PortFault> {
    Ok(opened(eal, port.start(config)?))
}

fn opened(eal: &Eal, started: Started) -> OpenPort {
    OpenPort {
        eal: eal.clone(),
        control: started.control,
        queues: started.queues,
        missing: started.missing,
    }
}

impl OpenPort {
    /// Make the calling thread known to DPDK for as long as the answer lives.
    pub(crate) fn register(&self) -> Result<dpdk::thread::Registration, String> {
        dpdk::thread::register(&self.eal).map_err(|e| e.report(false))
    }

    /// The parts of the worker that gets `queue` of this port.
    pub fn parts(
        &self,
        queue: PortQueue,
        app: impl FnOnce() -> Box<dyn App> + Send + 'static,
    ) -> MakeParts<PortQueue> {
        self.parts_of(vec![queue], app)
    }

    /// The parts of the worker that gets `queues`, one of each port.
    pub fn parts_of(
        &self,
        queues: Vec<PortQueue>,
        app: impl FnOnce() -> Box<dyn App> + Send + 'static,
    ) -> MakeParts<PortQueue> {
        let eal = self.eal.clone();
        Box::new(move || {
            let registration = dpdk::thread::register(&eal).map_err(|e| e.report(false))?;
            let guard: Box<dyn Any> = Box::new(registration);
            Ok(WorkerParts { devices: queues, app: app(), guard })
        })
    }
}

/// Queues by worker: queue `k` of each port for worker `k`, in the order of the ports. As many
/// workers as the port with the fewest queues has.
pub fn by_worker(ports: &mut [OpenPort]) -> Vec<Vec<PortQueue>> {
    let workers = ports.iter().map(|port| port.queues.len()).min().unwrap_or(0);
    let mut queues: Vec<_> =
        ports.iter_mut().map(|port| std::mem::take(&mut port.queues).into_iter()).collect();
    (0..workers).map(|_| queues.iter_mut().filter_map(Iterator::next).collect()).collect()
}

/// State of the links of `ports`; one that does not answer counts as down.
pub fn links(ports: &[PortControl]) -> Vec<LinkState> {
    ports
        .iter()
        .map(|p| LinkState {
            name: p.info().name.clone(),
            up: p.link().is_ok_and(|l| l.up),
            lost: p.lost(),
        })
        .collect()
}

/// Counters of `ports` under the names that testpmd gives them.
pub fn port_stats(ports: &[PortControl]) -> Vec<(String, u64)> {
    let mut all = Vec::new();
    for port in ports {
        let Ok(s) = port.stats() else { continue };
        let name = &port.info().name;
        for (what, value) in [
            ("RX-packets", s.rx_packets),
            ("RX-bytes", s.rx_bytes),
            ("RX-missed", s.rx_missed),
            ("RX-errors", s.rx_errors),
            ("RX-nombuf", s.rx_no_buffer),
            ("TX-packets", s.tx_packets),
            ("TX-bytes", s.tx_bytes),
            ("TX-errors", s.tx_errors),
        ] {
            all.push((format!("{name}.{what}"), value));
        }
    }
    all
}
