//! What new data may leave now: peer's window, congestion window, Nagle, silly windows.

use crate::TcpParams;

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
        // Where both are full, the congestion window is the reason that counts.
        if self.cwnd_room == 0 {
            return Err(Quiet::Cwnd);
        }
        if self.usable == 0 {
            return Err(Quiet::PeerWindow);
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

/// What the wait for a larger burst depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deferral {
    /// Bytes that wait.
    pub(crate) queued: u32,
    /// Bytes of the peer's window beyond `snd_nxt`.
    pub(crate) usable: u32,
    /// Bytes that congestion control lets go.
    pub(crate) room: u32,
    /// Bytes of a whole burst.
    pub(crate) burst: u32,
    /// The smaller of the peer's window and the congestion window, bytes.
    pub(crate) window: u32,
    /// `tcp_tso_win_divisor`.
    pub(crate) divisor: u32,
    /// Payload bytes per segment.
    pub(crate) mss: u32,
}

/// Segments that are never held back if no part of a window is asked for.
const DEFERRED_MAX: u32 = 3;

impl Deferral {
    /// Why the little that may leave waits for an acknowledgement that lets more go; `None`: it leaves. The caller
    /// knows that such an acknowledgement is near.
    pub(crate) fn reason(&self) -> Option<Quiet> {
        let limit = self.usable.min(self.room);
        if limit >= self.burst || limit >= self.queued {
            return None;
        }
        let enough = match self.divisor {
            0 => limit > DEFERRED_MAX * self.mss,
            divisor => limit >= self.window / divisor,
        };
        if enough {
            return None;
        }
        Some(if self.room < self.usable { Quiet::Cwnd } else { Quiet::PeerWindow })
    }
}

/// What the size of a super-segment depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    /// Payload bytes per segment.
    pub(crate) mss: u32,
    /// Payload bytes of one plan at most.
    pub(crate) gso_max: u32,
    pub(crate) cwnd: u32,
    pub(crate) ssthresh: u32,
    pub(crate) packets_out: u32,
    /// Microseconds; `None` before the first sample.
    pub(crate) srtt_us: Option<u32>,
    /// Microseconds.
    pub(crate) min_rtt_us: Option<u32>,
}

impl Flight {
    /// Segments that leave in one piece at most: about a millisecond's worth of the rate of the flow,
    /// more where the path is so short that bursts do not matter, so that long paths see few bursts
    /// and short ones few plans.
    pub(crate) fn burst(&self, params: &TcpParams) -> u32 {
        let whole = self.gso_max / self.mss.max(1);
        let (Some(srtt_us), Some(min_rtt_us)) = (self.srtt_us, self.min_rtt_us) else {
            return whole.max(1);
        };
        let log = u32::from(params.tso_rtt_log);
        let halvings = if log == 0 { u32::MAX } else { min_rtt_us.checked_shr(log).unwrap_or(0) };
        if halvings == 0 {
            return whole.max(1);
        }
        // A window below half of the threshold may double within a round trip.
        let percent = if self.cwnd < self.ssthresh / 2 {
            params.pacing_ss_ratio
        } else {
            params.pacing_ca_ratio
        };
        let window = u64::from(self.cwnd.max(self.packets_out)) * u64::from(self.mss);
        // Bytes per second, of which 1024 parts make one: no window is so large that this overflows.
        let rate = window.saturating_mul(u64::from(percent) * 10_000) / u64::from(srtt_us.max(1));
        let bytes = (rate >> 10) + u64::from(self.gso_max.checked_shr(halvings).unwrap_or(0));
        let segs = u32::try_from(bytes / u64::from(self.mss.max(1))).unwrap_or(u32::MAX);
        segs.max(params.min_tso_segs.into()).min(whole).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_that_would_be_small_waits() {
        let base = Deferral {
            queued: 100_000,
            usable: 60_000,
            room: 4000,
            burst: 10_000,
            window: 20_000,
            divisor: 3,
            mss: 1000,
        };
        for (name, deferral, want) in [
            ("little of a large window", base, Some(Quiet::Cwnd)),
            ("a third of it", Deferral { room: 7000, ..base }, None),
            ("a whole burst", Deferral { burst: 4000, ..base }, None),
            ("all that waits", Deferral { queued: 4000, ..base }, None),
            ("the peer's", Deferral { usable: 3000, ..base }, Some(Quiet::PeerWindow)),
            ("no part of the window, four segments", Deferral { divisor: 0, ..base }, None),
            ("and three", Deferral { divisor: 0, room: 3000, ..base }, Some(Quiet::Cwnd)),
        ] {
            assert_eq!(deferral.reason(), want, "{name}");
        }
    }

    #[test]
    fn bursts_follow_the_rate_and_the_distance() {
        let base = Flight {
            mss: 1000,
            gso_max: 64_000,
            cwnd: 10,
            ssthresh: u32::MAX,
            packets_out: 0,
            srtt_us: Some(100_000),
            min_rtt_us: Some(100_000),
        };
        let params = TcpParams::default();
        let rows: &[(&str, Flight, u32)] = &[
            ("nothing measured", Flight { srtt_us: None, min_rtt_us: None, ..base }, 64),
            ("slow", base, 2),
            // 10 MB in 100 ms, doubled: 200 MB/s.
            ("fast", Flight { cwnd: 10_000, ..base }, 64),
            // 1 MB in 100 ms: 20 MB/s, 19531 bytes; 12 MB/s, 11718 bytes.
            ("in slow start", Flight { cwnd: 1000, ..base }, 19),
            ("else", Flight { cwnd: 1000, ssthresh: 1000, ..base }, 11),
            ("more in flight than the window", Flight { cwnd: 10, packets_out: 1000, ..base }, 19),
            ("close", Flight { srtt_us: Some(511), min_rtt_us: Some(511), ..base }, 64),
            // Half of what fits, and 19531 bytes.
            ("nearly", Flight { srtt_us: Some(1000), min_rtt_us: Some(1000), ..base }, 51),
            ("large segments", Flight { mss: 60_000, ..base }, 1),
            ("segments beyond", Flight { mss: 65_000, ..base }, 1),
        ];
        for (name, flight, want) in rows {
            assert_eq!(flight.burst(&params), *want, "{name}");
        }
        let floor = TcpParams { min_tso_segs: 10, ..TcpParams::default() };
        assert_eq!(base.burst(&floor), 10);
        let rate_only = TcpParams { tso_rtt_log: 0, ..TcpParams::default() };
        let close = Flight { srtt_us: Some(511), min_rtt_us: Some(511), ..base };
        assert_eq!(close.burst(&rate_only), 38, "20 kB in 511 us");
        let grown = Flight { cwnd: 1000, ssthresh: 1000, ..base };
        let ratios =
            TcpParams { pacing_ss_ratio: 100, pacing_ca_ratio: 300, ..TcpParams::default() };
        assert_eq!(Flight { ssthresh: u32::MAX, ..grown }.burst(&ratios), 9, "10 MB/s");
        assert_eq!(grown.burst(&ratios), 29, "30 MB/s");
        let none = TcpParams { pacing_ss_ratio: 0, pacing_ca_ratio: 0, ..TcpParams::default() };
        assert_eq!(grown.burst(&none), 2, "no rate leaves the floor");
        // Anything that a peer can bring about.
        let wild = Flight {
            mss: 0,
            cwnd: u32::MAX,
            packets_out: u32::MAX,
            srtt_us: Some(0),
            min_rtt_us: Some(u32::MAX),
            gso_max: u32::MAX,
            ..base
        };
        assert!(wild.burst(&params) >= 1);
    }

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
