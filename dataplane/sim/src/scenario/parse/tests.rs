use core::time::Duration;

use base::Rate;
use proptest::prelude::*;
use workloads::traffic::{Kind, Reader as SinkReader};

use super::*;
use crate::link::{LinkConfig, Loss, Policer, Reorder, Room, Share};
use crate::router::Ecmp;
use crate::scenario::FaultKind;
use crate::scenario::expect::{DropBy, LinkReason, Of, Op, Operand, Over, Target, What};
use crate::scenario::model::Action;

/// Everything that the contract names and that exists here.
const WHOLE: &str = r#"
name = "all keys"
about = "one of each"
seeds = "1..10"
duration = "30s"
warmup = "5s"

[host.sender]
addresses = ["10.0.1.1/24", "fd00:1::1/64"]
profile = "linux"
sysctl = { "net.ipv4.tcp_sack" = 1, "net.ipv4.tcp_rmem" = "4096 131072 33554432" }
workers = 1

[host.receiver]

[router.s1]
ecmp = "flowlabel"
icmp = true
[router.s2]
ecmp = "flowlet"
flowlet_gap = "200us"

[[link]]
between = ["sender", "s1"]
[[link]]
id = "n1"
between = ["s1", "s2"]
rate = "1Gbit"
delay = "25us"
queue = "512KiB"
ecn_mark = "65pkt"
mtu = 1500
jitter = "1ms"
loss = "1%"
reorder = { p = "5%", by = "10ms" }
duplicate = "0.1%"
corrupt = "0.01%"
policer = { rate = "100Mbit", burst = "64KiB" }
drop_larger_than = 1400
reverse = { loss = "0%" }
[[link]]
between = ["s1", "s2"]
rate = "1Gbit"
loss = { p = "0.1%", burst = 8 }
[[link]]
between = ["s2", "receiver"]
loss = { good_to_bad = "0.1%", bad_to_good = "20%", bad = "50%" }

[[app]]
name = "f"
kind = "bulk"
from = "sender"
to = "receiver"
flows = 7
start = "0s"
stagger = "10ms"
stop = "30s"
cc = "cubic"
reader = { pause_at = "2s", for = "5s" }
sndbuf = "1MiB"
rcvbuf = "1MiB"
[[app]]
kind = "rr"
from = "receiver"
to = "sender"
ip = 6
request = "64B"
response = "64B"
count = 1000
[[app]]
name = "w"
kind = "writes"
from = "sender"
to = "receiver"
size = "1KiB"
every = "1ms"
reader = { rate = "10Mbit" }
[[app]]
name = "o"
kind = "onoff"
from = "sender"
to = "receiver"
on = "1s"
off = "1s"

[[at]]
time = "6s"
host = "receiver"
sysctl = { "net.ipv4.tcp_rmem" = "4096 131072 6291456" }
[[at]]
time = "4s"
link = "n1"
set = { up = false }
[[at]]
time = "8s"
host = "sender"
stall = "50ms"

[[expect]]
what = "goodput"
of = "f"
op = ">="
value = "1.8Gbit"
over = "mean"
at = "10s"
[[expect]]
what = "drops"
reason = "queue"
link = "n1"
op = "<="
value = 100
over = "worst"
[[expect]]
what = "ratio"
a = "goodput of f in after"
b = "goodput of f in before"
op = ">="
value = 2.7
[[expect]]
what = "queue_max"
link = "s2-receiver"
op = "<"
value = "65pkt"
[[expect]]
what = "counter"
host = "sender"
name = "TcpRetransSegs"
op = "=="
value = 0

[variant.before]
sysctl = { sender = {}, receiver = { "net.ipv4.tcp_sack" = 0 } }
[variant.after]
sysctl = { receiver = { "net.ipv4.tcp_sack" = 1 } }
"#;

fn parse(text: &str) -> Result<Scenario, String> {
    Scenario::parse("x.toml", text).map_err(|fault| fault.to_string())
}

#[test]
fn every_key_of_the_contract_arrives() {
    let s = parse(WHOLE).expect("right");
    assert_eq!(s.unsupported, []);
    assert_eq!((s.name.as_str(), s.about.as_str()), ("all keys", "one of each"));
    assert_eq!(s.seeds, (1..=10).collect::<Vec<_>>());
    assert_eq!((s.duration, s.warmup), (Some(Duration::from_secs(30)), Duration::from_secs(5)));
    assert_eq!(s.hosts[0].addresses.len(), 2);
    assert_eq!(s.hosts[0].profile, config::Profile::Linux);
    assert_eq!(s.hosts[1].profile, config::Profile::Millrace);
    let sack = |host: usize, variant: usize| s.hosts[host].knobs[variant].to_params(0).tcp.sack;
    assert!(sack(0, 0) && sack(0, 1) && !sack(1, 0) && sack(1, 1));
    assert_eq!((s.routers[0].ecmp, s.routers[0].icmp), (Ecmp::FlowLabel, true));
    assert_eq!(s.routers[1].flowlet_gap, Duration::from_micros(200));
    let ids: Vec<&str> = s.links.iter().map(|l| l.id.as_str()).collect();
    assert_eq!(ids, ["sender-s1", "n1", "s1-s2", "s2-receiver"]);
    let expected = LinkConfig {
        rate: Rate::from_bits_per_sec(1_000_000_000),
        delay: Duration::from_micros(25),
        queue: Room::Bytes(512 * 1024),
        ecn_mark: Some(Room::Packets(65)),
        mtu: 1500,
        jitter: Duration::from_millis(1),
        loss: Loss::Random(Share::percent(1)),
        reorder: Reorder { p: Share::percent(5), by: Duration::from_millis(10) },
        duplicate: Share::from_ppm(1000),
        corrupt: Share::from_ppm(100),
        policer: Some(Policer { rate: Rate::from_bits_per_sec(100_000_000), burst: 65_536 }),
        drop_larger_than: Some(1400),
        up: true,
    };
    assert_eq!(s.links[1].forward, expected);
    assert_eq!(s.links[1].reverse, LinkConfig { loss: Loss::None, ..expected });
    assert_eq!(s.links[2].forward.loss, Loss::bursts(Share::from_ppm(1000), 8));
    assert!(
        matches!(s.links[3].forward.loss, Loss::Bursts { bad, .. } if bad == Share::percent(50))
    );
    let f = &s.apps[0].traffic;
    assert_eq!((f.kind, f.flows, f.stop), (Kind::Bulk { bytes: None }, 7, s.duration));
    let pause = SinkReader::Pause { at: Duration::from_secs(2), time: Duration::from_secs(5) };
    assert_eq!(f.reader, pause);
    assert_eq!((f.options.sndbuf, f.options.rcvbuf), (Some(1 << 20), Some(1 << 20)));
    assert_eq!(s.apps[1].name, "app1");
    assert_eq!((s.apps[1].from, s.apps[1].to), (1, 0));
    assert_eq!(s.apps[1].target, s.hosts[0].addresses[1].addr);
    let rr = Kind::Rr { request: 64, response: 64, count: Some(1000) };
    assert_eq!(s.apps[1].traffic.kind, rr);
    assert!(matches!(s.apps[2].traffic.kind, Kind::Writes { size: 1024, .. }));
    assert_eq!(s.apps[2].traffic.reader, SinkReader::Rate(Rate::from_bits_per_sec(10_000_000)));
    assert!(matches!(s.apps[3].traffic.kind, Kind::OnOff { .. }));
    // In the order of time.
    assert!(matches!(s.timeline[0].action, Action::Link { link: 1, .. }));
    assert!(matches!(s.timeline[1].action, Action::Sysctl { host: 1, .. }));
    assert!(matches!(s.timeline[2].action, Action::Stall { host: 0, .. }));
    let e = &s.expects[0];
    assert_eq!((e.op, e.over), (Op::Ge, Over::Mean));
    assert_eq!(e.text, "goodput of f at 10s >= 1.8Gbit");
    let Operand::One(goodput) = &e.left else { panic!("one quantity") };
    assert_eq!((&goodput.what, goodput.of), (&What::Goodput, Of::App(0)));
    assert!(matches!(e.right, Target::Number(n) if n == 1.8e9));
    let Operand::One(drops) = &s.expects[1].left else { panic!("one quantity") };
    let reason = Some(DropBy::Link(LinkReason::Queue));
    assert_eq!(drops.what, What::Drops { reason, link: Some(1), way: None, host: None });
    let Operand::Ratio(a, b) = &s.expects[2].left else { panic!("a ratio") };
    assert_eq!((a.variant, b.variant), (Some(1), Some(0)));
    let Operand::One(queue) = &s.expects[3].left else { panic!("one quantity") };
    assert_eq!(queue.what, What::QueueMax { link: 3, way: None, packets: true });
    let Operand::One(counter) = &s.expects[4].left else { panic!("one quantity") };
    assert_eq!(counter.what, What::Counter { host: 0, name: "TcpRetransSegs" });
}

/// Two hosts, a link and an application; `more` follows.
fn small(more: &str) -> String {
    format!(
        "[host.a]\n[host.b]\n[[link]]\nbetween = [\"a\", \"b\"]\ndelay = \"1ms\"\n[[app]]\nname = \"f\"\n\
         kind = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n{more}"
    )
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    // What follows the small file, and what is said of it. The small file has ten lines.
    for (more, expected) in [
        ("stp = \"1s\"", "x.toml:11:1: app[0]: unknown key \"stp\": did you mean stop?"),
        ("stop = 5", "x.toml:11:8: app[0].stop: \"5\" has no unit: write a time such as \"50ms\""),
        ("stop = \"0s\"", "x.toml:11:8: app[0].stop: is not after the start"),
        ("flows = 0", "x.toml:11:9: app[0].flows: 0 is not a whole number from 1 to 4096"),
        ("flows = 5000", "x.toml:11:9: app[0].flows: 5000 is not a whole number from 1 to 4096"),
        ("ip = 5", "x.toml:11:6: app[0].ip: is not 4 or 6"),
        (
            "cc = \"cubik\"",
            "x.toml:11:6: app[0].cc: unknown congestion control \"cubik\": did you mean cubic?",
        ),
        ("count = 5", "x.toml:11:1: app[0].count: belongs to rr and writes, not to bulk"),
        ("bytes = 1000", "x.toml:11:9: app[0].bytes: \"1000\" has no unit: write a size"),
        (
            "reader = { rate = \"1Mbit\", for = \"1s\" }",
            "x.toml:11:10: app[0].reader: expected { rate",
        ),
        (
            "[[link]]\nbetween = [\"a\", \"c\"]",
            "x.toml:12:17: link[1].between: unknown host or router \"c\"",
        ),
        (
            "[[link]]\nbetween = [\"a\"]",
            "x.toml:12:11: link[1].between: names two hosts or routers",
        ),
        (
            "[[link]]\nbetween = [\"a\", \"a\"]",
            "x.toml:12:11: link[1].between: names the same end twice",
        ),
        (
            "[[link]]\nbetween = [\"a\", \"b\"]\nrat = \"1Mbit\"",
            "x.toml:13:1: link[1]: unknown key \"rat\": did you mean rate?",
        ),
        (
            "[[link]]\nbetween = [\"a\", \"b\"]\nloss = 5",
            "x.toml:13:8: link[1].loss: \"5\" is more than all (100%, or 1)",
        ),
        (
            "[[link]]\nbetween = [\"a\", \"b\"]\nqueue = 65",
            "x.toml:13:9: link[1].queue: \"65\" has no unit",
        ),
        (
            "[[link]]\nbetween = [\"a\", \"b\"]\nmtu = 1500\ndrop_larger_than = 1500",
            "link[1].drop_larger_than: is not below the mtu of 1500",
        ),
        (
            "[[link]]\nbetween = [\"a\", \"b\"]\nmtu = 300",
            "link[1].mtu: 300 is not from 576 to 16000",
        ),
        (
            "[[link]]\nbetween = [\"a\", \"b\"]\nreverse = { dely = \"1ms\" }",
            "x.toml:13:13: link[1].reverse: unknown key \"dely\": did you mean delay?",
        ),
        (
            "[[at]]\ntime = \"1s\"\nlink = \"n9\"\nset = { up = false }",
            "x.toml:13:8: at[0].link: unknown link \"n9\"",
        ),
        (
            "[[at]]\ntime = \"1s\"\nlink = \"a-b\"\nset = { id = \"x\" }",
            "x.toml:14:9: at[0].set: unknown key \"id\"",
        ),
        ("[[at]]\ntime = \"1s\"\nlink = \"a-b\"", "x.toml:11:1: at[0]: says nothing"),
        (
            "[[at]]\ntime = \"1s\"\nlink = \"a-b\"\nset = { mtu = 1400 }",
            "at[0].set.mtu: a host's card keeps its MTU",
        ),
        (
            "[[at]]\ntime = \"1s\"\nhost = \"a\"\nsysctl = { \"net.ipv4.tcp_scak\" = 0 }",
            "did you mean net.ipv4.tcp_sack?",
        ),
        (
            "[[at]]\ntime = \"1s\"\nhost = \"c\"\nstall = \"1s\"",
            "x.toml:13:8: at[0].host: unknown host \"c\"",
        ),
        (
            "[[expect]]\nwhat = \"godput\"\nop = \">=\"\nvalue = 1",
            "x.toml:12:8: expect[0].what: unknown quantity \"godput\": did you mean goodput?",
        ),
        (
            "[[expect]]\nwhat = \"goodput\"\nop = \"=>\"\nvalue = 1",
            "x.toml:13:6: expect[0].op: unknown value \"=>\"",
        ),
        (
            "[[expect]]\nwhat = \"goodput\"\nop = \">=\"\nvalue = 5",
            "x.toml:14:9: expect[0].value: \"5\" has no unit: write a rate",
        ),
        (
            "[[expect]]\nwhat = \"goodput\"\nop = \">=\"\nvalue = \"5s\"",
            "x.toml:14:9: expect[0].value: \"5s\" has an unknown unit",
        ),
        ("[[expect]]\nwhat = \"goodput\"\nop = \">=\"", "expect[0].value: is missing"),
        (
            "[[expect]]\nwhat = \"goodput\"\nof = \"g\"\nop = \">=\"\nvalue = \"1bit\"",
            "x.toml:13:6: expect[0].of: unknown application \"g\"",
        ),
        (
            "[[expect]]\nwhat = \"goodput\"\nof = \"f[1]\"\nop = \">=\"\nvalue = \"1bit\"",
            "expect[0].of: \"f[1]\": f has flows [0] to [0]",
        ),
        (
            "[[expect]]\nwhat = \"time_to_mss\"\nop = \"<=\"\nvalue = \"1s\"",
            "expect[0].mss: time_to_mss needs it",
        ),
        (
            "[[expect]]\nwhat = \"rtos\"\nlink = \"a-b\"\nop = \"<=\"\nvalue = 1",
            "expect[0].link: belongs to queue_max, queue_mean, utilisation, marks, drops, not to rtos",
        ),
        (
            "[[expect]]\nwhat = \"queue_max\"\nop = \"<=\"\nvalue = 1",
            "expect[0].link: queue_max needs it",
        ),
        (
            "[[expect]]\nwhat = \"drops\"\nreason = \"quue\"\nop = \"<=\"\nvalue = 1",
            "unknown reason \"quue\": did you mean queue?",
        ),
        (
            "[[expect]]\nwhat = \"counter\"\nhost = \"a\"\nname = \"TcpRetransSeg\"\nop = \"<=\"\nvalue = 1",
            "did you mean TcpRetransSegs?",
        ),
        (
            "[[expect]]\nwhat = \"ratio\"\na = \"goodput of f in x\"\nb = \"goodput\"\nop = \"<=\"\nvalue = 1",
            "x.toml:13:5: expect[0].what: unknown variant \"x\"",
        ),
        (
            "[[expect]]\nwhat = \"ratio\"\na = \"goodput of\"\nb = \"goodput\"\nop = \"<=\"\nvalue = 1",
            "expect[0].a: nothing follows \"of\"",
        ),
        (
            "[[expect]]\nwhat = \"mss\"\nop = \"==\"\nvalue = 1448\nover = \"men\"",
            "unknown value \"men\": did you mean mean?",
        ),
        ("[variant.x]\nsysctl = { c = {} }", "variant.x.sysctl: unknown host \"c\""),
        (
            "[variant.x]\nsysctl = { a = { \"net.ipv4.tcp_sack\" = 7 } }",
            "x.toml:12:18: variant.x.sysctl.a: net.ipv4.tcp_sack",
        ),
        ("[router.a]", "router.a: a host has this name"),
        (
            "[router.r]\necmp = \"flow-label\"",
            "unknown value \"flow-label\": did you mean flowlabel?",
        ),
        ("[router.r]\nflowlet_gap = \"1ms\"", "router.r.flowlet_gap: has no meaning without"),
        ("[[host]]", "x.toml:11:3"),
        (
            "[host.c]\naddresses = [\"10.0.0.0/24\"]",
            "host.c.addresses: \"10.0.0.0/24\" is the address of the network",
        ),
        ("[host.c]\naddresses = [\"10.0.0.1\"]", "write it as 10.0.0.1/24"),
        ("[host.c]\nprofile = \"linus\"", "unknown value \"linus\": did you mean linux?"),
        (
            "[host.c]\nprofil = \"linux\"",
            "x.toml:12:1: host.c: unknown key \"profil\": did you mean profile?",
        ),
        (
            "[host.c]\naddresses = [\"10.9.0.1/24\", \"10.9.0.2/24\"]\n[[link]]\nbetween = [\"a\", \"c\"]\n[[link]]\nbetween = [\"b\", \"c\"]",
            "x.toml:11:7: host.c: 10.9.0.1/24 and 10.9.0.2/24 are of one network",
        ),
        (
            "[[link]]\nbetween = [\"a\", \"c\"]\nmtu = 1000\n[host.c]\naddresses = [\"fd00::1/64\"]",
            "host.c: has an IPv6 address on a-c, whose mtu is below 1280",
        ),
        ("[host.\"x y\"]", "\"x y\" is no name"),
        ("[hosts.c]", "unknown key \"hosts\": did you mean host?"),
    ] {
        let message = parse(&small(more)).expect_err(more);
        assert!(message.contains(expected), "{more}\n{message}\nexpected: {expected}");
    }
    for (text, expected) in [
        ("", "host: there is none"),
        ("seeds = \"10..1\"", "x.toml:1:9: seeds: \"10..1\" is empty"),
        ("seeds = 5", "seeds: expected \"1..10\" or a list of numbers, found a whole number"),
        ("seeds = [1, 1]", "seeds: seed 1 comes twice"),
        ("seeds = \"1..100000\"", "more than 10000 seeds"),
        ("duration = \"2h\"", "duration: is not above 0 and at most 1h"),
        ("duration = \"1s\"\nwarmup = \"1s\"", "x.toml:2:10: warmup: is not shorter than the run"),
        ("name = 5", "name: expected text, found a whole number"),
        ("x = ", "x.toml:1:"),
    ] {
        let message = parse(text).expect_err(text);
        assert!(message.contains(expected), "{text}\n{message}\nexpected: {expected}");
    }
}

#[test]
fn hosts_that_no_link_joins_are_seen() {
    let text = "[host.a]\n[host.b]\n[host.c]\n[[link]]\nbetween = [\"a\", \"b\"]\n[[link]]\n\
                between = [\"b\", \"c\"]\n[[app]]\nkind = \"idle\"\nfrom = \"a\"\nto = \"c\"\n";
    let message = parse(text).expect_err("hosts do not forward");
    assert!(message.contains("no links lead from one host to the other"), "{message}");
    let at_once = "[host.a]\n[host.b]\n[[link]]\nbetween = [\"a\", \"b\"]\n[[app]]\n\
                   kind = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n";
    assert!(
        parse(at_once)
            .expect_err("time would stand still")
            .contains("nothing on the way takes time")
    );
    let text = "[host.a]\naddresses = [\"10.0.0.1/24\"]\n[host.b]\n[[link]]\ndelay = \"1ms\"\n\
                between = [\"a\", \"b\"]\n[[app]]\nkind = \"idle\"\nfrom = \"a\"\nto = \"b\"\nip = 6";
    assert!(parse(text).expect_err("no address").contains("a has no IPv6 address"));
}

#[test]
fn cards_get_addresses_that_reach_each_other() {
    let cards = |text: &str| -> Vec<Vec<String>> {
        let s = parse(text).expect(text);
        let of = |h: &crate::scenario::model::HostSpec| {
            h.cards
                .iter()
                .map(|c| {
                    let list = c.addresses.iter().map(|a| format!("{}/{}", a.addr, a.prefix));
                    let (g4, g6) =
                        (c.gateway4.map(|g| g.to_string()), c.gateway6.map(|g| g.to_string()));
                    let all: Vec<String> = list.chain(g4).chain(g6).collect();
                    all.join(" ")
                })
                .collect()
        };
        s.hosts.iter().map(of).collect()
    };
    let link = "[[link]]\nbetween = [\"a\", \"b\"]\n";
    let routed =
        "[[link]]\nbetween = [\"a\", \"r\"]\n[[link]]\nbetween = [\"r\", \"b\"]\n[router.r]\n";
    assert_eq!(
        cards(&format!("[host.a]\n[host.b]\n{link}{link}")),
        [
            ["10.1.0.1/24 fd00:1::1/64", "10.1.1.1/24 fd00:1:1::1/64"],
            ["10.1.0.2/24 fd00:1::2/64", "10.1.1.2/24 fd00:1:1::2/64"]
        ]
    );
    assert_eq!(
        cards(&format!("[host.a]\n[host.b]\n{routed}")),
        [
            ["10.1.0.1/24 fd00:1::1/64 169.254.0.1 fe80::1"],
            ["10.2.0.1/24 fd00:2::1/64 169.254.0.1 fe80::1"]
        ]
    );
    let (a, b) = ("addresses = [\"10.0.1.1/24\"]", "addresses = [\"10.0.2.1/24\"]");
    assert_eq!(
        cards(&format!("[host.a]\n{a}\n[host.b]\n{b}\n{link}")),
        [["10.0.1.1/24 10.0.2.1"], ["10.0.2.1/24 10.0.1.1"]]
    );
    assert_eq!(
        cards(&format!("[host.a]\n{a}\n[host.b]\n{link}")),
        [["10.0.1.1/24"], ["10.0.1.2/24"]]
    );
    // The address that shares a prefix goes to that link, whatever the order.
    let two = "addresses = [\"10.0.2.9/24\", \"10.0.1.9/24\"]";
    assert_eq!(
        cards(&format!(
            "[host.c]\n{two}\n[host.a]\n{a}\n[host.b]\n{b}\n[[link]]\nbetween = [\"a\", \"c\"]\n\
             [[link]]\nbetween = [\"c\", \"b\"]\n"
        )),
        [vec!["10.0.1.9/24", "10.0.2.9/24"], vec!["10.0.1.1/24"], vec!["10.0.2.1/24"]]
    );
}

#[test]
fn what_does_not_exist_here_is_named_with_its_line() {
    for (more, expected) in [
        ("cc = \"bbr\"", "x.toml:11:6: app[0].cc: bbr does not exist here yet"),
        (
            "[host.c]\nworkers = 4",
            "x.toml:12:11: host.c.workers: hosts of more than one core do not exist here yet",
        ),
        (
            "[host.c]\nvxlan = { vni = 42, remote = \"a\", underlay = 4 }",
            "x.toml:12:9: host.c.vxlan: VXLAN does not exist here yet",
        ),
        (
            "[host.c]\noverlay = [\"192.168.7.1/24\"]",
            "host.c.overlay: overlay addresses do not exist",
        ),
        (
            "[host.c]\nsysctl = { \"net.ipv4.tcp_shrink_window\" = 1 }",
            "net.ipv4.tcp_shrink_window = 1: nothing uses this knob yet",
        ),
        (
            "[host.c]\nsysctl = { \"net.ipv4.tcp_congestion_control\" = \"bbr\" }",
            "bbr does not exist here yet",
        ),
        (
            "[[expect]]\nwhat = \"rehashes\"\nreason = \"rto\"\nop = \">=\"\nvalue = 1",
            "rehashes: the engine does not change transmit hashes yet",
        ),
        (
            "[[expect]]\nwhat = \"counter\"\nhost = \"a\"\nname = \"TcpExtTcpTimeoutRehash\"\nop = \">=\"\n\
             value = 1",
            "x.toml:14:8: expect[0].name: there is no counter \"TcpExtTcpTimeoutRehash\"",
        ),
    ] {
        let s = parse(&small(more)).expect(more);
        let [fault] = s.unsupported.as_slice() else { panic!("{more}: {:?}", s.unsupported) };
        assert_eq!(fault.kind, FaultKind::Unsupported);
        assert!(fault.to_string().contains(expected), "{more}\n{fault}");
        assert!(fault.line.is_some());
    }
}

#[test]
fn numbers_and_shares_of_expectations_mean_what_they_say() {
    let number = |what: &str, value: &str| -> (What, f64) {
        let text = small(&format!("[[expect]]\nwhat = \"{what}\"\nop = \"<=\"\nvalue = {value}\n"));
        let s = parse(&text).expect(&text);
        let Operand::One(m) = &s.expects[0].left else { panic!("one quantity") };
        let Target::Number(n) = s.expects[0].right else { panic!("a number") };
        (m.what.clone(), n)
    };
    assert_eq!(number("retransmits", "5"), (What::Retransmits { share: false }, 5.0));
    assert_eq!(number("retransmits", "\"1%\""), (What::Retransmits { share: true }, 0.01));
    assert_eq!(number("retransmits", "0.01"), (What::Retransmits { share: true }, 0.01));
    assert_eq!(number("spurious_retransmits", "0.5"), (What::SpuriousRetransmits, 0.5));
    assert_eq!(number("cwnd", "10"), (What::Cwnd { bytes: false }, 10.0));
    assert_eq!(number("cwnd", "\"64KiB\""), (What::Cwnd { bytes: true }, 65_536.0));
    assert_eq!(number("bytes_intact", "true"), (What::BytesIntact, 1.0));
    assert_eq!(number("jain", "9e-1"), (What::Jain, 0.9));
    assert_eq!(number("mss", "1448"), (What::Mss, 1448.0));
    assert_eq!(number("srtt", "\"50ms\""), (What::Srtt, 0.05));
}

#[test]
fn phrases_name_what_quantities_are_of() {
    let of = |phrase: &str| -> What {
        let text = small(&format!(
            "[[expect]]\nwhat = \"ratio\"\na = \"{phrase}\"\nb = \"goodput\"\nop = \">\"\nvalue = 1\n"
        ));
        let s = parse(&text).expect(phrase);
        let Operand::Ratio(a, _) = &s.expects[0].left else { panic!("a ratio") };
        a.what.clone()
    };
    let reason = Some(DropBy::Link(LinkReason::Queue));
    let drops = |reason, link, host| What::Drops { reason, link, way: None, host };
    assert_eq!(of("drops queue of a-b"), drops(reason, Some(0), None));
    assert_eq!(of("drops of a-b"), drops(None, Some(0), None));
    let reason = Some(DropBy::Host(base::DropReason::TcpChecksum));
    assert_eq!(of("drops tcp_csum of b"), drops(reason, None, Some(1)));
    assert_eq!(of("queue_max of a-b"), What::QueueMax { link: 0, way: None, packets: false });
    assert_eq!(of("queue_mean of a-b"), What::QueueMean { link: 0, way: None, packets: false });
    assert_eq!(of("marks of a-b"), What::Marks { link: Some(0), way: None });
    assert_eq!(of("marks"), What::Marks { link: None, way: None });
    assert_eq!(of("utilisation of a-b"), What::Utilisation { link: 0, way: None });
    assert_eq!(
        of("counter TCPTimeouts of a"),
        What::Counter { host: 0, name: "TcpExtTCPTimeouts" }
    );
    assert_eq!(of("time_to_mss 1360 of f"), What::TimeToMss(1360));
    assert_eq!(of("retransmits of f[0] at 1s"), What::Retransmits { share: false });
}

#[test]
fn knobs_may_be_written_in_any_way_of_toml() {
    for sysctl in [
        "sysctl = { \"net.ipv4.tcp_rmem\" = \"4096 131072 6291456\" }",
        "sysctl = { net.ipv4.tcp_rmem = [4096, 131072, 6291456] }",
        "[host.c.sysctl]\n\"net.ipv4.tcp_rmem\" = \"4096 131072 6291456\"",
        "sysctl = { tcp_rmem = \"4096 131072 6291456\" }",
    ] {
        let s = parse(&small(&format!("[host.c]\n{sysctl}\n"))).expect(sysctl);
        assert_eq!(s.hosts[2].knobs[0].to_params(0).tcp.rmem, [4096, 131_072, 6_291_456]);
    }
}

#[test]
fn a_huge_file_is_refused_before_it_is_read() {
    let text = "#".repeat(value::FILE_MAX_BYTES + 1);
    assert!(parse(&text).expect_err("too long").contains("longer than 1048576 bytes"));
}

proptest! {
    #[test]
    fn any_text_is_a_scenario_or_an_error(text in "\\PC*") {
        let _ = parse(&text);
    }

    #[test]
    fn a_file_with_a_part_replaced_is_a_scenario_or_an_error(
        from in 0..WHOLE.len(), len in 0..40_usize, by in "[ -~\\n]{0,20}",
    ) {
        let to = (from + len).min(WHOLE.len());
        let text = format!("{}{by}{}", &WHOLE[..from], &WHOLE[to..]);
        let _ = parse(&text);
    }
}
