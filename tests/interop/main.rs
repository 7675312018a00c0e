//! The real binary with real peers, on every software device.

#![forbid(unsafe_code)]

mod addresses;
mod af_packet;
mod af_xdp;
mod basics;
mod echo;
mod ecn;
mod iperf_client;
mod iperf_server;
mod memif;
mod null;
mod operator;
mod pcap;
mod ports;
mod ring;
mod rough;
mod rr;
mod samples;
mod tap;
mod wire;
mod workers;
