//! Every seed, every input of the corpora, and a bounded number of seeded mutations of them.

use std::collections::BTreeSet;

use base::SeededRandom;
use fuzz::{INPUT_MAX, TARGETS, Target, corpus};

/// Files of one corpus at most.
const FILES_MAX: usize = 64;
/// Bytes of one corpus at most.
const BYTES_MAX: usize = 100_000;

/// Says, if the target panics, what it was given.
struct Witness<'a> {
    what: String,
    bytes: &'a [u8],
}

impl Drop for Witness<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let hex: String = self.bytes.iter().map(|b| format!("{b:02x}")).collect();
            eprintln!("{} ({} bytes):\n{hex}", self.what, self.bytes.len());
            eprintln!("text: {:?}", String::from_utf8_lossy(self.bytes));
        }
    }
}

fn run(target: &Target, what: impl Into<String>, bytes: &[u8]) {
    let _witness = Witness { what: what.into(), bytes };
    (target.run)(bytes);
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

fn replay(name: &str) {
    let target = fuzz::find(name).expect("there is such a target");
    if let Some(path) = std::env::var_os("MILLRACE_FUZZ_INPUT") {
        let bytes = std::fs::read(&path).expect("MILLRACE_FUZZ_INPUT can be read");
        return run(target, path.to_string_lossy(), &bytes);
    }
    let mut inputs = (target.seeds)();
    assert!(!inputs.is_empty(), "a target begins somewhere");
    for (index, seed) in inputs.iter().enumerate() {
        run(target, format!("{name}: seed input {index}"), seed);
    }
    for (file, bytes) in corpus::committed(target) {
        run(target, format!("{name}: corpus file {file}"), &bytes);
        inputs.push(bytes);
    }
    let runs = number("MILLRACE_FUZZ_RUNS").unwrap_or(target.mutations.into());
    let seed = number("MILLRACE_SEED").unwrap_or(1);
    let mut random = SeededRandom::new(seed);
    for index in 0..runs {
        let bytes = corpus::mutate(&mut random, &inputs);
        run(target, format!("{name}: mutation {index} of MILLRACE_SEED={seed}"), &bytes);
    }
}

/// A test per target, so that they run at the same time and a failure has a name.
macro_rules! replays {
    ($($name:ident)*) => {
        const REPLAYED: &[&str] = &[$(stringify!($name)),*];
        $(#[test] fn $name() { replay(stringify!($name)); })*
    };
}

replays! {
    ethernet arp ipv4 ipv6 icmpv4 icmpv6 ndp tcp udp pretty reassembly stack iperf_server
    iperf_client control config_file config_flags knobs drill scenario
}

#[test]
fn every_target_is_replayed_and_every_corpus_has_a_target_and_is_small() {
    let targets: BTreeSet<&str> = TARGETS.iter().map(|t| t.name).collect();
    assert_eq!(targets, REPLAYED.iter().copied().collect());
    for folder in std::fs::read_dir(corpus::folder()).into_iter().flatten() {
        let name = folder.expect("the corpora can be listed").file_name();
        let name = name.to_string_lossy();
        let target = fuzz::find(&name).unwrap_or_else(|| panic!("corpus {name} has no target"));
        let files = corpus::committed(target);
        assert!(files.len() <= FILES_MAX, "{name}: {} files", files.len());
        let bytes: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(bytes <= BYTES_MAX, "{name}: {bytes} bytes");
        for (file, bytes) in files {
            assert!(bytes.len() <= INPUT_MAX, "{name}/{file}: {} bytes", bytes.len());
        }
    }
}

#[test]
fn every_target_has_a_binary_for_the_fuzzer() {
    let manifest = include_str!("../runner/Cargo.toml");
    for target in TARGETS {
        assert!(manifest.contains(&format!("name = \"{}\"", target.name)), "{}", target.name);
    }
}
