//! The rows, one file per topic, in the order in which they are documented.

mod closing;
mod ecn;
mod mtu;
mod opening;
mod path;
mod receive;
mod recovery;
mod send;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::{Knob, KnobError};
use crate::text::nearest;

/// The topics with their rows, in the order in which they are documented.
pub(crate) const SECTIONS: [(&str, &[Knob]); 8] = [
    ("Path MTU", mtu::ROWS),
    ("Receive memory and window", receive::ROWS),
    ("Sending", send::ROWS),
    ("Loss recovery and round-trip time", recovery::ROWS),
    ("Path selection", path::ROWS),
    ("ECN and parameters of congestion control", ecn::ROWS),
    ("Opening and listening", opening::ROWS),
    ("Closing, keep-alive and limits", closing::ROWS),
];

/// Numbers of type `int` in Linux end here.
const I32_MAX: i64 = i32::MAX as i64;
/// Where Linux allows any `int`.
const I32_MIN: i64 = i32::MIN as i64;
/// Unsigned numbers of 32 bits end here.
const U32_MAX: i64 = u32::MAX as i64;

/// A checked value as an unsigned field. Ranges are within the field's, so nothing is cut; a test
/// sets every knob to both ends of its range and reads it back.
fn to_u32(n: i64) -> u32 {
    u32::try_from(n.max(0)).unwrap_or(u32::MAX)
}

fn to_u16(n: i64) -> u16 {
    u16::try_from(n.max(0)).unwrap_or(u16::MAX)
}

fn to_u8(n: i64) -> u8 {
    u8::try_from(n.max(0)).unwrap_or(u8::MAX)
}

fn to_u64(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

/// A field or an interval as a number of the table.
fn from_u128(n: u128) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// All knobs.
pub fn table() -> &'static [Knob] {
    static TABLE: LazyLock<Vec<Knob>> =
        LazyLock::new(|| SECTIONS.iter().flat_map(|(_, rows)| rows.iter().copied()).collect());
    &TABLE
}

/// Full and last names with the rows that have them.
fn names() -> &'static BTreeMap<&'static str, Vec<usize>> {
    static NAMES: LazyLock<BTreeMap<&'static str, Vec<usize>>> = LazyLock::new(|| {
        let mut names: BTreeMap<&'static str, Vec<usize>> = BTreeMap::new();
        for (i, knob) in table().iter().enumerate() {
            names.entry(knob.name).or_default().push(i);
            names.entry(knob.short_name()).or_default().push(i);
        }
        names
    });
    &NAMES
}

/// The index in [`table`] of the knob called `name`: a full name with dots or slashes, with or
/// without `/proc/sys/` before it, or the last part of one if no other knob has it.
pub fn find(name: &str) -> Result<usize, KnobError> {
    let dotted = name.strip_prefix("/proc/sys/").unwrap_or(name).replace('/', ".");
    match names().get(dotted.as_str()).map(Vec::as_slice) {
        Some([index]) => Ok(*index),
        Some(several) => Err(KnobError::Ambiguous {
            name: name.into(),
            candidates: several.iter().filter_map(|&i| table().get(i)).map(|k| k.name).collect(),
        }),
        None => Err(KnobError::Unknown { name: name.into(), nearest: nearest_full(&dotted) }),
    }
}

/// The full name of the knob whose full or last name is most like `name`.
fn nearest_full(name: &str) -> Option<&'static str> {
    let full = nearest(name, table().iter().map(|k| k.name));
    full.or_else(|| {
        let last = name.rsplit('.').next().unwrap_or(name);
        let short = nearest(last, table().iter().map(Knob::short_name))?;
        names().get(short)?.first().and_then(|&i| table().get(i)).map(|k| k.name)
    })
}
