//! Hints to the cache. A prefetch never faults and changes no value, so the interface is safe.

/// Distance between two prefetches that reach different lines.
pub const CACHE_LINE_BYTES: usize = 64;

/// Ask for the first cache line of `value` to be brought near; nothing else happens.
#[inline(always)]
pub fn prefetch<T: ?Sized>(value: &T) {
    line(core::ptr::from_ref(value).cast::<u8>());
}

/// Ask for the first `lines` cache lines of `bytes` (fewer if it is shorter).
#[inline(always)]
pub fn prefetch_slice(bytes: &[u8], lines: usize) {
    for chunk in bytes.chunks(CACHE_LINE_BYTES).take(lines) {
        line(chunk.as_ptr());
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn line(address: *const u8) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: prefetching has no architectural effect and does not fault for any address; SSE is
    // part of the x86_64 baseline.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn line(_address: *const u8) {}
