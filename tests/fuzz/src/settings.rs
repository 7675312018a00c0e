//! The start-up file, the flags of the command line, and knobs.

use config::knobs::Effect;
use config::startup::{MTU_MAX, MTU_MIN_V4, MTU_MIN_V6};
use config::{ConfigError, Knobs, PortFlags, Profile, Source, Startup};

/// Cores that the process may use.
const CORES: [usize; 4] = [0, 1, 2, 5];

/// What the rest of the program takes for granted of a configuration that was accepted.
fn check(startup: &Startup) {
    assert!(!startup.ports.is_empty() && !startup.instance.is_empty());
    let mut names: Vec<_> = startup.ports.iter().map(|p| p.device.name().to_owned()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), startup.ports.len(), "two ports of one name");
    for port in &startup.ports {
        assert!(!port.addresses.is_empty());
        let v6 = port.addresses.iter().any(|a| a.addr.is_ipv6());
        let mtu_min = if v6 { MTU_MIN_V6 } else { MTU_MIN_V4 };
        assert!((mtu_min..=MTU_MAX).contains(&port.mtu));
        assert!(startup.dataplane.data_room_bytes >= u32::from(port.mtu) + 14, "a whole frame");
        for local in &port.addresses {
            assert!(!local.addr.is_multicast() && !local.addr.is_unspecified());
            assert!(local.prefix <= if local.addr.is_ipv4() { 32 } else { 128 });
        }
        let gateways: [Option<core::net::IpAddr>; 2] =
            [port.gateway4.map(Into::into), port.gateway6.map(Into::into)];
        for gateway in gateways.into_iter().flatten() {
            assert!(port.addresses.iter().all(|a| a.addr != gateway), "our own gateway");
        }
    }
    let workers = startup.workers.len();
    assert!(
        startup.ports.iter().all(|p| usize::from(p.queues) == workers),
        "a queue for each worker"
    );
    let mut cores: Vec<usize> = startup.workers.iter().map(|w| w.core).collect();
    cores.sort_unstable();
    cores.dedup();
    assert_eq!(cores.len(), startup.workers.len(), "two workers on one core");
    assert!(cores.iter().all(|core| CORES.contains(core)));
    for index in 0..startup.workers.len() {
        let stack = startup.stack_config(index).expect("each worker has a stack");
        assert!(stack.worker.0 < stack.workers);
    }
    assert!(startup.stack_config(startup.workers.len()).is_none());
    assert!(startup.dataplane.buffers > 0 && startup.dataplane.memory_bytes > 0);
    assert!(startup.warnings.iter().all(|w| is_one_line(w)), "{:?}", startup.warnings);
    check_knobs(startup.knobs());
}

/// A refusal is for people: one line of printable text, then lines of help, and the place exists.
fn check_error(error: &ConfigError, text: Option<&str>) {
    let shown = error.to_string();
    assert!(shown.lines().all(is_one_line), "{shown:?}");
    assert!(!error.what.is_empty() && is_one_line(&error.what));
    if let (Some((line, column)), Some(text)) = (error.line, text) {
        let lines: Vec<&str> = text.split('\n').collect();
        assert!((1..=lines.len()).contains(&line), "line {line} of {}", lines.len());
        let len = lines[line - 1].chars().count();
        assert!((1..=len + 1).contains(&column), "column {column} of {len} in line {line}");
    }
}

fn is_one_line(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

pub(crate) fn file(bytes: &[u8]) {
    let flags = PortFlags::default();
    let made = Startup::from_bytes("f.toml", bytes.to_vec(), &flags, &CORES);
    match &made {
        Ok(startup) => check(startup),
        Err(error) => {
            let text = core::str::from_utf8(bytes).ok();
            check_error(error, text.map(|t| t.strip_prefix('\u{feff}').unwrap_or(t)));
        }
    }
    assert_eq!(Startup::from_bytes("f.toml", bytes.to_vec(), &flags, &CORES), made);
}

pub(crate) fn file_seeds() -> Vec<Vec<u8>> {
    let samples: [&[u8]; 6] = [
        include_bytes!("../../../config/af_packet-jumbo.toml"),
        include_bytes!("../../../config/af_xdp.toml"),
        include_bytes!("../../../config/memif.toml"),
        include_bytes!("../../../config/pcap.toml"),
        include_bytes!("../../../config/physical.toml"),
        include_bytes!("../../../config/tap.toml"),
    ];
    // Comments teach a fuzzer nothing.
    let bare = |sample: &[u8]| {
        let text = String::from_utf8_lossy(sample);
        let lines = text.lines().map(|line| line.split(" #").next().unwrap_or("").trim_end());
        lines.filter(|l| !l.is_empty() && !l.starts_with('#')).collect::<Vec<_>>().join("\n")
    };
    samples.into_iter().map(|sample| bare(sample).into_bytes()).collect()
}

/// Lines `FLAG=VALUE`, as on a command line.
pub(crate) fn flags(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut flags = PortFlags::default();
    for line in text.lines() {
        let Some((flag, value)) = line.split_once('=') else { continue };
        let value = value.to_owned();
        match flag {
            "vdev" => flags.vdev = Some(value),
            "pci" => flags.pci = Some(value),
            "address" => flags.addresses.push(value),
            "gateway" => flags.gateways.push(value),
            "mtu" => flags.mtu = value.parse().ok(),
            "queues" => flags.queues = value.parse().ok(),
            "rx-checksum" => flags.rx_checksum = Some(value),
            "cores" => flags.cores = Some(value),
            "idle" => flags.idle = Some(value),
            "memory" => flags.memory = Some(value),
            "hugepages" => flags.hugepages = value.parse().ok(),
            "instance" => flags.instance = Some(value),
            "profile" => flags.profile = Some(value),
            "sysctl" => flags.sysctl.push(value),
            _ => {}
        }
    }
    match Startup::from_flags(&flags, &CORES) {
        Ok(startup) => check(&startup),
        Err(error) => check_error(&error, None),
    }
}

pub(crate) fn flags_seeds() -> Vec<Vec<u8>> {
    [
        "vdev=net_af_packet0,iface=veth0,framesz=16384\naddress=10.0.0.2/24\naddress=fd00::2/64\n\
         gateway=10.0.0.1\ngateway=fd00::1\nmtu=9000",
        "vdev=net_memif0,role=server,id=1,socket=/run/a.sock\naddress=10.0.0.2/24\nqueues=2\n\
         cores=1-2\nidle=poll\nmemory=512MiB",
        "pci=0000:03:00.0\naddress=192.0.2.10/24\nhugepages=true\nqueues=4\ncores=auto",
        "vdev=net_pcap0,rx_pcap=a.pcap,tx_pcap=b.pcap\naddress=10.1.1.1/30\nrx-checksum=trust\n\
         sysctl=tcp_sack=0\nsysctl=net.ipv4.tcp_rmem=4096 131072 6291456\nprofile=linux\ninstance=a.b-c_d",
        "vdev=net_tap0,iface=t0\naddress=fe80::1/10\naddress=10.0.0.2",
        "vdev=net_null0,size=64,copy=1\naddress=10.0.0.2/24",
        "vdev=net_ring0\naddress=10.0.0.2/24",
        "vdev=net_af_xdp0,iface=veth0,start_queue=0\naddress=10.0.0.2/24\nmtu=3498",
    ]
    .into_iter()
    .map(|text| text.as_bytes().to_vec())
    .collect()
}

/// Everything that a registry shows can be set again, all at once, and gives the same parameters.
fn check_knobs(knobs: &Knobs) {
    let params = knobs.to_params(7);
    assert_eq!(params.generation, 7);
    let entries = knobs.list("").into_iter();
    let writable = entries.filter(|e| !matches!(e.knob.effect, Effect::ReadOnly));
    let shown: Vec<(&str, String)> = writable.map(|e| (e.knob.name, e.value)).collect();
    let mut again = Knobs::new(knobs.profile());
    again
        .set_all(shown.iter().map(|(name, value)| (*name, value.as_str())), Source::CommandLine)
        .unwrap_or_else(|(index, e)| panic!("{:?} is shown, but {e}", shown[index]));
    assert_eq!(again.to_params(7), params);
    for (name, value) in &shown {
        assert_eq!(again.get(name).as_deref(), Ok(value.as_str()), "{name}");
    }
}

/// Lines `NAME=VALUE`; first byte: the profile.
pub(crate) fn knobs(bytes: &[u8]) {
    let (profile, bytes) = match bytes.split_first() {
        Some((b'L', rest)) => (Profile::Linux, rest),
        Some((_, rest)) => (Profile::Millrace, rest),
        None => (Profile::Millrace, bytes),
    };
    let mut knobs = Knobs::new(profile);
    for line in bytes.split(|b| *b == b'\n') {
        let at = line.iter().position(|b| *b == b'=').unwrap_or(line.len());
        let (name, value) = (&line[..at], line.get(at + 1..).unwrap_or_default());
        let name = String::from_utf8_lossy(name);
        let before = knobs.clone();
        match knobs.set_bytes(&name, value, Source::Runtime) {
            Ok(change) => {
                assert_eq!(knobs.get(&name).as_deref(), Ok(change.new.as_str()));
                assert_eq!(before.get(&name).as_deref(), Ok(change.old.as_str()));
                assert!(change.warnings.iter().all(|w| is_one_line(w)));
            }
            Err(error) => {
                assert_eq!(knobs, before, "{error}: but something changed");
                assert!(is_one_line(&error.to_string()), "{:?}", error.to_string());
            }
        }
    }
    check_knobs(&knobs);
}

pub(crate) fn knobs_seeds() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = [
        "Mnet.ipv4.tcp_rmem=4096 131072\nnet/ipv4/tcp_wmem=4096 16384 4194304\ntcp_sack=0",
        "Ltcp_congestion_control=reno\nnet.ipv4.ip_local_port_range=1024 65535\ntcp_timestamps=0x1",
        "Mtcp_rmem=-1\ntcp_sack=2\ntcp_sack= 1 \nnothing=1\ntcp_rmem=1 2 3 4",
    ]
    .into_iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    // All names with their values, so that the fuzzer need not guess names.
    let knobs = Knobs::new(Profile::Millrace);
    let lines: Vec<String> =
        knobs.list("").into_iter().map(|e| format!("{}={}", e.knob.name, e.value)).collect();
    all.extend(lines.chunks(12).map(|part| format!("M{}", part.join("\n")).into_bytes()));
    all
}
