//! What the receive side may hold, what it holds, and which window follows from that.
//!
//! Memory is charged as what it really costs, whole buffers, while a window counts payload. Between the
//! two stands `scaling_ratio`, learned from the segments that arrive: a peer that sends little in each
//! segment is offered less.

use crate::TcpParams;
use crate::params::Autotuning;
use crate::window::{SCALING_RATIO_DEFAULT, WindowScale, win_from_space};

/// Payload below which a segment says nothing about what the peer could send, bytes.
const GROWTH_LEN_MIN: u32 = 128;
/// Segments of the window that stay when memory is short everywhere.
const PRESSURE_SEGMENTS: u32 = 4;
/// Segments of the window that stay when this connection holds more than it may.
const CLAMPED_SEGMENTS: u32 = 2;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecvSpace {
    /// Bytes of memory that the receive side may hold.
    pub(crate) rcvbuf: u32,
    /// Bytes of memory that it holds, as the stack has counted them.
    pub(crate) rmem_alloc: u32,
    /// No larger window is offered, whatever memory is free.
    pub(crate) window_clamp: u32,
    /// The window that the peer's segments have earned so far.
    pub(crate) rcv_ssthresh: u32,
    /// Payload for each charged byte, in 256ths; never zero.
    scaling_ratio: u8,
}

/// Payload and memory of what has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    /// Payload bytes of the whole run.
    pub(crate) len: u32,
    /// Memory that it occupies, bytes.
    pub(crate) truesize: u32,
    /// Estimate of the peer's segment size, bytes.
    pub(crate) rcv_mss: u32,
    /// Segment size that we announced, bytes.
    pub(crate) advmss: u32,
}

impl RecvSpace {
    /// Of a connection whose SYN or SYN-ACK offered `rcv_wnd` bytes. `clamp` is `TCP_WINDOW_CLAMP`.
    pub(crate) fn new(
        params: &TcpParams,
        rcvbuf: u32,
        rcv_wnd: u32,
        advmss: u32,
        wscale: WindowScale,
        clamp: Option<u32>,
    ) -> Self {
        let mut space = Self {
            rcvbuf,
            rmem_alloc: 0,
            window_clamp: clamp.unwrap_or(u32::MAX).min(wscale.window_max()),
            // The handshake may have had no buffers to offer. The window grows by what arrives, and into a
            // window without room for a segment nothing would.
            rcv_ssthresh: rcv_wnd.max(CLAMPED_SEGMENTS * advmss),
            scaling_ratio: SCALING_RATIO_DEFAULT,
        };
        space.settle_clamp(params.app_win, advmss);
        space.rcv_ssthresh = space.rcv_ssthresh.min(space.window_clamp);
        space
    }

    /// Leave room for what the application has not fetched yet, `tcp_app_win`, or at least a segment.
    fn settle_clamp(&mut self, app_win: u8, advmss: u32) {
        let max_win = self.full_space();
        if self.window_clamp >= max_win {
            self.window_clamp = max_win;
            if app_win != 0 && max_win > 4 * advmss {
                self.window_clamp =
                    (max_win - (max_win >> u32::from(app_win).min(31))).max(4 * advmss);
            }
        }
        if app_win != 0
            && self.window_clamp > 2 * advmss
            && self.window_clamp.saturating_add(advmss) > max_win
        {
            self.window_clamp = max_win.saturating_sub(advmss).max(2 * advmss);
        }
    }

    /// Payload for which `bytes` of memory are good.
    pub(crate) const fn win_from_space(&self, bytes: u32) -> u32 {
        win_from_space(bytes, self.scaling_ratio)
    }

    /// Memory that `bytes` of payload need.
    pub(crate) const fn space_from_win(&self, bytes: u64) -> u64 {
        (bytes << 8) / self.scaling_ratio as u64
    }

    /// Memory that at least belongs to `bytes` of payload that were stored.
    pub(crate) fn least_memory_of(&self, bytes: u32) -> u32 {
        self.space_from_win(bytes.into()).clamp(1, u64::from(u32::MAX)) as u32
    }

    /// Payload for which the whole buffer is good.
    pub(crate) const fn full_space(&self) -> u32 {
        self.win_from_space(self.rcvbuf)
    }

    /// Payload for which what is left of the buffer is good.
    pub(crate) const fn free_space(&self) -> u32 {
        self.win_from_space(self.rcvbuf.saturating_sub(self.rmem_alloc))
    }

    /// More is held than may be. One segment above the limit is all right.
    pub(crate) const fn is_over(&self) -> bool {
        self.rmem_alloc > self.rcvbuf
    }

    /// A larger segment than ever has arrived: see what it costs. True if windows count differently now.
    pub(crate) fn learn_ratio(&mut self, len: u32, truesize: u32) -> bool {
        let ratio = (u64::from(len) << 8) / u64::from(truesize.max(1));
        let ratio = ratio.clamp(1, 255) as u8;
        if ratio == self.scaling_ratio {
            return false;
        }
        self.scaling_ratio = ratio;
        self.window_clamp = self.full_space();
        true
    }

    /// A buffer of another size, `SO_RCVBUF`.
    pub(crate) fn set_rcvbuf(&mut self, rcvbuf: u32) {
        self.rcvbuf = rcvbuf;
        self.window_clamp = self.full_space();
    }

    /// Autotuning wants a buffer of `rcvbuf` bytes. It never makes one smaller. `window` is what the old
    /// heuristic takes for the clamp, instead of what the buffer is good for.
    pub(crate) fn grow_to(&mut self, rcvbuf: u32, window: Option<u32>) {
        if rcvbuf > self.rcvbuf {
            self.rcvbuf = rcvbuf;
            self.window_clamp = window.unwrap_or_else(|| self.full_space());
        }
    }

    /// Data have arrived: the window may grow if they use memory well. True if it did.
    pub(crate) fn on_arrived(&mut self, a: Arrived, pressure: bool, rmem_max: u32) -> bool {
        if a.len < GROWTH_LEN_MIN {
            return false;
        }
        let limit = self.window_clamp.min(self.free_space());
        let room = limit.saturating_sub(self.rcv_ssthresh);
        if pressure {
            self.rcv_ssthresh = self.rcv_ssthresh.min(PRESSURE_SEGMENTS * a.advmss);
            return false;
        }
        if room == 0 {
            return false;
        }
        let step = if self.win_from_space(a.truesize) <= a.len {
            2 * a.advmss
        } else {
            self.step_for_wasteful(a, rmem_max)
        };
        if step == 0 {
            return false;
        }
        self.rcv_ssthresh += room.min(step.max(a.len.saturating_mul(2)));
        true
    }

    /// How far a segment that wastes memory lets the window grow: the larger the window already, the
    /// better the segment must be.
    fn step_for_wasteful(&self, a: Arrived, rmem_max: u32) -> u32 {
        let mut truesize = self.win_from_space(a.truesize) / 2;
        let mut window = self.win_from_space(rmem_max) / 2;
        while window > 0 && self.rcv_ssthresh <= window {
            if truesize <= a.len {
                return 2 * a.rcv_mss;
            }
            truesize /= 2;
            window /= 2;
        }
        0
    }

    /// More is held than may be: allow it if the buffer may still grow, else stop the peer.
    pub(crate) fn clamp(&mut self, locked: bool, pressure: bool, rmem_max: u32, advmss: u32) {
        if !locked && !pressure && self.rcvbuf < rmem_max {
            self.rcvbuf = self.rcvbuf.max(self.rmem_alloc.min(rmem_max));
        }
        if self.is_over() {
            self.rcv_ssthresh = self.rcv_ssthresh.min(CLAMPED_SEGMENTS * advmss);
        }
    }
}

impl Autotuning {
    /// Whether the cost of segments is learned; before, half of a buffer was window.
    pub(crate) const fn learns_ratio(self) -> bool {
        matches!(self, Self::Modern)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn space() -> RecvSpace {
        let scale = WindowScale::clamped(10);
        RecvSpace::new(&TcpParams::default(), 131_072, 64_240, 1460, scale, None)
    }

    fn full(len: u32) -> Arrived {
        Arrived { len, truesize: 2304, rcv_mss: 1460, advmss: 1460 }
    }

    #[test]
    fn begins_with_half_of_the_buffer_less_a_segment() {
        let space = space();
        assert_eq!(space.window_clamp, 65_536 - 1460);
        assert_eq!(space.rcv_ssthresh, 65_536 - 1460);
        assert_eq!(space.free_space(), 65_536);
    }

    #[test]
    fn the_ratio_is_what_a_segment_costs() {
        for (len, truesize, ratio) in [
            (1448, 2304, 160),
            (8948, 5 * 2304, 198),
            (64, 2304, 7),
            (1, 2304, 1),
            (9000, 9000, 255),
        ] {
            let mut space = space();
            assert!(space.learn_ratio(len, truesize));
            assert_eq!(space.scaling_ratio, ratio, "{len}");
            assert_eq!(space.window_clamp, space.full_space());
            assert!(!space.learn_ratio(len, truesize), "known already");
        }
    }

    #[test]
    fn good_segments_open_the_window_and_small_ones_do_not() {
        let mut space = space();
        space.rcvbuf = 1 << 20;
        space.window_clamp = space.full_space();
        let before = space.rcv_ssthresh;
        assert!(!space.on_arrived(full(100), false, 32 << 20), "too small to say anything");
        assert!(space.on_arrived(full(1460), false, 32 << 20));
        assert_eq!(space.rcv_ssthresh, before + 2920, "two segments");
        assert!(space.on_arrived(
            Arrived { len: 14_600, truesize: 23_040, ..full(0) },
            false,
            32 << 20
        ));
        assert_eq!(space.rcv_ssthresh, before + 2920 + 29_200, "twice a run");
        let small = Arrived { len: 200, truesize: 2304, rcv_mss: 200, advmss: 1460 };
        assert!(
            space.on_arrived(small, false, 32 << 20),
            "the window is small against the largest"
        );
        space.rcv_ssthresh = 400_000;
        assert!(!space.on_arrived(small, false, 1 << 20), "but not for ever");
    }

    #[test]
    fn pressure_leaves_four_segments_and_a_full_buffer_two() {
        let mut space = space();
        assert!(!space.on_arrived(full(1460), true, 32 << 20));
        assert_eq!(space.rcv_ssthresh, 4 * 1460);
        space.rmem_alloc = 200_000;
        space.clamp(false, false, 150_000, 1460);
        assert_eq!(
            (space.rcvbuf, space.rcv_ssthresh),
            (150_000, 2 * 1460),
            "grown as far as it may"
        );
        let mut space = self::space();
        space.rmem_alloc = 140_000;
        space.clamp(false, false, 150_000, 1460);
        assert_eq!((space.rcvbuf, space.rcv_ssthresh), (140_000, 65_536 - 1460));
        let mut space = self::space();
        space.rmem_alloc = 140_000;
        space.clamp(true, false, 150_000, 1460);
        assert_eq!((space.rcvbuf, space.rcv_ssthresh), (131_072, 2 * 1460), "locked");
    }

    proptest! {
        #[test]
        fn nothing_overflows(
            rcvbuf in any::<u32>(), alloc in any::<u32>(), wnd in any::<u32>(), len in any::<u32>(),
            truesize in any::<u32>(), mss in 1u32..65_536, app_win in 0u8..32, rmem_max in any::<u32>(),
        ) {
            let params = TcpParams { app_win, ..TcpParams::default() };
            let mut s = RecvSpace::new(&params, rcvbuf, wnd, mss, WindowScale::clamped(14), None);
            s.rmem_alloc = alloc;
            s.learn_ratio(len, truesize);
            let a = Arrived { len, truesize, rcv_mss: mss, advmss: mss };
            let before = s.rcv_ssthresh;
            s.on_arrived(a, false, rmem_max);
            prop_assert!(s.rcv_ssthresh >= before);
            prop_assert!(s.rcv_ssthresh <= before.max(s.window_clamp.min(s.free_space())));
            prop_assert!(s.free_space() <= s.full_space());
            let need = s.space_from_win(u64::from(s.full_space()));
            prop_assert!(need <= u64::from(rcvbuf), "{need} for {rcvbuf}");
            s.clamp(false, false, rmem_max, mss);
            s.grow_to(rmem_max, None);
        }
    }
}
