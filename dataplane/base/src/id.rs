//! Indices that cannot be swapped.

/// A connection of one worker: a slot and the generation of what lives in it. A stale id never
/// finds the connection that took over the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId {
    /// Index into the worker's slab.
    pub slot: u32,
    /// Raised each time the slot is freed.
    pub generation: u32,
}

/// A listening endpoint of one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId(pub u16);

/// A worker: one core, and one queue pair of each port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub u16);

/// A port of an instance, counted from zero in the order in which the ports are configured. A worker
/// owns one queue pair of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId(pub u8);

impl PortId {
    /// The first port.
    pub const FIRST: Self = Self(0);
}

/// Ports of an instance at most.
pub const PORTS_MAX: usize = 8;
