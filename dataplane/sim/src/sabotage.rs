//! Deliberate faults of a host, to see whether the oracles notice.
//!
//! They stand where a host meets its world: on frames as they leave, on the deadline that a turn asks for, on buffers
//! as they come in. To its peer and to the oracles a host with one of them behaves like one whose engine has the
//! fault, and the engine itself needs no switch for it.

use core::fmt;
use core::str::FromStr;
use core::sync::atomic::{AtomicU64, Ordering};

use base::Instant;
use stack::Turn;
use wire::{checksum, protocol};

use crate::nic::Transport;

const SEQ: usize = 4;
const ACK: usize = 8;
const OFFSET: usize = 12;
const FLAGS: usize = 13;
const WINDOW: usize = 14;
const CHECKSUM: usize = 16;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sabotage {
    /// A byte of payload is not what the application gave.
    WrongByte,
    /// Data are sent under sequence numbers that are off by one.
    WrongNumber,
    /// Something is acknowledged that has not arrived.
    EarlyAck,
    /// A window that was offered is taken back.
    ShrunkWindow,
    /// Data are sent far beyond the window.
    BeyondWindow,
    /// What is due later is forgotten.
    ForgottenTimer,
    /// Received buffers are not given back.
    KeptBuffer,
    /// The end of a stream is never sent.
    SwallowedFin,
    /// A connection is reset for no reason.
    StrayReset,
    /// What happens depends on more than the seed.
    OtherDice,
}

impl Sabotage {
    /// All of them, by their names on the command line.
    pub const ALL: [(&'static str, Self); 10] = [
        ("wrong-byte", Self::WrongByte),
        ("wrong-number", Self::WrongNumber),
        ("early-ack", Self::EarlyAck),
        ("shrunk-window", Self::ShrunkWindow),
        ("beyond-window", Self::BeyondWindow),
        ("forgotten-timer", Self::ForgottenTimer),
        ("kept-buffer", Self::KeptBuffer),
        ("swallowed-fin", Self::SwallowedFin),
        ("stray-reset", Self::StrayReset),
        ("other-dice", Self::OtherDice),
    ];
}

impl fmt::Display for Sabotage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Self::ALL.iter().find(|(_, fault)| fault == self);
        f.write_str(known.map_or("?", |(name, _)| name))
    }
}

impl FromStr for Sabotage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|(name, _)| *name == text);
        known.map(|(_, fault)| *fault).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
            format!("there are: {}", names.join(", "))
        })
    }
}

/// A fault at work.
#[derive(Debug)]
pub(crate) struct Saboteur {
    fault: Sabotage,
    /// Segments with payload so far.
    data: u64,
    /// Others.
    pure: u64,
    frames: u64,
}

impl Saboteur {
    pub(crate) const fn new(fault: Sabotage) -> Self {
        Self { fault, data: 0, pure: 0, frames: 0 }
    }

    /// Whether the buffer of a received frame is kept for ever.
    pub(crate) fn keeps_buffer(&mut self) -> bool {
        self.frames += 1;
        self.fault == Sabotage::KeptBuffer && self.frames.is_multiple_of(16)
    }

    /// What is made of the answer of a turn.
    pub(crate) fn turn(&self, now: Instant, turn: &mut Turn) {
        // Early timers are those of neighbours and handshakes; those are not meant.
        if self.fault == Sabotage::ForgottenTimer && now > Instant::from_millis(50) {
            turn.next_deadline = None;
        }
    }

    /// What is made of a frame that leaves.
    pub(crate) fn frame(&mut self, frame: &mut [u8]) {
        let Some(transport) = Transport::of(frame).filter(|t| t.protocol == protocol::TCP) else {
            return;
        };
        let Some(segment) = frame.get_mut(transport.offset..transport.offset + transport.len)
        else {
            return;
        };
        let Some(&[offset, flags]) = segment.get(OFFSET..OFFSET + 2).and_then(|s| s.first_chunk())
        else {
            return;
        };
        let header = usize::from(offset >> 4) * 4;
        if flags & (SYN | RST) != 0 || segment.len() < header {
            return;
        }
        let has_data = segment.len() > header;
        self.data += u64::from(has_data);
        self.pure += u64::from(!has_data);
        let every = |n: u64, of: u64| of.is_multiple_of(n);
        match self.fault {
            Sabotage::WrongByte if has_data && every(10, self.data) => segment[header] ^= 0x20,
            Sabotage::WrongNumber if has_data && every(10, self.data) => add(segment, SEQ, 1),
            Sabotage::BeyondWindow if has_data && every(10, self.data) => {
                add(segment, SEQ, 1 << 30)
            }
            Sabotage::EarlyAck if !has_data && every(4, self.pure) => add(segment, ACK, 1000),
            Sabotage::ShrunkWindow if every(8, self.pure + self.data) => {
                let window = u16::from_be_bytes([segment[WINDOW], segment[WINDOW + 1]]) / 4;
                segment[WINDOW..WINDOW + 2].copy_from_slice(&window.to_be_bytes());
            }
            Sabotage::SwallowedFin if flags & FIN != 0 => segment[FLAGS] &= !FIN,
            Sabotage::StrayReset if every(20, self.data + self.pure) => segment[FLAGS] |= RST,
            Sabotage::OtherDice if has_data => {
                // How often this has happened in the process: another number in each run.
                static HAPPENED: AtomicU64 = AtomicU64::new(0);
                let happened = HAPPENED.fetch_add(1, Ordering::Relaxed);
                if every(7, happened) {
                    segment[FLAGS] ^= PSH;
                }
            }
            _ => return,
        }
        segment[CHECKSUM..CHECKSUM + 2].fill(0);
        let pseudo = checksum::pseudo(transport.src, transport.dst, protocol::TCP, transport.len);
        let sum = checksum::finish(pseudo.unwrap_or(0), segment, 0);
        segment[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

fn add(segment: &mut [u8], at: usize, n: u32) {
    if let Some(field) = segment.get_mut(at..at + 4)
        && let Some(bytes) = field.first_chunk::<4>()
    {
        let value = u32::from_be_bytes(*bytes).wrapping_add(n);
        field.copy_from_slice(&value.to_be_bytes());
    }
}
