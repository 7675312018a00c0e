//! Two stacks in one process: a crossed pair of ports over memory.
//!
//! `--vdev net_ring0` loops onto itself; a pair that crosses is made from rings.

use std::ffi::{CString, c_uint};
use std::ptr::NonNull;

use dpdk_sys as sys;

use crate::eal::Eal;
use crate::error::{Error, errno_text, last_errno};
use crate::log;
use crate::port::Port;

/// Queues that one port of a pair may have: what the driver supports.
pub const RING_QUEUES_MAX: u16 = 16;

/// Two ports of which each receives what the other sends: the very same mbufs.
#[derive(Debug)]
pub struct RingPair {
    /// One end.
    pub a: Port,
    /// The other end.
    pub b: Port,
}

impl RingPair {
    /// A pair called `name` with `queues` queues on each side; `frames` (a power of two) may wait
    /// in each direction of each queue. Queue *i* of one side is connected with queue *i* of the
    /// other.
    pub fn create(eal: &Eal, name: &str, queues: u16, frames: u32) -> Result<Self, Error> {
        let what = || format!("cannot create the ring pair {name}");
        if queues == 0 || queues > RING_QUEUES_MAX {
            return Err(Error::configuration(
                what(),
                format!("{queues} queues; 1 to {RING_QUEUES_MAX} are possible"),
            ));
        }
        if !frames.is_power_of_two() || frames < 2 {
            return Err(Error::configuration(
                what(),
                format!("{frames} frames per ring is not a power of two"),
            ));
        }
        let ab = Rings::create(&format!("{name}_ab"), queues, frames)?;
        let ba = Rings::create(&format!("{name}_ba"), queues, frames)?;
        let a = ethdev(&format!("{name}_a"), &ba, &ab)?;
        let b = ethdev(&format!("{name}_b"), &ab, &ba)?;
        // Frames under way belong to the rings, so the ends share them: the last one out frees.
        let rings = std::sync::Arc::new((ab, ba));
        Ok(Self {
            a: Port::from_rings(eal, a, std::sync::Arc::clone(&rings))?,
            b: Port::from_rings(eal, b, rings)?,
        })
    }
}

/// One direction of a pair: a ring per queue.
#[derive(Debug)]
pub(crate) struct Rings(Vec<NonNull<sys::rte_ring>>);

// SAFETY: rings are made for use from several threads; the pointers are handles.
unsafe impl Send for Rings {}
// SAFETY: as above; nothing is done through `&self` but passing the handles on.
unsafe impl Sync for Rings {}

impl Rings {
    fn create(name: &str, queues: u16, frames: u32) -> Result<Self, Error> {
        let mut rings = Self(Vec::new());
        let mark = log::mark();
        for queue in 0..queues {
            let full = CString::new(format!("{name}{queue}")).unwrap_or_default();
            // Each queue has one owner on each side.
            let flags = sys::MR_RING_SP_ENQ | sys::MR_RING_SC_DEQ;
            // SAFETY: a NUL-terminated name that is copied, and numbers that DPDK checks.
            let ring = unsafe {
                sys::rte_ring_create(full.as_ptr(), frames as c_uint, sys::MR_SOCKET_ANY, flags)
            };
            let Some(ring) = NonNull::new(ring) else {
                return Err(Error::environment(
                    format!("cannot create the ring {name}{queue}"),
                    errno_text(last_errno()),
                )
                .detail(log::since(mark)));
            };
            rings.0.push(ring);
        }
        Ok(rings)
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        for ring in &self.0 {
            let mut batch = [core::ptr::null_mut(); 64];
            loop {
                // SAFETY: the ports over this ring are closed or were never made, so this is the
                // only consumer; the array has room for as many pointers as are asked for.
                let n = unsafe {
                    sys::mr_ring_take(ring.as_ptr(), batch.as_mut_ptr(), batch.len() as c_uint)
                };
                if n == 0 {
                    break;
                }
                // SAFETY: what the driver puts into these rings are mbufs, and whoever takes one
                // out owns it.
                unsafe { sys::mr_free_bulk(batch.as_mut_ptr().cast(), n) };
            }
            // SAFETY: nobody else refers to the ring any more (as above).
            unsafe { sys::rte_ring_free(ring.as_ptr()) };
        }
    }
}

fn ethdev(name: &str, rx: &Rings, tx: &Rings) -> Result<u16, Error> {
    let mark = log::mark();
    let full = CString::new(name).unwrap_or_default();
    let mut rx: Vec<*mut sys::rte_ring> = rx.0.iter().map(|r| r.as_ptr()).collect();
    let mut tx: Vec<*mut sys::rte_ring> = tx.0.iter().map(|r| r.as_ptr()).collect();
    // SAFETY: arrays of valid rings with their lengths; the driver copies the pointers, and the
    // rings outlive the port because `Port` holds them.
    let id = unsafe {
        sys::rte_eth_from_rings(
            full.as_ptr(),
            rx.as_mut_ptr(),
            rx.len() as c_uint,
            tx.as_mut_ptr(),
            tx.len() as c_uint,
            0,
        )
    };
    u16::try_from(id).map_err(|_| {
        Error::environment(format!("cannot create the port {name}"), errno_text(last_errno()))
            .detail(log::since(mark))
    })
}
