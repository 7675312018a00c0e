//! `scripts/host` on machines made of files: what it refuses, what it writes, and that it gives back.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const CARD: &str = "0000:03:00.0";

/// A machine with one card, `eth1` by ixgbe, and an `ip` that knows its address. Removed at the end.
struct Machine(PathBuf);

impl Machine {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("mrt-host-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let m = Self(root);
        m.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n");
        m.write("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "0\n");
        m.write(&card("class"), "0x020000\n");
        m.write(&card("driver_override"), "(null)\n");
        for driver in ["ixgbe", "vfio-pci"] {
            m.write(&format!("sys/bus/pci/drivers/{driver}/unbind"), "");
        }
        m.write("sys/bus/pci/drivers_probe", "");
        symlink("../../drivers/ixgbe", m.0.join(card("driver"))).unwrap();
        m.write(&card("net/eth1/mtu"), "1500\n");
        m.write("sys/class/net/eth1/operstate", "down\n");
        m.write("sys/kernel/iommu_groups/1/type", "DMA\n");
        m.write(
            "proc/net/route",
            "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n",
        );
        m.write("proc/net/ipv6_route", "");
        m.addresses("");
        m
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).unwrap_or_default().trim().to_owned()
    }

    /// What `ip -o addr show` says of every interface.
    fn addresses(&self, lines: &str) {
        let log = self.0.join("ip.log");
        let script =
            format!("#!/bin/sh\necho \"$*\" >>{}\ncat <<'END'\n{lines}END\n", log.display());
        self.write("bin/ip", &script);
        let path = self.0.join("bin/ip");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn command(&self, args: &[&str], login: Option<&str>) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/host");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(script);
        command
            .args(args)
            .env("MILLRACE_ROOT", &self.0)
            .env("PATH", format!("{}:{path}", self.0.join("bin").display()))
            // Or it would look for the login of whoever runs the tests.
            .env("SSH_CONNECTION", login.unwrap_or("192.0.2.1 999 192.0.2.99 22"));
        command.output().expect("scripts/host starts")
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args, None)
    }

    /// As [`Machine::run`], with a kernel that does what is written to it.
    fn run_with_kernel(&self, args: &[&str], willing: bool) -> Output {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    self.probe(willing);
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
            let out = self.run(args);
            stop.store(true, Ordering::Relaxed);
            out
        })
    }

    /// What the kernel does when a card is to be probed.
    fn probe(&self, willing: bool) {
        if self.read("sys/bus/pci/drivers_probe") != CARD {
            return;
        }
        let wanted = self.read(&card("driver_override"));
        let driver = match wanted.as_str() {
            "" | "(null)" => "ixgbe",
            _ if !willing => return,
            other => other,
        };
        self.write("sys/bus/pci/drivers_probe", "");
        let link = self.0.join(card("driver"));
        let _ = fs::remove_file(&link);
        symlink(format!("../../drivers/{driver}"), link).unwrap();
    }

    fn driver(&self) -> String {
        let link = fs::read_link(self.0.join(card("driver"))).unwrap();
        link.file_name().unwrap().to_string_lossy().into_owned()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn card(file: &str) -> String {
    format!("sys/bus/pci/devices/{CARD}/{file}")
}

fn out(o: &Output) -> String {
    String::from_utf8_lossy(&o.stdout).into_owned()
}

#[track_caller]
fn refused(o: &Output, code: i32, why: &str) {
    let err = String::from_utf8_lossy(&o.stderr);
    assert_eq!(o.status.code(), Some(code), "{err}{}", out(o));
    assert!(err.contains(why), "{err}");
}

const UP: &str = "2: eth1    inet 192.0.2.7/24 brd 192.0.2.255 scope global eth1\\ valid_lft\n\
                  2: eth1    inet6 fe80::1/64 scope link \\ valid_lft\n";

#[test]
fn a_card_goes_to_dpdk_and_comes_back() {
    let m = Machine::new("bind");
    let bound = m.run_with_kernel(&["bind", "03:00.0"], true);
    assert!(bound.status.success(), "{bound:?}");
    assert_eq!(m.driver(), "vfio-pci");
    assert_eq!(m.read(&card("driver_override")), "vfio-pci");
    assert_eq!(m.read("sys/bus/pci/drivers/ixgbe/unbind"), CARD);
    assert_eq!(m.read(&format!("run/millrace/host/{CARD}")), "ixgbe");
    assert!(out(&m.run(&["status"])).contains("vfio-pci"));
    assert!(out(&m.run(&["status"])).contains("(before: ixgbe)"));
    let again = m.run(&["bind", CARD]);
    assert!(again.status.success() && out(&again).contains("already"), "{again:?}");

    let back = m.run_with_kernel(&["unbind", CARD], true);
    assert!(back.status.success(), "{back:?}");
    assert_eq!(m.driver(), "ixgbe");
    assert_eq!(m.read(&card("driver_override")), "");
    assert!(!m.0.join(format!("run/millrace/host/{CARD}")).exists());
    let again = m.run(&["unbind", CARD]);
    assert!(again.status.success() && out(&again).contains("already"), "{again:?}");
}

#[test]
fn a_driver_that_does_not_take_it_leaves_it_where_it_was() {
    let m = Machine::new("unwilling");
    let o = m.run_with_kernel(&["bind", CARD], false);
    refused(&o, 1, "vfio-pci did not take");
    assert_eq!(m.driver(), "ixgbe");
    assert_eq!(m.read(&card("driver_override")), "");
}

#[test]
fn a_card_that_somebody_needs_is_refused() {
    let m = Machine::new("needed");
    let route = |line: &str| m.write("proc/net/route", &format!("Iface Destination\n{line}\n"));
    route("eth1 00000000 0102000C 0003 0 0 100 00000000 0 0 0");
    refused(&m.run(&["--force", "bind", CARD]), 3, "carries the default route");
    route("eth1 0002000C 00000000 0001 0 0 0 00FFFFFF 0 0 0");
    let zero = "0".repeat(32);
    m.write("proc/net/ipv6_route", &format!("{zero} 00 {zero} 00 fe80 400 1 0 3 eth1\n"));
    refused(&m.run(&["--force", "bind", CARD]), 3, "carries the default route");
    m.write("proc/net/ipv6_route", "");

    m.write("sys/class/net/eth1/operstate", "up\n");
    m.addresses(UP);
    refused(&m.run(&["bind", CARD]), 3, "is up with 192.0.2.7: use --force");
    let login = m.command(&["--force", "bind", CARD], Some("198.51.100.1 5 192.0.2.7 22"));
    refused(&login, 3, "carries the login");
    let link = m.command(&["--force", "bind", CARD], Some("fe80::2%eth1 5 fe80::1%eth1 22"));
    refused(&link, 3, "carries the login");
    assert_eq!(m.driver(), "ixgbe");
    assert!(!m.0.join("run/millrace").exists(), "nothing was done");

    let forced = m.run_with_kernel(&["--force", "bind", CARD], true);
    assert!(forced.status.success(), "{forced:?}");
    assert!(m.read("ip.log").contains("link set eth1 down"));
}

#[test]
fn what_is_built_on_a_card_counts() {
    let m = Machine::new("bridge");
    m.write("sys/class/net/eth1/upper_br0/ifindex", "5");
    m.write("sys/class/net/br0/upper_br0.7/ifindex", "6");
    m.write("proc/net/route", "Iface Destination\nbr0.7 00000000 0 3 0 0 0 00000000 0 0 0\n");
    refused(&m.run(&["bind", CARD]), 3, "(br0.7) carries the default route");
}

#[test]
fn a_dry_run_touches_nothing() {
    let m = Machine::new("dry");
    m.write("sys/class/net/eth1/operstate", "up\n");
    let o = m.run(&["-n", "bind", CARD]);
    assert!(o.status.success(), "{o:?}");
    let text = out(&o);
    for part in ["would run ip link set eth1 down", "would write \"vfio-pci\"", "drivers_probe"] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(
        (m.driver().as_str(), m.read("sys/bus/pci/drivers/ixgbe/unbind").as_str()),
        ("ixgbe", "")
    );
    assert!(!m.0.join("run/millrace").exists());
    assert!(out(&m.run(&["-n", "hugepages", "1G"])).contains("would write \"512\""));
    assert_eq!(m.read("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"), "0");
}

#[test]
fn hugepages_by_number_and_by_size() {
    let m = Machine::new("pages");
    let file = "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
    for (arg, pages) in
        [("128", "128"), ("512M", "256"), ("2G", "1024"), ("010", "10"), ("off", "0")]
    {
        let o = m.run(&["hugepages", arg]);
        assert!(o.status.success(), "{o:?}");
        assert_eq!(m.read(file), pages, "{arg}");
    }
    for arg in ["-1", "x", "12k", "", "1.5G"] {
        assert_eq!(m.run(&["hugepages", arg]).status.code(), Some(2), "{arg:?}");
    }
    fs::remove_dir_all(m.0.join("sys/kernel/mm")).unwrap();
    refused(&m.run(&["hugepages", "1"]), 3, "no pages of 2 MiB");
}

#[test]
fn wrong_words_and_unfit_machines() {
    let m = Machine::new("wrong");
    refused(&m.run(&[]), 2, "--help");
    refused(&m.run(&["fly"]), 2, "--help");
    refused(&m.run(&["--what", "status"]), 2, "--what");
    refused(&m.run(&["bind", "eth1"]), 2, "no PCI address");
    refused(&m.run(&["bind", "0000:09:00.0"]), 3, "no device");
    refused(&m.run(&["bind", CARD, "ixgbe"]), 2, "hands no card over");
    m.write(&card("class"), "0x010802\n");
    refused(&m.run(&["bind", CARD]), 3, "no network card");
    m.write(&card("class"), "0x020000\n");
    fs::remove_dir_all(m.0.join("sys/kernel/iommu_groups")).unwrap();
    refused(&m.run(&["bind", CARD]), 3, "no IOMMU");
    m.write("sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "Y\n");
    assert!(m.run_with_kernel(&["bind", CARD], true).status.success());
}
