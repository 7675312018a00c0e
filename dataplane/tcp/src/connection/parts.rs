//! What a connection consists of: a hot part that every segment touches, a warm part, and an
//! extension that exists only while data flow.

use core::num::{NonZeroU8, NonZeroU16};
use core::time::Duration;

use alloc::boxed::Box;
use base::Instant;

use super::buffer::Queue;
use crate::cc::CongestionControl;
use crate::ecn::{Earlier, EcnState};
use crate::params::CongestionAlgorithm;
use crate::recovery::Recovery;
use crate::recovery::prr::Prr;
use crate::recv::Assembler;
use crate::recv::ack::AckPace;
use crate::recv::autotune::Autotune;
use crate::recv::space::RecvSpace;
use crate::send::Quiet;
use crate::timers::TimerTable;
use crate::{CloseReason, Estimator, Rto, SeqNum, State, WindowScale};

/// How long nothing may happen before the extension is given back.
pub(super) const EXTENSION_IDLE: Duration = Duration::from_secs(5);

/// A set of booleans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flags(u32);

macro_rules! flags {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        flags!(@ 0; $($(#[doc = $doc])+ $name,)+);
    };
    (@ $bit:expr; $(#[doc = $doc:literal])+ $name:ident, $($rest:tt)*) => {
        impl Flags {
            $(#[doc = $doc])+
            pub(super) const $name: Self = Self(1 << ($bit));
        }
        flags!(@ $bit + 1; $($rest)*);
    };
    (@ $bit:expr;) => {
        const COUNT: u32 = $bit;
        const _: () = assert!(COUNT <= u32::BITS);
    };
}

flags! {
    /// SACK is in force.
    SACK,
    /// Timestamps are in force.
    TIMESTAMPS,
    /// No segment has been handed in yet; the first may be the SYN that completed the handshake.
    FIRST,
    /// An acknowledgement is owed at once.
    ACK_NOW,
    /// An acknowledgement is owed, and may be delayed.
    ACK_PENDING,
    /// A segment with PSH waits for its acknowledgement.
    PUSHED,
    /// The last window offered was zero.
    OFFERED_ZERO,
    /// FIN follows what is queued.
    FIN_QUEUED,
    /// The peer's FIN was taken in order.
    FIN_TAKEN,
    /// The peer's FIN was seen beyond a hole; see `peer_fin`.
    FIN_AHEAD,
    /// Nobody will read any more: an orphan.
    DISCARD,
    /// A reset is to be sent.
    RST_OWED,
    /// That reset has the number that was acknowledged last, and acknowledges nothing.
    RST_BARE,
    /// A probe is to be sent: zero length, one before `snd_una`.
    PROBE_OWED,
    /// The probe owed is for keep-alive.
    PROBE_KEEPALIVE,
    /// A tail loss probe is owed: one segment of new data, whatever the congestion window says.
    LOSS_PROBE_OWED,
    /// The override timer fired: what the window takes may leave, however little.
    FORCE_PARTIAL,
    /// `TCP_NODELAY`.
    NODELAY,
    /// More is announced: a partial segment waits.
    MORE,
    /// `SO_KEEPALIVE`.
    KEEPALIVE,
    /// `Writable` is owed once there is room.
    WANT_WRITABLE,
    /// `SO_RCVBUF` was set.
    RCVBUF_LOCKED,
    /// `SO_SNDBUF` was set.
    SNDBUF_LOCKED,
    /// The retransmission of the last timeout was not taken by the device yet.
    RTO_UNSENT,
    /// The network said unreachable since something was last acknowledged.
    SOFT_ERROR,
    /// The application has set the user timeout: the peer's option does not change it.
    USER_TIMEOUT_SET,
    /// Our user timeout is to be told with the next acknowledgement.
    USER_TIMEOUT_OWED,
    /// Event to be polled.
    EV_READABLE,
    /// Event to be polled.
    EV_WRITABLE,
    /// Event to be polled.
    EV_PEER_CLOSED,
    /// Event to be polled.
    EV_CLOSED,
    /// The last event was polled.
    ENDED,
}

impl Flags {
    /// Each of these may be reason enough for a segment of its own. An end clears them but the first.
    pub(super) const WANTS_SEGMENT: Self = Self(
        Self::RST_OWED.0
            | Self::ACK_NOW.0
            | Self::ACK_PENDING.0
            | Self::PROBE_OWED.0
            | Self::LOSS_PROBE_OWED.0,
    );
    /// Something for the application to know.
    pub(super) const EVENTS: Self = Self(
        Self::EV_READABLE.0 | Self::EV_WRITABLE.0 | Self::EV_PEER_CLOSED.0 | Self::EV_CLOSED.0,
    );

    /// Any of them.
    pub(super) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) const fn set(&mut self, other: Self) {
        self.0 |= other.0;
    }

    pub(super) const fn clear(&mut self, other: Self) {
        self.0 &= !other.0;
    }

    pub(super) const fn put(&mut self, other: Self, on: bool) {
        if on {
            self.set(other);
        } else {
            self.clear(other);
        }
    }

    /// Was it set? It is not any more.
    pub(super) const fn take(&mut self, other: Self) -> bool {
        let had = self.has(other);
        self.clear(other);
        had
    }
}

/// Touched by every segment.
#[derive(Clone, Debug)]
pub(super) struct Hot {
    // Send sequence space, RFC 9293 section 3.3.1. `snd_nxt` never goes back, so it is SND.MAX too.
    pub(super) snd_una: SeqNum,
    pub(super) snd_nxt: SeqNum,
    /// After the last byte that the application handed over. A FIN has this number.
    pub(super) write_seq: SeqNum,
    pub(super) snd_wnd: u32,
    pub(super) snd_wl1: SeqNum,
    /// Largest window that the peer ever offered.
    pub(super) max_window: u32,
    /// End of the last partial segment sent (Minshall's variant of Nagle).
    pub(super) snd_sml: SeqNum,
    /// Largest payload of one plan, bytes.
    pub(super) gso_max: u32,

    // Receive sequence space.
    pub(super) rcv_nxt: SeqNum,
    /// `rcv_nxt` of the last acknowledgement sent: Last.ACK.sent of RFC 7323.
    pub(super) rcv_wup: SeqNum,
    /// Right edge of the window as far as it was ever offered. Never moves back.
    pub(super) rcv_adv: SeqNum,
    /// Everything before it the application has taken.
    pub(super) copied_seq: SeqNum,

    pub(super) ts_recent: u32,
    /// When `ts_recent` was set, milliseconds (wrapping after 49 days).
    pub(super) ts_recent_ms: u32,
    pub(super) ts_offset: u32,

    pub(super) rtt: Estimator,
    /// With back-off.
    pub(super) rto: Rto,
    pub(super) pace: AckPace,
    pub(super) timers: TimerTable,

    pub(super) snd_mss: u16,
    pub(super) rcv_mss: u16,
    pub(super) flags: Flags,
    pub(super) state: State,
    pub(super) snd_wscale: WindowScale,
    pub(super) rcv_wscale: WindowScale,
    pub(super) quiet: Quiet,
    /// Duplicate acknowledgements owed to a peer without SACK, which counts them.
    pub(super) dup_acks_owed: u8,
    pub(super) ecn: EcnState,
}

const _: () = assert!(size_of::<Hot>() <= 192);

/// Touched by few segments.
#[derive(Clone, Debug)]
pub(super) struct Warm {
    pub(super) bytes_sent: u64,
    pub(super) bytes_retrans: u64,
    pub(super) bytes_acked: u64,
    pub(super) bytes_received: u64,
    /// When a segment of the peer came in last.
    pub(super) last_rcv: Instant,
    pub(super) segs_in: u32,
    pub(super) segs_out: u32,
    pub(super) total_retrans: u32,
    pub(super) rto_count: u32,
    pub(super) space: RecvSpace,
    /// Kept from the extension: bytes taken in the best round trip; zero: none was measured.
    pub(super) saved_rcvq_space: u32,
    pub(super) sndbuf: u32,
    pub(super) irs: SeqNum,
    /// Sequence number of the peer's FIN if `FIN_AHEAD` or `FIN_TAKEN`.
    pub(super) peer_fin: SeqNum,
    pub(super) txhash: u32,
    /// When an invalid segment was answered last, milliseconds plus one; zero: never.
    pub(super) invalid_ms: u32,
    /// Milliseconds; zero: none.
    pub(super) user_timeout_ms: u32,
    /// Kept from the extension.
    pub(super) saved_ssthresh: u32,
    pub(super) saved_cwnd: u32,
    pub(super) mtu: u16,
    pub(super) ip_header: u16,
    pub(super) advmss: u16,
    /// MSS that the peer allows, before timestamps.
    pub(super) peer_mss: u16,
    /// Size seen once below `rcv_mss`; seen again it is taken.
    pub(super) rcv_mss_candidate: u16,
    pub(super) algorithm: CongestionAlgorithm,
    pub(super) close_reason: Option<CloseReason>,
    /// Probes (window or keep-alive) unanswered.
    pub(super) probes_out: u8,
    pub(super) persist_backoff: u8,
    /// Of the application, instead of the knobs of these names; see `ConnOptions`.
    pub(super) keepalive_time_sec: Option<NonZeroU16>,
    pub(super) keepalive_interval_sec: Option<NonZeroU16>,
    pub(super) keepalive_probes: Option<NonZeroU8>,
    pub(super) linger_sec: Option<u16>,
    pub(super) fin_timeout_sec: Option<u16>,
}

const _: () = assert!(size_of::<Warm>() <= 152);

/// Attached while data flow.
#[derive(Clone, Debug)]
pub(super) struct Extension {
    pub(super) recovery: Recovery,
    pub(super) cc: CongestionControl,
    /// Of the present fast recovery.
    pub(super) prr: Prr,
    /// Segments that the peer has reported as duplicates.
    pub(super) dsacked_segs: u32,
    pub(super) assembler: Assembler,
    pub(super) autotune: Autotune,
    /// What lies beyond was given up for lack of memory; the stack has not heard of it yet.
    pub(super) pruned: Option<SeqNum>,
    /// Range received twice, to be reported once.
    pub(super) dsack: Option<(SeqNum, SeqNum)>,
    /// Acknowledgements of what came in an earlier state of DCTCP's echo, to be sent before anything else.
    pub(super) earlier: Earlier,
    /// When the head was sent of whose acknowledgement we have waited in vain ever since, or when
    /// the window was first probed.
    pub(super) waiting_since: Option<Instant>,
    /// When the head had been sent that a tail loss probe has asked for since.
    pub(super) probed_since: Option<Instant>,
    /// When data were sent last.
    pub(super) last_sent: Instant,
    /// `snd_nxt` when a tail loss probe was sent whose fate is not known: TLP.end_seq.
    pub(super) tlp_end_seq: Option<SeqNum>,
    /// That probe was a retransmission: TLP.is_retrans.
    pub(super) tlp_is_retrans: bool,
    pub(super) usage: Usage,
    pub(super) queue: Queue,
}

/// How much of the congestion window was in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    /// In the present window of data, which ends at `until`: the window held something back, and
    /// segments in flight at most.
    limited: bool,
    packets_max: u32,
    until: SeqNum,
    /// Since `full_at`, when the window was full last: segments in flight at most.
    packets_since: u32,
    full_at: Instant,
    /// Something was sent since it was looked at.
    sent: bool,
}

impl Usage {
    pub(super) const fn new(now: Instant, snd_una: SeqNum) -> Self {
        Self {
            limited: false,
            packets_max: 0,
            until: snd_una,
            packets_since: 0,
            full_at: now,
            sent: false,
        }
    }

    /// Data were sent; `packets_out` are in flight now.
    pub(super) fn on_sent(&mut self, snd_una: SeqNum, snd_nxt: SeqNum, packets_out: u32) {
        self.note(snd_una, snd_nxt, packets_out, false);
        self.packets_since = self.packets_since.max(packets_out);
        self.sent = true;
    }

    /// The window holds back what is queued.
    pub(super) fn on_full(
        &mut self,
        now: Instant,
        snd_una: SeqNum,
        snd_nxt: SeqNum,
        packets_out: u32,
    ) {
        self.note(snd_una, snd_nxt, packets_out, true);
        self.packets_since = 0;
        self.full_at = now;
        self.sent = false;
    }

    /// Something else than the window ended a transmission. For how many segments the window was
    /// used at most, if it has not been full for `rto`.
    pub(super) fn on_not_full(&mut self, now: Instant, rto: Duration) -> Option<u32> {
        if !core::mem::take(&mut self.sent) || now.since(self.full_at) < rto {
            return None;
        }
        self.full_at = now;
        Some(core::mem::take(&mut self.packets_since))
    }

    fn note(&mut self, snd_una: SeqNum, snd_nxt: SeqNum, packets_out: u32, limited: bool) {
        if snd_una.at_or_after(self.until) || snd_nxt.before(self.until) {
            self.limited = limited;
            self.packets_max = packets_out;
            self.until = snd_nxt;
            return;
        }
        self.limited |= limited;
        self.packets_max = self.packets_max.max(packets_out);
    }

    pub(super) const fn limited(&self) -> bool {
        self.limited
    }

    pub(super) const fn packets_max(&self) -> u32 {
        self.packets_max
    }
}

/// The extension, if it is attached.
pub(super) type Ext = Option<Box<Extension>>;
