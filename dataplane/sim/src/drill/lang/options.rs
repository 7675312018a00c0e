//! Options of scripts and of the command line.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use std::collections::BTreeMap;

use super::ast::{Script, Span, Unsupported};
use super::error::ScriptError;
use super::lexer::{TokenKind, is_word, tokens};

/// User symbols: `SYM=value`, `SYM="text"`, `SYM=` and a command in back quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definitions {
    values: BTreeMap<String, String>,
}

impl Definitions {
    /// Takes `SYM=value`; a later one wins. The error says what is wrong.
    pub fn define(&mut self, text: &str) -> Result<(), String> {
        let (name, value) =
            text.split_once('=').ok_or_else(|| format!("'{text}' should be SYMBOL=value"))?;
        let (name, value) = (name.trim(), value.trim());
        if name.is_empty() || !name.chars().all(is_word) {
            return Err(format!("'{name}' is no symbol: letters, digits and '_' only"));
        }
        if single_token(value).is_none() {
            return Err(format!(
                "'{value}' is no value for {name}: a number, a word, \"text\" or `command`"
            ));
        }
        self.values.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    /// Takes over the symbols of another set, which win.
    pub fn extend(&mut self, other: &Self) {
        self.values.extend(other.values.iter().map(|(name, value)| (name.clone(), value.clone())));
    }

    /// The text of a symbol.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// What replaces a word.
    pub(super) fn token(&self, name: &str) -> Option<TokenKind> {
        self.get(name).and_then(single_token)
    }
}

fn single_token(value: &str) -> Option<TokenKind> {
    let mut tokens = tokens(value).ok()?;
    tokens.pop();
    let kind = tokens.pop()?.kind;
    let known = matches!(
        kind,
        TokenKind::Integer(_)
            | TokenKind::Hex(_)
            | TokenKind::Word(_)
            | TokenKind::Text(_)
            | TokenKind::BackQuoted(_)
    );
    (tokens.is_empty() && known).then_some(kind)
}

/// Which addresses and which sockets a script uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IpVersion {
    /// `ipv4`.
    #[default]
    Ipv4,
    /// `ipv6`.
    Ipv6,
    /// `ipv4-mapped-ipv6`: IPv6 sockets, IPv4 packets.
    Ipv4MappedIpv6,
}

impl IpVersion {
    /// Whether packets are IPv6.
    pub const fn packets_are_ipv6(self) -> bool {
        matches!(self, Self::Ipv6)
    }

    /// Whether sockets are of family `AF_INET6`.
    pub const fn sockets_are_ipv6(self) -> bool {
        !matches!(self, Self::Ipv4)
    }

    /// The name that the option has.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Ipv4MappedIpv6 => "ipv4-mapped-ipv6",
        }
    }
}

/// Everything that options set. Defaults are packetdrill's, with fixed addresses instead of random
/// ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `ip_version`.
    pub ip_version: IpVersion,
    /// `bind_port`: the port of our sockets.
    pub bind_port: u16,
    /// `connect_port`: the port that they connect to.
    pub connect_port: u16,
    /// `local_ip`: ours; `None` means [`Settings::local_address`] chooses.
    pub local_ip: Option<IpAddr>,
    /// `remote_ip`: the peer's.
    pub remote_ip: Option<IpAddr>,
    /// Length of the prefix after `remote_ip`.
    pub remote_prefix_len: Option<u8>,
    /// `gateway_ip`.
    pub gateway_ip: Option<IpAddr>,
    /// `netmask_ip`.
    pub netmask_ip: Option<Ipv4Addr>,
    /// `mtu` of the device, in bytes.
    pub mtu: u32,
    /// `mss` of aggregated input, in bytes.
    pub mss: Option<u16>,
    /// `speed` of the device, in Mbit/s.
    pub speed: Option<u32>,
    /// `tolerance_usecs`.
    pub tolerance: Duration,
    /// `tolerance_percent`, in thousandths of a percent.
    pub tolerance_millipercent: u32,
    /// `tcp_ts_tick_usecs`; zero: TSval is not checked against time.
    pub tcp_ts_tick: Duration,
    /// `tcp_ts_ecr_scaled`.
    pub tcp_ts_ecr_scaled: bool,
    /// `strict_segments`.
    pub strict_segments: bool,
    /// `non_fatal=packet`: packet mismatches are warnings.
    pub non_fatal_packet: bool,
    /// `non_fatal=syscall`: results of calls that differ are warnings.
    pub non_fatal_syscall: bool,
    /// `send_omit_free`.
    pub send_omit_free: bool,
    /// `code_sockopt`: what snippets see; `TCP_INFO` when empty.
    pub code_sockopt: String,
    /// `init_scripts`: shell commands that run first.
    pub init_scripts: Vec<String>,
    /// `udp_encaps` and `psp_udp_port`, a port.
    pub psp_udp_port: Option<u16>,
    /// `verbose`.
    pub verbose: bool,
    /// `dry_run`: parse only.
    pub dry_run: bool,
    /// Symbols.
    pub definitions: Definitions,
    /// Options that are known and do nothing here, in their order.
    pub unsupported: Vec<Unsupported>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ip_version: IpVersion::Ipv4,
            bind_port: 8080,
            connect_port: 8080,
            local_ip: None,
            remote_ip: None,
            remote_prefix_len: None,
            gateway_ip: None,
            netmask_ip: None,
            mtu: 1500,
            mss: None,
            speed: None,
            tolerance: Duration::from_micros(4000),
            tolerance_millipercent: 12_500,
            tcp_ts_tick: Duration::ZERO,
            tcp_ts_ecr_scaled: false,
            strict_segments: false,
            non_fatal_packet: false,
            non_fatal_syscall: false,
            send_omit_free: false,
            code_sockopt: String::new(),
            init_scripts: Vec::new(),
            psp_udp_port: None,
            verbose: false,
            dry_run: false,
            definitions: Definitions::default(),
            unsupported: Vec::new(),
        }
    }
}

/// Options that packetdrill has and that make no sense for an engine in this process, or that are
/// not there yet: they change what a script tests, so that ignoring them would be wrong.
const UNSUPPORTED: &[&str] = &[
    "wire_client",
    "wire_server",
    "wire_server_at",
    "wire_server_ip",
    "wire_server_port",
    "wire_server_dev",
    "wire_client_dev",
    "so_filename",
    "so_flags",
    "is_anyip",
    "udp_encaps",
];

/// Options that only choose how packetdrill itself works; nothing is lost without them.
const IRRELEVANT: &[&str] =
    &["code_command", "code_format", "debug", "persistent_tun_dev", "tun_dev"];

/// All other options, for suggestions.
const KNOWN: &[&str] = &[
    "ip_version",
    "bind_port",
    "connect_port",
    "local_ip",
    "remote_ip",
    "gateway_ip",
    "netmask_ip",
    "mtu",
    "mss",
    "speed",
    "tolerance_usecs",
    "tolerance_percent",
    "tcp_ts_tick_usecs",
    "tcp_ts_ecr_scaled",
    "strict_segments",
    "non_fatal",
    "send_omit_free",
    "code_sockopt",
    "init_scripts",
    "psp_udp_port",
    "verbose",
    "dry_run",
    "define",
];

/// Smallest and largest MTU that is taken.
const MTU_RANGE: core::ops::RangeInclusive<u32> = 68..=65_535;

impl Settings {
    /// The settings of a script: its own options, then those of the command line, which win.
    pub fn for_script<'a>(
        script: &Script,
        command_line: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
    ) -> Result<Self, ScriptError> {
        let mut settings = Self::default();
        for option in &script.options {
            settings
                .apply(&option.name, option.value.as_deref(), option.span)
                .map_err(|message| ScriptError::new(option.span, message))?;
        }
        for (name, value) in command_line {
            let span = Span::default();
            settings.apply(name, value, span).map_err(|text| ScriptError::new(span, text))?;
        }
        settings.check().map_err(|message| {
            let span = script.options.first().map_or(Span::default(), |option| option.span);
            ScriptError::new(span, message)
        })?;
        Ok(settings)
    }

    /// Whether an option of this name exists and takes a value.
    pub fn takes_value(name: &str) -> Option<bool> {
        if matches!(
            name,
            "tcp_ts_ecr_scaled"
                | "strict_segments"
                | "send_omit_free"
                | "verbose"
                | "dry_run"
                | "debug"
                | "wire_client"
                | "wire_server"
                | "is_anyip"
        ) {
            return Some(false);
        }
        let known = [KNOWN, UNSUPPORTED, IRRELEVANT].iter().any(|list| list.contains(&name));
        known.then_some(true)
    }

    /// Sets one option. The error says what is wrong with it.
    pub fn apply(&mut self, name: &str, value: Option<&str>, span: Span) -> Result<(), String> {
        let Some(takes_value) = Self::takes_value(name) else {
            let all = [KNOWN, UNSUPPORTED, IRRELEVANT].concat();
            let close = all
                .iter()
                .map(|known| (strsim::damerau_levenshtein(known, name), known))
                .min()
                .filter(|(distance, _)| *distance <= 3);
            let hint = close.map_or(String::new(), |(_, known)| format!("; is it '--{known}'?"));
            return Err(format!("unknown option '--{name}'{hint}"));
        };
        if UNSUPPORTED.contains(&name) {
            let what = format!("option --{name}");
            self.unsupported.push(Unsupported { what, span });
            return Ok(());
        }
        if IRRELEVANT.contains(&name) {
            return Ok(());
        }
        if !takes_value {
            let on = switch(name, value)?;
            match name {
                "tcp_ts_ecr_scaled" => self.tcp_ts_ecr_scaled = on,
                "strict_segments" => self.strict_segments = on,
                "send_omit_free" => self.send_omit_free = on,
                "verbose" => self.verbose = on,
                _ => self.dry_run = on,
            }
            return Ok(());
        }
        let Some(value) = value.map(unquote) else {
            return Err(format!("option '--{name}' needs a value"));
        };
        self.apply_value(name, value)
    }

    fn apply_value(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "ip_version" => {
                self.ip_version = match value {
                    "ipv4" => IpVersion::Ipv4,
                    "ipv6" => IpVersion::Ipv6,
                    "ipv4-mapped-ipv6" => IpVersion::Ipv4MappedIpv6,
                    _ => {
                        return Err(format!(
                            "'{value}' is no IP version: ipv4, ipv6 or ipv4-mapped-ipv6"
                        ));
                    }
                }
            }
            "bind_port" => self.bind_port = number(name, value, 1, u32::from(u16::MAX))? as u16,
            "connect_port" => {
                self.connect_port = number(name, value, 1, u32::from(u16::MAX))? as u16;
            }
            "psp_udp_port" => {
                self.psp_udp_port = Some(number(name, value, 1, u32::from(u16::MAX))? as u16);
            }
            "local_ip" => self.local_ip = Some(address(name, value)?),
            "gateway_ip" => self.gateway_ip = Some(address(name, value)?),
            "remote_ip" => {
                let (ip, len) = match value.split_once('/') {
                    Some((ip, len)) => (ip, Some(number(name, len, 0, 128)? as u8)),
                    None => (value, None),
                };
                let ip = address(name, ip)?;
                if len.is_some_and(|len| ip.is_ipv4() && len > 32) {
                    return Err(format!("'{value}': an IPv4 prefix has at most 32 bits"));
                }
                (self.remote_ip, self.remote_prefix_len) = (Some(ip), len);
            }
            "netmask_ip" => match address(name, value)? {
                IpAddr::V4(mask) => self.netmask_ip = Some(mask),
                IpAddr::V6(_) => return Err(format!("'{value}' is no IPv4 netmask")),
            },
            "mtu" => self.mtu = number(name, value, *MTU_RANGE.start(), *MTU_RANGE.end())?,
            "mss" => self.mss = Some(number(name, value, 1, u32::from(u16::MAX))? as u16),
            "speed" => self.speed = Some(number(name, value, 0, u32::MAX)?),
            "tolerance_usecs" => {
                self.tolerance = Duration::from_micros(number(name, value, 0, u32::MAX)?.into());
            }
            "tolerance_percent" => self.tolerance_millipercent = millipercent(value)?,
            "tcp_ts_tick_usecs" => {
                self.tcp_ts_tick = Duration::from_micros(number(name, value, 0, 1_000_000)?.into());
            }
            "non_fatal" => {
                for part in value.split(',') {
                    match part.trim() {
                        "packet" | "packets" => self.non_fatal_packet = true,
                        "syscall" | "syscalls" => self.non_fatal_syscall = true,
                        other => {
                            return Err(format!("'{other}' cannot be non-fatal: packet, syscall"));
                        }
                    }
                }
            }
            "code_sockopt" => value.clone_into(&mut self.code_sockopt),
            "init_scripts" => {
                self.init_scripts.extend(value.split(',').map(|text| text.trim().to_owned()));
            }
            "define" => self.definitions.define(value)?,
            _ => return Err(format!("unknown option '--{name}'")),
        }
        Ok(())
    }

    /// What only shows when all options are known.
    fn check(&self) -> Result<(), String> {
        let ipv6 = self.ip_version.packets_are_ipv6();
        for (name, ip) in [
            ("local_ip", self.local_ip),
            ("remote_ip", self.remote_ip),
            ("gateway_ip", self.gateway_ip),
        ] {
            if let Some(ip) = ip.filter(|ip| ip.is_ipv6() != ipv6) {
                let version = self.ip_version.name();
                return Err(format!("--{name}={ip} does not fit --ip_version={version}"));
            }
        }
        Ok(())
    }

    /// Our address.
    pub fn local_address(&self) -> IpAddr {
        const LOCAL_V4: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 1);
        const LOCAL_V6: Ipv6Addr = Ipv6Addr::new(0xfd3d, 0xfa7b, 0xd17d, 0x8888, 0, 0, 0, 1);
        let ipv6 = self.ip_version.packets_are_ipv6();
        self.local_ip.unwrap_or(if ipv6 { LOCAL_V6.into() } else { LOCAL_V4.into() })
    }

    /// The peer's address.
    pub fn remote_address(&self) -> IpAddr {
        const REMOTE_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
        const REMOTE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0x0db8, 0, 0, 0, 0, 0, 1);
        let ipv6 = self.ip_version.packets_are_ipv6();
        self.remote_ip.unwrap_or(if ipv6 { REMOTE_V6.into() } else { REMOTE_V4.into() })
    }

    /// How far from its time something may happen that comes `gap` after the event before it.
    pub fn tolerance_after(&self, gap: Duration) -> Duration {
        let share =
            gap.as_nanos().saturating_mul(u128::from(self.tolerance_millipercent)) / 100_000;
        self.tolerance.max(Duration::from_nanos(u64::try_from(share).unwrap_or(u64::MAX)))
    }
}

fn unquote(value: &str) -> &str {
    value.strip_prefix('"').and_then(|inner| inner.strip_suffix('"')).unwrap_or(value)
}

fn switch(name: &str, value: Option<&str>) -> Result<bool, String> {
    match value {
        None | Some("1" | "true" | "on") => Ok(true),
        Some("0" | "false" | "off") => Ok(false),
        Some(other) => Err(format!("'{other}' is no value for '--{name}', which is a switch")),
    }
}

fn number(name: &str, value: &str, min: u32, max: u32) -> Result<u32, String> {
    let parsed = match value.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => value.parse().ok(),
    };
    parsed
        .filter(|number| (min..=max).contains(number))
        .ok_or_else(|| format!("'{value}' is no value for '--{name}': {min} to {max}"))
}

fn address(name: &str, value: &str) -> Result<IpAddr, String> {
    value.parse().map_err(|_| format!("'{value}' is no address for '--{name}'"))
}

/// A percentage with up to three digits after the point.
fn millipercent(value: &str) -> Result<u32, String> {
    let refuse = || format!("'{value}' is no percentage: 0 to 1000, at most three decimals");
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    let digits = fraction.len();
    if digits > 3 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(refuse());
    }
    let whole: u32 = whole.parse().map_err(|_| refuse())?;
    let fraction: u32 = format!("{fraction:0<3}").parse().map_err(|_| refuse())?;
    if whole > 1000 {
        return Err(refuse());
    }
    Ok(whole.saturating_mul(1000).saturating_add(fraction))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(options: &[(&str, Option<&str>)]) -> Result<Settings, String> {
        let script = Script::default();
        Settings::for_script(&script, options.iter().copied()).map_err(|error| error.message)
    }

    #[test]
    fn options_set_what_they_name() {
        let settings = applied(&[
            ("ip_version", Some("ipv6")),
            ("mtu", Some("1520")),
            ("tolerance_percent", Some("12.25")),
            ("tolerance_usecs", Some("10000")),
            ("remote_ip", Some("2001:db8::7/32")),
            ("strict_segments", None),
            ("non_fatal", Some("packet,syscall")),
            ("define", Some("A=0x12")),
        ])
        .expect("all are fine");
        assert!(settings.ip_version.packets_are_ipv6() && settings.strict_segments);
        assert_eq!((settings.mtu, settings.tolerance_millipercent), (1520, 12_250));
        assert_eq!(settings.remote_address().to_string(), "2001:db8::7");
        assert_eq!(settings.remote_prefix_len, Some(32));
        assert!(settings.non_fatal_packet && settings.non_fatal_syscall);
        assert_eq!(settings.definitions.token("A"), Some(TokenKind::Hex(0x12)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (name, value, part) in [
            ("tolerance_usec", Some("1"), "is it '--tolerance_usecs'?"),
            ("mtu", Some("3"), "68 to 65535"),
            ("mtu", None, "needs a value"),
            ("strict_segments", Some("x"), "is a switch"),
            ("tolerance_percent", Some("-1"), "no percentage"),
            ("local_ip", Some("fd00::1"), "does not fit --ip_version=ipv4"),
            ("define", Some("A B=1"), "no symbol"),
            ("define", Some("A=1 2"), "no value for A"),
            ("remote_ip", Some("10.0.0.1/33"), "at most 32 bits"),
        ] {
            let error = applied(&[(name, value)]).expect_err(name);
            assert!(error.contains(part), "{name}: {error}");
        }
    }

    #[test]
    fn tolerance_is_the_larger_of_a_time_and_a_share() {
        let settings = Settings::default();
        assert_eq!(settings.tolerance_after(Duration::ZERO), Duration::from_millis(4));
        assert_eq!(settings.tolerance_after(Duration::from_secs(1)), Duration::from_millis(125));
    }

    #[test]
    fn options_of_the_tool_itself_are_unsupported_or_ignored() {
        let settings =
            applied(&[("wire_client", None), ("code_command", Some("x"))]).expect("known");
        let what: Vec<_> = settings.unsupported.iter().map(|item| item.what.as_str()).collect();
        assert_eq!(what, ["option --wire_client"]);
    }
}
