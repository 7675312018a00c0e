//! Explicit congestion notification, RFC 3168 section 6.1: what one connection remembers of it, and what a
//! handshake makes of the bits of a SYN.
//!
//! A receiver echoes marks in one of two ways. Classically, ECE stands in every acknowledgement from the
//! first mark until CWR answers it. With DCTCP (RFC 8257 section 3.2) ECE says of each acknowledgement
//! whether the segments that it covers were marked, so whenever that changes, what was received before is
//! acknowledged by itself.

use arrayvec::ArrayVec;
use base::{Ecn, TcpFlags};

use crate::params::CongestionAlgorithm;
use crate::{Segment, SeqNum, TcpParams};

/// Acknowledgements of an earlier state that wait to be sent at most. A burst in which the state changes
/// more often is told of less exactly.
const EARLIER_MAX: usize = 8;

/// Whether to ask for ECN: `tcp_ecn`, or a congestion control that lives on marks. Accurate ECN (3 to 5)
/// is asked for and granted as classic ECN.
pub(crate) const fn asks(params: &TcpParams, algorithm: CongestionAlgorithm) -> bool {
    matches!(params.ecn, 1 | 3 | 4) || algorithm.needs_ecn()
}

/// Whether a peer's SYN that asks for ECN is granted it. RFC 3168 section 6.1.1: a SYN is not ECN-capable
/// itself, so if it looks so, something on the path writes into that field, and marks mean nothing. Where
/// DCTCP is at home all packets are capable.
pub(crate) const fn grants(
    params: &TcpParams,
    algorithm: CongestionAlgorithm,
    seg: &Segment,
) -> bool {
    let asked = seg.flags.contains(TcpFlags::ECE.union(TcpFlags::CWR));
    asked && (algorithm.needs_ecn() || params.ecn != 0 && !seg.ecn.is_ect())
}

/// Whether a SYN-ACK grants what was asked for. Both bits are the work of somebody who reflects what he
/// does not understand, RFC 3168 section 6.1.1.
pub(crate) const fn is_granted(flags: TcpFlags) -> bool {
    flags.contains(TcpFlags::ECE) && !flags.intersects(TcpFlags::CWR)
}

/// The bits of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EcnState(u8);

impl EcnState {
    /// Negotiated.
    const ON: u8 = 1;
    /// Marks are echoed as DCTCP does, and everything that is sent may be marked.
    const EXACT: u8 = 2;
    /// ECE stands in what is sent.
    const ECHO: u8 = 4;
    /// CWR is owed with the next new data.
    const CWR_OWED: u8 = 8;
    /// The peer has sent something that may be marked.
    const SEEN: u8 = 16;
    /// Exact echo: the last data that arrived were marked.
    const MARKED: u8 = 32;

    /// `on`: negotiated. `exact`: for the echo of DCTCP.
    pub(crate) const fn new(on: bool, exact: bool) -> Self {
        Self(if !on {
            0
        } else if exact {
            Self::ON | Self::EXACT
        } else {
            Self::ON
        })
    }

    const fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    const fn put(&mut self, bit: u8, on: bool) {
        self.0 = if on { self.0 | bit } else { self.0 & !bit };
    }

    pub(crate) const fn is_on(self) -> bool {
        self.has(Self::ON)
    }

    /// The peer has sent something that may be marked.
    pub(crate) const fn is_seen(self) -> bool {
        self.has(Self::SEEN)
    }

    /// Exact echo: the last data that arrived were marked (DCTCP.CE).
    pub(crate) const fn is_marked(self) -> bool {
        self.has(Self::MARKED)
    }

    /// The window was reduced, whatever for; the peer is told with the next new data, RFC 3168
    /// section 6.1.2.
    pub(crate) const fn owe_cwr(&mut self) {
        let on = self.is_on();
        self.put(Self::CWR_OWED, on);
    }

    /// It was told, or the reduction was taken back.
    pub(crate) const fn forget_cwr(&mut self) {
        self.put(Self::CWR_OWED, false);
    }

    /// The codepoint of a segment. Only new data may be marked, because a mark on anything else would not be
    /// noticed if it got lost: not a bare acknowledgement (RFC 3168 section 6.1.4), not what is sent again
    /// (RFC 3168 section 6.1.5), not a window probe (RFC 3168 section 6.1.6).
    pub(crate) const fn codepoint(self, new_data: bool) -> Ecn {
        if self.is_on() && (new_data || self.has(Self::EXACT)) { Ecn::Ect0 } else { Ecn::NotEct }
    }

    /// The control bits of a segment.
    pub(crate) const fn flags(self, new_data: bool) -> TcpFlags {
        let ece = if self.has(Self::ECHO) { TcpFlags::ECE } else { TcpFlags::empty() };
        let cwr = new_data && self.has(Self::CWR_OWED);
        if cwr { ece.union(TcpFlags::CWR) } else { ece }
    }

    /// Data with CWR have come: the echo was understood, RFC 3168 section 6.1.3.
    pub(crate) const fn on_cwr(&mut self) {
        // An exact echo says what the data say that bear the answer (RFC 8257 section 3.2).
        let echo = self.has(Self::ECHO) && self.has(Self::EXACT);
        self.put(Self::ECHO, echo);
    }

    /// Data have arrived for the first time, after [`EcnState::on_cwr`] of the same segment.
    pub(crate) fn on_data(&mut self, ecn: Ecn) -> Arrival {
        if !self.is_on() {
            return Arrival::Usual;
        }
        if !ecn.is_ect() && !self.has(Self::EXACT) {
            // All new data of such a peer may be marked, so this is probably a retransmission: its
            // sender waits for the acknowledgement.
            return if self.is_seen() { Arrival::Hasty } else { Arrival::Usual };
        }
        self.put(Self::SEEN, self.is_seen() || ecn.is_ect());
        let marked = ecn.is_ce();
        if self.has(Self::EXACT) {
            let changed = self.is_marked() != marked;
            self.put(Self::MARKED, marked);
            self.put(Self::ECHO, marked);
            return if changed { Arrival::Changed } else { Arrival::Usual };
        }
        if marked && !self.has(Self::ECHO) {
            self.put(Self::ECHO, true);
            return Arrival::Hasty;
        }
        Arrival::Usual
    }
}

/// What the codepoint of arriving data asks of the acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    Usual,
    /// This and the next acknowledgement leave at once.
    Hasty,
    /// Exact echo: what came before is acknowledged as it was, then this at once.
    Changed,
}

/// Acknowledgements of data that arrived in an earlier state of the exact echo: number, and whether marked.
pub(crate) type Earlier = ArrayVec<(SeqNum, bool), EARLIER_MAX>;

#[cfg(test)]
mod tests {
    use super::*;

    const ECE: TcpFlags = TcpFlags::ECE;
    const CWR: TcpFlags = TcpFlags::CWR;
    const NONE: TcpFlags = TcpFlags::empty();

    /// RFC 3168 section 6.1.3.
    #[test]
    fn the_echo_stands_from_the_first_mark_until_it_is_answered() {
        let mut ecn = EcnState::new(true, false);
        assert_eq!(ecn.on_data(Ecn::NotEct), Arrival::Usual, "may well be an old stack");
        assert_eq!(ecn.on_data(Ecn::Ect0), Arrival::Usual);
        assert_eq!((ecn.flags(false), ecn.is_seen()), (NONE, true));
        assert_eq!(ecn.on_data(Ecn::NotEct), Arrival::Hasty, "a retransmission");
        assert_eq!(ecn.on_data(Ecn::Ce), Arrival::Hasty);
        assert_eq!(ecn.on_data(Ecn::Ce), Arrival::Usual);
        assert_eq!(ecn.on_data(Ecn::Ect0), Arrival::Usual);
        assert_eq!((ecn.flags(false), ecn.flags(true)), (ECE, ECE));
        ecn.on_cwr();
        assert_eq!(ecn.on_data(Ecn::Ect0), Arrival::Usual);
        assert_eq!(ecn.flags(false), NONE);
        // The answer itself is marked: that is news.
        ecn.on_data(Ecn::Ce);
        ecn.on_cwr();
        assert_eq!(ecn.on_data(Ecn::Ce), Arrival::Hasty);
        assert_eq!(ecn.flags(false), ECE);
    }

    /// RFC 8257 section 3.2.
    #[test]
    fn the_exact_echo_follows_each_change() {
        let mut ecn = EcnState::new(true, true);
        for (codepoint, arrival, flags) in [
            (Ecn::Ect0, Arrival::Usual, NONE),
            (Ecn::Ce, Arrival::Changed, ECE),
            (Ecn::Ce, Arrival::Usual, ECE),
            (Ecn::Ect0, Arrival::Changed, NONE),
            (Ecn::Ce, Arrival::Changed, ECE),
            (Ecn::NotEct, Arrival::Changed, NONE),
        ] {
            assert_eq!(ecn.on_data(codepoint), arrival, "{codepoint:?}");
            assert_eq!(ecn.flags(false), flags, "{codepoint:?}");
        }
    }

    #[test]
    fn only_new_data_may_be_marked_and_answer() {
        let mut ecn = EcnState::new(true, false);
        ecn.owe_cwr();
        assert_eq!((ecn.codepoint(true), ecn.flags(true)), (Ecn::Ect0, CWR));
        assert_eq!((ecn.codepoint(false), ecn.flags(false)), (Ecn::NotEct, NONE));
        ecn.forget_cwr();
        assert_eq!(ecn.flags(true), NONE);
        assert_eq!(EcnState::new(true, true).codepoint(false), Ecn::Ect0, "DCTCP");

        let mut off = EcnState::new(false, true);
        off.owe_cwr();
        assert_eq!(off.on_data(Ecn::Ce), Arrival::Usual);
        assert_eq!(
            (off.codepoint(true), off.flags(true), off.is_seen()),
            (Ecn::NotEct, NONE, false)
        );
    }
}
