//! A child process on a core of its own that does not outlive us.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks at a child.
const POLL: Duration = Duration::from_millis(20);
/// How long a child that was asked to end may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running child. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
    log: PathBuf,
}

impl Process {
    /// Start `program` on `core`. What it says on either output goes to a file in `directory`.
    pub fn start(
        directory: &Path,
        name: &str,
        core: usize,
        program: &Path,
        args: &[String],
    ) -> Result<Self, String> {
        let failed = |e: &dyn std::fmt::Display| format!("cannot start {name}: {e}");
        let log = directory.join(format!("{name}.log"));
        let out = File::create(&log).map_err(|e| failed(&e))?;
        let err = out.try_clone().map_err(|e| failed(&e))?;
        // A child must end with us, however we end, or it spins on its core for ever.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "taskset", "-c", &core.to_string()])
            .arg(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(out)
            .stderr(err)
            .spawn()
            .map_err(|e| failed(&e))?;
        Ok(Self { child, name: name.to_owned(), log })
    }

    /// Its process id: that of the program, since what is in front of it replaces itself.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has said so far.
    pub fn said(&self) -> String {
        // Not UTF-8 only where a line is being written.
        std::fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Type a line.
    pub fn tell(&mut self, line: &str) -> Result<(), String> {
        let Some(stdin) = &mut self.child.stdin else { return Ok(()) };
        writeln!(stdin, "{line}").map_err(|e| self.broken(&format!("cannot be told {line}: {e}")))
    }

    /// Wait until it has said `text`.
    pub fn wait_for(&mut self, text: &str, limit: Duration) -> Result<(), String> {
        let begun = Instant::now();
        while !self.said().contains(text) {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(self.broken(&format!("ended early, {status}")));
            }
            if begun.elapsed() > limit {
                return Err(self.broken(&format!("has not said {text:?} in {limit:?}")));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Wait until it ends by itself, and return what it said. Failure is an error.
    pub fn finish(mut self, limit: Duration) -> Result<String, String> {
        let begun = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(self.said()),
                Ok(Some(status)) => return Err(self.broken(&status.to_string())),
                Ok(None) if begun.elapsed() > limit => {
                    return Err(self.broken(&format!("is not done after {limit:?}")));
                }
                Ok(None) => thread::sleep(POLL),
                Err(e) => return Err(self.broken(&e.to_string())),
            }
        }
    }

    /// Ask it to end, and see to it that it does.
    pub fn stop(mut self) {
        // Drop takes care of a child that does not want to.
        let _ = Command::new("kill").args(["-TERM", &self.id().to_string()]).status();
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(POLL);
        }
    }

    fn broken(&self, what: &str) -> String {
        let said = self.said();
        let lines: Vec<_> = said.lines().collect();
        let last = lines[lines.len().saturating_sub(12)..].join("\n  ");
        format!("{} {what}; it said last:\n  {last}", self.name)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already; waiting makes its CPU time ours, not somebody else's.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, name: &str) -> Process {
        let args = ["-c".to_owned(), script.to_owned()];
        let name = format!("millrace-process-{}-{name}", std::process::id());
        Process::start(&std::env::temp_dir(), &name, 0, Path::new("sh"), &args).expect("starts")
    }

    fn remove(log: &Path) {
        std::fs::remove_file(log).expect("was written");
    }

    #[test]
    fn a_child_is_told_and_heard() {
        let mut child = shell("read line; echo got $line; read line", "told");
        let log = child.log.clone();
        child.tell("this").expect("it reads");
        child.wait_for("got this", Duration::from_secs(20)).expect("it answers");
        child.tell("").expect("it reads");
        assert_eq!(child.finish(Duration::from_secs(20)), Ok("got this\n".to_owned()));
        remove(&log);
    }

    #[test]
    fn what_a_failed_child_said_is_in_the_error() {
        let child = shell("echo no such thing >&2; exit 3", "failed");
        let log = child.log.clone();
        let e = child.finish(Duration::from_secs(20)).expect_err("it fails");
        assert!(e.contains("exit status: 3") && e.contains("no such thing"), "{e}");
        remove(&log);
    }

    #[test]
    fn a_child_that_is_let_go_is_gone() {
        let child = shell("exec sleep 1000", "gone");
        let (log, id) = (child.log.clone(), child.id());
        drop(child);
        assert!(!Path::new(&format!("/proc/{id}")).exists());
        remove(&log);
    }
}
