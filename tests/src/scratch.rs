//! A directory and instance names of a test's own, for devices without the kernel.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::process::{Dataplane, binary};

/// A place for files, removed when dropped.
pub struct Scratch {
    dir: PathBuf,
    instances: Mutex<Vec<String>>,
}

impl Scratch {
    /// A new empty directory.
    #[must_use]
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let unique = format!("mrt{}s{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(unique);
        std::fs::create_dir_all(&dir).expect("the temporary directory is writable");
        Self { dir, instances: Mutex::new(Vec::new()) }
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> String {
        self.dir.join(name).to_string_lossy().into_owned()
    }

    /// The name of an instance that no other test has.
    pub fn instance(&self, name: &str) -> String {
        let unique = self.dir.file_name().unwrap_or_default().to_string_lossy();
        let full = format!("{unique}-{name}");
        let mut all = self.instances.lock().expect("no test holds it for long");
        if !all.contains(&full) {
            all.push(full.clone());
        }
        full
    }

    /// `millrace COMMAND --instance NAME`, to be completed.
    pub fn millrace(&self, command: &str, name: &str) -> Command {
        let mut c = Command::new(binary("millrace"));
        c.arg(command).args(["--instance", &self.instance(name)]);
        c
    }

    /// `millrace run` with this configuration file, which must not name an instance: it is `name`.
    pub fn start(&self, name: &str, text: &str) -> Dataplane {
        let file = self.path(&format!("{name}.toml"));
        std::fs::write(&file, format!("instance = \"{}\"\n{text}", self.instance(name)))
            .expect("the temporary directory is writable");
        let mut command = Command::new(binary("millrace"));
        command.args(["run", "--config", &file]);
        Dataplane::start(command)
    }

    /// The same, and wait until it runs.
    #[track_caller]
    pub fn run(&self, name: &str, text: &str) -> Dataplane {
        let dataplane = self.start(name, text);
        dataplane.wait_for("is running");
        dataplane
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
        // What was killed could not remove its control socket.
        for name in self.instances.lock().map(|all| all.clone()).unwrap_or_default() {
            let _ = std::fs::remove_file(Path::new("/run/millrace").join(format!("{name}.sock")));
        }
    }
}
