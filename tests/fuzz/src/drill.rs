//! Packetdrill scripts: what parses prints to something that parses to the same.

use sim::drill::lang::python::{PyError, State, Value, Variables};
use sim::drill::lang::{Definitions, Everything, Settings, ast, parse, unsupported};

const SEEDS: &[&str] = &[
    "--mtu=1500\n--define=N=\"x\" // c\n`defaults.sh\nsysctl -q net.ipv4.tcp_sack=0`\n\
     0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n\
     +0...0.5 connect(3, {sa_family = AF_INET, sin_port = htons(8), sin_addr = inet_addr(\"1.2.3.4\")}, ...) = -1 EAGAIN (a b)\n\
     * > (ect01,flowlabel 0x1) 1 > 2 SEW 0:0(0) <mss 1460,nop,nop,sackOK,TS val 1 ecr 0,FO 01ab>\n\
     +.1~+.2 > P.5 1:1001(1000) ack 1 <...>\n`true || false`",
    "0 < ipv6 fd00::1 > fd00::2: gre: mpls (label 1, tc 2, [S], ttl 3): - 0:0(0) win 1 <ECN e0b 1 ceb 2,nop,nop,nop,nop>\n\
     +0 < icmp unreachable frag_needed mtu 1000 [1:2(1)]\n+0 > udp (5)\n\
     1 f([A|B, {fd=3, events=1, revents=2}], {events=1, ptr=0x5}, \"a\\x00\"...) = 0x1",
    "0 %{ if tcpi_a > 1 and not 0: x = 3 // 2; print('%05d' % x)\nelse:\n  assert 1 <= x < 2, (x, 'm')\n}%",
    "0 `ip route change default via 10.0.0.1 mtu lock 500 # c\nnstat -s | grep A > /dev/null && sleep .5; echo 1 > /proc/sys/a/b`",
];

/// Where to begin.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    SEEDS.iter().map(|text| text.as_bytes().to_vec()).collect()
}

struct Sevens;

impl Variables for Sevens {
    fn lookup(&self, name: &str) -> Option<Value> {
        name.starts_with("tcpi_").then_some(Value::Int(7))
    }
}

/// One run.
pub(crate) fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let script = match parse(&text, &Definitions::default()) {
        Ok(script) => script,
        Err(error) => {
            let lines = u32::try_from(text.split('\n').count()).unwrap_or(u32::MAX);
            assert!(error.span.line <= lines.saturating_add(1), "{error}");
            assert!(error.render("f", &text).starts_with("f:"), "{error}");
            return;
        }
    };
    let printed = script.to_string();
    // What replaced a symbol may itself be one, and be replaced when it is read again.
    if !script.options.iter().any(|option| option.name == "define") {
        match parse(&printed, &Definitions::default()) {
            Ok(again) => assert_eq!(again, script, "{printed}"),
            Err(error) => panic!("{}", error.render("f", &printed)),
        }
    }
    unsupported(&script, &Everything);
    let _: Result<Settings, _> = Settings::for_script(&script, None);
    let mut state = State::default();
    let mut lines = Vec::new();
    for event in &script.events {
        if let ast::Action::Code(code) = &event.action {
            let _: Result<(), PyError> = state.run(&code.program, &Sevens, &mut lines);
        }
    }
}
