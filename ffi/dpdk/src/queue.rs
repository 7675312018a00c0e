//! One receive queue and one transmit queue with their buffers: the device door of one worker.

use std::collections::VecDeque;
use std::ffi::c_uint;
use std::ptr::NonNull;
use std::sync::Arc;

use base::{Buffers, Capabilities, Device, Frame, RX_BURST_FRAMES, RxBatch};
use dpdk_sys as sys;
use sys::rte_mbuf;

use crate::mbuf::Mbuf;
use crate::mempool::{Mempool, Pools};
use crate::port::PortControl;

/// Buffers fetched from a pool at once.
const REFILL: usize = 32;

/// What the queue itself had to give up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Received chains that contradicted themselves.
    pub rx_malformed: u64,
    /// Frames that the driver declared impossible to send.
    pub tx_refused: u64,
}

/// A queue pair. It moves into its worker; it is neither shared nor copied. The port runs as long
/// as it exists.
#[derive(Debug)]
pub struct PortQueue {
    port: u16,
    queue: u16,
    capabilities: Capabilities,
    keep: u64,
    prepare: bool,
    counters: QueueCounters,
    /// Where the driver puts what it received: kept, because clearing it costs more than an empty
    /// burst.
    received: Box<[*mut rte_mbuf; RX_BURST_FRAMES]>,
    payload: Stash,
    headers: Stash,
    control: PortControl,
}

// SAFETY: what makes it not Send by itself are the raw pointers to free mbufs, which it owns. Burst
// functions may be called by any thread as long as only one does, which `&mut self` ensures.
unsafe impl Send for PortQueue {}

/// What a started port hands to each of its queues.
pub(crate) struct Parts {
    pub(crate) port: u16,
    pub(crate) queue: u16,
    pub(crate) capabilities: Capabilities,
    pub(crate) pools: Pools,
    pub(crate) keep: u64,
    pub(crate) prepare: bool,
}

impl PortQueue {
    pub(crate) fn new(control: PortControl, parts: Parts) -> Self {
        let Parts { port, queue, capabilities, pools, keep, prepare } = parts;
        Self {
            port,
            queue,
            capabilities,
            keep,
            prepare,
            counters: QueueCounters::default(),
            received: Box::new([core::ptr::null_mut(); RX_BURST_FRAMES]),
            payload: Stash::new(pools.payload),
            headers: Stash::new(pools.headers),
            control,
        }
    }

    /// The port that this queue belongs to.
    pub fn control(&self) -> &PortControl {
        &self.control
    }

    /// The queue's number.
    pub fn index(&self) -> u16 {
        self.queue
    }

    /// What the queue itself had to give up.
    pub fn counters(&self) -> QueueCounters {
        self.counters
    }

    /// State of the pool of headers and references, as [`Device::buffers`] for payload.
    pub fn header_buffers(&self) -> Buffers {
        self.headers.buffers()
    }

    /// Let the driver send the frames of `slice` from the front; how many it took.
    fn send(&mut self, slice: &mut [Mbuf]) -> usize {
        // A driver trusts its caller that no frame has more segments than it can describe.
        let limit = usize::from(self.capabilities.tx_segments_max);
        let possible = slice.iter().position(|f| f.segment_count() > limit);
        let count = u16::try_from(possible.unwrap_or(slice.len())).unwrap_or(u16::MAX);
        let frames = slice.as_mut_ptr().cast::<*mut rte_mbuf>();
        let mut ready = count;
        if self.prepare {
            // SAFETY: as for the transmission below; this only looks, and corrects headers.
            ready = unsafe { sys::mr_tx_prepare(self.port, self.queue, frames, count) };
        }
        // SAFETY: `Mbuf` is a transparent pointer to an mbuf (asserted in `mbuf`), `slice` has
        // `ready` of them, and this queue has no other user. The driver owns the frames that it
        // took: the caller forgets them.
        usize::from(unsafe { sys::mr_tx_burst(self.port, self.queue, frames, ready) })
    }

    /// Whether the frame at the front cannot be sent at all, so that waiting would never end.
    fn is_impossible(&self, frame: &mut Mbuf) -> bool {
        if frame.segment_count() > usize::from(self.capabilities.tx_segments_max) {
            return true;
        }
        if !self.prepare {
            return false;
        }
        let mut raw = frame.raw_ptr();
        // SAFETY: one valid frame that stays ours; the function only looks, and corrects headers.
        unsafe { sys::mr_tx_prepare(self.port, self.queue, &raw mut raw, 1) == 0 }
    }
}

impl Device for PortQueue {
    type Frame = Mbuf;

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn rx_burst(&mut self, out: &mut RxBatch<Mbuf>) -> usize {
        if !self.control.may_poll() {
            return 0;
        }
        let before = out.len();
        let room = out.remaining_capacity().min(RX_BURST_FRAMES) as u16;
        // SAFETY: the array has room for as many pointers as are asked for (the capacity of a batch
        // is the array's), and this queue has no other user.
        let n =
            unsafe { sys::mr_rx_burst(self.port, self.queue, self.received.as_mut_ptr(), room) };
        for &m in self.received.iter().take(n.into()) {
            let Some(m) = NonNull::new(m) else { continue };
            // SAFETY: the driver hands over ownership of the chain.
            match unsafe { Mbuf::from_driver(m, self.keep) } {
                Ok(frame) => out.push(frame),
                Err(_) => self.counters.rx_malformed += 1,
            }
        }
        out.len() - before
    }

    fn alloc(&mut self) -> Option<Mbuf> {
        self.headers.take()
    }

    fn payload_alloc(&mut self) -> Option<Mbuf> {
        self.payload.take()
    }

    fn share(&mut self, of: &Mbuf, offset: usize, len: usize) -> Option<Mbuf> {
        if offset.checked_add(len)? > of.head().len() {
            return None;
        }
        let reference = self.headers.take()?;
        Some(reference.attach(of, offset as u16, len as u16))
    }

    fn tx_burst(&mut self, frames: &mut VecDeque<Mbuf>) -> usize {
        let mut sent = 0;
        if !self.control.may_poll() {
            return 0;
        }
        while !frames.is_empty() {
            let (front, _) = frames.as_mut_slices();
            let wanted = front.len().min(usize::from(u16::MAX));
            let taken = self.send(&mut front[..wanted]);
            for frame in frames.drain(..taken) {
                // The driver has it.
                let _ = frame.into_raw();
            }
            sent += taken;
            if taken == wanted {
                continue;
            }
            let Some(front) = frames.front_mut() else { break };
            if !self.is_impossible(front) {
                break;
            }
            self.counters.tx_refused += 1;
            frames.pop_front();
            sent += 1;
        }
        sent
    }

    fn buffers(&self) -> Buffers {
        self.payload.buffers()
    }
}

/// Free mbufs at hand, ready for use: one call into DPDK per [`REFILL`] allocations.
#[derive(Debug)]
struct Stash {
    pool: Arc<Mempool>,
    ready: Vec<NonNull<rte_mbuf>>,
}

impl Stash {
    fn new(pool: Arc<Mempool>) -> Self {
        Self { pool, ready: Vec::with_capacity(REFILL) }
    }

    fn take(&mut self) -> Option<Mbuf> {
        if self.ready.is_empty() {
            self.refill();
        }
        // SAFETY: a fresh mbuf is a chain of one with no data, and the stash owned it.
        self.ready.pop().map(|m| unsafe { Mbuf::from_raw(m) })
    }

    #[cold]
    fn refill(&mut self) {
        let mut raw = [core::ptr::null_mut(); REFILL];
        // All or nothing: a nearly empty pool still has some.
        for count in [REFILL, 1] {
            // SAFETY: the pool lives as long as the process and the array has room for `count`.
            let code = unsafe {
                sys::mr_alloc_bulk(self.pool.as_ptr(), raw.as_mut_ptr(), count as c_uint)
            };
            if code == 0 {
                self.ready.extend(raw[..count].iter().filter_map(|&m| NonNull::new(m)));
                return;
            }
        }
    }

    fn buffers(&self) -> Buffers {
        Buffers {
            free: self.pool.available() + self.ready.len() as u32,
            total: self.pool.capacity(),
        }
    }
}

impl Drop for Stash {
    fn drop(&mut self) {
        for m in self.ready.drain(..) {
            // SAFETY: the stash owns these mbufs.
            drop(unsafe { Mbuf::from_raw(m) });
        }
    }
}
