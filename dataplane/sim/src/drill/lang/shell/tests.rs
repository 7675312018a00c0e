use core::time::Duration;

use super::*;

fn actions(text: &str) -> Vec<Action> {
    parse(text, 1).into_iter().map(|step| step.action).collect()
}

fn one(text: &str) -> Action {
    let mut all = actions(text);
    assert_eq!(all.len(), 1, "{text}: {all:?}");
    all.remove(0)
}

fn knob(name: &str, value: &str) -> Assignment {
    Assignment { name: name.into(), value: value.into() }
}

fn sysctl(list: &[(&str, &str)]) -> Action {
    let assignments = list.iter().map(|(name, value)| knob(name, value)).collect();
    Action::Sysctl { assignments, ignore_unknown: false }
}

#[test]
fn set_up_scripts_are_known_at_any_depth() {
    assert_eq!(one("../../common/defaults.sh"), Action::Defaults);
    assert_eq!(one("/tmp/sysctl_restore_${PPID}.sh"), Action::Restore);
    assert_eq!(
        one(
            "a/set_sysctls.py /proc/sys/net/ipv4/tcp_sack=0 \\\n /proc/sys/net/ipv4/tcp_rmem=\"1  2 3\""
        ),
        Action::SetSysctls(vec![
            knob("net.ipv4.tcp_sack", "0"),
            knob("net.ipv4.tcp_rmem", "1 2 3")
        ])
    );
}

#[test]
fn knobs_have_several_spellings() {
    let expected = sysctl(&[("net.ipv4.tcp_ecn", "2")]);
    for text in [
        "sysctl -q net.ipv4.tcp_ecn=2    # why",
        "sysctl -w net/ipv4/tcp_ecn=2",
        "echo 2 > /proc/sys/net/ipv4/tcp_ecn",
        "sysctl -q net.ipv4.tcp_ecn='2' > /dev/null 2>&1",
    ] {
        assert_eq!(one(text), expected, "{text}");
    }
    assert_eq!(
        one("sysctl -e -q a.b=1"),
        Action::Sysctl { assignments: vec![knob("a.b", "1")], ignore_unknown: true }
    );
    assert_eq!(
        one("echo 3 > /sys/module/tcp_cubic/parameters/hystart_detect"),
        Action::ModuleParameter {
            module: "tcp_cubic".into(),
            name: "hystart_detect".into(),
            value: "3".into()
        }
    );
}

#[test]
fn sums_of_products_are_computed() {
    assert_eq!(
        one("sysctl -q a=\"4096 $((15*1024*1024))\" b=$(( 2 * 3 + 10 - 1 ))"),
        sysctl(&[("a", "4096 15728640"), ("b", "15")])
    );
}

#[test]
fn routes_have_their_metrics() {
    let route = one(
        "ip route change 192.0.2.1 via 10.0.0.2 dev tun0 advmss 600 mtu lock 640 initcwnd 11 rto_min 5ms odd 1",
    );
    let Action::Route(route) = route else { panic!("{route:?}") };
    assert_eq!(route.destination, "192.0.2.1");
    assert_eq!((route.via, route.ipv6), (Some("10.0.0.2".parse().expect("fine")), false));
    assert_eq!((route.metrics.mtu, route.metrics.mtu_lock), (Some(640), true));
    assert_eq!((route.metrics.advmss, route.metrics.initcwnd), (Some(600), Some(11)));
    assert_eq!(route.metrics.rto_min, Some(Duration::from_millis(5)));
    assert_eq!(route.other, ["odd 1"]);
    let Action::Route(route) = one("ip -6 route replace default via fd00::1 mtu 1300") else {
        panic!("a route")
    };
    assert!(route.ipv6 && !route.metrics.mtu_lock && route.metrics.mtu == Some(1300));
    assert_eq!(one("ip tcp_metrics flush all &> /dev/null"), Action::FlushMetrics);
    assert_eq!(
        one("ip route del 10.0.0.0/8"),
        Action::RouteDelete { ipv6: false, destination: "10.0.0.0/8".into() }
    );
}

#[test]
fn devices_have_queues_and_offloads() {
    let Action::Qdisc(qdisc) = one("tc qdisc replace dev tun0 root pfifo limit 0") else {
        panic!("a queue")
    };
    assert_eq!(
        (qdisc.kind.as_str(), qdisc.limit, qdisc.verb.as_str()),
        ("pfifo", Some(0), "replace")
    );
    let both = actions("tc qdisc delete dev tun0 root 2>/dev/null ; tc qdisc add dev tun0 root fq");
    assert!(matches!(both.as_slice(), [Action::Qdisc(_), Action::Qdisc(_)]), "{both:?}");
    assert_eq!(
        one("ethtool -K tun0 gso off tso on"),
        Action::Offloads {
            device: "tun0".into(),
            settings: vec![("gso".into(), false), ("tso".into(), true)]
        }
    );
}

#[test]
fn checks_are_pipelines_that_end_in_grep() {
    assert_eq!(one("nstat > /dev/null"), Action::CountersReset);
    assert_eq!(
        one("nstat -s | grep TcpExtFoo > /dev/null"),
        Action::CounterCheck {
            patterns: vec!["TcpExtFoo".into()],
            zeros: false,
            keep: true,
            negated: false
        }
    );
    assert_eq!(
        one("! nstat | grep -q IpInFoo"),
        Action::CounterCheck {
            patterns: vec!["IpInFoo".into()],
            zeros: false,
            keep: false,
            negated: true
        }
    );
    assert_eq!(
        one("grep \" 0A \" /proc/net/tcp /proc/net/tcp6 | grep \":1F90\""),
        Action::SocketCheck {
            ipv4: true,
            ipv6: true,
            patterns: vec![" 0A ".into(), ":1F90".into()],
            negated: false
        }
    );
}

#[test]
fn small_commands() {
    assert_eq!(one("sleep 0.25"), Action::Sleep(Duration::from_millis(250)));
    assert_eq!(one("/bin/rm -f /tmp/x"), Action::RemoveFile("/tmp/x".into()));
    assert_eq!(
        one("dd bs=1 count=5 if=/dev/zero of=/tmp/x status=none"),
        Action::ZeroFile { path: "/tmp/x".into(), bytes: 5 }
    );
    assert_eq!(actions("# only a comment\n\n"), []);
    assert_eq!(actions("true; false"), [Action::Nothing, Action::Fail]);
}

#[test]
fn lines_and_conditions_are_kept() {
    let steps = parse("\ntrue \\\n || sysctl -q a=1 &&\n true\nsleep 1", 7);
    let seen: Vec<_> = steps.iter().map(|step| (step.line, step.when)).collect();
    assert_eq!(
        seen,
        [(8, When::Always), (9, When::Failed), (10, When::Succeeded), (11, When::Always)]
    );
}

#[test]
fn what_is_not_known_is_said_so() {
    for text in [
        "iptables -A INPUT -j DROP",
        "sysctl net.ipv4.tcp_ecn",
        "sysctl -q a=$B",
        "sysctl -q a=$((3/4))",
        "sysctl -q a=$((x))",
        "sysctl -q a=$((4294967296))",
        "sysctl -q a='$((1))'b$",
        "if true; then",
        "(sleep 1)",
        "sleep 1 &",
        "nstat | grep -v A",
        "nstat | grep 'A.*B'",
        "sleep 'x",
        "echo a > /etc/passwd",
        "sysctl a=1 > /tmp/x",
        "A=1 sysctl a=1",
        "! true",
        "| true",
        "ip link set lo up",
    ] {
        let all = actions(text);
        assert!(
            all.iter().any(|action| matches!(action, Action::Unsupported { .. })),
            "{text}: {all:?}"
        );
    }
}
