use super::*;
use base::{Random, SeededRandom};
use std::vec;
use std::vec::Vec;

const UDP: u8 = 17;

fn at(secs: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(secs)
}

fn key(id: u32) -> DatagramKey {
    DatagramKey {
        source: "10.0.0.2".parse().unwrap(),
        destination: "10.0.0.1".parse().unwrap(),
        id,
        protocol: UDP,
    }
}

fn key6(id: u32) -> DatagramKey {
    let (source, destination) = ("fd00::2".parse().unwrap(), "fd00::1".parse().unwrap());
    DatagramKey { source, destination, id, protocol: 0 }
}

fn from_source(source: u32, id: u32) -> DatagramKey {
    let source = IpAddr::V4(core::net::Ipv4Addr::from_bits(0x0b00_0000 + source));
    DatagramKey { source, ..key(id) }
}

/// A table and a record of what it dropped.
struct World {
    table: Reassembly<u32>,
    dropped: Vec<(DropReason, u32)>,
    now: Instant,
}

impl World {
    fn new(datagrams: u16) -> Self {
        Self { table: Reassembly::new(datagrams, 1), dropped: vec![], now: at(1) }
    }

    fn insert(&mut self, key: DatagramKey, f: Fragment<u32>) -> Option<Datagram<u32>> {
        self.table.insert(self.now, key, f, &mut |reason, frame| self.dropped.push((reason, frame)))
    }

    /// A fragment `start..end`; the frame is numbered by its start.
    fn put(&mut self, key: DatagramKey, start: u16, end: u16, more: bool) -> Option<Vec<u32>> {
        let done = self.insert(key, fragment(start, end, more))?;
        assert_eq!(done.parts.iter().map(|p| u32::from(p.len)).sum::<u32>(), done.len);
        Some(done.parts.into_iter().map(|part| part.frame).collect())
    }

    fn expire(&mut self) {
        self.table.expire(self.now, &mut |reason, frame| self.dropped.push((reason, frame)));
    }

    #[track_caller]
    fn expect_dropped(&mut self, reason: DropReason, frames: &[u32]) {
        let mut dropped: Vec<_> = core::mem::take(&mut self.dropped);
        dropped.sort_unstable();
        let expected: Vec<_> = frames.iter().map(|&frame| (reason, frame)).collect();
        assert_eq!(dropped, expected);
    }
}

fn fragment(start: u16, end: u16, more: bool) -> Fragment<u32> {
    let len = end - start;
    let frame = u32::from(start);
    Fragment { offset: start, len, more, header_len: 20, protocol: UDP, ecn: Ecn::NotEct, frame }
}

/// RFC 8200 section 4.5.
#[test]
fn parts_in_any_order_make_a_datagram() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut world = World::new(4);
        let parts = [(0, 1480, true), (1480, 2960, true), (2960, 3001, false)];
        for (n, &i) in order.iter().enumerate() {
            let (start, end, more) = parts[i];
            let done = world.put(key(1), start, end, more);
            assert_eq!(done, (n == 2).then(|| vec![0, 1480, 2960]), "{order:?}");
        }
        assert!(world.table.is_empty() && world.table.frames() == 0);
        assert_eq!(world.table.next_deadline(), None);
    }
}

/// RFC 3168 section 5.3: no mark is lost, and none is believed that no router may have set.
#[test]
fn a_mark_on_any_fragment_is_a_mark_on_the_datagram() {
    use Ecn::{Ce, Ect0, Ect1, NotEct};
    for (parts, expected) in [
        ([Ect0, Ect0, Ect0], Some(Ect0)),
        ([Ect0, Ce, Ect0], Some(Ce)),
        ([Ce, Ect0, Ect1], Some(Ce)),
        ([Ect0, Ect1, Ect0], Some(NotEct)),
        ([NotEct, Ect0, NotEct], Some(NotEct)),
        ([NotEct, NotEct, NotEct], Some(NotEct)),
        ([NotEct, Ce, NotEct], None),
        ([Ect0, NotEct, Ce], None),
    ] {
        let mut world = World::new(4);
        let mut last = None;
        for (i, ecn) in parts.into_iter().enumerate() {
            let start = i as u16 * 800;
            let f = Fragment { ecn, ..fragment(start, start + 800, i < 2) };
            last = world.insert(key(1), f);
        }
        assert_eq!(last.map(|datagram| datagram.ecn), expected, "{parts:?}");
        assert!(world.table.is_empty() && world.table.frames() == 0);
        let frames: &[u32] = if expected.is_none() { &[0, 800, 1600] } else { &[] };
        world.expect_dropped(DropReason::FragmentEcn, frames);
    }
}

#[test]
fn datagrams_do_not_mix() {
    let mut world = World::new(8);
    let other_protocol = DatagramKey { protocol: 1, ..key(1) };
    for k in [key(1), key(2)] {
        assert_eq!(world.put(k, 0, 8, true), None);
    }
    assert_eq!(world.put(key(2), 8, 16, false), Some(vec![0, 8]));
    assert_eq!(world.put(other_protocol, 8, 16, false), None);
    assert_eq!(world.put(key6(1), 8, 16, false), None);
    assert_eq!(world.put(key(1), 8, 16, false), Some(vec![0, 8]));
    assert_eq!(world.dropped, []);
}

/// RFC 5722 section 4.
#[test]
fn h21_overlap_discards_the_datagram_and_what_still_comes() {
    for key in [key(1), key6(1)] {
        let overlaps = [(8, 40), (16, 24), (0, 80), (32, 48), (24, 48), (0, 24), (16, 32)];
        for (start, end) in overlaps {
            let mut world = World::new(4);
            // 0..8 is missing.
            world.put(key, 8, 16, true);
            world.put(key, 16, 40, true);
            let f = Fragment { frame: 99, ..fragment(start, end, true) };
            assert!(world.insert(key, f).is_none());
            world.expect_dropped(DropReason::FragmentOverlap, &[8, 16, 99]);
            assert_eq!(world.put(key, 0, 8, true), None);
            assert_eq!(world.put(key, 40, 48, false), None);
            world.expect_dropped(DropReason::FragmentOverlap, &[0, 40]);
            assert_eq!(world.table.frames(), 0);
            // Once forgotten, the identification can be used again.
            world.now = at(62);
            assert_eq!(world.put(key, 0, 8, true), None);
            assert_eq!(world.put(key, 8, 16, false), Some(vec![0, 8]));
        }
    }
}

#[test]
fn h22_exact_duplicates_are_ignored() {
    let mut world = World::new(4);
    world.put(key(1), 0, 16, true);
    world.put(key(1), 32, 40, false);
    world.put(key(1), 0, 16, true);
    world.put(key(1), 32, 40, false);
    world.expect_dropped(DropReason::FragmentDuplicate, &[0, 32]);
    assert_eq!(world.put(key(1), 16, 32, true), Some(vec![0, 16, 32]));
}

#[test]
fn h23_beyond_65535_bytes_frees_the_entry() {
    let mut world = World::new(4);
    world.put(key(1), 0, 16, true);
    assert_eq!(world.put(key(1), 65_528, 65_535, false), None);
    world.expect_dropped(DropReason::FragmentSize, &[0, 65_528]);
    assert!(world.table.is_empty());
    let huge =
        Fragment { offset: 65_528, len: u16::MAX, header_len: u16::MAX, ..fragment(0, 8, false) };
    assert!(world.insert(key(1), huge).is_none());
    world.expect_dropped(DropReason::FragmentSize, &[0]);
    // The last byte that fits.
    assert_eq!(world.put(key(1), 65_504, 65_515, false), None);
    assert_eq!(world.dropped, []);
}

#[test]
fn h24_lengths_that_are_no_multiple_of_eight() {
    let mut world = World::new(4);
    for end in [9, 15, 17] {
        assert_eq!(world.put(key(1), 0, end, true), None);
        world.expect_dropped(DropReason::FragmentAlign, &[0]);
    }
    assert!(world.table.is_empty());
}

#[test]
fn h25_contradicting_ends_discard_the_datagram() {
    type Ranges = &'static [(u16, u16, bool)];
    let rows: [(&str, Ranges); 5] = [
        ("two ends, later", &[(16, 24, false), (24, 32, false)]),
        ("two ends, earlier", &[(16, 24, false), (8, 12, false)]),
        ("data behind the end", &[(16, 24, false), (24, 32, true)]),
        ("an end before data", &[(24, 32, true), (8, 16, false)]),
        ("the end goes on", &[(16, 24, false), (16, 24, true)]),
    ];
    for (name, fragments) in rows {
        let mut world = World::new(4);
        for &(start, end, more) in fragments {
            assert_eq!(world.put(key(1), start, end, more), None, "{name}");
        }
        assert_eq!(world.dropped.len(), 2, "{name}");
        assert!(world.dropped.iter().all(|d| d.0 == DropReason::FragmentOverlap), "{name}");
        assert_eq!(world.table.frames(), 0, "{name}");
    }
}

#[test]
fn h26_the_transport_header_comes_whole_in_the_first_fragment() {
    let rows = [
        ("tcp of 8 bytes", TCP, 0, 8, true),
        ("tcp of 16 bytes", TCP, 0, 16, true),
        ("tcp, second fragment over the flags", TCP, 8, 16, true),
        ("tcp, second fragment at 16", TCP, 16, 24, true),
        ("empty", UDP, 0, 0, true),
        ("empty last", UDP, 16, 16, false),
    ];
    for (name, protocol, start, end, more) in rows {
        let mut world = World::new(4);
        let f = Fragment { protocol, ..fragment(start, end, more) };
        assert!(world.insert(key(1), f).is_none());
        assert_eq!(world.dropped, [(DropReason::FragmentTiny, u32::from(start))], "{name}");
        assert!(world.table.is_empty(), "{name}");
    }
    let mut world = World::new(4);
    world.insert(key(1), Fragment { protocol: TCP, ..fragment(0, 24, true) });
    let last = Fragment { protocol: TCP, ..fragment(24, 25, false) };
    assert!(world.insert(key(1), last).is_some());
}

#[test]
fn h27_a_flood_of_first_fragments_stays_within_the_table_and_passes() {
    let mut world = World::new(64);
    for i in 0..100_000 {
        world.now += Duration::from_micros(1);
        world.put(from_source(i % 5000, i), 0, 16, true);
        assert!(world.table.len() <= 64 && world.table.frames() <= 64);
        assert_eq!(world.dropped.len(), i.saturating_sub(63) as usize);
    }
    // The witness completes meanwhile: the oldest go first.
    world.put(key(7), 0, 16, true);
    for i in 0..50 {
        world.put(from_source(i, 1_000_000 + i), 0, 16, true);
    }
    assert_eq!(world.put(key(7), 16, 24, false), Some(vec![0, 16]));
    world.now += TIMEOUT_V4;
    while !world.table.is_empty() {
        let before = world.table.len();
        world.expire();
        assert!(world.table.len() < before);
    }
    assert_eq!((world.table.frames(), world.table.next_deadline()), (0, None));
}

#[test]
fn h27_one_source_fills_no_more_than_its_share() {
    let mut world = World::new(64);
    world.put(key(1), 0, 16, true);
    for i in 0..10_000 {
        world.put(from_source(1, i), 0, 16, true);
    }
    assert_eq!(world.table.len(), 17);
    assert!(world.dropped.iter().all(|d| d.0 == DropReason::FragmentLimit));
    assert_eq!(world.put(key(1), 16, 24, false), Some(vec![0, 16]));
    assert!(world.put(from_source(1, 9_999), 16, 24, false).is_some(), "the youngest is there");
}

#[test]
fn h28_tiny_fragments_in_reverse_order_are_bounded() {
    let mut world = World::new(64);
    for round in 0..10u32 {
        for start in (0..8000u16).rev() {
            world.put(key(round), start * 8, start * 8 + 8, start != 7999);
            assert!(world.table.frames() <= PARTS_MAX as u32);
        }
        assert_eq!(world.dropped.len(), 8000 * (round as usize + 1), "condemned at the 65th");
    }
    assert!(world.dropped.iter().all(|d| d.0 == DropReason::FragmentLimit));
}

#[test]
fn many_parts_of_many_datagrams_share_a_bound() {
    let mut world = World::new(16);
    for id in 0..16 {
        for part in 1..60 {
            world.put(from_source(id, id), part * 8, part * 8 + 8, true);
        }
    }
    assert!(world.table.frames() <= 16 * FRAMES_PER_DATAGRAM);
    let held = world.table.frames() as usize;
    assert_eq!(held + world.dropped.len(), 16 * 59, "each frame is held or dropped once");
    // The last one is whole.
    let first = fragment(0, 8, true);
    world.insert(from_source(15, 15), first);
    assert_eq!(world.put(from_source(15, 15), 480, 488, false).map(|p| p.len()), Some(61));
}

#[test]
fn h29_an_atomic_fragment_stands_alone() {
    let mut world = World::new(4);
    world.put(key6(1), 0, 16, true);
    assert_eq!(world.put(key6(1), 0, 40, false), Some(vec![0]));
    assert_eq!(world.put(key6(1), 16, 24, false), Some(vec![0, 16]));
    assert_eq!(
        Reassembly::new(0, 1)
            .insert(at(1), key6(1), fragment(0, 1, false), &mut |_, _| {
                unreachable!("nothing is dropped")
            })
            .map(|d| d.len),
        Some(1),
        "needs no table"
    );
}

#[test]
fn a_table_of_nothing_drops_every_fragment() {
    let mut world = World::new(0);
    world.put(key(1), 0, 16, true);
    world.expect_dropped(DropReason::FragmentLimit, &[0]);
}

#[test]
fn time_runs_out_by_family() {
    let mut world = World::new(8);
    world.put(key6(1), 0, 8, true);
    world.now = at(2);
    world.put(key(1), 0, 8, true);
    world.put(key(1), 16, 24, true);
    assert_eq!(world.table.next_deadline(), Some(at(32)));
    world.now = at(32) - Duration::from_nanos(1);
    world.expire();
    assert_eq!(world.table.len(), 2);
    world.now = at(32);
    world.expire();
    world.expect_dropped(DropReason::FragmentTimeout, &[0, 16]);
    assert_eq!(world.table.next_deadline(), Some(at(61)));
    world.now = at(61);
    // Comes too late, and before anybody looked at the clock: begins anew.
    world.put(key6(1), 8, 16, false);
    world.expect_dropped(DropReason::FragmentTimeout, &[0]);
    assert_eq!(world.table.next_deadline(), Some(at(121)));
}

#[test]
fn random_fragments_agree_with_a_bitmap() {
    for seed in 0..200 {
        let mut random = SeededRandom::new(seed);
        let mut world = World::new(4);
        // In units of eight bytes: who wrote it.
        let mut map = [None::<u32>; 24];
        let (mut end, mut dead) = (None, false);
        let mut held = 0;
        for frame in 0..60u32 {
            let start = random.below(20) as usize;
            let stop = start + 1 + random.below(4) as usize;
            let more = random.below(6) != 0;
            if start == 0 && !more {
                continue;
            }
            let f = Fragment { frame, ..fragment(start as u16 * 8, stop as u16 * 8, more) };
            let dropped = world.dropped.len();
            let done = world.insert(key(1), f);
            let new = &world.dropped[dropped..];
            let writers = &map[start..stop];
            let writer = writers[0];
            let exact = writer.is_some()
                && writers.iter().all(|w| *w == writer)
                && (start == 0 || map[start - 1] != writer)
                && map[stop] != writer
                && more == (end != Some(stop));
            let written = map.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
            if dead {
                assert_eq!(new, [(DropReason::FragmentOverlap, frame)], "seed {seed}");
            } else if exact {
                assert_eq!(new, [(DropReason::FragmentDuplicate, frame)], "seed {seed}");
            } else if writers.iter().any(Option::is_some)
                || end.is_some_and(|end| !more || stop > end)
                || (!more && stop < written)
            {
                dead = true;
                assert_eq!(new.len(), held + 1, "seed {seed}");
                assert!(new.iter().all(|d| d.0 == DropReason::FragmentOverlap));
            } else {
                assert!(new.is_empty(), "seed {seed}: {new:?}");
                map[start..stop].fill(Some(frame));
                held += 1;
                end = end.or((!more).then_some(stop));
            }
            let whole = end.is_some_and(|end| !dead && map[..end].iter().all(Option::is_some));
            assert_eq!(done.is_some(), whole, "seed {seed}");
            if let Some(done) = done {
                let mut order: Vec<u32> = map.iter().flatten().copied().collect();
                order.dedup();
                assert!(done.parts.iter().map(|part| part.frame).eq(order));
                break;
            }
        }
    }
}

#[test]
fn the_oldest_datagram_does_not_push_out_younger_ones() {
    let mut world = World::new(16);
    for part in 1..60 {
        world.put(from_source(0, 0), part * 8, part * 8 + 8, true);
    }
    for part in 1..60 {
        world.put(from_source(1, 1), part * 8, part * 8 + 8, true);
    }
    for part in 1..11 {
        world.put(from_source(2, 2), part * 8, part * 8 + 8, true);
    }
    assert_eq!((world.table.frames(), world.dropped.len()), (128, 0));
    world.put(from_source(0, 0), 800, 808, true);
    assert_eq!(world.dropped.len(), 60, "its own frames and the new one");
    assert!(world.dropped.iter().all(|d| d.0 == DropReason::FragmentLimit));
    assert_eq!((world.table.frames(), world.table.len()), (69, 3));
    // Its rest is discarded as well, and takes nothing from the others.
    world.put(from_source(0, 0), 808, 816, true);
    assert_eq!((world.table.frames(), world.dropped.len()), (69, 61));
}
