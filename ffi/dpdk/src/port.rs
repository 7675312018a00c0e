//! Ports: what they can do, how they are configured, started, watched and closed.

use std::ffi::{CStr, c_int};
use std::sync::{Arc, Mutex, PoisonError};

use base::{Capabilities, Offloads};
use dpdk_sys as sys;

use crate::eal::{Eal, port_id};
use crate::error::{Error, errno_text};
use crate::host::{InterfaceState, interface_index, interface_state};
use crate::log;
use crate::mempool::{Layout, Mempool, Pools};
use crate::queue::{Parts, PortQueue};
use crate::ring::Rings;
use crate::vdev::{Driver, MTU_MAX, Vdev};

pub mod plan;
mod reconnect;

use plan::{Descriptors, DeviceFacts, PortPlan, ROOM_MAX, plan};
use reconnect::Reconnect;

/// Data room of a header buffer: the largest headers, and small flat frames.
pub(crate) const HEADER_ROOM: u16 = 384;
/// Link header, two VLAN tags and checksum: what a frame has beyond the MTU.
const FRAME_OVERHEAD: u32 = 14 + 2 * 4 + 4;

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
    facts: DeviceFacts,
    /// The kernel's interface that the device uses: its name at the start, and its number.
    interface: Option<(String, u32)>,
    /// For a port that has to be started again when it has lost its peer.
    reconnect: Option<Reconnect>,
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
        let (info, facts) = port_info(id)?;
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if open.contains(&id) {
            return Err(Error::configuration(
                format!("cannot open the port {}", info.name),
                "it is open already",
            ));
        }
        open.push(id);
        let connects = eal.vdev(&info.name).and_then(Vdev::socket).is_some_and(|s| !s.serves);
        let reconnect = connects.then(Reconnect::new);
        let interface = eal.vdev(&info.name).and_then(Vdev::interface);
        let interface = interface.and_then(|name| Some((name.to_owned(), interface_index(name)?)));
        Ok(Self {
            eal: eal.clone(),
            inner: Inner { id, started: false, info, facts, interface, reconnect, _rings: rings },
        })
    }

    /// What the port is and can.
    pub fn info(&self) -> &PortInfo {
        &self.inner.info
    }

    /// Bytes that the payload buffers of this port need behind their headroom.
    pub fn room_needed(&self, config: &PortConfig) -> Result<u16, Error> {
        let what = format!("cannot start the port {}", self.inner.info.name);
        plan(&self.facts(), config).map(|p| p.room).map_err(|refusal| refusal.into_error(&what))
    }

    /// NUMA node of the device; -1: none in particular.
    pub fn socket(&self) -> i32 {
        self.inner.info.socket
    }

    /// Configure and start it with pools of its own for each queue.
    pub fn start(self, config: &PortConfig) -> Result<Started, Error> {
        let room = self.room_needed(config)?;
        let pools = (0..config.queues)
            .map(|_| {
                let buffers = (config.buffers, room);
                let headers = config.header_buffers;
                Pools::new(&self.eal, buffers, headers, self.socket(), self.layout())
            })
            .collect::<Result<Vec<_>, _>>()?;
        self.start_with(config, &pools)
    }

    /// Configure and start it; each of its queues uses the pools of its worker, which other ports may
    /// use as well. `config.buffers`: how many of a worker's buffers this port may count on.
    pub fn start_with(mut self, config: &PortConfig, pools: &[Pools]) -> Result<Started, Error> {
        let mark = log::mark();
        self.start_inner(config, pools)
            .map_err(|e| if e.detail.is_empty() { e.detail(log::since(mark)) } else { e })
            .map(|(parts, plan)| {
                self.inner.started = true;
                // Several queues would have to agree on a moment at which none of them polls.
                if parts.len() > 1 {
                    self.inner.reconnect = None;
                }
                let control = PortControl(Arc::new(self.inner));
                let queues =
                    parts.into_iter().map(|p| PortQueue::new(control.clone(), p)).collect();
                let PortPlan { missing, rx_descriptors, tx_descriptors, .. } = plan;
                Started { control, queues, missing, rx_descriptors, tx_descriptors }
            })
    }

    /// What is known of the device, from itself and from its arguments.
    fn facts(&self) -> DeviceFacts {
        let mut facts = self.inner.facts.clone();
        if let Some(vdev) = self.eal.vdev(&self.inner.info.name) {
            facts.rx_room_min = facts.rx_room_min.max(vdev.min_room());
            facts.tx_ring = vdev.tx_ring();
        }
        facts
    }

    fn start_inner(
        &self,
        config: &PortConfig,
        pools: &[Pools],
    ) -> Result<(Vec<Parts>, PortPlan), Error> {
        let Inner { id, ref info, .. } = self.inner;
        let what = format!("cannot start the port {}", info.name);
        let mut facts = self.facts();
        // The buffers may be made for larger frames of other ports.
        let room = pools.first().map_or(0, Pools::room);
        facts.rx_room_min = facts.rx_room_min.max(room.into());
        let mut plan = plan(&facts, config).map_err(|refusal| refusal.into_error(&what))?;
        if pools.len() != usize::from(plan.queues) || pools.iter().any(|p| p.room() != plan.room) {
            return Err(Error::configuration(
                &what,
                format!("each of {} queues needs buffers of {} bytes", plan.queues, plan.room),
            ));
        }
        self.configure(&what, &plan)?;

        let capabilities = Capabilities {
            mac: info.mac,
            mtu: plan.mtu,
            offloads: plan.offloads,
            payload_room: u32::from(plan.room),
            header_room: u32::from(plan.header_room),
            tx_ring: plan.tx_ring,
            tx_segments_max: plan.segments_max,
        };
        let mut parts = Vec::new();
        for (queue, pools) in (0..plan.queues).zip(pools) {
            self.set_up_queue(&what, queue, &plan, &pools.payload)?;
            parts.push(Parts {
                port: id,
                queue,
                capabilities,
                pools: pools.clone(),
                keep: self.believed(&plan),
                prepare: plan.prepare,
            });
        }
        // SAFETY: a configured port with all its queues set up.
        check(&what, "start", unsafe { sys::rte_eth_dev_start(id) })?;
        match self.set_filters(&what, config) {
            Ok(filters) => plan.missing.extend(filters),
            Err(error) => {
                // SAFETY: a started port that nobody polls yet.
                unsafe { sys::rte_eth_dev_stop(id) };
                return Err(error);
            }
        }
        Ok((parts, plan))
    }

    fn configure(&self, what: &str, plan: &PortPlan) -> Result<(), Error> {
        // SAFETY: all bytes zero is the documented default of this struct of numbers, enums with a
        // zero variant and nullable pointers.
        let mut conf: sys::rte_eth_conf = unsafe { core::mem::zeroed() };
        conf.rxmode.mtu = u32::from(plan.ethdev_mtu);
        conf.rxmode.offloads = plan.rx_bits.port;
        conf.txmode.offloads = plan.tx_bits.port;
        if plan.rss != 0 {
            conf.rxmode.mq_mode = sys::RTE_ETH_MQ_RX_RSS;
            conf.rx_adv_conf.rss_conf.rss_hf = plan.rss;
        }
        // SAFETY: an open port that is not started, and a configuration that is copied.
        let code = unsafe {
            sys::rte_eth_dev_configure(self.inner.id, plan.queues, plan.queues, &raw const conf)
        };
        check(what, "configuration", code)
    }

    fn set_up_queue(
        &self,
        what: &str,
        queue: u16,
        plan: &PortPlan,
        pool: &Mempool,
    ) -> Result<(), Error> {
        let Inner { id, ref info, .. } = self.inner;
        let socket = info.socket as u32;
        let defaults = dev_info(id)?;
        // The driver's own thresholds, and what only a queue can be asked for.
        let mut rx = defaults.default_rxconf;
        rx.offloads |= plan.rx_bits.queue;
        let mut tx = defaults.default_txconf;
        tx.offloads |= plan.tx_bits.queue;
        let (rxd, txd) = (plan.rx_descriptors, plan.tx_descriptors);
        // SAFETY: a configured port, a queue below the configured number, thresholds that are copied
        // and a pool that lives as long as the process.
        let code = unsafe {
            sys::rte_eth_rx_queue_setup(id, queue, rxd, socket, &raw const rx, pool.as_ptr())
        };
        check(what, &format!("receive queue {queue}"), code)?;
        // SAFETY: as above.
        let code = unsafe { sys::rte_eth_tx_queue_setup(id, queue, txd, socket, &raw const tx) };
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

    /// How buffers of this port may lie: only hardware has wishes.
    pub fn layout(&self) -> Layout {
        match self.inner.facts.known {
            Some(_) => Layout::Packed,
            None => Layout::WithinPages,
        }
    }

    /// Flags of received mbufs that mean something.
    fn believed(&self, plan: &PortPlan) -> u64 {
        let granted = plan.offloads;
        let mut keep = 0;
        // Frames of `net_ring` carry the flags that their sender's port has set.
        if self.inner.facts.known.is_none_or(|d| d.name != "net_ring") {
            keep |= sys::MR_MBUF_RX_VLAN | sys::MR_MBUF_RX_VLAN_STRIPPED;
            if plan.rss != 0 {
                keep |= sys::MR_MBUF_RX_RSS_HASH;
            }
        }
        if granted.rx_ip_checksum {
            keep |= sys::MR_MBUF_RX_IP_CKSUM_MASK;
        }
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

    /// Why the port will never carry a frame again, if that is so: the interface that it used is
    /// gone, and one that takes its name would be another.
    pub fn lost(&self) -> Option<String> {
        let (name, index) = self.0.interface.as_ref()?;
        (interface_state(*index) == InterfaceState::Gone)
            .then(|| format!("interface {name} is gone"))
    }

    /// Whether the queue may call burst functions: not while its port is being started again.
    pub(crate) fn may_poll(&self) -> bool {
        self.0.reconnect.as_ref().is_none_or(Reconnect::may_poll)
    }

    /// Stop the port and start it again, which may block.
    fn restart(&self) {
        let id = self.0.id;
        // SAFETY: an open port whose only queue stands aside.
        unsafe { sys::rte_eth_dev_stop(id) };
        // SAFETY: a configured port that nobody polls.
        let runs = unsafe { sys::rte_eth_dev_start(id) } == 0;
        if let Some(reconnect) = &self.0.reconnect {
            reconnect.started(runs);
        }
    }

    /// State of the link, without waiting for it. Asking is also what makes a `net_memif` client of
    /// one queue look again for a server that it has lost.
    pub fn link(&self) -> Result<Link, Error> {
        let mut link = sys::mr_link { speed_mbps: 0, up: 0, full_duplex: 0 };
        // SAFETY: the port is open as long as `self`, and `link` is a valid place for the result.
        let code = unsafe { sys::mr_link(self.0.id, &raw mut link) };
        check(&format!("cannot read the link of {}", self.0.info.name), "link", code)?;
        // Drivers over kernel interfaces call their link up whatever becomes of the interface.
        let kernel = self.0.interface.as_ref().map(|(_, index)| interface_state(*index));
        let up = link.up != 0 && kernel.is_none_or(|state| state == InterfaceState::Up);
        if !up && self.0.reconnect.as_ref().is_some_and(Reconnect::link_is_down) {
            let control = self.clone();
            let thread = std::thread::Builder::new().name("millrace-link".to_owned());
            if thread.spawn(move || control.restart()).is_err()
                && let Some(reconnect) = &self.0.reconnect
            {
                reconnect.started(false);
            }
        }
        let known = link.speed_mbps != 0 && link.speed_mbps != u32::MAX;
        Ok(Link {
            up,
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

fn port_info(id: u16) -> Result<(PortInfo, DeviceFacts), Error> {
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
    let facts = device_facts(&d, Driver::of(&name));
    let mut mac = mac.addr_bytes;
    // The driver's address is that of the interface it makes, which is the kernel's end of the
    // link; it filters nothing, so our end can have another.
    if facts.known.is_some_and(|d| d.name == "net_tap") {
        mac[5] ^= 1;
    }
    // `net_ring` has none. A locally administered one, so that the ends of a pair differ.
    if mac == [0; 6] {
        let [high, low] = id.to_be_bytes();
        mac = [0x02, b'm', b'r', 0, high, low];
    }
    let info = PortInfo {
        name,
        driver,
        mac,
        capable: facts.capable(),
        rx_queues_max: d.max_rx_queues,
        tx_queues_max: d.max_tx_queues,
        mtu_max: facts.largest_mtu(),
        socket,
        rss: d.flow_type_rss_offloads,
        rss_table: d.reta_size,
    };
    Ok((info, facts))
}

fn device_facts(d: &sys::rte_eth_dev_info, known: Option<&'static Driver>) -> DeviceFacts {
    let descriptors = |limits: &sys::rte_eth_desc_lim| Descriptors {
        min: limits.nb_min,
        max: limits.nb_max,
        align: limits.nb_align,
    };
    DeviceFacts {
        known,
        rx_offloads: d.rx_offload_capa,
        rx_queue_offloads: d.rx_queue_offload_capa,
        tx_offloads: d.tx_offload_capa,
        tx_queue_offloads: d.tx_queue_offload_capa,
        rx_queues_max: d.max_rx_queues,
        tx_queues_max: d.max_tx_queues,
        rx_descriptors: descriptors(&d.rx_desc_lim),
        tx_descriptors: descriptors(&d.tx_desc_lim),
        tso_segments_max: d.tx_desc_lim.nb_seg_max,
        tx_segments_max: d.tx_desc_lim.nb_mtu_seg_max,
        mtu_min: d.min_mtu,
        mtu_max: d.max_mtu,
        rx_frame_max: d.max_rx_pktlen,
        rx_room_min: d.min_rx_bufsize,
        rss: d.flow_type_rss_offloads,
        rss_table: d.reta_size,
        tx_ring: None,
    }
}

/// RTE_ETH_NAME_MAX_LEN.
const NAME_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vdev::MTU_MIN;

    #[test]
    fn a_frame_fits_one_payload_buffer() {
        for mtu in [MTU_MIN, 1500, 2000, 9000, MTU_MAX] {
            let room = PortConfig { mtu, ..PortConfig::default() }.payload_room();
            assert!(u32::from(room) >= u32::from(mtu) + FRAME_OVERHEAD);
        }
        assert_eq!(PortConfig::default().payload_room(), 2048);
    }
}
