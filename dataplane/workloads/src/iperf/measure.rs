//! What both roles do while a test runs: streams, intervals, the omitted period, and what comes out.

use core::time::Duration;

use base::{ConnId, Instant};
use serde_json::{Value, json};
use stack::Io;

use super::code::Code;
use super::host::CpuUsage;
use super::params::{Direction, Params};
use super::report::{
    CpuPercent, Interval, Side, StreamInfo, StreamInterval, StreamSummary, Sum, Summary, Transfer,
};
use super::results::{Results, SenderRetransmits, StreamResult};
use super::stream::{Payload, Quota, Stream};

/// The number in brackets of the first stream.
const FIRST_LABEL: u32 = 5;
/// A test goes on for this long after a data connection was lost: the peer's word about it may be
/// on its way.
const LOST_STREAM_LIMIT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Streams come in.
    Gathering,
    /// After TEST_START: timers run.
    Started,
    /// After TEST_RUNNING: data flows and counts.
    Running,
    /// Nothing counts any more.
    Ended,
}

/// What [`Measurement::on_stream`] has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnStream {
    /// The connection is none of the streams.
    NotOurs,
    /// All is done until the next event.
    Done,
    /// Call [`Measurement::on_time`] at this time, no event will say so.
    WakeAt(Instant),
}

/// What the end condition says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndReached {
    /// Go on.
    No,
    /// End the test.
    Now,
    /// TCP has taken the last byte or block. The word about the end travels on another connection
    /// and would overtake it, so it waits until the peer has it all.
    OnceDelivered,
}

/// One test on one side.
#[derive(Debug)]
pub(crate) struct Measurement {
    side: Side,
    pub(crate) params: Params,
    interval: Option<Duration>,
    rcv_timeout: Duration,
    verify: bool,
    pub(crate) streams: Vec<Stream>,
    /// The connections of `streams`, in the same order: few cache lines to search at each event.
    conns: Vec<ConnId>,
    payload: Payload,
    quota: Quota,
    phase: Phase,
    /// TEST_START.
    begun: Instant,
    /// When counting began: TEST_START or the end of the omitted period.
    start: Instant,
    omit_until: Option<Instant>,
    last_tick: Instant,
    next_tick: Option<Instant>,
    ended: Instant,
    last_received: Instant,
    cpu_begin: CpuUsage,
    cpu: CpuPercent,
}

impl Measurement {
    pub(crate) fn new(
        io: &mut dyn Io,
        side: Side,
        params: Params,
        interval: Option<Duration>,
        rcv_timeout: Duration,
        verify: bool,
    ) -> Self {
        let now = io.now();
        let payload = Payload::new(io, &params);
        let limited = side == Side::Client && params.direction != Direction::Reverse;
        let quota = if limited { quota(&params) } else { Quota::UNLIMITED };
        Self {
            side,
            // Only a pattern that both sides know can be checked.
            verify: verify && params.repeating_payload,
            streams: Vec::with_capacity(params.streams()),
            conns: Vec::with_capacity(params.streams()),
            params,
            interval,
            rcv_timeout,
            payload,
            quota,
            phase: Phase::Gathering,
            begun: now,
            start: now,
            omit_until: None,
            last_tick: now,
            next_tick: None,
            ended: now,
            last_received: now,
            cpu_begin: CpuUsage::default(),
            cpu: CpuPercent::default(),
        }
    }

    /// Whether the stream at `index` in the order of opening is sent by this side: client to server
    /// comes first when there are both.
    fn sends(&self, index: usize) -> bool {
        let client_sends = match self.params.direction {
            Direction::Forward => true,
            Direction::Reverse => false,
            Direction::Bidirectional => index < self.params.parallel as usize,
        };
        client_sends == (self.side == Side::Client)
    }

    /// Take in the next connection in the order of opening.
    pub(crate) fn add_stream(&mut self, io: &mut dyn Io, conn: ConnId) -> StreamInfo {
        let index = self.streams.len();
        let unknown = core::net::SocketAddr::from(([0, 0, 0, 0], 0));
        // At most 256 streams.
        let number = index as u32;
        let info = StreamInfo {
            label: FIRST_LABEL + number,
            // 1, 3, 4, 5, …: the gap is part of the protocol.
            id: if number == 0 { 1 } else { number + 2 },
            local: io.local_addr(conn).unwrap_or(unknown),
            remote: io.remote_addr(conn).unwrap_or(unknown),
            sender: self.sends(index),
        };
        let mut stream = Stream::new(conn, info, self.verify);
        stream.look(io);
        self.streams.push(stream);
        self.conns.push(conn);
        info
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.streams.len() >= self.params.streams()
    }

    /// TEST_START.
    pub(crate) fn start(&mut self, now: Instant, cpu: CpuUsage) {
        self.phase = Phase::Started;
        self.begun = now;
        self.cpu_begin = cpu;
        if self.params.omit_secs > 0 {
            self.omit_until = Some(now + secs(self.params.omit_secs));
        }
        self.count_from(now);
    }

    fn count_from(&mut self, now: Instant) {
        self.start = now;
        self.last_tick = now;
        self.next_tick = self.interval.map(|i| now + i);
    }

    /// TEST_RUNNING.
    pub(crate) fn run(&mut self, io: &mut dyn Io) {
        self.phase = Phase::Running;
        self.last_received = io.now();
        for stream in &mut self.streams {
            stream.run(io.now(), &self.params);
        }
        self.pump_all(io);
    }

    pub(crate) fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    /// Something changed on `conn`: send or receive what is possible now.
    pub(crate) fn on_stream(&mut self, io: &mut dyn Io, conn: ConnId) -> OnStream {
        let Some(index) = self.index_of(conn) else { return OnStream::NotOurs };
        self.pump(io, index);
        match self.streams.get(index).and_then(|s| s.wake) {
            Some(at) => OnStream::WakeAt(at),
            None => OnStream::Done,
        }
    }

    /// The end may be reached by bytes or blocks, at any event.
    pub(crate) fn ends_by_amount(&self) -> bool {
        self.params.num > 0 || self.params.blockcount > 0
    }

    fn index_of(&self, conn: ConnId) -> Option<usize> {
        let index = self.conns.iter().position(|c| *c == conn)?;
        self.streams.get(index).filter(|s| s.closed_at.is_none())?;
        Some(index)
    }

    fn pump_all(&mut self, io: &mut dyn Io) {
        for index in 0..self.streams.len() {
            self.pump(io, index);
        }
    }

    fn pump(&mut self, io: &mut dyn Io, index: usize) {
        let Some(stream) = self.streams.get_mut(index).filter(|s| s.closed_at.is_none()) else {
            return;
        };
        match (self.phase, stream.info.sender) {
            // Early data waits in its receive buffer, so that it counts once counting begins.
            (Phase::Gathering | Phase::Started, _) => {}
            (Phase::Running, true) => {
                stream.send(io, &self.payload, &mut self.quota);
                // A receiver of ours has nothing to say; should it, its window must not matter.
                stream.discard(io);
            }
            (Phase::Running, false) => {
                if stream.receive(io, &self.payload) {
                    self.last_received = io.now();
                }
            }
            (Phase::Ended, _) => stream.discard(io),
        }
    }

    /// The connection is gone; false if it is none of the streams.
    pub(crate) fn on_closed(&mut self, now: Instant, conn: ConnId) -> bool {
        let Some(index) = self.index_of(conn) else { return false };
        if let Some(stream) = self.streams.get_mut(index) {
            stream.closed_at = Some(now);
            stream.wake = None;
        }
        true
    }

    /// Timers: the end of the omitted period, intervals, paced senders.
    pub(crate) fn on_time(&mut self, io: &mut dyn Io, intervals: &mut Vec<Interval>) {
        let now = io.now();
        if !matches!(self.phase, Phase::Started | Phase::Running) {
            return;
        }
        for index in 0..self.streams.len() {
            if self.streams.get(index).and_then(|s| s.wake).is_some_and(|at| at <= now) {
                self.pump(io, index);
            }
        }
        if self.omit_until.is_some_and(|at| at <= now) {
            self.last_interval(io, intervals);
            self.omit_until = None;
            for stream in &mut self.streams {
                stream.reset_counters();
            }
            if self.side == Side::Client && self.params.direction != Direction::Reverse {
                self.quota = quota(&self.params);
                self.pump_all(io);
            }
            self.count_from(now);
        }
        if self.next_tick.is_some_and(|at| at <= now) {
            let tick = self.end_interval(io);
            intervals.push(tick);
            // After a long pause one late interval is better than many empty ones.
            let step = self.interval.unwrap_or(Duration::MAX);
            let planned = self.next_tick.unwrap_or(now) + step;
            self.next_tick = Some(if planned > now { planned } else { now + step });
        }
    }

    /// The next time at which [`Measurement::on_time`] or [`Measurement::fault`] has work.
    pub(crate) fn deadline(&self) -> Instant {
        if !matches!(self.phase, Phase::Started | Phase::Running) {
            return Instant::FAR_FUTURE;
        }
        let wakes = self.streams.iter().filter_map(|s| s.wake);
        let fixed = [self.omit_until, self.next_tick, Some(self.fault_at().0)];
        wakes.chain(fixed.into_iter().flatten()).min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// When to give up if nothing changes, and with what.
    fn fault_at(&self) -> (Instant, Code) {
        if self.phase != Phase::Running {
            return (Instant::FAR_FUTURE, Code::IDLE_DATA);
        }
        let mut first = (Instant::FAR_FUTURE, Code::IDLE_DATA);
        let mut consider = |at: Instant, code| {
            if at < first.0 {
                first = (at, code);
            }
        };
        for stream in &self.streams {
            if let Some(closed) = stream.closed_at {
                let code = if stream.info.sender { Code::STREAM_WRITE } else { Code::STREAM_READ };
                consider(closed + LOST_STREAM_LIMIT, code);
            }
        }
        if self.streams.iter().any(|s| !s.info.sender) {
            consider(self.last_received + self.rcv_timeout, Code::IDLE_DATA);
        }
        // A peer that does not read holds a sender up; one stream that moves is enough.
        let senders = || self.streams.iter().filter(|s| s.info.sender);
        if senders().all(|s| s.blocked_since.is_some())
            && let Some(last) = senders().filter_map(|s| s.blocked_since).max()
        {
            consider(last + self.rcv_timeout, Code::IDLE_DATA);
        }
        first
    }

    /// Why the test cannot go on, if it cannot.
    pub(crate) fn fault(&self, now: Instant) -> Option<Code> {
        let (at, code) = self.fault_at();
        (at <= now).then_some(code)
    }

    /// When the time of the test is up; `None` if it does not end by time.
    pub(crate) fn time_up(&self) -> Option<Instant> {
        let by_time = self.params.num == 0 && self.params.blockcount == 0;
        let total = secs(self.params.omit_secs) + secs(self.params.time_secs);
        (by_time && self.params.time_secs > 0).then(|| self.begun + total)
    }

    /// Whether the client's end condition is met.
    pub(crate) fn end_reached(&self, now: Instant) -> EndReached {
        if self.phase != Phase::Running || self.omit_until.is_some() {
            return EndReached::No;
        }
        if self.time_up().is_some_and(|at| at <= now) || self.amount_reached(false) {
            return EndReached::Now;
        }
        if self.amount_reached(true) { EndReached::OnceDelivered } else { EndReached::No }
    }

    fn amount_reached(&self, sender: bool) -> bool {
        let streams = || self.streams.iter().filter(|s| s.info.sender == sender);
        let bytes = streams().fold(0u64, |sum, s| sum.saturating_add(s.bytes));
        let blocks = streams().fold(0u64, |sum, s| sum.saturating_add(s.blocks(self.params.len)));
        (self.params.num > 0 && bytes >= self.params.num)
            || (self.params.blockcount > 0 && blocks >= self.params.blockcount)
    }

    /// The peer's TCP has acknowledged all that was sent.
    pub(crate) fn is_delivered(&self, io: &dyn Io) -> bool {
        let mut infos = self.streams.iter().filter(|s| s.info.sender && s.closed_at.is_none());
        infos.all(|s| io.info(s.conn).is_none_or(|i| i.unacked == 0 && i.notsent_bytes == 0))
    }

    /// The end: a last look, the rest of the interval, and from now on nothing counts.
    pub(crate) fn finish(&mut self, io: &mut dyn Io, cpu: CpuUsage, intervals: &mut Vec<Interval>) {
        if self.phase == Phase::Running {
            // What has arrived before the peer's word about the end counts.
            for stream in self.streams.iter_mut().filter(|s| !s.info.sender) {
                if stream.closed_at.is_none() {
                    stream.receive(io, &self.payload);
                }
            }
        }
        if matches!(self.phase, Phase::Started | Phase::Running) {
            self.last_interval(io, intervals);
            self.ended = io.now();
            self.cpu = cpu_percent(self.cpu_begin, cpu, self.ended.since(self.begun));
        }
        self.phase = Phase::Ended;
    }

    /// The interval in progress, unless it is too short to say anything.
    fn last_interval(&mut self, io: &mut dyn Io, intervals: &mut Vec<Interval>) {
        let passed = io.now().since(self.last_tick);
        let moved = self.streams.iter().any(|s| s.bytes_in_interval() > 0);
        match self.interval {
            Some(step) if passed > Duration::ZERO && (moved || passed >= step / 10) => {
                let interval = self.end_interval(io);
                intervals.push(interval);
            }
            // Extremes and totals still want the last look.
            _ => {
                for stream in &mut self.streams {
                    stream.end_interval(io);
                }
            }
        }
    }

    fn end_interval(&mut self, io: &mut dyn Io) -> Interval {
        let now = io.now();
        let start = self.last_tick.since(self.start);
        let end = now.since(self.start);
        let omitted = self.omit_until.is_some();
        self.last_tick = now;
        let row = |s: &mut Stream| {
            let (bytes, tcp) = s.end_interval(io);
            let (label, sender) = (s.info.label, s.info.sender);
            StreamInterval { label, sender, start, end, bytes, omitted, tcp }
        };
        let streams: Vec<_> = self.streams.iter_mut().map(row).collect();
        let sum = |sender: bool| {
            let mut bytes = 0u64;
            let mut retransmits = 0u64;
            for s in streams.iter().filter(|s| s.sender == sender) {
                bytes = bytes.saturating_add(s.bytes);
                retransmits = retransmits.saturating_add(s.tcp.retransmits);
            }
            let retransmits = sender.then_some(retransmits);
            Sum { sender, start, end, bytes, retransmits, omitted }
        };
        let first = self.sends(0);
        let both = self.params.direction == Direction::Bidirectional;
        let (sum, sum_reverse) = (sum(first), both.then(|| sum(!first)));
        Interval {
            side: self.side,
            direction: self.params.direction,
            parallel: self.params.parallel,
            streams,
            sum,
            sum_reverse,
        }
    }

    /// How long counting went on.
    fn duration(&self) -> Duration {
        self.ended.since(self.start)
    }

    fn congestion(&self) -> Option<String> {
        self.streams.iter().find_map(|s| s.congestion).map(str::to_owned)
    }

    /// What the peer is told.
    pub(crate) fn results(&self) -> Results {
        let end_time = self.duration().as_secs_f64();
        let streams = self.streams.iter().map(|s| StreamResult {
            id: s.info.id,
            bytes: s.bytes,
            retransmits: s.info.sender.then(|| s.retransmits_total()),
            start_time: 0.0,
            end_time,
        });
        let sends = self.streams.iter().any(|s| s.info.sender);
        Results {
            cpu: self.cpu,
            sender_retransmits: if sends {
                SenderRetransmits::Known
            } else {
                SenderRetransmits::NotSending
            },
            congestion_used: self.congestion(),
            server_output_text: None,
            server_output_json: None,
            streams: streams.collect(),
            x_stack: Some(self.x_stack()),
        }
    }

    /// What only a peer of our kind understands.
    fn x_stack(&self) -> Value {
        let rows = self.streams.iter().map(|s| {
            let last = s.last_sample();
            let mut row = json!({
                "id": s.info.id,
                "snd_mss": last.snd_mss,
                "pmtu": last.pmtu,
                "rcvbuf": last.rcvbuf,
                "sndbuf": last.sndbuf,
                "min_rtt": last.min_rtt_us,
                "rehash": last.rehash,
                "timeouts": last.timeouts,
            });
            if let (Some(check), Value::Object(o)) = (s.integrity(), &mut row) {
                o.insert("integrity".into(), super::json::integrity(check));
            }
            row
        });
        json!({ "streams": rows.collect::<Vec<_>>() })
    }

    /// Result of the test, with the peer's view if it is known.
    pub(crate) fn summary(&self, remote: Option<&Results>) -> Summary {
        let ours = self.duration();
        let streams = self.streams.iter().map(|s| {
            let local = Transfer {
                bytes: s.bytes,
                duration: ours,
                retransmits: s.info.sender.then(|| s.retransmits_total()),
            };
            let peer = remote.and_then(|r| r.stream(s.info.id)).map(|r| {
                let measured = Duration::try_from_secs_f64(r.end_time - r.start_time);
                Transfer {
                    bytes: r.bytes,
                    duration: measured.ok().filter(|d| !d.is_zero()).unwrap_or(ours),
                    retransmits: if s.info.sender { None } else { r.retransmits },
                }
            });
            let (sent, received) =
                if s.info.sender { (Some(local), peer) } else { (peer, Some(local)) };
            StreamSummary {
                label: s.info.label,
                id: s.info.id,
                sender: s.info.sender,
                sent,
                received,
                extremes: s.extremes(),
                last: s.last_sample(),
                integrity: s.integrity(),
            }
        });
        Summary {
            side: self.side,
            direction: self.params.direction,
            parallel: self.params.parallel,
            duration: ours,
            streams: streams.collect(),
            cpu_local: self.cpu,
            cpu_remote: remote.map(|r| r.cpu),
            congestion_local: self.congestion(),
            congestion_remote: remote.and_then(|r| r.congestion_used.clone()),
            title: self.params.title.clone(),
            extra_data: self.params.extra_data.clone(),
            remote_x_stack: remote.and_then(|r| r.x_stack.clone()),
        }
    }

    /// Streams whose payload was not what it should be.
    pub(crate) fn mismatches(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let wrong = |s: &Stream| s.integrity().and_then(|check| check.first_mismatch);
        self.streams.iter().filter_map(move |s| wrong(s).map(|at| (s.info.label, at)))
    }
}

fn secs(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into())
}

fn quota(params: &Params) -> Quota {
    let or_unlimited = |n: u64| if n == 0 { u64::MAX } else { n };
    Quota { bytes: or_unlimited(params.num), blocks: or_unlimited(params.blockcount) }
}

fn cpu_percent(begin: CpuUsage, end: CpuUsage, wall: Duration) -> CpuPercent {
    let seconds = wall.as_secs_f64();
    if seconds <= 0.0 {
        return CpuPercent::default();
    }
    let share = |begin: f64, end: f64| (end - begin).max(0.0) / seconds * 100.0;
    let user = share(begin.user_secs, end.user_secs);
    let system = share(begin.system_secs, end.system_secs);
    CpuPercent { total: user + system, user, system }
}
