//! Whole stacks in virtual time: directed worlds, and a swarm of drawn ones.

mod common;
mod faults;
mod iperf;
mod paths;
mod resources;
mod swarm;
