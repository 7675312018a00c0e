//! Types and codes of ICMP by name.

/// Which ICMP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IcmpFamily {
    /// ICMP for IPv4, RFC 792.
    V4,
    /// ICMP for IPv6, RFC 4443.
    V6,
}

struct Kind {
    name: &'static str,
    number: u8,
    codes: &'static [(&'static str, u8)],
}

const fn kind(name: &'static str, number: u8, codes: &'static [(&'static str, u8)]) -> Kind {
    Kind { name, number, codes }
}

const V4: &[Kind] = &[
    kind("echo_reply", 0, &[]),
    kind(
        "unreachable",
        3,
        &[
            ("net_unreachable", 0),
            ("host_unreachable", 1),
            ("protocol_unreachable", 2),
            ("port_unreachable", 3),
            ("frag_needed", 4),
            ("source_route_failed", 5),
            ("net_unknown", 6),
            ("host_unknown", 7),
            ("source_host_isolated", 8),
            ("net_prohibited", 9),
            ("host_prohibited", 10),
            ("net_unreachable_for_tos", 11),
            ("host_unreachable_for_tos", 12),
            ("packet_filtered", 13),
            ("precedence_violation", 14),
            ("precedence_cutoff", 15),
        ],
    ),
    kind("source_quench", 4, &[]),
    kind("redirect", 5, &[("net", 0), ("host", 1), ("net_for_tos", 2), ("host_for_tos", 3)]),
    kind("echo_request", 8, &[]),
    kind("time_exceeded", 11, &[("ttl_exceeded", 0), ("fragment_reassembly_exceeded", 1)]),
    kind("parameter_problem", 12, &[("pointer", 0), ("missing_option", 1), ("bad_length", 2)]),
    kind("timestamp_request", 13, &[]),
    kind("timestamp_reply", 14, &[]),
    kind("information_request", 15, &[]),
    kind("information_reply", 16, &[]),
    kind("address_mask_request", 17, &[]),
    kind("address_mask_reply", 18, &[]),
];

const V6: &[Kind] = &[
    kind(
        "unreachable",
        1,
        &[
            // Two names for one code; the first is what reports print.
            ("net_unreachable", 0),
            ("no_route", 0),
            ("admin_prohibited", 1),
            ("not_neighbour", 2),
            ("address_unreachable", 3),
            ("port_unreachable", 4),
        ],
    ),
    kind("packet_too_big", 2, &[]),
    kind("time_exceeded", 3, &[("exceeded_hop_limit", 0), ("exceeded_frag_time", 1)]),
    kind(
        "parameter_problem",
        4,
        &[("header_field", 0), ("unknown_next_header", 1), ("unknown_option", 2)],
    ),
    kind("echo_request", 128, &[]),
    kind("echo_reply", 129, &[]),
];

const fn kinds(family: IcmpFamily) -> &'static [Kind] {
    match family {
        IcmpFamily::V4 => V4,
        IcmpFamily::V6 => V6,
    }
}

/// The number of a type.
pub fn icmp_type(family: IcmpFamily, name: &str) -> Option<u8> {
    kinds(family).iter().find(|kind| kind.name == name).map(|kind| kind.number)
}

/// The number of a code of a type.
pub fn icmp_code(family: IcmpFamily, kind: &str, code: &str) -> Option<u8> {
    let kind = kinds(family).iter().find(|known| known.name == kind)?;
    kind.codes.iter().find(|(name, _)| *name == code).map(|(_, number)| *number)
}

/// The name of a type, for reports.
pub fn icmp_type_name(family: IcmpFamily, number: u8) -> Option<&'static str> {
    kinds(family).iter().find(|kind| kind.number == number).map(|kind| kind.name)
}

/// The name of a code of a type, for reports; none where codes have no names.
pub fn icmp_code_name(family: IcmpFamily, kind: u8, code: u8) -> Option<&'static str> {
    let kind = kinds(family).iter().find(|known| known.number == kind)?;
    kind.codes.iter().find(|(_, number)| *number == code).map(|(name, _)| *name)
}

/// Whether either ICMP has a type of this name.
pub fn is_icmp_type(name: &str) -> bool {
    icmp_type(IcmpFamily::V4, name).or(icmp_type(IcmpFamily::V6, name)).is_some()
}

/// Whether either ICMP has a code of this name for a type of that one.
pub fn is_icmp_code(kind: &str, code: &str) -> bool {
    icmp_code(IcmpFamily::V4, kind, code).or(icmp_code(IcmpFamily::V6, kind, code)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_means_different_numbers_in_the_two_families() {
        for (family, kind, code, expected) in [
            (IcmpFamily::V4, "unreachable", "port_unreachable", (Some(3), Some(3))),
            (IcmpFamily::V6, "unreachable", "port_unreachable", (Some(1), Some(4))),
            (IcmpFamily::V4, "unreachable", "frag_needed", (Some(3), Some(4))),
            (IcmpFamily::V6, "unreachable", "frag_needed", (Some(1), None)),
            (IcmpFamily::V4, "packet_too_big", "", (None, None)),
        ] {
            let found = (icmp_type(family, kind), icmp_code(family, kind, code));
            assert_eq!(found, expected, "{family:?} {kind} {code}");
        }
        assert_eq!(icmp_type_name(IcmpFamily::V6, 2), Some("packet_too_big"));
        assert_eq!(icmp_code_name(IcmpFamily::V4, 3, 1), Some("host_unreachable"));
        assert!(is_icmp_code("unreachable", "no_route") && !is_icmp_code("redirect", "no_route"));
    }
}
