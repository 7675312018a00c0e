//! Packetdrill scripts in virtual time.
//!
//! [`lang`] reads scripts; it knows nothing of the stack. What runs them:
//!
//! ```text
//! script --> runner --> flow: the script's numbers <-> those of the wire
//!              |   \
//!              |    compare: what was expected, what came, the difference
//!              v
//!            target: one stack in virtual time, whose network is the script,
//!                    and whose application is the sockets
//! ```

pub mod compare;
pub mod flow;
mod icmp;
pub mod inbound;
pub mod lang;
pub mod net;
pub mod outcome;
mod runner;
mod shell;
mod support;
mod syscall;
pub mod target;
mod variables;

use core::net::SocketAddr;
use core::time::Duration;

use base::Instant;
use stack::LocalAddress;

use lang::ast::Script;
use lang::{Definitions, IpVersion, ScriptError, Settings};
pub use outcome::{Bad, Failure, Mismatch, Outcome, Verdict};
use runner::Runner;
use target::{Target, TargetConfig};

/// Seed of the stack under test: a script is no random test.
const SEED: u64 = 0x0064_7269_6c6c;

/// What is the same for a script however it is run.
#[derive(Clone, Debug, Default)]
pub struct Invocation {
    /// Options with their values, which win over those of the script.
    pub options: Vec<(String, Option<String>)>,
    /// `-D`: `SYM=value`.
    pub defines: Vec<String>,
    /// Keep all frames.
    pub frames: bool,
}

/// One of the runs that the public runner makes of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Variant {
    /// Family of sockets and packets.
    pub ip_version: IpVersion,
}

impl Variant {
    /// All of them.
    pub const ALL: [Self; 3] = [
        Self { ip_version: IpVersion::Ipv4 },
        Self { ip_version: IpVersion::Ipv6 },
        Self { ip_version: IpVersion::Ipv4MappedIpv6 },
    ];

    /// As the option has it.
    pub const fn name(self) -> &'static str {
        self.ip_version.name()
    }

    /// Options and symbols of the public runner for this variant.
    pub fn apply(self, invocation: &mut Invocation) {
        let v6 = self.ip_version.packets_are_ipv6();
        let (local, remote) = if v6 {
            ("fd3d:0a0b:17d6::1", "fd3d:fa7b:d17d::1")
        } else {
            ("192.168.0.1", "192.0.2.1")
        };
        let mut set = |name: &str, value: &str| {
            let given = invocation.options.iter().any(|(n, _)| n == name);
            if !given {
                invocation.options.push((name.into(), Some(value.into())));
            }
        };
        set("ip_version", self.name());
        set("local_ip", local);
        set("remote_ip", remote);
        if v6 {
            // The same MSS with a header that is twenty bytes longer.
            set("mtu", "1520");
        }
        let sockets6 = self.ip_version.sockets_are_ipv6();
        let mut symbols = vec![
            if v6 { "TFO_COOKIE=c1d1e9742a47a9bc" } else { "TFO_COOKIE=3021b9d889017eeb" },
            if sockets6 { "CMSG_LEVEL_IP=SOL_IPV6" } else { "CMSG_LEVEL_IP=SOL_IP" },
            if sockets6 {
                "CMSG_TYPE_RECVERR=IPV6_RECVERR"
            } else {
                "CMSG_TYPE_RECVERR=IP_RECVERR"
            },
        ];
        if !v6 {
            symbols.push("CODE=host_unreachable");
        }
        // Those of the command line come later and win.
        let given = core::mem::take(&mut invocation.defines);
        invocation.defines = symbols.into_iter().map(str::to_owned).chain(given).collect();
    }
}

/// The variants in which a script is to be run: one if it says itself which, or if its name ends in `v4`
/// or `v6`, as the public runner has it.
pub fn variants(file: &str, text: &str) -> Vec<Variant> {
    let stem = file.strip_suffix(".pkt").unwrap_or(file);
    let fixed = match lang::parse(text, &Definitions::default()) {
        Ok(script) => script.options.iter().rev().find_map(|option| {
            let value = option.value.as_deref().map(|v| v.trim_matches('"'));
            let named = Variant::ALL.into_iter().find(|variant| value == Some(variant.name()));
            named.filter(|_| option.name == "ip_version")
        }),
        // It may need symbols; whether it is a script at all shows when it runs.
        Err(_) => None,
    };
    if let Some(fixed) = fixed {
        return vec![fixed];
    }
    Variant::ALL
        .into_iter()
        .filter(|variant| {
            let v6 = variant.ip_version.packets_are_ipv6();
            !(v6 && stem.ends_with("v4") || !v6 && stem.ends_with("v6"))
        })
        .collect()
}

/// A script with everything that was said about it.
struct Loaded {
    script: Script,
    settings: Settings,
}

fn load(text: &str, invocation: &Invocation) -> Result<Loaded, ScriptError> {
    let mut definitions = Definitions::default();
    for define in &invocation.defines {
        definitions
            .define(define)
            .map_err(|message| ScriptError::new(lang::ast::Span::default(), message))?;
    }
    let script = lang::parse(text, &definitions)?;
    let options = invocation.options.iter().map(|(name, value)| (name.as_str(), value.as_deref()));
    let settings = Settings::for_script(&script, options)?;
    Ok(Loaded { script, settings })
}

/// A script that can be run, or why not.
fn check(file: &str, text: &str, invocation: &Invocation) -> Result<Loaded, Verdict> {
    let loaded = load(text, invocation).map_err(|error| {
        let rendered = error.render(file, text);
        Verdict::Bad(Box::new(Bad { error, rendered }))
    })?;
    let missing = support::missing(&loaded.script, &loaded.settings);
    if missing.is_empty() { Ok(loaded) } else { Err(Verdict::Unsupported(missing)) }
}

/// Whether a script could be run; nothing is. `file` is for messages.
pub fn dry_run(file: &str, text: &str, invocation: &Invocation) -> Verdict {
    match check(file, text, invocation) {
        Ok(_) => Verdict::Passed,
        Err(verdict) => verdict,
    }
}

/// Run a script. `file` is for messages.
pub fn run(file: &str, text: &str, invocation: &Invocation) -> Outcome {
    let end = |verdict| Outcome {
        verdict,
        warnings: Vec::new(),
        log: Vec::new(),
        elapsed: Duration::ZERO,
        frames: Vec::new(),
    };
    let Loaded { script, settings } = match check(file, text, invocation) {
        Ok(loaded) => loaded,
        Err(verdict) => return end(verdict),
    };
    if settings.dry_run {
        return end(Verdict::Passed);
    }
    let local = settings.local_address();
    let config = TargetConfig {
        addresses: vec![LocalAddress {
            addr: local,
            prefix: if local.is_ipv4() { 16 } else { 64 },
        }],
        mtu: u16::try_from(settings.mtu).unwrap_or(u16::MAX),
        knobs: target::linux_knobs(),
        seed: SEED,
    };
    let app = Box::new(sockets::Sockets::default());
    let target = match Target::new(config, app, invocation.frames) {
        Ok(target) => target,
        Err(restless) => {
            let at = restless.at.since(target::START);
            let what = "the stack does not come to rest at its start";
            let failure = Failure::new(lang::ast::Span::default(), at, what);
            return end(Verdict::Failed(Box::new(failure)));
        }
    };
    let ends = (
        SocketAddr::new(local, settings.bind_port),
        SocketAddr::new(settings.remote_address(), settings.connect_port),
    );
    let mut runner = Runner::new(&script, &settings, target, ends);
    let result = runner.run();
    let elapsed = runner.now();
    let frames: Vec<(Instant, Vec<u8>)> = runner.target.take_trace();
    Outcome {
        verdict: match result {
            Ok(()) => Verdict::Passed,
            Err(failure) => Verdict::Failed(failure),
        },
        warnings: runner.warnings,
        log: runner.log,
        elapsed,
        frames,
    }
}
