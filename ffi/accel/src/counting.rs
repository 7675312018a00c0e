//! An allocator that counts, for tests that say "this allocates nothing".

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicU64, Ordering};

/// Counts the allocations that it passes on to another allocator. To be made the global allocator of
/// a test program.
pub struct Counting<A> {
    inner: A,
    allocations: AtomicU64,
}

impl<A> Counting<A> {
    /// Counts what `inner` is asked for.
    pub const fn new(inner: A) -> Self {
        Self { inner, allocations: AtomicU64::new(0) }
    }

    /// Allocations and enlargements since the start of the program.
    pub fn allocations(&self) -> u64 {
        self.allocations.load(Ordering::Relaxed)
    }
}

// SAFETY: every call goes to the inner allocator with the very same arguments, so its promises are
// ours.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.allocations.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { self.inner.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the block came from the inner allocator, with this layout.
        unsafe { self.inner.dealloc(ptr, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.allocations.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { self.inner.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        self.allocations.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the block came from the inner allocator, with this layout.
        unsafe { self.inner.realloc(ptr, layout, new_size) }
    }
}
