//! What every test of the engine needs: a context to hand in.

use base::{Instant, SeededRandom};

use crate::{Cx, TcpCounters, TcpParams};

/// Owner of everything that a [`Cx`] borrows.
pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) params: TcpParams,
    pub(crate) random: SeededRandom,
    pub(crate) counters: TcpCounters,
    pub(crate) rcv_room: u32,
    pub(crate) can_store: bool,
}

impl World {
    /// Time zero, default parameters, plenty of room.
    pub(crate) fn new() -> Self {
        Self {
            now: Instant::ZERO,
            params: TcpParams::default(),
            random: SeededRandom::new(1),
            counters: TcpCounters::default(),
            rcv_room: u32::MAX,
            can_store: true,
        }
    }

    pub(crate) fn cx(&mut self) -> Cx<'_> {
        Cx {
            now: self.now,
            params: &self.params,
            random: &mut self.random,
            counters: &mut self.counters,
            rcv_room: self.rcv_room,
            can_store: self.can_store,
            buffers: crate::BufferCost::UNKNOWN,
            memory_pressure: false,
        }
    }
}
