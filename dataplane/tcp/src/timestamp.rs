//! The timestamp clock, RFC 7323 section 5.4: milliseconds plus an offset that hides our uptime.

use core::time::Duration;

use base::Instant;

/// How long TS.Recent counts without traffic, RFC 7323 section 5.5.
pub const TS_RECENT_VALID: Duration = Duration::from_secs(24 * 24 * 3600);

/// TSval at `now`.
pub const fn ts_val(now: Instant, offset: u32) -> u32 {
    (now.as_millis() as u32).wrapping_add(offset)
}

/// Whether `ts` is older than `than`; the clock wraps.
pub const fn ts_before(ts: u32, than: u32) -> bool {
    ts.wrapping_sub(than).cast_signed() < 0
}

/// Round trip told by the echo `ts_ecr` of one of our timestamps, at least one tick; `None` if it
/// lies in the future and so is no echo of ours.
pub const fn rtt_of_echo(now: Instant, offset: u32, ts_ecr: u32) -> Option<Duration> {
    let ms = ts_val(now, offset).wrapping_sub(ts_ecr).cast_signed();
    match ms {
        ..0 => None,
        0 => Some(Duration::from_millis(1)),
        1.. => Some(Duration::from_millis(ms.cast_unsigned() as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_wraps() {
        assert_eq!(ts_val(Instant::from_millis(10), u32::MAX), 9);
        assert_eq!(ts_val(Instant::from_millis((1 << 32) + 5), 0), 5);
        assert!(ts_before(u32::MAX, 0) && !ts_before(0, u32::MAX) && !ts_before(7, 7));
    }

    #[test]
    fn echoes_tell_round_trips() {
        let rtt = |now, offset, ecr| rtt_of_echo(Instant::from_millis(now), offset, ecr);
        assert_eq!(rtt(150, 0, 100), Some(Duration::from_millis(50)));
        assert_eq!(rtt(150, u32::MAX - 100, 40), Some(Duration::from_millis(9)));
        assert_eq!(rtt(100, 0, 100), Some(Duration::from_millis(1)), "zero counts as one tick");
        assert_eq!(rtt(100, 0, 101), None, "from the future");
    }
}
