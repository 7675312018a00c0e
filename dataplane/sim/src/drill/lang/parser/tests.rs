use std::path::{Path, PathBuf};

use super::super::{Definitions, Everything, render, unsupported};
use super::*;

/// Scripts below a directory, in order of their paths.
fn scripts_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![directory.to_path_buf()];
    while let Some(directory) = todo.pop() {
        for entry in std::fs::read_dir(&directory).expect("a readable directory") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                todo.push(path);
            } else if path.extension().is_some_and(|extension| extension == "pkt") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Definitions that the public runner passes.
fn public_definitions() -> Definitions {
    let mut definitions = Definitions::default();
    for text in [
        "TFO_COOKIE=3021b9d889017eeb",
        "CODE=host_unreachable",
        "MSS=1460",
        "CMSG_LEVEL_IP=SOL_IP",
        "CMSG_TYPE_RECVERR=IP_RECVERR",
    ] {
        definitions.define(text).expect("well-formed");
    }
    definitions
}

#[test]
#[ignore = "needs a checkout of the public scripts, named by MILLRACE_PACKETDRILL"]
fn all_public_scripts_parse_and_print() {
    let Some(directory) = std::env::var_os("MILLRACE_PACKETDRILL") else {
        panic!("MILLRACE_PACKETDRILL should name a directory of scripts");
    };
    let scripts = scripts_below(Path::new(&directory));
    assert!(!scripts.is_empty(), "there are scripts in {directory:?}");
    let mut failures = 0;
    for path in &scripts {
        let text = String::from_utf8_lossy(&std::fs::read(path).expect("readable")).into_owned();
        let name = path.display().to_string();
        match parse(&text, &public_definitions()) {
            Ok(script) => {
                let printed = script.to_string();
                match parse(&printed, &Definitions::default()) {
                    Ok(again) if again == script => {}
                    Ok(again) => {
                        failures += 1;
                        println!("{name}: prints differently\n{printed}\n{again}");
                    }
                    Err(error) => {
                        failures += 1;
                        println!("{}", error.render(&name, &printed));
                    }
                }
                for item in unsupported(&script, &Everything) {
                    println!("{}", render(&name, &text, item.span, &item.what));
                }
            }
            Err(error) => {
                failures += 1;
                println!("{}", error.render(&name, &text));
            }
        }
    }
    assert_eq!(failures, 0, "of {} scripts", scripts.len());
}

fn read(text: &str) -> Script {
    match parse(text, &Definitions::default()) {
        Ok(script) => script,
        Err(error) => panic!("{}", error.render("test", text)),
    }
}

fn refused(text: &str) -> ScriptError {
    match parse(text, &Definitions::default()) {
        Ok(script) => panic!("{text} should be refused, but is\n{script}"),
        Err(error) => error,
    }
}

/// Each line is as the printer would write it.
#[track_caller]
fn prints_as_it_is(lines: &[&str]) {
    for line in lines {
        let text = format!("{line}\n");
        let script = read(&text);
        assert_eq!(script.to_string(), text);
        assert_eq!(read(&script.to_string()), script, "{line}");
    }
}

#[test]
fn times_print_as_they_are() {
    prints_as_it_is(&[
        "0 > . 1:1(0) ack 1",
        "+0.25 > . 1:1(0) ack 1",
        "* > . 1:1(0) ack 1",
        "1.5~2 > . 1:1(0) ack 1",
        "+0.02~+1.1 > . 1:1(0) ack 1",
        "0.000000001 > . 1:1(0) ack 1",
        "+0.1...0.3 read(3, ..., 100) = 5",
    ]);
    let spaced = read("+.02 ~ +1.1 > . 1:1(0)");
    assert_eq!(spaced, read("+0.02~+1.1 > . 1:1(0)"));
}

#[test]
fn packets_print_as_they_are() {
    prints_as_it_is(&[
        "0 < S 0:0(0) win 65535 <mss 1460,sackOK,TS val 1 ecr 0,nop,wscale 7>",
        "0 > S. 0:0(0) ack 1 <...>",
        "0 < - 1:11(10) win 100",
        "0 > FP. 1:2(1) ack 9 win 0 urg 1",
        "0 < RUEWA. 5:5(0) ack 1 win 1",
        "0 > P.5 1:2(1) ack 1",
        "0 > S7 0:0(0)",
        "0 > 3 1:1(0)",
        "0 > .0 1:1(0) ack 1",
        "0 < . 4294967290:4(10) ack 1 win 9",
        "0 < . 1:1(0) ack 1 win 9 <nop,nop,sack 3:4 7:9>",
        "0 > S 0:0(0) <FO,nop,nop>",
        "0 > S 0:0(0) <FO 00ff,FOEXP a1b2c3d4,nop,nop,nop,eol>",
        "0 > . 1:1(0) ack 1 <nop,nop,md5 000102030405060708090a0b0c0d0e0f>",
        "0 > . 1:1(0) ack 1 <nop,ECN e1b 1 ceb 0 e0b 16777215>",
        "0 > . 1:1(0) ack 1 <ECN e0b 7,nop,nop,nop>",
        "0 > (ect01) . 1:1(0) ack 1",
        "0 < (ce,flowlabel 0x2a,ttl 3) 8080 > 99 . 1:1(0) ack 1 win 5",
        "0 > (tos 0x1c) . 1:1(0)",
        "0 < udp (100)",
        "0 > 5 > 6 udp (0)",
        "0 < icmp unreachable frag_needed mtu 1300 [1:1001(1000)]",
        "0 < icmp packet_too_big mtu 1280 [udp (8)]",
        "0 > icmp echo_reply id 7 [raw (8)]",
        "0 > icmp time_exceeded",
        "0 < ipv4 10.0.0.1 > 10.0.0.2: gre: ipv6 (ect0) fd00::1 > fd00::2: . 1:1(0) ack 1 win 5",
        "0 < gre flags 0x3000, sum 0x0000, off 0, key 0x5, seq 1: udp (3)",
        "0 < mpls (label 1, tc 0, ttl 64) (label 2, tc 7, [S], ttl 1): udp (3)",
        "0 > encap psp spi 9 . 1:1(0) ack 1",
    ]);
}

#[test]
fn forms_that_mean_the_same_are_equal() {
    for (one, other) in [
        ("0 > P5. 1:2(1) ack 1", "0 > P.5 1:2(1) ack 1"),
        ("0 > [ect0] . 1:1(0)", "0 > (ect0) . 1:1(0)"),
        ("0 > udp 5 > 6 (1)", "0 > 5 > 6 udp (1)"),
        (
            "0 < GREv0, flags [key present, sequence# present], sum 0, off 0, key = 5, seq 1: udp (3)",
            "0 < gre flags 0x3000, sum 0, off 0, key 5, seq 1: udp (3)",
        ),
        (
            "0 close(3) = -1 EBADF (Bad  file\n descriptor)",
            "0 close(3) = -1 EBADF (Bad file descriptor)",
        ),
        ("0 f(\"a\" \"b\") = 0", "0 f(\"ab\") = 0"),
    ] {
        assert_eq!(read(one), read(other), "{one}");
    }
    // The same bits; only the notation differs.
    let Action::Packet(packet) = read("0 > EAP. 1:2(1) ack 1").events.remove(0).action else {
        panic!("a packet")
    };
    let PacketBody::Tcp(tcp) = packet.body else { panic!("TCP") };
    assert_eq!(tcp.flags.ace(), 5);
}

#[test]
fn system_calls_print_as_they_are() {
    prints_as_it_is(&[
        "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3",
        "0 f() = ...",
        "0 fcntl(3, F_GETFL) = 0x2 (flags O_RDWR)",
        "0 read(3, ..., 1) = -1 EAGAIN (Resource temporarily unavailable)",
        "0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0",
        "0 setsockopt(3, SOL_SOCKET, SO_LINGER, {onoff=1, linger=5}, 8) = 0",
        "0 setsockopt(3, SOL_TCP, TCP_CONGESTION, \"reno\", 4) = 0",
        "0 getsockopt(3, SOL_TCP, TCP_CONGESTION, \"re\"..., [16]) = 0",
        "0 bind(3, {sa_family = AF_INET6, sin_port = htons(99), sin_addr = inet_addr(\"fd00::1\")}, ...) = 0",
        "0 connect(3, {sa_family = AF_UNSPEC}, 16) = 0",
        "0 poll([{fd=3, events=POLLIN|POLLOUT, revents=POLLOUT}, {fd=4, events=0}], 2, -1) = 1",
        "0 epoll_ctl(5, EPOLL_CTL_ADD, 4, {events=EPOLLIN|EPOLLET, fd=4}) = 0",
        "0 epoll_wait(5, {events=EPOLLIN, ptr=0x4}, 1, 0) = 1",
        "0 epoll_wait(5, [{events=EPOLLIN, u64=0xffffffffffffffff}, {events=1, u32=2}], 2, 0) = 2",
        "0 sendmsg(3, {msg_name(...)=..., msg_iov(2)=[{..., 10}, {..., 20}], msg_flags=0}, MSG_EOR) = 30",
        "0 recvmsg(3, {msg_name(...)=..., msg_iov(1)=[{..., 0}], msg_flags=MSG_ERRQUEUE, msg_control=[{cmsg_level=SOL_IP, cmsg_type=IP_RECVERR, cmsg_data={ee_errno=0, ee_origin=SO_EE_ORIGIN_ZEROCOPY, ee_type=0, ee_code=0, ee_info=0, ee_data=1}}, {cmsg_level=SOL_SOCKET, cmsg_type=SCM_TIMESTAMPING, cmsg_data={scm_sec=0, scm_nsec=10}}]}, 0) = 0",
        "0 setsockopt(3, SOL_TCP, TCP_MD5SIG, {x, [1, {}]}, 9) = 0",
        "0 f(A = 1, htons(5), inet_addr(\"1.2.3.4\"), inet6_addr(\"::1\"), []) = -1",
        "0 f({(label 1, tc 0, [S], ttl 2)}, {flags 0x2000, sum 0x0000, off 0, key 0x5, seq 0}) = 0",
        "0 f(\"a\\\"b\\\\\\x00\\xff\") = 0",
    ]);
}

#[test]
fn a_script_has_options_commands_and_code() {
    prints_as_it_is(&[
        "--mtu=1500\n--strict_segments\n`true`\n0 close(3) = 0\n+0 `sysctl -q a.b=1`\n+0 %{ assert 1, 'x' }%\n`false`",
    ]);
    let script = read("/* c */ `a` // d\n0 close(3) = 0 // e\n`b`");
    let texts = (script.init.map(|c| c.text), script.cleanup.map(|c| c.text));
    assert_eq!(texts, (Some("a".into()), Some("b".into())));
}

#[test]
fn symbols_replace_words_and_only_those() {
    let mut definitions = Definitions::default();
    for text in ["LEN=1000", "NAME=\"reno\"", "mss=1", "HOW=SHUT_WR", "COOKIE=a1b2", "N=7"] {
        definitions.define(text).expect("well-formed");
    }
    let text = "--define=N=5\n--define=M=`true`\n0 < S 0:0(0) win N <mss LEN,FO COOKIE>\n0 f(NAME, HOW) = 0\nM";
    let script = parse(text, &definitions).expect("parses");
    let expected = "--define=N=5\n--define=M=`true`\n0 < S 0:0(0) win 7 <mss 1000,FO a1b2>\n0 f(\"reno\", SHUT_WR) = 0\n`true`\n";
    assert_eq!(script.to_string(), expected);
}

#[test]
fn errors_have_a_place_and_say_what_was_expected() {
    for (text, line, column, part) in [
        ("", 1, 1, "expected an event"),
        ("0 close(3) = 0\n+ < S", 2, 3, "a time in seconds"),
        ("0 close 3", 1, 9, "expected '('"),
        ("0 close(3 4)", 1, 11, "expected ',' or ')'"),
        ("0 close(3) = 0 ENOTHING (x)", 1, 16, "unknown error number"),
        ("0 close(3) = 0 (x", 1, 16, "no ')'"),
        ("0 ? 1", 1, 3, "a packet, a system call"),
        ("`a`\n`b`\n0 close(3) = 0", 3, 1, "expected the end of the script"),
        ("0 close(3) = 0\n--mtu=3", 2, 1, "expected a time"),
        ("0 < S 0:1(0) win 1", 1, 9, "end at 0, not at 1"),
        ("0 < S 0:0(0)", 1, 3, "needs 'win N'"),
        ("0 < S 0:0(0) win 65536", 1, 18, "within 0 and 65535"),
        ("0 < S 0:0(0) win 1 <...>", 1, 3, "say which options"),
        ("0 < (ect01) S 0:0(0) win 1", 1, 3, "say ect0 or ect1"),
        ("* < S 0:0(0) win 1", 1, 1, "outbound packets only"),
        ("0~1 close(3) = 0", 1, 1, "outbound packets only"),
        ("2~1 > S 0:0(0)", 1, 1, "ends before it begins"),
        ("1...0.5 read(3) = 0", 1, 9, "return before it begins"),
        ("0 > Q 0:0(0)", 1, 5, "no TCP flags"),
        ("0 > PP 0:0(0)", 1, 5, "twice"),
        ("0 > E5 0:0(0)", 1, 5, "no TCP flags"),
        ("0 > 5E 0:0(0)", 1, 5, "twice"),
        ("0 > P.8 0:0(0)", 1, 5, "no TCP flags"),
        ("0 > S 0:0(0) <mss>", 1, 18, "expected an MSS"),
        ("0 > S 0:0(0) <foo 1>", 1, 15, "unknown TCP option 'foo'"),
        ("0 > S 0:0(0) <FO abc>", 1, 18, "even number"),
        ("0 > S 0:0(0) <wscale 1>", 1, 14, "pad them"),
        ("0 > . 1:1(0) <sack 1:2 1:2 1:2 1:2 1:2>", 1, 14, "more than 40 bytes"),
        ("0 > icmp nothing", 1, 10, "unknown ICMP type"),
        ("0 > icmp unreachable nothing", 1, 22, "unknown code"),
        ("0 > (ect0,ce) . 1:1(0)", 1, 13, "given twice"),
        ("0 > (foo) . 1:1(0)", 1, 6, "'flowlabel' or 'ttl'"),
        ("0 f({fd=1, x=2}) = 0", 1, 12, "expected 'events'"),
        ("0 f({sa_family = AF_INET}) = 0", 1, 5, "needs sin_port"),
        (
            "0 f({sa_family = AF_INET, sin_port = htons(1), sin_addr = inet_addr(\"::1\")}) = 0",
            1,
            69,
            "no address of AF_INET",
        ),
        ("0 f(99999999999999999999) = 0", 1, 5, "must be within"),
        ("0 %{ assert }%", 1, 1, "Python: expected an expression"),
        ("99999999999 close(3) = 0", 1, 1, "is no time"),
        ("-1 close(3) = 0", 1, 1, "is no time"),
        ("--define=A\n0 close(3) = 0", 1, 1, "SYMBOL=value"),
    ] {
        let error = refused(text);
        let found = (error.span.line, error.span.column);
        assert!(error.message.contains(part), "{text}: {error}");
        assert_eq!(found, (line, column), "{text}: {error}");
    }
}

#[test]
fn an_error_shows_its_line() {
    let text = "0 close(3) = 0\n\t+0 close(3 = 0";
    let error = refused(text);
    assert_eq!(
        error.render("a.pkt", text),
        "a.pkt:2:13: expected ',' or ')', found '='\n     +0 close(3 = 0\n                ^"
    );
}

#[test]
fn nesting_is_bounded() {
    for (open, close) in [("[", "]"), ("{", "}"), ("A=", ""), ("{fd=", "}")] {
        let text = format!("0 f({}1{}) = 0", open.repeat(10_000), close.repeat(10_000));
        assert!(refused(&text).message.contains("nested"), "{open}");
    }
    let headers = "gre: ".repeat(1000);
    assert!(refused(&format!("0 > {headers} udp (1)")).message.contains("more than"));
}

#[test]
fn the_list_of_what_is_unsupported_names_each_construct() {
    struct Little;
    impl super::super::Capabilities for Little {
        fn syscall(&self, call: &super::super::ast::Syscall) -> Result<(), String> {
            if call.name == "splice" { Err("system call splice".into()) } else { Ok(()) }
        }
        fn variable(&self, name: &str) -> Result<(), String> {
            if name.starts_with("tcpi_") { Ok(()) } else { Err(format!("variable {name}")) }
        }
    }
    let text = "--wire_client\n`sysctl -q a=1\niptables -F`\n0 splice(3) = 0\n0 %{ a = tcpi_rtt\nassert a < bbr_bw\nimport os }%";
    let script = read(text);
    let found: Vec<_> =
        unsupported(&script, &Little).into_iter().map(|item| (item.span.line, item.what)).collect();
    let expected = [
        (1, "option --wire_client"),
        (3, "shell command 'iptables -F'"),
        (4, "system call splice"),
        (6, "variable bbr_bw"),
        (7, "Python's 'import'"),
    ];
    assert_eq!(found, expected.map(|(line, what)| (line, what.to_owned())));
}
