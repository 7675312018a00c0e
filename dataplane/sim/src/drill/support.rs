//! What a script needs that does not exist here: found before anything runs, so that no assertion is ever
//! skipped.

use super::lang::ast::{Encapsulation, Packet, PacketBody, Script, Syscall, Unsupported};
use super::lang::{self, Capabilities, Settings, shell as idioms};
use super::{shell, syscall, variables};

struct Here;

impl Capabilities for Here {
    fn packet(&self, packet: &Packet) -> Result<(), String> {
        if let Some(outer) = packet.encapsulation.first() {
            let name = match outer {
                Encapsulation::Ipv4 { .. } | Encapsulation::Ipv6 { .. } => "IP in IP",
                Encapsulation::Gre(_) => "GRE",
                Encapsulation::Mpls(_) => "MPLS",
            };
            return Err(format!("encapsulation in {name}"));
        }
        if packet.psp_spi.is_some() {
            return Err("encapsulation in PSP".into());
        }
        match &packet.body {
            PacketBody::Udp { .. } => Err("UDP".into()),
            PacketBody::Tcp(_) | PacketBody::Icmp(_) => Ok(()),
        }
    }

    fn syscall(&self, call: &Syscall) -> Result<(), String> {
        match syscall::unsupported(call) {
            Some(syscall::Refused::Unsupported(what)) => Err(what),
            // What makes no sense fails when it is run.
            Some(syscall::Refused::Bad(_)) | None => Ok(()),
        }
    }

    fn step(&self, step: &idioms::Step) -> Result<(), String> {
        match shell::unsupported(&step.action) {
            Some(what) => Err(what),
            None => Ok(()),
        }
    }

    fn variable(&self, name: &str) -> Result<(), String> {
        if variables::exists(name) { Ok(()) } else { Err(format!("the variable {name}")) }
    }
}

/// Everything in `script` that is missing here, in the order of the file.
pub(super) fn missing(script: &Script, settings: &Settings) -> Vec<Unsupported> {
    let mut found = lang::unsupported(script, &Here);
    found.extend(settings.unsupported.iter().filter(|u| u.span.line == 0).cloned());
    let option = |what: &str| Unsupported { what: what.into(), span: lang::ast::Span::default() };
    if !matches!(settings.code_sockopt.as_str(), "" | "TCP_INFO") {
        found.push(option(&format!("option --code_sockopt={}", settings.code_sockopt)));
    }
    if settings.psp_udp_port.is_some() {
        found.push(option("option --psp_udp_port"));
    }
    if !settings.init_scripts.is_empty() {
        found.push(option("option --init_scripts"));
    }
    found
}
