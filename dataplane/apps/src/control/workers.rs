//! `millrace workers`: what each worker of a running instance is at.

use std::fmt::Write;

use clap::Args;
use runtime::protocol::Request;
use serde_json::{Value, json};

use super::{connect, failed};
use crate::cli::Instance;
use crate::fault::Outcome;
use crate::output;

/// Workers of a running instance: connections, buffers, turns.
#[derive(Args, Debug)]
pub(crate) struct WorkersArgs {
    /// One JSON document
    #[arg(short, long)]
    json: bool,
    /// No header line
    #[arg(short = 'H', long)]
    no_header: bool,
    #[command(flatten)]
    instance: Instance,
}

pub(crate) fn run(args: &WorkersArgs) -> Outcome {
    let mut client = connect(&args.instance.instance)?;
    let answer = client.ask(&Request::Workers).map_err(|e| failed(&e))?;
    if args.json {
        return output::print(&format!("{:#}\n", json!({ "workers": answer })));
    }
    output::print(&table(&answer, !args.no_header))
}

/// Columns with the key of what stands in them. Buffers are in use, of all that the worker has; turns are
/// since it started, and a busy one had something to do.
const COLUMNS: [(&str, &str); 6] = [
    ("worker", "worker"),
    ("knobs", "generation"),
    ("connections", "connections"),
    ("half-open", "half_open"),
    ("time-wait", "time_wait"),
    ("busy-turns", "turns_busy"),
];

fn table(rows: &Value, headed: bool) -> String {
    let mut text = String::new();
    if headed {
        for (title, _) in COLUMNS {
            let _ = write!(text, "{title:>width$} ", width = title.len().max(6));
        }
        text.push_str("  busy            buffers\n");
    }
    for row in rows.as_array().into_iter().flatten() {
        let number = |key: &str| row[key].as_u64().unwrap_or_default();
        for (title, key) in COLUMNS {
            let _ = write!(text, "{:>width$} ", number(key), width = title.len().max(6));
        }
        let (busy, total) = (number("turns_busy"), number("buffers_total"));
        let turns = busy.saturating_add(number("turns_idle"));
        let per_mille = u128::from(busy) * 1000 / u128::from(turns.max(1));
        let share = format!("{}.{} %", per_mille / 10, per_mille % 10);
        let used = total.saturating_sub(number("buffers_free"));
        let _ = writeln!(text, "{share:>7} {:>18}", format!("{used} of {total}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_worker() {
        let row = |worker: u32, busy: u32| {
            json!({
                "worker": worker, "generation": 3, "connections": 12, "half_open": 1,
                "time_wait": 7, "buffers_free": 4000, "buffers_total": 4096,
                "turns_busy": busy, "turns_idle": 900,
            })
        };
        let expected = "\
worker  knobs connections half-open time-wait busy-turns   busy            buffers
     0      3          12         1         7        100  10.0 %         96 of 4096
     1      3          12         1         7          0   0.0 %         96 of 4096
";
        assert_eq!(table(&json!([row(0, 100), row(1, 0)]), true), expected);
        assert_eq!(table(&json!([]), false), "");
        // An instance that says less than we know of.
        let short = table(&json!([{ "worker": 1 }]), false);
        assert!(short.contains("0 of 0"), "{short}");
    }
}
