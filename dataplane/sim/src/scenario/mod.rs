//! Scenario files: a network, what runs on it and what is expected of it, written by hand.
//!
//! - [`units`] and [`link_keys`] are also the grammar of paths (`millrace wire`).

pub mod link_keys;
pub mod units;
mod value;

pub use value::{Fault, FaultKind, Problem};
