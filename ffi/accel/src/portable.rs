//! The variant without SIMD: for short inputs, for other processors, and as the twin with which the
//! others are compared.

use crate::finish;

/// See [`crate::checksum`].
#[inline]
pub fn checksum(data: &[u8], initial: u32) -> u32 {
    finish(sum_native(data), initial)
}

/// See [`crate::copy_and_checksum`].
///
/// # Panics
///
/// If the lengths differ.
#[inline]
pub fn copy_and_checksum(dst: &mut [u8], src: &[u8]) -> u32 {
    dst.copy_from_slice(src);
    checksum(src, 0)
}

/// Sum of the 16-bit words of `data` in the machine's byte order, modulo 65535 and not folded.
///
/// Words are added 32 bits at a time, which is the same modulo 65535, so the total stays below
/// `2^33 * data.len() / 8` and cannot overflow.
#[inline]
pub(crate) fn sum_native(data: &[u8]) -> u64 {
    let (words, rest) = data.as_chunks::<8>();
    let mut sum = 0u64;
    for word in words {
        let word = u64::from_ne_bytes(*word);
        sum += (word & 0xffff_ffff) + (word >> 32);
    }
    let (words, rest) = rest.as_chunks::<4>();
    for word in words {
        sum += u64::from(u32::from_ne_bytes(*word));
    }
    let (words, rest) = rest.as_chunks::<2>();
    for word in words {
        sum += u64::from(u16::from_ne_bytes(*word));
    }
    if let [last] = rest {
        sum += u64::from(u16::from_ne_bytes([*last, 0]));
    }
    sum
}
