//! What a wire says of itself: a line per direction and second, a table at the end, and the document.

use std::fmt::Write;

use serde_json::{Value, json};
use sim::scenario::path_text::path_of;
use workloads::rr::json::figures;

use super::pipe::{HalfReport, NAMES, Report};

/// Name and version of the document, docs/wire.md.
pub(crate) const SCHEMA: &str = "millrace-wire/1";

/// Frames that did not arrive, by reason, as people read it and as the document names it.
fn losses(half: &HalfReport) -> [(&'static str, &'static str, u64); 8] {
    let (link, extra) = (&half.link, &half.extra);
    [
        ("lost", "loss", link.lost),
        ("queue full", "queue", link.queue),
        ("policed", "policer", link.policed),
        ("too large", "size", link.size),
        ("link down", "down", link.down),
        ("corrupt beyond notice", "corrupt", link.unnoticed),
        ("cut by the device", "cut", extra.cut),
        ("no buffer", "no_buffer", extra.no_buffer),
    ]
}

fn dropped(half: &HalfReport) -> u64 {
    losses(half).iter().map(|(.., count)| count).sum()
}

/// Frames that came in.
fn frames_in(half: &HalfReport) -> u64 {
    half.link.offered + half.extra.cut
}

/// Reasons that occurred, or a dash.
fn reasons(half: &HalfReport, before: Option<&HalfReport>) -> String {
    let earlier = before.map(losses);
    let mut parts = Vec::new();
    for (index, (what, _, count)) in losses(half).into_iter().enumerate() {
        let count = count - earlier.map_or(0, |earlier| earlier[index].2);
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    }
    if parts.is_empty() { "-".to_owned() } else { parts.join(", ") }
}

/// Bits per second as people read them.
pub(crate) fn rate(bytes: u64, seconds: f64) -> String {
    if seconds <= 0.0 {
        return "-".to_owned();
    }
    let bits = bytes as f64 * 8.0 / seconds;
    let (scaled, unit) = match bits {
        b if b >= 1e9 => (b / 1e9, "Gbit/s"),
        b if b >= 1e6 => (b / 1e6, "Mbit/s"),
        b => (b / 1e3, "kbit/s"),
    };
    format!("{scaled:.1} {unit}")
}

fn micros(nanos: u64) -> String {
    format!("{:.0} us", nanos as f64 / 1e3)
}

/// The names of the columns.
pub(crate) fn heading() -> String {
    format!(
        "{:>7}  {:9} {:>9} {:>14} {:>9} {:>14} {:>10} {:>9}  dropped\n",
        "seconds", "direction", "in", "rate in", "out", "rate out", "queue", "late p99"
    )
}

/// Two lines: what happened since `before`.
pub(crate) fn second(report: &Report, before: Option<&Report>) -> String {
    let mut text = String::new();
    let since = before.map_or(0.0, |b| b.time.as_secs_f64());
    let seconds = report.time.as_secs_f64() - since;
    for (index, half) in report.halves.iter().enumerate() {
        let earlier = before.map(|b| &b.halves[index]);
        let grown = |of: fn(&HalfReport) -> u64| of(half) - earlier.map_or(0, of);
        let _ = writeln!(
            text,
            "{:7.1}  {:9} {:>9} {:>14} {:>9} {:>14} {:>8} kB {:>9}  {}",
            report.time.as_secs_f64(),
            NAMES[index],
            grown(frames_in),
            rate(grown(|h| h.extra.in_bytes), seconds),
            grown(|h| h.extra.out),
            rate(grown(|h| h.extra.out_bytes), seconds),
            half.link.queue_max.bytes / 1000,
            micros(half.late_this_second.p99),
            reasons(half, earlier),
        );
    }
    text
}

/// All of it.
pub(crate) fn summary(report: &Report) -> String {
    let seconds = report.time.as_secs_f64();
    let mut text = format!("{seconds:.1} s\n");
    for (name, half) in NAMES.iter().zip(&report.halves) {
        let (link, extra) = (&half.link, &half.extra);
        let _ = writeln!(text, "{name}: {}", or_plain(&path_of(&half.config)));
        let _ = writeln!(
            text,
            "  in {} frames, {}; out {} frames, {}; {} on their way",
            frames_in(half),
            rate(extra.in_bytes, seconds),
            extra.out,
            rate(extra.out_bytes, seconds),
            half.held,
        );
        let share = dropped(half) as f64 * 100.0 / (frames_in(half).max(1) as f64);
        let _ =
            writeln!(text, "  dropped {} ({share:.2} %): {}", dropped(half), reasons(half, None));
        let done = [
            ("marked", link.marked),
            ("reordered", link.reordered),
            ("duplicated", link.duplicated),
            ("with a bit flipped", link.corrupted - link.unnoticed),
            ("checksums completed", extra.completed),
        ];
        let done: Vec<String> = done
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(what, count)| format!("{count} {what}"))
            .collect();
        if !done.is_empty() {
            let _ = writeln!(text, "  {}", done.join(", "));
        }
        if half.late.count > 0 {
            let _ = writeln!(
                text,
                "  late by p50 {}, p99 {}, p99.9 {}, at most {}",
                micros(half.late.p50),
                micros(half.late.p99),
                micros(half.late.p999),
                micros(half.late.max)
            );
        }
    }
    text
}

/// How a link is described that does nothing.
pub(crate) fn or_plain(path: &str) -> &str {
    if path.is_empty() { "as it is" } else { path }
}

/// The document.
pub(crate) fn document(report: &Report, seed: u64) -> Value {
    let half = |half: &HalfReport| {
        let (link, extra) = (&half.link, &half.extra);
        let drops: serde_json::Map<String, Value> = losses(half)
            .into_iter()
            .map(|(_, key, count)| (key.to_owned(), json!(count)))
            .collect();
        json!({
            "path": path_of(&half.config),
            "frames_in": frames_in(half),
            "bytes_in": extra.in_bytes,
            "frames_out": extra.out,
            "bytes_out": extra.out_bytes,
            "frames_held": half.held,
            "frames_held_max": extra.held_max,
            "drops": drops,
            "marked": link.marked,
            "reordered": link.reordered,
            "duplicated": link.duplicated,
            "corrupted": link.corrupted - link.unnoticed,
            "checksums_completed": extra.completed,
            "queue_bytes": half.backlog.bytes,
            "late": figures(&half.late),
        })
    };
    json!({
        "schema": SCHEMA,
        "version": concat!("millrace ", env!("CARGO_PKG_VERSION")),
        "seconds": report.time.as_secs_f64(),
        "seed": seed,
        "buffers_free": report.buffers.free,
        "buffers_total": report.buffers.total,
        NAMES[0]: half(&report.halves[0]),
        NAMES[1]: half(&report.halves[1]),
    })
}
