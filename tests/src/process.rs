//! Processes that run beside a test, and commands that must succeed.

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

/// Say what a test needs and does not find.
///
/// # Panics
/// Where `MILLRACE_NO_SKIP` is set: on a machine that is known to have everything.
pub fn lacks(what: &str) {
    assert!(std::env::var_os("MILLRACE_NO_SKIP").is_none(), "this machine lacks {what}");
    eprintln!("skipped: needs {what}");
}

/// Poll until `done` says so; `what` is what was waited for.
#[track_caller]
pub fn until(limit: Duration, what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < limit, "not within {limit:?}: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Run a client, `iperf3` or ours, with these flags and `-J`; its JSON document.
#[track_caller]
pub fn iperf_json(mut client: Command, args: &[&str]) -> Value {
    let output = client.arg("-J").args(args).output().expect("the client starts");
    assert!(output.status.success(), "iperf {args:?}: {}", both(&output));
    serde_json::from_slice(&output.stdout).expect("-J prints JSON")
}

/// The same for the kernel's: the congestion control is named because the machine's default may
/// pace itself.
#[track_caller]
pub fn iperf3(client: Command, args: &[&str]) -> Value {
    iperf_json(client, &[&["-C", "cubic"], args].concat())
}

/// Bytes that arrived in an iperf test; `key` is `sum_received` or its reverse twin.
pub fn received(result: &Value, key: &str) -> f64 {
    result["end"][key]["bytes"].as_f64().unwrap_or(0.0)
}

/// Data arrived in an iperf test that went well.
#[track_caller]
pub fn moved(result: &Value) {
    assert!(result["error"].is_null(), "{}", result["error"]);
    assert!(received(result, "sum_received") > 1e6, "{:#}", result["end"]);
}

/// A query to a running instance, as JSON.
#[track_caller]
pub fn ask(instance: &str, args: &[&str]) -> Value {
    let output = Command::new(binary("millrace"))
        .args(args)
        .args(["--instance", instance, "--json"])
        .output()
        .expect("millrace starts");
    assert!(output.status.success(), "millrace {args:?}: {}", both(&output));
    serde_json::from_slice(&output.stdout).expect("--json prints JSON")
}

/// A counter of a running instance.
#[track_caller]
pub fn counter(instance: &str, name: &str) -> u64 {
    ask(instance, &["nstat", "--zeros"])["millrace"][name]
        .as_u64()
        .unwrap_or_else(|| panic!("there is a counter {name}"))
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

    /// Its end has to come within `limit`, with this exit status.
    #[track_caller]
    pub fn ends(mut self, limit: Duration, status: i32) {
        // Borrowed, so that a failure still has its output to show.
        assert_eq!(self.status(limit), Some(status));
    }

    /// Wait for its end; its exit status (`None`: ended by a signal).
    #[track_caller]
    pub fn wait(mut self, limit: Duration) -> Option<i32> {
        self.status(limit)
    }

    #[track_caller]
    fn status(&mut self, limit: Duration) -> Option<i32> {
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

/// Status and output of a command that has ended.
pub(crate) fn both(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Run a command that has to succeed.
#[track_caller]
pub(crate) fn must(command: &mut Command) {
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{command:?}: {}", both(&output));
}
