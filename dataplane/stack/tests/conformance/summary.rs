//! The behaviour at a glance: `summary.txt` beside this file, written from what the stack does.
//!
//! After a change on purpose, `MILLRACE_UPDATE=1` writes it anew.

use std::fmt::Write as _;

use base::TcpFlags;
use tcp::State;

use crate::host::Family;
use crate::matrix::{AckAt, Cell, Plan, SeqAt, Text};
use crate::scene::{Hosts, Kind, Origin, Style};
use crate::spec::{Expected, Reply};

const COMMITTED: &str = include_str!("summary.txt");
const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance/summary.txt");

const HEAD: &str = "\
What a segment does in each state, as the peer sees it. A test writes this and compares it.

-     nothing is sent and nothing changes
ack   an acknowledgement that says where we stand
(ack) the same, at once or a little later
rst   a reset
s.a   SYN with ACK
A state after it is the new one: LI listen, SR SYN-received, ES established, F2 FIN-wait-2,
CG closing, CW close-wait, TW time-wait, CL closed. `+n` bytes become readable, `~n` numbers are held.
The window is [RCV.NXT, edge); text is 30 bytes. Unless the column says otherwise, the segment is at
RCV.NXT and acknowledges SND.UNA (in SYN-SENT and SYN-RECEIVED: our SYN).
";

/// A name, and what the column changes in the usual cell.
type Column = (&'static str, Box<dyn Fn(&mut Cell)>);

/// One table.
struct Table {
    title: &'static str,
    flags: TcpFlags,
    columns: Vec<Column>,
}

fn places(text: Text, columns: &[(&'static str, SeqAt)]) -> Vec<Column> {
    let mut out = Vec::<Column>::new();
    for &(name, seq) in columns {
        out.push((name, Box::new(move |cell| (cell.seq, cell.text) = (seq, text))));
    }
    out
}

fn tables() -> Vec<Table> {
    const ACK: TcpFlags = TcpFlags::ACK;
    let around = [
        ("far left", SeqAt::FarLeft),
        ("NXT-1", SeqAt::Before),
        ("NXT", SeqAt::At),
        ("inside", SeqAt::Inside),
        ("edge-1", SeqAt::LastByte),
        ("edge", SeqAt::Edge),
        ("edge+1", SeqAt::Beyond),
        ("far right", SeqAt::FarRight),
    ];
    let text = [
        ("old", SeqAt::EndsLeft),
        ("half old", SeqAt::StraddlesLeft),
        ("NXT", SeqAt::At),
        ("inside", SeqAt::Inside),
        ("half out", SeqAt::StraddlesRight),
        ("edge", SeqAt::Edge),
        ("beyond", SeqAt::Beyond),
    ];
    let acks = [
        ("too old", AckAt::TooOld),
        ("oldest", AckAt::Oldest),
        ("UNA-1", AckAt::Old),
        ("UNA", AckAt::Una),
        ("in flight", AckAt::InFlight),
        ("NXT", AckAt::Nxt),
        ("NXT+1", AckAt::Beyond),
    ];
    let mut acknowledgements = Vec::<Column>::new();
    for (name, ack) in acks {
        acknowledgements.push((name, Box::new(move |cell| cell.ack = ack)));
    }
    let table = |title, flags, columns| Table { title, flags, columns };
    vec![
        table("RST, by sequence number", TcpFlags::RST, places(Text::None, &around)),
        table("SYN, by sequence number", TcpFlags::SYN, places(Text::None, &around)),
        table("SYN+ACK, by sequence number", TcpFlags::SYN | ACK, places(Text::None, &around)),
        table("FIN+ACK, by sequence number", TcpFlags::FIN | ACK, places(Text::None, &around)),
        table("Text, by sequence number", ACK, places(Text::Some, &text)),
        table("Text with FIN, by sequence number", TcpFlags::FIN | ACK, places(Text::Some, &text)),
        table("ACK, by acknowledgement number", ACK, acknowledgements),
    ]
}

fn code(state: State) -> &'static str {
    match state {
        State::Closed => "CL",
        State::Listen => "LI",
        State::SynSent => "SS",
        State::SynReceived => "SR",
        State::Established => "ES",
        State::FinWait1 => "F1",
        State::FinWait2 => "F2",
        State::CloseWait => "CW",
        State::Closing => "CG",
        State::LastAck => "LA",
        State::TimeWait => "TW",
    }
}

fn describe(before: State, got: &Expected) -> String {
    let mut words = Vec::new();
    match got.reply {
        Reply::Nothing => {}
        Reply::Ack => words.push("ack".to_owned()),
        Reply::AckSoon => words.push("(ack)".to_owned()),
        Reply::Rst { .. } => words.push("rst".to_owned()),
        Reply::SynAck { .. } => words.push("s.a".to_owned()),
    }
    if got.state != before {
        words.push(code(got.state).to_owned());
    }
    if got.delivered > 0 {
        words.push(format!("+{}", got.delivered));
    }
    if got.held > 0 {
        words.push(format!("~{}", got.held));
    }
    if words.is_empty() { "-".to_owned() } else { words.join(" ") }
}

fn render(family: Family) -> String {
    let plan = Plan { family, style: Style::PLAIN, origin: Origin::LOW };
    let mut hosts = Hosts::default();
    let mut out = HEAD.to_owned();
    for Table { title, flags, columns } in tables() {
        let _ = write!(out, "\n{title}\n\n{:<22}", "");
        for (name, _) in &columns {
            let _ = write!(out, "{name:<13}");
        }
        for kind in Kind::ALL {
            let _ = write!(out, "\n{:<22}", kind.name());
            for (_, change) in &columns {
                let mut cell = plan.cell(kind, flags);
                let young = matches!(kind.state(), State::SynSent | State::SynReceived);
                cell.ack = if young { AckAt::Nxt } else { AckAt::Una };
                change(&mut cell);
                let got = cell.outcome(&mut hosts);
                let _ = write!(out, "{:<13}", describe(kind.state(), &got));
            }
        }
        out.push('\n');
    }
    let lines: Vec<_> = out.lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}

#[test]
fn the_summary_is_what_the_stack_does() {
    let now = render(Family::V4);
    assert_eq!(now, render(Family::V6), "the families differ");
    if std::env::var_os("MILLRACE_UPDATE").is_some() {
        std::fs::write(PATH, &now).expect("a place to write to");
        return;
    }
    let changed: Vec<_> = COMMITTED
        .lines()
        .zip(now.lines())
        .filter(|(was, is)| was != is)
        .map(|(was, is)| format!("- {was}\n+ {is}"))
        .collect();
    assert!(
        now == COMMITTED,
        "the behaviour has changed; if on purpose, run this test with MILLRACE_UPDATE=1\n{}",
        changed.join("\n")
    );
}
