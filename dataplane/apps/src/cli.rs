//! The command line as a person types it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config_cmd::ConfigArgs;
use crate::control::nstat::NstatArgs;
use crate::control::ss::SsArgs;
use crate::control::sysctl::SysctlArgs;
use crate::control::workers::WorkersArgs;
use crate::doctor::DoctorArgs;
use crate::drill::DrillArgs;
use crate::port_args::PortArgs;
use crate::sim::SimArgs;
use crate::wire_cmd::WireArgs;

/// Exit statuses, for `--help` of the whole program.
const EXIT_HELP: &str = "\
Exit status: 0 done, 1 the test or transfer failed, 2 usage or configuration, 3 not supported or the \
environment is not ready, 4 no such instance, 5 partly done.";

/// A TCP dataplane on DPDK.
#[derive(Parser, Debug)]
#[command(name = "millrace", version, about = "A TCP dataplane on DPDK", after_help = EXIT_HELP, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run a dataplane with the applications named in a file
    Run(RunArgs),
    /// An iperf3-compatible server or client over a DPDK port
    Iperf(Box<IperfArgs>),
    /// Latency of requests and responses, and short connections per second
    Rr(Box<RrArgs>),
    Sim(Box<SimArgs>),
    Wire(Box<WireArgs>),
    Drill(Box<DrillArgs>),
    Sysctl(SysctlArgs),
    Ss(SsArgs),
    Nstat(NstatArgs),
    Workers(WorkersArgs),
    Config(ConfigArgs),
    Doctor(Box<DoctorArgs>),
    /// Completions for a shell, on standard output
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// Which running dataplane.
#[derive(Args, Debug)]
pub(crate) struct Instance {
    /// Name of the running dataplane
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) instance: String,
}

#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// The start-up file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Say more about what is done and why
    #[arg(short = 'V', long)]
    pub(crate) verbose: bool,
}

/// What idle workers do.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Idle {
    /// Spin for a while, then sleep in short naps: leaves the core to others
    Adaptive,
    /// Never give the core away
    Poll,
}

/// Whom to believe about checksums of received frames.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum RxChecksum {
    /// Verify whatever the device has not verified
    Verify,
    /// Believe the link
    Trust,
}

/// The ports, as flags instead of a file. Through [`PortArgs`], which keeps their order.
#[derive(Args, Debug)]
#[command(next_help_heading = "Port")]
pub(crate) struct DataplaneArgs {
    /// Take port, limits and knobs from this file (its applications are not started)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["vdev", "pci"])]
    pub(crate) config: Option<PathBuf>,
    /// A virtual device, such as net_af_packet0,iface=veth0; with several, each is a port, and the
    /// flags that describe it follow it
    #[arg(id = "vdev", long = "vdev", value_name = "DEVICE")]
    pub(crate) vdevs: Vec<String>,
    /// A NIC by its address, such as 0000:03:00.0; also several
    #[arg(id = "pci", long = "pci", value_name = "BDF")]
    pub(crate) pcis: Vec<String>,
    /// Our address on the port with its prefix, such as 10.0.0.2/24 or fd00::2/64; several are
    /// possible
    #[arg(id = "address", long = "address", value_name = "ADDR/LEN")]
    pub(crate) addresses: Vec<String>,
    /// Next hop by the port for everything else; one per family
    #[arg(id = "gateway", long = "gateway", value_name = "ADDR")]
    pub(crate) gateways: Vec<String>,
    /// Largest IP packet of the port
    #[arg(id = "mtu", long = "mtu", value_name = "BYTES")]
    pub(crate) mtus: Vec<u16>,
    /// Checksums of frames received by the port
    #[arg(id = "rx-checksum", long = "rx-checksum", value_name = "POLICY")]
    pub(crate) rx_checksums: Vec<RxChecksum>,
    /// Cores of the workers, such as 1 or 2,3; without it the scheduler decides
    #[arg(long, value_name = "LIST")]
    pub(crate) cores: Option<String>,
    /// What idle workers do
    #[arg(long, value_name = "POLICY")]
    pub(crate) idle: Option<Idle>,
    /// Memory for buffers, such as 256MiB
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// Buffers for frames and payload, per worker
    #[arg(long, value_name = "N")]
    pub(crate) buffers: Option<u32>,
    /// Connections at most, per worker
    #[arg(long, value_name = "N")]
    pub(crate) connections: Option<u32>,
    /// TIME-WAIT records at most, per worker (net.ipv4.tcp_max_tw_buckets)
    #[arg(long, value_name = "N")]
    pub(crate) time_wait: Option<u32>,
    /// Use hugepages
    #[arg(long)]
    pub(crate) hugepages: bool,
    /// Defaults of the knobs: millrace or linux
    #[arg(long, value_name = "PROFILE")]
    pub(crate) profile: Option<String>,
    /// Set a knob, such as net.ipv4.tcp_congestion_control=reno; several are possible
    #[arg(long = "sysctl", value_name = "NAME=VALUE")]
    pub(crate) sysctls: Vec<String>,
    /// Name of this dataplane for sysctl, ss and nstat
    #[arg(long, value_name = "NAME")]
    pub(crate) instance: Option<String>,
}

/// The flags of iperf3. Short letters are those of the original.
#[derive(Args, Debug)]
#[command(disable_version_flag = true)]
pub(crate) struct IperfArgs {
    /// Run as a server
    #[arg(short, long)]
    pub(crate) server: bool,
    /// Run as a client of HOST, an address
    #[arg(short, long, value_name = "HOST")]
    pub(crate) client: Option<String>,
    /// Two stacks in this process, a server and a client, over a crossed net_ring pair: needs no
    /// interface, no hugepages and no root
    #[arg(long)]
    pub(crate) ring: bool,

    /// Port to listen on or connect to
    #[arg(short, long, default_value_t = workloads::iperf::DEFAULT_PORT, value_parser = clap::value_parser!(u16).range(1..), help_heading = "Both roles")]
    pub(crate) port: u16,
    /// Format of rates: k m g t for bits, K M G T for bytes
    #[arg(short, long, value_name = "LETTER", help_heading = "Both roles")]
    pub(crate) format: Option<char>,
    /// Seconds between reports, 0.1 to 60; 0 for none
    #[arg(short, long, value_name = "SECS", default_value_t = 1.0, help_heading = "Both roles")]
    pub(crate) interval: f64,
    /// One JSON document at the end
    #[arg(short = 'J', long, help_heading = "Both roles")]
    pub(crate) json: bool,
    /// One JSON object per line while the test runs
    #[arg(long, help_heading = "Both roles")]
    pub(crate) json_stream: bool,
    /// Say more
    #[arg(short = 'V', long, help_heading = "Both roles")]
    pub(crate) verbose: bool,
    /// Milliseconds without data until a receiving side gives up, at least 100
    #[arg(long, value_name = "MS", help_heading = "Both roles")]
    pub(crate) rcv_timeout: Option<u64>,
    /// Print the version
    #[arg(short = 'v', long, help_heading = "Both roles")]
    pub(crate) version: bool,
    /// Listen at, or connect from, this address of ours only
    #[arg(short = 'B', long, value_name = "ADDR", help_heading = "Both roles")]
    pub(crate) bind: Option<std::net::IpAddr>,

    /// Serve one test, then exit
    #[arg(short = '1', long, help_heading = "Server")]
    pub(crate) one_off: bool,

    /// Seconds to transmit (default 10)
    #[arg(short, long, value_name = "SECS", help_heading = "Client")]
    pub(crate) time: Option<u32>,
    /// Bytes to transmit (instead of -t); K M G T are powers of 1024
    #[arg(short = 'n', long, value_name = "N[KMGT]", help_heading = "Client")]
    pub(crate) bytes: Option<String>,
    /// Blocks to transmit (instead of -t or -n)
    #[arg(short = 'k', long, value_name = "N[KMGT]", help_heading = "Client")]
    pub(crate) blockcount: Option<String>,
    /// Length of a block (default 128 KiB)
    #[arg(short, long, value_name = "N[KMG]", help_heading = "Client")]
    pub(crate) length: Option<String>,
    /// Streams
    #[arg(short = 'P', long, default_value_t = 1, help_heading = "Client")]
    pub(crate) parallel: u32,
    /// The server sends
    #[arg(short = 'R', long, help_heading = "Client")]
    pub(crate) reverse: bool,
    /// Both send
    #[arg(long, help_heading = "Client")]
    pub(crate) bidir: bool,
    /// Target rate of each stream in bits/s, and a burst in blocks; powers of 1000
    #[arg(
        short,
        long,
        visible_alias = "bandwidth",
        value_name = "RATE[KMG][/BURST]",
        help_heading = "Client"
    )]
    pub(crate) bitrate: Option<String>,
    /// Socket buffers; turns autotuning off
    #[arg(short, long, value_name = "N[KMG]", help_heading = "Client")]
    pub(crate) window: Option<String>,
    /// Maximum segment size
    #[arg(short = 'M', long, value_name = "BYTES", help_heading = "Client")]
    pub(crate) set_mss: Option<u16>,
    /// No Nagle
    #[arg(short = 'N', long, help_heading = "Client")]
    pub(crate) no_delay: bool,
    /// Congestion control
    #[arg(
        short = 'C',
        long,
        visible_alias = "linux-congestion",
        value_name = "ALGO",
        help_heading = "Client"
    )]
    pub(crate) congestion: Option<String>,
    /// IPv4 only
    #[arg(short = '4', long, conflicts_with = "version6", help_heading = "Client")]
    pub(crate) version4: bool,
    /// IPv6 only
    #[arg(short = '6', long, help_heading = "Client")]
    pub(crate) version6: bool,
    /// Seconds at the beginning that do not count
    #[arg(short = 'O', long, value_name = "SECS", default_value_t = 0, help_heading = "Client")]
    pub(crate) omit: u32,
    /// First local port
    #[arg(long, value_name = "PORT", help_heading = "Client")]
    pub(crate) cport: Option<u16>,
    /// Milliseconds until connecting fails
    #[arg(long, value_name = "MS", help_heading = "Client")]
    pub(crate) connect_timeout: Option<u64>,
    /// Fetch the server's output, too
    #[arg(long, help_heading = "Client")]
    pub(crate) get_server_output: bool,
    /// Prefix of each line, and a key of the JSON document
    #[arg(short = 'T', long, value_name = "TEXT", help_heading = "Client")]
    pub(crate) title: Option<String>,
    /// A key of the JSON document
    #[arg(long, value_name = "TEXT", help_heading = "Client")]
    pub(crate) extra_data: Option<String>,
    /// Digits as payload instead of random bytes
    #[arg(long, help_heading = "Client")]
    pub(crate) repeating_payload: bool,
    /// UDP: not there yet, refused
    #[arg(short, long, help_heading = "Client")]
    pub(crate) udp: bool,

    #[command(flatten)]
    pub(crate) ports: PortArgs,
}

/// How short connections end.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Close {
    /// The client resets: nothing is left behind
    Rst,
    /// The client closes first and keeps TIME-WAIT
    FinClient,
    /// The server closes first and keeps TIME-WAIT
    FinServer,
}

/// What `--help` of rr says at its end.
const RR_HELP: &str = "\
Requests say how they are to be answered, so a server needs no sizes. Against an ordinary echo server leave both \
sizes equal. Times are those of the turns that send and receive: on a worker that polls (--idle poll, which belongs \
on a core of its own) one may be off by the length of an idle turn, about 0.1 us; the mean of a single connection is \
exact. With --rate a time begins when its request was due, so a stall counts for all that waited (no coordinated \
omission).

Exit status: 0 done, 1 nothing was measured or the test broke off, 2 usage, 3 environment, 5 done with failures.";

/// Requests, responses, short connections, idle connections.
#[derive(Args, Debug)]
#[command(after_help = RR_HELP)]
pub(crate) struct RrArgs {
    /// Run as a server
    #[arg(short, long)]
    pub(crate) server: bool,
    /// Run as a client of HOST, an address (with --raw: whoever is on the link)
    #[arg(short, long, value_name = "HOST", num_args = 0..=1, default_missing_value = "")]
    pub(crate) client: Option<String>,
    /// Two stacks in this process, a server and a client, over a crossed net_ring pair
    #[arg(long)]
    pub(crate) ring: bool,
    /// Frames instead of TCP: the server sends each frame back as it is, with no stack on the port;
    /// needs no address
    #[arg(long, conflicts_with_all = ["connect", "hold", "rate", "outstanding", "parallel", "request_size", "response_size", "hdr_log"])]
    pub(crate) raw: bool,
    /// With --raw: bytes of a frame without check sequence; 118 is what carries 64 bytes over TCP
    #[arg(long, value_name = "BYTES", default_value_t = 118, requires = "raw")]
    pub(crate) frame_size: usize,

    /// Ports to listen on or connect to, such as 5210 or 5201..5208 or 5201,5203
    #[arg(short, long = "port", value_name = "PORTS", help_heading = "Both roles")]
    pub(crate) ports: Option<String>,
    /// Bytes of a request (default 64); on a server: of clients that do not say
    #[arg(long, value_name = "N[KM]", help_heading = "Both roles")]
    pub(crate) request_size: Option<String>,
    /// Bytes of a response (default 64); on a server: for clients that do not say, which otherwise
    /// get as many bytes as they sent
    #[arg(long, value_name = "N[KM]", help_heading = "Both roles")]
    pub(crate) response_size: Option<String>,

    /// Listen at, or connect from, this address of ours only; without it a client's connections begin
    /// at all addresses in the server's network in turn
    #[arg(short = 'B', long, value_name = "ADDR", help_heading = "Both roles")]
    pub(crate) bind: Option<std::net::IpAddr>,

    /// Seconds to measure (default 10)
    #[arg(short, long, value_name = "SECS", help_heading = "Client")]
    pub(crate) time: Option<f64>,
    /// Transactions to measure (instead of -t); K M G are powers of 1000
    #[arg(
        short = 'n',
        long,
        value_name = "N[KMG]",
        conflicts_with = "time",
        help_heading = "Client"
    )]
    pub(crate) transactions: Option<String>,
    /// Seconds at the beginning that do not count
    #[arg(short = 'O', long, value_name = "SECS", default_value_t = 0.0, help_heading = "Client")]
    pub(crate) omit: f64,
    /// Seconds between reports, at least 0.1; 0 for none
    #[arg(short, long, value_name = "SECS", default_value_t = 1.0, help_heading = "Client")]
    pub(crate) interval: f64,
    /// Connections
    #[arg(
        short = 'P',
        long,
        default_value_t = 1,
        conflicts_with = "connect",
        help_heading = "Client"
    )]
    pub(crate) parallel: u32,
    /// Requests under way on each connection at most
    #[arg(
        long,
        visible_alias = "burst",
        value_name = "N",
        default_value_t = 1,
        conflicts_with = "connect",
        help_heading = "Client"
    )]
    pub(crate) outstanding: u32,
    /// Requests per second over all connections, sent when they are due; K M G are powers of 1000
    #[arg(long, value_name = "N[KMG]", conflicts_with = "connect", help_heading = "Client")]
    pub(crate) rate: Option<String>,
    /// A connection for each request: connect, request, response, close
    #[arg(long, help_heading = "Client")]
    pub(crate) connect: bool,
    /// Short connections at once
    #[arg(long, value_name = "N", default_value_t = 64, help_heading = "Client")]
    pub(crate) concurrency: u32,
    /// How short connections end
    #[arg(long, value_name = "HOW", default_value = "rst", help_heading = "Client")]
    pub(crate) close: Close,
    /// First open so many connections and hold them idle
    #[arg(long, value_name = "N[KM]", help_heading = "Client")]
    pub(crate) hold: Option<String>,
    /// Seconds that a connection may take, or may leave requests unanswered
    #[arg(long, value_name = "SECS", default_value_t = 10.0, help_heading = "Client")]
    pub(crate) timeout: f64,
    /// One JSON document at the end (docs/rr-json.md)
    #[arg(long, help_heading = "Client")]
    pub(crate) json: bool,
    /// Write histograms in the log format of HdrHistogram
    #[arg(long, value_name = "FILE", help_heading = "Client")]
    pub(crate) hdr_log: Option<PathBuf>,
    /// IPv4 only
    #[arg(short = '4', long, conflicts_with = "version6", help_heading = "Client")]
    pub(crate) version4: bool,
    /// IPv6 only
    #[arg(short = '6', long, help_heading = "Client")]
    pub(crate) version6: bool,

    #[command(flatten)]
    pub(crate) dataplane: PortArgs,
}
