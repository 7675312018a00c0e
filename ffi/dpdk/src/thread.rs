//! Registration of worker threads with EAL.

use core::marker::PhantomData;

use dpdk_sys as sys;

use crate::eal::Eal;
use crate::error::{Error, errno_text, last_errno};

/// The calling thread has a logical core id of its own until this is dropped, so that mempools
/// serve it from a cache that no other thread touches.
#[derive(Debug)]
pub struct Registration {
    /// Dropped by the thread that it registered: neither `Send` nor `Sync`.
    not_send: PhantomData<*const ()>,
}

/// Register the calling thread. Affinity stays as it is: pin the thread first.
///
/// ```no_run
/// # fn worker(eal: &'static dpdk::Eal) -> Result<(), dpdk::Error> {
/// std::thread::spawn(move || {
///     let _registered = dpdk::thread::register(eal)?;
///     // poll a queue
///     Ok::<(), dpdk::Error>(())
/// });
/// # Ok(()) }
/// ```
pub fn register(_eal: &Eal) -> Result<Registration, Error> {
    // SAFETY: EAL is initialised (`_eal`); the function acts on the calling thread.
    if unsafe { sys::rte_thread_register() } == 0 {
        return Ok(Registration { not_send: PhantomData });
    }
    Err(Error::environment("cannot register a worker thread with EAL", errno_text(last_errno()))
        .help(format!("at most {} threads can be registered", sys::MR_MAX_LCORE)))
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: this thread was registered by `register` and, as the type is not Send, it is the
        // same thread that unregisters. Mbufs left in its cache stay in the pool's count and are
        // found by the next thread that gets the same id.
        unsafe { sys::rte_thread_unregister() }
    }
}
