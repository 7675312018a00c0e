//! `millrace rr`: flags to the applications of `workloads::rr`, and their reports to the terminal.

use std::fs::File;
use std::io::{self, BufWriter};
use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use config::Startup;
use serde_json::{Map, json};
use stack::Message;
use workloads::discard::CannotListen;
use workloads::rr::{
    Client, ClientConfig, Close, End, HdrLog, Mode, Report, Server, ServerConfig, Setup, json,
    sources, text,
};

use crate::cli::{self, RrArgs};
use crate::fault::{Fault, Outcome};
use crate::host::{resident_bytes, unix_seconds};
use crate::number::number;
use crate::{output, ports, ring, rr_raw};

/// Ports that one run listens on or connects to at most.
const PORTS_MAX: usize = 256;
/// Longest time that may be given, a year.
const SECONDS_MAX: f64 = 31_557_600.0;
const SIZE_DEFAULT: u32 = 64;

pub(crate) fn run(args: &RrArgs) -> Outcome {
    if args.raw {
        return rr_raw::run(args);
    }
    match (args.server, &args.client, args.ring) {
        (_, Some(host), _) if host.is_empty() => {
            Err(Fault::usage("-c needs the address of a server"))
        }
        (true, None, false) => serve(args),
        (false, Some(host), false) => ask(args, host),
        (false, None, true) => both(args),
        (false, None, false) => {
            Err(Fault::usage("rr is a server (-s), a client (-c HOST) or --ring")
                .help("millrace rr -s --vdev DEVICE --address ADDR/LEN")
                .help("millrace rr -c HOST --vdev DEVICE --address ADDR/LEN")
                .help("millrace rr --ring       two stacks in this process"))
        }
        _ => Err(Fault::usage("only one of -s, -c and --ring can be given")),
    }
}

fn serve(args: &RrArgs) -> Outcome {
    if let Some(flag) = client_only(args) {
        return Err(Fault::usage(format!("{flag} is for clients")));
    }
    let startup = ports::startup(&args.dataplane)?;
    let config = server_config(args)?;
    let banner = format!("rr: server listening on {}\n", port_list(&config.ports));
    let make: ports::MakeApp = Box::new(move || Box::new(Server::new(config.clone())));
    let on_publish = |_, message: Message| {
        if let Ok(e) = message.downcast::<CannotListen>() {
            eprintln!("millrace: cannot listen on port {}: {:?}", e.port, e.error);
        }
    };
    let on_ready = move || {
        if let Err(e) = output::write(&banner) {
            eprintln!("millrace: cannot write to standard output: {e}");
        }
    };
    ports::run(&startup, ports::hooks(on_publish, on_ready), make)
}

fn ask(args: &RrArgs, host: &str) -> Outcome {
    let mut config = client_config(args, resolve(host, args)?)?;
    let startup = ports::startup(&args.dataplane)?;
    config.setup.locals = locals(args, &startup, config.setup.remote)?;
    if startup.workers.len() > 1 {
        return Err(Fault::usage("an rr client runs on one worker: name one core"));
    }
    let mut screen = Screen::new(args, startup.limits)?;
    let make: ports::MakeApp = Box::new(move || Box::new(Client::new(config.clone())));
    ports::run(&startup, ports::hooks(move |_, m| screen.show(m), || {}), make)
}

fn both(args: &RrArgs) -> Outcome {
    let ring = ring::Ring::new(&args.dataplane, args.version6)?;
    let server = server_config(args)?;
    let client = client_config(args, ring.server)?;
    let mut screen = Screen::new(args, ring.limits())?;
    ring.run(
        move || Box::new(Server::new(server)),
        move || Box::new(Client::new(client)),
        move |m| screen.show(m),
    )
}

/// The addresses to connect from: the one asked for, or all that lead to the server equally well.
fn locals(args: &RrArgs, startup: &Startup, remote: IpAddr) -> Result<Vec<IpAddr>, Fault> {
    let ours: Vec<_> =
        startup.ports.iter().flat_map(|port| port.addresses.iter().copied()).collect();
    match args.bind {
        None => Ok(sources(&ours, remote)),
        Some(addr) if ours.iter().any(|l| l.addr == addr) => Ok(vec![addr]),
        Some(addr) => Err(Fault::usage(format!("--bind {addr}: no --address of ours"))),
    }
}

fn client_only(args: &RrArgs) -> Option<&'static str> {
    [
        (args.time.is_some(), "-t"),
        (args.transactions.is_some(), "-n"),
        (args.omit != 0.0, "-O"),
        (args.parallel != 1, "-P"),
        (args.outstanding != 1, "--outstanding"),
        (args.rate.is_some(), "--rate"),
        (args.connect, "--connect"),
        (args.hold.is_some(), "--hold"),
        (args.json, "--json"),
        (args.hdr_log.is_some(), "--hdr-log"),
    ]
    .into_iter()
    .find_map(|(given, flag)| given.then_some(flag))
}

fn server_config(args: &RrArgs) -> Result<ServerConfig, Fault> {
    let sizes = match (&args.request_size, &args.response_size) {
        (None, None) => None,
        (request, response) => Some((
            size(request.as_deref(), "--request-size")?,
            size(response.as_deref(), "--response-size")?,
        )),
    };
    Ok(ServerConfig { addr: args.bind, ports: port_numbers(args.ports.as_deref())?, sizes })
}

fn client_config(args: &RrArgs, remote: IpAddr) -> Result<ClientConfig, Fault> {
    let mode = if args.connect {
        let close = match args.close {
            cli::Close::Rst => Close::Rst,
            cli::Close::FinClient => Close::FinClient,
            cli::Close::FinServer => Close::FinServer,
        };
        Mode::Connect { concurrency: args.concurrency, close }
    } else {
        Mode::Ping {
            connections: args.parallel,
            outstanding: args.outstanding,
            rate: args.rate.as_deref().map(|r| amount(r, 1000, "--rate")).transpose()?,
        }
    };
    let hold = args.hold.as_deref().map(|n| amount(n, 1000, "--hold")).transpose()?.unwrap_or(0);
    let count = args.transactions.as_deref().map(|n| amount(n, 1000, "-n")).transpose()?;
    let config = ClientConfig {
        setup: Setup {
            remote,
            ports: port_numbers(args.ports.as_deref())?,
            locals: Vec::new(),
            request: size(args.request_size.as_deref(), "--request-size")?,
            response: size(args.response_size.as_deref(), "--response-size")?,
            mode,
            idle: u32::try_from(hold).unwrap_or(u32::MAX),
            time: seconds(args.time.unwrap_or(10.0), "-t")?,
            count,
            omit: seconds(args.omit, "-O")?,
        },
        interval: match args.interval {
            0.0 => None,
            secs if secs >= 0.1 => Some(seconds(secs, "-i")?),
            _ => return Err(Fault::usage("-i: at least 0.1 seconds, or 0 for no reports")),
        },
        timeout: match args.timeout {
            secs if secs >= 0.1 => seconds(secs, "--timeout")?,
            _ => return Err(Fault::usage("--timeout: at least 0.1 seconds")),
        },
    };
    if config.setup.time.is_zero() && config.setup.count.is_none() && config.setup.idle == 0 {
        return Err(Fault::usage("-t 0 measures nothing without --hold"));
    }
    config.check().map_err(Fault::usage)?;
    Ok(config)
}

pub(crate) fn amount(text: &str, power: u64, flag: &str) -> Result<u64, Fault> {
    number(text, power)
        .ok_or_else(|| Fault::usage(format!("{flag}: \"{text}\" is not a number with K, M or G")))
}

fn size(text: Option<&str>, flag: &str) -> Result<u32, Fault> {
    let Some(text) = text else { return Ok(SIZE_DEFAULT) };
    let max = workloads::rr::MESSAGE_BYTES_MAX;
    match u32::try_from(amount(text, 1024, flag)?) {
        Ok(n) if (1..=max).contains(&n) => Ok(n),
        _ => Err(Fault::usage(format!("{flag}: \"{text}\" is not in 1..{max} bytes"))),
    }
}

pub(crate) fn seconds(secs: f64, flag: &str) -> Result<Duration, Fault> {
    if (0.0..=SECONDS_MAX).contains(&secs) {
        Ok(Duration::from_secs_f64(secs))
    } else {
        Err(Fault::usage(format!("{flag}: {secs} is no number of seconds up to a year")))
    }
}

/// `5210`, `5201,5203`, `5201..5208`, or several of these with commas.
fn port_numbers(text: Option<&str>) -> Result<Vec<u16>, Fault> {
    let Some(text) = text else { return Ok(vec![workloads::rr::DEFAULT_PORT]) };
    let wrong = || {
        Fault::usage(format!("-p: \"{text}\" is not a port in 1..65535 or a range of them"))
            .help("such as 5210, 5201..5208 or 5201,5203")
    };
    let mut all: Vec<u16> = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once("..").unwrap_or((part, part));
        let port = |text: &str| text.trim().parse::<u16>().ok().filter(|p| *p > 0);
        let (first, last) = (port(first).ok_or_else(wrong)?, port(last).ok_or_else(wrong)?);
        if first > last {
            return Err(wrong());
        }
        if all.len() + usize::from(last - first) >= PORTS_MAX {
            return Err(Fault::usage(format!("-p: at most {PORTS_MAX} ports")));
        }
        for port in first..=last {
            if all.contains(&port) {
                return Err(Fault::usage(format!("-p: {port} twice")));
            }
            all.push(port);
        }
    }
    Ok(all)
}

fn port_list(ports: &[u16]) -> String {
    let all: Vec<String> = ports.iter().map(u16::to_string).collect();
    let s = if ports.len() == 1 { "" } else { "s" };
    format!("port{s} {}", all.join(" "))
}

/// The address of HOST. A name is looked up by the operating system, before the dataplane starts.
fn resolve(host: &str, args: &RrArgs) -> Result<IpAddr, Fault> {
    let fits = |a: &IpAddr| (a.is_ipv4() || !args.version4) && (a.is_ipv6() || !args.version6);
    let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let found = match literal {
        Ok(address) => vec![address],
        Err(_) => {
            (host, 0).to_socket_addrs().map(|all| all.map(|a| a.ip()).collect()).map_err(|e| {
                Fault::usage(format!("\"{host}\" is neither an address nor a known name: {e}"))
            })?
        }
    };
    found
        .into_iter()
        .find(fits)
        .ok_or_else(|| Fault::usage(format!("\"{host}\" has no address of the family asked for")))
}

/// Where reports go.
struct Screen {
    how: How,
    log: Option<HdrLog<BufWriter<File>>>,
    /// Resident memory when the test began.
    resident: u64,
}

enum How {
    Text(text::Renderer),
    Json(json::Builder),
}

impl Screen {
    fn new(args: &RrArgs, limits: stack::Limits) -> Result<Self, Fault> {
        let how = if args.json {
            let mut extra = Map::new();
            let version = concat!("millrace ", env!("CARGO_PKG_VERSION"));
            extra.insert("version".to_owned(), json!(version));
            extra.insert("unix_seconds".to_owned(), json!(unix_seconds()));
            extra.insert("connections_max".to_owned(), json!(limits.connections));
            extra.insert("time_wait_max".to_owned(), json!(limits.time_wait));
            How::Json(json::Builder::new(extra))
        } else {
            How::Text(text::Renderer::new(text::Options {
                intervals: args.interval > 0.0,
                time_wait_max: Some(limits.time_wait),
            }))
        };
        let log = args.hdr_log.as_deref().map(open_log).transpose()?;
        Ok(Self { how, log, resident: 0 })
    }

    fn show(&mut self, message: Message) {
        let Ok(report) = message.downcast::<Report>() else { return };
        let mut out = match &mut self.how {
            How::Text(renderer) => renderer.render(&report),
            How::Json(builder) => match builder.push(&report) {
                Some(document) => {
                    format!("{}\n", serde_json::to_string_pretty(&document).unwrap_or_default())
                }
                None => String::new(),
            },
        };
        match &*report {
            Report::Begin(_) => self.resident = resident_bytes(),
            Report::Standing(standing) if standing.complete => {
                self.show_memory(standing.held, &mut out);
            }
            Report::Interval(interval) if !interval.omitted => {
                let length = interval.end.saturating_sub(interval.start);
                let parts =
                    [(None, Some(&interval.latency)), (Some("setup"), interval.setup.as_ref())];
                for (tag, times) in parts {
                    let Some(times) = times else { continue };
                    self.log_times(tag, interval.start, length, times);
                }
            }
            Report::End(End::Failed(failure), _) => {
                eprintln!("millrace: the test broke off: {}", failure.text());
            }
            _ => {}
        }
        if !out.is_empty()
            && let Err(e) = output::write(&out)
        {
            eprintln!("millrace: cannot write to standard output: {e}");
        }
    }

    fn log_times(
        &mut self,
        tag: Option<&str>,
        start: Duration,
        length: Duration,
        times: &workloads::rr::Latencies,
    ) {
        let Some(log) = &mut self.log else { return };
        if let Err(e) = log.add(tag, start, length, times) {
            eprintln!("millrace: --hdr-log: {e}; no more is written");
            self.log = None;
        }
    }

    /// What `held` connections have added to this process.
    fn show_memory(&mut self, held: u32, out: &mut String) {
        let now = resident_bytes();
        let each = now.saturating_sub(self.resident) / u64::from(held.max(1));
        let own = Client::IDLE_CONNECTION_BYTES;
        match &mut self.how {
            How::Text(_) => {
                out.push_str(&format!(
                    "resident memory {} KiB, {} KiB before: {each} bytes for each connection, {own} of \
                     them in this application\n",
                    now / 1024,
                    self.resident / 1024,
                ));
            }
            How::Json(builder) => builder.set(
                "memory",
                json!({
                    "resident_bytes_before": self.resident,
                    "resident_bytes": now,
                    "bytes_per_connection": each,
                    "application_bytes_per_connection": own,
                }),
            ),
        }
    }
}

fn open_log(path: &Path) -> Result<HdrLog<BufWriter<File>>, Fault> {
    let begin =
        || -> io::Result<_> { HdrLog::begin(BufWriter::new(File::create(path)?), unix_seconds()) };
    begin().map_err(|e| Fault::usage(format!("--hdr-log: cannot write {}: {e}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::port_numbers;

    #[test]
    fn ports_come_alone_in_lists_and_in_ranges() {
        let fine: [(&str, &[u16]); 4] = [
            ("5210", &[5210]),
            ("5201..5203", &[5201, 5202, 5203]),
            ("1,3..4,65535", &[1, 3, 4, 65535]),
            ("7..7", &[7]),
        ];
        for (text, ports) in fine {
            assert_eq!(port_numbers(Some(text)).expect(text), ports, "{text}");
        }
        for text in ["", "0", "65536", "5..4", "1,1", "1..300", "a", "1..", "-1", "1,,2"] {
            assert!(port_numbers(Some(text)).is_err(), "{text}");
        }
    }
}
