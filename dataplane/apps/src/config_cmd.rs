//! `millrace config`: look at a configuration without touching a device.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use config::{PortFlags, Startup};

use crate::fault::{Fault, Outcome};
use crate::output;

/// Look at a configuration file without touching a device.
#[derive(Args, Debug)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Read and check FILE; says what it would start
    Check {
        /// The file
        file: PathBuf,
    },
    /// All knobs with unit, range, defaults and meaning, as Markdown
    Knobs,
}

pub(crate) fn run(args: &ConfigArgs) -> Outcome {
    match &args.action {
        Action::Check { file } => {
            let startup = load(file)?;
            output::print(&format!("{}: ok\n{}", file.display(), summary(&startup)))
        }
        Action::Knobs => output::print(&config::docs::knobs_markdown()),
    }
}

/// Read and check a start-up file.
fn load(file: &Path) -> Result<Startup, Fault> {
    Startup::from_file(file, &PortFlags::default(), &runtime::available_cores())
        .map_err(crate::ports::usage)
}

/// What the file would start, a line each.
fn summary(startup: &Startup) -> String {
    let mut text = format!("  instance {}\n", startup.instance);
    for port in &startup.ports {
        let addresses: Vec<String> =
            port.addresses.iter().map(|a| format!("{}/{}", a.addr, a.prefix)).collect();
        let _ = writeln!(
            text,
            "  port {} mtu {} queues {} addresses {}",
            port.device,
            port.mtu,
            port.queues,
            addresses.join(" ")
        );
    }
    let cores: Vec<String> = startup.workers.iter().map(|w| w.core.to_string()).collect();
    let _ = writeln!(text, "  workers on cores {}, {}", cores.join(" "), startup.dataplane.idle);
    for app in &startup.apps {
        let _ = writeln!(text, "  app {} port {}", app.kind.name(), app.port);
    }
    for entry in startup.knobs().diff() {
        let _ = writeln!(text, "  {} = {} ({})", entry.knob.name, entry.value, entry.source.name());
    }
    for warning in &startup.warnings {
        let _ = writeln!(text, "  warning: {warning}");
    }
    text
}
