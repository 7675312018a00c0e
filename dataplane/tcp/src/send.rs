//! What new data may leave now: peer's window, congestion window, Nagle, silly windows.

/// Why a connection does not send: the name that a trace gives to silence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Quiet {
    /// Nothing to send: limited by the application.
    #[default]
    Nothing,
    /// The peer's window is closed.
    PeerWindow,
    /// The congestion window is full.
    Cwnd,
    /// A small segment waits for the acknowledgement of another, or for more data.
    Nagle,
    /// The peer's window is so small that using it would be silly.
    Sws,
    /// The pacing clock says later.
    Pacing,
    /// The transmit log is full.
    Log,
    /// The device has no room.
    Device,
    /// The connection is over.
    Closed,
}

/// What the length of a transmission depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    /// Bytes not yet sent.
    pub(crate) queued: u32,
    /// Bytes of the peer's window beyond `snd_nxt`.
    pub(crate) usable: u32,
    /// Largest window that the peer ever offered.
    pub(crate) max_window: u32,
    /// Payload bytes per segment.
    pub(crate) mss: u32,
    /// Segments that congestion control lets go.
    pub(crate) cwnd_room: u32,
    /// Segments that the caller can take, and that one plan may have.
    pub(crate) segs_max: u32,
    /// A partial segment must wait: Nagle, or more data announced.
    pub(crate) hold_partial: bool,
    /// The window's silliness is ignored: the override timer has fired.
    pub(crate) forced: bool,
}

impl View {
    /// Bytes of new data to send now.
    pub(crate) fn len(&self) -> Result<u32, Quiet> {
        if self.queued == 0 {
            return Err(Quiet::Nothing);
        }
        if self.usable == 0 {
            return Err(Quiet::PeerWindow);
        }
        if self.cwnd_room == 0 {
            return Err(Quiet::Cwnd);
        }
        if self.segs_max == 0 {
            return Err(Quiet::Device);
        }
        let fits = self.queued.min(self.usable);
        let most = self.cwnd_room.min(self.segs_max).saturating_mul(self.mss);
        if fits >= most {
            return Ok(most);
        }
        let full = if fits < self.mss { 0 } else { fits / self.mss * self.mss };
        if full == fits {
            return Ok(full);
        }
        if fits == self.queued {
            // RFC 9293 section 3.7.4: a partial segment at the end of what is queued.
            if !self.hold_partial || self.forced {
                return Ok(fits);
            }
            return if full > 0 { Ok(full) } else { Err(Quiet::Nagle) };
        }
        // RFC 9293 section 3.8.6.2.1: cut by the window. Send it only if it is a good part of the
        // largest window seen, or the override timer says so.
        if full > 0 {
            return Ok(full);
        }
        if self.forced || fits >= self.max_window / 2 {
            return Ok(fits);
        }
        Err(Quiet::Sws)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        let base = View {
            queued: 100_000,
            usable: 65_000,
            max_window: 65_535,
            mss: 1000,
            cwnd_room: 10,
            segs_max: 44,
            hold_partial: false,
            forced: false,
        };
        let rows: &[(&str, View, Result<u32, Quiet>)] = &[
            ("congestion window", base, Ok(10_000)),
            ("device", View { segs_max: 3, ..base }, Ok(3000)),
            ("peer window, whole segments", View { usable: 4500, ..base }, Ok(4000)),
            ("end of queue with a partial segment", View { queued: 2500, ..base }, Ok(2500)),
            (
                "partial segment held back",
                View { queued: 2500, hold_partial: true, ..base },
                Ok(2000),
            ),
            (
                "only a partial segment",
                View { queued: 5, hold_partial: true, ..base },
                Err(Quiet::Nagle),
            ),
            (
                "partial segment released",
                View { queued: 5, hold_partial: true, forced: true, ..base },
                Ok(5),
            ),
            ("silly window", View { usable: 500, ..base }, Err(Quiet::Sws)),
            ("small but half of all", View { usable: 500, max_window: 1000, ..base }, Ok(500)),
            ("override", View { usable: 1, forced: true, ..base }, Ok(1)),
            ("closed window", View { usable: 0, ..base }, Err(Quiet::PeerWindow)),
            ("full congestion window", View { cwnd_room: 0, ..base }, Err(Quiet::Cwnd)),
            ("nothing", View { queued: 0, ..base }, Err(Quiet::Nothing)),
            ("no ring", View { segs_max: 0, ..base }, Err(Quiet::Device)),
        ];
        for (name, view, want) in rows {
            assert_eq!(view.len(), *want, "{name}");
        }
    }
}
