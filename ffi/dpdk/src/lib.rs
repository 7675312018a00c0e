//! Safe owner types over DPDK, and the device door on them.
//!
//! ```text
//!   EalConfig --init--> Eal --open--> Port --start--> PortControl   statistics, link
//!                        |                       `--> PortQueue...  one per worker: base::Device
//!                        `--> RingPair (two ports, crossed)   `--> Mbuf: base::Frame
//! ```
//!
//! Types that cannot be misused: [`Eal`] proves that the environment was initialised, a
//! [`PortQueue`] moves into its worker and is neither shared nor copied, an [`Mbuf`] owns its
//! segments and returns them on drop, from whatever thread. A port stops and closes when the last
//! of its queues and controls is gone, so no driver runs under a caller's feet.
//!
//! What is unfit about the machine is found *before* EAL starts ([`preflight`]), because EAL can be
//! started once per process and says little about why it would not. This crate does not know what a
//! frame means.
//!
//! ```no_run
//! use base::{Device, RxBatch};
//! use dpdk::{Eal, EalConfig, Port, PortConfig, Vdev};
//!
//! fn main() -> Result<(), dpdk::Error> {
//!     let vdev: Vdev = "net_af_packet0,iface=veth0".parse()?;
//!     let config = PortConfig::default();
//!     let mut eal = EalConfig::software(256);
//!     eal.vdevs.push(vdev.prepare(config.mtu, config.queues)?);
//!     let eal = Eal::init(&eal)?;
//!
//!     let started = Port::open(&eal, "net_af_packet0")?.start(&config)?;
//!     for mut queue in started.queues {
//!         let eal = eal.clone();
//!         std::thread::spawn(move || -> Result<(), dpdk::Error> {
//!             let _registered = dpdk::thread::register(&eal)?;
//!             let mut batch = RxBatch::new();
//!             loop {
//!                 queue.rx_burst(&mut batch);
//!                 batch.clear();
//!             }
//!         });
//!     }
//!     Ok(())
//! }
//! ```

pub mod clock;
pub mod eal;
pub mod error;
pub mod host;
pub mod log;
pub mod mbuf;
pub mod mempool;
pub mod port;
pub mod preflight;
pub mod queue;
pub mod ring;
pub mod thread;
pub mod vdev;

pub use clock::{TimeBase, TscClock};
pub use eal::{Eal, EalConfig, Memory, Versions};
pub use error::{Error, ErrorKind};
pub use host::Host;
pub use mbuf::Mbuf;
pub use mempool::Pools;
pub use port::{Link, Port, PortConfig, PortControl, PortInfo, PortStats, RxChecksum, Started};
pub use queue::{PortQueue, QueueCounters};
pub use ring::RingPair;
pub use vdev::Vdev;
