//! Values of the subset.

use core::cmp::Ordering;
use core::fmt;

/// A value of the subset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `None`.
    None,
    /// `True`, `False`.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// A fraction that is not written as an integer; lowest terms, the denominator positive.
    Ratio {
        /// Numerator.
        num: i128,
        /// Denominator.
        den: i128,
    },
    /// Text.
    Text(String),
    /// A tuple.
    Tuple(Vec<Self>),
}

/// Places after the point that a fraction prints with; a double has about as many.
const DIGITS: u32 = 16;

impl Value {
    /// Python's truth.
    pub fn truth(&self) -> bool {
        match self {
            Self::None => false,
            Self::Bool(b) => *b,
            Self::Int(n) => *n != 0,
            Self::Ratio { num, .. } => *num != 0,
            Self::Text(text) => !text.is_empty(),
            Self::Tuple(items) => !items.is_empty(),
        }
    }

    /// The fraction `num / den` in lowest terms. `None` when `den` is zero or it does not fit.
    pub fn ratio(num: i128, den: i128) -> Option<Self> {
        if den == 0 {
            return None;
        }
        let gcd = i128::try_from(gcd(num.unsigned_abs(), den.unsigned_abs())).ok()?;
        let (num, den) = (num.checked_div(gcd)?, den.checked_div(gcd)?);
        let (num, den) =
            if den < 0 { (num.checked_neg()?, den.checked_neg()?) } else { (num, den) };
        Some(Self::Ratio { num, den })
    }

    /// The value as a fraction, if it is a number; a Boolean counts as 0 or 1.
    pub fn as_ratio(&self) -> Option<(i128, i128)> {
        match self {
            Self::Bool(b) => Some((i128::from(*b), 1)),
            Self::Int(n) => Some((*n, 1)),
            Self::Ratio { num, den } => Some((*num, *den)),
            _ => None,
        }
    }

    /// The value as an integer, if it is one; a Boolean counts as 0 or 1.
    pub fn as_int(&self) -> Option<i128> {
        match self {
            Self::Bool(b) => Some(i128::from(*b)),
            Self::Int(n) => Some(*n),
            _ => None,
        }
    }

    /// How two values compare; `None` when Python would refuse, or when it does not fit.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => Some(a.cmp(b)),
            (Self::Tuple(a), Self::Tuple(b)) => {
                for (x, y) in a.iter().zip(b) {
                    match x.compare(y)? {
                        Ordering::Equal => {}
                        unequal => return Some(unequal),
                    }
                }
                Some(a.len().cmp(&b.len()))
            }
            _ => {
                let (a, b) = (self.as_ratio()?, other.as_ratio()?);
                Some(a.0.checked_mul(b.1)?.cmp(&b.0.checked_mul(a.1)?))
            }
        }
    }

    /// Python's `==`: values of different kinds are unequal and never an error.
    pub fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, Self::None) => true,
            (Self::Tuple(a), Self::Tuple(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.equals(y))
            }
            // Lowest terms are unique.
            _ => match (self.as_ratio(), other.as_ratio()) {
                (Some(a), Some(b)) => a == b,
                _ => self.compare(other) == Some(Ordering::Equal),
            },
        }
    }

    /// Python's name of its type.
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::None => "NoneType",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Ratio { .. } => "float",
            Self::Text(_) => "str",
            Self::Tuple(_) => "tuple",
        }
    }

    /// As `repr` has it: text in quotes.
    pub fn repr(&self) -> String {
        match self {
            Self::Text(text) => {
                let escaped = text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n");
                format!("'{escaped}'")
            }
            other => other.to_string(),
        }
    }

    /// With exactly `places` digits after the point, halves to even. `None` when it is no number or
    /// does not fit.
    pub fn fixed(&self, places: u32) -> Option<String> {
        let (num, den) = self.as_ratio()?;
        let scaled = round_half_even(num.checked_mul(10_i128.checked_pow(places)?)?, den)?;
        let digits = scaled.unsigned_abs().to_string();
        let width = usize::try_from(places).ok()?;
        let digits = format!("{digits:0>width$}", width = width.checked_add(1)?);
        let (whole, rest) = digits.split_at(digits.len().checked_sub(width)?);
        let sign = if num < 0 { "-" } else { "" };
        Some(if places == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{rest}") })
    }
}

/// The integer nearest to `num / den`, halves to even; `den` is positive.
pub(super) fn round_half_even(num: i128, den: i128) -> Option<i128> {
    let floor = num.checked_div_euclid(den)?;
    let rest = num.checked_rem_euclid(den)?;
    Some(match rest.checked_mul(2)?.cmp(&den) {
        Ordering::Less => floor,
        Ordering::Greater => floor.checked_add(1)?,
        Ordering::Equal => floor.checked_add(floor & 1)?,
    })
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Bool(true) => f.write_str("True"),
            Self::Bool(false) => f.write_str("False"),
            Self::Int(n) => write!(f, "{n}"),
            Self::Ratio { num, den } => {
                // As many digits as fit.
                let text = (1..=DIGITS).rev().find_map(|places| self.fixed(places));
                match text {
                    Some(text) => {
                        let short = text.trim_end_matches('0');
                        let zero = if short.ends_with('.') { "0" } else { "" };
                        write!(f, "{short}{zero}")
                    }
                    None => write!(f, "{num}/{den}"),
                }
            }
            Self::Text(text) => f.write_str(text),
            Self::Tuple(items) => {
                f.write_str("(")?;
                for (index, item) in items.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{}", item.repr())?;
                }
                f.write_str(if items.len() == 1 { ",)" } else { ")" })
            }
        }
    }
}
