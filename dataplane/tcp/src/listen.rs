//! LISTEN: a template, and the bounds of the two queues.

use base::DropReason;

use crate::{ConnOptions, Cx, Handshake, PathParams, Plan, Segment};

/// What a segment does to a listener.
#[derive(Debug)]
pub enum ListenInput {
    /// A new half-open connection.
    SynReceived(Handshake),
    /// Discard.
    Drop(DropReason),
    /// Discard, and send this reset.
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
}

impl Listener {
    /// A listener with room for `backlog` connections in each queue; at least one.
    pub fn new(backlog: u32, options: ConnOptions) -> Self {
        Self { options, backlog: backlog.max(1), syn_queue: 0, accept_queue: 0 }
    }

    /// A segment for this listener that belongs to no connection, RFC 9293 section 3.10.7.2.
    /// The stack counts `syn_queue` up when it takes over a [`ListenInput::SynReceived`] and down
    /// when that handshake ends in any way.
    pub fn on_segment(&self, _cx: &mut Cx<'_>, _seg: &Segment, _path: &PathParams) -> ListenInput {
        todo!()
    }
}
