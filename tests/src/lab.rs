use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// A binary of this workspace, built beside the running test.
pub fn binary(name: &str) -> PathBuf {
    let mut path = std::env::current_exe().expect("a running test has a path");
    path.pop();
    if path.ends_with("deps") {
        path.pop();
    }
    let path = path.join(name);
    assert!(path.exists(), "{} is not built: cargo build -p millrace -p tests", path.display());
    path
}

/// Whether this process may make namespaces.
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

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
        let lab = Self::with_offloads(mtu);
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
        ip(&[
            "-n",
            &kernel,
            "link",
            "add",
            &lab.kernel_if,
            "type",
            "veth",
            "peer",
            "name",
            &lab.our_if,
            "netns",
            &ours,
        ]);
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
        let mut c = Command::new("ip");
        c.args(["netns", "exec", &self.our_ns()]);
        c.arg(program).arg(command);
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
        let file = std::env::temp_dir().join(format!("{}.toml", self.name));
        let text = format!(
            "instance = \"{}\"\n\n[[port]]\nvdev = \"net_af_packet0,iface={}\"\n\
             addresses = [\"10.99.0.2/24\", \"fd99::2/64\"]\nmtu = {}\n\n\
             [[app]]\nkind = \"echo\"\nport = 7\n",
            self.name, self.our_if, self.mtu
        );
        std::fs::write(&file, text).expect("the temporary directory is writable");
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.our_ns()]);
        command.arg(binary("millrace")).args(["run", "--config"]).arg(&file);
        let dataplane = Dataplane::start(command);
        dataplane.wait_for("running");
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

    /// The kernel's iperf3 as a client; its JSON document. The congestion control is named because
    /// the machine's default may pace itself.
    pub fn kernel_iperf(&self, args: &[&str]) -> Value {
        let output = self
            .kernel("iperf3")
            .args(["-J", "-C", "cubic"])
            .args(args)
            .output()
            .expect("ip netns exec starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "iperf3 {args:?}: {}", both(&output));
        serde_json::from_str(&text).expect("iperf3 -J prints JSON")
    }

    /// A query to the running instance, as JSON.
    pub fn ask(&self, args: &[&str]) -> Value {
        let output = Command::new(binary("millrace"))
            .args(args)
            .args(["--instance", &self.name, "--json"])
            .output()
            .expect("millrace starts");
        assert!(output.status.success(), "millrace {args:?}: {}", both(&output));
        serde_json::from_slice(&output.stdout).expect("--json prints JSON")
    }

    /// All counters of the running instance.
    pub fn counter(&self, name: &str) -> u64 {
        self.ask(&["nstat", "--zeros"])["millrace"][name]
            .as_u64()
            .unwrap_or_else(|| panic!("there is a counter {name}"))
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

/// A running process with its output in a file, ended when dropped.
pub struct Dataplane {
    child: Child,
    log: PathBuf,
}

impl Dataplane {
    /// Start `command` (whose program may be `ip netns exec`, which becomes the program).
    pub fn start(mut command: Command) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let log = std::env::temp_dir().join(format!(
            "mrt{}-{}.log",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        ));
        let file = std::fs::File::create(&log).expect("the temporary directory is writable");
        let twin = file.try_clone().expect("a file can be cloned");
        let child = command
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(twin)
            .spawn()
            .expect("the program starts");
        Self { child, log }
    }

    /// What it has printed so far.
    pub fn output(&self) -> String {
        read(&self.log)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Wait until it has printed `text`.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        let begun = Instant::now();
        while !self.output().contains(text) {
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "no \"{text}\" within 20 s:\n{}",
                self.output()
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Send it a signal by name.
    pub fn signal(&self, name: &str) {
        must(Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]));
    }

    /// Wait for its end; its exit status (`None`: ended by a signal).
    #[track_caller]
    pub fn wait(mut self, limit: Duration) -> Option<i32> {
        let begun = Instant::now();
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status.code();
            }
            assert!(begun.elapsed() < limit, "still running:\n{}", self.output());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Resident memory in KiB.
    pub fn resident_kib(&self) -> u64 {
        let status = read(Path::new(&format!("/proc/{}/status", self.child.id())));
        let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
    }
}

impl Drop for Dataplane {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("--- output of the process:\n{}", self.output());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.log);
    }
}

fn read(path: &Path) -> String {
    let mut text = Vec::new();
    if let Ok(mut file) = std::fs::File::open(path) {
        let _ = file.read_to_end(&mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn both(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[track_caller]
fn must(command: &mut Command) {
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{command:?}: {}", both(&output));
}
