//! Types of knobs, their values, and how text becomes a value.

use core::fmt;

use super::KnobError;
use crate::text::quote;

/// Numbers in a vector at most.
const VECTOR_MAX: usize = 3;

/// Bytes of a text value at most: a page, as for a file under `/proc/sys`.
pub(crate) const TEXT_MAX: usize = 4096;

/// What a text may look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextForm {
    /// Names of letters, digits, `_` and `-`, separated by blanks.
    Names,
    /// Ports and ranges such as `80,8000-8010`; may be empty.
    PortRanges,
    /// One or two keys of 128 bits as `xxxxxxxx-xxxxxxxx-xxxxxxxx-xxxxxxxx`; empty means random.
    Keys,
}

/// Type and range of a knob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 0 or 1.
    Bool,
    /// A number in `min..=max`.
    Int {
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
    },
    /// Several numbers, each in `min..=max`. Fewer may be written: the last ones stay as they are.
    Vector {
        /// How many, at most 3.
        len: usize,
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
        /// Whether no number may be smaller than the one before it.
        ordered: bool,
    },
    /// One of these names.
    Choice(&'static [&'static str]),
    /// A text of some form.
    Text(TextForm),
}

impl Kind {
    /// Name of the type, as written in lists.
    pub const fn type_name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int { .. } => "int",
            Self::Vector { len: 2, .. } => "2 ints",
            Self::Vector { .. } => "3 ints",
            Self::Choice(_) => "name",
            Self::Text(TextForm::Names) => "names",
            Self::Text(TextForm::PortRanges) => "port ranges",
            Self::Text(TextForm::Keys) => "keys",
        }
    }

    /// What is allowed, in words that fit behind "is not in".
    pub fn range(self) -> String {
        match self {
            Self::Bool => "0..1".into(),
            Self::Int { min, max } => format!("{min}..{max}"),
            Self::Vector { min, max, ordered, .. } => {
                format!("{min}..{max}{}", if ordered { ", in rising order" } else { "" })
            }
            Self::Choice(names) => names.join(", "),
            Self::Text(TextForm::Names) => "names separated by blanks".into(),
            Self::Text(TextForm::PortRanges) => "ports and ranges such as 80,8000-8010".into(),
            Self::Text(TextForm::Keys) => {
                "one or two keys xxxxxxxx-xxxxxxxx-xxxxxxxx-xxxxxxxx, separated by a comma".into()
            }
        }
    }

    /// Read `text`; `old` supplies the trailing numbers that a vector leaves out.
    pub(super) fn parse(
        self,
        name: &'static str,
        text: &str,
        old: &Value,
    ) -> Result<Value, KnobError> {
        let syntax = |expected: &'static str| KnobError::Syntax {
            name,
            value: quote(text),
            expected,
            range: self.range(),
        };
        let out_of_range = || KnobError::Range { name, value: shown(text), range: self.range() };
        if text.contains('\0') {
            return Err(syntax("text without NUL bytes"));
        }
        if text.len() > TEXT_MAX {
            return Err(syntax("at most 4096 bytes"));
        }
        let words = text.split_ascii_whitespace();
        match self {
            Self::Bool => match one_number(text) {
                Number::Is(n @ 0..=1) => Ok(Value::Int(n)),
                Number::Is(_) | Number::TooLarge => Err(out_of_range()),
                Number::Not => Err(syntax("0 or 1")),
            },
            Self::Int { min, max } => match one_number(text) {
                Number::Is(n) if (min..=max).contains(&n) => Ok(Value::Int(n)),
                Number::Is(_) | Number::TooLarge => Err(out_of_range()),
                Number::Not => Err(syntax("a whole number, decimal or 0x hex")),
            },
            Self::Vector { len, min, max, ordered } => {
                let mut numbers = [0; VECTOR_MAX];
                if let Value::Vector { numbers: before, .. } = old {
                    numbers = *before;
                }
                let mut count = 0;
                for word in words {
                    if count == len {
                        return Err(syntax(if len == 2 {
                            "at most 2 numbers"
                        } else {
                            "at most 3 numbers"
                        }));
                    }
                    numbers[count] = match number(word) {
                        Number::Is(n) if (min..=max).contains(&n) => n,
                        Number::Is(_) | Number::TooLarge => {
                            return Err(KnobError::Range {
                                name,
                                value: shown(word),
                                range: self.range(),
                            });
                        }
                        Number::Not => {
                            return Err(syntax("whole numbers, decimal or 0x hex"));
                        }
                    };
                    count += 1;
                }
                if count == 0 {
                    return Err(syntax("whole numbers, decimal or 0x hex"));
                }
                let value = Value::vector(&numbers[..len]);
                if ordered && numbers[..len].windows(2).any(|w| w[0] > w[1]) {
                    return Err(KnobError::Range {
                        name,
                        value: value.to_string().replace('\t', " "),
                        range: self.range(),
                    });
                }
                Ok(value)
            }
            Self::Choice(names) => {
                let word = text.trim();
                if names.contains(&word) {
                    Ok(Value::Text(word.into()))
                } else {
                    Err(KnobError::Range { name, value: quote(word), range: self.range() })
                }
            }
            Self::Text(form) => {
                let tidy = words.collect::<Vec<_>>().join(" ");
                if form.accepts(&tidy) {
                    Ok(Value::Text(tidy))
                } else {
                    Err(KnobError::Range { name, value: quote(&tidy), range: self.range() })
                }
            }
        }
    }
}

impl TextForm {
    fn accepts(self, text: &str) -> bool {
        match self {
            Self::Names => {
                !text.is_empty()
                    && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_- ".contains(&b))
            }
            Self::PortRanges => text.is_empty() || text.split(',').all(is_port_range),
            Self::Keys => {
                let mut keys = text.split(',');
                text.is_empty() || (keys.by_ref().take(2).all(is_key) && keys.next().is_none())
            }
        }
    }
}

fn is_port_range(text: &str) -> bool {
    let port = |t: &str| {
        t.parse::<u16>().ok().filter(|_| t.bytes().all(|b| b.is_ascii_digit())).map(u32::from)
    };
    match text.split_once('-') {
        Some((first, last)) => matches!((port(first), port(last)), (Some(a), Some(b)) if a <= b),
        None => port(text).is_some(),
    }
}

fn is_key(text: &str) -> bool {
    text.split('-').count() == 4
        && text.split('-').all(|w| w.len() == 8 && w.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// A number as a message repeats it: bare if it is one, in quotes if it is something else.
fn shown(text: &str) -> String {
    let word = text.trim();
    if word.len() <= 24 && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        word.into()
    } else {
        quote(word)
    }
}

enum Number {
    Is(i64),
    TooLarge,
    Not,
}

/// The one number in `text`, with blanks or a newline around it.
fn one_number(text: &str) -> Number {
    let mut words = text.split_ascii_whitespace();
    match (words.next(), words.next()) {
        (Some(word), None) => number(word),
        _ => Number::Not,
    }
}

/// Decimal, `0x` hex, with a leading `-` at will.
fn number(word: &str) -> Number {
    let (negative, digits) = match word.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, word),
    };
    let (radix, digits) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => (16, hex),
        None => (10, digits),
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return Number::Not;
    }
    // Only digits are left, so the one thing that can go wrong is the size.
    match i128::from_str_radix(digits, radix) {
        Ok(n) => match i64::try_from(if negative { -n } else { n }) {
            Ok(n) => Number::Is(n),
            Err(_) => Number::TooLarge,
        },
        Err(_) => Number::TooLarge,
    }
}

/// A value that has passed its knob's checks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// A number or a switch.
    Int(i64),
    /// Two or three numbers; the rest of `numbers` is zero.
    Vector {
        /// The numbers.
        numbers: [i64; VECTOR_MAX],
        /// How many count.
        len: u8,
    },
    /// A name or a list.
    Text(String),
}

impl Value {
    pub(super) fn vector(from: &[i64]) -> Self {
        let mut numbers = [0; VECTOR_MAX];
        for (to, n) in numbers.iter_mut().zip(from) {
            *to = *n;
        }
        Self::Vector { numbers, len: from.len().min(VECTOR_MAX) as u8 }
    }

    /// The number of an `Int`, 0 for other types.
    pub fn int(&self) -> i64 {
        match self {
            Self::Int(n) => *n,
            Self::Vector { .. } | Self::Text(_) => 0,
        }
    }

    /// Number `index` of a `Vector`, 0 for other types or beyond its end.
    pub fn at(&self, index: usize) -> i64 {
        match self {
            Self::Vector { numbers, .. } => numbers.get(index).copied().unwrap_or(0),
            Self::Int(_) | Self::Text(_) => 0,
        }
    }

    /// The text of a `Text`, empty for other types.
    pub fn text(&self) -> &str {
        match self {
            Self::Text(t) => t,
            Self::Int(_) | Self::Vector { .. } => "",
        }
    }
}

/// As `sysctl` prints it: several numbers with tabs between them.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(n) => write!(f, "{n}"),
            Self::Vector { numbers, len } => {
                for (i, n) in numbers.iter().take(usize::from(*len)).enumerate() {
                    if i > 0 {
                        f.write_str("\t")?;
                    }
                    write!(f, "{n}")?;
                }
                Ok(())
            }
            Self::Text(t) => f.write_str(t),
        }
    }
}
