//! Results for people: a table per variant, then what became of each expectation.

use std::fmt::Write;

use sim::scenario::expect::{Measure, Of, Quantity, Unit, What};
use sim::scenario::{Outcome, Run, Scenario, Verdict, measure};

use super::run::Report;

/// Frames of a run that broke off that are shown.
const FRAMES_SHOWN: usize = 20;

pub(super) fn people(reports: &[Report]) -> String {
    let mut out = String::new();
    for (i, report) in reports.iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        one(&mut out, report);
    }
    let expectations = || reports.iter().flat_map(|r| &r.verdicts);
    if reports.len() > 1 {
        let failed = expectations().filter(|v| v.outcome == Outcome::Fail).count();
        let broken: usize = reports.iter().map(|r| r.broken.len()).sum();
        let _ = writeln!(
            out,
            "\n{} scenarios, {} expectations, {failed} failed, {broken} runs broke off",
            reports.len(),
            expectations().count()
        );
    }
    out
}

fn one(out: &mut String, report: &Report) {
    let Report { scenario, seeds, runs, broken, verdicts } = report;
    let seeds = match seeds.as_slice() {
        [seed] => format!("seed {seed}"),
        seeds => format!("{} seeds", seeds.len()),
    };
    let _ = writeln!(out, "{} ({}): {seeds}", scenario.name, scenario.file);
    for variant in scenario.variant_indices() {
        let of: Vec<&Run> = runs.iter().filter(|r| r.variant == variant).collect();
        if of.is_empty() {
            continue;
        }
        if let Some(name) = scenario.variant_name(variant) {
            let _ = writeln!(out, "  variant {name}");
        }
        table(out, scenario, &of);
        failed(out, scenario, &of);
    }
    for broken in broken {
        let failure = &broken.failure;
        let _ = writeln!(out, "  BROKE OFF with seed {}: {}", broken.seed, failure.violation);
        let _ = writeln!(out, "    at {:?} of virtual time; the last frames:", failure.at);
        let skipped = failure.frames.len().saturating_sub(FRAMES_SHOWN);
        for line in failure.frames.iter().skip(skipped) {
            let _ = writeln!(out, "    {line}");
        }
        let variant = scenario.variant_name(broken.variant);
        let variant = variant.map(|name| format!(" --variant {name}")).unwrap_or_default();
        let (file, seed) = (&scenario.file, broken.seed);
        let _ = writeln!(out, "    again: millrace sim run {file} --seeds {seed}{variant}");
    }
    for verdict in verdicts {
        let _ = writeln!(out, "  {}", expectation(report, verdict));
    }
}

/// Flows that broke are easily missed in a table of means.
fn failed(out: &mut String, scenario: &Scenario, runs: &[&Run]) {
    for (index, app) in scenario.apps.iter().enumerate() {
        let of = |run: &Run| {
            let flows = scenario.flows().zip(&run.last.flows);
            flows.filter(|((app, _), flow)| *app == index && flow.failed).count()
        };
        let count: usize = runs.iter().map(|run| of(run)).sum();
        if count > 0 {
            let all = app.traffic.flows as usize * runs.len();
            let _ = writeln!(out, "    {count} of {all} flows of {} failed or broke", app.name);
        }
    }
}

/// One line about an expectation.
fn expectation(report: &Report, verdict: &Verdict) -> String {
    let Some(expect) = report.scenario.expects.get(verdict.expect) else { return String::new() };
    let word = match verdict.outcome {
        Outcome::Pass => "PASS",
        Outcome::Fail => "FAIL",
        Outcome::NotRun => "----",
    };
    let mut line = format!("{word}  {}", expect.text);
    let all_named = expect.measures().all(|m| m.variant.is_some());
    if let (Some(name), false) = (report.scenario.variant_name(verdict.variant), all_named) {
        let _ = write!(line, " [{name}]");
    }
    match (verdict.outcome, verdict.value) {
        (Outcome::NotRun, _) => line.push_str(": not run"),
        (_, Some(value)) => {
            let _ = write!(line, ": {}", Quantity(value, verdict.unit));
        }
        (_, None) => line.push_str(": not defined"),
    }
    if verdict.outcome == Outcome::Fail {
        let _ = write!(line, " (line {})", expect.line);
    }
    if let [_, _, ..] = verdict.values.as_slice() {
        let defined: Vec<f64> = verdict.values.iter().copied().flatten().collect();
        let least = defined.iter().copied().fold(f64::INFINITY, f64::min);
        let most = defined.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if !defined.is_empty() {
            let (least, most) = (Quantity(least, verdict.unit), Quantity(most, verdict.unit));
            let _ = write!(line, ", seeds {least} to {most}");
        }
        let missing = verdict.values.len() - defined.len();
        if missing > 0 {
            let _ = write!(line, ", {missing} not defined");
        }
    }
    line
}

const COLUMNS: [(&str, What); 8] = [
    ("goodput", What::Goodput),
    ("completion", What::Completion),
    ("mss", What::Mss),
    ("srtt", What::Srtt),
    ("rtos", What::Rtos),
    ("retransmits", What::Retransmits { share: true }),
    ("rcvbuf_max", What::RcvbufMax),
    ("intact", What::BytesIntact),
];

/// A row per application, each value the mean over seeds.
fn table(out: &mut String, scenario: &Scenario, runs: &[&Run]) {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let names = COLUMNS.iter().map(|(name, _)| (*name).to_owned());
    rows.push(["application", "flows"].into_iter().map(str::to_owned).chain(names).collect());
    for (index, app) in scenario.apps.iter().enumerate() {
        let mut row = vec![app.name.clone(), app.traffic.flows.to_string()];
        for (_, what) in &COLUMNS {
            let m = Measure { what: what.clone(), of: Of::App(index), at: None, variant: None };
            let values: Vec<f64> =
                runs.iter().filter_map(|run| measure(scenario, run, &m)).collect();
            row.push(match (values.as_slice(), what.unit()) {
                // Not all of them: a mean would say something else.
                (v, _) if v.len() < runs.len() || v.is_empty() => "-".into(),
                (v, Unit::Number) if *what == What::BytesIntact => {
                    if v.iter().all(|v| *v == 1.0) {
                        "yes".into()
                    } else {
                        "NO".into()
                    }
                }
                (v, unit) => Quantity(v.iter().sum::<f64>() / v.len() as f64, unit).to_string(),
            });
        }
        rows.push(row);
    }
    let width = |column: usize| rows.iter().map(|r| r[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS.len() + 2).map(width).collect();
    for row in &rows {
        let mut line = String::from("   ");
        for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
            // Names to the left, numbers to the right.
            let _ = if i == 0 {
                write!(line, " {cell:<width$}")
            } else {
                write!(line, "  {cell:>width$}")
            };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
}
