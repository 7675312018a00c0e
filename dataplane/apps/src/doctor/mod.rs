//! `millrace doctor`: is this machine ready, and what would make it better.
//!
//! Each check is a plain function from a [`Root`] (where `/proc`, `/sys` and the others are found)
//! to findings, so that a test can give it any machine. What only a system call tells comes in by
//! [`Process`].

mod cpu;
mod kernel;
mod leftovers;
mod library;
mod memory;
mod nics;
mod permissions;
mod root;
mod setup;
#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::fault::{ENVIRONMENT, Fault, Outcome};
use crate::port_args::PortArgs;
use crate::{output, ports};
use root::Root;

/// Look at the machine: what is ready, what is not, and what to do about it.
#[derive(Args, Debug)]
#[command(after_help = "Without a port it asks whether software devices can run at all. \
    Exit status: 0 ready, 3 not ready.")]
pub(crate) struct DoctorArgs {
    /// One JSON document
    #[arg(long)]
    json: bool,
    /// Where /proc, /sys, /dev and /run are found
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,
    #[command(flatten)]
    ports: PortArgs,
}

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// As it should be.
    Ok,
    /// It works; this would make it better, or would be needed for something else.
    Advice,
    /// It cannot run like this.
    Problem,
}

impl State {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Advice => "advice",
            Self::Problem => "problem",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    /// What was looked at, in a word.
    check: &'static str,
    state: State,
    /// What was found.
    text: String,
    /// What to do, in one line; empty for what is as it should be.
    todo: String,
}

impl Finding {
    fn ok(check: &'static str, text: impl Into<String>) -> Self {
        Self { check, state: State::Ok, text: text.into(), todo: String::new() }
    }

    fn advice(check: &'static str, text: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { check, state: State::Advice, text: text.into(), todo: todo.into() }
    }

    fn problem(check: &'static str, text: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { check, state: State::Problem, text: text.into(), todo: todo.into() }
    }
}

/// What no file tells.
struct Process {
    /// DPDK's release at build time and the one that is loaded; `None`: a build without it.
    dpdk: Option<((u32, u32), (u32, u32))>,
    /// Names of the features of an interface that leave work to its hardware.
    offloads: fn(&str) -> Option<Vec<&'static str>>,
}

impl Process {
    fn this() -> Self {
        #[cfg(feature = "dpdk")]
        let this = Self {
            dpdk: Some(runtime::ports::versions()),
            offloads: runtime::ports::link_offloads,
        };
        #[cfg(not(feature = "dpdk"))]
        let this = Self { dpdk: None, offloads: |_| None };
        this
    }
}

pub(crate) fn run(args: &DoctorArgs) -> Outcome {
    let root = Root::new(&args.root);
    let process = Process::this();
    let mut findings = machine(&root, &process);
    let asked =
        args.ports.config.is_some() || !args.ports.vdevs.is_empty() || !args.ports.pcis.is_empty();
    if asked {
        match ports::startup(&args.ports) {
            Ok(startup) => findings.extend(setup::check(&root, &process, &startup)),
            Err(fault) => findings.push(unusable(&fault)),
        }
    } else {
        findings.extend(setup::default_mode());
    }
    let ready = findings.iter().all(|f| f.state != State::Problem);
    let text = if args.json { as_json(&findings, ready) } else { as_text(&findings, ready, asked) };
    output::print(&text)?;
    Ok(if ready { 0 } else { ENVIRONMENT })
}

/// A configuration that is none: its first line says why, the others what helps.
fn unusable(fault: &Fault) -> Finding {
    let mut lines = fault.what.lines().chain(fault.help.iter().map(String::as_str)).map(str::trim);
    let why = lines.next().unwrap_or_default().to_owned();
    let help = lines.collect::<Vec<_>>().join("; ");
    let todo = if help.is_empty() { "correct the configuration".to_owned() } else { help };
    Finding::problem("configuration", why, todo)
}

/// Everything that does not depend on what is to be started.
fn machine(root: &Root, process: &Process) -> Vec<Finding> {
    let mut all = Vec::new();
    all.extend(library::check(root, process.dpdk));
    all.extend(permissions::check(root));
    all.extend(memory::check(root));
    all.extend(cpu::check(root));
    all.extend(kernel::check(root));
    all.extend(nics::check(root));
    all.extend(leftovers::check(root));
    all
}

fn as_text(findings: &[Finding], ready: bool, asked: bool) -> String {
    let mut text = String::new();
    for f in findings {
        let _ = writeln!(text, "{:<8} {:<13} {}", f.state.name(), f.check, f.text);
        if !f.todo.is_empty() {
            let _ = writeln!(text, "{:<8} {:<13} -> {}", "", "", f.todo);
        }
    }
    let what = if asked { "what was asked for" } else { "software mode" };
    let _ = match ready {
        true => writeln!(text, "\n{what} can start"),
        false => writeln!(text, "\n{what} cannot start: see each \"problem\""),
    };
    text
}

fn as_json(findings: &[Finding], ready: bool) -> String {
    let findings: Vec<_> = findings
        .iter()
        .map(|f| json!({ "check": f.check, "state": f.state.name(), "text": f.text, "todo": f.todo }))
        .collect();
    format!("{:#}\n", json!({ "ready": ready, "findings": findings }))
}

/// The words of a list, or a word for none.
fn list(words: &[String]) -> String {
    if words.is_empty() { "none".to_owned() } else { words.join(" ") }
}
