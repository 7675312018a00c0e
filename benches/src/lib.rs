//! Benchmarks and the small programs that the benchmark scripts need.
//!
//! Binaries: `engine` runs two complete stacks in memory on one core, ours and smoltcp's, through the
//! same device and with the same copies; `null` receives and drops frames; `system` measures whole
//! processes over memif; `machine-state` tells in which of its hidden states a shared
//! virtual machine is; `udp-sink` is the kernel socket into which a device's own transmit limit is
//! measured. `scripts/bench` runs all of them; figures with their method are in
//! `docs/performance.md`.

#![forbid(unsafe_code)]

pub mod callgrind;
pub mod engine;
pub mod frames;
pub mod probe;
pub mod repeats;
pub mod system;
