//! Many idle connections between two processes: their memory, and what goes on beside them.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::millrace::{OMIT, Run, Server, client, document, field, instance};
use super::{Place, Role};
use crate::repeats::Figures;

/// Ports of the server: each of them multiplies the client's local ports.
const PORTS: &str = "5201..5220";
/// Between two looks at the memory of a process.
const POLL: Duration = Duration::from_millis(50);
/// Between two lines about how far it has come.
const TELL: Duration = Duration::from_secs(2);
/// For setting up and for taking down what is held, beyond the usual patience.
const PER_CONNECTION: Duration = Duration::from_micros(200);

/// Hold `connections` and open and close others beside them for so long.
pub fn measure(place: &Place, connections: u32, seconds: f64) -> Result<Figures, String> {
    let extra = format!(
        "[limits]\nconnections = {}\nhalf_open = 65536\n\n[sysctl]\n\
         \"net.ipv4.ip_local_port_range\" = \"1024 65535\"\n",
        connections.saturating_add(4096)
    );
    let server = Server::start(place, "rr", &extra, &["-p", PORTS])?;
    let empty = memory(server.id())?;
    let (held, time, omit) = (connections.to_string(), seconds.to_string(), OMIT.to_string());
    let flags = [
        "-p",
        PORTS,
        "--hold",
        &held,
        "--connect",
        "--concurrency",
        "64",
        "--close",
        "rst",
        "-t",
        &time,
        "-O",
        &omit,
        "--json",
    ];
    let begun = Instant::now();
    let process = client(place, "rr", &extra, &flags)?;
    let limit = Run { seconds, ..Run::default() }.limit()? + PER_CONNECTION * connections;
    // The largest of all looks: what was held stands until the client ends.
    let (mut full, mut client_full) = (empty, 0.0);
    let mut told = (begun, 0.0);
    while let Ok(now) = memory(process.id()) {
        client_full = now.max(client_full);
        full = memory(server.id())?.max(full);
        if told.0.elapsed() >= TELL {
            told = progress(place, begun, told, (full, full - empty, client_full));
        }
        if begun.elapsed() > limit {
            return Err(format!("the client is not done after {limit:?}"));
        }
        thread::sleep(POLL);
    }
    let document = document(&process.finish(limit)?)?;
    server.stop();
    let standing = document["idle"].as_array().and_then(|all| {
        let complete = all.iter().find(|s| s["complete"] == true)?;
        Some((complete["held"].as_f64()?, complete["at_seconds"].as_f64()?))
    });
    let Some((held, took)) = standing else {
        return Err(format!("not all were held: {document:#}"));
    };
    let mib = f64::from(1 << 20);
    Ok(vec![
        ("held".to_owned(), held),
        ("opened per second".to_owned(), held / took.max(1e-9)),
        ("server, MiB before".to_owned(), empty / mib),
        ("server, MiB with all".to_owned(), full / mib),
        ("server, bytes each, application included".to_owned(), (full - empty) / held),
        ("client, MiB with all".to_owned(), client_full / mib),
        ("short connections/s beside them".to_owned(), field(&document, "/total/per_second")?),
        ("failed".to_owned(), field(&document, "/total/failed")?),
    ])
}

/// Say how far it has come, on standard error. `last` is when that was said before, and how many
/// connections there were; `bytes`: of the server, of that for connections, of the client.
fn progress(
    place: &Place,
    begun: Instant,
    last: (Instant, f64),
    bytes: (f64, f64, f64),
) -> (Instant, f64) {
    let now = Instant::now();
    // An answer that does not come is no reason to stop measuring.
    let held = standing(place).unwrap_or(last.1);
    if held < last.1 {
        // They are being taken down: the memory is that of all of them.
        return (now, last.1);
    }
    let rate = (held - last.1) / (now - last.0).as_secs_f64().max(1e-9);
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    eprintln!(
        "  {:5.1} s: {held:.0} connections, {rate:.0} more per second; server {:.0} MiB ({:.0} bytes each), \
         client {:.0} MiB",
        (now - begun).as_secs_f64(),
        mib(bytes.0),
        bytes.1 / held.max(1.0),
        mib(bytes.2),
    );
    (now, held)
}

/// Connections that the server has, as its control socket says.
fn standing(place: &Place) -> Option<f64> {
    let output = Command::new(&place.millrace)
        .args(["workers", "--json", "--instance", &instance(Role::Server)])
        .output()
        .ok()?;
    let document: Value = serde_json::from_slice(&output.stdout).ok()?;
    document["workers"].as_array()?.iter().map(|w| w["connections"].as_f64()).sum()
}

/// Bytes of memory that a process occupies: resident, without the pages of DPDK's heap where those are
/// hugepages. An ended process is an error.
fn memory(id: u32) -> Result<f64, String> {
    let gone = || format!("process {id} is gone");
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).map_err(|_| gone())?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).ok_or_else(gone)?;
    let kib = line.split_whitespace().next().and_then(|n| n.parse::<f64>().ok());
    kib.map(|n| n * 1024.0).ok_or_else(gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_memory_is_known_and_that_of_nobody_is_not() {
        assert!(memory(std::process::id()).expect("we run") > 1e5);
        assert!(memory(u32::MAX).is_err());
    }
}
