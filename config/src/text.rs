//! Text that goes into messages, and the search for the name that was meant.

/// Characters of foreign text that a message repeats at most.
const QUOTE_MAX: usize = 60;

/// `text` in quotes, without control characters and not longer than a line.
pub fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for (n, c) in text.chars().enumerate() {
        if n == QUOTE_MAX {
            out.push('\u{2026}');
            break;
        }
        if c.is_control() || c == '"' || c == '\\' {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out.push('"');
    out
}

/// Bytes of a name beyond which no suggestion is looked for: nobody types such a name, and the
/// search is quadratic.
const NEAREST_MAX: usize = 100;

/// The candidate most like `name`, if it is like it at all.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.is_empty() || name.len() > NEAREST_MAX {
        return None;
    }
    candidates
        .into_iter()
        .map(|c| (strsim::damerau_levenshtein(name, c), c))
        // A third of the letters may be wrong; beyond that a suggestion only puzzles.
        .filter(|&(distance, c)| distance * 3 <= name.len().max(c.len()))
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, c)| c)
}

/// Whether `name` matches `pattern`, in which `*` stands for any text and `?` for one character.
pub fn glob(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // Where the last star stood, and from where its match may grow.
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, n));
                p += 1;
            }
            Some(&c) if c == b'?' || c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match retry {
                Some((star, from)) => {
                    retry = Some((star, from + 1));
                    p = star;
                    n = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hide_control_characters_and_cut() {
        assert_eq!(quote("a\0b\n"), "\"a\\u{0}b\\n\"");
        assert!(quote(&"x".repeat(1000)).chars().count() < 70);
    }

    #[test]
    fn nearest_finds_slips_and_nothing_else() {
        let names = ["tcp_sack", "tcp_dsack", "tcp_rmem"];
        assert_eq!(nearest("tcp_scak", names), Some("tcp_sack"));
        assert_eq!(nearest("tcp_rmen", names), Some("tcp_rmem"));
        assert_eq!(nearest("vm.swappiness", names), None);
        assert_eq!(nearest("", names), None);
    }

    #[test]
    fn globs() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*c", "abc", true),
            ("a*c", "abcc", true),
            ("a*c", "abcd", false),
            ("*rmem*", "net.ipv4.tcp_rmem", true),
            ("net.ipv?.tcp_*", "net.ipv4.tcp_sack", true),
            ("**", "x", true),
        ] {
            assert_eq!(glob(pattern, name), expected, "{pattern} {name}");
        }
    }
}
