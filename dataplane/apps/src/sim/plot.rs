//! The picture of `--plot`: charts over a common time axis, a column per variant.

use plotters::coord::Shift;
use plotters::prelude::*;
use sim::scenario::Run;
use sim::scenario::record::FlowSeries;

use super::run::Report;
use crate::fault::{FAILED, Fault};

/// Pixels of a chart.
const WIDTH: u32 = 760;
const HEIGHT: u32 = 210;
/// Pixels for names to the right of a chart, and between two of them.
const LEGEND: i32 = 150;
const LEGEND_STEP: i32 = 14;
/// Goodput is drawn as the mean over this part of the samples, or it would be a comb.
const SMOOTH_PARTS: usize = 150;
/// A queue that never held this part of the fullest is not drawn.
const QUEUE_PART: f64 = 0.02;
/// Pixels of the title.
const TITLE: u32 = 34;
/// Flows and links that are drawn; more would be a blur.
const LINES_MAX: usize = 12;
/// Characters of a name.
const NAME_MAX: usize = 18;
/// Variants that are drawn.
const COLUMNS_MAX: usize = 4;

/// Colours that people who see few of them can tell apart (Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(120, 120, 60),
];

/// A line of a chart.
struct Line {
    name: String,
    points: Vec<(f64, f64)>,
}

/// A chart.
struct Chart {
    title: &'static str,
    /// Of the y axis.
    unit: &'static str,
    lines: Vec<Line>,
    /// The y axis counts these instead of numbers.
    names: Vec<String>,
}

pub(super) fn svg(report: &Report) -> Result<String, Fault> {
    let Some(first) = report.seeds.first() else { return Err(nothing()) };
    let runs: Vec<&Run> =
        report.runs.iter().filter(|r| r.seed == *first).take(COLUMNS_MAX).collect();
    if runs.is_empty() {
        return Err(nothing());
    }
    let columns: Vec<Vec<Chart>> = runs.iter().map(|run| charts(report, run)).collect();
    let rows = columns.iter().map(Vec::len).max().unwrap_or(0);
    let size = (WIDTH * columns.len() as u32, TITLE + HEIGHT * rows as u32);
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(&root, report, &runs, &columns)
            .map_err(|e| Fault::new(FAILED, format!("cannot draw: {e}")))?;
    }
    Ok(text)
}

fn nothing() -> Fault {
    Fault::new(FAILED, "no run to draw: all broke off")
}

type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw(root: &Area<'_>, report: &Report, runs: &[&Run], columns: &[Vec<Chart>]) -> Drawn {
    root.fill(&WHITE)?;
    let widths: Vec<u32> = (1..columns.len() as u32).map(|i| i * WIDTH).collect();
    let (head, body) = root.split_vertically(TITLE);
    let heads = head.split_by_breakpoints(widths.clone(), [0u32; 0]);
    let bodies = body.split_by_breakpoints(widths, [0u32; 0]);
    for (((head, body), run), charts) in heads.iter().zip(&bodies).zip(runs).zip(columns) {
        let variant = report.scenario.variant_name(run.variant);
        let variant = variant.map(|v| format!(", variant {v}")).unwrap_or_default();
        let title = format!(
            "{}{variant}, seed {} (millrace sim run {})",
            report.scenario.name,
            run.seed,
            env!("CARGO_PKG_VERSION")
        );
        head.draw_text(&title, &("sans-serif", 18).into_text_style(head), (12, 8))?;
        let end = run.series.time.last().copied().unwrap_or(1.0).max(1e-6);
        let areas = body.split_evenly((charts.len().max(1), 1));
        for (i, (area, chart)) in areas.iter().zip(charts).enumerate() {
            draw_chart(area, chart, end, i + 1 == charts.len())?;
        }
    }
    root.present()
}

fn draw_chart(area: &Area<'_>, chart: &Chart, end: f64, last: bool) -> Drawn {
    let most = chart.lines.iter().flat_map(|l| &l.points).map(|(_, y)| *y).fold(0.0, f64::max);
    let (low, high) = match chart.names.len() {
        0 => (0.0, if most > 0.0 { most * 1.08 } else { 1.0 }),
        n => (-0.5, n as f64 - 0.5),
    };
    let mut built = ChartBuilder::on(area)
        .caption(format!("{} ({})", chart.title, chart.unit), ("sans-serif", 14))
        .margin_right(LEGEND)
        .margin_left(4)
        .x_label_area_size(if last { 34 } else { 22 })
        .y_label_area_size(84)
        .build_cartesian_2d(0.0..end, low..high)?;
    let names = &chart.names;
    let label = |y: &f64| {
        if names.is_empty() {
            return tidy(*y);
        }
        let whole = (y - y.round()).abs() < 1e-6;
        let index = y.round().max(0.0) as usize;
        names.get(index).filter(|_| whole).cloned().unwrap_or_default()
    };
    built
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(225, 225, 225))
        .label_style(("sans-serif", 12))
        .axis_desc_style(("sans-serif", 12))
        .x_desc(if last { "seconds" } else { "" })
        .x_labels(10)
        .y_labels(if names.is_empty() { 5 } else { names.len().min(8) })
        .x_label_formatter(&|x| tidy(*x))
        .y_label_formatter(&label)
        .draw()?;
    for (i, line) in chart.lines.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let style = colour.stroke_width(if i < COLOURS.len() { 2 } else { 1 });
        built.draw_series(LineSeries::new(line.points.iter().copied(), style))?;
        let (x, y) = (WIDTH as i32 - LEGEND + 12, 40 + i as i32 * LEGEND_STEP);
        area.draw(&PathElement::new([(x, y), (x + 16, y)], style))?;
        let name: String = line.name.chars().take(NAME_MAX).collect();
        area.draw_text(&name, &("sans-serif", 11).into_text_style(area), (x + 21, y - 5))?;
    }
    Ok(())
}

/// A number without digits that say nothing.
fn tidy(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

fn charts(report: &Report, run: &Run) -> Vec<Chart> {
    let scenario = &report.scenario;
    let time = &run.series.time;
    let flows: Vec<(String, &FlowSeries)> = scenario
        .flows()
        .zip(&run.series.flows)
        .map(|((app, index), series)| {
            let spec = &scenario.apps[app];
            let name = if spec.traffic.flows > 1 {
                format!("{}[{index}]", spec.name)
            } else {
                spec.name.clone()
            };
            (name, series)
        })
        .take(LINES_MAX)
        .collect();
    // A line begins where there is something to show.
    let points = |values: &mut dyn Iterator<Item = f64>| -> Vec<(f64, f64)> {
        time.iter().copied().zip(values).skip_while(|(_, y)| *y == 0.0).collect()
    };
    let per_flow = |title, unit, of: &dyn Fn(&FlowSeries) -> Vec<f64>| Chart {
        title,
        unit,
        lines: flows
            .iter()
            .map(|(name, series)| Line {
                name: name.clone(),
                points: points(&mut of(series).into_iter()),
            })
            .collect(),
        names: Vec::new(),
    };
    let mut charts = vec![
        per_flow("goodput", "Mbit/s", &|f| smooth(&f.goodput, time)),
        per_flow("congestion window", "KiB", &|f| {
            f.cwnd.iter().map(|v| *v as f64 / 1024.0).collect()
        }),
        per_flow("receive window offered", "KiB", &|f| {
            f.rcv_wnd.iter().map(|v| f64::from(*v) / 1024.0).collect()
        }),
        per_flow("smoothed round-trip time", "ms", &|f| f.srtt.iter().map(|v| v * 1e3).collect()),
        per_flow("segment size of the sender", "bytes", &|f| {
            f.mss.iter().map(|v| f64::from(*v)).collect()
        }),
    ];
    let queues = scenario.links.iter().zip(&run.series.links).flat_map(|(link, s)| {
        let ways = s.queue.iter().zip(["", " back"]);
        ways.map(move |(queue, way)| Line {
            name: format!("{}{way}", link.id),
            points: time.iter().copied().zip(queue.iter().map(|v| *v as f64 / 1024.0)).collect(),
        })
    });
    let top = |l: &Line| l.points.iter().map(|(_, y)| *y).fold(0.0, f64::max);
    let queues: Vec<Line> = queues.collect();
    let fullest = queues.iter().map(top).fold(0.0, f64::max);
    let told = |l: &Line| top(l) > 0.0 && top(l) >= fullest * QUEUE_PART;
    let queues: Vec<Line> = queues.into_iter().filter(told).take(LINES_MAX).collect();
    if !queues.is_empty() {
        charts.push(Chart { title: "queue", unit: "KiB", lines: queues, names: Vec::new() });
    }
    charts.extend(paths(report, &flows, time));
    charts
}

/// Goodput in Mbit/s, each value the mean over the last few samples, weighed by their times.
fn smooth(goodput: &[f64], time: &[f64]) -> Vec<f64> {
    let span = (goodput.len() / SMOOTH_PARTS).max(1);
    let begins = |i: usize| if i == 0 { 0.0 } else { time.get(i - 1).copied().unwrap_or(0.0) };
    let mean = |i: usize| {
        let (mut bits, mut seconds) = (0.0, 0.0);
        for k in (i + 1).saturating_sub(span)..=i {
            let (Some(rate), Some(end)) = (goodput.get(k), time.get(k)) else { continue };
            bits += rate * (end - begins(k));
            seconds += end - begins(k);
        }
        if seconds > 0.0 { bits / seconds / 1e6 } else { 0.0 }
    };
    (0..goodput.len()).map(mean).collect()
}

/// Which of several equal paths each flow took; `None` if there was never a choice.
fn paths(report: &Report, flows: &[(String, &FlowSeries)], time: &[f64]) -> Option<Chart> {
    let mut links: Vec<usize> =
        flows.iter().flat_map(|(_, f)| &f.path).copied().flatten().collect();
    links.sort_unstable();
    links.dedup();
    if links.is_empty() {
        return None;
    }
    let place = |link: usize| links.iter().position(|l| *l == link).unwrap_or(0) as f64;
    let all = flows.len().max(1) as f64;
    let lines = flows
        .iter()
        .enumerate()
        .map(|(i, (name, f))| {
            // A little apart, so that flows on one path can be told from each other.
            let shift = (i as f64 - (all - 1.0) / 2.0) * 0.6 / all;
            let taken = time.iter().copied().zip(&f.path);
            let points = taken.filter_map(|(x, p)| p.map(|p| (x, place(p) + shift))).collect();
            Line { name: name.clone(), points }
        })
        .collect();
    let names = links.iter().filter_map(|l| report.scenario.links.get(*l)).map(|l| l.id.clone());
    Some(Chart { title: "path", unit: "link", lines, names: names.collect() })
}
