//! Renders the knob list, so that it cannot differ from the table.

use std::fmt::Write;

use crate::Profile;
use crate::knobs::{Effect, Knob, SECTIONS};

const INTRODUCTION: &str = "\
# Run-time knobs

<!-- Generated from the table in config/src/knobs/table by `cargo xtask knobs`. Do not edit. -->

Names are those of Linux where Linux has the knob; the others begin with `millrace.`. A name may be
written with dots or slashes, or as its last part alone if no other knob has the same. Numbers are
decimal or `0x` hexadecimal. Of several numbers the last ones may be left out: they keep their
values.

Knobs are set in the `[sysctl]` section of the start-up file, with `--sysctl NAME=VALUE` on the
command line, or while the dataplane runs with `millrace sysctl -w NAME=VALUE`; `millrace sysctl -a`
lists them, `millrace explain NAME` shows what is written here.

- *Effective*: **new connections** keep the value they were opened with; **each use** asks again at
  every decision; **at start** sizes a table and cannot change later.
- **stored**: the value is checked and kept, so that files written for Linux can be used as they
  are, but nothing uses it yet.
- The profile `linux` has the defaults of Linux; `millrace` is what is used if nothing else is said.
";

/// The text of `docs/knobs.md`.
pub fn knobs_markdown() -> String {
    let mut out = String::from(INTRODUCTION);
    for (title, rows) in SECTIONS {
        let _ = write!(
            out,
            "\n## {title}\n\n| Knob | Type | Range | Unit | `linux` | `millrace` | Effective |\n\
             |---|---|---|---|---|---|---|\n"
        );
        for knob in rows {
            let _ = writeln!(
                out,
                "| [`{}`](#{}) | {} | {} | {} | {} | {} | {} |",
                knob.name,
                anchor(knob),
                knob.kind.type_name(),
                knob.kind.range(),
                knob.unit.name(),
                default(knob, Profile::Linux),
                if knob.linux == knob.millrace {
                    "same".into()
                } else {
                    format!("**{}**", default(knob, Profile::Millrace))
                },
                match knob.effect {
                    Effect::Params { .. } | Effect::Limits { .. } => knob.applies.name(),
                    Effect::Stored | Effect::ReadOnly => knob.effect.name(),
                }
            );
        }
        for knob in rows {
            let _ = write!(out, "\n### {}\n\n{}\n", knob.name, paragraph(knob.doc));
        }
    }
    out
}

/// A sample `[sysctl]` section with all knobs commented out: the text of `config/knobs.toml`.
pub fn knobs_toml() -> String {
    let mut out = String::from(
        "# All knobs with the defaults of the profile `millrace`, to copy from. Written by\n\
         # `cargo run -p config --example knobs -- --toml`. The texts are in docs/knobs.md.\n\n\
         [sysctl]\n",
    );
    for (title, rows) in SECTIONS {
        let _ = write!(out, "\n# {title}\n");
        for knob in rows {
            if matches!(knob.effect, Effect::ReadOnly) {
                continue;
            }
            let value = knob.default_value(Profile::Millrace).to_string().replace('\t', " ");
            let bare = value.parse::<i64>().is_ok();
            let shown = if bare { value } else { format!("\"{value}\"") };
            let note = if knob.effect.is_active() { "" } else { "  # stored" };
            let _ = writeln!(out, "# \"{}\" = {shown}{note}", knob.name);
        }
    }
    out
}

/// The anchor that Markdown viewers make of the heading.
fn anchor(knob: &Knob) -> String {
    knob.name.chars().filter(|c| *c != '.').collect()
}

fn default(knob: &Knob, profile: Profile) -> String {
    let text = knob.default_value(profile).to_string().replace('\t', " ");
    if text.is_empty() { "(empty)".into() } else { text }
}

/// Columns of a paragraph.
const COLUMNS: usize = 100;

fn paragraph(text: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let width = word.chars().count();
        if column > 0 {
            if column + 1 + width > COLUMNS {
                out.push('\n');
                column = 0;
            } else {
                out.push(' ');
                column += 1;
            }
        }
        out.push_str(word);
        column += width;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(path: &str, generated: &str, how: &str) {
        let path = format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"));
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == generated,
            "{path} differs from the table; write it anew with `{how}`"
        );
    }

    #[test]
    fn the_committed_knob_list_is_the_generated_one() {
        compare("docs/knobs.md", &knobs_markdown(), "cargo xtask knobs");
    }

    #[test]
    fn the_committed_sample_is_the_generated_one() {
        compare(
            "config/knobs.toml",
            &knobs_toml(),
            "cargo run -p config --example knobs -- --toml > config/knobs.toml",
        );
    }

    #[test]
    fn every_knob_is_in_the_list_and_tables_have_seven_columns() {
        let text = knobs_markdown();
        for knob in crate::knobs::table() {
            assert!(text.contains(&format!("\n### {}\n", knob.name)), "{}", knob.name);
        }
        for line in text.lines().filter(|l| l.starts_with('|')) {
            assert_eq!(line.matches('|').count(), 8, "{line}");
        }
    }
}
