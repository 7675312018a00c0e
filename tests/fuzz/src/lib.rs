//! Fuzz targets: functions of bytes that panic when an invariant is broken.
//!
//! A target is deterministic: the same bytes always take the same way. Each has seeds, which are
//! readable and live in the code, and a corpus, which a fuzzer has found and which lies in
//! `tests/fuzz/corpus/TARGET`. They are used twice:
//!
//! - `tests/replay.rs` runs seeds, corpus and a bounded number of seeded mutations of both with
//!   every test run. `MILLRACE_SEED=N` draws others, `MILLRACE_FUZZ_RUNS=N` more of them.
//! - `cargo xtask fuzz TARGET` lets libFuzzer search, guided by coverage. What it finds becomes a
//!   small test named after what it shows, next to the code; its input joins the corpus.
//!
//! To see one input again: `MILLRACE_FUZZ_INPUT=FILE cargo test -p fuzz --test replay TARGET`.

#![forbid(unsafe_code)]

mod control;
pub mod corpus;
mod drill;
mod fragments;
mod frames;
mod headers;
mod input;
mod iperf;
mod scenario;
mod settings;
mod stack;

/// Inputs longer than this say nothing that shorter ones could not.
pub const INPUT_MAX: usize = 4096;

/// One thing to fuzz.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, also that of its corpus and of its binary in `runner/`.
    pub name: &'static str,
    /// What it looks at and what it takes for a fault.
    pub about: &'static str,
    /// One run.
    pub run: fn(&[u8]),
    /// Where to begin.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Mutations that every test run tries.
    pub mutations: u32,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "ethernet",
        about: "link header and VLAN tags: round trip, cut input, agreement with etherparse",
        run: headers::ethernet,
        seeds: frames::seeds,
        mutations: 10_000,
    },
    Target {
        name: "arp",
        about: "ARP: round trip",
        run: headers::arp,
        seeds: headers::arp_seeds,
        mutations: 10_000,
    },
    Target {
        name: "ipv4",
        about: "IPv4 header: lengths, round trip, cut input, agreement with etherparse",
        run: headers::ipv4,
        seeds: headers::ipv4_seeds,
        mutations: 10_000,
    },
    Target {
        name: "ipv6",
        about: "IPv6 header and extension headers: lengths, round trip, cut input, etherparse",
        run: headers::ipv6,
        seeds: headers::ipv6_seeds,
        mutations: 10_000,
    },
    Target {
        name: "icmpv4",
        about: "ICMP messages and what they quote: round trip, cut input",
        run: headers::icmpv4,
        seeds: headers::icmpv4_seeds,
        mutations: 10_000,
    },
    Target {
        name: "icmpv6",
        about: "ICMPv6 messages and what they quote: round trip, cut input",
        run: headers::icmpv6,
        seeds: headers::icmpv6_seeds,
        mutations: 10_000,
    },
    Target {
        name: "ndp",
        about: "neighbour discovery, checksum put right: round trip",
        run: headers::ndp,
        seeds: headers::ndp_seeds,
        mutations: 10_000,
    },
    Target {
        name: "tcp",
        about: "TCP header and options: round trip, cut input, agreement with etherparse",
        run: headers::tcp,
        seeds: headers::tcp_seeds,
        mutations: 10_000,
    },
    Target {
        name: "udp",
        about: "UDP header: round trip, cut input, agreement with etherparse",
        run: headers::udp,
        seeds: headers::udp_seeds,
        mutations: 10_000,
    },
    Target {
        name: "pretty",
        about: "the one-line printer: one line of printable text for any frame",
        run: headers::pretty,
        seeds: frames::seeds,
        mutations: 5_000,
    },
    Target {
        name: "reassembly",
        about: "fragments with time: each frame comes out once, whole datagrams only, bounds hold",
        run: fragments::run,
        seeds: fragments::seeds,
        mutations: 3_000,
    },
    Target {
        name: "stack",
        about: "segments, time and application calls against a whole stack: see src/stack",
        run: stack::run,
        seeds: stack::seeds,
        mutations: 250,
    },
    Target {
        name: "iperf_server",
        about: "what clients do to the iperf server: it serves the next client, keeps nothing",
        run: iperf::server,
        seeds: iperf::server_seeds,
        mutations: 500,
    },
    Target {
        name: "iperf_client",
        about: "what a server answers to the iperf client: it ends, and closes everything",
        run: iperf::client,
        seeds: iperf::client_seeds,
        mutations: 500,
    },
    Target {
        name: "control",
        about: "lines on the control socket: any cut into reads gives the same requests",
        run: control::run,
        seeds: control::seeds,
        mutations: 2_000,
    },
    Target {
        name: "config_file",
        about: "the start-up file: consistent, or one line with a place in the file",
        run: settings::file,
        seeds: settings::file_seeds,
        mutations: 1_000,
    },
    Target {
        name: "config_flags",
        about: "port flags of the command line: device strings, addresses, cores, sizes",
        run: settings::flags,
        seeds: settings::flags_seeds,
        mutations: 1_000,
    },
    Target {
        name: "knobs",
        about: "knob names and values: all or nothing, what is shown can be set again",
        run: settings::knobs,
        seeds: settings::knobs_seeds,
        mutations: 100,
    },
    Target {
        name: "drill",
        about: "packetdrill scripts: errors have a place, what parses prints to the same tree",
        run: drill::run,
        seeds: drill::seeds,
        mutations: 5_000,
    },
    Target {
        name: "scenario",
        about: "scenario files and paths: errors have a place, what is accepted can be run",
        run: scenario::run,
        seeds: scenario::seeds,
        mutations: 3_000,
    },
];

/// The target called `name`.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
