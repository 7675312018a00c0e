//! Receive offload in software: the in-order segments of one flow within a burst become one run, and
//! the engine is called once for each.

use alloc::vec::Vec;

use base::{RX_BURST_FRAMES, TcpFlags};
use tcp::{SegOptions, Segment};
use wire::{FlowKey, Mac};

/// A TCP segment as it came in, headers taken off.
pub(crate) struct Arrived<F> {
    /// The flow, seen from us.
    pub(crate) key: FlowKey,
    /// The hardware address it came from, for answers that no connection sends.
    pub(crate) from: Mac,
    /// The numbers.
    pub(crate) seg: Segment,
    /// The payload; one or more buffers.
    pub(crate) payload: Option<F>,
}

/// One segment, or several that are consecutive.
pub(crate) struct Run {
    pub(crate) key: FlowKey,
    pub(crate) from: Mac,
    pub(crate) seg: Segment,
    /// Its frames in [`Burst::frames`]; none if there is no payload.
    first: Option<u16>,
    last: u16,
    /// Another segment may follow.
    open: bool,
}

struct Link<F> {
    frame: Option<F>,
    next: Option<u16>,
}

/// Runs among which the one of a new segment's flow is looked for, newest first. A flow whose last
/// run lies further back begins another one, which is never wrong.
const LOOK_BACK: usize = 8;

/// The TCP segments of a receive burst, in order of arrival.
pub(crate) struct Burst<F> {
    runs: Vec<Run>,
    frames: Vec<Link<F>>,
    /// The next run to be worked off.
    next: usize,
}

impl<F> Burst<F> {
    pub(crate) fn new() -> Self {
        Self {
            runs: Vec::with_capacity(RX_BURST_FRAMES),
            frames: Vec::with_capacity(RX_BURST_FRAMES),
            next: 0,
        }
    }

    /// Nothing at all, not even room.
    pub(crate) const fn placeholder() -> Self {
        Self { runs: Vec::new(), frames: Vec::new(), next: 0 }
    }

    /// Take a segment in. Returns whether it was merged into an earlier run.
    #[inline]
    pub(crate) fn push(&mut self, arrived: Arrived<F>) -> bool {
        let Arrived { key, from, seg, payload } = arrived;
        // Only the latest run of the flow may grow, or segments would overtake each other.
        let latest = self.runs.iter_mut().rev().take(LOOK_BACK).find(|r| r.key == key);
        let frame = payload.map(|frame| {
            self.frames.push(Link { frame: Some(frame), next: None });
            (self.frames.len() - 1) as u16
        });
        if let Some(run) = latest
            && let Some(frame) = frame
            && follows(run, &seg)
        {
            if let Some(link) = self.frames.get_mut(usize::from(run.last)) {
                link.next = Some(frame);
            }
            run.last = frame;
            extend(run, seg);
            return true;
        }
        let open = frame.is_some() && mergeable(&seg) && !seg.flags.fin();
        self.runs.push(Run { key, from, seg, first: frame, last: frame.unwrap_or(0), open });
        false
    }

    /// The next run in order of arrival, and the frames of all runs.
    pub(crate) fn next_run(&mut self) -> Option<(&mut Run, Frames<'_, F>)> {
        let run = self.runs.get_mut(self.next)?;
        self.next += 1;
        Some((run, Frames(&mut self.frames)))
    }

    /// There are more runs.
    pub(crate) fn has_next(&self) -> bool {
        self.next < self.runs.len()
    }

    /// Forget everything, giving back frames that nobody took.
    pub(crate) fn clear(&mut self) {
        self.runs.clear();
        self.frames.clear();
        self.next = 0;
    }
}

/// Where the frames of a burst are.
pub(crate) struct Frames<'a, F>(&'a mut [Link<F>]);

impl<F> Frames<'_, F> {
    /// The frames of `run`, each once, in order.
    #[inline]
    pub(crate) fn take(&mut self, run: &mut Run) -> impl Iterator<Item = F> {
        let mut next = run.first.take();
        core::iter::from_fn(move || {
            let link = self.0.get_mut(usize::from(next?))?;
            next = link.next;
            link.frame.take()
        })
    }
}

/// What may be part of a run at all.
fn mergeable(seg: &Segment) -> bool {
    // A control bit of the middle would get lost, CWR included.
    let plain = TcpFlags::ACK | TcpFlags::PSH | TcpFlags::FIN | TcpFlags::ECE | TcpFlags::AE;
    seg.len > 0 && seg.flags.ack() && seg.flags.without(plain).bits() == 0 && is_plain(&seg.options)
}

fn is_plain(options: &SegOptions) -> bool {
    options.sack.is_empty() && options.user_timeout.is_none()
}

/// Whether `next` continues `run` without a gap and without going back in anything.
fn follows(run: &Run, next: &Segment) -> bool {
    let seg = &run.seg;
    let compared = |flags: TcpFlags| flags.without(TcpFlags::PSH | TcpFlags::FIN);
    let clocks = match (seg.options.timestamps, next.options.timestamps) {
        (None, None) => true,
        // RFC 7323: an older clock is a matter for PAWS, and must be seen alone.
        (Some((ours, _)), Some((theirs, _))) => theirs.wrapping_sub(ours).cast_signed() >= 0,
        _ => false,
    };
    run.open
        && mergeable(next)
        && next.len <= seg.seg_size
        && next.seq == seg.seq.add(seg.len)
        && compared(next.flags) == compared(seg.flags)
        && next.ack.at_or_after(seg.ack)
        // A mark is told of the segment that bears it, RFC 3168 section 6.1.3 and RFC 8257 section 3.2.
        && next.ecn == seg.ecn
        && clocks
        && seg.segs < u16::MAX
}

fn extend(run: &mut Run, next: Segment) {
    // A short segment ends a run, so that `seg_size` holds for all but the last.
    run.open = next.len == run.seg.seg_size && !next.flags.fin();
    let seg = &mut run.seg;
    let pushed = seg.flags.psh();
    seg.len = seg.len.saturating_add(next.len);
    seg.segs += 1;
    seg.ack = next.ack;
    seg.wnd = next.wnd;
    seg.flags = next.flags;
    if pushed {
        seg.flags |= TcpFlags::PSH;
    }
    seg.options = next.options;
    seg.arrival = next.arrival;
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Ecn, Instant};
    use core::net::Ipv4Addr;
    use tcp::SeqNum;

    fn seg(seq: u32, len: u32, flags: TcpFlags) -> Segment {
        Segment {
            seq: SeqNum::new(seq),
            ack: SeqNum::new(1),
            flags,
            wnd: 10,
            len,
            seg_size: len,
            segs: 1,
            options: SegOptions::default(),
            ecn: Ecn::NotEct,
            arrival: Instant::ZERO,
        }
    }

    fn arrived(port: u16, seg: Segment) -> Arrived<u32> {
        let ip = Ipv4Addr::LOCALHOST;
        let key = FlowKey::V4 { local: ip, remote: ip, local_port: 1, remote_port: port };
        let payload = (seg.len > 0).then(|| seg.seq.get());
        Arrived { key, from: Mac::ZERO, seg, payload }
    }

    fn runs(segments: &[(u16, Segment)]) -> Vec<(u16, u32, u32, u16)> {
        let mut burst = Burst::new();
        for (port, seg) in segments {
            burst.push(arrived(*port, seg.clone()));
        }
        let mut found = Vec::new();
        while let Some((run, _)) = burst.next_run() {
            found.push((run.key.remote_port(), run.seg.seq.get(), run.seg.len, run.seg.segs));
        }
        assert!(!burst.has_next());
        found
    }

    const ACK: TcpFlags = TcpFlags::ACK;

    #[test]
    fn flows_that_take_turns_are_merged_each_for_itself() {
        let s = |seq| seg(seq, 100, ACK);
        let found = runs(&[(1, s(0)), (2, s(0)), (1, s(100)), (2, s(100)), (1, s(200))]);
        assert_eq!(found, [(1, 0, 300, 3), (2, 0, 200, 2)]);
    }

    #[test]
    fn what_is_never_merged() {
        let first = seg(0, 100, ACK);
        let follower = seg(100, 100, ACK);
        let with = |f: &dyn Fn(&mut Segment)| {
            let mut s = follower.clone();
            f(&mut s);
            s
        };
        let rows: [(&str, Segment); 11] = [
            ("gap", seg(101, 100, ACK)),
            ("overlap", seg(99, 100, ACK)),
            ("larger than the first", seg(100, 101, ACK)),
            ("RST", with(&|s| s.flags = ACK | TcpFlags::RST)),
            ("URG", with(&|s| s.flags = ACK | TcpFlags::URG)),
            ("CWR", with(&|s| s.flags = ACK | TcpFlags::CWR)),
            ("ECE", with(&|s| s.flags = ACK | TcpFlags::ECE)),
            ("a mark of congestion", with(&|s| s.ecn = Ecn::Ce)),
            ("older ACK", with(&|s| s.ack = SeqNum::new(0))),
            ("SACK", with(&|s| s.options.sack.push((SeqNum::new(5), SeqNum::new(6))))),
            ("timestamps come and go", with(&|s| s.options.timestamps = Some((1, 1)))),
        ];
        for (name, second) in rows {
            assert_eq!(runs(&[(1, first.clone()), (1, second)]).len(), 2, "{name}");
        }
        assert_eq!(runs(&[(1, first), (1, follower)]).len(), 1);
    }

    #[test]
    fn short_and_final_segments_end_a_run_and_nothing_overtakes() {
        let fin = ACK | TcpFlags::FIN;
        let found = runs(&[
            (1, seg(0, 100, ACK | TcpFlags::PSH)),
            (1, seg(100, 60, ACK)),
            (1, seg(160, 60, ACK)),
            (1, seg(220, 60, fin)),
            (1, seg(280, 60, ACK)),
        ]);
        assert_eq!(found, [(1, 0, 160, 2), (1, 160, 120, 2), (1, 280, 60, 1)]);

        let mut burst = Burst::new();
        burst.push(arrived(1, seg(0, 10, ACK | TcpFlags::PSH)));
        burst.push(arrived(1, seg(10, 10, ACK)));
        let (run, mut frames) = burst.next_run().unwrap();
        assert!(run.seg.flags.psh(), "PSH of any segment is kept");
        assert_eq!(frames.take(run).collect::<Vec<_>>(), [0, 10]);
        assert_eq!(frames.take(run).count(), 0);
    }
}
