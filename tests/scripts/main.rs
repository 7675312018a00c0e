//! Every script of this folder, in virtual time: `millrace drill` as a library.
//!
//! Those in `must_fail` are the tests of the runner itself: each fails in one way, and what is said about it
//! is a file beside it. `MILLRACE_UPDATE=1` writes these files anew.

use std::fs;
use std::path::{Path, PathBuf};

use sim::drill::{Invocation, Variant, run, variants};

/// All scripts below `dir`, in order.
fn scripts(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder is there") {
            let path = entry.expect("the entry is readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "pkt") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts")
}

/// What is said about a script, run in one way; the name is that below this folder.
fn told(path: &Path, variant: Variant) -> (u8, String) {
    let name = path.strip_prefix(folder()).expect("it is below").display().to_string();
    let text = fs::read_to_string(path).expect("scripts are text");
    let mut invocation = Invocation::default();
    variant.apply(&mut invocation);
    let outcome = run(&name, &text, &invocation);
    (outcome.verdict.exit_code(), outcome.verdict.render(&name))
}

#[test]
fn every_script_passes_in_all_its_variants() {
    let mut runs = 0;
    let mut failures = Vec::new();
    for path in scripts(&folder()) {
        if path.parent().is_some_and(|p| p.ends_with("must_fail")) {
            continue;
        }
        let text = fs::read_to_string(&path).expect("scripts are text");
        assert!(text.starts_with("// Covers: "), "{} does not say what it covers", path.display());
        let name = path.file_name().expect("a file has a name").to_string_lossy();
        for variant in variants(&name, &text) {
            runs += 1;
            let (code, told) = told(&path, variant);
            if code != 0 {
                failures.push(format!("{} ({}): {told}", path.display(), variant.name()));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {runs} failed:\n{}", failures.len(), failures.join("\n"));
    assert!(runs > 200, "only {runs} runs were found");
}

#[test]
fn every_way_to_fail_is_told_exactly() {
    let update = std::env::var_os("MILLRACE_UPDATE").is_some();
    let found = scripts(&folder().join("must_fail"));
    assert!(found.len() >= 18, "only {} scripts", found.len());
    for path in found {
        let (code, told) = told(&path, Variant::ALL[0]);
        let got = format!("exit {code}\n{}\n", told.trim_end());
        let file = path.with_extension("expected");
        if update {
            fs::write(&file, &got).expect("the folder is writable");
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(got, expected, "{}", path.display());
        assert_ne!(code, 0, "{} passes", path.display());
    }
}

#[test]
fn a_script_ends_the_same_however_often_it_runs() {
    for path in scripts(&folder().join("must_fail")) {
        assert_eq!(
            told(&path, Variant::ALL[1]),
            told(&path, Variant::ALL[1]),
            "{}",
            path.display()
        );
    }
}
