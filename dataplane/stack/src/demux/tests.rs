use super::*;
use base::{Random, SeededRandom};
use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

fn hash(key: u64, secret: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (key, secret).hash(&mut hasher);
    hasher.finish()
}

fn conn(index: u32) -> Entry {
    Entry::new(Kind::Connection, index)
}

#[test]
fn an_entry_keeps_kind_and_index() {
    for kind in [Kind::Connection, Kind::HalfOpen, Kind::TimeWait] {
        for index in [0, 1, Entry::INDEX_MAX] {
            let entry = Entry::new(kind, index);
            assert_eq!((entry.kind(), entry.index()), (kind, index));
        }
    }
}

/// Key of an entry is kept outside, by index, as connections do.
struct World {
    table: Demux<u64>,
    keys: Vec<Option<u64>>,
    kinds: Vec<Kind>,
    model: HashMap<u64, u32>,
    random: SeededRandom,
}

impl World {
    fn new(capacity: u32, seed: u64) -> Self {
        Self {
            table: Demux::new(capacity, 1),
            keys: std::vec![None; capacity as usize],
            kinds: std::vec![Kind::Connection; capacity as usize],
            model: HashMap::new(),
            random: SeededRandom::new(seed),
        }
    }

    fn find(&self, key: u64) -> Option<Entry> {
        self.table.find(|s| hash(key, *s), |e| self.keys[e.index() as usize] == Some(key))
    }

    fn check(&self, key: u64) {
        assert_eq!(self.find(key).map(Entry::index), self.model.get(&key).copied());
    }

    fn step(&mut self, key: u64) {
        match (self.random.below(4), self.model.get(&key).copied()) {
            (0 | 1, None) => {
                let Some(index) = self.keys.iter().position(Option::is_none) else { return };
                self.table.insert(|s| hash(key, *s), conn(index as u32)).unwrap();
                self.keys[index] = Some(key);
                self.kinds[index] = Kind::Connection;
                self.model.insert(key, index as u32);
            }
            (0, Some(index)) => {
                let from = Entry::new(self.kinds[index as usize], index);
                let to = Entry::new(Kind::TimeWait, index);
                assert!(self.table.replace(|s| hash(key, *s), from, to));
                self.kinds[index as usize] = Kind::TimeWait;
            }
            (2, Some(index)) => {
                let entry = Entry::new(self.kinds[index as usize], index);
                assert!(self.table.remove(|s| hash(key, *s), entry));
                assert!(!self.table.remove(|s| hash(key, *s), entry));
                self.keys[index as usize] = None;
                self.model.remove(&key);
            }
            (3, _) if self.random.below(50) == 0 => {
                let secret = self.random.secret();
                self.table.rekey(secret);
            }
            _ => {
                let keys = &self.keys;
                self.table
                    .rekey_step(3, |e, s| hash(keys[e.index() as usize].unwrap_or_default(), *s));
            }
        }
        assert_eq!(self.table.len() as usize, self.model.len());
    }
}

#[test]
fn agrees_with_a_hash_map_while_keys_change() {
    for seed in 0..4 {
        let mut world = World::new(300, seed);
        for _ in 0..30_000 {
            let key = u64::from(world.random.below(500));
            world.step(key);
            world.check(key);
        }
        for key in 0..500 {
            world.check(key);
        }
        assert!(world.table.stats().rekeyed > 10);
    }
}

#[test]
fn a_full_table_hardly_overflows_and_look_ups_compare_little() {
    let capacity = 100_000u32;
    let mut table = Demux::new(capacity, 7u64);
    for i in 0..capacity {
        table.insert(|s| hash(u64::from(i), *s), conn(i)).unwrap();
    }
    assert!(table.stats().overflowed < 8, "{:?}", table.stats());
    assert_eq!(table.insert(|s| hash(0, *s), conn(0)), Err(DemuxFull));
    let compared = Cell::new(0u32);
    let mut worst = 0;
    for i in 0..2 * capacity {
        compared.set(0);
        let found = table.find(
            |s| hash(u64::from(i), *s),
            |e| {
                compared.set(compared.get() + 1);
                e.index() == i
            },
        );
        assert_eq!(found, (i < capacity).then(|| conn(i)));
        worst = worst.max(compared.get());
    }
    // Tags agree by chance once in thousands: hardly ever is more than one key compared.
    assert!(worst <= 3, "{worst}");
}

#[test]
fn flows_of_one_hash_overflow_are_counted_and_none_is_lost() {
    let mut table = Demux::new(10_000, ());
    let same = |(): &()| 0x1234_5678_9abc_def0;
    let mut stored = Vec::new();
    for i in 0..1000 {
        match table.insert(same, conn(i)) {
            Ok(()) => stored.push(i),
            Err(DemuxFull) => assert!(stored.len() >= BUCKET_ENTRIES + OVERFLOW_MAX),
        }
    }
    assert_eq!(stored.len(), 2 * BUCKET_ENTRIES + OVERFLOW_MAX);
    assert_eq!(table.stats().overflowed, OVERFLOW_MAX as u64);
    assert_eq!(table.stats().refused, 1000 - stored.len() as u64);
    for &i in &stored {
        assert_eq!(table.find(same, |e| e == conn(i)), Some(conn(i)));
    }
    let compared = Cell::new(0);
    let absent = table.find(same, |_| {
        compared.set(compared.get() + 1);
        false
    });
    assert_eq!((absent, compared.get()), (None, stored.len()), "the bound on a look-up");
    // Others are not disturbed.
    let other = |(): &()| 0x0fed_cba9_8765_4321;
    table.insert(other, conn(5000)).unwrap();
    assert_eq!(table.find(other, |_| true), Some(conn(5000)));
    // Room in the first bucket lets one come home.
    let first = table.buckets[table.place_of(same(&())).first].entries[3];
    assert!(table.remove(same, first));
    assert_eq!(table.overflow.len(), OVERFLOW_MAX - 1);
    stored.retain(|&i| conn(i) != first);
    for &i in stored.iter().rev() {
        assert_eq!(table.find(same, |e| e == conn(i)), Some(conn(i)));
        assert!(table.remove(same, conn(i)));
    }
    assert_eq!((table.len(), table.overflow.len()), (1, 0));
    assert!(table.buckets.iter().all(|b| b.overflowed == 0));
}

#[test]
fn a_rekey_into_a_crowded_bucket_keeps_everything_and_ends_once_there_is_room() {
    let mut table = Demux::new(10_000, 1u64);
    // Secret 2 maps all keys to one place.
    let hash_of = |key: u32, s: u64| if s == 2 { 99 } else { hash(u64::from(key), s) };
    for key in 0..200 {
        table.insert(|s| hash_of(key, *s), conn(key)).unwrap();
    }
    assert!(table.rekey(2));
    assert!(!table.rekey(3));
    for _ in 0..3 {
        assert!(!table.rekey_step(usize::MAX, |e, s| hash_of(e.index(), *s)));
    }
    for key in 0..200 {
        assert_eq!(table.find(|s| hash_of(key, *s), |e| e.index() == key), Some(conn(key)));
    }
    for key in 0..150 {
        assert!(table.remove(|s| hash_of(key, *s), conn(key)));
    }
    assert!(table.rekey_step(usize::MAX, |e, s| hash_of(e.index(), *s)));
    for key in 150..200 {
        assert_eq!(table.find(|s| hash_of(key, *s), |e| e.index() == key), Some(conn(key)));
    }
}

#[test]
fn h141_peers_cannot_aim_at_a_bucket_without_the_secret() {
    use wire::flow::{FlowHasher, FlowKey};
    let key = |i: u32| {
        let remote = core::net::Ipv4Addr::from_bits(0xc0a8_0000 | i >> 8);
        FlowKey::from_parts([10, 0, 0, 1].into(), 80, remote.into(), (i % 256) as u16 * 256)
            .unwrap()
    };
    // Flows that an attacker who knew the first secret would send: all in a few buckets.
    let known = FlowHasher::new(1, 2);
    let aimed: Vec<u32> = (0..4_000_000).filter(|&i| known.hash(&key(i)) & 0xfff == 7).collect();
    assert!(aimed.len() > 500);
    for (secret, overflows) in [(FlowHasher::new(1, 2), true), (FlowHasher::new(3, 4), false)] {
        let mut table = Demux::new(4096 * BUCKET_TARGET, secret);
        for &i in &aimed {
            table.prefetch(table.secret().hash(&key(i)));
            table.insert(|s| s.hash(&key(i)), conn(i)).ok();
        }
        let second = (table.stats().overflowed, table.stats().refused);
        assert!(overflows || second == (0, 0), "{second:?}");
        let found =
            aimed.iter().filter(|&&i| table.find(|s| s.hash(&key(i)), |e| e == conn(i)).is_some());
        assert_eq!(found.count(), table.len() as usize);
    }
}
