//! `millrace sim`: whole networks in virtual time.

mod json;
mod plot;
mod progress;
mod run;
mod swarm;
mod text;

use clap::{Args, Subcommand};

use crate::fault::Outcome;

/// Whole networks in virtual time
#[derive(Args, Debug)]
pub(crate) struct SimArgs {
    #[command(subcommand)]
    command: SimCommand,
}

#[derive(Subcommand, Debug)]
enum SimCommand {
    Run(run::RunArgs),
    Swarm(swarm::SwarmArgs),
}

pub(crate) fn run(args: &SimArgs) -> Outcome {
    match &args.command {
        SimCommand::Run(args) => run::run(args),
        SimCommand::Swarm(args) => swarm::run(args),
    }
}
