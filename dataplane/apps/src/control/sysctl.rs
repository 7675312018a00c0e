//! `millrace sysctl`: the look-alike for the knobs of a running instance.

use std::fmt::Write;

use clap::Args;
use runtime::client::ClientError;
use runtime::protocol::Request;
use serde_json::{Map, Value};

use super::{connect, failed};
use crate::cli::Instance;
use crate::fault::{FAILED, Fault, Outcome};
use crate::output;

/// Read and change the knobs of a running instance, by their Linux names.
#[derive(Args, Debug)]
pub(crate) struct SysctlArgs {
    /// Knobs to read, or NAME=VALUE to write. A name may be written with dots or slashes, and in
    /// short (tcp_sack) where that is unique
    #[arg(value_name = "NAME[=VALUE]")]
    names: Vec<String>,
    /// All knobs with their values
    #[arg(short, long)]
    all: bool,
    /// Write; every argument is NAME=VALUE. Returns once all workers run with the new value
    #[arg(short, long)]
    write: bool,
    /// Only the values
    #[arg(short = 'n', long)]
    values: bool,
    /// Only the names
    #[arg(short = 'N', long)]
    names_only: bool,
    /// Say nothing after a write
    #[arg(short, long)]
    quiet: bool,
    /// Ignore unknown names
    #[arg(short = 'e', long)]
    ignore: bool,
    /// One JSON document
    #[arg(long)]
    json: bool,
    /// What a knob is: unit, range, defaults, when it takes effect. Needs no instance
    #[arg(long, value_name = "NAME")]
    explain: Option<String>,
    #[command(flatten)]
    instance: Instance,
}

pub(crate) fn run(args: &SysctlArgs) -> Outcome {
    if let Some(name) = &args.explain {
        let knobs = config::Knobs::new(config::Profile::Millrace);
        let text = knobs.explain(name).map_err(|e| Fault::usage(e.to_string()))?;
        return output::print(&(text.trim_end().to_owned() + "\n"));
    }
    if args.names.is_empty() && !args.all {
        return Err(Fault::usage("sysctl: name a knob, or ask for all with -a"));
    }
    let mut client = connect(&args.instance.instance)?;
    let mut text = String::new();
    let mut document = Map::new();
    let mut code = 0;
    let mut show = |name: &str, value: &str| {
        if args.json {
            document.insert(name.to_owned(), Value::from(value));
        } else if args.values {
            let _ = writeln!(text, "{value}");
        } else if args.names_only {
            let _ = writeln!(text, "{name}");
        } else {
            let _ = writeln!(text, "{name} = {value}");
        }
    };
    if args.all {
        let all = client.ask(&Request::SysctlList).map_err(|e| failed(&e))?;
        for (name, value) in all.as_object().into_iter().flatten() {
            show(name, value.as_str().unwrap_or_default());
        }
    }
    for argument in &args.names {
        let request = match argument.split_once('=') {
            Some((name, value)) => {
                Request::SysctlSet { name: name.trim().to_owned(), value: value.trim().to_owned() }
            }
            None if args.write => {
                eprintln!("millrace: sysctl: {argument}: -w wants NAME=VALUE");
                code = FAILED;
                continue;
            }
            None => Request::SysctlGet { name: argument.clone() },
        };
        match client.ask(&request) {
            Ok(answer) => {
                let text = |key: &str| answer.get(key).and_then(Value::as_str).unwrap_or_default();
                let written = matches!(request, Request::SysctlSet { .. });
                for warning in answer["warnings"].as_array().into_iter().flatten() {
                    eprintln!("millrace: sysctl: {}", warning.as_str().unwrap_or_default());
                }
                if !(written && args.quiet) {
                    show(text("name"), text("value"));
                }
            }
            Err(ClientError::Refused(why)) => {
                if !(args.ignore && why.contains("unknown knob")) {
                    eprintln!("millrace: sysctl: {why}");
                    code = FAILED;
                }
            }
            Err(e) => return Err(failed(&e)),
        }
    }
    if args.json {
        text = format!("{:#}\n", Value::Object(document));
    }
    output::print(&text)?;
    Ok(code)
}
