//! The kernel on one end of a veth pair and a dataplane on the other.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use crate::process::{Dataplane, ask, binary, both, counter, iperf3, must};

/// Two namespaces joined by a veth pair: the kernel on one end, room for a dataplane on the other.
pub struct Lab {
    name: String,
    kernel_if: String,
    our_if: String,
    mtu: u16,
}

impl Lab {
    /// The kernel's addresses.
    pub const KERNEL4: &str = "10.99.0.1";
    /// The kernel's IPv6 address.
    pub const KERNEL6: &str = "fd99::1";
    /// The dataplane's addresses.
    pub const OURS4: &str = "10.99.0.2";
    /// The dataplane's IPv6 address.
    pub const OURS6: &str = "fd99::2";

    /// A lab whose veth ends leave nothing to hardware.
    pub fn new(mtu: u16) -> Self {
        Self::with_queues(mtu, None)
    }

    /// The same; `queues` is how many receive and transmit queues the veth ends have (`None`: as many
    /// as there are CPUs, of which the kernel uses one).
    pub fn with_queues(mtu: u16, queues: Option<u16>) -> Self {
        let lab = Self::make(mtu, queues);
        for (namespace, interface) in
            [(&lab.kernel_ns(), &lab.kernel_if), (&lab.our_ns(), &lab.our_if)]
        {
            must(
                Command::new("ip")
                    .args(["netns", "exec", namespace, "ethtool", "-K", interface])
                    .args(["tso", "off", "gso", "off", "gro", "off", "tx", "off", "rx", "off"]),
            );
        }
        lab
    }

    /// A lab as the kernel makes it: checksums and segmentation left to hardware that is not there.
    pub fn with_offloads(mtu: u16) -> Self {
        Self::make(mtu, None)
    }

    fn make(mtu: u16, queues: Option<u16>) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let unique = format!("{}x{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let lab = Self {
            name: format!("mrt{unique}"),
            kernel_if: format!("k{unique}"),
            our_if: format!("u{unique}"),
            mtu,
        };
        let (kernel, ours) = (lab.kernel_ns(), lab.our_ns());
        let mtu = mtu.to_string();
        let ip = |args: &[&str]| must(Command::new("ip").args(args));
        ip(&["netns", "add", &kernel]);
        ip(&["netns", "add", &ours]);
        let count = queues.map(|n| n.to_string());
        let many: Vec<&str> = match &count {
            Some(n) => vec!["numrxqueues", n, "numtxqueues", n],
            None => Vec::new(),
        };
        must(
            Command::new("ip")
                .args(["-n", &kernel, "link", "add", &lab.kernel_if])
                .args(&many)
                .args(["type", "veth", "peer", "name", &lab.our_if])
                .args(&many)
                .args(["netns", &ours]),
        );
        lab.sysctl(&ours, &format!("net.ipv6.conf.{}.disable_ipv6=1", lab.our_if));
        ip(&["-n", &kernel, "addr", "add", "10.99.0.1/24", "dev", &lab.kernel_if]);
        ip(&["-n", &kernel, "addr", "add", "fd99::1/64", "dev", &lab.kernel_if, "nodad"]);
        ip(&["-n", &ours, "link", "set", &lab.our_if, "mtu", &mtu, "up"]);
        ip(&["-n", &kernel, "link", "set", &lab.kernel_if, "mtu", &mtu, "up"]);
        ip(&["-n", &kernel, "link", "set", "lo", "up"]);
        lab
    }

    /// Namespace of the kernel's end.
    pub fn kernel_ns(&self) -> String {
        format!("{}k", self.name)
    }

    /// Namespace of our end.
    pub fn our_ns(&self) -> String {
        format!("{}u", self.name)
    }

    /// Mark one of `one_in` segments that may be marked with Congestion Experienced, in each direction, at
    /// the kernel's end.
    pub fn mark(&self, one_in: u32) {
        let rule =
            |ip: &str| format!("{ip} ecn ect0 numgen random mod {one_in} == 0 {ip} ecn set ce");
        let rules = format!(
            "table inet marking {{
               chain in {{ type filter hook input priority 0; {v4}; {v6}; }}
               chain out {{ type filter hook output priority 0; {v4}; {v6}; }}
             }}",
            v4 = rule("ip"),
            v6 = rule("ip6"),
        );
        must(Command::new("ip").args(["netns", "exec", &self.kernel_ns(), "nft", &rules]));
    }

    /// Lose what arrives at the kernel's end and is a SYN that asks for ECN.
    pub fn lose_ecn_syns(&self) {
        let rules = "table inet old {
               chain in { type filter hook input priority 0; tcp flags & (syn | ecn | cwr) == (syn | ecn | cwr) drop; }
             }";
        must(Command::new("ip").args(["netns", "exec", &self.kernel_ns(), "nft", rules]));
    }

    /// A counter of the kernel's end by its name in `nstat`, such as `TcpExtTCPTimeouts`.
    #[track_caller]
    pub fn kernel_counter(&self, name: &str) -> u64 {
        let read = self.kernel("cat").arg("/proc/net/netstat").output().expect("cat starts");
        let text = String::from_utf8_lossy(&read.stdout);
        // Two lines for each group: names, then values.
        let lines: Vec<&str> = text.lines().collect();
        let found = lines.chunks_exact(2).find_map(|pair| {
            let group = pair[0].split(':').next()?;
            let at =
                pair[0].split_whitespace().position(|word| name == format!("{group}{word}"))?;
            pair[1].split_whitespace().nth(at)?.parse().ok()
        });
        found.unwrap_or_else(|| panic!("no counter {name} in\n{text}"))
    }

    /// Set a parameter of the kernel's end: `NAME=VALUE`.
    pub fn kernel_sysctl(&self, assignment: &str) {
        self.sysctl(&self.kernel_ns(), assignment);
    }

    fn sysctl(&self, namespace: &str, assignment: &str) {
        must(
            Command::new("ip").args(["netns", "exec", namespace, "sysctl", "-q", "-w", assignment]),
        );
    }

    /// Lose about `percent` of the TCP segments in each direction, at the kernel's end.
    pub fn lose(&self, percent: u32) {
        let rules = format!(
            "table inet lossy {{
               chain in {{ type filter hook input priority 0; meta l4proto tcp numgen random mod 100 < {percent} drop; }}
               chain out {{ type filter hook output priority 0; meta l4proto tcp numgen random mod 100 < {percent} drop; }}
             }}"
        );
        must(Command::new("ip").args(["netns", "exec", &self.kernel_ns(), "nft", &rules]));
    }

    /// A command in the kernel's namespace.
    pub fn kernel(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.kernel_ns(), program]);
        command
    }

    /// A command in our namespace.
    pub fn ours(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.our_ns(), program]);
        command
    }

    /// The kernel's interface.
    pub fn kernel_interface(&self) -> &str {
        &self.kernel_if
    }

    /// Our interface.
    pub fn our_interface(&self) -> &str {
        &self.our_if
    }

    /// `ip` in the kernel's namespace; has to succeed.
    #[track_caller]
    pub fn kernel_ip(&self, args: &str) {
        must(Command::new("ip").args(["-n", &self.kernel_ns()]).args(args.split_whitespace()));
    }

    /// `ip` in our namespace; has to succeed.
    #[track_caller]
    pub fn our_ip(&self, args: &str) {
        must(Command::new("ip").args(["-n", &self.our_ns()]).args(args.split_whitespace()));
    }

    /// Ping `address` from the kernel with `size` bytes of data: every answer has to come.
    #[track_caller]
    pub fn ping(&self, address: &str, size: u16) {
        let output = self
            .kernel("ping")
            .args(["-c", "3", "-i", "0.02", "-W", "2", "-s", &size.to_string(), address])
            .output()
            .expect("ping starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(" 0% packet loss"), "{address} {size}: {text}");
    }

    /// Our own peer program in the kernel's namespace: it speaks to the dataplane over kernel sockets.
    pub fn peer(&self, args: &[&str]) -> Output {
        let program = binary("millrace-test-peer");
        let output = self
            .kernel(&program.to_string_lossy())
            .args(args)
            .output()
            .expect("ip netns exec starts");
        assert!(output.status.success(), "peer {args:?}: {}", both(&output));
        output
    }

    /// `millrace COMMAND` with the flags of our port, in our namespace.
    pub fn millrace(&self, command: &str) -> Command {
        let program = binary("millrace");
        let mut c = self.ours(&program.to_string_lossy());
        c.arg(command);
        c.arg("--vdev").arg(format!("net_af_packet0,iface={}", self.our_if));
        c.args(["--address", "10.99.0.2/24", "--address", "fd99::2/64"]);
        c.args(["--mtu", &self.mtu.to_string(), "--instance", &self.name]);
        c
    }

    /// Name of the instance that [`Lab::millrace`] starts.
    pub fn instance(&self) -> &str {
        &self.name
    }

    /// Start our iperf server and wait until it listens.
    pub fn serve(&self, flags: &[&str]) -> Dataplane {
        let mut command = self.millrace("iperf");
        command.arg("-s").args(flags);
        let dataplane = Dataplane::start(command);
        dataplane.wait_for("Server listening");
        dataplane
    }

    /// Start an echo server on port 7 from a configuration file and wait until it runs.
    pub fn echo(&self) -> Dataplane {
        self.run(&format!("{}[[app]]\nkind = \"echo\"\n", self.port("net_af_packet0", "")))
    }

    /// The section of a configuration file for our port, with more keys behind it.
    pub fn port(&self, device: &str, more: &str) -> String {
        format!(
            "[[port]]\nvdev = \"{device},iface={}\"\n\
             addresses = [\"10.99.0.2/24\", \"fd99::2/64\"]\nmtu = {}\n{more}\n",
            self.our_if, self.mtu
        )
    }

    /// `millrace run` in our namespace with this configuration file, in which the name of the
    /// instance is set to ours.
    pub fn start(&self, text: &str) -> Dataplane {
        let file = std::env::temp_dir().join(format!("{}.toml", self.name));
        std::fs::write(&file, format!("instance = \"{}\"\n{text}", self.name))
            .expect("the temporary directory is writable");
        let mut command = self.ours(&binary("millrace").to_string_lossy());
        command.args(["run", "--config"]).arg(&file);
        Dataplane::start(command)
    }

    /// The same, and wait until it runs.
    #[track_caller]
    pub fn run(&self, text: &str) -> Dataplane {
        let dataplane = self.start(text);
        dataplane.wait_for("is running");
        dataplane
    }

    /// Start the kernel's iperf3 server and give it time to listen.
    pub fn kernel_iperf_server(&self) -> Dataplane {
        let mut command = self.kernel("iperf3");
        command.args(["-s", "--forceflush"]);
        let server = Dataplane::start(command);
        server.wait_for("Server listening");
        server
    }

    /// The kernel's iperf3 as a client; its JSON document.
    #[track_caller]
    pub fn kernel_iperf(&self, args: &[&str]) -> Value {
        iperf3(self.kernel("iperf3"), args)
    }

    /// A query to the running instance, as JSON.
    #[track_caller]
    pub fn ask(&self, args: &[&str]) -> Value {
        ask(&self.name, args)
    }

    /// A counter of the running instance.
    #[track_caller]
    pub fn counter(&self, name: &str) -> u64 {
        counter(&self.name, name)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for namespace in [self.kernel_ns(), self.our_ns()] {
            if let Ok(out) = Command::new("ip").args(["netns", "pids", &namespace]).output() {
                for pid in String::from_utf8_lossy(&out.stdout).split_whitespace() {
                    let _ = Command::new("kill").args(["-9", pid]).output();
                }
            }
            let _ = Command::new("ip").args(["netns", "del", &namespace]).output();
        }
        let _ = std::fs::remove_file(std::env::temp_dir().join(format!("{}.toml", self.name)));
        // What was killed could not remove its control socket.
        let _ = std::fs::remove_file(format!("/run/millrace/{}.sock", self.name));
    }
}
