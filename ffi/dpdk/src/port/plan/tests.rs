//! Any device, any wish: a configuration within every limit, or a refusal that names one.

use proptest::prelude::*;

use super::*;
use crate::ErrorKind;
use crate::vdev::DRIVERS;

/// A card that can do everything.
fn capable() -> DeviceFacts {
    let descriptors = Descriptors { min: 32, max: 4096, align: 8 };
    DeviceFacts {
        known: None,
        rx_offloads: u64::MAX,
        rx_queue_offloads: 0,
        tx_offloads: u64::MAX,
        tx_queue_offloads: 0,
        rx_queues_max: 16,
        tx_queues_max: 16,
        rx_descriptors: descriptors,
        tx_descriptors: descriptors,
        tso_segments_max: 40,
        tx_segments_max: 40,
        mtu_min: 68,
        mtu_max: 9710,
        rx_frame_max: 9728,
        rx_room_min: 1024,
        rss: u64::MAX,
        rss_table: 128,
        tx_ring: None,
    }
}

fn with(change: impl FnOnce(&mut DeviceFacts)) -> DeviceFacts {
    let mut facts = capable();
    change(&mut facts);
    facts
}

fn trusting() -> PortConfig {
    PortConfig { rx_checksum: RxChecksum::Trust, ..PortConfig::default() }
}

fn asking(queues: u16, mtu: u16) -> PortConfig {
    PortConfig { queues, mtu, ..trusting() }
}

#[test]
fn wanted_and_capable_is_granted_and_the_difference_named() {
    let all = plan(&capable(), &trusting()).unwrap();
    assert_eq!(all.offloads, trusting().wanted);
    assert!(all.missing.is_empty() && all.prepare);
    let some = with(|f| {
        f.rx_offloads = sys::MR_RX_OFFLOAD_TCP_CKSUM;
        f.tx_offloads = sys::MR_TX_OFFLOAD_TCP_TSO;
    });
    let some = plan(&some, &trusting()).unwrap();
    assert_eq!(some.rx_bits, Bits::default(), "a verdict of TCP alone is not believed");
    assert_eq!(some.tx_bits, Bits::default(), "segmentation needs chains and checksums");
    assert_eq!(some.missing.len(), 8);
    assert!(!some.prepare);
}

#[test]
fn verdicts_are_not_asked_for_when_software_verifies() {
    let got = plan(&capable(), &PortConfig::default()).unwrap();
    assert_eq!(got.rx_bits, Bits::default());
    assert!(got.missing.is_empty());
}

#[test]
fn what_only_a_queue_can_do_is_asked_of_the_queue() {
    let multi = sys::MR_TX_OFFLOAD_MULTI_SEGS;
    let facts = with(|f| {
        f.tx_offloads &= !multi;
        f.tx_queue_offloads = multi | sys::MR_TX_OFFLOAD_TCP_CKSUM;
    });
    let got = plan(&facts, &trusting()).unwrap();
    assert_eq!(got.tx_bits.queue, multi, "and what the port can do, once");
    assert!(got.tx_bits.port & sys::MR_TX_OFFLOAD_TCP_CKSUM != 0);
    assert!(got.offloads.tso && got.missing.is_empty());
}

#[test]
fn segmentation_has_conditions() {
    let rows: [(&str, u64); 3] = [
        ("chains", sys::MR_TX_OFFLOAD_MULTI_SEGS),
        ("TCP checksum", sys::MR_TX_OFFLOAD_TCP_CKSUM),
        ("IPv4 header checksum", sys::MR_TX_OFFLOAD_IPV4_CKSUM),
    ];
    for (name, bit) in rows {
        let got = plan(&with(|f| f.tx_offloads &= !bit), &trusting()).unwrap();
        assert!(!got.offloads.tso && got.missing.contains(&"tso"), "without {name}");
    }
    let got = plan(&with(|f| f.tx_segments_max = 1), &trusting()).unwrap();
    assert_eq!((got.segments_max, got.offloads.multi_segment, got.offloads.tso), (1, false, false));
    let got = plan(&with(|f| f.tso_segments_max = 1), &trusting()).unwrap();
    assert!(got.offloads.multi_segment && !got.offloads.tso);
    assert_eq!(plan(&with(|f| f.tx_segments_max = 8), &trusting()).unwrap().segments_max, 8);
    let unstated = with(|f| (f.tx_segments_max, f.tso_segments_max) = (0, 0));
    assert_eq!(plan(&unstated, &trusting()).unwrap().segments_max, SEGMENTS_MAX);
}

#[test]
fn refusals_name_the_limit_and_what_helps() {
    let small = PortConfig { buffers: 100, ..trusting() };
    let none = Descriptors { min: 70, max: 100, align: 64 };
    let rows: [(&str, DeviceFacts, PortConfig, &str, &str); 13] = [
        ("no queue asked", capable(), asking(0, 1500), "1 to 16", "at most 16 workers"),
        ("receive queues", with(|f| f.rx_queues_max = 2), asking(3, 1500), "1 to 2", "at most 2"),
        ("transmit queues", with(|f| f.tx_queues_max = 1), asking(3, 1500), "1 to 1", "at most 1"),
        ("no queues", with(|f| f.rx_queues_max = 0), asking(1, 1500), "none", "another device"),
        ("no RSS", with(|f| f.rss = 0), asking(2, 1500), "cannot spread", "one worker"),
        (
            "RSS of UDP",
            with(|f| f.rss = sys::MR_RSS_UDP & !sys::MR_RSS_TCP4),
            asking(2, 1500),
            "cannot spread",
            "one worker",
        ),
        ("RSS table", with(|f| f.rss_table = 3), asking(4, 1500), "3 entries", "at most 3"),
        ("MTU too large", capable(), asking(1, 9711), "68 to 9710, not 9711", "MTU of 9710"),
        ("MTU too small", capable(), asking(1, 67), "68 to 9710, not 67", "MTU of 68"),
        ("a minimum", with(|f| f.mtu_min = 1280), asking(1, 576), "1280 to 9710", "MTU of 1280"),
        (
            "receive ring",
            with(|f| f.rx_descriptors.min = 64),
            small,
            "half of the 100 buffers",
            "at least 128 buffers",
        ),
        (
            "transmit ring",
            with(|f| f.tx_descriptors = none),
            asking(1, 1500),
            "70 to 100 descriptors in steps of 64: none",
            "another device",
        ),
        (
            "receive room",
            with(|f| f.rx_room_min = 70_000),
            asking(1, 1500),
            "buffers of 70000 bytes",
            "at most 65407 bytes",
        ),
    ];
    for (name, facts, wanted, why, help) in rows {
        let error = plan(&facts, &wanted).expect_err(name).into_error("cannot start");
        assert_eq!(error.kind, ErrorKind::Unsupported, "{name}");
        assert!(error.why.contains(why), "{name}: {error}");
        assert!(error.help[0].contains(help), "{name}: {:?}", error.help);
    }
    let few = PortConfig { header_buffers: 63, ..trusting() };
    let error = plan(&capable(), &few).unwrap_err().into_error("cannot start");
    assert_eq!(error.kind, ErrorKind::Configuration);
    assert!(error.why.contains("64 buffers") && error.why.contains("63"), "{error}");
}

#[test]
fn descriptors_are_as_near_as_the_device_allows() {
    let got = |asked, facts: &DeviceFacts| {
        let wanted = PortConfig { rx_descriptors: asked, tx_descriptors: asked, ..trusting() };
        let p = plan(facts, &wanted).unwrap();
        (p.rx_descriptors, p.tx_descriptors)
    };
    assert_eq!(got(1000, &capable()), (1000, 1000));
    assert_eq!(got(1001, &capable()), (1008, 1008), "up to the next multiple");
    assert_eq!(got(0, &capable()), (32, 32));
    assert_eq!(got(u16::MAX, &capable()), (4096, 4096));
    // ethdev's own adjustment ends at a maximum that is no multiple.
    let ragged = with(|f| f.tx_descriptors.max = 4095);
    assert_eq!(got(u16::MAX, &ragged).1, 4088);
    let unaligned = with(|f| f.rx_descriptors.align = 0);
    assert_eq!(got(999, &unaligned).0, 999);
}

#[test]
fn software_devices_are_told_less_than_they_carry() {
    let of = |name: &str| {
        with(|f| {
            f.known = Driver::of(name);
            (f.rx_frame_max, f.mtu_max) = (1518, u16::MAX);
            (f.rss, f.rss_table) = (0, 0);
        })
    };
    let jumbo = plan(&of("net_af_packet0"), &asking(1, 9000)).unwrap();
    assert_eq!((jumbo.mtu, jumbo.ethdev_mtu, jumbo.room), (9000, 1500, 9216));
    let several = plan(&of("net_memif0"), &asking(4, 1500)).unwrap();
    assert_eq!((several.rss, several.queues), (0, 4));
    assert!(several.missing.contains(&"rss"));
    let refused = plan(&of("net_tap0"), &asking(1, 9000)).unwrap_err();
    assert_eq!(refused, Refusal::Mtu { asked: 9000, min: 68, max: 1500 });
    let tap = plan(&of("net_tap0"), &trusting()).unwrap();
    assert!(!tap.offloads.tx_tcp_checksum && tap.offloads.multi_segment);
}

#[test]
fn a_family_that_is_not_spread_is_named() {
    let facts = with(|f| f.rss = sys::MR_RSS_TCP4);
    let got = plan(&facts, &asking(2, 1500)).unwrap();
    assert_eq!(got.missing, ["rss-ipv6"]);
    assert_ne!(got.rss, 0);
    assert_eq!(plan(&facts, &trusting()).unwrap().rss, 0, "one queue needs no spreading");
}

#[test]
fn bits_round_trip() {
    for n in 0..256u32 {
        let bit = |i: u32| n & 1 << i != 0;
        let o = Offloads {
            rx_ip_checksum: bit(0),
            rx_tcp_checksum: bit(1),
            rx_udp_checksum: bit(2),
            tx_ip_checksum: bit(3),
            tx_tcp_checksum: bit(4),
            tx_udp_checksum: bit(5),
            tso: bit(6),
            multi_segment: bit(7),
        };
        assert_eq!(offloads(rx_bits(o), tx_bits(o)), o);
    }
}

/// What ethdev itself looks at before it lets a configuration through to a driver, and drivers
/// after it. Written from its rules, not from ours.
fn ethdev_refuses(f: &DeviceFacts, p: &PortPlan) -> Option<&'static str> {
    let frame_overhead = if f.mtu_max != u16::MAX && f.rx_frame_max > u32::from(f.mtu_max) {
        f.rx_frame_max - u32::from(f.mtu_max)
    } else {
        18
    };
    let frame = u32::from(p.ethdev_mtu) + frame_overhead;
    let bad_count = |n: u16, d: Descriptors| {
        n == 0 || n > d.max || n < d.min || (d.align > 1 && !n.is_multiple_of(d.align))
    };
    let rows = [
        (p.queues == 0, "no queue"),
        (p.queues > f.rx_queues_max, "receive queues"),
        (p.queues > f.tx_queues_max, "transmit queues"),
        (p.ethdev_mtu < f.mtu_min || p.ethdev_mtu > f.mtu_max, "MTU"),
        (frame > f.rx_frame_max, "frame"),
        (p.rx_bits.port & !f.rx_offloads != 0, "receive offload of the port"),
        (p.tx_bits.port & !f.tx_offloads != 0, "transmit offload of the port"),
        (p.rx_bits.queue & !f.rx_queue_offloads != 0, "receive offload of a queue"),
        (p.tx_bits.queue & !f.tx_queue_offloads != 0, "transmit offload of a queue"),
        (p.rss & !f.rss != 0, "hash function"),
        (bad_count(p.rx_descriptors, f.rx_descriptors), "receive descriptors"),
        (bad_count(p.tx_descriptors, f.tx_descriptors), "transmit descriptors"),
        (u32::from(p.room) < f.rx_room_min, "receive buffer"),
    ];
    rows.into_iter().find_map(|(wrong, name)| wrong.then_some(name))
}

/// What must hold of any plan beyond ethdev's rules.
fn contradiction(f: &DeviceFacts, w: &PortConfig, p: &PortPlan) -> Option<&'static str> {
    let o = p.offloads;
    let bits = |b: Bits| b.port | b.queue;
    let segments = |stated: u16| stated == 0 || u16::from(p.segments_max) <= stated;
    let wanted_bits = [rx_bits(w.wanted), tx_bits(w.wanted)];
    let rows = [
        (o.tso && !(o.tx_tcp_checksum && o.tx_ip_checksum && o.multi_segment), "bare TSO"),
        (rx_bits(o) != bits(p.rx_bits) || tx_bits(o) != bits(p.tx_bits), "bits and offloads"),
        (rx_bits(o) & !wanted_bits[0] != 0 || tx_bits(o) & !wanted_bits[1] != 0, "unwanted"),
        (p.rx_bits.port & p.rx_bits.queue != 0, "asked twice"),
        (w.rx_checksum == RxChecksum::Verify && rx_bits(o) != 0, "useless verdicts"),
        (o.rx_tcp_checksum != o.rx_udp_checksum, "half a verdict"),
        (p.rss != 0 && p.queues < 2, "RSS for one queue"),
        (p.rss == 0 && p.queues > 1 && f.known.is_none(), "queues without RSS"),
        (p.rss != 0 && f.rss_table != 0 && p.queues > f.rss_table, "RSS table"),
        (p.rss != 0 && p.rss & (sys::MR_RSS_TCP4 | sys::MR_RSS_TCP6) == 0, "RSS without TCP"),
        (o.multi_segment != (p.segments_max > 1), "segments"),
        (o.multi_segment && !segments(f.tx_segments_max), "segments of a frame"),
        (o.tso && !segments(f.tso_segments_max), "segments of a large frame"),
        (u32::from(p.rx_descriptors) * 2 > w.buffers, "ring of all buffers"),
        (u32::from(p.room) < u32::from(w.mtu) + 14 + 4 || u32::from(p.room) > ROOM_MAX, "room"),
        (p.header_room < 256, "header room"),
        (p.mtu != w.mtu || p.queues != w.queues, "what was asked for"),
        (p.mtu < MTU_MIN || p.mtu > f.largest_mtu(), "MTU"),
        (p.prepare != (tx_bits(o) & !sys::MR_TX_OFFLOAD_MULTI_SEGS != 0), "preparation"),
        (p.tx_ring == 0 && f.tx_ring != Some(0), "transmit ring"),
    ];
    rows.into_iter().find_map(|(wrong, name)| wrong.then_some(name))
}

/// Limits cluster at their ends.
fn number() -> impl Strategy<Value = u16> {
    prop_oneof![
        1 => Just(0),
        2 => 1..4_u16,
        3 => 4..600_u16,
        3 => 600..10_000_u16,
        1 => Just(u16::MAX),
        1 => any::<u16>(),
    ]
}

fn mask() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(u64::MAX), 1 => Just(0), 4 => any::<u64>()]
}

fn limits() -> impl Strategy<Value = Descriptors> {
    let align = prop_oneof![3 => Just(1_u16), 3 => Just(32), 1 => number()];
    prop_oneof![
        2 => Just(Descriptors { min: 0, max: u16::MAX, align: 1 }),
        3 => (number(), number(), align).prop_map(|(min, max, align)| {
            Descriptors { min, max, align }
        }),
    ]
}

prop_compose! {
    fn facts()(
        known in prop_oneof![2 => Just(None), 1 => (0..DRIVERS.len()).prop_map(Some)],
        offloads in [mask(), mask(), mask(), mask()],
        queues in [prop_oneof![number(), 1..20_u16], prop_oneof![number(), 1..20_u16]],
        descriptors in [limits(), limits()],
        segments in [number(), number()],
        mtu_min in prop_oneof![Just(68_u16), number()],
        mtu_max in prop_oneof![2 => Just(9000_u16), 1 => Just(u16::MAX), 1 => number()],
        frame_more in prop_oneof![3 => Just(18_i64), 1 => Just(26), 1 => -2000..70_000_i64],
        rx_room_min in prop_oneof![3 => 0..2048_u32, 1 => any::<u32>()],
        rss in mask(),
        rss_table in number(),
        tx_ring in prop::option::of(number()),
    ) -> DeviceFacts {
        DeviceFacts {
            known: known.map(|i| &DRIVERS[i]),
            rx_offloads: offloads[0],
            rx_queue_offloads: offloads[1],
            tx_offloads: offloads[2],
            tx_queue_offloads: offloads[3],
            rx_queues_max: queues[0],
            tx_queues_max: queues[1],
            rx_descriptors: descriptors[0],
            tx_descriptors: descriptors[1],
            tso_segments_max: segments[0],
            tx_segments_max: segments[1],
            mtu_min,
            mtu_max,
            rx_frame_max: u32::try_from(i64::from(mtu_max) + frame_more).unwrap_or(0),
            rx_room_min,
            rss,
            rss_table,
            tx_ring,
        }
    }
}

prop_compose! {
    fn wish()(
        mtu in prop_oneof![3 => Just(1500_u16), 1 => Just(9000), 2 => number()],
        queues in prop_oneof![3 => Just(1_u16), 3 => 2..9_u16, 1 => number()],
        buffers in prop_oneof![3 => Just(8192_u32), 1 => 0..600_u32, 1 => any::<u32>()],
        header_buffers in prop_oneof![3 => Just(16_384_u32), 1 => any::<u32>()],
        descriptors in [number(), number()],
        wanted in prop_oneof![2 => Just((u64::MAX, u64::MAX)), 1 => any::<(u64, u64)>()],
        trust in any::<bool>(),
    ) -> PortConfig {
        PortConfig {
            mtu,
            queues,
            buffers,
            header_buffers,
            rx_descriptors: descriptors[0],
            tx_descriptors: descriptors[1],
            wanted: offloads(wanted.0, wanted.1),
            rx_checksum: if trust { RxChecksum::Trust } else { RxChecksum::Verify },
            ..PortConfig::default()
        }
    }
}

/// How a device gets better: each number by how much, each mask by which bits.
type Better = ([u64; 5], [u16; 8], bool);

/// The same device, no worse in anything.
fn better(f: &DeviceFacts, (bits, more, unaligned): &Better) -> DeviceFacts {
    let up = |n: u16, by: u16| n.saturating_add(by);
    // Zero is "not stated", which is no limit: not less than any number.
    let stated = |n: u16, by: u16| if n == 0 { 0 } else { up(n, by) };
    let descriptors = |d: Descriptors, by: u16| Descriptors {
        min: d.min.saturating_sub(by),
        max: up(d.max, by),
        align: if *unaligned { 1 } else { d.align },
    };
    // What a frame has beyond the MTU stays, or the limits would be others.
    let room = u16::MAX.saturating_sub(1).saturating_sub(f.mtu_max);
    let longer = if f.mtu_max == u16::MAX { 0 } else { more[5].min(room) };
    DeviceFacts {
        known: f.known,
        rx_offloads: f.rx_offloads | bits[0],
        rx_queue_offloads: f.rx_queue_offloads | bits[1],
        tx_offloads: f.tx_offloads | bits[2],
        tx_queue_offloads: f.tx_queue_offloads | bits[3],
        rx_queues_max: up(f.rx_queues_max, more[0]),
        tx_queues_max: up(f.tx_queues_max, more[1]),
        rx_descriptors: descriptors(f.rx_descriptors, more[2]),
        tx_descriptors: descriptors(f.tx_descriptors, more[3]),
        tso_segments_max: stated(f.tso_segments_max, more[4]),
        tx_segments_max: stated(f.tx_segments_max, more[4]),
        mtu_min: f.mtu_min.saturating_sub(more[6]),
        mtu_max: f.mtu_max + longer,
        rx_frame_max: f.rx_frame_max + u32::from(longer),
        rx_room_min: f.rx_room_min.saturating_sub(more[7].into()),
        rss: f.rss | bits[4],
        rss_table: stated(f.rss_table, more[7]),
        tx_ring: f.tx_ring,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn every_limit_holds_or_one_is_named(facts in facts(), wish in wish()) {
        match plan(&facts, &wish) {
            Ok(p) => {
                prop_assert_eq!(ethdev_refuses(&facts, &p), None, "{:?}", p);
                prop_assert_eq!(contradiction(&facts, &wish, &p), None, "{:?}", p);
            }
            Err(refusal) => {
                let error = refusal.into_error("cannot start the port x");
                prop_assert!(error.why.chars().any(|c| c.is_ascii_digit()), "{}", error);
                prop_assert!(!error.help.is_empty(), "{}", error);
            }
        }
    }

    #[test]
    fn a_better_device_is_never_refused_what_a_lesser_one_does(
        facts in facts(),
        wish in wish(),
        better in any::<Better>(),
    ) {
        let Ok(before) = plan(&facts, &wish) else { return Ok(()) };
        let facts = self::better(&facts, &better);
        let after = plan(&facts, &wish);
        prop_assert!(after.is_ok(), "{:?} refused by {:?}", after, facts);
        let after = after.unwrap();
        for (had, has) in [(before.rx_bits, after.rx_bits), (before.tx_bits, after.tx_bits)] {
            let (had, has) = (had.port | had.queue, has.port | has.queue);
            prop_assert_eq!(had & !has, 0, "an offload got lost");
        }
        prop_assert!(after.missing.iter().all(|m| before.missing.contains(m) || *m == "rss-ipv4" || *m == "rss-ipv6"));
    }

    #[test]
    fn what_is_missing_is_what_was_wanted_and_is_not_there(facts in facts(), wish in wish()) {
        let Ok(p) = plan(&facts, &wish) else { return Ok(()) };
        let trust = wish.rx_checksum == RxChecksum::Trust;
        let asked = tx_bits(wish.wanted) | if trust { rx_bits(wish.wanted) << 32 } else { 0 };
        let got = tx_bits(p.offloads) | rx_bits(p.offloads) << 32;
        let count = (asked & !got).count_ones() as usize;
        let rest = p.missing.iter().filter(|m| m.starts_with("rss")).count();
        prop_assert_eq!(p.missing.len(), count + rest);
    }
}
