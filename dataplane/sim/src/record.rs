//! What happened on the wire: a hash over everything, the last frames as text, pcap on request.

use core::fmt;
use std::collections::VecDeque;

use base::Instant;
use wire::pretty::PrettyFrame;

use crate::link::LinkDrop;

/// Frames kept for failure messages.
pub const LAST_FRAMES: usize = 256;
/// Bytes of pcap kept at most; a longer run is cut off there.
pub const PCAP_MAX_BYTES: usize = 256 << 20;

/// A hash over a stream of words, good enough to tell two runs apart; not for tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceHash(u64);

impl Default for TraceHash {
    fn default() -> Self {
        Self(0x6D69_6C6C_7261_6365)
    }
}

impl TraceHash {
    /// The sum so far.
    pub const fn value(self) -> u64 {
        self.0
    }

    /// Add a word.
    pub fn word(&mut self, word: u64) {
        let x = (self.0 ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = x ^ (x >> 29);
    }

    /// Add bytes and their number.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for chunk in &mut words {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
        let mut last = [0; 8];
        last[..words.remainder().len()].copy_from_slice(words.remainder());
        self.word(u64::from_le_bytes(last));
        self.word(bytes.len() as u64);
    }
}

/// What became of a frame that a host or switch sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Arrives { at: Instant, again: Option<Instant>, flipped: bool },
    Dropped(LinkDrop),
}

struct Line {
    at: Instant,
    /// Index of the link and whether it went from its second to its first end.
    link: usize,
    reverse: bool,
    fate: Fate,
    bytes: Vec<u8>,
}

/// The recorder of a world.
#[derive(Default)]
pub(crate) struct Recorder {
    hash: TraceHash,
    frames: u64,
    last: VecDeque<Line>,
    /// Lines are not forgotten.
    keeps_all: bool,
    pcap: Option<Pcap>,
}

impl Recorder {
    pub(crate) fn frame(
        &mut self,
        now: Instant,
        link: usize,
        reverse: bool,
        bytes: &[u8],
        fate: Fate,
    ) {
        self.frames += 1;
        self.hash.word(now.as_nanos());
        self.hash.word((link as u64) << 1 | u64::from(reverse));
        self.hash.bytes(bytes);
        match fate {
            Fate::Arrives { at, again, flipped } => {
                self.hash.word(at.as_nanos());
                self.hash.word(again.map_or(0, Instant::as_nanos));
                self.hash.word(u64::from(flipped));
            }
            Fate::Dropped(reason) => self.hash.word(1 + reason as u64),
        }
        // The oldest line's buffer is used again.
        let mut kept = Vec::new();
        if self.last.len() == LAST_FRAMES
            && !self.keeps_all
            && let Some(line) = self.last.pop_front()
        {
            kept = line.bytes;
            kept.clear();
        }
        kept.extend_from_slice(bytes);
        self.last.push_back(Line { at: now, link, reverse, fate, bytes: kept });
    }

    /// A frame is sent for the first time: the capture takes it, and not again at later links.
    pub(crate) fn keep(&mut self, now: Instant, bytes: &[u8]) {
        if let Some(pcap) = &mut self.pcap {
            pcap.push(now, bytes);
        }
    }

    /// Frames offered to links so far, and the hash over them with their fates.
    pub(crate) fn summary(&self) -> (u64, TraceHash) {
        (self.frames, self.hash)
    }

    pub(crate) const fn keep_all_lines(&mut self) {
        self.keeps_all = true;
    }

    pub(crate) fn capture(&mut self) {
        self.pcap.get_or_insert_default();
    }

    pub(crate) fn pcap(&self) -> Option<&[u8]> {
        self.pcap.as_ref().map(|p| p.bytes.as_slice())
    }

    /// The last frames, oldest first, one line each; `names` gives a link's two ends.
    pub(crate) fn lines(&self, names: &dyn Fn(usize) -> (String, String)) -> Vec<String> {
        let line = |l: &Line| {
            let (mut from, mut to) = names(l.link);
            if l.reverse {
                core::mem::swap(&mut from, &mut to);
            }
            format!("{} {from} > {to}: {}{}", Seconds(l.at), PrettyFrame(&l.bytes), After(l))
        };
        self.last.iter().map(line).collect()
    }
}

/// What a line says behind the frame.
struct After<'a>(&'a Line);

impl fmt::Display for After<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.fate {
            Fate::Dropped(reason) => write!(f, "  [{}]", reason.name()),
            Fate::Arrives { at, again, flipped } => {
                write!(f, "  [+{:?}", at.since(self.0.at))?;
                if let Some(again) = again {
                    write!(f, ", again +{:?}", again.since(self.0.at))?;
                }
                f.write_str(if flipped { ", corrupted]" } else { "]" })
            }
        }
    }
}

/// A time in seconds with all its digits.
pub(crate) struct Seconds(pub(crate) Instant);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        write!(f, "{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
    }
}

/// A capture file in memory, with nanoseconds.
/// A file in pcap format with these frames; as much of them as [`PCAP_MAX_BYTES`] allows.
pub fn pcap_file<'a>(frames: impl IntoIterator<Item = (Instant, &'a [u8])>) -> Vec<u8> {
    let mut pcap = Pcap::default();
    for (at, bytes) in frames {
        pcap.push(at, bytes);
    }
    pcap.bytes
}

struct Pcap {
    bytes: Vec<u8>,
}

impl Default for Pcap {
    fn default() -> Self {
        const LINKTYPE_ETHERNET: u32 = 1;
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&0xA1B2_3C4D_u32.to_le_bytes());
        bytes.extend_from_slice(&2u16.to_le_bytes());
        bytes.extend_from_slice(&4u16.to_le_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&65_535u32.to_le_bytes());
        bytes.extend_from_slice(&LINKTYPE_ETHERNET.to_le_bytes());
        Self { bytes }
    }
}

impl Pcap {
    fn push(&mut self, now: Instant, frame: &[u8]) {
        if self.bytes.len() + frame.len() > PCAP_MAX_BYTES {
            return;
        }
        let nanos = now.as_nanos();
        let len = frame.len() as u32;
        for word in [(nanos / 1_000_000_000) as u32, (nanos % 1_000_000_000) as u32, len, len] {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
        self.bytes.extend_from_slice(frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_sees_order_length_and_each_byte() {
        let of = |parts: &[&[u8]]| {
            let mut hash = TraceHash::default();
            parts.iter().for_each(|p| hash.bytes(p));
            hash.value()
        };
        let all = [
            of(&[b"abc"]),
            of(&[b"abd"]),
            of(&[b"ab", b"c"]),
            of(&[b"abc", b""]),
            of(&[b"abc\0"]),
            of(&[b"12345678", b"87654321"]),
            of(&[b"87654321", b"12345678"]),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b));
        }
    }

    #[test]
    fn the_ring_keeps_the_last_frames_and_the_capture_all() {
        let mut r = Recorder::default();
        r.capture();
        for i in 0..LAST_FRAMES as u64 + 10 {
            let fate = Fate::Dropped(LinkDrop::Loss);
            r.keep(Instant::from_nanos(i), &[0; 60]);
            r.frame(Instant::from_nanos(i), 0, i % 2 == 1, &[0; 60], fate);
        }
        let lines = r.lines(&|_| ("a".into(), "b".into()));
        assert_eq!(lines.len(), LAST_FRAMES);
        assert!(lines[0].starts_with("0.000000010 a > b: "), "{}", lines[0]);
        assert!(lines[1].starts_with("0.000000011 b > a: ") && lines[1].ends_with("  [lost]"));
        assert_eq!(r.pcap().unwrap().len(), 24 + (LAST_FRAMES + 10) * (16 + 60));
    }
}
