//! LISTEN: a template, and the bounds of the two queues.

use base::{DropReason, TcpFlags};

use crate::{ConnOptions, Cx, Handshake, PathParams, Plan, Segment, TcpCounters, reset_for};

/// What a segment does to a listener.
#[derive(Debug)]
pub enum ListenInput {
    /// A new half-open connection.
    SynReceived(Handshake),
    /// Discard.
    Drop(DropReason),
    /// Discard, and send (and count) this reset.
    Reset(Plan, DropReason),
}

/// A listening endpoint of one worker. Half-open and not yet accepted connections are counted here;
/// they live in the stack's table.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Options that accepted connections inherit.
    pub options: ConnOptions,
    /// Bound of each of the two queues.
    pub backlog: u32,
    /// Half-open connections now.
    pub syn_queue: u32,
    /// Established connections that the application has not been told of yet.
    pub accept_queue: u32,
    /// Those that it has been told of, and has not accepted.
    pub waiting: u32,
}

/// What the checks decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Accept,
    Drop(DropReason),
    Reset(DropReason),
}

impl Listener {
    /// A listener with room for `backlog` connections in each queue; at least one.
    pub fn new(backlog: u32, options: ConnOptions) -> Self {
        Self { options, backlog: backlog.max(1), syn_queue: 0, accept_queue: 0, waiting: 0 }
    }

    /// A segment for this listener that belongs to no connection, RFC 9293 section 3.10.7.2.
    /// The stack counts `syn_queue` up when it takes over a [`ListenInput::SynReceived`] and down
    /// when that handshake ends in any way.
    pub fn on_segment(&self, cx: &mut Cx<'_>, seg: &Segment, path: &PathParams) -> ListenInput {
        match self.check(cx, seg) {
            Verdict::Accept => {
                ListenInput::SynReceived(Handshake::accept(cx, seg, path, &self.options))
            }
            Verdict::Drop(reason) => ListenInput::Drop(reason),
            Verdict::Reset(reason) => match reset_for(seg) {
                Some(plan) => ListenInput::Reset(plan, reason),
                None => ListenInput::Drop(reason),
            },
        }
    }

    fn check(&self, cx: &mut Cx<'_>, seg: &Segment) -> Verdict {
        let flags = seg.flags;
        // First, RST: nothing here can be reset.
        if flags.rst() {
            return Verdict::Drop(DropReason::TcpRstIgnored);
        }
        // No TCP opens and closes in one segment; taking it would leave a FIN in a half-open record.
        if flags.contains(TcpFlags::SYN | TcpFlags::FIN) {
            return Verdict::Drop(DropReason::TcpFlags);
        }
        // Second, ACK: nothing was sent that it could acknowledge.
        if flags.ack() {
            return Verdict::Reset(DropReason::TcpStrayAck);
        }
        // Third, SYN; fourth, anything else is dropped.
        if !flags.syn() {
            return Verdict::Drop(DropReason::TcpNoAck);
        }
        match self.has_place(cx.counters) {
            Ok(()) => Verdict::Accept,
            Err(reason) => Verdict::Drop(reason),
        }
    }

    /// Whether another established connection can wait for the application.
    pub fn has_accept_room(&self) -> bool {
        self.accept_queue.saturating_add(self.waiting) < self.backlog
    }

    /// Whether both queues have room for what a SYN begins.
    ///
    /// # Errors
    ///
    /// Why not; the SYN is counted as dropped.
    pub fn has_place(&self, counters: &mut TcpCounters) -> Result<(), DropReason> {
        if !self.has_accept_room() {
            counters.listen_overflows += 1;
            counters.listen_drops += 1;
            return Err(DropReason::ListenOverflow);
        }
        if self.syn_queue >= self.backlog {
            counters.listen_drops += 1;
            return Err(DropReason::ListenSynQueue);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::World;
    use crate::{SegOptions, SeqNum, State};
    use base::{Ecn, Instant};

    fn seg(flags: TcpFlags) -> Segment {
        Segment {
            seq: SeqNum::new(900),
            ack: SeqNum::new(5),
            flags,
            wnd: 1000,
            len: 0,
            seg_size: 0,
            segs: 1,
            options: SegOptions::default(),
            ecn: Ecn::NotEct,
            arrival: Instant::ZERO,
        }
    }

    fn path() -> PathParams {
        PathParams { mtu: 1500, ip_header: 20, gso_max: 65_536, iss: 7, ts_offset: 0, txhash: 1 }
    }

    #[test]
    fn segments_and_what_a_listener_does() {
        const S: TcpFlags = TcpFlags::SYN;
        const A: TcpFlags = TcpFlags::ACK;
        const R: TcpFlags = TcpFlags::RST;
        const F: TcpFlags = TcpFlags::FIN;
        let drop = Verdict::Drop;
        for (name, flags, queues, expected) in [
            ("SYN", S, (0, 0), Verdict::Accept),
            ("SYN with PSH and URG", S | TcpFlags::PSH | TcpFlags::URG, (0, 0), Verdict::Accept),
            ("SYN asking for ECN", S | TcpFlags::ECE | TcpFlags::CWR, (0, 0), Verdict::Accept),
            ("SYN, one place left in each queue", S, (1, 1), Verdict::Accept),
            ("SYN, half-open queue full", S, (2, 0), drop(DropReason::ListenSynQueue)),
            ("SYN, accept queue full", S, (0, 2), drop(DropReason::ListenOverflow)),
            ("SYN, both full", S, (2, 2), drop(DropReason::ListenOverflow)),
            ("RST", R, (0, 0), drop(DropReason::TcpRstIgnored)),
            ("RST+ACK", R | A, (0, 0), drop(DropReason::TcpRstIgnored)),
            ("SYN+RST", S | R, (0, 0), drop(DropReason::TcpRstIgnored)),
            ("SYN+FIN", S | F, (0, 0), drop(DropReason::TcpFlags)),
            ("SYN+FIN+ACK", S | F | A, (0, 0), drop(DropReason::TcpFlags)),
            ("ACK", A, (0, 0), Verdict::Reset(DropReason::TcpStrayAck)),
            ("SYN+ACK", S | A, (0, 0), Verdict::Reset(DropReason::TcpStrayAck)),
            ("FIN", F, (0, 0), drop(DropReason::TcpNoAck)),
            ("no flag", TcpFlags::empty(), (0, 0), drop(DropReason::TcpNoAck)),
        ] {
            let mut w = World::new();
            let mut listener = Listener::new(2, ConnOptions::default());
            (listener.syn_queue, listener.accept_queue) = queues;
            assert_eq!(listener.check(&mut w.cx(), &seg(flags)), expected, "{name}");
            let full = matches!(
                expected,
                Verdict::Drop(DropReason::ListenSynQueue | DropReason::ListenOverflow)
            );
            assert_eq!(w.counters.listen_drops, u64::from(full), "{name}");
        }
    }

    #[test]
    fn a_syn_becomes_a_half_open_connection() {
        let mut w = World::new();
        let listener = Listener::new(0, ConnOptions::default());
        assert_eq!(listener.backlog, 1);
        match listener.on_segment(&mut w.cx(), &seg(TcpFlags::SYN), &path()) {
            ListenInput::SynReceived(handshake) => {
                assert_eq!(handshake.state(), State::SynReceived);
            }
            other => panic!("{other:?}"),
        }
    }
}
