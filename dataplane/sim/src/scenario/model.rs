//! What a scenario file says, checked: every name refers to something, every number is in its range.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;

use config::{Knobs, Profile};
use stack::LocalAddress;
use tcp::params::CongestionAlgorithm;

use super::expect::Expect;
use super::link_keys::LinkChange;
use super::value::Fault;
use crate::link::LinkConfig;
use crate::router::{Ecmp, RouterConfig};
use workloads::traffic;

/// A run lasts no longer than this, in virtual time.
pub const DURATION_MAX: Duration = Duration::from_secs(3600);
/// Seeds of one scenario.
pub const SEEDS_MAX: usize = 10_000;
/// Hosts of one scenario.
pub const HOSTS_MAX: usize = 200;
/// Routers of one scenario.
pub const ROUTERS_MAX: usize = 64;
/// Links of one host.
pub const CARDS_MAX: usize = base::PORTS_MAX;
/// Links of one scenario.
pub const LINKS_MAX: usize = 512;
/// Applications of one scenario.
pub const APPS_MAX: usize = 200;
/// Flows of all applications of one scenario.
pub const FLOWS_MAX: u32 = 4096;
/// Lines of a time line.
pub const MOMENTS_MAX: usize = 10_000;
/// Expectations of one scenario.
pub const EXPECTS_MAX: usize = 1000;
/// Variants of one scenario.
pub const VARIANTS_MAX: usize = 64;

/// A scenario, ready to run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// As the file was named.
    pub file: String,
    /// `name`, or the file's.
    pub name: String,
    /// `about`; empty if there is none.
    pub about: String,
    /// Ascending or as listed, none twice.
    pub seeds: Vec<u64>,
    /// `None`: until all applications have ended, at most [`DURATION_MAX`].
    pub duration: Option<Duration>,
    /// What is measured begins here.
    pub warmup: Duration,
    /// In the order of the file.
    pub hosts: Vec<HostSpec>,
    /// In the order of the file.
    pub routers: Vec<RouterConfig>,
    /// In the order of the file.
    pub links: Vec<LinkSpec>,
    /// In the order of the file.
    pub apps: Vec<AppSpec>,
    /// In the order of time.
    pub timeline: Vec<Moment>,
    /// In the order of the file.
    pub expects: Vec<Expect>,
    /// In the order of the file; none: one run per seed, as the file stands.
    pub variants: Vec<VariantSpec>,
    /// What the file asks for and does not exist here. Unless this is empty, the scenario cannot run.
    pub unsupported: Vec<Fault>,
}

/// A knob with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// As written.
    pub knob: String,
    /// As text.
    pub value: String,
}

/// A host.
#[derive(Clone, Debug)]
pub struct HostSpec {
    /// Its name.
    pub name: String,
    /// Empty: chosen.
    pub addresses: Vec<LocalAddress>,
    /// The defaults of its knobs.
    pub profile: Profile,
    /// Its knobs when the run begins, per variant (or one entry without variants).
    pub knobs: Vec<Knobs>,
    /// One per link, in the order of the links.
    pub cards: Vec<Card>,
}

/// A card of a host.
#[derive(Clone, Debug)]
pub struct Card {
    /// Index in [`Scenario::links`].
    pub link: usize,
    /// At least one.
    pub addresses: Vec<LocalAddress>,
    /// Largest IP packet that it sends.
    pub mtu: u16,
    /// Next hop for all that is not on the link.
    pub gateway4: Option<Ipv4Addr>,
    /// The same over IPv6.
    pub gateway6: Option<Ipv6Addr>,
}

/// All ways to share equal costs, by their names in files.
pub const ECMP_NAMES: [(&str, Ecmp); 5] = [
    ("five-tuple", Ecmp::FiveTuple),
    ("flowlabel", Ecmp::FlowLabel),
    ("outer-port", Ecmp::OuterPort),
    ("flowlet", Ecmp::Flowlet),
    ("spray", Ecmp::Spray),
];

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Index in [`Scenario::hosts`].
    Host(usize),
    /// Index in [`Scenario::routers`].
    Router(usize),
}

/// A link.
#[derive(Clone, Debug)]
pub struct LinkSpec {
    /// `id`, or a name made of its ends: `s1-s2`, and from the second parallel link on `s1-s2#2`.
    pub id: String,
    /// Its ends.
    pub between: [Place; 2],
    /// From the first end to the second.
    pub forward: LinkConfig,
    /// From the second end to the first.
    pub reverse: LinkConfig,
}

/// An application.
#[derive(Clone, Debug)]
pub struct AppSpec {
    /// Its name.
    pub name: String,
    /// The host that opens its flows.
    pub from: usize,
    /// The host that they go to.
    pub to: usize,
    /// The address that they go to.
    pub target: IpAddr,
    /// What the flows do.
    pub traffic: traffic::Spec,
}

/// A line of the time line.
#[derive(Clone, Debug)]
pub struct Moment {
    /// When.
    pub time: Duration,
    /// What.
    pub action: Action,
}

/// What happens.
#[derive(Clone, Debug)]
pub enum Action {
    /// A link changes from now on.
    Link {
        /// Index in [`Scenario::links`].
        link: usize,
        /// Changes of its direction from the first end to the second.
        forward: Vec<LinkChange>,
        /// Changes of the other one.
        reverse: Vec<LinkChange>,
    },
    /// Knobs change.
    Sysctl {
        /// Index in [`Scenario::hosts`].
        host: usize,
        /// Which.
        settings: Vec<Setting>,
    },
    /// A host does not run.
    Stall {
        /// Index in [`Scenario::hosts`].
        host: usize,
        /// For how long.
        time: Duration,
    },
}

/// A variant. What it changes is already in [`HostSpec::knobs`].
#[derive(Clone, Debug)]
pub struct VariantSpec {
    /// Its name.
    pub name: String,
}

impl Scenario {
    /// The variants that are run: `None` alone if there are none.
    pub fn variant_indices(&self) -> Vec<Option<usize>> {
        if self.variants.is_empty() {
            vec![None]
        } else {
            (0..self.variants.len()).map(Some).collect()
        }
    }

    /// The name of a variant.
    pub fn variant_name(&self, variant: Option<usize>) -> Option<&str> {
        variant.and_then(|v| self.variants.get(v)).map(|v| v.name.as_str())
    }

    /// The times that expectations name, ascending, none twice.
    pub fn moments(&self) -> Vec<Duration> {
        let measures = self.expects.iter().flat_map(Expect::measures);
        let mut times: Vec<Duration> = measures.filter_map(|m| m.at).collect();
        times.sort_unstable();
        times.dedup();
        times
    }

    /// Flows of all applications, with the index of the application and of the flow in it.
    pub fn flows(&self) -> impl Iterator<Item = (usize, u32)> {
        self.apps
            .iter()
            .enumerate()
            .flat_map(|(app, spec)| (0..spec.traffic.flows).map(move |f| (app, f)))
    }
}

/// Congestion controls that the notation knows and the engine does not have yet.
pub(super) const LATER_CONGESTION: [&str; 7] =
    ["bbr", "bbr1", "bbr2", "bbr3", "prague", "vegas", "westwood"];

/// The congestion control called `name`.
pub(super) fn congestion(name: &str) -> Option<CongestionAlgorithm> {
    CongestionAlgorithm::ALL.iter().find(|(n, _)| *n == name).map(|(_, a)| *a)
}
