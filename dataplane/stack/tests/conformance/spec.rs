//! What a segment must bring about, by the texts of RFC 9293 (section 3.10.7), RFC 5961, RFC 7323,
//! RFC 2883 and RFC 6191: the expected column of the matrix.
//!
//! Sequence numbers are plain integers relative to the initial ones and never wrap here; the wire's do.
//! Where the stack follows Linux instead of the text, the line says `DEVIATION:` and why.

use std::fmt::Debug;

use base::{DropReason, TcpFlags};
use tcp::{CloseReason, State};

/// A connection before the segment, as its peer can know it.
#[derive(Clone, Debug)]
pub(crate) struct Tcb {
    pub(crate) state: State,
    /// We began with an active open (a simultaneous one included).
    pub(crate) active: bool,
    /// Our application has closed both directions, not only its own.
    pub(crate) orphan: bool,
    /// Oldest number of ours that is not acknowledged; our SYN is 0.
    pub(crate) una: i64,
    /// Next number that we send.
    pub(crate) nxt: i64,
    /// We have sent a FIN (its number is `nxt - 1`).
    pub(crate) fin_sent: bool,
    /// Largest window that the peer ever offered.
    pub(crate) max_wnd: i64,
    /// Next number that we expect; the peer's SYN is 0.
    pub(crate) rcv_nxt: i64,
    /// First number right of the window that we offered.
    pub(crate) edge: i64,
    /// Timestamps are in use.
    pub(crate) ts: bool,
    /// `tcp_rfc1337`.
    pub(crate) rfc1337: bool,
}

/// A segment of the peer, relative to the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seg {
    pub(crate) flags: TcpFlags,
    pub(crate) seq: i64,
    pub(crate) ack: i64,
    pub(crate) payload: i64,
    pub(crate) ts: Option<Stamp>,
}

/// A timestamps option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// TSval minus the peer's last accepted one.
    pub(crate) newer: i64,
    /// TSecr is one of ours.
    pub(crate) echo_ok: bool,
}

impl Seg {
    /// SEG.LEN: SYN and FIN count.
    fn len(&self) -> i64 {
        self.payload + i64::from(self.flags.syn()) + i64::from(self.flags.fin())
    }

    fn end(&self) -> i64 {
        self.seq + self.len()
    }
}

/// What is sent in answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Nothing,
    /// An empty segment <SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK>, in the same turn.
    Ack,
    /// The same, now or within the delay of acknowledgements.
    AckSoon,
    /// A reset; `ack` is there if the reset acknowledges.
    Rst {
        seq: i64,
        ack: Option<i64>,
    },
    /// Our SYN with an acknowledgement.
    SynAck {
        seq: i64,
        ack: i64,
    },
}

/// All that a segment brings about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) reply: Reply,
    pub(crate) state: State,
    /// SND.UNA afterwards, for states that have one.
    pub(crate) una: i64,
    pub(crate) rcv_nxt: i64,
    /// Bytes that become readable.
    pub(crate) delivered: i64,
    /// Numbers held out of order (a FIN has one).
    pub(crate) held: i64,
    /// What a discarded segment is counted under.
    pub(crate) drop: Option<DropReason>,
    /// What the application is told about the end.
    pub(crate) closed: Option<CloseReason>,
    /// TS.Recent becomes the segment's TSval.
    pub(crate) ts_learnt: bool,
}

impl Expected {
    fn unchanged(t: &Tcb) -> Self {
        Self {
            reply: Reply::Nothing,
            state: t.state,
            una: t.una,
            rcv_nxt: t.rcv_nxt,
            delivered: 0,
            held: 0,
            drop: None,
            closed: None,
            ts_learnt: false,
        }
    }

    fn discard(t: &Tcb, reason: DropReason, reply: Reply) -> Self {
        Self { reply, drop: Some(reason), ..Self::unchanged(t) }
    }

    fn ends(t: &Tcb, state: State, closed: Option<CloseReason>, reply: Reply) -> Self {
        Self { state, closed, reply, ..Self::unchanged(t) }
    }

    /// What is different from `got`, in words; empty if nothing is.
    pub(crate) fn differs(&self, got: &Self) -> String {
        let Self { reply, state, una, rcv_nxt, delivered, held, drop, closed, ts_learnt } = self;
        let mut out = String::new();
        let mut compare = |name: &str, want: &dyn Debug, got: &dyn Debug| {
            let (want, got) = (format!("{want:?}"), format!("{got:?}"));
            if want != got {
                out.push_str(&format!(" {name} {got} and not {want};"));
            }
        };
        compare("reply", reply, &got.reply);
        compare("state", state, &got.state);
        compare("SND.UNA", una, &got.una);
        compare("RCV.NXT", rcv_nxt, &got.rcv_nxt);
        compare("delivered", delivered, &got.delivered);
        compare("held", held, &got.held);
        compare("drop", drop, &got.drop);
        compare("closed", closed, &got.closed);
        compare("TS.Recent learnt", ts_learnt, &got.ts_learnt);
        out
    }
}

/// What must happen.
pub(crate) fn arrives(t: &Tcb, s: &Seg) -> Expected {
    // DEVIATION: RFC 9293 judges SYN with FIN or RST by the state (in LISTEN the FIN would be queued,
    // in the window the RST obeyed). No TCP sends such a segment; it is dropped before any state is
    // asked, as hosts under attack do.
    if s.flags.syn() && (s.flags.fin() || s.flags.rst()) {
        return Expected::discard(t, DropReason::TcpFlags, Reply::Nothing);
    }
    // RFC 9293 section 3.10.7.4, fifth: without ACK a segment is dropped; so in LISTEN and SYN-SENT.
    // DEVIATION: in CLOSED the text wants a reset, and outside of the window an acknowledgement, before
    // it comes to that; Linux looks at the missing flag first, and so a scan learns nothing.
    if !s.flags.syn() && !s.flags.rst() && !s.flags.ack() {
        return Expected::discard(t, DropReason::TcpNoAck, Reply::Nothing);
    }
    match t.state {
        State::Closed => closed(t, s),
        State::Listen => listen(t, s),
        State::SynSent => syn_sent(t, s),
        State::TimeWait => time_wait(t, s),
        _ => synchronised(t, s),
    }
}

/// RFC 9293 section 3.10.7.1: a reset is discarded, anything else answered with one that the sender
/// will take for its own.
fn closed(t: &Tcb, s: &Seg) -> Expected {
    let reply = match (s.flags.rst(), s.flags.ack()) {
        (true, _) => Reply::Nothing,
        (false, true) => Reply::Rst { seq: s.ack, ack: None },
        (false, false) => Reply::Rst { seq: RST_SEQ_ZERO, ack: Some(s.end()) },
    };
    Expected::discard(t, DropReason::TcpNoSocket, reply)
}

/// Marks the absolute sequence number zero in a reset for a segment without ACK.
pub(crate) const RST_SEQ_ZERO: i64 = i64::MIN;

/// RFC 9293 section 3.10.7.2.
fn listen(t: &Tcb, s: &Seg) -> Expected {
    // First: a reset cannot be about anything sent from here.
    if s.flags.rst() {
        return Expected::discard(t, DropReason::TcpRstIgnored, Reply::Nothing);
    }
    // Second: any acknowledgement is bad.
    if s.flags.ack() {
        let rst = Reply::Rst { seq: s.ack, ack: None };
        return Expected::discard(t, DropReason::TcpStrayAck, rst);
    }
    // Third: the SYN. Its text may be queued; RFC 9293 does not ask that it be acknowledged, and
    // without Fast Open it is not (RFC 7413 section 1).
    let ack = s.seq + 1;
    Expected {
        reply: Reply::SynAck { seq: 0, ack },
        state: State::SynReceived,
        una: 0,
        rcv_nxt: ack,
        ts_learnt: true,
        ..Expected::unchanged(t)
    }
}

/// RFC 9293 section 3.10.7.3.
fn syn_sent(t: &Tcb, s: &Seg) -> Expected {
    // First: the acknowledgement, if any, must be of our SYN: ISS < SEG.ACK =< SND.NXT.
    let ack_ok = s.flags.ack() && t.una < s.ack && s.ack <= t.nxt;
    if s.flags.ack() && !ack_ok {
        if s.flags.rst() {
            return Expected::discard(t, DropReason::TcpRstIgnored, Reply::Nothing);
        }
        let rst = Reply::Rst { seq: s.ack, ack: None };
        return Expected::discard(t, DropReason::TcpAckUnsent, rst);
    }
    // RFC 7323 section 3.2: TSecr is valid with ACK. An echo of what we never sent acknowledges another
    // SYN than ours, and is answered like a bad acknowledgement.
    if ack_ok && !s.flags.rst() && s.ts.is_some_and(|ts| !ts.echo_ok) {
        let rst = Reply::Rst { seq: s.ack, ack: None };
        return Expected::discard(t, DropReason::TcpPaws, rst);
    }
    // Second: a reset counts only if it acknowledges our SYN (also RFC 5961 section 3.2).
    if s.flags.rst() {
        if ack_ok {
            let refused = Some(CloseReason::Refused);
            return Expected::ends(t, State::Closed, refused, Reply::Nothing);
        }
        return Expected::discard(t, DropReason::TcpRstIgnored, Reply::Nothing);
    }
    // Fifth: neither SYN nor RST.
    if !s.flags.syn() {
        return Expected::discard(t, DropReason::TcpIgnored, Reply::Nothing);
    }
    // Fourth: the SYN.
    if ack_ok {
        return Expected { ts_learnt: s.ts.is_some(), ..syn_acknowledged(t, s) };
    }
    let ack = s.seq + 1;
    Expected {
        reply: Reply::SynAck { seq: 0, ack },
        state: State::SynReceived,
        rcv_nxt: ack,
        ts_learnt: s.ts.is_some(),
        ..Expected::unchanged(t)
    }
}

/// The peer's SYN acknowledges ours: established, and its text continues at the sixth step.
fn syn_acknowledged(t: &Tcb, s: &Seg) -> Expected {
    let window = t.edge - t.rcv_nxt;
    let rcv_nxt = s.seq + 1;
    let open =
        Tcb { state: State::Established, una: s.ack, rcv_nxt, edge: rcv_nxt + window, ..t.clone() };
    let rest = Seg { seq: rcv_nxt, flags: s.flags.without(TcpFlags::SYN), ..*s };
    // The answer goes out at once: it is the last part of the handshake.
    Expected { reply: Reply::Ack, ..text_and_fin(&open, &rest, (s.ack, State::Established)) }
}

/// RFC 9293 section 3.10.7.4 for SYN-RECEIVED to LAST-ACK, with RFC 5961 and RFC 7323 woven in.
fn synchronised(t: &Tcb, s: &Seg) -> Expected {
    if let Some(early) = syn_received_first(t, s).or_else(|| timestamps(t, s)) {
        return early;
    }
    // RFC 5961 section 4: a SYN is answered with an acknowledgement, wherever it lies.
    if s.flags.syn() {
        return Expected::discard(t, DropReason::TcpSynChallenged, Reply::Ack);
    }
    if s.flags.rst() {
        return reset(t, s);
    }
    // First: the sequence number.
    if !acceptable(t, s) {
        let left = s.end() <= t.rcv_nxt && t.state != State::SynReceived;
        let reason = if left { DropReason::TcpOldData } else { DropReason::TcpOutOfWindow };
        return Expected::discard(t, reason, Reply::Ack);
    }
    // Fifth: the acknowledgement.
    match acknowledgement(t, s) {
        Ok(after) => text_and_fin(t, s, after),
        Err(early) => early,
    }
}

/// What is peculiar to SYN-RECEIVED and comes before the general rules.
fn syn_received_first(t: &Tcb, s: &Seg) -> Option<Expected> {
    if t.state != State::SynReceived || !s.flags.syn() {
        return None;
    }
    let same = s.seq == t.rcv_nxt - 1;
    // The SYN that we know, once more: our SYN-ACK was lost, so it is sent again.
    // DEVIATION: the text has an empty acknowledgement for what is left of the window; a peer in
    // SYN-SENT can do nothing with that. All hosts repeat the SYN-ACK.
    if same && !s.flags.ack() {
        let reply = Reply::SynAck { seq: 0, ack: t.rcv_nxt };
        return Some(Expected { reply, ..Expected::unchanged(t) });
    }
    // RFC 7323 sections 3.2 and 5.3 hold here to the letter, for SYNs too; only a SYN that begins anew
    // may come without.
    if t.ts && s.flags.ack() && s.ts.is_none() {
        return Some(Expected::discard(t, DropReason::TcpTimestampMissing, Reply::Nothing));
    }
    if t.ts && s.ts.is_some_and(|ts| ts.newer < 0) {
        return Some(Expected::discard(t, DropReason::TcpPaws, Reply::Ack));
    }
    // An acknowledgement of something else is answered as in SYN-SENT, where its sender believes us.
    if same && t.active {
        // RFC 9293 section 3.5, figure 8: SYN-ACKs that cross establish both sides.
        if s.ack == t.nxt {
            return Some(syn_acknowledged(t, s));
        }
        let rst = Reply::Rst { seq: s.ack, ack: None };
        return Some(Expected::discard(t, DropReason::TcpAckUnsent, rst));
    }
    // First: outside of the window.
    if !acceptable(t, s) {
        return Some(Expected::discard(t, DropReason::TcpOutOfWindow, Reply::Ack));
    }
    // Fourth: a new SYN in the window of a passive open: back to LISTEN.
    (!t.active).then(|| Expected::ends(t, State::Listen, None, Reply::Nothing))
}

/// RFC 7323 section 3.2 and RFC 7323 section 5.3.
fn timestamps(t: &Tcb, s: &Seg) -> Option<Expected> {
    if !t.ts || s.flags.rst() {
        return None;
    }
    let Some(ts) = s.ts else {
        // RFC 5961 section 4 comes first: a peer that has lost its state may not use timestamps.
        if s.flags.syn() {
            return None;
        }
        return Some(Expected::discard(t, DropReason::TcpTimestampMissing, Reply::Nothing));
    };
    // DEVIATION: as on Linux, one tick is forgiven once the connection stands: two cores may stamp in
    // the other order.
    let forgiven = if t.state == State::SynReceived { 0 } else { -1 };
    if ts.newer >= forgiven || s.flags.syn() {
        return None;
    }
    if t.state == State::SynReceived {
        return Some(Expected::discard(t, DropReason::TcpPaws, Reply::Ack));
    }
    // DEVIATION: as on Linux, an old duplicate of a bare acknowledgement is let through where it
    // changes nothing and is not much older, and otherwise dropped without an answer.
    let bare = s.len() == 0 && s.flags.ack();
    if bare && s.ack < t.una {
        return Some(Expected::discard(t, DropReason::TcpPaws, Reply::Nothing));
    }
    if bare && s.seq == t.rcv_nxt && s.ack == t.una && ts.newer >= -FORGIVEN_LAG {
        return None;
    }
    Some(Expected::discard(t, DropReason::TcpPaws, Reply::Ack))
}

/// Ticks (ms) within which an old bare acknowledgement is forgiven: 1.2 times the shortest RTO.
pub(crate) const FORGIVEN_LAG: i64 = 240;

/// RFC 5961 section 3.2: exactly RCV.NXT resets, elsewhere in the window asks, outside is dropped.
fn reset(t: &Tcb, s: &Seg) -> Expected {
    // DEVIATION: as on Linux, a peer whose FIN we have may count without it.
    let before_fin = s.seq == t.rcv_nxt - 1
        && matches!(t.state, State::CloseWait | State::Closing | State::LastAck);
    if s.seq == t.rcv_nxt || before_fin {
        let (state, told) = match t.state {
            State::SynReceived if !t.active => (State::Listen, None),
            State::SynReceived => (State::Closed, Some(CloseReason::Refused)),
            _ => (State::Closed, Some(CloseReason::ResetByPeer)),
        };
        return Expected::ends(t, state, told, Reply::Nothing);
    }
    if t.rcv_nxt < s.seq && s.seq < t.edge {
        return Expected::discard(t, DropReason::TcpRstChallenged, Reply::Ack);
    }
    Expected::discard(t, DropReason::TcpRstIgnored, Reply::Nothing)
}

/// RFC 9293 section 3.10.7.4, first.
///
/// DEVIATION: as on Linux both edges count as inside, so that the acknowledgement of a repeated segment,
/// or of a sender that has filled the window, is not lost with it. Text beyond either edge is
/// discarded later and acknowledged as the RFC asks. And a segment that covers the whole window is
/// trimmed on both sides, though neither its first nor its last number lies in it.
fn acceptable(t: &Tcb, s: &Seg) -> bool {
    if t.state == State::SynReceived {
        // To the letter: there is no earlier text whose acknowledgement could be lost.
        let inside = |n: i64| t.rcv_nxt <= n && n < t.edge;
        return inside(s.seq) || s.len() > 0 && inside(s.end() - 1);
    }
    s.end() >= t.rcv_nxt && s.seq <= t.edge
}

/// RFC 9293 section 3.10.7.4, fifth, with the bounds of RFC 5961 section 5. `Ok` is SND.UNA and the
/// state with which it goes on.
fn acknowledgement(t: &Tcb, s: &Seg) -> Result<(i64, State), Expected> {
    if t.state == State::SynReceived {
        if t.una < s.ack && s.ack <= t.nxt {
            return Ok((s.ack, State::Established));
        }
        let rst = Reply::Rst { seq: s.ack, ack: None };
        return Err(Expected::discard(t, DropReason::TcpAckUnsent, rst));
    }
    if s.ack > t.nxt {
        return Err(Expected::discard(t, DropReason::TcpAckUnsent, Reply::Ack));
    }
    if s.ack < t.una - t.max_wnd {
        return Err(Expected::discard(t, DropReason::TcpAckTooOld, Reply::Ack));
    }
    let una = t.una.max(s.ack);
    let fin_acked = t.fin_sent && una == t.nxt;
    let state = match t.state {
        State::FinWait1 if fin_acked => State::FinWait2,
        State::Closing if fin_acked => State::TimeWait,
        State::LastAck if fin_acked => State::Closed,
        other => other,
    };
    Ok((una, state))
}

/// RFC 9293 section 3.10.7.4, seventh and eighth.
fn text_and_fin(t: &Tcb, s: &Seg, (una, state): (i64, State)) -> Expected {
    let finished = matches!(state, State::TimeWait | State::Closed);
    let after = Expected {
        state,
        una,
        closed: finished.then_some(CloseReason::Finished),
        // RFC 7323 section 4.3: TS.Recent follows segments that begin at or before what we last
        // acknowledged.
        ts_learnt: s.ts.is_some_and(|ts| ts.newer >= 0) && s.seq <= t.rcv_nxt,
        ..Expected::unchanged(t)
    };
    if s.len() == 0 || state == State::Closed {
        return after;
    }
    // All of it is known: acknowledged once more (so is the FIN of a peer that missed our answer).
    if s.end() <= t.rcv_nxt {
        return Expected { reply: Reply::Ack, drop: Some(DropReason::TcpOldData), ..after };
    }
    // After the peer's FIN there is no text: it is ignored.
    if matches!(state, State::CloseWait | State::Closing | State::LastAck | State::TimeWait) {
        return Expected { drop: Some(DropReason::TcpIgnored), ..after };
    }
    // Text outside of the window is cut off, and a FIN with it.
    // DEVIATION: a FIN takes no room, and is taken at the very edge too: so a peer can close a
    // connection whose window is closed.
    let from = s.seq.max(t.rcv_nxt);
    let to = (s.seq + s.payload).min(t.edge);
    let text = (to - from).max(0);
    let fin_kept = s.flags.fin() && s.seq + s.payload == to;
    if text == 0 && !fin_kept {
        return Expected { reply: Reply::Ack, drop: Some(DropReason::TcpOutOfWindow), ..after };
    }
    // RFC 9293 section 3.6.1: text for an application that has closed resets the connection.
    if t.orphan && text > 0 {
        let aborted = Some(CloseReason::Aborted);
        let rst = Reply::Rst { seq: una, ack: None };
        let drop = Some(DropReason::DataAfterClose);
        return Expected { drop, state: State::Closed, closed: aborted, reply: rst, ..after };
    }
    if s.seq > t.rcv_nxt {
        // RFC 5681 section 4.2: out of order is acknowledged at once.
        let held = text + i64::from(fin_kept);
        return Expected { reply: Reply::Ack, held, ..after };
    }
    let rcv_nxt = t.rcv_nxt + text + i64::from(fin_kept);
    if !fin_kept {
        return Expected { reply: Reply::AckSoon, rcv_nxt, delivered: text, ..after };
    }
    let state = match state {
        State::FinWait1 => State::Closing,
        State::FinWait2 => State::TimeWait,
        _ => State::CloseWait,
    };
    let closed = (state == State::TimeWait).then_some(CloseReason::Finished);
    Expected { reply: Reply::Ack, rcv_nxt, delivered: text, state, closed, ..after }
}

/// How far beyond the old numbers a connection begins that follows one in TIME-WAIT.
pub(crate) const REOPEN_DISTANCE: i64 = 65_537;

/// RFC 9293 section 3.10.7.4 for TIME-WAIT.
fn time_wait(t: &Tcb, s: &Seg) -> Expected {
    let paws = t.ts && s.ts.is_some_and(|ts| ts.newer < 0);
    if s.flags.rst() {
        // RFC 1337 section 3, fix F1 is a knob. Without it RFC 5961 section 3.2 holds.
        // DEVIATION: as on Linux no question is asked: there is nothing to protect but the wait.
        return if s.seq == t.rcv_nxt && !t.rfc1337 {
            Expected::ends(t, State::Closed, None, Reply::Nothing)
        } else {
            Expected::discard(t, DropReason::TcpRstIgnored, Reply::Nothing)
        };
    }
    // RFC 9293 section 3.10.7.4, fourth, and RFC 6191 section 2: a SYN that is surely new, by its
    // number or by its timestamp, opens the next connection.
    let newer_ts = t.ts && s.ts.is_some_and(|ts| ts.newer > 0);
    if s.flags.syn() && !s.flags.ack() && !paws && (s.seq > t.rcv_nxt || newer_ts) {
        let (ack, una) = (s.seq + 1, t.nxt + REOPEN_DISTANCE);
        return Expected {
            reply: Reply::SynAck { seq: una, ack },
            state: State::SynReceived,
            una,
            rcv_nxt: ack,
            ts_learnt: true,
            ..Expected::unchanged(t)
        };
    }
    if paws {
        return Expected::discard(t, DropReason::TcpPaws, Reply::Ack);
    }
    if t.ts && s.flags.ack() && s.ts.is_none() {
        return Expected::discard(t, DropReason::TcpTimestampMissing, Reply::Nothing);
    }
    // A bare acknowledgement in its place is answered by nothing, or two hosts in TIME-WAIT would
    // answer each other for ever. The rest is the FIN again, or old: it is acknowledged.
    // DEVIATION: text right of the FIN would be ignored by the seventh step; as on Linux the peer is
    // told instead where we stand.
    let bare = s.len() == 0 && s.seq == t.rcv_nxt;
    let reply = if bare { Reply::Nothing } else { Reply::Ack };
    // RFC 7323 section 4.3, for what is in place.
    let in_place = s.seq <= t.rcv_nxt && t.rcv_nxt <= s.end() && !s.flags.syn();
    let ts_learnt = in_place && s.ts.is_some_and(|ts| ts.newer >= 0);
    Expected { ts_learnt, ..Expected::discard(t, DropReason::TimeWait, reply) }
}
