//! The control bits of a TCP header.

use core::fmt;
use core::ops::{BitOr, BitOrAssign};

/// The nine control bits, RFC 9293 section 3.1 and RFC 9768 (AE).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct TcpFlags(u16);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x001);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x002);
    /// Reset the connection.
    pub const RST: Self = Self(0x004);
    /// Push function.
    pub const PSH: Self = Self(0x008);
    /// The acknowledgement field is significant.
    pub const ACK: Self = Self(0x010);
    /// The urgent pointer is significant.
    pub const URG: Self = Self(0x020);
    /// ECN echo, RFC 3168.
    pub const ECE: Self = Self(0x040);
    /// Congestion window reduced, RFC 3168.
    pub const CWR: Self = Self(0x080);
    /// Accurate ECN, RFC 9768.
    pub const AE: Self = Self(0x100);

    /// No flag.
    pub const fn empty() -> Self {
        Self(0)
    }

    /// The low nine bits of `bits`.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & 0x1ff)
    }

    /// The nine bits as in the header.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Whether all flags of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any flag of `other` is set.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Both sets.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This set without the flags of `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// SYN is set.
    pub const fn syn(self) -> bool {
        self.contains(Self::SYN)
    }

    /// ACK is set.
    pub const fn ack(self) -> bool {
        self.contains(Self::ACK)
    }

    /// FIN is set.
    pub const fn fin(self) -> bool {
        self.contains(Self::FIN)
    }

    /// RST is set.
    pub const fn rst(self) -> bool {
        self.contains(Self::RST)
    }

    /// PSH is set.
    pub const fn psh(self) -> bool {
        self.contains(Self::PSH)
    }

    /// Sequence numbers that the flags themselves occupy: one each for SYN and FIN.
    pub const fn sequence_len(self) -> u32 {
        self.syn() as u32 + self.fin() as u32
    }
}

impl BitOr for TcpFlags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}

impl BitOrAssign for TcpFlags {
    fn bitor_assign(&mut self, other: Self) {
        *self = self.union(other);
    }
}

/// As tcpdump writes them: `S`, `S.`, `.`, `P.`, `F.`, `R`.
impl fmt::Display for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = [
            (Self::SYN, "S"),
            (Self::FIN, "F"),
            (Self::RST, "R"),
            (Self::PSH, "P"),
            (Self::ACK, "."),
            (Self::URG, "U"),
            (Self::ECE, "E"),
            (Self::CWR, "W"),
            (Self::AE, "e"),
        ];
        if self.0 == 0 {
            return f.write_str("none");
        }
        for (flag, letter) in letters {
            if self.contains(flag) {
                f.write_str(letter)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{self}]")
    }
}
