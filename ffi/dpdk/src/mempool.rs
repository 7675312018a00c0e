//! Pools of mbufs.
//!
//! A pool lives as long as the process: an [`Mbuf`](crate::Mbuf) is one bare pointer and may be
//! held by anybody, so there is no moment at which freeing a pool would be known to be safe. A pool
//! that is no longer used is kept for the next one of the same shape instead.

use std::ffi::{CString, c_uint};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use dpdk_sys as sys;

use crate::eal::Eal;
use crate::error::{Error, errno_text, last_errno};
use crate::log;
use crate::port::HEADER_ROOM;

/// Bytes before the data of a fresh mbuf.
pub const HEADROOM: usize = sys::MR_HEADROOM as usize;

/// Mbufs that one thread keeps for itself before it returns some to the pool.
const CACHE: u32 = 256;

/// Last-in first-out handlers first: the mbuf freed last is still in the cache. The lock-free one
/// does not let a preempted worker hold up the others, which matters where workers share cores.
const HANDLERS: [&core::ffi::CStr; 3] = [c"lf_stack", c"stack", c"ring_mp_mc"];

static NEXT_NAME: AtomicU32 = AtomicU32::new(0);
static RETIRED: Mutex<Vec<Retired>> = Mutex::new(Vec::new());

/// How the buffers of a pool lie in memory; the larger one asks for more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Layout {
    /// One behind the other. Without hugepages a page has 4 KiB, so the other layout would waste
    /// nearly half of the memory, begin all buffers at the same place of a page (and so in the same
    /// sets of the cache), and leave `net_af_xdp`, which computes the size of its memory from the
    /// number of buffers, with buffers outside of it that the kernel refuses to fill.
    Packed,
    /// None crosses a page, for hardware that knows a buffer by one address.
    WithinPages,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shape {
    count: u32,
    room: u16,
    socket: i32,
    layout: Layout,
}

struct Retired {
    shape: Shape,
    pool: NonNull<sys::rte_mempool>,
}

// SAFETY: a mempool may be used from any thread; the pointer itself is only a handle.
unsafe impl Send for Retired {}

/// A pool of mbufs of one size, used by one worker at a time.
#[derive(Debug)]
pub struct Mempool {
    pool: NonNull<sys::rte_mempool>,
    shape: Shape,
}

// SAFETY: DPDK's mempools may be used from any thread: the per-thread caches are indexed by the
// calling thread's lcore id and unregistered threads bypass them.
unsafe impl Send for Mempool {}
// SAFETY: as above; all functions called through `&self` are safe to call concurrently.
unsafe impl Sync for Mempool {}

impl Mempool {
    /// A pool of `count` mbufs with `room` bytes behind the headroom, on NUMA node `socket` (-1:
    /// any).
    pub fn new(
        _eal: &Eal,
        count: u32,
        room: u16,
        socket: i32,
        layout: Layout,
    ) -> Result<Self, Error> {
        let shape = Shape { count, room, socket, layout };
        if let Some(pool) = take_retired(shape) {
            return Ok(Self { pool, shape });
        }
        let mark = log::mark();
        let data_room = u16::try_from(HEADROOM + usize::from(room)).map_err(|_| {
            Error::configuration(
                "cannot create a mbuf pool",
                format!("a buffer of {room} bytes is larger than a mbuf can describe"),
            )
        })?;
        // Each thread's cache must not be able to starve the others of a small pool.
        let cache = CACHE.min(sys::MR_MEMPOOL_CACHE_MAX).min(count / 8);
        let flags = match layout {
            Layout::Packed => sys::MR_MEMPOOL_NO_IOVA_CONTIG,
            Layout::WithinPages => 0,
        };
        let mut errno = 0;
        for handler in HANDLERS {
            let name = CString::new(format!("mr{}", NEXT_NAME.fetch_add(1, Ordering::Relaxed)))
                .unwrap_or_default();
            // SAFETY: EAL is initialised (`_eal`); name and handler are NUL-terminated strings that
            // DPDK copies; the remaining arguments are plain numbers that it checks.
            let pool = unsafe {
                sys::mr_pool_create(
                    name.as_ptr(),
                    count as c_uint,
                    cache as c_uint,
                    data_room,
                    socket,
                    handler.as_ptr(),
                    flags,
                )
            };
            if let Some(pool) = NonNull::new(pool) {
                return Ok(Self { pool, shape });
            }
            // A handler that this build lacks is an invalid argument; anything else would be the
            // same with the next one.
            errno = last_errno();
            if errno != libc::EINVAL {
                break;
            }
        }
        Err(Error::environment(
            format!("cannot create a pool of {count} mbufs of {room} bytes"),
            format!(
                "{} (it needs {} MiB)",
                errno_text(errno),
                memory_needed(count, room).div_ceil(1 << 20)
            ),
        )
        .help("give EAL more memory, or ask for fewer buffers per queue")
        .detail(log::since(mark)))
    }

    /// Mbufs in all.
    pub fn capacity(&self) -> u32 {
        self.shape.count
    }

    /// Bytes of data behind the headroom of one mbuf.
    pub fn room(&self) -> u16 {
        self.shape.room
    }

    /// Mbufs that can be had now. Looks at every thread's cache, so it costs a microsecond, and it
    /// may lag behind what other threads do meanwhile.
    pub fn available(&self) -> u32 {
        // SAFETY: the pool lives as long as the process.
        unsafe { sys::rte_mempool_avail_count(self.pool.as_ptr()) }
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::rte_mempool {
        self.pool.as_ptr()
    }
}

/// The pools of one worker: its queues, of however many ports, share them. Clones are the same pools.
#[derive(Clone, Debug)]
pub struct Pools {
    /// For received frames and payload.
    pub(crate) payload: Arc<Mempool>,
    /// For headers and references.
    pub(crate) headers: Arc<Mempool>,
}

impl Pools {
    /// Pools of `buffers` with `room` bytes for payload and of `header_buffers`, on NUMA node `socket`
    /// (-1: any). Where ports with different layouts share them: the larger one.
    pub fn new(
        eal: &Eal,
        (buffers, room): (u32, u16),
        header_buffers: u32,
        socket: i32,
        layout: Layout,
    ) -> Result<Self, Error> {
        let pool = |count, room| Mempool::new(eal, count, room, socket, layout).map(Arc::new);
        Ok(Self { payload: pool(buffers, room)?, headers: pool(header_buffers, HEADER_ROOM)? })
    }

    /// Bytes behind the headroom of a payload buffer.
    pub fn room(&self) -> u16 {
        self.payload.room()
    }
}

impl Drop for Mempool {
    fn drop(&mut self) {
        let retired = Retired { shape: self.shape, pool: self.pool };
        RETIRED.lock().unwrap_or_else(PoisonError::into_inner).push(retired);
    }
}

fn take_retired(shape: Shape) -> Option<NonNull<sys::rte_mempool>> {
    let mut retired = RETIRED.lock().unwrap_or_else(PoisonError::into_inner);
    let at = retired.iter().position(|r| r.shape == shape)?;
    Some(retired.swap_remove(at).pool)
}

/// Bytes of memory that a pool of `count` mbufs with `room` bytes of data takes, rounded up
/// generously: struct, headroom, data, the mempool's own header and trailer.
///
/// ```
/// let bytes = dpdk::mempool::memory_needed(8192, 2048);
/// assert!(bytes > 8192 * 2304 && bytes < 8192 * 2560);
/// ```
pub const fn memory_needed(count: u32, room: u16) -> u64 {
    const OVERHEAD: u64 = 64 + 64;
    let element = size_of::<sys::rte_mbuf>() as u64 + HEADROOM as u64 + room as u64;
    (element.next_multiple_of(64) + OVERHEAD) * count as u64
}
