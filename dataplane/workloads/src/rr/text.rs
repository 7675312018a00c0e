//! Reports as lines for people.

use core::fmt::Write;
use core::time::Duration;

use super::hist::Figures;
use super::report::{Close, End, Failures, Interval, Mode, Report, Setup, Standing};
use super::totals::{Totals, per_second};

/// What a renderer should do.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// A line per interval.
    pub intervals: bool,
    /// TIME-WAIT records that our stack keeps at most, to be stated; `None`: not known.
    pub time_wait_max: Option<u32>,
}

/// Turns reports into lines, one after the other.
pub struct Renderer {
    options: Options,
    setup: Option<Setup>,
    totals: Totals,
    /// The heading of the interval lines is out.
    headed: bool,
}

impl Renderer {
    /// For one test.
    pub fn new(options: Options) -> Self {
        Self { options, setup: None, totals: Totals::default(), headed: false }
    }

    /// The lines that `report` is worth, which may be none.
    pub fn render(&mut self, report: &Report) -> String {
        match report {
            Report::Begin(setup) => {
                self.setup = Some((**setup).clone());
                self.begin(setup)
            }
            Report::Standing(standing) => {
                if standing.complete {
                    self.totals.standing = Some(*standing);
                }
                if self.options.intervals || standing.complete {
                    standing_line(standing)
                } else {
                    String::new()
                }
            }
            Report::Interval(interval) => {
                self.totals.add(interval);
                if self.options.intervals { self.interval_line(interval) } else { String::new() }
            }
            Report::End(end, failures) => {
                self.totals.failures.add(failures);
                self.end(*end)
            }
        }
    }

    /// What has been added up so far.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    fn begin(&self, setup: &Setup) -> String {
        let mut text = format!("rr to {} {}", setup.remote, ports(&setup.ports));
        let _ = write!(text, ": {} B request, {} B response", setup.request, setup.response);
        let _ = match setup.mode {
            Mode::Ping { connections, outstanding, rate } => {
                let _ = write!(text, ", {}", plural(connections.into(), "connection"));
                let _ = write!(text, ", {outstanding} outstanding on each");
                match rate {
                    Some(rate) => write!(text, ", {rate} requests per second"),
                    None => Ok(()),
                }
            }
            Mode::Connect { concurrency, close } => {
                let _ = write!(text, ", a connection each, {concurrency} at once");
                let how = match close {
                    Close::Rst => "the client resets",
                    Close::FinClient => "the client closes first",
                    Close::FinServer => "the server closes first",
                };
                write!(text, ", {how}")
            }
        };
        if setup.locals.len() > 1 {
            let _ = write!(text, ", from {} addresses in turn", setup.locals.len());
        }
        if setup.idle > 0 {
            let _ = write!(text, ", {}", plural(setup.idle.into(), "idle connection"));
        }
        text.push('\n');
        if let (Some(max), Mode::Connect { close, .. }) = (self.options.time_wait_max, setup.mode) {
            let _ = match close {
                Close::Rst => writeln!(text, "no TIME-WAIT: resets leave none"),
                Close::FinClient => {
                    writeln!(
                        text,
                        "TIME-WAIT: at most {max} records here, beyond that they are cut short"
                    )
                }
                Close::FinServer => writeln!(text, "TIME-WAIT: on the server"),
            };
        }
        text
    }

    fn interval_line(&mut self, interval: &Interval) -> String {
        let mut text = String::new();
        if !core::mem::replace(&mut self.headed, true) {
            let what = if interval.setup.is_some() { "conn/s" } else { "trans/s" };
            let _ = writeln!(
                text,
                "{:>15}  {what:>11} {:>9} {:>9} {:>9} {:>9}  microseconds",
                "seconds", "mean", "p50", "p99", "max"
            );
        }
        let f = interval.latency.figures();
        let length = interval.end.saturating_sub(interval.start);
        let _ = write!(
            text,
            "{:>7.2}-{:<7.2}  {:>11.0} {:>9} {:>9} {:>9} {:>9}",
            interval.start.as_secs_f64(),
            interval.end.as_secs_f64(),
            per_second(f.count, length),
            micros_f64(f.mean),
            micros(f.p50),
            micros(f.p99),
            micros(f.max),
        );
        let failed = interval.failures.total();
        if failed > 0 {
            let _ = write!(text, "  {failed} failed");
        }
        if interval.omitted {
            text.push_str("  (omitted)");
        }
        text.push('\n');
        text
    }

    fn end(&self, end: End) -> String {
        let mut text = String::new();
        let totals = &self.totals;
        let connect = matches!(self.setup.as_ref().map(|s| s.mode), Some(Mode::Connect { .. }));
        if totals.count() > 0 {
            text.push_str(&table_heading());
            if let Some(setup) = &totals.setup {
                text.push_str(&table_row("set-up", &setup.figures()));
            }
            let name = if connect { "connection" } else { "round trip" };
            text.push_str(&table_row(name, &totals.latency.figures()));
        }
        if totals.time > Duration::ZERO || totals.count() > 0 {
            let what = if connect { "connection" } else { "transaction" };
            let _ = writeln!(
                text,
                "{} in {:.2} s: {:.0} per second, {} failed",
                plural(totals.count(), what),
                totals.time.as_secs_f64(),
                per_second(totals.count(), totals.time),
                totals.failures.total()
            );
        }
        text.push_str(&failure_lines(&totals.failures));
        match end {
            End::Complete => {}
            End::Interrupted => text.push_str("interrupted\n"),
            End::Failed(failure) => {
                let _ = writeln!(text, "ended early: {}", failure.text());
            }
        }
        text
    }
}

fn failure_lines(failures: &Failures) -> String {
    let mut text = String::new();
    for (failure, count) in failures.iter() {
        let _ = writeln!(text, "  {count} x {}", failure.text());
        if let Some(hint) = failure.hint() {
            let _ = writeln!(text, "      {hint}");
        }
    }
    text
}

fn standing_line(s: &Standing) -> String {
    let rate = per_second(s.opened.into(), s.within);
    let mut text = format!(
        "{:>7.2} s  {} stand, {rate:.0} set up per second",
        s.at.as_secs_f64(),
        plural(s.held.into(), "idle connection"),
    );
    if s.complete {
        let mean = per_second(s.held.into(), s.at);
        let _ = write!(text, "; all stand, {mean:.0} per second on average");
    }
    text.push('\n');
    text
}

/// What stands above the rows of the table of times.
pub fn table_heading() -> String {
    format!(
        "{:<12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
        "microseconds", "min", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"
    )
}

/// One row of the table of times.
pub fn table_row(name: &str, f: &Figures) -> String {
    format!(
        "{name:<12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
        micros(f.min),
        micros_f64(f.mean),
        micros(f.p50),
        micros(f.p90),
        micros(f.p99),
        micros(f.p999),
        micros(f.p9999),
        micros(f.max)
    )
}

fn micros(nanos: u64) -> String {
    micros_f64(nanos as f64)
}

/// Three digits behind the point while that says something.
fn micros_f64(nanos: f64) -> String {
    let us = nanos / 1000.0;
    if us < 100.0 {
        format!("{us:.3}")
    } else if us < 10_000.0 {
        format!("{us:.1}")
    } else {
        format!("{us:.0}")
    }
}

fn plural(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn ports(ports: &[u16]) -> String {
    match ports {
        [one] => format!("port {one}"),
        [first, .., last] => format!("{} ports {first}..{last}", ports.len()),
        [] => "no port".to_owned(),
    }
}
