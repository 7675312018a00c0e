//! A connection brought into a state by frames alone, with what its peer knows of it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base::{Instant, TcpFlags};
use stack::{ConnRow, StackParams};
use tcp::{ConnOptions, State};
use wire::TcpOptions;

use crate::host::{Family, Host, Segment, Sent};
use crate::spec::{Seg, Stamp, Tcb};

/// Where a scene begins: the eleven states, and what differs within one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Closed,
    Listen,
    SynSent,
    /// From LISTEN.
    SynReceived,
    /// From SYN-SENT: a simultaneous open.
    SynReceivedActive,
    Established,
    /// Our window is closed: the application does not read.
    ZeroWindow,
    FinWait1,
    FinWait2,
    /// The application has closed both directions.
    FinWait1Closed,
    FinWait2Closed,
    Closing,
    CloseWait,
    LastAck,
    TimeWait,
    /// With `tcp_rfc1337`.
    TimeWait1337,
}

impl Kind {
    pub(crate) const ALL: [Self; 16] = [
        Self::Closed,
        Self::Listen,
        Self::SynSent,
        Self::SynReceived,
        Self::SynReceivedActive,
        Self::Established,
        Self::ZeroWindow,
        Self::FinWait1,
        Self::FinWait2,
        Self::FinWait1Closed,
        Self::FinWait2Closed,
        Self::Closing,
        Self::CloseWait,
        Self::LastAck,
        Self::TimeWait,
        Self::TimeWait1337,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Closed => "CLOSED",
            Self::Listen => "LISTEN",
            Self::SynSent => "SYN-SENT",
            Self::SynReceived => "SYN-RECEIVED",
            Self::SynReceivedActive => "SYN-RECEIVED(active)",
            Self::Established => "ESTABLISHED",
            Self::ZeroWindow => "ESTABLISHED(window 0)",
            Self::FinWait1 => "FIN-WAIT-1",
            Self::FinWait2 => "FIN-WAIT-2",
            Self::FinWait1Closed => "FIN-WAIT-1(closed)",
            Self::FinWait2Closed => "FIN-WAIT-2(closed)",
            Self::Closing => "CLOSING",
            Self::CloseWait => "CLOSE-WAIT",
            Self::LastAck => "LAST-ACK",
            Self::TimeWait => "TIME-WAIT",
            Self::TimeWait1337 => "TIME-WAIT(rfc1337)",
        }
    }

    pub(crate) fn state(self) -> State {
        match self {
            Self::Closed => State::Closed,
            Self::Listen => State::Listen,
            Self::SynSent => State::SynSent,
            Self::SynReceived | Self::SynReceivedActive => State::SynReceived,
            Self::Established | Self::ZeroWindow => State::Established,
            Self::FinWait1 | Self::FinWait1Closed => State::FinWait1,
            Self::FinWait2 | Self::FinWait2Closed => State::FinWait2,
            Self::Closing => State::Closing,
            Self::CloseWait => State::CloseWait,
            Self::LastAck => State::LastAck,
            Self::TimeWait | Self::TimeWait1337 => State::TimeWait,
        }
    }

    fn orphan(self) -> bool {
        matches!(self, Self::FinWait1Closed | Self::FinWait2Closed)
    }
}

/// What both sides agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) name: &'static str,
    pub(crate) ts: bool,
    pub(crate) sack: bool,
    /// The peer's window scale.
    pub(crate) scale: Option<u8>,
}

impl Style {
    pub(crate) const PLAIN: Self = Self { name: "plain", ts: false, sack: false, scale: None };
    pub(crate) const FULL: Self = Self { name: "full", ts: true, sack: true, scale: Some(2) };
    pub(crate) const SACK: Self = Self { name: "sack", ts: false, sack: true, scale: None };
    pub(crate) const SCALED: Self = Self { name: "scaled", ts: false, sack: false, scale: Some(2) };
}

/// Where the numbers of a connection begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) name: &'static str,
    /// Our SYN's number.
    iss: u32,
    /// The peer's SYN's number.
    irs: u32,
    /// The peer's first TSval.
    ts: u32,
}

impl Origin {
    /// Nothing wraps.
    pub(crate) const LOW: Self = Self { name: "low", iss: 0x1000_0000, irs: 0x2000_0000, ts: 1000 };
    /// Both numbers pass zero, and the timestamps too, in the middle of what is in flight and of the
    /// window.
    pub(crate) const WRAP: Self = Self {
        name: "wrap",
        iss: 0u32.wrapping_sub(ACKED + IN_FLIGHT / 2),
        irs: 0u32.wrapping_sub(RECEIVED + 15),
        ts: 0u32.wrapping_sub(75),
    };
    /// The sign of the numbers changes at the same places.
    pub(crate) const SIGN: Self = Self {
        name: "sign",
        iss: (1 << 31) - ACKED - IN_FLIGHT / 2,
        irs: (1 << 31) - RECEIVED - 15,
        ts: (1 << 31) - 75,
    };
}

/// Bytes of ours that the peer has acknowledged in a synchronised scene.
const ACKED: u32 = 1200;
/// Bytes of ours in flight in a synchronised scene that has any.
const IN_FLIGHT: u32 = 200;
/// Bytes that our application has read in a synchronised scene.
const RECEIVED: u32 = 300;
/// The peer's window in bytes; with a scale of 2 a whole number of units.
const PEER_WINDOW: u16 = 1000;
/// The receive buffer that our application asks for: room for all segments of a test, each in a buffer of its own.
const RCVBUF: u32 = 16_384;
/// Ticks by which the peer's timestamps rise from one segment to the next.
const TICK: u32 = 10;

/// The byte of either stream at `offset`.
pub(crate) fn byte_at(offset: i64) -> u8 {
    (offset * 31 + (offset >> 8)) as u8
}

pub(crate) fn bytes_at(offset: i64, len: i64) -> Vec<u8> {
    (offset..offset + len).map(byte_at).collect()
}

/// A host with one connection, and its peer's view of it.
pub(crate) struct Scene {
    pub(crate) host: Host,
    pub(crate) tcb: Tcb,
    pub(crate) style: Style,
    origin: Origin,
    /// The peer's next TSval.
    ts_next: u32,
    /// The peer's last TSval that was accepted: TS.Recent.
    pub(crate) ts_recent: u32,
    /// Our last TSval seen.
    ts_ours: u32,
    /// Scale of the windows that we offer, once it is agreed.
    our_scale: u8,
    /// Bytes that our application has left unread.
    pub(crate) unread: i64,
    /// What we sent last.
    last: Vec<Sent>,
}

/// The initial number of ours clocks through all values in this time: RFC 6528 section 3 adds a clock,
/// here of 64 ns, to a hash that stays the same for one pair of addresses and ports.
const ISN_PERIOD: Duration = Duration::from_nanos(1 << 38);

/// The first time at which a connection must begin for its initial number to be `iss`.
fn start_for(family: Family, iss: u32) -> Instant {
    static FIRST: [OnceLock<u32>; 2] = [OnceLock::new(), OnceLock::new()];
    let begin = Instant::from_millis(1000);
    let first = *FIRST[family as usize].get_or_init(|| {
        let mut host = Host::new(family, &Arc::default(), begin);
        host.connect(&ConnOptions::default());
        host.turn();
        host.sent().first().expect("a SYN").tcp.seq
    });
    begin + Duration::from_nanos(u64::from(iss.wrapping_sub(first)) << 6)
}

/// Hosts that have been used and are as good as new: making one takes longer than a scene does.
#[derive(Default)]
pub(crate) struct Hosts(Vec<(bool, Host)>);

impl Hosts {
    fn take(&mut self, family: Family, rfc1337: bool, iss: u32) -> Host {
        let mut start = start_for(family, iss);
        let fits = |(r, h): &(bool, Host)| *r == rfc1337 && h.family == family;
        let Some(index) = self.0.iter().position(fits) else {
            let mut params = StackParams::default();
            // To the letter of RFC 7323.
            params.tcp.require_timestamps = true;
            params.tcp.rfc1337 = rfc1337;
            return Host::new(family, &Arc::new(params), start);
        };
        let (_, mut host) = self.0.swap_remove(index);
        while start < host.now {
            start += ISN_PERIOD;
        }
        host.wait_for(start);
        host
    }

    /// Take the host of a scene back. Fails if the scene has left something behind.
    pub(crate) fn give_back(&mut self, scene: Scene) -> Result<(), String> {
        let Scene { mut host, tcb, .. } = scene;
        host.wind_down()?;
        self.0.push((tcb.rfc1337, host));
        Ok(())
    }
}

impl Scene {
    /// A host with a connection in the state of `kind`.
    pub(crate) fn new(
        hosts: &mut Hosts,
        kind: Kind,
        family: Family,
        style: Style,
        origin: Origin,
    ) -> Self {
        let rfc1337 = kind == Kind::TimeWait1337;
        let host = hosts.take(family, rfc1337, origin.iss);
        let tcb = Tcb {
            state: State::Closed,
            active: matches!(kind, Kind::SynSent | Kind::SynReceivedActive),
            orphan: kind.orphan(),
            una: 0,
            nxt: 0,
            fin_sent: false,
            max_wnd: 0,
            rcv_nxt: 0,
            edge: 0,
            ts: style.ts,
            rfc1337,
        };
        let mut scene = Self {
            host,
            tcb,
            style,
            origin,
            ts_next: origin.ts,
            ts_recent: origin.ts,
            ts_ours: 0,
            our_scale: 0,
            unread: 0,
            last: Vec::new(),
        };
        scene.bring_to(kind);
        scene.tcb.state = kind.state();
        let row = scene.host.row();
        let found = scene.state_of(row.as_ref());
        assert_eq!(found, kind.state(), "the way to {} is blocked", kind.name());
        scene
    }

    fn bring_to(&mut self, kind: Kind) {
        let options = ConnOptions { nodelay: true, rcvbuf: Some(RCVBUF), ..ConnOptions::default() };
        if kind == Kind::Closed {
            return;
        }
        if self.tcb.active {
            self.host.connect(&options);
            self.host.turn();
            self.seen_only();
            if kind == Kind::SynReceivedActive {
                self.peer(TcpFlags::SYN, 0);
                self.seen_only();
            }
            return;
        }
        self.host.listen(&options);
        if kind == Kind::Listen {
            return;
        }
        self.peer(TcpFlags::SYN, 0);
        self.seen_only();
        if kind == Kind::SynReceived {
            return;
        }
        self.peer(TcpFlags::ACK, 0);
        self.exchange(kind);
        match kind {
            Kind::Established | Kind::ZeroWindow => {}
            Kind::CloseWait | Kind::LastAck => {
                self.peer_without_ack(TcpFlags::FIN, 0);
                self.seen_only();
                if kind == Kind::LastAck {
                    self.shut_down();
                }
            }
            _ => {
                self.shut_down();
                self.close_further(kind);
            }
        }
    }

    /// Bytes both ways, and at last some of ours that are not acknowledged.
    fn exchange(&mut self, kind: Kind) {
        for _ in 0..3 {
            self.send(ACKED / 3);
            self.peer(TcpFlags::ACK, 0);
        }
        self.peer(TcpFlags::ACK | TcpFlags::PSH, RECEIVED.into());
        assert_eq!(self.host.read(), bytes_at(1, RECEIVED.into()));
        self.settle();
        if kind == Kind::ZeroWindow {
            while self.tcb.edge > self.tcb.rcv_nxt {
                let room = self.tcb.edge - self.tcb.rcv_nxt;
                self.unread += room.min(500);
                self.peer(TcpFlags::ACK, room.min(500));
                self.settle();
            }
        }
        self.send(IN_FLIGHT);
    }

    fn close_further(&mut self, kind: Kind) {
        match kind {
            Kind::FinWait2 | Kind::FinWait2Closed => self.peer(TcpFlags::ACK, 0),
            Kind::Closing => {
                self.peer_without_ack(TcpFlags::FIN, 0);
                self.seen_only();
            }
            Kind::TimeWait | Kind::TimeWait1337 => {
                self.peer(TcpFlags::ACK, 0);
                self.peer(TcpFlags::ACK | TcpFlags::FIN, 0);
                self.seen_only();
            }
            _ => {}
        }
        // What was told on the way is not what the segment under test brings about.
        self.host.told.borrow_mut().closed = None;
    }

    /// Until delayed acknowledgements and window updates are out.
    fn settle(&mut self) {
        let sent = self.host.run_for(Duration::from_millis(90));
        self.see_all(sent);
    }

    fn send(&mut self, len: u32) {
        let conn = self.host.conn();
        let data = bytes_at(self.tcb.nxt, len.into());
        assert_eq!(self.host.io().send(conn, &data, false), Ok(data.len()));
        self.host.turn();
        let sent = self.seen_only();
        assert_eq!(sent.payload, data);
    }

    fn shut_down(&mut self) {
        let conn = self.host.conn();
        if self.tcb.orphan {
            self.host.io().close(conn);
        } else {
            self.host.io().shutdown(conn);
        }
        self.host.turn();
        assert!(self.seen_only().tcp.flags.fin());
        self.tcb.fin_sent = true;
    }

    /// The peer goes on in order and acknowledges all that it has seen.
    fn peer(&mut self, flags: TcpFlags, payload: i64) {
        self.peer_with(flags, payload, self.tcb.nxt);
        if flags.ack() {
            self.tcb.una = self.tcb.nxt;
        }
    }

    /// The peer goes on in order and acknowledges nothing new.
    fn peer_without_ack(&mut self, flags: TcpFlags, payload: i64) {
        self.peer_with(flags | TcpFlags::ACK, payload, self.tcb.una);
    }

    fn peer_with(&mut self, flags: TcpFlags, payload: i64, ack: i64) {
        // A SYN comes at once, so that our initial number is the one that was asked for.
        if !flags.syn() {
            self.host.now += Duration::from_millis(1);
        }
        let seq = self.tcb.rcv_nxt;
        self.ts_recent = self.ts_next;
        self.ts_next = self.ts_next.wrapping_add(TICK);
        let ts = self.style.ts.then_some(Stamp { newer: 0, echo_ok: true });
        let segment = self.on_wire(&Seg { flags, seq, ack, payload, ts });
        self.tcb.max_wnd = self.tcb.max_wnd.max(PEER_WINDOW.into());
        self.tcb.rcv_nxt += payload + i64::from(flags.syn()) + i64::from(flags.fin());
        let sent = self.host.give(&segment);
        self.see_all(sent);
    }

    /// The one segment that has been sent.
    fn seen_only(&mut self) -> Sent {
        let sent = self.host.sent();
        self.see_all(sent);
        assert_eq!(self.last.len(), 1, "{:?}", self.last);
        self.last.remove(0)
    }

    fn see_all(&mut self, sent: Vec<Sent>) {
        if sent.is_empty() {
            return;
        }
        for s in &sent {
            self.see(s);
        }
        self.last = sent;
    }

    /// Learn from a segment of ours what its receiver would.
    fn see(&mut self, sent: &Sent) {
        let flags = sent.tcp.flags;
        let len = sent.payload.len() as i64 + i64::from(flags.syn()) + i64::from(flags.fin());
        self.tcb.nxt = self.tcb.nxt.max(self.ours(sent.tcp.seq) + len);
        if let Some((value, _)) = sent.options.timestamps {
            self.ts_ours = value;
        }
        if flags.syn() {
            self.our_scale = sent.options.window_scale.unwrap_or(0);
        }
        if !flags.ack() {
            // A SYN: the window counts from whatever the peer begins with.
            self.tcb.edge = self.tcb.rcv_nxt + i64::from(sent.tcp.window);
        } else {
            let scale = if flags.syn() { 0 } else { self.our_scale };
            let offer = i64::from(sent.tcp.window) << scale;
            self.tcb.edge = self.tcb.edge.max(self.theirs(sent.tcp.ack) + offer);
        }
    }

    /// A number of ours, relative to our SYN.
    pub(crate) fn ours(&self, seq: u32) -> i64 {
        i64::from(seq.wrapping_sub(self.origin.iss) as i32)
    }

    /// A number of the peer's, relative to its SYN.
    pub(crate) fn theirs(&self, seq: u32) -> i64 {
        i64::from(seq.wrapping_sub(self.origin.irs) as i32)
    }

    /// The TSval of a stamp.
    pub(crate) fn ts_val(&self, ts: Stamp) -> u32 {
        self.ts_recent.wrapping_add(ts.newer as u32)
    }

    /// The segment of the peer's with real numbers, options and bytes.
    pub(crate) fn on_wire(&self, s: &Seg) -> Segment {
        let mut options = TcpOptions::default();
        if let Some(ts) = s.ts {
            let echo = if ts.echo_ok { self.ts_ours } else { self.ts_ours.wrapping_sub(1 << 30) };
            options.timestamps = Some((self.ts_val(ts), if s.flags.ack() { echo } else { 0 }));
        }
        let scale = if s.flags.syn() {
            options.mss = Some(500);
            options.sack_permitted = self.style.sack;
            options.window_scale = self.style.scale;
            0
        } else {
            self.style.scale.unwrap_or(0)
        };
        // Text begins behind a SYN.
        let text = s.seq + i64::from(s.flags.syn());
        Segment {
            flags: s.flags,
            seq: self.origin.irs.wrapping_add(s.seq as u32),
            ack: if s.flags.ack() { self.origin.iss.wrapping_add(s.ack as u32) } else { 0 },
            window: PEER_WINDOW >> scale,
            options,
            payload: bytes_at(text, s.payload),
        }
    }

    /// The state of the connection, given what is found of it.
    pub(crate) fn state_of(&self, row: Option<&ConnRow>) -> State {
        let state = row.map_or(State::Closed, |row| row.state);
        // A listener is what a handshake goes back to, and no state of a connection that was more.
        let young = matches!(self.tcb.state, State::Listen | State::SynReceived);
        if state == State::Listen && !young { State::Closed } else { state }
    }
}
