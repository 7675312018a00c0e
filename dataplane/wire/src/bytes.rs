//! Access to bytes that cannot panic.

use base::DropReason;

/// The first `N` bytes. If they are not there: `short` when the frame really ends before them, and
/// [`DropReason::MbufSplit`] when they lie in a later segment of it (`remaining` says so).
#[inline]
pub(crate) fn head<const N: usize>(
    bytes: &[u8],
    remaining: usize,
    short: DropReason,
) -> Result<&[u8; N], DropReason> {
    match bytes.first_chunk::<N>() {
        Some(head) if remaining >= N => Ok(head),
        _ if remaining < N => Err(short),
        _ => Err(DropReason::MbufSplit),
    }
}

/// The big-endian 16 bits at `at`, if they are there.
#[inline]
pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    chunk(bytes, at).map(u16::from_be_bytes)
}

/// The big-endian 32 bits at `at`, if they are there.
#[inline]
pub(crate) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    chunk(bytes, at).map(u32::from_be_bytes)
}

/// The `N` bytes at `at`, if they are there.
#[inline]
pub(crate) fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

/// The first `N` bytes of a buffer of ours, for writing.
#[inline]
#[track_caller]
pub(crate) fn room<const N: usize>(out: &mut [u8]) -> &mut [u8; N] {
    out.first_chunk_mut::<N>().expect("the caller provides room for the header")
}
