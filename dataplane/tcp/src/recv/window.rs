//! Which window to offer.

/// What the choice depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    /// Bytes of window that the whole receive buffer is good for.
    pub(crate) allowed: u32,
    /// Bytes of window that what is left of it is good for.
    pub(crate) free: u32,
    /// No larger window is offered.
    pub(crate) clamp: u32,
    /// The window that the peer's segments have earned.
    pub(crate) ssthresh: u32,
    /// Segment size of the peer, bytes.
    pub(crate) rcv_mss: u32,
    /// Our window scale.
    pub(crate) wscale: u8,
    /// What is still open of the last offer: right edge minus `rcv_nxt`.
    pub(crate) current: u32,
    /// Bytes by which the right edge may move.
    pub(crate) room: u32,
}

impl Offer {
    /// The window to offer, a multiple of the scale's unit. Never takes an offer back, never offers a
    /// silly window (RFC 9293 section 3.8.6.2.2).
    ///
    /// What was offered stays open in [`crate::Connection`] to the byte; what the header can say of it
    /// is rounded down when the edge is to stay where it is (RFC 7323 section 2.4 describes that to
    /// senders). Rounding up would let the edge creep by up to a unit with each acknowledgement, so
    /// that small segments to a reader that does not read would never close the window.
    pub(crate) fn select(&self) -> u32 {
        let unit = 1u32 << self.wscale;
        let cap = 0xffff_u32 << self.wscale;
        let limit = self.current.saturating_add(self.room) & !(unit - 1);
        let wanted = self.wanted(unit).min(cap).min(limit);
        if wanted < self.current { (self.current & !(unit - 1)).min(cap) } else { wanted }
    }

    fn wanted(&self, unit: u32) -> u32 {
        let full = self.clamp.min(self.allowed);
        let mss = self.rcv_mss.min(full);
        if mss == 0 {
            return 0;
        }
        let mut free = self.free;
        if free < full / 2 {
            free &= !(unit - 1);
            if free < self.allowed / 16 || free < mss {
                return 0;
            }
        }
        let free = free.min(self.ssthresh).min(full);
        if self.wscale > 0 {
            return round_up(free, unit);
        }
        let window = self.current;
        if window <= free.saturating_sub(mss) || window > free {
            free / mss * mss
        } else if mss == full && free > window.saturating_add(full / 2) {
            free
        } else {
            window
        }
    }
}

fn round_up(value: u32, unit: u32) -> u32 {
    value.checked_next_multiple_of(unit).unwrap_or(value & !(unit - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        const OPEN: u32 = 1 << 30;
        let base = Offer {
            allowed: 65536,
            free: 65536,
            clamp: OPEN,
            ssthresh: OPEN,
            rcv_mss: 1460,
            wscale: 7,
            current: 0,
            room: OPEN,
        };
        let left = |free| Offer { free, ..base };
        let rows: &[(&str, Offer, u32)] = &[
            ("all free", base, 65536),
            ("rounded up to the unit", left(65436), 65536),
            ("never back", Offer { current: 40000, ..left(5536) }, 39936),
            ("silly: below a sixteenth", left(3536), 0),
            ("a sixteenth is not silly", left(4096), 4096),
            ("silly: below a segment", Offer { rcv_mss: 8948, ..left(4096) }, 0),
            ("what was earned", Offer { ssthresh: 20_000, ..base }, 20_096),
            (
                "what was earned is less than what is free",
                Offer { ssthresh: 20_000, ..left(30_000) },
                20_096,
            ),
            ("clamped", Offer { clamp: 10_000, ..base }, 10_112),
            (
                "clamped, and silly against the clamp only",
                Offer { clamp: 10_000, ..left(4096) },
                4096,
            ),
            ("room is respected", Offer { current: 1000, room: 5000, ..base }, 5888),
            ("no room: as it was, in whole units", Offer { current: 1000, room: 0, ..base }, 896),
            ("unscaled: whole segments", Offer { wscale: 0, ..base }, 64240),
            (
                "unscaled: left alone when it moves less than a segment",
                Offer { wscale: 0, current: 65000, ..base },
                65000,
            ),
            ("unscaled: at most 65535", Offer { wscale: 0, rcv_mss: 1, ..base }, 65535),
            ("no buffer", Offer { allowed: 0, free: 0, ..base }, 0),
            ("buffer lowered below what is held", left(0), 0),
        ];
        for (name, offer, window) in rows {
            assert_eq!(offer.select(), *window, "{name}");
        }
    }

    #[test]
    fn the_edge_never_moves_back_nor_further_than_the_room() {
        let mut random = base::SeededRandom::new(5);
        use base::Random;
        for _ in 0..20_000 {
            let wscale = random.below(15) as u8;
            let allowed = random.below(1 << 26);
            let offer = Offer {
                allowed,
                free: random.below(allowed + 1),
                clamp: random.below(1 << 27),
                ssthresh: random.below(1 << 27),
                rcv_mss: 1 + random.below(9000),
                wscale,
                current: random.below(0xffff << wscale),
                room: random.below(1 << 26),
            };
            let window = offer.select();
            let unit = 1 << wscale;
            assert!(window + unit > offer.current, "{offer:?}");
            assert!(window <= offer.current + offer.room, "{offer:?}");
            assert!(window <= 0xffff << wscale && window.is_multiple_of(unit), "{offer:?}");
            // RFC 9293 section 3.8.6.2.2: no window below a segment is opened anew.
            let full = offer.clamp.min(offer.allowed);
            assert!(
                window == 0
                    || window <= offer.current
                    || window
                        >= offer
                            .rcv_mss
                            .min(full)
                            .min(offer.ssthresh)
                            .min(offer.current + offer.room)
                            / unit
                            * unit,
                "{offer:?}: {window}"
            );
        }
    }
}
