//! Instructions by function: two runs of a program under `valgrind --tool=callgrind`, one twice as
//! long as the other, and their difference. What starting up costs cancels out, and so does all that
//! depends on luck: the same program executes the same instructions in every state of the machine.
//!
//! Valgrind knows no AVX-512, so vector code takes its AVX2 form here.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Instructions of each function itself, without its callees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile(BTreeMap<String, u64>);

impl Profile {
    /// Run `program` with `args` under callgrind and read what it wrote.
    pub fn record(program: &Path, args: &[String]) -> io::Result<Self> {
        let file = Scratch::new();
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--quiet"])
            .arg(format!("--callgrind-out-file={}", file.0.display()))
            .arg(program)
            .args(args)
            .output()
            .map_err(|e| {
                io::Error::new(e.kind(), format!("valgrind (apt-get install valgrind): {e}"))
            })?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(io::Error::other(format!("{}: {said}", output.status)));
        }
        Ok(Self::parse(&std::fs::read_to_string(&file.0)?))
    }

    /// Read callgrind's format: cost lines count for the function named last, except for the one after
    /// `calls=`, which is the cost of the callee.
    pub fn parse(text: &str) -> Self {
        let mut names = BTreeMap::<&str, &str>::new();
        let mut costs = BTreeMap::<&str, u64>::new();
        let (mut function, mut callee) = ("", false);
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("fn=").or_else(|| line.strip_prefix("cfn=")) {
                let (id, name) = rest.split_once(' ').unwrap_or((rest, ""));
                if !name.is_empty() {
                    names.insert(id, name);
                }
                if line.starts_with("fn=") {
                    function = id;
                }
            } else if line.starts_with("calls=") {
                callee = true;
            } else if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) {
                let cost = line.split(' ').nth(1).and_then(|c| c.parse::<u64>().ok());
                if !std::mem::take(&mut callee)
                    && let Some(cost) = cost
                {
                    *costs.entry(function).or_default() += cost;
                }
            }
        }
        let mut by_name = BTreeMap::<String, u64>::new();
        for (id, cost) in costs {
            // Instances of one generic function differ by a hash only.
            let name = names.get(id).copied().unwrap_or(id);
            let name =
                name.split("::h").next().filter(|n| name.len() == n.len() + 19).unwrap_or(name);
            *by_name.entry(name.to_owned()).or_default() += cost;
        }
        Self(by_name)
    }

    /// Of all functions.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// What `self` has executed more than `shorter`, per unit, dearest first.
    pub fn per_unit(&self, shorter: &Self, units: u64) -> Vec<(String, f64)> {
        let per_unit = |(name, cost): (&String, &u64)| {
            let before = shorter.0.get(name).copied().unwrap_or(0);
            (name.clone(), (*cost as f64 - before as f64) / units as f64)
        };
        let mut all: Vec<_> = self.0.iter().map(per_unit).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all
    }
}

/// A file name of our own, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("millrace-callgrind-{}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Not there when valgrind failed, which has been reported.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUT: &str = "\
# callgrind format
version: 1
positions: line
events: Ir

fl=(1) a.rs
fn=(1) main
16 100
+3 20
cfn=(2) work::h0123456789abcdef
calls=2 40
* 5000
-1 7
fi=(2) b.rs
3 1
fe=(1)

fn=(2)
40 4000
cfn=(3) leaf
calls=1 1
* 1000

fn=(3)
1 1000
fn=(4) work::hfedcba9876543210
9 11

totals: 5139
";

    #[test]
    fn callees_count_for_themselves() {
        let profile = Profile::parse(OUT);
        assert_eq!(profile.total(), 5139);
        assert_eq!(profile.0["main"], 128);
        assert_eq!(profile.0["work"], 4011);
        assert_eq!(profile.0["leaf"], 1000);
    }

    #[test]
    fn the_difference_is_per_unit_and_sorted() {
        let short = Profile(BTreeMap::from([("a".into(), 100), ("b".into(), 500)]));
        let long =
            Profile(BTreeMap::from([("a".into(), 300), ("b".into(), 510), ("c".into(), 40)]));
        let rows = long.per_unit(&short, 10);
        assert_eq!(rows, [("a".into(), 20.0), ("c".into(), 4.0), ("b".into(), 1.0)]);
    }
}
