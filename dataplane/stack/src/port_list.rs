//! What belongs to one port: its device, what waits for it, and what is known of its link.
//!
//! A worker owns one queue pair of each port of its instance. Connections, payload and timers are
//! the worker's; whatever can differ between two links is here.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

use base::{Device, PORTS_MAX, PortId};

use crate::egress::Port;

/// The ports of a worker in the order of their numbers; at least one.
pub(crate) struct PortList<D: Device>(Vec<Port<D>>);

impl<D: Device> PortList<D> {
    /// # Panics
    /// Without a port, or with more than [`PORTS_MAX`].
    pub(crate) fn new(ports: Vec<Port<D>>) -> Self {
        assert!((1..=PORTS_MAX).contains(&ports.len()), "a stack has 1 to {PORTS_MAX} ports");
        Self(ports)
    }

    /// The number of each port.
    pub(crate) fn ids(&self) -> impl Iterator<Item = PortId> + use<D> {
        (0..self.0.len() as u8).map(PortId)
    }

    /// The number of each port, beginning with `first` and wrapping around.
    pub(crate) fn ids_from(&self, first: PortId) -> impl Iterator<Item = PortId> + use<D> {
        (first.0..self.0.len() as u8).chain(0..first.0).map(PortId)
    }

    /// The port after `id`, the first after the last.
    pub(crate) fn after(&self, id: PortId) -> PortId {
        let next = id.0.wrapping_add(1);
        if usize::from(next) < self.0.len() { PortId(next) } else { PortId::FIRST }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Port<D>> {
        self.0.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Port<D>> {
        self.0.iter_mut()
    }

    pub(crate) fn get(&self, id: PortId) -> Option<&Port<D>> {
        self.0.get(usize::from(id.0))
    }

    pub(crate) fn get_mut(&mut self, id: PortId) -> Option<&mut Port<D>> {
        self.0.get_mut(usize::from(id.0))
    }

    /// There is one port only.
    #[inline]
    pub(crate) fn is_single(&self) -> bool {
        self.0.len() == 1
    }

    /// The port that stands for all where it does not matter which: buffers are shared.
    pub(crate) fn any(&self) -> &Port<D> {
        &self[PortId::FIRST]
    }

    /// As [`PortList::any`].
    pub(crate) fn any_mut(&mut self) -> &mut Port<D> {
        &mut self[PortId::FIRST]
    }

    /// Frames wait for some device.
    pub(crate) fn is_any_backed_up(&self) -> bool {
        self.iter().any(Port::is_backed_up)
    }
}

// Numbers of ports are made here and in the routes, from the same list.
impl<D: Device> Index<PortId> for PortList<D> {
    type Output = Port<D>;

    #[inline]
    fn index(&self, id: PortId) -> &Port<D> {
        &self.0[usize::from(id.0)]
    }
}

impl<D: Device> IndexMut<PortId> for PortList<D> {
    #[inline]
    fn index_mut(&mut self, id: PortId) -> &mut Port<D> {
        &mut self.0[usize::from(id.0)]
    }
}
