//! The synchronised states: ESTABLISHED to LAST-ACK.
//!
//! Four kinds of method, as in any sans-I/O machine:
//!
//! - *in, from the network or the clock*: [`Connection::on_segments`], [`Connection::on_deadline`],
//!   [`Connection::on_unreachable`];
//! - *in, from the application*: [`Connection::send`], [`Connection::consume`],
//!   [`Connection::close`], [`Connection::abort`];
//! - *out*: [`Connection::poll_transmit`] until `None`, each plan answered by
//!   [`Connection::on_transmitted`]; [`Connection::poll_event`] until `None`;
//! - *out, for the caller's bookkeeping*: [`Connection::next_deadline`], [`Connection::snd_una`],
//!   [`Connection::rcv_nxt`].
//!
//! Inputs change state and record intent. Nothing is sent from inside an input.

use base::{DropReason, Instant};

use crate::{
    CloseReason, ConnOptions, Cx, Event, PathParams, Plan, Segment, SendError, SeqNum, State,
    TcpInfo, TimeWait,
};

/// Payload bytes of a segment that the stack must store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Payload bytes to skip at the front of the segment (old ones).
    pub skip: u32,
    /// Payload bytes to store after that; at least one.
    pub len: u32,
    /// Sequence number of the first byte stored.
    pub seq: SeqNum,
    /// The bytes follow directly on what was in order; `rcv_nxt` has moved past them, and perhaps
    /// past bytes stored out of order earlier. Otherwise they wait.
    pub in_order: bool,
}

/// What became of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Taken; no payload to store.
    Done,
    /// Taken; this part of the payload must be stored. The ranges kept never overlap: the first
    /// bytes received win.
    Keep(Keep),
    /// Discarded (its acknowledgement may have been used all the same).
    Drop(DropReason),
}

/// Everything that a handshake hands over to the connection that it became.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The path as it was when the handshake began.
    pub path: PathParams,
    /// What the application asked for.
    pub options: ConnOptions,
    /// Our initial sequence number.
    pub iss: SeqNum,
    /// The peer's.
    pub irs: SeqNum,
    /// Next sequence number that we send: `iss + 1`.
    pub snd_nxt: SeqNum,
    /// Window of the segment that completed the handshake as it stood in its header, not yet scaled
    /// if that segment was a SYN.
    pub snd_wnd: u32,
    /// Sequence and acknowledgement number of that segment: SND.WL1, SND.WL2.
    pub snd_wl1: SeqNum,
    /// See `snd_wl1`.
    pub snd_wl2: SeqNum,
    /// Shift of the windows that the peer sends; at most 14.
    pub snd_wscale: u8,
    /// Shift of the windows that we send; at most 14.
    pub rcv_wscale: u8,
    /// Window that our SYN or SYN-ACK offered, bytes.
    pub rcv_wnd: u32,
    /// Whether window scaling is in force.
    pub window_scaling: bool,
    /// Whether SACK is in force.
    pub sack: bool,
    /// Whether timestamps are in force, and then TS.Recent.
    pub ts_recent: Option<u32>,
    /// MSS option of the peer; `None`: it sent none (536 for IPv4, 1220 for IPv6).
    pub peer_mss: Option<u16>,
    /// Round trip of the handshake, if it can be measured (Karn).
    pub rtt: Option<core::time::Duration>,
    /// How often our SYN or SYN-ACK was retransmitted.
    pub syn_retransmits: u8,
    /// Opened by us.
    pub active: bool,
    /// The application closed while the handshake was still going on: FIN at once.
    pub close_requested: bool,
}

/// A connection in a synchronised state.
#[derive(Debug)]
pub struct Connection {}

impl Connection {
    /// The connection that a handshake became: ESTABLISHED, with nothing sent but our SYN, which the
    /// segment that the caller hands in next acknowledges (or has acknowledged).
    pub fn new(_cx: &mut Cx<'_>, _opening: &Opening) -> Self {
        todo!()
    }

    /// A segment, or an in-order run of them, RFC 9293 section 3.10.7.4.
    ///
    /// Afterwards the stack frees send storage below [`Connection::snd_una`], stores what
    /// [`Disposition::Keep`] says, and moves stored bytes below [`Connection::rcv_nxt`] to the
    /// application's queue.
    pub fn on_segments(&mut self, _cx: &mut Cx<'_>, _seg: &Segment) -> Disposition {
        todo!()
    }

    /// A deadline may have passed; called early it does nothing.
    pub fn on_deadline(&mut self, _cx: &mut Cx<'_>) {
        todo!()
    }

    /// An ICMP unreachable for a segment in flight (its sequence number already checked against
    /// `snd_una..snd_nxt`, RFC 5927): soft, remembered for the error that a timeout reports.
    pub fn on_unreachable(&mut self, _cx: &mut Cx<'_>) {
        todo!()
    }

    /// The path may carry only packets of `mtu` bytes, says an ICMP message whose quotation was in
    /// flight. Never raises, and never below the floors of RFC 1191 and `tcp_min_snd_mss`.
    pub fn on_path_hint(&mut self, _cx: &mut Cx<'_>, _mtu: u16) {
        todo!()
    }

    /// Bytes that the application may hand over now: free send buffer, `tcp_notsent_lowat`.
    /// When this was less than wanted, [`Event::Writable`] follows once there is room.
    pub fn send_room(&self, _cx: &Cx<'_>) -> u32 {
        todo!()
    }

    /// The application wanted more room than there was: [`Event::Writable`] is owed.
    pub fn want_writable(&mut self) {
        todo!()
    }

    /// The stack has stored `len` more bytes of the application's (at most [`Connection::send_room`]).
    /// `more`: further bytes follow at once, so a partial segment may wait for them (MSG_MORE).
    pub fn send(&mut self, _cx: &mut Cx<'_>, _len: u32, _more: bool) -> Result<(), SendError> {
        todo!()
    }

    /// The application has taken `len` bytes from the receive queue.
    pub fn consume(&mut self, _cx: &mut Cx<'_>, _len: u32) {
        todo!()
    }

    /// The application will send no more: FIN after what is queued. With `discard` it will not
    /// read any more either (`close` of a socket): unread or later data reset the connection.
    pub fn close(&mut self, _cx: &mut Cx<'_>, _discard: bool) {
        todo!()
    }

    /// Reset at once; the RST comes out of [`Connection::poll_transmit`], then
    /// [`Event::Closed`].
    pub fn abort(&mut self, _cx: &mut Cx<'_>) {
        todo!()
    }

    /// What to send next, if anything: at most `segs_max` segments. `None`: nothing now.
    pub fn poll_transmit(&mut self, _cx: &mut Cx<'_>, _segs_max: u32) -> Option<Plan> {
        todo!()
    }

    /// The device took the first `segs` segments of `plan` (all, some or none). What it did not
    /// take is planned again later; nothing is lost.
    pub fn on_transmitted(&mut self, _cx: &mut Cx<'_>, _plan: &Plan, _segs: u32) {
        todo!()
    }

    /// The next event for the application.
    pub fn poll_event(&mut self) -> Option<Event> {
        todo!()
    }

    /// Whether [`Connection::poll_transmit`] may have something to say: after an input the stack
    /// puts the connection on its ready list if so.
    pub fn wants_transmit(&self, _cx: &Cx<'_>) -> bool {
        todo!()
    }

    /// When to call [`Connection::on_deadline`].
    pub fn next_deadline(&self) -> Option<Instant> {
        todo!()
    }

    /// The state.
    pub fn state(&self) -> State {
        todo!()
    }

    /// Oldest unacknowledged sequence number of *data*: send storage below it may be freed. Never
    /// beyond the last data byte (a FIN occupies no storage).
    pub fn snd_una(&self) -> SeqNum {
        todo!()
    }

    /// The sequence number that the next byte handed to [`Connection::send`] gets.
    pub fn write_seq(&self) -> SeqNum {
        todo!()
    }

    /// Next sequence number expected, counting data only (a FIN occupies no storage).
    pub fn rcv_nxt(&self) -> SeqNum {
        todo!()
    }

    /// Whether `seq` is in flight: for the check of ICMP errors, RFC 5927 section 4.1.
    pub fn in_flight(&self, _seq: SeqNum) -> bool {
        todo!()
    }

    /// Payload bytes per segment at present.
    pub fn snd_mss(&self) -> u32 {
        todo!()
    }

    /// Why the connection ended, once it has.
    pub fn close_reason(&self) -> Option<CloseReason> {
        todo!()
    }

    /// The record to keep after [`Event::Closed`] with `time_wait`.
    pub fn time_wait(&self, _cx: &Cx<'_>) -> TimeWait {
        todo!()
    }

    /// Change options of a live connection (`TCP_NODELAY`, buffers, keep-alive, user timeout).
    pub fn set_options(&mut self, _cx: &mut Cx<'_>, _options: &ConnOptions) {
        todo!()
    }

    /// The snapshot.
    pub fn info(&self, _cx: &Cx<'_>) -> TcpInfo {
        todo!()
    }
}

/// The reset that answers a segment for which there is no connection, RFC 9293 section 3.10.7.1;
/// `None` if the segment is itself a reset.
pub fn reset_for(_seg: &Segment) -> Option<Plan> {
    todo!()
}
