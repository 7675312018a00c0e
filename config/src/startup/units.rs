//! Sizes and times as people write them.

use core::time::Duration;

/// A size in bytes: `4096`, `64K`, `64KiB`, `256MiB`, `1G`; powers of 1024.
pub(crate) fn size(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

/// A time: `250us`, `500ms`, `5s`, `2min`, `1h`; a bare number is in seconds.
pub(crate) fn time(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let micros = match unit {
        "us" => 1,
        "ms" => 1_000,
        "" | "s" => 1_000_000,
        "min" => 60_000_000,
        "h" => 3_600_000_000,
        _ => return None,
    };
    number.checked_mul(micros).map(Duration::from_micros)
}

/// A number and what follows it.
fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    Some((digits.parse().ok()?, unit.trim_start()))
}

/// A size for people: the largest unit that divides it.
pub(crate) fn show_size(bytes: u64) -> String {
    for (shift, unit) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{} {unit}", bytes >> shift);
        }
    }
    format!("{bytes} bytes")
}

/// A list of cores as EAL takes it: `0-3,8`. `None` if it is not one, or longer than `max`.
pub(crate) fn cores(text: &str, max: usize) -> Option<Vec<i64>> {
    let number = |t: &str| {
        let t = t.trim();
        t.bytes().all(|b| b.is_ascii_digit()).then(|| t.parse::<u16>().ok()).flatten()
    };
    let mut list = Vec::new();
    for part in text.split(',') {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if first > last || usize::from(last - first) >= max {
            return None;
        }
        list.extend((first..=last).map(i64::from));
        if list.len() > max {
            return None;
        }
    }
    Some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("4096", Some(4096)),
            ("64K", Some(65_536)),
            ("64KiB", Some(65_536)),
            ("256MiB", Some(268_435_456)),
            ("256 MiB", Some(268_435_456)),
            ("1g", Some(1 << 30)),
            ("", None),
            ("MiB", None),
            ("1.5G", None),
            ("-1", None),
            ("1X", None),
            ("99999999999999999999", None),
            ("18446744073709551615T", None),
        ] {
            assert_eq!(size(text), bytes, "{text}");
        }
        assert_eq!(show_size(256 << 20), "256 MiB");
        assert_eq!(show_size(1000), "1000 bytes");
    }

    #[test]
    fn times() {
        for (text, micros) in [
            ("5", Some(5_000_000)),
            ("5s", Some(5_000_000)),
            ("500ms", Some(500_000)),
            ("1min", Some(60_000_000)),
            ("1h", Some(3_600_000_000)),
            ("30us", Some(30)),
            ("5 parsecs", None),
            ("s", None),
            ("18446744073709551615h", None),
        ] {
            assert_eq!(time(text), micros.map(Duration::from_micros), "{text}");
        }
    }

    #[test]
    fn core_lists() {
        for (text, list) in [
            ("0", Some(vec![0])),
            ("1-3,8", Some(vec![1, 2, 3, 8])),
            ("", None),
            ("a", None),
            ("3-1", None),
            ("0-65535", None),
            ("0-9,0-9,0-9", None),
            ("-1", None),
        ] {
            assert_eq!(cores(text, 16), list, "{text}");
        }
    }
}
