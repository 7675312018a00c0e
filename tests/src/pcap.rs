//! Captures in the classic format: link type Ethernet, little-endian.

use std::io;

const MAGIC: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const ETHERNET: u32 = 1;
const HEADER: usize = 24;
const RECORD: usize = 16;
/// Longer frames are not believed.
const SNAP: u32 = 1 << 18;

/// Write `frames`, one microsecond apart, to the file `path`.
///
/// # Errors
/// Those of the file system.
pub fn write(path: &str, frames: &[Vec<u8>]) -> io::Result<()> {
    let mut out = Vec::new();
    let word = |out: &mut Vec<u8>, n: u32| out.extend(n.to_le_bytes());
    // Version 2.4, times in UTC without a stated accuracy.
    for n in [MAGIC, 2 | 4 << 16, 0, 0, SNAP, ETHERNET] {
        word(&mut out, n);
    }
    for (number, frame) in (0u32..).zip(frames) {
        let len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        for n in [1, number, len, len] {
            word(&mut out, n);
        }
        out.extend(frame);
    }
    std::fs::write(path, out)
}

/// The frames of the file `path`.
///
/// # Errors
/// Those of the file system; and a file that is not a whole capture.
pub fn read(path: &str) -> io::Result<Vec<Vec<u8>>> {
    let bytes = std::fs::read(path)?;
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{path}: {what}"));
    let word = |at: usize| {
        let four = bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
        four.map(u32::from_le_bytes).ok_or_else(|| bad("cut short"))
    };
    if ![MAGIC, MAGIC_NANOSECONDS].contains(&word(0)?) || word(20)? != ETHERNET {
        return Err(bad("not a little-endian capture of Ethernet frames"));
    }
    let (mut at, mut frames) = (HEADER, Vec::new());
    while at < bytes.len() {
        let len = word(at + 8)?;
        if len > SNAP || word(at + 12)? != len {
            return Err(bad("a frame of impossible length, or one that was cut"));
        }
        at += RECORD;
        let frame = bytes.get(at..at + len as usize).ok_or_else(|| bad("cut short"))?;
        frames.push(frame.to_vec());
        at += len as usize;
    }
    Ok(frames)
}
