//! State x flags x sequence number x acknowledgement x payload x timestamp.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::time::Duration;

use base::{DropReason, TcpFlags};
use tcp::State;

use crate::host::{Family, Sent};
use crate::scene::{Hosts, Kind, Origin, Scene, Style, bytes_at};
use crate::spec::{self, Expected, RST_SEQ_ZERO, Reply, Seg, Stamp, Tcb};

/// Where the sequence number lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeqAt {
    FarLeft,
    /// The segment ends where the window begins.
    EndsLeft,
    /// Half of the text lies before the window.
    StraddlesLeft,
    Before,
    At,
    Inside,
    /// The text ends with the window.
    EndsRight,
    StraddlesRight,
    LastByte,
    Edge,
    Beyond,
    FarRight,
}

impl SeqAt {
    const ALL: [Self; 12] = [
        Self::FarLeft,
        Self::EndsLeft,
        Self::StraddlesLeft,
        Self::Before,
        Self::At,
        Self::Inside,
        Self::EndsRight,
        Self::StraddlesRight,
        Self::LastByte,
        Self::Edge,
        Self::Beyond,
        Self::FarRight,
    ];

    /// The number, for a segment with `payload`.
    fn number(self, t: &Tcb, payload: i64) -> i64 {
        match self {
            Self::FarLeft => t.rcv_nxt - (1 << 30),
            Self::EndsLeft => t.rcv_nxt - payload.max(2),
            Self::StraddlesLeft => t.rcv_nxt - (payload / 2).max(3),
            Self::Before => t.rcv_nxt - 1,
            Self::At => t.rcv_nxt,
            Self::Inside => t.rcv_nxt + 20,
            Self::EndsRight => t.edge - payload.max(2),
            Self::StraddlesRight => t.edge - (payload / 2).max(3),
            Self::LastByte => t.edge - 1,
            Self::Edge => t.edge,
            Self::Beyond => t.edge + 1,
            Self::FarRight => t.edge + (1 << 30),
        }
    }
}

/// Where the acknowledgement lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckAt {
    /// Older than any window of the peer's, RFC 5961 section 5.
    TooOld,
    Oldest,
    Old,
    Una,
    InFlight,
    Nxt,
    Beyond,
    Far,
}

impl AckAt {
    const ALL: [Self; 8] = [
        Self::TooOld,
        Self::Oldest,
        Self::Old,
        Self::Una,
        Self::InFlight,
        Self::Nxt,
        Self::Beyond,
        Self::Far,
    ];

    fn number(self, t: &Tcb) -> i64 {
        match self {
            Self::TooOld => t.una - t.max_wnd - 1,
            Self::Oldest => t.una - t.max_wnd,
            Self::Old => t.una - 1,
            Self::Una => t.una,
            Self::InFlight => t.una + (t.nxt - t.una) / 2,
            Self::Nxt => t.nxt,
            Self::Beyond => t.nxt + 1,
            Self::Far => t.nxt + (1 << 30),
        }
    }
}

/// How much text the segment carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Text {
    None,
    Some,
    /// More than the whole window.
    Window,
}

impl Text {
    fn len(self, t: &Tcb) -> i64 {
        match self {
            Self::None => 0,
            Self::Some => 30,
            Self::Window => (t.edge - t.rcv_nxt + 20).clamp(40, 3800),
        }
    }
}

/// The timestamps option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ts {
    Absent,
    Equal,
    Newer,
    MuchNewer,
    OneOlder,
    TwoOlder,
    /// Within what is forgiven to a bare acknowledgement.
    LittleOlder,
    Older,
    MuchOlder,
    WrongEcho,
}

impl Ts {
    const ALL: [Self; 10] = [
        Self::Absent,
        Self::Equal,
        Self::Newer,
        Self::MuchNewer,
        Self::OneOlder,
        Self::TwoOlder,
        Self::LittleOlder,
        Self::Older,
        Self::MuchOlder,
        Self::WrongEcho,
    ];

    fn stamp(self) -> Option<Stamp> {
        let newer = match self {
            Self::Absent => return None,
            Self::Equal | Self::WrongEcho => 0,
            Self::Newer => 50,
            Self::MuchNewer => (1 << 31) - 1,
            Self::OneOlder => -1,
            Self::TwoOlder => -2,
            Self::LittleOlder => -100,
            Self::Older => -5000,
            Self::MuchOlder => -(1 << 31) + 1,
        };
        Some(Stamp { newer, echo_ok: self != Self::WrongEcho })
    }
}

/// One cell of the matrix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    kind: Kind,
    family: Family,
    style: Style,
    origin: Origin,
    flags: TcpFlags,
    pub(crate) seq: SeqAt,
    pub(crate) ack: AckAt,
    pub(crate) text: Text,
    ts: Ts,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, family, style, origin, flags, seq, ack, text, ts } = self;
        write!(f, "{family:?}/{}/{}/{}/{flags}", style.name, origin.name, kind.name())?;
        write!(f, "/seq={seq:?}/ack={ack:?}/text={text:?}/ts={ts:?}")
    }
}

impl Cell {
    /// Run the cell; `Err` says what differs, and then how the cell came to it.
    fn run(&self, hosts: &mut Hosts, loud: bool) -> Result<(), (String, String)> {
        let mut scene = Scene::new(hosts, self.kind, self.family, self.style, self.origin);
        let before = scene.tcb.clone();
        let seg = self.segment(&before);
        let want = spec::arrives(&before, &seg);
        let (got, sent, mut faults) = observe(&mut scene, &seg, &want);
        faults.extend(hosts.give_back(scene).err());
        let story = format!("before {before:?}\n    {seg:?}\n    got {got:?}\n    sent {sent:?}");
        if loud {
            println!("{self}\n    {story}");
        }
        let mut differs = want.differs(&got);
        for fault in faults {
            let _ = write!(differs, " {fault};");
        }
        if differs.is_empty() { Ok(()) } else { Err((differs, story)) }
    }

    /// What comes of the cell, whatever the specification says.
    pub(crate) fn outcome(&self, hosts: &mut Hosts) -> Expected {
        let mut scene = Scene::new(hosts, self.kind, self.family, self.style, self.origin);
        let before = scene.tcb.clone();
        let seg = self.segment(&before);
        let (got, ..) = observe(&mut scene, &seg, &spec::arrives(&before, &seg));
        hosts.give_back(scene).expect("nothing left over");
        got
    }

    fn segment(&self, t: &Tcb) -> Seg {
        let payload = self.text.len(t);
        Seg {
            flags: self.flags,
            seq: self.seq.number(t, payload),
            ack: if self.flags.ack() { self.ack.number(t) } else { 0 },
            payload,
            ts: self.ts.stamp(),
        }
    }
}

/// Let the segment arrive; what came of it, what was sent, and what is wrong whatever was expected.
pub(crate) fn observe(
    scene: &mut Scene,
    seg: &Seg,
    want: &Expected,
) -> (Expected, Vec<Sent>, Vec<String>) {
    let mut faults = Vec::new();
    let drops = scene.host.drops();
    // A connection that begins now has the initial number that was asked for.
    if scene.tcb.state != State::Listen {
        scene.host.now += Duration::from_millis(1);
    }
    let segment = scene.on_wire(seg);
    let mut sent = scene.host.give(&segment);
    let mut at_once = true;
    if sent.is_empty() && want.reply == Reply::AckSoon {
        at_once = false;
        // RFC 9293 section 3.8.6.3: less than half a second.
        sent = scene.host.run_until_sent(Duration::from_millis(499));
    }
    let after: Vec<_> = scene.host.drops().iter().zip(drops).map(|(a, b)| a - b).collect();
    let mut dropped = DropReason::ALL.iter().zip(&after).filter(|(_, n)| **n > 0);
    let drop = dropped.next().map(|(reason, _)| *reason);
    if after.iter().sum::<u64>() > 1 {
        faults.push("counted as dropped more than once".to_owned());
    }
    let row = scene.host.row();
    let info = row.as_ref().and_then(|row| row.info);
    let state = scene.state_of(row.as_ref());
    let text = scene.host.read();
    let first = match scene.tcb.state {
        State::SynSent => seg.seq + 1,
        _ => scene.tcb.rcv_nxt - scene.unread,
    };
    if text != bytes_at(first, text.len() as i64) {
        faults.push("other bytes than the peer sent".to_owned());
    }
    let fresh = text.len() as i64 - scene.unread;
    // RFC 9293 section 3.10.7.4: a reset flushes what is queued.
    let flushed = state == State::Closed && text.is_empty();
    if fresh < 0 && !flushed {
        faults.push("unread bytes are lost".to_owned());
    }
    // An end is told once everything has been read.
    scene.host.turn();
    scene.host.sent();
    let una = match (&row, want.state) {
        (Some(row), State::Established | State::CloseWait | State::FinWait1) if info.is_some() => {
            scene.tcb.nxt - i64::from(scene.tcb.fin_sent) - i64::from(row.send_queue)
        }
        _ => want.una,
    };
    let (reply, rcv_nxt) = reply_of(scene, &sent, want, at_once, &mut faults);
    let got = Expected {
        reply,
        state,
        una,
        rcv_nxt: rcv_nxt.unwrap_or(want.rcv_nxt),
        delivered: fresh.max(0),
        held: info.map_or(0, |info| i64::from(info.rcv_ooo_bytes)),
        drop,
        closed: scene.host.told.borrow().closed,
        ts_learnt: ts_learnt(scene, seg, &sent).unwrap_or(want.ts_learnt),
    };
    (got, sent, faults)
}

/// What was sent, as a reply.
fn reply_of(
    scene: &Scene,
    sent: &[Sent],
    want: &Expected,
    at_once: bool,
    faults: &mut Vec<String>,
) -> (Reply, Option<i64>) {
    let [s] = sent else {
        if sent.len() > 1 {
            faults.push(format!("{} segments in answer to one", sent.len()));
        }
        return (Reply::Nothing, None);
    };
    let flags = s.tcp.flags;
    let seq = scene.ours(s.tcp.seq);
    let ack = flags.ack().then(|| scene.theirs(s.tcp.ack));
    if flags.rst() {
        let zero = s.tcp.seq == 0 && matches!(want.reply, Reply::Rst { seq: RST_SEQ_ZERO, .. });
        return (Reply::Rst { seq: if zero { RST_SEQ_ZERO } else { seq }, ack }, None);
    }
    let Some(ack) = ack else {
        faults.push("sent without ACK".to_owned());
        return (Reply::Nothing, None);
    };
    if flags.syn() {
        return (Reply::SynAck { seq, ack }, Some(ack));
    }
    if seq != scene.tcb.nxt || flags != TcpFlags::ACK || !s.payload.is_empty() {
        faults.push(format!("not a bare acknowledgement at SND.NXT: seq {seq}"));
    }
    // RFC 7323 section 3.2: once agreed, on every segment that is no reset.
    if scene.tcb.ts != s.options.timestamps.is_some() && scene.tcb.state != State::SynSent {
        faults.push("timestamps on one side only".to_owned());
    }
    match want.reply {
        Reply::AckSoon => (Reply::AckSoon, Some(ack)),
        _ if at_once => (Reply::Ack, Some(ack)),
        _ => (Reply::Nothing, Some(ack)),
    }
}

/// Whether TS.Recent became the segment's TSval, if that can be seen.
fn ts_learnt(scene: &Scene, seg: &Seg, sent: &[Sent]) -> Option<bool> {
    let ts = seg.ts.filter(|ts| ts.newer != 0)?;
    let (_, echo) = sent.first()?.options.timestamps?;
    if echo == scene.ts_val(ts) {
        return Some(true);
    }
    (echo == scene.ts_recent).then_some(false)
}

const ACK: TcpFlags = TcpFlags::ACK;
const SYN: TcpFlags = TcpFlags::SYN;
const FIN: TcpFlags = TcpFlags::FIN;
const RST: TcpFlags = TcpFlags::RST;
const PSH: TcpFlags = TcpFlags::PSH;
const URG: TcpFlags = TcpFlags::URG;

const fn with(a: TcpFlags, b: TcpFlags) -> TcpFlags {
    a.union(b)
}

/// Crossed with everything.
const ACKING: [TcpFlags; 4] = [ACK, with(FIN, ACK), with(SYN, ACK), with(RST, ACK)];
/// Crossed with everything but acknowledgements.
const BARE: [TcpFlags; 4] = [TcpFlags::empty(), SYN, FIN, RST];
/// What nobody sends, and what changes nothing: crossed with sequence numbers.
const ODD: [TcpFlags; 13] = [
    with(SYN, FIN),
    with(SYN, RST),
    with(with(SYN, FIN), ACK),
    with(with(SYN, RST), ACK),
    with(with(FIN, PSH), URG),
    with(PSH, URG),
    with(FIN, RST),
    with(with(FIN, RST), ACK),
    with(with(PSH, URG), ACK),
    with(with(PSH, FIN), ACK),
    with(SYN, with(TcpFlags::ECE, TcpFlags::CWR)),
    with(SYN, with(PSH, URG)),
    TcpFlags::from_bits(0x1ff),
];

/// A generator of cells: all that differ in what the arguments leave open.
pub(crate) struct Plan {
    pub(crate) family: Family,
    pub(crate) style: Style,
    pub(crate) origin: Origin,
}

impl Plan {
    pub(crate) fn cell(&self, kind: Kind, flags: TcpFlags) -> Cell {
        let Self { family, style, origin } = *self;
        let ts = if style.ts { Ts::Equal } else { Ts::Absent };
        let (seq, ack, text) = (SeqAt::At, AckAt::Nxt, Text::None);
        Cell { kind, family, style, origin, flags, seq, ack, text, ts }
    }

    /// Flags x sequence numbers x acknowledgements x text.
    fn crossed(&self, kind: Kind) -> Vec<Cell> {
        let mut cells = Vec::new();
        for seq in SeqAt::ALL {
            for text in [Text::None, Text::Some, Text::Window] {
                for flags in ACKING {
                    for ack in AckAt::ALL {
                        cells.push(Cell { seq, text, ack, ..self.cell(kind, flags) });
                    }
                }
                for flags in BARE {
                    cells.push(Cell { seq, text, ..self.cell(kind, flags) });
                }
                if text != Text::Window {
                    for flags in ODD {
                        cells.push(Cell { seq, text, ..self.cell(kind, flags) });
                    }
                }
            }
        }
        cells
    }

    /// Timestamps x flags x some places.
    fn stamped(&self, kind: Kind) -> Vec<Cell> {
        let mut cells = Vec::new();
        for ts in Ts::ALL {
            for flags in [ACK, with(FIN, ACK), SYN, with(SYN, ACK), RST, with(RST, ACK)] {
                for seq in [
                    SeqAt::FarLeft,
                    SeqAt::EndsLeft,
                    SeqAt::Before,
                    SeqAt::At,
                    SeqAt::Inside,
                    SeqAt::Beyond,
                ] {
                    for text in [Text::None, Text::Some] {
                        for ack in [AckAt::Old, AckAt::Una, AckAt::Nxt] {
                            if flags.ack() || ack == AckAt::Nxt {
                                cells.push(Cell { seq, text, ack, ts, ..self.cell(kind, flags) });
                            }
                        }
                    }
                }
            }
        }
        cells
    }
}

/// Kinds of failures that are shown.
const SHOWN: usize = 30;

/// Run cells; those that `MILLRACE_CELL` selects if it is set. Failures that differ in the same way are
/// shown by their first cell.
fn run(cells: impl IntoIterator<Item = Cell>) -> usize {
    let filter = std::env::var("MILLRACE_CELL").ok();
    let mut count = 0;
    let mut failed = BTreeMap::<(&str, String), (usize, String)>::new();
    let mut hosts = Hosts::default();
    for cell in cells {
        let name = cell.to_string();
        if filter.as_ref().is_some_and(|part| !name.contains(part)) {
            continue;
        }
        count += 1;
        if let Err((differs, story)) = cell.run(&mut hosts, filter.is_some()) {
            let first = || (0, format!("{name}\n    {story}"));
            failed.entry((cell.kind.name(), differs)).or_insert_with(first).0 += 1;
        }
    }
    let mut report = String::new();
    for ((kind, differs), (times, first)) in failed.iter().take(SHOWN) {
        let _ = write!(report, "\n{kind}, {times} times:{differs}\n  first {first}\n");
    }
    let total: usize = failed.values().map(|(times, _)| times).sum();
    assert!(total == 0, "{total} of {count} cells differ:\n{report}");
    count
}

fn all(plan: &Plan, cells: impl Fn(&Plan, Kind) -> Vec<Cell>) {
    let count = run(Kind::ALL.into_iter().flat_map(|kind| cells(plan, kind)));
    println!("{count} cells");
}

#[test]
fn v4_without_options() {
    all(&Plan { family: Family::V4, style: Style::PLAIN, origin: Origin::LOW }, Plan::crossed);
}

#[test]
fn v6_without_options() {
    all(&Plan { family: Family::V6, style: Style::PLAIN, origin: Origin::SIGN }, Plan::crossed);
}

#[test]
fn v4_with_all_options() {
    all(&Plan { family: Family::V4, style: Style::FULL, origin: Origin::WRAP }, Plan::crossed);
}

#[test]
fn v6_with_all_options() {
    all(&Plan { family: Family::V6, style: Style::FULL, origin: Origin::LOW }, Plan::crossed);
}

#[test]
fn v4_timestamps() {
    all(&Plan { family: Family::V4, style: Style::FULL, origin: Origin::LOW }, Plan::stamped);
}

#[test]
fn v6_timestamps() {
    all(&Plan { family: Family::V6, style: Style::FULL, origin: Origin::WRAP }, Plan::stamped);
}

/// What the others leave out of families, options and origins: one cell in so many, another one each
/// time.
#[test]
fn the_other_combinations() {
    const ONE_IN: usize = 23;
    let mut cells = Vec::new();
    for family in Family::BOTH {
        for style in [Style::PLAIN, Style::SACK, Style::SCALED, Style::FULL] {
            for origin in [Origin::LOW, Origin::WRAP, Origin::SIGN] {
                let plan = Plan { family, style, origin };
                let first = cells.len() % ONE_IN;
                let some = Kind::ALL.into_iter().flat_map(|kind| plan.crossed(kind));
                cells.extend(some.skip(first).step_by(ONE_IN));
                if style.ts {
                    let some = Kind::ALL.into_iter().flat_map(|kind| plan.stamped(kind));
                    cells.extend(some.skip(first).step_by(ONE_IN));
                }
            }
        }
    }
    let count = run(cells);
    println!("{count} cells");
}
