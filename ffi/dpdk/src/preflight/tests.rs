use super::*;
use crate::error::ErrorKind;
use crate::host::KernelInterface;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

/// A machine in a directory of its own, removed at the end.
struct Machine(Host);

impl Machine {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("preflight-{}-{name}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let interface =
            |name: &str, up| KernelInterface { name: name.into(), up, mtu: 1500, rx_queues: 0 };
        Self(Host {
            root,
            interfaces: vec![
                interface("lo", true),
                interface("veth0", true),
                interface("x", false),
            ],
            capabilities: 1 << CAP_NET_RAW | 1 << CAP_NET_ADMIN,
            is_root: true,
            runtime_directory: None,
            xdg_runtime_dir: None,
        })
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.0.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn check(&self, change: impl FnOnce(&mut EalConfig)) -> Vec<Error> {
        let mut config = EalConfig::software(64);
        change(&mut config);
        check(&self.0, &config)
    }

    fn vdev(&self, text: &str, mtu: u16) -> Vec<Error> {
        let vdev = text.parse::<Vdev>().unwrap().prepare(mtu, 1).unwrap();
        self.check(|c| c.vdevs.push(vdev))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0.root);
    }
}

fn one(mut errors: Vec<Error>) -> Error {
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors.remove(0)
}

#[test]
fn a_fit_machine_has_no_findings() {
    let m = Machine::new("fit");
    for text in ["net_af_packet0,iface=veth0", "net_tap0,iface=new", "net_null0"] {
        assert_eq!(m.vdev(text, 1500), []);
    }
}

#[test]
fn interfaces_missing_down_or_small() {
    let m = Machine::new("interfaces");
    let e = one(m.vdev("net_af_packet0,iface=veth9", 1500));
    assert_eq!(e.to_string(), "cannot open net_af_packet0: interface veth9 does not exist");
    assert_eq!(e.help, ["interfaces here: lo veth0 x", "did you mean veth0?"]);
    let e = one(m.vdev("net_af_packet0,iface=x", 1500));
    assert_eq!(e.help, ["try: ip link set x up"]);
    let e = one(m.vdev("net_af_packet0,iface=veth0", 9000));
    assert!(e.why.contains("1500, 9000"), "{e}");
    let e = one(m.vdev("net_tap0,iface=a-name-too-long-for-linux", 1500));
    assert_eq!(e.kind, ErrorKind::Configuration);
}

#[test]
fn capabilities() {
    let mut m = Machine::new("caps");
    m.0.capabilities = 0;
    let e = one(m.vdev("net_af_packet0,iface=veth0", 1500));
    assert!(e.why.ends_with("CAP_NET_RAW"), "{e}");
    let e = one(m.vdev("net_af_xdp0,iface=veth0", 1500));
    assert!(e.why.ends_with("CAP_NET_RAW and CAP_NET_ADMIN"), "{e}");
    assert_eq!(m.vdev("net_null0", 1500), []);
}

#[test]
fn one_name_twice() {
    let m = Machine::new("twice");
    let null: Vdev = "net_null0".parse().unwrap();
    let e = one(m.check(|c| c.vdevs.extend([null.clone(), null])));
    assert_eq!(e.why, "two devices have this name");
}

#[test]
fn hugepages_are_counted() {
    let m = Machine::new("hugepages");
    let config = |mib| move |c: &mut EalConfig| c.memory = Memory::Hugepages { mib };
    let e = one(m.check(config(Some(512))));
    assert_eq!(e.to_string(), "cannot reserve 512 MiB of huge pages: 0 MiB free of 0 MiB");
    let dir = "sys/kernel/mm/hugepages/hugepages-2048kB";
    m.write(&format!("{dir}/nr_hugepages"), "512\n");
    m.write(&format!("{dir}/free_hugepages"), "12\n");
    let e = one(m.check(config(Some(512))));
    assert_eq!(e.why, "24 MiB free of 1024 MiB");
    assert!(e.help[0].contains("another process"));
    assert!(e.help[1].contains("echo 756 > "), "{e:?}");
    assert_eq!(m.check(config(Some(24))), []);
    assert_eq!(m.check(config(None)), []);
}

#[test]
fn a_prefix_that_somebody_has_locked() {
    let m = Machine::new("prefix");
    let path = m.write("var/run/dpdk/taken/config", "");
    let prefix = |c: &mut EalConfig| c.file_prefix = "taken".into();
    assert_eq!(m.check(prefix), [], "a file left behind is nobody's");
    let file = fs::File::options().write(true).open(path).unwrap();
    // SAFETY: a struct of numbers, for which zero is valid.
    let mut lock: libc::flock = unsafe { core::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as _;
    // SAFETY: an open descriptor and a valid struct. A lock of the open file description, since a
    // process does not see its own locks.
    let code = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw mut lock) };
    assert_eq!(code, 0);
    let e = one(m.check(prefix));
    assert_eq!(e.why, "another process uses it");
    assert_eq!(one(m.check(|c| c.file_prefix = "a/b".into())).kind, ErrorKind::Configuration);
}

#[test]
fn a_runtime_directory_that_is_set_and_missing() {
    let mut m = Machine::new("xdg");
    m.0.is_root = false;
    assert_eq!(m.check(|_| ()), []);
    m.0.xdg_runtime_dir = Some("/run/user/1000".into());
    let e = one(m.check(|_| ()));
    assert!(e.why.contains("/run/user/1000, which does not exist"), "{e}");
    m.write("run/user/1000/x", "");
    assert_eq!(m.check(|_| ()), []);
}

#[test]
fn pci_devices() {
    let m = Machine::new("pci");
    let pci = |address: &'static str| m.check(move |c| c.pci.push(address.into()));
    assert_eq!(one(pci("03:00")).why, "this is not a PCI address");
    assert_eq!(one(pci("0000:03:00.8")).why, "this is not a PCI address");
    assert_eq!(one(pci("0000:03:00.0")).help, ["network devices here: none"]);

    m.write("sys/bus/pci/devices/0000:04:00.0/class", "0x020000\n");
    assert_eq!(one(pci("0000:03:00.0")).help, ["network devices here: 0000:04:00.0"]);
    assert_eq!(one(pci("04:00.0")).why, "no kernel driver hands it over");

    let link = m.0.path("sys/bus/pci/devices/0000:04:00.0/driver");
    std::os::unix::fs::symlink("../../../drivers/ixgbe", &link).unwrap();
    m.write("sys/bus/pci/devices/0000:04:00.0/net/eth2/mtu", "1500\n");
    let e = one(pci("0000:04:00.0,vlan=1"));
    assert_eq!(e.why, "the kernel uses it with the driver ixgbe as interface eth2");
    assert_eq!(e.help[1], "try: dpdk-devbind.py -b vfio-pci 0000:04:00.0");
    m.write("proc/net/route", "Iface\tDestination\tGateway\neth2\t00000000\t0100000A\n");
    let e = one(pci("0000:04:00.0"));
    assert!(e.help[0].contains("default route") && e.help.len() == 1, "{e:?}");

    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("../../../drivers/vfio-pci", &link).unwrap();
    assert_eq!(pci("0000:04:00.0"), []);
}

#[test]
fn files_of_memif_and_pcap() {
    let m = Machine::new("files");
    let e = one(m.vdev("net_pcap0,rx_pcap=/no.pcap", 1500));
    assert!(e.why.contains("/no.pcap"), "{e}");
    assert_eq!(one(m.vdev("net_memif0,socket=rel.sock", 1500)).kind, ErrorKind::Configuration);
    assert_eq!(m.vdev("net_memif0,role=server,socket=/a", 1500), []);
    assert!(one(m.vdev("net_memif0,socket=/a", 1500)).why.starts_with("nobody serves"));
    m.write("proc/thread-self/net/unix", "0: 2 0 10000 5 1 77 /a\n1: 2 0 10000 5 1 78 @/a\n");
    assert!(one(m.vdev("net_memif0,role=server,socket=/a", 1500)).why.starts_with("another"));
    assert_eq!(m.vdev("net_memif0,socket=/a", 1500), []);
    let file = ",socket=/m.sock,socket-abstract=no";
    let server = format!("net_memif0,role=server{file}");
    let e = one(m.vdev("net_memif0,role=server,socket=/no/m.sock,socket-abstract=no", 1500));
    assert_eq!(e.help, ["try: mkdir -p /no"]);
    assert_eq!(m.vdev(&server, 1500), []);
    let path = m.0.path("m.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let e = one(m.vdev(&server, 1500));
    assert_eq!(e.why, "another process serves /m.sock");
    assert_eq!(m.vdev(&format!("net_memif0,role=client{file}"), 1500), []);
    let clear_all = || {
        let mut config = EalConfig::software(64);
        config.vdevs.push(server.parse::<Vdev>().unwrap().prepare(1500, 1).unwrap());
        clear(&m.0, &config);
    };
    clear_all();
    assert!(path.exists(), "somebody listens");
    // A process that is gone leaves its socket: bound, then closed without removing the file.
    drop(listener);
    assert_eq!(m.vdev(&server, 1500), []);
    let e = one(m.vdev(&format!("net_memif0,role=client{file}"), 1500));
    assert_eq!(e.why, "nobody serves /m.sock");
    clear_all();
    assert!(!path.exists());
    fs::write(&path, "precious").unwrap();
    assert_eq!(one(m.vdev(&server, 1500)).why, "/m.sock is not a socket");
    clear_all();
    assert!(path.exists(), "never what is not a socket");
}

#[test]
fn af_xdp_takes_interfaces_whose_frames_all_come_its_way() {
    let mut m = Machine::new("xdp");
    m.0.interfaces[1].rx_queues = 2;
    let e = one(m.vdev("net_af_xdp0,iface=veth0", 1500));
    assert!(e.why.contains("2 receive queues") && e.help[0].contains("ethtool -L veth0"), "{e}");
    // Who names the first queue steers for himself; two queues are all there are.
    assert_eq!(m.vdev("net_af_xdp0,iface=veth0,start_queue=0", 1500), []);
    assert_eq!(m.vdev("net_af_xdp0,iface=veth0,queue_count=2", 1500), []);
    assert_eq!(m.vdev("net_af_packet0,iface=veth0", 1500), []);
    m.0.interfaces[1] = KernelInterface { mtu: 9000, rx_queues: 1, ..m.0.interfaces[1].clone() };
    let e = one(m.vdev("net_af_xdp0,iface=veth0", 1500));
    assert!(e.why.contains("MTU of 9000") && e.help[0].contains("mtu 3442"), "{e}");
}
