//! What a run leaves behind: moments at which everything was looked at, and series over time.

use core::time::Duration;

use base::Instant;

use crate::link::LinkCounters;
use crate::record::TraceHash;

/// One flow at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowState {
    /// When it was opened.
    pub opened_at: Option<Instant>,
    /// When it had done all.
    pub completed_at: Option<Instant>,
    /// It could not be opened, or broke.
    pub failed: bool,
    /// Application bytes that have arrived, in both directions.
    pub bytes: u64,
    /// Requests that were answered.
    pub transactions: u64,
    /// A byte was not the right one.
    pub wrong: bool,
    /// The sender's segment, in bytes of payload.
    pub mss: u32,
    /// The sender's window in segments.
    pub cwnd: u32,
    /// The sender's smoothed round-trip time.
    pub srtt: Duration,
    /// Timeouts.
    pub rtos: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Of those, as far as the receiver said that it had them already.
    pub spurious: u64,
    /// Data segments sent.
    pub segments: u64,
    /// Changes of the transmit hash.
    pub rehashes: u64,
    /// Fast recoveries entered, if that was watched.
    pub recoveries: u64,
    /// The window that the receiver offers, in bytes.
    pub rcv_wnd: u32,
    /// The receive buffer, in bytes.
    pub rcvbuf: u32,
    /// The largest that it ever was.
    pub rcvbuf_max: u32,
    /// Time with something to send.
    pub busy: Duration,
    /// Of that, how long the receive window was in the way.
    pub window_limited: Duration,
}

/// One host at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostState {
    /// In the order of [`super::expect::counter_names`].
    pub counters: Vec<u64>,
    /// In the order of [`base::DropReason::ALL`].
    pub drops: Vec<u64>,
}

/// Everything at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// When.
    pub at: Instant,
    /// In the order of [`super::Scenario::flows`].
    pub flows: Vec<FlowState>,
    /// In the order of the links, both directions.
    pub links: Vec<[LinkCounters; 2]>,
    /// In the order of the hosts.
    pub hosts: Vec<HostState>,
}

/// One flow over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowSeries {
    /// Bits per second since the sample before.
    pub goodput: Vec<f64>,
    /// Bytes.
    pub cwnd: Vec<u64>,
    /// Bytes that the receiver offers.
    pub rcv_wnd: Vec<u32>,
    /// Bytes.
    pub rcvbuf: Vec<u32>,
    /// Bytes.
    pub mss: Vec<u32>,
    /// Seconds; zero before the first sample.
    pub srtt: Vec<f64>,
    /// Index of the link that the last data packet took where a router had a choice; the first of several
    /// choices.
    pub path: Vec<Option<usize>>,
}

/// One link over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkSeries {
    /// Bytes that wait, in both directions.
    pub queue: [Vec<u64>; 2],
}

/// All series of a run, of the same length each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Seconds since the run began.
    pub time: Vec<f64>,
    /// In the order of [`super::Scenario::flows`]; only the first ones, if there are many.
    pub flows: Vec<FlowSeries>,
    /// In the order of the links; empty if there are too many.
    pub links: Vec<LinkSeries>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All applications had done what they were to do.
    Complete,
    /// `duration`, or the longest time that a run may take.
    Time,
}

/// A run that went its way.
#[derive(Clone, Debug)]
pub struct Run {
    /// The seed.
    pub seed: u64,
    /// The variant.
    pub variant: Option<usize>,
    /// The hash over all frames and their fates.
    pub trace: TraceHash,
    /// Why it ended.
    pub end: End,
    /// As it was when measuring began.
    pub begin: Snapshot,
    /// As it was at times that expectations name, in the order of time.
    pub moments: Vec<Snapshot>,
    /// As it was at the end.
    pub last: Snapshot,
    /// When the MSS of each flow reached each of the sizes that expectations ask for.
    pub mss_reached: Vec<Vec<(u32, Instant)>>,
    /// Over time.
    pub series: Series,
    /// A capture of all packets where they were sent, if asked for.
    pub pcap: Option<Vec<u8>>,
}
