//! Ports: what they can do, how they are configured, started, watched and closed.

use std::ffi::{CStr, c_int};
use std::sync::{Arc, Mutex, PoisonError};

use base::{Capabilities, Offloads};
use dpdk_sys as sys;

use crate::eal::{Eal, port_id};
use crate::error::{Error, errno_text};
use crate::log;
use crate::mempool::Mempool;
use crate::queue::{Parts, PortQueue};
use crate::ring::Rings;
use crate::vdev::{Driver, MTU_MAX, MTU_MIN};

/// Data room of a header buffer: the largest headers, and small flat frames.
const HEADER_ROOM: u16 = 384;
/// Segments per frame where the driver states no limit.
const SEGMENTS_DEFAULT: u8 = 32;
/// Link header and checksum: what ethdev adds to an MTU for the length of a frame.
const LINK_OVERHEAD: u32 = 14 + 4;
/// Link header, two VLAN tags and checksum: what a frame has beyond the MTU.
const FRAME_OVERHEAD: u32 = 14 + 2 * 4 + 4;
/// MTU that ethdev is told where the driver states a smaller limit than it has: `af_packet` and
/// `memif` carry what their slots and our buffers hold.
const ETHDEV_MTU: u16 = 1500;

/// Ports that somebody holds.
static OPEN: Mutex<Vec<u16>> = Mutex::new(Vec::new());

/// What is believed of the device's receive checksum verdicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RxChecksum {
    /// Nothing: every frame arrives as [`base::Checksum::Unknown`] and is verified in software.
    #[default]
    Verify,
    /// The verdicts that the device is capable of and was configured for.
    Trust,
}

/// How a port is started.
#[derive(Clone, Debug)]
pub struct PortConfig {
    /// Largest IP packet in bytes.
    pub mtu: u16,
    /// Queue pairs: one per worker.
    pub queues: u16,
    /// Buffers per queue for received frames and payload.
    pub buffers: u32,
    /// Buffers per queue for headers and references.
    pub header_buffers: u32,
    /// Receive descriptors per queue; adjusted to the device's limits.
    pub rx_descriptors: u16,
    /// Transmit descriptors per queue; adjusted to the device's limits.
    pub tx_descriptors: u16,
    /// What shall be left to the device if it can; [`PortInfo::capable`] says what it can.
    pub wanted: Offloads,
    /// What is believed on receipt.
    pub rx_checksum: RxChecksum,
    /// Receive frames for other addresses.
    pub promiscuous: bool,
    /// Receive all multicast: needed for IPv6 neighbour discovery.
    pub all_multicast: bool,
}

impl Default for PortConfig {
    fn default() -> Self {
        Self {
            mtu: 1500,
            queues: 1,
            buffers: 8192,
            header_buffers: 16_384,
            rx_descriptors: 1024,
            tx_descriptors: 1024,
            wanted: Offloads {
                rx_ip_checksum: true,
                rx_tcp_checksum: true,
                rx_udp_checksum: true,
                tx_ip_checksum: true,
                tx_tcp_checksum: true,
                tx_udp_checksum: true,
                tso: true,
                multi_segment: true,
            },
            rx_checksum: RxChecksum::Verify,
            promiscuous: false,
            all_multicast: true,
        }
    }
}

impl PortConfig {
    /// Bytes behind the headroom of a payload buffer: a whole frame, in whole KiB because some
    /// devices (ixgbe) ignore what is beyond the last.
    pub fn payload_room(&self) -> u16 {
        let room = (u32::from(self.mtu.min(MTU_MAX)) + FRAME_OVERHEAD).next_multiple_of(1024);
        u16::try_from(room.clamp(2048, ROOM_MAX)).unwrap_or(u16::MAX)
    }

    /// Memory in bytes that the buffers of all queues take.
    pub fn memory_needed(&self) -> u64 {
        let payload = crate::mempool::memory_needed(self.buffers, self.payload_room());
        let header = crate::mempool::memory_needed(self.header_buffers, HEADER_ROOM);
        (payload + header) * u64::from(self.queues)
    }
}

/// What a mbuf can describe, without its headroom.
const ROOM_MAX: u32 = u16::MAX as u32 - sys::MR_HEADROOM as u32;

/// What a port is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// Name: the virtual device's, or the PCI address.
    pub name: String,
    /// Driver, as DPDK calls it.
    pub driver: String,
    /// Hardware address of our end. `net_af_packet` and `net_af_xdp` have that of their interface,
    /// `net_tap` that of its interface with the last bit flipped, `net_ring` one made of its
    /// number, the other software devices a random one.
    pub mac: [u8; 6],
    /// What it can do in hardware, or at no cost.
    pub capable: Offloads,
    /// Receive queues at most.
    pub rx_queues_max: u16,
    /// Transmit queues at most.
    pub tx_queues_max: u16,
    /// Largest MTU.
    pub mtu_max: u16,
    /// NUMA node; -1: none in particular.
    pub socket: i32,
    /// Hash functions for spreading over queues, as DPDK's bits; zero: it cannot spread by hash.
    pub rss: u64,
    /// Entries of the table that spreads over queues.
    pub rss_table: u16,
}

/// A port's own counters, since its start. `missed`: no descriptor was free; `no_buffer`: the pool
/// was empty; `errors`: bad frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Frames received.
    pub rx_packets: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Frames that the device dropped because nobody fetched them in time.
    pub rx_missed: u64,
    /// Frames received in error.
    pub rx_errors: u64,
    /// Frames that could not be sent.
    pub tx_errors: u64,
    /// Frames dropped for want of a buffer.
    pub rx_no_buffer: u64,
}

/// State of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Whether it is up.
    pub up: bool,
    /// Mbit/s; `None` when the device does not know.
    pub speed_mbps: Option<u32>,
    /// Whether both sides may send at once.
    pub full_duplex: bool,
}

/// A port that is open and not yet started.
#[derive(Debug)]
pub struct Port {
    eal: Eal,
    inner: Inner,
}

/// A port that runs: its control, its queues, and what was not granted.
#[derive(Debug)]
pub struct Started {
    /// Statistics and link, from any thread.
    pub control: PortControl,
    /// One per worker.
    pub queues: Vec<PortQueue>,
    /// What was wanted and cannot be had, in words.
    pub missing: Vec<&'static str>,
    /// Descriptors per receive queue after adjustment.
    pub rx_descriptors: u16,
    /// Descriptors per transmit queue after adjustment.
    pub tx_descriptors: u16,
}

/// Watches a running port. Clones watch the same port, which stops and closes when the last control
/// and the last queue are gone.
#[derive(Clone, Debug)]
pub struct PortControl(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    id: u16,
    started: bool,
    info: PortInfo,
    facts: Option<&'static Driver>,
    /// Outlives the port: freed after `Drop` has closed it.
    _rings: Option<Arc<(Rings, Rings)>>,
}

impl Port {
    /// The port called `name`: a virtual device's name or a PCI address that EAL was started with.
    pub fn open(eal: &Eal, name: &str) -> Result<Self, Error> {
        let Some(id) = port_id(name) else {
            return Err(Error::configuration(
                format!("cannot open the port {name}"),
                "there is no such port, or it was closed before",
            ));
        };
        Self::claim(eal, id, None)
    }

    pub(crate) fn from_rings(
        eal: &Eal,
        id: u16,
        rings: Arc<(Rings, Rings)>,
    ) -> Result<Self, Error> {
        Self::claim(eal, id, Some(rings))
    }

    fn claim(eal: &Eal, id: u16, rings: Option<Arc<(Rings, Rings)>>) -> Result<Self, Error> {
        let info = port_info(id)?;
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if open.contains(&id) {
            return Err(Error::configuration(
                format!("cannot open the port {}", info.name),
                "it is open already",
            ));
        }
        open.push(id);
        let facts = Driver::of(&info.name);
        Ok(Self {
            eal: eal.clone(),
            inner: Inner { id, started: false, info, facts, _rings: rings },
        })
    }

    /// What the port is and can.
    pub fn info(&self) -> &PortInfo {
        &self.inner.info
    }

    /// Configure and start it.
    pub fn start(mut self, config: &PortConfig) -> Result<Started, Error> {
        let mark = log::mark();
        self.start_inner(config)
            .map_err(|e| if e.detail.is_empty() { e.detail(log::since(mark)) } else { e })
            .map(|(parts, missing, rx_descriptors, tx_descriptors)| {
                self.inner.started = true;
                let control = PortControl(Arc::new(self.inner));
                let queues =
                    parts.into_iter().map(|p| PortQueue::new(control.clone(), p)).collect();
                Started { control, queues, missing, rx_descriptors, tx_descriptors }
            })
    }

    #[allow(clippy::type_complexity)]
    fn start_inner(
        &self,
        config: &PortConfig,
    ) -> Result<(Vec<Parts>, Vec<&'static str>, u16, u16), Error> {
        let Inner { id, ref info, .. } = self.inner;
        let what = format!("cannot start the port {}", info.name);
        self.check(&what, config)?;
        let granted = granted(config, info.capable);
        self.configure(&what, config, granted)?;

        let mut rxd =
            config.rx_descriptors.min(u16::try_from(config.buffers / 2).unwrap_or(u16::MAX));
        let mut txd = config.tx_descriptors;
        // SAFETY: a configured port and valid places for both numbers.
        let code = unsafe { sys::rte_eth_dev_adjust_nb_rx_tx_desc(id, &raw mut rxd, &raw mut txd) };
        check(&what, "descriptors", code)?;

        let vdev = self.eal.vdev(&info.name);
        let room = u32::from(config.payload_room()).max(vdev.map_or(0, |v| v.min_room()));
        let room =
            u16::try_from(room).ok().filter(|&r| u32::from(r) <= ROOM_MAX).ok_or_else(|| {
                Error::configuration(&what, format!("frames of {room} bytes do not fit a mbuf"))
            })?;

        let capabilities = Capabilities {
            mac: info.mac,
            mtu: config.mtu,
            offloads: granted,
            payload_room: u32::from(room),
            header_room: u32::from(HEADER_ROOM),
            tx_ring: vdev.and_then(|v| v.tx_ring()).unwrap_or(txd),
            tx_segments_max: if granted.multi_segment { segments_max(id, granted.tso)? } else { 1 },
        };
        let mut parts = Vec::new();
        for queue in 0..config.queues {
            let payload = Mempool::new(&self.eal, config.buffers, room, info.socket)?;
            let headers = Mempool::new(&self.eal, config.header_buffers, HEADER_ROOM, info.socket)?;
            self.set_up_queue(&what, queue, (rxd, txd), &payload)?;
            parts.push(Parts {
                port: id,
                queue,
                capabilities,
                payload,
                headers,
                keep: self.believed(config, granted),
                prepare: granted.tx_ip_checksum
                    || granted.tx_tcp_checksum
                    || granted.tx_udp_checksum
                    || granted.tso,
            });
        }
        // SAFETY: a configured port with all its queues set up.
        check(&what, "start", unsafe { sys::rte_eth_dev_start(id) })?;
        let mut missing = missing(config.wanted, granted, config.rx_checksum);
        match self.set_filters(&what, config) {
            Ok(filters) => missing.extend(filters),
            Err(error) => {
                // SAFETY: a started port that nobody polls yet.
                unsafe { sys::rte_eth_dev_stop(id) };
                return Err(error);
            }
        }
        Ok((parts, missing, rxd, txd))
    }

    fn check(&self, what: &str, config: &PortConfig) -> Result<(), Error> {
        let info = &self.inner.info;
        let queues_max = info.rx_queues_max.min(info.tx_queues_max);
        if config.queues == 0 || config.queues > queues_max {
            return Err(Error::unsupported(
                what,
                format!("{} queues were asked for; it has 1 to {queues_max}", config.queues),
            ));
        }
        if config.mtu < MTU_MIN || config.mtu > info.mtu_max {
            return Err(Error::unsupported(
                what,
                format!("its MTU can be {MTU_MIN} to {}, not {}", info.mtu_max, config.mtu),
            ));
        }
        if config.buffers < 64 || config.header_buffers < 64 {
            return Err(Error::configuration(what, "fewer than 64 buffers per queue"));
        }
        Ok(())
    }

    fn configure(&self, what: &str, config: &PortConfig, granted: Offloads) -> Result<(), Error> {
        let Inner { id, ref info, facts, .. } = self.inner;
        // SAFETY: all bytes zero is the documented default of this struct of numbers, enums with a
        // zero variant and nullable pointers.
        let mut conf: sys::rte_eth_conf = unsafe { core::mem::zeroed() };
        let stated = dev_info(id)?.max_rx_pktlen;
        let understated = facts.is_some() && stated < u32::from(config.mtu) + LINK_OVERHEAD;
        conf.rxmode.mtu =
            u32::from(if understated { config.mtu.min(ETHDEV_MTU) } else { config.mtu });
        conf.rxmode.offloads = rx_bits(granted);
        conf.txmode.offloads = tx_bits(granted);
        if config.queues > 1 && info.rss != 0 {
            conf.rxmode.mq_mode = sys::RTE_ETH_MQ_RX_RSS;
            conf.rx_adv_conf.rss_conf.rss_hf =
                info.rss & (sys::MR_RSS_IP | sys::MR_RSS_TCP | sys::MR_RSS_UDP);
        }
        // SAFETY: an open port that is not started, and a configuration that is copied.
        let code = unsafe {
            sys::rte_eth_dev_configure(id, config.queues, config.queues, &raw const conf)
        };
        check(what, "configuration", code)
    }

    fn set_up_queue(
        &self,
        what: &str,
        queue: u16,
        (rxd, txd): (u16, u16),
        pool: &Mempool,
    ) -> Result<(), Error> {
        let Inner { id, ref info, .. } = self.inner;
        let socket = info.socket as u32;
        // SAFETY: a configured port, a queue below the configured number, default thresholds (null)
        // and a pool that lives as long as the process.
        let code = unsafe {
            sys::rte_eth_rx_queue_setup(id, queue, rxd, socket, core::ptr::null(), pool.as_ptr())
        };
        check(what, &format!("receive queue {queue}"), code)?;
        // SAFETY: as above.
        let code =
            unsafe { sys::rte_eth_tx_queue_setup(id, queue, txd, socket, core::ptr::null()) };
        check(what, &format!("transmit queue {queue}"), code)
    }

    /// Receive filters; the names of those that the device does not have.
    fn set_filters(&self, what: &str, config: &PortConfig) -> Result<Vec<&'static str>, Error> {
        let id = self.inner.id;
        let mut missing = Vec::new();
        if config.promiscuous {
            // SAFETY: a started port.
            match unsafe { sys::rte_eth_promiscuous_enable(id) } {
                code if code == -libc::ENOTSUP => missing.push("promiscuous"),
                code => check(what, "promiscuous mode", code)?,
            }
        }
        if config.all_multicast && !config.promiscuous {
            // SAFETY: a started port.
            match unsafe { sys::rte_eth_allmulticast_enable(id) } {
                code if code == -libc::ENOTSUP => missing.push("all-multicast"),
                code => check(what, "all-multicast mode", code)?,
            }
        }
        Ok(missing)
    }

    /// Flags of received mbufs that mean something.
    fn believed(&self, config: &PortConfig, granted: Offloads) -> u64 {
        let mut keep = 0;
        // Frames of `net_ring` carry the flags that their sender's port has set.
        if self.inner.facts.is_none_or(|d| d.name != "net_ring") {
            keep |= sys::MR_MBUF_RX_VLAN | sys::MR_MBUF_RX_VLAN_STRIPPED;
            if config.queues > 1 && self.inner.info.rss != 0 {
                keep |= sys::MR_MBUF_RX_RSS_HASH;
            }
        }
        if granted.rx_ip_checksum {
            keep |= sys::MR_MBUF_RX_IP_CKSUM_MASK;
        }
        // One pair of bits for TCP and UDP: only a device that verifies both can be believed.
        if granted.rx_tcp_checksum && granted.rx_udp_checksum {
            keep |= sys::MR_MBUF_RX_L4_CKSUM_MASK;
        }
        keep
    }
}

impl PortControl {
    /// What the port is and can.
    pub fn info(&self) -> &PortInfo {
        &self.0.info
    }

    /// The port's counters.
    pub fn stats(&self) -> Result<PortStats, Error> {
        // SAFETY: all bytes zero is a valid value of this struct of numbers.
        let mut s: sys::rte_eth_stats = unsafe { core::mem::zeroed() };
        // SAFETY: the port is open as long as `self`, and `s` is a valid place for the result.
        let code = unsafe { sys::rte_eth_stats_get(self.0.id, &raw mut s) };
        check(&format!("cannot read the counters of {}", self.0.info.name), "statistics", code)?;
        Ok(PortStats {
            rx_packets: s.ipackets,
            tx_packets: s.opackets,
            rx_bytes: s.ibytes,
            tx_bytes: s.obytes,
            rx_missed: s.imissed,
            rx_errors: s.ierrors,
            tx_errors: s.oerrors,
            rx_no_buffer: s.rx_nombuf,
        })
    }

    /// State of the link, without waiting for it.
    pub fn link(&self) -> Result<Link, Error> {
        let mut link = sys::mr_link { speed_mbps: 0, up: 0, full_duplex: 0 };
        // SAFETY: the port is open as long as `self`, and `link` is a valid place for the result.
        let code = unsafe { sys::mr_link(self.0.id, &raw mut link) };
        check(&format!("cannot read the link of {}", self.0.info.name), "link", code)?;
        let known = link.speed_mbps != 0 && link.speed_mbps != u32::MAX;
        Ok(Link {
            up: link.up != 0,
            speed_mbps: known.then_some(link.speed_mbps),
            full_duplex: link.full_duplex != 0,
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Queues hold this too, so nobody is inside a burst function.
        if self.started {
            // SAFETY: a started port that nobody polls any more.
            unsafe { sys::rte_eth_dev_stop(self.id) };
        }
        // SAFETY: a stopped port; its number is not used afterwards.
        unsafe { sys::rte_eth_dev_close(self.id) };
        OPEN.lock().unwrap_or_else(PoisonError::into_inner).retain(|&id| id != self.id);
    }
}

fn check(what: &str, step: &str, code: c_int) -> Result<(), Error> {
    if code >= 0 {
        return Ok(());
    }
    Err(Error::environment(what, format!("{step}: {}", errno_text(code))))
}

fn dev_info(id: u16) -> Result<sys::rte_eth_dev_info, Error> {
    // SAFETY: all bytes zero is a valid value: numbers and nullable pointers.
    let mut info: sys::rte_eth_dev_info = unsafe { core::mem::zeroed() };
    // SAFETY: DPDK checks the number of the port; `info` is a valid place for the result.
    let code = unsafe { sys::rte_eth_dev_info_get(id, &raw mut info) };
    check(&format!("cannot inspect port {id}"), "information", code)?;
    Ok(info)
}

fn port_info(id: u16) -> Result<PortInfo, Error> {
    let d = dev_info(id)?;
    // SAFETY: an array of bytes, for which zero is valid.
    let mut mac: sys::rte_ether_addr = unsafe { core::mem::zeroed() };
    // SAFETY: an existing port and a valid place for the result.
    let code = unsafe { sys::rte_eth_macaddr_get(id, &raw mut mac) };
    check(&format!("cannot inspect port {id}"), "hardware address", code)?;
    let mut name = [0; NAME_MAX];
    // SAFETY: an existing port; DPDK writes at most RTE_ETH_NAME_MAX_LEN bytes with the NUL.
    let code = unsafe { sys::rte_eth_dev_get_name_by_port(id, name.as_mut_ptr()) };
    check(&format!("cannot inspect port {id}"), "name", code)?;
    // SAFETY: the array was all NUL and DPDK has written a string that ends within it.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
    let driver = if d.driver_name.is_null() {
        String::new()
    } else {
        // SAFETY: the driver's name is a string constant of the loaded driver.
        unsafe { CStr::from_ptr(d.driver_name) }.to_string_lossy().into_owned()
    };
    // SAFETY: takes any number.
    let socket = unsafe { sys::rte_eth_dev_socket_id(id) };
    // What our own drivers carry is known from trying; what they state is often less.
    let mtu_max = Driver::of(&name).map_or(d.max_mtu.min(MTU_MAX), |known| known.mtu_max);
    let mut mac = mac.addr_bytes;
    // The driver's address is that of the interface it makes, which is the kernel's end of the
    // link; it filters nothing, so our end can have another.
    if Driver::of(&name).is_some_and(|d| d.name == "net_tap") {
        mac[5] ^= 1;
    }
    let mut capable = offloads(d.rx_offload_capa, d.tx_offload_capa);
    // This driver sums and segments in software, a pass over the data that the stack's copy with
    // checksum does not need.
    if Driver::of(&name).is_some_and(|d| d.name == "net_tap") {
        capable = Offloads { multi_segment: capable.multi_segment, ..Offloads::default() };
    }
    // `net_ring` has none. A locally administered one, so that the ends of a pair differ.
    if mac == [0; 6] {
        let [high, low] = id.to_be_bytes();
        mac = [0x02, b'm', b'r', 0, high, low];
    }
    Ok(PortInfo {
        name,
        driver,
        mac,
        capable,
        rx_queues_max: d.max_rx_queues,
        tx_queues_max: d.max_tx_queues,
        mtu_max,
        socket,
        rss: d.flow_type_rss_offloads,
        rss_table: d.reta_size,
    })
}

/// RTE_ETH_NAME_MAX_LEN.
const NAME_MAX: usize = 64;

fn segments_max(id: u16, tso: bool) -> Result<u8, Error> {
    let limits = dev_info(id)?.tx_desc_lim;
    let stated = [limits.nb_mtu_seg_max, if tso { limits.nb_seg_max } else { 0 }];
    let least = stated.into_iter().filter(|&n| n > 0).min();
    Ok(least.map_or(SEGMENTS_DEFAULT, |n| u8::try_from(n).unwrap_or(u8::MAX).min(SEGMENTS_DEFAULT)))
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
    let multi_segment = w.multi_segment && c.multi_segment;
    let tx_tcp_checksum = w.tx_tcp_checksum && c.tx_tcp_checksum;
    Offloads {
        rx_ip_checksum: trust && w.rx_ip_checksum && c.rx_ip_checksum,
        rx_tcp_checksum: trust && w.rx_tcp_checksum && c.rx_tcp_checksum,
        rx_udp_checksum: trust && w.rx_udp_checksum && c.rx_udp_checksum,
        tx_ip_checksum: w.tx_ip_checksum && c.tx_ip_checksum,
        tx_tcp_checksum,
        tx_udp_checksum: w.tx_udp_checksum && c.tx_udp_checksum,
        // Segmentation works on chains and fills in checksums.
        tso: w.tso && c.tso && multi_segment && tx_tcp_checksum,
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
mod tests {
    use super::*;

    const ALL: u64 = u64::MAX;

    #[test]
    fn wanted_and_capable_is_granted_and_the_difference_named() {
        let config = PortConfig { rx_checksum: RxChecksum::Trust, ..PortConfig::default() };
        let all = granted(&config, offloads(ALL, ALL));
        assert_eq!(all, config.wanted);
        assert!(missing(config.wanted, all, config.rx_checksum).is_empty());
        let some =
            granted(&config, offloads(sys::MR_RX_OFFLOAD_TCP_CKSUM, sys::MR_TX_OFFLOAD_TCP_TSO));
        assert_eq!(rx_bits(some), sys::MR_RX_OFFLOAD_TCP_CKSUM);
        assert_eq!(tx_bits(some), 0, "segmentation without chains and checksums is no use");
        assert_eq!(missing(config.wanted, some, config.rx_checksum).len(), 7);
    }

    #[test]
    fn verdicts_are_not_asked_for_when_software_verifies() {
        let config = PortConfig::default();
        let got = granted(&config, offloads(ALL, ALL));
        assert_eq!(rx_bits(got), 0);
        assert!(missing(config.wanted, got, config.rx_checksum).is_empty());
    }

    #[test]
    fn bits_round_trip() {
        for n in 0..256u32 {
            let bit = |i: u32| n & 1 << i != 0;
            let o = Offloads {
                rx_ip_checksum: bit(0),
                rx_tcp_checksum: bit(1),
                rx_udp_checksum: bit(2),
                tx_ip_checksum: bit(3),
                tx_tcp_checksum: bit(4),
                tx_udp_checksum: bit(5),
                tso: bit(6),
                multi_segment: bit(7),
            };
            assert_eq!(offloads(rx_bits(o), tx_bits(o)), o);
        }
    }

    #[test]
    fn a_frame_fits_one_payload_buffer() {
        for mtu in [MTU_MIN, 1500, 2000, 9000, MTU_MAX] {
            let room = PortConfig { mtu, ..PortConfig::default() }.payload_room();
            assert!(u32::from(room) >= u32::from(mtu) + FRAME_OVERHEAD);
        }
        assert_eq!(PortConfig::default().payload_room(), 2048);
    }
}
