//! Reports as lines for people, in the columns that scripts have parsed for years.

use core::fmt::Write;
use core::time::Duration;

use super::code::Failure;
use super::params::Direction;
use super::report::{
    ControlInfo, CpuPercent, Interval, Report, ServerOutput, Side, StreamInfo, StreamInterval, Sum,
    Summary, Transfer,
};

const DASHES: &str = "- - - - - - - - - - - - - - - - - - - - - - - - -\n";
const RULE: &str = "-----------------------------------------------------------\n";

/// The unit of the Bitrate column (`-f`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Whatever fits four characters, in bits.
    #[default]
    Adaptive,
    /// Bits in powers of 1000: 1 is `k`, 2 `m`, 3 `g`, 4 `t`.
    Bits(u8),
    /// Bytes in powers of 1024: 1 is `K`, 2 `M`, 3 `G`, 4 `T`.
    Bytes(u8),
}

impl Format {
    /// The letter of `-f`.
    pub fn from_letter(letter: char) -> Option<Self> {
        let power = "kmgt".find(letter.to_ascii_lowercase())? as u8 + 1;
        Some(if letter.is_ascii_lowercase() { Self::Bits(power) } else { Self::Bytes(power) })
    }
}

/// How to render.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Unit of the Bitrate column.
    pub format: Format,
    /// `-V`.
    pub verbose: bool,
    /// `-T`: before each line.
    pub title: Option<String>,
}

/// Lines to be written, each with its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// For standard output (or the log file).
    pub out: String,
    /// For standard error (or the log file).
    pub err: String,
}

/// Turns reports into lines. Keeps only what a later line depends on.
#[derive(Clone, Debug, Default)]
pub struct Renderer {
    options: Options,
    header_shown: bool,
}

impl Renderer {
    /// A renderer for one client, or for a server and all its tests.
    pub fn new(options: Options) -> Self {
        Self { options, header_shown: false }
    }

    /// The lines of one report; possibly none.
    pub fn render(&mut self, report: &Report) -> Rendered {
        let mut out = String::new();
        let mut err = String::new();
        match report {
            Report::Listening { port, test } => {
                self.header_shown = false;
                out += RULE;
                line(&mut out, format_args!("Server listening on {port} (test #{test})"));
                out += RULE;
            }
            Report::Control(info) => self.control(&mut out, info),
            Report::Connected(info) => connected(&mut out, info),
            Report::Started(info) => self.started(&mut out, info),
            Report::Interval(interval) => self.interval(&mut out, interval),
            Report::Summary(summary) => self.summary(&mut out, summary),
            Report::ServerOutput(ServerOutput::Text(text)) => {
                let text = printable(text);
                line(&mut out, format_args!("\nServer output:\n{text}"));
            }
            Report::ServerOutput(ServerOutput::Json(value)) => {
                let text = super::json::to_text(value);
                line(&mut out, format_args!("\nServer JSON output:\n{text}"));
            }
            Report::Warning(text) => line(&mut err, format_args!("warning: {text}")),
            Report::Error(failure) => line(&mut err, format_args!("iperf3: error - {failure}")),
            Report::Interrupted(code) => {
                let failure = Failure::new(*code);
                line(&mut err, format_args!("iperf3: interrupt - {failure}"));
            }
            Report::Done { success: true } => line(&mut out, format_args!("\niperf Done.")),
            Report::Done { success: false } => {}
            Report::TestEnded => self.header_shown = false,
        }
        match &self.options.title {
            Some(title) => Rendered { out: prefixed(title, &out), err },
            None => Rendered { out, err },
        }
    }

    fn control(&mut self, out: &mut String, info: &ControlInfo) {
        self.header_shown = false;
        let params = &info.params;
        let verbose = self.options.verbose;
        if verbose && info.side == Side::Client {
            line(out, format_args!("{}", info.version));
            line(out, format_args!("{}", info.system_info));
            line(out, format_args!("Control connection MSS {}", info.control_mss));
        }
        if verbose {
            line(out, format_args!("Time: {}", super::json::http_date(info.unix_time_ms / 1000)));
        }
        let (host, port) = (&info.host, info.port);
        match info.side {
            Side::Client => line(out, format_args!("Connecting to host {host}, port {port}")),
            Side::Server => line(out, format_args!("Accepted connection from {host}, port {port}")),
        }
        if verbose {
            line(out, format_args!("      Cookie: {}", info.cookie));
            match params.mss {
                Some(mss) => line(out, format_args!("      TCP MSS: {mss}")),
                None => line(out, format_args!("      TCP MSS: {} (default)", info.control_mss)),
            }
            if params.bandwidth > 0 {
                line(out, format_args!("      Target Bitrate: {}", params.bandwidth));
            }
        }
        if info.side == Side::Client && params.direction == Direction::Reverse {
            line(out, format_args!("Reverse mode, remote host {host} is sending"));
        }
    }

    fn started(&self, out: &mut String, info: &ControlInfo) {
        if !self.options.verbose {
            return;
        }
        let p = &info.params;
        let _ = write!(
            out,
            "Starting Test: protocol: TCP, {} streams, {} byte blocks, omitting {} seconds, ",
            p.parallel, p.len, p.omit_secs
        );
        let _ = if p.num > 0 {
            writeln!(out, "{} bytes to send, tos {}", p.num, p.tos)
        } else if p.blockcount > 0 {
            writeln!(out, "{} blocks to send, tos {}", p.blockcount, p.tos)
        } else {
            writeln!(out, "{} second test, tos {}", p.time_secs, p.tos)
        };
    }

    fn interval(&mut self, out: &mut String, interval: &Interval) {
        let any_sender = interval.streams.iter().any(|s| s.sender);
        let bidir = interval.direction == Direction::Bidirectional;
        if !self.header_shown {
            self.header_shown = true;
            header(out, bidir, if any_sender { "         Retr  Cwnd" } else { "" });
        } else if interval.parallel > 1 {
            *out += DASHES;
        }
        let role = |sender| role(bidir, interval.side, sender);
        let reverse = interval.sum_reverse.map(|sum| (sum, !interval.sum.sender));
        for (sum, sender) in core::iter::once((interval.sum, interval.sum.sender)).chain(reverse) {
            for s in interval.streams.iter().filter(|s| s.sender == sender) {
                self.interval_row(out, role(sender), s);
            }
            if interval.parallel > 1 {
                self.sum_row(out, role(sender), &sum);
            }
        }
    }

    fn interval_row(&self, out: &mut String, role: &str, s: &StreamInterval) {
        let columns = self.columns(s.start, s.end, s.bytes);
        let tail = if s.sender {
            let cwnd = bytes_unit(s.tcp.snd_cwnd as f64);
            format!("  {:>3}   {cwnd}       ", s.tcp.retransmits)
        } else {
            " ".repeat(18)
        };
        line(out, format_args!("[{:>3}]{role} {columns}{tail}{}", s.label, omitted(s.omitted)));
    }

    fn sum_row(&self, out: &mut String, role: &str, sum: &Sum) {
        let columns = self.columns(sum.start, sum.end, sum.bytes);
        let tail = match sum.retransmits {
            Some(n) => format!("  {n:>3}{}", " ".repeat(13)),
            None => " ".repeat(18),
        };
        line(out, format_args!("[SUM]{role} {columns}{tail}{}", omitted(sum.omitted)));
    }

    fn summary(&self, out: &mut String, summary: &Summary) {
        let verbose = self.options.verbose;
        let bidir = summary.direction == Direction::Bidirectional;
        *out += DASHES;
        if verbose {
            line(out, format_args!("Test Complete. Summary Results:"));
        }
        let knows_retr = |s: &super::StreamSummary| s.sent.is_some_and(|t| t.retransmits.is_some());
        let retr = summary.streams.iter().any(knows_retr);
        header(out, bidir, if retr { "         Retr" } else { "" });
        for sender in summary.directions() {
            let role = role(bidir, summary.side, sender);
            let streams = summary.streams.iter().filter(|s| s.sender == sender);
            for s in streams {
                let label = format!("[{:>3}]", s.label);
                self.summary_rows(out, &label, role, s.sent, s.received);
            }
            if summary.parallel > 1 {
                let (sent, received) = summary.totals(sender);
                self.summary_rows(out, "[SUM]", role, sent, received);
            }
            if verbose {
                verbose_tail(out, summary, sender);
            }
        }
    }

    fn summary_rows(
        &self,
        out: &mut String,
        label: &str,
        role: &str,
        sent: Option<Transfer>,
        received: Option<Transfer>,
    ) {
        match sent {
            Some(t) => {
                let columns = self.columns(Duration::ZERO, t.duration, t.bytes);
                let tail = match t.retransmits {
                    Some(n) => format!("  {n:>3}{}", " ".repeat(13)),
                    None => " ".repeat(18),
                };
                line(out, format_args!("{label}{role} {columns}{tail}sender"));
            }
            None if self.options.verbose => {
                line(out, format_args!("{label}{role} (sender statistics not available)"));
            }
            None => {}
        }
        match received {
            Some(t) => {
                let columns = self.columns(Duration::ZERO, t.duration, t.bytes);
                line(out, format_args!("{label}{role} {columns}{}receiver", " ".repeat(18)));
            }
            None if self.options.verbose => {
                line(out, format_args!("{label}{role} (receiver statistics not available)"));
            }
            None => {}
        }
    }

    /// Interval, Transfer and Bitrate.
    fn columns(&self, start: Duration, end: Duration, bytes: u64) -> String {
        let rate = rate(self.options.format, bytes, end.saturating_sub(start));
        format!(
            "{:>6.2}-{:<6.2} sec  {}  {rate}/sec",
            start.as_secs_f64(),
            end.as_secs_f64(),
            bytes_unit(bytes as f64),
        )
    }
}

fn line(out: &mut String, args: core::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{args}");
}

/// A peer's text without what a terminal would obey.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

fn prefixed(title: &str, lines: &str) -> String {
    lines.lines().map(|l| format!("{title}:  {l}\n")).collect()
}

fn connected(out: &mut String, info: &StreamInfo) {
    line(
        out,
        format_args!(
            "[{:>3}] local {} port {} connected to {} port {}",
            info.label,
            info.local.ip().to_canonical(),
            info.local.port(),
            info.remote.ip().to_canonical(),
            info.remote.port()
        ),
    );
}

fn header(out: &mut String, bidir: bool, tail: &str) {
    let role = if bidir { "[Role]" } else { "" };
    line(out, format_args!("[ ID]{role} Interval           Transfer     Bitrate{tail}"));
}

const fn omitted(omitted: bool) -> &'static str {
    if omitted { "(omitted)" } else { "" }
}

const fn role(bidir: bool, side: Side, sender: bool) -> &'static str {
    match (bidir, side, sender) {
        (false, _, _) => "",
        (true, Side::Client, true) => "[TX-C]",
        (true, Side::Client, false) => "[RX-C]",
        (true, Side::Server, true) => "[TX-S]",
        (true, Side::Server, false) => "[RX-S]",
    }
}

/// Processor time and congestion control of one direction, as `-V` shows them.
fn verbose_tail(out: &mut String, summary: &Summary, sender: bool) {
    let shares = |p: CpuPercent| format!("{:.1}% ({:.1}%u/{:.1}%s)", p.total, p.user, p.system);
    let (local, remote) = if sender { ("sender", "receiver") } else { ("receiver", "sender") };
    if let Some(cpu_remote) = summary.cpu_remote {
        line(
            out,
            format_args!(
                "CPU Utilization: local/{local} {}, remote/{remote} {}",
                shares(summary.cpu_local),
                shares(cpu_remote)
            ),
        );
    }
    let (snd, rcv) = if sender {
        (&summary.congestion_local, &summary.congestion_remote)
    } else {
        (&summary.congestion_remote, &summary.congestion_local)
    };
    if let Some(name) = snd {
        line(out, format_args!("snd_tcp_congestion {}", printable(name)));
    }
    if let Some(name) = rcv {
        line(out, format_args!("rcv_tcp_congestion {}", printable(name)));
    }
}

/// Four characters, whatever the size.
fn four(value: f64) -> String {
    if value < 9.995 {
        format!("{value:4.2}")
    } else if value < 99.95 {
        format!("{value:4.1}")
    } else {
        format!("{value:4.0}")
    }
}

fn scaled(value: f64, base: f64, power: Option<u8>) -> (f64, u8) {
    let mut value = value;
    let mut reached = 0;
    // The last prefix is T.
    while reached < 4 && power.map_or(value >= base, |p| reached < p) {
        value /= base;
        reached += 1;
    }
    (value, reached)
}

fn prefix(power: u8) -> &'static str {
    match power {
        0 => "",
        1 => "K",
        2 => "M",
        3 => "G",
        _ => "T",
    }
}

fn bytes_unit(bytes: f64) -> String {
    let (value, power) = scaled(bytes, 1024.0, None);
    format!("{} {}Bytes", four(value), prefix(power))
}

fn rate(format: Format, bytes: u64, interval: Duration) -> String {
    let seconds = interval.as_secs_f64();
    let per_second = if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 };
    let (value, power, unit) = match format {
        Format::Adaptive => {
            let (value, power) = scaled(per_second * 8.0, 1000.0, None);
            (value, power, "bits")
        }
        Format::Bits(p) => {
            let (value, power) = scaled(per_second * 8.0, 1000.0, Some(p));
            (value, power, "bits")
        }
        Format::Bytes(p) => {
            let (value, power) = scaled(per_second, 1024.0, Some(p));
            (value, power, "Bytes")
        }
    };
    format!("{} {}{unit}", four(value), prefix(power))
}
