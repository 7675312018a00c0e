//! `millrace run`: a dataplane with the applications of a file.

use config::{AppConfig, AppKind, Startup};
use stack::{App, Message};
use workloads::Bundle;
use workloads::discard::CannotListen;

use crate::cli::RunArgs;
use crate::fault::{Fault, Outcome};
use crate::{host, iperf, output, ports};

pub(crate) fn run(args: &RunArgs) -> Outcome {
    let startup = Startup::from_file(
        &args.config,
        &config::PortFlags::default(),
        &runtime::available_cores(),
    )
    .map_err(ports::usage)?;
    if startup.apps.is_empty() && !startup.ports.iter().any(crate::ring::is_ring) {
        return Err(Fault::usage(format!("{}: no [[app]] to run", args.config.display()))
            .help("add one, such as: [[app]] kind = \"echo\" port = 7"));
    }
    let iperf_ports = startup.apps.iter().filter(|a| matches!(a.kind, AppKind::IperfServer { .. }));
    if iperf_ports.count() > 0 && startup.workers.len() > 1 {
        return Err(Fault::usage(format!(
            "{}: an iperf-server runs on one worker, and there are {}",
            args.config.display(),
            startup.workers.len()
        ))
        .help("set queues = 1, or run it in an instance of its own"));
    }
    let apps = startup.apps.clone();
    let make: ports::MakeApp = Box::new(move || {
        Box::new(Bundle::new(apps.iter().map(make).collect::<Vec<Box<dyn App>>>()))
    });
    let mut screen = iperf::Screen::text(args.verbose);
    let on_publish = move |_, message: Message| match message.downcast::<CannotListen>() {
        Ok(e) => eprintln!("millrace: cannot listen on port {}: {:?}", e.port, e.error),
        Err(message) => screen.show(message),
    };
    let banner = banner(&startup);
    let on_ready = move || {
        if let Err(e) = output::write(&banner) {
            eprintln!("millrace: cannot write to standard output: {e}");
        }
    };
    ports::run(&startup, ports::hooks(on_publish, on_ready), make)
}

fn make(app: &AppConfig) -> Box<dyn App> {
    let plain = workloads::discard::Config {
        addr: app.bind,
        port: app.port,
        options: tcp::ConnOptions::default(),
    };
    match app.kind {
        AppKind::IperfServer { one_off, idle_timeout } => {
            let mut config = workloads::iperf::ServerConfig::new(Box::new(host::Process));
            config.port = app.port;
            config.bind = app.bind;
            config.one_off = one_off;
            config.idle_timeout = idle_timeout;
            Box::new(workloads::iperf::Server::new(config))
        }
        AppKind::Echo => Box::new(workloads::echo::Echo::new(plain)),
        AppKind::RrServer => Box::new(workloads::rr::Server::new(workloads::rr::ServerConfig {
            addr: app.bind,
            ports: vec![app.port],
            sizes: None,
        })),
        AppKind::Discard => Box::new(workloads::discard::Discard::new(plain)),
    }
}

/// One line that says what runs, once it runs.
fn banner(startup: &Startup) -> String {
    let apps: Vec<String> =
        startup.apps.iter().map(|a| format!("{} on port {}", a.kind.name(), a.port)).collect();
    format!("millrace: instance {} is running: {}\n", startup.instance, apps.join(", "))
}
