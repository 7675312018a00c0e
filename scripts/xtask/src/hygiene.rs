//! Rules that the compiler cannot check.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Which of our crates a crate may import; the table of docs/ARCHITECTURE.md.
const IMPORTS: &[(&str, &[&str])] = &[
    ("dataplane/base", &[]),
    ("ffi/accel", &[]),
    ("ffi/dpdk-sys", &[]),
    ("dataplane/wire", &["base", "accel"]),
    ("dataplane/tcp", &["base"]),
    ("dataplane/stack", &["base", "wire", "tcp", "accel"]),
    ("config", &["base", "tcp", "stack"]),
    ("ffi/dpdk", &["base", "dpdk-sys"]),
    ("dataplane/sockets", &["base", "tcp", "stack"]),
    ("dataplane/workloads", &["base", "tcp", "stack"]),
    ("dataplane/sim", &["base", "wire", "tcp", "stack", "config", "sockets", "workloads"]),
    ("dataplane/runtime", &["base", "tcp", "stack", "config", "dpdk"]),
    (
        "dataplane/apps",
        &["base", "wire", "tcp", "stack", "config", "sockets", "workloads", "runtime", "sim"],
    ),
];

const OURS: &[&str] = &[
    "base",
    "accel",
    "dpdk-sys",
    "dpdk",
    "wire",
    "tcp",
    "stack",
    "config",
    "sockets",
    "workloads",
    "sim",
    "runtime",
];

/// Crates without `#![forbid(unsafe_code)]`.
const UNSAFE_ALLOWED: &[&str] = &["ffi/accel", "ffi/dpdk-sys", "ffi/dpdk"];

/// Crates that must be `no_std`: purity that the compiler then checks.
const NO_STD: &[&str] =
    &["dataplane/base", "dataplane/wire", "dataplane/tcp", "dataplane/stack", "dataplane/sockets"];

pub(crate) fn check(root: &Path) -> Result<()> {
    let mut faults = Vec::new();
    for (folder, allowed) in IMPORTS {
        let manifest = root.join(folder).join("Cargo.toml");
        let text = fs::read_to_string(&manifest)
            .with_context(|| format!("cannot read {}", manifest.display()))?;
        for name in dependencies(&text) {
            if OURS.contains(&name) && !allowed.contains(&name) {
                faults.push(format!("{folder} may not import {name}"));
            }
        }
        let library = root.join(folder).join("src/lib.rs");
        let binary = root.join(folder).join("src/main.rs");
        let top = fs::read_to_string(&library).or_else(|_| fs::read_to_string(&binary))?;
        if !UNSAFE_ALLOWED.contains(folder) && !top.contains("#![forbid(unsafe_code)]") {
            faults.push(format!("{folder} does not forbid unsafe code"));
        }
        if NO_STD.contains(folder) && !top.contains("#![no_std]") {
            faults.push(format!("{folder} is not no_std"));
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    bail!("import rules:\n  {}", faults.join("\n  "))
}

/// Names in `[dependencies]` of a manifest (not those for tests and build scripts).
fn dependencies(manifest: &str) -> Vec<&str> {
    manifest
        .lines()
        .skip_while(|line| line.trim() != "[dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['=', '.', ' ']).next())
        .filter(|name| !name.is_empty() && !name.starts_with('#'))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_those_of_the_one_section() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\nbase.workspace = true\n# why\n\
                        tcp = { path = \"y\" }\n[dev-dependencies]\nsim = \"1\"\n";
        assert_eq!(dependencies(manifest), ["base", "tcp"]);
    }
}
