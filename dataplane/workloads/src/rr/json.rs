//! The JSON document of a test; `docs/rr-json.md` describes it.

use serde_json::{Map, Value, json};

use super::hist::Figures;
use super::report::{End, Failures, Interval, Mode, Report, Setup, Standing};
use super::totals::{Totals, per_second};

/// Name and version of the document. Keys are only ever added within a version.
pub const SCHEMA: &str = "millrace-rr/1";

/// Collects reports into one document.
#[derive(Default)]
pub struct Builder {
    /// Keys from outside, put behind `schema`.
    extra: Map<String, Value>,
    test: Value,
    idle: Vec<Value>,
    intervals: Vec<Value>,
    totals: Totals,
}

/// Intervals kept at most: a day of seconds. Later ones are in the totals only.
const INTERVALS_MAX: usize = 86_400;

impl Builder {
    /// With keys of the caller's, such as what it knows about the process.
    pub fn new(extra: Map<String, Value>) -> Self {
        Self { extra, ..Self::default() }
    }

    /// Add a key of the caller's.
    pub fn set(&mut self, key: &str, value: Value) {
        self.extra.insert(key.to_owned(), value);
    }

    /// What has been added up so far.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Take a report in; the document with the last one.
    pub fn push(&mut self, report: &Report) -> Option<Value> {
        match report {
            Report::Begin(setup) => self.test = test(setup),
            Report::Standing(now) => {
                if now.complete {
                    self.totals.standing = Some(*now);
                }
                if self.idle.len() < INTERVALS_MAX {
                    self.idle.push(standing(now));
                }
            }
            Report::Interval(part) => {
                self.totals.add(part);
                if self.intervals.len() < INTERVALS_MAX {
                    self.intervals.push(interval(part));
                }
            }
            Report::End(end, earlier) => {
                self.totals.failures.add(earlier);
                return Some(self.document(*end));
            }
        }
        None
    }

    fn document(&mut self, end: End) -> Value {
        let totals = &self.totals;
        let mut all = Map::new();
        all.insert("schema".to_owned(), json!(SCHEMA));
        all.append(&mut self.extra);
        all.insert("test".to_owned(), core::mem::take(&mut self.test));
        all.insert("idle".to_owned(), Value::Array(core::mem::take(&mut self.idle)));
        all.insert("intervals".to_owned(), Value::Array(core::mem::take(&mut self.intervals)));
        all.insert(
            "total".to_owned(),
            json!({
                "seconds": totals.time.as_secs_f64(),
                "transactions": totals.count(),
                "per_second": per_second(totals.count(), totals.time),
                "failed": totals.failures.total(),
                "latency": figures(&totals.latency.figures()),
                "setup": totals.setup.as_ref().map(|s| figures(&s.figures())),
            }),
        );
        all.insert("failures".to_owned(), failures(&totals.failures));
        let (how, why) = match end {
            End::Complete => ("complete", None),
            End::Interrupted => ("interrupted", None),
            End::Failed(failure) => ("failed", Some(failure.text())),
        };
        all.insert("end".to_owned(), json!(how));
        all.insert("error".to_owned(), json!(why));
        Value::Object(all)
    }
}

fn test(setup: &Setup) -> Value {
    let mut all = json!({
        "server": setup.remote.to_string(),
        "ports": setup.ports,
        "local_addresses": setup.locals.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "request_bytes": setup.request,
        "response_bytes": setup.response,
    });
    let rest = match setup.mode {
        Mode::Ping { connections, outstanding, rate } => json!({
            "mode": "rr",
            "connections": connections,
            "outstanding": outstanding,
            "rate_per_second": rate,
        }),
        Mode::Connect { concurrency, close } => json!({
            "mode": "connect",
            "concurrency": concurrency,
            "close": close.name(),
        }),
    };
    let last = json!({
        "idle_connections": setup.idle,
        "seconds": setup.time.as_secs_f64(),
        "transactions": setup.count,
        "omit_seconds": setup.omit.as_secs_f64(),
    });
    if let Value::Object(all) = &mut all {
        for part in [rest, last] {
            if let Value::Object(mut part) = part {
                all.append(&mut part);
            }
        }
    }
    all
}

/// The figures of a histogram, nanoseconds; null when nothing was recorded.
pub fn figures(f: &Figures) -> Value {
    if f.count == 0 {
        return Value::Null;
    }
    json!({
        "count": f.count,
        "min_ns": f.min,
        "mean_ns": f.mean,
        "p50_ns": f.p50,
        "p90_ns": f.p90,
        "p99_ns": f.p99,
        "p99_9_ns": f.p999,
        "p99_99_ns": f.p9999,
        "max_ns": f.max,
    })
}

fn interval(i: &Interval) -> Value {
    let count = i.latency.count();
    json!({
        "start_seconds": i.start.as_secs_f64(),
        "end_seconds": i.end.as_secs_f64(),
        "omitted": i.omitted,
        "transactions": count,
        "per_second": per_second(count, i.end.saturating_sub(i.start)),
        "latency": figures(&i.latency.figures()),
        "setup": i.setup.as_ref().map(|s| figures(&s.figures())),
        "failures": failures(&i.failures),
    })
}

fn standing(s: &Standing) -> Value {
    json!({
        "at_seconds": s.at.as_secs_f64(),
        "held": s.held,
        "per_second": per_second(s.opened.into(), s.within),
        "complete": s.complete,
    })
}

fn failures(failures: &Failures) -> Value {
    let all = failures.iter().map(|(f, n)| (f.key().to_owned(), json!(n)));
    Value::Object(all.collect())
}
