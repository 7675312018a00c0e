//! Corpora on disk, and seeded mutations of them.

use std::path::{Path, PathBuf};

use base::{Random, SeededRandom};

use crate::{INPUT_MAX, Target};

/// Changes that one mutation makes at most.
const CHANGES_MAX: u32 = 6;

/// Where the corpora are.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The inputs that a fuzzer has found for `target`, by file name.
///
/// # Panics
///
/// If a file cannot be read: it is part of the repository.
pub fn committed(target: &Target) -> Vec<(String, Vec<u8>)> {
    let Ok(entries) = std::fs::read_dir(folder().join(target.name)) else { return Vec::new() };
    let mut inputs: Vec<(String, Vec<u8>)> = entries
        .map(|entry| {
            let path = entry.expect("the corpus can be listed").path();
            let bytes = std::fs::read(&path).expect("the corpus can be read");
            (path.file_name().unwrap_or_default().to_string_lossy().into_owned(), bytes)
        })
        .collect();
    // The order of a directory is no order.
    inputs.sort();
    inputs
}

/// An input made from `inputs`: one of them, changed a little, or two of them joined.
pub fn mutate(random: &mut SeededRandom, inputs: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = pick(random, inputs);
    for _ in 0..=random.below(CHANGES_MAX) {
        change(random, &mut bytes, inputs);
    }
    bytes.truncate(INPUT_MAX);
    bytes
}

fn pick(random: &mut SeededRandom, inputs: &[Vec<u8>]) -> Vec<u8> {
    inputs.get(random.below(inputs.len() as u32) as usize).cloned().unwrap_or_default()
}

/// A place in `0..=len`.
fn place(random: &mut SeededRandom, len: usize) -> usize {
    random.below(len as u32 + 1) as usize
}

fn change(random: &mut SeededRandom, bytes: &mut Vec<u8>, inputs: &[Vec<u8>]) {
    const TELLING: [u8; 8] = [0, 1, 0x7f, 0x80, 0xfe, 0xff, b'0', b'\n'];
    let at = place(random, bytes.len());
    let end = place(random, bytes.len().saturating_sub(at).min(64)) + at;
    match random.below(9) {
        0 | 1 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        2 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = random.next_u64() as u8;
            }
        }
        3 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = TELLING[random.below(TELLING.len() as u32) as usize];
            }
        }
        4 => bytes.insert(at, random.next_u64() as u8),
        5 => drop(bytes.drain(at..end)),
        6 => {
            let again = bytes[at..end].to_vec();
            let to = place(random, bytes.len());
            bytes.splice(to..to, again);
        }
        7 => {
            let other = pick(random, inputs);
            let from = place(random, other.len());
            bytes.truncate(at);
            bytes.extend(&other[from..]);
        }
        _ => bytes.truncate(at),
    }
}
