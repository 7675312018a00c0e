//! One door to check, test, bench and generate: `cargo xtask TASK`. CI calls the same tasks, so
//! what passes at the desk passes there.

#![forbid(unsafe_code)]

mod fuzz;
mod hygiene;
mod rfc;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

const HELP: &str = "\
usage: cargo xtask TASK

  check     format, lints with and without DPDK, documentation, import rules, generated files
  lint      format and lints only
  test      all tests (nextest where present); privileged ones say so when they are skipped
  engine    build and test without DPDK, for work on the engine
  knobs     write docs/knobs.md from the knob table
  rfc       write docs/rfc/STATUS.md from the claims and the citations in the code
  fuzz TARGET [--seconds N]   search with libFuzzer (60 s); --list says which targets there are,
            --minimize TARGET shrinks the committed corpus to what adds coverage
  bench     run scripts/bench (needs root)
  ci        check, test, engine: what .ci/run does
";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let task = args.next().unwrap_or_default();
    match run_task(&task, &args.collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        // The chain of reasons, and no backtrace: the task failed, not this program.
        Err(e) => {
            eprintln!("xtask: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_task(task: &str, args: &[String]) -> Result<()> {
    std::env::set_current_dir(root())?;
    if task == "fuzz" {
        return fuzz::task(args);
    }
    if let Some(extra) = args.first() {
        bail!("{task} takes no \"{extra}\"\n\n{HELP}");
    }
    match task {
        "check" => check(),
        "lint" => lint(),
        "test" => test(),
        "engine" => engine(),
        "knobs" => write_if_changed("docs/knobs.md", &knobs()?),
        "rfc" => write_if_changed("docs/rfc/STATUS.md", &rfc::report(Path::new("."))?),
        "bench" => run("scripts/bench", &[]),
        "ci" => {
            check()?;
            test()?;
            engine()
        }
        "" | "help" | "-h" | "--help" => {
            print!("{HELP}");
            Ok(())
        }
        other => bail!("unknown task \"{other}\"\n\n{HELP}"),
    }
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

fn lint() -> Result<()> {
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

fn check() -> Result<()> {
    lint()?;
    hygiene::check(Path::new("."))?;
    documentation()?;
    is_current("docs/knobs.md", &knobs()?, "cargo xtask knobs")?;
    is_current("docs/rfc/STATUS.md", &rfc::report(Path::new("."))?, "cargo xtask rfc")
}

fn documentation() -> Result<()> {
    println!("$ cargo doc --workspace --no-deps (warnings are errors)");
    let status = Command::new("cargo")
        .args(["doc", "--quiet", "--workspace", "--no-deps"])
        .env("RUSTDOCFLAGS", "-D warnings")
        .status()?;
    if !status.success() {
        bail!("documentation has warnings");
    }
    Ok(())
}

fn test() -> Result<()> {
    if has_nextest() {
        cargo(&["nextest", "run", "--workspace", "--no-fail-fast"])?;
        // nextest does not run documentation tests.
        cargo(&["test", "--quiet", "--workspace", "--doc"])
    } else {
        cargo(&["test", "--workspace", "--no-fail-fast"])
    }
}

/// Everything but the DPDK device must build and pass on a machine without libdpdk.
fn engine() -> Result<()> {
    cargo(&[
        "clippy",
        "-p",
        "runtime",
        "-p",
        "millrace",
        "--no-default-features",
        "--",
        "-D",
        "warnings",
    ])?;
    let crates = ["-p", "runtime", "-p", "millrace", "--no-default-features"];
    let mut args = if has_nextest() { vec!["nextest", "run"] } else { vec!["test"] };
    args.extend(crates);
    cargo(&args)
}

fn has_nextest() -> bool {
    Command::new("cargo")
        .args(["nextest", "--version"])
        .output()
        .is_ok_and(|out| out.status.success())
}

fn knobs() -> Result<String> {
    let out = Command::new("cargo")
        .args(["run", "--quiet", "-p", "config", "--example", "knobs"])
        .output()
        .context("cannot run the knob list")?;
    if !out.status.success() {
        bail!("the knob list failed:\n{}", String::from_utf8_lossy(&out.stderr));
    }
    Ok(String::from_utf8(out.stdout)?)
}

fn cargo(args: &[&str]) -> Result<()> {
    run("cargo", args)
}

fn run(program: &str, args: &[&str]) -> Result<()> {
    println!("$ {program} {}", args.join(" "));
    let status = Command::new(program)
        .args(args)
        .status()
        .with_context(|| format!("cannot start {program}"))?;
    if !status.success() {
        bail!("{program} {} failed ({status})", args.join(" "));
    }
    Ok(())
}

fn write_if_changed(path: &str, content: &str) -> Result<()> {
    if std::fs::read_to_string(path).is_ok_and(|now| now == content) {
        println!("{path} is up to date");
    } else {
        std::fs::write(path, content).with_context(|| format!("cannot write {path}"))?;
        println!("{path} written");
    }
    Ok(())
}

fn is_current(path: &str, content: &str, how: &str) -> Result<()> {
    if std::fs::read_to_string(path).is_ok_and(|now| now == content) {
        Ok(())
    } else {
        bail!("{path} is not what would be generated now; run `{how}` and commit it")
    }
}
