//! The files of a machine: this one's, or those of a tree that a test has made.

use std::fs;
use std::path::{Path, PathBuf};

/// Where `/` is.
#[derive(Debug)]
pub(super) struct Root(PathBuf);

impl Root {
    pub(super) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Where `path`, given without its leading slash, is.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// The text of a file without the white space around it; `None`: it cannot be read.
    pub(super) fn read(&self, path: &str) -> Option<String> {
        // Lossily: names in /proc may be anything.
        let bytes = fs::read(self.path(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// A file that holds one number.
    pub(super) fn number(&self, path: &str) -> Option<u64> {
        self.read(path)?.parse().ok()
    }

    /// The value behind `key:` in a file of such lines.
    pub(super) fn field(&self, path: &str, key: &str) -> Option<String> {
        let text = self.read(path)?;
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key).then(|| value.trim().to_owned())
        })
    }

    /// Names in a directory, sorted; none if there is no such directory.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// The last part of where a link points to.
    pub(super) fn link(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.path(path)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }
}

/// The numbers of a list such as `0-3,8`.
pub(super) fn numbers(list: &str) -> Vec<usize> {
    /// More CPUs than any machine has: a list is what a file says.
    const MAX: usize = 65_536;
    let mut out = Vec::new();
    for part in list.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>())
            && last < MAX
        {
            out.extend(first..=last);
        }
    }
    out
}
