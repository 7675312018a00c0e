//! Two complete stacks joined in memory, polled by one thread, in real time: what is left when the
//! device costs nothing.
//!
//! A [`Pair`] is a client and a server of the same make. In a bulk run the client's application writes
//! from its own buffer and the server's copies into its own; in a request/response run both do, 64
//! bytes at a time. Ours and smoltcp's get the same device, the same buffer sizes, the same writes and
//! one reading of the clock per turn of each side.

pub mod ours;
pub mod smol;

use std::time::{Duration, Instant};

use base::mem::{MemConfig, MemDevice};
use base::{Device, Offloads};

/// Bytes that an application writes or reads at a time in a bulk run.
pub const WRITE_BYTES: usize = 65_536;
/// Bytes of a request and of a response.
pub const REQUEST_BYTES: usize = 64;
/// Rounds without a byte moved after which a pair counts as stuck: several seconds, longer than any
/// timer of an orderly transfer.
const STUCK_ROUNDS: u64 = 100_000_000;
/// Reading the clock in each round would be part of what is measured.
const ROUNDS_PER_LOOK: u32 = 64;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Largest IP packet in bytes.
    pub mtu: u16,
    /// Checksums are computed and verified in software; else the device claims to do it.
    pub checksums: bool,
    /// Send and receive buffer of a connection in bytes.
    pub buffer: u32,
    /// 64-byte requests and responses instead of bulk.
    pub rr: bool,
}

impl Setup {
    /// Payload bytes of a full segment: IPv4, no options, as neither side uses timestamps here.
    pub const fn mss(&self) -> u32 {
        self.mtu as u32 - 40
    }

    /// Bytes that the server's application must have taken for `units` segments or round trips.
    pub const fn bytes_for(&self, units: u64) -> u64 {
        units * if self.rr { REQUEST_BYTES as u64 } else { self.mss() as u64 }
    }

    /// The hardware address of side 0 or 1.
    pub const fn mac(side: u8) -> [u8; 6] {
        [2, 0, 0, 0, 0, side + 1]
    }

    /// The devices of both ends on the heap.
    pub fn memory(&self) -> (MemDevice, MemDevice) {
        let room = usize::from(self.mtu).next_multiple_of(64) + 64;
        let claimed = !self.checksums;
        let config = |side| MemConfig {
            mac: Self::mac(side),
            mtu: self.mtu,
            offloads: Offloads {
                multi_segment: true,
                tx_ip_checksum: claimed,
                tx_tcp_checksum: claimed,
                ..Offloads::default()
            },
            // Twice what both buffers can hold, in the worst packing.
            buffers: (8 * self.buffer as usize / room).max(256),
            payload_room: room.max(2048 - 128),
            tx_ring: 512,
        };
        MemDevice::pair(&config(0), &config(1))
    }
}

/// A client and a server on two stacks.
pub trait Pair {
    /// One turn of each side.
    fn round(&mut self);

    /// Payload bytes that the server's application has taken so far.
    fn moved(&self) -> u64;

    /// What went wrong, if anything did.
    fn complaint(&self) -> Option<String>;
}

/// A pair of ours or of smoltcp's over these devices.
pub fn pair<D: Device + 'static>(smoltcp: bool, setup: &Setup, a: D, b: D) -> Box<dyn Pair> {
    if smoltcp {
        Box::new(smol::Smoltcp::new(setup, a, b))
    } else {
        Box::new(ours::Ours::new(setup, a, b))
    }
}

/// How long to run: whichever comes first.
#[derive(Clone, Copy, Debug)]
pub struct Until {
    /// Time.
    pub elapsed: Duration,
    /// Bytes taken by the server's application.
    pub bytes: u64,
}

/// What came out.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Bytes taken by the server's application.
    pub bytes: u64,
    /// In this time.
    pub took: Duration,
}

impl Outcome {
    /// Gigabits of payload per second.
    pub fn gbit(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.took.as_secs_f64().max(1e-9) / 1e9
    }

    /// Nanoseconds per round trip.
    pub fn round_trip_ns(&self) -> f64 {
        self.took.as_nanos() as f64 * REQUEST_BYTES as f64 / (self.bytes as f64).max(1.0)
    }
}

/// Run `pair` until then.
pub fn run(pair: &mut dyn Pair, until: Until) -> Result<Outcome, String> {
    let begun = Instant::now();
    let first = pair.moved();
    let (mut last, mut idle) = (first, 0u64);
    loop {
        for _ in 0..ROUNDS_PER_LOOK {
            pair.round();
            if pair.moved() - first >= until.bytes {
                break;
            }
        }
        if let Some(complaint) = pair.complaint() {
            return Err(complaint);
        }
        let moved = pair.moved();
        let took = begun.elapsed();
        if took >= until.elapsed || moved - first >= until.bytes {
            return Ok(Outcome { bytes: moved - first, took });
        }
        idle = if moved == last { idle + u64::from(ROUNDS_PER_LOOK) } else { 0 };
        last = moved;
        if idle > STUCK_ROUNDS {
            return Err(format!("nothing moved for {idle} rounds after {moved} bytes"));
        }
    }
}

#[cfg(test)]
mod tests;
