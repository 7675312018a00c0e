//! Benchmarks and the small programs that the benchmark scripts need.
//!
//! `machine-state` tells in which of its hidden states a shared virtual machine is, `udp-sink` is the
//! kernel socket into which a device's own transmit limit is measured, `two-stacks` joins two stacks in
//! memory without a device. The scripts that use them print ratios of one run; figures with their
//! method are in `docs/performance.md`.

#![forbid(unsafe_code)]
