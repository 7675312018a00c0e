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
