//! The x86-64 variants. All three widths come from one macro, so that they cannot drift apart.
//!
//! Each block is split into its even and odd 32-bit words, which are added to 64-bit lanes. A lane
//! grows by less than 2^32 per block, so it could overflow only after 2^32 blocks.

use core::arch::x86_64::*;
use std::arch::is_x86_feature_detected;

use crate::finish;
use crate::portable::sum_native;

/// A variant of which [`level`] or [`levels`] has established that this processor runs it. The
/// field is private, so holding one with a wide variant proves the detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level(Width);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Sse2,
    Avx2,
    Avx512,
}

/// The widest variant that this processor has.
#[inline]
pub(crate) fn level() -> Level {
    if is_x86_feature_detected!("avx512f") {
        Level(Width::Avx512)
    } else if is_x86_feature_detected!("avx2") {
        Level(Width::Avx2)
    } else {
        Level(Width::Sse2)
    }
}

/// Every variant that this processor has.
#[cfg(test)]
pub(crate) fn levels() -> Vec<Level> {
    let mut all = vec![Level(Width::Sse2)];
    if is_x86_feature_detected!("avx2") {
        all.push(Level(Width::Avx2));
    }
    if is_x86_feature_detected!("avx512f") {
        all.push(Level(Width::Avx512));
    }
    all
}

pub(crate) fn checksum(level: Level, data: &[u8], initial: u32) -> u32 {
    // SAFETY: `src` is valid for reads of its length; nothing is written without `COPY`.
    finish(unsafe { run::<false>(level, data, core::ptr::null_mut()) }, initial)
}

pub(crate) fn copy_and_checksum(level: Level, dst: &mut [u8], src: &[u8]) -> u32 {
    assert_eq!(dst.len(), src.len(), "copy_and_checksum needs equal lengths");
    // SAFETY: `dst` is valid for writes of `src.len()` bytes by the assertion, and a `&mut` cannot
    // overlap `src`.
    finish(unsafe { run::<true>(level, src, dst.as_mut_ptr()) }, 0)
}

/// The sum of `src` in native order; with `COPY` its bytes are written to `dst` on the way.
///
/// # Safety
///
/// With `COPY`, `dst` is valid for writes of `src.len()` bytes and does not overlap `src`.
#[inline]
unsafe fn run<const COPY: bool>(level: Level, src: &[u8], dst: *mut u8) -> u64 {
    // SAFETY: each arm needs its CPU feature, which a `Level` of that width proves (SSE2 is in the
    // baseline); the condition on `dst` is the caller's.
    let (sum, done) = unsafe {
        match level.0 {
            Width::Avx512 => avx512::<COPY>(src, dst),
            Width::Avx2 => avx2::<COPY>(src, dst),
            Width::Sse2 => sse2::<COPY>(src, dst),
        }
    };
    // Whole blocks were done before, so the rest begins at an even offset.
    sum + sum_native(&src[done..])
}

macro_rules! variant {
    ($name:ident, $feature:literal, $vector:ty, $lanes:literal, $bytes:literal,
     $load:ident, $store:ident, $add:ident, $and:ident, $shift:ident, $zero:ident, $set:ident) => {
        /// Sum of all whole blocks of `src`, and the bytes in them. With `COPY` all of `src` is
        /// written to `dst`.
        ///
        /// # Safety
        ///
        /// The processor has the feature; with `COPY`, `dst` is valid for writes of `src.len()`
        /// bytes and does not overlap `src`.
        #[target_feature(enable = $feature)]
        unsafe fn $name<const COPY: bool>(src: &[u8], dst: *mut u8) -> (u64, usize) {
            const BLOCK: usize = $bytes;
            let even = $set(0xffff_ffff);
            // Two independent pairs of sums hide the latency of the additions.
            let mut sums = [$zero(); 4];
            let (pairs, rest) = src.as_chunks::<{ 2 * BLOCK }>();
            let (single, _) = rest.as_chunks::<BLOCK>();
            let mut done = 0;
            let mut add = |block: *const u8, low: usize| {
                // SAFETY: `block` points to `BLOCK` readable bytes (it lies in a chunk of `src`);
                // the instruction asks for no alignment.
                let value = unsafe { $load(block.cast()) };
                if COPY {
                    // SAFETY: `done + BLOCK` is at most `src.len()`, for which `dst` is valid.
                    unsafe { $store(dst.add(done).cast(), value) };
                }
                done += BLOCK;
                sums[low] = $add(sums[low], $and(value, even));
                sums[low + 1] = $add(sums[low + 1], $shift::<32>(value));
            };
            for pair in pairs {
                let first = pair.as_ptr();
                add(first, 0);
                add(first.wrapping_add(BLOCK), 2);
            }
            // Not a loop, which the compiler would turn into a call of memcpy.
            if let Some(block) = single.first() {
                add(block.as_ptr(), 0);
            }
            if COPY && done < src.len() {
                match src.last_chunk::<BLOCK>() {
                    // What is left is written with some bytes before it once more: one load and
                    // one store in place of a copy of any length.
                    // SAFETY: the last `BLOCK` bytes of `src` are readable, and as many of `dst`
                    // writable.
                    Some(last) => unsafe {
                        let value = $load(last.as_ptr().cast());
                        $store(dst.add(src.len() - BLOCK).cast(), value);
                    },
                    // SAFETY: `dst` is valid for `src.len()` bytes and does not overlap.
                    None => unsafe {
                        core::ptr::copy_nonoverlapping(src.as_ptr(), dst, src.len());
                    },
                }
            }
            let total = $add($add(sums[0], sums[1]), $add(sums[2], sums[3]));
            // SAFETY: both types have the same size and every bit pattern is valid.
            let lanes: [u64; $lanes] = unsafe { core::mem::transmute::<$vector, _>(total) };
            // Folded before they are added, so that the total cannot overflow either.
            (lanes.iter().map(|lane| (lane & 0xffff_ffff) + (lane >> 32)).sum(), done)
        }
    };
}

variant!(
    sse2,
    "sse2",
    __m128i,
    2,
    16,
    _mm_loadu_si128,
    _mm_storeu_si128,
    _mm_add_epi64,
    _mm_and_si128,
    _mm_srli_epi64,
    _mm_setzero_si128,
    _mm_set1_epi64x
);
variant!(
    avx2,
    "avx2",
    __m256i,
    4,
    32,
    _mm256_loadu_si256,
    _mm256_storeu_si256,
    _mm256_add_epi64,
    _mm256_and_si256,
    _mm256_srli_epi64,
    _mm256_setzero_si256,
    _mm256_set1_epi64x
);
variant!(
    avx512,
    "avx512f",
    __m512i,
    8,
    64,
    _mm512_loadu_si512,
    _mm512_storeu_si512,
    _mm512_add_epi64,
    _mm512_and_si512,
    _mm512_srli_epi64,
    _mm512_setzero_si512,
    _mm512_set1_epi64
);
