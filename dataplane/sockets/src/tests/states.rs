//! What each call says in each state.

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;

use super::net::*;
use crate::abi::*;
use crate::{Call, Errno, Outcome, SockAddr, Value};

/// A socket of A in some state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Fresh,
    Bound,
    Listening,
    Connecting,
    Refused,
    Established,
    PeerClosed,
    WriteShut,
    ReadShut,
    BothShut,
    PeerReset,
    Over,
}

const STATES: [State; 12] = [
    State::Fresh,
    State::Bound,
    State::Listening,
    State::Connecting,
    State::Refused,
    State::Established,
    State::PeerClosed,
    State::WriteShut,
    State::ReadShut,
    State::BothShut,
    State::PeerReset,
    State::Over,
];

fn any(port: u16) -> Option<SockAddr> {
    Some(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port).into())
}

fn reach(state: State) -> (Net, i32) {
    let mut net = Net::new();
    let listener = net.listener(B, 80, 5);
    let fd = match state {
        State::Fresh => net.socket(A),
        State::Bound => {
            let fd = net.socket(A);
            net.ok(A, Call::Bind { fd, addr: any(700) });
            fd
        }
        State::Listening => net.listener(A, 700, 5),
        State::Connecting | State::Refused => {
            let fd = net.socket(A);
            net.nonblocking(A, fd);
            let port = if state == State::Refused { 81 } else { 80 };
            let addr = Some(v4(B, port));
            assert_eq!(net.err(A, Call::Connect { fd, addr }), EINPROGRESS);
            if state == State::Refused {
                net.settle();
            }
            fd
        }
        _ => {
            let (fd, server) = net.pair(listener, 80);
            match state {
                State::PeerClosed => {
                    net.ok(B, Call::Close { fd: server });
                }
                State::WriteShut => {
                    net.ok(A, Call::Shutdown { fd, how: SHUT_WR });
                }
                State::ReadShut => {
                    net.ok(A, Call::Shutdown { fd, how: SHUT_RD });
                }
                State::BothShut => {
                    net.ok(A, Call::Shutdown { fd, how: SHUT_RDWR });
                }
                State::PeerReset => {
                    let value = Some([1, 0, 0, 0, 0, 0, 0, 0].into());
                    let name = SO_LINGER;
                    net.ok(B, Call::SetSockOpt { fd: server, level: SOL_SOCKET, name, value });
                    net.ok(B, Call::Close { fd: server });
                }
                State::Over => {
                    net.ok(B, Call::Close { fd: server });
                    net.settle();
                    net.ok(A, Call::Shutdown { fd, how: SHUT_WR });
                }
                _ => {}
            }
            net.settle();
            fd
        }
    };
    net.nonblocking(A, fd);
    net.with_sockets(A, |s, _| s.take_sigpipes());
    (net, fd)
}

/// One row: what a call says in each of [`STATES`].
fn row(name: &str, call: impl Fn(i32) -> Call, expected: [Result<i64, Errno>; 12]) {
    for (state, expected) in STATES.into_iter().zip(expected) {
        let (mut net, fd) = reach(state);
        let outcome = match net.start(A, call(fd)) {
            Outcome::Done(result) => result.map(|value| value.returned()),
            Outcome::Blocked(_) => panic!("{name} in {state:?} sleeps"),
        };
        assert_eq!(outcome, expected, "{name} in {state:?}");
        net.assert_nothing_left();
    }
}

use Errno::{
    EADDRINUSE, EADDRNOTAVAIL, EAFNOSUPPORT, EAGAIN, EALREADY, EBADF, ECONNREFUSED, ECONNRESET,
    EFAULT, EINPROGRESS, EINVAL, EISCONN, EMFILE, ENOTCONN, ENOTSOCK, EPIPE, EPROTONOSUPPORT,
    ESOCKTNOSUPPORT,
};

#[test]
fn reading() {
    let read = |fd| Call::read(fd, 1);
    row(
        "read",
        read,
        [
            Err(ENOTCONN),
            Err(ENOTCONN),
            Err(ENOTCONN),
            Err(EAGAIN),
            Err(ECONNREFUSED),
            Err(EAGAIN),
            Ok(0),
            Err(EAGAIN),
            Ok(0),
            Ok(0),
            Err(ECONNRESET),
            Ok(0),
        ],
    );
}

#[test]
fn writing() {
    let write = |fd| Call::write(fd, b"x");
    row(
        "write",
        write,
        [
            Err(EPIPE),
            Err(EPIPE),
            Err(EPIPE),
            Err(EAGAIN),
            Err(ECONNREFUSED),
            Ok(1),
            Ok(1),
            Err(EPIPE),
            Ok(1),
            Err(EPIPE),
            Err(ECONNRESET),
            Err(EPIPE),
        ],
    );
    for state in STATES {
        let (mut net, fd) = reach(state);
        let broken = net.start(A, write(fd)) == Outcome::Done(Err(EPIPE));
        let signals = net.with_sockets(A, |s, _| s.take_sigpipes());
        assert_eq!(signals, u64::from(broken), "{state:?}");
    }
}

#[test]
fn shutting() {
    for how in [SHUT_RD, SHUT_WR, SHUT_RDWR] {
        row(
            "shutdown",
            |fd| Call::Shutdown { fd, how },
            [
                Err(ENOTCONN),
                Err(ENOTCONN),
                Ok(0),
                Ok(0),
                Err(ENOTCONN),
                Ok(0),
                Ok(0),
                Ok(0),
                Ok(0),
                Ok(0),
                Err(ENOTCONN),
                Err(ENOTCONN),
            ],
        );
    }
    row("shutdown of nothing", |fd| Call::Shutdown { fd, how: 3 }, [Err(EINVAL); 12]);
}

#[test]
fn binding_listening_accepting() {
    row(
        "bind",
        |fd| Call::Bind { fd, addr: any(900) },
        [
            Ok(0),
            Err(EINVAL),
            Err(EINVAL),
            Err(EINVAL),
            // What connect has chosen stays chosen.
            Err(EINVAL),
            Err(EINVAL),
            Err(EINVAL),
            Err(EINVAL),
            Err(EINVAL),
            Err(EINVAL),
            Err(EINVAL),
            Err(EINVAL),
        ],
    );
    row(
        "listen",
        |fd| Call::Listen { fd, backlog: 1 },
        [
            Ok(0),
            Ok(0),
            Ok(0),
            Err(EINVAL),
            Err(EINVAL),
            Err(EINVAL),
            Err(EINVAL),
            Err(EINVAL),
            Err(EINVAL),
            Err(EINVAL),
            Err(EINVAL),
            Err(EINVAL),
        ],
    );
    let mut accepting = [Err(EINVAL); 12];
    accepting[2] = Err(EAGAIN);
    row("accept", |fd| Call::Accept { fd, flags: 0 }, accepting);
    row("accept with flags", |fd| Call::Accept { fd, flags: 1 }, [Err(EINVAL); 12]);
}

#[test]
fn connecting() {
    let connect = |fd| Call::Connect { fd, addr: Some(v4(B, 80)) };
    row(
        "connect",
        connect,
        [
            Err(EINPROGRESS),
            Err(EINPROGRESS),
            Err(EISCONN),
            Err(EALREADY),
            Err(ECONNREFUSED),
            Err(EISCONN),
            Err(EISCONN),
            Err(EISCONN),
            Err(EISCONN),
            Err(EISCONN),
            Err(EISCONN),
            Err(EISCONN),
        ],
    );
    row("disconnect", |fd| Call::Connect { fd, addr: Some(SockAddr::Unspec) }, [Ok(0); 12]);
    row("connect to nowhere", |fd| Call::Connect { fd, addr: None }, [Err(EFAULT); 12]);
    row(
        "connect in another family",
        |fd| Call::Connect { fd, addr: Some(v6(B, 80)) },
        [
            Err(EAFNOSUPPORT),
            Err(EAFNOSUPPORT),
            Err(EISCONN),
            Err(EALREADY),
            Err(ECONNREFUSED),
            Err(EISCONN),
            Err(EISCONN),
            Err(EISCONN),
            Err(EISCONN),
            Err(EISCONN),
            Err(EISCONN),
            Err(EISCONN),
        ],
    );
}

#[test]
fn naming() {
    row(
        "getpeername",
        |fd| Call::GetPeerName { fd },
        [
            Err(ENOTCONN),
            Err(ENOTCONN),
            Err(ENOTCONN),
            Err(ENOTCONN),
            Err(ENOTCONN),
            Ok(0),
            Ok(0),
            Ok(0),
            Ok(0),
            Ok(0),
            Err(ENOTCONN),
            Err(ENOTCONN),
        ],
    );
    row("getsockname", |fd| Call::GetSockName { fd }, [Ok(0); 12]);
}

#[test]
fn polling() {
    const IN: u32 = EPOLLIN | EPOLLRDNORM;
    const OUT: u32 = EPOLLOUT | EPOLLWRNORM;
    let expected = [
        OUT | EPOLLHUP,
        OUT | EPOLLHUP,
        0,
        0,
        IN | OUT | EPOLLHUP | EPOLLRDHUP | EPOLLERR,
        OUT,
        IN | OUT | EPOLLRDHUP,
        OUT,
        IN | OUT | EPOLLRDHUP,
        IN | OUT | EPOLLRDHUP | EPOLLHUP,
        IN | OUT | EPOLLHUP | EPOLLRDHUP | EPOLLERR,
        IN | OUT | EPOLLHUP | EPOLLRDHUP,
    ];
    for (state, expected) in STATES.into_iter().zip(expected) {
        let (mut net, fd) = reach(state);
        let ready = net.ready(A, fd);
        assert_eq!(ready, expected, "{state:?}: {ready:#x}");
    }
}

#[test]
fn what_is_not_open_or_not_a_socket() {
    let mut net = Net::new();
    let epoll = net.ok(A, Call::EpollCreate { size: 1 });
    let calls = |fd| {
        [
            Call::Bind { fd, addr: any(1) },
            Call::Listen { fd, backlog: 1 },
            Call::Accept { fd, flags: 0 },
            Call::Connect { fd, addr: Some(v4(B, 80)) },
            Call::recv(fd, 1, 0),
            Call::send(fd, b"x", 0),
            Call::Shutdown { fd, how: SHUT_RD },
            Call::GetSockName { fd },
            Call::get_int(fd, SOL_SOCKET, SO_TYPE),
            Call::set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1),
        ]
    };
    for fd in [-1, 99, i32::MAX, i32::MIN] {
        for call in calls(fd) {
            assert_eq!(net.err(A, call), EBADF, "{fd}");
        }
        assert_eq!(net.err(A, Call::Close { fd }), EBADF);
        assert_eq!(net.err(A, Call::Dup { fd }), EBADF);
        assert_eq!(net.err(A, Call::Fcntl { fd, command: F_GETFL, argument: 0 }), EBADF);
    }
    for call in calls(epoll) {
        assert_eq!(net.err(A, call), ENOTSOCK);
    }
}

#[test]
fn sockets_of_no_kind() {
    let mut net = Net::new();
    for (name, domain, kind, protocol, errno) in [
        ("local", 1, SOCK_STREAM, 0, EAFNOSUPPORT),
        ("datagrams", AF_INET, 2, 0, ESOCKTNOSUPPORT),
        ("raw", AF_INET6, 3, 0, ESOCKTNOSUPPORT),
        ("no type", AF_INET, 0, 0, EINVAL),
        ("unknown type", AF_INET, 12, 0, EINVAL),
        ("unknown flags", AF_INET, SOCK_STREAM | 0x100, 0, EINVAL),
        ("UDP as a stream", AF_INET, SOCK_STREAM, 17, EPROTONOSUPPORT),
        ("MPTCP", AF_INET, SOCK_STREAM, 262, EPROTONOSUPPORT),
        ("negative protocol", AF_INET, SOCK_STREAM, -1, EINVAL),
    ] {
        assert_eq!(net.err(A, Call::Socket { domain, kind, protocol }), errno, "{name}");
    }
}

#[test]
fn addresses_that_cannot_be_bound() {
    let addr = |text: &str| Some(SockAddr::from(text.parse::<SocketAddr>().unwrap()));
    let mut net = Net::new();
    let other = net.socket(A);
    net.ok(A, Call::Bind { fd: other, addr: addr("10.0.0.1:700") });
    for (name, six, given, expected) in [
        ("not ours", false, addr("10.0.0.9:1"), Err(EADDRNOTAVAIL)),
        ("taken", false, addr("10.0.0.1:700"), Err(EADDRINUSE)),
        ("taken by one address", false, addr("0.0.0.0:700"), Err(EADDRINUSE)),
        ("both families need both", true, addr("[::]:700"), Err(EADDRINUSE)),
        ("the other family", true, addr("[fd00::1]:700"), Ok(0)),
        ("IPv6 for IPv4", false, addr("[fd00::1]:1"), Err(EAFNOSUPPORT)),
        ("IPv4 for IPv6", true, addr("10.0.0.1:1"), Err(EINVAL)),
        ("a group", true, addr("[ff02::1]:1"), Err(EINVAL)),
        ("mapped", true, addr("[::ffff:10.0.0.1]:701"), Ok(0)),
        ("a local name", false, Some(SockAddr::Other(1)), Err(EAFNOSUPPORT)),
        ("no address", false, None, Err(EFAULT)),
        ("any", false, addr("0.0.0.0:0"), Ok(0)),
    ] {
        let fd = if six { net.socket6(A) } else { net.socket(A) };
        let result = match net.start(A, Call::Bind { fd, addr: given }) {
            Outcome::Done(result) => result.map(|value| value.returned()),
            other => panic!("{other:?}"),
        };
        assert_eq!(result, expected, "{name}");
        net.ok(A, Call::Close { fd });
    }
    // Not ours, but meant to be.
    let fd = net.socket(A);
    net.ok(A, Call::set_int(fd, SOL_IP, IP_FREEBIND, 1));
    net.ok(A, Call::Bind { fd, addr: addr("10.0.0.9:1") });
}

#[test]
fn who_may_share_a_port() {
    // Both say SO_REUSEADDR; one listens; the second may bind, the second may listen.
    for (name, option, both, listens, binds, may_listen) in [
        ("neither", SO_REUSEADDR, 0, false, false, false),
        ("one of them", SO_REUSEADDR, 1, false, false, false),
        ("reuseaddr", SO_REUSEADDR, 2, false, true, true),
        ("reuseaddr, but it listens", SO_REUSEADDR, 2, true, false, false),
        ("reuseport", SO_REUSEPORT, 2, false, true, true),
        ("reuseport, and both listen", SO_REUSEPORT, 2, true, true, true),
    ] {
        let mut net = Net::new();
        let (first, second) = (net.socket(B), net.socket(B));
        net.ok(B, Call::set_int(first, SOL_SOCKET, option, i32::from(both > 0)));
        net.ok(B, Call::set_int(second, SOL_SOCKET, option, i32::from(both > 1)));
        net.ok(B, Call::Bind { fd: first, addr: any(80) });
        if listens {
            net.ok(B, Call::Listen { fd: first, backlog: 4 });
        }
        let bound = net.start(B, Call::Bind { fd: second, addr: any(80) });
        assert_eq!(bound == Outcome::Done(Ok(Value::Int(0))), binds, "{name}: {bound:?}");
        if binds {
            let listens = net.start(B, Call::Listen { fd: second, backlog: 4 });
            assert_eq!(listens == Outcome::Done(Ok(Value::Int(0))), may_listen, "{name}");
        }
    }
    // A group of listeners shares what comes.
    let mut net = Net::new();
    let listeners = [0, 1].map(|_| {
        let fd = net.socket(B);
        net.ok(B, Call::set_int(fd, SOL_SOCKET, SO_REUSEPORT, 1));
        net.ok(B, Call::Bind { fd, addr: any(80) });
        net.ok(B, Call::Listen { fd, backlog: 30 });
        net.nonblocking(B, fd);
        fd
    });
    for _ in 0..20 {
        let fd = net.socket(A);
        net.blocked(A, Call::Connect { fd, addr: Some(v4(B, 80)) });
    }
    net.settle();
    let mut counts = [0; 2];
    for (listener, count) in listeners.iter().zip(&mut counts) {
        let accept = Call::Accept { fd: *listener, flags: 0 };
        while let Outcome::Done(Ok(_)) = net.start(B, accept.clone()) {
            *count += 1;
        }
    }
    assert!(counts[0] > 0 && counts[1] > 0 && counts[0] + counts[1] == 20, "{counts:?}");
    net.assert_nothing_left();
}

#[test]
fn a_port_that_connections_still_use() {
    let mut net = Net::new();
    let listener = net.listener(B, 80, 4);
    let (client, server) = net.pair(listener, 80);
    net.ok(B, Call::Close { fd: server });
    net.settle();
    net.ok(A, Call::Close { fd: client });
    net.ok(B, Call::Close { fd: listener });
    net.settle();
    let fd = net.socket(B);
    assert_eq!(net.err(B, Call::Bind { fd, addr: any(80) }), EADDRINUSE, "TIME-WAIT");
    net.ok(B, Call::set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1));
    net.ok(B, Call::Bind { fd, addr: any(80) });
    net.ok(B, Call::Listen { fd, backlog: 1 });
    net.assert_nothing_left();
}

#[test]
fn a_disconnected_socket_begins_anew() {
    let mut net = Net::new();
    let listener = net.listener(B, 80, 4);
    let (client, server) = net.pair(listener, 80);
    net.ok(A, Call::Connect { fd: client, addr: Some(SockAddr::Unspec) });
    net.settle();
    assert_eq!(net.option(A, client, SOL_SOCKET, SO_ERROR), ECONNRESET.number());
    assert_eq!(net.err(B, Call::read(server, 1)), ECONNRESET);
    assert_eq!(net.err(A, Call::read(client, 1)), ENOTCONN);
    let op = net.blocked(A, Call::Connect { fd: client, addr: Some(v4(B, 80)) });
    net.settle();
    assert_eq!(net.completed(A, op), Some(Ok(Value::Int(0))));
    // A listener, too.
    net.ok(B, Call::Connect { fd: listener, addr: Some(SockAddr::Unspec) });
    net.settle();
    assert_eq!(net.err(A, Call::recv(client, 1, MSG_DONTWAIT)), ECONNRESET, "not accepted yet");
    assert_eq!(net.err(B, Call::Accept { fd: listener, flags: 0 }), EINVAL);
    net.ok(B, Call::Listen { fd: listener, backlog: 4 });
    net.assert_nothing_left();
}

#[test]
fn lingering() {
    for (name, heard, time) in [("all is well", true, 11), ("no answer", false, 3000)] {
        let (mut net, client, _) = Net::connected();
        let value = Some([1, 0, 0, 0, 3, 0, 0, 0].into());
        net.ok(A, Call::SetSockOpt { fd: client, level: SOL_SOCKET, name: SO_LINGER, value });
        net.ok(A, Call::write(client, &[1; 3000]));
        net.cut[A] = !heard;
        let op = net.blocked(A, Call::Close { fd: client });
        net.run_for(Duration::from_millis(9));
        assert_eq!(net.completed(A, op), None, "{name}");
        net.run_for(Duration::from_millis(time - 9));
        assert_eq!(net.completed(A, op), Some(Ok(Value::Int(0))), "{name}");
        net.assert_nothing_left();
    }
}

#[test]
fn reading_after_shutdown_goes_on_as_long_as_there_is_something() {
    let (mut net, client, server) = Net::connected();
    net.ok(A, Call::Shutdown { fd: client, how: SHUT_RD });
    assert_eq!(net.ok(A, Call::read(client, 10)), 0);
    net.ok(B, Call::write(server, b"all the same"));
    net.settle();
    assert_eq!(net.data(A, Call::read(client, 100)), b"all the same");
    assert_eq!(net.ok(A, Call::read(client, 10)), 0);
    net.assert_nothing_left();
}

#[test]
fn data_after_both_sides_were_shut_reset_the_connection() {
    let (mut net, client, server) = Net::connected();
    net.ok(A, Call::Shutdown { fd: client, how: SHUT_RDWR });
    net.settle();
    net.ok(B, Call::write(server, b"nobody reads this"));
    net.settle();
    assert_eq!(net.ok(B, Call::read(server, 1)), 0, "it had seen our end before");
    assert_eq!(net.option(B, server, SOL_SOCKET, SO_ERROR), EPIPE.number());
    assert_eq!(net.option(A, client, SOL_SOCKET, SO_ERROR), ECONNRESET.number());
    net.assert_nothing_left();
}

#[test]
fn accepting_only_what_has_something_to_say() {
    let mut net = Net::new();
    let listener = net.listener(B, 80, 4);
    net.ok(B, Call::set_int(listener, SOL_TCP, TCP_DEFER_ACCEPT, 3));
    net.nonblocking(B, listener);
    let (mute, talks) = (net.socket(A), net.socket(A));
    for fd in [mute, talks] {
        net.blocked(A, Call::Connect { fd, addr: Some(v4(B, 80)) });
    }
    net.settle();
    assert_eq!(net.err(B, Call::Accept { fd: listener, flags: 0 }), EAGAIN);
    net.ok(A, Call::write(talks, b"hello"));
    net.settle();
    let server = net.ok(B, Call::Accept { fd: listener, flags: 0 });
    assert_eq!(net.data(B, Call::read(server, 9)), b"hello");
    assert_eq!(net.err(B, Call::Accept { fd: listener, flags: 0 }), EAGAIN);
    net.run_for(Duration::from_secs(3));
    net.ok(B, Call::Accept { fd: listener, flags: 0 });
    net.assert_nothing_left();
}

#[test]
fn descriptors() {
    let params = stack::StackParams::default();
    let config = crate::Config { fds_max: 6, ..crate::Config::default() };
    let mut net = Net::with(params, config);
    assert_eq!([net.socket(A), net.socket(A), net.socket(A)], [3, 4, 5], "from three on");
    let socket = Call::Socket { domain: AF_INET, kind: SOCK_STREAM, protocol: 0 };
    assert_eq!(net.err(A, socket), EMFILE);
    assert_eq!(net.err(A, Call::Dup { fd: 3 }), EMFILE);
    net.ok(A, Call::Close { fd: 4 });
    assert_eq!(net.ok(A, Call::Dup { fd: 3 }), 4, "the lowest");
    assert_eq!(net.ok(A, Call::Dup2 { old: 3, new: 3 }), 3);
    assert_eq!(net.err(A, Call::Dup3 { old: 3, new: 3, flags: 0 }), EINVAL);
    assert_eq!(net.err(A, Call::Dup2 { old: 3, new: 6 }), EBADF);
    assert_eq!(net.ok(A, Call::Dup3 { old: 3, new: 5, flags: O_CLOEXEC }), 5);
    let fcntl = |fd, command, argument| Call::Fcntl { fd, command, argument };
    assert_eq!(net.ok(A, fcntl(5, F_GETFD, 0)), FD_CLOEXEC);
    assert_eq!(net.ok(A, fcntl(3, F_GETFD, 0)), 0);
    net.ok(A, fcntl(3, F_SETFL, O_NONBLOCK.into()));
    assert_eq!(net.ok(A, fcntl(5, F_GETFL, 0)), O_RDWR | O_NONBLOCK, "shared");
    net.ok(A, Call::Ioctl { fd: 4, request: FIONBIO, value: Some(0) });
    assert_eq!(net.ok(A, fcntl(3, F_GETFL, 0)), O_RDWR);
    assert_eq!(net.err(A, fcntl(3, F_DUPFD, 6)), EINVAL);
    assert_eq!(net.err(A, fcntl(3, 77, 0)), EINVAL);
    assert_eq!(net.with_sockets(A, |s, _| s.open_files()), 1);
    net.assert_nothing_left();
}
