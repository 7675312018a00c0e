use std::path::{Path, PathBuf};

use super::super::{Definitions, Everything, render, unsupported};
use super::*;

/// Scripts below a directory, in order of their paths.
fn scripts_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![directory.to_path_buf()];
    while let Some(directory) = todo.pop() {
        for entry in std::fs::read_dir(&directory).expect("a readable directory") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                todo.push(path);
            } else if path.extension().is_some_and(|extension| extension == "pkt") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Definitions that the public runner passes.
fn public_definitions() -> Definitions {
    let mut definitions = Definitions::default();
    for text in [
        "TFO_COOKIE=3021b9d889017eeb",
        "CODE=host_unreachable",
        "MSS=1460",
        "CMSG_LEVEL_IP=SOL_IP",
        "CMSG_TYPE_RECVERR=IP_RECVERR",
    ] {
        definitions.define(text).expect("well-formed");
    }
    definitions
}

#[test]
#[ignore = "needs a checkout of the public scripts, named by MILLRACE_PACKETDRILL"]
fn all_public_scripts_parse_and_print() {
    let Some(directory) = std::env::var_os("MILLRACE_PACKETDRILL") else {
        panic!("MILLRACE_PACKETDRILL should name a directory of scripts");
    };
    let scripts = scripts_below(Path::new(&directory));
    assert!(!scripts.is_empty(), "there are scripts in {directory:?}");
    let mut failures = 0;
    for path in &scripts {
        let text = String::from_utf8_lossy(&std::fs::read(path).expect("readable")).into_owned();
        let name = path.display().to_string();
        match parse(&text, &public_definitions()) {
            Ok(script) => {
                let printed = script.to_string();
                match parse(&printed, &Definitions::default()) {
                    Ok(again) if again == script => {}
                    Ok(again) => {
                        failures += 1;
                        println!("{name}: prints differently\n{printed}\n{again}");
                    }
                    Err(error) => {
                        failures += 1;
                        println!("{}", error.render(&name, &printed));
                    }
                }
                for item in unsupported(&script, &Everything) {
                    println!("{}", render(&name, &text, item.span, &item.what));
                }
            }
            Err(error) => {
                failures += 1;
                println!("{}", error.render(&name, &text));
            }
        }
    }
    assert_eq!(failures, 0, "of {} scripts", scripts.len());
}
