//! The iperf client against the iperf server, text and all, in virtual time.

use core::time::Duration;

use base::Rate;
use config::Profile;
use sim::{HostConfig, HostId, LinkConfig, World};
use workloads::iperf::{
    Client, ClientConfig, Direction, Params, Report, Server, ServerConfig, SilentHost, Summary,
    text,
};

use crate::common::{SEED, address, at_secs, link, ms, or_panic, secs};

/// What a client has printed and measured.
struct Outcome {
    world: World,
    client: HostId,
    server: HostId,
    exit: u8,
    client_text: String,
    server_text: String,
    summary: Summary,
    omits: bool,
}

fn run(link: LinkConfig, ipv6: bool, params: Params) -> Outcome {
    let mut world = World::new(SEED);
    let seconds = u64::from(params.time_secs + params.omit_secs);
    let omits = params.omit_secs > 0;
    let mut config =
        ClientConfig::new(address(2, ipv6, workloads::iperf::DEFAULT_PORT), Box::new(SilentHost));
    config.params = params;
    config.verify = config.params.repeating_payload;
    let client = Box::new(Client::new(config));
    let mut server = ServerConfig::new(Box::new(SilentHost));
    server.one_off = true;
    let server = Box::new(Server::new(server));
    let client = world.add_host(HostConfig::new("client", Profile::Linux), client);
    let server = world.add_host(HostConfig::new("server", Profile::Linux), server);
    world.connect(client, server, link);
    or_panic(world.expect_by(at_secs(seconds + 20), "both have exited", |w| {
        w.host(client).exit().is_some() && w.host(server).exit().is_some()
    }));
    let exit = world.host(client).exit().unwrap_or(1);
    let reports = world.host_mut(client).take_published::<Report>();
    let client_text = render(&reports);
    let server_text = render(&world.host_mut(server).take_published::<Report>());
    let summary = reports.into_iter().find_map(|r| match r {
        Report::Summary(summary) => Some(*summary),
        _ => None,
    });
    let summary = summary.unwrap_or_else(|| panic!("no summary:\n{client_text}\n{server_text}"));
    Outcome { world, client, server, exit, client_text, server_text, summary, omits }
}

fn render(reports: &[Report]) -> String {
    let mut renderer = text::Renderer::new(text::Options::default());
    let mut text = String::new();
    for report in reports {
        let rendered = renderer.render(report);
        text += &rendered.out;
        text += &rendered.err;
    }
    text
}

impl Outcome {
    fn text(&self) -> String {
        format!("client:\n{}\nserver:\n{}", self.client_text, self.server_text)
    }

    /// It went well, and what one end sent the other has received, up to what was queued.
    fn check(&mut self, least: Rate) {
        let text = self.text();
        assert_eq!(self.exit, 0, "{text}");
        assert_eq!(self.world.host(self.server).exit(), Some(0), "{text}");
        for sender in self.summary.directions() {
            let (sent, received) = self.summary.totals(sender);
            let (sent, received) = (sent.expect(&text), received.expect(&text));
            // What was in flight when the omitted time was over counts at the receiver only.
            assert!(self.omits || received.bytes <= sent.bytes, "{text}");
            let rate = Rate::from_transfer(received.bytes, received.duration);
            assert!(rate >= least, "{rate:?}, {least:?} at least\n{text}");
        }
        assert!(self.client_text.ends_with("\niperf Done.\n"), "{text}");
        or_panic(self.world.expect_quiet(secs(300)));
    }
}

fn params(direction: Direction, time_secs: u32) -> Params {
    Params { direction, time_secs, ..Params::default() }
}

fn mbit(mbit: u64) -> Rate {
    Rate::from_bits_per_sec(mbit * 1_000_000)
}

#[test]
fn forward_with_its_text() {
    let mut out = run(link(100, ms(10)), false, params(Direction::Forward, 3));
    out.check(mbit(70));
    let text = out.text();
    for line in ["Connecting to host 10.0.0.2, port 5201", "[ ID] Interval", "sender", "receiver"] {
        assert!(out.client_text.contains(line), "{line:?} missing\n{text}");
    }
    assert!(out.server_text.contains("Accepted connection from 10.0.0.1"), "{text}");
    // Three intervals of a second each.
    let rows = out.client_text.lines().filter(|l| l.contains("Mbits/sec")).count();
    assert_eq!(rows, 3 + 2, "{text}");
    assert!(out.world.host(out.client).turns() > 0);
}

#[test]
fn reverse() {
    let mut out = run(link(100, ms(5)), true, params(Direction::Reverse, 2));
    out.check(mbit(60));
    assert!(out.client_text.contains("Reverse mode, remote host fd00::2 is sending"));
}

#[test]
fn both_directions() {
    let mut out = run(link(50, ms(5)), false, params(Direction::Bidirectional, 3));
    // Windows are no limit, so each direction fills its queue, and acknowledgements wait behind data.
    out.check(mbit(20));
    assert!(out.client_text.contains("[TX-C]") && out.client_text.contains("[RX-C]"));
}

#[test]
fn parallel_streams_verified_with_an_omitted_second() {
    let params = Params {
        parallel: 4,
        omit_secs: 1,
        repeating_payload: true,
        ..params(Direction::Forward, 2)
    };
    let mut out = run(link(100, ms(5)), false, params);
    out.check(mbit(60));
    assert!(out.client_text.contains("[SUM]"));
}

#[test]
fn a_number_of_bytes_and_a_rate() {
    let bytes = Params { num: 5_000_000, time_secs: 0, ..Params::default() };
    let mut out = run(link(100, ms(5)), false, bytes);
    out.check(mbit(10));
    let paced = Params { bandwidth: 8_000_000, ..params(Direction::Forward, 4) };
    let mut out = run(link(100, ms(5)), false, paced);
    out.check(mbit(7));
    let (_, received) = out.summary.totals(true);
    let received = received.expect("a receiver");
    let limit = Duration::from_secs(4).as_secs() * 1_100_000;
    assert!(received.bytes <= limit, "{received:?}");
}
