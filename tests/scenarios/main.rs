//! Every scenario of this folder, with all its seeds and variants: `millrace sim run` as a library.
//!
//! Expectations of those in `must_fail` all fail, and those in `unsupported` ask for what does not exist: they are
//! the tests of the runner itself.

#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use sim::scenario::{self, Order, Outcome, Run, SAMPLES, Scenario, Verdict};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

/// All scenarios below `dir`, in order.
fn scenarios(dir: &Path) -> Vec<Scenario> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder is there") {
            let path = entry.expect("the entry is readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "toml") {
                found.push(path);
            }
        }
    }
    found.sort();
    let parse = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("scenarios are text");
        let name = path.strip_prefix(dir).expect("it is below").display().to_string();
        Scenario::parse(&name, &text).unwrap_or_else(|fault| panic!("{fault}"))
    };
    found.into_iter().map(parse).collect()
}

fn order(seed: u64, variant: Option<usize>) -> Order {
    Order { seed, variant, capture: false, samples: SAMPLES[1] }
}

/// All runs of a scenario, and what becomes of its expectations.
fn run(scenario: &Scenario) -> (Vec<Run>, Vec<Verdict>) {
    let mut runs = Vec::new();
    for variant in scenario.variant_indices() {
        for seed in &scenario.seeds {
            match scenario::run(scenario, order(*seed, variant)) {
                Ok(run) => runs.push(run),
                Err(failure) => panic!("{} with seed {seed}: {failure}", scenario.file),
            }
        }
    }
    let verdicts = scenario::evaluate(scenario, &scenario.seeds, &runs);
    (runs, verdicts)
}

fn told(scenario: &Scenario, verdict: &Verdict) -> String {
    let expect = &scenario.expects[verdict.expect];
    let variant = scenario.variant_name(verdict.variant).unwrap_or_default();
    format!(
        "{}:{}: {} {variant}: {:?}, per seed {:?}",
        scenario.file, expect.line, expect.text, verdict.value, verdict.values
    )
}

/// Do this for all scenarios, on all cores.
fn for_all(scenarios: &[Scenario], check: impl Fn(&Scenario) -> Vec<String> + Sync) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = check(scenario);
                    wrong.lock().expect("nobody panics with it").extend(found);
                }
            });
        }
    });
    wrong.into_inner().expect("nobody panics with it")
}

#[test]
fn every_scenario_holds() {
    let mut all = scenarios(&folder());
    all.retain(|s| !s.file.starts_with("must_fail") && !s.file.starts_with("unsupported"));
    assert!(all.len() >= 10, "{} scenarios found", all.len());
    let wrong = for_all(&all, |scenario| {
        if !scenario.unsupported.is_empty() {
            return scenario.unsupported.iter().map(ToString::to_string).collect();
        }
        assert!(!scenario.expects.is_empty(), "{} expects nothing", scenario.file);
        let (_, verdicts) = run(scenario);
        let fails = verdicts.iter().filter(|v| v.outcome != Outcome::Pass);
        fails.map(|v| told(scenario, v)).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_example_of_the_guide_holds() {
    let guide = include_str!("../../docs/simulator.md");
    let (_, rest) = guide.split_once("```toml\n").expect("there is an example");
    let (text, _) = rest.split_once("```").expect("it ends");
    let mut example = Scenario::parse("guide", text).unwrap_or_else(|fault| panic!("{fault}"));
    example.seeds.truncate(1);
    let (_, verdicts) = run(&example);
    assert_eq!(verdicts.len(), 2);
    for verdict in &verdicts {
        assert_eq!(verdict.outcome, Outcome::Pass, "{}", told(&example, verdict));
    }
}

#[test]
fn expectations_that_cannot_hold_fail() {
    for scenario in scenarios(&folder().join("must_fail")) {
        let (_, verdicts) = run(&scenario);
        assert!(!verdicts.is_empty());
        for verdict in &verdicts {
            assert_eq!(verdict.outcome, Outcome::Fail, "{}", told(&scenario, verdict));
        }
    }
}

#[test]
fn what_does_not_exist_is_refused_by_name_and_line() {
    for scenario in scenarios(&folder().join("unsupported")) {
        let lines: Vec<u32> =
            scenario.unsupported.iter().filter_map(|f| f.line).map(|(line, _)| line).collect();
        assert_eq!(lines, [5, 6, 7, 8, 17, 20, 27], "{:#?}", scenario.unsupported);
    }
}

/// Looking more often, or keeping packets, changes nothing of what happens.
#[test]
fn one_seed_is_one_trace_however_closely_it_is_watched() {
    for scenario in scenarios(&folder().join("network")).iter().take(3) {
        let order = order(scenario.seeds[0], scenario.variant_indices()[0]);
        let run = |order: Order| scenario::run(scenario, order).expect("no oracle complains");
        let plain = run(order);
        let again = run(order);
        let closely = run(Order { samples: SAMPLES[0], capture: true, ..order });
        assert_eq!(plain.trace, again.trace, "{}", scenario.file);
        assert_eq!(plain.last, again.last, "{}", scenario.file);
        assert_eq!(plain.trace, closely.trace, "{}", scenario.file);
        assert!(closely.pcap.is_some_and(|p| p.len() > 1000));
        let other = run(Order { seed: order.seed + 1, ..order });
        assert_ne!(plain.trace, other.trace, "{}: seeds differ", scenario.file);
    }
}
