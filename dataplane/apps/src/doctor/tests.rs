//! Any machine, made of files.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use config::{PortFlags, Startup};

use super::*;

/// A machine in a directory of its own, removed at the end.
struct Machine(PathBuf);

impl Machine {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mrt-doctor-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn root(&self) -> Root {
        Root::new(&self.0)
    }

    fn place(&self, path: &str) -> PathBuf {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    fn write(&self, path: &str, text: &str) -> &Self {
        fs::write(self.place(path), text).unwrap();
        self
    }

    fn link(&self, path: &str, to: &str) -> &Self {
        symlink(to, self.place(path)).unwrap();
        self
    }

    fn remove(&self, path: &str) -> &Self {
        let path = self.0.join(path);
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
        self
    }

    /// With what this check looks at as it should be.
    fn fit(name: &str) -> Self {
        let m = Self::new(name);
        for driver in ["af_packet", "af_xdp", "memif", "null", "pcap", "ring", "tap", "ixgbe"] {
            for end in ["", ".23", ".23.0"] {
                m.write(
                    &format!("usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0/librte_net_{driver}.so{end}"),
                    "",
                );
            }
        }
        m.write(
            "proc/self/status",
            "Name:\tx\nUid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\nCpus_allowed_list:\t0-3\n",
        );
        m.write("proc/self/limits", "Max open files            1024  4096  files\n");
        m.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512\n");
        m.write("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "500\n");
        m.write(
            "proc/mounts",
            "proc /proc proc rw 0 0\nhugetlbfs /dev/hugepages hugetlbfs rw 0 0\n",
        );
        m.write("sys/devices/system/cpu/online", "0-3\n");
        m.write("sys/devices/system/cpu/isolated", "2-3\n");
        m.write("sys/devices/system/cpu/nohz_full", "2-3\n");
        m.write("sys/devices/system/cpu/smt/active", "0\n");
        for cpu in 0..4 {
            let at = format!("sys/devices/system/cpu/cpu{cpu}");
            m.write(&format!("{at}/cpufreq/scaling_governor"), "performance\n");
            m.write(&format!("{at}/topology/thread_siblings_list"), &format!("{cpu}\n"));
        }
        m.write("proc/cpuinfo", "processor : 0\nflags\t\t: fpu constant_tsc nonstop_tsc avx2\n");
        let clock = "sys/devices/system/clocksource/clocksource0";
        m.write(&format!("{clock}/current_clocksource"), "tsc\n");
        m.write(&format!("{clock}/available_clocksource"), "tsc hpet acpi_pm\n");
        m.write("proc/net/packet", "sk RefCnt\n");
        m.write("proc/net/protocols", "protocol  size\nXDP 1088\nTCP 2000\n");
        m.write("dev/net/tun", "");
        m.write("proc/net/route", "Iface\tDestination\tGateway\neth0\t00000000\t0101A8C0\n");
        let nic = "sys/bus/pci/devices/0000:03:00.0";
        m.write(&format!("{nic}/class"), "0x020000\n");
        m.link(&format!("{nic}/driver"), "../../../../bus/pci/drivers/vfio-pci");
        m.write("sys/bus/pci/devices/0000:04:00.0/class", "0x010802\n");
        m.write("sys/module/vfio_pci/refcnt", "0");
        m.write("sys/kernel/iommu_groups/7/type", "DMA");
        m
    }

    fn check(&self) -> Vec<Finding> {
        machine(&self.root(), &process())
    }

    /// The findings of `check` that are not as they should be.
    #[track_caller]
    fn expect(&self, check: &str, state: State, text: &str, todo: &str) {
        let all = self.check();
        let of = |f: &&Finding| f.check == check && f.state == state && f.text.contains(text);
        let found = all.iter().find(of);
        let found = found.unwrap_or_else(|| panic!("no {state:?} of {check}: {text} in {all:#?}"));
        assert!(found.todo.contains(todo), "{found:?}");
        for f in &all {
            assert_eq!(f.todo.is_empty(), f.state == State::Ok, "{f:?}");
            assert!(!f.todo.contains('\n') && !f.text.contains('\n'), "{f:?}");
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn process() -> Process {
    Process { dpdk: Some(((22, 11), (22, 11))), offloads: |_| Some(Vec::new()) }
}

#[test]
fn a_fit_machine_gets_no_advice() {
    let m = Machine::fit("fit");
    let all = m.check();
    let bad: Vec<_> = all.iter().filter(|f| f.state != State::Ok).collect();
    assert!(bad.is_empty(), "{bad:#?}");
    for check in [
        "dpdk",
        "drivers",
        "capabilities",
        "memlock",
        "files",
        "hugepages",
        "cores",
        "isolation",
        "frequency",
        "tsc",
        "clock",
        "af_packet",
        "af_xdp",
        "tap",
        "nics",
        "modules",
        "iommu",
        "leftovers",
    ] {
        assert!(all.iter().any(|f| f.check == check), "{check} was not looked at");
    }
}

#[test]
fn an_empty_machine_gets_advice_and_no_panic() {
    let m = Machine::new("empty");
    let all = m.check();
    let problems: Vec<_> =
        all.iter().filter(|f| f.state == State::Problem).map(|f| f.check).collect();
    assert_eq!(problems, ["drivers"]);
}

#[test]
fn garbage_in_files_is_not_believed() {
    let m = Machine::fit("garbage");
    for file in [
        "proc/self/status",
        "proc/self/limits",
        "proc/mounts",
        "proc/cpuinfo",
        "proc/net/route",
        "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
        "sys/devices/system/cpu/isolated",
        "sys/devices/system/cpu/cpu0/topology/thread_siblings_list",
    ] {
        fs::write(m.0.join(file), b"\xff\xfe: 99999999999999999999999-\n:::\n").unwrap();
    }
    assert!(!m.check().is_empty());
    assert_eq!(root::numbers("0-2,7,x,9-3,5-99999999999, 8"), [0, 1, 2, 7, 8]);
}

#[test]
fn library_and_drivers() {
    let m = Machine::fit("library");
    let other = library::check(&m.root(), Some(((22, 11), (23, 11))));
    assert_eq!(other[0].state, State::Problem);
    assert!(other[0].text.contains("built for 22.11, and 23.11"), "{other:?}");
    let none = library::check(&m.root(), None);
    assert_eq!((none.len(), none[0].state), (1, State::Problem));
    m.expect("drivers", State::Ok, "of 8 in /usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0", "");
    for end in ["", ".23", ".23.0"] {
        m.remove(&format!("usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0/librte_net_memif.so{end}"));
    }
    m.expect("drivers", State::Advice, "not there: memif", "apt-get install");
    m.remove("usr/lib/x86_64-linux-gnu/dpdk");
    m.expect("drivers", State::Problem, "no plug-in folder", "apt-get install");
    m.write("usr/local/lib/dpdk/pmds-23.0/librte_net_ixgbe.so", "");
    m.expect("drivers", State::Problem, "no software driver", "apt-get install");
}

#[test]
fn permissions() {
    let m = Machine::fit("permissions");
    let status = |caps: &str| {
        m.write(
            "proc/self/status",
            &format!("Uid:\t1000\t1000\t1000\t1000\nCapEff:\t{caps}\nCpus_allowed_list:\t0-3\n"),
        );
    };
    status("0000000000000000");
    m.expect(
        "capabilities",
        State::Advice,
        "no CAP_NET_RAW and no CAP_NET_ADMIN",
        "cap_net_raw,cap_net_admin+ep",
    );
    status("0000000000002000");
    m.expect("capabilities", State::Advice, "no CAP_NET_ADMIN", "cap_net_admin+ep");
    let limits = |locked: &str, files: &str| {
        m.write(
            "proc/self/limits",
            &format!("Limit  Soft  Hard  Units\nMax open files  {files} 9 files\nMax locked memory  {locked} 9 bytes\n"),
        );
    };
    limits("8388608", "100");
    m.expect("memlock", State::Advice, "8192 KiB", "ulimit -l");
    m.expect("files", State::Advice, "100 files", "ulimit -n");
    limits("unlimited", "unlimited");
    m.expect("memlock", State::Ok, "no limit", "");
    m.expect("files", State::Ok, "no limit", "");
    limits("134217728", "256");
    m.expect("memlock", State::Ok, "128 MiB", "");
    m.write("dev/vfio/7", "");
    // The files of a test belong to whoever runs it; another user is taken to be us.
    let readable = fs::metadata(m.0.join("dev/vfio/7")).unwrap();
    if std::os::unix::fs::MetadataExt::uid(&readable) != 1000 {
        m.expect("vfio", State::Advice, "/dev/vfio: 7", "chown $USER /dev/vfio/7");
    }
}

#[test]
fn hugepages() {
    let m = Machine::fit("hugepages");
    let pages = |place: &str, total: u32, free: u32| {
        let at = format!("{place}/hugepages-2048kB");
        m.write(&format!("{at}/nr_hugepages"), &total.to_string());
        m.write(&format!("{at}/free_hugepages"), &free.to_string());
    };
    m.expect(
        "hugepages",
        State::Ok,
        "1000 MiB free: 500 of 512 pages of 2048 KiB free; mounted at /dev/hugepages",
        "",
    );
    pages("sys/kernel/mm/hugepages", 0, 0);
    m.expect("hugepages", State::Advice, "none reserved", "scripts/host hugepages 128");
    pages("sys/kernel/mm/hugepages", 512, 3);
    m.expect("hugepages", State::Advice, "6 MiB free: 3 of 512", "scripts/host hugepages 256");
    pages("sys/kernel/mm/hugepages", 4, 4);
    m.expect("hugepages", State::Ok, "8 MiB free", "");
    m.write("proc/mounts", "proc /proc proc rw 0 0\n");
    m.expect("hugepages", State::Ok, "no mount, none is needed", "");
    m.remove("sys/kernel/mm/hugepages");
    m.expect("hugepages", State::Ok, "software mode needs none", "");
    pages("sys/devices/system/node/node0/hugepages", 512, 512);
    assert!(m.check().iter().all(|f| f.check != "numa"), "one node");
    pages("sys/devices/system/node/node1/hugepages", 512, 12);
    m.expect("numa", State::Ok, "node 0: 1024 MiB, node 1: 24 MiB", "");
    pages("sys/devices/system/node/node1/hugepages", 0, 0);
    m.expect("numa", State::Advice, "node 1: 0 MiB", "node/node1/hugepages");
}

#[test]
fn files_of_dead_processes_hold_pages() {
    let m = Machine::fit("stale");
    for name in ["rtemap_0", "rtemap_1", "other", "map_x"] {
        m.write(&format!("dev/hugepages/{name}"), "");
    }
    m.write("proc/17/maps", "7f00-7f20 rw-s 00000000 00:0f 5  /dev/hugepages/rtemap_1\n");
    m.expect("hugepages", State::Advice, "1 files of dead processes", "rm /dev/hugepages/rtemap_0");
    m.write("proc/18/maps", "7f00-7f20 rw-s 00000000 00:0f 5  /dev/hugepages/rtemap_0\n");
    assert!(m.check().iter().all(|f| !f.text.contains("files of dead")));
}

#[test]
fn cores_and_clocks() {
    let m = Machine::fit("cpu");
    let cpu = "sys/devices/system/cpu";
    m.write(&format!("{cpu}/cpu1/cpufreq/scaling_governor"), "powersave\n");
    m.expect("frequency", State::Advice, "governor powersave", "-g performance");
    m.write(&format!("{cpu}/nohz_full"), "3\n");
    m.expect("isolation", State::Advice, "isolcpus=2-3 nohz_full=3: not the same", "same cores");
    m.write(&format!("{cpu}/nohz_full"), "  (null)\n").write(&format!("{cpu}/isolated"), "\n");
    m.expect("isolation", State::Advice, "no core is set apart", "isolcpus=2-3");
    m.write(&format!("{cpu}/smt/active"), "1\n");
    for n in 0..4 {
        let pair = if n < 2 { "0-1\n" } else { "2,3\n" };
        m.write(&format!("{cpu}/cpu{n}/topology/thread_siblings_list"), pair);
    }
    m.expect("smt", State::Advice, "0-1 2,3", "--cores");
    m.write("proc/self/status", "CapEff:\t0\nCpus_allowed_list:\t1\n");
    m.expect("cores", State::Advice, "1 usable", "taskset");
    m.expect("isolation", State::Ok, "none to spare", "");
    m.write("proc/cpuinfo", "flags : fpu constant_tsc\n");
    m.expect("tsc", State::Advice, "may stop", "max_cstate");
    let clock = "sys/devices/system/clocksource/clocksource0";
    m.write(&format!("{clock}/current_clocksource"), "hpet\n");
    m.expect("clock", State::Advice, "clock source hpet", "dmesg");
    m.write(&format!("{clock}/available_clocksource"), "hpet kvm-clock\n");
    m.expect("clock", State::Ok, "clock source hpet", "");
}

#[test]
fn what_the_kernel_lacks() {
    let m = Machine::fit("kernel");
    m.remove("proc/net/packet").remove("dev/net/tun").write("proc/net/protocols", "TCP 2000\n");
    m.expect("af_packet", State::Advice, "no packet sockets", "modprobe af_packet");
    m.expect("af_xdp", State::Advice, "no XDP sockets", "CONFIG_XDP_SOCKETS");
    m.expect("tap", State::Advice, "no /dev/net/tun", "modprobe tun");
}

#[test]
fn cards_and_who_has_them() {
    let m = Machine::fit("nics");
    let nic = "sys/bus/pci/devices/0000:03:00.0";
    m.expect("nics", State::Ok, "0000:03:00.0 is handed over by vfio-pci", "");
    m.remove(&format!("{nic}/driver"))
        .remove("sys/module/vfio_pci")
        .remove("sys/kernel/iommu_groups");
    m.expect("nics", State::Advice, "no kernel driver", "scripts/host bind 0000:03:00.0");
    m.expect("modules", State::Advice, "no kernel module", "modprobe vfio-pci");
    m.expect("iommu", State::Advice, "vfio-pci will not take", "intel_iommu=on");
    m.write("sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "Y\n");
    m.expect("iommu", State::Advice, "told to do without", "intel_iommu=on");
    m.link(&format!("{nic}/driver"), "../drivers/ixgbe")
        .write(&format!("{nic}/net/eth1/mtu"), "1500");
    m.expect("nics", State::Ok, "the kernel's by ixgbe as eth1", "");
    m.remove(&format!("{nic}/net")).write(&format!("{nic}/virtio0/net/eth0/mtu"), "1500");
    m.expect("nics", State::Ok, "as eth0, which carries the default route", "");
    m.remove("sys/bus/pci");
    m.expect("nics", State::Ok, "none on PCI", "");
    assert!(m.check().iter().all(|f| f.check != "iommu"), "nobody needs one");
}

#[test]
fn sockets_and_folders_of_the_dead() {
    let m = Machine::fit("leftovers");
    // A path that is bound and whose listener is gone.
    let dead = |path: &str| drop(UnixListener::bind(m.place(path)).unwrap());
    dead("run/millrace/a.sock");
    dead("run/memif.sock");
    dead("run/other.sock");
    let _live = UnixListener::bind(m.place("run/millrace/b.sock")).unwrap();
    m.write("run/millrace/file.sock", "no socket");
    m.expect(
        "leftovers",
        State::Advice,
        "gone: /run/millrace/a.sock /run/memif.sock",
        "rm -r /run/millrace/a.sock",
    );
    m.write("var/run/dpdk/millrace-77/config", "").write("var/run/dpdk/rte/config", "");
    m.write("var/run/dpdk/millrace-78/config", "").write("proc/78/comm", "millrace");
    m.expect(
        "leftovers",
        State::Advice,
        "folders of processes that are gone: /var/run/dpdk/millrace-77",
        "rm -r",
    );
    let all = m.check();
    assert!(all.iter().all(|f| !f.text.contains("b.sock") && !f.text.contains("millrace-78")));
}

fn startup(text: &str) -> Startup {
    Startup::from_text("x.toml", text, &PortFlags::default(), &[0, 1, 2, 3]).unwrap()
}

const PORT: &str =
    "[[port]]\nvdev = \"net_af_packet0,iface=veth0\"\naddresses = [\"10.0.0.2/24\"]\n";

#[test]
fn what_is_to_be_started() {
    let m = Machine::fit("setup");
    let s = startup(&format!("{PORT}[[app]]\nkind = \"echo\"\nport = 40000\n"));
    m.write("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:   1048576 kB\n");
    let memory = setup::memory(&m.root(), &s).unwrap();
    assert_eq!(memory.state, State::Ok, "{memory:?}");
    m.write("proc/meminfo", "MemAvailable:   1024 kB\n");
    let memory = setup::memory(&m.root(), &s).unwrap();
    assert_eq!(memory.state, State::Problem, "{memory:?}");
    let ports = setup::listeners(&s);
    assert!(ports[0].text.contains("echo listens on 40000"), "{ports:?}");
    assert!(setup::listeners(&startup(PORT)).is_empty());
}

#[test]
fn workers_on_one_core() {
    let m = Machine::fit("workers");
    let s = startup(&format!("[dataplane]\ncores = [2, 3]\n{PORT}queues = 2\n"));
    assert_eq!(setup::workers(&m.root(), &s), None);
    let list = "sys/devices/system/cpu/cpu2/topology/thread_siblings_list";
    m.write(list, "2-3\n");
    assert!(setup::workers(&m.root(), &s).unwrap().text.contains("2-3"));
}

#[test]
fn peers_of_a_veth() {
    let m = Machine::fit("veth");
    let s = startup(PORT);
    let check = |offloads| {
        let process = Process { offloads, ..process() };
        setup::veth(&m.root(), &process, &s)
    };
    let none: fn(&str) -> Option<Vec<&'static str>> = |_| Some(Vec::new());
    m.write("sys/class/net/veth0/ifindex", "5").write("sys/class/net/veth0/iflink", "5");
    assert!(check(none).is_empty(), "no pair");
    m.write("sys/class/net/veth0/iflink", "9");
    let elsewhere = check(none);
    assert!(elsewhere[0].text.contains("another namespace"), "{elsewhere:?}");
    m.write("sys/class/net/peer0/ifindex", "9");
    assert_eq!(check(none)[0].state, State::Ok);
    let some = check(|name| (name == "peer0").then(|| vec!["tx", "tso"]));
    assert!(some[0].text.contains("leaves tx, tso undone"), "{some:?}");
    assert_eq!(some[0].todo, "ethtool -K peer0 tx off tso off gso off");
    assert!(check(|_| None)[0].text.contains("perhaps"));
}

#[test]
fn a_configuration_that_is_none() {
    let f = unusable(&Fault::usage("no address\n  add --address").help("see docs"));
    assert_eq!((f.text.as_str(), f.todo.as_str()), ("no address", "add --address; see docs"));
}

#[test]
fn for_people_and_for_programs() {
    let findings = [
        Finding::ok("cores", "2 usable"),
        Finding::problem("start", "cannot open x", "ip link set x up"),
    ];
    assert_eq!(
        as_text(&findings, false, true),
        "ok       cores         2 usable\n\
         problem  start         cannot open x\n\
         \u{20}                      -> ip link set x up\n\
         \nwhat was asked for cannot start: see each \"problem\"\n"
    );
    let json: serde_json::Value = serde_json::from_str(&as_json(&findings, false)).unwrap();
    assert_eq!(json["ready"], false);
    assert_eq!(json["findings"][1]["todo"], "ip link set x up");
}
