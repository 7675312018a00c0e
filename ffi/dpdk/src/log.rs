//! DPDK's log, kept in memory.
//!
//! EAL and drivers say why something failed in their log only. Its last lines are kept here and
//! attached to errors; nothing is printed but the last words before DPDK aborts.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use core::ffi::{c_char, c_void};

/// Lines kept.
pub const LOG_LINES_MAX: usize = 256;
/// Bytes of one line kept; the rest of a longer line is cut.
pub const LOG_LINE_BYTES_MAX: usize = 512;

#[derive(Debug)]
struct Log {
    lines: VecDeque<String>,
    partial: Vec<u8>,
    /// Lines ever completed, so that a reader can say "since then".
    count: u64,
}

static LOG: Mutex<Log> = Mutex::new(Log { lines: VecDeque::new(), partial: Vec::new(), count: 0 });

fn log() -> MutexGuard<'static, Log> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Log {
    fn push(&mut self, bytes: &[u8]) {
        for &b in bytes {
            if b == b'\n' {
                let line = String::from_utf8_lossy(&self.partial).into_owned();
                self.partial.clear();
                if self.lines.len() == LOG_LINES_MAX {
                    self.lines.pop_front();
                }
                self.lines.push_back(line);
                self.count += 1;
            } else if self.partial.len() < LOG_LINE_BYTES_MAX {
                self.partial.push(b);
            }
        }
    }
}

/// A point in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(u64);

/// The present end of the log.
pub(crate) fn mark() -> Mark {
    Mark(log().count)
}

/// The lines written after `mark`, as far as they are kept.
pub(crate) fn since(mark: Mark) -> Vec<String> {
    let log = log();
    let new = usize::try_from(log.count - mark.0).unwrap_or(usize::MAX);
    let skip = log.lines.len().saturating_sub(new);
    log.lines.iter().skip(skip).cloned().collect()
}

/// The last lines that DPDK has logged, oldest first; at most [`LOG_LINES_MAX`].
pub fn recent() -> Vec<String> {
    log().lines.iter().cloned().collect()
}

/// Direct DPDK's log here. False when the stream could not be made: the log then goes where DPDK
/// wants, which is no reason to fail.
pub(crate) fn install() -> bool {
    // SAFETY: `write` has the signature that the shim declares and stays valid for ever. The stream
    // is never closed, so DPDK may use it until the process ends.
    unsafe {
        let stream = dpdk_sys::mr_log_stream(Some(write));
        !stream.is_null() && dpdk_sys::rte_openlog_stream(stream) == 0
    }
}

unsafe extern "C" fn write(_cookie: *mut c_void, text: *const c_char, len: usize) -> isize {
    // SAFETY: the C library hands over `len` readable bytes for the time of this call.
    let bytes = unsafe { core::slice::from_raw_parts(text.cast::<u8>(), len) };
    // DPDK aborts after these, and the memory that holds the line goes with the process.
    if bytes.windows(8).any(|w| w == b"PANIC in") {
        eprint!("{}", String::from_utf8_lossy(bytes));
    }
    log().push(bytes);
    isize::try_from(len).unwrap_or(isize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_joined_cut_and_bounded() {
        let mut log = Log { lines: VecDeque::new(), partial: Vec::new(), count: 0 };
        log.push(b"EAL: one");
        log.push(b" line\nEAL: two\n");
        assert_eq!(log.lines, ["EAL: one line", "EAL: two"]);
        log.push(&[b'x'; LOG_LINE_BYTES_MAX + 10]);
        log.push(b"\n");
        assert_eq!(log.lines.back().map(String::len), Some(LOG_LINE_BYTES_MAX));
        for _ in 0..LOG_LINES_MAX {
            log.push(b"more\n");
        }
        assert_eq!(log.lines.len(), LOG_LINES_MAX);
        assert_eq!(log.count, 3 + LOG_LINES_MAX as u64);
    }
}
