//! Sequence numbers and ranges of them.

use core::fmt;

/// A position in the 32-bit sequence space, RFC 9293 section 3.4.
///
/// Deliberately not `Ord`: "before" only means something for two numbers less than 2^31 apart, and it
/// is not transitive, so sorting would be wrong.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct SeqNum(u32);

impl SeqNum {
    /// The position with this number.
    pub const fn new(value: u32) -> Self {
        Self(value)
    }

    /// The number as in the header.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The position `count` further on, modulo 2^32.
    #[must_use]
    pub const fn add(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }

    /// The position `count` before, modulo 2^32.
    #[must_use]
    pub const fn sub(self, count: u32) -> Self {
        Self(self.0.wrapping_sub(count))
    }

    /// Signed distance from `other` to `self`; negative if `self` comes first. At exactly 2^31
    /// apart each comes before the other.
    pub const fn distance_from(self, other: Self) -> i32 {
        self.0.wrapping_sub(other.0).cast_signed()
    }

    /// Bytes from `earlier` to `self`; zero when `earlier` is not before `self`.
    pub const fn bytes_since(self, earlier: Self) -> u32 {
        let d = self.distance_from(earlier);
        if d > 0 { d.cast_unsigned() } else { 0 }
    }

    /// `self` comes before `other`.
    pub const fn before(self, other: Self) -> bool {
        self.distance_from(other) < 0
    }

    /// `self` comes after `other`.
    pub const fn after(self, other: Self) -> bool {
        other.before(self)
    }

    /// `self` is `other` or comes before it.
    pub const fn at_or_before(self, other: Self) -> bool {
        !self.after(other)
    }

    /// `self` is `other` or comes after it.
    pub const fn at_or_after(self, other: Self) -> bool {
        !self.before(other)
    }

    /// The later of the two.
    #[must_use]
    pub const fn later(self, other: Self) -> Self {
        if self.before(other) { other } else { self }
    }

    /// The earlier of the two.
    #[must_use]
    pub const fn earlier(self, other: Self) -> Self {
        if other.before(self) { other } else { self }
    }
}

impl fmt::Debug for SeqNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for SeqNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A half-open range of the sequence space; `start` is never after `end`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SeqRange {
    start: SeqNum,
    end: SeqNum,
}

impl SeqRange {
    /// From `start` to before `end`; `None` if `end` comes before `start`.
    pub const fn new(start: SeqNum, end: SeqNum) -> Option<Self> {
        if end.before(start) { None } else { Some(Self { start, end }) }
    }

    /// `len` numbers from `start` on; `None` for 2^31 or more.
    pub const fn with_len(start: SeqNum, len: u32) -> Option<Self> {
        if len >= 1 << 31 { None } else { Some(Self { start, end: start.add(len) }) }
    }

    /// The first number.
    pub const fn start(self) -> SeqNum {
        self.start
    }

    /// The number after the last.
    pub const fn end(self) -> SeqNum {
        self.end
    }

    /// How many numbers.
    pub const fn len(self) -> u32 {
        self.end.get().wrapping_sub(self.start.get())
    }

    /// No number at all.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether `seq` lies inside.
    pub const fn contains(self, seq: SeqNum) -> bool {
        seq.at_or_after(self.start) && seq.before(self.end)
    }
}

impl fmt::Debug for SeqRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seq(v: u32) -> SeqNum {
        SeqNum::new(v)
    }

    #[test]
    fn order_flips_at_exactly_half_of_the_space() {
        const HALF: u32 = 1 << 31;
        for base in [0, 1, HALF - 1, HALF, u32::MAX] {
            let a = seq(base);
            assert!(a.before(a.add(1)) && a.before(a.add(HALF - 1)));
            // At the distance of half, each comes before the other; one more, and the order is
            // the other way round.
            assert!(a.before(a.add(HALF)) && a.add(HALF).before(a));
            assert!(!a.before(a.add(HALF + 1)) && a.add(HALF + 1).before(a));
        }
    }

    #[test]
    fn ranges_cross_the_wrap() {
        let r = SeqRange::with_len(seq(u32::MAX - 1), 4).unwrap();
        assert_eq!((r.start(), r.end(), r.len()), (seq(u32::MAX - 1), seq(2), 4));
        let inside =
            [(u32::MAX - 2, false), (u32::MAX - 1, true), (0, true), (1, true), (2, false)];
        for (v, expected) in inside {
            assert_eq!(r.contains(seq(v)), expected, "{v}");
        }
        assert!(SeqRange::new(seq(5), seq(5)).unwrap().is_empty());
        assert_eq!(SeqRange::new(seq(6), seq(5)), None);
        assert_eq!(SeqRange::with_len(seq(0), 1 << 31), None);
    }

    proptest! {
        #[test]
        fn laws(v in any::<u32>(), n in any::<u32>(), m in any::<u32>()) {
            let a = seq(v);
            prop_assert_eq!(a.add(n).sub(n), a);
            prop_assert_eq!(a.add(n).add(m), a.add(m).add(n));
            prop_assert_eq!(a.add(n).distance_from(a), n.cast_signed());
            prop_assert_eq!(a.add(n).bytes_since(a), if n < 1 << 31 { n } else { 0 });
            let b = seq(m);
            prop_assert_eq!(a.before(b), b.after(a));
            prop_assert_eq!(a.at_or_before(b), !a.after(b));
            prop_assert_eq!(a.at_or_after(b), !a.before(b));
            if m.wrapping_sub(v) != 1 << 31 {
                prop_assert_eq!(usize::from(a.before(b)) + usize::from(a == b) + usize::from(a.after(b)), 1);
                prop_assert!(a.earlier(b).at_or_before(a.later(b)));
                prop_assert_eq!(a.later(b), b.later(a));
                prop_assert_eq!(a.earlier(b), b.earlier(a));
            }
            // Nothing depends on where in the space the two lie.
            prop_assert_eq!(a.add(n).before(b.add(n)), a.before(b));
        }

        #[test]
        fn ranges_hold_what_they_say(v in any::<u32>(), len in 0u32..1 << 31, n in any::<u32>()) {
            let r = SeqRange::with_len(seq(v), len).unwrap();
            prop_assert_eq!(SeqRange::new(r.start(), r.end()), Some(r));
            prop_assert_eq!((r.len(), r.is_empty()), (len, len == 0));
            prop_assert_eq!(r.contains(seq(v).add(n)), n < len);
        }
    }
}
