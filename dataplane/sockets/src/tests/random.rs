//! Random calls: nothing panics, nothing sleeps for ever, nothing is left.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use proptest::prelude::*;

use super::net::*;
use crate::abi::*;
use crate::{Call, Config, Control, EpollEvent, PollFd, SockAddr};

fn fd() -> impl Strategy<Value = i32> {
    prop_oneof![20 => 3..12_i32, 1 => Just(-1), 1 => any::<i32>()]
}

fn addr() -> impl Strategy<Value = Option<SockAddr>> {
    prop_oneof![
        6 => (0..2_usize, 80..83_u16).prop_map(|(host, port)| Some(v4(host, port))),
        2 => (0..2_usize, 80..83_u16).prop_map(|(host, port)| Some(v6(host, port))),
        2 => (80..83_u16).prop_map(|port| Some(SockAddr::from(
            core::net::SocketAddr::new([0, 0, 0, 0].into(), port)
        ))),
        1 => Just(Some(SockAddr::Unspec)),
        1 => Just(Some(SockAddr::Other(1))),
        1 => Just(None),
    ]
}

fn flags() -> impl Strategy<Value = i32> {
    prop_oneof![
        4 => Just(MSG_DONTWAIT),
        2 => Just(0),
        1 => any::<i32>(),
        1 => prop::sample::select(alloc::vec![
            MSG_PEEK, MSG_WAITALL, MSG_TRUNC, MSG_EOR, MSG_MORE, MSG_OOB, MSG_PEEK | MSG_WAITALL,
            MSG_TRUNC | MSG_PEEK | MSG_DONTWAIT,
        ]),
    ]
}

fn level_and_name() -> impl Strategy<Value = (i32, i32)> {
    prop_oneof![
        (Just(SOL_SOCKET), 1..80_i32),
        (Just(SOL_TCP), 1..48_i32),
        (Just(SOL_IP), 1..52_i32),
        (Just(SOL_IPV6), 1..80_i32),
        any::<(i32, i32)>(),
    ]
}

fn time() -> impl Strategy<Value = Option<Duration>> {
    prop_oneof![
        Just(None),
        Just(Some(Duration::ZERO)),
        (0..2000_u64).prop_map(|ms| Some(Duration::from_millis(ms))),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    let piece = prop_oneof![
        8 => (0..40_000_usize).prop_map(|len| Some(alloc::vec![7; len])),
        1 => Just(None),
    ];
    let room = prop_oneof![8 => (0..60_000_usize).prop_map(Some), 1 => Just(None)];
    let setup = prop_oneof![
        4 => prop_oneof![Just(AF_INET), Just(AF_INET6)]
            .prop_map(|domain| Call::Socket { domain, kind: SOCK_STREAM, protocol: 0 }),
        1 => any::<(i32, i32, i32)>()
            .prop_map(|(domain, kind, protocol)| Call::Socket { domain, kind, protocol }),
        3 => (fd(), addr()).prop_map(|(fd, addr)| Call::Bind { fd, addr }),
        3 => (fd(), -1..5_i32).prop_map(|(fd, backlog)| Call::Listen { fd, backlog }),
        4 => (fd(), prop_oneof![Just(0), Just(SOCK_NONBLOCK)])
            .prop_map(|(fd, flags)| Call::Accept { fd, flags }),
        4 => (fd(), addr()).prop_map(|(fd, addr)| Call::Connect { fd, addr }),
        3 => fd().prop_map(|fd| Call::Close { fd }),
        2 => (fd(), -1..4_i32).prop_map(|(fd, how)| Call::Shutdown { fd, how }),
        1 => fd().prop_map(|fd| Call::Dup { fd }),
        1 => (fd(), fd(), prop_oneof![Just(0), Just(O_CLOEXEC), any::<i32>()])
            .prop_map(|(old, new, flags)| Call::Dup3 { old, new, flags }),
        2 => (fd(), 0..6_i32, prop_oneof![Just(i64::from(O_NONBLOCK)), 0..12_i64])
            .prop_map(|(fd, command, argument)| Call::Fcntl { fd, command, argument }),
    ];
    let data = prop_oneof![
        4 => (fd(), prop::collection::vec(piece, 0..3), flags()).prop_map(|(fd, from, flags)| {
            Call::Send { fd, from, flags, to: None, control: Vec::new() }
        }),
        4 => (fd(), prop::collection::vec(room, 0..3), flags(), any::<bool>()).prop_map(
            |(fd, into, flags, control)| Call::Receive { fd, into, flags, control }
        ),
        1 => (fd(), 0..5000_usize).prop_map(|(fd, len)| Call::read(fd, len)),
        1 => fd().prop_map(|fd| Call::Send {
            fd,
            from: Vec::new(),
            flags: 0,
            to: None,
            control: [Control { level: 5, kind: 6, data: Vec::new() }].into(),
        }),
    ];
    let rest = prop_oneof![
        3 => (fd(), level_and_name(), prop::collection::vec(any::<u8>(), 0..20)).prop_map(
            |(fd, (level, name), value)| Call::SetSockOpt { fd, level, name, value: Some(value) }
        ),
        3 => (fd(), level_and_name(), 0..4_i32).prop_map(|(fd, (level, name), value)| {
            Call::set_int(fd, level, name, value)
        }),
        2 => (fd(), level_and_name(), -1..300_i32).prop_map(|(fd, (level, name), room)| {
            Call::GetSockOpt { fd, level, name, room }
        }),
        1 => (fd(), prop::sample::select(alloc::vec![SIOCINQ, SIOCOUTQ, SIOCOUTQNSD, FIONBIO, 1]))
            .prop_map(|(fd, request)| Call::Ioctl { fd, request, value: Some(1) }),
        1 => fd().prop_map(|fd| Call::GetSockName { fd }),
        1 => fd().prop_map(|fd| Call::GetPeerName { fd }),
        1 => Just(Call::EpollCreate1 { flags: 0 }),
        3 => (fd(), 0..4_i32, fd(), any::<u32>()).prop_map(|(epoll, operation, fd, events)| {
            let event = Some(EpollEvent { events, data: fd as u64 });
            Call::EpollCtl { epoll, operation, fd, event }
        }),
        2 => (fd(), 1..4_i32, time())
            .prop_map(|(epoll, most, timeout)| Call::EpollWait { epoll, most, timeout }),
        1 => (prop::collection::vec((fd(), any::<u16>()), 0..4), time()).prop_map(
            |(fds, timeout)| {
                let fds = fds.into_iter().map(|(fd, events)| PollFd { fd, events }).collect();
                Call::Poll { fds: Some(fds), timeout }
            }
        ),
    ];
    prop_oneof![4 => setup, 3 => data, 3 => rest]
}

#[derive(Clone, Debug)]
enum Step {
    Call(usize, Call),
    Wait(u64),
    Cut(usize, bool),
    Cancel(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..2_usize, call()).prop_map(|(host, call)| Step::Call(host, call)),
        4 => (0..100_u64).prop_map(Step::Wait),
        1 => (0..2_usize, any::<bool>()).prop_map(|(host, cut)| Step::Cut(host, cut)),
        1 => (0..2_usize).prop_map(Step::Cancel),
    ]
}

/// Both hosts have listeners and connections to begin with, or hardly anything would ever happen.
fn furnished() -> Net {
    let config = Config { fds_max: 12, files_max: 24, ops_max: 8, ..Config::default() };
    let mut net = Net::with(stack::StackParams::default(), config);
    for (host, port) in [(A, 80), (B, 81)] {
        net.listener(host, port, 3);
        net.ok(host, Call::EpollCreate1 { flags: 0 });
    }
    for (from, to, port) in [(A, B, 81), (B, A, 80), (A, B, 81)] {
        let fd = net.socket(from);
        net.blocked(from, Call::Connect { fd, addr: Some(v4(to, port)) });
        net.settle();
        net.ok(to, Call::Accept { fd: 3, flags: SOCK_NONBLOCK });
    }
    net
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn anything_goes(steps in prop::collection::vec(step(), 1..120)) {
        let mut net = furnished();
        for step in steps {
            match step {
                Step::Call(host, call) => {
                    net.start(host, call);
                }
                Step::Wait(millis) => net.run_for(Duration::from_millis(millis)),
                Step::Cut(host, cut) => net.cut[host] = cut,
                Step::Cancel(host) => {
                    net.with_sockets(host, |sockets, io| {
                        let op = sockets.blocked().next();
                        op.map(|op| sockets.cancel(io, op))
                    });
                }
            }
        }
        net.assert_nothing_left();
    }
}
