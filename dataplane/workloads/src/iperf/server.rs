//! The server: one test at a time, and nobody can hold it.
//!
//! ```text
//! a connection -> Waiting (cookie) -> the session's control connection, or one of its streams
//!                    |                          |
//!                    +--> Farewells <-----------+   says its last word, drains, then is closed
//! ```
//!
//! INVARIANT: each connection is in exactly one of `waiting`, `session` and `farewells`, and each
//! of these has a deadline at every moment.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use base::{ConnId, Instant, ListenerId};
use stack::{App, AppEvent, Io, ListenError};
use tcp::ConnOptions;

use super::capture::Capture;
use super::client::HOUSEKEEPING;
use super::code::{Code, Failure};
use super::control::{
    COOKIE_LEN, Control, Cookie, Exact, Input, PARAMS_MAX_BYTES, RESULTS_MAX_BYTES, State,
    cookie_text,
};
use super::farewell::Farewells;
use super::host::Host;
use super::measure::{Measurement, OnStream};
use super::outbox::{Outbox, RETRY};
use super::params::Params;
use super::report::{ControlInfo, Interval, Report, Side};
use super::results::Results;
use super::text;
use crate::alarm::Alarm;

/// Connections waiting to be reported: 256 streams of a test and some intruders.
const BACKLOG: u32 = 512;
/// Connections whose cookie is not complete; more are refused.
const WAITING_MAX: usize = 512;
/// Longest wait for a cookie, and for the first byte of the parameters.
const COOKIE_LIMIT: Duration = Duration::from_secs(10);
/// Longest wait for a whole message, and for all data connections.
const MESSAGE_LIMIT: Duration = Duration::from_secs(30);
/// A data connection has this long to deliver what is queued after the end of the test.
const DATA_LINGER_LIMIT: Duration = Duration::from_secs(30);
/// What a test may take longer than it should, as in the original.
const GRACE: Duration = Duration::from_secs(40);
/// Longest test that ends only by the client's word: the longest that one can ask for by time.
const UNTIMED_LIMIT: Duration = Duration::from_secs(86_400 + 600);
/// What a server is to do.
pub struct ServerConfig {
    /// Local port.
    pub port: u16,
    /// One of our addresses, or all of both families.
    pub bind: Option<IpAddr>,
    /// `-1`: exit after one test. A test counts once its parameters have been accepted.
    pub one_off: bool,
    /// Report interval; `None` without interval reports.
    pub interval: Option<Duration>,
    /// Unit of rates in the text that a client may ask for.
    pub format: text::Format,
    /// A client that asks for our output gets JSON in place of text.
    pub json: bool,
    /// `--idle-timeout`: with `one_off`, exit with code 1 when no test came for so long. Without it
    /// there is nothing to restart and nothing happens.
    pub idle_timeout: Option<Duration>,
    /// `--rcv-timeout`: longest time without data while there should be some.
    pub rcv_timeout: Duration,
    /// `--server-max-duration`: longest test in seconds, with its omitted period.
    pub max_duration_secs: Option<u32>,
    /// Compare what is received with what should be, if the client sends the repeating payload.
    pub verify: bool,
    /// The process around us.
    pub host: Box<dyn Host>,
}

impl ServerConfig {
    /// The defaults of iperf3.
    pub fn new(host: Box<dyn Host>) -> Self {
        Self {
            port: super::DEFAULT_PORT,
            bind: None,
            one_off: false,
            interval: Some(Duration::from_secs(1)),
            format: text::Format::Adaptive,
            json: false,
            idle_timeout: None,
            rcv_timeout: Duration::from_secs(120),
            max_duration_secs: None,
            verify: false,
            host,
        }
    }
}

/// A connection that has not said who it is.
#[derive(Debug)]
struct Waiting {
    conn: ConnId,
    input: Exact,
    syn_arrival: Instant,
    deadline: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// PARAM_EXCHANGE sent.
    AwaitParams,
    /// CREATE_STREAMS sent.
    CreateStreams,
    /// TEST_START and TEST_RUNNING sent.
    Running,
    /// EXCHANGE_RESULTS sent.
    AwaitResults,
    /// Results and DISPLAY_RESULTS sent; IPERF_DONE is next.
    AwaitDone,
}

/// A data connection that has shown the right cookie.
#[derive(Clone, Copy, Debug)]
struct Joined {
    conn: ConnId,
    syn_arrival: Instant,
}

/// The test that is going on. Known by its cookie.
struct Session {
    cookie: Cookie,
    control: Control,
    remote: Option<SocketAddr>,
    phase: Phase,
    deadline: Instant,
    /// From the parameters on.
    measurement: Option<Measurement>,
    joined: Vec<Joined>,
    capture: Option<Capture>,
}

/// The application.
pub struct Server {
    config: ServerConfig,
    listener: Option<ListenerId>,
    /// Tests so far, for the line about listening.
    tests: u64,
    waiting: Vec<Waiting>,
    session: Option<Session>,
    farewells: Farewells,
    idle_since: Instant,
    outbox: Outbox,
    exit: Option<u8>,
    exited: bool,
    alarm: Alarm,
}

impl Server {
    /// A server that has not started.
    pub fn new(config: ServerConfig) -> Self {
        Self {
            config,
            listener: None,
            tests: 0,
            waiting: Vec::new(),
            session: None,
            farewells: Farewells::default(),
            idle_since: Instant::ZERO,
            outbox: Outbox::default(),
            exit: None,
            exited: false,
            alarm: Alarm::default(),
        }
    }

    fn start(&mut self, io: &mut dyn Io) {
        let options = control_options();
        match io.listen(self.config.bind, self.config.port, BACKLOG, &options) {
            Ok(listener) => {
                self.listener = Some(listener);
                self.wait_for_client(io);
            }
            Err(error) => {
                let failure = Failure::with(Code::LISTEN, listen_error(error));
                self.report(io, Report::Error(failure));
                self.report(io, Report::TestEnded);
                self.exit = Some(1);
            }
        }
    }

    fn wait_for_client(&mut self, io: &mut dyn Io) {
        self.idle_since = io.now();
        let test = self.tests.saturating_add(1);
        self.report(io, Report::Listening { port: self.config.port, test });
    }

    /// Publish, and keep for a client that wants to see it.
    fn report(&mut self, io: &mut dyn Io, report: Report) {
        if let Some(capture) = self.session.as_mut().and_then(|s| s.capture.as_mut()) {
            capture.add(&report);
        }
        self.outbox.publish(io, report);
    }

    fn on_accepted(&mut self, io: &mut dyn Io, conn: ConnId, syn_arrival: Instant) {
        let open = self.session.as_ref().is_none_or(|s| s.phase == Phase::CreateStreams);
        if !open || self.waiting.len() >= WAITING_MAX || self.exit.is_some() {
            return self.farewells.refuse(io, conn);
        }
        let deadline = io.now() + COOKIE_LIMIT;
        self.waiting.push(Waiting { conn, input: Exact::default(), syn_arrival, deadline });
        self.on_waiting(io, conn);
    }

    /// More of a cookie, or its end.
    fn on_waiting(&mut self, io: &mut dyn Io, conn: ConnId) -> bool {
        let Some(index) = self.waiting.iter().position(|w| w.conn == conn) else { return false };
        let Some(waiting) = self.waiting.get_mut(index) else { return false };
        match waiting.input.fill(io, conn, COOKIE_LEN) {
            Input::Pending => {}
            Input::Closed | Input::BadLength(_) => {
                self.waiting.swap_remove(index);
                io.close(conn);
            }
            Input::Ready(()) => {
                let mut waiting = self.waiting.swap_remove(index);
                let bytes = waiting.input.take();
                if let Ok(cookie) = Cookie::try_from(bytes.as_slice()) {
                    self.on_cookie(io, &waiting, cookie);
                }
            }
        }
        true
    }

    fn on_cookie(&mut self, io: &mut dyn Io, waiting: &Waiting, cookie: Cookie) {
        match &mut self.session {
            None => self.open_session(io, waiting.conn, cookie),
            Some(s) if s.phase == Phase::CreateStreams && s.cookie == cookie => {
                s.joined.push(Joined { conn: waiting.conn, syn_arrival: waiting.syn_arrival });
                let wanted = s.measurement.as_ref().map_or(0, |m| m.params.streams());
                if s.joined.len() >= wanted {
                    self.start_test(io);
                }
            }
            Some(_) => self.farewells.refuse(io, waiting.conn),
        }
    }

    fn open_session(&mut self, io: &mut dyn Io, conn: ConnId, cookie: Cookie) {
        let mut control = Control::new(conn);
        control.send_state(io, State::ParamExchange);
        self.session = Some(Session {
            cookie,
            control,
            remote: io.remote_addr(conn),
            phase: Phase::AwaitParams,
            deadline: io.now() + COOKIE_LIMIT,
            measurement: None,
            joined: Vec::new(),
            capture: None,
        });
        self.refuse_waiting(io);
        // An impatient client may have sent its parameters with the cookie.
        self.on_control(io);
    }

    fn refuse_waiting(&mut self, io: &mut dyn Io) {
        for waiting in std::mem::take(&mut self.waiting) {
            self.farewells.refuse(io, waiting.conn);
        }
    }

    /// Read and act on all that the client has said.
    fn on_control(&mut self, io: &mut dyn Io) {
        while let Some(s) = &mut self.session {
            s.control.flush(io);
            let outcome = match s.phase {
                Phase::AwaitParams => {
                    let fresh = !s.control.is_reading();
                    let input = s.control.message(io, PARAMS_MAX_BYTES);
                    if fresh && s.control.is_reading() {
                        s.deadline = io.now() + MESSAGE_LIMIT;
                    }
                    input_of(input, Code::PARAMETERS)
                }
                Phase::AwaitResults => {
                    input_of(s.control.message(io, RESULTS_MAX_BYTES), Code::RECV_RESULTS)
                }
                Phase::CreateStreams | Phase::Running | Phase::AwaitDone => {
                    match s.control.byte(io) {
                        Input::Ready(byte) => Ok(Some(vec![byte])),
                        Input::Pending => Ok(None),
                        Input::Closed | Input::BadLength(_) => Err(Failure::client_vanished()),
                    }
                }
            };
            let phase = s.phase;
            match (outcome, phase) {
                (Ok(None), _) => return,
                (Ok(Some(body)), Phase::AwaitParams) => self.on_params(io, &body),
                (Ok(Some(body)), Phase::AwaitResults) => self.on_results(io, &body),
                (Ok(Some(bytes)), _) => {
                    self.on_state(io, bytes.first().copied().unwrap_or_default());
                }
                // Both sides have all they need; a client that closes early has only bad manners.
                (Err(_), Phase::AwaitDone) => self.end_session(io, true),
                (Err(failure), _) => self.fail(io, failure),
            }
        }
    }

    fn on_params(&mut self, io: &mut dyn Io, body: &[u8]) {
        let (params, warnings) = match Params::from_json(body) {
            Ok(read) => read,
            Err(failure) => return self.fail(io, failure),
        };
        if let Some(max) = self.config.max_duration_secs
            && params.num == 0
            && params.blockcount == 0
            && (params.time_secs == 0 || params.time_secs.saturating_add(params.omit_secs) > max)
        {
            return self.fail(io, Failure::new(Code::MAX_DURATION));
        }
        let (options, warning) = params.conn_options();
        if let Some(listener) = self.listener {
            io.set_listener_options(listener, &options);
        }
        let m = Measurement::new(
            io,
            Side::Server,
            params.clone(),
            self.config.interval,
            self.config.rcv_timeout,
            self.config.verify,
        );
        let capture = self.new_capture(&params);
        let Some(s) = &mut self.session else { return };
        s.capture = capture;
        s.measurement = Some(m);
        s.phase = Phase::CreateStreams;
        s.deadline = io.now() + MESSAGE_LIMIT;
        self.tests = self.tests.saturating_add(1);
        if let Some(info) = self.control_info(io) {
            self.report(io, Report::Control(Box::new(info)));
        }
        for text in warnings.into_iter().chain(warning) {
            self.report(io, Report::Warning(text));
        }
        if let Some(s) = &mut self.session {
            s.control.send_state(io, State::CreateStreams);
        }
    }

    fn new_capture(&self, params: &Params) -> Option<Capture> {
        if !params.get_server_output {
            return None;
        }
        Some(Capture::new(self.config.host.as_ref(), self.config.json, self.config.format))
    }

    fn control_info(&self, io: &dyn Io) -> Option<ControlInfo> {
        let s = self.session.as_ref()?;
        let m = s.measurement.as_ref()?;
        let first = m.streams.first().and_then(|stream| io.info(stream.conn));
        let (sndbuf, rcvbuf) = first.map(|i| (i.sndbuf, i.rcvbuf)).unwrap_or_default();
        let ip = s.remote.map(|r| r.ip().to_canonical().to_string());
        Some(ControlInfo {
            side: Side::Server,
            version: self.config.host.version(),
            system_info: self.config.host.system_info(),
            unix_time_ms: self.config.host.unix_time_ms(),
            cookie: cookie_text(&s.cookie),
            control_mss: io.info(s.control.conn).map_or(0, |i| i.snd_mss),
            host: ip.unwrap_or_default(),
            port: s.remote.map_or(0, |r| r.port()),
            params: m.params.clone(),
            interval: self.config.interval,
            sndbuf,
            rcvbuf,
        })
    }

    /// All data connections are there.
    fn start_test(&mut self, io: &mut dyn Io) {
        let Some(s) = &mut self.session else { return };
        let Some(m) = &mut s.measurement else { return };
        // Roles and ids follow the order of SYNs. A lost segment may bring cookies out of that order.
        s.joined.sort_by_key(|j| j.syn_arrival);
        let (options, _) = m.params.conn_options();
        let mut infos = Vec::with_capacity(s.joined.len());
        for joined in std::mem::take(&mut s.joined) {
            io.set_options(joined.conn, &options);
            infos.push(m.add_stream(io, joined.conn));
        }
        let window = m.params.window.unwrap_or(0);
        let too_small = m.streams.iter().any(|stream| {
            io.info(stream.conn).is_some_and(|i| i.rcvbuf < window || i.sndbuf < window)
        });
        if let Some(listener) = self.listener {
            io.set_listener_options(listener, &control_options());
        }
        if too_small {
            return self.fail(io, Failure::new(Code::SOCKET_BUFFER));
        }
        for info in infos {
            self.report(io, Report::Connected(info));
        }
        self.refuse_waiting(io);
        if let Some(info) = self.control_info(io) {
            self.report(io, Report::Started(Box::new(info)));
        }
        let cpu = self.config.host.cpu_usage();
        let longest = self.longest_test();
        let Some(s) = &mut self.session else { return };
        s.phase = Phase::Running;
        s.deadline = io.now() + longest;
        // One write: both states mean "now" here.
        s.control.send(io, &[State::TestStart.byte(), State::TestRunning.byte()]);
        if let Some(m) = &mut s.measurement {
            m.start(io.now(), cpu);
            m.run(io);
        }
    }

    /// When the server ends the test by itself.
    fn longest_test(&self) -> Duration {
        let params = self.session.as_ref().and_then(|s| s.measurement.as_ref()).map(|m| &m.params);
        let asked = params.filter(|p| p.num == 0 && p.blockcount == 0 && p.time_secs > 0);
        let asked = asked.map(|p| p.time_secs.saturating_add(p.omit_secs)).map(u64::from);
        let max = self.config.max_duration_secs.map(u64::from);
        asked.or(max).map_or(UNTIMED_LIMIT, Duration::from_secs) + GRACE
    }

    fn on_state(&mut self, io: &mut dyn Io, byte: u8) {
        let Some(s) = &self.session else { return };
        match (State::from_byte(byte), s.phase) {
            (Some(State::TestEnd), Phase::Running) => self.end_test(io),
            (Some(State::IperfDone), Phase::AwaitDone) => self.end_session(io, true),
            (Some(State::ClientTerminate), _) => {
                self.fail(io, Failure::new(Code::CLIENT_TERMINATED));
            }
            (Some(state), _) => {
                let detail = format!("{state:?} out of order");
                self.fail(io, Failure::with(Code::UNKNOWN_MESSAGE, detail));
            }
            (None, _) => {
                let detail = format!("{}", byte as i8);
                self.fail(io, Failure::with(Code::UNKNOWN_MESSAGE, detail));
            }
        }
    }

    /// TEST_END: last sample, close the data connections, print, ask for results.
    fn end_test(&mut self, io: &mut dyn Io) {
        self.finish_measurement(io);
        self.close_streams(io, DATA_LINGER_LIMIT);
        self.report_summary(io);
        let Some(s) = &mut self.session else { return };
        s.control.send_state(io, State::ExchangeResults);
        s.phase = Phase::AwaitResults;
        s.deadline = io.now() + MESSAGE_LIMIT;
    }

    fn finish_measurement(&mut self, io: &mut dyn Io) {
        let cpu = self.config.host.cpu_usage();
        let mut intervals = Vec::new();
        if let Some(m) = self.session.as_mut().and_then(|s| s.measurement.as_mut()) {
            m.finish(io, cpu, &mut intervals);
        }
        self.report_intervals(io, intervals);
    }

    fn report_intervals(&mut self, io: &mut dyn Io, intervals: Vec<Interval>) {
        for interval in intervals {
            self.report(io, Report::Interval(Box::new(interval)));
        }
    }

    fn report_summary(&mut self, io: &mut dyn Io) {
        let Some(m) = self.session.as_ref().and_then(|s| s.measurement.as_ref()) else { return };
        let summary = m.summary(None);
        let mismatches: Vec<_> = m.mismatches().collect();
        for (label, at) in mismatches {
            let text = format!("stream {label}: wrong payload at byte {at}");
            self.report(io, Report::Warning(text));
        }
        self.report(io, Report::Summary(Box::new(summary)));
    }

    /// Let go of all data connections: gracefully for `limit`, or at once if it is zero.
    fn close_streams(&mut self, io: &mut dyn Io, limit: Duration) {
        let Some(s) = &mut self.session else { return };
        let joined = std::mem::take(&mut s.joined);
        let streams = s.measurement.iter_mut().flat_map(|m| &mut m.streams);
        let now = io.now();
        let mut conns: Vec<ConnId> = joined.iter().map(|j| j.conn).collect();
        for stream in streams.filter(|stream| stream.closed_at.is_none()) {
            // From here on the connection belongs to the farewells.
            stream.closed_at = Some(now);
            conns.push(stream.conn);
        }
        for conn in conns {
            self.farewells.close(io, conn, limit);
        }
    }

    fn on_results(&mut self, io: &mut dyn Io, body: &[u8]) {
        let Some(s) = &mut self.session else { return };
        let Some(m) = &s.measurement else { return };
        let known = |id| m.streams.iter().any(|stream| stream.info.id == id);
        let theirs = Results::from_json(body, &known);
        let mut ours = m.results();
        if let Err(failure) = theirs {
            return self.fail(io, failure);
        }
        if let Some(capture) = s.capture.take() {
            capture.put_into(&mut ours);
        }
        let mut value = ours.to_json();
        if value.to_string().len() > RESULTS_MAX_BYTES
            && let Some(object) = value.as_object_mut()
        {
            // A day of intervals: the figures matter more than the output.
            object.remove("server_output_text");
            object.remove("server_output_json");
        }
        s.control.send_message(io, &value);
        s.control.send_state(io, State::DisplayResults);
        s.phase = Phase::AwaitDone;
        s.deadline = io.now() + MESSAGE_LIMIT;
    }

    /// The test is lost: show what there is, tell the client, and listen again.
    fn fail(&mut self, io: &mut dyn Io, failure: Failure) {
        let code = failure.code;
        self.give_up(io, Report::Error(failure));
        let Some(s) = &mut self.session else { return };
        // One who has left needs no letter.
        if code != Code::CLIENT_TERMINATED && code != Code::CONTROL_CLOSED {
            s.control.send_error(io, code);
        }
        self.end_session(io, false);
    }

    fn give_up(&mut self, io: &mut dyn Io, last: Report) {
        if self.session.as_ref().is_some_and(|s| s.phase == Phase::Running) {
            self.finish_measurement(io);
            self.report_summary(io);
        }
        self.close_streams(io, Duration::ZERO);
        self.report(io, last);
    }

    /// Close the control connection and be ready for the next client.
    fn end_session(&mut self, io: &mut dyn Io, success: bool) {
        let Some(s) = self.session.take() else { return };
        let counted = s.measurement.is_some();
        self.farewells.finish(io, s.control);
        self.refuse_waiting(io);
        if let Some(listener) = self.listener {
            io.set_listener_options(listener, &control_options());
        }
        self.report(io, Report::TestEnded);
        if self.config.one_off && counted {
            self.leave(io, u8::from(!success));
        } else if self.exit.is_none() {
            self.wait_for_client(io);
        }
    }

    /// No more clients; exit once all reports are out.
    fn leave(&mut self, io: &mut dyn Io, code: u8) {
        if let Some(listener) = self.listener.take() {
            io.close_listener(listener);
        }
        for waiting in std::mem::take(&mut self.waiting) {
            io.abort(waiting.conn);
        }
        self.exit.get_or_insert(code);
    }

    fn on_closed(&mut self, io: &mut dyn Io, conn: ConnId) {
        self.waiting.retain(|w| w.conn != conn);
        self.farewells.on_closed(conn);
        let Some(s) = &mut self.session else { return };
        if s.control.conn == conn {
            if s.phase == Phase::AwaitDone {
                return self.end_session(io, true);
            }
            return self.fail(io, Failure::client_vanished());
        }
        s.joined.retain(|j| j.conn != conn);
        if let Some(m) = &mut s.measurement {
            m.on_closed(io.now(), conn);
        }
    }

    fn on_stop(&mut self, io: &mut dyn Io) {
        if self.session.is_some() {
            self.give_up(io, Report::Interrupted(Code::SERVER_TERMINATED));
            if let Some(s) = &mut self.session {
                s.control.send_state(io, State::ServerTerminate);
            }
            self.leave(io, 0);
            self.end_session(io, false);
        } else if self.exit.is_none() {
            self.report(io, Report::Interrupted(Code::SERVER_TERMINATED));
            self.report(io, Report::TestEnded);
            self.leave(io, 0);
        }
    }

    /// Whatever time has brought: intervals and limits.
    fn on_time(&mut self, io: &mut dyn Io) {
        let now = io.now();
        let mut intervals = Vec::new();
        if let Some(m) = self.session.as_mut().and_then(|s| s.measurement.as_mut()) {
            m.on_time(io, &mut intervals);
        }
        self.report_intervals(io, intervals);
        let running = self.session.as_ref().and_then(|s| s.measurement.as_ref());
        if let Some(code) = running.and_then(|m| m.fault(now)) {
            self.fail(io, Failure::new(code));
        }
        if self.session.as_ref().is_some_and(|s| s.deadline <= now) {
            self.on_session_deadline(io);
        }
        let late = |deadline: Instant| deadline <= now;
        while let Some(at) = self.waiting.iter().position(|w| late(w.deadline)) {
            let waiting = self.waiting.swap_remove(at);
            // Somebody who says nothing gets no answer.
            io.abort(waiting.conn);
        }
        self.farewells.expire(io);
        if self.is_idle_for_too_long(now) {
            self.leave(io, 1);
        }
    }

    fn is_idle_for_too_long(&self, now: Instant) -> bool {
        self.idle_deadline() <= now && self.exit.is_none()
    }

    fn idle_deadline(&self) -> Instant {
        match self.config.idle_timeout {
            Some(limit) if self.config.one_off && self.session.is_none() => self.idle_since + limit,
            _ => Instant::FAR_FUTURE,
        }
    }

    fn on_session_deadline(&mut self, io: &mut dyn Io) {
        let Some(phase) = self.session.as_ref().map(|s| s.phase) else { return };
        let late = |code| Failure::with(code, "timed out");
        match phase {
            Phase::AwaitParams => self.fail(io, late(Code::PARAMETERS)),
            Phase::CreateStreams => self.fail(io, late(Code::STREAM_ACCEPT)),
            Phase::Running => self.fail(io, Failure::new(Code::TEST_EXPIRED)),
            Phase::AwaitResults => self.fail(io, late(Code::RECV_RESULTS)),
            Phase::AwaitDone => self.end_session(io, true),
        }
    }

    /// After each event: hand out reports, exit once they are out, set the timer.
    fn settle(&mut self, io: &mut dyn Io) {
        self.outbox.flush(io);
        let waiting = self.outbox.is_waiting();
        if !waiting
            && self.listener.is_none()
            && let Some(code) = self.exit
            && !self.exited
        {
            self.exited = true;
            io.exit(code);
        }
        let mut next = self.idle_deadline();
        if self.exit.is_some() {
            next = Instant::FAR_FUTURE;
        }
        if waiting {
            next = next.min(io.now() + RETRY);
        }
        next = self.waiting.iter().map(|w| w.deadline).fold(next, Ord::min);
        next = next.min(self.farewells.deadline());
        if let Some(s) = &self.session {
            next = next.min(s.deadline);
            if let Some(m) = &s.measurement {
                next = next.min(m.deadline());
                if m.is_running() {
                    next = next.min(io.now() + HOUSEKEEPING);
                }
            }
        }
        self.alarm.set(io, next);
    }

    /// The path of the data: what it takes and no more. False if `conn` is no stream of the test.
    fn on_data(&mut self, io: &mut dyn Io, conn: ConnId) -> bool {
        let Some(s) = self.session.as_mut().filter(|s| s.control.conn != conn) else {
            return false;
        };
        let Some(m) = &mut s.measurement else { return false };
        match m.on_stream(io, conn) {
            OnStream::NotOurs => return false,
            OnStream::Done => {}
            OnStream::WakeAt(at) => self.alarm.at_most(io, at),
        }
        true
    }

    fn on_conn_event(&mut self, io: &mut dyn Io, conn: ConnId) {
        if self.session.as_ref().is_some_and(|s| s.control.conn == conn) {
            self.on_control(io);
        } else if !self.on_waiting(io, conn) {
            self.farewells.on_event(io, conn);
        }
    }
}

impl App for Server {
    fn on_event(&mut self, io: &mut dyn Io, event: AppEvent) {
        match event {
            AppEvent::Start => self.start(io),
            AppEvent::Accepted { conn, syn_arrival, .. } => self.on_accepted(io, conn, syn_arrival),
            AppEvent::Readable { conn }
            | AppEvent::Writable { conn }
            | AppEvent::PeerClosed { conn } => {
                if self.on_data(io, conn) {
                    return;
                }
                self.on_conn_event(io, conn);
            }
            AppEvent::Closed { conn, .. } => self.on_closed(io, conn),
            AppEvent::Timer { .. } => self.alarm.rang(),
            AppEvent::Stop => self.on_stop(io),
            AppEvent::Connected { .. } | AppEvent::Message { .. } => {}
        }
        self.on_time(io);
        self.settle(io);
    }
}

/// A message, nothing yet, or why there will be none.
fn input_of(input: Input<Vec<u8>>, code: Code) -> Result<Option<Vec<u8>>, Failure> {
    match input {
        Input::Ready(body) => Ok(Some(body)),
        Input::Pending => Ok(None),
        Input::Closed => Err(Failure::client_vanished()),
        Input::BadLength(length) => Err(Failure::with(code, format!("length {length}"))),
    }
}

fn control_options() -> ConnOptions {
    ConnOptions { nodelay: true, ..ConnOptions::default() }
}

const fn listen_error(error: ListenError) -> &'static str {
    match error {
        ListenError::InUse => "Address already in use",
        ListenError::NotOurs => "Cannot assign requested address",
        ListenError::Invalid => "invalid port",
    }
}
