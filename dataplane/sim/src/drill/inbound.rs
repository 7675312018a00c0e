//! Packets that a script injects, as frames.

use core::net::SocketAddr;

use base::TcpFlags;

use super::flow::{Flow, Stage, Transport};
use super::icmp;
use super::lang::ast::{Packet, PacketBody, Quoted, Tcp, TcpOptions, Tos};
use super::net::build::{Macs, Outer, TcpOut};

/// Hop limit of packets from the network.
const TTL: u8 = 255;

/// What besides the packet and its flow decides about the frames.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    /// Hardware addresses.
    pub macs: Macs,
    /// `mss`: larger segments arrive as aggregates of such pieces.
    pub mss: Option<u16>,
    /// `tcp_ts_ecr_scaled`.
    pub ts_ecr_scaled: bool,
}

/// The frames of `packet` for `flow`, in one burst; what they say is noted for the reset at the end.
///
/// # Errors
/// In words, why the packet cannot be made.
pub fn frames(packet: &Packet, flow: &mut Flow, wire: Wire) -> Result<Vec<Vec<u8>>, String> {
    let (Some(mut remote), Some(mut local)) = (flow.remote, flow.local) else {
        return Err("the addresses of this socket are not known yet".into());
    };
    if let Some(ports) = packet.ports {
        remote.set_port(ports.source);
        local.set_port(ports.destination);
    }
    let outer = Outer {
        src: remote.ip(),
        dst: local.ip(),
        tos: packet.ip.tos.map_or(0, tos_byte),
        ttl: packet.ip.ttl.unwrap_or(TTL),
        flow_label: packet.ip.flow_label.unwrap_or_default(),
    };
    let too_long = || "the packet does not fit its length fields".to_owned();
    match &packet.body {
        PacketBody::Tcp(tcp) => {
            let segment = segment(tcp, flow, (remote.port(), local.port()), wire)?;
            note(flow, &segment);
            pieces(segment, wire.mss)
                .iter()
                .map(|piece| outer.tcp_frame(wire.macs, piece).ok_or_else(too_long))
                .collect()
        }
        PacketBody::Udp { payload_len } => {
            let ports = (remote.port(), local.port());
            let frame = outer.udp_frame(wire.macs, ports, *payload_len).ok_or_else(too_long)?;
            Ok(vec![frame])
        }
        PacketBody::Icmp(message) => {
            let v6 = outer.dst.is_ipv6();
            let header = icmp::number(message, v6).ok_or_else(|| {
                let version = if v6 { 6 } else { 4 };
                format!("ICMP message {} does not exist in IPv{version}", message.kind)
            })?;
            let quoted = quote(message.quoted, flow, local, remote).ok_or_else(too_long)?;
            let rest = match (message.mtu, message.id) {
                (Some(mtu), _) => mtu,
                (None, Some(id)) => u32::from(id) << 16,
                (None, None) => 0,
            };
            let frame = outer.icmp_frame(wire.macs, header, rest, &quoted).ok_or_else(too_long)?;
            Ok(vec![frame])
        }
    }
}

/// The reset that ends what is left of a connection when the script is over; `None`: there is none.
pub fn reset(flow: &Flow, macs: Macs) -> Option<Vec<u8>> {
    let (local, remote) = (flow.local?, flow.remote?);
    if flow.transport != Transport::Tcp || flow.stage == Stage::Listening {
        return None;
    }
    let (seq, ack, window) = flow.last.reset()?;
    let outer = Outer { src: remote.ip(), dst: local.ip(), tos: 0, ttl: TTL, flow_label: 0 };
    let segment = TcpOut {
        src_port: remote.port(),
        dst_port: local.port(),
        seq,
        ack,
        flags: TcpFlags::RST | TcpFlags::ACK,
        window,
        urgent: 0,
        options: Vec::new(),
        payload: 0,
    };
    outer.tcp_frame(macs, &segment)
}

fn tos_byte(tos: Tos) -> u8 {
    match tos {
        Tos::NotEct => 0,
        Tos::Ect1 => 1,
        // `ect01` is refused on inbound packets by the parser.
        Tos::Ect0 | Tos::AnyEct => 2,
        Tos::Ce => 3,
        Tos::Byte(byte) => byte,
    }
}

fn segment(
    tcp: &Tcp,
    flow: &Flow,
    (src_port, dst_port): (u16, u16),
    wire: Wire,
) -> Result<TcpOut, String> {
    let flags = TcpFlags::from_bits(tcp.flags.bits);
    let (syn, ack) = (flags.syn(), flags.ack());
    let options = match &tcp.options {
        TcpOptions::Unchecked => Vec::new(),
        TcpOptions::List(list) => {
            flow.options_to_live(list, syn, ack, wire.ts_ecr_scaled).map_err(|ecr| {
                format!("TS ecr {ecr} stands for no timestamp that was sent and expected before")
            })?
        }
    };
    Ok(TcpOut {
        src_port,
        dst_port,
        seq: flow.remote_to_live(tcp.seq, syn),
        ack: match tcp.ack {
            Some(ack) if flags.ack() => flow.local_to_live(ack, syn),
            // A field without meaning goes as it is; the flag without the number acknowledges zero.
            other => {
                let ack = other.unwrap_or_default();
                if flags.ack() { flow.local_to_live(ack, syn) } else { ack }
            }
        },
        flags,
        window: tcp.window.unwrap_or_default(),
        urgent: tcp.urgent.unwrap_or_default(),
        options,
        payload: tcp.payload_len,
    })
}

fn note(flow: &mut Flow, segment: &TcpOut) {
    let len = u32::from(segment.payload).wrapping_add(segment.flags.sequence_len());
    flow.last.inbound = Some((
        segment.seq.wrapping_add(len),
        segment.flags.ack().then_some(segment.ack),
        segment.window,
    ));
}

/// What an aggregating receiver would have merged: pieces of `mss` bytes, the last with what ends the
/// segment. They arrive in one burst, so the stack sees them as one run.
fn pieces(segment: TcpOut, mss: Option<u16>) -> Vec<TcpOut> {
    let Some(mss) = mss.filter(|mss| *mss < segment.payload) else { return vec![segment] };
    let ends = TcpFlags::FIN | TcpFlags::PSH;
    let mut out = Vec::new();
    let mut at: u16 = 0;
    while at < segment.payload {
        let payload = mss.min(segment.payload - at);
        let last = at + payload == segment.payload;
        let flags = if last { segment.flags } else { segment.flags.without(ends) };
        let flags = if at == 0 { flags } else { flags.without(TcpFlags::CWR | TcpFlags::SYN) };
        let syn = u32::from(at > 0 && segment.flags.syn());
        out.push(TcpOut {
            seq: segment.seq.wrapping_add(u32::from(at)).wrapping_add(syn),
            flags,
            payload,
            ..segment.clone()
        });
        at += payload;
    }
    out
}

/// The packet that an ICMP error quotes: the last one of the flow, outbound, with the sequence number
/// of the script.
fn quote(
    quoted: Option<Quoted>,
    flow: &Flow,
    local: SocketAddr,
    remote: SocketAddr,
) -> Option<Vec<u8>> {
    let Some(quoted) = quoted else { return Some(Vec::new()) };
    let outer = Outer { src: local.ip(), dst: remote.ip(), tos: 0, ttl: 64, flow_label: 0 };
    // Eight bytes behind the IP header, as routers have to quote at least; the length fields are those of
    // the packet.
    let (protocol, first, len) = match quoted {
        Quoted::Tcp { seq, payload_len } => {
            let seq = flow.local_to_live(seq, false);
            let [s0, s1] = local.port().to_be_bytes();
            let [d0, d1] = remote.port().to_be_bytes();
            let [q0, q1, q2, q3] = seq.to_be_bytes();
            let len = wire::tcp::HEADER_LEN + usize::from(payload_len);
            (wire::protocol::TCP, [s0, s1, d0, d1, q0, q1, q2, q3], len)
        }
        Quoted::Udp { payload_len } => {
            let len = wire::udp::HEADER_LEN + usize::from(payload_len);
            let mut header = [0; wire::udp::HEADER_LEN];
            let length = u16::try_from(len).ok()?;
            wire::udp::emit(&mut header, local.port(), remote.port(), length, 0);
            (wire::protocol::UDP, header, len)
        }
        Quoted::Raw { payload_len } => (255, [0; 8], usize::from(payload_len)),
    };
    let mut out = outer.header(protocol, len)?;
    out.extend(first);
    Some(out)
}
