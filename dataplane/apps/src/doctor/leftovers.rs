//! What dead processes leave behind.

use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;

use super::root::Root;
use super::{Finding, list};

/// Folders of sockets: control sockets, and where examples put those of memif.
const SOCKETS: [(&str, &str); 3] = [("run/millrace", ""), ("run", "memif"), ("tmp", "memif")];
/// EAL's folder of root, with one folder per file prefix.
const EAL: &str = "var/run/dpdk";
/// What an instance calls its folder, before its process number.
const PREFIX: &str = "millrace-";

pub(super) fn check(root: &Root) -> Vec<Finding> {
    let mut sockets = Vec::new();
    for (folder, begin) in SOCKETS {
        for name in root.names(folder) {
            let path = format!("{folder}/{name}");
            if name.starts_with(begin) && name.ends_with(".sock") && is_dead(root, &path) {
                sockets.push(format!("/{path}"));
            }
        }
    }
    let folders: Vec<String> = root
        .names(EAL)
        .into_iter()
        .filter(|name| {
            let number = name.strip_prefix(PREFIX).and_then(|n| n.parse::<u32>().ok());
            number.is_some_and(|pid| !root.exists(&format!("proc/{pid}")))
        })
        .map(|name| format!("/{EAL}/{name}"))
        .collect();
    let mut out = Vec::new();
    for (found, what) in [(sockets, "sockets"), (folders, "runtime folders")] {
        if !found.is_empty() {
            out.push(Finding::advice(
                "leftovers",
                format!("{what} of processes that are gone: {}", list(&found)),
                format!("rm -r {}", list(&found)),
            ));
        }
    }
    if out.is_empty() {
        out.push(Finding::ok("leftovers", "no sockets or folders of dead processes"));
    }
    out
}

/// A socket that nobody listens at. A live one of memif refuses the kind of socket, not the
/// connection.
fn is_dead(root: &Root, path: &str) -> bool {
    let path = root.path(path);
    let is_socket = std::fs::metadata(&path).is_ok_and(|m| m.file_type().is_socket());
    is_socket && UnixStream::connect(&path).is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused)
}
