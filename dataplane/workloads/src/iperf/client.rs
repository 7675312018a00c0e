//! The client: it opens every connection, commands the test and decides when it ends.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use base::{ConnId, Instant};
use stack::{App, AppEvent, ConnectError, Io, Local};
use tcp::{CloseReason, ConnOptions};

use super::code::{Code, Failure};
use super::control::{
    self, Control, Cookie, Input, RESULTS_MAX_BYTES, State, cookie_text, new_cookie,
};
use super::host::Host;
use super::measure::{EndReached, Measurement, OnStream};
use super::outbox::{Outbox, RETRY};
use super::params::Params;
use super::report::{ControlInfo, Report, ServerOutput, Side};
use super::results::Results;
use crate::alarm::Alarm;

/// While data flows, limits are looked at this often: they move with each byte, and following them
/// with the timer would cost more than the data.
pub(crate) const HOUSEKEEPING: Duration = Duration::from_secs(1);
/// Longest wait for the server's next word outside of the test itself.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// After the last byte or block (`-n`, `-k`) this is how often we look whether it has arrived, …
const DELIVERY_POLL: Duration = Duration::from_millis(1);
/// … and how long at most.
const DELIVERY_LIMIT: Duration = Duration::from_secs(30);
/// Longest wait for the server to close after we said goodbye.
const GOODBYE_LIMIT: Duration = Duration::from_secs(2);

/// What a client is to do.
pub struct ClientConfig {
    /// The server.
    pub server: SocketAddr,
    /// The server as the user named it.
    pub host_name: String,
    /// The test; [`Params::check`] has been asked.
    pub params: Params,
    /// Report interval; `None` without interval reports.
    pub interval: Option<Duration>,
    /// `--bind`: the address of ours to connect from.
    pub local_addr: Option<IpAddr>,
    /// `--cport`: local port of the first data stream, the others follow.
    pub local_port: Option<u16>,
    /// `--connect-timeout` for the control connection; `None` leaves it to TCP.
    pub connect_timeout: Option<Duration>,
    /// `--rcv-timeout`: longest time without data while there should be some.
    pub rcv_timeout: Duration,
    /// `--snd-timeout`: longest time that sent data may stay unacknowledged.
    pub snd_timeout: Option<Duration>,
    /// Compare what is received with what should be; only with [`Params::repeating_payload`].
    pub verify: bool,
    /// The process around us.
    pub host: Box<dyn Host>,
}

impl ClientConfig {
    /// The defaults of iperf3 for a test against `server`.
    pub fn new(server: SocketAddr, host: Box<dyn Host>) -> Self {
        Self {
            server,
            host_name: server.ip().to_string(),
            params: Params::default(),
            interval: Some(Duration::from_secs(1)),
            local_addr: None,
            local_port: None,
            connect_timeout: None,
            rcv_timeout: Duration::from_secs(120),
            snd_timeout: None,
            verify: false,
            host,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Not started, or the control connection is being opened.
    Connecting,
    /// Cookie sent; PARAM_EXCHANGE is next.
    AwaitParamExchange,
    /// Parameters sent; CREATE_STREAMS is next.
    AwaitCreateStreams,
    /// Data connections are being opened, one after the other.
    Opening,
    /// All are open; TEST_START is next.
    AwaitStart,
    /// TEST_RUNNING is next.
    AwaitRunning,
    /// Data flows.
    Running,
    /// TEST_END sent; EXCHANGE_RESULTS is next.
    AwaitExchange,
    /// Our results sent; the server's are next.
    AwaitResults,
    /// DISPLAY_RESULTS is next.
    AwaitDisplay,
    /// IPERF_DONE sent; the server closes.
    Goodbye,
    /// Nothing left to do.
    Over,
}

/// A data connection between SYN and the last byte of its cookie.
#[derive(Debug)]
struct Opening {
    conn: ConnId,
    established: bool,
    cookie_sent: usize,
}

/// The application.
pub struct Client {
    config: ClientConfig,
    phase: Phase,
    cookie: Cookie,
    control: Option<Control>,
    /// After a SERVER_ERROR byte its record follows.
    error_follows: bool,
    opening: Option<Opening>,
    measurement: Option<Measurement>,
    /// When the present phase is given up.
    deadline: Instant,
    /// When TCP took the last byte or block.
    all_sent_at: Option<Instant>,
    results: Option<Results>,
    outbox: Outbox,
    exit: Option<u8>,
    stop_seen: bool,
    alarm: Alarm,
}

impl Client {
    /// A client that has not started.
    pub fn new(config: ClientConfig) -> Self {
        Self {
            config,
            phase: Phase::Connecting,
            cookie: [0; control::COOKIE_LEN],
            control: None,
            error_follows: false,
            opening: None,
            measurement: None,
            deadline: Instant::FAR_FUTURE,
            all_sent_at: None,
            results: None,
            outbox: Outbox::default(),
            exit: None,
            stop_seen: false,
            alarm: Alarm::default(),
        }
    }

    fn start(&mut self, io: &mut dyn Io) {
        self.cookie = new_cookie(io);
        if let Some(limit) = self.config.connect_timeout {
            self.deadline = io.now() + limit;
        }
        let options = ConnOptions {
            nodelay: true,
            user_timeout: self.config.snd_timeout,
            ..ConnOptions::default()
        };
        let local = Local { addr: self.config.local_addr, port: None };
        match io.connect(self.config.server, local, &options) {
            Ok(conn) => self.control = Some(Control::new(conn)),
            Err(error) => self.fail(io, Failure::with(Code::CONNECT, connect_error(error))),
        }
    }

    fn enter(&mut self, io: &mut dyn Io, phase: Phase, limit: Option<Duration>) {
        self.phase = phase;
        self.deadline = limit.map_or(Instant::FAR_FUTURE, |limit| io.now() + limit);
    }

    fn is_control(&self, conn: ConnId) -> bool {
        self.control.as_ref().is_some_and(|c| c.conn == conn)
    }

    fn on_connected(&mut self, io: &mut dyn Io, conn: ConnId) {
        if self.is_control(conn) {
            let info = self.control_info(io);
            self.outbox.publish(io, Report::Control(Box::new(info)));
            self.enter(io, Phase::AwaitParamExchange, Some(ANSWER_LIMIT));
            let cookie = self.cookie;
            if let Some(control) = &mut self.control {
                control.send(io, &cookie);
            }
        } else if let Some(opening) = self.opening.as_mut().filter(|o| o.conn == conn) {
            opening.established = true;
            self.send_cookie(io);
        }
    }

    fn control_info(&self, io: &dyn Io) -> ControlInfo {
        let first = self.measurement.as_ref().and_then(|m| m.streams.first());
        let buffers = first.and_then(|s| io.info(s.conn)).map(|i| (i.sndbuf, i.rcvbuf));
        let (sndbuf, rcvbuf) = buffers.unwrap_or_default();
        let control = self.control.as_ref().and_then(|c| io.info(c.conn));
        ControlInfo {
            side: Side::Client,
            version: self.config.host.version(),
            system_info: self.config.host.system_info(),
            unix_time_ms: self.config.host.unix_time_ms(),
            cookie: cookie_text(&self.cookie),
            control_mss: control.map_or(0, |i| i.snd_mss),
            host: self.config.host_name.clone(),
            port: self.config.server.port(),
            params: self.config.params.clone(),
            interval: self.config.interval,
            sndbuf,
            rcvbuf,
        }
    }

    fn on_control_event(&mut self, io: &mut dyn Io) {
        if self.phase == Phase::Goodbye {
            return self.goodbye(io);
        }
        if let Some(control) = &mut self.control {
            control.flush(io);
        }
        self.on_control(io);
    }

    /// Read and act on all that the server has said.
    fn on_control(&mut self, io: &mut dyn Io) {
        while !matches!(self.phase, Phase::Connecting | Phase::Goodbye | Phase::Over) {
            let Some(control) = &mut self.control else { return };
            if self.error_follows {
                match control.error_record(io) {
                    Input::Ready((code, errno)) => {
                        let mut failure = Failure::new(code);
                        if errno != 0 {
                            failure.detail = Some(format!("errno {errno}"));
                        }
                        return self.fail(io, failure);
                    }
                    Input::Pending => return,
                    Input::Closed | Input::BadLength(_) => {
                        return self.fail(io, Failure::new(Code::CONTROL_CLOSED));
                    }
                }
            }
            if self.phase == Phase::AwaitResults {
                match control.message(io, RESULTS_MAX_BYTES) {
                    Input::Ready(body) => self.on_results(io, &body),
                    Input::Pending => return,
                    Input::Closed => return self.fail(io, Failure::new(Code::CONTROL_CLOSED)),
                    Input::BadLength(length) => {
                        let detail = format!("length {length}");
                        return self.fail(io, Failure::with(Code::RECV_RESULTS, detail));
                    }
                }
                continue;
            }
            match control.byte(io) {
                Input::Ready(byte) => self.on_state(io, byte),
                Input::Pending => return,
                Input::Closed | Input::BadLength(_) => {
                    return self.fail(io, Failure::new(Code::CONTROL_CLOSED));
                }
            }
        }
    }

    fn on_state(&mut self, io: &mut dyn Io, byte: u8) {
        let Some(state) = State::from_byte(byte) else {
            let detail = format!("{}", byte as i8);
            return self.fail(io, Failure::with(Code::UNKNOWN_MESSAGE, detail));
        };
        match (state, self.phase) {
            (State::AccessDenied, _) => self.fail(io, Failure::new(Code::BUSY)),
            (State::ServerError, _) => self.error_follows = true,
            (State::ServerTerminate, _) => self.fail(io, Failure::new(Code::SERVER_TERMINATED)),
            (State::ParamExchange, Phase::AwaitParamExchange) => self.send_params(io),
            (State::CreateStreams, Phase::AwaitCreateStreams) => self.create_streams(io),
            (State::TestStart, Phase::AwaitStart) => {
                let cpu = self.config.host.cpu_usage();
                if let Some(m) = &mut self.measurement {
                    m.start(io.now(), cpu);
                }
                self.enter(io, Phase::AwaitRunning, Some(ANSWER_LIMIT));
                let info = self.control_info(io);
                self.outbox.publish(io, Report::Started(Box::new(info)));
            }
            (State::TestRunning, Phase::AwaitRunning) => {
                self.enter(io, Phase::Running, None);
                if let Some(m) = &mut self.measurement {
                    m.run(io);
                }
            }
            (State::ExchangeResults, Phase::AwaitExchange) => {
                let ours = self.measurement.as_ref().map(|m| m.results().to_json());
                if let (Some(control), Some(ours)) = (&mut self.control, ours) {
                    control.send_message(io, &ours);
                }
                self.enter(io, Phase::AwaitResults, Some(ANSWER_LIMIT));
            }
            (State::DisplayResults, Phase::AwaitDisplay) => self.display(io),
            (state, _) => {
                let detail = format!("{state:?} out of order");
                self.fail(io, Failure::with(Code::UNKNOWN_MESSAGE, detail));
            }
        }
    }

    fn send_params(&mut self, io: &mut dyn Io) {
        let mut params = self.config.params.clone();
        params.client_version.get_or_insert_with(|| self.config.host.version());
        if let Some(control) = &mut self.control {
            control.send_message(io, &params.to_json());
        }
        self.enter(io, Phase::AwaitCreateStreams, Some(ANSWER_LIMIT));
    }

    fn create_streams(&mut self, io: &mut dyn Io) {
        let c = &self.config;
        let m = Measurement::new(
            io,
            Side::Client,
            c.params.clone(),
            c.interval,
            c.rcv_timeout,
            c.verify,
        );
        self.measurement = Some(m);
        let (_, warning) = self.config.params.conn_options();
        if let Some(text) = warning {
            self.outbox.publish(io, Report::Warning(text));
        }
        self.enter(io, Phase::Opening, None);
        self.open_next(io);
    }

    /// Open the next data connection. One at a time: the server tells roles by the order of SYNs.
    fn open_next(&mut self, io: &mut dyn Io) {
        let Some(m) = &self.measurement else { return };
        if m.is_complete() {
            return self.enter(io, Phase::AwaitStart, Some(ANSWER_LIMIT));
        }
        // Each connection gets the whole limit: a hundred of them over a long path take a while.
        self.deadline = io.now() + ANSWER_LIMIT;
        let index = u16::try_from(m.streams.len()).unwrap_or(u16::MAX);
        let port = self.config.local_port.map(|first| first.checked_add(index));
        if port == Some(None) {
            let detail = "local port beyond 65535";
            return self.fail(io, Failure::with(Code::STREAM_CONNECT, detail));
        }
        let (mut options, _) = self.config.params.conn_options();
        options.user_timeout = self.config.snd_timeout;
        let local = Local { addr: self.config.local_addr, port: port.flatten() };
        match io.connect(self.config.server, local, &options) {
            Ok(conn) => {
                self.opening = Some(Opening { conn, established: false, cookie_sent: 0 });
            }
            Err(error) => {
                self.fail(io, Failure::with(Code::STREAM_CONNECT, connect_error(error)));
            }
        }
    }

    fn send_cookie(&mut self, io: &mut dyn Io) {
        let Some(opening) = self.opening.as_mut().filter(|o| o.established) else { return };
        let rest = self.cookie.get(opening.cookie_sent..).unwrap_or_default();
        // An error means that the connection is going; its `Closed` follows.
        let Ok(taken) = io.send(opening.conn, rest, false) else { return };
        opening.cookie_sent += taken;
        if taken < rest.len() {
            return;
        }
        let conn = opening.conn;
        self.opening = None;
        if let (Some(asked), Some(info)) = (self.config.params.window, io.info(conn))
            && (info.sndbuf < asked || info.rcvbuf < asked)
        {
            io.abort(conn);
            return self.fail(io, Failure::new(Code::SOCKET_BUFFER));
        }
        let Some(m) = &mut self.measurement else { return };
        let info = m.add_stream(io, conn);
        self.outbox.publish(io, Report::Connected(info));
        self.open_next(io);
    }

    /// Whether the test is to end now.
    fn is_at_end(&mut self, io: &mut dyn Io) -> bool {
        let Some(m) = &self.measurement else { return false };
        match m.end_reached(io.now()) {
            EndReached::No => false,
            EndReached::Now => true,
            EndReached::OnceDelivered => {
                let since = *self.all_sent_at.get_or_insert(io.now());
                m.is_delivered(io) || since + DELIVERY_LIMIT <= io.now()
            }
        }
    }

    /// The end condition is met.
    fn end_test(&mut self, io: &mut dyn Io) {
        self.finish_measurement(io);
        if let Some(control) = &mut self.control {
            control.send_state(io, State::TestEnd);
        }
        self.enter(io, Phase::AwaitExchange, Some(ANSWER_LIMIT));
        // A receiver that stopped reading would keep the server from closing.
        self.pump_streams(io);
    }

    fn finish_measurement(&mut self, io: &mut dyn Io) {
        let cpu = self.config.host.cpu_usage();
        let mut intervals = Vec::new();
        if let Some(m) = &mut self.measurement {
            m.finish(io, cpu, &mut intervals);
        }
        for interval in intervals {
            self.outbox.publish(io, Report::Interval(Box::new(interval)));
        }
    }

    fn pump_streams(&mut self, io: &mut dyn Io) {
        let Some(m) = &mut self.measurement else { return };
        let conns: Vec<_> =
            m.streams.iter().filter(|s| s.closed_at.is_none()).map(|s| s.conn).collect();
        for conn in conns {
            m.on_stream(io, conn);
        }
    }

    fn on_results(&mut self, io: &mut dyn Io, body: &[u8]) {
        let m = self.measurement.as_ref();
        let known = |id| m.is_some_and(|m| m.streams.iter().any(|s| s.info.id == id));
        match Results::from_json(body, &known) {
            Ok(results) => {
                self.results = Some(results);
                self.enter(io, Phase::AwaitDisplay, Some(ANSWER_LIMIT));
            }
            Err(failure) => self.fail(io, failure),
        }
    }

    fn display(&mut self, io: &mut dyn Io) {
        if let Some(control) = &mut self.control {
            control.send_state(io, State::IperfDone);
        }
        self.close_streams(io);
        let results = self.results.take();
        if let Some(m) = &self.measurement {
            for (label, at) in m.mismatches() {
                let text = format!("stream {label}: wrong payload at byte {at}");
                self.outbox.publish(io, Report::Warning(text));
            }
            let summary = m.summary(results.as_ref());
            self.outbox.publish(io, Report::Summary(Box::new(summary)));
        }
        // Some versions send it to everybody once anybody has asked.
        if let Some(results) = results.filter(|_| self.config.params.get_server_output) {
            let json = results.server_output_json.map(ServerOutput::Json);
            let output = results.server_output_text.map(ServerOutput::Text).or(json);
            if let Some(output) = output {
                self.outbox.publish(io, Report::ServerOutput(output));
            }
        }
        self.outbox.publish(io, Report::Done { success: true });
        self.exit = Some(0);
        self.enter(io, Phase::Goodbye, Some(GOODBYE_LIMIT));
        self.goodbye(io);
    }

    /// Let the last word out, ignore what may still come, and close.
    fn goodbye(&mut self, io: &mut dyn Io) {
        let Some(control) = &mut self.control else {
            return self.enter(io, Phase::Over, None);
        };
        control.flush(io);
        if control.is_flushed() {
            io.shutdown(control.conn);
        }
        let end = io.recv(control.conn, &mut |bytes| bytes.len()).is_none_or(|r| r.end);
        let late = self.deadline <= io.now();
        if end || late {
            if late {
                io.abort(control.conn);
            } else {
                io.close(control.conn);
            }
            self.control = None;
            self.enter(io, Phase::Over, None);
        }
    }

    /// Results are in, or never will be: what is queued on data connections matters no more.
    fn close_streams(&mut self, io: &mut dyn Io) {
        if let Some(opening) = self.opening.take() {
            io.abort(opening.conn);
        }
        for stream in self.measurement.iter().flat_map(|m| &m.streams) {
            if stream.closed_at.is_none() {
                io.abort(stream.conn);
            }
        }
    }

    /// The test is lost: show what there is, tell the server, and exit with 1.
    fn fail(&mut self, io: &mut dyn Io, failure: Failure) {
        self.give_up(io, Report::Error(failure), 1);
    }

    fn give_up(&mut self, io: &mut dyn Io, last: Report, exit: u8) {
        if matches!(self.phase, Phase::Goodbye | Phase::Over) {
            return;
        }
        let measured = !matches!(
            self.phase,
            Phase::Connecting
                | Phase::AwaitParamExchange
                | Phase::AwaitCreateStreams
                | Phase::Opening
                | Phase::AwaitStart
        );
        let connected = self.phase != Phase::Connecting;
        if measured {
            self.finish_measurement(io);
            if let Some(m) = &self.measurement {
                let summary = m.summary(self.results.as_ref());
                self.outbox.publish(io, Report::Summary(Box::new(summary)));
            }
        }
        self.close_streams(io);
        self.outbox.publish(io, last);
        self.outbox.publish(io, Report::Done { success: false });
        self.exit = Some(exit);
        match &mut self.control {
            Some(control) if connected => {
                control.send_state(io, State::ClientTerminate);
                self.enter(io, Phase::Goodbye, Some(GOODBYE_LIMIT));
                self.goodbye(io);
            }
            Some(control) => {
                io.abort(control.conn);
                self.control = None;
                self.enter(io, Phase::Over, None);
            }
            None => self.enter(io, Phase::Over, None),
        }
    }

    fn on_closed(&mut self, io: &mut dyn Io, conn: ConnId, reason: CloseReason) {
        if self.is_control(conn) {
            self.control = None;
            match self.phase {
                Phase::Connecting => {
                    self.fail(io, Failure::with(Code::CONNECT, close_reason(reason)));
                }
                Phase::Goodbye => self.enter(io, Phase::Over, None),
                _ => self.fail(io, Failure::new(Code::CONTROL_CLOSED)),
            }
        } else if self.opening.as_ref().is_some_and(|o| o.conn == conn) {
            self.opening = None;
            self.fail(io, Failure::with(Code::STREAM_CONNECT, close_reason(reason)));
        } else if let Some(m) = &mut self.measurement {
            // Normal after TEST_END; before it the measurement waits a little and then gives up.
            m.on_closed(io.now(), conn);
        }
    }

    fn on_stop(&mut self, io: &mut dyn Io) {
        if !self.stop_seen {
            self.stop_seen = true;
            self.give_up(io, Report::Interrupted(Code::CLIENT_TERMINATED), 0);
        }
    }

    /// Whatever time has brought: intervals, the end of the test, limits.
    fn on_time(&mut self, io: &mut dyn Io) {
        let now = io.now();
        let mut intervals = Vec::new();
        if let Some(m) = &mut self.measurement {
            m.on_time(io, &mut intervals);
        }
        for interval in intervals {
            self.outbox.publish(io, Report::Interval(Box::new(interval)));
        }
        if self.phase == Phase::Running
            && let Some(m) = &self.measurement
        {
            let fault = m.fault(now);
            if self.is_at_end(io) {
                return self.end_test(io);
            }
            if let Some(code) = fault {
                return self.fail(io, Failure::new(code));
            }
        }
        if self.deadline <= now {
            self.on_deadline(io);
        }
    }

    fn on_deadline(&mut self, io: &mut dyn Io) {
        let late = |code| Failure::with(code, "timed out");
        match self.phase {
            Phase::Connecting => {
                let detail = close_reason(CloseReason::TimedOut);
                self.fail(io, Failure::with(Code::CONNECT, detail));
            }
            Phase::Opening => self.fail(io, late(Code::STREAM_CONNECT)),
            Phase::AwaitResults => self.fail(io, late(Code::RECV_RESULTS)),
            Phase::AwaitParamExchange
            | Phase::AwaitCreateStreams
            | Phase::AwaitStart
            | Phase::AwaitRunning
            | Phase::AwaitExchange
            | Phase::AwaitDisplay => self.fail(io, late(Code::CONTROL_READ)),
            Phase::Goodbye => self.goodbye(io),
            Phase::Running | Phase::Over => {}
        }
    }

    /// After each event: hand out reports, exit once they are out, set the timer.
    fn settle(&mut self, io: &mut dyn Io) {
        self.outbox.flush(io);
        let waiting = self.outbox.is_waiting();
        if !waiting
            && self.phase == Phase::Over
            && let Some(code) = self.exit.take()
        {
            io.exit(code);
        }
        let mut next = self.deadline;
        if waiting {
            next = next.min(io.now() + RETRY);
        }
        if let Some(m) = &self.measurement {
            next = next.min(m.deadline());
            if self.phase == Phase::Running {
                next = next.min(m.time_up().unwrap_or(Instant::FAR_FUTURE));
            }
        }
        if self.phase == Phase::Running {
            let look = if self.all_sent_at.is_some() { DELIVERY_POLL } else { HOUSEKEEPING };
            next = next.min(io.now() + look);
        }
        self.alarm.set(io, next);
    }

    /// The path of the data: what it takes and no more.
    fn on_data(&mut self, io: &mut dyn Io, conn: ConnId) {
        let Some(m) = &mut self.measurement else { return };
        let wake = m.on_stream(io, conn);
        if m.ends_by_amount() && self.phase == Phase::Running && self.all_sent_at.is_none() {
            if self.is_at_end(io) {
                self.end_test(io);
            }
            self.settle(io);
        } else if let OnStream::WakeAt(at) = wake {
            self.alarm.at_most(io, at);
        }
    }
}

impl App for Client {
    fn on_event(&mut self, io: &mut dyn Io, event: AppEvent) {
        match event {
            AppEvent::Start => self.start(io),
            AppEvent::Connected { conn } => self.on_connected(io, conn),
            AppEvent::Readable { conn }
            | AppEvent::PeerClosed { conn }
            | AppEvent::Writable { conn } => {
                if self.is_control(conn) {
                    self.on_control_event(io);
                } else if self.opening.as_ref().is_some_and(|o| o.conn == conn) {
                    self.send_cookie(io);
                } else {
                    return self.on_data(io, conn);
                }
            }
            AppEvent::Closed { conn, reason } => self.on_closed(io, conn, reason),
            AppEvent::Timer { .. } => self.alarm.rang(),
            AppEvent::Accepted { .. } | AppEvent::Message { .. } => {}
            AppEvent::Stop => self.on_stop(io),
        }
        self.on_time(io);
        self.settle(io);
    }
}

const fn connect_error(error: ConnectError) -> &'static str {
    match error {
        ConnectError::NoRoute => "no route to host",
        ConnectError::NotOurs => "local address is not ours",
        ConnectError::Invalid => "invalid address",
        ConnectError::PortsExhausted => "no local port",
        ConnectError::Limit => "too many connections",
    }
}

const fn close_reason(reason: CloseReason) -> &'static str {
    match reason {
        CloseReason::Finished => "closed",
        CloseReason::ResetByPeer => "Connection reset by peer",
        CloseReason::Refused => "Connection refused",
        CloseReason::Aborted => "aborted",
        CloseReason::TimedOut => "Connection timed out",
        CloseReason::Unreachable => "No route to host",
        CloseReason::Resources => "out of resources",
    }
}
