//! Checksum, copy with checksum, and prefetch: SIMD chosen at run time, behind a safe interface.
//!
//! A *partial sum* is the ones'-complement sum of 16-bit words in network byte order, RFC 1071, not
//! yet complemented, in a `u32`. Every function here returns it folded to at most `0xffff`, so up to
//! 65536 partial sums can be added with plain `+`; [`fold`] brings such a total back to 16 bits. It
//! is zero only if all bytes and the initial value were zero, hence all variants agree bit for bit.
//!
//! The variants (AVX-512, AVX2, SSE2 and [`portable`]) are compared with each other by property
//! tests. Which one runs is decided per call from std's cached CPU features, which costs a load and
//! a bit test; inputs below [`SMALL_BYTES`] take the portable code inline.

pub mod counting;
pub mod portable;
mod prefetch;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(test)]
mod tests;

pub use prefetch::{CACHE_LINE_BYTES, prefetch, prefetch_slice};

/// Below this many bytes the portable code is used: there a call and a reduction cost more than the
/// wider sums save (measured with AVX2: even at 128 to 256 bytes, a third less time at 1460).
pub const SMALL_BYTES: usize = 128;

/// The partial sum of `initial` and `data`. `data` is taken to begin at an even offset; an odd last
/// byte counts as the high half of a word, as RFC 1071 pads it.
#[inline]
pub fn checksum(data: &[u8], initial: u32) -> u32 {
    if data.len() < SMALL_BYTES {
        return portable::checksum(data, initial);
    }
    checksum_large(data, initial)
}

/// Copy `src` to `dst` and return the partial sum of it, in one pass.
///
/// # Panics
///
/// If the lengths differ, as [`slice::copy_from_slice`] does.
#[inline]
pub fn copy_and_checksum(dst: &mut [u8], src: &[u8]) -> u32 {
    assert_eq!(dst.len(), src.len(), "copy_and_checksum needs equal lengths");
    if src.len() < SMALL_BYTES {
        return portable::copy_and_checksum(dst, src);
    }
    copy_large(dst, src)
}

/// The 16-bit ones'-complement value of a total of partial sums.
#[inline]
pub const fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

/// The partial sum of two byte strings, one after the other: `sum_a` over `len_a` bytes, then
/// `sum_b`. After an odd number of bytes each byte of the second string sits in the other half of
/// its word, which for the sum means a byte swap (RFC 1071 section 2, part B).
#[inline]
pub const fn combine(sum_a: u32, len_a: usize, sum_b: u32) -> u32 {
    let b = fold(sum_b);
    let b = if len_a & 1 == 1 { b.swap_bytes() } else { b };
    fold(fold(sum_a) as u32 + b as u32) as u32
}

/// From a sum of words in the machine's byte order to a partial sum in network order, with
/// `initial` added. The sum may be taken in either order and swapped at the end (RFC 1071 section
/// 2, part B), so no word is swapped on the way.
#[inline]
const fn finish(native: u64, initial: u32) -> u32 {
    let once = (native & 0xffff_ffff) + (native >> 32);
    let twice = ((once & 0xffff_ffff) + (once >> 32)) as u32;
    fold(fold(twice).to_be() as u32 + fold(initial) as u32) as u32
}

#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn checksum_large(data: &[u8], initial: u32) -> u32 {
    x86::checksum(x86::level(), data, initial)
}

#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn copy_large(dst: &mut [u8], src: &[u8]) -> u32 {
    x86::copy_and_checksum(x86::level(), dst, src)
}

#[cfg(not(target_arch = "x86_64"))]
fn checksum_large(data: &[u8], initial: u32) -> u32 {
    portable::checksum(data, initial)
}

#[cfg(not(target_arch = "x86_64"))]
fn copy_large(dst: &mut [u8], src: &[u8]) -> u32 {
    portable::copy_and_checksum(dst, src)
}
