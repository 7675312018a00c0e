//! Numbers as people type them.

/// A decimal number, a fraction allowed, with one letter of K M G T as powers of `power`. Whatever
/// would be behind the letter is an error, as since 3.20 of the original.
pub(crate) fn number(text: &str, power: u64) -> Option<u64> {
    let (digits, factor) = match text.chars().last()? {
        c if c.is_ascii_digit() => (text, 1),
        c => {
            let exponent = "kmgt".find(c.to_ascii_lowercase())? as u32 + 1;
            (&text[..text.len() - c.len_utf8()], power.checked_pow(exponent)?)
        }
    };
    match digits.split_once('.') {
        None => digits.parse::<u64>().ok()?.checked_mul(factor),
        Some((whole, fraction)) => {
            let whole = whole.parse::<u64>().ok()?.checked_mul(factor)?;
            let scale = 10u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
            let part =
                u128::from(fraction.parse::<u64>().ok()?) * u128::from(factor) / u128::from(scale);
            whole.checked_add(u64::try_from(part).ok()?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn suffixes_are_powers() {
        for (text, power, expected) in [
            ("10", 1024, Some(10)),
            ("1K", 1024, Some(1024)),
            ("1.5M", 1024, Some(1_572_864)),
            ("10g", 1000, Some(10_000_000_000)),
            ("2T", 1000, Some(2_000_000_000_000)),
            ("0.1k", 1000, Some(100)),
            ("", 1024, None),
            ("K", 1024, None),
            ("-1", 1024, None),
            ("1MB", 1024, None),
            ("1x", 1024, None),
            ("1é", 1024, None),
            ("99999999999999999999", 1024, None),
            ("18446744073709551615T", 1024, None),
        ] {
            assert_eq!(number(text, power), expected, "{text}");
        }
    }
}
