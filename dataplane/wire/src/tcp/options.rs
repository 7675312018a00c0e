//! TCP options, RFC 9293 section 3.2: MSS, window scale and timestamps (RFC 7323), SACK (RFC 2018).
//!
//! Rules, all of them choices where the RFCs leave room:
//! - An option whose length cannot be right makes the whole segment malformed; the connection is
//!   untouched. This holds for known kinds outside of their place, too.
//! - Of an option that comes twice, the first counts.
//! - MSS, window scale and SACK-permitted count in a SYN only, SACK blocks outside of one only.
//! - After "end of options" nothing is looked at.

use arrayvec::ArrayVec;
use base::DropReason;

use crate::bytes::room;

/// Bytes of options that a header can have.
pub const OPTIONS_LEN_MAX: usize = 40;
/// SACK blocks that fit into a header.
pub const SACK_BLOCKS_MAX: usize = 4;

/// Option kinds, as IANA lists them.
pub mod kind {
    /// End of the list; RFC 9293 section 3.1.
    pub const END: u8 = 0;
    /// Padding.
    pub const NOP: u8 = 1;
    /// Maximum segment size.
    pub const MSS: u8 = 2;
    /// RFC 7323.
    pub const WINDOW_SCALE: u8 = 3;
    /// RFC 2018.
    pub const SACK_PERMITTED: u8 = 4;
    /// RFC 2018.
    pub const SACK: u8 = 5;
    /// RFC 7323.
    pub const TIMESTAMPS: u8 = 8;
    /// RFC 2385.
    pub const MD5: u8 = 19;
    /// RFC 5482.
    pub const USER_TIMEOUT: u8 = 28;
    /// RFC 5925.
    pub const AUTHENTICATION: u8 = 29;
}
use kind::*;

/// Bytes of timestamps with the two NOPs that align them, RFC 7323 appendix A.
const TIMESTAMPS_PADDED_LEN: usize = 12;

/// The options of one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// Maximum segment size as sent; zero is possible, the engine clamps.
    pub mss: Option<u16>,
    /// Window scale as sent; more than 14 is possible, the engine clamps (RFC 7323 section 2.3).
    pub window_scale: Option<u8>,
    /// The sender can use SACK.
    pub sack_permitted: bool,
    /// TSval and TSecr.
    pub timestamps: Option<(u32, u32)>,
    /// Left and right edges, in the order of the option, not checked against each other.
    pub sack: ArrayVec<(u32, u32), SACK_BLOCKS_MAX>,
    /// User timeout as sent, RFC 5482: granularity bit and value; zero is possible.
    pub user_timeout: Option<u16>,
    /// MD5 signature (RFC 2385) or TCP-AO (RFC 5925) was there; never written.
    pub authentication: bool,
    /// An option that we do not know was there; never written.
    pub unknown: bool,
}

impl TcpOptions {
    /// No options but timestamps.
    #[inline]
    pub fn with_timestamps(ts_val: u32, ts_ecr: u32) -> Self {
        Self { timestamps: Some((ts_val, ts_ecr)), ..Self::default() }
    }

    /// Bytes that the options take in a header, padded to words.
    #[inline]
    pub fn encoded_len(&self) -> usize {
        let fixed = self.encoded_len_without_sack();
        fixed + sack_len(self.sack_that_fits(fixed))
    }

    #[inline]
    fn encoded_len_without_sack(&self) -> usize {
        let mut len = 0;
        if self.mss.is_some() {
            len += 4;
        }
        if self.timestamps.is_some() {
            // SACK-permitted takes the place of the two NOPs.
            len += TIMESTAMPS_PADDED_LEN;
        } else if self.sack_permitted {
            len += 4;
        }
        if self.window_scale.is_some() {
            len += 4;
        }
        if self.user_timeout.is_some() {
            len += 4;
        }
        len
    }

    #[inline]
    fn sack_that_fits(&self, taken: usize) -> usize {
        self.sack.len().min((OPTIONS_LEN_MAX - taken).saturating_sub(4) / 8)
    }
}

/// Bytes of a SACK option with its two NOPs.
#[inline]
const fn sack_len(blocks: usize) -> usize {
    if blocks == 0 { 0 } else { 4 + 8 * blocks }
}

/// Parse the bytes between the fixed header and the data.
#[inline]
pub(super) fn parse(bytes: &[u8], syn: bool) -> Result<TcpOptions, DropReason> {
    if bytes.is_empty() {
        return Ok(TcpOptions::default());
    }
    // The layout that nearly every segment of a connection with timestamps has.
    if let [NOP, NOP, TIMESTAMPS, 10, v0, v1, v2, v3, e0, e1, e2, e3] = *bytes {
        return Ok(TcpOptions::with_timestamps(
            u32::from_be_bytes([v0, v1, v2, v3]),
            u32::from_be_bytes([e0, e1, e2, e3]),
        ));
    }
    parse_any(bytes, syn)
}

/// Any layout. Each turn takes at least one byte, so there are at most 40.
fn parse_any(mut bytes: &[u8], syn: bool) -> Result<TcpOptions, DropReason> {
    let mut options = TcpOptions::default();
    while let [kind, rest @ ..] = bytes {
        match *kind {
            END => break,
            NOP => bytes = rest,
            kind => {
                let len = usize::from(*rest.first().ok_or(DropReason::TcpOption)?);
                let (option, after) = bytes.split_at_checked(len).ok_or(DropReason::TcpOption)?;
                let value = option.get(2..).ok_or(DropReason::TcpOption)?;
                take(&mut options, kind, value, syn).ok_or(DropReason::TcpOption)?;
                bytes = after;
            }
        }
    }
    Ok(options)
}

/// Take one option; `None` if its length cannot be right.
fn take(options: &mut TcpOptions, kind: u8, value: &[u8], syn: bool) -> Option<()> {
    match kind {
        MSS => {
            let mss = u16::from_be_bytes(value.try_into().ok()?);
            if syn && options.mss.is_none() {
                options.mss = Some(mss);
            }
        }
        WINDOW_SCALE => {
            let &[scale] = value else { return None };
            if syn && options.window_scale.is_none() {
                options.window_scale = Some(scale);
            }
        }
        SACK_PERMITTED => {
            if !value.is_empty() {
                return None;
            }
            options.sack_permitted |= syn;
        }
        TIMESTAMPS => {
            let &[v0, v1, v2, v3, e0, e1, e2, e3] = value else { return None };
            if options.timestamps.is_none() {
                options.timestamps = Some((
                    u32::from_be_bytes([v0, v1, v2, v3]),
                    u32::from_be_bytes([e0, e1, e2, e3]),
                ));
            }
        }
        SACK => {
            let (blocks, rest) = value.as_chunks::<8>();
            if blocks.is_empty() || !rest.is_empty() || blocks.len() > SACK_BLOCKS_MAX {
                return None;
            }
            if !syn && options.sack.is_empty() {
                options.sack = blocks.iter().map(sack_block).collect();
            }
        }
        USER_TIMEOUT => {
            let timeout = u16::from_be_bytes(value.try_into().ok()?);
            if options.user_timeout.is_none() {
                options.user_timeout = Some(timeout);
            }
        }
        MD5 => {
            if value.len() != 16 {
                return None;
            }
            options.authentication = true;
        }
        AUTHENTICATION => {
            // RFC 5925 section 2.2: two key numbers, then the code.
            if value.len() < 2 {
                return None;
            }
            options.authentication = true;
        }
        _ => options.unknown = true,
    }
    Some(())
}

fn sack_block(block: &[u8; 8]) -> (u32, u32) {
    let [l0, l1, l2, l3, r0, r1, r2, r3] = *block;
    (u32::from_be_bytes([l0, l1, l2, l3]), u32::from_be_bytes([r0, r1, r2, r3]))
}

/// Write the options, each aligned by NOPs in front of it. Returns the bytes written.
#[inline]
pub(super) fn emit(out: &mut [u8], options: &TcpOptions) -> usize {
    let mut at = 0;
    if let Some(mss) = options.mss {
        let [high, low] = mss.to_be_bytes();
        put(out, &mut at, [MSS, 4, high, low]);
    }
    if let Some((ts_val, ts_ecr)) = options.timestamps {
        if options.sack_permitted {
            put(out, &mut at, [SACK_PERMITTED, 2, TIMESTAMPS, 10]);
        } else {
            put(out, &mut at, [NOP, NOP, TIMESTAMPS, 10]);
        }
        put(out, &mut at, ts_val.to_be_bytes());
        put(out, &mut at, ts_ecr.to_be_bytes());
    } else if options.sack_permitted {
        put(out, &mut at, [NOP, NOP, SACK_PERMITTED, 2]);
    }
    if let Some(scale) = options.window_scale {
        put(out, &mut at, [NOP, WINDOW_SCALE, 3, scale]);
    }
    if let Some(timeout) = options.user_timeout {
        let [high, low] = timeout.to_be_bytes();
        put(out, &mut at, [USER_TIMEOUT, 4, high, low]);
    }
    let blocks = options.sack_that_fits(at);
    if blocks > 0 {
        put(out, &mut at, [NOP, NOP, SACK, (2 + 8 * blocks) as u8]);
        for &(left, right) in options.sack.iter().take(blocks) {
            put(out, &mut at, left.to_be_bytes());
            put(out, &mut at, right.to_be_bytes());
        }
    }
    at
}

#[inline]
fn put(out: &mut [u8], at: &mut usize, word: [u8; 4]) {
    *room(&mut out[*at..]) = word;
    *at += 4;
}
