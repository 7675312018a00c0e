//! What came out of scripts, for people and for tools.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sim::drill::{Outcome as Run, Verdict};

use super::Job;

/// Version of the JSON document.
const SCHEMA: &str = "millrace.drill/1";

fn name(job: &Job) -> String {
    match job.variant {
        Some(variant) => format!("{} ({})", job.file, variant.name()),
        None => job.file.clone(),
    }
}

/// One or a few runs, in words.
pub(super) fn people(jobs: &[Job], runs: &[Run]) -> String {
    let mut out = String::new();
    for (job, run) in jobs.iter().zip(runs) {
        for line in run.log.iter().chain(&run.warnings) {
            let _ = writeln!(out, "{line}");
        }
        out.push_str(&run.verdict.render(&job.file));
        let seconds = run.elapsed.as_secs_f64();
        let _ = writeln!(out, "{}: {} after {seconds:.3} s", name(job), run.verdict.word());
    }
    out
}

/// Test Anything Protocol, version 13.
pub(super) fn tap(jobs: &[Job], runs: &[Run]) -> String {
    let mut out = format!("TAP version 13\n1..{}\n", runs.len());
    for (index, (job, run)) in jobs.iter().zip(runs).enumerate() {
        let (word, directive) = match &run.verdict {
            Verdict::Passed => ("ok", String::new()),
            Verdict::Failed(_) | Verdict::Bad(_) => ("not ok", String::new()),
            Verdict::Unsupported(list) => {
                let first = list.first().map_or("", |missing| missing.what.as_str());
                ("ok", format!(" # SKIP not supported: {}", first.replace(['\n', '#'], " ")))
            }
        };
        let _ = writeln!(out, "{word} {} - {}{directive}", index + 1, name(job));
        let problem = run.verdict.render(&job.file);
        let lines = run.log.iter().chain(&run.warnings).map(String::as_str).chain(problem.lines());
        for line in lines {
            let _ = writeln!(out, "# {line}");
        }
    }
    let [pass, fail, bad, unsupported] = totals(runs);
    let _ = writeln!(
        out,
        "# {} runs: {pass} passed, {fail} failed, {bad} bad, {unsupported} unsupported",
        runs.len()
    );
    out
}

fn totals(runs: &[Run]) -> [usize; 4] {
    [0, 1, 2, 3].map(|code| runs.iter().filter(|run| run.verdict.exit_code() == code).count())
}

/// One document.
pub(super) fn json(jobs: &[Job], runs: &[Run]) -> String {
    let results: Vec<Value> = jobs
        .iter()
        .zip(runs)
        .map(|(job, run)| {
            let mut result = json!({
                "script": job.file,
                "variant": job.variant.map(|variant| variant.name()),
                "verdict": run.verdict.word(),
                "elapsed_s": run.elapsed.as_secs_f64(),
                "warnings": run.warnings,
                "log": run.log,
            });
            if let Some(object) = result.as_object_mut() {
                match &run.verdict {
                    Verdict::Passed => {}
                    Verdict::Bad(bad) => {
                        object.insert("message".into(), json!(bad.rendered));
                    }
                    Verdict::Unsupported(list) => {
                        let list: Vec<Value> = list
                            .iter()
                            .map(|u| json!({"line": u.span.line, "column": u.span.column, "what": u.what}))
                            .collect();
                        object.insert("unsupported".into(), json!(list));
                    }
                    Verdict::Failed(failure) => {
                        object.insert("line".into(), json!(failure.span.line));
                        object.insert("column".into(), json!(failure.span.column));
                        object.insert("at_s".into(), json!(failure.at.as_secs_f64()));
                        object.insert("message".into(), json!(failure.message()));
                        object.insert("history".into(), json!(failure.history));
                        if let Some(packets) = &failure.packets {
                            object.insert("expected".into(), json!(packets.expected));
                            object.insert("actual".into(), json!(packets.actual));
                            object.insert("differences".into(), json!(packets.differences));
                        }
                    }
                }
            }
            result
        })
        .collect();
    let [pass, fail, bad, unsupported] = totals(runs);
    let document = json!({
        "schema": SCHEMA,
        "totals": {"pass": pass, "fail": fail, "bad": bad, "unsupported": unsupported},
        "results": results,
    });
    format!("{document:#}\n")
}

/// A file as it is called below the folders that were asked for.
fn relative(file: &str, roots: &[PathBuf]) -> String {
    let path = Path::new(file);
    roots
        .iter()
        .filter(|root| root.is_dir())
        .find_map(|root| path.strip_prefix(root).ok())
        .unwrap_or(path)
        .display()
        .to_string()
}

/// In one line, why a run did not pass. Nothing of the script itself is in it, so that the table may be kept
/// where the scripts may not.
fn reason(verdict: &Verdict) -> Option<String> {
    let one_line = |text: &str| -> String {
        let text: String = text.lines().next().unwrap_or_default().chars().take(160).collect();
        text.replace('|', "\\|")
    };
    let at_line = |line: u32, what: &str| one_line(&format!("line {line}: {what}"));
    Some(match verdict {
        Verdict::Passed => return None,
        Verdict::Bad(bad) => at_line(bad.error.span.line, &bad.error.message),
        Verdict::Unsupported(list) => {
            let mut parts: Vec<&str> = list.iter().map(|u| u.what.as_str()).collect();
            parts.dedup();
            parts.truncate(3);
            format!("unsupported: {}", one_line(&parts.join("; ")))
        }
        Verdict::Failed(failure) => {
            let difference = failure.packets.as_ref().map_or_else(String::new, |packets| {
                let first = packets.differences.first().map_or("nothing came", String::as_str);
                format!(" ({first})")
            });
            at_line(failure.span.line, &format!("{}{difference}", failure.what))
        }
    })
}

/// Tables in Markdown.
pub(super) fn markdown(jobs: &[Job], runs: &[Run], roots: &[PathBuf]) -> String {
    let mut folders: BTreeMap<String, [usize; 4]> = BTreeMap::new();
    let mut reasons: BTreeMap<(String, String), Vec<&'static str>> = BTreeMap::new();
    for (job, run) in jobs.iter().zip(runs) {
        let file = relative(&job.file, roots);
        let folder = Path::new(&file).parent().map(|p| p.display().to_string());
        let folder = folder.filter(|f| !f.is_empty()).unwrap_or_else(|| ".".into());
        let counts = folders.entry(folder).or_default();
        if let Some(count) = counts.get_mut(usize::from(run.verdict.exit_code())) {
            *count += 1;
        }
        if let Some(reason) = reason(&run.verdict) {
            let variant = job.variant.map_or("as written", |variant| variant.name());
            reasons.entry((file, reason)).or_default().push(variant);
        }
    }
    let [pass, fail, bad, unsupported] = totals(runs);
    let mut out = format!(
        "{} runs: {pass} pass, {fail} fail, {unsupported} unsupported, {bad} bad.\n\n\
         | folder | pass | fail | unsupported | bad |\n|---|---|---|---|---|\n",
        runs.len()
    );
    for (folder, [pass, fail, bad, unsupported]) in &folders {
        let _ = writeln!(out, "| {folder} | {pass} | {fail} | {unsupported} | {bad} |");
    }
    out.push_str("\n| script | variants | why it does not pass |\n|---|---|---|\n");
    for ((file, reason), variants) in &reasons {
        let variants = if variants.len() == 3 { "all".to_owned() } else { variants.join(", ") };
        let _ = writeln!(out, "| {file} | {variants} | {reason} |");
    }
    out
}
