//! TCP options as scripts see them: in order, one by one, with their padding.
//!
//! [`wire::TcpOptions`] is what a connection wants to know; a script wants to know what was sent. So this
//! module reads and writes each option as it stands in the header.

use wire::tcp::option_kind::{END, MD5, MSS, NOP, SACK, SACK_PERMITTED, TIMESTAMPS, WINDOW_SCALE};

use crate::drill::lang::ast::{AccEcn, AccEcnOrder, SackBlock, TcpOption};

const FAST_OPEN: u8 = 34;
const ACCURATE_ECN_0: u8 = 172;
const ACCURATE_ECN_1: u8 = 174;
const EXPERIMENT: u8 = 254;
/// RFC 7413 section 4.1.1 in its experimental form: the magic number behind the kind.
const FAST_OPEN_MAGIC: [u8; 2] = [0xf9, 0x89];

/// An option of a packet from the stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveOption {
    /// One that scripts have words for.
    Known(TcpOption),
    /// Anything else, or one of the above with an impossible length.
    Unknown {
        /// Its kind.
        kind: u8,
        /// What follows the length.
        value: Vec<u8>,
    },
}

/// The number of an option.
pub fn kind(option: &TcpOption) -> u8 {
    match option {
        TcpOption::Eol => END,
        TcpOption::Nop => NOP,
        TcpOption::Mss(_) => MSS,
        TcpOption::WindowScale(_) => WINDOW_SCALE,
        TcpOption::SackPermitted => SACK_PERMITTED,
        TcpOption::Sack(_) => SACK,
        TcpOption::Timestamps { .. } => TIMESTAMPS,
        TcpOption::Md5(_) => MD5,
        TcpOption::FastOpen(_) => FAST_OPEN,
        TcpOption::FastOpenExperimental(_) => EXPERIMENT,
        TcpOption::AccEcn(option) => option.order.kind(),
    }
}

/// Append the bytes of one option.
fn write(option: &TcpOption, out: &mut Vec<u8>) {
    let value: Vec<u8> = match option {
        TcpOption::Eol | TcpOption::Nop => {
            out.push(kind(option));
            return;
        }
        TcpOption::SackPermitted => Vec::new(),
        TcpOption::Mss(mss) => mss.to_be_bytes().to_vec(),
        TcpOption::WindowScale(scale) => vec![*scale],
        TcpOption::Sack(blocks) => blocks
            .iter()
            .flat_map(|block| [block.left.to_be_bytes(), block.right.to_be_bytes()])
            .flatten()
            .collect(),
        TcpOption::Timestamps { val, ecr } => {
            [val.to_be_bytes(), ecr.to_be_bytes()].into_iter().flatten().collect()
        }
        TcpOption::Md5(value) | TcpOption::FastOpen(value) => value.clone(),
        TcpOption::FastOpenExperimental(cookie) => [&FAST_OPEN_MAGIC[..], cookie].concat(),
        TcpOption::AccEcn(option) => {
            option.counters.iter().flat_map(|c| c.to_be_bytes().into_iter().skip(1)).collect()
        }
    };
    out.extend([kind(option), u8::try_from(value.len() + 2).unwrap_or(u8::MAX)]);
    out.extend(value);
}

/// The bytes of `options`, padded to words with zeroes ("end of options").
pub fn encode(options: &[TcpOption]) -> Vec<u8> {
    let mut out = Vec::new();
    for option in options {
        write(option, &mut out);
    }
    out.resize(out.len().next_multiple_of(4), END);
    out
}

/// The options in `bytes`. A length that cannot be right ends in an unknown option with all that
/// follows. "End of options" appears once, if something other than padding to a word made it
/// necessary.
pub fn decode(mut bytes: &[u8]) -> Vec<LiveOption> {
    let mut options = Vec::new();
    while let [kind, rest @ ..] = bytes {
        match *kind {
            END => {
                // What is behind an end counts for nobody; up to three zeroes only pad.
                if bytes.len() > 3 || bytes.iter().any(|byte| *byte != 0) {
                    options.push(LiveOption::Known(TcpOption::Eol));
                }
                return options;
            }
            NOP => {
                options.push(LiveOption::Known(TcpOption::Nop));
                bytes = rest;
            }
            kind => {
                let len = rest.first().map_or(0, |len| usize::from(*len));
                let Some((option, after)) = bytes.split_at_checked(len.max(2)) else {
                    options.push(LiveOption::Unknown { kind, value: rest.to_vec() });
                    return options;
                };
                let value = option.get(2..).unwrap_or_default();
                options.push(known(kind, value).map_or_else(
                    || LiveOption::Unknown { kind, value: value.to_vec() },
                    LiveOption::Known,
                ));
                bytes = after;
            }
        }
    }
    options
}

fn known(kind: u8, value: &[u8]) -> Option<TcpOption> {
    Some(match kind {
        MSS => TcpOption::Mss(u16::from_be_bytes(value.try_into().ok()?)),
        WINDOW_SCALE => match value {
            [scale] => TcpOption::WindowScale(*scale),
            _ => return None,
        },
        SACK_PERMITTED if value.is_empty() => TcpOption::SackPermitted,
        SACK => {
            let (blocks, rest) = value.as_chunks::<8>();
            if !rest.is_empty() || blocks.is_empty() {
                return None;
            }
            TcpOption::Sack(
                blocks
                    .iter()
                    .map(|[a, b, c, d, e, f, g, h]| SackBlock {
                        left: u32::from_be_bytes([*a, *b, *c, *d]),
                        right: u32::from_be_bytes([*e, *f, *g, *h]),
                    })
                    .collect(),
            )
        }
        TIMESTAMPS => {
            let [a, b, c, d, e, f, g, h] = <[u8; 8]>::try_from(value).ok()?;
            TcpOption::Timestamps {
                val: u32::from_be_bytes([a, b, c, d]),
                ecr: u32::from_be_bytes([e, f, g, h]),
            }
        }
        MD5 => TcpOption::Md5(value.to_vec()),
        FAST_OPEN => TcpOption::FastOpen(value.to_vec()),
        EXPERIMENT => {
            TcpOption::FastOpenExperimental(value.strip_prefix(&FAST_OPEN_MAGIC)?.to_vec())
        }
        ACCURATE_ECN_0 | ACCURATE_ECN_1 => {
            let (counters, rest) = value.as_chunks::<3>();
            if !rest.is_empty() {
                return None;
            }
            let order =
                if kind == ACCURATE_ECN_0 { AccEcnOrder::E0First } else { AccEcnOrder::E1First };
            let counters =
                counters.iter().map(|[a, b, c]| u32::from_be_bytes([0, *a, *b, *c])).collect();
            TcpOption::AccEcn(AccEcn { order, counters })
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let block = |left, right| SackBlock { left, right };
        let acc = |order, counters: &[u32]| {
            TcpOption::AccEcn(AccEcn { order, counters: counters.to_vec() })
        };
        let options = [
            TcpOption::Mss(1460),
            TcpOption::SackPermitted,
            TcpOption::Timestamps { val: 1, ecr: 0xffff_fff0 },
            TcpOption::Nop,
            TcpOption::WindowScale(8),
            TcpOption::Sack(vec![block(1, 2), block(0xffff_ffff, 5)]),
            TcpOption::FastOpen(vec![]),
            TcpOption::FastOpenExperimental(vec![1, 2, 3, 4]),
            acc(AccEcnOrder::E1First, &[1, 0xff_ffff]),
            acc(AccEcnOrder::E0First, &[]),
            TcpOption::Md5(vec![7; 16]),
        ];
        let live = |options: &[TcpOption]| -> Vec<_> {
            options.iter().cloned().map(LiveOption::Known).collect()
        };
        for option in &options {
            let one = core::slice::from_ref(option);
            let bytes = encode(one);
            assert_eq!(bytes.len() % 4, 0);
            assert_eq!(decode(&bytes), live(one));
        }
        let all = &options[..5];
        assert_eq!(decode(&encode(all)), live(all));
    }

    #[test]
    fn impossible_lengths_are_unknown_options() {
        let unknown = |kind, value: &[u8]| LiveOption::Unknown { kind, value: value.to_vec() };
        let nop = LiveOption::Known(TcpOption::Nop);
        assert_eq!(decode(&[2]), [unknown(2, &[])]);
        assert_eq!(decode(&[2, 9, 1]), [unknown(2, &[9, 1])]);
        assert_eq!(decode(&[2, 3, 1, 1]), [unknown(2, &[1]), nop.clone()]);
        // A length below two would never end.
        assert_eq!(decode(&[5, 0, 1]), [unknown(5, &[]), nop]);
        assert_eq!(decode(&[254, 4, 1, 2]), [unknown(254, &[1, 2])]);
    }

    #[test]
    fn an_end_is_seen_unless_it_only_pads() {
        let end = LiveOption::Known(TcpOption::Eol);
        assert_eq!(decode(&[0, 0, 0]), []);
        assert_eq!(decode(&[0, 1, 1, 1]), std::slice::from_ref(&end));
        assert_eq!(decode(&[0, 0, 0, 0]), [end]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_some_options(bytes in prop::collection::vec(any::<u8>(), 0..44)) {
            let options = decode(&bytes);
            prop_assert!(options.len() <= bytes.len());
        }
    }
}
