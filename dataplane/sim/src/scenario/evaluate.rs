//! What runs come to: quantities, and whether expectations hold.

use base::{DropReason, Instant};

use super::build;
use super::expect::{
    DropBy, Expect, LinkReason, Measure, Of, Op, Operand, Over, Target, Unit, What, counter_names,
};
use super::model::Scenario;
use super::record::{FlowState, Run, Snapshot};
use crate::link::LinkCounters;
use crate::world::Way;

/// A counter that goes up and down, so its value is told and not what it grew by.
const GAUGE: &str = "TcpCurrEstab";

/// What became of an expectation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It holds.
    Pass,
    /// It does not, or cannot be told.
    Fail,
    /// A variant that it needs was not run.
    NotRun,
}

/// An expectation in one variant.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Index in [`Scenario::expects`].
    pub expect: usize,
    /// The variant that it was looked at in; `None` also if its quantities name all of theirs.
    pub variant: Option<usize>,
    /// The left side per seed; `None`: not defined, as the end of what has not ended.
    pub values: Vec<Option<f64>>,
    /// The left side as it was compared.
    pub value: Option<f64>,
    /// The right side as it was compared.
    pub target: Option<f64>,
    /// The unit of both.
    pub unit: Unit,
    /// What became of it.
    pub outcome: Outcome,
}

/// All expectations over all runs; `seeds` are those that were asked for, of which a run that failed is
/// missing.
pub fn evaluate(scenario: &Scenario, seeds: &[u64], runs: &[Run]) -> Vec<Verdict> {
    let ran = |variant: Option<usize>| runs.iter().any(|r| r.variant == variant);
    let mut verdicts = Vec::new();
    for (index, expect) in scenario.expects.iter().enumerate() {
        let named = expect.variant.is_some() || expect.measures().all(|m| m.variant.is_some());
        let variants = if scenario.variants.is_empty() {
            vec![None]
        } else if named {
            // Once: everything says itself where it belongs.
            vec![expect.variant.or_else(|| expect.measures().find_map(|m| m.variant))]
        } else {
            (0..scenario.variants.len()).map(Some).filter(|v| ran(*v)).collect()
        };
        for variant in variants {
            let look = Look { scenario, seeds, runs, variant };
            verdicts.push(look.verdict(index, expect));
        }
    }
    verdicts
}

struct Look<'a> {
    scenario: &'a Scenario,
    seeds: &'a [u64],
    runs: &'a [Run],
    variant: Option<usize>,
}

impl Look<'_> {
    fn verdict(&self, index: usize, expect: &Expect) -> Verdict {
        let unit = match &expect.left {
            Operand::One(measure) => measure.what.unit(),
            Operand::Ratio(..) => Unit::Number,
        };
        let mut verdict = Verdict {
            expect: index,
            variant: self.variant,
            values: Vec::new(),
            value: None,
            target: None,
            unit,
            outcome: Outcome::NotRun,
        };
        let needed = expect.measures().map(|m| m.variant.or(self.variant));
        if needed.into_iter().any(|v| !self.runs.iter().any(|r| r.variant == v)) {
            return verdict;
        }
        let left = match &expect.left {
            Operand::One(measure) => Sides { top: self.values(measure), bottom: None },
            Operand::Ratio(a, b) => Sides { top: self.values(a), bottom: Some(self.values(b)) },
        };
        let right = match &expect.right {
            Target::Number(number) => vec![Some(*number); self.seeds.len()],
            Target::Measure(measure) => self.values(measure),
        };
        verdict.values = left.each();
        let pair = match expect.over {
            Over::Mean => left.mean().zip(mean(&right)),
            Over::Worst | Over::Every | Over::Best => {
                extreme(&verdict.values, &right, expect.op, expect.over == Over::Best)
            }
        };
        verdict.outcome = match pair {
            Some((value, target)) if expect.op.holds(value, target) => Outcome::Pass,
            _ => Outcome::Fail,
        };
        if let Some((value, target)) = pair {
            (verdict.value, verdict.target) = (Some(value), Some(target));
        }
        verdict
    }

    /// A quantity per seed.
    fn values(&self, what: &Measure) -> Vec<Option<f64>> {
        let variant = what.variant.or(self.variant);
        let run = |seed: &u64| self.runs.iter().find(|r| r.seed == *seed && r.variant == variant);
        self.seeds.iter().map(|seed| measure(self.scenario, run(seed)?, what)).collect()
    }
}

/// One quantity per seed, or two that are divided.
struct Sides {
    top: Vec<Option<f64>>,
    bottom: Option<Vec<Option<f64>>>,
}

impl Sides {
    fn each(&self) -> Vec<Option<f64>> {
        match &self.bottom {
            None => self.top.clone(),
            Some(bottom) => {
                self.top.iter().zip(bottom).map(|(a, b)| divide((*a)?, (*b)?)).collect()
            }
        }
    }

    /// Of two quantities, the means are divided: a mean of ratios would give seeds in which little
    /// happened the most weight.
    fn mean(&self) -> Option<f64> {
        match &self.bottom {
            None => mean(&self.top),
            Some(bottom) => divide(mean(&self.top)?, mean(bottom)?),
        }
    }
}

fn divide(a: f64, b: f64) -> Option<f64> {
    match (a == 0.0, b == 0.0) {
        (true, true) => None,
        (false, true) => Some(f64::INFINITY),
        _ => Some(a / b),
    }
}

/// `None` if one of them is not defined, or there is none.
fn mean(values: &[Option<f64>]) -> Option<f64> {
    let all: Vec<f64> = values.iter().copied().collect::<Option<_>>()?;
    if all.is_empty() { None } else { Some(all.iter().sum::<f64>() / all.len() as f64) }
}

/// The pair that is worst or best for the comparison.
fn extreme(left: &[Option<f64>], right: &[Option<f64>], op: Op, best: bool) -> Option<(f64, f64)> {
    let pairs: Vec<Option<(f64, f64)>> =
        left.iter().zip(right).map(|(l, r)| (*l).zip(*r)).collect();
    // What is not defined is worst of all.
    if !best && pairs.contains(&None) {
        return None;
    }
    // The larger, the better.
    let merit = |(l, r): &(f64, f64)| match op {
        Op::Ge | Op::Gt => l - r,
        Op::Le | Op::Lt => r - l,
        Op::Eq => -(l - r).abs(),
    };
    let order = |a: &(f64, f64), b: &(f64, f64)| merit(a).total_cmp(&merit(b));
    let pairs = pairs.into_iter().flatten();
    if best { pairs.max_by(order) } else { pairs.min_by(order) }
}

/// A quantity in one run; `None` if it is not defined: nothing was sent, or something has not happened.
pub fn measure(scenario: &Scenario, run: &Run, measure: &Measure) -> Option<f64> {
    let now = snapshot(scenario, run, measure)?;
    let flows = Flows {
        scenario,
        run,
        now,
        chosen: scenario
            .flows()
            .enumerate()
            .filter(|(_, (app, flow))| match measure.of {
                Of::All => true,
                Of::App(a) => a == *app,
                Of::Flow(a, f) => (a, f) == (*app, *flow),
            })
            .map(|(i, _)| i)
            .collect(),
    };
    let seconds = now.at.since(run.begin.at).as_secs_f64();
    match &measure.what {
        What::Goodput => flows.goodput(&flows.chosen),
        What::FastestOverSlowest => {
            let each = flows.each_goodput()?;
            let fastest = each.iter().copied().fold(0.0, f64::max);
            divide(fastest, each.iter().copied().fold(f64::INFINITY, f64::min))
        }
        What::Jain => {
            let each = flows.each_goodput()?;
            let sum: f64 = each.iter().sum();
            let squares: f64 = each.iter().map(|x| x * x).sum();
            divide(sum * sum, squares * each.len() as f64)
        }
        What::Completion => flows.completion(),
        What::Mss => flows.states().map(|f| f.mss).filter(|m| *m > 0).min().map(f64::from),
        What::TimeToMss(mss) => flows.time_to_mss(*mss),
        What::Rtos => Some(flows.grown(|f| f.rtos)),
        What::Retransmits { share: false } => Some(flows.grown(|f| f.retransmits)),
        What::Retransmits { share: true } => {
            Some(part(flows.grown(|f| f.retransmits), flows.grown(|f| f.segments)))
        }
        What::SpuriousRetransmits => {
            Some(part(flows.grown(|f| f.spurious), flows.grown(|f| f.segments)))
        }
        What::Recoveries => Some(flows.grown(|f| f.recoveries)),
        What::Rehashes(_) => Some(flows.grown(|f| f.rehashes)),
        What::RcvbufMax => flows.states().map(|f| f.rcvbuf_max).max().map(f64::from),
        What::Rcvbuf => flows.states().map(|f| f.rcvbuf).max().map(f64::from),
        What::WindowLimited => {
            let nanos = |t: core::time::Duration| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX);
            let limited = flows.grown(|f| nanos(f.window_limited));
            Some(part(limited, flows.grown(|f| nanos(f.busy))))
        }
        What::Cwnd { bytes: false } => Some(flows.states().map(|f| f64::from(f.cwnd)).sum()),
        What::Cwnd { bytes: true } => {
            Some(flows.states().map(|f| f64::from(f.cwnd) * f64::from(f.mss)).sum())
        }
        What::Srtt => {
            let all = flows.states().map(|f| f.srtt).filter(|t| !t.is_zero());
            all.max().map(|t| t.as_secs_f64())
        }
        What::QueueMax { link, way, packets } => {
            let most = |c: &LinkCounters| {
                if *packets { f64::from(c.queue_max.packets) } else { c.queue_max.bytes as f64 }
            };
            directions(now, *link, *way).map(most).reduce(f64::max)
        }
        What::QueueMean { link, way, packets } => {
            let area = |c: &LinkCounters| {
                if *packets { c.queue_packet_nanos } else { c.queue_byte_nanos }
            };
            let before = directions(&run.begin, *link, *way).map(area);
            let after = directions(now, *link, *way).map(area);
            let grown = after.zip(before).map(|(a, b)| a.saturating_sub(b) as f64 / 1e9);
            grown.reduce(f64::max).filter(|_| seconds > 0.0).map(|area| area / seconds)
        }
        What::Marks { link, way } => Some(links_grown(run, now, *link, *way, |c| c.marked) as f64),
        What::Utilisation { link, way } => {
            let spec = scenario.links.get(*link)?;
            let limited = [spec.forward, spec.reverse].map(|c| c.rate != base::Rate::UNLIMITED);
            if seconds <= 0.0 || !limited.contains(&true) {
                return None;
            }
            let before = directions(&run.begin, *link, *way).map(|c| c.busy_nanos);
            let after = directions(now, *link, *way).map(|c| c.busy_nanos);
            let busy = after.zip(before).map(|(a, b)| a.saturating_sub(b) as f64 / 1e9 / seconds);
            // What is queued at the end has not been sent yet.
            busy.reduce(f64::max).map(|share| share.min(1.0))
        }
        What::Drops { reason, link, way, host } => {
            Some(drops(run, now, *reason, *link, *way, *host) as f64)
        }
        What::Counter { host, name } => {
            let index = counter_names().iter().position(|n| n == name)?;
            let value = |s: &Snapshot| s.hosts.get(*host)?.counters.get(index).copied();
            let before = if *name == GAUGE { 0 } else { value(&run.begin)? };
            Some(value(now)?.saturating_sub(before) as f64)
        }
        What::BytesIntact => Some(f64::from(u8::from(!flows.states().any(|f| f.wrong)))),
    }
}

/// The moment that a quantity is asked for.
fn snapshot<'r>(scenario: &Scenario, run: &'r Run, measure: &Measure) -> Option<&'r Snapshot> {
    let Some(at) = measure.at else { return Some(&run.last) };
    let index = scenario.moments().iter().position(|t| *t == at)?;
    run.moments.get(index)
}

/// A part of a whole; nothing is no part of nothing.
fn part(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part / whole }
}

fn directions(
    snapshot: &Snapshot,
    link: usize,
    way: Option<Way>,
) -> impl Iterator<Item = &LinkCounters> {
    let both = snapshot.links.get(link).map(|both| both.as_slice()).unwrap_or_default();
    let wanted = move |w: Way| way.is_none_or(|way| way == w);
    both.iter().zip(Way::BOTH).filter(move |(_, w)| wanted(*w)).map(|(c, _)| c)
}

fn drops(
    run: &Run,
    now: &Snapshot,
    reason: Option<DropBy>,
    link: Option<usize>,
    way: Option<Way>,
    host: Option<usize>,
) -> u64 {
    if let Some(DropBy::Host(reason)) = reason {
        let index = DropReason::ALL.iter().position(|r| *r == reason);
        let count = |s: &Snapshot, h: usize| {
            s.hosts.get(h).zip(index).and_then(|(h, i)| h.drops.get(i)).copied().unwrap_or(0)
        };
        return (0..now.hosts.len())
            .filter(|h| host.is_none_or(|wanted| wanted == *h))
            .map(|h| count(now, h).saturating_sub(count(&run.begin, h)))
            .sum();
    }
    let reason = match reason {
        Some(DropBy::Link(reason)) => Some(reason),
        _ => None,
    };
    let count = |c: &LinkCounters| match reason {
        None => c.queue + c.lost + c.policed + c.down + c.size + c.unnoticed,
        Some(LinkReason::Queue) => c.queue,
        Some(LinkReason::Loss) => c.lost,
        Some(LinkReason::Policer) => c.policed,
        Some(LinkReason::Down) => c.down,
        Some(LinkReason::Size) => c.size,
        Some(LinkReason::Corrupt) => c.unnoticed,
    };
    links_grown(run, now, link, way, count)
}

/// What a counter of links has grown by since measuring began.
fn links_grown(
    run: &Run,
    now: &Snapshot,
    link: Option<usize>,
    way: Option<Way>,
    count: impl Fn(&LinkCounters) -> u64,
) -> u64 {
    (0..now.links.len())
        .filter(|l| link.is_none_or(|wanted| wanted == *l))
        .map(|l| {
            let sum = |s: &Snapshot| directions(s, l, way).map(&count).sum::<u64>();
            sum(now).saturating_sub(sum(&run.begin))
        })
        .sum()
}

/// The flows that a quantity is of.
struct Flows<'a> {
    scenario: &'a Scenario,
    run: &'a Run,
    now: &'a Snapshot,
    chosen: Vec<usize>,
}

impl Flows<'_> {
    fn states(&self) -> impl Iterator<Item = &FlowState> {
        self.chosen.iter().filter_map(|i| self.now.flows.get(*i))
    }

    /// What a counter has grown by since measuring began, over all flows.
    fn grown(&self, of: impl Fn(&FlowState) -> u64) -> f64 {
        let each = self.chosen.iter().filter_map(|i| {
            let before = self.run.begin.flows.get(*i)?;
            Some(of(self.now.flows.get(*i)?).saturating_sub(of(before)))
        });
        each.sum::<u64>() as f64
    }

    /// Bits per second of some flows together: from when measuring began, or the first was opened, until
    /// the last was complete, or now.
    fn goodput(&self, flows: &[usize]) -> Option<f64> {
        let states = || flows.iter().filter_map(|i| self.now.flows.get(*i));
        let opened = states().filter_map(|f| f.opened_at).min();
        let start = opened.map_or(self.run.begin.at, |at| at.max(self.run.begin.at));
        let complete = states().map(|f| f.completed_at).collect::<Option<Vec<Instant>>>();
        let end = complete
            .and_then(|all| all.into_iter().max())
            .map_or(self.now.at, |at| at.min(self.now.at));
        let before: u64 =
            flows.iter().filter_map(|i| self.run.begin.flows.get(*i)).map(|f| f.bytes).sum();
        let bytes = states().map(|f| f.bytes).sum::<u64>().saturating_sub(before);
        let seconds = end.since(start).as_secs_f64();
        match (flows.is_empty(), seconds > 0.0) {
            (true, _) => None,
            (false, true) => Some(bytes as f64 * 8.0 / seconds),
            // Over before measuring began, or measured before anything began.
            (false, false) => (self.now.at > self.run.begin.at).then_some(0.0),
        }
    }

    fn each_goodput(&self) -> Option<Vec<f64>> {
        self.chosen.iter().map(|i| self.goodput(&[*i])).collect()
    }

    fn completion(&self) -> Option<f64> {
        let apps: Vec<usize> = self.scenario.flows().map(|(app, _)| app).collect();
        // An idle flow that nobody stops is not waited for.
        let waited = |i: &&usize| {
            let app = apps.get(**i).and_then(|app| self.scenario.apps.get(*app));
            app.is_some_and(|app| build::is_waited_for(&app.traffic))
        };
        let chosen: Vec<&FlowState> =
            self.chosen.iter().filter(waited).filter_map(|i| self.now.flows.get(*i)).collect();
        let first = chosen.iter().filter_map(|f| f.opened_at).min()?;
        let ends = chosen.iter().map(|f| f.completed_at.filter(|at| *at <= self.now.at));
        let last = ends.collect::<Option<Vec<Instant>>>()?.into_iter().max()?;
        Some(last.since(first).as_secs_f64())
    }

    fn time_to_mss(&self, mss: u32) -> Option<f64> {
        let each = self.chosen.iter().map(|i| {
            let opened = self.now.flows.get(*i)?.opened_at?;
            let reached = self.run.mss_reached.get(*i)?;
            let at = reached.iter().find(|(size, _)| *size == mss)?.1;
            (at <= self.now.at).then(|| at.since(opened).as_secs_f64())
        });
        each.collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_seed_depends_on_the_comparison() {
        let left = [Some(1.0), Some(3.0), Some(2.0)];
        let right = [Some(2.0); 3];
        for (op, worst, best) in
            [(Op::Ge, 1.0, 3.0), (Op::Gt, 1.0, 3.0), (Op::Le, 3.0, 1.0), (Op::Lt, 3.0, 1.0)]
        {
            assert_eq!(extreme(&left, &right, op, false).map(|p| p.0), Some(worst), "{op:?}");
            assert_eq!(extreme(&left, &right, op, true).map(|p| p.0), Some(best), "{op:?}");
        }
        assert_eq!(extreme(&left, &right, Op::Eq, true), Some((2.0, 2.0)));
    }

    #[test]
    fn what_is_not_defined_is_worst() {
        let left = [Some(1.0), None];
        let right = [Some(0.0); 2];
        assert_eq!(extreme(&left, &right, Op::Ge, false), None);
        assert_eq!(extreme(&left, &right, Op::Ge, true), Some((1.0, 0.0)));
        assert_eq!(mean(&left), None);
        assert_eq!(mean(&[Some(1.0), Some(2.0)]), Some(1.5));
        assert_eq!(mean(&[]), None);
    }

    #[test]
    fn a_ratio_over_seeds_is_that_of_the_means() {
        let sides =
            Sides { top: vec![Some(10.0), Some(2.0)], bottom: Some(vec![Some(1.0), Some(2.0)]) };
        assert_eq!(sides.mean(), Some(4.0));
        assert_eq!(sides.each(), [Some(10.0), Some(1.0)]);
        assert_eq!(divide(1.0, 0.0), Some(f64::INFINITY));
        assert_eq!(divide(0.0, 0.0), None);
    }
}
