//! HyStart: leave slow start before the queue overflows.
//!
//! Two detectors, as in Linux. *Train*: the acknowledgements of one round follow each other closely
//! for longer than half of the least round trip, so the pipe is full. *Delay*: the least round trip
//! of this round is clearly above the least ever seen, so a queue is building up.

use core::time::Duration;

use base::Instant;

use super::RttSample;
use crate::SeqNum;

/// Below this window nothing is judged, segments.
pub(super) const CWND_MIN: u32 = 16;
/// Acknowledgements closer than this belong to one train.
const TRAIN_GAP_US: u32 = 2_000;
/// Samples of a round before the delay is judged.
const DELAY_SAMPLES: u8 = 8;
/// Bounds of the delay increase that counts.
const DELAY_MIN_US: u32 = 4_000;
const DELAY_MAX_US: u32 = 16_000;
/// Cap of what a train may last longer because senders burst.
const CUSHION_MAX_US: u64 = 1_000;
/// The burst in question: four super-segments of 64 KiB.
const CUSHION_BYTES: u64 = 4 * 65_536;

/// Why slow start should end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Train,
    Delay,
}

/// State of the detectors; times are wrapping microseconds, which is enough within one round.
#[derive(Clone, Debug, Default)]
pub(super) struct Hystart {
    round_start_us: u32,
    last_ack_us: u32,
    round_end: SeqNum,
    /// Least round trip of the round.
    curr_rtt_us: u32,
    samples: u8,
    /// A round has begun.
    running: bool,
    found: bool,
}

impl Hystart {
    /// Whether there is still something to find.
    pub(super) fn is_searching(&self) -> bool {
        !self.found
    }

    /// A sample in slow start; `delay_min` is the least round trip known, this one included.
    pub(super) fn on_rtt_sample(
        &mut self,
        now: Instant,
        sample: &RttSample,
        rtt_us: u32,
        delay_min_us: u32,
        cwnd: u32,
    ) -> Option<Found> {
        let now_us = now.as_micros() as u32;
        if !self.running || sample.snd_una.after(self.round_end) {
            self.running = true;
            self.round_start_us = now_us;
            self.last_ack_us = now_us;
            self.round_end = sample.snd_nxt;
            self.curr_rtt_us = u32::MAX;
            self.samples = 0;
        }
        let mut found = None;
        if now_us.wrapping_sub(self.last_ack_us) <= TRAIN_GAP_US {
            self.last_ack_us = now_us;
            let limit = delay_min_us.saturating_add(cushion_us(sample, cwnd));
            let limit = if sample.paced { limit } else { limit / 2 };
            if now_us.wrapping_sub(self.round_start_us) > limit {
                found = Some(Found::Train);
            }
        }
        self.curr_rtt_us = self.curr_rtt_us.min(rtt_us);
        if self.samples < DELAY_SAMPLES {
            self.samples += 1;
        } else if found.is_none() {
            let increase = (delay_min_us / 8).clamp(DELAY_MIN_US, DELAY_MAX_US);
            if self.curr_rtt_us > delay_min_us.saturating_add(increase) {
                found = Some(Found::Delay);
            }
        }
        self.found = found.is_some();
        found
    }
}

/// How long four super-segments take at twice the present rate, at most 1 ms.
fn cushion_us(sample: &RttSample, cwnd: u32) -> u32 {
    let srtt_us = duration_us(sample.srtt);
    let window_bytes = u64::from(sample.snd_mss).saturating_mul(u64::from(cwnd)).max(1);
    let us = CUSHION_BYTES.saturating_mul(u64::from(srtt_us)) / window_bytes.saturating_mul(2);
    us.min(CUSHION_MAX_US) as u32
}

/// Microseconds, saturating, at least one.
pub(super) fn duration_us(d: Duration) -> u32 {
    u32::try_from(d.as_micros()).unwrap_or(u32::MAX).max(1)
}
