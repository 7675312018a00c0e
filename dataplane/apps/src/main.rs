//! `millrace`: one binary. `main` dispatches; each command is a module that turns what was typed into
//! what the program needs, and answers with an exit code or a [`fault::Fault`].

#![forbid(unsafe_code)]

mod cli;
mod config_cmd;
mod control;
mod doctor;
mod drill;
mod fault;
mod host;
mod iperf;
mod number;
mod output;
mod port_args;
mod ports;
mod ring;
mod rr;
mod rr_raw;
mod run;
mod sim;
mod wire_cmd;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            // `--help` and `--version` come this way too and are no errors.
            let code = if e.use_stderr() { fault::USAGE } else { 0 };
            // Nothing can be done if the terminal is gone.
            let _ = e.print();
            return ExitCode::from(code);
        }
    };
    let result = match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Iperf(args) => iperf::run(*args),
        Command::Rr(args) => rr::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Wire(args) => wire_cmd::run(&args),
        Command::Drill(args) => drill::run(&args),
        Command::Sysctl(args) => control::sysctl::run(&args),
        Command::Ss(args) => control::ss::run(&args),
        Command::Nstat(args) => control::nstat::run(&args),
        Command::Workers(args) => control::workers::run(&args),
        Command::Config(args) => config_cmd::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "millrace", &mut text);
            output::print(&String::from_utf8_lossy(&text))
        }
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(fault) => {
            eprint!("{fault}");
            ExitCode::from(fault.code)
        }
    }
}
