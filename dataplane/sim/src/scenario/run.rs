//! One run: a scenario with a seed and a variant.

use core::time::Duration;

use base::Instant;
use tcp::TcpInfo;
use wire::protocol;
use workloads::traffic::Flow;

use super::build::{self, Built};
use super::expect::What;
use super::model::{DURATION_MAX, Scenario};
use super::record::{End, FlowSeries, FlowState, HostState, LinkSeries, Run, Series, Snapshot};
use crate::oracle::Failure;
use crate::router::FiveTuple;
use crate::world::{HostId, LinkId, Reached, Way, World};

/// Samples of a series, most and least that can be asked for.
pub const SAMPLES: [usize; 2] = [1024, 16];
/// The shortest interval between two samples.
const SAMPLE_FIRST: Duration = Duration::from_millis(1);
/// Flows that have series of their own.
pub const SERIES_FLOWS_MAX: usize = 64;
/// With more links than this, queues have no series.
pub const SERIES_LINKS_MAX: usize = 64;
/// As the engine says it: fast recovery.
const CA_RECOVERY: u8 = 3;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// The seed.
    pub seed: u64,
    /// The variant; `None` if the scenario has none.
    pub variant: Option<usize>,
    /// Keep all packets.
    pub capture: bool,
    /// Samples of a series at most, within [`SAMPLES`]; when there are more, every other one goes, and
    /// the interval doubles.
    pub samples: usize,
}

/// Where a flow is found.
#[derive(Clone, Copy)]
struct Place {
    app: usize,
    index: u32,
    from: HostId,
    to: HostId,
}

struct Runner<'s> {
    scenario: &'s Scenario,
    built: Built,
    flows: Vec<Place>,
    /// Per flow: the largest receive buffer seen.
    rcvbuf_max: Vec<u32>,
    /// Per flow: recoveries entered, and whether it is in one.
    recoveries: Vec<(u64, bool)>,
    watch_recoveries: bool,
    /// The sizes that are waited for, ascending.
    mss_wanted: Vec<u32>,
    mss_reached: Vec<Vec<(u32, Instant)>>,
    series: Series,
    /// Per flow: bytes at the last sample.
    sampled: Vec<u64>,
    interval: Duration,
    samples: usize,
}

/// Run it to its end.
///
/// # Errors
///
/// What an oracle has found.
pub fn run(scenario: &Scenario, order: Order) -> Result<Run, Box<Failure>> {
    let built = build::build(scenario, order.seed, order.variant);
    let flows: Vec<Place> = scenario
        .flows()
        .map(|(app, index)| {
            let spec = &scenario.apps[app];
            Place { app, index, from: built.hosts[spec.from], to: built.hosts[spec.to] }
        })
        .collect();
    let whats = || scenario.expects.iter().flat_map(|e| e.measures()).map(|m| &m.what);
    let mut mss_wanted: Vec<u32> = whats()
        .filter_map(|what| if let What::TimeToMss(mss) = what { Some(*mss) } else { None })
        .collect();
    mss_wanted.sort_unstable();
    mss_wanted.dedup();
    let count = flows.len();
    let links = if scenario.links.len() > SERIES_LINKS_MAX { 0 } else { scenario.links.len() };
    let mut runner = Runner {
        scenario,
        built,
        flows,
        rcvbuf_max: vec![0; count],
        recoveries: vec![(0, false); count],
        watch_recoveries: whats().any(|what| *what == What::Recoveries),
        mss_wanted,
        mss_reached: vec![Vec::new(); count],
        series: Series {
            time: Vec::new(),
            flows: vec![FlowSeries::default(); count.min(SERIES_FLOWS_MAX)],
            links: vec![LinkSeries::default(); links],
        },
        sampled: vec![0; count],
        interval: SAMPLE_FIRST,
        samples: order.samples.clamp(SAMPLES[1], SAMPLES[0]),
    };
    if order.capture {
        runner.built.world.capture();
    }
    runner.run(order)
}

impl Runner<'_> {
    fn run(mut self, order: Order) -> Result<Run, Box<Failure>> {
        let scenario = self.scenario;
        let limit = Instant::ZERO + scenario.duration.unwrap_or(DURATION_MAX);
        let warmup = Instant::ZERO + scenario.warmup;
        let times = scenario.moments().into_iter().map(|at| Instant::ZERO + at);
        let mut times = times.peekable();
        let mut moments = Vec::new();
        let mut begin = None;
        let mut next_sample = Instant::ZERO;
        let end = loop {
            let now = self.built.world.now();
            if begin.is_none() && now >= warmup {
                for link in self.built.links.clone() {
                    self.built.world.forget_queue_max(link);
                }
                begin = Some(self.snapshot());
            }
            while times.next_if(|at| *at <= now).is_some() {
                moments.push(self.snapshot());
            }
            if now >= next_sample {
                self.sample();
                next_sample = now + self.interval;
            }
            if now >= limit {
                break End::Time;
            }
            let mut until = limit.min(next_sample);
            if begin.is_none() {
                until = until.min(warmup);
            }
            if let Some(at) = times.peek() {
                until = until.min(*at);
            }
            if self.go_on(until)? == Reached::Done && scenario.duration.is_none() {
                break End::Complete;
            }
        };
        // Times after the end show the end.
        let last = self.snapshot();
        moments.extend(times.map(|_| last.clone()));
        self.sample();
        Ok(Run {
            seed: order.seed,
            variant: order.variant,
            trace: self.built.world.trace_hash(),
            end,
            begin: begin.unwrap_or_else(|| last.clone()),
            moments,
            last,
            mss_reached: self.mss_reached,
            series: self.series,
            pcap: self.built.world.pcap().map(<[u8]>::to_vec),
        })
    }

    /// Let time pass until `until`, or until all applications have ended if that ends the run.
    fn go_on(&mut self, until: Instant) -> Result<Reached, Failure> {
        let ends = self.scenario.duration.is_none();
        let idle_only = !self.scenario.apps.iter().any(|a| build::is_waited_for(&a.traffic));
        let (scenario, flows) = (self.scenario, &self.flows);
        let boards = &self.built.boards;
        let over = || {
            let mut apps = scenario.apps.iter().zip(boards);
            apps.all(|(app, board)| {
                (!idle_only && !build::is_waited_for(&app.traffic)) || board.borrow().is_over()
            })
        };
        let (recoveries, reached) = (&mut self.recoveries, &mut self.mss_reached);
        let (watch, wanted) = (self.watch_recoveries, self.mss_wanted.as_slice());
        self.built.world.run_until(until, |world| {
            if watch || !wanted.is_empty() {
                for (i, place) in flows.iter().enumerate() {
                    let Some(info) = source_info(world, place, &flow_of(boards, place)) else {
                        continue;
                    };
                    let (count, inside) = &mut recoveries[i];
                    let now_inside = info.ca_state == CA_RECOVERY;
                    *count += u64::from(now_inside && !*inside);
                    *inside = now_inside;
                    let now = world.now();
                    while let Some(mss) =
                        wanted.get(reached[i].len()).filter(|mss| info.snd_mss >= **mss)
                    {
                        reached[i].push((*mss, now));
                    }
                }
            }
            ends && over()
        })
    }

    /// Look at everything.
    fn snapshot(&mut self) -> Snapshot {
        let flows: Vec<FlowState> = (0..self.flows.len()).map(|i| self.flow_state(i)).collect();
        let world = &self.built.world;
        let links = &self.built.links;
        let counters = |id: &LinkId| Way::BOTH.map(|way| *world.link_counters(*id, way));
        let hosts = self.built.hosts.iter().map(|id| {
            let stack = world.host(*id).stack();
            let counters = stack.tcp_counters().iter().chain(stack.counters().iter());
            HostState {
                counters: counters.map(|(_, n)| n).collect(),
                drops: stack.drops().to_vec(),
            }
        });
        Snapshot {
            at: world.now(),
            flows,
            links: links.iter().map(counters).collect(),
            hosts: hosts.collect(),
        }
    }

    fn flow_state(&mut self, i: usize) -> FlowState {
        let place = self.flows[i];
        let flow = flow_of(&self.built.boards, &place);
        let world = &mut self.built.world;
        let source = source_info(world, &place, &flow);
        let sink = sink_info(world, &place, &flow);
        let rcvbuf = sink.as_ref().map_or(0, |info| info.rcvbuf);
        self.rcvbuf_max[i] = self.rcvbuf_max[i].max(rcvbuf);
        let mut state = FlowState {
            opened_at: flow.opened_at,
            completed_at: flow.completed_at,
            failed: flow.failed,
            bytes: flow.bytes(),
            transactions: flow.transactions,
            wrong: flow.wrong_at.is_some(),
            recoveries: self.recoveries[i].0,
            rcvbuf,
            rcvbuf_max: self.rcvbuf_max[i],
            rcv_wnd: sink.as_ref().map_or(0, |info| info.rcv_wnd),
            ..FlowState::default()
        };
        if let Some(info) = source {
            state.mss = info.snd_mss;
            state.cwnd = info.snd_cwnd;
            state.srtt = info.rtt;
            state.rtos = info.rto_count;
            state.retransmits = info.total_retrans;
            state.spurious = info.dsack_dups.into();
            state.segments = info.data_segs_out.into();
            state.rehashes = info.rehash.into();
            state.busy = info.busy_time;
            state.window_limited = info.rwnd_limited;
        }
        state
    }

    /// Add a sample to each series.
    fn sample(&mut self) {
        let now = self.built.world.now();
        if self.series.time.len() >= self.samples {
            self.thin_out();
        }
        let before = self.series.time.last().copied().unwrap_or(0.0);
        let time = now.since(Instant::ZERO).as_secs_f64();
        if !self.series.time.is_empty() && time <= before {
            return;
        }
        self.series.time.push(time);
        for i in 0..self.flows.len() {
            let state = self.flow_state(i);
            let path = if i < SERIES_FLOWS_MAX { self.path_of(i) } else { None };
            let bytes = state.bytes.saturating_sub(self.sampled[i]);
            self.sampled[i] = state.bytes;
            let Some(series) = self.series.flows.get_mut(i) else { continue };
            let passed = time - before;
            series.goodput.push(if passed > 0.0 { bytes as f64 * 8.0 / passed } else { 0.0 });
            series.cwnd.push(u64::from(state.cwnd) * u64::from(state.mss));
            series.rcv_wnd.push(state.rcv_wnd);
            series.rcvbuf.push(state.rcvbuf);
            series.mss.push(state.mss);
            series.srtt.push(state.srtt.as_secs_f64());
            series.path.push(path);
        }
        for (id, series) in self.built.links.iter().zip(&mut self.series.links) {
            for (way, queue) in Way::BOTH.into_iter().zip(&mut series.queue) {
                queue.push(self.built.world.backlog(*id, way).bytes);
            }
        }
    }

    /// Half of the samples will do.
    fn thin_out(&mut self) {
        fn odd<T: Copy>(list: &mut Vec<T>) {
            let mut index = 0;
            list.retain(|_| {
                index += 1;
                index % 2 == 0
            });
        }
        self.interval *= 2;
        odd(&mut self.series.time);
        for f in &mut self.series.flows {
            // What two intervals carried is the mean of both.
            for i in (1..f.goodput.len()).step_by(2) {
                f.goodput[i] = f64::midpoint(f.goodput[i - 1], f.goodput[i]);
            }
            odd(&mut f.goodput);
            odd(&mut f.cwnd);
            odd(&mut f.rcv_wnd);
            odd(&mut f.rcvbuf);
            odd(&mut f.mss);
            odd(&mut f.srtt);
            odd(&mut f.path);
        }
        for link in &mut self.series.links {
            link.queue.iter_mut().for_each(odd);
        }
    }

    /// The link that the last data packet of a flow took where there was a choice.
    fn path_of(&self, i: usize) -> Option<usize> {
        let place = self.flows[i];
        let flow = flow_of(&self.built.boards, &place);
        let spec = &self.scenario.apps[place.app];
        let host = self.built.world.host(place.from);
        let port = flow.port?;
        let dst = spec.target;
        let same = |a: &&stack::LocalAddress| a.addr.is_ipv6() == dst.is_ipv6();
        // A host with several addresses has one of them in the packets; whichever was seen it is.
        host.addresses().iter().filter(same).find_map(|a| {
            let ports = [port, build::port_of(place.app)];
            let tuple = FiveTuple { src: a.addr, dst, protocol: protocol::TCP, ports };
            let way = self.built.world.ways_of(&tuple).into_iter().next()?;
            self.built.links.iter().position(|id| *id == way)
        })
    }
}

fn flow_of(boards: &[workloads::traffic::SharedBoard], place: &Place) -> Flow {
    let board = boards.get(place.app).map(|b| b.borrow());
    board.and_then(|b| b.flows.get(place.index as usize).cloned()).unwrap_or_default()
}

fn source_info(world: &mut World, place: &Place, flow: &Flow) -> Option<TcpInfo> {
    let Some(conn) = flow.source else { return flow.source_info };
    let now = world.now();
    world.host_mut(place.from).stack_mut().with_app(now, |_, io| io.info(conn))
}

fn sink_info(world: &mut World, place: &Place, flow: &Flow) -> Option<TcpInfo> {
    let Some(conn) = flow.sink else { return flow.sink_info };
    let now = world.now();
    world.host_mut(place.to).stack_mut().with_app(now, |_, io| io.info(conn))
}
