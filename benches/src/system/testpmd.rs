//! `dpdk-testpmd`: what a device carries without TCP.

use std::path::Path;
use std::thread;
use std::time::Duration;

use super::process::Process;
use super::{Place, Role};

const START: Duration = Duration::from_secs(30);
/// From the start of the sender until the first look at the counters.
const WARM_UP: Duration = Duration::from_millis(700);
const PROMPT: &str = "testpmd>";

/// Frames per second from a sender to a receiver, `frame` bytes each, over a memif pair.
pub fn memif(place: &Place, frame: u32, time: Duration) -> Result<f64, String> {
    let start = |role: Role, vdev: String, flags: &[&str]| {
        let mut args = eal(place, role, &vdev);
        args.extend(flags.iter().map(|&f| f.to_owned()));
        let name = format!("testpmd-{}", role.name());
        let mut process =
            Process::start(&place.directory, &name, role.core(), Path::new("dpdk-testpmd"), &args)?;
        process.wait_for(PROMPT, START)?;
        process.tell("start")?;
        Ok::<_, String>(process)
    };
    let vdev = place.memif(Role::Server);
    let mut receiver = start(Role::Server, vdev, &["--forward-mode=rxonly"])?;
    let vdev = format!("{},bsize=2048", place.memif(Role::Client));
    let packets = format!("--txpkts={frame}");
    let sender = start(Role::Client, vdev, &["--forward-mode=txonly", &packets])?;
    look_twice(&mut receiver, time)?;
    // The receiver first: one whose peer is gone may crash before it has told what it counted. The
    // sender may do that, it is killed.
    let said = end(receiver)?;
    drop(sender);
    last_rate(&said)
}

/// Frames per second that a null device delivers.
pub fn null(place: &Place, size: u32, time: Duration) -> Result<f64, String> {
    let mut args = eal(place, Role::Server, &format!("net_null0,size={size},copy=0"));
    args.push("--forward-mode=rxonly".to_owned());
    let core = Role::Server.core();
    let program = Path::new("dpdk-testpmd");
    let mut process = Process::start(&place.directory, "testpmd-null", core, program, &args)?;
    process.wait_for(PROMPT, START)?;
    process.tell("start")?;
    look_twice(&mut process, time)?;
    last_rate(&end(process)?)
}

fn eal(place: &Place, role: Role, vdev: &str) -> Vec<String> {
    let core = role.core();
    let memory = if place.hugepages { "--in-memory" } else { "--no-huge --no-shconf" };
    let prefix = format!("millrace-bench-{}-{}", std::process::id(), role.name());
    let fixed = format!(
        "--lcores 0@{core},1@{core} --no-pci --no-telemetry {memory} -m 256 --file-prefix {prefix} --vdev {vdev} \
         -- -i --nb-cores=1 --total-num-mbufs=32768"
    );
    fixed.split(' ').map(str::to_owned).collect()
}

/// testpmd counts from one look at its counters to the next.
fn look_twice(process: &mut Process, time: Duration) -> Result<(), String> {
    thread::sleep(WARM_UP);
    process.tell("show port stats all")?;
    thread::sleep(time);
    process.tell("show port stats all")
}

/// What it has said is complete only now: its output is a file, and so it keeps most of it back.
fn end(mut process: Process) -> Result<String, String> {
    process.tell("stop\nquit")?;
    process.finish(START)
}

/// Frames received per second between the last two looks.
fn last_rate(said: &str) -> Result<f64, String> {
    // The first is since the start of the program.
    let last = said.split("Rx-pps:").skip(2).last();
    let rate = last.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    rate.ok_or_else(|| format!("testpmd does not tell its rate:\n{said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_rate_is_since_the_look_before() {
        let one = "  RX-packets: 7\n  Rx-pps:      1234          Rx-bps:    99\n";
        assert!(last_rate(one).is_err());
        let two = format!("{one}  Rx-pps:     13000000          Rx-bps: 156000000000\n");
        assert_eq!(last_rate(&two), Ok(13_000_000.0));
        assert!(last_rate("nothing").is_err());
    }
}
