//! `millrace nstat`: counters of a running instance. Absolute values; the difference to the last
//! call that the original keeps in a file is one `diff` away.

use std::fmt::Write;

use clap::Args;
use runtime::protocol::Request;
use serde_json::{Map, Value, json};

use super::{connect, failed};
use crate::cli::Instance;
use crate::fault::Outcome;
use crate::output;

/// Counters of a running instance: MIB names, device counters, drops by reason.
#[derive(Args, Debug)]
pub(crate) struct NstatArgs {
    /// Only counters whose name matches one of these (`*` stands for anything)
    #[arg(value_name = "PATTERN")]
    patterns: Vec<String>,
    /// Counters that are zero, too
    #[arg(short, long)]
    zeros: bool,
    /// One JSON document
    #[arg(short, long)]
    json: bool,
    #[command(flatten)]
    instance: Instance,
}

pub(crate) fn run(args: &NstatArgs) -> Outcome {
    let mut client = connect(&args.instance.instance)?;
    let counters = client.ask(&Request::Nstat).map_err(|e| failed(&e))?;
    let wanted = |name: &str, value: &Value| {
        (args.zeros || value.as_u64() != Some(0))
            && (args.patterns.is_empty() || args.patterns.iter().any(|p| matches(p, name)))
    };
    let chosen: Map<String, Value> = counters
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, value)| wanted(name, value))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if args.json {
        return output::print(&format!("{:#}\n", json!({ "millrace": chosen })));
    }
    let mut text = String::from("#millrace\n");
    for (name, value) in &chosen {
        let _ = writeln!(text, "{name:<32}{:<16}{:6.1}", value.to_string(), 0.0);
    }
    output::print(&text)
}

/// Shell-like matching without regard to case.
fn matches(pattern: &str, name: &str) -> bool {
    config::glob(&pattern.to_ascii_lowercase(), &name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        for (pattern, name, expected) in [
            ("TcpInSegs", "TcpInSegs", true),
            ("tcpinsegs", "TcpInSegs", true),
            ("Tcp", "TcpInSegs", false),
            ("Tcp*", "TcpInSegs", true),
            ("*Segs", "TcpInSegs", true),
            ("*", "x", true),
            ("T*n*s", "TcpInSegs", true),
            ("T*x*", "TcpInSegs", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
