//! Reports as the JSON document of `-J`, and as the lines of `--json-stream`.
//!
//! Keys and their order are those of the original; what only we know stands under `x_stack`.

use core::time::Duration;

use serde_json::{Map, Value, json};

use super::host::Host;
use super::params::Direction;
use super::report::{
    ControlInfo, Integrity, Interval, Report, ServerOutput, Side, StreamInfo, StreamInterval,
    StreamSummary, Sum, Summary, TcpSample, Transfer,
};
use super::results::number;

/// Rows (a stream in an interval) kept for one document. Beyond that, intervals are left out and
/// `x_stack` says how many: a peer that asks for a day with 128 streams must not fill the memory.
pub const ROWS_MAX: usize = 1 << 17;

/// A value as the original prints it: one key a line, indented with tabs.
pub fn to_text(value: &Value) -> String {
    let mut bytes = Vec::new();
    let format = serde_json::ser::PrettyFormatter::with_indent(b"\t");
    let mut out = serde_json::Serializer::with_formatter(&mut bytes, format);
    // Neither writing to memory nor serialising a tree can fail.
    let _ = serde::Serialize::serialize(value, &mut out);
    String::from_utf8(bytes).unwrap_or_default()
}

/// Seconds since 1970 as `Mon, 30 Nov 2026 16:43:11 GMT`.
pub fn http_date(unix_secs: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    // Year 9999 is far enough, and keeps the arithmetic small.
    let secs = unix_secs.min(253_402_300_799);
    let days = secs / 86_400;
    let weekday = DAYS[(days % 7) as usize];
    // Civil date from a day count, with years that begin in March (so that the leap day is last).
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12;
    let year = era * 400 + year_of_era + u64::from(month < 2);
    let (h, m, s) = (secs % 86_400 / 3600, secs % 3600 / 60, secs % 60);
    let name = MONTHS[month as usize];
    format!("{weekday}, {day:02} {name} {year:04} {h:02}:{m:02}:{s:02} GMT")
}

/// Collects the reports of a test into the document of `-J`.
#[derive(Clone, Debug)]
pub struct Builder {
    doc: Document,
    rows_max: usize,
}

impl Builder {
    /// A builder without reports.
    pub fn new(host: &dyn Host) -> Self {
        Self::with_rows_max(host, ROWS_MAX)
    }

    /// The same with another limit than [`ROWS_MAX`].
    pub fn with_rows_max(host: &dyn Host, rows_max: usize) -> Self {
        Self { doc: Document::new(host.version(), host.system_info()), rows_max }
    }

    /// Add a report. Returns the document when it is the last one of a test; the builder is then
    /// empty again, ready for a server's next test.
    pub fn push(&mut self, report: &Report) -> Option<Value> {
        match self.doc.add(report) {
            Step::Interval(interval) => {
                self.doc.keep(interval, self.rows_max);
                None
            }
            Step::Last => Some(self.doc.take().into_value()),
            Step::Started | Step::Error(_) | Step::Output | Step::End | Step::More => None,
        }
    }

    /// The document as it stands, without waiting for the end.
    pub fn so_far(&self) -> Value {
        self.doc.clone().into_value()
    }
}

/// Turns the reports of a test into the lines of `--json-stream`, each a compact object with
/// `event` and `data`.
#[derive(Clone, Debug)]
pub struct Stream {
    doc: Document,
    started: bool,
}

impl Stream {
    /// A stream without reports.
    pub fn new(host: &dyn Host) -> Self {
        Self { doc: Document::new(host.version(), host.system_info()), started: false }
    }

    /// The lines for a report, each with its end; possibly none. Flush after each.
    pub fn push(&mut self, report: &Report) -> String {
        let step = self.doc.add(report);
        let mut lines = String::new();
        // A test that failed early has a start as well.
        let early = matches!(step, Step::Error(_) | Step::Last) && !self.started;
        if early || matches!(step, Step::Started) {
            self.started = true;
            event(&mut lines, "start", self.doc.start());
        }
        match step {
            Step::Interval(interval) => event(&mut lines, "interval", interval_value(interval)),
            Step::Error(text) => event(&mut lines, "error", text.into()),
            Step::Output => {
                if let Some((key, value)) = self.doc.server_output.clone() {
                    event(&mut lines, key, value);
                }
            }
            Step::Last => {
                event(&mut lines, "end", Value::Object(self.doc.take().end));
                self.started = false;
            }
            Step::Started | Step::End | Step::More => {}
        }
        lines
    }
}

fn event(lines: &mut String, name: &str, data: Value) {
    lines.push_str(&json!({ "event": name, "data": data }).to_string());
    lines.push('\n');
}

/// What a report was.
enum Step<'a> {
    /// `start` is complete.
    Started,
    /// One interval.
    Interval(&'a Interval),
    /// `end` is complete.
    End,
    /// What the server printed.
    Output,
    /// An error.
    Error(String),
    /// Nothing follows in this test.
    Last,
    /// Anything else.
    More,
}

/// The parts of the document.
#[derive(Clone, Debug, Default)]
struct Document {
    version: String,
    system_info: String,
    connected: Vec<Value>,
    /// `connecting_to` or `accepted_connection`.
    peer: Option<(&'static str, Value)>,
    control: Option<Box<ControlInfo>>,
    started: Option<Box<ControlInfo>>,
    /// As they came: a tree takes ten times the memory.
    intervals: Vec<Interval>,
    rows: usize,
    intervals_left_out: u64,
    end: Map<String, Value>,
    title: Option<String>,
    extra_data: Option<String>,
    server_output: Option<(&'static str, Value)>,
    warnings: Vec<Value>,
    error: Option<String>,
}

impl Document {
    fn new(version: String, system_info: String) -> Self {
        Self { version, system_info, ..Self::default() }
    }

    /// Take what is here and be ready for the next test.
    fn take(&mut self) -> Self {
        let next = Self::new(self.version.clone(), self.system_info.clone());
        std::mem::replace(self, next)
    }

    fn add<'a>(&mut self, report: &'a Report) -> Step<'a> {
        match report {
            Report::Listening { .. } => Step::More,
            Report::Control(info) => {
                let key = match info.side {
                    Side::Client => "connecting_to",
                    Side::Server => "accepted_connection",
                };
                self.peer = Some((key, json!({ "host": info.host, "port": info.port })));
                self.control = Some(info.clone());
                Step::More
            }
            Report::Connected(info) => {
                self.connected.push(connected(info));
                Step::More
            }
            Report::Started(info) => {
                self.started = Some(info.clone());
                Step::Started
            }
            Report::Interval(interval) => Step::Interval(interval),
            Report::Summary(summary) => {
                self.title.clone_from(&summary.title);
                self.extra_data.clone_from(&summary.extra_data);
                self.end = end(summary);
                Step::End
            }
            Report::ServerOutput(output) => {
                self.server_output = Some(match output {
                    ServerOutput::Text(text) => ("server_output_text", text.as_str().into()),
                    ServerOutput::Json(value) => ("server_output_json", value.clone()),
                });
                Step::Output
            }
            Report::Warning(text) => {
                self.warnings.push(text.as_str().into());
                Step::More
            }
            Report::Error(failure) => self.fail(failure.to_string()),
            Report::Interrupted(code) => {
                let text = super::Failure::new(*code).to_string();
                self.fail(format!("interrupt - {text}"))
            }
            Report::Done { .. } | Report::TestEnded => Step::Last,
        }
    }

    fn fail(&mut self, text: String) -> Step<'static> {
        self.error = Some(text.clone());
        Step::Error(text)
    }

    fn keep(&mut self, interval: &Interval, rows_max: usize) {
        if self.rows.saturating_add(interval.streams.len()) > rows_max {
            self.intervals_left_out = self.intervals_left_out.saturating_add(1);
        } else {
            self.rows += interval.streams.len();
            self.intervals.push(interval.clone());
        }
    }

    fn start(&self) -> Value {
        let mut o = Map::new();
        o.insert("connected".into(), Value::Array(self.connected.clone()));
        o.insert("version".into(), self.version.as_str().into());
        o.insert("system_info".into(), self.system_info.as_str().into());
        let known = self.started.as_deref().or(self.control.as_deref());
        if let Some(info) = known {
            o.insert(
                "timestamp".into(),
                json!({
                    "time": http_date(info.unix_time_ms / 1000),
                    "timesecs": info.unix_time_ms / 1000,
                    "timemillisecs": info.unix_time_ms,
                }),
            );
        }
        if let Some((key, value)) = &self.peer {
            o.insert((*key).into(), value.clone());
        }
        if let Some(info) = known {
            o.insert("cookie".into(), info.cookie.as_str().into());
            match info.params.mss {
                Some(mss) => o.insert("tcp_mss".into(), mss.into()),
                None => o.insert("tcp_mss_default".into(), info.control_mss.into()),
            };
            o.insert("target_bitrate".into(), info.params.bandwidth.into());
            o.insert("fq_rate".into(), info.params.fq_rate.into());
        }
        if let Some(info) = self.started.as_deref() {
            o.insert("sock_bufsize".into(), info.params.window.unwrap_or(0).into());
            o.insert("sndbuf_actual".into(), info.sndbuf.into());
            o.insert("rcvbuf_actual".into(), info.rcvbuf.into());
            o.insert("test_start".into(), test_start(info));
        }
        Value::Object(o)
    }

    fn into_value(self) -> Value {
        let start = self.start();
        let mut o = Map::new();
        o.insert("start".into(), start);
        o.insert("intervals".into(), self.intervals.iter().map(interval_value).collect());
        o.insert("end".into(), Value::Object(self.end));
        let texts = [("title", self.title), ("extra_data", self.extra_data)];
        for (key, text) in texts {
            if let Some(text) = text {
                o.insert(key.into(), text.into());
            }
        }
        if let Some((key, value)) = self.server_output {
            o.insert(key.into(), value);
        }
        let mut extra = Map::new();
        if !self.warnings.is_empty() {
            extra.insert("warnings".into(), Value::Array(self.warnings));
        }
        if self.intervals_left_out > 0 {
            extra.insert("intervals_left_out".into(), self.intervals_left_out.into());
        }
        if !extra.is_empty() {
            o.insert("x_stack".into(), Value::Object(extra));
        }
        if let Some(text) = self.error {
            o.insert("error".into(), text.into());
        }
        Value::Object(o)
    }
}

fn connected(info: &StreamInfo) -> Value {
    json!({
        "socket": info.label,
        "local_host": info.local.ip().to_canonical().to_string(),
        "local_port": info.local.port(),
        "remote_host": info.remote.ip().to_canonical().to_string(),
        "remote_port": info.remote.port(),
    })
}

fn test_start(info: &ControlInfo) -> Value {
    let p = &info.params;
    let by_time = p.num == 0 && p.blockcount == 0;
    json!({
        "protocol": "TCP",
        "num_streams": p.parallel,
        "blksize": p.len,
        "omit": p.omit_secs,
        "duration": if by_time { p.time_secs } else { 0 },
        "bytes": p.num,
        "blocks": p.blockcount,
        "reverse": u8::from(p.direction == Direction::Reverse),
        "tos": p.tos,
        "target_bitrate": p.bandwidth,
        "bidir": u8::from(p.direction == Direction::Bidirectional),
        "fqrate": p.fq_rate,
        "interval": number(info.interval.map_or(0.0, |i| i.as_secs_f64())),
    })
}

/// `start`, `end`, `seconds`, `bytes`, `bits_per_second`: the fields that all rows have.
fn common(o: &mut Map<String, Value>, start: Duration, end: Duration, bytes: u64) {
    let seconds = end.saturating_sub(start).as_secs_f64();
    let rate = if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
    o.insert("start".into(), number(start.as_secs_f64()));
    o.insert("end".into(), number(end.as_secs_f64()));
    o.insert("seconds".into(), number(seconds));
    o.insert("bytes".into(), bytes.into());
    o.insert("bits_per_second".into(), number(rate));
}

fn interval_value(interval: &Interval) -> Value {
    let mut o = Map::new();
    o.insert("streams".into(), interval.streams.iter().map(stream_row).collect());
    o.insert("sum".into(), sum_row(&interval.sum));
    if let Some(sum) = &interval.sum_reverse {
        o.insert("sum_bidir_reverse".into(), sum_row(sum));
    }
    Value::Object(o)
}

fn stream_row(s: &StreamInterval) -> Value {
    let mut o = Map::new();
    o.insert("socket".into(), s.label.into());
    common(&mut o, s.start, s.end, s.bytes);
    if s.sender {
        o.insert("retransmits".into(), s.tcp.retransmits.into());
        o.insert("snd_cwnd".into(), s.tcp.snd_cwnd.into());
        o.insert("snd_wnd".into(), s.tcp.snd_wnd.into());
        o.insert("rtt".into(), s.tcp.rtt_us.into());
        o.insert("rttvar".into(), s.tcp.rttvar_us.into());
        o.insert("pmtu".into(), s.tcp.pmtu.into());
        o.insert("reorder".into(), s.tcp.reorder.into());
    }
    o.insert("omitted".into(), s.omitted.into());
    o.insert("sender".into(), s.sender.into());
    o.insert("x_stack".into(), stack_row(&s.tcp));
    Value::Object(o)
}

/// What the original cannot know.
fn stack_row(tcp: &TcpSample) -> Value {
    json!({
        "snd_mss": tcp.snd_mss,
        "rcv_wnd": tcp.rcv_wnd,
        "rcvbuf": tcp.rcvbuf,
        "sndbuf": tcp.sndbuf,
        "min_rtt": tcp.min_rtt_us,
        "rehash": tcp.rehash,
        "timeouts": tcp.timeouts,
    })
}

fn sum_row(sum: &Sum) -> Value {
    let mut o = Map::new();
    common(&mut o, sum.start, sum.end, sum.bytes);
    if let Some(n) = sum.retransmits {
        o.insert("retransmits".into(), n.into());
    }
    o.insert("omitted".into(), sum.omitted.into());
    o.insert("sender".into(), sum.sender.into());
    Value::Object(o)
}

fn end(summary: &Summary) -> Map<String, Value> {
    let mut o = Map::new();
    let streams = summary.streams.iter().map(|s| stream_end(s, summary.duration)).collect();
    o.insert("streams".into(), streams);
    let names =
        [("sum_sent", "sum_received"), ("sum_sent_bidir_reverse", "sum_received_bidir_reverse")];
    for ((sent_key, received_key), sender) in names.into_iter().zip(summary.directions()) {
        let (sent, received) = summary.totals(sender);
        let retransmits = sent.and_then(|t| t.retransmits);
        o.insert(sent_key.into(), total_row(sent, summary.duration, retransmits, sender));
        o.insert(received_key.into(), total_row(received, summary.duration, None, sender));
    }
    let local = summary.cpu_local;
    let remote = summary.cpu_remote.unwrap_or_default();
    o.insert(
        "cpu_utilization_percent".into(),
        json!({
            "host_total": number(local.total),
            "host_user": number(local.user),
            "host_system": number(local.system),
            "remote_total": number(remote.total),
            "remote_user": number(remote.user),
            "remote_system": number(remote.system),
        }),
    );
    let first_sends = summary.directions().next().unwrap_or(true);
    let (snd, rcv) = if first_sends {
        (&summary.congestion_local, &summary.congestion_remote)
    } else {
        (&summary.congestion_remote, &summary.congestion_local)
    };
    for (key, name) in [("sender_tcp_congestion", snd), ("receiver_tcp_congestion", rcv)] {
        if let Some(name) = name {
            o.insert(key.into(), name.as_str().into());
        }
    }
    if let Some(value) = &summary.remote_x_stack {
        o.insert("x_stack".into(), json!({ "remote": value }));
    }
    o
}

/// A side that is not known counts as zero, as in the original.
fn total_row(t: Option<Transfer>, ours: Duration, retransmits: Option<u64>, sender: bool) -> Value {
    let t = t.unwrap_or(Transfer { duration: ours, ..Transfer::default() });
    let mut o = Map::new();
    common(&mut o, Duration::ZERO, t.duration, t.bytes);
    if let Some(n) = retransmits {
        o.insert("retransmits".into(), n.into());
    }
    o.insert("sender".into(), sender.into());
    Value::Object(o)
}

fn stream_end(s: &StreamSummary, ours: Duration) -> Value {
    let half = |t: Option<Transfer>| {
        let t = t.unwrap_or(Transfer { duration: ours, ..Transfer::default() });
        let mut o = Map::new();
        o.insert("socket".into(), s.label.into());
        common(&mut o, Duration::ZERO, t.duration, t.bytes);
        o
    };
    let mut sender = half(s.sent);
    if let Some(n) = s.sent.and_then(|t| t.retransmits) {
        sender.insert("retransmits".into(), n.into());
        sender.insert("reorder".into(), s.extremes.reorder.into());
        sender.insert("max_snd_cwnd".into(), s.extremes.max_snd_cwnd.into());
        sender.insert("max_snd_wnd".into(), s.extremes.max_snd_wnd.into());
        sender.insert("max_rtt".into(), s.extremes.max_rtt_us.into());
        sender.insert("min_rtt".into(), s.extremes.min_rtt_us.into());
        sender.insert("mean_rtt".into(), s.extremes.mean_rtt_us.into());
    }
    sender.insert("sender".into(), s.sender.into());
    let mut receiver = half(s.received);
    receiver.insert("sender".into(), s.sender.into());
    let mut x_stack = stack_row(&s.last);
    if let (Some(check), Value::Object(o)) = (s.integrity, &mut x_stack) {
        o.insert("integrity".into(), integrity(check));
    }
    json!({ "sender": sender, "receiver": receiver, "x_stack": x_stack })
}

/// Also part of the results object.
pub(crate) fn integrity(check: Integrity) -> Value {
    json!({ "checked_bytes": check.checked_bytes, "first_mismatch": check.first_mismatch })
}
