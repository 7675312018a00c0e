//! SYN-SENT and SYN-RECEIVED: a small record, so that a flood of SYNs costs little.

use alloc::boxed::Box;
use base::{DropReason, Instant};

use crate::{CloseReason, ConnOptions, Connection, Cx, PathParams, Plan, Segment, State};

/// What a segment does to a handshake.
#[derive(Debug)]
pub enum HandshakeInput {
    /// Taken; poll for output.
    Continue,
    /// Discarded without effect (a reply may be due: poll for output).
    Drop(DropReason),
    /// Discarded, and this reset is to be sent; the handshake goes on.
    Reset(Plan, DropReason),
    /// The connection stands. The caller replaces the handshake by it and hands it the very same
    /// segment, which may carry data, a FIN, a window.
    Established(Box<Connection>),
    /// It is over.
    Closed(CloseReason),
}

/// A half-open connection, opened actively, passively or simultaneously.
#[derive(Clone, Debug)]
pub struct Handshake {}

impl Handshake {
    /// Active open: SYN-SENT. The SYN comes out of [`Handshake::poll_transmit`].
    pub fn connect(_cx: &mut Cx<'_>, _path: &PathParams, _options: &ConnOptions) -> Self {
        todo!()
    }

    /// SYN-SENT or SYN-RECEIVED.
    pub fn state(&self) -> State {
        todo!()
    }

    /// A segment for this connection. `accept_room`: whether the listener could take another
    /// established connection (true for active opens); without it a final ACK is dropped
    /// ([`DropReason::ListenOverflow`]) or answered with a reset (`tcp_abort_on_overflow`).
    pub fn on_segment(
        &mut self,
        _cx: &mut Cx<'_>,
        _seg: &Segment,
        _accept_room: bool,
    ) -> HandshakeInput {
        todo!()
    }

    /// A deadline may have passed. `Some` when the handshake has failed for good.
    pub fn on_deadline(&mut self, _cx: &mut Cx<'_>) -> Option<CloseReason> {
        todo!()
    }

    /// An ICMP error of the network for this connection's SYN: hard ones end SYN-SENT.
    pub fn on_unreachable(&mut self, _cx: &mut Cx<'_>, _hard: bool) -> Option<CloseReason> {
        todo!()
    }

    /// What to send now, until `None`.
    pub fn poll_transmit(&mut self, _cx: &mut Cx<'_>) -> Option<Plan> {
        todo!()
    }

    /// The plan was handed to the device (`sent`), or refused.
    pub fn on_transmitted(&mut self, _cx: &mut Cx<'_>, _plan: &Plan, _sent: bool) {
        todo!()
    }

    /// When to call [`Handshake::on_deadline`].
    pub fn next_deadline(&self) -> Option<Instant> {
        todo!()
    }

    /// The application closes before the handshake is complete: remembered, and done once it is.
    pub fn close(&mut self) {
        todo!()
    }

    /// Give up; a reset to the peer if one is due.
    pub fn abort(&mut self, _cx: &mut Cx<'_>) -> Option<Plan> {
        todo!()
    }
}
