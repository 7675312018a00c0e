//! Numbers of ICMP messages, which differ between the two versions.

use super::lang::ast::Icmp;
use super::lang::symbols::{IcmpFamily, icmp_code, icmp_type};

/// Type and code of a message; `None`: this version of ICMP has no such message.
pub(super) fn number(message: &Icmp, v6: bool) -> Option<(u8, u8)> {
    let family = if v6 { IcmpFamily::V6 } else { IcmpFamily::V4 };
    let kind = icmp_type(family, &message.kind)?;
    let code = match &message.code {
        Some(code) => icmp_code(family, &message.kind, code)?,
        None => 0,
    };
    Some((kind, code))
}
