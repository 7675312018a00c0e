//! Many idle connections between two processes: their memory, and what goes on beside them.

use std::thread;
use std::time::{Duration, Instant};

use super::Place;
use super::millrace::{OMIT, Run, Server, client, document, field};
use crate::repeats::Figures;

/// Ports of the server: each of them multiplies the client's local ports.
const PORTS: &str = "5201..5220";
/// Between two looks at the memory of a process.
const POLL: Duration = Duration::from_millis(50);
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
    while let Ok(now) = memory(process.id()) {
        client_full = now.max(client_full);
        full = memory(server.id())?.max(full);
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
