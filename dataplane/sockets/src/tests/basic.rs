//! From a socket to its end.

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;

use super::net::*;
use crate::abi::*;
use crate::{Call, Errno, SockAddr, Value};

#[test]
fn a_connection_carries_bytes_both_ways_and_ends() {
    let mut net = Net::new();
    let listener = net.listener(B, 80, 8);
    let accept = net.blocked(B, Call::Accept { fd: listener, flags: 0 });
    let client = net.socket(A);
    let connect = net.blocked(A, Call::Connect { fd: client, addr: Some(v4(B, 80)) });
    net.settle();
    assert_eq!(net.completed(A, connect), Some(Ok(Value::Int(0))));
    let Some(Ok(Value::Accepted { fd: server, peer })) = net.completed(B, accept) else {
        panic!("not accepted");
    };
    let Value::Address(local) = net.value(A, Call::GetSockName { fd: client }) else { panic!() };
    assert_eq!(peer, local);
    assert_eq!(net.value(A, Call::GetPeerName { fd: client }), Value::Address(v4(B, 80)));
    assert_eq!(net.value(B, Call::GetSockName { fd: server }), Value::Address(v4(B, 80)));

    let read = net.blocked(B, Call::read(server, 100));
    assert_eq!(net.ok(A, Call::write(client, b"hello")), 5);
    net.settle();
    let Some(Ok(Value::Received(received))) = net.completed(B, read) else { panic!() };
    assert_eq!(received.data, b"hello");
    assert_eq!(net.ok(B, Call::write(server, b"and hello to you")), 16);
    net.settle();
    assert_eq!(net.data(A, Call::read(client, 9)), b"and hello");
    assert_eq!(net.data(A, Call::read(client, 100)), b" to you");

    net.ok(A, Call::Close { fd: client });
    net.settle();
    assert_eq!(net.ok(B, Call::read(server, 10)), 0, "the end");
    net.ok(B, Call::Close { fd: server });
    assert_eq!(net.err(B, Call::Close { fd: server }), Errno::EBADF);
    net.assert_nothing_left();
}

#[test]
fn refused_and_unanswered() {
    let mut net = Net::new();
    let fd = net.socket(A);
    let op = net.blocked(A, Call::Connect { fd, addr: Some(v4(B, 81)) });
    net.settle();
    assert_eq!(net.completed(A, op), Some(Err(Errno::ECONNREFUSED)));
    // It can be tried again with the same socket.
    let _ = net.listener(B, 81, 1);
    let op = net.blocked(A, Call::Connect { fd, addr: Some(v4(B, 81)) });
    net.settle();
    assert_eq!(net.completed(A, op), Some(Ok(Value::Int(0))));

    net.cut[B] = true;
    let fd = net.socket(A);
    net.ok(A, Call::set_int(fd, SOL_TCP, TCP_SYNCNT, 2));
    let op = net.blocked(A, Call::Connect { fd, addr: Some(v4(B, 81)) });
    net.run_for(Duration::from_secs(30));
    assert_eq!(net.completed(A, op), Some(Err(Errno::ETIMEDOUT)));
    net.assert_nothing_left();
}

#[test]
fn a_network_that_says_no() {
    let mut net = Net::new();
    let _ = net.listener(B, 80, 5);
    // They know each other's hardware address.
    let fd = net.socket(A);
    net.blocked(A, Call::Connect { fd, addr: Some(v4(B, 80)) });
    net.settle();
    net.cut[A] = true;
    for (name, code, errno) in [
        ("port", 3, Errno::ECONNREFUSED),
        ("protocol", 2, Errno::ENOPROTOOPT),
        ("network prohibited", 9, Errno::ENETUNREACH),
        ("prohibited", 13, Errno::EHOSTUNREACH),
    ] {
        let fd = net.socket(A);
        let op = net.blocked(A, Call::Connect { fd, addr: Some(v4(B, 80)) });
        net.run_for(Duration::from_millis(1));
        net.complain(A, code);
        assert_eq!(net.completed(A, op), Some(Err(errno)), "{name}");
    }
    // What may pass is told when patience ends.
    let fd = net.socket(A);
    net.ok(A, Call::set_int(fd, SOL_TCP, TCP_SYNCNT, 1));
    let op = net.blocked(A, Call::Connect { fd, addr: Some(v4(B, 80)) });
    net.run_for(Duration::from_millis(1));
    net.complain(A, 0);
    net.run_for(Duration::from_secs(20));
    assert_eq!(net.completed(A, op), Some(Err(Errno::ENETUNREACH)));
    net.assert_nothing_left();
}

#[test]
fn a_connect_that_does_not_wait() {
    let mut net = Net::new();
    let listener = net.listener(B, 80, 8);
    let fd = net.socket(A);
    net.nonblocking(A, fd);
    let connect = Call::Connect { fd, addr: Some(v4(B, 80)) };
    assert_eq!(net.err(A, connect.clone()), Errno::EINPROGRESS);
    assert_eq!(net.err(A, connect.clone()), Errno::EALREADY);
    assert_eq!(net.err(A, Call::read(fd, 1)), Errno::EAGAIN);
    assert_eq!(net.err(A, Call::write(fd, b"x")), Errno::EAGAIN);
    assert_eq!(net.err(A, Call::GetPeerName { fd }), Errno::ENOTCONN);
    assert_eq!(net.ready(A, fd), 0);
    net.settle();
    assert_eq!(net.ready(A, fd), EPOLLOUT | EPOLLWRNORM);
    assert_eq!(net.option(A, fd, SOL_SOCKET, SO_ERROR), 0);
    assert_eq!(net.ok(A, connect.clone()), 0, "this tells how it went");
    assert_eq!(net.err(A, connect), Errno::EISCONN);

    let refused = net.socket(A);
    net.nonblocking(A, refused);
    let connect = Call::Connect { fd: refused, addr: Some(v4(B, 81)) };
    assert_eq!(net.err(A, connect), Errno::EINPROGRESS);
    net.settle();
    let all = EPOLLIN | EPOLLRDNORM | EPOLLOUT | EPOLLWRNORM | EPOLLERR | EPOLLHUP | EPOLLRDHUP;
    assert_eq!(net.ready(A, refused), all);
    assert_eq!(net.option(A, refused, SOL_SOCKET, SO_ERROR), Errno::ECONNREFUSED.number());
    assert_eq!(net.option(A, refused, SOL_SOCKET, SO_ERROR), 0, "told once");
    assert_eq!(net.ready(A, refused), all & !EPOLLERR);
    let _ = listener;
    net.assert_nothing_left();
}

#[test]
fn what_was_received_before_a_reset_can_be_read() {
    let (mut net, client, server) = Net::connected();
    net.ok(A, Call::write(client, b"last words"));
    net.settle();
    net.ok(
        A,
        Call::SetSockOpt {
            fd: client,
            level: SOL_SOCKET,
            name: SO_LINGER,
            value: Some([1, 0, 0, 0, 0, 0, 0, 0].to_vec()),
        },
    );
    net.ok(A, Call::Close { fd: client });
    net.settle();
    assert_eq!(net.data(B, Call::read(server, 4)), b"last");
    assert_eq!(net.data(B, Call::read(server, 100)), b" words");
    assert_eq!(net.err(B, Call::read(server, 100)), Errno::ECONNRESET);
    assert_eq!(net.ok(B, Call::read(server, 100)), 0);
    assert_eq!(net.err(B, Call::write(server, b"x")), Errno::EPIPE);
    assert_eq!(net.with_sockets(B, |s, _| s.take_sigpipes()), 1);
    assert_eq!(net.err(B, Call::send(server, b"x", MSG_NOSIGNAL)), Errno::EPIPE);
    assert_eq!(net.with_sockets(B, |s, _| s.take_sigpipes()), 0);
    net.assert_nothing_left();
}

#[test]
fn unread_data_at_close_reset_the_connection() {
    let (mut net, client, server) = Net::connected();
    net.ok(A, Call::write(client, b"unread"));
    net.settle();
    net.ok(B, Call::Close { fd: server });
    net.settle();
    assert_eq!(net.err(A, Call::read(client, 1)), Errno::ECONNRESET);
    net.assert_nothing_left();
}

#[test]
fn the_backlog_bounds_what_waits_and_a_closed_listener_resets_it() {
    let mut net = Net::new();
    let listener = net.listener(B, 80, 1);
    let clients: alloc::vec::Vec<i32> = (0..3).map(|_| net.socket(A)).collect();
    for fd in &clients {
        net.nonblocking(A, *fd);
        let addr = Some(v4(B, 80));
        assert_eq!(net.err(A, Call::Connect { fd: *fd, addr }), Errno::EINPROGRESS);
        net.settle();
    }
    let up: alloc::vec::Vec<bool> =
        clients.iter().map(|fd| net.ready(A, *fd) & EPOLLOUT != 0).collect();
    assert_eq!(up, [true, true, false], "one more than the backlog, as on Linux");
    let server = net.ok(B, Call::Accept { fd: listener, flags: SOCK_NONBLOCK });
    net.run_for(Duration::from_secs(2));
    assert_ne!(net.ready(A, clients[2]) & EPOLLOUT, 0, "its SYN was sent again");
    net.ok(B, Call::Close { fd: listener });
    net.settle();
    assert_eq!(net.err(A, Call::read(clients[1], 1)), Errno::ECONNRESET);
    assert_eq!(net.err(A, Call::read(clients[0], 1)), Errno::EAGAIN, "accepted before");
    assert_eq!(net.err(B, Call::read(server, 1)), Errno::EAGAIN, "it does not wait");
    net.assert_nothing_left();
}

#[test]
fn one_socket_for_both_families_and_one_for_each() {
    let mut net = Net::new();
    let any = |text: &str| Some(SockAddr::from(text.parse::<SocketAddr>().unwrap()));
    let both = net.socket6(B);
    net.ok(B, Call::Bind { fd: both, addr: any("[::]:80") });
    net.ok(B, Call::Listen { fd: both, backlog: 5 });
    for mapped in [false, true] {
        let fd = if mapped { net.socket6(A) } else { net.socket(A) };
        let addr = if mapped { any("[::ffff:10.0.0.2]:80") } else { any("10.0.0.2:80") };
        let op = net.blocked(A, Call::Connect { fd, addr });
        net.settle();
        assert_eq!(net.completed(A, op), Some(Ok(Value::Int(0))));
        let Value::Accepted { peer: SockAddr::V6(peer), .. } =
            net.value(B, Call::Accept { fd: both, flags: 0 })
        else {
            panic!("an IPv6 socket has an IPv6 peer");
        };
        assert_eq!(peer.ip().to_ipv4_mapped(), Some(Ipv4Addr::new(10, 0, 0, 1)));
        let Value::Address(name) = net.value(A, Call::GetPeerName { fd }) else { panic!() };
        assert_eq!(matches!(name, SockAddr::V6(_)), mapped);
    }
    let v4only = net.socket(B);
    assert_eq!(
        net.err(B, Call::Bind { fd: v4only, addr: any("0.0.0.0:80") }),
        Errno::EADDRINUSE,
        "taken by both families"
    );
    let v6only = net.socket6(B);
    net.ok(B, Call::set_int(v6only, SOL_IPV6, IPV6_V6ONLY, 1));
    net.ok(B, Call::Bind { fd: v6only, addr: any("[::]:81") });
    net.ok(B, Call::Bind { fd: v4only, addr: any("0.0.0.0:81") });
    net.ok(B, Call::Listen { fd: v6only, backlog: 5 });
    net.ok(B, Call::Listen { fd: v4only, backlog: 5 });
    let fd = net.socket6(A);
    let op = net.blocked(A, Call::Connect { fd, addr: Some(v6(B, 81)) });
    net.settle();
    assert_eq!(net.completed(A, op), Some(Ok(Value::Int(0))));
    net.ok(B, Call::Accept { fd: v6only, flags: 0 });
    net.ok(B, Call::Fcntl { fd: v4only, command: F_SETFL, argument: O_NONBLOCK.into() });
    assert_eq!(net.err(B, Call::Accept { fd: v4only, flags: 0 }), Errno::EAGAIN);
    net.assert_nothing_left();
}
