//! What a person wrote, as a tree in which every value knows where it stands, and how a fault in it is
//! told.

use core::fmt;
use std::borrow::Cow;

use config::{nearest, position, quote};
use toml::de::{DeInteger, DeTable, DeValue};

/// Bytes of a scenario file; a longer one is refused before it is read.
pub const FILE_MAX_BYTES: usize = 1 << 20;
/// Characters of a name.
const NAME_MAX: usize = 64;

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The file is wrong.
    Bad,
    /// The file is right, and asks for something that does not exist here.
    Unsupported,
}

/// What is wrong with a scenario, and where.
///
/// Displayed as `FILE:LINE:COL: key: what`, then indented lines with what helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Whose fault it is.
    pub kind: FaultKind,
    /// As the file was named; empty for a path on a command line.
    pub file: String,
    /// Line and column in characters, both from 1.
    pub line: Option<(u32, u32)>,
    /// The key with its table.
    pub key: String,
    /// What is wrong, on one line.
    pub what: String,
    /// What to do, one line each.
    pub help: Vec<String>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.is_empty() {
            write!(f, "{}", self.file)?;
            if let Some((line, column)) = self.line {
                write!(f, ":{line}:{column}")?;
            }
            f.write_str(": ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.what)?;
        for line in &self.help {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

impl core::error::Error for Fault {}

/// A fault before it is known which file it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub(super) kind: FaultKind,
    /// Byte of the text.
    pub(super) at: usize,
    pub(super) key: String,
    pub(super) what: String,
    pub(super) help: Vec<String>,
}

impl Problem {
    pub(super) fn new(at: usize, key: impl Into<String>, what: impl Into<String>) -> Self {
        let what = what.into().split_whitespace().collect::<Vec<_>>().join(" ");
        Self { kind: FaultKind::Bad, at, key: key.into(), what, help: Vec::new() }
    }

    pub(super) fn unsupported(at: usize, key: impl Into<String>, what: impl Into<String>) -> Self {
        Self { kind: FaultKind::Unsupported, ..Self::new(at, key, what) }
    }

    pub(super) fn help(mut self, line: impl Into<String>) -> Self {
        self.help.push(line.into());
        self
    }

    pub(super) fn in_file(self, file: &str, text: &str) -> Fault {
        let Self { kind, at, key, what, help } = self;
        // A file is bounded, so its lines are, too.
        let (line, column) = position(text, at);
        let line = Some((line as u32, column as u32));
        Fault { kind, file: file.to_owned(), line, key, what, help }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.what)?;
        for line in &self.help {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

impl core::error::Error for Problem {}

/// The outcome of reading one thing.
pub(super) type Read<T> = Result<T, Problem>;

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Node<'a> {
    /// First byte.
    pub(super) at: usize,
    pub(super) value: Value<'a>,
}

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    Text(Cow<'a, str>),
    Integer(i64),
    /// As written, so that nothing is rounded.
    Float(Cow<'a, str>),
    Bool(bool),
    List(Vec<Node<'a>>),
    Table(Vec<Entry<'a>>),
    /// Something that no key takes, by its name.
    Other(&'static str),
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(super) struct Entry<'a> {
    pub(super) at: usize,
    pub(super) name: Cow<'a, str>,
    pub(super) node: Node<'a>,
}

impl<'a> Node<'a> {
    pub(super) fn text(at: usize, text: &'a str) -> Self {
        Self { at, value: Value::Text(Cow::Borrowed(text)) }
    }

    /// For messages.
    pub(super) fn kind(&self) -> &'static str {
        match &self.value {
            Value::Text(_) => "text",
            Value::Integer(_) => "a whole number",
            Value::Float(_) => "a number with a fraction",
            Value::Bool(_) => "true or false",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
            Value::Other(kind) => kind,
        }
    }

    /// What units are read from: text, or a number as if it had been written as text.
    pub(super) fn measure(&self, key: &str, allowed: &str) -> Read<Cow<'_, str>> {
        match &self.value {
            Value::Text(text) | Value::Float(text) => Ok(Cow::Borrowed(text)),
            Value::Integer(n) => Ok(Cow::Owned(n.to_string())),
            _ => Err(self.wrong(key, allowed)),
        }
    }

    /// Read a number with a unit.
    pub(super) fn unit<T>(
        &self,
        key: &str,
        allowed: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Read<T> {
        parse(&self.measure(key, allowed)?).map_err(|why| Problem::new(self.at, key, why))
    }

    pub(super) fn as_text(&self, key: &str, allowed: &str) -> Read<&str> {
        match &self.value {
            Value::Text(text) => Ok(text),
            _ => Err(self.wrong(key, allowed)),
        }
    }

    pub(super) fn as_bool(&self, key: &str) -> Read<bool> {
        match &self.value {
            Value::Bool(value) => Ok(*value),
            _ => Err(self.wrong(key, "true or false")),
        }
    }

    /// A whole number within these limits.
    pub(super) fn as_number(&self, key: &str, least: u64, most: u64) -> Read<u64> {
        let allowed = format!("a whole number from {least} to {most}");
        match &self.value {
            Value::Integer(n) => match u64::try_from(*n) {
                Ok(n) if (least..=most).contains(&n) => Ok(n),
                _ => Err(Problem::new(self.at, key, format!("{n} is not {allowed}"))),
            },
            // A path on a command line knows text only.
            Value::Text(text) => match text.trim().parse::<u64>() {
                Ok(n) if (least..=most).contains(&n) => Ok(n),
                _ => Err(Problem::new(self.at, key, format!("{} is not {allowed}", quote(text)))),
            },
            _ => Err(self.wrong(key, &allowed)),
        }
    }

    pub(super) fn as_list(&self, key: &str, allowed: &str) -> Read<&[Node<'a>]> {
        match &self.value {
            Value::List(list) => Ok(list),
            _ => Err(self.wrong(key, allowed)),
        }
    }

    pub(super) fn as_table(&self, key: &str, allowed: &str) -> Read<&[Entry<'a>]> {
        match &self.value {
            Value::Table(entries) => Ok(entries),
            _ => Err(self.wrong(key, allowed)),
        }
    }

    /// One of a few words.
    pub(super) fn as_choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Read<T> {
        let names = || choices.iter().map(|(name, _)| *name);
        let allowed = names().collect::<Vec<_>>().join(", ");
        let text = self.as_text(key, &format!("one of {allowed}"))?;
        if let Some((_, choice)) = choices.iter().find(|(name, _)| *name == text) {
            return Ok(*choice);
        }
        Err(Problem::new(self.at, key, unknown("value", text, names()))
            .help(format!("allowed: {allowed}")))
    }

    /// A name that other keys refer to.
    pub(super) fn as_name(&self, key: &str) -> Read<String> {
        let text = self.as_text(key, "a name")?;
        check_name(text).map_err(|why| Problem::new(self.at, key, why))?;
        Ok(text.to_owned())
    }

    pub(super) fn wrong(&self, key: &str, allowed: &str) -> Problem {
        Problem::new(self.at, key, format!("expected {allowed}, found {}", self.kind()))
    }
}

/// Whether `text` can be a name that phrases refer to.
///
/// # Errors
///
/// Why not.
pub(super) fn check_name(text: &str) -> Result<(), String> {
    let good = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if text.is_empty() || text.len() > NAME_MAX || !text.chars().all(good) {
        return Err(format!(
            "{} is no name: letters, digits, `_`, `-` and `.`, at most {NAME_MAX}",
            quote(text)
        ));
    }
    if ["of", "in", "at", "all"].contains(&text) {
        return Err(format!("{} has a meaning in expectations and is no name", quote(text)));
    }
    Ok(())
}

/// `unknown WHAT "name"`, with what was probably meant.
pub(super) fn unknown<'a>(
    what: &str,
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> String {
    match nearest(name, known) {
        Some(near) => format!("unknown {what} {}: did you mean {near}?", quote(name)),
        None => format!("unknown {what} {}", quote(name)),
    }
}

/// The entries of a table while they are read: what has not been asked for at the end is unknown.
pub(super) struct Fields<'t, 'a> {
    /// As messages name the table.
    path: String,
    /// First byte of the table.
    pub(super) at: usize,
    entries: &'t [Entry<'a>],
    asked: Vec<&'static str>,
}

impl<'t, 'a> Fields<'t, 'a> {
    pub(super) fn new(path: impl Into<String>, at: usize, entries: &'t [Entry<'a>]) -> Self {
        Self { path: path.into(), at, entries, asked: Vec::new() }
    }

    /// The table of `node`.
    pub(super) fn of(path: impl Into<String>, node: &'t Node<'a>) -> Read<Self> {
        let path = path.into();
        let entries = node.as_table(&path, "a table")?;
        Ok(Self::new(path, node.at, entries))
    }

    /// The key with its table, for messages.
    pub(super) fn key(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The value of `name`, which from now on is a known key.
    pub(super) fn take(&mut self, name: &'static str) -> Option<&'t Node<'a>> {
        self.asked.push(name);
        self.entries.iter().find(|e| e.name == name).map(|e| &e.node)
    }

    /// The same for a key that must be there.
    pub(super) fn need(&mut self, name: &'static str) -> Read<&'t Node<'a>> {
        match self.take(name) {
            Some(node) => Ok(node),
            None => Err(Problem::new(self.at, self.key(name), "is missing")),
        }
    }

    /// Whether a key is there, without knowing it.
    pub(super) fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|e| e.name == name)
    }

    /// Where each key stands that is here and among `names`, for those that exclude each other.
    pub(super) fn present(&self, names: &[&'static str]) -> Vec<(&'static str, usize)> {
        let find = |name: &&'static str| {
            self.entries.iter().find(|e| e.name == *name).map(|e| (*name, e.at))
        };
        names.iter().filter_map(find).collect()
    }

    /// The end: whatever was not asked for is an error.
    pub(super) fn finish(self) -> Read<()> {
        let Some(entry) = self.entries.iter().find(|e| !self.asked.iter().any(|a| *a == e.name))
        else {
            return Ok(());
        };
        let known = self.asked.iter().copied();
        let mut sorted = self.asked.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let place = if self.path.is_empty() { "" } else { " here" };
        Err(Problem::new(entry.at, self.path.clone(), unknown("key", &entry.name, known))
            .help(format!("keys{place}: {}", sorted.join(", "))))
    }
}

/// A whole file.
pub(super) fn read(text: &str) -> Read<Vec<Entry<'_>>> {
    if text.len() > FILE_MAX_BYTES {
        return Err(Problem::new(0, "", format!("longer than {FILE_MAX_BYTES} bytes")));
    }
    match DeTable::parse(text) {
        Ok(table) => Ok(entries(table.into_inner())),
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            let problem = Problem::new(at, "", error.message());
            Err(if error.message().contains("duplicate key") {
                problem
                    .help("several links, applications and so on are written as [[link]], [[app]]")
            } else {
                problem
            })
        }
    }
}

fn entries(table: DeTable<'_>) -> Vec<Entry<'_>> {
    let mut list: Vec<Entry<'_>> = table
        .into_iter()
        .map(|(name, value)| Entry {
            at: name.span().start,
            name: name.into_inner(),
            node: node(value),
        })
        .collect();
    // In the order of the file, which is that of numbers and of results.
    list.sort_by_key(|e| e.at);
    list
}

fn node(value: toml::Spanned<DeValue<'_>>) -> Node<'_> {
    let at = value.span().start;
    let value = match value.into_inner() {
        DeValue::String(text) => Value::Text(text),
        DeValue::Integer(n) => {
            integer(&n).map_or(Value::Other("a number too large"), Value::Integer)
        }
        DeValue::Float(n) => float(n.as_str()),
        DeValue::Boolean(value) => Value::Bool(value),
        DeValue::Datetime(_) => Value::Other("a date or time of day"),
        DeValue::Array(list) => Value::List(list.into_iter().map(node).collect()),
        DeValue::Table(table) => Value::Table(entries(table)),
    };
    Node { at, value }
}

/// In digits, whatever the notation.
fn float<'a>(text: &str) -> Value<'a> {
    if text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return Value::Float(text.to_owned().into());
    }
    match text.parse::<f64>() {
        Ok(n) if n.is_finite() => Value::Float(format!("{n}").into()),
        _ => Value::Other("no finite number"),
    }
}

fn integer(n: &DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(n.as_str(), n.radix()).ok()
}
