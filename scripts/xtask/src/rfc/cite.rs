//! Citations of RFCs in comments and scripts.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Result;

/// How often something is cited.
#[derive(Default, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sites {
    pub(super) code: usize,
    pub(super) tests: usize,
    pub(super) scripts: usize,
}

/// Where a citation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Code,
    Test,
    Script,
}

impl Sites {
    fn add(&mut self, place: Place) {
        match place {
            Place::Code => self.code += 1,
            Place::Test => self.tests += 1,
            Place::Script => self.scripts += 1,
        }
    }
}

/// All citations, by RFC and section, and by RFC and label.
#[derive(Default)]
pub(super) struct Citations {
    sections: BTreeMap<(u32, String), Sites>,
    labels: BTreeMap<(u32, String), Sites>,
}

impl Citations {
    /// Those of the whole workspace below `root`.
    pub(super) fn of(root: &Path) -> Result<Self> {
        let mut all = Self::default();
        for folder in ["dataplane", "ffi", "config", "tests"] {
            all.scan(&root.join(folder))?;
        }
        Ok(all)
    }

    /// Citations of `section` and of its subsections.
    pub(super) fn of_section(&self, rfc: u32, section: &str) -> Sites {
        let below = format!("{section}.");
        self.sections
            .iter()
            .filter(|((r, s), _)| *r == rfc && (s == section || s.starts_with(&below)))
            .fold(Sites::default(), |sum, (_, sites)| Sites {
                code: sum.code + sites.code,
                tests: sum.tests + sites.tests,
                scripts: sum.scripts + sites.scripts,
            })
    }

    /// Citations of one requirement.
    pub(super) fn of_label(&self, rfc: u32, label: &str) -> Sites {
        self.labels.get(&(rfc, label.to_owned())).copied().unwrap_or_default()
    }

    /// All labels of an RFC that are cited.
    pub(super) fn labels(&self, rfc: u32) -> impl Iterator<Item = &str> {
        self.labels.keys().filter(move |(r, _)| *r == rfc).map(|(_, label)| label.as_str())
    }

    fn scan(&mut self, folder: &Path) -> Result<()> {
        let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
        for entry in entries {
            let path = entry?.path();
            let is_called = |name: &str| path.file_name().is_some_and(|n| n == name);
            if path.is_dir() {
                // Scripts that must fail test the runner.
                if !is_called("target") && !is_called("must_fail") {
                    self.scan(&path)?;
                }
            } else if path.extension().is_some_and(|e| e == "rs") {
                let in_tests =
                    path.components().any(|c| c.as_os_str() == "tests") || is_called("tests.rs");
                self.source(&fs::read_to_string(&path)?, in_tests);
            } else if path.extension().is_some_and(|e| e == "pkt") {
                self.script(&fs::read_to_string(&path)?);
            }
        }
        Ok(())
    }

    fn section(&mut self, rfc: u32, section: &str, place: Place) {
        self.sections.entry((rfc, section.to_owned())).or_default().add(place);
    }

    fn label(&mut self, rfc: u32, label: &str, place: Place) {
        self.labels.entry((rfc, label.to_owned())).or_default().add(place);
    }

    /// Citations in one file of Rust; what follows `#[cfg(test)]` counts as tests.
    fn source(&mut self, text: &str, in_tests: bool) {
        // A citation may be wrapped: comment markers and line ends between its words do not count.
        let mut place = if in_tests { Place::Test } else { Place::Code };
        let mut words: Vec<(&str, Place)> = Vec::new();
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            // A module in the file, that is; `mod tests;` names another file.
            if line.trim_start().starts_with("#[cfg(test)]")
                && lines.peek().is_some_and(|next| next.ends_with('{'))
            {
                place = Place::Test;
            }
            words.extend(
                line.split_whitespace()
                    .filter(|w| !w.chars().all(|c| c == '/' || c == '!'))
                    .map(|w| (w, place)),
            );
        }
        let mut rest = words.as_slice();
        while let Some(((word, place), after)) = rest.split_first() {
            rest = after;
            let number = after.first().and_then(|(w, _)| number(w));
            let Some(rfc) = number.filter(|_| word.ends_with("RFC")) else { continue };
            let mut cited = after.get(1..).unwrap_or_default();
            if let [(word, _), (section, _), behind @ ..] = cited
                && word.to_ascii_lowercase().starts_with("section")
            {
                let section: String = section
                    .chars()
                    .take_while(|c| c.is_ascii_alphanumeric() || *c == '.')
                    .collect();
                self.section(rfc, section.trim_end_matches('.'), *place);
                cited = behind;
            }
            for (word, _) in cited {
                match label(word) {
                    Some(label) => self.label(rfc, label, *place),
                    None if *word == "and" => {}
                    None => break,
                }
            }
        }
    }

    /// The first line of a script.
    fn script(&mut self, text: &str) {
        let first = text.lines().next().unwrap_or_default();
        let Some(covers) = first.strip_prefix("// Covers:") else { return };
        let mut rfc = None;
        let mut words = covers.split_whitespace();
        while let Some(word) = words.next() {
            if word == "RFC" {
                rfc = words.next().and_then(number);
            } else if let Some(label) = label(word) {
                let Some(rfc) = rfc else { continue };
                self.label(rfc, label, Place::Script);
            } else if word.starts_with(|c: char| c.is_ascii_digit()) {
                let Some(rfc) = rfc else { continue };
                self.section(rfc, word.trim_end_matches([',', ';', '.']), Place::Script);
            }
        }
    }
}

/// The number of an RFC, perhaps with a comma behind it.
fn number(word: &str) -> Option<u32> {
    word.trim_end_matches([',', ';', ':', '.', ')']).parse().ok()
}

/// The label in a word, without the punctuation around it.
pub(super) fn label(word: &str) -> Option<&str> {
    let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let (kind, number) = word.split_once('-')?;
    let known = ["MUST", "SHLD", "MAY", "REC"].contains(&kind);
    (known && number.parse::<u32>().is_ok()).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Citations {
        let mut c = Citations::default();
        c.source(text, false);
        c
    }

    #[test]
    fn citations_are_found_wrapped_and_with_subsections() {
        let c = source(
            "// as RFC 9293 section 3.10.7.4: x\n/// RFC 7323,\n/// section 5.\n#[cfg(test)]\nmod tests;\n#[cfg(test)]\nmod inline {\n// RFC 9293, section 3.10.7.",
        );
        let sites = |code, tests| Sites { code, tests, scripts: 0 };
        assert_eq!(c.of_section(9293, "3.10.7"), sites(1, 1));
        assert_eq!(c.of_section(7323, "5"), sites(1, 0));
        assert_eq!(c.of_section(9293, "3.1"), sites(0, 0));
    }

    #[test]
    fn labels_follow_the_number_or_the_section() {
        let c = source(
            "// RFC 9293 section 3.8.6.1 (MUST-36,\n// MUST-37 and SHLD-29): probes, MAY-1\n// RFC 9293 MUST-3: sums",
        );
        let cited: Vec<_> = c.labels(9293).collect();
        assert_eq!(cited, ["MUST-3", "MUST-36", "MUST-37", "SHLD-29"]);
        assert_eq!(c.of_section(9293, "3.8").code, 1);
        assert_eq!(c.of_label(9293, "MUST-36").code, 1);
    }

    #[test]
    fn scripts_say_it_in_their_first_line() {
        let mut c = Citations::default();
        c.script("// Covers: RFC 9293 3.8.6.3 SHLD-18, MUST-40, 3.6, RFC 6298 5.5\n// RFC 1 2");
        c.script("// Covers: POSIX poll");
        let once = Sites { scripts: 1, ..Sites::default() };
        assert_eq!(c.labels(9293).collect::<Vec<_>>(), ["MUST-40", "SHLD-18"]);
        assert_eq!(c.of_section(9293, "3.8.6.3"), once);
        assert_eq!(c.of_section(9293, "3.6"), once);
        assert_eq!(c.of_section(6298, "5"), once);
        assert_eq!(c.of_label(9293, "MUST-40"), once);
        assert_eq!(c.of_section(1, "2"), Sites::default());
    }
}
