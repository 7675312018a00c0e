//! Many connections at once and one after the other.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec;
use core::cell::RefCell;
use core::net::SocketAddr;
use core::time::Duration;

use base::mem::{MemConfig, MemDevice};
use base::{ConnId, Instant, SeededRandom};
use tcp::{CloseReason, ConnOptions, TcpParams};

use super::fixture::*;
use crate::{App, AppEvent, Io, Local, Stack, StackParams};

type Apps = [Box<dyn App>; 2];

/// Two stacks side by side; the second one is the server at port 7.
fn pair(params: StackParams, apps: Apps) -> [Stack<MemDevice>; 2] {
    let mem = |last| MemConfig { mac: [2, 0, 0, 0, 0, last], ..MemConfig::default() };
    let (a, b) = MemDevice::pair(&mem(1), &mem(2));
    let [client, server] = apps;
    let stack = |device, last: u8, app| {
        let seed = SeededRandom::new(last.into());
        Stack::new(stack_config(last, 1500), params.clone().into(), vec![device], seed, app)
    };
    let mut stacks = [stack(a, 1, client), stack(b, 2, server)];
    stacks[1].turn(Instant::from_millis(1000), &mut core::iter::empty(), &mut |_| Ok(()));
    stacks
}

/// One round of turns; time goes on by `step`, or to the next deadline if nothing happens.
fn round(stacks: &mut [Stack<MemDevice>; 2], now: &mut Instant, step: Duration) {
    let mut busy = false;
    let mut next: Option<Instant> = None;
    for stack in stacks {
        let turn = stack.turn(*now, &mut core::iter::empty(), &mut |_| Ok(()));
        busy |= turn.work > 0 || turn.pending;
        next = [next, turn.next_deadline].into_iter().flatten().min();
    }
    *now += step;
    if let (false, Some(next)) = (busy, next) {
        *now = next.max(*now);
    }
}

fn echo() -> Box<dyn App> {
    Box::new(FnApp(|io: &mut dyn Io, event: AppEvent| match event {
        AppEvent::Start => {
            io.listen(None, 7, 64, &ConnOptions { nodelay: true, ..ConnOptions::default() })
                .unwrap();
        }
        AppEvent::Readable { conn } => {
            let mut back = vec::Vec::new();
            io.recv(conn, &mut |bytes| {
                back.extend_from_slice(bytes);
                bytes.len()
            });
            assert_eq!(io.send(conn, &back, false), Ok(back.len()));
        }
        AppEvent::PeerClosed { conn } => io.close(conn),
        _ => {}
    }))
}

#[derive(Default)]
struct Tally {
    opened: u32,
    answered: u32,
    closed: BTreeMap<&'static str, u32>,
}

/// Opens connections, `at_once` at a time, sends 64 bytes on each and ends it when they are back.
fn caller(tally: &Rc<RefCell<Tally>>, total: u32, at_once: u32, reset: bool) -> Box<dyn App> {
    let tally = Rc::clone(tally);
    let open = move |io: &mut dyn Io, t: &mut Tally| {
        let remote = SocketAddr::from((PEER_IP, 7));
        io.connect(remote, Local::ANY, &ConnOptions::default()).expect("a port and a place");
        t.opened += 1;
    };
    Box::new(FnApp(move |io: &mut dyn Io, event: AppEvent| {
        let t = &mut *tally.borrow_mut();
        match event {
            AppEvent::Start => (0..at_once).for_each(|_| open(io, t)),
            AppEvent::Connected { conn } => assert_eq!(io.send(conn, &[7; 64], false), Ok(64)),
            AppEvent::Readable { conn } => {
                let taken = io.recv(conn, &mut |bytes| bytes.len()).unwrap().taken;
                assert_eq!(taken, 64);
                t.answered += 1;
                if reset { io.abort(conn) } else { io.close(conn) }
            }
            AppEvent::Closed { reason, .. } => {
                let name = match reason {
                    CloseReason::Finished => "finished",
                    CloseReason::Aborted => "aborted",
                    _ => "other",
                };
                *t.closed.entry(name).or_default() += 1;
                if t.opened < total {
                    open(io, t);
                }
            }
            _ => {}
        }
    }))
}

fn churn(reset: bool, params: StackParams) -> [Stack<MemDevice>; 2] {
    const TOTAL: u32 = 3000;
    let tally: Rc<RefCell<Tally>> = Rc::default();
    let mut stacks = pair(params, [caller(&tally, TOTAL, 32, reset), echo()]);
    let mut now = Instant::from_millis(1000);
    for _ in 0..200_000 {
        round(&mut stacks, &mut now, Duration::from_micros(20));
        if tally.borrow().closed.values().sum::<u32>() == TOTAL {
            break;
        }
    }
    let expected = if reset { "aborted" } else { "finished" };
    assert_eq!(tally.borrow().closed, BTreeMap::from([(expected, TOTAL)]));
    assert_eq!(tally.borrow().answered, TOTAL);
    let end = now + Duration::from_secs(70);
    while now < end {
        round(&mut stacks, &mut now, Duration::from_micros(20));
    }
    for stack in &stacks {
        assert_eq!(stack.table(), [0, 0, 0]);
        assert!(stack.holds_no_buffers());
        assert_eq!(stack.tcp_counters().retrans_segs, 0);
    }
    stacks
}

#[test]
fn short_connections_that_end_with_a_reset() {
    let stacks = churn(true, StackParams::default());
    assert_eq!(stacks[1].tcp_counters().passive_opens, 3000);
}

#[test]
fn short_connections_that_end_in_order_with_more_records_than_fit() {
    let stacks = churn(false, StackParams::default());
    assert!(stacks[0].tcp_counters().time_wait_overflow > 2000);
}

#[test]
fn ports_in_time_wait_are_taken_over_if_that_is_allowed() {
    // Sixteen ports, each used many times: possible only with `tcp_tw_reuse`.
    let tcp =
        TcpParams { tw_reuse: 1, tw_reuse_delay: Duration::from_millis(1), ..TcpParams::default() };
    let params = StackParams { tcp, local_port_range: [6000, 6047], ..StackParams::default() };
    let tally: Rc<RefCell<Tally>> = Rc::default();
    let mut stacks = pair(params, [caller(&tally, 400, 4, false), echo()]);
    let mut now = Instant::from_millis(1000);
    for _ in 0..20_000 {
        round(&mut stacks, &mut now, Duration::from_micros(500));
        if tally.borrow().closed.values().sum::<u32>() == 400 {
            break;
        }
    }
    assert_eq!(tally.borrow().closed, BTreeMap::from([("finished", 400)]));
    assert!(now < Instant::from_millis(50_000), "without waiting for a minute");
    assert!(stacks[0].tcp_counters().tw_recycled > 100);
}

#[test]
fn flows_share_alike_and_a_small_one_gets_through() {
    // Eight flows that send what they can, and a ninth that asks and is answered.
    let received: Rc<RefCell<BTreeMap<ConnId, u64>>> = Rc::default();
    let answers: Rc<RefCell<u32>> = Rc::default();
    let (noted, counted) = (Rc::clone(&received), Rc::clone(&answers));
    let server = FnApp(move |io: &mut dyn Io, event: AppEvent| match event {
        AppEvent::Start => {
            let options = ConnOptions { nodelay: true, ..ConnOptions::default() };
            io.listen(None, 7, 64, &options).unwrap();
            io.listen(None, 8, 64, &options).unwrap();
        }
        AppEvent::Readable { conn } => {
            let mut taken = 0;
            io.recv(conn, &mut |bytes| {
                taken += bytes.len();
                bytes.len()
            });
            if io.local_addr(conn).unwrap().port() == 8 {
                assert_eq!(io.send(conn, &[1; 64], false), Ok(64));
            } else {
                *noted.borrow_mut().entry(conn).or_default() += taken as u64;
            }
        }
        _ => {}
    });
    let client = FnApp(move |io: &mut dyn Io, event: AppEvent| {
        let options = ConnOptions { nodelay: true, ..ConnOptions::default() };
        match event {
            AppEvent::Start => {
                for port in [7, 7, 7, 7, 8, 7, 7, 7, 7] {
                    io.connect(SocketAddr::from((PEER_IP, port)), Local::ANY, &options).unwrap();
                }
            }
            AppEvent::Connected { conn } | AppEvent::Writable { conn } => {
                if io.remote_addr(conn).unwrap().port() == 8 {
                    assert_eq!(io.send(conn, &[2; 64], false), Ok(64));
                } else {
                    while io.send(conn, &[3; 32_768], false) == Ok(32_768) {}
                }
            }
            AppEvent::Readable { conn } => {
                io.recv(conn, &mut |bytes| bytes.len());
                *counted.borrow_mut() += 1;
                assert_eq!(io.send(conn, &[2; 64], false), Ok(64));
            }
            _ => {}
        }
    });
    let mut stacks = pair(StackParams::default(), [Box::new(client), Box::new(server)]);
    let mut now = Instant::from_millis(1000);
    for _ in 0..3000 {
        round(&mut stacks, &mut now, Duration::from_micros(20));
    }
    let received = received.borrow();
    let (least, most) = (received.values().min().unwrap(), received.values().max().unwrap());
    assert_eq!(received.len(), 8);
    assert!(*most < 2 * least, "unfair: {received:?}");
    // A full ring lies between question and answer: eight bursts.
    assert!(*answers.borrow() > 100, "{} answers among bulk", answers.borrow());
}
