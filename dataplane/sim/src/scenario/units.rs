//! Numbers with units, as people write them in scenario files and paths.
//!
//! A unit is mandatory where there is one; only zero needs none. Numbers may have a fraction
//! (`0.5ms`, `1.5MiB`) and are computed without rounding errors.

use core::time::Duration;

use base::Rate;
use config::{nearest, quote};

use crate::link::{Room, Share};

/// The longest time that a file may name.
pub const TIME_MAX: Duration = Duration::from_secs(24 * 3600);
/// The largest amount of bytes that a file may name.
pub const SIZE_MAX_BYTES: u64 = 1 << 40;
/// The highest rate that a file may name, in bits per second.
pub const RATE_MAX_BITS: u64 = 100_000_000_000_000;
/// The largest queue in packets that a file may name.
pub const PACKETS_MAX: u32 = 10_000_000;

/// Digits of a number before its point, and behind it.
const DIGITS_MAX: usize = 18;
const FRACTION_MAX: usize = 12;

const TIMES: &[(&str, u128)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
const SIZES: &[(&str, u128)] = &[
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];
/// In bits per second.
const RATES: &[(&str, u128)] = &[
    ("bit", 1),
    ("kbit", 1_000),
    ("Mbit", 1_000_000),
    ("Gbit", 1_000_000_000),
    ("Tbit", 1_000_000_000_000),
];
/// In millionths.
const SHARES: &[(&str, u128)] = &[("%", 10_000), ("", 1_000_000)];
const PACKETS: &[(&str, u128)] = &[("pkt", 1)];

/// A decimal number without a sign: `digits / 10^scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decimal {
    digits: u128,
    scale: u32,
}

/// A number and the word behind it.
fn split(text: &str) -> Result<(Decimal, &str), String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let shown = || quote(text);
    if text.starts_with('-') {
        return Err(format!("{} is negative", shown()));
    }
    if whole.is_empty() || fraction.contains('.') || number.ends_with('.') {
        return Err(format!("{} does not begin with a number", shown()));
    }
    if whole.len() > DIGITS_MAX || fraction.len() > FRACTION_MAX {
        return Err(format!("{} has too many digits", shown()));
    }
    let mut digits: u128 = 0;
    for byte in whole.bytes().chain(fraction.bytes()) {
        digits = digits * 10 + u128::from(byte - b'0');
    }
    Ok((Decimal { digits, scale: fraction.len() as u32 }, unit.trim()))
}

/// How a kind of number is explained to whoever got one wrong.
struct Kind {
    /// With its article.
    what: &'static str,
    example: &'static str,
    units: &'static [(&'static str, u128)],
}

impl Kind {
    fn allowed(&self) -> String {
        let units: Vec<_> = self.units.iter().map(|(unit, _)| *unit).collect();
        format!("{} such as {:?} (units: {})", self.what, self.example, units.join(", "))
    }

    /// The number in the smallest unit, rounded down; an error if that leaves nothing of it.
    fn parse(&self, text: &str) -> Result<u128, String> {
        let (number, unit) =
            split(text).map_err(|why| format!("{why}: write {}", self.allowed()))?;
        let factor = match self.units.iter().find(|(name, _)| *name == unit) {
            Some((_, factor)) => *factor,
            None if unit.is_empty() && number.digits == 0 => return Ok(0),
            None if unit.is_empty() => {
                return Err(format!(
                    "{} has no unit: write {}",
                    quote(text.trim()),
                    self.allowed()
                ));
            }
            None => {
                let names = || self.units.iter().map(|(name, _)| *name);
                let begins = |name: &&str| {
                    name.get(..unit.len()).is_some_and(|part| part.eq_ignore_ascii_case(unit))
                };
                let near = names().find(begins).or_else(|| nearest(unit, names()));
                let meant = near.map(|near| format!(", did you mean {near}?")).unwrap_or_default();
                let shown = quote(text.trim());
                let why = format!("{shown} has an unknown unit{meant}: write {}", self.allowed());
                return Err(why);
            }
        };
        // At most 30 digits and a factor of 13: within 128 bits but for the largest of both.
        let product = number.digits.checked_mul(factor);
        let value = product.map(|product| product / 10u128.pow(number.scale));
        match value {
            None => Err(format!("{} is too large", quote(text.trim()))),
            Some(0) if number.digits > 0 => {
                Err(format!("{} is less than can be told from zero", quote(text.trim())))
            }
            Some(value) => Ok(value),
        }
    }
}

const TIME: Kind = Kind { what: "a time", example: "50ms", units: TIMES };
const SIZE: Kind = Kind { what: "a size", example: "64KiB", units: SIZES };
const RATE: Kind = Kind { what: "a rate", example: "100Mbit", units: RATES };
const SHARE: Kind = Kind { what: "a share", example: "1%", units: &[("%", 10_000)] };
const PACKET: Kind = Kind { what: "a number of packets", example: "65pkt", units: PACKETS };

/// A time: `50ms`, `0.5s`, `2min`; at most [`TIME_MAX`].
///
/// # Errors
///
/// What is wrong, and what is allowed.
pub fn time(text: &str) -> Result<Duration, String> {
    let nanos = TIME.parse(text)?;
    match u64::try_from(nanos).map(Duration::from_nanos) {
        Ok(time) if time <= TIME_MAX => Ok(time),
        _ => Err(format!("{} is longer than a day", quote(text.trim()))),
    }
}

/// A size in bytes: `1500B`, `64KiB`, `1.5MB`; at most [`SIZE_MAX_BYTES`].
///
/// # Errors
///
/// What is wrong, and what is allowed.
pub fn size(text: &str) -> Result<u64, String> {
    let bytes = SIZE.parse(text)?;
    match u64::try_from(bytes) {
        Ok(bytes) if bytes <= SIZE_MAX_BYTES => Ok(bytes),
        _ => Err(format!("{} is more than 1024 GiB", quote(text.trim()))),
    }
}

/// A rate in bits per second: `256kbit`, `2.5Gbit`, or `unlimited`. At least one byte per second.
///
/// # Errors
///
/// What is wrong, and what is allowed.
pub fn rate(text: &str) -> Result<Rate, String> {
    if text.trim() == "unlimited" {
        return Ok(Rate::UNLIMITED);
    }
    match bits(text)? {
        bits if bits < 8 => Err(format!("{} is less than 8bit", quote(text.trim()))),
        bits => Ok(Rate::from_bits_per_sec(bits)),
    }
}

/// A rate as a number of bits per second, at most [`RATE_MAX_BITS`].
///
/// # Errors
///
/// What is wrong, and what is allowed.
pub fn bits(text: &str) -> Result<u64, String> {
    match u64::try_from(RATE.parse(text)?) {
        Ok(bits) if bits <= RATE_MAX_BITS => Ok(bits),
        _ => Err(format!("{} is more than 100Tbit", quote(text.trim()))),
    }
}

/// A share of all: `1%`, `0.01`; from nothing to all.
///
/// # Errors
///
/// What is wrong, and what is allowed.
pub fn share(text: &str) -> Result<Share, String> {
    let (_, unit) = split(text).map_err(|why| format!("{why}: write {}", SHARE.allowed()))?;
    let kind = if unit.is_empty() { Kind { units: SHARES, ..SHARE } } else { SHARE };
    let ppm = kind.parse(text)?;
    match u32::try_from(ppm) {
        Ok(ppm) if ppm <= Share::ALL.ppm() => Ok(Share::from_ppm(ppm)),
        _ => Err(format!("{} is more than all (100%, or 1)", quote(text.trim()))),
    }
}

/// A number of packets: `65pkt`; at most [`PACKETS_MAX`].
///
/// # Errors
///
/// What is wrong, and what is allowed.
pub fn packets(text: &str) -> Result<u32, String> {
    let packets = PACKET.parse(text)?;
    match u32::try_from(packets) {
        Ok(packets) if packets <= PACKETS_MAX => Ok(packets),
        _ => Err(format!("{} is more than {PACKETS_MAX}pkt", quote(text.trim()))),
    }
}

/// What a queue holds: a size or a number of packets.
///
/// # Errors
///
/// What is wrong, and what is allowed.
pub fn room(text: &str) -> Result<Room, String> {
    if text.trim().ends_with("pkt") {
        return packets(text).map(Room::Packets);
    }
    let (number, unit) =
        split(text).map_err(|why| format!("{why}: write a size such as \"64KiB\" or \"65pkt\""))?;
    if unit.is_empty() && number.digits > 0 {
        return Err(format!(
            "{} has no unit: write a size such as \"64KiB\" or \"65pkt\" (units: B, KiB, MiB, GiB, kB, MB, \
             GB, pkt)",
            quote(text.trim())
        ));
    }
    size(text).map(Room::Bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times() {
        for (text, nanos) in [
            ("50ms", 50_000_000),
            ("25us", 25_000),
            (" 0.5 ms ", 500_000),
            ("1.5s", 1_500_000_000),
            ("2min", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("0", 0),
            ("0s", 0),
            ("0.000001ms", 1),
        ] {
            assert_eq!(time(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn sizes_rates_shares_and_packets() {
        assert_eq!(size("64KiB"), Ok(65_536));
        assert_eq!(size("1.5MB"), Ok(1_500_000));
        assert_eq!(size("1GiB"), Ok(1 << 30));
        assert_eq!(rate("100Mbit"), Ok(Rate::from_bits_per_sec(100_000_000)));
        assert_eq!(rate("1.8Gbit"), Ok(Rate::from_bits_per_sec(1_800_000_000)));
        assert_eq!(rate("unlimited"), Ok(Rate::UNLIMITED));
        assert_eq!(share("1%"), Ok(Share::percent(1)));
        assert_eq!(share("0.01"), Ok(Share::percent(1)));
        assert_eq!(share("0.01%"), Ok(Share::from_ppm(100)));
        assert_eq!(share("1"), Ok(Share::ALL));
        assert_eq!(share("100%"), Ok(Share::ALL));
        assert_eq!(share("0"), Ok(Share::ZERO));
        assert_eq!(room("65pkt"), Ok(Room::Packets(65)));
        assert_eq!(room("512KiB"), Ok(Room::Bytes(524_288)));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let err = |result: Result<u64, String>| result.unwrap_err();
        let nanos = |t: &str| err(time(t).map(|d| d.as_secs()));
        for (message, expected) in [
            (nanos("50"), "\"50\" has no unit: write a time such as \"50ms\""),
            (nanos("50msec"), "\"50msec\" has an unknown unit: write a time such"),
            (nanos("5parsecs"), "units: ns, us, ms, s, min, h"),
            (nanos("ms"), "\"ms\" does not begin with a number"),
            (nanos("-1ms"), "\"-1ms\" is negative"),
            (nanos("1.2.3s"), "does not begin with a number"),
            (nanos("1000h"), "longer than a day"),
            (nanos("0.0000000001s"), "less than can be told from zero"),
            (nanos("1e3ms"), "unknown unit"),
            (nanos("9999999999999999999999s"), "too many digits"),
            (err(size("64K")), "\"64K\" has an unknown unit, did you mean KiB?"),
            (err(size("99999999GiB")), "more than 1024 GiB"),
            (
                err(rate("100mbit").map(|_| 0)),
                "\"100mbit\" has an unknown unit, did you mean Mbit?",
            ),
            (err(rate("1bit").map(|_| 0)), "less than 8bit"),
            (err(rate("101Tbit").map(|_| 0)), "more than 100Tbit"),
            (err(share("101%").map(|_| 0)), "more than all"),
            (err(share("2").map(|_| 0)), "more than all"),
            (err(share("1ppm").map(|_| 0)), "units: %"),
            (err(room("64").map(|_| 0)), "\"64\" has no unit"),
            (err(room("0.5pkt").map(|_| 0)), "less than can be told"),
        ] {
            assert!(message.contains(expected), "{message} / {expected}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_number_or_an_error(text in "\\PC*") {
            let _ = (time(&text), size(&text), rate(&text), share(&text), room(&text));
        }

        #[test]
        fn any_number_with_a_unit_is_a_number_or_an_error(
            number in "[0-9]{0,20}[.]?[0-9]{0,14}", unit in "(ns|us|ms|s|min|h|B|KiB|GB|bit|Tbit|%|pkt)?",
        ) {
            let text = format!("{number}{unit}");
            let _ = (time(&text), size(&text), rate(&text), share(&text), room(&text));
        }
    }
}
