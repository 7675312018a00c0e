use super::*;
use base::{Random, SeededRandom};
use std::vec;
use std::vec::Vec;

fn seq(v: u32) -> SeqNum {
    SeqNum::new(v)
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn record(start: u32, len: u32, size: u16, ms: u64) -> Record {
    Record {
        start: seq(start),
        end: seq(start.wrapping_add(len)),
        sent: at(ms),
        departure: Departure::default(),
        seg_size: size,
        marks: Marks::default(),
    }
}

/// A log of one plan of ten segments of 100 from `start` on.
fn ten(start: u32) -> TransmitLog {
    let mut log = TransmitLog::new();
    log.push(record(start, 1000, 100, 1));
    log
}

fn block(start: u32, end: u32) -> SeqRange {
    SeqRange::new(seq(start), seq(end)).unwrap()
}

fn sack(log: &mut TransmitLog, start: u32, end: u32) -> AckOutcome {
    let mut out = AckOutcome { prior_high_sacked: log.high_sacked(), ..AckOutcome::default() };
    log.on_sack(block(start, end), &mut out);
    out
}

fn ack(log: &mut TransmitLog, una: u32) -> AckOutcome {
    let mut out = AckOutcome { prior_high_sacked: log.high_sacked(), ..AckOutcome::default() };
    log.ack_to(seq(una), &mut out);
    out
}

#[test]
fn a_sack_splits_at_segments_and_neighbours_merge_again() {
    let mut log = ten(0);
    assert_eq!(sack(&mut log, 300, 500).sacked, 2);
    assert_eq!((log.len(), log.packets_out(), log.sacked_out()), (3, 10, 2));
    assert_eq!(sack(&mut log, 500, 600).sacked, 1);
    assert_eq!(log.len(), 3, "merged");
    assert_eq!(sack(&mut log, 200, 700).sacked, 2);
    assert_eq!((log.len(), log.sacked_out()), (3, 5));
    assert_eq!(sack(&mut log, 200, 700).sacked, 0, "the same again");
    log.check(seq(0), seq(1000));
}

#[test]
fn parts_of_segments_do_not_count() {
    let mut log = ten(0);
    assert_eq!(sack(&mut log, 301, 399).sacked, 0);
    assert_eq!(sack(&mut log, 250, 450).sacked, 1);
    assert_eq!(log.get(1).map(|r| (r.start, r.end)), Some((seq(300), seq(400))));
    assert_eq!(log.packets_out(), 10);
}

#[test]
fn a_partial_acknowledgement_keeps_the_other_boundaries() {
    let mut log = ten(0);
    let out = ack(&mut log, 150);
    assert_eq!((out.acked, out.delivered, log.packets_out()), (1, 1, 9));
    assert_eq!(log.head().map(|r| (r.start, r.end)), Some((seq(150), seq(200))));
    // 200..300 is still one segment.
    assert_eq!(sack(&mut log, 200, 300).sacked, 1);
    assert_eq!(ack(&mut log, 300).acked, 2);
    log.check(seq(300), seq(1000));
}

#[test]
fn a_fin_belongs_to_the_last_segment() {
    let mut log = TransmitLog::new();
    let mut last = record(0, 1001, 100, 1);
    last.marks = Marks::FIN.with(Marks::PSH);
    log.push(last);
    assert_eq!(log.packets_out(), 10);
    // Everything but the FIN.
    assert_eq!(sack(&mut log, 900, 1000).sacked, 0, "the peer may have it; we wait for the FIN");
    assert_eq!(sack(&mut log, 900, 1001).sacked, 1);
    assert_eq!(ack(&mut log, 1001).acked, 10);
    assert!(log.is_empty());
    // A FIN alone.
    let mut fin = record(1001, 1, 100, 1);
    fin.marks = Marks::FIN;
    log.push(fin);
    assert_eq!((log.packets_out(), log.head().map(Record::data_len)), (1, Some(0)));
    assert_eq!(ack(&mut log, 1002).acked, 1);
}

#[test]
fn what_left_in_pieces_stays_in_pieces() {
    let mut log = ten(0);
    log.push(record(1000, 500, 100, 1));
    assert_eq!(log.len(), 2, "sent again, each is a burst of its own");
    assert_eq!(log.packets_out(), 10 + 5);
}

/// Judges by `(sent, end)` alone: lost if before this.
fn before(ms: u64, end: u32) -> impl Fn(Instant, SeqNum) -> Judgement {
    let newest = Delivered { sent: at(ms), end: seq(end), rtt: Duration::ZERO };
    move |sent, end| if newest.is_after(sent, end) { Judgement::Lost } else { Judgement::Open }
}

#[test]
fn what_was_sent_before_the_newest_delivered_is_lost_once() {
    let mut log = ten(0);
    sack(&mut log, 300, 500);
    let mut from = seq(0);
    let found = log.detect(&mut from, before(1, 500));
    assert_eq!((found.lost, found.first, from), (3, Some(seq(0)), seq(500)));
    assert_eq!(log.detect(&mut from, before(1, 500)), Detected::default());
    assert_eq!((log.lost_out(), log.next_lost(seq(0))), (3, Some(0)));
    sack(&mut log, 900, 1000);
    assert_eq!(log.detect(&mut from, before(1, 1000)).lost, 4);
    log.check(seq(0), seq(1000));
}

#[test]
fn those_that_wait_share_one_timer() {
    let mut log = TransmitLog::new();
    for i in 0..5 {
        log.push(record(i * 100, 100, 100, u64::from(i)));
    }
    sack(&mut log, 400, 500);
    let mut from = seq(0);
    let judge = |sent: Instant, _| match sent.since(at(1)) {
        Duration::ZERO if sent <= at(1) => Judgement::Lost,
        _ => Judgement::Wait(sent.since(at(1))),
    };
    let found = log.detect(&mut from, judge);
    assert_eq!((found.lost, found.wait), (2, Some(Duration::from_millis(2))));
}

#[test]
fn lost_retransmitted_and_lost_again() {
    let mut log = ten(0);
    sack(&mut log, 400, 1000);
    let mut from = seq(0);
    assert_eq!(log.detect(&mut from, before(1, 1000)).lost, 4);
    log.on_retransmitted(seq(0), 2, at(9));
    assert_eq!((log.retrans_out(), log.next_lost(seq(0))), (2, Some(1)));
    assert_eq!(log.get(1).map(|r| r.start), Some(seq(200)));
    log.on_retransmitted(seq(200), 2, at(10));
    assert_eq!((log.retrans_out(), log.next_lost(seq(0))), (4, None));
    // The second retransmission arrives in part: the first, sent earlier, is lost, and so is what the
    // second had before the part that arrived.
    sack(&mut log, 300, 400);
    let found = log.detect(&mut from, before(10, 400));
    assert_eq!((found.lost, found.lost_retransmissions, found.first), (3, 3, Some(seq(0))));
    assert_eq!((log.retrans_out(), log.next_lost(seq(0))), (0, Some(0)));
    let out = ack(&mut log, 400);
    assert!(out.retrans_acked);
    assert_eq!((log.lost_out(), out.delivered), (0, 3));
}

#[test]
fn a_late_copy_is_not_the_newest() {
    let clues = Clues {
        now: at(50),
        min_rtt: Some(Duration::from_millis(20)),
        echo: Some(1),
        ts_offset: 0,
        high_seq: seq(0),
    };
    for (resent_at, expected) in [(40, None), (20, None)] {
        let mut log = ten(0);
        log.mark_head_lost();
        log.on_retransmitted(seq(0), 1, at(resent_at));
        let mut out = AckOutcome { clues, ..AckOutcome::default() };
        log.ack_to(seq(100), &mut out);
        assert_eq!(out.newest.map(|n| n.sent), expected, "sent again at {resent_at}");
    }
    let mut log = ten(0);
    log.mark_head_lost();
    log.on_retransmitted(seq(0), 1, at(20));
    let mut out = AckOutcome { clues: Clues { echo: Some(20), ..clues }, ..AckOutcome::default() };
    log.ack_to(seq(100), &mut out);
    assert_eq!(out.newest.map(|n| n.rtt), Some(Duration::from_millis(30)));
}

#[test]
fn a_timeout_spares_what_was_sent_a_moment_ago() {
    let mut log = TransmitLog::new();
    for i in 0..4 {
        log.push(record(i * 100, 100, 100, u64::from(i)));
    }
    let spared = log.mark_all_lost(false, |sent| sent >= at(2));
    assert_eq!((spared, log.lost_out()), (Some(seq(200)), 2));
    assert_eq!(log.mark_all_lost(false, |_| true), Some(seq(200)));
    assert_eq!(log.mark_all_lost(false, |_| false), None);
    assert_eq!(log.lost_out(), 4);
    log.unmark_lost();
    assert_eq!((log.lost_out(), log.next_lost(seq(0))), (0, None));
    log.check(seq(0), seq(400));
}

#[test]
fn the_tail_becomes_a_record_of_its_own() {
    let mut log = ten(0);
    assert_eq!(log.isolate_tail(), Some(seq(900)));
    assert_eq!((log.len(), log.isolate_tail()), (2, Some(seq(900))));
    log.on_retransmitted(seq(900), 1, at(9));
    assert_eq!(log.isolate_tail(), None, "once");
    assert_eq!((log.lost_out(), log.retrans_out()), (0, 1));
    log.check(seq(0), seq(1000));
}

#[test]
fn smaller_segments_are_counted_anew() {
    let mut log = ten(0);
    sack(&mut log, 500, 600);
    log.resegment(50);
    assert_eq!((log.packets_out(), log.sacked_out(), log.lost_out()), (20, 2, 18));
    log.check(seq(0), seq(1000));
}

#[test]
fn a_full_log_refuses_to_split() {
    let mut log = TransmitLog::new();
    let segs = 3 * RECORDS_MAX as u32;
    for i in 0..segs / 44 + 1 {
        log.push(record(i * 4400, 4400, 100, u64::from(i)));
    }
    let mut refused = false;
    for i in 0..segs / 2 {
        refused |= sack(&mut log, i * 200, i * 200 + 100).refused;
        assert!(log.len() <= RECORDS_MAX);
    }
    assert!(refused);
}

/// What is known of each segment, the slow way.
#[derive(Clone, Copy, Default)]
struct Cell {
    sacked: bool,
    lost: bool,
    retrans: bool,
    ever: bool,
}

/// The log against a list of segments, across the wrap of the sequence space.
#[test]
fn against_a_list_of_segments() {
    const SIZE: u32 = 100;
    for seed in 0..200u64 {
        let mut r = SeededRandom::new(seed);
        let base = 0u32.wrapping_sub(r.below(8000));
        let mut log = TransmitLog::new();
        let mut cells: Vec<Cell> = vec![];
        let mut gone = 0usize;
        for step in 0..300u64 {
            let position = |i: usize| base.wrapping_add(i as u32 * SIZE);
            let pick = |r: &mut SeededRandom, from: usize, to: usize| {
                from + r.below((to - from + 1) as u32) as usize
            };
            match r.below(8) {
                0 | 1 => {
                    let segs = 1 + r.below(20);
                    log.push(record(position(cells.len()), segs * SIZE, SIZE as u16, step));
                    cells.extend(vec![Cell::default(); segs as usize]);
                }
                2 => {
                    let to = pick(&mut r, gone, cells.len());
                    let before = log.sacked_out();
                    let out = ack(&mut log, position(to));
                    assert_eq!(out.acked as usize, to - gone);
                    let sacked = cells[gone..to].iter().filter(|c| c.sacked).count() as u32;
                    assert_eq!(before - log.sacked_out(), sacked);
                    assert_eq!(out.delivered, out.acked - sacked);
                    // Merged records are careful for all of their segments.
                    let ever = cells[gone..to].iter().any(|c| c.ever);
                    assert!(out.retrans_acked || !ever);
                    gone = to;
                }
                3 | 4 => {
                    let from = pick(&mut r, gone, cells.len());
                    let to = pick(&mut r, from, cells.len().min(from + 9));
                    let out = sack(&mut log, position(from), position(to));
                    let mut fresh = 0;
                    for cell in &mut cells[from..to] {
                        fresh += u32::from(!cell.sacked);
                        *cell = Cell { sacked: true, ever: cell.ever, ..Cell::default() };
                    }
                    assert_eq!((out.sacked, out.delivered), (fresh, fresh));
                }
                5 => {
                    // What was sent before the highest selectively acknowledged segment.
                    if let Some(high) = log.high_sacked() {
                        let to = (high.get().wrapping_sub(base) / SIZE) as usize;
                        let mut from = seq(position(gone));
                        let before = |_, end: SeqNum| {
                            if end.at_or_before(high) { Judgement::Lost } else { Judgement::Open }
                        };
                        log.detect_originals(&mut from, &before, &mut Detected::default());
                        for cell in &mut cells[gone..to] {
                            cell.lost |= !cell.sacked && !cell.ever;
                        }
                    }
                }
                6 => {
                    if let Some(index) = log.next_lost(seq(position(gone))) {
                        let found = *log.get(index).unwrap();
                        let from = (found.start.get().wrapping_sub(base) / SIZE) as usize;
                        let expected = (gone..cells.len())
                            .find(|&i| cells[i].lost && !cells[i].retrans)
                            .unwrap();
                        assert_eq!(from, expected, "seed {seed}");
                        let segs = 1 + r.below(found.segs());
                        log.on_retransmitted(found.start, segs, at(step));
                        for cell in &mut cells[from..from + segs as usize] {
                            cell.retrans = true;
                            cell.ever = true;
                        }
                    } else {
                        assert!(!cells[gone..].iter().any(|c| c.lost && !c.retrans));
                    }
                }
                _ => {
                    if r.below(10) == 0 {
                        let forget = r.below(2) == 0;
                        log.mark_all_lost(forget, |_| false);
                        for cell in &mut cells[gone..] {
                            cell.sacked &= !forget;
                            cell.lost |= !cell.sacked;
                            cell.retrans = false;
                        }
                    }
                }
            }
            let count = |f: fn(&Cell) -> bool| cells[gone..].iter().filter(|c| f(c)).count() as u32;
            assert_eq!(log.packets_out() as usize, cells.len() - gone, "seed {seed}");
            assert_eq!(log.sacked_out(), count(|c| c.sacked), "seed {seed} step {step}");
            assert_eq!(log.lost_out(), count(|c| c.lost), "seed {seed} step {step}");
            assert_eq!(log.retrans_out(), count(|c| c.retrans), "seed {seed} step {step}");
            let end = base.wrapping_add(cells.len() as u32 * SIZE);
            log.check(seq(base.wrapping_add(gone as u32 * SIZE)), seq(end));
        }
    }
}
