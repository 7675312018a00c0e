//! Bytes to headers and back; nothing stateful.
//!
//! Each protocol has a module with `parse`, which takes the contiguous bytes at hand *and* the real
//! remaining length (a frame may be a chain whose payload lies in later segments), and answers with
//! a header or with exactly one [`DropReason`]; and with `emit`, which writes a header. Emitting
//! functions panic when the caller's buffer is too small, which no peer can bring about.
//!
//! Lengths that a header claims are compared with what surrounds it once, here: whoever holds a
//! parsed header may rely on `header_len <= total_len <= frame`. When the headers do not lie in the
//! contiguous part although the frame has them, the reason is [`DropReason::MbufSplit`].
//!
//! | module | RFCs |
//! |---|---|
//! | [`ethernet`], [`arp`] | 894, 826, 5227 |
//! | [`ipv4`], [`icmpv4`] | 791, 792, 1191, 6633 |
//! | [`ipv6`], [`icmpv6`], [`ndp`] | 8200, 4443, 4861, 5095, 6437, 6946 |
//! | [`udp`], [`tcp`] | 768, 9293, 7323, 2018 |
//! | [`checksum`] | 1071, 1624 |
//! | [`flow`] | the four-tuple, its Toeplitz hash and a fast keyed one |
//! | [`pretty`] | one line per frame for people |

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
#[macro_use]
extern crate std;

pub mod arp;
mod bytes;
pub mod checksum;
pub mod ethernet;
pub mod flow;
pub mod icmpv4;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
pub mod ndp;
pub mod pretty;
pub mod quote;
pub mod tcp;
pub mod udp;

pub use base::{DropReason, TcpFlags};
pub use ethernet::{EtherType, EthernetHeader, Mac};
pub use flow::{FlowHasher, FlowKey};
pub use ipv4::Ipv4Header;
pub use ipv6::Ipv6Header;
pub use quote::Quote;
pub use tcp::{TcpFields, TcpHeader, TcpOptions};
pub use udp::UdpHeader;

/// Protocol numbers of the IP header's protocol (next header) field.
pub mod protocol {
    /// Internet control messages for IPv4.
    pub const ICMP: u8 = 1;
    /// Transmission control protocol.
    pub const TCP: u8 = 6;
    /// User datagrams.
    pub const UDP: u8 = 17;
    /// Internet control messages for IPv6.
    pub const ICMPV6: u8 = 58;
    /// IPv6: nothing follows.
    pub const NO_NEXT_HEADER: u8 = 59;

    /// Bytes of the smallest header of `protocol`, zero for those that we do not speak. A first
    /// fragment with less was made to get around filters, RFC 1858 and RFC 7112.
    #[inline]
    pub const fn header_len_min(protocol: u8) -> usize {
        match protocol {
            TCP => crate::tcp::HEADER_LEN,
            UDP => crate::udp::HEADER_LEN,
            ICMP => crate::icmpv4::HEADER_LEN,
            ICMPV6 => crate::icmpv6::HEADER_LEN,
            _ => 0,
        }
    }
}
