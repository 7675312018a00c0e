//! From what a device says of itself and what is wanted of it to a configuration, or to a refusal
//! that names the limit. Nothing here touches the device, so that tests can try any device.
//!
//! What is asked of a device is wanted *and* capable, and the difference is reported. Where less
//! than wanted would not work at all, it is refused before the device is touched. A device that can
//! do more never gets a refusal for what a lesser one was started with.

use base::Offloads;
use dpdk_sys as sys;

use super::{HEADER_ROOM, PortConfig, RxChecksum};
use crate::error::Error;
use crate::mempool::HEADROOM;
use crate::vdev::{Driver, MTU_MAX, MTU_MIN};

/// Segments per frame where the driver states no limit, and at most.
const SEGMENTS_MAX: u8 = 32;
/// Buffers per queue with which anything can be moved at all.
const BUFFERS_MIN: u32 = 64;
/// Link header and checksum: what ethdev adds to an MTU for the length of a frame.
const LINK_OVERHEAD: u32 = 14 + 4;
/// MTU that ethdev is told where the driver states a smaller limit than it has: `af_packet` and
/// `memif` carry what their slots and our buffers hold.
const ETHDEV_MTU: u16 = 1500;
/// What a mbuf can describe, without its headroom.
pub(super) const ROOM_MAX: u32 = u16::MAX as u32 - HEADROOM as u32;

/// How many descriptors a queue can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// At least.
    pub min: u16,
    /// At most.
    pub max: u16,
    /// In multiples of this; zero and one: any number.
    pub align: u16,
}

/// What a device says of itself, and what is known of it besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// One of the software devices that we know. What they state is often less than what they do,
    /// and they have their own ways to spread frames over queues.
    pub known: Option<&'static Driver>,
    /// Receive offloads of the whole port, as DPDK's bits.
    pub rx_offloads: u64,
    /// Receive offloads of single queues.
    pub rx_queue_offloads: u64,
    /// Transmit offloads of the whole port.
    pub tx_offloads: u64,
    /// Transmit offloads of single queues.
    pub tx_queue_offloads: u64,
    /// Receive queues at most.
    pub rx_queues_max: u16,
    /// Transmit queues at most.
    pub tx_queues_max: u16,
    /// Descriptors of a receive queue.
    pub rx_descriptors: Descriptors,
    /// Descriptors of a transmit queue.
    pub tx_descriptors: Descriptors,
    /// Segments of a frame that the device cuts up; zero: not stated.
    pub tso_segments_max: u16,
    /// Segments of any other frame; zero: not stated.
    pub tx_segments_max: u16,
    /// Smallest MTU.
    pub mtu_min: u16,
    /// Largest MTU as stated.
    pub mtu_max: u16,
    /// Longest received frame in bytes, link header and checksum included.
    pub rx_frame_max: u32,
    /// Bytes that a receive buffer must have behind its headroom.
    pub rx_room_min: u32,
    /// Hash functions for spreading over queues, as DPDK's bits.
    pub rss: u64,
    /// Entries of the table that spreads over queues; zero: not stated.
    pub rss_table: u16,
    /// Frames that the driver's own transmit ring holds, where that is not the descriptors.
    pub tx_ring: Option<u16>,
}

/// Offload bits as ethdev wants them: of the port, and those that only a queue can be asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    /// For the whole port.
    pub port: u64,
    /// For each queue besides.
    pub queue: u64,
}

/// A full configuration: all that a port is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortPlan {
    /// Queue pairs.
    pub queues: u16,
    /// Largest IP packet that we send and take, in bytes.
    pub mtu: u16,
    /// MTU that ethdev is told.
    pub ethdev_mtu: u16,
    /// What is in force.
    pub offloads: Offloads,
    /// The same for receipt, as DPDK's bits.
    pub rx_bits: Bits,
    /// The same for transmission.
    pub tx_bits: Bits,
    /// Hash functions that spread over queues, as DPDK's bits; zero: no spreading is asked for.
    pub rss: u64,
    /// Descriptors per receive queue.
    pub rx_descriptors: u16,
    /// Descriptors per transmit queue.
    pub tx_descriptors: u16,
    /// Frames that the device may hold at once for one queue.
    pub tx_ring: u16,
    /// Segments that one transmitted frame may have.
    pub segments_max: u8,
    /// Bytes behind the headroom of a buffer for received frames and payload.
    pub room: u16,
    /// Bytes behind the headroom of a buffer for headers.
    pub header_room: u16,
    /// Frames are to be shown to the driver before they are sent: it has work with them.
    pub prepare: bool,
    /// What was wanted and cannot be had, in words.
    pub missing: Vec<&'static str>,
}

/// Why a port cannot be started as wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// More queue pairs than the device has, or none.
    Queues {
        /// How many were asked for.
        asked: u16,
        /// How many it has.
        max: u16,
    },
    /// Several queues, and no way to spread frames over them.
    NoSpreading {
        /// How many queues were asked for.
        queues: u16,
    },
    /// More queues than its table has entries.
    SpreadingTable {
        /// How many queues were asked for.
        queues: u16,
        /// Entries of the table.
        entries: u16,
    },
    /// An MTU outside of what the device takes.
    Mtu {
        /// What was asked for.
        asked: u16,
        /// Smallest.
        min: u16,
        /// Largest.
        max: u16,
    },
    /// Too few buffers to move anything.
    Buffers {
        /// How many were asked for per queue.
        asked: u32,
    },
    /// The receive ring alone would take more than half of the buffers.
    RxDescriptors {
        /// What the device takes.
        limits: Descriptors,
        /// Buffers per queue.
        buffers: u32,
    },
    /// No number of transmit descriptors suits the device.
    TxDescriptors {
        /// What the device takes.
        limits: Descriptors,
    },
    /// The device wants larger buffers than there can be.
    Room {
        /// Bytes that it wants.
        needed: u32,
    },
}

impl Refusal {
    /// The refusal in words, with what helps; `what` is the object and the operation.
    pub fn into_error(self, what: impl Into<String>) -> Error {
        match self {
            Self::Queues { asked, max: 0 } => {
                Error::unsupported(what, format!("{asked} queues were asked for, and it has none"))
                    .help("use another device")
            }
            Self::Queues { asked, max } => Error::unsupported(
                what,
                format!("{asked} queues were asked for; it has 1 to {max}"),
            )
            .help(format!("run at most {max} workers on it")),
            Self::NoSpreading { queues } => Error::unsupported(
                what,
                format!("it cannot spread frames over {queues} queues (RSS)"),
            )
            .help("run one worker on it"),
            Self::SpreadingTable { queues, entries } => Error::unsupported(
                what,
                format!("its table for {queues} queues (RSS) has {entries} entries"),
            )
            .help(format!("run at most {entries} workers on it")),
            Self::Mtu { asked, min, max } if min > max => Error::unsupported(
                what,
                format!("no MTU suits it, neither {asked} nor another ({min} to {max})"),
            )
            .help("use another device"),
            Self::Mtu { asked, min, max } => {
                Error::unsupported(what, format!("its MTU can be {min} to {max}, not {asked}"))
                    .help(format!("ask for an MTU of {}", asked.clamp(min, max)))
            }
            Self::Buffers { asked } => Error::configuration(
                what,
                format!("fewer than {BUFFERS_MIN} buffers per queue ({asked})"),
            )
            .help(format!("give each queue at least {BUFFERS_MIN} buffers")),
            Self::RxDescriptors { limits: Descriptors { min, max, align }, buffers } => {
                let least = u32::from(min.max(1)).next_multiple_of(u32::from(align.max(1)));
                let error = Error::unsupported(
                    what,
                    format!(
                        "its receive ring takes {min} to {max} descriptors in steps of {}, and \
                         half of the {buffers} buffers per queue at most",
                        align.max(1)
                    ),
                );
                if least > u32::from(max) {
                    error.help("use another device")
                } else {
                    error.help(format!("give each queue at least {} buffers", 2 * least))
                }
            }
            Self::TxDescriptors { limits: Descriptors { min, max, align } } => Error::unsupported(
                what,
                format!(
                    "its transmit ring takes {min} to {max} descriptors in steps of {}: none",
                    align.max(1)
                ),
            )
            .help("use another device"),
            Self::Room { needed } => Error::unsupported(
                what,
                format!("it wants buffers of {needed} bytes, more than a mbuf can have"),
            )
            .help(format!("ask for a smaller MTU; a buffer has at most {ROOM_MAX} bytes")),
        }
    }
}

/// How `facts` is to be configured for what is `wanted`.
///
/// # Errors
/// The limit of the device, or of what is wanted, that stands in the way.
pub fn plan(facts: &DeviceFacts, wanted: &PortConfig) -> Result<PortPlan, Refusal> {
    let queues = wanted.queues;
    let queues_max = facts.rx_queues_max.min(facts.tx_queues_max);
    if queues == 0 || queues > queues_max {
        return Err(Refusal::Queues { asked: queues, max: queues_max });
    }
    let (rss, unspread) = spreading(facts, queues)?;
    let ethdev_mtu = mtu(facts, wanted.mtu)?;
    let fewest = wanted.buffers.min(wanted.header_buffers);
    if fewest < BUFFERS_MIN {
        return Err(Refusal::Buffers { asked: fewest });
    }
    // Buffers that wait in the ring are not there for what is stored.
    let most = u16::try_from(wanted.buffers / 2).unwrap_or(u16::MAX);
    let limits = facts.rx_descriptors;
    let rx_descriptors = descriptors(limits, wanted.rx_descriptors, most)
        .ok_or(Refusal::RxDescriptors { limits, buffers: wanted.buffers })?;
    let limits = facts.tx_descriptors;
    let tx_descriptors = descriptors(limits, wanted.tx_descriptors, u16::MAX)
        .ok_or(Refusal::TxDescriptors { limits })?;
    let room = room(facts, wanted)?;

    let capable = facts.capable();
    let offloads = granted(wanted, capable);
    let mut missing = missing(wanted.wanted, offloads, wanted.rx_checksum);
    missing.extend(unspread);
    let segments_max = if offloads.multi_segment { facts.segments_max(offloads.tso) } else { 1 };
    Ok(PortPlan {
        queues,
        mtu: wanted.mtu,
        ethdev_mtu,
        offloads,
        rx_bits: split(rx_bits(offloads), facts.rx_offloads),
        tx_bits: split(tx_bits(offloads), facts.tx_offloads),
        rss,
        rx_descriptors,
        tx_descriptors,
        tx_ring: facts.tx_ring.unwrap_or(tx_descriptors),
        segments_max,
        room,
        header_room: HEADER_ROOM,
        prepare: offloads.tx_ip_checksum
            || offloads.tx_tcp_checksum
            || offloads.tx_udp_checksum
            || offloads.tso,
        missing,
    })
}

impl DeviceFacts {
    /// What it can do in hardware, or at no cost.
    pub fn capable(&self) -> Offloads {
        let o = offloads(
            self.rx_offloads | self.rx_queue_offloads,
            self.tx_offloads | self.tx_queue_offloads,
        );
        let multi_segment = o.multi_segment && self.segments_max(false) >= 2;
        // This driver sums and segments in software, a pass over the data that the stack's copy
        // with checksum does not need.
        if self.known.is_some_and(|d| d.name == "net_tap") {
            return Offloads { multi_segment, ..Offloads::default() };
        }
        Offloads { multi_segment, tso: o.tso && self.segments_max(true) >= 2, ..o }
    }

    /// Segments that a frame may have.
    fn segments_max(&self, tso: bool) -> u8 {
        let stated = [self.tx_segments_max, if tso { self.tso_segments_max } else { 0 }];
        let least = stated.into_iter().filter(|&n| n > 0).min().unwrap_or(u16::MAX);
        u8::try_from(least).unwrap_or(u8::MAX).min(SEGMENTS_MAX)
    }

    /// Bytes that a frame has beyond its MTU, as ethdev computes them.
    fn overhead(&self) -> u32 {
        let stated = self.rx_frame_max.checked_sub(self.mtu_max.into());
        match stated {
            Some(bytes) if bytes > 0 && self.mtu_max != u16::MAX => bytes,
            _ => LINK_OVERHEAD,
        }
    }

    /// The largest MTU that ethdev lets pass.
    fn ethdev_mtu_max(&self) -> u16 {
        let by_frame = self.rx_frame_max.saturating_sub(self.overhead());
        self.mtu_max.min(u16::try_from(by_frame).unwrap_or(u16::MAX))
    }

    /// The largest MTU. What our own drivers carry is known from trying; what they state is often
    /// less.
    pub fn largest_mtu(&self) -> u16 {
        self.known.map_or(self.ethdev_mtu_max(), |known| known.mtu_max).min(MTU_MAX)
    }
}

/// The MTU to tell ethdev.
fn mtu(facts: &DeviceFacts, asked: u16) -> Result<u16, Refusal> {
    let (min, max) = (facts.mtu_min.max(MTU_MIN), facts.largest_mtu());
    let ethdev_max = facts.ethdev_mtu_max();
    // A known driver is told less than it carries, but nothing that ethdev refuses.
    let told = if asked > ethdev_max { ETHDEV_MTU.min(ethdev_max).min(asked) } else { asked };
    if asked < min || asked > max || told < facts.mtu_min {
        return Err(Refusal::Mtu { asked, min, max });
    }
    Ok(told)
}

/// A number of descriptors that the device takes, near `asked` and at most `most`.
fn descriptors(limits: Descriptors, asked: u16, most: u16) -> Option<u16> {
    let align = u32::from(limits.align.max(1));
    let floor = u32::from(limits.min.max(1)).next_multiple_of(align);
    let ceiling = u32::from(limits.max.min(most)) / align * align;
    if floor > ceiling {
        return None;
    }
    let count = u32::from(asked).next_multiple_of(align).clamp(floor, ceiling);
    u16::try_from(count).ok()
}

/// Bytes behind the headroom of a payload buffer: a whole frame, and what the device insists on.
fn room(facts: &DeviceFacts, wanted: &PortConfig) -> Result<u16, Refusal> {
    let limit = facts.known.map_or(u32::MAX, |known| known.room_max);
    let needed = u32::from(wanted.payload_room()).min(limit).max(facts.rx_room_min);
    match u16::try_from(needed) {
        Ok(room) if needed <= ROOM_MAX => Ok(room),
        _ => Err(Refusal::Room { needed }),
    }
}

/// The hash functions to ask for, and what of spreading is missing.
fn spreading(facts: &DeviceFacts, queues: u16) -> Result<(u64, Vec<&'static str>), Refusal> {
    if queues == 1 {
        return Ok((0, Vec::new()));
    }
    let rss = facts.rss & (sys::MR_RSS_IP | sys::MR_RSS_TCP | sys::MR_RSS_UDP);
    let (v4, v6) = (rss & sys::MR_RSS_TCP4 != 0, rss & sys::MR_RSS_TCP6 != 0);
    let small = facts.rss_table != 0 && facts.rss_table < queues;
    if (!v4 && !v6) || small {
        // The software devices get their frames from somebody who chooses the queue.
        return match facts.known {
            Some(_) => Ok((0, vec!["rss"])),
            None if small => Err(Refusal::SpreadingTable { queues, entries: facts.rss_table }),
            None => Err(Refusal::NoSpreading { queues }),
        };
    }
    let missing = [(v4, "rss-ipv4"), (v6, "rss-ipv6")];
    Ok((rss, missing.into_iter().filter_map(|(can, name)| (!can).then_some(name)).collect()))
}

/// Bits that the whole port can be asked for, and the rest.
fn split(bits: u64, port: u64) -> Bits {
    Bits { port: bits & port, queue: bits & !port }
}

fn offloads(rx: u64, tx: u64) -> Offloads {
    Offloads {
        rx_ip_checksum: rx & sys::MR_RX_OFFLOAD_IPV4_CKSUM != 0,
        rx_tcp_checksum: rx & sys::MR_RX_OFFLOAD_TCP_CKSUM != 0,
        rx_udp_checksum: rx & sys::MR_RX_OFFLOAD_UDP_CKSUM != 0,
        tx_ip_checksum: tx & sys::MR_TX_OFFLOAD_IPV4_CKSUM != 0,
        tx_tcp_checksum: tx & sys::MR_TX_OFFLOAD_TCP_CKSUM != 0,
        tx_udp_checksum: tx & sys::MR_TX_OFFLOAD_UDP_CKSUM != 0,
        tso: tx & sys::MR_TX_OFFLOAD_TCP_TSO != 0,
        multi_segment: tx & sys::MR_TX_OFFLOAD_MULTI_SEGS != 0,
    }
}

fn rx_bits(o: Offloads) -> u64 {
    let bit = |on: bool, bit: u64| if on { bit } else { 0 };
    bit(o.rx_ip_checksum, sys::MR_RX_OFFLOAD_IPV4_CKSUM)
        | bit(o.rx_tcp_checksum, sys::MR_RX_OFFLOAD_TCP_CKSUM)
        | bit(o.rx_udp_checksum, sys::MR_RX_OFFLOAD_UDP_CKSUM)
}

fn tx_bits(o: Offloads) -> u64 {
    let bit = |on: bool, bit: u64| if on { bit } else { 0 };
    bit(o.tx_ip_checksum, sys::MR_TX_OFFLOAD_IPV4_CKSUM)
        | bit(o.tx_tcp_checksum, sys::MR_TX_OFFLOAD_TCP_CKSUM)
        | bit(o.tx_udp_checksum, sys::MR_TX_OFFLOAD_UDP_CKSUM)
        | bit(o.tso, sys::MR_TX_OFFLOAD_TCP_TSO)
        | bit(o.multi_segment, sys::MR_TX_OFFLOAD_MULTI_SEGS)
}

/// Wanted and capable. Verdicts that would be ignored are not asked for.
fn granted(config: &PortConfig, capable: Offloads) -> Offloads {
    let (w, c) = (config.wanted, capable);
    let trust = config.rx_checksum == RxChecksum::Trust;
    // One pair of bits in a mbuf tells of TCP and UDP: only a device that verifies both is believed.
    let rx_tcp_and_udp =
        (w.rx_tcp_checksum && c.rx_tcp_checksum) && (w.rx_udp_checksum && c.rx_udp_checksum);
    let multi_segment = w.multi_segment && c.multi_segment;
    let tx_ip_checksum = w.tx_ip_checksum && c.tx_ip_checksum;
    let tx_tcp_checksum = w.tx_tcp_checksum && c.tx_tcp_checksum;
    Offloads {
        rx_ip_checksum: trust && w.rx_ip_checksum && c.rx_ip_checksum,
        rx_tcp_checksum: trust && rx_tcp_and_udp,
        rx_udp_checksum: trust && rx_tcp_and_udp,
        tx_ip_checksum,
        tx_tcp_checksum,
        tx_udp_checksum: w.tx_udp_checksum && c.tx_udp_checksum,
        // Segmentation works on chains and fills in checksums; DPDK refuses an IPv4 frame that is
        // to be cut up without its header summed.
        tso: w.tso && c.tso && multi_segment && tx_tcp_checksum && tx_ip_checksum,
        multi_segment,
    }
}

/// What was wanted and is not in force.
fn missing(wanted: Offloads, granted: Offloads, policy: RxChecksum) -> Vec<&'static str> {
    let trust = policy == RxChecksum::Trust;
    [
        (trust && wanted.rx_ip_checksum, granted.rx_ip_checksum, "rx-ip-checksum"),
        (trust && wanted.rx_tcp_checksum, granted.rx_tcp_checksum, "rx-tcp-checksum"),
        (trust && wanted.rx_udp_checksum, granted.rx_udp_checksum, "rx-udp-checksum"),
        (wanted.tx_ip_checksum, granted.tx_ip_checksum, "tx-ip-checksum"),
        (wanted.tx_tcp_checksum, granted.tx_tcp_checksum, "tx-tcp-checksum"),
        (wanted.tx_udp_checksum, granted.tx_udp_checksum, "tx-udp-checksum"),
        (wanted.tso, granted.tso, "tso"),
        (wanted.multi_segment, granted.multi_segment, "multi-segment"),
    ]
    .into_iter()
    .filter_map(|(wanted, granted, name)| (wanted && !granted).then_some(name))
    .collect()
}

#[cfg(test)]
mod tests;
