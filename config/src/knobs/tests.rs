use std::collections::BTreeSet;

use proptest::prelude::*;
use stack::{Limits, StackParams};
use tcp::TcpParams;
use tcp::params::CongestionAlgorithm;

use super::*;

fn linux() -> Knobs {
    Knobs::new(Profile::Linux)
}

#[test]
fn names_are_unique_and_every_row_is_documented() {
    let mut names = BTreeSet::new();
    for knob in table() {
        assert!(names.insert(knob.name), "{} has two rows", knob.name);
        assert!(knob.name.starts_with("net.") || knob.name.starts_with("millrace."));
        assert!(knob.doc.ends_with('.') || knob.doc.ends_with(')'), "{}", knob.name);
        assert!(!knob.doc.contains("  "), "{}", knob.name);
    }
}

#[test]
fn defaults_pass_their_own_checks() {
    for profile in Profile::ALL {
        let knobs = Knobs::new(profile);
        for knob in table() {
            let value = knob.default_value(profile);
            let parsed = knob.kind.parse(knob.name, &value.to_string(), &value);
            assert_eq!(parsed.as_ref(), Ok(&value), "{}", knob.name);
            assert_eq!(knobs.value(knob.name), Ok(&value));
        }
        assert!(knobs.diff().is_empty());
    }
}

#[test]
fn the_linux_profile_is_the_default_of_the_parameters() {
    assert_eq!(linux().to_params(0), StackParams::default());
    let mut limits = Limits::default();
    linux().apply_limits(&mut limits);
    assert_eq!(limits, Limits::default());
    assert_eq!(linux().to_params(7).generation, 7);
}

#[test]
fn the_profiles_differ_in_the_documented_rows_only() {
    let differ: Vec<&str> =
        table().iter().filter(|k| k.linux != k.millrace).map(|k| k.name).collect();
    assert_eq!(
        differ,
        [
            "net.ipv4.tcp_mtu_probing",
            "millrace.mtu_search",
            "millrace.mtu_start",
            "millrace.mtu_blackhole_rtos",
            "net.ipv4.tcp_notsent_lowat",
            "millrace.rehash_policy",
            "millrace.require_timestamps",
            "net.ipv4.tcp_tw_reuse",
        ]
    );
}

#[test]
fn congestion_control_lists_what_exists() {
    let names: Vec<&str> = CongestionAlgorithm::ALL.iter().map(|(name, _)| *name).collect();
    assert_eq!(linux().get("tcp_available_congestion_control"), Ok(names.join(" ")));
    for (name, algorithm) in CongestionAlgorithm::ALL {
        let mut knobs = linux();
        knobs.set("tcp_congestion_control", name, Source::Runtime).unwrap();
        assert_eq!(knobs.to_params(0).tcp.congestion, algorithm);
    }
}

/// Texts that a knob accepts: its default, both ends, all names.
fn samples(knob: &Knob) -> Vec<String> {
    match knob.kind {
        Kind::Bool => vec!["0".into(), "1".into()],
        Kind::Int { min, max } => vec![min.to_string(), max.to_string()],
        Kind::Vector { len, min, max, .. } => {
            let all = |n: i64| vec![n.to_string(); len].join("\t");
            let mut rising = vec![min.to_string(); len];
            rising[len - 1] = max.to_string();
            vec![all(min), all(max), rising.join("\t")]
        }
        Kind::Choice(names) => names.iter().map(|n| (*n).into()).collect(),
        Kind::Text(TextForm::Names) => vec!["cubic".into()],
        Kind::Text(TextForm::PortRanges) => vec![String::new(), "80,8000-8010".into()],
        Kind::Text(TextForm::Keys) => vec!["00112233-44556677-8899aabb-ccddeeff".into()],
    }
}

#[test]
fn both_ends_of_every_range_reach_the_parameters_unchanged() {
    for knob in table() {
        for text in samples(knob) {
            let value = knob.kind.parse(knob.name, &text, &knob.default_value(Profile::Linux));
            let value = value.unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(value.to_string(), text, "{}", knob.name);
            match knob.effect {
                Effect::Params { set, get } => {
                    let mut params = StackParams::default();
                    set(&mut params, &value);
                    assert_eq!(get(&params), value, "{}", knob.name);
                }
                Effect::Limits { set, get } => {
                    let mut limits = Limits::default();
                    set(&mut limits, &value);
                    assert_eq!(get(&limits), value, "{}", knob.name);
                }
                Effect::Stored | Effect::ReadOnly => {}
            }
        }
    }
}

/// Every field that a knob may reach, by name. Destructured without `..`, so that a new field does
/// not compile before it has a row, or is excused here.
fn fields(params: &StackParams) -> Vec<(&'static str, String)> {
    let StackParams {
        generation: _, // Not a knob: counts the changes.
        tcp,
        local_port_range,
        ttl,
        somaxconn,
        icmp_ratelimit,
        icmp_msgs_per_sec,
        neighbor_reachable,
        gso_max,
        max_orphans,
    } = params;
    let TcpParams {
        rmem,
        wmem,
        rmem_max,
        wmem_max,
        moderate_rcvbuf,
        autotuning,
        rcvbuf_low_rtt,
        app_win,
        window_scaling,
        timestamps,
        timestamp_offset,
        require_timestamps,
        sack,
        dsack,
        congestion,
        initial_cwnd,
        slow_start_after_idle,
        rto_min,
        rto_max,
        rto_initial,
        reordering,
        max_reordering,
        recovery,
        ecn,
        ecn_fallback,
        dctcp_shift_g,
        dctcp_alpha_on_init,
        frto,
        early_retrans,
        retries1,
        retries2,
        orphan_retries,
        syn_retries,
        syn_linear_timeouts,
        synack_retries,
        abort_on_overflow,
        fin_timeout,
        time_wait,
        tw_reuse,
        tw_reuse_delay,
        rfc1337,
        keepalive_time,
        keepalive_interval,
        keepalive_probes,
        user_timeout,
        user_timeout_option,
        user_timeout_limits,
        invalid_ratelimit,
        challenge_ack_limit,
        min_snd_mss,
        min_tso_segs,
        tso_rtt_log,
        pacing_ss_ratio,
        pacing_ca_ratio,
        tso_win_divisor,
        delack_max,
        delack_min,
        notsent_lowat,
        shrink_window: _, // Reserved: the engine never shrinks, so its knob is only stored.
    } = tcp;
    macro_rules! rows {
        ($($field:ident)*) => { vec![$((stringify!($field), format!("{:?}", $field))),*] };
    }
    rows!(local_port_range ttl somaxconn icmp_ratelimit icmp_msgs_per_sec neighbor_reachable
        gso_max max_orphans rmem wmem rmem_max wmem_max moderate_rcvbuf autotuning rcvbuf_low_rtt app_win window_scaling timestamps
        timestamp_offset require_timestamps sack dsack congestion initial_cwnd slow_start_after_idle rto_min rto_max
        rto_initial reordering max_reordering recovery ecn ecn_fallback dctcp_shift_g dctcp_alpha_on_init frto early_retrans retries1 retries2 orphan_retries syn_retries
        syn_linear_timeouts synack_retries abort_on_overflow fin_timeout time_wait tw_reuse
        user_timeout user_timeout_option user_timeout_limits tw_reuse_delay rfc1337 keepalive_time keepalive_interval keepalive_probes
        invalid_ratelimit challenge_ack_limit min_snd_mss min_tso_segs tso_rtt_log pacing_ss_ratio pacing_ca_ratio tso_win_divisor delack_max
        delack_min notsent_lowat)
}

#[test]
fn every_parameter_is_reached_by_exactly_one_row() {
    let before = fields(&StackParams::default());
    let mut reached: BTreeSet<&str> = BTreeSet::new();
    for knob in table() {
        let Effect::Params { set, .. } = knob.effect else { continue };
        let mut touched: BTreeSet<&str> = BTreeSet::new();
        for text in samples(knob) {
            let value =
                knob.kind.parse(knob.name, &text, &knob.default_value(Profile::Linux)).unwrap();
            let mut params = StackParams::default();
            set(&mut params, &value);
            let after = fields(&params);
            touched.extend(
                before.iter().zip(&after).filter(|(b, a)| b != a).map(|((name, _), _)| name),
            );
        }
        let expected = if knob.name == "net.ipv4.tcp_timestamps" { 2 } else { 1 };
        assert_eq!(touched.len(), expected, "{} sets {touched:?}", knob.name);
        for field in touched {
            assert!(reached.insert(field), "{field} is set by two rows, one is {}", knob.name);
        }
    }
    let all: BTreeSet<&str> = before.iter().map(|(name, _)| *name).collect();
    assert_eq!(all.difference(&reached).collect::<Vec<_>>(), Vec::<&&str>::new());
}

#[test]
fn parameters_of_a_connection_apply_to_new_ones() {
    // A connection keeps the parameters it was opened with; what is asked for without a connection
    // at hand follows the present set.
    const EACH_USE: [&str; 3] =
        ["net.ipv4.tcp_tw_reuse", "net.ipv4.tcp_tw_reuse_delay", "net.ipv4.tcp_rfc1337"];
    for knob in table() {
        let Effect::Params { set, .. } = knob.effect else { continue };
        let in_tcp = samples(knob).iter().any(|text| {
            let value =
                knob.kind.parse(knob.name, text, &knob.default_value(Profile::Linux)).unwrap();
            let mut params = StackParams::default();
            set(&mut params, &value);
            params.tcp != TcpParams::default()
        });
        if in_tcp && !EACH_USE.contains(&knob.name) {
            assert_eq!(knob.applies, Applies::NewConnections, "{}", knob.name);
        }
    }
}

#[test]
fn names_are_found_dotted_slashed_and_short() {
    for name in
        ["net.ipv4.tcp_rmem", "net/ipv4/tcp_rmem", "/proc/sys/net/ipv4/tcp_rmem", "tcp_rmem"]
    {
        assert_eq!(find(name).map(|i| table()[i].name), Ok("net.ipv4.tcp_rmem"), "{name}");
    }
    match find("mtu_expires") {
        Err(KnobError::Ambiguous { candidates, .. }) => {
            assert_eq!(candidates, ["net.ipv4.route.mtu_expires", "net.ipv6.route.mtu_expires"])
        }
        other => panic!("{other:?}"),
    }
    let message = |name: &str| find(name).unwrap_err().to_string();
    assert_eq!(
        message("net.ipv4.tcp_rmen"),
        "unknown knob \"net.ipv4.tcp_rmen\": did you mean net.ipv4.tcp_rmem?"
    );
    assert_eq!(message("tcp_scak"), "unknown knob \"tcp_scak\": did you mean net.ipv4.tcp_sack?");
    assert_eq!(message(""), "unknown knob \"\"");
    assert!(find("net.ipv4.conf.all.rp_filter").unwrap_err().is_not_applicable());
    assert!(find("vm.swappiness").unwrap_err().is_not_applicable());
    assert!(!find("tcp_nosuch").unwrap_err().is_not_applicable());
}

/// H145: what is no value is rejected with name, value and range, and the old value stays.
#[test]
fn h145_knob_values() {
    let rejected: [(&str, &str, &[u8], &str); 17] = [
        ("negative", "tcp_mtu_probing", b"-1", "net.ipv4.tcp_mtu_probing: -1 is not in 0..2"),
        ("above", "tcp_mtu_probing", b"99", "net.ipv4.tcp_mtu_probing: 99 is not in 0..2"),
        (
            "2^63",
            "tcp_fin_timeout",
            b"9223372036854775808",
            "net.ipv4.tcp_fin_timeout: 9223372036854775808 is not in 0..2147483647",
        ),
        (
            "40 digits",
            "tcp_fin_timeout",
            b"9999999999999999999999999999999999999999",
            "net.ipv4.tcp_fin_timeout: \"9999999999999999999999999999999999999999\" is not in 0..2147483647",
        ),
        (
            "2^63 where 2^63 - 1 is allowed",
            "tcp_comp_sack_delay_ns",
            b"0x8000000000000000",
            "net.ipv4.tcp_comp_sack_delay_ns: 0x8000000000000000 is not in 0..9223372036854775807",
        ),
        (
            "word",
            "tcp_retries2",
            b"abc",
            "net.ipv4.tcp_retries2: \"abc\" is not a whole number, decimal or 0x hex (allowed: 0..255)",
        ),
        (
            "empty",
            "tcp_retries2",
            b"",
            "net.ipv4.tcp_retries2: \"\" is not a whole number, decimal or 0x hex (allowed: 0..255)",
        ),
        (
            "blank",
            "tcp_retries2",
            b" \n",
            "net.ipv4.tcp_retries2: \" \\n\" is not a whole number, decimal or 0x hex (allowed: 0..255)",
        ),
        (
            "float",
            "tcp_retries2",
            b"1e3",
            "net.ipv4.tcp_retries2: \"1e3\" is not a whole number, decimal or 0x hex (allowed: 0..255)",
        ),
        (
            "NUL",
            "tcp_retries2",
            b"5\0",
            "net.ipv4.tcp_retries2: \"5\\u{0}\" is not text without NUL bytes (allowed: 0..255)",
        ),
        (
            "not UTF-8",
            "tcp_retries2",
            b"5\xff",
            "net.ipv4.tcp_retries2: \"5\u{fffd}\" is not UTF-8 text (allowed: 0..255)",
        ),
        (
            "two numbers for one",
            "tcp_retries2",
            b"5 6",
            "net.ipv4.tcp_retries2: \"5 6\" is not a whole number, decimal or 0x hex (allowed: 0..255)",
        ),
        (
            "plus sign",
            "tcp_retries2",
            b"+5",
            "net.ipv4.tcp_retries2: \"+5\" is not a whole number, decimal or 0x hex (allowed: 0..255)",
        ),
        (
            "two signs",
            "tcp_retries2",
            b"0x-5",
            "net.ipv4.tcp_retries2: \"0x-5\" is not a whole number, decimal or 0x hex (allowed: 0..255)",
        ),
        ("switch", "tcp_sack", b"2", "net.ipv4.tcp_sack: 2 is not in 0..1"),
        (
            "switch by word",
            "tcp_sack",
            b"true",
            "net.ipv4.tcp_sack: \"true\" is not 0 or 1 (allowed: 0..1)",
        ),
        (
            "name",
            "tcp_congestion_control",
            b"bbr",
            "net.ipv4.tcp_congestion_control: \"bbr\" is not in cubic, reno, dctcp",
        ),
    ];
    for (row, name, text, message) in rejected {
        let mut knobs = linux();
        let error = knobs.set_bytes(name, text, Source::File).unwrap_err();
        assert_eq!(error.to_string(), message, "{row}");
        assert_eq!(knobs, linux(), "{row}");
    }
    let accepted = [
        ("hex", "tcp_retries2", "0x10", "16"),
        ("newline", "tcp_retries2", "16\n", "16"),
        ("blanks around it, as in a file", "tcp_retries2", " 16 ", "16"),
        ("negative", "tcp_adv_win_scale", "-2", "-2"),
        ("negative hex", "tcp_adv_win_scale", "-0x2", "-2"),
        (
            "largest of 64 bits",
            "tcp_comp_sack_delay_ns",
            "9223372036854775807",
            "9223372036854775807",
        ),
        ("largest of 32 bits", "tcp_notsent_lowat", "0xffffffff", "4294967295"),
        ("tabs", "tcp_rmem", "4096\t8192\t16384\n", "4096\t8192\t16384"),
    ];
    for (row, name, text, value) in accepted {
        let mut knobs = linux();
        let change =
            knobs.set(name, text, Source::Runtime).unwrap_or_else(|e| panic!("{row}: {e}"));
        assert_eq!(change.new, value, "{row}");
        assert_eq!(knobs.get(name).as_deref(), Ok(value), "{row}");
        assert_eq!(knobs.entry(name).unwrap().source, Source::Runtime, "{row}");
    }
}

/// H146: triples.
#[test]
fn h146_triples() {
    for (row, text) in [
        ("minimum above default", "8192 4096 16384"),
        ("default above maximum", "4096 16384 8192"),
        ("minimum above the old default", "200000"),
        ("zero", "0 131072 33554432"),
        ("zero at the end", "4096 131072 0"),
        ("negative", "-1 2 3"),
        ("four numbers", "1 2 3 4"),
        ("a word among them", "1 two 3"),
        ("separated by commas", "1,2,3"),
        ("too large", "1 2 2147483648"),
    ] {
        for name in ["tcp_rmem", "tcp_wmem"] {
            let mut knobs = linux();
            let error = knobs.set(name, text, Source::Runtime).unwrap_err();
            assert!(error.to_string().contains(name), "{row}: {error}");
            assert_eq!(knobs, linux(), "{row}");
        }
    }
    let mut knobs = linux();
    assert_eq!(
        knobs.set("tcp_rmem", "8192 4096 16384", Source::Runtime).unwrap_err().to_string(),
        "net.ipv4.tcp_rmem: 8192 4096 16384 is not in 1..2147483647, in rising order"
    );
    knobs.set("tcp_rmem", "1000", Source::Runtime).unwrap();
    assert_eq!(knobs.get("tcp_rmem").unwrap(), "1000\t131072\t33554432");
    knobs.set("tcp_rmem", "1 2000", Source::Runtime).unwrap();
    assert_eq!(knobs.get("tcp_rmem").unwrap(), "1\t2000\t33554432");
    assert_eq!(knobs.to_params(1).tcp.rmem, [1, 2000, 33_554_432]);
}

/// H147: values that contradict each other are rejected, or named in a warning.
#[test]
fn h147_contradictions() {
    for (name, text) in [
        ("tcp_rto_min_us", "120000001"),
        ("rto_initial_ms", "60001"),
        ("delack_min_us", "200001"),
        ("delack_max_us", "39999"),
    ] {
        let mut knobs = linux();
        let error = knobs.set(name, text, Source::Runtime).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        assert_eq!(knobs, linux());
    }
    let mut knobs = linux();
    knobs.set("rto_initial_ms", "3000", Source::Runtime).unwrap();
    assert_eq!(
        knobs.set("tcp_rto_max_ms", "2000", Source::Runtime).unwrap_err().to_string(),
        "net.ipv4.tcp_rto_max_ms: millrace.rto_initial_ms = 3000 is above net.ipv4.tcp_rto_max_ms = 2000"
    );
    for (name, text, warning) in [
        ("tcp_mtu_probe_floor", "2000", "is above net.ipv4.tcp_base_mss"),
        ("tcp_min_snd_mss", "600", "is above net.ipv4.tcp_mtu_probe_floor"),
        ("tcp_reordering", "301", "is above net.ipv4.tcp_max_reordering"),
        ("tcp_probe_interval", "0", "begins again at once"),
        ("tcp_ecn_option", "1", "nothing uses it yet"),
    ] {
        let change = linux().set(name, text, Source::Runtime).unwrap();
        assert!(change.warnings.iter().any(|w| w.contains(warning)), "{:?}", change.warnings);
    }
    assert!(linux().set("tcp_sack", "0", Source::Runtime).unwrap().warnings.is_empty());
}

/// H148: unknown, twice, read only, too late.
#[test]
fn h148_unknown_twice_read_only() {
    let mut knobs = linux();
    let mut error = |name: &str, source| knobs.set(name, "1", source).unwrap_err();
    assert!(matches!(error("nosuch", Source::File), KnobError::Unknown { .. }));
    assert!(matches!(
        error("tcp_available_congestion_control", Source::File),
        KnobError::ReadOnly { .. }
    ));
    assert!(matches!(error("tcp_max_tw_buckets", Source::Runtime), KnobError::AtStartOnly { .. }));
    assert_eq!(knobs, linux());
    let twice = [("tcp_sack", "0"), ("net/ipv4/tcp_sack", "1")];
    let (index, error) = knobs.set_all(twice, Source::File).unwrap_err();
    assert_eq!((index, error.to_string().as_str()), (1, "net.ipv4.tcp_sack: set twice"));
    assert_eq!(knobs, linux());
    // One after the other the last one wins.
    knobs.set("tcp_sack", "0", Source::Runtime).unwrap();
    knobs.set("tcp_sack", "1", Source::Runtime).unwrap();
    assert_eq!(knobs.get("tcp_sack").unwrap(), "1");
}

#[test]
fn several_are_set_together_or_not_at_all() {
    let mut knobs = linux();
    // Only as a pair are these in order.
    let pair = [("delack_min_us", "300000"), ("delack_max_us", "400000")];
    assert_eq!(knobs.set_all(pair, Source::File).unwrap().len(), 2);
    assert_eq!(knobs.diff().len(), 2);
    let before = knobs.clone();
    let bad = [("tcp_sack", "0"), ("tcp_dsack", "7")];
    assert_eq!(knobs.set_all(bad, Source::File).unwrap_err().0, 1);
    assert_eq!(knobs, before);
}

#[test]
fn limits_take_the_time_wait_bound() {
    let mut knobs = linux();
    knobs.set("tcp_max_tw_buckets", "77", Source::File).unwrap();
    let mut limits = Limits::default();
    knobs.apply_limits(&mut limits);
    assert_eq!(limits, Limits { time_wait: 77, ..Limits::default() });
}

#[test]
fn lists_are_sorted_and_match_patterns() {
    let knobs = linux();
    let all = knobs.list("");
    assert_eq!(all.len(), table().len());
    assert!(all.is_sorted_by_key(|e| e.knob.name));
    let names: Vec<&str> = knobs.list("*mtu_expires").iter().map(|e| e.knob.name).collect();
    assert_eq!(names, ["net.ipv4.route.mtu_expires", "net.ipv6.route.mtu_expires"]);
    assert_eq!(knobs.list("net/ipv4/tcp_?mem").len(), 2);
    assert_eq!(knobs.list("tcp_sack").len(), 1);
    assert!(knobs.list("nothing").is_empty());
}

#[test]
fn explanations_tell_everything() {
    let text = Knobs::new(Profile::Millrace).explain("tcp_tw_reuse").unwrap();
    for part in ["net.ipv4.tcp_tw_reuse = 1  (default)", "0..2", "linux       2", "each use"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert!(text.lines().all(|l| l.len() <= 80), "{text}");
    assert!(linux().explain("tcp_ecn_option").unwrap().contains("only kept"));
}

proptest! {
    #[test]
    fn any_text_is_taken_or_changes_nothing(
        index in any::<prop::sample::Index>(),
        text in prop_oneof![
            any::<String>(),
            "[-0-9x \t\n]{0,30}",
            "-?(0x)?[0-9a-f]{1,20}( [0-9]{1,10}){0,3}",
            "[0-9,-]{0,20}",
        ],
        source in prop_oneof![Just(Source::File), Just(Source::Runtime)],
    ) {
        let knob = &table()[index.index(table().len())];
        let mut knobs = linux();
        let before = knobs.clone();
        match knobs.set(knob.name, &text, source) {
            Ok(change) => {
                // What was taken reads back and is a value of the knob.
                let value = knobs.get(knob.name).unwrap();
                prop_assert_eq!(&change.new, &value);
                prop_assert!(knobs.set(knob.name, &value, source).is_ok());
                let params = knobs.to_params(1);
                if let Effect::Params { get, .. } = knob.effect {
                    prop_assert_eq!(get(&params).to_string(), value);
                }
            }
            Err(error) => {
                prop_assert_eq!(knobs, before);
                prop_assert!(error.to_string().contains(knob.name));
            }
        }
    }

    #[test]
    fn any_bytes_never_panic(name in any::<String>(), text in any::<Vec<u8>>()) {
        let mut knobs = linux();
        let _ = knobs.set_bytes(&name, &text, Source::Runtime);
        let _ = knobs.set_bytes("tcp_rmem", &text, Source::Runtime);
        let _ = knobs.list(&name);
    }
}
