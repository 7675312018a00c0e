//! Virtual devices: what we know about DPDK's software drivers, and requests for them.
//!
//! A request is written as DPDK writes it, `net_af_packet0,iface=veth0`. [`Vdev::prepare`] fills in
//! the parameters that decide whether a driver is any good, for an MTU and a number of queues.
//!
//! What `net_af_packet` (22.11) does, as found by trying:
//! - It has the hardware address of its interface. Frames that it sent do not come back to it, but
//!   those that *the kernel* sends through the same interface arrive as if received.
//! - It takes chains, and copies on both ways. When the transmit ring is full it waits in the
//!   kernel instead of refusing.
//! - What a veth peer sends has unfinished checksums and up to 64 KiB per frame (cut to the slot)
//!   unless the peer's `ethtool -K IFACE tx off tso off gso off` was done.
//! - `qdisc_bypass=1` makes no difference over veth that rises above the noise, and on a real
//!   interface loses what the device has no room for, so the default stays 0.
//! - Drops for want of a slot are not in the port's counters; the kernel does not tell the driver.
//!
//! What `net_memif` (22.11) does:
//! - Its socket is in the abstract name space unless `socket-abstract=no`, so that a dead process
//!   leaves nothing behind; both ends must then be in one network namespace.
//! - The client chooses the rings and the size of their buffers for both. Frames larger than one
//!   buffer break the ring, see [`Vdev::prepare`].
//! - It draws a hardware address at each start unless `mac=` gives one, as ours does.
//! - A client does not start while nobody serves the socket, and one that has lost its server does
//!   not look for it again: [`PortControl::link`](crate::PortControl::link) has that done.
//! - Its counters begin again with each connection.

use core::fmt;
use core::str::FromStr;

use crate::error::Error;

/// Largest MTU that a port can have: a frame has to fit one mbuf.
pub const MTU_MAX: u16 = 65_024;
/// Smallest MTU that makes sense: what every IPv4 link must carry (RFC 791).
pub const MTU_MIN: u16 = 68;

/// Link header and one VLAN tag.
const LINK_HEADER: u32 = 14 + 4;
/// Kernel's `tpacket2_hdr`, address and alignment before the frame in a ring slot.
const PACKET_SLOT_HEADER: u32 = 80;
/// Frames in each `af_packet` ring at most. At 0.3 million frames per second, which a veth pair
/// carries, 512 lost a tenth while the worker slept for 2 ms, 2048 hardly any; on shared cores it
/// is away for longer than that. A larger ring costs nothing that can be measured.
const PACKET_FRAMES: u32 = 4096;
/// Memory for each ring at most, which the kernel keeps locked: jumbo rings are shorter.
const PACKET_RING_BYTES: u32 = 16 << 20;
/// Contiguous memory that the kernel is asked for per block of an `af_packet` ring.
const PACKET_BLOCK: u32 = 65_536;
const PAGE: u32 = 4096;
/// Bytes behind the headroom of a buffer for AF_XDP: with what the pool and the mbuf put in front it
/// may not be larger than a page, and the pool makes its number of cache lines odd.
const XDP_ROOM_MAX: u32 = PAGE - 64 - XDP_IN_FRONT;
/// Header of the pool, mbuf, headroom.
const XDP_IN_FRONT: u32 = 64 + 128 + 128;
/// What the kernel leaves of it: it wants 256 bytes for itself in front, not instead, of all that.
/// The driver states 100 more, with which it does not start or no large frame arrives.
const XDP_MTU_MAX: u16 = 3442;
/// Where `memif` puts its socket unless told.
const MEMIF_SOCKET: &str = "/run/memif.sock";

/// What the driver wants with the interface named by `iface=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// No such parameter.
    None,
    /// It must exist and be up.
    Existing,
    /// The driver makes it.
    Created,
}

/// A driver of software devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Driver {
    /// DPDK's name, without the number.
    pub name: &'static str,
    /// Largest MTU.
    pub mtu_max: u16,
    /// Bytes behind the headroom of a receive buffer at most.
    pub room_max: u32,
    /// Use of `iface=`.
    pub interface: Interface,
    /// Needs CAP_NET_RAW to open its socket.
    pub needs_net_raw: bool,
    /// Needs CAP_NET_ADMIN.
    pub needs_net_admin: bool,
    /// What it is for, in a few words.
    pub purpose: &'static str,
}

const PLAIN: Driver = Driver {
    name: "",
    mtu_max: MTU_MAX,
    room_max: u32::MAX,
    interface: Interface::None,
    needs_net_raw: false,
    needs_net_admin: false,
    purpose: "",
};

/// The drivers that we know and test, and those that are passed on.
pub const DRIVERS: [Driver; 11] = [
    Driver {
        name: "net_af_packet",
        interface: Interface::Existing,
        needs_net_raw: true,
        purpose: "any kernel interface",
        ..PLAIN
    },
    Driver {
        name: "net_af_xdp",
        mtu_max: XDP_MTU_MAX,
        room_max: XDP_ROOM_MAX,
        interface: Interface::Existing,
        needs_net_raw: true,
        needs_net_admin: true,
        purpose: "any kernel interface, faster for small frames",
    },
    Driver {
        name: "net_tap",
        mtu_max: 1500,
        interface: Interface::Created,
        needs_net_admin: true,
        purpose: "an interface of its own towards the kernel",
        ..PLAIN
    },
    Driver { name: "net_memif", purpose: "another process, through shared memory", ..PLAIN },
    Driver { name: "net_ring", purpose: "another stack in this process", ..PLAIN },
    Driver { name: "net_null", purpose: "nobody: frames from nowhere to nowhere", ..PLAIN },
    Driver { name: "net_pcap", purpose: "replay and record", ..PLAIN },
    Driver { name: "net_vhost", purpose: "a virtual machine", ..PLAIN },
    Driver { name: "net_virtio_user", purpose: "a vhost backend", ..PLAIN },
    Driver { name: "net_bonding", purpose: "several ports as one", ..PLAIN },
    Driver { name: "net_failsafe", purpose: "a port that may disappear", ..PLAIN },
];

impl Driver {
    /// The driver of the device called `name`, such as `net_null` for `net_null0`.
    pub fn of(name: &str) -> Option<&'static Self> {
        // The longest name that fits: one driver's name may begin another's.
        DRIVERS.iter().filter(|d| name.starts_with(d.name)).max_by_key(|d| d.name.len())
    }
}

/// The socket over which the two ends of a `memif` meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Socket<'a> {
    /// Its path, or its name in the abstract name space, where it is unless told otherwise.
    pub(crate) name: &'a str,
    /// It is a file.
    pub(crate) is_file: bool,
    /// The device makes it, as opposed to connecting to it.
    pub(crate) serves: bool,
}

/// A request for a virtual device.
///
/// ```
/// use dpdk::Vdev;
/// let vdev: Vdev = "net_af_packet0,iface=veth0".parse()?;
/// assert_eq!(vdev.name(), "net_af_packet0");
/// assert_eq!(vdev.interface(), Some("veth0"));
/// let vdev = vdev.prepare(1500, 1)?;
/// assert_eq!(
///     vdev.to_string(),
///     "net_af_packet0,iface=veth0,qpairs=1,framesz=2048,blocksz=65536,framecnt=4096"
/// );
/// # Ok::<(), dpdk::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vdev {
    name: String,
    driver: &'static Driver,
    args: Vec<(String, Option<String>)>,
    /// What it was prepared for.
    mtu: Option<u16>,
}

impl FromStr for Vdev {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut parts = text.split(',').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let what = || format!("cannot use the virtual device \"{text}\"");
        if text.contains(['\0', '\n']) {
            return Err(Error::configuration(what(), "it contains a control character"));
        }
        let Some(driver) = Driver::of(name) else { return Err(unknown_driver(name)) };
        // DPDK tells devices of one driver apart by what follows the driver's name.
        if name.len() == driver.name.len() {
            return Err(Error::configuration(what(), "the name lacks a number")
                .help(format!("try: {name}0{}", &text[name.len()..])));
        }
        let mut args = Vec::new();
        for part in parts.filter(|p| !p.is_empty()) {
            let (key, value) = match part.split_once('=') {
                Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
                None => (part.to_owned(), None),
            };
            args.push((key, value));
        }
        Ok(Self { name: name.to_owned(), driver, args, mtu: None })
    }
}

fn unknown_driver(name: &str) -> Error {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let nearest = DRIVERS
        .iter()
        .map(|d| (strsim::jaro_winkler(stem, d.name), d.name))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let mut error = Error::configuration(
        format!("cannot use the virtual device \"{name}\""),
        "there is no such driver",
    );
    if let Some((likeness, nearest)) = nearest
        && likeness > 0.8
    {
        error = error.help(format!("did you mean {nearest}0?"));
    }
    let names: Vec<&str> = DRIVERS.iter().map(|d| d.name).collect();
    error.help(format!("drivers: {}", names.join(" ")))
}

impl fmt::Display for Vdev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (key, value) in &self.args {
            match value {
                Some(value) => write!(f, ",{key}={value}")?,
                None => write!(f, ",{key}")?,
            }
        }
        Ok(())
    }
}

impl Vdev {
    /// The device's name, which becomes the port's.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The driver.
    pub fn driver(&self) -> &'static Driver {
        self.driver
    }

    /// The value of a parameter.
    pub fn arg(&self, key: &str) -> Option<&str> {
        self.args.iter().find(|(k, _)| k == key).and_then(|(_, v)| v.as_deref())
    }

    /// The kernel interface that the device uses or makes.
    pub fn interface(&self) -> Option<&str> {
        (self.driver.interface != Interface::None).then(|| self.arg("iface")).flatten()
    }

    /// The request completed for packets of `mtu` bytes and `queues` queue pairs. What the user has
    /// given stays, and is checked.
    pub fn prepare(mut self, mtu: u16, queues: u16) -> Result<Self, Error> {
        let what = format!("cannot use {}", self.name);
        check_mtu(&what, self.driver, mtu)?;
        if self.driver.interface == Interface::Existing && self.arg("iface").is_none() {
            return Err(Error::configuration(what, "it needs the name of an interface")
                .help(format!("try: --vdev {},iface=eth0", self.name)));
        }
        match self.driver.name {
            "net_af_packet" => {
                self.set_default("qpairs", u32::from(queues));
                self.packet_rings(&what, mtu)?;
            }
            "net_af_xdp" => self.set_default("queue_count", u32::from(queues)),
            "net_memif" if self.arg("zero-copy") == Some("yes") => {
                return Err(Error::unsupported(
                    what,
                    "zero-copy=yes needs all memory in one file that DPDK shares between processes",
                )
                .help("leave zero-copy out: we keep memory in no files, so that nothing remains"));
            }
            "net_memif" => {
                self.memif_buffers(&what, mtu)?;
                self.memif_address();
            }
            // As the driver would call it, so that the interface can be watched.
            "net_tap" if self.arg("iface").is_none() => {
                let name = self.name.trim_start_matches("net_tap");
                self.args.push(("iface".to_owned(), Some(format!("dtap{name}"))));
            }
            _ => {}
        }
        self.mtu = Some(mtu);
        Ok(self)
    }

    /// The MTU that it was prepared for.
    pub fn mtu(&self) -> Option<u16> {
        self.mtu
    }

    /// The socket of a `memif`.
    pub(crate) fn socket(&self) -> Option<Socket<'_>> {
        (self.driver.name == "net_memif").then(|| Socket {
            name: self.arg("socket").unwrap_or(MEMIF_SOCKET),
            is_file: self.arg("socket-abstract") == Some("no"),
            serves: matches!(self.arg("role"), Some("server" | "master")),
        })
    }

    /// Bytes that a mbuf must offer behind its headroom for this device; zero: no wish.
    pub(crate) fn min_room(&self) -> u32 {
        // The driver refuses queues whose mbufs are smaller than a slot of its ring.
        if self.driver.name == "net_af_packet" { self.number("framesz").unwrap_or(0) } else { 0 }
    }

    /// Frames that the driver's transmit ring holds, where that is ours to say.
    pub(crate) fn tx_ring(&self) -> Option<u16> {
        if self.driver.name != "net_af_packet" {
            return None;
        }
        self.number("framecnt").map(|n| u16::try_from(n).unwrap_or(u16::MAX))
    }

    fn number(&self, key: &str) -> Option<u32> {
        self.arg(key)?.parse().ok()
    }

    fn set_default(&mut self, key: &str, value: u32) {
        if !self.args.iter().any(|(k, _)| k == key) {
            self.args.push((key.to_owned(), Some(value.to_string())));
        }
    }

    /// The memory-mapped rings of `af_packet`. The driver computes the address of slot *i* as
    /// `i * framesz`, so slots must fill blocks without a gap; the kernel wants whole pages.
    fn packet_rings(&mut self, what: &str, mtu: u16) -> Result<(), Error> {
        let needed = u32::from(mtu) + LINK_HEADER + PACKET_SLOT_HEADER;
        // Powers of two up to a page, whole KiB above: a 9000-byte frame needs 9 KiB, not 16.
        let frame = if needed <= PAGE {
            needed.next_power_of_two().max(2048)
        } else {
            needed.next_multiple_of(1024)
        };
        self.set_default("framesz", frame);
        let frame = self.positive(what, "framesz")?;
        if frame < needed {
            return Err(Error::configuration(
                what,
                format!("framesz={frame} is too small for an MTU of {mtu}"),
            )
            .help(format!("framesz must be at least {needed}; leave it out to have it chosen")));
        }
        // The largest multiple of frame and page within the usual block, else the smallest.
        let unit = lcm(frame, PAGE);
        self.set_default("blocksz", (PACKET_BLOCK / unit).max(1).saturating_mul(unit));
        let block = self.positive(what, "blocksz")?;
        if block % PAGE != 0 || block % frame != 0 {
            return Err(Error::configuration(
                what,
                format!("blocksz={block} is not a multiple of {PAGE} and of framesz={frame}"),
            )
            .help("leave blocksz out to have it chosen"));
        }
        let per_block = block / frame;
        let frames = (PACKET_RING_BYTES / frame).min(PACKET_FRAMES);
        self.set_default("framecnt", frames.next_multiple_of(per_block));
        let count = self.positive(what, "framecnt")?;
        if count % per_block != 0 {
            return Err(Error::configuration(
                what,
                format!("framecnt={count} is not a multiple of blocksz/framesz={per_block}"),
            ));
        }
        Ok(())
    }

    /// Buffers of the shared rings that hold whole frames. What needs several, `memif` (22.11)
    /// cuts without counting right what is free: when the ring is full but for one buffer it goes
    /// round it, and the peer reads the same frames again and again.
    fn memif_buffers(&mut self, what: &str, mtu: u16) -> Result<(), Error> {
        let needed = u32::from(mtu) + LINK_HEADER;
        // A number of 16 bits, in which a whole KiB more may not fit.
        let whole = (needed + 4).next_multiple_of(1024).max(2048);
        self.set_default("bsize", if whole > u32::from(u16::MAX) { needed } else { whole });
        let size = self.positive(what, "bsize")?;
        if size < needed {
            return Err(Error::configuration(
                what,
                format!("bsize={size} is smaller than a frame of {needed} bytes"),
            )
            .help("frames in pieces overrun the ring of this driver; leave bsize out"));
        }
        Ok(())
    }

    /// A hardware address made of what tells this end of the link from any other, instead of one
    /// drawn at each start: a peer that outlives us finds us where we were.
    fn memif_address(&mut self) {
        let socket = self.arg("socket").unwrap_or(MEMIF_SOCKET);
        let parts = [socket, self.arg("id").unwrap_or("0"), self.arg("role").unwrap_or("client")];
        // FNV-1a: any hash that stays the same from build to build would do.
        let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        let [_, _, _, a, b, c, d, e] = hash.to_be_bytes();
        // Locally administered, one station.
        let mac = format!("02:{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}");
        if self.arg("mac").is_none() {
            self.args.push(("mac".to_owned(), Some(mac)));
        }
    }

    fn positive(&self, what: &str, key: &str) -> Result<u32, Error> {
        self.number(key).filter(|&n| n > 0).ok_or_else(|| {
            let value = self.arg(key).unwrap_or_default();
            Error::configuration(what, format!("{key}={value} is not a positive number"))
        })
    }
}

/// Whether `driver` carries packets of `mtu` bytes.
fn check_mtu(what: &str, driver: &Driver, mtu: u16) -> Result<(), Error> {
    if !(MTU_MIN..=MTU_MAX).contains(&mtu) {
        return Err(Error::configuration(
            what,
            format!("an MTU of {mtu} is outside of {MTU_MIN}..{MTU_MAX}"),
        ));
    }
    if mtu > driver.mtu_max {
        return Err(Error::unsupported(
            what,
            format!("{} carries an MTU of at most {}, not {mtu}", driver.name, driver.mtu_max),
        )
        .help("for jumbo frames use net_af_packet, net_memif, net_ring or net_null"));
    }
    Ok(())
}

fn lcm(a: u32, b: u32) -> u32 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).saturating_mul(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(text: &str, mtu: u16) -> Result<String, Error> {
        text.parse::<Vdev>()?.prepare(mtu, 1).map(|v| v.to_string())
    }

    #[test]
    fn rings_fill_blocks_of_whole_pages_for_every_mtu() {
        for mtu in (MTU_MIN..=MTU_MAX).step_by(97).chain([1500, 1968, 4000, 9000, MTU_MAX]) {
            let v = "net_af_packet0,iface=x".parse::<Vdev>().unwrap().prepare(mtu, 2).unwrap();
            let get = |k| v.number(k).unwrap();
            let (frame, block, count) = (get("framesz"), get("blocksz"), get("framecnt"));
            assert!(frame >= u32::from(mtu) + LINK_HEADER + PACKET_SLOT_HEADER, "{v}");
            assert!(block % PAGE == 0 && block % frame == 0, "{v}");
            assert!(count % (block / frame) == 0 && count >= 256, "{v}");
            assert!(count * frame <= PACKET_RING_BYTES + block, "{v}");
            assert_eq!(get("qpairs"), 2);
        }
    }

    #[test]
    fn what_the_user_gives_stays() {
        let text = "net_af_packet0,iface=veth0,framesz=16384,framecnt=512,qdisc_bypass=1";
        let full = prepared(text, 9000).unwrap();
        assert_eq!(full, format!("{text},qpairs=1,blocksz=65536"));
        assert_eq!(prepared("net_null0,copy=1", 9000).unwrap(), "net_null0,copy=1");
    }

    #[test]
    fn memif_buffers_hold_whole_frames() {
        for (mtu, size) in [(68, 2048), (1500, 2048), (2030, 3072), (9000, 9216)] {
            let text = prepared("net_memif0,role=client,mac=02:0:0:0:0:1", mtu).unwrap();
            assert_eq!(text, format!("net_memif0,role=client,mac=02:0:0:0:0:1,bsize={size}"));
        }
        let v = "net_memif0".parse::<Vdev>().unwrap().prepare(MTU_MAX, 1).unwrap();
        assert!(v.number("bsize").unwrap() <= u32::from(u16::MAX), "{v}");
        assert!(prepared("net_memif0,bsize=1518", 1500).is_ok());
        let e = prepared("net_memif0,bsize=1517", 1500).unwrap_err();
        assert!(e.why.contains("smaller than a frame of 1518"), "{e}");
    }

    #[test]
    fn the_largest_frame_of_xdp_fits_what_the_kernel_leaves() {
        const KERNEL: u32 = 256;
        let buffer = XDP_IN_FRONT + XDP_ROOM_MAX;
        assert!(buffer <= PAGE && (buffer / 64) % 2 == 1);
        assert_eq!(u32::from(XDP_MTU_MAX) + 14, buffer - XDP_IN_FRONT - KERNEL);
    }

    #[test]
    fn zero_copy_is_refused_with_its_reason() {
        let e = prepared("net_memif0,role=client,zero-copy=yes", 1500).unwrap_err();
        assert_eq!(e.kind, crate::ErrorKind::Unsupported);
        assert!(prepared("net_memif0,role=client,zero-copy=no", 1500).is_ok());
    }

    #[test]
    fn memif_ends_differ_and_keep_their_address() {
        let mac = |text: &str| {
            let vdev = text.parse::<Vdev>().unwrap().prepare(1500, 1).unwrap();
            vdev.arg("mac").unwrap().to_owned()
        };
        let server = mac("net_memif0,role=server,socket=/a");
        assert_eq!(server, mac("net_memif7,socket=/a,role=server,id=0"));
        assert!(server.starts_with("02:") && server.len() == 17);
        for other in
            ["role=client,socket=/a", "role=server,socket=/b", "role=server,socket=/a,id=1"]
        {
            assert_ne!(server, mac(&format!("net_memif0,{other}")));
        }
    }

    #[test]
    fn small_slots_and_ragged_blocks_are_refused() {
        let e = prepared("net_af_packet0,iface=v,framesz=2048", 9000).unwrap_err();
        assert!(e.why.contains("too small"), "{e}");
        let e = prepared("net_af_packet0,iface=v,blocksz=5000", 1500).unwrap_err();
        assert!(e.why.contains("multiple"), "{e}");
        let e = prepared("net_af_packet0,iface=v,framecnt=x", 1500).unwrap_err();
        assert!(e.why.contains("positive"), "{e}");
    }

    #[test]
    fn unknown_drivers_are_answered_with_the_nearest_name() {
        let e = "net_afpacket0,iface=v".parse::<Vdev>().unwrap_err();
        assert_eq!(e.help[0], "did you mean net_af_packet0?");
        assert!(e.help[1].contains("net_memif"));
        let e = "qqq".parse::<Vdev>().unwrap_err();
        assert_eq!(e.help.len(), 1);
        let e = "net_tap,iface=t".parse::<Vdev>().unwrap_err();
        assert_eq!(e.help[0], "try: net_tap0,iface=t");
    }

    #[test]
    fn jumbo_frames_are_refused_where_the_driver_cannot() {
        for name in ["net_tap0", "net_af_xdp0,iface=v"] {
            let e = prepared(name, 9000).unwrap_err();
            assert_eq!(e.kind, crate::ErrorKind::Unsupported);
        }
        assert!(prepared("net_af_packet0", 1500).is_err());
    }
}
