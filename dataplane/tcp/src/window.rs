//! Receive windows: the scale, and what the first segment offers. RFC 7323 section 2.

use crate::{ConnOptions, TcpParams};

/// Largest shift, RFC 7323 section 2.3.
pub const WINDOW_SCALE_MAX: u8 = 14;
/// Largest window that a header without scaling can say, bytes.
pub const WINDOW_UNSCALED_MAX: u32 = u16::MAX as u32;
/// Share of a receive buffer that payload is expected to take before anything was received, in
/// 256ths.
pub const SCALING_RATIO_DEFAULT: u8 = 128;
/// Smallest receive buffer that an application can ask for, bytes.
pub const RCVBUF_MIN: u32 = 2304;

/// A shift of at most 14.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct WindowScale(u8);

impl WindowScale {
    /// No scaling.
    pub const ZERO: Self = Self(0);

    /// RFC 7323 section 2.3: a shift above 14 is taken for 14.
    pub const fn clamped(shift: u8) -> Self {
        Self(if shift > WINDOW_SCALE_MAX { WINDOW_SCALE_MAX } else { shift })
    }

    /// The shift.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Bytes meant by the window field `raw`; below 2^30.
    pub const fn bytes(self, raw: u16) -> u32 {
        (raw as u32) << self.0
    }

    /// The window field for `bytes`, rounded down.
    pub const fn raw(self, bytes: u32) -> u16 {
        let raw = bytes >> self.0;
        if raw > WINDOW_UNSCALED_MAX { u16::MAX } else { raw as u16 }
    }

    /// The largest window that this scale can say, bytes.
    pub const fn window_max(self) -> u32 {
        self.bytes(u16::MAX)
    }

    /// The scale to offer: enough for the largest buffer that this connection may come to have.
    /// A buffer that the application fixed does not grow, so only it counts.
    pub fn choose(params: &TcpParams, options: &ConnOptions) -> Self {
        let space = match options.rcvbuf {
            Some(_) => win_from_space(initial_rcvbuf(params, options), SCALING_RATIO_DEFAULT),
            None => initial_rcvbuf(params, options).max(params.rmem[2]).max(params.rmem_max),
        };
        let space = space.min(options.window_clamp.unwrap_or(u32::MAX));
        let digits = u32::BITS - 1 - space.max(1).leading_zeros();
        Self::clamped(digits.saturating_sub(15) as u8)
    }
}

/// The receive buffer that a connection starts with, bytes. What an application asks for is doubled
/// (room for overhead) and capped as on Linux.
pub fn initial_rcvbuf(params: &TcpParams, options: &ConnOptions) -> u32 {
    match options.rcvbuf {
        Some(bytes) => bytes.min(params.rmem_max).saturating_mul(2).max(RCVBUF_MIN),
        None => params.rmem[1],
    }
}

/// Bytes of payload for which a buffer of `space` bytes has room, at `ratio` 256ths.
pub const fn win_from_space(space: u32, ratio: u8) -> u32 {
    ((space as u64 * ratio as u64) >> 8) as u32
}

/// The window of a SYN or SYN-ACK, bytes: never scaled, so at most 65535, and a multiple of the
/// segment payload `mss` if it holds one. `rcv_room` is the engine-wide limit.
pub fn initial_window(params: &TcpParams, options: &ConnOptions, mss: u16, rcv_room: u32) -> u32 {
    let space = win_from_space(initial_rcvbuf(params, options), SCALING_RATIO_DEFAULT)
        .min(options.window_clamp.unwrap_or(u32::MAX));
    let mss = u32::from(mss).max(1);
    let rounded = if space > mss { space - space % mss } else { space };
    rounded.min(WINDOW_UNSCALED_MAX).min(rcv_room)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn scale_follows_the_largest_buffer() {
        const MIB: u32 = 1 << 20;
        for (name, rmem2, rmem_max, rcvbuf, scale) in [
            ("6 MiB", 6 * MIB, 212_992, None, 7),
            ("15 MiB", 15 * MIB, 212_992, None, 8),
            ("32 MiB", 32 * MIB, 4 * MIB, None, 10),
            ("rmem_max counts too", 6 * MIB, 8 * MIB, None, 8),
            ("buffer fixed: 128 KiB of window", 32 * MIB, 4 * MIB, Some(131_072), 2),
            ("small fixed buffer: no scaling", 32 * MIB, 4 * MIB, Some(10_000), 0),
            ("fixed buffer is capped by rmem_max", 32 * MIB, 4 * MIB, Some(u32::MAX), 7),
            ("never above 14", u32::MAX, 4 * MIB, None, 14),
        ] {
            let params =
                TcpParams { rmem: [4096, 131_072, rmem2], rmem_max, ..TcpParams::default() };
            let options = ConnOptions { rcvbuf, ..ConnOptions::default() };
            assert_eq!(WindowScale::choose(&params, &options).get(), scale, "{name}");
        }
    }

    #[test]
    fn first_window_is_unscaled_and_made_of_whole_segments() {
        let window = |rcvbuf, mss, room| {
            let options = ConnOptions { rcvbuf, ..ConnOptions::default() };
            initial_window(&TcpParams::default(), &options, mss, room)
        };
        for (name, got, expected) in [
            ("1460 bytes per segment", window(None, 1460, u32::MAX), 64_240),
            ("1448 with timestamps", window(None, 1448, u32::MAX), 65_160),
            ("a large buffer is not scaled", window(Some(1 << 20), 1460, u32::MAX), 65_535),
            ("smaller than one segment", window(Some(0), 8960, u32::MAX), 1_152),
            ("no memory at hand", window(None, 1460, 5000), 5_000),
            ("no segment size at all", window(None, 0, u32::MAX), 65_535),
        ] {
            assert_eq!(got, expected, "{name}");
        }
    }

    proptest! {
        #[test]
        fn scaling_never_overflows_and_never_offers_more(shift in any::<u8>(), bytes in any::<u32>(), raw in any::<u16>()) {
            let scale = WindowScale::clamped(shift);
            prop_assert!(scale.get() <= WINDOW_SCALE_MAX && scale.get() <= shift);
            prop_assert_eq!(scale.bytes(raw) >> scale.get(), u32::from(raw));
            prop_assert_eq!(scale.raw(scale.bytes(raw)), raw);
            let said = scale.bytes(scale.raw(bytes));
            prop_assert!(said <= bytes && said <= scale.window_max());
            if bytes <= scale.window_max() {
                prop_assert!(bytes - said < 1 << scale.get());
            }
        }

        #[test]
        fn any_parameters_give_a_legal_scale_and_window(
            rmem in any::<[u32; 3]>(), rmem_max in any::<u32>(), rcvbuf in any::<Option<u32>>(), mss in any::<u16>(), room in any::<u32>(),
        ) {
            let params = TcpParams { rmem, rmem_max, ..TcpParams::default() };
            let options = ConnOptions { rcvbuf, ..ConnOptions::default() };
            prop_assert!(WindowScale::choose(&params, &options).get() <= WINDOW_SCALE_MAX);
            prop_assert!(initial_window(&params, &options, mss, room) <= room.min(WINDOW_UNSCALED_MAX));
        }
    }
}
