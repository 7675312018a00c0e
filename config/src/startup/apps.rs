//! The applications that a file may name.

use core::net::IpAddr;
use core::time::Duration;

use stack::LocalAddress;

use super::raw::{Located, RawApp};
use super::units;
use crate::ConfigError;
use crate::error::{Place, Text};
use crate::text::{nearest, quote};

/// An application that listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppConfig {
    /// What it is, with what only this kind has.
    pub kind: AppKind,
    /// The port that it listens on, never 0.
    pub port: u16,
    /// The address that it listens at; `None` is all of ours.
    pub bind: Option<IpAddr>,
}

/// Kinds of applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppKind {
    /// A server for iperf3 clients.
    IperfServer {
        /// End after one test.
        one_off: bool,
        /// End a test in which nothing happens for so long; `None` waits.
        idle_timeout: Option<Duration>,
    },
    /// Sends back what it receives, RFC 862.
    Echo,
    /// Throws away what it receives, RFC 863.
    Discard,
    /// Answers requests of `millrace rr`.
    RrServer,
}

/// Names and usual ports.
const KINDS: [(&str, u16, AppKind); 4] = [
    ("iperf-server", 5201, AppKind::IperfServer { one_off: false, idle_timeout: None }),
    ("echo", 7, AppKind::Echo),
    ("discard", 9, AppKind::Discard),
    ("rr-server", 5210, AppKind::RrServer),
];

impl AppKind {
    /// The name used in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::IperfServer { .. } => "iperf-server",
            Self::Echo => "echo",
            Self::Discard => "discard",
            Self::RrServer => "rr-server",
        }
    }
}

/// Longest time that an application may be told to wait.
const IDLE_TIMEOUT_MAX: Duration = Duration::from_secs(86_400);

pub(super) fn resolve(
    raw: &Located<RawApp>,
    source: Text<'_>,
    addresses: &[LocalAddress],
) -> Result<AppConfig, ConfigError> {
    // Without `..`: a new key must be looked at here.
    let RawApp { kind, port, bind, one_off, idle_timeout } = &raw.value;
    let names = KINDS.map(|(name, ..)| name);
    let Some(kind) = kind else {
        return Err(source
            .error(&raw.at, "kind", "the application has no kind")
            .help(format!("kinds: {}", names.join(", "))));
    };
    let Some((_, usual_port, mut app)) = KINDS.into_iter().find(|(name, ..)| *name == kind.value)
    else {
        let mut what = format!("there is no application {}", quote(&kind.value));
        if let Some(near) = nearest(&kind.value, names) {
            what.push_str(&format!(": did you mean {near}?"));
        }
        return Err(source
            .error(&kind.at, "kind", what)
            .help(format!("kinds: {}", names.join(", "))));
    };
    let stray = |at: &Place, key: &str| {
        source.error(at, key, format!("does not belong to kind = \"{}\"", kind.value))
    };
    match &mut app {
        AppKind::IperfServer { one_off: once, idle_timeout: limit } => {
            *once = one_off.as_ref().is_some_and(|o| o.value);
            if let Some(text) = idle_timeout {
                match units::time(&text.value.to_string()) {
                    Some(t) if !t.is_zero() && t <= IDLE_TIMEOUT_MAX => *limit = Some(t),
                    _ => {
                        return Err(source.error(
                            &text.at,
                            "idle_timeout",
                            format!("{} is not a time up to 24h", quote(&text.value.to_string())),
                        ));
                    }
                }
            }
        }
        AppKind::Echo | AppKind::Discard | AppKind::RrServer => {
            if let Some(key) = one_off {
                return Err(stray(&key.at, "one_off"));
            }
            if let Some(key) = idle_timeout {
                return Err(stray(&key.at, "idle_timeout"));
            }
        }
    }
    let port = match port {
        None => usual_port,
        Some(n) => match u16::try_from(n.value) {
            Ok(port @ 1..) => port,
            Ok(0) | Err(_) => {
                return Err(source.error(&n.at, "port", format!("{} is not in 1..65535", n.value)));
            }
        },
    };
    let bind = match bind {
        None => None,
        Some(text) => match text.value.parse::<IpAddr>() {
            Ok(addr) if addresses.iter().any(|a| a.addr == addr) => Some(addr),
            Ok(_) => {
                return Err(source.error(
                    &text.at,
                    "bind",
                    format!("{} is not an address of a port", quote(&text.value)),
                ));
            }
            Err(_) => {
                return Err(source.error(
                    &text.at,
                    "bind",
                    format!("{} is not an address", quote(&text.value)),
                ));
            }
        },
    };
    Ok(AppConfig { kind: app, port, bind })
}

/// Whether two applications would listen at the same place.
pub(super) fn collide(a: &AppConfig, b: &AppConfig) -> bool {
    a.port == b.port && (a.bind.is_none() || b.bind.is_none() || a.bind == b.bind)
}
