//! One data connection: payload, pacing and counters.

use core::time::Duration;

use base::{ConnId, Instant};
use stack::Io;
use tcp::TcpInfo;

use super::params::Params;
use super::report::{Extremes, Integrity, StreamInfo, TcpSample};

/// Bytes that one stream sends in one event at most, so that others get their turn.
const SEND_BUDGET_BYTES: usize = 1 << 20;
/// The payload buffer holds whole blocks up to about this size, so that small blocks do not cost a
/// call each.
const PAYLOAD_TARGET_BYTES: usize = 1 << 16;

/// What senders send: whole blocks, one after the other. All streams of a test share it.
#[derive(Debug, Default)]
pub(crate) struct Payload {
    bytes: Vec<u8>,
    block: usize,
}

impl Payload {
    pub(crate) fn new(io: &mut dyn Io, params: &Params) -> Self {
        let block = (params.len as usize).max(1);
        let mut bytes = Vec::with_capacity(block);
        if params.repeating_payload {
            bytes.extend((b'0'..=b'9').cycle().take(block));
        } else {
            while bytes.len() < block {
                bytes.extend(io.random().to_le_bytes());
            }
            bytes.truncate(block);
        }
        let copies = (PAYLOAD_TARGET_BYTES / block).max(1);
        Self { bytes: bytes.repeat(copies), block }
    }

    /// What the byte at `position` of a stream and those after it are, up to the buffer's end.
    fn at(&self, position: u64) -> &[u8] {
        let offset = position.checked_rem(self.bytes.len() as u64).unwrap_or(0);
        self.bytes.get(offset as usize..).unwrap_or_default()
    }

    /// Bytes up to the end of the block that `position` is in; a whole block at its start.
    fn left_in_block(&self, position: u64) -> u64 {
        let block = self.block as u64;
        block - position.checked_rem(block).unwrap_or(0)
    }

    /// Blocks that `bytes` from the start of a stream have begun.
    fn begun(&self, bytes: u64) -> u64 {
        bytes.div_ceil((self.block as u64).max(1))
    }
}

/// What all senders of a side together may still send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota {
    pub(crate) bytes: u64,
    pub(crate) blocks: u64,
}

impl Quota {
    pub(crate) const UNLIMITED: Self = Self { bytes: u64::MAX, blocks: u64::MAX };
}

/// The average rate since the start decides about each block, or burst of blocks.
#[derive(Debug)]
struct Pace {
    bits_per_sec: u64,
    burst_bytes: u64,
    start: Instant,
    sent: u64,
    /// Bytes of the present block or burst that may still go.
    granted: u64,
}

impl Pace {
    /// When the average falls back to the target.
    fn due(&self) -> Instant {
        let nanos =
            u128::from(self.sent) * 8 * 1_000_000_000 / u128::from(self.bits_per_sec.max(1));
        self.start + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// A data stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) conn: ConnId,
    pub(crate) info: StreamInfo,
    /// When the connection went; the id is stale from then on.
    pub(crate) closed_at: Option<Instant>,
    /// Bytes sent or received since the connection began.
    position: u64,
    /// Bytes that count: since the start, or since the end of the omitted period.
    pub(crate) bytes: u64,
    /// `bytes` at the last interval.
    bytes_before: u64,
    pace: Option<Pace>,
    /// TCP has taken less than it was given, at this time.
    pub(crate) blocked_since: Option<Instant>,
    /// Come back at this time although no event will say so.
    pub(crate) wake: Option<Instant>,
    /// Retransmissions when counting began.
    retransmits_base: u64,
    retransmits_before: u64,
    retransmits: u64,
    /// The last look; its `retransmits` is not kept up.
    tcp: TcpSample,
    pub(crate) congestion: Option<&'static str>,
    extremes: Extremes,
    rtt_sum_us: u64,
    rtt_samples: u64,
    integrity: Option<Integrity>,
}

impl Stream {
    pub(crate) fn new(conn: ConnId, info: StreamInfo, verify: bool) -> Self {
        Self {
            conn,
            info,
            closed_at: None,
            position: 0,
            bytes: 0,
            bytes_before: 0,
            pace: None,
            blocked_since: None,
            wake: None,
            retransmits_base: 0,
            retransmits_before: 0,
            retransmits: 0,
            tcp: TcpSample::default(),
            congestion: None,
            extremes: Extremes::default(),
            rtt_sum_us: 0,
            rtt_samples: 0,
            integrity: (verify && !info.sender).then(Integrity::default),
        }
    }

    /// Sending may begin.
    pub(crate) fn run(&mut self, now: Instant, params: &Params) {
        if self.info.sender && params.bandwidth > 0 {
            self.pace = Some(Pace {
                bits_per_sec: params.bandwidth,
                burst_bytes: u64::from(params.burst.max(1)) * u64::from(params.len.max(1)),
                start: now,
                sent: 0,
                granted: 0,
            });
        }
    }

    /// Send until TCP takes less, the pace says wait, the quota is used up, or others are due.
    pub(crate) fn send(&mut self, io: &mut dyn Io, payload: &Payload, quota: &mut Quota) {
        let now = io.now();
        let mut budget = SEND_BUDGET_BYTES;
        self.wake = None;
        while self.closed_at.is_none() {
            if budget == 0 {
                self.wake = Some(now);
                return;
            }
            let in_block = payload.left_in_block(self.position);
            let at_start = in_block == payload.block as u64;
            if let Some(pace) = &mut self.pace
                && pace.granted == 0
            {
                let due = pace.due();
                if now < due {
                    self.wake = Some(due);
                    return;
                }
                pace.granted = pace.burst_bytes;
            }
            let granted = self.pace.as_ref().map_or(u64::MAX, |p| p.granted);
            let begun_block = if at_start { 0 } else { in_block };
            let by_blocks =
                quota.blocks.saturating_mul(payload.block as u64).saturating_add(begun_block);
            let limit = granted.min(by_blocks).min(quota.bytes);
            let ahead = payload.at(self.position);
            let want = ahead.len().min(budget).min(usize::try_from(limit).unwrap_or(usize::MAX));
            let Some(chunk) = ahead.get(..want).filter(|chunk| !chunk.is_empty()) else { return };
            let Ok(taken) = io.send(self.conn, chunk, false) else {
                // The `Closed` event says why.
                return;
            };
            let taken = taken.min(want);
            let begun = payload.begun(self.position);
            self.count(taken as u64);
            quota.bytes = quota.bytes.saturating_sub(taken as u64);
            let begun_now = payload.begun(self.position) - begun;
            quota.blocks = quota.blocks.saturating_sub(begun_now);
            if let Some(pace) = &mut self.pace {
                pace.granted = pace.granted.saturating_sub(taken as u64);
                pace.sent = pace.sent.saturating_add(taken as u64);
            }
            budget -= taken;
            if taken > 0 {
                self.blocked_since = None;
            }
            if taken < want {
                self.blocked_since.get_or_insert(now);
                return;
            }
        }
    }

    fn count(&mut self, bytes: u64) {
        self.position = self.position.saturating_add(bytes);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Take all that has arrived and count it; returns whether there was anything.
    pub(crate) fn receive(&mut self, io: &mut dyn Io, payload: &Payload) -> bool {
        let mut position = self.position;
        let integrity = &mut self.integrity;
        io.recv(self.conn, &mut |slice| {
            if let Some(check) = integrity {
                verify(check, payload, position, slice);
            }
            position = position.saturating_add(slice.len() as u64);
            slice.len()
        });
        let got = position - self.position;
        self.count(got);
        got > 0
    }

    /// Take all that has arrived without counting it.
    pub(crate) fn discard(&self, io: &mut dyn Io) {
        io.recv(self.conn, &mut |slice| slice.len());
    }

    /// The omitted period is over: what was counted so far does not count.
    pub(crate) fn reset_counters(&mut self) {
        self.bytes = 0;
        self.bytes_before = 0;
        self.retransmits_base = self.retransmits;
        self.extremes = Extremes::default();
        self.rtt_sum_us = 0;
        self.rtt_samples = 0;
    }

    /// Look at TCP. Keeps the last look when the connection is gone.
    pub(crate) fn look(&mut self, io: &dyn Io) {
        let Some(info) = io.info(self.conn).filter(|_| self.closed_at.is_none()) else { return };
        self.retransmits = info.total_retrans;
        self.congestion = Some(info.congestion);
        self.tcp = sample(&info);
    }

    /// Bytes and TCP sample of the interval that ends now.
    pub(crate) fn end_interval(&mut self, io: &dyn Io) -> (u64, TcpSample) {
        self.look(io);
        let bytes = self.bytes - self.bytes_before;
        self.bytes_before = self.bytes;
        let retransmits = self.retransmits.saturating_sub(self.retransmits_before);
        self.retransmits_before = self.retransmits;
        self.note_extremes();
        (bytes, TcpSample { retransmits, ..self.tcp })
    }

    pub(crate) fn bytes_in_interval(&self) -> u64 {
        self.bytes - self.bytes_before
    }

    fn note_extremes(&mut self) {
        let (tcp, e) = (&self.tcp, &mut self.extremes);
        e.max_snd_cwnd = e.max_snd_cwnd.max(tcp.snd_cwnd);
        e.max_snd_wnd = e.max_snd_wnd.max(tcp.snd_wnd);
        e.reorder = e.reorder.max(tcp.reorder);
        if tcp.rtt_us > 0 {
            e.max_rtt_us = e.max_rtt_us.max(tcp.rtt_us);
            e.min_rtt_us =
                if e.min_rtt_us == 0 { tcp.rtt_us } else { e.min_rtt_us.min(tcp.rtt_us) };
            self.rtt_sum_us = self.rtt_sum_us.saturating_add(tcp.rtt_us);
            self.rtt_samples = self.rtt_samples.saturating_add(1);
            e.mean_rtt_us = self.rtt_sum_us.checked_div(self.rtt_samples).unwrap_or(0);
        }
    }

    /// Segments retransmitted since counting began.
    pub(crate) fn retransmits_total(&self) -> u64 {
        self.retransmits.saturating_sub(self.retransmits_base)
    }

    pub(crate) fn extremes(&self) -> Extremes {
        self.extremes
    }

    /// The last look at TCP, with the total of retransmissions.
    pub(crate) fn last_sample(&self) -> TcpSample {
        TcpSample { retransmits: self.retransmits_total(), ..self.tcp }
    }

    pub(crate) fn integrity(&self) -> Option<Integrity> {
        self.integrity
    }

    /// Whole blocks that count.
    pub(crate) fn blocks(&self, block: u32) -> u64 {
        self.bytes.checked_div(block.into()).unwrap_or(0)
    }
}

/// Compare `slice` with what belongs at `position`.
fn verify(check: &mut Integrity, payload: &Payload, position: u64, slice: &[u8]) {
    let mut at = position;
    let mut rest = slice;
    while !rest.is_empty() {
        let expected = payload.at(at);
        let n = expected.len().min(rest.len());
        if n == 0 {
            return;
        }
        let (now, later) = rest.split_at(n);
        if check.first_mismatch.is_none() && expected.get(..n) != Some(now) {
            let wrong = expected.iter().zip(now).position(|(a, b)| a != b).unwrap_or(0);
            check.first_mismatch = Some(at.saturating_add(wrong as u64));
        }
        check.checked_bytes = check.checked_bytes.saturating_add(n as u64);
        at = at.saturating_add(n as u64);
        rest = later;
    }
}

fn sample(info: &TcpInfo) -> TcpSample {
    let micros = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
    TcpSample {
        retransmits: 0,
        snd_cwnd: u64::from(info.snd_cwnd) * u64::from(info.snd_mss),
        snd_wnd: info.snd_wnd.into(),
        rtt_us: micros(info.rtt),
        rttvar_us: micros(info.rttvar),
        pmtu: info.pmtu,
        reorder: info.reordering,
        min_rtt_us: micros(info.min_rtt),
        snd_mss: info.snd_mss,
        rcv_wnd: info.rcv_wnd,
        rcvbuf: info.rcvbuf,
        sndbuf: info.sndbuf,
        rehash: info.rehash,
        timeouts: info.rto_count,
    }
}
