//! Which bytes beyond a hole have arrived.
//!
//! Only ranges are kept here; the bytes are the stack's. Every byte is kept once: what arrived first
//! wins, so a peer cannot change what was already taken (RFC 9293 section 3.10.7.4 leaves it open).

use alloc::boxed::Box;
use alloc::vec::Vec;

use arrayvec::ArrayVec;

use crate::segment::SACK_BLOCKS_MAX;
use crate::{SeqNum, SeqRange};

/// Most separate ranges beyond holes that a connection keeps. A segment that would make one more is
/// refused, and the peer sends it again: that bounds memory (1.5 KiB) and work per segment, whatever
/// pattern of holes a peer sends.
pub const RANGES_MAX: usize = 128;

/// What became of a segment's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// `keep` begins at the next expected byte and is to be stored; `rcv_nxt` is the next expected
    /// byte now, perhaps beyond `keep` because a hole was closed.
    InOrder {
        /// Not empty; may end before the segment does, at bytes that are here already.
        keep: SeqRange,
        /// The new one.
        rcv_nxt: SeqNum,
    },
    /// `keep` lies beyond a hole and is to be stored; the first part of the segment that is new.
    OutOfOrder {
        /// Not empty.
        keep: SeqRange,
    },
    /// Every byte was here already (or there was none).
    Duplicate,
    /// It would make one range more than [`RANGES_MAX`].
    Full,
}

/// Ranges that arrived out of order. Eight bytes while nothing ever did.
#[derive(Clone, Debug, Default)]
pub struct Assembler {
    inner: Option<Box<Inner>>,
}

/// Ordered by distance from the next expected byte; neither overlapping nor touching each other nor
/// that byte.
#[derive(Clone, Debug, Default)]
struct Inner {
    islands: Vec<Island>,
    /// Counts changes, so that the most recent ranges can be told; starts again when empty.
    clock: u32,
    bytes: u32,
}

#[derive(Clone, Copy, Debug)]
struct Island {
    range: SeqRange,
    /// Value of the clock when a segment last fell into it.
    touched: u32,
}

impl Assembler {
    /// Nothing out of order.
    pub const fn new() -> Self {
        Self { inner: None }
    }

    /// Payload `seg` has arrived; at most 2^31 beyond `rcv_nxt` (the caller has cut it to the
    /// window), perhaps beginning before it.
    pub fn insert(&mut self, rcv_nxt: SeqNum, seg: SeqRange) -> Inserted {
        let start = seg.start().later(rcv_nxt);
        let Some(seg) = SeqRange::new(start, seg.end()).filter(|s| !s.is_empty()) else {
            return Inserted::Duplicate;
        };
        if start != rcv_nxt {
            return self.inner.get_or_insert_default().insert(rcv_nxt, seg);
        }
        match &mut self.inner {
            Some(inner) if !inner.islands.is_empty() => inner.advance(seg),
            _ => Inserted::InOrder { keep: seg, rcv_nxt: seg.end() },
        }
    }

    /// No range is kept.
    pub fn is_empty(&self) -> bool {
        self.inner.as_ref().is_none_or(|i| i.islands.is_empty())
    }

    /// Bytes beyond holes.
    pub fn bytes(&self) -> u32 {
        self.inner.as_ref().map_or(0, |i| i.bytes)
    }

    /// Ranges beyond holes.
    pub fn ranges(&self) -> usize {
        self.inner.as_ref().map_or(0, |i| i.islands.len())
    }

    /// The end of the last range: one more than the highest byte received.
    pub fn highest(&self) -> Option<SeqNum> {
        self.inner.as_ref()?.islands.last().map(|i| i.range.end())
    }

    /// Give up the last range: it is as if it had not arrived.
    pub fn drop_highest(&mut self) -> Option<SeqRange> {
        let inner = self.inner.as_mut()?;
        let range = inner.islands.pop()?.range;
        inner.bytes = inner.bytes.saturating_sub(range.len());
        if inner.islands.is_empty() {
            inner.clock = 0;
        }
        Some(range)
    }

    /// The ranges that a segment fell into last, most recent first, at most `max`: the order that
    /// RFC 2018 section 4 asks for.
    pub fn sack_blocks(&self, max: usize) -> ArrayVec<(SeqNum, SeqNum), SACK_BLOCKS_MAX> {
        let mut recent = ArrayVec::<Island, SACK_BLOCKS_MAX>::new();
        let max = max.min(SACK_BLOCKS_MAX);
        for island in self.inner.iter().flat_map(|i| &i.islands) {
            let at = recent.iter().take_while(|r| r.touched >= island.touched).count();
            if at >= max {
                continue;
            }
            recent.truncate(max - 1);
            recent.insert(at, *island);
        }
        recent.iter().map(|i| (i.range.start(), i.range.end())).collect()
    }

    /// Give the memory back if nothing is kept: for connections that have become idle.
    pub fn shrink(&mut self) {
        if self.is_empty() {
            self.inner = None;
        }
    }
}

impl Inner {
    /// A segment that lies beyond a hole.
    fn insert(&mut self, rcv_nxt: SeqNum, seg: SeqRange) -> Inserted {
        let offset = |seq: SeqNum| seq.get().wrapping_sub(rcv_nxt.get());
        let (mut start, mut end) = (offset(seg.start()), offset(seg.end()));
        // The first range that ends at or after the beginning of the segment.
        let at = self.islands.partition_point(|i| offset(i.range.end()) < start);
        let left = self.islands.get(at).filter(|i| offset(i.range.start()) <= start);
        let next = if left.is_some() { at + 1 } else { at };
        if let Some(left) = left {
            start = offset(left.range.end());
            if start >= end {
                self.touch(at);
                return Inserted::Duplicate;
            }
        }
        let has_left = left.is_some();
        let right = self.islands.get(next).filter(|i| offset(i.range.start()) <= end);
        if let Some(right) = right {
            end = offset(right.range.start());
        }
        let right_end = right.map(|r| r.range.end());
        let Some(keep) = SeqRange::new(rcv_nxt.add(start), rcv_nxt.add(end)) else {
            return Inserted::Duplicate;
        };
        match (has_left, right_end) {
            (true, Some(right_end)) => {
                self.join(at, right_end);
                self.islands.remove(next);
            }
            (true, None) => self.join(at, keep.end()),
            (false, Some(right_end)) => self.replace(at, keep.start(), right_end),
            (false, None) => {
                if self.islands.len() >= RANGES_MAX {
                    return Inserted::Full;
                }
                self.islands.insert(at, Island { range: keep, touched: 0 });
            }
        }
        self.bytes = self.bytes.saturating_add(keep.len());
        self.touch(at);
        Inserted::OutOfOrder { keep }
    }

    /// A segment that begins at the next expected byte, while ranges are waiting.
    fn advance(&mut self, seg: SeqRange) -> Inserted {
        let first = self.islands.first().map(|i| i.range);
        let Some(first) = first.filter(|f| f.start().at_or_before(seg.end())) else {
            return Inserted::InOrder { keep: seg, rcv_nxt: seg.end() };
        };
        let Some(keep) = SeqRange::new(seg.start(), first.start()) else {
            return Inserted::Duplicate;
        };
        self.islands.remove(0);
        self.bytes = self.bytes.saturating_sub(first.len());
        if self.islands.is_empty() {
            self.clock = 0;
        }
        Inserted::InOrder { keep, rcv_nxt: first.end() }
    }

    fn touch(&mut self, at: usize) {
        self.clock = self.clock.saturating_add(1);
        if let Some(island) = self.islands.get_mut(at) {
            island.touched = self.clock;
        }
    }

    /// The range at `at` now ends at `end`.
    fn join(&mut self, at: usize, end: SeqNum) {
        if let Some(start) = self.islands.get(at).map(|i| i.range.start()) {
            self.replace(at, start, end);
        }
    }

    fn replace(&mut self, at: usize, start: SeqNum, end: SeqNum) {
        if let (Some(island), Some(range)) = (self.islands.get_mut(at), SeqRange::new(start, end)) {
            island.range = range;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    fn seq(v: u32) -> SeqNum {
        SeqNum::new(v)
    }

    fn range(start: u32, end: u32) -> SeqRange {
        SeqRange::new(seq(start), seq(end)).unwrap()
    }

    fn ooo(start: u32, end: u32) -> Inserted {
        Inserted::OutOfOrder { keep: range(start, end) }
    }

    fn in_order(start: u32, end: u32, rcv_nxt: u32) -> Inserted {
        Inserted::InOrder { keep: range(start, end), rcv_nxt: seq(rcv_nxt) }
    }

    /// Name, segment, what becomes of it, blocks afterwards.
    type Row = (&'static str, (u32, u32), Inserted, &'static [(u32, u32)]);

    #[test]
    fn one_segment_against_two_ranges() {
        // Kept: 20..30 and 40..50; next expected: 10.
        let rows: &[Row] = &[
            ("before both", (12, 15), ooo(12, 15), &[(12, 15), (40, 50), (20, 30)]),
            ("touches from the left", (15, 20), ooo(15, 20), &[(15, 30), (40, 50)]),
            ("overlaps from the left", (15, 25), ooo(15, 20), &[(15, 30), (40, 50)]),
            ("covers the first", (15, 35), ooo(15, 20), &[(15, 30), (40, 50)]),
            ("equal to the first", (20, 30), Inserted::Duplicate, &[(20, 30), (40, 50)]),
            ("inside the second", (42, 45), Inserted::Duplicate, &[(40, 50), (20, 30)]),
            ("touches from the right", (30, 33), ooo(30, 33), &[(20, 33), (40, 50)]),
            ("overlaps to the right", (25, 35), ooo(30, 35), &[(20, 35), (40, 50)]),
            ("fills the hole between", (30, 40), ooo(30, 40), &[(20, 50)]),
            ("covers the hole between", (25, 45), ooo(30, 40), &[(20, 50)]),
            ("covers everything", (15, 60), ooo(15, 20), &[(15, 30), (40, 50)]),
            ("in between", (32, 38), ooo(32, 38), &[(32, 38), (40, 50), (20, 30)]),
            ("behind both", (60, 70), ooo(60, 70), &[(60, 70), (40, 50), (20, 30)]),
            ("old", (5, 10), Inserted::Duplicate, &[(40, 50), (20, 30)]),
            ("empty", (15, 15), Inserted::Duplicate, &[(40, 50), (20, 30)]),
            ("in order, short", (10, 15), in_order(10, 15, 15), &[(40, 50), (20, 30)]),
            ("in order, up to the first", (10, 20), in_order(10, 20, 30), &[(40, 50)]),
            ("in order, into the first", (5, 25), in_order(10, 20, 30), &[(40, 50)]),
            ("in order, over everything", (10, 60), in_order(10, 20, 30), &[(40, 50)]),
        ];
        for &(name, (start, end), expected, blocks) in rows {
            let mut a = Assembler::new();
            assert_eq!(a.insert(seq(10), range(20, 30)), ooo(20, 30));
            assert_eq!(a.insert(seq(10), range(40, 50)), ooo(40, 50));
            assert_eq!(a.insert(seq(10), range(start, end)), expected, "{name}");
            let got: Vec<_> = a.sack_blocks(4).iter().map(|(s, e)| (s.get(), e.get())).collect();
            assert_eq!(got, blocks, "{name}");
            assert_eq!(a.bytes(), blocks.iter().map(|(s, e)| e - s).sum::<u32>(), "{name}");
        }
    }

    #[test]
    fn ranges_are_bounded_and_a_full_set_still_grows_and_drains() {
        let mut a = Assembler::new();
        let nxt = seq(0xffff_ff00);
        let piece = |i: u32| SeqRange::with_len(nxt.add(10 + i * 10), 5).unwrap();
        for i in 0..RANGES_MAX as u32 {
            assert_eq!(a.insert(nxt, piece(i)), Inserted::OutOfOrder { keep: piece(i) });
        }
        let last = RANGES_MAX as u32;
        assert_eq!(a.insert(nxt, piece(last)), Inserted::Full);
        assert_eq!(a.ranges(), RANGES_MAX);
        let hole = SeqRange::with_len(nxt.add(15), 5).unwrap();
        assert_eq!(a.insert(nxt, hole), Inserted::OutOfOrder { keep: hole });
        assert_eq!(a.ranges(), RANGES_MAX - 1);
        let front = SeqRange::with_len(nxt, 10).unwrap();
        assert_eq!(a.insert(nxt, front), Inserted::InOrder { keep: front, rcv_nxt: nxt.add(25) });
        assert_eq!(a.ranges(), RANGES_MAX - 2);
        a.shrink();
        assert_eq!(a.ranges(), RANGES_MAX - 2, "only an empty set gives memory back");
    }

    #[test]
    fn blocks_are_cut_to_the_most_recent() {
        let mut a = Assembler::new();
        for start in [10, 50, 30, 70, 90, 110] {
            a.insert(seq(0), range(start, start + 5));
        }
        a.insert(seq(0), range(52, 53));
        let starts = |max| -> Vec<u32> { a.sack_blocks(max).iter().map(|b| b.0.get()).collect() };
        assert_eq!(starts(3), [50, 110, 90]);
        assert_eq!(starts(100), [50, 110, 90, 70]);
        assert_eq!(starts(0), []);
        assert_eq!(a.highest(), Some(seq(115)));
    }

    #[test]
    fn the_highest_range_is_given_up_first() {
        let mut a = Assembler::new();
        for start in [10, 50, 30] {
            a.insert(seq(0), range(start, start + 5));
        }
        assert_eq!(a.drop_highest(), Some(range(50, 55)));
        assert_eq!((a.ranges(), a.bytes(), a.highest()), (2, 10, Some(seq(35))));
        assert_eq!(a.drop_highest(), Some(range(30, 35)));
        assert_eq!(a.drop_highest(), Some(range(10, 15)));
        assert_eq!((a.drop_highest(), a.is_empty(), a.bytes()), (None, true, 0));
    }

    #[test]
    fn idle_connections_pay_eight_bytes() {
        assert_eq!(size_of::<Assembler>(), 8);
    }

    /// One bit per byte of the window, the obviously right way.
    struct Model {
        here: Vec<bool>,
        rcv_nxt: usize,
    }

    impl Model {
        fn runs(&self) -> Vec<(usize, usize)> {
            let mut runs = vec![];
            let mut i = self.rcv_nxt;
            while i < self.here.len() {
                let end = (i..self.here.len()).find(|&j| !self.here[j]).unwrap_or(self.here.len());
                if end > i {
                    runs.push((i, end));
                }
                i = end + 1;
            }
            runs
        }

        fn insert(&mut self, start: usize, end: usize) -> Option<(usize, usize, usize)> {
            let start = start.max(self.rcv_nxt);
            let first = (start..end).find(|&i| !self.here[i])?;
            let last = (first..end).find(|&i| self.here[i]).unwrap_or(end);
            let alone = !self.here.get(last).copied().unwrap_or(false)
                && (first == 0 || !self.here[first - 1]);
            if first > self.rcv_nxt && alone && self.runs().len() >= RANGES_MAX {
                return Some((0, 0, 0));
            }
            self.here[first..last].fill(true);
            while self.here.get(self.rcv_nxt).copied().unwrap_or(false) {
                self.rcv_nxt += 1;
            }
            Some((first, last, self.rcv_nxt))
        }
    }

    proptest! {
        #[test]
        fn against_a_bitmap(
            base in any::<u32>(),
            steps in proptest::collection::vec((0usize..2000, 1usize..40, 0u8..20), 1..600),
        ) {
            const SPAN: usize = 2048;
            let mut a = Assembler::new();
            let mut m = Model { here: vec![false; SPAN], rcv_nxt: 0 };
            let at = |i: usize| seq(base).add(i as u32);
            for (start, len, kind) in steps {
                // Mostly anywhere, sometimes at the front, sometimes single bytes far apart.
                let (start, len) = match kind {
                    0 => (m.rcv_nxt.min(SPAN - 50), len),
                    1..=15 => (start & !1, 1),
                    _ => (start, len),
                };
                let end = (start + len).min(SPAN);
                let nxt = m.rcv_nxt;
                let got = a.insert(at(nxt), SeqRange::new(at(start), at(end)).unwrap());
                let expected = match m.insert(start, end) {
                    None => Inserted::Duplicate,
                    Some((0, 0, 0)) => Inserted::Full,
                    Some((s, e, new_nxt)) => {
                        let keep = SeqRange::new(at(s), at(e)).unwrap();
                        if s == nxt {
                            Inserted::InOrder { keep, rcv_nxt: at(new_nxt) }
                        } else {
                            Inserted::OutOfOrder { keep }
                        }
                    }
                };
                prop_assert_eq!(got, expected);
                let runs = m.runs();
                prop_assert_eq!(a.ranges(), runs.len());
                prop_assert_eq!(a.bytes() as usize, runs.iter().map(|r| r.1 - r.0).sum::<usize>());
                let blocks = a.sack_blocks(4);
                prop_assert_eq!(blocks.len(), runs.len().min(4));
                for b in &blocks {
                    prop_assert!(runs.iter().any(|r| (at(r.0), at(r.1)) == *b));
                }
                if let Inserted::OutOfOrder { keep } = got {
                    prop_assert!(SeqRange::new(blocks[0].0, blocks[0].1).unwrap().contains(keep.start()));
                }
                prop_assert_eq!(a.highest(), runs.last().map(|r| at(r.1)));
            }
        }

        #[test]
        fn any_numbers_are_survived(steps in proptest::collection::vec(any::<(u32, u32, u32)>(), 1..50)) {
            let mut a = Assembler::new();
            for (nxt, start, len) in steps {
                if let Some(seg) = SeqRange::with_len(seq(start), len) {
                    a.insert(seq(nxt), seg);
                    a.sack_blocks(3);
                }
            }
            prop_assert!(a.ranges() <= RANGES_MAX);
        }
    }
}
