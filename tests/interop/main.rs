//! The real binary against the kernel, over `net_af_packet` and veth.

#![forbid(unsafe_code)]

mod basics;
mod echo;
mod iperf_client;
mod iperf_server;
mod operator;
mod ports;
mod rough;
mod rr;
