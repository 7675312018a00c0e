//! Two hosts and a link, and what nearly every directed world wants of them.

use core::fmt::Display;
use core::time::Duration;
use std::net::SocketAddr;

use base::{Instant, Rate};
use config::Profile;
use sim::integrity::{self, PORT, Plan, SharedLedger};
use sim::{Failure, HostConfig, HostId, LinkConfig, LinkId, World};

/// All directed worlds of this suite; each may have another one.
pub(crate) const SEED: u64 = 1;

/// Where the first and the second host of a world are found.
pub(crate) fn address(host: u8, ipv6: bool, port: u16) -> SocketAddr {
    if ipv6 {
        ([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(host)], port).into()
    } else {
        ([10, 0, 0, host], port).into()
    }
}

/// A link without faults.
pub(crate) fn link(mbit: u64, one_way: Duration) -> LinkConfig {
    LinkConfig {
        rate: Rate::from_bits_per_sec(mbit * 1_000_000),
        delay: one_way,
        ..LinkConfig::default()
    }
}

/// The path of most worlds: 100 Mbit/s, 10 ms there and 10 ms back.
pub(crate) fn ordinary() -> LinkConfig {
    link(100, Duration::from_millis(10))
}

pub(crate) const fn at_secs(secs: u64) -> Instant {
    Instant::from_millis(1000 * secs)
}

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The integrity test between two hosts.
pub(crate) struct Pair {
    pub(crate) world: World,
    pub(crate) client: HostId,
    pub(crate) server: HostId,
    pub(crate) link: LinkId,
    pub(crate) plan: Plan,
    pub(crate) ledger: SharedLedger,
}

/// A world of two hosts before it is built.
pub(crate) struct Setup {
    pub(crate) seed: u64,
    pub(crate) ipv6: bool,
    pub(crate) forward: LinkConfig,
    pub(crate) reverse: LinkConfig,
    pub(crate) client: HostConfig,
    pub(crate) server: HostConfig,
    pub(crate) plan: Plan,
}

impl Setup {
    /// Both directions alike.
    pub(crate) fn on(link: LinkConfig) -> Self {
        Self {
            seed: SEED,
            ipv6: false,
            forward: link,
            reverse: link,
            client: HostConfig::new("client", Profile::Linux),
            server: HostConfig::new("server", Profile::Linux),
            plan: Plan::default(),
        }
    }

    pub(crate) fn plan(mut self, plan: Plan) -> Self {
        self.plan = plan;
        self
    }

    pub(crate) fn hosts(mut self, change: impl Fn(&mut HostConfig)) -> Self {
        change(&mut self.client);
        change(&mut self.server);
        self
    }

    pub(crate) fn build(self) -> Pair {
        let mut world = World::new(self.seed);
        let target = address(2, self.ipv6, PORT);
        let (client, server, ledger) = integrity::pair(target, self.plan);
        let client = world.add_host(self.client, client);
        let server = world.add_host(self.server, server);
        let link = world.connect_ways(client, server, self.forward, self.reverse);
        Pair { world, client, server, link, plan: self.plan, ledger }
    }
}

impl Pair {
    /// Every byte arrives and every connection ends by `limit`; then all is given back.
    #[track_caller]
    pub(crate) fn completes_by(&mut self, limit: Instant) -> Instant {
        let flows = self.plan.flows;
        let ledger = &self.ledger;
        let over = self
            .world
            .expect_by(limit, "all connections ended", |_| ledger.borrow().is_over(flows));
        if let Err(wrong) = self.ledger.borrow().check(&self.plan) {
            let outcome = over.map_or_else(|f| f.to_string(), |_| self.world.last_lines());
            panic!("{outcome}\n{wrong}");
        }
        let over = or_panic(over);
        or_panic(self.world.expect_quiet(secs(300)));
        over
    }

    /// Bytes that both sides have received so far.
    pub(crate) fn received(&self) -> u64 {
        self.ledger.borrow().received()
    }
}

trait LastLines {
    fn last_lines(&self) -> String;
}

impl LastLines for World {
    fn last_lines(&self) -> String {
        let mut lines = self.last_frames();
        lines.extend(self.describe());
        lines.join("\n")
    }
}

/// The value, or the whole failure as text.
#[track_caller]
pub(crate) fn or_panic<T>(result: Result<T, Failure>) -> T {
    match result {
        Ok(value) => value,
        Err(failure) => fail(&failure),
    }
}

#[track_caller]
fn fail(failure: &dyn Display) -> ! {
    panic!("{failure}")
}
