//! Readiness: levels, edges, one shots, and who is woken.

use alloc::vec::Vec;
use core::time::Duration;

use super::net::*;
use crate::abi::*;
use crate::{Call, EpollEvent, Errno, OpId, Outcome, PollFd, Value};

fn create(net: &mut Net, host: usize) -> i32 {
    net.ok(host, Call::EpollCreate1 { flags: 0 })
}

fn ctl(operation: i32, epoll: i32, fd: i32, events: u32) -> Call {
    let event = Some(EpollEvent { events, data: fd as u64 });
    Call::EpollCtl { epoll, operation, fd, event }
}

fn add(net: &mut Net, host: usize, epoll: i32, fd: i32, events: u32) {
    net.ok(host, ctl(EPOLL_CTL_ADD, epoll, fd, events));
}

/// What is there without waiting: descriptors and their events.
#[track_caller]
fn now(net: &mut Net, host: usize, epoll: i32) -> Vec<(i32, u32)> {
    match net.start(host, Call::EpollWait { epoll, most: 8, timeout: Some(Duration::ZERO) }) {
        Outcome::Done(Ok(Value::Events(events))) => {
            events.iter().map(|event| (event.data as i32, event.events)).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn sleep(net: &mut Net, host: usize, epoll: i32) -> OpId {
    net.blocked(host, Call::EpollWait { epoll, most: 8, timeout: None })
}

#[track_caller]
fn woken(net: &mut Net, host: usize, op: OpId) -> Option<Vec<(i32, u32)>> {
    match net.completed(host, op)? {
        Ok(Value::Events(events)) => {
            Some(events.iter().map(|event| (event.data as i32, event.events)).collect())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn levels_stay_and_edges_do_not() {
    let (mut net, client, server) = Net::connected();
    let level = create(&mut net, B);
    let edge = create(&mut net, B);
    add(&mut net, B, level, server, EPOLLIN);
    add(&mut net, B, edge, server, EPOLLIN | EPOLLET);
    assert_eq!(now(&mut net, B, level), []);
    assert_eq!(now(&mut net, B, edge), []);
    for round in 0..3 {
        net.ok(A, Call::write(client, b"x"));
        net.settle();
        let ready = [(server, EPOLLIN)];
        assert_eq!(now(&mut net, B, level), ready, "{round}");
        assert_eq!(now(&mut net, B, level), ready, "{round}: still so");
        assert_eq!(now(&mut net, B, edge), ready, "{round}: each arrival is one");
        assert_eq!(now(&mut net, B, edge), [], "{round}: and no more than one");
    }
    net.ok(B, Call::read(server, 9));
    assert_eq!(now(&mut net, B, level), []);
    assert_eq!(now(&mut net, B, edge), []);
    net.assert_nothing_left();
}

#[test]
fn an_edge_that_was_missed_is_seen_again_after_mod() {
    let (mut net, client, server) = Net::connected();
    let epoll = create(&mut net, B);
    add(&mut net, B, epoll, server, EPOLLIN | EPOLLET);
    net.ok(A, Call::write(client, b"x"));
    net.settle();
    assert_eq!(now(&mut net, B, epoll), [(server, EPOLLIN)]);
    assert_eq!(now(&mut net, B, epoll), []);
    net.ok(B, ctl(EPOLL_CTL_MOD, epoll, server, EPOLLIN | EPOLLET));
    assert_eq!(now(&mut net, B, epoll), [(server, EPOLLIN)]);
}

#[test]
fn one_shot_is_one_until_armed_again() {
    let (mut net, client, server) = Net::connected();
    let epoll = create(&mut net, B);
    add(&mut net, B, epoll, server, EPOLLIN | EPOLLONESHOT);
    net.ok(A, Call::write(client, b"x"));
    net.settle();
    assert_eq!(now(&mut net, B, epoll), [(server, EPOLLIN)]);
    net.ok(A, Call::write(client, b"x"));
    net.settle();
    assert_eq!(now(&mut net, B, epoll), [], "not even for new data");
    net.ok(A, Call::Close { fd: client });
    net.settle();
    assert_eq!(now(&mut net, B, epoll), [], "or the end");
    net.ok(B, ctl(EPOLL_CTL_MOD, epoll, server, EPOLLIN | EPOLLRDHUP | EPOLLONESHOT));
    assert_eq!(now(&mut net, B, epoll), [(server, EPOLLIN | EPOLLRDHUP)]);
    net.assert_nothing_left();
}

#[test]
fn sleepers_are_woken() {
    let mut net = Net::new();
    let listener = net.listener(B, 80, 5);
    let epoll = create(&mut net, B);
    add(&mut net, B, epoll, listener, EPOLLIN | EPOLLET);
    let op = sleep(&mut net, B, epoll);
    let (client, server) = net.pair(listener, 80);
    assert_eq!(woken(&mut net, B, op), Some([(listener, EPOLLIN)].into()));
    add(&mut net, B, epoll, server, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
    assert_eq!(now(&mut net, B, epoll), [(server, EPOLLOUT)], "what is so already is news");
    let op = sleep(&mut net, B, epoll);
    net.ok(A, Call::write(client, b"x"));
    net.settle();
    assert_eq!(woken(&mut net, B, op), Some([(server, EPOLLIN | EPOLLOUT)].into()));
    let op = sleep(&mut net, B, epoll);
    net.ok(A, Call::Shutdown { fd: client, how: SHUT_WR });
    net.settle();
    let all = EPOLLIN | EPOLLOUT | EPOLLRDHUP;
    assert_eq!(woken(&mut net, B, op), Some([(server, all)].into()));
    net.ok(B, Call::Shutdown { fd: server, how: SHUT_WR });
    assert_eq!(now(&mut net, B, epoll), [(server, all | EPOLLHUP)], "asked for or not");
    // With a timeout, it returns with nothing.
    let timeout = Some(Duration::from_millis(70));
    let op = net.blocked(B, Call::EpollWait { epoll, most: 1, timeout });
    net.run_for(Duration::from_millis(69));
    assert_eq!(woken(&mut net, B, op), None);
    net.run_for(Duration::from_millis(1));
    assert_eq!(woken(&mut net, B, op), Some([].into()));
    net.assert_nothing_left();
}

#[test]
fn room_to_write_is_an_edge() {
    let (mut net, client, server) = Net::connected();
    net.ok(A, Call::set_int(client, SOL_SOCKET, SO_SNDBUF, 20_000));
    net.nonblocking(A, client);
    let epoll = create(&mut net, A);
    add(&mut net, A, epoll, client, EPOLLOUT | EPOLLET);
    assert_eq!(now(&mut net, A, epoll), [(client, EPOLLOUT)]);
    for round in 0..4 {
        assert_eq!(now(&mut net, A, epoll), [], "{round}");
        let sent = net.ok(A, Call::write(client, &[0; 200_000]));
        assert!(sent < 200_000);
        assert_eq!(now(&mut net, A, epoll), [], "{round}: full");
        net.run_for(Duration::from_secs(1));
        assert_eq!(now(&mut net, A, epoll), [(client, EPOLLOUT)], "{round}");
        while let Outcome::Done(Ok(Value::Received(_))) =
            net.start(B, Call::recv(server, 1 << 20, MSG_DONTWAIT))
        {}
    }
    net.assert_nothing_left();
}

#[test]
fn of_exclusive_sleepers_one_is_woken() {
    let mut net = Net::new();
    let listener = net.listener(B, 80, 5);
    let epolls: Vec<i32> = (0..3).map(|_| create(&mut net, B)).collect();
    for epoll in &epolls {
        add(&mut net, B, *epoll, listener, EPOLLIN | EPOLLEXCLUSIVE | EPOLLET);
    }
    let plain = create(&mut net, B);
    add(&mut net, B, plain, listener, EPOLLIN);
    let ops: Vec<OpId> = epolls.iter().map(|epoll| sleep(&mut net, B, *epoll)).collect();
    let other = sleep(&mut net, B, plain);
    let client = net.socket(A);
    net.blocked(A, Call::Connect { fd: client, addr: Some(v4(B, 80)) });
    net.settle();
    let count = ops.iter().filter(|op| woken(&mut net, B, **op).is_some()).count();
    assert_eq!(count, 1);
    assert!(woken(&mut net, B, other).is_some(), "and everybody who is not exclusive");
    net.assert_nothing_left();
}

#[test]
fn what_control_refuses() {
    let (mut net, _, server) = Net::connected();
    let epoll = create(&mut net, B);
    let inner = create(&mut net, B);
    add(&mut net, B, epoll, server, EPOLLIN);
    let exclusive = net.ok(B, Call::Dup { fd: server });
    add(&mut net, B, epoll, exclusive, EPOLLIN | EPOLLEXCLUSIVE);
    add(&mut net, B, epoll, inner, EPOLLIN);
    for (name, call, errno) in [
        ("twice", ctl(EPOLL_CTL_ADD, epoll, server, EPOLLIN), Errno::EEXIST),
        ("itself", ctl(EPOLL_CTL_ADD, epoll, epoll, EPOLLIN), Errno::EINVAL),
        ("not an epoll", ctl(EPOLL_CTL_ADD, server, epoll, EPOLLIN), Errno::EINVAL),
        ("in a circle", ctl(EPOLL_CTL_ADD, inner, epoll, EPOLLIN), Errno::ELOOP),
        ("no descriptor", ctl(EPOLL_CTL_ADD, epoll, 99, EPOLLIN), Errno::EBADF),
        ("not there", ctl(EPOLL_CTL_DEL, inner, server, 0), Errno::ENOENT),
        ("not there either", ctl(EPOLL_CTL_MOD, inner, server, EPOLLIN), Errno::ENOENT),
        ("no operation", ctl(9, epoll, server, EPOLLIN), Errno::EINVAL),
        ("exclusive by change", ctl(EPOLL_CTL_MOD, epoll, server, EPOLLEXCLUSIVE), Errno::EINVAL),
        ("exclusive changed", ctl(EPOLL_CTL_MOD, epoll, exclusive, EPOLLIN), Errno::EINVAL),
        (
            "exclusive and one shot",
            ctl(EPOLL_CTL_ADD, inner, server, EPOLLEXCLUSIVE | EPOLLONESHOT),
            Errno::EINVAL,
        ),
        (
            "a bad pointer",
            Call::EpollCtl { epoll, operation: EPOLL_CTL_ADD, fd: server, event: None },
            Errno::EFAULT,
        ),
        ("room for none", Call::EpollWait { epoll, most: 0, timeout: None }, Errno::EINVAL),
        ("of a socket", Call::EpollWait { epoll: server, most: 1, timeout: None }, Errno::EINVAL),
        ("of size zero", Call::EpollCreate { size: 0 }, Errno::EINVAL),
        ("reading it", Call::read(epoll, 1), Errno::EINVAL),
        ("receiving from it", Call::recv(epoll, 1, 0), Errno::ENOTSOCK),
    ] {
        assert_eq!(net.err(B, call), errno, "{name}");
    }
    net.assert_nothing_left();
}

#[test]
fn closing_takes_a_description_out_and_a_duplicate_keeps_it_in() {
    let (mut net, client, server) = Net::connected();
    let epoll = create(&mut net, B);
    let outer = create(&mut net, B);
    add(&mut net, B, epoll, server, EPOLLIN);
    add(&mut net, B, outer, epoll, EPOLLIN);
    let copy = net.ok(B, Call::Dup { fd: server });
    net.ok(B, Call::Close { fd: server });
    net.ok(A, Call::write(client, b"x"));
    net.settle();
    assert_eq!(now(&mut net, B, epoll), [(server, EPOLLIN)], "by its old number");
    assert_eq!(now(&mut net, B, outer), [(epoll, EPOLLIN)], "seen through another");
    net.ok(B, Call::Close { fd: copy });
    assert_eq!(now(&mut net, B, epoll), []);
    assert_eq!(now(&mut net, B, outer), []);
    net.assert_nothing_left();
}

#[test]
fn poll_sees_several_and_what_is_not_open() {
    let (mut net, client, server) = Net::connected();
    let entry = |fd, events: u32| PollFd { fd, events: events as u16 };
    let fds = Some([entry(server, EPOLLIN), entry(-1, EPOLLIN), entry(server, EPOLLOUT)].into());
    let polled = net.value(B, Call::Poll { fds, timeout: None });
    assert_eq!(polled, Value::Polled([0, 0, EPOLLOUT as u16].into()));
    assert_eq!(polled.returned(), 1);
    let fds = Some([entry(77, EPOLLIN)].into());
    assert_eq!(
        net.value(B, Call::Poll { fds, timeout: None }),
        Value::Polled([EPOLLNVAL as u16].into())
    );
    assert_eq!(net.err(B, Call::Poll { fds: None, timeout: None }), Errno::EFAULT);
    let fds = Some([entry(server, EPOLLIN)].into());
    let op = net.blocked(B, Call::Poll { fds, timeout: Some(Duration::from_secs(1)) });
    net.ok(A, Call::write(client, b"x"));
    net.settle();
    assert_eq!(net.completed(B, op), Some(Ok(Value::Polled([EPOLLIN as u16].into()))));
    let fds = Some([entry(server, EPOLLPRI)].into());
    let op = net.blocked(B, Call::Poll { fds, timeout: Some(Duration::from_secs(1)) });
    net.run_for(Duration::from_secs(1));
    assert_eq!(net.completed(B, op), Some(Ok(Value::Polled([0].into()))));
    net.assert_nothing_left();
}
