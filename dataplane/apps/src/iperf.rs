//! `millrace iperf`: flags of iperf3 to the applications, and their reports to the terminal.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use stack::Message;
use workloads::iperf::{
    Client, ClientConfig, Direction, Failure, Params, Protocol, Report, Server, ServerConfig, json,
    text,
};

use crate::cli::IperfArgs;
use crate::fault::{Fault, Outcome};
use crate::host::Process;
use crate::number::number;
use crate::{output, ports, ring};

pub(crate) fn run(args: IperfArgs) -> Outcome {
    if args.version {
        return output::print(&format!(
            "millrace {} (iperf3 protocol)\n",
            env!("CARGO_PKG_VERSION")
        ));
    }
    let role = role(&args)?;
    let params = params(&args)?;
    let interval = interval(&args)?;
    let server = server_config(&args, interval)?;
    if matches!(role, Role::Ring) {
        return ring(&args, server, params, interval);
    }
    let client = match &role {
        Role::Client(host) => Some((resolve(host, &args)?, host.clone())),
        _ => None,
    };
    let startup = ports::startup(&args.ports)?;
    if startup.workers.len() > 1 {
        return Err(Fault::usage("iperf runs on one worker: name one core"));
    }
    let client = match client {
        Some((address, host)) => Some(client_config(&args, address, host, params, interval)?),
        None => None,
    };
    // Configurations are made once and the one worker takes them.
    let config = std::sync::Mutex::new(Some((server, client)));
    let make: ports::MakeApp = Box::new(move || {
        let taken = config.lock().ok().and_then(|mut c| c.take());
        match taken {
            Some((_, Some(client))) => Box::new(Client::new(client)),
            Some((server, None)) => Box::new(Server::new(server)),
            // A second worker, which was refused above.
            None => Box::new(workloads::Bundle::new(Vec::new())),
        }
    });
    let mut screen = Screen::new(&args)?;
    ports::run(&startup, ports::hooks(move |_, m| screen.show(m), || {}), make)
}

enum Role {
    Server,
    Client(String),
    Ring,
}

fn role(args: &IperfArgs) -> Result<Role, Fault> {
    let given = (args.server, &args.client, args.ring);
    let role = match given {
        (true, None, false) => Role::Server,
        (false, Some(host), false) => Role::Client(host.clone()),
        (false, None, true) => Role::Ring,
        (false, None, false) => {
            return Err(Fault::usage(
                "parameter error - must either be a client (-c) or server (-s)",
            )
            .help("millrace iperf -s --vdev DEVICE --address ADDR/LEN")
            .help("millrace iperf -c HOST --vdev DEVICE --address ADDR/LEN")
            .help("millrace iperf --ring       two stacks in this process"));
        }
        _ => {
            return Err(Fault::usage(
                "parameter error - only one of -s, -c and --ring can be given",
            ));
        }
    };
    if args.udp {
        return Err(Fault::usage("parameter error - UDP tests are not supported yet")
            .help("leave out -u for TCP"));
    }
    if let (Role::Server, Some(option)) = (&role, client_only(args)) {
        return Err(Fault::usage(format!(
            "parameter error - some option you are trying to set is client only: {option}"
        )));
    }
    if matches!(role, Role::Client(_)) && args.one_off {
        return Err(Fault::usage(
            "parameter error - some option you are trying to set is server only: -1",
        ));
    }
    Ok(role)
}

fn client_only(args: &IperfArgs) -> Option<&'static str> {
    [
        (args.time.is_some(), "-t"),
        (args.bytes.is_some(), "-n"),
        (args.blockcount.is_some(), "-k"),
        (args.length.is_some(), "-l"),
        (args.parallel != 1, "-P"),
        (args.reverse, "-R"),
        (args.bidir, "--bidir"),
        (args.bitrate.is_some(), "-b"),
        (args.window.is_some(), "-w"),
        (args.set_mss.is_some(), "-M"),
        (args.no_delay, "-N"),
        (args.congestion.is_some(), "-C"),
        (args.omit != 0, "-O"),
        (args.cport.is_some(), "--cport"),
        (args.get_server_output, "--get-server-output"),
    ]
    .into_iter()
    .find_map(|(given, name)| given.then_some(name))
}

fn parameter(failure: &Failure) -> Fault {
    Fault::usage(format!("parameter error - {failure}"))
}

fn params(args: &IperfArgs) -> Result<Params, Fault> {
    if [args.time.is_some(), args.bytes.is_some(), args.blockcount.is_some()]
        .iter()
        .filter(|given| **given)
        .count()
        > 1
    {
        return Err(Fault::usage(
            "parameter error - only one test end condition (-t, -n, -k) may be specified",
        ));
    }
    if args.reverse && args.bidir {
        return Err(Fault::usage("parameter error - cannot be both reverse and bidirectional"));
    }
    let count = |text: &Option<String>, flag: &str| match text {
        Some(t) => number(t, 1024).ok_or_else(|| not_a_number(t, flag)),
        None => Ok(0),
    };
    let (num, blockcount) = (count(&args.bytes, "-n")?, count(&args.blockcount, "-k")?);
    let mut params = Params {
        protocol: Protocol::Tcp,
        omit_secs: args.omit,
        time_secs: if num + blockcount > 0 { 0 } else { args.time.unwrap_or(10) },
        num,
        blockcount,
        mss: args.set_mss,
        nodelay: args.no_delay,
        parallel: args.parallel,
        direction: match (args.reverse, args.bidir) {
            (true, _) => Direction::Reverse,
            (_, true) => Direction::Bidirectional,
            _ => Direction::Forward,
        },
        title: args.title.clone(),
        extra_data: args.extra_data.clone(),
        congestion: args.congestion.clone(),
        get_server_output: args.get_server_output,
        repeating_payload: args.repeating_payload,
        ..Params::default()
    };
    if let Some(t) = &args.length {
        let len = number(t, 1024).ok_or_else(|| not_a_number(t, "-l"))?;
        // Too large for the type is too large for the limit, which names it.
        params.len = u32::try_from(len).unwrap_or(u32::MAX);
    }
    if let Some(t) = &args.window {
        let window = number(t, 1024).ok_or_else(|| not_a_number(t, "-w"))?;
        params.window = Some(u32::try_from(window).unwrap_or(u32::MAX));
    }
    if let Some(t) = &args.bitrate {
        let (rate, burst) = t.split_once('/').unwrap_or((t, "0"));
        params.bandwidth = number(rate, 1000).ok_or_else(|| not_a_number(t, "-b"))?;
        params.burst = burst.parse().map_err(|_| not_a_number(t, "-b"))?;
    }
    if let Some(name) = &args.congestion
        && !tcp::params::CongestionAlgorithm::ALL.iter().any(|(known, _)| known == name)
    {
        let all: Vec<&str> =
            tcp::params::CongestionAlgorithm::ALL.iter().map(|(n, _)| *n).collect();
        return Err(Fault::usage(format!(
            "parameter error - unable to set TCP_CONGESTION: {name} is not supported"
        ))
        .help(format!("there are: {}", all.join(", "))));
    }
    params.check().map_err(|e| parameter(&e))?;
    Ok(params)
}

fn not_a_number(text: &str, flag: &str) -> Fault {
    Fault::usage(format!("parameter error - {flag}: \"{text}\" is not a number with K, M, G or T"))
}

fn interval(args: &IperfArgs) -> Result<Option<Duration>, Fault> {
    match args.interval {
        0.0 => Ok(None),
        secs if (0.1..=60.0).contains(&secs) => Ok(Some(Duration::from_secs_f64(secs))),
        _ => Err(Fault::usage(
            "parameter error - invalid report interval (min = 0.1, max = 60 seconds)",
        )),
    }
}

fn rcv_timeout(args: &IperfArgs) -> Result<Option<Duration>, Fault> {
    match args.rcv_timeout {
        Some(ms) if !(100..=86_400_000).contains(&ms) => {
            Err(Fault::usage("parameter error - receive timeout is 100 ms to a day"))
        }
        ms => Ok(ms.map(Duration::from_millis)),
    }
}

fn server_config(args: &IperfArgs, interval: Option<Duration>) -> Result<ServerConfig, Fault> {
    let mut config = ServerConfig::new(Box::new(Process));
    config.port = args.port;
    config.bind = args.bind;
    config.one_off = args.one_off;
    config.interval = interval;
    config.json = args.json || args.json_stream;
    if let Some(limit) = rcv_timeout(args)? {
        config.rcv_timeout = limit;
    }
    Ok(config)
}

fn client_config(
    args: &IperfArgs,
    address: SocketAddr,
    host: String,
    params: Params,
    interval: Option<Duration>,
) -> Result<ClientConfig, Fault> {
    let mut config = ClientConfig::new(address, Box::new(Process));
    config.host_name = host;
    config.params = params;
    config.interval = interval;
    config.local_addr = args.bind;
    config.local_port = args.cport;
    config.connect_timeout = args.connect_timeout.map(Duration::from_millis);
    if let Some(limit) = rcv_timeout(args)? {
        config.rcv_timeout = limit;
    }
    Ok(config)
}

/// The address of HOST. A name is looked up by the operating system, before the dataplane starts.
fn resolve(host: &str, args: &IperfArgs) -> Result<SocketAddr, Fault> {
    let fits = |a: &IpAddr| (a.is_ipv4() || !args.version4) && (a.is_ipv6() || !args.version6);
    let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let found = match literal {
        Ok(address) => vec![address],
        Err(_) => {
            (host, args.port).to_socket_addrs().map(|all| all.map(|a| a.ip()).collect()).map_err(
                |e| Fault::usage(format!("\"{host}\" is neither an address nor a known name: {e}")),
            )?
        }
    };
    match found.into_iter().find(fits) {
        Some(address) => Ok(SocketAddr::new(address, args.port)),
        None => Err(Fault::usage(format!("\"{host}\" has no address of the family asked for"))),
    }
}

/// Where reports go: text as they come, or JSON.
pub(crate) struct Screen {
    how: How,
}

enum How {
    Text(text::Renderer),
    Json(json::Builder),
    JsonLines(json::Stream),
}

impl Screen {
    fn new(args: &IperfArgs) -> Result<Self, Fault> {
        if args.json_stream {
            return Ok(Self { how: How::JsonLines(json::Stream::new(&Process)) });
        }
        if args.json {
            return Ok(Self { how: How::Json(json::Builder::new(&Process)) });
        }
        let format = match args.format {
            None => text::Format::default(),
            Some(letter) => text::Format::from_letter(letter).ok_or_else(|| {
                Fault::usage(format!(
                    "parameter error - bad format specifier \"{letter}\" (kmgtKMGT)"
                ))
            })?,
        };
        let title = args.title.clone();
        let options = text::Options { format, verbose: args.verbose, title };
        Ok(Self { how: How::Text(text::Renderer::new(options)) })
    }

    /// Text in the usual format.
    pub(crate) fn text(verbose: bool) -> Self {
        let options = text::Options { verbose, ..text::Options::default() };
        Self { how: How::Text(text::Renderer::new(options)) }
    }

    /// Show what an application has published; anything but a report of iperf is passed over.
    pub(crate) fn show(&mut self, message: Message) {
        let Ok(report) = message.downcast::<Report>() else { return };
        let (out, err) = match &mut self.how {
            How::Text(renderer) => {
                let rendered = renderer.render(&report);
                (rendered.out, rendered.err)
            }
            How::Json(builder) => {
                let done = builder.push(&report);
                (done.map(|v| json::to_text(&v)).unwrap_or_default(), String::new())
            }
            How::JsonLines(stream) => (stream.push(&report), String::new()),
        };
        if !err.is_empty() {
            eprint!("{err}");
        }
        if !out.is_empty()
            && let Err(e) = output::write(&out)
        {
            eprintln!("millrace: cannot write to standard output: {e}");
        }
    }
}

/// Two stacks in one process.
fn ring(
    args: &IperfArgs,
    mut server: ServerConfig,
    params: Params,
    interval: Option<Duration>,
) -> Outcome {
    let ring = ring::Ring::new(&args.ports, args.version6)?;
    // The client ends the dataplane.
    server.one_off = false;
    server.interval = None;
    let host = ring.server;
    let target = SocketAddr::new(host, args.port);
    let client = client_config(args, target, host.to_string(), params, interval)?;
    let mut screen = Screen::new(args)?;
    if !args.json && std::io::IsTerminal::is_terminal(&std::io::stderr()) {
        eprintln!("millrace: two stacks in this process, on a crossed net_ring pair");
    }
    ring.run(
        move || Box::new(Server::new(server)),
        move || Box::new(Client::new(client)),
        move |m| screen.show(m),
    )
}
