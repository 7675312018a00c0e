//! The document of `--json`: docs/sim-json.md says what each key means.

use serde_json::{Map, Value, json};
use sim::link::LinkCounters;
use sim::scenario::expect::{Measure, Of, Unit, What, counter_names};
use sim::scenario::record::{End, FlowState, Run, Series};
use sim::scenario::{Outcome, Scenario, Verdict, measure};

use super::run::{Broken, Report};

/// The format. Raised when a key changes its meaning or goes.
const SCHEMA: &str = "millrace-sim/1";

pub(super) fn document(reports: &[Report]) -> String {
    let scenarios: Vec<Value> = reports.iter().map(report).collect();
    let document = json!({
        "schema": SCHEMA,
        "version": env!("CARGO_PKG_VERSION"),
        "passed": reports.iter().all(Report::passed),
        "scenarios": scenarios,
    });
    let mut text = document.to_string();
    text.push('\n');
    text
}

fn report(report: &Report) -> Value {
    let Report { scenario, seeds, runs, broken, verdicts } = report;
    let variants: Vec<&str> = scenario.variants.iter().map(|v| v.name.as_str()).collect();
    let complete = runs.iter().map(|r| ((r.variant, r.seed), run(scenario, r)));
    let failed = broken.iter().map(|b| ((b.variant, b.seed), failure(scenario, b)));
    let mut all: Vec<_> = complete.chain(failed).collect();
    let place = |seed: u64| seeds.iter().position(|s| *s == seed);
    all.sort_by_key(|((variant, seed), _)| (*variant, place(*seed)));
    json!({
        "scenario": scenario.name,
        "file": scenario.file,
        "about": scenario.about,
        "seeds": seeds,
        "variants": variants,
        "warmup_seconds": scenario.warmup.as_secs_f64(),
        "passed": report.passed(),
        "runs": all.into_iter().map(|(_, run)| run).collect::<Vec<Value>>(),
        "expectations":
            verdicts.iter().map(|v| expectation(scenario, seeds, v)).collect::<Vec<Value>>(),
    })
}

fn failure(scenario: &Scenario, broken: &Broken) -> Value {
    json!({
        "scenario": scenario.name,
        "seed": broken.seed,
        "variant": scenario.variant_name(broken.variant),
        "end": "broken",
        "seconds": broken.failure.at.as_nanos() as f64 / 1e9,
        "failure": broken.failure.violation.to_string(),
    })
}

fn run(scenario: &Scenario, run: &Run) -> Value {
    let one = |what: What, app: usize, flow: u32| {
        number(measure(
            scenario,
            run,
            &Measure { what, of: Of::Flow(app, flow), at: None, variant: None },
        ))
    };
    let watched =
        scenario.expects.iter().flat_map(|e| e.measures()).any(|m| m.what == What::Recoveries);
    let flows: Vec<Value> = scenario
        .flows()
        .zip(&run.last.flows)
        .zip(&run.begin.flows)
        .map(|(((app, index), now), before)| {
            let grown = |of: fn(&FlowState) -> u64| of(now).saturating_sub(of(before));
            let spec = &scenario.apps[app];
            json!({
                "application": spec.name,
                "flow": index,
                "from": scenario.hosts[spec.from].name,
                "to": scenario.hosts[spec.to].name,
                "opened_seconds": now.opened_at.map(seconds),
                "completed_seconds": now.completed_at.map(seconds),
                "failed": now.failed,
                "bytes": grown(|f| f.bytes),
                "bytes_intact": !now.wrong,
                "transactions": grown(|f| f.transactions),
                "goodput_bits_per_second": one(What::Goodput, app, index),
                "mss_bytes": now.mss,
                "cwnd_segments": now.cwnd,
                "srtt_seconds": if now.srtt.is_zero() { None } else { Some(now.srtt.as_secs_f64()) },
                "rtos": grown(|f| f.rtos),
                "segments_sent": grown(|f| f.segments),
                "retransmits": grown(|f| f.retransmits),
                "spurious_retransmits": grown(|f| f.spurious),
                "recoveries": if watched { Some(grown(|f| f.recoveries)) } else { None },
                // Without reasons there are none to list: the engine counts them in all.
                "rehashes": { "total": grown(|f| f.rehashes), "by_reason": {} },
                "rcvbuf_bytes": now.rcvbuf,
                "rcvbuf_max_bytes": now.rcvbuf_max,
                "window_limited_share": one(What::WindowLimited, app, index),
            })
        })
        .collect();
    let links: Vec<Value> = scenario
        .links
        .iter()
        .enumerate()
        .map(|(i, link)| {
            let [forward, reverse] = [sim::Way::Forward, sim::Way::Reverse].map(|way| {
                let index = usize::from(way == sim::Way::Reverse);
                let way = Some(way);
                let told = |what: What| {
                    let m = Measure { what, of: Of::All, at: None, variant: None };
                    number(measure(scenario, run, &m))
                };
                direction(
                    run.last.links.get(i).map(|l| &l[index]),
                    run.begin.links.get(i).map(|l| &l[index]),
                    [false, true].map(|packets| told(What::QueueMean { link: i, way, packets })),
                    told(What::Utilisation { link: i, way }),
                )
            });
            json!({ "id": link.id, "forward": forward, "reverse": reverse })
        })
        .collect();
    json!({
        "scenario": scenario.name,
        "seed": run.seed,
        "variant": scenario.variant_name(run.variant),
        "end": match run.end { End::Complete => "complete", End::Time => "time" },
        "seconds": seconds(run.last.at),
        "trace": format!("{:016x}", run.trace.value()),
        "failure": null,
        "flows": flows,
        "links": links,
        "hosts": hosts(scenario, run),
        "series": series(scenario, &run.series),
    })
}

fn seconds(at: base::Instant) -> f64 {
    at.as_nanos() as f64 / 1e9
}

/// What is not defined, or infinite, is null.
fn number(value: Option<f64>) -> Value {
    value.filter(|v| v.is_finite()).map_or(Value::Null, Value::from)
}

fn direction(
    now: Option<&LinkCounters>,
    before: Option<&LinkCounters>,
    [mean_bytes, mean_packets]: [Value; 2],
    utilisation: Value,
) -> Value {
    let (Some(now), Some(before)) = (now, before) else { return Value::Null };
    let grown = |of: fn(&LinkCounters) -> u64| of(now).saturating_sub(of(before));
    json!({
        "offered": grown(|c| c.offered),
        "delivered": grown(|c| c.delivered),
        "delivered_bytes": grown(|c| c.delivered_bytes),
        "drops": {
            "queue": grown(|c| c.queue),
            "loss": grown(|c| c.lost),
            "policer": grown(|c| c.policed),
            "down": grown(|c| c.down),
            "size": grown(|c| c.size),
            "corrupt": grown(|c| c.unnoticed),
        },
        "marked": grown(|c| c.marked),
        "reordered": grown(|c| c.reordered),
        "duplicated": grown(|c| c.duplicated),
        "corrupted": grown(|c| c.corrupted),
        "queue_max_bytes": now.queue_max.bytes,
        "queue_max_packets": now.queue_max.packets,
        "queue_mean_bytes": mean_bytes,
        "queue_mean_packets": mean_packets,
        "utilisation": utilisation,
    })
}

/// Counters and drops that are not zero.
fn hosts(scenario: &Scenario, run: &Run) -> Vec<Value> {
    let names = counter_names();
    let grown = |now: &[u64], before: &[u64], name: &dyn Fn(usize) -> Option<&'static str>| {
        let mut map = Map::new();
        for (i, n) in now.iter().enumerate() {
            let n = n.saturating_sub(before.get(i).copied().unwrap_or(0));
            if let (1.., Some(name)) = (n, name(i)) {
                map.insert(name.to_owned(), n.into());
            }
        }
        map
    };
    let states = run.last.hosts.iter().zip(&run.begin.hosts);
    scenario
        .hosts
        .iter()
        .zip(states)
        .map(|(spec, (now, before))| {
            let counters = grown(&now.counters, &before.counters, &|i| names.get(i).copied());
            let drops = grown(&now.drops, &before.drops, &|i| {
                base::DropReason::ALL.get(i).map(|r| r.name())
            });
            json!({ "name": spec.name, "counters": counters, "drops": drops })
        })
        .collect()
}

fn series(scenario: &Scenario, series: &Series) -> Value {
    let flows: Vec<Value> = scenario
        .flows()
        .zip(&series.flows)
        .map(|((app, index), f)| {
            let path =
                f.path.iter().map(|p| p.and_then(|l| scenario.links.get(l)).map(|l| l.id.as_str()));
            json!({
                "application": scenario.apps[app].name,
                "flow": index,
                "goodput_bits_per_second": rounded(&f.goodput, 1.0),
                "cwnd_bytes": f.cwnd,
                "rcv_wnd_bytes": f.rcv_wnd,
                "rcvbuf_bytes": f.rcvbuf,
                "mss_bytes": f.mss,
                "srtt_seconds": rounded(&f.srtt, 1e9),
                "path": path.collect::<Vec<Option<&str>>>(),
            })
        })
        .collect();
    let links: Vec<Value> = scenario
        .links
        .iter()
        .zip(&series.links)
        .map(|(link, s)| {
            let [forward, reverse] = &s.queue;
            json!({ "id": link.id, "forward_queue_bytes": forward, "reverse_queue_bytes": reverse })
        })
        .collect();
    json!({ "seconds": series.time, "flows": flows, "links": links })
}

/// Digits that nobody can use are left out.
fn rounded(values: &[f64], parts: f64) -> Vec<f64> {
    values.iter().map(|v| (v * parts).round() / parts).collect()
}

fn expectation(scenario: &Scenario, seeds: &[u64], verdict: &Verdict) -> Value {
    let Some(expect) = scenario.expects.get(verdict.expect) else { return Value::Null };
    let per_seed: Vec<Value> = seeds
        .iter()
        .zip(&verdict.values)
        .map(|(seed, value)| json!({ "seed": seed, "value": number(*value) }))
        .collect();
    json!({
        "text": expect.text,
        "line": expect.line,
        "variant": scenario.variant_name(verdict.variant),
        "over": expect.over.name(),
        "op": expect.op.name(),
        "value": number(verdict.value),
        "infinite": verdict.value.is_some_and(f64::is_infinite),
        "target": number(verdict.target),
        "unit": match verdict.unit {
            Unit::Rate => "bits_per_second",
            Unit::Time => "seconds",
            Unit::Share => "share",
            Unit::Bytes => "bytes",
            Unit::Packets => "packets",
            Unit::Number => "number",
        },
        "seeds": per_seed,
        "verdict": match verdict.outcome {
            Outcome::Pass => "pass",
            Outcome::Fail => "fail",
            Outcome::NotRun => "not_run",
        },
    })
}
