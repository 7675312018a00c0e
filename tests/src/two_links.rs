//! Two kernels on two links, and room for a dataplane with a port on each.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::process::{Dataplane, ask, binary, counter, must, until};

/// How long the kernel may take to see a cable.
const LIMIT: Duration = Duration::from_secs(20);

/// Two kernels in namespaces of their own; a third namespace has the other ends of both links. Link `n`
/// has the networks 10.9`n`.0.0/24 and fd9`n`::/64, in which the kernel is 1 and we are 2.
pub struct TwoLinks {
    name: String,
}

#[track_caller]
fn ip(args: &[&str]) {
    must(Command::new("ip").args(args));
}

impl TwoLinks {
    /// Links with these MTUs that leave nothing to hardware.
    pub fn new(mtus: [u16; 2]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let unique = format!("{}x{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let links = Self { name: format!("mrp{unique}") };
        let ours = links.ours();
        ip(&["netns", "add", &ours]);
        for (link, mtu) in mtus.into_iter().enumerate() {
            let (kernel, inner, outer) = (links.kernel(link), links.port(link), format!("k{link}"));
            let mtu = mtu.to_string();
            ip(&["netns", "add", &kernel]);
            ip(&[
                "-n", &kernel, "link", "add", &outer, "type", "veth", "peer", "name", &inner,
                "netns", &ours,
            ]);
            let quiet = format!("net.ipv6.conf.{inner}.disable_ipv6=1");
            ip(&["netns", "exec", &ours, "sysctl", "-q", "-w", &quiet]);
            for (namespace, interface) in [(&kernel, &outer), (&ours, &inner)] {
                must(
                    Command::new("ip")
                        .args(["netns", "exec", namespace, "ethtool", "-K", interface])
                        .args(["tso", "off", "gso", "off", "gro", "off", "tx", "off", "rx", "off"]),
                );
                ip(&["-n", namespace, "link", "set", interface, "mtu", &mtu, "up"]);
            }
            ip(&["-n", &kernel, "addr", "add", &format!("10.9{link}.0.1/24"), "dev", &outer]);
            let v6 = format!("fd9{link}::1/64");
            ip(&["-n", &kernel, "addr", "add", &v6, "dev", &outer, "nodad"]);
        }
        // The kernel reports a new link late; who starts before that is told of no link.
        for link in 0..2 {
            until(LIMIT, "the link is up", || links.our_link_is_up(link));
        }
        links
    }

    /// The namespace with our end of both links.
    pub fn ours(&self) -> String {
        format!("{}u", self.name)
    }

    /// The namespace of the kernel behind `link`.
    pub fn kernel(&self, link: usize) -> String {
        format!("{}k{link}", self.name)
    }

    /// Our interface on `link`.
    pub fn port(&self, link: usize) -> String {
        format!("p{link}{}", self.name.trim_start_matches("mrp"))
    }

    /// Name of the instance that [`TwoLinks::run`] starts.
    pub fn instance(&self) -> &str {
        &self.name
    }

    /// `millrace` in our namespace.
    pub fn millrace(&self, args: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.ours()]);
        command.arg(binary("millrace")).args(args);
        command
    }

    /// The device on `link`.
    pub fn vdev(&self, link: usize) -> String {
        format!("net_af_packet{link},iface={}", self.port(link))
    }

    /// An instance from a file: an echo server and `apps` on the ports of `sections`.
    #[track_caller]
    pub fn run(&self, sections: &str, apps: &[&str]) -> Dataplane {
        let mut text = format!("instance = \"{}\"\n{sections}", self.name);
        text.push_str("[[app]]\nkind = \"echo\"\nport = 7\n");
        for app in apps {
            text.push_str(&format!("[[app]]\nkind = \"{app}\"\n"));
        }
        let file = self.file();
        std::fs::write(&file, text).expect("the temporary directory is writable");
        let dataplane = Dataplane::start(self.millrace(&["run", "--config", &file]));
        dataplane.wait_for("running");
        dataplane
    }

    fn file(&self) -> String {
        std::env::temp_dir().join(format!("{}.toml", self.name)).to_string_lossy().into_owned()
    }

    /// The section of a file for the port on `link`, with more keys behind it.
    pub fn section(&self, link: usize, mtu: u16, more: &str) -> String {
        format!(
            "[[port]]\nvdev = \"{}\"\naddresses = [\"10.9{link}.0.2/24\", \"fd9{link}::2/64\"]\n\
             mtu = {mtu}\n{more}\n",
            self.vdev(link)
        )
    }

    fn our_link_is_up(&self, link: usize) -> bool {
        let port = self.port(link);
        let mut show = Command::new("ip");
        show.args(["-j", "-n", &self.ours(), "link", "show", "dev", &port]);
        let text = show.output().expect("ip starts").stdout;
        let shown: Value = serde_json::from_slice(&text).expect("-j prints JSON");
        shown[0]["operstate"] == "UP"
    }

    /// `ip` in our namespace; has to succeed.
    #[track_caller]
    pub fn our_ip(&self, args: &str) {
        must(Command::new("ip").args(["-n", &self.ours()]).args(args.split_whitespace()));
    }

    /// A program behind `link`.
    pub fn behind(&self, link: usize, program: &str, args: &[&str]) -> Dataplane {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.kernel(link), program]).args(args);
        Dataplane::start(command)
    }

    /// Our own peer program behind `link`.
    pub fn peer(&self, link: usize, args: &[&str]) -> Dataplane {
        self.behind(link, &binary("millrace-test-peer").to_string_lossy(), args)
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

impl Drop for TwoLinks {
    fn drop(&mut self) {
        for namespace in [self.ours(), self.kernel(0), self.kernel(1)] {
            if let Ok(out) = Command::new("ip").args(["netns", "pids", &namespace]).output() {
                for pid in String::from_utf8_lossy(&out.stdout).split_whitespace() {
                    let _ = Command::new("kill").args(["-9", pid]).output();
                }
            }
            let _ = Command::new("ip").args(["netns", "del", &namespace]).output();
        }
        let _ = std::fs::remove_file(self.file());
        let _ = std::fs::remove_file(format!("/run/millrace/{}.sock", self.name));
    }
}
