//! Names that scripts use for numbers, with the values of Linux.

mod icmp;
mod tables;

pub use icmp::{
    IcmpFamily, icmp_code, icmp_code_name, icmp_type, icmp_type_name, is_icmp_code, is_icmp_type,
};
use tables::{ERRNOS, SYMBOLS};

/// The value of a symbol such as `SO_REUSEADDR` or, since `SO_ERROR` stores them, `ECONNREFUSED`.
pub fn value(name: &str) -> Option<i64> {
    let symbol = SYMBOLS.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    symbol.or_else(|| errno(name).map(i64::from))
}

/// The number of an error such as `EAGAIN`.
pub fn errno(name: &str) -> Option<i32> {
    ERRNOS.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// The name of an error number, for reports.
pub fn errno_name(number: i32) -> Option<&'static str> {
    ERRNOS.iter().find(|(_, value)| *value == number).map(|(known, _)| *known)
}

/// The names of the bits of a mask among the symbols that begin with `prefix`, joined by `|`; what
/// has no name follows in hexadecimal. For reports: `EPOLLIN|EPOLLOUT`.
pub fn mask_names(prefix: &str, mask: i64) -> String {
    let mut rest = mask;
    let mut names: Vec<String> = Vec::new();
    for (name, value) in SYMBOLS {
        let single = value.count_ones() == 1;
        if name.starts_with(prefix) && single && rest & value != 0 {
            names.push((*name).into());
            rest &= !value;
        }
    }
    if rest != 0 || names.is_empty() {
        names.push(if rest == 0 { "0".into() } else { format!("{rest:#x}") });
    }
    names.join("|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = SYMBOLS.iter().map(|(name, _)| *name).collect();
        names.extend(ERRNOS.iter().map(|(name, _)| *name));
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn a_few_values_are_linux() {
        for (name, expected) in [
            ("SO_ZEROCOPY", 60),
            ("TCP_USER_TIMEOUT", 18),
            ("MSG_FASTOPEN", 0x2000_0000),
            ("EPOLLET", 0x8000_0000),
            ("O_NONBLOCK", 0o4000),
            ("IPPROTO_IPV6", 41),
            ("TCP_CLOSING", 11),
            ("TCP_INFINITE_SSTHRESH", 0x7fff_ffff),
            ("ECONNREFUSED", 111),
        ] {
            assert_eq!(value(name), Some(expected), "{name}");
        }
        assert_eq!(value("SO_NONSENSE"), None);
        assert_eq!(errno("EINPROGRESS"), Some(115));
        assert_eq!(errno("EWOULDBLOCK"), errno("EAGAIN"));
        assert_eq!(errno_name(11), Some("EAGAIN"));
        assert_eq!(errno_name(0), None);
    }

    #[test]
    fn masks_print_as_a_script_writes_them() {
        assert_eq!(mask_names("EPOLL", 5), "EPOLLIN|EPOLLOUT");
        assert_eq!(mask_names("POLL", 0), "0");
        assert_eq!(mask_names("POLL", 0x4001), "POLLIN|0x4000");
    }
}
