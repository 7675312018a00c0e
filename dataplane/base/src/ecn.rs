//! The congestion field of an IP header.

/// A codepoint of explicit congestion notification, RFC 3168 section 5: the low two bits of the IPv4 TOS
/// byte and of the IPv6 traffic class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// The transport does not understand marks.
    #[default]
    NotEct = 0,
    /// It does; RFC 8311 gives this one another meaning than [`Ecn::Ect0`].
    Ect1 = 1,
    /// It does.
    Ect0 = 2,
    /// A router has seen congestion.
    Ce = 3,
}

impl Ecn {
    /// From the byte of the header, whose other six bits do not matter.
    pub const fn from_bits(byte: u8) -> Self {
        match byte & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The two bits.
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// Congestion experienced.
    pub const fn is_ce(self) -> bool {
        matches!(self, Self::Ce)
    }

    /// A transport that understands marks has sent it.
    pub const fn is_ect(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_six_bits_do_not_matter() {
        for byte in 0..=u8::MAX {
            let ecn = Ecn::from_bits(byte);
            assert_eq!(ecn.bits(), byte & 3);
            assert_eq!((ecn.is_ce(), ecn.is_ect()), (byte & 3 == 3, byte & 3 != 0));
        }
    }
}
