//! Expectations: what is measured, how it is compared, and what it is called.
//!
//! A quantity is written as keys (`what`, `of`, `at` and so on) or, in ratios, as a phrase:
//! `goodput of f[3] in after at 10s`, `queue_max of n1`, `drops queue of n1`, `counter TcpRetransSegs of
//! sender`, `time_to_mss 1360 of f`, `rehashes rto of f`.

use core::fmt;
use core::time::Duration;

use base::DropReason;

use crate::world::Way;

mod parse;

pub use parse::counter_names;
pub(super) use parse::{Names, parse};

/// An expectation.
#[derive(Clone, Debug)]
pub struct Expect {
    /// Line of the file, from 1.
    pub line: usize,
    /// In words, as it is shown.
    pub text: String,
    /// What is measured.
    pub left: Operand,
    /// How it is compared.
    pub op: Op,
    /// With what.
    pub right: Target,
    /// What is made of several seeds.
    pub over: Over,
    /// In this variant only.
    pub variant: Option<usize>,
}

impl Expect {
    /// All quantities that it needs.
    pub fn measures(&self) -> impl Iterator<Item = &Measure> {
        let right = match &self.right {
            Target::Number(_) => None,
            Target::Measure(measure) => Some(measure),
        };
        self.left.measures().chain(right)
    }
}

/// One quantity, or two of them.
#[derive(Clone, Debug)]
pub enum Operand {
    /// One.
    One(Measure),
    /// The first divided by the second.
    Ratio(Measure, Measure),
}

impl Operand {
    /// The quantities.
    pub fn measures(&self) -> impl Iterator<Item = &Measure> {
        let (a, b) = match self {
            Self::One(a) => (a, None),
            Self::Ratio(a, b) => (a, Some(b)),
        };
        core::iter::once(a).chain(b)
    }
}

/// What is compared with.
#[derive(Clone, Debug)]
pub enum Target {
    /// A number in the base unit of the quantity.
    Number(f64),
    /// Another quantity.
    Measure(Measure),
}

/// A quantity.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// Which.
    pub what: What,
    /// Of whom; without meaning for links and hosts.
    pub of: Of,
    /// When; `None`: at the end.
    pub at: Option<Duration>,
    /// In which variant; `None`: in the one that is looked at.
    pub variant: Option<usize>,
}

/// Whose flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Those of all applications.
    All,
    /// Those of an application.
    App(usize),
    /// One.
    Flow(usize, u32),
}

/// A quantity without its circumstances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Application bytes over time, in bits per second.
    Goodput,
    /// The fastest flow's goodput by the slowest's.
    FastestOverSlowest,
    /// Jain's index of the flows' goodputs.
    Jain,
    /// Seconds from the start to the last byte.
    Completion,
    /// Payload bytes of a segment of the sender; the smallest of several flows.
    Mss,
    /// Seconds from the start until the sender's MSS was at least this; the longest of several flows.
    TimeToMss(u32),
    /// Retransmission timeouts of the senders.
    Rtos,
    /// Segments sent again; as a share of all that were sent.
    Retransmits {
        /// As a share.
        share: bool,
    },
    /// Retransmissions that the receiver already had, as a share of segments sent.
    SpuriousRetransmits,
    /// Fast recoveries entered.
    Recoveries,
    /// Changes of the transmit hash, for one reason or all.
    Rehashes(Option<String>),
    /// The largest receive buffer that the receivers ever had, in bytes.
    RcvbufMax,
    /// The receive buffer, in bytes; the largest of several flows.
    Rcvbuf,
    /// Share of the senders' busy time in which the receive window was the limit.
    WindowLimited,
    /// The senders' congestion windows together.
    Cwnd {
        /// In bytes instead of segments.
        bytes: bool,
    },
    /// The senders' smoothed round-trip time in seconds; the longest of several flows.
    Srtt,
    /// The most that waited in a link's queue.
    QueueMax {
        /// Which link.
        link: usize,
        /// `None`: the fuller of both.
        way: Option<Way>,
        /// In packets instead of bytes.
        packets: bool,
    },
    /// What waited in a link's queue in the mean over time.
    QueueMean {
        /// Which link.
        link: usize,
        /// `None`: the fuller of both.
        way: Option<Way>,
        /// In packets instead of bytes.
        packets: bool,
    },
    /// Packets that links marked with Congestion Experienced.
    Marks {
        /// On this link only.
        link: Option<usize>,
        /// In this direction only.
        way: Option<Way>,
    },
    /// Share of the time that a link was sending.
    Utilisation {
        /// Which link.
        link: usize,
        /// `None`: the busier of both.
        way: Option<Way>,
    },
    /// Frames dropped.
    Drops {
        /// Why; `None`: by links, for any reason.
        reason: Option<DropBy>,
        /// On this link only.
        link: Option<usize>,
        /// In this direction only.
        way: Option<Way>,
        /// By this host only.
        host: Option<usize>,
    },
    /// A counter of a host.
    Counter {
        /// Which host.
        host: usize,
        /// Its full name.
        name: &'static str,
    },
    /// 1 if every byte that arrived was the right one, else 0.
    BytesIntact,
}

/// Who drops a frame, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropBy {
    /// A link.
    Link(LinkReason),
    /// A host's stack.
    Host(DropReason),
}

/// Why a link drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkReason {
    /// Queue full.
    Queue,
    /// Lost on the wire.
    Loss,
    /// Beyond the policer's bucket.
    Policer,
    /// No carrier.
    Down,
    /// Above the MTU, or cut by `drop_larger_than`.
    Size,
    /// Corrupt without a checksum that could tell.
    Corrupt,
}

const LINK_REASONS: [(&str, LinkReason); 6] = [
    ("queue", LinkReason::Queue),
    ("loss", LinkReason::Loss),
    ("policer", LinkReason::Policer),
    ("down", LinkReason::Down),
    ("size", LinkReason::Size),
    ("corrupt", LinkReason::Corrupt),
];

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// At least.
    Ge,
    /// At most.
    Le,
    /// Equal.
    Eq,
    /// More than.
    Gt,
    /// Less than.
    Lt,
}

impl Op {
    const NAMES: [(&'static str, Self); 5] =
        [(">=", Self::Ge), ("<=", Self::Le), ("==", Self::Eq), (">", Self::Gt), ("<", Self::Lt)];

    /// As written.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, op)| *op == self).map_or("", |(name, _)| name)
    }

    /// Whether it holds.
    pub fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::Ge => left >= right,
            Self::Le => left <= right,
            // Both come out of the same few operations; what differs in the last digit is equal.
            Self::Eq => (left - right).abs() <= 1e-9 * left.abs().max(right.abs()),
            Self::Gt => left > right,
            Self::Lt => left < right,
        }
    }
}

/// What is made of the values of several seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Over {
    /// Their mean is compared.
    #[default]
    Mean,
    /// The one that is worst for the expectation is compared.
    Worst,
    /// The one that is best for it is compared.
    Best,
    /// Each is compared.
    Every,
}

impl Over {
    const NAMES: [(&'static str, Self); 4] = [
        ("mean", Self::Mean),
        ("worst", Self::Worst),
        ("best", Self::Best),
        ("every", Self::Every),
    ];

    /// As written.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, over)| *over == self).map_or("", |(name, _)| name)
    }
}

/// The unit of a quantity, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bits per second.
    Rate,
    /// Seconds.
    Time,
    /// A share of 1.
    Share,
    /// Bytes.
    Bytes,
    /// Packets.
    Packets,
    /// None.
    Number,
}

impl What {
    /// Its unit.
    pub fn unit(&self) -> Unit {
        match self {
            Self::Goodput => Unit::Rate,
            Self::Completion | Self::TimeToMss(_) | Self::Srtt => Unit::Time,
            Self::Retransmits { share: true }
            | Self::SpuriousRetransmits
            | Self::WindowLimited
            | Self::Utilisation { .. } => Unit::Share,
            Self::Mss | Self::RcvbufMax | Self::Rcvbuf | Self::Cwnd { bytes: true } => Unit::Bytes,
            Self::QueueMax { packets: false, .. } | Self::QueueMean { packets: false, .. } => {
                Unit::Bytes
            }
            Self::Cwnd { bytes: false }
            | Self::QueueMax { packets: true, .. }
            | Self::QueueMean { packets: true, .. } => Unit::Packets,
            Self::FastestOverSlowest
            | Self::Jain
            | Self::Rtos
            | Self::Retransmits { share: false }
            | Self::Recoveries
            | Self::Rehashes(_)
            | Self::Drops { .. }
            | Self::Marks { .. }
            | Self::Counter { .. }
            | Self::BytesIntact => Unit::Number,
        }
    }
}

/// A number with its unit, for people.
#[derive(Clone, Copy, Debug)]
pub struct Quantity(pub f64, pub Unit);

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(value, unit) = *self;
        let scaled = |f: &mut fmt::Formatter<'_>, steps: &[(f64, &str)]| {
            let step = steps.iter().find(|(size, _)| value.abs() >= *size).or(steps.last());
            let (size, name) = step.copied().unwrap_or((1.0, ""));
            write!(f, "{}{name}", Digits(value / size))
        };
        match unit {
            Unit::Rate => scaled(f, &[(1e9, "Gbit"), (1e6, "Mbit"), (1e3, "kbit"), (1.0, "bit")]),
            Unit::Time if value == 0.0 => f.write_str("0s"),
            Unit::Time => scaled(f, &[(1.0, "s"), (1e-3, "ms"), (1e-6, "us")]),
            Unit::Share => write!(f, "{}%", Digits(value * 100.0)),
            // The size of a packet is told in bytes.
            Unit::Bytes if value < 10_240.0 => write!(f, "{}B", Digits(value)),
            Unit::Bytes => {
                scaled(f, &[(1_073_741_824.0, "GiB"), (1_048_576.0, "MiB"), (1024.0, "KiB")])
            }
            Unit::Packets => write!(f, "{}pkt", Digits(value)),
            Unit::Number => write!(f, "{}", Digits(value)),
        }
    }
}

/// About four digits that count, and all of a whole number.
struct Digits(f64);

impl fmt::Display for Digits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0;
        if value.is_infinite() {
            return f.write_str(if value > 0.0 { "infinite" } else { "-infinite" });
        }
        if value.fract() == 0.0 && value.abs() < 1e15 {
            return write!(f, "{value:.0}");
        }
        let places = match value.abs() {
            v if v >= 1000.0 => 0,
            v if v >= 100.0 => 1,
            v if v >= 10.0 => 2,
            v if v >= 0.1 => 3,
            _ => 6,
        };
        let text = format!("{value:.places$}");
        let text = if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.')
        } else {
            &text
        };
        f.write_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_shown_with_units() {
        for (value, unit, text) in [
            (1.8e9, Unit::Rate, "1.8Gbit"),
            (94_123_456.0, Unit::Rate, "94.12Mbit"),
            (0.0, Unit::Rate, "0bit"),
            (0.0125, Unit::Time, "12.5ms"),
            (3.0, Unit::Time, "3s"),
            (0.0, Unit::Time, "0s"),
            (0.0123, Unit::Share, "1.23%"),
            (6_291_456.0, Unit::Bytes, "6MiB"),
            (1448.0, Unit::Bytes, "1448B"),
            (65.0, Unit::Packets, "65pkt"),
            (2.7, Unit::Number, "2.7"),
            (f64::INFINITY, Unit::Number, "infinite"),
            (12_345_678.0, Unit::Number, "12345678"),
        ] {
            assert_eq!(Quantity(value, unit).to_string(), text);
        }
    }

    #[test]
    fn comparisons() {
        assert!(Op::Ge.holds(1.0, 1.0) && Op::Le.holds(1.0, 1.0) && Op::Eq.holds(0.1 + 0.2, 0.3));
        assert!(!Op::Gt.holds(1.0, 1.0) && !Op::Lt.holds(1.0, 1.0) && !Op::Eq.holds(1.0, 1.1));
        assert!(Op::Gt.holds(f64::INFINITY, 1.0) && !Op::Ge.holds(f64::NAN, 1.0));
    }
}
