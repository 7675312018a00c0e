//! Five segments in all their orders, next to a model that is one cell per byte.
//!
//! After each arrival the acknowledgement, its SACK blocks and the bytes held out of order must be
//! those of the model; in the end the application has every byte once, as it came first.

use std::fmt::Write as _;
use std::ops::Range;
use std::time::Duration;

use base::TcpFlags;
use tcp::State;

use crate::host::{Family, Sent};
use crate::scene::{Hosts, Kind, Origin, Scene, Style, byte_at};
use crate::spec::{Seg, Stamp};

/// Five segments, as offsets from what is expected next.
struct Layout {
    name: &'static str,
    segments: [Range<i64>; 5],
    /// The last number is a FIN.
    fin: bool,
    /// All of them come once more, in the same order.
    twice: bool,
}

const EQUAL: [Range<i64>; 5] = [0..100, 100..200, 200..300, 300..400, 400..500];
const NO_TWO_ALIKE: [Range<i64>; 5] = [0..1, 1..38, 38..138, 138..141, 141..391];
/// Each reaches into its neighbours.
const REACHING: [Range<i64>; 5] = [0..120, 80..220, 180..320, 280..420, 380..500];
/// Some lie within others, some end or begin together.
const NESTED: [Range<i64>; 5] = [0..100, 50..150, 100..300, 120..140, 280..400];
const SAME_ENDS: [Range<i64>; 5] = [0..200, 0..50, 100..200, 200..260, 180..260];
/// The first begins with what was read before.
const OLD_AND_NEW: [Range<i64>; 5] = [-40..20, 20..60, 60..120, 100..170, 170..171];
/// One covers all that lies between the first and the last.
const COVERING: [Range<i64>; 5] = [0..10, 30..40, 60..70, 90..100, 10..100];

const fn layout(name: &'static str, segments: [Range<i64>; 5]) -> Layout {
    Layout { name, segments, fin: false, twice: false }
}

const LAYOUTS: [Layout; 10] = [
    layout("equal", EQUAL),
    layout("no two alike", NO_TWO_ALIKE),
    layout("reaching", REACHING),
    layout("nested", NESTED),
    layout("same ends", SAME_ENDS),
    layout("old and new", OLD_AND_NEW),
    layout("covering", COVERING),
    Layout { fin: true, ..layout("equal with FIN", EQUAL) },
    Layout { fin: true, ..layout("reaching with FIN", REACHING) },
    Layout { twice: true, ..layout("equal, twice", EQUAL) },
];

/// One cell per number: what arrived there first, and when it was last touched.
struct Model {
    bytes: Vec<Option<u8>>,
    touched: Vec<usize>,
    /// Arrivals so far.
    time: usize,
    /// The number of the FIN.
    fin: Option<i64>,
}

/// What an arrival must bring about.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    at_once: bool,
    ack: i64,
    sack: Vec<(i64, i64)>,
    held: i64,
}

impl Model {
    fn new(layout: &Layout) -> Self {
        let end = layout.segments.iter().map(|s| s.end).max().unwrap_or(0);
        let len = (end + i64::from(layout.fin)) as usize;
        Self {
            bytes: vec![None; len],
            touched: vec![0; len],
            time: 0,
            fin: layout.fin.then_some(end),
        }
    }

    /// What has come is all that precedes this number.
    fn next(&self) -> i64 {
        self.bytes.iter().position(Option::is_none).unwrap_or(self.bytes.len()) as i64
    }

    fn has(&self, n: i64) -> bool {
        n < 0 || self.bytes.get(n as usize).is_some_and(Option::is_some)
    }

    /// The numbers of the segment, its FIN included, arrive with these bytes.
    fn arrive(
        &mut self,
        numbers: Range<i64>,
        byte: impl Fn(i64) -> u8,
        blocks_max: usize,
    ) -> Answer {
        self.time += 1;
        let before = self.next();
        let holes_before = self.bytes.iter().skip(before as usize).any(Option::is_some);
        // RFC 2883 section 4: the first contiguous part that is here already is reported.
        let duplicate = self.first_run(&numbers, true);
        // DEVIATION: RFC 9293 section 3.10.7.4 trims a segment to what is new. Of one that is new in
        // several places the first is kept, so that a segment is stored as one piece; the rest is not
        // acknowledged and comes again.
        let new = self.first_run(&numbers, false);
        for n in new.clone().into_iter().flatten() {
            self.bytes[n as usize] = Some(byte(n));
        }
        for n in new.into_iter().chain(duplicate.clone()).flatten().filter(|&n| n >= 0) {
            self.touched[n as usize] = self.time;
        }
        let next = self.next();
        let held = self.bytes.iter().skip(next as usize).filter(|b| b.is_some()).count();
        let mut sack = self.blocks(next);
        if let Some(d) = &duplicate {
            sack.insert(0, (d.start, d.end));
        }
        sack.truncate(blocks_max);
        let fin_taken = self.fin.is_some_and(|fin| before <= fin && next > fin);
        // RFC 5681 section 4.2: at once for what is out of order or fills a gap.
        let at_once = holes_before || held > 0 || duplicate.is_some() || fin_taken;
        Answer { at_once, ack: next, sack, held: held as i64 }
    }

    /// The first part of `numbers` that is here (or is not).
    fn first_run(&self, numbers: &Range<i64>, here: bool) -> Option<Range<i64>> {
        let start = numbers.clone().find(|&n| self.has(n) == here)?;
        let end = (start..numbers.end).find(|&n| self.has(n) != here).unwrap_or(numbers.end);
        Some(start..end)
    }

    /// RFC 2018 section 4: the block with what came last, then the others as they were last reported.
    fn blocks(&self, next: i64) -> Vec<(i64, i64)> {
        let end = self.bytes.len() as i64;
        let mut blocks = Vec::new();
        let mut at = next;
        while let Some(range) = self.first_run(&(at..end), true) {
            at = range.end;
            let touched = range.clone().map(|n| self.touched[n as usize]).max();
            blocks.push((touched, (range.start, range.end)));
        }
        blocks.sort_by_key(|&(touched, _)| std::cmp::Reverse(touched));
        blocks.into_iter().map(|(_, block)| block).collect()
    }
}

/// All orders of 0 to 4.
fn orders() -> Vec<[usize; 5]> {
    let mut out = Vec::new();
    for code in 0..5usize.pow(5) {
        let order = std::array::from_fn(|i| code / 5usize.pow(i as u32) % 5);
        if (0..5).all(|i| order.contains(&i)) {
            out.push(order);
        }
    }
    assert_eq!(out.len(), 120);
    out
}

/// Run one order; `Err` tells the step at which it differs.
fn run(
    hosts: &mut Hosts,
    plan: (Family, Style, Origin),
    layout: &Layout,
    order: [usize; 5],
) -> Result<(), String> {
    let (family, style, origin) = plan;
    let mut scene = Scene::new(hosts, Kind::Established, family, style, origin);
    let base = scene.tcb.rcv_nxt;
    let mut model = Model::new(layout);
    let again = if layout.twice { &order[..] } else { &[] };
    for (step, &index) in order.iter().chain(again).enumerate() {
        let mut numbers = layout.segments[index].clone();
        let mut flags = TcpFlags::ACK;
        let payload = numbers.end - numbers.start;
        if model.fin == Some(numbers.end) {
            flags |= TcpFlags::FIN;
            numbers.end += 1;
        }
        let seg = Seg {
            flags,
            seq: base + numbers.start,
            ack: scene.tcb.nxt,
            payload,
            ts: style.ts.then_some(Stamp { newer: 0, echo_ok: true }),
        };
        // Each segment has bytes of its own where it begins anew.
        let byte = |n: i64| byte_at(base + n) ^ index as u8;
        let mut segment = scene.on_wire(&seg);
        segment.payload = (numbers.start..numbers.start + payload).map(byte).collect();
        let blocks_max = if style.ts { 3 } else { 4 };
        let mut want = model.arrive(numbers, byte, blocks_max);
        if !style.sack {
            want.sack.clear();
        }
        let got = arrival(&mut scene, &segment, want.at_once, base)?;
        if got != want {
            return Err(format!(
                "step {step}, segment {index}:\n    got  {got:?}\n    want {want:?}"
            ));
        }
    }
    let text: Vec<u8> = match model.fin {
        Some(fin) => model.bytes[..fin as usize].iter().map_while(|b| *b).collect(),
        None => model.bytes.iter().map_while(|b| *b).collect(),
    };
    let read = scene.host.read();
    if read != text {
        return Err(format!(
            "read {} bytes, other than the {} of the model",
            read.len(),
            text.len()
        ));
    }
    let row = scene.host.row();
    let info = row.as_ref().and_then(|row| row.info).ok_or("the connection is gone")?;
    let complete = text.len() as i64 + i64::from(layout.fin) == model.bytes.len() as i64;
    let ended = if layout.fin && complete { State::CloseWait } else { State::Established };
    if info.state != ended || info.rcv_queue != 0 || complete && info.rcv_ooo_bytes != 0 {
        return Err(format!("at the end {info:?}"));
    }
    hosts.give_back(scene)
}

/// One arrival, seen from outside.
fn arrival(
    scene: &mut Scene,
    segment: &crate::host::Segment,
    at_once: bool,
    base: i64,
) -> Result<Answer, String> {
    scene.host.now += Duration::from_millis(1);
    let mut sent = scene.host.give(segment);
    let prompt = !sent.is_empty();
    if !prompt && !at_once {
        sent = scene.host.run_until_sent(Duration::from_millis(499));
    }
    let [Sent { tcp, options, payload }] = &sent[..] else {
        return Err(format!("{} segments in answer", sent.len()));
    };
    if tcp.flags != TcpFlags::ACK || !payload.is_empty() || scene.ours(tcp.seq) != scene.tcb.nxt {
        return Err(format!("not a bare acknowledgement: {tcp:?}"));
    }
    let relative = |n: u32| scene.theirs(n) - base;
    let ack = relative(tcp.ack);
    let sack = options.sack.iter().map(|&(l, r)| (relative(l), relative(r))).collect();
    let held = scene.host.row().and_then(|row| row.info).map_or(0, |i| i.rcv_ooo_bytes);
    Ok(Answer { at_once: at_once && prompt, ack, sack, held: held.into() })
}

fn all(family: Family, style: Style, origin: Origin) {
    let filter = std::env::var("MILLRACE_CELL").ok();
    let mut hosts = Hosts::default();
    let (mut count, mut failed) = (0, 0);
    let mut report = String::new();
    for layout in &LAYOUTS {
        let mut shown = 0;
        for order in orders() {
            let digits: String = order.iter().map(|i| i.to_string()).collect();
            let name =
                format!("{family:?}/{}/{}/{}/{digits}", style.name, origin.name, layout.name);
            if filter.as_ref().is_some_and(|part| !name.contains(part)) {
                continue;
            }
            count += 1;
            if let Err(text) = run(&mut hosts, (family, style, origin), layout, order) {
                failed += 1;
                shown += 1;
                if shown <= 3 {
                    let _ = write!(report, "\n{name}\n    {text}");
                }
            }
        }
    }
    assert!(failed == 0, "{failed} of {count} orders differ:{report}");
}

#[test]
fn v4_without_sack() {
    all(Family::V4, Style::PLAIN, Origin::WRAP);
}

#[test]
fn v6_without_sack() {
    all(Family::V6, Style::PLAIN, Origin::LOW);
}

#[test]
fn v4_with_sack() {
    all(Family::V4, Style::SACK, Origin::LOW);
}

#[test]
fn v6_with_sack() {
    all(Family::V6, Style::SACK, Origin::SIGN);
}

#[test]
fn v4_with_sack_and_timestamps() {
    all(Family::V4, Style::FULL, Origin::SIGN);
}

#[test]
fn v6_with_sack_and_timestamps() {
    all(Family::V6, Style::FULL, Origin::WRAP);
}
