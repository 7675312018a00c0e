//! One line per frame, as tcpdump prints it.
//!
//! What cannot be parsed is shown as far as it goes, followed by the name of the reason for which
//! the stack would drop it, in brackets. No bytes whatsoever make this panic.

use core::fmt;
use core::net::IpAddr;

use base::DropReason;

use crate::arp::Operation;
use crate::bytes::{be16, be32};
use crate::ethernet::EtherType;
use crate::icmpv4::Icmpv4Message;
use crate::icmpv6::Icmpv6Message;
use crate::ndp::NdpMessage;
use crate::quote::Quote;
use crate::tcp::TcpHeader;
use crate::{arp, ethernet, icmpv4, icmpv6, ipv4, ipv6, ndp, protocol, tcp, udp};

/// Prints the frame whose bytes, from the Ethernet header on, it holds.
#[derive(Clone, Copy, Debug)]
pub struct PrettyFrame<'a>(pub &'a [u8]);

impl fmt::Display for PrettyFrame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frame = self.0;
        let header = match ethernet::parse(frame) {
            Ok(header) => header,
            Err(reason) => return rejected(f, "Ethernet", reason, frame.len()),
        };
        for tci in [header.vlan, header.inner_vlan].into_iter().flatten() {
            write!(f, "vlan {}, p {}, ", tci & 0xfff, tci >> 13)?;
        }
        let rest = frame.get(header.len..).unwrap_or(&[]);
        match header.ethertype {
            EtherType::IPV4 => print_ipv4(f, rest),
            EtherType::IPV6 => print_ipv6(f, rest),
            EtherType::ARP => print_arp(f, rest),
            other => write!(
                f,
                "{} > {}, ethertype {other:?}, length {}",
                header.src,
                header.dst,
                frame.len()
            ),
        }
    }
}

fn rejected(
    f: &mut fmt::Formatter<'_>,
    layer: &str,
    reason: DropReason,
    len: usize,
) -> fmt::Result {
    write!(f, "{layer} [{}], length {len}", reason.name())
}

fn print_arp(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    match arp::parse(bytes) {
        Err(reason) => rejected(f, "ARP", reason, bytes.len()),
        Ok(p) => match p.operation {
            Operation::Request => {
                write!(
                    f,
                    "ARP, Request who-has {} tell {}, length {}",
                    p.target_ip,
                    p.sender_ip,
                    bytes.len()
                )
            }
            Operation::Reply => {
                write!(
                    f,
                    "ARP, Reply {} is-at {}, length {}",
                    p.sender_ip,
                    p.sender_mac,
                    bytes.len()
                )
            }
        },
    }
}

fn print_ipv4(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    let header = match ipv4::parse(bytes, bytes.len(), false) {
        Ok(header) => header,
        Err(reason) => return rejected(f, "IP", reason, bytes.len()),
    };
    let payload = bytes.get(header.header_len..header.total_len).unwrap_or(&[]);
    f.write_str("IP ")?;
    if let Some(fragment) = header.fragment {
        let more = if fragment.more { "+" } else { "" };
        return write!(
            f,
            "{} > {}: frag ({}:{}@{}{more}), proto {}",
            header.src,
            header.dst,
            header.ident,
            payload.len(),
            fragment.offset,
            header.protocol
        );
    }
    print_transport(f, header.src.into(), header.dst.into(), header.protocol, 0, payload)
}

fn print_ipv6(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    let header = match ipv6::parse(bytes, bytes.len()) {
        Ok(header) => header,
        Err(rejection) => return rejected(f, "IP6", rejection.reason, bytes.len()),
    };
    let payload = bytes.get(header.transport_offset..header.total_len()).unwrap_or(&[]);
    f.write_str("IP6 ")?;
    if let Some(fragment) = header.fragment {
        let more = if fragment.more { "+" } else { "" };
        return write!(
            f,
            "{} > {}: frag (0x{:08x}:{}@{}{more}), next-header {}",
            header.src,
            header.dst,
            fragment.id,
            payload.len(),
            fragment.offset,
            header.protocol
        );
    }
    let (src, dst) = (header.src.into(), header.dst.into());
    print_transport(f, src, dst, header.protocol, header.hop_limit, payload)
}

fn print_transport(
    f: &mut fmt::Formatter<'_>,
    src: IpAddr,
    dst: IpAddr,
    protocol: u8,
    hop_limit: u8,
    payload: &[u8],
) -> fmt::Result {
    match (protocol, src, dst) {
        (protocol::TCP, ..) => print_tcp(f, src, dst, payload),
        (protocol::UDP, ..) => print_udp(f, src, dst, payload),
        (protocol::ICMP, IpAddr::V4(_), _) => {
            write!(f, "{src} > {dst}: ICMP ")?;
            print_icmpv4(f, payload)?;
            write!(f, ", length {}", payload.len())
        }
        (protocol::ICMPV6, IpAddr::V6(src), IpAddr::V6(dst)) => {
            write!(f, "{src} > {dst}: ICMP6, ")?;
            match icmpv6::parse(payload, payload.len()) {
                Ok(Icmpv6Message::Neighbor) => {
                    print_ndp(f, ndp::parse(payload, src, dst, hop_limit))?;
                }
                message => print_icmpv6(f, message)?,
            }
            write!(f, ", length {}", payload.len())
        }
        _ => write!(f, "{src} > {dst}: ip-proto-{protocol} {}", payload.len()),
    }
}

fn print_tcp(f: &mut fmt::Formatter<'_>, src: IpAddr, dst: IpAddr, bytes: &[u8]) -> fmt::Result {
    // The fixed part by itself, so that a segment with bad options still shows its numbers.
    let Some(fixed) = bytes.first_chunk::<{ tcp::HEADER_LEN }>() else {
        write!(f, "{src} > {dst}: ")?;
        return rejected(f, "tcp", DropReason::TcpShort, bytes.len());
    };
    let h: TcpHeader = tcp::fixed_header(fixed);
    write!(f, "{src}.{} > {dst}.{}: ", h.src_port, h.dst_port)?;
    let (Some(options), Some(data)) =
        (bytes.get(tcp::HEADER_LEN..h.header_len), bytes.get(h.header_len..))
    else {
        return rejected(f, "tcp", DropReason::TcpOffset, bytes.len());
    };
    write!(f, "Flags [{}]", h.flags)?;
    if !data.is_empty() {
        write!(f, ", seq {}:{}", h.seq, h.seq.wrapping_add(data.len() as u32))?;
    } else if h.flags.syn() || h.flags.fin() || h.flags.rst() {
        write!(f, ", seq {}", h.seq)?;
    }
    if h.flags.ack() {
        write!(f, ", ack {}", h.ack)?;
    }
    write!(f, ", win {}", h.window)?;
    if h.flags.contains(base::TcpFlags::URG) {
        write!(f, ", urg {}", h.urgent)?;
    }
    if !options.is_empty() {
        f.write_str(", options [")?;
        print_tcp_options(f, options)?;
        f.write_str("]")?;
    }
    write!(f, ", length {}", data.len())?;
    match tcp::parse(bytes, bytes.len()) {
        Err(reason) => write!(f, " [{}]", reason.name()),
        Ok(_) => Ok(()),
    }
}

/// In their order, padding included, up to the first that is malformed.
fn print_tcp_options(f: &mut fmt::Formatter<'_>, mut bytes: &[u8]) -> fmt::Result {
    let mut comma = "";
    while let [kind, rest @ ..] = bytes {
        f.write_str(comma)?;
        comma = ",";
        match *kind {
            0 => return f.write_str("eol"),
            1 => {
                f.write_str("nop")?;
                bytes = rest;
                continue;
            }
            _ => {}
        }
        let len = rest.first().map_or(0, |&len| usize::from(len));
        let Some(value) = bytes.get(2..len) else { return f.write_str("bad") };
        match (*kind, value.len()) {
            (2, 2) => write!(f, "mss {}", be16(value, 0).unwrap_or(0))?,
            (3, 1) => write!(f, "wscale {}", value.first().unwrap_or(&0))?,
            (4, 0) => f.write_str("sackOK")?,
            (5, 8 | 16 | 24 | 32) => {
                write!(f, "sack {} ", value.len() / 8)?;
                for block in value.as_chunks::<8>().0 {
                    let edge = |at| be32(block, at).unwrap_or(0);
                    write!(f, "{{{}:{}}}", edge(0), edge(4))?;
                }
            }
            (8, 8) => {
                let at = |at| be32(value, at).unwrap_or(0);
                write!(f, "TS val {} ecr {}", at(0), at(4))?;
            }
            (19, 16) => f.write_str("md5")?,
            (29, _) => f.write_str("ao")?,
            (kind, len) => write!(f, "opt-{kind} {len}")?,
        }
        bytes = bytes.get(len..).unwrap_or(&[]);
    }
    Ok(())
}

fn print_udp(f: &mut fmt::Formatter<'_>, src: IpAddr, dst: IpAddr, bytes: &[u8]) -> fmt::Result {
    match udp::parse(bytes, bytes.len()) {
        Ok(h) => write!(
            f,
            "{src}.{} > {dst}.{}: UDP, length {}",
            h.src_port,
            h.dst_port,
            h.payload_len()
        ),
        Err(reason) => {
            write!(f, "{src} > {dst}: ")?;
            rejected(f, "UDP", reason, bytes.len())
        }
    }
}

fn print_icmpv4(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    use Icmpv4Message as M;
    match icmpv4::parse(bytes, bytes.len()) {
        Ok(M::EchoRequest { ident, sequence }) => {
            write!(f, "echo request, id {ident}, seq {sequence}")
        }
        Ok(M::EchoReply { ident, sequence }) => write!(f, "echo reply, id {ident}, seq {sequence}"),
        Ok(M::FragmentationNeeded { mtu, quote }) => {
            write!(f, "{} unreachable - need to frag (mtu {mtu})", Quoted(quote))
        }
        Ok(M::Unreachable { code, quote }) => {
            write!(f, "{} unreachable, code {code}", Quoted(quote))
        }
        Ok(M::TimeExceeded { code, quote }) => {
            write!(f, "time exceeded, code {code}, for {}", Quoted(quote))
        }
        Ok(M::ParameterProblem { code, pointer, quote }) => {
            write!(f, "parameter problem, code {code}, octet {pointer}, for {}", Quoted(quote))
        }
        Err(reason) => write!(f, "[{}]", reason.name()),
    }
}

fn print_icmpv6(
    f: &mut fmt::Formatter<'_>,
    message: Result<Icmpv6Message, DropReason>,
) -> fmt::Result {
    use Icmpv6Message as M;
    match message {
        Ok(M::EchoRequest { ident, sequence }) => {
            write!(f, "echo request, id {ident}, seq {sequence}")
        }
        Ok(M::EchoReply { ident, sequence }) => write!(f, "echo reply, id {ident}, seq {sequence}"),
        Ok(M::PacketTooBig { mtu, quote }) => {
            write!(f, "packet too big, mtu {mtu}, for {}", Quoted(quote))
        }
        Ok(M::Unreachable { code, quote }) => {
            write!(f, "{} unreachable, code {code}", Quoted(quote))
        }
        Ok(M::TimeExceeded { code, quote }) => {
            write!(f, "time exceeded, code {code}, for {}", Quoted(quote))
        }
        Ok(M::ParameterProblem { code, pointer, quote }) => {
            write!(f, "parameter problem, code {code}, octet {pointer}, for {}", Quoted(quote))
        }
        Ok(M::Neighbor) => f.write_str("neighbor discovery"),
        Err(reason) => write!(f, "[{}]", reason.name()),
    }
}

fn print_ndp(f: &mut fmt::Formatter<'_>, message: Result<NdpMessage, DropReason>) -> fmt::Result {
    match message {
        Ok(NdpMessage::Solicitation(s)) => {
            write!(f, "neighbor solicitation, who has {}", s.target)
        }
        Ok(NdpMessage::Advertisement(a)) => {
            write!(f, "neighbor advertisement, tgt is {}", a.target)?;
            match a.target_mac {
                Some(mac) => write!(f, " at {mac}"),
                None => Ok(()),
            }
        }
        Err(reason) => write!(f, "neighbor discovery [{}]", reason.name()),
    }
}

struct Quoted(Quote);

impl fmt::Display for Quoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quote = self.0;
        let name = match quote.protocol {
            protocol::TCP => "tcp",
            protocol::UDP => "udp",
            other => return write!(f, "{} protocol {other}", quote.dst),
        };
        match quote.ports {
            Some((_, port)) => write!(f, "{} {name} port {port}", quote.dst),
            None => write!(f, "{} {name}", quote.dst),
        }
    }
}

#[cfg(test)]
mod tests;
