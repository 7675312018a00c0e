//! The stack of one worker: everything it owns, and the turn that moves it.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::sync::Arc;
use core::marker::PhantomData;

use base::{Device, DropReason, Instant, SeededRandom};
use tcp::TcpCounters;

use crate::{App, Command, Io, Outgoing, StackConfig, StackCounters, StackParams, Turn};

/// All that one core owns. It is built on the thread of its worker and never leaves it (the type is
/// not `Send`).
pub struct Stack<D: Device> {
    device: D,
    app: Box<dyn App>,
    _stays_here: PhantomData<Rc<()>>,
}

impl<D: Device> Stack<D> {
    /// A stack that does nothing yet: the application gets [`crate::AppEvent::Start`] in the first
    /// turn.
    pub fn new(
        _config: StackConfig,
        _params: Arc<StackParams>,
        device: D,
        _random: SeededRandom,
        app: Box<dyn App>,
    ) -> Self {
        Self { device, app, _stays_here: PhantomData }
    }

    /// One trip round the loop, to completion: receive burst, input, deadlines, commands,
    /// application, output, transmit burst. `now` never goes back. Takes a bounded number of
    /// `commands`; what `outgoing` gives back is offered again in the next turn.
    pub fn turn(
        &mut self,
        _now: Instant,
        _commands: &mut dyn Iterator<Item = Command>,
        _outgoing: &mut dyn FnMut(Outgoing) -> Result<(), Outgoing>,
    ) -> Turn {
        todo!()
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The device, for whoever plays the wire.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// The application.
    pub fn app_mut(&mut self) -> &mut dyn App {
        &mut *self.app
    }

    /// What the application sees, for a script runner that takes the application's place between
    /// two turns. Time is that of the last turn; what it causes leaves in the next one.
    pub fn io(&mut self) -> &mut dyn Io {
        todo!()
    }

    /// Protocol counters.
    pub fn tcp_counters(&self) -> &TcpCounters {
        todo!()
    }

    /// All other counters.
    pub fn counters(&self) -> &StackCounters {
        todo!()
    }

    /// Frames discarded, by [`DropReason`] as index.
    pub fn drops(&self) -> &[u64; DropReason::COUNT] {
        todo!()
    }

    /// Generation of the parameters in force for new connections.
    pub fn generation(&self) -> u64 {
        todo!()
    }

    /// Connections (one that waits for its application included), handshakes and TIME-WAIT records.
    pub fn table(&self) -> [u32; 3] {
        todo!()
    }
}
