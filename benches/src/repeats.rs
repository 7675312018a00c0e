//! Repeats with the state of the machine beside each, and what becomes of them: medians of those that
//! count, as rows for `docs/performance.md` and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::probe::{ForeignTime, State};

/// A repeat with more than this of a core used by others says nothing.
const FOREIGN_CORES_MAX: f64 = 0.1;
/// A core that does less than this share of the best one seen is shared with a neighbour.
const SHARED_BELOW: f64 = 0.8;

/// What a repeat measured, by name, in the order in which it is to be shown.
pub type Figures = Vec<(String, f64)>;

/// On how many cores a measurement runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cores {
    /// One: where the other one is does not matter.
    One,
    /// Two that talk to each other: only repeats count in which they are near.
    Two,
}

#[derive(Debug)]
struct Repeat {
    figures: Figures,
    before: State,
    after: State,
    foreign: Option<f64>,
}

/// Repeats of one measurement.
#[derive(Debug)]
pub struct Series {
    title: String,
    cores: Cores,
    repeats: Vec<Repeat>,
    /// A core cannot do more than in its best moment.
    best: f64,
}

/// Median, least and largest of what counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// In the middle.
    pub median: f64,
    /// Least.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

impl Series {
    /// No repeats yet.
    pub fn new(title: impl Into<String>, cores: Cores) -> Self {
        Self { title: title.into(), cores, repeats: Vec::new(), best: 0.0 }
    }

    /// What is measured.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Measure once, between two probes, and say on standard error what came out.
    pub fn measure(
        &mut self,
        measure: impl FnOnce() -> Result<Figures, String>,
    ) -> Result<(), String> {
        let (foreign, before) = (ForeignTime::start(), State::probe());
        let figures = measure()?;
        let repeat = Repeat { figures, before, after: State::probe(), foreign: foreign.cores() };
        self.best = self.best.max(before.operations_per_ns).max(repeat.after.operations_per_ns);
        let mut line = format!("  {}:", self.repeats.len() + 1);
        for (name, figure) in &repeat.figures {
            let _ = write!(line, " {name} {}", number(*figure));
        }
        let foreign = repeat.foreign.map_or_else(|| "?".to_owned(), |f| format!("{f:.2}"));
        let counts = if self.counts(&repeat) { "" } else { ": does not count" };
        eprintln!("{line} | {before} | {} | others {foreign} cores{counts}", repeat.after);
        self.repeats.push(repeat);
        Ok(())
    }

    /// Repeat until `wanted` repeats count or `at_most` have been made.
    pub fn repeat(
        &mut self,
        wanted: usize,
        at_most: usize,
        mut measure: impl FnMut() -> Result<Figures, String>,
    ) -> Result<(), String> {
        eprintln!("{}", self.title);
        while self.counted().count() < wanted && self.repeats.len() < at_most {
            self.measure(&mut measure)?;
        }
        Ok(())
    }

    fn counts(&self, repeat: &Repeat) -> bool {
        let Repeat { before, after, foreign, .. } = repeat;
        let distance = self.cores == Cores::One || before.is_near() && after.is_near();
        let shared =
            before.operations_per_ns.min(after.operations_per_ns) < SHARED_BELOW * self.best;
        distance && !shared && foreign.unwrap_or(0.0) <= FOREIGN_CORES_MAX
    }

    fn counted(&self) -> impl Iterator<Item = &Repeat> {
        self.repeats.iter().filter(|r| self.counts(r))
    }

    /// Of the repeats that count; `None` if there are none.
    pub fn summary(&self, figure: &str) -> Option<Summary> {
        summary(self.counted(), figure)
    }

    /// Names in the order of their first appearance.
    fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for (name, _) in self.repeats.iter().flat_map(|r| &r.figures) {
            if !names.contains(&name.as_str()) {
                names.push(name.as_str());
            }
        }
        names
    }

    /// A table: one row for each figure, what counts beside everything.
    pub fn table(&self) -> String {
        let (count, of) = (self.counted().count(), self.repeats.len());
        let mut out = format!(
            "| {} | median (min-max) of {count} repeats that count | of all {of} |\n|---|---|---|\n",
            self.title
        );
        for name in self.names() {
            let counted = summary(self.counted(), name).map_or_else(|| "-".to_owned(), text);
            let all = summary(self.repeats.iter(), name).map_or_else(|| "-".to_owned(), text);
            let _ = writeln!(out, "| {name} | {counted} | {all} |");
        }
        out
    }

    /// Everything.
    pub fn json(&self) -> Value {
        let repeats: Vec<_> = self
            .repeats
            .iter()
            .map(|r| {
                let figures: BTreeMap<_, _> =
                    r.figures.iter().map(|(name, figure)| (name, figure)).collect();
                json!({
                    "figures": figures,
                    "before": r.before.to_string(),
                    "after": r.after.to_string(),
                    "foreign_cores": r.foreign,
                    "counts": self.counts(r),
                })
            })
            .collect();
        let summaries: BTreeMap<_, _> = self
            .names()
            .into_iter()
            .filter_map(|name| Some((name, self.summary(name)?)))
            .map(|(name, s)| (name, json!({"median": s.median, "min": s.min, "max": s.max})))
            .collect();
        json!({ "title": self.title, "summary": summaries, "repeats": repeats })
    }
}

fn summary<'a>(repeats: impl Iterator<Item = &'a Repeat>, figure: &str) -> Option<Summary> {
    let figures = repeats.flat_map(|r| &r.figures);
    let mut values: Vec<f64> = figures.filter(|(name, _)| name == figure).map(|f| f.1).collect();
    values.sort_by(f64::total_cmp);
    let (&min, &max) = (values.first()?, values.last()?);
    let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
    Some(Summary { median: f64::midpoint(low, high), min, max })
}

fn text(s: Summary) -> String {
    format!("{} ({}-{})", number(s.median), number(s.min), number(s.max))
}

/// Three digits that mean something.
pub fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 10_000.0 => {
            let digits = format!("{value:.0}");
            let mut out = String::new();
            for (i, digit) in digits.chars().enumerate() {
                if i > 0 && (digits.len() - i).is_multiple_of(3) && !out.ends_with('-') {
                    out.push(' ');
                }
                out.push(digit);
            }
            out
        }
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(repeats: &[(f64, f64, f64, f64)]) -> Series {
        let mut series = Series::new("a test", Cores::Two);
        for &(figure, ping_pong_ns, operations_per_ns, foreign) in repeats {
            let state = State { ping_pong_ns, operations_per_ns };
            let figures = vec![("Gbit/s".to_owned(), figure)];
            series.best = series.best.max(operations_per_ns);
            series.repeats.push(Repeat {
                figures,
                before: state,
                after: state,
                foreign: Some(foreign),
            });
        }
        series
    }

    #[test]
    fn only_near_unshared_and_undisturbed_repeats_count() {
        let series = series(&[
            (10.0, 60.0, 12.0, 0.0),
            (1.0, 350.0, 12.0, 0.0),
            (2.0, 60.0, 8.0, 0.0),
            (3.0, 60.0, 12.0, 0.5),
            (20.0, 70.0, 11.0, 0.05),
        ]);
        let summary = series.summary("Gbit/s");
        assert_eq!(summary, Some(Summary { median: 15.0, min: 10.0, max: 20.0 }));
        let row = "| Gbit/s | 15.0 (10.0-20.0) | 3.00 (1.00-20.0) |";
        assert!(series.table().contains(row), "{}", series.table());
        assert_eq!(series.json()["summary"]["Gbit/s"]["median"], 15.0);
        let mut one = series;
        one.cores = Cores::One;
        assert_eq!(one.summary("Gbit/s").map(|s| s.min), Some(1.0), "far is as good on one core");
    }

    #[test]
    fn nothing_that_counts_is_shown_as_nothing() {
        let series = series(&[(1.0, 350.0, 12.0, 0.0)]);
        assert_eq!(series.summary("Gbit/s"), None);
        assert!(series.table().contains("| Gbit/s | - | 1.00 (1.00-1.00) |"));
    }

    #[test]
    fn numbers_have_three_digits() {
        let cases = [
            (0.1234, "0.123"),
            (1.234, "1.23"),
            (12.34, "12.3"),
            (123.4, "123"),
            (1234.0, "1234"),
            (12_345.0, "12 345"),
            (1_234_567.0, "1 234 567"),
            (-123_456.0, "-123 456"),
        ];
        for (value, expected) in cases {
            assert_eq!(number(value), expected);
        }
    }
}
