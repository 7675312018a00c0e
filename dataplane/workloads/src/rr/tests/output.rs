//! What is printed, for fixed numbers.

use super::*;
use core::net::{IpAddr, Ipv4Addr};

fn latencies(micros: &[u64]) -> Box<Latencies> {
    let mut times = Latencies::new();
    for us in micros {
        times.record(Duration::from_micros(*us));
    }
    Box::new(times)
}

fn reports(mode: Mode) -> Vec<Report> {
    let second = Duration::from_secs(1);
    let setup = Setup {
        remote: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
        ports: vec![5201, 5202],
        locals: Vec::new(),
        request: 64,
        response: 128,
        mode,
        idle: 1000,
        time: 2 * second,
        count: None,
        omit: second,
    };
    let part = |start: u32, omitted: bool, micros: &[u64]| {
        Report::Interval(Interval {
            start: second * start,
            end: second * (start + 1),
            omitted,
            latency: latencies(micros),
            setup: matches!(mode, Mode::Connect { .. }).then(|| latencies(&[7, 8])),
            failures: Failures::default(),
        })
    };
    let mut lost = Failures::default();
    lost.count(Failure::NoPort);
    vec![
        Report::Begin(Box::new(setup)),
        Report::Standing(Standing {
            at: second / 2,
            held: 1000,
            opened: 1000,
            within: second / 2,
            complete: true,
        }),
        part(0, true, &[1_000_000]),
        part(0, false, &[10, 20, 30, 40]),
        part(1, false, &[50, 50_000]),
        Report::End(End::Complete, lost),
    ]
}

fn text(mode: Mode) -> String {
    let options = text::Options { intervals: true, time_wait_max: Some(16_384) };
    let mut renderer = text::Renderer::new(options);
    reports(mode).iter().map(|r| renderer.render(r)).collect()
}

const PING: &str = "\
rr to 10.0.0.1 2 ports 5201..5202: 64 B request, 128 B response, 1 connection, 4 outstanding on each, 1000 idle connections
   0.50 s  1000 idle connections stand, 2000 set up per second; all stand, 2000 per second on average
        seconds      trans/s      mean       p50       p99       max  microseconds
   0.00-1.00               1   1000079   1000342   1000342   1000342  (omitted)
   0.00-1.00               4    25.009    20.015    40.031    40.031
   1.00-2.00               2     25019    50.015     50004     50004
microseconds       min      mean       p50       p90       p99     p99.9    p99.99       max
round trip      10.000    8356.3    30.015     50004     50004     50004     50004     50004
6 transactions in 2.00 s: 3 per second, 1 failed
  1 x no local port left
      widen the range (--sysctl 'net.ipv4.ip_local_port_range=1024 65535') or spread over more ports of the server (-p 5201..5208 on both sides) or more addresses here (--address)
";

const CONNECT_TAIL: &str = "\
microseconds       min      mean       p50       p90       p99     p99.9    p99.99       max
set-up           7.000     7.502     7.003     8.003     8.003     8.003     8.003     8.003
connection      10.000    8356.3    30.015     50004     50004     50004     50004     50004
6 connections in 2.00 s: 3 per second, 1 failed
";

#[test]
fn text_for_people() {
    assert_eq!(text(Mode::Ping { connections: 1, outstanding: 4, rate: None }), PING);
    let connect = text(Mode::Connect { concurrency: 64, close: Close::FinClient });
    assert!(
        connect.contains("a connection each, 64 at once, the client closes first"),
        "{connect}"
    );
    assert!(connect.contains("at most 16384 records here"), "{connect}");
    assert!(connect.contains(CONNECT_TAIL), "{connect}");
}

#[test]
fn one_json_document() {
    let mut builder = json::Builder::default();
    let mode = Mode::Connect { concurrency: 64, close: Close::Rst };
    let mut documents: Vec<_> = reports(mode).iter().filter_map(|r| builder.push(r)).collect();
    let document = documents.pop().expect("with the last report");
    assert!(documents.is_empty());
    let keys: Vec<&String> = document.as_object().expect("an object").keys().collect();
    let expected = ["schema", "test", "idle", "intervals", "total", "failures", "end", "error"];
    assert_eq!(keys, expected);
    assert_eq!(document["schema"], "millrace-rr/1");
    assert_eq!(document["test"]["mode"], "connect");
    assert_eq!(document["test"]["close"], "rst");
    assert_eq!(document["test"]["omit_seconds"], 1.0);
    assert_eq!(document["idle"][0]["per_second"], 2000.0);
    assert_eq!(document["intervals"][1]["latency"]["p50_ns"], 20_015);
    assert_eq!(document["total"]["transactions"], 6);
    assert_eq!(document["total"]["per_second"], 3.0);
    assert_eq!(document["total"]["setup"]["min_ns"], 7000);
    assert_eq!(document["failures"]["no_local_port"], 1);
    assert_eq!(document["end"], "complete");
}
