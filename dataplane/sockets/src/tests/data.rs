//! Reading and writing with their flags.

use alloc::vec::Vec;
use core::time::Duration;

use super::net::*;
use crate::abi::*;
use crate::{Call, Control, Errno, Value};

/// Payload lengths of the TCP segments (IPv4) that `host` has sent, bare ones left out; and whether
/// they had PSH.
fn segments(net: &Net, host: usize) -> Vec<(usize, bool)> {
    net.seen
        .iter()
        .filter(|(from, frame)| *from == host && frame[12..14] == [8, 0] && frame[23] == 6)
        .map(|(_, frame)| {
            let total = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
            let header = usize::from(frame[46] >> 4) * 4;
            (total - 20 - header, frame[47] & 8 != 0)
        })
        .filter(|(len, _)| *len > 0)
        .collect()
}

#[test]
fn looking_and_throwing_away() {
    let (mut net, client, server) = Net::connected();
    net.ok(A, Call::write(client, b"0123456789"));
    net.settle();
    assert_eq!(net.data(B, Call::recv(server, 4, MSG_PEEK)), b"0123");
    assert_eq!(net.data(B, Call::recv(server, 100, MSG_PEEK)), b"0123456789");
    let Value::Received(thrown) = net.value(B, Call::recv(server, 3, MSG_TRUNC)) else { panic!() };
    assert_eq!((thrown.count, thrown.data.len()), (3, 0));
    assert_eq!(net.data(B, Call::recv(server, 2, 0)), b"34");
    assert_eq!(
        net.data(B, Call::Read { fd: server, into: [Some(1), Some(0), Some(2)].into() }),
        b"567"
    );
    assert_eq!(net.err(B, Call::recv(server, 1, MSG_OOB)), Errno::EINVAL);
    assert_eq!(net.err(B, Call::recv(server, 1, MSG_ERRQUEUE)), Errno::EAGAIN);
    assert_eq!(net.err(B, Call::Read { fd: server, into: [None].into() }), Errno::EFAULT);
    assert_eq!(net.data(B, Call::Read { fd: server, into: [Some(1), None].into() }), b"8");
    assert_eq!(net.ok(B, Call::read(server, 0)), 0);
    assert_eq!(net.data(B, Call::read(server, 9)), b"9");
    assert_eq!(net.err(B, Call::recv(server, 1, MSG_DONTWAIT)), Errno::EAGAIN);
}

#[test]
fn waiting_for_enough() {
    let (mut net, client, server) = Net::connected();
    let all = net.blocked(B, Call::recv(server, 10, MSG_WAITALL));
    net.ok(A, Call::write(client, b"01234"));
    net.settle();
    assert_eq!(net.completed(B, all), None);
    net.ok(A, Call::write(client, b"56789abc"));
    net.settle();
    let Some(Ok(Value::Received(received))) = net.completed(B, all) else { panic!() };
    assert_eq!(received.data, b"0123456789");

    net.ok(B, Call::set_int(server, SOL_SOCKET, SO_RCVLOWAT, 5));
    assert_eq!(net.ready(B, server) & EPOLLIN, 0, "three are not enough");
    let some = net.blocked(B, Call::recv(server, 100, 0));
    net.ok(A, Call::write(client, b"de"));
    net.settle();
    let Some(Ok(Value::Received(received))) = net.completed(B, some) else { panic!() };
    assert_eq!(received.data, b"abcde");
    let cut = net.blocked(B, Call::recv(server, 100, 0));
    net.ok(A, Call::write(client, b"f"));
    net.ok(A, Call::Close { fd: client });
    net.settle();
    let Some(Ok(Value::Received(received))) = net.completed(B, cut) else { panic!() };
    assert_eq!(received.data, b"f", "the end is enough");
    net.assert_nothing_left();
}

#[test]
fn waiting_no_longer_than_told() {
    let (mut net, client, server) = Net::connected();
    let time = [0_i64.to_ne_bytes(), 300_000_i64.to_ne_bytes()].concat();
    for name in [SO_RCVTIMEO, SO_SNDTIMEO] {
        let value = Some(time.clone());
        net.ok(B, Call::SetSockOpt { fd: server, level: SOL_SOCKET, name, value });
    }
    let op = net.blocked(B, Call::read(server, 1));
    net.run_for(Duration::from_millis(299));
    assert_eq!(net.completed(B, op), None);
    net.run_for(Duration::from_millis(1));
    assert_eq!(net.completed(B, op), Some(Err(Errno::EAGAIN)));
    // The peer does not read, so some of it goes, and then the time is over.
    let op = net.blocked(B, Call::write(server, &[7; 40_000_000]));
    net.run_for(Duration::from_secs(20));
    let Some(Ok(Value::Int(sent))) = net.completed(B, op) else { panic!() };
    assert!(sent > 100_000 && sent < 40_000_000, "{sent}");
    let op = net.blocked(A, Call::recv(client, 50_000_000, MSG_WAITALL));
    net.run_for(Duration::from_secs(20));
    assert!(net.with_sockets(A, |sockets, io| sockets.cancel(io, op)));
    let Some(Ok(Value::Received(received))) = net.completed(A, op) else { panic!() };
    assert_eq!(received.count as i64, sent, "cancelled, it returns what it has");
    let op = net.blocked(A, Call::read(client, 1));
    assert!(net.with_sockets(A, |sockets, io| sockets.cancel(io, op)));
    assert_eq!(net.completed(A, op), Some(Err(Errno::EINTR)));
    assert!(!net.with_sockets(A, |sockets, io| sockets.cancel(io, op)));
    net.assert_nothing_left();
}

#[test]
fn records_are_never_merged() {
    let (mut net, client, server) = Net::connected();
    net.ok(A, Call::set_int(client, SOL_SOCKET, SO_SNDBUF, 100_000));
    net.seen.clear();
    // What is sent before the first answer goes at once; the rest is held by the window.
    let mut sent = Vec::new();
    for i in 0..40_usize {
        let len = 100 + 70 * i;
        assert_eq!(net.ok(A, Call::send(client, &alloc::vec![i as u8; len], MSG_EOR)), len as i32);
        sent.push(len);
    }
    net.run_for(Duration::from_secs(2));
    let segments = segments(&net, A);
    // Each record is a number of full segments and a rest with PSH.
    let mut records = Vec::new();
    let mut open = 0;
    for (len, pushed) in segments {
        open += len;
        if pushed {
            records.push(core::mem::take(&mut open));
        }
    }
    assert_eq!(records, sent);
    assert_eq!(net.data(B, Call::recv(server, 1_000_000, 0)).len(), sent.iter().sum::<usize>());
}

#[test]
fn records_stay_apart_when_sent_again() {
    let (mut net, client, server) = Net::connected();
    net.cut[A] = true;
    net.seen.clear();
    for len in [500, 300, 700] {
        net.ok(A, Call::send(client, &alloc::vec![1; len], MSG_EOR));
    }
    net.run_for(Duration::from_millis(10));
    net.cut[A] = false;
    net.run_for(Duration::from_secs(5));
    let segments = segments(&net, A);
    assert!(segments.len() >= 5, "{segments:?}");
    assert!(segments.iter().all(|(len, _)| [500, 300, 700].contains(len)), "{segments:?}");
    assert_eq!(net.data(B, Call::recv(server, 9999, 0)).len(), 1500);
}

#[test]
fn corks() {
    let (mut net, client, server) = Net::connected();
    net.seen.clear();
    net.ok(A, Call::set_int(client, SOL_TCP, TCP_NODELAY, 1));
    net.ok(A, Call::set_int(client, SOL_TCP, TCP_CORK, 1));
    net.ok(A, Call::write(client, &[1; 400]));
    net.ok(A, Call::write(client, &[1; 400]));
    net.settle();
    assert_eq!(segments(&net, A), [], "it waits, whatever TCP_NODELAY says");
    net.ok(A, Call::set_int(client, SOL_TCP, TCP_CORK, 0));
    net.settle();
    assert_eq!(segments(&net, A), [(800, true)]);
    net.ok(A, Call::set_int(client, SOL_TCP, TCP_CORK, 1));
    net.ok(A, Call::write(client, &[1; 300]));
    net.run_for(Duration::from_millis(300));
    assert_eq!(segments(&net, A)[1..], [(300, true)], "not for ever");
    net.ok(A, Call::set_int(client, SOL_TCP, TCP_CORK, 0));
    net.ok(A, Call::send(client, &[1; 100], MSG_MORE));
    net.settle();
    assert_eq!(segments(&net, A).len(), 2);
    net.ok(A, Call::send(client, &[1; 10], 0));
    net.settle();
    assert_eq!(segments(&net, A)[2..], [(110, true)]);
    // An acknowledgement sets going what was announced to be longer, and does not push it.
    net.ok(A, Call::send(client, &[1; 4000], MSG_MORE));
    net.settle();
    let last = segments(&net, A);
    assert_eq!(last.iter().map(|(len, _)| len).sum::<usize>(), 1210 + 4000);
    assert!(last.last().is_some_and(|(_, pushed)| !pushed), "{last:?}");
    assert_eq!(net.data(B, Call::recv(server, 9999, 0)).len(), 5210);
}

#[test]
fn what_is_queued_is_told() {
    let (mut net, client, server) = Net::connected();
    let ioctl = |fd, request| Call::Ioctl { fd, request, value: Some(0) };
    net.ok(A, Call::set_int(client, SOL_SOCKET, SO_SNDBUF, 100_000));
    net.cut[B] = true;
    net.ok(A, Call::write(client, &[0; 30_000]));
    net.settle();
    let Value::Out(queued) = net.value(A, ioctl(client, SIOCOUTQ)) else { panic!() };
    let Value::Out(unsent) = net.value(A, ioctl(client, SIOCOUTQNSD)) else { panic!() };
    assert!(queued == 30_000 && unsent > 0 && unsent < 30_000, "{queued} {unsent}");
    assert_eq!(net.value(B, ioctl(server, SIOCINQ)), Value::Out(queued - unsent));
    net.cut[B] = false;
    net.run_for(Duration::from_secs(3));
    assert_eq!(net.value(A, ioctl(client, SIOCOUTQ)), Value::Out(0));
    net.ok(A, Call::Close { fd: client });
    net.settle();
    assert_eq!(net.value(B, ioctl(server, SIOCINQ)), Value::Out(30_000), "a FIN is no byte");
    assert_eq!(net.err(B, ioctl(server, 0x1234)), Errno::ENOTTY);
    assert_eq!(
        net.err(B, Call::Ioctl { fd: server, request: SIOCINQ, value: None }),
        Errno::EFAULT
    );
    // TCP_INQ counts it as something to read, though.
    net.ok(B, Call::set_int(server, SOL_TCP, TCP_INQ, 1));
    let receive =
        |len| Call::Receive { fd: server, into: [Some(len)].into(), flags: 0, control: true };
    for (len, left) in [(29_000, 1001), (1000, 1), (10, 1)] {
        let Value::Received(received) = net.value(B, receive(len)) else { panic!() };
        let data = i32::to_ne_bytes(left).to_vec();
        let inq = Control { level: SOL_TCP, kind: TCP_CM_INQ, data };
        assert_eq!(received.control, [inq], "{len}");
    }
    net.assert_nothing_left();
}

#[test]
fn sending_with_flags_and_bad_pointers() {
    let (mut net, client, server) = Net::connected();
    assert_eq!(net.ok(A, Call::send(client, b"urgent", MSG_OOB)), 6, "in line");
    assert_eq!(net.err(A, Call::send(client, b"x", MSG_FASTOPEN)), Errno::EOPNOTSUPP);
    assert_eq!(net.err(A, Call::Write { fd: client, from: [None].into() }), Errno::EFAULT);
    let partly = Call::Write { fd: client, from: [Some(b"ab".to_vec()), None].into() };
    assert_eq!(net.ok(A, partly), 2);
    assert_eq!(net.ok(A, Call::Write { fd: client, from: [].into() }), 0);
    net.settle();
    assert_eq!(net.data(B, Call::recv(server, 99, 0)), b"urgentab");
    net.ok(A, Call::Shutdown { fd: client, how: SHUT_WR });
    assert_eq!(net.err(A, Call::write(client, b"x")), Errno::EPIPE);
    net.settle();
    assert_eq!(net.ok(B, Call::write(server, b"still")), 5);
    net.settle();
    assert_eq!(net.data(A, Call::read(client, 9)), b"still");
    net.assert_nothing_left();
}

#[test]
fn writers_are_woken_when_it_is_worth_it() {
    let (mut net, client, server) = Net::connected();
    net.ok(A, Call::set_int(client, SOL_SOCKET, SO_SNDBUF, 15_000));
    net.nonblocking(A, client);
    net.cut[B] = true;
    let sent = net.ok(A, Call::write(client, &[0; 100_000]));
    assert!((30_000..100_000).contains(&sent), "{sent}");
    assert_eq!(net.err(A, Call::write(client, b"x")), Errno::EAGAIN);
    assert_eq!(net.ready(A, client), 0);
    net.cut[B] = false;
    net.run_for(Duration::from_secs(3));
    assert_eq!(net.ready(A, client), EPOLLOUT | EPOLLWRNORM);
    // Little may be unsent.
    net.ok(A, Call::set_int(client, SOL_TCP, TCP_NOTSENT_LOWAT, 4000));
    net.cut[B] = true;
    let mut sent = 0;
    while let crate::Outcome::Done(Ok(value)) = net.start(A, Call::write(client, &[0; 100_000])) {
        sent += value.returned();
        net.run_for(Duration::from_millis(1));
    }
    // What leaves at once, and a whole chunk of half the peer's window for the rest.
    assert!((4000..100_000).contains(&sent), "{sent}");
    assert_eq!(net.ready(A, client), 0);
    net.cut[B] = false;
    net.run_for(Duration::from_secs(3));
    net.data(B, Call::recv(server, 1 << 20, 0));
    net.run_for(Duration::from_secs(3));
    assert_eq!(net.ready(A, client), EPOLLOUT | EPOLLWRNORM);
}
