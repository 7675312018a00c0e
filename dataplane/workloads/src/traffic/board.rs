//! What flows have done.

use std::cell::RefCell;
use std::rc::Rc;

use base::{ConnId, Instant};
use tcp::{CloseReason, TcpInfo};

/// What both ends know of one flow.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    /// The source's connection while there is one.
    pub source: Option<ConnId>,
    /// The sink's connection while there is one.
    pub sink: Option<ConnId>,
    /// The source's local port once the flow is open.
    pub port: Option<u16>,
    /// When it was opened.
    pub opened_at: Option<Instant>,
    /// When the handshake was over for the source.
    pub established_at: Option<Instant>,
    /// Bytes that TCP took at the source.
    pub sent: u64,
    /// Bytes that the sink's application read, all of them checked.
    pub received: u64,
    /// Bytes that TCP took at the sink.
    pub answered: u64,
    /// Bytes of responses that the source read, all of them checked.
    pub returned: u64,
    /// Transactions that are complete.
    pub transactions: u64,
    /// The longest transaction, and the time of all together.
    pub transaction_max: core::time::Duration,
    /// Time of all transactions together.
    pub transaction_sum: core::time::Duration,
    /// When the last byte was read at either end.
    pub last_byte_at: Option<Instant>,
    /// The first byte that was not the right one, by its position in its direction.
    pub wrong_at: Option<u64>,
    /// When the flow had done all it was to do; it may not have been closed yet.
    pub completed_at: Option<Instant>,
    /// Why the source's connection went.
    pub source_closed: Option<CloseReason>,
    /// Why the sink's connection went.
    pub sink_closed: Option<CloseReason>,
    /// The flow could not be opened, or its connection broke.
    pub failed: bool,
    /// The source's connection as it was when it went.
    pub source_info: Option<TcpInfo>,
    /// The sink's connection as it was when it went.
    pub sink_info: Option<TcpInfo>,
}

impl Flow {
    /// It will do nothing any more.
    pub fn is_over(&self) -> bool {
        self.failed || self.completed_at.is_some()
    }

    /// Bytes read at both ends.
    pub fn bytes(&self) -> u64 {
        self.received.saturating_add(self.returned)
    }
}

/// The flows of one source.
#[derive(Clone, Debug, Default)]
pub struct Board {
    /// By number.
    pub flows: Vec<Flow>,
    over: u32,
}

/// A board that source, sink and whoever measures share.
pub type SharedBoard = Rc<RefCell<Board>>;

impl Board {
    /// A board for so many flows.
    pub fn shared(flows: u32) -> SharedBoard {
        let flows = (0..flows).map(|_| Flow::default()).collect();
        Rc::new(RefCell::new(Self { flows, over: 0 }))
    }

    /// Whether all flows are over.
    pub fn is_over(&self) -> bool {
        self.over as usize >= self.flows.len()
    }

    /// Change a flow.
    pub(super) fn update(&mut self, index: u32, change: impl FnOnce(&mut Flow)) {
        if let Some(flow) = self.flows.get_mut(index as usize) {
            let before = flow.is_over();
            change(flow);
            self.over += u32::from(!before && flow.is_over());
        }
    }
}
