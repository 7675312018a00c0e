//! The values of one instance, and where each came from.

use core::fmt;

use stack::{Limits, StackParams};

use super::{Applies, Effect, Knob, KnobError, Value, find, table};
use crate::Profile;
use crate::text::{glob, quote};

/// Where a value came from. Later sources win over earlier ones when a dataplane starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The profile.
    Default,
    /// The start-up file.
    File,
    /// The command line that started the dataplane.
    CommandLine,
    /// A change while it runs.
    Runtime,
}

impl Source {
    /// As written in lists.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File => "file",
            Self::CommandLine => "command line",
            Self::Runtime => "run time",
        }
    }
}

/// One knob as it stands.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The row.
    pub knob: &'static Knob,
    /// The present value; several numbers with tabs between them.
    pub value: String,
    /// The default of the registry's profile.
    pub default: String,
    /// Where the value came from.
    pub source: Source,
}

/// What a successful [`Knobs::set`] did.
#[derive(Clone, Debug)]
pub struct Change {
    /// The row.
    pub knob: &'static Knob,
    /// The value before.
    pub old: String,
    /// The value now.
    pub new: String,
    /// Things to reconsider, one line each. A knob that is stored without effect says so here.
    pub warnings: Vec<String>,
}

impl Change {
    /// Whether the value differs from the default and nothing uses it.
    pub fn is_idle(&self, profile: Profile) -> bool {
        matches!(self.knob.effect, Effect::Stored)
            && self.new != self.knob.default_value(profile).to_string()
    }

    /// Whether workers need new parameters.
    pub fn reaches_workers(&self) -> bool {
        matches!(self.knob.effect, Effect::Params { .. }) && self.old != self.new
    }
}

/// A registry: one per instance, and one per simulated host. `clone` is the snapshot that scripts
/// restore from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Knobs {
    profile: Profile,
    /// In the order of [`table()`].
    values: Vec<(Value, Source)>,
}

impl Knobs {
    /// All knobs at the defaults of `profile`.
    pub fn new(profile: Profile) -> Self {
        let values = table().iter().map(|k| (k.default_value(profile), Source::Default)).collect();
        Self { profile, values }
    }

    /// The profile that the defaults come from.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// Set one knob. Either the value passes all checks, or nothing changes.
    ///
    /// `name` is a full name with dots or slashes, or its last part if only one knob has it.
    /// Numbers are decimal or `0x` hex, blanks and a newline around them do not count. Several
    /// numbers are separated by blanks; trailing ones may be left out and keep their values.
    pub fn set(&mut self, name: &str, text: &str, source: Source) -> Result<Change, KnobError> {
        let mut next = self.clone();
        let change = next.put(name, text, source)?;
        next.check(change.knob)?;
        *self = next;
        Ok(self.explain_change(change))
    }

    /// [`Self::set`] with text that may not be UTF-8.
    pub fn set_bytes(
        &mut self,
        name: &str,
        text: &[u8],
        source: Source,
    ) -> Result<Change, KnobError> {
        match core::str::from_utf8(text) {
            Ok(text) => self.set(name, text, source),
            Err(_) => {
                let knob = &table()[find(name)?];
                Err(KnobError::Syntax {
                    name: knob.name,
                    value: quote(&String::from_utf8_lossy(text)),
                    expected: "UTF-8 text",
                    range: knob.kind.range(),
                })
            }
        }
    }

    /// Set several knobs of one source at once: all or none. Values are compared with each other
    /// only after the last one, so their order does not matter; a knob that comes twice is an
    /// error. An error comes with the index of the assignment that it is about.
    pub fn set_all<'a>(
        &mut self,
        assignments: impl IntoIterator<Item = (&'a str, &'a str)>,
        source: Source,
    ) -> Result<Vec<Change>, (usize, KnobError)> {
        let mut next = self.clone();
        let mut changes: Vec<Change> = Vec::new();
        for (index, (name, text)) in assignments.into_iter().enumerate() {
            let change = next.put(name, text, source).map_err(|e| (index, e))?;
            if changes.iter().any(|c| c.knob.name == change.knob.name) {
                return Err((index, KnobError::Twice { name: change.knob.name }));
            }
            changes.push(change);
        }
        for (index, change) in changes.iter().enumerate() {
            next.check(change.knob).map_err(|e| (index, e))?;
        }
        *self = next;
        Ok(changes.into_iter().map(|c| self.explain_change(c)).collect())
    }

    /// The value of a knob as text, several numbers with tabs between them.
    pub fn get(&self, name: &str) -> Result<String, KnobError> {
        Ok(self.values[find(name)?].0.to_string())
    }

    /// The value of row `index`, and where it came from.
    pub(crate) fn at(&self, index: usize) -> (&Value, Source) {
        let (value, source) = &self.values[index];
        (value, *source)
    }

    /// The value of a knob.
    pub fn value(&self, name: &str) -> Result<&Value, KnobError> {
        Ok(&self.values[find(name)?].0)
    }

    /// A knob with its value, default and source.
    pub fn entry(&self, name: &str) -> Result<Entry, KnobError> {
        Ok(self.entry_at(find(name)?))
    }

    /// The knobs whose full or last name matches `pattern`, in which `*` stands for any text and
    /// `?` for one character; all for an empty pattern. Sorted by name.
    pub fn list(&self, pattern: &str) -> Vec<Entry> {
        let pattern = pattern.replace('/', ".");
        self.select(|_, knob| {
            pattern.is_empty() || glob(&pattern, knob.name) || glob(&pattern, knob.short_name())
        })
    }

    /// The knobs that differ from the defaults of the profile, sorted by name.
    pub fn diff(&self) -> Vec<Entry> {
        self.select(|i, knob| self.values[i].0 != knob.default_value(self.profile))
    }

    /// Everything about a knob, for people, over several lines.
    pub fn explain(&self, name: &str) -> Result<String, KnobError> {
        Ok(Explanation(self.entry(name)?).to_string())
    }

    /// The immutable set that workers run with.
    pub fn to_params(&self, generation: u64) -> StackParams {
        let mut params = StackParams { generation, ..StackParams::default() };
        for (knob, (value, _)) in table().iter().zip(&self.values) {
            if let Effect::Params { set, .. } = knob.effect {
                set(&mut params, value);
            }
        }
        params
    }

    /// Put those knobs that bound a table into `limits`.
    pub fn apply_limits(&self, limits: &mut Limits) {
        for (knob, (value, _)) in table().iter().zip(&self.values) {
            if let Effect::Limits { set, .. } = knob.effect {
                set(limits, value);
            }
        }
    }

    fn select(&self, keep: impl Fn(usize, &Knob) -> bool) -> Vec<Entry> {
        let mut entries: Vec<Entry> = table()
            .iter()
            .enumerate()
            .filter(|&(i, knob)| keep(i, knob))
            .map(|(i, _)| self.entry_at(i))
            .collect();
        entries.sort_by_key(|e| e.knob.name);
        entries
    }

    fn entry_at(&self, index: usize) -> Entry {
        let knob = &table()[index];
        let (value, source) = &self.values[index];
        Entry {
            knob,
            value: value.to_string(),
            default: knob.default_value(self.profile).to_string(),
            source: *source,
        }
    }

    /// Parse and store, without looking at other knobs.
    fn put(&mut self, name: &str, text: &str, source: Source) -> Result<Change, KnobError> {
        let index = find(name)?;
        let knob = &table()[index];
        if let Effect::ReadOnly = knob.effect {
            return Err(KnobError::ReadOnly { name: knob.name });
        }
        if source == Source::Runtime && knob.applies == Applies::AtStart && knob.effect.is_active()
        {
            return Err(KnobError::AtStartOnly { name: knob.name });
        }
        let old = &self.values[index].0;
        let new = knob.kind.parse(knob.name, text, old)?;
        let change =
            Change { knob, old: old.to_string(), new: new.to_string(), warnings: Vec::new() };
        self.values[index] = (new, source);
        Ok(change)
    }

    fn number(&self, name: &'static str) -> i64 {
        self.value(name).map(Value::int).unwrap_or(0)
    }

    /// Reject values that contradict each other, as seen from `knob`, which was just set.
    fn check(&self, knob: &'static Knob) -> Result<(), KnobError> {
        for pair in &NOT_ABOVE {
            if pair.concerns(knob) && pair.must && pair.is_broken(self) {
                return Err(KnobError::Conflict { name: knob.name, why: pair.describe(self) });
            }
        }
        Ok(())
    }

    fn explain_change(&self, mut change: Change) -> Change {
        let knob = change.knob;
        for pair in &NOT_ABOVE {
            if pair.concerns(knob) && !pair.must && pair.is_broken(self) {
                change.warnings.push(format!("{}: {}", knob.name, pair.describe(self)));
            }
        }
        if knob.name == "net.ipv4.tcp_probe_interval" && change.new == "0" {
            change
                .warnings
                .push(format!("{}: at 0 a finished search begins again at once", knob.name));
        }
        if change.is_idle(self.profile) {
            change
                .warnings
                .push(format!("{}: the value is kept, but nothing uses it yet", knob.name));
        }
        change
    }
}

/// Two knobs of which the first should not be above the second.
struct NotAbove {
    low: &'static str,
    /// What one unit of `low` is in the common unit.
    low_unit: i64,
    high: &'static str,
    high_unit: i64,
    /// Whether the stack depends on it; otherwise it is only advice.
    must: bool,
}

const NOT_ABOVE: [NotAbove; 6] = [
    NotAbove {
        low: "net.ipv4.tcp_rto_min_us",
        low_unit: 1,
        high: "net.ipv4.tcp_rto_max_ms",
        high_unit: 1000,
        must: true,
    },
    NotAbove {
        low: "millrace.rto_initial_ms",
        low_unit: 1,
        high: "net.ipv4.tcp_rto_max_ms",
        high_unit: 1,
        must: true,
    },
    NotAbove {
        low: "millrace.delack_min_us",
        low_unit: 1,
        high: "millrace.delack_max_us",
        high_unit: 1,
        must: true,
    },
    NotAbove {
        low: "net.ipv4.tcp_reordering",
        low_unit: 1,
        high: "net.ipv4.tcp_max_reordering",
        high_unit: 1,
        must: false,
    },
    NotAbove {
        low: "net.ipv4.tcp_mtu_probe_floor",
        low_unit: 1,
        high: "net.ipv4.tcp_base_mss",
        high_unit: 1,
        must: false,
    },
    NotAbove {
        low: "net.ipv4.tcp_min_snd_mss",
        low_unit: 1,
        high: "net.ipv4.tcp_mtu_probe_floor",
        high_unit: 1,
        must: false,
    },
];

impl NotAbove {
    fn concerns(&self, knob: &Knob) -> bool {
        knob.name == self.low || knob.name == self.high
    }

    fn is_broken(&self, knobs: &Knobs) -> bool {
        let low = knobs.number(self.low).saturating_mul(self.low_unit);
        low > knobs.number(self.high).saturating_mul(self.high_unit)
    }

    fn describe(&self, knobs: &Knobs) -> String {
        format!(
            "{} = {} is above {} = {}",
            self.low,
            knobs.number(self.low),
            self.high,
            knobs.number(self.high)
        )
    }
}

/// The text of `millrace explain`.
struct Explanation(Entry);

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Entry { knob, value, source, .. } = &self.0;
        let tidy = |text: &str| {
            if text.is_empty() { "(empty)".to_owned() } else { text.replace('\t', " ") }
        };
        writeln!(f, "{} = {}  ({})", knob.name, tidy(value), source.name())?;
        writeln!(f, "  type        {}", knob.kind.type_name())?;
        if !knob.unit.name().is_empty() {
            writeln!(f, "  unit        {}", knob.unit.name())?;
        }
        writeln!(f, "  allowed     {}", knob.kind.range())?;
        for profile in Profile::ALL {
            let default = tidy(&knob.default_value(profile).to_string());
            writeln!(f, "  {:<11} {default}  (default of this profile)", profile.name())?;
        }
        match knob.effect {
            Effect::Stored => writeln!(f, "  effect      none yet: the value is only kept")?,
            Effect::ReadOnly => writeln!(f, "  effect      can be read, not set")?,
            Effect::Params { .. } | Effect::Limits { .. } => {
                writeln!(f, "  effective   {}", knob.applies.name())?;
            }
        }
        write!(f, "\n{}\n", wrap(knob.doc, "  "))
    }
}

/// Columns of explanatory text.
const WRAP_COLUMNS: usize = 78;

fn wrap(text: &str, indent: &str) -> String {
    let mut out = String::from(indent);
    let mut column = indent.len();
    for word in text.split_whitespace() {
        if column > indent.len() {
            if column + 1 + word.len() > WRAP_COLUMNS {
                out.push('\n');
                out.push_str(indent);
                column = indent.len();
            } else {
                out.push(' ');
                column += 1;
            }
        }
        out.push_str(word);
        column += word.len();
    }
    out
}
