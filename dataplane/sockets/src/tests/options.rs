//! Options: what is taken, what is shown, what is refused.

use alloc::vec::Vec;
use core::time::Duration;

use super::net::*;
use crate::abi::*;
use crate::{Call, Errno, LinuxTcpInfo, Value};

fn set(net: &mut Net, fd: i32, level: i32, name: i32, value: &[u8]) -> Result<(), Errno> {
    let value = Some(value.to_vec());
    match net.start(A, Call::SetSockOpt { fd, level, name, value }) {
        crate::Outcome::Done(result) => result.map(|_| ()),
        other => panic!("{other:?}"),
    }
}

/// Name, level, option, set to, what comes of it.
type Row = (&'static str, i32, i32, i32, Result<i32, Errno>);

#[test]
fn integers_set_and_shown() {
    let rows: &[Row] = &[
        ("any non-zero is on", SOL_SOCKET, SO_REUSEADDR, 7, Ok(1)),
        ("reuseport", SOL_SOCKET, SO_REUSEPORT, 1, Ok(1)),
        ("doubled", SOL_SOCKET, SO_SNDBUF, 21_000, Ok(42_000)),
        ("at least", SOL_SOCKET, SO_SNDBUF, 1, Ok(4608)),
        ("at most", SOL_SOCKET, SO_SNDBUF, -1, Ok(2 * 4_194_304)),
        ("receive buffer doubled", SOL_SOCKET, SO_RCVBUF, 10_000, Ok(20_000)),
        ("receive buffer at least", SOL_SOCKET, SO_RCVBUF, 0, Ok(2304)),
        ("keepalive", SOL_SOCKET, SO_KEEPALIVE, 1, Ok(1)),
        ("lowat", SOL_SOCKET, SO_RCVLOWAT, 500, Ok(500)),
        ("no lowat is one byte", SOL_SOCKET, SO_RCVLOWAT, 0, Ok(1)),
        ("lowat beyond the buffer", SOL_SOCKET, SO_RCVLOWAT, -1, Ok(33_554_432 / 2)),
        ("mark", SOL_SOCKET, SO_MARK, 0x1234, Ok(0x1234)),
        ("priority", SOL_SOCKET, SO_PRIORITY, 6, Ok(6)),
        ("txrehash", SOL_SOCKET, SO_TXREHASH, 0, Ok(0)),
        ("txrehash out of range", SOL_SOCKET, SO_TXREHASH, 2, Err(Errno::EINVAL)),
        ("kept without effect", SOL_SOCKET, SO_OOBINLINE, 1, Ok(1)),
        ("type cannot be set", SOL_SOCKET, SO_TYPE, 1, Err(Errno::ENOPROTOOPT)),
        ("error cannot be set", SOL_SOCKET, SO_ERROR, 1, Err(Errno::ENOPROTOOPT)),
        ("zerocopy does not exist", SOL_SOCKET, SO_ZEROCOPY, 1, Err(Errno::EOPNOTSUPP)),
        ("but can be off", SOL_SOCKET, SO_ZEROCOPY, 0, Ok(0)),
        ("unknown", SOL_SOCKET, 999, 1, Err(Errno::ENOPROTOOPT)),
        ("unknown level", 77, 1, 1, Err(Errno::ENOPROTOOPT)),
        ("nodelay", SOL_TCP, TCP_NODELAY, 1, Ok(1)),
        ("cork", SOL_TCP, TCP_CORK, 1, Ok(1)),
        ("maxseg", SOL_TCP, TCP_MAXSEG, 1100, Ok(1100)),
        ("maxseg too small", SOL_TCP, TCP_MAXSEG, 87, Err(Errno::EINVAL)),
        ("maxseg too large", SOL_TCP, TCP_MAXSEG, 32_768, Err(Errno::EINVAL)),
        ("maxseg back to the default", SOL_TCP, TCP_MAXSEG, 0, Ok(536)),
        ("keepidle", SOL_TCP, TCP_KEEPIDLE, 10, Ok(10)),
        ("keepidle none", SOL_TCP, TCP_KEEPIDLE, 0, Err(Errno::EINVAL)),
        ("keepidle too long", SOL_TCP, TCP_KEEPIDLE, 32_768, Err(Errno::EINVAL)),
        ("keepintvl", SOL_TCP, TCP_KEEPINTVL, 32_767, Ok(32_767)),
        ("keepcnt", SOL_TCP, TCP_KEEPCNT, 127, Ok(127)),
        ("keepcnt too many", SOL_TCP, TCP_KEEPCNT, 128, Err(Errno::EINVAL)),
        ("syncnt", SOL_TCP, TCP_SYNCNT, 2, Ok(2)),
        ("syncnt none", SOL_TCP, TCP_SYNCNT, 0, Err(Errno::EINVAL)),
        ("linger2", SOL_TCP, TCP_LINGER2, 10, Ok(10)),
        ("linger2 never", SOL_TCP, TCP_LINGER2, -5, Ok(-1)),
        ("linger2 default", SOL_TCP, TCP_LINGER2, 0, Ok(60)),
        ("linger2 at most", SOL_TCP, TCP_LINGER2, 500, Ok(120)),
        ("defer as retransmissions last", SOL_TCP, TCP_DEFER_ACCEPT, 5, Ok(7)),
        ("no defer", SOL_TCP, TCP_DEFER_ACCEPT, -1, Ok(0)),
        ("clamp", SOL_TCP, TCP_WINDOW_CLAMP, 5000, Ok(5000)),
        ("clamp at least", SOL_TCP, TCP_WINDOW_CLAMP, 1, Ok(1152)),
        ("user timeout", SOL_TCP, TCP_USER_TIMEOUT, 3000, Ok(3000)),
        ("negative user timeout", SOL_TCP, TCP_USER_TIMEOUT, -1, Err(Errno::EINVAL)),
        ("notsent lowat", SOL_TCP, TCP_NOTSENT_LOWAT, -1, Ok(-1)),
        ("inq", SOL_TCP, TCP_INQ, 1, Ok(1)),
        ("inq is a flag", SOL_TCP, TCP_INQ, 2, Err(Errno::EINVAL)),
        ("fast open does not exist", SOL_TCP, TCP_FASTOPEN, 5, Err(Errno::EOPNOTSUPP)),
        ("signatures do not exist", SOL_TCP, TCP_MD5SIG, 1, Err(Errno::ENOPROTOOPT)),
        ("repair is not permitted", SOL_TCP, TCP_REPAIR, 1, Err(Errno::EPERM)),
        ("unknown of TCP", SOL_TCP, 999, 1, Err(Errno::ENOPROTOOPT)),
        ("tos without the bits of ECN", SOL_IP, IP_TOS, 0x1f, Ok(0x1c)),
        ("ttl", SOL_IP, IP_TTL, 9, Ok(9)),
        ("ttl of none", SOL_IP, IP_TTL, 0, Err(Errno::EINVAL)),
        ("ttl back to the default", SOL_IP, IP_TTL, -1, Ok(64)),
        ("mtu discovery", SOL_IP, IP_MTU_DISCOVER, 2, Ok(2)),
        ("mtu discovery of no kind", SOL_IP, IP_MTU_DISCOVER, 6, Err(Errno::EINVAL)),
        ("freebind", SOL_IP, IP_FREEBIND, 1, Ok(1)),
        ("IPv6 options of an IPv4 socket", SOL_IPV6, IPV6_TCLASS, 1, Err(Errno::ENOPROTOOPT)),
    ];
    for (name, level, option, value, expected) in rows {
        let mut net = Net::new();
        let fd = net.socket(A);
        let result = set(&mut net, fd, *level, *option, &value.to_ne_bytes());
        match expected {
            Ok(shown) => {
                assert_eq!(result, Ok(()), "{name}");
                assert_eq!(net.option(A, fd, *level, *option), *shown, "{name}");
            }
            Err(errno) => assert_eq!(result, Err(*errno), "{name}"),
        }
        assert_eq!(
            net.err(A, Call::SetSockOpt { fd, level: *level, name: *option, value: None }),
            Errno::EFAULT,
            "{name}"
        );
    }
}

#[test]
fn lengths() {
    let mut net = Net::new();
    let fd = net.socket(A);
    let six = net.socket6(A);
    for (name, level, option, length) in [
        ("an integer of SOL_SOCKET", SOL_SOCKET, SO_SNDBUF, 3),
        ("an integer of TCP", SOL_TCP, TCP_NODELAY, 3),
        ("linger", SOL_SOCKET, SO_LINGER, 7),
        ("a time", SOL_SOCKET, SO_RCVTIMEO, 15),
        ("a name", SOL_TCP, TCP_CONGESTION, 0),
        ("not even a byte of IP", SOL_IP, IP_TOS, 0),
    ] {
        let value: Vec<u8> = alloc::vec![0; length];
        assert_eq!(set(&mut net, fd, level, option, &value), Err(Errno::EINVAL), "{name}");
    }
    assert_eq!(set(&mut net, six, SOL_IPV6, IPV6_TCLASS, &[1]), Err(Errno::EINVAL));
    assert_eq!(set(&mut net, fd, SOL_IP, IP_TOS, &[0x20]), Ok(()), "a byte is enough");
    let get = |room| Call::GetSockOpt { fd, level: SOL_IP, name: IP_TOS, room };
    assert_eq!(net.value(A, get(1)), Value::Option([0x20].into()));
    assert_eq!(net.value(A, get(100)), Value::Option(0x20_i32.to_ne_bytes().into()));
    assert_eq!(net.err(A, get(-1)), Errno::EINVAL);
    let get = |room| Call::GetSockOpt { fd, level: SOL_SOCKET, name: SO_TYPE, room };
    assert_eq!(net.value(A, get(2)), Value::Option(SOCK_STREAM.to_ne_bytes()[..2].into()));
    assert_eq!(net.value(A, get(0)), Value::Option([].into()));
}

#[test]
fn structures() {
    let mut net = Net::new();
    let fd = net.socket(A);
    let get = |name, room| Call::GetSockOpt { fd, level: SOL_SOCKET, name, room };
    let long = |n: i64| n.to_ne_bytes();
    assert_eq!(set(&mut net, fd, SOL_SOCKET, SO_RCVTIMEO, &[long(2), long(5)].concat()), Ok(()));
    assert_eq!(net.value(A, get(SO_RCVTIMEO, 16)), Value::Option([long(2), long(5)].concat()));
    let wrong = [long(0), long(1_000_000)].concat();
    assert_eq!(set(&mut net, fd, SOL_SOCKET, SO_SNDTIMEO, &wrong), Err(Errno::EDOM));

    assert_eq!(set(&mut net, fd, SOL_TCP, TCP_CONGESTION, b"reno\0"), Ok(()));
    let get_name = Call::GetSockOpt { fd, level: SOL_TCP, name: TCP_CONGESTION, room: 16 };
    assert_eq!(net.value(A, get_name), Value::Option(b"reno\0\0\0\0\0\0\0\0\0\0\0\0".into()));
    assert_eq!(set(&mut net, fd, SOL_TCP, TCP_CONGESTION, b"vegas"), Err(Errno::ENOENT));

    assert_eq!(set(&mut net, fd, SOL_SOCKET, SO_BINDTODEVICE, b"\0"), Ok(()));
    assert_eq!(set(&mut net, fd, SOL_SOCKET, SO_BINDTODEVICE, b"eth0\0"), Err(Errno::ENODEV));

    for (name, expected) in [
        (SO_DOMAIN, AF_INET),
        (SO_PROTOCOL, IPPROTO_TCP),
        (SO_TYPE, SOCK_STREAM),
        (SO_ACCEPTCONN, 0),
        (SO_ERROR, 0),
        (SO_SNDLOWAT, 1),
    ] {
        assert_eq!(net.option(A, fd, SOL_SOCKET, name), expected, "{name}");
    }
    let listener = net.listener(A, 80, 5);
    assert_eq!(net.option(A, listener, SOL_SOCKET, SO_ACCEPTCONN), 1);
    assert_eq!(net.err(A, Call::get_int(fd, SOL_IP, IP_MTU)), Errno::ENOTCONN);
    let Value::Option(info) =
        net.value(A, Call::GetSockOpt { fd, level: SOL_SOCKET, name: SO_MEMINFO, room: 36 })
    else {
        panic!()
    };
    assert_eq!(info.len(), 36);
}

/// What reaches the wire or the connection.
#[test]
fn options_that_are_heeded() {
    let mut net = Net::new();
    let listener = net.listener(B, 80, 5);
    net.ok(B, Call::set_int(listener, SOL_TCP, TCP_MAXSEG, 1100));
    let fd = net.socket(A);
    net.ok(A, Call::set_int(fd, SOL_IP, IP_TOS, 0x20));
    net.ok(A, Call::set_int(fd, SOL_IP, IP_TTL, 7));
    net.ok(A, Call::set_int(fd, SOL_TCP, TCP_WINDOW_CLAMP, 20_000));
    let op = net.blocked(A, Call::Connect { fd, addr: Some(v4(B, 80)) });
    net.seen.clear();
    net.settle();
    assert_eq!(net.completed(A, op), Some(Ok(Value::Int(0))));
    let ip: Vec<(u8, u8)> = net
        .seen
        .iter()
        .filter(|(host, frame)| *host == A && frame[12..14] == [8, 0])
        .map(|(_, frame)| (frame[15], frame[22]))
        .collect();
    assert!(ip.len() >= 2 && ip.iter().all(|mark| *mark == (0x20, 7)), "{ip:?}");
    assert_eq!(net.option(A, fd, SOL_TCP, TCP_MAXSEG), 1100 - 12, "the peer allows no more");
    assert_eq!(net.option(A, fd, SOL_IP, IP_MTU), 1500);
    net.ok(A, Call::set_int(fd, SOL_IP, IP_TOS, 0x40));
    net.seen.clear();
    net.ok(A, Call::write(fd, b"x"));
    net.settle();
    let tos = net.seen.iter().find(|(host, _)| *host == A).map(|(_, frame)| frame[15]);
    assert_eq!(tos, Some(0x40));
    let info = net.with_sockets(A, |s, io| s.tcp_info(io, fd)).unwrap();
    assert!(info.rcv_wnd <= 20_000, "{}", info.rcv_wnd);
}

#[test]
fn tcp_info_in_each_state() {
    let mut net = Net::new();
    let fd = net.socket(A);
    let info = |net: &mut Net, host, fd| -> LinuxTcpInfo {
        net.with_sockets(host, |s, io| s.tcp_info(io, fd)).unwrap()
    };
    assert_eq!(info(&mut net, A, fd).state, TCP_CLOSE);
    let listener = net.listener(B, 80, 5);
    let listening = info(&mut net, B, listener);
    assert_eq!((listening.state, listening.unacked, listening.sacked), (TCP_LISTEN, 0, 5));
    let op = net.blocked(A, Call::Connect { fd, addr: Some(v4(B, 80)) });
    assert_eq!(info(&mut net, A, fd).state, TCP_SYN_SENT);
    net.settle();
    assert!(net.completed(A, op).is_some());
    assert_eq!(info(&mut net, B, listener).unacked, 1);
    let server = net.ok(B, Call::Accept { fd: listener, flags: 0 });
    net.ok(A, Call::write(fd, &[1; 5000]));
    net.run_for(Duration::from_millis(100));
    let ours = info(&mut net, A, fd);
    assert_eq!(ours.state, TCP_ESTABLISHED);
    assert_eq!(ours.options, TCPI_OPT_TIMESTAMPS | TCPI_OPT_SACK | TCPI_OPT_WSCALE);
    assert_eq!((ours.bytes_sent, ours.bytes_acked, ours.data_segs_out), (5000, 5000, 4));
    assert_eq!((ours.delivered, ours.unacked, ours.notsent_bytes), (5, 0, 0));
    assert!(ours.rtt >= 10_000 && ours.busy_time >= 10_000, "{ours:?}");
    assert_eq!(ours.last_data_sent, 100);
    let theirs = info(&mut net, B, server);
    assert_eq!((theirs.bytes_received, theirs.data_segs_in), (5000, 4));
    assert_eq!(theirs.last_data_recv, 95);
    net.ok(B, Call::read(server, 5000));
    net.ok(A, Call::Shutdown { fd, how: SHUT_WR });
    net.settle();
    assert_eq!(info(&mut net, A, fd).state, TCP_FIN_WAIT2);
    assert_eq!(info(&mut net, B, server).state, TCP_CLOSE_WAIT);
    net.ok(B, Call::Shutdown { fd: server, how: SHUT_WR });
    net.settle();
    let last = info(&mut net, B, server);
    assert_eq!((last.state, last.bytes_received), (TCP_CLOSE, 5000), "it is remembered");
    let bytes = net.value(A, Call::GetSockOpt { fd, level: SOL_TCP, name: TCP_INFO, room: 1000 });
    assert!(matches!(bytes, Value::Option(bytes) if bytes.len() == 280));
    net.assert_nothing_left();
}
