//! A whole dataplane without DPDK: worker thread, control thread, control socket.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use base::WorkerId;
use base::mem::{MemConfig, MemDevice};
use config::{Knobs, Profile};
use runtime::client::{Client, ClientError};
use runtime::protocol::Request;
use runtime::{
    Dataplane, Hooks, IdlePolicy, LinkState, Options, Outcome, WorkerParts, WorkerSetup,
};
use stack::{App, AppEvent, ChecksumPolicy, Io, Limits, LocalAddress, PortSetup, StackConfig};

/// Publishes a word at the start, and ends the dataplane when its timer or a message says so.
struct Probe {
    exit_after: Option<Duration>,
}

impl App for Probe {
    fn on_event(&mut self, io: &mut dyn Io, event: AppEvent) {
        match event {
            AppEvent::Start => {
                assert!(io.publish(Box::new("started")).is_ok());
                io.listen(None, 7, 16, &tcp::ConnOptions::default()).expect("the port is free");
                if let Some(after) = self.exit_after {
                    assert!(io.set_timer(1, io.now() + after));
                }
            }
            AppEvent::Timer { token: 1 } => io.exit(1),
            _ => {}
        }
    }
}

fn config() -> StackConfig {
    StackConfig {
        worker: WorkerId(0),
        workers: 1,
        ports: vec![PortSetup {
            addresses: vec![LocalAddress { addr: "10.0.0.2".parse().unwrap(), prefix: 24 }],
            gateway4: None,
            gateway6: None,
            mtu: 1500,
            rx_checksum: ChecksumPolicy::Verify,
        }],
        limits: Limits::default(),
        stop_limit: Duration::from_millis(200),
    }
}

fn instance() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Runs a dataplane on a thread of its own; what it published comes through the channel.
fn start(
    instance: &str,
    exit_after: Option<Duration>,
    refuse: Option<&'static str>,
) -> (thread::JoinHandle<Result<Outcome, String>>, mpsc::Receiver<String>) {
    start_on(instance, exit_after, refuse, || LinkState {
        name: "mem0".to_owned(),
        up: true,
        lost: None,
    })
}

fn start_on(
    instance: &str,
    exit_after: Option<Duration>,
    refuse: Option<&'static str>,
    mut link: impl FnMut() -> LinkState + Send + 'static,
) -> (thread::JoinHandle<Result<Outcome, String>>, mpsc::Receiver<String>) {
    let (said, heard) = mpsc::channel();
    let warned = said.clone();
    let ready = said.clone();
    let options = Options {
        instance: instance.to_owned(),
        socket: true,
        idle: IdlePolicy::Adaptive,
        stop_limit: Duration::from_millis(200),
    };
    let handle = thread::spawn(move || {
        let setup = WorkerSetup {
            core: None,
            config: config(),
            make: Box::new(move || match refuse {
                Some(why) => Err(why.to_owned()),
                None => Ok(WorkerParts {
                    devices: vec![MemDevice::detached(&MemConfig::default())],
                    app: Box::new(Probe { exit_after }),
                    guard: Box::new(()),
                }),
            }),
        };
        Dataplane {
            options,
            knobs: Knobs::new(Profile::Millrace),
            workers: vec![setup],
            hooks: Hooks {
                on_publish: Box::new(move |_, message| {
                    if let Ok(word) = message.downcast::<&'static str>() {
                        let _ = said.send((*word).to_owned());
                    }
                }),
                links: Box::new(move || vec![link()]),
                port_stats: Box::new(|| vec![("mem0_rx_packets".to_owned(), 3)]),
                on_warning: Box::new(move |text| drop(warned.send(text.to_owned()))),
                on_ready: Box::new(move || drop(ready.send("ready".to_owned()))),
            },
        }
        .run()
    });
    (handle, heard)
}

fn expect(heard: &mpsc::Receiver<String>, word: &str) {
    loop {
        match heard.recv_timeout(Duration::from_secs(10)) {
            Ok(w) if w == word => return,
            Ok(_) => {}
            Err(e) => panic!("no \"{word}\": {e}"),
        }
    }
}

#[test]
fn an_application_publishes_and_ends_the_dataplane_with_its_code() {
    let (handle, heard) = start(&instance(), Some(Duration::from_millis(50)), None);
    expect(&heard, "ready");
    expect(&heard, "started");
    let outcome = handle.join().unwrap().unwrap();
    assert_eq!(outcome.code, 1);
    assert_eq!(outcome.last.len(), 1);
    let buffers = outcome.last[0].buffers;
    assert_eq!(buffers.free, buffers.total);
}

#[test]
fn h132_a_port_that_is_lost_ends_the_dataplane() {
    let mut asked = 0;
    let (handle, heard) = start_on(&instance(), None, None, move || {
        asked += 1;
        let lost = (asked > 1).then(|| "interface veth0 is gone".to_owned());
        LinkState { name: "mem0".to_owned(), up: lost.is_none(), lost }
    });
    expect(&heard, "ready");
    expect(&heard, "port mem0: interface veth0 is gone");
    let outcome = handle.join().unwrap().unwrap();
    assert_eq!((outcome.code, outcome.last.len()), (3, 1));
}

#[test]
fn the_control_socket_answers_and_stops() {
    let name = instance();
    let (handle, heard) = start(&name, None, None);
    expect(&heard, "ready");

    let mut client = Client::connect(&name).unwrap();
    assert_eq!(client.hello["instance"], name.as_str());
    let get = |c: &mut Client| {
        c.ask(&Request::SysctlGet { name: "tcp_rmem".into() }).unwrap()["value"].clone()
    };
    let before = get(&mut client);
    let set = client.ask(&Request::SysctlSet { name: "tcp_rmem".into(), value: "8192".into() });
    // The answer comes only once every worker runs with it.
    assert!(set.unwrap()["generation"].as_u64() >= Some(2));
    assert_ne!(get(&mut client), before);
    let workers = client.ask(&Request::Workers).unwrap();
    assert_eq!(workers[0]["generation"], 2);

    let refused = client.ask(&Request::SysctlSet { name: "tcp_sack".into(), value: "9".into() });
    assert!(matches!(refused, Err(ClientError::Refused(why)) if why.contains("0..1")));

    let counters = client.ask(&Request::Nstat).unwrap();
    assert_eq!(counters["mem0_rx_packets"], 3);
    assert_eq!(counters["drop_tcp_csum"], 0);
    let rows = client.ask(&Request::Ss).unwrap();
    assert!(rows.as_array().unwrap().iter().all(|r| r["state"] == "LISTEN"), "{rows}");
    assert!(!rows.as_array().unwrap().is_empty());

    client.ask(&Request::Stop).unwrap();
    assert_eq!(handle.join().unwrap().unwrap().code, 0);
    assert!(matches!(Client::connect(&name), Err(ClientError::NoInstance { .. })));
}

#[test]
fn a_name_in_use_is_refused_and_a_dead_socket_is_not_in_use() {
    let name = instance();
    let (first, heard) = start(&name, None, None);
    expect(&heard, "ready");
    let (second, _) = start(&name, None, None);
    let why = second.join().unwrap().unwrap_err();
    assert!(why.contains("already running"), "{why}");
    Client::connect(&name).unwrap().ask(&Request::Stop).unwrap();
    first.join().unwrap().unwrap();

    // What a killed instance leaves behind.
    let path = runtime::socket_path(&name).unwrap();
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let (third, heard) = start(&name, Some(Duration::from_millis(10)), None);
    expect(&heard, "ready");
    assert_eq!(third.join().unwrap().unwrap().code, 1);
}

#[test]
fn a_worker_that_cannot_start_ends_the_dataplane_with_its_reason() {
    let (handle, _heard) = start(&instance(), None, Some("no queue for you"));
    let why = handle.join().unwrap().unwrap_err();
    assert!(why.contains("no queue for you"), "{why}");
}

#[test]
fn garbage_on_the_control_socket_harms_nobody() {
    use std::io::{BufRead, BufReader, Write};
    let name = instance();
    let (handle, heard) = start(&name, None, None);
    expect(&heard, "ready");
    let path = runtime::socket_path(&name).unwrap();
    let mut stranger = std::os::unix::net::UnixStream::connect(&path).unwrap();
    stranger.write_all(b"\xff\xfe\x00\n{\"cmd\":\"ss\"\n[[[[\n{}\n").unwrap();
    let mut lines = BufReader::new(stranger.try_clone().unwrap()).lines();
    lines.next().unwrap().unwrap();
    for _ in 0..4 {
        let line = lines.next().unwrap().unwrap();
        assert!(line.contains("\"ok\":false"), "{line}");
    }
    // A request without an end is cut off.
    let mut flood = std::os::unix::net::UnixStream::connect(&path).unwrap();
    for _ in 0..200 {
        if flood.write_all(&[b'x'; 1024]).is_err() {
            break;
        }
    }
    let mut client = Client::connect(&name).unwrap();
    client.ask(&Request::Workers).unwrap();
    client.ask(&Request::Stop).unwrap();
    handle.join().unwrap().unwrap();
}

#[test]
fn instance_names_stay_in_their_directory() {
    for name in ["", "../x", "a/b", ".hidden", "a b", "ä"] {
        assert!(runtime::socket_path(name).is_err(), "{name}");
    }
    assert!(runtime::socket_path(&"x".repeat(200)).is_err());
    assert!(runtime::socket_path("web-1.a_b").unwrap().ends_with("millrace/web-1.a_b.sock"));
}

/// Breaks an invariant as soon as it runs.
struct Broken;

impl App for Broken {
    fn on_event(&mut self, _: &mut dyn Io, _: AppEvent) {
        panic!("the books do not balance");
    }
}

/// Runs only in the process that the test below starts.
#[test]
fn child_with_a_broken_worker() {
    if std::env::var_os("MILLRACE_TEST_BROKEN").is_none() {
        return;
    }
    let setup = WorkerSetup {
        core: None,
        config: config(),
        make: Box::new(|| {
            Ok(WorkerParts {
                devices: vec![MemDevice::detached(&MemConfig::default())],
                app: Box::new(Broken) as Box<dyn App>,
                guard: Box::new(()),
            })
        }),
    };
    let never = Dataplane {
        options: Options {
            instance: instance(),
            socket: false,
            idle: IdlePolicy::Adaptive,
            stop_limit: Duration::from_millis(200),
        },
        knobs: Knobs::new(Profile::Millrace),
        workers: vec![setup],
        hooks: Hooks {
            on_publish: Box::new(|_, _| {}),
            links: Box::new(Vec::new),
            port_stats: Box::new(Vec::new),
            on_warning: Box::new(|_| {}),
            on_ready: Box::new(|| {}),
        },
    }
    .run();
    panic!("went on without its worker: {never:?}");
}

#[test]
fn h142_a_broken_worker_stops_the_process_with_a_message() {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_with_a_broken_worker", "--nocapture"])
        .env("MILLRACE_TEST_BROKEN", "1")
        .output()
        .unwrap();
    assert!(!child.status.success());
    let text = String::from_utf8_lossy(&child.stderr);
    assert!(text.contains("millrace-w0 has broken an invariant"), "{text}");
    assert!(text.contains("the books do not balance"), "{text}");
    assert!(!text.contains("went on without"), "{text}");
}
