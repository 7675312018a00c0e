use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::{Profile, Source};

const CORES: [usize; 4] = [0, 1, 2, 3];

fn check(text: &str) -> Result<Startup, ConfigError> {
    Startup::from_text("m.toml", text, &PortFlags::default(), &CORES)
}

fn message(text: &str) -> String {
    match check(text) {
        Ok(startup) => panic!("accepted: {startup:?}"),
        Err(error) => error.to_string(),
    }
}

/// The first line of the message for each text, by row.
fn reject(rows: &[(&str, &str, &str)]) {
    for (row, text, expected) in rows {
        let shown = message(text);
        assert_eq!(shown.lines().next(), Some(*expected), "{row}:\n{shown}");
    }
}

/// A file with one good port and `more` behind it.
fn with_port(more: &str) -> String {
    format!(
        "[[port]]\nvdev = \"net_tap0,iface=t0\"\naddresses = [\"10.0.0.2/24\", \"fd00::2/64\"]\n{more}"
    )
}

#[test]
fn a_short_file_gets_defaults() {
    let s = check(&with_port("")).unwrap();
    assert_eq!(s.instance, "default");
    assert_eq!(s.knobs().profile(), Profile::Millrace);
    assert_eq!(
        s.dataplane,
        Dataplane {
            idle: IdlePolicy::Adaptive,
            memory_bytes: 256 << 20,
            hugepages: false,
            stop_limit: Duration::from_secs(5),
            control: true,
            buffers: 16_384,
            data_room_bytes: 2048,
        }
    );
    assert_eq!(s.limits, Limits::default());
    assert_eq!(s.workers, [Worker { core: 3 }]);
    assert_eq!((s.apps.len(), s.warnings.len()), (0, 0));
    let stack = s.stack_config(0).unwrap();
    assert_eq!((stack.worker, stack.workers, stack.ports[0].mtu), (WorkerId(0), 1, 1500));
    assert_eq!(stack.ports[0].addresses, s.ports[0].addresses);
    assert!(s.stack_config(1).is_none());
}

#[test]
fn a_full_file_is_understood() {
    let text = r#"
        instance = "a.b-1"
        profile = "linux"
        [dataplane]
        cores = [2, 1]
        idle = "poll"
        memory = "512 MiB"
        hugepages = true
        stop_limit = "250ms"
        control = false
        [[port]]
        vdev = "net_af_packet0,iface=veth0"
        addresses = ["10.0.0.2/24", "fd00::2/64"]
        gateway = ["10.0.0.1", "fe80::1"]
        mtu = 9000
        queues = 2
        rx_checksum = "trust"
        [[port]]
        pci = "03:00.1"
        addresses = "192.0.2.7/31"
        gateway = "192.0.2.6"
        [limits]
        connections = 1000
        half_open = 100
        time_wait = 10
        neighbors = 16
        listeners = 8
        fragments = 0
        buffers = 4096
        [sysctl]
        net.ipv4.tcp_sack = false
        "net.ipv4.tcp_wmem" = "4096 16384"
        net.core.somaxconn = 0x80
        tcp_rmem = [4096, 8192, 16384]
        [[app]]
        kind = "iperf-server"
        one_off = true
        idle_timeout = 30
        [[app]]
        kind = "echo"
        port = 7777
        bind = "fd00::2"
    "#;
    let s = check(text).unwrap();
    assert_eq!(s.instance, "a.b-1");
    assert_eq!(s.dataplane.stop_limit, Duration::from_millis(250));
    assert_eq!((s.dataplane.buffers, s.dataplane.control), (4096, false));
    assert_eq!(s.dataplane.data_room_bytes, 9216, "a whole frame of 9000 bytes");
    assert_eq!(s.workers.iter().map(|w| w.core).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(s.ports[0].device.to_string(), "net_af_packet0,iface=veth0");
    assert_eq!(s.ports[0].rx_checksum, ChecksumPolicy::Trust);
    assert_eq!(s.ports[1].device.name(), "0000:03:00.1");
    assert_eq!(s.ports[1].gateway4, Some(Ipv4Addr::new(192, 0, 2, 6)));
    let second = s.stack_config(1).unwrap();
    assert_eq!((second.worker, second.workers), (WorkerId(1), 2));
    assert_eq!(second.ports.len(), 2, "a queue of each port");
    assert_eq!((second.ports[0].mtu, second.ports[1].mtu), (9000, 1500));
    assert_eq!(second.ports[1].gateway6, None);
    assert!(s.stack_config(2).is_none());
    assert_eq!(
        s.limits,
        Limits {
            connections: 1000,
            half_open: 100,
            time_wait: 10,
            neighbors: 16,
            listeners: 8,
            fragments: 0,
        }
    );
    let params = s.knobs().to_params(1);
    assert_eq!((params.tcp.sack, params.somaxconn), (false, 128));
    assert_eq!(params.tcp.wmem, [4096, 16_384, 4_194_304]);
    assert_eq!(params.tcp.rmem, [4096, 8192, 16_384]);
    assert_eq!(s.knobs().entry("tcp_sack").unwrap().source, Source::File);
    assert_eq!(s.knobs().get("tcp_max_tw_buckets").unwrap(), "10");
    assert_eq!(
        s.apps,
        [
            AppConfig {
                kind: AppKind::IperfServer {
                    one_off: true,
                    idle_timeout: Some(Duration::from_secs(30)),
                },
                port: 5201,
                bind: None,
            },
            AppConfig { kind: AppKind::Echo, port: 7777, bind: "fd00::2".parse().ok() },
        ]
    );
}

#[test]
fn knobs_of_the_file_are_checked_with_their_place() {
    reject(&[
        (
            "H145 range",
            "[sysctl]\nnet.ipv4.tcp_sack = 1\nnet.ipv4.tcp_retries2 = 256\n",
            "m.toml:3:25: sysctl: net.ipv4.tcp_retries2: 256 is not in 0..255",
        ),
        (
            "H145 float",
            "[sysctl]\ntcp_retries2 = 1e3\n",
            "m.toml:2:16: invalid type: floating point `1000.0`, expected a whole number, a text, true or false, or a list of whole numbers",
        ),
        (
            "H146 order",
            "[sysctl]\n\"net.ipv4.tcp_rmem\" = \"9 8 7\"\n",
            "m.toml:2:23: sysctl: net.ipv4.tcp_rmem: 9 8 7 is not in 1..2147483647, in rising order",
        ),
        (
            "H146 more than the buffers hold",
            &with_port("[sysctl]\ntcp_rmem = [4096, 8192, 2000000000]\n"),
            "m.toml:5:12: sysctl: net.ipv4.tcp_rmem: the maximum 2000000000 is more than the 33554432 bytes that all buffers of a worker hold",
        ),
        (
            "H148 unknown",
            "[sysctl]\nnet.ipv4.tcp_scak = 1\n",
            "m.toml:2:10: sysctl: unknown knob \"net.ipv4.tcp_scak\": did you mean net.ipv4.tcp_sack?",
        ),
        (
            "H148 twice under two names",
            "[sysctl]\ntcp_sack = 1\n\"net.ipv4.tcp_sack\" = 0\n",
            "m.toml:2:1: sysctl: net.ipv4.tcp_sack: set twice",
        ),
        (
            "H148 twice under one name",
            "[sysctl]\ntcp_sack = 1\ntcp_sack = 0\n",
            "m.toml:3:1: duplicate key",
        ),
        (
            "H148 read only",
            "[sysctl]\ntcp_available_congestion_control = \"reno\"\n",
            "m.toml:2:1: sysctl: net.ipv4.tcp_available_congestion_control: can be read, not set",
        ),
    ]);
}

#[test]
fn h147_values_that_do_not_go_together_are_warned_of() {
    let s = check(&with_port("mtu = 1280\n[sysctl]\ntcp_base_mss = 1400\n")).unwrap();
    assert!(s.warnings.iter().any(|w| w.contains("does not fit into the MTU 1280")));
    assert!(s.warnings.iter().any(|w| w.contains("nothing uses them yet: net.ipv4.tcp_base_mss")));
    let small = with_port("[dataplane]\nmemory = \"16MiB\"\n");
    let s = check(&small).unwrap();
    assert!(s.warnings.iter().any(|w| w.contains("tcp_rmem")), "{:?}", s.warnings);
}

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("millrace-config-{}-{name}", std::process::id()));
        Self(path)
    }

    fn read(&self) -> Result<Startup, ConfigError> {
        Startup::from_file(&self.0, &PortFlags::default(), &CORES)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
        let _ = fs::remove_dir(&self.0);
    }
}

/// H149: what is no file, or no text.
#[test]
fn h149_files() {
    let missing = Scratch::new("missing");
    let error = missing.read().unwrap_err();
    assert_eq!(error.what, "there is no such file");
    assert!(error.to_string().starts_with(&missing.0.display().to_string()));

    // Root may read everything, so the message is asked for itself.
    let denied = file::explain("x.toml", &std::io::ErrorKind::PermissionDenied.into());
    assert_eq!(denied.to_string(), "x.toml: permission denied");

    let directory = Scratch::new("directory");
    fs::create_dir(&directory.0).unwrap();
    assert_eq!(directory.read().unwrap_err().what, "is a directory");

    let endless = Startup::from_file("/dev/zero".as_ref(), &PortFlags::default(), &CORES);
    assert_eq!(endless.unwrap_err().what, "is not a regular file");

    let large = Scratch::new("large");
    fs::write(&large.0, vec![b'#'; FILE_BYTES_MAX as usize + 1]).unwrap();
    assert_eq!(large.read().unwrap_err().what, "is larger than 1048576 bytes");
    // Sparse, so that a gigabyte costs nothing.
    fs::File::create(&large.0).unwrap().set_len(1 << 30).unwrap();
    assert_eq!(large.read().unwrap_err().what, "is larger than 1048576 bytes");

    let good = Scratch::new("good");
    let mut text = with_port("[[app]]\nkind = \"echo\"\n");
    fs::write(&good.0, &text).unwrap();
    assert!(good.read().is_ok());
    text.push_str(&"#".repeat(FILE_BYTES_MAX as usize - text.len()));
    fs::write(&good.0, &text).unwrap();
    assert!(good.read().is_ok(), "the limit itself is fine");
}

#[test]
fn h149_texts() {
    let dos = with_port("[[app]]\nkind = \"echo\"\n").replace('\n', "\r\n");
    assert!(check(&dos).is_ok(), "CRLF");
    let bytes = |b: &[u8]| Startup::from_bytes("m.toml", b.to_vec(), &PortFlags::default(), &CORES);
    let mut marked = b"\xef\xbb\xbf".to_vec();
    marked.extend_from_slice(dos.as_bytes());
    assert!(bytes(&marked).is_ok(), "byte-order mark");
    assert_eq!(
        bytes(b"instance = \"a\"\nprofile = \"\xff\"\n").unwrap_err().to_string(),
        "m.toml:2:12: is not UTF-8 text"
    );
    reject(&[
        ("empty", "", "m.toml: there is no port"),
        (
            "unknown section",
            "[dataplan]\n",
            "m.toml:1:2: unknown key \"dataplan\": did you mean dataplane?",
        ),
        (
            "unknown key",
            "[[port]]\nvdev = \"net_tap0\"\nadresses = []\n",
            "m.toml:3:1: unknown key \"adresses\": did you mean addresses?",
        ),
        ("duplicate section", "[limits]\n[limits]\n", "m.toml:2:2: duplicate key"),
        (
            "wrong type",
            "[[port]]\nmtu = \"big\"\n",
            "m.toml:2:7: invalid type: string \"big\", expected a whole number",
        ),
        (
            "one bracket",
            "[port]\nvdev = \"net_tap0\"\n",
            "m.toml:1:1: invalid type: table, expected a sequence",
        ),
    ]);
    assert!(message("[port]\n").contains("two brackets"));
    assert!(message("[[port]]\nadress = 1\n").contains("\n  keys here: vdev, pci, addresses"));
    // A syntax error is one line and has a place, whatever it is.
    for text in ["instance = ", "x", "[[port]", "a = \"\u{0}\"", "= 1", "instance = 'a\nb'"] {
        let shown = message(text);
        assert!(shown.starts_with("m.toml:") && shown.lines().count() == 1, "{text}: {shown}");
    }
    let deep = format!("a = {}1{}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(message(&deep).starts_with("m.toml:1:"));
    assert!(check(&format!("[sysctl]\n{}x = 1\n", "a.".repeat(10_000))).is_err());
}

/// H150: addresses seen together.
#[test]
fn h150_addresses_of_ports() {
    let two = |second: &str| {
        with_port(&format!("[[port]]\nvdev = \"net_tap1\"\naddresses = [\"{second}\"]\n"))
    };
    reject(&[
        (
            "not an address",
            "[[port]]\nvdev = \"net_tap0\"\naddresses = [\n  \"10.0.0.2/24\",\n  \"300.1.1.1/24\",\n]\n",
            "m.toml:5:3: addresses: \"300.1.1.1/24\": \"300.1.1.1\" is not an IPv4 or IPv6 address",
        ),
        (
            "netmask with holes",
            "[[port]]\nvdev = \"net_tap0\"\naddresses = \"10.0.0.2/255.255.225.0\"\n",
            "m.toml:3:13: addresses: \"10.0.0.2/255.255.225.0\": the netmask 255.255.225.0 has holes",
        ),
        (
            "on two ports",
            &two("10.0.0.2/16"),
            "m.toml:6:14: addresses: 10.0.0.2 is an address of net_tap0 already",
        ),
        (
            "twice on one port",
            "[[port]]\nvdev = \"net_tap0\"\naddresses = [\"fd00::2/64\", \"fd00:0::2/48\"]\n",
            "m.toml:3:28: addresses: fd00::2 is listed twice",
        ),
        (
            "gateway outside",
            &with_port("gateway = \"10.0.1.1\"\n"),
            "m.toml:4:11: gateway: \"10.0.1.1\" is outside of 10.0.0.2/24",
        ),
        (
            "gateway is ours",
            &with_port("gateway = [\"fd00::1\", \"10.0.0.2\"]\n"),
            "m.toml:4:23: gateway: \"10.0.0.2\" is our own address",
        ),
        (
            "two gateways of a family",
            &with_port("gateway = [\"10.0.0.1\", \"10.0.0.3\"]\n"),
            "m.toml:4:24: gateway: 10.0.0.3 is the second of its family",
        ),
        (
            "no address",
            "[[port]]\nvdev = \"net_tap0\"\n",
            "m.toml:1:1: port: net_tap0 has no address",
        ),
        (
            "mtu small for IPv6",
            &with_port("mtu = 1279\n"),
            "m.toml:4:7: mtu: 1279 is not in 1280..9216",
        ),
        ("mtu huge", &with_port("mtu = 9217\n"), "m.toml:4:7: mtu: 9217 is not in 1280..9216"),
        ("mtu negative", &with_port("mtu = -1\n"), "m.toml:4:7: mtu: -1 is not in 1280..9216"),
        (
            "mtu that the device has not",
            &with_port("mtu = 9000\n"),
            "m.toml:4:7: vdev: net_tap0 carries an MTU of at most 1500, not 9000",
        ),
        (
            "mtu small for IPv4",
            "[[port]]\nvdev = \"net_tap0\"\naddresses = \"10.0.0.2/24\"\nmtu = 575\n",
            "m.toml:4:7: mtu: 575 is not in 576..9216",
        ),
        (
            "checksum policy",
            &with_port("rx_checksum = \"maybe\"\n"),
            "m.toml:4:15: rx_checksum: \"maybe\" is neither verify nor trust",
        ),
    ]);
    assert!(check(&two("10.0.1.2/24")).is_ok());
}

/// H151: cores and queues.
#[test]
fn h151_cores() {
    let cores =
        |cores: &str, port: &str| format!("[dataplane]\ncores = {cores}\n{}", with_port(port));
    reject(&[
        (
            "zero workers",
            &cores("[]", ""),
            "m.toml:2:9: cores: zero workers: list at least one core, or write \"auto\"",
        ),
        (
            "beyond the CPUs",
            &cores("[1, 4]", ""),
            "m.toml:2:9: cores: there is no core 4 for this process; it may use 0-3",
        ),
        (
            "negative",
            &cores("[-1]", ""),
            "m.toml:2:9: cores: there is no core -1 for this process; it may use 0-3",
        ),
        ("twice", &cores("[1, 1]", ""), "m.toml:2:9: cores: core 1 is listed twice"),
        ("twice as text", &cores("\"0-2,1\"", ""), "m.toml:2:9: cores: core 1 is listed twice"),
        (
            "a word",
            &cores("\"all\"", ""),
            "m.toml:2:9: cores: \"all\" is neither auto nor a list such as 1-3,5",
        ),
        (
            "endless",
            &cores("\"0-65535\"", ""),
            "m.toml:2:9: cores: \"0-65535\" is neither auto nor a list such as 1-3,5",
        ),
        (
            "more workers than queues",
            &cores("[0, 1, 2]", "queues = 2\n"),
            "m.toml:2:9: cores: 3 workers are more than 2 queues: some would have no work",
        ),
        (
            "fewer workers than queues",
            &cores("[0]", "queues = 2\n"),
            "m.toml:2:9: cores: 1 workers are fewer than 2 queues: some would starve",
        ),
        (
            "queues of two ports",
            &cores(
                "\"auto\"",
                "queues = 2\n[[port]]\nvdev = \"net_tap1\"\naddresses = \"10.1.0.2/24\"\nqueues = 3\n",
            ),
            "m.toml:10:10: queues: 3 queues, and 2 of another port",
        ),
        (
            "more queues than CPUs",
            &cores("\"auto\"", "queues = 5\n"),
            "m.toml:6:10: queues: 5 workers need as many cores, and 4 of them may be used: 0-3",
        ),
        ("no queue", &cores("\"auto\"", "queues = 0\n"), "m.toml:6:10: queues: 0 is not in 1..128"),
    ]);
    let workers =
        |text: &str| check(text).unwrap().workers.iter().map(|w| w.core).collect::<Vec<_>>();
    assert_eq!(workers(&cores("\"auto\"", "queues = 2\n")), [2, 3]);
    assert_eq!(workers(&cores("[3, 0]", "")), [3, 0]);
    let second = "[[port]]\nvdev = \"net_tap1\"\naddresses = \"10.1.0.2/24\"\n";
    assert_eq!(workers(&cores("[3, 0]", second)), [3, 0], "of both ports");
    let none = Startup::from_text("m.toml", &with_port(""), &PortFlags::default(), &[]);
    assert!(none.unwrap_err().what.contains("none"));
}

/// H152: devices, as far as a file shows it.
#[test]
fn h152_devices() {
    reject(&[
        (
            "both",
            "[[port]]\nvdev = \"net_tap0\"\npci = \"03:00.0\"\n",
            "m.toml:3:7: pci: a port is either a vdev or a pci device, not both",
        ),
        ("neither", "[[port]]\nmtu = 1500\n", "m.toml:1:1: port: the port has no device"),
        (
            "empty",
            "[[port]]\nvdev = \"\"\n",
            "m.toml:2:8: vdev: the device has no name; write one such as net_tap0",
        ),
        (
            "vdev twice",
            &with_port("[[port]]\nvdev = \"net_tap0,iface=t1\"\naddresses = \"10.1.0.2/24\"\n"),
            "m.toml:5:8: vdev: net_tap0 is another port already",
        ),
        (
            "PCI address",
            "[[port]]\npci = \"eth0\"\n",
            "m.toml:2:7: pci: \"eth0\" is not a PCI address such as 0000:03:00.0",
        ),
    ]);
}

#[test]
fn sizes_times_and_names() {
    let dataplane = |line: &str| format!("[dataplane]\n{line}\n{}", with_port(""));
    reject(&[
        (
            "memory",
            &dataplane("memory = \"lots\""),
            "m.toml:2:10: memory: \"lots\" is not a size between 16MiB and 1TiB",
        ),
        (
            "little memory",
            &dataplane("memory = 1024"),
            "m.toml:2:10: memory: \"1024\" is not a size between 16MiB and 1TiB",
        ),
        (
            "negative memory",
            &dataplane("memory = -1"),
            "m.toml:2:10: memory: \"-1\" is not a size between 16MiB and 1TiB",
        ),
        (
            "stop limit",
            &dataplane("stop_limit = \"2h\""),
            "m.toml:2:14: stop_limit: \"2h\" is not a time up to 1h",
        ),
        (
            "idle",
            &dataplane("idle = \"lazy\""),
            "m.toml:2:8: idle: \"lazy\" is not an idle policy: poll or adaptive",
        ),
        (
            "buffers",
            &with_port("[limits]\nbuffers = 1000000\n"),
            "m.toml:5:11: buffers: 1000000 buffers of 3968 bytes for each of 1 workers do not fit into three quarters of 256 MiB",
        ),
        (
            "few buffers",
            &with_port("[limits]\nbuffers = 10\n"),
            "m.toml:5:11: buffers: 10 is not in 1024..16777216",
        ),
        (
            "connections",
            &with_port("[limits]\nconnections = 0\n"),
            "m.toml:5:15: connections: 0 is not in 1..16777216",
        ),
        (
            "time_wait",
            &with_port("[limits]\ntime_wait = -1\n"),
            "m.toml:5:13: time_wait: net.ipv4.tcp_max_tw_buckets: -1 is not in 0..16777216",
        ),
        (
            "time_wait twice",
            &with_port("[limits]\ntime_wait = 5\n[sysctl]\ntcp_max_tw_buckets = 6\n"),
            "m.toml:5:13: time_wait: net.ipv4.tcp_max_tw_buckets: set twice",
        ),
        (
            "profile",
            "profile = \"windows\"\n",
            "m.toml:1:11: profile: \"windows\" is not a profile: linux or millrace",
        ),
        (
            "instance",
            "instance = \"../etc\"\n",
            "m.toml:1:12: instance: \"../etc\" is not a name of 1 to 48 letters, digits, _ - . that begins with a letter or digit",
        ),
    ]);
    let needed = message(&with_port("[limits]\nbuffers = 1000000\n"));
    assert!(needed.contains("memory = \"5046MiB\" would do"), "{needed}");
    let enough = with_port("[dataplane]\nmemory = \"5046MiB\"\n[limits]\nbuffers = 1000000\n");
    assert_eq!(check(&enough).unwrap().dataplane.buffers, 1_000_000);
}

#[test]
fn applications() {
    let app = |lines: &str| with_port(&format!("[[app]]\n{lines}\n"));
    reject(&[
        ("no kind", &app("port = 1"), "m.toml:4:1: kind: the application has no kind"),
        (
            "unknown",
            &app("kind = \"iperf-sever\""),
            "m.toml:5:8: kind: there is no application \"iperf-sever\": did you mean iperf-server?",
        ),
        ("port", &app("kind = \"echo\"\nport = 0"), "m.toml:6:8: port: 0 is not in 1..65535"),
        (
            "port",
            &app("kind = \"echo\"\nport = 65536"),
            "m.toml:6:8: port: 65536 is not in 1..65535",
        ),
        (
            "stray key",
            &app("kind = \"echo\"\none_off = true"),
            "m.toml:6:11: one_off: does not belong to kind = \"echo\"",
        ),
        (
            "foreign address",
            &app("kind = \"echo\"\nbind = \"10.9.9.9\""),
            "m.toml:6:8: bind: \"10.9.9.9\" is not an address of a port",
        ),
        (
            "no address",
            &app("kind = \"echo\"\nbind = \"here\""),
            "m.toml:6:8: bind: \"here\" is not an address",
        ),
        (
            "timeout",
            &app("kind = \"iperf-server\"\nidle_timeout = 0"),
            "m.toml:6:16: idle_timeout: \"0\" is not a time up to 24h",
        ),
        (
            "same port",
            &app("kind = \"echo\"\n[[app]]\nkind = \"discard\"\nport = 7"),
            "m.toml:6:1: app: echo and discard both listen on port 7",
        ),
    ]);
    let apart =
        app("kind = \"echo\"\nbind = \"10.0.0.2\"\n[[app]]\nkind = \"echo\"\nbind = \"fd00::2\"");
    assert_eq!(check(&apart).unwrap().apps.len(), 2);
}

fn flags() -> PortFlags {
    PortFlags {
        vdev: Some("net_af_packet0,iface=veth0".into()),
        addresses: vec!["10.0.0.2/24".into(), "fd00::2/64".into()],
        gateways: vec!["10.0.0.1".into()],
        ..PortFlags::default()
    }
}

#[test]
fn flags_alone_make_the_same_as_a_file() {
    let from_flags = Startup::from_flags(&flags(), &CORES).unwrap();
    let file = "[[port]]\nvdev = \"net_af_packet0,iface=veth0\"\n\
                addresses = [\"10.0.0.2/24\", \"fd00::2/64\"]\ngateway = \"10.0.0.1\"\n";
    assert_eq!(Ok(from_flags), check(file));
}

#[test]
fn flags_are_checked_and_named() {
    let mut rows: Vec<(&str, PortFlags, &str)> = Vec::new();
    let mut row = |name, expected, change: &dyn Fn(&mut PortFlags)| {
        let mut flags = flags();
        change(&mut flags);
        rows.push((name, flags, expected));
    };
    row("nothing", "the port has no device", &|f| *f = PortFlags::default());
    row("no address", "net_af_packet0 has no address", &|f| f.addresses.clear());
    row("address", "--address: \"10.0.0.2\" has no prefix length; write it as 10.0.0.2/24", &|f| {
        f.addresses = vec!["10.0.0.2".into()];
    });
    row("gateway", "--gateway: \"10.9.0.1\" is outside of 10.0.0.2/24", &|f| {
        f.gateways = vec!["10.9.0.1".into()];
    });
    row("mtu", "--mtu: 99 is not in 1280..9216", &|f| f.mtu = Some(99));
    row("cores", "--cores: there is no core 9 for this process; it may use 0-3", &|f| {
        f.cores = Some("9".into());
    });
    row("queues", "--queues: 9 workers need as many cores, and 4 of them may be used: 0-3", &|f| {
        f.queues = Some(9);
    });
    row("memory", "--memory: \"1\" is not a size between 16MiB and 1TiB", &|f| {
        f.memory = Some("1".into());
    });
    row("both", "--pci: a port is either a vdev or a pci device, not both", &|f| {
        f.pci = Some("03:00.0".into());
    });
    row("sysctl", "--sysctl: \"tcp_sack\" is not NAME=VALUE", &|f| {
        f.sysctl = vec!["tcp_sack".into()]
    });
    row("sysctl value", "--sysctl: net.ipv4.tcp_sack: 2 is not in 0..1", &|f| {
        f.sysctl = vec!["tcp_sack=2".into()];
    });
    row("profile", "--profile: \"bsd\" is not a profile: linux or millrace", &|f| {
        f.profile = Some("bsd".into());
    });
    for (name, flags, expected) in rows {
        let error = Startup::from_flags(&flags, &CORES).unwrap_err().to_string();
        assert_eq!(error.lines().next(), Some(expected), "{name}: {error}");
    }
}

#[test]
fn flags_win_over_the_file() {
    let file = format!(
        "instance = \"a\"\nprofile = \"millrace\"\n{}[sysctl]\ntcp_sack = 0\n",
        with_port("")
    );
    let flags = PortFlags {
        instance: Some("b".into()),
        profile: Some("linux".into()),
        cores: Some("1".into()),
        idle: Some("poll".into()),
        memory: Some("64M".into()),
        sysctl: vec!["tcp_dsack=1".into(), "net/ipv4/tcp_dsack=0".into(), "tcp_retries2= 8".into()],
        ..PortFlags::default()
    };
    let s = Startup::from_text("m.toml", &file, &flags, &CORES).unwrap();
    assert_eq!((s.instance.as_str(), s.knobs().profile()), ("b", Profile::Linux));
    assert_eq!((s.workers[0].core, s.dataplane.idle), (1, IdlePolicy::Poll));
    assert_eq!(s.dataplane.memory_bytes, 64 << 20);
    let source = |name| s.knobs().entry(name).map(|e| (e.value, e.source)).unwrap();
    assert_eq!(source("tcp_sack"), ("0".into(), Source::File));
    assert_eq!(source("tcp_dsack"), ("0".into(), Source::CommandLine));
    assert_eq!(source("tcp_retries2"), ("8".into(), Source::CommandLine));
    let port = PortFlags { mtu: Some(1500), ..PortFlags::default() };
    let error = Startup::from_text("m.toml", &file, &port, &CORES).unwrap_err();
    assert_eq!(error.key.as_deref(), Some("--mtu"));
}

fn samples() -> Vec<(String, String)> {
    let mut samples: Vec<(String, String)> = fs::read_dir(env!("CARGO_MANIFEST_DIR"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .filter(|(name, _)| name != "Cargo.toml")
        .collect();
    samples.sort();
    samples
}

#[test]
fn every_sample_is_valid() {
    let names: Vec<String> = samples().into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [
            "af_packet-jumbo.toml",
            "af_packet.toml",
            "af_xdp.toml",
            "knobs.toml",
            "memif.toml",
            "null.toml",
            "pcap.toml",
            "physical.toml",
            "ring.toml",
            "tap.toml",
            "two-ports.toml",
        ]
    );
    for (name, text) in samples() {
        if name == "knobs.toml" {
            continue;
        }
        let startup = Startup::from_text(&name, &text, &PortFlags::default(), &CORES);
        let startup = startup.unwrap_or_else(|e| panic!("{e}"));
        assert!(startup.warnings.is_empty(), "{name}: {:?}", startup.warnings);
        // On a ring the commands bring both applications.
        assert_eq!(startup.apps.is_empty(), name == "ring.toml", "{name}");
    }
}

#[test]
fn the_sample_of_knobs_holds_the_defaults() {
    let text = crate::docs::knobs_toml();
    // What looks like an assignment is one; all else stays a comment.
    let sysctl: String = text
        .lines()
        .map(|line| line.strip_prefix("# ").filter(|l| l.starts_with('"')).unwrap_or(line))
        .flat_map(|line| [line, "\n"])
        .collect();
    let startup = check(&format!("{}{sysctl}", with_port(""))).unwrap();
    assert!(startup.knobs().diff().is_empty());
    let set = startup.knobs().list("").iter().filter(|e| e.source == Source::File).count();
    assert_eq!(set, crate::knobs::table().len() - 1, "all but the one that is read only");
}

/// A sample with something done to it: closer to what people get wrong than random bytes are.
fn broken_sample() -> impl Strategy<Value = Vec<u8>> {
    let edit = (any::<prop::sample::Index>(), any::<u8>(), 0..3_u8);
    (any::<prop::sample::Index>(), prop::collection::vec(edit, 1..4)).prop_map(|(index, edits)| {
        let samples = samples();
        let mut bytes = samples[index.index(samples.len())].1.clone().into_bytes();
        for (at, byte, what) in edits {
            let at = at.index(bytes.len());
            match what {
                0 => bytes[at] = byte,
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, byte),
            }
        }
        bytes
    })
}

proptest! {
    #[test]
    fn any_bytes_as_a_file_never_panic(
        bytes in prop_oneof![any::<Vec<u8>>(), any::<String>().prop_map(String::into_bytes), broken_sample()],
    ) {
        match Startup::from_bytes("m.toml", bytes, &PortFlags::default(), &CORES) {
            Ok(startup) => {
                // What passed is consistent.
                let workers = startup.workers.len();
                prop_assert!(startup.ports.iter().all(|p| usize::from(p.queues) == workers));
                for index in 0..startup.workers.len() {
                    let stack = startup.stack_config(index).unwrap();
                    prop_assert!(stack.worker.0 < stack.workers);
                    prop_assert!(stack.ports.iter().all(|port| !port.addresses.is_empty()));
                }
            }
            Err(error) => {
                let shown = error.to_string();
                prop_assert!(shown.starts_with("m.toml"), "{}", shown);
                prop_assert!(!error.what.contains('\n'));
            }
        }
    }

    #[test]
    fn any_flags_never_panic(
        words in prop::collection::vec(any::<Option<String>>(), 8),
        lists in prop::collection::vec(prop::collection::vec(any::<String>(), 0..3), 3),
        numbers in prop::collection::vec(any::<Option<i64>>(), 5),
    ) {
        let word = |i: usize| words[i].clone();
        let flags = PortFlags {
            vdev: word(0),
            pci: word(1),
            addresses: lists[0].clone(),
            gateways: lists[1].clone(),
            mtu: numbers[0],
            queues: numbers[1],
            rx_checksum: word(2),
            cores: word(3),
            idle: word(4),
            memory: word(5),
            hugepages: None,
            buffers: numbers[2],
            connections: numbers[3],
            time_wait: numbers[4],
            instance: word(6),
            profile: word(7),
            sysctl: lists[2].clone(),
            more: vec![
                MorePort {
                    vdev: word(1),
                    pci: word(0),
                    addresses: lists[1].clone(),
                    gateways: lists[0].clone(),
                    mtu: numbers[1],
                    rx_checksum: word(3),
                };
                usize::from(words[2].is_some())
            ],
        };
        let _ = Startup::from_flags(&flags, &CORES);
        let _ = Startup::from_text("m.toml", "", &flags, &CORES);
    }

    #[test]
    fn any_address_and_device_text_never_panics(text in prop_oneof![
        any::<String>(),
        "[0-9.:/a-f]{0,40}",
        "net_(af_packet|memif|tap)[0-9]{0,2}(,(iface|framesz|blocksz|qpairs|socket)=[0-9a-z/]{0,9}){0,4}",
    ]) {
        let _ = local_address(&text);
        let _ = text.parse::<DeviceSpec>();
        if let Ok(vdev) = text.parse::<Vdev>() {
            let _ = (vdev.check(9000, 4), vdev.data_room());
        }
        let ours = [local_address("10.0.0.2/24").unwrap(), local_address("fd00::2/64").unwrap()];
        let _ = address::gateway(&text, &ours);
    }
}

#[test]
fn several_ports_and_what_they_must_not_share() {
    let second = |addresses: &str| {
        with_port(&format!("[[port]]\nvdev = \"net_tap1\"\naddresses = {addresses}\n"))
    };
    let refused = |addresses: &str| check(&second(addresses)).unwrap_err().what;
    assert_eq!(refused(r#""10.0.0.2/24""#), "10.0.0.2 is an address of net_tap0 already");
    let overlaps = |what: &str, other: &str| {
        format!("{what} overlaps {other} of net_tap0: which of the two leads there?")
    };
    for (ours, other) in [
        ("10.0.0.9/24", "10.0.0.2/24"),
        ("10.0.0.9/30", "10.0.0.2/24"),
        ("10.0.200.9/16", "10.0.0.2/24"),
        ("fd00::9/48", "fd00::2/64"),
    ] {
        assert_eq!(refused(&format!("{ours:?}")), overlaps(ours, other));
    }
    let s = check(&second(r#"["10.0.1.2/24", "fd01::2/64", "fe80::9/64"]"#)).unwrap();
    let stack = s.stack_config(0).unwrap();
    assert_eq!((s.workers.len(), stack.ports.len()), (1, 2));
    assert_eq!(stack.ports[1].addresses[0].addr, Ipv4Addr::new(10, 0, 1, 2));

    let flags = PortFlags {
        vdev: Some("net_tap0".into()),
        addresses: vec!["10.0.0.2/24".into(), "fe80::1/64".into()],
        more: vec![MorePort {
            vdev: Some("net_tap1".into()),
            addresses: vec!["10.0.1.2/24".into(), "fe80::2/64".into()],
            mtu: Some(1400),
            ..MorePort::default()
        }],
        ..PortFlags::default()
    };
    let s = Startup::from_flags(&flags, &CORES).unwrap();
    assert_eq!((s.ports[0].mtu, s.ports[1].mtu, s.workers.len()), (1500, 1400, 1));
    let many = MorePort { addresses: Vec::new(), ..flags.more[0].clone() };
    let port = |n: usize| MorePort { vdev: Some(format!("net_tap{n}")), ..many.clone() };
    let flags = PortFlags { more: (1..=8).map(port).collect(), ..flags };
    let error = Startup::from_flags(&flags, &CORES).unwrap_err();
    assert_eq!(error.what, "more than 8 ports");
}
