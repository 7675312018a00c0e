//! Scenario files and paths of `millrace wire`.

use sim::scenario::link_keys::{apply_path, parse_path};
use sim::scenario::model::{APPS_MAX, CARDS_MAX, FLOWS_MAX, HOSTS_MAX, LINKS_MAX, SEEDS_MAX};
use sim::scenario::{Fault, Scenario};
use sim::{LinkConfig, Loss};

const SEEDS: &[&str] = &[
    include_str!("../../scenarios/basics/ecmp-two-paths.toml"),
    include_str!("../../scenarios/basics/variants.toml"),
    include_str!("../../scenarios/network/harm.toml"),
    include_str!("../../scenarios/network/time-line.toml"),
    include_str!("../../scenarios/network/two-cards.toml"),
    include_str!("../../scenarios/unsupported/later.toml"),
    "delay=50ms,loss=1%,rate=100Mbit,queue=1MiB,reorder=5%/10ms",
    "loss=0.1%/20%/50%,policer=1Gbit/64KiB,ecn_mark=65pkt,up=false,drop_larger_than=1400",
];

/// Where to begin.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    SEEDS.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// One run.
pub(crate) fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    path(&text);
    match Scenario::parse("f.toml", &text) {
        Ok(scenario) => check(&scenario, &text),
        Err(fault) => check_fault(&fault, &text),
    }
}

/// A fault names its file and a line that exists, and is made of printable lines.
fn check_fault(fault: &Fault, text: &str) {
    let shown = fault.to_string();
    assert!(shown.starts_with("f.toml:") && !fault.what.is_empty(), "{shown:?}");
    assert!(shown.lines().all(|l| !l.chars().any(char::is_control)), "{shown:?}");
    let (line, _) = fault.line.expect("a place");
    let lines = text.split('\n').count();
    assert!((1..=lines).contains(&(line as usize)), "line {line} of {lines}");
}

/// What whoever runs a scenario takes for granted.
fn check(s: &Scenario, text: &str) {
    s.unsupported.iter().for_each(|fault| check_fault(fault, text));
    assert!((1..=HOSTS_MAX).contains(&s.hosts.len()) && s.links.len() <= LINKS_MAX);
    assert!((1..=SEEDS_MAX).contains(&s.seeds.len()) && s.apps.len() <= APPS_MAX);
    assert!(s.flows().count() <= FLOWS_MAX as usize);
    assert!(s.duration.is_none_or(|d| d > s.warmup));
    assert!(s.timeline.is_sorted_by_key(|m| m.time));
    for host in &s.hosts {
        assert!(host.cards.len() <= CARDS_MAX && host.knobs.len() == s.variant_indices().len());
        for card in &host.cards {
            let v6 = card.addresses.iter().any(|a| a.addr.is_ipv6());
            assert!(!card.addresses.is_empty() && card.mtu >= if v6 { 1280 } else { 576 });
        }
    }
    for app in &s.apps {
        assert!(app.from != app.to && app.from < s.hosts.len() && app.to < s.hosts.len());
        let cards = &s.hosts[app.to].cards;
        assert!(cards.iter().flat_map(|c| &c.addresses).any(|a| a.addr == app.target));
    }
}

/// A path changes what it names, or nothing.
fn path(text: &str) {
    let mut config = LinkConfig::default();
    match (apply_path(text, &mut config), parse_path(text)) {
        (Ok(()), Ok(changes)) => {
            let mut again = LinkConfig::default();
            changes.into_iter().for_each(|change| change.apply(&mut again));
            assert_eq!(config, again);
            if let Loss::Bursts { bad_to_good, .. } = config.loss {
                assert!(bad_to_good.ppm() <= 1_000_000);
            }
        }
        (Err(_), Err(problem)) => {
            assert_eq!(config, LinkConfig::default(), "{problem}");
            assert!(!problem.to_string().is_empty());
        }
        (one, other) => panic!("{one:?} and {other:?}"),
    }
}
