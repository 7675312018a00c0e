//! `cargo xtask fuzz`: libFuzzer on the targets of `tests/fuzz`.
//!
//! Sanitizer coverage needs a flag that the stable compiler accepts only with `RUSTC_BOOTSTRAP=1`,
//! which is set for this one build and nowhere else. No address sanitizer: the targets are safe Rust,
//! and without it a run is several times as fast.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

const CRATE: &str = "tests/fuzz";
const RUNNER: &str = "tests/fuzz/runner";
/// Where a search keeps what it finds; only what `--minimize` chooses is committed.
const WORK: &str = "target/fuzz";
/// Limits of `tests/replay.rs`: files and bytes of one committed corpus.
const FILES_MAX: usize = 64;
const BYTES_MAX: usize = 100_000;
/// The `INPUT_MAX` of the targets.
const INPUT_MAX: usize = 4096;
/// One input must not take longer, seconds.
const TIMEOUT_SECS: u32 = 20;

pub(crate) fn task(args: &[String]) -> Result<()> {
    let (mut target, mut seconds, mut minimize) = (None, 60, false);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--list" => return list(),
            "--minimize" => minimize = true,
            "--seconds" => {
                let value = args.next().context("--seconds takes a number")?;
                seconds = value.parse::<u32>().context("--seconds takes a number")?;
            }
            flag if flag.starts_with('-') => bail!("unknown flag \"{flag}\""),
            name => target = Some(name),
        }
    }
    let target = target.context("which target? `cargo xtask fuzz --list`")?;
    let known = targets()?;
    if !known.iter().any(|(name, _)| name == target) {
        bail!("no target \"{target}\"; `cargo xtask fuzz --list`");
    }
    need_cargo_fuzz()?;
    write_seeds(target)?;
    if minimize { self::minimize(target) } else { search(target, seconds) }
}

fn list() -> Result<()> {
    for (name, about) in targets()? {
        println!("{name:<14} {about}");
    }
    Ok(())
}

/// Names and descriptions, as the crate itself tells them.
fn targets() -> Result<Vec<(String, String)>> {
    let text = example(&["list"])?;
    let pair = |line: &str| line.split_once('\t').map(|(n, a)| (n.to_owned(), a.to_owned()));
    Ok(text.lines().filter_map(pair).collect())
}

fn write_seeds(target: &str) -> Result<()> {
    let folder = seeds(target);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    example(&["seeds", target, &folder.to_string_lossy()]).map(drop)
}

fn example(args: &[&str]) -> Result<String> {
    let out = Command::new("cargo")
        .args(["run", "--quiet", "-p", "fuzz", "--example", "targets", "--"])
        .args(args)
        .output()
        .context("cannot ask tests/fuzz for its targets")?;
    if !out.status.success() {
        bail!("the list of targets failed:\n{}", String::from_utf8_lossy(&out.stderr));
    }
    Ok(String::from_utf8(out.stdout)?)
}

fn need_cargo_fuzz() -> Result<()> {
    let there = Command::new("cargo")
        .args(["fuzz", "--version"])
        .output()
        .is_ok_and(|out| out.status.success());
    if !there {
        bail!("cargo-fuzz is missing; install it with `cargo install cargo-fuzz --locked`");
    }
    Ok(())
}

fn seeds(target: &str) -> PathBuf {
    Path::new(WORK).join("seeds").join(target)
}

/// What a search has found so far.
fn found(target: &str) -> PathBuf {
    Path::new(WORK).join("corpus").join(target)
}

fn committed(target: &str) -> PathBuf {
    Path::new(CRATE).join("corpus").join(target)
}

/// `cargo fuzz run`, which builds the target, with these folders of inputs and flags of libFuzzer.
fn libfuzzer(target: &str, folders: &[&Path], flags: &[String]) -> Result<()> {
    let root = std::env::current_dir()?;
    let mut command = Command::new("cargo");
    command
        .args(["fuzz", "run", "--fuzz-dir", RUNNER, "--sanitizer", "none", "--debug-assertions"])
        .arg(target)
        .args(folders.iter().map(|folder| root.join(folder)))
        .arg("--")
        .args(flags)
        .env("RUSTC_BOOTSTRAP", "1");
    println!("$ RUSTC_BOOTSTRAP=1 {command:?}");
    let status = command.status().context("cannot start cargo fuzz")?;
    if !status.success() {
        bail!(
            "{target} failed ({status}); to see it again: \
             MILLRACE_FUZZ_INPUT={RUNNER}/artifacts/{target}/FILE cargo nextest run -p fuzz {target}"
        );
    }
    Ok(())
}

fn search(target: &str, seconds: u32) -> Result<()> {
    let (found, committed) = (found(target), committed(target));
    fs::create_dir_all(&found).with_context(|| format!("cannot make {}", found.display()))?;
    let mut folders = vec![found.as_path()];
    let seeds = seeds(target);
    folders.push(&seeds);
    if committed.is_dir() {
        folders.push(&committed);
    }
    let mut flags = vec![
        format!("-max_total_time={seconds}"),
        format!("-max_len={INPUT_MAX}"),
        format!("-timeout={TIMEOUT_SECS}"),
        "-print_final_stats=1".to_owned(),
    ];
    let words = Path::new(CRATE).join("words").join(format!("{target}.dict"));
    if words.is_file() {
        flags.push(format!("-dict={}", std::env::current_dir()?.join(words).display()));
    }
    libfuzzer(target, &folders, &flags)
}

/// Choose from what was found and what is committed the inputs that cover the most, within the limits
/// of a committed corpus.
fn minimize(target: &str) -> Result<()> {
    let all = Path::new(WORK).join("minimized").join(target);
    if all.is_dir() {
        fs::remove_dir_all(&all)?;
    }
    fs::create_dir_all(&all)?;
    let (found, committed, seeds) = (found(target), committed(target), seeds(target));
    fs::create_dir_all(&found)?;
    let mut folders = vec![all.as_path(), &seeds, &found];
    if committed.is_dir() {
        folders.push(&committed);
    }
    libfuzzer(target, &folders, &["-merge=1".to_owned(), format!("-max_len={INPUT_MAX}")])?;
    // Small ones first: libFuzzer has kept each for something that the smaller ones lack.
    let mut inputs: Vec<(String, Vec<u8>)> = Vec::new();
    for entry in fs::read_dir(&all)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        inputs.push((name, fs::read(&path)?));
    }
    inputs.sort_by_key(|(name, bytes)| (bytes.len(), name.clone()));
    if committed.is_dir() {
        fs::remove_dir_all(&committed)?;
    }
    fs::create_dir_all(&committed)?;
    let mut written = 0;
    let chosen = spread(&inputs, FILES_MAX);
    for (name, bytes) in chosen {
        if written + bytes.len() > BYTES_MAX {
            break;
        }
        written += bytes.len();
        fs::write(committed.join(&name[..name.len().min(16)]), bytes)?;
    }
    println!("{}: {written} bytes", committed.display());
    Ok(())
}

/// At most `most` of `inputs`, evenly over their order: short ones and long ones.
fn spread<T>(inputs: &[T], most: usize) -> impl Iterator<Item = &T> {
    let count = inputs.len().min(most);
    (0..count).map(move |n| &inputs[n * inputs.len() / count.max(1)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_spread_and_has_a_limit() {
        let few: Vec<_> = spread(&[1, 2, 3], 64).copied().collect();
        assert_eq!(few, [1, 2, 3]);
        let many: Vec<i32> = (0..1000).collect();
        let chosen: Vec<_> = spread(&many, 10).copied().collect();
        assert_eq!(chosen, [0, 100, 200, 300, 400, 500, 600, 700, 800, 900]);
        assert_eq!(spread(&[0; 0], 10).count(), 0);
    }
}
