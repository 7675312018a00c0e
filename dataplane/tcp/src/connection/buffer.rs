//! The send buffer: how much of a write fits, where it is pushed, and when a writer is woken.
//!
//! An application that knows Linux finds its numbers here. The buffer is charged for more than payload: for each
//! burst in flight and each chunk that waits also what Linux has beside the payload, so that many small writes fill
//! a buffer as well as few large ones. What waits is thought of as chunks of half the largest window of the peer:
//! one that has been begun is filled whatever the limits say, and only the next one asks whether there is room.
//! Chunks are a way of counting; the bytes themselves are one range.

use arrayvec::ArrayVec;

use super::parts::Extension;
use super::{Connection, Flags};
use crate::send::Flight;
use crate::{Cx, SeqNum, TcpParams};

/// What a buffer of Linux takes beside its payload, bytes.
const OVERHEAD: u32 = 1280;
/// What a segment takes beside its payload where Linux reckons how large a send buffer must be: room for headers and
/// for the list of fragments, before it is rounded up to a power of two.
const SEGMENT_ROOM: u32 = 640;
/// And after that.
const DESCRIPTOR: u32 = 256;
/// Chunks that one write fills at most. A writer that has more is told at once to go on.
const CHUNKS_MAX: u32 = 256;
/// What a write brings is sent when it is over. So much of it counts as sent while it goes on, at most: bytes that
/// wait for long are cold when their turn comes.
const AHEAD_MAX: u32 = 65_536;
/// Pushes inside what waits that are remembered; there is one for each half of the peer's window.
const PUSHES_MAX: usize = 8;
/// Windows up to this are not halved.
const SMALL_WINDOW: u32 = 536;

/// How what waits is divided.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    /// Where the last chunk begins, unless that was sent.
    tail: SeqNum,
    /// The last chunk is pushed where it ends.
    tail_pushed: bool,
    /// Up to where things were pushed when they were written.
    pushed_seq: SeqNum,
    /// Where earlier chunks end that are pushed.
    pushes: ArrayVec<SeqNum, PUSHES_MAX>,
    /// Whether the size of the buffer is to be looked at.
    is_in_question: bool,
}

impl Queue {
    pub(super) fn new(write_seq: SeqNum) -> Self {
        Self {
            tail: write_seq,
            tail_pushed: false,
            pushed_seq: write_seq,
            pushes: ArrayVec::new(),
            is_in_question: false,
        }
    }

    /// Another chunk begins at `end`.
    fn begin_chunk(&mut self, end: SeqNum, unsent: bool) {
        if self.tail_pushed && unsent {
            // One that is not remembered is not pushed, which only costs time.
            let _ = self.pushes.try_push(end);
        }
        self.tail = end;
        self.tail_pushed = false;
    }

    fn push(&mut self, end: SeqNum) {
        self.tail_pushed = true;
        self.pushed_seq = end;
    }
}

/// A write as it goes on.
struct Filling<'a> {
    connection: &'a Connection,
    params: &'a TcpParams,
    queue: Queue,
    /// Payload bytes of a chunk.
    size: u32,
    /// After what was written so far.
    end: SeqNum,
    /// After what counts as sent.
    sent: SeqNum,
    /// How far that may go; `None`: not looked at yet.
    limit: Option<SeqNum>,
    charge: u32,
}

impl Filling<'_> {
    /// Take up to `want` bytes. `limited`: only as far as there is room.
    fn fill(&mut self, want: u32, limited: bool) -> u32 {
        let own = self.connection;
        let lowat = own.notsent_lowat(self.params);
        let begun = own.last_record() != Some(self.end);
        let mut taken = 0;
        for _ in 0..CHUNKS_MAX {
            if taken == want {
                break;
            }
            let filled = self.end.bytes_since(self.queue.tail.later(self.sent));
            let goes_on = self.end != self.sent && filled < self.size && (begun || taken > 0);
            let room = if goes_on {
                if taken == 0 {
                    self.queue.tail_pushed = false;
                }
                self.size - filled
            } else {
                let waits = self.end.bytes_since(self.sent);
                if limited && (self.charge >= own.warm.sndbuf || waits >= lowat) {
                    break;
                }
                let unsent = self.end.after(own.hot.snd_nxt);
                self.queue.begin_chunk(self.end, unsent);
                self.charge = self.charge.saturating_add(OVERHEAD);
                self.size
            };
            let some = room.min(want - taken);
            taken += some;
            self.end = self.end.add(some);
            self.charge = self.charge.saturating_add(some);
            if taken < want {
                self.chunk_is_full();
            }
        }
        taken
    }

    /// Linux sends while the write goes on: at each full half of the window all that may leave, and else a burst if
    /// nothing is before it.
    fn chunk_is_full(&mut self) {
        let forced =
            self.end.bytes_since(self.queue.pushed_seq) > self.connection.hot.max_window / 2;
        if forced {
            self.queue.push(self.end);
        } else if self.queue.tail.after(self.sent) {
            return;
        }
        let own = self.connection;
        let flight = own.flight();
        let mss = flight.mss.max(1);
        let burst = flight.burst(self.params).min((flight.cwnd / 2).max(1)).saturating_mul(mss);
        let limit = *self.limit.get_or_insert_with(|| {
            let in_flight = own.ext.as_ref().map_or(0, |ext| ext.recovery.in_flight());
            let room = flight.cwnd.saturating_sub(in_flight).saturating_mul(mss);
            let waited = own.hot.write_seq.bytes_since(own.hot.snd_nxt);
            let ahead = own.usable_window().min(room).min(waited.saturating_add(AHEAD_MAX));
            own.hot.snd_nxt.add(ahead)
        });
        let most = if limit.after(self.sent) { limit.bytes_since(self.sent) } else { 0 };
        let most = if forced { most } else { most.min(burst) };
        let waits = self.end.bytes_since(self.sent);
        let leaves = most.min(waits) / mss * mss;
        self.sent = self.sent.add(leaves);
        let pieces = leaves.div_ceil(burst.max(1)).saturating_sub(u32::from(leaves == waits));
        self.charge = self.charge.saturating_add(pieces.saturating_mul(OVERHEAD));
    }
}

impl Connection {
    /// Bytes that the application may hand over now, of `want`: free send buffer, `tcp_notsent_lowat`.
    /// When this is less than wanted, [`crate::Event::Writable`] follows once there is room.
    pub fn send_room(&self, cx: &Cx<'_>, want: u32) -> u32 {
        if !self.may_send() || want == 0 {
            return 0;
        }
        self.filling(cx.params).fill(want, true)
    }

    fn filling<'a>(&'a self, params: &'a TcpParams) -> Filling<'a> {
        let queue = self.ext.as_ref().map(|ext| ext.queue.clone());
        Filling {
            connection: self,
            params,
            queue: queue.unwrap_or_else(|| Queue::new(self.hot.write_seq)),
            size: self.chunk(),
            end: self.hot.write_seq,
            sent: self.hot.snd_nxt,
            limit: None,
            charge: self.charge(),
        }
    }

    /// `len` bytes were handed over, and `more` are to follow at once.
    pub(super) fn enqueue(&mut self, cx: &Cx<'_>, len: u32, more: bool) {
        let mut filling = self.filling(cx.params);
        filling.fill(len, false);
        let mut queue = filling.queue;
        let end = self.hot.write_seq.add(len);
        if !more || end.bytes_since(queue.pushed_seq) > self.hot.max_window / 2 {
            queue.push(end);
        }
        self.hot.write_seq = end;
        if let Some(ext) = &mut self.ext {
            ext.queue = queue;
        }
    }

    /// What the rate of transmission depends on.
    pub(super) fn flight(&self) -> Flight {
        let ext = self.ext.as_deref();
        Flight {
            mss: u32::from(self.hot.snd_mss),
            gso_max: self.hot.gso_max,
            cwnd: ext.map_or(self.warm.saved_cwnd, |ext| ext.cc.cwnd()),
            ssthresh: ext.map_or(self.warm.saved_ssthresh, |ext| ext.cc.ssthresh()),
            packets_out: self.packets_out(),
            srtt_us: self.hot.rtt.srtt_us(),
            min_rtt_us: self.hot.rtt.min_rtt_us(),
        }
    }

    /// Payload bytes of a chunk: whole segments, half of the peer's largest window, so that no burst fills it.
    fn chunk(&self) -> u32 {
        let mss = u32::from(self.hot.snd_mss).max(1);
        let window = self.hot.max_window;
        let part = if window > SMALL_WINDOW { window / 2 } else { window };
        (self.hot.gso_max.min(part) / mss).max(1) * mss
    }

    /// What is charged to the send buffer.
    fn charge(&self) -> u32 {
        let hot = &self.hot;
        let bursts = self.ext.as_ref().map_or(0, |ext| ext.recovery.log.len());
        let unsent = hot.write_seq.bytes_since(hot.snd_nxt);
        let chunks = if unsent == 0 { 0 } else { unsent.div_ceil(self.chunk()) };
        let pieces = u32::try_from(bursts).unwrap_or(u32::MAX).saturating_add(chunks);
        hot.write_seq.bytes_since(hot.snd_una).saturating_add(pieces.saturating_mul(OVERHEAD))
    }

    /// Whether a writer should be woken: a third of the buffer is free, so that a few large writes come
    /// instead of many small ones, and what is unsent is below half of `tcp_notsent_lowat`.
    pub fn is_writable(&self, params: &TcpParams) -> bool {
        let charge = self.charge();
        let unsent = self.hot.write_seq.bytes_since(self.hot.snd_nxt);
        self.may_send()
            && charge < self.warm.sndbuf
            && self.warm.sndbuf - charge >= charge / 2
            && unsent.saturating_mul(2) < self.notsent_lowat(params)
    }

    /// The application wanted more room than there was: [`crate::Event::Writable`] is owed.
    pub fn want_writable(&mut self) {
        self.hot.flags.set(Flags::WANT_WRITABLE);
    }

    /// The application is woken as soon as it is worth it.
    pub(super) fn settle_writable(&mut self, params: &TcpParams) {
        if !self.hot.flags.has(Flags::WANT_WRITABLE) {
            return;
        }
        if self.is_writable(params) {
            self.hot.flags.clear(Flags::WANT_WRITABLE);
            self.hot.flags.set(Flags::EV_WRITABLE);
        }
    }

    /// Grow the send buffer with the congestion window: twice what can be in flight, so that the
    /// application has a round trip to fill it.
    pub(super) fn size_send_buffer(&mut self, params: &TcpParams) {
        if self.hot.flags.has(Flags::SNDBUF_LOCKED) {
            return;
        }
        let (cwnd, reordering) = self
            .ext
            .as_ref()
            .map_or((0, params.reordering), |ext| (ext.cc.cwnd(), ext.recovery.reordering()));
        let segs = params.initial_cwnd.max(cwnd).max(reordering.saturating_add(1));
        let mss = u32::from(self.warm.peer_mss.max(self.hot.snd_mss));
        let each = mss.saturating_add(SEGMENT_ROOM).next_power_of_two().saturating_add(DESCRIPTOR);
        let wanted = segs.saturating_mul(2).saturating_mul(each);
        self.warm.sndbuf = self.warm.sndbuf.max(wanted.min(params.wmem[2]));
    }

    /// Something was acknowledged for an application that waits for room. If the congestion window can take more
    /// than there is, the buffer is too small; if it is not sure to be filled, that is seen once what may leave has
    /// left.
    pub(super) fn note_room(&mut self, params: &TcpParams) {
        if !self.hot.flags.has(Flags::WANT_WRITABLE) {
            return;
        }
        let unsent = self.hot.write_seq.bytes_since(self.hot.snd_nxt);
        let leaves = unsent.min(self.usable_window()).div_ceil(u32::from(self.hot.snd_mss).max(1));
        let Some(ext) = &mut self.ext else { return };
        if ext.recovery.in_flight().saturating_add(leaves) < ext.cc.cwnd() {
            self.size_send_buffer(params);
        } else {
            ext.queue.is_in_question = true;
        }
    }

    /// Nothing more may leave. If the congestion window could take more, the buffer is too small.
    pub(super) fn reconsider_send_buffer(&mut self, params: &TcpParams) {
        if !self.hot.flags.has(Flags::WANT_WRITABLE) {
            return;
        }
        let Some(ext) = &mut self.ext else { return };
        let asked = core::mem::take(&mut ext.queue.is_in_question);
        if !asked {
            return;
        }
        if ext.recovery.in_flight() < ext.cc.cwnd() {
            self.size_send_buffer(params);
        }
        self.settle_writable(params);
    }

    /// Where the next push is inside what waits.
    pub(super) fn push_inside(&self) -> Option<SeqNum> {
        self.ext.as_ref()?.queue.pushes.first().copied()
    }

    /// RFC 9293 section 3.9.1.2: whether what ends at `end` is pushed: the application has handed over everything up
    /// to it and has not said that more follows, or a record or half of the peer's window ends there.
    pub(super) fn is_pushed(&self, end: SeqNum) -> bool {
        let last =
            end == self.hot.write_seq && self.ext.as_ref().is_some_and(|ext| ext.queue.tail_pushed);
        last || self.record_end() == Some(end) || self.push_inside() == Some(end)
    }

    /// What was written last is pushed, although more was announced.
    pub(super) fn push_last(&mut self) {
        let write_seq = self.hot.write_seq;
        if let Some(ext) = &mut self.ext {
            ext.queue.push(write_seq);
        }
    }
}

impl Extension {
    /// Everything before `snd_nxt` was sent.
    pub(super) fn forget_pushes(&mut self, snd_nxt: SeqNum) {
        self.queue.pushes.retain(|end| end.after(snd_nxt));
    }
}
