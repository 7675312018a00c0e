//! What every step of a turn has at hand: time, parameters, randomness, counters, and how much
//! memory is left.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use base::{Buffers, DropReason, Instant, Random, SeededRandom};
use tcp::{BufferCost, Cx, TcpCounters};

use crate::storage::COMPACT_MAX;
use crate::{StackCounters, StackParams};

/// A parameter set as connections refer to it: an index, not a shared counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParamsIndex(u32);

/// The parameter sets in use: the current one, and older ones that connections still refer to. Free
/// slots are taken again, so there are never more than connections plus one.
struct ParamsTable {
    slots: Vec<ParamsSlot>,
    current: ParamsIndex,
}

struct ParamsSlot {
    params: Arc<StackParams>,
    users: u32,
}

impl ParamsTable {
    fn new(params: Arc<StackParams>) -> Self {
        let slots = alloc::vec![ParamsSlot { params, users: 0 }];
        Self { slots, current: ParamsIndex(0) }
    }

    fn replace(&mut self, params: Arc<StackParams>) {
        let slot = ParamsSlot { params, users: 0 };
        let free = self.slots.iter().position(|s| s.users == 0);
        let index = free.unwrap_or(self.slots.len());
        if index == self.slots.len() {
            self.slots.push(slot);
        } else {
            self.slots[index] = slot;
        }
        self.current = ParamsIndex(index as u32);
    }
}

/// How many bytes per buffer a receive window may count on: stored segments rarely fill a buffer.
const WINDOW_SHARE_OF_BUFFER: u32 = 2;
/// Share of the pool that stays free for the device's receive ring.
const RESERVE_SHARE_OF_POOL: u32 = 8;
/// Share of the pool beyond that which payload of ours must not touch: data that waits for the peer
/// would otherwise keep the acknowledgements of it, which come with the peer's data, from being taken.
const RECEIVE_SHARE_OF_POOL: u32 = 4;
/// The part of it that connections with little to send may still use, so that a few that send much
/// cannot silence the others.
const SMALL_SENDERS_SHARE_OF_POOL: u32 = 8;
/// Share of the pool beyond the reserve that data out of order must not touch: what fills their hole
/// could not be taken any more, and they would wait for it for ever.
const IN_ORDER_SHARE_OF_POOL: u32 = 8;
/// Turns between two looks at the pool, which may cost a microsecond.
const TURNS_PER_BUFFER_SAMPLE: u32 = 16;
/// After that time others may have taken or returned many, however few turns there were.
const BUFFER_SAMPLE_AGE_MAX: Duration = Duration::from_micros(100);

/// Free buffers, asked for now and then and estimated in between.
struct Memory {
    buffers: Buffers,
    payload_room: u32,
    turns_until_sample: u32,
    sampled_at: Instant,
    /// `tcp_mem` in kind: no window may count on many buffers.
    pressure: bool,
}

/// What a buffer occupies besides the room for a frame: headroom and the record of it, bytes.
const BUFFER_OVERHEAD: u32 = 256;

impl Memory {
    const fn cost(&self) -> BufferCost {
        BufferCost {
            room: self.payload_room,
            bytes: self.payload_room + BUFFER_OVERHEAD,
            shared_up_to: COMPACT_MAX as u32,
        }
    }

    const fn reserve(&self) -> u32 {
        self.buffers.total / RESERVE_SHARE_OF_POOL
    }

    /// Pressure begins below an eighth of the pool, and ends above three sixteenths: less than what data of
    /// ours that wait for their peers must leave.
    const fn feel_pressure(&mut self) {
        let sixteenth = self.buffers.total / 16;
        let spare = self.spare();
        if spare < 2 * sixteenth {
            self.pressure = true;
        } else if spare > 3 * sixteenth {
            self.pressure = false;
        }
    }

    /// So little is left that an estimate is too coarse.
    const fn is_tight(&self) -> bool {
        self.buffers.free < self.buffers.total / 2
    }

    const fn spare(&self) -> u32 {
        self.buffers.free.saturating_sub(self.reserve())
    }
}

/// See the module.
pub(crate) struct Env {
    pub(crate) now: Instant,
    pub(crate) random: SeededRandom,
    pub(crate) tcp: TcpCounters,
    pub(crate) counters: StackCounters,
    drops: [u64; DropReason::COUNT],
    params: ParamsTable,
    memory: Memory,
}

impl Env {
    pub(crate) fn new(params: Arc<StackParams>, random: SeededRandom, payload_room: u32) -> Self {
        Self {
            now: Instant::ZERO,
            random,
            tcp: TcpCounters::default(),
            counters: StackCounters::default(),
            drops: [0; DropReason::COUNT],
            params: ParamsTable::new(params),
            memory: Memory {
                buffers: Buffers::default(),
                payload_room,
                turns_until_sample: 0,
                sampled_at: Instant::ZERO,
                pressure: false,
            },
        }
    }

    /// The context of an engine call for a connection that was opened with `params`.
    #[inline]
    pub(crate) fn cx(&mut self, params: ParamsIndex) -> Cx<'_> {
        let spare = self.memory.spare();
        let bytes_per_buffer = self.memory.payload_room / WINDOW_SHARE_OF_BUFFER;
        Cx {
            now: self.now,
            params: &self.params.slots[params.0 as usize].params.tcp,
            random: &mut self.random,
            counters: &mut self.tcp,
            rcv_room: spare.saturating_mul(bytes_per_buffer),
            can_store: spare > 0,
            buffers: self.memory.cost(),
            memory_pressure: self.memory.pressure,
        }
    }

    /// How many segments in order may be kept. One may go into the reserve, up to half of it, so that the
    /// sender of what is in order goes on, if slowly.
    pub(crate) fn in_order_segments(&self) -> u32 {
        let into_reserve = self.memory.buffers.free > self.memory.reserve() / 2;
        self.memory.spare().max(u32::from(into_reserve))
    }

    /// Whether a run of `segs` segments beyond a hole leaves enough buffers for what fills it.
    pub(crate) fn has_room_beyond_hole(&self, segs: u16) -> bool {
        let in_order = self.memory.buffers.total / IN_ORDER_SHARE_OF_POOL;
        self.memory.spare() > in_order.saturating_add(segs.into())
    }

    /// Ask the engine something that changes nothing: the context it gets has no randomness, and its
    /// counters are thrown away.
    pub(crate) fn view<R>(&self, params: ParamsIndex, ask: impl FnOnce(&Cx<'_>) -> R) -> R {
        let mut counters = TcpCounters::default();
        ask(&Cx {
            now: self.now,
            params: &self.params.slots[params.0 as usize].params.tcp,
            random: &mut NoRandom,
            counters: &mut counters,
            rcv_room: 0,
            can_store: false,
            buffers: self.memory.cost(),
            memory_pressure: false,
        })
    }

    /// Memory that `buffers` of a receive queue occupy, bytes.
    pub(crate) const fn memory_of(&self, buffers: u32) -> u32 {
        buffers.saturating_mul(self.memory.payload_room + BUFFER_OVERHEAD)
    }

    /// The parameters in force for what begins now.
    #[inline]
    pub(crate) fn params(&self) -> &StackParams {
        &self.params.slots[self.params.current.0 as usize].params
    }

    /// The parameters in force, to be given back by [`Env::release_params`].
    pub(crate) fn acquire_params(&mut self) -> ParamsIndex {
        let current = self.params.current;
        self.params.slots[current.0 as usize].users += 1;
        current
    }

    /// Another user of the same parameters.
    pub(crate) fn share_params(&mut self, params: ParamsIndex) -> ParamsIndex {
        self.params.slots[params.0 as usize].users += 1;
        params
    }

    /// For calls of the engine that are not about a connection of ours.
    pub(crate) const fn current_params(&self) -> ParamsIndex {
        self.params.current
    }

    pub(crate) fn release_params(&mut self, params: ParamsIndex) {
        let users = &mut self.params.slots[params.0 as usize].users;
        debug_assert!(*users > 0, "parameters were released more often than acquired");
        *users = users.saturating_sub(1);
    }

    /// New parameters for what begins from now on.
    pub(crate) fn set_params(&mut self, params: Arc<StackParams>) {
        self.params.replace(params);
    }

    #[inline]
    pub(crate) fn drop(&mut self, reason: DropReason) {
        self.drops[reason as usize] += 1;
    }

    pub(crate) const fn drops(&self) -> &[u64; DropReason::COUNT] {
        &self.drops
    }

    /// Whether a turn shall ask the device for its buffers: asked once in each turn with something
    /// to do.
    pub(crate) fn wants_buffer_sample(&mut self) -> bool {
        if self.now.since(self.memory.sampled_at) >= BUFFER_SAMPLE_AGE_MAX {
            return true;
        }
        match self.memory.turns_until_sample.checked_sub(1) {
            Some(left) => {
                self.memory.turns_until_sample = left;
                false
            }
            None => true,
        }
    }

    pub(crate) fn set_buffers(&mut self, buffers: Buffers) {
        self.memory.buffers = buffers;
        self.memory.sampled_at = self.now;
        self.memory.feel_pressure();
        let tight = self.memory.is_tight();
        self.memory.turns_until_sample = if tight { 0 } else { TURNS_PER_BUFFER_SAMPLE };
    }

    /// A buffer of the pool was kept or taken.
    #[inline]
    pub(crate) fn buffer_used(&mut self) {
        self.memory.buffers.free = self.memory.buffers.free.saturating_sub(1);
        if self.memory.is_tight() {
            // Buffers that come back are not counted: look before windows are closed for nothing.
            self.memory.turns_until_sample = 0;
        }
    }

    /// The pool turned out to be empty.
    pub(crate) fn pool_was_empty(&mut self) {
        self.counters.pool_empty += 1;
        self.memory.buffers.free = 0;
        self.memory.turns_until_sample = 0;
    }

    /// An application could not send for lack of buffers: look at the pool often.
    pub(crate) fn wait_for_buffers(&mut self) {
        self.counters.pool_empty += 1;
        self.memory.turns_until_sample = 0;
    }

    /// Whether payload of ours may take another buffer: received frames need some, too. `small`: for
    /// a connection that has little under way.
    #[inline]
    pub(crate) const fn may_take_payload_buffer(&self, small: bool) -> bool {
        self.payload_buffers(small) > 0
    }

    /// How many buffers payload of ours may take.
    pub(crate) const fn payload_buffers(&self, small: bool) -> u32 {
        let share = if small { SMALL_SENDERS_SHARE_OF_POOL } else { RECEIVE_SHARE_OF_POOL };
        self.memory.spare().saturating_sub(self.memory.buffers.total / share)
    }

    /// Bytes of payload in one buffer.
    pub(crate) const fn payload_room(&self) -> u32 {
        self.memory.payload_room
    }
}

/// For questions that need none.
struct NoRandom;

impl Random for NoRandom {
    fn next_u64(&mut self) -> u64 {
        0
    }

    fn secret(&mut self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(generation: u64) -> Arc<StackParams> {
        Arc::new(StackParams { generation, ..StackParams::default() })
    }

    #[test]
    fn a_connection_keeps_the_parameters_it_was_opened_with() {
        let mut table = Env::new(params(1), SeededRandom::new(1), 2048);
        let old = table.acquire_params();
        table.set_params(params(2));
        assert_eq!(table.params().generation, 2);
        assert_eq!(table.params.slots[old.0 as usize].params.generation, 1);
        table.release_params(old);
        table.set_params(params(3));
        table.set_params(params(4));
        assert_eq!(table.params.slots.len(), 2, "free slots are taken again");
    }

    #[test]
    fn the_pool_is_looked_at_before_the_estimate_runs_out() {
        let mut env = Env::new(params(1), SeededRandom::new(1), 2048);
        assert!(env.wants_buffer_sample());
        env.set_buffers(Buffers { free: 80, total: 80 });
        for _ in 0..40 {
            env.buffer_used();
        }
        assert!(!env.wants_buffer_sample(), "half of it is left");
        env.buffer_used();
        assert!(env.wants_buffer_sample(), "what came back meanwhile must be counted");
    }

    #[test]
    fn the_reserve_of_the_pool_is_never_promised() {
        let mut env = Env::new(params(1), SeededRandom::new(1), 2048);
        env.set_buffers(Buffers { free: 20, total: 80 });
        let current = env.current_params();
        assert_eq!(env.cx(current).rcv_room, 10 * 1024);
        assert!(!env.has_room_beyond_hole(1), "ten are left for what comes in order");
        env.set_buffers(Buffers { free: 30, total: 80 });
        assert!(env.has_room_beyond_hole(9) && !env.has_room_beyond_hole(10), "a run counts whole");
        env.set_buffers(Buffers { free: 20, total: 80 });
        for _ in 0..10 {
            assert!(env.cx(current).can_store);
            env.buffer_used();
        }
        assert!(!env.cx(current).can_store);
        assert!(!env.may_take_payload_buffer(true));
    }
}
