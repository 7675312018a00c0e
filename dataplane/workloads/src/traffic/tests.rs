use core::net::SocketAddr;
use core::time::Duration;

use base::Rate;
use tcp::ConnOptions;

use super::{Board, Flow, Kind, Reader, SharedBoard, Sink, Source, Spec};
use crate::fake::{Link, Net};

const PORT: u16 = 5000;

fn spec(kind: Kind) -> Spec {
    Spec {
        kind,
        flows: 1,
        start: Duration::ZERO,
        stagger: Duration::ZERO,
        stop: None,
        reader: Reader::Eager,
        options: ConnOptions::default(),
    }
}

/// Run a source and a sink for so long.
fn run_seeds(link: Link, spec: Spec, time: Duration, seeds: [u64; 2]) -> (Net, SharedBoard) {
    let mut net = Net::new(link);
    let board = Board::shared(spec.flows);
    let sink = Sink::new(PORT, spec, seeds[1], board.clone());
    let server = net.add_host(Some(Box::new(sink)));
    let target = SocketAddr::new(Net::addr(server), PORT);
    net.add_host(Some(Box::new(Source::new(target, spec, seeds[0], board.clone()))));
    net.run_for(time);
    (net, board)
}

fn run(spec: Spec, time: Duration) -> Vec<Flow> {
    let (_, board) = run_seeds(Link::default(), spec, time, [1, 1]);
    let flows = board.borrow().flows.clone();
    for flow in &flows {
        assert_eq!(flow.wrong_at, None, "{flow:?}");
        assert!(!flow.failed, "{flow:?}");
    }
    flows
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn bulk_of_so_many_bytes_is_complete_with_the_last() {
    let flows = run(spec(Kind::Bulk { bytes: Some(300_000) }), 5 * SECOND);
    let [flow] = flows.as_slice() else { panic!("one flow") };
    assert_eq!((flow.sent, flow.received), (300_000, 300_000));
    assert!(flow.completed_at == flow.last_byte_at && flow.completed_at.is_some());
    assert!(flow.source.is_none() && flow.sink.is_none(), "both ends are closed");
}

#[test]
fn bulk_until_stopped_loses_nothing_of_what_was_taken() {
    let spec = Spec { stop: Some(2 * SECOND), ..spec(Kind::Bulk { bytes: None }) };
    let flows = run(spec, 5 * SECOND);
    let [flow] = flows.as_slice() else { panic!("one flow") };
    assert!(flow.sent > 1_500_000 && flow.received == flow.sent, "{flow:?}");
    assert!(flow.is_over());
}

#[test]
fn flows_begin_one_after_another() {
    let kind = Kind::Bulk { bytes: Some(1000) };
    let spec = Spec { flows: 5, start: SECOND, stagger: SECOND / 2, ..spec(kind) };
    let flows = run(spec, 10 * SECOND);
    let begun = flows[0].opened_at.expect("opened");
    for (i, flow) in flows.iter().enumerate() {
        let opened = flow.opened_at.expect("opened");
        assert_eq!(opened.since(begun), SECOND / 2 * i as u32);
        assert!(flow.is_over());
    }
}

#[test]
fn requests_wait_for_responses() {
    let kind = Kind::Rr { request: 64, response: 3000, count: Some(100) };
    let flows = run(spec(kind), 10 * SECOND);
    let [flow] = flows.as_slice() else { panic!("one flow") };
    assert_eq!((flow.received, flow.returned, flow.transactions), (6400, 300_000, 100));
    // Two delays of a millisecond at least, each.
    assert!(flow.transaction_sum >= Duration::from_millis(200), "{flow:?}");
    assert!(flow.is_over());
}

#[test]
fn writes_come_at_their_times() {
    let kind = Kind::Writes { size: 100, every: Duration::from_millis(10), count: Some(50) };
    let flows = run(spec(kind), 10 * SECOND);
    let [flow] = flows.as_slice() else { panic!("one flow") };
    assert_eq!(flow.received, 5000);
    let took = flow.last_byte_at.expect("bytes").since(flow.established_at.expect("established"));
    assert!(took >= Duration::from_millis(490) && took < Duration::from_millis(500), "{took:?}");
}

#[test]
fn bursts_take_turns_with_silence() {
    let kind = Kind::OnOff { on: SECOND / 10, off: SECOND * 9 / 10, bytes: None };
    let spec = Spec { stop: Some(10 * SECOND), ..spec(kind) };
    let flows = run(spec, 15 * SECOND);
    // A tenth of the time at a megabyte per second, and what buffers held at the end of each burst.
    assert!((1_000_000..1_800_000).contains(&flows[0].received), "{:?}", flows[0]);
}

#[test]
fn an_idle_flow_carries_nothing_and_ends_when_stopped() {
    let flows = run(Spec { stop: Some(SECOND), ..spec(Kind::Idle) }, 3 * SECOND);
    assert!(flows[0].is_over() && flows[0].bytes() == 0 && flows[0].established_at.is_some());
    assert!(!run(spec(Kind::Idle), 3 * SECOND)[0].is_over());
}

#[test]
fn a_slow_reader_sets_the_pace() {
    let reader = Reader::Rate(Rate::from_bytes_per_sec(50_000));
    let spec = Spec { reader, ..spec(Kind::Bulk { bytes: Some(200_000) }) };
    let flows = run(spec, 10 * SECOND);
    let took = flows[0].completed_at.expect("over").since(flows[0].opened_at.expect("opened"));
    assert!((3900..4200).contains(&took.as_millis()), "{took:?}");
}

#[test]
fn a_reader_that_pauses_goes_on() {
    let reader = Reader::Pause { at: SECOND / 10, time: 3 * SECOND };
    let spec = Spec { reader, ..spec(Kind::Bulk { bytes: Some(500_000) }) };
    let flows = run(spec, 10 * SECOND);
    let took = flows[0].completed_at.expect("over").since(flows[0].opened_at.expect("opened"));
    assert!((3300..3700).contains(&took.as_millis()), "{took:?}");
}

#[test]
fn bytes_of_another_flow_are_noticed() {
    let spec = spec(Kind::Bulk { bytes: Some(1000) });
    let (_, board) = run_seeds(Link::default(), spec, SECOND, [1, 2]);
    assert_eq!(board.borrow().flows[0].wrong_at, Some(0));
}

#[test]
fn nobody_who_listens_is_a_failure_that_ends_the_flow() {
    let mut net = Net::new(Link::default());
    let spec = spec(Kind::Bulk { bytes: Some(1000) });
    let board = Board::shared(1);
    let server = net.add_host(None);
    let target = SocketAddr::new(Net::addr(server), PORT);
    net.add_host(Some(Box::new(Source::new(target, spec, 1, board.clone()))));
    net.run_for(SECOND);
    assert!(board.borrow().flows[0].failed && board.borrow().is_over());
}
