//! An expected packet against what came.

use core::time::Duration;

use super::flow::Flow;
use super::lang::ast::{
    Direction, Icmp, IpInfo, Packet, PacketBody, Ports, Span, Tcp, TcpFlags, TcpOption, TcpOptions,
    Tos,
};
use super::lang::symbols::{IcmpFamily, icmp_type_name};
use super::net::live::{Live, LiveBody, LiveTcp};
use super::net::options::{LiveOption, kind};

/// Consecutive segments of a flow that make up one packet of the script.
///
/// Scripts may expect a run of segments as one packet, since a kernel with segmentation offload shows
/// it so.
#[derive(Clone, Debug)]
pub struct Whole {
    /// The first segment, with the payload of all and FIN and PSH of the last.
    pub packet: Live,
    /// The last segment.
    pub last: Live,
    /// How many there are.
    pub segments: u32,
}

impl Whole {
    /// Begin with one.
    pub fn new(first: Live) -> Self {
        Self { last: first.clone(), packet: first, segments: 1 }
    }

    /// Add one. `wanted` is the payload of the whole packet in the script.
    ///
    /// # Errors
    /// In words, why it is not a continuation.
    pub fn push(&mut self, next: Live, wanted: u32) -> Result<(), String> {
        let total = self.packet.payload();
        let (Some(sum), Some(before), Some(now)) = (self.packet.tcp(), self.last.tcp(), next.tcp())
        else {
            return Err("the next packet is no segment that could complete it".into());
        };
        let closing = TcpFlags::FIN | TcpFlags::PSH | TcpFlags::CWR;
        let expected_seq = sum.seq.wrapping_add(sum.payload);
        if now.seq != expected_seq {
            return Err(format!(
                "the next segment does not continue it: {} bytes {} where it should begin",
                now.seq.wrapping_sub(expected_seq).cast_signed().unsigned_abs(),
                if now.seq.wrapping_sub(expected_seq).cast_signed() < 0 {
                    "before"
                } else {
                    "after"
                },
            ));
        }
        if (now.flags.bits() ^ before.flags.bits()) & !closing != 0
            || now.ack != before.ack
            || now.window != before.window
            || now.urgent != before.urgent
        {
            return Err("the next segment has other flags, acknowledgement or window".into());
        }
        if now.payload < wanted.saturating_sub(total) && now.payload != before.payload {
            return Err(format!(
                "segments of one packet have equal sizes but for the last: {} and then {} bytes",
                before.payload, now.payload
            ));
        }
        let (flags, payload, zero) = (now.flags, now.payload, now.payload_is_zero);
        self.packet.checksums_good &= next.checksums_good;
        if let LiveBody::Tcp(sum) = &mut self.packet.body {
            sum.payload = sum.payload.saturating_add(payload);
            sum.payload_is_zero &= zero;
            // What ends the run is said by its last segment, and what begins it by its first.
            let last = (TcpFlags::FIN | TcpFlags::PSH) & flags.bits();
            let kept = sum.flags.bits() & !(TcpFlags::FIN | TcpFlags::PSH);
            sum.flags = base::TcpFlags::from_bits(kept | last);
        }
        self.last = next;
        self.segments += 1;
        Ok(())
    }
}

/// How exactly timestamps are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// `tcp_ts_tick_usecs`; zero: values are not checked.
    pub tick: Duration,
    /// How far a value may be off.
    pub tolerance: Duration,
}

/// `live` in the notation and in the numbers of the script. `like` says which parts a script writes
/// only if they matter.
pub fn actual(like: &Packet, flow: &Flow, live: &Live) -> Packet {
    let ip = IpInfo {
        tos: like.ip.tos.map(|asked| match asked {
            Tos::Byte(_) => Tos::Byte(live.ip.tos),
            _ => match live.ip.tos & 3 {
                0 => Tos::NotEct,
                1 => Tos::Ect1,
                2 => Tos::Ect0,
                _ => Tos::Ce,
            },
        }),
        flow_label: like.ip.flow_label.map(|_| live.ip.flow_label),
        ttl: like.ip.ttl.map(|_| live.ip.ttl),
    };
    let ports = like.ports.and(live.ports());
    let body = match &live.body {
        LiveBody::Tcp(tcp) => PacketBody::Tcp(script_segment(like, flow, tcp)),
        LiveBody::Udp { payload, .. } => PacketBody::Udp { payload_len: *payload },
        LiveBody::Icmp { kind, code, .. } => PacketBody::Icmp(Icmp {
            kind: icmp_name(live, *kind),
            code: (*code != 0).then(|| format!("code_{code}")),
            mtu: None,
            id: None,
            quoted: None,
        }),
        LiveBody::Other(number) => PacketBody::Icmp(Icmp {
            kind: format!("protocol_{number}"),
            code: None,
            mtu: None,
            id: None,
            quoted: None,
        }),
    };
    Packet {
        span: Span::default(),
        direction: Direction::Outbound,
        encapsulation: Vec::new(),
        ip,
        psp_spi: None,
        ports: ports.map(|(source, destination)| Ports { source, destination }),
        body,
    }
}

/// The name of a message, for reports.
fn icmp_name(live: &Live, kind: u8) -> String {
    let family = if live.ip.dst.is_ipv4() { IcmpFamily::V4 } else { IcmpFamily::V6 };
    icmp_type_name(family, kind).map_or_else(|| format!("type_{kind}"), str::to_owned)
}

fn script_segment(like: &Packet, flow: &Flow, tcp: &LiveTcp) -> Tcp {
    let (asked_ace, asked_urgent, asked_window) = match &like.body {
        PacketBody::Tcp(asked) => {
            (asked.flags.ace_as_digit, asked.urgent.is_some(), asked.window.is_some())
        }
        _ => (false, false, true),
    };
    let syn = tcp.flags.syn();
    let options = tcp.options.iter().filter_map(|option| match option {
        LiveOption::Known(option) => Some(flow.option_to_script(option, syn)),
        LiveOption::Unknown { .. } => None,
    });
    Tcp {
        flags: TcpFlags { bits: tcp.flags.bits(), ace_as_digit: asked_ace },
        seq: flow.local_to_script(tcp.seq, syn),
        payload_len: u16::try_from(tcp.payload).unwrap_or(u16::MAX),
        ack: tcp.flags.ack().then(|| flow.remote_to_script(tcp.ack, syn)),
        window: asked_window.then_some(tcp.window),
        urgent: (asked_urgent || tcp.urgent != 0).then_some(tcp.urgent),
        options: TcpOptions::List(options.collect()),
    }
}

/// Everything in which `live` is not what `expected` says; empty: it is. Timestamps and flow labels
/// that it carries are learnt.
pub fn differences(expected: &Packet, flow: &mut Flow, live: &Live, clock: Clock) -> Vec<String> {
    let mut out = Vec::new();
    if !live.checksums_good {
        out.push("checksum: it is wrong".into());
    }
    header(expected, flow, live, &mut out);
    match (&expected.body, &live.body) {
        (PacketBody::Tcp(asked), LiveBody::Tcp(tcp)) => {
            segment(asked, flow, tcp, clock, &mut out);
        }
        (PacketBody::Udp { payload_len }, LiveBody::Udp { payload, .. }) => {
            field("payload", u32::from(*payload_len), u32::from(*payload), &mut out);
        }
        (PacketBody::Icmp(asked), LiveBody::Icmp { kind, code, .. }) => {
            icmp(asked, live, (*kind, *code), &mut out);
        }
        (asked, _) => {
            let asked = match asked {
                PacketBody::Tcp(_) => "a TCP segment",
                PacketBody::Udp { .. } => "a UDP datagram",
                PacketBody::Icmp(_) => "an ICMP message",
            };
            out.push(format!("protocol: expected {asked}"));
        }
    }
    out
}

fn field<T: PartialEq + core::fmt::Display>(
    name: &str,
    expected: T,
    actual: T,
    out: &mut Vec<String>,
) {
    if expected != actual {
        out.push(format!("{name}: expected {expected}, got {actual}"));
    }
}

fn header(expected: &Packet, flow: &mut Flow, live: &Live, out: &mut Vec<String>) {
    if let (Some(asked), Some((source, destination))) = (expected.ports, live.ports()) {
        field("source port", asked.source, source, out);
        field("destination port", asked.destination, destination, out);
    }
    if let Some(asked) = expected.ip.tos {
        tos(asked, live.ip.tos, out);
    }
    if let Some(asked) = expected.ip.ttl {
        field("ttl", asked, live.ip.ttl, out);
    }
    // A label of zero says nothing, and IPv4 has none.
    if let Some(asked) = expected.ip.flow_label.filter(|label| *label != 0)
        && live.ip.dst.is_ipv6()
        && let Err(difference) = flow.check_label(asked, live.ip.flow_label)
    {
        out.push(format!("flow label: {difference}"));
    }
}

fn tos(asked: Tos, live: u8, out: &mut Vec<String>) {
    let ecn = live & 3;
    let name = |bits| ["noecn", "ect1", "ect0", "ce"][usize::from(bits & 3)];
    let wanted = match asked {
        Tos::Byte(byte) => {
            if byte != live {
                out.push(format!("tos: expected {byte:#04x}, got {live:#04x}"));
            }
            return;
        }
        Tos::AnyEct => {
            if !matches!(ecn, 1 | 2) {
                out.push(format!("ecn: expected ect0 or ect1, got {}", name(ecn)));
            }
            return;
        }
        Tos::NotEct => 0,
        Tos::Ect1 => 1,
        Tos::Ect0 => 2,
        Tos::Ce => 3,
    };
    field("ecn", name(wanted), name(ecn), out);
}

fn segment(asked: &Tcp, flow: &mut Flow, tcp: &LiveTcp, clock: Clock, out: &mut Vec<String>) {
    let syn = tcp.flags.syn();
    if asked.flags.bits != tcp.flags.bits() {
        flags(asked.flags, tcp.flags.bits(), out);
    }
    field("reserved bits", 0, tcp.reserved, out);
    field("seq", asked.seq, flow.local_to_script(tcp.seq, syn), out);
    field("payload", u32::from(asked.payload_len), tcp.payload, out);
    let ack = if tcp.flags.ack() { flow.remote_to_script(tcp.ack, syn) } else { tcp.ack };
    field("ack", asked.ack.unwrap_or_default(), ack, out);
    if let Some(window) = asked.window {
        field("win", window, tcp.window, out);
    }
    field("urg", asked.urgent.unwrap_or_default(), tcp.urgent, out);
    if !tcp.payload_is_zero {
        out.push("payload: not all bytes are zero".into());
    }
    learn_timestamp(asked, flow, tcp);
    if let TcpOptions::List(list) = &asked.options {
        options(list, flow, tcp, clock, out);
    }
}

fn flags(asked: TcpFlags, live: u16, out: &mut Vec<String>) {
    const NAMES: [(u16, &str); 9] = [
        (TcpFlags::FIN, "F"),
        (TcpFlags::SYN, "S"),
        (TcpFlags::RST, "R"),
        (TcpFlags::PSH, "P"),
        (TcpFlags::ACK, "."),
        (TcpFlags::URG, "U"),
        (TcpFlags::ECE, "E"),
        (TcpFlags::CWR, "W"),
        (TcpFlags::AE, "A"),
    ];
    const ACE: u16 = TcpFlags::ECE | TcpFlags::CWR | TcpFlags::AE;
    let only = |bits: u16| -> String {
        NAMES.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect()
    };
    let mask = if asked.ace_as_digit { !ACE } else { !0 };
    let (missing, extra) = (asked.bits & !live & mask, live & !asked.bits & mask);
    let mut parts = Vec::new();
    if missing != 0 {
        parts.push(format!("{} missing", only(missing)));
    }
    if extra != 0 {
        parts.push(format!("{} not expected", only(extra)));
    }
    if !parts.is_empty() {
        out.push(format!("flags: {}", parts.join(", ")));
    }
    if asked.ace_as_digit {
        field("ACE", asked.ace(), TcpFlags::from_bits(live).ace(), out);
    }
}

/// Timestamps of a packet that is compared are known from now on, whatever else it says.
fn learn_timestamp(asked: &Tcp, flow: &mut Flow, tcp: &LiveTcp) {
    let TcpOptions::List(list) = &asked.options else { return };
    let script = list.iter().rev().find_map(|option| match option {
        TcpOption::Timestamps { val, .. } => Some(*val),
        _ => None,
    });
    let live = tcp.options.iter().rev().find_map(|option| match option {
        LiveOption::Known(TcpOption::Timestamps { val, .. }) => Some(*val),
        _ => None,
    });
    if let (Some(script), Some(live)) = (script, live) {
        flow.timestamps.learn(script, live);
    }
}

fn options(asked: &[TcpOption], flow: &Flow, tcp: &LiveTcp, clock: Clock, out: &mut Vec<String>) {
    let syn = tcp.flags.syn();
    for (index, pair) in zip_longest(asked, &tcp.options).enumerate() {
        let place = format!("option {}", index + 1);
        match pair {
            (Some(asked), Some(LiveOption::Known(live))) => {
                let live = flow.option_to_script(live, syn);
                if kind(asked) != kind(&live) {
                    out.push(format!("{place}: expected {}, got {}", name(asked), name(&live)));
                    // What follows is shifted; one difference says it.
                    return;
                }
                option(&place, asked, &live, clock, out);
            }
            (Some(asked), None) => {
                out.push(format!("{place}: expected {}, got none", name(asked)));
                return;
            }
            (None, Some(LiveOption::Known(live))) => {
                let live = flow.option_to_script(live, syn);
                out.push(format!("{place}: expected none, got {}", name(&live)));
                return;
            }
            (asked, Some(LiveOption::Unknown { kind, value })) => {
                let asked = asked.map_or("none", name);
                out.push(format!(
                    "{place}: expected {asked}, got kind {kind} with {} bytes",
                    value.len()
                ));
                return;
            }
            (None, None) => return,
        }
    }
}

fn zip_longest<'a, A, B>(
    a: &'a [A],
    b: &'a [B],
) -> impl Iterator<Item = (Option<&'a A>, Option<&'a B>)> {
    (0..a.len().max(b.len())).map(|i| (a.get(i), b.get(i)))
}

fn option(place: &str, asked: &TcpOption, live: &TcpOption, clock: Clock, out: &mut Vec<String>) {
    match (asked, live) {
        (
            TcpOption::Timestamps { val: asked_val, ecr: asked_ecr },
            TcpOption::Timestamps { val, ecr },
        ) => {
            let off = u128::from(val.wrapping_sub(*asked_val).cast_signed().unsigned_abs());
            let off = off.saturating_mul(clock.tick.as_nanos());
            if !clock.tick.is_zero() && off > clock.tolerance.as_nanos() {
                out.push(format!(
                    "{place}: expected TS val {asked_val}, got {val}, which is more than {} us off",
                    clock.tolerance.as_micros()
                ));
            }
            field(&format!("{place}: TS ecr"), asked_ecr, ecr, out);
        }
        (asked, live) => {
            if asked != live {
                out.push(format!("{place}: expected {asked}, got {live}"));
            }
        }
    }
}

fn name(option: &TcpOption) -> &'static str {
    match option {
        TcpOption::Mss(_) => "mss",
        TcpOption::WindowScale(_) => "wscale",
        TcpOption::SackPermitted => "sackOK",
        TcpOption::Sack(_) => "sack",
        TcpOption::Nop => "nop",
        TcpOption::Eol => "eol",
        TcpOption::Timestamps { .. } => "TS",
        TcpOption::FastOpen(_) => "FO",
        TcpOption::FastOpenExperimental(_) => "FOEXP",
        TcpOption::Md5(_) => "md5",
        TcpOption::AccEcn(_) => "ECN",
    }
}

fn icmp(asked: &Icmp, live: &Live, (kind, code): (u8, u8), out: &mut Vec<String>) {
    let v6 = live.ip.dst.is_ipv6();
    match super::icmp::number(asked, v6) {
        Some(number) => {
            field("icmp type", number.0, kind, out);
            field("icmp code", number.1, code, out);
        }
        None => out.push(format!(
            "icmp type: {} does not exist in IPv{}",
            asked.kind,
            if v6 { 6 } else { 4 }
        )),
    }
}
