//! Bytes that follow from a key and their position, so that a receiver can check each of them.

/// The key of one direction of connection number `flow` of a test.
pub fn key(flow: u64, up: bool) -> u64 {
    word(flow << 1 | u64::from(up), 0)
}

fn word(key: u64, index: u64) -> u64 {
    let x = (key ^ index).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (x ^ (x >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

/// Call `piece` with the pattern's bytes of each word that covers `len` bytes from `offset`.
fn each(key: u64, offset: u64, len: usize, mut piece: impl FnMut(usize, &[u8]) -> bool) {
    let mut at = 0;
    while at < len {
        let position = offset + at as u64;
        let skip = (position % 8) as usize;
        let bytes = word(key, position / 8).to_le_bytes();
        let part = &bytes[skip..8.min(skip + len - at)];
        if !piece(at, part) {
            return;
        }
        at += part.len();
    }
}

/// Write the bytes from `offset` on.
pub fn fill(key: u64, offset: u64, out: &mut [u8]) {
    let len = out.len();
    each(key, offset, len, |at, part| {
        out[at..at + part.len()].copy_from_slice(part);
        true
    });
}

/// Index of the first byte that is not the pattern's.
pub fn mismatch(key: u64, offset: u64, data: &[u8]) -> Option<usize> {
    let mut found = None;
    each(key, offset, data.len(), |at, part| {
        if &data[at..at + part.len()] == part {
            return true;
        }
        found = part.iter().zip(&data[at..]).position(|(a, b)| a != b).map(|i| at + i);
        false
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_cut_gives_the_same_bytes() {
        let k = key(4711, true);
        let mut whole = vec![0; 100];
        fill(k, 3, &mut whole);
        for cut in 0..100 {
            let mut parts = vec![0; 100];
            fill(k, 3, &mut parts[..cut]);
            fill(k, 3 + cut as u64, &mut parts[cut..]);
            assert_eq!(parts, whole, "cut at {cut}");
            assert_eq!(mismatch(k, 3 + cut as u64, &whole[cut..]), None);
        }
        assert_eq!(mismatch(k, 3, &whole), None);
        whole[57] ^= 1;
        assert_eq!(mismatch(k, 3, &whole), Some(57));
        // A byte too far is a wrong byte.
        assert_eq!(mismatch(k, 4, &whole), Some(0));
        assert_ne!(key(1, true), key(1, false));
    }
}
